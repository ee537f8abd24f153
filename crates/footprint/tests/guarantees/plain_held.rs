//! Held reservations as their rules are written: every owner compared with every other, nothing remembered but who is
//! there.

use std::collections::BTreeMap;

use cadran_footprint::Mode;
use cadran_footprint::held::{Key, Owner, Rank, Request, Use};

pub(crate) struct Holder {
    pub(crate) request: Request,
    pub(crate) state: State,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum State {
    Holds,
    Eager { rank: Rank, arrival: u64, tries: u32, watched: Use },
    Ticket { number: u64, tries: u32 },
}

/// What stops a use, and who.
pub(crate) struct Stop {
    pub(crate) wanted: Use,
    pub(crate) by: Vec<Owner>,
}

pub(crate) struct Plain {
    pub(crate) tries_max: u32,
    pub(crate) owners: BTreeMap<Owner, Holder>,
    pub(crate) capacities: BTreeMap<Key, u32>,
    pub(crate) ordered: Vec<Key>,
    arrivals: u64,
}

impl Plain {
    pub(crate) fn new(tries_max: u32) -> Plain {
        let (owners, capacities) = (BTreeMap::new(), BTreeMap::new());
        Plain { tries_max, owners, capacities, ordered: Vec::new(), arrivals: 0 }
    }

    pub(crate) fn acquire(&mut self, owner: Owner, request: &Request) -> bool {
        let free = self.stopped(request, None).is_none();
        if free {
            self.owners.insert(owner, Holder { request: request.clone(), state: State::Holds });
        }
        free
    }

    pub(crate) fn wait(&mut self, owner: Owner, rank: Rank, request: &Request) -> bool {
        if self.acquire(owner, request) {
            return true;
        }
        self.arrivals += 1;
        let watched = self.stopped(request, None).unwrap().wanted;
        let ordered = request.uses().iter().any(|at| self.ordered.contains(&at.key));
        let state = if ordered || self.tries_max <= 1 {
            State::Ticket { number: self.arrivals, tries: 1 }
        } else {
            State::Eager { rank, arrival: self.arrivals, tries: 1, watched }
        };
        self.owners.insert(owner, Holder { request: request.clone(), state });
        false
    }

    pub(crate) fn ticket(&mut self, owner: Owner) -> bool {
        self.arrivals += 1;
        match self.owners.get_mut(&owner) {
            Some(Holder { state, .. }) => match *state {
                State::Eager { tries, .. } => {
                    *state = State::Ticket { number: self.arrivals, tries };
                    true
                }
                _ => false,
            },
            None => false,
        }
    }

    /// Ends what an owner holds or waits for.
    pub(crate) fn leave(&mut self, owner: Owner) -> Vec<Owner> {
        let holder = self.owners.remove(&owner).unwrap();
        let freed: Vec<Key> = holder.request.uses().iter().map(|at| at.key).collect();
        match holder.state {
            State::Eager { .. } => Vec::new(),
            _ => self.serve(&freed),
        }
    }

    pub(crate) fn set_capacity(&mut self, key: Key, capacity: u32) -> Vec<Owner> {
        self.capacities.insert(key, capacity);
        self.serve(&[key])
    }

    /// The first use that is not to be had: against those that hold and those with a ticket, or a ticket before this
    /// number.
    pub(crate) fn stopped(&self, request: &Request, before: Option<u64>) -> Option<Stop> {
        request.uses().iter().find_map(|wanted| self.use_stopped(wanted, before))
    }

    pub(crate) fn use_stopped(&self, wanted: &Use, before: Option<u64>) -> Option<Stop> {
        let in_the_way = |state: State| match state {
            State::Holds => true,
            State::Ticket { number, .. } => before.is_none_or(|before| number < before),
            State::Eager { .. } => false,
        };
        let (mut units, mut by, mut users) = (u64::from(wanted.units), Vec::new(), Vec::new());
        for (&owner, holder) in self.owners.iter().filter(|(_, holder)| in_the_way(holder.state)) {
            for has in holder.request.uses().iter().filter(|has| has.key == wanted.key) {
                units += u64::from(has.units);
                users.push(owner);
                if wanted.mode.excludes(has.mode) {
                    by.push(owner);
                }
            }
        }
        let capacity = u64::from(self.capacities.get(&wanted.key).copied().unwrap_or(0));
        if wanted.mode == Mode::Units && units > capacity {
            by = users;
        }
        (!by.is_empty()).then_some(Stop { wanted: *wanted, by })
    }

    /// Grants what the end of the use of these keys allows.
    fn serve(&mut self, freed: &[Key]) -> Vec<Owner> {
        let mut granted = Vec::new();
        let mut tickets: Vec<(u64, Owner)> = Vec::new();
        let mut eager: Vec<(Rank, u64, Owner)> = Vec::new();
        for (&owner, holder) in &self.owners {
            match holder.state {
                State::Holds => {}
                State::Ticket { number, .. } => tickets.push((number, owner)),
                State::Eager { rank, arrival, watched, .. } => {
                    if freed.contains(&watched.key) {
                        eager.push((rank, arrival, owner));
                    }
                }
            }
        }
        tickets.sort_unstable();
        eager.sort_unstable();
        for (number, owner) in tickets {
            if self.stopped(&self.owners[&owner].request, Some(number)).is_none() {
                self.owners.get_mut(&owner).unwrap().state = State::Holds;
                granted.push(owner);
            }
        }
        for (rank, arrival, owner) in eager {
            let holder = &self.owners[&owner];
            let State::Eager { tries, watched, .. } = holder.state else { unreachable!() };
            if self.use_stopped(&watched, None).is_some() {
                continue;
            }
            let next = match self.stopped(&holder.request, None) {
                None => State::Holds,
                Some(_) if tries + 1 >= self.tries_max => {
                    self.arrivals += 1;
                    State::Ticket { number: self.arrivals, tries: tries + 1 }
                }
                Some(stop) => State::Eager { rank, arrival, tries: tries + 1, watched: stop.wanted },
            };
            if next == State::Holds {
                granted.push(owner);
            }
            self.owners.get_mut(&owner).unwrap().state = next;
        }
        granted
    }
}
