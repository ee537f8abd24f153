//! What marks that were taken away allow: those in line go on, then those that watch, the most urgent first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::cell::{COUNTERS, FORBIDS, ONE, Queue};
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
    pub(super) watched: Vec<(Key, Queue)>,
    /// Slots of owners that have all they stood in line for.
    pub(super) complete: Vec<u32>,
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
    /// Lets go on whoever can, now that marks were taken away: first those in line, then those that watch.
    #[inline(always)]
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

    /// Grants those that have all they stood in line for, in the order of their tickets.
    #[inline(always)]
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

    /// Serves all keys that were given back, each with a line.
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
                    None => Some(PeekMut::pop(top).0),
                },
            };
        }
        for &key in &freed {
            self.settle(key);
        }
        self.scratch.freed = freed;
        self.scratch.freed.clear();
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
