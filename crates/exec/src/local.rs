use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cadran_core::{Found, Millis, Order, Outcome, RunId, Start};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rustc_hash::FxHashMap;
use tokio::runtime::Runtime;
use tokio::sync::{Notify, OnceCell, mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::attempt::{Attempt, Gate, Halt};
use crate::journal::{Journal, Key};
use crate::keeper::Keeper;
use crate::outbox::{Fact, Outbox};
use crate::procfs::{self, Ticks};
use crate::sweep::{Swept, kill_left, sweep};
use crate::{ExecError, LocalOptions, Sink};

/// The executor inside the server: runs attempts as processes of this machine.
///
/// It works on two threads of its own, so that starting a thousand processes never delays the server's timers.
pub struct Local {
    shared: Arc<Shared>,
    inbox: mpsc::UnboundedSender<Vec<Order>>,
    runtime: Option<Runtime>,
}

impl Local {
    /// Opens the journal of the previous life, kills what is left of it, and returns what is known of each attempt
    /// whose run was not closed. At most one executor per journal.
    ///
    /// `now` gives the wall clock; `sink` gets the reports. This process becomes the subreaper of its descendants.
    pub async fn open(
        options: LocalOptions,
        now: impl Fn() -> Millis + Send + Sync + 'static,
        sink: Sink,
    ) -> Result<(Local, Vec<Found>), ExecError> {
        let opening = tokio::task::spawn_blocking(move || Local::open_now(options, Box::new(now), sink));
        opening.await.unwrap_or_else(|error| Err(ExecError::Threads(std::io::Error::other(error))))
    }

    fn open_now(
        options: LocalOptions,
        now: Box<dyn Fn() -> Millis + Send + Sync>,
        sink: Sink,
    ) -> Result<(Local, Vec<Found>), ExecError> {
        let journal = Journal::open(&options.journal, &options.lock())?;
        std::fs::create_dir_all(&options.logs)
            .map_err(ExecError::file("create the log directory", &options.logs))?;
        let house = house(&options.journal);
        let killed = kill_left(&journal.open_processes(), |mark| mark.starts_with(&house));
        if killed > 0 {
            tracing::warn!(killed, "processes of the previous server were still alive and were killed");
        }
        // Scripts of the previous life; they are gone with its processes.
        let _ = std::fs::remove_dir_all(options.scripts());
        let found = journal.found();
        if let Err(error) = nix::sys::prctl::set_child_subreaper(true) {
            tracing::warn!(%error, "cannot become subreaper: a step's process that detaches itself may be missed");
        }
        raise_handle_limit();
        let life = format!("{house}{}", life());
        let keeper = match &options.keeper {
            Some(command) => Some(Keeper::start(command.clone(), &life)?),
            None => None,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("cadran-exec")
            .enable_all()
            .build()
            .map_err(ExecError::Threads)?;
        let shared = Arc::new(Shared {
            options,
            life,
            desk: Mutex::default(),
            journal: Mutex::new(journal),
            outbox: Outbox::new(sink, now, keeper),
            opened: procfs::ticks_now(),
            ended: Notify::new(),
            sweep_wanted: Notify::new(),
        });
        let (inbox, orders) = mpsc::unbounded_channel();
        runtime.spawn(Arc::clone(&shared).take_orders(orders));
        runtime.spawn(Arc::clone(&shared).deliver());
        runtime.spawn(Arc::clone(&shared).keep_sweeping());
        Ok((Local { shared, inbox, runtime: Some(runtime) }, found))
    }

    /// Takes a batch of orders; never waits. A start that was seen before is ignored, and so is every start after
    /// [`Local::drain`].
    ///
    /// The queue behind it has no bound of its own: whoever sends orders admits runs, and bounds them there.
    pub fn submit(&self, orders: Vec<Order>) {
        // Closed only when the threads are gone, which is when this value is.
        let _ = self.inbox.send(orders);
    }

    /// Attempts alive or waiting in line.
    pub fn live(&self) -> usize {
        let desk = self.shared.desk();
        desk.live.len() + desk.line.len()
    }

    /// Stops everything, as a stop order would: signal, grace, KILL. What is alive after `patience` is killed at once.
    /// Starts still in line are let go without a report: they never began, and the next life will judge them again.
    ///
    /// Returns when all reports are delivered and the keeper is dismissed.
    pub async fn drain(&self, patience: Duration) {
        self.shared.desk().is_draining = true;
        self.shared.desk().line.clear();
        for (halt, patience) in [(Halt::Stop, patience), (Halt::Kill, KILL_PATIENCE)] {
            for seat in self.shared.desk().live.values() {
                seat.send_replace(halt);
            }
            if timeout(patience, self.shared.all_ended()).await.is_ok() {
                break;
            }
        }
        let shared = Arc::clone(&self.shared);
        let last = tokio::task::spawn_blocking(move || {
            // Twice: the first kills, the second reaps.
            for _ in 0..2 {
                shared.sweep();
            }
            shared.outbox.deliver(&shared.journal);
            shared.outbox.dismiss_keeper();
        });
        let _ = last.await;
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        // Without a drain, what still lives goes hard: the tasks that watch it end here.
        let is_idle = {
            let mut desk = self.shared.desk();
            desk.is_draining = true;
            desk.line.clear();
            desk.live.is_empty()
        };
        let leaders = if is_idle { Vec::new() } else { self.shared.journal().open_processes() };
        if !is_idle {
            let life = format!("{}/", self.shared.life);
            kill_left(&leaders, |mark| mark.starts_with(&life));
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        self.shared.outbox.dismiss_keeper();
    }
}

/// Threads of the executor: starting a process blocks one for the moment of the fork while the other goes on reading
/// pipes. More gain nothing, since the kernel serialises most of a fork.
const THREADS: usize = 2;

/// How long a drain waits for killed processes. What survives KILL hangs in the kernel.
const KILL_PATIENCE: Duration = Duration::from_secs(2);

/// Between the end of an attempt and the sweep after it: one sweep for all ends of a burst.
const SWEEP_PAUSE: Duration = Duration::from_millis(200);

/// Sweeps also go on while long attempts run, for the zombies their detached processes leave with us.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// A sweep may take this part of one core on a machine with very many processes.
const SWEEP_SHARE: u32 = 20;

/// Handles wanted: `live_max` attempts with four each, and the rest of the server.
const HANDLES_WANTED: u64 = 65_536;

struct Shared {
    options: LocalOptions,
    /// Names this executor and this life of it: the first part of every mark.
    life: String,
    desk: Mutex<Desk>,
    journal: Mutex<Journal>,
    outbox: Outbox,
    /// When this life began.
    opened: Ticks,
    ended: Notify,
    sweep_wanted: Notify,
}

/// What is on and what waits.
#[derive(Default)]
struct Desk {
    live: FxHashMap<Key, watch::Sender<Halt>>,
    /// In order of arrival, while `live_max` are on.
    line: VecDeque<Start>,
    /// Runs with preconditions of the job, until they are closed.
    gates: FxHashMap<RunId, Gate>,
    is_draining: bool,
}

impl Shared {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn take_orders(self: Arc<Shared>, mut orders: mpsc::UnboundedReceiver<Vec<Order>>) {
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
                }
            }
            self.begin(admitted);
        }
    }

    async fn deliver(self: Arc<Shared>) {
        loop {
            self.outbox.ready().await;
            self.outbox.deliver(&self.journal);
        }
    }

    async fn keep_sweeping(self: Arc<Shared>) {
        let mut pause = SWEEP_PAUSE;
        loop {
            let is_busy = !self.desk().live.is_empty();
            if is_busy {
                let _ = timeout(SWEEP_EVERY, self.sweep_wanted.notified()).await;
            } else {
                self.sweep_wanted.notified().await;
            }
            // Until a sweep finds nothing: what was killed in one is a zombie in the next.
            for _ in 0..SWEEP_SHARE {
                sleep(pause).await;
                let began = Instant::now();
                let shared = Arc::clone(&self);
                let swept = tokio::task::spawn_blocking(move || shared.sweep()).await;
                pause = SWEEP_PAUSE.max(began.elapsed() * SWEEP_SHARE);
                if !swept.is_ok_and(|swept| swept.killed > 0 || swept.is_undone) {
                    break;
                }
            }
        }
    }

    fn line_up(self: &Arc<Shared>, start: Start, admitted: &mut Vec<(Start, watch::Receiver<Halt>)>) {
        let key = key_of(&start);
        let mut desk = self.desk();
        let is_seen = desk.live.contains_key(&key)
            || desk.line.iter().any(|waiting| key_of(waiting) == key)
            || self.journal().knows(key);
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
        let attempt = Attempt { options: &self.options, start: &start, mark: &mark, gate, halt };
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
        } else if let Some(at) = desk.line.iter().position(|start| key_of(start) == key) {
            desk.line.remove(at);
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

    fn sweep(&self) -> Swept {
        sweep(&self.life, self.opened, |mark| self.is_live(mark))
    }

    fn is_live(&self, mark: &str) -> bool {
        let key = mark.strip_prefix(&self.life).and_then(|rest| {
            let mut parts = rest.strip_prefix('/')?.split('/');
            let run = parts.next()?.parse().ok()?;
            let step = cadran_core::StepNo(parts.next()?.parse().ok()?);
            Some(Key { run, step, attempt: parts.next()?.parse().ok()? })
        });
        key.is_some_and(|key| self.desk().live.contains_key(&key))
    }

    async fn all_ended(&self) {
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

/// Names the data directory, the same in every life: FNV-1a of the journal's full path.
fn house(journal: &Path) -> String {
    let path = std::path::absolute(journal).unwrap_or_else(|_| journal.to_path_buf());
    let hash = path.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}.")
}

/// Names this life: no two processes with the same pid begin in the same tick, and one process counts.
fn life() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let pid = std::process::id();
    let began = procfs::began(pid as i32).unwrap_or_else(procfs::ticks_now);
    format!("{pid}.{began}.{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Steps inherit the raised limit: to set it back between fork and exec would cost the cheap way of starting them.
fn raise_handle_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard.min(HANDLES_WANTED)
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard.min(HANDLES_WANTED), hard);
    }
}
