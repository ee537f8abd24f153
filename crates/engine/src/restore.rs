//! What was open when the server went away, taken up again.

use std::collections::BTreeMap;
use std::sync::Arc;

use cadran_core::{
    Body, Found, Handler, Job, JobId, JobName, JobState, Millis, Now, Order, Outcome, Overlap, Policy,
    RunContext, RunId, RunIds, RunRecord, RunStatus, RunUpdate, SkipReason, StepNo, StepRecord, StepStatus,
    TriggerKey,
};
use cadran_flow::{Next, Progress, Resume};

use crate::catalog::{self, Entry};
use crate::engine::Engine;
use crate::running::{LiveRun, Past};
use crate::timers::RingItem;

/// Everything the record knows, read at start.
#[derive(Debug, Default)]
pub struct Restored {
    /// All jobs, removed ones included; those that [`Engine::restore_jobs`] took up need not be here again.
    pub jobs: Vec<RestoredJob>,
    /// Runs that were promised, waiting or running.
    pub runs: Vec<RestoredRun>,
    /// What the executor knows of attempts of its former life.
    pub found: Vec<Found>,
    /// The highest id given so far.
    pub last_id: Option<RunId>,
    /// The highest log number that executors were given; 0 for none.
    pub last_log: u64,
    /// Due of the latest success of jobs with `skip_if_successful`.
    pub successes: Vec<(JobId, Millis)>,
    /// Keys of triggers of the last day, oldest first.
    pub trigger_keys: Vec<TriggerKey>,
    /// Jobs whose definition could not be read: number, name and revision, so that neither number nor name is given
    /// away. A file of that name makes the job anew.
    pub unread: Vec<(JobId, JobName, u32)>,
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
    /// Makes room for so many jobs at once.
    pub fn reserve(&mut self, jobs: usize) {
        self.catalog.reserve(jobs);
        self.planner.reserve(jobs);
    }

    /// Takes up some of the jobs, before [`Engine::restore`] takes up the rest of the record: a million of them need
    /// not be in memory twice.
    pub fn restore_jobs(&mut self, jobs: Vec<RestoredJob>, now: Now) {
        for restored in jobs {
            self.restore_job(restored, now);
        }
    }

    /// Takes up the record. Called once, before any event.
    pub fn restore(&mut self, restored: Restored, now: Now) {
        self.runs.ids = RunIds::new(self.options.server, restored.last_id);
        self.routing.restore_logs(self.options.server, restored.last_log);
        // The clock may have been set back since; ids only rise.
        if let Some(last_id) = restored.last_id {
            self.planner.note_clock(last_id.millis());
        }
        self.reserve(restored.jobs.len());
        self.restore_jobs(restored.jobs, now);
        for (id, name, revision) in restored.unread {
            let shape = self.catalog.shape(Arc::new(Body::default()), Policy::DEFAULT);
            self.catalog.put(id, Entry { name, shape, revision, removed: true });
        }
        for (job, due) in restored.successes {
            self.jobs.note_success(job, due);
        }
        self.trigger_keys.restore(restored.trigger_keys, now.wall);
        let mut found: BTreeMap<RunId, Vec<Found>> = BTreeMap::new();
        for mut attempt in restored.found {
            if matches!(attempt.ended, Some((_, Outcome::Stopped))) {
                // Stopped by the server's own end, since no stop is on record: cut off, not stopped.
                attempt.ended = None;
            }
            found.entry(attempt.run).or_default().push(attempt);
        }
        let mut runs = restored.runs;
        runs.sort_by_key(|restored| restored.record.promise.run);
        for restored in runs {
            self.restore_run(restored, &mut found, now);
        }
        self.restore_calls();
        self.take_places_back(now);
        // What the executor still keeps of runs that are over: the server went before it could say so.
        self.effects.orders.extend(found.into_keys().map(|run| Order::Close { run }));
        self.finish_event(now);
    }

    fn restore_job(&mut self, restored: RestoredJob, now: Now) {
        let RestoredJob { id, job, revision, removed_at, state } = restored;
        match removed_at {
            None => self.planner.restore(&job.schedules, &state, now.wall),
            // It may come back as it was, or what was left of it is still to be skipped.
            Some(at) if state.watermark.is_some() => {
                self.planner.restore(&job.schedules, &state, now.wall);
                self.remove_job(id, at);
            }
            Some(_) => {}
        }
        let removed = removed_at.is_some();
        for share in job.body.footprint.pools.iter().filter(|_| !removed) {
            // Where a file could not be read lately two may say differently: there is no more than the lower one says.
            let known = self.place.capacity(&share.pool).unwrap_or(share.capacity);
            // Nobody waits yet.
            let _ = self.place.set_capacity(&share.pool, known.min(share.capacity));
        }
        let shape = self.catalog.shape(job.body, job.policy);
        self.catalog.put(id, Entry { name: job.name, shape, revision, removed });
    }

    /// Puts a run read back into the table, not yet into any queue. False when its job is unknown.
    pub(crate) fn reopen(&mut self, restored: RestoredRun, mut found: Vec<Found>, mode: Resume) -> bool {
        let RestoredRun { record, job } = restored;
        let promise = record.promise;
        let Some(entry) = self.catalog.get(promise.job) else { return false };
        let started = record.state.status == RunStatus::Running;
        let older = job.as_ref().map(|job| job.body.clone());
        let (body, policy) = match job {
            Some(job) => (job.body, job.policy),
            // A body that could not be read has no steps.
            None if entry.shape.body.steps.is_empty() => return false,
            None => (entry.shape.body.clone(), entry.shape.policy),
        };
        let footprint = match &older {
            Some(body) => catalog::footprint(body, &promise.params),
            None => entry.shape.footprint(&promise.params),
        };
        let context = Arc::new(RunContext {
            job: promise.job,
            job_name: entry.name.clone(),
            body,
            due: promise.due,
            trigger: promise.trigger,
            params: promise.params,
            addresses: promise.addresses,
            shard_index: 0,
            shard_total: 1,
        });
        let mut live =
            LiveRun::promised(context, policy, footprint, promise.parent.map_or(0, |(_, depth)| depth));
        live.recall_seats(&record.state, &found);
        for attempt in &mut found {
            if let Some((_, outcome)) = &mut attempt.ended {
                let was = std::mem::replace(outcome, Outcome::Lost);
                *outcome = live.with_other_shares(attempt.step, attempt.attempt, was);
            }
        }
        live.status = record.state.status;
        live.attempt = record.state.attempt;
        live.started_at = record.state.started_at.or(found.iter().map(|attempt| attempt.started_at).min());
        let mut records = record.state.steps.unwrap_or_default();
        if started
            && records.is_empty()
            && let [step] = &live.context.body.steps[..]
        {
            // The first attempt of an only step is not recorded apart from its run: see `Engine::report`.
            records.push(StepRecord {
                name: step.name.as_str().into(),
                status: StepStatus::Running,
                attempt: 1,
                lost: 0,
                started_at: live.started_at,
                ended_at: None,
                exit_code: None,
                message: None,
                output: None,
                seats: Vec::new(),
                calls: Vec::new(),
            });
        }
        live.recall_calls(&records);
        if !(records.is_empty() && found.is_empty()) || mode == Resume::Retry {
            live.past = Some(Box::new(Past { records, found, mode }));
        }
        self.runs.insert(promise.run, live);
        true
    }

    fn restore_run(&mut self, restored: RestoredRun, found: &mut BTreeMap<RunId, Vec<Found>>, now: Now) {
        let promise = &restored.record.promise;
        let (run, job, due, trigger) = (promise.run, promise.job, promise.due, promise.trigger);
        let state = restored.record.state.clone();
        let status = state.status;
        let found = found.remove(&run).unwrap_or_default();
        let began = status == RunStatus::Running || !found.is_empty();
        // A retry that is not on record as running yet begins once more.
        let retried = status == RunStatus::Waiting && state.attempt > 0;
        let mode = if retried { Resume::Retry } else { Resume::Recover };
        if !self.reopen(restored, found, mode) {
            // Nobody can go on with it, and nothing shall be open for ever.
            let (status, skip) = match status {
                RunStatus::Running => (RunStatus::Lost, None),
                _ => (RunStatus::Skipped, Some(SkipReason::Removed)),
            };
            let message = Some("the definition of its job is not known any more".into());
            let update = RunUpdate { status, skip, message, ended_at: Some(now.wall), steps: None, ..state };
            self.effects.batch.runs.push(update);
            return;
        }
        if !trigger.is_scheduled() {
            self.jobs.add_triggered(job);
        }
        if let Some(live) = self.runs.get_mut(run).filter(|_| retried) {
            live.retried = Some(ended_before(state.steps.as_deref().unwrap_or_default()));
        }
        if began {
            // It was running: it gets its place back, and its flow goes on or starts over where policy allows.
            self.runs.starts.runs.push_back(run);
            return;
        }
        let removed = self.catalog.get(job).is_none_or(|entry| entry.removed);
        let is_let_go = removed && self.planner.state(job).watermark.is_none();
        if trigger.is_scheduled() && is_let_go && !retried {
            return self.skip_run(run, SkipReason::Removed, now);
        }
        // Job files are read before anything leaves the ring: a job that was edited, paused or removed while the server
        // was away is judged as it is now.
        if let Some(live) = self.runs.get_mut(run) {
            live.lateness_judged = status == RunStatus::Waiting;
        }
        self.timers.ring.push(due, RingItem::Run(run));
    }

    /// Gives runs that were on their places back. A run whose place another one took was over, although the server went
    /// before it could record that. Where its attempts do not tell how it ended it was stopped: runs that exclude one
    /// another do not come back together.
    fn take_places_back(&mut self, now: Now) {
        let begun = |run: &RunId| {
            let live = self.runs.get(*run)?;
            let found = || live.past.iter().flat_map(|past| &past.found);
            let at = found().map(|attempt| attempt.started_at).max().or(live.started_at);
            // Whose attempt goes on has its place, whatever a clock that was set back says of when.
            let lives = found().any(|attempt| attempt.lives && attempt.ended.is_none());
            Some((live.context.job, live.policy.overlap, (lives, at), *run))
        };
        let mut begun: Vec<_> = self.runs.starts.runs.iter().filter_map(begun).collect();
        // Those that go on first, then the later ones: what they hold, those before them had given back.
        begun.sort_unstable_by_key(|&(_, _, at, run)| std::cmp::Reverse((at, run)));
        for (no, &(job, _, _, run)) in begun.iter().enumerate() {
            let Some(live) = self.runs.get(run) else { continue };
            let in_the_way = self.place.restore(run, job, live.footprint.clone());
            let took = |&&(of, overlap, ..): &&(JobId, Overlap, (bool, Option<Millis>), RunId)| {
                of == job && overlap != Overlap::Allow
            };
            let same_job = begun[..no].iter().rfind(took).map(|&(.., other)| other);
            let Some(other) = same_job.or(in_the_way) else { continue };
            let Some(live) = self.runs.get_mut(run) else { continue };
            let Some(past) = live.past.as_mut() else { continue };
            let mut next = Vec::new();
            let (body, once) = (&live.context.body, live.policy.at_most_once);
            let resumed = Progress::resume(body, &past.records, &past.found, past.mode, once, now, &mut next);
            if next.iter().any(|next| matches!(next, Next::End { .. })) {
                continue;
            }
            // With the attempts that were ordered and not recorded: a retry by hand counts on from them. Without those that
            // would be ordered now.
            let mut records = resumed.records(body);
            for next in &next {
                if let Next::Start { step, attempt } = next
                    && let Some(record) = record_of(body, &mut records, *step)
                {
                    record.attempt = attempt - 1;
                }
            }
            for step in records.iter_mut().filter(|step| !step.status.is_ended()) {
                let begun = step.attempt > 0;
                step.status = if begun { StepStatus::Stopped } else { StepStatus::Skipped };
                step.ended_at = begun.then_some(now.wall);
            }
            let update = RunUpdate { steps: Some(records), ..live.update(run) };
            self.effects.batch.runs.push(update);
            self.runs.starts.runs.retain(|next| *next != run);
            self.commits.hold_order(Order::Close { run });
            let message = Some(format!("stopped; run {other} took its place").into());
            self.end_run(run, RunStatus::Stopped, None, message, now);
        }
    }
}

/// The record of a step or handler.
fn record_of<'a>(body: &Body, records: &'a mut [StepRecord], no: StepNo) -> Option<&'a mut StepRecord> {
    let at = usize::from(no.0);
    match at.checked_sub(body.steps.len()) {
        None => records.get_mut(at),
        Some(handler) => {
            let name = Handler::ALL.get(handler)?.step_name();
            records.iter_mut().find(|record| *record.name == *name)
        }
    }
}

/// How a run that is being retried had ended, as far as its steps tell.
fn ended_before(steps: &[StepRecord]) -> RunStatus {
    let any = |status| steps.iter().any(|step| step.status == status);
    match () {
        () if any(StepStatus::Stopped) => RunStatus::Stopped,
        () if any(StepStatus::Failed) => RunStatus::Failed,
        // Stopped before it started.
        () if steps.is_empty() => RunStatus::Stopped,
        () => RunStatus::Lost,
    }
}
