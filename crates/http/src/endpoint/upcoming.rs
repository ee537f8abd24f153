use axum::Json;
use axum::extract::State;
use cadran_core::Millis;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::error::{ApiError, ErrorBody};
use crate::request::{self, Fields};
use crate::{ApiState, instant};

/// Which dues.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct UpcomingFields {
    /// Only dues after this instant; now unless given.
    from: Option<String>,
    /// Only dues up to this instant; a day after `from` unless given.
    to: Option<String>,
    /// Only dues of this job.
    job: Option<String>,
    /// How many, 1 to 1000; 100 unless given.
    limit: Option<u32>,
}

/// Dues to come.
#[derive(Serialize, ToSchema)]
pub(super) struct UpcomingPage {
    from: String,
    from_ms: Millis,
    to: String,
    to_ms: Millis,
    /// Earliest first.
    upcoming: Vec<DueItem>,
}

/// One due.
#[derive(Serialize, ToSchema)]
pub(super) struct DueItem {
    due: String,
    due_ms: Millis,
    /// Whose.
    job: String,
}

/// What `to` is without being given.
const WINDOW_MS: Millis = 24 * 3_600_000;

/// Lists dues to come, earliest first. The server looks ahead for a bounded time, so a far `to` may be cut.
#[utoipa::path(
    get, path = "/api/v1/upcoming", tag = "upcoming", operation_id = "list_upcoming",
    params(UpcomingFields),
    responses(
        (status = 200, description = "Dues to come, earliest first.", body = UpcomingPage),
        (status = "default", description = "What is wrong, and what to do about it.", body = ErrorBody),
    ),
)]
pub(super) async fn upcoming(
    State(state): State<ApiState>,
    Fields(fields): Fields<UpcomingFields>,
) -> Result<Json<UpcomingPage>, ApiError> {
    let limit = request::limit(fields.limit)?;
    let job = request::job_field(fields.job.as_deref())?;
    let from = request::instant_field("from", fields.from.as_deref())?.unwrap_or_else(|| state.server.now());
    let to =
        request::instant_field("to", fields.to.as_deref())?.unwrap_or_else(|| from.saturating_add(WINDOW_MS));
    if to < from {
        return Err(ApiError::bad_field("to", &instant::to_text(to), "an instant that is not before from"));
    }
    let dues = state.server.upcoming(from, to, job.as_ref(), limit)?;
    let upcoming = dues
        .into_iter()
        .take(limit)
        .map(|(due, job)| DueItem { due: instant::to_text(due), due_ms: due, job: job.to_string() })
        .collect();
    Ok(Json(UpcomingPage {
        from: instant::to_text(from),
        from_ms: from,
        to: instant::to_text(to),
        to_ms: to,
        upcoming,
    }))
}

/// How far.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ForecastFields {
    /// From this instant; now unless given.
    from: Option<String>,
    /// How many minutes, 1 to 10080 (a week); 60 unless given.
    minutes: Option<u32>,
    /// What one number counts: whole minutes, such as `5m` or `1h`; `1m` unless given. At most 1440 numbers.
    step: Option<String>,
}

const MINUTES_MAX: u32 = 7 * 24 * 60;

/// A day by the minute, or a week by seven: a small answer.
const STEPS_MAX: usize = 1_440;

const MINUTE_MS: Millis = 60_000;
const MINUTES_DEFAULT: u32 = 60;

/// Runs expected per minute.
#[derive(Serialize, ToSchema)]
pub(super) struct Forecast {
    from: String,
    from_ms: Millis,
    /// What one number of `runs` counts.
    step_ms: Millis,
    /// How many runs each step after `from` is expected to start; those of paused jobs are not. Fewer steps than
    /// asked for where the fleet is too dense to look that far.
    runs: Vec<u64>,
}

/// Counts the runs expected in each minute, or longer step, to come.
#[utoipa::path(
    get, path = "/api/v1/forecast", tag = "upcoming", operation_id = "forecast",
    params(ForecastFields),
    responses(
        (status = 200, description = "Runs expected, minute by minute.", body = Forecast),
        (status = "default", description = "What is wrong, and what to do about it.", body = ErrorBody),
    ),
)]
pub(super) async fn forecast(
    State(state): State<ApiState>,
    Fields(fields): Fields<ForecastFields>,
) -> Result<Json<Forecast>, ApiError> {
    let from = request::instant_field("from", fields.from.as_deref())?.unwrap_or_else(|| state.server.now());
    let minutes = match fields.minutes.unwrap_or(MINUTES_DEFAULT) {
        minutes @ 1..=MINUTES_MAX => minutes as usize,
        minutes => {
            let allowed = format!("a number from 1 to {MINUTES_MAX}");
            return Err(ApiError::bad_field("minutes", &minutes.to_string(), &allowed));
        }
    };
    let step_ms = request::span_field("step", fields.step.as_deref())?.unwrap_or(MINUTE_MS);
    let step = usize::try_from(step_ms / MINUTE_MS).unwrap_or_default();
    if step == 0 || step_ms % MINUTE_MS != 0 || minutes.div_ceil(step) > STEPS_MAX {
        let allowed = format!("whole minutes, so long that {STEPS_MAX} of them cover the window");
        return Err(ApiError::bad_field("step", fields.step.as_deref().unwrap_or("1m"), &allowed));
    }
    let by_minute = state.server.forecast(from, minutes)?;
    // A step that was not counted to its end would look like a quiet one.
    let is_whole = |part: &&[u64]| part.len() == step || by_minute.len() == minutes;
    let runs = by_minute.chunks(step).filter(is_whole).map(|part| part.iter().sum()).collect();
    Ok(Json(Forecast { from: instant::to_text(from), from_ms: from, step_ms, runs }))
}
