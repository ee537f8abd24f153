//! The central rows by Criterion: medians with their confidence intervals.

use std::sync::Arc;
use std::time::Duration;

use cadran_plan::index::{Buffers, Index};
use criterion::{BatchSize, Criterion};

use crate::measure::Effort;
use crate::plain;
use crate::run_list::{HOUR, List, START};
use cadran_dev::bench_table::Table;

pub(crate) fn measure(_effort: Effort, quick: bool, _table: &mut Table) {
    let (jobs, seconds) = if quick { (1_000, 1) } else { (10_000, 3) };
    let mut criterion = Criterion::default()
        .without_plots()
        .sample_size(20)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(seconds));
    for (name, list) in [
        ("dense", List::dense(jobs, 100)),
        ("at seconds", List::seconds(jobs, 100)),
        ("at milliseconds", List::millis(jobs, 100)),
    ] {
        let runs = list.runs.len();
        let (mut buffers, mut last) = (Buffers::default(), Arc::new(Index::default()));
        criterion.bench_function(&format!("list of {runs} {name}"), |bench| {
            bench.iter(|| {
                let next = Arc::new(Index::from_runs(&list.runs, list.window, &mut buffers));
                buffers.recycle(std::mem::replace(&mut last, next));
            });
        });
        criterion.bench_function(&format!("list of {runs} {name}, plain"), |bench| {
            bench.iter_batched(|| list.plain(), plain::build, BatchSize::LargeInput);
        });
        criterion.bench_function(&format!("query of an hour of {runs} {name}"), |bench| {
            bench.iter(|| last.query(START, START + HOUR).len());
        });
        criterion.bench_function(&format!("peek at {runs} {name}"), |bench| bench.iter(|| last.peek()));
    }
    criterion.final_summary();
}
