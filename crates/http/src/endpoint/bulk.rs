use axum::Json;
use axum::extract::State;
use cadran_core::{Command, JobName, Reply};
use futures::stream::{self, StreamExt};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::job::{JobFilterFields, Params};
use crate::ApiState;
use crate::error::{ApiError, ErrorBody, ErrorShape};
use crate::lists::{JobFilter, JobWord};
use crate::request::{Fields, JsonBody, KeyHeader, NoFields};

/// Jobs that one request is about.
const JOBS_MAX: usize = 10_000;

/// Commands that are on their way to the loop at once.
const AT_ONCE: usize = 256;

/// Which jobs, and whether to do it.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BulkBody {
    /// The jobs by name; or else `filter`.
    names: Option<Vec<String>>,
    /// The jobs that a list with these filters shows; an empty one is all of them.
    filter: Option<JobFilterFields>,
    /// Only say what would be done to which job.
    #[serde(default)]
    dry_run: bool,
    /// For a trigger: values for the parameters of each job.
    #[serde(default)]
    #[schema(value_type = Object)]
    params: Params,
}

/// What was done to each job.
#[derive(Serialize, ToSchema)]
pub(super) struct BulkDone {
    /// Nothing was done.
    dry_run: bool,
    /// How many jobs were meant.
    total: usize,
    /// By name.
    results: Vec<BulkResult>,
}

/// What was done to one job.
#[derive(Serialize, ToSchema)]
struct BulkResult {
    job: String,
    /// `done`, `already` when it was so before, `refused`; of a dry run `would`, `already` or `refused`.
    result: &'static str,
    /// The run that was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorShape>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Pause,
    Resume,
    Trigger,
}

/// Pauses many jobs.
#[utoipa::path(
    post, path = "/api/v1/jobs:pause", tag = "jobs", operation_id = "pause_jobs",
    request_body = BulkBody,
    responses((status = 200, body = BulkDone, description = "What was done to each."), (status = "default", body = ErrorBody, description = "What went wrong.")),
)]
pub(super) async fn pause(
    State(state): State<ApiState>,
    Fields(NoFields {}): Fields<NoFields>,
    JsonBody(body): JsonBody<BulkBody>,
) -> Result<Json<BulkDone>, ApiError> {
    carry_out(&state, Act::Pause, body, None).await
}

/// Resumes many jobs.
#[utoipa::path(
    post, path = "/api/v1/jobs:resume", tag = "jobs", operation_id = "resume_jobs",
    request_body = BulkBody,
    responses((status = 200, body = BulkDone, description = "What was done to each."), (status = "default", body = ErrorBody, description = "What went wrong.")),
)]
pub(super) async fn resume(
    State(state): State<ApiState>,
    Fields(NoFields {}): Fields<NoFields>,
    JsonBody(body): JsonBody<BulkBody>,
) -> Result<Json<BulkDone>, ApiError> {
    carry_out(&state, Act::Resume, body, None).await
}

/// Runs many jobs now. With an `Idempotency-Key` the same request makes no second run of any of them within 24 hours.
#[utoipa::path(
    post, path = "/api/v1/jobs:trigger", tag = "jobs", operation_id = "trigger_jobs",
    params(
        ("Idempotency-Key" = Option<String>, Header,
            description = "A text of the caller's own, new for each request: 1 to 255 visible characters."),
    ),
    request_body = BulkBody,
    responses((status = 200, body = BulkDone, description = "What was done to each."), (status = "default", body = ErrorBody, description = "What went wrong.")),
)]
pub(super) async fn trigger(
    State(state): State<ApiState>,
    key: KeyHeader,
    Fields(NoFields {}): Fields<NoFields>,
    JsonBody(body): JsonBody<BulkBody>,
) -> Result<Json<BulkDone>, ApiError> {
    carry_out(&state, Act::Trigger, body, Some(key)).await
}

async fn carry_out(
    state: &ApiState,
    act: Act,
    body: BulkBody,
    key: Option<KeyHeader>,
) -> Result<Json<BulkDone>, ApiError> {
    if act != Act::Trigger && !body.params.0.is_empty() {
        return Err(ApiError::bad_bulk("params are for a trigger".to_owned()));
    }
    let names = jobs(state, body.names, body.filter).await?;
    let total = names.len();
    let results = match body.dry_run {
        true => dry_run(state, act, names).await?,
        false => {
            let params = body.params.0;
            let commands = names.into_iter().map(|job| {
                let key = key.as_ref().and_then(|key| key.for_job(&job, &format!("{params:?}")));
                let (params, name) = (params.clone(), job.clone());
                let command = match act {
                    Act::Pause => Command::Pause { job },
                    Act::Resume => Command::Resume { job },
                    Act::Trigger => {
                        Command::Trigger { job, params, addresses: Vec::new(), parent: None, key }
                    }
                };
                let answer = state.server.command(command);
                async move { BulkResult::of(name, answer.await) }
            });
            stream::iter(commands).buffered(AT_ONCE).collect().await
        }
    };
    Ok(Json(BulkDone { dry_run: body.dry_run, total, results }))
}

/// The jobs that are meant, each once, by name.
async fn jobs(
    state: &ApiState,
    names: Option<Vec<String>>,
    filter: Option<JobFilterFields>,
) -> Result<Vec<JobName>, ApiError> {
    let too_many = |total: usize| {
        ApiError::bad_bulk(format!(
            "{total} jobs are meant, and one request is about {JOBS_MAX} at most; narrow it"
        ))
    };
    match (names, filter) {
        (Some(names), None) => {
            if names.len() > JOBS_MAX {
                return Err(too_many(names.len()));
            }
            let name = |name: String| name.parse().map_err(|error| ApiError::bad_job_name(&error));
            let mut names: Vec<JobName> = names.into_iter().map(name).collect::<Result<_, _>>()?;
            names.sort_unstable();
            names.dedup();
            Ok(names)
        }
        (None, Some(filter)) => {
            let filter: JobFilter = filter.read(state)?;
            let lists = state.server.lists();
            let (names, total) = lists.read().await?.jobs.names(&filter, JOBS_MAX);
            if total > JOBS_MAX { Err(too_many(total)) } else { Ok(names) }
        }
        _ => Err(ApiError::bad_bulk("either names or a filter says which jobs are meant".to_owned())),
    }
}

async fn dry_run(state: &ApiState, act: Act, names: Vec<JobName>) -> Result<Vec<BulkResult>, ApiError> {
    let lists = state.server.lists();
    let tables = lists.read().await?;
    let result = |job: JobName| {
        let result = match (act, tables.jobs.word(&job)) {
            (_, None | Some(JobWord::Removed)) => {
                let error = Some(ApiError::no_such_job(&job).into_shape());
                return BulkResult { job: job.to_string(), result: "refused", run: None, error };
            }
            (Act::Pause, Some(JobWord::Paused)) => "already",
            (Act::Resume, Some(JobWord::Active | JobWord::Disabled)) => "already",
            _ => "would",
        };
        BulkResult { job: job.to_string(), result, run: None, error: None }
    };
    Ok(names.into_iter().map(result).collect())
}

impl BulkResult {
    fn of(job: JobName, answer: Result<Reply, cadran_core::Refusal>) -> BulkResult {
        let job = job.to_string();
        match answer {
            Ok(Reply::Run(run)) => {
                BulkResult { job, result: "done", run: Some(run.to_string()), error: None }
            }
            Ok(Reply::Done) => BulkResult { job, result: "done", run: None, error: None },
            Ok(Reply::Already) => BulkResult { job, result: "already", run: None, error: None },
            Err(refusal) => {
                let error = Some(ApiError::from(refusal).into_shape());
                BulkResult { job, result: "refused", run: None, error }
            }
        }
    }
}
