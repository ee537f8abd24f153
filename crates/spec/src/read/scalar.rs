//! One value: text, a flag, a number, a duration, a word of a list.

use cadran_core::Millis;
use cadran_cron::{Zone, parse_duration};

use super::findings::Findings;
use crate::diagnostic::{Code, printable};
use crate::suggest::nearest;
use crate::tree::{Kind, Node, Scalar, Span};

/// Text, from any value that is not a list, a map or nothing.
pub(crate) fn text<'n>(name: &str, node: &'n Node, findings: &mut Findings) -> Option<&'n str> {
    scalar(name, "text", node, findings).map(|scalar| scalar.text.as_str())
}

/// Text that says something.
pub(crate) fn filled<'n>(name: &str, node: &'n Node, findings: &mut Findings) -> Option<&'n str> {
    let text = text(name, node, findings)?;
    if text.trim().is_empty() {
        findings.error(node.span, Code::BadValue, format!("`{name}` is empty"));
        return None;
    }
    Some(text)
}

/// Text of a bounded length without control characters, for what is shown on one line.
pub(crate) fn line<'n>(
    name: &str,
    bytes_max: usize,
    node: &'n Node,
    findings: &mut Findings,
) -> Option<&'n str> {
    let text = filled(name, node, findings)?;
    if text.len() > bytes_max {
        findings.error(
            node.span,
            Code::Limit,
            format!("`{name}` has {} bytes; allowed are {bytes_max}", text.len()),
        );
        return None;
    }
    if let Some(c) = text.chars().find(|c| c.is_control()) {
        findings.error(
            node.span,
            Code::BadValue,
            format!("`{name}` holds the control character {}", c.escape_unicode()),
        );
        return None;
    }
    Some(text)
}

/// `true` or `false`.
pub(crate) fn flag(name: &str, node: &Node, findings: &mut Findings) -> Option<bool> {
    let value = scalar(name, "true or false", node, findings)?;
    match value.text.as_str() {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        other => {
            let help = match other.to_ascii_lowercase().as_str() {
                "yes" | "y" | "on" | "1" => "write `true`",
                "no" | "n" | "off" | "0" => "write `false`",
                _ => "write `true` or `false`",
            };
            let message = format!("`{name}` takes true or false, not `{}`", short(other));
            findings.error_help(node.span, Code::WrongType, message, help);
            None
        }
    }
}

/// A whole number within bounds.
pub(crate) fn whole(name: &str, min: i64, max: i64, node: &Node, findings: &mut Findings) -> Option<i64> {
    let value = scalar(name, "a whole number", node, findings)?;
    let Ok(number) = value.text.parse::<i64>() else {
        let message =
            format!("`{name}` takes a whole number from {min} to {max}, not `{}`", short(&value.text));
        findings.error(node.span, Code::WrongType, message);
        return None;
    };
    if !(min..=max).contains(&number) {
        findings.error(
            node.span,
            Code::BadValue,
            format!("`{name}` is {number}; allowed are {min} to {max}"),
        );
        return None;
    }
    Some(number)
}

/// A duration with its unit.
pub(crate) fn duration(name: &str, node: &Node, findings: &mut Findings) -> Option<Millis> {
    let value = scalar(name, "a duration", node, findings)?;
    match parse_duration(&value.text) {
        Ok(millis) => Some(millis),
        Err(error) => {
            cron_error(node, value, 0, Some(name), &error, findings);
            None
        }
    }
}

/// The longest time a `…Sec` key may give: a hundred years.
const SECONDS_MAX: i64 = 3_153_600_000;

/// A duration: with its unit, or for the keys that end in `sec` a number of seconds.
pub(crate) fn duration_or_secs(
    name: &str,
    in_seconds: bool,
    node: &Node,
    findings: &mut Findings,
) -> Option<Millis> {
    if in_seconds {
        whole(name, 0, SECONDS_MAX, node, findings).map(|secs| secs * 1000)
    } else {
        duration(name, node, findings)
    }
}

/// A time zone of the database.
pub(crate) fn zone(name: &str, node: &Node, findings: &mut Findings) -> Option<Zone> {
    let value = text(name, node, findings)?;
    match Zone::get(value.trim()) {
        Ok(zone) => Some(zone),
        Err(error) => {
            let help = match error.suggestion() {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "write a name of the IANA database, such as `Europe/Paris` or `UTC`".to_owned(),
            };
            let message = format!("there is no time zone `{}`", short(value));
            findings.error_help(node.span, Code::Schedule, message, help);
            None
        }
    }
}

/// One of a few words, in any case.
pub(crate) fn word<T: Copy>(
    name: &str,
    words: &[(&str, T)],
    node: &Node,
    findings: &mut Findings,
) -> Option<T> {
    let value = text(name, node, findings)?;
    if let Some((_, found)) = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(value)) {
        return Some(*found);
    }
    if findings.is_full() {
        findings.error(node.span, Code::BadValue, "not one of the words");
        return None;
    }
    let help = match nearest(value, words.iter().map(|(word, _)| *word)) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("allowed are {}", words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ")),
    };
    findings.error_help(node.span, Code::BadValue, format!("`{name}` cannot be `{}`", short(value)), help);
    None
}

/// One value or a list of values.
pub(crate) fn one_or_many(node: &Node) -> &[Node] {
    match &node.kind {
        Kind::List(items) => items,
        _ => std::slice::from_ref(node),
    }
}

/// Names that a shell and `${NAME}` can use, and that Cadran does not set itself.
pub(crate) fn variable<'t>(
    name: &str,
    text: &'t str,
    span: Span,
    findings: &mut Findings,
) -> Option<&'t str> {
    let good = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && text.len() <= VARIABLE_BYTES_MAX;
    if !good {
        let message = format!("`{}` in `{name}` is no name for a variable", short(text));
        findings.error_help(
            span,
            Code::BadValue,
            message,
            "use letters, digits and `_`, and begin with a letter or `_`",
        );
        return None;
    }
    if text.starts_with("CADRAN_") {
        let message = format!("`{text}` is a name that Cadran sets itself");
        findings.error_help(
            span,
            Code::BadValue,
            message,
            "names that begin with `CADRAN_` are taken; choose another",
        );
        return None;
    }
    Some(text)
}

/// Longer names are a mistake, and would have to travel in every order.
const VARIABLE_BYTES_MAX: usize = 128;

/// The part of a value that a message shows.
pub(crate) fn short(text: &str) -> String {
    const SHOWN: usize = 48;
    let mut shown = printable(&text.chars().take(SHOWN).collect::<String>());
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

/// Places an error of the cron crate, whose columns count in the value, in the file.
/// `before` characters were put before the value when it was handed over.
pub(crate) fn cron_error(
    node: &Node,
    value: &Scalar,
    before: u32,
    name: Option<&str>,
    error: &cadran_cron::Error,
    findings: &mut Findings,
) {
    let span = cron_span(node, value, before, error);
    let message = match name {
        Some(name) => format!("`{name}`: {error}"),
        None => error.to_string(),
    };
    match error.help() {
        Some(help) => findings.error_help(span, Code::Schedule, message, help),
        None => findings.error(span, Code::Schedule, message),
    }
}

/// Where in the file the text is that an error of a schedule speaks of.
pub(crate) fn cron_span(node: &Node, value: &Scalar, before: u32, error: &cadran_cron::Error) -> Span {
    match value.verbatim {
        Some(skip) if error.len() > 0 => {
            let start = (error.column() as u32 - 1).saturating_sub(before);
            node.span.part(skip + start, error.len() as u32)
        }
        _ => node.span,
    }
}

pub(crate) fn scalar<'n>(
    name: &str,
    wanted: &str,
    node: &'n Node,
    findings: &mut Findings,
) -> Option<&'n Scalar> {
    match &node.kind {
        Kind::Scalar(scalar) if !node.is_null() => Some(scalar),
        _ => {
            findings.error(
                node.span,
                Code::WrongType,
                format!("`{name}` takes {wanted}, not {}", node.what()),
            );
            None
        }
    }
}
