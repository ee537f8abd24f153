//! What the server says of itself, and what it does when a part of it fails: panics and stalls on purpose.
//!
//! Faults are asked for by `CADRAN_TEST_FAULT`, which only debug builds know.
#![cfg(debug_assertions)]

mod support;

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use support::{Home, Server, wait_for};

/// A server in which `fault` happens once the file `now` is there.
fn serve_with_fault(home: &Home, fault: &str) -> Server {
    let mut command = home.serve_command(&[]);
    command.env("CADRAN_TEST_FAULT", format!("{fault}@{}", home.path("now").display()));
    home.start(command)
}

fn happen(home: &Home) {
    fs::write(home.path("now"), "").expect("a file");
}

/// A panic in this place ends the process with 70 and a line in the log; the next start goes on.
#[track_caller]
fn a_panic_ends_the_process(place: &str, name: &str) {
    let home = Home::new();
    home.job("often", "schedule: every 1s\nrun: 'true'\n");
    let server = serve_with_fault(&home, &format!("{place}=panic"));
    server.run_with("often", "succeeded");
    #[allow(clippy::disallowed_methods)] // a figure for whoever reads the output; nothing is decided by it
    let asked = Instant::now();
    happen(&home);
    if place == "index" {
        // An index is built when jobs change.
        home.job("other", "schedule: every 1h\nrun: 'true'\n");
    }
    let said = format!("the {name} panicked: a panic was asked for in the {place}");
    let status = server.ended();
    eprintln!("the process was gone {:?} after a panic of the {name} was asked for", asked.elapsed());
    assert_eq!(status.code(), Some(70), "{}", home.log());
    assert!(home.log().contains(&said), "{}", home.log());
    fs::remove_file(home.path("now")).expect("the file is there");
    let server = home.serve();
    let before = server.runs("often", "succeeded").len();
    wait_for("a run after the restart", || (server.runs("often", "succeeded").len() > before).then_some(()));
    assert!(server.stop().success());
}

#[test]
fn a_panic_of_the_loop_ends_the_process() {
    a_panic_ends_the_process("loop", "loop");
}

#[test]
fn a_panic_of_the_recorder_ends_the_process() {
    a_panic_ends_the_process("recorder", "recorder");
}

#[test]
fn a_panic_of_the_index_builder_ends_the_process() {
    a_panic_ends_the_process("index", "index builder");
}

#[test]
fn a_panic_of_a_request_handler_is_answered_and_nothing_else_notices() {
    let home = Home::new();
    let server = serve_with_fault(&home, "handler=panic");
    happen(&home);
    let (code, body) = server.get("/api/v1/conflicts");
    assert_eq!((code, body["error"]["code"].as_str()), (500, Some("internal")), "{body}");
    assert!(home.log().contains("a panic was asked for in the handler"), "{}", home.log());
    assert_eq!(server.get("/health").0, 200);
    fs::remove_file(home.path("now")).expect("the file is there");
    assert_eq!(server.get("/api/v1/conflicts").0, 200);
    assert!(server.stop().success());
}

#[test]
fn a_panic_of_the_loop_ends_a_run_in_the_foreground() {
    let home = Home::new();
    happen(&home);
    fs::write(home.path("job.yaml"), "run: 'true'\n").expect("a file");
    let mut command = support::cadran();
    command.env("CADRAN_TEST_FAULT", format!("loop=panic@{}", home.path("now").display()));
    let output = command.arg("run").arg(home.path("job.yaml")).output().expect("it starts");
    assert_eq!(output.status.code(), Some(70));
    assert!(String::from_utf8_lossy(&output.stderr).contains("error: the loop panicked"));
}

#[test]
fn a_loop_that_is_held_is_told_and_every_wait_for_it_ends() {
    let home = Home::new();
    home.job("often", "schedule: every 1s\nrun: 'true'\n");
    let server = serve_with_fault(&home, "loop=stall");
    let (code, well) = server.get("/health");
    assert_eq!((code, well["status"].as_str()), (200, Some("ok")), "{well}");
    happen(&home);
    // Every question that the loop answers gives up in time and says why.
    for path in ["upcoming", "forecast", "conflicts", "executors", "jobs/often", "upcoming?job=often"] {
        let (code, body) = server.get(&format!("/api/v1/{path}"));
        assert_eq!((code, body["error"]["code"].as_str()), (503, Some("busy")), "{path}: {body}");
        let message = body["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("did not answer within 5 s"), "{path}: {message}");
    }
    assert_eq!(server.get("/api/v1/jobs").0, 200, "lists do not ask the loop");
    let stalled = wait_for("the stall to be told", || {
        let (code, body) = server.get("/health");
        (code == 503 && body["status"] == "loop_stalled").then_some(body)
    });
    assert!(stalled["loop_age_ms"].as_i64().is_some_and(|age| age >= 10_000), "{stalled}");
    assert_eq!((server.get("/health/live").0, server.get("/health/ready").0), (503, 503));
    assert!(metric(&server, "cadran_loop_age_seconds") >= 10.0);
    // A trigger was taken, and nobody knows what becomes of it: it says so.
    let (code, body) = server.post("/api/v1/jobs/often/trigger", "{}");
    assert_eq!((code, body["error"]["code"].as_str()), (503, Some("unknown")), "{body}");
    fs::remove_file(home.path("now")).expect("the file is there");
    wait_for("the loop to turn again", || (server.get("/health").0 == 200).then_some(()));
    assert_eq!(server.get("/api/v1/upcoming").0, 200);
    assert!(server.stop().success());
}

#[test]
fn a_store_that_cannot_be_written_is_told_with_the_age_of_what_waits() {
    let home = Home::new();
    home.job("often", "schedule: every 1s\nrun: 'true'\n");
    let server = home.serve();
    server.run_with("often", "succeeded");
    let database = home.data().join("cadran.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        use sqlx::{Connection, Executor};
        let url = format!("sqlite:{}", database.display());
        let mut other = sqlx::SqliteConnection::connect(&url).await.expect("a database");
        other.execute("begin immediate").await.expect("the write lock");
        let down = wait_for("the locked store to be told", || {
            let (code, body) = server.get("/health");
            (code == 503 && body["status"] == "store_down" && body["batch_age_ms"].is_i64()).then_some(body)
        });
        assert_eq!(server.get("/health/live").0, 200, "a restart would not help: {down}");
        assert_eq!(server.get("/health/ready").0, 503);
        wait_for("the age to be a metric", || {
            (metric(&server, "cadran_batch_age_seconds") > 8.0).then_some(())
        });
        other.execute("rollback").await.expect("the lock is given back");
    });
    wait_for("the store to be back", || {
        let (code, body) = server.get("/health");
        (code == 200 && body["batch_age_ms"].as_i64().is_none_or(|age| age < 5_000)).then_some(())
    });
    // The tick that waited for the store was late, and is counted as late.
    wait_for("the late tick", || (sum_over(&server, "cadran_tick_lag_seconds") > 0).then_some(()));
    assert!(server.stop().success());
}

#[test]
fn a_database_that_is_frozen_is_told() {
    let Some(schema) = support::postgres::Schema::new() else { return };
    let home = Home::new();
    home.job("often", "schedule: every 1s\nrun: 'true'\n");
    let server = home.serve_with(&["--store", &schema.url()]);
    server.run_with("often", "succeeded");
    let backends = schema.backends_of(server.pid());
    assert!(!backends.is_empty());
    let freeze = |signal: Signal| {
        for pid in &backends {
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(*pid), signal);
        }
    };
    freeze(Signal::SIGSTOP);
    let down = wait_for("the frozen store to be told", || {
        let (code, body) = server.get("/health");
        (code == 503 && body["status"] == "store_down").then_some(body)
    });
    freeze(Signal::SIGCONT);
    let ages = ["store_age_ms", "batch_age_ms"].map(|age| down[age].as_i64().unwrap_or_default());
    assert!(ages.iter().any(|age| *age >= 10_000), "{down}");
    wait_for("the store to be back", || (server.get("/health").0 == 200).then_some(()));
    assert!(server.stop().success());
}

#[test]
fn a_supervisor_hears_ready_watchdog_and_stopping() {
    let home = Home::new();
    let socket = UnixDatagram::bind(home.path("notify")).expect("a socket");
    socket.set_read_timeout(Some(support::PATIENCE)).expect("a limit");
    let mut command: Command = home.serve_command(&[]);
    command.env("NOTIFY_SOCKET", home.path("notify")).env("WATCHDOG_USEC", "400000");
    command.env("CADRAN_TEST_FAULT", format!("loop=stall@{}", home.path("now").display()));
    let server = home.start(command);
    assert_eq!(heard(&socket).as_deref(), Some("READY=1"));
    for _ in 0..3 {
        assert_eq!(heard(&socket).as_deref(), Some("WATCHDOG=1"));
    }
    // A loop that is held does not feed the watchdog, whatever the other threads do.
    happen(&home);
    socket.set_read_timeout(Some(Duration::from_secs(2))).expect("a limit");
    wait_for("the watchdog to go hungry", || heard(&socket).is_none().then_some(()));
    assert_eq!(server.get("/health/live").0, 200, "the API answers all the while");
    fs::remove_file(home.path("now")).expect("the file is there");
    socket.set_read_timeout(Some(support::PATIENCE)).expect("a limit");
    assert_eq!(heard(&socket).as_deref(), Some("WATCHDOG=1"));
    assert!(server.stop().success());
    let mut rest = std::iter::from_fn(|| heard(&socket));
    assert!(rest.any(|said| said == "STOPPING=1"));
}

fn heard(socket: &UnixDatagram) -> Option<String> {
    let mut bytes = [0; 256];
    let len = socket.recv(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes[..len]).into_owned())
}

fn metrics(server: &Server) -> String {
    match server.get("/metrics") {
        (200, Value::String(text)) => text,
        other => panic!("{other:?}"),
    }
}

fn metric(server: &Server, name: &str) -> f64 {
    let text = metrics(server);
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// Observations of a histogram above its bucket of five seconds.
fn sum_over(server: &Server, name: &str) -> u64 {
    let text = metrics(server);
    let count = |rest: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}{rest} ")));
        line.and_then(|value| value.parse().ok()).unwrap_or_default()
    };
    count("_count") - count("_bucket{le=\"5\"}")
}
