//! Footprints held for as long as the work runs: `acquire`, `wait`, `release`.
//!
//! Paths become [`Key`]s, keys and the ways to use them a [`Request`], and an owner holds all of its request or nothing.
//! A key stands for everything below it: a use marks the keys above it as used below ([`Mode::ReadBelow`],
//! [`Mode::WriteBelow`]), so a parent conflicts with what lies below and siblings do not. A pool is a key with a
//! capacity, of which units are taken.
//!
//! # Waiting
//!
//! Who cannot have its request may wait. At first it waits *eagerly*: others that are free may pass it. It watches the
//! one key that stopped it and is tried again when that key is free for it, more urgent waiters first (lower rank, then
//! earlier arrival). After [`Limits::tries_max`] lost tries, or when the caller says so, it takes a *ticket*: a place in
//! line for all its keys at once. From then on nothing passes that conflicts with it, so it waits only for those that hold
//! and those with earlier tickets. No cycle of waits can arise, and every wait ends when those before it end. Keys that are
//! [`ordered`](Reservations::set_ordered) give a ticket at once.
//!
//! # Keys and memory
//!
//! [`Reservations::forget_unused`] forgets the keys that nobody holds or awaits. Everything else is held in flat lists that
//! are used again, so a steady load allocates nothing.

mod answer;
mod blocks;
mod cell;
mod expect;
mod key;
mod line;
mod list;
mod look;
mod mark;
mod owners;
mod request;
mod serve;
#[cfg(test)]
mod tests;
mod wait;
mod watch;

pub use answer::{Blocked, Error, PLACE_MAX, Refusal, Standing, Why};
pub use cell::OWNERS_MAX;
pub use key::{DEPTH_MAX, Key, segments};
pub use request::{ENTRIES_MAX, KEYS_MAX, Need, Request, Use};

use crate::Mode;
use crate::chains::NONE;
use blocks::{Blocks, State};
use cell::{Cell, Cells};
use key::Keys;
use line::{Line, Lines};
use look::Look;
use owners::{Owners, Tag};
use request::Packed;
use watch::Watches;

/// Who holds or waits: a number of the caller's choice.
pub type Owner = u64;

/// Which waiter is tried first: the lowest. Equal ranks are tried in the order of arrival.
pub type Rank = u128;

/// Bounds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Owners that may hold or wait at once. At most [`OWNERS_MAX`].
    pub owners_max: usize,
    /// Tries that a waiter may lose before it takes a ticket.
    pub tries_max: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { owners_max: OWNERS_MAX, tries_max: 4 }
    }
}

/// Who holds what, and who waits for it.
pub struct Reservations {
    limits: Limits,
    keys: Keys,
    /// What is marked on each key, by its number.
    cells: Cells,
    owners: Owners,
    blocks: Blocks,
    lines: Lines,
    watches: Watches,
    /// Waiters and tickets so far.
    numbers: u64,
    scratch: serve::Scratch,
}

impl Reservations {
    /// With nobody inside.
    pub fn new(limits: Limits) -> Reservations {
        Reservations {
            limits: Limits { owners_max: limits.owners_max.min(OWNERS_MAX), ..limits },
            keys: Keys::default(),
            cells: Cells::default(),
            owners: Owners::default(),
            blocks: Blocks::default(),
            lines: Lines::default(),
            watches: Watches::default(),
            numbers: 0,
            scratch: serve::Scratch::default(),
        }
    }

    /// The key of a path, made when it is new. A name is split by [`segments`].
    pub fn key<'a>(&mut self, path: impl IntoIterator<Item = &'a str>) -> Result<Key, Error> {
        let cells = &mut self.cells;
        self.keys.intern(path, |made| cells.make(made))
    }

    /// The segments of a key's path; none when it is forgotten.
    pub fn path(&self, key: Key) -> Vec<&str> {
        self.keys.path(key)
    }

    /// Gives a key a capacity, which makes it a pool, or changes it. Those that hold now what they waited for are added
    /// to `granted`. A key that is used otherwise, or has keys below it, cannot become a pool. Who was promised more
    /// units than a lowered capacity gives has them when nobody else has any.
    pub fn set_capacity(&mut self, key: Key, capacity: u32, granted: &mut Vec<Owner>) -> Result<(), Error> {
        let node = self.keys.node(key).ok_or(Error::Forgotten(key))?;
        if node.capacity.is_none() {
            let awaited = self
                .blocks
                .waiting()
                .any(|slot| self.blocks.entries(slot).any(|entry| self.blocks.get(entry).used.key() == key));
            let cell = self.cells.at_mut(key);
            if node.children > 0 || cell.held != 0 || cell.line != NONE || awaited {
                return Err(Error::Pool);
            }
            cell.line = self.lines.open(Line::new(Some(capacity)));
        } else if let Some(line) = self.cells.at(key).line() {
            self.lines.at_mut(line).capacity = Some(capacity);
        }
        if let Some(node) = self.keys.node_mut(key) {
            node.capacity = Some(capacity);
        }
        self.scratch.freed.push(key);
        self.serve(granted);
        Ok(())
    }

    /// Whether waiters of this key take a ticket at once, so that it is had in the order of asking.
    pub fn set_ordered(&mut self, key: Key, ordered: bool) -> Result<(), Error> {
        self.keys.set_ordered(key, ordered)
    }

    /// How many keys are known.
    pub fn keys_len(&self) -> usize {
        self.keys.len()
    }

    /// Forgets the keys that nobody holds or awaits, except pools and ordered keys, and says how many. A [`Key`] or
    /// [`Request`] that was made before and is not in use is good no more: call it between two admissions, not between
    /// making a request and using it. It walks all keys and waiters, so call it when [`keys_len`](Reservations::keys_len)
    /// has doubled.
    pub fn forget_unused(&mut self) -> usize {
        let mut used: Vec<bool> =
            self.cells.iter().map(|cell| cell.head != NONE || cell.line != NONE).collect();
        for slot in self.blocks.waiting() {
            for entry in self.blocks.entries(slot) {
                used[self.blocks.get(entry).used.key().0 as usize] = true;
            }
        }
        let cells = &mut self.cells;
        self.keys.forget(|key| used[key.0 as usize], |gone| *cells.at_mut(gone) = Cell::GONE)
    }

    /// Makes a request of needs.
    pub fn request(&self, needs: &[Need]) -> Result<Request, Error> {
        Request::new(needs, &self.keys)
    }

    /// Whether two owners may not have these requests at the same time: the first key at fault and how each would use
    /// it.
    pub fn conflict(&self, one: &Request, other: &Request) -> Option<(Key, Mode, Mode)> {
        one.conflict(other, |pool| self.keys.node(pool).and_then(|node| node.capacity).unwrap_or(0))
    }

    /// Takes all of the request, or nothing.
    pub fn acquire(&mut self, owner: Owner, request: &Request) -> Result<(), Refusal> {
        let tag = self.may_enter(owner, request)?;
        if self.look(request.packed())? == Look::Taken
            && let Some(wanted) = request.uses().find(|&wanted| self.is_blocked(wanted))
        {
            return Err(Refusal::Blocked(self.blocked_at(wanted, NONE)));
        }
        self.hold(owner, tag, request);
        Ok(())
    }

    /// As [`acquire`](Reservations::acquire), and waits when it cannot be had now.
    pub fn wait(&mut self, owner: Owner, rank: Rank, request: &Request) -> Result<Standing, Error> {
        let tag = self.may_enter(owner, request)?;
        if self.look(request.packed())? == Look::Free {
            self.hold(owner, tag, request);
            return Ok(Standing::Holds);
        }
        let slot = self.enter(owner, tag, request);
        self.numbers += 1;
        self.watches.begin(slot, rank, self.numbers);
        let is_ordered = |at: &Packed| self.keys.is_ordered(at.key());
        if self.limits.tries_max <= 1 || request.packed().iter().any(is_ordered) {
            self.take_ticket(slot);
        } else if let Some(stopped) = self.mark_or_stop(slot) {
            self.park(slot, stopped);
        }
        Ok(if self.blocks.holds(slot) { Standing::Holds } else { Standing::Waits })
    }

    /// Gives a waiter a ticket: from now on nothing that conflicts with it passes. Says whether it waited without one.
    pub fn ticket(&mut self, owner: Owner) -> bool {
        let Some(slot) = self.find(owner) else { return false };
        let State::Watches(entry) = self.blocks.state(slot) else { return false };
        self.unpark(entry);
        self.take_ticket(slot);
        true
    }

    /// Ends what an owner holds. Those that hold now what they waited for are added to `granted`: tickets first, in
    /// their order, then by rank. Says whether it held anything.
    pub fn release(&mut self, owner: Owner, granted: &mut Vec<Owner>) -> bool {
        let tag = Tag::new(owner);
        match self.owners.find(tag, owner, &self.blocks) {
            Some(slot) if self.blocks.holds(slot) => {
                self.end(owner, tag, slot, granted);
                true
            }
            _ => false,
        }
    }

    /// Ends the wait of an owner; those that it was in the way of are added to `granted`. Says whether it waited.
    pub fn withdraw(&mut self, owner: Owner, granted: &mut Vec<Owner>) -> bool {
        let Some(slot) = self.find(owner) else { return false };
        match self.blocks.state(slot) {
            State::Holds => return false,
            State::Watches(entry) => self.unpark(entry),
            State::InLine(_) => self.leave_lines(slot),
        }
        self.leave(owner, Tag::new(owner), slot);
        self.serve(granted);
        true
    }

    /// Where an owner stands, if it is here.
    pub fn standing(&self, owner: Owner) -> Option<Standing> {
        let slot = self.find(owner)?;
        Some(if self.blocks.holds(slot) { Standing::Holds } else { Standing::Waits })
    }

    /// How many hold or wait.
    pub fn len(&self) -> usize {
        self.owners.len()
    }

    /// Whether nobody holds or waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn find(&self, owner: Owner) -> Option<u32> {
        self.owners.find(Tag::new(owner), owner, &self.blocks)
    }

    /// Whether an owner is new and there is room for it.
    #[inline(always)]
    fn may_enter(&self, owner: Owner, request: &Request) -> Result<Tag, Error> {
        let tag = Tag::new(owner);
        if self.owners.find(tag, owner, &self.blocks).is_some() {
            return Err(Error::OwnerKnown(owner));
        }
        if self.owners.len() >= self.limits.owners_max || !self.blocks.has_room(request.packed().len()) {
            return Err(Error::Full);
        }
        Ok(tag)
    }

    /// Gives an owner a slot, and marks nothing.
    #[inline(always)]
    fn enter(&mut self, owner: Owner, tag: Tag, request: &Request) -> u32 {
        let slot = self.blocks.place(owner, request);
        self.owners.insert(tag, slot, &self.blocks);
        slot
    }

    #[inline(always)]
    fn hold(&mut self, owner: Owner, tag: Tag, request: &Request) {
        let slot = self.enter(owner, tag, request);
        if request.few().is_none() {
            self.mark_all(slot);
        } else if !self.cells.mark(request.packed(), self.blocks.entries(slot).start..) {
            self.link_all(slot);
        }
    }

    /// Ends what an owner holds, which stands in this slot.
    #[inline]
    fn end(&mut self, owner: Owner, tag: Tag, slot: u32, granted: &mut Vec<Owner>) {
        let is_awaited = self.unmark_all(slot);
        self.leave(owner, tag, slot);
        if is_awaited {
            self.serve(granted);
        }
    }

    /// Takes an owner out that has no marks any more.
    #[inline]
    fn leave(&mut self, owner: Owner, tag: Tag, slot: u32) {
        self.owners.remove(tag, owner, slot);
        self.blocks.vacate(slot);
        if self.owners.len() == 0 {
            // Blocks are filled from their beginning again: who comes one after another then stands side by side,
            // whatever the order in which those before left.
            self.blocks.begin_again();
        }
    }
}
