//! Collects what is wrong with a file, bounded and in the order of the file.

use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::tree::{Kind, Node, Span};

/// More than this about one file is not read by anybody.
pub(crate) const FINDINGS_MAX: usize = 20;
/// Findings that are kept before sorting. A hostile file must not fill memory with complaints.
const KEPT_MAX: usize = 4 * FINDINGS_MAX;

#[derive(Default)]
pub(crate) struct Findings {
    list: Vec<Diagnostic>,
    errors: usize,
}

impl Findings {
    pub(crate) fn error(&mut self, span: Span, code: Code, message: impl Into<String>) {
        self.add(Severity::Error, span, code, message.into(), None);
    }

    pub(crate) fn error_help(
        &mut self,
        span: Span,
        code: Code,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.add(Severity::Error, span, code, message.into(), Some(help.into()));
    }

    pub(crate) fn warn(
        &mut self,
        span: Span,
        code: Code,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.add(Severity::Warning, span, code, message.into(), Some(help.into()));
    }

    fn add(&mut self, severity: Severity, span: Span, code: Code, message: String, help: Option<String>) {
        self.errors += usize::from(severity == Severity::Error);
        if self.list.len() >= KEPT_MAX {
            return;
        }
        let place = Diagnostic {
            line: span.line,
            column: span.column,
            len: span.len,
            help,
            ..base(severity, code, message)
        };
        if !self.list.contains(&place) {
            self.list.push(place);
        }
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// In the order of the file, with the path of each.
    pub(crate) fn finish(mut self, root: &Node) -> Vec<Diagnostic> {
        self.list.sort_by_key(|found| (found.line, found.column, found.severity));
        // Errors are worth more room than warnings.
        if self.errors > 0 {
            self.list.retain(|found| found.severity == Severity::Error);
        }
        let total = self.list.len().max(self.errors);
        if self.list.len() > FINDINGS_MAX {
            self.list.truncate(FINDINGS_MAX);
            let line = self.list[FINDINGS_MAX - 1].line;
            let message = format!("{} more problems are not shown", total - (FINDINGS_MAX - 1));
            self.list[FINDINGS_MAX - 1] =
                Diagnostic { line, column: 1, ..base(Severity::Error, Code::Limit, message) };
        }
        for found in &mut self.list {
            if found.line > 0 {
                found.path = path_of(root, found.line, found.column);
            }
        }
        self.list
    }
}

fn base(severity: Severity, code: Code, message: String) -> Diagnostic {
    Diagnostic::whole_file(severity, code, message)
}

/// The field at a place of the file: the innermost one whose key or value stands there.
fn path_of(root: &Node, line: u32, column: u32) -> String {
    let mut best = String::new();
    let mut path = String::new();
    walk(root, line, column, &mut path, &mut best);
    best
}

fn walk(node: &Node, line: u32, column: u32, path: &mut String, best: &mut String) -> bool {
    let here = |span: Span| {
        span.line == line
            && (span.column..=span.column.saturating_add(span.len.saturating_sub(1))).contains(&column)
    };
    let len = path.len();
    match &node.kind {
        Kind::Scalar(_) => {}
        Kind::List(items) => {
            for (at, item) in items.iter().enumerate() {
                path.push_str(&format!("[{at}]"));
                if walk(item, line, column, path, best) {
                    return true;
                }
                path.truncate(len);
            }
        }
        Kind::Map(entries) => {
            for (key, value) in entries {
                if let Kind::Scalar(key) = &key.kind {
                    if len > 0 {
                        path.push('.');
                    }
                    path.extend(key.text.chars().take(64));
                }
                if here(key.span) {
                    best.clone_from(path);
                    return true;
                }
                if walk(value, line, column, path, best) {
                    return true;
                }
                path.truncate(len);
            }
        }
    }
    if here(node.span) {
        best.clone_from(path);
        return true;
    }
    false
}
