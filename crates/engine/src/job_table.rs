//! What the engine keeps of single jobs, beside their definitions (the catalog) and their dues (the planner).

use std::collections::{BTreeSet, hash_map};

use cadran_core::{JobId, Millis, RunId};
use cadran_plan::PlannedSkip;
use rustc_hash::FxHashMap;

/// One job. Most have nothing to keep, and then no record either.
#[derive(Debug, Default, PartialEq)]
struct LiveJob {
    /// Only while a removed job may still come back as it was.
    removal: Option<Box<Removal>>,
    /// The runs that its backlog waits for before it hands over its next due. Mostly one; after a restart all those that
    /// were promised and did not start.
    backlog_runs: BTreeSet<RunId>,
    /// Caught-up runs that came due while the job was paused: they wait for the end of the pause.
    parked_runs: Vec<RunId>,
    /// How many of its open runs were triggered by hand, by a program or by a parent, and by no schedule.
    triggered_count: u32,
    /// Due of its latest success, where the job has `skip_if_successful`.
    last_success: Option<Millis>,
}

/// A job that went away a short while ago.
#[derive(Debug, PartialEq)]
struct Removal {
    /// The last instant at which it may come back as it was.
    grace_ends_at: Millis,
    /// Dues that nothing is recorded of: skipped when the job does not come back in time.
    unrecorded: Option<PlannedSkip>,
}

/// The records of jobs that have something to keep, by job.
///
/// Everything here belongs to one job, so that a job can be taken up or given away with its record.
#[derive(Debug, Default)]
pub(crate) struct JobTable {
    jobs: FxHashMap<JobId, LiveJob>,
    /// The removals in `jobs`, by the end of their grace period.
    grace_ends: BTreeSet<(Millis, JobId)>,
}

impl JobTable {
    /// Changes the record of a job, and drops it when nothing is left to keep.
    fn update<T>(&mut self, job: JobId, change: impl FnOnce(&mut LiveJob) -> T) -> T {
        match self.jobs.entry(job) {
            hash_map::Entry::Occupied(mut entry) => {
                let answer = change(entry.get_mut());
                if *entry.get() == LiveJob::default() {
                    entry.remove();
                }
                answer
            }
            hash_map::Entry::Vacant(entry) => {
                let mut live = LiveJob::default();
                let answer = change(&mut live);
                if live != LiveJob::default() {
                    entry.insert(live);
                }
                answer
            }
        }
    }

    /// The job went away. Until `grace_ends_at` it may come back as it was.
    pub(crate) fn remove(&mut self, job: JobId, grace_ends_at: Millis, unrecorded: Option<PlannedSkip>) {
        self.undo_removal(job);
        self.grace_ends.insert((grace_ends_at, job));
        self.update(job, |live| {
            live.removal = Some(Box::new(Removal { grace_ends_at, unrecorded }));
            live.backlog_runs.clear();
        });
    }

    /// The job is back. False when its grace period is over, or it was not removed.
    pub(crate) fn undo_removal(&mut self, job: JobId) -> bool {
        match self.update(job, |live| live.removal.take()) {
            Some(removal) => self.grace_ends.remove(&(removal.grace_ends_at, job)),
            None => false,
        }
    }

    /// The next removed job whose grace period is over, with the dues that nothing is recorded of. Its runs that were
    /// parked are not wanted any more.
    pub(crate) fn next_grace_end(&mut self, now: Millis) -> Option<(JobId, Option<PlannedSkip>)> {
        let &(_, job) = self.grace_ends.first().filter(|(ends_at, _)| *ends_at < now)?;
        self.grace_ends.pop_first();
        let removal = self.update(job, |live| {
            live.parked_runs.clear();
            live.removal.take()
        });
        Some((job, removal.and_then(|removal| removal.unrecorded)))
    }

    /// The backlog of the job goes on only when this run is over.
    pub(crate) fn add_backlog_run(&mut self, job: JobId, run: RunId) {
        self.update(job, |live| live.backlog_runs.insert(run));
    }

    /// A run is over. True when it was the last that the job's backlog waited for.
    pub(crate) fn end_backlog_run(&mut self, job: JobId, run: RunId) -> bool {
        self.jobs.contains_key(&job)
            && self.update(job, |live| live.backlog_runs.remove(&run) && live.backlog_runs.is_empty())
    }

    /// Whether the job's backlog waits for a run.
    pub(crate) fn has_backlog_run(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|live| !live.backlog_runs.is_empty())
    }

    /// A caught-up run waits for the end of the job's pause.
    pub(crate) fn park(&mut self, job: JobId, run: RunId) {
        self.update(job, |live| live.parked_runs.push(run));
    }

    /// The pause is over: the runs that waited for that.
    pub(crate) fn unpark(&mut self, job: JobId) -> Vec<RunId> {
        self.update(job, |live| std::mem::take(&mut live.parked_runs))
    }

    /// How many runs of the job are open that no schedule asked for.
    pub(crate) fn triggered_count(&self, job: JobId) -> usize {
        self.jobs.get(&job).map_or(0, |live| live.triggered_count as usize)
    }

    pub(crate) fn add_triggered(&mut self, job: JobId) {
        self.update(job, |live| live.triggered_count = live.triggered_count.saturating_add(1));
    }

    pub(crate) fn end_triggered(&mut self, job: JobId) {
        self.update(job, |live| live.triggered_count = live.triggered_count.saturating_sub(1));
    }

    /// Due of the job's latest success, as far as `skip_if_successful` asks for it.
    pub(crate) fn last_success(&self, job: JobId) -> Option<Millis> {
        self.jobs.get(&job)?.last_success
    }

    pub(crate) fn note_success(&mut self, job: JobId, due: Millis) {
        self.update(job, |live| live.last_success = live.last_success.max(Some(due)));
    }

    pub(crate) fn forget_success(&mut self, job: JobId) {
        self.update(job, |live| live.last_success = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: JobId = JobId(7);

    fn run(no: u64) -> RunId {
        RunId::from_raw(no)
    }

    #[test]
    fn a_job_without_anything_to_keep_has_no_record() {
        let mut table = JobTable::default();
        table.add_triggered(JOB);
        table.add_backlog_run(JOB, run(1));
        table.park(JOB, run(2));
        table.note_success(JOB, 5);
        table.note_success(JOB, 3);
        assert_eq!((table.triggered_count(JOB), table.last_success(JOB)), (1, Some(5)));
        table.end_triggered(JOB);
        assert!(!table.end_backlog_run(JOB, run(9)) && table.end_backlog_run(JOB, run(1)));
        assert_eq!(table.unpark(JOB), [run(2)]);
        assert_eq!(table.jobs.len(), 1);
        table.forget_success(JOB);
        assert!(table.jobs.is_empty());
        assert!(!table.end_backlog_run(JOB, run(1)) && table.unpark(JOB).is_empty());
    }

    #[test]
    fn a_removed_job_may_come_back_until_its_grace_period_ends() {
        let mut table = JobTable::default();
        table.add_backlog_run(JOB, run(1));
        table.remove(JOB, 100, None);
        assert!(!table.has_backlog_run(JOB));
        assert_eq!(table.next_grace_end(100), None);
        assert!(table.undo_removal(JOB) && !table.undo_removal(JOB));
        table.park(JOB, run(2));
        table.remove(JOB, 100, None);
        table.remove(JOB, 200, None);
        assert_eq!(table.next_grace_end(150), None);
        assert_eq!(table.next_grace_end(201), Some((JOB, None)));
        assert!(table.jobs.is_empty() && table.grace_ends.is_empty());
        assert!(!table.undo_removal(JOB));
    }
}
