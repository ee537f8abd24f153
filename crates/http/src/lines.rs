//! Lines of logs by number: where each thousandth begins, so that any line of a log of any size is a short read away.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use cadran_core::{RunId, StepNo};
use cadran_exec::LogDir;

/// One log: of a run, a step, an attempt, and a share where there are some.
pub(crate) type LogKey = (RunId, StepNo, u32, Option<u32>);

/// Lines between two marks: a mark costs 8 bytes, and to find a line is to read what lies between two.
const MARK_EVERY: u64 = 1024;

/// Logs whose marks are kept: each takes 8 KiB per million lines.
const INDEXES_MAX: usize = 64;

/// Bytes of one line that are shown; the rest of a longer one is in the log itself.
pub(crate) const LINE_BYTES_MAX: usize = 16 * 1024;

/// Bytes of lines that one answer holds.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The marks of the logs that were read lately.
#[derive(Default)]
pub(crate) struct LineIndexes(Mutex<BTreeMap<LogKey, (u64, Arc<Mutex<LineIndex>>)>>);

impl LineIndexes {
    /// The index of a log. The one used longest ago makes room.
    pub(crate) fn of(&self, key: LogKey) -> Arc<Mutex<LineIndex>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = all.values().map(|(used, _)| *used).max().unwrap_or(0) + 1;
        if !all.contains_key(&key) && all.len() >= INDEXES_MAX {
            let oldest = all.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| *key);
            oldest.map(|key| all.remove(&key));
        }
        let entry = all.entry(key).or_default();
        entry.0 = newest;
        entry.1.clone()
    }
}

/// Where lines of one log begin, as far as it was read.
#[derive(Default)]
pub(crate) struct LineIndex {
    /// The byte where line `MARK_EVERY × n` begins.
    marks: Vec<u64>,
    /// Line breaks up to `read`.
    breaks: u64,
    /// Bytes looked at.
    read: u64,
    /// Whether the last byte looked at was a line break.
    ends_with_break: bool,
}

/// Some lines of a log.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    /// Each without its line break, cut at [`LINE_BYTES_MAX`].
    pub(crate) lines: Vec<Vec<u8>>,
    /// How many the log has now; a last one without a line break counts.
    pub(crate) total: u64,
    pub(crate) bytes: u64,
}

impl LineIndex {
    /// Looks at what was added to the log since the last time. Blocking.
    fn update(&mut self, logs: &LogDir, (run, step, attempt, share): LogKey) -> io::Result<()> {
        if self.marks.is_empty() {
            self.marks.push(0);
        }
        loop {
            let chunk = logs.read_share(run, step, attempt, share, self.read, u64::MAX)?;
            if chunk.bytes.is_empty() {
                return Ok(());
            }
            for (at, _) in chunk.bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
                self.breaks += 1;
                if self.breaks.is_multiple_of(MARK_EVERY) {
                    self.marks.push(self.read + at as u64 + 1);
                }
            }
            self.ends_with_break = chunk.bytes.ends_with(b"\n");
            self.read += chunk.bytes.len() as u64;
        }
    }

    fn total(&self) -> u64 {
        self.breaks + u64::from(self.read > 0 && !self.ends_with_break)
    }

    /// Up to `count` lines from line `from` (the first is 0). Blocking.
    pub(crate) fn lines(&mut self, logs: &LogDir, key: LogKey, from: u64, count: usize) -> io::Result<Lines> {
        self.update(logs, key)?;
        let mut found = Lines { total: self.total(), bytes: self.read, ..Lines::default() };
        let mut bytes = 0;
        if from < found.total {
            self.walk(logs, key, from, |_, line| {
                bytes += line.len();
                found.lines.push(line.to_vec());
                found.lines.len() < count && bytes < ANSWER_BYTES_MAX
            })?;
        }
        Ok(found)
    }

    /// Gives lines to `each`, from line `from` on, until it says to stop or the log ends. Longer ones than
    /// [`LINE_BYTES_MAX`] are cut.
    fn walk(
        &self,
        logs: &LogDir,
        (run, step, attempt, share): LogKey,
        from: u64,
        mut each: impl FnMut(u64, &[u8]) -> bool,
    ) -> io::Result<()> {
        let mark = ((from / MARK_EVERY) as usize).min(self.marks.len() - 1);
        let (mut at, mut number) = (self.marks[mark], mark as u64 * MARK_EVERY);
        let mut line: Vec<u8> = Vec::new();
        let mut has_part = false;
        while at < self.read {
            let chunk = logs.read_share(run, step, attempt, share, at, self.read)?;
            if chunk.bytes.is_empty() {
                break;
            }
            at += chunk.bytes.len() as u64;
            for piece in chunk.bytes.split_inclusive(|byte| *byte == b'\n') {
                let whole = piece.ends_with(b"\n");
                let text = piece.strip_suffix(b"\n").unwrap_or(piece);
                line.extend(&text[..text.len().min(LINE_BYTES_MAX.saturating_sub(line.len()))]);
                has_part = !whole;
                if whole {
                    let shown = line.strip_suffix(b"\r").unwrap_or(&line);
                    if number >= from && !each(number, shown) {
                        return Ok(());
                    }
                    number += 1;
                    line.clear();
                }
            }
        }
        if has_part && number >= from {
            each(number, &line);
        }
        Ok(())
    }

    /// Numbers of lines that contain `wanted`, from line `from` on, at most `count`; and the line where a further search
    /// goes on, when this one stopped before the end. Blocking.
    pub(crate) fn search(
        &mut self,
        logs: &LogDir,
        key: LogKey,
        from: u64,
        wanted: &Needle,
        count: usize,
    ) -> io::Result<(Vec<u64>, Option<u64>, u64)> {
        self.update(logs, key)?;
        let (mut found, mut seen, mut next) = (Vec::new(), 0, None);
        if from < self.total() {
            self.walk(logs, key, from, |number, line| {
                seen += line.len() + 1;
                if wanted.is_in(line) {
                    found.push(number);
                }
                let goes_on = found.len() < count && seen < SEARCH_BYTES_MAX;
                if !goes_on {
                    next = Some(number + 1);
                }
                goes_on
            })?;
        }
        let total = self.total();
        Ok((found, next.filter(|next| *next < total), total))
    }
}

/// Bytes that one search looks at before it answers with what it has.
const SEARCH_BYTES_MAX: usize = 64 << 20;

/// Text to look for, in upper or lower case unless it has an upper case letter.
pub(crate) struct Needle {
    text: Vec<u8>,
    exact: bool,
}

impl Needle {
    pub(crate) fn new(text: &str) -> Needle {
        let exact = text.chars().any(char::is_uppercase);
        Needle { text: text.as_bytes().to_vec(), exact }
    }

    fn is_in(&self, line: &[u8]) -> bool {
        let same = |part: &[u8]| match self.exact {
            true => part == self.text,
            false => part.eq_ignore_ascii_case(&self.text),
        };
        line.windows(self.text.len().max(1)).any(same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &[u8]) -> (tempfile::TempDir, LogDir, LogKey) {
        let dir = tempfile::tempdir().unwrap();
        let logs = LogDir::new(dir.path());
        let run = RunId::from_raw(5);
        let path = logs.path(run, StepNo(0), "main", 1);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        (dir, logs, (run, StepNo(0), 1, None))
    }

    #[test]
    fn any_line_is_found_by_its_number() {
        let text: String = (0..5_000).map(|no| format!("line {no}\n")).collect();
        let (_dir, logs, key) = log(text.as_bytes());
        let mut index = LineIndex::default();
        for from in [0, 1, 1023, 1024, 1025, 4_000, 4_999] {
            let found = index.lines(&logs, key, from, 2).unwrap();
            assert_eq!(found.lines[0], format!("line {from}").into_bytes());
            assert_eq!(found.total, 5_000);
        }
        assert_eq!(index.lines(&logs, key, 4_999, 9).unwrap().lines.len(), 1);
        assert!(index.lines(&logs, key, 5_000, 9).unwrap().lines.is_empty());
    }

    #[test]
    fn a_growing_log_and_a_line_without_its_end() {
        let (_dir, logs, key) = log(b"one\r\ntwo");
        let mut index = LineIndex::default();
        let found = index.lines(&logs, key, 0, 9).unwrap();
        assert_eq!((found.lines, found.total), (vec![b"one".to_vec(), b"two".to_vec()], 2));
        let path = logs.path(key.0, key.1, "main", 1);
        std::fs::write(path, b"one\r\ntwo more\nthree\n").unwrap();
        let found = index.lines(&logs, key, 1, 9).unwrap();
        assert_eq!((found.lines, found.total), (vec![b"two more".to_vec(), b"three".to_vec()], 3));
    }

    #[test]
    fn a_search_goes_on_where_it_stopped() {
        let text: String = (0..3_000)
            .map(|no| format!("line {no} {}\n", if no % 1000 == 7 { "Found" } else { "" }))
            .collect();
        let (_dir, logs, key) = log(text.as_bytes());
        let mut index = LineIndex::default();
        let needle = Needle::new("found");
        assert_eq!(index.search(&logs, key, 0, &needle, 2).unwrap(), (vec![7, 1007], Some(1008), 3_000));
        assert_eq!(index.search(&logs, key, 1008, &needle, 2).unwrap(), (vec![2007], None, 3_000));
        assert_eq!(index.search(&logs, key, 0, &Needle::new("FOUND"), 2).unwrap().0, [0; 0]);
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let (_dir, logs, key) = log(&vec![b'x'; 3 * LINE_BYTES_MAX]);
        let found = LineIndex::default().lines(&logs, key, 0, 9).unwrap();
        assert_eq!((found.lines.len(), found.lines[0].len(), found.total), (1, LINE_BYTES_MAX, 1));
    }

    #[test]
    fn marks_are_kept_for_so_many_logs() {
        let indexes = LineIndexes::default();
        for no in 0..INDEXES_MAX as u64 * 2 {
            indexes.of((RunId::from_raw(no), StepNo(0), 1, None));
        }
        assert_eq!(indexes.0.lock().unwrap().len(), INDEXES_MAX);
    }
}
