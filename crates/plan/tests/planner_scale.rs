//! A fleet after a month of downtime: decided by counting, not by listing.

use std::sync::Arc;

use cadran_core::{
    JobId, JobState, Millis, Misfire, Overlap, Policy, Schedule, ScheduleAction, ScheduleEntry, SkipReason,
    Trigger, Zone,
};
use cadran_cron::Dialect;
use cadran_plan::{Plan, Planner, Policies};

const JOBS: u32 = 1_000;
const MINUTE: Millis = 60_000;
const DAY: Millis = 86_400_000;
/// 2026-03-02T10:30:30Z
const WENT: Millis = 1_772_447_430_000;

struct Same(Policy);

impl Policies for Same {
    fn policy(&self, _: JobId) -> Policy {
        self.0
    }
}

fn schedules(texts: &[&str]) -> Vec<ScheduleEntry> {
    let entry = |text: &&str| ScheduleEntry {
        schedule: Arc::new(Schedule::parse(text, &Zone::utc(), Dialect::Cadran).unwrap()),
        action: ScheduleAction::Start,
    };
    texts.iter().map(entry).collect()
}

/// The first tick after thirty days, for so many jobs.
fn month(policy: Policy, texts: &[&str], jobs: u32) -> Plan {
    let schedules = schedules(texts);
    let mut planner = Planner::default();
    let now = WENT + 30 * DAY;
    for job in 0..jobs {
        let state = JobState { job: JobId(job), watermark: Some(WENT), paused_at: None, holes: Vec::new() };
        planner.restore(&schedules, &state, now);
    }
    let mut plan = Plan::default();
    planner.tick(now, &Same(policy), &mut plan);
    plan
}

fn policy(misfire: Misfire, window_ms: Millis, overlap: Overlap) -> Policy {
    Policy { misfire, catchup_window_ms: window_ms, overlap, ..Policy::DEFAULT }
}

fn count(plan: &Plan, reason: SkipReason) -> u64 {
    plan.skips.iter().filter(|skip| skip.reason == reason).map(|skip| skip.count).sum()
}

#[test]
fn a_thousand_jobs_after_a_month() {
    let missed = u64::from(JOBS) * 43_200;
    let check = |policy: Policy, runs: usize, skipped: &[(SkipReason, u64)]| {
        let plan = month(policy, &["* * * * *"], JOBS);
        assert_eq!(plan.promises.len(), runs, "{policy:?}");
        assert_eq!(plan.states.len(), JOBS as usize);
        for &(reason, dues) in skipped {
            assert_eq!(count(&plan, reason), dues, "{policy:?} {reason:?}");
        }
        // One stretch for each job and reason, however many dues it holds.
        assert_eq!(plan.skips.len(), JOBS as usize * skipped.len(), "{policy:?}");
        assert!(plan.promises.iter().all(|run| run.trigger == Trigger::CatchUp));
        let sorted = plan.promises.is_sorted_by_key(|run| (run.due, run.job));
        assert!(sorted, "in the order (due, job)");
    };
    let jobs = JOBS as usize;
    let each = u64::from(JOBS);
    use SkipReason::{BacklogLimit, Missed, OutsideWindow, Superseded};
    check(policy(Misfire::Skip, 0, Overlap::Skip), 0, &[(Missed, missed)]);
    check(policy(Misfire::Once, 0, Overlap::Skip), jobs, &[(Superseded, missed - each)]);
    // A backlog hands over its first due; the rest follow one after another.
    let hour = policy(Misfire::All, 60 * MINUTE, Overlap::Skip);
    check(hour, jobs, &[(OutsideWindow, missed - 60 * each)]);
    let whole = policy(Misfire::All, 60 * DAY, Overlap::Wait);
    check(whole, jobs, &[(BacklogLimit, missed - 1_000 * each)]);
    let both = policy(Misfire::All, 20 * DAY, Overlap::Replace);
    check(both, jobs, &[(OutsideWindow, 14_400 * each), (BacklogLimit, (28_800 - 1_000) * each)]);
    let parallel = policy(Misfire::All, 60 * MINUTE, Overlap::Allow);
    check(parallel, 60 * jobs, &[(OutsideWindow, missed - 60 * each)]);
    let latest = policy(Misfire::All, 60 * MINUTE, Overlap::Latest);
    check(latest, jobs, &[(OutsideWindow, missed - 60 * each), (Superseded, 59 * each)]);
}

#[test]
fn merged_schedules_after_a_month() {
    // 43,200 minutes, and 720 dues at half past the minute that no other names; the hourly ones are minutes too.
    let texts = ["* * * * *", "0 * * * *", "30 0 * * * *"];
    let plan = month(policy(Misfire::Once, 0, Overlap::Skip), &texts, 20);
    assert_eq!(count(&plan, SkipReason::Superseded), 20 * (43_200 + 720 - 1));
}

#[test]
fn seconds_after_a_month() {
    let plan = month(policy(Misfire::All, 60 * DAY, Overlap::Skip), &["* * * * * *"], 20);
    // Ten seconds and less are not missed: they are the live end that follows the backlog.
    assert_eq!(count(&plan, SkipReason::BacklogLimit), 20 * (30 * 86_400 - 1_000 - 11));
    assert_eq!(plan.promises.len(), 20);
}
