//! Jobs that were drawn as text, read by the real reader and played in storms of faults. No law is broken.

use cadran_sim::{Scale, Script, play};

/// Job files to play. `cargo xtask random-jobs` plays any number.
const JOBS_MIN: u64 = 500;

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
