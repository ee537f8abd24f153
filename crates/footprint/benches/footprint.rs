//! Footprints beside the plain design of their specification and beside `prio-graph`, in one run.
//!
//! `cargo bench -p cadran-footprint --bench footprint [-- --quick] [-- NAME…]` prints a table; every row that has a goal
//! says whether it was met. A word with a space, as `"10000 of 4 keys"`, chooses rows of `reserve`, `hashed` and `hold`. Times are the least processor time of several repetitions, on both sides. The group
//! `criterion` measures the central rows once more, with confidence intervals.

#[path = "footprint/adversarial.rs"]
mod adversarial;
#[path = "footprint/candidates.rs"]
mod candidates;
#[path = "footprint/drain.rs"]
mod drain;
#[path = "footprint/held.rs"]
mod held;
#[path = "footprint/intervals.rs"]
mod intervals;
#[path = "footprint/measure.rs"]
mod measure;
#[path = "footprint/plain.rs"]
mod plain;
#[path = "footprint/reserve.rs"]
mod reserve;
#[path = "footprint/table.rs"]
mod table;

use std::time::Duration;

use measure::{Counting, Effort};
use table::Table;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let quick = words.iter().any(|word| word == "--quick");
    let (rows, wanted): (Vec<&str>, Vec<&str>) = words
        .iter()
        .map(String::as_str)
        .filter(|word| !word.starts_with('-'))
        .partition(|word| word.contains(' '));
    let effort = if quick {
        Effort { budget: Duration::from_millis(100), times_min: 3 }
    } else {
        Effort { budget: Duration::from_millis(700), times_min: 15 }
    };
    let groups: &[(&str, fn(Effort, bool, &mut Table))] = &[
        ("reserve", reserve::interned),
        ("admitted", reserve::admitted),
        ("hashed", reserve::hashed),
        ("whole", reserve::whole),
        ("drain", drain::fair),
        ("hostile", drain::hostile),
        ("hold", held::hold),
        ("hot", held::hot),
        ("blocker", held::blocker),
        ("memory", held::memory),
        ("adversarial", adversarial::chosen),
        ("criterion", intervals::measure),
    ];
    let mut table = Table { only: rows.first().map(|row| row.to_string()), ..Table::default() };
    for (name, group) in groups {
        if wanted.is_empty() || wanted.contains(name) {
            table.title(name);
            group(effort, quick, &mut table);
        }
    }
    table.close();
}
