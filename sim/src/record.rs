//! What is durable: the real store in memory, or a plain table for runs of many years.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use cadran_core::{Batch, JobId, JobPut, JobState, Millis, RunId, RunRecord, RunStatus, RunUpdate};
use cadran_store::{JobRecord, Loaded, Store};

/// Keeps what a crash leaves behind.
pub(crate) trait Record {
    /// Writes a batch. Returns the promises whose due was taken.
    fn commit(&mut self, batch: &Batch) -> Result<Vec<RunId>, String>;
    fn load(&self) -> Loaded;
    fn definition(&self, job: JobId, revision: u32) -> Option<Arc<str>>;
    fn successes(&self, jobs: &[JobId]) -> Vec<(JobId, Millis)>;
    fn run(&self, run: RunId) -> Option<RunRecord>;
}

/// The store of the product, in memory.
pub(crate) struct Real(Store);

/// Futures of the memory store are ready at once.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => unreachable!("the store in memory waits for nothing"),
    }
}

impl Real {
    pub(crate) fn open() -> Real {
        match now(Store::open("memory:")) {
            Ok(store) => Real(store),
            Err(error) => unreachable!("the store in memory opens: {error}"),
        }
    }
}

impl Record for Real {
    fn commit(&mut self, batch: &Batch) -> Result<Vec<RunId>, String> {
        now(self.0.commit(batch)).map(|committed| committed.refused).map_err(|error| error.to_string())
    }

    fn load(&self) -> Loaded {
        now(self.0.load()).unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn definition(&self, job: JobId, revision: u32) -> Option<Arc<str>> {
        now(self.0.definition(job, revision)).ok().flatten()
    }

    fn successes(&self, jobs: &[JobId]) -> Vec<(JobId, Millis)> {
        now(self.0.last_successes(jobs)).unwrap_or_default()
    }

    fn run(&self, run: RunId) -> Option<RunRecord> {
        now(self.0.run(run)).ok().flatten().map(|view| view.record)
    }
}

/// Jobs, states and open runs only: what ended is the checker's business alone, so that ten years fit in memory.
#[derive(Default)]
pub(crate) struct Plain {
    jobs: BTreeMap<JobId, (JobPut, Option<Millis>)>,
    states: BTreeMap<JobId, JobState>,
    definitions: BTreeMap<(JobId, u32), Arc<str>>,
    runs: rustc_hash::FxHashMap<RunId, RunRecord>,
    held: BTreeSet<(JobId, Millis)>,
    successes: BTreeMap<JobId, (RunId, Millis)>,
    last_id: Option<RunId>,
}

impl Record for Plain {
    fn commit(&mut self, batch: &Batch) -> Result<Vec<RunId>, String> {
        for put in &batch.jobs {
            self.definitions.insert((put.job, put.revision), put.definition.clone());
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
            self.last_id = self.last_id.max(Some(promise.run));
            if self.runs.contains_key(&promise.run) {
                continue;
            }
            if promise.trigger.is_scheduled() && !self.held.insert((promise.job, promise.due)) {
                refused.push(promise.run);
                continue;
            }
            let state = RunUpdate::promised(promise.run);
            self.runs.insert(promise.run, RunRecord { promise: promise.clone(), state });
        }
        for update in &batch.runs {
            let Some(row) = self.runs.get_mut(&update.run) else { continue };
            let steps = update.steps.clone().or(row.state.steps.take());
            row.state = RunUpdate { steps, ..update.clone() };
            if update.status == RunStatus::Succeeded {
                self.successes.insert(row.promise.job, (row.promise.run, row.promise.due));
            }
            if update.status.is_ended() {
                let promise = &row.promise;
                self.held.remove(&(promise.job, promise.due));
                self.runs.remove(&update.run);
            }
        }
        self.last_id = self.last_id.max(batch.skips.iter().map(|skip| skip.id).max());
        Ok(refused)
    }

    fn load(&self) -> Loaded {
        let state = |job: &JobId| {
            let none = JobState { job: *job, watermark: None, paused_at: None, holes: Vec::new() };
            self.states.get(job).cloned().unwrap_or(none)
        };
        let jobs = self.jobs.iter().map(|(job, (put, removed_at))| JobRecord {
            put: put.clone(),
            removed_at: *removed_at,
            state: state(job),
        });
        let mut open: Vec<RunRecord> = self.runs.values().cloned().collect();
        open.sort_by_key(|row| row.promise.run);
        Loaded { jobs: jobs.collect(), open, last_id: self.last_id }
    }

    fn definition(&self, job: JobId, revision: u32) -> Option<Arc<str>> {
        self.definitions.get(&(job, revision)).cloned()
    }

    fn successes(&self, jobs: &[JobId]) -> Vec<(JobId, Millis)> {
        jobs.iter().filter_map(|job| Some((*job, self.successes.get(job)?.1))).collect()
    }

    fn run(&self, run: RunId) -> Option<RunRecord> {
        self.runs.get(&run).cloned()
    }
}
