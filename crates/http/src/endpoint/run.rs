use std::time::Duration;

use axum::Json;
use axum::extract::State;
use cadran_core::{
    Command, JobName, Refusal, RunId, RunName, RunStatus, SeatRecord, SkipReason, StepRecord, Trigger,
    share_of,
};
use cadran_store::{RunQuery, RunView};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};

use super::job::Done;
use crate::error::{ApiError, ErrorBody};
use crate::lists::{RunFilter, param_hash};
use crate::request::{self, Fields, JsonBody, NoBody, NoFields, RunAt};
use crate::view::{ChildItem, RunDetail, RunItem, share, whereabouts};
use crate::{ApiState, LiveEvent};

/// Which runs.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct RunFields {
    /// Only runs of this job.
    job: Option<String>,
    /// Only children of this run: the shares of its broadcast, and the runs that it asked for.
    parent: Option<String>,
    /// Only runs in one of these states, separated by commas.
    status: Option<String>,
    /// Only runs that exist for one of these, separated by commas: `schedule`, `catch_up`, `restart`, `manual`, `child`.
    trigger: Option<String>,
    /// Only runs that started later than this behind their due, such as `500ms` or `5s`.
    late_over: Option<String>,
    /// Only ended runs that took longer than this, such as `90s` or `1h`.
    duration_over: Option<String>,
    /// Only runs of jobs with all of these labels, separated by commas: `NAME:VALUE`, or `NAME` for any value.
    label: Option<String>,
    /// Only runs of jobs with a step on this group of executors; `local` is the server itself.
    executor: Option<String>,
    /// Only runs that were given this value for a parameter: `NAME:VALUE`; by position, `1:VALUE`.
    param: Option<String>,
    /// Only runs that were skipped for one of these reasons, separated by commas.
    reason: Option<String>,
    /// Only runs due at this instant or later.
    from: Option<String>,
    /// Only runs due before this instant.
    to: Option<String>,
    /// Only runs with a lower id: the `next` of the page before.
    before: Option<String>,
    /// How many, 1 to 1000; 100 unless given.
    limit: Option<u32>,
}

/// A page of runs.
#[derive(Serialize, ToSchema)]
pub(super) struct RunPage {
    /// Newest first.
    runs: Vec<RunItem>,
    /// Where the next page starts (`before`), when there may be one.
    next: Option<String>,
}

/// Lists runs, newest first.
#[utoipa::path(
    get, path = "/api/v1/runs", tag = "runs", operation_id = "list_runs",
    params(RunFields),
    responses(
        (status = 200, description = "Runs, newest first.", body = RunPage),
        (status = "default", description = "What is wrong, and what to do about it.", body = ErrorBody),
    ),
)]
pub(super) async fn list(
    State(state): State<ApiState>,
    Fields(fields): Fields<RunFields>,
) -> Result<Json<RunPage>, ApiError> {
    let limit = request::limit(fields.limit)?;
    let statuses = request::words_field("status", fields.status.as_deref(), RunStatus::WORDS)?;
    let job = request::job_field(fields.job.as_deref())?;
    let parent = request::run_field(fields.parent.as_deref())?;
    let labels = request::labels_field("label", fields.label.as_deref())?;
    let param = fields.param.as_deref().map(|text| {
        let (name, value) =
            text.split_once(':').ok_or_else(|| ApiError::bad_field("param", text, "NAME:VALUE"))?;
        Ok::<_, ApiError>(param_hash(name, value))
    });
    let mut filter = RunFilter {
        statuses: recorded(&statuses),
        triggers: request::words_field("trigger", fields.trigger.as_deref(), Trigger::WORDS)?,
        reasons: request::words_field("reason", fields.reason.as_deref(), SkipReason::WORDS)?,
        late_over: request::span_field("late_over", fields.late_over.as_deref())?,
        duration_over: request::span_field("duration_over", fields.duration_over.as_deref())?,
        param: param.transpose()?,
        from: request::instant_field("from", fields.from.as_deref())?,
        to: request::instant_field("to", fields.to.as_deref())?,
        before: request::run_field(fields.before.as_deref())?,
        ..RunFilter::default()
    };
    let shares = match parent {
        // On a further page they are behind us.
        Some(parent) if filter.before.is_none() => {
            shares(&find(&state, parent).await?, job.as_ref(), &filter, &statuses)
        }
        _ => Vec::new(),
    };
    let lists = state.server.lists();
    let (ids, cut) = {
        let tables = lists.read().await?;
        filter.job = job.as_ref().and_then(|name| tables.jobs.find(name));
        filter.mask = tables.jobs.mask(&labels, fields.executor.as_deref());
        let is_nobody = job.is_some() && filter.job.is_none();
        match parent.is_some() || is_nobody {
            true => (Vec::new(), tables.runs.cut().filter(|_| !is_nobody)),
            false => (tables.runs.page(&filter, limit), tables.runs.cut()),
        }
    };
    let mut next = ids.last().filter(|_| ids.len() >= limit).copied();
    let mut found = state.store.runs_by_id(&ids).await.map_err(ApiError::store)?;
    if parent.is_some() {
        (found, next) = stored(&state, &filter, parent, limit).await?;
    } else if let Some(cut) = cut.filter(|_| ids.len() < limit) {
        // What is older than the lists reach is looked for in the record.
        filter.before = Some(filter.before.map_or(cut, |before| before.min(cut)));
        let older = stored(&state, &filter, None, limit - ids.len()).await?;
        found.extend(older.0);
        next = older.1;
    }
    let next = next.map(|run| run.to_string());
    let is_wanted = |run: &RunView| statuses.contains(&whereabouts::shown_status(&run.record.state));
    found.retain(|run| statuses.is_empty() || is_wanted(run));
    let items = found.iter().map(|run| RunItem::new(run.job_name.as_str(), &run.record));
    // What is in the way of those that wait changes faster than their rows.
    let is_waiting = |run: &&RunView| run.record.state.status == RunStatus::Waiting;
    let waiting: Vec<RunId> = found.iter().filter(is_waiting).map(|run| run.record.promise.run).collect();
    let mut reasons = match waiting.is_empty() {
        true => Vec::new(),
        false => state.server.waitings(waiting)?,
    }
    .into_iter()
    .map(|waiting| waiting.map(|waiting| waiting.sentence));
    let runs = items.zip(&found).map(|(item, run)| match is_waiting(&run) {
        true => item.waiting_for(reasons.next().flatten()),
        false => item,
    });
    Ok(Json(RunPage { runs: shares.into_iter().chain(runs).collect(), next }))
}

/// What runs that are shown with one of these statuses are recorded as: orders that nobody took are recorded as running and
/// shown as waiting.
fn recorded(shown: &[RunStatus]) -> Vec<RunStatus> {
    let mut statuses = shown.to_vec();
    if shown.contains(&RunStatus::Waiting) && !shown.contains(&RunStatus::Running) {
        statuses.push(RunStatus::Running);
    }
    statuses
}

/// Pages of the record that are looked through for one answer.
const PAGES_MAX: usize = 10;

/// Runs that a filter names, from the record alone, with where to go on: the children of a run, and what is older than the
/// lists reach.
async fn stored(
    state: &ApiState,
    filter: &RunFilter,
    parent: Option<RunId>,
    limit: usize,
) -> Result<(Vec<RunView>, Option<RunId>), ApiError> {
    let mut found = Vec::new();
    let mut before = filter.before;
    for _ in 0..PAGES_MAX {
        let query = RunQuery {
            statuses: filter.statuses.clone(),
            parent,
            before,
            due_from: filter.from,
            due_to: filter.to,
            ..RunQuery::default()
        };
        let page = state.store.runs(&query).await.map_err(ApiError::store)?;
        let is_last = page.len() < query.limit as usize;
        for run in page {
            before = Some(run.record.promise.run);
            if filter.fits(&run.record) {
                found.push(run);
            }
            if found.len() == limit {
                return Ok((found, before));
            }
        }
        if is_last {
            return Ok((found, None));
        }
    }
    Ok((found, before))
}

/// The shares of a run that a query asks for. They come on top of its page: there are as many as executors of a group.
fn shares(
    parent: &RunView,
    job: Option<&JobName>,
    filter: &RunFilter,
    statuses: &[RunStatus],
) -> Vec<RunItem> {
    let RunView { record, job_name } = parent;
    let due = record.promise.due;
    let is_within = job.is_none_or(|job| job == job_name)
        && filter.from.is_none_or(|from| due >= from)
        && filter.to.is_none_or(|to| due < to);
    let is_wanted = |seat: &SeatRecord| {
        statuses.is_empty() || statuses.contains(&share::status(record.state.status, seat))
    };
    let all = share::shares(record).into_iter().filter(|(_, seat)| is_within && is_wanted(seat));
    all.map(|(step, seat)| RunItem::share(job_name.as_str(), record, step, seat)).collect()
}

/// Whether to wait.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitFields {
    /// Answer when the run's status changes or it has ended, and after this many milliseconds at the latest (at most
    /// 20000).
    wait_ms: Option<u64>,
}

/// Stays below the time an endpoint has for its answer.
const WAIT_MS_MAX: u64 = 20_000;

/// How often a share is looked at by someone who waits for a change: it has no events of its own.
const SHARE_EVERY: Duration = Duration::from_millis(250);

/// Shows one run, or one share of a broadcast, with its steps and children, and in words what became of it.
#[utoipa::path(
    get, path = "/api/v1/runs/{id}", tag = "runs", operation_id = "show_run",
    params(("id" = String, Path, description = "The run's id; with a dot and a number behind it, a share's."), WaitFields),
    responses(
        (status = 200, description = "The run.", body = RunDetail),
        (status = "default", description = "What is wrong, and what to do about it.", body = ErrorBody),
    ),
)]
pub(super) async fn show(
    State(state): State<ApiState>,
    RunAt(name): RunAt,
    Fields(fields): Fields<WaitFields>,
) -> Result<Json<RunDetail>, ApiError> {
    let wait_ms = fields.wait_ms.unwrap_or(0);
    if wait_ms > WAIT_MS_MAX {
        let allowed = format!("a number of milliseconds, at most {WAIT_MS_MAX}");
        return Err(ApiError::bad_field("wait_ms", &wait_ms.to_string(), &allowed));
    }
    let wait = Duration::from_millis(wait_ms);
    let run = name.run;
    if name.share.is_some() {
        return show_share(&state, name, wait).await;
    }
    // Listen first, look second: a change in between is then heard, not missed.
    let mut events = state.server.events();
    let mut found = find(&state, run).await?;
    if wait_ms > 0 && !found.record.state.status.is_ended() {
        let _ = tokio::time::timeout(wait, changed(&mut events, run)).await;
        found = find(&state, run).await?;
    }
    let query = RunQuery { parent: Some(run), ..RunQuery::default() };
    let asked = state.store.runs(&query).await.map_err(ApiError::store)?;
    let children = asked.iter().map(|child| ChildItem::run(child.job_name.as_str(), &child.record));
    Ok(Json(RunDetail::new(found.job_name.as_str(), &found.record).with_children(children)))
}

async fn show_share(state: &ApiState, name: RunName, wait: Duration) -> Result<Json<RunDetail>, ApiError> {
    let until = Instant::now() + wait;
    let mut before = None;
    loop {
        let found = find_named(state, name).await?;
        let Some((step, seat)) = &found.share else { return Err(ApiError::bug("a share was lost")) };
        let is_over = share::is_ended(&found.view.record, step, seat);
        let now = (seat.status, seat.attempt, seat.again);
        if is_over || *before.get_or_insert(now) != now || Instant::now() >= until {
            let RunView { record, job_name } = &found.view;
            return Ok(Json(RunDetail::share(job_name.as_str(), record, step, seat)));
        }
        tokio::time::sleep(SHARE_EVERY).await;
    }
}

/// Stops a run, wherever it stands, or one share of a broadcast: the others go on, and the step fails for it.
#[utoipa::path(
    post, path = "/api/v1/runs/{id}/stop", tag = "runs", operation_id = "stop_run",
    params(("id" = String, Path, description = "The run's id; with a dot and a number behind it, a share's.")),
    responses(
        (status = 200, description = "What was done, or that it was so already.", body = Done),
        (status = "default", description = "What is wrong, and what to do about it.", body = ErrorBody),
    ),
)]
pub(super) async fn stop(
    State(state): State<ApiState>,
    RunAt(name): RunAt,
    Fields(NoFields {}): Fields<NoFields>,
    JsonBody(NoBody {}): JsonBody<NoBody>,
) -> Result<Json<Done>, ApiError> {
    let RunName { run, share } = name;
    let command = match share {
        None => Command::Stop { run },
        Some(share) => Command::StopShare { run, share },
    };
    match state.server.command(command).await {
        Ok(reply) => Ok(Json(Done::to(name, reply))),
        // The server acts on open runs and forgets ended ones; the record knows better what to say.
        Err(Refusal::NoSuchRun(_)) if find_named(&state, name).await?.view.record.state.status.is_ended() => {
            Err(share.map_or(Refusal::RunEnded(run), |share| Refusal::ShareEnded(run, share)).into())
        }
        Err(refusal) => Err(refusal.into()),
    }
}

/// Opens an ended run again: what did not succeed runs again; of the broadcast, nothing but the share that is named.
#[utoipa::path(
    post, path = "/api/v1/runs/{id}/retry", tag = "runs", operation_id = "retry_run",
    params(("id" = String, Path, description = "The run's id; with a dot and a number behind it, a share's.")),
    responses(
        (status = 200, description = "What was done, or that it was so already.", body = Done),
        (status = "default", description = "What is wrong, and what to do about it.", body = ErrorBody),
    ),
)]
pub(super) async fn retry(
    State(state): State<ApiState>,
    RunAt(name): RunAt,
    Fields(NoFields {}): Fields<NoFields>,
    JsonBody(NoBody {}): JsonBody<NoBody>,
) -> Result<Json<Done>, ApiError> {
    let RunName { run, share } = name;
    let command = match share {
        None => Command::Retry { run },
        Some(share) => Command::RetryShare { run, share },
    };
    Ok(Json(Done::to(name, state.server.command(command).await?)))
}

/// A run, and the share that was named, with its step.
pub(super) struct RunOrShare {
    pub(super) view: RunView,
    pub(super) share: Option<(StepRecord, SeatRecord)>,
}

impl RunOrShare {
    /// Where the run or the share stands, and whether nothing more happens to it by itself.
    pub(super) fn standing(&self) -> (RunStatus, bool) {
        match &self.share {
            None => {
                let state = &self.view.record.state;
                (whereabouts::shown_status(state), state.status.is_ended())
            }
            Some((step, seat)) => (
                share::status(self.view.record.state.status, seat),
                share::is_ended(&self.view.record, step, seat),
            ),
        }
    }
}

/// The run in the store, and the share in it when one is named.
pub(super) async fn find_named(state: &ApiState, name: RunName) -> Result<RunOrShare, ApiError> {
    let view = find(state, name.run).await?;
    let Some(share) = name.share else { return Ok(RunOrShare { view, share: None }) };
    let found = share_of(view.record.state.steps.as_deref().unwrap_or_default(), share);
    let (step, seat) = found.map_err(|why| ApiError::no_such_share(name.run, why))?;
    let share = Some((step.clone(), seat.clone()));
    Ok(RunOrShare { view, share })
}

/// The run in the store.
pub(super) async fn find(state: &ApiState, run: RunId) -> Result<RunView, ApiError> {
    state.store.run(run).await.map_err(ApiError::store)?.ok_or_else(|| ApiError::no_such_run(run))
}

/// Returns when something may have changed about the run: an event of it, or events that were lost. Never returns when
/// the source of events is gone.
pub(super) async fn changed(events: &mut broadcast::Receiver<LiveEvent>, run: RunId) {
    loop {
        match events.recv().await {
            Ok(event) if event.run == run => return,
            Ok(_) => {}
            Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}
