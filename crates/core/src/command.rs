use std::fmt;

use crate::{Address, JobName, Millis, RunId, ShareError};

/// What a person or a program asks of the server. Each one gets one [`Reply`] or one [`Refusal`], and only after
/// what it changed is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Run a job now.
    Trigger {
        /// Which.
        job: JobName,
        /// Values for its parameters: (name or 1-based position, value).
        params: Vec<(Box<str>, Box<str>)>,
        /// The executors it may go to, in this order; all of its groups when there is none.
        addresses: Vec<Address>,
        /// The run that asks, when a run asks.
        parent: Option<RunId>,
        /// A key of the caller's own: asked again with the same one, the answer is the same run.
        key: Option<IdempotencyKey>,
    },
    /// Let no due of a job start until it is resumed.
    Pause {
        /// Which.
        job: JobName,
    },
    /// End a pause.
    Resume {
        /// Which.
        job: JobName,
    },
    /// Stop a run, wherever it stands.
    Stop {
        /// Which.
        run: RunId,
    },
    /// Stop one share of a broadcast; the others go on, and the step fails for it.
    StopShare {
        /// Whose.
        run: RunId,
        /// Which share, from 0.
        share: u32,
    },
    /// Open an ended run again: what did not succeed runs again, under a higher attempt.
    Retry {
        /// Which.
        run: RunId,
    },
    /// Open an ended run again, of its broadcast nothing but this share.
    RetryShare {
        /// Whose.
        run: RunId,
        /// Which share, from 0.
        share: u32,
    },
}

/// What a caller names one trigger by, so that it can ask again when no answer came: hashes of the key and of all that
/// was asked for under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IdempotencyKey {
    /// Of the key's text.
    pub key: u128,
    /// Of what was asked for: the same key for something else is a mistake of the caller.
    pub request: u64,
}

/// How long a key is remembered: a day.
pub const TRIGGER_KEY_MS: Millis = 24 * 3_600_000;

/// What a command did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The run that was made, stopped or opened again.
    Run(RunId),
    /// Done; nothing more to say.
    Done,
    /// It was so already.
    Already,
}

/// Why a command was not carried out. Nothing was changed, but for [`Refusal::Unknown`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No job of this name.
    NoSuchJob(JobName),
    /// No run of this id that the server could act on.
    NoSuchRun(RunId),
    /// The run is over; there is nothing to stop.
    RunEnded(RunId),
    /// There is no such share of the run.
    NoSuchShare(RunId, ShareError),
    /// The share is over; there is nothing to stop.
    ShareEnded(RunId, u32),
    /// The run is not over, or ended well; there is nothing to retry.
    NotRetryable(RunId, &'static str),
    /// Parameters that the job does not take, or lacks.
    Params(String),
    /// Executors that the job cannot go to.
    Addresses(String),
    /// The idempotency key was used for something else.
    KeyReused,
    /// A bound was reached.
    Limit(String),
    /// The server is stopping or overloaded; try again later.
    Busy(&'static str),
    /// Whether it was carried out is not known: it was taken, and no answer came in time.
    Unknown(&'static str),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoSuchJob(job) => write!(f, "there is no job named {job}"),
            Refusal::NoSuchRun(run) => write!(f, "there is no run {run}"),
            Refusal::RunEnded(run) => write!(f, "run {run} is over; there is nothing to stop"),
            Refusal::NoSuchShare(run, why) => write!(f, "run {run} {why}"),
            Refusal::ShareEnded(run, share) => {
                write!(f, "share {run}.{share} is over; there is nothing to stop")
            }
            Refusal::NotRetryable(run, why) => write!(f, "run {run} cannot be retried: {why}"),
            Refusal::Params(why) | Refusal::Addresses(why) => write!(f, "{why}"),
            Refusal::KeyReused => write!(f, "the idempotency key was used for another trigger within a day"),
            Refusal::Limit(why) => write!(f, "{why}"),
            Refusal::Busy(why) => write!(f, "{why}"),
            Refusal::Unknown(why) => {
                write!(f, "whether it was done is not known: {why}")
            }
        }
    }
}

impl std::error::Error for Refusal {}
