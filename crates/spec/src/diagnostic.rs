use std::fmt::{self, Write as _};

use serde::Serialize;

/// One thing that is wrong, or doubtful, in a job file: where it stands, what it is, and what to do about it.
///
/// `Display` gives one line, `line:column: severity: message (help)`; [`render`](Diagnostic::render) shows the source too.
/// It serialises to an object with the same fields, for `--json` and the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// Whether the file can be used all the same.
    pub severity: Severity,
    /// The family, for programs.
    pub code: Code,
    /// What is wrong, in one sentence.
    pub message: String,
    /// Line, from 1; 0 when it is about the file as a whole.
    pub line: u32,
    /// Column in characters, from 1; 0 when it is about the file as a whole.
    pub column: u32,
    /// How many characters from there are meant; 0 when something is missing.
    pub len: u32,
    /// The field, as in `steps[1].retry.limit`; empty for the file as a whole.
    pub path: String,
    /// What to do next, where that is clear.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

/// Whether a file with this diagnostic can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file is not used.
    Error,
    /// The file is used; this part probably does not mean what its writer thinks.
    Warning,
}

impl Severity {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// The family of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Code {
    /// The file cannot be read from disk.
    File,
    /// Too large, too deep, too many: a named limit.
    Limit,
    /// Not UTF-8, or a character that a job file never needs.
    Text,
    /// Not YAML, or more of YAML than job files use.
    Yaml,
    /// A key that means nothing here.
    UnknownKey,
    /// A key that is there twice, under one spelling or two.
    DuplicateKey,
    /// Something that Dagu or XXL-JOB has and Cadran has not.
    Unsupported,
    /// A list where a text belongs, and the like.
    WrongType,
    /// A value outside of what is allowed.
    BadValue,
    /// Something that has to be there.
    Missing,
    /// A schedule, a time zone or a duration that does not read.
    Schedule,
    /// Two settings that exclude one another.
    Conflict,
    /// Steps that wait for one another, or for a step that does not exist.
    Depends,
    /// Two files with one job name.
    Name,
}

impl Code {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Code::File => "file",
            Code::Limit => "limit",
            Code::Text => "text",
            Code::Yaml => "yaml",
            Code::UnknownKey => "unknown_key",
            Code::DuplicateKey => "duplicate_key",
            Code::Unsupported => "unsupported",
            Code::WrongType => "wrong_type",
            Code::BadValue => "bad_value",
            Code::Missing => "missing",
            Code::Schedule => "schedule",
            Code::Conflict => "conflict",
            Code::Depends => "depends",
            Code::Name => "name",
        }
    }
}

/// A terminal shows no more than this of one source line; the rest is cut with a mark.
const SHOWN_CHARS_MAX: usize = 160;
/// Tabs are shown as so many spaces, so that the underline stands below what it means.
const TAB_SPACES: usize = 4;

impl Diagnostic {
    /// A diagnostic about the file as a whole.
    pub fn whole_file(severity: Severity, code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity,
            code,
            message: message.into(),
            line: 0,
            column: 0,
            len: 0,
            path: String::new(),
            help: None,
        }
    }

    /// The same with a word on what to do next.
    pub fn with_help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// For a terminal: file, line and column, the source line, the offending text underlined, and the help.
    ///
    /// ```
    /// use cadran_spec::{ReadOptions, read_job};
    ///
    /// let text = "run: date\nschedul: '@daily'\n";
    /// let errors = read_job(text.as_bytes(), "report", &ReadOptions::default()).unwrap_err();
    /// assert_eq!(errors[0].render("report.yaml", text, false), "\
    /// error: unknown key `schedul`
    ///  --> report.yaml:2:1
    ///   |
    /// 2 | schedul: '@daily'
    ///   | ^^^^^^^
    ///   = help: did you mean `schedule`?
    /// ");
    /// ```
    pub fn render(&self, file: &str, text: &str, colour: bool) -> String {
        let paint = Paint { on: colour };
        let mut out = String::new();
        let head = match self.severity {
            Severity::Error => paint.red("error"),
            Severity::Warning => paint.yellow("warning"),
        };
        let _ = writeln!(out, "{head}: {}", paint.bold(&printable(&self.message)));
        let file = printable(file);
        if self.line == 0 {
            let _ = writeln!(out, " {} {file}", paint.blue("-->"));
            if let Some(help) = &self.help {
                let _ = writeln!(out, " {} help: {}", paint.blue("="), printable(help));
            }
            return out;
        }
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        let _ = writeln!(out, "{margin}{} {file}:{}:{}", paint.blue("-->"), self.line, self.column);
        let source = text.strip_prefix('\u{feff}').unwrap_or(text);
        if let Some(line) = source.lines().nth(self.line as usize - 1) {
            let (shown, before, marked) = underline(line, self.column.max(1) as usize - 1, self.len as usize);
            let bar = paint.blue("|");
            let carets = "^".repeat(marked);
            let carets =
                if self.severity == Severity::Error { paint.red(&carets) } else { paint.yellow(&carets) };
            let _ = writeln!(out, "{margin} {bar}");
            let _ = writeln!(out, "{} {bar} {shown}", paint.blue(&number));
            let _ = writeln!(out, "{margin} {bar} {}{carets}", " ".repeat(before));
        }
        if let Some(help) = &self.help {
            let _ = writeln!(out, "{margin} {} help: {}", paint.blue("="), printable(help));
        }
        out
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "{}:{}: ", self.line, self.column)?;
        }
        write!(f, "{}: {}", self.severity.word(), printable(&self.message))?;
        match &self.help {
            Some(help) => write!(f, " ({})", printable(help)),
            None => Ok(()),
        }
    }
}

/// The line as a terminal may show it, the width before the marked part, and the width of that part (at least 1).
///
/// A long line is cut around the mark: what is wrong must be on the screen.
fn underline(line: &str, start: usize, len: usize) -> (String, usize, usize) {
    let chars: Vec<char> =
        line.trim_end_matches(['\r', '\n']).chars().take(start + SHOWN_CHARS_MAX + 1).collect();
    let from = start.saturating_sub(SHOWN_CHARS_MAX / 2);
    let to = chars.len().min(from + SHOWN_CHARS_MAX);
    let mut shown = String::new();
    let (mut before, mut marked, mut width) = (0, 0, 0);
    if from > 0 {
        shown.push('…');
        width += 1;
        before += 1;
    }
    for (at, &c) in chars.iter().enumerate().take(to).skip(from) {
        let size = shown.len();
        match c {
            '\t' => shown.push_str(&" ".repeat(TAB_SPACES)),
            _ => push_printable(&mut shown, c),
        }
        let columns = shown[size..].chars().count();
        if at < start {
            before = width + columns;
        } else if at < start + len {
            marked += columns;
        }
        width += columns;
    }
    if to < chars.len() {
        shown.push('…');
    }
    (shown, before, marked.max(1))
}

/// Text from a file in a message: control characters, and those that turn the reading direction, are spelled out.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        push_printable(&mut out, c);
    }
    out
}

fn push_printable(out: &mut String, c: char) {
    let hidden = c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    if hidden {
        let _ = write!(out, "{}", c.escape_unicode());
    } else {
        out.push(c);
    }
}

/// Terminal colours, or none.
struct Paint {
    on: bool,
}

impl Paint {
    fn red(&self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    fn yellow(&self, text: &str) -> String {
        self.wrap("1;33", text)
    }

    fn blue(&self, text: &str) -> String {
        self.wrap("1;34", text)
    }

    fn bold(&self, text: &str) -> String {
        self.wrap("1", text)
    }

    fn wrap(&self, style: &str, text: &str) -> String {
        if self.on { format!("\x1b[{style}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u32, column: u32, len: u32) -> Diagnostic {
        Diagnostic { line, column, len, ..Diagnostic::whole_file(Severity::Error, Code::BadValue, "no") }
    }

    #[test]
    fn the_underline_stands_below_what_is_meant() {
        let check = |line: &str, column: u32, len: u32, expected: &[&str]| {
            let shown = at(1, column, len).render("f", line, false);
            let rows: Vec<&str> = shown.lines().skip(3).collect();
            assert_eq!(rows, expected, "{line:?}");
        };
        check("a: bc", 4, 2, &["1 | a: bc", "  |    ^^"]);
        check("a: bc\r", 4, 9, &["1 | a: bc", "  |    ^^"]);
        check("é: bc", 4, 1, &["1 | é: bc", "  |    ^"]);
        // Tabs become spaces, on both lines.
        check("\ta:\tbc", 5, 2, &["1 |     a:    bc", "  |           ^^"]);
        // A terminal escape in the file is spelled out and underlined whole.
        check("a: \u{1b}[31m", 4, 1, &["1 | a: \\u{1b}[31m", "  |    ^^^^^^"]);
        // Something missing at the end of the line still gets a mark.
        check("a:", 3, 0, &["1 | a:", "  |   ^"]);
    }

    #[test]
    fn a_long_line_is_cut_around_the_mark() {
        let line = format!("{}bad{}", "x".repeat(1000), "y".repeat(1000));
        let shown = at(1, 1001, 3).render("f", &line, false);
        let rows: Vec<&str> = shown.lines().skip(3).collect();
        assert_eq!(rows[0].chars().count(), 4 + 1 + SHOWN_CHARS_MAX + 1);
        let caret = rows[1].chars().position(|c| c == '^').unwrap();
        assert_eq!(rows[0].chars().skip(caret).take(3).collect::<String>(), "bad");
    }

    #[test]
    fn colour_adds_escapes_only_when_asked() {
        assert!(!at(1, 1, 1).render("f", "x", false).contains('\x1b'));
        assert!(at(1, 1, 1).render("f", "x", true).contains("\x1b[1;31merror\x1b[0m"));
    }

    #[test]
    fn the_serialised_form_is_plain() {
        let text = serde_json::to_string(&at(1, 2, 3)).unwrap();
        assert_eq!(
            text,
            r#"{"severity":"error","code":"bad_value","message":"no","line":1,"column":2,"len":3,"path":""}"#
        );
    }
}
