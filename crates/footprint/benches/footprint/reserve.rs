//! Reserving beside plain sets.

use std::time::Duration;

use cadran_footprint::{Footprint, KeyUse, PendingRewrite, Phase, Scheduler, SchedulerKind, Stamps, TxId};

use crate::candidates::Candidates;
use crate::measure::{Effort, thousand};
use crate::plain::PlainSets;
use crate::table::Table;

/// The plain scheme over all rewrites, with the phase noted as a scheduler notes it. Says how many were admitted.
fn plain(sets: &mut PlainSets, rewrites: &mut [PendingRewrite]) -> usize {
    sets.begin();
    let mut admitted = 0;
    for rewrite in rewrites.iter_mut() {
        let free = sets.reserve(&rewrite.footprint);
        rewrite.phase = if free { Phase::Reserved } else { Phase::Aborted };
        admitted += usize::from(free);
    }
    admitted
}

/// Rewrites whose hashes sort as they stand.
fn rewrites(footprints: &[Footprint]) -> Vec<PendingRewrite> {
    let rewrite = |(footprint, at): (&Footprint, u64)| {
        let mut scope_hash = [0; 32];
        scope_hash[..8].copy_from_slice(&at.to_be_bytes());
        PendingRewrite { scope_hash, footprint: footprint.clone(), ..PendingRewrite::default() }
    };
    footprints.iter().zip(0..).map(rewrite).collect()
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
                let (mut sets, mut rewrites) = (PlainSets::default(), rewrites(&candidates.footprints));
                let mut stamps = Stamps::new(count * keys);
                let (mut admitted, mut expected) = (Vec::with_capacity(count), 0);
                let reserve = |()| {
                    stamps.begin();
                    admitted.clear();
                    candidates.interned.reserve_all(&mut stamps, &mut admitted);
                };
                let plainly = |()| expected = plain(&mut sets, &mut rewrites);
                let (ours, plain) = effort.both((|| (), reserve), (|| (), plainly));
                assert_eq!(admitted.iter().filter(|admitted| **admitted).count(), expected);
                let goal = if keys >= 4 && conflicts <= 50 { 15.0 } else { 8.0 };
                table.faster(&label, thousand(ours, count), ("plain sets", thousand(plain, count)), goal);
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
                let (mut sets, mut rewrites) = (PlainSets::default(), rewrites(&candidates.footprints));
                let mut scheduler = Scheduler::new(SchedulerKind::Radix);
                rewrites.iter().for_each(|rewrite| scheduler.enqueue(tx, rewrite.clone()).unwrap());
                let mut drained = scheduler.drain_for_tx(tx);
                let (mut admitted, mut expected) = (0, 0);
                let reserve = |()| {
                    scheduler.finalize_tx(tx);
                    admitted = scheduler.reserve_all(tx, &mut drained);
                };
                let plainly = |()| expected = plain(&mut sets, &mut rewrites);
                let (ours, plain) = effort.both((|| (), reserve), (|| (), plainly));
                assert_eq!(admitted, expected);
                table.faster(&label, thousand(ours, count), ("plain sets", thousand(plain, count)), 4.0);
                if count == 10_000 && keys == 4 && conflicts == 10 {
                    let mut scheduler = Scheduler::new(SchedulerKind::Pairwise);
                    let few = Effort { budget: Duration::ZERO, times_min: 1 };
                    let pairwise = few.best(|| (), |()| scheduler.reserve_all(tx, &mut drained));
                    table.beside(&label, thousand(ours, count), ("pairwise", thousand(pairwise, count)));
                }
            }
        }
    }
}
