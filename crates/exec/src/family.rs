//! The children of this process. They belong to the process, not to one executor in it, which is why this is the one
//! place of the crate with a global: two executors in one process must not take each other's children for strays.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

use crate::cgroup::{self, Group};
use crate::procfs::{Born, Process, Ticks, ticks_now};

/// Children we started ourselves and will wait for ourselves.
static LEADERS: Mutex<BTreeMap<i32, Lead>> = Mutex::new(BTreeMap::new());

/// What is known of a child of ours.
#[derive(Debug)]
struct Lead {
    /// The first moment it can have begun.
    start: Ticks,
    /// Its control group, and from when on all that it starts is born there.
    group: Option<(PathBuf, Ticks)>,
}

impl Lead {
    /// Whether a process that began then, and is in no control group of an attempt, may descend from it.
    fn may_have_started(&self, began: Ticks) -> bool {
        self.start <= began && self.group.as_ref().is_none_or(|(_, enclosed)| began <= *enclosed)
    }
}

/// From the start of leaders that are over until they were in their control groups, the newest last.
static ENDED: Mutex<VecDeque<(Ticks, Ticks)>> = Mutex::new(VecDeque::new());

/// More ended leaders than this are forgotten; what they left is judged without them.
const ENDED_MAX: usize = 4_096;

/// Where a process comes from that is our child, has no mark, and is in no control group of an attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Of the attempt with this control group, which is still on.
    Live(PathBuf),
    /// Of an attempt that is over.
    Ended,
    /// Nobody can tell while certain attempts are on.
    Unknown,
}

/// Tells by its birth where a process comes from.
pub(crate) fn origin(began: Ticks) -> Origin {
    let leaders = leaders();
    let mut possible = leaders.values().filter(|lead| lead.may_have_started(began));
    match (possible.next(), possible.next()) {
        (Some(Lead { group: Some((path, _)), .. }), None) => return Origin::Live(path.clone()),
        (Some(_), _) => return Origin::Unknown,
        (None, _) => {}
    }
    let mut ended = lock(&ENDED).iter().any(|(start, enclosed)| (*start..=*enclosed).contains(&began));
    // It may be the child of one that could not be told before. Without a leader that is as old, it is of none.
    ended |= !leaders.values().any(|lead| lead.start <= began);
    if ended { Origin::Ended } else { Origin::Unknown }
}

/// Held for reading while a child is being started and put on the list; for writing while zombies nobody started
/// are reaped. So a child that ends at once is never reaped before its name is on the list.
static STARTING: RwLock<()> = RwLock::new(());

/// A process we started, on the list of our own until this is dropped. It leads a process group of its own number.
#[derive(Debug)]
pub(crate) struct Leader {
    pub(crate) born: Born,
    /// Where the machine has control groups: everything that descends from it.
    group: Option<Group>,
}

impl Drop for Leader {
    fn drop(&mut self) {
        let mut leaders = leaders();
        // The pid may have been given again already, and be on the list for its new owner.
        let is_ours = leaders.get(&self.born.pid).is_some_and(|lead| lead.start == *self.born.at.start());
        if is_ours && let Some(Lead { start, group: Some((_, enclosed)) }) = leaders.remove(&self.born.pid) {
            let mut ended = lock(&ENDED);
            ended.push_back((start, enclosed));
            if ended.len() > ENDED_MAX {
                ended.pop_front();
            }
        }
    }
}

impl Leader {
    /// Signals every process of the group; false when there is none left.
    pub(crate) fn signal_group(&self, signal: Signal) -> bool {
        killpg(Pid::from_raw(self.born.pid), signal).is_ok()
    }

    /// The processes in its control group, none where there is none.
    pub(crate) fn members(&self) -> BTreeSet<i32> {
        self.group.as_ref().map(Group::members).unwrap_or_default()
    }

    /// Kills everything in its control group.
    pub(crate) fn kill_members(&self) {
        if let Some(group) = &self.group {
            group.kill();
        }
    }
}

/// Starts a process that leads its own group; the command must say so.
pub(crate) fn spawn(command: &mut Command) -> io::Result<(Child, Leader)> {
    let starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    let before = ticks_now();
    let child = command.spawn()?;
    let after = ticks_now();
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).ok_or(io::ErrorKind::NotFound)?;
    leaders().insert(pid, Lead { start: before, group: None });
    drop(starting);
    let group = cgroup::enclose(pid, is_leader);
    if let (Some(group), Some(lead)) = (&group, leaders().get_mut(&pid)) {
        lead.group = Some((group.path().to_owned(), ticks_now()));
    }
    Ok((child, Leader { born: Born { pid, at: before..=after }, group }))
}

/// Whether we started this one ourselves.
pub(crate) fn is_leader(pid: i32) -> bool {
    leaders().contains_key(&pid)
}

/// Puts a child that was started elsewhere on the list, as one that starts nothing itself.
pub(crate) fn spawn_apart(command: &mut std::process::Command) -> io::Result<(std::process::Child, Leader)> {
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    let child = command.spawn()?;
    let pid = i32::try_from(child.id()).map_err(|_| io::ErrorKind::NotFound)?;
    leaders().insert(pid, Lead { start: Ticks::MAX, group: None });
    Ok((child, Leader { born: Born { pid, at: Ticks::MAX..=Ticks::MAX }, group: None }))
}

/// While this is held, no child is being started: who is not on the list now was not started by us.
/// `None` when a start is going on; waiting here would stop all further ones.
pub(crate) fn quiet() -> Option<RwLockWriteGuard<'static, ()>> {
    STARTING.try_write().ok()
}

/// Takes a zombie that came to us because its own parent died.
pub(crate) fn reap(zombie: &Process) {
    let _ = waitpid(Pid::from_raw(zombie.pid), Some(WaitPidFlag::WNOHANG));
}

fn leaders() -> MutexGuard<'static, BTreeMap<i32, Lead>> {
    lock(&LEADERS)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
