//! A day of a hundred runs a second under default retention, on a real SQLite file with real log files.
//!
//! By command, because it takes minutes: `cargo test -p cadran --test retention_day -- --ignored --nocapture`. Time is
//! simulated; the pruner works and rests by it as the server's does. `CADRAN_DAY_SCALE=10`, the default, is a tenth of the day
//! with a tenth of the limits, which is as full as the whole; `1` is the whole.

use std::fs;
use std::path::Path;
use std::time::Duration;

use cadran::server::retention::{Options, Pruner, bytes};
use cadran_core::{
    Batch, History, JobId, JobPut, JobState, Promise, RunId, RunIds, RunStatus, RunUpdate, StepNo,
    StepRecord, StepStatus, Trigger,
};
use cadran_exec::LogDir;
use cadran_store::{Retention, Store};
use tokio::time::Instant;

const RUNS_PER_SECOND: u32 = 100;
/// Seconds that go into one commit.
const SECONDS_PER_BATCH: i64 = 5;
const BEGIN: i64 = 1_790_000_000_000;
const MIB: f64 = (1 << 20) as f64;

fn batch(ids: &mut RunIds, from: i64, seconds: i64) -> (Batch, Vec<RunId>) {
    let mut batch = Batch::default();
    let mut runs = Vec::new();
    for due in (0..seconds).map(|second| from + second * 1_000) {
        for job in (0..RUNS_PER_SECOND).map(JobId) {
            let run = ids.next(due - 5_000);
            runs.push(run);
            batch.promised.push(Promise {
                run,
                job,
                revision: 1,
                due,
                trigger: Trigger::Schedule,
                promised_at: due - 4_500,
                params: Vec::new(),
                addresses: Vec::new(),
                parent: None,
            });
            let step = StepRecord {
                name: "main".into(),
                status: StepStatus::Succeeded,
                attempt: 1,
                started_at: Some(due),
                ended_at: Some(due + 40),
                exit_code: Some(0),
                lost: 0,
                message: None,
                output: None,
                seats: Vec::new(),
                calls: Vec::new(),
            };
            batch.runs.push(RunUpdate {
                run,
                status: RunStatus::Succeeded,
                attempt: 1,
                started_at: Some(due),
                ended_at: Some(due + 40),
                skip: None,
                message: None,
                steps: Some(vec![step]),
            });
            let state = JobState { job, watermark: Some(due), paused_at: None, holes: Vec::new() };
            batch.states.push(state);
        }
    }
    (batch, runs)
}

fn jobs() -> Batch {
    let put = |job: u32| JobPut {
        job: JobId(job),
        name: format!("job-{job}").parse().expect("a name"),
        revision: 1,
        definition: r#"{"v":1,"schedules":["every 1s"],"body":{"steps":[{"name":"main","run":"date"}]}}"#
            .into(),
        source: format!("job-{job}.yaml").into(),
        source_mark: "".into(),
        history: History::default(),
    };
    Batch { jobs: (0..RUNS_PER_SECOND).map(put).collect(), ..Batch::default() }
}

fn write_logs(logs: &LogDir, runs: &[RunId]) {
    for run in runs {
        let path = logs.path(*run, StepNo(0), "main", 1);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, "Wed Nov 18 17:03:51 UTC 2026\n").expect("written");
    }
}

/// What `du` says, in bytes.
fn on_disk(dir: &Path) -> f64 {
    let output = std::process::Command::new("du").args(["-s", "-B1"]).arg(dir).output().expect("du");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().next().and_then(|bytes| bytes.parse().ok()).expect("a number")
}

fn percentiles(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1_000.0;
    format!("p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms of {}", at(0.5), at(0.99), at(1.0), times.len())
}

#[test]
#[ignore = "takes minutes; see the head of this file"]
fn a_day_of_a_hundred_runs_a_second_stays_within_the_limits() {
    let scale: i64 = std::env::var("CADRAN_DAY_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(day(dir.path(), scale));
}

async fn day(dir: &Path, scale: i64) {
    let store = Store::open(&format!("sqlite:{}", dir.join("cadran.db").display())).await.expect("a store");
    store.commit(&jobs()).await.expect("on record");
    let logs = LogDir::new(dir.join("logs"));
    let limit = |text: &str| bytes(text).expect("a size") / scale as u64;
    let defaults = cadran::defaults::RETENTION;
    let mut options = Options::new(Retention::default(), limit(defaults.database), limit(defaults.logs));
    let mut pruner = Pruner::new(options, store.clone(), logs.clone());
    let report = pruner.report();
    let mut ids = RunIds::new(1, None);
    let (seconds, began) = (86_400 / scale, Instant::now());
    let (mut next_pass, mut peak, mut passes, mut runs_made) = (0, 0.0f64, 0, 0);
    for second in (0..seconds).step_by(SECONDS_PER_BATCH as usize) {
        let now = BEGIN + second * 1_000;
        let (batch, runs) = batch(&mut ids, now, SECONDS_PER_BATCH);
        store.commit(&batch).await.expect("on record");
        write_logs(&logs, &runs);
        runs_made += runs.len();
        if second >= next_pass {
            if passes % 20 == 0 {
                peak = peak.max(on_disk(dir));
            }
            let started = Instant::now();
            pruner.pass(now).await.expect("pruned");
            let rest = (started.elapsed() * 20).clamp(options.rest_min, options.rest_max);
            next_pass = second + rest.as_secs() as i64;
            passes += 1;
        }
    }
    let end = on_disk(dir);
    let disk = report.get();
    println!(
        "scale 1/{scale}: {runs_made} runs in {seconds} simulated seconds ({:.0} real), {passes} passes\n\
         on disk at the end {:.1} MiB (database {:.1} MiB, in use {:.1} of {:.1}; logs {:.1} of {:.1}), peak before a pass {:.1} MiB\n\
         forgotten {} runs, logs of {} more",
        began.elapsed().as_secs_f64(),
        end / MIB,
        disk.database_bytes as f64 / MIB,
        disk.database_bytes_used as f64 / MIB,
        disk.database_bytes_max as f64 / MIB,
        disk.log_bytes as f64 / MIB,
        disk.log_bytes_max as f64 / MIB,
        peak / MIB,
        disk.runs_forgotten,
        disk.logs_removed,
    );
    let write_ahead_max = 128.0 * MIB;
    let most = (disk.database_bytes_max + disk.log_bytes_max) as f64 * 1.1 + write_ahead_max;
    assert!(end < most && peak < most, "{end} {peak} {most}");

    // What a commit waits for the pruner: alone, and while all of the history goes.
    let mut commit = async |at: i64| {
        let (batch, _) = batch(&mut ids, BEGIN + (seconds + at) * 1_000, 1);
        let started = Instant::now();
        store.commit(&batch).await.expect("on record");
        started.elapsed()
    };
    let mut alone = Vec::new();
    for at in 0..200 {
        alone.push(commit(at).await);
    }
    options.retention = Retention { days_max: Some(0), ..Retention::default() };
    let mut pruner = Pruner::new(options, store.clone(), logs);
    let pruning = tokio::spawn(async move { pruner.pass(BEGIN + seconds * 1_000).await });
    let mut beside = Vec::new();
    while !pruning.is_finished() {
        beside.push(commit(200 + beside.len() as i64).await);
    }
    pruning.await.expect("it ends").expect("pruned");
    println!(
        "commit of 100 runs alone: {}\ncommit of 100 runs beside the pruner: {}",
        percentiles(alone),
        percentiles(beside)
    );
}
