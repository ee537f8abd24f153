//! The executor of the simulation: takes orders, lets attempts end, keeps a journal that outlives the server, and a
//! ledger of everything it was told to start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cadran_core::{
    Body, Found, JobId, Millis, Now, Order, Outcome, Overlap, Policy, Report, ReportKind, RunId, SeatRecord,
    Start, StepNo,
};
use rustc_hash::FxHashMap;

use crate::dice::Dice;
use crate::fleet::{MIN, SEC};
use crate::law::{Violation, broken};
use crate::remote;
use crate::step_law::StepLaw;

pub(crate) type Key = (RunId, StepNo, u32);

#[derive(Debug)]
struct Attempt {
    job: JobId,
    started: Now,
    stop_asked: bool,
    /// Goes on for a while although it is told to stop.
    deaf: bool,
    exit: Outcome,
    alive: bool,
    ended: Option<(Millis, Outcome)>,
    /// What it prints, for a step whose output is kept.
    output: Option<Box<str>>,
    /// Its shares, when it runs at executors elsewhere: those outlive the server.
    seats: Vec<SeatRecord>,
}

impl Attempt {
    /// The attempt is over: what became of its shares, then of itself.
    fn report_end(&mut self, key: Key, now: Now, outcome: Outcome, reports: &mut Vec<Report>) {
        for seat in remote::end(&mut self.seats, now, &outcome) {
            reports.push(report(key, now.wall, ReportKind::Seat(Box::new(seat))));
        }
        self.ended = Some((now.wall, outcome.clone()));
        let output = self.output.clone().filter(|_| outcome == Outcome::Exited(0));
        reports.push(report(key, now.wall, ReportKind::Ended { outcome, output }));
    }
}

/// Every attempt, by run, step and number.
#[derive(Default)]
pub(crate) struct Hands {
    seed: u64,
    /// Nothing takes time any more and everything succeeds.
    pub(crate) quiet: bool,
    /// What is kept until a run is closed.
    journal: BTreeMap<Key, Attempt>,
    /// The highest attempt that was ever started of a step.
    ledger: FxHashMap<(RunId, StepNo), u32>,
    live: BTreeMap<JobId, Vec<(Key, Overlap)>>,
    /// Every log number that was given to an executor.
    logs: BTreeSet<u64>,
    /// When attempts end, by the monotonic clock.
    ends: BTreeSet<(Millis, Key)>,
    /// Whether the ledger forgets runs that are closed: nobody retries them.
    pub(crate) forgets: bool,
    pub(crate) starts: u64,
    pub(crate) step_law: StepLaw,
}

impl Hands {
    pub(crate) fn new(seed: u64) -> Hands {
        Hands { seed, ..Hands::default() }
    }

    /// Carries out an order. `admitted` says that the run was seen to have its job before. Reports that follow at once are added to `reports`.
    pub(crate) fn take(
        &mut self,
        order: &Order,
        policy: Policy,
        admitted: bool,
        body: Option<&Arc<Body>>,
        now: Now,
        reports: &mut Vec<Report>,
    ) -> Result<(), Violation> {
        match order {
            Order::Start(start) => self.start(start, policy, admitted, body, now, reports)?,
            Order::Stop { run, step, attempt } => {
                let key = (*run, *step, *attempt);
                if let Some(on) = self.journal.get_mut(&key).filter(|on| on.alive && !on.stop_asked) {
                    on.stop_asked = true;
                    let takes = if on.deaf && !self.quiet { 30 * SEC } else { 20 };
                    self.ends.insert((now.mono + takes, key));
                }
            }
            Order::StopShare { run, step, attempt, share } => {
                self.stop_share((*run, *step, *attempt), *share, now, reports)?;
            }
            Order::Gone { .. } => {}
            Order::Close { run } => {
                let all = (*run, StepNo(0), 0)..=(*run, StepNo(u16::MAX), u32::MAX);
                let keys: Vec<Key> = self.journal.range(all).map(|(&key, _)| key).collect();
                for key in keys {
                    if self.journal.remove(&key).is_some_and(|on| on.alive) {
                        return broken(
                            "a run is over only when its attempts are",
                            format!("{} was closed while {key:?} is on", key.0),
                        );
                    }
                    if self.forgets {
                        self.ledger.remove(&(key.0, key.1));
                    }
                }
            }
        }
        Ok(())
    }

    fn start(
        &mut self,
        start: &Start,
        policy: Policy,
        admitted: bool,
        body: Option<&Arc<Body>>,
        now: Now,
        reports: &mut Vec<Report>,
    ) -> Result<(), Violation> {
        let key = (start.run, start.step, start.attempt);
        let job = start.context.job;
        let last = self.ledger.entry((start.run, start.step)).or_default();
        if start.attempt <= *last {
            return broken(
                "attempt numbers rise, and no attempt is ordered twice",
                format!("{} {:?}: attempt {} after {last}", start.run, start.step, start.attempt),
            );
        }
        *last = start.attempt;
        let live = self.live.entry(job).or_default();
        for &((run, step, attempt), other) in live.iter() {
            if (run, step) == (start.run, start.step) {
                return broken(
                    "no two live attempts of one step of a run",
                    format!("{run} {step:?}: attempt {} while {attempt} is on", start.attempt),
                );
            }
            // A job that was edited to allow overlap may start runs beside one that goes on under its former rule, that
            // waits for what it touches, or whose order waits for its record.
            let passed = other == Overlap::Allow && (policy.at_most_once || admitted);
            if run != start.run && policy.overlap != Overlap::Allow && !passed {
                return broken(
                    "under overlap other than allow no two runs of a job are live",
                    format!(
                        "job {job}: {} started while {run} is on, under {}",
                        start.run,
                        policy.overlap.word()
                    ),
                );
            }
        }
        let beside: Vec<StepNo> =
            live.iter().filter(|((run, ..), _)| *run == start.run).map(|((_, step, _), _)| *step).collect();
        self.step_law.start(start, body.unwrap_or(&start.context.body), &beside)?;
        live.push((key, policy.overlap));
        self.starts += 1;
        let mut dice = Dice::of(&[
            self.seed,
            u64::from(job.0),
            start.context.due as u64,
            u64::from(start.step.0),
            u64::from(start.attempt),
        ]);
        let pace = Dice::of(&[self.seed, u64::from(job.0), 77]).roll(6);
        let takes = match (self.quiet, pace) {
            (true, _) => 0,
            (_, 0) => 0,
            (_, 1 | 2) => dice.between(1, 900),
            (_, 3) => dice.between(1, 20) * SEC,
            (_, 4) => dice.between(1, 200) * SEC,
            _ => dice.pick(&[0, 3 * SEC, 90 * SEC, 40 * MIN]),
        };
        let knows_run =
            self.journal.range((start.run, StepNo(0), 0)..).next().is_some_and(|(key, _)| key.0 == start.run);
        let seats = remote::seats(start);
        for seat in &seats {
            if !self.logs.insert(seat.log) {
                return broken("a log number is used once", format!("{} got {} again", start.run, seat.log));
            }
        }
        let exit = match dice.roll(20) {
            _ if self.quiet => Outcome::Exited(0),
            0..=2 => Outcome::Exited(1),
            3 => Outcome::Signaled(9),
            4 => Outcome::TimedOut,
            5 => Outcome::NotStarted("no such program".into()),
            _ => Outcome::Exited(0),
        };
        let exit = match remote::unmet(start, self.seed, knows_run) {
            Some(unmet) if !self.quiet => unmet,
            _ => exit,
        };
        let deaf = dice.percent(10);
        let wants_output = start.context.body.step(start.step).is_some_and(|step| step.output.is_some());
        let output = wants_output.then(|| format!("{}-{}", start.run, start.attempt).into());
        for seat in &seats {
            reports.push(report(key, now.wall, ReportKind::Seat(Box::new(seat.clone()))));
        }
        self.journal.insert(
            key,
            Attempt {
                job,
                started: now,
                stop_asked: false,
                deaf,
                exit,
                alive: true,
                ended: None,
                output,
                seats,
            },
        );
        self.ends.insert((now.mono + takes, key));
        reports.push(report(key, now.wall, ReportKind::Started));
        Ok(())
    }

    /// When the next attempt ends, by the monotonic clock.
    pub(crate) fn next_end(&self) -> Option<Millis> {
        self.ends.first().map(|(at, _)| *at)
    }

    /// Lets end what ends by now.
    pub(crate) fn end(&mut self, now: Now, reports: &mut Vec<Report>) {
        while let Some(&(at, key)) = self.ends.first().filter(|(at, _)| *at <= now.mono) {
            self.ends.remove(&(at, key));
            let Some(on) = self.journal.get_mut(&key).filter(|on| on.alive) else { continue };
            let outcome = if on.stop_asked { Outcome::Stopped } else { on.exit.clone() };
            over(on, &mut self.live, key);
            let outcome = remote::with_stopped_shares(&on.seats, outcome);
            self.step_law.end(key.0, key.1, &outcome, on.output.as_deref());
            on.report_end(key, now, outcome, reports);
        }
    }

    /// Everything that is on vanishes, with a word or without.
    pub(crate) fn lose(&mut self, silent: bool, now: Now, reports: &mut Vec<Report>) {
        for (&key, on) in self.journal.iter_mut().filter(|(_, on)| on.alive) {
            over(on, &mut self.live, key);
            if !silent {
                on.report_end(key, now, Outcome::Lost, reports);
            } else if !on.seats.is_empty() {
                // Executors elsewhere are asked about what they have; what vanished there is known at the next start.
                on.report_end(key, now, Outcome::Lost, &mut Vec::new());
            }
        }
        self.ends.clear();
    }

    /// The server ends in good order: what is on is stopped with it.
    pub(crate) fn stop_all(&mut self, now: Now, reports: &mut Vec<Report>) {
        for (&key, on) in self.journal.iter_mut().filter(|(_, on)| on.alive && on.seats.is_empty()) {
            over(on, &mut self.live, key);
            on.report_end(key, now, Outcome::Stopped, reports);
        }
        self.forget_ends();
    }

    /// Forgets when attempts end that are over.
    fn forget_ends(&mut self) {
        let journal = &self.journal;
        self.ends.retain(|(_, key)| journal.get(key).is_some_and(|on| on.alive));
    }

    /// One share of a broadcast stops; with the last one the attempt is over.
    fn stop_share(
        &mut self,
        key: Key,
        share: u32,
        now: Now,
        reports: &mut Vec<Report>,
    ) -> Result<(), Violation> {
        let Some(on) = self.journal.get_mut(&key).filter(|on| on.alive) else { return Ok(()) };
        if !on.seats.iter().any(|seat| seat.index == share && seat.total > 1) {
            return broken(
                "a share is stopped only where there is one",
                format!("{}.{share} was to stop, and there is no such share", key.0),
            );
        }
        for seat in remote::stop(&mut on.seats, share, now) {
            reports.push(report(key, now.wall, ReportKind::Seat(Box::new(seat))));
        }
        if on.seats.iter().all(|seat| seat.status.is_ended()) {
            self.ends.insert((now.mono, key));
        }
        Ok(())
    }

    /// From here on nothing takes time.
    pub(crate) fn hurry(&mut self, now: Now) {
        self.quiet = true;
        let live: Vec<Key> = self.live.values().flatten().map(|(key, _)| *key).collect();
        self.ends.extend(live.into_iter().map(|key| (now.mono, key)));
    }

    /// The server died, and its processes with it: what the journal says of attempts of its former life.
    pub(crate) fn die(&mut self) -> Vec<Found> {
        self.step_law.died();
        let mut found = Vec::new();
        for (&(run, step, attempt), on) in &mut self.journal {
            // What runs elsewhere goes on.
            if on.alive && on.seats.is_empty() {
                over(on, &mut self.live, (run, step, attempt));
            }
            let (started_at, ended) = (on.started.wall, on.ended.clone());
            found.push(Found {
                run,
                step,
                attempt,
                started_at,
                ended,
                output: on.output.clone(),
                lives: on.alive,
                seats: on.seats.clone(),
            });
        }
        self.forget_ends();
        found
    }

    /// The highest log number that executors were given, as their ledger tells the next server.
    pub(crate) fn last_log(&self) -> u64 {
        self.logs.last().copied().unwrap_or_default()
    }

    /// How many attempts are on, and how many runs the journal still keeps.
    pub(crate) fn on_and_kept(&self) -> (usize, usize) {
        (self.live.values().map(Vec::len).sum(), self.journal.len())
    }
}

fn over(on: &mut Attempt, live: &mut BTreeMap<JobId, Vec<(Key, Overlap)>>, key: Key) {
    on.alive = false;
    if let Some(live) = live.get_mut(&on.job) {
        live.retain(|(other, _)| *other != key);
    }
}

fn report((run, step, attempt): Key, at: Millis, kind: ReportKind) -> Report {
    Report { run, step, attempt, at, kind }
}
