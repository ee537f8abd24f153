use std::collections::BTreeMap;
use std::fmt;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use cadran_core::{Command, JobId, Millis, Reply, RunName, RunStatus};
use cadran_spec::Decoder;
use cadran_store::JobView;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::error::{ApiError, ErrorBody};
use crate::lists::{JobFilter, JobRow, JobSort, JobWord};
use crate::request::{self, Fields, JobAt, JsonBody, KeyHeader, NoBody, NoFields};
use crate::view::{JobDetail, JobItem};
use crate::{ApiState, instant};

/// Which jobs.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct JobFields {
    /// Only jobs whose name contains this text, in upper or lower case.
    text: Option<String>,
    /// Only jobs in one of these states, separated by commas: `active`, `paused`, `disabled`, `removed`.
    state: Option<String>,
    /// Only jobs with all of these labels, separated by commas: `NAME:VALUE`, or `NAME` for any value.
    label: Option<String>,
    /// Only jobs whose newest run that began has one of these statuses, separated by commas.
    last: Option<String>,
    /// Only jobs with a step on this group of executors; `local` is the server itself.
    executor: Option<String>,
    /// Only jobs whose file has a problem, or has none.
    problem: Option<bool>,
    /// `name`, `next_due` (soonest first), `last_end` (latest first) or `lateness` (of the last run, most first); `name`
    /// unless given.
    sort: Option<String>,
    /// How many to pass over.
    offset: Option<u32>,
    /// Only jobs whose name comes after this one: the `next` of the page before.
    after: Option<String>,
    /// Removed jobs too.
    removed: Option<bool>,
    /// How many, 1 to 1000; 100 unless given.
    limit: Option<u32>,
}

/// A page of jobs.
#[derive(Serialize, ToSchema)]
pub(super) struct JobPage {
    /// In the order that was asked for.
    jobs: Vec<JobItem>,
    /// How many jobs there are behind `after`, on this page or not.
    total: usize,
    /// How many of them were passed over.
    offset: u32,
    /// When this was so.
    as_of: String,
    as_of_ms: Millis,
    /// Where the next page of a list by name starts (`after`), when there may be one.
    next: Option<String>,
}

/// Lists jobs. The order and the filters cost one look at a list in memory, whatever they are.
#[utoipa::path(
    get, path = "/api/v1/jobs", tag = "jobs", operation_id = "list_jobs",
    params(JobFields),
    responses(
        (status = 200, description = "Jobs, by name unless asked for otherwise.", body = JobPage),
        (status = "default", description = "What is wrong, and what to do about it.", body = ErrorBody),
    ),
)]
pub(super) async fn list(
    State(state): State<ApiState>,
    Fields(fields): Fields<JobFields>,
) -> Result<Json<JobPage>, ApiError> {
    let limit = request::limit(fields.limit)?;
    let offset = fields.offset.unwrap_or(0);
    let sort = request::word_field("sort", fields.sort.as_deref(), JobSort::WORDS)?.unwrap_or_default();
    let filter = JobFilterFields {
        text: fields.text,
        state: fields.state,
        label: fields.label,
        last: fields.last,
        executor: fields.executor,
        problem: fields.problem,
    };
    let mut filter = filter.read(&state)?;
    filter.after = request::job_field(fields.after.as_deref())?;
    if fields.removed.unwrap_or(false) && filter.states.is_empty() {
        filter.states = JobWord::WORDS.iter().map(|(word, _)| *word).collect();
    }
    let now = state.server.now();
    let lists = state.server.lists();
    let (rows, total) = lists.read().await?.jobs.page(&filter, sort, offset as usize, limit, now);
    let more = rows.len() == limit && total > rows.len().saturating_add(offset as usize);
    let next = rows.last().filter(|_| sort == JobSort::Name && more).map(|row| row.name.to_string());
    let ids: Vec<JobId> = rows.iter().map(|row| row.job).collect();
    let found = state.store.jobs_by_id(&ids).await.map_err(ApiError::store)?;
    let mut found: BTreeMap<JobId, JobView> = found.into_iter().map(|view| (view.put.job, view)).collect();
    let mut decoder = Decoder::default();
    let item = |row: JobRow| {
        let mut view = found.remove(&row.job)?;
        view.last_run = row.last.or(view.last_run);
        Some(JobItem::new(&view, &mut decoder, row.next_due).with_last(row.last_end, row.late_ms))
    };
    let jobs = rows.into_iter().filter_map(item).collect();
    Ok(Json(JobPage { jobs, total, offset, as_of: instant::to_text(now), as_of_ms: now, next }))
}

/// The filters on jobs, in a query or in the body of a command on many of them.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct JobFilterFields {
    /// Part of the name, in upper or lower case.
    text: Option<String>,
    /// States, separated by commas.
    state: Option<String>,
    /// Labels, separated by commas: `NAME:VALUE` or `NAME`.
    label: Option<String>,
    /// Statuses of the newest run that began, separated by commas.
    last: Option<String>,
    /// A group of executors; `local` is the server itself.
    executor: Option<String>,
    /// Whether the file has a problem.
    problem: Option<bool>,
}

impl JobFilterFields {
    pub(super) fn read(self, state: &ApiState) -> Result<JobFilter, ApiError> {
        let files = |wanted: bool| {
            let problems = state.server.file_problems().into_iter();
            (problems.map(|problem| problem.file).filter(|file| !file.is_empty()).collect(), wanted)
        };
        Ok(JobFilter {
            text: self.text.unwrap_or_default().to_ascii_lowercase(),
            states: request::words_field("state", self.state.as_deref(), JobWord::WORDS)?,
            labels: request::labels_field("label", self.label.as_deref())?,
            last: request::words_field("last", self.last.as_deref(), RunStatus::WORDS)?,
            executor: self.executor,
            problem: self.problem.map(files),
            after: None,
        })
    }
}

/// How many dues ahead the answer about one job shows.
const NEXT_DUES_MAX: usize = 10;

/// How far ahead they are looked for: four years reach the next 29 February.
const NEXT_DUES_WINDOW_MS: i64 = 4 * 366 * 24 * 3_600_000;

/// Shows one job: its definition in short, its next dues, its last run, its state, and what is wrong with its file.
#[utoipa::path(
    get, path = "/api/v1/jobs/{name}", tag = "jobs", operation_id = "show_job",
    params(("name" = String, Path, description = "The job's name.")),
    responses(
        (status = 200, description = "The job.", body = JobDetail),
        (status = "default", description = "What is wrong, and what to do about it.", body = ErrorBody),
    ),
)]
pub(super) async fn show(
    State(state): State<ApiState>,
    JobAt(name): JobAt,
    Fields(NoFields {}): Fields<NoFields>,
) -> Result<Json<JobDetail>, ApiError> {
    let job = state.store.job(&name).await.map_err(ApiError::store)?;
    let mut job = job.ok_or_else(|| ApiError::no_such_job(&name))?;
    let now = state.server.now();
    let lists = state.server.lists();
    let row = lists.read().await?.jobs.row(job.put.job, now);
    let (last_end, late_ms) = row.as_ref().map_or((None, None), |row| (row.last_end, row.late_ms));
    job.last_run = row.and_then(|row| row.last).or(job.last_run);
    let upcoming =
        state.server.upcoming(now, now.saturating_add(NEXT_DUES_WINDOW_MS), Some(&name), NEXT_DUES_MAX)?;
    let mut dues: Vec<_> = upcoming.into_iter().map(|(due, _)| due).collect();
    // A due farther away than the server looks ahead is known by `next_due` alone.
    if dues.is_empty() {
        dues.extend(state.server.next_dues(vec![name.clone()])?.into_iter().flatten());
    }
    let mut problems = state.server.file_problems();
    problems.retain(|problem| !problem.file.is_empty() && *problem.file == *job.put.source);
    Ok(Json(JobDetail::new(&job, &dues, problems).with_last(last_end, late_ms)))
}

/// What a trigger brings along.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TriggerBody {
    /// Values for the job's parameters: an object by name, or a list by position.
    #[serde(default)]
    #[schema(value_type = Object)]
    params: Params,
    /// The executors it may go to, in this order: of those that are there. All of the job's groups without them.
    #[serde(default)]
    addresses: Vec<String>,
    /// The run that asks, when a run asks.
    parent: Option<String>,
}

/// What was made.
#[derive(Serialize, ToSchema)]
pub(super) struct Triggered {
    /// The new run.
    run: String,
    /// Its job.
    job: String,
}

/// Runs a job now. The answer comes when the run is recorded; it starts at once, or when its turn comes.
///
/// Without an answer, or with the code `unknown`, the run may have been made all the same. Ask again with the same
/// `Idempotency-Key`: for 24 hours the answer is the run that was made first, and there is never a second one.
#[utoipa::path(
    post, path = "/api/v1/jobs/{name}/trigger", tag = "jobs", operation_id = "trigger_job",
    params(
        ("name" = String, Path, description = "The job's name."),
        ("Idempotency-Key" = Option<String>, Header,
            description = "A text of the caller's own, new for each trigger: 1 to 255 visible characters."),
    ),
    request_body = TriggerBody,
    responses(
        (status = 201, description = "The run that was made, or that was made before under the same `Idempotency-Key`.", body = Triggered),
        (status = "default", description = "What is wrong, and what to do about it.", body = ErrorBody),
    ),
)]
pub(super) async fn trigger(
    State(state): State<ApiState>,
    JobAt(job): JobAt,
    key: KeyHeader,
    Fields(NoFields {}): Fields<NoFields>,
    JsonBody(body): JsonBody<TriggerBody>,
) -> Result<(StatusCode, Json<Triggered>), ApiError> {
    let parent = request::run_field(body.parent.as_deref())?;
    let address = |text: &String| request::address_field(text);
    let addresses = body.addresses.iter().map(address).collect::<Result<_, _>>()?;
    let name = job.to_string();
    let key = key.for_request(&format!("{name:?} {:?} {:?} {parent:?}", body.params.0, body.addresses));
    let command = Command::Trigger { job, params: body.params.0, addresses, parent, key };
    match state.server.command(command).await? {
        Reply::Run(run) => Ok((StatusCode::CREATED, Json(Triggered { run: run.to_string(), job: name }))),
        other => Err(ApiError::bug(format_args!("a trigger was answered with {other:?}"))),
    }
}

/// What a command did.
#[derive(Serialize, ToSchema)]
pub(super) struct Done {
    /// `done`, or `already` when it was so before.
    result: &'static str,
    /// The run it was done to.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<String>,
}

impl Done {
    /// The answer to a command about a run or a share of one.
    pub(super) fn to(name: RunName, reply: Reply) -> Done {
        let done = Done::from(reply);
        Done { run: done.run.map(|_| name.to_string()), ..done }
    }
}

impl From<Reply> for Done {
    fn from(reply: Reply) -> Done {
        match reply {
            Reply::Run(run) => Done { result: "done", run: Some(run.to_string()) },
            Reply::Done => Done { result: "done", run: None },
            Reply::Already => Done { result: "already", run: None },
        }
    }
}

/// Lets no due of a job start until it is resumed. Runs that are on go on.
#[utoipa::path(
    post, path = "/api/v1/jobs/{name}/pause", tag = "jobs", operation_id = "pause_job",
    params(("name" = String, Path, description = "The job's name.")),
    responses(
        (status = 200, description = "What was done, or that it was so already.", body = Done),
        (status = "default", description = "What is wrong, and what to do about it.", body = ErrorBody),
    ),
)]
pub(super) async fn pause(
    State(state): State<ApiState>,
    JobAt(job): JobAt,
    Fields(NoFields {}): Fields<NoFields>,
    JsonBody(NoBody {}): JsonBody<NoBody>,
) -> Result<Json<Done>, ApiError> {
    Ok(Json(state.server.command(Command::Pause { job }).await?.into()))
}

/// Ends a pause.
#[utoipa::path(
    post, path = "/api/v1/jobs/{name}/resume", tag = "jobs", operation_id = "resume_job",
    params(("name" = String, Path, description = "The job's name.")),
    responses(
        (status = 200, description = "What was done, or that it was so already.", body = Done),
        (status = "default", description = "What is wrong, and what to do about it.", body = ErrorBody),
    ),
)]
pub(super) async fn resume(
    State(state): State<ApiState>,
    JobAt(job): JobAt,
    Fields(NoFields {}): Fields<NoFields>,
    JsonBody(NoBody {}): JsonBody<NoBody>,
) -> Result<Json<Done>, ApiError> {
    Ok(Json(state.server.command(Command::Resume { job }).await?.into()))
}

/// Parameter values: `{"name": "value"}` or `["first", "second"]`. Numbers and booleans count as their text.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Params(pub(super) Vec<(Box<str>, Box<str>)>);

impl<'de> Deserialize<'de> for Params {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Params, D::Error> {
        struct ParamsVisitor;

        impl<'de> Visitor<'de> for ParamsVisitor {
            type Value = Params;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of parameters by name or a list by position")
            }

            fn visit_unit<E>(self) -> Result<Params, E> {
                Ok(Params::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Params, A::Error> {
                let mut seen = std::collections::BTreeSet::new();
                let mut params = Vec::new();
                while let Some((name, Value(value))) = map.next_entry::<String, Value>()? {
                    if !seen.insert(name.clone()) {
                        return Err(A::Error::custom(format_args!("the parameter {name:?} is given twice")));
                    }
                    params.push((name.into(), value));
                }
                Ok(Params(params))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Params, A::Error> {
                let mut params: Vec<(Box<str>, Box<str>)> = Vec::new();
                while let Some(Value(value)) = seq.next_element()? {
                    params.push(((params.len() + 1).to_string().into(), value));
                }
                Ok(Params(params))
            }
        }

        deserializer.deserialize_any(ParamsVisitor)
    }
}

/// A scalar as text.
struct Value(Box<str>);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        struct ValueVisitor;

        impl Visitor<'_> for ValueVisitor {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a number or a boolean")
            }

            fn visit_str<E>(self, text: &str) -> Result<Value, E> {
                Ok(Value(text.into()))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
                Ok(Value(value.to_string().into()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
                Ok(Value(value.to_string().into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
                Ok(Value(value.to_string().into()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
                Ok(Value(value.to_string().into()))
            }
        }

        deserializer.deserialize_any(ValueVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_by_name_and_by_position() {
        let check = |json: &str, expected: Result<&[(&str, &str)], &str>| {
            let read = serde_json::from_str::<TriggerBody>(json).map(|body| body.params.0);
            match (read, expected) {
                (Ok(params), Ok(expected)) => {
                    let params: Vec<(&str, &str)> =
                        params.iter().map(|(name, value)| (&**name, &**value)).collect();
                    assert_eq!(params, expected, "{json}");
                }
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{json}: {error}"),
                (read, _) => panic!("{json}: {read:?}"),
            }
        };
        check("{}", Ok(&[]));
        check(r#"{"params": null}"#, Ok(&[]));
        check(
            r#"{"params": {"b": "x", "a": 1, "c": true, "d": 1.5}}"#,
            Ok(&[("b", "x"), ("a", "1"), ("c", "true"), ("d", "1.5")]),
        );
        check(r#"{"params": ["x", -2]}"#, Ok(&[("1", "x"), ("2", "-2")]));
        check(r#"{"params": {"a": "1", "a": "2"}}"#, Err("given twice"));
        check(r#"{"params": {"a": {}}}"#, Err("a text, a number or a boolean"));
        check(r#"{"params": {"a": null}}"#, Err("a text, a number or a boolean"));
        check(r#"{"params": "a=b"}"#, Err("line 1 column"));
        check(
            r#"{"param": {}}"#,
            Err("unknown field `param`, expected one of `params`, `addresses`, `parent`"),
        );
        check(r#"{"params": {}, "params": {}}"#, Err("duplicate field"));
    }
}
