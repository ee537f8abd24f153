//! Held reservations beside `prio-graph`.

use std::collections::VecDeque;

use cadran_footprint::held::{Limits, Need, Owner, Request, Reservations, Standing};
use prio_graph::{AccessKind, PrioGraph, TopLevelId};

use crate::measure::{Chance, Effort, thousand};
use cadran_dev::bench_table::Table;

/// Runs that want four keys each, made with them, of which so many per cent want one that an earlier run writes.
struct Runs {
    /// Key numbers, and whether they are written.
    keys: Vec<[(u64, bool); 4]>,
}

impl Runs {
    fn new(count: usize, conflicts: usize) -> Runs {
        let mut chance = Chance((count + conflicts) as u64);
        let mut keys: Vec<[(u64, bool); 4]> = Vec::with_capacity(count);
        for run in 0..count {
            // The first is written, of the others half.
            let mut wanted = [0, 1, 2, 3].map(|at| ((run * 4 + at) as u64, at == 0 || chance.below(2) == 0));
            if run > 0 && chance.below(100) < conflicts {
                wanted[3] = keys[chance.below(run)][0];
            }
            keys.push(wanted);
        }
        Runs { keys }
    }

    fn requests(&self, held: &mut Reservations, ordered: bool) -> Vec<Request> {
        let names: Vec<String> = (0..self.keys.len() * 4).map(|at| format!("k{at}")).collect();
        let keys: Vec<_> = names.iter().map(|name| held.key([name.as_str()]).unwrap()).collect();
        keys.iter().for_each(|&key| held.set_ordered(key, ordered).unwrap());
        let request = |wanted: &[(u64, bool); 4]| {
            let needs = wanted.map(|(key, writes)| match writes {
                true => Need::Write(keys[key as usize]),
                false => Need::Read(keys[key as usize]),
            });
            held.request(&needs).unwrap()
        };
        self.keys.iter().map(request).collect()
    }
}

/// Everybody comes, then everybody that may run ends, until nobody is left.
fn play(
    held: &mut Reservations,
    requests: &[Request],
    (running, granted): &mut (Vec<Owner>, Vec<Owner>),
) -> usize {
    running.clear();
    for (request, owner) in requests.iter().zip(0..) {
        if held.wait(owner, 0, request) == Ok(Standing::Holds) {
            running.push(owner);
        }
    }
    let mut ended = 0;
    while !running.is_empty() {
        running.iter().for_each(|&owner| ended += usize::from(held.release(owner, granted)));
        running.clear();
        std::mem::swap(running, granted);
    }
    ended
}

/// Who came first goes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Top(std::cmp::Reverse<u64>);

impl TopLevelId<u64> for Top {
    fn id(&self) -> u64 {
        self.0.0
    }
}

pub(crate) fn hold(effort: Effort, quick: bool, table: &mut Table) {
    let sizes: &[usize] = if quick { &[10_000] } else { &[10_000, 100_000] };
    for &count in sizes {
        for conflicts in [0, 10, 50] {
            let runs = Runs::new(count, conflicts);
            let mut graph = PrioGraph::new(|id: &u64, _: &_| Top(std::cmp::Reverse(*id)));
            let mut popped = VecDeque::new();
            let mut rival = |()| {
                graph.clear();
                for (wanted, id) in runs.keys.iter().zip(0u64..) {
                    let kind = |writes| if writes { AccessKind::Write } else { AccessKind::Read };
                    graph.insert_transaction(id, wanted.iter().map(|&(key, writes)| (key, kind(writes))));
                }
                let mut ended = 0;
                while !graph.is_empty() {
                    while let Some(id) = graph.pop() {
                        popped.push_back(id);
                    }
                    while let Some(id) = popped.pop_front() {
                        graph.unblock(&id);
                        ended += 1;
                    }
                }
                assert_eq!(ended, count);
            };
            for ordered in [false, true] {
                let mode = if ordered { "ordered" } else { "eager" };
                let label = format!("{count} runs, {conflicts} % conflicts, {mode}, a thousand");
                let mut held = Reservations::new(Limits::default());
                let requests = runs.requests(&mut held, ordered);
                let mut running = (Vec::with_capacity(count), Vec::with_capacity(count));
                let hold = |()| assert_eq!(play(&mut held, &requests, &mut running), count);
                let (ours, rival) = effort.both((|| (), hold), (|| (), &mut rival));
                table.faster(&label, thousand(ours, count), ("prio-graph", thousand(rival, count)), 1.2);
            }
        }
    }
}

/// One key that everybody writes: the cost of a run, whoever else waits.
pub(crate) fn hot(effort: Effort, quick: bool, table: &mut Table) {
    let sizes: &[usize] = if quick { &[10_000, 100_000] } else { &[10_000, 100_000, 1_000_000] };
    for (name, ordered, pool) in [("eager", false, false), ("ordered", true, false), ("pool", false, true)] {
        let mut first = None;
        for &count in sizes {
            let mut held = Reservations::new(Limits::default());
            let key = held.key(["hot"]).unwrap();
            let need = if pool {
                held.set_capacity(key, 4, &mut Vec::new()).unwrap();
                Need::Units(key, 1)
            } else {
                held.set_ordered(key, ordered).unwrap();
                Need::Write(key)
            };
            let request = held.request(&[need]).unwrap();
            let mut running = Vec::with_capacity(count);
            let ours = effort.best(
                || (),
                |()| {
                    running.clear();
                    for owner in 0..count as u64 {
                        if held.wait(owner, 0, &request) == Ok(Standing::Holds) {
                            running.push(owner);
                        }
                    }
                    let mut next = 0;
                    while let Some(&owner) = running.get(next) {
                        held.release(owner, &mut running);
                        next += 1;
                    }
                    assert_eq!(next, count);
                },
            );
            let ours = thousand(ours, count);
            match first {
                None => table.time(&format!("{name}: {count} waiters, a thousand"), ours),
                Some(few) => {
                    let ratio = ours.as_secs_f64() / f64::from_bits(few);
                    table.at_most(
                        &format!("{name}: {count} waiters, to {} waiters", sizes[0]),
                        ratio,
                        "",
                        2.0,
                    );
                }
            }
            first = first.or(Some(ours.as_secs_f64().to_bits()));
        }
    }
}

/// Who is in the way?
pub(crate) fn blocker(effort: Effort, _quick: bool, table: &mut Table) {
    for count in [100, 1_000, 10_000] {
        let runs = Runs::new(count, 0);
        let mut held = Reservations::new(Limits::default());
        let requests = runs.requests(&mut held, false);
        for (request, owner) in requests.iter().zip(0u64..) {
            held.acquire(owner, request).unwrap();
        }
        // Each wants what a run somewhere in the list has.
        let refused: Vec<&Request> = (0..100).map(|at| &requests[(at * 7_919 + 13) % count]).collect();
        let ours = effort.best(
            || (),
            |()| {
                let mut sum = 0;
                for request in &refused {
                    match held.acquire(u64::MAX, request) {
                        Err(cadran_footprint::held::Refusal::Blocked(blocked)) => sum ^= blocked.holder,
                        other => panic!("{other:?}"),
                    }
                }
                sum
            },
        );
        let scan = effort.best(
            || (),
            |()| {
                let found = |wanted: &Request| {
                    requests.iter().position(|has| held.conflict(wanted, has).is_some()).unwrap()
                };
                refused.iter().fold(0, |sum, wanted| sum ^ found(wanted))
            },
        );
        let label = format!("{count} admitted: naming the blocker");
        let (ours, scan) = (ours / 100, scan / 100);
        if count == 10_000 {
            table.faster(&label, ours, ("scan", scan), 1_000.0);
        } else {
            table.beside(&label, ours, ("scan", scan));
        }
    }
}
