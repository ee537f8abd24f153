//! The front door and the clockwork behind it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use cadran_core::planted::{self, Bug};
use cadran_core::{
    Address, JobId, LogNumbers, Millis, Now, Order, Promise, Refusal, Reply, RunContext, RunId, RunIds,
    RunStatus, Skip, SkipReason, StepNo, Trigger,
};
use cadran_place::{Limits, Place, Roster, Router, SILENT_MS_MAX};
use cadran_plan::{Build, Plan, PlannedRun, Planner, Ring};
use rustc_hash::FxHashMap;

use crate::catalog::Catalog;
use crate::effects::{Effects, Event, RunChange, Token};
use crate::jobs::Removed;
use crate::running::LiveRun;
use crate::trigger_keys::TriggerKeys;
use crate::unanswered::Ordered;

/// There is a tick each second.
const TICK_MS: Millis = 1_000;

/// Ticks fall in the middle of a second. Most dues are whole seconds: their orders leave then, and what is planned for
/// seconds ahead, and its commit, does not stand in their way.
pub const TICK_PHASE_MS: Millis = 500;

/// The first tick after an instant.
fn tick_after(at: Millis) -> Millis {
    (at.saturating_sub(TICK_PHASE_MS).div_euclid(TICK_MS) + 1) * TICK_MS + TICK_PHASE_MS
}

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
            lookahead_ms: 3_600_000,
            silent_ms_max: SILENT_MS_MAX,
        }
    }
}

/// When the engine wants to be called again with [`Event::Time`]: whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// By the wall clock.
    pub wall: Option<Millis>,
    /// By the monotonic clock.
    pub mono: Option<Millis>,
}

/// What leaves the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fire {
    Run(RunId),
    Stop(JobId),
}

/// What a wait on the monotonic clock was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The interval before a step's next attempt, in this attempt of the run.
    Retry(RunId, u32, StepNo),
    /// The time limit of a run, in this attempt of it.
    Limit(RunId, u32),
}

/// What is given with a trigger by hand.
#[derive(Debug, Default)]
pub(crate) struct Given {
    /// Values for parameters.
    pub(crate) params: Vec<(Box<str>, Box<str>)>,
    /// The executors it may go to; empty for all of its groups.
    pub(crate) addresses: Vec<Address>,
}

/// What waits for a batch to be durable.
#[derive(Debug, Default)]
struct After {
    seq: u64,
    promised: Vec<RunId>,
    orders: Vec<Order>,
    replies: Vec<(Token, Result<Reply, Refusal>)>,
    plans: bool,
}

/// Decides everything. See the [crate](crate).
pub struct Engine {
    pub(crate) options: Options,
    pub(crate) catalog: Catalog,
    pub(crate) planner: Planner,
    pub(crate) place: Place,
    pub(crate) roster: Roster,
    pub(crate) router: Router,
    pub(crate) ring: Ring<Fire>,
    /// In boxes: a table of them has room to grow, and a run has many hundred bytes.
    pub(crate) runs: FxHashMap<RunId, Box<LiveRun>>,
    pub(crate) timers: BTreeSet<(Millis, Timer)>,
    pub(crate) ids: RunIds,
    pub(crate) logs: LogNumbers,
    /// Removed jobs.
    pub(crate) removed: BTreeMap<JobId, Removed>,
    /// Until when each removed job may come back as it was.
    pub(crate) revivable: BTreeSet<(Millis, JobId)>,
    /// The runs that each backlog waits for before it hands over its next due. Mostly one; after a restart all those
    /// that were promised and did not start.
    pub(crate) backlog_runs: BTreeMap<JobId, BTreeSet<RunId>>,
    /// Caught-up runs of paused jobs that came due: they wait for the end of the pause.
    pub(crate) parked: BTreeMap<JobId, Vec<RunId>>,
    /// How many runs of each job are open by hand.
    pub(crate) by_hand: BTreeMap<JobId, usize>,
    /// Triggers of the last day that came with a key.
    pub(crate) trigger_keys: TriggerKeys,
    /// How many runs stand above runs that ended, the newest of them: see [`Engine::depth_of`].
    pub(crate) depths: BTreeMap<RunId, u32>,
    /// Due of the latest success, for jobs with `skip_if_successful`.
    pub(crate) successes: FxHashMap<JobId, Millis>,
    /// Runs that were admitted and are to be started.
    pub(crate) to_start: VecDeque<RunId>,
    /// How many were started since the effects were taken.
    pub(crate) started: usize,
    /// Runs with shares that changed since the last batch.
    pub(crate) shared_out: BTreeSet<RunId>,
    /// Orders to executors of the last seconds: see [`Engine::record_unanswered`].
    pub(crate) ordered: VecDeque<Ordered>,
    pub(crate) next_tick: Millis,
    pub(crate) stopping: bool,
    pub(crate) out: Effects,
    seq: u64,
    /// What the batch that is being filled holds back.
    held: After,
    after: VecDeque<After>,
    /// How many plans are on their way to the store.
    planning: u32,
    build_at: Millis,
}

impl Engine {
    /// An engine without jobs.
    pub fn new(options: Options) -> Engine {
        Engine {
            place: Place::new(options.limits),
            roster: Roster::default(),
            router: Router::default(),
            ids: RunIds::new(options.server, None),
            logs: LogNumbers::new(options.server, 0),
            options,
            catalog: Catalog::default(),
            planner: Planner::default(),
            ring: Ring::default(),
            runs: FxHashMap::default(),
            timers: BTreeSet::new(),
            removed: BTreeMap::new(),
            revivable: BTreeSet::new(),
            backlog_runs: BTreeMap::new(),
            parked: BTreeMap::new(),
            by_hand: BTreeMap::new(),
            trigger_keys: TriggerKeys::default(),
            depths: BTreeMap::new(),
            successes: FxHashMap::default(),
            to_start: VecDeque::new(),
            started: 0,
            shared_out: BTreeSet::new(),
            ordered: VecDeque::new(),
            next_tick: Millis::MIN,
            stopping: false,
            out: Effects::default(),
            seq: 0,
            held: After::default(),
            after: VecDeque::new(),
            planning: 0,
            build_at: Millis::MIN,
        }
    }

    /// Takes one event. What follows from it gathers until [`Engine::take_effects`].
    pub fn handle(&mut self, event: Event, now: Now) {
        self.place.pass(now.mono);
        match event {
            Event::Time => self.time(now),
            Event::Jobs(changes) => self.change_jobs(changes, now),
            Event::Command(token, command) => self.command(token, command, now),
            Event::Recalled(token, run, share) => self.recalled(token, *run, share),
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
        self.start_admitted(now);
    }

    /// Everything to be done since the last call.
    pub fn take_effects(&mut self) -> Effects {
        self.record_shares();
        self.started = 0;
        let mut effects = std::mem::take(&mut self.out);
        let held = std::mem::take(&mut self.held);
        if effects.batch.is_empty() {
            // Nothing new to wait for. An answer still waits for what is on its way: "paused already" is true only
            // when the pause is durable.
            effects.orders.extend(held.orders);
            match self.after.back_mut() {
                Some(after) => after.replies.extend(held.replies),
                None => effects.replies.extend(held.replies),
            }
            debug_assert!(
                held.promised.is_empty() && !held.plans,
                "promises without rows: {:?}",
                held.promised
            );
        } else {
            self.seq += 1;
            effects.seq = self.seq;
            self.after.push_back(After { seq: self.seq, ..held });
        }
        for order in &effects.orders {
            let Order::Start(start) = order else { continue };
            if let Some(live) = self.runs.get_mut(&start.run).filter(|live| live.attempt == 1)
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
        if !self.to_start.is_empty() {
            return Wake { wall: Some(Millis::MIN), mono: None };
        }
        let tick = (self.planning == 0).then_some(self.next_tick);
        let wall = self.ring.next_due().into_iter().chain(tick).min();
        Wake { wall, mono: self.timers.first().map(|(at, _)| *at) }
    }

    /// What a builder needs to make the next index, at most once a second and never two at a time.
    pub fn build_index(&mut self, now: Now) -> Option<Build> {
        let since = now.wall.saturating_sub(self.build_at);
        if (0..TICK_MS).contains(&since) {
            return None;
        }
        self.build_at = now.wall;
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
        &self.roster
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

    /// How many batches are on their way to the store.
    pub fn uncommitted(&self) -> usize {
        self.after.len()
    }

    fn time(&mut self, now: Now) {
        if self.stopping {
            return;
        }
        while let Some(&(_, timer)) = self.timers.first().filter(|(at, _)| *at <= now.mono) {
            self.timers.pop_first();
            self.timer(timer, now);
        }
        self.fire(now);
        if !self.to_start.is_empty() {
            // What has come due goes first.
            return;
        }
        if self.next_tick.saturating_sub(now.wall) > TICK_MS {
            // The clock stepped back: ticks go on from where it stands.
            if planted::on(Bug::RingLostOnStepBack) {
                self.ring = Ring::default();
            }
            self.next_tick = now.wall;
        }
        if self.next_tick <= now.wall && self.planning == 0 {
            // The first tick of all has no due of its own.
            self.out.tick = Some(if self.next_tick == Millis::MIN { now.wall } else { self.next_tick });
            self.next_tick = tick_after(now.wall);
            self.let_go_of_removed(now);
            self.let_go_of_silent(now);
            self.record_unanswered(now);
            let mut plan = Plan::default();
            self.planner.tick(now.wall, &self.catalog, &mut plan);
            self.carry_out(plan, now);
        }
    }

    /// Turns a plan into promises, skips and states of the batch.
    pub(crate) fn carry_out(&mut self, plan: Plan, now: Now) {
        let durable = !(plan.promises.is_empty() && plan.skips.is_empty() && plan.states.is_empty());
        for run in plan.promises {
            self.promise_planned(run, now);
        }
        for skip in plan.skips {
            let id = self.ids.next(now.wall);
            self.out.batch.skips.push(Skip {
                id,
                job: skip.job,
                first_due: skip.first_due,
                last_due: skip.last_due,
                count: skip.count,
                reason: skip.reason,
                at: now.wall,
            });
        }
        self.out.batch.states.extend(plan.states.into_iter().map(|job| self.planner.state(job)));
        // Stop schedules are never caught up, so nothing of them needs to outlive a crash.
        for (due, job) in plan.stops {
            self.ring.push(due, Fire::Stop(job));
        }
        if durable && !self.held.plans {
            self.held.plans = true;
            self.planning += 1;
        }
    }

    fn promise_planned(&mut self, planned: PlannedRun, now: Now) {
        let PlannedRun { due, job, trigger } = planned;
        if let Some(run) = self.promise(job, due, trigger, Given::default(), None, now)
            && trigger != Trigger::Restart
            && self.planner.has_backlog(job)
        {
            self.backlog_runs.entry(job).or_default().insert(run);
        }
    }

    /// Makes a run and asks for its promise to be written. It enters the ring when that is durable.
    pub(crate) fn promise(
        &mut self,
        job: JobId,
        due: Millis,
        trigger: Trigger,
        given: Given,
        parent: Option<(RunId, u32)>,
        now: Now,
    ) -> Option<RunId> {
        let Given { params, addresses } = given;
        let entry = self.catalog.get(job)?;
        let run = self.ids.next(now.wall);
        self.out.batch.promised.push(Promise {
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
        self.runs.insert(run, Box::new(live));
        if !trigger.is_scheduled() {
            *self.by_hand.entry(job).or_default() += 1;
        }
        if planted::on(Bug::FireBeforeCommit) {
            self.ring.push(due, Fire::Run(run));
            return Some(run);
        }
        self.hold_run(run);
        Some(run)
    }

    /// Lets a run into the ring once the batch that is being filled is durable.
    pub(crate) fn hold_run(&mut self, run: RunId) {
        self.held.promised.push(run);
    }

    pub(crate) fn hold_reply(&mut self, token: Token, reply: Result<Reply, Refusal>) {
        self.held.replies.push((token, reply));
    }

    pub(crate) fn hold_order(&mut self, order: Order) {
        self.held.orders.push(order);
    }

    fn committed(&mut self, seq: u64, mut refused: Vec<RunId>, now: Now) {
        debug_assert_eq!(
            self.after.front().map(|after| after.seq),
            Some(seq),
            "batches are committed in order"
        );
        let Some(after) = self.after.pop_front() else { return };
        refused.sort_unstable();
        for run in after.promised {
            if refused.binary_search(&run).is_ok() {
                // Someone else has the due. The run never was.
                if let Some(live) = self.runs.remove(&run) {
                    self.backlog_goes_on(live.context.job, run, now);
                }
                continue;
            }
            if let Some(live) = self.runs.get(&run) {
                self.ring.push(live.context.due, Fire::Run(run));
                self.note(run, live.context.job, live.status, None);
            }
        }
        self.out.orders.extend(after.orders);
        self.out.replies.extend(after.replies);
        self.planning -= u32::from(after.plans);
        self.time(now);
    }

    /// How many of those that wait do so for a slot, and how many for what they touch.
    pub fn waiting_for_slot_and_footprint(&self) -> (usize, usize) {
        self.place.waiting_for_slot_and_footprint()
    }

    pub(crate) fn skip_run(&mut self, run: RunId, reason: SkipReason, now: Now) {
        self.end_run(run, RunStatus::Skipped, Some(reason), None, now);
    }

    pub(crate) fn note(&mut self, run: RunId, job: JobId, status: RunStatus, skip: Option<SkipReason>) {
        self.out.changes.push(RunChange { run, job, status, skip });
    }

    /// The next due of a backlog whose run is over.
    pub(crate) fn backlog_goes_on(&mut self, job: JobId, run: RunId, now: Now) {
        let Some(waits_for) = self.backlog_runs.get_mut(&job) else { return };
        if !waits_for.remove(&run) || !waits_for.is_empty() {
            return;
        }
        self.backlog_runs.remove(&job);
        let mut plan = Plan::default();
        self.planner.backlog_next(job, now.wall, &mut plan);
        if !self.planner.has_backlog(job) {
            self.next_tick = self.next_tick.min(now.wall);
        }
        self.carry_out(plan, now);
    }
}
