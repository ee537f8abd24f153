//! What stands in a file of Cadran's own form and would mean something else to Dagu.

use super::text::{Piece, pieces};
use crate::diagnostic::Code;
use crate::read::{Findings, snake_case};
use crate::tree::{Kind, Node};

/// Warns of constructs that mean something else in Dagu, in a file that is read by Cadran's own rules.
pub(crate) fn warn_of_other_meaning(root: &Node, findings: &mut Findings) {
    map(root, findings);
    let Some(steps) = super::value_of(root, "steps") else { return };
    match &steps.kind {
        Kind::List(items) => items.iter().for_each(|step| map(step, findings)),
        Kind::Map(entries) => entries.iter().for_each(|(_, step)| map(step, findings)),
        Kind::Scalar(_) => {}
    }
}

fn map(node: &Node, findings: &mut Findings) {
    let Kind::Map(entries) = &node.kind else { return };
    for (key, value) in entries {
        let Kind::Scalar(word) = &key.kind else { continue };
        match snake_case(&word.text).as_str() {
            "command" | "cmd" if matches!(value.kind, Kind::List(_)) => {
                let message = format!(
                    "a list under `{}` is one program and its arguments; to Dagu it is several commands",
                    word.text
                );
                findings.warn(
                    key.span,
                    Code::Conflict,
                    message,
                    "write `run`, or say `dialect: dagu` for the whole file",
                );
            }
            "env" | "params" => values(value, findings),
            "dir" | "working_dir" | "stdout" | "stderr" => one(value, findings),
            _ => {}
        }
    }
}

fn values(node: &Node, findings: &mut Findings) {
    match &node.kind {
        Kind::Scalar(_) => one(node, findings),
        Kind::List(items) => items.iter().for_each(|item| values(item, findings)),
        Kind::Map(entries) => entries.iter().for_each(|(_, value)| values(value, findings)),
    }
}

fn one(node: &Node, findings: &mut Findings) {
    let Kind::Scalar(value) = &node.kind else { return };
    for piece in pieces(&value.text) {
        match piece {
            Piece::Command(_) => {
                let message = "a command in backticks stays text here; Dagu runs it";
                findings.warn(node.span, Code::Conflict, message, "let a step print it, with `output: NAME`");
                return;
            }
            Piece::Variable(name)
                if value.text.contains(&format!("${name}"))
                    && !name.starts_with(|c: char| c.is_ascii_digit()) =>
            {
                let message = format!("`${name}` stays text here; Dagu puts the value in its place");
                findings.warn(
                    node.span,
                    Code::Conflict,
                    message,
                    format!("write `${{{name}}}` for the value, `$${name}` for the text"),
                );
                return;
            }
            _ => {}
        }
    }
}
