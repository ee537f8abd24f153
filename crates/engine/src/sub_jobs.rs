//! Runs that steps ask for: a step with `job` is carried out by runs of that job, not by an executor.
//!
//! The step's attempt is on while its runs are open, and ends as they end. Its runs join at the promise like all others. They
//! are named in the record of the step, in the batch that promises them, so that a restart finds what belongs together.
//!
//! No run waits for ever: jobs that call one another in a circle are refused; a run lends its slot to the runs it waits for;
//! and who holds something by a `footprint` calls nobody who may have to wait for one.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use cadran_core::{
    Body, CallRecord, Found, Items, JobCall, JobName, Millis, Now, Outcome, Report, ReportKind, RunId,
    RunStatus, StepNo, StepRecord, StepStatus, Work,
};
use cadran_flow::{Progress, StopWhy};
use rustc_hash::FxHashMap;

use crate::engine::{Engine, RunArguments};
use crate::json_text;
use crate::running::LiveRun;
use crate::timers::Timer;
use crate::variables::Variables;

/// Jobs that are looked at below one that holds something.
const JOBS_BELOW_MAX: usize = 1_000;

/// What a step hands to later steps at most, as for a command.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// The step that waits for a run.
#[derive(Clone, Copy, Debug)]
struct Caller {
    run: RunId,
    step: StepNo,
    attempt: u32,
}

/// Who waits for whom, and what steps are to be told of it.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    callers: FxHashMap<RunId, Caller>,
    /// Taken in after the event that caused them, one by one: a step that fails at once may be tried again at once.
    pub(crate) reports: VecDeque<Report>,
}

impl Calls {
    /// Whether a step waits for this run.
    pub(crate) fn has_caller(&self, run: RunId) -> bool {
        self.callers.contains_key(&run)
    }
}

/// What one step of a run has called, in its latest attempt.
#[derive(Clone, Debug)]
pub(crate) struct StepCalls {
    step: StepNo,
    attempt: u32,
    /// One for each item that was reached, in the order of their calls.
    calls: Vec<CallRecord>,
    /// What the items are; `None` when that was not looked at yet in this life of the server.
    items: Option<Arc<[String]>>,
    /// When its time limit is over, by the monotonic clock.
    limit_at: Option<Millis>,
    /// Why it fails, as the end of a sentence that begins with the step.
    failure: Option<Outcome>,
    /// No further item is called: one failed under `fail_fast`, or the step is to stop.
    is_closed: bool,
    /// Its end was told to the flow.
    is_over: bool,
}

impl StepCalls {
    fn new(step: StepNo, attempt: u32, calls: Vec<CallRecord>) -> StepCalls {
        let (items, limit_at, failure) = (None, None, None);
        StepCalls { step, attempt, calls, items, limit_at, failure, is_closed: false, is_over: false }
    }

    fn open(&self) -> Vec<RunId> {
        self.calls.iter().filter(|call| !call.status.is_ended()).map(|call| call.run).collect()
    }
}

/// How a called run ended.
pub(crate) struct CallEnd {
    status: RunStatus,
    message: Option<Box<str>>,
    output: Option<Box<str>>,
}

impl CallEnd {
    pub(crate) fn of(live: &LiveRun, status: RunStatus, message: Option<&str>) -> CallEnd {
        let outputs = live.progress.as_deref().map(Progress::outputs).unwrap_or_default();
        let output = (status == RunStatus::Succeeded).then(|| json_text::object(&outputs).into());
        CallEnd { status, message: message.map(Into::into), output }
    }
}

impl LiveRun {
    /// Takes the calls of its steps from its records.
    pub(crate) fn recall_calls(&mut self, records: &[StepRecord]) {
        for record in records.iter().filter(|record| !record.calls.is_empty()) {
            if let Some(step) = self.step_of(records, record) {
                self.calls.push(StepCalls::new(step, record.attempt, record.calls.clone()));
            }
        }
    }

    /// Adds to step records which runs they asked for.
    pub(crate) fn put_calls(&self, records: &mut [StepRecord]) {
        for of_step in &self.calls {
            let at = usize::from(of_step.step.0);
            let name = self.context.body.step(of_step.step).map(|step| step.name.as_str());
            let record = match at < self.context.body.steps.len() {
                true => records.get_mut(at),
                // Only handlers that were reached have a record.
                false => records.iter_mut().find(|record| Some(&*record.name) == name),
            };
            if let Some(record) = record {
                record.calls.clone_from(&of_step.calls);
            }
        }
    }

    /// Which step or handler a record is of.
    fn step_of(&self, records: &[StepRecord], wanted: &StepRecord) -> Option<StepNo> {
        let body = &self.context.body;
        let is_wanted = |no: &StepNo| body.step(*no).is_some_and(|step| *step.name == *wanted.name);
        let at = records.iter().position(|record| std::ptr::eq(record, wanted))?;
        let in_place = u16::try_from(at).ok().map(StepNo).filter(is_wanted);
        in_place.or_else(|| {
            cadran_core::Handler::ALL.map(|handler| body.handler_no(handler)).into_iter().find(is_wanted)
        })
    }

    fn calls_of(&mut self, step: StepNo) -> Option<&mut StepCalls> {
        self.calls.iter_mut().find(|known| known.step == step)
    }
}

/// The call of a step, when it is one.
pub(crate) fn call_of(body: &Body, step: StepNo) -> Option<&JobCall> {
    match &body.step(step)?.work {
        Work::Job(call) => Some(call),
        _ => None,
    }
}

impl Engine {
    /// An attempt of a step with `job` is to start.
    pub(crate) fn start_calls(&mut self, run: RunId, step: StepNo, attempt: u32, now: Now) {
        let Some(live) = self.runs.get_mut(run) else { return };
        let timeout_ms = live.context.body.step(step).and_then(|step| step.timeout_ms);
        let before = live.calls.iter().position(|known| known.step == step).map(|at| live.calls.remove(at));
        // What succeeded in an attempt before is not run again.
        let mut calls = before.map_or(Vec::new(), |before| before.calls);
        calls.retain(|call| call.status == RunStatus::Succeeded);
        let mut of_step = StepCalls::new(step, attempt, calls);
        if let Some(limit) = timeout_ms {
            let at = now.mono.saturating_add(limit);
            of_step.limit_at = Some(at);
            self.timers.start(at, Timer::Call(run, step, attempt));
        }
        live.calls.push(of_step);
        self.calls.reports.push_back(Report { run, step, attempt, at: now.wall, kind: ReportKind::Started });
        self.call_next(run, step, now);
    }

    /// Calls as many items as may be on at once. When nothing is left, the attempt is over.
    fn call_next(&mut self, run: RunId, step: StepNo, now: Now) {
        if self.stopping {
            // It goes on when the server is back.
            return;
        }
        let Some(items) = self.items_of(run, step) else { return };
        loop {
            let Some(live) = self.runs.get_mut(run) else { return };
            let each = live.context.body.step(step).and_then(|step| step.for_each.as_deref());
            let open_max = each.map_or(1, |each| usize::from(each.max_parallel.max(1)));
            let Some(of_step) = live.calls_of(step) else { return };
            let (attempt, open) = (of_step.attempt, of_step.open().len());
            let is_called = |index: &usize| of_step.calls.iter().any(|call| call.index as usize == *index);
            let next = (0..items.len()).find(|index| !is_called(index)).filter(|_| !of_step.is_closed);
            let Some(index) = next.filter(|_| open < open_max) else {
                if open == 0 {
                    self.end_calls(run, step, &items, now);
                }
                return;
            };
            match self.call(run, step, index, &items[index], now) {
                Ok(child) => {
                    self.calls.callers.insert(child, Caller { run, step, attempt });
                    let item = items[index].as_str().into();
                    let status = RunStatus::Promised;
                    let call = CallRecord { index: index as u32, run: child, item, status, output: None };
                    if let Some(of_step) = self.runs.get_mut(run).and_then(|live| live.calls_of(step)) {
                        of_step.calls.push(call);
                    }
                    self.commits.note_changed_shares(run);
                    let freed = self.place.lend_slot();
                    self.take_freed(freed, now);
                }
                Err(why) => {
                    let Some(of_step) = self.runs.get_mut(run).and_then(|live| live.calls_of(step)) else {
                        return;
                    };
                    of_step.failure.get_or_insert(Outcome::NotStarted(why.into()));
                    of_step.is_closed = true;
                }
            }
        }
    }

    /// The values of `for_each`; one without it. A step whose items cannot be known has failed.
    fn items_of(&mut self, run: RunId, step: StepNo) -> Option<Arc<[String]>> {
        let live = self.runs.get_mut(run)?;
        let of_step = live.calls.iter().find(|known| known.step == step)?;
        if let Some(items) = &of_step.items {
            return Some(items.clone());
        }
        // A run that was read back goes on once its flow does.
        let outputs = live.progress.as_deref().map(Progress::outputs)?;
        let definition = live.context.body.step(step)?;
        let items = match definition.for_each.as_deref() {
            None => Ok(vec![String::new()]),
            Some(each) => {
                let variables = Variables::of(&live.context, &run.to_string(), definition, &outputs);
                items(&each.items, &variables)
            }
        };
        let of_step = live.calls_of(step)?;
        let items: Arc<[String]> = match items {
            Ok(items) => items.into(),
            Err(why) => {
                of_step.failure = Some(Outcome::NotStarted(why.into()));
                of_step.is_closed = true;
                Arc::new([])
            }
        };
        // After a retry by hand the items may be others than they were.
        of_step.calls.retain(|call| items.get(call.index as usize).is_some_and(|item| **item == *call.item));
        of_step.items = Some(items.clone());
        Some(items)
    }

    /// Makes the run of one item. The error is the end of a sentence that begins with the step.
    fn call(
        &mut self,
        run: RunId,
        step: StepNo,
        index: usize,
        item: &str,
        now: Now,
    ) -> Result<RunId, String> {
        let Some(live) = self.runs.get(run) else { return Err("its run is over".into()) };
        let (context, depth) = (live.context.clone(), live.depth + 1);
        let outputs = live.progress.as_deref().map(Progress::outputs).unwrap_or_default();
        let (Some(definition), Some(call)) = (context.body.step(step), call_of(&context.body, step)) else {
            return Err("the step calls no job".into());
        };
        self.check_callers(run, &call.job)?;
        let mut variables = Variables::of(&context, &run.to_string(), definition, &outputs);
        if definition.for_each.is_some() {
            variables.put("ITEM", item.to_owned());
            variables.put("ITEM_INDEX", index.to_string());
        }
        let value = |(name, value): &(String, String)| (name.as_str().into(), variables.expand(value).into());
        let arguments =
            RunArguments { params: call.params.iter().map(value).collect(), addresses: Vec::new() };
        let made = self.trigger_below(&call.job, arguments, Some((run, depth)), now);
        made.map_err(|refusal| refusal.to_string())
    }

    /// No circle, and nobody waits for a footprint while holding one.
    fn check_callers(&self, run: RunId, job: &JobName) -> Result<(), String> {
        let (mut path, mut holder, mut at) = (vec![job.to_string()], None, Some(run));
        while let Some(live) = at.and_then(|run| self.runs.get(run)) {
            let name = &live.context.job_name;
            path.push(name.to_string());
            if name == job {
                path.reverse();
                return Err(format!("these jobs call one another: {}", path.join(" → ")));
            }
            if live.footprint.is_some() {
                holder.get_or_insert_with(|| name.clone());
            }
            at = at.and_then(|run| self.calls.callers.get(&run)).map(|caller| caller.run);
        }
        let Some(holder) = holder else { return Ok(()) };
        let (mut seen, mut open) = (BTreeSet::new(), vec![job.clone()]);
        while let Some(name) = open.pop() {
            if !seen.insert(name.clone()) || seen.len() > JOBS_BELOW_MAX {
                continue;
            }
            let Some(entry) = self.catalog.find(&name).and_then(|job| self.catalog.get(job)) else {
                continue;
            };
            let body = &entry.shape.body;
            if body.footprint.as_written().is_some() {
                return Err(format!(
                    "job {holder} holds what its footprint says while it waits, and job {name} has a footprint too: they \
                     could wait for each other; let only the jobs that are called have one"
                ));
            }
            open.extend(body.calls().cloned());
        }
        Ok(())
    }

    /// A run is over that a step waits for.
    pub(crate) fn end_call(&mut self, child: RunId, end: CallEnd, now: Now) {
        let Some(Caller { run, step, attempt }) = self.calls.callers.remove(&child) else { return };
        self.place.take_slot_back();
        let Some(live) = self.runs.get_mut(run) else { return };
        let definition = live.context.body.step(step);
        let fail_fast =
            definition.and_then(|step| step.for_each.as_deref()).is_some_and(|each| each.fail_fast);
        let keeps_output = definition.is_some_and(|step| step.output.is_some());
        let Some(of_step) = live.calls_of(step).filter(|known| known.attempt == attempt) else { return };
        let Some(call) = of_step.calls.iter_mut().find(|call| call.run == child) else { return };
        call.status = end.status;
        call.output = end.output.filter(|_| keeps_output);
        let was_closed = of_step.is_closed;
        if end.status != RunStatus::Succeeded {
            let failure = failure(child, end.status, end.message.as_deref());
            of_step.failure.get_or_insert(failure);
            of_step.is_closed |= fail_fast;
        }
        let others = if of_step.is_closed && !was_closed { of_step.open() } else { Vec::new() };
        self.commits.note_changed_shares(run);
        for other in others {
            self.stop_run(other, StopWhy::Asked, now);
        }
        self.call_next(run, step, now);
    }

    /// All runs of an attempt are over: the flow is told.
    fn end_calls(&mut self, run: RunId, step: StepNo, items: &[String], now: Now) {
        let Some(live) = self.runs.get_mut(run) else { return };
        let has_items = live.context.body.step(step).is_some_and(|step| step.for_each.is_some());
        let Some(of_step) = live.calls_of(step).filter(|known| !known.is_over) else { return };
        of_step.is_over = true;
        of_step.calls.sort_by_key(|call| call.index);
        let failed = of_step.calls.iter().filter(|call| call.status != RunStatus::Succeeded).count();
        let mut outcome = match &of_step.failure {
            None => Outcome::Exited(0),
            Some(Outcome::Reported(code, why)) if has_items => Outcome::Reported(
                *code,
                format!("{failed} of {} items failed; the first: {why}", items.len()).into(),
            ),
            Some(failure) => failure.clone(),
        };
        let outputs: Vec<&str> =
            of_step.calls.iter().map(|call| call.output.as_deref().unwrap_or("null")).collect();
        let mut output = if has_items { format!("[{}]", outputs.join(",")) } else { outputs.concat() };
        if output.len() > OUTPUT_BYTES_MAX && outcome == Outcome::Exited(0) {
            let why = format!("its results have more than {OUTPUT_BYTES_MAX} bytes");
            (outcome, output) = (Outcome::Reported(1, why.into()), String::new());
        }
        let (attempt, limit_at) = (of_step.attempt, of_step.limit_at.take());
        if let Some(at) = limit_at {
            self.timers.cancel(at, Timer::Call(run, step, attempt));
        }
        let output = (outcome == Outcome::Exited(0)).then(|| output.into());
        let kind = ReportKind::Ended { outcome, output };
        self.calls.reports.push_back(Report { run, step, attempt, at: now.wall, kind });
    }

    /// A step with `job` is to stop: its runs are stopped, and their ends end it.
    pub(crate) fn stop_calls(&mut self, run: RunId, step: StepNo, why: Outcome, now: Now) {
        let Some(of_step) = self.runs.get_mut(run).and_then(|live| live.calls_of(step)) else { return };
        of_step.is_closed = true;
        of_step.failure.get_or_insert(why);
        for child in of_step.open() {
            self.stop_run(child, StopWhy::Asked, now);
        }
        self.call_next(run, step, now);
    }

    /// The time limit of a step with `job` is over.
    pub(crate) fn calls_timed_out(&mut self, run: RunId, step: StepNo, attempt: u32, now: Now) {
        let of_step = self.runs.get_mut(run).and_then(|live| live.calls_of(step));
        if of_step.is_some_and(|known| known.attempt == attempt && !known.is_over) {
            self.stop_calls(run, step, Outcome::TimedOut, now);
        }
    }

    /// A run is over while it waits for others: they are stopped.
    pub(crate) fn drop_calls(&mut self, run: RunId, live: &LiveRun, now: Now) {
        for of_step in &live.calls {
            if let Some(at) = of_step.limit_at {
                self.timers.cancel(at, Timer::Call(run, of_step.step, of_step.attempt));
            }
            for child in of_step.open() {
                if self.calls.callers.remove(&child).is_some() {
                    self.place.take_slot_back();
                    self.stop_run(child, StopWhy::Asked, now);
                }
            }
        }
    }

    /// After a restart: which open runs are waited for by steps that are on. Those steps go on.
    pub(crate) fn restore_calls(&mut self) {
        for run in self.runs.filter(|live| live.past.is_some()) {
            let Some(live) = self.runs.get_mut(run) else { continue };
            let Some(mut past) = live.past.take() else { continue };
            let mut children = Vec::new();
            for record in &past.records {
                let was_on = record.status == StepStatus::Running
                    || record.attempt > 0 && record.ended_at.is_none() && record.status.is_ended();
                let step = live.step_of(&past.records, record);
                let Some(step) = step.filter(|step| was_on && call_of(&live.context.body, *step).is_some())
                else {
                    continue;
                };
                if past.mode != cadran_flow::Resume::Recover {
                    continue;
                }
                let attempt = record.attempt;
                let open = record.calls.iter().filter(|call| !call.status.is_ended());
                children.extend(open.map(|call| (call.run, Caller { run, step, attempt })));
                let started_at = record.started_at.or(live.started_at).unwrap_or_default();
                let (ended, output, seats) = (None, None, Vec::new());
                past.found.push(Found { run, step, attempt, started_at, ended, output, lives: true, seats });
            }
            live.past = Some(past);
            for (child, caller) in children {
                if self.runs.contains(child) {
                    self.calls.callers.insert(child, caller);
                    // Nobody waits yet.
                    let _ = self.place.lend_slot();
                } else if let Some(live) = self.runs.get_mut(run) {
                    // It cannot go on: see `Engine::restore_run`.
                    let calls = live.calls.iter_mut().flat_map(|known| &mut known.calls);
                    calls.filter(|call| call.run == child).for_each(|call| call.status = RunStatus::Lost);
                }
            }
        }
    }

    /// A run that was read back goes on: so do its calls.
    pub(crate) fn resume_calls(&mut self, run: RunId, now: Now) {
        let Some(live) = self.runs.get_mut(run) else { return };
        let on: Vec<(StepNo, u32)> = live.progress.iter().flat_map(|progress| progress.live()).collect();
        for (step, attempt) in on {
            let Some(live) = self.runs.get_mut(run) else { return };
            let Some(definition) = live.context.body.step(step) else { continue };
            if !matches!(definition.work, Work::Job(_)) {
                continue;
            }
            let timeout_ms = definition.timeout_ms;
            if live.calls_of(step).is_none() {
                live.calls.push(StepCalls::new(step, attempt, Vec::new()));
            }
            let Some(of_step) = live.calls_of(step).filter(|known| known.limit_at.is_none()) else {
                continue;
            };
            of_step.attempt = attempt;
            let lost = of_step.calls.iter().find(|call| call.status == RunStatus::Lost).map(|call| call.run);
            if let Some(child) = lost {
                of_step.failure.get_or_insert(failure(child, RunStatus::Lost, None));
            }
            if let Some(limit) = timeout_ms {
                let at = now.mono.saturating_add(limit);
                of_step.limit_at = Some(at);
                self.timers.start(at, Timer::Call(run, step, attempt));
            }
            self.call_next(run, step, now);
        }
    }
}

/// What the end of a called run means for its step.
fn failure(child: RunId, status: RunStatus, message: Option<&str>) -> Outcome {
    let what = match status {
        RunStatus::Stopped => return Outcome::Halted(format!("run {child} was stopped").into()),
        RunStatus::Skipped => "was skipped",
        RunStatus::Lost => "was lost",
        _ => "failed",
    };
    let why = message.map(|message| format!(": {message}")).unwrap_or_default();
    Outcome::Reported(1, format!("run {child} {what}{why}").into())
}

/// The values of `for_each`.
fn items(items: &Items, variables: &Variables) -> Result<Vec<String>, String> {
    const MAX: usize = Items::MAX;
    let found = match items {
        Items::List(list) => list.iter().map(|item| variables.expand(item)).collect(),
        Items::Range { from, to, step } => {
            let step = (*step).max(1);
            (0..MAX as i64 + 1)
                .map_while(|at| from.checked_add(at * step))
                .take_while(|at| at <= to)
                .map(|at| at.to_string())
                .collect()
        }
        Items::Text(text) => {
            let text = variables.expand(text);
            let text = text.trim();
            if text.starts_with('[') {
                json_text::list(text, MAX).map_err(|why| format!("`for_each` has no items: {why}"))?
            } else {
                text.lines()
                    .map(str::trim)
                    .filter(|line| !line.is_empty())
                    .take(MAX + 1)
                    .map(str::to_owned)
                    .collect()
            }
        }
    };
    if found.len() > MAX {
        return Err(format!("`for_each` has more than {MAX} items"));
    }
    if let Some(long) = found.iter().find(|item: &&String| item.len() > Items::BYTES_MAX) {
        let begin: String = long.chars().take(40).collect();
        return Err(format!("an item of `for_each` has more than {} bytes: {begin}…", Items::BYTES_MAX));
    }
    Ok(found)
}
