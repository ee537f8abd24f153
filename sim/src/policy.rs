//! Misfire, catch-up and overlap: is what was decided what the job's policy says?

use cadran_core::{
    Batch, Job, Millis, Misfire, OnConflict, Overlap, Promise, RunStatus, RunUpdate, ScheduleAction, Skip,
    SkipReason, Trigger,
};

use crate::law::{Checker, OpenRun, Violation, broken};
use crate::life::Life;

/// Beyond this a due is missed.
pub(crate) const DIRECT_MS_MAX: Millis = 10_000;

/// A backlog keeps its newest so many dues.
const BACKLOG_MAX: u64 = 1_000;

/// More runs than this of one job are never promised ahead and late together: some seconds of the shortest interval.
const PROMISED_MAX: u64 = 64;

/// How many dues of the job's start schedules lie in `[from, to)`, each instant once.
fn count(job: &Job, from: Millis, to: Millis) -> u64 {
    let starts: Vec<_> = job.schedules.iter().filter(|entry| entry.action == ScheduleAction::Start).collect();
    if let [only] = starts[..] {
        return only.schedule.count(from, to);
    }
    let mut dues = Vec::new();
    for entry in starts {
        entry.schedule.walk(from, to, &mut |due| dues.push(due));
    }
    dues.sort_unstable();
    dues.dedup();
    dues.len() as u64
}

fn next(job: &Job, after: Millis) -> Option<Millis> {
    let starts = job.schedules.iter().filter(|entry| entry.action == ScheduleAction::Start);
    starts.filter_map(|entry| entry.schedule.next(after)).min()
}

/// The next due that no pause took.
fn next_open(job: &Job, life: &Life, mut after: Millis) -> Option<Millis> {
    loop {
        after = next(job, after)?;
        if !life.is_paused_at(after) {
            return Some(after);
        }
    }
}

/// A run was promised with this batch.
pub(crate) fn promise(checker: &Checker, promise: &Promise, batch: &Batch) -> Result<(), Violation> {
    let Some(life) = checker.jobs.get(&promise.job) else {
        return broken("no run without a due or a trigger by hand", format!("{promise:?} of no job"));
    };
    let job = &checker.definitions[life.definition];
    let (name, policy) = (&life.name, &job.policy);
    let late = promise.promised_at - promise.due;
    match promise.trigger {
        Trigger::Manual | Trigger::Child | Trigger::Restart => return Ok(()),
        Trigger::Schedule if late > DIRECT_MS_MAX => {
            return broken(
                "a due more than 10 s late is missed",
                format!("{name}: {} promised as if in time, {late} ms late", promise.due),
            );
        }
        Trigger::Schedule => return Ok(()),
        Trigger::CatchUp if late <= DIRECT_MS_MAX => {
            return broken(
                "a due at most 10 s late is not missed",
                format!("{name}: {} caught up, {late} ms late", promise.due),
            );
        }
        Trigger::CatchUp => {}
    }
    let missed_to = promise.promised_at - DIRECT_MS_MAX;
    match policy.misfire {
        Misfire::Skip => broken("misfire skip runs no missed due", format!("{name}: {}", promise.due)),
        Misfire::Once => match next_open(job, life, promise.due).filter(|due| *due < missed_to) {
            Some(newer) => broken(
                "misfire once runs the newest missed due",
                format!("{name}: {} although {newer} is missed too", promise.due),
            ),
            None => Ok(()),
        },
        Misfire::All => {
            let border = promise.promised_at.saturating_sub(policy.catchup_window_ms);
            // A backlog that is under way goes on, however long it takes; so does one that waited for a run which ends with
            // this batch.
            let goes_on = || life.marks.iter().any(|mark| next(job, mark.due) == Some(promise.due));
            let mut ended = batch.runs.iter().filter(|update| update.status.is_ended());
            let mut waited = || {
                ended.any(|update| checker.open.get(&update.run).is_some_and(|run| run.job == promise.job))
            };
            if promise.due <= border
                && life.caught_up == 0
                && life.paused_at.is_empty()
                && !goes_on()
                && !waited()
            {
                return broken(
                    "the catch-up window ends where it says",
                    format!("{name}: {} is replayed, the window began after {border}", promise.due),
                );
            }
            if policy.overlap == Overlap::Latest
                && let Some(newer) = next_open(job, life, promise.due).filter(|due| *due < missed_to)
            {
                return broken(
                    "overlap latest replays only the newest missed due",
                    format!("{name}: {} although {newer} is missed too", promise.due),
                );
            }
            let behind = count(job, promise.due, missed_to);
            if behind > BACKLOG_MAX && life.paused_at.is_empty() {
                return broken(
                    "a backlog keeps its newest 1000 dues",
                    format!("{name}: {} has {behind} missed dues from it on", promise.due),
                );
            }
            Ok(())
        }
    }
}

/// A stretch of dues was skipped.
pub(crate) fn skip(checker: &Checker, skip: &Skip, batch: &Batch) -> Result<(), Violation> {
    let Some(life) = checker.jobs.get(&skip.job) else { return Ok(()) };
    let job = &checker.definitions[life.definition];
    let (name, policy) = (&life.name, &job.policy);
    let reason = skip.reason;
    let says = |fits: bool| {
        if fits {
            return Ok(());
        }
        broken("a skip has the reason that its policy gives", format!("{name}: {skip:?} under {policy:?}"))
    };
    let missed = skip.at - skip.last_due > DIRECT_MS_MAX;
    match reason {
        SkipReason::Missed => says(missed && policy.misfire == Misfire::Skip),
        SkipReason::Superseded => {
            let one = policy.misfire == Misfire::Once
                || policy.misfire == Misfire::All && policy.overlap == Overlap::Latest;
            let newer = batch.promised.iter().any(|promise| {
                promise.job == skip.job && promise.due > skip.last_due && promise.promised_at == skip.at
            });
            says(missed && one && newer)
        }
        SkipReason::OutsideWindow => {
            says(missed && policy.misfire == Misfire::All)?;
            let following = next_open(job, life, skip.last_due);
            let borders = life.paused_at.iter().chain([&skip.at]);
            let fits = borders.map(|at| at.saturating_sub(policy.catchup_window_ms)).any(|border| {
                let next_is_in = following.is_none_or(|due| due > border || due >= skip.at - DIRECT_MS_MAX);
                skip.last_due <= border && next_is_in
            });
            if fits {
                return Ok(());
            }
            broken(
                "the catch-up window ends where it says",
                format!(
                    "{name}: {skip:?}, the next due is {following:?}, the window {}",
                    policy.catchup_window_ms
                ),
            )
        }
        SkipReason::BacklogLimit if life.paused_at.is_empty() => {
            let kept = (
                count(job, skip.last_due + 1, skip.at - DIRECT_MS_MAX),
                count(job, skip.last_due + 1, skip.at + 1),
            );
            if kept.0 <= BACKLOG_MAX && BACKLOG_MAX <= kept.1 {
                return Ok(());
            }
            broken(
                "a backlog keeps its newest 1000 dues",
                format!("{name}: {skip:?} leaves between {} and {}", kept.0, kept.1),
            )
        }
        _ => Ok(()),
    }
}

/// A run came to its end before anything was started.
pub(crate) fn ended_unstarted(checker: &Checker, run: &OpenRun, update: &RunUpdate) -> Result<(), Violation> {
    let Some(life) = checker.jobs.get(&run.job) else { return Ok(()) };
    let current = &checker.definitions[life.definition].policy;
    let promised = &checker.job_of(run).policy;
    let late = update.ended_at.unwrap_or(run.due) - run.due;
    let fits = match (update.status, update.skip) {
        (RunStatus::Skipped, Some(reason)) => match reason {
            SkipReason::Missed => {
                late > DIRECT_MS_MAX && (current.misfire == Misfire::Skip || run.trigger == Trigger::Restart)
            }
            SkipReason::OutsideWindow => {
                current.misfire == Misfire::All && late >= current.catchup_window_ms && late > DIRECT_MS_MAX
            }
            // What was missed has to be done: it waits for whatever is active.
            SkipReason::Overlap => promised.overlap == Overlap::Skip && run.trigger != Trigger::CatchUp,
            SkipReason::AlreadySuccessful => promised.skip_if_successful,
            SkipReason::Removed | SkipReason::Paused => run.trigger.is_scheduled(),
            // While it waited, by whatever came after it; before that, only for a newer due.
            SkipReason::Superseded => {
                run.waited || life.newest_promised.is_some_and(|newest| newest > run.due)
            }
            SkipReason::WaitRoomFull => true,
            SkipReason::Conflict => checker.job_of(run).body.footprint.on_conflict == OnConflict::Skip,
            SkipReason::BacklogLimit => {
                let job = &checker.definitions[life.definition];
                let missed_to = run.due + late - DIRECT_MS_MAX;
                // What was promised under an earlier definition counts beside what the present one names.
                let promised = checker.open.values().filter(|other| {
                    other.job == run.job && !other.started && run.due < other.due && other.due < missed_to
                });
                let behind = count(job, run.due + 1, missed_to) + promised.count() as u64;
                current.misfire == Misfire::All && (behind + PROMISED_MAX >= BACKLOG_MAX)
            }
            SkipReason::Precondition | SkipReason::Capacity => false,
        },
        // Stopped while it waited.
        (RunStatus::Stopped, None) => true,
        // Its start was on record, and the server gone before the order left.
        (RunStatus::Lost | RunStatus::Failed, None) => promised.at_most_once,
        _ => false,
    };
    if fits {
        return Ok(());
    }
    broken(
        "what did not start says why, and its policy agrees",
        format!("{}: {run:?} ended as {:?} {:?}", life.name, update.status, update.skip),
    )
}
