//! Looks at a folder whenever something may have changed in it.
//!
//! Events of the file system are hints: each sets one flag, and the folder is looked at as a whole. So there is no
//! queue that could overflow, and an event that is lost costs time until the next look, never a job.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cadran_core::Millis;
use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use super::{Folder, Scan};

/// When a watched folder is looked at.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// After a hint, wait until it has been quiet for this long…
    pub settle: Duration,
    /// …but no longer than this.
    pub settle_max: Duration,
    /// Look this often even without hints: a network file system gives none.
    pub rescan_every: Duration,
    /// Look this often when the system cannot give hints at all.
    pub poll_every: Duration,
    /// Whether to ask the system for hints. Without them the folder is polled.
    pub events: bool,
}

impl Default for WatchOptions {
    fn default() -> WatchOptions {
        WatchOptions {
            settle: Duration::from_millis(100),
            settle_max: Duration::from_secs(1),
            rescan_every: Duration::from_secs(30),
            poll_every: Duration::from_secs(2),
            events: true,
        }
    }
}

/// How soon a file that may be half written, or a folder that is not there, is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// A new directory may have been filled before it was watched: one more look after this time finds what came between.
const AFTER_NEW_DIRECTORY: Duration = Duration::from_secs(1);
/// After so many looks without hints the system is asked for them again.
const LOOKS_UNTIL_ASKED_AGAIN: u32 = 150;

/// A folder being watched. Dropping it ends the watch and waits for a look that is under way.
#[derive(Debug)]
pub struct WatchHandle {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

/// Somebody who asks for looks at a watched folder. Cheap to clone; it does not keep the watch alive.
#[derive(Clone, Debug)]
pub struct Caller {
    bell: Arc<Bell>,
}

impl Caller {
    /// Asks for a look now, and waits until it is over and what it found was told. False when that takes longer than
    /// `timeout`, or the watch has ended.
    pub fn scan_now(&self, timeout: Duration) -> bool {
        let mut signal = self.bell.lock();
        signal.asked += 1;
        let wanted = signal.asked;
        self.bell.rung.notify_all();
        let waits = |signal: &mut Signal| signal.answered < wanted && !signal.stop;
        let waited = self.bell.rung.wait_timeout_while(signal, timeout, waits);
        let (signal, _) = waited.unwrap_or_else(PoisonError::into_inner);
        signal.answered >= wanted
    }
}

impl WatchHandle {
    /// Asks for a look soon.
    pub fn rescan(&self) {
        self.bell.ring(|signal| signal.dirty = true);
    }

    /// For somebody who changes files and wants to know when they count.
    pub fn caller(&self) -> Caller {
        Caller { bell: self.bell.clone() }
    }

    /// Whether the watch has ended by itself, which only a bug can cause.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for WatchHandle {
    fn drop(&mut self) {
        self.bell.ring(|signal| signal.stop = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Watches a folder on a thread of its own. `on_change` hears of the first look, and then of every look that found
/// something new.
pub fn watch(
    folder: Folder,
    options: WatchOptions,
    on_change: impl FnMut(Scan) + Send + 'static,
) -> io::Result<WatchHandle> {
    let bell = Arc::new(Bell::default());
    let watch =
        Watch { folder, options, bell: bell.clone(), hints: None, root: None, polling: None, looks: 0 };
    let thread =
        std::thread::Builder::new().name("cadran-folder".to_owned()).spawn(move || watch.run(on_change))?;
    Ok(WatchHandle { bell, thread: Some(thread) })
}

/// What the thread is told. Flags, not a queue: ringing twice is ringing once.
#[derive(Debug, Default)]
struct Bell {
    signal: Mutex<Signal>,
    rung: Condvar,
}

#[derive(Debug, Default)]
struct Signal {
    dirty: bool,
    stop: bool,
    /// How many looks were asked for, and how many of these are answered: by one that began afterwards.
    asked: u64,
    answered: u64,
    /// The system has stopped giving hints for some directory, and why.
    blind: Option<String>,
}

impl Signal {
    /// Whether somebody waits for a look.
    fn is_asked(&self) -> bool {
        self.asked > self.answered
    }
}

impl Bell {
    fn ring(&self, change: impl FnOnce(&mut Signal)) {
        change(&mut self.lock());
        self.rung.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Signal> {
        self.signal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a hint, but no longer than `limit`; whether one came. `None` when it is time to stop.
    fn wait(&self, limit: Duration) -> Option<bool> {
        self.pause(limit, |signal| !signal.dirty && !signal.stop && !signal.is_asked())
    }

    /// Waits for `time`; whether a hint came meanwhile. `None` when it is time to stop.
    fn hear(&self, time: Duration) -> Option<bool> {
        self.pause(time, |signal| !signal.stop && !signal.is_asked())
    }

    fn pause(&self, time: Duration, goes_on: impl FnMut(&mut Signal) -> bool) -> Option<bool> {
        let waited = self.rung.wait_timeout_while(self.lock(), time, goes_on);
        let (mut signal, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if signal.stop { None } else { Some(std::mem::take(&mut signal.dirty)) }
    }
}

struct Watch {
    folder: Folder,
    options: WatchOptions,
    bell: Arc<Bell>,
    hints: Option<RecommendedWatcher>,
    /// Which directory the hints are about: another one under the same name needs new ones.
    root: Option<(u64, u64)>,
    polling: Option<String>,
    looks: u32,
}

impl Watch {
    fn run(mut self, mut on_change: impl FnMut(Scan)) {
        let mut first = true;
        let mut polling = None;
        loop {
            // Asked for before the look: what happens during the look rings the bell again.
            self.ask_for_hints();
            let asked = self.bell.lock().asked;
            let mut scan = self.folder.scan(wall_clock());
            scan.polling.clone_from(&self.polling);
            let pause = self.pause(&scan);
            if first || !scan.changes.is_empty() || scan.diagnostics_changed || scan.polling != polling {
                polling.clone_from(&scan.polling);
                first = false;
                on_change(scan);
            }
            self.bell.ring(|signal| signal.answered = asked);
            if self.rest(pause).is_none() {
                return;
            }
        }
    }

    /// How long to wait for a hint before the next look.
    fn pause(&self, scan: &Scan) -> Duration {
        let usual = if self.hints.is_some() { self.options.rescan_every } else { self.options.poll_every };
        let soon = if scan.unsettled > 0 || self.root.is_none() {
            LOOK_AGAIN
        } else if scan.new_directories && self.hints.is_some() {
            AFTER_NEW_DIRECTORY
        } else {
            usual
        };
        soon.min(usual)
    }

    /// Waits for the next look; a burst of hints becomes one. `None` when it is time to stop.
    fn rest(&self, pause: Duration) -> Option<()> {
        if !self.bell.wait(pause)? {
            return Some(());
        }
        let settle = self.options.settle.max(Duration::from_millis(1));
        let rounds = self.options.settle_max.as_millis() / settle.as_millis();
        for _ in 0..rounds {
            // Whoever asks for a look has written what is to be seen: there is nothing to settle.
            if !self.bell.hear(settle)? || self.bell.lock().is_asked() {
                break;
            }
        }
        Some(())
    }

    /// Asks the system for hints about the tree, unless it gives them already.
    fn ask_for_hints(&mut self) {
        self.looks = self.looks.saturating_add(1);
        let blind = self.bell.lock().blind.take();
        if let Some(why) = blind {
            self.blind(why);
        }
        let root = std::fs::metadata(self.folder.root()).ok().map(|found| (found.dev(), found.ino()));
        let moved = root != self.root;
        self.root = root;
        if root.is_none() {
            self.hints = None;
            return;
        }
        if !self.options.events {
            self.polling = Some("the system is not asked to report changes".to_owned());
            return;
        }
        if !moved && (self.hints.is_some() || self.looks < LOOKS_UNTIL_ASKED_AGAIN) {
            return;
        }
        self.looks = 0;
        match hints(self.folder.root(), &self.bell) {
            Ok(hints) => (self.hints, self.polling) = (Some(hints), None),
            Err(error) => self.blind(error.to_string()),
        }
    }

    fn blind(&mut self, why: String) {
        self.hints = None;
        self.looks = 0;
        let every = self.options.poll_every.as_secs_f64();
        self.polling = Some(format!(
            "the system does not report changes here ({why}); the folder is looked at every {every} s. \
             On Linux, raise fs.inotify.max_user_watches and fs.inotify.max_user_instances"
        ));
    }
}

fn hints(root: &Path, bell: &Arc<Bell>) -> notify::Result<RecommendedWatcher> {
    let bell = bell.clone();
    let on_event = move |event: notify::Result<notify::Event>| match event {
        // Reading the files is what a look does: it must not be the cause of the next one.
        Ok(event) if is_reading(&event.kind) => {}
        Ok(_) => bell.ring(|signal| signal.dirty = true),
        Err(error) => bell.ring(|signal| {
            signal.dirty = true;
            signal.blind = Some(error.to_string());
        }),
    };
    // Links that count lead to directories inside of the root, which are watched by their own names. To follow the
    // others could put a watch on every directory of the machine.
    let config = notify::Config::default().with_follow_symlinks(false);
    let mut watcher = RecommendedWatcher::new(on_event, config)?;
    watcher.watch(root, RecursiveMode::Recursive)?;
    Ok(watcher)
}

fn is_reading(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Access(access) if *access != AccessKind::Close(AccessMode::Write))
}

/// The age of a file is told against the wall clock, as the file system does.
#[allow(clippy::disallowed_methods)] // The watch is an edge: it runs by itself, and nobody above it could hand it the time.
fn wall_clock() -> Millis {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as Millis)
}
