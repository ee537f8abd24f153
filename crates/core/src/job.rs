use std::sync::Arc;

use crate::{
    Container, FootprintSpec, ForEach, GlueKind, GroupName, HttpRequest, JobCall, JobName, Millis, Policy,
    Schedule, Target,
};

/// A definition of work: when, under which rules, and what.
///
/// Schedules and body are shared: a million jobs with the same body hold it once.
#[derive(Clone, Debug)]
pub struct Job {
    /// Unique among the jobs of a server.
    pub name: JobName,
    /// When; empty for a job that only runs by hand.
    pub schedules: Arc<[ScheduleEntry]>,
    /// Whether and how a due becomes a run.
    pub policy: Policy,
    /// What a run does.
    pub body: Arc<Body>,
}

/// One schedule and what its dues do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScheduleEntry {
    /// Which instants.
    pub schedule: Arc<Schedule>,
    /// What happens then.
    pub action: ScheduleAction,
}

/// What a due of a schedule does. Only starts are caught up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ScheduleAction {
    /// Start a run.
    #[default]
    Start,
    /// Stop the active runs of the job.
    Stop,
    /// Stop the active runs of the job, then start one.
    Restart,
}

/// What a run of a job does, and what is known about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body {
    /// For people.
    pub description: String,
    /// For filters, in file order.
    pub labels: Vec<(String, String)>,
    /// Environment of every step, in file order; values may use `${NAME}` of those before.
    pub env: Vec<(String, String)>,
    /// Parameters with their defaults, in file order.
    pub params: Vec<Param>,
    /// The steps; at least one, at most [`Body::STEPS_MAX`].
    pub steps: Vec<Step>,
    /// Steps that run when the run comes to its end.
    pub handlers: Handlers,
    /// Jobs that are run when a run of this one has succeeded.
    pub children: Vec<JobName>,
    /// Commands or values that must hold before any step starts; else the run is skipped.
    pub preconditions: Vec<Precondition>,
    /// Time limit of the whole run, from its start to the end of its steps.
    pub timeout_ms: Option<Millis>,
    /// How many steps may run at once.
    pub max_active_steps: u16,
    /// Working directory of steps that name none.
    pub dir: Option<String>,
    /// Make a working directory that does not exist, instead of failing for it.
    pub create_dir: bool,
    /// Files with further environment of every step.
    pub dotenv: Option<Box<Dotenv>>,
    /// A run with a forgiven failure ends as [`RunStatus::PartiallySucceeded`](crate::RunStatus).
    pub partial_success: bool,
    /// Shell of steps that name none, as a command line; `None` means `/bin/sh`.
    pub shell: Option<Vec<String>>,
    /// What a run reads, writes and claims.
    pub footprint: FootprintSpec,
    /// How long ended runs are kept.
    pub history: History,
    /// `enabled: false`: its schedules rest, and it has none here; it runs by hand and as a child.
    pub disabled: bool,
}

impl Body {
    /// More steps than a person writes, few enough for 16-bit numbers with handlers behind them.
    pub const STEPS_MAX: usize = 10_000;

    /// The step or handler with this number.
    pub fn step(&self, no: StepNo) -> Option<&Step> {
        let at = no.0 as usize;
        match at.checked_sub(self.steps.len()) {
            None => self.steps.get(at),
            Some(handler) => Handler::ALL.get(handler).and_then(|h| self.handlers.get(*h)),
        }
    }

    /// Whether all steps run on a group of executors.
    pub fn is_of(&self, group: &GroupName) -> bool {
        let on_group = |step: &Step| step.target.as_deref().is_some_and(|target| target.group == *group);
        !self.steps.is_empty() && self.steps.iter().all(on_group)
    }

    /// The jobs that its steps and handlers call.
    pub fn calls(&self) -> impl Iterator<Item = &JobName> {
        let steps = self.steps.iter().chain(self.handlers.steps.iter().flatten().map(|step| &**step));
        steps.filter_map(|step| match &step.work {
            Work::Job(call) => Some(&call.job),
            _ => None,
        })
    }

    /// The number of a handler: handlers stand behind the steps.
    pub fn handler_no(&self, handler: Handler) -> StepNo {
        StepNo((self.steps.len() + handler as usize) as u16)
    }
}

/// The place of a step in its job. Handlers follow the steps, in the order of [`Handler::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepNo(pub u16);

/// One command of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// Unique in the job.
    pub name: String,
    /// What it runs.
    pub work: Work,
    /// The executors it runs on; `None` for the one inside the server.
    pub target: Option<Box<Target>>,
    /// Shell for [`Work::Shell`] and [`Work::Script`], as a command line.
    pub shell: Option<Vec<String>>,
    /// Working directory.
    pub dir: Option<String>,
    /// Environment on top of the job's.
    pub env: Vec<(String, String)>,
    /// Steps that must be over first.
    pub depends: Vec<StepNo>,
    /// Further attempts after a failure.
    pub retry: Retry,
    /// Time limit of one attempt.
    pub timeout_ms: Option<Millis>,
    /// What lets the steps behind this one start although it did not succeed.
    pub continue_on: ContinueOn,
    /// What must hold before the step starts; else it is skipped.
    pub preconditions: Vec<Precondition>,
    /// Name under which later steps see this one's trimmed standard output.
    pub output: Option<String>,
    /// File that receives standard output besides the log.
    pub stdout: Option<String>,
    /// File that receives standard error besides the log.
    pub stderr: Option<String>,
    /// Signal number sent on stop; `None` means SIGTERM.
    pub signal_on_stop: Option<i32>,
    /// The items it is done for, when there are several.
    pub for_each: Option<Box<ForEach>>,
}

/// What a step runs. Parameters are never spliced into any of these texts by Cadran: they arrive as environment
/// variables and arguments.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// A command line for the shell.
    Shell(String),
    /// A program and its arguments, no shell. `${NAME}` in an argument becomes the variable's value, whole.
    Program(Vec<String>),
    /// A script, written to a file and given to the shell (or to its own `#!` line).
    Script(String),
    /// A function that an executor knows by this name.
    Handler(String),
    /// A script that travels to an executor and is run there by its own interpreter.
    Glue(GlueKind, String),
    /// One HTTP request.
    Http(Box<HttpRequest>),
    /// A container.
    Container(Box<Container>),
    /// Runs of another job.
    Job(Box<JobCall>),
}

impl Work {
    /// Whether only executors of XXL-JOB know what to do with it.
    pub fn is_foreign(&self) -> bool {
        matches!(self, Work::Handler(_) | Work::Glue(..))
    }
}

impl Default for Work {
    fn default() -> Work {
        Work::Program(Vec::new())
    }
}

/// Further attempts after a failed one.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// How many attempts may follow the first.
    pub limit: u32,
    /// Wait before the second attempt.
    pub interval_ms: Millis,
    /// Factor on the wait after each attempt; 1 keeps it.
    pub backoff: f64,
    /// Longest wait.
    pub interval_ms_max: Millis,
    /// Exit codes worth another attempt; empty means any failure.
    pub exit_codes: Vec<i32>,
}

impl Default for Retry {
    fn default() -> Retry {
        Retry { limit: 0, interval_ms: 0, backoff: 1.0, interval_ms_max: 3_600_000, exit_codes: Vec::new() }
    }
}

/// What lets later steps start although this one did not succeed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContinueOn {
    /// Any failure.
    pub failure: bool,
    /// The step was skipped.
    pub skipped: bool,
    /// A failure with one of these exit codes.
    pub exit_codes: Vec<i32>,
    /// Count the forgiven failure as a success of the run.
    pub mark_success: bool,
}

/// Something that must hold before a step or a run starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Precondition {
    /// Without `expected`: a shell command that must exit with 0. With it: a text with `${NAME}`, or a command in
    /// backticks or `$( )` whose trimmed output is compared.
    pub condition: String,
    /// The text to find, or `re:` and a regular expression.
    pub expected: Option<String>,
    /// Must *not* hold.
    pub negate: bool,
}

/// A parameter of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Name under which steps see it in their environment; `None` for a positional one (`$1`, `$2`…).
    pub name: Option<String>,
    /// Value when the trigger gives none.
    pub default: String,
    /// Whether the trigger must give it.
    pub required: bool,
}

/// When a handler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Handler {
    /// The run succeeded.
    Success,
    /// The run failed.
    Failure,
    /// The run was stopped.
    Stop,
    /// Always, last.
    Exit,
}

impl Handler {
    /// In numbering order.
    pub const ALL: [Handler; 4] = [Handler::Success, Handler::Failure, Handler::Stop, Handler::Exit];

    /// The name its step has in records and logs.
    pub const fn step_name(self) -> &'static str {
        match self {
            Handler::Success => "on_success",
            Handler::Failure => "on_failure",
            Handler::Stop => "on_stop",
            Handler::Exit => "on_exit",
        }
    }
}

/// The handlers of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Handlers {
    /// By [`Handler`], in the order of [`Handler::ALL`].
    pub steps: [Option<Box<Step>>; 4],
}

impl Handlers {
    /// The step for a handler.
    pub fn get(&self, handler: Handler) -> Option<&Step> {
        self.steps[handler as usize].as_deref()
    }
}

/// Files of `NAME=value` lines, read by the executor when a step starts: what stands in them is never recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dotenv {
    /// The folder that none of them may leave; empty for the executor's own.
    pub folder: String,
    /// Their paths below it. One that does not exist is passed over.
    pub files: Vec<String>,
}

/// How long ended runs are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// Days since the end.
    Days(u32),
    /// The newest so many.
    Count(u32),
}

impl Default for History {
    fn default() -> History {
        History::Days(30)
    }
}
