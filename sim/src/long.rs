//! Years of a calm fleet: edits, pauses and crashes now and then, and the law kept up with as time passes.

use std::sync::Arc;

use cadran_core::{Millis, Zone};

use crate::dice::Dice;
use crate::fleet::{self, DAY, HOUR, Kind, MIN, SEC, ZONES};
use crate::law::Violation;
use crate::play::Tally;
use crate::record::Plain;
use crate::script::{Act, Script};
use crate::world::World;

/// How often something happens to the fleet, per thousand jobs.
const ACTS_PER_DAY: u64 = 4;

impl Script {
    /// The script of a fleet that is watched for days on end. Jobs are in every zone.
    pub fn long(seed: u64, jobs: u64, days: u64) -> Script {
        let mut dice = Dice::of(&[seed, 10]);
        let zones: Vec<Zone> = (0..ZONES.len() as u64).map(fleet::zone).collect();
        let (mut definitions, mut schedules) = (Vec::new(), Vec::new());
        let mut acts = Vec::new();
        let mut put = |dice: &mut Dice, no: u64, at: Millis, acts: &mut Vec<(Millis, Act)>| {
            let (job, texts) = fleet::job(dice, no, &zones, Kind::Calm);
            definitions.push(job);
            schedules.push(texts);
            acts.push((at, Act::Put(definitions.len() - 1)));
        };
        for no in 0..jobs {
            let at = dice.between(0, 20 * SEC);
            put(&mut dice, no, at, &mut acts);
        }
        for day in 0..days as Millis {
            for _ in 0..ACTS_PER_DAY {
                let at = day * DAY + dice.between(0, DAY);
                let job = dice.roll(jobs);
                match dice.roll(12) {
                    0..=3 => put(&mut dice, job, at, &mut acts),
                    4 | 5 => {
                        acts.push((at, Act::Pause(job)));
                        acts.push((at + dice.between(MIN, 2 * DAY), Act::Resume(job)));
                    }
                    6 => {
                        acts.push((at, Act::Remove(job)));
                        let back = at + dice.pick(&[30 * SEC, 10 * MIN]);
                        put(&mut dice, job, back, &mut acts);
                    }
                    7 => acts.push((at, Act::Trigger(job))),
                    8 => acts.push((at, Act::Crash(dice.pick(&[0, 8 * SEC, 10 * MIN])))),
                    9 => acts.push((at, Act::CrashAfter(dice.roll(14), dice.pick(&[0, 15 * SEC])))),
                    10 => acts.push((at, Act::StoreDown(dice.pick(&[6 * SEC, 3 * MIN])))),
                    _ => {
                        acts.push((at, Act::Stall(dice.pick(&[12 * SEC, MIN]))));
                        acts.push((at + HOUR, Act::Clock(dice.pick(&[-5 * SEC, 7 * SEC]))));
                    }
                }
            }
        }
        acts.sort_by_key(|(at, _)| *at);
        // 2025-01-01.
        let start = 1_735_689_600_000;
        let (definitions, schedules) = (definitions.into(), schedules.into());
        let span_ms = days as Millis * DAY;
        Script { seed, start, span_ms, definitions, schedules, files: Arc::default(), acts, sabotage: None }
    }
}

/// A long simulation on its way.
pub struct Long<'a> {
    world: World<'a, Plain>,
    end: Millis,
}

impl<'a> Long<'a> {
    /// Sets out.
    pub fn new(script: &'a Script) -> Long<'a> {
        let mut world = World::new(script, Plain::default(), false);
        world.lazy = true;
        let end = world.began() + script.span_ms;
        Long { world, end }
    }

    /// Lets so many days pass. False when the end is reached.
    pub fn pass(&mut self, days: Millis) -> Result<bool, Violation> {
        let to = (self.world.mono + days * DAY).min(self.end);
        self.world.run_to(to)?;
        Ok(to < self.end)
    }

    /// Compares every due that is recorded so far, and lets go of it.
    pub fn check(&mut self) -> Result<(), Violation> {
        self.world.law.check(self.world.now().wall, false, |_| true)
    }

    /// Lets everything come to rest, and compares the rest.
    pub fn settle(&mut self) -> Result<(), Violation> {
        self.world.settle()?;
        self.world.script.check_schedules()
    }

    /// What was done so far.
    pub fn tally(&self) -> Tally {
        self.world.tally()
    }
}
