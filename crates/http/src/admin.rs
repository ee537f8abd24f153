//! The endpoints for executors: the calls of the XXL-JOB protocol that go to the scheduler.
//!
//! Every answer has HTTP status 200 and a JSON envelope, whatever was wrong. Results are never refused for what they
//! speak of: an executor would send them again for ever.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use cadran_core::{Address, AddressError, Dialect, Executor, GroupName};
use cadran_exec::Tokens;
use cadran_exec::xxl::form::JobForm;
use cadran_exec::xxl::wire::{GROUP_HEADER, ORTH_TOKEN_HEADER, Registration, RunResult, TOKEN_HEADER};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tower_http::catch_panic::CatchPanicLayer;

/// What executors ask of the running server.
pub trait ExecutorApi: Send + Sync + 'static {
    /// An executor says that it is there. The error is a sentence for its log.
    fn seen(&self, group: GroupName, executor: Executor) -> Result<(), &'static str>;

    /// An executor says that it leaves.
    fn gone(&self, group: GroupName, address: Address);

    /// Results. They are on disk when this is done; the error is a sentence for the executor's log, and it shall try again.
    fn results(&self, results: Vec<RunResult>) -> BoxFuture<'static, Result<(), String>>;

    /// Something is asked about a job of a group. The error is a sentence for the executor's log.
    fn job(&self, group: GroupName, call: JobCall) -> BoxFuture<'static, Result<Option<String>, String>>;
}

/// What an executor may ask about jobs of its group, from 3.5 on. Jobs are known by number.
#[derive(Clone, Debug, PartialEq)]
pub enum JobCall {
    /// Make one; the answer is its number. Its schedule rests until it is started.
    Add(JobForm),
    /// Change one: it is from now on as described.
    Update(u32, JobForm),
    /// Remove one.
    Remove(u32),
    /// Let its schedule go on.
    Start(u32),
    /// Let its schedule rest.
    Stop(u32),
    /// Run it now, with this text, on one of these executors.
    Trigger(u32, Option<String>, Vec<Address>),
}

/// What was counted at the endpoints.
#[derive(Debug, Default)]
pub struct ExecutorCallCounts {
    pub(crate) registrations: AtomicU64,
    pub(crate) results: AtomicU64,
    pub(crate) bad_token: AtomicU64,
    pub(crate) bad_body: AtomicU64,
    bad_address: AtomicU64,
    pub(crate) unknown_verb: AtomicU64,
    job_calls: AtomicU64,
    refused_job_calls: AtomicU64,
}

impl ExecutorCallCounts {
    /// In Prometheus' text format.
    pub fn render(&self) -> String {
        let mut text = String::from(
            "# HELP cadran_executor_calls_total Calls of executors, by what became of them.\n\
             # TYPE cadran_executor_calls_total counter\n",
        );
        for (word, counter) in [
            ("registration", &self.registrations),
            ("result", &self.results),
            ("bad_token", &self.bad_token),
            ("bad_body", &self.bad_body),
            ("bad_address", &self.bad_address),
            ("unknown_verb", &self.unknown_verb),
            ("job", &self.job_calls),
            ("job_refused", &self.refused_job_calls),
        ] {
            let count = counter.load(Ordering::Relaxed);
            let _ = writeln!(text, "cadran_executor_calls_total{{what=\"{word}\"}} {count}");
        }
        text
    }
}

/// Largest body. An executor that was cut off for long sends everything it has at once.
const BODY_BYTES_MAX: usize = 16 << 20;

/// How long a body may take.
const BODY_TIME_MAX: Duration = Duration::from_secs(10);

/// Calls about jobs in one window, as in the protocol, for each group: one that asks for too much stops nobody else.
const JOB_CALLS_MAX: u32 = 100;
const JOB_CALLS_WINDOW: Duration = Duration::from_secs(30);

/// Groups that may call about jobs within one window.
const GROUPS_MAX: usize = 1_000;

#[derive(Clone)]
struct ExecutorEndpoints {
    desk: Arc<dyn ExecutorApi>,
    tokens: Arc<Tokens>,
    counts: Arc<ExecutorCallCounts>,
    /// When the window of calls about jobs began for a group, and how many it had.
    job_calls: Arc<Mutex<BTreeMap<GroupName, (Instant, u32)>>>,
}

/// The executors' side of the server. It has a listener of its own: nothing of the API answers here.
pub fn executor_router(
    desk: Arc<dyn ExecutorApi>,
    tokens: Arc<Tokens>,
    counts: Arc<ExecutorCallCounts>,
) -> Router {
    let job_calls = Arc::default();
    Router::new()
        .fallback(answer)
        .layer(CatchPanicLayer::custom(|_| envelope(500, "an error inside of the server", None)))
        .with_state(ExecutorEndpoints { desk, tokens, counts, job_calls })
}

async fn answer(State(endpoints): State<ExecutorEndpoints>, request: Request) -> Response {
    let path = request.uri().path();
    let path = path.strip_prefix("/xxl-job-admin").unwrap_or(path);
    let Some(verb) = path.strip_prefix("/api/").map(str::to_owned) else {
        endpoints.counts.unknown_verb.fetch_add(1, Ordering::Relaxed);
        return envelope(500, "there is nothing here but the calls of executors, below /api/", None);
    };
    let (parts, body) = request.into_parts();
    let Some(caller) = endpoints.caller(&parts.headers) else {
        endpoints.counts.bad_token.fetch_add(1, Ordering::Relaxed);
        return envelope(500, "The access token is wrong.", None);
    };
    let value = match read(body).await {
        Ok(value) => value,
        Err(why) => {
            endpoints.counts.bad_body.fetch_add(1, Ordering::Relaxed);
            return envelope(500, why, None);
        }
    };
    match endpoints.call(&verb, &caller, value).await {
        Ok(payload) => envelope(200, "Success", payload.as_deref()),
        Err(Refused(code, why)) => envelope(code, &why, None),
    }
}

/// Whatever the content type says, or if there is none.
async fn read(body: Body) -> Result<Value, &'static str> {
    match timeout(BODY_TIME_MAX, axum::body::to_bytes(body, BODY_BYTES_MAX)).await {
        Err(_) => Err("the body did not arrive in time"),
        Ok(Err(_)) => Err("the body is too large, or broke off"),
        Ok(Ok(bytes)) if bytes.is_empty() => Ok(Value::Null),
        Ok(Ok(bytes)) => serde_json::from_slice(&bytes).map_err(|_| "the body is not JSON"),
    }
}

/// Both members for the payload, and nothing but a text or null in them.
fn envelope(code: u16, message: &str, payload: Option<&str>) -> Response {
    let text = json!({ "code": code, "msg": message, "content": payload, "data": payload }).to_string();
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}

/// Whose token it was.
struct Caller {
    /// The group that the call names, from 3.5 on.
    group: Option<GroupName>,
    dialect: Dialect,
    token: Box<str>,
}

struct Refused(u16, String);

impl Refused {
    fn new(why: impl Into<String>) -> Refused {
        Refused(500, why.into())
    }
}

impl ExecutorEndpoints {
    /// The caller, if the token is right: that of the group it names, or else the one for all. A call that names no group
    /// is checked once more when its body does.
    fn caller(&self, headers: &HeaderMap) -> Option<Caller> {
        let header = |name| headers.get(name).and_then(|value: &axum::http::HeaderValue| value.to_str().ok());
        let (token, orth) = match header(TOKEN_HEADER) {
            Some(token) => (token, false),
            None => (header(ORTH_TOKEN_HEADER)?, true),
        };
        let group = header(GROUP_HEADER).filter(|name| !name.trim().is_empty());
        let group: Option<GroupName> =
            group.map(|name| name.trim().parse().ok()).map_or(Some(None), |g| g.map(Some))?;
        let right = match &group {
            Some(group) => self.tokens.of(group).is_some_and(|known| same(&known, token)),
            None => self.tokens.any(|known| same(known, token)),
        };
        let dialect = match (&group, orth) {
            (Some(_), _) => Dialect::Three,
            (None, true) => Dialect::Orth,
            (None, false) => Dialect::Two,
        };
        right.then(|| Caller { group, dialect, token: token.into() })
    }

    async fn call(&self, verb: &str, caller: &Caller, body: Value) -> Result<Option<String>, Refused> {
        match verb {
            "registry" => {
                let (group, address) = self.registration(caller, body)?;
                self.counts.registrations.fetch_add(1, Ordering::Relaxed);
                let executor = Executor { address, dialect: caller.dialect };
                self.desk.seen(group, executor).map_err(Refused::new)?;
                Ok(None)
            }
            "registryRemove" => {
                let (group, address) = self.registration(caller, body)?;
                self.desk.gone(group, address);
                Ok(None)
            }
            "callback" => {
                let Some((results, odd)) = RunResult::read_all(&body) else {
                    self.counts.bad_body.fetch_add(1, Ordering::Relaxed);
                    return Err(Refused::new("a list of results is wanted"));
                };
                self.counts.bad_body.fetch_add(odd as u64, Ordering::Relaxed);
                self.counts.results.fetch_add(results.len() as u64, Ordering::Relaxed);
                self.desk.results(results).await.map_err(Refused::new)?;
                Ok(None)
            }
            "addJob" | "updateJob" | "removeJob" | "startJob" | "stopJob" | "triggerJob" => {
                let answer = self.job(verb, caller, body).await;
                let counter = match &answer {
                    Ok(_) => &self.counts.job_calls,
                    Err(_) => &self.counts.refused_job_calls,
                };
                counter.fetch_add(1, Ordering::Relaxed);
                answer
            }
            _ => {
                self.counts.unknown_verb.fetch_add(1, Ordering::Relaxed);
                Err(Refused::new("there is no such call"))
            }
        }
    }

    fn registration(&self, caller: &Caller, body: Value) -> Result<(GroupName, Address), Refused> {
        let bad = |counter: &AtomicU64, why: String| {
            counter.fetch_add(1, Ordering::Relaxed);
            Refused::new(why)
        };
        let registration: Registration =
            serde_json::from_value(body).map_err(|error| bad(&self.counts.bad_body, error.to_string()))?;
        let Registration { registry_group, registry_key, registry_value } = registration;
        if registry_group.trim().is_empty() {
            return Err(bad(&self.counts.bad_body, "registryGroup is empty".into()));
        }
        let group: GroupName = registry_key
            .trim()
            .parse()
            .map_err(|e: cadran_core::GroupNameError| bad(&self.counts.bad_body, e.to_string()))?;
        let own = self.tokens.of(&group).is_some_and(|known| same(&known, &caller.token));
        if !own || caller.group.as_ref().is_some_and(|named| *named != group) {
            return Err(bad(&self.counts.bad_token, "The access token is wrong.".into()));
        }
        let address = registry_value.trim().parse::<Address>();
        let address = address.map_err(|error| bad(&self.counts.bad_address, error.to_string()))?;
        if address.worker().is_some() {
            return Err(bad(
                &self.counts.bad_address,
                "an executor of this protocol listens at http://…".into(),
            ));
        }
        Ok((group, address))
    }

    async fn job(&self, verb: &str, caller: &Caller, body: Value) -> Result<Option<String>, Refused> {
        let Some(group) = caller.group.clone() else {
            return Err(Refused::new("calls about jobs need the header XXL-JOB-APPNAME"));
        };
        if !self.has_room_for_job_call(&group) {
            return Err(Refused(502, "too many calls about jobs; wait half a minute".into()));
        }
        let number = || {
            let id = body.get("id").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
            id.ok_or_else(|| Refused::new("`id` is not the number of a job"))
        };
        let call = match verb {
            "addJob" => JobCall::Add(JobForm::read(&body).map_err(Refused::new)?),
            "updateJob" => JobCall::Update(number()?, JobForm::read(&body).map_err(Refused::new)?),
            "removeJob" => JobCall::Remove(number()?),
            "startJob" => JobCall::Start(number()?),
            "stopJob" => JobCall::Stop(number()?),
            _ => {
                let given = |name: &str| match body.get(name) {
                    None | Some(Value::Null) => Ok(None),
                    Some(Value::String(text)) => Ok(Some(text.clone())),
                    Some(_) => Err(Refused::new(format!("`{name}` is not a text"))),
                };
                let addresses = given("addressList")?.unwrap_or_default();
                let addresses = addresses.split(',').map(str::trim).filter(|address| !address.is_empty());
                let address = |text: &str| {
                    let why =
                        |error| format!("`addressList`: {:?}: {error}", text.escape_debug().to_string());
                    text.parse().map_err(|error: AddressError| Refused::new(why(error)))
                };
                let addresses = addresses.map(address).collect::<Result<_, _>>()?;
                JobCall::Trigger(number()?, given("executorParam")?, addresses)
            }
        };
        self.desk.job(group, call).await.map_err(Refused::new)
    }

    fn has_room_for_job_call(&self, group: &GroupName) -> bool {
        let mut windows = self.job_calls.lock().unwrap_or_else(PoisonError::into_inner);
        if !windows.contains_key(group) {
            // Groups that were quiet for a whole window are forgotten; no more are heard at once than are known.
            windows.retain(|_, (began, _)| began.elapsed() < JOB_CALLS_WINDOW);
            if windows.len() >= GROUPS_MAX {
                return false;
            }
        }
        let window = windows.entry(group.clone()).or_insert_with(|| (Instant::now(), 0));
        if window.0.elapsed() >= JOB_CALLS_WINDOW {
            *window = (Instant::now(), 0);
        }
        window.1 = window.1.saturating_add(1);
        window.1 <= JOB_CALLS_MAX
    }
}

/// Takes the same time however much is right: hashes are compared, and their comparison does not stop early.
pub(crate) fn same(known: &str, given: &str) -> bool {
    blake3::hash(known.as_bytes()) == blake3::hash(given.as_bytes())
}
