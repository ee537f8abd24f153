//! One batch as the rows it comes down to.
//!
//! A batch may be several turns of the loop put together. Here the last state of a job and the last update of a
//! run are found, and an update of a run that is promised in the same batch joins its promise, so that such a run
//! costs one row instead of two. Every backend writes from this, hence they agree.

use cadran_core::{Batch, JobId, JobPut, JobState, Promise, RunId, RunUpdate, Skip, StepRecord};
use rustc_hash::FxHashMap;

use crate::StoreError;
use crate::error::Failure;

/// The rows of a batch. Jobs are written first, then removals, states, promises, updates and skips.
#[derive(Debug, Default)]
pub(crate) struct Folded<'a> {
    /// The last put of each job.
    pub(crate) jobs: Vec<&'a JobPut>,
    /// Earlier puts of the same jobs under other revisions: runs of this batch may be promised under them.
    pub(crate) superseded: Vec<&'a JobPut>,
    /// The last state of each job.
    pub(crate) states: Vec<&'a JobState>,
    /// New runs, with what became of them in the same batch.
    pub(crate) promised: Vec<(&'a Promise, Option<Change<'a>>)>,
    /// What became of runs promised before.
    pub(crate) changes: Vec<Change<'a>>,
    /// The last skip of each stretch.
    pub(crate) skips: Vec<&'a Skip>,
}

/// The last update of a run, with the last steps that any of its updates carried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    pub(crate) update: &'a RunUpdate,
    pub(crate) steps: Option<&'a [StepRecord]>,
}

impl<'a> Folded<'a> {
    pub(crate) fn new(batch: &'a Batch) -> Result<Folded<'a>, StoreError> {
        let mut folded = Folded::default();
        folded.fold_jobs(&batch.jobs)?;
        folded.fold_states(&batch.states);
        let mut changes = fold_changes(&batch.runs);
        folded.promised = if changes.is_empty() {
            batch.promised.iter().map(|promise| (promise, None)).collect()
        } else {
            join_promises(&batch.promised, &mut changes)
        };
        folded.changes = changes;
        folded.fold_skips(&batch.skips);
        Ok(folded)
    }

    fn fold_jobs(&mut self, puts: &'a [JobPut]) -> Result<(), StoreError> {
        let mut at: FxHashMap<JobId, usize> = FxHashMap::default();
        at.reserve(puts.len());
        self.jobs.reserve(puts.len());
        for put in puts {
            check_text(put)?;
            match at.entry(put.job) {
                std::collections::hash_map::Entry::Vacant(slot) => {
                    slot.insert(self.jobs.len());
                    self.jobs.push(put);
                }
                std::collections::hash_map::Entry::Occupied(slot) => {
                    let earlier = std::mem::replace(&mut self.jobs[*slot.get()], put);
                    self.superseded.push(earlier);
                }
            }
        }
        if !self.superseded.is_empty() {
            let jobs = &self.jobs;
            self.superseded.retain(|put| jobs[at[&put.job]].revision != put.revision);
            // The last of several puts of one revision counts.
            let mut last: FxHashMap<(JobId, u32), usize> = FxHashMap::default();
            for (index, put) in self.superseded.iter().enumerate() {
                last.insert((put.job, put.revision), index);
            }
            let mut index = 0;
            self.superseded.retain(|put| {
                index += 1;
                last[&(put.job, put.revision)] == index - 1
            });
        }
        Ok(())
    }

    fn fold_skips(&mut self, skips: &'a [Skip]) {
        let mut at: FxHashMap<RunId, usize> = FxHashMap::default();
        at.reserve(skips.len());
        for skip in skips {
            let next = self.skips.len();
            let slot = *at.entry(skip.id).or_insert(next);
            if slot == next {
                self.skips.push(skip);
            } else {
                self.skips[slot] = skip;
            }
        }
    }

    fn fold_states(&mut self, states: &'a [JobState]) {
        let mut at: FxHashMap<JobId, usize> = FxHashMap::default();
        at.reserve(states.len());
        self.states.reserve(states.len());
        for state in states {
            let next = self.states.len();
            let slot = *at.entry(state.job).or_insert(next);
            if slot == next {
                self.states.push(state);
            } else {
                self.states[slot] = state;
            }
        }
    }
}

fn fold_changes(updates: &[RunUpdate]) -> Vec<Change<'_>> {
    let mut at: FxHashMap<RunId, usize> = FxHashMap::default();
    at.reserve(updates.len());
    let mut changes: Vec<Change<'_>> = Vec::with_capacity(updates.len());
    for update in updates {
        let steps = update.steps.as_deref();
        let next = changes.len();
        let slot = *at.entry(update.run).or_insert(next);
        if slot == next {
            changes.push(Change { update, steps });
        } else {
            let change = &mut changes[slot];
            *change = Change { update, steps: steps.or(change.steps) };
        }
    }
    changes
}

/// Moves the changes of runs that are promised here to their promises.
fn join_promises<'a>(
    promised: &'a [Promise],
    changes: &mut Vec<Change<'a>>,
) -> Vec<(&'a Promise, Option<Change<'a>>)> {
    if promised.is_empty() {
        return Vec::new();
    }
    let mut by_run: FxHashMap<RunId, Change<'a>> =
        changes.iter().map(|change| (change.update.run, *change)).collect();
    let joined: Vec<_> = promised.iter().map(|promise| (promise, by_run.remove(&promise.run))).collect();
    changes.retain(|change| by_run.contains_key(&change.update.run));
    joined
}

/// PostgreSQL's text has no NUL, and neither has a file name: a definition with one is refused by every backend.
fn check_text(put: &JobPut) -> Result<(), StoreError> {
    let texts = [("definition", &put.definition), ("source", &put.source), ("source mark", &put.source_mark)];
    for (what, text) in texts {
        if text.as_bytes().contains(&0) {
            return Err(StoreError::Value(Failure {
                operation: "commit",
                key: format!("job {}", put.name),
                detail: format!("its {what} contains a NUL character"),
            }));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cadran_core::{History, RunStatus, Trigger};

    fn put(job: u32, revision: u32) -> JobPut {
        JobPut {
            job: JobId(job),
            name: format!("job-{job}").parse().unwrap(),
            revision,
            definition: format!("r{revision}").into(),
            source: "".into(),
            source_mark: "".into(),
            history: History::default(),
        }
    }

    fn update(run: u64, status: RunStatus, steps: Option<usize>) -> RunUpdate {
        let steps = steps.map(|_| Vec::new());
        RunUpdate { status, attempt: 1, steps, ..RunUpdate::promised(RunId::from_raw(run)) }
    }

    fn promise(run: u64) -> Promise {
        Promise {
            run: RunId::from_raw(run),
            job: JobId(0),
            revision: 1,
            due: run as i64,
            trigger: Trigger::Schedule,
            promised_at: 0,
            params: Vec::new(),
            addresses: Vec::new(),
            parent: None,
        }
    }

    #[test]
    fn the_last_one_counts_and_steps_are_kept() {
        let batch = Batch {
            runs: vec![
                update(1, RunStatus::Running, Some(0)),
                update(2, RunStatus::Running, None),
                update(1, RunStatus::Succeeded, None),
            ],
            ..Batch::default()
        };
        let folded = Folded::new(&batch).unwrap();
        let found: Vec<_> =
            folded.changes.iter().map(|c| (c.update.run.raw(), c.update.status, c.steps.is_some())).collect();
        assert_eq!(found, [(1, RunStatus::Succeeded, true), (2, RunStatus::Running, false)]);
    }

    #[test]
    fn a_change_joins_its_promise() {
        let batch = Batch {
            promised: vec![promise(1), promise(2)],
            runs: vec![update(2, RunStatus::Running, None), update(9, RunStatus::Failed, None)],
            ..Batch::default()
        };
        let folded = Folded::new(&batch).unwrap();
        let joined: Vec<_> = folded.promised.iter().map(|(p, c)| (p.run.raw(), c.is_some())).collect();
        assert_eq!(joined, [(1, false), (2, true)]);
        let rest: Vec<_> = folded.changes.iter().map(|c| c.update.run.raw()).collect();
        assert_eq!(rest, [9]);
    }

    #[test]
    fn earlier_revisions_of_a_batch_are_kept_as_definitions() {
        let batch =
            Batch { jobs: vec![put(1, 1), put(2, 1), put(1, 2), put(1, 2), put(1, 3)], ..Batch::default() };
        let folded = Folded::new(&batch).unwrap();
        let jobs: Vec<_> = folded.jobs.iter().map(|p| (p.job.0, p.revision)).collect();
        let superseded: Vec<_> = folded.superseded.iter().map(|p| (p.job.0, p.revision)).collect();
        assert_eq!((jobs, superseded), (vec![(1, 3), (2, 1)], vec![(1, 1), (1, 2)]));
    }

    #[test]
    fn a_nul_in_a_definition_is_refused_by_name() {
        let batch =
            Batch { jobs: vec![JobPut { definition: "a\0b".into(), ..put(7, 1) }], ..Batch::default() };
        let error = Folded::new(&batch).unwrap_err();
        assert!(!error.is_transient());
        assert!(error.to_string().contains("job job-7"), "{error}");
    }
}
