//! May it now, and where?
//!
//! Everything that leaves the ring asks [`Place::admit`] and gets one [`Verdict`]: start, wait, or skip with the
//! reason; and, under `overlap: replace`, the runs to stop first. When a run ends, [`Place::release`] names those
//! that may start in its stead. [`Roster`] knows which executors are there, and [`Router`] chooses one for an order.
//!
//! ```
//! use cadran_core::{JobId, Overlap, RunId, Trigger};
//! use cadran_place::{Candidate, Limits, Place, Verdict};
//!
//! let mut place = Place::new(Limits::default());
//! let candidate = |run: u64| Candidate {
//!     run: RunId::from_raw(run), job: JobId(1), due: 0, trigger: Trigger::Schedule, of_backlog: false, priority: 0,
//!     overlap: Overlap::Wait, footprint: None,
//! };
//! assert_eq!(place.admit(candidate(1)).verdict, Verdict::Start);
//! assert!(matches!(place.admit(candidate(2)).verdict, Verdict::Wait(_)));
//! assert_eq!(place.release(RunId::from_raw(1)).starts, [RunId::from_raw(2)]);
//! ```
//!
//! A run passes three doors, in this order: its job (`job:<id>`, under the overlap rule), what it touches (its
//! footprint, all or nothing), and a slot of the server. Who waits at a door holds what lies behind it: a run that waits
//! for its keys is the active run of its job, and one that waits for a slot has its keys. Slots are given back by runs
//! that wait for nothing, so no wait leads back to itself. They are no keys of the same reservation: a run in line for a
//! key has what is free of the others, and would leave a slot idle until the key is its own; while nobody can start for
//! lack of a slot, keys that are held for one keep nobody from starting.
//!
//! It does not know calendars, files, or what a run does; of the time it knows what [`Place::pass`] says.
//!
//! Invariants: under any policy but `allow`, at most one run of a job is active; what active runs touch never conflicts;
//! a refusal leaves no trace; every waiter is started, skipped or withdrawn; the same calls give the same answers.
#![forbid(unsafe_code)]

mod candidate;
pub mod conflicts;
pub mod dry_run;
mod footprint_gate;
mod md5;
mod roster;
mod route;
mod routing;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use cadran_core::{Footprint, JobId, Millis, Overlap, RunId, SkipReason, Trigger};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use candidate::Urgency;
pub use candidate::{Admission, Blocker, Candidate, Freed, Verdict, WaitReason, Wanted, Why};
use footprint_gate::{FootprintGate, GateAnswer};
pub use roster::{
    ExecutorView, GROUPS_MAX, GroupView, MEMBERS_MAX, Needs, Roster, RosterFull, SILENT_MS_MAX,
};
pub use route::{Choice, Router, mixed};
pub use routing::{AttemptRequest, Routing};

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

#[derive(Default)]
struct JobRoom {
    /// Runs that hold the job: running, or admitted and waiting for what they touch or for a slot.
    active: SmallVec<[Holder; 1]>,
    waiting: VecDeque<Candidate>,
    /// How many of the active ones wait for what they touch.
    for_keys: usize,
}

struct Holder {
    run: RunId,
    state: HolderState,
    footprint: Option<Arc<Footprint>>,
}

/// How far a run has come that holds its job. Most have started, so the other states are boxed.
enum HolderState {
    Started,
    /// It waits for its footprint.
    ForKeys(Box<Urgency>),
    /// It has its place in the line for a slot; when it is not there any more it has a slot.
    ForSlot(Box<Urgency>),
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
    for_keys: usize,
    footprints: FootprintGate,
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
            for_keys: 0,
            footprints: FootprintGate::new(),
        }
    }

    /// Time passes, by the monotonic clock: who waits for what it touches since long enough is passed no more.
    pub fn pass(&mut self, now: Millis) {
        self.footprints.pass(now);
    }

    /// Judges one candidate. Candidates that leave the ring together are given in [`Place::order`].
    pub fn admit(&mut self, candidate: Candidate) -> Admission {
        let room = self.jobs.entry(candidate.job).or_default();
        let free = room.active.is_empty() && room.waiting.is_empty();
        // Where a restart waits for the end of what is active, nothing new passes it, or it might wait for ever.
        if free || candidate.may_overlap() && room.waiting.is_empty() {
            let slot_left = self.started < self.limits.slots;
            if slot_left && candidate.footprint.is_none() {
                // Most are like this: nothing to ask.
                let (run, state) = (candidate.run, HolderState::Started);
                room.active.push(Holder { run, state, footprint: None });
                self.runs.insert(run, candidate.job);
                self.started += 1;
                return Verdict::Start.into();
            }
            return self.enter(candidate, slot_left, self.waiting < self.limits.waiting_max);
        }
        let blocker = room.active.first().map_or(candidate.run, |holder| holder.run);
        // An item of a backlog is work that has to be done: whatever is active, it waits for its end, and it is neither
        // skipped for it nor does it stop it.
        let replaces = candidate.trigger == Trigger::Restart
            || candidate.overlap == Overlap::Replace && !candidate.of_backlog;
        if candidate.overlap == Overlap::Skip && !replaces && !candidate.of_backlog {
            return Verdict::Skip(SkipReason::Overlap).into();
        }
        // Under `latest` only the newest waits. A run that replaces others takes the turn of a backlog, which stays.
        let latest = candidate.overlap == Overlap::Latest;
        let is_displaced = |waiter: &Candidate| latest || replaces && !waiter.of_backlog;
        let freed = room.waiting.iter().filter(|waiter| is_displaced(waiter)).count();
        let full = room.waiting.len() - freed >= self.limits.waiting_per_job_max;
        if full || self.waiting - freed >= self.limits.waiting_max {
            return Verdict::Skip(SkipReason::WaitRoomFull).into();
        }
        let mut admission = Admission::from(Verdict::Wait(WaitReason::Job(blocker)));
        if replaces {
            admission.stop = room.active.iter().map(|holder| holder.run).collect();
        }
        room.waiting.retain(|waiter| {
            let displaced = is_displaced(waiter);
            admission.displaced.extend(displaced.then_some(waiter.run));
            !displaced
        });
        self.runs.insert(candidate.run, candidate.job);
        match replaces {
            true => room.waiting.push_front(candidate),
            false => room.waiting.push_back(candidate),
        }
        self.waiting += 1;
        self.waiting -= admission.displaced.len();
        for run in &admission.displaced {
            self.runs.remove(run);
        }
        admission
    }

    /// Takes back a run that was running before a restart of the server. It holds its job, what it touches and a slot,
    /// whatever the limits say now. Runs that started later are taken back first: one of them that has some of what this
    /// one touches took its place, and is named.
    pub fn restore(&mut self, run: RunId, job: JobId, footprint: Option<Arc<Footprint>>) -> Option<RunId> {
        let in_the_way = footprint.as_ref().and_then(|footprint| self.footprints.restore(run, footprint));
        let footprint = footprint.filter(|_| in_the_way.is_none());
        let holder = Holder { run, state: HolderState::Started, footprint };
        self.jobs.entry(job).or_default().active.push(holder);
        self.runs.insert(run, job);
        self.started += 1;
        in_the_way
    }

    /// A run ended, or a waiter was withdrawn. Says what follows for others.
    pub fn release(&mut self, run: RunId) -> Freed {
        let mut freed = Freed::default();
        let Some(job) = self.runs.remove(&run) else { return freed };
        let Some(room) = self.jobs.get_mut(&job) else { return freed };
        if let Some(at) = room.waiting.iter().position(|waiter| waiter.run == run) {
            room.waiting.remove(at);
            self.waiting -= 1;
        }
        if let Some(at) = room.active.iter().position(|holder| holder.run == run) {
            let holder = room.active.swap_remove(at);
            // Whoever waits for a slot holds none: the line, not the job's room, knows which it is.
            match holder.state {
                HolderState::ForSlot(urgency) if self.for_slot.remove(&urgency) => self.waiting -= 1,
                HolderState::ForKeys(_) => {
                    room.for_keys -= 1;
                    self.for_keys -= 1;
                    self.waiting -= 1;
                }
                HolderState::Started | HolderState::ForSlot(_) => self.started -= 1,
            }
            let is_free = room.active.is_empty();
            if is_free && room.waiting.is_empty() {
                self.jobs.remove(&job);
            }
            if holder.footprint.is_some() {
                let mut granted = Vec::new();
                self.footprints.leave(run, &mut granted);
                self.queue_for_slot(&granted);
            }
            if is_free {
                self.next_of_job(job, &mut freed);
            }
        }
        if !self.for_slot.is_empty() {
            self.fill_slots(&mut freed);
        }
        freed
    }

    /// A pool has so many units from now on.
    pub fn set_capacity(&mut self, pool: &str, capacity: u32) -> Freed {
        let mut freed = Freed::default();
        let mut granted = Vec::new();
        // A pool that cannot be made is refused when a run asks for it.
        let _ = self.footprints.set_capacity(pool, capacity, &mut granted);
        self.queue_for_slot(&granted);
        self.fill_slots(&mut freed);
        freed
    }

    /// A run waits for another one that it asked for: it lends its slot meanwhile, or runs that wait for one another would
    /// hold all slots.
    pub fn lend_slot(&mut self) -> Freed {
        self.limits.slots += 1;
        let mut freed = Freed::default();
        self.fill_slots(&mut freed);
        freed
    }

    /// The end of [`Place::lend_slot`]. Where somebody else has the slot by now, one run more is on for a while.
    pub fn take_slot_back(&mut self) {
        self.limits.slots = self.limits.slots.saturating_sub(1);
    }

    /// How many units a pool has, as far as anybody said.
    pub fn capacity(&self, pool: &str) -> Option<u32> {
        self.footprints.capacity(pool)
    }

    /// The order in which candidates that leave the ring together are judged.
    pub fn order(candidates: &mut [Candidate]) {
        candidates.sort_by_key(Candidate::urgency);
    }

    /// The active runs of a job.
    pub fn active(&self, job: JobId) -> impl Iterator<Item = RunId> {
        self.jobs.get(&job).into_iter().flat_map(|room| room.active.iter().map(|holder| holder.run))
    }

    /// Whether a run is active or waits.
    pub fn knows(&self, run: RunId) -> bool {
        self.runs.contains_key(&run)
    }

    /// The waiting runs of a job.
    pub fn waiting_of(&self, job: JobId) -> impl Iterator<Item = RunId> {
        self.jobs.get(&job).into_iter().flat_map(|room| room.waiting.iter().map(|waiter| waiter.run))
    }

    /// Why a run waits. `None` for one that does not.
    pub fn why(&self, run: RunId) -> Option<Why> {
        let room = self.jobs.get(self.runs.get(&run)?)?;
        let plain = |reason, before| Why { reason, blocker: None, before, ticket: false, tries: 0 };
        if let Some(before) = room.waiting.iter().position(|waiter| waiter.run == run) {
            return Some(plain(WaitReason::Job(room.active.first()?.run), before));
        }
        let holder = room.active.iter().find(|holder| holder.run == run)?;
        match (&holder.state, &holder.footprint) {
            (HolderState::ForSlot(urgency), _) if self.for_slot.contains(&**urgency) => {
                Some(plain(WaitReason::Slot, self.for_slot.range(..**urgency).count()))
            }
            (HolderState::ForKeys(_), Some(footprint)) => {
                let (blocker, why) = self.footprints.why(run, footprint)?;
                Some(Why {
                    reason: WaitReason::Footprint,
                    blocker: Some(blocker),
                    before: why.place as usize,
                    ticket: why.ticket,
                    tries: why.tries,
                })
            }
            _ => None,
        }
    }

    /// How many runs hold a slot.
    pub fn started(&self) -> usize {
        self.started
    }

    /// How many runs wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many of those that wait do so for a slot, and how many for what they touch; the rest wait for their job.
    pub fn waiting_for_slot_and_footprint(&self) -> (usize, usize) {
        (self.for_slot.len(), self.for_keys)
    }

    /// The job is free for the candidate: it takes what it touches and a slot, or waits for one of them. Unless it is
    /// refused it holds the job.
    fn enter(&mut self, candidate: Candidate, slot_left: bool, room_left: bool) -> Admission {
        let job = candidate.job;
        if !slot_left && !room_left {
            self.remove_if_empty(job);
            return Verdict::Skip(SkipReason::WaitRoomFull).into();
        }
        let urgency = candidate.urgency();
        let mut state =
            if slot_left { HolderState::Started } else { HolderState::ForSlot(Box::new(urgency)) };
        let mut blocker = None;
        if let Some(footprint) = &candidate.footprint {
            let for_keys = self.jobs.get(&job).map_or(0, |room| room.for_keys);
            let may_wait = room_left && for_keys < self.limits.waiting_per_job_max;
            match self.footprints.enter(candidate.run, &urgency, footprint, may_wait) {
                GateAnswer::Holds => {}
                GateAnswer::Waits(found) => {
                    (state, blocker) = (HolderState::ForKeys(Box::new(urgency)), Some(found))
                }
                GateAnswer::Refused(reason, blocker) => {
                    self.remove_if_empty(job);
                    return Admission { blocker, ..Verdict::Skip(reason).into() };
                }
            }
        }
        let room = self.jobs.entry(job).or_default();
        let verdict = match state {
            HolderState::Started => {
                self.started += 1;
                Verdict::Start
            }
            HolderState::ForSlot(_) => {
                self.for_slot.insert(urgency);
                self.waiting += 1;
                Verdict::Wait(WaitReason::Slot)
            }
            HolderState::ForKeys(_) => {
                room.for_keys += 1;
                self.for_keys += 1;
                self.waiting += 1;
                Verdict::Wait(WaitReason::Footprint)
            }
        };
        room.active.push(Holder { run: candidate.run, state, footprint: candidate.footprint });
        self.runs.insert(candidate.run, job);
        Admission { blocker, ..verdict.into() }
    }

    /// Lets in who waits for a job that nobody holds any more.
    fn next_of_job(&mut self, job: JobId, freed: &mut Freed) {
        loop {
            let Some(room) = self.jobs.get_mut(&job) else { return };
            let next = match room.active.is_empty() {
                true => room.waiting.pop_front(),
                false => room.waiting.pop_front_if(|waiter| waiter.may_overlap()),
            };
            let Some(waiter) = next else { return self.remove_if_empty(job) };
            let run = waiter.run;
            self.waiting -= 1;
            self.runs.remove(&run);
            // Others may have waited for a slot longer, or be more urgent.
            let slot_left = self.started < self.limits.slots && self.for_slot.is_empty();
            let admission = self.enter(waiter, slot_left, true);
            match admission.verdict {
                Verdict::Start => freed.starts.push(run),
                Verdict::Wait(WaitReason::Slot) => {}
                Verdict::Wait(reason) => freed.waits.push((run, reason, admission.blocker)),
                Verdict::Skip(reason) => freed.skips.push((run, reason, admission.blocker)),
            }
        }
    }

    /// Those who have what they touch now stand in the line for a slot.
    fn queue_for_slot(&mut self, granted: &[RunId]) {
        for run in granted {
            let Some(room) = self.runs.get(run).and_then(|job| self.jobs.get_mut(job)) else { continue };
            let Some(holder) = room.active.iter_mut().find(|holder| holder.run == *run) else { continue };
            if let HolderState::ForKeys(urgency) = &holder.state {
                let urgency = **urgency;
                holder.state = HolderState::ForSlot(Box::new(urgency));
                room.for_keys -= 1;
                self.for_keys -= 1;
                self.for_slot.insert(urgency);
            }
        }
    }

    /// Free slots go to the most urgent.
    fn fill_slots(&mut self, freed: &mut Freed) {
        while self.started < self.limits.slots {
            let Some((_, _, run)) = self.for_slot.pop_first() else { break };
            self.waiting -= 1;
            self.started += 1;
            freed.starts.push(run);
        }
    }

    /// A job that nobody is in has no room.
    fn remove_if_empty(&mut self, job: JobId) {
        if self.jobs.get(&job).is_some_and(|room| room.active.is_empty() && room.waiting.is_empty()) {
            self.jobs.remove(&job);
        }
    }
}

#[cfg(test)]
mod tests;
