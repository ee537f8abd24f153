//! What leaves the ring: judged, admitted, or told why not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cadran_core::{
    Footprint, JobId, Millis, Now, OnConflict, Overlap, RunContext, RunId, SkipReason, Trigger,
};
use cadran_place::{Candidate, Place, Verdict};
use cadran_plan::Plan;
use cadran_plan::catch_up::{self, Lateness};

use crate::engine::Engine;
use crate::timers::RingItem;

impl Engine {
    /// Everything whose instant has come leaves the ring and asks for its place.
    pub(crate) fn fire(&mut self, now: Now) {
        let mut late: BTreeMap<JobId, Vec<(Millis, RunId)>> = BTreeMap::new();
        let mut ready: Vec<RunId> = Vec::new();
        while let Some((due, items)) = self.timers.ring.take_due(now.wall) {
            let missed = catch_up::lateness(due, now.wall) == Lateness::Missed;
            let mut stops: BTreeSet<JobId> = BTreeSet::new();
            let mut runs: Vec<RunId> = Vec::with_capacity(items.len());
            for item in items {
                match item {
                    RingItem::Run(run) => runs.extend(self.leave_ring(run, missed, &mut late, now)),
                    // Stops are never caught up.
                    RingItem::Stop(job) => drop(!missed && stops.insert(job)),
                }
            }
            if !stops.is_empty() {
                // A stop ends what started before it, also when the loop comes to both late. What starts at the
                // very instant of the stop stays.
                self.admit_all(&mut ready, now);
                for job in stops {
                    let active: Vec<RunId> = self.place.active(job).collect();
                    for run in active {
                        self.stop_run(run, cadran_flow::StopWhy::Schedule, now);
                    }
                }
            }
            ready.append(&mut runs);
        }
        for (job, runs) in late {
            ready.append(&mut self.judge_late(job, runs, now));
        }
        self.admit_all(&mut ready, now);
    }

    fn admit_all(&mut self, ready: &mut Vec<RunId>, now: Now) {
        let mut candidates: Vec<Candidate> = ready.drain(..).filter_map(|run| self.candidate(run)).collect();
        Place::order(&mut candidates);
        for candidate in candidates {
            self.admit(candidate, now);
        }
        self.start_admitted(now);
    }

    /// A run whose instant has come asks for its place, unless its job went away or is paused. One that leaves the ring
    /// too late (the server was away, the loop stalled, the clock was stepped, the store was away) is judged like any
    /// missed due.
    fn leave_ring(
        &mut self,
        run: RunId,
        missed: bool,
        late: &mut BTreeMap<JobId, Vec<(Millis, RunId)>>,
        now: Now,
    ) -> Option<RunId> {
        // A run that was stopped or skipped while in the ring is gone from the table.
        let live = self.runs.get(run)?;
        if !live.is_unstarted_due() {
            return Some(run);
        }
        let job = live.context.job;
        if self.catalog.is_removed(job) {
            self.skip_run(run, SkipReason::Removed, now);
            return None;
        }
        if self.planner.is_paused(job) {
            // What came due in time was skipped when the pause began: this was caught up, and waits.
            self.jobs.park(job, run);
            return None;
        }
        match live.context.trigger {
            _ if !missed || live.lateness_judged => return Some(run),
            // Restarts are never caught up.
            Trigger::Restart => self.skip_run(run, SkipReason::Missed, now),
            _ => late.entry(job).or_default().push((live.context.due, run)),
        }
        None
    }

    /// Promised runs of a job that did not start and are missed by now. Returns those that run all the same: they are
    /// caught up.
    fn judge_late(&mut self, job: JobId, late: Vec<(Millis, RunId)>, now: Now) -> Vec<RunId> {
        let Some(policy) = self.catalog.get(job).map(|entry| entry.shape.policy) else { return Vec::new() };
        let mut plan = Plan::default();
        let judged = self.planner.judge_late(job, late, &policy, now.wall, &mut plan);
        self.apply_plan(plan, now);
        let is_backlog = self.planner.has_backlog(job);
        for (run, reason) in judged.skipped {
            self.skip_run(run, reason, now);
        }
        for &run in &judged.caught_up {
            let Some(live) = self.runs.get_mut(run) else { continue };
            live.lateness_judged = true;
            live.context = Arc::new(RunContext { trigger: Trigger::CatchUp, ..(*live.context).clone() });
            if is_backlog {
                self.jobs.add_backlog_run(job, run);
            }
        }
        judged.caught_up
    }

    fn candidate(&mut self, run: RunId) -> Option<Candidate> {
        let live = self.runs.get(run)?;
        let (job, trigger) = (live.context.job, live.context.trigger);
        // Live dues that fall while a backlog is replayed are part of it.
        let joins = trigger == Trigger::Schedule && live.is_unstarted_due() && self.planner.has_backlog(job);
        if joins {
            self.jobs.add_backlog_run(job, run);
        }
        Some(Candidate {
            run,
            job,
            due: live.context.due,
            trigger,
            of_backlog: joins || trigger == Trigger::CatchUp,
            // Of the job as it is now, so that all runs of a job that wait do so in the order of their dues.
            priority: self.catalog.get(job).map_or(live.policy.priority, |entry| entry.shape.policy.priority),
            // Someone asked for a retry: it waits its turn rather than turn a failure into a skip.
            overlap: match live.policy.overlap {
                // So does a run that a step waits for.
                Overlap::Skip if live.retried.is_some() || self.calls.has_caller(run) => Overlap::Wait,
                overlap => overlap,
            },
            footprint: match &live.footprint {
                Some(footprint) if live.retried.is_some() && footprint.on_conflict == OnConflict::Skip => {
                    Some(Arc::new(Footprint { on_conflict: OnConflict::Wait, ..(**footprint).clone() }))
                }
                footprint => footprint.clone(),
            },
        })
    }

    fn admit(&mut self, candidate: Candidate, now: Now) {
        if self.place.knows(candidate.run) {
            // It was stopped while in the ring and opened again by a retry, so that it is in there twice.
            return;
        }
        if self.already_successful(&candidate) {
            return self.skip_run(candidate.run, SkipReason::AlreadySuccessful, now);
        }
        let run = candidate.run;
        let admission = self.place.admit(candidate);
        for run in admission.displaced {
            self.skip_run(run, SkipReason::Superseded, now);
        }
        match admission.verdict {
            Verdict::Start => self.runs.starts.runs.push_back(run),
            Verdict::Wait(reason) => self.wait_run(run, reason, admission.blocker.as_deref(), now),
            Verdict::Skip(reason) => self.skip_blocked(run, reason, admission.blocker.as_deref(), now),
        }
        for run in admission.stop {
            self.stop_run(run, cadran_flow::StopWhy::Replaced, now);
        }
    }

    /// `skip_if_successful`: the job succeeded by another run since the due before this one. The run *of* that due
    /// does not count, or every second due would be skipped.
    fn already_successful(&self, candidate: &Candidate) -> bool {
        let live = self.runs.get(candidate.run);
        let asks = live.is_some_and(|live| live.policy.skip_if_successful && live.retried.is_none());
        if candidate.trigger != Trigger::Schedule || !asks {
            return false;
        }
        let Some(success) = self.jobs.last_success(candidate.job) else { return false };
        let previous = self.planner.previous_due(candidate.job, candidate.due).unwrap_or(Millis::MIN);
        previous < success && success < candidate.due
    }
}
