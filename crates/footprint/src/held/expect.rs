//! Fetching ahead: what is needed soon is on its way from memory while other work is done.
//!
//! A run that waits is a chain of things that lie far apart: its record, its keys, their lines, who stands there. One after
//! another each costs a fetch; of several runs at once they cost one together. Nothing here changes an answer.

use std::hint::black_box;

use super::{Owner, Request, Reservations};
use crate::chains::NONE;

/// Owners or requests that are fetched for at once: what they need fits the first cache.
const TOGETHER: usize = 16;

/// Fewer keys than this stay in the nearer caches, and fetching ahead costs more than it saves.
const KEYS_MIN: usize = if cfg!(test) { 2 } else { 1 << 16 };

impl Reservations {
    /// As [`release`](Reservations::release) for one owner after another, and faster: what must be fetched from memory is
    /// fetched for several at once. Says how many held anything.
    pub fn release_all(&mut self, owners: &[Owner], granted: &mut Vec<Owner>) -> usize {
        let mut released = 0;
        for some in owners.chunks(TOGETHER) {
            if self.cells.len() >= KEYS_MIN {
                self.expect_ends(some);
            }
            released += some.iter().filter(|&&owner| self.release(owner, granted)).count();
        }
        released
    }

    /// Has what these requests need on its way, for whoever will [wait](Reservations::wait) with them next. A few at a
    /// time are best, so it looks at the first of many only.
    pub fn expect<'a>(&self, requests: impl IntoIterator<Item = &'a Request>) {
        if self.cells.len() < KEYS_MIN {
            return;
        }
        let mut lines = [NONE; TOGETHER];
        for (request, line) in requests.into_iter().zip(&mut lines) {
            for at in request.uses() {
                let Some(cell) = self.cells.get(at.key.0 as usize) else { continue };
                *line = (*line).min(cell.line);
            }
        }
        let firsts = lines.map(|line| self.lines.first(line));
        let lasts = firsts.map(|first| self.arena.find(first).map_or(NONE, |entry| entry.prev));
        let seen =
            lasts.iter().filter_map(|&last| self.arena.find(last)).fold(0, |seen, last| seen ^ last.next);
        // What was seen is of no use; that it was fetched is.
        black_box(seen);
    }

    /// Has what the ends of these owners need on its way.
    fn expect_ends(&self, owners: &[Owner]) {
        let mut starts = [(0, 0); TOGETHER];
        for (&owner, start) in owners.iter().zip(&mut starts) {
            if let Some(slot) = self.owners.find(owner) {
                let record = self.owners.get(slot);
                *start = (record.start, record.len);
            }
        }
        let mut lines = [NONE; TOGETHER];
        for (&(start, len), line) in starts.iter().zip(&mut lines) {
            for entry in (start..start + len).filter_map(|entry| self.arena.find(entry)) {
                let Some(cell) = self.cells.get(entry.key().0 as usize) else { continue };
                *line = (*line).min(cell.line);
            }
        }
        let firsts = lines.map(|line| self.lines.first(line));
        let waiting = firsts.map(|first| self.arena.find(first).map_or(NONE, |entry| entry.owner()));
        let waiters = waiting.map(|slot| if slot == NONE { NONE } else { self.owners.get(slot).waiter });
        let waiters = waiters.into_iter().filter(|&waiter| waiter != NONE);
        black_box(waiters.fold(0, |seen, waiter| seen ^ self.lines.waiter(waiter).number));
    }
}
