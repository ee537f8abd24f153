//! Footprints whose keys have become numbers, for those that are asked about again and again.

use crate::Mode;
use crate::chains::Chains;
use crate::footprint::{Class, Footprint, ResourceKey, hash};
use crate::stamps::{INTERNED_MAX, KeyUse, Stamps};

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
    uses: Vec<KeyUse>,
    /// Where each footprint ends.
    ends: Vec<u32>,
}

impl Interned {
    /// Adds a footprint and says its number.
    pub fn add(&mut self, footprint: &Footprint) -> Result<u32, InternedFull> {
        let (start, number) = (self.uses.len(), self.ends.len());
        if start + footprint.len() > u32::MAX as usize || number == u32::MAX as usize {
            return Err(InternedFull);
        }
        for (set, keys) in footprint.sets() {
            for &key in keys {
                match self.intern(set.class(), key) {
                    Ok(key) if set.mode() == Mode::Read => self.uses.push(KeyUse::read(key)),
                    Ok(key) => self.uses.push(KeyUse::write(key)),
                    Err(full) => {
                        self.uses.truncate(start);
                        return Err(full);
                    }
                }
            }
        }
        self.settle(start);
        Ok(number as u32)
    }

    /// Adds a footprint of keys that are interned already, and says its number. A key twice, and its strongest use
    /// counts.
    pub fn add_uses(&mut self, uses: &[KeyUse]) -> Result<u32, InternedFull> {
        let (start, number) = (self.uses.len(), self.ends.len());
        if start + uses.len() > u32::MAX as usize || number == u32::MAX as usize {
            return Err(InternedFull);
        }
        self.uses.extend_from_slice(uses);
        self.settle(start);
        Ok(number as u32)
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
        let mut rest = &self.uses[..];
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let (uses, after) = rest.split_at((end - start) as usize);
            (rest, start) = (after, end);
            uses
        })
    }

    /// Asks for all footprints in the order of their numbers, and says of each whether it was admitted.
    pub fn reserve_all(&self, stamps: &mut Stamps, admitted: &mut Vec<bool>) {
        stamps.make_room(self.keys_len());
        admitted.extend(self.iter().map(|uses| stamps.reserve(uses)));
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

    fn intern(&mut self, class: Class, key: ResourceKey) -> Result<u32, InternedFull> {
        let hash = hash(class, key);
        let keys = &self.keys;
        if let Some(known) = self.chains.find(hash, |at| keys[at as usize] == (class, key), || (class, key)) {
            return Ok(known);
        }
        if self.keys.len() >= INTERNED_MAX {
            return Err(InternedFull);
        }
        self.keys.push((class, key));
        let keys = &self.keys;
        let hash_of = |at: u32| {
            let (class, key) = keys[at as usize];
            self::hash(class, key)
        };
        let number = (keys.len() - 1) as u32;
        self.chains.insert(hash, number, || (class, key), hash_of);
        Ok(number)
    }

    /// Leaves each key once, with its strongest use, and ends the footprint.
    fn settle(&mut self, start: usize) {
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
        self.ends.push(kept as u32);
    }
}
