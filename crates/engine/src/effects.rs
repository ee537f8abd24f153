//! What goes in, and what comes out.

use std::sync::Arc;

use cadran_core::{
    Address, Batch, Command, Executor, GroupName, Job, JobId, JobName, Millis, Order, Refusal, Reply, Report,
    RunId, RunStatus, SkipReason, Trigger,
};
use cadran_plan::index::Index;

use crate::RestoredRun;

/// Ties an answer to the command it belongs to. The loop makes them up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// Something happened.
#[derive(Debug)]
pub enum Event {
    /// Time passed: ticks, dues and waits are looked after.
    Time,
    /// Job files changed.
    Jobs(Vec<JobChange>),
    /// Someone asks for something.
    Command(Token, Command),
    /// The ended run that a retry asked for was read back; the last is the share, when only that was asked for.
    Recalled(Token, Box<RestoredRun>, Option<u32>),
    /// Executors report.
    Reports(Vec<Report>),
    /// A batch is durable.
    Committed {
        /// Which.
        seq: u64,
        /// Promised runs that lost their due to another run: they do not exist.
        refused: Vec<RunId>,
    },
    /// The index that was asked for is built.
    IndexBuilt(Arc<Index>),
    /// Executors came, went or were typed in.
    Executors(Vec<ExecutorChange>),
    /// The server is stopping: nothing new starts.
    Stopping,
}

/// A change of who is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecutorChange {
    /// A group whose addresses were typed in.
    Typed(GroupName, Vec<Executor>),
    /// An executor says that it is there.
    Seen(GroupName, Executor),
    /// What an executor that is there says of itself, (name, value).
    Labels(GroupName, Address, Vec<(String, String)>),
    /// An executor says that it leaves.
    Gone(GroupName, Address),
}

/// A change of the set of jobs.
#[derive(Clone, Debug)]
pub enum JobChange {
    /// A job is new or changed.
    Put {
        /// The job.
        job: Job,
        /// Its encoded definition, kept but not read.
        definition: Arc<str>,
        /// The file it came from.
        source: Arc<str>,
        /// What that file looked like.
        source_mark: Arc<str>,
    },
    /// A job went away.
    Remove {
        /// Its name.
        name: JobName,
    },
}

/// What is to be done, in this order: commit the batch; send orders and answers, which depend on nothing in it.
#[derive(Debug, Default)]
pub struct Effects {
    /// Number of the batch, to be given back with [`Event::Committed`]. 0 when there is no batch.
    pub seq: u64,
    /// Rows to make durable, in one transaction.
    pub batch: Batch,
    /// Orders to send now.
    pub orders: Vec<Order>,
    /// Commands to answer now.
    pub replies: Vec<(Token, Result<Reply, Refusal>)>,
    /// Ended runs to read back from the store for a retry, of all of it or of one share.
    pub recalls: Vec<(Token, RunId, Option<u32>)>,
    /// Runs whose status changed, for whoever watches.
    pub changes: Vec<RunChange>,
    /// Jobs were added, changed or removed.
    pub jobs_changed: bool,
    /// Executors came or went.
    pub executors_changed: bool,
    /// The tick that was planned, by the instant it was due.
    pub tick: Option<Millis>,
    /// Due and trigger of each run whose first order is among the orders.
    pub first_orders: Vec<(Millis, Trigger)>,
    /// Reports that spoke of attempts that are over.
    pub stale_reports: u64,
}

/// A run whose status changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunChange {
    /// The run.
    pub run: RunId,
    /// Its job.
    pub job: JobId,
    /// What it is now.
    pub status: RunStatus,
    /// Why it was skipped, if it was.
    pub skip: Option<SkipReason>,
}
