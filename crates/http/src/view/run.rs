use std::collections::BTreeMap;

use cadran_core::{Millis, RunRecord, RunStatus, RunUpdate, SeatRecord, SeatStatus, StepRecord, StepStatus};
use serde::Serialize;
use utoipa::ToSchema;

use super::{ChildItem, whereabouts};
use crate::instant;

/// One run.
#[derive(Serialize, ToSchema)]
pub(crate) struct RunItem {
    /// Its id: 13 characters, rising with time; behind a dot, the number of a share.
    pub(super) id: String,
    /// The job.
    pub(super) job: String,
    /// `promised`, `waiting`, `running`, `succeeded`, `failed`, `stopped`, `skipped` or `lost`.
    pub(super) status: &'static str,
    /// Whether nothing more happens to it by itself.
    pub(super) ended: bool,
    /// Why it exists: `schedule`, `catch_up`, `restart` or `manual`.
    pub(super) trigger: &'static str,
    /// The instant the schedule named, or the moment of the manual trigger.
    pub(super) due: String,
    pub(super) due_ms: Millis,
    pub(super) promised_at: String,
    pub(super) promised_at_ms: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) started_at_ms: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ended_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ended_at_ms: Option<Millis>,
    /// From start to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) duration_ms: Option<Millis>,
    /// From due to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) late_ms: Option<Millis>,
    /// How many times it was started, recoveries and retries included.
    pub(super) attempt: u32,
    /// The revision of the job it was promised under.
    pub(super) revision: u32,
    /// Values given with the trigger, by name or position.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) params: BTreeMap<String, String>,
    /// The executors it may go to, where the trigger named some.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) addresses: Vec<String>,
    /// The run that asked for this one, or that this is a share of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<String>,
    /// Why it was skipped, as a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) skip_reason: Option<&'static str>,
    /// What became of it and why, in a sentence.
    pub(super) explanation: String,
    /// Which share of its parent's broadcast it is, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) share: Option<u32>,
    /// Who has this share, or the step that is on; of a run that is over, who had the last one. Empty for work on the
    /// server itself, and for a broadcast as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) executor: Option<String>,
    /// The number by which XXL-JOB's executors know its job, for a run that has work at executors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) executor_number: Option<u32>,
    /// The shares of its latest broadcast, or of the one that it is a share of, counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shares: Option<ShareCounts>,
}

/// How the shares of a broadcast stand.
#[derive(Serialize, ToSchema)]
pub(super) struct ShareCounts {
    total: usize,
    succeeded: usize,
    /// Failed, stopped or lost.
    failed: usize,
}

impl ShareCounts {
    fn of(steps: &[StepRecord]) -> Option<ShareCounts> {
        let shared = |step: &&StepRecord| step.seats.first().is_some_and(|seat| seat.total > 1);
        let seats = &steps.iter().rev().find(shared)?.seats;
        let succeeded = seats.iter().filter(|seat| seat.status == SeatStatus::Succeeded).count();
        let ended = seats.iter().filter(|seat| seat.status.is_ended()).count();
        Some(ShareCounts { total: seats.len(), succeeded, failed: ended - succeeded })
    }
}

/// One run with its steps.
#[derive(Serialize, ToSchema)]
pub(crate) struct RunDetail {
    #[serde(flatten)]
    run: RunItem,
    /// In file order, handlers last; of a share, its step alone.
    steps: Vec<StepItem>,
    /// The shares of its broadcast, and the runs that it asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<ChildItem>,
}

/// One step of a run.
#[derive(Serialize, ToSchema)]
pub(crate) struct StepItem {
    /// Its name; `on_success`, `on_failure`, `on_stop` or `on_exit` for a handler.
    name: String,
    /// `pending`, `running`, `retrying`, `succeeded`, `failed`, `skipped` or `stopped`.
    status: &'static str,
    /// Attempts so far.
    attempt: u32,
    /// Attempts lost with their executor.
    lost: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at_ms: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at_ms: Option<Millis>,
    /// Of the latest attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<Millis>,
    /// Of the latest attempt, when its process ended by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    /// Why it failed, was skipped or stopped; of a pending one, where it was ordered.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// What it handed to later steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    /// What executors have of the latest attempt, by share.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    executors: Vec<SeatItem>,
    /// The runs that its latest attempt asked for, for a step with `job`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calls: Vec<CallItem>,
}

/// A run that a step asked for.
#[derive(Serialize, ToSchema)]
struct CallItem {
    run: String,
    /// Which item it is for, from 0.
    index: u32,
    /// The item.
    #[serde(skip_serializing_if = "str::is_empty")]
    item: Box<str>,
    /// `promised` until it has ended.
    status: &'static str,
}

/// One share of a step at one executor.
#[derive(Serialize, ToSchema)]
struct SeatItem {
    /// Where it is.
    address: String,
    /// Which share, from 0.
    index: u32,
    /// How many there are.
    total: u32,
    /// The number of its log there.
    log_id: u64,
    /// Which attempt of the step it belongs to.
    attempt: u32,
    /// `sent`, `running`, `stopping`, `succeeded`, `failed`, `stopped` or `lost`.
    status: &'static str,
    /// When its order was made.
    ordered_at: String,
    ordered_at_ms: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at_ms: Option<Millis>,
    /// From order to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<Millis>,
    /// What the executor said: its result, or why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl SeatItem {
    fn new(seat: &SeatRecord) -> SeatItem {
        SeatItem {
            address: seat.address.to_string(),
            index: seat.index,
            total: seat.total,
            log_id: seat.log,
            attempt: seat.attempt,
            status: seat.status.word(),
            ordered_at: instant::to_text(seat.at),
            ordered_at_ms: seat.at,
            ended_at: seat.ended_at.map(instant::to_text),
            ended_at_ms: seat.ended_at,
            duration_ms: duration(Some(seat.at), seat.ended_at),
            message: seat.message.as_deref().map(str::to_owned),
        }
    }
}

impl RunItem {
    pub(crate) fn new(job: &str, record: &RunRecord) -> RunItem {
        let RunRecord { promise, state } = record;
        let status = whereabouts::shown_status(state);
        let started_at = state.started_at.filter(|_| status != RunStatus::Waiting);
        RunItem {
            id: promise.run.to_string(),
            job: job.to_owned(),
            status: status.word(),
            ended: state.status.is_ended(),
            trigger: promise.trigger.word(),
            due: instant::to_text(promise.due),
            due_ms: promise.due,
            promised_at: instant::to_text(promise.promised_at),
            promised_at_ms: promise.promised_at,
            started_at: started_at.map(instant::to_text),
            started_at_ms: started_at,
            ended_at: state.ended_at.map(instant::to_text),
            ended_at_ms: state.ended_at,
            duration_ms: duration(started_at, state.ended_at),
            late_ms: started_at.map(|at| at.saturating_sub(promise.due)),
            attempt: state.attempt,
            revision: promise.revision,
            params: promise
                .params
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect(),
            addresses: promise.addresses.iter().map(ToString::to_string).collect(),
            parent: promise.parent.map(|(run, _)| run.to_string()),
            skip_reason: state.skip.map(|reason| reason.word()),
            explanation: explanation(state),
            share: None,
            executor: whereabouts::executor(record),
            executor_number: whereabouts::is_away(record).then(|| promise.job.executor_number()),
            shares: ShareCounts::of(state.steps.as_deref().unwrap_or_default()),
        }
    }
}

impl RunItem {
    /// The same, told by the loop what it waits for at this moment.
    pub(crate) fn waiting_for(mut self, reason: Option<String>) -> RunItem {
        if let Some(reason) = reason.filter(|_| self.status == RunStatus::Waiting.word()) {
            self.explanation = reason;
        }
        self
    }

    pub(crate) fn into_explanation(self) -> String {
        self.explanation
    }
}

impl RunDetail {
    pub(crate) fn new(job: &str, record: &RunRecord) -> RunDetail {
        let steps = record.state.steps.iter().flatten().map(StepItem::new).collect();
        RunDetail { run: RunItem::new(job, record), steps, children: ChildItem::shares(job, record) }
    }

    /// The same with the runs that it asked for.
    pub(crate) fn with_children(mut self, children: impl Iterator<Item = ChildItem>) -> RunDetail {
        self.children.extend(children);
        self
    }

    /// A share of it.
    pub(crate) fn share(job: &str, record: &RunRecord, step: &StepRecord, seat: &SeatRecord) -> RunDetail {
        let run = RunItem::share(job, record, step, seat);
        RunDetail { run, steps: vec![StepItem::of_share(step, seat)], children: Vec::new() }
    }
}

impl StepItem {
    pub(super) fn new(record: &StepRecord) -> StepItem {
        StepItem {
            name: record.name.to_string(),
            status: match whereabouts::is_untaken_step(record) {
                true => StepStatus::Pending.word(),
                false => record.status.word(),
            },
            attempt: record.attempt,
            lost: record.lost,
            started_at: record.started_at.map(instant::to_text),
            started_at_ms: record.started_at,
            ended_at: record.ended_at.map(instant::to_text),
            ended_at_ms: record.ended_at,
            duration_ms: duration(record.started_at, record.ended_at),
            exit_code: record.exit_code,
            message: match whereabouts::is_untaken_step(record) {
                true => whereabouts::step_sentence(record),
                false => record.message.as_deref().map(str::to_owned),
            },
            output: record.output.as_deref().map(str::to_owned),
            executors: record.seats.iter().map(SeatItem::new).collect(),
            calls: record
                .calls
                .iter()
                .map(|call| CallItem {
                    run: call.run.to_string(),
                    index: call.index,
                    item: call.item.clone(),
                    status: call.status.word(),
                })
                .collect(),
        }
    }
}

pub(super) fn duration(from: Option<Millis>, to: Option<Millis>) -> Option<Millis> {
    // The wall clock may have been stepped back in between: no run took less than nothing.
    Some(to?.saturating_sub(from?).max(0))
}

/// What became of a run and why, in one sentence.
fn explanation(state: &RunUpdate) -> String {
    let said = state.message.as_deref().filter(|message| !message.is_empty());
    let plain = match state.status {
        RunStatus::Promised => "it waits for its instant, or is being started",
        RunStatus::Waiting => "it waits for its turn",
        RunStatus::Running => "it is running",
        RunStatus::Succeeded => "every step that had to succeed did",
        RunStatus::Failed => "a step failed",
        RunStatus::Stopped => "it was stopped",
        RunStatus::Skipped => "it was skipped",
        RunStatus::Lost => "its executor vanished and it may not be tried again",
        RunStatus::PartiallySucceeded => "steps failed, and their continue_on let the run go on",
    };
    match (state.skip, said) {
        (Some(reason), Some(said)) if state.status == RunStatus::Skipped => {
            format!("{}: {said}", reason.sentence())
        }
        (Some(reason), None) if state.status == RunStatus::Skipped => reason.sentence().to_owned(),
        (_, Some(said)) => said.to_owned(),
        (_, None) => whereabouts::sentence(state).unwrap_or_else(|| plain.to_owned()),
    }
}
