use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cadran_core::{Order, Outcome, RunId, Start, StepNo};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::{Notify, OnceCell, mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::LocalOptions;
use crate::attempt::{Attempt, Gate, Halt};
use crate::journal::{Journal, Key};
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
    pub(crate) options: LocalOptions,
    /// Names this executor and this life of it: the first part of every mark.
    pub(crate) life: String,
    pub(crate) desk: Mutex<Desk>,
    pub(crate) lookout: Lookout,
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
    pub(crate) live: FxHashMap<Key, watch::Sender<Halt>>,
    /// In order of arrival, while `live_max` are on.
    pub(crate) line: VecDeque<Start>,
    /// Who is in the line.
    lined: FxHashSet<Key>,
    /// Runs with preconditions of the job, until they are closed.
    gates: FxHashMap<RunId, Gate>,
    is_draining: bool,
}

impl Desk {
    /// No more starts.
    pub(crate) fn close(&mut self) {
        self.is_draining = true;
        self.line.clear();
        self.lined.clear();
    }
}

impl Shared {
    pub(crate) fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn take_orders(self: Arc<Shared>, mut orders: mpsc::UnboundedReceiver<Vec<Order>>) {
        while let Some(batch) = orders.recv().await {
            let mut admitted = Vec::new();
            for order in batch {
                match order {
                    Order::Start(start) => self.line_up(start, &mut admitted),
                    Order::Stop { run, step, attempt } => self.stop(Key { run, step, attempt }),
                    Order::Close { run } => {
                        self.desk().gates.remove(&run);
                        self.journal().close(run);
                    }
                    // Executors elsewhere are none of our business.
                    Order::StopShare { .. } | Order::Gone { .. } => {}
                }
            }
            self.begin(admitted);
        }
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
        let is_seen = desk.live.contains_key(&key) || desk.lined.contains(&key) || self.journal().knows(key);
        if is_seen || desk.is_draining {
            return;
        }
        // A run that is in the journal has passed its gate in an earlier life.
        if !start.context.body.preconditions.is_empty() && !self.journal().knows_run(start.run) {
            desk.gates.entry(start.run).or_insert_with(|| Arc::new(OnceCell::new()));
        }
        if desk.live.len() < self.options.live_max {
            let (seat, halt) = watch::channel(Halt::No);
            desk.live.insert(key, seat);
            admitted.push((start, halt));
        } else {
            desk.lined.insert(key);
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
        let attempt = Attempt {
            options: &self.options,
            lookout: &self.lookout,
            start: &start,
            mark: &mark,
            gate,
            halt,
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
            seat.send_if_modified(|halt| std::mem::replace(halt, Halt::Stop.max(*halt)) == Halt::No);
        } else if desk.lined.remove(&key) {
            desk.line.retain(|start| key_of(start) != key);
            self.outbox.push(Fact::Ended { key, outcome: Outcome::Stopped, output: None, born: None });
        }
    }

    /// An attempt is over: its place goes to the next in line.
    fn release(self: &Arc<Shared>, key: Key) {
        let mut admitted = Vec::new();
        let mut desk = self.desk();
        desk.live.remove(&key);
        while desk.live.len() < self.options.live_max {
            let Some(start) = desk.line.pop_front() else { break };
            let (seat, halt) = watch::channel(Halt::No);
            desk.lined.remove(&key_of(&start));
            desk.live.insert(key_of(&start), seat);
            admitted.push((start, halt));
        }
        drop(desk);
        if !admitted.is_empty() {
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

fn key_of(start: &Start) -> Key {
    Key { run: start.run, step: start.step, attempt: start.attempt }
}
