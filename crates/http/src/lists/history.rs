//! Skips, and what became of every due of a window.

use std::collections::{BinaryHeap, HashSet, VecDeque};

use cadran_core::{JobId, Millis, RunId, Skip, SkipReason};

use super::Tables;
use super::runs::Row;

/// Stretches of skips that are kept here.
pub(super) const SKIPS_MAX: usize = 500_000;

/// Dues of one stretch that are shown one by one.
const STRETCH_DUES_MAX: usize = 10_000;

/// The newest skips, by id.
#[derive(Default)]
pub(crate) struct Skips {
    rows: VecDeque<Skip>,
}

/// Which skips, newest first. What is empty or `None` filters nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct SkipFilter {
    pub(crate) job: Option<JobId>,
    pub(crate) reasons: Vec<SkipReason>,
    /// Some of their dues are at this instant or later.
    pub(crate) from: Option<Millis>,
    /// Some of their dues are before this instant.
    pub(crate) to: Option<Millis>,
    pub(crate) before: Option<RunId>,
}

impl Skips {
    /// Rows by id, rising.
    pub(super) fn new(rows: Vec<Skip>) -> Skips {
        Skips { rows: rows.into() }
    }

    /// The ids of the newest skips that a filter names.
    pub(crate) fn page(&self, filter: &SkipFilter, limit: usize) -> Vec<RunId> {
        let end = filter.before.map_or(self.rows.len(), |before| self.place(before));
        let wanted = self.rows.range(..end).rev().filter(|skip| {
            filter.job.is_none_or(|job| job == skip.job)
                && (filter.reasons.is_empty() || filter.reasons.contains(&skip.reason))
                && filter.from.is_none_or(|from| skip.last_due >= from)
                && filter.to.is_none_or(|to| skip.first_due < to)
        });
        wanted.take(limit).map(|skip| skip.id).collect()
    }

    /// All skips with a due in `[from, to)`, of one job or of all.
    pub(crate) fn due_in(&self, job: Option<JobId>, from: Millis, to: Millis) -> impl Iterator<Item = &Skip> {
        self.rows.iter().filter(move |skip| {
            skip.last_due >= from && skip.first_due < to && job.is_none_or(|job| job == skip.job)
        })
    }

    /// A stretch grows in place.
    pub(super) fn put(&mut self, skip: Skip) {
        let at = self.place(skip.id);
        match self.rows.get_mut(at) {
            Some(known) if known.id == skip.id => *known = skip,
            _ => self.rows.insert(at, skip),
        }
        if self.rows.len() > SKIPS_MAX {
            self.rows.pop_front();
        }
    }

    /// Takes skips out that are not on record any more.
    pub(super) fn forget(&mut self, ids: &[RunId]) {
        let gone: HashSet<RunId> = ids.iter().copied().filter(|id| self.has(*id)).collect();
        if !gone.is_empty() {
            self.rows.retain(|skip| !gone.contains(&skip.id));
        }
    }

    fn has(&self, id: RunId) -> bool {
        self.rows.get(self.place(id)).is_some_and(|skip| skip.id == id)
    }

    fn place(&self, id: RunId) -> usize {
        self.rows.partition_point(|skip| skip.id < id)
    }
}

/// What became of a due that is on record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DueOutcome {
    Run(Row),
    Skip(Skip),
}

/// A due that is on record, or a stretch of skipped dues that the schedules as they are now do not tell apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedDue {
    pub(crate) due: Millis,
    pub(crate) job: JobId,
    /// How many dues: more than one of a stretch.
    pub(crate) count: u64,
    pub(crate) outcome: DueOutcome,
}

impl RecordedDue {
    fn key(&self) -> (Millis, JobId) {
        (self.due, self.job)
    }
}

impl PartialEq for RecordedDue {
    fn eq(&self, other: &RecordedDue) -> bool {
        self.key() == other.key()
    }
}
impl Eq for RecordedDue {}
impl PartialOrd for RecordedDue {
    fn partial_cmp(&self, other: &RecordedDue) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for RecordedDue {
    fn cmp(&self, other: &RecordedDue) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// Which dues of the record.
#[derive(Clone, Debug, Default)]
pub(crate) struct DueQuery {
    pub(crate) job: Option<JobId>,
    pub(crate) from: Millis,
    /// Not included.
    pub(crate) to: Millis,
    /// Only dues that were skipped for one of these.
    pub(crate) reasons: Vec<SkipReason>,
}

impl Tables {
    /// The first dues on record, by (due, job), and how many there are. Runs by hand answer no due.
    pub(crate) fn recorded_dues(&self, query: &DueQuery, limit: usize) -> (Vec<RecordedDue>, u64) {
        let DueQuery { job, from, to, reasons } = query;
        let is_wanted = |reason: Option<SkipReason>| {
            reasons.is_empty() || reason.is_some_and(|reason| reasons.contains(&reason))
        };
        let (mut first, mut total) = (First { heap: BinaryHeap::new(), limit }, 0);
        let runs = self.runs.due_in(*job, *from, *to).filter(|row| row.trigger.is_scheduled());
        for row in runs.filter(|row| is_wanted(row.reason)) {
            total += 1;
            let outcome = DueOutcome::Run(*row);
            first.push(RecordedDue { due: row.due, job: JobId(row.job), count: 1, outcome });
        }
        for skip in self.skips.due_in(*job, *from, *to).filter(|skip| is_wanted(Some(skip.reason))) {
            let outcome = DueOutcome::Skip(*skip);
            let dues = self.dues_of(skip);
            if dues.is_empty() {
                total += skip.count;
                first.push(RecordedDue {
                    due: skip.first_due.max(*from),
                    job: skip.job,
                    count: skip.count,
                    outcome,
                });
            }
            for due in dues.into_iter().filter(|due| due >= from && due < to) {
                total += 1;
                first.push(RecordedDue { due, job: skip.job, count: 1, outcome });
            }
        }
        (first.heap.into_sorted_vec(), total)
    }

    /// The dues of a stretch, where the schedules as they are now give as many as were counted.
    fn dues_of(&self, skip: &Skip) -> Vec<Millis> {
        if skip.count == 1 {
            return vec![skip.last_due];
        }
        if skip.count > STRETCH_DUES_MAX as u64 {
            return Vec::new();
        }
        let dues = self.jobs.dues(skip.job, skip.first_due, skip.last_due, STRETCH_DUES_MAX);
        if dues.len() as u64 == skip.count { dues } else { Vec::new() }
    }
}

/// The smallest so many.
struct First {
    heap: BinaryHeap<RecordedDue>,
    limit: usize,
}

impl First {
    fn push(&mut self, due: RecordedDue) {
        if self.heap.len() < self.limit {
            self.heap.push(due);
        } else if self.heap.peek().is_some_and(|largest| due < *largest) {
            self.heap.pop();
            self.heap.push(due);
        }
    }
}
