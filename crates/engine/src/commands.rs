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
use crate::engine::{Engine, Fire, Given};
use crate::restore::RestoredRun;
use crate::running::LiveRun;
use crate::shares::ask_again;

/// How many runs may stand above one another: a job that triggers itself comes to an end.
const DEPTH_MAX: u32 = 16;

/// Ended runs whose depth is remembered: a run that asks for another is seldom over for long.
const DEPTHS_MAX: usize = 4_096;

/// Runs of one job that may be open at once by hand: a loop around `cadran trigger` fills a page, not the memory.
const OPEN_PER_JOB_MAX: usize = 1_000;

/// Values of all parameters of one run, in bytes: they become its environment.
const PARAMS_BYTES_MAX: usize = 64 * 1024;

impl Engine {
    pub(crate) fn command(&mut self, token: Token, command: Command, now: Now) {
        if self.stopping {
            self.out
                .replies
                .push((token, Err(Refusal::Busy("the server is stopping; try again when it is back"))));
            return;
        }
        let answer = match command {
            Command::Trigger { job, params, addresses, parent, key } => {
                self.trigger_once(&job, Given { params, addresses }, parent, key, now).map(Reply::Run)
            }
            Command::Pause { job } => self.pause(&job, now),
            Command::Resume { job } => self.resume(&job, now),
            Command::Stop { run } => self.stop(run, now),
            Command::StopShare { run, share } => self.stop_share(run, share),
            Command::Retry { run } if self.runs.contains_key(&run) => {
                Err(Refusal::NotRetryable(run, "it is not over yet"))
            }
            Command::RetryShare { run, .. } if self.runs.contains_key(&run) => {
                Err(Refusal::NotRetryable(run, "it is not over yet; a share is repeated behind its end"))
            }
            Command::Retry { run } => return self.out.recalls.push((token, run, None)),
            Command::RetryShare { run, share } => return self.out.recalls.push((token, run, Some(share))),
        };
        match answer {
            Ok(reply) => self.hold_reply(token, Ok(reply)),
            Err(refusal) => self.out.replies.push((token, Err(refusal))),
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
        given: Given,
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
        let run = self.trigger(name, given, parent, now)?;
        if let Some(key) = key {
            let key = TriggerKey { key, run, at: now.wall };
            self.trigger_keys.insert(key);
            self.out.batch.trigger_keys.push(key);
        }
        Ok(run)
    }

    fn trigger(
        &mut self,
        name: &JobName,
        given: Given,
        parent: Option<RunId>,
        now: Now,
    ) -> Result<RunId, Refusal> {
        let parent = parent.map(|run| (run, self.depth_of(run) + 1));
        self.trigger_below(name, given, parent, now)
    }

    fn trigger_below(
        &mut self,
        name: &JobName,
        given: Given,
        parent: Option<(RunId, u32)>,
        now: Now,
    ) -> Result<RunId, Refusal> {
        let job = self.job(name)?;
        if parent.is_some_and(|(_, depth)| depth > DEPTH_MAX) {
            return Err(Refusal::Limit(format!(
                "{DEPTH_MAX} runs stand above this one already: a job that triggers itself is stopped here"
            )));
        }
        let open = self.by_hand.get(&job).copied().unwrap_or_default();
        if open >= OPEN_PER_JOB_MAX {
            return Err(Refusal::Limit(format!(
                "{open} runs of job {name} that were asked for are open already; wait for some to end, or stop them"
            )));
        }
        if let Some(entry) = self.catalog.get(job) {
            check_params(name, &entry.shape.body, &given.params)?;
            self.check_addresses(name, &entry.shape.body, &given.addresses)?;
        }
        let trigger = if parent.is_some() { Trigger::Child } else { Trigger::Manual };
        self.promise(job, now.wall, trigger, given, parent, now)
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
                false => self.trigger_below(child, Given::default(), Some(parent), now),
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
        self.out.batch.states.push(self.planner.state(job));
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
        if !self.backlog_runs.contains_key(&job) {
            self.planner.backlog_next(job, now.wall, &mut plan);
        }
        self.carry_out(plan, now);
        for run in self.parked.remove(&job).unwrap_or_default() {
            self.ring.push(now.wall, Fire::Run(run));
        }
        self.next_tick = self.next_tick.min(now.wall);
        Ok(Reply::Done)
    }

    fn stop(&mut self, run: RunId, now: Now) -> Result<Reply, Refusal> {
        if !self.runs.contains_key(&run) {
            return Err(Refusal::NoSuchRun(run));
        }
        self.stop_run(run, StopWhy::Asked, now);
        Ok(Reply::Run(run))
    }

    /// The run that a retry asked for, read back from the store.
    pub(crate) fn recalled(&mut self, token: Token, mut restored: RestoredRun, share: Option<u32>) {
        let run = restored.record.promise.run;
        let status = restored.record.state.status;
        let refusal = match status {
            _ if self.runs.contains_key(&run) => Some("it is not over yet"),
            RunStatus::Succeeded => Some("it succeeded; trigger the job to run it again"),
            RunStatus::Skipped => Some("it was skipped; trigger the job to run it"),
            // Its end is on its way to the store, so that the row still tells of the time before.
            status if !status.is_ended() => Some("it is not over yet"),
            _ => None,
        };
        if let Some(why) = refusal {
            self.out.replies.push((token, Err(Refusal::NotRetryable(run, why))));
            return;
        }
        let steps = match ask_again(run, restored.record.state.steps.as_deref_mut(), share) {
            Ok(true) => restored.record.state.steps.clone(),
            Ok(false) => None,
            Err(refusal) => return self.out.replies.push((token, Err(refusal))),
        };
        if !self.reopen(restored, Vec::new(), Resume::Retry) {
            self.out.replies.push((token, Err(Refusal::NotRetryable(run, "its job is not known any more"))));
            return;
        }
        if let Some(live) = self.runs.get_mut(&run) {
            live.status = RunStatus::Waiting;
            live.retried = Some(status);
            // One that was stopped before it started counts that as its first attempt: a row that waits and has one is
            // known as a retry after a restart.
            live.attempt = live.attempt.max(1);
            let update = RunUpdate { steps, ..live.update(run) };
            self.out.batch.runs.push(update);
        }
        self.hold_run(run);
        self.hold_reply(token, Ok(Reply::Run(run)));
    }

    /// How many runs stand above a run that is open, or ended a while ago.
    fn depth_of(&self, run: RunId) -> u32 {
        let open = self.runs.get(&run).map(|live| live.depth);
        open.or_else(|| self.depths.get(&run).copied()).unwrap_or_default()
    }

    /// Remembers how deep an ended run stood: its processes may still ask for another.
    pub(crate) fn remember_depth(&mut self, run: RunId, depth: u32) {
        if depth > 0 {
            self.depths.insert(run, depth);
            if self.depths.len() > DEPTHS_MAX {
                self.depths.pop_first();
            }
        }
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
