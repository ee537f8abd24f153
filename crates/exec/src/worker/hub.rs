use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cadran_core::{Address, Found, GroupName, Now, Order, Report};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use super::fleet::{Fleet, LogOf};
use super::lease::{LEASE, poll_time};
use super::wire::{
    Done, Hello, Leave, Named, Orders, PIECE_BYTES_MAX, Piece, PieceTaken, Poll, REPORTS_MAX, Reports,
    Sender, Welcome,
};
use crate::journal::Key;
use crate::local::life;
use crate::xxl::ledger::Ledger;
use crate::{Damage, ExecError, LogDir, Sink};

/// The server's end of the line to its workers: orders go in by [`Hub::submit`], reports come out of a sink.
pub struct Hub {
    shared: Arc<Shared>,
    inbox: mpsc::UnboundedSender<Vec<Order>>,
    is_used: AtomicBool,
    tasks: Vec<JoinHandle<()>>,
}

/// How [`Hub`] works.
#[derive(Clone, Debug)]
pub struct HubOptions {
    /// The file that outlives the server: what was sent out and what came back.
    pub ledger: PathBuf,
    /// Directory of the log files.
    pub logs: PathBuf,
    /// How long a worker that is silent is believed to be at work.
    pub lease: Duration,
    /// Largest log file of one attempt. A worker has a bound of its own, and this one is for those that have not.
    pub log_bytes_max: u64,
}

impl HubOptions {
    /// The defaults, with everything below one data directory.
    pub fn new(data: impl AsRef<Path>) -> HubOptions {
        let data = data.as_ref();
        HubOptions {
            ledger: data.join("exec").join("workers"),
            logs: data.join("logs"),
            lease: LEASE,
            log_bytes_max: 12 << 20,
        }
    }
}

/// Who came and who went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// A worker is there, and says this of itself.
    Here(GroupName, Address, Vec<(String, String)>),
    /// A worker is gone, or takes no more orders.
    Gone(GroupName, Address),
}

/// Why a worker's call came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is not known here: the server was restarted, or gave it up. It shall say hello.
    Hello,
    /// Another process said hello with the same id.
    Superseded,
    /// Nobody wants what it has.
    Unwanted,
    /// The server is stopping.
    Stopping,
    /// The server's disk does not take it; the worker shall keep it and try again.
    NotKept(String),
    /// The message makes no sense.
    Bad(String),
}

/// What was counted since the start, and what is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HubCounts {
    /// Workers that are there.
    pub workers: usize,
    /// Shares that are out.
    pub open: usize,
    /// Shares given up as lost.
    pub lost: u64,
}

struct Shared {
    options: HubOptions,
    fleet: Mutex<Fleet>,
    /// Held while what happened is told, so that it is told in order.
    telling: Mutex<()>,
    /// One piece of a log at a time.
    writing: Mutex<()>,
    /// Something is in a line.
    ordered: Notify,
    is_stopping: AtomicBool,
    now: Box<dyn Fn() -> Now + Send + Sync>,
    sink: Sink,
    presence: Box<dyn Fn(Vec<Presence>) + Send + Sync>,
}

/// Looks for silent workers in one lease.
const LOOKS_PER_LEASE: u32 = 20;

impl Hub {
    /// Opens the ledger of the previous life and returns what is known of each attempt whose run was not closed, and the
    /// highest log number that was used.
    ///
    /// `now` gives the time; `sink` gets the reports, `presence` who comes and goes. Must be called on an async runtime.
    pub fn open(
        options: HubOptions,
        now: impl Fn() -> Now + Send + Sync + 'static,
        sink: Sink,
        presence: impl Fn(Vec<Presence>) + Send + Sync + 'static,
    ) -> Result<(Hub, Vec<Found>, u64), ExecError> {
        let ledger = Ledger::open(&options.ledger)?;
        let found: Vec<Found> = ledger.kept.entries.iter().map(|(key, entry)| entry.found(*key)).collect();
        let floor = ledger.kept.log_floor;
        let fleet = Fleet::new(ledger, life().into(), options.lease, now());
        let shared = Arc::new(Shared {
            options,
            fleet: Mutex::new(fleet),
            telling: Mutex::default(),
            writing: Mutex::default(),
            ordered: Notify::new(),
            is_stopping: AtomicBool::new(false),
            now: Box::new(now),
            sink,
            presence: Box::new(presence),
        });
        let (inbox, orders) = mpsc::unbounded_channel();
        let tasks = vec![
            tokio::spawn(Arc::clone(&shared).take_orders(orders)),
            tokio::spawn(Arc::clone(&shared).keep_looking()),
        ];
        let is_used = AtomicBool::new(!found.is_empty());
        Ok((Hub { shared, inbox, is_used, tasks }, found, floor))
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

    /// What was counted.
    pub fn counts(&self) -> HubCounts {
        let fleet = self.shared.fleet();
        let (workers, open) = fleet.counts();
        HubCounts { workers, open, lost: fleet.lost }
    }

    /// What was wrong with the ledger when it was opened.
    pub fn damage(&self) -> Option<Damage> {
        self.shared.fleet().ledger.damage.clone()
    }

    /// Ends the waiting of everybody who asks for orders: the server is about to go.
    pub fn stop(&self) {
        self.shared.is_stopping.store(true, Ordering::Relaxed);
        self.shared.ordered.notify_waiters();
    }

    /// A worker is there.
    pub fn hello(&self, group: GroupName, hello: Hello) -> Result<Welcome, Refused> {
        self.shared.change(|fleet, now| fleet.hello(group, hello, now))
    }

    /// A worker asks for orders: answered as soon as there are some, and after a part of the lease in any case.
    pub async fn orders(&self, group: GroupName, poll: Poll) -> Result<Orders, Refused> {
        let shared = &self.shared;
        let until = Instant::now() + poll_time(shared.options.lease);
        let mut address = None;
        loop {
            let ordered = shared.ordered.notified();
            tokio::pin!(ordered);
            // Registered before the look, so that an order in between is not missed.
            ordered.as_mut().enable();
            if shared.is_stopping.load(Ordering::Relaxed) {
                return Err(Refused::Stopping);
            }
            let found = match &address {
                None => shared.change(|fleet, now| fleet.orders(&group, &poll, now))?,
                Some(address) => shared.fleet().waiting(address, &poll.from.life, poll.have)?,
            };
            address = format!("worker:{}", poll.from.worker).parse::<Address>().ok();
            if !found.orders.is_empty() || timeout_at(until, ordered).await.is_err() {
                return Ok(found);
            }
        }
    }

    /// Results and starts. Blocks until they are on disk, so that the worker may forget them.
    pub fn reports(&self, group: GroupName, reports: Reports) -> Result<Done, Refused> {
        if reports.reports.len() > REPORTS_MAX {
            return Err(Refused::Bad(format!("more than {REPORTS_MAX} reports at once")));
        }
        self.shared.change(|fleet, now| {
            let address = fleet.heard(&group, &reports.from, now)?;
            fleet.draining(&address, reports.draining);
            fleet.report(&address, &reports.reports, now);
            Ok(())
        })?;
        let written = self.shared.fleet().ledger.write_through();
        written.and_then(|point| point.wait()).map_err(|error| Refused::NotKept(error.to_string()))?;
        Ok(Done {})
    }

    /// A piece of a log. The answer says how much of it is here.
    pub fn piece(&self, group: GroupName, piece: &Piece, bytes: &[u8]) -> Result<PieceTaken, Refused> {
        if bytes.len() > PIECE_BYTES_MAX {
            return Err(Refused::Bad(format!("a piece of a log has at most {PIECE_BYTES_MAX} bytes")));
        }
        let Piece { worker, life, server, run, step, attempt, at } = piece.clone();
        let named = Named { run, step, attempt };
        let key = named.key().ok_or_else(|| Refused::Bad("no such run".to_owned()))?;
        let from = Sender { worker, life, server };
        let log = self.shared.change(|fleet, now| {
            let address = fleet.heard(&group, &from, now)?;
            fleet.log_of(&address, key).ok_or(Refused::Unwanted)
        })?;
        let _one = self.shared.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.shared.log_path(&log);
        let length = append(&path, at, bytes, self.shared.options.log_bytes_max).unwrap_or_else(|error| {
            tracing::warn!(path = %path.display(), %error, "a log of a worker is cut");
            // The attempt goes on without its log, as it does here.
            at + bytes.len() as u64
        });
        Ok(PieceTaken { length })
    }

    /// A worker goes.
    pub fn leave(&self, group: GroupName, leave: &Leave) -> Result<Done, Refused> {
        self.shared.change(|fleet, now| {
            let address = fleet.heard(&group, &leave.from, now)?;
            fleet.leave(&address, now);
            Ok(Done {})
        })
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // What is out stays out: the next life waits for it.
        self.tasks.iter().for_each(JoinHandle::abort);
        self.shared.tell();
    }
}

impl Shared {
    fn fleet(&self) -> MutexGuard<'_, Fleet> {
        self.fleet.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One change: in the ledger before anybody hears of it, whoever asked included.
    fn change<T>(&self, change: impl FnOnce(&mut Fleet, Now) -> T) -> T {
        let now = (self.now)();
        let mut fleet = self.fleet();
        let answer = change(&mut fleet, now);
        fleet.ledger.write();
        let is_quiet = fleet.told.is_empty() && fleet.presence.is_empty();
        drop(fleet);
        if !is_quiet {
            self.tell();
        }
        answer
    }

    fn tell(&self) {
        let _one = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        let (told, presence) = {
            let mut fleet = self.fleet();
            (std::mem::take(&mut fleet.told), std::mem::take(&mut fleet.presence))
        };
        if !presence.is_empty() {
            (self.presence)(presence);
        }
        if told.is_empty() {
            return;
        }
        let at = (self.now)().wall;
        let report =
            |(key, kind): (Key, _)| Report { run: key.run, step: key.step, attempt: key.attempt, at, kind };
        (self.sink)(told.into_iter().map(report).collect());
    }

    async fn take_orders(self: Arc<Shared>, mut orders: mpsc::UnboundedReceiver<Vec<Order>>) {
        while let Some(batch) = orders.recv().await {
            self.change(|fleet, now| {
                for order in batch {
                    match order {
                        Order::Start(start) => fleet.begin(start, now),
                        Order::Stop { run, step, attempt } => fleet.stop(Key { run, step, attempt }, now),
                        Order::StopShare { run, step, attempt, share } => {
                            fleet.stop_share(Key { run, step, attempt }, share, now);
                        }
                        Order::Close { run } => fleet.close(run),
                        // A lease is over long before the roster gives a worker up.
                        Order::Gone { .. } => {}
                    }
                }
            });
            self.ordered.notify_waiters();
        }
    }

    async fn keep_looking(self: Arc<Shared>) {
        loop {
            sleep(self.options.lease / LOOKS_PER_LEASE).await;
            self.change(|fleet, now| fleet.expire(now));
        }
    }

    fn log_path(&self, log: &LogOf) -> PathBuf {
        let key = log.attempt;
        let dir = LogDir::new(&self.options.logs);
        match log.share {
            None => dir.path(key.run, key.step, &log.step_name, key.attempt),
            Some(share) => dir.share_path(key.run, key.step, &log.step_name, key.attempt, share),
        }
    }
}

/// Appends a piece that begins where the file ends, and says how long the file is. A piece that begins elsewhere was sent
/// twice, or too soon: the answer tells where to go on.
fn append(path: &Path, at: u64, bytes: &[u8], bytes_max: u64) -> io::Result<u64> {
    let end = at.saturating_add(bytes.len() as u64);
    let open = || cadran_files::options().create(true).append(true).open(path);
    let mut file = match (open(), path.parent()) {
        (Err(error), Some(dir)) if error.kind() == io::ErrorKind::NotFound => {
            cadran_files::create_dir(dir)?;
            open()?
        }
        (other, _) => other?,
    };
    let length = file.metadata()?.len();
    if length >= bytes_max {
        return Ok(end);
    }
    if at != length || bytes.is_empty() {
        return Ok(length);
    }
    file.write_all(bytes)?;
    Ok(end)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn pieces_of_a_log_may_be_sent_twice() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a/b.log");
        for (at, text, length) in
            [(0, "abc", 3), (0, "abc", 3), (3, "de", 5), (9, "x", 5), (1, "", 5), (5, "f", 6)]
        {
            assert_eq!(append(&path, at, text.as_bytes(), 6).expect("written"), length, "{at} {text}");
        }
        assert_eq!(append(&path, 6, b"more", 6).expect("full"), 10);
        assert_eq!(fs::read_to_string(&path).expect("read"), "abcdef");
    }
}
