//! What is marked on one key: how many use it in which way, packed so that a check is one `and`.

use super::Key;
use super::blocks::Entry;
use super::list::List;
use super::request::Packed;
use crate::Mode;
use crate::chains::NONE;

/// Bits of a counter: three of them, and one bit for the one that has a key alone.
const COUNT_BITS: u32 = 21;

/// Owners at once, whatever the limits say: the counters of a key end there.
pub const OWNERS_MAX: usize = (1 << COUNT_BITS) - 1;

const READ_BELOW: u64 = 1;
const WRITE_BELOW: u64 = 1 << COUNT_BITS;
const READ: u64 = 1 << (2 * COUNT_BITS);
pub(crate) const ALONE: u64 = 1 << (3 * COUNT_BITS);

/// All ways to use a key, in the order of their numbers, and one more, so that three bits always name one.
pub(crate) const MODES: [Mode; 8] = [
    Mode::ReadBelow,
    Mode::WriteBelow,
    Mode::Read,
    Mode::ReadWriteBelow,
    Mode::Write,
    Mode::Claim,
    Mode::Units,
    Mode::Units,
];

/// What one user adds to the counters, by mode. Units are counted otherwise.
pub(crate) const ONE: [u64; 8] = [READ_BELOW, WRITE_BELOW, READ, READ | WRITE_BELOW, ALONE, ALONE, 0, 0];

/// The counters that one user of a mode adds to, whole.
pub(crate) const COUNTERS: [u64; 7] = {
    let all = OWNERS_MAX as u64;
    let (below, write_below, read) = (READ_BELOW * all, WRITE_BELOW * all, READ * all);
    [below, write_below, read, read | write_below, ALONE, ALONE, 0]
};

/// Which counters must be zero, by mode: those of the modes it excludes.
pub(crate) const FORBIDS: [u64; 8] = forbids();

const fn forbids() -> [u64; 8] {
    // A joined use excludes what either excludes, so the simple ones say all.
    let simple = [Mode::ReadBelow, Mode::WriteBelow, Mode::Read, Mode::Write];
    let mut forbids = [0; 8];
    let mut mode = 0;
    while mode < 8 {
        let mut other = 0;
        while other < 4 {
            if MODES[mode].excludes(simple[other]) {
                forbids[mode] |= COUNTERS[simple[other] as usize];
            }
            other += 1;
        }
        mode += 1;
    }
    forbids
}

/// What is marked on one key. Sixteen bytes, four to a cache line.
#[derive(Clone, Copy)]
pub(crate) struct Cell {
    /// Users by mode; of a pool, units taken. Of a key that one has alone, the other bits say who waits, see [`Queue`].
    pub(crate) held: u64,
    /// The first of the ring of entries that hold it. Those that only use something below stand last, so the first is in
    /// the way of whoever is stopped by any.
    pub(crate) head: u32,
    /// Where its waiters are noted, and the capacity of a pool: the number of a line, or the last of a queue with its
    /// kind in the upper bits.
    pub(crate) line: u32,
}

/// The line of a key that is forgotten.
const FORGOTTEN: u32 = NONE - 1;

/// Bits of the number of an entry.
const ENTRY_BITS: u32 = 30;
const ENTRY: u32 = (1 << ENTRY_BITS) - 1;

/// How those of a queue wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Kind {
    /// With a ticket.
    Tickets = 1 << ENTRY_BITS,
    /// Eagerly, in the order of their urgency.
    Watchers = 2 << ENTRY_BITS,
}

/// Those that wait for a key which one has alone, when they want it alone as well and wait in the same way: the usual
/// case. While a key is had alone its counters say nothing else, so they are noted in the cell, and nothing else is
/// fetched to join or to serve them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Queue {
    pub(crate) kind: Kind,
    pub(crate) list: List,
    pub(crate) len: u32,
}

impl Cell {
    pub(crate) const FREE: Cell = Cell { held: 0, head: NONE, line: NONE };
    pub(crate) const GONE: Cell = Cell { held: 0, head: NONE, line: FORGOTTEN };

    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        self.line == FORGOTTEN
    }

    /// Whether one has it alone.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        self.held & ALONE != 0
    }

    /// The number of its line, if it has one.
    #[inline]
    pub(crate) fn line(&self) -> Option<u32> {
        (self.line <= ENTRY).then_some(self.line)
    }

    /// The queue, if there is one.
    #[inline]
    pub(crate) fn queue(&self) -> Option<Queue> {
        let kind = match self.line & !ENTRY {
            kind if kind == Kind::Tickets as u32 => Kind::Tickets,
            kind if kind == Kind::Watchers as u32 => Kind::Watchers,
            _ => return None,
        };
        let list = List { first: self.held as u32 & ENTRY, last: self.line & ENTRY };
        Some(Queue { kind, list, len: ((self.held & !ALONE) >> ENTRY_BITS) as u32 })
    }

    /// The queue of this kind, empty when nobody waits; none when others wait.
    #[inline]
    pub(crate) fn queue_for(&self, kind: Kind) -> Option<Queue> {
        let is_empty = self.line == NONE;
        if !is_empty & (self.line & !ENTRY != kind as u32) {
            return None;
        }
        let first = if is_empty { NONE } else { self.held as u32 & ENTRY };
        let list = List { first, last: self.line & ENTRY };
        Some(Queue { kind, list, len: ((self.held & !ALONE) >> ENTRY_BITS) as u32 })
    }

    /// The first of the queue, or a number that no entry has; without a jump, since it is a matter of chance.
    #[inline]
    pub(crate) fn queue_first(&self) -> u32 {
        let is_queue = (self.line >> 31) ^ (self.line >> ENTRY_BITS & 1);
        self.held as u32 & ENTRY | is_queue.wrapping_sub(1)
    }

    /// The last of the queue, as [`queue_first`](Cell::queue_first) says the first.
    #[inline]
    pub(crate) fn queue_last(&self) -> u32 {
        let is_queue = (self.line >> 31) ^ (self.line >> ENTRY_BITS & 1);
        self.line & ENTRY | is_queue.wrapping_sub(1)
    }

    /// Notes a queue, which may be empty, at a key that one has alone.
    #[inline]
    pub(crate) fn set_queue(&mut self, Queue { kind, list, len }: Queue) {
        if len == 0 {
            (self.held, self.line) = (ALONE, NONE);
        } else {
            self.held = ALONE | u64::from(len) << ENTRY_BITS | u64::from(list.first);
            self.line = kind as u32 | list.last;
        }
    }
}

/// The cells of all keys, by their numbers.
#[derive(Default)]
pub(crate) struct Cells {
    fours: Vec<Four>,
}

/// The cells of a cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Four([Cell; 4]);

impl Cells {
    /// A key is made: nobody has it.
    pub(crate) fn make(&mut self, key: Key) {
        let four = key.0 as usize / 4;
        if self.fours.len() <= four {
            self.fours.resize(four + 1, Four([Cell::GONE; 4]));
        }
        *self.at_mut(key) = Cell::FREE;
    }

    /// The cell of a key, if it was ever known.
    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<&Cell> {
        self.fours.get(key.0 as usize / 4).map(|four| &four.0[key.0 as usize % 4])
    }

    #[inline]
    pub(crate) fn at(&self, key: Key) -> &Cell {
        &self.fours[key.0 as usize / 4].0[key.0 as usize % 4]
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, key: Key) -> &mut Cell {
        &mut self.fours[key.0 as usize / 4].0[key.0 as usize % 4]
    }

    /// Marks uses that nothing stops, of entries with these numbers. Says whether all of the keys are its alone to hold;
    /// of the others, the entries are to be linked.
    #[inline(always)]
    pub(crate) fn mark(&mut self, uses: &[Packed], entries: std::ops::RangeFrom<u32>) -> bool {
        let mut shared = false;
        for (used, entry) in uses.iter().zip(entries) {
            let cell = self.at_mut(used.key());
            cell.held += ONE[used.mode_number()];
            shared |= cell.head != NONE;
            cell.head = if cell.head == NONE { entry } else { cell.head };
        }
        !shared
    }

    /// Marks those of some entries whose keys nobody has and nobody waits for, and says which are left, one bit each.
    #[inline(always)]
    pub(crate) fn mark_unused(&mut self, entries: &[Entry], start: u32) -> u32 {
        let mut others = 0;
        for (entry, at) in entries.iter().zip(0..) {
            let cell = self.at_mut(entry.used.key());
            if cell.held == 0 && cell.line == NONE {
                (cell.held, cell.head) = (ONE[entry.used.mode_number()], start + at);
            } else {
                others |= 1 << at;
            }
        }
        others
    }

    /// Takes away the marks of entries that alone held their keys, where nobody waits, and says which are left.
    #[inline(always)]
    pub(crate) fn unmark(&mut self, entries: &[Entry], start: u32) -> u32 {
        let mut others = 0;
        for (entry, at) in entries.iter().zip(0..) {
            let cell = self.at_mut(entry.used.key());
            if cell.line == NONE && entry.next == start + at {
                cell.held -= ONE[entry.used.mode_number()];
                cell.head = NONE;
            } else {
                others |= 1 << at;
            }
        }
        others
    }

    /// How many there may be.
    pub(crate) fn len(&self) -> usize {
        4 * self.fours.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Cell> {
        self.fours.iter().flat_map(|four| &four.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_the_conflict_rule() {
        for (number, mode) in MODES.into_iter().enumerate().take(7) {
            assert_eq!(mode as usize, number);
            for other in MODES {
                let both = ONE[other as usize] & FORBIDS[mode as usize] != 0;
                assert_eq!(both, mode.excludes(other), "{mode:?} {other:?}");
                let many = ONE[other as usize].wrapping_mul(OWNERS_MAX as u64);
                assert!(many & FORBIDS[mode as usize] != 0 || !mode.excludes(other), "{mode:?} {other:?}");
            }
        }
        assert_eq!((size_of::<Cell>(), size_of::<Four>()), (16, 64));
    }

    #[test]
    fn a_queue_is_noted_in_the_cell_and_hides_nothing() {
        let mut cell = Cell { held: ALONE, head: 7, line: NONE };
        let numbers = [(0, 0, 1), (ENTRY, 0, OWNERS_MAX as u32), (5, ENTRY, 2), (0, 0, 0)];
        for kind in [Kind::Tickets, Kind::Watchers] {
            for (first, last, len) in numbers {
                let queue = Queue { kind, list: List { first, last }, len };
                cell.set_queue(queue);
                assert_eq!(cell.queue(), (len > 0).then_some(queue));
                assert_eq!((cell.is_alone(), cell.line(), cell.head), (true, None, 7));
                assert!(FORBIDS[..6].iter().all(|forbids| cell.held & forbids != 0));
            }
        }
        assert!(Cell::GONE.is_gone() && Cell::GONE.queue().is_none() && Cell::FREE.queue().is_none());
    }
}
