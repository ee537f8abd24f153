//! Jobs on executors elsewhere: the built binary, and stub executors on loopback.
#![allow(unreachable_pub)] // every test file is a crate of its own

#[path = "../support/mod.rs"]
mod support;

mod bad;
mod children;
mod clients;
mod covered;
mod crew;
mod dialects;
mod following;
mod import;
mod lost;
mod shares;
mod stub;
mod two_servers;
mod unanswered;
mod ways;
mod workers;
mod written;

use std::net::TcpListener;

use serde_json::{Value, json};
use stub::{Stub, TOKEN, call, raw_call};
use support::{Home, Server, wait_for};

/// A server that hears executors, and looks after what is out twice a second.
fn serve(home: &Home, door: &str) -> Server {
    let args = ["--executor-token", TOKEN, "--executor-listen", door, "--executor-look-ms", "200"];
    home.serve_with(&args)
}

/// Where the server hears executors.
fn door(server: &Server) -> String {
    let line = server.ready.trim();
    line.rsplit("executors on http://").next().expect("a door").to_owned()
}

fn job(handler: &str, more: &str) -> String {
    format!("executor: g\nhandler: {handler}\n{more}")
}

/// Triggers a job and waits for the end of its run.
fn run(server: &Server, name: &str) -> Value {
    let id = trigger(server, name);
    ended(server, &id)
}

/// Waits until a job is in force, and triggers it.
fn trigger(server: &Server, name: &str) -> String {
    wait_for("the job to be in force", || {
        (server.get(&format!("/api/v1/jobs/{name}")).0 == 200).then_some(())
    });
    server.trigger(name, "")
}

fn show(server: &Server, run: &str) -> Value {
    server.get(&format!("/api/v1/runs/{run}")).1
}

fn ended(server: &Server, run: &str) -> Value {
    wait_for("the run to end", || Some(show(server, run)).filter(|found| found["ended"] == true))
}

#[test]
fn orders_results_and_logs() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let one = Stub::new(&door(&server));
    one.register("g");
    for (name, more) in [
        ("quick", "params: a b\ntimeout: 90s\nblock: cover\n"),
        ("fail", ""),
        ("refuse", ""),
        ("garbage", ""),
    ] {
        home.job(name, &job(name, more));
    }
    let done = run(&server, "quick");
    assert_eq!(done["status"], "succeeded", "{done}");
    let step = &done["steps"][0];
    assert_eq!(step["executors"][0]["address"], one.address.as_str(), "{done}");
    assert_eq!(step["executors"][0]["status"], "succeeded");

    let order = &one.calls("run")[0];
    let mut members: Vec<&String> = order.as_object().expect("an object").keys().collect();
    members.sort();
    let expected = [
        "broadcastIndex",
        "broadcastTotal",
        "executorBlockStrategy",
        "executorHandler",
        "executorParams",
        "executorTimeout",
        "glueSource",
        "glueType",
        "glueUpdatetime",
        "jobId",
        "logDateTime",
        "logId",
    ];
    assert_eq!(members, expected, "exactly these twelve");
    assert_eq!((&order["executorParams"], &order["executorTimeout"]), (&json!("a b"), &json!(90)));
    assert_eq!(
        (&order["executorBlockStrategy"], &order["glueType"]),
        (&json!("COVER_EARLY"), &json!("BEAN"))
    );
    assert!(order["logId"].as_u64().is_some_and(|log| log < 1 << 53));
    assert!(order["jobId"].as_u64().is_some_and(|job| job > 0 && job <= i32::MAX as u64));
    assert_eq!(one.headers("run").get("xxl-job-access-token").map(String::as_str), Some(TOKEN));

    let log = home.client(&["logs", done["id"].as_str().expect("an id")]);
    let text = String::from_utf8_lossy(&log.stdout).into_owned();
    assert!(text.contains("line 1 of") && text.matches("line 3 of").count() == 1, "{text}");

    for (name, says) in [("fail", "it went wrong"), ("refuse", "no such handler"), ("garbage", "has no code")]
    {
        let done = run(&server, name);
        assert_eq!(done["status"], "failed", "{done}");
        let message = done["steps"][0]["message"].as_str().unwrap_or_default();
        assert!(message.contains(says), "{name}: {message}");
    }
    let shown = home.json(&["executors", "--json"]);
    assert_eq!(shown["groups"][0]["executors"][0]["address"], one.address.as_str(), "{shown}");

    // A result that comes again, late, or for nobody, is taken and changes nothing.
    let log = &one.calls("run")[0]["logId"];
    assert_eq!(one.report(log, 500, "again")["code"], 200);
    assert_eq!(one.report(&json!(12345), 200, "whose?")["code"], 200);
    assert_eq!(show(&server, done["id"].as_str().expect("an id"))["status"], "succeeded");
    assert!(server.stop().success());
}

#[test]
fn routes_that_ask_first() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let mut stubs: Vec<Stub> = (0..2).map(|_| Stub::new(&door(&server))).collect();
    stubs.sort_by(|a, b| a.address.cmp(&b.address));
    stubs.iter().for_each(|stub| stub.register("g"));
    home.job("failover", &job("quick", "route: failover\n"));
    home.job("busyover", &job("quick", "route: busyover\n"));
    stubs[0].say_busy(Some(true));
    let done = run(&server, "busyover");
    assert_eq!(done["steps"][0]["executors"][0]["address"], stubs[1].address.as_str(), "{done}");
    stubs[1].say_busy(Some(true));
    let done = run(&server, "busyover");
    assert_eq!(done["status"], "failed", "{done}");
    assert!(done["steps"][0]["message"].as_str().is_some_and(|text| text.contains("is idle")), "{done}");
    stubs[0].vanish();
    let done = run(&server, "failover");
    assert_eq!(done["steps"][0]["executors"][0]["address"], stubs[1].address.as_str(), "{done}");
}

#[test]
fn a_stop_kills_and_closes_the_run() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let stub = Stub::new(&door(&server));
    stub.register("g");
    home.job("hold", &job("hold", ""));
    let id = trigger(&server, "hold");
    stub.wait("run", 1);
    assert!(home.client(&["stop", &id]).status.success());
    let done = ended(&server, &id);
    // The stub reports the killed run as a success before it answers the kill: the stop was noted before.
    assert_eq!(done["status"], "stopped", "{done}");
    assert_eq!(done["steps"][0]["status"], "stopped", "{done}");
    assert_eq!(stub.wait("kill", 1)[0]["jobId"], stub.calls("run")[0]["jobId"]);
}

#[test]
fn what_is_out_outlives_the_server() {
    let home = Home::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let door = listener.local_addr().expect("an address").to_string();
    drop(listener);
    let server = serve(&home, &door);
    let stub = Stub::new(&door);
    stub.register("g");
    home.job("hold", &job("hold", ""));
    let (one, two) = (trigger(&server, "hold"), {
        stub.wait("run", 1);
        home.job("other", &job("hold", ""));
        trigger(&server, "other")
    });
    let orders = stub.wait("run", 2);
    server.kill();
    let server = serve(&home, &door);
    assert_eq!(show(&server, &one)["status"], "running");
    assert_eq!(stub.report(&orders[0]["logId"], 200, "done")["code"], 200);
    assert_eq!(ended(&server, &one)["status"], "succeeded");
    assert!(home.client(&["stop", &two]).status.success());
    assert_eq!(ended(&server, &two)["status"], "stopped");
    assert_eq!(stub.calls("run").len(), 2, "nothing was sent twice");
    assert_eq!(home.json(&["executors", "--json"])["groups"][0]["name"], "g", "it need not register again");
    stub.leave("g");
    assert_eq!(home.json(&["executors", "--json"])["groups"], json!([]));
}

#[test]
fn lost_work_is_found() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let stub = Stub::new(&door(&server));
    stub.register("g");
    home.job("once", &job("hold", "retry: never\n"));
    home.job("again", &job("hold", ""));
    // It was on, and then the executor knows nothing of it: it was started anew.
    let id = trigger(&server, "once");
    stub.wait("idleBeat", 2);
    stub.say_busy(Some(false));
    assert_eq!(ended(&server, &id)["status"], "lost");
    // It vanishes altogether.
    stub.say_busy(None);
    let id = trigger(&server, "again");
    stub.wait("run", 2);
    stub.vanish();
    let done = ended(&server, &id);
    assert!(["lost", "failed"].contains(&done["status"].as_str().unwrap_or_default()), "{done}");
    drop(server);
}

#[test]
fn one_that_never_answers_delays_nobody() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let (dead, live) = (Stub::new(&door(&server)), Stub::new(&door(&server)));
    dead.register("dead");
    live.register("g");
    home.job("mute", "executor: dead\nhandler: mute\nschedule: every 1s\noverlap: allow\nretry: never\n");
    home.job("quick", &job("quick", "schedule: every 1s\n"));
    dead.wait("run", 2);
    live.wait("run", 5);
    let rows = server.history("quick");
    assert!(rows.iter().all(|row| row["status"] != "failed" && row["kind"] != "skip"), "{rows:?}");
    drop(server);
}

#[test]
fn the_door_answers_everything_and_lets_nobody_in() {
    let home = Home::new();
    for token in ["default_token", "", "two words"] {
        let output = home.serve_command(&["--executor-token", token]).output().expect("it starts");
        assert!(!output.status.success(), "{token:?} is refused");
    }
    let server = serve(&home, "127.0.0.1:0");
    let door = door(&server);
    let good =
        json!({"registryGroup": "EXECUTOR", "registryKey": "g", "registryValue": "http://127.0.0.1:9"});
    let token = ("XXL-JOB-ACCESS-TOKEN", TOKEN);
    let refused: &[(&str, String, &[(&str, &str)])] = &[
        ("/api/registry", good.to_string(), &[]),
        ("/api/registry", good.to_string(), &[("XXL-JOB-ACCESS-TOKEN", "wrong")]),
        ("/api/registry", good.to_string(), &[token, ("XXL-JOB-APPNAME", "other")]),
        ("/api/callback", "[]".to_owned(), &[]),
        ("/api/registry", "{".to_owned(), &[token]),
        ("/api/registry", "[]".to_owned(), &[token]),
        ("/api/registry", json!({"registryGroup": "E", "registryKey": "g"}).to_string(), &[token]),
        ("/api/callback", json!({"x": 1}).to_string(), &[token]),
        ("/api/none", "{}".to_owned(), &[token]),
        ("/other", "{}".to_owned(), &[token]),
        ("/api/v1/jobs", "{}".to_owned(), &[token]),
        ("/api/triggerJob", json!({"id": 1}).to_string(), &[token]),
        ("/api/triggerJob", json!({"id": 99}).to_string(), &[token, ("XXL-JOB-APPNAME", "g")]),
        ("/api/registry", format!("\"{}\"", "x".repeat(17 << 20)), &[token]),
    ];
    for (path, body, headers) in refused {
        let (head, answer) = raw_call(&door, path, body, headers);
        assert!(head.starts_with("HTTP/1.1 200"), "{path} {headers:?}: {head}");
        assert_eq!(answer["code"], 500, "{path} {headers:?}: {answer}");
        assert!(answer["content"].is_null() && answer["data"].is_null(), "{answer}");
    }
    for address in
        ["", "x", "http://", "https://h", "file:///etc", "http://h:0", "http://u:p@h", "http://h/?x"]
    {
        let body = json!({"registryGroup": "EXECUTOR", "registryKey": "g", "registryValue": address});
        assert_eq!(call(&door, "registry", &body, &[token])["code"], 500, "{address}");
    }
    assert_eq!(home.json(&["executors", "--json"])["groups"], json!([]), "nobody got in");
    for (path, headers) in [
        ("/api/registry", &[token][..]),
        ("/xxl-job-admin/api/registry", &[("xxl-job-access-token", TOKEN)]),
        ("/api/registry", &[("ORTH-ACCESS-TOKEN", TOKEN)]),
        ("/api/registry", &[token, ("XXL-JOB-APPNAME", "g")]),
    ] {
        let (head, answer) = raw_call(&door, path, &good.to_string(), headers);
        assert_eq!(answer["code"], 200, "{path} {headers:?}: {answer}");
        assert!(head.to_ascii_lowercase().contains("content-type: application/json"), "{head}");
    }
    home.job("quick", &job("quick", "params: none\n"));
    wait_for("the job", || (home.json(&["jobs", "--json"])["jobs"][0]["name"] == "quick").then_some(()));
    let three = [token, ("XXL-JOB-APPNAME", "g")];
    assert_eq!(call(&door, "stopJob", &json!({"id": 1}), &three)["code"], 200);
    assert_eq!(home.json(&["jobs", "--json"])["jobs"][0]["state"], "paused");
    assert_eq!(call(&door, "startJob", &json!({"id": 1}), &three)["code"], 200);
    let answer = call(&door, "triggerJob", &json!({"id": 1, "executorParam": "x"}), &three);
    assert_eq!(answer["code"], 200, "{answer}");
    let (_, metrics) = server.get("/metrics");
    let metrics = metrics.as_str().unwrap_or_default().to_owned();
    assert!(metrics.contains("cadran_executor_calls_total{what=\"bad_token\"} 4"), "{metrics}");
    assert!(metrics.contains("cadran_executor_calls_total{what=\"bad_address\"} 8"), "{metrics}");
}
