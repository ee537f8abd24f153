//! YAML text to a located tree: every key and value knows its line and column.
//!
//! Anchors, aliases and `<<` merges are resolved here, within a budget; nothing above this file knows of them.
//! Scalars stay text: `no` is the text `no`, and whoever reads a field decides what it must be.

mod build;

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::diagnostic::{Code, Diagnostic, Severity};
use build::Builder;

/// The largest job file. A thousand steps with scripts fit many times; a log file copied by mistake does not.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// Keys and values of one file, after aliases are replaced by what they stand for: a bomb stops here.
pub(crate) const NODES_MAX: usize = 100_000;
/// Text of one file after aliases are replaced.
pub(crate) const EXPANDED_BYTES_MAX: usize = 4 << 20;
/// Nesting. Job files need about eight.
pub(crate) const DEPTH_MAX: usize = 64;

/// A stretch of the source on one line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    /// From 1.
    pub(crate) line: u32,
    /// In characters, from 1.
    pub(crate) column: u32,
    /// In characters; what goes on behind the end of the line is not counted.
    pub(crate) len: u32,
}

impl Span {
    /// `len` characters from the `skip`-th of this span on.
    pub(crate) fn part(self, skip: u32, len: u32) -> Span {
        Span { line: self.line, column: self.column.saturating_add(skip), len }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

#[derive(Clone, Debug)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    /// Written without quotes: only then `null`, `true` and numbers are more than text.
    pub(crate) plain: bool,
    /// Where the text begins behind the start of the span (1 for a quoted one), when it stands there letter by letter.
    pub(crate) verbatim: Option<u32>,
}

impl Node {
    pub(crate) fn is_null(&self) -> bool {
        match &self.kind {
            Kind::Scalar(scalar) => {
                scalar.plain && matches!(scalar.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
            }
            _ => false,
        }
    }

    /// What it is, for messages.
    pub(crate) fn what(&self) -> &'static str {
        match &self.kind {
            Kind::Scalar(_) if self.is_null() => "nothing",
            Kind::Scalar(scalar) if scalar.plain => match scalar.text.as_str() {
                "true" | "false" => "true or false",
                text if text.parse::<f64>().is_ok() => "a number",
                _ => "text",
            },
            Kind::Scalar(_) => "text",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a map",
        }
    }
}

/// A document whose top is a map.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) root: Node,
    /// Keys that are there twice; the first of each is in the tree.
    pub(crate) twice: Vec<Diagnostic>,
}

/// Reads one document whose top is a map.
pub(crate) fn parse(bytes: &[u8]) -> Result<Tree, Diagnostic> {
    if bytes.len() > FILE_BYTES_MAX {
        return Err(Diagnostic::whole_file(
            Severity::Error,
            Code::Limit,
            format!("the file has {} bytes; a job file has at most {FILE_BYTES_MAX}", bytes.len()),
        )
        .with_help("keep large data beside the job and let a step read it"));
    }
    let text = text_of(bytes)?;
    // The YAML parser is the one part of the reader that is not ours. Should it panic on some text, that text is
    // refused and the server goes on.
    match catch_unwind(AssertUnwindSafe(|| Builder::new(text).build())) {
        Ok(result) => result,
        Err(_) => Err(Diagnostic::whole_file(
            Severity::Error,
            Code::Yaml,
            "the YAML parser failed on this file; please report it together with the file",
        )),
    }
}

/// The bytes as text without a byte order mark, or where they stop being text.
fn text_of(bytes: &[u8]) -> Result<&str, Diagnostic> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let good = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
            let byte = bytes.get(error.valid_up_to()).copied().unwrap_or_default();
            let message = format!("byte 0x{byte:02x} is not UTF-8 text");
            let help = if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
                "this looks like UTF-16; save the file as UTF-8"
            } else {
                "save the file as UTF-8"
            };
            return Err(problem(Code::Text, end_of(good), message).with_help(help));
        }
    };
    if let Some(at) = text.find('\0') {
        let message = "a NUL character cannot stand in a job file";
        return Err(problem(Code::Text, end_of(&text[..at]), message).with_help("is this a text file?"));
    }
    // YAML would begin a new line there, and editors and we would not: places would be wrong from there on.
    let lone = |at: &usize| text.as_bytes().get(at + 1) != Some(&b'\n');
    if let Some(at) = text.match_indices('\r').map(|(at, _)| at).find(lone) {
        let message = "a carriage return without a line feed cannot stand in a job file";
        let help = "save the file with LF or CRLF line ends";
        return Err(problem(Code::Text, end_of(&text[..at]), message).with_help(help));
    }
    Ok(text)
}

fn end_of(text: &str) -> Span {
    let line = text.bytes().filter(|&byte| byte == b'\n').count() as u32 + 1;
    let column = text.rsplit('\n').next().unwrap_or_default().chars().count() as u32 + 1;
    Span { line, column, len: 1 }
}

fn problem(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
    Diagnostic {
        line: span.line,
        column: span.column,
        len: span.len,
        ..Diagnostic::whole_file(Severity::Error, code, message)
    }
}
