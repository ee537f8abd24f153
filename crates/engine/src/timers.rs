//! Everything the engine waits for: dues and ticks by the wall clock, retries and time limits by the monotonic one.

use std::collections::BTreeSet;

use cadran_core::{JobId, Millis, Now, RunId, StepNo};
use cadran_plan::Ring;

/// There is a tick each second.
pub(crate) const TICK_MS: Millis = 1_000;

/// Ticks fall in the middle of a second. Most dues are whole seconds: their orders leave then, and what is planned for
/// seconds ahead, and its commit, does not stand in their way.
pub const TICK_PHASE_MS: Millis = 500;

/// The first tick after an instant.
fn tick_after(at: Millis) -> Millis {
    (at.saturating_sub(TICK_PHASE_MS).div_euclid(TICK_MS) + 1) * TICK_MS + TICK_PHASE_MS
}

/// When the engine wants to be called again with [`Event::Time`](crate::Event::Time): whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// By the wall clock.
    pub wall: Option<Millis>,
    /// By the monotonic clock.
    pub mono: Option<Millis>,
}

/// What leaves the ring when its instant has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RingItem {
    /// This run may start.
    Run(RunId),
    /// A stop schedule of this job is due.
    Stop(JobId),
}

/// What a wait on the monotonic clock was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The interval before a step's next attempt, in this attempt of the run.
    Retry(RunId, u32, StepNo),
    /// The time limit of a run, in this attempt of it.
    Limit(RunId, u32),
    /// The time limit of a step that waits for other runs, in this attempt of it.
    Call(RunId, StepNo, u32),
}

/// See the [module](self).
pub(crate) struct Timers {
    pub(crate) ring: Ring<RingItem>,
    waits: BTreeSet<(Millis, Timer)>,
    next_tick: Millis,
    index_asked_at: Millis,
}

impl Timers {
    pub(crate) fn new() -> Timers {
        Timers {
            ring: Ring::default(),
            waits: BTreeSet::new(),
            next_tick: Millis::MIN,
            index_asked_at: Millis::MIN,
        }
    }

    /// Waits until an instant of the monotonic clock.
    pub(crate) fn start(&mut self, at_mono: Millis, timer: Timer) {
        self.waits.insert((at_mono, timer));
    }

    pub(crate) fn cancel(&mut self, at_mono: Millis, timer: Timer) {
        self.waits.remove(&(at_mono, timer));
    }

    /// The next wait that is over.
    pub(crate) fn pop_elapsed(&mut self, now: Now) -> Option<Timer> {
        self.waits.first().filter(|(at, _)| *at <= now.mono)?;
        self.waits.pop_first().map(|(_, timer)| timer)
    }

    /// There is something to plan before the next second: the next tick is now.
    pub(crate) fn tick_now(&mut self, now: Now) {
        self.next_tick = self.next_tick.min(now.wall);
    }

    /// The tick that is due, by the instant it was due.
    pub(crate) fn take_tick(&mut self, now: Now, may_plan: bool) -> Option<Millis> {
        if self.next_tick.saturating_sub(now.wall) > TICK_MS {
            // The clock stepped back: ticks go on from where it stands.
            self.next_tick = now.wall;
        }
        if self.next_tick > now.wall || !may_plan {
            return None;
        }
        // The first tick of all has no due of its own.
        let due = if self.next_tick == Millis::MIN { now.wall } else { self.next_tick };
        self.next_tick = tick_after(now.wall);
        Some(due)
    }

    /// Whether a new index may be asked for: at most once a second.
    pub(crate) fn may_ask_for_index(&mut self, now: Now) -> bool {
        let since = now.wall.saturating_sub(self.index_asked_at);
        if (0..TICK_MS).contains(&since) {
            return false;
        }
        self.index_asked_at = now.wall;
        true
    }

    /// When the next of all these is due.
    pub(crate) fn wake(&self, may_plan: bool) -> Wake {
        let tick = may_plan.then_some(self.next_tick);
        let wall = self.ring.next_due().into_iter().chain(tick).min();
        Wake { wall, mono: self.waits.first().map(|(at, _)| *at) }
    }
}
