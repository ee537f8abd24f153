//! The central rows by Criterion: medians with their confidence intervals.

use std::time::Duration;

use cadran_footprint::{Pending, Stamps};
use criterion::{BatchSize, Criterion};

use crate::candidates::Candidates;
use crate::drain;
use crate::measure::{Chance, Effort};
use crate::plain::{self, PlainRewrite, PlainSets, Tree};
use crate::table::Table;

pub(crate) fn measure(_effort: Effort, quick: bool, _table: &mut Table) {
    let (count, seconds) = if quick { (10_000, 1) } else { (100_000, 3) };
    let mut criterion = Criterion::default()
        .without_plots()
        .sample_size(20)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(seconds));

    let candidates = Candidates::new(count, 4, 10);
    let mut stamps = Stamps::new(count * 4);
    let mut admitted = Vec::with_capacity(count);
    criterion.bench_function(&format!("reserve {count} of 4 keys, 10 % conflicts, interned"), |bench| {
        bench.iter(|| {
            stamps.begin();
            admitted.clear();
            candidates.interned.reserve_all(&mut stamps, &mut admitted);
            admitted.len()
        });
    });
    let mut sets = PlainSets::default();
    let mut rewrites: Vec<PlainRewrite<Tree>> = plain::rewrites(&candidates.footprints);
    criterion.bench_function(&format!("reserve {count} of 4 keys, 10 % conflicts, plain sets"), |bench| {
        bench.iter(|| sets.reserve_all(&mut rewrites));
    });

    let mut chance = Chance(1);
    let items = drain::items(count, |_| drain::fair_hash(&mut chance));
    let mut pending = Pending::new();
    criterion.bench_function(&format!("enqueue and drain {count}"), |bench| {
        bench.iter_batched(
            || items.clone(),
            |items| {
                let drained = drain::ours(&mut pending, items);
                pending.recycle(drained);
            },
            BatchSize::LargeInput,
        );
    });
    criterion.bench_function(&format!("enqueue and drain {count}, ordered map"), |bench| {
        bench.iter_batched(|| items.clone(), drain::map, BatchSize::LargeInput);
    });
    criterion.final_summary();
}
