//! Held reservations against the plain design, over random sequences.

use cadran_footprint::held::{Key, Limits, Need, Owner, Refusal, Request, Reservations, Standing};

use crate::chance::Chance;
use crate::plain_held::{Plain, State};
use crate::sequences;

const NAMES: [&str; 10] = ["a", "a/x", "a/x/1", "a/x/2", "a/y", "b", "b/x", "c", "d", "e"];

/// Both designs, always told the same.
struct Pair {
    chance: Chance,
    held: Reservations,
    plain: Plain,
    keys: Vec<Key>,
    pools: Vec<(Key, u32)>,
    next: Owner,
}

impl Pair {
    fn new(seed: u64) -> Pair {
        let mut chance = Chance::new(seed);
        let tries_max = chance.pick(&[1, 2, 4, u32::MAX]);
        let mut held = Reservations::new(Limits { tries_max, ..Limits::default() });
        let mut plain = Plain::new(tries_max);
        // Few keys make many conflicts, more keys longer chains of them.
        let known = 1 + chance.below(NAMES.len() as u64) as usize;
        let names = &NAMES[..known];
        let keys: Vec<Key> = names.iter().map(|name| held.key(name.split('/')).unwrap()).collect();
        let mut pools = Vec::new();
        for name in ["gpu", "slots"] {
            let (key, capacity) = (held.key([name]).unwrap(), 1 + chance.below(5) as u32);
            held.set_capacity(key, capacity, &mut Vec::new()).unwrap();
            plain.set_capacity(key, capacity);
            pools.push((key, capacity));
        }
        if chance.below(3) == 0 {
            let key = chance.pick(&keys);
            held.set_ordered(key, true).unwrap();
            plain.ordered.push(key);
        }
        Pair { chance, held, plain, keys, pools, next: 1 }
    }

    fn request(&mut self) -> Request {
        let mut needs = Vec::new();
        for _ in 0..1 + self.chance.below(3) {
            let key = self.chance.pick(&self.keys);
            needs.push(match self.chance.below(8) {
                0..4 => Need::Read(key),
                4..6 => Need::Write(key),
                6 => Need::Claim(key),
                _ => {
                    let (pool, capacity) = self.chance.pick(&self.pools);
                    Need::Units(pool, 1 + self.chance.below(u64::from(capacity)) as u32)
                }
            });
        }
        self.held.request(&needs).unwrap()
    }

    /// One that is there, if any is.
    fn somebody(&mut self) -> Option<Owner> {
        let owners: Vec<Owner> = self.plain.owners.keys().copied().collect();
        (!owners.is_empty()).then(|| self.chance.pick(&owners))
    }

    fn step(&mut self) {
        let mut granted = Vec::new();
        match self.chance.below(16) {
            0..3 => {
                let (owner, request) = (self.next, self.request());
                self.next += 1;
                let answer = self.held.acquire(owner, &request);
                let stop = self.plain.stopped(&request, None);
                match (answer, &stop) {
                    (Ok(()), None) => {}
                    (Err(Refusal::Blocked(blocked)), Some(stop)) => {
                        assert_eq!((blocked.key, blocked.wanted), (stop.wanted.key, stop.wanted.mode));
                        assert!(stop.by.contains(&blocked.holder), "{blocked:?}");
                    }
                    (answer, _) => panic!("{answer:?}"),
                }
                assert_eq!(self.plain.acquire(owner, &request), stop.is_none());
            }
            3..8 => {
                let (owner, request, rank) = (self.next, self.request(), self.chance.below(4));
                self.next += 1;
                let holds = self.held.wait(owner, rank.into(), &request) == Ok(Standing::Holds);
                assert_eq!(holds, self.plain.wait(owner, rank.into(), &request));
            }
            8 => {
                if let Some(owner) = self.somebody() {
                    assert_eq!(self.held.ticket(owner), self.plain.ticket(owner));
                }
            }
            9 => {
                let at = self.chance.below(2) as usize;
                let (key, before) = self.pools[at];
                let mut capacity = 1 + self.chance.below(5) as u32;
                // What tickets have been given of a pool they keep when it shrinks, as holders do; the plain design
                // does not know what they have been given.
                if self.plain.owners.values().any(|holder| matches!(holder.state, State::Ticket { .. })) {
                    capacity = capacity.max(before);
                }
                self.pools[at].1 = capacity;
                self.held.set_capacity(key, capacity, &mut granted).unwrap();
                assert_eq!(granted, self.plain.set_capacity(key, capacity));
            }
            10 => {
                // What is in use stays; what is not gets a number again.
                self.held.forget_unused();
                let names = NAMES.iter().take(self.keys.len());
                let keys: Vec<Key> = names.map(|name| self.held.key(name.split('/')).unwrap()).collect();
                for holder in self.plain.owners.values() {
                    assert!(holder.request.uses().iter().all(|at| !self.held.path(at.key).is_empty()));
                }
                self.keys = keys;
            }
            _ => {
                if let Some(owner) = self.somebody() {
                    let holds = self.plain.owners[&owner].state == State::Holds;
                    assert_eq!(self.held.release(owner, &mut granted), holds);
                    assert_eq!(self.held.withdraw(owner, &mut granted), !holds);
                    assert_eq!(granted, self.plain.leave(owner));
                }
            }
        }
        self.compare();
    }

    fn compare(&self) {
        assert_eq!(self.held.len(), self.plain.owners.len());
        for (&owner, holder) in &self.plain.owners {
            let why = self.held.why(owner);
            assert_eq!(self.held.standing(owner) == Some(Standing::Holds), holder.state == State::Holds);
            let (stop, ticket, tries, place) = match holder.state {
                State::Holds => {
                    assert_eq!(why, None);
                    continue;
                }
                State::Eager { rank, arrival, tries, watched } => {
                    let before = self.plain.owners.values().filter(|other| {
                        matches!(other.state, State::Eager { rank: r, arrival: a, watched: w, .. }
                            if w.key == watched.key && (r, a) < (rank, arrival))
                    });
                    (self.plain.use_stopped(&watched, None), false, tries, before.count())
                }
                State::Ticket { number, tries } => {
                    let stop = self.plain.stopped(&holder.request, Some(number));
                    let key = stop.as_ref().map(|stop| stop.wanted.key);
                    let before = self.plain.owners.values().filter(|other| match other.state {
                        State::Ticket { number: earlier, .. } if earlier < number => {
                            let mut uses = other.request.uses().iter().filter(|at| Some(at.key) == key);
                            uses.any(|at| self.plain.use_stopped(at, Some(earlier)).is_some())
                        }
                        _ => false,
                    });
                    (stop, true, tries, before.count())
                }
            };
            // Whoever waits is stopped by somebody: no wake-up is lost.
            let stop = stop.expect("a waiter is free and waits");
            let why = why.expect("it waits");
            assert_eq!((why.blocked.key, why.blocked.wanted), (stop.wanted.key, stop.wanted.mode));
            assert_eq!((why.ticket, why.tries, why.place as usize), (ticket, tries, place));
            assert!(stop.by.contains(&why.blocked.holder), "{why:?} {:?}", stop.by);
        }
    }

    /// Everybody that holds ends; all that wait must come to hold, whatever they are.
    fn drain(&mut self) {
        while let Some((&owner, _)) =
            self.plain.owners.iter().find(|(_, holder)| holder.state == State::Holds)
        {
            let mut granted = Vec::new();
            assert!(self.held.release(owner, &mut granted));
            assert_eq!(granted, self.plain.leave(owner));
            self.compare();
        }
        assert!(self.plain.owners.is_empty() && self.held.is_empty(), "some wait for nobody");
        self.held.forget_unused();
        assert_eq!(
            self.held.keys_len(),
            self.pools.len() + if self.plain.ordered.is_empty() { 0 } else { self.ordered_len() }
        );
    }

    /// Ordered keys stay known, and those above them.
    fn ordered_len(&self) -> usize {
        self.plain.ordered.iter().map(|key| self.held.path(*key).len()).sum()
    }
}

#[test]
fn held_reservations_do_as_the_plain_design_does() {
    for seed in 0..sequences(4_000) {
        let told = std::panic::catch_unwind(|| {
            let mut pair = Pair::new(seed);
            for _ in 0..40 {
                pair.step();
            }
            pair.drain();
        });
        assert!(told.is_ok(), "seed {seed}");
    }
}
