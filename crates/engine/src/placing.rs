//! Executors that come and go, and which of them an attempt goes to.

use std::sync::Arc;

use cadran_core::{Now, Order, Placement, RunId, Seats, StepNo};
use cadran_place::{AttemptRequest, mixed};

use crate::effects::ExecutorChange;
use crate::engine::Engine;

impl Engine {
    pub(crate) fn change_executors(&mut self, changes: Vec<ExecutorChange>, now: Now) {
        let roster = &mut self.routing.roster;
        for change in changes {
            self.effects.executors_changed |= match change {
                ExecutorChange::Typed(group, executors) => {
                    roster.type_in(group, executors);
                    true
                }
                // A full roster was refused where the executor asked; nothing more is to be done here.
                ExecutorChange::Seen(group, executor) => {
                    roster.seen(&group, executor, now.wall, now.mono).unwrap_or(false)
                }
                ExecutorChange::Labels(group, address, labels) => {
                    roster.label(&group, &address, labels);
                    true
                }
                ExecutorChange::Gone(group, address) => roster.gone(&group, &address),
            };
        }
    }

    pub(crate) fn remove_silent_executors(&mut self, now: Now) {
        let gone = self.routing.roster.expire(now.mono, self.options.silent_ms_max);
        self.effects.executors_changed |= !gone.is_empty();
        for (_, address) in gone {
            if !self.routing.roster.knows(&address) {
                self.effects.orders.push(Order::Gone { address });
            }
        }
    }

    /// Chooses executors for an attempt of a step. What was chosen is remembered with the run. `None` for a step that
    /// runs on the server itself.
    pub(crate) fn place_attempt(
        &mut self,
        run: RunId,
        step: StepNo,
        attempt: u32,
        now: Now,
    ) -> Option<Arc<Placement>> {
        let live = self.runs.get_mut(run)?;
        let context = live.context.clone();
        let wanted = context.body.step(step)?;
        let request = AttemptRequest {
            job: context.job,
            step: wanted,
            target: wanted.target.as_deref()?,
            addresses: &context.addresses,
            earlier: live.seats_of(step),
            chance: mixed(run.raw(), u64::from(step.0) << 32 | u64::from(attempt)),
        };
        let placement = self.routing.assign(&request, now);
        if let Seats::Chosen(chosen) = &placement.seats {
            live.seat(step, attempt, chosen, now);
        }
        Some(Arc::new(placement))
    }
}
