//! What gives orders to executors elsewhere: its threads, and what they share.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cadran_core::{Address, Found, Millis, Order, Outcome, Report, ReportKind, Start};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep};

use super::client::Client;
use super::departure::Sent;
use super::lane::Lanes;
use super::ledger::Ledger;
use super::options::{RemoteOptions, Tokens};
use super::pull::Pulled;
use super::result::Answered;
use super::rush::Rush;
use super::table::{Entry, Share};
use super::wire::RunResult;
use crate::journal::Key;
use crate::{Damage, ExecError, Sink};

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
    /// Orders that were sent and never answered: whether they arrived is found out by asking.
    pub unanswered: u64,
    /// Results that belonged to something.
    pub results: u64,
    /// Results of runs that are over or were never known.
    pub strays: u64,
    /// Shares given up as lost.
    pub lost: u64,
    /// Orders that found their lane full.
    pub delayed: u64,
    /// The lane of those that answer in time.
    pub fast: LaneCounts,
    /// The lane of slow jobs and of executors that owe an answer.
    pub slow: LaneCounts,
    /// Orders that wait.
    pub waiting: usize,
    /// Shares that are out.
    pub open: usize,
}

/// What is in one lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounts {
    /// Orders on their way.
    pub on: usize,
    /// How many may be on their way at once.
    pub at_once_max: usize,
    /// Orders that wait for a place, those behind a full queue included.
    pub queued: usize,
}

/// One share of one attempt.
pub(super) type Errand = (Key, u32);

/// What the tasks share.
pub(super) struct Shared {
    pub(super) options: RemoteOptions,
    pub(super) client: Client,
    pub(super) state: Mutex<State>,
    pub(super) lanes: Mutex<Lanes<Errand>>,
    pub(super) pulled: Mutex<Pulled>,
    /// Where orders go that wait for their answer, in turns.
    hearing: Vec<mpsc::UnboundedSender<Sent>>,
    next_hearing: AtomicUsize,
    pub(super) rush: Arc<Rush>,
    pub(super) answers: Mutex<Vec<Answered>>,
    outbox: Mutex<Vec<Report>>,
    ready: Notify,
    sink: Sink,
    pub(super) now: Box<dyn Fn() -> Millis + Send + Sync>,
    pub(super) counts: Counters,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) accepted: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) unanswered: AtomicU64,
    pub(super) results: AtomicU64,
    pub(super) strays: AtomicU64,
    pub(super) lost: AtomicU64,
}

/// What is out.
pub(super) struct State {
    pub(super) ledger: Ledger,
    pub(super) by_log: FxHashMap<u64, Errand>,
    /// Orders until they have left.
    pub(super) starts: FxHashMap<Key, Start>,
    /// Executors that were seen to know when a job is on.
    pub(super) knowing: FxHashSet<Address>,
    /// Attempts, and single shares, that somebody is ending.
    pub(super) halting: BTreeSet<(Key, Option<u32>)>,
}

/// Threads that send orders and read answers.
const SENDERS: usize = 2;

/// Between two deliveries of reports: the first goes at once, and a burst goes together, with fewer turns and commits.
const DELIVERY_PAUSE: Duration = Duration::from_millis(5);

/// So many pauses more while a burst of orders leaves: that it leaves in time matters more than when the first of its
/// answers and results are recorded.
const BURST_PAUSES_MAX: u32 = 10;

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
            // A burst of a second leaves as fast as two cores send it; the server's other threads have work enough.
            .worker_threads(SENDERS)
            .thread_name("cadran-remote")
            .enable_all()
            .build()
            .map_err(ExecError::Threads)?;
        let _inside = runtime.enter();
        let (hearing, ears): (Vec<_>, Vec<_>) = (0..SENDERS).map(|_| mpsc::unbounded_channel()).unzip();
        let shared = Arc::new(Shared {
            client: Client::new(&options, tokens),
            state: Mutex::new(State::new(ledger)),
            lanes: Mutex::new(Lanes::new(options.fast, options.slow, options.slow_after, Instant::now())),
            pulled: Mutex::default(),
            hearing,
            next_hearing: AtomicUsize::new(0),
            rush: Arc::default(),
            answers: Mutex::default(),
            outbox: Mutex::default(),
            ready: Notify::new(),
            sink,
            now: Box::new(now),
            counts: Counters::default(),
            options,
        });
        let (inbox, orders) = mpsc::unbounded_channel();
        runtime.spawn(Arc::clone(&shared).take_orders(orders));
        for sent in ears {
            runtime.spawn(Arc::clone(&shared).hear(sent));
        }
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

    /// Returns when no burst of orders is leaving, or after a little while: what can wait, like taking results in, lets
    /// it pass.
    pub async fn calm(&self) {
        self.shared.calm().await;
    }

    /// Takes results in, and blocks until they are on disk, so that the executor may forget them. After an error it must
    /// not: they count all the same, but a crash could lose them.
    pub fn take_results(&self, results: &[RunResult]) -> std::io::Result<()> {
        self.shared.take_results(results)
    }

    /// What was wrong with the ledger when it was opened.
    pub fn damage(&self) -> Option<Damage> {
        self.shared.state().ledger.damage.clone()
    }

    /// An executor says that it leaves: what it still has is lost unless it reports soon.
    pub fn leaves(&self, address: &Address) {
        self.shared.distrust(address);
    }

    /// An executor is there that was not: whatever was thought of it while it was away is forgotten.
    pub fn returns(&self, address: &Address) {
        self.shared.trust(address);
    }

    /// What was counted.
    pub fn counts(&self) -> RemoteCounts {
        let counts = &self.shared.counts;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (delayed, (fast, slow), waiting) = {
            let lanes = self.shared.lanes();
            (lanes.delayed, lanes.counts(), lanes.waiting())
        };
        let open = self.shared.state().ledger.kept.entries.values().map(|entry| entry.open().count()).sum();
        RemoteCounts {
            accepted: read(&counts.accepted),
            refused: read(&counts.refused),
            unanswered: read(&counts.unanswered),
            results: read(&counts.results),
            strays: read(&counts.strays),
            lost: read(&counts.lost),
            delayed,
            fast,
            slow,
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
        self.shared.settle();
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
                    share.sight.since = Some(now);
                    (share.sight.accepted, share.sight.trusted) = (!share.is_untaken(), share.is_untaken());
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
    pub(super) fn cover(&mut self, by: Key, address: &Address) {
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

    /// Gives an order to whoever waits for its answer.
    pub(super) fn await_answer(&self, sent: Sent) {
        let turn = self.next_hearing.fetch_add(1, Ordering::Relaxed);
        // It is heard as long as the runtime lives; after that nobody waits.
        let _ = self.hearing[turn % self.hearing.len()].send(sent);
    }

    /// Keeps an answer until somebody has time for it.
    pub(super) fn note_answer(&self, answered: Answered) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push(answered);
        self.ready.notify_one();
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

    async fn calm(&self) {
        for _ in 0..BURST_PAUSES_MAX {
            if !self.lanes().is_crowded() {
                return;
            }
            sleep(DELIVERY_PAUSE).await;
        }
    }

    async fn deliver(self: Arc<Shared>) {
        loop {
            self.ready.notified().await;
            self.calm().await;
            self.settle();
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
