//! Footprints whose keys have become numbers, for those that are asked about again and again.

use crate::Mode;
use crate::chains::Chains;
use crate::footprint::{Class, Footprint, ResourceKey, hash};
use crate::stamps::{INTERNED_MAX, KeyUse, Stamped, Stamps, Table};

/// No room for more keys or uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InternedFull;

impl std::fmt::Display for InternedFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no room for more interned footprints; begin with an empty list of them")
    }
}

impl std::error::Error for InternedFull {}

/// Footprints, their keys interned once, all in one flat list.
///
/// ```
/// use cadran_footprint::{Footprint, Interned, ResourceKey, Set, Stamps};
///
/// let node = ResourceKey::new(1, 42);
/// let mut interned = Interned::default();
/// let writer = interned.add(&Footprint::new().with(Set::NodeWrites, node))?;
/// let reader = interned.add(&Footprint::new().with(Set::NodeReads, node))?;
///
/// let mut stamps = Stamps::new(interned.keys_len());
/// assert!(stamps.reserve(interned.get(writer)));
/// assert!(!stamps.reserve(interned.get(reader)));
/// stamps.begin();
/// assert!(stamps.reserve(interned.get(reader)));
/// # Ok::<(), cadran_footprint::InternedFull>(())
/// ```
#[derive(Default)]
pub struct Interned {
    keys: Vec<(Class, ResourceKey)>,
    chains: Chains<(Class, ResourceKey)>,
    /// How many footprints use each key.
    wanted: Vec<u32>,
    /// Of each footprint the keys that most others use first: who is refused is mostly refused at the first of them.
    uses: Vec<KeyUse>,
    /// The first use of each footprint, which is read first; [`KeyUse::NONE`] when it has none.
    firsts: Vec<KeyUse>,
    /// Where the uses of each footprint end.
    ends: Vec<u32>,
}

/// Footprints looked at together: a word of bits.
const BLOCK: usize = 64;

/// The bits of each byte.
const BITS: [[bool; 8]; 256] = {
    let mut bits = [[false; 8]; 256];
    let mut at = 0;
    while at < 256 * 8 {
        bits[at / 8][at % 8] = (at / 8) >> (at % 8) & 1 == 1;
        at += 1;
    }
    bits
};

impl Interned {
    /// Adds a footprint and says its number.
    pub fn add(&mut self, footprint: &Footprint) -> Result<u32, InternedFull> {
        let start = self.uses.len();
        self.has_room(footprint.len())?;
        for (set, keys) in footprint.sets() {
            for &key in keys {
                match self.key(set.class(), key) {
                    Ok(key) if set.mode() == Mode::Read => self.uses.push(KeyUse::read(key)),
                    Ok(key) => self.uses.push(KeyUse::write(key)),
                    Err(full) => {
                        self.uses.truncate(start);
                        return Err(full);
                    }
                }
            }
        }
        Ok(self.settle(start))
    }

    /// Adds a footprint of keys that are interned already, and says its number. A key twice, and its strongest use
    /// counts.
    pub fn add_uses(&mut self, uses: &[KeyUse]) -> Result<u32, InternedFull> {
        let start = self.uses.len();
        self.has_room(uses.len())?;
        self.uses.extend_from_slice(uses);
        Ok(self.settle(start))
    }

    /// The number of a key, which is made when it is new.
    pub fn key(&mut self, class: Class, key: ResourceKey) -> Result<u32, InternedFull> {
        let hash = hash(class, key);
        let keys = &self.keys;
        if let Some(known) = self.chains.find(hash, |at| keys[at as usize] == (class, key), || (class, key)) {
            return Ok(known);
        }
        if self.keys.len() >= INTERNED_MAX {
            return Err(InternedFull);
        }
        self.keys.push((class, key));
        self.wanted.push(0);
        let keys = &self.keys;
        let hash_of = |at: u32| {
            let (class, key) = keys[at as usize];
            self::hash(class, key)
        };
        let number = (keys.len() - 1) as u32;
        self.chains.insert(hash, number, || (class, key), hash_of);
        Ok(number)
    }

    /// The uses of a footprint; none when there is no such number.
    #[inline]
    pub fn get(&self, number: u32) -> &[KeyUse] {
        let number = number as usize;
        let start = if number == 0 { 0 } else { self.ends.get(number - 1).copied().unwrap_or(0) };
        match self.ends.get(number) {
            Some(&end) => &self.uses[start as usize..end as usize],
            None => &[],
        }
    }

    /// The uses of all footprints, in the order of their numbers.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &[KeyUse]> {
        let mut start = 0;
        self.ends
            .iter()
            .map(move |&end| &self.uses[std::mem::replace(&mut start, end as usize)..end as usize])
    }

    /// Asks for all footprints in the order of their numbers, and says of each whether it was admitted. It is faster than
    /// one by one.
    pub fn reserve_all(&self, stamps: &mut Stamps, admitted: &mut Vec<bool>) {
        stamps.make_room(self.keys_len());
        match stamps.table() {
            Table::Bytes(bytes) => self.reserve_all_of(bytes, admitted),
            Table::Bits(bits) => self.reserve_all_of(bits, admitted),
        }
    }

    fn reserve_all_of(&self, stamps: &mut impl Stamped, admitted: &mut Vec<bool>) {
        admitted.reserve(self.len());
        let mut start = 0;
        for (block, ends) in self.firsts.chunks(BLOCK).zip(self.ends.chunks(BLOCK)) {
            // Who is stopped before the block begins is stopped in any case. That is found out without a jump, which would
            // be guessed wrong whenever conflicts are neither rare nor the rule, and most of the others are admitted.
            let mut left = 0;
            for (at, &first) in block.iter().enumerate() {
                left |= u64::from(!stamps.stops(first)) << at;
            }
            let mut taken = 0u64;
            while left != 0 {
                let at = left.trailing_zeros() as usize;
                left &= left - 1;
                let start = if at == 0 { start } else { ends[at - 1] };
                let uses = &self.uses[start as usize..ends[at] as usize];
                taken |= u64::from(stamps.reserve_settled(uses)) << at;
            }
            let mut told = [false; BLOCK];
            let (eights, _) = told.as_chunks_mut::<8>();
            eights
                .iter_mut()
                .zip(taken.to_le_bytes())
                .for_each(|(eight, byte)| *eight = BITS[usize::from(byte)]);
            admitted.extend_from_slice(&told[..block.len()]);
            start = ends.last().copied().unwrap_or(start);
        }
    }

    /// How many footprints there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How many keys there are: their numbers are below this.
    pub fn keys_len(&self) -> usize {
        self.keys.len()
    }

    fn has_room(&self, uses: usize) -> Result<(), InternedFull> {
        let full = self.uses.len() + uses > u32::MAX as usize || self.ends.len() == u32::MAX as usize;
        if full { Err(InternedFull) } else { Ok(()) }
    }

    /// Leaves each key once, with its strongest use, ends the footprint and says its number.
    fn settle(&mut self, start: usize) -> u32 {
        // A write sorts after a read of the same key.
        self.uses[start..].sort_unstable();
        let mut kept = start;
        for at in start..self.uses.len() {
            let this = self.uses[at];
            if kept > start && self.uses[kept - 1].key() == this.key() {
                self.uses[kept - 1] = this;
            } else {
                self.uses[kept] = this;
                kept += 1;
            }
        }
        self.uses.truncate(kept);
        let wanted = &mut self.wanted;
        self.uses[start..]
            .sort_by_key(|at| std::cmp::Reverse(wanted.get(at.key() as usize).copied().unwrap_or(0)));
        for at in &self.uses[start..] {
            if let Some(wanted) = wanted.get_mut(at.key() as usize) {
                *wanted = wanted.saturating_add(1);
            }
        }
        self.firsts.push(self.uses.get(start).copied().unwrap_or(KeyUse::NONE));
        self.ends.push(kept as u32);
        (self.ends.len() - 1) as u32
    }
}
