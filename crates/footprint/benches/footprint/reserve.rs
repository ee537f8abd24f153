//! Reserving beside plain sets.

use std::collections::BTreeMap;
use std::time::Duration;

use cadran_footprint::{Footprint, KeyUse, PendingRewrite, Scheduler, SchedulerKind, Stamps, TxId};

use crate::candidates::Candidates;
use crate::drain::fair_hash;
use crate::measure::{Chance, Effort, thousand};
use crate::plain::{self, List, PlainRewrite, PlainSets, Tree, scope_hash};
use crate::table::Table;

/// Rewrites whose hashes sort as they stand.
fn rewrites(footprints: &[Footprint]) -> Vec<PendingRewrite> {
    let rewrite = |(footprint, at): (&Footprint, u64)| PendingRewrite {
        scope_hash: scope_hash(at),
        footprint: footprint.clone(),
        ..PendingRewrite::default()
    };
    footprints.iter().zip(0..).map(rewrite).collect()
}

/// How often both sides are laid out anew. Where they do not fit the caches, how memory happens to lie moves either by a third.
const LAYOUTS: u32 = 3;

/// Measures one way to reserve beside plain sets, and beside plain sets over lists, without a goal: both sides as they are laid
/// out several times, of which the middle ratio counts. Says the time of one there.
fn row<F: FnMut() -> usize>(
    effort: Effort,
    table: &mut Table,
    label: &str,
    footprints: &[Footprint],
    goal: f64,
    mut lay_out: impl FnMut() -> F,
) -> Duration {
    let count = footprints.len();
    let mut measured: Vec<(Duration, Duration)> = (0..LAYOUTS)
        .map(|_| {
            let (mut admitted, mut expected) = (0, 0);
            let mut sets = PlainSets::default();
            let mut trees: Vec<PlainRewrite<Tree>> = plain::rewrites(footprints);
            let mut ours = lay_out();
            let reserve = |()| admitted = ours();
            let plainly = |()| expected = sets.reserve_all(&mut trees);
            let times = effort.part(LAYOUTS).both((|| (), reserve), (|| (), plainly));
            assert_eq!(admitted, expected);
            times
        })
        .collect();
    let ratio = |(time, plain): &(Duration, Duration)| plain.as_secs_f64() / time.as_secs_f64();
    measured.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    let (time, plain) = measured[measured.len() / 2];
    let mut sets = PlainSets::default();
    let mut lists: Vec<PlainRewrite<List>> = plain::rewrites(footprints);
    let kinder = effort.best(|| (), |()| sets.reserve_all(&mut lists));
    let time = thousand(time, count);
    table.faster(label, time, ("plain sets", thousand(plain, count)), goal);
    table.beside("", time, ("over lists", thousand(kinder, count)));
    let ratios: Vec<String> = measured.iter().map(|both| format!("{:.1}", ratio(both))).collect();
    table.figure("", &format!("{} x", ratios.join(", ")));
    time
}

fn sizes(quick: bool) -> &'static [usize] {
    if quick { &[10_000, 100_000] } else { &[10_000, 100_000, 1_000_000] }
}

/// Keys that are numbers already.
pub(crate) fn interned(effort: Effort, quick: bool, table: &mut Table) {
    for &count in sizes(quick) {
        for keys in [1, 4, 16] {
            for conflicts in [0, 10, 50, 90] {
                let label = format!("{count} of {keys} keys, {conflicts} % conflicts, a thousand");
                if !table.wants(&label) {
                    continue;
                }
                let candidates = Candidates::new(count, keys, conflicts);
                let goal = if keys >= 4 && conflicts <= 50 { 15.0 } else { 8.0 };
                row(effort, table, &label, &candidates.footprints, goal, || {
                    let (mut stamps, mut admitted) = (Stamps::new(count * keys), Vec::with_capacity(count));
                    let interned = &candidates.interned;
                    move || {
                        stamps.begin();
                        admitted.clear();
                        interned.reserve_all(&mut stamps, &mut admitted);
                        admitted.iter().map(|&admitted| usize::from(admitted)).sum()
                    }
                });
            }
        }
    }
}

/// The cost of a key does not depend on how many were admitted: the last of many, over the same keys.
pub(crate) fn admitted(effort: Effort, quick: bool, table: &mut Table) {
    let (most, last) = if quick { (100_000, 10_000) } else { (1_000_000, 100_000) };
    let candidates = Candidates::new(most + last, 4, 0);
    let footprints: Vec<_> = candidates.interned.iter().collect();
    let (before, last) = footprints.split_at(most);
    let at = |before: &[&[KeyUse]]| {
        let mut stamps = Stamps::new(footprints.len() * 4);
        let prepare = |stamps: &mut Stamps| {
            stamps.begin();
            before.iter().for_each(|uses| assert!(stamps.reserve(uses)));
        };
        let mut best = Duration::MAX;
        for _ in 0..effort.times_min {
            prepare(&mut stamps);
            let once = Effort { budget: Duration::ZERO, times_min: 1 };
            let reserve = |()| last.iter().filter(|uses| stamps.reserve(uses)).count();
            best = best.min(once.best(|| (), reserve));
        }
        thousand(best, last.len() * 4)
    };
    let (few, many) = (at(&before[..1_000]), at(before));
    table.time("a thousand keys, 1000 admitted before", few);
    table.at_most(
        &format!("a thousand keys, {most} admitted before, to that"),
        many.as_secs_f64() / few.as_secs_f64(),
        "",
        1.5,
    );
}

/// Keys hashed when they are reserved, and the pairwise kind.
pub(crate) fn hashed(effort: Effort, quick: bool, table: &mut Table) {
    let tx = TxId(1);
    for &count in sizes(quick) {
        for keys in [1, 4, 16] {
            for conflicts in [0, 10, 50, 90] {
                let label = format!("{count} of {keys} keys, {conflicts} % conflicts, a thousand");
                if !table.wants(&label) {
                    continue;
                }
                let candidates = Candidates::new(count, keys, conflicts);
                let drain = || {
                    let mut scheduler = Scheduler::new(SchedulerKind::Radix);
                    for rewrite in rewrites(&candidates.footprints) {
                        scheduler.enqueue(tx, rewrite).unwrap();
                    }
                    let drained = scheduler.drain_for_tx(tx);
                    (scheduler, drained)
                };
                let ours = row(effort, table, &label, &candidates.footprints, 4.0, || {
                    let (mut scheduler, mut drained) = drain();
                    move || {
                        scheduler.finalize_tx(tx);
                        scheduler.reserve_all(tx, &mut drained)
                    }
                });
                if count == 10_000 && keys == 4 && conflicts == 10 {
                    let (mut scheduler, (_, mut drained)) =
                        (Scheduler::new(SchedulerKind::Pairwise), drain());
                    let few = Effort { budget: Duration::ZERO, times_min: 1 };
                    let pairwise = few.best(|| (), |()| scheduler.reserve_all(tx, &mut drained));
                    table.beside("", ours, ("pairwise", thousand(pairwise, count)));
                }
            }
        }
    }
}

/// A whole transaction, from enqueueing to forgetting: what is saved in one place and paid in another shows here.
pub(crate) fn whole(effort: Effort, quick: bool, table: &mut Table) {
    let tx = TxId(1);
    for &count in sizes(quick) {
        let candidates = Candidates::new(count, 4, 10);
        let mut chance = Chance(3);
        let mut rewrites = rewrites(&candidates.footprints);
        let mut trees: Vec<PlainRewrite<Tree>> = plain::rewrites(&candidates.footprints);
        for (rewrite, tree) in rewrites.iter_mut().zip(&mut trees) {
            rewrite.scope_hash = fair_hash(&mut chance);
            tree.scope_hash = rewrite.scope_hash;
        }
        let (mut scheduler, mut sets) = (Scheduler::new(SchedulerKind::Radix), PlainSets::default());
        let (mut admitted, mut expected) = (0, 0);
        let ours = |rewrites: Vec<PendingRewrite>| {
            rewrites.into_iter().for_each(|rewrite| scheduler.enqueue(tx, rewrite).unwrap());
            let mut drained = scheduler.drain_for_tx(tx);
            admitted = scheduler.reserve_all(tx, &mut drained);
            scheduler.finalize_tx(tx);
            scheduler.recycle(drained);
        };
        let plainly = |rewrites: Vec<PlainRewrite<Tree>>| {
            let pending =
                rewrites.into_iter().map(|rewrite| ((rewrite.scope_hash, rewrite.compact_rule), rewrite));
            let mut pending: Vec<_> = pending.collect::<BTreeMap<_, _>>().into_values().collect();
            expected = sets.reserve_all(&mut pending);
        };
        let (time, plain) = effort.both((|| rewrites.clone(), ours), (|| trees.clone(), plainly));
        assert_eq!(admitted, expected);
        let label = format!("{count} of 4 keys, 10 % conflicts, all of it, a thousand");
        table.beside(&label, thousand(time, count), ("plain sets", thousand(plain, count)));
    }
}
