//! Footprints beside the plain design of their specification and beside `prio-graph`, in one run.
//!
//! `cargo bench -p cadran-footprint --bench footprint [-- --quick] [-- NAME…]` prints a table; every row with a goal says
//! whether it was met. Times are the least processor time of several repetitions, both sides in turns.

#[path = "footprint/candidates.rs"]
mod candidates;
#[path = "footprint/drain.rs"]
mod drain;
#[path = "footprint/held.rs"]
mod held;
#[path = "footprint/measure.rs"]
mod measure;
#[path = "footprint/plain.rs"]
mod plain;
#[path = "footprint/reserve.rs"]
mod reserve;

use std::time::Duration;

use cadran_dev::bench_table::Table;
use measure::Effort;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let quick = words.iter().any(|word| word == "--quick");
    let wanted: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let effort = if quick {
        Effort { budget: Duration::from_millis(100), times_min: 3 }
    } else {
        Effort { budget: Duration::from_millis(500), times_min: 9 }
    };
    let groups: &[(&str, fn(Effort, bool, &mut Table))] = &[
        ("reserve", reserve::interned),
        ("hashed", reserve::hashed),
        ("drain", drain::fair),
        ("hostile", drain::hostile),
        ("hold", held::hold),
        ("hot", held::hot),
        ("blocker", held::blocker),
    ];
    let mut table = Table::default();
    for (name, group) in groups {
        if wanted.is_empty() || wanted.contains(name) {
            table.title(name);
            group(effort, quick, &mut table);
        }
    }
    table.close();
}
