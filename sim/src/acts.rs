//! What the script does to the world, and how everything comes to rest at its end.

use std::collections::{BTreeMap, BTreeSet};

use cadran_core::{Command, Millis, RunId, RunStatus};
use cadran_engine::{JobChange, Token};

use crate::fleet::{MIN, SEC};
use crate::law::{Violation, broken};
use crate::record::Record;
use crate::script::Act;
use crate::touch::can_exclude;
use crate::world::World;

/// Rounds of five minutes in which everything has to come to rest: a backlog of 1000 runs needs one or two.
const ROUNDS_MAX: u32 = 60;

/// Tries of a run by hand at the end: other runs of its job may be in its way, for a moment each.
const TRIES_MAX: u32 = 6;

impl<R: Record> World<'_, R> {
    /// Carries out one act of the script.
    pub(crate) fn act(&mut self, at: usize) -> Result<(), Violation> {
        let act = self.script.acts[at].1.clone();
        let any = |runs: &std::collections::VecDeque<RunId>, pick: u64| {
            (!runs.is_empty()).then(|| runs[pick as usize % runs.len()])
        };
        match act {
            Act::Put(no) => {
                let name = number(self.script.definitions[no].name.as_str());
                self.files.insert(name, no);
                self.tell_jobs(vec![self.change(no)]);
            }
            Act::Remove(job) => {
                self.forget_pause(job);
                if self.files.remove(&job).is_some() {
                    self.tell_jobs(vec![JobChange::Remove { name: self.name(job) }]);
                }
            }
            Act::Rename(from, no) => {
                let mut changes = Vec::new();
                self.forget_pause(from);
                if self.files.remove(&from).is_some() {
                    changes.push(JobChange::Remove { name: self.name(from) });
                }
                let name = number(self.script.definitions[no].name.as_str());
                self.files.insert(name, no);
                changes.push(self.change(no));
                self.tell_jobs(changes);
            }
            Act::Pause(job) => drop(self.command(Command::Pause { job: self.name(job) }, job)),
            Act::Resume(job) => drop(self.command(Command::Resume { job: self.name(job) }, job)),
            Act::Trigger(job) => drop(self.trigger(job)),
            Act::Stop(pick) => {
                if let Some(run) = any(&self.newest, pick) {
                    // Nothing is shared out here: asking for a share first must change nothing.
                    let share = (pick >> 32) as u32 % 3;
                    self.command(Command::StopShare { run, share }, 0);
                    self.command(Command::Stop { run }, 0);
                }
            }
            Act::Retry(pick) => {
                if let Some(run) = any(&self.newest, pick) {
                    let share = (pick >> 32) as u32 % 3;
                    self.command(Command::RetryShare { run, share }, 0);
                    self.command(Command::Retry { run }, 0);
                }
            }
            Act::Crash(down) if self.is_up() => self.crash(down),
            Act::CrashAfter(effects, down) if self.is_up() => self.crash_after = Some((effects, down)),
            Act::Restart(down) if self.is_up() => self.end_in_order(down)?,
            Act::Crash(_) | Act::CrashAfter(..) | Act::Restart(_) => {}
            Act::Clock(by) => self.set_clock(by),
            Act::Freeze(long, leaps) => self.freeze(long, leaps),
            Act::Stall(long) => self.stall(long),
            Act::StoreDown(long) => self.store_away(long),
            Act::StoreSlow(each, long) => self.store_slow = (each, self.mono + long),
            Act::ExecutorLoss(silent) => self.lose_attempts(silent),
            Act::Storm(long) => self.storm_until = self.mono + long,
        }
        Ok(())
    }

    pub(crate) fn trigger(&mut self, job: u64) -> Option<Token> {
        self.command(
            Command::Trigger {
                job: self.name(job),
                params: Vec::new(),
                addresses: Vec::new(),
                parent: None,
                key: None,
            },
            job,
        )
    }

    /// The faults are over. Everything that waits has to come to its end, every job has to run when it is asked, and
    /// every due has to have its record.
    pub(crate) fn settle(&mut self) -> Result<(), Violation> {
        self.calm();
        self.hands.hurry(self.now());
        self.run_to(self.mono + 10 * SEC)?;
        let jobs: Vec<u64> = self.files.keys().copied().collect();
        for job in jobs {
            self.command(Command::Resume { job: self.name(job) }, job);
        }
        self.run_to(self.mono + 2 * MIN)?;
        self.nothing_overdue()?;
        // Attempts that vanished without a word are found by a restart.
        self.crash(0);
        self.run_to(self.mono + 3 * MIN)?;
        let mut rounds = 0;
        while let Some(left) = self.unsettled() {
            rounds += 1;
            if rounds > ROUNDS_MAX {
                return broken("every wait ends", left);
            }
            self.run_to(self.mono + 5 * MIN)?;
        }
        self.ask_every_job()?;
        let now = self.now().wall;
        let planner = self.engine.planner();
        self.law.check(now, true, |job| planner.has_backlog(job) || planner.is_paused(job))
    }

    /// Runs that are on, and those that wait for one of them or for somebody who does: by their job, or by what they
    /// touch.
    fn with_somebody_ahead(&self) -> BTreeSet<RunId> {
        let open = &self.law.open;
        let mut found: BTreeSet<RunId> =
            open.iter().filter(|(_, run)| run.started).map(|(run, _)| *run).collect();
        loop {
            let before = found.len();
            for (run, own) in open {
                let waits_for = |other: &RunId| {
                    let their = &open[other];
                    their.job == own.job || can_exclude(self.law.job_of(own), self.law.job_of(their))
                };
                if !found.contains(run) && found.iter().any(waits_for) {
                    found.insert(*run);
                }
            }
            if found.len() == before {
                return found;
            }
        }
    }

    /// A server that is well starts what is due, or says why not; only runs behind another one wait.
    fn nothing_overdue(&self) -> Result<(), Violation> {
        let now = self.now().wall;
        let with_somebody_ahead = self.with_somebody_ahead();
        for (run, open) in self.law.open.iter().filter(|(_, open)| !open.started && open.due < now - MIN) {
            let Some(row) = self.record.run(*run) else { continue };
            if row.state.status == RunStatus::Promised && row.promise.promised_at < now - MIN {
                return broken("what is due starts", format!("{run} is still promised: {open:?}"));
            }
            // Of a job that may still come back it waits for that, however long the clock makes it.
            let removed = self.law.jobs.get(&open.job).is_some_and(|life| life.removed_at.is_some());
            if row.state.status == RunStatus::Waiting && !removed && !with_somebody_ahead.contains(run) {
                return broken(
                    "whoever waits waits for somebody",
                    format!("{run} waits for nobody: {open:?}"),
                );
            }
        }
        Ok(())
    }

    /// Why the world is not at rest yet.
    fn unsettled(&self) -> Option<String> {
        let now = self.now().wall;
        let mut open: Vec<_> = self.law.open.iter().filter(|(_, run)| run.due <= now - SEC).collect();
        open.sort_by_key(|(run, _)| **run);
        if let Some((run, open)) = open.first() {
            let row = self.record.run(**run).map(|row| row.state);
            return Some(format!("{run} is still open: {open:?} {row:?}"));
        }
        let (on, kept) = self.hands.on_and_kept();
        if self.law.open.is_empty() && self.in_the_air() == 0 {
            let places = self.engine.active_and_waiting();
            if on == 0 && places != (0, 0) {
                return Some(format!("places that nobody holds: {places:?}"));
            }
            if kept > 0 {
                return Some(format!("{kept} attempts are kept of runs that are over"));
            }
        }
        let planner = self.engine.planner();
        let backlog =
            self.law.jobs.iter().find(|(job, life)| life.removed_at.is_none() && planner.has_backlog(**job));
        backlog.map(|(_, life)| format!("{} still replays its backlog", life.name))
    }

    /// Asks every job for a run: nothing that happened may keep one from running.
    fn ask_every_job(&mut self) -> Result<(), Violation> {
        self.keep_answers = true;
        self.law.ends = Some(Default::default());
        let mut left: Vec<u64> = self.files.keys().copied().collect();
        let mut asked: BTreeMap<u64, Vec<Token>> = BTreeMap::new();
        for round in 0..TRIES_MAX {
            for &job in &left {
                asked.entry(job).or_default().extend(self.trigger(job));
                // Not all at once, and not on the beat of any schedule.
                self.run_to(self.mono + 137 + Millis::from(round) * 211)?;
            }
            self.run_to(self.mono + 2 * SEC)?;
            left.retain(|job| {
                let runs = asked[job].iter().filter_map(|token| self.answers.get(token).copied().flatten());
                let ends = runs.filter_map(|run| self.law.ends.as_ref()?.get(&run).copied());
                // A step that calls a job may be refused for good: for a parameter, or a footprint. Its run ends all the same,
                // once it was tried as often as its retry says.
                let definition = self.files.get(job).and_then(|no| self.script.definitions.get(*no));
                let calls = definition.is_some_and(|job| job.body.calls().next().is_some());
                !ends.into_iter().any(|end| calls || end == RunStatus::Succeeded)
            });
            if left.is_empty() {
                self.keep_answers = false;
                return Ok(());
            }
            self.run_to(self.mono + 7 * SEC * Millis::from(round + 1))?;
        }
        let names: Vec<String> = left.iter().map(|job| format!("j{job}")).collect();
        broken("a job that is asked runs", format!("{} does not", names.join(", ")))
    }
}

/// The number in a job's name.
fn number(name: &str) -> u64 {
    name[1..].parse().unwrap_or(u64::MAX)
}
