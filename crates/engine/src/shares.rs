//! The shares of broadcasts: given out, repeated, stopped one by one, and what they make of their step.

use cadran_core::{
    Found, Now, Order, Outcome, Refusal, Reply, RunId, RunUpdate, Seat, SeatRecord, SeatStatus, StepNo,
    StepRecord, StepStatus, share_of,
};

use crate::engine::Engine;
use crate::running::LiveRun;

/// The shares of the latest attempt of each step that runs on executors.
pub(crate) type SeatsOf = Vec<(StepNo, Vec<SeatRecord>)>;

impl Engine {
    /// Stops one share; what becomes of the step is told when all shares are over.
    pub(crate) fn stop_share(&mut self, run: RunId, share: u32) -> Result<Reply, Refusal> {
        let live = self.runs.get_mut(run).ok_or(Refusal::NoSuchRun(run))?;
        let records = live.steps().unwrap_or_default();
        let (record, seat) = share_of(&records, share).map_err(|error| Refusal::NoSuchShare(run, error))?;
        if seat.status.is_ended() {
            return Err(Refusal::ShareEnded(run, share));
        }
        if seat.status == SeatStatus::Stopping {
            return Ok(Reply::Already);
        }
        let at = live.context.body.steps.iter().position(|step| *step.name == *record.name);
        let (step, attempt) = (StepNo(at.unwrap_or_default() as u16), seat.attempt);
        live.take_seat(step, SeatRecord { status: SeatStatus::Stopping, ..seat.clone() });
        self.commits.note_changed_shares(run);
        // Behind the start, which may wait for its record, and on record itself: a server that goes away now says it
        // once more when it is back.
        self.commits.hold_order(Order::StopShare { run, step, attempt, share });
        Ok(Reply::Run(run))
    }

    /// Says once more that shares are to stop, for a run that was read back.
    pub(crate) fn stop_shares_again(&mut self, run: RunId) {
        let Some(live) = self.runs.get(run) else { return };
        for (step, seats) in &live.seats {
            for seat in seats.iter().filter(|seat| seat.status == SeatStatus::Stopping) {
                let (step, attempt, share) = (*step, seat.attempt, seat.index);
                self.effects.orders.push(Order::StopShare { run, step, attempt, share });
            }
        }
    }
}

/// Marks the shares that a retry by hand repeats: all that did not succeed, or this one. False when nothing was shared out.
pub(crate) fn ask_again(
    run: RunId,
    steps: Option<&mut [StepRecord]>,
    share: Option<u32>,
) -> Result<bool, Refusal> {
    let steps = steps.unwrap_or_default();
    let only = match share {
        None => None,
        Some(share) => {
            let found = share_of(steps, share).map_err(|error| Refusal::NoSuchShare(run, error))?;
            let (step, seat) = found;
            if seat.status == SeatStatus::Succeeded {
                return Err(Refusal::NotRetryable(run, "this share of it succeeded"));
            }
            if step.status == StepStatus::Succeeded {
                return Err(Refusal::NotRetryable(run, "the step of this share counts as succeeded"));
            }
            Some((step.name.clone(), share))
        }
    };
    let mut is_shared = false;
    for step in steps {
        let only = only.as_ref().filter(|(name, _)| *name == step.name).map(|(_, share)| *share);
        for seat in step.seats.iter_mut().filter(|seat| seat.total > 1) {
            seat.again = seat.status != SeatStatus::Succeeded && only.is_none_or(|only| only == seat.index);
            is_shared = true;
        }
    }
    Ok(is_shared)
}

impl LiveRun {
    pub(crate) fn seats_of(&self, step: StepNo) -> &[SeatRecord] {
        self.seats.iter().find(|(no, _)| *no == step).map_or(&[], |(_, seats)| seats)
    }

    fn seats_mut(&mut self, step: StepNo) -> &mut Vec<SeatRecord> {
        let at = match self.seats.iter().position(|(no, _)| *no == step) {
            Some(at) => at,
            None => {
                self.seats.push((step, Vec::new()));
                self.seats.len() - 1
            }
        };
        &mut self.seats[at].1
    }

    /// A share that is given out again takes the place of the one before.
    pub(crate) fn seat(&mut self, step: StepNo, attempt: u32, chosen: &[Seat], now: Now) {
        for seat in chosen {
            self.take_seat(
                step,
                SeatRecord {
                    index: seat.index,
                    total: seat.total,
                    address: seat.executor.address.clone(),
                    log: seat.log,
                    attempt,
                    at: now.wall,
                    ended_at: None,
                    status: SeatStatus::Sent,
                    message: None,
                    again: false,
                },
            );
        }
    }

    /// Remembers what became of a share.
    pub(crate) fn take_seat(&mut self, step: StepNo, seat: SeatRecord) {
        let seats = self.seats_mut(step);
        if seats.first().is_some_and(|first| first.total != seat.total) {
            seats.clear();
        }
        match seats.iter_mut().find(|known| known.index == seat.index) {
            // What is over stays over, and what is still on is being stopped, whatever else is said of it: reports of one
            // share may overtake each other.
            Some(known)
                if (known.status.is_ended() || known.status == SeatStatus::Stopping)
                    && known.attempt == seat.attempt
                    && !seat.status.is_ended() => {}
            Some(known) => *known = seat,
            None => seats.push(seat),
        }
    }

    /// The only executor of a step took it. Of a broadcast each share is reported by itself.
    pub(crate) fn mark_taken(&mut self, step: StepNo) {
        let seats = self.seats.iter_mut().filter(|(no, _)| *no == step);
        for seat in seats.flat_map(|(_, seats)| seats) {
            if seat.total == 1 && seat.status == SeatStatus::Sent {
                seat.status = SeatStatus::Running;
            }
        }
    }

    /// How an attempt of a step ended, seen with the shares that were not part of it: those of a broadcast that failed
    /// before, and were not asked for again, fail the step also when the attempt went well.
    pub(crate) fn with_other_shares(&self, step: StepNo, attempt: u32, outcome: Outcome) -> Outcome {
        let seats = self.seats_of(step);
        let left = |seat: &&SeatRecord| {
            seat.total > 1 && seat.attempt < attempt && seat.status != SeatStatus::Succeeded
        };
        let count = seats.iter().filter(left).count();
        match seats.iter().find(left) {
            Some(first) if outcome == Outcome::Exited(0) => {
                let said = first.message.as_deref().unwrap_or(first.status.word());
                let (total, index, address) = (first.total, first.index, &first.address);
                let text = format!(
                    "{count} of {total} shares did not succeed before and were not repeated; share {index} at {address}: \
                     {said}"
                );
                Outcome::Halted(text.into())
            }
            _ => outcome,
        }
    }

    /// Whether a step of it is shared out.
    pub(crate) fn is_broadcast(&self) -> bool {
        self.seats.iter().any(|(_, seats)| seats.first().is_some_and(|seat| seat.total > 1))
    }

    /// Takes up what the record and executors know of shares.
    pub(crate) fn recall_seats(&mut self, state: &RunUpdate, found: &[Found]) {
        let body = self.context.body.clone();
        let steps = body.steps.iter().enumerate().filter(|(_, step)| step.target.is_some());
        for (at, step) in steps {
            let records = state.steps.iter().flatten().filter(|record| *record.name == *step.name);
            let seats: Vec<SeatRecord> = records.flat_map(|record| record.seats.iter().cloned()).collect();
            seats.into_iter().for_each(|seat| self.take_seat(StepNo(at as u16), seat));
        }
        for found in found {
            found.seats.iter().for_each(|seat| self.take_seat(found.step, seat.clone()));
        }
    }

    /// Puts the shares into the records of their steps. Handlers stand behind the steps, as far as they were reached.
    pub(crate) fn with_seats(&self, mut records: Vec<StepRecord>) -> Vec<StepRecord> {
        for (no, seats) in &self.seats {
            let name = self.context.body.step(*no).map_or("", |step| step.name.as_str());
            if let Some(record) = records.iter_mut().find(|record| *record.name == *name) {
                record.seats.clone_from(seats);
            }
        }
        records
    }
}

#[cfg(test)]
mod tests;
