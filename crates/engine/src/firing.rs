//! What leaves the ring: judged, admitted, or told why not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cadran_core::{Footprint, JobId, Millis, Now, OnConflict, Overlap, RunId, SkipReason, Trigger};
use cadran_place::{Candidate, Place, Verdict};
use cadran_plan::catch_up::{self, Lateness};

use crate::engine::{Engine, Fire};

impl Engine {
    /// Everything whose instant has come leaves the ring and asks for its place.
    pub(crate) fn fire(&mut self, now: Now) {
        let mut late: BTreeMap<JobId, Vec<RunId>> = BTreeMap::new();
        loop {
            let mut candidates: Vec<Candidate> = Vec::new();
            while let Some((due, items)) = self.ring.take_due(now.wall) {
                let missed = catch_up::lateness(due, now.wall) == Lateness::Missed;
                let mut stops: BTreeSet<JobId> = BTreeSet::new();
                let mut runs: Vec<Candidate> = Vec::with_capacity(items.len());
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
                    self.admit_all(&mut candidates, now);
                    for job in stops {
                        let active: Vec<RunId> = self.place.active(job).collect();
                        for run in active {
                            self.stop_run(run, cadran_flow::StopWhy::Schedule, now);
                        }
                    }
                }
                if candidates.is_empty() {
                    candidates = runs;
                } else {
                    candidates.append(&mut runs);
                }
            }
            self.admit_all(&mut candidates, now);
            if late.is_empty() {
                return;
            }
            // Those that run all the same come back as caught up, and pass.
            for (job, runs) in std::mem::take(&mut late) {
                self.judge_late(job, runs, now);
            }
        }
    }

    fn admit_all(&mut self, candidates: &mut Vec<Candidate>, now: Now) {
        Place::order(candidates);
        for candidate in candidates.drain(..) {
            self.admit(candidate, now);
        }
        self.start_admitted(now);
    }

    /// A run whose instant has come asks for its place, unless its job went away or is paused. One that leaves the ring
    /// too late (the loop stalled, the clock was stepped, the store was away) is judged like any missed due.
    fn leave_ring(
        &mut self,
        run: RunId,
        missed: bool,
        late: &mut BTreeMap<JobId, Vec<RunId>>,
        now: Now,
    ) -> Option<Candidate> {
        let candidate = self.candidate(run)?;
        let job = candidate.job;
        if !self.runs.get(&run)?.is_unstarted_due() {
            return Some(candidate);
        }
        if self.removed.contains_key(&job) {
            self.skip_run(run, SkipReason::Removed, now);
            return None;
        }
        if self.planner.is_paused(job) {
            // What came due in time was skipped when the pause began: this was caught up, and waits.
            self.parked.entry(job).or_default().push(run);
            return None;
        }
        match candidate.trigger {
            Trigger::Schedule if missed => late.entry(job).or_default().push(run),
            // Restarts are never caught up.
            Trigger::Restart if missed => self.skip_run(run, SkipReason::Missed, now),
            _ => return Some(candidate),
        }
        None
    }

    fn candidate(&self, run: RunId) -> Option<Candidate> {
        // A run that was stopped or skipped while in the ring is gone from the table.
        let live = self.runs.get(&run)?;
        Some(Candidate {
            run,
            job: live.context.job,
            due: live.context.due,
            trigger: live.context.trigger,
            priority: live.policy.priority,
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
