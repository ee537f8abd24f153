//! The run index beside the plain design of its specification and beside other cron crates, in one run.
//!
//! `cargo bench -p cadran-plan --bench index [-- --quick] [-- NAME…]` prints a table; every row that has a goal says
//! whether it was met. Times are the least processor time of several repetitions, on both sides;
//! percentiles are wall-clock times and want an idle machine. `criterion` measures the central rows once more, with
//! confidence intervals.
//!
//! *Plain* is the specification's design written out: `(i64, &str)` pairs, `sort_unstable`, queries that copy. A query is
//! compared like for like: both sides are read through to the last job, which for plain means copying the pairs and
//! looking at their ids. The copy by itself, with nothing read, is printed beside it and has no goal.

#[path = "index/fleets.rs"]
mod fleets;
#[path = "index/generate.rs"]
mod generate;
#[path = "index/intervals.rs"]
mod intervals;
#[path = "index/live.rs"]
mod live;
#[path = "index/measure.rs"]
mod measure;
#[path = "index/plain.rs"]
mod plain;
#[path = "index/run_list.rs"]
mod run_list;

use std::time::Duration;

use cadran_dev::allocation::CountingAllocator;
use cadran_dev::bench_table::Table;
use measure::Effort;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let quick = words.iter().any(|word| word == "--quick");
    let wanted: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let effort = if quick {
        Effort { budget: Duration::from_millis(300), times_min: 5 }
    } else {
        Effort { budget: Duration::from_secs(2), times_min: 10 }
    };
    let groups: &[(&str, fn(Effort, bool, &mut Table))] = &[
        ("list", run_list::build),
        ("schedules", generate::schedules),
        ("peers", generate::peers),
        ("query", run_list::query),
        ("change", live::change),
        ("swap", live::swap),
        ("memory", generate::memory),
        ("day", live::day),
        ("sizes", run_list::sizes),
        ("criterion", intervals::measure),
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
