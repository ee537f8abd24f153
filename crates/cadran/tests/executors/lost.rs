//! Work that was lost at executors: every run comes to an end.

use super::stub::{Stub, TOKEN};
use super::support::Home;
use super::{door, ended, job, serve, show, trigger};

#[test]
fn a_restart_under_the_same_address_is_noticed() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let stub = Stub::new(&door(&server));
    stub.register("g");
    home.job("once", &job("hold", "retry: never\n"));
    let id = trigger(&server, "once");
    // It is on, and says so when it is asked; then its process starts anew and knows nothing of it.
    stub.wait("idleBeat", 2);
    assert_eq!(show(&server, &id)["status"], "running");
    stub.restart();
    stub.register("g");
    assert_eq!(ended(&server, &id)["status"], "lost");
    // What comes back after all belongs to nobody any more.
    let log = stub.calls("run")[0]["logId"].clone();
    assert_eq!(stub.report(&log, 200, "late")["code"], 200);
    assert_eq!(show(&server, &id)["status"], "lost");
}

#[test]
fn an_executor_that_leaves_the_roster_loses_what_it_had() {
    let home = Home::new();
    let args = ["--executor-token", TOKEN, "--executor-listen", "127.0.0.1:0", "--executor-look-ms", "200"];
    let server = home.serve_with(&[&args[..], &["--executor-silent-ms", "3000"]].concat());
    let stub = Stub::new(&door(&server));
    // It does not know the question whether a job is on: its answers say nothing about it.
    stub.knows_no_questions();
    stub.register("g");
    home.job("once", &job("hold", "retry: never\n"));
    let id = trigger(&server, "once");
    for looks in 1..=4 {
        stub.wait("idleBeat", 5 * looks);
        stub.register("g");
        assert_eq!(show(&server, &id)["status"], "running", "as long as it registers");
    }
    // It stops registering. Something still answers at its address, and that is all there is.
    assert_eq!(ended(&server, &id)["status"], "lost");
    assert_eq!(home.json(&["executors", "--json"])["groups"], serde_json::json!([]));
}

#[test]
fn an_executor_that_left_the_roster_and_is_busy_may_finish() {
    let home = Home::new();
    let args = ["--executor-token", TOKEN, "--executor-listen", "127.0.0.1:0", "--executor-look-ms", "200"];
    let server = home.serve_with(&[&args[..], &["--executor-silent-ms", "1000"]].concat());
    let stub = Stub::new(&door(&server));
    stub.register("g");
    home.job("hold", &job("hold", ""));
    let id = trigger(&server, "hold");
    super::support::wait_for("it to leave the roster", || {
        (home.json(&["executors", "--json"])["groups"] == serde_json::json!([])).then_some(())
    });
    // Asked again and again it says that the job is on.
    let asked = stub.calls("idleBeat").len();
    stub.wait("idleBeat", asked + 10);
    assert_eq!(show(&server, &id)["status"], "running");
    let log = stub.calls("run")[0]["logId"].clone();
    assert_eq!(stub.report(&log, 200, "done")["code"], 200);
    assert_eq!(ended(&server, &id)["status"], "succeeded");
}

#[test]
fn a_result_that_never_comes_is_given_up() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let stub = Stub::new(&door(&server));
    stub.register("g");
    // One of those that say idle whatever is on: its word counts less, and in the end it counts.
    stub.say_busy(Some(false));
    home.job("silent", &job("hold", "retry: never\n"));
    home.job("limited", &job("hold", "retry: never\ntimeout: 1s\n"));
    let (silent, limited) = (trigger(&server, "silent"), trigger(&server, "limited"));
    let done = ended(&server, &limited);
    assert_eq!(done["status"], "failed", "{done}");
    assert!(done["explanation"].as_str().is_some_and(|text| text.contains("time")), "{done}");
    assert_eq!(ended(&server, &silent)["status"], "lost");
}
