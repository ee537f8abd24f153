use std::sync::Arc;

use crate::{Address, Body, Executor, GroupName, JobId, JobName, Millis, RunId, SeatRecord, StepNo, Trigger};

/// Sent to an executor.
#[derive(Clone, Debug)]
pub enum Order {
    /// Start one attempt of one step.
    Start(Start),
    /// Stop an attempt: the step's signal, then KILL for the whole tree after the grace period.
    Stop {
        /// Which run.
        run: RunId,
        /// Which step.
        step: StepNo,
        /// Which attempt.
        attempt: u32,
    },
    /// Stop one share of an attempt. The others go on.
    StopShare {
        /// Which run.
        run: RunId,
        /// Which step.
        step: StepNo,
        /// Which attempt.
        attempt: u32,
        /// Which share.
        share: u32,
    },
    /// The run is over: whatever the executor keeps about it may go.
    Close {
        /// Which run.
        run: RunId,
    },
    /// The executor at this address is not believed to be there any more: what it has may be lost.
    Gone {
        /// Where it was.
        address: Address,
    },
}

/// One attempt of one step. An executor that has seen (run, step, attempt) before ignores the repetition.
#[derive(Clone, Debug)]
pub struct Start {
    /// Which run.
    pub run: RunId,
    /// Which step of `context.body`.
    pub step: StepNo,
    /// Which attempt of that step, from 1, rising across retries and recoveries.
    pub attempt: u32,
    /// What every step of the run knows.
    pub context: Arc<RunContext>,
    /// Outputs of earlier steps, (name, value).
    pub outputs: Arc<[(Box<str>, Box<str>)]>,
    /// Where it runs; `None` for the executor inside the server.
    pub placement: Option<Arc<Placement>>,
}

/// The executors that were chosen for one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Their group.
    pub group: GroupName,
    /// Which kind they are: it says which way the order leaves.
    pub kind: ExecutorKind,
    /// When they were chosen: executors file their logs by it.
    pub at: Millis,
    /// Which of them.
    pub seats: Seats,
}

/// What kind of executor an attempt goes to, when it leaves the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutorKind {
    /// One of our own workers, which asks for its orders.
    Worker,
    /// An executor that speaks XXL-JOB, and is called.
    XxlJob,
}

/// Which executors of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seats {
    /// These, each with its share.
    Chosen(Vec<Seat>),
    /// The first of these that answers well.
    Asked {
        /// What they are asked.
        ask: Ask,
        /// In this order.
        executors: Vec<Executor>,
        /// The log number for whoever it is.
        log: u64,
    },
    /// Nobody is there.
    Nobody,
}

/// What an executor is asked before it gets an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Are you there?
    Alive,
    /// Is this job idle on you?
    Idle,
    /// Have you a free slot? When nobody has, whoever has least to do gets the order.
    Free,
}

/// One share of an attempt at one executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Which share, from 0.
    pub index: u32,
    /// How many shares there are.
    pub total: u32,
    /// Who has it.
    pub executor: Executor,
    /// The number its log has there: below 2^53, never used twice.
    pub log: u64,
}

/// What every step of a run knows about it.
#[derive(Clone, Debug)]
pub struct RunContext {
    /// The job.
    pub job: JobId,
    /// Its name.
    pub job_name: JobName,
    /// What it does.
    pub body: Arc<Body>,
    /// The logical time: the due, or the moment of the manual trigger.
    pub due: Millis,
    /// Why the run exists.
    pub trigger: Trigger,
    /// Values given with the trigger, (name or 1-based position, value). Data, never shell text.
    pub params: Vec<(Box<str>, Box<str>)>,
    /// The executors it may go to, given with the trigger; empty for all of its groups.
    pub addresses: Vec<Address>,
    /// This run's share of a broadcast, from 0.
    pub shard_index: u32,
    /// How many shares there are; 1 without a broadcast.
    pub shard_total: u32,
}

/// Sent back by an executor.
#[derive(Clone, Debug)]
pub struct Report {
    /// Which run.
    pub run: RunId,
    /// Which step.
    pub step: StepNo,
    /// Which attempt; a report of an old attempt is refused.
    pub attempt: u32,
    /// When it happened, by the wall clock.
    pub at: Millis,
    /// What happened.
    pub kind: ReportKind,
}

/// What happened to an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportKind {
    /// The process is up.
    Started,
    /// The attempt is over.
    Ended {
        /// How it ended.
        outcome: Outcome,
        /// Captured output, for a step with `output`.
        output: Option<Box<str>>,
    },
    /// What became of one share of the attempt. Nothing follows from it but the record.
    Seat(Box<SeatRecord>),
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The process ended by itself.
    Exited(i32),
    /// A signal that was not ours ended it.
    Signaled(i32),
    /// It passed its time limit and was killed.
    TimedOut,
    /// It was stopped on request.
    Stopped,
    /// A precondition of the step was not met; nothing was started.
    PreconditionUnmet(Box<str>),
    /// A precondition of the job was not met; nothing was started.
    JobPreconditionUnmet(Box<str>),
    /// It could not be started, and why.
    NotStarted(Box<str>),
    /// The executor reported a failure with this code, and what it said.
    Reported(i32, Box<str>),
    /// Some shares of it did not succeed, and somebody wants that or knows it: one was stopped, or only another was asked
    /// for. It has failed, says why, and is not tried again by itself.
    Halted(Box<str>),
    /// The executor vanished with it.
    Lost,
}

/// What an executor knows of an attempt after a restart of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Which run.
    pub run: RunId,
    /// Which step.
    pub step: StepNo,
    /// Which attempt.
    pub attempt: u32,
    /// When it was started.
    pub started_at: Millis,
    /// How and when it ended; `None` when it was cut off with the server and its processes are gone.
    pub ended: Option<(Millis, Outcome)>,
    /// Captured output, for an ended step with `output`.
    pub output: Option<Box<str>>,
    /// It is still on, somewhere else: its reports will come.
    pub lives: bool,
    /// Its shares at executors.
    pub seats: Vec<SeatRecord>,
}
