//! Who waits at a key: those that watch it, and those in line with a ticket.

use std::collections::BTreeMap;

use super::cell::{ALONE, MODES, ONE};
use super::{Rank, Use};
use crate::Mode;
use crate::chains::NONE;

/// The waiters of one key. Only keys that somebody waits for have one, and pools.
#[derive(Clone)]
pub(crate) struct Line {
    /// Those in line, counted as those that hold are, except that one bit stands for all that want a key alone. Of a
    /// pool, their units.
    pub(crate) lined: u64,
    /// How many in line want the key alone.
    alone: u32,
    /// The ring of entries in line, in the order of their tickets.
    pub(crate) first: u32,
    /// The first of the ring of those that watch, by the mode they want; of a pool, of those that want one unit. In the
    /// order of their urgency.
    watch: [u32; 7],
    /// How many watch from out of order, see [`Lines::out_of_order`].
    out_of_order: u32,
    watchers: u32,
    /// Of a pool.
    pub(crate) capacity: Option<u32>,
}

impl Line {
    /// Whether anybody watches.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.watchers > 0
    }

    /// Counts one more in line.
    pub(crate) fn joins(&mut self, mode: Mode, units: u32) {
        let one = ONE[mode as usize];
        if one == ALONE {
            self.alone += 1;
            self.lined |= ALONE;
        } else {
            self.lined += one + u64::from(units);
        }
    }

    /// Counts one less in line.
    pub(crate) fn leaves(&mut self, mode: Mode, units: u32) {
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
}

/// One that waits.
pub(crate) struct Waiter {
    pub(crate) rank: Rank,
    /// When it came; with a ticket, the number of the ticket.
    pub(crate) number: u64,
    /// The slot of its owner.
    pub(crate) owner: u32,
    /// The entry whose key it watches, while it has no ticket.
    pub(crate) watched: u32,
    pub(crate) tries: u32,
    next: u32,
    prev: u32,
    pub(crate) has_ticket: bool,
    is_out_of_order: bool,
}

impl Waiter {
    pub(crate) fn new(owner: u32, rank: Rank, number: u64) -> Waiter {
        Waiter {
            rank,
            number,
            owner,
            watched: NONE,
            tries: 1,
            next: NONE,
            prev: NONE,
            has_ticket: false,
            is_out_of_order: false,
        }
    }

    pub(crate) fn urgency(&self) -> (Rank, u64) {
        (self.rank, self.number)
    }
}

/// Those that watch one key and want the same of it: what stops one of them stops all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Watch {
    key: u32,
    line: u32,
    /// The number of the mode, or the units of a pool.
    want: u32,
}

impl Watch {
    pub(crate) fn new(line: u32, wanted: Use) -> Watch {
        let want = if wanted.mode == Mode::Units { wanted.units } else { wanted.mode as u32 };
        Watch { key: wanted.key.0, line, want }
    }
}

/// All lines and all waiters.
#[derive(Default)]
pub(crate) struct Lines {
    lines: Vec<Line>,
    vacant: Vec<u32>,
    waiters: Vec<Waiter>,
    waiters_vacant: Vec<u32>,
    /// Watchers that came after less urgent ones, and those that want several units: their place is found by a tree. In
    /// the usual order, the later the less urgent, lists will do.
    out_of_order: BTreeMap<(Watch, Rank, u64), u32>,
}

impl Lines {
    pub(crate) fn open(&mut self, capacity: Option<u32>) -> u32 {
        let line = Line {
            lined: 0,
            alone: 0,
            first: NONE,
            watch: [NONE; 7],
            out_of_order: 0,
            watchers: 0,
            capacity,
        };
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

    /// Closes a line when nobody is left in it; a pool's stays.
    pub(crate) fn close_if_empty(&mut self, at: u32) -> bool {
        let line = &self.lines[at as usize];
        let empty = line.first == NONE && line.watchers == 0 && line.capacity.is_none();
        if empty {
            self.vacant.push(at);
        }
        empty
    }

    #[inline]
    pub(crate) fn line(&self, at: u32) -> &Line {
        &self.lines[at as usize]
    }

    /// Who stands first in a line, if there is such a line.
    #[inline]
    pub(crate) fn first(&self, at: u32) -> u32 {
        self.lines.get(at as usize).map_or(NONE, |line| line.first)
    }

    pub(crate) fn line_mut(&mut self, at: u32) -> &mut Line {
        &mut self.lines[at as usize]
    }

    /// Nobody waits any more.
    pub(crate) fn begin_again(&mut self) {
        self.waiters.clear();
        self.waiters_vacant.clear();
        // Those of pools stay.
        if self.vacant.len() == self.lines.len() {
            self.lines.clear();
            self.vacant.clear();
        }
    }

    pub(crate) fn add(&mut self, waiter: Waiter) -> u32 {
        match self.waiters_vacant.pop() {
            Some(at) => {
                self.waiters[at as usize] = waiter;
                at
            }
            None => {
                self.waiters.push(waiter);
                (self.waiters.len() - 1) as u32
            }
        }
    }

    pub(crate) fn remove(&mut self, waiter: u32) {
        self.waiters[waiter as usize].owner = NONE;
        self.waiters_vacant.push(waiter);
    }

    /// All that wait, in no order that means anything.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Waiter> {
        self.waiters.iter().filter(|waiter| waiter.owner != NONE)
    }

    #[inline]
    pub(crate) fn waiter(&self, at: u32) -> &Waiter {
        &self.waiters[at as usize]
    }

    pub(crate) fn waiter_mut(&mut self, at: u32) -> &mut Waiter {
        &mut self.waiters[at as usize]
    }

    /// Lets a waiter watch.
    pub(crate) fn park(&mut self, at: u32, watch: Watch, entry: u32) {
        let line = &mut self.lines[watch.line as usize];
        line.watchers += 1;
        let list = Lines::list(watch, line.capacity.is_some());
        let first = list.map_or(NONE, |list| line.watch[list]);
        let last = if first == NONE { at } else { self.waiters[first as usize].prev };
        let urgency = self.waiters[at as usize].urgency();
        let in_order = list.is_some() && (first == NONE || self.waiters[last as usize].urgency() < urgency);
        let waiter = &mut self.waiters[at as usize];
        waiter.watched = entry;
        waiter.is_out_of_order = !in_order;
        match list {
            Some(list) if in_order => {
                if first == NONE {
                    (waiter.prev, waiter.next) = (at, at);
                    line.watch[list] = at;
                } else {
                    (waiter.prev, waiter.next) = (last, first);
                    self.waiters[last as usize].next = at;
                    self.waiters[first as usize].prev = at;
                }
            }
            _ => {
                line.out_of_order += 1;
                self.out_of_order.insert((watch, urgency.0, urgency.1), at);
            }
        }
    }

    /// Lets a waiter watch no more.
    pub(crate) fn unpark(&mut self, at: u32, watch: Watch) {
        let Waiter { next, prev, is_out_of_order, .. } = self.waiters[at as usize];
        let line = &mut self.lines[watch.line as usize];
        line.watchers -= 1;
        let list = Lines::list(watch, line.capacity.is_some());
        match list {
            Some(list) if !is_out_of_order => {
                if next == at {
                    line.watch[list] = NONE;
                    return;
                }
                self.waiters[prev as usize].next = next;
                self.waiters[next as usize].prev = prev;
                if line.watch[list] == at {
                    line.watch[list] = next;
                }
            }
            _ => {
                line.out_of_order -= 1;
                let (rank, number) = self.waiters[at as usize].urgency();
                self.out_of_order.remove(&(watch, rank, number));
            }
        }
    }

    /// The most urgent of each list and each row of the tree at a line, for which `free` says that the key is.
    pub(crate) fn fronts(
        &self,
        key: u32,
        at: u32,
        free: impl Fn(Mode, u32) -> bool,
        mut each: impl FnMut(Watch, u32),
    ) {
        let line = &self.lines[at as usize];
        if line.watchers == 0 {
            return;
        }
        let is_pool = line.capacity.is_some();
        for (number, mode) in MODES.into_iter().enumerate() {
            let first = line.watch[number];
            let is_units = mode == Mode::Units;
            if first != NONE && is_units == is_pool && free(mode, 1) {
                each(Watch { key, line: at, want: if is_units { 1 } else { number as u32 } }, first);
            }
        }
        let mut from = Watch { key, line: at, want: 0 };
        let end = Watch { key, line: at, want: u32::MAX };
        let mut left = line.out_of_order;
        while left > 0 {
            let range = self.out_of_order.range((from, 0, 0)..=(end, Rank::MAX, u64::MAX));
            let Some((&(watch, ..), &first)) = range.into_iter().next() else { break };
            let (mode, units) =
                if is_pool { (Mode::Units, watch.want) } else { (MODES[watch.want as usize], 0) };
            if free(mode, units) {
                each(watch, first);
            } else if is_pool {
                // Whoever wants more is stopped as well.
                break;
            }
            left -= 1;
            from = Watch { want: watch.want.saturating_add(1), ..watch };
        }
    }

    /// The next after a watcher among those that want the same, in the same list or in the tree.
    pub(crate) fn after(&self, at: u32, watch: Watch) -> Option<u32> {
        let waiter = &self.waiters[at as usize];
        if !waiter.is_out_of_order {
            let line = &self.lines[watch.line as usize];
            let first = Lines::list(watch, line.capacity.is_some()).map_or(NONE, |list| line.watch[list]);
            return Some(waiter.next).filter(|&next| next != first);
        }
        let from = std::ops::Bound::Excluded((watch, waiter.rank, waiter.number));
        let to = std::ops::Bound::Included((watch, Rank::MAX, u64::MAX));
        self.out_of_order.range((from, to)).next().map(|(_, &next)| next)
    }

    /// How many watchers of a key are more urgent than this one, counted up to a bound.
    pub(crate) fn before(&self, key: u32, at: u32, urgency: (Rank, u64), most: u32) -> u32 {
        let line = &self.lines[at as usize];
        let mut count = 0;
        for first in line.watch {
            let mut at = first;
            while at != NONE && self.waiters[at as usize].urgency() < urgency && count < most {
                count += 1;
                at = self.waiters[at as usize].next;
                if at == first {
                    break;
                }
            }
        }
        if line.out_of_order > 0 {
            let from = (Watch { key, line: at, want: 0 }, 0, 0);
            let to = (Watch { key, line: at, want: u32::MAX }, Rank::MAX, u64::MAX);
            let looked = self.out_of_order.range(from..=to).take(most as usize);
            count += looked.filter(|((_, rank, number), _)| (*rank, *number) < urgency).count() as u32;
        }
        count.min(most)
    }

    /// The list in a line where a watcher belongs, unless that is the tree.
    fn list(watch: Watch, is_pool: bool) -> Option<usize> {
        match (is_pool, watch.want) {
            (true, 1) => Some(Mode::Units as usize),
            (true, _) => None,
            (false, mode) => Some(mode as usize),
        }
    }
}
