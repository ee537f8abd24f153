//! What leaves the ring: judged, admitted, or told why not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cadran_core::{
    Footprint, JobId, Millis, Now, OnConflict, Overlap, RunContext, RunId, SkipReason, Trigger,
};
use cadran_place::{Candidate, Place, Verdict};
use cadran_plan::Plan;
use cadran_plan::catch_up::{self, Lateness};

use crate::engine::{Engine, Fire};

impl Engine {
    /// Everything whose instant has come leaves the ring and asks for its place.
    pub(crate) fn fire(&mut self, now: Now) {
        let mut late: BTreeMap<JobId, Vec<RunId>> = BTreeMap::new();
        let mut ready: Vec<RunId> = Vec::new();
        while let Some((due, items)) = self.ring.take_due(now.wall) {
            let missed = catch_up::lateness(due, now.wall) == Lateness::Missed;
            let mut stops: BTreeSet<JobId> = BTreeSet::new();
            let mut runs: Vec<RunId> = Vec::with_capacity(items.len());
            for item in items {
                match item {
                    Fire::Run(run) => runs.extend(self.leave_ring(run, missed, &mut late, now)),
                    // Stops are never caught up.
                    Fire::Stop(job) => drop(!missed && stops.insert(job)),
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
        late: &mut BTreeMap<JobId, Vec<RunId>>,
        now: Now,
    ) -> Option<RunId> {
        // A run that was stopped or skipped while in the ring is gone from the table.
        let live = self.runs.get(&run)?;
        if !live.is_unstarted_due() {
            return Some(run);
        }
        let job = live.context.job;
        if self.removed.contains_key(&job) {
            self.skip_run(run, SkipReason::Removed, now);
            return None;
        }
        if self.planner.is_paused(job) {
            // What came due in time was skipped when the pause began: this was caught up, and waits.
            self.parked.entry(job).or_default().push(run);
            return None;
        }
        match live.context.trigger {
            _ if !missed || live.lateness_judged => return Some(run),
            // Restarts are never caught up.
            Trigger::Restart => self.skip_run(run, SkipReason::Missed, now),
            _ => late.entry(job).or_default().push(run),
        }
        None
    }

    /// Promised runs of a job that did not start and are missed by now, judged like any missed due and together with
    /// those that nobody promised. Returns the ones that run all the same: they are caught up.
    fn judge_late(&mut self, job: JobId, mut runs: Vec<RunId>, now: Now) -> Vec<RunId> {
        let Some(policy) = self.catalog.get(job).map(|entry| entry.shape.policy) else { return Vec::new() };
        let due_of = |engine: &Engine, run: &RunId| engine.runs.get(run).map(|live| live.context.due);
        runs.sort_by_key(|run| due_of(self, run));
        let mut dues: Vec<Millis> = runs.iter().filter_map(|run| due_of(self, run)).collect();
        // Lives of a job between which the clock stepped back may both have promised a due.
        dues.dedup();
        let mut plan = Plan::default();
        let judgement = self.planner.judge_late(job, &dues, &policy, now.wall, &mut plan);
        self.carry_out(plan, now);
        let is_backlog = self.planner.has_backlog(job);
        let mut caught_up = Vec::new();
        for run in runs {
            let Some(live) = self.runs.get_mut(&run) else { continue };
            if let Some(reason) = judgement.skip_reason(live.context.due) {
                self.skip_run(run, reason, now);
                continue;
            }
            live.lateness_judged = true;
            live.context = Arc::new(RunContext { trigger: Trigger::CatchUp, ..(*live.context).clone() });
            if is_backlog {
                self.backlog_runs.entry(job).or_default().insert(run);
            }
            caught_up.push(run);
        }
        caught_up
    }

    fn candidate(&mut self, run: RunId) -> Option<Candidate> {
        let live = self.runs.get(&run)?;
        let (job, trigger) = (live.context.job, live.context.trigger);
        // Live dues that fall while a backlog is replayed are part of it.
        let joins = trigger == Trigger::Schedule && live.is_unstarted_due() && self.planner.has_backlog(job);
        if joins {
            self.backlog_runs.entry(job).or_default().insert(run);
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
                Overlap::Skip if live.retried.is_some() => Overlap::Wait,
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
            Verdict::Start => self.to_start.push_back(run),
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
        let live = self.runs.get(&candidate.run);
        let asks = live.is_some_and(|live| live.policy.skip_if_successful && live.retried.is_none());
        if candidate.trigger != Trigger::Schedule || !asks {
            return false;
        }
        let Some(&success) = self.successes.get(&candidate.job) else { return false };
        let previous = self.planner.previous_due(candidate.job, candidate.due).unwrap_or(Millis::MIN);
        previous < success && success < candidate.due
    }
}
