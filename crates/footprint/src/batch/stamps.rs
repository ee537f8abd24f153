/// A use of an interned key, packed: its number, and whether it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyUse(u32);

/// Numbers of interned keys end here: one bit is for writing.
pub const INTERNED_MAX: usize = 1 << 31;

impl KeyUse {
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
        self.write_bit() == 1
    }

    const fn write_bit(self) -> u8 {
        (self.0 & 1) as u8
    }
}

/// The stamp of a key that was never used.
const NEVER: u8 = 0;
const FIRST: u8 = 2;
const LAST: u8 = u8::MAX - 3;

/// A generation-stamped set of interned keys. Forgetting everything is counting the generation up.
///
/// A stamp is twice the generation of a key's last use, plus one when it was written. One byte keeps the stamps of very
/// many keys in the cache; after a hundred generations they are wiped and counting starts over.
pub struct Stamps {
    stamps: Vec<u8>,
    generation: u8,
}

impl Default for Stamps {
    fn default() -> Stamps {
        Stamps::new(0)
    }
}

impl Stamps {
    /// For keys below `keys`; [`make_room`](Stamps::make_room) adds more.
    pub fn new(keys: usize) -> Stamps {
        Stamps { stamps: vec![NEVER; keys], generation: FIRST }
    }

    /// Makes room for keys below `keys`.
    pub fn make_room(&mut self, keys: usize) {
        if self.stamps.len() < keys {
            self.stamps.resize(keys, NEVER);
        }
    }

    /// Forgets all reservations.
    pub fn begin(&mut self) {
        if self.generation == LAST {
            self.stamps.fill(NEVER);
            self.generation = FIRST;
        } else {
            self.generation += 2;
        }
    }

    /// Admits a footprint if nothing that was admitted conflicts with it: checks every key, then marks every key. A key
    /// without room is refused.
    #[inline]
    pub fn reserve(&mut self, uses: &[KeyUse]) -> bool {
        let generation = self.generation;
        for at in uses {
            match self.stamps.get(at.key() as usize) {
                // Written in this generation, or used in it and now to be written: `Mode::excludes`, by counting.
                Some(stamp) if stamp + at.write_bit() > generation => return false,
                Some(_) => {}
                None => return false,
            }
        }
        for at in uses {
            if let Some(stamp) = self.stamps.get_mut(at.key() as usize) {
                *stamp = (*stamp).max(generation | at.write_bit());
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_start_over_without_old_marks() {
        let mut stamps = Stamps::new(2);
        for _ in 0..300 {
            assert!(stamps.reserve(&[KeyUse::write(0)]));
            assert!(!stamps.reserve(&[KeyUse::read(0)]));
            stamps.begin();
            assert!(stamps.reserve(&[KeyUse::write(0), KeyUse::read(0), KeyUse::read(1)]));
            assert!(!stamps.reserve(&[KeyUse::read(0)]));
            assert!(stamps.reserve(&[KeyUse::read(1)]));
            assert!(!stamps.reserve(&[KeyUse::write(1)]));
            assert!(!stamps.reserve(&[KeyUse::read(2)]), "there is no room for this key");
            stamps.begin();
        }
    }
}
