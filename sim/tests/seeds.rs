//! Twenty seeds of a day each and a hundred small ones, with faults of every kind. No law is broken.

use cadran_sim::{Long, Scale, Script, play};

fn check(seeds: std::ops::Range<u64>, scale: Scale) {
    for seed in seeds {
        if let Err(violation) = play(&Script::new(seed, scale)) {
            panic!("seed {seed}: {violation}");
        }
    }
}

#[test]
fn twenty_days_break_no_law() {
    check(1..21, Scale::days(1, 8));
}

#[test]
fn a_hundred_short_storms_break_no_law() {
    check(1..101, Scale::SMALL);
}

#[test]
fn a_month_of_a_calm_fleet_breaks_no_law() {
    let script = Script::long(1, 50, 30);
    let mut long = Long::new(&script);
    while long.pass(10).unwrap_or_else(|violation| panic!("{violation}")) {
        long.check().unwrap_or_else(|violation| panic!("{violation}"));
    }
    long.settle().unwrap_or_else(|violation| panic!("{violation}"));
    assert!(long.tally().dues > 10_000);
}

#[test]
fn the_same_seed_does_the_same() {
    let tally = || play(&Script::new(7, Scale::SMALL)).map_err(|violation| violation.to_string());
    assert_eq!(tally(), tally());
}
