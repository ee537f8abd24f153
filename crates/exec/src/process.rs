use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use cadran_core::{Outcome, Step};
use nix::sys::signal::Signal;
use tokio::net::unix::pipe::Receiver;
use tokio::process::Child;
use tokio::time::{Instant, sleep, sleep_until};

use crate::attempt::{Attempt, Halt, Verdict, halted};
use crate::command::Script;
use crate::container;
use crate::family::Leader;
use crate::procfs::{self, Born};
use crate::sweep::Lookout;
use crate::taps::{Captured, Stream, Taps};

/// Exit code of an attempt that ended with 0 but printed more than the bound for captured output: later steps would
/// work with half a value. The log says so in words. Any other code of the process itself is kept.
pub const EXIT_OUTPUT_TOO_LARGE: i32 = 122;

/// A process that is up.
pub(crate) struct Process<'l> {
    child: Child,
    leader: Leader,
    out: Option<Receiver>,
    err: Option<Receiver>,
    taps: Taps<'l>,
    /// Removed when the process is over.
    _script: Option<Script>,
    /// Ended with the process.
    container: Option<container::Running>,
}

/// Why we ask a process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Stop,
    TimeLimit,
}

/// Between two looks whether a stopped tree has ended by itself.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

impl<'l> Process<'l> {
    pub(crate) fn new(
        child: Child,
        leader: Leader,
        (out, err): (Receiver, Option<Receiver>),
        taps: Taps<'l>,
        script: Option<Script>,
        container: Option<container::Running>,
    ) -> Process<'l> {
        Process { child, leader, out: Some(out), err, taps, _script: script, container }
    }

    pub(crate) fn born(&self) -> &Born {
        &self.leader.born
    }

    /// Until its process has ended, its output is drained and nothing of it is alive that is easily seen.
    ///
    /// `deadline` is the next moment at which something must happen by itself: the time limit while it runs, the end
    /// of the grace while it is asked to end, the end of the linger once its own process has ended.
    pub(crate) async fn watch(mut self, step: &Step, attempt: Attempt<'_>) -> Verdict {
        let Attempt { options, lookout, mark, mut halt, .. } = attempt;
        let mut reason: Option<Reason> = None;
        let mut status: Option<ExitStatus> = None;
        let timeout = step.timeout_ms.map(|millis| Duration::from_millis(millis.max(0).unsigned_abs()));
        let mut deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut asked = Halt::No;
        let mut killed = false;
        loop {
            if status.is_some() && self.out.is_none() && self.err.is_none() {
                break;
            }
            tokio::select! {
                is_open = readable(&self.out), if self.out.is_some() => {
                    if !is_open || !self.taps.take(Stream::Out, &self.out) {
                        self.out = None;
                    }
                }
                is_open = readable(&self.err), if self.err.is_some() => {
                    if !is_open || !self.taps.take(Stream::Err, &self.err) {
                        self.err = None;
                    }
                }
                ended = self.child.wait(), if status.is_none() => {
                    // Only fails when somebody else took the child's status; it is gone all the same.
                    status = Some(ended.unwrap_or_else(|_| ExitStatus::from_raw(killed_status())));
                    if reason.is_none() {
                        deadline = Some(Instant::now() + options.linger);
                    }
                }
                () = wait_until(deadline), if deadline.is_some() => {
                    match (reason, status) {
                        (None, None) => {
                            reason = Some(Reason::TimeLimit);
                            self.taps.note("the time limit is over; stopping");
                            self.ask(Signal::SIGTERM, lookout, mark).await;
                            deadline = Some(Instant::now() + options.grace);
                        }
                        // Something in the background keeps the output open, and had its moment.
                        (None, Some(_)) => break,
                        (Some(_), _) if !killed => {
                            killed = true;
                            self.kill(lookout, mark).await;
                            deadline = Some(Instant::now() + options.linger);
                        }
                        // A process that survives KILL hangs in the kernel; it must not hold us too.
                        (Some(_), _) => break,
                    }
                }
                more = halted(&mut halt, asked) => {
                    asked = more;
                    if reason.is_none() && status.is_none() {
                        reason = Some(Reason::Stop);
                        self.taps.note("stopped on request");
                    }
                    if asked == Halt::Stop && reason == Some(Reason::Stop) {
                        self.ask(stop_signal(step), lookout, mark).await;
                        deadline = Some(Instant::now() + options.grace);
                    } else {
                        deadline = Some(Instant::now());
                    }
                }
            }
        }
        if reason.is_some() {
            self.outlive(deadline.unwrap_or_else(Instant::now), lookout, mark).await;
        } else if !self.is_drained() {
            self.kill(lookout, mark).await;
        } else {
            // What is left of the group in the background, silent, goes with its leader.
            self.leader.signal_group(Signal::SIGKILL);
            if !self.leader.members().is_empty() {
                self.kill(lookout, mark).await;
            }
        }
        if let Some(container) = self.container.take() {
            container.end(status.and_then(|status| status.code()), reason.is_some()).await;
        }
        self.finish(reason, status)
    }

    fn is_drained(&self) -> bool {
        self.out.is_none() && self.err.is_none()
    }

    /// Signals the group, and what left the group.
    async fn ask(&self, signal: Signal, lookout: &Lookout, mark: &str) {
        let born = &self.leader.born;
        self.leader.signal_group(signal);
        let family = lookout.look().await.family(&self.leader, mark);
        family.iter().filter(|process| process.group != born.pid).for_each(|p| procfs::signal(p, signal));
    }

    async fn kill(&self, lookout: &Lookout, mark: &str) {
        self.leader.signal_group(Signal::SIGKILL);
        lookout.kill(&self.leader, mark).await;
    }

    /// The leader has ended as it was asked to; others of the tree may still use their grace.
    async fn outlive(&self, deadline: Instant, lookout: &Lookout, mark: &str) {
        while Instant::now() < deadline {
            if lookout.look().await.family(&self.leader, mark).is_empty() {
                return;
            }
            sleep(LOOK_PAUSE).await;
        }
        self.kill(lookout, mark).await;
    }

    fn finish(mut self, reason: Option<Reason>, status: Option<ExitStatus>) -> Verdict {
        // What the pipes still hold; whoever may still write to them is not waited for.
        self.taps.take_rest(Stream::Out, self.out.take());
        self.taps.take_rest(Stream::Err, self.err.take());
        let mut outcome = match (reason, status) {
            (Some(Reason::Stop), _) => Outcome::Stopped,
            (Some(Reason::TimeLimit), _) => Outcome::TimedOut,
            (None, None) => Outcome::Lost,
            (None, Some(status)) => match (status.code(), status.signal()) {
                (Some(code), _) => Outcome::Exited(code),
                (None, signal) => Outcome::Signaled(signal.unwrap_or_default()),
            },
        };
        let output = match self.taps.finish() {
            Captured::Nothing => None,
            Captured::Text(text) => Some(text),
            Captured::TooLarge => {
                if outcome == Outcome::Exited(0) {
                    outcome = Outcome::Exited(EXIT_OUTPUT_TOO_LARGE);
                }
                None
            }
        };
        Verdict { outcome, output, born: Some(self.leader.born.clone()) }
    }
}

/// A number that is no signal of this system falls back to the default.
fn stop_signal(step: &Step) -> Signal {
    step.signal_on_stop.and_then(|number| Signal::try_from(number).ok()).unwrap_or(Signal::SIGTERM)
}

/// The status of a process ended by KILL, for one whose own status was lost.
const fn killed_status() -> i32 {
    Signal::SIGKILL as i32
}

async fn wait_until(deadline: Option<Instant>) {
    if let Some(deadline) = deadline {
        sleep_until(deadline).await;
    }
}

/// False when the pipe can no longer be watched.
async fn readable(pipe: &Option<Receiver>) -> bool {
    match pipe {
        Some(pipe) => pipe.readable().await.is_ok(),
        None => false,
    }
}
