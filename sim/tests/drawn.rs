//! Jobs that were drawn as text, read by the real reader and played in storms of faults. No law is broken.

use cadran_sim::{Scale, Script, play};

/// Job files to play. `cargo xtask random-jobs` plays any number.
const JOBS_MIN: u64 = 500;

/// Seeds that broke a law once, for a mistake of the engine or of the law itself.
const FOUND: &[u64] = &[
    42,
    198,
    282,
    307,
    339,
    766,
    936,
    1_094,
    1_165,
    1_347,
    1_381,
    1_413,
    1_795_041_647,
    1_795_042_800,
    1_795_043_820,
    1_795_044_537,
    1_795_044_973,
];

#[test]
fn drawn_seeds_that_broke_a_law_once_break_none() {
    for &seed in FOUND {
        if let Err(violation) = play(&Script::drawn(seed, Scale::SMALL)) {
            panic!("seed {seed}: {violation}");
        }
    }
}

#[test]
fn five_hundred_drawn_jobs_break_no_law() {
    let (mut jobs, mut seed) = (0, 0);
    while jobs < JOBS_MIN {
        seed += 1;
        let script = Script::drawn(seed, Scale::SMALL);
        jobs += script.definitions();
        if let Err(violation) = play(&script) {
            panic!("seed {seed}: {violation}");
        }
    }
}
