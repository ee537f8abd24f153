//! Where the work of a run is: at which executors, and whether they took it.

use cadran_core::{RunRecord, RunStatus, RunUpdate, SeatRecord, SeatStatus, StepRecord, StepStatus};

use crate::instant;

/// The status of a run as it is shown. An order that no executor has taken yet is on record as running, so that it
/// outlives the server; nobody runs it, and it is shown as waiting.
pub(crate) fn shown_status(state: &RunUpdate) -> RunStatus {
    match state.status {
        RunStatus::Running if is_untaken(steps(state)) => RunStatus::Waiting,
        status => status,
    }
}

/// A step that was ordered at executors, none of which has given a sign of it.
pub(crate) fn is_untaken_step(step: &StepRecord) -> bool {
    step.status == StepStatus::Running && step.started_at.is_none() && !step.seats.is_empty()
}

/// Whether executors have, or had, some of it.
pub(crate) fn is_away(record: &RunRecord) -> bool {
    steps(&record.state).iter().any(|step| !step.seats.is_empty())
}

/// Where the only executor of the latest step elsewhere is; `None` for work on the server, and for a broadcast.
pub(crate) fn executor(record: &RunRecord) -> Option<String> {
    let steps = steps(&record.state);
    let away = || steps.iter().rev().filter(|step| !step.seats.is_empty());
    let step = away().find(|step| step.status == StepStatus::Running).or_else(|| away().next())?;
    match &step.seats[..] {
        [seat] => Some(seat.address.to_string()),
        _ => None,
    }
}

/// What is on at executors, in a sentence; `None` when nothing is.
pub(crate) fn sentence(state: &RunUpdate) -> Option<String> {
    if state.status != RunStatus::Running {
        return None;
    }
    let several = steps(state).len() > 1;
    let mut parts = Vec::new();
    for step in steps(state).iter().filter(|step| step.status == StepStatus::Running) {
        let Some(part) = step_sentence(step) else { continue };
        parts.push(if several { format!("step {} is {part}", step.name) } else { format!("it is {part}") });
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// `running at ADDRESS`, or `ordered at ADDRESS, not answered yet since T`.
pub(crate) fn step_sentence(step: &StepRecord) -> Option<String> {
    let open: Vec<&SeatRecord> = step.seats.iter().filter(|seat| !seat.status.is_ended()).collect();
    let first = open.first()?;
    let place = match &open[..] {
        [only] => only.address.to_string(),
        _ => format!("{} executors", open.len()),
    };
    if is_untaken_step(step) {
        return Some(format!("ordered at {place}, not answered yet since {}", instant::to_text(first.at)));
    }
    Some(match first.status {
        SeatStatus::Stopping if open.len() == 1 => format!("being stopped at {place}"),
        _ => format!("running at {place}"),
    })
}

fn is_untaken(steps: &[StepRecord]) -> bool {
    steps.iter().any(is_untaken_step)
        && steps.iter().all(|step| step.status == StepStatus::Pending || is_untaken_step(step))
}

fn steps(state: &RunUpdate) -> &[StepRecord] {
    state.steps.as_deref().unwrap_or_default()
}
