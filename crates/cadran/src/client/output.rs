//! Standard output for results, standard error for talk. What comes from outside is escaped before it reaches a
//! terminal: a log line must not move the cursor, retitle the window or hide what stands before it.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use super::{Colour, Failure};

/// Writes to standard output. When its reader has gone, the command ends quietly.
pub fn out(text: &str) -> Result<(), Failure> {
    out_bytes(text.as_bytes())
}

/// Writes bytes as they are to standard output.
pub fn out_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::gone(),
        _ => Failure::here(format!("cannot write to standard output: {error}")),
    })
}

/// Writes one JSON value on a line of its own.
pub fn out_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(|error| Failure::here(error.to_string()))?;
    out(&format!("{text}\n"))
}

/// Says a line on standard error. Nobody listening is no failure.
pub fn talk(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Whether standard output is a terminal.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Text in colour, when that is wanted.
pub fn paint(text: &str, colour: Option<Colour>, wanted: bool) -> String {
    match colour {
        Some(colour) if wanted => format!("\u{1b}[{}m{text}\u{1b}[0m", colour.code()),
        _ => text.to_owned(),
    }
}

/// Whether colours are wanted on a stream that is a terminal or not.
pub(super) fn colours(terminal: bool) -> bool {
    terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The text with everything escaped that a terminal would obey or that would deceive a reader: control characters but
/// newline and tab, and characters that turn the direction of writing.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_active) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            // The end of a line as Windows writes it.
            '\r' if chars.peek() == Some(&'\n') => {}
            c if is_active(c) => safe.extend(c.escape_default()),
            c => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

fn is_active(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        let check = |text: &str, expected: &str| assert_eq!(escaped(text), expected, "{text:?}");
        check("plain\ttext\n", "plain\ttext\n");
        check("é 日本 🙂", "é 日本 🙂");
        check("\u{1b}[31mred\u{1b}[0m", "\\u{1b}[31mred\\u{1b}[0m");
        check("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}");
        check("over\rwritten", "over\\rwritten");
        check("dos\r\n", "dos\n");
        check("\u{9b}2J", "\\u{9b}2J");
        check("\0\u{8}\u{7f}", "\\u{0}\\u{8}\\u{7f}");
        check("a\u{202e}b", "a\\u{202e}b");
    }
}
