//! Tables for people: columns aligned, no lines drawn, colour only as a help.

use super::Failure;
use super::output::{colours, escaped, is_terminal, out, paint};

/// A colour that means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Went well.
    Green,
    /// Went wrong.
    Red,
    /// Worth a look.
    Yellow,
    /// Is on.
    Cyan,
    /// Less important.
    Dim,
}

impl Colour {
    pub(super) fn code(self) -> u8 {
        match self {
            Colour::Green => 32,
            Colour::Red => 31,
            Colour::Yellow => 33,
            Colour::Cyan => 36,
            Colour::Dim => 2,
        }
    }
}

/// The colour of a run's or a step's status.
pub fn status_colour(status: &str) -> Option<Colour> {
    match status {
        "succeeded" | "active" => Some(Colour::Green),
        "failed" | "lost" => Some(Colour::Red),
        "running" => Some(Colour::Cyan),
        "waiting" | "retrying" | "stopping" | "stopped" | "paused" => Some(Colour::Yellow),
        "skipped" | "removed" | "pending" | "promised" => Some(Colour::Dim),
        _ => None,
    }
}

/// One cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    text: String,
    colour: Option<Colour>,
}

impl Cell {
    /// A status word in its colour.
    pub fn status(word: &str) -> Cell {
        Cell { text: word.to_owned(), colour: status_colour(word) }
    }

    /// Text in a colour.
    pub fn coloured(text: impl Into<String>, colour: Option<Colour>) -> Cell {
        Cell { text: text.into(), colour }
    }

    /// Text that matters less.
    pub fn dim(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), colour: Some(Colour::Dim) }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell { text: text.into(), colour: None }
    }
}

/// Rows under a head.
#[derive(Debug)]
pub struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// With these columns.
    pub fn new(head: &[&'static str]) -> Table {
        Table { head: head.to_vec(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Writes it to standard output.
    pub fn show(&self) -> Result<(), Failure> {
        out(&self.render(colours(is_terminal())))
    }

    fn render(&self, colour: bool) -> String {
        let mut lines: Vec<Vec<Cell>> = vec![self.head.iter().map(|name| Cell::dim(*name)).collect()];
        // A cell is one line, whatever is in it.
        let one_line = |text: &str| escaped(text).trim_end().replace('\n', "\\n").replace('\t', " ");
        lines.extend(self.rows.iter().map(|row| {
            row.iter().map(|cell| Cell { text: one_line(&cell.text), colour: cell.colour }).collect()
        }));
        let width = |column: usize| {
            let cells = lines.iter().filter_map(|line| line.get(column));
            cells.map(|cell| cell.text.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut text = String::new();
        for line in &lines {
            let mut shown = String::new();
            let mut gap = 0;
            for (cell, width) in line.iter().zip(&widths) {
                // The gap is written before the next text, so that no line ends in spaces.
                if !cell.text.is_empty() {
                    shown.push_str(&" ".repeat(gap));
                    shown.push_str(&paint(&cell.text, cell.colour, colour));
                    gap = 0;
                }
                gap += width - cell.text.chars().count() + 2;
            }
            text.push_str(&shown);
            text.push('\n');
        }
        text
    }
}

/// An RFC 3339 instant of an answer, to the second, for a column.
pub fn instant(text: &str) -> String {
    match text.split_once('.') {
        Some((seconds, _)) => format!("{}Z", seconds.replace('T', " ")),
        None => text.to_owned(),
    }
}

/// A length of time in words short enough for a column.
pub fn took(ms: i64) -> String {
    let ms = ms.max(0);
    let (s, m, h, d) = (ms / 1_000, ms / 60_000, ms / 3_600_000, ms / 86_400_000);
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{s}.{} s", ms % 1_000 / 100),
        60_000..3_600_000 => format!("{m} min {} s", s % 60),
        3_600_000..86_400_000 => format!("{h} h {} min", m % 60),
        _ => format!("{d} d {} h", h % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_without_spaces_at_the_end() {
        let mut table = Table::new(&["RUN", "STATUS", "WHY"]);
        table.row(vec!["1".into(), Cell::status("failed"), "step a\nfailed\u{1b}[2J".into()]);
        table.row(vec!["longer é".into(), Cell::status("ok"), "".into()]);
        table.row(vec!["2".into(), "".into(), "why".into()]);
        assert_eq!(
            table.render(false),
            "RUN       STATUS  WHY\n\
             1         failed  step a\\nfailed\\u{1b}[2J\n\
             longer é  ok\n\
             2                 why\n"
        );
        let coloured = table.render(true);
        assert!(coloured.contains("\u{1b}[31mfailed\u{1b}[0m  step"), "{coloured:?}");
    }

    #[test]
    fn lengths_of_time() {
        let check = |ms: i64, text: &str| assert_eq!(took(ms), text);
        check(-5, "0 ms");
        check(999, "999 ms");
        check(1_250, "1.2 s");
        check(59_999, "59.9 s");
        check(61_000, "1 min 1 s");
        check(3_600_000, "1 h 0 min");
        check(90_000_000, "1 d 1 h");
    }

    #[test]
    fn instants_lose_their_milliseconds() {
        assert_eq!(instant("2026-11-15T22:08:10.120Z"), "2026-11-15 22:08:10Z");
        assert_eq!(instant("soon"), "soon");
    }
}
