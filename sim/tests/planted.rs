//! Every bug that was planted on purpose is found, or the checker itself is broken.

use cadran_core::planted::{self, Bug};
use cadran_sim::{Scale, Script, play};

/// Within so many seeds.
const SEEDS_MAX: u64 = 1_000;

#[test]
fn every_planted_bug_is_found() {
    let mut found: Vec<u64> = Vec::new();
    let mut missed = Vec::new();
    for &(bug, name) in Bug::ALL {
        planted::plant(Some(bug));
        let first = (1..=SEEDS_MAX).find_map(|seed| {
            let scripts = [Script::new(seed, Scale::SMALL), Script::drawn(seed, Scale::SMALL)];
            scripts.into_iter().find_map(|script| {
                let violation = play(&script).err()?;
                Some((seed, script, violation))
            })
        });
        planted::plant(None);
        match first {
            Some((seed, script, violation)) => {
                let clean = play(&script);
                assert!(clean.is_ok(), "seed {seed} fails without {name} too: {clean:?}");
                println!("{name}: seed {seed}: {}", violation.law);
                found.push(seed);
            }
            None => missed.push(name),
        }
    }
    found.sort_unstable();
    println!("{} of {} found, median seed {}", found.len(), Bug::ALL.len(), found[found.len() / 2]);
    assert!(missed.is_empty(), "not found within {SEEDS_MAX} seeds: {missed:?}");
}
