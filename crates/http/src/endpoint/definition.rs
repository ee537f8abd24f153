use axum::Json;
use axum::extract::State;
use axum::http::header::{ETAG, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use cadran_core::JobName;
use cadran_spec::Decoder;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::error::{ApiError, ErrorBody};
use crate::meaning::{self, MeaningChange};
use crate::request::{Fields, JobAt, JsonBody, NoFields};
use crate::view::ProblemItem;
use crate::{ApiState, ExpectedFile, JobFileSaved};

/// The text of a job's file.
#[derive(Serialize, ToSchema)]
pub(super) struct Definition {
    /// Relative to the jobs directory.
    source: String,
    /// As it is on disk at this moment. An edit with an error stands here and is not in force.
    text: Option<String>,
    /// Names this text: send it as `If-Match` when the file is changed or removed.
    etag: Option<String>,
    /// The revision that is in force.
    revision: u32,
    /// Whether files may be changed here: not under `serve --read-only-jobs`.
    writable: bool,
}

/// Shows the file that a job comes from.
#[utoipa::path(
    get, path = "/api/v1/jobs/{name}/definition", tag = "jobs", operation_id = "show_definition",
    params(("name" = String, Path, description = "The job's name.")),
    responses(
        (status = 200, body = Definition, description = "The file.", headers(("ETag" = String, description = "Names the text."))),
        (status = "default", body = ErrorBody, description = "What went wrong.")
    ),
)]
pub(super) async fn show(
    State(state): State<ApiState>,
    JobAt(name): JobAt,
    Fields(NoFields {}): Fields<NoFields>,
) -> Result<Response, ApiError> {
    let job = state.store.job(&name).await.map_err(ApiError::store)?;
    let put = job.ok_or_else(|| ApiError::no_such_job(&name))?.put;
    let (server, source) = (state.server.clone(), put.source.clone());
    let read = tokio::task::spawn_blocking(move || server.job_file(&source));
    let text = read.await.map_err(ApiError::bug)?;
    let etag = text.as_deref().map(etag);
    let body = Definition {
        source: put.source.to_string(),
        text,
        etag: etag.clone(),
        revision: put.revision,
        writable: state.server.may_write_jobs(),
    };
    Ok((headers(etag.as_deref()), Json(body)).into_response())
}

/// Names a text of a file, as an HTTP entity tag.
pub fn etag(text: &str) -> String {
    format!("\"{}\"", &blake3::hash(text.as_bytes()).to_hex()[..32])
}

fn headers(etag: Option<&str>) -> HeaderMap {
    let value = etag.and_then(|etag| HeaderValue::from_str(etag).ok());
    value.map(|value| (ETAG, value)).into_iter().collect()
}

/// A new text for a job's file.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DefinitionBody {
    /// All of it.
    text: String,
}

/// A file that was written, and is in force.
#[derive(Serialize, ToSchema)]
pub(super) struct DefinitionSaved {
    job: String,
    /// Relative to the jobs directory.
    source: String,
    /// Names the text that is there now.
    etag: String,
    /// The revision that is in force now.
    revision: u32,
    /// What is probably not meant.
    problems: Vec<ProblemItem>,
}

/// Creates a job, or changes its file. `If-None-Match: *` creates, and is refused when there is a file; `If-Match` with
/// the `ETag` of the file changes it, and is refused when somebody changed it meanwhile. A text with a mistake is refused
/// with what `POST /spec/check` says of it. The answer comes when the job is in force.
#[utoipa::path(
    put, path = "/api/v1/jobs/{name}/definition", tag = "jobs", operation_id = "save_definition",
    params(
        ("name" = String, Path, description = "The job's name."),
        ("If-Match" = Option<String>, Header, description = "The `ETag` of the file as it was read: change this one and no other."),
        ("If-None-Match" = Option<String>, Header, description = "`*`: create a file, and replace none."),
    ),
    request_body = DefinitionBody,
    responses(
        (status = 200, body = DefinitionSaved, description = "It was changed, and is in force.", headers(("ETag" = String, description = "Names the text."))),
        (status = 201, body = DefinitionSaved, description = "It was created, and is in force.", headers(("ETag" = String, description = "Names the text."))),
        (status = "default", body = ErrorBody, description = "What went wrong; nothing was changed."),
    ),
)]
pub(super) async fn save(
    State(state): State<ApiState>,
    JobAt(name): JobAt,
    Fields(NoFields {}): Fields<NoFields>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<DefinitionBody>,
) -> Result<Response, ApiError> {
    let expected = expected(&headers)?;
    let is_new = expected == ExpectedFile::None;
    let written = state.server.write_job_file(name.clone(), Some(body.text), expected).await;
    let JobFileSaved { source, etag, revision, problems } =
        written.map_err(|why| ApiError::job_file(&name, why))?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let tag = self::headers(Some(&etag));
    let problems = problems.into_iter().map(ProblemItem::from).collect();
    let saved = DefinitionSaved { job: name.to_string(), source, etag, revision, problems };
    Ok((status, tag, Json(saved)).into_response())
}

/// What was removed.
#[derive(Serialize, ToSchema)]
pub(super) struct DefinitionRemoved {
    job: String,
    /// The file that is gone, relative to the jobs directory.
    source: String,
}

/// Removes a job with its file. What runs goes on to its end, and the history stays.
#[utoipa::path(
    delete, path = "/api/v1/jobs/{name}/definition", tag = "jobs", operation_id = "remove_definition",
    params(
        ("name" = String, Path, description = "The job's name."),
        ("If-Match" = Option<String>, Header, description = "The `ETag` of the file as it was read; required."),
    ),
    responses(
        (status = 200, body = DefinitionRemoved, description = "It was removed."),
        (status = "default", body = ErrorBody, description = "What went wrong; nothing was changed."),
    ),
)]
pub(super) async fn remove(
    State(state): State<ApiState>,
    JobAt(name): JobAt,
    Fields(NoFields {}): Fields<NoFields>,
    headers: HeaderMap,
) -> Result<Json<DefinitionRemoved>, ApiError> {
    let expected = expected(&headers)?;
    if expected == ExpectedFile::None {
        return Err(ApiError::precondition_required());
    }
    let removed = state.server.write_job_file(name.clone(), None, expected).await;
    let removed = removed.map_err(|why| ApiError::job_file(&name, why))?;
    Ok(Json(DefinitionRemoved { job: name.to_string(), source: removed.source }))
}

/// Without a precondition the last writer would win over others that nobody has seen.
fn expected(headers: &HeaderMap) -> Result<ExpectedFile, ApiError> {
    let text = |name: HeaderName| {
        let mut values = headers.get_all(name).iter();
        let value = values.next().map(|value| value.to_str().unwrap_or_default().trim().to_owned());
        if values.next().is_none() { value } else { Some(String::new()) }
    };
    match (text(IF_MATCH), text(IF_NONE_MATCH)) {
        (Some(etag), None) => Ok(ExpectedFile::Text(etag)),
        (None, Some(star)) if star == "*" => Ok(ExpectedFile::None),
        _ => Err(ApiError::precondition_required()),
    }
}

/// The revisions of a job whose definitions are still there.
#[derive(Serialize, ToSchema)]
pub(super) struct Revisions {
    job: String,
    /// The one in force.
    revision: u32,
    /// Rising. One goes when the last run under it is forgotten.
    revisions: Vec<u32>,
}

/// Lists the revisions of a job whose definitions are still there.
#[utoipa::path(
    get, path = "/api/v1/jobs/{name}/revisions", tag = "jobs", operation_id = "list_revisions",
    params(("name" = String, Path, description = "The job's name.")),
    responses((status = 200, body = Revisions, description = "The revisions."), (status = "default", body = ErrorBody, description = "What went wrong.")),
)]
pub(super) async fn revisions(
    State(state): State<ApiState>,
    JobAt(name): JobAt,
    Fields(NoFields {}): Fields<NoFields>,
) -> Result<Json<Revisions>, ApiError> {
    let job = state.store.job(&name).await.map_err(ApiError::store)?;
    let put = job.ok_or_else(|| ApiError::no_such_job(&name))?.put;
    let revisions = state.store.revisions(put.job).await.map_err(ApiError::store)?;
    Ok(Json(Revisions { job: name.to_string(), revision: put.revision, revisions }))
}

/// Which revisions.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct DiffFields {
    /// The earlier revision.
    from: u32,
    /// The later one; the one in force unless given.
    to: Option<u32>,
}

/// How two definitions of a job differ.
#[derive(Serialize, ToSchema)]
pub(super) struct DefinitionDiff {
    job: String,
    from: u32,
    to: u32,
    /// By place in the definition. Comments and the order of keys have no meaning and are not here.
    changes: Vec<MeaningChange>,
}

/// Says how two revisions of a job differ in what they mean.
#[utoipa::path(
    get, path = "/api/v1/jobs/{name}/diff", tag = "jobs", operation_id = "diff_definitions",
    params(("name" = String, Path, description = "The job's name."), DiffFields),
    responses((status = 200, body = DefinitionDiff, description = "The differences."), (status = "default", body = ErrorBody, description = "What went wrong.")),
)]
pub(super) async fn diff(
    State(state): State<ApiState>,
    JobAt(name): JobAt,
    Fields(fields): Fields<DiffFields>,
) -> Result<Json<DefinitionDiff>, ApiError> {
    let job = state.store.job(&name).await.map_err(ApiError::store)?;
    let put = job.ok_or_else(|| ApiError::no_such_job(&name))?.put;
    let to = fields.to.unwrap_or(put.revision);
    let mut texts = Vec::new();
    for revision in [fields.from, to] {
        let text = state.store.definition(put.job, revision).await.map_err(ApiError::store)?;
        texts.push(text.ok_or_else(|| ApiError::no_such_revision(&name, revision))?);
    }
    for text in &texts {
        check_readable(&name, text)?;
    }
    let changes = meaning::changes(&texts[0], &texts[1]);
    Ok(Json(DefinitionDiff { job: name.to_string(), from: fields.from, to, changes }))
}

fn check_readable(name: &JobName, text: &str) -> Result<(), ApiError> {
    let read = Decoder::default().decode(name.clone(), text);
    read.map(drop).map_err(|error| ApiError::unreadable_definition(&error.to_string()))
}
