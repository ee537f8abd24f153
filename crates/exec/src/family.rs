//! The children of this process. They belong to the process, not to one executor in it, which is why this is the one
//! place of the crate with a global: two executors in one process must not take each other's children for strays.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

use crate::procfs::{Born, Process, Ticks, ticks_now};

/// Children we started ourselves and will wait for ourselves, with the first moment they can have begun.
static LEADERS: Mutex<BTreeMap<i32, Ticks>> = Mutex::new(BTreeMap::new());

/// Held for reading while a child is being started and put on the list; for writing while zombies nobody started
/// are reaped. So a child that ends at once is never reaped before its name is on the list.
static STARTING: RwLock<()> = RwLock::new(());

/// A process we started, on the list of our own until this is dropped. It leads a process group of its own number.
#[derive(Debug)]
pub(crate) struct Leader {
    pub(crate) born: Born,
}

impl Drop for Leader {
    fn drop(&mut self) {
        let mut leaders = leaders();
        // The pid may have been given again already, and be on the list for its new owner.
        if leaders.get(&self.born.pid) == Some(self.born.at.start()) {
            leaders.remove(&self.born.pid);
        }
    }
}

impl Leader {
    /// Signals every process of the group; false when there is none left.
    pub(crate) fn signal_group(&self, signal: Signal) -> bool {
        killpg(Pid::from_raw(self.born.pid), signal).is_ok()
    }
}

/// Starts a process that leads its own group; the command must say so.
pub(crate) fn spawn(command: &mut Command) -> io::Result<(Child, Leader)> {
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    let before = ticks_now();
    let child = command.spawn()?;
    let after = ticks_now();
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).ok_or(io::ErrorKind::NotFound)?;
    leaders().insert(pid, before);
    Ok((child, Leader { born: Born { pid, at: before..=after } }))
}

/// Whether we started this one ourselves.
pub(crate) fn is_leader(pid: i32) -> bool {
    leaders().contains_key(&pid)
}

/// Whether a process that began then may belong to an attempt that is still on.
pub(crate) fn has_leader_since(began: Ticks) -> bool {
    leaders().values().any(|start| *start <= began)
}

/// Puts a child that was started elsewhere on the list, as one that starts nothing itself.
pub(crate) fn spawn_apart(command: &mut std::process::Command) -> io::Result<(std::process::Child, Leader)> {
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    let child = command.spawn()?;
    let pid = i32::try_from(child.id()).map_err(|_| io::ErrorKind::NotFound)?;
    leaders().insert(pid, Ticks::MAX);
    Ok((child, Leader { born: Born { pid, at: Ticks::MAX..=Ticks::MAX } }))
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

fn leaders() -> MutexGuard<'static, BTreeMap<i32, Ticks>> {
    LEADERS.lock().unwrap_or_else(PoisonError::into_inner)
}
