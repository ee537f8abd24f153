//! Generation-stamped sets: who used a key this time? Forgetting everything is counting one up.

/// The stamp of nobody.
const NEVER: u8 = 0;

/// A generation and, in the last bit, whether the key was written: read at 2g, written at 2g + 1.
///
/// One byte for a stamp keeps the stamps of very many keys in the cache. After a hundred generations stamps begin anew
/// and old ones are wiped, which costs a byte for each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(u8);

impl Generation {
    pub(crate) const FIRST: Generation = Generation(2);
    /// The last one. One can still be added to its stamps.
    pub(crate) const LAST: Generation = Generation(u8::MAX - 3);

    pub(crate) fn next(self) -> Option<Generation> {
        (self != Generation::LAST).then(|| Generation(self.0 + 2))
    }

    /// Whether a stamp stops a use: it was written now, or it was used now and is to be written. It is
    /// [`Mode::excludes`](crate::Mode::excludes), counted.
    #[inline]
    pub(crate) fn stops(self, stamp: u8, writes: u8) -> bool {
        stamp + writes > self.0
    }

    /// The stamp of a use.
    #[inline]
    pub(crate) fn stamp(self, writes: u8) -> u8 {
        self.0 | writes
    }
}

/// A use of an interned key, packed: its number and whether it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyUse(u32);

/// Numbers of interned keys end here: a bit is for writing, and the last number stands for no key.
pub const INTERNED_MAX: usize = (1 << 31) - 1;

impl KeyUse {
    /// The use of no key: there is never room for it.
    pub(crate) const NONE: KeyUse = KeyUse::read(INTERNED_MAX as u32);

    /// A key that is read.
    pub const fn read(key: u32) -> KeyUse {
        KeyUse(key << 1)
    }

    /// A key that is written or claimed.
    pub const fn write(key: u32) -> KeyUse {
        KeyUse(key << 1 | 1)
    }

    /// The number of the key.
    #[inline]
    pub const fn key(self) -> u32 {
        self.0 >> 1
    }

    /// Whether it is written or claimed.
    pub const fn is_write(self) -> bool {
        self.writes() == 1
    }

    #[inline]
    const fn writes(self) -> u8 {
        (self.0 & 1) as u8
    }
}

/// Stamps of interned keys: a byte for each.
pub struct Stamps {
    stamps: Vec<u8>,
    generation: Generation,
}

impl Default for Stamps {
    fn default() -> Stamps {
        Stamps::new(0)
    }
}

impl Stamps {
    /// For keys below `keys`; more can be [made room](Stamps::make_room) for.
    pub fn new(keys: usize) -> Stamps {
        Stamps { stamps: vec![NEVER; keys.min(INTERNED_MAX)], generation: Generation::FIRST }
    }

    /// Makes room for keys below `keys`.
    pub fn make_room(&mut self, keys: usize) {
        let keys = keys.min(INTERNED_MAX);
        if self.stamps.len() < keys {
            self.stamps.resize(keys, NEVER);
        }
    }

    /// Forgets all reservations.
    pub fn begin(&mut self) {
        self.generation = self.generation.next().unwrap_or_else(|| {
            self.stamps.fill(NEVER);
            Generation::FIRST
        });
    }

    /// Admits a footprint if nothing that was admitted conflicts with it. Checks everything, then marks everything; keys
    /// that there is no room for are refused.
    #[inline]
    pub fn reserve(&mut self, uses: &[KeyUse]) -> bool {
        if !uses.iter().all(|&at| self.is_free(at)) {
            return false;
        }
        for at in uses {
            if let Some(stamp) = self.stamps.get_mut(at.key() as usize) {
                // Here a key may stand twice, read and written.
                *stamp = (*stamp).max(self.generation.stamp(at.writes()));
            }
        }
        true
    }

    /// As [`reserve`](Stamps::reserve), of a footprint in which every key stands once.
    #[inline]
    pub(crate) fn reserve_settled(&mut self, uses: &[KeyUse]) -> bool {
        let (fours, rest) = uses.as_chunks::<4>();
        for &[a, b, c, d] in fours {
            if !(self.is_free(a) && self.is_free(b) && self.is_free(c) && self.is_free(d)) {
                return false;
            }
        }
        if !rest.iter().all(|&at| self.is_free(at)) {
            return false;
        }
        for four in fours {
            four.iter().for_each(|&at| self.mark(at));
        }
        rest.iter().for_each(|&at| self.mark(at));
        true
    }

    #[inline]
    fn mark(&mut self, at: KeyUse) {
        if let Some(stamp) = self.stamps.get_mut(at.key() as usize) {
            *stamp = self.generation.stamp(at.writes());
        }
    }

    /// Whether nothing that was admitted stops this use.
    #[inline]
    fn is_free(&self, at: KeyUse) -> bool {
        self.stamps.get(at.key() as usize).is_some_and(|&stamp| !self.generation.stops(stamp, at.writes()))
    }

    /// Whether something that was admitted stops this use. A key that there is no room for is stopped by nothing.
    #[inline]
    pub(crate) fn stops(&self, at: KeyUse) -> bool {
        let stamp = self.stamps.get(at.key() as usize).copied().unwrap_or(NEVER);
        self.generation.stops(stamp, at.writes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;

    #[test]
    fn a_stamp_stops_what_the_conflict_rule_excludes() {
        for generation in [Generation::FIRST, Generation(100), Generation::LAST] {
            for (writes, mode) in [(0, Mode::Read), (1, Mode::Write)] {
                for (wrote, by) in [(0, Mode::Read), (1, Mode::Write)] {
                    assert_eq!(generation.stops(generation.stamp(wrote), writes), mode.excludes(by));
                    let before = Generation(generation.0 - 2);
                    assert!(!generation.stops(before.stamp(wrote), writes));
                    assert!(before.stamp(wrote) < generation.stamp(0));
                }
                assert!(!generation.stops(NEVER, writes));
            }
        }
    }

    #[test]
    fn generations_begin_anew_without_old_marks() {
        let mut stamps = Stamps::new(2);
        stamps.generation = Generation::LAST;
        assert!(stamps.reserve(&[KeyUse::write(0)]));
        assert!(!stamps.reserve(&[KeyUse::read(0)]));
        stamps.begin();
        assert_eq!(stamps.generation, Generation::FIRST);
        assert!(stamps.reserve(&[KeyUse::write(0), KeyUse::read(0), KeyUse::read(1)]));
        assert!(!stamps.reserve(&[KeyUse::read(0)]));
        assert!(stamps.reserve(&[KeyUse::read(1)]));
        assert!(!stamps.reserve(&[KeyUse::read(2)]));
    }
}
