//! The answers of the API, as far as people are shown them. Programs get them whole with `--json`.

use serde::Deserialize;

/// A run.
#[derive(Clone, Debug, Deserialize)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// Its job.
    pub job: String,
    /// Where it stands.
    pub status: String,
    /// Whether nothing more happens to it by itself.
    pub ended: bool,
    /// Why it exists.
    pub trigger: String,
    /// The instant it was due.
    pub due: String,
    /// The run that asked for it, or that it is a share of.
    pub parent: Option<String>,
    /// Which share it is.
    pub share: Option<u32>,
    /// Who has this share, or its step that is on.
    pub executor: Option<String>,
    /// The number by which executors know its job.
    pub executor_number: Option<u32>,
    /// How many times it was started.
    #[serde(default)]
    pub attempt: u32,
    /// When it started.
    pub started_at: Option<String>,
    /// The same, as a number.
    pub started_at_ms: Option<i64>,
    /// From start to end.
    pub duration_ms: Option<i64>,
    /// What became of it and why.
    pub explanation: String,
    /// The shares of its latest broadcast, counted.
    pub shares: Option<ShareCounts>,
    /// Its steps, when it was asked for alone.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// Its shares and the runs it asked for, when it was asked for alone.
    #[serde(default)]
    pub children: Vec<Child>,
}

/// A share of a run, or a run that it asked for.
#[derive(Clone, Debug, Deserialize)]
pub struct Child {
    /// What it is called.
    pub id: String,
    /// Its job.
    pub job: String,
    /// Where it stands.
    pub status: String,
    /// Who has the share.
    pub executor: Option<String>,
}

/// How the shares of a broadcast stand.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct ShareCounts {
    /// How many there are.
    pub total: usize,
    /// Those that went well.
    pub succeeded: usize,
    /// Those that did not.
    pub failed: usize,
}

/// A share of a broadcast, or the one executor of a step.
#[derive(Clone, Debug, Deserialize)]
pub struct Share {
    /// Where it is.
    pub address: String,
    /// Which one, from 0.
    pub index: u32,
    /// How many there are.
    pub total: u32,
    /// Which attempt of the step.
    pub attempt: u32,
    /// Where it stands.
    pub status: String,
    /// When its order was made.
    pub ordered_at: String,
    /// The same, as a number.
    pub ordered_at_ms: i64,
    /// From order to end.
    pub duration_ms: Option<i64>,
    /// What the executor said.
    pub message: Option<String>,
}

/// A step of a run.
#[derive(Clone, Debug, Deserialize)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub status: String,
    /// Attempts so far.
    pub attempt: u32,
    /// Exit code of the latest attempt.
    pub exit_code: Option<i32>,
    /// Of the latest attempt.
    pub duration_ms: Option<i64>,
    /// Why it failed, was skipped or stopped.
    pub message: Option<String>,
    /// What executors have of it.
    #[serde(default)]
    pub executors: Vec<Share>,
}

/// Why a run stands where it stands.
#[derive(Debug, Deserialize)]
pub struct Why {
    /// Its id.
    pub run: String,
    /// Its job.
    pub job: String,
    /// Where it stands.
    pub status: String,
    /// Why it exists.
    #[serde(default)]
    pub trigger: String,
    /// The run that asked for it.
    pub parent: Option<String>,
    /// In a sentence.
    pub explanation: String,
    /// Since when it waits, or holds.
    pub since: Option<String>,
    /// What it waits for.
    pub waits_for: Option<WaitsFor>,
    /// What it holds.
    #[serde(default)]
    pub holds: Vec<String>,
}

/// What a run waits for.
#[derive(Debug, Deserialize)]
pub struct WaitsFor {
    /// One of those in the way.
    pub run: Option<String>,
    /// Its job.
    pub job: Option<String>,
    /// That one waits itself.
    pub in_line: bool,
    /// How many are before it.
    pub before: u64,
    /// Nothing that conflicts passes it.
    pub ticket: bool,
    /// How often it was tried in vain.
    pub tries: u32,
}

/// A page of runs.
#[derive(Debug, Deserialize)]
pub struct RunPage {
    /// Newest first.
    pub runs: Vec<Run>,
}

/// A page of history.
#[derive(Debug, Deserialize)]
pub struct History {
    /// Newest first.
    pub history: Vec<HistoryItem>,
    /// Where the next page starts.
    pub next: Option<String>,
}

/// One line of a history.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum HistoryItem {
    /// A run.
    Run(Run),
    /// Dues that never became runs.
    Skip {
        /// Whose.
        job: String,
        /// The first of them.
        first_due: String,
        /// The last of them.
        last_due: String,
        /// How many.
        count: u64,
        /// Why.
        explanation: String,
    },
}

/// A page of jobs.
#[derive(Debug, Deserialize)]
pub struct JobPage {
    /// By name.
    pub jobs: Vec<Job>,
}

/// A job.
#[derive(Debug, Deserialize)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// `active`, `paused` or `removed`.
    pub state: String,
    /// Its schedules.
    pub schedules: Vec<Schedule>,
    /// The next due.
    pub next_due: Option<String>,
    /// The newest run.
    pub last_run: Option<LastRun>,
    /// The number by which executors know it.
    pub executor_number: Option<u32>,
    /// None of its schedules comes due any more.
    #[serde(default)]
    pub schedule_over: bool,
}

/// A schedule of a job.
#[derive(Debug, Deserialize)]
pub struct Schedule {
    /// As written.
    pub text: String,
    /// The zone it is read in.
    pub timezone: String,
    /// What its dues do.
    pub action: String,
}

/// The newest run of a job.
#[derive(Debug, Deserialize)]
pub struct LastRun {
    /// Where it stands.
    pub status: String,
    /// The instant it was due.
    pub due: String,
}

/// The logs of a run.
#[derive(Debug, Deserialize)]
pub struct LogPage {
    /// Where the run stands.
    pub status: String,
    /// Whether nothing more is written.
    pub ended: bool,
    /// By step and attempt.
    pub logs: Vec<Log>,
}

/// One log.
#[derive(Clone, Debug, Deserialize)]
pub struct Log {
    /// The step's name.
    pub step: String,
    /// Its place in the job.
    pub step_no: u16,
    /// Which attempt.
    pub attempt: u32,
    /// Which share of a broadcast.
    pub share: Option<u32>,
    /// Its size.
    pub bytes: u64,
}

/// What is wrong with job files.
#[derive(Debug, Deserialize)]
pub struct ProblemPage {
    /// Each with its file.
    pub problems: Vec<Problem>,
}

/// Something wrong with a job file.
#[derive(Debug, Deserialize)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// Whether the file is not in force.
    pub severity: String,
    /// What is wrong.
    pub message: String,
}
