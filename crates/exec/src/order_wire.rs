//! Orders and reports as JSON: what a server says to executors of ours, in a process of their own or on another machine.
//!
//! Attempts have numbers, so that every message is safe to repeat.

use std::sync::Arc;

use cadran_core::{
    Block, Body, Container, ContainerCommand, Dotenv, HttpBody, HttpRequest, JobId, JsonPath, Millis,
    Outcome, Param, Precondition, RunContext, Start, Step, StepNo, Trigger, Work,
};
use serde::{Deserialize, Serialize};

use crate::journal::{self, Key};

/// One attempt of one step. Where a worker has several shares of one attempt, the second is known there by the attempt and
/// 2^20, the third by the attempt and twice that, and so on: for the worker they are attempts like others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Named {
    /// The run.
    pub run: String,
    /// The step's number.
    pub step: u16,
    /// The attempt.
    pub attempt: u32,
}

impl From<Key> for Named {
    fn from(key: Key) -> Named {
        Named { run: key.run.to_string(), step: key.step.0, attempt: key.attempt }
    }
}

impl Named {
    pub(crate) fn key(&self) -> Option<Key> {
        Some(Key { run: self.run.parse().ok()?, step: StepNo(self.step), attempt: self.attempt })
    }
}

/// An order.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WireOrder {
    /// Start an attempt.
    Start(Box<WireStart>),
    /// Stop one.
    Stop(Named),
    /// The run is over; what is kept of it may go.
    Close(String),
}

/// What became of an attempt.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WireReport {
    /// Which.
    pub attempt: Named,
    /// When, by the worker's clock.
    pub at: Millis,
    /// How it ended, as in the journal; `None` when it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Captured output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

impl WireReport {
    /// How it ended; the text must be one that this program writes.
    pub(crate) fn outcome(&self) -> Option<Option<Outcome>> {
        match &self.ended {
            None => Some(None),
            Some(text) => journal::parse_outcome(text).map(Some),
        }
    }
}

pub(crate) fn outcome_text(outcome: &Outcome) -> String {
    let mut text = String::new();
    // A string takes everything.
    let _ = journal::write_outcome(&mut text, outcome);
    text
}

/// One attempt of one step, with all that its processes know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WireStart {
    /// Which.
    pub attempt: Named,
    /// The number by which runs of the same step are told to wait for one another.
    pub number: u32,
    /// What to do while such a run is on.
    pub block: String,
    /// How many may run at once where they run side by side.
    pub concurrency: u32,
    job: u32,
    job_name: String,
    due: Millis,
    trigger: String,
    shard: (u32, u32),
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    params: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    outputs: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    declared: Vec<WireParam>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    env: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dir: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shell: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    create_dir: bool,
    /// The folder and the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dotenv: Option<(String, Vec<String>)>,
    /// Preconditions of the job, judged once for a run by the executor inside the server's machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    job_preconditions: Vec<WirePrecondition>,
    step: WireStep,
}

/// Condition, what is expected of it, and whether it must not hold.
type WirePrecondition = (String, Option<String>, bool);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct WireParam {
    name: Option<String>,
    default: String,
    required: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct WireStep {
    name: String,
    work: WireWork,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shell: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dir: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    env: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<Millis>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    preconditions: Vec<WirePrecondition>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stdout: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signal_on_stop: Option<i32>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WireWork {
    Shell(String),
    Program(Vec<String>),
    Script(String),
    Http(WireHttp),
    Container(WireContainer),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct WireHttp {
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    body: Option<WireHttpBody>,
    expect: Vec<(u16, u16)>,
    json_path: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WireHttpBody {
    Text(String),
    Json(String),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct WireContainer {
    image: String,
    command: WireContainerCommand,
    engine: Option<String>,
    mounts: Vec<String>,
    user: Option<String>,
    dir: Option<String>,
    network: Option<String>,
    memory: Option<String>,
    cpus: Option<String>,
    pull: Option<String>,
    options: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WireContainerCommand {
    Image(Vec<String>),
    Shell(String),
    Program(Vec<String>),
}

impl WireStart {
    /// An order in words. `shard` is the share this worker has. `None` for a step that is no command.
    pub(crate) fn of(start: &Start, number: u32, shard: (u32, u32)) -> Option<WireStart> {
        let RunContext { job, job_name, body, due, trigger, params, .. } = &*start.context;
        let step = body.step(start.step)?;
        let work = WireWork::of(&step.work)?;
        let target = step.target.as_deref();
        let texts = |pairs: &[(Box<str>, Box<str>)]| {
            pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        let key = Key { run: start.run, step: start.step, attempt: start.attempt };
        Some(WireStart {
            attempt: key.into(),
            number,
            block: target.map_or(Block::default(), |target| target.block).word().to_owned(),
            concurrency: target.map_or(1, |target| target.concurrency),
            job: job.0,
            job_name: job_name.to_string(),
            due: *due,
            trigger: trigger.word().to_owned(),
            shard,
            params: texts(params),
            outputs: texts(&start.outputs),
            declared: body.params.iter().map(WireParam::of).collect(),
            env: body.env.clone(),
            dir: body.dir.clone(),
            shell: body.shell.clone(),
            create_dir: body.create_dir,
            dotenv: body.dotenv.as_deref().map(|dotenv| (dotenv.folder.clone(), dotenv.files.clone())),
            job_preconditions: Vec::new(),
            step: WireStep {
                name: step.name.clone(),
                work,
                shell: step.shell.clone(),
                dir: step.dir.clone(),
                env: step.env.clone(),
                timeout_ms: step.timeout_ms,
                preconditions: preconditions_out(&step.preconditions),
                output: step.output.clone(),
                stdout: step.stdout.clone(),
                stderr: step.stderr.clone(),
                signal_on_stop: step.signal_on_stop,
            },
        })
    }

    /// With the preconditions of the job, for an executor that sees every step of the run.
    pub(crate) fn with_job_preconditions(mut self, body: &Body) -> WireStart {
        self.job_preconditions = preconditions_out(&body.preconditions);
        self
    }

    /// The order as this machine's executor takes it. The error is what a newer server would mean by it.
    pub(crate) fn start(self) -> Result<(Start, Block), String> {
        let key = self.attempt.key().ok_or("the order names no run")?;
        let block = Block::from_word(&self.block).ok_or(format!("`{}` is no way to wait", self.block))?;
        let trigger = Trigger::from_word(&self.trigger).ok_or(format!("`{}` is no trigger", self.trigger))?;
        let step = self.step;
        let step = Step {
            name: step.name,
            work: step.work.work()?,
            shell: step.shell,
            dir: step.dir,
            env: step.env,
            timeout_ms: step.timeout_ms,
            preconditions: preconditions_in(step.preconditions),
            output: step.output,
            stdout: step.stdout,
            stderr: step.stderr,
            signal_on_stop: step.signal_on_stop,
            ..Step::default()
        };
        // Steps are known by their number: the others of the job stand before this one, empty.
        let mut steps = vec![Step::default(); usize::from(key.step.0)];
        steps.push(step);
        let body = Body {
            env: self.env,
            params: self.declared.into_iter().map(WireParam::param).collect(),
            steps,
            preconditions: preconditions_in(self.job_preconditions),
            dir: self.dir,
            shell: self.shell,
            create_dir: self.create_dir,
            dotenv: self.dotenv.map(|(folder, files)| Box::new(Dotenv { folder, files })),
            ..Body::default()
        };
        let boxes = |pairs: Vec<(String, String)>| -> Vec<(Box<str>, Box<str>)> {
            pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
        };
        let context = RunContext {
            job: JobId(self.job),
            job_name: self.job_name.parse().map_err(|error| format!("the order's job: {error}"))?,
            body: Arc::new(body),
            due: self.due,
            trigger,
            params: boxes(self.params),
            addresses: Vec::new(),
            shard_index: self.shard.0,
            shard_total: self.shard.1,
        };
        let start = Start {
            run: key.run,
            step: key.step,
            attempt: key.attempt,
            context: Arc::new(context),
            outputs: boxes(self.outputs).into(),
            placement: None,
        };
        Ok((start, block))
    }

    /// For a line about it.
    pub(crate) fn title(&self) -> (String, String) {
        (self.job_name.clone(), self.step.name.clone())
    }
}

impl WireWork {
    /// `None` for what only executors of XXL-JOB know what to do with.
    fn of(work: &Work) -> Option<WireWork> {
        Some(match work.clone() {
            Work::Shell(line) => WireWork::Shell(line),
            Work::Program(words) => WireWork::Program(words),
            Work::Script(text) => WireWork::Script(text),
            Work::Http(request) => {
                let HttpRequest { method, url, headers, body, expect, json_path } = *request;
                let body = body.map(|body| match body {
                    HttpBody::Text(text) => WireHttpBody::Text(text),
                    HttpBody::Json(text) => WireHttpBody::Json(text),
                });
                let json_path = json_path.map(|path| path.as_str().to_owned());
                WireWork::Http(WireHttp { method, url, headers, body, expect, json_path })
            }
            Work::Container(container) => {
                let Container {
                    image,
                    command,
                    engine,
                    mounts,
                    user,
                    dir,
                    network,
                    memory,
                    cpus,
                    pull,
                    options,
                } = *container;
                let command = match command {
                    ContainerCommand::Image(words) => WireContainerCommand::Image(words),
                    ContainerCommand::Shell(line) => WireContainerCommand::Shell(line),
                    ContainerCommand::Program(words) => WireContainerCommand::Program(words),
                };
                WireWork::Container(WireContainer {
                    image,
                    command,
                    engine,
                    mounts,
                    user,
                    dir,
                    network,
                    memory,
                    cpus,
                    pull,
                    options,
                })
            }
            Work::Handler(_) | Work::Glue(..) | Work::Job(_) => return None,
        })
    }

    fn work(self) -> Result<Work, String> {
        Ok(match self {
            WireWork::Shell(line) => Work::Shell(line),
            WireWork::Program(words) => Work::Program(words),
            WireWork::Script(text) => Work::Script(text),
            WireWork::Http(WireHttp { method, url, headers, body, expect, json_path }) => {
                let body = body.map(|body| match body {
                    WireHttpBody::Text(text) => HttpBody::Text(text),
                    WireHttpBody::Json(text) => HttpBody::Json(text),
                });
                let json_path = json_path.map(|path| JsonPath::parse(&path)).transpose();
                let json_path = json_path.map_err(|error| error.to_string())?;
                Work::Http(Box::new(HttpRequest { method, url, headers, body, expect, json_path }))
            }
            WireWork::Container(container) => {
                let WireContainer {
                    image,
                    command,
                    engine,
                    mounts,
                    user,
                    dir,
                    network,
                    memory,
                    cpus,
                    pull,
                    options,
                } = container;
                let command = match command {
                    WireContainerCommand::Image(words) => ContainerCommand::Image(words),
                    WireContainerCommand::Shell(line) => ContainerCommand::Shell(line),
                    WireContainerCommand::Program(words) => ContainerCommand::Program(words),
                };
                Work::Container(Box::new(Container {
                    image,
                    command,
                    engine,
                    mounts,
                    user,
                    dir,
                    network,
                    memory,
                    cpus,
                    pull,
                    options,
                }))
            }
        })
    }
}

impl WireParam {
    fn of(param: &Param) -> WireParam {
        let Param { name, default, required } = param.clone();
        WireParam { name, default, required }
    }

    fn param(self) -> Param {
        Param { name: self.name, default: self.default, required: self.required }
    }
}

fn preconditions_out(preconditions: &[Precondition]) -> Vec<WirePrecondition> {
    let wire = |one: &Precondition| (one.condition.clone(), one.expected.clone(), one.negate);
    preconditions.iter().map(wire).collect()
}

fn preconditions_in(preconditions: Vec<WirePrecondition>) -> Vec<Precondition> {
    let read = |(condition, expected, negate)| Precondition { condition, expected, negate };
    preconditions.into_iter().map(read).collect()
}
