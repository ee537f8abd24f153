//! The world around the engine: clocks, the store's pace, the executor, and a script that disturbs them all.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use cadran_core::{
    Batch, Command, Found, JobId, Millis, Now, Order, Policy, Reply, Report, RunId, RunStatus, SkipReason,
};
use cadran_engine::{Effects, Engine, Event, JobChange, Options, Restored, RestoredJob, RestoredRun, Token};
use cadran_plan::index::{Buffers, Index, build};

use crate::dice::Dice;
use crate::fleet::{self, MIN, SEC};
use crate::hands::Hands;
use crate::law::{Checker, Violation, broken};
use crate::play::Tally;
use crate::record::Record;
use crate::script::Script;

/// Turns at one and the same moment before the engine counts as waking for nothing.
const SPINS_MAX: u32 = 1_000;

/// How long a lazy loop sleeps: less than the pre-read window of five seconds, so that nothing is promised late.
const LAZY_MS: Millis = 4_000;

/// A batch on its way to the store and back.
struct Sending {
    seqs: Vec<u64>,
    batches: Vec<Batch>,
    durable_at: Millis,
    answer_at: Millis,
    /// The promises that were refused, once it is durable.
    refused: Option<Vec<RunId>>,
}

/// What a command that is on its way was.
enum Asked {
    Trigger,
    Pause(u64),
    Other,
}

/// Everything that is simulated.
pub(crate) struct World<'a, R> {
    pub(crate) script: &'a Script,
    pub(crate) engine: Engine,
    pub(crate) record: R,
    pub(crate) hands: Hands,
    pub(crate) law: Checker,
    options: Options,
    /// The true time, by which everything but the engine's wall clock goes.
    pub(crate) mono: Millis,
    /// What the wall clock shows beyond the true time.
    offset: Millis,
    /// Until when the wall clock stands still, what it shows, and whether it leaps then.
    frozen: Option<(Millis, Millis, bool)>,
    /// When the server is back, while it is down.
    pub(crate) down_until: Option<Millis>,
    stalled_until: Millis,
    store_away_until: Millis,
    pub(crate) store_slow: (Millis, Millis),
    pub(crate) storm_until: Millis,
    /// The server dies after so many further effects and is back after so long.
    pub(crate) crash_after: Option<(u64, Millis)>,
    queue: VecDeque<(u64, Batch)>,
    sending: Option<Sending>,
    reports: BTreeMap<(Millis, u64), Report>,
    built: Option<(Millis, Arc<Index>)>,
    /// What the executor's journal tells the next server.
    found: Vec<Found>,
    mail: Vec<Event>,
    wake_at: Millis,
    next_act: usize,
    /// Job files as they lie on disk: the number of their definition.
    pub(crate) files: BTreeMap<u64, usize>,
    asked: BTreeMap<Token, Asked>,
    pub(crate) answers: BTreeMap<Token, Option<RunId>>,
    pub(crate) keep_answers: bool,
    tokens: u64,
    draws: u64,
    pub(crate) newest: VecDeque<RunId>,
    /// Runs of each job that hold it, as far as one can see.
    busy: BTreeMap<JobId, BTreeSet<RunId>>,
    /// Jobs whose pause was acknowledged.
    paused: BTreeSet<u64>,
    /// The latest command to resume each job.
    resumed: BTreeMap<u64, Token>,
    buffers: Buffers,
    /// The loop sleeps for some seconds while nothing is in the air: still inside the pre-read window.
    pub(crate) lazy: bool,
    pub(crate) turns: u64,
}

impl<'a, R: Record> World<'a, R> {
    pub(crate) fn new(script: &'a Script, record: R, retries: bool) -> World<'a, R> {
        let options = Options::default();
        let mut hands = Hands::new(script.seed);
        hands.forgets = !retries;
        let mono = 1_000_000;
        let mut world = World {
            script,
            engine: Engine::new(options.clone()),
            record,
            hands,
            law: Checker::new(script.definitions.clone(), retries),
            options,
            mono,
            offset: script.start - mono,
            frozen: None,
            down_until: None,
            stalled_until: 0,
            store_away_until: 0,
            store_slow: (0, 0),
            storm_until: 0,
            crash_after: None,
            queue: VecDeque::new(),
            sending: None,
            reports: BTreeMap::new(),
            built: None,
            found: Vec::new(),
            mail: Vec::new(),
            wake_at: mono,
            next_act: 0,
            files: BTreeMap::new(),
            asked: BTreeMap::new(),
            answers: BTreeMap::new(),
            keep_answers: false,
            tokens: 0,
            draws: 0,
            newest: VecDeque::new(),
            busy: BTreeMap::new(),
            paused: BTreeSet::new(),
            resumed: BTreeMap::new(),
            buffers: Buffers::default(),
            lazy: false,
            turns: 0,
        };
        world.engine.restore(Restored::default(), world.now());
        world
    }

    pub(crate) fn began(&self) -> Millis {
        1_000_000
    }

    pub(crate) fn now(&self) -> Now {
        let wall = self.frozen.map_or(self.mono + self.offset, |(_, shows, _)| shows);
        Now { wall, mono: self.mono }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.down_until.is_none()
    }

    fn luck(&mut self, kind: u64) -> Dice {
        self.draws += 1;
        Dice::of(&[self.script.seed, kind, self.draws])
    }

    // ---- faults ----

    pub(crate) fn set_clock(&mut self, by: Millis) {
        self.offset += by;
        if let Some((_, shows, _)) = &mut self.frozen {
            *shows += by;
        }
    }

    pub(crate) fn freeze(&mut self, long: Millis, leaps: bool) {
        if self.frozen.is_none() {
            self.frozen = Some((self.mono + long, self.mono + self.offset, leaps));
        }
    }

    pub(crate) fn thaw(&mut self) {
        if let Some((_, shows, leaps)) = self.frozen.take()
            && !leaps
        {
            self.offset = shows - self.mono;
        }
    }

    pub(crate) fn stall(&mut self, long: Millis) {
        self.stalled_until = self.stalled_until.max(self.mono + long);
    }

    pub(crate) fn store_away(&mut self, long: Millis) {
        self.store_away_until = self.store_away_until.max(self.mono + long);
        if let Some(sending) = &mut self.sending {
            sending.durable_at = sending.durable_at.max(self.mono + long);
            sending.answer_at = sending.answer_at.max(self.mono + long + 1);
        }
    }

    /// Everything is well again.
    pub(crate) fn calm(&mut self) {
        self.thaw();
        self.stalled_until = 0;
        self.store_away_until = 0;
        self.store_slow = (0, 0);
        self.storm_until = 0;
        self.crash_after = None;
        self.next_act = self.script.acts.len();
        let mono = self.mono;
        self.down_until = self.down_until.map(|at| at.min(mono));
        if let Some(sending) = &mut self.sending {
            sending.durable_at = sending.durable_at.min(mono);
            sending.answer_at = sending.answer_at.min(mono);
        }
    }

    pub(crate) fn lose_attempts(&mut self, silent: bool) {
        let mut reports = Vec::new();
        self.hands.lose(silent, self.now(), &mut reports);
        self.send_reports(reports);
    }

    /// The server is killed.
    pub(crate) fn crash(&mut self, down: Millis) {
        self.crash_after = None;
        self.queue.clear();
        self.sending = None;
        self.built = None;
        self.mail.clear();
        self.asked.clear();
        self.paused.clear();
        // Most reports die with the server; a few come from so far away that they arrive at the next one.
        let mut dice = self.luck(1);
        self.reports.retain(|_, _| dice.percent(30));
        // Its processes go with it, at once; what the journal says of them is asked for at the next start.
        self.found = self.hands.die();
        self.down_until = Some(self.mono + down);
    }

    /// The server ends in good order: attempts are stopped, what is left is made durable.
    pub(crate) fn end_in_order(&mut self, down: Millis) -> Result<(), Violation> {
        let now = self.now();
        self.engine.handle(Event::Stopping, now);
        self.carry_out()?;
        let mut reports = Vec::new();
        self.hands.stop_all(now, &mut reports);
        self.engine.handle(Event::Reports(reports), now);
        self.carry_out()?;
        if self.mono >= self.store_away_until {
            let mut rest: Vec<Batch> = Vec::new();
            if let Some(sending) = self.sending.take().filter(|sending| sending.refused.is_none()) {
                rest.extend(sending.batches);
            }
            rest.extend(self.queue.drain(..).map(|(_, batch)| batch));
            self.commit(rest)?;
        }
        self.crash(down);
        Ok(())
    }

    // ---- what people do ----

    /// A removed job is not paused any more, should it come back.
    pub(crate) fn forget_pause(&mut self, job: u64) {
        self.paused.remove(&job);
        self.resumed.insert(job, Token(self.tokens));
    }

    pub(crate) fn tell_jobs(&mut self, changes: Vec<JobChange>) {
        if self.is_up() {
            self.mail.push(Event::Jobs(changes));
        }
    }

    pub(crate) fn change(&self, no: usize) -> JobChange {
        let job = self.script.definitions[no].clone();
        let source = format!("{}.yaml", job.name).into();
        JobChange::Put { job, definition: no.to_string().into(), source, source_mark: "".into() }
    }

    pub(crate) fn command(&mut self, command: Command, job: u64) -> Option<Token> {
        if !self.is_up() {
            return None;
        }
        self.tokens += 1;
        let token = Token(self.tokens);
        let asked = match &command {
            Command::Trigger { job, .. } => {
                self.law.asked.entry(job.to_string()).or_default().0 += 1;
                Asked::Trigger
            }
            Command::Pause { .. } => Asked::Pause(job),
            Command::Resume { .. } => {
                self.paused.remove(&job);
                self.resumed.insert(job, token);
                Asked::Other
            }
            _ => Asked::Other,
        };
        self.asked.insert(token, asked);
        self.mail.push(Event::Command(token, command));
        Some(token)
    }

    // ---- how time goes ----

    /// Lets the world go on to a moment of the true time.
    pub(crate) fn run_to(&mut self, end: Millis) -> Result<(), Violation> {
        let mut spins = 0;
        loop {
            let before = self.mono;
            while let Some((at, _)) = self.script.acts.get(self.next_act)
                && self.began() + at <= self.mono
            {
                self.next_act += 1;
                self.act(self.next_act - 1)?;
            }
            self.happen()?;
            let next = self.next_moment();
            if next >= end {
                self.mono = self.mono.max(end);
                return Ok(());
            }
            self.mono = self.mono.max(next);
            spins = if self.mono == before { spins + 1 } else { 0 };
            if spins > SPINS_MAX {
                let wake = self.engine.wake();
                return broken("the loop rests", format!("at {:?} the engine asks for {wake:?}", self.now()));
            }
        }
    }

    /// Everything that happens at this moment.
    fn happen(&mut self) -> Result<(), Violation> {
        if self.frozen.is_some_and(|(until, ..)| until <= self.mono) {
            self.thaw();
        }
        if self.down_until.is_some_and(|at| at <= self.mono) {
            self.restart()?;
        }
        let mut reports = Vec::new();
        self.hands.end(self.now(), &mut reports);
        self.send_reports(reports);
        if !self.is_up() {
            return Ok(());
        }
        self.store_works()?;
        if !self.is_up() || self.stalled_until > self.mono {
            return Ok(());
        }
        let mut told = false;
        for event in std::mem::take(&mut self.mail) {
            told = true;
            self.engine.handle(event, self.now());
            // Each by itself, so that what an edit decided is told from what the next tick does.
            self.carry_out()?;
            if !self.is_up() {
                return Ok(());
            }
        }
        if let Some(index) = self.built.take_if(|(at, _)| *at <= self.mono) {
            self.engine.handle(Event::IndexBuilt(index.1), self.now());
        }
        let mut arrived = Vec::new();
        while let Some(entry) = self.reports.first_entry().filter(|entry| entry.key().0 <= self.mono) {
            arrived.push(entry.remove());
        }
        for report in arrived {
            told = true;
            self.engine.handle(Event::Reports(vec![report]), self.now());
            self.carry_out()?;
            if !self.is_up() || self.dies() {
                return Ok(());
            }
        }
        self.answered()?;
        if self.is_up() && (told || self.wake_at <= self.mono) {
            self.turn()?;
        }
        Ok(())
    }

    fn turn(&mut self) -> Result<(), Violation> {
        self.turns += 1;
        let now = self.now();
        self.engine.handle(Event::Time, now);
        self.carry_out()?;
        if !self.is_up() {
            return Ok(());
        }
        if let Some(order) = self.engine.build_index(now) {
            let index = if order.last.window().is_empty() {
                build(&order.fleet, order.window, &mut self.buffers)
            } else {
                let patched = order.last.with_changed(&order.fleet, &order.changed, &mut self.buffers);
                patched.advance(&order.fleet, order.window, &mut self.buffers)
            };
            let takes = self.luck(2).pick(&[0, 3, 400, 2 * SEC]);
            self.built = Some((self.mono + takes, Arc::new(index)));
        }
        self.rest();
        Ok(())
    }

    /// When the loop turns again by itself: it sleeps for as long as it looks now, whatever the clock does meanwhile.
    fn rest(&mut self) {
        let now = self.now();
        let wake = self.engine.wake();
        let wall = wake.wall.map(|at| at.saturating_sub(now.wall));
        let mono = wake.mono.map(|at| at - now.mono);
        let rest = wall.into_iter().chain(mono).min().unwrap_or(Millis::MAX / 4);
        let lazy = if self.lazy && self.engine.live() == 0 { LAZY_MS } else { 0 };
        self.wake_at = self.mono + rest.max(lazy);
    }

    fn next_moment(&self) -> Millis {
        let act = self.script.acts.get(self.next_act).map(|(at, _)| self.began() + at);
        let mut next = act.unwrap_or(Millis::MAX);
        next = next.min(self.frozen.map_or(Millis::MAX, |(until, ..)| until));
        next = next.min(self.hands.next_end().unwrap_or(Millis::MAX));
        if let Some(back) = self.down_until {
            return next.min(back);
        }
        let mut own = self.wake_at;
        match &self.sending {
            Some(sending) if sending.refused.is_none() => next = next.min(sending.durable_at.max(self.mono)),
            Some(sending) => own = own.min(sending.answer_at),
            None if !self.queue.is_empty() => next = next.min(self.store_away_until.max(self.mono)),
            None => {}
        }
        own = own.min(self.reports.first_key_value().map_or(Millis::MAX, |((at, _), _)| *at));
        own = own.min(self.built.as_ref().map_or(Millis::MAX, |(at, _)| *at));
        if !self.mail.is_empty() {
            own = self.mono;
        }
        next.min(own.max(self.stalled_until))
    }

    /// The store takes what has gathered, and makes it durable.
    fn store_works(&mut self) -> Result<(), Violation> {
        if self.sending.is_none() && !self.queue.is_empty() && self.store_away_until <= self.mono {
            let mut dice = self.luck(3);
            let usual = match dice.roll(50) {
                0 if !self.hands.quiet => 250,
                1..=5 => 7,
                _ => 1,
            };
            let each = if self.store_slow.1 > self.mono { self.store_slow.0 } else { usual };
            let (seqs, batches) = self.queue.drain(..).unzip();
            let durable_at = self.mono + dice.between(0, each);
            let answer_at = durable_at + dice.between(0, each);
            self.sending = Some(Sending { seqs, batches, durable_at, answer_at, refused: None });
            if self.dies() {
                return Ok(());
            }
        }
        let due = |sending: &&mut Sending| sending.durable_at <= self.mono && sending.refused.is_none();
        if let Some(sending) = self.sending.as_mut().filter(due) {
            let batches = std::mem::take(&mut sending.batches);
            let refused = self.commit(batches)?;
            if let Some(sending) = &mut self.sending {
                sending.refused = Some(refused);
            }
            self.dies();
        }
        Ok(())
    }

    fn commit(&mut self, batches: Vec<Batch>) -> Result<Vec<RunId>, Violation> {
        let mut group = Batch::default();
        for batch in &batches {
            group.append(batch.clone());
        }
        let written =
            |record: &mut R| record.commit(&group).or_else(|why| broken("the store takes every batch", why));
        let refused = written(&mut self.record)?;
        if self.luck(4).percent(4) && written(&mut self.record)? != refused {
            // The answer was lost, and the same batch was given again.
            return broken("writing a batch twice is writing it once", format!("{group:?}"));
        }
        for batch in &batches {
            self.law.observe(batch, &refused)?;
        }
        Ok(refused)
    }

    /// The loop hears that its batches are durable.
    fn answered(&mut self) -> Result<(), Violation> {
        let due = |sending: &mut Sending| sending.answer_at <= self.mono && sending.refused.is_some();
        let Some(sending) = self.sending.take_if(due) else { return Ok(()) };
        let refused = sending.refused.unwrap_or_default();
        for seq in sending.seqs {
            self.engine.handle(Event::Committed { seq, refused: refused.clone() }, self.now());
            self.carry_out()?;
            if !self.is_up() {
                return Ok(());
            }
        }
        if self.dies() {
            return Ok(());
        }
        self.wake_at = self.mono;
        Ok(())
    }

    /// Does what the engine asks for.
    fn carry_out(&mut self) -> Result<(), Violation> {
        loop {
            let effects = self.engine.take_effects();
            let Effects { seq, batch, orders, replies, recalls, changes, .. } = effects;
            for order in orders {
                self.deliver(&order)?;
                if self.dies() {
                    return Ok(());
                }
            }
            if seq > 0 {
                for promise in &batch.promised {
                    self.newest.push_back(promise.run);
                    if self.newest.len() > 20 {
                        self.newest.pop_front();
                    }
                }
                self.queue.push_back((seq, batch));
                if self.dies() {
                    return Ok(());
                }
            }
            for change in changes {
                self.changed(change.run, change.job, change.status, change.skip)?;
            }
            for (token, reply) in replies {
                let asked = self.asked.remove(&token);
                match (&reply, asked) {
                    (Ok(Reply::Run(run)), Some(Asked::Trigger))
                        if self.record.run(*run).is_none() && !self.law.is_over(*run) =>
                    {
                        return broken("acknowledged means on disk", format!("{run} was acknowledged"));
                    }
                    (Ok(Reply::Done), Some(Asked::Pause(job)))
                        if self.resumed.get(&job).is_none_or(|resumed| *resumed < token) =>
                    {
                        self.paused.insert(job);
                    }
                    _ => {}
                }
                if self.keep_answers {
                    self.answers.insert(
                        token,
                        match reply {
                            Ok(Reply::Run(run)) => Some(run),
                            _ => None,
                        },
                    );
                }
            }
            if recalls.is_empty() {
                return Ok(());
            }
            for (token, run) in recalls {
                // Without a row the loop refuses by itself.
                if let Some(record) = self.record.run(run) {
                    let job = self.older(record.promise.job, record.promise.revision);
                    let restored = RestoredRun { record, job };
                    self.engine.handle(Event::Recalled(token, Box::new(restored)), self.now());
                }
            }
        }
    }

    fn older(&self, job: JobId, revision: u32) -> Option<cadran_core::Job> {
        let text = self.record.definition(job, revision)?;
        Some(self.script.definitions[self.law.definition(&text)].clone())
    }

    fn deliver(&mut self, order: &Order) -> Result<(), Violation> {
        let (mut policy, mut first) = (Policy::DEFAULT, false);
        if let Order::Start(start) = order {
            let promised = self.law.open.get(&start.run).map(|run| self.law.job_of(run).policy);
            if promised.is_some_and(|policy| policy.at_most_once) {
                let row = self.record.run(start.run).and_then(|row| row.state.steps).unwrap_or_default();
                let name = start.context.body.step(start.step).map_or("", |step| &step.name);
                let recorded = row.iter().find(|step| {
                    *step.name == *name || usize::from(start.step.0) >= start.context.body.steps.len()
                });
                if recorded.is_none_or(|step| *step.name == *name && step.attempt != start.attempt) {
                    return broken(
                        "under retry never an order leaves after its start is on record",
                        format!("{} {:?} attempt {}: {row:?}", start.run, start.step, start.attempt),
                    );
                }
            }
            let known = self.law.open.get(&start.run).copied();
            let job = start.context.job_name.as_str()[1..].parse().unwrap_or(u64::MAX);
            if let Some(run) = known
                && !run.started
                && run.trigger.is_scheduled()
                && self.paused.contains(&job)
            {
                return broken(
                    "nothing that is due starts during a pause",
                    format!("{} of {}, due {}", start.run, start.context.job_name, run.due),
                );
            }
            let settled = self.engine.active_and_waiting().0 < 900;
            first = known.is_some_and(|run| !run.started);
            policy = self.law.start(start, self.now(), settled)?;
            self.busy.entry(start.context.job).or_default().insert(start.run);
        }
        let mut reports = Vec::new();
        self.hands.take(order, policy, first, self.now(), &mut reports)?;
        self.send_reports(reports);
        Ok(())
    }

    fn changed(
        &mut self,
        run: RunId,
        job: JobId,
        status: RunStatus,
        skip: Option<SkipReason>,
    ) -> Result<(), Violation> {
        let busy = self.busy.entry(job).or_default();
        match status {
            RunStatus::Waiting | RunStatus::Running => drop(busy.insert(run)),
            RunStatus::Promised => {}
            _ => drop(busy.remove(&run)),
        }
        if skip == Some(SkipReason::Overlap) && busy.is_empty() {
            let once = self.law.jobs.get(&job).is_some_and(|life| {
                life.revisions.iter().any(|no| self.script.definitions[*no].policy.at_most_once)
            });
            if !once {
                return broken(
                    "a run is skipped for overlap only beside another run of its job",
                    format!("{run} of job {job} was, and no other run is active"),
                );
            }
        }
        if busy.is_empty() {
            self.busy.remove(&job);
        }
        Ok(())
    }

    /// Puts reports on their way: most arrive at once, some late, some again, some only when they are sent again.
    fn send_reports(&mut self, reports: Vec<Report>) {
        for report in reports {
            let mut dice = self.luck(5);
            let storm = self.storm_until > self.mono;
            let mut delay = dice.between(0, 2);
            if storm && dice.percent(40) {
                delay += dice.pick(&[50, 900, 4 * SEC, 25 * SEC, 2 * MIN]);
            }
            let again = dice.percent(if storm { 30 } else { 2 });
            let no = self.draws;
            if again {
                let later = delay + dice.pick(&[0, 40, 3 * SEC, MIN, 6 * MIN]);
                self.reports.insert((self.mono + later, no << 1 | 1), report.clone());
            }
            self.reports.insert((self.mono + delay, no << 1), report);
        }
    }

    /// Counts an effect. True when the server died of it.
    fn dies(&mut self) -> bool {
        let Some((left, down)) = &mut self.crash_after else { return false };
        if *left > 0 {
            *left -= 1;
            return false;
        }
        let down = *down;
        self.crash(down);
        true
    }

    /// Starts the server again from what is durable.
    fn restart(&mut self) -> Result<(), Violation> {
        self.down_until = None;
        let now = self.now();
        let found = std::mem::take(&mut self.found);
        let loaded = self.record.load();
        let mut restored = Restored { found, last_id: loaded.last_id, ..Restored::default() };
        let mut current: BTreeMap<JobId, u32> = BTreeMap::new();
        let mut successes_of = Vec::new();
        let mut changes = Vec::new();
        let mut known: BTreeMap<u64, usize> = BTreeMap::new();
        for row in loaded.jobs {
            let no = self.law.definition(&row.put.definition);
            let job = self.script.definitions[no].clone();
            current.insert(row.put.job, row.put.revision);
            if job.policy.skip_if_successful {
                successes_of.push(row.put.job);
            }
            let name: u64 = row.put.name.as_str()[1..].parse().unwrap_or(u64::MAX);
            if row.removed_at.is_none() {
                known.insert(name, no);
                if !self.files.contains_key(&name) {
                    changes.push(JobChange::Remove { name: row.put.name.clone() });
                }
            }
            let (id, revision) = (row.put.job, row.put.revision);
            restored.jobs.push(RestoredJob {
                id,
                job,
                revision,
                removed_at: row.removed_at,
                state: row.state,
            });
        }
        restored.successes = self.record.successes(&successes_of);
        for record in loaded.open {
            let promise = &record.promise;
            let older = current.get(&promise.job) != Some(&promise.revision);
            let job = older.then(|| self.older(promise.job, promise.revision)).flatten();
            restored.runs.push(RestoredRun { record, job });
        }
        self.busy.clear();
        for (run, open) in self.law.open.iter().filter(|(_, open)| open.started) {
            self.busy.entry(open.job).or_default().insert(*run);
        }
        self.engine = Engine::new(self.options.clone());
        self.engine.restore(restored, now);
        self.carry_out()?;
        // The watcher tells what the record does not know of the files.
        let files = self.files.iter().filter(|(name, no)| known.get(name) != Some(no));
        changes.extend(files.map(|(_, no)| self.change(*no)));
        if self.is_up() && !changes.is_empty() {
            self.mail.push(Event::Jobs(changes));
        }
        self.wake_at = self.mono;
        Ok(())
    }

    /// What was done so far.
    pub(crate) fn tally(&self) -> Tally {
        Tally {
            dues: self.law.dues,
            runs: self.law.runs,
            skips: self.law.skips,
            starts: self.hands.starts,
            turns: self.turns,
            simulated_ms: self.mono - self.began(),
        }
    }

    /// The name of a job as a command wants it.
    pub(crate) fn name(&self, job: u64) -> cadran_core::JobName {
        fleet::name(job)
    }

    /// What is left to be done: batches, mail and reports on their way.
    pub(crate) fn in_the_air(&self) -> usize {
        self.queue.len() + usize::from(self.sending.is_some()) + self.mail.len()
    }
}
