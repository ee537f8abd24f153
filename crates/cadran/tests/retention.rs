//! Record and logs stay within their limits, through the built binary.

mod support;

use std::fs;
use std::path::PathBuf;

use cadran_core::{
    Batch, History, JobId, JobPut, JobState, Promise, RunId, RunIds, RunStatus, RunUpdate, Trigger,
};
use cadran_store::Store;
use serde_json::Value;
use support::{Home, Server, wait_for};

const DAY_MS: i64 = 86_400_000;

#[allow(clippy::disallowed_methods)] // what the server is to think old is told by the clock it reads
fn wall() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// Puts ended runs of a job on record, as a server would have.
fn record(home: &Home, job: u32, name: &str, count: usize, ended_at: i64) -> Vec<RunId> {
    fs::create_dir_all(home.data()).expect("made");
    let mut ids = RunIds::new(job as u16, None);
    let runs: Vec<RunId> = (0..count).map(|_| ids.next(ended_at)).collect();
    let put = JobPut {
        job: JobId(job),
        name: name.parse().expect("a name"),
        revision: 1,
        definition: r#"{"v":1,"body":{"steps":[{"name":"main","run":"true"}]}}"#.into(),
        source: "".into(),
        source_mark: "".into(),
        history: History::Days(30),
    };
    let promise = |run: &RunId| Promise {
        run: *run,
        job: JobId(job),
        revision: 1,
        due: run.raw() as i64,
        trigger: Trigger::Schedule,
        promised_at: ended_at,
        params: Vec::new(),
        addresses: Vec::new(),
        parent: None,
    };
    let update = |run: &RunId| RunUpdate {
        run: *run,
        status: RunStatus::Succeeded,
        attempt: 1,
        started_at: Some(ended_at),
        ended_at: Some(ended_at),
        skip: None,
        message: None,
        steps: None,
    };
    let batch = Batch {
        jobs: vec![put],
        states: vec![JobState { job: JobId(job), watermark: None, paused_at: None, holes: Vec::new() }],
        promised: runs.iter().map(promise).collect(),
        runs: runs.iter().map(update).collect(),
        ..Batch::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let store = Store::open(&format!("sqlite:{}", home.data().join("cadran.db").display()))
            .await
            .expect("a store");
        store.commit(&batch).await.expect("on record");
        store.close().await;
    });
    runs
}

fn log_of(home: &Home, run: &str) -> PathBuf {
    home.data().join("logs").join(&run[..4]).join(run)
}

fn write_log(home: &Home, run: RunId, bytes: usize) -> PathBuf {
    let dir = log_of(home, &run.to_string());
    fs::create_dir_all(&dir).expect("made");
    fs::write(dir.join("0-main.1.log"), vec![b'x'; bytes]).expect("written");
    dir
}

fn disk(server: &Server) -> Value {
    server.get("/health").1["disk"].clone()
}

#[test]
fn a_job_that_runs_every_second_left_more_behind_than_was_ever_forgotten() {
    let home = Home::new();
    let old = record(&home, 7, "busy", 3_000, wall() - 40 * DAY_MS);
    let log = write_log(&home, old[1_234], 10);
    let server = home.serve_with(&["--prune-rest-ms", "100"]);
    wait_for("all of them to be forgotten", || (disk(&server)["runs_forgotten"] == 3_000).then_some(()));
    wait_for("the log to go with its run", || (!log.exists()).then_some(()));
    let (_, page) = server.get("/api/v1/runs?job=busy");
    assert_eq!(page["runs"].as_array().map(Vec::len), Some(0), "{page}");
    assert!(server.stop().success());
}

// covers: option serve --keep-runs
#[test]
fn what_all_jobs_keep_at_most_is_said_to_the_server() {
    let home = Home::new();
    let runs = record(&home, 7, "busy", 500, wall());
    let server = home.serve_with(&["--prune-rest-ms", "100", "--keep-runs", "20"]);
    wait_for("the oldest to be forgotten", || (disk(&server)["runs_forgotten"] == 480).then_some(()));
    let (_, page) = server.get("/api/v1/runs?job=busy");
    let left: Vec<&str> =
        page["runs"].as_array().expect("runs").iter().filter_map(|run| run["id"].as_str()).collect();
    let newest: Vec<String> = runs.iter().rev().take(20).map(|run| run.to_string()).collect();
    assert_eq!(left, newest);
    assert!(server.stop().success());
}

// covers: option serve --keep-logs
#[test]
fn logs_stay_within_their_bytes_and_those_of_nobody_go() {
    let home = Home::new();
    let known = record(&home, 7, "busy", 40, wall());
    let logs: Vec<PathBuf> = known.iter().map(|run| write_log(&home, *run, 100_000)).collect();
    let nobody = RunIds::new(9, None).next(wall() - 2 * DAY_MS);
    let fresh = RunIds::new(9, None).next(wall());
    let (orphan, fresh) = (write_log(&home, nobody, 10), write_log(&home, fresh, 10));
    home.job("talker", "run: head -c 300000 /dev/zero; sleep 600\n");
    let server = home.serve_with(&["--prune-rest-ms", "100", "--keep-logs", "1MiB"]);
    wait_for("the log of nobody to go", || (!orphan.exists()).then_some(()));
    home.client(&["trigger", "talker"]);
    let talker = server.run_with("talker", "running");
    let talks = log_of(&home, talker["id"].as_str().expect("an id"));
    wait_for("the limit to be kept", || {
        let disk = disk(&server);
        let is_kept = disk["log_bytes"].as_u64()? <= 1 << 20 && disk["logs_removed"].as_u64()? > 30;
        is_kept.then_some(())
    });
    assert!(!logs[0].exists() && logs[39].exists(), "the oldest go first");
    assert!(talks.exists() && fresh.exists(), "what is on keeps its log, and what is being made");
    // The runs themselves stay.
    let (_, page) = server.get("/api/v1/runs?job=busy&limit=100");
    assert_eq!(page["runs"].as_array().map(Vec::len), Some(40));
    server.kill();
}

// covers: command status
// covers: option status --json
// covers: option serve --{keep-days,keep-database}
#[test]
fn status_shows_health_runs_disk_and_problems_on_one_screen() {
    let home = Home::new();
    home.job("sleeper", "run: sleep 600\n");
    home.job("broken", "rnu: nothing\n");
    let server = home.serve_with(&["--prune-rest-ms", "100", "--keep-days", "9", "--keep-database", "2GiB"]);
    home.client(&["trigger", "sleeper"]);
    let run = server.run_with("sleeper", "running");
    let text = wait_for("a measured disk", || {
        let text = String::from_utf8(home.client(&["status"]).stdout).expect("text");
        (text.contains("of 768.0 MiB") && text.contains("broken.yaml")).then_some(text)
    });
    for part in [
        "server    ok",
        "of 2.0 GiB",
        "9 days at most",
        "1 running",
        "sleeper",
        run["id"].as_str().expect("an id"),
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    let all = home.json(&["status", "--json"]);
    assert_eq!(
        (&all["health"]["status"], &all["health"]["disk"]["days_max"]),
        (&"ok".into(), &9.into()),
        "{all}"
    );
    assert_eq!(
        (all["runs"][0]["job"].as_str(), all["problems"][0]["file"].as_str()),
        (Some("sleeper"), Some("broken.yaml"))
    );
    server.kill();
}
