use crate::policy::words;
use crate::{Address, Millis, RunId};

/// Why a run exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trigger {
    /// A due of a start schedule, on time or directly after.
    Schedule,
    /// A missed due, replayed by the job's misfire policy.
    CatchUp,
    /// A due of a restart schedule.
    Restart,
    /// A person or a program asked for it.
    Manual,
    /// Another run asked for it: its job has it as a child, or one of its steps triggered it.
    Child,
}

impl Trigger {
    /// Whether the run answers a due of a schedule, so that (job, due) names it uniquely.
    pub const fn is_scheduled(self) -> bool {
        !matches!(self, Trigger::Manual | Trigger::Child)
    }
}

words!(Trigger {
    Schedule = "schedule",
    CatchUp = "catch_up",
    Restart = "restart",
    Manual = "manual",
    Child = "child",
});

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunStatus {
    /// Durable, in the ring, not started.
    Promised,
    /// Left the ring and waits for its turn.
    Waiting,
    /// At least one step was started.
    Running,
    /// Every step that had to succeed did.
    Succeeded,
    /// A step failed and was not forgiven, or the run passed its time limit.
    Failed,
    /// Someone, a stop schedule or a replacing run stopped it.
    Stopped,
    /// Not started, for a recorded [`SkipReason`].
    Skipped,
    /// Its executor vanished and policy allows no further try.
    Lost,
    /// Every step that had to succeed did, and others failed and were forgiven; only for jobs with `partial_success`.
    PartiallySucceeded,
}

impl RunStatus {
    /// Whether nothing more happens to the run by itself.
    pub const fn is_ended(self) -> bool {
        !matches!(self, RunStatus::Promised | RunStatus::Waiting | RunStatus::Running)
    }

    /// The life of a run. An ended run opens again only by a retry, with a higher attempt.
    pub const fn may_become(self, next: RunStatus) -> bool {
        use RunStatus::*;
        match self {
            Promised => !matches!(next, Promised),
            Waiting => matches!(next, Running | Skipped | Stopped | Failed | Lost),
            // Preconditions of the job are judged by the executor, so a run that finds them unmet was running.
            Running => next.is_ended(),
            Failed | Stopped | Lost => matches!(next, Running | Waiting),
            Succeeded | PartiallySucceeded | Skipped => false,
        }
    }
}

words!(RunStatus {
    Promised = "promised",
    Waiting = "waiting",
    Running = "running",
    Succeeded = "succeeded",
    Failed = "failed",
    Stopped = "stopped",
    Skipped = "skipped",
    Lost = "lost",
    PartiallySucceeded = "partially_succeeded",
});

/// Why a due did not become a started run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkipReason {
    /// More than ten seconds late under `misfire: skip`.
    Missed,
    /// A newer due of the same job runs in its place.
    Superseded,
    /// Missed, and older than the catch-up window.
    OutsideWindow,
    /// Missed, and beyond the newest 1000 of a backlog.
    BacklogLimit,
    /// The job was paused.
    Paused,
    /// The job was still active under `overlap: skip`.
    Overlap,
    /// The wait room was full.
    WaitRoomFull,
    /// The job was removed before the run started.
    Removed,
    /// The job already succeeded since the due before (`skip_if_successful`).
    AlreadySuccessful,
    /// A precondition of the job was not met.
    Precondition,
    /// Something that it touches was taken, under `on_conflict: skip`.
    Conflict,
    /// It needs more of a pool than there is by now.
    Capacity,
}

words!(SkipReason {
    Missed = "missed",
    Superseded = "superseded",
    OutsideWindow = "outside_window",
    BacklogLimit = "backlog_limit",
    Paused = "paused",
    Overlap = "overlap",
    WaitRoomFull = "wait_room_full",
    Removed = "removed",
    AlreadySuccessful = "already_successful",
    Precondition = "precondition",
    Conflict = "conflict",
    Capacity = "capacity",
});

impl SkipReason {
    /// One sentence for a person.
    pub const fn sentence(self) -> &'static str {
        match self {
            SkipReason::Missed => "missed: the server came to it more than 10 s late, and misfire is skip",
            SkipReason::Superseded => "superseded: a newer due of the job runs in its place",
            SkipReason::OutsideWindow => "missed, and older than the job's catchup_window",
            SkipReason::BacklogLimit => "missed, and beyond the newest 1000 dues of the backlog",
            SkipReason::Paused => "the job was paused",
            SkipReason::Overlap => "the job was still active, and overlap is skip",
            SkipReason::WaitRoomFull => "too many runs were waiting already",
            SkipReason::Removed => "the job was removed before the run started",
            SkipReason::AlreadySuccessful => {
                "the job already succeeded since its previous due (skip_if_successful)"
            }
            SkipReason::Precondition => "a precondition was not met",
            SkipReason::Conflict => "something it touches was taken, and on_conflict is skip",
            SkipReason::Capacity => "it needs more of a pool than there is",
        }
    }
}

/// Where one step of a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepStatus {
    /// Not reached yet.
    Pending,
    /// An attempt is on.
    Running,
    /// The last attempt failed; the next one waits for its interval.
    Retrying,
    /// Done.
    Succeeded,
    /// No attempt succeeded.
    Failed,
    /// Not run: a precondition was unmet, or a step it depends on did not succeed.
    Skipped,
    /// Stopped with the run.
    Stopped,
}

impl StepStatus {
    /// Whether the step is over.
    pub const fn is_ended(self) -> bool {
        matches!(self, StepStatus::Succeeded | StepStatus::Failed | StepStatus::Skipped | StepStatus::Stopped)
    }
}

words!(StepStatus {
    Pending = "pending",
    Running = "running",
    Retrying = "retrying",
    Succeeded = "succeeded",
    Failed = "failed",
    Skipped = "skipped",
    Stopped = "stopped",
});

/// What is recorded of one step of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepRecord {
    /// The step's name, or `on_success`, `on_failure`, `on_stop`, `on_exit` for a handler.
    pub name: Box<str>,
    /// Where it stands.
    pub status: StepStatus,
    /// Attempts so far, across retries and recoveries of the run.
    pub attempt: u32,
    /// How many of them were lost with their executor since the run was last opened: a step that takes its server
    /// down each time is given up after a few, and that count must outlive the server.
    pub lost: u32,
    /// Start of the latest attempt.
    pub started_at: Option<Millis>,
    /// End of the latest attempt.
    pub ended_at: Option<Millis>,
    /// Exit code of the latest attempt, when the process ended by itself.
    pub exit_code: Option<i32>,
    /// Why it failed, was skipped or stopped, in words.
    pub message: Option<Box<str>>,
    /// The captured output, for a step with `output`.
    pub output: Option<Box<str>>,
    /// The shares of the latest attempt, for a step that runs on executors of a group.
    pub seats: Vec<SeatRecord>,
    /// The runs that the latest attempt asked for, for a step with `job`.
    pub calls: Vec<CallRecord>,
}

/// What is recorded of one run that a step asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// Which item it is for, from 0.
    pub index: u32,
    /// The run.
    pub run: RunId,
    /// The item; empty without `for_each`.
    pub item: Box<str>,
    /// `Promised` until it has ended.
    pub status: RunStatus,
    /// Its outputs as a JSON object, for a step with `output`.
    pub output: Option<Box<str>>,
}

/// What is recorded of one share of a step at one executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeatRecord {
    /// Which share, from 0.
    pub index: u32,
    /// How many there are.
    pub total: u32,
    /// The executor's address.
    pub address: Address,
    /// The number of its log there.
    pub log: u64,
    /// Which attempt of the step it belongs to: a retry repeats the shares that failed and leaves the others.
    pub attempt: u32,
    /// When the order was made: executors file logs by it.
    pub at: Millis,
    /// When it was over.
    pub ended_at: Option<Millis>,
    /// Where it stands.
    pub status: SeatStatus,
    /// What the executor said: its result, or why it failed.
    pub message: Option<Box<str>>,
    /// Somebody asked for it to be repeated, and that has not happened yet.
    pub again: bool,
}

/// Where one share stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SeatStatus {
    /// The order is on its way.
    Sent,
    /// The executor has taken it.
    Running,
    /// It was told to stop, and has not ended yet.
    Stopping,
    /// Done.
    Succeeded,
    /// Refused, or failed.
    Failed,
    /// Stopped, with the run or alone.
    Stopped,
    /// Its executor vanished with it.
    Lost,
}

impl SeatStatus {
    /// Whether it is over.
    pub const fn is_ended(self) -> bool {
        !matches!(self, SeatStatus::Sent | SeatStatus::Running | SeatStatus::Stopping)
    }
}

words!(SeatStatus {
    Sent = "sent",
    Running = "running",
    Stopping = "stopping",
    Succeeded = "succeeded",
    Failed = "failed",
    Stopped = "stopped",
    Lost = "lost",
});
