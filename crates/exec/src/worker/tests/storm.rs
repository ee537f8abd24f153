//! A server and its workers on a bad network: the real state of the server's end, real leases at the workers'.
//!
//! What is lost at the server runs nowhere any more, whatever was delayed, dropped or restarted. One seed decides
//! everything.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::worker::lease::{Allows, Lease};
use crate::worker::wire::{Orders, Welcome};

/// A step of time.
const STEP_MS: i64 = 250;
/// How long the storm lasts, and then the calm in which everything comes to its end.
const STORM_MS: i64 = 300_000;
const CALM_MS: i64 = 120_000;
/// A worker does not wait longer for an answer.
const PATIENCE_MS: i64 = 10_000;

/// How a worker counts its lease.
#[derive(Clone, Copy, PartialEq)]
enum LeaseFrom {
    /// From when it sent the request that was answered: the rule.
    Sending,
    /// From when the answer came: the mistake.
    Answer,
}

struct Chance(u64);

impl Chance {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    /// How long a message travels; `None` for one that is lost.
    fn travel(&mut self, calm: bool) -> Option<i64> {
        match self.roll(12) {
            _ if calm => Some(1),
            0 | 1 => None,
            2 => Some(4_000 + self.roll(5_000) as i64),
            3 => Some(1_000),
            _ => Some(1 + self.roll(200) as i64),
        }
    }
}

enum Said {
    Welcome(Welcome),
    Orders(Orders),
    /// The server does not know this worker, or another life of it.
    Hello,
    Nothing,
}

struct Station {
    id: &'static str,
    lease: Lease,
    is_known: bool,
    have: u64,
    /// Attempts that run, and when they end.
    on: BTreeMap<Key, i64>,
    /// Attempts that ended, until the server has heard of them.
    ended: BTreeMap<Key, Outcome>,
    seen: BTreeSet<Key>,
    /// The request that is on its way: when it was sent, arrives, and its answer arrives.
    asked: Option<(i64, Option<i64>, Option<i64>, Option<Said>)>,
}

/// The first law that is broken, if one is.
fn play(seed: u64, from: LeaseFrom) -> Result<(), String> {
    let dir = tempfile::tempdir().expect("a directory");
    let mut chance = Chance(seed);
    let mut life = 1;
    let mut fleet = fleet(dir.path(), "s1", 0);
    let mut stations: Vec<Station> = ["a", "b"]
        .map(|id| Station {
            id,
            lease: Lease::new(0, LEASE_MS),
            is_known: false,
            have: 0,
            on: BTreeMap::new(),
            ended: BTreeMap::new(),
            seen: BTreeSet::new(),
            asked: None,
        })
        .into();
    let (mut begun, mut over): (u64, BTreeMap<Key, Outcome>) = (0, BTreeMap::new());
    let mut now = 0;
    while now < STORM_MS + CALM_MS {
        now += STEP_MS;
        let calm = now > STORM_MS;
        if !calm && chance.roll(40) == 0 {
            begun += 1;
            let executors = ["a", "b"].map(worker).to_vec();
            fleet.begin(start(begun, Seats::Asked { ask: Ask::Free, executors, log: begun }), at(now));
        }
        if !calm && chance.roll(400) == 0 {
            // The server is killed; its ledger is on disk before an order leaves.
            fleet.ledger.write();
            life += 1;
            fleet = super::fleet(dir.path(), &format!("s{life}"), now);
        }
        fleet.expire(at(now));
        for station in &mut stations {
            station.step(&mut fleet, life, from, now, calm, &mut chance);
        }
        for (key, kind) in std::mem::take(&mut fleet.told) {
            let ReportKind::Ended { outcome, .. } = kind else { continue };
            let runs = |station: &&Station| station.on.contains_key(&key);
            if outcome == Outcome::Lost
                && let Some(station) = stations.iter().find(runs)
            {
                return Err(format!("{key:?} is lost at {now}, and runs on {}", station.id));
            }
            if over.insert(key, outcome).is_some() {
                return Err(format!("{key:?} ended twice"));
            }
        }
    }
    match over.len() as u64 {
        ended if ended == begun => Ok(()),
        ended => Err(format!("{begun} attempts were begun, {ended} ended")),
    }
}

impl Station {
    fn step(
        &mut self,
        fleet: &mut Fleet,
        life: u32,
        from: LeaseFrom,
        now: i64,
        calm: bool,
        chance: &mut Chance,
    ) {
        let allows = self.lease.look(now);
        // Every other process does not listen to its signal and lasts until it is killed.
        let lasts = |key: &Key| match allows {
            Allows::Work => true,
            Allows::Stop => key.run.raw().is_multiple_of(2),
            Allows::Nothing => false,
        };
        let done: Vec<Key> =
            self.on.iter().filter(|(key, end)| **end <= now || !lasts(key)).map(|(key, _)| *key).collect();
        for key in done {
            let by_itself = self.on.remove(&key).is_some_and(|end| end <= now);
            self.ended.insert(key, if by_itself { Outcome::Exited(0) } else { Outcome::Stopped });
        }
        match &mut self.asked {
            None => {
                let arrives = chance.travel(calm).map(|way| now + way);
                let answer = chance.travel(calm).and_then(|way| Some(arrives? + way));
                self.asked = Some((now, arrives, answer, None));
            }
            Some((_, Some(arrives), _, said @ None)) if *arrives <= now => {
                *said = Some(Said::Nothing);
                let said_now = self.arrive(fleet, life, now);
                if let Some((.., said)) = &mut self.asked {
                    *said = Some(said_now);
                }
            }
            Some((sent, _, Some(answer), Some(_))) if *answer <= now => {
                let counted = if from == LeaseFrom::Sending { *sent } else { now };
                let Some((.., Some(said))) = self.asked.take() else { return };
                if !matches!(said, Said::Hello) {
                    self.lease.renew(counted);
                }
                self.hear(said, now, chance);
            }
            Some((sent, ..)) if now - *sent > PATIENCE_MS => self.asked = None,
            Some(_) => {}
        }
    }

    /// The request arrives at the server.
    fn arrive(&mut self, fleet: &mut Fleet, life: u32, now: i64) -> Said {
        let address = worker(self.id).address;
        if !self.is_known {
            let held =
                self.on.keys().map(|key| (*key, false)).chain(self.ended.keys().map(|key| (*key, true)));
            let hello = Hello {
                worker: self.id.into(),
                life: "l".into(),
                slots: 2,
                labels: Vec::new(),
                draining: false,
                held: held.map(|(key, ended)| HeldAttempt { attempt: key.into(), ended }).collect(),
            };
            return Said::Welcome(
                fleet.hello("g".parse().expect("a name"), hello, at(now)).expect("welcome"),
            );
        }
        let from = sender(self.id, "l", &format!("s{life}"));
        let poll = Poll { from, have: self.have, draining: false };
        match fleet.orders(&"g".parse().expect("a name"), &poll, at(now)) {
            Ok(orders) => {
                let started = self.on.keys().map(|key| (key, None));
                let reports =
                    started.chain(self.ended.iter().map(|(key, outcome)| (key, Some(outcome_text(outcome)))));
                let report = |(key, ended): (&Key, _)| WireReport {
                    attempt: (*key).into(),
                    at: 9,
                    ended,
                    output: None,
                };
                let reports: Vec<WireReport> = reports.map(report).collect();
                fleet.report(&address, &reports, at(now));
                Said::Orders(orders)
            }
            Err(_) => Said::Hello,
        }
    }

    /// The answer arrives at the worker.
    fn hear(&mut self, said: Said, now: i64, chance: &mut Chance) {
        match said {
            Said::Nothing => {}
            Said::Hello => (self.is_known, self.have) = (false, 0),
            Said::Welcome(welcome) => {
                self.is_known = true;
                for named in welcome.forget {
                    let key = named.key().expect("a key");
                    self.on.remove(&key);
                    self.ended.remove(&key);
                }
            }
            Said::Orders(orders) => {
                for (no, order) in orders.orders {
                    self.have = self.have.max(no);
                    match order {
                        WireOrder::Start(start) if self.lease.look(now) == Allows::Work => {
                            let key = start.attempt.key().expect("a key");
                            if self.seen.insert(key) {
                                self.on.insert(key, now + 1_000 + chance.roll(60_000) as i64);
                            }
                        }
                        WireOrder::Start(_) | WireOrder::Stop(_) => {}
                        WireOrder::Close(_) => {}
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_lost_at_the_server_runs_nowhere() {
    for seed in 1..=150 {
        if let Err(why) = play(seed, LeaseFrom::Sending) {
            panic!("seed {seed}: {why}");
        }
    }
}

#[test]
fn a_lease_counted_from_the_answer_is_found_out() {
    let found = (1..=1_000).find_map(|seed| Some((seed, play(seed, LeaseFrom::Answer).err()?)));
    let (seed, why) = found.expect("within a thousand seeds");
    println!("seed {seed}: {why}");
    assert!(why.contains("is lost at"), "{why}");
    play(seed, LeaseFrom::Sending).expect("the rule itself holds");
}
