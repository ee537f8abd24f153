use std::collections::BTreeMap;

use cadran_core::{
    Body, FootprintSpec, History, Job, Millis, Param, Policy, ScheduleAction, ScheduleEntry, Step, Work,
};
use cadran_spec::{Decoder, stored_schedules};
use cadran_store::{JobView, LastRun};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{FileProblem, instant};

/// One job in a list.
#[derive(Serialize, ToSchema)]
pub(crate) struct JobItem {
    /// Its name.
    name: String,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
    /// For filters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    /// Its schedules in words; empty for a job that only runs by hand.
    schedules: Vec<ScheduleItem>,
    /// The file it came from, relative to the jobs directory.
    #[serde(skip_serializing_if = "String::is_empty")]
    source: String,
    /// The number by which XXL-JOB's executors know it (`jobId`, `id`), for a job with a step on executors.
    #[serde(skip_serializing_if = "Option::is_none")]
    executor_number: Option<u32>,
    /// Rises with every change of the definition.
    revision: u32,
    /// `active`, `disabled` (its file says `enabled: false`), `paused` or `removed`.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused_at_ms: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    removed_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    removed_at_ms: Option<Millis>,
    /// Latest due that was planned.
    #[serde(skip_serializing_if = "Option::is_none")]
    watermark: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    watermark_ms: Option<Millis>,
    /// The next due.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_due: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_due_ms: Option<Millis>,
    /// It has schedules that start it, and none of them comes due any more, as after a one-off `at`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    schedule_over: bool,
    /// The newest run that began, or the newest of all when none of the latest runs did.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_run: Option<LastRunItem>,
}

/// One job in full.
#[derive(Serialize, ToSchema)]
pub(crate) struct JobDetail {
    #[serde(flatten)]
    job: JobItem,
    /// The next dues, earliest first.
    next_dues: Vec<String>,
    next_dues_ms: Vec<Millis>,
    /// The rules that decide whether and when a due becomes a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<PolicyItem>,
    /// What a trigger may or must give.
    params: Vec<ParamItem>,
    /// In file order; handlers are not among them.
    steps: Vec<JobStepItem>,
    /// What its runs touch.
    #[serde(skip_serializing_if = "Option::is_none")]
    footprint: Option<FootprintItem>,
    /// Time limit of a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<Millis>,
    /// How long ended runs are kept, in words.
    history: String,
    /// What is wrong with its file: an edit with an error leaves the older definition in force.
    problems: Vec<ProblemItem>,
}

/// What runs of a job touch, as written.
#[derive(Serialize, ToSchema)]
pub(crate) struct FootprintItem {
    reads: Vec<String>,
    writes: Vec<String>,
    claims: Vec<String>,
    /// Units of pools.
    capacity: BTreeMap<String, u32>,
    /// Who waits first goes first.
    ordered: bool,
    /// `wait` or `skip`.
    on_conflict: &'static str,
}

/// One schedule.
#[derive(Serialize, ToSchema)]
pub(crate) struct ScheduleItem {
    /// As written.
    text: String,
    /// In words.
    description: String,
    /// The zone it is read in.
    timezone: String,
    /// What its dues do: `start`, `stop` or `restart`.
    action: &'static str,
}

/// The newest run of a job, in short.
#[derive(Serialize, ToSchema)]
pub(crate) struct LastRunItem {
    id: String,
    status: &'static str,
    due: String,
    due_ms: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at_ms: Option<Millis>,
    /// From due to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    late_ms: Option<Millis>,
}

/// Rules of a job.
#[derive(Serialize, ToSchema)]
pub(crate) struct PolicyItem {
    misfire: &'static str,
    catchup_window_ms: Millis,
    overlap: &'static str,
    priority: i32,
    skip_if_successful: bool,
    at_most_once: bool,
}

/// A parameter of a job.
#[derive(Serialize, ToSchema)]
pub(crate) struct ParamItem {
    /// Without one it is positional.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The value when a trigger gives none.
    default: String,
    required: bool,
}

/// A step of a job.
#[derive(Serialize, ToSchema)]
pub(crate) struct JobStepItem {
    name: String,
    /// `shell`, `program` or `script`.
    kind: &'static str,
    /// Steps that must be over first.
    depends: Vec<String>,
    /// How many attempts may follow a failed one.
    retries: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<Millis>,
}

/// Something wrong with a job file.
#[derive(Serialize, ToSchema)]
pub(crate) struct ProblemItem {
    /// Relative to the jobs directory.
    file: String,
    /// From 1; 0 when the problem has no place.
    line: u32,
    /// From 1; 0 when the problem has no place.
    column: u32,
    /// `error` (the file is not in force) or `warning`.
    severity: String,
    /// A short stable word for programs.
    code: String,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<String>,
    /// All of it as text, with the offending line underlined.
    rendered: String,
}

impl JobItem {
    /// The decoder lets the jobs of a list share what they have in common.
    pub(crate) fn new(view: &JobView, decoder: &mut Decoder, next_due: Option<Millis>) -> JobItem {
        JobItem::with(view, definition(view, decoder).as_ref(), next_due)
    }

    /// With when its last run ended, and how late it began.
    pub(crate) fn with_last(mut self, ended_at: Option<Millis>, late_ms: Option<Millis>) -> JobItem {
        if let Some(last) = &mut self.last_run {
            (last.ended_at, last.ended_at_ms, last.late_ms) =
                (ended_at.map(instant::to_text), ended_at, late_ms);
        }
        self
    }

    fn with(view: &JobView, job: Option<&Job>, next_due: Option<Millis>) -> JobItem {
        let JobView { put, removed_at, state, last_run } = view;
        // A removed or paused job keeps its schedule and has no due to come.
        let next_due = next_due.filter(|_| removed_at.is_none());
        let is_active = removed_at.is_none() && state.paused_at.is_none();
        let starts = |job: &Job| job.schedules.iter().any(|entry| entry.action != ScheduleAction::Stop);
        JobItem {
            name: put.name.to_string(),
            description: job.map(|job| job.body.description.clone()).unwrap_or_default(),
            labels: job.into_iter().flat_map(|job| job.body.labels.iter().cloned()).collect(),
            schedules: job.map(|job| schedules(view, job)).unwrap_or_default(),
            source: put.source.to_string(),
            executor_number: job
                .filter(|job| job.body.steps.iter().any(|step| step.target.is_some()))
                .map(|_| put.job.executor_number()),
            revision: put.revision,
            state: match (removed_at, state.paused_at) {
                (Some(_), _) => "removed",
                (None, Some(_)) => "paused",
                (None, None) if job.is_some_and(|job| job.body.disabled) => "disabled",
                (None, None) => "active",
            },
            paused_at: state.paused_at.map(instant::to_text),
            paused_at_ms: state.paused_at,
            removed_at: removed_at.map(instant::to_text),
            removed_at_ms: *removed_at,
            watermark: state.watermark.map(instant::to_text),
            watermark_ms: state.watermark,
            next_due: next_due.map(instant::to_text),
            next_due_ms: next_due,
            schedule_over: is_active && next_due.is_none() && job.is_some_and(starts),
            last_run: last_run.as_ref().map(LastRunItem::new),
        }
    }
}

impl JobDetail {
    /// With when its last run ended, and how late it began.
    pub(crate) fn with_last(mut self, ended_at: Option<Millis>, late_ms: Option<Millis>) -> JobDetail {
        self.job = self.job.with_last(ended_at, late_ms);
        self
    }

    pub(crate) fn new(view: &JobView, dues: &[Millis], problems: Vec<FileProblem>) -> JobDetail {
        let job = definition(view, &mut Decoder::default());
        let body = job.as_ref().map(|job| &*job.body);
        JobDetail {
            job: JobItem::with(view, job.as_ref(), dues.first().copied()),
            next_dues: dues.iter().copied().map(instant::to_text).collect(),
            next_dues_ms: dues.to_vec(),
            policy: job.as_ref().map(|job| PolicyItem::new(&job.policy)),
            params: body.into_iter().flat_map(|body| &body.params).map(ParamItem::new).collect(),
            steps: body
                .into_iter()
                .flat_map(|body| body.steps.iter().map(|step| JobStepItem::new(step, body)))
                .collect(),
            footprint: body
                .map(|body| &body.footprint)
                .filter(|footprint| !footprint.is_empty())
                .map(FootprintItem::new),
            timeout_ms: body.and_then(|body| body.timeout_ms),
            history: match view.put.history {
                History::Days(days) => format!("{days} days"),
                History::Count(count) => format!("the newest {count}"),
            },
            problems: problems.into_iter().map(ProblemItem::from).collect(),
        }
    }
}

/// The definition as it is kept. One that this version cannot read is shown without its inside.
fn definition(view: &JobView, decoder: &mut Decoder) -> Option<Job> {
    match decoder.decode(view.put.name.clone(), &view.put.definition) {
        Ok(job) => Some(job),
        Err(error) => {
            tracing::warn!(%error, "a job is shown without its definition");
            None
        }
    }
}

fn schedules(view: &JobView, job: &Job) -> Vec<ScheduleItem> {
    let texts = stored_schedules(&view.put.name, &view.put.definition).unwrap_or_default();
    let texts = texts.into_iter().map(|text| text.text).chain(std::iter::repeat(String::new()));
    job.schedules.iter().zip(texts).map(|(entry, text)| ScheduleItem::new(entry, text)).collect()
}

impl ScheduleItem {
    fn new(entry: &ScheduleEntry, text: String) -> ScheduleItem {
        ScheduleItem {
            text,
            description: entry.schedule.describe(),
            timezone: entry.schedule.zone().name().to_owned(),
            action: match entry.action {
                ScheduleAction::Start => "start",
                ScheduleAction::Stop => "stop",
                ScheduleAction::Restart => "restart",
            },
        }
    }
}

impl LastRunItem {
    fn new(last: &LastRun) -> LastRunItem {
        LastRunItem {
            id: last.run.to_string(),
            status: last.status.word(),
            due: instant::to_text(last.due),
            due_ms: last.due,
            ended_at: None,
            ended_at_ms: None,
            late_ms: None,
        }
    }
}

impl PolicyItem {
    fn new(policy: &Policy) -> PolicyItem {
        PolicyItem {
            misfire: policy.misfire.word(),
            catchup_window_ms: policy.catchup_window_ms,
            overlap: policy.overlap.word(),
            priority: policy.priority,
            skip_if_successful: policy.skip_if_successful,
            at_most_once: policy.at_most_once,
        }
    }
}

impl FootprintItem {
    fn new(footprint: &FootprintSpec) -> FootprintItem {
        let pools = footprint.pools.iter().map(|share| (share.pool.clone(), share.units));
        FootprintItem {
            reads: footprint.reads.clone(),
            writes: footprint.writes.clone(),
            claims: footprint.claims.clone(),
            capacity: pools.collect(),
            ordered: footprint.ordered,
            on_conflict: footprint.on_conflict.word(),
        }
    }
}

impl ParamItem {
    fn new(param: &Param) -> ParamItem {
        ParamItem { name: param.name.clone(), default: param.default.clone(), required: param.required }
    }
}

impl JobStepItem {
    fn new(step: &Step, body: &Body) -> JobStepItem {
        JobStepItem {
            name: step.name.clone(),
            kind: match step.work {
                Work::Shell(_) => "shell",
                Work::Program(_) => "program",
                Work::Script(_) => "script",
                Work::Handler(_) => "handler",
                Work::Glue(..) => "glue",
                Work::Http(_) => "http",
                Work::Container(_) => "container",
                Work::Job(_) => "job",
            },
            depends: step
                .depends
                .iter()
                .filter_map(|no| body.step(*no))
                .map(|step| step.name.clone())
                .collect(),
            retries: step.retry.limit,
            timeout_ms: step.timeout_ms,
        }
    }
}

impl From<FileProblem> for ProblemItem {
    fn from(problem: FileProblem) -> ProblemItem {
        let FileProblem { file, line, column, severity, code, message, help, rendered } = problem;
        ProblemItem { file, line, column, severity, code, message, help, rendered }
    }
}
