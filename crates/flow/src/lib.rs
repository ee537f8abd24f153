//! What next inside a run?
//!
//! A run is a graph of steps and, at its end, a few handlers. [`Progress`] is told what happened ([`Report`]s, the
//! end of a wait, a stop) and answers with what to do [`Next`]: start an attempt, wait before another one, stop an
//! attempt, or end the run.
//!
//! ```
//! use cadran_core::{Body, Now, Outcome, Report, ReportKind, RunId, RunStatus, Step, StepNo};
//! use cadran_flow::{Accepted, Next, Progress};
//!
//! let body = Body { steps: vec![Step { name: "greet".into(), ..Step::default() }], ..Body::default() };
//! let mut next = Vec::new();
//! let mut progress = Progress::begin(&body, false, &mut next);
//! assert_eq!(next, [Next::Start { step: StepNo(0), attempt: 1 }]);
//!
//! next.clear();
//! let kind = ReportKind::Ended { outcome: Outcome::Exited(0), output: None };
//! let report = Report { run: RunId::from_raw(1), step: StepNo(0), attempt: 1, at: 5, kind };
//! assert_eq!(progress.report(&body, &report, Now::at(5), &mut next), Accepted::Yes);
//! assert_eq!(next, [Next::End { status: RunStatus::Succeeded, message: None }]);
//! ```
//!
//! # The rules
//!
//! - A step starts when every step it depends on is over and each succeeded or is forgiven by its own
//!   `continue_on`; else it is skipped. Ready steps start in the order of their numbers, at most
//!   `max_active_steps` at once (0 means no limit).
//! - A failed step that is not forgiven fails the run; branches that do not depend on it still finish. A forgiven
//!   failure does not; with `mark_success` the step itself counts as succeeded.
//! - An unmet precondition skips its step, and by default the steps behind it; the run still succeeds if nothing
//!   failed. An unmet precondition of the job ends the run as skipped, without handlers. A job with preconditions
//!   starts one step first and the others once that one is up, so nothing has run when the answer is no.
//! - Exits other than 0, signals, time limits and failures to start are tried again by the step's `retry`. A list of
//!   exit codes there admits only exits with these codes. A wait is counted on the monotonic clock, without jitter.
//! - A lost attempt is started again at once, at most [`LOST_MAX`] times lost per step and opening of the run, and
//!   never under `at_most_once`; then the run ends as lost. Lost attempts do not use up `retry`.
//! - When the steps are over, the handler of the result runs (a lost run has failed, and so has one that passed its
//!   time limit), then the one for every exit. A failing handler makes a succeeded run failed: whoever relies on a
//!   handler that cleans up or tells someone wants to know. It does not change a result that is bad already, except
//!   for the message.
//! - A stop ends the steps, not the handlers. Asking again, while a handler runs, stops that handler.
//!
//! # What it does not know
//!
//! Schedules, executors, stores, processes, clocks. It starts nothing: it says what to start. Which run it speaks of
//! is known to the caller alone.
//!
//! # Invariants
//!
//! Every run ends with exactly one [`Next::End`]. Reports of old attempts change nothing. The same calls give the
//! same answers. A report costs time in proportion to the steps that wait for the reported one.
#![forbid(unsafe_code)]

mod advance;
mod ending;
mod graph;
mod outputs;
mod progress;
mod resume;
mod retry;
mod slot;
mod tally;
mod words;

pub use progress::{Accepted, Next, Progress, StopWhy};
pub use resume::Resume;
pub use slot::LOST_MAX;

#[cfg(doc)]
use cadran_core::Report;
