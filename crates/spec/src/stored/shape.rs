//! The shapes of stored text, private to the store's side. What is at its default is not written.
//!
//! Keys are only ever added, each with a default; another meaning for a key needs another version.

use std::borrow::Cow;

use super::work::{CallShape, ContainerShape, ForEachShape, HttpShape};
use cadran_core::{
    Block, Body, ContainerCommand, ContinueOn, Dotenv, Dst, FootprintSpec, GlueKind, Handler, Handlers,
    History, Misfire, OnConflict, Overlap, Param, Policy, PoolShare, Precondition, Retry, Route,
    ScheduleAction, Step, StepNo, Target, Work, Zone,
};
use cadran_cron::Dialect;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::ScheduleText;
use crate::read::MAX_ACTIVE_STEPS_DEFAULT;

pub(super) type Text<'a> = Cow<'a, str>;

/// Everything before the body, as it is written.
#[derive(Serialize)]
pub(super) struct Head<'a> {
    v: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    schedules: Vec<ScheduleShape<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    misfire: Option<&'static str>,
    #[serde(skip_serializing_if = "is_default")]
    catchup_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    overlap: Option<&'static str>,
    #[serde(skip_serializing_if = "is_default")]
    priority: i32,
    #[serde(skip_serializing_if = "is_default")]
    skip_if_successful: bool,
    #[serde(skip_serializing_if = "is_default")]
    at_most_once: bool,
}

impl<'a> Head<'a> {
    pub(super) fn new(v: u32, schedules: Vec<ScheduleShape<'a>>, policy: &Policy) -> Head<'a> {
        let Policy { misfire, catchup_window_ms, overlap, priority, skip_if_successful, at_most_once } =
            *policy;
        Head {
            v,
            schedules,
            misfire: (misfire != Misfire::default()).then(|| misfire.word()),
            catchup_ms: catchup_window_ms,
            overlap: (overlap != Overlap::default()).then(|| overlap.word()),
            priority,
            skip_if_successful,
            at_most_once,
        }
    }
}

/// The whole text, as it is read: schedules and body stay text until it is known that nobody has them yet.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row<'a> {
    pub(super) v: u32,
    #[serde(borrow, default)]
    pub(super) schedules: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) body: &'a RawValue,
    #[serde(borrow, default)]
    misfire: Option<Text<'a>>,
    #[serde(default)]
    catchup_ms: i64,
    #[serde(borrow, default)]
    overlap: Option<Text<'a>>,
    #[serde(default)]
    priority: i32,
    #[serde(default)]
    skip_if_successful: bool,
    #[serde(default)]
    at_most_once: bool,
}

impl Row<'_> {
    pub(super) fn policy(&self) -> Result<Policy, String> {
        Ok(Policy {
            misfire: parse_word("misfire", self.misfire.as_deref(), Misfire::from_word)?,
            catchup_window_ms: self.catchup_ms,
            overlap: parse_word("overlap", self.overlap.as_deref(), Overlap::from_word)?,
            priority: self.priority,
            skip_if_successful: self.skip_if_successful,
            at_most_once: self.at_most_once,
        })
    }
}

/// A plain text for a start schedule of our own notation in UTC; an object for all others.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum ScheduleShape<'a> {
    Plain(#[serde(borrow)] Text<'a>),
    Full(#[serde(borrow)] FullSchedule<'a>),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FullSchedule<'a> {
    #[serde(borrow)]
    text: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    zone: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    action: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    dialect: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    dst: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_before_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_after_ms: Option<i64>,
}

const ACTIONS: [(ScheduleAction, &str); 3] =
    [(ScheduleAction::Start, "start"), (ScheduleAction::Stop, "stop"), (ScheduleAction::Restart, "restart")];

impl<'a> From<&'a ScheduleText> for ScheduleShape<'a> {
    fn from(schedule: &'a ScheduleText) -> ScheduleShape<'a> {
        let text = Text::from(&schedule.text);
        let zone = (schedule.zone != Zone::utc()).then(|| Text::from(schedule.zone.name()));
        let action = ACTIONS.iter().find(|(action, _)| *action == schedule.action).map(|(_, word)| *word);
        let action = action.filter(|word| *word != "start").map(Text::from);
        let dialect = (schedule.dialect != Dialect::default()).then(|| Text::from(schedule.dialect.name()));
        let dst = (schedule.dst != Dst::default()).then(|| Text::from(schedule.dst.name()));
        let (not_before_ms, not_after_ms) = (schedule.not_before, schedule.not_after);
        let is_unbounded = not_before_ms.is_none() && not_after_ms.is_none();
        if zone.is_none() && action.is_none() && dialect.is_none() && dst.is_none() && is_unbounded {
            return ScheduleShape::Plain(text);
        }
        ScheduleShape::Full(FullSchedule { text, zone, action, dialect, dst, not_before_ms, not_after_ms })
    }
}

impl ScheduleShape<'_> {
    pub(super) fn text(self) -> Result<ScheduleText, String> {
        let full = match self {
            ScheduleShape::Plain(text) => return Ok(ScheduleText::new(text)),
            ScheduleShape::Full(full) => full,
        };
        let action = |word: &str| ACTIONS.iter().find(|(_, known)| *known == word).map(|(action, _)| *action);
        Ok(ScheduleText {
            action: parse_word("action", full.action.as_deref(), action)?,
            zone: match full.zone {
                Some(name) => Zone::get(&name).map_err(|error| error.to_string())?,
                None => Zone::utc(),
            },
            dialect: parse_word("dialect", full.dialect.as_deref(), Dialect::from_name)?,
            dst: parse_word("dst", full.dst.as_deref(), Dst::from_name)?,
            text: full.text.into_owned(),
            not_before: full.not_before_ms,
            not_after: full.not_after_ms,
        })
    }
}

pub(super) type Pairs<'a> = Vec<(Text<'a>, Text<'a>)>;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BodyShape<'a> {
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    description: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    labels: Pairs<'a>,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    env: Pairs<'a>,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    params: Vec<ParamShape<'a>>,
    #[serde(borrow)]
    steps: Vec<StepShape<'a>>,
    /// By the order of `Handler::ALL`.
    #[serde(borrow, default, skip_serializing_if = "is_empty_handlers")]
    handlers: [Option<StepShape<'a>>; 4],
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    children: Vec<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    preconditions: Vec<PreconditionShape<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_active_steps: Option<u16>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    dir: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    shell: Option<Vec<Text<'a>>>,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    reads: Vec<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    writes: Vec<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    claims: Vec<Text<'a>>,
    /// Name, units, capacity.
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    pools: Vec<(Text<'a>, u32, u32)>,
    #[serde(default, skip_serializing_if = "is_default")]
    ordered: bool,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    on_conflict: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    history_days: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    history_count: Option<u32>,
    #[serde(default, skip_serializing_if = "is_default")]
    disabled: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    create_dir: bool,
    /// The folder and the files.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    dotenv: Option<(Text<'a>, Vec<Text<'a>>)>,
    #[serde(default, skip_serializing_if = "is_default")]
    partial_success: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepShape<'a> {
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    name: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    run: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    program: Option<Vec<Text<'a>>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    script: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    shell: Option<Vec<Text<'a>>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    dir: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    env: Pairs<'a>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    depends: Vec<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry: Option<RetryShape>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    continue_on: Option<ContinueShape>,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    preconditions: Vec<PreconditionShape<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    output: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    stdout: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    stderr: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signal_on_stop: Option<i32>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    handler: Option<Text<'a>>,
    /// The language of `script`, when that travels to an executor.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    glue: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    executor: Option<TargetShape<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    http: Option<HttpShape<'a>>,
    /// The container of `run` or `program`; with neither its image's own program.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    container: Option<ContainerShape<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    job: Option<CallShape<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    for_each: Option<ForEachShape<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetShape<'a> {
    #[serde(borrow)]
    group: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    route: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    block: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    concurrency: Option<u32>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    params: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    labels: Pairs<'a>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ParamShape<'a> {
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    name: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    default: Text<'a>,
    #[serde(default, skip_serializing_if = "is_default")]
    required: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PreconditionShape<'a> {
    #[serde(borrow)]
    condition: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    expected: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "is_default")]
    negate: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RetryShape {
    #[serde(default, skip_serializing_if = "is_default")]
    limit: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    interval_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    backoff: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    interval_ms_max: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    exit_codes: Vec<i32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ContinueShape {
    #[serde(default, skip_serializing_if = "is_default")]
    failure: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    skipped: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    exit_codes: Vec<i32>,
    #[serde(default, skip_serializing_if = "is_default")]
    mark_success: bool,
}

impl<'a> From<&'a Body> for BodyShape<'a> {
    fn from(body: &'a Body) -> BodyShape<'a> {
        // Taken apart by name, so that a new field of the body cannot be forgotten here.
        let Body {
            description,
            labels,
            env,
            params,
            steps,
            handlers,
            children,
            preconditions,
            timeout_ms,
            max_active_steps,
            dir,
            shell,
            footprint: FootprintSpec { reads, writes, claims, pools, ordered, on_conflict },
            history,
            disabled,
            create_dir,
            dotenv,
            partial_success,
        } = body;
        let (history_days, history_count) = match history {
            history if *history == History::default() => (None, None),
            History::Days(days) => (Some(*days), None),
            History::Count(count) => (None, Some(*count)),
        };
        BodyShape {
            description: description.into(),
            labels: pairs(labels),
            env: pairs(env),
            params: params.iter().map(ParamShape::from).collect(),
            steps: steps.iter().map(StepShape::from).collect(),
            handlers: Handler::ALL.map(|handler| handlers.get(handler).map(StepShape::from)),
            children: children.iter().map(|child| child.as_str().into()).collect(),
            preconditions: preconditions.iter().map(PreconditionShape::from).collect(),
            timeout_ms: *timeout_ms,
            max_active_steps: (*max_active_steps != MAX_ACTIVE_STEPS_DEFAULT).then_some(*max_active_steps),
            dir: dir.as_deref().map(Text::from),
            shell: shell.as_deref().map(texts),
            reads: texts(reads),
            writes: texts(writes),
            claims: texts(claims),
            pools: pools.iter().map(|share| (Text::from(&share.pool), share.units, share.capacity)).collect(),
            ordered: *ordered,
            on_conflict: (*on_conflict != OnConflict::default()).then(|| on_conflict.word().into()),
            history_days,
            history_count,
            disabled: *disabled,
            create_dir: *create_dir,
            dotenv: dotenv.as_deref().map(|dotenv| (Text::from(&dotenv.folder), texts(&dotenv.files))),
            partial_success: *partial_success,
        }
    }
}

impl BodyShape<'_> {
    pub(super) fn body(self) -> Result<Body, String> {
        let mut handlers = Handlers::default();
        for (slot, shape) in handlers.steps.iter_mut().zip(self.handlers) {
            *slot = shape.map(StepShape::step).transpose()?.map(Box::new);
        }
        if self.steps.is_empty() || self.steps.len() > Body::STEPS_MAX {
            return Err(format!("{} steps", self.steps.len()));
        }
        let steps: Vec<Step> = self.steps.into_iter().map(StepShape::step).collect::<Result<_, _>>()?;
        if let Some(bad) =
            steps.iter().flat_map(|step| &step.depends).find(|no| usize::from(no.0) >= steps.len())
        {
            return Err(format!("a step depends on step {}, which does not exist", bad.0));
        }
        Ok(Body {
            description: self.description.into_owned(),
            labels: owned_pairs(self.labels),
            env: owned_pairs(self.env),
            params: self.params.into_iter().map(ParamShape::param).collect(),
            steps,
            handlers,
            children: self
                .children
                .iter()
                .map(|child| child.parse().map_err(|error| format!("child `{child}`: {error}")))
                .collect::<Result<_, _>>()?,
            preconditions: self.preconditions.into_iter().map(PreconditionShape::precondition).collect(),
            timeout_ms: self.timeout_ms,
            max_active_steps: self.max_active_steps.unwrap_or(MAX_ACTIVE_STEPS_DEFAULT),
            dir: self.dir.map(Text::into_owned),
            shell: self.shell.map(owned),
            footprint: FootprintSpec {
                reads: owned(self.reads),
                writes: owned(self.writes),
                claims: owned(self.claims),
                pools: self
                    .pools
                    .into_iter()
                    .map(|(pool, units, capacity)| PoolShare { pool: pool.into_owned(), units, capacity })
                    .collect(),
                ordered: self.ordered,
                on_conflict: parse_word("on_conflict", self.on_conflict.as_deref(), OnConflict::from_word)?,
            },
            disabled: self.disabled,
            create_dir: self.create_dir,
            dotenv: self
                .dotenv
                .map(|(folder, files)| Box::new(Dotenv { folder: folder.into_owned(), files: owned(files) })),
            partial_success: self.partial_success,
            history: match (self.history_days, self.history_count) {
                (Some(days), _) => History::Days(days),
                (None, Some(count)) => History::Count(count),
                (None, None) => History::default(),
            },
        })
    }
}

impl<'a> From<&'a Step> for StepShape<'a> {
    fn from(step: &'a Step) -> StepShape<'a> {
        let Step {
            name,
            work,
            shell,
            dir,
            env,
            depends,
            retry,
            timeout_ms,
            continue_on,
            preconditions,
            output,
            stdout,
            stderr,
            signal_on_stop,
            target,
            for_each,
        } = step;
        let (mut run, mut program, mut script, mut handler, mut glue) = (None, None, None, None, None);
        let (mut http, mut container, mut job) = (None, None, None);
        match work {
            Work::Job(call) => job = Some(CallShape::from(&**call)),
            Work::Http(request) => http = Some(HttpShape::from(&**request)),
            Work::Container(found) => {
                container = Some(ContainerShape::from(&**found));
                match &found.command {
                    ContainerCommand::Image(_) => {}
                    ContainerCommand::Shell(line) => run = Some(line.into()),
                    ContainerCommand::Program(words) => program = Some(texts(words)),
                }
            }
            Work::Shell(line) => run = Some(line.into()),
            Work::Program(words) => program = Some(texts(words)),
            Work::Script(text) => script = Some(text.into()),
            Work::Handler(name) => handler = Some(name.into()),
            Work::Glue(kind, text) => (glue, script) = (Some(kind.word().into()), Some(text.into())),
        }
        StepShape {
            name: name.into(),
            run,
            program,
            script,
            shell: shell.as_deref().map(texts),
            dir: dir.as_deref().map(Text::from),
            env: pairs(env),
            depends: depends.iter().map(|no| no.0).collect(),
            retry: (*retry != Retry::default()).then(|| RetryShape::from(retry)),
            timeout_ms: *timeout_ms,
            continue_on: (*continue_on != ContinueOn::default()).then(|| ContinueShape::from(continue_on)),
            preconditions: preconditions.iter().map(PreconditionShape::from).collect(),
            output: output.as_deref().map(Text::from),
            stdout: stdout.as_deref().map(Text::from),
            stderr: stderr.as_deref().map(Text::from),
            signal_on_stop: *signal_on_stop,
            handler,
            glue,
            executor: target.as_deref().map(TargetShape::from),
            http,
            container,
            job,
            for_each: for_each.as_deref().map(ForEachShape::from),
        }
    }
}

impl StepShape<'_> {
    fn step(self) -> Result<Step, String> {
        let work = match (self.run, self.program, self.script, self.handler, self.glue) {
            (None, None, None, None, None) if self.job.is_some() => {
                Work::Job(Box::new(self.job.unwrap_or_default().call()?))
            }
            (None, None, None, None, None) if self.http.is_some() => {
                Work::Http(Box::new(self.http.unwrap_or_default().request()?))
            }
            (run, program, None, None, None) if self.container.is_some() => {
                let command = match (run, program) {
                    (Some(line), _) => Some(ContainerCommand::Shell(line.into_owned())),
                    (None, words) => words.map(|words| ContainerCommand::Program(owned(words))),
                };
                Work::Container(Box::new(self.container.unwrap_or_default().container(command)))
            }
            (Some(line), None, None, None, None) => Work::Shell(line.into_owned()),
            (None, Some(words), None, None, None) => Work::Program(owned(words)),
            (None, None, Some(text), None, None) => Work::Script(text.into_owned()),
            (None, None, None, Some(name), None) => Work::Handler(name.into_owned()),
            (None, None, Some(text), None, Some(kind)) => {
                let kind = GlueKind::from_word(&kind).ok_or_else(|| format!("glue cannot be `{kind}`"))?;
                Work::Glue(kind, text.into_owned())
            }
            _ => {
                return Err(format!(
                    "step {} has not exactly one of run, program, script and handler",
                    self.name
                ));
            }
        };
        Ok(Step {
            name: self.name.into_owned(),
            work,
            shell: self.shell.map(owned),
            dir: self.dir.map(Text::into_owned),
            env: owned_pairs(self.env),
            depends: self.depends.into_iter().map(StepNo).collect(),
            retry: self.retry.map(RetryShape::retry).unwrap_or_default(),
            timeout_ms: self.timeout_ms,
            continue_on: self.continue_on.map(ContinueShape::continue_on).unwrap_or_default(),
            preconditions: self.preconditions.into_iter().map(PreconditionShape::precondition).collect(),
            output: self.output.map(Text::into_owned),
            stdout: self.stdout.map(Text::into_owned),
            stderr: self.stderr.map(Text::into_owned),
            signal_on_stop: self.signal_on_stop,
            target: self.executor.map(TargetShape::target).transpose()?.map(Box::new),
            for_each: self.for_each.map(|each| Box::new(each.each())),
        })
    }
}

impl<'a> From<&'a Target> for TargetShape<'a> {
    fn from(Target { group, route, block, concurrency, params, labels }: &'a Target) -> TargetShape<'a> {
        TargetShape {
            group: group.as_str().into(),
            route: (*route != Route::default()).then(|| route.word().into()),
            block: (*block != Block::default()).then(|| block.word().into()),
            concurrency: (*concurrency != 1).then_some(*concurrency),
            params: params.as_deref().map(Text::from),
            labels: pairs(labels),
        }
    }
}

impl TargetShape<'_> {
    fn target(self) -> Result<Target, String> {
        Ok(Target {
            group: self.group.parse().map_err(|error| format!("executor `{}`: {error}", self.group))?,
            route: parse_word("route", self.route.as_deref(), Route::from_word)?,
            block: parse_word("block", self.block.as_deref(), Block::from_word)?,
            concurrency: self.concurrency.unwrap_or(1),
            params: self.params.map(Text::into_owned),
            labels: owned_pairs(self.labels),
        })
    }
}

impl<'a> From<&'a Param> for ParamShape<'a> {
    fn from(Param { name, default, required }: &'a Param) -> ParamShape<'a> {
        ParamShape { name: name.as_deref().map(Text::from), default: default.into(), required: *required }
    }
}

impl ParamShape<'_> {
    fn param(self) -> Param {
        Param {
            name: self.name.map(Text::into_owned),
            default: self.default.into_owned(),
            required: self.required,
        }
    }
}

impl<'a> From<&'a Precondition> for PreconditionShape<'a> {
    fn from(Precondition { condition, expected, negate }: &'a Precondition) -> PreconditionShape<'a> {
        PreconditionShape {
            condition: condition.into(),
            expected: expected.as_deref().map(Text::from),
            negate: *negate,
        }
    }
}

impl PreconditionShape<'_> {
    fn precondition(self) -> Precondition {
        Precondition {
            condition: self.condition.into_owned(),
            expected: self.expected.map(Text::into_owned),
            negate: self.negate,
        }
    }
}

impl From<&Retry> for RetryShape {
    fn from(retry: &Retry) -> RetryShape {
        let Retry { limit, interval_ms, backoff, interval_ms_max, exit_codes } = retry;
        let default = Retry::default();
        RetryShape {
            limit: *limit,
            interval_ms: *interval_ms,
            backoff: (*backoff != default.backoff).then_some(*backoff),
            interval_ms_max: (*interval_ms_max != default.interval_ms_max).then_some(*interval_ms_max),
            exit_codes: exit_codes.clone(),
        }
    }
}

impl RetryShape {
    fn retry(self) -> Retry {
        let default = Retry::default();
        Retry {
            limit: self.limit,
            interval_ms: self.interval_ms,
            backoff: self.backoff.unwrap_or(default.backoff),
            interval_ms_max: self.interval_ms_max.unwrap_or(default.interval_ms_max),
            exit_codes: self.exit_codes,
        }
    }
}

impl From<&ContinueOn> for ContinueShape {
    fn from(ContinueOn { failure, skipped, exit_codes, mark_success }: &ContinueOn) -> ContinueShape {
        ContinueShape {
            failure: *failure,
            skipped: *skipped,
            exit_codes: exit_codes.clone(),
            mark_success: *mark_success,
        }
    }
}

impl ContinueShape {
    fn continue_on(self) -> ContinueOn {
        ContinueOn {
            failure: self.failure,
            skipped: self.skipped,
            exit_codes: self.exit_codes,
            mark_success: self.mark_success,
        }
    }
}

fn parse_word<T: Default>(
    what: &str,
    word: Option<&str>,
    from: impl Fn(&str) -> Option<T>,
) -> Result<T, String> {
    match word {
        None => Ok(T::default()),
        Some(word) => from(word).ok_or_else(|| format!("{what} cannot be `{word}`")),
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn is_empty_handlers(handlers: &[Option<StepShape<'_>>; 4]) -> bool {
    handlers.iter().all(Option::is_none)
}

pub(super) fn texts(list: &[String]) -> Vec<Text<'_>> {
    list.iter().map(Text::from).collect()
}

pub(super) fn owned(list: Vec<Text<'_>>) -> Vec<String> {
    list.into_iter().map(Text::into_owned).collect()
}

pub(super) fn pairs(list: &[(String, String)]) -> Pairs<'_> {
    list.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

pub(super) fn owned_pairs(list: Pairs<'_>) -> Vec<(String, String)> {
    list.into_iter().map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}
