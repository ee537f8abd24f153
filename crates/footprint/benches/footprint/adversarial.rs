//! Keys chosen by somebody who has read the source, so that all their hashes are the same.

use std::time::Duration;

use cadran_footprint::{
    Footprint, Interned, PendingRewrite, ResourceKey, Scheduler, SchedulerKind, Set, TxId,
};

use crate::measure::{Effort, thousand};
use crate::plain::{PlainFootprint, PlainSets, Tree, scope_hash};
use crate::table::Table;

/// Against the mixer of this crate: one of its factors becomes nothing, and the product with it.
fn against_ours(at: u64) -> ResourceKey {
    ResourceKey::new(at, 0xd1b5_4a32_d192_ed03)
}

/// Against the multiplication of the plain sets' hash.
fn against_plain(at: u64) -> ResourceKey {
    const FACTOR: u64 = 0xf135_7aea_2e62_a9c5;
    ResourceKey::new(at, 0x1234_5678u64.wrapping_sub(at.wrapping_mul(FACTOR)))
}

fn fair(at: u64) -> ResourceKey {
    ResourceKey::new(at % 16, at.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

pub(crate) fn chosen(effort: Effort, quick: bool, table: &mut Table) {
    let footprints = |count: u64, key: fn(u64) -> ResourceKey| -> Vec<Footprint> {
        (0..count).map(|at| Footprint::new().with(Set::NodeWrites, key(at))).collect()
    };
    let reserve = |footprints: &[Footprint]| {
        let mut scheduler = Scheduler::new(SchedulerKind::Radix);
        let mut rewrites: Vec<PendingRewrite> = footprints
            .iter()
            .map(|footprint| PendingRewrite { footprint: footprint.clone(), ..PendingRewrite::default() })
            .collect();
        let time = effort.best(
            || (),
            |()| {
                scheduler.finalize_tx(TxId(1));
                rewrites.iter_mut().for_each(|at| assert!(scheduler.reserve(TxId(1), at).is_ok()));
            },
        );
        thousand(time, footprints.len())
    };
    let reserve_all = |footprints: &[Footprint]| {
        let mut scheduler = Scheduler::new(SchedulerKind::Radix);
        for (footprint, at) in footprints.iter().zip(0u64..) {
            let footprint = footprint.clone();
            let rewrite =
                PendingRewrite { scope_hash: scope_hash(at), footprint, ..PendingRewrite::default() };
            scheduler.enqueue(TxId(1), rewrite).unwrap();
        }
        let mut drained = scheduler.drain_for_tx(TxId(1));
        let time = effort.best(
            || (),
            |()| {
                scheduler.finalize_tx(TxId(1));
                assert_eq!(scheduler.reserve_all(TxId(1), &mut drained), footprints.len());
            },
        );
        thousand(time, footprints.len())
    };
    let intern = |footprints: &[Footprint]| {
        let time = effort.best(Interned::default, |mut interned| {
            footprints.iter().for_each(|footprint| assert!(interned.add(footprint).is_ok()));
            interned
        });
        thousand(time, footprints.len())
    };
    let sizes: &[u64] = if quick { &[1_000, 10_000] } else { &[1_000, 10_000, 100_000] };
    for &count in sizes {
        let (usual, hostile) = (footprints(count, fair), footprints(count, against_ours));
        for (name, times) in [
            ("reserve", [reserve(&usual), reserve(&hostile)]),
            ("reserve all", [reserve_all(&usual), reserve_all(&hostile)]),
            ("intern", [intern(&usual), intern(&hostile)]),
        ] {
            table.time(&format!("{name}, {count} fair keys, a thousand"), times[0]);
            table.at_most(
                &format!("{name}, {count} chosen keys, each"),
                times[1].as_secs_f64() * 1e6,
                "ns",
                1_000.0,
            );
        }
        if count <= 10_000 {
            let mut sets = PlainSets::default();
            let theirs = footprints(count, against_plain);
            let theirs: Vec<PlainFootprint<Tree>> = theirs.iter().map(Into::into).collect();
            let few = Effort { budget: Duration::ZERO, times_min: 2 };
            let plain = few.best(
                || (),
                |()| {
                    sets.begin();
                    theirs.iter().for_each(|footprint| assert!(sets.reserve(footprint)));
                },
            );
            table.beside(
                &format!("reserve, {count} keys chosen against each"),
                reserve(&hostile),
                ("plain sets", thousand(plain, count as usize)),
            );
        }
    }
}
