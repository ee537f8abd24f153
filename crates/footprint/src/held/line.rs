//! Who waits at a key: those that watch it, and those in line with a ticket.

use super::blocks::Blocks;
use super::cell::{ALONE, Kind, ONE, Queue};
use super::list::List;
use super::watch::{LISTS, WANTS_ALONE};
use crate::Mode;

/// The waiters of one key. Pools have one, and keys whose waiters do not fit a [`Queue`].
#[derive(Clone, Copy)]
pub(crate) struct Line {
    /// Those in line, counted as those that hold are, except that one bit stands for all that want a key alone. Of a
    /// pool, their units.
    pub(crate) lined: u64,
    /// How many in line want the key alone.
    alone: u32,
    /// Those in line, in the order of their tickets.
    pub(crate) tickets: List,
    /// Those that watch, by what they want, in the order of their urgency.
    pub(crate) watch: [List; LISTS],
    /// How many watch from out of order, see [`Watches`](super::watch::Watches).
    pub(crate) out_of_order: u32,
    /// How many watch.
    pub(crate) watchers: u32,
    /// Of a pool.
    pub(crate) capacity: Option<u32>,
}

impl Line {
    /// With nobody; of a pool when there is a capacity.
    pub(crate) fn new(capacity: Option<u32>) -> Line {
        Line {
            lined: 0,
            alone: 0,
            tickets: List::EMPTY,
            watch: [List::EMPTY; LISTS],
            out_of_order: 0,
            watchers: 0,
            capacity,
        }
    }

    /// The line that a queue stands for.
    pub(crate) fn of_queue(Queue { kind, list, len }: Queue) -> Line {
        let mut line = Line::new(None);
        match kind {
            Kind::Tickets => (line.lined, line.alone, line.tickets) = (ALONE, len, list),
            Kind::Watchers => (line.watchers, line.watch[WANTS_ALONE]) = (len, list),
        }
        line
    }

    /// The queue that says the same; none when there is more to say. One has the key alone.
    pub(crate) fn as_queue(&self) -> Option<Queue> {
        let others = |(number, list): (usize, &List)| number != WANTS_ALONE && !list.is_empty();
        if self.capacity.is_some() || self.out_of_order > 0 || self.watch.iter().enumerate().any(others) {
            return None;
        }
        match (self.watchers, self.lined) {
            (0, ALONE) => Some(Queue { kind: Kind::Tickets, list: self.tickets, len: self.alone }),
            (0, _) => None,
            (len, 0) => Some(Queue { kind: Kind::Watchers, list: self.watch[WANTS_ALONE], len }),
            _ => None,
        }
    }

    /// Whether it need not be kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.tickets.is_empty() && self.watchers == 0 && self.capacity.is_none()
    }

    /// One more in line.
    pub(crate) fn join(&mut self, entry: u32, blocks: &mut Blocks) {
        let (mode, units) = (blocks.get(entry).used.mode(), blocks.used(entry).units);
        let one = ONE[mode as usize];
        if one == ALONE {
            self.alone += 1;
            self.lined |= ALONE;
        } else {
            self.lined += one + u64::from(units);
        }
        blocks.push(&mut self.tickets, entry);
    }

    /// One less in line.
    pub(crate) fn leave(&mut self, entry: u32, blocks: &mut Blocks) {
        blocks.remove(&mut self.tickets, entry);
        let (mode, units) = (blocks.get(entry).used.mode(), blocks.used(entry).units);
        let one = ONE[mode as usize];
        if one != ALONE {
            self.lined -= one + u64::from(units);
            return;
        }
        self.alone -= 1;
        if self.alone == 0 {
            self.lined &= !ALONE;
        }
    }

    /// The list where those stand that watch for this, unless that is the tree.
    pub(crate) fn list_of(&self, mode: Mode, units: u32) -> Option<usize> {
        (mode != Mode::Units || units == 1).then_some(super::watch::WANTS[mode as usize])
    }
}

/// All lines, by their numbers.
#[derive(Default)]
pub(crate) struct Lines {
    lines: Vec<Line>,
    vacant: Vec<u32>,
}

impl Lines {
    pub(crate) fn open(&mut self, line: Line) -> u32 {
        match self.vacant.pop() {
            Some(at) => {
                self.lines[at as usize] = line;
                at
            }
            None => {
                self.lines.push(line);
                (self.lines.len() - 1) as u32
            }
        }
    }

    pub(crate) fn close(&mut self, at: u32) {
        self.vacant.push(at);
    }

    #[inline]
    pub(crate) fn at(&self, at: u32) -> &Line {
        &self.lines[at as usize]
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, at: u32) -> &mut Line {
        &mut self.lines[at as usize]
    }
}
