//! How late is a due, and what follows from it? The only place that judges lateness.

use cadran_core::{Millis, Misfire, Overlap, Policy, SkipReason};

/// Up to here a due is on time: it goes into the ring and fires at its instant, or at once when that has passed.
pub const ON_TIME_MS_MAX: Millis = 5_000;

/// Up to here a due fires at once without its misfire policy being asked. Beyond it, the due is missed.
pub const DIRECT_MS_MAX: Millis = 10_000;

/// A backlog keeps its newest so many dues: enough for most of a day of minutes, few enough to drain.
pub const BACKLOG_MAX: u64 = 1_000;

/// How late a due is when it is processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lateness {
    /// At most five seconds, or still to come.
    OnTime,
    /// Five to ten seconds: fires at once.
    Direct,
    /// More than ten seconds: the misfire policy decides.
    Missed,
}

/// Judges one due processed at `now`.
pub fn lateness(due: Millis, now: Millis) -> Lateness {
    match now.saturating_sub(due) {
        late if late <= ON_TIME_MS_MAX => Lateness::OnTime,
        late if late <= DIRECT_MS_MAX => Lateness::Direct,
        _ => Lateness::Missed,
    }
}

/// The first instant that is not missed at `now`: dues before it are.
pub fn missed_before(now: Millis) -> Millis {
    now.saturating_sub(DIRECT_MS_MAX)
}

/// The dues a job missed, as far as the decision needs them.
///
/// The job's own calendar answers; it is asked lazily, because a month of missed minutes should cost a count, not
/// a list.
pub trait Missed {
    /// How many dues in `[from, to)`.
    fn count(&self, from: Millis, to: Millis) -> u64;
    /// The latest due before `before`, not earlier than `from`.
    fn last_before(&self, before: Millis, from: Millis) -> Option<Millis>;
    /// The earliest due in `[from, to)`.
    fn first(&self, from: Millis, to: Millis) -> Option<Millis>;
}

/// What becomes of a stretch of missed dues. Every due of the stretch is in exactly one part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Stretches that do not run: (first due, last due, count, reason), oldest first.
    pub skips: Vec<(Millis, Millis, u64, SkipReason)>,
    /// The one due that runs for all of them.
    pub once: Option<Millis>,
    /// From here on every due runs, one after another (all at once under `overlap: allow`).
    pub backlog_from: Option<Millis>,
}

impl Judgement {
    /// Why a due of the stretch does not run. `None` for one that does.
    pub fn skip_reason(&self, due: Millis) -> Option<SkipReason> {
        let within = |(first, last, ..): &&(Millis, Millis, u64, SkipReason)| (*first..=*last).contains(&due);
        self.skips.iter().find(within).map(|(.., reason)| *reason)
    }
}

/// Missed dues of which some are promised already: their runs came to nothing, because the server was away, the loop
/// stalled or the store was slow. They are judged together with the dues behind them that nobody promised.
pub struct PartlyPromised<'a, D> {
    /// The promised ones, rising.
    pub promised: &'a [Millis],
    /// Where the others begin.
    pub others_from: Millis,
    /// The others.
    pub others: &'a D,
}

impl<D: Missed> PartlyPromised<'_, D> {
    fn promised_between(&self, from: Millis, to: Millis) -> &[Millis] {
        let at = |instant: Millis| self.promised.partition_point(|due| *due < instant);
        &self.promised[at(from)..at(to.max(from))]
    }
}

impl<D: Missed> Missed for PartlyPromised<'_, D> {
    fn count(&self, from: Millis, to: Millis) -> u64 {
        let promised = self.promised_between(from, to).len() as u64;
        promised + self.others.count(from.max(self.others_from), to)
    }

    fn last_before(&self, before: Millis, from: Millis) -> Option<Millis> {
        let other = self.others.last_before(before, from.max(self.others_from));
        other.max(self.promised_between(from, before).last().copied())
    }

    fn first(&self, from: Millis, to: Millis) -> Option<Millis> {
        let other = self.others.first(from.max(self.others_from), to);
        let promised = self.promised_between(from, to).first().copied();
        promised.into_iter().chain(other).min()
    }
}

/// Decides over the dues in `[from, to)`, all of them missed at `now`.
pub fn judge(policy: &Policy, dues: &impl Missed, from: Millis, to: Millis, now: Millis) -> Judgement {
    let mut judgement = Judgement::default();
    let Some(newest) = dues.last_before(to, from) else { return judgement };
    let mut skip = |from: Millis, to: Millis, reason| {
        let count = dues.count(from, to);
        if let (Some(first), Some(last), true) = (dues.first(from, to), dues.last_before(to, from), count > 0)
        {
            judgement.skips.push((first, last, count, reason));
        }
    };
    match policy.misfire {
        Misfire::Skip => skip(from, to, SkipReason::Missed),
        Misfire::Once => {
            skip(from, newest, SkipReason::Superseded);
            judgement.once = Some(newest);
        }
        Misfire::All => {
            // The border itself is outside, as a due at the watermark is.
            let window_from =
                now.saturating_sub(policy.catchup_window_ms.max(0)).saturating_add(1).clamp(from, to);
            skip(from, window_from, SkipReason::OutsideWindow);
            if newest < window_from {
                return judgement;
            }
            if policy.overlap == Overlap::Latest {
                skip(window_from, newest, SkipReason::Superseded);
                judgement.once = Some(newest);
                return judgement;
            }
            let start = newest_from(dues, window_from, to, BACKLOG_MAX);
            skip(window_from, start, SkipReason::BacklogLimit);
            judgement.backlog_from = dues.first(start, to);
        }
    }
    judgement
}

/// The instant from which at most `limit` dues remain before `to`: `limit` steps back from the end, so that a stretch
/// of any length costs the same.
pub fn newest_from(dues: &impl Missed, from: Millis, to: Millis, limit: u64) -> Millis {
    if dues.count(from, to) <= limit {
        return from;
    }
    let mut start = to;
    for _ in 0..limit {
        let Some(due) = dues.last_before(start, from) else { return from };
        start = due;
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Missed for Vec<Millis> {
        fn count(&self, from: Millis, to: Millis) -> u64 {
            self.iter().filter(|&&due| from <= due && due < to).count() as u64
        }
        fn last_before(&self, before: Millis, from: Millis) -> Option<Millis> {
            self.iter().copied().rfind(|&due| from <= due && due < before)
        }
        fn first(&self, from: Millis, to: Millis) -> Option<Millis> {
            self.iter().copied().find(|&due| from <= due && due < to)
        }
    }

    #[test]
    fn lateness_has_two_borders() {
        let check = |late: Millis, expected: Lateness| {
            assert_eq!(lateness(100_000, 100_000 + late), expected, "{late}")
        };
        check(-5_000, Lateness::OnTime);
        check(0, Lateness::OnTime);
        check(5_000, Lateness::OnTime);
        check(5_001, Lateness::Direct);
        check(10_000, Lateness::Direct);
        check(10_001, Lateness::Missed);
        assert_eq!(lateness(Millis::MIN, Millis::MAX), Lateness::Missed);
        // The two ways to ask agree at the border.
        assert_eq!(missed_before(110_000), 100_000);
    }

    fn policy(misfire: Misfire, window: Millis, overlap: Overlap) -> Policy {
        Policy { misfire, catchup_window_ms: window, overlap, ..Policy::DEFAULT }
    }

    #[test]
    fn every_missed_due_is_in_one_part() {
        let minutes: Vec<Millis> = (0..10).map(|m| m * 60_000).collect();
        let now = 10 * 60_000;
        let to = missed_before(now);
        let check = |policy: Policy, expected: Judgement| {
            assert_eq!(judge(&policy, &minutes, 0, to, now), expected, "{policy:?}");
        };
        check(
            policy(Misfire::Skip, 0, Overlap::Skip),
            Judgement { skips: vec![(0, 540_000, 10, SkipReason::Missed)], ..Judgement::default() },
        );
        check(
            policy(Misfire::Once, 0, Overlap::Skip),
            Judgement {
                skips: vec![(0, 480_000, 9, SkipReason::Superseded)],
                once: Some(540_000),
                ..Judgement::default()
            },
        );
        check(
            policy(Misfire::All, 180_000, Overlap::Skip),
            Judgement {
                skips: vec![(0, 420_000, 8, SkipReason::OutsideWindow)],
                backlog_from: Some(480_000),
                ..Judgement::default()
            },
        );
        check(
            policy(Misfire::All, 180_000, Overlap::Latest),
            Judgement {
                skips: vec![
                    (0, 420_000, 8, SkipReason::OutsideWindow),
                    (480_000, 480_000, 1, SkipReason::Superseded),
                ],
                once: Some(540_000),
                ..Judgement::default()
            },
        );
    }

    #[test]
    fn a_backlog_keeps_its_newest_thousand() {
        let seconds: Vec<Millis> = (0..5_000).map(|s| s * 1_000).collect();
        let now = 5_000_000;
        let judged =
            judge(&policy(Misfire::All, Millis::MAX, Overlap::Skip), &seconds, 0, missed_before(now), now);
        // 4990 dues are missed (those before now − 10 s); the newest thousand stay.
        assert_eq!(judged.skips, vec![(0, 3_989_000, 3_990, SkipReason::BacklogLimit)]);
        assert_eq!(judged.backlog_from, Some(3_990_000));
    }

    #[test]
    fn promised_and_unpromised_dues_are_judged_as_one_stretch() {
        let minutes: Vec<Millis> = (5..10).map(|m| m * 60_000).collect();
        let now = 10 * 60_000;
        let check = |policy: Policy, others: &Vec<Millis>, expected: [Option<SkipReason>; 2]| {
            // Promised under an older schedule, which named half minutes.
            let promised = [210_000, 270_000];
            let dues = PartlyPromised { promised: &promised, others_from: 270_001, others };
            let judged = judge(&policy, &dues, 0, missed_before(now), now);
            assert_eq!(promised.map(|due| judged.skip_reason(due)), expected, "{policy:?} {others:?}");
        };
        let none = Vec::new();
        let superseded = Some(SkipReason::Superseded);
        check(policy(Misfire::Once, 0, Overlap::Skip), &minutes, [superseded; 2]);
        check(policy(Misfire::Once, 0, Overlap::Skip), &none, [superseded, None]);
        check(policy(Misfire::Skip, 0, Overlap::Skip), &none, [Some(SkipReason::Missed); 2]);
        let window = 600_000 - 240_000;
        check(policy(Misfire::All, window, Overlap::Skip), &minutes, [Some(SkipReason::OutsideWindow), None]);
        let latest = policy(Misfire::All, window, Overlap::Latest);
        check(latest, &minutes, [Some(SkipReason::OutsideWindow), superseded]);
        check(latest, &none, [Some(SkipReason::OutsideWindow), None]);
    }

    #[test]
    fn nothing_missed_nothing_decided() {
        let none: Vec<Millis> = vec![];
        assert_eq!(judge(&Policy::DEFAULT, &none, 0, 1_000, 20_000), Judgement::default());
    }
}
