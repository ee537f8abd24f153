use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use cadran_core::Millis;
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::{ApiError, ErrorBody};
use crate::request::{Fields, NoFields};
use crate::{ApiState, instant};

/// Executors by group.
#[derive(Serialize, ToSchema)]
pub(super) struct ExecutorPage {
    groups: Vec<GroupItem>,
}

/// One group.
#[derive(Serialize, ToSchema)]
struct GroupItem {
    /// Its name.
    name: String,
    /// Whether its addresses were typed in; else its executors register themselves.
    typed: bool,
    /// In the order that routes choose from.
    executors: Vec<ExecutorItem>,
}

/// One executor.
#[derive(Serialize, ToSchema)]
struct ExecutorItem {
    /// Where it listens, or the id of a worker, which listens nowhere.
    address: String,
    /// How it speaks: `xxl-job`, `xxl-job-3.5`, `orth` or `worker`.
    dialect: &'static str,
    /// When it first registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since_ms: Option<Millis>,
    /// How long ago it last registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    silent_ms: Option<Millis>,
    /// What it says of itself.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
}

/// Lists the executors that are there, by group.
#[utoipa::path(
    get, path = "/api/v1/executors", tag = "executors", operation_id = "list_executors",
    responses(
        (status = 200, description = "The executors, by group.", body = ExecutorPage),
        (status = "default", description = "What is wrong, and what to do about it.", body = ErrorBody),
    ),
)]
pub(super) async fn list(
    State(state): State<ApiState>,
    Fields(NoFields {}): Fields<NoFields>,
) -> Result<Json<ExecutorPage>, ApiError> {
    let groups = state.server.executors()?.into_iter().map(|group| GroupItem {
        name: group.name.to_string(),
        typed: group.typed,
        executors: group
            .executors
            .into_iter()
            .map(|line| ExecutorItem {
                address: line.executor.address.to_string(),
                dialect: line.executor.dialect.word(),
                since: line.since.map(instant::to_text),
                since_ms: line.since,
                silent_ms: line.silent_ms,
                labels: line.labels.into_iter().collect(),
            })
            .collect(),
    });
    Ok(Json(ExecutorPage { groups: groups.collect() }))
}
