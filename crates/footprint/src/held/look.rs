//! Looking, without marking: is it free, who is in the way, why.

use super::cell::{FORBIDS, FORGOTTEN, ONE};
use super::{Blocked, Error, Key, Owner, PLACE_MAX, Reservations, Use, Why};
use crate::Mode;
use crate::chains::NONE;

/// Tickets looked at to find one that is in the way. The first nearly always is; where it is not, naming it is near enough.
const LOOK_MAX: usize = 16;

impl Reservations {
    /// Why an owner waits; none when it does not.
    pub fn why(&self, owner: Owner) -> Option<Why> {
        let slot = self.owners.find(owner)?;
        let waiter = self.lines.waiter(self.owners.waiter(slot)?);
        let tries = waiter.tries;
        if waiter.has_ticket {
            let entry = self.owners.get(slot).entries().find(|&entry| self.arena.get(entry).is_in_line())?;
            let wanted = self.arena.used(entry);
            let place = self.place_in_line(wanted.key, entry);
            return Some(Why { blocked: self.blocked_at(wanted, entry), ticket: true, place, tries });
        }
        let wanted = self.arena.used(waiter.watched);
        let line = self.cells[wanted.key.0 as usize].line;
        let place = self.lines.before(wanted.key.0, line, waiter.urgency(), PLACE_MAX);
        Some(Why { blocked: self.blocked_at(wanted, NONE), ticket: false, place, tries })
    }

    /// The first use that is not to be had, against those that hold and those with a ticket.
    #[inline]
    pub(super) fn first_blocked(&self, uses: &[Use]) -> Result<Option<usize>, Error> {
        for (at, wanted) in uses.iter().enumerate() {
            let cell = self.cells.get(wanted.key.0 as usize).ok_or(Error::Forgotten(wanted.key))?;
            let held = cell.held & FORBIDS[wanted.mode as usize] != 0;
            if held || cell.line != NONE {
                if cell.line == FORGOTTEN {
                    return Err(Error::Forgotten(wanted.key));
                }
                if held || self.is_blocked(*wanted) {
                    // What is forgotten is said, even where something else is in the way.
                    let gone = |at: &&Use| {
                        self.cells.get(at.key.0 as usize).is_none_or(|cell| cell.line == FORGOTTEN)
                    };
                    return match uses[at..].iter().find(gone) {
                        Some(gone) => Err(Error::Forgotten(gone.key)),
                        None => Ok(Some(at)),
                    };
                }
            }
        }
        Ok(None)
    }

    /// Whether a use is not to be had, against those that hold and those with a ticket.
    pub(super) fn is_blocked(&self, wanted: Use) -> bool {
        let cell = &self.cells[wanted.key.0 as usize];
        let forbids = FORBIDS[wanted.mode as usize];
        if cell.held & forbids != 0 || cell.line == NONE {
            return cell.held & forbids != 0;
        }
        let line = self.lines.line(cell.line);
        match line.capacity {
            Some(capacity) => is_short(cell.held + line.lined, wanted.units, capacity),
            None => line.lined & forbids != 0,
        }
    }

    /// What stops a use that is stopped. With a ticket, `entry` is its place in line: only those before it count.
    pub(super) fn blocked_at(&self, wanted: Use, entry: u32) -> Blocked {
        let cell = &self.cells[wanted.key.0 as usize];
        let stopped_by_holder = cell.held & FORBIDS[wanted.mode as usize] != 0;
        let first = if cell.line == NONE { NONE } else { self.lines.line(cell.line).first };
        let at = match (cell.head, first) {
            (head, _) if head != NONE && (stopped_by_holder || wanted.mode == Mode::Units) => head,
            (head, NONE) => head,
            (_, first) => {
                let mut at = first;
                for _ in 0..LOOK_MAX {
                    let excluded =
                        ONE[self.arena.get(at).mode() as usize] & FORBIDS[wanted.mode as usize] != 0;
                    if at == entry || excluded {
                        break;
                    }
                    at = self.arena.get(at).next;
                }
                if at == entry { first } else { at }
            }
        };
        let in_the_way = self.arena.get(at);
        let owner = self.owners.get(in_the_way.owner());
        Blocked {
            key: wanted.key,
            wanted: wanted.mode,
            mode: in_the_way.mode(),
            holder: owner.owner,
            in_line: owner.waiter != NONE,
        }
    }

    fn place_in_line(&self, key: Key, entry: u32) -> u32 {
        let mut at = self.lines.line(self.cells[key.0 as usize].line).first;
        let mut place = 0;
        while at != entry && place < PLACE_MAX {
            place += 1;
            at = self.arena.get(at).next;
        }
        place
    }
}

/// Whether units are lacking. Who finds a pool untouched may have what it was promised, even of a capacity that was
/// lowered since: else it would wait for ever.
pub(super) fn is_short(taken: u64, units: u32, capacity: u32) -> bool {
    taken > 0 && taken + u64::from(units) > u64::from(capacity)
}
