//! Lists at full size: 100,000 jobs and 1,000,000 runs in SQLite, every list with every kind of filter, asked over and
//! over. Prints the median and the 99th percentile of an answer, and what the process has in memory before and after.
//! `--quick` takes a tenth of both.
#![allow(clippy::disallowed_methods)] // a benchmark reads the clock

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use cadran_core::{
    Batch, Body as JobBody, Command, History, Holding, JobId, JobName, JobPut, Millis, Policy, Promise,
    Refusal, Reply, RunId, RunStatus, RunUpdate, Skip, SkipReason, Step, Trigger, Waiting, Work,
};
use cadran_exec::LogDir;
use cadran_http::{ApiState, EventLog, FileProblem, Health, JobConflict, Lists, Peer, Server, Token, router};
use cadran_spec::{ScheduleText, encode};
use cadran_store::Store;
use futures::future::BoxFuture;
use tower::ServiceExt;

/// 2026-11-15T22:00:00Z.
const NOW: Millis = 1_794_780_000_000;

/// Runs in one commit.
const BATCH: u64 = 50_000;

/// Requests for each list.
const REQUESTS: usize = 200;

const TARGETS: &[&str] = &[
    "/api/v1/jobs",
    "/api/v1/jobs?offset=50000",
    "/api/v1/jobs?sort=next_due",
    "/api/v1/jobs?sort=lateness&offset=5000",
    "/api/v1/jobs?sort=last_end&last=failed",
    "/api/v1/jobs?label=team:3&state=active",
    "/api/v1/jobs?text=job-099",
    "/api/v1/jobs?text=nowhere",
    "/api/v1/runs",
    "/api/v1/runs?status=failed",
    "/api/v1/runs?status=lost",
    "/api/v1/runs?status=succeeded&trigger=manual",
    "/api/v1/runs?job=job-000007",
    "/api/v1/runs?late_over=1h",
    "/api/v1/runs?duration_over=50s&label=team:3",
    "/api/v1/runs?param=who:nobody",
    "/api/v1/runs?from=2026-11-15T21:00:00Z&to=2026-11-15T21:00:10Z",
    "/api/v1/history?reason=overlap",
    "/api/v1/skips?reason=paused&to=2020-01-01T00:00:00Z",
    "/api/v1/dues?from=2026-11-15T20:00:00Z",
    "/api/v1/stats?job=job-000007",
    "/api/v1/stats",
];

fn main() {
    let part = if std::env::args().any(|arg| arg == "--quick") { 10 } else { 1 };
    let (jobs, runs) = (100_000 / part, 1_000_000 / u64::from(part));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(measure(jobs, runs));
}

async fn measure(jobs: u32, runs: u64) {
    let dir = tempfile::tempdir().expect("a directory");
    let store =
        Store::open(&format!("sqlite:{}", dir.path().join("record.db").display())).await.expect("a store");
    fill(&store, jobs, runs).await;
    let made = Instant::now();
    let lists = Lists::start(store.clone(), tokio::runtime::Handle::current(), || NOW).expect("a thread");
    let token = Token::random().expect("a token");
    let server = Arc::new(Alone { lists: Arc::new(lists) });
    let api = router(ApiState::new(server, store, LogDir::new(dir.path().join("logs")), token.hash()));
    let ask = async |target: &str| {
        let mut request = Request::get(target).body(Body::empty()).expect("a request");
        let bearer = format!("Bearer {}", token.as_str()).parse().expect("a header");
        request.headers_mut().insert("authorization", bearer);
        request.extensions_mut().insert(Peer(([127, 0, 0, 1], 1).into()));
        let answer = api.clone().oneshot(request).await.unwrap_or_else(|never| match never {});
        let status = answer.status().as_u16();
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.expect("an answer");
        (status, body.len())
    };
    while ask("/api/v1/jobs?limit=1").await.0 == 503 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!(
        "{jobs} jobs, {runs} runs; lists made in {:.1} s, {} MiB in memory",
        made.elapsed().as_secs_f64(),
        resident_mib()
    );
    println!("| list | p50 ms | p99 ms | bytes |\n|---|---|---|---|");
    for target in TARGETS {
        let (mut times, mut bytes) = (Vec::with_capacity(REQUESTS), 0);
        for _ in 0..REQUESTS {
            let asked = Instant::now();
            let (status, len) = ask(target).await;
            times.push(asked.elapsed().as_secs_f64() * 1_000.0);
            assert_eq!(status, 200, "{target}");
            bytes = len;
        }
        times.sort_by(f64::total_cmp);
        println!("| `{target}` | {:.2} | {:.2} | {bytes} |", times[REQUESTS / 2], times[REQUESTS * 99 / 100]);
    }
    println!("{} MiB in memory afterwards", resident_mib());
}

async fn fill(store: &Store, jobs: u32, runs: u64) {
    let put = |no: u32| {
        let step = Step { name: "main".into(), work: Work::Shell("true".into()), ..Step::default() };
        let labels = vec![("team".to_owned(), (no % 20).to_string())];
        let body = JobBody { labels, steps: vec![step], max_active_steps: 1, ..JobBody::default() };
        let schedule = ScheduleText::new(format!("{} {} * * *", no % 60, no % 24));
        JobPut {
            job: JobId(no),
            name: format!("job-{no:06}").parse().expect("a name"),
            revision: 1,
            definition: encode(&[schedule], &Policy::DEFAULT, &body),
            source: format!("job-{no:06}.yaml").into(),
            source_mark: "".into(),
            history: History::default(),
        }
    };
    store.commit(&Batch { jobs: (0..jobs).map(put).collect(), ..Batch::default() }).await.expect("a commit");
    let first = NOW - runs as Millis * 10;
    for from in (0..runs).step_by(BATCH as usize) {
        let mut batch = Batch::default();
        for no in from..(from + BATCH).min(runs) {
            let due = first + no as Millis * 10;
            let run = RunId::from_raw(((due as u64) << 12) | (no & 0xfff));
            let trigger = if no % 50 == 0 { Trigger::Manual } else { Trigger::Schedule };
            let params =
                if no % 50 == 0 { vec![("who".into(), (no % 1_000).to_string().into())] } else { Vec::new() };
            let job = JobId((no % u64::from(jobs)) as u32);
            batch.promised.push(Promise {
                run,
                job,
                revision: 1,
                due,
                trigger,
                promised_at: due - 5_000,
                params,
                addresses: Vec::new(),
                parent: None,
            });
            let status = match no % 100 {
                0..3 => RunStatus::Failed,
                3 => RunStatus::Skipped,
                _ => RunStatus::Succeeded,
            };
            let started_at = (status != RunStatus::Skipped).then_some(due + (no % 40) as Millis);
            batch.runs.push(RunUpdate {
                status,
                attempt: 1,
                started_at,
                ended_at: Some(due + (no % 60_000) as Millis + 100),
                skip: (status == RunStatus::Skipped).then_some(SkipReason::Overlap),
                ..RunUpdate::promised(run)
            });
            if no % 100 == 7 {
                let id = RunId::from_raw(((due as u64) << 12) | 0x1000 | (no & 0xfff));
                let reason = SkipReason::Missed;
                batch.skips.push(Skip { id, job, first_due: due, last_due: due, count: 1, reason, at: due });
            }
        }
        store.commit(&batch).await.expect("a commit");
    }
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() / 1024
}

/// A server without a loop: lists need none.
struct Alone {
    lists: Arc<Lists>,
}

impl Server for Alone {
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
    fn file_problems(&self) -> Vec<FileProblem> {
        Vec::new()
    }
    fn metrics(&self) -> String {
        String::new()
    }
    fn health(&self) -> Health {
        Health { ready: true, ..Health::default() }
    }
    fn now(&self) -> Millis {
        NOW
    }
    fn load(&self) -> (usize, usize) {
        (0, 0)
    }
    fn lists(&self) -> Arc<Lists> {
        self.lists.clone()
    }
    fn event_log(&self) -> Arc<EventLog> {
        Arc::new(EventLog::new(0))
    }
}
