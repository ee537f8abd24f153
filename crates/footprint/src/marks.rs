//! Generation-stamped sets of resource keys that are hashed when they are used.

use std::collections::BTreeMap;

use crate::Mode;
use crate::footprint::{Class, Conflict, Footprint, ResourceKey, hash};
use crate::stamps::Generation;

/// Places looked at for one key. Fair hashes need one or two; beyond this they were chosen to collide.
const PROBE_MAX: usize = 16;

/// The smallest table.
const SLOTS_MIN: usize = 64;

/// A key with its class and when it was used. Keys of all classes share one table.
#[derive(Clone, Copy)]
struct Slot {
    key: ResourceKey,
    /// 0 when the slot is vacant.
    stamp: u32,
    class: u32,
}

const VACANT: Slot = Slot { key: ResourceKey::new(0, 0), stamp: 0, class: 0 };

/// Who used which resource this time.
///
/// One open table, at most half full. A key stands within [`PROBE_MAX`] places of where its hash points, or, when those
/// are taken by a crowd, in an ordered map: chosen keys cost a logarithm. What was not used this time makes room before
/// the table grows.
pub(crate) struct Marks {
    slots: Vec<Slot>,
    /// 64 less the bits of the table's size.
    shift: u32,
    taken: usize,
    crowd: BTreeMap<(Class, ResourceKey), u32>,
    generation: Generation,
    /// The masks of all that were admitted this time.
    factor_mask: u64,
    /// Where the keys of the footprint at hand were found, or the vacant slot where they belong.
    found: Vec<u32>,
    /// What is kept while room is made.
    kept: Vec<Slot>,
    #[cfg(test)]
    looks: std::cell::Cell<u64>,
}

/// In `found`: the key stands in the crowd, or will.
const CROWD: u32 = u32::MAX;

impl Default for Marks {
    fn default() -> Marks {
        Marks {
            slots: vec![VACANT; SLOTS_MIN],
            shift: 64 - SLOTS_MIN.ilog2(),
            taken: 0,
            crowd: BTreeMap::new(),
            generation: Generation::FIRST,
            factor_mask: 0,
            found: Vec::new(),
            kept: Vec::new(),
            #[cfg(test)]
            looks: Default::default(),
        }
    }
}

impl Marks {
    /// Forgets all reservations.
    pub(crate) fn begin(&mut self) {
        self.factor_mask = 0;
        self.generation = self.generation.next().unwrap_or_else(|| {
            self.slots.fill(VACANT);
            self.taken = 0;
            Generation::FIRST
        });
        // A crowd was chosen by somebody; it is not kept for longer than it is used.
        self.crowd.clear();
    }

    /// Admits a footprint if nothing that was admitted conflicts with it. Checks everything, then marks everything.
    pub(crate) fn reserve(&mut self, footprint: &Footprint) -> Result<(), Conflict> {
        if (self.taken + footprint.len()) * 2 > self.slots.len() {
            self.make_room(footprint.len());
        }
        self.found.clear();
        // Without a common bit no key is there: only the places are looked for.
        let may_conflict = footprint.factor_mask() & self.factor_mask != 0;
        for (set, keys) in footprint.sets() {
            let writes = u32::from(set.mode() != Mode::Read);
            for &key in keys {
                let (at, stamp) = self.find(set.class(), key);
                if may_conflict && self.generation.stops(stamp, writes) {
                    return Err(Conflict { set, key });
                }
                self.found.push(at);
            }
        }
        self.mark(footprint);
        Ok(())
    }

    fn mark(&mut self, footprint: &Footprint) {
        self.factor_mask |= footprint.factor_mask();
        let mut found = 0;
        for (set, keys) in footprint.sets() {
            let stamp = self.generation.stamp(u32::from(set.mode() != Mode::Read));
            let class = set.class();
            for &key in keys {
                let mut at = self.found[found];
                found += 1;
                if at != CROWD {
                    let slot = &self.slots[at as usize];
                    if slot.stamp != 0 && (slot.key != key || slot.class != class as u32) {
                        // A key of the same footprint took the place meanwhile.
                        at = self.find(class, key).0;
                    }
                }
                if at == CROWD {
                    let known = self.crowd.entry((class, key)).or_default();
                    *known = stamp.max(*known);
                    continue;
                }
                let slot = &mut self.slots[at as usize];
                self.taken += usize::from(slot.stamp == 0);
                *slot = Slot { key, stamp: slot.stamp.max(stamp), class: class as u32 };
            }
        }
    }

    /// Where a key stands or belongs, and its stamp.
    #[inline]
    fn find(&self, class: Class, key: ResourceKey) -> (u32, u32) {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        let home = (hash(class, key) >> self.shift) as usize;
        let mask = self.slots.len() - 1;
        for step in 0..PROBE_MAX {
            let at = (home + step) & mask;
            let slot = &self.slots[at];
            if slot.key == key && slot.class == class as u32 && slot.stamp != 0 {
                return (at as u32, slot.stamp);
            }
            if slot.stamp == 0 {
                return (at as u32, 0);
            }
        }
        (CROWD, self.crowd.get(&(class, key)).copied().unwrap_or(0))
    }

    /// Drops what was not used this time, and grows when that is not enough.
    #[cold]
    fn make_room(&mut self, more: usize) {
        self.kept.clear();
        self.kept.extend(self.slots.iter().filter(|slot| self.generation.is_now(slot.stamp)));
        // Half of what is free stays free, so that the next sweep is far.
        let wanted = ((self.kept.len() + more) * 4).next_power_of_two().max(self.slots.len());
        self.slots.clear();
        self.slots.resize(wanted, VACANT);
        self.shift = 64 - wanted.ilog2();
        self.taken = 0;
        // A larger table has room for some of the crowd, and a vacant place must mean that a key is nowhere.
        let crowd = std::mem::take(&mut self.crowd).into_iter();
        self.kept.extend(crowd.map(|((class, key), stamp)| Slot { key, stamp, class: class as u32 }));
        for at in 0..self.kept.len() {
            let slot = self.kept[at];
            let class = [Class::Node, Class::Edge, Class::Attachment, Class::Port][slot.class as usize & 3];
            match self.find(class, slot.key).0 {
                CROWD => drop(self.crowd.insert((class, slot.key), slot.stamp)),
                at => {
                    self.slots[at as usize] = slot;
                    self.taken += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Set;

    fn footprint(keys: std::ops::Range<u64>) -> Footprint {
        keys.fold(Footprint::new(), |all, local| {
            all.with(Set::ALL[local as usize % 8], ResourceKey::new(1, local))
        })
    }

    #[test]
    fn reserve_scaling_is_linear_in_footprint_size() {
        // Counted, not timed: each key is looked for once, however many were admitted before.
        for admitted in [0, 10, 1_000] {
            let mut marks = Marks::default();
            for at in 0..admitted {
                marks.reserve(&footprint(at * 8..at * 8 + 8)).unwrap();
            }
            for size in [1, 10, 100] {
                marks.make_room(size as usize);
                let before = marks.looks.get();
                marks.reserve(&footprint(1 << 40..(1 << 40) + size)).unwrap();
                let again = marks.looks.get() - before - size;
                // A key that lost its place to another of the same footprint is looked for again.
                assert!(again <= size / 4 + 1, "{admitted} {size}: {again}");
                marks.begin();
            }
        }
    }

    #[test]
    fn chosen_keys_are_looked_for_in_bounded_places() {
        // Keys whose hashes agree in the bits that choose the place, found by trying.
        let mut marks = Marks::default();
        let colliding = (0..).map(|local| ResourceKey::new(9, local));
        let colliding = colliding.filter(|&key| hash(Class::Node, key) >> 56 == 0);
        let keys: Vec<ResourceKey> = colliding.take(200).collect();
        for &key in &keys {
            marks.reserve(&Footprint::new().with(Set::NodeWrites, key)).unwrap();
            assert!(marks.reserve(&Footprint::new().with(Set::NodeReads, key)).is_err());
        }
        for &key in &keys {
            assert!(marks.reserve(&Footprint::new().with(Set::NodeReads, key)).is_err());
            assert!(marks.reserve(&Footprint::new().with(Set::EdgeReads, key)).is_ok());
        }
        marks.begin();
        assert!(keys.iter().all(|&key| marks.reserve(&Footprint::new().with(Set::NodeReads, key)).is_ok()));
    }

    #[test]
    fn what_is_not_used_any_more_makes_room() {
        let mut marks = Marks::default();
        for tick in 0..1_000 {
            marks.reserve(&footprint(tick * 16..tick * 16 + 16)).unwrap();
            marks.begin();
        }
        assert_eq!(marks.slots.len(), SLOTS_MIN);
    }
}
