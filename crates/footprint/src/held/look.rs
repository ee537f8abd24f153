//! Looking, without marking: is it free, who is in the way, why.

use super::blocks::State;
use super::cell::{Cell, FORBIDS, ONE};
use super::line::Line;
use super::list::List;
use super::request::Packed;
use super::{Blocked, Error, Key, Owner, PLACE_MAX, Reservations, Use, Why};
use crate::Mode;
use crate::chains::NONE;

/// Tickets looked at to find one that is in the way. The first nearly always is; where it is not, naming it is near enough.
const LOOK_MAX: usize = 16;

/// What a request finds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// All its keys are free for it, and nobody waits for any of them.
    Free,
    /// Some are taken, or somebody waits, or units must be counted.
    Taken,
}

impl Reservations {
    /// Why an owner waits; none when it does not.
    pub fn why(&self, owner: Owner) -> Option<Why> {
        let slot = self.find(owner)?;
        let state = self.blocks.state(slot);
        if state == State::Holds {
            return None;
        }
        let wait = self.watches.wait(slot);
        let in_line = |entry: &u32| self.blocks.get(*entry).used.is_in_line();
        let (entry, ticket) = match state {
            State::Watches(entry) => (entry, false),
            _ => (self.blocks.entries(slot).find(in_line)?, true),
        };
        let wanted = self.blocks.used(entry);
        let line = self.look_at_line(wanted.key);
        let place = if ticket {
            let before = |&at: &u32| at != entry;
            self.blocks.walk(line.tickets).take(PLACE_MAX as usize).take_while(before).count() as u32
        } else {
            self.watches.before(wanted.key, &line, self.watches.urgency(slot), PLACE_MAX, &self.blocks)
        };
        let blocked = self.blocked_at(wanted, if ticket { entry } else { NONE });
        Some(Why { blocked, ticket, place, tries: wait.tries })
    }

    /// Looks at the keys of a request: one decision for all of them.
    #[inline(always)]
    pub(super) fn look(&self, uses: &[Packed]) -> Result<Look, Error> {
        let (mut taken, mut gone) = (0, false);
        for wanted in uses {
            let Some(cell) = self.cells.get(wanted.key()) else { return Err(self.forgotten(uses)) };
            taken |= cell.held & FORBIDS[wanted.mode_number()] | u64::from(cell.line != NONE);
            gone |= cell.is_gone();
        }
        match gone {
            true => Err(self.forgotten(uses)),
            false if taken == 0 => Ok(Look::Free),
            false => Ok(Look::Taken),
        }
    }

    /// Says which key is not known any more, even where something else is in the way.
    #[cold]
    fn forgotten(&self, uses: &[Packed]) -> Error {
        let gone = |key: &Key| self.cells.get(*key).is_none_or(Cell::is_gone);
        uses.iter().map(|at| at.key()).find(gone).map_or(Error::Full, Error::Forgotten)
    }

    /// Whether a use is not to be had, against those that hold and those with a ticket.
    #[inline]
    pub(super) fn is_blocked(&self, wanted: Use) -> bool {
        let cell = self.cells.at(wanted.key);
        let forbids = FORBIDS[wanted.mode as usize];
        let held = cell.held & forbids != 0;
        // Who waits in a queue waits for one that has the key alone.
        if held || cell.line == NONE {
            return held;
        }
        let Some(line) = cell.line().map(|line| self.lines.at(line)) else { return held };
        match line.capacity {
            Some(capacity) => is_short(cell.held + line.lined, wanted.units, capacity),
            None => line.lined & forbids != 0,
        }
    }

    /// What stops a use that is stopped. With a ticket, `entry` is its place in line: only those before it count.
    pub(super) fn blocked_at(&self, wanted: Use, entry: u32) -> Blocked {
        let cell = self.cells.at(wanted.key);
        let forbids = FORBIDS[wanted.mode as usize];
        let tickets = cell.line().map_or(List::EMPTY, |line| self.lines.at(line).tickets);
        let by_holder = cell.held & forbids != 0 || wanted.mode == Mode::Units || tickets.is_empty();
        let at = if cell.head != NONE && by_holder {
            cell.head
        } else {
            let mut before = self.blocks.walk(tickets).take(LOOK_MAX).take_while(|&at| at != entry);
            let excluded = |&at: &u32| ONE[self.blocks.get(at).used.mode() as usize] & forbids != 0;
            before.find(excluded).unwrap_or(tickets.first)
        };
        let slot = self.blocks.slot(at);
        Blocked {
            key: wanted.key,
            wanted: wanted.mode,
            mode: self.blocks.get(at).used.mode(),
            holder: self.blocks.owner(slot),
            in_line: !self.blocks.holds(slot),
        }
    }

    /// The line of a key, or what it would be.
    fn look_at_line(&self, key: Key) -> Line {
        let cell = self.cells.at(key);
        match cell.line() {
            Some(line) => *self.lines.at(line),
            None => cell.queue().map_or(Line::new(None), Line::of_queue),
        }
    }
}

/// Whether units are lacking. Who finds a pool untouched may have what it was promised, even of a capacity that was
/// lowered since: else it would wait for ever.
pub(super) fn is_short(taken: u64, units: u32, capacity: u32) -> bool {
    taken > 0 && taken + u64::from(units) > u64::from(capacity)
}
