use cadran_core::{JobName, JobPut, JobState, Millis, RunId, RunRecord, RunStatus, Skip};

/// The most rows one query answers: a page for a person, and a bounded answer for a program.
pub const LIMIT_MAX: u32 = 1000;

/// What a commit has to say beyond "it is durable".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// Promised runs that were not recorded because another run holds the same (job, due), in the order of the
    /// batch. Updates of these runs were dropped with them.
    pub refused: Vec<RunId>,
}

/// Everything needed to go on after a start.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// Every job there ever was, by number; removed ones too, since numbers and names are never given twice.
    pub jobs: Vec<JobRecord>,
    /// Runs that are promised, waiting or running, by id.
    pub open: Vec<RunRecord>,
    /// The highest id among runs and skips.
    pub last_id: Option<RunId>,
}

/// A job as it is read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRecord {
    /// Its latest definition.
    pub put: JobPut,
    /// When it went away.
    pub removed_at: Option<Millis>,
    /// Its planning state; without a watermark when none was ever recorded.
    pub state: JobState,
}

/// A job with what happened last, for a page or an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobView {
    /// Its latest definition.
    pub put: JobPut,
    /// When it went away.
    pub removed_at: Option<Millis>,
    /// Its planning state.
    pub state: JobState,
    /// Its newest run.
    pub last_run: Option<LastRun>,
}

/// The newest run of a job, in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastRun {
    /// The run.
    pub run: RunId,
    /// Where it stands.
    pub status: RunStatus,
    /// Its due.
    pub due: Millis,
}

/// A run and the name of its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunView {
    /// The run.
    pub record: RunRecord,
    /// The name of its job.
    pub job_name: JobName,
}

/// A skip and the name of its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkipView {
    /// The skip.
    pub skip: Skip,
    /// The name of its job.
    pub job_name: JobName,
}

/// Which runs, newest first. The next page starts `before` the last run of this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunQuery {
    /// Runs of this job only.
    pub job: Option<JobName>,
    /// Runs in one of these states only; empty means any.
    pub statuses: Vec<RunStatus>,
    /// Runs that this one asked for only.
    pub parent: Option<RunId>,
    /// Runs with a lower id only.
    pub before: Option<RunId>,
    /// Runs due at this instant or later.
    pub due_from: Option<Millis>,
    /// Runs due before this instant.
    pub due_to: Option<Millis>,
    /// How many, at most [`LIMIT_MAX`].
    pub limit: u32,
}

impl Default for RunQuery {
    fn default() -> RunQuery {
        RunQuery {
            job: None,
            statuses: Vec::new(),
            parent: None,
            before: None,
            due_from: None,
            due_to: None,
            limit: LIMIT_MAX,
        }
    }
}

/// Which skips, newest first. The next page starts `before` the last skip of this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkipQuery {
    /// Skips of this job only.
    pub job: Option<JobName>,
    /// Skips with a lower id only.
    pub before: Option<RunId>,
    /// How many, at most [`LIMIT_MAX`].
    pub limit: u32,
}

impl Default for SkipQuery {
    fn default() -> SkipQuery {
        SkipQuery { job: None, before: None, limit: LIMIT_MAX }
    }
}

/// Which jobs, by name. The next page starts `after` the last job of this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobQuery {
    /// Jobs with a name behind this one only.
    pub after: Option<JobName>,
    /// Jobs whose name contains this text, in upper or lower case.
    pub text: Option<String>,
    /// Removed jobs too.
    pub include_removed: bool,
    /// How many, at most [`LIMIT_MAX`].
    pub limit: u32,
}

impl Default for JobQuery {
    fn default() -> JobQuery {
        JobQuery { after: None, text: None, include_removed: false, limit: LIMIT_MAX }
    }
}

/// A few numbers about the record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Jobs that are not removed.
    pub jobs: u64,
    /// Runs that are promised.
    pub promised: u64,
    /// Runs that wait.
    pub waiting: u64,
    /// Runs that run.
    pub running: u64,
}

/// A limit as a caller gave it, within [`LIMIT_MAX`].
pub(crate) fn bounded(limit: u32) -> u32 {
    limit.min(LIMIT_MAX)
}
