//! A generation-stamped set of resource keys.

use std::collections::BTreeMap;

use crate::footprint::{ClassUse, MixedKey, MixedUse};
use crate::stamps::Generation;

/// Places looked at for one key. Fair hashes need one or two; beyond this they were chosen to collide.
const LOOKS_MAX: usize = 16;

/// The smallest table.
const PLACES_MIN: usize = 256;

/// A table up to here stays within the nearer caches, or little beyond them, even when it is nearly empty.
const SMALL: usize = 1 << 17;

/// The largest table: places have 32 bits. When it is full, whoever comes finds a crowd everywhere.
const PLACES_MAX: usize = 1 << 31;

/// How resources were used this time.
///
/// One open table for all classes, of eight bytes a place: a mark, which is a stamp, the class and some bits of the hash, and
/// the number of the key, which is only looked at when marks agree. What was stamped another time is vacant, so a new
/// generation begins with an empty table. A key stands within [`LOOKS_MAX`] places of where its hash points, or, when those
/// are taken by a crowd, in an ordered map: chosen keys cost a logarithm.
pub(crate) struct Table {
    /// A power of two, and [`LOOKS_MAX`] more, so that no look goes around the end.
    slots: Vec<Slot>,
    /// 64 less the bits of the table's size.
    shift: u32,
    /// The keys that stand in it, by number, and how many they are: there is room for more.
    keys: Vec<MixedKey>,
    len: usize,
    /// Keys without a place in the table, and their stamps.
    crowd: BTreeMap<(u8, MixedKey), u8>,
    generation: Generation,
    #[cfg(test)]
    pub(crate) looks: std::cell::Cell<u64>,
}

/// A mark, in the upper half, and the number of its key.
#[derive(Clone, Copy)]
struct Slot(u64);

impl Slot {
    const VACANT: Slot = Slot(0);

    #[inline]
    fn new(mark: Mark, number: u32) -> Slot {
        Slot(u64::from(mark.0) << 32 | u64::from(number))
    }

    #[inline]
    fn mark(self) -> Mark {
        Mark((self.0 >> 32) as u32)
    }

    #[inline]
    fn number(self) -> usize {
        self.0 as u32 as usize
    }
}

/// The stamp of a key, its class, and 22 bits of its hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark(u32);

const STAMP_SHIFT: u32 = 24;
const CLASS_SHIFT: u32 = 22;

impl Mark {
    /// The last bit of the stamp, which says whether the key was written.
    const WRITTEN: u32 = 1 << STAMP_SHIFT;

    /// The mark that a use is to leave, where `now` is the least mark of the generation. The bits of a use stand side by
    /// side as they do here.
    #[inline]
    fn new(now: Mark, used: ClassUse, hash: u64) -> Mark {
        Mark(now.0 | u32::from(used.bits()) << CLASS_SHIFT | hash as u32 & ((1 << CLASS_SHIFT) - 1))
    }

    fn stamp(self) -> u8 {
        (self.0 >> STAMP_SHIFT) as u8
    }

    /// How its key was used.
    fn used(self) -> ClassUse {
        ClassUse::from_bits((self.0 >> CLASS_SHIFT) as u8)
    }

    /// Whether a key with this mark stops a use. Nobody who reads stops another; a key that was not found stops nobody.
    #[inline]
    fn stops(self, sought: Mark) -> bool {
        (self.0 | sought.0) & Mark::WRITTEN != 0 && self.0 != 0
    }

    /// Whether these may be of one key, both of this generation.
    #[inline]
    fn may_be(self, other: Mark) -> bool {
        (self.0 ^ other.0) & !Mark::WRITTEN == 0
    }
}

/// Where a key stands or belongs, and in the upper half the mark that is to stand there. One word, since it is written and
/// read again at once.
#[derive(Clone, Copy)]
pub(crate) struct Place(u64);

impl Place {
    #[inline]
    fn new(at: u32, mark: Mark) -> Place {
        Place(u64::from(mark.0) << 32 | u64::from(at))
    }

    #[inline]
    fn at(self) -> usize {
        self.0 as u32 as usize
    }

    #[inline]
    fn mark(self) -> Mark {
        Mark((self.0 >> 32) as u32)
    }
}

/// No place of the table: the key stands in the crowd, or will.
const CROWD: u32 = u32::MAX;

impl Default for Table {
    fn default() -> Table {
        Table {
            slots: vec![Slot::VACANT; PLACES_MIN + LOOKS_MAX],
            shift: 64 - PLACES_MIN.ilog2(),
            keys: vec![MixedKey::default(); keys_max(PLACES_MIN)],
            len: 0,
            crowd: BTreeMap::new(),
            generation: Generation::FIRST,
            #[cfg(test)]
            looks: Default::default(),
        }
    }
}

/// How many keys a table has room for: some places stay vacant, so that looks are short.
const fn keys_max(places: usize) -> usize {
    // The fewer are taken, the fewer jumps are guessed wrong.
    if places <= SMALL { places / 4 } else { places / 2 }
}

/// A table with room for some keys more: nothing in it moves meanwhile.
pub(crate) struct Open<'a> {
    slots: &'a mut [Slot],
    keys: &'a mut [MixedKey],
    len: &'a mut usize,
    crowd: &'a mut BTreeMap<(u8, MixedKey), u8>,
    now: Mark,
    shift: u32,
    #[cfg(test)]
    looks: &'a std::cell::Cell<u64>,
}

impl Open<'_> {
    /// Finds the place of a key; none when something that was admitted stops this use.
    #[inline(always)]
    pub(crate) fn find(&self, want: &MixedUse) -> Option<Place> {
        let (home, sought) = self.seek(want);
        let slot = self.slots.get(home).copied().unwrap_or(Slot::VACANT);
        if slot.mark() < self.now {
            return Some(Place::new(home as u32, sought));
        }
        let (at, found) = self.meet(want, home, sought, slot);
        if found.stops(sought) { None } else { Some(Place::new(at, sought)) }
    }

    /// The first place of a key, and the mark that it is to leave.
    #[inline(always)]
    fn seek(&self, want: &MixedUse) -> (usize, Mark) {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        let hash = want.key.hash();
        ((hash >> self.shift) as usize, Mark::new(self.now, want.used, hash))
    }

    /// Where a key stands or belongs, and its mark, when its first place is taken.
    #[inline(always)]
    fn meet(&self, want: &MixedUse, home: usize, sought: Mark, slot: Slot) -> (u32, Mark) {
        let mark = slot.mark();
        if mark.may_be(sought) && self.keys.get(slot.number()) == Some(&want.key) {
            return (home as u32, mark);
        }
        self.look(home, sought, want.key)
    }

    /// Marks a key where it was found to belong.
    #[inline(always)]
    pub(crate) fn take(&mut self, want: &MixedUse, place: Place) {
        match self.slots.get_mut(place.at()) {
            Some(slot) if slot.mark() < self.now => {
                *slot = Slot::new(place.mark(), *self.len as u32);
                self.keys[*self.len] = want.key;
                *self.len += 1;
            }
            // It was used before, stands in the crowd, or lost its place to a key of the same footprint.
            _ => self.mark(want),
        }
    }

    /// Marks a key wherever it stands or belongs.
    #[inline(never)]
    fn mark(&mut self, want: &MixedUse) {
        let hash = want.key.hash();
        let sought = Mark::new(self.now, want.used, hash);
        let (at, found) = self.look((hash >> self.shift) as usize, sought, want.key);
        let mark = Mark(sought.0 | found.0 & Mark::WRITTEN);
        match self.slots.get_mut(at as usize) {
            None => drop(self.crowd.insert((mark.used().class(), want.key), mark.stamp())),
            Some(slot) if found.0 != 0 => *slot = Slot::new(mark, slot.number() as u32),
            Some(slot) => {
                *slot = Slot::new(mark, *self.len as u32);
                self.keys[*self.len] = want.key;
                *self.len += 1;
            }
        }
    }

    /// Where a key stands or belongs, and its mark; nothing when it is not there.
    #[inline(never)]
    fn look(&self, home: usize, sought: Mark, key: MixedKey) -> (u32, Mark) {
        for (at, slot) in (home as u32..).zip(&self.slots[home..home + LOOKS_MAX]) {
            let mark = slot.mark();
            if mark < self.now {
                return (at, Mark(0));
            }
            if mark.may_be(sought) && self.keys[slot.number()] == key {
                return (at, mark);
            }
        }
        let stamp = self.crowd.get(&(sought.used().class(), key)).copied().unwrap_or(0);
        (CROWD, Mark(u32::from(stamp) << STAMP_SHIFT))
    }
}

impl Table {
    /// Forgets everything.
    pub(crate) fn begin(&mut self) {
        self.len = 0;
        self.crowd.clear();
        self.generation = self.generation.next().unwrap_or_else(|| {
            self.slots.fill(Slot::VACANT);
            Generation::FIRST
        });
    }

    /// Whether nothing was used this time.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0 && self.crowd.is_empty()
    }

    /// Makes room for so many keys more. Places that were found before are good no more when it does.
    #[inline]
    pub(crate) fn make_room(&mut self, more: usize) {
        if self.len + more > self.keys.len() {
            self.grow(more);
        }
    }

    /// Opens the table for so many keys more.
    #[inline]
    pub(crate) fn open(&mut self, more: usize) -> Open<'_> {
        self.make_room(more);
        let (now, shift) = (self.now(), self.shift);
        Open {
            slots: &mut self.slots,
            keys: &mut self.keys,
            len: &mut self.len,
            crowd: &mut self.crowd,
            now,
            shift,
            #[cfg(test)]
            looks: &self.looks,
        }
    }

    /// Marks a key wherever it stands or belongs.
    pub(crate) fn mark(&mut self, want: &MixedUse) {
        self.open(1).mark(want);
    }

    /// The least mark of this generation.
    #[inline]
    fn now(&self) -> Mark {
        Mark(u32::from(self.generation.stamp(0)) << STAMP_SHIFT)
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        let mut places = PLACES_MIN;
        while keys_max(places) < self.len + more && places < PLACES_MAX {
            places *= 2;
        }
        let room = keys_max(places).max(self.len + more);
        let mut keys = std::mem::replace(&mut self.keys, vec![MixedKey::default(); room]);
        if places + LOOKS_MAX == self.slots.len() {
            self.keys[..self.len].copy_from_slice(&keys[..self.len]);
            return;
        }
        keys.truncate(self.len);
        self.len = 0;
        let slots = std::mem::replace(&mut self.slots, vec![Slot::VACANT; places + LOOKS_MAX]);
        self.shift = 64 - places.ilog2();
        let now = self.now();
        for slot in slots.into_iter().filter(|slot| slot.mark() >= now) {
            self.mark(&MixedUse { key: keys[slot.number()], used: slot.mark().used() });
        }
        // A larger table has room for some of the crowd.
        for ((class, key), stamp) in std::mem::take(&mut self.crowd) {
            self.mark(&MixedUse { key, used: ClassUse::new(class, stamp & 1) });
        }
    }

    /// How many places there are.
    #[cfg(test)]
    pub(crate) fn places(&self) -> usize {
        self.slots.len() - LOOKS_MAX
    }
}
