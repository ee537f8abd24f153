//! Live runs: started, reported on, stopped, ended.

use std::sync::Arc;

use cadran_core::{
    Footprint, Found, Millis, Now, Order, Outcome, Policy, Report, ReportKind, RunContext, RunId, RunStatus,
    RunUpdate, SkipReason, Start, StepRecord,
};
use cadran_flow::{Accepted, Next, Progress, Resume, StopWhy};

use crate::engine::Engine;
use crate::shares::SeatsOf;
use crate::sub_jobs::{CallEnd, StepCalls, call_of};
use crate::timers::{RingItem, Timer};

/// A run that is promised, waits or runs.
#[derive(Debug)]
pub(crate) struct LiveRun {
    pub(crate) context: Arc<RunContext>,
    pub(crate) policy: Policy,
    /// What it touches.
    pub(crate) footprint: Option<Arc<Footprint>>,
    /// Since when it waits, or holds what it touches, by the wall clock.
    pub(crate) since: Option<Millis>,
    pub(crate) status: RunStatus,
    /// How many times the run was started.
    pub(crate) attempt: u32,
    /// How many runs stand above it.
    pub(crate) depth: u32,
    pub(crate) started_at: Option<Millis>,
    /// Its misfire policy was asked already: it is caught up, or waited in time before a restart.
    pub(crate) lateness_judged: bool,
    /// Whether it is on record as running, since it was last opened.
    pub(crate) announced: bool,
    /// Whether an order for it has left.
    pub(crate) ordered: bool,
    /// How it had ended, when it was opened again by a retry.
    pub(crate) retried: Option<RunStatus>,
    /// When its time limit is over, by the monotonic clock.
    pub(crate) limit_at: Option<Millis>,
    /// Only once it has started: most runs that are open are promised, and wait for their instant.
    pub(crate) progress: Option<Box<Progress>>,
    /// What executors of groups have of it.
    pub(crate) seats: SeatsOf,
    /// What its steps have called.
    pub(crate) calls: Vec<StepCalls>,
    /// What to go on with, for a run that was read back.
    pub(crate) past: Option<Box<Past>>,
}

/// What a run did before it was read back.
#[derive(Debug)]
pub(crate) struct Past {
    pub(crate) records: Vec<StepRecord>,
    pub(crate) found: Vec<Found>,
    pub(crate) mode: Resume,
}

impl Past {
    /// An attempt that was found alive has told its end; false when it is none of these.
    fn take(&mut self, report: Report) -> bool {
        let is_it =
            |found: &&mut Found| found.lives && found.step == report.step && found.attempt == report.attempt;
        let Some(found) = self.found.iter_mut().find(is_it) else { return false };
        if let ReportKind::Ended { outcome, output } = report.kind {
            (found.ended, found.output, found.lives) = (Some((report.at, outcome)), output, false);
        }
        true
    }

    /// When the first attempt of this opening began, as executors know: they forget a run when it is over, so after a
    /// retry they know nothing of the time before.
    fn began(&self) -> Option<Millis> {
        let found = self.found.iter().map(|found| found.started_at);
        found.min().filter(|_| self.mode == Resume::Recover)
    }
}

impl LiveRun {
    pub(crate) fn promised(
        context: Arc<RunContext>,
        policy: Policy,
        footprint: Option<Arc<Footprint>>,
        depth: u32,
    ) -> LiveRun {
        LiveRun {
            context,
            policy,
            footprint,
            since: None,
            status: RunStatus::Promised,
            attempt: 0,
            depth,
            started_at: None,
            lateness_judged: false,
            announced: false,
            ordered: false,
            retried: None,
            limit_at: None,
            progress: None,
            seats: Vec::new(),
            calls: Vec::new(),
            past: None,
        }
    }

    /// Whether it answers a due and never started, nor was asked for by anybody.
    pub(crate) fn is_unstarted_due(&self) -> bool {
        self.context.trigger.is_scheduled()
            && self.progress.is_none()
            && self.past.is_none()
            && self.retried.is_none()
    }

    /// The row as it stands, steps left as they are recorded.
    pub(crate) fn update(&self, run: RunId) -> RunUpdate {
        let (status, attempt, started_at) = (self.status, self.attempt, self.started_at);
        RunUpdate { status, attempt, started_at, ..RunUpdate::promised(run) }
    }

    pub(crate) fn steps(&self) -> Option<Vec<StepRecord>> {
        let mut records = self.with_seats(self.progress.as_ref()?.records(&self.context.body));
        self.put_calls(&mut records);
        Some(records)
    }
}

impl Engine {
    /// Starts what was admitted, in order and so many at once. Ends and releases that follow at once are part of it.
    pub(crate) fn start_admitted(&mut self, now: Now) {
        while let Some(run) = self.runs.starts.pop() {
            if !self.stopping {
                self.runs.starts.count_start();
                self.start_run(run, now);
            }
        }
    }

    fn start_run(&mut self, run: RunId, now: Now) {
        let Some(live) = self.runs.get_mut(run) else { return };
        if live.is_unstarted_due() && self.catalog.is_removed(live.context.job) {
            return self.skip_run(run, SkipReason::Removed, now);
        }
        let mut next = Vec::new();
        let body = &live.context.body;
        let once = live.policy.at_most_once;
        live.status = RunStatus::Running;
        live.since = live.started_at.or(Some(now.wall));
        // An attempt that goes on elsewhere may have started without being on record.
        let goes_on = live.past.iter().flat_map(|past| &past.found).any(|found| found.lives);
        let began = live.past.iter().filter_map(|past| past.began()).next();
        let is_recovered = live.past.as_ref().is_some_and(|past| past.mode == Resume::Recover);
        let progress = match live.past.take() {
            None => Progress::begin(body, once, &mut next),
            Some(past) => Progress::resume(body, &past.records, &past.found, past.mode, once, now, &mut next),
        };
        live.progress = Some(Box::new(progress));
        // What went on while the server was away was not started again.
        let starts_again = |next: &Next| matches!(next, Next::Start { attempt, .. } if *attempt > 1);
        if live.attempt == 0 || !is_recovered || next.iter().any(starts_again) {
            live.attempt += 1;
        }
        if let Some(limit) = body.timeout_ms {
            // What passed while the server was away counts, by the wall clock: there is no other one for that.
            let spent = began.map_or(0, |began| now.wall.saturating_sub(began).clamp(0, limit));
            let at = now.mono.saturating_add(limit - spent);
            live.limit_at = Some(at);
            self.timers.start(at, Timer::Limit(run, live.attempt));
        }
        if once || goes_on {
            // At most once: the start is on record before the order leaves.
            live.started_at = live.started_at.or(Some(now.wall));
            let update = RunUpdate { steps: live.steps(), ..live.update(run) };
            self.effects.batch.runs.push(update);
        }
        self.apply(run, next, now);
        if goes_on {
            self.stop_shares_again(run);
            self.resume_calls(run, now);
        }
    }

    pub(crate) fn report(&mut self, mut report: Report, now: Now) {
        let run = report.run;
        let Some(live) = self.runs.get_mut(run) else {
            self.effects.stale_reports += 1;
            return;
        };
        let Some(progress) = live.progress.as_mut() else {
            // A run that was read back and has not been taken up yet goes on from what was found, and from this.
            if !live.past.as_mut().is_some_and(|past| past.take(report)) {
                self.effects.stale_reports += 1;
            }
            return;
        };
        if self.stopping
            && matches!(&report.kind, ReportKind::Ended { outcome: Outcome::Stopped | Outcome::Lost, .. })
        {
            // Cut off by our own stop: the run stays open and goes on when the server is back.
            return;
        }
        if let ReportKind::Seat(seat) = report.kind {
            let (step, attempt) = (report.step, report.attempt);
            if progress.live().any(|live| live == (step, attempt)) {
                if seat.total > 1 {
                    // Whoever looks at a broadcast wants to see its shares one by one.
                    self.commits.note_changed_shares(run);
                }
                live.take_seat(step, *seat);
            }
            return;
        }
        if let ReportKind::Ended { outcome, .. } = &mut report.kind
            && *outcome == Outcome::Exited(0)
            && live.is_broadcast()
        {
            *outcome = live.with_other_shares(report.step, report.attempt, Outcome::Exited(0));
        }
        let Some(progress) = live.progress.as_mut() else { return };
        let mut next = Vec::new();
        if progress.report(&live.context.body, &report, now, &mut next) != Accepted::Yes {
            self.effects.stale_reports += 1;
            return;
        }
        let first = !live.announced;
        live.announced = true;
        if report.kind == ReportKind::Started {
            live.started_at = live.started_at.or(Some(report.at));
            live.mark_taken(report.step);
        }
        let ends = next.iter().any(|next| matches!(next, Next::End { .. }));
        let single = live.context.body.steps.len() == 1;
        // The end writes the whole row; between, only what a person would miss after a crash.
        let calls = !live.calls.is_empty();
        if !ends && (first || !single || calls || report.kind != ReportKind::Started) {
            let job = live.context.job;
            if live.seats.is_empty() && !calls {
                // A first attempt of an only step says no more than the row itself does.
                let plain =
                    single && live.attempt == 1 && report.attempt == 1 && report.kind == ReportKind::Started;
                let steps = if plain { None } else { live.steps() };
                let update = RunUpdate { steps, ..live.update(run) };
                self.effects.batch.runs.push(update);
            } else {
                // Written behind what follows from the report, so that the row names the executors of the next attempt.
                self.commits.note_changed_shares(run);
            }
            if first {
                self.note_change(run, job, RunStatus::Running, None);
            }
        }
        self.apply(run, next, now);
    }

    /// Writes what became of shares since the last batch, once for each run.
    pub(crate) fn record_shares(&mut self) {
        for run in self.commits.take_changed_shares() {
            // One that ended meanwhile has them in its last row.
            if let Some(live) = self.runs.get(run).filter(|live| live.announced) {
                let update = RunUpdate { steps: live.steps(), ..live.update(run) };
                self.effects.batch.runs.push(update);
            }
        }
    }

    /// Carries out what the flow of a run wants.
    fn apply(&mut self, run: RunId, next: Vec<Next>, now: Now) {
        for next in next {
            let Some(live) = self.runs.get(run) else { return };
            match next {
                Next::Start { step, attempt } => {
                    if self.stopping {
                        continue;
                    }
                    if call_of(&live.context.body, step).is_some() {
                        self.start_calls(run, step, attempt, now);
                        continue;
                    }
                    let placement = self.place_attempt(run, step, attempt, now);
                    if placement.is_some() {
                        self.note_ordered(run, step, attempt, now);
                    }
                    let Some(live) = self.runs.get(run) else { return };
                    let body = &live.context.body;
                    let outputs =
                        live.progress.as_deref().map(|flow| flow.outputs_for(body, step)).unwrap_or_default();
                    let once = live.policy.at_most_once;
                    let context = live.context.clone();
                    let order = Order::Start(Start { run, step, attempt, context, outputs, placement });
                    if once {
                        let update = RunUpdate { steps: live.steps(), ..live.update(run) };
                        self.effects.batch.runs.push(update);
                        self.commits.hold_order(order);
                    } else {
                        self.effects.orders.push(order);
                    }
                }
                Next::RetryAt { step, at_mono } => {
                    self.timers.start(at_mono, Timer::Retry(run, live.attempt, step));
                }
                Next::Stop { step, .. } if call_of(&live.context.body, step).is_some() => {
                    self.stop_calls(run, step, Outcome::Halted("stopped".into()), now);
                }
                Next::Stop { step, attempt } => self.effects.orders.push(Order::Stop { run, step, attempt }),
                Next::End { status, message } => {
                    let skip = (status == RunStatus::Skipped).then_some(SkipReason::Precondition);
                    self.end_run(run, status, skip, message, now);
                }
            }
        }
    }

    pub(crate) fn timer(&mut self, timer: Timer, now: Now) {
        match timer {
            Timer::Retry(run, attempt, step) => {
                let Some(live) = self.runs.get_mut(run).filter(|live| live.attempt == attempt) else {
                    return;
                };
                let mut next = Vec::new();
                if let Some(progress) = live.progress.as_mut() {
                    progress.retry_due(&live.context.body, step, &mut next);
                }
                self.apply(run, next, now);
            }
            Timer::Call(run, step, attempt) => self.calls_timed_out(run, step, attempt, now),
            Timer::Limit(run, attempt) => {
                if self.runs.get(run).is_some_and(|live| live.attempt == attempt) {
                    self.stop_run(run, StopWhy::TimedOut, now);
                }
            }
        }
    }

    /// Stops a run wherever it stands. One that did not start yet is over at once.
    pub(crate) fn stop_run(&mut self, run: RunId, why: StopWhy, now: Now) {
        let Some(live) = self.runs.get_mut(run) else { return };
        let Some(progress) = live.progress.as_mut() else {
            let message = Some("stopped before it started".into());
            return self.end_run(run, RunStatus::Stopped, None, message, now);
        };
        let mut next = Vec::new();
        progress.stop(&live.context.body, why, now, &mut next);
        let stops = !next.is_empty();
        self.apply(run, next, now);
        if let Some(live) = self.runs.get(run).filter(|_| stops) {
            // A server that goes away now shall go on stopping it, not start it again.
            let update = RunUpdate { steps: live.steps(), ..live.update(run) };
            self.effects.batch.runs.push(update);
        }
    }

    /// The end of a run, whichever way it came: recorded, its place given to the next, its backlog going on.
    pub(crate) fn end_run(
        &mut self,
        run: RunId,
        status: RunStatus,
        skip: Option<SkipReason>,
        message: Option<Box<str>>,
        now: Now,
    ) {
        let Some(mut live) = self.runs.remove(run) else { return };
        let job = live.context.job;
        let (status, skip, message) = match (live.retried, skip) {
            // A retry that may not start leaves the run as it had ended: a failure does not become a skip.
            (Some(was), Some(reason)) if live.progress.is_none() => {
                (was, None, Some(format!("not retried: {}", reason.sentence()).into()))
            }
            _ => (status, skip, message),
        };
        let begun = live.status == RunStatus::Running;
        let unmet = skip == Some(SkipReason::Precondition);
        assert!(
            live.status.may_become(status) && (!begun || status != RunStatus::Skipped || unmet),
            "run {run}: {:?} cannot become {status:?} for {skip:?}",
            live.status
        );
        let message = match status {
            RunStatus::Succeeded => self.trigger_children(run, &live, now).or(message),
            _ => message,
        };
        let began = live.progress.is_some();
        if !began {
            // It may wait in the ring. A retry puts it there again, and it would leave twice.
            self.timers
                .ring
                .remove(live.context.due, |item| matches!(item, RingItem::Run(waiting) if *waiting == run));
        }
        let steps = live.steps();
        live.status = status;
        let end = self.calls.has_caller(run).then(|| CallEnd::of(&live, status, message.as_deref()));
        let update = RunUpdate { ended_at: Some(now.wall), skip, message, steps, ..live.update(run) };
        self.effects.batch.runs.push(update);
        self.note_change(run, job, status, skip);
        if began {
            // The executor's journal stands in for the record until the end is durable: closed sooner, a crash would
            // find neither, and the run would start over under an attempt that was used already.
            self.commits.hold_order(Order::Close { run });
        }
        if status == RunStatus::Succeeded && live.policy.skip_if_successful {
            self.jobs.note_success(job, live.context.due);
        }
        if let Some(at) = live.limit_at {
            self.timers.cancel(at, Timer::Limit(run, live.attempt));
        }
        if !live.context.trigger.is_scheduled() {
            self.jobs.end_triggered(job);
        }
        self.give_up_place(run, now);
        self.continue_backlog(job, run, now);
        self.drop_calls(run, &live, now);
        if let Some(end) = end {
            self.end_call(run, end, now);
        }
    }
}
