//! The server's end as a state: what follows from which event, at which time.

use std::path::Path;
use std::time::Duration;

use cadran_core::{
    Ask, Dialect, Executor, JobId, Now, Outcome, ReportKind, RunId, Seat, Seats, Start, Step, StepNo, Work,
};

use super::fleet::Fleet;
use super::hub::{Presence, Refused};
use super::wire::{HeldAttempt, Hello, Poll, Sender, Welcome, WireOrder, WireReport, outcome_text};
use crate::journal::Key;
use crate::sample;
use crate::xxl::ledger::Ledger;

mod storm;

const LEASE_MS: i64 = 30_000;

fn at(mono: i64) -> Now {
    Now { wall: 1_000_000 + mono, mono }
}

fn fleet(dir: &Path, server: &str, now: i64) -> Fleet {
    let ledger = Ledger::open(&dir.join("workers")).expect("opened");
    Fleet::new(ledger, server.into(), Duration::from_millis(LEASE_MS as u64), at(now))
}

fn worker(id: &str) -> Executor {
    Executor { address: format!("worker:{id}").parse().expect("an address"), dialect: Dialect::Worker }
}

fn key(run: u64) -> Key {
    Key { run: RunId::from_raw(run), step: StepNo(0), attempt: 1 }
}

fn start(run: u64, seats: Seats) -> Start {
    let step = Step { name: "main".into(), work: Work::Shell("true".into()), ..Step::default() };
    sample::start(JobId(7), run, step, seats)
}

fn chosen(run: u64, id: &str) -> Start {
    start(run, Seats::Chosen(vec![Seat { index: 0, total: 1, executor: worker(id), log: run }]))
}

fn hello(fleet: &mut Fleet, id: &str, life: &str, held: &[(u64, bool)], now: i64) -> Welcome {
    let held = held.iter().map(|(run, ended)| HeldAttempt { attempt: key(*run).into(), ended: *ended });
    let hello = Hello {
        worker: id.into(),
        life: life.into(),
        slots: 1,
        labels: Vec::new(),
        draining: false,
        held: held.collect(),
    };
    fleet.hello("g".parse().expect("a name"), hello, at(now)).expect("welcome")
}

fn sender(id: &str, life: &str, server: &str) -> Sender {
    Sender { worker: id.into(), life: life.into(), server: server.into() }
}

/// The orders a worker gets: `+7` start, `-7` stop, `x7` close, each with its number.
fn poll(fleet: &mut Fleet, from: Sender, have: u64, now: i64) -> Result<String, Refused> {
    let poll = Poll { from, have, draining: false };
    let orders = fleet.orders(&"g".parse().expect("a name"), &poll, at(now))?;
    let word = |(no, order): (u64, WireOrder)| match order {
        WireOrder::Start(start) => format!("{no}+{}", start.attempt.key().expect("a key").run.raw()),
        WireOrder::Stop(named) => format!("{no}-{}", named.key().expect("a key").run.raw()),
        WireOrder::Close(run) => format!("{no}x{}", run.parse::<RunId>().expect("a run").raw()),
    };
    Ok(orders.orders.into_iter().map(word).collect::<Vec<_>>().join(" "))
}

fn report(fleet: &mut Fleet, id: &str, run: u64, outcome: Option<Outcome>, now: i64) {
    let ended = outcome.as_ref().map(outcome_text);
    let report = WireReport { attempt: key(run).into(), at: 9, ended, output: None };
    fleet.report(&worker(id).address, &[report], at(now));
}

/// What the engine hears, without the shares.
fn told(fleet: &mut Fleet) -> String {
    let word = |(key, kind): (Key, ReportKind)| match kind {
        ReportKind::Started => Some(format!("{} started", key.run.raw())),
        ReportKind::Ended { outcome, .. } => Some(format!("{} {}", key.run.raw(), outcome_text(&outcome))),
        ReportKind::Seat(_) => None,
    };
    std::mem::take(&mut fleet.told).into_iter().filter_map(word).collect::<Vec<_>>().join(", ")
}

#[test]
fn an_order_is_repeated_until_it_arrived() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut fleet = fleet(dir.path(), "s1", 0);
    fleet.begin(chosen(1, "a"), at(0));
    fleet.begin(chosen(1, "a"), at(0));
    let from = || sender("a", "l1", "s1");
    assert_eq!(poll(&mut fleet, from(), 0, 1), Err(Refused::Hello), "nobody said hello");
    hello(&mut fleet, "a", "l1", &[], 2);
    for _ in 0..2 {
        assert_eq!(poll(&mut fleet, from(), 0, 3).as_deref(), Ok("1+1"));
    }
    assert_eq!(poll(&mut fleet, from(), 1, 4).as_deref(), Ok(""));
    // The worker was killed before it began: its journal knows nothing, and the order is still here.
    hello(&mut fleet, "a", "l2", &[], 5);
    assert_eq!(poll(&mut fleet, from(), 0, 6), Err(Refused::Superseded));
    assert_eq!(poll(&mut fleet, sender("a", "l2", "s1"), 0, 6).as_deref(), Ok("1+1"));
    report(&mut fleet, "a", 1, None, 7);
    report(&mut fleet, "a", 1, None, 7);
    assert_eq!(told(&mut fleet), "1 started");
    // Once it began, nobody starts it again under the same number.
    hello(&mut fleet, "a", "l3", &[], 8);
    assert_eq!(told(&mut fleet), "1 lost");
    report(&mut fleet, "a", 1, Some(Outcome::Exited(0)), 9);
    assert_eq!(told(&mut fleet), "", "the first end counts");
    fleet.close(RunId::from_raw(1));
    assert_eq!(poll(&mut fleet, sender("a", "l3", "s1"), 0, 10).as_deref(), Ok("1x1"));
}

#[test]
fn a_stop_meets_an_order_wherever_it_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut fleet = fleet(dir.path(), "s1", 0);
    hello(&mut fleet, "a", "l", &[], 0);
    fleet.begin(chosen(1, "a"), at(0));
    fleet.stop(key(1), at(1));
    assert_eq!((told(&mut fleet).as_str(), fleet.counts().1), ("1 stopped", 0));
    fleet.begin(chosen(2, "a"), at(2));
    assert_eq!(poll(&mut fleet, sender("a", "l", "s1"), 0, 2).as_deref(), Ok("2+2"));
    fleet.stop(key(2), at(3));
    fleet.stop(key(2), at(3));
    assert_eq!(poll(&mut fleet, sender("a", "l", "s1"), 2, 3).as_deref(), Ok("3-2"));
    report(&mut fleet, "a", 2, Some(Outcome::Exited(143)), 4);
    assert_eq!(told(&mut fleet), "2 started, 2 stopped", "somebody asked for it");
    // Nobody here asked: the worker was cut off, or told to go.
    fleet.begin(chosen(3, "a"), at(5));
    report(&mut fleet, "a", 3, Some(Outcome::Stopped), 6);
    assert_eq!(told(&mut fleet), "3 lost");
}

#[test]
fn a_lease_is_waited_for_also_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut one = fleet(dir.path(), "s1", 0);
    hello(&mut one, "a", "l", &[], 0);
    for run in [1, 2, 3] {
        one.begin(chosen(run, "a"), at(0));
        report(&mut one, "a", run, None, 1);
    }
    one.expire(at(LEASE_MS));
    assert_eq!(told(&mut one), "1 started, 2 started, 3 started");
    report(&mut one, "a", 3, Some(Outcome::Exited(0)), 2);
    one.ledger.write();
    drop(one);
    let mut two = fleet(dir.path(), "s2", 1_000_000);
    assert!(two.ledger.kept.entries[&key(1)].found(key(1)).lives);
    two.expire(at(1_000_000 + LEASE_MS));
    assert_eq!(told(&mut two), "");
    // It comes back in time, with one that runs, one that ended, and one that nobody knows.
    let from = sender("a", "l", "s1");
    assert_eq!(poll(&mut two, from, 9, 1_000_001), Err(Refused::Hello), "another life of the server");
    let welcome = hello(&mut two, "a", "l", &[(1, false), (2, true), (3, true), (9, false)], 1_000_002);
    let named = |keys: &[u64]| keys.iter().map(|run| key(*run).into()).collect::<Vec<_>>();
    assert_eq!((welcome.want, welcome.forget), (named(&[2]), named(&[9])));
    report(&mut two, "a", 1, None, 1_000_003);
    report(&mut two, "a", 2, Some(Outcome::Exited(4)), 1_000_003);
    assert_eq!(told(&mut two), "1 started, 2 started, 2 exited 4");
    two.expire(at(1_000_002 + LEASE_MS));
    assert_eq!(told(&mut two), "");
    two.presence.clear();
    two.expire(at(1_000_003 + LEASE_MS));
    assert_eq!((told(&mut two).as_str(), two.lost), ("1 lost", 1));
    assert_eq!(two.presence, [], "it stays on the list for a while");
    // Not where somebody else is there: nothing more shall wait for it.
    hello(&mut two, "a", "l", &[], 2_000_000);
    hello(&mut two, "b", "l", &[], 2_000_001 + LEASE_MS);
    two.presence.clear();
    two.expire(at(2_000_001 + LEASE_MS));
    assert_eq!(two.presence, [Presence::Gone("g".parse().expect("a name"), worker("a").address)]);
}

#[test]
fn whoever_has_a_free_slot_comes_first() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut fleet = fleet(dir.path(), "s1", 0);
    let asked = |run, ask| {
        let executors = ["a", "b", "c"].map(worker).to_vec();
        start(run, Seats::Asked { ask, executors, log: run })
    };
    let owner = |fleet: &Fleet, run| fleet.ledger.kept.entries[&key(run)].shares[0].seat.address.to_string();
    // Right after a start nobody is there yet: somebody gets a lease to come for it.
    fleet.begin(asked(1, Ask::Free), at(0));
    assert_eq!(owner(&fleet, 1), "worker:a");
    hello(&mut fleet, "b", "l", &[], 1);
    hello(&mut fleet, "c", "l", &[], 1);
    let rows = [(2, Ask::Free, "b"), (3, Ask::Free, "c"), (4, Ask::Free, "b"), (5, Ask::Alive, "b")];
    for (run, ask, id) in rows {
        fleet.begin(asked(run, ask), at(2));
        assert_eq!(owner(&fleet, run), format!("worker:{id}"), "{run}");
    }
    told(&mut fleet);
    fleet.begin(asked(6, Ask::Idle), at(3));
    assert!(told(&mut fleet).contains("no worker of the group g is idle"));
    report(&mut fleet, "c", 3, Some(Outcome::Exited(0)), 4);
    fleet.begin(asked(7, Ask::Idle), at(5));
    assert_eq!(owner(&fleet, 7), "worker:c");
    // One that goes gets nothing more, and what it has goes to others.
    fleet.presence.clear();
    fleet.draining(&worker("c").address, true);
    assert_eq!(fleet.presence, [Presence::Gone("g".parse().expect("a name"), worker("c").address)]);
    fleet.begin(asked(8, Ask::Free), at(6));
    assert_eq!(owner(&fleet, 8), "worker:b");
    told(&mut fleet);
    fleet.leave(&worker("c").address, at(7));
    assert_eq!(told(&mut fleet), "7 lost");
}

#[test]
fn nonsense_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut fleet = fleet(dir.path(), "s1", 0);
    let good = Hello {
        worker: "a".into(),
        life: "l".into(),
        slots: 1,
        labels: vec![],
        draining: false,
        held: vec![],
    };
    let long = "x".repeat(200);
    let rows = [
        Hello { worker: String::new(), ..good.clone() },
        Hello { worker: "../a".into(), ..good.clone() },
        Hello { life: long.clone(), ..good.clone() },
        Hello { slots: 0, ..good.clone() },
        Hello { slots: 1_000_000, ..good.clone() },
        Hello { labels: vec![("k".into(), long)], ..good.clone() },
        Hello { labels: vec![(String::new(), "v".into())], ..good.clone() },
        Hello { labels: vec![("k".into(), "v".into()); 65], ..good },
    ];
    for hello in rows {
        let text = format!("{hello:?}");
        let answer = fleet.hello("g".parse().expect("a name"), hello, at(0));
        assert!(matches!(answer, Err(Refused::Bad(_))), "{text}");
    }
    // A report for what nobody ordered, or of somebody else, changes nothing.
    hello(&mut fleet, "a", "l", &[], 0);
    hello(&mut fleet, "b", "l", &[], 0);
    fleet.begin(chosen(1, "a"), at(0));
    report(&mut fleet, "b", 1, Some(Outcome::Exited(0)), 1);
    report(&mut fleet, "a", 2, Some(Outcome::Exited(0)), 1);
    let odd = WireReport { attempt: key(1).into(), at: 1, ended: Some("exploded".into()), output: None };
    fleet.report(&worker("a").address, &[odd], at(1));
    assert_eq!((told(&mut fleet).as_str(), fleet.counts()), ("", (2, 1)));
}

/// A broadcast whose shares have these workers.
fn shared(run: u64, owners: &[&str]) -> Start {
    let total = owners.len() as u32;
    let seat = |(index, id): (u32, &&str)| Seat { index, total, executor: worker(id), log: u64::from(index) };
    start(run, Seats::Chosen((0..).zip(owners).map(seat).collect()))
}

/// What a worker calls the share of the attempt that has this turn there.
fn turn(run: u64, turn: u32) -> Key {
    key(run).at_turn(turn)
}

fn report_turn(fleet: &mut Fleet, id: &str, name: Key, outcome: Option<Outcome>) {
    let ended = outcome.as_ref().map(outcome_text);
    let report = WireReport { attempt: name.into(), at: 9, ended, output: None };
    fleet.report(&worker(id).address, &[report], at(9));
}

/// The shares that a worker is told to start (`+`) and to stop (`-`), each by its turn.
fn turns(fleet: &mut Fleet, from: Sender, have: u64) -> String {
    let poll = Poll { from, have, draining: false };
    let orders = fleet.orders(&"g".parse().expect("a name"), &poll, at(9)).expect("orders");
    let word = |(no, order): (u64, WireOrder)| match order {
        WireOrder::Start(order) => {
            let name = order.attempt.key().expect("a key");
            let (start, _) = (*order).start().expect("an order");
            let (index, total) = (start.context.shard_index, start.context.shard_total);
            format!("{no}+{} (share {index} of {total})", name.and_turn().1)
        }
        WireOrder::Stop(named) => format!("{no}-{}", named.key().expect("a key").and_turn().1),
        WireOrder::Close(_) => format!("{no}x"),
    };
    orders.orders.into_iter().map(word).collect::<Vec<_>>().join(", ")
}

#[test]
fn shares_that_fall_on_one_worker_take_turns() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut fleet = fleet(dir.path(), "s1", 0);
    hello(&mut fleet, "a", "l", &[], 0);
    hello(&mut fleet, "b", "l", &[], 0);
    fleet.begin(shared(1, &["a", "b", "a", "a"]), at(0));
    let from = || sender("a", "l", "s1");
    assert_eq!(turns(&mut fleet, from(), 0), "1+0 (share 0 of 4)", "one at a time");
    report_turn(&mut fleet, "a", turn(1, 0), None);
    report_turn(&mut fleet, "a", turn(1, 0), Some(Outcome::Exited(0)));
    assert_eq!(turns(&mut fleet, from(), 1), "2+1 (share 2 of 4)", "in their order");
    // The same result comes once more: it is not taken for the next share's.
    report_turn(&mut fleet, "a", turn(1, 0), Some(Outcome::Exited(7)));
    assert_eq!((fleet.counts().1, told(&mut fleet)), (3, "1 started".to_owned()));
    // A worker that comes back with nothing gets what it was ordered, and not the one behind it.
    hello(&mut fleet, "a", "m", &[], 5);
    assert_eq!(turns(&mut fleet, sender("a", "m", "s1"), 0), "1+1 (share 2 of 4)");
    let log = fleet.log_of(&worker("a").address, turn(1, 1)).expect("a log");
    assert_eq!((log.attempt, log.share), (key(1), Some(2)));
    report_turn(&mut fleet, "a", turn(1, 1), Some(Outcome::Exited(3)));
    assert_eq!(
        turns(&mut fleet, sender("a", "m", "s1"), 1),
        "2+2 (share 3 of 4)",
        "also behind one that failed"
    );
    report_turn(&mut fleet, "a", turn(1, 2), Some(Outcome::Exited(0)));
    report(&mut fleet, "b", 1, Some(Outcome::Exited(0)), 9);
    let text = "1 reported 3 1 of 4 shares failed; share 2 at worker:a: exited with 3";
    assert_eq!(told(&mut fleet), text);
}

#[test]
fn shares_in_turn_survive_restarts_and_losses() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut one = fleet(dir.path(), "s1", 0);
    hello(&mut one, "a", "l", &[], 0);
    one.begin(shared(1, &["a", "a", "a"]), at(0));
    report_turn(&mut one, "a", turn(1, 0), None);
    one.ledger.write();
    drop(one);
    // After a restart the order is forgotten: what was not out is lost, and what is on goes on.
    let mut two = fleet(dir.path(), "s2", 100);
    let welcome = hello(&mut two, "a", "l", &[(1, false)], 101);
    assert_eq!((welcome.forget, two.counts().1), (vec![], 1));
    assert_eq!(told(&mut two), "");
    report_turn(&mut two, "a", turn(1, 0), Some(Outcome::Exited(0)));
    assert_eq!(told(&mut two), "1 started, 1 lost", "so that the engine gives out again what is left");
    // A worker that vanishes takes all of its shares with it; none is stuck behind another.
    two.begin(shared(2, &["a", "a"]), at(102));
    report_turn(&mut two, "a", turn(2, 0), None);
    two.expire(at(102 + 2 * LEASE_MS));
    assert_eq!((told(&mut two).as_str(), two.counts().1), ("2 started, 2 lost", 0));
}

#[test]
fn one_share_is_stopped_at_its_worker_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut fleet = fleet(dir.path(), "s1", 0);
    hello(&mut fleet, "a", "l", &[], 0);
    hello(&mut fleet, "b", "l", &[], 0);
    let from = || sender("a", "l", "s1");
    fleet.begin(shared(1, &["a", "b", "a"]), at(0));
    assert_eq!(turns(&mut fleet, from(), 0), "1+0 (share 0 of 3)");
    report_turn(&mut fleet, "a", turn(1, 0), None);
    // One that waits for its turn is over at once; one that is on is told.
    fleet.stop_share(key(1), 2, at(1));
    assert_eq!((fleet.counts().1, turns(&mut fleet, from(), 1).as_str()), (2, ""));
    fleet.stop_share(key(1), 0, at(1));
    fleet.stop_share(key(1), 0, at(1));
    fleet.stop_share(key(1), 9, at(1));
    assert_eq!(turns(&mut fleet, from(), 1), "2-0");
    // A worker that missed it is told again.
    hello(&mut fleet, "a", "m", &[(1, false)], 2);
    assert_eq!(turns(&mut fleet, sender("a", "m", "s1"), 0), "1-0");
    report_turn(&mut fleet, "a", turn(1, 0), Some(Outcome::Exited(0)));
    assert_eq!(told(&mut fleet), "1 started", "the other goes on");
    report(&mut fleet, "b", 1, Some(Outcome::Exited(0)), 9);
    let text = "1 halted 2 of 3 shares failed; share 0 at worker:a: stopped on request";
    assert_eq!(told(&mut fleet), text);
}
