//! The planner alone: ticks, edits, pauses, removals.

use std::collections::BTreeMap;
use std::sync::Arc;

use cadran_core::{
    JobId, JobState, Millis, Misfire, Overlap, Policy, Schedule, ScheduleAction, ScheduleEntry, SkipReason,
    Trigger, Zone,
};
use cadran_cron::Dialect;
use cadran_plan::index::{Buffers, build};
use cadran_plan::{Plan, PlannedSkip, Planner, Policies};

/// 2026-03-02T10:30:00Z
const T0: Millis = 1_772_447_400_000;
const SEC: Millis = 1_000;
const MINUTE: Millis = 60 * SEC;
const JOB: JobId = JobId(0);

#[derive(Default)]
struct Book(BTreeMap<JobId, Policy>);

impl Policies for Book {
    fn policy(&self, job: JobId) -> Policy {
        self.0.get(&job).copied().unwrap_or_default()
    }
}

fn schedules(text: &str) -> Vec<ScheduleEntry> {
    let entry = |part: &str| {
        let (action, text) = match part.trim().split_once(": ") {
            Some(("stop", text)) => (ScheduleAction::Stop, text),
            Some(("restart", text)) => (ScheduleAction::Restart, text),
            _ => (ScheduleAction::Start, part),
        };
        let schedule = Schedule::parse(text.trim(), &Zone::utc(), Dialect::Cadran).unwrap();
        ScheduleEntry { schedule: Arc::new(schedule), action }
    };
    text.split('|').map(entry).collect()
}

fn tick(planner: &mut Planner, now: Millis, policy: Policy) -> Plan {
    let mut plan = Plan::default();
    planner.tick(now, &Book([(JOB, policy)].into()), &mut plan);
    plan
}

/// Dues of the promises, in seconds after T0.
fn dues(plan: &Plan) -> Vec<Millis> {
    plan.promises.iter().map(|run| (run.due - T0) / SEC).collect()
}

#[test]
fn a_tick_promises_up_to_the_horizon_and_nothing_twice() {
    let mut planner = Planner::default();
    planner.add(JOB, &schedules("*/2 * * * * *"), T0);
    assert_eq!(dues(&tick(&mut planner, T0, Policy::DEFAULT)), [2, 4]);
    assert_eq!(dues(&tick(&mut planner, T0, Policy::DEFAULT)), [0; 0]);
    assert_eq!(dues(&tick(&mut planner, T0 + SEC, Policy::DEFAULT)), [6]);
    assert_eq!(dues(&tick(&mut planner, T0 + 2 * SEC, Policy::DEFAULT)), [0; 0]);
    // The clock steps back: nothing again, and nothing lost when it has caught up.
    assert_eq!(dues(&tick(&mut planner, T0 - MINUTE, Policy::DEFAULT)), [0; 0]);
    assert_eq!(dues(&tick(&mut planner, T0 + 3 * SEC, Policy::DEFAULT)), [8]);
    assert_eq!(planner.state(JOB).watermark, Some(T0 + 8 * SEC));
}

#[test]
fn the_index_is_an_optimisation_and_never_a_filter() {
    let with = |every: usize| {
        let mut planner = Planner::default();
        let texts = ["* * * * *", "*/7 * * * * *", "every 900ms", "0 */5 * * * * | every 11s"];
        for (job, text) in texts.iter().enumerate() {
            planner.add(JobId(job as u32), &schedules(text), T0);
        }
        let mut all = Vec::new();
        let mut buffers = Buffers::default();
        for no in 0..600 {
            let now = T0 + no as Millis * SEC;
            let mut plan = Plan::default();
            if no == 300 {
                planner.update(JobId(1), &schedules("*/3 * * * * *"), &Policy::DEFAULT, now, &mut plan);
            }
            planner.tick(now, &Book::default(), &mut plan);
            all.extend(plan.promises.iter().map(|run| (run.due, run.job)));
            if every > 0 && no % every == 0 {
                let order = planner.build(now, 40 * SEC);
                if let Some(order) = order {
                    planner.install(Arc::new(build(&order.fleet, order.window, &mut buffers)));
                }
            }
        }
        all.sort_unstable();
        all
    };
    let plain = with(0);
    assert!(plain.len() > 800);
    assert_eq!(with(1), plain);
    assert_eq!(with(37), plain);
    assert_eq!(with(90), plain, "an index that runs out");
}

#[test]
fn a_dense_fleet_gets_a_shorter_index() {
    const TWO_HOURS: Millis = 120 * MINUTE;
    let with = |jobs: u32| {
        let mut planner = Planner::default();
        for job in 0..jobs {
            planner.add(JobId(job), &schedules("every 1s"), T0);
        }
        planner
    };
    let order = with(1_000).build(T0, TWO_HOURS).expect("an index");
    assert_eq!(order.window.to(), T0 + TWO_HOURS, "a small fleet gets all of it at once");
    // Of a large one only its density in the first minutes tells how much fits.
    let mut planner = with(2_000);
    let order = planner.build(T0, TWO_HOURS).expect("an index");
    assert_eq!(order.window.to(), T0 + 10 * MINUTE);
    planner.install(Arc::new(build(&order.fleet, order.window, &mut Buffers::default())));
    let order = planner.build(T0 + SEC, TWO_HOURS).expect("a longer index");
    let secs = (order.window.to() - T0) / SEC;
    assert!((2_900..=3_100).contains(&secs), "two thousand a second are six million in {secs} s");
}

#[test]
fn a_restart_stands_for_a_start_at_the_same_instant() {
    let mut planner = Planner::default();
    planner.add(
        JOB,
        &schedules("*/2 * * * * * | restart: */4 * * * * * | stop: */4 * * * * * | stop: 4 * * * * *"),
        T0,
    );
    let plan = tick(&mut planner, T0 + SEC, Policy::DEFAULT);
    let runs: Vec<_> = plan.promises.iter().map(|run| ((run.due - T0) / SEC, run.trigger)).collect();
    assert_eq!(
        runs,
        [(0, Trigger::Restart), (2, Trigger::Schedule), (4, Trigger::Restart), (6, Trigger::Schedule)]
    );
    // Two stop schedules that name one instant are one stop.
    assert_eq!(plan.stops, [(T0, JOB), (T0 + 4 * SEC, JOB)]);
}

#[test]
fn a_backlog_hands_over_one_due_after_another() {
    let policy = Policy { misfire: Misfire::All, catchup_window_ms: 60 * MINUTE, ..Policy::DEFAULT };
    let mut planner = Planner::default();
    let state = JobState { job: JOB, watermark: Some(T0), paused_at: None, holes: vec![] };
    let mut now = T0 + 3 * MINUTE;
    planner.restore(&schedules("* * * * *"), &state, now);
    assert_eq!(dues(&tick(&mut planner, now, policy)), [60]);
    assert!(planner.has_backlog(JOB));
    now += 20 * SEC;
    assert_eq!(dues(&tick(&mut planner, now, policy)), [0; 0], "nothing until the run before has ended");
    for expected in [120, 180] {
        let mut plan = Plan::default();
        planner.backlog_next(JOB, now, &mut plan);
        assert_eq!(dues(&plan), [expected]);
    }
    let mut plan = Plan::default();
    planner.backlog_next(JOB, now, &mut plan);
    assert!(plan.promises.is_empty() && !planner.has_backlog(JOB));
    assert_eq!(dues(&tick(&mut planner, T0 + 236 * SEC, policy)), [240]);
}

#[test]
fn too_many_pauses_in_a_backlog_count_each_due_once() {
    let policy = Policy {
        misfire: Misfire::All,
        catchup_window_ms: 60 * MINUTE,
        overlap: Overlap::Wait,
        ..Policy::DEFAULT
    };
    let mut planner = Planner::default();
    let state = JobState { job: JOB, watermark: Some(T0), paused_at: None, holes: vec![] };
    let mut now = T0 + 30 * MINUTE + 30 * SEC;
    planner.restore(&schedules("* * * * *"), &state, now);
    let mut promised = tick(&mut planner, now, policy).promises.len() as u64;
    let mut skips: Vec<PlannedSkip> = Vec::new();
    for _ in 0..20 {
        let mut plan = Plan::default();
        assert!(planner.pause(JOB, now));
        now += MINUTE;
        assert!(planner.resume(JOB, now, &mut plan));
        now += MINUTE;
        planner.tick(now, &Book([(JOB, policy)].into()), &mut plan);
        promised += plan.promises.len() as u64;
        skips.append(&mut plan.skips);
        assert!(planner.state(JOB).holes.len() <= 16, "its state stays small");
    }
    while planner.has_backlog(JOB) {
        let mut plan = Plan::default();
        planner.backlog_next(JOB, now, &mut plan);
        promised += plan.promises.len() as u64;
        skips.append(&mut plan.skips);
    }
    let plan = tick(&mut planner, now, policy);
    promised += plan.promises.len() as u64;
    let counted: u64 = skips.iter().map(|skip| skip.count).sum();
    assert!(skips.iter().any(|skip| skip.reason == SkipReason::BacklogLimit));
    assert_eq!(promised + counted, 70, "30 minutes down and 40 of pauses: {skips:?}");
}

#[test]
fn a_removed_job_tells_what_is_left_of_it() {
    let policy = Policy { misfire: Misfire::All, catchup_window_ms: 60 * MINUTE, ..Policy::DEFAULT };
    let mut planner = Planner::default();
    let state = JobState { job: JOB, watermark: Some(T0), paused_at: None, holes: vec![] };
    let now = T0 + 5 * MINUTE + SEC;
    planner.restore(&schedules("* * * * *"), &state, now);
    assert_eq!(dues(&tick(&mut planner, now, policy)), [60]);
    let left = planner.remove(JOB, now).unwrap();
    assert_eq!((left.first_due - T0, left.last_due - T0, left.count), (2 * MINUTE, 5 * MINUTE, 4));
    assert_eq!(planner.remove(JOB, now), None, "once");
    // It comes back as it was, or is forgotten.
    planner.undo_removal(JOB, &schedules("* * * * *"), now);
    assert_eq!(dues(&tick(&mut planner, now, policy)), [120]);
    planner.remove(JOB, now);
    planner.forget(JOB);
    assert_eq!(planner.state(JOB).watermark, None);
}

#[test]
fn a_watermark_that_cannot_be_true_counts_as_lost() {
    for watermark in [None, Some(-1), Some(Millis::MIN), Some(Millis::MAX), Some(T0 + 400 * 24 * 60 * MINUTE)]
    {
        let mut planner = Planner::default();
        let state = JobState { job: JOB, watermark, paused_at: None, holes: vec![] };
        planner.restore(&schedules("*/2 * * * * *"), &state, T0);
        let plan = tick(&mut planner, T0, Policy::DEFAULT);
        assert_eq!((dues(&plan), plan.skips.len()), (vec![2, 4], 0), "{watermark:?}");
    }
}
