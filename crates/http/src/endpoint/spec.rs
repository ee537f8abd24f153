use axum::Json;
use axum::extract::State;
use cadran_core::{Millis, ScheduleAction, Zone};
use cadran_cron::Schedule;
use cadran_spec::{Diagnostic, read_job};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::error::{ApiError, ErrorBody};
use crate::request::{self, Fields, JsonBody, NoFields};
use crate::view::ProblemItem;
use crate::{ApiState, FileProblem, instant};

/// A job file that is not in the folder, or not yet.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckBody {
    /// Its text.
    pub(super) text: String,
    /// The job's name, unless the file says another.
    pub(super) name: Option<String>,
}

/// What a job file would mean.
#[derive(Serialize, ToSchema)]
pub(super) struct Checked {
    /// Whether the server would take it.
    ok: bool,
    /// The job's name, when the file is good.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    /// What is wrong or doubtful.
    problems: Vec<ProblemItem>,
    /// What its schedules say, in words, and what they do.
    schedules: Vec<CheckedSchedule>,
    /// The steps, in the order of the file.
    steps: Vec<String>,
    /// Its next dues, earliest first.
    dues: Vec<PreviewDue>,
}

/// A schedule of a file that was checked.
#[derive(Serialize, ToSchema)]
pub(super) struct CheckedSchedule {
    /// In words.
    description: String,
    timezone: String,
    /// What its dues do: `start`, `stop` or `restart`.
    action: &'static str,
}

/// One due to come.
#[derive(Serialize, ToSchema)]
pub(super) struct PreviewDue {
    due: String,
    pub(super) due_ms: Millis,
    /// The time in the schedule's zone, with its offset.
    local: String,
    /// What a change of the clocks does there, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// How many dues a check shows.
const DUES: usize = 20;

/// Says what a job file would mean, without keeping anything: what is wrong with it and where, or its next dues.
#[utoipa::path(
    post, path = "/api/v1/spec/check", tag = "jobs", operation_id = "check_job_file",
    request_body = CheckBody,
    responses((status = 200, body = Checked, description = "What the file would mean."), (status = "default", body = ErrorBody, description = "What went wrong.")),
)]
pub(super) async fn check(
    State(state): State<ApiState>,
    Fields(NoFields {}): Fields<NoFields>,
    JsonBody(body): JsonBody<CheckBody>,
) -> Result<Json<Checked>, ApiError> {
    let name = request::job_field(body.name.as_deref())?.map_or("job".to_owned(), |name| name.to_string());
    let file = format!("{name}.yaml");
    let shown = |found: Vec<Diagnostic>| -> Vec<ProblemItem> {
        found.into_iter().map(|one| ProblemItem::from(FileProblem::new(&file, &body.text, one))).collect()
    };
    let parsed = match read_job(body.text.as_bytes(), &name, &state.server.read_options()) {
        Ok(parsed) => parsed,
        Err(found) => {
            let (schedules, steps, dues) = (Vec::new(), Vec::new(), Vec::new());
            return Ok(Json(Checked {
                ok: false,
                job: None,
                problems: shown(found),
                schedules,
                steps,
                dues,
            }));
        }
    };
    let job = &parsed.job;
    let starts = job.schedules.iter().filter(|entry| entry.action == ScheduleAction::Start);
    let starts: Vec<&Schedule> = starts.map(|entry| &*entry.schedule).collect();
    let schedules = job.schedules.iter().map(|entry| CheckedSchedule {
        description: entry.schedule.describe(),
        timezone: entry.schedule.zone().name().to_owned(),
        action: match entry.action {
            ScheduleAction::Start => "start",
            ScheduleAction::Stop => "stop",
            ScheduleAction::Restart => "restart",
        },
    });
    Ok(Json(Checked {
        ok: true,
        job: Some(job.name.to_string()),
        schedules: schedules.collect(),
        steps: job.body.steps.iter().map(|step| step.name.to_string()).collect(),
        dues: next(&starts, state.server.now(), DUES),
        problems: shown(parsed.warnings),
    }))
}

/// Which schedule, from when, how many dues.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct PreviewFields {
    /// The expression, such as `30 2 * * *` or `every 5m`.
    text: String,
    /// The zone it is read in; UTC unless given.
    timezone: Option<String>,
    /// `cadran`, `vixie`, `seconds`, `quartz` or `dagu`; `cadran` unless given.
    dialect: Option<String>,
    /// Only dues after this instant; now unless given.
    from: Option<String>,
    /// How many, 1 to 1000; 100 unless given.
    limit: Option<u32>,
}

/// What a schedule means.
#[derive(Serialize, ToSchema)]
pub(super) struct Preview {
    /// In words.
    description: String,
    timezone: String,
    /// Earliest first.
    dues: Vec<PreviewDue>,
}

/// Says what a schedule means: in words, and its next dues with notes where the clocks change.
#[utoipa::path(
    get, path = "/api/v1/schedules/preview", tag = "upcoming", operation_id = "preview_schedule",
    params(PreviewFields),
    responses((status = 200, body = Preview, description = "What it means."), (status = "default", body = ErrorBody, description = "What went wrong.")),
)]
pub(super) async fn preview(
    State(state): State<ApiState>,
    Fields(fields): Fields<PreviewFields>,
) -> Result<Json<Preview>, ApiError> {
    let limit = request::limit(fields.limit)?;
    let from = request::instant_field("from", fields.from.as_deref())?.unwrap_or_else(|| state.server.now());
    let zone = fields.timezone.as_deref().unwrap_or("UTC");
    let zone = Zone::get(zone).map_err(|error| ApiError::bad_query(format!("timezone: {error}")))?;
    let dialect = fields.dialect.as_deref().unwrap_or("cadran");
    let dialect = cadran_cron::Dialect::from_name(dialect).ok_or_else(|| {
        ApiError::bad_field("dialect", dialect, "one of cadran, vixie, seconds, quartz and dagu")
    })?;
    let schedule = Schedule::parse(&fields.text, &zone, dialect)
        .map_err(|error| ApiError::bad_schedule(&error.to_string(), error.column(), error.help()))?;
    Ok(Json(Preview {
        description: schedule.describe(),
        timezone: zone.name().to_owned(),
        dues: next(&[&schedule], from, limit),
    }))
}

/// The dues of all schedules together, each instant once.
pub(super) fn next(schedules: &[&Schedule], from: Millis, count: usize) -> Vec<PreviewDue> {
    let mut dues = Vec::new();
    let mut after = from;
    while dues.len() < count {
        let due =
            schedules.iter().filter_map(|one| Some((one.next(after)?, *one))).min_by_key(|(due, _)| *due);
        let Some((due, schedule)) = due else { break };
        dues.push(PreviewDue::new(due, schedule.zone()));
        after = due;
    }
    dues
}

/// Clocks change by less than this at once.
const CHANGE_MS_MAX: Millis = 3 * 3_600_000;

impl PreviewDue {
    fn new(due: Millis, zone: &Zone) -> PreviewDue {
        let offset = zone.offset_at(due);
        let civil = instant::to_text(due.saturating_add(Millis::from(offset) * 1000));
        let civil = civil.trim_end_matches('Z').replace('T', " ");
        let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.unsigned_abs() / 60);
        let local = format!("{civil} {sign}{:02}:{:02}", minutes / 60, minutes % 60);
        PreviewDue { due: instant::to_text(due), due_ms: due, local, note: note(due, zone) }
    }
}

/// What the clocks do around a due. Only offsets are asked: the same instant shown by two of them is a repeated hour.
fn note(due: Millis, zone: &Zone) -> Option<String> {
    let at = |instant: Millis| Millis::from(zone.offset_at(instant)) * 1000;
    let (before, now, after) = (at(due - CHANGE_MS_MAX), at(due), at(due + CHANGE_MS_MAX));
    let words = |ms: Millis| match ms / 60_000 {
        minutes if minutes % 60 == 0 => format!("{} h", minutes / 60),
        minutes => format!("{minutes} min"),
    };
    if at(due - 1) < now {
        return Some(format!("the clocks go forward by {} at this instant", words(now - at(due - 1))));
    }
    if after < now && at(due + (now - after)) == after {
        return Some("this local time comes twice; this is the first".to_owned());
    }
    if before > now && at(due - (before - now)) == before {
        return Some("this local time comes twice; this is the second".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dues_around_a_change_of_the_clocks_say_so() {
        let zone = Zone::get("Europe/Paris").unwrap();
        let check = |text: &str, from: &str, expected: &[(&str, Option<&str>)]| {
            let schedule =
                Schedule::parse(text, &zone, cadran_cron::Dialect::from_name("cadran").unwrap()).unwrap();
            let found = next(&[&schedule], instant::from_text(from).unwrap(), expected.len());
            let found: Vec<(&str, Option<&str>)> =
                found.iter().map(|due| (due.local.as_str(), due.note.as_deref())).collect();
            assert_eq!(found, expected, "{text} from {from}");
        };
        let forward = Some("the clocks go forward by 1 h at this instant");
        check(
            "30 2 * * *",
            "2026-03-28T12:00:00Z",
            &[("2026-03-29 03:00:00.000 +02:00", forward), ("2026-03-30 02:30:00.000 +02:00", None)],
        );
        let (first, second) = (
            Some("this local time comes twice; this is the first"),
            Some("this local time comes twice; this is the second"),
        );
        check(
            "every 30m",
            "2026-10-24T23:45:00Z",
            &[
                ("2026-10-25 02:00:00.000 +02:00", first),
                ("2026-10-25 02:30:00.000 +02:00", first),
                ("2026-10-25 02:00:00.000 +01:00", second),
                ("2026-10-25 02:30:00.000 +01:00", second),
                ("2026-10-25 03:00:00.000 +01:00", None),
            ],
        );
    }
}
