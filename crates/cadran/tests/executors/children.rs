//! A share of a broadcast is a child run: shown, explained, read, stopped and repeated by its own name.

use std::net::TcpListener;

use serde_json::{Value, json};

use super::shares::{shares_are, stubs};
use super::stub::{Stub, TOKEN};
use super::support::postgres::Schema;
use super::support::{Home, Server, wait_for};
use super::{ended, job, run, show, trigger};

fn text(home: &Home, args: &[&str]) -> String {
    let output = home.client(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// What a command says when it is refused, and its exit code.
fn refused(home: &Home, args: &[&str]) -> (Option<i32>, String) {
    let output = home.client(args);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn statuses(children: &Value) -> Vec<&str> {
    children
        .as_array()
        .expect("a list")
        .iter()
        .map(|child| child["status"].as_str().expect("a word"))
        .collect()
}

#[test]
fn one_share_is_shown_stopped_and_repeated_on_sqlite() {
    one_share_is_shown_stopped_and_repeated(&[]);
}

#[test]
fn one_share_is_shown_stopped_and_repeated_on_postgres() {
    let Some(schema) = Schema::new() else { return };
    one_share_is_shown_stopped_and_repeated(&["--store", &schema.url()]);
}

fn one_share_is_shown_stopped_and_repeated(store: &[&str]) {
    let home = Home::new();
    let port = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a port");
    let door = port.to_string();
    let serve = || -> Server {
        let mut args =
            vec!["--executor-token", TOKEN, "--executor-listen", &door, "--executor-look-ms", "200"];
        args.extend(store);
        home.serve_with(&args)
    };
    let server = serve();
    let stubs = stubs(&door, 3);
    // The job would be tried again by itself: not for a share that somebody stopped.
    home.job("all", &job("hold", "route: broadcast\nretry: {limit: 3, interval: 100ms}\n"));
    home.job("alone", &job("quick", "retry: never\n"));
    let id = trigger(&server, "all");
    let logs: Vec<Value> = stubs.iter().map(|stub| stub.wait("run", 1)[0]["logId"].clone()).collect();
    let one = format!("{id}.1");
    wait_for("the shares to be known", || {
        (server.get(&format!("/api/v1/runs/{one}")).0 == 200).then_some(())
    });

    // Shown, explained, listed, by command and by API.
    let shown = text(&home, &["show", &one]);
    let head = format!("share 1 of 3 of run {id} of job all is");
    assert!(shown.contains(&head) && shown.contains(&stubs[1].address), "{shown}");
    let parent = text(&home, &["show", &id]);
    assert!((0..3).all(|no| parent.contains(&format!("{id}.{no}"))), "{parent}");
    let child = home.json(&["show", &one, "--json"]);
    assert_eq!(
        (&child["parent"], &child["share"], &child["shares"]["total"]),
        (&json!(id), &json!(1), &json!(3))
    );
    let why = text(&home, &["why", &one]);
    assert!(why.contains("share 1 of 3") && why.contains(&stubs[1].address), "{why}");
    let (code, listed) = server.get(&format!("/api/v1/runs?parent={id}"));
    assert_eq!((code, listed["runs"].as_array().map(Vec::len)), (200, Some(3)), "{listed}");
    let link = show(&server, &id)["children"][1]["link"].as_str().expect("a link").to_owned();
    assert_eq!(server.get(&link).1["id"], one.as_str());

    // Its log, which is its own.
    let log = text(&home, &["logs", &one]);
    assert!(
        log.contains(&format!("line 3 of {}", logs[1])) && log.matches("line 1 of").count() == 1,
        "{log}"
    );
    let (_, page) = server.get(&format!("/api/v1/runs/{one}/logs"));
    assert_eq!(
        (page["logs"].as_array().map(Vec::len), &page["logs"][0]["share"]),
        (Some(1), &json!(1)),
        "{page}"
    );

    // Stopped alone: its executor is told, and reports a success, which counts for nothing.
    assert!(text(&home, &["stop", &one]).contains("the other shares go on"));
    stubs[1].wait("kill", 1);
    shares_are(&server, &id, &["running", "stopped", "running"]);
    assert_eq!(show(&server, &id)["status"], "running");
    let child = show(&server, &one);
    assert_eq!((&child["status"], &child["ended"]), (&json!("stopped"), &json!(true)), "{child}");
    assert!(child["explanation"].as_str().is_some_and(|text| text.contains("stopped on request")), "{child}");
    let (code, answer) = server.post(&format!("/api/v1/runs/{one}/stop"), "");
    assert_eq!((code, &answer["error"]["code"]), (409, &json!("share_ended")), "{answer}");

    // A server that is killed in the middle knows all that when it is back.
    server.kill();
    let server = serve();
    shares_are(&server, &id, &["running", "stopped", "running"]);
    assert_eq!(statuses(&show(&server, &id)["children"]), ["running", "stopped", "running"]);
    assert_eq!(stubs[0].report(&logs[0], 200, "mine")["code"], 200);
    assert_eq!(stubs[2].report(&logs[2], 500, "no disk")["code"], 200);
    let done = ended(&server, &id);
    let says = format!("2 of 3 shares failed; share 1 at {}: stopped on request", stubs[1].address);
    assert_eq!(done["status"], "failed", "{done}");
    assert!(done["explanation"].as_str().is_some_and(|text| text.contains(&says)), "{done}");
    assert_eq!(done["steps"][0]["attempt"], 1, "nobody tries again what somebody stopped");

    // Repeated alone, after the end.
    assert!(home.client(&["retry", &one]).status.success());
    let again = stubs[1].wait("run", 2).remove(1);
    assert_eq!((&again["broadcastIndex"], &again["broadcastTotal"]), (&json!(1), &json!(3)));
    assert_eq!(stubs[1].report(&again["logId"], 200, "at last")["code"], 200);
    let done = ended(&server, &id);
    assert_eq!(done["status"], "failed", "the other one has not succeeded: {done}");
    assert!(done["explanation"].as_str().is_some_and(|text| text.contains("share 2")), "{done}");
    shares_are(&server, &id, &["succeeded", "succeeded", "failed"]);
    let two = format!("{id}.2");
    assert!(home.client(&["retry", &two]).status.success());
    let again = stubs[2].wait("run", 2).remove(1);
    assert_eq!(stubs[2].report(&again["logId"], 200, "with a disk")["code"], 200);
    assert_eq!(ended(&server, &id)["status"], "succeeded");
    let counts: Vec<usize> = stubs.iter().map(|stub| stub.calls("run").len()).collect();
    assert_eq!(counts, [1, 2, 2], "nothing else was repeated");

    // What is none is told.
    let plain = run(&server, "alone")["id"].as_str().expect("an id").to_owned();
    for (args, code, says) in [
        (&["show", &format!("{id}.9")], 4, "has 3 shares, 0 to 2"),
        (&["why", &format!("{id}.9")], 4, "has 3 shares, 0 to 2"),
        (&["logs", &format!("{id}.9")], 4, "has 3 shares, 0 to 2"),
        (&["stop", &format!("{id}.9")], 4, "has 3 shares, 0 to 2"),
        (&["retry", &format!("{plain}.0")], 5, "it succeeded"),
        (&["show", &format!("{plain}.2")], 4, "has no shares"),
        (&["stop", &format!("{plain}.2")], 4, "has no shares"),
        (&["stop", &one], 5, "is over"),
        (&["retry", &one], 5, "it succeeded"),
        (&["show", &format!("{id}.x")], 2, "names no share"),
    ] {
        let (exit, said) = refused(&home, args);
        assert!(exit == Some(code) && said.contains(says), "{args:?}: {exit:?} {said}");
    }
    drop(stubs);
    assert!(server.stop().success());
}

/// Stops a share whose executor never answers the kill: the run is closed all the same, and the others notice nothing.
#[test]
fn a_share_at_an_executor_that_vanished_is_stopped_all_the_same() {
    let home = Home::new();
    let server = super::serve(&home, "127.0.0.1:0");
    let stubs: Vec<Stub> = stubs(&super::door(&server), 2);
    home.job("all", &job("hold", "route: broadcast\n"));
    let id = trigger(&server, "all");
    let log = stubs[0].wait("run", 1)[0]["logId"].clone();
    stubs[1].wait("run", 1);
    wait_for("the shares to be known", || {
        (server.get(&format!("/api/v1/runs/{id}.1")).0 == 200).then_some(())
    });
    stubs[1].vanish();
    assert!(home.client(&["stop", &format!("{id}.1")]).status.success());
    assert_eq!(stubs[0].report(&log, 200, "fine")["code"], 200);
    let done = ended(&server, &id);
    assert_eq!(done["status"], "failed", "{done}");
    shares_are(&server, &id, &["succeeded", "stopped"]);
}
