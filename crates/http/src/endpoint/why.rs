use axum::Json;
use axum::extract::State;
use cadran_core::{Millis, RunId, RunName, RunStatus, SeatRecord, Waiting};
use cadran_store::RunView;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::run::{RunOrShare, find_named};
use crate::error::{ApiError, ErrorBody};
use crate::request::{self, Fields, NoFields, RunAt};
use crate::view::{RunItem, share, whereabouts};
use crate::{ApiState, JobConflict, instant};

/// Why a run stands where it stands.
#[derive(Serialize, ToSchema)]
pub(super) struct Why {
    /// Its id.
    run: String,
    /// Its job.
    job: String,
    /// Where it stands.
    status: &'static str,
    /// Why it exists: `schedule`, `catch_up`, `restart`, `manual` or `child`.
    trigger: &'static str,
    /// The run that asked for it, of which it is a child.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    /// In one sentence.
    explanation: String,
    /// Who has the step that is on, or was ordered to do it; empty for work on the server itself, and for a broadcast as a
    /// whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    executor: Option<String>,
    /// What it waits for, while it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<WaitsFor>,
    /// What it holds, while it runs: keys as in `write of table:orders`, pools as in `2 of pool gpu`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    holds: Vec<String>,
    /// Since when it waits, or holds this.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since_ms: Option<Millis>,
}

/// What a run waits for.
#[derive(Serialize, ToSchema)]
pub(super) struct WaitsFor {
    /// `job` (another run of its job), `slot`, `key` or `pool`.
    kind: &'static str,
    /// The key or pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// `read`, `write` or `claim` of a key; units of a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    wanted: Option<String>,
    /// One of the runs in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    /// The job of that run.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    /// Since when that run holds it, or waits for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since_ms: Option<Millis>,
    /// That run waits itself, and goes first.
    in_line: bool,
    /// How many that wait for the same thing are before it.
    before: usize,
    /// Nothing that conflicts passes it any more.
    ticket: bool,
    /// How often it was tried in vain.
    tries: u32,
}

/// Says why a run waits: what for, held by whom, since when, and its place in line; or what it holds. Of a share, where it
/// is and what its executor said.
#[utoipa::path(
    get, path = "/api/v1/runs/{id}/why", tag = "runs", operation_id = "why_run",
    params(("id" = String, Path, description = "The run's id; with a dot and a number behind it, a share's.")),
    responses(
        (status = 200, description = "Where the run stands, and why.", body = Why),
        (status = "default", description = "What is wrong, and what to do about it.", body = ErrorBody),
    ),
)]
pub(super) async fn why(
    State(state): State<ApiState>,
    RunAt(name): RunAt,
    Fields(NoFields {}): Fields<NoFields>,
) -> Result<Json<Why>, ApiError> {
    let run = name.run;
    let RunOrShare { view: found, share } = find_named(&state, name).await?;
    if let Some((_, seat)) = share {
        return Ok(Json(of_share(name, &found, &seat)));
    }
    let mut why = Why {
        run: run.to_string(),
        job: found.job_name.to_string(),
        status: whereabouts::shown_status(&found.record.state).word(),
        executor: whereabouts::executor(&found.record).filter(|_| !found.record.state.status.is_ended()),
        trigger: found.record.promise.trigger.word(),
        parent: found.record.promise.parent.map(|(parent, _)| parent.to_string()),
        explanation: RunItem::new(found.job_name.as_str(), &found.record).into_explanation(),
        waits_for: None,
        holds: Vec::new(),
        since: None,
        since_ms: None,
    };
    let (waiting, holding) = state.server.why(run)?;
    // The loop knows better than the record, which follows it.
    if let Some(waiting) = waiting {
        why.status = RunStatus::Waiting.word();
        why.since_ms = waiting.since;
        why.explanation = waiting.sentence.clone();
        why.waits_for = Some(WaitsFor::new(waiting));
    } else if let Some(holding) = holding {
        if found.record.state.status != RunStatus::Running {
            why.status = RunStatus::Running.word();
            why.explanation = "it is being started".to_owned();
        }
        why.since_ms = holding.since;
        why.holds = holding.list;
    }
    why.since = why.since_ms.map(instant::to_text);
    Ok(Json(why))
}

impl WaitsFor {
    fn new(waiting: Waiting) -> WaitsFor {
        WaitsFor {
            kind: waiting.kind,
            key: waiting.key,
            wanted: waiting.wanted,
            run: waiting.holder.map(|run| run.to_string()),
            job: waiting.holder_job,
            since: waiting.held_since.map(instant::to_text),
            since_ms: waiting.held_since,
            in_line: waiting.in_line,
            before: waiting.before,
            ticket: waiting.ticket,
            tries: waiting.tries,
        }
    }
}

/// Runs that wait.
#[derive(Serialize, ToSchema)]
pub(super) struct WaitPage {
    /// Oldest first: each with the run in its way, so that together they are the graph of who waits for whom.
    waits: Vec<WaitItem>,
    /// There are more than are listed.
    cut: bool,
}

/// One run that waits.
#[derive(Serialize, ToSchema)]
struct WaitItem {
    run: String,
    job: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since_ms: Option<Millis>,
    /// In one sentence.
    explanation: String,
    waits_for: WaitsFor,
}

/// Runs that one answer lists: the loop is asked about all of them at once.
const WAITS_MAX: usize = 1_000;

/// Lists who waits for whom at this moment.
#[utoipa::path(
    get, path = "/api/v1/waits", tag = "runs", operation_id = "list_waits",
    responses(
        (status = 200, description = "Runs that wait.", body = WaitPage),
        (status = "default", description = "What is wrong, and what to do about it.", body = ErrorBody),
    ),
)]
pub(super) async fn waits(
    State(state): State<ApiState>,
    Fields(NoFields {}): Fields<NoFields>,
) -> Result<Json<WaitPage>, ApiError> {
    let lists = state.server.lists();
    let mut runs: Vec<(RunId, String)> = {
        let tables = lists.read().await?;
        let name = |job| tables.jobs.name(job).map(ToString::to_string).unwrap_or_default();
        let waiting = tables.runs.waiting(WAITS_MAX + 1);
        waiting.into_iter().map(|(run, job)| (run, name(job))).collect()
    };
    let cut = runs.len() > WAITS_MAX;
    runs.truncate(WAITS_MAX);
    let found = match runs.is_empty() {
        true => Vec::new(),
        false => state.server.waitings(runs.iter().map(|(run, _)| *run).collect())?,
    };
    let item = |((run, job), waiting): ((RunId, String), Option<Waiting>)| {
        // It may have started since.
        let waiting = waiting?;
        Some(WaitItem {
            run: run.to_string(),
            job,
            since: waiting.since.map(instant::to_text),
            since_ms: waiting.since,
            explanation: waiting.sentence.clone(),
            waits_for: WaitsFor::new(waiting),
        })
    };
    Ok(Json(WaitPage { waits: runs.into_iter().zip(found).filter_map(item).collect(), cut }))
}

/// A share waits for nothing but its executor, and holds nothing that its run does not hold.
fn of_share(name: RunName, view: &RunView, seat: &SeatRecord) -> Why {
    let run = view.record.state.status;
    let (index, total) = (seat.index, seat.total);
    Why {
        run: name.to_string(),
        job: view.job_name.to_string(),
        status: share::status(run, seat).word(),
        executor: Some(seat.address.to_string()),
        trigger: view.record.promise.trigger.word(),
        parent: Some(name.run.to_string()),
        explanation: format!("share {index} of {total}: {}", share::explanation(run, seat)),
        waits_for: None,
        holds: Vec::new(),
        since: Some(instant::to_text(seat.ended_at.unwrap_or(seat.at))),
        since_ms: Some(seat.ended_at.unwrap_or(seat.at)),
    }
}

/// Which conflicts.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ConflictFields {
    /// Only those of this job.
    job: Option<String>,
    /// How many to pass over.
    offset: Option<u32>,
    /// How many, 1 to 1000; 100 unless given.
    limit: Option<u32>,
}

/// Jobs that can exclude one another.
#[derive(Serialize, ToSchema)]
pub(super) struct ConflictPage {
    /// By the names of the jobs.
    conflicts: Vec<ConflictItem>,
    /// How many there are.
    total: usize,
    /// There may be more than were found: the comparison was given up after 10000 pairs or 20 million keys.
    cut: bool,
}

/// Two jobs whose runs can exclude one another; one and the same where its own runs can.
#[derive(Serialize, ToSchema)]
pub(super) struct ConflictItem {
    job: String,
    other: String,
    /// What the first touches, as in `write of table:orders` or `2 of pool gpu`.
    touches: String,
    /// What the other touches.
    other_touches: String,
    /// Only some values of parameters make it so.
    by_params: bool,
}

/// Lists which jobs can exclude which, and why, by what they declare.
#[utoipa::path(
    get, path = "/api/v1/conflicts", tag = "jobs", operation_id = "list_conflicts",
    params(ConflictFields),
    responses(
        (status = 200, description = "Pairs of jobs that can exclude one another.", body = ConflictPage),
        (status = "default", description = "What is wrong, and what to do about it.", body = ErrorBody),
    ),
)]
pub(super) async fn conflicts(
    State(state): State<ApiState>,
    Fields(fields): Fields<ConflictFields>,
) -> Result<Json<ConflictPage>, ApiError> {
    let limit = request::limit(fields.limit)?;
    let job = request::job_field(fields.job.as_deref())?;
    let (found, cut) = state.server.conflicts()?;
    let is_wanted = |row: &&JobConflict| {
        job.as_ref().is_none_or(|job| row.job == job.as_str() || row.other == job.as_str())
    };
    let wanted: Vec<&JobConflict> = found.iter().filter(is_wanted).collect();
    let total = wanted.len();
    let page = wanted.into_iter().skip(fields.offset.unwrap_or(0) as usize).take(limit);
    Ok(Json(ConflictPage { conflicts: page.map(ConflictItem::new).collect(), total, cut }))
}

impl ConflictItem {
    pub(super) fn new(row: &JobConflict) -> ConflictItem {
        ConflictItem {
            job: row.job.clone(),
            other: row.other.clone(),
            touches: row.touches.clone(),
            other_touches: row.other_touches.clone(),
            by_params: row.by_params,
        }
    }
}
