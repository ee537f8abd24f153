use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{log, run};
use crate::ApiState;
use crate::error::{ApiError, ErrorBody};
use crate::lines::{LineIndex, LogKey, Needle};
use crate::request::{Fields, StepAt};

/// Which lines.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct LineFields {
    /// Which attempt; the latest unless given.
    attempt: Option<u32>,
    /// Which share of a broadcast; the first that printed something unless given.
    share: Option<u32>,
    /// From this line on; the first is 0.
    from: Option<u64>,
    /// How many, 1 to 1000; 200 unless given. An answer holds fewer when they are long.
    count: Option<u32>,
}

/// Lines of a log.
#[derive(Serialize, ToSchema)]
pub(super) struct LinePage {
    /// The number of the first; that of the first line of a log is 0.
    from: u64,
    /// Each without its line break. Longer ones than 16 KiB are cut.
    lines: Vec<String>,
    /// How many the log has at this moment.
    total: u64,
    /// Bytes of the log at this moment.
    bytes: u64,
    /// Which attempt it is of.
    attempt: u32,
    /// Whether nothing more is written by this run.
    ended: bool,
}

const COUNT_DEFAULT: u32 = 200;
const COUNT_MAX: u32 = 1000;

/// Answers lines of a step's log by their numbers.
#[utoipa::path(
    get, path = "/api/v1/runs/{id}/logs/{step}/lines", tag = "logs", operation_id = "read_log_lines",
    params(
        ("id" = String, Path, description = "The run's id; with a dot and a number behind it, a share's."),
        ("step" = String, Path, description = "The step's name, or its number."),
        LineFields
    ),
    responses((status = 200, body = LinePage, description = "The lines."), (status = "default", body = ErrorBody, description = "What went wrong.")),
)]
pub(super) async fn lines(
    State(state): State<ApiState>,
    at: StepAt,
    Fields(fields): Fields<LineFields>,
) -> Result<Json<LinePage>, ApiError> {
    let from = fields.from.unwrap_or(0);
    let count = match fields.count.unwrap_or(COUNT_DEFAULT) {
        count @ 1..=COUNT_MAX => count as usize,
        count => {
            let allowed = format!("a number from 1 to {COUNT_MAX}");
            return Err(ApiError::bad_field("count", &count.to_string(), &allowed));
        }
    };
    let (key, ended) = find(&state, &at, fields.attempt, fields.share).await?;
    let logs = state.logs.clone();
    let found = with_index(&state, key, move |index| index.lines(&logs, key, from, count)).await?;
    let lines = found.lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    Ok(Json(LinePage { from, lines, total: found.total, bytes: found.bytes, attempt: key.2, ended }))
}

/// What to look for.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchFields {
    /// The text; in upper or lower case unless it has an upper case letter.
    q: String,
    /// Which attempt; the latest unless given.
    attempt: Option<u32>,
    /// Which share of a broadcast; the first that printed something unless given.
    share: Option<u32>,
    /// From this line on; the first is 0.
    from: Option<u64>,
    /// How many lines, 1 to 1000; 100 unless given.
    limit: Option<u32>,
}

/// Lines that contain a text.
#[derive(Serialize, ToSchema)]
pub(super) struct MatchPage {
    /// Their numbers; that of the first line of a log is 0.
    lines: Vec<u64>,
    /// Where the search goes on (`from`), when it stopped before the end.
    next: Option<u64>,
    /// How many lines the log has at this moment.
    total: u64,
}

/// Longer texts are not looked for line by line.
const SEARCH_TEXT_BYTES_MAX: usize = 1000;

/// Looks for a text in a step's log. An answer covers 64 MiB at most and says where to go on.
#[utoipa::path(
    get, path = "/api/v1/runs/{id}/logs/{step}/search", tag = "logs", operation_id = "search_log",
    params(
        ("id" = String, Path, description = "The run's id; with a dot and a number behind it, a share's."),
        ("step" = String, Path, description = "The step's name, or its number."),
        SearchFields
    ),
    responses((status = 200, body = MatchPage, description = "The lines."), (status = "default", body = ErrorBody, description = "What went wrong.")),
)]
pub(super) async fn search(
    State(state): State<ApiState>,
    at: StepAt,
    Fields(fields): Fields<SearchFields>,
) -> Result<Json<MatchPage>, ApiError> {
    if fields.q.is_empty() || fields.q.len() > SEARCH_TEXT_BYTES_MAX {
        let allowed = format!("a text of 1 to {SEARCH_TEXT_BYTES_MAX} bytes");
        return Err(ApiError::bad_field("q", &fields.q, &allowed));
    }
    let limit = crate::request::limit(fields.limit)?;
    let from = fields.from.unwrap_or(0);
    let (key, _) = find(&state, &at, fields.attempt, fields.share).await?;
    let (logs, needle) = (state.logs.clone(), Needle::new(&fields.q));
    let found = with_index(&state, key, move |index| index.search(&logs, key, from, &needle, limit)).await?;
    let (lines, next, total) = found;
    Ok(Json(MatchPage { lines, next, total }))
}

/// The log that is meant, and whether its run has ended.
async fn find(
    state: &ApiState,
    at: &StepAt,
    attempt: Option<u32>,
    share: Option<u32>,
) -> Result<(LogKey, bool), ApiError> {
    let run = at.name.run;
    let found = run::find_named(state, at.name).await?;
    let (_, ended) = found.standing();
    let steps = found.view.record.state.steps.as_deref().unwrap_or_default();
    state.server.refresh_logs(run, steps, found.view.record.state.status.is_ended()).await;
    let files = log::files(&state.logs, run).await?;
    let no = log::step_no(&at.step, steps, &files);
    let file = no.and_then(|no| log::pick(&files, no, attempt, at.name.share.or(share)));
    let file = file.ok_or_else(|| ApiError::no_such_log(run, &at.step, attempt))?;
    Ok(((run, file.step_no, file.attempt, file.share), ended))
}

/// Works on the index of a log where blocking is allowed: the first look at a large log reads all of it.
async fn with_index<T: Send + 'static>(
    state: &ApiState,
    key: LogKey,
    work: impl FnOnce(&mut LineIndex) -> std::io::Result<T> + Send + 'static,
) -> Result<T, ApiError> {
    let index = state.line_indexes.of(key);
    let done = tokio::task::spawn_blocking(move || {
        work(&mut index.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    });
    done.await.map_err(ApiError::bug)?.map_err(ApiError::log_unreadable)
}
