//! What a job file may ask of executors: every route, scripts that travel, and jobs that follow.

use std::net::TcpStream;

use serde_json::json;

use super::shares::stubs;
use super::stub::{Stub, TOKEN};
use super::support::{Home, wait_for};
use super::{door, job, run, serve, show};

#[test]
fn the_door_is_closed_until_a_token_is_set() {
    let home = Home::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a port");
    let closed = home.serve_with(&["--executor-listen", &port.to_string()]);
    assert!(!closed.ready.contains("executors on"), "{}", closed.ready);
    assert!(TcpStream::connect(port).is_err(), "nobody listens there");
    home.job("quick", &job("quick", ""));
    let done = run(&closed, "quick");
    let message = done["steps"][0]["message"].as_str().unwrap_or_default();
    assert!(message.contains("no XXL-JOB executor of the group g is there"), "{done}");
    assert!(closed.stop().success());
    let open = home.serve_with(&["--executor-listen", &port.to_string(), "--executor-token", TOKEN]);
    assert!(open.ready.contains(&format!("executors on http://{port}")), "{}", open.ready);
}

#[test]
fn every_route_chooses_as_it_should() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let stubs = stubs(&door(&server), 3);
    let place = |address: &str| stubs.iter().position(|stub| stub.address == address).expect("one of ours");
    // What six runs of a job must be like: where each went.
    type Law = fn(&[usize]) -> bool;
    let turns: Law =
        |seen| seen.windows(3).all(|some| some[0] != some[1] && some[1] != some[2] && some[0] != some[2]);
    // Each begins at a random count below three, so that one may be left out for a while.
    let even: Law = |seen| (0..3).filter(|at| seen.contains(at)).count() >= 2;
    let rows: [(&str, Law); 9] = [
        ("first", |seen| seen.iter().all(|at| *at == 0)),
        ("last", |seen| seen.iter().all(|at| *at == 2)),
        ("round", turns),
        ("random", |seen| seen.iter().all(|at| *at < 3)),
        ("consistent_hash", |seen| seen.iter().all(|at| *at == seen[0])),
        ("lfu", even),
        ("lru", turns),
        ("failover", |seen| seen.iter().all(|at| *at == 0)),
        ("busyover", |seen| seen.iter().all(|at| *at == 0)),
    ];
    for (route, law) in rows {
        let name = format!("by-{}", route.replace('_', "-"));
        home.job(&name, &job("quick", &format!("route: {route}\n")));
        let mut seen = Vec::new();
        for _ in 0..6 {
            let done = run(&server, &name);
            assert_eq!(done["status"], "succeeded", "{route}: {done}");
            seen.push(place(done["steps"][0]["executors"][0]["address"].as_str().expect("an address")));
        }
        assert!(law(&seen), "{route}: {seen:?}");
    }
}

#[test]
fn scripts_travel_and_children_follow_a_success() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let stub = Stub::new(&door(&server));
    stub.register("g");
    home.job("script", "executor: g\nglue: python\nscript: |\n  print('hello')\nparams: x\n");
    assert_eq!(run(&server, "script")["status"], "succeeded");
    let order = stub.calls("run").remove(0);
    assert_eq!(
        (&order["glueType"], &order["glueSource"], &order["executorHandler"]),
        (&json!("GLUE_PYTHON"), &json!("print('hello')\n"), &json!("")),
        "{order}"
    );
    assert!(order["glueUpdatetime"].as_i64().is_some_and(|time| time > 0), "{order}");

    home.job("next", &job("quick", ""));
    home.job("good", &job("quick", "children: [next, script]\n"));
    home.job("bad", &job("fail", "children: next\n"));
    for name in ["next", "script"] {
        wait_for("the child to be in force", || {
            (server.get(&format!("/api/v1/jobs/{name}")).0 == 200).then_some(())
        });
    }
    let parent = run(&server, "good")["id"].as_str().expect("an id").to_owned();
    let children = wait_for("the children", || {
        let listed = server.get(&format!("/api/v1/runs?parent={parent}&status=succeeded")).1;
        listed["runs"].as_array().filter(|runs| runs.len() == 2).cloned()
    });
    let mut jobs: Vec<&str> = children.iter().filter_map(|child| child["job"].as_str()).collect();
    jobs.sort_unstable();
    assert_eq!(jobs, ["next", "script"]);
    assert!(children.iter().all(|child| child["parent"] == parent.as_str()), "{children:?}");
    assert_eq!(show(&server, &parent)["children"].as_array().map(Vec::len), Some(2));
    // Not behind a failure.
    let failed = run(&server, "bad");
    assert_eq!((&failed["status"], failed.get("children")), (&json!("failed"), None), "{failed}");
}
