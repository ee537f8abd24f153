use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{ACCEPT, ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, RANGE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use cadran_core::{RunId, StepNo, StepRecord};
use cadran_exec::{LogChunk, LogDir, LogFile};
use futures::stream;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{follow, run};
use crate::ApiState;
use crate::error::{ApiError, ErrorBody};
use crate::listen::Stopping;
use crate::range::{ByteRange, byte_range};
use crate::request::{Fields, NoFields, RunAt, StepAt};

/// The logs of a run.
#[derive(Serialize, ToSchema)]
pub(super) struct LogPage {
    run: String,
    /// Where the run stands.
    status: &'static str,
    /// Whether nothing more is written.
    ended: bool,
    /// By step and attempt. An attempt that printed nothing has none.
    logs: Vec<LogItem>,
}

/// One log.
#[derive(Serialize, ToSchema)]
pub(super) struct LogItem {
    /// The step's name.
    step: String,
    /// Its place in the job; handlers follow the steps.
    step_no: u16,
    attempt: u32,
    /// Which share of a broadcast, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<u32>,
    /// Its size now.
    bytes: u64,
}

/// Lists the logs of a run.
#[utoipa::path(
    get, path = "/api/v1/runs/{id}/logs", tag = "logs", operation_id = "list_logs",
    params(("id" = String, Path, description = "The run's id; with a dot and a number behind it, a share's.")),
    responses(
        (status = 200, description = "The logs of the run.", body = LogPage),
        (status = "default", description = "What is wrong, and what to do about it.", body = ErrorBody),
    ),
)]
pub(super) async fn list(
    State(state): State<ApiState>,
    RunAt(name): RunAt,
    Fields(NoFields {}): Fields<NoFields>,
) -> Result<Json<LogPage>, ApiError> {
    let run = name.run;
    // The state is read before the files: `ended` then means that these sizes are final.
    let found = run::find_named(&state, name).await?;
    let (status, ended) = found.standing();
    let run::RunOrShare { view, share } = found;
    let is_over = view.record.state.status.is_ended();
    let steps = view.record.state.steps.unwrap_or_default();
    state.server.refresh_logs(run, &steps, is_over).await;
    let files = files(&state.logs, run).await?;
    let of_share = share.as_ref().and_then(|(step, seat)| Some((no_of(&steps, step)?, seat.index)));
    let is_wanted = |file: &LogFile| match (&share, of_share) {
        (None, _) => true,
        (Some(_), of_share) => of_share == file.share.map(|share| (file.step_no, share)),
    };
    let logs = files
        .into_iter()
        .filter(is_wanted)
        .map(|file| LogItem {
            step: full_name(&file, &steps).to_owned(),
            step_no: file.step_no.0,
            attempt: file.attempt,
            share: file.share,
            bytes: file.bytes,
        })
        .collect();
    Ok(Json(LogPage { run: name.to_string(), status: status.word(), ended, logs }))
}

fn no_of(steps: &[StepRecord], wanted: &StepRecord) -> Option<StepNo> {
    let at = steps.iter().position(|step| step.name == wanted.name)?;
    u16::try_from(at).ok().map(StepNo)
}

/// Which part of a log.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct LogFields {
    /// Which attempt; the latest unless given.
    attempt: Option<u32>,
    /// Which share of a broadcast; the first that printed something unless given.
    share: Option<u32>,
    /// Only what comes from this byte on.
    from: Option<u64>,
    /// Only the last so many lines, at most 10000.
    tail: Option<u32>,
    /// Go on with what the step prints until it has ended: as plain text, or as server-sent events when the request
    /// accepts `text/event-stream`. Without `attempt` later attempts follow too. Events have the id `ATTEMPT:BYTE`; who
    /// sends the last one as `Last-Event-ID` goes on there.
    follow: Option<bool>,
}

/// A tail is for a screen; who wants more wants the log.
const TAIL_LINES_MAX: u32 = 10_000;

/// Where a stream of events broke off: the attempt and the byte to go on with, from its last id.
fn resumed(headers: &HeaderMap) -> Result<Option<(u32, u64)>, ApiError> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let read = |text: &str| {
        let (attempt, at) = text.split_once(':')?;
        Some((attempt.parse().ok()?, at.parse().ok()?))
    };
    let text = value.to_str().unwrap_or_default();
    let allowed = "the `id` of an event of this stream, ATTEMPT:BYTE";
    read(text).map(Some).ok_or_else(|| ApiError::bad_field("Last-Event-ID", text, allowed))
}

/// Answers the log of a step as it is, byte for byte. `Range` is honoured.
#[utoipa::path(
    get, path = "/api/v1/runs/{id}/logs/{step}", tag = "logs", operation_id = "read_log",
    params(
        ("id" = String, Path, description = "The run's id; with a dot and a number behind it, a share's."),
        ("step" = String, Path, description = "The step's name, or its number."),
        LogFields
    ),
    responses(
        (status = 200, description = "What the step printed.", body = String, content_type = "text/plain"),
        (status = 206, body = String, content_type = "text/plain", description = "The part that `Range` asked for."),
        (status = "default", description = "What is wrong, and what to do about it.", body = ErrorBody)
    ),
)]
pub(super) async fn read(
    State(state): State<ApiState>,
    StepAt { name, step }: StepAt,
    Fields(fields): Fields<LogFields>,
    headers: HeaderMap,
    stopping: Option<axum::Extension<Stopping>>,
) -> Result<Response, ApiError> {
    let run = name.run;
    if name.share.is_some() && fields.share.is_some_and(|share| name.share != Some(share)) {
        return Err(ApiError::bad_query(format!("share is another one than that of {name}")));
    }
    let wanted_share = name.share.or(fields.share);
    let found = run::find_named(&state, name).await?;
    let (_, is_ended) = found.standing();
    let found = found.view;
    let steps = found.record.state.steps.as_deref().unwrap_or_default();
    state.server.refresh_logs(run, steps, found.record.state.status.is_ended()).await;
    let files = files(&state.logs, run).await?;
    let no = step_no(&step, steps, &files);
    let file = no.and_then(|no| pick(&files, no, fields.attempt, wanted_share));
    let (from, tail) = (fields.from, fields.tail);
    if from.is_some() && tail.is_some() {
        return Err(ApiError::bad_query("from and tail cannot be given together".into()));
    }
    if tail.is_some_and(|lines| lines > TAIL_LINES_MAX) {
        let allowed = format!("a number of lines, at most {TAIL_LINES_MAX}");
        return Err(ApiError::bad_field("tail", &tail.unwrap_or_default().to_string(), &allowed));
    }
    let start = match (file, tail) {
        (Some(file), Some(lines)) => tail_start(&state.logs, run, file, lines as usize).await?,
        _ => from.unwrap_or(0),
    };
    if fields.follow == Some(true) {
        // Nothing printed yet is no error while something may still come.
        let may_come = !is_ended && (no.is_some() || steps.is_empty());
        if file.is_none() && !may_come {
            return Err(ApiError::no_such_log(run, &step, fields.attempt));
        }
        let permit = state
            .followers
            .clone()
            .try_acquire_owned()
            .map_err(|_| ApiError::too_many_followers(crate::state::FOLLOWERS_MAX))?;
        let attempt = fields.attempt.or(file.map(|file| file.attempt)).unwrap_or(1);
        let share = wanted_share.or(file.and_then(|file| file.share));
        let only = fields.attempt.is_some();
        // Who comes back goes on where its stream broke off.
        let (attempt, from) = match resumed(&headers)? {
            Some(at) => at,
            None => (attempt, start),
        };
        let wish = follow::Wish { run, step, attempt, share, is_child: name.share.is_some(), only, from };
        let events = headers.get(ACCEPT).is_some_and(|accept| {
            accept.as_bytes().windows(b"text/event-stream".len()).any(|part| part == b"text/event-stream")
        });
        return Ok(follow::answer(state, wish, permit, stopping.map(|stopping| stopping.0), events));
    }
    let file = file.ok_or_else(|| ApiError::no_such_log(run, &step, fields.attempt))?;
    let header = headers.get(RANGE).and_then(|value| value.to_str().ok());
    let header = header.filter(|_| from.is_none() && tail.is_none());
    let (part, from, to) = match byte_range(header, file.bytes) {
        ByteRange::Whole => (false, start.min(file.bytes), file.bytes),
        ByteRange::Part(from, to) => (true, from, to),
        ByteRange::Unsatisfiable => return Err(ApiError::range_outside(file.bytes)),
    };
    let body = piece(state.logs, run, file.clone(), from, to);
    let mut response = ([(CONTENT_TYPE, PLAIN), (ACCEPT_RANGES, "bytes")], body).into_response();
    response.headers_mut().insert(CONTENT_LENGTH, (to - from).into());
    if part {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let range = format!("bytes {from}-{}/{}", to - 1, file.bytes);
        if let Ok(range) = range.parse() {
            response.headers_mut().insert(CONTENT_RANGE, range);
        }
    }
    Ok(response)
}

/// How logs are labelled: text, and with `nosniff` nothing else.
pub(super) const PLAIN: &str = "text/plain; charset=utf-8";

/// Bytes taken from a file at once: the memory that one reader costs.
pub(super) const PIECE_BYTES_MAX: u64 = 256 * 1024;

/// Bytes `from..to` of a log as a body that is read while it is sent.
fn piece(logs: LogDir, run: RunId, file: LogFile, from: u64, to: u64) -> Body {
    Body::from_stream(stream::try_unfold(from, move |at| {
        let (logs, step, attempt, share) = (logs.clone(), file.step_no, file.attempt, file.share);
        async move {
            if at >= to {
                return Ok::<_, std::io::Error>(None);
            }
            let chunk =
                read_chunk(logs, run, (step, attempt, share), at, to.min(at + PIECE_BYTES_MAX)).await?;
            if chunk.bytes.is_empty() {
                // Removed while it was sent: the answer breaks off instead of pretending to be whole.
                return Err(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the log went away"));
            }
            let next = chunk.next();
            Ok(Some((Bytes::from(chunk.bytes), next)))
        }
    }))
}

pub(super) async fn read_chunk(
    logs: LogDir,
    run: RunId,
    (step, attempt, share): (StepNo, u32, Option<u32>),
    from: u64,
    to: u64,
) -> std::io::Result<LogChunk> {
    tokio::task::spawn_blocking(move || logs.read_share(run, step, attempt, share, from, to))
        .await
        .map_err(std::io::Error::other)?
}

pub(super) async fn files(logs: &LogDir, run: RunId) -> Result<Vec<LogFile>, ApiError> {
    let logs = logs.clone();
    let listed = tokio::task::spawn_blocking(move || logs.list(run)).await.map_err(ApiError::bug)?;
    listed.map_err(ApiError::log_unreadable)
}

/// The attempt and share that were asked for, or the latest attempt of the first share.
pub(super) fn pick(
    files: &[LogFile],
    no: StepNo,
    attempt: Option<u32>,
    share: Option<u32>,
) -> Option<&LogFile> {
    let of_step = || files.iter().filter(|file| file.step_no == no);
    let share = share.or_else(|| of_step().filter_map(|file| file.share).min());
    of_step()
        .filter(|file| file.share == share)
        .filter(|file| attempt.is_none_or(|attempt| file.attempt == attempt))
        .max_by_key(|file| file.attempt)
}

/// Which step a text of the path means: a name as recorded, a name as in the file's name, or a number. Text is only
/// compared here; the number found is all that goes on to the files.
pub(super) fn step_no(text: &str, steps: &[StepRecord], files: &[LogFile]) -> Option<StepNo> {
    let mut by_file = files.iter().filter(|file| file.step == text).map(|file| file.step_no);
    if let Some(no) = by_file.next()
        && by_file.all(|other| other == no)
    {
        return Some(no);
    }
    if let Some(at) = steps.iter().position(|step| *step.name == *text) {
        return u16::try_from(at).ok().map(StepNo);
    }
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let no = StepNo(text.parse().ok().filter(|_| digits)?);
    (usize::from(no.0) < steps.len() || files.iter().any(|file| file.step_no == no)).then_some(no)
}

/// The step's name as recorded where the record has it; a file knows it only as far as it fits a file name.
fn full_name<'a>(file: &'a LogFile, steps: &'a [StepRecord]) -> &'a str {
    let recorded = steps.get(usize::from(file.step_no.0)).map(|step| &*step.name);
    let same =
        |name: &&str| name.chars().count() == file.step.chars().count() || name.len() > file.step.len();
    recorded.filter(same).unwrap_or(&file.step)
}

/// Where the last `lines` lines begin, looked for in the last piece that one read may return.
async fn tail_start(logs: &LogDir, run: RunId, file: &LogFile, lines: usize) -> Result<u64, ApiError> {
    let from = file.bytes.saturating_sub(LogDir::READ_BYTES_MAX);
    let at = (file.step_no, file.attempt, file.share);
    let chunk = read_chunk(logs.clone(), run, at, from, file.bytes).await;
    let chunk = chunk.map_err(ApiError::log_unreadable)?;
    Ok(from + last_lines(&chunk.bytes, lines) as u64)
}

fn last_lines(bytes: &[u8], lines: usize) -> usize {
    if lines == 0 {
        return bytes.len();
    }
    // The newline that ends the last line starts no further one.
    let inside = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let breaks = inside.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    breaks.map(|(at, _)| at + 1).nth(lines - 1).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cadran_core::StepStatus;

    #[test]
    fn tails() {
        let check = |text: &str, lines: usize, expected: &str| {
            assert_eq!(&text[last_lines(text.as_bytes(), lines)..], expected, "{text:?} {lines}");
        };
        check("", 1, "");
        check("a\nb\nc\n", 0, "");
        check("a\nb\nc\n", 1, "c\n");
        check("a\nb\nc\n", 2, "b\nc\n");
        check("a\nb\nc", 2, "b\nc");
        check("a\nb\nc\n", 9, "a\nb\nc\n");
        check("\n\n\n", 2, "\n\n");
    }

    #[test]
    fn steps_are_found_by_name_file_name_or_number() {
        let step = |name: &str| StepRecord {
            name: name.into(),
            status: StepStatus::Succeeded,
            attempt: 1,
            lost: 0,
            started_at: None,
            ended_at: None,
            exit_code: None,
            message: None,
            output: None,
            seats: Vec::new(),
            calls: Vec::new(),
        };
        let file = |no: u16, name: &str| LogFile {
            step_no: StepNo(no),
            step: name.into(),
            attempt: 1,
            share: None,
            bytes: 0,
        };
        let steps = [step("build"), step("a b"), step("a_b"), step("7"), step("on_exit")];
        let files = [file(0, "build"), file(1, "a_b"), file(2, "a_b"), file(7, "on_exit")];
        let check = |text: &str, no: Option<u16>| {
            assert_eq!(step_no(text, &steps, &files), no.map(StepNo), "{text:?}");
        };
        check("build", Some(0));
        check("a b", Some(1));
        check("a_b", Some(2));
        check("7", Some(3));
        check("on_exit", Some(7));
        check("2", Some(2));
        check("6", None);
        check("+2", None);
        check("", None);
        check("../build", None);
        check("BUILD", None);
    }
}
