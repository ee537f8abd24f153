//! What a worker runs now and what waits there: slots, and the four ways of a job that is still on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cadran_core::{Block, RunId};

use crate::journal::Key;

/// Orders that wait at one worker. More than this is a backlog that belongs to the server.
pub(crate) const LINE_MAX: usize = 1_000;

/// An order that arrived.
#[derive(Clone, Debug)]
pub(crate) struct Arrival<T> {
    pub(crate) key: Key,
    /// Runs of the same step have the same.
    pub(crate) number: u32,
    pub(crate) block: Block,
    /// How many at once, under [`Block::Concurrent`].
    pub(crate) concurrency: u32,
    pub(crate) what: T,
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Move<T> {
    /// Start it now.
    Start(Key, T),
    /// It will not run, and why.
    Refuse(Key, String),
    /// Stop what is on: this run takes its place.
    Cover(Key, RunId),
}

/// What is on and what waits.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: usize,
    on: BTreeMap<Key, u32>,
    line: VecDeque<Arrival<T>>,
}

impl<T> Slots<T> {
    pub(crate) fn new(slots: usize) -> Slots<T> {
        Slots { slots: slots.max(1), on: BTreeMap::new(), line: VecDeque::new() }
    }

    /// Neither on nor waiting.
    pub(crate) fn is_idle(&self) -> bool {
        self.on.is_empty() && self.line.is_empty()
    }

    pub(crate) fn on(&self) -> impl Iterator<Item = Key> {
        self.on.keys().copied()
    }

    /// An order arrived. Its block decides what becomes of it and of runs of the same step before it.
    pub(crate) fn arrive(&mut self, arrival: Arrival<T>) -> Vec<Move<T>> {
        let mut moves = Vec::new();
        let Arrival { key, number, block, .. } = arrival;
        match block {
            Block::Discard if self.has(number) => {
                let why = "the job is still on at this worker, and `block: discard` says not to wait";
                return vec![Move::Refuse(key, why.to_owned())];
            }
            Block::Cover => {
                let covered = self.line.iter().filter(|other| other.number == number).map(|other| other.key);
                let why = format!("run {} took its place (`block: cover`)", key.run);
                moves.extend(covered.map(|other| Move::Refuse(other, why.clone())));
                self.line.retain(|other| other.number != number);
                let on = self.on.iter().filter(|(_, on)| **on == number);
                moves.extend(on.map(|(other, _)| Move::Cover(*other, key.run)));
            }
            Block::Discard | Block::Serial | Block::Concurrent => {}
        }
        if self.line.len() >= LINE_MAX {
            let why =
                format!("{LINE_MAX} orders wait at this worker already; give it more slots or a colleague");
            moves.push(Move::Refuse(key, why));
            return moves;
        }
        self.line.push_back(arrival);
        moves.extend(self.advance());
        moves
    }

    /// What was on is over.
    pub(crate) fn ended(&mut self, key: Key) -> Vec<Move<T>> {
        self.on.remove(&key);
        self.advance()
    }

    /// Takes an order out of the line. False when it is not there.
    pub(crate) fn withdraw(&mut self, key: Key) -> bool {
        let before = self.line.len();
        self.line.retain(|waiting| waiting.key != key);
        self.line.len() != before
    }

    /// Everything out of the line.
    pub(crate) fn clear(&mut self) -> Vec<Key> {
        self.line.drain(..).map(|waiting| waiting.key).collect()
    }

    fn has(&self, number: u32) -> bool {
        self.on.values().any(|on| *on == number) || self.line.iter().any(|waiting| waiting.number == number)
    }

    /// Starts what may start, in order of arrival. One that waits for its own kind does not hold up others, and nothing
    /// of its own kind passes it.
    fn advance(&mut self) -> Vec<Move<T>> {
        let mut moves = Vec::new();
        let mut held = BTreeSet::new();
        let mut at = 0;
        while self.on.len() < self.slots && at < self.line.len() {
            let Arrival { number, block, concurrency, .. } = self.line[at];
            let at_once = if block == Block::Concurrent { concurrency.max(1) as usize } else { 1 };
            let on = self.on.values().filter(|on| **on == number).count();
            if held.contains(&number) || on >= at_once {
                held.insert(number);
                at += 1;
                continue;
            }
            let Some(arrival) = self.line.remove(at) else { break };
            self.on.insert(arrival.key, number);
            moves.push(Move::Start(arrival.key, arrival.what));
        }
        moves
    }
}

#[cfg(test)]
mod tests {
    use cadran_core::StepNo;

    use super::*;

    fn key(run: u64) -> Key {
        Key { run: RunId::from_raw(run), step: StepNo(0), attempt: 1 }
    }

    /// Each row: what happens, and what follows. `+7s` order 7 of number 1 with `block: serial`, `d`, `c`, `p` the
    /// others, capital letters the same of number 2, `-7` the end of 7; answers `7` start, `x7` refused, `k7` covered.
    fn play(slots: usize, script: &[(&str, &str)]) {
        let mut all = Slots::new(slots);
        for (no, (event, expected)) in script.iter().enumerate() {
            let run: u64 =
                event.chars().filter(char::is_ascii_digit).collect::<String>().parse().expect("a run");
            let kind = event.chars().last().unwrap_or_default();
            let moves = if event.starts_with('-') {
                all.ended(key(run))
            } else {
                let block = match kind.to_ascii_lowercase() {
                    's' => Block::Serial,
                    'd' => Block::Discard,
                    'c' => Block::Cover,
                    _ => Block::Concurrent,
                };
                let number = if kind.is_ascii_uppercase() { 2 } else { 1 };
                all.arrive(Arrival { key: key(run), number, block, concurrency: 2, what: () })
            };
            let shown: Vec<String> = moves
                .iter()
                .map(|one| match one {
                    Move::Start(key, ()) => key.run.raw().to_string(),
                    Move::Refuse(key, _) => format!("x{}", key.run.raw()),
                    Move::Cover(key, _) => format!("k{}", key.run.raw()),
                })
                .collect();
            assert_eq!(shown.join(" "), *expected, "row {no}: {event}");
        }
    }

    #[test]
    fn serial_queues_behind() {
        play(
            4,
            &[("+1s", "1"), ("+2s", ""), ("+3s", ""), ("+4S", "4"), ("-1", "2"), ("-2", "3"), ("-3", "")],
        );
    }

    #[test]
    fn discard_refuses_while_the_job_is_on_or_waits() {
        play(
            1,
            &[("+1d", "1"), ("+2d", "x2"), ("+3D", ""), ("+4D", "x4"), ("-1", "3"), ("+5d", ""), ("-3", "5")],
        );
    }

    #[test]
    fn cover_ends_what_is_on_and_what_waits() {
        play(
            4,
            &[
                ("+1s", "1"),
                ("+2s", ""),
                ("+3S", "3"),
                ("+4c", "x2 k1"),
                ("+5c", "x4 k1"),
                ("-1", "5"),
                ("+6s", ""),
            ],
        );
    }

    #[test]
    fn concurrent_runs_beside_up_to_its_number() {
        play(4, &[("+1p", "1"), ("+2p", "2"), ("+3p", ""), ("+4P", "4"), ("-2", "3"), ("-1", "")]);
    }

    #[test]
    fn slots_are_shared_in_order_of_arrival() {
        play(
            2,
            &[("+1s", "1"), ("+2s", ""), ("+3S", "3"), ("+4S", ""), ("-3", "4"), ("-1", "2"), ("-4", "")],
        );
        play(1, &[("+1s", "1"), ("+2S", ""), ("+3s", ""), ("-1", "2"), ("-2", "3")]);
    }

    #[test]
    fn the_line_is_bounded_and_orders_leave_it() {
        let mut all = Slots::new(1);
        let order =
            |run, number| Arrival { key: key(run), number, block: Block::Serial, concurrency: 1, what: () };
        assert_eq!(all.arrive(order(0, 1)), [Move::Start(key(0), ())]);
        for run in 1..=LINE_MAX as u64 {
            assert_eq!(all.arrive(order(run, 1)), []);
        }
        assert!(matches!(&all.arrive(order(5_000, 2))[..], [Move::Refuse(..)]));
        assert!(all.withdraw(key(1)) && !all.withdraw(key(1)));
        assert_eq!(all.ended(key(0)), [Move::Start(key(2), ())]);
        assert_eq!(all.clear().len(), LINE_MAX - 2);
        assert!(all.ended(key(2)).is_empty() && all.is_idle());
    }
}
