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
    /// Begins with what was wrong before the fields were read.
    pub(crate) fn with(errors: Vec<Diagnostic>) -> Findings {
        Findings { errors: errors.len(), list: errors }
    }

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

    /// Whether more would not be shown: then it is not worth looking for advice.
    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= KEPT_MAX
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
            if found.line > 0 && found.path.is_empty() {
                let span = Span { line: found.line, column: found.column, len: found.len };
                found.path = path_of(root, span);
            }
        }
        self.list
    }
}

fn base(severity: Severity, code: Code, message: String) -> Diagnostic {
    Diagnostic::whole_file(severity, code, message)
}

/// The field at a place of the file: the one whose key or value is exactly there, else the innermost around it.
fn path_of(root: &Node, place: Span) -> String {
    let mut path = String::new();
    if walk(root, &|span| span == place, &mut path) {
        return path;
    }
    path.clear();
    let around = |span: Span| {
        span.line == place.line
            && place.column >= span.column
            && place.column < span.column.saturating_add(span.len)
    };
    if place.len > 0 && walk(root, &around, &mut path) { path } else { String::new() }
}

/// Leaves in `path` the way to the first node whose span, or whose key's span, is the one looked for; the inner ones are
/// asked first.
fn walk(node: &Node, is_it: &dyn Fn(Span) -> bool, path: &mut String) -> bool {
    let len = path.len();
    match &node.kind {
        Kind::Scalar(_) => {}
        Kind::List(items) => {
            for (at, item) in items.iter().enumerate() {
                path.push_str(&format!("[{at}]"));
                if walk(item, is_it, path) {
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
                if is_it(key.span) || walk(value, is_it, path) {
                    return true;
                }
                path.truncate(len);
            }
        }
    }
    is_it(node.span)
}
