//! How one executor of a group is chosen: ten rules, one function.

use std::collections::{BTreeMap, VecDeque};

use cadran_core::{Ask, Executor, JobId, Millis, Route};
use rustc_hash::FxHashMap;

use crate::md5::md5;

/// What routes remember of the past, job by job. Lost at a restart, and dropped once a day: it spreads load, no more.
#[derive(Debug, Default)]
pub struct Router {
    jobs: FxHashMap<JobId, Memory>,
    drop_at: Millis,
    /// Rings of lists that were used lately: a thousand digests are not made for every order.
    rings: VecDeque<Ring>,
}

#[derive(Debug)]
struct Ring {
    list: Vec<Executor>,
    /// Points and whose they are, in order.
    points: Vec<(u32, u32)>,
}

#[derive(Debug, Default)]
struct Memory {
    turn: Option<u32>,
    uses: BTreeMap<Executor, u32>,
    /// The eldest first.
    line: Vec<Executor>,
}

/// Who gets an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Nobody is there.
    Nobody,
    /// The one at this place of the list.
    One(usize),
    /// The first of the list that answers this well.
    Asked(Ask),
    /// Each with its share.
    All,
}

/// Counters are dropped when so much time has passed since the last drop.
const DROP_AFTER_MS: Millis = 24 * 3_600_000;

/// Counters above this begin anew.
const COUNT_MAX: u32 = 1_000_000;

/// A turn begins below this, so that jobs that begin together do not all take the first.
const TURN_BELOW: u64 = 100;

/// Rings kept: one for each group that is routed so, mostly.
const RINGS_MAX: usize = 64;

/// Points of one executor on the ring of [`Route::ConsistentHash`].
const POINTS: u32 = 100;

impl Router {
    /// Chooses from `list` for a job. `chance` is any number; the same calls with the same numbers choose the same.
    pub fn choose(
        &mut self,
        route: Route,
        job: JobId,
        list: &[Executor],
        chance: u64,
        now: Millis,
    ) -> Choice {
        let count = list.len();
        if count == 0 {
            return Choice::Nobody;
        }
        if now >= self.drop_at || self.drop_at.saturating_sub(now) > DROP_AFTER_MS {
            self.jobs.clear();
            self.drop_at = now.saturating_add(DROP_AFTER_MS);
        }
        match route {
            Route::First => Choice::One(0),
            Route::Last => Choice::One(count - 1),
            Route::Random => Choice::One(below(chance, count as u64) as usize),
            Route::ConsistentHash => Choice::One(self.on_ring(job.executor_number(), list)),
            Route::Failover => Choice::Asked(Ask::Alive),
            Route::Busyover => Choice::Asked(Ask::Idle),
            Route::ShardingBroadcast => Choice::All,
            Route::Round => {
                let memory = self.jobs.entry(job).or_default();
                let turn = match memory.turn {
                    Some(turn) if turn < COUNT_MAX => turn + 1,
                    _ => below(chance, TURN_BELOW) as u32,
                };
                memory.turn = Some(turn);
                Choice::One(turn as usize % count)
            }
            Route::LeastFrequentlyUsed => {
                let memory = self.jobs.entry(job).or_default();
                memory.uses.retain(|executor, _| list.contains(executor));
                for (at, executor) in list.iter().enumerate() {
                    let uses = memory.uses.entry(executor.clone()).or_insert(COUNT_MAX + 1);
                    if *uses > COUNT_MAX {
                        *uses = below(mixed(chance, at as u64), count as u64) as u32;
                    }
                }
                let uses = |executor: &Executor| memory.uses.get(executor).copied().unwrap_or_default();
                let least = (0..count).min_by_key(|&at| uses(&list[at])).unwrap_or_default();
                *memory.uses.entry(list[least].clone()).or_default() += 1;
                Choice::One(least)
            }
            Route::LeastRecentlyUsed => {
                let line = &mut self.jobs.entry(job).or_default().line;
                line.retain(|executor| list.contains(executor));
                for executor in list {
                    if !line.contains(executor) {
                        line.push(executor.clone());
                    }
                }
                let eldest = line.remove(0);
                let at = list.iter().position(|executor| *executor == eldest).unwrap_or_default();
                line.push(eldest);
                Choice::One(at)
            }
        }
    }
}

impl Router {
    /// The first point at or after the job's own, going round to the lowest.
    fn on_ring(&mut self, job: u32, list: &[Executor]) -> usize {
        let at = match self.rings.iter().position(|ring| ring.list == list) {
            Some(at) => at,
            None => {
                if self.rings.len() == RINGS_MAX {
                    self.rings.pop_front();
                }
                self.rings.push_back(Ring::new(list));
                self.rings.len() - 1
            }
        };
        let points = &self.rings[at].points;
        let wanted = hash(&job.to_string());
        let at = points.partition_point(|(point, _)| *point < wanted);
        points.get(at).or(points.first()).map_or(0, |(_, whose)| *whose as usize)
    }
}

impl Ring {
    fn new(list: &[Executor]) -> Ring {
        // Of two executors on one point the later one stands there, as in a map that is filled in order.
        let mut points: BTreeMap<u32, u32> = BTreeMap::new();
        for (at, executor) in list.iter().enumerate() {
            for no in 0..POINTS {
                points.insert(hash(&format!("SHARD-{}-NODE-{no}", executor.address)), at as u32);
            }
        }
        Ring { list: list.to_vec(), points: points.into_iter().collect() }
    }
}

/// A number that looks drawn, made of others: a replay repeats it.
pub fn mixed(one: u64, other: u64) -> u64 {
    let mut z = one.wrapping_add(other.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// 0 up to `bound`, evenly enough for spreading load.
fn below(chance: u64, bound: u64) -> u64 {
    ((u128::from(chance) * u128::from(bound)) >> 64) as u64
}

fn hash(text: &str) -> u32 {
    let [a, b, c, d, ..] = md5(text.as_bytes());
    u32::from_le_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;
    use cadran_core::Dialect;

    fn list(count: usize) -> Vec<Executor> {
        let address = |no| format!("http://10.0.0.{no}:9999/").parse().expect("an address");
        (1..=count).map(|no| Executor { address: address(no), dialect: Dialect::Two }).collect()
    }

    #[test]
    fn consistent_hash_has_the_known_values() {
        assert_eq!(hash("1"), 943_901_380);
        let mut router = Router::default();
        let chosen: Vec<usize> = (1..=20).map(|job| router.on_ring(job, &list(3))).collect();
        assert_eq!(chosen, [2, 2, 0, 2, 0, 2, 1, 1, 0, 0, 0, 0, 2, 2, 0, 1, 1, 0, 0, 0]);
    }

    #[test]
    fn routes_without_a_memory() {
        let mut router = Router::default();
        let mut check = |route, count, expected| {
            assert_eq!(router.choose(route, JobId(0), &list(count), 7, 0), expected, "{route:?} of {count}");
        };
        for (route, _) in Route::WORDS {
            check(*route, 0, Choice::Nobody);
        }
        check(Route::First, 3, Choice::One(0));
        check(Route::Last, 3, Choice::One(2));
        check(Route::ConsistentHash, 3, Choice::One(2));
        check(Route::Failover, 3, Choice::Asked(Ask::Alive));
        check(Route::Busyover, 3, Choice::Asked(Ask::Idle));
        check(Route::ShardingBroadcast, 3, Choice::All);
    }

    fn chosen(router: &mut Router, route: Route, job: u32, list: &[Executor], seed: u64) -> usize {
        match router.choose(route, JobId(job), list, mixed(seed, 1), 1_000) {
            Choice::One(at) => at,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn round_goes_on_by_one_for_each_job() {
        let mut router = Router::default();
        let list = list(4);
        for job in 0..3 {
            let first = chosen(&mut router, Route::Round, job, &list, u64::from(job));
            for step in 1..10 {
                assert_eq!(chosen(&mut router, Route::Round, job, &list, 99), (first + step) % 4);
            }
        }
        router.jobs.entry(JobId(0)).or_default().turn = Some(COUNT_MAX);
        chosen(&mut router, Route::Round, 0, &list, 5);
        assert!(router.jobs[&JobId(0)].turn.is_some_and(|turn| u64::from(turn) < TURN_BELOW));
    }

    #[test]
    fn random_is_even_and_repeats() {
        let mut router = Router::default();
        let list = list(4);
        let mut counts = [0; 4];
        for seed in 0..4_000 {
            let one = chosen(&mut router, Route::Random, 0, &list, seed);
            assert_eq!(one, chosen(&mut router, Route::Random, 0, &list, seed));
            counts[one] += 1;
        }
        assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
    }

    #[test]
    fn least_frequently_used_evens_out_and_forgets_the_gone() {
        let mut router = Router::default();
        let all = list(3);
        let mut counts = [0; 3];
        for seed in 0..300 {
            counts[chosen(&mut router, Route::LeastFrequentlyUsed, 0, &all, seed)] += 1;
        }
        assert!(counts.iter().all(|count| (97..=103).contains(count)), "{counts:?}");
        chosen(&mut router, Route::LeastFrequentlyUsed, 0, &all[..1], 0);
        assert_eq!(router.jobs[&JobId(0)].uses.len(), 1);
    }

    #[test]
    fn least_recently_used_takes_the_eldest() {
        let mut router = Router::default();
        let all = list(3);
        let mut take = |list: &[Executor]| chosen(&mut router, Route::LeastRecentlyUsed, 0, list, 0);
        assert_eq!([take(&all), take(&all), take(&all), take(&all)], [0, 1, 2, 0]);
        assert_eq!(take(&all[1..]), 0, "the second is the eldest of those that are left");
        assert_eq!([take(&all), take(&all), take(&all)], [2, 1, 0], "who comes back stands behind");
    }

    #[test]
    fn memories_last_a_day() {
        let mut router = Router::default();
        let all = list(3);
        router.choose(Route::LeastRecentlyUsed, JobId(0), &all, 0, 0);
        router.choose(Route::First, JobId(0), &all, 0, DROP_AFTER_MS - 1);
        assert_eq!(router.jobs.len(), 1);
        router.choose(Route::First, JobId(0), &all, 0, DROP_AFTER_MS);
        assert_eq!(router.jobs.len(), 0);
    }
}
