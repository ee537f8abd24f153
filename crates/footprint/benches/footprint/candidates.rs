//! Candidates to measure with: so many, of so many keys, of which so many per cent are refused.

use cadran_footprint::Mode;
use cadran_footprint::batch::{Class, Footprint, Interned, ResourceKey, Set};

use crate::measure::Chance;

pub(crate) struct Candidates {
    /// In the order in which they are asked.
    pub(crate) footprints: Vec<Footprint>,
    /// The same in the same order. The numbers of keys have nothing to do with that order, as keys are interned in
    /// another order than work is drained.
    pub(crate) interned: Interned,
}

impl Candidates {
    /// Every key is new, except that of every hundred candidates `conflicts` also want something that one before them
    /// writes. Keys are of all classes, read or written.
    pub(crate) fn new(count: usize, keys: usize, conflicts: usize) -> Candidates {
        let mut chance = Chance(count as u64 ^ (keys * 100 + conflicts) as u64);
        let mut written: Vec<(Set, ResourceKey)> = Vec::new();
        let mut local = 0u64;
        let footprints: Vec<Footprint> = (0..count)
            .map(|_| {
                let conflicts = chance.below(100) < conflicts && !written.is_empty();
                let taken = if conflicts { Some(written[chance.below(written.len())]) } else { None };
                let fresh = keys - usize::from(conflicts);
                let mut footprint = Footprint::new();
                let mut writes = None;
                for _ in 0..fresh {
                    local += 1;
                    let set = Set::ALL[chance.below(8)];
                    // Ids look like hashes, and differ.
                    let key = ResourceKey::new(local % 16, local.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                    footprint.insert(set, key);
                    if set.mode() != Mode::Read {
                        writes = Some((set, key));
                    }
                }
                match (taken, writes) {
                    (Some((set, key)), _) => drop(footprint.insert(set, key)),
                    (None, Some(new)) => written.push(new),
                    (None, None) => {}
                }
                footprint
            })
            .collect();
        let mut keys: Vec<(Class, ResourceKey)> = Vec::new();
        for footprint in &footprints {
            keys.extend(footprint.uses().iter().map(|&(set, key)| (set.class(), key)));
        }
        let mut interned = Interned::default();
        for at in chance.shuffled(keys.len() as u32) {
            let (class, key) = keys[at as usize];
            interned.key(class, key).unwrap();
        }
        footprints.iter().for_each(|footprint| assert!(interned.add(footprint).is_ok()));
        Candidates { footprints, interned }
    }
}
