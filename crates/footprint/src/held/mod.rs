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
//! [`Reservations::forget_unused`] forgets the keys that nobody holds or awaits.

mod answer;
mod counts;
mod key;
mod request;
#[cfg(test)]
mod tests;
mod waiting;

pub use answer::{Blocked, Error, PLACE_MAX, Refusal, Standing, Why};
pub use key::{DEPTH_MAX, KEYS_MAX, Key, segments};
pub use request::{ENTRIES_MAX, Need, Request, Use};

use rustc_hash::FxHashMap;

use crate::Mode;
use counts::Counts;
use key::Keys;
use waiting::{LineId, Lines, Wait};

/// Who holds or waits: a number of the caller's choice.
pub type Owner = u64;

/// Which waiter is tried first: the lowest. Equal ranks are tried in the order of arrival.
pub type Rank = u128;

/// Owners at once, whatever the limits say.
pub const OWNERS_MAX: usize = (1 << 21) - 1;

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
    slots: Slots,
    slot_of: FxHashMap<Owner, u32>,
    lines: Lines,
    /// Keys that were given back and that somebody awaits.
    freed: Vec<Key>,
    /// Arrivals and tickets so far.
    numbers: u64,
}

/// What is marked on one key.
#[derive(Clone, Copy)]
struct Cell {
    /// Those that hold the key. A ticket holds what was free for it.
    held: Counts,
    /// The first of the ring of entries that hold it. Those that only read something below stand last, so the first is in
    /// the way of whoever is stopped by any.
    first: EntryId,
    /// The number of the line of those that wait for it, if any do.
    line: Option<LineId>,
    /// It was not forgotten.
    is_known: bool,
    /// Its waiters take a ticket at once.
    is_ordered: bool,
}

impl Cell {
    const FREE: Cell =
        Cell { held: Counts::ZERO, first: EntryId::NONE, line: None, is_known: true, is_ordered: false };

    fn is_used(&self) -> bool {
        !self.held.is_zero() || self.line.is_some()
    }
}

/// One entry of one owner: the number of its slot, and the place of the use in its request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct EntryId {
    slot: u32,
    at: u32,
}

impl EntryId {
    const NONE: EntryId = EntryId { slot: u32::MAX, at: 0 };
}

/// One use by one owner.
#[derive(Clone, Copy)]
struct Entry {
    wanted: Use,
    /// It waits in line with its owner's ticket.
    in_line: bool,
    /// Neighbours in the ring of those that hold the key.
    next: EntryId,
    prev: EntryId,
}

/// How an owner stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Vacant,
    Holds,
    /// It waits eagerly and watches the key of the entry at this place.
    Watches(u32),
    /// It has a ticket, and this many of its entries are still in line.
    InLine(u32),
}

struct Slot {
    owner: Owner,
    state: State,
    entries: Vec<Entry>,
    wait: Wait,
}

/// Everybody that holds or waits. Slots are used again, with their memory.
#[derive(Default)]
struct Slots {
    slots: Vec<Slot>,
    vacant: Vec<u32>,
}

impl Slots {
    /// Gives an owner a slot and writes its request there, with nothing marked.
    fn place(&mut self, owner: Owner, request: &Request) -> u32 {
        let number = self.vacant.pop().unwrap_or_else(|| {
            let wait = Wait::default();
            self.slots.push(Slot { owner, state: State::Vacant, entries: Vec::new(), wait });
            (self.slots.len() - 1) as u32
        });
        let slot = self.at_mut(number);
        (slot.owner, slot.state) = (owner, State::Holds);
        slot.entries.extend((0..).zip(request.uses()).map(|(at, &wanted)| {
            let this = EntryId { slot: number, at };
            Entry { wanted, in_line: false, next: this, prev: this }
        }));
        number
    }

    fn vacate(&mut self, number: u32) {
        let slot = self.at_mut(number);
        slot.state = State::Vacant;
        slot.entries.clear();
        self.vacant.push(number);
    }

    #[inline]
    fn at(&self, number: u32) -> &Slot {
        &self.slots[number as usize]
    }

    #[inline]
    fn at_mut(&mut self, number: u32) -> &mut Slot {
        &mut self.slots[number as usize]
    }

    #[inline]
    fn entry(&self, id: EntryId) -> &Entry {
        &self.slots[id.slot as usize].entries[id.at as usize]
    }

    #[inline]
    fn entry_mut(&mut self, id: EntryId) -> &mut Entry {
        &mut self.slots[id.slot as usize].entries[id.at as usize]
    }

    /// The entries of an owner.
    fn entries(&self, slot: u32) -> impl Iterator<Item = EntryId> + use<> {
        (0..self.at(slot).entries.len() as u32).map(move |at| EntryId { slot, at })
    }

    /// What those that wait asked for.
    fn awaited(&self) -> impl Iterator<Item = Use> {
        let waits = |slot: &&Slot| matches!(slot.state, State::Watches(_) | State::InLine(_));
        self.slots.iter().filter(waits).flat_map(|slot| slot.entries.iter().map(|entry| entry.wanted))
    }

    /// Links an entry, a ring of its own, into the ring that begins with `first`.
    fn link(&mut self, first: &mut EntryId, this: EntryId) {
        if *first == EntryId::NONE {
            *first = this;
            return;
        }
        let (next, last) = (*first, self.entry(*first).prev);
        let entry = self.entry_mut(this);
        (entry.next, entry.prev) = (next, last);
        let is_in_the_way = entry.wanted.mode != Mode::ReadBelow;
        self.entry_mut(next).prev = this;
        self.entry_mut(last).next = this;
        if is_in_the_way {
            *first = this;
        }
    }

    /// Takes an entry out of the ring that begins with `first`.
    fn unlink(&mut self, first: &mut EntryId, this: EntryId) {
        let Entry { next, prev, .. } = *self.entry(this);
        if next == this {
            *first = EntryId::NONE;
            return;
        }
        self.entry_mut(next).prev = prev;
        self.entry_mut(prev).next = next;
        if *first == this {
            *first = next;
        }
    }
}

impl Reservations {
    /// With nobody inside.
    pub fn new(limits: Limits) -> Reservations {
        Reservations {
            limits: Limits { owners_max: limits.owners_max.min(OWNERS_MAX), ..limits },
            keys: Keys::default(),
            cells: Vec::new(),
            slots: Slots::default(),
            slot_of: FxHashMap::default(),
            lines: Lines::default(),
            freed: Vec::new(),
            numbers: 0,
        }
    }

    /// The key of a path, made when it is new. A name is split by [`segments`].
    pub fn key<'a>(&mut self, path: impl IntoIterator<Item = &'a str>) -> Result<Key, Error> {
        let key = self.keys.intern(path)?;
        self.cells.resize(self.keys.numbers_end(), Cell::FREE);
        // It and those above it may have numbers that others had before.
        let mut at = Some(key);
        while let Some(key) = at {
            self.cells[key.0 as usize].is_known = true;
            at = self.keys.node(key).and_then(|node| node.parent);
        }
        Ok(key)
    }

    /// The segments of a key's path; none when it is forgotten.
    pub fn path(&self, key: Key) -> Vec<&str> {
        self.keys.path(key)
    }

    /// Gives a key a capacity, which makes it a pool, or changes it. Those that hold now what they waited for are added
    /// to `granted`. A key that is used otherwise, or has keys below it, cannot become a pool. Who was promised more
    /// units than a lowered capacity gives has them when nobody else has any.
    pub fn set_capacity(&mut self, key: Key, capacity: u32, granted: &mut Vec<Owner>) -> Result<(), Error> {
        if self.keys.capacity(key).is_none() {
            let cell = self.cells.get(key.0 as usize).ok_or(Error::Forgotten(key))?;
            if cell.is_used()
                || self.keys.has_children(key)
                || self.slots.awaited().any(|wanted| wanted.key == key)
            {
                return Err(Error::Pool);
            }
        }
        self.keys.node_mut(key).ok_or(Error::Forgotten(key))?.capacity = Some(capacity);
        self.freed.push(key);
        self.serve(granted);
        Ok(())
    }

    /// Whether waiters of this key take a ticket at once, so that it is had in the order of asking.
    pub fn set_ordered(&mut self, key: Key, ordered: bool) -> Result<(), Error> {
        self.keys.node_mut(key).ok_or(Error::Forgotten(key))?.ordered = ordered;
        self.cells[key.0 as usize].is_ordered = ordered;
        Ok(())
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
        let mut used: Vec<bool> = self.cells.iter().map(Cell::is_used).collect();
        for wanted in self.slots.awaited() {
            used[wanted.key.0 as usize] = true;
        }
        let forgotten = self.keys.forget(|key| used[key.0 as usize]);
        for (cell, number) in self.cells.iter_mut().zip(0..) {
            cell.is_known = self.keys.node(Key(number)).is_some();
        }
        forgotten
    }

    /// Makes a request of needs.
    pub fn request(&self, needs: &[Need]) -> Result<Request, Error> {
        Request::new(needs, &self.keys)
    }

    /// Whether two owners may not have these requests at the same time: the first key at fault and how each would use
    /// it.
    pub fn conflict(&self, one: &Request, other: &Request) -> Option<(Key, Mode, Mode)> {
        one.conflict(other, |pool| self.keys.capacity(pool).unwrap_or(0))
    }

    /// Takes all of the request, or nothing.
    pub fn acquire(&mut self, owner: Owner, request: &Request) -> Result<(), Refusal> {
        self.may_enter(owner, request)?;
        if let Some(&wanted) = request.uses().iter().find(|&&wanted| self.is_blocked(wanted)) {
            return Err(Refusal::Blocked(self.blocked_at(wanted, None)));
        }
        self.hold(owner, request);
        Ok(())
    }

    /// As [`acquire`](Reservations::acquire), and waits when it cannot be had now.
    pub fn wait(&mut self, owner: Owner, rank: Rank, request: &Request) -> Result<Standing, Error> {
        self.may_enter(owner, request)?;
        let Some(stopped) = request.uses().iter().position(|&wanted| self.is_blocked(wanted)) else {
            self.hold(owner, request);
            return Ok(Standing::Holds);
        };
        let slot = self.enter(owner, request);
        self.numbers += 1;
        self.slots.at_mut(slot).wait = Wait { rank, arrival: self.numbers, ticket: 0, tries: 1 };
        let is_ordered = request.uses().iter().any(|wanted| self.cell(wanted.key).is_ordered);
        if is_ordered || self.limits.tries_max <= 1 {
            self.take_ticket(slot);
        } else {
            self.watch(slot, stopped as u32);
        }
        Ok(Standing::Waits)
    }

    /// Gives a waiter a ticket: from now on nothing that conflicts with it passes. Says whether it waited without one.
    pub fn ticket(&mut self, owner: Owner) -> bool {
        let Some(&slot) = self.slot_of.get(&owner) else { return false };
        let State::Watches(at) = self.slots.at(slot).state else { return false };
        self.stop_watching(EntryId { slot, at });
        self.take_ticket(slot);
        true
    }

    /// Ends what an owner holds. Those that hold now what they waited for are added to `granted`: tickets first, in
    /// their order, then by rank. Says whether it held anything.
    pub fn release(&mut self, owner: Owner, granted: &mut Vec<Owner>) -> bool {
        let Some(&slot) = self.slot_of.get(&owner) else { return false };
        if self.slots.at(slot).state != State::Holds {
            return false;
        }
        for entry in self.slots.entries(slot) {
            self.unmark(entry);
        }
        self.leave(owner, slot);
        self.serve(granted);
        true
    }

    /// Ends the wait of an owner; those that it was in the way of are added to `granted`. Says whether it waited.
    pub fn withdraw(&mut self, owner: Owner, granted: &mut Vec<Owner>) -> bool {
        let Some(&slot) = self.slot_of.get(&owner) else { return false };
        match self.slots.at(slot).state {
            State::Holds | State::Vacant => return false,
            State::Watches(at) => self.stop_watching(EntryId { slot, at }),
            State::InLine(_) => self.leave_lines(slot),
        }
        self.leave(owner, slot);
        self.serve(granted);
        true
    }

    /// Where an owner stands, if it is here.
    pub fn standing(&self, owner: Owner) -> Option<Standing> {
        let &slot = self.slot_of.get(&owner)?;
        let holds = self.slots.at(slot).state == State::Holds;
        Some(if holds { Standing::Holds } else { Standing::Waits })
    }

    /// How many hold or wait.
    pub fn len(&self) -> usize {
        self.slot_of.len()
    }

    /// Whether nobody holds or waits.
    pub fn is_empty(&self) -> bool {
        self.slot_of.is_empty()
    }

    /// Whether an owner is new, there is room for it, and its keys are known.
    fn may_enter(&self, owner: Owner, request: &Request) -> Result<(), Error> {
        if self.slot_of.contains_key(&owner) {
            return Err(Error::OwnerKnown(owner));
        }
        if self.slot_of.len() >= self.limits.owners_max {
            return Err(Error::Full);
        }
        let is_known = |key: Key| self.cells.get(key.0 as usize).is_some_and(|cell| cell.is_known);
        match request.uses().iter().find(|wanted| !is_known(wanted.key)) {
            Some(forgotten) => Err(Error::Forgotten(forgotten.key)),
            None => Ok(()),
        }
    }

    /// Gives an owner a slot, and marks nothing.
    fn enter(&mut self, owner: Owner, request: &Request) -> u32 {
        let slot = self.slots.place(owner, request);
        self.slot_of.insert(owner, slot);
        slot
    }

    /// Lets an owner hold a request that nothing stops.
    fn hold(&mut self, owner: Owner, request: &Request) {
        let slot = self.enter(owner, request);
        self.slots.entries(slot).for_each(|entry| self.mark(entry));
    }

    /// Takes an owner out that has no marks any more.
    fn leave(&mut self, owner: Owner, slot: u32) {
        self.slot_of.remove(&owner);
        self.slots.vacate(slot);
    }

    /// Whether a use is not to be had, because of those that hold or those with a ticket.
    #[inline]
    fn is_blocked(&self, Use { key, mode, units }: Use) -> bool {
        let cell = self.cell(key);
        let users = match cell.line {
            Some(line) => cell.held.and(self.lines.at(line).counts),
            None => cell.held,
        };
        match mode {
            Mode::Units => users.lacks(units, self.keys.capacity(key).unwrap_or(0)),
            _ => users.excludes(mode),
        }
    }

    /// Marks the use of an entry, which nothing stops.
    #[inline]
    fn mark(&mut self, entry: EntryId) {
        let Use { key, mode, units } = self.slots.entry(entry).wanted;
        let cell = &mut self.cells[key.0 as usize];
        cell.held.add(mode, units);
        self.slots.link(&mut cell.first, entry);
    }

    /// Takes the mark of an entry away.
    #[inline]
    fn unmark(&mut self, entry: EntryId) {
        let Use { key, mode, units } = self.slots.entry(entry).wanted;
        let cell = &mut self.cells[key.0 as usize];
        cell.held.subtract(mode, units);
        self.slots.unlink(&mut cell.first, entry);
        if cell.line.is_some() {
            self.freed.push(key);
        }
    }

    #[inline]
    fn cell(&self, key: Key) -> &Cell {
        &self.cells[key.0 as usize]
    }
}
