//! Reserving beside plain sets.

use std::time::Duration;

use cadran_footprint::batch::{Footprint, PendingRewrite, Scheduler, SchedulerKind, Stamps, TxId};

use crate::candidates::Candidates;
use crate::measure::{Effort, thousand};
use crate::plain::{self, PlainSets};
use cadran_dev::bench_table::Table;

/// Measures one way to reserve beside plain sets, and returns the time of a thousand.
fn row(
    effort: Effort,
    table: &mut Table,
    label: &str,
    footprints: &[Footprint],
    goal: f64,
    mut ours: impl FnMut() -> usize,
) -> Duration {
    let (mut admitted, mut expected) = (0, 0);
    let (mut sets, mut rewrites) = (PlainSets::default(), plain::rewrites(footprints));
    let reserve = |()| admitted = ours();
    let plainly = |()| expected = sets.reserve_all(&mut rewrites);
    let (time, plain) = effort.both((|| (), reserve), (|| (), plainly));
    assert_eq!(admitted, expected);
    let (time, plain) = (thousand(time, footprints.len()), thousand(plain, footprints.len()));
    table.faster(label, time, ("plain sets", plain), goal);
    time
}

/// Every size, number of keys and share of conflicts.
fn each(quick: bool, mut measure: impl FnMut(&str, usize, usize, usize)) {
    let sizes: &[usize] = if quick { &[10_000] } else { &[10_000, 100_000, 1_000_000] };
    for &count in sizes {
        for keys in [1, 4, 16] {
            for conflicts in [0, 10, 50, 90] {
                let label = format!("{count} of {keys} keys, {conflicts} % conflicts, a thousand");
                measure(&label, count, keys, conflicts);
            }
        }
    }
}

/// Keys that are numbers already.
pub(crate) fn interned(effort: Effort, quick: bool, table: &mut Table) {
    each(quick, |label, count, keys, conflicts| {
        let candidates = Candidates::new(count, keys, conflicts);
        let (mut stamps, mut admitted) = (Stamps::new(count * keys), Vec::with_capacity(count));
        row(effort, table, label, &candidates.footprints, 8.0, || {
            stamps.begin();
            admitted.clear();
            candidates.interned.reserve_all(&mut stamps, &mut admitted);
            admitted.iter().map(|&admitted| usize::from(admitted)).sum()
        });
    });
}

/// Keys hashed when they are reserved, and once the pairwise kind.
pub(crate) fn hashed(effort: Effort, quick: bool, table: &mut Table) {
    let tx = TxId(1);
    each(quick, |label, count, keys, conflicts| {
        let candidates = Candidates::new(count, keys, conflicts);
        let rewrite =
            |footprint: &Footprint| PendingRewrite { footprint: footprint.clone(), ..Default::default() };
        let mut rewrites: Vec<PendingRewrite> = candidates.footprints.iter().map(rewrite).collect();
        let mut scheduler = Scheduler::new(SchedulerKind::Radix);
        let ours = row(effort, table, label, &candidates.footprints, 1.0, || {
            scheduler.finalize_tx(tx);
            scheduler.reserve_all(tx, &mut rewrites)
        });
        if (count, keys, conflicts) == (10_000, 4, 10) {
            let mut scheduler = Scheduler::new(SchedulerKind::Pairwise);
            let once = Effort { budget: Duration::ZERO, times_min: 1 };
            let pairwise = once.best(|| (), |()| scheduler.reserve_all(tx, &mut rewrites));
            table.beside("", ours, ("pairwise", thousand(pairwise, count)));
        }
    });
}
