//! Marking, and what a mark that is taken away allows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::cell::{COUNTERS, FORBIDS, ONE};
use super::line::Watch;
use super::look::is_short;
use super::{Key, Owner, Rank, Reservations, Use};
use crate::Mode;
use crate::chains::NONE;

/// Tickets passed over at one key while looking for those that may go on. Far behind one that is stopped, whoever could
/// go on waits a little longer: the work of one release stays bounded.
const PASS_MAX: u32 = 1_000;

/// Lists that are used again and again.
#[derive(Default)]
pub(super) struct Scratch {
    /// Keys with waiters that were given back.
    pub(super) freed: Vec<Key>,
    /// Slots of owners that have all they stood in line for.
    complete: Vec<u32>,
    /// The most urgent watcher of each list that may go on.
    fronts: BinaryHeap<Reverse<Front>>,
}

impl Scratch {
    fn push_front(&mut self, front: Option<Front>) {
        self.fronts.extend(front.map(Reverse));
    }
}

/// The most urgent of those that watch for the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Front {
    urgency: (Rank, u64),
    waiter: u32,
    watch: Watch,
}

impl Reservations {
    /// Marks one use, which nothing stops.
    #[inline]
    pub(super) fn mark(&mut self, entry: u32) {
        self.mark_use(entry, self.arena.used(entry));
    }

    /// Marks the use that an entry stands for.
    #[inline]
    pub(super) fn mark_use(&mut self, entry: u32, Use { key, mode, units }: Use) {
        let cell = &mut self.cells[key.0 as usize];
        cell.held += ONE[mode as usize] + u64::from(units);
        self.arena.link(&mut cell.head, entry, mode != Mode::ReadBelow);
    }

    /// Takes away all marks of an owner, and the owner. Keys with waiters are noted for [`serve`](Reservations::serve).
    #[inline]
    pub(super) fn leave(&mut self, slot: u32, hash: u64) {
        let record = *self.owners.get(slot);
        let marked = record.waiter == NONE || self.lines.waiter(record.waiter).has_ticket;
        for entry in record.entries().filter(|_| marked) {
            let Use { key, mode, units } = self.arena.used(entry);
            let cell = &mut self.cells[key.0 as usize];
            let one = ONE[mode as usize] + u64::from(units);
            if self.arena.get(entry).is_in_line() {
                let line = self.lines.line_mut(cell.line);
                line.leaves(mode, units);
                self.arena.unlink(&mut line.first, entry);
            } else {
                cell.held -= one;
                self.arena.unlink(&mut cell.head, entry);
            }
            if cell.line != NONE {
                self.scratch.freed.push(key);
            }
        }
        self.arena.vacate(record.start, record.len);
        self.owners.remove(hash, slot);
    }

    /// Lets go on whoever can, now that the noted keys were given back: first those in line, then those that watch.
    pub(super) fn serve(&mut self, granted: &mut Vec<Owner>) {
        if self.scratch.freed.is_empty() {
            return;
        }
        let freed = std::mem::take(&mut self.scratch.freed);
        let mut watched = false;
        for &key in &freed {
            self.advance(key);
            watched |= self.lines.line(self.cells[key.0 as usize].line).is_watched();
        }
        if self.scratch.complete.len() > 1 {
            let ticket = |slot: &u32| self.lines.waiter(self.owners.get(*slot).waiter).number;
            self.scratch.complete.sort_unstable_by_key(ticket);
        }
        for slot in self.scratch.complete.drain(..) {
            let record = self.owners.get_mut(slot);
            granted.push(record.owner);
            let waiter = std::mem::replace(&mut record.waiter, NONE);
            self.lines.remove(waiter);
        }
        if watched {
            self.serve_watchers(&freed, granted);
        }
        for &key in &freed {
            self.close_line(key);
        }
        self.scratch.freed = freed;
        self.scratch.freed.clear();
    }

    /// Tries those that watch keys which were given back, the most urgent first.
    fn serve_watchers(&mut self, freed: &[Key], granted: &mut Vec<Owner>) {
        // Mostly there is one list, whose order is that of urgency.
        let mut only = None;
        for &key in freed {
            only = self.note_fronts(key, only);
        }
        if self.scratch.fronts.is_empty() {
            while let Some(front) = only {
                only = self.try_again(front, granted);
            }
            return;
        }
        self.scratch.push_front(only);
        while let Some(Reverse(front)) = self.scratch.fronts.pop() {
            let next = self.try_again(front, granted);
            self.scratch.push_front(next);
        }
    }

    /// Lets a waiter watch the key of an entry.
    pub(super) fn park(&mut self, waiter: u32, entry: u32) {
        let wanted = self.arena.used(entry);
        let cell = &mut self.cells[wanted.key.0 as usize];
        if cell.line == NONE {
            cell.line = self.lines.open(None);
        }
        self.lines.park(waiter, Watch::new(cell.line, wanted), entry);
    }

    /// Lets a waiter watch no more.
    pub(super) fn unpark(&mut self, waiter: u32) {
        let wanted = self.arena.used(self.lines.waiter(waiter).watched);
        let line = self.cells[wanted.key.0 as usize].line;
        self.lines.unpark(waiter, Watch::new(line, wanted));
        self.close_line(wanted.key);
    }

    /// Puts a waiter in line for all its keys at once. What is free is its own from now on.
    pub(super) fn take_ticket(&mut self, waiter: u32) {
        self.numbers += 1;
        let slot = self.lines.waiter(waiter).owner;
        let mut in_line = 0;
        for entry in self.owners.get(slot).entries() {
            let wanted = self.arena.used(entry);
            if !self.is_blocked(wanted) {
                self.mark(entry);
                continue;
            }
            in_line += 1;
            let cell = &mut self.cells[wanted.key.0 as usize];
            if cell.line == NONE {
                cell.line = self.lines.open(None);
            }
            let line = self.lines.line_mut(cell.line);
            line.joins(wanted.mode, wanted.units);
            self.arena.get_mut(entry).set_in_line(true);
            self.arena.link(&mut line.first, entry, false);
        }
        self.owners.get_mut(slot).in_line = in_line;
        let number = self.numbers;
        let waiter = self.lines.waiter_mut(waiter);
        (waiter.has_ticket, waiter.number) = (true, number);
    }

    /// Gives a key to those in line for it that nothing before them stops.
    fn advance(&mut self, key: Key) {
        let cell = &mut self.cells[key.0 as usize];
        let line = self.lines.line(cell.line);
        let (mut at, capacity) = (line.first, line.capacity);
        if at == NONE {
            return;
        }
        let last = self.arena.get(at).prev;
        let (mut passed, mut before) = (0, 0);
        loop {
            let Use { mode, units, .. } = self.arena.used(at);
            let one = ONE[mode as usize] + u64::from(units);
            let stopped = match capacity {
                Some(capacity) => is_short(cell.held, units, capacity),
                None => (cell.held | before) & FORBIDS[mode as usize] != 0,
            };
            let (this, next) = (at, self.arena.get(at).next);
            let line = self.lines.line_mut(cell.line);
            if stopped {
                passed += 1;
                before |= one;
                // Of a pool, the first that lacks units stops all. Of other keys, go on while some in line could.
                if capacity.is_some() || passed == PASS_MAX || nobody_fits(cell.held | before, line.lined) {
                    return;
                }
            } else {
                line.leaves(mode, units);
                self.arena.unlink(&mut line.first, this);
                self.arena.get_mut(this).set_in_line(false);
                cell.held += one;
                self.arena.link(&mut cell.head, this, mode != Mode::ReadBelow);
                let slot = self.arena.get(this).owner();
                let record = self.owners.get_mut(slot);
                record.in_line -= 1;
                if record.in_line == 0 {
                    self.scratch.complete.push(slot);
                }
            }
            if this == last {
                return;
            }
            at = next;
        }
    }

    /// Notes the most urgent of each list at a key that its state does not stop: the first of all beside the others.
    fn note_fronts(&mut self, key: Key, mut only: Option<Front>) -> Option<Front> {
        let line = self.cells[key.0 as usize].line;
        let mut fronts = std::mem::take(&mut self.scratch.fronts);
        let free = |mode, units| !self.is_blocked(Use { key, mode, units });
        self.lines.fronts(key.0, line, free, |watch, waiter| {
            let front = Front { urgency: self.lines.waiter(waiter).urgency(), waiter, watch };
            match only {
                None => only = Some(front),
                Some(_) => fronts.push(Reverse(front)),
            }
        });
        self.scratch.fronts = fronts;
        only
    }

    /// Tries the most urgent watcher of a list, unless its key is taken again, and says who is the next of the list.
    fn try_again(&mut self, front: Front, granted: &mut Vec<Owner>) -> Option<Front> {
        let entry = self.lines.waiter(front.waiter).watched;
        if self.is_blocked(self.arena.used(entry)) {
            // What stops it stops all that want the same, and nothing more is given back meanwhile.
            return None;
        }
        let next = self.lines.after(front.waiter, front.watch).map(|waiter| Front {
            urgency: self.lines.waiter(waiter).urgency(),
            waiter,
            ..front
        });
        self.lines.unpark(front.waiter, front.watch);
        let slot = self.lines.waiter(front.waiter).owner;
        let record = *self.owners.get(slot);
        let blocked = record.entries().find(|&entry| self.is_blocked(self.arena.used(entry)));
        let Some(blocked) = blocked else {
            for entry in record.entries() {
                self.mark(entry);
            }
            self.owners.get_mut(slot).waiter = NONE;
            self.lines.remove(front.waiter);
            granted.push(record.owner);
            return next;
        };
        let waiter = self.lines.waiter_mut(front.waiter);
        waiter.tries += 1;
        if waiter.tries >= self.limits.tries_max {
            self.take_ticket(front.waiter);
        } else {
            self.park(front.waiter, blocked);
        }
        next
    }

    /// Closes the line of a key when nobody is left in it.
    fn close_line(&mut self, key: Key) {
        let cell = &mut self.cells[key.0 as usize];
        if cell.line != NONE && self.lines.close_if_empty(cell.line) {
            cell.line = NONE;
        }
    }
}

/// Whether none of those in line fits beside what is taken.
fn nobody_fits(taken: u64, lined: u64) -> bool {
    let fits = |mode: Mode| lined & COUNTERS[mode as usize] != 0 && taken & FORBIDS[mode as usize] == 0;
    ![Mode::ReadBelow, Mode::WriteBelow, Mode::Read, Mode::Write].into_iter().any(fits)
}
