use crate::bench::{Bench, WAITING, run, step, update};
use cadran_core::{RunStatus, StepStatus};
use cadran_http::Health;
use serde_json::{Value, json};

fn ids(list: &Value) -> Vec<u64> {
    let id = |item: &Value| item["id"].as_str().unwrap().parse::<cadran_core::RunId>().unwrap().raw();
    list.as_array().unwrap().iter().map(id).collect()
}

#[tokio::test]
async fn runs_are_listed_filtered_and_paged() {
    let bench = Bench::new().await;
    let mut wire = bench.wire();
    let rows: [(&str, &[u64], Option<u64>); 11] = [
        ("", &[40, 30, 20, 10], None),
        ("?job=nightly", &[40, 30, 20, 10], None),
        ("?job=paused", &[], None),
        ("?job=unknown", &[], None),
        ("?status=failed", &[20], None),
        ("?status=failed,running", &[40, 20], None),
        ("?limit=2", &[40, 30], Some(30)),
        ("?limit=2&before=000000000000y", &[20, 10], Some(10)),
        ("?limit=2&before=000000000000a", &[], None),
        ("?from=1794780000020&to=1794780000040", &[30, 20], None),
        ("?from=2026-11-15T23:00:00.030+01:00", &[40, 30], None),
    ];
    for (query, expected, next) in rows {
        let answer = wire.get(&format!("/api/v1/runs{query}")).await.json();
        assert_eq!(ids(&answer["runs"]), expected, "{query}");
        assert_eq!(answer["next"], json!(next.map(|no| run(no).to_string())), "{query}");
    }
}

#[tokio::test]
async fn a_run_is_shown_with_its_steps_and_explained() {
    let bench = Bench::new().await;
    let mut wire = bench.wire();
    let shown = wire.get("/api/v1/runs/000000000000a").await.json();
    assert_eq!(
        shown,
        json!({
            "id": "000000000000a", "job": "nightly", "status": "succeeded", "ended": true, "trigger": "schedule",
            "due": "2026-11-15T22:00:00.010Z", "due_ms": 1_794_780_000_010_i64,
            "promised_at": "2026-11-15T21:59:55.000Z", "promised_at_ms": 1_794_779_995_000_i64,
            "started_at": "2026-11-15T22:00:00.025Z", "started_at_ms": 1_794_780_000_025_i64,
            "ended_at": "2026-11-15T22:00:02.025Z", "ended_at_ms": 1_794_780_002_025_i64,
            "duration_ms": 2000, "late_ms": 15, "attempt": 1, "revision": 3,
            "explanation": "every step that had to succeed did",
            "steps": [{
                "name": "build", "status": "succeeded", "attempt": 1, "lost": 0,
                "started_at": "2026-11-15T22:00:00.000Z", "started_at_ms": 1_794_780_000_000_i64,
                "ended_at": "2026-11-15T22:00:01.500Z", "ended_at_ms": 1_794_780_001_500_i64,
                "duration_ms": 1500, "exit_code": 0,
            }],
            "children": [{
                "id": "0000000000018", "job": "nightly", "status": "running",
                "link": "/api/v1/runs/0000000000018",
            }],
        })
    );
    let explained = [
        ("000000000000m", "failed", "step build exited with code 2"),
        ("000000000000y", "skipped", "the job was still active, and overlap is skip"),
        ("0000000000018", "running", "it is running"),
    ];
    for (id, status, explanation) in explained {
        let shown = wire.get(&format!("/api/v1/runs/{id}")).await.json();
        assert_eq!((&shown["status"], &shown["explanation"]), (&json!(status), &json!(explanation)), "{id}");
    }
    let manual = wire.get("/api/v1/runs/0000000000018").await.json();
    assert_eq!((&manual["params"], &manual["parent"]), (&json!({ "who": "me" }), &json!("000000000000a")));
}

#[tokio::test]
async fn history_merges_runs_and_skips() {
    let bench = Bench::new().await;
    let mut wire = bench.wire();
    let rows: [(&str, &[u64], Option<u64>); 4] = [
        ("", &[40, 30, 25, 20, 10], None),
        ("?job=nightly&limit=3", &[40, 30, 25], Some(25)),
        ("?job=nightly&limit=3&before=000000000000s", &[20, 10], None),
        ("?job=paused", &[], None),
    ];
    for (query, expected, next) in rows {
        let answer = wire.get(&format!("/api/v1/history{query}")).await.json();
        assert_eq!(ids(&answer["history"]), expected, "{query}");
        // A full page may be the last one: then the page after it is empty.
        assert_eq!(answer["next"], json!(next.map(|no| run(no).to_string())), "{query}");
    }
    let skips = wire.get("/api/v1/skips?job=nightly").await.json();
    assert_eq!(
        skips,
        json!({ "next": null, "skips": [{
            "id": run(25).to_string(), "job": "nightly", "count": 5, "reason": "superseded",
            "explanation": "superseded: a newer due of the job runs in its place",
            "first_due": "2026-11-15T21:55:00.000Z", "first_due_ms": 1_794_779_700_000_i64,
            "last_due": "2026-11-15T21:59:00.000Z", "last_due_ms": 1_794_779_940_000_i64,
            "at": "2026-11-15T22:00:00.000Z", "at_ms": 1_794_780_000_000_i64,
        }] })
    );
    let kinds = wire.get("/api/v1/history?limit=4").await.json();
    let kinds: Vec<_> =
        kinds["history"].as_array().unwrap().iter().map(|item| item["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["run", "run", "skip", "run"]);
}

#[tokio::test]
async fn jobs_are_listed_and_shown() {
    let bench = Bench::new().await;
    let mut wire = bench.wire();
    let rows: [(&str, &[(&str, &str)], Option<&str>); 6] = [
        ("", &[("nightly", "active"), ("paused", "paused")], None),
        ("?removed=true", &[("gone", "removed"), ("nightly", "active"), ("paused", "paused")], None),
        ("?text=NIGHT", &[("nightly", "active")], None),
        ("?text=nothing", &[], None),
        ("?limit=1", &[("nightly", "active")], Some("nightly")),
        ("?limit=5&after=nightly", &[("paused", "paused")], None),
    ];
    for (query, expected, next) in rows {
        let answer = wire.get(&format!("/api/v1/jobs{query}")).await.json();
        let jobs: Vec<_> = answer["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|job| (job["name"].as_str().unwrap(), job["state"].as_str().unwrap()))
            .collect();
        assert_eq!(jobs, expected, "{query}");
        assert_eq!(answer["next"], json!(next), "{query}");
    }
    let shown = wire.get("/api/v1/jobs/nightly").await.json();
    assert_eq!(shown["next_due"], "2026-11-15T22:01:00.000Z");
    assert_eq!(shown["next_dues_ms"].as_array().unwrap().len(), 10);
    assert_eq!(shown["watermark"], "2026-11-15T21:59:59.000Z");
    assert_eq!(shown["last_run"]["id"], run(40).to_string());
    assert_eq!(shown["problems"][0]["line"], 3);
    assert_eq!(shown["description"], "Builds and ships.");
    assert_eq!(shown["labels"], json!({ "team": "core" }));
    assert_eq!(shown["schedules"][0]["text"], "30 2 * * *");
    assert_eq!(shown["schedules"][0]["timezone"], "Europe/Paris");
    assert_eq!(shown["schedules"][0]["action"], "start");
    assert_eq!(
        shown["steps"][1],
        json!({ "name": "ship it", "kind": "program", "depends": ["build"], "retries": 0 })
    );
    assert_eq!(shown["params"], json!([{ "name": "who", "default": "you", "required": false }]));
    assert_eq!(shown["policy"]["overlap"], "skip");
    assert!(!shown.to_string().contains("hunter2"), "values of the environment may be secrets");
    let shown = wire.get("/api/v1/jobs/paused").await.json();
    assert_eq!((&shown["paused_at_ms"], &shown["problems"]), (&json!(1_794_779_940_000_i64), &json!([])));
}

#[tokio::test]
async fn what_comes_is_listed() {
    let bench = Bench::new().await;
    let mut wire = bench.wire();
    let upcoming = wire.get("/api/v1/upcoming?limit=2").await.json();
    assert_eq!(
        upcoming,
        json!({
            "from": "2026-11-15T22:00:00.000Z", "from_ms": 1_794_780_000_000_i64,
            "to": "2026-11-16T22:00:00.000Z", "to_ms": 1_794_866_400_000_i64,
            "upcoming": [
                { "due": "2026-11-15T22:01:00.000Z", "due_ms": 1_794_780_060_000_i64, "job": "nightly" },
                { "due": "2026-11-15T22:02:00.000Z", "due_ms": 1_794_780_120_000_i64, "job": "nightly" },
            ],
        })
    );
    let one = wire.get("/api/v1/upcoming?from=0&to=60000").await.json();
    assert_eq!(one["upcoming"].as_array().unwrap().len(), 1);
    assert_eq!(wire.get("/api/v1/upcoming?job=paused").await.json()["upcoming"], json!([]));
    let forecast = wire.get("/api/v1/forecast?minutes=3&from=0").await.json();
    assert_eq!(
        forecast,
        json!({ "from": "1970-01-01T00:00:00.000Z", "from_ms": 0, "step_ms": 60_000, "runs": [1, 1, 1] })
    );
    assert_eq!(wire.get("/metrics").await.text(), "cadran_ticks_total 1\n");
    let problems = wire.get("/api/v1/problems").await.json();
    assert_eq!(problems["problems"][0]["help"], "did you mean `schedule`?");
}

#[tokio::test]
async fn health_says_how_it_is() {
    let bench = Bench::new().await;
    let mut wire = bench.wire();
    wire.token = None;
    let well = bench.server.health.lock().unwrap().clone();
    let rows = [
        (well.clone(), "ok", [200, 200, 200]),
        (Health { loop_ok: false, ready: false, ..well.clone() }, "loop_stalled", [503, 503, 503]),
        (Health { store_ok: false, ready: false, ..well.clone() }, "store_down", [503, 200, 503]),
        (Health { executor_ok: false, ready: false, ..well.clone() }, "executor_stalled", [503, 200, 503]),
        (Health { stopping: true, ready: false, ..well }, "stopping", [503, 200, 503]),
    ];
    for (health, word, statuses) in rows {
        let (ready, store_ok) = (health.ready, health.store_ok);
        *bench.server.health.lock().unwrap() = health;
        for (path, status) in ["/health", "/health/live", "/health/ready"].iter().zip(statuses) {
            let answer = wire.get(path).await;
            assert_eq!(answer.status, status, "{path} {word}");
            let mut shown = answer.json();
            let disk = shown.as_object_mut().and_then(|shown| shown.remove("disk")).unwrap();
            assert_eq!((&disk["log_bytes_max"], &disk["measured_at_ms"]), (&json!(0), &json!(null)));
            assert_eq!(
                shown,
                json!({
                    "status": word, "ready": ready, "store_ok": store_ok, "version": "1.2.3", "uptime_ms": 42,
                    "loop_age_ms": 7, "store_age_ms": 8, "batch_age_ms": 9, "executor_age_ms": null,
                })
            );
        }
    }
}

#[tokio::test]
async fn waiting_for_a_run_ends_with_its_change() {
    let bench = Bench::new().await;
    let mut wire = bench.wire();
    let ended = wire.get("/api/v1/runs/000000000000a?wait_ms=20000").await.json();
    assert_eq!(ended["status"], "succeeded", "an ended run is answered at once");
    let waiting =
        tokio::spawn(async move { wire.get("/api/v1/runs/0000000000018?wait_ms=20000").await.json() });
    // The named moment: the endpoint listens.
    while bench.server.events.runs().receiver_count() == 0 {
        tokio::task::yield_now().await;
    }
    bench.change(update(20, RunStatus::Failed, vec![])).await;
    bench.change(update(40, RunStatus::Succeeded, vec![step("build", StepStatus::Succeeded, 1)])).await;
    assert_eq!(waiting.await.unwrap()["status"], "succeeded");
}

#[tokio::test]
async fn the_last_run_of_a_job_is_one_that_began() {
    let bench = Bench::new().await;
    bench.promise(50).await;
    let mut wire = bench.wire();
    let listed = wire.get("/api/v1/jobs").await.json();
    assert_eq!(listed["jobs"][0]["last_run"]["id"], run(40).to_string(), "run 50 is still to come");
    let shown = wire.get("/api/v1/jobs/nightly").await.json();
    assert_eq!(shown["last_run"]["id"], run(40).to_string());
}

#[tokio::test]
async fn who_waits_says_for_what() {
    let bench = Bench::new().await;
    let mut wire = bench.wire();
    bench.promise(WAITING).await;
    let waiting = update(WAITING, RunStatus::Waiting, Vec::new());
    bench
        .change(cadran_core::RunUpdate { started_at: None, message: Some("as it was".into()), ..waiting })
        .await;
    let sentence = "waiting for write of table:orders held by run 0000000000009 of job etl";
    let why = wire.get(&format!("/api/v1/runs/{}/why", run(WAITING))).await.json();
    assert_eq!(
        why,
        json!({
            "run": "000000000001j", "job": "nightly", "trigger": "schedule", "status": "waiting",
            "explanation": sentence,
            "since": "2026-11-15T22:00:00.000Z", "since_ms": 1_794_780_000_000_i64,
            "waits_for": {
                "kind": "key", "key": "table:orders", "wanted": "write", "run": "0000000000009", "job": "etl",
                "since": "2026-11-15T21:59:59.000Z", "since_ms": 1_794_779_999_000_i64,
                "in_line": false, "before": 2, "ticket": true, "tries": 4,
            },
        })
    );
    // The list says the same, not what was recorded when the wait began.
    let listed = wire.get("/api/v1/runs?status=waiting").await.json();
    assert_eq!(listed["runs"][0]["explanation"], sentence);
    let over = wire.get("/api/v1/runs/000000000000m/why").await.json();
    assert_eq!(over["explanation"], "step build exited with code 2");
    assert_eq!(wire.get("/api/v1/runs/0000000000zzz/why").await.status, 404);
    let conflicts = wire.get("/api/v1/conflicts").await.json();
    assert_eq!(
        conflicts,
        json!({"total": 1, "cut": false, "conflicts": [{
            "job": "etl", "other": "report", "touches": "write of table:orders",
            "other_touches": "read of table:orders", "by_params": false,
        }]})
    );
}
