//! The top of a job file.

use std::path::{Component, Path};

use cadran_core::{
    Body, Dotenv, Handler, Handlers, History, JobName, Millis, Misfire, Overlap, Policy, Retry, Schedule,
    Step, Work, Zone,
};
use cadran_cron::Dialect;

use super::fields::{Field, Fields, Shape, key, keys};
use super::findings::Findings;
use super::flow::{self, Order};
use super::footprint;
use super::lists::{env, labels, params};
use super::scalar::{cron_error, duration, flag, scalar, text, whole, word, zone};
use super::schedule::{DIALECTS, DSTS, Manner, Schedules, TIMEZONE};
use super::step::{self, DIR, Draft, PRECONDITIONS, RETRY, RUN, RetryWord, TIMEOUT};
use super::target::{BLOCK, CONCURRENCY, EXECUTOR, GLUE, HANDLER, ROUTE, TargetDraft};
use super::{MAX_ACTIVE_STEPS_DEFAULT, ReadOptions};
use crate::diagnostic::Code;
use crate::tree::{Kind, Node, Span};

/// Longest description.
const DESCRIPTION_BYTES_MAX: usize = 16 << 10;
/// The name of the only step of a job that is written without `steps`.
const ONLY_STEP: &str = "main";
/// Steps of one run at once, at most.
const ACTIVE_STEPS_MAX: i64 = 1000;

const SERVER_SIDE: &str = "this is set for the whole server, not in a job file";

pub(crate) const JOB: Shape = Shape {
    what: "a job",
    keys: &[
        key("name"),
        key("description"),
        key("labels"),
        key("tags"),
        key("schedule"),
        TIMEZONE,
        key("dialect"),
        key("dst"),
        key("enabled"),
        key("not_before"),
        key("not_after"),
        keys("misfire", &["misfire_policy", "misfire_strategy"]),
        key("catchup_window"),
        keys("overlap", &["overlap_policy"]),
        key("skip_if_successful"),
        key("priority"),
        key("footprint"),
        TIMEOUT,
        RETRY,
        key("env"),
        key("params"),
        key("shell"),
        DIR,
        key("create_dir"),
        key("dotenv"),
        PRECONDITIONS,
        key("type"),
        key("steps"),
        RUN,
        key("script"),
        key("http"),
        key("container"),
        keys("handlers", &["handler_on"]),
        EXECUTOR,
        HANDLER,
        GLUE,
        ROUTE,
        BLOCK,
        CONCURRENCY,
        keys("children", &["child_jobs"]),
        key("max_active_steps"),
        key("partial_success"),
        key("history"),
        key("hist_retention_days"),
        key("hist_retention_runs"),
    ],
    unsupported: &[
        ("repeat_policy", "use a schedule with `every`"),
        ("mail_on", "send it from a handler: `handlers: {failure: …}`"),
        ("error_mail", "send it from a handler: `handlers: {failure: …}`"),
        ("info_mail", "send it from a handler: `handlers: {success: …}`"),
        ("wait_mail", "send it from a step"),
        ("smtp", "send mail with a program of your own from a handler"),
        (
            "max_active_runs",
            "use `overlap`: `skip`, `wait` and `latest` run one at a time, `allow` any number",
        ),
        ("queue", "use `overlap` for one job, and `footprint` for jobs that must not run together"),
        ("max_clean_up_time_sec", SERVER_SIDE),
        ("max_output_size", SERVER_SIDE),
        ("log_dir", SERVER_SIDE),
        ("log_output", "both streams are in the step's log, each line with its origin"),
        ("otel", SERVER_SIDE),
        ("base_config", SERVER_SIDE),
        ("run_config", SERVER_SIDE),
        ("webhook", SERVER_SIDE),
        ("delay_sec", "begin the first step with `sleep`"),
        ("restart_wait_sec", "a restart begins when the stopped run has ended"),
        ("consts", "use `env`"),
        ("secrets", "read the secret inside of a step, from a file or a program"),
        ("defaults", "`retry`, `env`, `dir` and `shell` of the job are the defaults of its steps"),
        ("group", "use `labels`"),
        ("worker_selector", "jobs run on this server's own executor"),
        ("ssh", "run `ssh` itself as a step"),
        ("resources", "limit it in the command itself, or in the service manager"),
        ("artifacts", "write files from a step to a directory of your choice"),
        ("actions", "write what it does as `run` or `script`"),
        ("step_types", "write what it does as `run` or `script`"),
        ("registry_auths", "log in with the container program's own command"),
        ("llm", "Cadran runs commands"),
        ("redis", "run the client program as a step"),
        ("s3", "run the client program as a step"),
    ],
};

/// A job as it was read, before it is shared.
pub(crate) struct JobDraft {
    pub(crate) name: Option<JobName>,
    pub(crate) schedules: Schedules,
    pub(crate) policy: Policy,
    pub(crate) body: Body,
}

pub(crate) fn read(
    root: &Node,
    file_stem: &str,
    folder: Option<&Path>,
    options: &ReadOptions,
    findings: &mut Findings,
) -> Option<JobDraft> {
    let fields = Fields::read(root, &JOB, findings)?;
    let name = name(&fields, file_stem, findings);
    let manner = manner(&fields, options, findings);
    let mut schedules = match fields.get("schedule") {
        Some(field) => Schedules::read(field, &manner, findings),
        None => Schedules::default(),
    };
    let mut body = Body { max_active_steps: MAX_ACTIVE_STEPS_DEFAULT, ..Body::default() };
    if let Some(field) = fields.get("enabled")
        && flag(field.spelled, field.value, findings) == Some(false)
    {
        // They were read all the same: a mistake in them is not put off until they are wanted.
        schedules = Schedules::default();
        body.disabled = true;
    }
    if let Some(field) = fields.get("description")
        && let Some(text) = text("description", field.value, findings)
    {
        if text.len() > DESCRIPTION_BYTES_MAX {
            findings.error(
                field.value.span,
                Code::Limit,
                format!("`description` has more than {DESCRIPTION_BYTES_MAX} bytes"),
            );
        }
        body.description = text.trim_end().to_owned();
    }
    for name in ["labels", "tags"] {
        if let Some(field) = fields.get(name) {
            for label in labels(field, findings) {
                if !body.labels.contains(&label) {
                    body.labels.push(label);
                }
            }
        }
    }
    if let Some(field) = fields.get("env") {
        body.env = env(field, findings);
    }
    if let Some(field) = fields.get("params") {
        body.params = params(field, findings);
    }
    if let Some(field) = fields.get("preconditions") {
        body.preconditions = step::preconditions(field, findings);
    }
    if let Some(field) = fields.get("timeout") {
        body.timeout_ms = step::timeout(field, findings);
    }
    if let Some(field) = fields.get("max_active_steps") {
        body.max_active_steps = match whole(field.spelled, 0, ACTIVE_STEPS_MAX, field.value, findings) {
            // Zero is Dagu's "no limit".
            Some(0) => ACTIVE_STEPS_MAX as u16,
            Some(count) => count as u16,
            None => MAX_ACTIVE_STEPS_DEFAULT,
        };
    }
    body.dir = step::path(&fields, "dir", findings);
    for (name, switch) in
        [("create_dir", &mut body.create_dir), ("partial_success", &mut body.partial_success)]
    {
        if let Some(field) = fields.get(name) {
            *switch = flag(field.spelled, field.value, findings).unwrap_or(false);
        }
    }
    if let Some(field) = fields.get("dotenv") {
        body.dotenv = dotenv(field, folder, findings);
    }
    if let Some(field) = fields.get("footprint") {
        body.footprint = footprint::read(field, &body.params, &options.resources, findings);
    }
    body.history = history(&fields, findings);
    let mut policy = policy(&fields, findings);
    let retry = fields.get("retry").and_then(|field| step::retry(field, findings));
    policy.at_most_once = matches!(retry, Some(RetryWord::Never));
    if let Some(field) = fields.get("children") {
        body.children = children(field, name.as_ref(), findings);
    }
    let target = TargetDraft::read(&fields, false, findings);
    body.steps = steps(&fields, retry, &target, options, &mut body.shell, findings);
    if let Some(field) = fields.get("handlers") {
        body.handlers = handlers(field, findings);
    }
    let away = |step: &Step| step.target.is_some();
    if let Some(field) = fields.get("preconditions")
        && (body.steps.iter().any(away) || body.handlers.steps.iter().flatten().any(|step| away(step)))
    {
        let message = "preconditions are checked by the server before it starts a process, and a step of this job \
                       runs on an executor";
        findings.error_help(
            field.key.span,
            Code::Conflict,
            message,
            "check it in a job of its own, or in the handler",
        );
    }
    let called: Vec<&JobName> = body.calls().collect();
    if called.iter().any(|called| Some(*called) == name.as_ref()) {
        let message = "a job cannot call itself: it would wait for its own end";
        findings.error(Span { line: 1, column: 1, len: 0 }, Code::Conflict, message);
    }
    if let Some(field) = fields.get("preconditions").filter(|_| !called.is_empty()) {
        let message =
            "preconditions are checked before a process is started, and a step of this job calls another job";
        let help = "give the step that comes first a precondition, or the job that is called";
        findings.error_help(field.key.span, Code::Conflict, message, help);
    }
    Some(JobDraft { name, schedules, policy, body })
}

/// Files of environment of one job.
const DOTENV_MAX: usize = 20;

/// Paths below the folder of the job file.
fn dotenv(field: Field<'_>, folder: Option<&Path>, findings: &mut Findings) -> Option<Box<Dotenv>> {
    let mut files = Vec::new();
    for item in super::scalar::one_or_many(field.value) {
        let Some(file) = text(field.spelled, item, findings) else { continue };
        let file = file.trim().trim_start_matches("./");
        let inside = Path::new(file).components().all(|part| matches!(part, Component::Normal(_)));
        if file.is_empty() || !inside || file.starts_with('~') {
            let message = format!("`{}` leads out of the folder of the job file", super::scalar::short(file));
            findings.error_help(
                item.span,
                Code::BadValue,
                message,
                "write a path below that folder, as in `.env`",
            );
        } else if files.len() == DOTENV_MAX {
            findings.error(
                item.span,
                Code::Limit,
                format!("`{}` has more than {DOTENV_MAX} files", field.spelled),
            );
            break;
        } else if !files.iter().any(|known| known == file) {
            files.push(file.to_owned());
        }
    }
    let folder = folder.map(|folder| folder.to_string_lossy().into_owned()).unwrap_or_default();
    (!files.is_empty()).then(|| Box::new(Dotenv { folder, files }))
}

/// Children of one job; more is a flow that wants steps.
const CHILDREN_MAX: usize = 100;

fn children(field: Field<'_>, own: Option<&JobName>, findings: &mut Findings) -> Vec<JobName> {
    let mut children = Vec::new();
    for item in super::scalar::one_or_many(field.value) {
        let Some(name) = text(field.spelled, item, findings) else { continue };
        match name.trim().parse::<JobName>() {
            Ok(child) if Some(&child) == own => {
                let help = "give it a schedule with `every`, or a `retry`";
                findings.error_help(item.span, Code::Conflict, "a job cannot be its own child", help);
            }
            Ok(child) if !children.contains(&child) => children.push(child),
            Ok(_) => {}
            Err(error) => findings.error(item.span, Code::BadValue, error.to_string()),
        }
    }
    if children.len() > CHILDREN_MAX {
        findings.error(field.key.span, Code::Limit, format!("a job has at most {CHILDREN_MAX} children"));
    }
    children
}

fn name(fields: &Fields<'_>, file_stem: &str, findings: &mut Findings) -> Option<JobName> {
    let (name, span) = match fields.get("name") {
        Some(field) => (text("name", field.value, findings)?, field.value.span),
        None => (file_stem, Span { line: 1, column: 1, len: 0 }),
    };
    match name.parse::<JobName>() {
        Ok(name) => Some(name),
        Err(error) if fields.get("name").is_some() => {
            findings.error(span, Code::BadValue, error.to_string());
            None
        }
        Err(error) => {
            let message = format!("the file's own name is no job name: {error}");
            findings.error_help(span, Code::BadValue, message, "rename the file, or add a `name`");
            None
        }
    }
}

fn manner(fields: &Fields<'_>, options: &ReadOptions, findings: &mut Findings) -> Manner {
    let mut manner = Manner {
        zone: options.default_zone.clone(),
        dialect: Dialect::default(),
        dst: cadran_core::Dst::default(),
        not_before: None,
        not_after: None,
    };
    if let Some(field) = fields.get("timezone")
        && let Some(zone) = zone(field.spelled, field.value, findings)
    {
        manner.zone = zone;
    }
    if let Some(field) = fields.get("dialect")
        && let Some(dialect) = word(field.spelled, DIALECTS, field.value, findings)
    {
        manner.dialect = dialect;
    }
    if let Some(field) = fields.get("dst")
        && let Some(dst) = word(field.spelled, DSTS, field.value, findings)
    {
        manner.dst = dst;
    }
    let window = ["not_before", "not_after"].map(|name| {
        let field = fields.get(name)?;
        Some((field, instant(field, &manner.zone, findings)?))
    });
    if let [Some((first, not_before)), Some((last, not_after))] = window
        && not_before > not_after
    {
        let message = format!("`{}` lies before `{}`: no schedule has a due", last.spelled, first.spelled);
        findings.error_help(last.value.span, Code::Conflict, message, "exchange the two");
    }
    [manner.not_before, manner.not_after] = window.map(|found| found.map(|(_, at)| at));
    manner
}

/// An instant as `at` takes one.
fn instant(field: Field<'_>, zone: &Zone, findings: &mut Findings) -> Option<Millis> {
    let value = scalar(field.spelled, "a date and time", field.value, findings)?;
    match Schedule::parse(&format!("at {}", value.text.trim()), zone, Dialect::Cadran) {
        Ok(schedule) => schedule.next(-1),
        Err(error) => {
            cron_error(field.value, value, 3, Some(field.spelled), &error, findings);
            None
        }
    }
}

pub(crate) const MISFIRES: &[(&str, Misfire)] = &[
    ("skip", Misfire::Skip),
    ("once", Misfire::Once),
    ("all", Misfire::All),
    ("DO_NOTHING", Misfire::Skip),
    ("FIRE_ONCE_NOW", Misfire::Once),
];

pub(crate) const OVERLAPS: &[(&str, Overlap)] = &[
    ("allow", Overlap::Allow),
    ("skip", Overlap::Skip),
    ("wait", Overlap::Wait),
    ("latest", Overlap::Latest),
    ("replace", Overlap::Replace),
    ("all", Overlap::Wait),
];

fn policy(fields: &Fields<'_>, findings: &mut Findings) -> Policy {
    let mut policy = Policy::DEFAULT;
    let window = fields.get("catchup_window");
    if let Some(field) = window
        && let Some(millis) = duration(field.spelled, field.value, findings)
    {
        if millis == 0 {
            let help = "remove it, or give it a length, as in `24h`";
            findings.error_help(
                field.value.span,
                Code::BadValue,
                format!("`{}` is zero", field.spelled),
                help,
            );
        }
        policy.catchup_window_ms = millis;
        policy.misfire = Misfire::All;
    }
    if let Some(field) = fields.get("misfire")
        && let Some(misfire) = word(field.spelled, MISFIRES, field.value, findings)
    {
        policy.misfire = misfire;
        match (misfire, window) {
            (Misfire::All, None) => {
                let message = format!("`{}: all` does not say how far back", field.spelled);
                findings.error_help(
                    field.value.span,
                    Code::Missing,
                    message,
                    "add a window, as in `catchup_window: 24h`",
                );
            }
            (Misfire::Skip | Misfire::Once, Some(window)) => {
                let message = format!(
                    "`{}` has no effect with `{}: {}`",
                    window.spelled,
                    field.spelled,
                    misfire.word()
                );
                findings.warn(window.key.span, Code::Conflict, message, "remove one of the two");
                policy.catchup_window_ms = 0;
            }
            _ => {}
        }
    }
    if let Some(field) = fields.get("overlap")
        && let Some(overlap) = word(field.spelled, OVERLAPS, field.value, findings)
    {
        policy.overlap = overlap;
    }
    if let Some(field) = fields.get("skip_if_successful") {
        policy.skip_if_successful = flag(field.spelled, field.value, findings).unwrap_or(false);
    }
    if let Some(field) = fields.get("priority") {
        policy.priority = whole("priority", -1_000_000, 1_000_000, field.value, findings).unwrap_or(0) as i32;
    }
    policy
}

pub(crate) const HISTORY: Shape =
    Shape { what: "a history", keys: &[key("days"), keys("count", &["runs"])], unsupported: &[] };

fn history(fields: &Fields<'_>, findings: &mut Findings) -> History {
    let days = |field: Field<'_>, findings: &mut Findings| {
        whole(field.spelled, 1, 36_500, field.value, findings).map(|days| History::Days(days as u32))
    };
    let count = |field: Field<'_>, findings: &mut Findings| {
        whole(field.spelled, 1, 1_000_000, field.value, findings).map(|count| History::Count(count as u32))
    };
    let mut found: Vec<(Field<'_>, Option<History>)> = Vec::new();
    if let Some(field) = fields.get("hist_retention_days") {
        found.push((field, days(field, findings)));
    }
    if let Some(field) = fields.get("hist_retention_runs") {
        found.push((field, count(field, findings)));
    }
    if let Some(field) = fields.get("history") {
        if !matches!(field.value.kind, Kind::Map(_)) {
            found.push((field, days(field, findings)));
        } else if let Some(inner) = Fields::read(field.value, &HISTORY, findings) {
            match (inner.get("days"), inner.get("count")) {
                (None, None) => findings.error_help(
                    field.value.span,
                    Code::Missing,
                    "this history has no length",
                    "write `{days: 30}` or `{count: 100}`",
                ),
                (one, two) => {
                    found.extend(one.map(|field| (field, days(field, findings))));
                    found.extend(two.map(|field| (field, count(field, findings))));
                }
            }
        }
    }
    if let [(first, _), (second, _), ..] = found[..] {
        let message = format!("`{}` and `{}` are two lengths of one history", first.spelled, second.spelled);
        findings.error_help(second.key.span, Code::Conflict, message, "keep one of the two");
    }
    found.first().and_then(|(_, history)| *history).unwrap_or_default()
}

pub(crate) const ORDERS: &[(&str, Order)] = &[("graph", Order::Graph), ("chain", Order::Chain)];

fn steps(
    fields: &Fields<'_>,
    retry: Option<RetryWord>,
    target: &TargetDraft,
    options: &ReadOptions,
    job_shell: &mut Option<Vec<String>>,
    findings: &mut Findings,
) -> Vec<Step> {
    let mut drafts = Vec::new();
    let only =
        ["run", "script", "handler", "glue", "http", "container"].iter().find_map(|name| fields.get(name));
    match (fields.get("steps"), only) {
        (Some(steps), None) => {
            *job_shell = fields.get("shell").and_then(|field| step::shell(field, findings));
            drafts = step_list(steps, findings);
        }
        (Some(_), Some(only)) => {
            let message = format!("`{}` is for a job of one step, but there are `steps`", only.spelled);
            findings.error_help(only.key.span, Code::Conflict, message, "make it a step");
        }
        (None, Some(only)) => {
            if let Some((work, shell)) = step::work(fields, "a job", only.key.span, findings) {
                // The job's own shell serves its handlers too; an interpreter named beside a script is the script's.
                *job_shell = fields.get("shell").and_then(|field| step::shell(field, findings));
                let shell = shell.filter(|shell| job_shell.as_ref() != Some(shell));
                let step = Step { name: ONLY_STEP.to_owned(), work, shell, ..Step::default() };
                drafts.push(Draft {
                    step,
                    span: only.key.span,
                    named: true,
                    depends: Vec::new(),
                    depends_key: None,
                    retry_key: None,
                    target: target.clone(),
                    local_key: None,
                    container_key: fields.get("container").map(|field| field.key.span),
                });
            }
        }
        (None, None) => {
            let help = "the smallest job is one line: `run: echo hello`";
            let at = Span { line: 1, column: 1, len: 0 };
            findings.error_help(at, Code::Missing, "the job has nothing to run", help);
        }
    }
    retries(&mut drafts, retry, findings);
    if fields.get("steps").is_some() {
        target.check_used(findings);
    }
    for draft in &mut drafts {
        place(draft, target, findings);
        if let (true, Some(span)) = (options.no_container_engine, draft.container_key) {
            let message = "this machine has neither docker nor podman, and the step needs one of them";
            findings.warn(span, Code::Unsupported, message, "install one of them where the server runs");
        }
    }
    let order = fields.get("type").map_or(Some(Order::Graph), |field| {
        if let Kind::Scalar(value) = &field.value.kind
            && matches!(value.text.as_str(), "agent" | "build")
        {
            let message = format!("`type: {}` is not supported by Cadran", value.text);
            findings.error_help(field.value.span, Code::Unsupported, message, "use `graph` or `chain`");
            return None;
        }
        word("type", ORDERS, field.value, findings)
    });
    flow::resolve(drafts, order.unwrap_or(Order::Graph), findings)
}

/// The job's retry is the default of its steps; `never` forbids theirs.
fn retries(drafts: &mut [Draft], retry: Option<RetryWord>, findings: &mut Findings) {
    for draft in drafts {
        match (&retry, draft.retry_key) {
            (Some(RetryWord::Policy(retry)), None) => draft.step.retry = retry.clone(),
            (Some(RetryWord::Never), Some(span)) if draft.step.retry != Retry::default() => {
                let message = "the job says `retry: never`, so none of its steps is tried again";
                findings.error_help(span, Code::Conflict, message, "remove one of the two");
            }
            _ => {}
        }
    }
}

/// Gives a step its target. What only counts for processes of the server says so on a step that is none of them.
fn place(draft: &mut Draft, job: &TargetDraft, findings: &mut Findings) {
    if matches!(draft.step.work, Work::Job(_)) {
        // Its job says where its steps run.
        draft.local_key = None;
        return;
    }
    draft.step.target = std::mem::take(&mut draft.target).resolve(&draft.step.work, job, findings);
    if draft.step.target.is_some() && matches!(draft.step.work, Work::Http(_) | Work::Container(_)) {
        let message = "requests and containers run on the server itself, and the step names executors";
        findings.error_help(draft.span, Code::Conflict, message, "add `executor: local` to the step");
    }
    let foreign = draft.step.work.is_foreign();
    if let Some((name, span)) = draft.local_key.filter(|_| foreign) {
        let message = format!("`{name}` is for commands; what this step runs is known to its executor alone");
        findings.error_help(span, Code::Conflict, message, "remove one of the two");
    }
}

fn step_list(field: Field<'_>, findings: &mut Findings) -> Vec<Draft> {
    let count = match &field.value.kind {
        Kind::List(items) => items.len(),
        Kind::Map(entries) => entries.len(),
        Kind::Scalar(_) => 0,
    };
    if count > Body::STEPS_MAX {
        let message = format!("the job has {count} steps; allowed are {}", Body::STEPS_MAX);
        findings.error_help(field.key.span, Code::Limit, message, "make it several jobs");
        return Vec::new();
    }
    let drafts: Vec<Draft> = match &field.value.kind {
        Kind::List(items) => items.iter().filter_map(|item| step::read(item, None, findings)).collect(),
        Kind::Map(entries) => entries
            .iter()
            .filter_map(|(key, value)| {
                let Kind::Scalar(name) = &key.kind else { return None };
                step::read(value, Some((&name.text, key.span)), findings)
            })
            .collect(),
        Kind::Scalar(_) => {
            let message = format!("`steps` takes a list of steps, not {}", field.value.what());
            findings.error_help(
                field.value.span,
                Code::WrongType,
                message,
                "for a single command write `run` instead",
            );
            return Vec::new();
        }
    };
    if drafts.is_empty() && !findings.has_errors() {
        findings.error(field.key.span, Code::Missing, "`steps` is empty; a job has at least one step");
    }
    drafts
}

pub(crate) const HANDLERS: Shape = Shape {
    what: "`handlers`",
    keys: &[key("success"), key("failure"), keys("stop", &["abort", "cancel"]), key("exit")],
    unsupported: &[
        ("init", "make it the first step, and let the others depend on it"),
        ("wait", "Cadran has no approvals to wait for"),
    ],
};

fn handlers(field: Field<'_>, findings: &mut Findings) -> Handlers {
    let mut handlers = Handlers::default();
    let Some(fields) = Fields::read(field.value, &HANDLERS, findings) else { return handlers };
    for (name, handler) in [
        ("success", Handler::Success),
        ("failure", Handler::Failure),
        ("stop", Handler::Stop),
        ("exit", Handler::Exit),
    ] {
        let Some(field) = fields.get(name) else { continue };
        let Some(mut draft) = step::read(field.value, None, findings) else { continue };
        place(&mut draft, &TargetDraft::default(), findings);
        if let Some(span) = draft.depends_key {
            findings.error(
                span,
                Code::Conflict,
                "a handler runs at the end of the run and depends on no step",
            );
        }
        // Records and logs know a handler by what it handles.
        handlers.steps[handler as usize] =
            Some(Box::new(Step { name: handler.step_name().to_owned(), ..draft.step }));
    }
    handlers
}
