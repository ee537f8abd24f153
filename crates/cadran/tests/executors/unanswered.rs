//! Where the work of a run is, and what is shown while its executor has not answered the order.

use std::net::TcpListener;

use serde_json::Value;

use super::stub::Stub;
use super::support::{Home, Server, wait_for};
use super::{door, ended, job, serve, show, trigger};

fn text(home: &Home, args: &[&str]) -> String {
    String::from_utf8_lossy(&home.client(args).stdout).into_owned()
}

/// Waits until the run is shown as ordered and not answered.
fn unanswered(server: &Server, id: &str, address: &str) -> Value {
    let says = format!("ordered at {address}, not answered yet since 20");
    wait_for("the order to be shown as not answered", || {
        let found = show(server, id);
        let explanation = found["explanation"].as_str().unwrap_or_default();
        (found["status"] == "waiting" && explanation.contains(&says)).then_some(found)
    })
}

/// The ids that the API lists with a status.
fn listed(server: &Server, status: &str) -> Vec<String> {
    let (_, page) = server.get(&format!("/api/v1/runs?status={status}"));
    let runs = page["runs"].as_array().cloned().unwrap_or_default();
    runs.iter().filter_map(|run| run["id"].as_str().map(str::to_owned)).collect()
}

#[test]
fn an_unanswered_order_is_shown_with_its_executor_until_there_is_a_sign_of_it() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let stub = Stub::new(&door(&server));
    stub.knows_no_questions();
    stub.register("g");
    home.job("log", &job("muteHold", ""));
    home.job("busy", &job("muteHold", ""));
    home.job("result", &job("muteHold", "retry: never\n"));
    let ids: Vec<String> = ["log", "busy", "result"].map(|name| trigger(&server, name)).into();
    let orders = stub.wait("run", 3);
    let log_of = |id: &str| {
        let found = show(&server, id);
        found["steps"][0]["executors"][0]["log_id"].clone()
    };
    for id in &ids {
        let found = unanswered(&server, id, &stub.address);
        assert_eq!(found["executor"], stub.address.as_str(), "{found}");
        assert!(found["started_at"].is_null(), "{found}");
        let step = &found["steps"][0];
        assert_eq!((&step["status"], &step["executors"][0]["status"]), (&"pending".into(), &"sent".into()));
        assert!(
            text(&home, &["why", id]).contains("not answered yet since"),
            "{}",
            text(&home, &["why", id])
        );
        assert!(listed(&server, "waiting").contains(id) && !listed(&server, "running").contains(id));
    }
    assert_eq!(text(&home, &["ps"]).matches("not answered yet since").count(), 3, "{}", text(&home, &["ps"]));

    // A line of its log, its word that the job is on, its result.
    text(&home, &["logs", &ids[0]]);
    let found = server.run_is(&ids[0], "running");
    assert_eq!(found["explanation"], format!("it is running at {}", stub.address), "{found}");
    assert_eq!(show(&server, &ids[1])["status"], "waiting", "the others are where they were");
    stub.knows_questions_again();
    server.run_is(&ids[1], "running");
    assert_eq!(stub.report(&log_of(&ids[2]), 500, "no money")["code"], 200);
    let done = ended(&server, &ids[2]);
    assert_eq!(done["status"], "failed", "{done}");
    assert!(!done["started_at"].is_null(), "its result says that it began: {done}");
    for order in &orders {
        stub.report(&order["logId"], 200, "done");
    }
    for id in &ids[..2] {
        assert_eq!(ended(&server, id)["status"], "succeeded");
    }
    assert_eq!(stub.calls("run").len(), 3, "nothing was ordered twice");
}

#[test]
fn a_second_attempt_that_nobody_took_is_not_shown_as_running() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let stub = Stub::new(&door(&server));
    stub.register("g");
    home.job("mute", &job("mute", ""));
    let id = trigger(&server, "mute");
    // It says that the job is idle: the first attempt is lost, and there is a second one.
    stub.wait("run", 2);
    stub.knows_no_questions();
    let found = wait_for("the second attempt", || {
        Some(show(&server, &id)).filter(|found| found["steps"][0]["attempt"].as_u64() >= Some(2))
    });
    assert_eq!(found["status"], "waiting", "{found}");
    let found = unanswered(&server, &id, &stub.address);
    assert_eq!(found["steps"][0]["executors"][0]["attempt"], found["steps"][0]["attempt"], "{found}");
    assert!(home.client(&["stop", &id]).status.success());
    assert_eq!(ended(&server, &id)["status"], "stopped");
}

#[test]
fn an_unanswered_order_is_still_that_after_a_restart() {
    let home = Home::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let door = listener.local_addr().expect("an address").to_string();
    drop(listener);
    let server = serve(&home, &door);
    let stub = Stub::new(&door);
    stub.knows_no_questions();
    stub.register("g");
    home.job("mute", &job("muteHold", ""));
    let id = trigger(&server, "mute");
    unanswered(&server, &id, &stub.address);
    wait_for("the server to give up the call", || {
        home.log().contains("waiting for a sign of the run").then_some(())
    });
    server.kill();
    let server = serve(&home, &door);
    unanswered(&server, &id, &stub.address);
    stub.knows_questions_again();
    server.run_is(&id, "running");
    assert_eq!(stub.calls("run").len(), 1);
}

#[test]
fn a_running_run_says_where_it_is() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let stub = Stub::new(&door(&server));
    stub.register("g");
    home.job("hold", &job("hold", ""));
    home.job("here", "run: 'true'\n");
    let id = trigger(&server, "hold");
    let found = server.run_is(&id, "running");
    assert_eq!(found["executor"], stub.address.as_str(), "{found}");
    assert_eq!(found["steps"][0]["executors"][0]["status"], "running", "{found}");
    for args in [&["ps"][..], &["show", &id], &["why", &id]] {
        let said = text(&home, args);
        assert!(said.contains(&stub.address), "{args:?}: {said}");
    }
    let (_, why) = server.get(&format!("/api/v1/runs/{id}/why"));
    assert_eq!((&why["executor"], &why["status"]), (&stub.address.as_str().into(), &"running".into()));
    // The number that the executor was given is in every answer about the job.
    let number = stub.calls("run")[0]["jobId"].clone();
    assert_eq!(found["executor_number"], number);
    assert_eq!(server.get("/api/v1/jobs/hold").1["executor_number"], number);
    assert!(server.get("/api/v1/jobs/here").1["executor_number"].is_null());
    assert!(text(&home, &["show", &id]).contains(&format!("job number {number} there")));
    let jobs = text(&home, &["jobs"]);
    let line = jobs.lines().find(|line| line.starts_with("hold")).expect("the job");
    assert!(jobs.lines().next().is_some_and(|head| head.ends_with("NUMBER")), "{jobs}");
    assert!(line.trim_end().ends_with(&number.to_string()), "{jobs}");
}

#[test]
fn the_message_of_an_executor_that_timed_out_is_kept() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let stub = Stub::new(&door(&server));
    stub.register("g");
    home.job("hold", &job("hold", "timeout: 600s\n"));
    for (said, shown) in [("job timeout: stage 3", "job timeout: stage 3"), ("", "passed its time limit")] {
        let id = trigger(&server, "hold");
        server.run_is(&id, "running");
        let log = stub.calls("run").last().expect("an order")["logId"].clone();
        assert_eq!(stub.report(&log, 502, said)["code"], 200);
        let done = ended(&server, &id);
        assert_eq!(done["status"], "failed", "{done}");
        assert!(done["steps"][0]["message"].as_str().is_some_and(|text| text.contains(shown)), "{done}");
        let seat = &done["steps"][0]["executors"][0]["message"];
        assert!(seat.as_str().is_some_and(|text| text.contains(shown)), "{done}");
    }
}
