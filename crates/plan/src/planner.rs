//! Which runs does this tick promise?

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cadran_core::{
    JobId, JobState, Millis, Misfire, Overlap, Policy, RunId, Schedule, ScheduleAction, ScheduleEntry,
    SkipReason, Trigger,
};

use crate::catch_up::{self, BACKLOG_MAX, Judgement, Lateness, Missed, PartlyPromised};
use crate::dues::JobDues;
use crate::index::{Fleet, FleetSnapshot, Index, Window};
use crate::outlook::Outlook;

/// How far ahead of their instant runs are promised: long enough for a slow commit, short enough for an edit of a
/// job to be felt soon.
pub const PRE_READ_MS: Millis = 5_000;

/// How much of the future the index covers, unless the server is told otherwise: long enough that a build is seldom needed,
/// and what most people ask for when they look ahead.
pub const LOOKAHEAD_MS: Millis = 2 * 3_600_000;

/// A watermark further ahead of the clock than this is not one: it would keep its job from ever running.
const WATERMARK_AHEAD_MS_MAX: Millis = 366 * 86_400_000;

/// Jobs changed since the index was built that an outlook takes with it: more would hold up the loop.
const OUTLOOK_STALE_MAX: usize = 10_000;

/// Runs that an index holds at most, as far as it need not be shorter than [`WINDOW_MS_MIN`] for that: some 24 MB. Two hours
/// of five thousand runs a second would take 150 MB, to know what schedules tell as well when somebody asks.
const INDEX_RUNS_MAX: i128 = 6_000_000;

/// No index is planned to be shorter than this: it would be built over and over.
const WINDOW_MS_MIN: Millis = 600_000;

/// Two hours of so many jobs, each due every second, are about as much as [`INDEX_RUNS_MAX`].
const SMALL_FLEET: usize = 1_000;

/// What a tick decided. In the order (due, job).
#[derive(Debug, Default)]
pub struct Plan {
    /// Runs to promise.
    pub promises: Vec<PlannedRun>,
    /// Stretches of dues that do not run.
    pub skips: Vec<PlannedSkip>,
    /// Dues of stop schedules.
    pub stops: Vec<(Millis, JobId)>,
    /// Jobs whose planning state changed and is to be written with the promises.
    pub states: BTreeSet<JobId>,
}

/// A run to promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedRun {
    /// When.
    pub due: Millis,
    /// Of which job.
    pub job: JobId,
    /// [`Trigger::Schedule`], [`Trigger::CatchUp`] or [`Trigger::Restart`].
    pub trigger: Trigger,
}

/// Dues that do not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedSkip {
    /// Of which job.
    pub job: JobId,
    /// The first.
    pub first_due: Millis,
    /// The last.
    pub last_due: Millis,
    /// How many.
    pub count: u64,
    /// Why.
    pub reason: SkipReason,
}

/// What becomes of promised runs that did not start in time. In the order of their dues.
#[derive(Debug, Default)]
pub struct LateRuns {
    /// Those that do not run, and why.
    pub skipped: Vec<(RunId, SkipReason)>,
    /// Those that run all the same.
    pub caught_up: Vec<RunId>,
}

/// What the planner asks about jobs. The catalog answers.
pub trait Policies {
    /// The rules of a job.
    fn policy(&self, job: JobId) -> Policy;
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Not planned at all: unknown or removed.
    #[default]
    Absent,
    /// Dues are promised as they come.
    Live,
    /// Missed dues are replayed one after another; live ones join their end.
    Backlog,
    /// Nothing is promised.
    Paused,
}

/// The rare part of a job's planning state.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    pub(crate) paused_at: Option<Millis>,
    pub(crate) holes: Vec<(Millis, Millis)>,
    /// It was paused while a backlog drained, which goes on as it was.
    pub(crate) backlog: bool,
    /// The instant that the catch-up window is counted back from, once: a backlog that waited through a pause does
    /// not grow out of its window meanwhile.
    pub(crate) window_to: Option<Millis>,
}

impl Extra {
    pub(crate) fn is_empty(&self) -> bool {
        self.paused_at.is_none() && self.holes.is_empty() && self.window_to.is_none()
    }
}

/// A stop or restart schedule of a job.
struct Timed {
    action: ScheduleAction,
    schedule: Arc<Schedule>,
}

/// Keeps watermarks and backlogs, and turns ticks into plans.
///
/// For a job that is live and not `behind`, every due up to `planned_to` is recorded. A job that is behind (new,
/// resumed, edited, or read back at start) is judged by itself from its own watermark on. Whatever the index says
/// or fails to say, the watermark decides: a due at or before it is never planned again, and none after it is
/// passed over.
#[derive(Default)]
pub struct Planner {
    fleet: Fleet,
    pub(crate) watermarks: Vec<Millis>,
    pub(crate) modes: Vec<Mode>,
    pub(crate) extras: BTreeMap<JobId, Extra>,
    pub(crate) behind: BTreeSet<JobId>,
    planned_to: Option<Millis>,
    /// The latest instant that the planner was told of: after the clock stepped back, what lies before it is recorded.
    pub(crate) latest_now: Millis,
    timed: BTreeMap<JobId, Vec<Timed>>,
    timed_next: BTreeSet<(Millis, JobId, usize)>,
    index: Arc<Index>,
    /// Jobs changed since the snapshot that `index` was built from: the index is not asked about them.
    stale: BTreeSet<u32>,
    /// Jobs changed since the snapshot of the build that is under way.
    building: Option<BTreeSet<u32>>,
}

/// What a builder on another thread needs to make the next index.
pub struct Build {
    /// The fleet at this moment.
    pub fleet: FleetSnapshot,
    /// What the new index shall cover.
    pub window: Window,
    /// The index so far.
    pub last: Arc<Index>,
    /// Jobs that changed since the snapshot of `last`, rising.
    pub changed: Vec<u32>,
}

impl Planner {
    /// Makes room for so many jobs at once, exactly: a million marks should not cost two million.
    pub fn reserve(&mut self, count: usize) {
        self.watermarks.reserve_exact(count);
        self.modes.reserve_exact(count);
    }

    /// Takes up a job read back from the store, with what was recorded of it. Without a watermark, or with one that
    /// cannot be true, there is nothing to catch up.
    pub fn restore(&mut self, schedules: &[ScheduleEntry], state: &JobState, now: Millis) {
        let job = state.job;
        self.set_schedules(job, schedules, now);
        let sound = 0..=now.saturating_add(WATERMARK_AHEAD_MS_MAX);
        self.watermarks[job.index()] = state.watermark.filter(|mark| sound.contains(mark)).unwrap_or(now);
        self.modes[job.index()] = if state.paused_at.is_some() { Mode::Paused } else { Mode::Live };
        if state.paused_at.is_some() || !state.holes.is_empty() {
            let holes = state.holes.clone();
            self.extras.insert(job, Extra { paused_at: state.paused_at, holes, ..Extra::default() });
        }
        if self.planned_to.is_some() {
            self.behind.insert(job);
        }
    }

    /// Takes up a new job: nothing before `now` is its concern.
    pub fn add(&mut self, job: JobId, schedules: &[ScheduleEntry], now: Millis) {
        self.extras.remove(&job);
        self.set_schedules(job, schedules, now);
        self.watermarks[job.index()] = now;
        self.modes[job.index()] = Mode::Live;
        self.behind.insert(job);
    }

    /// Gives a job new schedules or a new policy. The watermark is kept; a backlog is computed anew.
    ///
    /// Without a catch-up window an edit is no reason to run at once: dues that the new schedule *would* have had
    /// before the edit were never due, so the watermark rises to now, or as far as all dues are recorded. A job that was
    /// still behind keeps its watermark. Dues of the pre-read window that only the new schedule names are promised at
    /// once, since the watermark has passed them. A pause is counted up to now by the schedule it began under.
    pub fn update(
        &mut self,
        job: JobId,
        schedules: &[ScheduleEntry],
        policy: &Policy,
        now: Millis,
        plan: &mut Plan,
    ) {
        let at = job.index();
        if self.modes[at] == Mode::Paused {
            self.count_pause(job, now, plan);
            self.set_schedules(job, schedules, now);
            // What is left of a backlog is judged anew when the pause ends, by the policy of then.
            if let Some(extra) = self.extras.get_mut(&job) {
                extra.backlog = false;
            }
            return;
        }
        let ahead = self.promised_ahead(at, now);
        let known: Vec<Millis> = self.dues(job).between(ahead.0, ahead.1.saturating_add(1)).collect();
        self.set_schedules(job, schedules, now);
        if self.modes[at] == Mode::Backlog {
            self.modes[at] = Mode::Live;
        } else if policy.misfire != Misfire::All
            && !self.behind.contains(&job)
            && let Some(planned_to) = self.planned_to
        {
            self.watermarks[at] = self.watermarks[at].max(now.min(planned_to));
        }
        let fresh: Vec<Millis> = self
            .dues(job)
            .between(ahead.0, ahead.1.saturating_add(1))
            .filter(|due| known.binary_search(due).is_err())
            .collect();
        for due in fresh {
            self.promise(job, due, now, plan);
        }
        self.behind.insert(job);
    }

    /// The clock has shown this before, maybe to a server that is gone: what lies before it is on record, as far as a
    /// watermark has passed it.
    pub fn note_clock(&mut self, wall: Millis) {
        self.latest_now = self.latest_now.max(wall);
    }

    /// The stretch that the watermark has passed because runs are promised ahead of their instant, and for no other
    /// reason: `[0] ..= [1]`, and empty where the clock stepped back behind what was recorded.
    fn promised_ahead(&self, at: usize, now: Millis) -> (Millis, Millis) {
        let watermark = self.watermarks[at];
        let from = now.max(self.latest_now).saturating_add(1);
        if watermark > now.saturating_add(PRE_READ_MS) { (from, from - 1) } else { (from, watermark) }
    }

    /// Takes a removed job up again as it was: its file was written again soon enough.
    pub fn undo_removal(&mut self, job: JobId, schedules: &[ScheduleEntry], now: Millis) {
        self.set_schedules(job, schedules, now);
        let paused = self.extras.get(&job).is_some_and(|extra| extra.paused_at.is_some());
        // What is left of a backlog is judged anew when a pause ends, by the policy of then.
        if let Some(extra) = self.extras.get_mut(&job) {
            extra.backlog = false;
        }
        self.modes[job.index()] = if paused { Mode::Paused } else { Mode::Live };
        self.behind.insert(job);
    }

    /// Plans nothing more for a job. Its watermark stays until [`Planner::forget`]. Returns the dues up to `now` that
    /// nothing is recorded of: a backlog, or what fell into a pause. They are skipped, unless the removal is undone.
    pub fn remove(&mut self, job: JobId, now: Millis) -> Option<PlannedSkip> {
        let at = job.index();
        let known = self.modes.get(at).is_some_and(|&mode| mode != Mode::Absent);
        let left =
            known.then(|| self.unrecorded(job, self.watermarks[at], now, SkipReason::Removed)).flatten();
        self.set_schedules(job, &[], 0);
        self.modes[at] = Mode::Absent;
        self.behind.remove(&job);
        left
    }

    /// Lets go of a removed job's backlog and watermark.
    pub fn forget(&mut self, job: JobId) {
        self.extras.remove(&job);
        if let Some(mark) = self.watermarks.get_mut(job.index()) {
            *mark = Millis::MIN;
        }
    }

    /// The dues in `(after, to]` that nothing is recorded of, as one skip.
    pub(crate) fn unrecorded(
        &self,
        job: JobId,
        after: Millis,
        to: Millis,
        reason: SkipReason,
    ) -> Option<PlannedSkip> {
        let dues = self.dues(job);
        let (start, end) = (after.saturating_add(1), to.saturating_add(1));
        let (first_due, last_due) = (dues.first(start, end)?, dues.last_before(end, start)?);
        Some(PlannedSkip { job, first_due, last_due, count: dues.count(start, end), reason })
    }

    /// One tick: everything due up to the pre-read horizon that is not recorded yet.
    pub fn tick(&mut self, now: Millis, policies: &impl Policies, plan: &mut Plan) {
        let horizon = now.saturating_add(PRE_READ_MS);
        self.latest_now = self.latest_now.max(now);
        let planned_to = self.planned_to;
        match planned_to {
            // The first tick, a stalled loop or a clock stepped forward: what lies between is missed, for every job.
            None => self.judge_all(now, horizon, policies, plan),
            Some(to) if to < catch_up::missed_before(now) => self.judge_all(now, horizon, policies, plan),
            Some(to) => {
                if to < horizon {
                    self.plan_live(to, horizon, plan);
                }
                let behind: Vec<JobId> = self.behind.iter().copied().collect();
                for job in behind {
                    self.judge_job(job, &[], now, horizon, &policies.policy(job), plan);
                    // After a clock that stepped back the others are further ahead: stay behind until this one is too.
                    if horizon >= to {
                        self.behind.remove(&job);
                    }
                }
            }
        }
        self.planned_to = Some(planned_to.map_or(horizon, |to| to.max(horizon)));
        self.plan_timed(now, horizon, plan);
        // Restart before schedule, so that where both name an instant the restart stays.
        plan.promises.sort_by_key(|run| (run.due, run.job, run.trigger != Trigger::Restart));
        plan.promises.dedup_by_key(|run| (run.due, run.job));
    }

    /// The next due of a backlog, once the run before it has ended. When the backlog has caught up, the job is live
    /// again.
    pub fn backlog_next(&mut self, job: JobId, now: Millis, plan: &mut Plan) {
        let at = job.index();
        if self.modes.get(at) != Some(&Mode::Backlog) {
            return;
        }
        plan.states.insert(job);
        let (start, end) = (self.watermarks[at].saturating_add(1), now.saturating_add(1));
        let dues = self.dues(job);
        let from = catch_up::newest_from(&dues, start, end, BACKLOG_MAX);
        let next = dues.first(from, end);
        if let Some(skip) = self.unrecorded(job, start - 1, from - 1, SkipReason::BacklogLimit) {
            plan.skips.push(skip);
            self.raise(job, skip.last_due);
        }
        match next {
            Some(due) => {
                self.promise(job, due, now, plan);
            }
            None => {
                self.modes[at] = Mode::Live;
                self.behind.insert(job);
            }
        }
    }

    /// What is to be written of a job's planning state.
    pub fn state(&self, job: JobId) -> JobState {
        let extra = self.extras.get(&job);
        JobState {
            job,
            watermark: self.watermarks.get(job.index()).copied().filter(|&mark| mark != Millis::MIN),
            paused_at: extra.and_then(|extra| extra.paused_at),
            holes: extra.map(|extra| extra.holes.clone()).unwrap_or_default(),
        }
    }

    /// Whether the job is paused.
    pub fn is_paused(&self, job: JobId) -> bool {
        self.modes.get(job.index()) == Some(&Mode::Paused)
    }

    /// Whether missed dues of the job are being replayed one after another.
    pub fn has_backlog(&self, job: JobId) -> bool {
        self.modes.get(job.index()) == Some(&Mode::Backlog)
    }

    /// The due before `before`, of all start schedules of the job.
    pub fn previous_due(&self, job: JobId, before: Millis) -> Option<Millis> {
        JobDues { fleet: &self.fleet, job: job.0, holes: &[] }.last_before(before, Millis::MIN)
    }

    /// Judges promised runs of a job that did not start and are missed by now, together with the missed dues that nobody
    /// promised yet. Those are planned at once, so that nothing comes between the two.
    pub fn judge_late(
        &mut self,
        job: JobId,
        mut late: Vec<(Millis, RunId)>,
        policy: &Policy,
        now: Millis,
        plan: &mut Plan,
    ) -> LateRuns {
        late.sort_by_key(|&(due, _)| due);
        let mut promised: Vec<Millis> = late.iter().map(|&(due, _)| due).collect();
        // Lives of a job between which the clock stepped back may both have promised a due.
        promised.dedup();
        let horizon = now.saturating_add(PRE_READ_MS);
        let judgement = self.judge_job(job, &promised, now, horizon, policy, plan);
        let mut runs = LateRuns::default();
        for (due, run) in late {
            match judgement.skip_reason(due) {
                Some(reason) => runs.skipped.push((run, reason)),
                None => runs.caught_up.push(run),
            }
        }
        runs
    }

    /// The fleet's schedules.
    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// What a builder needs for the next index, when the present one is running out or has gone stale, and no build
    /// is under way. The window starts a little in the past so that a clock stepped back stays covered.
    pub fn build(&mut self, now: Millis, lookahead_ms: Millis) -> Option<Build> {
        if self.building.is_some() {
            return None;
        }
        let lookahead_ms = lookahead_ms.min(self.window_ms_max());
        let covered_to = self.index.window().to();
        let running_out = covered_to < now.saturating_add(lookahead_ms / 2);
        if !running_out && self.stale.is_empty() {
            return None;
        }
        let window = Window::new(now.saturating_sub(60_000), now.saturating_add(lookahead_ms));
        self.building = Some(BTreeSet::new());
        Some(Build {
            fleet: self.fleet.snapshot(),
            window,
            last: self.index.clone(),
            changed: self.stale.iter().copied().collect(),
        })
    }

    /// How long an index may be without taking more memory than it is worth, by how dense the latest one is. Before the
    /// first one nothing is known of a large fleet but its size.
    fn window_ms_max(&self) -> Millis {
        let window = self.index.window();
        if window.is_empty() {
            return if self.fleet.len() > SMALL_FLEET { WINDOW_MS_MIN } else { Millis::MAX };
        }
        let span = i128::from(window.to() - window.from());
        let fits = span * INDEX_RUNS_MAX / (self.index.len() as i128).max(1);
        Millis::try_from(fits).unwrap_or(Millis::MAX).max(WINDOW_MS_MIN)
    }

    /// Takes the finished index into use.
    pub fn install(&mut self, index: Arc<Index>) {
        self.index = index;
        self.stale = self.building.take().unwrap_or_default();
    }

    /// The index in use.
    pub fn index(&self) -> &Arc<Index> {
        &self.index
    }

    /// What is to come, for whoever asks on another thread. Takes a step per thousand jobs and a byte per job.
    pub fn outlook(&self) -> Outlook {
        // After a big change the index is as good as none until the next is built.
        let is_stale = self.stale.len() > OUTLOOK_STALE_MAX;
        let (index, stale) = match is_stale {
            true => (Arc::default(), Vec::new()),
            false => (self.index.clone(), self.stale.iter().copied().collect()),
        };
        Outlook { index, fleet: self.fleet.snapshot(), stale, modes: self.modes.clone() }
    }

    pub(crate) fn dues(&self, job: JobId) -> JobDues<'_> {
        let holes = self.extras.get(&job).map_or(&[][..], |extra| &extra.holes);
        JobDues { fleet: &self.fleet, job: job.0, holes }
    }

    fn set_schedules(&mut self, job: JobId, schedules: &[ScheduleEntry], now: Millis) {
        let at = job.index();
        if self.modes.len() <= at {
            self.modes.resize(at + 1, Mode::Absent);
            self.watermarks.resize(at + 1, Millis::MIN);
        }
        let starts: Vec<Arc<Schedule>> = schedules
            .iter()
            .filter(|entry| entry.action == ScheduleAction::Start)
            .map(|entry| entry.schedule.clone())
            .collect();
        self.fleet.set(job.0, &starts);
        self.stale.insert(job.0);
        if let Some(changed) = &mut self.building {
            changed.insert(job.0);
        }
        let timed: Vec<Timed> = schedules
            .iter()
            .filter(|entry| entry.action != ScheduleAction::Start)
            .map(|entry| Timed { action: entry.action, schedule: entry.schedule.clone() })
            .collect();
        if timed.is_empty() {
            self.timed.remove(&job);
        } else {
            let from = now.saturating_sub(1);
            for (no, timed) in timed.iter().enumerate() {
                self.timed_next.extend(timed.schedule.next(from).map(|due| (due, job, no)));
            }
            self.timed.insert(job, timed);
        }
    }

    /// Judges every live job by itself.
    fn judge_all(&mut self, now: Millis, horizon: Millis, policies: &impl Policies, plan: &mut Plan) {
        for at in 0..self.modes.len() {
            if self.modes[at] == Mode::Live {
                let job = JobId(at as u32);
                self.judge_job(job, &[], now, horizon, &policies.policy(job), plan);
            }
        }
        self.behind.clear();
    }

    /// Judges one job from its watermark to the horizon: what is missed by policy, the rest is promised. Missed dues
    /// that are `promised` already are judged with them; what becomes of their runs is the caller's business.
    fn judge_job(
        &mut self,
        job: JobId,
        promised: &[Millis],
        now: Millis,
        horizon: Millis,
        policy: &Policy,
        plan: &mut Plan,
    ) -> Judgement {
        let at = job.index();
        let mode = self.modes.get(at).copied().unwrap_or_default();
        if mode != Mode::Live && promised.is_empty() {
            return Judgement::default();
        }
        let window_to = self.extras.get_mut(&job).and_then(|extra| extra.window_to.take()).unwrap_or(now);
        let watermark = self.watermarks[at];
        let others_from = watermark.saturating_add(1);
        let missed_to = catch_up::missed_before(now);
        let from = promised.first().map_or(others_from, |first| others_from.min(*first));
        let mut judgement = Judgement::default();
        if from < missed_to {
            let others = &self.dues(job);
            let dues = PartlyPromised { promised, others_from, others };
            judgement = catch_up::judge(policy, &dues, from, missed_to, window_to);
        }
        if mode != Mode::Live {
            // A backlog hands its dues over by itself.
            return judgement;
        }
        for &(first, last, _, reason) in &judgement.skips {
            if let Some(skip) = self.unrecorded(job, watermark.max(first.saturating_sub(1)), last, reason) {
                plan.skips.push(skip);
                self.raise(job, skip.last_due);
                plan.states.insert(job);
            }
        }
        if let Some(due) = judgement.once.filter(|due| promised.binary_search(due).is_err()) {
            self.promise(job, due, now, plan);
        }
        if let Some(start) = judgement.backlog_from {
            let mut next = self.dues(job).first(start.max(others_from), missed_to);
            if policy.overlap != Overlap::Allow {
                self.modes[at] = Mode::Backlog;
                // Those that are promised go first; the next one follows when they have ended.
                if let Some(due) = next.filter(|_| promised.last().is_none_or(|last| *last < start)) {
                    self.promise(job, due, now, plan);
                }
                return judgement;
            }
            while let Some(due) = next {
                self.promise(job, due, now, plan);
                next = self.dues(job).next(due).filter(|&due| due < missed_to);
            }
        }
        let mut after = self.watermarks[at].max(missed_to.saturating_sub(1));
        while let Some(due) = self.dues(job).next(after).filter(|&due| due <= horizon) {
            self.promise(job, due, now, plan);
            after = due;
        }
        judgement
    }

    /// Promises the dues of `(planned_to, horizon]` of all live jobs: from the index where it knows, from the
    /// schedules themselves where it does not.
    fn plan_live(&mut self, planned_to: Millis, horizon: Millis, plan: &mut Plan) {
        let (start, end) = (planned_to + 1, horizon + 1);
        let mut dues: Vec<(Millis, u32)> = Vec::new();
        let index = self.index.clone();
        let covered = index.window();
        let (mid_start, mid_end) = (start.max(covered.from()), end.min(covered.to()));
        if mid_start < mid_end {
            dues.extend(index.query(mid_start, mid_end).iter().filter(|(_, job)| !self.stale.contains(job)));
            for &job in &self.stale {
                let own = JobDues { fleet: &self.fleet, job, holes: &[] };
                let mut after = mid_start - 1;
                while let Some(due) = own.next(after).filter(|&due| due < mid_end) {
                    dues.push((due, job));
                    after = due;
                }
            }
            if start < mid_start {
                self.fleet.dues_between(start, mid_start, &mut dues);
            }
            if mid_end < end {
                self.fleet.dues_between(mid_end, end, &mut dues);
            }
        } else {
            self.fleet.dues_between(start, end, &mut dues);
        }
        for (due, job) in dues {
            let at = job as usize;
            let job = JobId(job);
            // A job that is behind is judged by itself, from its own watermark.
            let open = self.modes[at] == Mode::Live && due > self.watermarks[at];
            if open && !self.behind.contains(&job) && !self.is_recorded_ahead(job, due) {
                plan.promises.push(PlannedRun { due, job, trigger: Trigger::Schedule });
                plan.states.insert(job);
            }
        }
        for run in &plan.promises {
            self.raise(run.job, run.due);
        }
    }

    /// Whether a due after the watermark is recorded as part of a pause.
    fn is_recorded_ahead(&self, job: JobId, due: Millis) -> bool {
        let holes = self.extras.get(&job).map_or(&[][..], |extra| &extra.holes);
        holes.iter().any(|(from, to)| *from < due && due <= *to)
    }

    fn plan_timed(&mut self, now: Millis, horizon: Millis, plan: &mut Plan) {
        while let Some(&(due, job, no)) = self.timed_next.first().filter(|(due, ..)| *due <= horizon) {
            self.timed_next.pop_first();
            let Some(timed) = self.timed.get(&job).and_then(|timed| timed.get(no)) else { continue };
            // An entry of a schedule that was edited meanwhile names an instant that is no longer due.
            if timed.schedule.next(due - 1) != Some(due) {
                continue;
            }
            let missed = catch_up::lateness(due, now) == Lateness::Missed;
            let live = matches!(self.modes[job.index()], Mode::Live | Mode::Backlog);
            if live && !missed {
                match timed.action {
                    ScheduleAction::Stop => plan.stops.push((due, job)),
                    _ => plan.promises.push(PlannedRun { due, job, trigger: Trigger::Restart }),
                }
            }
            let from = due.max(catch_up::missed_before(now) - 1);
            self.timed_next.extend(timed.schedule.next(from).map(|due| (due, job, no)));
        }
        // Two stop schedules may name the same instant.
        plan.stops.sort_unstable();
        plan.stops.dedup();
    }

    fn promise(&mut self, job: JobId, due: Millis, now: Millis, plan: &mut Plan) {
        let missed = catch_up::lateness(due, now) == Lateness::Missed;
        let trigger = if missed { Trigger::CatchUp } else { Trigger::Schedule };
        plan.promises.push(PlannedRun { due, job, trigger });
        plan.states.insert(job);
        self.raise(job, due);
    }

    /// Watermarks only rise. Holes that the watermark has passed are forgotten.
    pub(crate) fn raise(&mut self, job: JobId, due: Millis) {
        let mark = &mut self.watermarks[job.index()];
        *mark = (*mark).max(due);
        let mark = *mark;
        if let Some(extra) = self.extras.get_mut(&job) {
            extra.holes.retain(|(_, to)| *to > mark);
            if extra.is_empty() {
                self.extras.remove(&job);
            }
        }
    }
}
