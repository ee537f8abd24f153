use std::collections::HashSet;

use axum::Json;
use axum::extract::State;
use cadran_core::{RunId, SkipReason};
use cadran_store::{RunView, SkipView};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::ApiState;
use crate::error::{ApiError, ErrorBody};
use crate::lists::{RunFilter, SkipFilter};
use crate::request::{self, Fields};
use crate::view::{HistoryItem, SkipItem, merge};

/// Whose history.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryFields {
    /// Only of this job.
    job: Option<String>,
    /// Only dues at this instant or later.
    from: Option<String>,
    /// Only dues before this instant.
    to: Option<String>,
    /// Only dues that were skipped for one of these reasons, separated by commas.
    reason: Option<String>,
    /// Only what has a lower id: the `next` of the page before.
    before: Option<String>,
    /// How many, 1 to 1000; 100 unless given.
    limit: Option<u32>,
}

/// A page of history.
#[derive(Serialize, ToSchema)]
pub(super) struct HistoryPage {
    /// Runs and skips, newest first.
    history: Vec<HistoryItem>,
    /// Where the next page starts (`before`), when there may be one.
    next: Option<String>,
}

/// A page of skips.
#[derive(Serialize, ToSchema)]
pub(super) struct SkipPage {
    /// Newest first.
    skips: Vec<SkipItem>,
    /// Where the next page starts (`before`), when there may be one.
    next: Option<String>,
}

/// Lists what became of every due: runs and skips together, newest first, each with its explanation.
#[utoipa::path(
    get, path = "/api/v1/history", tag = "history", operation_id = "list_history",
    params(HistoryFields),
    responses(
        (status = 200, description = "Runs and skips, newest first.", body = HistoryPage),
        (status = "default", description = "What is wrong, and what to do about it.", body = ErrorBody),
    ),
)]
pub(super) async fn history(
    State(state): State<ApiState>,
    Fields(fields): Fields<HistoryFields>,
) -> Result<Json<HistoryPage>, ApiError> {
    let limit = request::limit(fields.limit)?;
    let (runs, skips) = read(&state, &fields, limit, true).await?;
    let runs = runs.into_iter().map(|run| (run.job_name.to_string(), run.record)).collect();
    let skips = skips.into_iter().map(|skip| (skip.job_name.to_string(), skip.skip)).collect();
    let (history, next) = merge(runs, skips, limit);
    Ok(Json(HistoryPage { history, next: next.map(|id| id.to_string()) }))
}

/// Lists dues that never became runs, newest first, each stretch with its count and reason.
#[utoipa::path(
    get, path = "/api/v1/skips", tag = "history", operation_id = "list_skips",
    params(HistoryFields),
    responses(
        (status = 200, description = "Skips, newest first.", body = SkipPage),
        (status = "default", description = "What is wrong, and what to do about it.", body = ErrorBody),
    ),
)]
pub(super) async fn skips(
    State(state): State<ApiState>,
    Fields(fields): Fields<HistoryFields>,
) -> Result<Json<SkipPage>, ApiError> {
    let limit = request::limit(fields.limit)?;
    let (_, found) = read(&state, &fields, limit, false).await?;
    let next = found.last().filter(|_| found.len() >= limit).map(|skip| skip.skip.id.to_string());
    let skips = found.iter().map(|skip| SkipItem::new(skip.job_name.as_str(), &skip.skip)).collect();
    Ok(Json(SkipPage { skips, next }))
}

/// How often rows are looked for again because some of them had just been forgotten.
const TRIES: usize = 3;

/// The newest runs and skips that are asked for, from the record.
async fn read(
    state: &ApiState,
    fields: &HistoryFields,
    limit: usize,
    with_runs: bool,
) -> Result<(Vec<RunView>, Vec<SkipView>), ApiError> {
    let mut tries = 1;
    loop {
        let (run_ids, skip_ids) = find(state, fields, limit, with_runs).await?;
        let runs = state.store.runs_by_id(&run_ids).await.map_err(ApiError::store)?;
        let skips = state.store.skips_by_id(&skip_ids).await.map_err(ApiError::store)?;
        let there: HashSet<RunId> = runs
            .iter()
            .map(|run| run.record.promise.run)
            .chain(skips.iter().map(|skip| skip.skip.id))
            .collect();
        let gone: Vec<RunId> = run_ids.into_iter().chain(skip_ids).filter(|id| !there.contains(id)).collect();
        if gone.is_empty() || tries == TRIES {
            return Ok((runs, skips));
        }
        state.server.lists().forgotten(gone);
        tries += 1;
    }
}

/// The newest runs and skips that are asked for, by id.
async fn find(
    state: &ApiState,
    fields: &HistoryFields,
    limit: usize,
    with_runs: bool,
) -> Result<(Vec<RunId>, Vec<RunId>), ApiError> {
    let name = request::job_field(fields.job.as_deref())?;
    let mut skips = SkipFilter {
        job: None,
        reasons: request::words_field("reason", fields.reason.as_deref(), SkipReason::WORDS)?,
        from: request::instant_field("from", fields.from.as_deref())?,
        to: request::instant_field("to", fields.to.as_deref())?,
        before: request::run_field(fields.before.as_deref())?,
    };
    let lists = state.server.lists();
    let tables = lists.read().await?;
    skips.job = name.as_ref().and_then(|name| tables.jobs.find(name));
    if name.is_some() && skips.job.is_none() {
        return Ok((Vec::new(), Vec::new()));
    }
    let runs = RunFilter {
        job: skips.job,
        reasons: skips.reasons.clone(),
        from: skips.from,
        to: skips.to,
        before: skips.before,
        ..RunFilter::default()
    };
    let runs = if with_runs { tables.runs.page(&runs, limit) } else { Vec::new() };
    Ok((runs, tables.skips.page(&skips, limit)))
}
