//! Fetching ahead: what is needed soon is on its way from memory while other work is done.
//!
//! A run that waits is a chain of things that lie far apart: its block, its keys, who waits there. One after another each
//! costs a fetch; of several runs at once they cost one together. Nothing here changes an answer.

use std::hint::black_box;

use super::blocks::TOGETHER as ENTRIES;
use super::cell::Cell;
use super::owners::Tag;
use super::{Key, Owner, Request, Reservations};
use crate::chains::NONE;

/// Owners or requests that are fetched for at once: what they need fits the first cache.
const TOGETHER: usize = 16;

/// Fewer keys than this stay in the nearer caches, and fetching all ahead costs more than it saves.
const KEYS_MIN: usize = if cfg!(test) { 2 } else { 1 << 16 };

impl Reservations {
    /// As [`release`](Reservations::release) for one owner after another, and faster: what must be fetched from memory is
    /// fetched for several at once. Says how many held anything.
    pub fn release_all(&mut self, owners: &[Owner], granted: &mut Vec<Owner>) -> usize {
        let mut released = 0;
        for some in owners.chunks(TOGETHER) {
            let mut slots = [NONE; TOGETHER];
            for (&owner, slot) in some.iter().zip(&mut slots) {
                *slot = self.owners.guess(Tag::new(owner)).unwrap_or(NONE);
            }
            self.expect_ends(&slots[..some.len()]);
            for (&owner, &slot) in some.iter().zip(&slots) {
                let is_there = self.blocks.find(slot).is_some_and(|block| block.owner == owner);
                released += usize::from(if is_there && self.blocks.holds(slot) {
                    self.end(owner, Tag::new(owner), slot, granted);
                    true
                } else {
                    self.release(owner, granted)
                });
            }
        }
        released
    }

    /// Has what these requests need on its way, for whoever will [wait](Reservations::wait) with them next. A few at a
    /// time are best, so it looks at the first of many only.
    pub fn expect<'a>(&self, requests: impl IntoIterator<Item = &'a Request>) {
        if self.cells.len() < KEYS_MIN {
            return;
        }
        let mut lasts = [NONE; TOGETHER];
        for (request, last) in requests.into_iter().zip(&mut lasts) {
            for at in request.packed() {
                *last = self.cells.get(at.key()).map_or(NONE, Cell::queue_last).min(*last);
            }
        }
        self.fetch(lasts);
    }

    /// Has what the ends of those that stand here need on its way.
    fn expect_ends(&self, slots: &[u32]) {
        let blocks = slots.iter().filter_map(|&slot| self.blocks.find(slot));
        if self.cells.len() < KEYS_MIN {
            // What lies in the order in which it is needed is fetched by the machine itself.
            if slots.is_sorted() {
                return;
            }
            // The keys of one run mostly lie together, but for one.
            let ends = blocks.map(|block| {
                let [first, .., last] = block.all();
                self.glance(first.used.key()) ^ self.glance(last.used.key())
            });
            black_box(ends.fold(0, |seen, end| seen ^ end));
            return;
        }
        let mut firsts = [NONE; TOGETHER];
        for (block, first) in blocks.zip(&mut firsts) {
            for entry in block.entries() {
                *first = self.cells.get(entry.used.key()).map_or(NONE, Cell::queue_first).min(*first);
            }
        }
        self.fetch(firsts);
    }

    /// Something of the cell of a key.
    #[inline]
    fn glance(&self, key: Key) -> u32 {
        self.cells.get(key).map_or(0, |cell| cell.line)
    }

    /// Fetches the blocks of entries.
    fn fetch(&self, entries: [u32; TOGETHER]) {
        // What was seen is of no use; that it was fetched is.
        black_box(entries.iter().fold(0, |seen, entry| seen ^ self.blocks.glance(entry / ENTRIES as u32)));
    }
}
