//! The rules over months of commits: what gives under each overload policy. The table is the one of `docs/fuzzing.md`;
//! `cargo xtask fuzzing overload` prints it.

use std::collections::{BTreeMap, BTreeSet};

use cadran_fuzz::rules::build::{self, BuildPick};
use cadran_fuzz::rules::schedule::{self, EXPIRED_UNFUZZED, Facts};
use cadran_fuzz::{BuildQueue, Limits, Overload, Schedule};

use crate::support::hash;

const DAYS: u32 = 120;
const RATES: [f64; 5] = [1.0, 3.0, 4.5, 8.0, 15.0];
const SLOTS_PER_DAY: u32 = 4;

/// Minutes.
const DAY: u32 = 24 * 60;
const SLOT: u32 = DAY / SLOTS_PER_DAY;
const RETENTION: u32 = 7 * DAY;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    /// Binaries go after seven days, fuzzed or not, and nothing else is done about overload.
    Lifecycle,
    Ours(Overload),
}

const POLICIES: [Policy; 4] = [
    Policy::Lifecycle,
    Policy::Ours(Overload::Fair),
    Policy::Ours(Overload::NewestFirst),
    Policy::Ours(Overload::Coalesce),
];

impl Policy {
    fn name(self) -> &'static str {
        match self {
            Policy::Lifecycle => "(7-day lifecycle)",
            Policy::Ours(overload) => overload.as_str(),
        }
    }

    fn overload(self) -> Overload {
        match self {
            Policy::Lifecycle => Overload::Fair,
            Policy::Ours(overload) => overload,
        }
    }
}

/// What a run of months came to.
#[derive(Debug, Default)]
struct Outcome {
    commits: usize,
    fuzzed: usize,
    shared: usize,
    expired: usize,
    waiting: usize,
    sizes: Vec<usize>,
    /// Minutes from the commit to the start of the first run that has it.
    waits: Vec<u32>,
}

/// Arrivals in minutes, drawn from a fixed seed: the same table every time.
fn arrivals(rate: f64, days: u32) -> Vec<u32> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut minutes = Vec::new();
    let mut at = 0.0;
    loop {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let chance = ((state >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
        at += -chance.ln() * f64::from(DAY) / rate;
        if at >= f64::from(days * DAY) {
            return minutes;
        }
        minutes.push(at as u32);
    }
}

/// Manager every 15 minutes, builder every 30, fuzzer every 6 hours, as their crons say.
fn simulate(policy: Policy, rate: f64, days: u32) -> Outcome {
    let overload = policy.overload();
    let limits = match policy {
        Policy::Lifecycle => Limits { schedule_max: usize::MAX, ..Limits::default() },
        Policy::Ours(_) => Limits::default(),
    };
    let arrivals = arrivals(rate, days);
    let came: BTreeMap<String, u32> =
        arrivals.iter().enumerate().map(|(n, at)| (hash(n as u32).to_string(), *at)).collect();
    let mut next = arrivals.iter().enumerate().peekable();
    let (mut queue, mut plan) = (BuildQueue::default(), Schedule::default());
    let mut built_at: BTreeMap<String, u32> = BTreeMap::new();
    let mut stands_for: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut running: Option<String> = None;
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut outcome = Outcome { commits: arrivals.len(), ..Outcome::default() };
    for minute in (0..days * DAY).step_by(5) {
        if minute % 15 == 0 {
            while let Some((number, _)) = next.next_if(|(_, at)| **at <= minute) {
                queue.queue.push(hash(number as u32).to_string());
            }
            if let Some((after, _)) = schedule::append(&plan, &queue.built) {
                plan = after;
            }
            queue.built.clear();
            let expires = |hash: &&String, count: u64| {
                let may = count > 0 || policy == Policy::Lifecycle;
                may && minute >= built_at.get(*hash).copied().unwrap_or(0) + RETENTION
            };
            let gone = plan.entries.iter().filter(|entry| expires(&&entry.hash, entry.fuzz_count));
            let facts = Facts {
                gone: gone.map(|entry| entry.hash.clone()).collect(),
                pinned: running.iter().cloned().collect(),
            };
            if let Some((after, events)) = schedule::tidy(&plan, &facts, &limits) {
                plan = after;
                for event in events.iter().filter(|event| event.what == EXPIRED_UNFUZZED) {
                    outcome.expired += 1 + stands_for.get(&event.hash).map_or(0, Vec::len);
                }
            }
        }
        if minute % 30 == 5 {
            let unfuzzed = plan.unfuzzed() + queue.built.len();
            if let BuildPick::Take { hash, covers } =
                build::pick(&queue, &BTreeSet::new(), overload, unfuzzed, SLOTS_PER_DAY)
            {
                queue = build::built(&queue, hash.as_str(), &covers).unwrap();
                built_at.insert(hash.to_string(), minute);
                stands_for.insert(hash.to_string(), covers);
            }
        }
        if let Some(hash) = running.take_if(|_| minute % SLOT == 40) {
            let count = plan.find(&hash).map_or(0, |entry| entry.fuzz_count);
            if let Some((after, _)) = schedule::fuzzed(&plan, &hash, count + 1, &limits) {
                plan = after;
            }
        }
        if minute % SLOT == 45 {
            let order = schedule::order(&plan, overload, &BTreeSet::new(), &BTreeMap::new(), &limits);
            running = order.first().map(|entry| entry.hash.clone());
            if let Some(hash) = running.clone().filter(|hash| seen.insert(hash.clone())) {
                outcome.fuzzed += 1;
                outcome.waits.push(minute - came[&hash]);
                for covered in stands_for.get(&hash).into_iter().flatten() {
                    outcome.shared += 1;
                    outcome.waits.push(minute - came[covered]);
                }
            }
            outcome.sizes.push(plan.entries.len());
        }
    }
    let unseen = plan.entries.iter().filter(|entry| !seen.contains(&entry.hash));
    outcome.waiting = queue.queue.len()
        + queue.built.len()
        + next.count()
        + unseen.map(|entry| 1 + stands_for.get(&entry.hash).map_or(0, Vec::len)).sum::<usize>();
    outcome.sizes.sort_unstable();
    outcome.waits.sort_unstable();
    outcome
}

fn hours(waits: &[u32], percent: usize) -> f64 {
    let at = (waits.len() * percent / 100).min(waits.len().saturating_sub(1));
    waits.get(at).map_or(0.0, |minutes| f64::from(*minutes) / 60.0)
}

fn row(policy: Policy, rate: f64, outcome: &Outcome) -> String {
    let size = |percent: usize| outcome.sizes[(outcome.sizes.len() - 1) * percent / 100];
    format!(
        "| {rate} | `{}` | {} | {} | {} | {} | {} | {} / {} | {:.1} h | {:.1} h |",
        policy.name(),
        outcome.commits,
        outcome.fuzzed,
        outcome.shared,
        outcome.expired,
        outcome.waiting,
        size(50),
        size(100),
        hours(&outcome.waits, 50),
        hours(&outcome.waits, 95),
    )
    .replace("`(7-day lifecycle)`", "(7-day lifecycle)")
}

#[test]
fn rule_29_what_gives_under_each_policy() {
    let docs = include_str!("../../../../docs/fuzzing.md");
    println!(
        "| commits a day | policy | commits | fuzzed | shared a run | expired unfuzzed | still waiting | schedule, median / most | median wait | 95 % wait |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let mut missing = Vec::new();
    for rate in RATES {
        for policy in POLICIES {
            let outcome = simulate(policy, rate, DAYS);
            let row = row(policy, rate, &outcome);
            println!("{row}");
            let met = outcome.fuzzed + outcome.shared + outcome.expired + outcome.waiting;
            assert_eq!(met, outcome.commits, "every commit is fuzzed, shares a run, expires or waits: {row}");
            if let Policy::Ours(_) = policy {
                assert!(outcome.sizes.iter().all(|size| *size <= Limits::default().schedule_max), "{row}");
            }
            if policy == Policy::Ours(Overload::Coalesce) {
                assert_eq!(outcome.expired, 0, "{row}");
            }
            // Below the slots nothing gives, whatever the policy.
            if rate < 4.0 && policy != Policy::Lifecycle {
                assert_eq!(outcome.expired, 0, "{row}");
            }
            if !docs.contains(&row) {
                missing.push(row);
            }
        }
    }
    assert!(
        missing.is_empty(),
        "docs/fuzzing.md says otherwise: cargo xtask fuzzing overload prints the table"
    );
}
