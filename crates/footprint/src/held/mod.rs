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
//! [`Reservations::forget_unused`] forgets the keys that nobody holds, awaits or pins.

mod key;
mod request;
#[cfg(test)]
mod tests;

pub use key::{DEPTH_MAX, KEYS_MAX, Key, segments};
pub use request::{ENTRIES_MAX, Need, Request, Use};

use std::collections::BTreeMap;
use std::fmt;

use crate::Mode;
use key::Keys;

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

/// Owners at once, whatever the limits say: the counters of a key end there.
pub const OWNERS_MAX: usize = (1 << 21) - 1;

impl Default for Limits {
    fn default() -> Limits {
        Limits { owners_max: OWNERS_MAX, tries_max: 4 }
    }
}

/// Where an owner stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has all it asked for.
    Holds,
    /// It waits, for this among other things.
    Waits(Blocked),
}

/// What stops an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The key at fault. It may lie above the one that was asked for.
    pub key: Key,
    /// How it was to be used.
    pub wanted: Mode,
    /// How the holder uses it.
    pub mode: Mode,
    /// One of those in the way.
    pub holder: Owner,
    /// That one does not run yet: it has a ticket, and is before this one.
    pub in_line: bool,
}

/// Why an owner waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Why {
    /// What stops it now.
    pub blocked: Blocked,
    /// Whether it has a ticket.
    pub ticket: bool,
    /// How many of its kind wait before it for this key, counted up to [`PLACE_MAX`].
    pub place: u32,
    /// Tries it lost.
    pub tries: u32,
}

/// Places in line are counted up to here: beyond, the exact number helps nobody and takes time.
pub const PLACE_MAX: u32 = 1_000;

/// Why something cannot be done at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// A path without segments, or with an empty one.
    EmptySegment,
    /// A path of more than [`DEPTH_MAX`] segments.
    TooDeep,
    /// More than [`ENTRIES_MAX`] keys in one request.
    TooManyKeys,
    /// No room for another key or another owner.
    Full,
    /// The key was forgotten, or is of another place.
    Forgotten(Key),
    /// Units of something that has no capacity.
    NoPool(Key),
    /// A pool is counted: it is neither read nor written, and nothing lies below it.
    Pool,
    /// More units than there are, ever.
    BeyondCapacity {
        /// The pool.
        pool: Key,
        /// What was asked for.
        units: u32,
        /// What there is.
        capacity: u32,
    },
    /// The owner holds or waits already.
    OwnerKnown(Owner),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::EmptySegment => write!(f, "a key needs a name: no part of its path may be empty"),
            Error::TooDeep => write!(f, "a path has at most {DEPTH_MAX} parts"),
            Error::TooManyKeys => {
                write!(f, "a request has at most {ENTRIES_MAX} keys, those above them included")
            }
            Error::Full => write!(f, "there is no room for more; try again when others have ended"),
            Error::Forgotten(key) => write!(f, "key {} is not known any more; ask for its path again", key.0),
            Error::NoPool(key) => write!(f, "key {} has no capacity; declare it before taking units", key.0),
            Error::Pool => write!(f, "a pool is counted: take units of it, do not read, write or divide it"),
            Error::BeyondCapacity { units, capacity, .. } => {
                write!(f, "{units} units can never be had of a capacity of {capacity}; ask for less")
            }
            Error::OwnerKnown(owner) => write!(f, "owner {owner} holds or waits already; release it first"),
        }
    }
}

impl std::error::Error for Error {}

/// Why an owner did not get its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Somebody is in the way; later it may be different.
    Blocked(Blocked),
    /// It cannot be done.
    Error(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Error(error)
    }
}

struct Holder {
    request: Request,
    state: State,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Holds,
    Eager { rank: Rank, arrival: u64, tries: u32, watched: Use },
    Ticket { number: u64, tries: u32 },
}

/// Who holds what, and who waits for it.
pub struct Reservations {
    limits: Limits,
    keys: Keys,
    owners: BTreeMap<Owner, Holder>,
    arrivals: u64,
}

impl Reservations {
    /// With nobody inside.
    pub fn new(limits: Limits) -> Reservations {
        let owners_max = limits.owners_max.min(OWNERS_MAX);
        Reservations {
            limits: Limits { owners_max, ..limits },
            keys: Keys::default(),
            owners: BTreeMap::new(),
            arrivals: 0,
        }
    }

    /// The key of a path, made when it is new. A name is split by [`segments`].
    pub fn key<'a>(&mut self, path: impl IntoIterator<Item = &'a str>) -> Result<Key, Error> {
        self.keys.intern(path)
    }

    /// The segments of a key's path; none when it is forgotten.
    pub fn path(&self, key: Key) -> Vec<&str> {
        self.keys.path(key)
    }

    /// Gives a key a capacity, which makes it a pool, or changes it. Those that hold now what they waited for are added
    /// to `granted`. A key that is used otherwise, or has keys below it, cannot become a pool. Who was promised more
    /// units than a lowered capacity gives has them when nobody else has any.
    pub fn set_capacity(&mut self, key: Key, capacity: u32, granted: &mut Vec<Owner>) -> Result<(), Error> {
        let node = self.keys.node_mut(key).ok_or(Error::Forgotten(key))?;
        if node.capacity.is_none() && node.uses > 0 {
            return Err(Error::Pool);
        }
        if node.capacity.is_none() {
            node.uses += 1;
        }
        node.capacity = Some(capacity);
        self.serve(&[Use { key, mode: Mode::Units, units: 0 }], granted);
        Ok(())
    }

    /// Whether waiters of this key take a ticket at once, so that it is had in the order of asking.
    pub fn set_ordered(&mut self, key: Key, ordered: bool) -> Result<(), Error> {
        let node = self.keys.node_mut(key).ok_or(Error::Forgotten(key))?;
        if node.ordered != ordered {
            node.ordered = ordered;
            node.uses = if ordered { node.uses + 1 } else { node.uses - 1 };
        }
        Ok(())
    }

    /// How many keys are known.
    pub fn keys_len(&self) -> usize {
        self.keys.len()
    }

    /// Forgets the keys that nobody holds or awaits, except pools and ordered keys, and says how many. A [`Key`] or
    /// [`Request`] that was made before and is not in use is good no more: call it between two admissions, not between
    /// making a request and using it.
    pub fn forget_unused(&mut self) -> usize {
        self.keys.forget_unused()
    }

    /// Makes a request of needs.
    pub fn request(&self, needs: &[Need]) -> Result<Request, Error> {
        Request::new(needs, &self.keys)
    }

    /// Whether two owners may not have these requests at the same time: the first key at fault and how each would use
    /// it.
    pub fn conflict(&self, one: &Request, other: &Request) -> Option<(Key, Mode, Mode)> {
        one.conflict(other, |pool| self.capacity(pool))
    }

    /// Takes all of the request, or nothing.
    pub fn acquire(&mut self, owner: Owner, request: &Request) -> Result<(), Refusal> {
        self.may_enter(owner, request)?;
        match self.blocked(request, None) {
            Some((_, blocked)) => Err(Refusal::Blocked(blocked)),
            None => {
                self.enter(owner, request, State::Holds);
                Ok(())
            }
        }
    }

    /// As [`acquire`](Reservations::acquire), and waits when it cannot be had now.
    pub fn wait(&mut self, owner: Owner, rank: Rank, request: &Request) -> Result<Standing, Error> {
        self.may_enter(owner, request)?;
        let Some((watched, blocked)) = self.blocked(request, None) else {
            self.enter(owner, request, State::Holds);
            return Ok(Standing::Holds);
        };
        self.arrivals += 1;
        let is_ordered = |at: &Use| self.keys.node(at.key).is_some_and(|node| node.ordered);
        let state = if request.uses().iter().any(is_ordered) || self.limits.tries_max <= 1 {
            State::Ticket { number: self.arrivals, tries: 1 }
        } else {
            State::Eager { rank, arrival: self.arrivals, tries: 1, watched }
        };
        self.enter(owner, request, state);
        Ok(Standing::Waits(blocked))
    }

    /// Gives a waiter a ticket: from now on nothing that conflicts with it passes. Says whether it waited without one.
    pub fn ticket(&mut self, owner: Owner) -> bool {
        self.arrivals += 1;
        let number = self.arrivals;
        match self.owners.get_mut(&owner) {
            Some(holder) => match holder.state {
                State::Eager { tries, .. } => {
                    holder.state = State::Ticket { number, tries };
                    true
                }
                State::Holds | State::Ticket { .. } => false,
            },
            None => false,
        }
    }

    /// Ends what an owner holds. Those that hold now what they waited for are added to `granted`: tickets first, in
    /// their order, then by rank. Says whether it held anything.
    pub fn release(&mut self, owner: Owner, granted: &mut Vec<Owner>) -> bool {
        self.standing(owner) == Some(Standing::Holds) && self.leave(owner, granted)
    }

    /// Ends the wait of an owner; those that it was in the way of are added to `granted`. Says whether it waited.
    pub fn withdraw(&mut self, owner: Owner, granted: &mut Vec<Owner>) -> bool {
        matches!(self.standing(owner), Some(Standing::Waits(_))) && self.leave(owner, granted)
    }

    /// Where an owner stands, if it is here.
    pub fn standing(&self, owner: Owner) -> Option<Standing> {
        let holder = self.owners.get(&owner)?;
        Some(match self.why(owner) {
            Some(why) if holder.state != State::Holds => Standing::Waits(why.blocked),
            _ => Standing::Holds,
        })
    }

    /// Why an owner waits; none when it does not.
    pub fn why(&self, owner: Owner) -> Option<Why> {
        let holder = self.owners.get(&owner)?;
        let (ticket, tries, blocked) = match holder.state {
            State::Holds => return None,
            State::Eager { tries, watched, .. } => (false, tries, self.use_blocked(&watched, None)?),
            State::Ticket { number, tries } => (true, tries, self.blocked(&holder.request, Some(number))?.1),
        };
        let ahead = |other: &&Holder| match (holder.state, other.state) {
            (State::Ticket { number, .. }, State::Ticket { number: earlier, .. }) => {
                earlier < number && other.request.uses().iter().any(|at| at.key == blocked.key)
            }
            (
                State::Eager { rank, arrival, .. },
                State::Eager { rank: their_rank, arrival: their_arrival, watched, .. },
            ) => watched.key == blocked.key && (their_rank, their_arrival) < (rank, arrival),
            _ => false,
        };
        let place = self.owners.values().filter(ahead).take(PLACE_MAX as usize).count() as u32;
        Some(Why { blocked, ticket, place, tries })
    }

    /// How many hold or wait.
    pub fn len(&self) -> usize {
        self.owners.len()
    }

    /// Whether nobody holds or waits.
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    fn capacity(&self, key: Key) -> u32 {
        self.keys.node(key).and_then(|node| node.capacity).unwrap_or(0)
    }

    fn may_enter(&self, owner: Owner, request: &Request) -> Result<(), Error> {
        if self.owners.contains_key(&owner) {
            return Err(Error::OwnerKnown(owner));
        }
        if self.owners.len() >= self.limits.owners_max {
            return Err(Error::Full);
        }
        match request.uses().iter().find(|at| self.keys.node(at.key).is_none()) {
            Some(at) => Err(Error::Forgotten(at.key)),
            None => Ok(()),
        }
    }

    fn enter(&mut self, owner: Owner, request: &Request, state: State) {
        for at in request.uses() {
            if let Some(node) = self.keys.node_mut(at.key) {
                node.uses += 1;
            }
        }
        self.owners.insert(owner, Holder { request: request.clone(), state });
    }

    fn leave(&mut self, owner: Owner, granted: &mut Vec<Owner>) -> bool {
        let Some(holder) = self.owners.remove(&owner) else {
            return false;
        };
        for at in holder.request.uses() {
            if let Some(node) = self.keys.node_mut(at.key) {
                node.uses -= 1;
            }
        }
        self.serve(holder.request.uses(), granted);
        true
    }

    /// The first use that is not to be had: against those that hold and those with a ticket, or a ticket before this
    /// number.
    fn blocked(&self, request: &Request, before: Option<u64>) -> Option<(Use, Blocked)> {
        request.uses().iter().find_map(|wanted| Some((*wanted, self.use_blocked(wanted, before)?)))
    }

    fn use_blocked(&self, wanted: &Use, before: Option<u64>) -> Option<Blocked> {
        let in_the_way = |state: State| match state {
            State::Holds => true,
            State::Ticket { number, .. } => before.is_none_or(|before| number < before),
            State::Eager { .. } => false,
        };
        let (mut units, capacity) = (u64::from(wanted.units), u64::from(self.capacity(wanted.key)));
        for (&owner, holder) in self.owners.iter().filter(|(_, holder)| in_the_way(holder.state)) {
            for has in holder.request.uses().iter().filter(|has| has.key == wanted.key) {
                units += u64::from(has.units);
                let short = wanted.mode == Mode::Units && units > capacity;
                if wanted.mode.excludes(has.mode) || short {
                    return Some(Blocked {
                        key: wanted.key,
                        wanted: wanted.mode,
                        mode: has.mode,
                        holder: owner,
                        in_line: holder.state != State::Holds,
                    });
                }
            }
        }
        None
    }

    /// Grants what the end of these uses allows.
    fn serve(&mut self, freed: &[Use], granted: &mut Vec<Owner>) {
        let mut tickets: Vec<(u64, Owner)> = Vec::new();
        let mut eager: Vec<(Rank, u64, Owner)> = Vec::new();
        for (&owner, holder) in &self.owners {
            match holder.state {
                State::Holds => {}
                State::Ticket { number, .. } => tickets.push((number, owner)),
                State::Eager { rank, arrival, watched, .. } => {
                    if freed.iter().any(|at| at.key == watched.key) {
                        eager.push((rank, arrival, owner));
                    }
                }
            }
        }
        tickets.sort_unstable();
        eager.sort_unstable();
        for (number, owner) in tickets {
            if let Some(holder) = self.owners.get(&owner)
                && self.blocked(&holder.request, Some(number)).is_none()
                && let Some(holder) = self.owners.get_mut(&owner)
            {
                holder.state = State::Holds;
                granted.push(owner);
            }
        }
        for (rank, arrival, owner) in eager {
            let Some(holder) = self.owners.get(&owner) else { continue };
            let State::Eager { tries, watched, .. } = holder.state else { continue };
            if self.use_blocked(&watched, None).is_some() {
                continue;
            }
            let next = match self.blocked(&holder.request, None) {
                None => State::Holds,
                Some(_) if tries + 1 >= self.limits.tries_max => {
                    self.arrivals += 1;
                    State::Ticket { number: self.arrivals, tries: tries + 1 }
                }
                Some((watched, _)) => State::Eager { rank, arrival, tries: tries + 1, watched },
            };
            if next == State::Holds {
                granted.push(owner);
            }
            if let Some(holder) = self.owners.get_mut(&owner) {
                holder.state = next;
            }
        }
    }
}
