use std::collections::HashSet;

use axum::Json;
use axum::extract::State;
use cadran_core::{JobId, Millis, RunId, RunStatus, SkipReason};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use crate::error::{ApiError, ErrorBody};
use crate::lists::{DueOutcome, DueQuery, RecordedDue, Tables};
use crate::request::{self, Fields};
use crate::{ApiState, instant};

/// Which dues.
#[derive(serde::Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct DueFields {
    /// Only dues of this job.
    job: Option<String>,
    /// Only dues at this instant or later; an hour ago unless given.
    from: Option<String>,
    /// Only dues before this instant; two hours after `from` unless given.
    to: Option<String>,
    /// Only dues that were skipped for one of these reasons, separated by commas.
    reason: Option<String>,
    /// How many to pass over, at most 10000.
    offset: Option<u32>,
    /// How many, 1 to 1000; 100 unless given.
    limit: Option<u32>,
}

/// Dues of a window, each once.
#[derive(Serialize, ToSchema)]
pub(super) struct DuePage {
    from: String,
    from_ms: Millis,
    to: String,
    to_ms: Millis,
    /// Earliest first.
    dues: Vec<RecordedDueItem>,
    /// How many dues of the window are on record: runs, promised ones included, and skips.
    recorded: u64,
    /// Where the next page starts (`offset`), when there is one.
    next_offset: Option<u32>,
}

/// What became, or becomes, of one due.
#[derive(Serialize, ToSchema)]
struct RecordedDueItem {
    due: String,
    due_ms: Millis,
    job: String,
    /// `run`, `skip`, `promised` (recorded, and not started yet) or `to_come`.
    outcome: &'static str,
    /// How many dues this stands for: more than one of a stretch of skips under schedules that are no longer in force.
    count: u64,
    /// The run.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    /// Where the run stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    /// From due to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    late_ms: Option<Millis>,
    /// From start to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<Millis>,
    /// Why it was skipped, as a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// Why it was skipped, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<&'static str>,
}

const FROM_BEFORE_MS: Millis = 3_600_000;
const WINDOW_MS: Millis = 2 * 3_600_000;

/// Dues that are found again for each further page.
const OFFSET_MAX: u32 = 10_000;

/// Lists every due of a window once: as the run or the skip that it became, as promised, or as still to come. What was
/// asked for by hand answers no due and is not here. Reaches back as far as the newest two million runs.
#[utoipa::path(
    get, path = "/api/v1/dues", tag = "history", operation_id = "list_dues",
    params(DueFields),
    responses(
        (status = 200, description = "Dues, earliest first.", body = DuePage),
        (status = "default", description = "What is wrong, and what to do about it.", body = ErrorBody),
    ),
)]
pub(super) async fn dues(
    State(state): State<ApiState>,
    Fields(fields): Fields<DueFields>,
) -> Result<Json<DuePage>, ApiError> {
    let limit = request::limit(fields.limit)?;
    let offset = fields.offset.unwrap_or(0);
    if offset > OFFSET_MAX {
        let allowed = format!("a number up to {OFFSET_MAX}; ask for a later `from` instead");
        return Err(ApiError::bad_field("offset", &offset.to_string(), &allowed));
    }
    let name = request::job_field(fields.job.as_deref())?;
    let reasons = request::words_field("reason", fields.reason.as_deref(), SkipReason::WORDS)?;
    let now = state.server.now();
    let from = request::instant_field("from", fields.from.as_deref())?;
    let from = from.unwrap_or_else(|| now.saturating_sub(FROM_BEFORE_MS));
    let to = request::instant_field("to", fields.to.as_deref())?;
    let to = to.unwrap_or_else(|| from.saturating_add(WINDOW_MS));
    if to < from {
        return Err(ApiError::bad_field("to", &instant::to_text(to), "an instant that is not before from"));
    }
    let end = offset as usize + limit;
    let lists = state.server.lists();
    let (mut items, recorded, mut known) = {
        let tables = lists.read().await?;
        let job = name.as_ref().and_then(|name| tables.jobs.find(name));
        if let (Some(name), None) = (&name, job) {
            return Err(ApiError::no_such_job(name));
        }
        let query = DueQuery { job, from, to, reasons };
        let (found, recorded) = tables.recorded_dues(&query, end + 1);
        let known: HashSet<(Millis, JobId)> = found.iter().map(|one| (one.due, one.job)).collect();
        let items: Vec<RecordedDueItem> = found.iter().filter_map(|one| item(&tables, one)).collect();
        (items, recorded, known)
    };
    if fields.reason.is_none() && to > now {
        // Exclusive at its start, inclusive at its end.
        let first = now.max(from.saturating_sub(1));
        let dues = state.server.upcoming(first, to.saturating_sub(1), name.as_ref(), end + 1)?;
        let tables = lists.read().await?;
        for (due, name) in dues {
            let Some(job) = tables.jobs.find(&name) else { continue };
            if known.insert((due, job)) {
                items.push(RecordedDueItem::to_come(due, name.to_string()));
            }
        }
    }
    items.sort_by(|one, other| (one.due_ms, &one.job).cmp(&(other.due_ms, &other.job)));
    let next_offset = (items.len() > end).then(|| offset + limit as u32);
    let dues = items.into_iter().skip(offset as usize).take(limit).collect();
    let (from_text, to_text) = (instant::to_text(from), instant::to_text(to));
    Ok(Json(DuePage { from: from_text, from_ms: from, to: to_text, to_ms: to, dues, recorded, next_offset }))
}

fn item(tables: &Tables, found: &RecordedDue) -> Option<RecordedDueItem> {
    let made = RecordedDueItem {
        count: found.count,
        ..RecordedDueItem::to_come(found.due, tables.jobs.name(found.job)?.to_string())
    };
    Some(match &found.outcome {
        DueOutcome::Run(row) => RecordedDueItem {
            outcome: match row.status {
                RunStatus::Promised => "promised",
                RunStatus::Skipped => "skip",
                _ => "run",
            },
            run: Some(RunId::from_raw(row.run).to_string()),
            status: Some(row.status.word()),
            late_ms: row.late_ms(),
            duration_ms: row.duration_ms(),
            reason: row.reason.map(SkipReason::word),
            explanation: row.reason.map(SkipReason::sentence),
            ..made
        },
        DueOutcome::Skip(skip) => RecordedDueItem {
            outcome: "skip",
            reason: Some(skip.reason.word()),
            explanation: Some(skip.reason.sentence()),
            ..made
        },
    })
}

impl RecordedDueItem {
    fn to_come(due: Millis, job: String) -> RecordedDueItem {
        RecordedDueItem {
            due: instant::to_text(due),
            due_ms: due,
            job,
            outcome: "to_come",
            count: 1,
            run: None,
            status: None,
            late_ms: None,
            duration_ms: None,
            reason: None,
            explanation: None,
        }
    }
}
