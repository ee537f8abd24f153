//! Generation-stamped sets of resource keys that are hashed when they are used.

use std::collections::BTreeMap;

use crate::footprint::{Class, Conflict, Footprint, ResourceKey, Set, USES, hash};
use crate::stamps::Generation;

/// Places looked at for one key. Fair hashes need one or two; beyond this they were chosen to collide.
const PROBE_MAX: usize = 16;

/// Keys of a footprint that are looked for ahead. The others overlap among themselves, and are often not needed.
const AHEAD: usize = 4;

/// The smallest table.
const SLOTS_MIN: usize = 64;

/// Who used which resource this time.
///
/// One open table for all classes, of eight bytes a place: a stamp, some bits of the hash, and where the key itself
/// stands in a list that is only read when those bits agree. What was stamped another time is vacant, so a new generation
/// begins with an empty table. A key stands within [`PROBE_MAX`] places of where its hash points, or, when those are taken
/// by a crowd, in an ordered map: chosen keys cost a logarithm.
pub(crate) struct Marks {
    slots: Vec<Slot>,
    /// 64 less the bits of the table's size.
    shift: u32,
    /// The keys that were used this time.
    keys: Vec<(ResourceKey, Class)>,
    /// Keys without a place in the table, and their stamps.
    crowd: BTreeMap<(Class, ResourceKey), u8>,
    generation: Generation,
    /// The masks of all that were admitted this time.
    factor_mask: u64,
    /// The keys of the footprint at hand.
    found: Vec<Look>,
    /// Keys of footprints to come, and how many of them were used.
    ahead: Vec<Look>,
    next: usize,
    #[cfg(test)]
    looks: std::cell::Cell<u64>,
}

/// A key that is looked for: its hash, its set, and where it was found or the vacant slot where it belongs.
#[derive(Clone, Copy)]
struct Look {
    hash: u64,
    at: u32,
    set: u32,
}

/// The stamp, 24 bits of the hash, and the number of the key.
#[derive(Clone, Copy)]
struct Slot(u64);

impl Slot {
    const VACANT: Slot = Slot(0);

    fn new(stamp: u8, hash: u64, key: usize) -> Slot {
        Slot(u64::from(stamp) << 56 | (hash & 0xff_ffff) << 32 | key as u64 & 0xffff_ffff)
    }

    #[inline]
    fn stamp(self) -> u8 {
        (self.0 >> 56) as u8
    }

    /// Whether these may be bits of this hash.
    #[inline]
    fn may_be(self, hash: u64) -> bool {
        ((self.0 >> 32) ^ hash) & 0xff_ffff == 0
    }

    #[inline]
    fn key(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }
}

/// In `found`: the key stands in the crowd, or will.
const CROWD: u32 = u32::MAX;

impl Default for Marks {
    fn default() -> Marks {
        Marks {
            slots: vec![Slot::VACANT; SLOTS_MIN],
            shift: 64 - SLOTS_MIN.ilog2(),
            keys: Vec::new(),
            crowd: BTreeMap::new(),
            generation: Generation::FIRST,
            factor_mask: 0,
            found: Vec::new(),
            ahead: Vec::new(),
            next: 0,
            #[cfg(test)]
            looks: Default::default(),
        }
    }
}

impl Marks {
    /// Forgets all reservations.
    pub(crate) fn begin(&mut self) {
        self.factor_mask = 0;
        self.keys.clear();
        self.crowd.clear();
        self.generation = self.generation.next().unwrap_or_else(|| {
            self.slots.fill(Slot::VACANT);
            Generation::FIRST
        });
    }

    /// Admits a footprint if nothing that was admitted conflicts with it. Checks everything, then marks everything.
    pub(crate) fn reserve(&mut self, footprint: &Footprint) -> Result<(), Conflict> {
        self.look_ahead([footprint].into_iter());
        self.reserve_next(footprint)
    }

    /// Prepares for footprints that will be asked for next, in this order and all of them, so that what must be fetched
    /// from memory for them is fetched at the same time.
    pub(crate) fn look_ahead<'a>(&mut self, footprints: impl Iterator<Item = &'a Footprint> + Clone) {
        let (mut seen, mut keys) = (0, 0);
        for footprint in footprints.clone() {
            keys += footprint.len();
            seen ^= footprint.keys().first().map_or(0, |key| key.local);
        }
        if (self.keys.len() + keys) * 8 > self.slots.len() * 5 {
            self.grow(keys);
        }
        self.ahead.clear();
        self.next = 0;
        for footprint in footprints {
            for (at, &key) in footprint.keys().iter().take(AHEAD).enumerate() {
                let set = footprint.set_at(at);
                let hash = hash(USES[set].0, key);
                seen ^= self.slots[(hash >> self.shift) as usize].0;
                self.ahead.push(Look { hash, at: 0, set: set as u32 });
            }
        }
        // What was seen is of no use; that it was fetched is.
        std::hint::black_box(seen);
    }

    /// Decides about the next of the footprints that were prepared for.
    pub(crate) fn reserve_next(&mut self, footprint: &Footprint) -> Result<(), Conflict> {
        let ahead = self.next;
        self.next += footprint.len().min(AHEAD);
        self.found.clear();
        // Without a common bit no key is there: only the places are looked for.
        let may_conflict = footprint.factor_mask() & self.factor_mask != 0;
        for (at, &key) in footprint.keys().iter().enumerate() {
            let mut look = if at < AHEAD {
                self.ahead[ahead + at]
            } else {
                let set = footprint.set_at(at);
                Look { hash: hash(USES[set].0, key), at: 0, set: set as u32 }
            };
            let (class, writes) = USES[look.set as usize & 7];
            let (place, stamp) = self.find(look.hash, class, key);
            if may_conflict && self.generation.stops(stamp, writes) {
                return Err(Conflict { set: Set::ALL[look.set as usize & 7], key });
            }
            look.at = place;
            self.found.push(look);
        }
        self.factor_mask |= footprint.factor_mask();
        for (at, &key) in footprint.keys().iter().enumerate() {
            let Look { hash, at, set } = self.found[at];
            let (class, writes) = USES[set as usize & 7];
            self.mark(at, hash, class, key, self.generation.stamp(writes));
        }
        Ok(())
    }

    /// Marks a key at the place where it was looked for.
    #[inline]
    fn mark(&mut self, mut at: u32, hash: u64, class: Class, key: ResourceKey, stamp: u8) {
        if at != CROWD && self.generation.is_now(self.slots[at as usize].stamp()) {
            // It was used before, or a key of the same footprint took the place meanwhile.
            at = self.find(hash, class, key).0;
        }
        if at == CROWD {
            let known = self.crowd.entry((class, key)).or_default();
            *known = stamp.max(*known);
            return;
        }
        let slot = &mut self.slots[at as usize];
        if self.generation.is_now(slot.stamp()) {
            *slot = Slot::new(stamp.max(slot.stamp()), hash, slot.key());
        } else {
            *slot = Slot::new(stamp, hash, self.keys.len());
            self.keys.push((key, class));
        }
    }

    /// Where a key stands or belongs, and its stamp.
    #[inline]
    fn find(&self, hash: u64, class: Class, key: ResourceKey) -> (u32, u8) {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        let (home, mask) = ((hash >> self.shift) as usize, self.slots.len() - 1);
        for step in 0..PROBE_MAX {
            let at = (home + step) & mask;
            let slot = self.slots[at];
            if !self.generation.is_now(slot.stamp()) {
                return (at as u32, 0);
            }
            if slot.may_be(hash) && self.keys[slot.key()] == (key, class) {
                return (at as u32, slot.stamp());
            }
        }
        (CROWD, self.crowd.get(&(class, key)).copied().unwrap_or(0))
    }

    /// Makes the table larger.
    #[cold]
    fn grow(&mut self, more: usize) {
        let wanted = ((self.keys.len() + more) * 8 / 5 + 1).next_power_of_two().max(self.slots.len() * 2);
        let old = std::mem::replace(&mut self.slots, vec![Slot::VACANT; wanted]);
        self.shift = 64 - wanted.ilog2();
        let keys = std::mem::take(&mut self.keys);
        let now = old.into_iter().filter(|slot| self.generation.is_now(slot.stamp()));
        // A larger table has room for some of the crowd, and a vacant place must mean that a key is nowhere.
        let crowd = std::mem::take(&mut self.crowd).into_iter();
        let marked: Vec<((ResourceKey, Class), u8)> = now
            .map(|slot| (keys[slot.key()], slot.stamp()))
            .chain(crowd.map(|((class, key), stamp)| ((key, class), stamp)))
            .collect();
        for ((key, class), stamp) in marked {
            let hash = hash(class, key);
            let at = self.find(hash, class, key).0;
            self.mark(at, hash, class, key, stamp);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            marks.grow(20_000);
            for at in 0..admitted {
                marks.reserve(&footprint(at * 8..at * 8 + 8)).unwrap();
            }
            for size in [1, 10, 100] {
                let before = marks.looks.get();
                marks.reserve(&footprint(size << 40..(size << 40) + size)).unwrap();
                let again = marks.looks.get() - before - size;
                // A key that lost its place to another of the same footprint is looked for again.
                assert!(again <= size / 4 + 1, "{admitted} {size}: {again}");
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
            assert!(marks.reserve(&footprint(tick * 16..tick * 16 + 16)).is_err());
            marks.begin();
        }
        assert_eq!(marks.slots.len(), SLOTS_MIN);
    }
}
