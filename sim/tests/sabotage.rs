//! Every mistake around the engine that is made on purpose is found, or the checker itself is broken.

use cadran_sim::{Sabotage, Scale, Script, play};

/// Within so many seeds.
const SEEDS_MAX: u64 = 1_000;

#[test]
fn every_sabotage_is_found() {
    let mut missed = Vec::new();
    for &(sabotage, name) in Sabotage::ALL {
        let first = (1..=SEEDS_MAX).find_map(|seed| {
            let script = Script::drawn(seed, Scale::SMALL);
            let violation = play(&script.clone().sabotaged(sabotage)).err()?;
            Some((seed, script, violation))
        });
        match first {
            Some((seed, script, violation)) => {
                // The simulation keeps quiet about panics, so that what is wrong is told by the list at the end.
                if let Err(clean) = play(&script) {
                    missed.push(format!("{name}: seed {seed} fails without it too: {clean}"));
                }
                println!("{name}: seed {seed}: {}", violation.law);
            }
            None => missed.push(name.to_owned()),
        }
    }
    println!("{missed:?}");
    assert!(missed.is_empty(), "not found within {SEEDS_MAX} seeds: {missed:?}");
}
