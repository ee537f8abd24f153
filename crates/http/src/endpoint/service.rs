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
use crate::{ApiState, Health};

/// What is wrong with job files.
#[derive(Serialize, ToSchema)]
pub(super) struct ProblemPage {
    /// By file, line and column.
    problems: Vec<ProblemItem>,
}

/// Lists what is wrong with job files. A file with an error is not in force; every other file is.
#[utoipa::path(
    get, path = "/api/v1/problems", tag = "jobs", operation_id = "list_problems",
    responses((status = 200, body = ProblemPage), (status = "default", body = ErrorBody)),
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
    responses((status = 200, body = Object), (status = "default", body = ErrorBody)),
)]
pub(super) async fn openapi(Extension(document): Extension<OpenApiText>) -> Response {
    ([(CONTENT_TYPE, "application/json")], document.as_str().to_owned()).into_response()
}

/// Answers metrics in Prometheus' text format.
#[utoipa::path(
    get, path = "/metrics", tag = "service", operation_id = "metrics",
    responses((status = 200, body = String, content_type = "text/plain"), (status = "default", body = ErrorBody)),
)]
pub(super) async fn metrics(State(state): State<ApiState>) -> Response {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], state.server.metrics()).into_response()
}

/// How the server is.
#[derive(Serialize, ToSchema)]
pub(super) struct HealthItem {
    /// `ok`, `starting`, `store_down` or `stopping`.
    status: &'static str,
    ready: bool,
    store_ok: bool,
    version: String,
    uptime_ms: Millis,
}

/// Says how the server is: 200 when it plans, fires and records, else 503. The only endpoint without a token.
#[utoipa::path(
    get, path = "/health", tag = "service", operation_id = "health", security(()),
    responses((status = 200, body = HealthItem), (status = 503, body = HealthItem)),
)]
pub(super) async fn health(State(state): State<ApiState>) -> (StatusCode, Json<HealthItem>) {
    let Health { ready, store_ok, stopping, version, uptime_ms } = state.server.health();
    let status = match (stopping, ready, store_ok) {
        (true, ..) => "stopping",
        (_, _, false) => "store_down",
        (_, false, _) => "starting",
        _ => "ok",
    };
    let code = if status == "ok" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(HealthItem { status, ready, store_ok, version, uptime_ms }))
}
