//! Everybody that holds or waits, each in a block of its own: who it is, how it stands, and its keys.
//!
//! A block is one cache line, so whoever comes to one key of an owner has the owner and its other keys at hand. Requests of
//! more keys than fit take several blocks side by side. Keys are linked by number, see [`list`](super::list).

use super::request::Packed;
use super::{ENTRIES_MAX, Owner, Request, Use};
use crate::Mode;
use crate::chains::NONE;

/// Entries of a block: with the owner they fill a cache line.
pub(crate) const TOGETHER: usize = 4;

/// Blocks at once: the number of an entry leaves two bits for what kind of number it is.
const BLOCKS_MAX: usize = (1 << 30) / TOGETHER;

/// In how a block stands: it watches the key of the entry whose place follows.
const WATCHES: u16 = 1 << 15;
const VACANT: u16 = u16::MAX;

/// One key of one owner.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) used: Packed,
    pub(crate) next: u32,
    pub(crate) prev: u32,
}

/// How an owner stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Holds,
    /// It waits eagerly and watches the key of this entry.
    Watches(u32),
    /// It has a ticket, and this many of its entries are still in line.
    InLine(u32),
}

/// An owner and its first keys, or further keys of the owner before.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Block {
    pub(crate) owner: Owner,
    /// The first block of this owner; the next vacant one of this one.
    first: u32,
    /// How many entries the owner has.
    len: u16,
    /// Nothing when it holds; with a ticket, its entries in line; else [`WATCHES`] or [`VACANT`].
    stands: u16,
    entries: [Entry; TOGETHER],
}

impl Block {
    /// As a block is before anybody has it.
    const NONE: Block = Block {
        owner: 0,
        first: NONE,
        len: 0,
        stands: VACANT,
        entries: [Entry { used: Packed::NONE, next: NONE, prev: NONE }; TOGETHER],
    };

    /// All places for entries in this block.
    #[inline]
    pub(crate) fn all(&self) -> &[Entry; TOGETHER] {
        &self.entries
    }

    /// Its entries, as far as they are in this block.
    #[inline]
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries[..usize::from(self.len).min(TOGETHER)]
    }
}

/// The blocks of all owners. An owner is known by the number of its first block, its *slot*.
pub(crate) struct Blocks {
    blocks: Vec<Block>,
    /// Units of entries that take from a pool; as long as the last of them needs.
    units: Vec<u32>,
    /// The first vacant block.
    vacant_one: u32,
    /// The first vacant ones of those that were so many side by side.
    vacant: Vec<u32>,
}

impl Default for Blocks {
    fn default() -> Blocks {
        Blocks { blocks: Vec::new(), units: Vec::new(), vacant_one: NONE, vacant: Vec::new() }
    }
}

impl Blocks {
    /// Whether a request of this length can be placed.
    #[inline]
    pub(crate) fn has_room(&self, len: usize) -> bool {
        // Nearly always there is room for the longest.
        self.blocks.len() <= BLOCKS_MAX - ENTRIES_MAX / TOGETHER || {
            let count = blocks_for(len);
            let vacant = if count == 1 { Some(&self.vacant_one) } else { self.vacant.get(count) };
            self.blocks.len() + count <= BLOCKS_MAX || vacant.is_some_and(|&slot| slot != NONE)
        }
    }

    /// Gives an owner a slot and writes its request there. It stands as if it held.
    #[inline(always)]
    pub(crate) fn place(&mut self, owner: Owner, request: &Request) -> u32 {
        let Some((len, few)) = request.few() else { return self.place_many(owner, request) };
        let slot = self.vacant_one;
        let number = if slot == NONE { self.blocks.len() as u32 } else { slot };
        let mut at = number * TOGETHER as u32;
        // All of them, whether they are used or not: it is a matter of a few writes.
        let entries = few.map(|used| {
            at += 1;
            Entry { used, next: at - 1, prev: at - 1 }
        });
        let block = Block { owner, first: number, len, stands: 0, entries };
        match self.blocks.get_mut(slot as usize) {
            Some(vacant) => {
                self.vacant_one = vacant.first;
                *vacant = block;
            }
            None => self.blocks.push(block),
        }
        number
    }

    fn place_many(&mut self, owner: Owner, request: &Request) -> u32 {
        let uses = request.packed();
        let count = blocks_for(uses.len());
        let slot = match *self.vacant_of(count) {
            NONE => {
                let slot = self.blocks.len() as u32;
                self.blocks.resize(slot as usize + count, Block::NONE);
                slot
            }
            slot => {
                *self.vacant_of(count) = self.blocks[slot as usize].first;
                slot
            }
        };
        let mut at = slot * TOGETHER as u32;
        for (block, uses) in self.blocks[slot as usize..].iter_mut().zip(uses.chunks(TOGETHER)) {
            (block.owner, block.first, block.len, block.stands) = (owner, slot, 0, 0);
            for (entry, &used) in block.entries.iter_mut().zip(uses) {
                *entry = Entry { used, next: at, prev: at };
                at += 1;
            }
        }
        self.blocks[slot as usize].len = uses.len() as u16;
        if let Some(units) = request.units() {
            self.set_units(slot, units);
        }
        slot
    }

    /// The first vacant one of those that were so many side by side.
    fn vacant_of(&mut self, count: usize) -> &mut u32 {
        if count == 1 {
            return &mut self.vacant_one;
        }
        if self.vacant.len() <= count {
            self.vacant.resize(count + 1, NONE);
        }
        &mut self.vacant[count]
    }

    /// Takes an owner out, of which nothing is linked any more.
    #[inline(always)]
    pub(crate) fn vacate(&mut self, slot: u32) {
        let count = blocks_for(self.len(slot));
        let next = if count == 1 {
            std::mem::replace(&mut self.vacant_one, slot)
        } else {
            std::mem::replace(self.vacant_of(count), slot)
        };
        let block = &mut self.blocks[slot as usize];
        (block.stands, block.first) = (VACANT, next);
    }

    /// Nobody is left.
    pub(crate) fn begin_again(&mut self) {
        self.blocks.clear();
        self.vacant.clear();
        self.vacant_one = NONE;
    }

    #[inline]
    pub(crate) fn owner(&self, slot: u32) -> Owner {
        self.blocks[slot as usize].owner
    }

    /// Whether this owner stands here, holds, and has not left.
    #[inline]
    pub(crate) fn holds(&self, slot: u32) -> bool {
        self.blocks[slot as usize].stands == 0
    }

    #[inline]
    pub(crate) fn state(&self, slot: u32) -> State {
        match self.blocks[slot as usize].stands {
            0 => State::Holds,
            stands if stands & WATCHES != 0 => {
                State::Watches(slot * TOGETHER as u32 + u32::from(stands & !WATCHES))
            }
            in_line => State::InLine(in_line.into()),
        }
    }

    #[inline]
    pub(crate) fn set_state(&mut self, slot: u32, state: State) {
        self.blocks[slot as usize].stands = match state {
            State::Holds => 0,
            State::Watches(entry) => WATCHES | (entry - slot * TOGETHER as u32) as u16,
            State::InLine(in_line) => in_line as u16,
        };
    }

    /// One entry less is in line. Says whether it was the last.
    #[inline]
    pub(crate) fn is_served(&mut self, slot: u32) -> bool {
        let block = &mut self.blocks[slot as usize];
        block.stands -= 1;
        block.stands == 0
    }

    /// How many entries an owner has.
    #[inline]
    fn len(&self, slot: u32) -> usize {
        self.blocks[slot as usize].len.into()
    }

    /// The numbers of an owner's entries.
    #[inline]
    pub(crate) fn entries(&self, slot: u32) -> std::ops::Range<u32> {
        let start = slot * TOGETHER as u32;
        start..start + self.len(slot) as u32
    }

    /// Those that wait, in no order that means anything.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = u32> {
        let waits = |(at, block): &(u32, &Block)| block.first == *at && ![0, VACANT].contains(&block.stands);
        (0..).zip(&self.blocks).filter(waits).map(|(at, _)| at)
    }

    /// The slot of the owner of an entry.
    #[inline]
    pub(crate) fn slot(&self, entry: u32) -> u32 {
        self.blocks[entry as usize / TOGETHER].first
    }

    #[inline]
    pub(crate) fn get(&self, entry: u32) -> &Entry {
        &self.blocks[entry as usize / TOGETHER].entries[entry as usize % TOGETHER]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, entry: u32) -> &mut Entry {
        &mut self.blocks[entry as usize / TOGETHER].entries[entry as usize % TOGETHER]
    }

    /// Something of a block, or of the last one.
    #[inline]
    pub(crate) fn glance(&self, slot: u32) -> u32 {
        let at = (slot as usize).min(self.blocks.len().saturating_sub(1));
        self.blocks.get(at).map_or(0, |block| block.first)
    }

    /// The entries of an owner that are in its first block; the others follow.
    #[inline(always)]
    pub(crate) fn first_entries(&self, slot: u32) -> &[Entry] {
        self.blocks[slot as usize].entries()
    }

    /// A block, if there is one with this number.
    #[inline]
    pub(crate) fn find(&self, slot: u32) -> Option<&Block> {
        self.blocks.get(slot as usize)
    }

    fn units(&self, entry: u32) -> u32 {
        self.units.get(entry as usize).copied().unwrap_or(0)
    }

    fn set_units(&mut self, slot: u32, units: &[u32]) {
        let entries = self.entries(slot);
        if self.units.len() < entries.end as usize {
            self.units.resize(entries.end as usize, 0);
        }
        self.units[entries.start as usize..entries.end as usize].copy_from_slice(units);
    }

    /// The use that an entry stands for.
    #[inline]
    pub(crate) fn used(&self, entry: u32) -> Use {
        let used = self.get(entry).used;
        let (key, mode) = (used.key(), used.mode());
        Use { key, mode, units: if mode == Mode::Units { self.units(entry) } else { 0 } }
    }
}

#[inline]
fn blocks_for(len: usize) -> usize {
    len.div_ceil(TOGETHER).max(1)
}

#[cfg(test)]
mod tests {
    use super::super::{Key, cell::MODES};
    use super::*;

    #[test]
    fn a_block_is_a_cache_line() {
        assert_eq!((size_of::<Block>(), align_of::<Block>()), (64, 64));
    }

    #[test]
    fn long_requests_take_several_blocks_which_are_used_again() {
        let mut blocks = Blocks::default();
        let uses: Vec<Use> =
            (0..40).map(|key| Use { key: Key(key), mode: MODES[key as usize % 6], units: 0 }).collect();
        let request = |len| Request::pack(&uses[..len]);
        for round in 0..2 {
            let slots: Vec<u32> = [0, 1, 4, 5, 40].map(|len| blocks.place(len as u64, &request(len))).into();
            for (&slot, len) in slots.iter().zip([0, 1, 4, 5, 40]) {
                assert_eq!((blocks.owner(slot), blocks.state(slot)), (len, State::Holds));
                let entries: Vec<u32> = blocks.entries(slot).collect();
                assert_eq!(entries.len() as u64, len, "{round}");
                for (&entry, wanted) in entries.iter().zip(&uses) {
                    assert_eq!((blocks.used(entry), blocks.slot(entry)), (*wanted, slot));
                }
            }
            slots.iter().for_each(|&slot| blocks.vacate(slot));
            assert_eq!(blocks.blocks.len(), 1 + 1 + 1 + 2 + 10);
            assert_eq!(blocks.waiting().count(), 0);
        }
    }
}
