use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use cadran_core::{GroupName, Millis, Order, Outcome, Report, ReportKind, RunId, Start};
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::event::WorkerEvent;
use super::held::Held;
use super::lease::{Allows, LEASE, Lease, poll_time};
use super::link::{Call, Link, LinkError};
use super::slots::{Arrival, Move, Slots};
use super::wire::{Done, Hello, Leave, Orders, Poll, Sender, Welcome, WireOrder, WireStart};
use crate::journal::Key;
use crate::local::life;
use crate::{ExecError, Local, LocalOptions, LogDir};

/// The worker's end of the line: takes orders from a server, runs them here, and sends back what became of them.
pub struct Worker {
    shared: Arc<Shared>,
}

/// How [`Worker`] works.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// The same for the life of the data directory.
    pub id: String,
    /// The group it is of.
    pub group: GroupName,
    /// How many attempts run at once.
    pub slots: u32,
    /// What it says of itself, (name, value).
    pub labels: Vec<(String, String)>,
    /// How processes are run.
    pub local: LocalOptions,
}

/// Why a worker ends.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// This machine's side cannot work.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// The server does not want it.
    #[error("the server refused this worker: {0}")]
    Refused(String),
    /// Another process has the same id.
    #[error(
        "another worker came with the same id; give each its own data directory, and do not copy one that is in use"
    )]
    Superseded,
}

pub(super) struct Shared {
    pub(super) options: WorkerOptions,
    pub(super) logs: LogDir,
    link: Arc<dyn Link>,
    local: OnceLock<Local>,
    life: String,
    pub(super) state: Mutex<State>,
    /// Something is to be delivered, or can be again.
    pub(super) to_deliver: Notify,
    /// Whoever asks for orders shall look up: it is time to drain or to say hello again.
    look_up: Notify,
    now: Box<dyn Fn() -> Millis + Send + Sync>,
    events: Box<dyn Fn(WorkerEvent) + Send + Sync>,
}

pub(super) struct State {
    pub(super) held: Held,
    slots: Slots<Start>,
    /// Attempts being ended because a later run takes their place.
    covered: BTreeMap<Key, RunId>,
    pub(super) session: Option<Session>,
    lease: Option<Lease>,
    is_lease_lost: bool,
    pub(super) is_draining: bool,
    /// Everything was ended: what comes now goes back.
    is_cut: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) from: Sender,
    pub(super) lease: Duration,
    /// The number of the last order that came.
    have: u64,
}

/// Between two tries to reach the server: the first, and the longest.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Looks at the lease in one of its lengths.
const LOOKS_PER_LEASE: u32 = 60;

/// HTTP statuses of refusals.
const CONFLICT: u16 = 409;
const GONE: u16 = 410;

impl Worker {
    /// Opens the journal of the previous life: what it left is told to the server.
    ///
    /// `now` gives the wall clock; `events` hears what happens.
    pub async fn open(
        options: WorkerOptions,
        link: Arc<dyn Link>,
        now: fn() -> Millis,
        events: impl Fn(WorkerEvent) + Send + Sync + 'static,
    ) -> Result<Worker, WorkerError> {
        let state = State {
            held: Held::default(),
            slots: Slots::new(options.slots as usize),
            covered: BTreeMap::new(),
            session: None,
            lease: None,
            is_lease_lost: false,
            is_draining: false,
            is_cut: false,
        };
        let shared = Arc::new(Shared {
            logs: LogDir::new(&options.local.logs),
            link,
            local: OnceLock::new(),
            life: life(),
            state: Mutex::new(state),
            to_deliver: Notify::new(),
            look_up: Notify::new(),
            now: Box::new(now),
            events: Box::new(events),
            options,
        });
        let sink = Shared::sink(Arc::downgrade(&shared));
        let (local, found) = Local::open(shared.options.local.clone(), now, Arc::new(sink)).await?;
        let _ = shared.local.set(local);
        shared.state().held = Held::recall(found, now());
        Ok(Worker { shared })
    }

    /// Works until it is told to go: [`Worker::drain`], and everything is over and delivered.
    pub async fn run(&self) -> Result<(), WorkerError> {
        let watching = tokio::spawn(Arc::clone(&self.shared).keep_lease());
        let delivering = tokio::spawn(Arc::clone(&self.shared).deliver());
        let done = Arc::clone(&self.shared).take_orders().await;
        watching.abort();
        delivering.abort();
        done
    }

    /// Takes no more work. What is on or waits is brought to its end.
    pub fn drain(&self) {
        let mut state = self.shared.state();
        state.is_draining = true;
        let left = state.held.list().iter().filter(|held| !held.ended).count();
        drop(state);
        self.shared.event(WorkerEvent::Draining(left));
        self.shared.look_up.notify_one();
    }

    /// Ends what is on: each step's signal, and KILL after `patience`. What waits is given back.
    pub async fn cut(&self, patience: Duration) {
        self.shared.state().is_cut = true;
        self.shared.give_back();
        if let Some(local) = self.shared.local.get() {
            local.drain(patience).await;
        }
    }

    /// Results the server has not heard of. They are on disk, and told at the next start.
    pub fn undelivered(&self) -> usize {
        self.shared.state().held.undelivered()
    }
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn event(&self, event: WorkerEvent) {
        (self.events)(event);
    }

    fn local(&self, orders: Vec<Order>) {
        if let Some(local) = self.local.get() {
            local.submit(orders);
        }
    }

    /// One call. Its answer renews the lease, counted from when it was sent.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        verb: String,
        body: Vec<u8>,
        patience: Duration,
    ) -> Result<T, LinkError> {
        let sent = mono();
        let answer = self.link.call(Call { verb, body, patience }).await?;
        if let Some(lease) = &mut self.state().lease {
            lease.renew(sent);
        }
        serde_json::from_slice(&answer)
            .map_err(|_| LinkError::Unreachable("the answer is not of a server for workers".to_owned()))
    }

    async fn take_orders(self: Arc<Shared>) -> Result<(), WorkerError> {
        let mut retry = RETRY_FIRST;
        let mut is_known = false;
        let mut is_silent = false;
        loop {
            let session = self.state().session.clone();
            let done = match session {
                // Nothing to do, nothing to tell, and nobody to tell it to.
                None if self.is_done() => return Ok(()),
                None => self.hello().await,
                Some(session) if self.is_done() => self.leave(&session).await,
                Some(session) => tokio::select! {
                    done = self.poll(&session) => done,
                    () = self.look_up.notified() => Ok(()),
                },
            };
            match done {
                Ok(()) => (retry, is_known, is_silent) = (RETRY_FIRST, true, false),
                Err(LinkError::Refused(GONE, _)) => return Err(WorkerError::Superseded),
                Err(LinkError::Refused(CONFLICT, _)) => self.state().session = None,
                Err(LinkError::Refused(status, why)) if !is_known && status < 500 => {
                    return Err(WorkerError::Refused(why));
                }
                Err(LinkError::Unreachable(why) | LinkError::Refused(_, why)) => {
                    if !is_silent {
                        self.event(WorkerEvent::Unreachable(why));
                    }
                    is_silent = true;
                    tokio::select! {
                        () = sleep(retry) => {}
                        () = self.look_up.notified() => {}
                    }
                    retry = (retry * 2).min(RETRY_MAX).min(self.lease_time() / 10);
                }
            }
        }
    }

    fn lease_time(&self) -> Duration {
        self.state().session.as_ref().map_or(LEASE, |session| session.lease)
    }

    /// Told to go, and nothing is left to do or to tell.
    fn is_done(&self) -> bool {
        let state = self.state();
        state.is_draining && state.slots.is_idle() && state.held.undelivered() == 0
    }

    async fn hello(&self) -> Result<(), LinkError> {
        let sent = mono();
        let options = &self.options;
        let hello = {
            let state = self.state();
            Hello {
                worker: options.id.clone(),
                life: self.life.clone(),
                slots: options.slots,
                labels: options.labels.clone(),
                draining: state.is_draining,
                held: state.held.list(),
            }
        };
        let patience = poll_time(self.lease_time()).max(Duration::from_secs(1));
        let welcome: Welcome = self.call("hello".into(), json(&hello), patience).await?;
        let mut state = self.state();
        let lease = Duration::from_millis(welcome.lease_ms);
        let from = Sender { worker: hello.worker, life: hello.life, server: welcome.server.clone() };
        state.session = Some(Session { from, lease, have: 0 });
        state.lease = Some(Lease::new(sent, welcome.lease_ms as Millis));
        state.is_lease_lost = false;
        let (stops, runs) = state.held.welcome(&welcome);
        stops.into_iter().for_each(|key| self.stop(&mut state, key));
        drop(state);
        runs.into_iter().for_each(|run| self.forget(run));
        self.event(WorkerEvent::Connected { server: welcome.server, lease_ms: welcome.lease_ms });
        self.to_deliver.notify_one();
        Ok(())
    }

    async fn poll(&self, session: &Session) -> Result<(), LinkError> {
        let draining = self.state().is_draining;
        let poll = Poll { from: session.from.clone(), have: session.have, draining };
        // The server answers within the first part in any case.
        let patience = poll_time(session.lease) * 2;
        let orders: Orders = self.call("orders".into(), json(&poll), patience).await?;
        for (no, order) in orders.orders {
            let mut state = self.state();
            match &mut state.session {
                Some(known) if known.have < no => known.have = no,
                _ => continue,
            }
            match order {
                WireOrder::Start(start) => self.take(&mut state, *start),
                WireOrder::Stop(named) => {
                    if let Some(key) = named.key() {
                        self.stop(&mut state, key);
                    }
                }
                WireOrder::Close(run) => {
                    let Ok(run) = run.parse::<RunId>() else { continue };
                    let stops = state.held.close(run);
                    if stops.is_empty() {
                        drop(state);
                        self.forget(run);
                    } else {
                        stops.into_iter().for_each(|key| self.stop(&mut state, key));
                    }
                }
            }
        }
        if draining {
            // What was on may have ended meanwhile.
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    async fn leave(&self, session: &Session) -> Result<(), LinkError> {
        let leave = Leave { from: session.from.clone() };
        let _: Done = self.call("leave".into(), json(&leave), poll_time(session.lease)).await?;
        self.state().session = None;
        Ok(())
    }

    fn take(&self, state: &mut State, order: WireStart) {
        let Some(key) = order.attempt.key() else { return };
        let (job, step) = order.title();
        if !state.held.take(key, order.title()) {
            return;
        }
        self.event(WorkerEvent::Ordered { run: key.run, job, step, attempt: key.and_turn().0.attempt });
        if state.is_cut {
            return self.end(state, key, Outcome::Lost, None);
        }
        let (number, concurrency) = (order.number, order.concurrency);
        let moves = match order.start() {
            Ok((what, block)) => state.slots.arrive(Arrival { key, number, block, concurrency, what }),
            Err(why) => {
                let why = format!("this worker does not understand the order: {why}; use a newer one");
                vec![Move::Refuse(key, why)]
            }
        };
        self.carry_out(state, moves);
    }

    fn stop(&self, state: &mut State, key: Key) {
        if state.slots.withdraw(key) {
            self.end(state, key, Outcome::Stopped, None);
        } else {
            self.local(vec![Order::Stop { run: key.run, step: key.step, attempt: key.attempt }]);
        }
    }

    fn carry_out(&self, state: &mut State, moves: Vec<Move<Start>>) {
        for one in moves {
            match one {
                // Whoever was frozen may find its lease gone: nothing starts then.
                Move::Start(key, _) if !allows_work(state) => {
                    self.end(state, key, Outcome::Lost, None);
                    let next = state.slots.ended(key);
                    self.carry_out(state, next);
                }
                Move::Start(_, start) => self.local(vec![Order::Start(start)]),
                Move::Refuse(key, why) => self.end(state, key, Outcome::NotStarted(why.into()), None),
                Move::Cover(key, by) => {
                    state.covered.insert(key, by);
                    self.stop(state, key);
                }
            }
        }
    }

    fn end(&self, state: &mut State, key: Key, outcome: Outcome, output: Option<Box<str>>) {
        let Some(item) = state.held.get(key).filter(|item| !item.is_ended()) else { return };
        let (job, step) = item.title.clone();
        let (run, attempt) = (key.run, key.and_turn().0.attempt);
        let event = WorkerEvent::Ended { run, job, step, attempt, outcome: outcome.clone() };
        self.event(event);
        if let Some(run) = state.held.ended(key, (self.now)(), outcome, output) {
            self.forget(run);
        }
        self.to_deliver.notify_one();
    }

    /// Nobody will ask for anything of this run.
    fn forget(&self, run: RunId) {
        self.local(vec![Order::Close { run }]);
        if let Err(error) = self.logs.remove(run) {
            tracing::warn!(%run, %error, "could not remove the logs of a run");
        }
    }

    /// Lets go of what waits.
    fn give_back(&self) {
        let mut state = self.state();
        for key in state.slots.clear() {
            self.end(&mut state, key, Outcome::Lost, None);
        }
    }

    fn sink(this: Weak<Shared>) -> impl Fn(Vec<Report>) + Send + Sync {
        move |reports| {
            let Some(this) = this.upgrade() else { return };
            let mut state = this.state();
            for Report { run, step, attempt, at, kind } in reports {
                let key = Key { run, step, attempt };
                match kind {
                    ReportKind::Started => {
                        state.held.started(key, at);
                        if let Some((job, step)) = state.held.get(key).map(|item| item.title.clone()) {
                            let attempt = key.and_turn().0.attempt;
                            this.event(WorkerEvent::Started { run, job, step, attempt });
                        }
                    }
                    ReportKind::Ended { outcome, output } => {
                        let outcome = match state.covered.remove(&key) {
                            Some(by) => {
                                let why = format!("run {by} took its place (`block: cover`)");
                                Outcome::Reported(COVERED, why.into())
                            }
                            None => outcome,
                        };
                        this.end(&mut state, key, outcome, output);
                        let moves = state.slots.ended(key);
                        this.carry_out(&mut state, moves);
                    }
                    ReportKind::Seat(_) => {}
                }
            }
            drop(state);
            this.to_deliver.notify_one();
            this.look_up_if_done();
        }
    }

    /// Ends a wait for orders once there is nothing left to wait for.
    pub(super) fn look_up_if_done(&self) {
        if self.is_done() {
            self.look_up.notify_one();
        }
    }

    /// Sees that nothing runs on when the lease ends. A second process watches over this one.
    async fn keep_lease(self: Arc<Shared>) {
        let mut held_to = None;
        loop {
            let (allows, lease, on) = {
                let state = self.state();
                let allows = state.lease.map(|lease| lease.look(mono()));
                (allows, state.lease, state.slots.on().collect::<Vec<_>>())
            };
            if let (Some(lease), Some(local)) = (lease, self.local.get())
                && held_to != Some(lease)
            {
                local.hold(lease.until_hard(mono()));
                held_to = Some(lease);
            }
            match allows {
                Some(Allows::Stop | Allows::Nothing) => self.lose_lease(allows, on),
                Some(Allows::Work) => self.state().is_lease_lost = false,
                None => {}
            }
            sleep(self.lease_time() / LOOKS_PER_LEASE).await;
        }
    }

    fn lose_lease(&self, allows: Option<Allows>, on: Vec<Key>) {
        let is_first = !std::mem::replace(&mut self.state().is_lease_lost, true);
        if is_first {
            self.give_back();
            if !on.is_empty() {
                self.event(WorkerEvent::LeaseLost);
            }
            let stop = |key: Key| Order::Stop { run: key.run, step: key.step, attempt: key.attempt };
            self.local(on.iter().copied().map(stop).collect());
        }
        if allows == Some(Allows::Nothing)
            && !on.is_empty()
            && let Some(local) = self.local.get()
        {
            local.kill_all();
        }
    }
}

/// The code of a run whose place another took, as XXL-JOB's executors say it.
const COVERED: i32 = 500;

fn allows_work(state: &State) -> bool {
    state.lease.is_some_and(|lease| lease.look(mono()) == Allows::Work)
}

/// Milliseconds of a clock that never goes back and goes on while the machine sleeps: a lease ends meanwhile too.
pub(super) fn mono() -> Millis {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from);
    now.map_or(Millis::MAX / 2, |now| now.as_millis() as Millis)
}

pub(super) fn json(value: &impl Serialize) -> Vec<u8> {
    // Plain structs of numbers and texts always have a JSON form.
    serde_json::to_vec(value).unwrap_or_default()
}
