//! May it now, and where?
//!
//! Everything that leaves the ring asks [`Place::admit`] and gets one [`Verdict`]: start, wait, or skip with the
//! reason; and, under `overlap: replace`, the runs to stop first. When a run ends, [`Place::release`] names those
//! that may start in its stead.
//!
//! ```
//! use cadran_core::{JobId, Overlap, RunId, Trigger};
//! use cadran_place::{Candidate, Limits, Place, Verdict};
//!
//! let mut place = Place::new(Limits::default());
//! let candidate = |run: u64| Candidate {
//!     run: RunId::from_raw(run), job: JobId(1), due: 0, trigger: Trigger::Schedule, priority: 0,
//!     overlap: Overlap::Wait,
//! };
//! assert_eq!(place.admit(candidate(1)).verdict, Verdict::Start);
//! assert!(matches!(place.admit(candidate(2)).verdict, Verdict::Wait(_)));
//! assert_eq!(place.release(RunId::from_raw(1)), [RunId::from_raw(2)]);
//! ```
//!
//! It does not know calendars, files, what a run does, or what time it is.
//!
//! Invariants: under any policy but `allow`, at most one run of a job is active; a refusal leaves no trace; every
//! waiter is started, skipped or withdrawn; the same calls give the same answers.
#![forbid(unsafe_code)]

use std::collections::{BTreeSet, VecDeque};

use cadran_core::planted::{self, Bug};
use cadran_core::{JobId, Millis, Overlap, RunId, SkipReason, Trigger};
use rustc_hash::FxHashMap;

/// Bounds of the wait room.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Runs active at once on this server; more wait for a slot, the most urgent first.
    pub slots: usize,
    /// Runs of one job that may wait: a job that cannot keep up should say so, not fill the room.
    pub waiting_per_job_max: usize,
    /// Runs that may wait altogether: memory is finite.
    pub waiting_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { slots: 1_000, waiting_per_job_max: 1_000, waiting_max: 200_000 }
    }
}

/// A run that left the ring.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// The run.
    pub run: RunId,
    /// Its job.
    pub job: JobId,
    /// Its due.
    pub due: Millis,
    /// Why it exists.
    pub trigger: Trigger,
    /// Higher starts first.
    pub priority: i32,
    /// The job's rule.
    pub overlap: Overlap,
}

impl Candidate {
    /// Whether it may start beside others of its job.
    fn may_overlap(&self) -> bool {
        self.overlap == Overlap::Allow && self.trigger != Trigger::Restart
    }
}

/// What a candidate may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Start now.
    Start,
    /// Wait; a later [`Place::release`] names it.
    Wait(WaitReason),
    /// Do not start.
    Skip(SkipReason),
}

/// What a waiting run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// The end of this run of the same job.
    Job(RunId),
    /// A free slot.
    Slot,
}

/// The answer to a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// What it may do.
    pub verdict: Verdict,
    /// Runs to stop so that it can start.
    pub stop: Vec<RunId>,
    /// Runs that waited and do not any more: the candidate supersedes them.
    pub displaced: Vec<RunId>,
}

impl From<Verdict> for Admission {
    fn from(verdict: Verdict) -> Admission {
        Admission { verdict, stop: Vec::new(), displaced: Vec::new() }
    }
}

/// Urgency: higher priority, then earlier due, then lower run id (the order of submission).
type Urgency = (std::cmp::Reverse<i32>, Millis, RunId);

#[derive(Default)]
struct JobRoom {
    /// Runs that hold the job: running, or admitted and waiting for a slot.
    active: Vec<Holder>,
    waiting: VecDeque<Candidate>,
}

struct Holder {
    run: RunId,
    of_backlog: bool,
    /// Its place in the line for a slot, while it has none.
    in_line: Option<Urgency>,
}

/// Who is active, who waits.
pub struct Place {
    limits: Limits,
    jobs: FxHashMap<JobId, JobRoom>,
    /// Job of every run that is active or waits.
    runs: FxHashMap<RunId, JobId>,
    started: usize,
    for_slot: BTreeSet<Urgency>,
    waiting: usize,
}

impl Place {
    /// With nobody inside.
    pub fn new(limits: Limits) -> Place {
        Place {
            limits,
            jobs: FxHashMap::default(),
            runs: FxHashMap::default(),
            started: 0,
            for_slot: BTreeSet::new(),
            waiting: 0,
        }
    }

    /// Judges one candidate. Candidates that leave the ring together are given in [`Place::order`].
    pub fn admit(&mut self, candidate: Candidate) -> Admission {
        let room_left = self.waiting < self.limits.waiting_max;
        let slot_left = self.started < self.limits.slots;
        let room = self.jobs.entry(candidate.job).or_default();
        let blind = planted::on(Bug::OverlapIgnoredByCatchUp) && candidate.trigger == Trigger::CatchUp;
        let free = blind || room.active.is_empty() && room.waiting.is_empty();
        // Where a restart waits for the end of what is active, nothing new passes it, or it might wait for ever.
        if free || candidate.may_overlap() && room.waiting.is_empty() {
            return self.take_slot(candidate, slot_left, room_left).into();
        }
        let blocker = room.active.first().map_or(candidate.run, |holder| holder.run);
        let of_backlog = candidate.trigger == Trigger::CatchUp;
        // A backlog is replayed one after another: it steps aside only for runs that are not its own, and replaces
        // none of its own either.
        let own_turn = of_backlog && room.active.iter().all(|holder| holder.of_backlog);
        let replaces =
            candidate.overlap == Overlap::Replace && !own_turn || candidate.trigger == Trigger::Restart;
        let supersedes = replaces || candidate.overlap == Overlap::Latest;
        if candidate.overlap == Overlap::Skip && !replaces && !own_turn {
            return Verdict::Skip(SkipReason::Overlap).into();
        }
        let freed = if supersedes { room.waiting.len() } else { 0 };
        let full = room.waiting.len() - freed >= self.limits.waiting_per_job_max;
        if full || self.waiting - freed >= self.limits.waiting_max {
            return Verdict::Skip(SkipReason::WaitRoomFull).into();
        }
        let mut admission = Admission::from(Verdict::Wait(WaitReason::Job(blocker)));
        if replaces {
            admission.stop = room.active.iter().map(|holder| holder.run).collect();
        }
        if supersedes {
            admission.displaced = room.waiting.drain(..).map(|waiter| waiter.run).collect();
        }
        room.waiting.push_back(candidate);
        self.waiting += 1;
        self.waiting -= admission.displaced.len();
        for run in &admission.displaced {
            self.runs.remove(run);
        }
        self.runs.insert(candidate.run, candidate.job);
        admission
    }

    /// Takes back a run that was running before a restart of the server. It holds its job and a slot, whatever the
    /// limits say now.
    pub fn restore(&mut self, run: RunId, job: JobId, trigger: Trigger) {
        let holder = Holder { run, of_backlog: trigger == Trigger::CatchUp, in_line: None };
        self.jobs.entry(job).or_default().active.push(holder);
        self.runs.insert(run, job);
        self.started += 1;
    }

    /// A run ended, or a waiter was withdrawn. Returns those that start now, in order.
    pub fn release(&mut self, run: RunId) -> Vec<RunId> {
        let Some(job) = self.runs.remove(&run) else { return Vec::new() };
        let mut starts = Vec::new();
        let Some(room) = self.jobs.get_mut(&job) else { return starts };
        if let Some(at) = room.waiting.iter().position(|waiter| waiter.run == run)
            && !planted::on(Bug::WaiterKept)
        {
            room.waiting.remove(at);
            self.waiting -= 1;
        }
        if let Some(at) = room.active.iter().position(|holder| holder.run == run) {
            // Whoever waits for a slot holds none: the line, not the job's room, knows which it is.
            match room.active.swap_remove(at).in_line {
                Some(urgency) if self.for_slot.remove(&urgency) => self.waiting -= 1,
                _ => self.started -= 1,
            }
        }
        if room.active.is_empty() {
            let mut next = room.waiting.pop_front();
            if next.is_none() {
                self.jobs.remove(&job);
            }
            while let Some(waiter) = next {
                self.waiting -= 1;
                // Others may have waited for a slot longer, or be more urgent.
                let slot_left = self.started < self.limits.slots && self.for_slot.is_empty();
                if self.take_slot(waiter, slot_left, true) == Verdict::Start {
                    starts.push(waiter.run);
                }
                let room = self.jobs.get_mut(&job);
                next = room.and_then(|room| room.waiting.pop_front_if(|waiter| waiter.may_overlap()));
            }
        }
        while self.started < self.limits.slots {
            let Some((_, _, run)) = self.for_slot.pop_first() else { break };
            self.waiting -= 1;
            self.started += 1;
            starts.push(run);
        }
        starts
    }

    /// The order in which candidates that leave the ring together are judged.
    pub fn order(candidates: &mut [Candidate]) {
        candidates.sort_by_key(Self::urgency);
    }

    /// The active runs of a job.
    pub fn active(&self, job: JobId) -> impl Iterator<Item = RunId> {
        self.jobs.get(&job).into_iter().flat_map(|room| room.active.iter().map(|holder| holder.run))
    }

    /// The waiting runs of a job.
    pub fn waiting_of(&self, job: JobId) -> impl Iterator<Item = RunId> {
        self.jobs.get(&job).into_iter().flat_map(|room| room.waiting.iter().map(|waiter| waiter.run))
    }

    /// How many runs hold a slot.
    pub fn started(&self) -> usize {
        self.started
    }

    /// How many runs wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    fn urgency(candidate: &Candidate) -> Urgency {
        (std::cmp::Reverse(candidate.priority), candidate.due, candidate.run)
    }

    /// The job is free for the candidate: start it, or let it wait for a slot. Either way it holds the job.
    fn take_slot(&mut self, candidate: Candidate, slot_left: bool, room_left: bool) -> Verdict {
        if !slot_left && !room_left {
            if self
                .jobs
                .get(&candidate.job)
                .is_some_and(|room| room.active.is_empty() && room.waiting.is_empty())
            {
                self.jobs.remove(&candidate.job);
            }
            return Verdict::Skip(SkipReason::WaitRoomFull);
        }
        let in_line = (!slot_left).then(|| Self::urgency(&candidate));
        let holder =
            Holder { run: candidate.run, of_backlog: candidate.trigger == Trigger::CatchUp, in_line };
        self.jobs.entry(candidate.job).or_default().active.push(holder);
        self.runs.insert(candidate.run, candidate.job);
        match in_line {
            None => {
                self.started += 1;
                Verdict::Start
            }
            Some(urgency) => {
                self.for_slot.insert(urgency);
                self.waiting += 1;
                Verdict::Wait(WaitReason::Slot)
            }
        }
    }
}

#[cfg(test)]
mod tests;
