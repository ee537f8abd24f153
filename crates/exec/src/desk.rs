use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use cadran_core::{Found, Millis, Order, Outcome, RunId, Start, StepNo};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::{Notify, OnceCell, Semaphore, mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::LocalOptions;
use crate::attempt::{Attempt, Gate, Halt};
use crate::journal::{Journal, Key, keys_of};
use crate::outbox::{Fact, Outbox};
use crate::procfs::Ticks;
use crate::sweep::{Lookout, Swept, sweep};

/// Between two deliveries.
const DELIVERY_PAUSE: Duration = Duration::from_millis(1);

/// Between the end of an attempt and the sweep after it: one sweep for all ends of a burst.
const SWEEP_PAUSE: Duration = Duration::from_millis(200);

/// Sweeps also go on while long attempts run, for the zombies their detached processes leave with us, and while there
/// is a child of unknown origin.
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// How often the executor shows that its threads take up work.
const MOVE_EVERY: Duration = Duration::from_millis(500);

/// Sweeps in a row; what comes back more often waits for the next end.
const SWEEPS_MAX: u32 = 20;

/// A sweep may take this part of one core on a machine with very many processes.
const SWEEP_SHARE: u32 = 20;

/// What the tasks of an executor share.
pub(crate) struct Shared {
    /// What holds for attempts that start from now on.
    pub(crate) options: RwLock<Arc<LocalOptions>>,
    /// Names this executor and this life of it: the first part of every mark.
    pub(crate) life: String,
    pub(crate) desk: Mutex<Desk>,
    pub(crate) lookout: Lookout,
    /// For each thread one attempt that is just being started.
    pub(crate) starting: Semaphore,
    pub(crate) journal: Mutex<Journal>,
    pub(crate) outbox: Outbox,
    /// When this life began.
    pub(crate) opened: Ticks,
    pub(crate) ended: Notify,
    pub(crate) sweep_wanted: Notify,
    /// When the executor's threads last moved.
    pub(crate) moved: Mutex<Instant>,
}

/// What is on and what waits.
#[derive(Default)]
pub(crate) struct Desk {
    pub(crate) live: BTreeMap<Key, watch::Sender<Halt>>,
    /// In order of arrival, while `live_max` are on.
    pub(crate) line: VecDeque<Start>,
    /// Who is in the line, and since when.
    lined: BTreeMap<Key, Millis>,
    /// Runs that were closed while something of them was on: they are forgotten with its end.
    closing: FxHashSet<RunId>,
    /// Runs with preconditions of the job, until they are closed.
    gates: FxHashMap<RunId, Gate>,
    is_draining: bool,
}

impl Desk {
    /// No more starts. Gives back who waited in line.
    pub(crate) fn close(&mut self) -> Vec<Key> {
        self.is_draining = true;
        self.line.clear();
        std::mem::take(&mut self.lined).into_keys().collect()
    }

    /// Takes an attempt out of the line; false when it is not in it.
    fn withdraw(&mut self, key: Key) -> bool {
        let is_in_line = self.lined.remove(&key).is_some();
        if is_in_line {
            self.line.retain(|start| key_of(start) != key);
        }
        is_in_line
    }
}

/// A batch of orders, and what is to be done once they are taken: those that start are in the journal then.
pub(crate) type Batch = (Vec<Order>, Option<Box<dyn FnOnce() + Send>>);

impl Shared {
    pub(crate) fn options(&self) -> Arc<LocalOptions> {
        Arc::clone(&self.options.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn take_orders(self: Arc<Shared>, mut orders: mpsc::UnboundedReceiver<Batch>) {
        while let Some((batch, taken)) = orders.recv().await {
            let mut admitted = Vec::new();
            for order in batch {
                match order {
                    Order::Start(start) => self.line_up(start, &mut admitted),
                    Order::Stop { run, step, attempt } => self.stop(Key { run, step, attempt }),
                    Order::Close { run } => self.close(run),
                    // Executors elsewhere are none of our business.
                    Order::StopShare { .. } | Order::Gone { .. } => {}
                }
            }
            self.begin(admitted);
            if let Some(taken) = taken {
                taken();
            }
        }
    }

    /// What is known of every attempt whose run is not closed. One that waits in line counts as on: it was ordered, and
    /// will start.
    pub(crate) fn known(&self) -> Vec<Found> {
        let desk = self.desk();
        let mut known = self.journal().found();
        known.extend(desk.lined.iter().map(|(key, at)| Found {
            run: key.run,
            step: key.step,
            attempt: key.attempt,
            started_at: *at,
            ended: None,
            output: None,
            lives: true,
            seats: Vec::new(),
        }));
        known
    }

    /// Nobody wants to know of this run any more. What of it is on or waits is stopped.
    fn close(&self, run: RunId) {
        let mut desk = self.desk();
        desk.gates.remove(&run);
        let waiting: Vec<Key> = desk.lined.range(keys_of(run)).map(|(key, _)| *key).collect();
        for key in waiting {
            desk.withdraw(key);
        }
        let mut is_on = false;
        for (_, seat) in desk.live.range(keys_of(run)) {
            is_on = true;
            ask_to_stop(seat);
        }
        if is_on {
            desk.closing.insert(run);
            return;
        }
        drop(desk);
        self.journal().close(run);
    }

    pub(crate) async fn deliver(self: Arc<Shared>) {
        loop {
            self.outbox.ready().await;
            self.outbox.deliver(&self.journal);
            // What comes right behind goes together: one report of a quiet time leaves at once, a burst in batches.
            sleep(DELIVERY_PAUSE).await;
        }
    }

    /// Shows that the executor's threads take up work, for [`Local::silence`](crate::Local::silence).
    pub(crate) async fn keep_moving(self: Arc<Shared>) {
        loop {
            *self.moved.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            sleep(MOVE_EVERY).await;
        }
    }

    pub(crate) async fn keep_sweeping(self: Arc<Shared>) {
        let mut pause = SWEEP_PAUSE;
        let mut suspects = 0;
        loop {
            let is_busy = !self.desk().live.is_empty();
            if is_busy || suspects > 0 {
                let _ = timeout(SWEEP_EVERY, self.sweep_wanted.notified()).await;
            } else {
                self.sweep_wanted.notified().await;
            }
            self.outbox.tend_keeper();
            // Until a sweep finds nothing: what was killed in one is a zombie in the next.
            for _ in 0..SWEEPS_MAX {
                sleep(pause).await;
                let began = Instant::now();
                let shared = Arc::clone(&self);
                let swept = tokio::task::spawn_blocking(move || shared.sweep()).await.unwrap_or_default();
                pause = SWEEP_PAUSE.max(began.elapsed() * SWEEP_SHARE);
                suspects = swept.suspects;
                if swept.killed == 0 && !swept.is_undone {
                    break;
                }
            }
        }
    }

    fn line_up(self: &Arc<Shared>, start: Start, admitted: &mut Vec<(Start, watch::Receiver<Halt>)>) {
        let key = key_of(&start);
        let mut desk = self.desk();
        let is_seen =
            desk.live.contains_key(&key) || desk.lined.contains_key(&key) || self.journal().knows(key);
        if is_seen || desk.is_draining {
            return;
        }
        // A run that is in the journal has passed its gate in an earlier life.
        if !start.context.body.preconditions.is_empty() && !self.journal().knows_run(start.run) {
            desk.gates.entry(start.run).or_insert_with(|| Arc::new(OnceCell::new()));
        }
        if desk.live.len() < self.options().live_max {
            let (seat, halt) = watch::channel(Halt::No);
            desk.live.insert(key, seat);
            admitted.push((start, halt));
        } else {
            desk.lined.insert(key, self.outbox.now());
            desk.line.push_back(start);
        }
    }

    /// Journals the starts of a batch in one write, then lets them go.
    fn begin(self: &Arc<Shared>, admitted: Vec<(Start, watch::Receiver<Halt>)>) {
        let keys: Vec<Key> = admitted.iter().map(|(start, _)| key_of(start)).collect();
        let mut journal = self.journal();
        if keys.is_empty() {
            // The batch may have closed runs.
            journal.write();
        } else {
            journal.begin(&keys, self.outbox.now());
        }
        drop(journal);
        if !admitted.is_empty() {
            self.sweep_wanted.notify_one();
        }
        for (start, halt) in admitted {
            tokio::spawn(Arc::clone(self).run(start, halt));
        }
    }

    async fn run(self: Arc<Shared>, start: Start, halt: watch::Receiver<Halt>) {
        let key = key_of(&start);
        let mut seat = Seat { shared: Arc::clone(&self), key, is_told: false };
        let mark = format!("{}/{}/{}/{}", self.life, key.run, key.step.0, key.attempt);
        let gate = self.desk().gates.get(&key.run).cloned();
        let options = self.options();
        let attempt = Attempt {
            options: &options,
            lookout: &self.lookout,
            start: &start,
            mark: &mark,
            gate,
            halt,
            starting: &self.starting,
        };
        let verdict = attempt.run(|born| self.outbox.push(Fact::Spawned(key, born.clone()))).await;
        seat.is_told = true;
        self.outbox.push(Fact::Ended {
            key,
            outcome: verdict.outcome,
            output: verdict.output,
            born: verdict.born,
        });
    }

    fn stop(&self, key: Key) {
        let mut desk = self.desk();
        if let Some(seat) = desk.live.get(&key) {
            ask_to_stop(seat);
        } else if desk.withdraw(key) {
            self.outbox.push(Fact::Ended { key, outcome: Outcome::Stopped, output: None, born: None });
        }
    }

    /// An attempt is over: its place goes to the next in line.
    fn release(self: &Arc<Shared>, key: Key) {
        let mut admitted = Vec::new();
        let mut desk = self.desk();
        desk.live.remove(&key);
        let is_closed = desk.closing.contains(&key.run)
            && desk.live.range(keys_of(key.run)).next().is_none()
            && desk.closing.remove(&key.run);
        let live_max = self.options().live_max;
        while desk.live.len() < live_max {
            let Some(start) = desk.line.pop_front() else { break };
            let (seat, halt) = watch::channel(Halt::No);
            desk.lined.remove(&key_of(&start));
            desk.live.insert(key_of(&start), seat);
            admitted.push((start, halt));
        }
        drop(desk);
        if is_closed {
            self.journal().close(key.run);
        }
        if is_closed || !admitted.is_empty() {
            self.begin(admitted);
        }
        self.ended.notify_waiters();
        self.sweep_wanted.notify_one();
    }

    pub(crate) fn sweep(&self) -> Swept {
        sweep(&self.life, self.opened, |mark| self.is_live(mark))
    }

    fn is_live(&self, mark: &str) -> bool {
        let key = mark.strip_prefix(&self.life).and_then(|rest| {
            let mut parts = rest.strip_prefix('/')?.split('/');
            let run = parts.next()?.parse().ok()?;
            let step = StepNo(parts.next()?.parse().ok()?);
            Some(Key { run, step, attempt: parts.next()?.parse().ok()? })
        });
        key.is_some_and(|key| self.desk().live.contains_key(&key))
    }

    pub(crate) async fn all_ended(&self) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            // Registered before the look, so that an end in between is not missed.
            ended.as_mut().enable();
            if self.desk().live.is_empty() {
                return;
            }
            ended.await;
        }
    }
}

/// An attempt's place among the live. Given back however the attempt's task ends.
struct Seat {
    shared: Arc<Shared>,
    key: Key,
    is_told: bool,
}

impl Drop for Seat {
    fn drop(&mut self) {
        if !self.is_told && !self.shared.desk().is_draining {
            // The task ended without a verdict, which only a bug of ours can bring about. The run must not hang.
            let (key, outcome) = (self.key, Outcome::Lost);
            self.shared.outbox.push(Fact::Ended { key, outcome, output: None, born: None });
        }
        if tokio::runtime::Handle::try_current().is_ok() {
            self.shared.release(self.key);
        }
    }
}

fn ask_to_stop(seat: &watch::Sender<Halt>) {
    seat.send_if_modified(|halt| std::mem::replace(halt, Halt::Stop.max(*halt)) == Halt::No);
}

fn key_of(start: &Start) -> Key {
    Key { run: start.run, step: start.step, attempt: start.attempt }
}
