//! Draining against an ordered map, over fair and hostile hashes.

use std::collections::BTreeMap;

use cadran_footprint::batch::{DrainKey, Pending, RuleId, ScopeHash};

use crate::chance::Chance;
use crate::sequences;

struct Item {
    hash: ScopeHash,
    rule: RuleId,
    nonce: usize,
}

impl DrainKey for Item {
    fn scope_hash(&self) -> &ScopeHash {
        &self.hash
    }

    fn rule(&self) -> RuleId {
        self.rule
    }
}

/// Ways to make hashes: what an attacker may choose, and what nobody chooses.
fn hash(chance: &mut Chance, way: u64, nonce: usize) -> ScopeHash {
    let mut hash = [0; 32];
    match way {
        // Fair.
        0 => hash.chunks_mut(8).for_each(|word| word.copy_from_slice(&chance.next().to_be_bytes())),
        // Only the last bytes differ.
        1 => hash[30..].copy_from_slice(&(chance.below(3_000) as u16).to_be_bytes()),
        // Nearly all the same.
        2 => hash[0] = (chance.below(100) / 97) as u8,
        // Sorted, and sorted backwards.
        3 => hash[..8].copy_from_slice(&(nonce as u64).to_be_bytes()),
        4 => hash[..8].copy_from_slice(&(u64::MAX - nonce as u64).to_be_bytes()),
        // One bit somewhere.
        5 => hash[chance.below(32) as usize] = 1 << chance.below(8),
        // Few values in every word.
        _ => hash.iter_mut().for_each(|byte| *byte = chance.below(40) as u8 / 39),
    }
    hash
}

#[test]
fn drains_as_an_ordered_map_with_last_wins() {
    let mut pending = Pending::new();
    for seed in 0..sequences(3_000) {
        let mut chance = Chance::new(seed);
        let way = chance.below(7);
        let size = chance.pick(&[0, 1, 2, 3, 20, 100, 700]);
        let mut map = BTreeMap::new();
        for nonce in 0..size {
            let (hash, rule) = (hash(&mut chance, way, nonce), RuleId(chance.below(2) as u32));
            map.insert((hash, rule), nonce);
            pending.enqueue(Item { hash, rule, nonce }).unwrap();
        }
        let drained = pending.drain();
        let nonces: Vec<usize> = drained.iter().map(|item| item.nonce).collect();
        assert_eq!(nonces, map.into_values().collect::<Vec<_>>(), "seed {seed}, way {way}");
        assert!(pending.is_empty());
    }
}

#[test]
fn large_and_hostile_drains_are_right_as_well() {
    let mut pending = Pending::new();
    for way in 0..7 {
        let mut chance = Chance::new(way);
        let mut map = BTreeMap::new();
        for nonce in 0..50_000 {
            let (hash, rule) = (hash(&mut chance, way, nonce), RuleId(chance.below(2) as u32));
            map.insert((hash, rule), nonce);
            pending.enqueue(Item { hash, rule, nonce }).unwrap();
        }
        let drained = pending.drain();
        assert!(drained.iter().map(|item| item.nonce).eq(map.into_values()), "way {way}");
    }
}
