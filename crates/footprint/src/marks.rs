//! Generation-stamped sets of resource keys that are hashed when they are used.

use std::collections::BTreeMap;

use crate::batch::Block;
use crate::footprint::{ClassUse, Footprint, MixedKey};
use crate::known::Known;
use crate::stamps::Generation;
use crate::wanted::Want;

/// Places looked at for one key. Fair hashes need one or two; beyond this they were chosen to collide.
pub(crate) const PROBE_MAX: usize = 16;

/// The smallest table.
const SLOTS_MIN: usize = 256;

/// A table up to here fits the second cache beside everything else.
const SMALL: usize = 1 << 14;

/// Who used which resource this time.
///
/// One open table for all classes, of eight bytes a place: a stamp, the class, some bits of the hash, and the number of the
/// key, which is only looked at when those agree. What was stamped another time is vacant, so a new generation begins with an empty table. A key
/// stands within [`PROBE_MAX`] places of where its hash points, or, when those are taken by a crowd, in an ordered map:
/// chosen keys cost a logarithm.
pub(crate) struct Marks {
    /// A power of two, and [`PROBE_MAX`] more, so that no look goes around the end.
    pub(crate) slots: Vec<Slot>,
    /// 64 less the bits of the table's size.
    pub(crate) shift: u32,
    /// The keys that were used this time.
    pub(crate) known: Known,
    /// How many of them stand in the table at most, and how many it has room for.
    pub(crate) len: usize,
    len_max: usize,
    /// Keys without a place in the table, and their stamps.
    crowd: BTreeMap<(u8, MixedKey), u8>,
    /// There were no more numbers, so keys stand in the crowd whose places are vacant.
    pub(crate) is_overfull: bool,
    pub(crate) generation: Generation,
    /// What the footprint at hand wants.
    wants: Vec<Want>,
    /// Where its keys belong.
    places: Vec<u32>,
    /// What is noted of the footprints at hand.
    pub(crate) block: Block,
    #[cfg(test)]
    looks: std::cell::Cell<u64>,
}

/// The mark of a key, in the upper half, and its number.
#[derive(Clone, Copy)]
pub(crate) struct Slot(u64);

impl Slot {
    const VACANT: Slot = Slot(0);

    #[inline]
    pub(crate) fn new(mark: Mark, number: u32) -> Slot {
        Slot(u64::from(mark.0) << 32 | u64::from(number))
    }

    #[inline]
    pub(crate) fn mark(self) -> Mark {
        Mark((self.0 >> 32) as u32)
    }

    #[inline]
    pub(crate) fn number(self) -> u32 {
        self.0 as u32
    }
}

/// The stamp of a key, its class, and 22 bits of its hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark(pub(crate) u32);

const STAMP_SHIFT: u32 = 24;
const CLASS_SHIFT: u32 = 22;

impl Mark {
    /// The last bit of the stamp, which says whether the key was written.
    pub(crate) const WRITTEN: u32 = 1 << STAMP_SHIFT;

    /// The mark that a use is to leave, where `now` is the least mark of the generation. The bits of a use stand side by
    /// side as they do here.
    #[inline]
    pub(crate) fn new(now: Mark, used: ClassUse, hash: u64) -> Mark {
        Mark(now.0 | u32::from(used.bits()) << CLASS_SHIFT | hash as u32 & ((1 << CLASS_SHIFT) - 1))
    }

    #[inline]
    pub(crate) fn stamp(self) -> u8 {
        (self.0 >> STAMP_SHIFT) as u8
    }

    /// How its key was used.
    fn used(self) -> ClassUse {
        ClassUse::from_bits((self.0 >> CLASS_SHIFT) as u8)
    }

    /// Whether a mark may be of the same key, and then stops this use.
    #[inline]
    pub(crate) fn is_stopped_by(self, mark: Mark) -> bool {
        self.may_be(mark) && (self.0 | mark.0) & Mark::WRITTEN != 0
    }

    /// Whether these may be of one key, both of this generation.
    #[inline]
    pub(crate) fn may_be(self, other: Mark) -> bool {
        (self.0 ^ other.0) & !Mark::WRITTEN == 0
    }
}

/// No place of the table: the key stands in the crowd, or will.
const CROWD: u32 = u32::MAX;

impl Default for Marks {
    fn default() -> Marks {
        Marks {
            slots: vec![Slot::VACANT; SLOTS_MIN + PROBE_MAX],
            shift: 64 - SLOTS_MIN.ilog2(),
            known: Known::default(),
            len: 0,
            len_max: len_max(SLOTS_MIN),
            crowd: BTreeMap::new(),
            is_overfull: false,
            generation: Generation::FIRST,
            wants: Vec::new(),
            places: Vec::new(),
            block: Block::default(),
            #[cfg(test)]
            looks: Default::default(),
        }
    }
}

/// How many keys a table has room for: some places stay vacant, so that looks are short.
const fn len_max(slots: usize) -> usize {
    // Small ones stay in the nearer caches even if they are nearly empty.
    if slots <= SMALL { slots / 4 } else { slots / 2 }
}

impl Marks {
    /// Forgets all reservations.
    pub(crate) fn begin(&mut self) {
        self.known.clear();
        self.len = 0;
        self.crowd.clear();
        self.is_overfull = false;
        self.generation = self.generation.next().unwrap_or_else(|| {
            self.slots.fill(Slot::VACANT);
            Generation::FIRST
        });
    }

    /// Admits a footprint if nothing that was admitted conflicts with it; else says at which key something does. Checks
    /// everything, then marks everything.
    pub(crate) fn reserve(&mut self, footprint: &Footprint) -> Option<usize> {
        self.make_room(footprint.len());
        let mut wants = std::mem::take(&mut self.wants);
        wants.clear();
        footprint.add_wants(&mut wants);
        let stopped = self.reserve_in_room(&wants, None);
        self.wants = wants;
        stopped
    }

    /// As [`reserve`](Marks::reserve), where there is room already, so that places which were found before stay good. Keys
    /// may have numbers, which begin with `first`.
    pub(crate) fn reserve_in_room(&mut self, wants: &[Want], first: Option<u32>) -> Option<usize> {
        self.places.clear();
        for (at, &Want { key, used }) in wants.iter().enumerate() {
            let (place, stamp) = self.find(key.hash(), used, key);
            if self.generation.stops(stamp, used.writes()) {
                return Some(at);
            }
            self.places.push(place);
        }
        let now = self.now();
        for (at, &want) in wants.iter().enumerate() {
            let (place, number) = (self.places[at], first.map(|first| first + at as u32));
            let is_vacant = self.slots.get(place as usize).is_some_and(|slot| slot.mark() < now);
            match if is_vacant { number.or_else(|| self.known.push(want.key)) } else { None } {
                Some(number) => {
                    self.slots[place as usize] =
                        Slot::new(Mark::new(now, want.used, want.key.hash()), number);
                    self.len += 1;
                }
                // It was used before, stands in the crowd, or lost its place to a key of the same footprint.
                None => self.mark(want, number),
            }
        }
        None
    }

    /// Marks a key wherever it stands or belongs, under its number if it has one.
    #[inline(never)]
    pub(crate) fn mark(&mut self, Want { key, used }: Want, number: Option<u32>) {
        let hash = key.hash();
        let (at, known) = self.find(hash, used, key);
        let used = ClassUse::new(used.class(), used.writes() | known & 1);
        let mark = Mark::new(self.now(), used, hash);
        if known != 0 && at != CROWD {
            self.slots[at as usize] = Slot::new(mark, self.slots[at as usize].number());
            return;
        }
        let number = if at == CROWD { None } else { number.or_else(|| self.known.push(key)) };
        match number {
            None => {
                self.is_overfull |= at != CROWD;
                self.crowd.insert((used.class(), key), mark.stamp());
            }
            Some(number) => {
                self.slots[at as usize] = Slot::new(mark, number);
                self.len += 1;
            }
        }
    }

    /// Marks a key at a place, if that is vacant.
    #[inline]
    pub(crate) fn take(&mut self, place: u32, mark: Mark, number: u32, now: Mark) -> bool {
        match self.slots.get_mut(place as usize) {
            Some(slot) if slot.mark() < now => {
                *slot = Slot::new(mark, number);
                true
            }
            _ => false,
        }
    }

    /// Where a key stands or belongs, and its stamp.
    #[inline]
    pub(crate) fn find(&self, hash: u64, used: ClassUse, key: MixedKey) -> (u32, u8) {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        let (now, home) = (self.now(), (hash >> self.shift) as usize);
        let sought = Mark::new(now, used, hash);
        for (at, slot) in (home as u32..).zip(&self.slots[home..home + PROBE_MAX]) {
            let mark = slot.mark();
            if mark < now {
                // Those of the crowd found no vacant place before it.
                return if self.is_overfull { self.find_in_crowd(at, used, key) } else { (at, 0) };
            }
            if mark.may_be(sought) && self.known.get(slot.number()) == key {
                return (at, mark.stamp());
            }
        }
        self.find_in_crowd(CROWD, used, key)
    }

    /// The least mark of this generation.
    #[inline]
    pub(crate) fn now(&self) -> Mark {
        Mark(u32::from(self.generation.stamp(0)) << STAMP_SHIFT)
    }

    #[cold]
    fn find_in_crowd(&self, at: u32, used: ClassUse, key: MixedKey) -> (u32, u8) {
        match self.crowd.get(&(used.class(), key)) {
            Some(stamp) => (CROWD, *stamp),
            None => (at, 0),
        }
    }

    /// Makes room for so many keys more. Places that were found before are good no more when it does.
    #[inline]
    pub(crate) fn make_room(&mut self, more: usize) {
        if self.len + more > self.len_max {
            self.grow(more);
        }
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        let mut slots = SLOTS_MIN;
        while len_max(slots) < self.len + more {
            slots *= 2;
        }
        let before = std::mem::replace(&mut self.slots, vec![Slot::VACANT; slots + PROBE_MAX]);
        (self.shift, self.len, self.len_max) = (64 - slots.ilog2(), 0, len_max(slots));
        let now = self.now();
        for slot in before.into_iter().filter(|slot| slot.mark() >= now) {
            let key = self.known.get(slot.number());
            self.mark(Want { key, used: slot.mark().used() }, Some(slot.number()));
        }
        // A larger table has room for some of the crowd.
        for ((class, key), stamp) in std::mem::take(&mut self.crowd) {
            self.mark(Want { key, used: ClassUse::new(class, stamp & 1) }, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::footprint::hash;
    use crate::{Class, ResourceKey, Set};

    impl Marks {
        fn admits(&mut self, footprint: &Footprint) -> bool {
            self.reserve(footprint).is_none()
        }
    }

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
            marks.make_room(20_000);
            for at in 0..admitted {
                assert!(marks.admits(&footprint(at * 8..at * 8 + 8)));
            }
            for size in [1, 10, 100] {
                let before = marks.looks.get();
                assert!(marks.admits(&footprint(size << 40..(size << 40) + size)));
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
            assert!(marks.admits(&Footprint::new().with(Set::NodeWrites, key)));
            assert!(!marks.admits(&Footprint::new().with(Set::NodeReads, key)));
        }
        for &key in &keys {
            assert!(!marks.admits(&Footprint::new().with(Set::NodeReads, key)));
            assert!(marks.admits(&Footprint::new().with(Set::EdgeReads, key)));
        }
        marks.begin();
        assert!(keys.iter().all(|&key| marks.admits(&Footprint::new().with(Set::NodeReads, key))));
    }

    #[test]
    fn what_is_not_used_any_more_makes_room() {
        let mut marks = Marks::default();
        for tick in 0..1_000 {
            assert!(marks.admits(&footprint(tick * 16..tick * 16 + 16)));
            assert!(!marks.admits(&footprint(tick * 16..tick * 16 + 16)));
            marks.begin();
        }
        assert_eq!(marks.slots.len(), SLOTS_MIN + PROBE_MAX);
    }
}
