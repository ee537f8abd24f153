use rustc_hash::FxHashMap;

use super::{Class, Footprint, INTERNED_MAX, KeyUse, ResourceKey, Stamps};
use crate::Mode;

/// No room for more keys or uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InternedFull;

impl std::fmt::Display for InternedFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no room for more interned footprints; begin with an empty list of them")
    }
}

impl std::error::Error for InternedFull {}

/// Footprints whose keys have become small numbers, all in one flat list.
///
/// ```
/// use cadran_footprint::batch::{Footprint, Interned, ResourceKey, Set, Stamps};
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
/// # Ok::<(), cadran_footprint::batch::InternedFull>(())
/// ```
#[derive(Default)]
pub struct Interned {
    numbers: FxHashMap<(Class, ResourceKey), u32>,
    uses: Vec<KeyUse>,
    /// Where the uses of each footprint end.
    ends: Vec<u32>,
}

impl Interned {
    /// Adds a footprint and returns its number.
    pub fn add(&mut self, footprint: &Footprint) -> Result<u32, InternedFull> {
        let mut uses = Vec::with_capacity(footprint.len());
        for &(set, key) in footprint.uses() {
            let number = self.key(set.class(), key)?;
            uses.push(if set.mode() == Mode::Read { KeyUse::read(number) } else { KeyUse::write(number) });
        }
        self.add_uses(&uses)
    }

    /// Adds a footprint of keys that are interned already and returns its number. Of a key that comes twice the
    /// strongest use counts.
    pub fn add_uses(&mut self, uses: &[KeyUse]) -> Result<u32, InternedFull> {
        let start = self.uses.len();
        if start + uses.len() > u32::MAX as usize || self.ends.len() >= u32::MAX as usize {
            return Err(InternedFull);
        }
        self.uses.extend_from_slice(uses);
        // A write sorts after a read of the same key; backwards it comes first and is the one that is kept.
        self.uses[start..].sort_unstable_by(|a, b| b.cmp(a));
        let mut kept = start;
        for at in start..self.uses.len() {
            if kept == start || self.uses[kept - 1].key() != self.uses[at].key() {
                self.uses[kept] = self.uses[at];
                kept += 1;
            }
        }
        self.uses.truncate(kept);
        self.ends.push(kept as u32);
        Ok((self.ends.len() - 1) as u32)
    }

    /// The number of a key, which is assigned when it is new.
    pub fn key(&mut self, class: Class, key: ResourceKey) -> Result<u32, InternedFull> {
        let next = self.numbers.len();
        let number = *self.numbers.entry((class, key)).or_insert(next as u32);
        if next >= INTERNED_MAX && number as usize == next {
            self.numbers.remove(&(class, key));
            return Err(InternedFull);
        }
        Ok(number)
    }

    /// The uses of a footprint; none when there is no such number.
    #[inline]
    pub fn get(&self, number: u32) -> &[KeyUse] {
        let number = number as usize;
        let start = if number == 0 { 0 } else { self.ends.get(number - 1).copied().unwrap_or(0) };
        self.ends.get(number).map_or(&[], |&end| &self.uses[start as usize..end as usize])
    }

    /// Reserves for all footprints in the order of their numbers, and adds to `admitted` whether each was.
    pub fn reserve_all(&self, stamps: &mut Stamps, admitted: &mut Vec<bool>) {
        stamps.make_room(self.keys_len());
        let mut start = 0;
        admitted.extend(self.ends.iter().map(|&end| {
            let uses = &self.uses[start..end as usize];
            start = end as usize;
            stamps.reserve(uses)
        }));
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
        self.numbers.len()
    }
}
