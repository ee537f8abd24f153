use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::http::{Method, Request, Uri};
use cadran_core::{Command, Holding, JobName, Millis, Refusal, Reply, RunId, Waiting};
use cadran_exec::LogDir;
use cadran_http::{ApiState, EventLog, FileProblem, Health, JobConflict, Lists, Peer, Server, Token, router};
use cadran_store::Store;
use futures::future::BoxFuture;
use tower::ServiceExt;

/// The largest answer that is read back: more than any to a server without records.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// First line: method and path; the rest is the body. Every answer is one that a client can read, and no server error.
pub fn api(data: &[u8]) {
    let Some(at) = data.iter().position(|byte| *byte == b'\n') else { return };
    let (head, body) = (&data[..at], &data[at + 1..]);
    let Ok(head) = std::str::from_utf8(head) else { return };
    let Some((method, target)) = head.split_once(' ') else { return };
    let (Ok(method), Ok(uri)) = (method.parse::<Method>(), target.parse::<Uri>()) else { return };
    // A log that is followed and a stream of events have no end; their own tests are elsewhere.
    if target.contains("follow")
        || target.contains("wait_ms")
        || target.contains("events")
        || !target.starts_with('/')
    {
        return;
    }
    static BENCH: OnceLock<(Token, axum::Router)> = OnceLock::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        if BENCH.get().is_none() {
            let store = Store::open("memory:").await.expect("a store");
            let token = Token::random().expect("a token");
            let logs = LogDir::new(std::env::temp_dir().join("cadran-fuzz-no-logs"));
            let lists = lists(store.clone()).expect("lists");
            let api = router(ApiState::new(Arc::new(Nobody { lists }), store, logs, token.hash()));
            let _ = BENCH.set((token, api));
        }
        let (token, api) = BENCH.get().expect("it was set");
        let mut request = Request::new(Body::from(body.to_vec()));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        let bearer = format!("Bearer {}", token.as_str()).parse().expect("a header");
        request.headers_mut().insert("authorization", bearer);
        request.headers_mut().insert("content-type", "application/json".parse().expect("a header"));
        request.extensions_mut().insert(Peer(([127, 0, 0, 1], 1).into()));
        let answer = api.clone().oneshot(request).await.unwrap_or_else(|never| match never {});
        let status = answer.status().as_u16();
        assert!(status < 500 || status == 503, "{head:?}: {status}");
        let bytes =
            axum::body::to_bytes(answer.into_body(), ANSWER_BYTES_MAX).await.expect("a bounded answer");
        if status >= 400 && !bytes.is_empty() {
            let error: serde_json::Value = serde_json::from_slice(&bytes).expect("an error is JSON");
            assert!(error["error"]["code"].is_string(), "{error}");
        }
    });
}

/// Lists of a store, made on a runtime that lives as long as the process.
fn lists(store: Store) -> std::io::Result<Arc<Lists>> {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    let made = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    Lists::start(store, RUNTIME.get_or_init(made).handle().clone(), || 1_794_780_000_000).map(Arc::new)
}

/// A server without jobs.
struct Nobody {
    lists: Arc<Lists>,
}

impl Server for Nobody {
    fn command(&self, _: Command) -> BoxFuture<'static, Result<Reply, Refusal>> {
        Box::pin(async { Err(Refusal::Busy("nobody is here")) })
    }
    fn upcoming(
        &self,
        _: Millis,
        _: Millis,
        _: Option<&JobName>,
        _: usize,
    ) -> Result<Vec<(Millis, JobName)>, Refusal> {
        Ok(Vec::new())
    }
    fn forecast(&self, _: Millis, minutes: usize) -> Result<Vec<u64>, Refusal> {
        Ok(vec![0; minutes])
    }
    fn next_dues(&self, jobs: Vec<JobName>) -> Result<Vec<Option<Millis>>, Refusal> {
        Ok(vec![None; jobs.len()])
    }
    fn why(&self, _: RunId) -> Result<(Option<Waiting>, Option<Holding>), Refusal> {
        Ok((None, None))
    }
    fn waitings(&self, runs: Vec<RunId>) -> Result<Vec<Option<Waiting>>, Refusal> {
        Ok(vec![None; runs.len()])
    }
    fn conflicts(&self) -> Result<(Arc<Vec<JobConflict>>, bool), Refusal> {
        Ok((Arc::default(), false))
    }
    fn lists(&self) -> Arc<Lists> {
        self.lists.clone()
    }
    fn file_problems(&self) -> Vec<FileProblem> {
        Vec::new()
    }
    fn metrics(&self) -> String {
        String::new()
    }
    fn health(&self) -> Health {
        Health { ready: true, store_ok: true, ..Health::default() }
    }
    fn now(&self) -> Millis {
        1_794_780_000_000
    }
    fn load(&self) -> (usize, usize) {
        (0, 0)
    }
    fn event_log(&self) -> Arc<EventLog> {
        Arc::new(EventLog::new(0))
    }
}
