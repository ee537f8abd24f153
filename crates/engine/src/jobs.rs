//! Jobs that come, change and go.

use std::collections::BTreeSet;

use cadran_core::planted::{self, Bug};
use cadran_core::{JobId, JobPut, JobRemoved, Millis, Now, RunId, RunStatus, SkipReason, Trigger};
use cadran_plan::{Plan, PlannedSkip};

use crate::catalog::Entry;
use crate::effects::JobChange;
use crate::engine::Engine;

/// A job whose file is written again within this time was only edited, by an editor that deletes and re-creates.
pub(crate) const REVIVE_MS_MAX: Millis = 120_000;

/// A job that went away.
#[derive(Debug)]
pub(crate) struct Removed {
    /// When.
    pub(crate) at: Millis,
    /// Dues that nothing is recorded of: skipped when the job does not come back in time.
    pub(crate) left: Option<PlannedSkip>,
}

impl Removed {
    /// The last instant at which it may come back as it was.
    fn until(&self) -> Millis {
        self.at.saturating_add(REVIVE_MS_MAX)
    }
}

impl Engine {
    pub(crate) fn change_jobs(&mut self, changes: Vec<JobChange>, now: Now) {
        if changes.len() > 1_000 {
            self.catalog.reserve(changes.len());
        }
        self.let_go_of_removed(now);
        for change in changes {
            match change {
                JobChange::Put { .. } => self.put_job(change, now),
                JobChange::Remove { name } => {
                    let Some(job) = self.catalog.find(&name) else { continue };
                    if let Some(entry) = self.catalog.get_mut(job) {
                        entry.removed = true;
                    }
                    self.remove_job(job, now.wall);
                    self.backlog_runs.remove(&job);
                    self.out.batch.removed.push(JobRemoved { job, at: now.wall });
                }
            }
            self.out.jobs_changed = true;
        }
        // What is due within the pre-read window should not wait for the next tick.
        self.next_tick = self.next_tick.min(now.wall);
    }

    fn put_job(&mut self, change: JobChange, now: Now) {
        let JobChange::Put { job, definition, source, source_mark } = change else { return };
        let known = self.catalog.number(&job.name);
        let id = known.unwrap_or_else(|| self.catalog.next_id());
        let revision = known.and_then(|id| self.catalog.get(id)).map_or(1, |entry| entry.revision + 1);
        let removed = self.removed.remove(&id);
        if removed.is_some() {
            // In the store a removal is written behind a put of the same batch.
            self.out.batch.removed.retain(|removed| removed.job != id);
        }
        let mut plan = Plan::default();
        match (known, removed) {
            (Some(_), None) if planted::on(Bug::WaiterLostOnEdit) => {
                self.planner.update(id, &job.schedules, &job.policy, now.wall, &mut plan);
                let waiting: Vec<RunId> = self.place.waiting_of(id).collect();
                waiting.into_iter().for_each(|run| drop(self.place.release(run)));
            }
            (Some(_), None) => self.planner.update(id, &job.schedules, &job.policy, now.wall, &mut plan),
            (Some(_), Some(removed)) if self.revivable.remove(&(removed.until(), id)) => {
                self.planner.revive(id, &job.schedules, now.wall);
            }
            (Some(_), Some(_)) if planted::on(Bug::BacklogSurvivesRemoval) => {
                self.planner.revive(id, &job.schedules, now.wall);
            }
            _ => {
                self.planner.forget(id);
                self.planner.add(id, &job.schedules, now.wall);
            }
        }
        if !job.policy.skip_if_successful {
            self.successes.remove(&id);
        }
        self.out.batch.jobs.push(JobPut {
            job: id,
            name: job.name.clone(),
            revision,
            definition,
            source,
            source_mark,
            history: job.body.history,
        });
        self.out.batch.states.push(self.planner.state(id));
        for share in &job.body.footprint.pools {
            let freed = self.place.set_capacity(&share.pool, share.capacity);
            self.take_freed(freed, now);
        }
        let shape = self.catalog.shape(job.body, job.policy);
        let entry = Entry { name: job.name, shape, revision, removed: false };
        self.catalog.put(id, entry);
        self.carry_out(plan, now);
    }

    /// Plans nothing more for a job. Its runs in the ring are skipped when they come due, and those that wait when
    /// their turn comes or its time is over: an editor that deletes and re-creates a file costs no run.
    pub(crate) fn remove_job(&mut self, job: JobId, at: Millis) {
        let left = self.planner.remove(job, at);
        let removed = Removed { at, left };
        self.revivable.insert((removed.until(), job));
        self.removed.insert(job, removed);
    }

    /// Removed jobs whose time to come back is over are let go: what was left of them is skipped, and said.
    pub(crate) fn let_go_of_removed(&mut self, now: Now) {
        let mut plan = Plan::default();
        while let Some(&(until, job)) = self.revivable.first().filter(|(until, _)| *until < now.wall) {
            self.revivable.remove(&(until, job));
            plan.skips.extend(self.removed.get_mut(&job).and_then(|removed| removed.left.take()));
            if !planted::on(Bug::BacklogSurvivesRemoval) {
                self.planner.forget(job);
            }
            self.parked.remove(&job);
            plan.states.insert(job);
        }
        if !plan.states.is_empty() {
            self.skip_unstarted(&plan.states, SkipReason::Removed, now);
            self.carry_out(plan, now);
        }
    }

    /// Takes caught-up runs of a paused job out of the wait room: like the rest of a backlog they wait for the end of
    /// the pause.
    pub(crate) fn park_waiting(&mut self, job: JobId, now: Now) {
        let caught_up = |run: &RunId| {
            self.runs.get(run).is_some_and(|live| {
                live.context.trigger == Trigger::CatchUp
                    && live.status == RunStatus::Waiting
                    && live.retried.is_none()
            })
        };
        let open: Vec<RunId> =
            self.place.waiting_of(job).chain(self.place.active(job)).filter(caught_up).collect();
        for run in open {
            self.give_up_place(run, now);
            // What one of them gave up may just have been given to the next.
            self.to_start.retain(|next| *next != run);
            self.parked.entry(job).or_default().push(run);
        }
    }

    /// Skips the runs of these jobs that did not start: they are in the ring, or wait.
    pub(crate) fn skip_unstarted(&mut self, jobs: &BTreeSet<JobId>, reason: SkipReason, now: Now) {
        if jobs.is_empty() {
            return;
        }
        let open = |live: &crate::running::LiveRun| {
            matches!(live.status, RunStatus::Promised | RunStatus::Waiting)
                && live.is_unstarted_due()
                && !(reason == SkipReason::Paused && live.context.trigger == Trigger::CatchUp)
                && jobs.contains(&live.context.job)
        };
        let mut runs: Vec<RunId> =
            self.runs.iter().filter(|(_, live)| open(live)).map(|(&run, _)| run).collect();
        runs.sort_unstable();
        for run in runs {
            self.skip_run(run, reason, now);
        }
    }
}
