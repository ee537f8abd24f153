//! Job files by the API: created, changed, removed, planned, compared; and commands on many jobs at once.

use std::fs;

use serde_json::{Value, json};

use super::support::{Home, Server, wait_for};

fn good(server: &Server, path: &str) -> Value {
    let (code, body) = server.get(path);
    assert_eq!(code, 200, "{path}: {body}");
    body
}

fn put(server: &Server, job: &str, text: &str, headers: &str) -> (u16, Value) {
    let body = json!({ "text": text }).to_string();
    server.request_with("PUT", &format!("/api/v1/jobs/{job}/definition"), Some(&body), headers)
}

const NEW: &str = "If-None-Match: *\r\n";

fn that(etag: &Value) -> String {
    format!("If-Match: {}\r\n", etag.as_str().expect("an etag"))
}

// covers: endpoint PUT /api/v1/jobs/{name}/definition
// covers: endpoint GET /api/v1/jobs/{name}/definition
// covers: endpoint DELETE /api/v1/jobs/{name}/definition
// covers: endpoint GET /api/v1/jobs/{name}/{revisions,diff}
#[test]
fn a_job_is_created_changed_and_removed_by_the_api() {
    let home = Home::new();
    let server = home.serve();
    let first = "schedule: '0 0 1 1 *'\nrun: echo one # kept as it is\n";
    let (code, made) = put(&server, "made", first, NEW);
    assert_eq!((code, &made["source"], &made["revision"]), (201, &json!("made.yaml"), &json!(1)), "{made}");
    assert_eq!(fs::read_to_string(home.path("jobs/made.yaml")).unwrap(), first);
    let run = server.trigger("made", "{}");
    server.run_is(&run, "succeeded");
    let shown = good(&server, "/api/v1/jobs/made/definition");
    assert_eq!(
        (&shown["text"], &shown["etag"], &shown["writable"]),
        (&json!(first), &made["etag"], &json!(true))
    );

    // Nobody overwrites what was not read.
    let second = "schedule: '0 0 1 1 *'\nrun: echo two\n";
    let (code, again) = put(&server, "made", second, NEW);
    assert_eq!((code, &again["error"]["code"]), (412, &json!("file_exists")), "{again}");
    for headers in ["", "If-Match: \"0\"\r\n"] {
        let (code, refused) = put(&server, "made", second, headers);
        assert_eq!(code, if headers.is_empty() { 428 } else { 412 }, "{refused}");
        assert!(refused["error"]["help"].is_string(), "{refused}");
    }
    let (code, bad) = put(&server, "made", "schedule: 99 * * * *\nrum: x\n", &that(&made["etag"]));
    assert_eq!((code, &bad["error"]["code"]), (422, &json!("bad_job_file")), "{bad}");
    assert_eq!(bad["error"]["problems"][0]["line"], 1, "{bad}");
    let (code, other) = put(&server, "made", "name: other\nrun: 'true'\n", &that(&made["etag"]));
    assert_eq!((code, &other["error"]["code"]), (422, &json!("other_name")), "{other}");
    assert_eq!(fs::read_to_string(home.path("jobs/made.yaml")).unwrap(), first);

    let (code, changed) = put(&server, "made", second, &that(&made["etag"]));
    assert_eq!((code, &changed["revision"]), (200, &json!(2)), "{changed}");
    let (code, stale) = put(&server, "made", first, &that(&made["etag"]));
    assert_eq!((code, &stale["error"]["code"]), (412, &json!("file_changed")), "{stale}");
    // An edit in an editor counts too.
    home.job("made", "run: echo three\n");
    assert_eq!(put(&server, "made", first, &that(&changed["etag"])).0, 412);
    let revisions = wait_for("the third revision", || {
        let found = good(&server, "/api/v1/jobs/made/revisions");
        (found["revision"] == 3).then_some(found)
    });
    assert!(revisions["revisions"].as_array().unwrap().contains(&json!(1)), "{revisions}");
    let diff = good(&server, "/api/v1/jobs/made/diff?from=1&to=3");
    let changes = diff["changes"].as_array().unwrap();
    assert!(
        changes.iter().any(|change| change["before"] == "echo one" && change["after"] == "echo three"),
        "{diff}"
    );
    assert_eq!(good(&server, "/api/v1/jobs/made/diff?from=3")["changes"], json!([]));
    assert_eq!(server.get("/api/v1/jobs/made/diff?from=9").0, 404);
    assert_eq!(server.get("/api/v1/jobs/made/diff").0, 400);
    assert_eq!(server.get("/api/v1/jobs/nobody/revisions").0, 404);

    let delete = |headers: &str| server.request_with("DELETE", "/api/v1/jobs/made/definition", None, headers);
    assert_eq!(delete("").0, 428);
    assert_eq!(delete(NEW).0, 428);
    assert_eq!(delete(&that(&changed["etag"])).0, 412);
    let etag = good(&server, "/api/v1/jobs/made/definition")["etag"].clone();
    assert_eq!(delete(&that(&etag)).0, 200);
    assert!(!home.path("jobs/made.yaml").exists());
    assert_eq!(good(&server, "/api/v1/jobs/made")["state"], "removed");
    assert_eq!(delete(&that(&etag)).0, 404);

    // Names are no paths, and some files are no jobs.
    for (job, code) in [("..%2f..%2fetc", 400), ("a%2fb", 400), ("resources", 409), ("executors", 409)] {
        let (got, answer) = put(&server, job, "run: 'true'\n", NEW);
        assert_eq!(got, code, "{job}: {answer}");
    }
    // Where a link leads out of the folder nothing is written.
    fs::create_dir(home.path("outside")).unwrap();
    fs::write(home.path("outside/linked.yaml"), "run: 'true'\n").unwrap();
    std::os::unix::fs::symlink(home.path("outside/linked.yaml"), home.path("jobs/linked.yaml")).unwrap();
    let text = fs::read_to_string(home.path("outside/linked.yaml")).unwrap();
    let (code, answer) = put(&server, "linked", "run: 'false'\n", NEW);
    assert_eq!((code, &answer["error"]["code"]), (409, &json!("not_a_job_file")), "{answer}");
    assert_eq!(fs::read_to_string(home.path("outside/linked.yaml")).unwrap(), text);
    assert!(server.stop().success());
}

// covers: option serve --read-only-jobs
#[test]
fn a_server_may_be_forbidden_to_change_job_files() {
    let home = Home::new();
    home.job("kept", "run: 'true'\n");
    let server = home.serve_with(&["--read-only-jobs"]);
    let shown = good(&server, "/api/v1/jobs/kept/definition");
    assert_eq!(shown["writable"], false);
    let (code, refused) = put(&server, "kept", "run: 'false'\n", &that(&shown["etag"]));
    assert_eq!((code, &refused["error"]["code"]), (403, &json!("read_only_jobs")), "{refused}");
    assert_eq!(put(&server, "fresh", "run: 'true'\n", NEW).0, 403);
    let etag = that(&shown["etag"]);
    assert_eq!(server.request_with("DELETE", "/api/v1/jobs/kept/definition", None, &etag).0, 403);
    assert!(home.path("jobs/kept.yaml").exists() && !home.path("jobs/fresh.yaml").exists());
    assert!(server.stop().success());
}

// covers: endpoint POST /api/v1/spec/{check,plan}
// covers: endpoint GET /api/v1/schedules/preview
// covers: endpoint GET /api/v1/jobs/{name}/why
#[test]
fn an_edit_is_planned_before_it_is_made() {
    let home = Home::new();
    home.job("etl", "schedule: '0 * * * *'\nfootprint: {writes: table:a}\nrun: 'true'\n");
    home.job("report", "footprint: {reads: table:a}\nrun: 'true'\n");
    home.job("export", "footprint: {reads: table:b}\nrun: 'true'\n");
    let server = home.serve();
    let plan = |name: &str, text: &str| {
        let (code, body) =
            server.post("/api/v1/spec/plan", &json!({ "name": name, "text": text }).to_string());
        assert_eq!(code, 200, "{body}");
        body
    };
    let edited = "schedule: '0,30 * * * *'\nfootprint: {writes: table:b}\nrun: 'false'\n";
    let planned = plan("etl", edited);
    assert_eq!((&planned["ok"], &planned["exists"]), (&json!(true), &json!(true)), "{planned}");
    let sum = |key: &str| planned[key].as_array().unwrap().iter().filter_map(Value::as_i64).sum::<i64>();
    assert_eq!((sum("hours_before"), sum("hours_after")), (24, 48), "{planned}");
    assert_eq!(planned["conflicts_gained"].as_array().unwrap().len(), 1, "{planned}");
    assert_eq!(planned["conflicts_gained"][0]["other"], "export");
    assert_eq!(planned["conflicts_lost"][0]["other"], "report");
    assert!(
        planned["changes"].as_array().unwrap().iter().any(|change| change["after"] == "false"),
        "{planned}"
    );
    assert_eq!(planned["dues_after"].as_array().unwrap().len(), 20);
    let fresh = plan("fresh", "run: 'true'\n");
    assert_eq!((&fresh["exists"], &fresh["conflicts_lost"]), (&json!(false), &json!([])), "{fresh}");
    let bad = plan("etl", "run: [\n");
    assert_eq!(bad["ok"], false);
    assert!(!bad["problems"].as_array().unwrap().is_empty(), "{bad}");
    // Nothing was kept.
    assert_eq!(good(&server, "/api/v1/jobs/etl")["revision"], 1);
    let (code, checked) = server.post("/api/v1/spec/check", &json!({ "text": edited }).to_string());
    assert_eq!((code, &checked["ok"]), (200, &json!(true)), "{checked}");
    let preview = good(&server, "/api/v1/schedules/preview?text=@daily&limit=2");
    assert_eq!(preview["dues"].as_array().unwrap().len(), 2);
    assert_eq!(good(&server, "/api/v1/jobs/etl/why?at=2099-01-01T00:00:00Z")["outcome"], "to_come");
    assert!(server.stop().success());
}

// covers: endpoint POST /api/v1/jobs:{pause,resume,trigger}
#[test]
fn many_jobs_are_commanded_at_once() {
    let home = Home::new();
    for name in ["a", "b", "c"] {
        home.job(name, &format!("schedule: '0 0 1 1 *'\nlabels: {{team: core, of: {name}}}\nrun: 'true'\n"));
    }
    home.job("other", "params: [{name: who, required: true}]\nrun: 'true'\n");
    let server = home.serve();
    let bulk = |path: &str, body: Value| {
        let (code, answer) = server.post(path, &body.to_string());
        assert_eq!(code, 200, "{answer}");
        answer
    };
    let results = |answer: &Value| -> Vec<String> {
        let results = answer["results"].as_array().unwrap().iter();
        results
            .map(|one| format!("{} {}", one["job"].as_str().unwrap(), one["result"].as_str().unwrap()))
            .collect()
    };
    let state = |job: &str| good(&server, &format!("/api/v1/jobs/{job}"))["state"].clone();

    let dry = bulk("/api/v1/jobs:pause", json!({ "filter": { "label": "team:core" }, "dry_run": true }));
    assert_eq!(
        (results(&dry), &dry["dry_run"]),
        (vec!["a would".into(), "b would".into(), "c would".into()], &json!(true))
    );
    assert_eq!(state("a"), "active");
    let done = bulk("/api/v1/jobs:pause", json!({ "names": ["b", "a", "b", "nobody"] }));
    assert_eq!(results(&done), ["a done", "b done", "nobody refused"], "{done}");
    assert_eq!(done["results"][2]["error"]["code"], "no_such_job");
    let rest = bulk("/api/v1/jobs:pause", json!({ "filter": { "label": "team:core" } }));
    assert_eq!(results(&rest), ["a already", "b already", "c done"]);
    let dry = bulk("/api/v1/jobs:resume", json!({ "filter": {}, "dry_run": true }));
    assert_eq!(results(&dry), ["a would", "b would", "c would", "other already"]);
    assert_eq!(
        results(&bulk("/api/v1/jobs:resume", json!({ "filter": { "state": "paused" } }))),
        ["a done", "b done", "c done"]
    );

    // The same key makes no second run of any of them.
    let body = json!({ "names": ["a", "b", "other"] }).to_string();
    let key = "Idempotency-Key: once-and-only\r\n";
    let (code, first) = server.request_with("POST", "/api/v1/jobs:trigger", Some(&body), key);
    assert_eq!(
        (code, results(&first)),
        (200, vec!["a done".into(), "b done".into(), "other refused".into()]),
        "{first}"
    );
    assert_eq!(first["results"][2]["error"]["code"], "bad_params");
    let (_, second) = server.request_with("POST", "/api/v1/jobs:trigger", Some(&body), key);
    assert_eq!(second["results"][0]["run"], first["results"][0]["run"], "{second}");
    assert_ne!(first["results"][0]["run"], first["results"][1]["run"]);
    assert_eq!(server.runs("a", "promised,waiting,running,succeeded").len(), 1);

    for (body, code) in [
        (json!({}), 422),
        (json!({ "names": ["a"], "filter": {} }), 422),
        (json!({ "names": ["a"], "params": { "x": "1" } }), 422),
        (json!({ "names": ["../a"] }), 400),
        (json!({ "filter": { "colour": "red" } }), 400),
        (json!({ "filter": { "state": "asleep" } }), 400),
    ] {
        let (got, answer) = server.post("/api/v1/jobs:pause", &body.to_string());
        assert_eq!((got, answer["error"]["message"].is_string()), (code, true), "{body}: {answer}");
    }
    assert!(server.stop().success());
}
