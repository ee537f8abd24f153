use axum::Json;
use axum::extract::State;
use cadran_core::{Job, Millis, RunStatus, ScheduleAction, Skip};
use cadran_spec::Decoder;
use cadran_store::{JobView, RunQuery, RunView, SkipQuery};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::error::{ApiError, ErrorBody};
use crate::request::{self, Fields, JobAt};
use crate::view::{RunItem, SkipItem};
use crate::{ApiState, instant};

/// When.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct WhyAtFields {
    /// The instant that is asked about; the first due within a minute from it is meant.
    at: String,
}

/// What became, or becomes, of a job at an instant.
#[derive(Serialize, ToSchema)]
pub(super) struct WhyAt {
    job: String,
    at: String,
    at_ms: Millis,
    /// `run`, `skip`, `to_come`, `no_due`, or `unknown` when the record does not reach back that far.
    outcome: &'static str,
    /// In a sentence.
    explanation: String,
    /// The run that is, or was, due then.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<RunItem>,
    /// The skip that the due is part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    skip: Option<SkipItem>,
    /// The due of its schedules before that, as they are written now.
    #[serde(skip_serializing_if = "Option::is_none")]
    due_before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_before_ms: Option<Millis>,
    /// The due at or after that.
    #[serde(skip_serializing_if = "Option::is_none")]
    due_after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_after_ms: Option<Millis>,
}

/// People ask by the minute.
const WITHIN_MS: Millis = 60_000;

/// Says why a job ran or did not run at an instant: its run, the skip with its reason, or that no due was there.
#[utoipa::path(
    get, path = "/api/v1/jobs/{name}/why", tag = "jobs", operation_id = "why_at",
    params(("name" = String, Path, description = "The job's name."), WhyAtFields),
    responses((status = 200, body = WhyAt, description = "What became of it."), (status = "default", body = ErrorBody, description = "What went wrong.")),
)]
pub(super) async fn why_at(
    State(state): State<ApiState>,
    JobAt(name): JobAt,
    Fields(fields): Fields<WhyAtFields>,
) -> Result<Json<WhyAt>, ApiError> {
    let at = request::instant_field("at", Some(&fields.at))?.unwrap_or_default();
    let to = at.saturating_add(WITHIN_MS);
    let found = state.store.job(&name).await.map_err(ApiError::store)?;
    let view = found.ok_or_else(|| ApiError::no_such_job(&name))?;
    let query =
        RunQuery { job: Some(name.clone()), due_from: Some(at), due_to: Some(to), ..RunQuery::default() };
    let mut runs = state.store.runs(&query).await.map_err(ApiError::store)?;
    // Runs come newest first; the first due in the minute is meant.
    runs.sort_by_key(|run| (run.record.promise.due, run.record.promise.run));
    let skips = SkipQuery { job: Some(name.clone()), ..SkipQuery::default() };
    let skips = state.store.skips(&skips).await.map_err(ApiError::store)?;
    let skip =
        skips.into_iter().map(|view| view.skip).find(|skip| skip.first_due < to && skip.last_due >= at);
    // Of a run and a skip in the same minute, the one whose due comes first.
    let skip_due = skip.as_ref().map(|skip| skip.first_due.max(at));
    runs.retain(|run| skip_due.is_none_or(|due| run.record.promise.due <= due));
    let job = Decoder::default().decode(name.clone(), &view.put.definition).ok();
    let (before, after) = job.as_ref().map_or((None, None), |job| neighbours(job, at));
    let (outcome, explanation) =
        judge(&view, runs.first(), skip.as_ref(), after.filter(|due| *due < to), state.server.now());
    Ok(Json(WhyAt {
        job: name.to_string(),
        at: instant::to_text(at),
        at_ms: at,
        outcome,
        explanation,
        run: runs.first().map(|run| RunItem::new(name.as_str(), &run.record)),
        skip: skip.filter(|_| runs.is_empty()).map(|skip| SkipItem::new(name.as_str(), &skip)),
        due_before: before.map(instant::to_text),
        due_before_ms: before,
        due_after: after.map(instant::to_text),
        due_after_ms: after,
    }))
}

/// The dues around an instant: the last before it, and the first at or after it.
fn neighbours(job: &Job, at: Millis) -> (Option<Millis>, Option<Millis>) {
    let starts = || job.schedules.iter().filter(|entry| entry.action == ScheduleAction::Start);
    let before = starts().filter_map(|entry| entry.schedule.previous(at)).max();
    let after = starts().filter_map(|entry| entry.schedule.next(at.saturating_sub(1))).min();
    (before, after)
}

/// The record counts first; only where it says nothing the schedules as they are now are asked.
fn judge(
    view: &JobView,
    run: Option<&RunView>,
    skip: Option<&Skip>,
    due: Option<Millis>,
    now: Millis,
) -> (&'static str, String) {
    let paused = view.state.paused_at;
    if let Some(run) = run {
        let item = RunItem::new(run.job_name.as_str(), &run.record);
        let outcome = match run.record.state.status {
            RunStatus::Promised => "to_come",
            RunStatus::Skipped => "skip",
            _ => "run",
        };
        return (outcome, item.into_explanation());
    }
    if let Some(skip) = skip {
        return ("skip", skip.reason.sentence().to_owned());
    }
    if let Some(removed) = view.removed_at {
        return ("no_due", format!("the job was removed at {}", instant::to_text(removed)));
    }
    match (due, paused) {
        (None, _) => ("no_due", "its schedules name no instant in this minute".to_owned()),
        (Some(due), Some(since)) if due > now => {
            ("to_come", format!("it will be skipped: the job is paused since {}", instant::to_text(since)))
        }
        (Some(due), None) if due > now => ("to_come", "it is still to come".to_owned()),
        (Some(_), _) => {
            let words = "its schedules name an instant in this minute, and the record has neither a run nor a skip for it: \
                         the job, its schedule or this server is newer, or the run is past the job's retention";
            ("unknown", words.to_owned())
        }
    }
}
