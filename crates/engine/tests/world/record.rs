//! The store of the world: what is durable, kept as plainly as possible.

use std::collections::{BTreeMap, BTreeSet};

use cadran_core::{
    Batch, JobId, JobPut, JobState, Millis, RunId, RunRecord, RunStatus, RunUpdate, Skip, TriggerKey,
};

/// What a crash leaves behind.
#[derive(Clone, Debug, Default)]
pub struct Record {
    pub jobs: BTreeMap<JobId, (JobPut, Option<Millis>)>,
    pub states: BTreeMap<JobId, JobState>,
    pub runs: BTreeMap<RunId, RunRecord>,
    pub skips: BTreeMap<RunId, Skip>,
    pub trigger_keys: Vec<TriggerKey>,
    held: BTreeSet<(JobId, Millis)>,
}

impl Record {
    /// Writes one batch as one transaction: jobs, removals, states, promises, updates, skips, as every store does.
    /// Returns the promises whose due was taken.
    pub fn commit(&mut self, batch: &Batch) -> Vec<RunId> {
        for put in &batch.jobs {
            self.jobs.insert(put.job, (put.clone(), None));
        }
        for removed in &batch.removed {
            if let Some((_, at)) = self.jobs.get_mut(&removed.job) {
                *at = Some(removed.at);
            }
        }
        for state in &batch.states {
            self.states.insert(state.job, state.clone());
        }
        let mut refused = Vec::new();
        for promise in &batch.promised {
            if promise.trigger.is_scheduled() && !self.held.insert((promise.job, promise.due)) {
                refused.push(promise.run);
                continue;
            }
            let state = RunUpdate::promised(promise.run);
            let row = RunRecord { promise: promise.clone(), state };
            assert!(self.runs.insert(promise.run, row).is_none(), "run id {} given twice", promise.run);
        }
        for update in &batch.runs {
            let Some(row) = self.runs.get_mut(&update.run) else { continue };
            let (was, is) = (row.state.status, update.status);
            // A run that started and ended between two commits is never on record as running.
            let unseen = was.may_become(RunStatus::Running) && RunStatus::Running.may_become(is);
            assert!(was == is || was.may_become(is) || unseen, "run {}: {was:?} became {is:?}", update.run);
            assert!(update.attempt >= row.state.attempt, "run {}: its attempt fell", update.run);
            let steps = update.steps.clone().or(row.state.steps.take());
            row.state = RunUpdate { steps, ..update.clone() };
        }
        for skip in &batch.skips {
            self.skips.insert(skip.id, *skip);
        }
        self.trigger_keys.extend(&batch.trigger_keys);
        refused
    }

    /// The highest id given so far.
    pub fn last_id(&self) -> Option<RunId> {
        self.runs.keys().next_back().max(self.skips.keys().next_back()).copied()
    }

    /// Rows that are not over.
    pub fn open(&self) -> impl Iterator<Item = &RunRecord> {
        self.runs.values().filter(|row| !row.state.status.is_ended())
    }
}
