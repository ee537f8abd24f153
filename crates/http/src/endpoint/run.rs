use std::time::Duration;

use axum::Json;
use axum::extract::State;
use cadran_core::{Command, Refusal, RunId, RunStatus};
use cadran_store::{RunQuery, RunView};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use utoipa::{IntoParams, ToSchema};

use super::job::Done;
use crate::error::{ApiError, ErrorBody};
use crate::request::{self, Fields, JsonBody, NoBody, NoFields, RunAt};
use crate::view::{RunDetail, RunItem};
use crate::{ApiState, LiveEvent};

/// Which runs.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct RunFields {
    /// Only runs of this job.
    job: Option<String>,
    /// Only runs in one of these states, separated by commas.
    status: Option<String>,
    /// Only runs due at this instant or later.
    from: Option<String>,
    /// Only runs due before this instant.
    to: Option<String>,
    /// Only runs with a lower id: the `next` of the page before.
    before: Option<String>,
    /// How many, 1 to 1000; 100 unless given.
    limit: Option<u32>,
}

/// A page of runs.
#[derive(Serialize, ToSchema)]
pub(super) struct RunPage {
    /// Newest first.
    runs: Vec<RunItem>,
    /// Where the next page starts (`before`), when there may be one.
    next: Option<String>,
}

/// Lists runs, newest first.
#[utoipa::path(
    get, path = "/api/v1/runs", tag = "runs", operation_id = "list_runs",
    params(RunFields),
    responses((status = 200, body = RunPage), (status = "default", body = ErrorBody)),
)]
pub(super) async fn list(
    State(state): State<ApiState>,
    Fields(fields): Fields<RunFields>,
) -> Result<Json<RunPage>, ApiError> {
    let limit = request::limit(fields.limit)?;
    let query = RunQuery {
        job: request::job_field(fields.job.as_deref())?,
        statuses: request::words_field("status", fields.status.as_deref(), RunStatus::WORDS)?,
        before: request::run_field(fields.before.as_deref())?,
        due_from: request::instant_field("from", fields.from.as_deref())?,
        due_to: request::instant_field("to", fields.to.as_deref())?,
        limit: limit as u32,
    };
    let found = state.store.runs(&query).await.map_err(ApiError::store)?;
    let next = found.last().filter(|_| found.len() >= limit).map(|run| run.record.promise.run.to_string());
    let items = found.iter().map(|run| RunItem::new(run.job_name.as_str(), &run.record));
    // What is in the way of those that wait changes faster than their rows.
    let is_waiting = |run: &&RunView| run.record.state.status == RunStatus::Waiting;
    let waiting: Vec<RunId> = found.iter().filter(is_waiting).map(|run| run.record.promise.run).collect();
    let mut reasons = match waiting.is_empty() {
        true => Vec::new(),
        false => state.server.reasons(waiting),
    }
    .into_iter();
    let runs = items
        .zip(&found)
        .map(|(item, run)| match is_waiting(&run) {
            true => item.waiting_for(reasons.next().flatten()),
            false => item,
        })
        .collect();
    Ok(Json(RunPage { runs, next }))
}

/// Whether to wait.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitFields {
    /// Answer when the run's status changes or it has ended, and after this many milliseconds at the latest (at most
    /// 20000).
    wait_ms: Option<u64>,
}

/// Stays below the time an endpoint has for its answer.
const WAIT_MS_MAX: u64 = 20_000;

/// Shows one run with its steps, and in words what became of it.
#[utoipa::path(
    get, path = "/api/v1/runs/{id}", tag = "runs", operation_id = "show_run",
    params(("id" = String, Path, description = "The run's id."), WaitFields),
    responses((status = 200, body = RunDetail), (status = "default", body = ErrorBody)),
)]
pub(super) async fn show(
    State(state): State<ApiState>,
    RunAt(run): RunAt,
    Fields(fields): Fields<WaitFields>,
) -> Result<Json<RunDetail>, ApiError> {
    let wait_ms = fields.wait_ms.unwrap_or(0);
    if wait_ms > WAIT_MS_MAX {
        let allowed = format!("a number of milliseconds, at most {WAIT_MS_MAX}");
        return Err(ApiError::bad_field("wait_ms", &wait_ms.to_string(), &allowed));
    }
    // Listen first, look second: a change in between is then heard, not missed.
    let mut events = state.server.events();
    let mut found = find(&state, run).await?;
    if wait_ms > 0 && !found.record.state.status.is_ended() {
        let _ = tokio::time::timeout(Duration::from_millis(wait_ms), changed(&mut events, run)).await;
        found = find(&state, run).await?;
    }
    Ok(Json(RunDetail::new(found.job_name.as_str(), &found.record)))
}

/// Stops a run, wherever it stands.
#[utoipa::path(
    post, path = "/api/v1/runs/{id}/stop", tag = "runs", operation_id = "stop_run",
    params(("id" = String, Path, description = "The run's id.")),
    responses((status = 200, body = Done), (status = "default", body = ErrorBody)),
)]
pub(super) async fn stop(
    State(state): State<ApiState>,
    RunAt(run): RunAt,
    Fields(NoFields {}): Fields<NoFields>,
    JsonBody(NoBody {}): JsonBody<NoBody>,
) -> Result<Json<Done>, ApiError> {
    match state.server.command(Command::Stop { run }).await {
        Ok(reply) => Ok(Json(reply.into())),
        // The server acts on open runs and forgets ended ones; the record knows better what to say.
        Err(Refusal::NoSuchRun(_)) if find(&state, run).await?.record.state.status.is_ended() => {
            Err(Refusal::RunEnded(run).into())
        }
        Err(refusal) => Err(refusal.into()),
    }
}

/// Opens an ended run again: what did not succeed runs again.
#[utoipa::path(
    post, path = "/api/v1/runs/{id}/retry", tag = "runs", operation_id = "retry_run",
    params(("id" = String, Path, description = "The run's id.")),
    responses((status = 200, body = Done), (status = "default", body = ErrorBody)),
)]
pub(super) async fn retry(
    State(state): State<ApiState>,
    RunAt(run): RunAt,
    Fields(NoFields {}): Fields<NoFields>,
    JsonBody(NoBody {}): JsonBody<NoBody>,
) -> Result<Json<Done>, ApiError> {
    Ok(Json(state.server.command(Command::Retry { run }).await?.into()))
}

/// The run in the store.
pub(super) async fn find(state: &ApiState, run: RunId) -> Result<RunView, ApiError> {
    state.store.run(run).await.map_err(ApiError::store)?.ok_or_else(|| ApiError::no_such_run(run))
}

/// Returns when something may have changed about the run: an event of it, or events that were lost. Never returns when
/// the source of events is gone.
pub(super) async fn changed(events: &mut broadcast::Receiver<LiveEvent>, run: RunId) {
    loop {
        match events.recv().await {
            Ok(event) if event.run == run => return,
            Ok(_) => {}
            Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}
