//! What happens at a worker, for whoever watches it.

use cadran_core::{Outcome, RunId};

/// Something a person may want to hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerEvent {
    /// It is known to the server.
    Connected {
        /// The life of the server.
        server: String,
        /// The lease in milliseconds.
        lease_ms: u64,
    },
    /// The server does not answer, and why.
    Unreachable(String),
    /// The lease is about to end: what runs is ended.
    LeaseLost,
    /// An order came.
    Ordered {
        /// The run.
        run: RunId,
        /// The job.
        job: String,
        /// The step.
        step: String,
        /// The attempt.
        attempt: u32,
    },
    /// An attempt started.
    Started {
        /// The run.
        run: RunId,
        /// The job.
        job: String,
        /// The step.
        step: String,
        /// The attempt.
        attempt: u32,
    },
    /// An attempt ended.
    Ended {
        /// The run.
        run: RunId,
        /// The job.
        job: String,
        /// The step.
        step: String,
        /// The attempt.
        attempt: u32,
        /// How.
        outcome: Outcome,
    },
    /// No more orders are taken; this many attempts are on or wait.
    Draining(usize),
}
