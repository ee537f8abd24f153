//! Two lanes for orders on their way out, so that who is slow delays nobody else.
//!
//! A job whose calls were slow lately, and every order to an executor that owes an answer, goes by the slow lane. One
//! executor has few calls at once; what is more waits for it alone, and takes nobody's place. A full lane delays and
//! counts, and loses nothing: what may wait behind it is bounded by the runs that hold a slot of the server.

use std::collections::VecDeque;
use std::time::Duration;

use cadran_core::{Address, JobId};
use rustc_hash::FxHashMap;
use tokio::time::Instant;

use super::remote::LaneCounts;

/// Calls to one executor at once. Its own server has a few hundred threads at the most.
pub(super) const PER_ADDRESS_MAX: usize = 128;

/// Calls at once to an executor that owes an answer: enough to notice that it is back.
const PER_SLOW_ADDRESS_MAX: usize = 2;

/// From so many on their way by the fast lane on, a burst is leaving.
const BURST: usize = 25;

/// A job is slow when more than this many of its calls in the current minute were.
const SLOW_CALLS_MAX: u32 = 10;

const MINUTE: Duration = Duration::from_secs(60);

/// Which lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Fast,
    Slow,
}

/// An order that wants to leave.
#[derive(Clone, Debug)]
pub(crate) struct Ticket<T> {
    pub(crate) what: T,
    pub(crate) job: JobId,
    pub(crate) address: Address,
}

/// Who may leave now.
pub(crate) struct Lanes<T> {
    fast: Road<T>,
    slow: Road<T>,
    addresses: FxHashMap<Address, Toll<T>>,
    jobs: FxHashMap<JobId, u32>,
    minute: Instant,
    slow_after: Duration,
    /// Orders that found their lane full.
    pub(crate) delayed: u64,
}

struct Road<T> {
    at_once_max: usize,
    queued_max: usize,
    on: usize,
    queue: VecDeque<Ticket<T>>,
    /// Behind a full queue.
    overflow: VecDeque<Ticket<T>>,
}

/// What one executor has.
struct Toll<T> {
    /// Calls on their way, and orders in a lane.
    on: usize,
    /// It owes an answer for longer than is usual.
    is_slow: bool,
    waiting: VecDeque<Ticket<T>>,
}

impl<T> Default for Toll<T> {
    fn default() -> Toll<T> {
        Toll { on: 0, is_slow: false, waiting: VecDeque::new() }
    }
}

impl<T> Lanes<T> {
    pub(crate) fn new(
        fast: (usize, usize),
        slow: (usize, usize),
        slow_after: Duration,
        now: Instant,
    ) -> Lanes<T> {
        let road = |(at_once_max, queued_max)| Road {
            at_once_max,
            queued_max,
            on: 0,
            queue: VecDeque::new(),
            overflow: VecDeque::new(),
        };
        Lanes {
            fast: road(fast),
            slow: road(slow),
            addresses: FxHashMap::default(),
            jobs: FxHashMap::default(),
            minute: now,
            slow_after,
            delayed: 0,
        }
    }

    /// Lines an order up. [`Lanes::leave`] says when it goes.
    pub(crate) fn line_up(&mut self, ticket: Ticket<T>) {
        let toll = self.addresses.entry(ticket.address.clone()).or_default();
        if toll.on >= toll.at_once_max() {
            toll.waiting.push_back(ticket);
        } else {
            toll.on += 1;
            self.enter(ticket);
        }
    }

    fn enter(&mut self, ticket: Ticket<T>) {
        let slow_address = self.addresses.get(&ticket.address).is_some_and(|toll| toll.is_slow);
        let slow_job = self.jobs.get(&ticket.job).is_some_and(|slow| *slow > SLOW_CALLS_MAX);
        let road = if slow_address || slow_job { &mut self.slow } else { &mut self.fast };
        if road.queue.len() < road.queued_max {
            road.queue.push_back(ticket);
        } else {
            self.delayed += 1;
            road.overflow.push_back(ticket);
        }
    }

    /// Those that leave now, in order.
    pub(crate) fn leave(&mut self) -> Vec<(Lane, Ticket<T>)> {
        let mut out = Vec::new();
        for (lane, road) in [(Lane::Fast, &mut self.fast), (Lane::Slow, &mut self.slow)] {
            while road.on < road.at_once_max
                && let Some(ticket) = road.queue.pop_front()
            {
                road.on += 1;
                if let Some(next) = road.overflow.pop_front() {
                    road.queue.push_back(next);
                }
                out.push((lane, ticket));
            }
        }
        out
    }

    /// A call that left by the fast lane takes too long: its place there is free again.
    pub(crate) fn overdue(&mut self, lane: Lane, address: &Address) -> Lane {
        if lane == Lane::Fast {
            self.fast.on -= 1;
            self.slow.on += 1;
        }
        self.addresses.entry(address.clone()).or_default().is_slow = true;
        Lane::Slow
    }

    /// A call is over.
    pub(crate) fn arrived(
        &mut self,
        lane: Lane,
        job: JobId,
        address: &Address,
        took: Duration,
        now: Instant,
    ) {
        match lane {
            Lane::Fast => self.fast.on -= 1,
            Lane::Slow => self.slow.on -= 1,
        }
        if now.duration_since(self.minute) >= MINUTE {
            self.minute = now;
            self.jobs.clear();
        }
        let is_slow = took > self.slow_after;
        if is_slow {
            *self.jobs.entry(job).or_default() += 1;
        }
        let Some(toll) = self.addresses.get_mut(address) else { return };
        toll.on -= 1;
        toll.is_slow = is_slow;
        let mut next = Vec::new();
        while toll.on < toll.at_once_max()
            && let Some(ticket) = toll.waiting.pop_front()
        {
            toll.on += 1;
            next.push(ticket);
        }
        if toll.on == 0 && !toll.is_slow {
            self.addresses.remove(address);
        }
        next.into_iter().for_each(|ticket| self.enter(ticket));
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        let road = |road: &Road<T>| road.queue.len() + road.overflow.len();
        let tolls: usize = self.addresses.values().map(|toll| toll.waiting.len()).sum();
        road(&self.fast) + road(&self.slow) + tolls
    }

    /// Whether a burst is leaving.
    pub(crate) fn is_crowded(&self) -> bool {
        self.fast.on >= BURST.min(self.fast.at_once_max)
    }

    /// Whether nothing more leaves by the fast lane before something comes back.
    pub(crate) fn is_full(&self) -> bool {
        self.fast.on >= self.fast.at_once_max
    }

    /// What is in the fast and in the slow lane.
    pub(crate) fn counts(&self) -> (LaneCounts, LaneCounts) {
        let counts = |road: &Road<T>| LaneCounts {
            on: road.on,
            at_once_max: road.at_once_max,
            queued: road.queue.len() + road.overflow.len(),
        };
        (counts(&self.fast), counts(&self.slow))
    }
}

impl<T> Toll<T> {
    fn at_once_max(&self) -> usize {
        if self.is_slow { PER_SLOW_ADDRESS_MAX } else { PER_ADDRESS_MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_secs(3);

    fn ticket(what: u32, host: u32) -> Ticket<u32> {
        let address = format!("http://h{host}").parse().expect("an address");
        Ticket { what, job: JobId(what), address }
    }

    fn lanes(fast: (usize, usize), slow: (usize, usize)) -> Lanes<u32> {
        Lanes::new(fast, slow, Duration::from_millis(500), Instant::now())
    }

    fn left(lanes: &mut Lanes<u32>) -> Vec<u32> {
        lanes.leave().into_iter().map(|(_, ticket)| ticket.what).collect()
    }

    #[tokio::test]
    async fn a_full_lane_delays_in_order_and_loses_nothing() {
        let mut lanes = lanes((2, 3), (1, 1));
        (0..10).for_each(|no| lanes.line_up(ticket(no, no)));
        assert_eq!((lanes.delayed, lanes.waiting()), (7, 10));
        let mut all = left(&mut lanes);
        assert_eq!(all, [0, 1]);
        let now = Instant::now();
        while lanes.waiting() > 0 {
            let done = *all.last().expect("one") - 1;
            lanes.arrived(Lane::Fast, JobId(done), &ticket(0, done).address, QUICK, now);
            all.extend(left(&mut lanes));
        }
        assert_eq!(all, (0..10).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn an_executor_that_never_answers_takes_nobodys_place() {
        let mut lanes = lanes((200, 2000), (200, 5000));
        (0..500).for_each(|no| lanes.line_up(ticket(no, 7)));
        let on = left(&mut lanes).len();
        assert_eq!(on, PER_ADDRESS_MAX, "the rest waits for this executor alone");
        let dead = ticket(0, 7).address;
        for _ in 0..on {
            assert_eq!(lanes.overdue(Lane::Fast, &dead), Lane::Slow);
        }
        let (fast, slow) = lanes.counts();
        assert_eq!((fast.on, slow.on), (0, on), "the fast lane is free again");
        (1000..1090).for_each(|no| lanes.line_up(ticket(no, no)));
        assert_eq!(left(&mut lanes), (1000..1090).collect::<Vec<_>>());
        let now = Instant::now();
        for _ in 0..on {
            lanes.arrived(Lane::Slow, JobId(0), &dead, LONG, now);
        }
        assert_eq!(left(&mut lanes).len(), PER_SLOW_ADDRESS_MAX, "it is tried with a few");
        lanes.arrived(Lane::Slow, JobId(0), &dead, QUICK, now);
        assert!(left(&mut lanes).len() > PER_SLOW_ADDRESS_MAX, "and is back when it answers");
    }

    #[tokio::test]
    async fn a_slow_job_changes_the_lane_for_a_minute() {
        let mut lanes = lanes((10, 10), (10, 10));
        let start = Instant::now();
        let lane_of = |lanes: &mut Lanes<u32>, took: Duration, now: Instant| {
            lanes.line_up(Ticket { job: JobId(5), ..ticket(1, 1) });
            let (lane, _) = lanes.leave().remove(0);
            // The executor itself is not slow: another of its calls was quick.
            lanes.arrived(lane, JobId(5), &ticket(1, 1).address, took, now);
            if let Some(toll) = lanes.addresses.get_mut(&ticket(1, 1).address) {
                toll.is_slow = false;
            }
            lane
        };
        for _ in 0..=SLOW_CALLS_MAX {
            assert_eq!(lane_of(&mut lanes, LONG, start), Lane::Fast);
        }
        assert_eq!(lane_of(&mut lanes, QUICK, start), Lane::Slow);
        lane_of(&mut lanes, QUICK, start + MINUTE);
        assert_eq!(lane_of(&mut lanes, QUICK, start + MINUTE), Lane::Fast);
    }
}
