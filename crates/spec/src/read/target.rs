//! Where a step runs: the group of executors it names, and how one of them is chosen.

use cadran_core::{Block, GlueKind, GroupName, Route, Target, Work};

use super::fields::{Fields, Key, Shape, key, keys};
use super::findings::Findings;
use super::scalar::{filled, line, short, text, whole, word};
use crate::diagnostic::Code;
use crate::tree::{Kind, Node, Span};

pub(crate) const EXECUTOR: Key = key("executor");
pub(crate) const HANDLER: Key = key("handler");
pub(crate) const GLUE: Key = keys("glue", &["glue_type"]);
pub(crate) const ROUTE: Key = keys("route", &["route_strategy"]);
pub(crate) const BLOCK: Key = keys("block", &["block_strategy"]);
pub(crate) const CONCURRENCY: Key = key("concurrency");

/// Longest name of a handler.
const HANDLER_BYTES_MAX: usize = 255;
/// Longest text of parameters: it travels with every order.
const PARAMS_BYTES_MAX: usize = 64 << 10;
/// Longest script that travels with its order. Executors take requests of 5 MiB at most.
const GLUE_BYTES_MAX: usize = 1 << 20;
/// Labels a step may ask for.
const LABELS_MAX: usize = 32;
/// Longest name and longest value of a label.
const LABEL_BYTES_MAX: usize = 128;
/// Runs of one job at once on one executor.
const CONCURRENCY_MAX: i64 = 1000;

/// The word for the executor inside the server: no group can be called so.
pub const HERE: &str = "local";

pub(crate) const PLACE: Shape =
    Shape { what: "`executor`", keys: &[key("group"), key("labels")], unsupported: &[] };

/// What other schedulers call an executor is a kind of step. A file that means one of these does not mean a group.
const KINDS: [&str; 12] =
    ["docker", "http", "ssh", "mail", "jq", "command", "shell", "dag", "sub", "archive", "redis", "s3"];

pub(crate) const ROUTES: &[(&str, Route)] = &[
    ("first", Route::First),
    ("last", Route::Last),
    ("round", Route::Round),
    ("random", Route::Random),
    ("consistent_hash", Route::ConsistentHash),
    ("least_frequently_used", Route::LeastFrequentlyUsed),
    ("least_recently_used", Route::LeastRecentlyUsed),
    ("failover", Route::Failover),
    ("busyover", Route::Busyover),
    ("sharding_broadcast", Route::ShardingBroadcast),
    ("lfu", Route::LeastFrequentlyUsed),
    ("lru", Route::LeastRecentlyUsed),
    ("broadcast", Route::ShardingBroadcast),
];

pub(crate) const BLOCKS: &[(&str, Block)] = &[
    ("serial", Block::Serial),
    ("discard", Block::Discard),
    ("cover", Block::Cover),
    ("concurrent", Block::Concurrent),
    ("SERIAL_EXECUTION", Block::Serial),
    ("DISCARD_LATER", Block::Discard),
    ("COVER_EARLY", Block::Cover),
];

pub(crate) const GLUES: &[(&str, GlueKind)] = &[
    ("shell", GlueKind::Shell),
    ("python", GlueKind::Python),
    ("python2", GlueKind::Python2),
    ("nodejs", GlueKind::Nodejs),
    ("powershell", GlueKind::Powershell),
    ("php", GlueKind::Php),
    ("groovy", GlueKind::Groovy),
    ("GLUE_SHELL", GlueKind::Shell),
    ("GLUE_PYTHON", GlueKind::Python),
    ("GLUE_PYTHON2", GlueKind::Python2),
    ("GLUE_NODEJS", GlueKind::Nodejs),
    ("GLUE_POWERSHELL", GlueKind::Powershell),
    ("GLUE_PHP", GlueKind::Php),
    ("GLUE_GROOVY", GlueKind::Groovy),
];

/// What a job or a step says about executors.
#[derive(Clone, Default)]
pub(crate) struct TargetDraft {
    group: Option<ExecutorTarget>,
    route: Option<Route>,
    block: Option<Block>,
    block_span: Option<Span>,
    concurrency: Option<u32>,
    params: Option<String>,
    labels: Vec<(String, String)>,
    /// The first key that makes sense on an executor only.
    needs: Option<(&'static str, Span)>,
}

#[derive(Clone)]
enum ExecutorTarget {
    Here,
    Group(GroupName),
}

impl TargetDraft {
    /// `takes_params`: a step has the text for its handler, while the parameters of a job are its own.
    pub(crate) fn read(fields: &Fields<'_>, takes_params: bool, findings: &mut Findings) -> TargetDraft {
        let mut draft = TargetDraft::default();
        if let Some(field) = fields.get("executor") {
            if let Some(place) = target_of(field.value) {
                draft.read_target(place, findings);
            } else if matches!(field.value.kind, Kind::Map(_)) {
                findings.error_help(
                    field.value.span,
                    Code::Unsupported,
                    "`executor` names a group of executors; kinds of steps are not supported by Cadran",
                    "write what the step does as `run` or `script`",
                );
            } else if let Some(name) = filled("executor", field.value, findings) {
                let foreign = fields.get("handler").is_some() || fields.get("glue").is_some();
                draft.group = group(name.trim(), foreign, field.value.span, findings);
            }
        }
        if let Some(field) = fields.get("route") {
            draft.route = word(field.spelled, ROUTES, field.value, findings);
            draft.needs = draft.needs.or(Some(("route", field.key.span)));
        }
        if let Some(field) = fields.get("block") {
            draft.block = word(field.spelled, BLOCKS, field.value, findings);
            draft.block_span = Some(field.key.span);
            draft.needs = draft.needs.or(Some(("block", field.key.span)));
        }
        if let Some(field) = fields.get("concurrency") {
            let count = whole(field.spelled, 1, CONCURRENCY_MAX, field.value, findings);
            draft.concurrency = count.map(|count| count as u32);
            if !matches!(draft.block, Some(Block::Concurrent)) {
                let help = "add `block: concurrent`";
                findings.error_help(
                    field.key.span,
                    Code::Conflict,
                    "`concurrency` is for `block: concurrent`",
                    help,
                );
            }
        }
        for name in ["handler", "glue"] {
            if let Some(field) = fields.get(name) {
                draft.needs = Some((name, field.key.span));
            }
        }
        if takes_params && let Some(field) = fields.get("params") {
            draft.params = text("params", field.value, findings).map(str::to_owned);
            draft.needs = Some(("params", field.key.span));
            if draft.params.as_ref().is_some_and(|text| text.len() > PARAMS_BYTES_MAX) {
                let message = format!("`params` has more than {PARAMS_BYTES_MAX} bytes");
                findings.error(field.value.span, Code::Limit, message);
            }
        }
        if fields.get("executor").is_some() && draft.group.is_none() {
            // What is wrong with it was said.
            draft.needs = None;
        }
        draft
    }

    /// A group and what its executor must say of itself.
    fn read_target(&mut self, place: &Node, findings: &mut Findings) {
        let Some(fields) = Fields::read(place, &PLACE, findings) else { return };
        if let Some(field) = fields.get("group")
            && let Some(name) = filled("group", field.value, findings)
        {
            self.group = group(name.trim(), true, field.value.span, findings);
        }
        let Some(field) = fields.get("labels") else { return };
        let Kind::Map(entries) = &field.value.kind else {
            let message = format!("`labels` is a map of names and values, not {}", field.value.what());
            return findings.error(field.value.span, Code::WrongType, message);
        };
        if entries.len() > LABELS_MAX {
            return findings.error(
                field.key.span,
                Code::Limit,
                format!("there are more than {LABELS_MAX} labels"),
            );
        }
        for (name, value) in entries {
            let Kind::Scalar(key) = &name.kind else { continue };
            let Some(value) = line("labels", LABEL_BYTES_MAX, value, findings) else { continue };
            if key.text.is_empty() || key.text.len() > LABEL_BYTES_MAX || key.text.contains(['=', ',']) {
                let message = "the name of a label has 1 to 128 characters, without '=' and ','";
                findings.error(name.span, Code::BadValue, message);
                continue;
            }
            self.labels.push((key.text.clone(), value.to_owned()));
        }
        self.labels.sort();
    }

    /// The target of a step, with what the job says where the step says nothing. A command goes round the executors
    /// unless a route is named: they are alike.
    pub(crate) fn resolve(
        self,
        work: &Work,
        job: &TargetDraft,
        findings: &mut Findings,
    ) -> Option<Box<Target>> {
        let group = match self.group.as_ref().or(job.group.as_ref()) {
            Some(ExecutorTarget::Group(group)) => group.clone(),
            Some(ExecutorTarget::Here) | None => {
                if let Some((name, span)) = self.needs {
                    let message = format!("`{name}` is for a step on an executor, and none is named");
                    let help = "add `executor: GROUP`, the name its executors register under";
                    findings.error_help(span, Code::Missing, message, help);
                }
                return None;
            }
        };
        let plain = Target::new(group);
        let foreign = matches!(work, Work::Handler(_) | Work::Glue(..));
        let route = if foreign { plain.route } else { Route::Round };
        // Labels belong to the group they stand beside.
        let labels = if self.group.is_some() { self.labels } else { job.labels.clone() };
        if foreign && !labels.is_empty() {
            let at = self.needs.or(job.needs).map_or(Span { line: 1, column: 1, len: 0 }, |(_, span)| span);
            let message =
                "`labels` choose among workers, which run commands; this step asks for a handler or a script";
            findings.error_help(at, Code::Conflict, message, "remove one of the two");
        }
        let block = self.block.or(job.block).unwrap_or(plain.block);
        if let (true, Block::Concurrent, Some(at)) = (foreign, block, self.block_span.or(job.block_span)) {
            findings.warn(
                at,
                Code::Unsupported,
                "XXL-JOB's executors know no `block: concurrent` and get `serial` instead; only those of Orth run side by side",
                "use `run` with workers of our own, or `block: serial`",
            );
        }
        Some(Box::new(Target {
            route: self.route.or(job.route).unwrap_or(route),
            labels,
            block,
            concurrency: self.concurrency.or(job.concurrency).unwrap_or(plain.concurrency),
            params: self.params,
            ..plain
        }))
    }

    /// A job whose steps say everything themselves: what it says is not lost on nobody.
    pub(crate) fn check_used(&self, findings: &mut Findings) {
        if let (None, Some((name, span))) = (&self.group, self.needs) {
            let message = format!("`{name}` of the job is for jobs on executors, and none is named");
            findings.error_help(span, Code::Missing, message, "add `executor: GROUP` to the job");
        }
    }
}

/// The value of `executor` when it names a group and more. A map without a group is a kind of step of another scheduler.
fn target_of(value: &Node) -> Option<&Node> {
    let Kind::Map(entries) = &value.kind else { return None };
    let is_group = |name: &Node| matches!(&name.kind, Kind::Scalar(key) if key.text == "group");
    entries.iter().any(|(name, _)| is_group(name)).then_some(value)
}

/// `foreign`: there is no doubt that a group is meant.
fn group(name: &str, foreign: bool, span: Span, findings: &mut Findings) -> Option<ExecutorTarget> {
    if name == HERE {
        return Some(ExecutorTarget::Here);
    }
    if KINDS.contains(&name) && !foreign {
        let message = format!("`executor: {name}` is not supported by Cadran");
        let help = "write what the step does as `run` or `script`; `executor` names a group of executors";
        findings.error_help(span, Code::Unsupported, message, help);
        return None;
    }
    match name.parse() {
        Ok(group) => Some(ExecutorTarget::Group(group)),
        Err(error) => {
            findings.error(span, Code::BadValue, format!("`executor` cannot be `{}`: {error}", short(name)));
            None
        }
    }
}

/// What an executor is to do: a handler it knows, or a script that travels. `None` in the first place when the fields
/// speak of neither.
pub(crate) fn work(fields: &Fields<'_>, findings: &mut Findings) -> Option<Option<Work>> {
    let handler = fields.get("handler");
    let glue = fields.get("glue");
    if let Some(handler) = handler {
        let others = ["run", "script", "glue"];
        if let Some(other) = others.iter().find_map(|name| fields.get(name)) {
            let message =
                format!("`{}` stands beside `handler`, which says what is run already", other.spelled);
            findings.error_help(other.key.span, Code::Conflict, message, "keep one of the two");
        }
        let name = line("handler", HANDLER_BYTES_MAX, handler.value, findings);
        return Some(name.map(|name| Work::Handler(name.trim().to_owned())));
    }
    let glue = glue?;
    if let Some(run) = fields.get("run") {
        let message = format!("`{}` stands beside `glue`, which is the language of a `script`", run.spelled);
        findings.error_help(run.key.span, Code::Conflict, message, "keep one of the two");
    }
    let kind = word(glue.spelled, GLUES, glue.value, findings);
    let Some(script) = fields.get("script") else {
        let message = format!("`{}` names the language of a script, and there is no `script`", glue.spelled);
        findings.error_help(glue.key.span, Code::Missing, message, "add `script: |` and the lines below it");
        return Some(None);
    };
    let source = filled("script", script.value, findings);
    if source.is_some_and(|source| source.len() > GLUE_BYTES_MAX) {
        let message = format!("a script for an executor has at most {GLUE_BYTES_MAX} bytes");
        findings.error(script.value.span, Code::Limit, message);
    }
    Some(kind.zip(source).map(|(kind, source)| Work::Glue(kind, source.to_owned())))
}
