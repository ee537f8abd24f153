//! Several shares of one attempt at one worker, when there are fewer workers than shares: they take turns, in order, and
//! the worker knows each by a number of its own.

use cadran_core::Address;

use crate::journal::{ATTEMPTS_MAX, Key};
use crate::xxl::table::{Entry, Share};

/// Shares of one attempt that one worker may have: what fits above [`ATTEMPTS_MAX`]. A group has fewer members.
pub(super) const TURNS_MAX: u32 = u32::MAX / ATTEMPTS_MAX;

impl Key {
    /// The name at the worker of the share whose turn it is.
    pub(super) fn at_turn(self, turn: u32) -> Key {
        let above = turn.min(TURNS_MAX) * ATTEMPTS_MAX;
        Key { attempt: above + self.attempt % ATTEMPTS_MAX, ..self }
    }

    /// The attempt, and the turn, behind a name at a worker.
    pub(super) fn and_turn(self) -> (Key, u32) {
        (Key { attempt: self.attempt % ATTEMPTS_MAX, ..self }, self.attempt / ATTEMPTS_MAX)
    }
}

impl Entry {
    /// Which turn a share has at its worker: 0 for the first that the worker has of the attempt.
    pub(super) fn turn(&self, index: u32) -> u32 {
        let Some(share) = self.shares.iter().find(|share| share.seat.index == index) else { return 0 };
        let before = self.shares.iter().take_while(|other| other.seat.index != index);
        before.filter(|other| other.seat.address == share.seat.address).count() as u32
    }

    /// The share that a worker means by a turn.
    pub(super) fn share_at(&mut self, address: &Address, turn: u32) -> Option<&mut Share> {
        self.shares.iter_mut().filter(|share| share.seat.address == *address).nth(turn as usize)
    }

    /// The first share of a worker that is not over.
    pub(super) fn first_open_at(&mut self, address: &Address) -> Option<&mut Share> {
        self.shares.iter_mut().find(|share| share.seat.address == *address && share.end.is_none())
    }
}

#[cfg(test)]
mod tests {
    use cadran_core::{RunId, StepNo};

    use super::*;

    #[test]
    fn names_at_workers_come_back() {
        for (attempt, turn) in [(1, 0), (7, 1), (ATTEMPTS_MAX - 1, TURNS_MAX), (0, 3)] {
            let key = Key { run: RunId::from_raw(5), step: StepNo(2), attempt };
            assert_eq!(key.at_turn(turn).and_turn(), (key, turn));
        }
    }
}
