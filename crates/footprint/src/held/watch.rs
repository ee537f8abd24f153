//! Waiting eagerly: who watches a key, the most urgent first.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::blocks::Blocks;
use super::line::Line;
use super::list::List;
use super::{Key, Rank, Use};
use crate::Mode;

/// Ways to want a key that differ in what stops them.
pub(crate) const LISTS: usize = 6;

/// The number of the list for each mode. Writes and claims are stopped by the same.
pub(crate) const WANTS: [usize; 7] = [0, 1, 2, 3, WANTS_ALONE, WANTS_ALONE, 5];
pub(crate) const WANTS_ALONE: usize = 4;

/// A mode of each list.
const MODE_OF: [Mode; LISTS] =
    [Mode::ReadBelow, Mode::WriteBelow, Mode::Read, Mode::ReadWriteBelow, Mode::Write, Mode::Units];

/// Steps from the end of a list to the place of one that comes out of order; further ahead, a tree finds it.
const STEPS_MAX: usize = 8;

/// Who is tried first: the lowest rank, then the earliest.
pub(crate) type Urgency = (Rank, u64);

/// How one waits, beside what its block says.
#[derive(Clone, Copy, Default)]
pub(crate) struct Wait {
    /// When it came; with a ticket, the number of the ticket.
    pub(crate) number: u64,
    pub(crate) tries: u32,
    is_out_of_order: bool,
}

/// Those that watch one key and want the same of it: what stops one of them stops all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Watch {
    key: u32,
    /// The number of the list, or the units of a pool.
    want: u32,
}

impl Watch {
    pub(crate) fn new(wanted: Use) -> Watch {
        let want = if wanted.mode == Mode::Units { wanted.units } else { WANTS[wanted.mode as usize] as u32 };
        Watch { key: wanted.key.0, want }
    }

    fn use_of(self, is_pool: bool) -> Use {
        let (mode, units) = if is_pool { (Mode::Units, self.want) } else { (MODE_OF[self.want as usize], 0) };
        Use { key: Key(self.key), mode, units }
    }
}

/// How everybody waits.
#[derive(Default)]
pub(crate) struct Watches {
    /// By slot; as long as the last of those that waited needs.
    waits: Vec<Wait>,
    /// By slot, as far as they are not 0: many callers have no use for them.
    ranks: Vec<Rank>,
    /// Watchers that came after many less urgent ones, and those that want several units: their place is found by a tree.
    /// In the usual order, the later the less urgent, lists will do.
    out_of_order: BTreeMap<(Watch, Rank, u64), u32>,
}

impl Watches {
    /// Notes that somebody begins to wait.
    #[inline]
    pub(crate) fn begin(&mut self, slot: u32, rank: Rank, number: u64) {
        if self.waits.len() <= slot as usize {
            self.waits.resize(slot as usize + 1, Wait::default());
        }
        self.waits[slot as usize] = Wait { number, tries: 1, is_out_of_order: false };
        if rank != 0 || (slot as usize) < self.ranks.len() {
            self.set_rank(slot, rank);
        }
    }

    #[inline]
    pub(crate) fn wait(&self, slot: u32) -> &Wait {
        &self.waits[slot as usize]
    }

    #[inline]
    pub(crate) fn wait_mut(&mut self, slot: u32) -> &mut Wait {
        &mut self.waits[slot as usize]
    }

    #[inline]
    pub(crate) fn urgency(&self, slot: u32) -> Urgency {
        (self.ranks.get(slot as usize).copied().unwrap_or(0), self.wait(slot).number)
    }

    fn set_rank(&mut self, slot: u32, rank: Rank) {
        if self.ranks.len() <= slot as usize {
            self.ranks.resize(slot as usize + 1, 0);
        }
        self.ranks[slot as usize] = rank;
    }

    /// Puts an entry in its place in a list of watchers, if that is near the end: who comes later is less urgent, and who
    /// was tried and lost was not far.
    #[inline]
    pub(crate) fn join(&mut self, list: &mut List, entry: u32, blocks: &mut Blocks) -> bool {
        let slot = blocks.slot(entry);
        self.wait_mut(slot).is_out_of_order = false;
        if list.is_empty() {
            blocks.push(list, entry);
            return true;
        }
        let (urgency, mut before) = (self.urgency(slot), list.last);
        for _ in 0..STEPS_MAX {
            if self.urgency(blocks.slot(before)) < urgency {
                blocks.insert(list, Some(before), entry);
                return true;
            }
            if before == list.first {
                blocks.insert(list, None, entry);
                return true;
            }
            before = blocks.get(before).prev;
        }
        false
    }

    /// Lets an entry watch.
    pub(crate) fn park(&mut self, line: &mut Line, entry: u32, blocks: &mut Blocks) {
        let (slot, wanted) = (blocks.slot(entry), blocks.used(entry));
        line.watchers += 1;
        let list = line.list_of(wanted.mode, wanted.units).map(|list| &mut line.watch[list]);
        if list.is_some_and(|list| self.join(list, entry, blocks)) {
            return;
        }
        self.wait_mut(slot).is_out_of_order = true;
        line.out_of_order += 1;
        let (rank, number) = self.urgency(slot);
        self.out_of_order.insert((Watch::new(wanted), rank, number), entry);
    }

    /// Lets an entry watch no more.
    pub(crate) fn unpark(&mut self, line: &mut Line, entry: u32, blocks: &mut Blocks) {
        let (slot, wanted) = (blocks.slot(entry), blocks.used(entry));
        line.watchers -= 1;
        let list = line.list_of(wanted.mode, wanted.units).map(|list| &mut line.watch[list]);
        match list {
            Some(list) if !self.wait(slot).is_out_of_order => blocks.remove(list, entry),
            _ => {
                line.out_of_order -= 1;
                let (rank, number) = self.urgency(slot);
                self.out_of_order.remove(&(Watch::new(wanted), rank, number));
            }
        }
    }

    /// The most urgent of each list and each row of the tree at a line, of those whose use `free` says is to be had.
    pub(crate) fn fronts(
        &self,
        key: Key,
        line: &Line,
        free: impl Fn(Use) -> bool,
        mut each: impl FnMut(u32),
    ) {
        let is_pool = line.capacity.is_some();
        for (list, mode) in line.watch.iter().zip(MODE_OF).filter(|(list, _)| !list.is_empty()) {
            let wanted = Use { key, mode, units: u32::from(is_pool) };
            if free(wanted) {
                each(list.first);
            }
        }
        let mut from = Watch { key: key.0, want: 0 };
        let end = Watch { key: key.0, want: u32::MAX };
        let mut left = line.out_of_order;
        while left > 0 {
            let mut range = self.out_of_order.range((from, 0, 0)..=(end, Rank::MAX, u64::MAX));
            let Some((&(watch, ..), &first)) = range.next() else { break };
            if free(watch.use_of(is_pool)) {
                each(first);
            } else if is_pool {
                // Whoever wants more is stopped as well.
                break;
            }
            left -= 1;
            from = Watch { want: watch.want.saturating_add(1), ..watch };
        }
    }

    /// The next after a watcher among those that want the same, in the same list or in the tree.
    pub(crate) fn after(&self, line: &Line, entry: u32, blocks: &Blocks) -> Option<u32> {
        let (slot, wanted) = (blocks.slot(entry), blocks.used(entry));
        if !self.wait(slot).is_out_of_order {
            let list = line.watch[WANTS[wanted.mode as usize]];
            return (entry != list.last).then(|| blocks.get(entry).next);
        }
        let (watch, (rank, number)) = (Watch::new(wanted), self.urgency(slot));
        let from = Bound::Excluded((watch, rank, number));
        let to = Bound::Included((watch, Rank::MAX, u64::MAX));
        self.out_of_order.range((from, to)).next().map(|(_, &next)| next)
    }

    /// How many watchers of a key are more urgent than this one, counted up to a bound.
    pub(crate) fn before(&self, key: Key, line: &Line, urgency: Urgency, most: u32, blocks: &Blocks) -> u32 {
        let mut count = 0;
        for list in line.watch {
            let urgent = |entry: &u32| self.urgency(blocks.slot(*entry)) < urgency;
            count += blocks.walk(list).take((most - count) as usize).take_while(urgent).count() as u32;
        }
        if line.out_of_order > 0 {
            let from = (Watch { key: key.0, want: 0 }, 0, 0);
            let to = (Watch { key: key.0, want: u32::MAX }, Rank::MAX, u64::MAX);
            let looked = self.out_of_order.range(from..=to).take(most as usize);
            count += looked.filter(|((_, rank, number), _)| (*rank, *number) < urgency).count() as u32;
        }
        count.min(most)
    }
}
