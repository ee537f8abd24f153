//! What a server and its workers say to each other: JSON over HTTP, `POST /worker/v1/{verb}`.
//!
//! Both ends use these shapes. Numbers of attempts and orders make every message safe to repeat.

use std::sync::Arc;

use cadran_core::{
    Block, Body, Dotenv, GroupName, JobId, Millis, Outcome, Param, Precondition, RunContext, Start, Step,
    StepNo, Trigger, Work,
};
use serde::{Deserialize, Serialize};

use crate::journal::{self, Key};

/// The token, as `Bearer TOKEN`.
pub const TOKEN_HEADER: &str = "authorization";
/// The group the worker is of.
pub const GROUP_HEADER: &str = "cadran-group";
/// What every path begins with.
pub const PATH: &str = "/worker/v1/";

/// Largest body of a message. The largest is a hello of a worker that has [`HELD_MAX`] attempts.
pub const BODY_BYTES_MAX: usize = 32 << 20;
/// A call takes no further report when those in it have so many bytes of output. In JSON they may take six times as much.
pub const REPORT_BYTES_MAX: usize = 2 << 20;
/// Largest piece of a log.
pub const PIECE_BYTES_MAX: usize = 1 << 20;
/// Attempts a worker may have when it says hello.
pub const HELD_MAX: usize = 100_000;
/// Orders in one answer.
pub const ORDERS_MAX: usize = 100;
/// Reports in one call.
pub const REPORTS_MAX: usize = 100;
/// Labels of one worker.
pub const LABELS_MAX: usize = 64;
/// Most slots of one worker.
pub const SLOTS_MAX: u32 = 10_000;

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

/// Who speaks: every message but the first has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    /// The worker's id, the same for the life of its data directory.
    pub worker: String,
    /// This process of it.
    pub life: String,
    /// The life of the server that welcomed it.
    pub server: String,
}

/// A worker says that it is there, and what it has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// Its id.
    pub worker: String,
    /// This process of it.
    pub life: String,
    /// How many attempts it runs at once.
    pub slots: u32,
    /// What it says of itself, (name, value).
    #[serde(default)]
    pub labels: Vec<(String, String)>,
    /// It takes no new work.
    #[serde(default)]
    pub draining: bool,
    /// What it has, from now or before.
    pub held: Vec<HeldAttempt>,
}

/// An attempt that a worker has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HeldAttempt {
    /// Which.
    pub attempt: Named,
    /// It is over, and its result can be asked for.
    pub ended: bool,
}

/// The answer to a hello.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Welcome {
    /// This life of the server.
    pub server: String,
    /// How long the worker may work after a request that was answered.
    pub lease_ms: u64,
    /// Attempts that are nobody's: they are ended and forgotten.
    pub forget: Vec<Named>,
    /// Ended attempts whose result is not known here.
    pub want: Vec<Named>,
}

/// A worker asks for orders. The answer waits until there are some, for a part of the lease at most.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Poll {
    /// Who.
    pub from: Sender,
    /// The number of the last order it has.
    pub have: u64,
    /// It takes no new work.
    #[serde(default)]
    pub draining: bool,
}

/// Orders, each with its number.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Orders {
    /// In order.
    pub orders: Vec<(u64, WireOrder)>,
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

/// Results, and that something started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reports {
    /// Who.
    pub from: Sender,
    /// It takes no new work: what it gives back goes to others.
    #[serde(default)]
    pub draining: bool,
    /// What.
    pub reports: Vec<WireReport>,
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

/// Which log a piece is of, and where it begins. The bytes are the body of the call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Piece {
    /// The worker.
    pub worker: String,
    /// This process of it.
    pub life: String,
    /// The life of the server that welcomed it.
    pub server: String,
    /// The run.
    pub run: String,
    /// The step's number.
    pub step: u16,
    /// The attempt.
    pub attempt: u32,
    /// How many bytes stand before it.
    pub at: u64,
}

/// The answer to a piece of a log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PieceTaken {
    /// How much of the log is here: the next piece begins there.
    pub length: u64,
}

/// A worker goes, and has delivered everything.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Leave {
    /// Who.
    pub from: Sender,
}

/// The answer to what needs none.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Done {}

/// Why a call was refused, with an HTTP status that is not 200.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Refusal {
    /// For a person.
    pub error: String,
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
    step: WireStep,
}

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
    preconditions: Vec<(String, Option<String>, bool)>,
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
}

impl WireStart {
    /// An order in words. `shard` is the share this worker has. `None` for a step that is no command.
    pub(crate) fn of(start: &Start, number: u32, shard: (u32, u32)) -> Option<WireStart> {
        let RunContext { job, job_name, body, due, trigger, params, .. } = &*start.context;
        let step = body.step(start.step)?;
        let work = match &step.work {
            Work::Shell(line) => WireWork::Shell(line.clone()),
            Work::Program(words) => WireWork::Program(words.clone()),
            Work::Script(text) => WireWork::Script(text.clone()),
            _ => return None,
        };
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
            step: WireStep {
                name: step.name.clone(),
                work,
                shell: step.shell.clone(),
                dir: step.dir.clone(),
                env: step.env.clone(),
                timeout_ms: step.timeout_ms,
                preconditions: step
                    .preconditions
                    .iter()
                    .map(|one| (one.condition.clone(), one.expected.clone(), one.negate))
                    .collect(),
                output: step.output.clone(),
                stdout: step.stdout.clone(),
                stderr: step.stderr.clone(),
                signal_on_stop: step.signal_on_stop,
            },
        })
    }

    /// The order as this machine's executor takes it. The error is what a newer server would mean by it.
    pub(crate) fn start(self) -> Result<(Start, Block), String> {
        let key = self.attempt.key().ok_or("the order names no run")?;
        let block = Block::from_word(&self.block).ok_or(format!("`{}` is no way to wait", self.block))?;
        let trigger = Trigger::from_word(&self.trigger).ok_or(format!("`{}` is no trigger", self.trigger))?;
        let step = self.step;
        let step = Step {
            name: step.name,
            work: match step.work {
                WireWork::Shell(line) => Work::Shell(line),
                WireWork::Program(words) => Work::Program(words),
                WireWork::Script(text) => Work::Script(text),
            },
            shell: step.shell,
            dir: step.dir,
            env: step.env,
            timeout_ms: step.timeout_ms,
            preconditions: step
                .preconditions
                .into_iter()
                .map(|(condition, expected, negate)| Precondition { condition, expected, negate })
                .collect(),
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

impl WireParam {
    fn of(param: &Param) -> WireParam {
        let Param { name, default, required } = param.clone();
        WireParam { name, default, required }
    }

    fn param(self) -> Param {
        Param { name: self.name, default: self.default, required: self.required }
    }
}

/// The word for a group in a message for people, with the labels that were asked for.
pub(crate) fn described(group: &GroupName, labels: &[(String, String)]) -> String {
    if labels.is_empty() {
        return format!("the group {group}");
    }
    let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("the group {group} with {}", labels.join(", "))
}
