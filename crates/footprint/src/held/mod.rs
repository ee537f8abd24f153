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
mod arena;
mod cell;
mod expect;
mod key;
mod line;
mod look;
mod owners;
mod request;
mod serve;
#[cfg(test)]
mod tests;

pub use answer::{Blocked, Error, PLACE_MAX, Refusal, Standing, Why};
pub use arena::KEYS_MAX;
pub use cell::OWNERS_MAX;
pub use key::{DEPTH_MAX, Key, segments};
pub use request::{ENTRIES_MAX, Need, Request, Use};

use crate::Mode;
use crate::chains::NONE;
use arena::Arena;
use cell::Cell;
use key::Keys;
use line::{Lines, Waiter};
use owners::{Owners, Record};

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
    cells: Vec<Cell>,
    owners: Owners,
    arena: Arena,
    lines: Lines,
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
            cells: Vec::new(),
            owners: Owners::default(),
            arena: Arena::default(),
            lines: Lines::default(),
            numbers: 0,
            scratch: serve::Scratch::default(),
        }
    }

    /// The key of a path, made when it is new. A name is split by [`segments`].
    pub fn key<'a>(&mut self, path: impl IntoIterator<Item = &'a str>) -> Result<Key, Error> {
        let cells = &mut self.cells;
        self.keys.intern(path, |made| {
            if cells.len() <= made.0 as usize {
                cells.resize(made.0 as usize + 1, Cell::FREE);
            }
            cells[made.0 as usize] = Cell::FREE;
        })
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
            let awaited = self.lines.waiting().any(|waiter| {
                let record = self.owners.get(waiter.owner);
                record.entries().any(|entry| self.arena.get(entry).key() == key)
            });
            let cell = &mut self.cells[key.0 as usize];
            if node.children > 0 || cell.held != 0 || cell.line != NONE || awaited {
                return Err(Error::Pool);
            }
            cell.line = self.lines.open(Some(capacity));
        } else {
            self.lines.line_mut(self.cells[key.0 as usize].line).capacity = Some(capacity);
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
        for waiter in self.lines.waiting() {
            for entry in self.owners.get(waiter.owner).entries() {
                used[self.arena.get(entry).key().0 as usize] = true;
            }
        }
        let cells = &mut self.cells;
        self.keys.forget(|key| used[key.0 as usize], |gone| cells[gone.0 as usize] = Cell::GONE)
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
        let hash = self.may_enter(owner, request)?;
        match self.first_blocked(request.uses())? {
            Some(at) => Err(Refusal::Blocked(self.blocked_at(request.uses()[at], NONE))),
            None => {
                self.hold(owner, hash, request);
                Ok(())
            }
        }
    }

    /// As [`acquire`](Reservations::acquire), and waits when it cannot be had now.
    pub fn wait(&mut self, owner: Owner, rank: Rank, request: &Request) -> Result<Standing, Error> {
        let hash = self.may_enter(owner, request)?;
        let Some(at) = self.first_blocked(request.uses())? else {
            self.hold(owner, hash, request);
            return Ok(Standing::Holds);
        };
        let is_ordered = |at: &Use| self.keys.is_ordered(at.key);
        let at_once = self.limits.tries_max <= 1 || request.uses().iter().any(is_ordered);
        let slot = self.enter(owner, hash, request);
        self.numbers += 1;
        let waiter = self.lines.add(Waiter::new(slot, rank, self.numbers));
        self.owners.get_mut(slot).waiter = waiter;
        if at_once {
            self.take_ticket(waiter);
        } else {
            let entry = self.owners.get(slot).start + at as u32;
            self.park(waiter, entry);
        }
        Ok(Standing::Waits)
    }

    /// Gives a waiter a ticket: from now on nothing that conflicts with it passes. Says whether it waited without one.
    pub fn ticket(&mut self, owner: Owner) -> bool {
        let waiter = self.owners.find(owner).and_then(|slot| self.owners.waiter(slot));
        match waiter {
            Some(waiter) if !self.lines.waiter(waiter).has_ticket => {
                self.unpark(waiter);
                self.take_ticket(waiter);
                true
            }
            _ => false,
        }
    }

    /// Ends what an owner holds. Those that hold now what they waited for are added to `granted`: tickets first, in
    /// their order, then by rank. Says whether it held anything.
    pub fn release(&mut self, owner: Owner, granted: &mut Vec<Owner>) -> bool {
        let hash = owners::hash(owner);
        match self.owners.find_hashed(hash, owner) {
            Some(slot) if self.owners.get(slot).waiter == NONE => {
                self.leave(slot, hash);
                self.serve(granted);
                self.begin_again_if_empty();
                true
            }
            _ => false,
        }
    }

    /// Ends the wait of an owner; those that it was in the way of are added to `granted`. Says whether it waited.
    pub fn withdraw(&mut self, owner: Owner, granted: &mut Vec<Owner>) -> bool {
        let slot = self.owners.find(owner);
        let Some((slot, waiter)) = slot.and_then(|slot| Some((slot, self.owners.waiter(slot)?))) else {
            return false;
        };
        if !self.lines.waiter(waiter).has_ticket {
            self.unpark(waiter);
        }
        self.leave(slot, owners::hash(owner));
        self.lines.remove(waiter);
        self.serve(granted);
        self.begin_again_if_empty();
        true
    }

    /// Where an owner stands, if it is here.
    pub fn standing(&self, owner: Owner) -> Option<Standing> {
        let slot = self.owners.find(owner)?;
        Some(if self.owners.waiter(slot).is_some() { Standing::Waits } else { Standing::Holds })
    }

    /// How many hold or wait.
    pub fn len(&self) -> usize {
        self.owners.len()
    }

    /// Whether nobody holds or waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether an owner is new and there is room for it; its hash.
    #[inline]
    fn may_enter(&self, owner: Owner, request: &Request) -> Result<u64, Error> {
        let hash = owners::hash(owner);
        if self.owners.find_hashed(hash, owner).is_some() {
            return Err(Error::OwnerKnown(owner));
        }
        if self.owners.len() >= self.limits.owners_max {
            return Err(Error::Full);
        }
        self.arena.has_room(request.uses().len())?;
        Ok(hash)
    }

    /// When nobody is left, lists are filled from their beginnings again: who comes one after another then stands side by
    /// side, whatever the order in which those before left.
    #[inline]
    fn begin_again_if_empty(&mut self) {
        if self.owners.len() == 0 {
            self.owners.begin_again();
            self.arena.begin_again();
            self.lines.begin_again();
        }
    }

    /// Gives an owner a slot and a block, and marks nothing.
    #[inline]
    fn enter(&mut self, owner: Owner, hash: u64, request: &Request) -> u32 {
        let start = self.arena.place(self.owners.next(), request.uses());
        self.owners
            .insert(hash, Record { owner, start, len: request.uses().len() as u32, waiter: NONE, in_line: 0 })
    }

    #[inline]
    fn hold(&mut self, owner: Owner, hash: u64, request: &Request) {
        let slot = self.enter(owner, hash, request);
        for (entry, &at) in (self.owners.get(slot).start..).zip(request.uses()) {
            self.mark_use(entry, at);
        }
    }
}
