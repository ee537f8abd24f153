//! What people and programs ask for.

use std::collections::BTreeSet;

use cadran_core::footprint::{KEY_BYTES_MAX, key_params};
use cadran_core::{
    Body, Command, IdempotencyKey, JobId, JobName, Now, Refusal, Reply, RunId, RunStatus, RunUpdate,
    SkipReason, Trigger, TriggerKey,
};
use cadran_flow::{Resume, StopWhy};
use cadran_plan::Plan;

use crate::effects::Token;
use crate::engine::{Engine, RunArguments};
use crate::restore::RestoredRun;
use crate::running::LiveRun;
use crate::shares::ask_again;
use crate::timers::RingItem;

/// How many runs may stand above one another: a job that triggers itself comes to an end.
const DEPTH_MAX: u32 = 16;

/// Runs of one job that may be open at once by hand: a loop around `cadran trigger` fills a page, not the memory.
const OPEN_PER_JOB_MAX: usize = 1_000;

/// Values of all parameters of one run, in bytes: they become its environment.
const PARAMS_BYTES_MAX: usize = 64 * 1024;

impl Engine {
    pub(crate) fn command(&mut self, token: Token, command: Command, now: Now) {
        if self.stopping {
            self.effects
                .replies
                .push((token, Err(Refusal::Busy("the server is stopping; try again when it is back"))));
            return;
        }
        let answer = match command {
            Command::Trigger { job, params, addresses, parent, key } => {
                self.trigger_once(&job, RunArguments { params, addresses }, parent, key, now).map(Reply::Run)
            }
            Command::Pause { job } => self.pause(&job, now),
            Command::Resume { job } => self.resume(&job, now),
            Command::Stop { run } => self.stop(run, now),
            Command::StopShare { run, share } => self.stop_share(run, share),
            Command::Retry { run } if self.runs.contains(run) => {
                Err(Refusal::NotRetryable(run, "it is not over yet"))
            }
            Command::RetryShare { run, .. } if self.runs.contains(run) => {
                Err(Refusal::NotRetryable(run, "it is not over yet; a share is repeated behind its end"))
            }
            Command::Retry { run } => return self.effects.recalls.push((token, run, None)),
            Command::RetryShare { run, share } => {
                return self.effects.recalls.push((token, run, Some(share)));
            }
        };
        match answer {
            Ok(reply) => self.commits.hold_reply(token, Ok(reply)),
            Err(refusal) => self.effects.replies.push((token, Err(refusal))),
        }
    }

    fn job(&self, name: &JobName) -> Result<JobId, Refusal> {
        self.catalog.find(name).ok_or_else(|| Refusal::NoSuchJob(name.clone()))
    }

    /// The run of this key, when there is one; else a new run. An answer about a run whose promise is still on its way
    /// waits for that, as every answer does.
    fn trigger_once(
        &mut self,
        name: &JobName,
        arguments: RunArguments,
        parent: Option<RunId>,
        key: Option<IdempotencyKey>,
        now: Now,
    ) -> Result<RunId, Refusal> {
        let known = match key {
            Some(key) => self.trigger_keys.find(key, now.wall)?,
            None => None,
        };
        if let Some(run) = known {
            return Ok(run);
        }
        let run = self.trigger(name, arguments, parent, now)?;
        if let Some(key) = key {
            let key = TriggerKey { key, run, at: now.wall };
            self.trigger_keys.insert(key);
            self.effects.batch.trigger_keys.push(key);
        }
        Ok(run)
    }

    fn trigger(
        &mut self,
        name: &JobName,
        arguments: RunArguments,
        parent: Option<RunId>,
        now: Now,
    ) -> Result<RunId, Refusal> {
        let parent = parent.map(|run| (run, self.runs.depth(run) + 1));
        self.trigger_below(name, arguments, parent, now)
    }

    pub(crate) fn trigger_below(
        &mut self,
        name: &JobName,
        arguments: RunArguments,
        parent: Option<(RunId, u32)>,
        now: Now,
    ) -> Result<RunId, Refusal> {
        let job = self.job(name)?;
        if parent.is_some_and(|(_, depth)| depth > DEPTH_MAX) {
            return Err(Refusal::Limit(format!(
                "{DEPTH_MAX} runs stand above this one already: a job that triggers itself is stopped here"
            )));
        }
        let open = self.jobs.triggered_count(job);
        if open >= OPEN_PER_JOB_MAX {
            return Err(Refusal::Limit(format!(
                "{open} runs of job {name} that were asked for are open already; wait for some to end, or stop them"
            )));
        }
        if let Some(entry) = self.catalog.get(job) {
            check_params(name, &entry.shape.body, &arguments.params)?;
            self.routing.check_addresses(name, &entry.shape.body, &arguments.addresses)?;
        }
        let trigger = if parent.is_some() { Trigger::Child } else { Trigger::Manual };
        self.promise(job, now.wall, trigger, arguments, parent, now)
            .ok_or_else(|| Refusal::NoSuchJob(name.clone()))
    }

    /// Runs the children of a run that succeeded, in the batch that records the success. The answer says which could
    /// not be run.
    pub(crate) fn trigger_children(&mut self, run: RunId, live: &LiveRun, now: Now) -> Option<Box<str>> {
        let body = live.context.body.clone();
        let mut refused = Vec::new();
        for child in &body.children {
            let parent = (run, live.depth + 1);
            let done = match self.stopping {
                true => Err(Refusal::Busy("the server is stopping")),
                false => self.trigger_below(child, RunArguments::default(), Some(parent), now),
            };
            if let Err(refusal) = done {
                refused.push(format!("child {child} was not run: {refusal}"));
            }
        }
        (!refused.is_empty()).then(|| refused.join("; ").into())
    }

    fn pause(&mut self, name: &JobName, now: Now) -> Result<Reply, Refusal> {
        let job = self.job(name)?;
        if !self.planner.pause(job, now.wall) {
            return Ok(Reply::Already);
        }
        self.effects.batch.states.push(self.planner.state(job));
        self.skip_unstarted(&BTreeSet::from([job]), SkipReason::Paused, now);
        self.park_waiting(job, now);
        Ok(Reply::Done)
    }

    fn resume(&mut self, name: &JobName, now: Now) -> Result<Reply, Refusal> {
        let job = self.job(name)?;
        let mut plan = Plan::default();
        if !self.planner.resume(job, now.wall, &mut plan) {
            return Ok(Reply::Already);
        }
        if !self.jobs.has_backlog_run(job) {
            self.planner.backlog_next(job, now.wall, &mut plan);
        }
        self.apply_plan(plan, now);
        for run in self.jobs.unpark(job) {
            self.timers.ring.push(now.wall, RingItem::Run(run));
        }
        self.timers.tick_now(now);
        Ok(Reply::Done)
    }

    fn stop(&mut self, run: RunId, now: Now) -> Result<Reply, Refusal> {
        if !self.runs.contains(run) {
            return Err(Refusal::NoSuchRun(run));
        }
        self.stop_run(run, StopWhy::Asked, now);
        Ok(Reply::Run(run))
    }

    /// The run that a retry asked for, read back from the store.
    pub(crate) fn retry_recalled(&mut self, token: Token, mut restored: RestoredRun, share: Option<u32>) {
        let run = restored.record.promise.run;
        let status = restored.record.state.status;
        let refusal = match status {
            _ if self.runs.contains(run) => Some("it is not over yet"),
            RunStatus::Succeeded => Some("it succeeded; trigger the job to run it again"),
            RunStatus::PartiallySucceeded => {
                Some("its failures were forgiven; trigger the job to run it again")
            }
            RunStatus::Skipped => Some("it was skipped; trigger the job to run it"),
            // Its end is on its way to the store, so that the row still tells of the time before.
            status if !status.is_ended() => Some("it is not over yet"),
            _ => None,
        };
        if let Some(why) = refusal {
            self.effects.replies.push((token, Err(Refusal::NotRetryable(run, why))));
            return;
        }
        let steps = match ask_again(run, restored.record.state.steps.as_deref_mut(), share) {
            Ok(true) => restored.record.state.steps.clone(),
            Ok(false) => None,
            Err(refusal) => return self.effects.replies.push((token, Err(refusal))),
        };
        if !self.reopen(restored, Vec::new(), Resume::Retry) {
            self.effects
                .replies
                .push((token, Err(Refusal::NotRetryable(run, "its job is not known any more"))));
            return;
        }
        if let Some(live) = self.runs.get_mut(run) {
            live.status = RunStatus::Waiting;
            live.retried = Some(status);
            // One that was stopped before it started counts that as its first attempt: a row that waits and has one is
            // known as a retry after a restart.
            live.attempt = live.attempt.max(1);
            let update = RunUpdate { steps, ..live.update(run) };
            self.effects.batch.runs.push(update);
        }
        self.commits.hold_run(run);
        self.commits.hold_reply(token, Ok(Reply::Run(run)));
    }
}

/// Only declared parameters are taken: nobody sets `PATH` of someone else's job.
fn check_params(job: &JobName, body: &Body, params: &[(Box<str>, Box<str>)]) -> Result<(), Refusal> {
    let bytes: usize = params.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > PARAMS_BYTES_MAX {
        return Err(Refusal::Params(format!(
            "the parameters of a run have at most {PARAMS_BYTES_MAX} bytes together; these have {bytes}"
        )));
    }
    let positional = body.params.iter().filter(|param| param.name.is_none()).count();
    for (name, value) in params {
        let known = match name.parse::<usize>() {
            Ok(position) => (1..=positional).contains(&position),
            Err(_) => body.params.iter().any(|param| param.name.as_deref() == Some(name)),
        };
        if !known {
            let names: Vec<&str> = body.params.iter().filter_map(|param| param.name.as_deref()).collect();
            let takes = match (names.is_empty(), positional) {
                (true, 0) => "it takes none".to_owned(),
                (true, count) => format!("it takes {count} by position"),
                (false, 0) => format!("it takes {}", names.join(", ")),
                (false, count) => format!("it takes {} and {count} by position", names.join(", ")),
            };
            return Err(Refusal::Params(format!("job {job} has no parameter {name:?}; {takes}")));
        }
        let in_key = |(key, _): (&str, _)| key_params(key).iter().any(|used| **used == **name);
        if value.len() > KEY_BYTES_MAX && body.footprint.keys().any(in_key) {
            return Err(Refusal::Params(format!(
                "the value of parameter {name:?} is part of a key of the footprint and has at most {KEY_BYTES_MAX} bytes"
            )));
        }
        if value.contains('\0') {
            return Err(Refusal::Params(format!("the value of parameter {name:?} contains a NUL character")));
        }
    }
    for param in body.params.iter().filter(|param| param.required) {
        if let Some(name) = &param.name
            && !params.iter().any(|(given, _)| **given == **name)
        {
            return Err(Refusal::Params(format!("job {job} needs a value for parameter {name:?}")));
        }
    }
    Ok(())
}
