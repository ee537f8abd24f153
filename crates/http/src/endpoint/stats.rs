use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use cadran_core::Millis;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::error::{ApiError, ErrorBody};
use crate::lists::{DURATION_BOUNDS_MS, LATENESS_BOUNDS_MS, StatsCell};
use crate::request::{self, Fields};
use crate::{ApiState, instant};

/// What to count.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct StatsFields {
    /// What was due at this instant or later; a day ago unless given.
    from: Option<String>,
    /// What was due before this instant; now unless given.
    to: Option<String>,
    /// Length of one step, such as `5m` or `1h`; `1h` unless given. At most 1000 steps.
    step: Option<String>,
    /// Only of this job.
    job: Option<String>,
}

/// Runs and skips, counted.
#[derive(Serialize, ToSchema)]
pub(super) struct Stats {
    from: String,
    from_ms: Millis,
    to: String,
    to_ms: Millis,
    step_ms: Millis,
    /// Upper bounds of the buckets of lateness; one bucket more is for everything above.
    lateness_bounds_ms: Vec<Millis>,
    /// Upper bounds of the buckets of durations; one bucket more is for everything above.
    duration_bounds_ms: Vec<Millis>,
    /// All of the window.
    all: StatsItem,
    /// Step by step; those without anything are missing.
    steps: Vec<StatsStep>,
}

/// One step of time.
#[derive(Serialize, ToSchema)]
struct StatsStep {
    at: String,
    at_ms: Millis,
    #[serde(flatten)]
    counts: StatsItem,
}

/// What was counted.
#[derive(Serialize, ToSchema)]
struct StatsItem {
    /// Runs by status.
    statuses: BTreeMap<&'static str, u64>,
    /// Dues that did not become started runs, by reason.
    reasons: BTreeMap<&'static str, u64>,
    /// Started runs that answer a due, by how late they started.
    lateness: Vec<u64>,
    /// Ended runs, by how long they took.
    durations: Vec<u64>,
}

impl StatsItem {
    fn new(cell: StatsCell) -> StatsItem {
        StatsItem {
            statuses: cell.statuses,
            reasons: cell.reasons,
            lateness: cell.lateness.to_vec(),
            durations: cell.duration.to_vec(),
        }
    }
}

const WINDOW_MS: Millis = 24 * 3_600_000;
const STEP_MS: Millis = 3_600_000;

/// Steps of one answer.
const STEPS_MAX: Millis = 1_000;

/// Counts runs and skips by when they were due: by status, by reason, by lateness and by duration. A stretch of skips
/// counts where it ends. Reaches back as far as the newest two million runs that are still on record.
#[utoipa::path(
    get, path = "/api/v1/stats", tag = "history", operation_id = "stats",
    params(StatsFields),
    responses(
        (status = 200, description = "What was counted.", body = Stats),
        (status = "default", description = "What is wrong, and what to do about it.", body = ErrorBody),
    ),
)]
pub(super) async fn stats(
    State(state): State<ApiState>,
    Fields(fields): Fields<StatsFields>,
) -> Result<Json<Stats>, ApiError> {
    let name = request::job_field(fields.job.as_deref())?;
    let to = request::instant_field("to", fields.to.as_deref())?.unwrap_or_else(|| state.server.now());
    let from = request::instant_field("from", fields.from.as_deref())?;
    let from = from.unwrap_or_else(|| to.saturating_sub(WINDOW_MS));
    if to < from {
        return Err(ApiError::bad_field("to", &instant::to_text(to), "an instant that is not before from"));
    }
    let step_ms = request::span_field("step", fields.step.as_deref())?.unwrap_or(STEP_MS);
    if step_ms == 0 || to.saturating_sub(from) / step_ms >= STEPS_MAX {
        let allowed = format!("long enough that {STEPS_MAX} of them cover the window");
        return Err(ApiError::bad_field("step", fields.step.as_deref().unwrap_or("1h"), &allowed));
    }
    let lists = state.server.lists();
    let cells = {
        let tables = lists.read().await?;
        let job = name.as_ref().and_then(|name| tables.jobs.find(name));
        if let (Some(name), None) = (&name, job) {
            return Err(ApiError::no_such_job(name));
        }
        tables.stats(job, from, to, step_ms)
    };
    let mut all = StatsCell::default();
    cells.iter().for_each(|cell| all.add(cell));
    let step = |(no, cell): (Millis, StatsCell)| {
        let at = from + no * step_ms;
        StatsStep { at: instant::to_text(at), at_ms: at, counts: StatsItem::new(cell) }
    };
    let steps = (0..).zip(cells).filter(|(_, cell)| *cell != StatsCell::default()).map(step).collect();
    Ok(Json(Stats {
        from: instant::to_text(from),
        from_ms: from,
        to: instant::to_text(to),
        to_ms: to,
        step_ms,
        lateness_bounds_ms: LATENESS_BOUNDS_MS.to_vec(),
        duration_bounds_ms: DURATION_BOUNDS_MS.to_vec(),
        all: StatsItem::new(all),
        steps,
    }))
}
