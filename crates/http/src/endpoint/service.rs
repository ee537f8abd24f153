use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use cadran_core::Millis;
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::{ApiError, ErrorBody};
use crate::request::{Fields, NoFields};
use crate::view::ProblemItem;
use crate::{ApiState, DiskUse, Health};

/// What is wrong with job files.
#[derive(Serialize, ToSchema)]
pub(super) struct ProblemPage {
    /// By file, line and column.
    problems: Vec<ProblemItem>,
}

/// Lists what is wrong with job files. A file with an error is not in force; every other file is.
#[utoipa::path(
    get, path = "/api/v1/problems", tag = "jobs", operation_id = "list_problems",
    responses(
        (status = 200, description = "What is wrong with job files.", body = ProblemPage),
        (status = "default", description = "What is wrong, and what to do about it.", body = ErrorBody),
    ),
)]
pub(super) async fn problems(
    State(state): State<ApiState>,
    Fields(NoFields {}): Fields<NoFields>,
) -> Result<Json<ProblemPage>, ApiError> {
    let mut problems = state.server.file_problems();
    problems.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
    Ok(Json(ProblemPage { problems: problems.into_iter().map(ProblemItem::from).collect() }))
}

/// The OpenAPI document, made once.
#[derive(Clone)]
pub(super) struct OpenApiText(Arc<str>);

impl OpenApiText {
    pub(super) fn new(document: &utoipa::openapi::OpenApi) -> OpenApiText {
        OpenApiText(serde_json::to_string_pretty(document).unwrap_or_default().into())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Answers this document.
#[utoipa::path(
    get, path = "/api/v1/openapi.json", tag = "service", operation_id = "openapi",
    responses(
        (status = 200, description = "This document.", body = Object),
        (status = "default", description = "What is wrong, and what to do about it.", body = ErrorBody),
    ),
)]
pub(super) async fn openapi(Extension(document): Extension<OpenApiText>) -> Response {
    ([(CONTENT_TYPE, "application/json")], document.as_str().to_owned()).into_response()
}

/// Answers metrics in Prometheus' text format.
#[utoipa::path(
    get, path = "/metrics", tag = "service", operation_id = "metrics",
    responses(
        (status = 200, description = "All metrics.", body = String, content_type = "text/plain"),
        (status = "default", description = "What is wrong, and what to do about it.", body = ErrorBody),
    ),
)]
pub(super) async fn metrics(State(state): State<ApiState>) -> Response {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], state.server.metrics()).into_response()
}

/// How the server is.
#[derive(Serialize, ToSchema)]
pub(super) struct HealthItem {
    /// `ok`, or what is wrong: `stopping`, `loop_stalled`, `store_down` or `executor_stalled`.
    status: &'static str,
    /// It plans, fires and records.
    ready: bool,
    /// The last write to the store succeeded, and it answered within the last seconds.
    store_ok: bool,
    /// Of the program.
    version: String,
    /// Since its start.
    uptime_ms: Millis,
    /// Since the last turn of the loop, which turns at least once a second.
    loop_age_ms: Millis,
    /// Since the store last answered; it is asked every two seconds at least.
    store_age_ms: Millis,
    /// Since the oldest batch was made that is not durable yet; `null` when all are.
    batch_age_ms: Option<Millis>,
    /// Since the executor inside the server last showed that it works.
    executor_age_ms: Option<Millis>,
    disk: DiskUse,
}

impl From<Health> for HealthItem {
    fn from(health: Health) -> HealthItem {
        let status = match health {
            Health { stopping: true, .. } => "stopping",
            Health { loop_ok: false, .. } => "loop_stalled",
            Health { store_ok: false, .. } => "store_down",
            Health { executor_ok: false, .. } => "executor_stalled",
            Health { .. } => "ok",
        };
        HealthItem {
            status,
            ready: health.ready,
            store_ok: health.store_ok,
            version: health.version,
            uptime_ms: health.uptime_ms,
            loop_age_ms: health.loop_age_ms,
            store_age_ms: health.store_age_ms,
            batch_age_ms: health.batch_age_ms,
            executor_age_ms: health.executor_age_ms,
            disk: health.disk,
        }
    }
}

/// Says how the server is: 200 when it plans, fires and records, else 503. Needs no token, as the two below.
#[utoipa::path(
    get, path = "/health", tag = "service", operation_id = "health", security(()),
    responses(
        (status = 200, description = "It plans, fires and records.", body = HealthItem),
        (status = 503, description = "It does not; `status` says what is wrong.", body = HealthItem),
    ),
)]
pub(super) async fn health(State(state): State<ApiState>) -> (StatusCode, Json<HealthItem>) {
    let health = HealthItem::from(state.server.health());
    (answer(health.status == "ok"), Json(health))
}

/// Says whether the server is alive: 503 when its loop does not turn any more, so that it should be started again. A
/// store that is away does not make it so: what runs goes on, and what is due waits.
#[utoipa::path(
    get, path = "/health/live", tag = "service", operation_id = "health_live", security(()),
    responses(
        (status = 200, description = "The loop turns.", body = HealthItem),
        (status = 503, description = "The loop does not turn; start the server again.", body = HealthItem),
    ),
)]
pub(super) async fn live(State(state): State<ApiState>) -> (StatusCode, Json<HealthItem>) {
    let health = state.server.health();
    (answer(health.loop_ok), Json(health.into()))
}

/// Says whether requests should be sent here: 503 while the store or the loop does not answer, and while the server
/// stops.
#[utoipa::path(
    get, path = "/health/ready", tag = "service", operation_id = "health_ready", security(()),
    responses(
        (status = 200, description = "It takes requests and keeps them.", body = HealthItem),
        (status = 503, description = "It does not; `status` says why.", body = HealthItem),
    ),
)]
pub(super) async fn ready(State(state): State<ApiState>) -> (StatusCode, Json<HealthItem>) {
    let health = state.server.health();
    (answer(health.ready), Json(health.into()))
}

fn answer(good: bool) -> StatusCode {
    if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}
