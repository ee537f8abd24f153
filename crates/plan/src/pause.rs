//! Pauses: nothing is promised, a backlog waits, and the dues that fall into them are counted.

use cadran_core::{JobId, Millis, SkipReason};

use crate::catch_up::Missed;
use crate::planner::{Mode, Plan, Planner};

/// More pauses than this during one backlog end the backlog: its state stays small.
const HOLES_MAX: usize = 16;

impl Planner {
    /// Promises nothing for a job until it is resumed. A backlog waits. Returns whether it was not paused before.
    pub fn pause(&mut self, job: JobId, now: Millis) -> bool {
        let at = job.index();
        self.latest_now = self.latest_now.max(now);
        if matches!(self.modes[at], Mode::Paused | Mode::Absent) {
            return false;
        }
        let extra = self.extras.entry(job).or_default();
        extra.paused_at = Some(now);
        extra.backlog = self.modes[at] == Mode::Backlog;
        self.modes[at] = Mode::Paused;
        true
    }

    /// Ends a pause: the dues that fell into it are counted as skipped, then the job goes on from where it stood.
    /// Returns whether it was paused.
    pub fn resume(&mut self, job: JobId, now: Millis, plan: &mut Plan) -> bool {
        let at = job.index();
        if self.modes.get(at) != Some(&Mode::Paused) {
            return false;
        }
        let paused_at = self.extras.get(&job).and_then(|extra| extra.paused_at);
        let pending = self.count_pause(job, now, plan);
        self.modes[at] = Mode::Live;
        if let Some(extra) = self.extras.get_mut(&job) {
            extra.paused_at = None;
            extra.window_to = paused_at.filter(|_| pending && !extra.backlog);
            if pending && extra.backlog {
                self.modes[at] = Mode::Backlog;
            }
            if extra.is_empty() {
                self.extras.remove(&job);
            }
        }
        self.behind.insert(job);
        true
    }

    /// Counts the dues of a pause up to now as skipped. Returns whether dues before the pause are still to be judged.
    pub(crate) fn count_pause(&mut self, job: JobId, now: Millis, plan: &mut Plan) -> bool {
        let at = job.index();
        self.latest_now = self.latest_now.max(now);
        let Some(paused_at) = self.extras.get(&job).and_then(|extra| extra.paused_at) else { return false };
        let watermark = self.watermarks[at];
        let from = paused_at.max(watermark);
        let to = now.max(from);
        let pending = self.dues(job).first(watermark.saturating_add(1), from.saturating_add(1)).is_some();
        plan.skips.extend(self.unrecorded(job, from, to, SkipReason::Paused));
        plan.states.insert(job);
        if pending {
            self.punch(job, from, to, plan);
        } else {
            self.raise(job, to);
        }
        if let Some(extra) = self.extras.get_mut(&job) {
            extra.paused_at = Some(to);
            extra.backlog &= pending;
        }
        pending
    }

    /// Marks `(from, to]` as recorded although the watermark stands before it.
    fn punch(&mut self, job: JobId, from: Millis, to: Millis, plan: &mut Plan) {
        if from == to {
            return;
        }
        let mut holes = self.extras.get(&job).map(|extra| extra.holes.clone()).unwrap_or_default();
        holes.push((from, to));
        holes.sort_unstable();
        holes.dedup_by(|next, last| {
            let touches = next.0 <= last.1;
            last.1 = if touches { last.1.max(next.1) } else { last.1 };
            touches
        });
        let too_many = holes.len() > HOLES_MAX;
        self.extras.entry(job).or_default().holes = holes;
        if too_many {
            // Give the backlog up rather than let its state grow: what is left of it is skipped, and said.
            let watermark = self.watermarks[job.index()];
            plan.skips.extend(self.unrecorded(job, watermark, to, SkipReason::BacklogLimit));
            self.raise(job, to);
        }
    }
}
