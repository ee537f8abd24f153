//! 500 × `true`, output captured: through [`Local`] against a bare tokio loop that spawns all and waits for each, in
//! the same run, alternating. Prints the ratio of the medians.
//!
//! `cargo bench -p cadran-exec --bench spawn [-- ROUNDS]`

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cadran_core::{Body, JobId, Order, ReportKind, RunContext, RunId, Start, Step, StepNo, Trigger, Work};
use cadran_exec::{Local, LocalOptions};
use tokio::sync::mpsc;

const PROCESSES: usize = 500;
const ROUNDS: usize = 15;

// A benchmark reads the clock.
#[allow(clippy::disallowed_methods)]
fn now() -> Instant {
    Instant::now()
}

/// As the bare loop is usually written: spawn, then wait for each with its output.
async fn bare() -> Duration {
    let began = now();
    let mut children = Vec::with_capacity(PROCESSES);
    for _ in 0..PROCESSES {
        let mut command = tokio::process::Command::new("true");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("spawned");
        children.push(tokio::spawn(child.wait_with_output()));
    }
    for child in children {
        assert!(child.await.expect("no panic").expect("waited").status.success());
    }
    began.elapsed()
}

struct Bench {
    local: Local,
    ends: mpsc::UnboundedReceiver<usize>,
    context: Arc<RunContext>,
    next_run: u64,
}

impl Bench {
    async fn local(&mut self) -> Duration {
        let runs = self.next_run..self.next_run + PROCESSES as u64;
        self.next_run = runs.end;
        let start = |run| {
            Order::Start(Start {
                run: RunId::from_raw(run),
                step: StepNo(0),
                attempt: 1,
                context: Arc::clone(&self.context),
                outputs: Arc::from([]),
                placement: None,
            })
        };
        let began = now();
        self.local.submit(runs.clone().map(start).collect());
        let mut ended = 0;
        while ended < PROCESSES {
            ended += self.ends.recv().await.expect("open");
        }
        let took = began.elapsed();
        self.local.submit(runs.map(|run| Order::Close { run: RunId::from_raw(run) }).collect());
        took
    }
}

fn main() {
    // `cargo test --benches` only wants to see that it runs.
    let is_test = std::env::args().any(|arg| arg == "--test");
    let rounds =
        std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(if is_test { 1 } else { ROUNDS });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let dir = tempfile::tempdir().expect("a directory");
        let (sender, ends) = mpsc::unbounded_channel();
        let batches = Arc::new(Mutex::new((0usize, 0usize)));
        let count = Arc::clone(&batches);
        let sink = Arc::new(move |reports: Vec<cadran_core::Report>| {
            let ended = reports.iter().filter(|r| matches!(r.kind, ReportKind::Ended { .. })).count();
            let mut count = count.lock().expect("whole");
            *count = (count.0 + 1, count.1 + reports.len());
            let _ = sender.send(ended);
        });
        let (local, _) = Local::open(LocalOptions::new(dir.path()), || 0, sink).await.expect("opened");
        let step = Step { name: "true".into(), work: Work::Program(vec!["true".into()]), ..Step::default() };
        let step = Step { output: Some("OUT".into()), ..step };
        let context = RunContext {
            job: JobId(0),
            job_name: "bench".parse().expect("a name"),
            body: Arc::new(Body { steps: vec![step], ..Body::default() }),
            due: 0,
            trigger: Trigger::Schedule,
            params: Vec::new(),
            addresses: Vec::new(),
            shard_index: 0,
            shard_total: 1,
        };
        let mut bench = Bench { local, ends, context: Arc::new(context), next_run: 1 };
        let (mut bare_times, mut local_times) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            bare_times.push(bare().await);
            local_times.push(bench.local().await);
        }
        let median = |times: &mut Vec<Duration>| {
            times.sort();
            times[times.len() / 2].as_secs_f64() * 1e3
        };
        let (bare, local) = (median(&mut bare_times), median(&mut local_times));
        let (calls, reports) = *batches.lock().expect("whole");
        println!("{PROCESSES} x true, output captured, {rounds} rounds, medians");
        println!("bare tokio loop  {bare:8.1} ms");
        println!("cadran-exec      {local:8.1} ms");
        println!("ratio            {:8.2}", local / bare);
        println!("reports per call {:8.1}", reports as f64 / calls.max(1) as f64);
        bench.local.drain(Duration::from_secs(5)).await;
    });
}
