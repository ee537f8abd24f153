use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use cadran_core::{JobName, RunStatus};
use futures::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;
use utoipa::IntoParams;

use crate::error::{ApiError, ErrorBody};
use crate::listen::Stopping;
use crate::request::{self, Fields};
use crate::state::WATCHERS_MAX;
use crate::{ApiState, EventLog, LiveChange};

/// Which events.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct EventFields {
    /// Go on behind the event with this id; as the header `Last-Event-ID` does. From now on without it.
    after: Option<String>,
    /// Only events of this job.
    job: Option<String>,
}

/// Streams what changes as server-sent events: `run`, `skip`, `job`, `problems`, and `tick` once a second with how many
/// runs are active and waiting. Each change is in the record before it is sent. Above 50 changes in a quarter of a second
/// they come as one `burst` with the newest of each job. `reset` says that some were missed: read anew what you show.
#[utoipa::path(
    get, path = "/api/v1/events", tag = "events", operation_id = "watch_events",
    params(EventFields),
    responses(
        (status = 200, body = String, content_type = "text/event-stream", description = "Events until the client leaves."),
        (status = "default", body = ErrorBody, description = "What went wrong.")
    ),
)]
pub(super) async fn events(
    State(state): State<ApiState>,
    Fields(fields): Fields<EventFields>,
    headers: HeaderMap,
    stopping: Option<Extension<Stopping>>,
) -> Result<Response, ApiError> {
    let job = request::job_field(fields.job.as_deref())?;
    let watchers = state.watchers.clone();
    let permit = watchers.try_acquire_owned().map_err(|_| ApiError::too_many_watchers(WATCHERS_MAX))?;
    let log = state.server.event_log();
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let mut waiting = VecDeque::new();
    let at = match last.or(fields.after.as_deref()) {
        None => log.newest(),
        Some(id) => log.number(id).unwrap_or_else(|| {
            waiting.push_back(reset(&log));
            log.newest()
        }),
    };
    waiting.push_back(Bytes::from(format!("retry: 2000\nid: {}\nevent: hello\ndata: {{}}\n\n", log.id(at))));
    let now = Instant::now();
    let watcher = Watcher {
        newest: log.watch(),
        log,
        at,
        job,
        waiting,
        tick_at: now,
        send_at: now,
        stopping: stopping.map(|stopping| stopping.0),
        state,
        _permit: permit,
    };
    let body = Body::from_stream(stream::unfold(watcher, |mut watcher| async move {
        let bytes = watcher.next().await?;
        Some((Ok::<_, std::io::Error>(bytes), watcher))
    }));
    Ok(([(CONTENT_TYPE, "text/event-stream")], body).into_response())
}

/// Changes are sent this often at most: below what a person notices.
const SEND_EVERY: Duration = Duration::from_millis(250);

/// More changes than this at once are put together.
const SINGLE_MAX: usize = 50;

/// A word about the load, which also shows that the connection lives.
const TICK_EVERY: Duration = Duration::from_secs(1);

struct Watcher {
    state: ApiState,
    log: Arc<EventLog>,
    newest: watch::Receiver<u64>,
    at: u64,
    job: Option<JobName>,
    waiting: VecDeque<Bytes>,
    tick_at: Instant,
    send_at: Instant,
    stopping: Option<Stopping>,
    _permit: OwnedSemaphorePermit,
}

impl Watcher {
    /// The next piece of the stream; `None` when the server stops.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.waiting.pop_front() {
                return Some(bytes);
            }
            let now = Instant::now();
            if now >= self.tick_at {
                self.tick_at = now + TICK_EVERY;
                let (active, waiting) = self.state.server.load();
                return Some(event(
                    None,
                    "tick",
                    &json!({ "active": active, "waiting": waiting, "at_ms": self.state.server.now() }),
                ));
            }
            if *self.newest.borrow_and_update() > self.at && now >= self.send_at {
                self.send_at = now + SEND_EVERY;
                self.collect();
                continue;
            }
            let until =
                if *self.newest.borrow() > self.at { self.send_at.min(self.tick_at) } else { self.tick_at };
            let told = async {
                match &mut self.stopping {
                    Some(stopping) => stopping.stopped().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = told => return None,
                () = tokio::time::sleep_until(until) => {}
                changed = self.newest.changed() => changed.ok()?,
            }
        }
    }

    fn collect(&mut self) {
        let Some((mut changes, newest)) = self.log.after(self.at) else {
            self.at = self.log.newest();
            self.waiting.push_back(reset(&self.log));
            return;
        };
        let first = newest - changes.len() as u64 + 1;
        self.at = newest;
        if changes.len() > SINGLE_MAX {
            changes.retain(|change| self.wants(change));
            if !changes.is_empty() {
                self.waiting.push_back(event(Some(&self.log.id(newest)), "burst", &burst(&changes)));
            }
            return;
        }
        for (number, change) in (first..).zip(&changes) {
            if !self.wants(change) {
                continue;
            }
            let (name, data) = one(change);
            self.waiting.push_back(event(Some(&self.log.id(number)), name, &data));
        }
    }

    fn wants(&self, change: &LiveChange) -> bool {
        self.job.is_none() || change.job() == self.job.as_ref()
    }
}

fn reset(log: &EventLog) -> Bytes {
    event(Some(&log.id(log.newest())), "reset", &json!({}))
}

fn event(id: Option<&str>, name: &str, data: &Value) -> Bytes {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("{id}event: {name}\ndata: {data}\n\n").into()
}

fn one(change: &LiveChange) -> (&'static str, Value) {
    match change {
        LiveChange::Run { run, job, status } => {
            ("run", json!({ "run": run.to_string(), "job": job.as_str(), "status": status.word() }))
        }
        LiveChange::Skip { job, count, reason } => {
            ("skip", json!({ "job": job.as_str(), "count": count, "reason": reason.word() }))
        }
        LiveChange::Job { job } => ("job", json!({ "job": job.as_str() })),
        LiveChange::Problems => ("problems", json!({})),
    }
}

/// Jobs named in one burst; beyond that a page shows nothing but the sums anyway.
const BURST_JOBS_MAX: usize = 200;

/// Many changes as sums, with the newest change of each job.
fn burst(changes: &[LiveChange]) -> Value {
    let mut statuses: BTreeMap<&str, u64> = BTreeMap::new();
    let mut jobs: BTreeMap<&str, Value> = BTreeMap::new();
    let mut skips = 0;
    for change in changes {
        match change {
            LiveChange::Run { status, .. } => *statuses.entry(RunStatus::word(*status)).or_default() += 1,
            LiveChange::Skip { count, .. } => skips += count,
            LiveChange::Job { .. } | LiveChange::Problems => {}
        }
        let name = change.job().map_or("", JobName::as_str);
        if jobs.contains_key(name) || jobs.len() < BURST_JOBS_MAX {
            let (kind, data) = one(change);
            jobs.insert(name, json!({ "kind": kind, "data": data }));
        }
    }
    json!({ "count": changes.len(), "runs": statuses, "skips": skips, "newest": jobs.into_values().collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cadran_core::{RunId, SkipReason};

    #[test]
    fn a_burst_counts_everything_and_names_the_newest_of_each_job() {
        let run = |no: u64, job: &str, status| LiveChange::Run {
            run: RunId::from_raw(no),
            job: job.parse().unwrap(),
            status,
        };
        let skip = LiveChange::Skip { job: "b".parse().unwrap(), count: 3, reason: SkipReason::Paused };
        let made = burst(&[
            run(1, "a", RunStatus::Running),
            run(1, "a", RunStatus::Failed),
            skip,
            LiveChange::Problems,
        ]);
        assert_eq!(made["count"], 4);
        assert_eq!(made["runs"], json!({ "running": 1, "failed": 1 }));
        assert_eq!(made["skips"], 3);
        let kinds: Vec<_> = made["newest"].as_array().unwrap().iter().map(|one| &one["kind"]).collect();
        assert_eq!(kinds, ["problems", "run", "skip"]);
        assert_eq!(made["newest"][1]["data"]["status"], "failed");
    }
}
