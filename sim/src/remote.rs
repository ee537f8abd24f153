//! Attempts at executors elsewhere, and attempts with preconditions: what the simulated executor says of them.

use cadran_core::{Now, Outcome, SeatRecord, SeatStatus, Seats, Start};

use crate::dice::Dice;

/// The shares of an attempt at executors; none for one inside the server.
pub(crate) fn seats(start: &Start) -> Vec<SeatRecord> {
    let Some(placement) = &start.placement else { return Vec::new() };
    let record = |index, total, address, log| SeatRecord {
        index,
        total,
        address,
        log,
        attempt: start.attempt,
        at: placement.at,
        ended_at: None,
        status: SeatStatus::Running,
        message: None,
        again: false,
    };
    match &placement.seats {
        Seats::Chosen(seats) => seats
            .iter()
            .map(|seat| record(seat.index, seat.total, seat.executor.address.clone(), seat.log))
            .collect(),
        Seats::Asked { executors, log, .. } => {
            executors.first().map(|first| record(0, 1, first.address.clone(), *log)).into_iter().collect()
        }
        Seats::Nobody => Vec::new(),
    }
}

/// What keeps an attempt from starting: nobody is there, or a precondition does not hold. The preconditions of a job are
/// judged once, by the first attempts of a run.
pub(crate) fn unmet(start: &Start, seed: u64, knows_run: bool) -> Option<Outcome> {
    let body = &start.context.body;
    if start.placement.as_ref().is_some_and(|placement| placement.seats == Seats::Nobody) {
        return Some(Outcome::NotStarted("nobody is there".into()));
    }
    let (job, due) = (u64::from(start.context.job.0), start.context.due as u64);
    let is_step = usize::from(start.step.0) < body.steps.len();
    if !body.preconditions.is_empty() && is_step && !knows_run && Dice::of(&[seed, job, due, 98]).percent(30)
    {
        return Some(Outcome::JobPreconditionUnmet("test -f /nonexistent exited with 1".into()));
    }
    let own = body.step(start.step).is_some_and(|step| !step.preconditions.is_empty());
    let mut dice = Dice::of(&[seed, job, due, u64::from(start.step.0), u64::from(start.attempt), 99]);
    (own && dice.percent(30)).then(|| Outcome::PreconditionUnmet("exited with 1".into()))
}

/// All shares that are on end as the attempt does. Returns those that changed.
pub(crate) fn end(seats: &mut [SeatRecord], now: Now, outcome: &Outcome) -> Vec<SeatRecord> {
    let status = match outcome {
        Outcome::Exited(0) | Outcome::Halted(_) => SeatStatus::Succeeded,
        Outcome::Stopped => SeatStatus::Stopped,
        Outcome::Lost => SeatStatus::Lost,
        _ => SeatStatus::Failed,
    };
    let open = seats.iter_mut().filter(|seat| !seat.status.is_ended());
    open.map(|seat| {
        (seat.status, seat.ended_at) = (status, Some(now.wall));
        seat.clone()
    })
    .collect()
}

/// One share stops.
pub(crate) fn stop(seats: &mut [SeatRecord], share: u32, now: Now) -> Vec<SeatRecord> {
    let open = seats.iter_mut().filter(|seat| seat.index == share && !seat.status.is_ended());
    open.map(|seat| {
        (seat.status, seat.ended_at) = (SeatStatus::Stopped, Some(now.wall));
        seat.clone()
    })
    .collect()
}

/// A success is none when a share was stopped meanwhile.
pub(crate) fn with_stopped_shares(seats: &[SeatRecord], outcome: Outcome) -> Outcome {
    let stopped = seats.iter().find(|seat| seat.total > 1 && seat.status == SeatStatus::Stopped);
    match stopped {
        Some(seat) if outcome == Outcome::Exited(0) => {
            Outcome::Halted(format!("share {} was stopped", seat.index).into())
        }
        _ => outcome,
    }
}
