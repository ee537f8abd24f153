//! Lists of names and values: `env`, `params`, `labels`, and lists of plain text.

use cadran_core::Param;

use super::fields::{Field, Fields, Shape, key};
use super::findings::Findings;
use super::scalar::{filled, flag, one_or_many, scalar, short, text, variable};
use crate::diagnostic::Code;
use crate::tree::{Kind, Node, Span};

/// Variables of a job or step. The kernel bounds what a process can be given; this stays well below.
const ENV_MAX: usize = 500;
/// Parameters of a job.
const PARAMS_MAX: usize = 200;
/// Labels of a job.
const LABELS_MAX: usize = 100;
/// Longest label, name and value together.
const LABEL_BYTES_MAX: usize = 256;
/// Items of a plain list: arguments, footprint keys, exit codes.
const ITEMS_MAX: usize = 1000;

/// `env`: a map, or a list of maps and `NAME=value` texts.
pub(crate) fn env(field: Field<'_>, findings: &mut Findings) -> Vec<(String, String)> {
    let mut env: Vec<(String, String)> = Vec::new();
    for (name, value, span) in pairs(field.spelled, field.value, findings) {
        let Some(value) = value else {
            let message = format!("`{}` in `{}` has no value", short(&name), field.spelled);
            findings.error_help(span, Code::BadValue, message, "write `NAME=value` or `NAME: value`");
            continue;
        };
        if variable(field.spelled, &name, span, findings).is_some() {
            env.push((name, value));
        }
    }
    at_most(ENV_MAX, &mut env, field, findings);
    env
}

/// `labels` and `tags`: a map, a list, or words between commas.
pub(crate) fn labels(field: Field<'_>, findings: &mut Findings) -> Vec<(String, String)> {
    let mut labels = Vec::new();
    let node = field.value;
    let found = match &node.kind {
        Kind::Scalar(value) if !node.is_null() => {
            if value.text.split(',').nth(LABELS_MAX).is_some() {
                let message = format!("`{}` has more than {LABELS_MAX} items", field.spelled);
                findings.error(node.span, Code::Limit, message);
            }
            let parts = value.text.split(',').take(LABELS_MAX);
            parts.map(|part| split_pair(part.trim(), node.span)).collect()
        }
        _ => pairs(field.spelled, node, findings),
    };
    for (name, value, span) in found {
        let value = value.unwrap_or_default();
        if name.is_empty() {
            findings.error(span, Code::BadValue, format!("a label in `{}` has no name", field.spelled));
        } else if name.len() + value.len() > LABEL_BYTES_MAX
            || name.chars().chain(value.chars()).any(char::is_control)
        {
            let message = format!(
                "the label `{}` is longer than {LABEL_BYTES_MAX} bytes or holds control characters",
                short(&name)
            );
            findings.error(span, Code::BadValue, message);
        } else if !labels.contains(&(name.clone(), value.clone())) {
            labels.push((name, value));
        }
        if labels.len() > LABELS_MAX {
            break;
        }
    }
    at_most(LABELS_MAX, &mut labels, field, findings);
    labels
}

pub(crate) const PARAM: Shape = Shape {
    what: "a parameter",
    keys: &[key("name"), key("default"), key("required"), key("description")],
    unsupported: &[
        ("type", "values are text; check them in the step that uses them"),
        ("enum", "check the value in the step that uses it"),
        ("minimum", "check the value in the step that uses it"),
        ("maximum", "check the value in the step that uses it"),
        ("pattern", "check the value in the step that uses it"),
        ("schema", "list the parameters with their defaults"),
    ],
};

/// `params`: a text of words, a list, or a map.
pub(crate) fn params(field: Field<'_>, findings: &mut Findings) -> Vec<Param> {
    let node = field.value;
    let mut params = Vec::new();
    match &node.kind {
        Kind::Scalar(value) => {
            for word in words(&value.text) {
                param_word(field, &word, node.span, &mut params, findings);
            }
        }
        Kind::List(items) => {
            for item in items {
                match &item.kind {
                    Kind::Map(entries) => {
                        if is_rich(item) {
                            rich_param(None, item, &mut params, findings);
                        } else {
                            param_map(field, entries, &mut params, findings);
                        }
                    }
                    _ => {
                        if let Some(value) = text("params", item, findings) {
                            param_word(field, value, item.span, &mut params, findings);
                        }
                    }
                }
            }
        }
        Kind::Map(entries) => param_map(field, entries, &mut params, findings),
    }
    at_most(PARAMS_MAX, &mut params, field, findings);
    let names: Vec<&String> = params.iter().filter_map(|param| param.name.as_ref()).collect();
    if let Some(twice) = (1..names.len()).find(|&at| names[..at].contains(&names[at])) {
        let message = format!("the parameter `{}` is there twice", names[twice]);
        findings.error(field.key.span, Code::DuplicateKey, message);
    }
    params
}

fn param_map(field: Field<'_>, entries: &[(Node, Node)], params: &mut Vec<Param>, findings: &mut Findings) {
    for (key, value) in entries {
        let Some(name) = filled(field.spelled, key, findings) else { continue };
        if variable(field.spelled, name, key.span, findings).is_none() {
            continue;
        }
        if matches!(value.kind, Kind::Map(_)) {
            rich_param(Some(name), value, params, findings);
        } else {
            let default = if value.is_null() { Some("") } else { text(name, value, findings) };
            if let Some(default) = default {
                params.push(Param {
                    name: Some(name.to_owned()),
                    default: default.to_owned(),
                    required: false,
                });
            }
        }
    }
}

/// `{name: …, default: …, required: …}`, or the same below its name.
fn rich_param(name: Option<&str>, node: &Node, params: &mut Vec<Param>, findings: &mut Findings) {
    let Some(fields) = Fields::read(node, &PARAM, findings) else { return };
    let own = fields.get("name");
    let name = match (name, own) {
        (Some(name), _) => Some(name),
        (None, Some(field)) => {
            let text = filled("name", field.value, findings);
            text.and_then(|text| variable("params", text, field.value.span, findings))
        }
        (None, None) => None,
    };
    let default = fields.get("default").and_then(|field| text("default", field.value, findings));
    let required =
        fields.get("required").and_then(|field| flag("required", field.value, findings)).unwrap_or(false);
    if let Some(name) = name {
        params.push(Param {
            name: Some(name.to_owned()),
            default: default.unwrap_or_default().to_owned(),
            required,
        });
    }
}

fn is_rich(node: &Node) -> bool {
    let Kind::Map(entries) = &node.kind else { return false };
    entries.iter().any(|(key, _)| matches!(&key.kind, Kind::Scalar(key) if key.text == "name"))
        && entries.iter().any(|(key, _)| {
            matches!(&key.kind, Kind::Scalar(key) if matches!(key.text.as_str(), "default" | "required" | "type"))
        })
}

fn param_word(field: Field<'_>, word: &str, span: Span, params: &mut Vec<Param>, findings: &mut Findings) {
    let (name, value) = match word.split_once('=') {
        Some((name, value)) if !name.is_empty() && !name.contains(char::is_whitespace) => (Some(name), value),
        _ => (None, word),
    };
    match name {
        Some(name) if variable(field.spelled, name, span, findings).is_none() => {}
        name => {
            params.push(Param { name: name.map(str::to_owned), default: value.to_owned(), required: false })
        }
    }
}

/// Words of a text as a shell would split them: quotes keep white space together. Nothing is executed or replaced.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let (mut inside, mut quote) = (false, None);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('"') | None, '\\') => {
                word.extend(chars.next());
                inside = true;
            }
            (Some(_), c) => word.push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                inside = true;
            }
            (None, c) if c.is_whitespace() => {
                if inside {
                    words.push(std::mem::take(&mut word));
                }
                inside = false;
            }
            (None, c) => {
                word.push(c);
                inside = true;
            }
        }
    }
    if inside {
        words.push(word);
    }
    words
}

/// Texts: one, or a list of them.
pub(crate) fn texts(field: Field<'_>, findings: &mut Findings) -> Vec<String> {
    let mut texts: Vec<String> = one_or_many(field.value)
        .iter()
        .take(ITEMS_MAX + 1)
        .filter_map(|item| text(field.spelled, item, findings).map(str::to_owned))
        .collect();
    at_most(ITEMS_MAX, &mut texts, field, findings);
    texts
}

/// Exit codes: one, or a list of them.
pub(crate) fn exit_codes(field: Field<'_>, findings: &mut Findings) -> Vec<i32> {
    let mut codes: Vec<i32> = one_or_many(field.value)
        .iter()
        .take(ITEMS_MAX + 1)
        .filter_map(|item| {
            super::scalar::whole(field.spelled, 0, 255, item, findings).map(|code| code as i32)
        })
        .collect();
    at_most(ITEMS_MAX, &mut codes, field, findings);
    codes
}

/// Names with values from a map, or from a list of maps and `NAME=value` texts.
fn pairs(name: &str, node: &Node, findings: &mut Findings) -> Vec<(String, Option<String>, Span)> {
    let mut found = Vec::new();
    for item in one_or_many(node) {
        match &item.kind {
            Kind::Map(entries) => {
                for (key, value) in entries {
                    let Some(key_text) = text(name, key, findings) else { continue };
                    let value = if value.is_null() { Some("") } else { text(key_text, value, findings) };
                    if let Some(value) = value {
                        found.push((key_text.to_owned(), Some(value.to_owned()), key.span));
                    }
                }
            }
            _ => {
                if let Some(value) = scalar(name, "names with values", item, findings) {
                    found.push(split_pair(&value.text, item.span));
                }
            }
        }
    }
    found
}

fn split_pair(text: &str, span: Span) -> (String, Option<String>, Span) {
    match text.split_once('=') {
        Some((name, value)) => (name.trim().to_owned(), Some(value.to_owned()), span),
        None => (text.trim().to_owned(), None, span),
    }
}

fn at_most<T>(max: usize, items: &mut Vec<T>, field: Field<'_>, findings: &mut Findings) {
    if items.len() > max {
        findings.error(field.key.span, Code::Limit, format!("`{}` has more than {max} items", field.spelled));
        items.truncate(max);
    }
}
