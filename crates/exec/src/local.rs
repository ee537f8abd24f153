use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use cadran_core::{Found, Millis, Order, Outcome};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::{Instant, timeout};

use crate::attempt::Halt;
use crate::cgroup;
use crate::container;
use crate::desk::{Batch, Shared};
use crate::journal::Journal;
use crate::keeper::Keeper;
use crate::outbox::{Fact, Outbox};
use crate::procfs;
use crate::sweep::{Lookout, kill_left};
use crate::{Damage, ExecError, LocalOptions, Sink};

/// The executor inside the server: runs attempts as processes of this machine.
///
/// It works on two threads of its own, so that starting a thousand processes never delays the server's timers.
pub struct Local {
    shared: Arc<Shared>,
    inbox: mpsc::UnboundedSender<Batch>,
    runtime: Option<Runtime>,
    /// How many processes of the previous life were still alive and were ended.
    cleared: usize,
    /// Where the control groups of attempts are, or why there are none.
    groups_at: Result<PathBuf, String>,
    /// Closed last.
    groups: Mutex<Option<cgroup::Opened>>,
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
        cadran_files::secure_dir(&options.logs)?;
        let house = house(&options.journal);
        let group_file = options.journal.with_file_name("cgroup");
        let left = std::fs::read_to_string(&group_file).unwrap_or_default();
        let mut killed = cgroup::clear_left(Path::new(left.trim()));
        killed += kill_left(&journal.open_processes(), |mark| mark.starts_with(&house));
        if killed > 0 {
            tracing::warn!(killed, "processes of the previous server were still alive and were killed");
        }
        container::end_left(&options.scripts());
        // Scripts of the previous life; they are gone with its processes.
        let _ = std::fs::remove_dir_all(options.scripts());
        let found = journal.found();
        if let Err(error) = nix::sys::prctl::set_child_subreaper(true) {
            tracing::warn!(%error, "cannot become subreaper: a step's process that detaches itself may be missed");
        }
        let (groups, root) = cgroup::open();
        match &root {
            Ok(root) => {
                tracing::info!(root = %root.display(), "processes of steps are kept together by control groups");
                let root = root.to_string_lossy();
                cadran_files::write_atomic(&group_file, root.as_bytes())
                    .map_err(ExecError::file("write", &group_file))?;
            }
            Err(why) => tracing::info!(
                %why,
                "no control groups: a step's process that clears its environment and leaves its session may live until no \
                 other step runs, or outlive a killed server"
            ),
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
            // Starting a process takes as long as hundreds of usual tasks: pipes, exits and timers are looked at
            // after each one, not after 61.
            .event_interval(1)
            .enable_all()
            .build()
            .map_err(ExecError::Threads)?;
        let shared = Arc::new(Shared {
            options: RwLock::new(Arc::new(options)),
            life,
            desk: Mutex::default(),
            lookout: Lookout::default(),
            starting: Semaphore::new(THREADS),
            journal: Mutex::new(journal),
            outbox: Outbox::new(sink, now, keeper),
            opened: procfs::ticks_now(),
            ended: Notify::new(),
            sweep_wanted: Notify::new(),
            moved: Mutex::new(Instant::now()),
        });
        let (inbox, orders) = mpsc::unbounded_channel();
        runtime.spawn(Arc::clone(&shared).take_orders(orders));
        runtime.spawn(Arc::clone(&shared).deliver());
        runtime.spawn(Arc::clone(&shared).keep_sweeping());
        runtime.spawn(Arc::clone(&shared).keep_moving());
        let groups = Mutex::new(Some(groups));
        let local = Local { shared, inbox, runtime: Some(runtime), cleared: killed, groups_at: root, groups };
        Ok((local, found))
    }

    /// Takes a batch of orders; never waits. A start that was seen before is ignored, and so is every start after
    /// [`Local::drain`].
    ///
    /// The queue behind it has no bound of its own: whoever sends orders admits runs, and bounds them there.
    pub fn submit(&self, orders: Vec<Order>) {
        // Closed only when the threads are gone, which is when this value is.
        let _ = self.inbox.send((orders, None));
    }

    /// The same; `taken` is called once everything that was submitted so far is taken, and what starts is in the journal.
    pub(crate) fn submit_then(&self, orders: Vec<Order>, taken: impl FnOnce() + Send + 'static) {
        let _ = self.inbox.send((orders, Some(Box::new(taken))));
    }

    /// What is known of every attempt whose run is not closed, those that are on included.
    pub(crate) fn known(&self) -> Vec<Found> {
        self.shared.known()
    }

    /// Changes what holds for attempts that start from now on.
    pub(crate) fn configure(&self, change: impl FnOnce(&mut LocalOptions)) {
        let mut options = self.shared.options.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut options));
    }

    /// How many processes of the previous life were still alive and were ended.
    pub(crate) fn cleared(&self) -> usize {
        self.cleared
    }

    /// Where the control groups of attempts are, or why there are none.
    pub(crate) fn groups_at(&self) -> Result<&Path, &str> {
        self.groups_at.as_deref().map_err(String::as_str)
    }

    /// As [`Local::silence`], for whoever asks often.
    pub(crate) fn silence_handle(&self) -> impl Fn() -> Duration + Send + use<> {
        let shared = Arc::clone(&self.shared);
        move || shared.moved.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// The wall clock.
    pub(crate) fn wall(&self) -> Millis {
        self.shared.outbox.now()
    }

    /// Attempts that are on, and those that wait in line.
    pub(crate) fn load(&self) -> (usize, usize) {
        let desk = self.shared.desk();
        (desk.live.len(), desk.line.len())
    }

    /// As [`Local::drain`], and what is stopped or waits in line has failed for this reason: it is not started again by
    /// the next life.
    pub(crate) async fn stop_for_good(&self, patience: Duration, why: &str) {
        self.shared.outbox.stop_for_good(why);
        let waiting = self.shared.desk().close();
        self.shared.journal().begin(&waiting, self.shared.outbox.now());
        for key in waiting {
            let outcome = Outcome::Stopped;
            self.shared.outbox.push(Fact::Ended { key, outcome, output: None, born: None });
        }
        self.drain(patience).await;
    }

    /// Removes the control groups, for a process that is about to end. Nothing may be on any more.
    pub(crate) fn close_groups(&self) {
        drop(self.groups.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// What was wrong with the journal when it was opened.
    pub fn damage(&self) -> Option<Damage> {
        self.shared.journal().damage().cloned()
    }

    /// Attempts alive or waiting in line.
    pub fn live(&self) -> usize {
        let (live, waiting) = self.load();
        live + waiting
    }

    /// How long ago the executor's threads last took up something. They do every half second, unless they hang in the
    /// kernel or on a disk.
    pub fn silence(&self) -> Duration {
        self.shared.moved.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Kills everything that is on, at once. What waits in line goes on waiting.
    pub fn kill_all(&self) {
        for seat in self.shared.desk().live.values() {
            seat.send_replace(Halt::Kill);
        }
    }

    /// Everything that is on is killed after this time unless this is called again before, also when this process is
    /// stopped in the middle of its work: the keeper counts.
    pub fn hold(&self, time: Duration) {
        self.shared.outbox.hold(time);
    }

    /// Stops everything, as a stop order would: signal, grace, KILL. What is alive after `patience` is killed at once.
    /// Starts still in line are let go without a report: they never began, and the next life will judge them again.
    ///
    /// Returns when all reports are delivered and the keeper is dismissed.
    pub async fn drain(&self, patience: Duration) {
        self.shared.desk().close();
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
            desk.close();
            desk.live.is_empty()
        };
        let leaders = if is_idle { Vec::new() } else { self.shared.journal().open_processes() };
        if !is_idle {
            let life = format!("{}/", self.shared.life);
            kill_left(&leaders, |mark| mark.starts_with(&life));
            cgroup::end_own_attempts();
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        self.shared.outbox.dismiss_keeper();
        // Tasks that are just ending may hold the journal a moment longer; the next owner need not wait for them.
        self.shared.journal().unlock();
    }
}

/// Threads of the executor: starting a process blocks one for the moment of the fork while the other goes on reading
/// pipes. More gain nothing, since the kernel serialises most of a fork.
const THREADS: usize = 2;

/// How long a drain waits for killed processes. What survives KILL hangs in the kernel.
const KILL_PATIENCE: Duration = Duration::from_secs(2);

/// Handles wanted: `live_max` attempts with four each, and the rest of the server.
const HANDLES_WANTED: u64 = 65_536;

/// Names the data directory, the same in every life: FNV-1a of the journal's full path.
fn house(journal: &Path) -> String {
    let path = std::fs::canonicalize(journal).unwrap_or_else(|_| journal.to_path_buf());
    let hash = path.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}.")
}

/// Names this life: no two processes with the same pid begin in the same tick, and one process counts.
pub(crate) fn life() -> String {
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
