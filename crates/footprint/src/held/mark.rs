//! Marks: taking keys, and giving them back.

use super::blocks::State;
use super::cell::{Cell, Kind, ONE, Queue};
use super::{Key, Reservations, Use};
use crate::Mode;
use crate::chains::NONE;

impl Reservations {
    /// Marks the use that an entry stands for, which nothing stops.
    #[inline]
    pub(super) fn mark(&mut self, entry: u32, Use { key, mode, units }: Use) {
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
    pub(super) fn unmark(&mut self, entry: u32) {
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

    /// Gives a key that one had alone to the first of its queue.
    #[inline(always)]
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
}
