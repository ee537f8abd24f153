//! Rules of holding and waiting, one story each.

use super::*;
use Mode::{Read, ReadBelow, Units, Write, WriteBelow};

/// Reservations with keys by name, and what a row of a story says.
struct World {
    held: Reservations,
}

impl World {
    fn new() -> World {
        World { held: Reservations::new(Limits::default()) }
    }

    fn key(&mut self, name: &str) -> Key {
        self.held.key(segments(name)).unwrap()
    }

    fn pool(&mut self, name: &str, capacity: u32) {
        let key = self.key(name);
        self.held.set_capacity(key, capacity, &mut Vec::new()).unwrap();
    }

    /// Reads `r a, w b, c port, u2 gpu`.
    fn request(&mut self, text: &str) -> Request {
        let needs: Vec<Need> = text
            .split(", ")
            .map(|need| {
                let (how, name) = need.split_once(' ').unwrap();
                let key = self.key(name);
                match how.split_at(1) {
                    ("r", "") => Need::Read(key),
                    ("w", "") => Need::Write(key),
                    ("c", "") => Need::Claim(key),
                    ("u", units) => Need::Units(key, units.parse().unwrap()),
                    other => panic!("{other:?}"),
                }
            })
            .collect();
        self.held.request(&needs).unwrap()
    }

    fn acquires(&mut self, owner: Owner, text: &str) -> bool {
        let request = self.request(text);
        self.held.acquire(owner, &request).is_ok()
    }

    /// Waits, and says whether it holds at once.
    fn waits(&mut self, owner: Owner, rank: Rank, text: &str) -> bool {
        let request = self.request(text);
        self.held.wait(owner, rank, &request).unwrap() == Standing::Holds
    }

    fn ends(&mut self, owner: Owner) -> Vec<Owner> {
        let mut granted = Vec::new();
        assert!(self.held.release(owner, &mut granted), "{owner} holds nothing");
        granted
    }

    fn leaves(&mut self, owner: Owner) -> Vec<Owner> {
        let mut granted = Vec::new();
        assert!(self.held.withdraw(owner, &mut granted), "{owner} does not wait");
        granted
    }
}

#[test]
fn readers_share_and_writers_exclude_and_parents_reach_below() {
    let check = |first: &str, second: &str, together: bool| {
        for (first, second) in [(first, second), (second, first)] {
            let mut world = World::new();
            world.pool("gpu", 4);
            assert!(world.acquires(1, first));
            assert_eq!(world.acquires(2, second), together, "{first} | {second}");
            let (one, other) = (world.request(first), world.request(second));
            assert_eq!(world.held.conflict(&one, &other).is_none(), together, "{first} | {second}");
            world.ends(1);
            assert!(together || world.acquires(2, second), "{second}");
        }
    };
    check("r table:a", "r table:a", true);
    check("r table:a", "w table:a", false);
    check("w table:a", "w table:a", false);
    check("w table:a", "w table:b", true);
    check("c port:1", "r port:1", false);
    check("c port:1", "c port:1", false);
    check("u2 gpu", "u2 gpu", true);
    check("u3 gpu", "u2 gpu", false);
    check("u4 gpu, w table:a", "r table:a", false);
    // Below, beside and above.
    check("w s3://b/x", "w s3://b/y", true);
    check("w s3://b/x", "r s3://b/x/deep/file", false);
    check("r s3://b/x", "w s3://b/x/deep/file", false);
    check("r s3://b/x", "r s3://b/x/deep/file", true);
    check("w s3://b/", "r s3://b/x", false);
    check("w s3://b/x", "w s3://bb/x", true);
    // Reads all and writes one part: others may read the rest, and write nothing.
    check("r s3://b/, w s3://b/x", "r s3://b/y", true);
    check("r s3://b/, w s3://b/x", "r s3://b/x", false);
    check("r s3://b/, w s3://b/x", "w s3://b/y", false);
    // Duplicates and overlaps.
    check("r table:a, r table:a, w table:a", "r table:a", false);
    check("w s3://b/, w s3://b/x, r s3://b/x/y", "r s3://c", true);
}

#[test]
fn a_refusal_names_key_mode_and_holder_and_leaves_no_trace() {
    let check = |holds: &str, wants: &str, key: &str, wanted: Mode, mode: Mode| {
        let mut world = World::new();
        world.pool("gpu", 4);
        assert!(world.acquires(7, holds));
        let request = world.request(wants);
        let key = world.key(key);
        let blocked = Blocked { key, wanted, mode, holder: 7, in_line: false };
        for _ in 0..2 {
            assert_eq!(world.held.acquire(8, &request), Err(Refusal::Blocked(blocked)), "{holds} | {wants}");
            assert_eq!(world.held.standing(8), None);
        }
        world.ends(7);
        assert!(world.acquires(7, holds), "{wants}");
    };
    check("w a, w b", "r c, r b", "b", Read, Write);
    check("r a", "w a", "a", Write, Read);
    check("w a/b", "r a", "a", Read, WriteBelow);
    check("r a/b", "w a", "a", Write, ReadBelow);
    check("r a/", "w a/b", "a", WriteBelow, Read);
    check("u3 gpu", "u2 gpu", "gpu", Units, Units);
}

#[test]
fn a_release_grants_those_it_helps_the_most_urgent_first() {
    let mut world = World::new();
    assert!(world.acquires(1, "w a, w b"));
    assert!(world.acquires(2, "w c"));
    assert!(!world.waits(3, 5, "w a"));
    assert!(!world.waits(4, 3, "w a, w c"));
    assert!(!world.waits(5, 5, "r b"));
    assert!(!world.waits(6, 4, "r b"));
    // 4 is tried first and now waits for c; 6 reads before 5; 3 gets a.
    assert_eq!(world.ends(1), [6, 3, 5]);
    assert_eq!(world.ends(2), []);
    assert_eq!(world.held.why(4).unwrap().blocked.holder, 3);
    assert_eq!(world.ends(3), [4]);
    assert_eq!(world.held.len(), 3);
}

#[test]
fn nothing_that_conflicts_passes_a_ticket() {
    let mut world = World::new();
    assert!(world.acquires(1, "r a"));
    assert!(!world.waits(2, 0, "w a, w b"));
    // Eagerly: a reader passes the waiting writer.
    assert!(world.acquires(3, "r a"));
    assert!(world.held.ticket(2));
    assert!(!world.held.ticket(2));
    assert!(!world.acquires(4, "r a"));
    assert!(!world.acquires(4, "r b"));
    assert!(world.acquires(5, "r c"));
    assert!(!world.waits(4, 0, "r b"));
    let blocked = world.held.why(4).unwrap().blocked;
    assert_eq!((blocked.holder, blocked.in_line), (2, true));
    assert_eq!(world.ends(1), []);
    assert_eq!(world.ends(3), [2]);
    assert_eq!(world.ends(2), [4]);
}

#[test]
fn tickets_are_served_in_order_and_withdrawing_makes_way() {
    let mut world = World::new();
    let a = world.key("a");
    world.held.set_ordered(a, true).unwrap();
    assert!(world.acquires(1, "r a"));
    assert!(!world.waits(2, 9, "w a"));
    assert!(!world.waits(3, 1, "r a"));
    assert!(!world.waits(4, 0, "r a"));
    assert!(!world.waits(5, 0, "w a"));
    assert_eq!(world.held.why(5).map(|why| (why.ticket, why.place)), Some((true, 3)));
    assert_eq!(world.leaves(2), [3, 4]);
    assert_eq!(world.ends(1), []);
    assert_eq!(world.ends(4), []);
    assert_eq!(world.ends(3), [5]);
}

#[test]
fn a_waiter_that_loses_four_tries_takes_a_ticket() {
    let mut world = World::new();
    assert!(world.acquires(10, "w a"));
    assert!(world.acquires(20, "w b"));
    assert!(!world.waits(1, 0, "w a, w b"));
    for round in 0..3 {
        let why = world.held.why(1).unwrap();
        assert_eq!((why.ticket, why.tries), (false, round + 1));
        let (ends, again) = if why.blocked.holder / 10 == 1 {
            (why.blocked.holder, "w a")
        } else {
            (why.blocked.holder, "w b")
        };
        assert_eq!(world.ends(ends), []);
        assert_eq!(world.acquires(ends + 1, again), round < 2, "{round}");
    }
    assert!(world.held.why(1).unwrap().ticket);
}

#[test]
fn units_are_counted_and_promised_to_tickets() {
    let mut world = World::new();
    world.pool("gpu", 4);
    assert!(world.acquires(1, "u3 gpu"));
    assert!(!world.waits(2, 0, "u2 gpu"));
    assert!(world.acquires(3, "u1 gpu"));
    world.held.ticket(2);
    assert_eq!(world.ends(3), []);
    assert!(!world.acquires(4, "u1 gpu"));
    let gpu = world.key("gpu");
    let mut granted = Vec::new();
    world.held.set_capacity(gpu, 6, &mut granted).unwrap();
    assert_eq!(granted, [2]);
    assert!(world.acquires(4, "u1 gpu"));
    // Of a lowered capacity, what was promised is had when nobody else has any.
    assert!(!world.waits(5, 0, "u3 gpu"));
    world.held.set_capacity(gpu, 2, &mut granted).unwrap();
    assert_eq!([world.ends(1), world.ends(2), world.ends(4)], [vec![], vec![], vec![5]]);
}

#[test]
fn mistakes_are_refused() {
    let mut world = World::new();
    let request = world.request("w a");
    assert!(world.held.acquire(1, &request).is_ok());
    assert_eq!(world.held.acquire(1, &request), Err(Refusal::Error(Error::OwnerKnown(1))));
    assert_eq!(world.held.wait(1, 0, &request), Err(Error::OwnerKnown(1)));
    let a = world.key("a");
    assert_eq!(world.held.set_capacity(a, 1, &mut Vec::new()), Err(Error::Pool));
    assert!(!world.held.withdraw(1, &mut Vec::new()));
    assert!(!world.held.release(2, &mut Vec::new()));
    assert!(!world.held.ticket(1));
    let limits = Limits { owners_max: 1, ..Limits::default() };
    let mut small = Reservations::new(limits);
    let a = small.key(["a"]).unwrap();
    let request = small.request(&[Need::Read(a)]).unwrap();
    assert!(small.acquire(1, &request).is_ok());
    assert_eq!(small.wait(2, 0, &request), Err(Error::Full));
}

#[test]
fn keys_in_use_are_remembered_and_others_forgotten() {
    let mut world = World::new();
    world.pool("gpu", 1);
    assert!(world.acquires(1, "w a/b"));
    let stale = world.request("w x/y");
    assert!(!world.waits(2, 0, "w a/b"));
    assert_eq!((world.held.forget_unused(), world.held.keys_len()), (2, 3));
    assert!(matches!(world.held.acquire(3, &stale), Err(Refusal::Error(Error::Forgotten(_)))));
    assert_eq!(world.ends(1), [2]);
    assert_eq!(world.ends(2), []);
    assert_eq!((world.held.forget_unused(), world.held.keys_len()), (2, 1));
}
