use cadran_core::{RunName, RunRecord, RunStatus, SeatRecord, SeatStatus, StepRecord};
use serde::Serialize;
use utoipa::ToSchema;

use super::run::{RunItem, StepItem, duration};
use super::whereabouts;
use crate::instant;

/// A child of a run: a share of its broadcast, or a run that it asked for.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChildItem {
    /// Its id: for a share, that of the run with a dot and the share's number.
    id: String,
    /// Which share, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<u32>,
    /// Its job.
    job: String,
    /// As of any run.
    status: &'static str,
    /// Who has the share.
    #[serde(skip_serializing_if = "Option::is_none")]
    executor: Option<String>,
    /// Where it is shown.
    link: String,
}

impl ChildItem {
    fn new(id: String, job: &str, status: RunStatus) -> ChildItem {
        let link = format!("/api/v1/runs/{id}");
        ChildItem { id, share: None, job: job.to_owned(), status: status.word(), executor: None, link }
    }

    /// A run that the run asked for.
    pub(crate) fn run(job: &str, record: &RunRecord) -> ChildItem {
        ChildItem::new(record.promise.run.to_string(), job, whereabouts::shown_status(&record.state))
    }

    /// The shares of the run's broadcasts.
    pub(crate) fn shares(job: &str, record: &RunRecord) -> Vec<ChildItem> {
        let child = |(_, seat): (&StepRecord, &SeatRecord)| {
            let id = RunName { run: record.promise.run, share: Some(seat.index) };
            let child = ChildItem::new(id.to_string(), job, status(record.state.status, seat));
            ChildItem { share: Some(seat.index), executor: Some(seat.address.to_string()), ..child }
        };
        shares(record).into_iter().map(child).collect()
    }
}

/// The shares that can be named, each with its step, in order.
pub(crate) fn shares(record: &RunRecord) -> Vec<(&StepRecord, &SeatRecord)> {
    let steps = record.state.steps.as_deref().unwrap_or_default();
    let first = cadran_core::share_of(steps, 0);
    let total = first.map_or_else(
        |error| match error {
            cadran_core::ShareError::Beyond(total) => total,
            cadran_core::ShareError::NotShared => 0,
        },
        |(_, seat)| seat.total,
    );
    (0..total).filter_map(|share| cadran_core::share_of(steps, share).ok()).collect()
}

/// What a share is as a run, while its run stands like this.
pub(crate) fn status(run: RunStatus, seat: &SeatRecord) -> RunStatus {
    if is_asked_again(run, seat) {
        return RunStatus::Waiting;
    }
    match seat.status {
        SeatStatus::Sent => RunStatus::Waiting,
        SeatStatus::Running | SeatStatus::Stopping => RunStatus::Running,
        SeatStatus::Succeeded => RunStatus::Succeeded,
        SeatStatus::Failed => RunStatus::Failed,
        SeatStatus::Stopped => RunStatus::Stopped,
        SeatStatus::Lost => RunStatus::Lost,
    }
}

/// Somebody asked for it to be repeated, and it was not given out yet.
fn is_asked_again(run: RunStatus, seat: &SeatRecord) -> bool {
    seat.again && !run.is_ended()
}

/// Whether nothing more happens to a share by itself. One that failed may be repeated as long as its step is on.
pub(crate) fn is_ended(record: &RunRecord, step: &StepRecord, seat: &SeatRecord) -> bool {
    let for_good = matches!(seat.status, SeatStatus::Succeeded | SeatStatus::Stopped);
    if is_asked_again(record.state.status, seat) {
        return false;
    }
    record.state.status.is_ended() || seat.status.is_ended() && (for_good || step.status.is_ended())
}

/// What became of a share and why, in one sentence.
pub(crate) fn explanation(run: RunStatus, seat: &SeatRecord) -> String {
    if is_asked_again(run, seat) {
        return "it was asked for again, and waits to be given out".to_owned();
    }
    let at = &seat.address;
    let plain = match seat.status {
        SeatStatus::Sent => format!("its order is on its way to {at}"),
        SeatStatus::Running => format!("it is running at {at}"),
        SeatStatus::Stopping => format!("it is being stopped at {at}"),
        SeatStatus::Succeeded => format!("it succeeded at {at}"),
        SeatStatus::Failed => format!("it failed at {at}"),
        SeatStatus::Stopped => format!("it was stopped at {at}"),
        SeatStatus::Lost => format!("it was lost with {at}"),
    };
    match seat.message.as_deref().filter(|said| !said.is_empty()) {
        Some(said) => format!("{plain}: {said}"),
        None => plain,
    }
}

impl RunItem {
    /// A share as the child of its run.
    pub(crate) fn share(job: &str, record: &RunRecord, step: &StepRecord, seat: &SeatRecord) -> RunItem {
        let run = RunItem::new(job, record);
        RunItem {
            id: RunName { run: record.promise.run, share: Some(seat.index) }.to_string(),
            status: status(record.state.status, seat).word(),
            ended: is_ended(record, step, seat),
            started_at: Some(instant::to_text(seat.at)),
            started_at_ms: Some(seat.at),
            ended_at: seat.ended_at.map(instant::to_text),
            ended_at_ms: seat.ended_at,
            duration_ms: duration(Some(seat.at), seat.ended_at),
            late_ms: Some(seat.at.saturating_sub(record.promise.due)),
            attempt: seat.attempt,
            parent: Some(record.promise.run.to_string()),
            skip_reason: None,
            explanation: explanation(record.state.status, seat),
            share: Some(seat.index),
            executor: Some(seat.address.to_string()),
            ..run
        }
    }
}

impl StepItem {
    /// The step of a share, with nothing of the others.
    pub(crate) fn of_share(step: &StepRecord, seat: &SeatRecord) -> StepItem {
        StepItem::new(&StepRecord { seats: vec![seat.clone()], ..step.clone() })
    }
}
