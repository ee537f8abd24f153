//! The top of a Dagu file.

use super::keys::{HANDLERS, JOB};
use super::text::{Piece, param_words, pieces, shell_print, shell_word};
use super::tree::{Entries, list, plain, text};
use super::{Translator, Watch};
use crate::diagnostic::Code;
use crate::read::{Field, Fields, one_or_many, scalar, whole};
use crate::tree::{Kind, Node, Span};

/// Keys that mean the same in both forms.
const SAME: &[&str] = &[
    "name",
    "description",
    "tags",
    "labels",
    "skip_if_successful",
    "catchup_window",
    "overlap_policy",
    "timeout_sec",
    "max_active_steps",
    "hist_retention_days",
    "hist_retention_runs",
];

/// Keys that decide nothing about what runs.
const IDLE: &[(&str, &str)] = &[
    ("log_dir", "logs are kept in the server's data directory"),
    ("log_output", "both streams are in the step's log, each line with its origin"),
    ("max_output_size", "captured output is limited for the whole server"),
    ("max_clean_up_time_sec", "the time between TERM and KILL is set for the whole server"),
    ("restart_wait_sec", "a restart begins when the stopped run has ended"),
    ("otel", "there are metrics at /metrics"),
    ("run_config", "who may trigger a run is decided by the server"),
    ("webhook", "runs are triggered by the API"),
    ("artifacts", "write files from a step to a directory of your choice"),
];

impl Translator<'_> {
    pub(super) fn job(&mut self, root: &Node) -> Option<Node> {
        let fields = Fields::read(root, &JOB, self.findings)?;
        let top = Span { line: 1, column: 1, len: 0 };
        let mut out = Entries::default();
        for name in SAME {
            if let Some(field) = fields.get(name) {
                out.add_at(field.key.span, name, field.value.clone());
            }
        }
        for (name, what) in IDLE {
            if let Some(field) = fields.get(name) {
                let message = format!("`{}` has no effect here: {what}", field.spelled);
                self.findings.warn(field.key.span, Code::Unsupported, message, "it may stay");
            }
        }
        if let Some(field) = fields.get("group")
            && fields.get("labels").is_none()
        {
            let mut labels = Entries::default();
            labels.add_at(field.key.span, "group", field.value.clone());
            out.add_at(field.key.span, "labels", labels.node(field.value.span));
            self.note(field.key.span, "`group` became a label");
        }
        if let Some(field) = fields.get("schedule") {
            out.add_at(field.key.span, "timezone", text(field.key.span, self.options.zone.name()));
            let schedule = schedule(field.value);
            out.add_at(field.key.span, "schedule", schedule);
        }
        self.consts(&fields);
        self.order(&fields, &mut out);
        self.shell(&fields, &mut out);
        self.place(&fields, &mut out);
        self.concurrency(&fields, &mut out);
        self.mail(&fields);
        if let Some(field) = fields.get("delay_sec")
            && let Some(seconds) = whole(field.spelled, 0, 86_400, field.value, self.findings)
            && seconds > 0
        {
            self.set_up(field.key.span, "delay", format!("sleep {seconds}"), None);
        }
        if let Some(field) = fields.get("params") {
            self.params(field, &mut out);
        }
        if let Some(field) = fields.get("env") {
            let env = self.env(field);
            out.add_at(field.key.span, "env", env);
        }
        if let Some(field) = fields.get("preconditions") {
            let conditions = self.preconditions(field, true);
            out.add_at(field.key.span, "preconditions", conditions);
        }
        let handlers = fields
            .get("handler_on")
            .and_then(|field| Some((field, Fields::read(field.value, &HANDLERS, self.findings)?)));
        if let Some(init) = handlers.as_ref().and_then(|(_, handlers)| handlers.get("init")) {
            self.init(init);
        }
        match fields.get("steps") {
            Some(field) => {
                let steps =
                    self.steps(field, fields.get("defaults"), handlers.as_ref().map(|(_, fields)| fields))?;
                out.add_at(field.key.span, "steps", steps);
            }
            None => {
                let help = "add `steps: [echo hello]`";
                self.findings.error_help(top, Code::Missing, "the file has no `steps`", help);
            }
        }
        if let Some((field, handlers)) = handlers {
            let handlers = self.handlers(&handlers);
            if !handlers.is_empty() {
                out.add_at(field.key.span, "handlers", handlers.node(field.value.span));
            }
        }
        out.add_at(top, "partial_success", plain(top, "true"));
        Some(out.node(root.span))
    }

    /// `${consts.NAME}` is replaced before anything else looks at a text.
    fn consts(&mut self, fields: &Fields<'_>) {
        let Some(field) = fields.get("consts") else { return };
        let Kind::Map(entries) = &field.value.kind else {
            let message = format!("`consts` is a map of names and values, not {}", field.value.what());
            return self.findings.error(field.value.span, Code::WrongType, message);
        };
        for (key, value) in entries {
            if let (Kind::Scalar(key), Some(value)) =
                (&key.kind, scalar("consts", "text", value, self.findings))
            {
                self.consts.push((key.text.clone(), value.text.clone()));
            }
        }
        self.note(field.key.span, "`consts` were put where they are used");
    }

    /// Every step of the result names what it depends on, whatever order the file has.
    fn order(&mut self, fields: &Fields<'_>, out: &mut Entries) {
        match fields.get("type") {
            Some(field) => match &field.value.kind {
                Kind::Scalar(word) if word.text == "graph" => self.is_chain = false,
                Kind::Scalar(word) if word.text == "chain" => self.is_chain = true,
                _ => self.refuse(field.value.span, "this `type` is not supported", "use `graph` or `chain`"),
            },
            None => {
                let several = fields.get("steps").is_some_and(|steps| match &steps.value.kind {
                    Kind::List(items) => items.len() > 1,
                    Kind::Map(entries) => entries.len() > 1,
                    Kind::Scalar(_) => false,
                });
                if several && let Some(steps) = fields.get("steps") {
                    let (is, other) = match self.is_chain {
                        true => (
                            "one after another, as in Dagu up to 2.6; 2.7 and later run them in parallel",
                            "chain",
                        ),
                        false => (
                            "by `depends` alone, as in Dagu 2.7; up to 2.6 they ran one after another",
                            "graph",
                        ),
                    };
                    let message = format!("the file has no `type`: its steps run {is}");
                    let help = format!("add `type: {other}` to say so");
                    self.findings.warn(steps.key.span, Code::Conflict, message, help);
                }
            }
        }
        let span = fields.get("type").map_or(Span { line: 1, column: 1, len: 0 }, |field| field.key.span);
        out.add_at(span, "type", plain(span, "graph"));
    }

    fn shell(&mut self, fields: &Fields<'_>, out: &mut Entries) {
        match fields.get("shell") {
            Some(field) => {
                let mut words: Vec<Node> = match &field.value.kind {
                    Kind::Scalar(line) => {
                        line.text.split_whitespace().map(|word| text(field.value.span, word)).collect()
                    }
                    _ => one_or_many(field.value).to_vec(),
                };
                let is_strict = |word: &Node| matches!(&word.kind, Kind::Scalar(word) if word.text == "-e");
                if !words.iter().any(is_strict) {
                    words.push(text(field.value.span, "-e"));
                }
                out.add_at(field.key.span, "shell", list(field.value.span, words));
            }
            None => {
                let span = Span { line: 1, column: 1, len: 0 };
                out.add_at(
                    span,
                    "shell",
                    list(span, vec![text(span, &self.options.shell), text(span, "-e")]),
                );
            }
        }
    }

    /// The working directory, and the files of environment beside the job's.
    fn place(&mut self, fields: &Fields<'_>, out: &mut Entries) {
        let top = Span { line: 1, column: 1, len: 0 };
        let folder = self.folder.map(|folder| folder.to_string_lossy().into_owned());
        let dir = fields.get("working_dir").and_then(|field| {
            let value = scalar(field.spelled, "a path", field.value, self.findings)?;
            Some((field.key.span, self.path(field.value.span, &value.text)))
        });
        match (dir, folder) {
            (Some((span, dir)), Some(folder)) if !dir.starts_with(['/', '~']) && !dir.starts_with("${") => {
                out.add_at(span, "dir", text(span, format!("{folder}/{}", dir.trim_start_matches("./"))));
            }
            (Some((span, dir)), _) => out.add_at(span, "dir", text(span, dir)),
            (None, Some(folder)) => out.add_at(top, "dir", text(top, folder.replace('$', "$$"))),
            (None, None) => {}
        }
        out.add_at(top, "create_dir", plain(top, "true"));
        match fields.written("dotenv") {
            None => out.add_at(top, "dotenv", text(top, ".env")),
            Some(field) => {
                let mut files = vec![text(field.key.span, ".env")];
                let named = one_or_many(field.value);
                let is_off = named.is_empty() || field.value.is_null();
                files.extend(named.iter().filter(|_| !is_off).cloned());
                if !is_off {
                    out.add_at(field.key.span, "dotenv", list(field.value.span, files));
                }
            }
        }
    }

    /// `queue` is a pool of `resources.yaml`, or one run at a time; `max_active_runs` lets runs of the job overlap.
    fn concurrency(&mut self, fields: &Fields<'_>, out: &mut Entries) {
        let most = fields.get("max_active_runs").and_then(|field| {
            Some((field, whole(field.spelled, -1, 1_000_000, field.value, self.findings)?))
        });
        let overlap = |word: &str, span: Span, out: &mut Entries| {
            if fields.get("overlap_policy").is_none() {
                out.add_at(span, "overlap", plain(span, word));
            }
        };
        let Some(queue) = fields.get("queue") else {
            if let Some((field, most)) = most.filter(|(_, most)| *most != 1) {
                overlap("allow", field.key.span, out);
                if most > 1 {
                    let message =
                        format!("runs of the job may overlap, any number of them and not only {most}");
                    let help = "add `queue: NAME`, and the pool `NAME` to resources.yaml";
                    self.findings.warn(field.key.span, Code::Unsupported, message, help);
                }
            }
            return;
        };
        let (span, Some(name)) = (queue.key.span, scalar("queue", "a name", queue.value, self.findings))
        else {
            return;
        };
        let name = name.text.trim();
        let mut footprint = Entries::default();
        if self.resources.capacity(name).is_some() {
            let mut capacity = Entries::default();
            capacity.add_at(span, name, plain(span, "1"));
            footprint.add_at(span, "capacity", capacity.node(span));
            overlap("allow", span, out);
            self.note(span, format!("`queue` became one place of the pool `{name}`"));
        } else {
            footprint.add_at(span, "writes", text(queue.value.span, format!("queue:{name}")));
            overlap("wait", span, out);
            if most.is_some_and(|(_, most)| most != 1) {
                let message =
                    format!("the queue `{name}` has one place, for resources.yaml names no such pool");
                let help = format!("add `resources: {{{name}: 2}}` to resources.yaml in the jobs folder");
                self.findings.warn(span, Code::Unsupported, message, help);
            }
            self.note(
                span,
                format!("`queue` became the footprint `queue:{name}`: one run at a time, the others wait"),
            );
        }
        footprint.add_at(span, "ordered", plain(span, "true"));
        out.add_at(span, "footprint", footprint.node(span));
    }

    /// Without `smtp` Dagu sends nothing either.
    fn mail(&mut self, fields: &Fields<'_>) {
        let wanted = fields.get("mail_on").filter(|field| match &field.value.kind {
            Kind::Map(entries) => entries
                .iter()
                .any(|(_, value)| !matches!(&value.kind, Kind::Scalar(word) if word.text == "false")),
            _ => true,
        });
        if let Some(field) = wanted {
            match fields.get("smtp") {
                Some(_) => self.refuse(
                    field.key.span,
                    format!("`{}` with `smtp` is not supported", field.spelled),
                    "send the mail from `handler_on`, as in `failure: {command: mail -s failed me@example.org < /dev/null}`",
                ),
                None => {
                    let message = format!("`{}` sends nothing, for there is no `smtp` here", field.spelled);
                    self.findings.warn(field.key.span, Code::Unsupported, message, "send the mail from `handler_on`");
                }
            }
        }
    }

    /// A step before the others, and the variable it sets.
    pub(super) fn set_up(&mut self, span: Span, name: &str, script: String, output: Option<&str>) {
        let mut step = Entries::default();
        step.add_at(span, "name", text(span, name));
        step.add_at(span, "run", text(span, script));
        if let Some(output) = output {
            step.add_at(span, "output", text(span, output));
            self.late.push(output.to_owned());
        }
        self.add_setup(span, step);
    }

    pub(super) fn add_setup(&mut self, span: Span, mut step: Entries) {
        if let Some(before) = self.last_setup() {
            step.add_at(span, "depends", text(span, before));
        }
        self.setup.push(step.node(span));
    }

    /// The name of the step that all steps of the file come after.
    pub(super) fn last_setup(&self) -> Option<String> {
        let Kind::Map(entries) = &self.setup.last()?.kind else { return None };
        entries.iter().find_map(|(key, value)| match (&key.kind, &value.kind) {
            (Kind::Scalar(key), Kind::Scalar(value)) if key.text == "name" => Some(value.text.clone()),
            _ => None,
        })
    }

    fn init(&mut self, field: Field<'_>) {
        let Some(mut step) = self.step_entries(field.value, None) else { return };
        step.add_at(field.key.span, "name", text(field.key.span, "onInit"));
        self.add_setup(field.key.span, step);
        self.note(field.key.span, "became the first step");
    }

    fn handlers(&mut self, handlers: &Fields<'_>) -> Entries {
        let mut out = Entries::default();
        for (name, own) in
            [("success", "success"), ("failure", "failure"), ("abort", "stop"), ("exit", "exit")]
        {
            let Some(field) = handlers.get(name) else { continue };
            if let Some(step) = self.step_entries(field.value, None) {
                out.add_at(field.key.span, own, step.node(field.value.span));
            }
        }
        out
    }

    /// Values of parameters are evaluated once, before the first step; a value that a trigger gives is taken as it is.
    fn params(&mut self, field: Field<'_>, out: &mut Entries) {
        let mut params = Vec::new();
        let mut position = 0;
        for item in one_or_many(field.value) {
            match &item.kind {
                Kind::Map(entries) if is_described(entries) => {
                    params.push(self.described(entries, item.span))
                }
                Kind::Map(entries) => {
                    for (key, value) in entries {
                        let Kind::Scalar(name) = &key.kind else { continue };
                        match &value.kind {
                            Kind::Map(inner) => {
                                let mut one = Entries::default();
                                one.add_at(key.span, &name.text, self.described(inner, value.span));
                                self.variables.push(name.text.clone());
                                params.push(one.node(key.span));
                            }
                            _ => {
                                let given = match &value.kind {
                                    Kind::Scalar(given) if !value.is_null() => given.text.as_str(),
                                    _ => "",
                                };
                                params.push(self.param(key.span, Some(&name.text), given, &mut position));
                            }
                        }
                    }
                }
                Kind::Scalar(words) if !item.is_null() => {
                    for (name, value) in param_words(&words.text) {
                        params.push(self.param(item.span, name.as_deref(), &value, &mut position));
                    }
                }
                Kind::Scalar(_) => {}
                Kind::List(_) => {
                    let message = "a parameter is a text or a map, not a list";
                    self.findings.error(item.span, Code::WrongType, message);
                }
            }
        }
        out.add_at(field.key.span, "params", list(field.value.span, params));
    }

    fn param(&mut self, span: Span, name: Option<&str>, value: &str, position: &mut usize) -> Node {
        let value = self.with_consts(value);
        let found = pieces(&value);
        let is_plain = found.iter().all(|piece| matches!(piece, Piece::Literal(_)));
        let Some(name) = name else {
            *position += 1;
            if !is_plain {
                let message =
                    format!("the value of the parameter {position} is evaluated, and it has no name");
                self.refuse(span, message, "give it a name, as in `NAME=…`, and use `$NAME`");
            }
            return text(span, value);
        };
        self.variables.push(name.to_owned());
        if !is_plain {
            self.runs_before(span, &found);
            let script = format!(
                "if [ \"${name}\" != {} ]; then printf '%s\\n' \"${name}\"; exit; fi\n{}",
                shell_word(&value),
                shell_print(&found)
            );
            self.set_up(span, &format!("param_{name}"), script, Some(name));
            self.note(span, format!("the value of `{name}` is found out by a step before the others"));
        }
        let mut one = Entries::default();
        one.add_at(span, name, text(span, value));
        one.node(span)
    }

    /// `{name: …, default: …}` of Dagu 2.
    fn described(&mut self, entries: &[(Node, Node)], span: Span) -> Node {
        let mut out = Entries::default();
        for (key, value) in entries {
            let Kind::Scalar(word) = &key.kind else { continue };
            match word.text.as_str() {
                "name" => {
                    if let Kind::Scalar(name) = &value.kind {
                        self.variables.push(name.text.clone());
                    }
                    out.add_at(key.span, "name", value.clone());
                }
                "default" | "required" | "description" => out.add_at(key.span, &word.text, value.clone()),
                other => {
                    let message = format!("`{other}` of a parameter has no effect here");
                    self.findings.warn(
                        key.span,
                        Code::Unsupported,
                        message,
                        "check the value in the step that uses it",
                    );
                }
            }
        }
        out.node(span)
    }

    /// `env` of the job: what is plain or uses other variables stays, what runs a command is found out by a step.
    fn env(&mut self, field: Field<'_>) -> Node {
        let mut kept = Vec::new();
        for (name, value, span) in self.pairs(field) {
            let value = self.with_consts(&value);
            let found = pieces(&value);
            if found.iter().any(|piece| self.is_late(piece)) {
                self.runs_before(span, &found);
                self.set_up(span, &format!("env_{name}"), shell_print(&found), Some(&name));
                self.note(span, format!("the value of `{name}` is found out by a step before the others"));
                continue;
            }
            let mut one = Entries::default();
            one.add_at(span, &name, text(span, own_text(&found)));
            kept.push(one.node(span));
        }
        list(field.value.span, kept)
    }

    /// Whether a piece cannot be written as a value of ours, or is not known before the first step.
    pub(super) fn is_late(&self, piece: &Piece) -> bool {
        match piece {
            Piece::Command(_) | Piece::WithDefault(..) => true,
            Piece::Variable(name) => self.late.contains(name),
            Piece::Literal(_) | Piece::Path(..) => false,
        }
    }

    /// Warns of the commands in a value.
    pub(super) fn runs_before(&mut self, span: Span, found: &[Piece]) {
        for piece in found {
            if let Piece::Command(command) = piece {
                let message =
                    format!("`{}` in backticks is run, each time the job runs", crate::read::short(command));
                self.findings.warn(span, Code::Conflict, message, "its output becomes the value");
            }
        }
    }

    /// Names and values of a map, or of a list of maps and `NAME=value` texts.
    pub(super) fn pairs(&mut self, field: Field<'_>) -> Vec<(String, String, Span)> {
        let mut found = Vec::new();
        for item in one_or_many(field.value) {
            match &item.kind {
                Kind::Map(entries) => {
                    for (key, value) in entries {
                        let Kind::Scalar(name) = &key.kind else { continue };
                        let value = match &value.kind {
                            _ if value.is_null() => String::new(),
                            Kind::Scalar(value) => value.text.clone(),
                            _ => {
                                let message = format!("`{}` takes text, not {}", name.text, value.what());
                                self.findings.error(value.span, Code::WrongType, message);
                                continue;
                            }
                        };
                        found.push((name.text.clone(), value, key.span));
                    }
                }
                Kind::Scalar(pair) if !item.is_null() => match pair.text.split_once('=') {
                    Some((name, value)) => {
                        let value = value.trim().trim_matches(['"', '\'']);
                        found.push((name.trim().to_owned(), value.to_owned(), item.span));
                    }
                    None => {
                        let message = format!("`{}` has no value", crate::read::short(&pair.text));
                        self.findings.error_help(
                            item.span,
                            Code::BadValue,
                            message,
                            "write `NAME=value` or `NAME: value`",
                        );
                    }
                },
                _ => {}
            }
        }
        found
    }

    /// A path: `$NAME` as `${NAME}`. Commands are not run for it.
    pub(super) fn path(&mut self, span: Span, path: &str) -> String {
        let path = self.with_consts(path);
        let found = pieces(&path);
        if found.iter().any(|piece| matches!(piece, Piece::Command(_) | Piece::WithDefault(..))) {
            let help = "put it in `env`, and use `${NAME}` here";
            self.refuse(span, "a command or a default value cannot stand in a path", help);
        }
        own_text(&found)
    }

    pub(super) fn with_consts(&self, text: &str) -> String {
        self.consts
            .iter()
            .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${{consts.{name}}}"), value))
    }

    /// Where another step's output or exit code is kept; from here on that step keeps it.
    pub(super) fn watch(&mut self, name: &str, path: &str) -> Option<(Watch, usize)> {
        let watch = Watch::from_path(path)?;
        let step = self.steps.iter().find(|(known, _)| known == name)?.1;
        if !self.watched.contains(&(step, watch)) {
            self.watched.push((step, watch));
        }
        Some((watch, step))
    }
}

/// Every cron expression with the dialect it is written in.
fn schedule(node: &Node) -> Node {
    let has = |entries: &[(Node, Node)], names: &[&str]| {
        entries
            .iter()
            .any(|(key, _)| matches!(&key.kind, Kind::Scalar(key) if names.contains(&key.text.as_str())))
    };
    let kind = match &node.kind {
        Kind::List(items) => Kind::List(items.iter().map(schedule).collect()),
        Kind::Map(entries) if has(entries, &["start", "stop", "restart"]) => {
            Kind::Map(entries.iter().map(|(key, value)| (key.clone(), schedule(value))).collect())
        }
        Kind::Map(entries) if has(entries, &["cron", "expression"]) => {
            let dialect = (plain(node.span, "dialect"), plain(node.span, "dagu"));
            Kind::Map(entries.iter().cloned().chain([dialect]).collect())
        }
        Kind::Scalar(text) if !node.is_null() && !text.text.trim().is_empty() => {
            let mut one = Entries::default();
            // Quoted: an expression begins with a star as often as not.
            let mut expression = node.clone();
            if let Kind::Scalar(text) = &mut expression.kind {
                text.plain = false;
            }
            one.add_at(node.span, "cron", expression);
            one.add_at(node.span, "dialect", plain(node.span, "dagu"));
            return one.node(node.span);
        }
        other => other.clone(),
    };
    Node { span: node.span, kind }
}

fn is_described(entries: &[(Node, Node)]) -> bool {
    let has = |names: &[&str]| {
        entries
            .iter()
            .any(|(key, _)| matches!(&key.kind, Kind::Scalar(key) if names.contains(&key.text.as_str())))
    };
    has(&["name"]) && has(&["default", "required", "type", "enum", "description"])
}

/// Pieces as a value of ours: `${NAME}`, `${json:NAME.path}`, and `$$` for a dollar.
pub(super) fn own_text(pieces: &[Piece]) -> String {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Literal(text) => text.replace('$', "$$"),
            Piece::Variable(name) => format!("${{{name}}}"),
            Piece::Path(name, path) => format!("${{json:{name}{path}}}"),
            Piece::WithDefault(name, _) => format!("${{{name}}}"),
            Piece::Command(command) => format!("`{command}`"),
        })
        .collect()
}
