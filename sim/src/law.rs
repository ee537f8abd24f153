//! The laws, and the checker that holds a simulation to them.
//!
//! The checker believes what executors were told to start, and for dues that did not run the rows that say so. It
//! recomputes every due from the calendars and knows nothing of how the planner decides.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use cadran_core::{
    Batch, Job, JobId, JobState, Millis, Misfire, Now, Overlap, Policy, RunId, RunStatus, RunUpdate,
    ScheduleAction, SkipReason, Start, Trigger,
};
use rustc_hash::FxHashMap;

use crate::life::{Life, Mark};
use crate::policy;
use crate::sweep::{Wrong, sweep};

/// A law that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub law: &'static str,
    /// Where and how.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  {}", self.law, self.detail)
    }
}

pub(crate) fn broken<T>(law: &'static str, detail: String) -> Result<T, Violation> {
    Err(Violation { law, detail })
}

/// A run from its promise to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenRun {
    pub(crate) job: JobId,
    pub(crate) due: Millis,
    pub(crate) trigger: Trigger,
    pub(crate) revision: u32,
    pub(crate) started: bool,
    /// It had come as far as to wait for its place.
    pub(crate) waited: bool,
}

/// Holds a simulation to the laws.
pub(crate) struct Checker {
    pub(crate) definitions: Arc<[Job]>,
    pub(crate) jobs: BTreeMap<JobId, Life>,
    pub(crate) open: FxHashMap<RunId, OpenRun>,
    /// Runs that are over and may be retried.
    over: Option<FxHashMap<RunId, OpenRun>>,
    /// How many runs were asked for by hand, and how many there are.
    pub(crate) asked: BTreeMap<String, (u64, u64)>,
    /// How runs ended, while somebody wants to know.
    pub(crate) ends: Option<BTreeMap<RunId, RunStatus>>,
    /// How many dues were compared.
    pub(crate) dues: u64,
    pub(crate) runs: u64,
    pub(crate) skips: u64,
}

impl Checker {
    /// `retries` says whether ended runs are remembered, so that they can be opened again.
    pub(crate) fn new(definitions: Arc<[Job]>, retries: bool) -> Checker {
        Checker {
            definitions,
            jobs: BTreeMap::new(),
            open: FxHashMap::default(),
            over: retries.then(FxHashMap::default),
            asked: BTreeMap::new(),
            ends: None,
            dues: 0,
            runs: 0,
            skips: 0,
        }
    }

    pub(crate) fn definition(&self, text: &str) -> usize {
        text.parse().unwrap_or_default()
    }

    /// The definition that a run was promised under.
    pub(crate) fn job_of(&self, run: &OpenRun) -> &Job {
        let revisions = &self.jobs[&run.job].revisions;
        &self.definitions[revisions[run.revision as usize - 1]]
    }

    /// Called for every batch of the engine, in order, as it becomes durable.
    pub(crate) fn observe(&mut self, batch: &Batch, refused: &[RunId]) -> Result<(), Violation> {
        let put: BTreeSet<JobId> = batch.jobs.iter().map(|put| put.job).collect();
        for state in &batch.states {
            self.jobs.entry(state.job).or_default().state(state, put.contains(&state.job))?;
        }
        for removed in &batch.removed {
            self.jobs.entry(removed.job).or_default().removed_at = Some(removed.at);
        }
        for put in &batch.jobs {
            let definition = self.definition(&put.definition);
            let schedules = self.definitions[definition].schedules.clone();
            let state: Option<&JobState> = batch.states.iter().rfind(|state| state.job == put.job);
            let life = self.jobs.entry(put.job).or_default();
            life.name = put.name.to_string();
            life.definition = definition;
            life.revisions.resize(put.revision as usize, definition);
            let Some(watermark) = state.and_then(|state| state.watermark) else {
                return broken("a job has a watermark", format!("{} was put without one", put.name));
            };
            life.put(schedules, watermark)?;
        }
        for promise in &batch.promised {
            if refused.contains(&promise.run) {
                continue;
            }
            policy::promise(self, promise, batch)?;
            self.runs += 1;
            let run = OpenRun {
                job: promise.job,
                due: promise.due,
                trigger: promise.trigger,
                revision: promise.revision,
                started: false,
                waited: false,
            };
            if promise.trigger == Trigger::Manual {
                self.by_hand(&run)?;
            }
            if let Some(life) = self.jobs.get_mut(&promise.job) {
                life.newest_promised = life.newest_promised.max(Some(promise.due));
            }
            if put.contains(&promise.job)
                && let Some(life) = self.jobs.get_mut(&promise.job)
            {
                life.promised_by_edit(promise.due, promise.promised_at);
            }
            if promise.trigger == Trigger::CatchUp
                && let Some(life) = self.jobs.get_mut(&promise.job)
            {
                life.caught_up += 1;
            }
            self.open.insert(promise.run, run);
        }
        for update in &batch.runs {
            self.update(update)?;
        }
        for skip in &batch.skips {
            policy::skip(self, skip, batch)?;
            self.skips += skip.count;
            self.jobs.entry(skip.job).or_default().skips.push(*skip);
        }
        Ok(())
    }

    /// Whether a run was promised and is over.
    pub(crate) fn is_over(&self, run: RunId) -> bool {
        self.over.as_ref().is_none_or(|over| over.contains_key(&run))
    }

    fn by_hand(&mut self, run: &OpenRun) -> Result<(), Violation> {
        let name = &self.jobs[&run.job].name;
        let (asked, there) = self.asked.entry(name.clone()).or_default();
        *there += 1;
        if there > asked {
            return broken(
                "no run without a due or a trigger by hand",
                format!("{name}: {there} runs by hand, {asked} asked for"),
            );
        }
        Ok(())
    }

    fn update(&mut self, update: &RunUpdate) -> Result<(), Violation> {
        let run = update.run;
        if !update.status.is_ended() {
            if let Some(again) = self.over.as_mut().and_then(|over| over.remove(&run)) {
                self.open.insert(run, again);
            }
            if let Some(open) = self.open.get_mut(&run) {
                open.waited |= update.status == RunStatus::Waiting;
            }
            return Ok(());
        }
        let Some(was) = self.open.remove(&run) else { return Ok(()) };
        if let Some(ends) = &mut self.ends {
            ends.insert(run, update.status);
        }
        if let Some(over) = &mut self.over {
            over.insert(run, was);
        }
        if was.started {
            if update.status == RunStatus::Skipped && update.skip != Some(SkipReason::Precondition) {
                return broken("what was started is not a skip", format!("{run} {was:?} {update:?}"));
            }
            return Ok(());
        }
        if update.status != RunStatus::Skipped && self.job_of(&was).body.calls().next().is_some() {
            // A step that calls a job starts without an order.
            self.mark(&was);
            self.judged_late(&was, update.started_at.unwrap_or(was.due));
            // It counts once, also when somebody opens it again.
            if let Some(over) = &mut self.over {
                over.insert(run, OpenRun { started: true, ..was });
            }
            return Ok(());
        }
        policy::ended_unstarted(self, &was, update)?;
        self.judged_late(&was, update.ended_at.unwrap_or(was.due));
        self.skips += 1;
        self.mark(&was);
        // What is over without a start counts once, also when somebody opens it again.
        if let Some(over) = &mut self.over {
            over.insert(run, OpenRun { started: true, ..was });
        }
        Ok(())
    }

    /// A run that was promised in time and comes to be late is part of what is caught up.
    fn judged_late(&mut self, run: &OpenRun, at: Millis) {
        if run.trigger == Trigger::Schedule
            && at.saturating_sub(run.due) > policy::DIRECT_MS_MAX
            && let Some(life) = self.jobs.get_mut(&run.job)
        {
            life.caught_up += 1;
        }
    }

    fn mark(&mut self, run: &OpenRun) {
        if run.trigger.is_scheduled()
            && let Some(life) = self.jobs.get_mut(&run.job)
        {
            life.marks.push(Mark { due: run.due, spare: run.trigger == Trigger::Restart });
        }
    }

    /// An executor is told to start an attempt. Returns the rule for other runs of the job.
    pub(crate) fn start(&mut self, start: &Start, now: Now, settled: bool) -> Result<Policy, Violation> {
        let Some(run) = self.open.get_mut(&start.run) else {
            return broken(
                "nothing starts before its promise is durable, or after its end is",
                format!("{} of {}, due {}", start.run, start.context.job_name, start.context.due),
            );
        };
        let first = !std::mem::replace(&mut run.started, true);
        let run = *run;
        let policy = self.job_of(&run).policy;
        if first {
            self.mark(&run);
            self.judged_late(&run, now.wall);
            let current = self.jobs.get(&run.job).map(|life| self.definitions[life.definition].policy);
            let late = now.wall.saturating_sub(run.due);
            // Those may wait, or stand behind one that waits since before an edit.
            let waits = self.jobs.get(&run.job).into_iter().flat_map(|life| &life.revisions).any(|no| {
                let Job { policy, body, schedules, .. } = &self.definitions[*no];
                !body.footprint.is_empty()
                    // Its first order may come long after a step that called a job.
                    || body.calls().next().is_some()
                    // Nothing passes a restart that waits for what it stops.
                    || schedules.iter().any(|entry| entry.action == ScheduleAction::Restart)
                    || policy.at_most_once
                    // What is caught up waits under `skip` too.
                    || !matches!(
                        (policy.overlap, policy.misfire),
                        (Overlap::Allow, _) | (Overlap::Skip, Misfire::Skip)
                    )
            });
            if run.trigger == Trigger::Schedule
                && !waits
                && settled
                && policy.misfire == Misfire::Skip
                && current.is_some_and(|current| current.misfire == Misfire::Skip)
                && late > 10_000
            {
                return broken(
                    "under misfire skip nothing starts more than 10 s late",
                    format!("{} of {}: {late} ms late", start.run, start.context.job_name),
                );
            }
            if run.trigger == Trigger::CatchUp
                && policy.overlap != Overlap::Allow
                && let Some(life) = self.jobs.get_mut(&run.job)
            {
                let before = life.caught_up_started.replace(run.due);
                if before.is_some_and(|before| before > run.due) && !life.twice {
                    return broken(
                        "a backlog is replayed oldest first",
                        format!("{}: {} after {before:?}", life.name, run.due),
                    );
                }
            }
        }
        Ok(policy)
    }

    /// Compares every due that had to be recorded by now. At the end nothing may be open that is due.
    pub(crate) fn check(
        &mut self,
        now: Millis,
        last: bool,
        waits: impl Fn(JobId) -> bool,
    ) -> Result<(), Violation> {
        let mut open_from: BTreeMap<JobId, Millis> = BTreeMap::new();
        for run in self.open.values().filter(|run| run.trigger.is_scheduled() && !run.started) {
            let first = open_from.entry(run.job).or_insert(run.due);
            *first = run.due.min(*first);
        }
        for (job, life) in &mut self.jobs {
            let mut to =
                if last { life.due_to(now, waits(*job)) } else { life.watermark.unwrap_or(Millis::MIN) };
            if let Some(first) = open_from.get(job) {
                to = to.min(first - 1);
            }
            let (dues, marks, spare, stretches) = life.take(to);
            self.dues += dues.len() as u64;
            let mut extra = Vec::new();
            let compared = sweep(&dues, &marks, &spare, &stretches, &mut extra);
            let name = &life.name;
            if life.twice {
                // Dues of a former life count again; what is left to see is that none is without a record.
                if let Err(Wrong::Lost(due)) = compared
                    && !stretches.iter().any(|stretch| (stretch.first..=stretch.last).contains(&due))
                {
                    return broken("every due has a run or a skip", format!("{name}: nothing of {due}"));
                }
                continue;
            }
            match compared {
                Ok(()) => {}
                Err(Wrong::Lost(due)) => {
                    return broken(
                        "every due has exactly one run or one skip",
                        format!("{name}: nothing is recorded of {due}\n  {stretches:?}"),
                    );
                }
                Err(Wrong::Twice(due)) => {
                    return broken(
                        "every due has exactly one run or one skip",
                        format!("{name}: two runs for {due}"),
                    );
                }
                Err(Wrong::Empty(stretch)) => {
                    return broken(
                        "every due has exactly one run or one skip",
                        format!("{name}: a skip counts more than there was: {stretch:?}"),
                    );
                }
            }
            if let Some(due) = extra.iter().find(|due| !life.is_fresh(**due)) {
                return broken(
                    "no run without a due or a trigger by hand",
                    format!("{name}: a run for {due}, which its schedule does not name"),
                );
            }
            if let Some(due) = spare.iter().find(|due| !life.restarts_at(**due)) {
                return broken(
                    "no run without a due or a trigger by hand",
                    format!("{name}: a restart at {due}, which its schedule does not name"),
                );
            }
            if !last {
                life.forget_edits(4);
            }
        }
        Ok(())
    }
}
