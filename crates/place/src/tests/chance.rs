//! Whatever happens, in whatever order.

use super::*;

/// Draws numbers (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

const SLOTS: usize = 4;
const UNITS: u32 = 4;

/// A place, who is on by what it said, and who is open.
struct Turns {
    seed: u64,
    place: Place,
    on: Vec<(RunId, Option<Arc<Footprint>>)>,
    open: Vec<Candidate>,
}

/// Whether two footprints exclude one another, by their names.
fn exclude(one: &Footprint, other: &Footprint) -> bool {
    one.keys.iter().any(|(ours, how)| {
        let only_read = |theirs: &Access| *how == Access::Read && *theirs == Access::Read;
        other.keys.iter().any(|(theirs, their_how)| ours.touches(theirs) && !only_read(their_how))
    })
}

impl Turns {
    fn admit(&mut self, candidate: Candidate) {
        let run = candidate.run;
        self.open.push(candidate.clone());
        let admission = self.place.admit(candidate);
        self.open.retain(|candidate| !admission.displaced.contains(&candidate.run));
        match admission.verdict {
            Verdict::Start => self.begin(run),
            Verdict::Wait(_) => {}
            Verdict::Skip(_) => self.open.retain(|candidate| candidate.run != run),
        }
        for run in admission.stop {
            self.end(run);
        }
    }

    fn begin(&mut self, run: RunId) {
        let seed = self.seed;
        let started = self.open.iter().find(|candidate| candidate.run == run);
        let footprint =
            started.unwrap_or_else(|| panic!("seed {seed}: {run} is not there")).footprint.clone();
        if let Some(ours) = &footprint {
            let touching = || self.on.iter().filter_map(|(_, footprint)| footprint.as_ref());
            assert!(touching().all(|theirs| !exclude(ours, theirs)), "seed {seed}: {ours:?} {:?}", self.on);
            let shares = touching().chain([ours]).flat_map(|footprint| &footprint.pools);
            assert!(shares.map(|share| share.units).sum::<u32>() <= UNITS, "seed {seed}: {:?}", self.on);
        }
        self.on.push((run, footprint));
        assert!(self.on.len() <= SLOTS, "seed {seed}");
    }

    fn end(&mut self, run: RunId) {
        self.open.retain(|candidate| candidate.run != run);
        self.on.retain(|(other, _)| *other != run);
        let freed = self.place.release(run);
        self.open.retain(|candidate| freed.skips.iter().all(|(skipped, ..)| *skipped != candidate.run));
        for run in freed.starts {
            self.begin(run);
        }
    }
}

const TOUCHED: [&str; 8] =
    ["w a:x", "r a:x/y", "w a:x/y, r b:z", "c b:z", "3 gpu, r a:/", "2 gpu", "1 gpu, w b:z/q", "r b:/"];

#[test]
fn nothing_conflicts_and_everybody_has_a_turn() {
    for seed in 1..400 {
        let mut chance = Chance(seed * 0x9e37_79b9);
        let place = Place::new(Limits { slots: SLOTS, waiting_per_job_max: 4, waiting_max: 20 });
        let mut turns = Turns { seed, place, on: Vec::new(), open: Vec::new() };
        for raw in 1..120 {
            turns.place.pass(raw as Millis * 2_000);
            let overlap = Overlap::WORDS[chance.below(5) as usize].0;
            let mut candidate = candidate(raw, chance.below(6) as u32, overlap);
            candidate.priority = chance.below(3) as i32;
            if let Some(text) = TOUCHED.get(chance.below(9) as usize) {
                let (ordered, skips) = (chance.below(5) == 0, chance.below(5) == 0);
                let touching = changed(touching(raw, text), |footprint| {
                    footprint.ordered = ordered;
                    footprint.on_conflict = if skips { OnConflict::Skip } else { OnConflict::Wait };
                });
                candidate.footprint = touching.footprint;
            }
            turns.admit(candidate);
            while chance.below(3) > 0 && !turns.open.is_empty() {
                let run = turns.open[chance.below(turns.open.len() as u64) as usize].run;
                // Those that run end; now and then one that waits is withdrawn.
                if turns.on.iter().any(|(on, _)| *on == run) || chance.below(4) == 0 {
                    turns.end(run);
                }
            }
            let (started, waiting) = (turns.place.started(), turns.place.waiting());
            assert_eq!((started, started + waiting), (turns.on.len(), turns.open.len()), "seed {seed}");
        }
        // Nobody comes any more: as those that run end, everybody who waits has a turn.
        while let Some(&(run, _)) = turns.on.first() {
            turns.end(run);
        }
        let Turns { place, open, .. } = turns;
        assert!(open.is_empty(), "seed {seed}: {open:?} {:?}", place.why(open[0].run));
        assert!(place.jobs.is_empty() && place.runs.is_empty() && place.footprints.is_empty(), "seed {seed}");
        assert_eq!((place.started(), place.waiting(), place.for_keys), (0, 0, 0), "seed {seed}");
    }
}
