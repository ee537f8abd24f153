//! Orders to executors that nobody has answered for a while: put on record, so that whoever looks at the run sees where
//! its work was sent and since when nothing was heard of it.

use std::collections::VecDeque;

use cadran_core::{Millis, Now, RunId, RunUpdate, StepNo};

use crate::engine::Engine;

/// Orders to executors of the last seconds, in order of time.
pub(crate) type UnansweredOrders = VecDeque<SentOrder>;

/// An attempt that was ordered at executors, and when, by the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentOrder {
    at_mono: Millis,
    run: RunId,
    step: StepNo,
    attempt: u32,
}

/// How long an order may be unanswered before it is put on record. As long as one call to an executor may take: nearly
/// all are answered within milliseconds, and a row for each of them would double what a run writes.
const ANSWER_MS_MAX: Millis = 3_000;

impl Engine {
    /// Remembers an order to executors. The queue holds what was ordered within [`ANSWER_MS_MAX`], in order of time.
    pub(crate) fn note_ordered(&mut self, run: RunId, step: StepNo, attempt: u32, now: Now) {
        self.unanswered.push_back(SentOrder { at_mono: now.mono, run, step, attempt });
    }

    /// Puts on record where the orders are that were not answered in time.
    pub(crate) fn record_unanswered(&mut self, now: Now) {
        while let Some(&order) = self.unanswered.front() {
            if now.mono - order.at_mono < ANSWER_MS_MAX {
                return;
            }
            self.unanswered.pop_front();
            let SentOrder { run, step, attempt, .. } = order;
            let Some(live) = self.runs.get(run) else { continue };
            let Some(progress) = &live.progress else { continue };
            if progress.is_started(step) || !progress.live().any(|on| on == (step, attempt)) {
                continue;
            }
            if live.seats_of(step).is_empty() {
                // Executors are still being asked who takes it.
                self.note_ordered(run, step, attempt, now);
                continue;
            }
            let update = RunUpdate { steps: live.steps(), ..live.update(run) };
            self.effects.batch.runs.push(update);
        }
    }
}
