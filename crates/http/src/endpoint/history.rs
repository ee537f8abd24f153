use axum::Json;
use axum::extract::State;
use cadran_store::{RunQuery, SkipQuery};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::ApiState;
use crate::error::{ApiError, ErrorBody};
use crate::request::{self, Fields};
use crate::view::{HistoryItem, SkipItem, merge};

/// Whose history.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryFields {
    /// Only of this job.
    job: Option<String>,
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
    let skip_query = skip_query(&fields, limit)?;
    let run_query = RunQuery {
        job: skip_query.job.clone(),
        before: skip_query.before,
        limit: skip_query.limit,
        ..RunQuery::default()
    };
    let runs = state.store.runs(&run_query).await.map_err(ApiError::store)?;
    let skips = state.store.skips(&skip_query).await.map_err(ApiError::store)?;
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
    let found = state.store.skips(&skip_query(&fields, limit)?).await.map_err(ApiError::store)?;
    let next = found.last().filter(|_| found.len() >= limit).map(|skip| skip.skip.id.to_string());
    let skips = found.iter().map(|skip| SkipItem::new(skip.job_name.as_str(), &skip.skip)).collect();
    Ok(Json(SkipPage { skips, next }))
}

fn skip_query(fields: &HistoryFields, limit: usize) -> Result<SkipQuery, ApiError> {
    Ok(SkipQuery {
        job: request::job_field(fields.job.as_deref())?,
        before: request::run_field(fields.before.as_deref())?,
        limit: limit as u32,
    })
}
