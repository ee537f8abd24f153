//! How a pass shows its progress: one line that is written over on a terminal, one line every few seconds otherwise.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cadran_fuzz::{BinaryKind, Fuzzing, Watcher};

use crate::client::{escaped, took};
use crate::server::clock;

/// Between two lines where nobody watches.
const LINE_EVERY_MS: i64 = 5_000;

/// Between two looks of somebody who watches.
const LOOK_EVERY_MS: i64 = 200;

/// A line longer than this would wrap and could not be written over.
const WIDTH: usize = 100;

/// Standard error.
pub struct Screen {
    terminal: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    shown_at: i64,
    is_open: bool,
}

impl Screen {
    pub(super) fn new() -> Screen {
        Screen { terminal: std::io::stderr().is_terminal(), state: Mutex::default() }
    }

    /// A line that stays.
    pub(super) fn line(&self, text: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let clear = if state.is_open { "\r\u{1b}[K" } else { "" };
        state.is_open = false;
        let _ = writeln!(std::io::stderr().lock(), "{clear}{}", escaped(text));
    }

    /// Removes the line that is being written over.
    pub(super) fn clear(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut state.is_open) {
            let _ = write!(std::io::stderr().lock(), "\r\u{1b}[K");
        }
    }

    /// A line that the next one replaces.
    fn passing(&self, text: impl FnOnce() -> String) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let every = if self.terminal { LOOK_EVERY_MS } else { LINE_EVERY_MS };
        let now = clock::wall();
        if (now - state.shown_at).abs() < every {
            return;
        }
        state.shown_at = now;
        let text: String = escaped(&text()).replace(['\n', '\t'], " ").chars().take(WIDTH).collect();
        let mut err = std::io::stderr().lock();
        let _ = if self.terminal { write!(err, "\r\u{1b}[K{text}") } else { writeln!(err, "{text}") };
        let _ = err.flush();
        state.is_open = self.terminal;
    }
}

impl Watcher for Screen {
    fn say(&self, line: &str) {
        self.line(line);
    }

    fn building(&self, kind: BinaryKind, elapsed: Duration, line: &str) {
        self.passing(|| format!("  {} build, {}: {}", kind.as_str(), short(elapsed), line.trim()));
    }

    fn fuzzing(&self, now: &Fuzzing) {
        self.passing(|| fuzzing(now));
    }
}

fn fuzzing(now: &Fuzzing) -> String {
    let Fuzzing { stats, coverage_new, crashes, left } = now;
    format!(
        "  {} executions, {} a second, coverage {} (+{coverage_new}), corpus {}, {crashes} crashes, {} left",
        stats.executions,
        stats.per_second,
        stats.coverage,
        stats.corpus,
        short(*left),
    )
}

fn short(time: Duration) -> String {
    took(i64::try_from(time.as_secs().saturating_mul(1_000)).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cadran_fuzz::FuzzerStats;

    #[test]
    fn a_person_can_read_how_a_run_goes() {
        let stats = FuzzerStats { executions: 12_345, per_second: 678, coverage: 90, corpus: 12 };
        let now = Fuzzing { stats, coverage_new: 3, crashes: 1, left: Duration::from_secs(3_720) };
        assert_eq!(
            fuzzing(&now),
            "  12345 executions, 678 a second, coverage 90 (+3), corpus 12, 1 crashes, 1 h 2 min left"
        );
    }
}
