//! The numbers that stand for words in rows. They are on disk: a number is never changed and never used again.

use cadran_core::{History, JobId, Millis, RunId, RunStatus, SkipReason, Trigger};

/// Statuses below this are open. Partial indexes and queries rely on it.
pub(crate) const STATUS_ENDED_FROM: i64 = 3;

/// Triggers below this answer a due, so that (job, due) is unique among them. The index in the migrations relies
/// on it, hence the test below.
#[cfg(test)]
const TRIGGER_UNSCHEDULED_FROM: i64 = 10;

/// The code of [`RunStatus::Succeeded`].
pub(crate) const STATUS_SUCCEEDED: i64 = 3;

pub(crate) const fn status_code(status: RunStatus) -> i16 {
    match status {
        RunStatus::Promised => 0,
        RunStatus::Waiting => 1,
        RunStatus::Running => 2,
        RunStatus::Succeeded => 3,
        RunStatus::Failed => 4,
        RunStatus::Stopped => 5,
        RunStatus::Skipped => 6,
        RunStatus::Lost => 7,
        RunStatus::PartiallySucceeded => 8,
    }
}

pub(crate) fn status(code: i64) -> Option<RunStatus> {
    RunStatus::WORDS.iter().map(|(status, _)| *status).find(|status| i64::from(status_code(*status)) == code)
}

pub(crate) const fn trigger_code(trigger: Trigger) -> i16 {
    match trigger {
        Trigger::Schedule => 0,
        Trigger::CatchUp => 1,
        Trigger::Restart => 2,
        Trigger::Manual => 10,
        Trigger::Child => 11,
    }
}

pub(crate) fn trigger(code: i64) -> Option<Trigger> {
    Trigger::WORDS
        .iter()
        .map(|(trigger, _)| *trigger)
        .find(|trigger| i64::from(trigger_code(*trigger)) == code)
}

pub(crate) const fn reason_code(reason: SkipReason) -> i16 {
    match reason {
        SkipReason::Missed => 0,
        SkipReason::Superseded => 1,
        SkipReason::OutsideWindow => 2,
        SkipReason::BacklogLimit => 3,
        SkipReason::Paused => 4,
        SkipReason::Overlap => 5,
        SkipReason::WaitRoomFull => 6,
        SkipReason::Removed => 7,
        SkipReason::AlreadySuccessful => 8,
        SkipReason::Precondition => 9,
        SkipReason::Conflict => 10,
        SkipReason::Capacity => 11,
    }
}

pub(crate) fn reason(code: i64) -> Option<SkipReason> {
    SkipReason::WORDS.iter().map(|(reason, _)| *reason).find(|reason| i64::from(reason_code(*reason)) == code)
}

/// A history as two numbers: what is counted (0 days, 1 runs) and how many.
pub(crate) const fn history_code(history: History) -> (i16, i64) {
    match history {
        History::Days(days) => (0, days as i64),
        History::Count(count) => (1, count as i64),
    }
}

pub(crate) fn history(kind: i64, amount: i64) -> Option<History> {
    let amount = u32::try_from(amount).ok()?;
    match kind {
        0 => Some(History::Days(amount)),
        1 => Some(History::Count(amount)),
        _ => None,
    }
}

/// A day of a history.
pub(crate) const DAY_MS: Millis = 24 * 60 * 60 * 1000;

/// A run id in a signed column; its top bit is never set.
pub(crate) const fn run_code(run: RunId) -> i64 {
    run.raw() as i64
}

pub(crate) const fn run(code: i64) -> RunId {
    RunId::from_raw(code as u64)
}

pub(crate) fn job(code: i64) -> Option<JobId> {
    u32::try_from(code).ok().map(JobId)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_on_disk_never_change() {
        let statuses: Vec<_> = RunStatus::WORDS.iter().map(|(s, word)| (status_code(*s), *word)).collect();
        assert_eq!(
            statuses,
            [
                (0, "promised"),
                (1, "waiting"),
                (2, "running"),
                (3, "succeeded"),
                (4, "failed"),
                (5, "stopped"),
                (6, "skipped"),
                (7, "lost"),
                (8, "partially_succeeded")
            ]
        );
        let triggers: Vec<_> = Trigger::WORDS.iter().map(|(t, word)| (trigger_code(*t), *word)).collect();
        assert_eq!(
            triggers,
            [(0, "schedule"), (1, "catch_up"), (2, "restart"), (10, "manual"), (11, "child")]
        );
        let reasons: Vec<_> = SkipReason::WORDS.iter().map(|(r, word)| (reason_code(*r), *word)).collect();
        assert_eq!(
            reasons,
            [
                (0, "missed"),
                (1, "superseded"),
                (2, "outside_window"),
                (3, "backlog_limit"),
                (4, "paused"),
                (5, "overlap"),
                (6, "wait_room_full"),
                (7, "removed"),
                (8, "already_successful"),
                (9, "precondition"),
                (10, "conflict"),
                (11, "capacity")
            ]
        );
    }

    #[test]
    fn every_word_comes_back_from_its_code() {
        for (value, _) in RunStatus::WORDS {
            assert_eq!(status(status_code(*value).into()), Some(*value));
            assert_eq!(i64::from(status_code(*value)) >= STATUS_ENDED_FROM, value.is_ended(), "{value:?}");
        }
        for (value, _) in Trigger::WORDS {
            assert_eq!(trigger(trigger_code(*value).into()), Some(*value));
            assert_eq!(i64::from(trigger_code(*value)) < TRIGGER_UNSCHEDULED_FROM, value.is_scheduled());
        }
        for (value, _) in SkipReason::WORDS {
            assert_eq!(reason(reason_code(*value).into()), Some(*value));
        }
        for value in [History::Days(0), History::Days(30), History::Count(u32::MAX)] {
            let (kind, amount) = history_code(value);
            assert_eq!(history(kind.into(), amount), Some(value));
        }
        assert_eq!(i64::from(status_code(RunStatus::Succeeded)), STATUS_SUCCEEDED);
        assert_eq!((status(99), trigger(99), reason(99), history(9, 9)), (None, None, None, None));
    }
}
