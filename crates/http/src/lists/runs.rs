//! The newest runs in short, by id: 32 bytes each, so that a million are looked through in a few milliseconds.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};

use cadran_core::{JobId, Millis, Promise, RunId, RunRecord, RunStatus, RunUpdate, SkipReason, Trigger};
use cadran_store::RunHead;

/// Runs that are kept here; older ones are found by the store alone. Some 80 MB when there are so many.
pub(super) const RUNS_MAX: usize = 2_000_000;

/// No value in a column of milliseconds.
const NONE: u32 = u32::MAX;

/// Values of parameters, as hashes, of the runs that were given some.
pub(super) type ParamTable = HashMap<u64, Box<[u64]>>;

/// One run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) run: u64,
    pub(crate) due: Millis,
    pub(crate) job: u32,
    late: u32,
    duration: u32,
    pub(crate) status: RunStatus,
    pub(crate) trigger: Trigger,
    pub(crate) reason: Option<SkipReason>,
    is_gone: bool,
}

/// Which runs, newest first. What is empty or `None` filters nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunFilter {
    pub(crate) job: Option<JobId>,
    /// By number of job, whether its runs are wanted.
    pub(crate) mask: Option<Vec<bool>>,
    pub(crate) statuses: Vec<RunStatus>,
    pub(crate) triggers: Vec<Trigger>,
    pub(crate) reasons: Vec<SkipReason>,
    pub(crate) late_over: Option<Millis>,
    pub(crate) duration_over: Option<Millis>,
    pub(crate) param: Option<u64>,
    pub(crate) from: Option<Millis>,
    pub(crate) to: Option<Millis>,
    pub(crate) before: Option<RunId>,
}

/// The newest runs, by id.
#[derive(Default)]
pub(crate) struct Runs {
    rows: VecDeque<Row>,
    gone: usize,
    params: ParamTable,
    /// Runs older than this one are not kept here.
    cut: Option<RunId>,
}

/// A parameter and its value as one number.
pub(crate) fn param_hash(name: &str, value: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (name, value).hash(&mut hasher);
    hasher.finish()
}

pub(super) fn note_params(table: &mut ParamTable, run: RunId, params: &[(Box<str>, Box<str>)]) {
    table.insert(run.raw(), params.iter().map(|(name, value)| param_hash(name, value)).collect());
}

fn column(value: Option<Millis>) -> u32 {
    value.map_or(NONE, |value| value.clamp(0, Millis::from(NONE - 1)) as u32)
}

fn value(column: u32) -> Option<Millis> {
    (column != NONE).then_some(Millis::from(column))
}

impl Row {
    pub(super) fn of_head(head: &RunHead) -> Row {
        let mut row = Row::promised(head.run, head.job, head.due, head.trigger);
        row.set(head.status, head.started_at, head.ended_at, head.skip);
        row
    }

    fn promised(run: RunId, job: JobId, due: Millis, trigger: Trigger) -> Row {
        Row {
            run: run.raw(),
            due,
            job: job.0,
            late: NONE,
            duration: NONE,
            status: RunStatus::Promised,
            trigger,
            reason: None,
            is_gone: false,
        }
    }

    fn set(
        &mut self,
        status: RunStatus,
        started_at: Option<Millis>,
        ended_at: Option<Millis>,
        reason: Option<SkipReason>,
    ) {
        self.status = status;
        self.late = column(started_at.map(|at| at.saturating_sub(self.due)));
        let ended_at = ended_at.filter(|_| status.is_ended());
        self.duration =
            column(started_at.zip(ended_at).map(|(started, ended)| ended.saturating_sub(started)));
        self.reason = reason;
    }

    /// From due to start.
    pub(crate) fn late_ms(&self) -> Option<Millis> {
        value(self.late)
    }

    /// From start to end.
    pub(crate) fn duration_ms(&self) -> Option<Millis> {
        value(self.duration)
    }

    /// When it ended, if it ran.
    pub(crate) fn ended_at(&self) -> Option<Millis> {
        Some(self.due + self.late_ms()? + self.duration_ms()?)
    }

    fn is_wanted(&self, filter: &RunFilter) -> bool {
        (filter.statuses.is_empty() || filter.statuses.contains(&self.status))
            && filter.job.is_none_or(|job| job.0 == self.job)
            && (filter.triggers.is_empty() || filter.triggers.contains(&self.trigger))
            && (filter.reasons.is_empty()
                || self.reason.is_some_and(|reason| filter.reasons.contains(&reason)))
            && filter.late_over.is_none_or(|over| self.late_ms().is_some_and(|late| late > over))
            && filter.duration_over.is_none_or(|over| self.duration_ms().is_some_and(|took| took > over))
            && filter.from.is_none_or(|from| self.due >= from)
            && filter.to.is_none_or(|to| self.due < to)
            && filter
                .mask
                .as_ref()
                .is_none_or(|mask| mask.get(self.job as usize).copied().unwrap_or_default())
            && !self.is_gone
    }
}

impl RunFilter {
    /// Whether a run of the record is wanted.
    pub(crate) fn fits(&self, record: &RunRecord) -> bool {
        let RunRecord { promise, state } = record;
        let mut row = Row::promised(promise.run, promise.job, promise.due, promise.trigger);
        row.set(state.status, state.started_at, state.ended_at, state.skip);
        let has = |param| promise.params.iter().any(|(name, value)| param_hash(name, value) == param);
        row.is_wanted(self) && self.param.is_none_or(has)
    }
}

impl Runs {
    /// Rows by id, rising.
    pub(super) fn new(rows: Vec<Row>, params: ParamTable) -> Runs {
        let cut =
            (rows.len() >= RUNS_MAX).then(|| rows.first().map(|row| RunId::from_raw(row.run))).flatten();
        Runs { rows: rows.into(), gone: 0, params, cut }
    }

    /// Where the runs begin that only the store knows, if there are any.
    pub(crate) fn cut(&self) -> Option<RunId> {
        self.cut
    }

    /// The ids of the newest runs that a filter names.
    pub(crate) fn page(&self, filter: &RunFilter, limit: usize) -> Vec<RunId> {
        let end = filter.before.map_or(self.rows.len(), |before| self.place(before.raw()));
        let wanted = self.rows.range(..end).rev().filter(|row| row.is_wanted(filter));
        let has_param = |row: &&Row| {
            filter.param.is_none_or(|param| self.params.get(&row.run).is_some_and(|all| all.contains(&param)))
        };
        wanted.filter(has_param).take(limit).map(|row| RunId::from_raw(row.run)).collect()
    }

    /// All runs due in `[from, to)`, of one job or of all.
    pub(crate) fn due_in(&self, job: Option<JobId>, from: Millis, to: Millis) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| {
            row.due >= from && row.due < to && !row.is_gone && job.is_none_or(|job| job.0 == row.job)
        })
    }

    /// Runs that wait, oldest first.
    pub(crate) fn waiting(&self, limit: usize) -> Vec<(RunId, JobId)> {
        let waiting = self.rows.iter().filter(|row| row.status == RunStatus::Waiting && !row.is_gone);
        waiting.take(limit).map(|row| (RunId::from_raw(row.run), JobId(row.job))).collect()
    }

    pub(super) fn promise(&mut self, promise: &Promise) {
        let row = Row::promised(promise.run, promise.job, promise.due, promise.trigger);
        let at = self.place(row.run);
        // A batch may be given again.
        if self.rows.get(at).is_some_and(|known| known.run == row.run) {
            return;
        }
        if at == self.rows.len() {
            self.rows.push_back(row)
        } else {
            self.rows.insert(at, row)
        }
        if !promise.params.is_empty() {
            note_params(&mut self.params, promise.run, &promise.params);
        }
        if self.rows.len() > RUNS_MAX
            && let Some(oldest) = self.rows.pop_front()
        {
            self.params.remove(&oldest.run);
            self.cut = Some(RunId::from_raw(oldest.run + 1));
        }
    }

    pub(super) fn update(&mut self, update: &RunUpdate) -> Option<Row> {
        let at = self.place(update.run.raw());
        let row = self.rows.get_mut(at).filter(|row| row.run == update.run.raw())?;
        row.set(update.status, update.started_at, update.ended_at, update.skip);
        Some(*row)
    }

    /// Takes runs out that are not on record any more.
    pub(super) fn forget(&mut self, runs: &[RunId]) {
        for run in runs {
            let at = self.place(run.raw());
            if let Some(row) = self.rows.get_mut(at).filter(|row| row.run == run.raw() && !row.is_gone) {
                row.is_gone = true;
                self.gone += 1;
                self.params.remove(&run.raw());
            }
        }
        // A quarter of the room may be taken by what is gone.
        if self.gone * 4 > self.rows.len() {
            self.rows.retain(|row| !row.is_gone);
            self.gone = 0;
        }
    }

    fn place(&self, run: u64) -> usize {
        self.rows.partition_point(|row| row.run < run)
    }
}
