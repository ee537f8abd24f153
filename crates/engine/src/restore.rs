//! What was open when the server went away, taken up again.

use std::collections::BTreeMap;
use std::sync::Arc;

use cadran_core::{
    Found, Job, JobId, JobState, Millis, Misfire, Now, Outcome, RunContext, RunId, RunIds, RunRecord,
    RunStatus, SkipReason, Trigger,
};
use cadran_flow::Resume;
use cadran_plan::catch_up::{self, Lateness};

use crate::catalog::Entry;
use crate::engine::{Engine, Fire};
use crate::jobs::REVIVE_MS_MAX;
use crate::running::{LiveRun, Past};

/// Everything the record knows, read at start.
#[derive(Debug, Default)]
pub struct Restored {
    /// All jobs, removed ones included.
    pub jobs: Vec<RestoredJob>,
    /// Runs that were promised, waiting or running.
    pub runs: Vec<RestoredRun>,
    /// What the executor knows of attempts of its former life.
    pub found: Vec<Found>,
    /// The highest id given so far.
    pub last_id: Option<RunId>,
    /// Due of the latest success of jobs with `skip_if_successful`.
    pub successes: Vec<(JobId, Millis)>,
}

/// A job read back.
#[derive(Debug)]
pub struct RestoredJob {
    /// Its number.
    pub id: JobId,
    /// Its definition.
    pub job: Job,
    /// The revision of it.
    pub revision: u32,
    /// When it was removed, if it was.
    pub removed_at: Option<Millis>,
    /// Its planning state.
    pub state: JobState,
}

/// A run read back.
#[derive(Debug)]
pub struct RestoredRun {
    /// The row.
    pub record: RunRecord,
    /// The definition it was promised under, when that is not the job's present one.
    pub job: Option<Job>,
}

impl Engine {
    /// Takes up the record. Called once, before any event.
    pub fn restore(&mut self, restored: Restored, now: Now) {
        self.ids = RunIds::new(self.options.server, restored.last_id);
        self.catalog.reserve(restored.jobs.len());
        for restored in restored.jobs {
            self.restore_job(restored, now);
        }
        self.successes.extend(restored.successes);
        let mut found: BTreeMap<RunId, Vec<Found>> = BTreeMap::new();
        for mut attempt in restored.found {
            if matches!(attempt.ended, Some((_, Outcome::Stopped))) {
                // Stopped by the server's own end, since no stop is on record: cut off, not stopped.
                attempt.ended = None;
            }
            found.entry(attempt.run).or_default().push(attempt);
        }
        let mut late: BTreeMap<JobId, Vec<RunId>> = BTreeMap::new();
        let mut runs = restored.runs;
        runs.sort_by_key(|restored| restored.record.promise.run);
        for restored in runs {
            self.restore_run(restored, &mut found, &mut late, now);
        }
        for (job, runs) in late {
            self.judge_late(job, runs, now);
        }
        self.start_admitted(now);
    }

    fn restore_job(&mut self, restored: RestoredJob, now: Now) {
        let RestoredJob { id, job, revision, removed_at, state } = restored;
        match removed_at {
            None => self.planner.restore(&job.schedules, &state, now.wall),
            Some(at) => {
                self.removed.insert(id, at);
                if now.wall.saturating_sub(at) <= REVIVE_MS_MAX {
                    // It may come back as it was: keep its watermark, plan nothing.
                    self.planner.restore(&[], &state, now.wall);
                    self.planner.remove(id);
                }
            }
        }
        let removed = removed_at.is_some();
        self.catalog.put(id, Entry { name: job.name, body: job.body, policy: job.policy, revision, removed });
    }

    /// Puts a run read back into the table, not yet into any queue. False when its job is unknown.
    pub(crate) fn reopen(&mut self, restored: RestoredRun, found: Vec<Found>, mode: Resume) -> bool {
        let RestoredRun { record, job } = restored;
        let promise = record.promise;
        let Some(entry) = self.catalog.get(promise.job) else { return false };
        let (body, policy) = match job {
            Some(job) => (job.body, job.policy),
            None => (entry.body.clone(), entry.policy),
        };
        let context = Arc::new(RunContext {
            job: promise.job,
            job_name: entry.name.clone(),
            body,
            due: promise.due,
            trigger: promise.trigger,
            params: promise.params,
            shard_index: 0,
            shard_total: 1,
        });
        let mut live = LiveRun::promised(context, policy, promise.parent.map_or(0, |(_, depth)| depth));
        live.status = record.state.status;
        live.attempt = record.state.attempt;
        live.started_at = record.state.started_at.or(found.iter().map(|attempt| attempt.started_at).min());
        let records = record.state.steps.unwrap_or_default();
        if !(records.is_empty() && found.is_empty()) || mode == Resume::Retry {
            live.past = Some(Box::new(Past { records, found, mode }));
        }
        self.runs.insert(promise.run, live);
        true
    }

    fn restore_run(
        &mut self,
        restored: RestoredRun,
        found: &mut BTreeMap<RunId, Vec<Found>>,
        late: &mut BTreeMap<JobId, Vec<RunId>>,
        now: Now,
    ) {
        let promise = &restored.record.promise;
        let (run, job, due, trigger) = (promise.run, promise.job, promise.due, promise.trigger);
        let status = restored.record.state.status;
        let found = found.remove(&run).unwrap_or_default();
        let began = status == RunStatus::Running || !found.is_empty();
        if !self.reopen(restored, found, Resume::Recover) {
            return;
        }
        if began {
            // It was running: it holds its place, and its flow goes on or starts over where policy allows.
            self.place.restore(run, job, trigger);
            self.to_start.push_back(run);
            return;
        }
        let removed = self.catalog.get(job).is_none_or(|entry| entry.removed);
        if trigger.is_scheduled() && (removed || self.planner.is_paused(job)) {
            let reason = if removed { SkipReason::Removed } else { SkipReason::Paused };
            return self.skip_run(run, reason, now);
        }
        let missed = catch_up::lateness(due, now.wall) == Lateness::Missed;
        if missed && trigger == Trigger::Schedule && status == RunStatus::Promised {
            late.entry(job).or_default().push(run);
        } else if missed && trigger == Trigger::Restart {
            // Restarts are never caught up.
            self.skip_run(run, SkipReason::Missed, now);
        } else {
            self.ring.push(due.min(now.wall.max(due)), Fire::Run(run));
        }
    }

    /// Promised runs of a job that were never started and are missed by now: judged like any missed due.
    fn judge_late(&mut self, job: JobId, mut runs: Vec<RunId>, now: Now) {
        let Some(policy) = self.catalog.get(job).map(|entry| entry.policy) else { return };
        runs.sort_by_key(|run| self.runs.get(run).map(|live| live.context.due));
        let newer = self.planner.has_missed(job, now.wall);
        let newest = runs.last().copied();
        for run in runs {
            let Some(due) = self.runs.get(&run).map(|live| live.context.due) else { continue };
            let verdict = match policy.misfire {
                Misfire::Skip => Some(SkipReason::Missed),
                Misfire::Once if newer || Some(run) != newest => Some(SkipReason::Superseded),
                Misfire::Once => None,
                Misfire::All if now.wall.saturating_sub(due) > policy.catchup_window_ms => {
                    Some(SkipReason::OutsideWindow)
                }
                Misfire::All => None,
            };
            match verdict {
                Some(reason) => self.skip_run(run, reason, now),
                None => {
                    // Replayed one after another with the rest of the backlog, not skipped by its own kind.
                    if let Some(live) = self.runs.get_mut(&run) {
                        let context = RunContext { trigger: Trigger::CatchUp, ..(*live.context).clone() };
                        live.context = Arc::new(context);
                    }
                    self.ring.push(due, Fire::Run(run));
                }
            }
        }
    }
}
