use std::sync::Arc;

use cadran_core::{
    Command, Executor, Footprint, GroupName, Holding, JobName, Millis, Overlap, Refusal, Reply, RunId,
    RunStatus, StepRecord, Waiting,
};
use cadran_spec::{Diagnostic, ReadOptions};
use futures::future::BoxFuture;
use tokio::sync::broadcast;

use crate::job_file::{ExpectedFile, JobFileRefusal, JobFileSaved};
use crate::{EventLog, Lists};

/// What the API asks of the running server. Records are read from the store and logs from their files; everything
/// that is decided, or known only to the loop, comes through here.
///
/// Methods other than [`Server::command`] answer from what is in memory, at once or with [`Refusal::Busy`] after some
/// seconds in which the loop did not.
pub trait Server: Send + Sync + 'static {
    /// Carries out a command. Answers only after what it changed is durable.
    fn command(&self, command: Command) -> BoxFuture<'static, Result<Reply, Refusal>>;

    /// Dues after `from` up to and including `to`, earliest first, of one job or of all; at most `limit`.
    fn upcoming(
        &self,
        from: Millis,
        to: Millis,
        job: Option<&JobName>,
        limit: usize,
    ) -> Result<Vec<(Millis, JobName)>, Refusal>;

    /// How many runs each of the `minutes` minutes after `from` is expected to start.
    fn forecast(&self, from: Millis, minutes: usize) -> Result<Vec<u64>, Refusal>;

    /// The next due of each of these jobs, `None` when there is none or no such job.
    fn next_dues(&self, jobs: Vec<JobName>) -> Result<Vec<Option<Millis>>, Refusal>;

    /// Why an open run waits, or what it holds.
    fn why(&self, run: RunId) -> Result<(Option<Waiting>, Option<Holding>), Refusal>;

    /// Why each of these runs waits; `None` for those that do not.
    fn waitings(&self, runs: Vec<RunId>) -> Result<Vec<Option<Waiting>>, Refusal>;

    /// Which jobs can exclude which, by name, and whether there may be more.
    fn conflicts(&self) -> Result<(Arc<Vec<JobConflict>>, bool), Refusal>;

    /// What is wrong with job files at this moment.
    fn file_problems(&self) -> Vec<FileProblem>;

    /// Metrics in Prometheus' text format.
    fn metrics(&self) -> String;

    /// How the server is.
    fn health(&self) -> Health;

    /// How job files are read here: the zone of those that name none, and what jobs share.
    fn read_options(&self) -> ReadOptions {
        ReadOptions::default()
    }

    /// The text of a job file, by its place below the jobs directory; `None` when it is gone. May block on the disk.
    fn job_file(&self, _source: &str) -> Option<String> {
        None
    }

    /// Whether job files are written here.
    fn may_write_jobs(&self) -> bool {
        false
    }

    /// Writes the file of a job, or removes it (`None`). Answers when the job is in force, or gone.
    fn write_job_file(
        &self,
        _job: JobName,
        _text: Option<String>,
        _expected: ExpectedFile,
    ) -> BoxFuture<'static, Result<JobFileSaved, JobFileRefusal>> {
        Box::pin(std::future::ready(Err(JobFileRefusal::ReadOnly)))
    }

    /// The conflicts that a job would have if it declared this instead of what it declares.
    fn conflicts_with(
        &self,
        _job: JobName,
        _declared: Option<(Footprint, Overlap)>,
    ) -> Result<Vec<JobConflict>, Refusal> {
        Ok(Vec::new())
    }

    /// The wall clock.
    fn now(&self) -> Millis;

    /// The executors that are there, by group.
    fn executors(&self) -> Result<Vec<ExecutorGroup>, Refusal> {
        Ok(Vec::new())
    }

    /// Brings the logs of a run up to date that executors elsewhere have. What cannot be read now is left as it is.
    fn refresh_logs(&self, _run: RunId, _steps: &[StepRecord], _is_over: bool) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Runs that are active, and that wait for their turn.
    fn load(&self) -> (usize, usize);

    /// Jobs, runs and skips in short. What is committed is there.
    fn lists(&self) -> Arc<Lists>;

    /// What changed lately. Every change is in the store before it is here.
    fn event_log(&self) -> Arc<EventLog>;

    /// Runs that change from now on. A receiver that falls behind loses the oldest, so an event is a hint to look at the
    /// store, never the only word of something.
    fn events(&self) -> broadcast::Receiver<LiveEvent> {
        self.event_log().runs().subscribe()
    }
}

/// Two jobs whose runs can exclude one another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobConflict {
    /// The first, by name.
    pub job: String,
    /// The second; the same one where its own runs can exclude one another.
    pub other: String,
    /// What the first touches, as in `write of table:orders`.
    pub touches: String,
    /// What the second touches.
    pub other_touches: String,
    /// Only some values of parameters make it so.
    pub by_params: bool,
}

/// A group of executors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorGroup {
    /// Its name.
    pub name: GroupName,
    /// Whether its addresses were typed in.
    pub typed: bool,
    /// In the order that routes choose from.
    pub executors: Vec<ExecutorLine>,
}

/// One executor of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorLine {
    /// Who.
    pub executor: Executor,
    /// When it first registered; `None` when it was typed in.
    pub since: Option<Millis>,
    /// How long ago it last did.
    pub silent_ms: Option<Millis>,
    /// What it says of itself, (name, value).
    pub labels: Vec<(String, String)>,
}

/// A run changed its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveEvent {
    /// Which run.
    pub run: RunId,
    /// What it is now.
    pub status: RunStatus,
}

/// Something wrong with a job file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileProblem {
    /// The file, relative to the jobs directory.
    pub file: String,
    /// Line, from 1; 0 when the problem has no place.
    pub line: u32,
    /// Column, from 1; 0 when the problem has no place.
    pub column: u32,
    /// `error` (the file is not in force) or `warning`.
    pub severity: String,
    /// A short stable word for programs.
    pub code: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// All of it as text for a terminal, with the offending line underlined.
    pub rendered: String,
}

impl FileProblem {
    /// What the reader found in the text of a file.
    pub fn new(file: &str, text: &str, found: Diagnostic) -> FileProblem {
        FileProblem {
            file: file.to_owned(),
            line: found.line,
            column: found.column,
            severity: found.severity.word().to_owned(),
            code: found.code.word().to_owned(),
            rendered: found.render(file, text, false),
            message: found.message,
            help: found.help,
        }
    }
}

/// How the server is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// It plans, fires and records.
    pub ready: bool,
    /// The loop turned a moment ago.
    pub loop_ok: bool,
    /// The last write to the store succeeded, and it answered a moment ago.
    pub store_ok: bool,
    /// The executor inside the server moved a moment ago.
    pub executor_ok: bool,
    /// It is on its way out.
    pub stopping: bool,
    /// Of the program.
    pub version: String,
    /// Since its start, by the monotonic clock.
    pub uptime_ms: Millis,
    /// Since the loop's last turn.
    pub loop_age_ms: Millis,
    /// Since the store last answered.
    pub store_age_ms: Millis,
    /// Since the oldest batch that is not durable yet was made.
    pub batch_age_ms: Option<Millis>,
    /// Since the executor inside the server last moved.
    pub executor_age_ms: Option<Millis>,
    /// What its data takes.
    pub disk: DiskUse,
}

/// What the server's data takes of the disk, and how much it may. Older runs and logs go when it is more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
pub struct DiskUse {
    /// Files of the database.
    pub database_bytes: u64,
    /// What is in use of them: the limit is on this.
    pub database_bytes_used: u64,
    /// Limit; on SQLite alone.
    pub database_bytes_max: u64,
    /// All logs.
    pub log_bytes: u64,
    /// Limit.
    pub log_bytes_max: u64,
    /// Days that ended runs are kept at most, when there is such a limit for all jobs.
    pub days_max: Option<u32>,
    /// Newest runs that are kept of each job at most, when there is such a limit for all jobs.
    pub runs_max: Option<u32>,
    /// Runs that were forgotten since the start.
    pub runs_forgotten: u64,
    /// Runs whose logs were removed before the run itself, since the start.
    pub logs_removed: u64,
    /// When this was measured; missing right after the start.
    pub measured_at_ms: Option<Millis>,
}
