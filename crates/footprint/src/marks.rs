//! Generation-stamped sets of resource keys that are hashed when they are used.

use std::collections::BTreeMap;

use crate::footprint::{ClassUse, Conflict, Footprint, ResourceKey, hash};
use crate::stamps::Generation;

/// Places looked at for one key. Fair hashes need one or two; beyond this they were chosen to collide.
const PROBE_MAX: usize = 16;

/// Keys of a footprint that are looked for at a time: those that follow are often not needed.
const AHEAD: usize = 4;

/// From here on a table is in memory rather than in the caches.
const LARGE: usize = 1 << 17;

/// The smallest table.
const SLOTS_MIN: usize = 64;

/// Who used which resource this time.
///
/// One open table for all classes, of eight bytes a place: a stamp, the class, some bits of the hash, and where the key
/// itself stands in a list that is only read when those agree. What was stamped another time is vacant, so a new
/// generation begins with an empty table. A key stands within [`PROBE_MAX`] places of where its hash points, or, when those
/// are taken by a crowd, in an ordered map: chosen keys cost a logarithm.
pub(crate) struct Marks {
    /// A power of two, and [`PROBE_MAX`] more, so that no look goes around the end.
    slots: Vec<Slot>,
    /// 64 less the bits of the table's size.
    shift: u32,
    /// The keys that were used this time, and how many the table has room for.
    keys: Vec<ResourceKey>,
    keys_max: usize,
    /// Keys without a place in the table, and their stamps.
    crowd: BTreeMap<(u8, ResourceKey), u8>,
    generation: Generation,
    /// The masks of all that were admitted this time.
    factor_mask: u64,
    /// Where the keys of the footprints at hand belong.
    places: Vec<Place>,
    #[cfg(test)]
    looks: std::cell::Cell<u64>,
}

/// The mark of a key, in the upper half, and its number in the list.
#[derive(Clone, Copy)]
struct Slot(u64);

impl Slot {
    const VACANT: Slot = Slot(0);

    #[inline]
    fn new(mark: Mark, number: usize) -> Slot {
        Slot(u64::from(mark.0) << 32 | number as u64 & 0xffff_ffff)
    }

    #[inline]
    fn mark(self) -> Mark {
        Mark((self.0 >> 32) as u32)
    }

    #[inline]
    fn number(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }
}

/// The stamp of a key, its class, and 22 bits of its hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Mark(u32);

const STAMP_SHIFT: u32 = 24;
const CLASS_SHIFT: u32 = 22;
/// The last bit of the stamp, which says whether the key was written.
const WRITTEN: u32 = 1 << STAMP_SHIFT;

impl Mark {
    #[inline]
    fn new(stamp: u8, class: u8, hash: u64) -> Mark {
        let class = u32::from(class) << CLASS_SHIFT;
        Mark(u32::from(stamp) << STAMP_SHIFT | class | hash as u32 & ((1 << CLASS_SHIFT) - 1))
    }

    #[inline]
    fn stamp(self) -> u8 {
        (self.0 >> STAMP_SHIFT) as u8
    }

    fn class(self) -> u8 {
        (self.0 >> CLASS_SHIFT) as u8 & 3
    }

    /// Whether these may be of one key, both of this generation.
    #[inline]
    fn may_be(self, other: Mark) -> bool {
        (self.0 ^ other.0) & !WRITTEN == 0
    }
}

/// Where a key was found or belongs, and the mark that is to stand there.
#[derive(Clone, Copy)]
struct Place {
    at: u32,
    mark: Mark,
}

/// No place of the table: the key stands in the crowd, or will.
const CROWD: u32 = u32::MAX;

impl Default for Marks {
    fn default() -> Marks {
        Marks {
            slots: vec![Slot::VACANT; SLOTS_MIN + PROBE_MAX],
            shift: 64 - SLOTS_MIN.ilog2(),
            keys: Vec::new(),
            keys_max: keys_max(SLOTS_MIN),
            crowd: BTreeMap::new(),
            generation: Generation::FIRST,
            factor_mask: 0,
            places: Vec::new(),
            #[cfg(test)]
            looks: Default::default(),
        }
    }
}

/// How many keys a table has room for: some places stay vacant, so that looks are short.
const fn keys_max(slots: usize) -> usize {
    slots / 2
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
        match self.first_stopped(footprint) {
            Some(at) => Err(Conflict { set: footprint.set_at(at), key: footprint.keys()[at] }),
            None => {
                self.mark_all(footprint);
                Ok(())
            }
        }
    }

    /// As [`reserve`](Marks::reserve), without the reason of a refusal.
    #[inline]
    pub(crate) fn admits(&mut self, footprint: &Footprint) -> bool {
        let free = self.first_stopped(footprint).is_none();
        if free {
            self.mark_all(footprint);
        }
        free
    }

    /// Has what must be fetched from memory for a footprint that comes soon on its way, where the table is too large for
    /// the nearer caches. It changes nothing.
    #[inline(never)]
    pub(crate) fn expect<'a>(&self, footprints: impl Iterator<Item = &'a Footprint>) {
        if self.slots.len() < LARGE {
            return;
        }
        let mut seen = 0;
        for footprint in footprints {
            let mut uses = footprint.uses_from(0);
            for &key in footprint.keys().iter().take(AHEAD) {
                let hash = hash(ClassUse::first_of(uses).class(), key);
                uses >>= 4;
                seen ^= self.slots[(hash >> self.shift) as usize].0;
            }
        }
        // What was seen is of no use; that it was fetched is.
        std::hint::black_box(seen);
    }

    /// The place of the first key that is stopped. If there is none, it is noted where each key belongs.
    #[inline]
    fn first_stopped(&mut self, footprint: &Footprint) -> Option<usize> {
        let keys = footprint.keys();
        if self.places.len() < keys.len() || self.keys.len() + keys.len() > self.keys_max {
            self.make_room(keys.len());
        }
        #[cfg(test)]
        self.looks.set(self.looks.get() + keys.len() as u64);
        let mut from = 0;
        while from < keys.len() {
            let keys = &keys[from..keys.len().min(from + AHEAD)];
            let places = &mut self.places[from..][..keys.len()];
            let unclear =
                look(&self.slots, self.shift, self.generation, footprint.uses_from(from), keys, places);
            if unclear != 0
                && let Some(at) = self.first_stopped_of(footprint, from, unclear)
            {
                return Some(at);
            }
            from += AHEAD;
        }
        None
    }

    /// As [`first_stopped`](Marks::first_stopped), looking closely at the unclear keys of one chunk: a bit for each.
    #[inline]
    fn first_stopped_of(&mut self, footprint: &Footprint, from: usize, mut unclear: u32) -> Option<usize> {
        // Without a common bit no key is there: only the places are looked for.
        let may_conflict = footprint.factor_mask() & self.factor_mask != 0;
        while unclear != 0 {
            let at = from + unclear.trailing_zeros() as usize;
            unclear &= unclear - 1;
            let Place { at: second, mark } = self.places[at];
            let (found, stamp) = self.find(second as usize - 1, mark, footprint.keys()[at]);
            if may_conflict && self.generation.stops(stamp, mark.stamp() & 1) {
                return Some(at);
            }
            self.places[at].at = found;
        }
        None
    }

    /// Marks the keys of a footprint at their places.
    #[inline]
    fn mark_all(&mut self, footprint: &Footprint) {
        self.factor_mask |= footprint.factor_mask();
        let now = self.generation.stamp(0);
        for (&key, at) in footprint.keys().iter().zip(0..) {
            let Place { at: place, mark } = self.places[at];
            match self.slots.get_mut(place as usize) {
                Some(slot) if slot.mark().stamp() < now => {
                    *slot = Slot::new(mark, self.keys.len());
                    self.keys.push(key);
                }
                _ => self.mark_again(mark, key),
            }
        }
    }

    /// Marks a key that was used before, stands in the crowd, or lost its place to a key of the same footprint.
    #[inline(never)]
    fn mark_again(&mut self, mark: Mark, key: ResourceKey) {
        let (at, known) = self.find((hash(mark.class(), key) >> self.shift) as usize, mark, key);
        let mark = mark.max(Mark(mark.0 & (WRITTEN - 1) | u32::from(known) << STAMP_SHIFT));
        match self.slots.get_mut(at as usize) {
            None => drop(self.crowd.insert((mark.class(), key), mark.stamp())),
            Some(slot) if known != 0 => *slot = Slot::new(mark, slot.number()),
            Some(slot) => {
                *slot = Slot::new(mark, self.keys.len());
                self.keys.push(key);
            }
        }
    }

    /// Where a key whose hash points at `home` stands or belongs, and its stamp.
    #[inline]
    fn find(&self, home: usize, mark: Mark, key: ResourceKey) -> (u32, u8) {
        let now = self.now();
        for (at, slot) in (home as u32..).zip(&self.slots[home..home + PROBE_MAX]) {
            if slot.mark() < now {
                return (at, 0);
            }
            if slot.mark().may_be(mark) && self.keys[slot.number()] == key {
                return (at, slot.mark().stamp());
            }
        }
        self.find_in_crowd(mark, key)
    }

    #[cold]
    fn find_in_crowd(&self, mark: Mark, key: ResourceKey) -> (u32, u8) {
        (CROWD, self.crowd.get(&(mark.class(), key)).copied().unwrap_or(0))
    }

    /// The least mark of this generation.
    #[inline]
    fn now(&self) -> Mark {
        Mark(u32::from(self.generation.stamp(0)) << STAMP_SHIFT)
    }

    /// Makes room for so many keys more.
    #[cold]
    fn make_room(&mut self, more: usize) {
        if self.places.len() < more {
            self.places.resize(more, Place { at: 0, mark: Mark(0) });
        }
        if self.keys.len() + more <= self.keys_max {
            return;
        }
        let wanted = ((self.keys.len() + more) * 2).next_power_of_two();
        let slots = std::mem::replace(&mut self.slots, vec![Slot::VACANT; wanted + PROBE_MAX]);
        (self.shift, self.keys_max) = (64 - wanted.ilog2(), keys_max(wanted));
        let keys = std::mem::replace(&mut self.keys, Vec::with_capacity(self.keys_max));
        let now = self.now();
        let marked = slots.into_iter().filter(|slot| slot.mark() >= now);
        let marked = marked.map(|slot| (slot.mark().stamp(), slot.mark().class(), keys[slot.number()]));
        // A larger table has room for some of the crowd, and a vacant place must mean that a key is nowhere.
        let crowd = std::mem::take(&mut self.crowd).into_iter();
        for (stamp, class, key) in marked.chain(crowd.map(|((class, key), stamp)| (stamp, class, key))) {
            self.mark_again(Mark::new(stamp, class, hash(class, key)), key);
        }
    }
}

/// Notes where keys belong if they are not in the table, which is nearly always one of the first two places. Gives a bit
/// for each of which that is not so clear: then its first place is taken, and the second is noted. No jump depends on what the table holds, so looks overlap.
#[inline]
fn look(
    slots: &[Slot],
    shift: u32,
    generation: Generation,
    mut uses: u64,
    keys: &[ResourceKey],
    places: &mut [Place],
) -> u32 {
    let now = generation.stamp(0);
    let mut unclear = 0;
    for (at, (&key, place)) in keys.iter().zip(places).enumerate() {
        let used = ClassUse::first_of(uses);
        uses >>= 4;
        let hash = hash(used.class(), key);
        let home = (hash >> shift) as usize;
        let mark = Mark::new(generation.stamp(used.writes()), used.class(), hash);
        let [first, second] = [slots[home].mark(), slots[home + 1].mark()];
        let (taken, taken_too) = (u32::from(first.stamp() >= now), u32::from(second.stamp() >= now));
        unclear |= (taken & (u32::from(first.may_be(mark)) | taken_too)) << at;
        *place = Place { at: home as u32 + taken, mark };
    }
    unclear
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Class, Set};

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
        let colliding = colliding.filter(|&key| hash(Class::Node as u8, key) >> 56 == 0);
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
        assert_eq!(marks.slots.len(), SLOTS_MIN + PROBE_MAX);
    }
}
