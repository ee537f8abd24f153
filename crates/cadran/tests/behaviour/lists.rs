//! Lists with their filters and orders, and what is made from them: dues, counts, waits, graphs.

use serde_json::{Value, json};

use super::support::{Home, Server, wait_for};
use super::{touch, until};

fn good(server: &Server, path: &str) -> Value {
    let (code, body) = server.get(path);
    assert_eq!(code, 200, "{path}: {body}");
    body
}

fn names(page: &Value) -> Vec<&str> {
    let jobs = page["jobs"].as_array().expect("a list");
    jobs.iter().filter_map(|job| job["name"].as_str()).collect()
}

fn ids(page: &Value) -> Vec<&str> {
    let runs = page["runs"].as_array().expect("a list");
    runs.iter().filter_map(|run| run["id"].as_str()).collect()
}

fn refused(server: &Server, path: &str) {
    let (code, body) = server.get(path);
    assert_eq!(code, 400, "{path}: {body}");
    assert!(body["error"]["message"].is_string() && body["error"]["help"].is_string(), "{path}: {body}");
}

// covers: endpoint GET /api/v1/jobs
#[test]
fn jobs_are_filtered_and_sorted_in_one_look() {
    let home = Home::new();
    home.job("yearly", "schedule: '0 0 1 1 *'\nlabels: {team: core, tier: '1'}\nrun: 'true'\n");
    home.job("daily", "schedule: '0 0 * * *'\nlabels: {team: ops}\nrun: exit 1\n");
    home.job("hand", "labels: {team: core}\nrun: 'true'\n");
    home.job("off", "enabled: false\nschedule: '0 0 * * *'\nrun: 'true'\n");
    home.job("warned", "schedule: '30 8-23/20 * * *'\nrun: 'true'\nchildren: nobody-of-this-name\n");
    let server = home.serve();
    let all = good(&server, "/api/v1/jobs?sort=name");
    assert_eq!(names(&all), ["daily", "hand", "off", "warned", "yearly"], "{all}");
    assert_eq!((&all["total"], all["as_of_ms"].is_i64()), (&json!(5), true));

    let by = |query: &str| good(&server, &format!("/api/v1/jobs?{query}"));
    assert_eq!(names(&by("label=team:core")), ["hand", "yearly"]);
    assert_eq!(names(&by("label=team,tier")), ["yearly"]);
    assert_eq!(names(&by("state=disabled")), ["off"]);
    assert_eq!(names(&by("text=DAIL")), ["daily"]);
    assert_eq!(names(&by("executor=local&text=han")), ["hand"]);
    assert_eq!(names(&by("executor=nobody")), [""; 0]);
    assert_eq!(names(&by("problem=true")), ["warned"]);
    let page = by("offset=1&limit=2");
    assert_eq!((names(&page), &page["total"]), (vec!["hand", "off"], &json!(5)));
    assert_eq!(names(&by("after=off")), ["warned", "yearly"]);

    // In the order of the next due; those without one come last, by name.
    let soonest = by("sort=next_due");
    let dues: Vec<i64> =
        soonest["jobs"].as_array().unwrap().iter().filter_map(|job| job["next_due_ms"].as_i64()).collect();
    assert!(dues.len() == 3 && dues.is_sorted(), "{soonest}");
    assert_eq!(names(&soonest)[3..], ["hand", "off"]);

    let good_run = server.trigger("hand", "{}");
    server.run_is(&good_run, "succeeded");
    let failed = server.trigger("daily", "{}");
    server.run_is(&failed, "failed");
    assert_eq!(names(&by("last=failed,lost")), ["daily"]);
    assert_eq!(names(&by("sort=last_end"))[..2], ["daily", "hand"]);
    assert_eq!(by("last=failed")["jobs"][0]["last_run"]["id"], failed.as_str());

    // What was answered is in the list.
    assert!(server.post("/api/v1/jobs/yearly/pause", "").0 < 300);
    assert_eq!(names(&by("state=paused")), ["yearly"]);
    assert!(names(&by("sort=next_due&state=paused")) == ["yearly"]);
    home.remove_job("off");
    wait_for("the removed job", || (names(&by("state=removed")) == ["off"]).then_some(()));
    assert_eq!(names(&by("removed=true")).len(), 5);

    for query in
        ["sort=age", "state=asleep", "last=good", "label=:x", "limit=0", "offset=-1", "problem=maybe"]
    {
        let (code, body) = server.get(&format!("/api/v1/jobs?{query}"));
        assert_eq!((code, body["error"]["message"].is_string()), (400, true), "{query}: {body}");
    }
    assert!(server.stop().success());

    // A second server makes the lists from the record.
    let server = home.serve();
    let page = good(&server, "/api/v1/jobs?last=failed,succeeded&sort=last_end");
    assert_eq!(names(&page), ["daily", "hand"], "{page}");
    assert_eq!(names(&good(&server, "/api/v1/jobs?state=paused")), ["yearly"]);
    assert!(server.stop().success());
}

// covers: endpoint GET /api/v1/{runs,history,skips,dues,stats,forecast}
#[test]
fn runs_and_dues_are_found_by_what_became_of_them() {
    let home = Home::new();
    home.job("beat", "schedule: every 1s\nlabels: {team: core}\nrun: 'true'\n");
    home.job("slow", "params: {who: you}\nrun: sleep 0.3\n");
    let server = home.serve();
    let slow = server.trigger("slow", r#"{"params": {"who": "me"}}"#);
    server.run_is(&slow, "succeeded");
    server.run_with("beat", "succeeded");
    let runs = |query: &str| good(&server, &format!("/api/v1/runs?{query}"));
    assert_eq!(ids(&runs("trigger=manual")), [slow.as_str()]);
    assert_eq!(ids(&runs("param=who:me&status=succeeded")), [slow.as_str()]);
    assert_eq!(ids(&runs("param=who:you")), [""; 0]);
    assert_eq!(ids(&runs("duration_over=250ms&job=slow")), [slow.as_str()]);
    assert_eq!(ids(&runs("duration_over=1h")), [""; 0]);
    assert_eq!(ids(&runs("late_over=1h")), [""; 0]);
    assert_eq!(ids(&runs("job=nobody")), [""; 0]);
    assert!(
        runs("label=team:core&executor=local")["runs"]
            .as_array()
            .is_some_and(|runs| !runs.is_empty() && runs.iter().all(|run| run["job"] == "beat"))
    );

    assert!(server.post("/api/v1/jobs/beat/pause", "").0 < 300);
    // Runs that were promised before the pause are skipped by themselves, later dues as a stretch that is counted at its end.
    let now = || good(&server, "/api/v1/jobs?limit=1")["as_of_ms"].as_i64().unwrap();
    let paused_at = now();
    wait_for("dues beyond the pre-read", || (now() > paused_at + 8_000).then_some(()));
    assert!(server.post("/api/v1/jobs/beat/resume", "").0 < 300);
    wait_for("skips", || {
        let skips = good(&server, "/api/v1/skips?job=beat&reason=paused");
        skips["skips"].as_array().is_some_and(|skips| !skips.is_empty()).then_some(())
    });
    let history = good(&server, "/api/v1/history?job=beat&reason=paused");
    let is_paused = |item: &Value| item["reason"] == "paused" || item["skip_reason"] == "paused";
    assert!(history["history"].as_array().is_some_and(|items| items.iter().all(is_paused)), "{history}");
    let first = good(&server, "/api/v1/skips?reason=paused")["skips"][0].clone();
    let (from, to) = (first["first_due_ms"].as_i64().unwrap(), first["last_due_ms"].as_i64().unwrap());
    assert_eq!(good(&server, &format!("/api/v1/skips?to={from}&reason=paused"))["skips"], json!([]));
    assert_eq!(good(&server, &format!("/api/v1/history?reason=overlap&from={from}"))["history"], json!([]));

    // Every second is there once, whatever became of it.
    let start =
        runs("job=beat&limit=1000")["runs"].as_array().unwrap().last().unwrap()["due_ms"].as_i64().unwrap();
    let dues = good(&server, &format!("/api/v1/dues?job=beat&from={start}&to={}&limit=1000", to + 1));
    let found: Vec<i64> =
        dues["dues"].as_array().unwrap().iter().map(|due| due["due_ms"].as_i64().unwrap()).collect();
    let expected: Vec<i64> = (0..).map(|no| start + no * 1_000).take_while(|due| *due <= to).collect();
    assert_eq!(found, expected, "{dues}");
    let outcomes: Vec<&str> =
        dues["dues"].as_array().unwrap().iter().filter_map(|due| due["outcome"].as_str()).collect();
    assert!(outcomes.contains(&"run") && outcomes.contains(&"skip"), "{dues}");
    let second = good(&server, &format!("/api/v1/dues?job=beat&from={start}&to={}&limit=1&offset=1", to + 1));
    assert_eq!((&second["dues"][0], &second["next_offset"]), (&dues["dues"][1], &json!(2)));
    let ahead = wait_for("dues to come", || {
        let ahead = good(&server, "/api/v1/dues?job=beat");
        Some(ahead).filter(|ahead| ahead["next_offset"].is_i64())
    });
    assert!(ahead["recorded"].as_i64() > Some(0), "{ahead}");
    let far = good(&server, "/api/v1/dues?job=beat&from=2099-01-01T00:00:00Z&to=2099-01-01T00:00:03Z");
    assert_eq!(far["dues"].as_array().unwrap().len(), 3, "{far}");
    assert!(far["dues"].as_array().unwrap().iter().all(|due| due["outcome"] == "to_come"));

    let week = good(&server, "/api/v1/forecast?minutes=10080&step=1h");
    let hours: Vec<i64> = week["runs"].as_array().unwrap().iter().filter_map(Value::as_i64).collect();
    assert_eq!((hours.len(), hours.iter().sum::<i64>()), (168, 7 * 86_400), "a run each second of a week");

    let stats = good(&server, "/api/v1/stats?job=beat&step=1h");
    let skipped = stats["all"]["reasons"]["paused"].as_i64();
    assert!(stats["all"]["statuses"]["succeeded"].as_i64() > Some(0) && skipped > Some(0), "{stats}");
    let buckets = stats["lateness_bounds_ms"].as_array().unwrap().len() + 1;
    assert_eq!(stats["all"]["lateness"].as_array().unwrap().len(), buckets);
    let manual = good(&server, "/api/v1/stats?job=slow");
    let took: i64 = manual["all"]["durations"].as_array().unwrap().iter().filter_map(Value::as_i64).sum();
    assert_eq!((&manual["all"]["statuses"], took), (&json!({"succeeded": 1}), 1));

    for path in [
        "/api/v1/runs?trigger=whim",
        "/api/v1/runs?late_over=long",
        "/api/v1/runs?param=who",
        "/api/v1/runs?reason=none",
        "/api/v1/history?reason=none",
        "/api/v1/skips?from=then",
        "/api/v1/dues?offset=10001",
        "/api/v1/dues?from=2&to=1",
        "/api/v1/stats?step=0",
        "/api/v1/stats?step=1ms",
        "/api/v1/stats?from=2&to=1",
    ] {
        refused(&server, path);
    }
    assert_eq!(server.get("/api/v1/dues?job=nobody").0, 404);
    assert_eq!(server.get("/api/v1/stats?job=nobody").0, 404);
    assert!(server.stop().success());
}

// covers: endpoint GET /api/v1/{waits,conflicts}
// covers: endpoint GET /api/v1/jobs/{name}/graph
#[test]
fn who_waits_for_whom_and_how_steps_stand() {
    let home = Home::new();
    home.job("long", &format!("footprint: {{writes: table:x}}\nrun: {}\n", until(&home, "go")));
    home.job("other", "footprint: {reads: table:x}\nrun: 'true'\n");
    home.job("third", "footprint: {reads: table:x}\nrun: 'true'\n");
    home.job(
        "flow",
        "steps:\n  - {name: a, run: 'true'}\n  - {name: b, run: 'true'}\n  - {name: of-b, depends: b, run: 'true'}\n  \
         - {name: of-a, depends: a, run: 'true'}\n  - {name: end, depends: [of-a, of-b], run: 'true'}\n",
    );
    let server = home.serve();
    let long = server.trigger("long", "{}");
    server.run_is(&long, "running");
    assert_eq!(good(&server, "/api/v1/waits")["waits"], json!([]));
    let waiting = server.trigger("other", "{}");
    server.run_is(&waiting, "waiting");
    let waits = good(&server, "/api/v1/waits");
    let row = &waits["waits"][0];
    assert_eq!((&row["run"], &row["waits_for"]["run"]), (&json!(waiting), &json!(long)), "{waits}");
    assert_eq!((&row["waits_for"]["key"], &waits["cut"]), (&json!("table:x"), &json!(false)));
    touch(&home, "go");
    server.run_is(&waiting, "succeeded");
    assert_eq!(good(&server, "/api/v1/waits")["waits"], json!([]));

    let conflicts = good(&server, "/api/v1/conflicts");
    assert_eq!(conflicts["total"], 2, "{conflicts}");
    let of_third = good(&server, "/api/v1/conflicts?job=third");
    assert_eq!((&of_third["total"], &of_third["conflicts"][0]["job"]), (&json!(1), &json!("long")));
    let second = good(&server, "/api/v1/conflicts?offset=1&limit=1");
    assert_eq!(second["conflicts"][0], conflicts["conflicts"][1]);
    // A job that comes later is compared too.
    home.job("fourth", "footprint: {writes: table:x}\nrun: 'true'\n");
    wait_for("more conflicts", || (good(&server, "/api/v1/conflicts")["total"] == 5).then_some(()));

    let graph = good(&server, "/api/v1/jobs/flow/graph");
    let places: Vec<(&str, i64, i64)> = graph["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| {
            let number = |key: &str| node[key].as_i64().unwrap();
            (node["name"].as_str().unwrap(), number("rank"), number("order"))
        })
        .collect();
    // Edges do not cross: `of-a` stands below `a`.
    assert_eq!(places, [("a", 0, 0), ("b", 0, 1), ("of-b", 1, 1), ("of-a", 1, 0), ("end", 2, 0)]);
    assert_eq!((&graph["ranks"], &graph["width"]), (&json!(3), &json!(2)));
    assert_eq!(graph["edges"].as_array().unwrap().len(), 4);
    assert_eq!(server.get("/api/v1/jobs/flow/graph?revision=99").0, 404);
    assert_eq!(server.get("/api/v1/jobs/nobody/graph").0, 404);
    assert!(server.stop().success());
}
