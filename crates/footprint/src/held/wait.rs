//! Beginning and ceasing to wait: watching one key, or in line for all with a ticket.
//!
//! Who waits at a key stands in the [`Queue`](super::cell::Queue) of its cell, which is short, or in a [`Line`], which says
//! all there is to say. One becomes the other when it must, and back when it can.

use super::blocks::State;
use super::cell::{ALONE, Kind, ONE};
use super::line::Line;
use super::{Key, Reservations};
use crate::chains::NONE;

impl Reservations {
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
    #[inline(always)]
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
    #[inline(always)]
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
    pub(super) fn line_of(&mut self, key: Key) -> u32 {
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
    pub(super) fn settle(&mut self, key: Key) {
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
}
