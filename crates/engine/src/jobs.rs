//! Jobs that come, change and go.

use std::collections::BTreeSet;

use cadran_core::{JobId, JobPut, JobRemoved, Millis, Now, RunId, RunStatus, SkipReason, Trigger};
use cadran_plan::Plan;

use crate::catalog::Entry;
use crate::effects::JobChange;
use crate::engine::Engine;
use crate::running::LiveRun;

/// A job whose file is written again within this time was only edited, by an editor that deletes and re-creates.
pub(crate) const REMOVAL_GRACE_MS: Millis = 120_000;

impl Engine {
    pub(crate) fn change_jobs(&mut self, changes: Vec<JobChange>, now: Now) {
        if changes.len() > 1_000 {
            self.catalog.reserve(changes.len());
        }
        self.end_grace_periods(now);
        for change in changes {
            match change {
                JobChange::Put { .. } => self.put_job(change, now),
                JobChange::Remove { name } => {
                    let Some(job) = self.catalog.find(&name) else { continue };
                    if let Some(entry) = self.catalog.get_mut(job) {
                        entry.removed = true;
                    }
                    self.remove_job(job, now.wall);
                    self.effects.batch.removed.push(JobRemoved { job, at: now.wall });
                }
            }
            self.effects.jobs_changed = true;
        }
        // What is due within the pre-read window should not wait for the next tick.
        self.timers.tick_now(now);
    }

    fn put_job(&mut self, change: JobChange, now: Now) {
        let JobChange::Put { job, definition, source, source_mark } = change else { return };
        let known = self.catalog.number(&job.name);
        let id = known.unwrap_or_else(|| self.catalog.next_id());
        let entry = known.and_then(|id| self.catalog.get(id));
        let revision = entry.map_or(1, |entry| entry.revision + 1);
        let was_there = entry.is_some_and(|entry| !entry.removed);
        if !was_there {
            // In the store a removal is written behind a put of the same batch.
            self.effects.batch.removed.retain(|removed| removed.job != id);
        }
        let mut plan = Plan::default();
        match was_there {
            true => self.planner.update(id, &job.schedules, &job.policy, now.wall, &mut plan),
            false if self.jobs.undo_removal(id) => {
                self.planner.undo_removal(id, &job.schedules, now.wall);
            }
            false => {
                self.planner.forget(id);
                self.planner.add(id, &job.schedules, now.wall);
            }
        }
        if !job.policy.skip_if_successful {
            self.jobs.forget_success(id);
        }
        self.effects.batch.jobs.push(JobPut {
            job: id,
            name: job.name.clone(),
            revision,
            definition,
            source,
            source_mark,
            history: job.body.history,
        });
        self.effects.batch.states.push(self.planner.state(id));
        for share in &job.body.footprint.pools {
            let freed = self.place.set_capacity(&share.pool, share.capacity);
            self.take_freed(freed, now);
        }
        let shape = self.catalog.shape(job.body, job.policy);
        let entry = Entry { name: job.name, shape, revision, removed: false };
        self.catalog.put(id, entry);
        self.apply_plan(plan, now);
    }

    /// Plans nothing more for a job. Its runs in the ring are skipped when they come due, and those that wait when
    /// their turn comes or its time is over: an editor that deletes and re-creates a file costs no run.
    pub(crate) fn remove_job(&mut self, job: JobId, at: Millis) {
        let unrecorded = self.planner.remove(job, at);
        self.jobs.remove(job, at.saturating_add(REMOVAL_GRACE_MS), unrecorded);
    }

    /// Removed jobs that did not come back within their grace period are given up: their dues that nothing is recorded of
    /// are skipped, and said.
    pub(crate) fn end_grace_periods(&mut self, now: Now) {
        let mut plan = Plan::default();
        while let Some((job, unrecorded)) = self.jobs.next_grace_end(now.wall) {
            plan.skips.extend(unrecorded);
            self.planner.forget(job);
            plan.states.insert(job);
        }
        if !plan.states.is_empty() {
            self.skip_unstarted(&plan.states, SkipReason::Removed, now);
            self.apply_plan(plan, now);
        }
    }

    /// Takes caught-up runs of a paused job out of the wait room: like the rest of a backlog they wait for the end of
    /// the pause.
    pub(crate) fn park_waiting(&mut self, job: JobId, now: Now) {
        let caught_up = |run: &RunId| {
            self.runs.get(*run).is_some_and(|live| {
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
            self.runs.starts.runs.retain(|next| *next != run);
            self.jobs.park(job, run);
        }
    }

    /// Skips the runs of these jobs that did not start: they are in the ring, or wait.
    pub(crate) fn skip_unstarted(&mut self, jobs: &BTreeSet<JobId>, reason: SkipReason, now: Now) {
        if jobs.is_empty() {
            return;
        }
        let open = |live: &LiveRun| {
            matches!(live.status, RunStatus::Promised | RunStatus::Waiting)
                && live.is_unstarted_due()
                && !(reason == SkipReason::Paused && live.context.trigger == Trigger::CatchUp)
                && jobs.contains(&live.context.job)
        };
        for run in self.runs.filter(open) {
            self.skip_run(run, reason, now);
        }
    }
}
