//! What is to come? The future as the planner saw it at one moment, to be asked on any thread.
//!
//! Taking it is cheap and happens in the loop; answering may take a while and does not.

use std::sync::Arc;

use cadran_core::{JobId, Millis};

use crate::index::{Buffers, FleetSnapshot, Index, Window, build};
use crate::planner::Mode;

/// The first step beyond the index, when dues are listed. Short, because a whole fleet may be due in it.
const STEP_MS_MIN: Millis = 1_000;

/// The longest step.
const STEP_MS_MAX: Millis = 6 * 3_600_000;

/// What is indexed at a time beyond the index, when dues are counted.
const COUNTED_MS: Millis = 3_600_000;

/// More than that is not indexed at a time: 80 MB. Fleets that dense are counted as far as the index goes.
const COUNTED_RUNS_MAX: usize = 20_000_000;

/// Dues that one answer counts: some seconds of work.
const COUNTED_TOTAL_MAX: u64 = 50_000_000;

const MINUTE_MS: Millis = 60_000;

/// The future at one moment. See [`Planner::outlook`](crate::Planner::outlook).
pub struct Outlook {
    pub(crate) index: Arc<Index>,
    pub(crate) fleet: FleetSnapshot,
    /// Jobs that the index is not to be asked about.
    pub(crate) stale: Vec<u32>,
    pub(crate) modes: Vec<Mode>,
}

impl Outlook {
    /// The first dues in `[from, to)`, by (due, job), those of paused jobs left out.
    pub fn dues(&self, from: Millis, to: Millis, limit: usize) -> Vec<(Millis, JobId)> {
        let index = self.present();
        let mut dues = Vec::new();
        let mut start = from;
        let mut step = STEP_MS_MIN;
        while start < to && dues.len() < limit {
            let end = if index.window().contains(start) {
                let end = to.min(index.window().to());
                let room = limit - dues.len();
                dues.extend(index.query(start, end).iter().filter(|&(_, job)| self.is_live(job)).take(room));
                end
            } else {
                let mut end = to.min(start.saturating_add(step));
                if start < index.window().from() {
                    end = end.min(index.window().from());
                }
                let mut more = Vec::new();
                self.fleet.dues_between(start, end, &mut more);
                // So far that a page is filled in a few steps, and not so far that most of a step is thrown away.
                if more.len() < limit / 4 {
                    step = (step * 4).min(STEP_MS_MAX);
                }
                dues.extend(more.into_iter().filter(|&(_, job)| self.is_live(job)));
                end
            };
            start = end;
        }
        dues.truncate(limit);
        dues.into_iter().map(|(due, job)| (due, JobId(job))).collect()
    }

    /// The first dues of one job in `[from, to)`; none of a paused one.
    pub fn dues_of(&self, job: JobId, from: Millis, to: Millis, limit: usize) -> Vec<Millis> {
        if !self.is_live(job.0) {
            return Vec::new();
        }
        let next = |after: Millis| {
            let dues = self.fleet.schedules(job.0).filter_map(|schedule| schedule.next(after));
            dues.min().filter(|&due| due < to)
        };
        std::iter::successors(next(from.saturating_sub(1)), |&due| next(due)).take(limit).collect()
    }

    /// How many runs fall into each of the minutes that start at `from`, those of paused jobs left out. Fewer minutes
    /// than asked for when the fleet is too dense to look that far.
    pub fn counts_per_minute(&self, from: Millis, minutes: usize) -> Vec<u32> {
        let mut index = self.present();
        let mut buffers = Buffers::default();
        let mut counts = Vec::with_capacity(minutes);
        let mut total = 0;
        for n in 0..minutes as Millis {
            let start = from.saturating_add(n.saturating_mul(MINUTE_MS));
            let end = start.saturating_add(MINUTE_MS);
            if start < index.window().from() || end > index.window().to() {
                let to = index.window().to();
                if index.query(to.saturating_sub(COUNTED_MS), to).len() > COUNTED_RUNS_MAX {
                    break;
                }
                let window = Window::new(start, start.saturating_add(COUNTED_MS));
                index = Arc::new(build(&self.fleet, window, &mut buffers));
            }
            let count = self.count(&index, start, end);
            counts.push(count);
            total += u64::from(count);
            if total > COUNTED_TOTAL_MAX {
                break;
            }
        }
        counts
    }

    fn count(&self, index: &Index, start: Millis, end: Millis) -> u32 {
        let runs = index.query(start, end);
        let count = match self.modes.contains(&Mode::Paused) {
            false => runs.len(),
            true => runs.iter().filter(|&(_, job)| self.is_live(job)).count(),
        };
        count as u32
    }

    /// The index with what has changed since it was built.
    fn present(&self) -> Arc<Index> {
        if self.stale.is_empty() {
            return self.index.clone();
        }
        Arc::new(self.index.with_changed(&self.fleet, &self.stale, &mut Buffers::default()))
    }

    fn is_live(&self, job: u32) -> bool {
        matches!(self.modes.get(job as usize), Some(Mode::Live | Mode::Backlog))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cadran_core::{Policy, ScheduleAction, ScheduleEntry};
    use cadran_cron::{Dialect, Schedule, Zone};

    use super::*;
    use crate::{Plan, Planner};

    const HOUR: Millis = 3_600_000;

    fn entry(text: &str) -> [ScheduleEntry; 1] {
        let schedule = Schedule::parse(text, &Zone::utc(), Dialect::Cadran).unwrap();
        [ScheduleEntry { schedule: Arc::new(schedule), action: ScheduleAction::Start }]
    }

    /// A planner with these jobs, added at 0, and an index of the first two hours.
    fn planner(schedules: &[&str]) -> Planner {
        let mut planner = Planner::default();
        for (job, text) in (0..).zip(schedules) {
            planner.add(JobId(job), &entry(text), 0);
        }
        install(&mut planner);
        planner
    }

    fn install(planner: &mut Planner) {
        let order = planner.build(0, 2 * HOUR).expect("there is something to build");
        planner.install(Arc::new(build(&order.fleet, order.window, &mut Buffers::default())));
    }

    /// All dues by walking every schedule, those of paused jobs left out.
    fn walked(planner: &Planner, from: Millis, to: Millis) -> Vec<(Millis, JobId)> {
        let mut dues = Vec::new();
        planner.fleet().dues_between(from, to, &mut dues);
        let dues = dues.into_iter().map(|(due, job)| (due, JobId(job)));
        dues.filter(|&(_, job)| !planner.is_paused(job)).collect()
    }

    fn check(planner: &Planner) {
        let outlook = planner.outlook();
        // Before the index, in it, across its end, and beyond.
        for (from, to) in
            [(-HOUR, HOUR), (1, HOUR), (HOUR + 1, 5 * HOUR), (30 * HOUR, 60 * HOUR), (HOUR, HOUR), (9, 7)]
        {
            let all = walked(planner, from, to.max(from));
            for limit in [0, 1, 7, 1_000, usize::MAX] {
                let expected = &all[..all.len().min(limit)];
                assert_eq!(outlook.dues(from, to, limit), expected, "[{from}, {to}), {limit} of them");
            }
            for job in (0..4).map(JobId) {
                let own = all.iter().filter(|(_, its)| *its == job).map(|(due, _)| *due);
                assert!(
                    outlook.dues_of(job, from, to, usize::MAX).into_iter().eq(own),
                    "{job:?} [{from}, {to})"
                );
            }
            let counts = outlook.counts_per_minute(from, 400);
            let minute = |n: usize| {
                let start = from + n as Millis * MINUTE_MS;
                walked(planner, start, start + MINUTE_MS).len() as u32
            };
            assert!(counts.into_iter().eq((0..400).map(minute)), "counts from {from}");
        }
    }

    #[test]
    fn the_future_is_the_schedules_own() {
        let mut planner = planner(&["* * * * *", "*/20 * * * * *", "17 3 * * *", "every 90s"]);
        check(&planner);
        // Changed since the index was built.
        planner.update(JobId(0), &entry("30 5,35 * * * *"), &Policy::DEFAULT, 0, &mut Plan::default());
        planner.remove(JobId(1), 0);
        planner.add(JobId(4), &entry("every 7s"), 0);
        check(&planner);
        install(&mut planner);
        check(&planner);
        // Paused ones are not to come.
        planner.pause(JobId(4), 0);
        check(&planner);
        assert!(planner.outlook().dues_of(JobId(4), 0, HOUR, 9).is_empty());
    }

    #[test]
    fn without_an_index_the_schedules_are_asked() {
        let mut planner = Planner::default();
        check(&planner);
        for job in 0..=10_000 {
            planner.add(JobId(job), &entry("0 0 1 1 *"), 0);
        }
        planner.add(JobId(2), &entry("*/5 * * * *"), 0);
        install(&mut planner);
        for job in 0..=10_000 {
            planner.add(JobId(job), &entry("0 0 2 1 *"), 0);
        }
        planner.add(JobId(3), &entry("*/5 * * * *"), 0);
        let outlook = planner.outlook();
        assert!(outlook.index.is_empty(), "too much has changed for this index");
        assert_eq!(outlook.dues(1, 2 * HOUR, 99), walked(&planner, 1, 2 * HOUR));
        assert_eq!(outlook.counts_per_minute(0, 11), [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]);
    }
}
