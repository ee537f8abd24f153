//! Broadcasts: every share has its own executor, status, times, result and log.

use std::net::TcpListener;

use serde_json::{Value, json};

use super::stub::Stub;
use super::support::{Home, Server, wait_for};
use super::{door, ended, job, run, serve, show, trigger};

/// Stubs in the order in which a broadcast gives shares to them.
pub fn stubs(door: &str, count: usize) -> Vec<Stub> {
    let mut stubs: Vec<Stub> = (0..count).map(|_| Stub::new(door)).collect();
    stubs.sort_by(|a, b| a.address.cmp(&b.address));
    stubs.iter().for_each(|stub| stub.register("g"));
    stubs
}

fn shares(run: &Value) -> Vec<Value> {
    run["steps"][0]["executors"].as_array().cloned().unwrap_or_default()
}

/// Waits until the shares of a run stand like this.
pub fn shares_are(server: &Server, run: &str, statuses: &[&str]) -> Vec<Value> {
    wait_for(&format!("shares {statuses:?} of {run}"), || {
        let found = shares(&show(server, run));
        let same =
            found.iter().map(|share| share["status"].as_str()).eq(statuses.iter().map(|word| Some(*word)));
        same.then_some(found)
    })
}

fn logs(home: &Home, name: &str) -> String {
    let output = home.client(&["logs", name]);
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

// covers: option history --shares
#[test]
fn a_retry_repeats_the_share_that_failed_and_no_other() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let stubs = stubs(&door(&server), 3);
    home.job("all", &job("failOnce", "route: broadcast\nretry: {limit: 2, interval: 100ms}\n"));
    let done = run(&server, "all");
    assert_eq!(done["status"], "succeeded", "{done}");
    assert_eq!(
        (&done["steps"][0]["attempt"], &done["shares"]["succeeded"]),
        (&json!(2), &json!(3)),
        "{done}"
    );
    let mut numbers = Vec::new();
    for (at, stub) in stubs.iter().enumerate() {
        let orders = stub.calls("run");
        assert_eq!(orders.len(), if at == 1 { 2 } else { 1 }, "share {at}");
        for order in orders {
            assert_eq!((&order["broadcastIndex"], &order["broadcastTotal"]), (&json!(at), &json!(3)));
            numbers.push(order["logId"].as_u64().expect("a number"));
        }
        let share = &shares(&done)[at];
        let attempt = if at == 1 { 2 } else { 1 };
        assert_eq!((&share["attempt"], &share["status"]), (&json!(attempt), &json!("succeeded")), "{share}");
        assert_eq!(
            (&share["address"], &share["message"]),
            (&json!(stub.address), &json!("at last")),
            "{share}"
        );
        assert!(share["ended_at_ms"].as_i64() >= share["ordered_at_ms"].as_i64(), "{share}");
    }
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 4, "each share and each attempt has a log of its own");

    // Each log by its name, and all of them under the run's.
    let id = done["id"].as_str().expect("an id");
    for (at, stub) in stubs.iter().enumerate() {
        let log = stub.calls("run").pop().expect("an order")["logId"].clone();
        let text = logs(&home, &format!("{id}.{at}"));
        assert!(text.contains(&format!("line 3 of {log}")), "share {at}: {text}");
        assert_eq!(text.matches("line 1 of").count(), 1, "share {at}: {text}");
    }
    let all = logs(&home, id);
    assert!(all.contains("==> main, share 0 <==") && all.contains("share 1 (attempt 2)"), "{all}");
    assert_eq!(all.matches("line 1 of").count(), 3, "{all}");
    let nobody = home.client(&["logs", &format!("{id}.9")]);
    assert_eq!(nobody.status.code(), Some(4), "{}", String::from_utf8_lossy(&nobody.stderr));

    // And in the history, when it is asked for.
    let table = home.client(&["history", "all", "--shares"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert_eq!(table.matches(&format!("{id}.")).count(), 3, "{table}");
    let lines = home.json(&["history", "all", "--shares", "--json"]);
    assert_eq!(shares(&lines["history"][0]).len(), 3, "{lines}");
}

// covers: option ps --shares
#[test]
fn shares_are_seen_one_by_one_and_a_stop_ends_them_all() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let stubs = stubs(&door(&server), 3);
    home.job("all", &job("hold", "route: broadcast\n"));
    let id = trigger(&server, "all");
    let log = stubs[1].wait("run", 1)[0]["logId"].clone();
    stubs[0].wait("run", 1);
    stubs[2].wait("run", 1);
    assert_eq!(stubs[1].report(&log, 200, "my part")["code"], 200);
    let found = wait_for("the share that is done", || {
        let found = shares(&show(&server, &id));
        found.iter().any(|share| share["status"] == "succeeded").then_some(found)
    });
    assert_eq!((&found[1]["status"], &found[1]["message"]), (&json!("succeeded"), &json!("my part")));
    assert_eq!(show(&server, &id)["status"], "running");
    let table = home.client(&["ps", "--shares"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("1 of 3 shares done") && table.contains(&stubs[2].address), "{table}");
    assert!(table.contains(&format!("{id}.2")), "{table}");
    assert!(home.client(&["stop", &id]).status.success());
    let done = ended(&server, &id);
    assert_eq!((&done["status"], &done["shares"]["failed"]), (&json!("stopped"), &json!(2)), "{done}");
    shares_are(&server, &id, &["stopped", "succeeded", "stopped"]);
    assert_eq!(stubs.iter().map(|stub| stub.calls("kill").len()).collect::<Vec<_>>(), [1, 0, 1]);
}

#[test]
fn a_broadcast_outlives_the_server_and_is_retried_by_hand_where_it_failed() {
    let home = Home::new();
    let port = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a port");
    let door = port.to_string();
    let server = serve(&home, &door);
    let stubs = stubs(&door, 3);
    home.job("all", &job("hold", "route: broadcast\n"));
    let id = trigger(&server, "all");
    let logs: Vec<Value> = stubs.iter().map(|stub| stub.wait("run", 1)[0]["logId"].clone()).collect();
    assert_eq!(stubs[0].report(&logs[0], 200, "before")["code"], 200);
    server.kill();
    let server = serve(&home, &door);
    assert_eq!(stubs[1].report(&logs[1], 500, "no")["code"], 200);
    assert_eq!(stubs[2].report(&logs[2], 200, "after")["code"], 200);
    let done = ended(&server, &id);
    assert_eq!(done["status"], "failed", "{done}");
    assert!(done["explanation"].as_str().is_some_and(|text| text.contains("1 of 3 shares failed")), "{done}");
    let found = shares_are(&server, &id, &["succeeded", "failed", "succeeded"]);
    let said: Vec<&str> = found.iter().filter_map(|share| share["message"].as_str()).collect();
    assert_eq!(said, ["before", "no", "after"]);
    assert!(home.client(&["retry", &id]).status.success());
    let again = stubs[1].wait("run", 2).remove(1);
    assert_eq!((&again["broadcastIndex"], &again["broadcastTotal"]), (&json!(1), &json!(3)));
    assert_eq!(stubs[1].report(&again["logId"], 200, "at last")["code"], 200);
    assert_eq!(ended(&server, &id)["status"], "succeeded");
    shares_are(&server, &id, &["succeeded"; 3]);
    let counts: Vec<usize> = stubs.iter().map(|stub| stub.calls("run").len()).collect();
    assert_eq!(counts, [1, 2, 1], "nothing was sent twice");
}
