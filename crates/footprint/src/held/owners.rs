//! Where owners stand, found by their numbers.

use std::collections::BTreeMap;

use super::Owner;
use super::blocks::Blocks;
use crate::mix;

/// Places side by side for owners that follow one another, as runs of one moment do: a few cache lines that are fetched
/// one after another.
const ROW: usize = 128;

/// Places that are tried for one owner, each in another row. Half of all are empty at least, so with a fair hash it is
/// two or three; what goes beyond was chosen to collide.
const TRIES_MAX: usize = 16;

/// In a place: one that belongs here stands further on.
const PASSED: u64 = 1 << 31;
/// Nobody; and then nobody stands further on.
const EMPTY: u64 = PASSED - 1;

/// Slots by the number of the owner that stands there.
///
/// A place says 32 bits of the owner's hash, a bit, and the slot. Who finds its place taken goes on to the same place of
/// the next row; a crowd goes to an ordered map, so that chosen numbers cost a logarithm and not a walk.
#[derive(Default)]
pub(crate) struct Owners {
    /// A power of two, or none at all.
    places: Vec<u64>,
    crowd: BTreeMap<Owner, u32>,
    len: usize,
}

/// What a place says of an owner: the row it belongs to, and the place in the row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag(u32);

impl Tag {
    /// Neighbours stand side by side, beginning at a place that differs from row to row.
    #[inline]
    pub(crate) fn new(owner: Owner) -> Tag {
        let mixed = mix::number(owner / ROW as u64);
        let place = mixed.wrapping_add(owner) % ROW as u64;
        Tag((mixed >> 32) as u32 & !(ROW as u32 - 1) | place as u32)
    }
}

impl Owners {
    /// The slot of an owner.
    #[inline]
    pub(crate) fn find(&self, tag: Tag, owner: Owner, blocks: &Blocks) -> Option<u32> {
        match self.find_where(tag, |slot| blocks.owner(slot) == owner) {
            None if !self.crowd.is_empty() => self.crowd.get(&owner).copied(),
            found => found,
        }
    }

    /// The slot of an owner, most likely: who stands there is not looked at.
    #[inline]
    pub(crate) fn guess(&self, tag: Tag) -> Option<u32> {
        self.find_where(tag, |_| true)
    }

    #[inline(always)]
    fn find_where(&self, tag: Tag, is: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = self.home(tag);
        for _ in 0..TRIES_MAX {
            let &place = self.places.get(at)?;
            if place >> 32 == u64::from(tag.0) && !is_empty(place) && is(slot(place)) {
                return Some(slot(place));
            }
            if place & PASSED == 0 {
                break;
            }
            at = self.after(at);
        }
        None
    }

    /// Notes the slot of an owner that is not here yet.
    #[inline]
    pub(crate) fn insert(&mut self, tag: Tag, slot: u32, blocks: &Blocks) {
        if 2 * self.len >= self.places.len() {
            self.grow(blocks);
        }
        self.len += 1;
        self.put(u64::from(tag.0) << 32 | u64::from(slot), blocks);
    }

    /// Forgets an owner that stood in this slot.
    #[inline]
    pub(crate) fn remove(&mut self, tag: Tag, owner: Owner, slot: u32) {
        let place = u64::from(tag.0) << 32 | u64::from(slot);
        let mut at = self.home(tag);
        for _ in 0..TRIES_MAX {
            let passed = self.places[at] & PASSED;
            if self.places[at] & !PASSED == place {
                self.len -= 1;
                self.places[at] = EMPTY;
                if passed != 0 {
                    self.fill(at);
                }
                return;
            }
            if passed == 0 {
                break;
            }
            at = self.after(at);
        }
        self.len -= usize::from(self.crowd.remove(&owner).is_some());
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The place of a tag; one that is not there when there is none at all.
    #[inline]
    fn home(&self, tag: Tag) -> usize {
        self.home_of(u64::from(tag.0) << 32)
    }

    #[inline]
    fn home_of(&self, place: u64) -> usize {
        let (tag, rows) = (place >> 32, (self.places.len() / ROW) as u64);
        // The upper bits choose the row.
        ((tag * rows) >> 32) as usize * ROW + tag as usize % ROW
    }

    /// The same place of the next row.
    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + ROW) & (self.places.len() - 1)
    }

    /// Puts an owner in the first empty place that it may have, or into the crowd.
    #[inline]
    fn put(&mut self, place: u64, blocks: &Blocks) {
        let home = self.home_of(place);
        if is_empty(self.places[home]) {
            self.places[home] = place;
        } else {
            self.put_further_on(home, place, blocks);
        }
    }

    fn put_further_on(&mut self, home: usize, place: u64, blocks: &Blocks) {
        let mut end = home;
        for _ in 1..TRIES_MAX {
            end = self.after(end);
            if is_empty(self.places[end]) {
                self.places[end] = place;
                let mut at = home;
                while at != end {
                    self.places[at] |= PASSED;
                    at = self.after(at);
                }
                return;
            }
        }
        self.crowd.insert(blocks.owner(slot(place)), slot(place));
    }

    /// Fills an empty place that others passed, with the first of those that may stand there; then the place of that one.
    /// Each step brings one nearer to where it belongs, so there are no more of them than there were tries to get in.
    fn fill(&mut self, mut hole: usize) {
        'holes: loop {
            let mut at = hole;
            for steps in 1..TRIES_MAX {
                at = self.after(at);
                let place = self.places[at];
                // How far it stands from where it belongs.
                let behind = at.wrapping_sub(self.home_of(place)) & (self.places.len() - 1);
                if !is_empty(place) && behind / ROW >= steps {
                    self.places[hole] = place | PASSED;
                    self.places[at] = EMPTY;
                    if place & PASSED == 0 {
                        return;
                    }
                    hole = at;
                    continue 'holes;
                }
                if place & PASSED == 0 {
                    return;
                }
            }
            return;
        }
    }

    /// Doubles the places.
    #[cold]
    fn grow(&mut self, blocks: &Blocks) {
        let places = (2 * self.places.len()).max(2 * ROW);
        let old = std::mem::replace(&mut self.places, vec![EMPTY; places]);
        for place in old.into_iter().filter(|&place| !is_empty(place)) {
            self.put(place & !PASSED, blocks);
        }
    }
}

#[inline]
fn slot(place: u64) -> u32 {
    (place & EMPTY) as u32
}

#[inline]
fn is_empty(place: u64) -> bool {
    slot(place) == slot(EMPTY)
}

#[cfg(test)]
mod tests {
    use super::super::Request;
    use super::*;

    #[test]
    fn finds_who_is_in_whatever_the_numbers() {
        // In a row, far apart, and of the same hash.
        let same: Vec<Owner> = {
            let first_rows = |owner: &Owner| Tag::new(*owner).0 >> 20 == 0;
            (0u64..).step_by(ROW).filter(first_rows).take(200).collect()
        };
        for owners in [(0..500).collect(), (0..500).map(|at| at << 40).collect(), same] {
            let (mut blocks, mut table, mut inside) = (Blocks::default(), Owners::default(), Vec::new());
            let slots: Vec<u32> =
                owners.iter().map(|&owner| blocks.place(owner, &Request::pack(&[]))).collect();
            inside.resize(owners.len(), false);
            for step in 0..4_000usize {
                let at = step * 131 % owners.len();
                let (owner, tag) = (owners[at], Tag::new(owners[at]));
                assert_eq!(table.find(tag, owner, &blocks), inside[at].then_some(slots[at]));
                if inside[at] {
                    table.remove(tag, owner, slots[at]);
                } else {
                    table.insert(tag, slots[at], &blocks);
                }
                inside[at] = !inside[at];
            }
            assert_eq!(table.len(), inside.iter().filter(|inside| **inside).count());
            for (&owner, (&slot, &inside)) in owners.iter().zip(slots.iter().zip(&inside)) {
                assert_eq!(table.find(Tag::new(owner), owner, &blocks), inside.then_some(slot));
            }
        }
    }
}
