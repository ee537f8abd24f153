//! Which dues of a window would wait for which others? Answered before anything runs.
//!
//! At every instant at which a run is due or ends, what is active and what waits is drained in one order and reserved by the
//! batch scheduler of `cadran-footprint`: who is refused waits for the first that it conflicts with. The answer depends on
//! nothing but the arguments.
//!
//! Left out, since nobody knows it before: retries, preconditions, slots of the server, and the ticket that a run gets after
//! it was passed for long.
//!
//! ```
//! use cadran_core::{FootprintSpec, Overlap, SkipReason};
//! use cadran_place::dry_run::{ExpectedJob, ExpectedRun, dry_run};
//!
//! let writer = || {
//!     let spec = FootprintSpec { writes: vec!["table:orders".to_owned()], ..FootprintSpec::default() };
//!     ExpectedJob { footprint: spec.as_written(), overlap: Overlap::Skip, priority: 0 }
//! };
//! let run = |due, job| ExpectedRun { due, job, duration_ms: 60_000 };
//! let answer = dry_run(&[writer(), writer()], &[run(0, 0), run(1_000, 1), run(2_000, 0)]);
//! assert_eq!(answer.runs[1].starts_at, Some(60_000)); // It waits for the first.
//! assert_eq!(answer.runs[2].skip, Some(SkipReason::Overlap));
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use cadran_core::{Access, Footprint, Millis, OnConflict, Overlap, SkipReason};
use cadran_footprint::batch::{self, PendingRewrite, ResourceKey, Scheduler, Set, TxId};

/// Reservations that one answer tries: a second of work at most, however much would wait.
const RESERVATIONS_MAX: usize = 1_000_000;

/// A job, as far as its runs exclude others.
#[derive(Clone, Debug)]
pub struct ExpectedJob {
    /// What its runs touch, parameters left as they are written.
    pub footprint: Option<Footprint>,
    /// What becomes of a run while another of the job is active.
    pub overlap: Overlap,
    /// Higher starts first.
    pub priority: i32,
}

/// A run that is expected.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedRun {
    /// Its due.
    pub due: Millis,
    /// The position of its job in the list.
    pub job: usize,
    /// How long it is assumed to run.
    pub duration_ms: Millis,
}

/// What would become of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// When it would start; `None` for one that would not.
    pub starts_at: Option<Millis>,
    /// Why it would be skipped.
    pub skip: Option<SkipReason>,
    /// What it would meet first.
    pub blocker: Option<ExpectedBlocker>,
}

/// What a run would wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedBlocker {
    /// The position of the run that holds it.
    pub run: usize,
    /// The key, as in `table:orders`; the pool, as in `pool:gpu`; `None` for the job itself.
    pub key: Option<Box<str>>,
}

/// The answer.
#[derive(Clone, Debug, Default)]
pub struct DryRun {
    /// One for each run that was asked about, in the same order.
    pub runs: Vec<Forecast>,
    /// Too much would wait: what starts later than this was not looked at.
    pub cut_at: Option<Millis>,
}

/// Plays the runs, which are given in the order of their dues.
pub fn dry_run(jobs: &[ExpectedJob], runs: &[ExpectedRun]) -> DryRun {
    let mut player = Player::new(jobs, runs);
    let mut instants: BTreeSet<Millis> = runs.iter().map(|run| run.due).collect();
    let mut next_run = 0;
    while let Some(now) = instants.pop_first() {
        if player.reservations_left == 0 {
            return DryRun { runs: player.answer, cut_at: Some(now) };
        }
        player.active.retain(|active| active.ends_at > now);
        while let Some(run) = runs.get(next_run).filter(|run| run.due <= now) {
            player.arrive(next_run, run);
            next_run += 1;
        }
        instants.extend(player.admit(now));
    }
    DryRun { runs: player.answer, cut_at: None }
}

struct Active {
    run: usize,
    ends_at: Millis,
}

/// What a job takes: keys for the scheduler, and units of pools, which it does not count.
struct Needs<'a> {
    footprint: batch::Footprint,
    pools: Vec<(&'a str, u32)>,
}

struct Player<'a> {
    jobs: &'a [ExpectedJob],
    runs: &'a [ExpectedRun],
    needs: Vec<Needs<'a>>,
    /// The text of each key, by its number.
    keys: Vec<&'a str>,
    /// Of each pool the least that any job says.
    capacities: BTreeMap<&'a str, u32>,
    /// In the order in which they started.
    active: Vec<Active>,
    /// The most urgent first.
    waiting: BTreeSet<(Reverse<i32>, Millis, usize)>,
    scheduler: Scheduler,
    answer: Vec<Forecast>,
    reservations_left: usize,
}

/// Keys of footprints, and the implicit key of each job.
const DECLARED: u64 = 0;
const JOB: u64 = 1;

impl<'a> Player<'a> {
    fn new(jobs: &'a [ExpectedJob], runs: &'a [ExpectedRun]) -> Player<'a> {
        let footprints = || jobs.iter().filter_map(|job| job.footprint.as_ref());
        // By their parts, so that what lies below a key stands behind it.
        let mut numbers: BTreeMap<Vec<&str>, u64> = BTreeMap::new();
        let mut keys: Vec<&str> = Vec::new();
        for (key, _) in footprints().flat_map(|footprint| &footprint.keys) {
            numbers.entry(key.parts().collect()).or_insert_with(|| {
                keys.push(key.as_str());
                keys.len() as u64 - 1
            });
        }
        let mut capacities: BTreeMap<&str, u32> = BTreeMap::new();
        for share in footprints().flat_map(|footprint| &footprint.pools) {
            let least = capacities.entry(&*share.pool).or_insert(share.capacity);
            *least = share.capacity.min(*least);
        }
        let needs = jobs.iter().enumerate().map(|(no, job)| needs(no, job, &numbers)).collect();
        Player {
            jobs,
            runs,
            needs,
            keys,
            capacities,
            active: Vec::new(),
            waiting: BTreeSet::new(),
            scheduler: Scheduler::default(),
            answer: vec![Forecast::default(); runs.len()],
            reservations_left: RESERVATIONS_MAX,
        }
    }

    /// A run is due. What its job's overlap rule says comes first. As in the server, a run that waits for its keys is the
    /// active one of its job.
    fn arrive(&mut self, no: usize, run: &ExpectedRun) {
        let Some(job) = self.jobs.get(run.job) else { return };
        let runs = self.runs;
        let same_job = |other: usize| runs[other].job == run.job;
        let waiting: Vec<_> = self.waiting.iter().filter(|waiter| same_job(waiter.2)).copied().collect();
        let active = self.active.iter().map(|active| active.run).find(|&active| same_job(active));
        match job.overlap {
            Overlap::Skip => {
                if let Some(holder) = active.or(waiting.first().map(|waiter| waiter.2)) {
                    self.answer[no].skip = Some(SkipReason::Overlap);
                    self.answer[no].blocker = Some(ExpectedBlocker { run: holder, key: None });
                    return;
                }
            }
            Overlap::Replace | Overlap::Latest => {
                for waiter in waiting {
                    self.waiting.remove(&waiter);
                    self.answer[waiter.2].skip = Some(SkipReason::Superseded);
                }
                if job.overlap == Overlap::Replace {
                    self.active.retain(|active| !same_job(active.run));
                }
            }
            Overlap::Allow | Overlap::Wait => {}
        }
        self.waiting.insert((Reverse(job.priority), run.due, no));
    }

    /// Reserves for what is active, then for what waits, in that order. Returns the ends of those that start now.
    fn admit(&mut self, now: Millis) -> Vec<Millis> {
        let order: Vec<usize> = self.active.iter().map(|active| active.run).collect();
        let candidates: Vec<(Reverse<i32>, Millis, usize)> = self.waiting.iter().copied().collect();
        if candidates.is_empty() {
            return Vec::new();
        }
        let tx = TxId::default();
        let order: Vec<usize> = order.into_iter().chain(candidates.iter().map(|&(.., run)| run)).collect();
        for (rank, &run) in order.iter().enumerate() {
            let mut scope_hash = [0; 32];
            scope_hash[..8].copy_from_slice(&(rank as u64).to_be_bytes());
            let footprint = self.needs[self.runs[run].job].footprint.clone();
            // There is room for a thousand times as many as are reserved at all.
            let _ =
                self.scheduler.enqueue(tx, PendingRewrite { scope_hash, footprint, ..Default::default() });
        }
        self.reservations_left = self.reservations_left.saturating_sub(order.len());
        let mut holders: Vec<usize> = Vec::new();
        let mut ends = Vec::new();
        let active_count = self.active.len();
        for (rank, mut rewrite) in self.scheduler.drain_for_tx(tx).into_iter().enumerate() {
            let run = order[rank];
            if rank < active_count {
                let _ = self.scheduler.reserve(tx, &mut rewrite);
                holders.push(run);
                continue;
            }
            let blocker = match self.full_pool(run, &holders) {
                Some(blocker) => Some(blocker),
                None => match self.scheduler.reserve(tx, &mut rewrite) {
                    Ok(()) => None,
                    Err(conflict) => Some(self.blocker(run, conflict, &holders)),
                },
            };
            let Some(blocker) = blocker else {
                let ends_at = now.saturating_add(self.runs[run].duration_ms.max(1));
                self.waiting.remove(&candidates[rank - active_count]);
                self.active.push(Active { run, ends_at });
                self.answer[run].starts_at = Some(now);
                holders.push(run);
                ends.push(ends_at);
                continue;
            };
            let job = &self.jobs[self.runs[run].job];
            let skip = match (&blocker.key, &job.footprint) {
                (Some(_), Some(footprint)) if footprint.on_conflict == OnConflict::Skip => {
                    Some(SkipReason::Conflict)
                }
                _ => None,
            };
            if skip.is_some() {
                self.waiting.remove(&candidates[rank - active_count]);
                self.answer[run].skip = skip;
            }
            self.answer[run].blocker.get_or_insert(blocker);
        }
        self.scheduler.finalize_tx(tx);
        ends
    }

    /// The first pool that has not enough left, and the latest that took of it.
    fn full_pool(&self, run: usize, holders: &[usize]) -> Option<ExpectedBlocker> {
        let units_of = |holder: usize, pool: &str| {
            let pools = &self.needs[self.runs[holder].job].pools;
            pools.iter().find(|(name, _)| *name == pool).map_or(0, |(_, units)| *units)
        };
        self.needs[self.runs[run].job].pools.iter().find_map(|&(pool, units)| {
            let taken: u64 = holders.iter().map(|&holder| u64::from(units_of(holder, pool))).sum();
            let capacity = self.capacities.get(pool).copied().unwrap_or_default();
            if taken + u64::from(units) <= u64::from(capacity) {
                return None;
            }
            let holder = holders.iter().rfind(|&&holder| units_of(holder, pool) > 0)?;
            Some(ExpectedBlocker { run: *holder, key: Some(format!("pool:{pool}").into()) })
        })
    }

    fn blocker(&self, run: usize, conflict: batch::Conflict, holders: &[usize]) -> ExpectedBlocker {
        let uses = &self.needs[self.runs[run].job].footprint;
        let holds = |&&holder: &&usize| {
            let held = self.needs[self.runs[holder].job].footprint.uses();
            held.iter().any(|(set, key)| *key == conflict.key && set.excludes(conflict.set))
        };
        let holder = holders.iter().find(holds).copied().unwrap_or(run);
        debug_assert!(!uses.is_empty() && holder != run, "a refusal without a holder: {conflict:?}");
        let key = (conflict.key.instance == DECLARED).then(|| self.keys[conflict.key.local as usize].into());
        ExpectedBlocker { run: holder, key }
    }
}

/// A key stands for everything below it: it uses all declared keys that begin with its parts. A claim excludes reads and
/// writes of the key too, as a write does.
fn needs<'a>(no: usize, job: &'a ExpectedJob, numbers: &BTreeMap<Vec<&'a str>, u64>) -> Needs<'a> {
    let mut footprint = batch::Footprint::new();
    if job.overlap != Overlap::Allow {
        footprint.insert(Set::NodeWrites, ResourceKey::new(JOB, no as u64));
    }
    let declared = job.footprint.iter();
    for (key, access) in declared.clone().flat_map(|footprint| &footprint.keys) {
        let set = match access {
            Access::Read => Set::NodeReads,
            Access::Write | Access::Claim => Set::NodeWrites,
        };
        let parts: Vec<&str> = key.parts().collect();
        for (_, number) in numbers.range(parts.clone()..).take_while(|(below, _)| below.starts_with(&parts)) {
            footprint.insert(set, ResourceKey::new(DECLARED, *number));
        }
    }
    let pools = declared.flat_map(|footprint| &footprint.pools);
    Needs { footprint, pools: pools.map(|share| (&*share.pool, share.units)).collect() }
}

#[cfg(test)]
mod tests {
    use cadran_core::{FootprintSpec, PoolShare};

    use super::*;

    const MIN: Millis = 60_000;

    fn job(overlap: Overlap, reads: &[&str], writes: &[&str], units: u32) -> ExpectedJob {
        let list = |keys: &[&str]| keys.iter().map(|key| key.to_string()).collect();
        let pools = (units > 0).then(|| PoolShare { pool: "gpu".into(), units, capacity: 2 });
        let spec = FootprintSpec {
            reads: list(reads),
            writes: list(writes),
            pools: pools.into_iter().collect(),
            ..FootprintSpec::default()
        };
        ExpectedJob { footprint: spec.as_written(), overlap, priority: 0 }
    }

    /// Runs of a minute each, as (due in minutes, job); the answer as `start/blocker key` or the reason of a skip.
    fn check(jobs: &[ExpectedJob], runs: &[(Millis, usize)], expected: &[&str]) {
        let expected_run =
            |&(due, job): &(Millis, usize)| ExpectedRun { due: due * MIN / 2, job, duration_ms: MIN };
        let runs: Vec<ExpectedRun> = runs.iter().map(expected_run).collect();
        let answer = dry_run(jobs, &runs);
        assert_eq!(answer.cut_at, None);
        let shown = |forecast: &Forecast| {
            let blocker = forecast.blocker.as_ref();
            let blocker = blocker
                .map(|found| format!(" after {} {}", found.run, found.key.as_deref().unwrap_or("job")));
            match (forecast.starts_at, forecast.skip) {
                (Some(at), None) => format!("{}{}", 2 * at / MIN, blocker.unwrap_or_default()),
                (None, Some(reason)) => format!("{}{}", reason.word(), blocker.unwrap_or_default()),
                other => panic!("neither started nor skipped, or both: {other:?}"),
            }
        };
        assert_eq!(answer.runs.iter().map(shown).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn readers_share_writers_wait_and_a_key_stands_for_what_lies_below() {
        let jobs = [
            job(Overlap::Skip, &["s3:data"], &[], 0),
            job(Overlap::Skip, &["s3:data/a"], &[], 0),
            job(Overlap::Skip, &[], &["s3:data/a"], 0),
            job(Overlap::Skip, &[], &["s3:data/b"], 0),
        ];
        check(
            &jobs,
            &[(0, 0), (0, 1), (0, 2), (0, 3), (1, 2)],
            &["0", "0", "2 after 0 s3:data/a", "2 after 0 s3:data/b", "overlap after 2 job"],
        );
    }

    #[test]
    fn a_free_run_passes_one_that_waits_and_the_more_urgent_goes_first() {
        let mut jobs = vec![job(Overlap::Wait, &[], &["k:x"], 0); 4];
        jobs[3] = job(Overlap::Wait, &[], &["k:y"], 0);
        jobs[2].priority = 5;
        check(&jobs, &[(0, 0), (1, 1), (1, 2), (1, 3)], &["0", "4 after 0 k:x", "2 after 0 k:x", "1"]);
    }

    #[test]
    fn pools_count_units_and_overlap_has_its_rules() {
        let one = |overlap| job(overlap, &[], &[], 1);
        let jobs = [one(Overlap::Allow), one(Overlap::Latest), one(Overlap::Replace)];
        check(&jobs, &[(0, 0), (0, 0), (1, 0)], &["0", "0", "2 after 1 pool:gpu"]);
        check(&jobs, &[(0, 1), (1, 1), (1, 1)], &["0", "superseded", "2 after 0 job"]);
        check(&jobs, &[(0, 2), (1, 2)], &["0", "1"]);
    }

    #[test]
    fn too_much_that_waits_is_cut_and_said() {
        let jobs = [job(Overlap::Wait, &[], &["k:x"], 0)];
        let runs: Vec<ExpectedRun> =
            (0..5_000).map(|due| ExpectedRun { due, job: 0, duration_ms: MIN }).collect();
        let answer = dry_run(&jobs, &runs);
        assert!(answer.cut_at.is_some());
        assert_eq!(answer.runs.len(), runs.len());
    }
}
