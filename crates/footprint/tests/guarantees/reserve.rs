//! Reserving, by the guarantees of the specification, for both kinds of scheduler.

use cadran_footprint::batch::{
    Footprint, Interned, KeyUse, PendingRewrite, Phase, ResourceKey, RuleId, Scheduler, SchedulerKind, Set,
    Stamps, TxId,
};

use crate::chance::Chance;
use crate::sequences;

const KINDS: [SchedulerKind; 2] = [SchedulerKind::Radix, SchedulerKind::Pairwise];
const TX: TxId = TxId(1);

fn key(local: u64) -> ResourceKey {
    ResourceKey::new(1, local)
}

fn footprint(uses: &[(Set, u64)]) -> Footprint {
    uses.iter().fold(Footprint::new(), |all, &(set, local)| all.with(set, key(local)))
}

fn reserve(scheduler: &mut Scheduler, footprint: &Footprint) -> bool {
    let mut rewrite = PendingRewrite { footprint: footprint.clone(), ..PendingRewrite::default() };
    let admitted = scheduler.reserve(TX, &mut rewrite).is_ok();
    assert_eq!(rewrite.phase, if admitted { Phase::Reserved } else { Phase::Aborted });
    admitted
}

/// A footprint of few keys in few numbers, so that it often conflicts.
fn random(chance: &mut Chance) -> Footprint {
    let keys = 2 + chance.below(30);
    (0..chance.below(5)).fold(Footprint::new(), |all, _| {
        let key = ResourceKey::new(chance.below(2), chance.below(keys));
        all.with(chance.pick(&Set::ALL), key)
    })
}

#[test]
fn reserve_is_atomic_no_partial_marking_on_conflict() {
    for kind in KINDS {
        let mut scheduler = Scheduler::new(kind);
        assert!(reserve(&mut scheduler, &footprint(&[(Set::NodeWrites, 5)])));
        // Refused for the last of its keys; the others must not stay marked, in any set.
        let uses: Vec<(Set, u64)> =
            Set::ALL.into_iter().map(|set| (set, 1)).chain([(Set::NodeReads, 5)]).collect();
        assert!(!reserve(&mut scheduler, &footprint(&uses)));
        let all = [Set::NodeWrites, Set::EdgeWrites, Set::AttachmentWrites, Set::PortsIn].map(|set| (set, 1));
        assert!(reserve(&mut scheduler, &footprint(&all)), "{kind:?}");
    }
}

#[test]
fn reserve_determinism_same_sequence_same_results() {
    for kind in KINDS {
        let results = |_| {
            let (mut chance, mut scheduler) = (Chance::new(7), Scheduler::new(kind));
            (0..200).map(|_| reserve(&mut scheduler, &random(&mut chance))).collect::<Vec<bool>>()
        };
        let first = results(0);
        assert!((1..5).map(results).all(|again| again == first));
        assert!(first.contains(&true) && first.contains(&false));
    }
}

#[test]
fn independent_rewrites_are_admitted_together() {
    for kind in KINDS {
        let mut scheduler = Scheduler::new(kind);
        for local in 0..100 {
            let uses: Vec<(Set, u64)> = Set::ALL.into_iter().zip(local * 8..).collect();
            assert!(reserve(&mut scheduler, &footprint(&uses)), "{kind:?}");
        }
        // Readers of what is only read.
        for _ in 0..3 {
            assert!(reserve(&mut scheduler, &footprint(&[(Set::NodeReads, 5), (Set::EdgeReads, 6)])));
        }
    }
}

#[test]
fn each_class_of_conflict_is_found() {
    use Set::*;
    let pairs = [
        (NodeReads, NodeWrites),
        (NodeWrites, NodeReads),
        (NodeWrites, NodeWrites),
        (EdgeReads, EdgeWrites),
        (EdgeWrites, EdgeReads),
        (EdgeWrites, EdgeWrites),
        (AttachmentReads, AttachmentWrites),
        (AttachmentWrites, AttachmentReads),
        (AttachmentWrites, AttachmentWrites),
        (PortsIn, PortsIn),
        (PortsIn, PortsOut),
        (PortsOut, PortsIn),
        (PortsOut, PortsOut),
    ];
    for kind in KINDS {
        for first in Set::ALL {
            for second in Set::ALL {
                let mut scheduler = Scheduler::new(kind);
                assert!(reserve(&mut scheduler, &footprint(&[(first, 3)])));
                let admitted = reserve(&mut scheduler, &footprint(&[(second, 3)]));
                assert_eq!(admitted, !pairs.contains(&(first, second)), "{kind:?} {first:?} {second:?}");
                scheduler.finalize_tx(TX);
                assert!(reserve(&mut scheduler, &footprint(&[(second, 3)])), "a new transaction is free");
            }
        }
    }
}

#[test]
fn transactions_do_not_see_one_another() {
    for kind in KINDS {
        let mut scheduler = Scheduler::new(kind);
        let mut rewrite =
            PendingRewrite { footprint: footprint(&[(Set::NodeWrites, 1)]), ..PendingRewrite::default() };
        assert!(scheduler.reserve(TxId(1), &mut rewrite).is_ok());
        assert!(scheduler.reserve(TxId(2), &mut rewrite).is_ok());
        assert!(scheduler.reserve(TxId(1), &mut rewrite).is_err());
    }
}

#[test]
fn last_in_wins_for_a_repeated_scope_and_rule() {
    let rewrite = |hash: u8, rule: u32, local: u64| PendingRewrite {
        scope_hash: [hash; 32],
        compact_rule: RuleId(rule),
        scope: key(local),
        ..PendingRewrite::default()
    };
    let mut scheduler = Scheduler::default();
    for (hash, rule, local) in [(2, 1, 10), (1, 2, 11), (1, 1, 12), (2, 1, 13), (1, 2, 14), (2, 0, 15)] {
        scheduler.enqueue(TX, rewrite(hash, rule, local)).unwrap();
    }
    let drained = scheduler.drain_for_tx(TX);
    assert_eq!(drained.iter().map(|at| at.scope.local).collect::<Vec<_>>(), [12, 14, 15, 13]);
    assert!(scheduler.drain_for_tx(TX).is_empty());
}

/// Against the pairwise kind and against the rule itself, without masks.
#[test]
fn radix_and_pairwise_and_interned_agree() {
    for seed in 0..sequences(20_000) {
        let mut chance = Chance::new(seed);
        let mut schedulers = KINDS.map(Scheduler::new);
        let (mut interned, mut stamps) = (Interned::default(), Stamps::default());
        for _ in 0..2 {
            let (mut admitted, mut answers): (Vec<Footprint>, Vec<bool>) = (Vec::new(), Vec::new());
            let mut these = Interned::default();
            for _ in 0..12 {
                let candidate = random(&mut chance);
                let free = admitted.iter().all(|before| !excluded(before, &candidate));
                let told = schedulers.each_mut().map(|scheduler| reserve(scheduler, &candidate));
                let number = interned.add(&candidate).unwrap();
                stamps.make_room(interned.keys_len());
                let stamped = stamps.reserve(interned.get(number));
                assert_eq!((told, stamped), ([free; 2], free), "seed {seed}");
                these.add(&candidate).unwrap();
                answers.push(free);
                if free {
                    admitted.push(candidate);
                }
            }
            schedulers.iter_mut().for_each(|scheduler| scheduler.finalize_tx(TX));
            stamps.begin();
            // And in one pass, with old stamps lying about.
            let mut all = Vec::new();
            these.reserve_all(&mut stamps, &mut all);
            assert_eq!(all, answers, "seed {seed}");
            stamps.begin();
        }
    }
}

/// As above, with footprints of many keys and more of them than are looked at together.
#[test]
fn long_footprints_and_long_lists_agree_as_well() {
    for seed in 0..sequences(20_000) / 100 {
        let mut chance = Chance::new(seed);
        let known = chance.pick(&[100, 1_000, 10_000]);
        let rewrite = |at: u64| {
            let keys = chance.pick(&[0, 1, 3, 4, 5, 15, 16, 17, 40]);
            let footprint = (0..keys).fold(Footprint::new(), |all, _| {
                all.with(chance.pick(&Set::ALL), ResourceKey::new(chance.below(2), chance.below(known)))
            });
            let mut scope_hash = [0; 32];
            scope_hash[..8].copy_from_slice(&at.to_be_bytes());
            PendingRewrite { scope_hash, footprint, ..PendingRewrite::default() }
        };
        let rewrites: Vec<PendingRewrite> = (0..150).map(rewrite).collect();
        let [radix, pairwise] = KINDS.map(|kind| {
            let mut scheduler = Scheduler::new(kind);
            rewrites.iter().for_each(|rewrite| scheduler.enqueue(TX, rewrite.clone()).unwrap());
            let mut drained = scheduler.drain_for_tx(TX);
            scheduler.reserve_all(TX, &mut drained);
            drained.iter().map(|rewrite| rewrite.phase == Phase::Reserved).collect::<Vec<bool>>()
        });
        assert_eq!(radix, pairwise, "seed {seed}");
        let mut interned = Interned::default();
        rewrites.iter().for_each(|rewrite| assert!(interned.add(&rewrite.footprint).is_ok()));
        let (mut stamps, mut admitted) = (Stamps::default(), Vec::new());
        interned.reserve_all(&mut stamps, &mut admitted);
        assert_eq!(admitted, pairwise, "seed {seed}");
        // Why one was refused is told by the single question.
        let mut scheduler = Scheduler::new(SchedulerKind::Radix);
        for (rewrite, free) in rewrites.iter().zip(pairwise) {
            let answer = scheduler.reserve(TX, &mut rewrite.clone());
            assert_eq!(answer.is_ok(), free, "seed {seed}");
            if let Err(conflict) = answer {
                assert!(rewrite.footprint.uses().contains(&(conflict.set, conflict.key)), "seed {seed}");
            }
        }
    }
}

/// The rule of the specification, key by key.
fn excluded(one: &Footprint, other: &Footprint) -> bool {
    let excludes =
        |&(a, key): &(Set, ResourceKey)| other.uses().iter().any(|&(b, rival)| key == rival && a.excludes(b));
    one.uses().iter().any(excludes)
}

#[test]
fn all_at_once_is_one_after_another() {
    for seed in 0..sequences(2_000) {
        let mut chance = Chance::new(seed);
        let rewrites: Vec<PendingRewrite> = (0..chance.below(100))
            .map(|_| {
                let (scope_hash, footprint) = ([chance.next() as u8; 32], random(&mut chance));
                PendingRewrite { scope_hash, footprint, ..PendingRewrite::default() }
            })
            .collect();
        let phases = |kind: SchedulerKind, at_once: bool| {
            let mut scheduler = Scheduler::new(kind);
            rewrites.iter().for_each(|rewrite| scheduler.enqueue(TX, rewrite.clone()).unwrap());
            let mut drained = scheduler.drain_for_tx(TX);
            if at_once {
                let admitted = scheduler.reserve_all(TX, &mut drained);
                assert_eq!(drained.iter().filter(|at| at.phase == Phase::Reserved).count(), admitted);
            } else {
                for rewrite in &mut drained {
                    let _ = scheduler.reserve(TX, rewrite);
                }
            }
            drained.iter().map(|rewrite| rewrite.phase).collect::<Vec<Phase>>()
        };
        let expected = phases(SchedulerKind::Pairwise, false);
        for kind in KINDS {
            assert_eq!(phases(kind, true), expected, "{kind:?} seed {seed}");
        }
        assert_eq!(phases(SchedulerKind::Radix, false), expected, "seed {seed}");
    }
}

#[test]
fn duplicate_and_overlapping_keys_in_one_footprint_are_harmless() {
    let check = |uses: &[(Set, u64)]| {
        for kind in KINDS {
            let mut scheduler = Scheduler::new(kind);
            assert!(reserve(&mut scheduler, &footprint(uses)), "{uses:?}");
            assert!(!reserve(&mut scheduler, &footprint(uses)), "{uses:?}");
        }
    };
    check(&[(Set::NodeReads, 1), (Set::NodeWrites, 1)]);
    check(&[(Set::PortsIn, 1), (Set::PortsOut, 1), (Set::PortsIn, 1)]);
    let (mut interned, mut stamps) = (Interned::default(), Stamps::new(4));
    let uses = [KeyUse::write(1), KeyUse::read(1), KeyUse::read(2), KeyUse::read(1)];
    let number = interned.add_uses(&uses).unwrap();
    assert_eq!(interned.get(number), [KeyUse::read(2), KeyUse::write(1)]);
    // And without being put in order first.
    assert!(stamps.reserve(&uses) && !stamps.reserve(&[KeyUse::read(1)]));
    assert!(stamps.reserve(&[KeyUse::read(2)]));
}
