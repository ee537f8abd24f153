use axum::Json;
use axum::extract::State;
use cadran_core::{Job, Millis, ScheduleAction};
use cadran_cron::Schedule;
use cadran_spec::{Decoder, read_job};
use serde::Serialize;
use utoipa::ToSchema;

use super::spec::{CheckBody, PreviewDue, next};
use super::why::ConflictItem;
use crate::error::{ApiError, ErrorBody};
use crate::meaning::{self, MeaningChange};
use crate::request::{self, Fields, JsonBody, NoFields};
use crate::view::ProblemItem;
use crate::{ApiState, FileProblem, JobConflict};

/// What would change if a job file had this text.
#[derive(Serialize, ToSchema)]
pub(super) struct Planned {
    /// Whether the server would take it.
    ok: bool,
    /// The job's name, when the file is good.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    /// Whether there is such a job now.
    exists: bool,
    /// What is wrong or doubtful.
    problems: Vec<ProblemItem>,
    /// What the definition would mean otherwise than the one in force; all of it for a new job.
    changes: Vec<MeaningChange>,
    /// The next dues of the definition in force.
    dues_before: Vec<PreviewDue>,
    /// The next dues with this text.
    dues_after: Vec<PreviewDue>,
    /// Runs in each of the next 24 hours by the definition in force.
    hours_before: Vec<u64>,
    /// Runs in each of the next 24 hours with this text.
    hours_after: Vec<u64>,
    /// Jobs that would exclude this one and do not now.
    conflicts_gained: Vec<ConflictItem>,
    /// Jobs that exclude this one now and would not.
    conflicts_lost: Vec<ConflictItem>,
}

/// How many dues are shown.
const DUES: usize = 20;

const HOUR_MS: Millis = 3_600_000;
const HOURS: usize = 24;

/// Dues that are counted at most: a job that is due every 10 ms has more in a day.
const COUNTED_MAX: usize = 100_000;

/// Says what would change if a job file had this text, without keeping anything: dues, runs by the hour, conflicts, and the
/// definition itself.
#[utoipa::path(
    post, path = "/api/v1/spec/plan", tag = "jobs", operation_id = "plan_job_file",
    request_body = CheckBody,
    responses((status = 200, body = Planned, description = "What would change."), (status = "default", body = ErrorBody, description = "What went wrong.")),
)]
pub(super) async fn plan(
    State(state): State<ApiState>,
    Fields(NoFields {}): Fields<NoFields>,
    JsonBody(body): JsonBody<CheckBody>,
) -> Result<Json<Planned>, ApiError> {
    let name = request::job_field(body.name.as_deref())?.map_or("job".to_owned(), |name| name.to_string());
    let file = format!("{name}.yaml");
    let parsed = match read_job(body.text.as_bytes(), &name, &state.server.read_options()) {
        Ok(parsed) => parsed,
        Err(found) => {
            let problems =
                found.into_iter().map(|one| ProblemItem::from(FileProblem::new(&file, &body.text, one)));
            return Ok(Json(Planned { problems: problems.collect(), ..Planned::nothing() }));
        }
    };
    let job = parsed.job;
    let known = state.store.job(&job.name).await.map_err(ApiError::store)?;
    let known = known.filter(|view| view.removed_at.is_none()).map(|view| view.put.definition);
    let before = known.as_deref().and_then(|text| Decoder::default().decode(job.name.clone(), text).ok());
    let now = state.server.now();
    let (dues_before, hours_before) = before.as_ref().map_or_else(Default::default, |job| outlook(job, now));
    let (dues_after, hours_after) = outlook(&job, now);
    let declared = |job: &Job| Some((job.body.footprint.as_written()?, job.policy.overlap));
    let now_in_force = state.server.conflicts_with(job.name.clone(), before.as_ref().and_then(declared))?;
    let then = state.server.conflicts_with(job.name.clone(), declared(&job))?;
    let only_in = |some: &[JobConflict], others: &[JobConflict]| -> Vec<ConflictItem> {
        let pair = |row: &JobConflict| (row.job.clone(), row.other.clone());
        let is_new = |row: &&JobConflict| !others.iter().any(|other| pair(other) == pair(row));
        some.iter().filter(is_new).map(ConflictItem::new).collect()
    };
    Ok(Json(Planned {
        ok: true,
        exists: known.is_some(),
        changes: meaning::changes(known.as_deref().unwrap_or("{}"), &parsed.definition),
        conflicts_gained: only_in(&then, &now_in_force),
        conflicts_lost: only_in(&now_in_force, &then),
        problems: parsed
            .warnings
            .into_iter()
            .map(|one| ProblemItem::from(FileProblem::new(&file, &body.text, one)))
            .collect(),
        job: Some(job.name.to_string()),
        dues_before,
        dues_after,
        hours_before,
        hours_after,
    }))
}

/// The next dues of a job, and how many there are in each hour of the next day.
fn outlook(job: &Job, now: Millis) -> (Vec<PreviewDue>, Vec<u64>) {
    let starts = job.schedules.iter().filter(|entry| entry.action == ScheduleAction::Start);
    let starts: Vec<&Schedule> = starts.map(|entry| &*entry.schedule).collect();
    let mut hours = vec![0; HOURS];
    let mut after = now;
    for _ in 0..COUNTED_MAX {
        let Some(due) = starts.iter().filter_map(|schedule| schedule.next(after)).min() else { break };
        let hour = usize::try_from((due - now) / HOUR_MS).unwrap_or(HOURS);
        let Some(count) = hours.get_mut(hour) else { break };
        *count += 1;
        after = due;
    }
    (next(&starts, now, DUES), hours)
}

impl Planned {
    fn nothing() -> Planned {
        Planned {
            ok: false,
            job: None,
            exists: false,
            problems: Vec::new(),
            changes: Vec::new(),
            dues_before: Vec::new(),
            dues_after: Vec::new(),
            hours_before: Vec::new(),
            hours_after: Vec::new(),
            conflicts_gained: Vec::new(),
            conflicts_lost: Vec::new(),
        }
    }
}
