//! The record in memory: for tests, trials and simulations. It is also the plainest statement of what the other
//! two backends have to do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cadran_core::{
    Batch, History, JobId, JobName, JobPut, JobState, Millis, Promise, RunId, RunRecord, RunStatus,
    RunUpdate, Skip, TriggerKey,
};
use rustc_hash::FxHashMap;

use crate::code::DAY_MS;
use crate::error::Failure;
use crate::fold::{Change, Folded};
use crate::heads::{HEADS_MAX, RunHead};
use crate::prune::{self, PrunePass, Pruned, Retention, Stage};
use crate::query::{
    Committed, Counts, JobQuery, JobRecord, JobView, LIMIT_MAX, LastRun, RunQuery, RunView, SkipQuery,
    SkipView, bounded,
};
use crate::{StoreError, keys, servers, text};

#[derive(Debug, Default)]
pub(crate) struct Memory {
    record: Mutex<Record>,
}

#[derive(Debug, Default)]
struct Record {
    closed: bool,
    jobs: BTreeMap<JobId, (JobPut, Option<Millis>)>,
    names: BTreeMap<JobName, JobId>,
    definitions: BTreeMap<(JobId, u32), Arc<str>>,
    states: FxHashMap<JobId, JobState>,
    runs: BTreeMap<RunId, RunRecord>,
    runs_by_job: BTreeSet<(JobId, RunId)>,
    /// The run that holds a due of a job.
    held: FxHashMap<(JobId, Millis), RunId>,
    open: BTreeSet<RunId>,
    skips: BTreeMap<RunId, Skip>,
    servers: Vec<servers::ServerRow>,
    trigger_keys: BTreeMap<u128, TriggerKey>,
}

impl Memory {
    fn record(&self, operation: &'static str) -> Result<MutexGuard<'_, Record>, StoreError> {
        // A panic while the lock was held is a bug elsewhere; the record itself is changed only after all checks.
        let record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        if record.closed {
            let detail = "the store was closed".into();
            return Err(StoreError::Closed(Failure { operation, key: String::new(), detail }));
        }
        Ok(record)
    }

    pub(crate) fn commit(&self, batch: &Batch, folded: &Folded<'_>) -> Result<Committed, StoreError> {
        let mut record = self.record("commit")?;
        record.check_names(folded)?;
        for put in &folded.superseded {
            record.definitions.insert((put.job, put.revision), put.definition.clone());
        }
        for put in &folded.jobs {
            record.put(put);
        }
        for removed in &batch.removed {
            if let Some((_, removed_at)) = record.jobs.get_mut(&removed.job) {
                *removed_at = Some(removed.at);
            }
        }
        for state in &folded.states {
            record.states.insert(state.job, (*state).clone());
        }
        let mut refused = Vec::new();
        for (promise, change) in &folded.promised {
            if !record.promise(promise) {
                refused.push(promise.run);
            } else if let Some(change) = change {
                record.change(change);
            }
        }
        for change in &folded.changes {
            record.change(change);
        }
        for skip in &folded.skips {
            record.skips.insert(skip.id, **skip);
        }
        if let Some(horizon) = keys::horizon(batch) {
            record.trigger_keys.retain(|_, key| key.at >= horizon);
            for key in &batch.trigger_keys {
                record.trigger_keys.entry(key.key.key).or_insert(*key);
            }
        }
        Ok(Committed { refused })
    }

    pub(crate) fn load_jobs(&self, first: JobId) -> Result<(Vec<JobRecord>, Option<JobId>), StoreError> {
        let record = self.record("load")?;
        let jobs = record.jobs.values().filter(|(put, _)| put.job >= first);
        let job = |(put, removed_at): &(JobPut, Option<Millis>)| JobRecord {
            put: put.clone(),
            removed_at: *removed_at,
            state: record.state(put.job),
        };
        Ok((jobs.map(job).collect(), None))
    }

    pub(crate) fn load_runs(&self) -> Result<(Vec<RunRecord>, Option<RunId>), StoreError> {
        let record = self.record("load")?;
        let open = record.open.iter().filter_map(|run| record.runs.get(run).cloned()).collect();
        let last_run = record.runs.keys().next_back();
        let last_skip = record.skips.keys().next_back();
        Ok((open, last_run.max(last_skip).copied()))
    }

    pub(crate) fn trigger_keys(&self, since: Millis) -> Result<Vec<TriggerKey>, StoreError> {
        let record = self.record("trigger_keys")?;
        let mut keys: Vec<TriggerKey> =
            record.trigger_keys.values().filter(|key| key.at >= since).copied().collect();
        keys.sort_by_key(|key| (key.at, key.run));
        Ok(keys)
    }

    pub(crate) fn last_successes(&self, jobs: &[JobId]) -> Result<Vec<(JobId, Millis)>, StoreError> {
        let record = self.record("last_successes")?;
        let jobs: BTreeSet<JobId> = jobs.iter().copied().collect();
        let latest = |job: JobId| {
            let mut runs = record.runs_of(job).rev();
            runs.find(|run| run.state.status == RunStatus::Succeeded).map(|run| (job, run.promise.due))
        };
        Ok(jobs.into_iter().filter_map(latest).collect())
    }

    pub(crate) fn definition(&self, job: JobId, revision: u32) -> Result<Option<Arc<str>>, StoreError> {
        let record = self.record("definition")?;
        let latest = record.jobs.get(&job).filter(|(put, _)| put.revision == revision);
        Ok(latest
            .map(|(put, _)| put.definition.clone())
            .or_else(|| record.definitions.get(&(job, revision)).cloned()))
    }

    pub(crate) fn run(&self, run: RunId) -> Result<Option<RunView>, StoreError> {
        let record = self.record("run")?;
        Ok(record.runs.get(&run).and_then(|run| record.run_view(run)))
    }

    pub(crate) fn runs(&self, query: &RunQuery) -> Result<Vec<RunView>, StoreError> {
        let record = self.record("runs")?;
        let end = query.before.unwrap_or(RunId::from_raw(u64::MAX));
        let wanted = |run: &&RunRecord| {
            (query.statuses.is_empty() || query.statuses.contains(&run.state.status))
                && query
                    .parent
                    .is_none_or(|parent| run.promise.parent.is_some_and(|(above, _)| above == parent))
                && query.due_from.is_none_or(|from| run.promise.due >= from)
                && query.due_to.is_none_or(|to| run.promise.due < to)
        };
        let all: Box<dyn Iterator<Item = &RunRecord>> = match &query.job {
            None => Box::new(record.runs.range(..end).rev().map(|(_, run)| run)),
            Some(name) => match record.names.get(name) {
                None => Box::new(std::iter::empty()),
                Some(job) => Box::new(record.runs_of(*job).rev().filter(|run| run.promise.run < end)),
            },
        };
        Ok(all
            .filter(wanted)
            .filter_map(|run| record.run_view(run))
            .take(bounded(query.limit) as usize)
            .collect())
    }

    pub(crate) fn run_heads(&self, before: Option<RunId>, limit: u32) -> Result<Vec<RunHead>, StoreError> {
        let record = self.record("run_heads")?;
        let end = before.unwrap_or(RunId::from_raw(u64::MAX));
        let head = |RunRecord { promise, state }: &RunRecord| RunHead {
            run: promise.run,
            job: promise.job,
            due: promise.due,
            trigger: promise.trigger,
            status: state.status,
            started_at: state.started_at,
            ended_at: state.ended_at,
            skip: state.skip,
            params: promise.params.clone(),
        };
        let runs = record.runs.range(..end).rev().take(limit.min(HEADS_MAX) as usize);
        Ok(runs.map(|(_, run)| head(run)).collect())
    }

    pub(crate) fn runs_by_id(&self, runs: &[RunId]) -> Result<Vec<RunView>, StoreError> {
        let record = self.record("runs_by_id")?;
        let wanted: BTreeSet<RunId> = runs.iter().take(LIMIT_MAX as usize).copied().collect();
        let found = wanted.iter().rev().filter_map(|run| record.runs.get(run));
        Ok(found.filter_map(|run| record.run_view(run)).collect())
    }

    pub(crate) fn skips_by_id(&self, skips: &[RunId]) -> Result<Vec<SkipView>, StoreError> {
        let record = self.record("skips_by_id")?;
        let wanted: BTreeSet<RunId> = skips.iter().take(LIMIT_MAX as usize).copied().collect();
        let view = |skip: &Skip| {
            let (put, _) = record.jobs.get(&skip.job)?;
            Some(SkipView { skip: *skip, job_name: put.name.clone() })
        };
        Ok(wanted.iter().rev().filter_map(|id| view(record.skips.get(id)?)).collect())
    }

    pub(crate) fn jobs_by_id(&self, jobs: &[JobId]) -> Result<Vec<JobView>, StoreError> {
        let record = self.record("jobs_by_id")?;
        Ok(jobs.iter().take(LIMIT_MAX as usize).filter_map(|job| record.job_view(*job)).collect())
    }

    pub(crate) fn revisions(&self, job: JobId) -> Result<Vec<u32>, StoreError> {
        let record = self.record("revisions")?;
        let older = record.definitions.range((job, 0)..=(job, u32::MAX)).map(|((_, revision), _)| *revision);
        let current = record.jobs.get(&job).map(|(put, _)| put.revision);
        Ok(older.chain(current).collect::<BTreeSet<_>>().into_iter().collect())
    }

    pub(crate) fn skips(&self, query: &SkipQuery) -> Result<Vec<SkipView>, StoreError> {
        let record = self.record("skips")?;
        let end = query.before.unwrap_or(RunId::from_raw(u64::MAX));
        let view = |skip: &Skip| {
            let (put, _) = record.jobs.get(&skip.job)?;
            Some(SkipView { skip: *skip, job_name: put.name.clone() })
        };
        let all = record.skips.range(..end).rev().filter_map(|(_, skip)| view(skip));
        let wanted = |view: &SkipView| query.job.as_ref().is_none_or(|name| *name == view.job_name);
        Ok(all.filter(wanted).take(bounded(query.limit) as usize).collect())
    }

    pub(crate) fn jobs(&self, query: &JobQuery) -> Result<Vec<JobView>, StoreError> {
        let record = self.record("jobs")?;
        let text = query.text.as_deref().unwrap_or_default().to_ascii_lowercase();
        let views = record
            .names
            .iter()
            .filter(|(name, _)| query.after.as_ref().is_none_or(|after| *name > after))
            .filter(|(name, _)| text.is_empty() || name.as_str().to_ascii_lowercase().contains(&text))
            .filter_map(|(_, job)| record.job_view(*job))
            .filter(|view| query.include_removed || view.removed_at.is_none());
        Ok(views.take(bounded(query.limit) as usize).collect())
    }

    pub(crate) fn job(&self, name: &JobName) -> Result<Option<JobView>, StoreError> {
        let record = self.record("job")?;
        Ok(record.names.get(name).and_then(|job| record.job_view(*job)))
    }

    pub(crate) fn counts(&self) -> Result<Counts, StoreError> {
        let record = self.record("counts")?;
        let mut counts = Counts {
            jobs: record.jobs.values().filter(|(_, removed_at)| removed_at.is_none()).count() as u64,
            ..Counts::default()
        };
        for run in record.open.iter().filter_map(|run| record.runs.get(run)) {
            match run.state.status {
                RunStatus::Promised => counts.promised += 1,
                RunStatus::Waiting => counts.waiting += 1,
                RunStatus::Running => counts.running += 1,
                _ => {}
            }
        }
        Ok(counts)
    }

    pub(crate) fn prune(&self, pass: &mut PrunePass, rows_max: u32) -> Result<Pruned, StoreError> {
        let mut record = self.record("prune")?;
        let mut pruned = Pruned::default();
        let from = prune::job_of(pass.from);
        let jobs: Vec<(JobId, History)> =
            record.jobs.range(from..).map(|(job, (put, _))| (*job, put.history)).collect();
        for (job, history) in jobs {
            let room = rows_max as usize - pruned.runs.len();
            record.prune_job(job, &limits(history, pass.retention), pass.now, room, &mut pruned);
            // It may have more than there was room for.
            if pruned.runs.len() >= rows_max as usize {
                return Ok(pruned);
            }
            pass.from = i64::from(job.0) + 1;
        }
        pass.stage = Stage::Over;
        Ok(pruned)
    }

    pub(crate) fn known_runs(&self, runs: &[RunId]) -> Result<Vec<RunId>, StoreError> {
        let record = self.record("known_runs")?;
        Ok(runs.iter().copied().filter(|run| record.runs.contains_key(run)).collect())
    }

    pub(crate) fn enlist(&self, name: &str, now: Millis) -> Result<u16, StoreError> {
        let mut record = self.record("enlist")?;
        let number = servers::number(&record.servers, name);
        record.servers.retain(|(other, ..)| *other != number);
        record.servers.push((number, name.to_owned(), now));
        Ok(number)
    }

    pub(crate) fn ping(&self) -> Result<(), StoreError> {
        self.record("ping").map(drop)
    }

    pub(crate) fn close(&self) {
        if let Ok(mut record) = self.record("close") {
            record.closed = true;
        }
    }
}

impl Record {
    fn check_names(&self, folded: &Folded<'_>) -> Result<(), StoreError> {
        let mut fresh: FxHashMap<&JobName, JobId> = FxHashMap::default();
        for put in &folded.jobs {
            let recorded = self.names.get(&put.name).is_some_and(|job| *job != put.job);
            let repeated = fresh.insert(&put.name, put.job).is_some();
            if recorded || repeated {
                return Err(StoreError::Conflict(Failure {
                    operation: "commit",
                    key: format!("job {}", put.name),
                    detail: "the name belongs to another job".into(),
                }));
            }
        }
        Ok(())
    }

    fn put(&mut self, put: &JobPut) {
        if let Some((earlier, _)) = self.jobs.insert(put.job, (put.clone(), None)) {
            if earlier.revision != put.revision {
                self.definitions.insert((earlier.job, earlier.revision), earlier.definition);
            }
            if earlier.name != put.name {
                self.names.remove(&earlier.name);
            }
        }
        self.names.insert(put.name.clone(), put.job);
    }

    /// Whether the run is recorded now.
    fn promise(&mut self, promise: &Promise) -> bool {
        if self.runs.contains_key(&promise.run) {
            return true;
        }
        if promise.trigger.is_scheduled() {
            if self.held.contains_key(&(promise.job, promise.due)) {
                return false;
            }
            self.held.insert((promise.job, promise.due), promise.run);
        }
        let state = RunUpdate::promised(promise.run);
        self.runs.insert(promise.run, RunRecord { promise: promise.clone(), state });
        self.runs_by_job.insert((promise.job, promise.run));
        self.open.insert(promise.run);
        true
    }

    fn change(&mut self, change: &Change<'_>) {
        let run = change.update.run;
        let Some(record) = self.runs.get_mut(&run) else { return };
        let steps = change.steps.map(<[_]>::to_vec).or(record.state.steps.take());
        let message = change.update.message.as_deref().map(|message| text::message(message).into());
        record.state = RunUpdate { steps, message, ..change.update.clone() };
        if record.state.status.is_ended() {
            self.open.remove(&run);
        } else {
            self.open.insert(run);
        }
    }

    fn state(&self, job: JobId) -> JobState {
        let none = JobState { job, watermark: None, paused_at: None, holes: Vec::new() };
        self.states.get(&job).cloned().unwrap_or(none)
    }

    fn runs_of(&self, job: JobId) -> impl DoubleEndedIterator<Item = &RunRecord> {
        let all = (job, RunId::from_raw(0))..=(job, RunId::from_raw(u64::MAX));
        self.runs_by_job.range(all).filter_map(|(_, run)| self.runs.get(run))
    }

    fn run_view(&self, run: &RunRecord) -> Option<RunView> {
        let (put, _) = self.jobs.get(&run.promise.job)?;
        Some(RunView { record: run.clone(), job_name: put.name.clone() })
    }

    fn job_view(&self, job: JobId) -> Option<JobView> {
        let (put, removed_at) = self.jobs.get(&job)?;
        let last_run = self.runs_of(job).next_back();
        Some(JobView {
            put: put.clone(),
            removed_at: *removed_at,
            state: self.state(job),
            last_run: last_run.map(|run| LastRun {
                run: run.promise.run,
                status: run.state.status,
                due: run.promise.due,
            }),
        })
    }

    fn prune_job(
        &mut self,
        job: JobId,
        limits: &[History],
        now: Millis,
        rows_max: usize,
        pruned: &mut Pruned,
    ) {
        let ended: Vec<(RunId, Millis)> = self
            .runs_of(job)
            .filter(|run| run.state.status.is_ended())
            .map(|run| (run.promise.run, run.state.ended_at.unwrap_or(run.promise.promised_at)))
            .collect();
        let skips: Vec<(RunId, Millis)> =
            self.skips.values().filter(|skip| skip.job == job).map(|skip| (skip.id, skip.at)).collect();
        for run in expired(&ended, limits, now).into_iter().take(rows_max) {
            if let Some(gone) = self.runs.remove(&run) {
                self.runs_by_job.remove(&(job, run));
                if gone.promise.trigger.is_scheduled() {
                    self.held.remove(&(job, gone.promise.due));
                }
                pruned.runs.push(run);
            }
        }
        for skip in expired(&skips, limits, now) {
            pruned.skips += u64::from(self.skips.remove(&skip).is_some());
        }
        let oldest = self.runs_of(job).next().map(|run| run.promise.revision);
        self.definitions
            .retain(|(of, revision), _| *of != job || oldest.is_some_and(|oldest| *revision >= oldest));
    }
}

/// What a job asks for and what is kept at most.
fn limits(history: History, retention: Retention) -> Vec<History> {
    let most = [retention.days_max.map(History::Days), retention.runs_max.map(History::Count)];
    std::iter::once(history).chain(most.into_iter().flatten()).collect()
}

/// Of rows with their ends, oldest first, those that one of the limits no longer keeps.
fn expired(rows: &[(RunId, Millis)], limits: &[History], now: Millis) -> Vec<RunId> {
    let is_over = |at: usize, ended_at: Millis| {
        limits.iter().any(|limit| match limit {
            History::Count(keep) => rows.len() - at > *keep as usize,
            History::Days(days) => ended_at < now.saturating_sub(Millis::from(*days) * DAY_MS),
        })
    };
    let rows = rows.iter().enumerate();
    rows.filter(|(at, (_, ended_at))| is_over(*at, *ended_at)).map(|(_, (run, _))| *run).collect()
}
