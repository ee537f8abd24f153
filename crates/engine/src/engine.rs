//! The front door: one event in, and what follows from it.

use std::sync::Arc;

use cadran_core::{
    Address, JobId, Millis, Now, Order, Promise, RunContext, RunId, RunIds, RunStatus, Skip, SkipReason,
    Trigger,
};
use cadran_place::{Limits, Place, Roster, Routing, SILENT_MS_MAX};
use cadran_plan::{Build, LOOKAHEAD_MS, Plan, PlannedRun, Planner};

use crate::catalog::Catalog;
use crate::commit_queue::CommitQueue;
use crate::effects::{Effects, Event, RunChange};
use crate::job_table::JobTable;
use crate::run_table::RunTable;
use crate::running::LiveRun;
use crate::sub_jobs::Calls;
use crate::timers::{RingItem, Timers, Wake};
use crate::trigger_keys::TriggerKeys;
use crate::unanswered::UnansweredOrders;

/// What the engine is told once.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bounds of what is active and what waits.
    pub limits: Limits,
    /// Which server's run ids these are.
    pub server: u16,
    /// How much of the future the index covers.
    pub lookahead_ms: Millis,
    /// How long an executor that says nothing is believed to be there.
    pub silent_ms_max: Millis,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            limits: Limits::default(),
            server: 0,
            lookahead_ms: LOOKAHEAD_MS,
            silent_ms_max: SILENT_MS_MAX,
        }
    }
}

/// What is given with a trigger by hand.
#[derive(Debug, Default)]
pub(crate) struct RunArguments {
    /// Values for parameters.
    pub(crate) params: Vec<(Box<str>, Box<str>)>,
    /// The executors it may go to; empty for all of its groups.
    pub(crate) addresses: Vec<Address>,
}

/// Decides everything. See the [crate](crate).
pub struct Engine {
    pub(crate) options: Options,
    /// Definitions of jobs.
    pub(crate) catalog: Catalog,
    /// What is kept of single jobs beside that.
    pub(crate) jobs: JobTable,
    /// Open runs.
    pub(crate) runs: RunTable,
    /// When runs are due.
    pub(crate) planner: Planner,
    /// Which runs may start.
    pub(crate) place: Place,
    /// Which executors their attempts go to.
    pub(crate) routing: Routing,
    pub(crate) timers: Timers,
    pub(crate) trigger_keys: TriggerKeys,
    pub(crate) unanswered: UnansweredOrders,
    /// Runs that steps wait for.
    pub(crate) calls: Calls,
    /// What waits for the store.
    pub(crate) commits: CommitQueue,
    /// What is to be done, gathered until it is taken.
    pub(crate) effects: Effects,
    pub(crate) stopping: bool,
}

impl Engine {
    /// An engine without jobs.
    pub fn new(options: Options) -> Engine {
        Engine {
            catalog: Catalog::default(),
            jobs: JobTable::default(),
            runs: RunTable::new(RunIds::new(options.server, None)),
            planner: Planner::default(),
            place: Place::new(options.limits),
            routing: Routing::new(options.server, 0),
            timers: Timers::new(),
            trigger_keys: TriggerKeys::default(),
            unanswered: UnansweredOrders::default(),
            calls: Calls::default(),
            commits: CommitQueue::default(),
            effects: Effects::default(),
            stopping: false,
            options,
        }
    }

    /// Takes one event. What follows from it gathers until [`Engine::take_effects`].
    pub fn handle(&mut self, event: Event, now: Now) {
        self.place.pass(now.mono);
        match event {
            Event::Time => self.time(now),
            Event::Jobs(changes) => self.change_jobs(changes, now),
            Event::Command(token, command) => self.command(token, command, now),
            Event::Recalled(token, run, share) => self.retry_recalled(token, *run, share),
            Event::Reports(reports) => {
                for report in reports {
                    self.report(report, now);
                }
            }
            Event::Committed { seq, refused } => self.committed(seq, refused, now),
            Event::IndexBuilt(index) => self.planner.install(index),
            Event::Executors(changes) => self.change_executors(changes, now),
            Event::Stopping => self.stopping = true,
        }
        self.finish_event(now);
    }

    /// What follows at once: starts, and what steps that wait for other runs are told.
    pub(crate) fn finish_event(&mut self, now: Now) {
        self.start_admitted(now);
        while let Some(report) = self.calls.reports.pop_front() {
            self.report(report, now);
            self.start_admitted(now);
        }
    }

    /// Everything to be done since the last call.
    pub fn take_effects(&mut self) -> Effects {
        self.record_shares();
        self.runs.starts.reset_count();
        let mut effects = std::mem::take(&mut self.effects);
        self.commits.close_batch(&mut effects);
        for order in &effects.orders {
            let Order::Start(start) = order else { continue };
            if let Some(live) = self.runs.get_mut(start.run).filter(|live| live.attempt == 1)
                && !std::mem::replace(&mut live.ordered, true)
            {
                effects.first_orders.push((live.context.due, live.context.trigger));
            }
        }
        effects
    }

    /// When to call again with [`Event::Time`].
    pub fn wake(&self) -> Wake {
        if self.stopping {
            return Wake { wall: None, mono: None };
        }
        if !self.runs.starts.runs.is_empty() {
            return Wake { wall: Some(Millis::MIN), mono: None };
        }
        self.timers.wake(!self.commits.has_plan())
    }

    /// What a builder needs to make the next index, at most once a second and never two at a time.
    pub fn build_index(&mut self, now: Now) -> Option<Build> {
        if !self.timers.may_ask_for_index(now) {
            return None;
        }
        self.planner.build(now.wall, self.options.lookahead_ms)
    }

    /// The jobs.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The planner, to look at.
    pub fn planner(&self) -> &Planner {
        &self.planner
    }

    /// The executors that are there.
    pub fn roster(&self) -> &Roster {
        &self.routing.roster
    }

    /// How long an executor that says nothing is believed to be there.
    pub fn silent_ms_max(&self) -> Millis {
        self.options.silent_ms_max
    }

    /// How many runs are promised, waiting or running.
    pub fn live(&self) -> usize {
        self.runs.len()
    }

    /// How many runs hold a slot, and how many wait.
    pub fn active_and_waiting(&self) -> (usize, usize) {
        (self.place.started(), self.place.waiting())
    }

    /// How many of those that wait do so for a slot, and how many for what they touch.
    pub fn waiting_for_slot_and_footprint(&self) -> (usize, usize) {
        self.place.waiting_for_slot_and_footprint()
    }

    /// How many batches are on their way to the store.
    pub fn uncommitted(&self) -> usize {
        self.commits.len()
    }

    fn time(&mut self, now: Now) {
        if self.stopping {
            return;
        }
        while let Some(timer) = self.timers.pop_elapsed(now) {
            self.timer(timer, now);
        }
        self.fire(now);
        if !self.runs.starts.runs.is_empty() {
            // What has come due goes first.
            return;
        }
        if let Some(tick) = self.timers.take_tick(now, !self.commits.has_plan()) {
            self.effects.tick = Some(tick);
            self.end_grace_periods(now);
            self.remove_silent_executors(now);
            self.record_unanswered(now);
            let mut plan = Plan::default();
            self.planner.tick(now.wall, &self.catalog, &mut plan);
            self.apply_plan(plan, now);
        }
    }

    /// Turns a plan into promises, skips and states of the batch.
    pub(crate) fn apply_plan(&mut self, plan: Plan, now: Now) {
        if !(plan.promises.is_empty() && plan.skips.is_empty() && plan.states.is_empty()) {
            self.commits.hold_plan();
        }
        for run in plan.promises {
            self.promise_planned(run, now);
        }
        for skip in plan.skips {
            self.effects.batch.skips.push(Skip {
                id: self.runs.next_id(now.wall),
                job: skip.job,
                first_due: skip.first_due,
                last_due: skip.last_due,
                count: skip.count,
                reason: skip.reason,
                at: now.wall,
            });
        }
        self.effects.batch.states.extend(plan.states.into_iter().map(|job| self.planner.state(job)));
        // Stop schedules are never caught up, so nothing of them needs to outlive a crash.
        for (due, job) in plan.stops {
            self.timers.ring.push(due, RingItem::Stop(job));
        }
    }

    fn promise_planned(&mut self, planned: PlannedRun, now: Now) {
        let PlannedRun { due, job, trigger } = planned;
        if let Some(run) = self.promise(job, due, trigger, RunArguments::default(), None, now)
            && trigger != Trigger::Restart
            && self.planner.has_backlog(job)
        {
            self.jobs.add_backlog_run(job, run);
        }
    }

    /// Makes a run and asks for its promise to be written. It enters the ring when that is durable.
    pub(crate) fn promise(
        &mut self,
        job: JobId,
        due: Millis,
        trigger: Trigger,
        arguments: RunArguments,
        parent: Option<(RunId, u32)>,
        now: Now,
    ) -> Option<RunId> {
        let RunArguments { params, addresses } = arguments;
        let entry = self.catalog.get(job)?;
        let run = self.runs.next_id(now.wall);
        self.effects.batch.promised.push(Promise {
            run,
            job,
            revision: entry.revision,
            due,
            trigger,
            promised_at: now.wall,
            params: params.clone(),
            addresses: addresses.clone(),
            parent,
        });
        let context = Arc::new(RunContext {
            job,
            job_name: entry.name.clone(),
            body: entry.shape.body.clone(),
            due,
            trigger,
            params,
            addresses,
            shard_index: 0,
            shard_total: 1,
        });
        let footprint = entry.shape.footprint(&context.params);
        let depth = parent.map_or(0, |(_, depth)| depth);
        let mut live = LiveRun::promised(context, entry.shape.policy, footprint, depth);
        live.lateness_judged = trigger == Trigger::CatchUp;
        self.runs.insert(run, live);
        if !trigger.is_scheduled() {
            self.jobs.add_triggered(job);
        }
        self.commits.hold_run(run);
        Some(run)
    }

    fn committed(&mut self, seq: u64, mut refused: Vec<RunId>, now: Now) {
        let Some(held) = self.commits.committed(seq) else { return };
        refused.sort_unstable();
        for run in held.runs {
            if refused.binary_search(&run).is_ok() {
                // Someone else has the due. The run never was.
                if let Some(live) = self.runs.remove(run) {
                    self.continue_backlog(live.context.job, run, now);
                }
                continue;
            }
            if let Some(live) = self.runs.get(run) {
                let (job, status) = (live.context.job, live.status);
                self.timers.ring.push(live.context.due, RingItem::Run(run));
                self.note_change(run, job, status, None);
            }
        }
        self.effects.orders.extend(held.orders);
        self.effects.replies.extend(held.replies);
        self.time(now);
    }

    pub(crate) fn skip_run(&mut self, run: RunId, reason: SkipReason, now: Now) {
        self.end_run(run, RunStatus::Skipped, Some(reason), None, now);
    }

    /// Tells whoever watches what became of a run.
    pub(crate) fn note_change(
        &mut self,
        run: RunId,
        job: JobId,
        status: RunStatus,
        skip: Option<SkipReason>,
    ) {
        self.effects.changes.push(RunChange { run, job, status, skip });
    }

    /// Hands over the next due of a backlog whose run is over.
    pub(crate) fn continue_backlog(&mut self, job: JobId, run: RunId, now: Now) {
        if !self.jobs.end_backlog_run(job, run) {
            return;
        }
        let mut plan = Plan::default();
        self.planner.backlog_next(job, now.wall, &mut plan);
        if !self.planner.has_backlog(job) {
            self.timers.tick_now(now);
        }
        self.apply_plan(plan, now);
    }
}
