//! Marking, and what a mark that is taken away allows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::blocks::State;
use super::cell::{ALONE, COUNTERS, Cell, FORBIDS, Kind, ONE, Queue};
use super::line::Line;
use super::look::is_short;
use super::watch::Urgency;
use super::{Key, Owner, Reservations, Use};
use crate::Mode;
use crate::chains::NONE;

/// Tickets passed over at one key while looking for those that may go on. Far behind one that is stopped, whoever could
/// go on waits a little longer: the work of one release stays bounded.
const PASS_MAX: u32 = 1_000;

/// Lists that are used again and again.
#[derive(Default)]
pub(super) struct Scratch {
    /// Keys with a line that were given back.
    pub(super) freed: Vec<Key>,
    /// Keys with a queue of watchers that were given back, and that queue.
    watched: Vec<(Key, Queue)>,
    /// Slots of owners that have all they stood in line for.
    complete: Vec<u32>,
    /// The most urgent watcher of each list that may go on.
    fronts: BinaryHeap<Reverse<Front>>,
}

/// The most urgent of those that watch for the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Front {
    urgency: Urgency,
    /// The entry that watches.
    entry: u32,
}

impl Reservations {
    /// Marks the use that an entry stands for, which nothing stops.
    #[inline]
    fn mark(&mut self, entry: u32, Use { key, mode, units }: Use) {
        let cell = self.cells.at_mut(key);
        cell.held += ONE[mode as usize] + u64::from(units);
        self.blocks.link(&mut cell.head, entry, mode != Mode::ReadBelow);
    }

    /// Marks all uses of an owner.
    pub(super) fn mark_all(&mut self, slot: u32) {
        for entry in self.blocks.entries(slot) {
            self.mark(entry, self.blocks.used(entry));
        }
    }

    /// Links the entries of an owner whose keys others hold as well; they are counted already.
    #[cold]
    pub(super) fn link_all(&mut self, slot: u32) {
        for entry in self.blocks.entries(slot) {
            let used = self.blocks.get(entry).used;
            let cell = self.cells.at_mut(used.key());
            if cell.head != entry {
                self.blocks.link(&mut cell.head, entry, used.mode() != Mode::ReadBelow);
            }
        }
    }

    /// Takes away the marks of an owner that holds. Says whether there is anybody for [`serve`](Reservations::serve).
    #[inline(always)]
    pub(super) fn unmark_all(&mut self, slot: u32) -> bool {
        let entries = self.blocks.entries(slot);
        let first = self.blocks.first_entries(slot);
        let (len, mut others) = (first.len() as u32, self.cells.unmark(first, entries.start));
        let is_awaited = others != 0 || len < entries.len() as u32;
        while others != 0 {
            self.unmark(entries.start + others.trailing_zeros());
            others &= others - 1;
        }
        for entry in entries.start + len..entries.end {
            self.unmark(entry);
        }
        is_awaited
    }

    /// Takes away one mark.
    fn unmark(&mut self, entry: u32) {
        let Use { key, mode, units } = self.blocks.used(entry);
        let cell = self.cells.at_mut(key);
        match cell.queue() {
            Some(Queue { kind: Kind::Tickets, .. }) => return self.pass_on(key),
            Some(queue) => {
                *cell = Cell::FREE;
                self.scratch.watched.push((key, queue));
                return;
            }
            None if cell.line != NONE => self.scratch.freed.push(key),
            None => {}
        }
        cell.held -= ONE[mode as usize] + u64::from(units);
        self.blocks.unlink(&mut cell.head, entry);
    }

    /// Takes away the marks of an owner with a ticket, and its places in line.
    pub(super) fn leave_lines(&mut self, slot: u32) {
        for entry in self.blocks.entries(slot) {
            if !self.blocks.get(entry).used.is_in_line() {
                self.unmark(entry);
                continue;
            }
            let key = self.blocks.get(entry).used.key();
            let line = self.line_of(key);
            self.lines.at_mut(line).leave(entry, &mut self.blocks);
            self.scratch.freed.push(key);
        }
    }

    /// Gives a key that one had alone to the first of its queue.
    fn pass_on(&mut self, key: Key) {
        let cell = self.cells.at_mut(key);
        let Some(mut queue) = cell.queue() else { return };
        let first = queue.list.first;
        let entry = self.blocks.get_mut(first);
        queue.list.first = entry.next;
        queue.len -= 1;
        (entry.next, entry.prev) = (first, first);
        entry.used.set_in_line(false);
        cell.set_queue(queue);
        cell.head = first;
        let slot = self.blocks.slot(first);
        if self.blocks.is_served(slot) {
            self.scratch.complete.push(slot);
        }
    }

    /// Lets go on whoever can, now that marks were taken away: first those in line, then those that watch.
    #[inline]
    pub(super) fn serve(&mut self, granted: &mut Vec<Owner>) {
        match (self.scratch.freed.len(), self.scratch.watched.len()) {
            (0, 0) => self.grant_complete(granted),
            (0, 1) => self.serve_queue(granted),
            _ => self.serve_lines(granted),
        }
    }

    /// Tries those of the one queue of watchers whose key was given back, until one has the key.
    fn serve_queue(&mut self, granted: &mut Vec<Owner>) {
        self.grant_complete(granted);
        let Some((key, mut queue)) = self.scratch.watched.pop() else { return };
        while queue.len > 0 && self.cells.at(key).head == NONE {
            let first = queue.list.first;
            queue.list.first = self.blocks.get(first).next;
            queue.len -= 1;
            self.try_again(first, granted);
        }
        if queue.len > 0 {
            self.cells.at_mut(key).set_queue(queue);
        }
    }

    #[inline]
    fn grant_complete(&mut self, granted: &mut Vec<Owner>) {
        let ticket = |slot: u32| self.watches.wait(slot).number;
        match self.scratch.complete[..] {
            [] | [_] => {}
            [ref mut one, ref mut other] => {
                if ticket(*one) > ticket(*other) {
                    std::mem::swap(one, other);
                }
            }
            ref mut all => all.sort_unstable_by_key(|&slot| ticket(slot)),
        }
        for &slot in &self.scratch.complete {
            granted.push(self.blocks.owner(slot));
        }
        self.scratch.complete.clear();
    }

    fn serve_lines(&mut self, granted: &mut Vec<Owner>) {
        let mut freed = std::mem::take(&mut self.scratch.freed);
        for (key, queue) in self.scratch.watched.drain(..) {
            self.cells.at_mut(key).line = self.lines.open(Line::of_queue(queue));
            freed.push(key);
        }
        let mut only = None;
        for &key in &freed {
            self.advance(key);
        }
        self.grant_complete(granted);
        for &key in &freed {
            only = self.note_fronts(key, only);
        }
        // Mostly there is one list, whose order is that of urgency.
        while let Some(front) = only {
            let next = self.try_front(front, granted);
            only = match self.scratch.fronts.peek_mut() {
                None => next,
                Some(mut top) => match next {
                    Some(next) if next < top.0 => Some(next),
                    Some(next) => Some(std::mem::replace(&mut *top, Reverse(next)).0),
                    None => Some(std::collections::binary_heap::PeekMut::pop(top).0),
                },
            };
        }
        for &key in &freed {
            self.settle(key);
        }
        self.scratch.freed = freed;
        self.scratch.freed.clear();
    }

    /// Marks all uses of an owner that is placed, or says which entry is the first that is stopped.
    pub(super) fn mark_or_stop(&mut self, slot: u32) -> Option<u32> {
        let mut entries = self.blocks.entries(slot);
        let stopped = entries.find(|&entry| self.is_blocked(self.blocks.used(entry)));
        if stopped.is_none() {
            self.mark_all(slot);
            self.blocks.set_state(slot, State::Holds);
        }
        stopped
    }

    /// Lets an owner watch the key of an entry.
    pub(super) fn park(&mut self, slot: u32, entry: u32) {
        self.blocks.set_state(slot, State::Watches(entry));
        if !self.join_queue(entry, Kind::Watchers) {
            let line = self.line_of(self.blocks.get(entry).used.key());
            self.watches.park(self.lines.at_mut(line), entry, &mut self.blocks);
        }
    }

    /// Lets an entry watch no more.
    pub(super) fn unpark(&mut self, entry: u32) {
        let key = self.blocks.get(entry).used.key();
        let line = self.line_of(key);
        self.watches.unpark(self.lines.at_mut(line), entry, &mut self.blocks);
        self.settle(key);
    }

    /// Puts a waiter in line for all its keys at once. What is free is its own from now on.
    pub(super) fn take_ticket(&mut self, slot: u32) {
        let entries = self.blocks.entries(slot);
        let first = self.blocks.first_entries(slot);
        let (len, mut others) = (first.len() as u32, self.cells.mark_unused(first, entries.start));
        let mut in_line = 0;
        while others != 0 {
            in_line += u32::from(!self.mark_or_join(entries.start + others.trailing_zeros()));
            others &= others - 1;
        }
        for entry in entries.start + len..entries.end {
            in_line += u32::from(!self.mark_or_join(entry));
        }
        self.blocks.set_state(slot, State::InLine(in_line));
        self.numbers += 1;
        self.watches.wait_mut(slot).number = self.numbers;
    }

    /// Marks one use, or puts its entry in line. Says whether nothing stopped it.
    #[inline]
    fn mark_or_join(&mut self, entry: u32) -> bool {
        let wanted = self.blocks.used(entry);
        if !self.is_blocked(wanted) {
            self.mark(entry, wanted);
            return true;
        }
        self.blocks.get_mut(entry).used.set_in_line(true);
        if !self.join_queue(entry, Kind::Tickets) {
            let line = self.line_of(wanted.key);
            self.lines.at_mut(line).join(entry, &mut self.blocks);
        }
        false
    }

    /// Puts an entry last in the queue of its key, if the key has one for it or can have one.
    #[inline]
    fn join_queue(&mut self, entry: u32, kind: Kind) -> bool {
        let (key, mode) = (self.blocks.get(entry).used.key(), self.blocks.get(entry).used.mode());
        let cell = self.cells.at_mut(key);
        if !cell.is_alone() || ONE[mode as usize] != ALONE {
            return false;
        }
        let Some(mut queue) = cell.queue_for(kind) else { return false };
        match kind {
            Kind::Tickets => self.blocks.push(&mut queue.list, entry),
            Kind::Watchers if self.watches.join(&mut queue.list, entry, &mut self.blocks) => {}
            Kind::Watchers => return false,
        }
        queue.len += 1;
        cell.set_queue(queue);
        true
    }

    /// The line of a key. A queue becomes one.
    fn line_of(&mut self, key: Key) -> u32 {
        let cell = self.cells.at_mut(key);
        if let Some(line) = cell.line() {
            return line;
        }
        let line = match cell.queue() {
            Some(queue) => {
                cell.held = ALONE;
                Line::of_queue(queue)
            }
            None => Line::new(None),
        };
        cell.line = self.lines.open(line);
        cell.line
    }

    /// Makes a queue of a line when that says all, and closes it when nobody is left.
    fn settle(&mut self, key: Key) {
        let cell = self.cells.at_mut(key);
        let Some(at) = cell.line() else { return };
        let line = self.lines.at(at);
        if line.is_empty() {
            cell.line = NONE;
            self.lines.close(at);
        } else if cell.is_alone()
            && let Some(queue) = line.as_queue()
        {
            cell.set_queue(queue);
            self.lines.close(at);
        }
    }

    /// Gives a key to those in line for it that nothing before them stops.
    fn advance(&mut self, key: Key) {
        let cell = self.cells.at_mut(key);
        let Some(line) = cell.line() else { return };
        let line = self.lines.at_mut(line);
        let (mut at, last) = (line.tickets.first, line.tickets.last);
        let (mut passed, mut before) = (0, 0);
        while at != NONE {
            let Use { mode, units, .. } = self.blocks.used(at);
            let one = ONE[mode as usize] + u64::from(units);
            let stopped = match line.capacity {
                Some(capacity) => is_short(cell.held, units, capacity),
                None => (cell.held | before) & FORBIDS[mode as usize] != 0,
            };
            let (this, next) = (at, self.blocks.get(at).next);
            if stopped {
                passed += 1;
                before |= one;
                // Of a pool, the first that lacks units stops all. Of other keys, go on while some in line could.
                if line.capacity.is_some()
                    || passed == PASS_MAX
                    || nobody_fits(cell.held | before, line.lined)
                {
                    return;
                }
            } else {
                line.leave(this, &mut self.blocks);
                self.blocks.get_mut(this).used.set_in_line(false);
                cell.held += one;
                self.blocks.link(&mut cell.head, this, mode != Mode::ReadBelow);
                let slot = self.blocks.slot(this);
                if self.blocks.is_served(slot) {
                    self.scratch.complete.push(slot);
                }
            }
            at = if this == last { NONE } else { next };
        }
    }

    /// Notes the most urgent of each list at a key that its state does not stop, and says who is the first of all.
    fn note_fronts(&mut self, key: Key, mut only: Option<Front>) -> Option<Front> {
        let Some(line) = self.cells.at(key).line().map(|line| self.lines.at(line)) else { return only };
        if line.watchers == 0 {
            return only;
        }
        let mut fronts = std::mem::take(&mut self.scratch.fronts);
        let free = |wanted| !self.is_blocked(wanted);
        self.watches.fronts(key, line, free, |entry| {
            let front = Front { urgency: self.watches.urgency(self.blocks.slot(entry)), entry };
            match only {
                Some(before) => {
                    fronts.push(Reverse(front.max(before)));
                    only = Some(front.min(before));
                }
                None => only = Some(front),
            }
        });
        self.scratch.fronts = fronts;
        only
    }

    /// Tries the most urgent watcher of a list, unless its key is taken again, and says who is the next of the list.
    fn try_front(&mut self, Front { entry, .. }: Front, granted: &mut Vec<Owner>) -> Option<Front> {
        let wanted = self.blocks.used(entry);
        if self.is_blocked(wanted) {
            // What stops it stops all that want the same, and nothing more is given back meanwhile.
            return None;
        }
        let at = self.line_of(wanted.key);
        let line = self.lines.at_mut(at);
        let next = self
            .watches
            .after(line, entry, &self.blocks)
            .map(|entry| Front { urgency: self.watches.urgency(self.blocks.slot(entry)), entry });
        self.watches.unpark(line, entry, &mut self.blocks);
        self.try_again(entry, granted);
        next
    }

    /// Tries one that watched until now.
    fn try_again(&mut self, entry: u32, granted: &mut Vec<Owner>) {
        let slot = self.blocks.slot(entry);
        // A ring of its own again.
        let watched = self.blocks.get_mut(entry);
        (watched.next, watched.prev) = (entry, entry);
        let Some(stopped) = self.mark_or_stop(slot) else {
            granted.push(self.blocks.owner(slot));
            return;
        };
        let wait = self.watches.wait_mut(slot);
        wait.tries += 1;
        if wait.tries >= self.limits.tries_max {
            self.take_ticket(slot);
        } else {
            self.park(slot, stopped);
        }
    }
}

/// Whether none of those in line fits beside what is taken.
fn nobody_fits(taken: u64, lined: u64) -> bool {
    let fits = |mode: Mode| lined & COUNTERS[mode as usize] != 0 && taken & FORBIDS[mode as usize] == 0;
    ![Mode::ReadBelow, Mode::WriteBelow, Mode::Read, Mode::Write].into_iter().any(fits)
}
