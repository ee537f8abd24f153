//! The executor of the world: takes orders, ends attempts when the script says, and keeps a journal that outlives
//! the server.

use std::collections::{BTreeMap, BTreeSet};

use cadran_core::{
    Access, Footprint, Found, Millis, Now, Order, Outcome, Overlap, Report, ReportKind, RunId, RunStatus,
    Start, StepNo,
};

use super::record::Record;

/// How long attempts of a job take, and how they end.
#[derive(Clone, Debug, Default)]
pub struct Manner {
    /// `None` goes on until told to stop or to finish.
    pub takes_ms: Option<Millis>,
    /// Exit codes of the attempts to come, first to last; then 0.
    pub exits: Vec<i32>,
    /// Goes on although it is told to stop.
    pub deaf: bool,
}

#[derive(Clone, Debug)]
pub struct Attempt {
    pub job: String,
    pub due: Millis,
    pub started: Now,
    pub exit: i32,
    pub stop_asked: bool,
    pub deaf: bool,
    pub alive: bool,
    pub ended: Option<(Millis, Outcome)>,
    pub footprint: Footprint,
}

type Key = (RunId, StepNo, u32);

/// Every attempt, by run, step and number.
#[derive(Default)]
pub struct Hands {
    pub manners: BTreeMap<String, Manner>,
    /// Pools whose capacity is not what their runs were promised under.
    pub pools: BTreeMap<String, u32>,
    /// What is kept until a run is closed.
    pub journal: BTreeMap<Key, Attempt>,
    /// Every attempt ever started: none may start twice.
    pub ledger: BTreeSet<Key>,
    /// (due, job, start by the wall clock, run, step, attempt), in the order of the starts.
    pub starts: Vec<(Millis, String, Millis, Key)>,
    live: BTreeMap<String, BTreeSet<Key>>,
    /// When attempts end, by the monotonic clock.
    ends: BTreeSet<(Millis, Key)>,
    reports: Vec<Report>,
}

impl Hands {
    pub fn take(&mut self, order: Order, now: Now, record: &Record, overlap: impl Fn(&Start) -> Overlap) {
        match order {
            Order::Start(start) => {
                let overlap = overlap(&start);
                self.start(&start, now, record, overlap);
            }
            Order::Stop { run, step, attempt } => {
                if let Some(on) = self.journal.get_mut(&(run, step, attempt)).filter(|on| on.alive) {
                    on.stop_asked = true;
                    if !on.deaf {
                        self.ends.insert((now.mono, (run, step, attempt)));
                    }
                }
            }
            Order::StopShare { run, share, .. } => {
                panic!("nothing is shared out, and {run}.{share} was to stop")
            }
            Order::Gone { .. } => {}
            Order::Close { run } => {
                let row = record.runs.get(&run).map(|row| row.state.status);
                assert!(row.is_some_and(RunStatus::is_ended), "run {run} closed while its row says {row:?}");
                let all = (run, StepNo(0), 0)..=(run, StepNo(u16::MAX), u32::MAX);
                let keys: Vec<Key> = self.journal.range(all).map(|(&key, _)| key).collect();
                for key in keys {
                    self.journal.remove(&key);
                }
            }
        }
    }

    fn start(&mut self, start: &Start, now: Now, record: &Record, overlap: Overlap) {
        let key = (start.run, start.step, start.attempt);
        let job = start.context.job_name.to_string();
        let row = record.runs.get(&start.run).unwrap_or_else(|| panic!("run {} has no row", start.run));
        assert!(!row.state.status.is_ended(), "run {} started while its row says it is over", start.run);
        assert!(self.ledger.insert(key), "attempt {key:?} of {job} was started twice");
        let live = self.live.entry(job.clone()).or_default();
        for &(run, step, _) in live.iter() {
            let same = (run, step) == (start.run, start.step);
            assert!(!same, "two attempts of step {step:?} of run {run} of {job} at once");
            let other = run != start.run && overlap != Overlap::Allow;
            assert!(!other, "runs {run} and {} of {job} at once under {overlap:?}", start.run);
        }
        live.insert(key);
        let body = &start.context.body;
        let footprint = body.footprint.resolve(&body.params, &start.context.params).unwrap_or_default();
        self.excludes_nobody(start.run, &job, &footprint);
        let manner =
            self.manners.entry(job.clone()).or_insert(Manner { takes_ms: Some(0), ..Manner::default() });
        let exit = if manner.exits.is_empty() { 0 } else { manner.exits.remove(0) };
        let ends_at = manner.takes_ms.map(|takes| now.mono + takes);
        let attempt = Attempt {
            job: job.clone(),
            due: start.context.due,
            started: now,
            exit,
            stop_asked: false,
            deaf: manner.deaf,
            alive: true,
            ended: None,
            footprint,
        };
        self.ends.extend(ends_at.map(|at| (at, key)));
        self.journal.insert(key, attempt);
        self.starts.push((start.context.due, job, now.wall, key));
        self.report(key, now.wall, ReportKind::Started);
    }

    /// What live runs touch never conflicts.
    fn excludes_nobody(&self, run: RunId, job: &str, footprint: &Footprint) {
        let mut taken: BTreeMap<&str, (u32, BTreeSet<RunId>)> = BTreeMap::new();
        for (&(other, ..), on) in self.journal.iter().filter(|((other, ..), on)| on.alive && *other != run) {
            for (theirs, how) in &on.footprint.keys {
                let together = |(ours, access): &(cadran_core::Key, Access)| {
                    !ours.touches(theirs) || *access == Access::Read && *how == Access::Read
                };
                assert!(
                    footprint.keys.iter().all(together),
                    "run {run} of {job} beside run {other} of {}: {theirs}",
                    on.job
                );
            }
            for share in &on.footprint.pools {
                let (units, runs) = taken.entry(&share.pool).or_default();
                *units += if runs.insert(other) { share.units } else { 0 };
            }
        }
        for share in &footprint.pools {
            let units = taken.get(share.pool.as_str()).map_or(0, |(units, _)| *units) + share.units;
            let capacity = self.pools.get(&share.pool).copied().unwrap_or(share.capacity);
            assert!(units <= capacity, "run {run} of {job} takes {units} of {share:?}");
        }
    }

    fn report(&mut self, (run, step, attempt): Key, at: Millis, kind: ReportKind) {
        self.reports.push(Report { run, step, attempt, at, kind });
    }

    /// When the next attempt ends, by the monotonic clock.
    pub fn next_end(&self) -> Option<Millis> {
        self.ends.first().map(|(at, _)| *at)
    }

    /// What has happened by now.
    pub fn reports(&mut self, now: Now) -> Vec<Report> {
        while let Some(&(at, key)) = self.ends.first().filter(|(at, _)| *at <= now.mono) {
            self.ends.remove(&(at, key));
            let Some(on) = self.journal.get_mut(&key).filter(|on| on.alive) else { continue };
            on.alive = false;
            self.live.get_mut(&on.job).unwrap().remove(&key);
            let outcome = if on.stop_asked { Outcome::Stopped } else { Outcome::Exited(on.exit) };
            on.ended = Some((now.wall, outcome.clone()));
            self.report(key, now.wall, ReportKind::Ended { outcome, output: None });
        }
        std::mem::take(&mut self.reports)
    }

    /// Attempts of a job that go on end now.
    pub fn finish(&mut self, job: &str, now: Now) {
        let live = self.live.get(job).into_iter().flatten();
        self.ends.extend(live.map(|&key| (now.mono, key)));
    }

    /// The server died, and its processes with it: what the journal says of attempts of its former life.
    pub fn die(&mut self) -> Vec<Found> {
        self.reports.clear();
        self.live.clear();
        self.ends.clear();
        let mut found = Vec::new();
        for (&(run, step, attempt), on) in &mut self.journal {
            on.alive = false;
            let (started_at, ended) = (on.started.wall, on.ended.clone());
            found.push(Found {
                run,
                step,
                attempt,
                started_at,
                ended,
                output: None,
                lives: false,
                seats: Vec::new(),
            });
        }
        found
    }
}
