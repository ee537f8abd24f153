//! A steady load allocates nothing.
// A global allocator cannot be written without it.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use cadran_footprint::held::{Limits, Need, Reservations, segments};
use cadran_footprint::{
    Footprint, Interned, PendingRewrite, ResourceKey, Scheduler, SchedulerKind, Set, Stamps, TxId,
};

use crate::chance::Chance;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What the body allocates.
fn allocations(body: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    body();
    ALLOCATIONS.with(Cell::get) - before
}

/// Rounds before memory is expected to have settled.
const WARM: u32 = 20;

/// So many, of so many keys.
fn footprints(chance: &mut Chance, count: u32, known: u64) -> Vec<Footprint> {
    let footprint = |_| {
        (0..4).fold(Footprint::new(), |all, _| {
            all.with(chance.pick(&Set::ALL), ResourceKey::new(1, chance.below(known)))
        })
    };
    (0..count).map(footprint).collect()
}

#[test]
fn reserve_and_drain_allocate_nothing() {
    // Few, and so many that they are sifted together.
    for (count, known) in [(500, 3_000), (9_000, 1 << 40)] {
        let mut chance = Chance::new(1);
        let footprints = footprints(&mut chance, count, known);
        let mut scheduler = Scheduler::new(SchedulerKind::Radix);
        for round in 0..2 * WARM {
            // Making rewrites allocates; that is the caller's.
            let made: Vec<PendingRewrite> = footprints
                .iter()
                .map(|footprint| {
                    let mut scope_hash = [0; 32];
                    scope_hash[..8].copy_from_slice(&chance.next().to_be_bytes());
                    PendingRewrite { scope_hash, footprint: footprint.clone(), ..PendingRewrite::default() }
                })
                .collect();
            let tx = TxId(round.into());
            let count = allocations(|| {
                for rewrite in made {
                    scheduler.enqueue(tx, rewrite).unwrap();
                }
                let mut drained = scheduler.drain_for_tx(tx);
                if round % 2 == 0 {
                    scheduler.reserve_all(tx, &mut drained);
                }
                for place in 0..drained.len() {
                    let _ = scheduler.reserve_at(tx, &mut drained, place);
                }
                scheduler.finalize_tx(tx);
                scheduler.recycle(drained);
            });
            assert!(round < WARM || count == 0, "round {round}: {count}");
        }
    }
}

#[test]
fn reserving_interned_footprints_allocates_nothing() {
    let mut interned = Interned::default();
    for footprint in footprints(&mut Chance::new(2), 500, 3_000) {
        interned.add(&footprint).unwrap();
    }
    let mut stamps = Stamps::new(interned.keys_len());
    let count = allocations(|| {
        for _ in 0..100 {
            stamps.begin();
            for number in 0..interned.len() as u32 {
                std::hint::black_box(stamps.reserve(interned.get(number)));
            }
        }
    });
    assert_eq!(count, 0);
}

#[test]
fn holding_waiting_and_releasing_allocate_nothing() {
    // With one need each, eagerly; with several, in line. Who loses a try eagerly comes out of order and is placed by a
    // tree, which allocates now and then.
    for (needs, ordered) in [(1, false), (1, true), (3, true)] {
        let mut chance = Chance::new(3);
        let mut held = Reservations::new(Limits::default());
        let names: Vec<String> = (0..60).map(|at| format!("s3://bucket-{at}")).collect();
        let keys: Vec<_> = names.iter().map(|name| held.key(segments(name)).unwrap()).collect();
        keys.iter().for_each(|&key| held.set_ordered(key, ordered).unwrap());
        let requests: Vec<_> = (0..300)
            .map(|_| {
                let mut need = || match chance.below(3) {
                    0 => Need::Write(chance.pick(&keys)),
                    _ => Need::Read(chance.pick(&keys)),
                };
                let needs: Vec<Need> = (0..needs).map(|_| need()).collect();
                held.request(&needs).unwrap()
            })
            .collect();
        let mut granted = Vec::with_capacity(requests.len());
        for round in 0..2 * WARM {
            let count = allocations(|| {
                let mut waiting = 0;
                for (request, owner) in requests.iter().zip(0u64..) {
                    if held.acquire(owner, request).is_err() {
                        held.wait(owner, 0, request).unwrap();
                        waiting += 1;
                    } else {
                        granted.push(owner);
                    }
                }
                assert!(waiting > 50);
                let mut next = 0;
                while let Some(&owner) = granted.get(next) {
                    held.release(owner, &mut granted);
                    next += 1;
                }
                granted.clear();
            });
            assert!(held.is_empty());
            assert!(round < WARM || count == 0, "{needs} {ordered} round {round}: {count}");
        }
    }
}
