//! A rewritten tree as YAML, for imports.

use crate::tree::{Kind, Node, Scalar};

/// The text of a file whose top is this map.
pub(super) fn yaml(root: &Node) -> String {
    let mut out = String::new();
    node(root, 0, &mut out);
    out
}

fn node(node: &Node, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    match &node.kind {
        Kind::Scalar(value) => {
            scalar(value, depth, out);
        }
        Kind::Map(entries) if entries.is_empty() => out.push_str("{}\n"),
        Kind::List(items) if items.is_empty() => out.push_str("[]\n"),
        Kind::Map(entries) => {
            for (at, (key, value)) in entries.iter().enumerate() {
                // The first key of a map in a list stands on the line of its dash.
                if at > 0 || !out.ends_with("- ") {
                    out.push_str(&indent);
                }
                if let Kind::Scalar(key) = &key.kind {
                    out.push_str(&word(&key.text));
                }
                out.push(':');
                child(value, depth, out);
            }
        }
        Kind::List(items) => {
            for item in items {
                out.push_str(&indent);
                out.push_str("- ");
                match &item.kind {
                    Kind::Scalar(value) => scalar(value, depth, out),
                    _ => self::node(item, depth + 1, out),
                }
            }
        }
    }
}

fn child(value: &Node, depth: usize, out: &mut String) {
    match &value.kind {
        Kind::Map(entries) if entries.is_empty() => out.push_str(" {}\n"),
        Kind::List(items) if items.is_empty() => out.push_str(" []\n"),
        Kind::Scalar(value) => {
            out.push(' ');
            scalar(value, depth, out);
        }
        _ => {
            out.push('\n');
            node(value, depth + 1, out);
        }
    }
}

fn scalar(value: &Scalar, depth: usize, out: &mut String) {
    if value.plain {
        out.push_str(&value.text);
    } else if is_block(&value.text) {
        let indent = "  ".repeat(depth + 1);
        out.push_str(if value.text.ends_with('\n') { "|" } else { "|-" });
        for line in value.text.trim_end_matches('\n').lines() {
            out.push('\n');
            if !line.is_empty() {
                out.push_str(&indent);
                out.push_str(line);
            }
        }
    } else {
        out.push_str(&word(&value.text));
    }
    out.push('\n');
}

/// Whether a text of several lines stays readable as a block: YAML has none for every white space.
fn is_block(text: &str) -> bool {
    text.trim_end_matches('\n').contains('\n')
        && !text.starts_with([' ', '\n', '\t'])
        && !text.ends_with("\n\n")
        && !text.chars().any(|c| c.is_control() && c != '\n' && c != '\t')
        && !text.contains(['\u{85}', '\u{2028}', '\u{2029}', '\u{feff}'])
}

/// One word or text on a line; quoted as JSON does wherever it could be read as something else.
fn word(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'/' | b'.'))
        && !matches!(
            text.to_ascii_lowercase().as_str(),
            "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
        );
    if is_plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}
