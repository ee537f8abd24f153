//! Requests of all owners in one list: each a block of entries, which are linked by number into rings and lines.

use super::{Error, Key, Use, cell::MODES};
use crate::Mode;
use crate::chains::NONE;

const KEY_BITS: u32 = 29;
/// Keys known at once: what fits beside a mode in 32 bits.
pub const KEYS_MAX: usize = 1 << KEY_BITS;

/// In an entry's owner: it stands in line and does not hold yet.
const IN_LINE: u32 = 1 << 31;

/// One key of one owner. Sixteen bytes: four keys are a cache line.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    key_mode: u32,
    owner: u32,
    pub(crate) next: u32,
    pub(crate) prev: u32,
}

impl Entry {
    #[inline]
    pub(crate) fn key(&self) -> Key {
        Key(self.key_mode & (KEYS_MAX as u32 - 1))
    }

    #[inline]
    pub(crate) fn mode(&self) -> Mode {
        // The mode was put there; the mask keeps the compiler from checking it.
        MODES[((self.key_mode >> KEY_BITS) as usize).min(MODES.len() - 1)]
    }

    /// The slot of its owner.
    #[inline]
    pub(crate) fn owner(&self) -> u32 {
        self.owner & !IN_LINE
    }

    #[inline]
    pub(crate) fn is_in_line(&self) -> bool {
        self.owner & IN_LINE != 0
    }

    pub(crate) fn set_in_line(&mut self, in_line: bool) {
        self.owner = if in_line { self.owner | IN_LINE } else { self.owner & !IN_LINE };
    }
}

/// Entries of all owners.
#[derive(Default)]
pub(crate) struct Arena {
    entries: Vec<Entry>,
    /// Units of entries that take from a pool; as long as the last of them needs.
    units: Vec<u32>,
    /// The first vacant block of each length; the next one stands in its first entry.
    vacant: Vec<u32>,
}

impl Arena {
    /// Makes sure that a block of this length can be taken.
    #[inline]
    pub(crate) fn has_room(&self, len: usize) -> Result<(), Error> {
        let fits = self.vacant.get(len).is_some_and(|&head| head != NONE)
            || self.entries.len() + len <= (NONE - 1) as usize;
        if fits { Ok(()) } else { Err(Error::Full) }
    }

    /// Writes a request into a block and says where it begins.
    #[inline]
    pub(crate) fn place(&mut self, owner: u32, uses: &[Use]) -> u32 {
        let entry = |(at, number): (&Use, u32)| {
            // A ring of its own, until it is linked to others.
            let key_mode = at.key.0 | (at.mode as u32) << KEY_BITS;
            Entry { key_mode, owner, next: number, prev: number }
        };
        let start = match self.vacant.get(uses.len()).copied() {
            Some(start) if start != NONE && !uses.is_empty() => {
                self.vacant[uses.len()] = self.entries[start as usize].next;
                let block = &mut self.entries[start as usize..][..uses.len()];
                block.iter_mut().zip(uses.iter().zip(start..)).for_each(|(into, at)| *into = entry(at));
                start
            }
            _ => {
                let start = self.entries.len() as u32;
                self.entries.extend(uses.iter().zip(start..).map(entry));
                start
            }
        };
        for (at, _) in (start..).zip(uses).filter(|(_, at)| at.mode == Mode::Units) {
            if self.units.len() <= at as usize {
                self.units.resize(at as usize + 1, 0);
            }
            self.units[at as usize] = uses[(at - start) as usize].units;
        }
        start
    }

    /// Gives a block back.
    #[inline]
    pub(crate) fn vacate(&mut self, start: u32, len: u32) {
        if len == 0 {
            return;
        }
        if self.vacant.len() <= len as usize {
            self.vacant.resize(len as usize + 1, NONE);
        }
        self.entries[start as usize].next = self.vacant[len as usize];
        self.vacant[len as usize] = start;
    }

    /// Nobody has a block any more.
    pub(crate) fn begin_again(&mut self) {
        self.entries.clear();
        self.vacant.clear();
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> &Entry {
        &self.entries[at as usize]
    }

    /// An entry, if there is one with this number.
    #[inline]
    pub(crate) fn find(&self, at: u32) -> Option<&Entry> {
        self.entries.get(at as usize)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: u32) -> &mut Entry {
        &mut self.entries[at as usize]
    }

    pub(crate) fn units(&self, at: u32) -> u32 {
        self.units.get(at as usize).copied().unwrap_or(0)
    }

    /// The use that an entry stands for.
    #[inline]
    pub(crate) fn used(&self, at: u32) -> Use {
        let entry = self.get(at);
        let mode = entry.mode();
        Use { key: entry.key(), mode, units: if mode == Mode::Units { self.units(at) } else { 0 } }
    }

    /// Links an entry, a ring of its own, into the ring that begins with `head`: in front, or last.
    #[inline]
    pub(crate) fn link(&mut self, head: &mut u32, at: u32, in_front: bool) {
        if *head == NONE {
            *head = at;
            return;
        }
        let (next, last) = (*head, self.get(*head).prev);
        let entry = self.get_mut(at);
        (entry.next, entry.prev) = (next, last);
        self.get_mut(next).prev = at;
        self.get_mut(last).next = at;
        if in_front {
            *head = at;
        }
    }

    /// Takes an entry out of the ring that begins with `head`; it is a ring of its own again.
    #[inline]
    pub(crate) fn unlink(&mut self, head: &mut u32, at: u32) {
        let Entry { next, prev, .. } = *self.get(at);
        if next == at {
            *head = NONE;
            return;
        }
        self.get_mut(next).prev = prev;
        self.get_mut(prev).next = next;
        let entry = self.get_mut(at);
        (entry.next, entry.prev) = (at, at);
        if *head == at {
            *head = next;
        }
    }
}
