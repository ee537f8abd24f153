use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cadran_core::{
    Address, Ask, Block, Dialect, Executor, Found, GroupName, Millis, Order, Outcome, Report, ReportKind,
    RunId, SeatRecord, SeatStatus, Seats, Start, Step, StepNo, Target, Work,
};
use futures::future::join_all;
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, timeout};

use super::client::{CallError, Client};
use super::lane::{Lane, Lanes, Ticket};
use super::ledger::Ledger;
use super::options::{RemoteOptions, Tokens};
use super::params;
use super::pull::Pulled;
use super::table::{Entry, Halt, Share};
use super::wire::{self, Answer, OfJob, OrthTrigger, RunResult, Trigger, block_word, glue_word, start_verb};
use crate::journal::Key;
use crate::{ExecError, Sink};

/// Runs steps on executors that listen elsewhere.
pub struct Remote {
    pub(super) shared: Arc<Shared>,
    inbox: mpsc::UnboundedSender<Vec<Order>>,
    is_used: AtomicBool,
    runtime: Option<Runtime>,
}

/// What was counted since the start, and what is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteCounts {
    /// Orders that executors took.
    pub accepted: u64,
    /// Orders that were refused or did not arrive.
    pub refused: u64,
    /// Results that belonged to something.
    pub results: u64,
    /// Results of runs that are over or were never known.
    pub strays: u64,
    /// Shares given up as lost.
    pub lost: u64,
    /// Orders that found their lane full.
    pub delayed: u64,
    /// Orders on their way by the fast and the slow lane.
    pub on: (usize, usize),
    /// Orders that wait.
    pub waiting: usize,
    /// Shares that are out.
    pub open: usize,
}

/// One share of one attempt.
pub(super) type Errand = (Key, u32);

/// What the tasks share.
pub(super) struct Shared {
    pub(super) options: RemoteOptions,
    pub(super) client: Client,
    pub(super) state: Mutex<State>,
    pub(super) lanes: Mutex<Lanes<Errand>>,
    pub(super) pulled: tokio::sync::Mutex<Pulled>,
    outbox: Mutex<Vec<Report>>,
    ready: Notify,
    sink: Sink,
    now: Box<dyn Fn() -> Millis + Send + Sync>,
    counts: Counters,
}

#[derive(Default)]
struct Counters {
    accepted: AtomicU64,
    refused: AtomicU64,
    results: AtomicU64,
    strays: AtomicU64,
    lost: AtomicU64,
}

/// What is out.
pub(super) struct State {
    pub(super) ledger: Ledger,
    pub(super) by_log: FxHashMap<u64, Errand>,
    /// Orders until they have left.
    starts: FxHashMap<Key, Start>,
    /// Executors that were seen to know when a job is on.
    pub(super) knowing: FxHashSet<Address>,
    /// Attempts that somebody is ending.
    pub(super) halting: BTreeSet<Key>,
}

/// Between two deliveries of reports: a burst goes together.
const DELIVERY_PAUSE: Duration = Duration::from_millis(1);

/// Executors asked at once for one order.
const ASKED_AT_ONCE_MAX: usize = 32;

/// A script's number for executors must change with its text and stay below what a date may be.
const GLUE_TIME_BASE: Millis = 1_600_000_000_000;

impl Remote {
    /// Opens the ledger of the previous life and returns what is known of each attempt whose run was not closed, and the
    /// highest log number that was used.
    ///
    /// `now` gives the wall clock; `sink` gets the reports.
    pub fn open(
        options: RemoteOptions,
        tokens: Arc<Tokens>,
        now: impl Fn() -> Millis + Send + Sync + 'static,
        sink: Sink,
    ) -> Result<(Remote, Vec<Found>, u64), ExecError> {
        let ledger = Ledger::open(&options.ledger)?;
        let found: Vec<Found> = ledger.kept.entries.iter().map(|(key, entry)| entry.found(*key)).collect();
        let floor = ledger.kept.log_floor;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            // One thread is enough for thousands of small calls a second; the server's own threads stay free.
            .worker_threads(1)
            .thread_name("cadran-remote")
            .enable_all()
            .build()
            .map_err(ExecError::Threads)?;
        let _inside = runtime.enter();
        let shared = Arc::new(Shared {
            client: Client::new(&options, tokens),
            state: Mutex::new(State::new(ledger)),
            lanes: Mutex::new(Lanes::new(options.fast, options.slow, options.slow_after, Instant::now())),
            pulled: tokio::sync::Mutex::default(),
            outbox: Mutex::default(),
            ready: Notify::new(),
            sink,
            now: Box::new(now),
            counts: Counters::default(),
            options,
        });
        let (inbox, orders) = mpsc::unbounded_channel();
        runtime.spawn(Arc::clone(&shared).take_orders(orders));
        runtime.spawn(Arc::clone(&shared).deliver());
        runtime.spawn(Arc::clone(&shared).keep_watch());
        drop(_inside);
        let is_used = AtomicBool::new(!found.is_empty());
        Ok((Remote { shared, inbox, is_used, runtime: Some(runtime) }, found, floor))
    }

    /// Takes a batch of orders; never waits. The queue behind it is bounded by the runs that hold a slot.
    pub fn submit(&self, orders: Vec<Order>) {
        self.is_used.store(true, Ordering::Relaxed);
        let _ = self.inbox.send(orders);
    }

    /// Whether it ever had an order, in this life or as far as the ledger goes back. Until then stops and closes are
    /// none of its business.
    pub fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Takes results in. They are in the ledger when this returns, so that the executor may forget them.
    pub fn take_results(&self, results: &[RunResult]) {
        self.shared.take_results(results);
    }

    /// An executor says that it leaves: what it still has is lost unless it reports soon.
    pub fn leaves(&self, address: &Address) {
        self.shared.distrust(address);
    }

    /// What was counted.
    pub fn counts(&self) -> RemoteCounts {
        let counts = &self.shared.counts;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (delayed, on, waiting) = {
            let lanes = self.shared.lanes();
            (lanes.delayed, lanes.on(), lanes.waiting())
        };
        let open = self.shared.state().ledger.kept.entries.values().map(|entry| entry.open().count()).sum();
        RemoteCounts {
            accepted: read(&counts.accepted),
            refused: read(&counts.refused),
            results: read(&counts.results),
            strays: read(&counts.strays),
            lost: read(&counts.lost),
            delayed,
            on,
            waiting,
            open,
        }
    }
}

impl Remote {
    pub(super) fn runtime(&self) -> Option<&Runtime> {
        self.runtime.as_ref()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // What is out stays out: the next life waits for it.
        self.shared.flush();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl State {
    fn new(mut ledger: Ledger) -> State {
        let mut by_log = FxHashMap::default();
        let now = Instant::now();
        for (key, entry) in &mut ledger.kept.entries {
            for share in &mut entry.shares {
                if share.end.is_none() {
                    (share.sight.since, share.sight.accepted) = (Some(now), true);
                    by_log.insert(share.seat.log, (*key, share.seat.index));
                }
            }
        }
        State {
            ledger,
            by_log,
            starts: FxHashMap::default(),
            knowing: FxHashSet::default(),
            halting: BTreeSet::new(),
        }
    }

    pub(super) fn entry(&mut self, key: Key) -> Option<&mut Entry> {
        self.ledger.kept.entries.get_mut(&key)
    }

    /// A later order took the place of what the executor has of the same step: that may never be reported.
    fn cover(&mut self, by: Key, address: &Address) {
        let Some(number) = self.entry(by).map(|entry| entry.number) else { return };
        let entries = self.ledger.kept.entries.iter_mut();
        for (_, entry) in entries.filter(|(key, entry)| **key != by && entry.number == number) {
            for share in entry.shares.iter_mut().filter(|share| share.seat.address == *address) {
                if share.sight.since.is_some() {
                    share.sight.covered_at.get_or_insert_with(Instant::now);
                }
            }
        }
    }

    pub(super) fn share(&mut self, (key, index): Errand) -> Option<&mut Share> {
        self.entry(key)?.shares.iter_mut().find(|share| share.seat.index == index)
    }
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lanes(&self) -> MutexGuard<'_, Lanes<Errand>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn take_orders(self: Arc<Shared>, mut orders: mpsc::UnboundedReceiver<Vec<Order>>) {
        while let Some(batch) = orders.recv().await {
            let mut tickets = Vec::new();
            let mut asked = Vec::new();
            for order in batch {
                match order {
                    Order::Start(start) => self.begin(start, &mut tickets, &mut asked),
                    Order::Stop { run, step, attempt } => self.halt(Key { run, step, attempt }, Halt::Stop),
                    Order::Close { run } => self.close(run),
                }
            }
            // In the ledger before anything leaves.
            self.state().ledger.write();
            {
                let mut lanes = self.lanes();
                tickets.into_iter().for_each(|ticket| lanes.line_up(ticket));
            }
            self.pump();
            for key in asked {
                tokio::spawn(Arc::clone(&self).ask(key));
            }
        }
    }

    fn close(&self, run: RunId) {
        let mut state = self.state();
        for entry in state.ledger.close(run) {
            for share in entry.shares {
                state.by_log.remove(&share.seat.log);
            }
        }
    }

    fn begin(&self, start: Start, tickets: &mut Vec<Ticket<Errand>>, asked: &mut Vec<Key>) {
        let key = Key { run: start.run, step: start.step, attempt: start.attempt };
        let mut state = self.state();
        if state.ledger.kept.entries.contains_key(&key) {
            return;
        }
        let context = start.context.clone();
        let (Some(step), Some(placement)) = (context.body.step(start.step), start.placement.clone()) else {
            return;
        };
        let number = match is_first_away(&start) {
            true => context.job.0.saturating_add(1),
            false => state.ledger.number(context.job, start.step),
        };
        let share = |index, total, executor: &Executor, log| {
            let (address, status) = (executor.address.clone(), SeatStatus::Sent);
            let seat = SeatRecord { index, total, address, log, at: placement.at, status, message: None };
            Share::new(seat, executor.dialect)
        };
        let shares = match &placement.seats {
            Seats::Chosen(seats) => {
                seats.iter().map(|seat| share(seat.index, seat.total, &seat.executor, seat.log)).collect()
            }
            Seats::Asked { .. } => Vec::new(),
            Seats::Nobody => {
                drop(state);
                let text = format!("no executor of the group {} is there", placement.group);
                return self.refuse(key, text);
            }
        };
        if let Err(why) = sendable(step) {
            drop(state);
            return self.refuse(key, why.to_owned());
        }
        if shares.is_empty() {
            asked.push(key);
        }
        for share in &shares {
            let Share { seat, .. } = share;
            state.by_log.insert(seat.log, (key, seat.index));
            tickets.push(Ticket { what: (key, seat.index), job: context.job, address: seat.address.clone() });
        }
        let entry = Entry {
            number,
            group: placement.group.clone(),
            step_name: step.name.as_str().into(),
            at: placement.at,
            timeout_secs: timeout_secs(&start),
            halt: None,
            shares,
            is_up: false,
            is_over: false,
        };
        state.ledger.begin(key, entry);
        state.starts.insert(key, start);
    }

    /// Nothing was sent and nothing will be.
    fn refuse(&self, key: Key, why: String) {
        self.counts.refused.fetch_add(1, Ordering::Relaxed);
        let end = ReportKind::Ended { outcome: Outcome::NotStarted(why.into()), output: None };
        self.tell(vec![(key, end)]);
    }

    /// Asks executors until one answers well, and sends the order there.
    async fn ask(self: Arc<Shared>, key: Key) {
        let (start, number) = {
            let mut state = self.state();
            let number = state.entry(key).map(|entry| entry.number);
            let (Some(start), Some(number)) = (state.starts.get(&key).cloned(), number) else { return };
            (start, number)
        };
        let Some(placement) = start.placement.clone() else { return };
        let Seats::Asked { ask, executors, log } = &placement.seats else { return };
        let mut why = String::new();
        // In the order of the list, but many at once: the first of the list that answers well has it.
        for some in executors.chunks(ASKED_AT_ONCE_MAX) {
            let calls = some.iter().map(|executor| {
                let (verb, body) = match ask {
                    Ask::Alive => ("beat", b"{}".to_vec()),
                    Ask::Idle => ("idleBeat", json(&OfJob { job_id: number })),
                };
                self.client.call(&placement.group, executor, verb, body)
            });
            let answers = join_all(calls).await;
            let well = |answer: &Result<Answer, CallError>| answer.as_ref().is_ok_and(Answer::is_ok);
            if let Some(at) = answers.iter().position(well) {
                return self.place(key, &start, &some[at], *log);
            }
            if let Some(Err(error)) = answers.first() {
                why = format!("; {}", error.text());
            }
        }
        let word = match ask {
            Ask::Alive => "answers",
            Ask::Idle => "is idle",
        };
        let text = format!("no executor of the group {} {word}{why}", placement.group);
        if self.forget(key) {
            self.refuse(key, text);
        }
    }

    /// Lets go of an attempt that nobody has. False when somebody else did.
    pub(super) fn forget(&self, key: Key) -> bool {
        let mut state = self.state();
        state.starts.remove(&key);
        state.ledger.kept.entries.remove(&key).is_some()
    }

    fn place(self: &Arc<Shared>, key: Key, start: &Start, executor: &Executor, log: u64) {
        let at = start.placement.as_ref().map_or(0, |placement| placement.at);
        let seat = SeatRecord {
            index: 0,
            total: 1,
            address: executor.address.clone(),
            log,
            at,
            status: SeatStatus::Sent,
            message: None,
        };
        {
            let mut state = self.state();
            if state.entry(key).is_none() {
                // Stopped meanwhile, and told so.
                return;
            }
            state.by_log.insert(log, (key, 0));
            state.ledger.place(key, Share::new(seat.clone(), executor.dialect));
            state.ledger.write();
        }
        self.tell(vec![(key, ReportKind::Seat(Box::new(seat)))]);
        let ticket = Ticket { what: (key, 0), job: start.context.job, address: executor.address.clone() };
        self.lanes().line_up(ticket);
        self.pump();
    }

    /// Lets go what may leave.
    pub(super) fn pump(self: &Arc<Shared>) {
        let leaving = self.lanes().leave();
        for (lane, ticket) in leaving {
            tokio::spawn(Arc::clone(self).send(lane, ticket));
        }
    }

    async fn send(self: Arc<Shared>, mut lane: Lane, ticket: Ticket<Errand>) {
        let Ticket { what, job, address } = ticket;
        let began = Instant::now();
        if let Some((group, executor, verb, body, covers)) = self.prepare(what, began) {
            let answer = {
                let mut call = std::pin::pin!(self.client.call(&group, &executor, verb, body));
                match timeout(self.options.slow_after, call.as_mut()).await {
                    Ok(answer) => answer,
                    Err(_) => {
                        lane = self.lanes().overdue(lane, &address);
                        self.pump();
                        call.await
                    }
                }
            };
            self.lanes().arrived(lane, job, &address, began.elapsed(), Instant::now());
            self.answered(what, answer, covers);
        } else {
            self.lanes().arrived(lane, job, &address, Duration::ZERO, began);
        }
        self.pump();
    }

    /// The words of an order, unless nobody wants it any more.
    fn prepare(
        &self,
        errand: Errand,
        now: Instant,
    ) -> Option<(GroupName, Executor, &'static str, Vec<u8>, bool)> {
        let mut state = self.state();
        let key = errand.0;
        let start = state.starts.get(&key)?.clone();
        let entry = state.entry(key).filter(|entry| entry.halt.is_none())?;
        let (group, number, timeout_secs) = (entry.group.clone(), entry.number, entry.timeout_secs);
        let share = state.share(errand)?;
        share.sight.since = Some(now);
        let (seat, executor) = (share.seat.clone(), share.executor());
        let last = state.entry(key)?.shares.iter().all(|share| share.sight.since.is_some());
        if last {
            state.starts.remove(&key);
        }
        drop(state);
        match words(&start, &seat, executor.dialect, number, timeout_secs) {
            Ok(body) => {
                let verb = start_verb(executor.dialect);
                let covers = target_of(&start).is_some_and(|target| target.block == Block::Cover);
                Some((group, executor, verb, body, covers))
            }
            Err(why) => {
                self.end_share(errand, Outcome::NotStarted(why.into()), None);
                None
            }
        }
    }

    fn answered(&self, errand: Errand, answer: Result<Answer, CallError>, covers: bool) {
        match answer {
            Ok(answer) if answer.is_ok() => {
                self.counts.accepted.fetch_add(1, Ordering::Relaxed);
                self.accepted(errand, covers);
            }
            Ok(answer) => {
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
                let address = self.state().share(errand).map(|share| share.seat.address.clone());
                let address = address.as_ref().map_or("the executor", Address::as_str);
                let text = match answer.message.as_str() {
                    "" => format!("{address} refused with code {}", answer.code),
                    message => format!("{address} refused: {message}"),
                };
                self.end_share(errand, Outcome::NotStarted(text.into()), None);
            }
            Err(CallError::NoAnswer(text)) => {
                // It may have arrived. Whoever watches finds out, or gives it up.
                tracing::warn!(run = %errand.0.run, "{text}; waiting for a sign of the run");
                let mut state = self.state();
                if let Some(share) = state.share(errand) {
                    share.sight.trusted = true;
                }
            }
            Err(error) => {
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
                self.end_share(errand, Outcome::NotStarted(error.text().into()), None);
            }
        }
    }

    fn accepted(&self, errand: Errand, covers: bool) {
        let mut state = self.state();
        let key = errand.0;
        let Some(share) = state.share(errand) else { return };
        share.sight.accepted = true;
        if share.end.is_none() {
            share.seat.status = SeatStatus::Running;
        }
        let address = share.seat.address.clone();
        if covers {
            state.cover(key, &address);
        }
        let Some(entry) = state.entry(key).filter(|entry| !entry.is_up) else { return };
        entry.is_up = true;
        drop(state);
        self.tell(vec![(key, ReportKind::Started)]);
    }

    fn take_results(&self, results: &[RunResult]) {
        let mut kinds = Vec::with_capacity(3 * results.len());
        let mut state = self.state();
        for result in results {
            let Some(errand) = state.by_log.get(&result.log).copied() else {
                self.counts.strays.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            let code = i32::try_from(result.code).unwrap_or(500);
            let outcome = match result.code {
                wire::OK => Outcome::Exited(0),
                wire::TIMED_OUT => Outcome::TimedOut,
                _ => Outcome::Reported(code, result.message.as_str().into()),
            };
            let output = (outcome == Outcome::Exited(0)).then(|| result.message.as_str().into());
            let counted = match self.end_in(&mut state, errand, outcome, output, &mut kinds) {
                true => &self.counts.results,
                false => &self.counts.strays,
            };
            counted.fetch_add(1, Ordering::Relaxed);
        }
        // In the ledger before anybody hears of it, the executor included.
        state.ledger.write();
        drop(state);
        self.tell(kinds);
    }

    /// A share is over; the first end counts.
    pub(super) fn end_share(&self, errand: Errand, outcome: Outcome, output: Option<Box<str>>) -> bool {
        let mut kinds = Vec::with_capacity(3);
        let mut state = self.state();
        let is_first = self.end_in(&mut state, errand, outcome, output, &mut kinds);
        state.ledger.write();
        drop(state);
        self.tell(kinds);
        is_first
    }

    fn end_in(
        &self,
        state: &mut State,
        errand: Errand,
        outcome: Outcome,
        output: Option<Box<str>>,
        kinds: &mut Vec<(Key, ReportKind)>,
    ) -> bool {
        let (key, index) = errand;
        let lost = outcome == Outcome::Lost;
        if !state.ledger.end(key, index, (self.now)(), outcome) {
            return false;
        }
        if lost {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
        let Some(entry) = state.entry(key) else { return false };
        if !entry.is_up && (output.is_some() || entry.shares.iter().any(|share| share.sight.accepted)) {
            // The result overtook the answer to the order.
            entry.is_up = true;
            kinds.push((key, ReportKind::Started));
        }
        if let Some(share) = entry.shares.iter().find(|share| share.seat.index == index) {
            kinds.push((key, ReportKind::Seat(Box::new(share.seat.clone()))));
        }
        if let Some(outcome) = entry.outcome().filter(|_| !entry.is_over) {
            entry.is_over = true;
            let output = output.filter(|_| entry.shares.len() == 1);
            kinds.push((key, ReportKind::Ended { outcome, output }));
            state.starts.remove(&key);
        }
        true
    }

    pub(super) fn tell(&self, kinds: Vec<(Key, ReportKind)>) {
        let at = (self.now)();
        let report = |(key, kind): (Key, ReportKind)| Report {
            run: key.run,
            step: key.step,
            attempt: key.attempt,
            at,
            kind,
        };
        let mut outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        outbox.extend(kinds.into_iter().map(report));
        drop(outbox);
        self.ready.notify_one();
    }

    async fn deliver(self: Arc<Shared>) {
        loop {
            self.ready.notified().await;
            self.flush();
            sleep(DELIVERY_PAUSE).await;
        }
    }

    fn flush(&self) {
        let reports = std::mem::take(&mut *self.outbox.lock().unwrap_or_else(PoisonError::into_inner));
        if !reports.is_empty() {
            (self.sink)(reports);
        }
    }
}

pub(super) fn ended(outcome: Outcome) -> ReportKind {
    ReportKind::Ended { outcome, output: None }
}

pub(super) fn json(value: &impl serde::Serialize) -> Vec<u8> {
    // Plain structs of numbers and texts always have a JSON form.
    serde_json::to_vec(value).unwrap_or_default()
}

/// Whether the step is the first of its job that runs on executors. That one has the job's own number; executors
/// queue by number, and two steps under one would end each other.
fn is_first_away(start: &Start) -> bool {
    let body = &start.context.body;
    let first = body.steps.iter().position(|step| step.target.is_some());
    first.is_none_or(|at| StepNo(at as u16) == start.step)
}

/// The executor's time limit: the step's, or the run's where the run is this step. 0 means none.
fn timeout_secs(start: &Start) -> u32 {
    let body = &start.context.body;
    let limit = body.step(start.step).and_then(|step| step.timeout_ms);
    let limit = limit.or(body.timeout_ms.filter(|_| body.steps.len() == 1));
    limit.map_or(0, |ms| ((ms + 999) / 1000).clamp(1, 1 << 30) as u32)
}

fn target_of(start: &Start) -> Option<&Target> {
    start.context.body.step(start.step)?.target.as_deref()
}

/// What an executor of this protocol can run.
fn sendable(step: &Step) -> Result<(), &'static str> {
    match step.work {
        Work::Handler(_) | Work::Glue(..) => Ok(()),
        Work::Shell(_) | Work::Script(_)
            if step.env.is_empty() && step.dir.is_none() && step.shell.is_none() =>
        {
            Ok(())
        }
        Work::Shell(_) | Work::Script(_) => {
            Err("an XXL-JOB executor runs a command without `env`, `dir` and `shell`; set them inside of it")
        }
        Work::Program(_) => Err(
            "an XXL-JOB executor runs handlers and scripts; write the command as a text, or name a `handler`",
        ),
    }
}

/// The order in the executor's words.
fn words(
    start: &Start,
    seat: &SeatRecord,
    dialect: Dialect,
    number: u32,
    timeout_secs: u32,
) -> Result<Vec<u8>, String> {
    let context = &start.context;
    let Some(step) = context.body.step(start.step) else {
        return Err("the step is not known any more".into());
    };
    let Some(target) = step.target.as_deref() else { return Err("the step has no executor".into()) };
    let text = params::text(start, step, target)?;
    let (handler, glue, source) = match &step.work {
        Work::Handler(name) => (name.as_str(), "BEAN", ""),
        Work::Glue(kind, source) => ("", glue_word(*kind), source.as_str()),
        Work::Shell(source) | Work::Script(source) => ("", "GLUE_SHELL", source.as_str()),
        Work::Program(_) => return Err("a program cannot be sent".into()),
    };
    Ok(json(&Trigger {
        job_id: number,
        executor_handler: handler,
        executor_params: &text,
        executor_block_strategy: block_word(target.block, dialect),
        executor_timeout: timeout_secs,
        log_id: seat.log,
        log_date_time: seat.at,
        glue_type: glue,
        glue_source: source,
        glue_updatetime: glue_time(source),
        broadcast_index: seat.index,
        broadcast_total: seat.total,
        orth: (dialect == Dialect::Orth).then(|| OrthTrigger {
            executor_concurrency: if target.block == Block::Concurrent { target.concurrency } else { 1 },
            schedule_time: context.trigger.is_scheduled().then_some(context.due),
        }),
    }))
}

/// FNV-1a of the text, folded into some days.
fn glue_time(source: &str) -> Millis {
    let hash = source.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    GLUE_TIME_BASE + (hash % 1_000_000_000) as Millis
}
