//! Plays scripts: one seed, or a list of acts made shorter while it still fails.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use crate::law::Violation;
use crate::record::Real;
use crate::script::Script;
use crate::world::World;

/// What a simulation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Dues that were compared with the record.
    pub dues: u64,
    /// Runs that were promised.
    pub runs: u64,
    /// Dues and runs that were skipped.
    pub skips: u64,
    /// Attempts that an executor started.
    pub starts: u64,
    /// Turns of the loop.
    pub turns: u64,
    /// Simulated milliseconds.
    pub simulated_ms: i64,
}

impl Tally {
    /// What came since an earlier reading.
    pub fn since(&self, earlier: &Tally) -> Tally {
        Tally {
            dues: self.dues - earlier.dues,
            runs: self.runs - earlier.runs,
            skips: self.skips - earlier.skips,
            starts: self.starts - earlier.starts,
            turns: self.turns - earlier.turns,
            simulated_ms: self.simulated_ms - earlier.simulated_ms,
        }
    }

    /// Adds another one.
    pub fn add(&mut self, other: &Tally) {
        self.dues += other.dues;
        self.runs += other.runs;
        self.skips += other.skips;
        self.starts += other.starts;
        self.turns += other.turns;
        self.simulated_ms += other.simulated_ms;
    }
}

thread_local! {
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Panics of the simulated server are findings, kept for the report rather than printed.
fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        panic::set_hook(Box::new(|info| {
            LAST_PANIC.with(|last| *last.borrow_mut() = info.to_string());
        }));
    });
}

/// Plays a script to its end against the real engine and the real store in memory.
pub fn play(script: &Script) -> Result<Tally, Violation> {
    quiet_panics();
    let played = panic::catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(script, Real::open(), true);
        let end = world.began() + script.span_ms;
        world.run_to(end)?;
        world.settle()?;
        script.check_schedules()?;
        Ok(world.tally())
    }));
    played.unwrap_or_else(|_| {
        let detail = LAST_PANIC.with(|last| last.borrow().replace('\n', " "));
        Err(Violation { law: "the server does not break down", detail })
    })
}

/// The shortest script found that still breaks a law: chunks of acts are left out, large ones first. `tries` bounds
/// how many scripts are played.
pub fn shrink(script: &Script, violation: Violation, tries: u32) -> (Script, Violation) {
    let mut best = (script.clone(), violation);
    let mut left = tries;
    let mut chunk = best.0.acts.len().div_ceil(2);
    while chunk > 0 && left > 0 {
        let mut from = 0;
        let mut shorter = false;
        while from < best.0.acts.len() && left > 0 {
            let mut candidate = best.0.clone();
            let to = (from + chunk).min(candidate.acts.len());
            candidate.acts.drain(from..to);
            left -= 1;
            match play(&candidate) {
                Err(violation) if violation.law == best.1.law => {
                    best = (candidate, violation);
                    shorter = true;
                }
                _ => from += chunk,
            }
        }
        if chunk > 1 || !shorter {
            chunk /= 2;
        }
    }
    best
}
