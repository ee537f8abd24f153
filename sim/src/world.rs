//! The world around the engine: clocks, the store's pace, the executor, and a script that disturbs them all.

mod effects;
mod faults;
mod pace;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use cadran_core::{Batch, Command, Found, JobId, Millis, Now, Report, RunId};
use cadran_engine::{Engine, Event, JobChange, Options, Restored, Token};
use cadran_plan::index::{Buffers, Index, build};

use crate::deeds::Deeds;
use crate::dice::Dice;
use crate::fleet::{self, SEC};
use crate::hands::Hands;
use crate::law::{Checker, Violation, broken};
use crate::play::Tally;
use crate::record::Record;
use crate::script::Script;
use crate::touch::Touch;

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
    Share,
    Other,
}

/// Everything that is simulated.
pub(crate) struct World<'a, R> {
    pub(crate) script: &'a Script,
    pub(crate) engine: Engine,
    pub(crate) record: R,
    pub(crate) hands: Hands,
    pub(crate) law: Checker,
    pub(crate) deeds: Deeds,
    /// Jobs that a sabotaged store has heard of.
    heard_of: BTreeSet<JobId>,
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
    pub(crate) touch: Touch,
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
        // Whoever is there in a simulation stays: nobody plays the heartbeats.
        let options = Options { silent_ms_max: Millis::MAX / 4, ..Options::default() };
        let mut hands = Hands::new(script.seed);
        hands.forgets = !retries;
        let mono = 1_000_000;
        let mut world = World {
            script,
            engine: Engine::new(options.clone()),
            record,
            hands,
            law: Checker::new(script.definitions.clone(), retries),
            deeds: Deeds::default(),
            heard_of: BTreeSet::new(),
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
            touch: Touch::default(),
            busy: BTreeMap::new(),
            paused: BTreeSet::new(),
            resumed: BTreeMap::new(),
            buffers: Buffers::default(),
            lazy: false,
            turns: 0,
        };
        world.engine.restore(Restored::default(), world.now());
        world.engine.handle(Event::Executors(script.executors()), world.now());
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
        let job = self.script.definition(no);
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
            Command::StopShare { .. } | Command::RetryShare { .. } => Asked::Share,
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
            self.deeds.told(&event, self.now().wall);
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
