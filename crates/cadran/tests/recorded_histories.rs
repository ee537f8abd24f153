//! What earlier versions wrote: their record, journal, ledgers and job files, opened by this version.
//!
//! Each directory below `fixtures/recorded` was written by the version it is called after: a server that was killed while
//! runs were on, with `cargo test -p cadran --test recorded_histories -- --ignored record_this_version`. A release adds
//! its directory; none is ever changed.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use cadran_store::Store;
use serde_json::{Value, json};
use support::{Home, Server, cadran, wait_for};

/// Shared by the server and the worker of the recording. It opens nothing.
const EXECUTOR_TOKEN: &str = "recorded-history";

/// Steps that go on until the test lets them, in the working directory of the server.
const HOLD: &str = "while [ ! -e go ]; do sleep 0.05; done; echo over";

const JOBS: [(&str, &str); 7] = [
    ("good", "params: {who: world}\nrun: echo \"hello $who\"\n"),
    ("bad", "retry: {limit: 1, interval: 10ms}\nrun: exit 3\n"),
    (
        "flow",
        "steps:\n  - name: first\n    run: echo 7\n    output: SEVEN\n  - name: second\n    depends: first\n    \
         run: test \"$SEVEN\" = 7\nhandlers:\n  success: echo done\n",
    ),
    ("tick", "schedule: every 1s\nmisfire: skip\nrun: echo tick\n"),
    ("again", "run: 'HOLD'\n"),
    ("never", "retry: never\nrun: 'HOLD'\n"),
    ("remote", "executor: g\nretry: never\nrun: 'HOLD'\n"),
];

/// Runs that were on when the server was killed, and how they end now.
const OPEN: [(&str, &str); 3] = [("again", "succeeded"), ("never", "lost"), ("remote", "lost")];

fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/recorded")
}

fn serve(home: &Home) -> Server {
    home.serve_with(&[
        "--executor-token",
        EXECUTOR_TOKEN,
        "--executor-listen",
        "127.0.0.1:0",
        "--worker-lease-ms",
        "500",
    ])
}

/// What has to be found again: every ended run, by job.
fn ended(server: &Server) -> Value {
    let runs = |job: &str| -> Vec<Value> {
        let mut runs: Vec<Value> = ["succeeded", "failed"]
            .iter()
            .flat_map(|status| server.runs(job, status))
            .map(|run| json!({"id": run["id"], "status": run["status"], "due": run["due"]}))
            .collect();
        runs.sort_by_key(|run| run["id"].to_string());
        runs
    };
    JOBS.iter()
        .map(|(job, _)| ((*job).to_owned(), runs(job).into()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[test]
fn every_recorded_version_is_opened() {
    let versions = fs::read_dir(recorded()).expect("the recorded versions");
    let versions: Vec<PathBuf> = versions.map(|entry| entry.expect("an entry").path()).collect();
    assert!(!versions.is_empty());
    for version in versions {
        let home = Home::new();
        copy(&version.join("data"), &home.data());
        copy(&version.join("jobs"), &home.path("jobs"));
        let expected = fs::read_to_string(version.join("expected.json")).expect("what was there");
        let expected: Value = serde_json::from_str(&expected).expect("JSON");
        let server = serve(&home);
        fs::write(home.path("go"), "").expect("written");
        let (_, problems) = server.get("/api/v1/problems");
        assert_eq!(problems["problems"], json!([]), "{version:?}");
        for (job, runs) in expected["ended"].as_object().expect("by job") {
            let all = server.runs(job, "succeeded,failed");
            for run in runs.as_array().expect("runs") {
                let found = all.iter().find(|found| found["id"] == run["id"]);
                let found = found.unwrap_or_else(|| panic!("{version:?}: {job} has lost {run}"));
                assert_eq!((&found["status"], &found["due"]), (&run["status"], &run["due"]), "{version:?}");
            }
        }
        for (job, status) in OPEN {
            let id = expected["open"][job].as_str().expect("a run");
            let run = server.run_is(id, status);
            assert_eq!(run["job"], job, "{version:?}");
        }
        let (_, tick) = server.get("/api/v1/jobs/tick");
        assert_eq!(tick["state"], "paused", "{version:?}: {tick}");
        // It goes on with new runs, whose ids are later.
        let new = server.trigger("flow", "{}");
        server.run_is(&new, "succeeded");
        assert!(server.stop().success(), "{version:?}: {}", home.log());
    }
}

/// Writes the directory of this version. It is done once for each release.
#[test]
#[ignore = "writes into the repository"]
fn record_this_version() {
    let home = Home::new();
    for (name, text) in JOBS {
        // Kept by number: by age these runs would be gone in a month.
        home.job(name, &format!("history: {{count: 1000}}\n{}", text.replace("HOLD", HOLD)));
    }
    let server = serve(&home);
    let address = server.ready.rsplit("http://").next().expect("the address for executors").trim().to_owned();
    fs::write(home.path("token"), EXECUTOR_TOKEN).expect("written");
    let mut worker = cadran();
    worker.args(["worker", "--group", "g", "--server", &format!("http://{address}"), "--token-file"]);
    worker.arg(home.path("token")).arg("--data").arg(home.path("worker")).current_dir(home.path(""));
    let mut worker = worker.stdin(Stdio::null()).spawn().expect("the worker starts");
    server.run_with("tick", "succeeded");
    for (job, status) in [("good", "succeeded"), ("bad", "failed"), ("flow", "succeeded")] {
        let run = server.trigger(job, "{}");
        server.run_is(&run, status);
    }
    let (code, _) = server.post("/api/v1/jobs/tick/pause", "");
    assert!(code < 300);
    let open: Vec<(String, Value)> = OPEN
        .iter()
        .map(|(job, _)| {
            let run = server.trigger(job, "{}");
            server.run_is(&run, "running");
            ((*job).to_owned(), run.into())
        })
        .collect();
    wait_for("the last tick to end", || server.runs("tick", "running").is_empty().then_some(()));
    let expected =
        json!({"ended": ended(&server), "open": open.into_iter().collect::<serde_json::Map<_, _>>()});
    server.kill();
    worker.kill().expect("the worker is ours");
    worker.wait().expect("it ends");

    let version = recorded().join(env!("CARGO_PKG_VERSION"));
    let _ = fs::remove_dir_all(&version);
    // Without its write-ahead log, which is large, the database is a third of the size.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let url = format!("sqlite:{}", home.data().join("cadran.db").display());
        Store::open(&url).await.expect("a store").close().await;
    });
    for private in ["token", "lock", "server.json", "sessions.json", "exec/cgroup"] {
        let _ = fs::remove_file(home.data().join(private));
    }
    let _ = fs::remove_dir_all(home.data().join("logs"));
    copy(&home.data(), &version.join("data"));
    copy(&home.path("jobs"), &version.join("jobs"));
    let text = serde_json::to_string_pretty(&expected).expect("JSON") + "\n";
    fs::write(version.join("expected.json"), text).expect("written");
}

/// Copies a directory with all plain files in it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let kind = entry.file_type().expect("a type");
        if kind.is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()));
        } else if kind.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
        }
    }
}
