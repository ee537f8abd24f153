//! The dues of one job: all its start schedules merged, stretches that are recorded already left out.

use cadran_core::Millis;
use cadran_cron::Schedule;

use crate::catch_up::Missed;
use crate::index::Fleet;

/// The dues of one job, asked lazily.
pub(crate) struct JobDues<'a> {
    pub(crate) fleet: &'a Fleet,
    pub(crate) job: u32,
    /// Stretches `(from, to]` whose dues are recorded already, in order, apart from one another.
    pub(crate) holes: &'a [(Millis, Millis)],
}

impl JobDues<'_> {
    fn schedules(&self) -> impl Iterator<Item = &Schedule> {
        self.fleet.schedules(self.job)
    }

    /// The first due strictly after `after`.
    pub(crate) fn next(&self, mut after: Millis) -> Option<Millis> {
        loop {
            let due = self.schedules().filter_map(|schedule| schedule.next(after)).min()?;
            match self.holes.iter().find(|(from, to)| *from < due && due <= *to) {
                Some(&(_, to)) => after = to,
                None => return Some(due),
            }
        }
    }

    /// The dues in `[from, to)`, in order.
    pub(crate) fn between(&self, from: Millis, to: Millis) -> impl Iterator<Item = Millis> {
        let next = move |after: Millis| self.next(after).filter(|&due| due < to);
        std::iter::successors(next(from.saturating_sub(1)), move |&due| next(due))
    }

    /// Dues of all schedules in `[from, to)`, holes not considered, each instant once.
    fn count_union(&self, from: Millis, to: Millis) -> u64 {
        if from >= to {
            return 0;
        }
        // The densest is counted by its bits. Only the others are walked, to see which instants are new.
        let mut counted: Vec<(u64, &Schedule)> =
            self.schedules().map(|schedule| (schedule.count(from, to), schedule)).collect();
        counted.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        let mut total = counted.first().map_or(0, |(count, _)| *count);
        for (at, (_, schedule)) in counted.iter().enumerate().skip(1) {
            total += schedule
                .between(from, to)
                .filter(|&due| !counted[..at].iter().any(|(_, earlier)| earlier.next(due - 1) == Some(due)))
                .count() as u64;
        }
        total
    }

    /// `[from, to)` without the holes.
    fn stretches(&self, from: Millis, to: Millis) -> impl Iterator<Item = (Millis, Millis)> {
        let mut start = from;
        let borders = self.holes.iter().copied().chain([(to, Millis::MAX)]);
        borders.filter_map(move |(hole_from, hole_to)| {
            let stretch = (start, hole_from.saturating_add(1).min(to));
            start = start.max(hole_to.saturating_add(1));
            (stretch.0 < stretch.1).then_some(stretch)
        })
    }
}

impl Missed for JobDues<'_> {
    fn count(&self, from: Millis, to: Millis) -> u64 {
        self.stretches(from, to).map(|(from, to)| self.count_union(from, to)).sum()
    }

    fn last_before(&self, before: Millis, from: Millis) -> Option<Millis> {
        let mut stretches: Vec<_> = self.stretches(from, before).collect();
        while let Some((from, to)) = stretches.pop() {
            let last = self.schedules().filter_map(|schedule| schedule.previous(to)).max();
            if let Some(due) = last.filter(|&due| due >= from) {
                return Some(due);
            }
        }
        None
    }

    fn first(&self, from: Millis, to: Millis) -> Option<Millis> {
        self.next(from.saturating_sub(1)).filter(|&due| due < to)
    }
}
