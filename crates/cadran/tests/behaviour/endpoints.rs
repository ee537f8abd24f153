//! Every endpoint of the API and every metric of the server itself.

use std::collections::BTreeMap;

use serde_json::Value;

use super::support::{Home, Server, wait_for};
use super::{touch, until};

fn good(server: &Server, path: &str) -> Value {
    let (code, body) = server.get(path);
    assert_eq!(code, 200, "{path}: {body}");
    body
}

fn len(value: &Value) -> usize {
    value.as_array().map_or(0, Vec::len)
}

// covers: endpoint GET /api/v1/{jobs,runs,history,problems,conflicts,executors,upcoming,forecast,openapi.json}
// covers: endpoint GET /api/v1/jobs/{name}
// covers: endpoint GET /api/v1/runs/{id}
// covers: endpoint GET /api/v1/runs/{id}/why
// covers: endpoint GET /api/v1/runs/{id}/logs
// covers: endpoint GET /api/v1/runs/{id}/logs/{step}
// covers: endpoint POST /api/v1/jobs/{name}/trigger
// covers: endpoint POST /api/v1/jobs/{name}/pause
// covers: endpoint POST /api/v1/jobs/{name}/resume
// covers: endpoint POST /api/v1/runs/{id}/stop
// covers: endpoint POST /api/v1/runs/{id}/retry
// covers: endpoint GET /{health,metrics}
// covers: key job.{name,description,labels,tags}
// covers: reason paused
#[test]
fn every_endpoint_answers_what_it_says() {
    let home = Home::new();
    home.job("file", "name: called\ndescription: what it is for\nlabels: {team: ops}\ntags: [night, tier=2]\nrun: echo said; test -e /nonexistent\n");
    home.job("beat", "schedule: every 1s\nrun: 'true'\n");
    home.job("long", &format!("footprint: {{writes: table:x}}\nrun: {}\n", until(&home, "go")));
    home.job("other", "footprint: {reads: table:x}\nrun: 'true'\n");
    home.job("wrong", "run: [\n");
    let server = home.serve();

    wait_for("all jobs", || (len(&good(&server, "/api/v1/jobs")["jobs"]) == 4).then_some(()));
    let job = good(&server, "/api/v1/jobs/called");
    assert_eq!(
        (&job["description"], &job["source"]),
        (&"what it is for".into(), &"file.yaml".into()),
        "{job}"
    );
    assert_eq!(job["labels"], serde_json::json!({"team": "ops", "night": "", "tier": "2"}), "{job}");
    let found = good(&server, "/api/v1/jobs?text=call");
    assert_eq!(len(&found["jobs"]), 1, "{found}");
    let problems = wait_for("the problem", || {
        Some(good(&server, "/api/v1/problems")).filter(|found| len(&found["problems"]) == 1)
    });
    assert_eq!(problems["problems"][0]["file"], "wrong.yaml", "{problems}");
    let conflicts = good(&server, "/api/v1/conflicts");
    assert_eq!(
        (&conflicts["conflicts"][0]["job"], &conflicts["conflicts"][0]["other"]),
        (&"long".into(), &"other".into())
    );
    assert_eq!(len(&good(&server, "/api/v1/executors")["groups"]), 0);
    assert!(len(&good(&server, "/api/v1/upcoming?limit=3")["upcoming"]) == 3);
    assert_eq!(len(&good(&server, "/api/v1/forecast?minutes=5")["runs"]), 5);
    let document = good(&server, "/api/v1/openapi.json");
    assert!(document["paths"]["/api/v1/runs/{id}/why"]["get"].is_object(), "{document}");

    let (code, answer) = server.post("/api/v1/jobs/called/trigger", "{}");
    assert!(code < 300, "{answer}");
    let failed = super::support::id_of(&answer);
    let run = server.run_is(&failed, "failed");
    assert_eq!(good(&server, &format!("/api/v1/runs/{failed}")), run);
    assert_eq!(good(&server, "/api/v1/runs?job=called")["runs"][0]["id"], failed.as_str());
    let logs = good(&server, &format!("/api/v1/runs/{failed}/logs"));
    assert_eq!(logs["logs"][0]["step"], "main", "{logs}");
    let log = good(&server, &format!("/api/v1/runs/{failed}/logs/main"));
    assert_eq!(log, Value::String("said\n".into()));
    assert!(server.post(&format!("/api/v1/runs/{failed}/retry"), "").0 < 300);
    wait_for("the second attempt", || (server.run_is(&failed, "failed")["attempt"] == 2).then_some(()));

    let long = server.trigger("long", "{}");
    server.run_is(&long, "running");
    let waiting = server.trigger("other", "{}");
    server.run_is(&waiting, "waiting");
    assert_eq!(good(&server, &format!("/api/v1/runs/{waiting}/why"))["waits_for"]["job"], "long");
    assert!(server.post(&format!("/api/v1/runs/{long}/stop"), "").0 < 300);
    server.run_is(&long, "stopped");
    server.run_is(&waiting, "succeeded");

    server.run_with("beat", "succeeded");
    assert!(server.post("/api/v1/jobs/beat/pause", "").0 < 300);
    assert_eq!(good(&server, "/api/v1/jobs/beat")["state"], "paused");
    wait_for("skips", || super::reasons(&server, "beat").contains(&"paused".to_owned()).then_some(()));
    assert!(server.post("/api/v1/jobs/beat/resume", "").0 < 300);
    assert!(len(&good(&server, "/api/v1/history?job=beat")["history"]) > 1);
    assert_eq!(good(&server, "/health")["status"], "ok");
    assert!(good(&server, "/metrics").as_str().is_some_and(|text| text.contains("cadran_jobs 4\n")));

    // Wrong on purpose: a name that nobody has, a field that nobody knows, a method, a path.
    for (method, path, body, code) in [
        ("GET", "/api/v1/jobs/nobody", None, 404),
        ("GET", "/api/v1/runs/0000000000000", None, 404),
        ("GET", "/api/v1/runs/nonsense", None, 400),
        ("GET", "/api/v1/runs?limt=3", None, 400),
        ("GET", "/api/v1/upcoming?limit=-1", None, 400),
        ("GET", &format!("/api/v1/runs/{failed}/logs/nobody"), None, 404),
        ("POST", "/api/v1/jobs/called/trigger", Some("{\"parms\":{}}"), 400),
        ("POST", "/api/v1/jobs/called/trigger", Some("{"), 400),
        ("DELETE", "/api/v1/jobs/called", None, 405),
        ("GET", "/api/v1/nothing", None, 404),
        ("POST", &format!("/api/v1/runs/{failed}/stop"), Some(""), 409),
    ] {
        let (got, answer) = server.request(method, path, body);
        assert_eq!(got, code, "{method} {path}: {answer}");
        assert!(answer["error"]["message"].is_string(), "{method} {path}: {answer}");
    }
    assert!(server.stop().success());
}

/// Metrics by name with labels.
fn metrics(server: &Server) -> BTreeMap<String, f64> {
    let text = good(server, "/metrics").as_str().expect("a text").to_owned();
    let line = |line: &str| {
        line.rsplit_once(' ').and_then(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(line).collect()
}

// covers: metric cadran_{jobs,ticks_total,tick_lag_seconds,lateness_seconds,batches_uncommitted}
// covers: metric cadran_runs_{promised_total,started_total,finished_total,running,waiting,waiting_for,expected}
// covers: metric cadran_{dues_skipped_total,stale_reports_total}
#[test]
fn metrics_count_what_happened() {
    let home = Home::new();
    home.job("beat", "schedule: every 1s\nrun: 'true'\n");
    home.job("long", &format!("overlap: wait\nrun: {}\n", until(&home, "go")));
    home.job("once", &format!("run: {}; exit 1\n", until(&home, "go")));
    let server = home.serve();
    for job in ["long", "once"] {
        let run = server.trigger(job, "{}");
        server.run_is(&run, "running");
    }
    let waits = server.trigger("long", "{}");
    server.run_is(&waits, "waiting");
    let skipped = server.trigger("once", "{}");
    server.run_is(&skipped, "skipped");
    server.run_with("beat", "succeeded");
    let is = |name: &str, holds: &dyn Fn(f64) -> bool| {
        wait_for(name, || metrics(&server).get(name).copied().filter(|value| holds(*value)).map(|_| ()));
    };
    is("cadran_jobs", &|value| value == 3.0);
    is("cadran_runs_running", &|value| value >= 2.0);
    is("cadran_runs_waiting", &|value| value == 1.0);
    is("cadran_runs_waiting_for{what=\"job\"}", &|value| value == 1.0);
    is("cadran_dues_skipped_total{reason=\"overlap\"}", &|value| value >= 1.0);
    is("cadran_ticks_total", &|value| value >= 2.0);
    is("cadran_tick_lag_seconds_count", &|value| value >= 1.0);
    is("cadran_lateness_seconds_count", &|value| value >= 1.0);
    is("cadran_runs_promised_total", &|value| value >= 4.0);
    is("cadran_runs_started_total", &|value| value >= 3.0);
    is("cadran_batches_uncommitted", &|value| value <= 1.0);
    is("cadran_stale_reports_total", &|value| value == 0.0);
    is("cadran_runs_expected{minute=\"1\"}", &|value| value == 60.0);
    touch(&home, "go");
    is("cadran_runs_finished_total{status=\"failed\"}", &|value| value == 1.0);
    is("cadran_runs_finished_total{status=\"succeeded\"}", &|value| value >= 3.0);
    is("cadran_runs_finished_total{status=\"skipped\"}", &|value| value >= 1.0);
    is("cadran_runs_waiting", &|value| value == 0.0);
    assert!(server.stop().success());
}
