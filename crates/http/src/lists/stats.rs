//! Runs and skips counted by time, by what became of them, and in buckets.

use std::collections::BTreeMap;

use cadran_core::{JobId, Millis};

use super::Tables;

/// Upper bounds of the buckets of lateness, from due to start; one more is for everything above.
pub(crate) const LATENESS_BOUNDS_MS: [Millis; 15] =
    [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 60_000, 600_000];

/// Upper bounds of the buckets of durations, from start to end; one more is for everything above.
pub(crate) const DURATION_BOUNDS_MS: [Millis; 15] = [
    10, 50, 100, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000, 3_600_000,
    10_800_000, 43_200_000,
];

/// What is counted of one step of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatsCell {
    /// Runs by status.
    pub(crate) statuses: BTreeMap<&'static str, u64>,
    /// Dues that did not become started runs, by reason.
    pub(crate) reasons: BTreeMap<&'static str, u64>,
    pub(crate) lateness: [u64; 16],
    pub(crate) duration: [u64; 16],
}

impl Tables {
    /// Counts what was due in `[from, to)`, in steps, of one job or of all. A stretch of skips counts where it ends.
    pub(crate) fn stats(&self, job: Option<JobId>, from: Millis, to: Millis, step: Millis) -> Vec<StatsCell> {
        let len = to.saturating_sub(from).div_euclid(step) + Millis::from((to - from).rem_euclid(step) > 0);
        let mut cells = vec![StatsCell::default(); usize::try_from(len).unwrap_or_default()];
        let last = cells.len().saturating_sub(1);
        let at = |due: Millis| usize::try_from((due - from) / step).unwrap_or_default().min(last);
        if cells.is_empty() {
            return cells;
        }
        for row in self.runs.due_in(job, from, to) {
            let cell = &mut cells[at(row.due)];
            *cell.statuses.entry(row.status.word()).or_default() += 1;
            if let Some(reason) = row.reason {
                *cell.reasons.entry(reason.word()).or_default() += 1;
            }
            // What was asked for by hand has no due to be late for.
            if let Some(late) = row.late_ms().filter(|_| row.trigger.is_scheduled()) {
                cell.lateness[bucket(&LATENESS_BOUNDS_MS, late)] += 1;
            }
            if let Some(took) = row.duration_ms() {
                cell.duration[bucket(&DURATION_BOUNDS_MS, took)] += 1;
            }
        }
        for skip in self.skips.due_in(job, from, to) {
            let due = skip.last_due.clamp(from, to - 1);
            *cells[at(due)].reasons.entry(skip.reason.word()).or_default() += skip.count;
        }
        cells
    }
}

fn bucket(bounds: &[Millis], value: Millis) -> usize {
    bounds.partition_point(|bound| *bound < value)
}

impl StatsCell {
    pub(crate) fn add(&mut self, other: &StatsCell) {
        for (word, count) in &other.statuses {
            *self.statuses.entry(word).or_default() += count;
        }
        for (word, count) in &other.reasons {
            *self.reasons.entry(word).or_default() += count;
        }
        for (sum, count) in self.lateness.iter_mut().zip(other.lateness) {
            *sum += count;
        }
        for (sum, count) in self.duration.iter_mut().zip(other.duration) {
            *sum += count;
        }
    }
}
