//! The steps of a Dagu file.

use super::Translator;
use super::Watch;
use super::job::own_text;
use super::keys::{CONDITION, OUTPUT, STEP};
use super::text::{Piece, name_len, pieces, replace_paths, shell_print, shell_word};
use super::tree::{Entries, list, text};
use crate::diagnostic::Code;
use crate::read::{Field, Fields, filled, flag, one_or_many, scalar, snake_case};
use crate::tree::{Kind, Node, Span};

/// Shells whose texts we can prepare.
const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "ash"];

/// One step of the file, and the group of steps it runs beside: the items of an inner list run in parallel.
struct Item<'n> {
    node: Node,
    key: Option<&'n Node>,
    group: usize,
}

impl Translator<'_> {
    pub(super) fn steps(
        &mut self,
        field: Field<'_>,
        defaults: Option<Field<'_>>,
        handlers: Option<&Fields<'_>>,
    ) -> Option<Node> {
        let items = self.items(field, defaults)?;
        // Names first: a step may depend on one below it, and read what one above it printed.
        let names: Vec<String> = items.iter().enumerate().map(|(at, item)| self.names(at, item)).collect();
        for item in &items {
            self.find_outputs(&item.node);
        }
        let before = self.last_setup();
        let mut steps = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let span = item.node.span;
            let Some(mut step) = self.step_entries(&item.node, item.key) else { continue };
            step.add_at(span, "name", text(span, &names[at]));
            let mut depends: Vec<Node> = self.depends(&item.node, &names);
            if self.is_chain && item.group > 0 {
                let others = items.iter().zip(&names).filter(|(other, _)| other.group + 1 == item.group);
                depends.extend(others.map(|(_, name)| text(span, name)));
            }
            if depends.is_empty()
                && let Some(before) = &before
            {
                depends.push(text(span, before));
            }
            if !depends.is_empty() {
                step.add_at(span, "depends", list(span, depends));
            }
            steps.push((at, step, span));
        }
        let mut all = std::mem::take(&mut self.setup);
        // Handlers may read what steps printed, so they are looked at before steps are told to keep it.
        if let Some(handlers) = handlers {
            for name in ["success", "failure", "abort", "exit"] {
                if let Some(handler) = handlers.get(name) {
                    self.watch_all(handler.value);
                }
            }
        }
        for (at, mut step, span) in steps {
            for (_, watch) in self.watched.clone().into_iter().filter(|(watched, _)| *watched == at) {
                let file = watch.file(at);
                match watch {
                    Watch::Stdout if !step.has("stdout") => step.add_at(span, "stdout", text(span, file)),
                    Watch::Stderr if !step.has("stderr") => step.add_at(span, "stderr", text(span, file)),
                    Watch::ExitCode => step.prefix_work(&format!(
                        "trap 'printf %s $? > \"{file}\"' EXIT; mkdir -p \"$CADRAN_LOG_DIR\"\n"
                    )),
                    _ => self.refuse(
                        span,
                        "another step reads this output, and it goes to a file of its own",
                        "read that file",
                    ),
                }
            }
            all.push(step.node(span));
        }
        Some(list(field.value.span, all))
    }

    fn items<'n>(&mut self, field: Field<'n>, defaults: Option<Field<'n>>) -> Option<Vec<Item<'n>>> {
        let mut items = Vec::new();
        let with = |node: &Node| with_defaults(node, defaults.map(|field| field.value));
        match &field.value.kind {
            Kind::List(nodes) => {
                for (group, node) in nodes.iter().enumerate() {
                    match &node.kind {
                        Kind::List(inner) => {
                            items.extend(inner.iter().map(|node| Item {
                                node: with(node),
                                key: None,
                                group,
                            }));
                        }
                        _ => items.push(Item { node: with(node), key: None, group }),
                    }
                }
            }
            Kind::Map(entries) => {
                for (group, (key, node)) in entries.iter().enumerate() {
                    items.push(Item { node: with(node), key: Some(key), group });
                }
            }
            Kind::Scalar(_) => {
                let message = format!("`steps` takes a list of steps, not {}", field.value.what());
                self.findings.error(field.value.span, Code::WrongType, message);
                return None;
            }
        }
        Some(items)
    }

    /// The name of a step; its id and its name lead to it.
    fn names(&mut self, at: usize, item: &Item<'_>) -> String {
        let word = |name: &str| match &child(&item.node, name)?.kind {
            Kind::Scalar(word) if !word.text.trim().is_empty() => Some(word.text.trim().to_owned()),
            _ => None,
        };
        let id = word("id");
        let key = item.key.and_then(|key| match &key.kind {
            Kind::Scalar(word) => Some(word.text.clone()),
            _ => None,
        });
        let name = word("name").or(key).or_else(|| id.clone()).unwrap_or_else(|| format!("cmd_{}", at + 1));
        let name = name.replace(['/', '\\'], "_");
        for word in [Some(name.clone()), id].into_iter().flatten() {
            self.steps.push((word, at));
        }
        name
    }

    fn find_outputs(&mut self, node: &Node) {
        let name = child(node, "output").and_then(|output| match &output.kind {
            Kind::Scalar(name) => Some(name.text.clone()),
            Kind::Map(_) => match &child(output, "name")?.kind {
                Kind::Scalar(name) => Some(name.text.clone()),
                _ => None,
            },
            Kind::List(_) => None,
        });
        if let Some(name) = name {
            self.variables.push(name.trim().trim_start_matches('$').trim_matches(['{', '}']).to_owned());
        }
    }

    fn depends(&mut self, node: &Node, names: &[String]) -> Vec<Node> {
        let Some(depends) = child(node, "depends").or_else(|| child(node, "depends_on")) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for item in one_or_many(depends) {
            let Kind::Scalar(word) = &item.kind else {
                self.findings.error(
                    item.span,
                    Code::WrongType,
                    format!("`depends` takes names of steps, not {}", item.what()),
                );
                continue;
            };
            let word_text = word.text.trim();
            if word_text.is_empty() {
                continue;
            }
            // What is no step is said by the reader of the result, with its suggestion.
            let known = self.steps.iter().find(|(known, _)| known == word_text);
            let name = known.and_then(|(_, at)| names.get(*at)).map_or(word_text, String::as_str);
            found.push(text(item.span, name));
        }
        found
    }

    /// Notes what a handler reads of steps.
    fn watch_all(&mut self, node: &Node) {
        match &node.kind {
            Kind::Scalar(value) => {
                let mut refs = Vec::new();
                replace_paths(&value.text, |name, path| {
                    refs.push((name.to_owned(), path.to_owned()));
                    None
                });
                for (name, path) in refs {
                    self.watch(&name, &path);
                }
            }
            Kind::List(items) => items.iter().for_each(|item| self.watch_all(item)),
            Kind::Map(entries) => entries.iter().for_each(|(_, value)| self.watch_all(value)),
        }
    }

    /// A step or handler without its name and without `depends`.
    pub(super) fn step_entries(&mut self, node: &Node, key: Option<&Node>) -> Option<Entries> {
        let mut out = Entries::default();
        if let Kind::Scalar(command) = &node.kind
            && !node.is_null()
        {
            self.work_of_text(node.span, &command.text, &mut out);
            return Some(out);
        }
        let fields = Fields::read(node, &STEP, self.findings)?;
        for name in ["description", "timeout_sec", "signal_on_stop", "retry_policy", "shell"] {
            if let Some(field) = fields.get(name) {
                out.add_at(field.key.span, name, field.value.clone());
            }
        }
        if let Some(field) = fields.get("continue_on") {
            out.add_at(field.key.span, "continue_on", field.value.clone());
        }
        if let Some(field) = fields.get("mail_on_error")
            && flag(field.spelled, field.value, self.findings) == Some(true)
        {
            let message = format!("`{}` sends nothing here", field.spelled);
            self.findings.warn(field.key.span, Code::Unsupported, message, "send the mail from `handler_on`");
        }
        for name in ["stdout", "stderr"] {
            if let Some(field) = fields.get(name)
                && let Some(value) = filled(field.spelled, field.value, self.findings)
            {
                let path = self.path(field.value.span, value);
                out.add_at(field.key.span, name, text(field.value.span, path));
            }
        }
        if let Some(field) = fields.get("working_dir")
            && let Some(value) = filled(field.spelled, field.value, self.findings)
        {
            let path = self.path(field.value.span, value);
            out.add_at(field.key.span, "dir", text(field.value.span, path));
        }
        if let Some(field) = fields.get("output") {
            self.output(field, &mut out);
        }
        if let Some(field) = fields.get("preconditions") {
            let conditions = self.preconditions(field, false);
            out.add_at(field.key.span, "preconditions", conditions);
        }
        let prelude = fields.get("env").map(|field| self.step_env(field, &mut out)).unwrap_or_default();
        let span = key.map_or(node.span, |key| key.span);
        self.work(&fields, span, prelude, &mut out);
        Some(out)
    }

    /// The name under which later steps see the output.
    fn output(&mut self, field: Field<'_>, out: &mut Entries) {
        let name = match &field.value.kind {
            Kind::Map(_) => {
                let Some(inner) = Fields::read(field.value, &OUTPUT, self.findings) else { return };
                let Some(name) = inner.get("name") else {
                    let message = "this `output` has no `name`";
                    return self.findings.error_help(
                        field.value.span,
                        Code::Missing,
                        message,
                        "write `output: NAME`",
                    );
                };
                name.value
            }
            _ => field.value,
        };
        let Some(word) = filled("output", name, self.findings) else { return };
        let word = word.trim().trim_start_matches('$').trim_matches(['{', '}']);
        out.add_at(field.key.span, "output", text(name.span, word));
    }

    /// `env` of a step: what runs a command is set by a line before the step's own text.
    fn step_env(&mut self, field: Field<'_>, out: &mut Entries) -> String {
        let (mut kept, mut prelude) = (Vec::new(), String::new());
        for (name, value, span) in self.pairs(field) {
            let value = self.with_consts(&value);
            let found = pieces(&value);
            if found.iter().any(|piece| matches!(piece, Piece::Command(_) | Piece::WithDefault(..))) {
                self.runs_before(span, &found);
                prelude.push_str(&format!("{name}=$({}\n) || exit\nexport {name}\n", shell_print(&found)));
                continue;
            }
            let mut one = Entries::default();
            one.add_at(span, &name, text(span, own_text(&found)));
            kept.push(one.node(span));
        }
        if !kept.is_empty() {
            out.add_at(field.key.span, "env", list(field.value.span, kept));
        }
        prelude
    }

    fn work(&mut self, fields: &Fields<'_>, span: Span, prelude: String, out: &mut Entries) {
        if let Some(field) = fields.get("executor").or_else(|| fields.get("type"))
            && !self.executor(field, fields, out)
        {
            return;
        }
        let command = fields.get("command");
        if let Some(script) = fields.get("script") {
            let Some(body) = filled(script.spelled, script.value, self.findings) else { return };
            let named =
                command.map(|field| field.value).or_else(|| fields.get("shell").map(|field| field.value));
            let interpreter = interpreter(body, named);
            if let Some(command) = command {
                out.remove("shell");
                out.add_at(command.key.span, "shell", command.value.clone());
            }
            let is_shell = interpreter.as_deref().is_none_or(|name| SHELLS.contains(&name));
            if !is_shell {
                self.no_values_in(script.value.span, body);
                if !prelude.is_empty() {
                    let help = "set it in the `env` of the file, or inside of the script";
                    self.refuse(
                        script.key.span,
                        "a value of `env` that runs a command needs a shell for its step",
                        help,
                    );
                }
                out.add_at(script.key.span, "script", text(script.value.span, body));
                return;
            }
            let body = self.shell_text(script.value.span, body, out);
            // The first line may name the interpreter and stays the first.
            let body = match body.starts_with("#!").then(|| body.split_once('\n')).flatten() {
                Some((first, rest)) => format!("{first}\n{prelude}{rest}"),
                None => format!("{prelude}{body}"),
            };
            out.add_at(script.key.span, "script", text(script.value.span, body));
            return;
        }
        let Some(command) = command else {
            let help = "add `command: echo hello`, or a `script`";
            return self.findings.error_help(
                span,
                Code::Missing,
                "the step needs `command` or `script`",
                help,
            );
        };
        let args = fields.get("args").map(|field| self.args(field)).unwrap_or_default();
        let commands: Vec<String> = match &command.value.kind {
            Kind::List(items) => items
                .iter()
                .filter_map(|item| filled(command.spelled, item, self.findings).map(str::to_owned))
                .collect(),
            _ => {
                filled(command.spelled, command.value, self.findings).map(str::to_owned).into_iter().collect()
            }
        };
        let body = match &commands[..] {
            [] => return,
            [one] => format!("{one}{args}"),
            several => {
                // Each is a shell of its own, and the first failure ends the step.
                self.note(
                    command.key.span,
                    "a list of commands became a shell text that runs them one after another",
                );
                let shells = several.iter().map(|one| format!("(\n{one}{args}\n)"));
                let named = fields.get("shell").is_some();
                let end = if named { " || exit\n" } else { "\n" };
                shells.map(|one| one + end).collect()
            }
        };
        let body = match fields.get("repeat_policy") {
            Some(repeat) => self.repeat(repeat, &body, fields),
            None => body,
        };
        self.work_of_text(command.value.span, &format!("{prelude}{body}"), out);
    }

    fn work_of_text(&mut self, span: Span, body: &str, out: &mut Entries) {
        if body.trim().is_empty() {
            return self.findings.error(span, Code::BadValue, "`command` is empty");
        }
        let body = self.shell_text(span, body, out);
        out.add_at(span, "run", text(span, body));
    }

    fn args(&mut self, field: Field<'_>) -> String {
        match &field.value.kind {
            Kind::Scalar(words) => format!(" {}", words.text),
            _ => one_or_many(field.value)
                .iter()
                .filter_map(|item| scalar(field.spelled, "text", item, self.findings))
                .map(|word| {
                    format!(
                        " \"{}\"",
                        word.text.replace('\\', "\\\\").replace('"', "\\\"").replace('`', "\\`")
                    )
                })
                .collect(),
        }
    }

    /// A text for a shell with what Dagu would have put into it: values of JSON outputs come by variables of the step.
    fn shell_text(&mut self, span: Span, body: &str, out: &mut Entries) -> String {
        let body = self.with_consts(body);
        let mut wanted: Vec<(String, String)> = Vec::new();
        let mut refused = Vec::new();
        let variables = self.variables.clone();
        let mut watched = Vec::new();
        let steps = self.steps.clone();
        let replaced = replace_paths(&body, |name, path| {
            if let Some(watch) = Watch::from_path(path)
                && let Some((_, step)) = steps.iter().find(|(known, _)| known == name)
            {
                watched.push((*step, watch));
                let file = watch.file(*step);
                return Some(match watch {
                    Watch::ExitCode => format!("$(cat \"{file}\")"),
                    _ => file,
                });
            }
            if matches!(name, "env" | "params") {
                return Some(format!("${{{}}}", &path[1..]));
            }
            if variables.iter().any(|known| known == name) {
                let spec = format!("{name}{path}");
                let variable: String =
                    spec.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect::<String>();
                let variable = format!("JSON_{variable}");
                if !wanted.iter().any(|(known, _)| *known == variable) {
                    wanted.push((variable.clone(), spec));
                }
                return Some(format!("${{{variable}}}"));
            }
            if path.starts_with('.') {
                refused.push(format!("${{{name}{path}}}"));
            }
            None
        });
        for one in watched {
            if !self.watched.contains(&one) {
                self.watched.push(one);
            }
        }
        for one in refused {
            let help = "use the output of a step, as in `output: OUT` and `${OUT.key}`, or `${STEP.stdout}`";
            self.refuse(span, format!("`{one}` names no output and no step of this file"), help);
        }
        if !wanted.is_empty() {
            let env = wanted.into_iter().map(|(variable, spec)| {
                let mut one = Entries::default();
                one.add_at(span, &variable, text(span, format!("${{json:{spec}}}")));
                one.node(span)
            });
            out.extend_env(span, env.collect());
        }
        replaced
    }

    /// Dagu puts values into the text of a script before its interpreter reads it. Here values are data: a script that is
    /// not one of a shell is refused when it counts on that.
    fn no_values_in(&mut self, span: Span, body: &str) {
        let mut rest = body;
        while let Some(at) = rest.find('$') {
            let after = &rest[at + 1..];
            let inner = after.strip_prefix('{').unwrap_or(after);
            let name = &inner[..name_len(inner)];
            if self.variables.iter().any(|known| known == name) {
                let help = format!("read it from the environment instead, as in `os.environ[\"{name}\"]`");
                let message = format!("the script counts on the value of `{name}` being put into its text");
                return self.refuse(span, message, help);
            }
            rest = after;
        }
    }

    /// `preconditions` of the file or of a step.
    pub(super) fn preconditions(&mut self, field: Field<'_>, is_first: bool) -> Node {
        let mut found = Vec::new();
        for item in one_or_many(field.value) {
            let (condition, expected, negate) = match &item.kind {
                Kind::Map(_) => {
                    let Some(inner) = Fields::read(item, &CONDITION, self.findings) else { continue };
                    let Some(condition) = inner.get("condition") else {
                        self.findings.error(item.span, Code::Missing, "this precondition has no `condition`");
                        continue;
                    };
                    (condition.value, inner.get("expected"), inner.get("negate"))
                }
                _ => (item, None, None),
            };
            let Some(value) = filled("condition", condition, self.findings) else { continue };
            let value = self.with_consts(value);
            let mut one = Entries::default();
            match expected {
                // A command whose exit code counts.
                None => one.add_at(condition.span, "condition", text(condition.span, &value)),
                Some(expected) => {
                    let parts = pieces(&value);
                    if is_first
                        && let Some(Piece::Variable(name)) = parts
                            .iter()
                            .find(|piece| self.is_late(piece) && matches!(piece, Piece::Variable(_)))
                    {
                        let message = format!("`{name}` is not known yet when this is judged");
                        self.refuse(condition.span, message, "write its command here, in backticks");
                    }
                    self.runs_before(condition.span, &parts);
                    let is_command =
                        parts.iter().any(|piece| matches!(piece, Piece::Command(_) | Piece::WithDefault(..)));
                    let own = match &parts[..] {
                        [Piece::Command(command)] => format!("$({command})"),
                        _ if is_command => format!("$({})", shell_print(&parts)),
                        _ => own_text(&parts),
                    };
                    one.add_at(condition.span, "condition", text(condition.span, own));
                    one.add_at(expected.key.span, "expected", expected.value.clone());
                }
            }
            if let Some(negate) = negate {
                one.add_at(negate.key.span, "negate", negate.value.clone());
            }
            found.push(one.node(item.span));
        }
        list(field.value.span, found)
    }

    /// Kinds of steps that are commands of another program. True when the step goes on as a plain command.
    fn executor(&mut self, field: Field<'_>, fields: &Fields<'_>, out: &mut Entries) -> bool {
        let kind = match &field.value.kind {
            Kind::Map(_) => child(field.value, "type"),
            _ => Some(field.value),
        };
        let Some(kind) = kind else {
            self.findings.error(field.value.span, Code::Missing, "this executor has no `type`");
            return false;
        };
        let Some(word) = scalar("type", "a kind of step", kind, self.findings) else { return false };
        match word.text.trim() {
            "" | "shell" | "command" | "local" => true,
            "http" => {
                let config = match &field.value.kind {
                    Kind::Map(_) => child(field.value, "config"),
                    _ => fields.get("config").map(|config| config.value),
                };
                self.http(kind.span, config, fields, out);
                false
            }
            "jq" => {
                let (Some(query), Some(input)) = (fields.get("command"), fields.get("script")) else {
                    self.refuse(
                        field.key.span,
                        "a `jq` step needs `command` and `script`",
                        "add the query and its input",
                    );
                    return false;
                };
                let (Some(query), Some(body)) = (
                    filled("command", query.value, self.findings),
                    filled("script", input.value, self.findings),
                ) else {
                    return false;
                };
                let body = match body.trim() {
                    one if one.starts_with('$') && name_len(one[1..].trim_start_matches('{')) > 0 => {
                        format!("\"{one}\"")
                    }
                    other => shell_word(other),
                };
                let line = format!("printf '%s' {body} | jq {}", shell_word(query));
                self.note(field.key.span, "a `jq` step became a command that needs the program jq");
                self.work_of_text(input.value.span, &line, out);
                false
            }
            other => {
                let message = format!("steps of the kind `{other}` are not supported in a Dagu file");
                self.refuse(kind.span, message, "write what it does as `command` or `script`");
                false
            }
        }
    }
}

fn child<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    let Kind::Map(entries) = &node.kind else { return None };
    let is = |key: &Node| matches!(&key.kind, Kind::Scalar(key) if snake_case(&key.text) == name);
    entries.iter().find(|(key, value)| is(key) && !value.is_null()).map(|(_, value)| value)
}

/// A step with the defaults of the file for what it does not say.
fn with_defaults(node: &Node, defaults: Option<&Node>) -> Node {
    let (Some(Kind::Map(defaults)), Kind::Map(own)) = (defaults.map(|node| &node.kind), &node.kind) else {
        return node.clone();
    };
    let mut entries = own.clone();
    for (key, value) in defaults {
        let Kind::Scalar(word) = &key.kind else { continue };
        if child(node, &snake_case(&word.text)).is_none() {
            entries.push((key.clone(), value.clone()));
        }
    }
    Node { span: node.span, kind: Kind::Map(entries) }
}

/// The name of the program that reads a script: of its `#!` line, or of the command or shell that was named.
fn interpreter(body: &str, named: Option<&Node>) -> Option<String> {
    let line = match (body.strip_prefix("#!"), named) {
        (Some(rest), _) => rest.lines().next().unwrap_or_default().replace("/usr/bin/env", ""),
        (None, Some(Node { kind: Kind::Scalar(line), .. })) => line.text.clone(),
        (None, Some(Node { kind: Kind::List(items), .. })) => match items.first().map(|item| &item.kind) {
            Some(Kind::Scalar(word)) => word.text.clone(),
            _ => return None,
        },
        _ => return None,
    };
    let word = line.split_whitespace().find(|word| !word.starts_with('-'))?;
    Some(word.rsplit('/').next().unwrap_or(word).to_owned())
}
