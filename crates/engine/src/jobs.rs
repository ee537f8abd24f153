//! Jobs that come, change and go.

use std::collections::BTreeSet;

use cadran_core::{JobId, JobPut, JobRemoved, Millis, Now, RunId, RunStatus, SkipReason};

use crate::catalog::Entry;
use crate::effects::JobChange;
use crate::engine::Engine;

/// A job whose file is written again within this time was only edited, by an editor that deletes and re-creates.
pub(crate) const REVIVE_MS_MAX: Millis = 120_000;

impl Engine {
    pub(crate) fn change_jobs(&mut self, changes: Vec<JobChange>, now: Now) {
        if changes.len() > 1_000 {
            self.catalog.reserve(changes.len());
        }
        let mut gone = BTreeSet::new();
        for change in changes {
            match change {
                JobChange::Put { .. } => self.put_job(change, now),
                JobChange::Remove { name } => {
                    let Some(job) = self.catalog.find(&name) else { continue };
                    if let Some(entry) = self.catalog.get_mut(job) {
                        entry.removed = true;
                    }
                    self.planner.remove(job);
                    self.removed.insert(job, now.wall);
                    self.backlog_runs.remove(&job);
                    self.out.batch.removed.push(JobRemoved { job, at: now.wall });
                    gone.insert(job);
                }
            }
            self.out.jobs_changed = true;
        }
        // A job may be removed and put again in one list: then it is not gone.
        gone.retain(|job| self.removed.contains_key(job));
        self.skip_unstarted(&gone, SkipReason::Removed, now);
        // What is due within the pre-read window should not wait for the next whole second.
        self.next_tick = self.next_tick.min(now.wall);
    }

    fn put_job(&mut self, change: JobChange, now: Now) {
        let JobChange::Put { job, definition, source, source_mark } = change else { return };
        let known = self.catalog.number(&job.name);
        let id = known.unwrap_or_else(|| self.catalog.next_id());
        let revision = known.and_then(|id| self.catalog.get(id)).map_or(1, |entry| entry.revision + 1);
        let removed_at = self.removed.remove(&id);
        match (known, removed_at) {
            (Some(_), None) => self.planner.update(id, &job.schedules, &job.policy, now.wall),
            (Some(_), Some(at)) if now.wall.saturating_sub(at) <= REVIVE_MS_MAX => {
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
        let entry = Entry { name: job.name, body: job.body, policy: job.policy, revision, removed: false };
        self.catalog.put(id, entry);
    }

    /// Skips the runs of these jobs that did not start: they are in the ring, or wait.
    pub(crate) fn skip_unstarted(&mut self, jobs: &BTreeSet<JobId>, reason: SkipReason, now: Now) {
        if jobs.is_empty() {
            return;
        }
        let open = |live: &crate::running::LiveRun| {
            matches!(live.status, RunStatus::Promised | RunStatus::Waiting)
                && live.context.trigger.is_scheduled()
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
