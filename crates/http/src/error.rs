use std::fmt;

use axum::http::header::{ALLOW, CONTENT_RANGE, ETAG, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use cadran_core::{AddressError, JobName, NameError, Refusal, RunId, RunIdError, RunNameError, ShareError};
use serde::Serialize;
use utoipa::ToSchema;

use crate::view::ProblemItem;
use crate::{FileProblem, JobFileRefusal};

/// Every answer that is not a success, in one shape. All of them are made in this file.
#[derive(Debug)]
pub(crate) struct ApiError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    status: StatusCode,
    code: &'static str,
    message: String,
    help: Option<String>,
    header: Option<(HeaderName, HeaderValue)>,
    /// For the log alone: what the caller has no business to know.
    detail: Option<String>,
    problems: Vec<FileProblem>,
}

/// The body of every answer that is not a success.
#[derive(Serialize, ToSchema)]
pub(crate) struct ErrorBody {
    error: ErrorShape,
}

/// What went wrong.
#[derive(Serialize, ToSchema)]
pub(crate) struct ErrorShape {
    /// A short stable word for programs.
    code: &'static str,
    /// What is wrong, in words.
    message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<String>,
    /// Of a job file that is refused: every mistake, with its place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<ProblemItem>,
}

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> ApiError {
        let message = message.into();
        ApiError(Box::new(Inner {
            status,
            code,
            message,
            help: None,
            header: None,
            detail: None,
            problems: Vec::new(),
        }))
    }

    fn help(mut self, help: impl Into<String>) -> ApiError {
        self.0.help = Some(help.into());
        self
    }

    fn header(mut self, name: HeaderName, value: impl fmt::Display) -> ApiError {
        self.0.header = HeaderValue::from_str(&value.to_string()).ok().map(|value| (name, value));
        self
    }

    pub(crate) fn no_token() -> ApiError {
        ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", "this needs a token")
            .help("send `Authorization: Bearer TOKEN`; the token is in the file `token` of the server's data directory")
            .header(WWW_AUTHENTICATE, "Bearer")
    }

    pub(crate) fn bad_token() -> ApiError {
        ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", "the token is not the one of this server")
            .help("the token is in the file `token` of the server's data directory")
            .header(WWW_AUTHENTICATE, "Bearer error=\"invalid_token\"")
    }

    pub(crate) fn no_session() -> ApiError {
        ApiError::new(StatusCode::UNAUTHORIZED, "session_ended", "this session has ended")
            .help("`cadran open` on the server's machine prints a link that opens a new one")
            .header(WWW_AUTHENTICATE, "Bearer")
    }

    pub(crate) fn bad_code() -> ApiError {
        ApiError::new(
            StatusCode::UNAUTHORIZED,
            "bad_code",
            "this link was used already, or is older than a minute",
        )
        .help("`cadran open` on the server's machine prints a new one")
        .header(WWW_AUTHENTICATE, "Bearer")
    }

    pub(crate) fn no_such_session(name: &str) -> ApiError {
        ApiError::new(
            StatusCode::NOT_FOUND,
            "no_such_session",
            format!("there is no session {}", shown(name)),
        )
        .help("GET /api/v1/sessions lists them")
    }

    pub(crate) fn read_only() -> ApiError {
        ApiError::new(StatusCode::FORBIDDEN, "read_only", "this session may look and change nothing")
            .help("`cadran open` without --read-only gives one that may")
    }

    pub(crate) fn foreign_host(host: &str) -> ApiError {
        ApiError::new(
            StatusCode::FORBIDDEN,
            "foreign_host",
            format!("this server does not answer browsers as {}", shown(host)),
        )
        .help("open it by its address or as localhost, or name the host with `cadran serve --host-name NAME`")
    }

    pub(crate) fn foreign_origin() -> ApiError {
        ApiError::new(
            StatusCode::FORBIDDEN,
            "foreign_origin",
            "a browser's request must come from this server's own page",
        )
        .help("programs send the token: `Authorization: Bearer TOKEN`")
    }

    pub(crate) fn too_many_bad_tokens(retry_after_secs: u64) -> ApiError {
        ApiError::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_bad_tokens",
            "too many requests without the right token came from this address",
        )
        .help(format!("try again in {retry_after_secs} s with the right token"))
        .header(RETRY_AFTER, retry_after_secs)
    }

    pub(crate) fn no_such_path(path: &str) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, "no_such_path", format!("nothing is at {}", shown(path)))
            .help("GET /api/v1/openapi.json lists every path")
    }

    pub(crate) fn wrong_method(method: &str, path: &str) -> ApiError {
        ApiError::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "wrong_method",
            format!("{} does not answer {}", shown(path), shown(method)),
        )
        .help("GET /api/v1/openapi.json lists the methods of every path")
        .header(ALLOW, if path.starts_with("/api/") { "GET, HEAD, POST, PUT, DELETE" } else { "GET, HEAD" })
    }

    pub(crate) fn bad_job_name(error: &NameError) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "bad_job_name", error.to_string())
    }

    pub(crate) fn bad_run_id(_: &RunIdError) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "bad_run_id", RunIdError.to_string())
            .help("GET /api/v1/runs lists runs with their ids")
    }

    pub(crate) fn bad_run_name(error: &RunNameError) -> ApiError {
        match error {
            RunNameError::Run(error) => ApiError::bad_run_id(error),
            RunNameError::Share => ApiError::new(StatusCode::BAD_REQUEST, "bad_share", error.to_string())
                .help("GET /api/v1/runs/{id} lists the shares of a run"),
        }
    }

    pub(crate) fn no_such_share(run: RunId, why: ShareError) -> ApiError {
        let made = ApiError::new(StatusCode::NOT_FOUND, "no_such_share", format!("run {run} {why}"));
        made.help(
            "GET /api/v1/runs/{id} lists the shares of a run; they are known once an executor has an order",
        )
    }

    pub(crate) fn bad_path(message: String) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "bad_path", message)
    }

    pub(crate) fn bad_query(message: String) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "bad_query", message)
    }

    /// A header with a value it cannot have.
    pub(crate) fn bad_key(limit: usize) -> ApiError {
        ApiError::new(
            StatusCode::BAD_REQUEST,
            "bad_key",
            format!("an Idempotency-Key is one header of 1 to {limit} visible characters"),
        )
        .help("send a new random one, such as a UUID, with every new trigger")
    }

    /// A schedule that cannot be read.
    pub(crate) fn bad_schedule(message: &str, column: usize, help: Option<String>) -> ApiError {
        let made = ApiError::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "bad_schedule",
            format!("{message} (column {column})"),
        );
        match help {
            Some(help) => made.help(help),
            None => made,
        }
    }

    /// A field of the query with a value it cannot have.
    pub(crate) fn bad_field(field: &str, value: &str, allowed: &str) -> ApiError {
        ApiError::bad_query(format!("{field} cannot be {}", shown(value)))
            .help(format!("{field} is {allowed}"))
    }

    pub(crate) fn bad_address(value: &str, error: &AddressError) -> ApiError {
        ApiError::bad_query(format!("addresses: {} is {error}", shown(value)))
    }

    pub(crate) fn bad_json(error: &serde_json::Error) -> ApiError {
        ApiError::new(
            StatusCode::BAD_REQUEST,
            "bad_json",
            format!("the body is not what is expected: {error}"),
        )
    }

    pub(crate) fn not_json() -> ApiError {
        ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", "the body must be JSON")
            .help("send `Content-Type: application/json`")
    }

    pub(crate) fn body_too_large(limit: usize) -> ApiError {
        ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body_too_large",
            format!("a body has at most {limit} bytes"),
        )
    }

    pub(crate) fn body_broken() -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "body_broken", "the body ended before its announced length")
    }

    pub(crate) fn no_such_job(job: &JobName) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, "no_such_job", format!("there is no job named {job}"))
            .help("GET /api/v1/jobs lists jobs; a job file with an error is listed by GET /api/v1/problems")
    }

    /// The error as it stands in a body.
    pub(crate) fn into_shape(self) -> ErrorShape {
        let Inner { code, message, help, detail, problems, .. } = *self.0;
        if let Some(detail) = detail {
            tracing::warn!(code, detail, "request failed");
        }
        ErrorShape { code, message, help, problems: problems.into_iter().map(ProblemItem::from).collect() }
    }

    pub(crate) fn bad_bulk(message: String) -> ApiError {
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_bulk", message)
            .help("send {\"names\": [\"a\", \"b\"]} or {\"filter\": {\"label\": \"team:core\"}}, with \"dry_run\": true to see it first")
    }

    pub(crate) fn precondition_required() -> ApiError {
        ApiError::new(
            StatusCode::PRECONDITION_REQUIRED,
            "precondition_required",
            "a job's file is changed only by who says which text is there",
        )
        .help("send `If-Match` with the ETag of GET /api/v1/jobs/{name}/definition, or `If-None-Match: *` for a new file")
    }

    /// A job's file that was not written.
    pub(crate) fn job_file(job: &JobName, why: JobFileRefusal) -> ApiError {
        let made = |status, code, message: String| ApiError::new(status, code, message);
        match why {
            JobFileRefusal::ReadOnly => {
                made(StatusCode::FORBIDDEN, "read_only_jobs", "this server changes no job files".to_owned())
                    .help("it was started with --read-only-jobs; change the file where it comes from")
            }
            JobFileRefusal::Exists { source } => {
                made(StatusCode::PRECONDITION_FAILED, "file_exists", format!("{} is there already", shown(&source)))
                    .help("read it with GET /api/v1/jobs/{name}/definition, and send its ETag as `If-Match` to change it")
            }
            JobFileRefusal::Changed { etag } => {
                let message = "the file is not the one that was read: somebody changed or removed it".to_owned();
                let made = made(StatusCode::PRECONDITION_FAILED, "file_changed", message)
                    .help("read it again with GET /api/v1/jobs/{name}/definition, and change that");
                match etag {
                    Some(etag) => made.header(ETAG, etag),
                    None => made,
                }
            }
            JobFileRefusal::NoSuchJob => ApiError::no_such_job(job),
            JobFileRefusal::Elsewhere(why) => made(StatusCode::CONFLICT, "not_a_job_file", why),
            JobFileRefusal::OtherName(name) => made(
                StatusCode::UNPROCESSABLE_ENTITY,
                "other_name",
                format!("the text is of job {}, and the file is that of {job}", shown(&name)),
            )
            .help("take `name` out of the text, or send it to the job that it names"),
            JobFileRefusal::Invalid(problems) => {
                let first = problems.first().map(|one| format!("line {}: {}", one.line, one.message));
                let message = first.unwrap_or_else(|| "it is not a job".to_owned());
                let mut made = made(StatusCode::UNPROCESSABLE_ENTITY, "bad_job_file", message)
                    .help("`problems` has each mistake with its place; POST /api/v1/spec/check says the same");
                made.0.problems = problems;
                made
            }
            JobFileRefusal::Failed(why) => made(StatusCode::SERVICE_UNAVAILABLE, "not_written", why)
                .help("read it with GET /api/v1/jobs/{name}/definition, and try again; the server's log may say more"),
        }
    }

    pub(crate) fn no_such_revision(job: &JobName, revision: u32) -> ApiError {
        ApiError::new(
            StatusCode::NOT_FOUND,
            "no_such_revision",
            format!("the definition of revision {revision} of job {job} is not there"),
        )
        .help("GET /api/v1/jobs/{name}/revisions lists those that are; one goes with the last run under it")
    }

    pub(crate) fn unreadable_definition(why: &str) -> ApiError {
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "unreadable_definition", why)
            .help("a newer version of the server wrote it")
    }

    pub(crate) fn no_such_run(run: RunId) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, "no_such_run", format!("there is no run {run}"))
            .help("GET /api/v1/runs lists runs; ended runs are dropped after the job's history retention")
    }

    pub(crate) fn no_such_log(run: RunId, step: &str, attempt: Option<u32>) -> ApiError {
        let attempt = attempt.map(|attempt| format!(", attempt {attempt}")).unwrap_or_default();
        ApiError::new(
            StatusCode::NOT_FOUND,
            "no_such_log",
            format!("run {run} has no log of step {}{attempt}", shown(step)),
        )
        .help(format!("GET /api/v1/runs/{run}/logs lists its logs"))
    }

    pub(crate) fn range_outside(len: u64) -> ApiError {
        ApiError::new(
            StatusCode::RANGE_NOT_SATISFIABLE,
            "range_outside",
            format!("the range lies outside the log, which has {len} bytes"),
        )
        .header(CONTENT_RANGE, format_args!("bytes */{len}"))
    }

    pub(crate) fn too_many_followers(limit: usize) -> ApiError {
        ApiError::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_followers",
            format!("{limit} logs are being followed already"),
        )
        .help("close one, or read the log without follow")
        .header(RETRY_AFTER, 5)
    }

    pub(crate) fn too_many_watchers(limit: usize) -> ApiError {
        ApiError::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_watchers",
            format!("{limit} streams of events are open already"),
        )
        .help("close one; a page closes its stream while it is hidden")
        .header(RETRY_AFTER, 5)
    }

    pub(crate) fn too_slow() -> ApiError {
        ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too_slow",
            "the answer took too long and was given up",
        )
        .help("try again; ask for less with limit, from and to")
        .header(RETRY_AFTER, 1)
    }

    pub(crate) fn store(error: impl fmt::Display) -> ApiError {
        let mut made = ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "store_unavailable",
            "the store did not answer; jobs in memory keep running",
        )
        .help("try again; GET /health and the server's log say more")
        .header(RETRY_AFTER, 1);
        made.0.detail = Some(error.to_string());
        made
    }

    /// A log file that is there and cannot be read.
    pub(crate) fn log_unreadable(error: impl fmt::Display) -> ApiError {
        let mut made =
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "log_unreadable", "the log could not be read")
                .help("the server's log says why");
        made.0.detail = Some(error.to_string());
        made
    }

    /// A bug of ours.
    pub(crate) fn bug(detail: impl fmt::Display) -> ApiError {
        let mut made = ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the server made a mistake; nothing was changed by this request",
        )
        .help("the server's log says where");
        made.0.detail = Some(detail.to_string());
        made
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> ApiError {
        let message = refusal.to_string();
        match refusal {
            Refusal::NoSuchJob(job) => ApiError::no_such_job(&job),
            Refusal::NoSuchRun(run) => ApiError::no_such_run(run),
            Refusal::NoSuchShare(run, why) => ApiError::no_such_share(run, why),
            Refusal::ShareEnded(..) => ApiError::new(StatusCode::CONFLICT, "share_ended", message),
            Refusal::RunEnded(_) => ApiError::new(StatusCode::CONFLICT, "run_ended", message),
            Refusal::NotRetryable(..) => ApiError::new(StatusCode::CONFLICT, "not_retryable", message),
            Refusal::Params(_) => ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_params", message)
                .help("GET /api/v1/jobs/{name} lists the job's params"),
            Refusal::Addresses(_) => {
                ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_addresses", message)
                    .help("GET /api/v1/executors lists the executors")
            }
            Refusal::KeyReused => ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "key_reused", message)
                .help("send a new Idempotency-Key with every new trigger"),
            Refusal::Limit(_) => {
                ApiError::new(StatusCode::TOO_MANY_REQUESTS, "limit", message).header(RETRY_AFTER, 5)
            }
            Refusal::Busy(_) => {
                ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message).header(RETRY_AFTER, 1)
            }
            Refusal::Unknown(_) => ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "unknown", message)
                .help("ask again: a trigger with the same Idempotency-Key makes no second run")
                .header(RETRY_AFTER, 1),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, header) = (self.0.status, self.0.header.clone());
        let body = ErrorBody { error: self.into_shape() };
        let mut response = (status, axum::Json(body)).into_response();
        if let Some((name, value)) = header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// How much of a caller's own text an error repeats.
const SHOWN_CHARS_MAX: usize = 80;

/// A caller's text inside a message: quoted, escaped and cut, so that it can do nothing in a terminal.
fn shown(text: &str) -> String {
    let mut cut: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    format!("{cut:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_their_status() {
        let job: JobName = "nightly".parse().unwrap();
        let run = RunId::from_raw(7);
        let check = |refusal: Refusal, status: u16, code: &str| {
            let made = ApiError::from(refusal.clone());
            assert_eq!((made.0.status.as_u16(), made.0.code), (status, code), "{refusal:?}");
        };
        check(Refusal::NoSuchJob(job), 404, "no_such_job");
        check(Refusal::NoSuchRun(run), 404, "no_such_run");
        check(Refusal::RunEnded(run), 409, "run_ended");
        check(Refusal::NoSuchShare(run, ShareError::Beyond(3)), 404, "no_such_share");
        check(Refusal::ShareEnded(run, 1), 409, "share_ended");
        check(Refusal::NotRetryable(run, "it succeeded"), 409, "not_retryable");
        check(Refusal::Params("no param x".into()), 422, "bad_params");
        check(Refusal::KeyReused, 422, "key_reused");
        check(Refusal::Limit("too deep".into()), 429, "limit");
        check(Refusal::Busy("stopping"), 503, "busy");
        check(Refusal::Unknown("no answer"), 503, "unknown");
    }

    #[test]
    fn a_callers_text_is_escaped_and_cut() {
        assert_eq!(shown("a\u{1b}[31m"), r#""a\u{1b}[31m""#);
        assert_eq!(shown(&"x".repeat(500)).chars().count(), SHOWN_CHARS_MAX + 3);
    }
}
