//! Batches on their way to the store, and what waits until each of them is durable.

use std::collections::{BTreeSet, VecDeque};

use cadran_core::{Order, Refusal, Reply, RunId};

use crate::effects::{Effects, Token};

/// What must not happen before a batch is durable.
#[derive(Debug, Default)]
pub(crate) struct HeldEffects {
    /// Runs that enter the ring.
    pub(crate) runs: Vec<RunId>,
    /// Orders that leave.
    pub(crate) orders: Vec<Order>,
    /// Commands that are answered.
    pub(crate) replies: Vec<(Token, Result<Reply, Refusal>)>,
    /// The batch holds a plan: until it is durable no further tick is planned.
    has_plan: bool,
}

/// The batch that is being filled, and those that the store has not confirmed yet.
#[derive(Debug, Default)]
pub(crate) struct CommitQueue {
    last_seq: u64,
    current_batch: HeldEffects,
    /// In the order of their numbers, which is that of the answers.
    in_flight: VecDeque<(u64, HeldEffects)>,
    /// How many of all these hold a plan.
    plan_count: u32,
    /// Runs with shares that changed since the last batch: their rows are written when the current one is closed.
    changed_shares: BTreeSet<RunId>,
}

impl CommitQueue {
    /// Lets a run into the ring once the current batch is durable.
    pub(crate) fn hold_run(&mut self, run: RunId) {
        self.current_batch.runs.push(run);
    }

    /// Answers a command once the current batch is durable.
    pub(crate) fn hold_reply(&mut self, token: Token, reply: Result<Reply, Refusal>) {
        self.current_batch.replies.push((token, reply));
    }

    /// Sends an order once the current batch is durable.
    pub(crate) fn hold_order(&mut self, order: Order) {
        self.current_batch.orders.push(order);
    }

    /// The current batch holds a plan.
    pub(crate) fn hold_plan(&mut self) {
        if !std::mem::replace(&mut self.current_batch.has_plan, true) {
            self.plan_count += 1;
        }
    }

    /// Whether a plan is not durable yet.
    pub(crate) fn has_plan(&self) -> bool {
        self.plan_count > 0
    }

    /// The row of this run is to be written with the current batch, once, however many of its shares change.
    pub(crate) fn note_changed_shares(&mut self, run: RunId) {
        self.changed_shares.insert(run);
    }

    pub(crate) fn take_changed_shares(&mut self) -> BTreeSet<RunId> {
        std::mem::take(&mut self.changed_shares)
    }

    /// Gives the current batch its number and begins the next. Without rows there is no batch, and nothing to wait for:
    /// orders leave at once. An answer still waits for the batch before, since "paused already" is true only when the
    /// pause is durable.
    pub(crate) fn close_batch(&mut self, effects: &mut Effects) {
        let held = std::mem::take(&mut self.current_batch);
        if !effects.batch.is_empty() {
            self.last_seq += 1;
            effects.seq = self.last_seq;
            self.in_flight.push_back((self.last_seq, held));
            return;
        }
        debug_assert!(held.runs.is_empty() && !held.has_plan, "promises without rows: {:?}", held.runs);
        effects.orders.extend(held.orders);
        match self.in_flight.back_mut() {
            Some((_, before)) => before.replies.extend(held.replies),
            None => effects.replies.extend(held.replies),
        }
    }

    /// The batch with this number is durable: what waited for it.
    pub(crate) fn committed(&mut self, seq: u64) -> Option<HeldEffects> {
        let (first, held) = self.in_flight.pop_front()?;
        debug_assert_eq!(first, seq, "batches are committed in order");
        self.plan_count -= u32::from(held.has_plan);
        Some(held)
    }

    /// How many batches the store has not confirmed yet.
    pub(crate) fn len(&self) -> usize {
        self.in_flight.len()
    }
}
