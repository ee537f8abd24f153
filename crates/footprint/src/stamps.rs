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

    /// Of a key, and one when it is written or claimed.
    #[inline]
    pub(crate) const fn new(key: u32, writes: u8) -> KeyUse {
        KeyUse(key << 1 | writes as u32)
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
    pub(crate) const fn writes(self) -> u8 {
        (self.0 & 1) as u8
    }
}

/// More keys than this are stamped by two bits each instead of a byte: their bytes would not fit the nearer caches.
const BYTES_MAX: usize = 1 << 20;

/// Stamps of interned keys: a byte for each, or, of very many keys, two bits.
pub struct Stamps {
    table: Table,
}

pub(crate) enum Table {
    Bytes(Bytes),
    Bits(Bits),
}

impl Default for Stamps {
    fn default() -> Stamps {
        Stamps::new(0)
    }
}

impl Stamps {
    /// For keys below `keys`; more can be [made room](Stamps::make_room) for.
    pub fn new(keys: usize) -> Stamps {
        let bytes = Bytes { stamps: Vec::new(), generation: Generation::FIRST };
        let mut stamps = Stamps { table: Table::Bytes(bytes) };
        stamps.make_room(keys);
        stamps
    }

    /// Makes room for keys below `keys`.
    pub fn make_room(&mut self, keys: usize) {
        let keys = keys.min(INTERNED_MAX);
        match &mut self.table {
            Table::Bytes(bytes) if keys > BYTES_MAX => self.table = Table::Bits(Bits::from(&*bytes)),
            Table::Bytes(bytes) if bytes.stamps.len() < keys => bytes.stamps.resize(keys, NEVER),
            _ => {}
        }
        if let Table::Bits(bits) = &mut self.table
            && bits.words.len() * KEYS < keys
        {
            bits.words.resize(keys.div_ceil(KEYS), 0);
            bits.stamps.resize(keys.div_ceil(KEYS), NEVER);
        }
    }

    /// Forgets all reservations.
    pub fn begin(&mut self) {
        let (stamps, generation) = match &mut self.table {
            Table::Bytes(bytes) => (&mut bytes.stamps, &mut bytes.generation),
            Table::Bits(bits) => (&mut bits.stamps, &mut bits.generation),
        };
        *generation = generation.next().unwrap_or_else(|| {
            stamps.fill(NEVER);
            Generation::FIRST
        });
    }

    /// Admits a footprint if nothing that was admitted conflicts with it. Checks everything, then marks everything; keys
    /// that there is no room for are refused.
    #[inline]
    pub fn reserve(&mut self, uses: &[KeyUse]) -> bool {
        match &mut self.table {
            Table::Bytes(bytes) => bytes.reserve(uses),
            Table::Bits(bits) => bits.reserve(uses),
        }
    }

    pub(crate) fn table(&mut self) -> &mut Table {
        &mut self.table
    }
}

/// What stamps are asked.
pub(crate) trait Stamped {
    /// Whether something that was admitted stops this use; nothing does when there is no room for its key.
    fn stops(&self, at: KeyUse) -> bool;
    /// Whether nothing that was admitted stops this use, and there is room for its key.
    fn is_free(&self, at: KeyUse) -> bool;
    /// Marks a use, and leaves a stronger one.
    fn mark(&mut self, at: KeyUse);
    /// Marks the only use of a key in its footprint, which nothing stops.
    fn mark_once(&mut self, at: KeyUse);

    #[inline]
    fn reserve(&mut self, uses: &[KeyUse]) -> bool {
        let free = uses.iter().all(|&at| self.is_free(at));
        if free {
            uses.iter().for_each(|&at| self.mark(at));
        }
        free
    }

    /// As [`reserve`](Stamped::reserve), of a footprint in which every key stands once.
    #[inline]
    fn reserve_settled(&mut self, uses: &[KeyUse]) -> bool {
        // One and four are so usual that they are worth a way of their own.
        match *uses {
            [a] => {
                let free = self.is_free(a);
                if free {
                    self.mark_once(a);
                }
                free
            }
            [a, b, c, d] => {
                let free = self.is_free(a) && self.is_free(b) && self.is_free(c) && self.is_free(d);
                if free {
                    self.mark_once(a);
                    self.mark_once(b);
                    self.mark_once(c);
                    self.mark_once(d);
                }
                free
            }
            _ => self.reserve_fours(uses),
        }
    }

    /// As [`reserve_settled`](Stamped::reserve_settled), four keys at a time.
    #[inline]
    fn reserve_fours(&mut self, uses: &[KeyUse]) -> bool {
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
            four.iter().for_each(|&at| self.mark_once(at));
        }
        rest.iter().for_each(|&at| self.mark_once(at));
        true
    }
}

/// A byte for each key.
pub(crate) struct Bytes {
    stamps: Vec<u8>,
    generation: Generation,
}

impl Stamped for Bytes {
    #[inline]
    fn stops(&self, at: KeyUse) -> bool {
        let stamp = self.stamps.get(at.key() as usize).copied().unwrap_or(NEVER);
        self.generation.stops(stamp, at.writes())
    }

    #[inline]
    fn is_free(&self, at: KeyUse) -> bool {
        self.stamps.get(at.key() as usize).is_some_and(|&stamp| !self.generation.stops(stamp, at.writes()))
    }

    #[inline]
    fn mark(&mut self, at: KeyUse) {
        if let Some(stamp) = self.stamps.get_mut(at.key() as usize) {
            *stamp = (*stamp).max(self.generation.stamp(at.writes()));
        }
    }

    #[inline]
    fn mark_once(&mut self, at: KeyUse) {
        if let Some(stamp) = self.stamps.get_mut(at.key() as usize) {
            *stamp = self.generation.stamp(at.writes());
        }
    }
}

/// Two bits for each key, and a byte for each word of them.
///
/// The lower bit says that the key was written, the upper one that it was used at all, so the bit with the number of a
/// [`KeyUse`] is what stops that use.
pub(crate) struct Bits {
    words: Vec<u64>,
    /// The generation of each word. What another one left in it is not looked at.
    stamps: Vec<u8>,
    generation: Generation,
}

/// Keys in a word of bits.
const KEYS: usize = 32;

impl Bits {
    #[inline]
    fn word(&self, at: usize) -> u64 {
        match (self.stamps.get(at), self.words.get(at)) {
            (Some(&stamp), Some(&word)) => {
                word & 0u64.wrapping_sub(u64::from(stamp == self.generation.stamp(0)))
            }
            _ => 0,
        }
    }
}

impl From<&Bytes> for Bits {
    fn from(bytes: &Bytes) -> Bits {
        let words = bytes.stamps.len().div_ceil(KEYS);
        let mut bits =
            Bits { words: vec![0; words], stamps: vec![NEVER; words], generation: bytes.generation };
        for (key, &stamp) in (0..).zip(&bytes.stamps) {
            if stamp >= bytes.generation.stamp(0) {
                bits.mark(if stamp & 1 == 1 { KeyUse::write(key) } else { KeyUse::read(key) });
            }
        }
        bits
    }
}

impl Stamped for Bits {
    #[inline]
    fn stops(&self, at: KeyUse) -> bool {
        self.word((at.0 >> 6) as usize) >> (at.0 & 63) & 1 == 1
    }

    #[inline]
    fn is_free(&self, at: KeyUse) -> bool {
        ((at.0 >> 6) as usize) < self.words.len() && !self.stops(at)
    }

    #[inline]
    fn mark(&mut self, at: KeyUse) {
        let number = (at.0 >> 6) as usize;
        let word = self.word(number) | u64::from(2 | at.0 & 1) << (at.0 & 62);
        if let (Some(stamp), Some(into)) = (self.stamps.get_mut(number), self.words.get_mut(number)) {
            (*stamp, *into) = (self.generation.stamp(0), word);
        }
    }

    #[inline]
    fn mark_once(&mut self, at: KeyUse) {
        self.mark(at);
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
        for keys in [2, BYTES_MAX + 1] {
            let mut stamps = Stamps::new(keys);
            let last = KeyUse::write(keys as u32 - 1);
            let mut generations = 1;
            loop {
                assert!(stamps.reserve(&[KeyUse::write(0)]));
                assert!(!stamps.reserve(&[KeyUse::read(0)]));
                stamps.begin();
                generations += 1;
                assert!(stamps.reserve(&[KeyUse::write(0), KeyUse::read(0), KeyUse::read(1)]));
                assert!(!stamps.reserve(&[KeyUse::read(0)]));
                assert!(stamps.reserve(&[KeyUse::read(1)]));
                assert!(!stamps.reserve(&[KeyUse::write(1)]));
                assert_eq!(stamps.reserve(&[last]), keys > 2);
                assert!(!stamps.reserve(&[KeyUse::read(keys as u32 + 100)]));
                stamps.begin();
                if generations > 300 {
                    break;
                }
            }
        }
    }

    #[test]
    fn bytes_become_bits_with_their_marks() {
        let mut stamps = Stamps::new(100);
        assert!(stamps.reserve(&[KeyUse::write(70)]));
        stamps.begin();
        assert!(stamps.reserve(&[KeyUse::write(3), KeyUse::read(40)]));
        stamps.make_room(BYTES_MAX + 1);
        assert!(matches!(stamps.table, Table::Bits(_)));
        assert!(!stamps.reserve(&[KeyUse::read(3)]) && !stamps.reserve(&[KeyUse::write(40)]));
        assert!(stamps.reserve(&[KeyUse::read(40), KeyUse::write(70)]));
    }
}
