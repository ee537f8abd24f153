//! One step, or one handler: what it runs and what happens around it.

use cadran_core::{ContinueOn, Precondition, Retry, Step, Work};

use super::fields::{Field, Fields, Key, Shape, key, keys};
use super::findings::Findings;
use super::lists::{env, exit_codes, texts, words};
use super::scalar::{
    duration_or_secs, filled, flag, line, one_or_many, scalar, short, text, variable, whole, word,
};
use super::target::{self, BLOCK, CONCURRENCY, EXECUTOR, GLUE, HANDLER, ROUTE, TargetDraft};
use super::{call, container, for_each, http};
use crate::diagnostic::Code;
use crate::suggest::nearest;
use crate::tree::{Kind, Node, Span};

/// Longest step name.
const NAME_BYTES_MAX: usize = 100;
/// Preconditions of one step or job: each one is a process.
const PRECONDITIONS_MAX: usize = 50;
/// Longest path or argument text; a path cannot be longer on Linux.
const PATH_BYTES_MAX: usize = 4096;
/// Further attempts. A step that fails a thousand times will not succeed by trying.
const RETRY_LIMIT_MAX: i64 = 1000;

pub(crate) const RUN: Key = keys("run", &["command", "cmd"]);
pub(crate) const DIR: Key = keys("dir", &["working_dir"]);
pub(crate) const TIMEOUT: Key = keys("timeout", &["timeout_sec"]);
pub(crate) const RETRY: Key = keys("retry", &["retry_policy"]);
pub(crate) const PRECONDITIONS: Key = keys("preconditions", &["precondition"]);

const USE_RUN: &str = "Cadran runs commands: write what it does as `run` or `script`";

pub(crate) const STEP: Shape = Shape {
    what: "a step",
    keys: &[
        key("name"),
        key("description"),
        RUN,
        key("script"),
        key("shell"),
        DIR,
        key("env"),
        keys("depends", &["depends_on"]),
        RETRY,
        TIMEOUT,
        key("continue_on"),
        PRECONDITIONS,
        key("output"),
        key("stdout"),
        key("stderr"),
        key("signal_on_stop"),
        EXECUTOR,
        HANDLER,
        GLUE,
        ROUTE,
        BLOCK,
        CONCURRENCY,
        key("params"),
        key("http"),
        key("container"),
        key("job"),
        keys("for_each", &["foreach"]),
    ],
    unsupported: &[
        ("id", "use `name`; `depends` names steps by it"),
        ("args", "make `run` a list: the program, then its arguments"),
        ("type", USE_RUN),
        ("action", USE_RUN),
        ("with", USE_RUN),
        ("config", USE_RUN),
        ("call", "write `job: NAME`, and `params` beside it"),
        (
            "parallel",
            "write `job: NAME` with `for_each: {items: […], max_parallel: 4}`; steps without `depends` on one another run in parallel",
        ),
        (
            "repeat_policy",
            "give the job a schedule with `every`, or loop inside of a script; `retry` repeats failures",
        ),
        ("mail_on_error", "send it from a handler: `handlers: {failure: …}`"),
        ("approval", "Cadran has no approvals; split the job in two and trigger the second by hand"),
        ("outputs", "use `output` to capture standard output"),
        ("log_output", "both streams are in the step's log, each line with its origin"),
        ("delay_sec", "begin the step with `sleep`"),
        ("worker_selector", "steps run where their job runs"),
        ("secrets", "read the secret inside of the step, from a file or a program"),
    ],
};

/// A step before the names in `depends` are resolved.
pub(crate) struct Draft {
    pub(crate) step: Step,
    pub(crate) span: Span,
    /// Whether the file names it.
    pub(crate) named: bool,
    pub(crate) depends: Vec<(String, Span)>,
    /// Where `depends` and `retry` stand, for settings that exclude them.
    pub(crate) depends_key: Option<Span>,
    pub(crate) retry_key: Option<Span>,
    /// What it says about executors.
    pub(crate) target: TargetDraft,
    /// A key that counts for processes of the server alone.
    pub(crate) local_key: Option<(&'static str, Span)>,
    /// Where it names a container.
    pub(crate) container_key: Option<Span>,
}

/// Keys that tell the executor inside the server how to run a process.
const LOCAL_KEYS: [&str; 7] = ["shell", "dir", "env", "preconditions", "stdout", "stderr", "signal_on_stop"];

/// Reads a step: a map, or a text that is a line for the shell.
///
/// `name` is the key it stands under, when it stands under one.
pub(crate) fn read(node: &Node, name: Option<(&str, Span)>, findings: &mut Findings) -> Option<Draft> {
    let mut draft = Draft {
        step: Step::default(),
        span: name.map_or(node.span, |(_, span)| span),
        named: name.is_some(),
        depends: Vec::new(),
        depends_key: None,
        retry_key: None,
        target: TargetDraft::default(),
        local_key: None,
        container_key: None,
    };
    if let Some((name, span)) = name {
        draft.step.name = name.to_owned();
        check_name(name, span, findings);
    }
    match &node.kind {
        Kind::Scalar(_) => {
            draft.step.work = Work::Shell(filled("run", node, findings)?.to_owned());
            return Some(draft);
        }
        Kind::List(_) => {
            findings.error_help(
                node.span,
                Code::WrongType,
                "a step is a map, or a text for the shell, not a list",
                "for a program with arguments write `run: [program, argument]`; steps without `depends` on one another run in parallel",
            );
            return None;
        }
        Kind::Map(_) => {}
    }
    let fields = Fields::read(node, &STEP, findings)?;
    if let Some(field) = fields.get("name") {
        if name.is_some() {
            let message = "the step already has a name: the key it stands under";
            findings.error_help(field.key.span, Code::Conflict, message, "remove `name`");
        } else if let Some(text) = line("name", NAME_BYTES_MAX, field.value, findings) {
            check_name(text, field.value.span, findings);
            draft.step.name = text.to_owned();
            draft.span = field.value.span;
            draft.named = true;
        }
    }
    draft.target = TargetDraft::read(&fields, fields.get("job").is_none(), findings);
    draft.local_key = LOCAL_KEYS.iter().find_map(|name| Some((*name, fields.get(name)?.key.span)));
    draft.container_key = fields.get("container").map(|field| field.key.span);
    let step = &mut draft.step;
    (step.work, step.shell) = work(&fields, "a step", node.span, findings)?;
    if let Some(field) = fields.get("for_each") {
        if !matches!(step.work, Work::Job(_)) {
            let help = "put what the step does into a job of its own, and write `job: NAME` here";
            findings.error_help(
                field.key.span,
                Code::Unsupported,
                "`for_each` is for steps with `job`",
                help,
            );
        }
        step.for_each = for_each::read(field, findings);
    }
    step.dir = path(&fields, "dir", findings);
    step.stdout = path(&fields, "stdout", findings);
    step.stderr = path(&fields, "stderr", findings);
    if let Some(field) = fields.get("env") {
        step.env = env(field, findings);
    }
    if let Some(field) = fields.get("timeout") {
        step.timeout_ms = timeout(field, findings);
    }
    if let Some(field) = fields.get("retry") {
        draft.retry_key = Some(field.key.span);
        if let Some(RetryWord::Policy(found)) = retry(field, findings) {
            step.retry = found;
        }
    }
    if let Some(field) = fields.get("continue_on") {
        step.continue_on = continue_on(field, findings);
    }
    if let Some(field) = fields.get("preconditions") {
        step.preconditions = preconditions(field, findings);
    }
    if let Some(field) = fields.get("output") {
        step.output = output(field, findings);
    }
    if let Some(field) = fields.get("signal_on_stop") {
        step.signal_on_stop = signal(field, findings);
    }
    if let Some(field) = fields.get("depends") {
        draft.depends_key = Some(field.key.span);
        for item in one_or_many(field.value) {
            if let Some(name) = filled(field.spelled, item, findings) {
                draft.depends.push((name.trim().to_owned(), item.span));
            }
        }
    }
    Some(draft)
}

/// What a step or a one-step job runs, and the shell for it.
pub(crate) fn work(
    fields: &Fields<'_>,
    what: &str,
    span: Span,
    findings: &mut Findings,
) -> Option<(Work, Option<Vec<String>>)> {
    if let Some(called) = fields.get("job") {
        return call::work(called, fields, findings).map(|work| (work, None));
    }
    if let Some(request) = fields.get("http") {
        alone(fields, "http", &["run", "script", "handler", "glue", "container", "shell"], findings);
        return http::work(request, findings).map(|work| (work, None));
    }
    if let Some(container) = fields.get("container") {
        alone(fields, "container", &["handler", "glue"], findings);
        let shell = fields.get("shell").and_then(|field| self::shell(field, findings));
        return container::work(container, fields, findings).map(|work| (work, shell));
    }
    if let Some(remote) = target::work(fields, findings) {
        return remote.map(|work| (work, None));
    }
    let mut shell = fields.get("shell").and_then(|field| self::shell(field, findings));
    let run = fields.get("run");
    let Some(script) = fields.get("script") else {
        let Some(run) = run else {
            let help = "add `run: echo hello`, or a `script`";
            findings.error_help(span, Code::Missing, format!("{what} needs `run` or `script`"), help);
            return None;
        };
        return Some((command(run, findings)?, shell));
    };
    let text = filled(script.spelled, script.value, findings)?.to_owned();
    if let Some(run) = run {
        // `command: python3` beside `script: …` is Dagu's way to name the interpreter.
        if shell.is_some() {
            let message =
                format!("`{}` beside `script` names its interpreter, and so does `shell`", run.spelled);
            findings.error_help(run.key.span, Code::Conflict, message, "keep one of the two");
        }
        shell = self::shell(run, findings);
    }
    Some((Work::Script(text), shell))
}

/// What stands beside a key that says what the step does, and says it too.
fn alone(fields: &Fields<'_>, name: &str, others: &[&str], findings: &mut Findings) {
    if let Some(other) = others.iter().find_map(|name| fields.get(name)) {
        let message =
            format!("`{}` stands beside `{name}`, which says what the step does already", other.spelled);
        findings.error_help(other.key.span, Code::Conflict, message, "keep one of the two");
    }
}

/// A text for the shell, or a list of a program and its arguments.
pub(crate) fn command(run: Field<'_>, findings: &mut Findings) -> Option<Work> {
    Some(match &run.value.kind {
        Kind::List(items) if items.is_empty() => {
            findings.error(run.value.span, Code::BadValue, format!("`{}` is an empty list", run.spelled));
            return None;
        }
        Kind::List(_) => Work::Program(texts(run, findings)),
        _ => Work::Shell(filled(run.spelled, run.value, findings)?.to_owned()),
    })
}

/// A shell or interpreter as a command line: words, or a list.
pub(crate) fn shell(field: Field<'_>, findings: &mut Findings) -> Option<Vec<String>> {
    let line = match &field.value.kind {
        Kind::List(_) => texts(field, findings),
        _ => words(filled(field.spelled, field.value, findings)?),
    };
    if line.first().is_none_or(String::is_empty) {
        findings.error(field.value.span, Code::BadValue, format!("`{}` names no program", field.spelled));
        return None;
    }
    Some(line)
}

pub(crate) fn path(fields: &Fields<'_>, name: &str, findings: &mut Findings) -> Option<String> {
    let field = fields.get(name)?;
    line(field.spelled, PATH_BYTES_MAX, field.value, findings).map(str::to_owned)
}

/// A time limit; 0 means none, as in Dagu.
pub(crate) fn timeout(field: Field<'_>, findings: &mut Findings) -> Option<i64> {
    duration_or_secs(field.spelled, field.name.ends_with("_sec"), field.value, findings)
        .filter(|&millis| millis > 0)
}

/// What `retry` says.
pub(crate) enum RetryWord {
    /// Not even after a lost executor.
    Never,
    /// After failures.
    Policy(Retry),
}

pub(crate) const RETRY_SHAPE: Shape = Shape {
    what: "a retry policy",
    keys: &[
        key("limit"),
        keys("interval", &["interval_sec"]),
        key("backoff"),
        keys("max_interval", &["max_interval_sec"]),
        keys("exit_codes", &["exit_code"]),
    ],
    unsupported: &[],
};

/// `never`, a number of further attempts, or a map.
pub(crate) fn retry(field: Field<'_>, findings: &mut Findings) -> Option<RetryWord> {
    let node = field.value;
    if let Kind::Scalar(value) = &node.kind {
        if value.text.eq_ignore_ascii_case("never") {
            return Some(RetryWord::Never);
        }
        if value.text.parse::<i64>().is_err() {
            let message = format!("`{}` cannot be `{}`", field.spelled, short(&value.text));
            let help = match nearest(&value.text, ["never"]) {
                Some(_) => "did you mean `never`?",
                None => "write `never`, a number of attempts, or a map with `limit` and `interval`",
            };
            findings.error_help(node.span, Code::BadValue, message, help);
            return None;
        }
        let limit = whole(field.spelled, 0, RETRY_LIMIT_MAX, node, findings)? as u32;
        return Some(RetryWord::Policy(Retry { limit, ..Retry::default() }));
    }
    let fields = Fields::read(node, &RETRY_SHAPE, findings)?;
    let mut retry = Retry::default();
    match fields.get("limit") {
        Some(field) => retry.limit = whole(field.spelled, 0, RETRY_LIMIT_MAX, field.value, findings)? as u32,
        None => {
            findings.error_help(
                node.span,
                Code::Missing,
                "this retry policy has no `limit`",
                "add `limit: 3`",
            );
        }
    }
    if let Some(field) = fields.get("interval") {
        retry.interval_ms =
            duration_or_secs(field.spelled, field.name.ends_with("_sec"), field.value, findings)?;
    }
    if let Some(field) = fields.get("backoff") {
        retry.backoff = backoff(field, findings)?;
    }
    retry.interval_ms_max = retry.interval_ms_max.max(retry.interval_ms);
    if let Some(field) = fields.get("max_interval") {
        let max = duration_or_secs(field.spelled, field.name.ends_with("_sec"), field.value, findings)?;
        if max < retry.interval_ms {
            let message = format!("`{}` is shorter than the interval itself", field.spelled);
            findings.error(field.value.span, Code::Conflict, message);
        }
        retry.interval_ms_max = max;
    }
    if let Some(field) = fields.get("exit_codes") {
        retry.exit_codes = exit_codes(field, findings);
    }
    Some(RetryWord::Policy(retry))
}

/// A factor of at least 1; `true` doubles.
fn backoff(field: Field<'_>, findings: &mut Findings) -> Option<f64> {
    let value = scalar(field.spelled, "a factor", field.value, findings)?;
    match (value.text.as_str(), value.text.parse::<f64>()) {
        ("true", _) => Some(2.0),
        ("false", _) => Some(1.0),
        // Zero is how Dagu files switch it off.
        (_, Ok(0.0)) => Some(1.0),
        (_, Ok(factor)) if (1.0..=100.0).contains(&factor) => Some(factor),
        _ => {
            let message = format!(
                "`{}` is `{}`; allowed are true, false and 1 to 100",
                field.spelled,
                short(&value.text)
            );
            findings.error(field.value.span, Code::BadValue, message);
            None
        }
    }
}

pub(crate) const CONTINUE_ON: Shape = Shape {
    what: "`continue_on`",
    keys: &[
        keys("failure", &["failed"]),
        key("skipped"),
        keys("exit_codes", &["exit_code"]),
        key("mark_success"),
    ],
    unsupported: &[("output", "let the command end with an exit code, and name it in `exit_codes`")],
};

fn continue_on(field: Field<'_>, findings: &mut Findings) -> ContinueOn {
    let mut on = ContinueOn::default();
    if !matches!(field.value.kind, Kind::Map(_)) {
        let words = [("failure", true), ("failed", true), ("skipped", false)];
        for item in one_or_many(field.value) {
            match word(field.spelled, &words, item, findings) {
                Some(true) => on.failure = true,
                Some(false) => on.skipped = true,
                None => {}
            }
        }
        return on;
    }
    let Some(fields) = Fields::read(field.value, &CONTINUE_ON, findings) else { return on };
    let mut switch = |name: &str| {
        fields.get(name).and_then(|field| flag(field.spelled, field.value, findings)).unwrap_or(false)
    };
    on.failure = switch("failure");
    on.skipped = switch("skipped");
    on.mark_success = switch("mark_success");
    if let Some(field) = fields.get("exit_codes") {
        on.exit_codes = exit_codes(field, findings);
    }
    on
}

pub(crate) const PRECONDITION: Shape = Shape {
    what: "a precondition",
    keys: &[keys("condition", &["command"]), key("expected"), key("negate")],
    unsupported: &[("eval", "use `condition` with a command in `$( )`, and `expected`")],
};

pub(crate) fn preconditions(field: Field<'_>, findings: &mut Findings) -> Vec<Precondition> {
    let mut found = Vec::new();
    for item in one_or_many(field.value) {
        if found.len() >= PRECONDITIONS_MAX {
            findings.error(
                item.span,
                Code::Limit,
                format!("there are more than {PRECONDITIONS_MAX} preconditions"),
            );
            break;
        }
        if !matches!(item.kind, Kind::Map(_)) {
            if let Some(condition) = filled(field.spelled, item, findings) {
                found.push(Precondition { condition: condition.to_owned(), expected: None, negate: false });
            }
            continue;
        }
        let Some(fields) = Fields::read(item, &PRECONDITION, findings) else { continue };
        let Some(condition) = fields.get("condition") else {
            findings.error(item.span, Code::Missing, "this precondition has no `condition`");
            continue;
        };
        let Some(condition) = filled(condition.spelled, condition.value, findings) else { continue };
        found.push(Precondition {
            condition: condition.to_owned(),
            expected: fields
                .get("expected")
                .and_then(|field| text("expected", field.value, findings))
                .map(str::to_owned),
            negate: fields
                .get("negate")
                .and_then(|field| flag("negate", field.value, findings))
                .unwrap_or(false),
        });
    }
    found
}

fn output(field: Field<'_>, findings: &mut Findings) -> Option<String> {
    if matches!(field.value.kind, Kind::Map(_)) {
        let message = "`output` takes the name of a variable, not a map";
        findings.error_help(field.value.span, Code::WrongType, message, "write `output: NAME`");
        return None;
    }
    let name = filled(field.spelled, field.value, findings)?;
    variable(field.spelled, name.trim().trim_start_matches('$'), field.value.span, findings)
        .map(str::to_owned)
}

/// Signals a process can be asked to end with, by their numbers on Linux.
pub(crate) const SIGNALS: &[(&str, i32)] = &[
    ("SIGHUP", 1),
    ("SIGINT", 2),
    ("SIGQUIT", 3),
    ("SIGABRT", 6),
    ("SIGKILL", 9),
    ("SIGUSR1", 10),
    ("SIGUSR2", 12),
    ("SIGALRM", 14),
    ("SIGTERM", 15),
    ("SIGWINCH", 28),
    ("SIGPWR", 30),
];

fn signal(field: Field<'_>, findings: &mut Findings) -> Option<i32> {
    let value = text(field.spelled, field.value, findings)?.trim();
    let upper = value.to_ascii_uppercase();
    let found = SIGNALS.iter().find(|(name, number)| {
        *name == upper || name.trim_start_matches("SIG") == upper || number.to_string() == upper
    });
    if let Some((_, number)) = found {
        return Some(*number);
    }
    let full = if upper.starts_with("SIG") { upper } else { format!("SIG{upper}") };
    let help = match nearest(&full, SIGNALS.iter().map(|(name, _)| *name)) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => {
            format!("allowed are {}", SIGNALS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "))
        }
    };
    let message = format!("`{}` is no signal that asks a process to end", short(value));
    findings.error_help(field.value.span, Code::BadValue, message, help);
    None
}

/// Step names stand in logs, in URLs (escaped) and in `depends`; file names never use them.
fn check_name(name: &str, span: Span, findings: &mut Findings) {
    let bad = name.chars().find(|c| c.is_control() || matches!(c, '/' | '\\'));
    if let Some(c) = bad {
        findings.error(span, Code::BadValue, format!("a step name cannot hold {c:?}"));
    } else if name.is_empty() || name.trim() != name || name.starts_with(['.', '-']) {
        findings.error(
            span,
            Code::BadValue,
            "a step name begins with a letter or a digit and has no space at either end",
        );
    } else if name.len() > NAME_BYTES_MAX {
        findings.error(span, Code::Limit, format!("a step name has at most {NAME_BYTES_MAX} bytes"));
    } else if cadran_core::Handler::ALL.iter().any(|handler| handler.step_name() == name) {
        let message = format!("`{name}` is the name of a handler");
        findings.error_help(span, Code::BadValue, message, "choose another name for the step");
    }
}
