//! A world for the engine: a record that commits when the script says, hands that work when the script says, a
//! clock that the script sets, and crashes at any point. Every scenario ends with [`World::check`].
#![allow(dead_code, unreachable_pub)] // Each test file uses its part.

mod hands;
mod law;
mod record;
mod sight;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use cadran_core::{
    Batch, Body, Command, Job, JobId, JobName, Millis, Now, Order, Policy, Refusal, Reply, Retry, RunId,
    RunStatus, Schedule, ScheduleAction, ScheduleEntry, Start, Step, Zone,
};
use cadran_cron::Dialect;
use cadran_engine::{Engine, Event, JobChange, Options, Restored, RestoredJob, RestoredRun, Token};
use cadran_plan::index::{Buffers, build};

pub use hands::{Hands, Manner};
pub use law::Law;
pub use record::Record;

pub const SEC: Millis = 1_000;
pub const MIN: Millis = 60_000;
pub const HOUR: Millis = 3_600_000;
pub const DAY: Millis = 86_400_000;

pub struct World {
    pub engine: Engine,
    pub now: Now,
    pub record: Record,
    pub hands: Hands,
    pub law: Law,
    pub replies: BTreeMap<Token, Result<Reply, Refusal>>,
    /// Every effect in words, to compare two worlds, when `transcribes` says so.
    pub transcript: Vec<String>,
    pub transcribes: bool,
    /// The server dies after so many further effects (a commit, an order, a report) and is back after the downtime.
    pub crash_after: Option<(u64, Millis)>,
    pub effects_seen: u64,
    /// Whether commits go through.
    pub store_is_up: bool,
    /// Jobs whose stored definition cannot be read any more.
    pub unreadable: BTreeSet<String>,
    /// Batches on their way.
    in_flight: VecDeque<(u64, Batch)>,
    /// Job files as they lie on disk: the number of their definition.
    files: BTreeMap<String, usize>,
    options: Options,
    tokens: u64,
    began: Millis,
    is_up: bool,
    buffers: Buffers,
}

/// Milliseconds of a text such as `2026-03-29T03:00Z`.
pub fn at(text: &str) -> Millis {
    text.parse::<jiff::Timestamp>().unwrap_or_else(|error| panic!("{text}: {error}")).as_millisecond()
}

/// Schedules of a text: one or more parts separated by `|`, each with an optional `stop:` or `restart:` before it.
pub fn schedules(text: &str) -> Arc<[ScheduleEntry]> {
    let entry = |part: &str| {
        let (action, expression) = match part.trim().split_once(": ") {
            Some(("stop", rest)) => (ScheduleAction::Stop, rest),
            Some(("restart", rest)) => (ScheduleAction::Restart, rest),
            _ => (ScheduleAction::Start, part),
        };
        let schedule = Schedule::parse(expression.trim(), &Zone::utc(), Dialect::Cadran);
        ScheduleEntry {
            schedule: Arc::new(schedule.unwrap_or_else(|error| panic!("{part}: {error}"))),
            action,
        }
    };
    text.split('|').filter(|part| !part.trim().is_empty()).map(entry).collect()
}

pub fn job(name: &str, text: &str) -> Job {
    let step = Step { name: "work".into(), ..Step::default() };
    let body = Body { steps: vec![step], ..Body::default() };
    let name: JobName = name.parse().unwrap();
    Job { name, schedules: schedules(text), policy: Policy::DEFAULT, body: Arc::new(body) }
}

/// A retry of the only step.
pub fn retrying(job: &mut Job, limit: u32, interval_ms: Millis) {
    let mut body = (*job.body).clone();
    body.steps[0].retry = Retry { limit, interval_ms, ..Retry::default() };
    job.body = Arc::new(body);
}

impl World {
    pub fn new(start: &str) -> World {
        World::with(start, Options::default())
    }

    pub fn with(start: &str, options: Options) -> World {
        let began = at(start);
        let mut engine = Engine::new(options.clone());
        let now = Now { wall: began, mono: 1_000_000 };
        engine.restore(Restored::default(), now);
        World {
            engine,
            now,
            record: Record::default(),
            hands: Hands::default(),
            law: Law::default(),
            replies: BTreeMap::new(),
            transcript: Vec::new(),
            transcribes: false,
            crash_after: None,
            effects_seen: 0,
            store_is_up: true,
            unreadable: BTreeSet::new(),
            in_flight: VecDeque::new(),
            files: BTreeMap::new(),
            options,
            tokens: 0,
            began,
            is_up: true,
            buffers: Buffers::default(),
        }
    }

    // ---- what the script does ----

    /// Writes a job file.
    pub fn put(&mut self, name: &str, schedule: &str, edit: impl FnOnce(&mut Job)) {
        let mut job = job(name, schedule);
        edit(&mut job);
        self.law.definitions.push(job);
        let no = self.law.definitions.len() - 1;
        self.files.insert(name.into(), no);
        if self.is_up {
            let change = self.change(no);
            self.jobs(vec![change]);
        }
    }

    /// Deletes a job file.
    pub fn remove(&mut self, name: &str) {
        self.files.remove(name);
        if self.is_up {
            self.jobs(vec![JobChange::Remove { name: name.parse().unwrap() }]);
        }
    }

    /// Deletes a job file; the script tells the engine itself.
    pub fn remove_later(&mut self, name: &str) {
        self.files.remove(name);
    }

    /// Gives the engine one list of changes.
    pub fn jobs(&mut self, changes: Vec<JobChange>) {
        self.handle(Event::Jobs(changes));
    }

    /// A change as the watcher tells it; the file is put too.
    pub fn change_of(&mut self, name: &str, schedule: &str) -> JobChange {
        self.law.definitions.push(job(name, schedule));
        let no = self.law.definitions.len() - 1;
        self.files.insert(name.into(), no);
        self.change(no)
    }

    pub fn handle(&mut self, event: Event) {
        self.engine.handle(event, self.now);
        self.pump();
    }

    pub fn command(&mut self, command: Command) -> Token {
        self.tokens += 1;
        let token = Token(self.tokens);
        self.handle(Event::Command(token, command));
        token
    }

    /// A command whose answer comes at once.
    pub fn ask(&mut self, command: Command) -> Result<Reply, Refusal> {
        let token = self.command(command);
        self.replies.get(&token).cloned().unwrap_or_else(|| panic!("no answer yet"))
    }

    pub fn pause(&mut self, job: &str) {
        assert_eq!(self.ask(Command::Pause { job: job.parse().unwrap() }), Ok(Reply::Done));
    }

    pub fn resume(&mut self, job: &str) {
        assert_eq!(self.ask(Command::Resume { job: job.parse().unwrap() }), Ok(Reply::Done));
    }

    pub fn trigger(&mut self, job: &str) -> RunId {
        self.trigger_from(job, None).unwrap()
    }

    pub fn trigger_from(&mut self, job: &str, parent: Option<RunId>) -> Result<RunId, Refusal> {
        match self.ask(Command::Trigger {
            job: job.parse().unwrap(),
            params: vec![],
            addresses: Vec::new(),
            parent,
            key: None,
        })? {
            Reply::Run(run) => Ok(run),
            reply => panic!("{reply:?}"),
        }
    }

    pub fn stop(&mut self, run: RunId) -> Result<Reply, Refusal> {
        self.ask(Command::Stop { run })
    }

    pub fn retry(&mut self, run: RunId) -> Result<Reply, Refusal> {
        self.ask(Command::Retry { run })
    }

    /// Attempts of a job take so long from now on.
    pub fn takes(&mut self, job: &str, millis: Millis) {
        self.manner(job).takes_ms = Some(millis);
    }

    /// Attempts of a job go on until [`World::finish`].
    pub fn hangs(&mut self, job: &str) {
        self.manner(job).takes_ms = None;
    }

    /// The next attempts of a job end with these codes.
    pub fn exits(&mut self, job: &str, codes: &[i32]) {
        self.manner(job).exits = codes.to_vec();
    }

    pub fn manner(&mut self, job: &str) -> &mut Manner {
        let plain = Manner { takes_ms: Some(0), ..Manner::default() };
        self.hands.manners.entry(job.into()).or_insert(plain)
    }

    /// Ends the attempts of a job that are on.
    pub fn finish(&mut self, job: &str) {
        self.hands.finish(job, self.now);
        self.pump();
    }

    /// The wall clock jumps; nobody is told.
    pub fn step_clock(&mut self, by: Millis) {
        self.now.wall += by;
    }

    /// Time passes and the loop does not turn.
    pub fn stall(&mut self, millis: Millis) {
        self.now.wall += millis;
        self.now.mono += millis;
    }

    /// Commits are held back, or go through again.
    pub fn store(&mut self, is_up: bool) {
        self.store_is_up = is_up;
        self.pump();
    }

    /// Lets time pass up to a moment of the wall clock.
    pub fn run_to(&mut self, text: &str) {
        let to = at(text);
        assert!(to >= self.now.wall, "{text} is past");
        self.run_until(to);
    }

    pub fn run_for(&mut self, millis: Millis) {
        self.run_until(self.now.wall + millis);
    }

    pub fn run_until(&mut self, to: Millis) {
        let mut patience = 3_000_000;
        loop {
            self.handle(Event::Time);
            let wake = self.engine.wake();
            let wall = wake.wall.map(|at| at.saturating_sub(self.now.wall));
            let mono = wake.mono.into_iter().chain(self.hands.next_end()).map(|at| at - self.now.mono);
            let step = wall.into_iter().chain(mono).chain([to - self.now.wall]).min().unwrap().max(0);
            if step == 0 {
                // What is due at this very moment was looked after above, or waits for the store.
                if self.now.wall >= to {
                    return;
                }
                patience -= 1;
                assert!(
                    patience > 0,
                    "the engine wakes for nothing at {}: {wake:?}",
                    self.clock(self.now.wall)
                );
                let stuck = wake.wall.is_some_and(|at| at <= self.now.wall)
                    || wake.mono.is_some_and(|at| at <= self.now.mono);
                self.stall(i64::from(stuck && !self.store_is_up));
                continue;
            }
            self.stall(step.min((to - self.now.wall).max(0)));
        }
    }

    /// kill -9.
    pub fn crash(&mut self) {
        self.is_up = false;
        self.in_flight.clear();
        self.crash_after = None;
    }

    /// Starts the server again from what is durable, after a downtime.
    pub fn restart_after(&mut self, downtime: Millis) {
        self.crash();
        self.now.wall += downtime;
        self.now.mono += downtime.max(0);
        let found = self.hands.die();
        let (unread, read): (Vec<_>, Vec<_>) =
            self.record.jobs.iter().partition(|(_, (put, _))| self.unreadable.contains(put.name.as_str()));
        let jobs = read.iter().map(|&(&id, (put, removed_at))| RestoredJob {
            id,
            job: self.law.definition(&put.definition).clone(),
            revision: put.revision,
            removed_at: *removed_at,
            state: self.record.states[&id].clone(),
        });
        let runs = self.record.open().map(|row| {
            let (put, _) = &self.record.jobs[&row.promise.job];
            let older = put.revision != row.promise.revision && !self.unreadable.contains(put.name.as_str());
            RestoredRun { record: row.clone(), job: older.then(|| self.job_of(row.promise.run)) }
        });
        let mut successes: BTreeMap<JobId, Millis> = BTreeMap::new();
        for row in self.record.runs.values().filter(|row| row.state.status == RunStatus::Succeeded) {
            successes.insert(row.promise.job, row.promise.due);
        }
        let restored = Restored {
            jobs: jobs.collect(),
            runs: runs.collect(),
            found,
            last_id: self.record.last_id(),
            last_log: 0,
            successes: successes.into_iter().collect(),
            trigger_keys: self.record.trigger_keys.clone(),
            unread: unread.into_iter().map(|(id, (put, _))| (*id, put.name.clone(), put.revision)).collect(),
        };
        self.engine = Engine::new(self.options.clone());
        self.engine.restore(restored, self.now);
        self.is_up = true;
        self.pump();
        // The watcher tells what the record does not know of the files.
        let mut changes = Vec::new();
        for (put, removed_at) in self.record.jobs.values() {
            if removed_at.is_none() && !self.files.contains_key(put.name.as_str()) {
                changes.push(JobChange::Remove { name: put.name.clone() });
            }
        }
        for (name, &no) in &self.files {
            let recorded = self.record.jobs.values().find(|(put, _)| put.name.as_str() == name);
            if !recorded.is_some_and(|(put, gone)| gone.is_none() && *put.definition == *no.to_string()) {
                changes.push(self.change(no));
            }
        }
        if !changes.is_empty() {
            self.jobs(changes);
        }
    }

    /// The record loses the watermark of a job.
    pub fn lose_watermark(&mut self, job: &str, corrupt: Option<Millis>) {
        assert!(!self.is_up, "only while the server is down");
        let id = self.id(job);
        self.record.states.get_mut(&id).unwrap().watermark = corrupt;
        self.law.forgive(id, self.now.wall);
    }

    // ---- how it goes ----

    /// Carries out effects until nothing more happens at this moment.
    pub fn pump(&mut self) {
        for _ in 0..100_000 {
            if !self.is_up || !self.turn() {
                return;
            }
        }
        panic!("the engine does not come to rest");
    }

    /// One turn. False when nothing happened.
    fn turn(&mut self) -> bool {
        let effects = self.engine.take_effects();
        let mut busy = false;
        if effects.seq > 0 {
            self.note(|| format!("{} {:?}", effects.seq, effects.batch));
            self.in_flight.push_back((effects.seq, effects.batch));
        }
        for (token, reply) in effects.replies {
            self.note(|| format!("{token:?} {reply:?}"));
            self.replies.insert(token, reply);
            busy = true;
        }
        for order in effects.orders {
            self.note(|| describe(&order));
            self.deliver(order);
            busy = true;
            if self.dies() {
                return true;
            }
        }
        for (token, run, share) in effects.recalls {
            busy = true;
            let row = self.record.runs[&run].clone();
            let restored = RestoredRun { record: row, job: Some(self.job_of(run)) };
            self.engine.handle(Event::Recalled(token, Box::new(restored), share), self.now);
        }
        if self.store_is_up && !self.in_flight.is_empty() {
            busy = true;
            // As the recorder does: what has gathered goes together.
            let mut seqs = Vec::new();
            let mut group = Batch::default();
            for (seq, batch) in self.in_flight.drain(..) {
                self.law.observe(&batch);
                group.append(batch);
                seqs.push(seq);
            }
            let refused = self.record.commit(&group);
            if self.dies() {
                return true;
            }
            for seq in seqs {
                self.engine.handle(Event::Committed { seq, refused: refused.clone() }, self.now);
            }
        }
        let reports = self.hands.reports(self.now);
        if !reports.is_empty() {
            busy = true;
            self.engine.handle(Event::Reports(reports), self.now);
            if self.dies() {
                return true;
            }
        }
        if let Some(order) = self.engine.build_index(self.now) {
            let index = if order.last.window().is_empty() {
                build(&order.fleet, order.window, &mut self.buffers)
            } else {
                let patched = order.last.with_changed(&order.fleet, &order.changed, &mut self.buffers);
                patched.advance(&order.fleet, order.window, &mut self.buffers)
            };
            self.engine.handle(Event::IndexBuilt(Arc::new(index)), self.now);
        }
        busy
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if self.transcribes {
            self.transcript.push(line());
        }
    }

    fn dies(&mut self) -> bool {
        self.effects_seen += 1;
        let Some((left, downtime)) = &mut self.crash_after else { return false };
        if *left > 0 {
            *left -= 1;
            return false;
        }
        let downtime = *downtime;
        self.restart_after(downtime);
        true
    }

    fn deliver(&mut self, order: Order) {
        let (law, record) = (&self.law, &self.record);
        let policy = |start: &Start| {
            let promise = &record.runs.get(&start.run).expect("a started run has a row").promise;
            let put = law.versions(promise.job, promise.revision);
            law.definition(put).policy
        };
        if let Order::Start(start) = &order
            && policy(start).at_most_once
        {
            let steps = self.record.runs[&start.run].state.steps.as_deref().unwrap_or_default();
            let name = &start.context.body.step(start.step).expect("an order is for a step of its job").name;
            let recorded = steps.iter().find(|step| *step.name == **name).map(|step| step.attempt);
            assert_eq!(recorded, Some(start.attempt), "run {}: ordered before it was on record", start.run);
        }
        self.hands.take(order, self.now, record, |start| policy(start).overlap);
    }

    fn change(&self, no: usize) -> JobChange {
        let job = self.law.definitions[no].clone();
        let source = format!("{}.yaml", job.name).into();
        JobChange::Put { job, definition: no.to_string().into(), source, source_mark: "".into() }
    }

    fn job_of(&self, run: RunId) -> Job {
        let promise = &self.record.runs[&run].promise;
        self.law.definition(self.law.versions(promise.job, promise.revision)).clone()
    }
}

fn describe(order: &Order) -> String {
    match order {
        Order::Start(start) => format!("start {} {:?} {}", start.run, start.step, start.attempt),
        Order::Stop { run, step, attempt } => format!("stop {run} {step:?} {attempt}"),
        Order::StopShare { run, step, attempt, share } => format!("stop {run}.{share} {step:?} {attempt}"),
        Order::Close { run } => format!("close {run}"),
        Order::Gone { address } => format!("gone {address}"),
    }
}
