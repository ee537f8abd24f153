//! Triggers that are asked for twice: one run, however the first answer was lost.

mod support;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;
use sqlx::{Connection, Executor};
use support::{Home, Server, cadran, id_of, wait_for};

fn trigger(server: &Server, key: &str, body: &str) -> (u16, Value) {
    let header = format!("Idempotency-Key: {key}\r\n");
    server.request_with("POST", "/api/v1/jobs/work/trigger", Some(body), &header)
}

/// The same key names the same run, for as long as the record lives and across a kill.
#[track_caller]
fn one_run_for_one_key(store: &[&str]) {
    let home = Home::new();
    home.job("work", "params: {what: none}\nrun: 'true'\n");
    let server = home.serve_with(store);
    let (code, first) = trigger(&server, "k-1", "{}");
    assert_eq!(code, 201, "{first}");
    assert_eq!(trigger(&server, "k-1", "{}"), (201, first.clone()));
    let (code, second) = trigger(&server, "k-2", "{}");
    assert_eq!(code, 201);
    assert_ne!(id_of(&second), id_of(&first));
    server.run_is(&id_of(&first), "succeeded");
    assert_eq!(trigger(&server, "k-1", "{}"), (201, first.clone()), "also when the run is over");
    // The same key for something else is a mistake, and does nothing.
    let (code, reused) = trigger(&server, "k-1", r#"{"params": {"what": "other"}}"#);
    assert_eq!((code, reused["error"]["code"].as_str()), (422, Some("key_reused")), "{reused}");
    for bad in ["", "two words", "k\u{e9}", &"x".repeat(256), "a\r\nIdempotency-Key: b"] {
        let (code, answer) = trigger(&server, bad, "{}");
        assert_eq!((code, answer["error"]["code"].as_str()), (400, Some("bad_key")), "{bad:?}: {answer}");
    }
    server.kill();
    let server = home.serve_with(store);
    assert_eq!(trigger(&server, "k-1", "{}"), (201, first), "also after a kill");
    assert_eq!(server.history("work").len(), 2);
    assert!(server.stop().success());
}

#[test]
fn one_run_for_one_key_on_sqlite() {
    one_run_for_one_key(&[]);
}

#[test]
fn one_run_for_one_key_on_postgres() {
    let Some(schema) = support::postgres::Schema::new() else { return };
    one_run_for_one_key(&["--store", &schema.url()]);
}

#[test]
fn a_trigger_that_was_answered_503_is_asked_again_and_runs_once() {
    let home = Home::new();
    home.job("work", "run: 'true'\n");
    let server = home.serve();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let url = format!("sqlite:{}", home.data().join("cadran.db").display());
    let mut lock = runtime.block_on(sqlx::SqliteConnection::connect(&url)).expect("a database");
    runtime.block_on(lock.execute("begin immediate")).expect("the write lock");
    let mut command = cadran();
    command.env("CADRAN_DATA", home.data()).args(["trigger", "work"]);
    let mut client = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut said = BufReader::new(client.stderr.take().expect("a pipe"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    assert!(line.contains("asking again with the key"), "{line}");
    runtime.block_on(lock.execute("rollback")).expect("the lock is given back");
    let output = client.wait_with_output().expect("it ends");
    assert!(output.status.success());
    let run = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    server.run_is(&run, "succeeded");
    let history = server.history("work");
    assert_eq!(history.len(), 1, "{history:?}");
    assert!(server.stop().success());
}

// covers: option trigger --idempotency-key
#[test]
fn a_trigger_whose_server_was_killed_is_asked_again_and_runs_once() {
    let home = Home::new();
    home.job("work", "run: 'true'\n");
    let first = home.client(&["trigger", "work"]);
    assert_eq!(first.status.code(), Some(3), "without a server it fails at once");
    let server = home.serve();
    let key = ["trigger", "work", "--idempotency-key", "mine"];
    let made = home.client(&key);
    let run = String::from_utf8_lossy(&made.stdout).trim().to_owned();
    server.run_is(&run, "succeeded");
    server.kill();
    let server = home.serve();
    let again = home.client(&key);
    assert_eq!(String::from_utf8_lossy(&again.stdout).trim(), run);
    wait_for("one run alone", || (server.history("work").len() == 1).then_some(()));
    assert!(server.stop().success());
}
