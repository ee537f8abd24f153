use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::ExecError;
use crate::family::{self, Leader};
use crate::keeper::Keeper;
use crate::local::life;
use crate::procfs::{self, Ticks};
use crate::sweep::{Lookout, MARK, sweep};

/// Runs commands in the foreground, each with a budget that holds for everything it starts.
///
/// A command has a process group of its own, so that Ctrl-C on a terminal reaches the caller alone. When its time is
/// over, or a stop is asked for, its whole tree is asked to end, and what is left after the grace is killed, also what
/// left the group. With a keeper nothing survives the death of the caller either.
pub struct Guard {
    life: String,
    opened: Ticks,
    lookout: Lookout,
    keeper: Mutex<Option<Keeper>>,
    live: Mutex<BTreeSet<String>>,
    count: AtomicU64,
}

/// How long one command may take.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// Until it is asked to end.
    pub budget: Duration,
    /// From there until it is killed.
    pub grace: Duration,
}

/// How a guarded command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal that we did not send.
    Signaled(i32),
    /// Its time was over.
    OutOfTime,
    /// A stop was asked for.
    Stopped,
}

/// How long something in the background may keep the output open once the command itself has ended.
const LINGER: Duration = Duration::from_millis(500);

/// What is read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Chunks taken after the end: what the kernel keeps in a pipe, not what somebody goes on writing.
const REST_CHUNKS: usize = 4;

impl Guard {
    /// This process becomes the subreaper of its descendants. `keeper` is a command that runs
    /// [`keeper_main`](crate::keeper_main).
    pub fn open(keeper: Option<Vec<OsString>>) -> Result<Guard, ExecError> {
        if let Err(error) = nix::sys::prctl::set_child_subreaper(true) {
            tracing::warn!(%error, "cannot become subreaper: a process that detaches itself may be missed");
        }
        let life = format!("guard.{}", life());
        let keeper = keeper.map(|command| Keeper::start(command, &life)).transpose()?;
        Ok(Guard {
            life,
            opened: procfs::ticks_now(),
            lookout: Lookout::default(),
            keeper: Mutex::new(keeper),
            live: Mutex::default(),
            count: AtomicU64::new(0),
        })
    }

    /// Runs a command to its end and hands over what it prints, both streams in one. Standard input is empty.
    ///
    /// Returns when nothing of it is left alive. Fails only when it cannot be started.
    pub async fn run(
        &self,
        command: std::process::Command,
        allowance: Allowance,
        stop: &mut watch::Receiver<bool>,
        take: impl FnMut(&[u8]),
    ) -> io::Result<Ending> {
        self.run_apart(command, allowance, stop, take, None::<fn(&[u8])>).await
    }

    /// The same, with what goes to standard error handed over apart.
    pub async fn run_apart(
        &self,
        command: std::process::Command,
        allowance: Allowance,
        stop: &mut watch::Receiver<bool>,
        out: impl FnMut(&[u8]),
        err: Option<impl FnMut(&[u8])>,
    ) -> io::Result<Ending> {
        let mark = format!("{}/{}", self.life, self.count.fetch_add(1, Ordering::Relaxed));
        let mut command = tokio::process::Command::from(command);
        let (pipe, end) = io::pipe()?;
        let mut out = Stream::new(pipe, Some(out))?;
        let (mut err, err_end) = match err {
            Some(take) => {
                let (pipe, end) = io::pipe()?;
                (Stream::new(pipe, Some(take))?, end)
            }
            None => (Stream { pipe: None, take: None }, end.try_clone()?),
        };
        command.env(MARK, &mark).process_group(0);
        command.stdin(Stdio::null()).stdout(end).stderr(err_end);
        self.live().insert(mark.clone());
        let (child, leader) = match family::spawn(&mut command) {
            Ok(spawned) => spawned,
            Err(error) => {
                self.live().remove(&mark);
                return Err(error);
            }
        };
        // It holds our copies of the writing ends.
        drop(command);
        let pid = leader.born.pid;
        self.tell_keeper(|keeper| keeper.began(leader.born.clone()));
        let watched = Watched { child, leader, mark: &mark, lookout: &self.lookout };
        let ending = watched.watch(allowance, stop, &mut out, &mut err).await;
        self.live().remove(&mark);
        self.tell_keeper(|keeper| keeper.ended(pid));
        // Twice: the first kills what is left, the second reaps.
        for _ in 0..2 {
            sweep(&self.life, self.opened, |mark| self.live().contains(mark));
        }
        Ok(ending)
    }

    fn tell_keeper(&self, tell: impl FnOnce(&mut Keeper)) {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(keeper) = &mut *keeper {
            tell(keeper);
            keeper.write();
        }
    }

    fn live(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let keeper = self.keeper.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        match keeper {
            // A command whose future was dropped half-way is still there: the keeper sees to it.
            Some(keeper) if !self.live().is_empty() => drop(keeper),
            Some(keeper) => keeper.dismiss(),
            None => {}
        }
    }
}

/// A command that is up.
struct Watched<'g> {
    child: tokio::process::Child,
    leader: Leader,
    mark: &'g str,
    lookout: &'g Lookout,
}

impl Watched<'_> {
    /// `deadline` is the next moment at which something happens by itself: the end of the budget, then of the grace,
    /// then of the linger.
    async fn watch(
        mut self,
        allowance: Allowance,
        stop: &mut watch::Receiver<bool>,
        out: &mut Stream<impl FnMut(&[u8])>,
        err: &mut Stream<impl FnMut(&[u8])>,
    ) -> Ending {
        let mut deadline = Instant::now() + allowance.budget;
        let mut cut: Option<Ending> = None;
        let mut status: Option<ExitStatus> = None;
        let mut is_killed = false;
        let mut chunk = vec![0; CHUNK_BYTES];
        while status.is_none() || out.is_open() || err.is_open() {
            tokio::select! {
                ready = out.ready(), if out.is_open() => out.read(ready, &mut chunk),
                ready = err.ready(), if err.is_open() => err.read(ready, &mut chunk),
                ended = self.child.wait(), if status.is_none() => {
                    // Only fails when somebody else took the child's status; it is gone all the same.
                    status = Some(ended.unwrap_or_else(|_| ExitStatus::from_raw(Signal::SIGKILL as i32)));
                    if cut.is_none() {
                        deadline = Instant::now() + LINGER;
                    }
                }
                () = sleep_until(deadline) => match (cut, status) {
                    (None, None) => {
                        cut = Some(Ending::OutOfTime);
                        self.ask().await;
                        deadline = Instant::now() + allowance.grace;
                    }
                    (Some(_), _) if !is_killed => {
                        is_killed = true;
                        self.kill().await;
                        deadline = Instant::now() + LINGER;
                    }
                    // Something in the background keeps the output open, or hangs in the kernel after KILL.
                    _ => break,
                },
                () = asked(stop), if cut.is_none() && status.is_none() => {
                    cut = Some(Ending::Stopped);
                    self.ask().await;
                    deadline = Instant::now() + allowance.grace;
                }
            }
        }
        self.kill().await;
        for _ in 0..REST_CHUNKS {
            out.read(true, &mut chunk);
            err.read(true, &mut chunk);
        }
        match (cut, status.map(|status| (status.code(), status.signal()))) {
            (Some(cut), _) => cut,
            (None, Some((Some(code), _))) => Ending::Exited(code),
            (None, Some((None, signal))) => Ending::Signaled(signal.unwrap_or_default()),
            (None, None) => Ending::Signaled(Signal::SIGKILL as i32),
        }
    }

    /// Asks the group, and what left the group, to end.
    async fn ask(&self) {
        let born = &self.leader.born;
        self.leader.signal_group(Signal::SIGTERM);
        let family = self.lookout.look().await.family(&self.leader, self.mark);
        let left = family.iter().filter(|process| process.group != born.pid);
        left.for_each(|process| procfs::signal(process, Signal::SIGTERM));
    }

    async fn kill(&self) {
        self.leader.signal_group(Signal::SIGKILL);
        self.lookout.kill(&self.leader, self.mark).await;
    }
}

/// Until a stop is asked for; whoever could ask and is gone asks for it too.
async fn asked(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// One of the command's streams, and who takes what it brings.
struct Stream<T> {
    pipe: Option<Receiver>,
    take: Option<T>,
}

impl<T: FnMut(&[u8])> Stream<T> {
    fn new(pipe: io::PipeReader, take: Option<T>) -> io::Result<Stream<T>> {
        Ok(Stream { pipe: Some(Receiver::from_owned_fd(pipe.into())?), take })
    }

    fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// False when the pipe can no longer be watched.
    async fn ready(&self) -> bool {
        match &self.pipe {
            Some(pipe) => pipe.readable().await.is_ok(),
            None => false,
        }
    }

    /// Takes one chunk; at its end the stream is closed.
    fn read(&mut self, is_ready: bool, chunk: &mut [u8]) {
        let Some(pipe) = &self.pipe else { return };
        match pipe.try_read(chunk) {
            Ok(len) if len > 0 => {
                if let Some(take) = &mut self.take {
                    take(&chunk[..len]);
                }
            }
            Err(error)
                if is_ready
                    && matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            _ => self.pipe = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn shell(text: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", text]);
        command
    }

    async fn play(text: &str, budget: Duration) -> (Ending, String) {
        let guard = Guard::open(None).expect("a guard");
        let (_keep, mut stop) = watch::channel(false);
        let mut printed = Vec::new();
        let allowance = Allowance { budget, grace: Duration::from_millis(100) };
        let ending = guard.run(shell(text), allowance, &mut stop, |bytes| printed.extend_from_slice(bytes));
        let ending = ending.await.expect("it starts");
        (ending, String::from_utf8_lossy(&printed).into_owned())
    }

    fn is_alive(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
    }

    const LONG: Duration = Duration::from_secs(600);

    #[tokio::test]
    async fn a_command_ends_as_it_ends() {
        let check = async |text: &str, ending: Ending, printed: &str| {
            assert_eq!(play(text, LONG).await, (ending, printed.to_owned()), "{text}");
        };
        check("echo one; echo two >&2", Ending::Exited(0), "one\ntwo\n").await;
        check("exit 7", Ending::Exited(7), "").await;
        check("kill -9 $$", Ending::Signaled(9), "").await;
        // What stays in the background with the output open is not waited for.
        check("sleep 1000 & echo here", Ending::Exited(0), "here\n").await;
    }

    #[tokio::test]
    async fn the_whole_tree_ends_with_the_budget() {
        // Ignores the request, and has a child that left the group and one that left the session.
        let text = "trap '' TERM; echo $$; setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' & \
                    (setsid sh -c 'echo $$; exec sleep 1000' &) ; while :; do sleep 1; done";
        let (ending, printed) = play(text, Duration::from_secs(2)).await;
        assert_eq!(ending, Ending::OutOfTime);
        let pids: Vec<&str> = printed.lines().collect();
        assert_eq!(pids.len(), 3, "{printed}");
        for pid in pids {
            assert!(!is_alive(pid), "{pid} of {printed}");
        }
    }

    #[tokio::test]
    async fn a_stop_ends_it_and_the_request_is_heard_first() {
        let guard = Guard::open(None).expect("a guard");
        let (stopper, mut stop) = watch::channel(false);
        let mut printed = Vec::new();
        // No child of it is asked as well: a shell may say so in a line of its own.
        let text = "trap 'echo asked; exit 0' TERM; echo ready; while :; do :; done";
        let allowance = Allowance { budget: LONG, grace: LONG };
        let ending = guard.run(shell(text), allowance, &mut stop, |bytes| {
            printed.extend_from_slice(bytes);
            if printed == b"ready\n" {
                stopper.send_replace(true);
            }
        });
        assert_eq!(ending.await.expect("it starts"), Ending::Stopped);
        assert_eq!(String::from_utf8_lossy(&printed), "ready\nasked\n");
    }
}
