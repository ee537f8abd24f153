//! A second server on the same record: refused in clear words while the first lives, and its successor afterwards.

use std::net::TcpListener;

use serde_json::json;

use super::stub::{Stub, TOKEN};
use super::support::postgres::Schema;
use super::support::{Home, Server};
use super::{ended, job, show, trigger};

/// Starts a server that is expected to end at once, and gives what it said.
fn refused(home: &Home, args: &[&str]) -> String {
    let output = home.serve_command(args).output().expect("it starts");
    assert!(!output.status.success(), "{args:?}");
    home.log()
}

#[test]
fn a_second_server_on_one_postgres_is_refused_and_takes_over_later() {
    let Some(schema) = Schema::new() else { return };
    let url = schema.url();
    let (one, two) = (Home::new(), Home::new());
    let port = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a port");
    let door = port.to_string();
    let args =
        ["--store", &url, "--executor-token", TOKEN, "--executor-listen", &door, "--executor-look-ms", "200"];
    let serve = |home: &Home| -> Server { home.serve_with(&args) };

    let server = serve(&one);
    let stub = Stub::new(&door);
    stub.register("g");
    one.job("tick", &job("quick", "schedule: every 1s\n"));
    // Executors are known to the second server a moment after its start.
    let hold = job("hold", "retry: {limit: 50, interval: 200ms}\n");
    one.job("hold", &hold);
    let id = trigger(&server, "hold");
    stub.wait("run", 1);
    server.run_is(&id, "running");

    // Other directories, other ports, the same database: it says what is wrong and what to do, and touches nothing.
    let said = refused(&two, &["--store", &url]);
    for words in ["another server works on it", "since 20", "one server works on a record at a time"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("password") && !said.contains("takes up"), "{said}");
    let done = show(&server, &id);
    assert_eq!((&done["status"], &done["attempt"]), (&json!("running"), &json!(1)), "{done}");
    let ordered = |stub: &Stub| {
        let orders = stub.calls("run");
        orders.iter().filter(|order| order["executorHandler"] == "hold").count()
    };
    assert_eq!(ordered(&stub), 1, "nobody started it a second time");

    // The same again, with the first one gone: the second goes on where the record stands.
    server.kill();
    two.job("tick", &job("quick", "schedule: every 1s\n"));
    two.job("hold", &hold);
    let server = serve(&two);
    stub.register("g");
    // It has no word of what the first had out: lost with it, and ordered anew, under a higher number.
    super::support::wait_for("the order of the second server", || (ordered(&stub) == 2).then_some(()));
    let orders: Vec<_> =
        stub.calls("run").into_iter().filter(|order| order["executorHandler"] == "hold").collect();
    assert_ne!(orders[0]["logId"], orders[1]["logId"], "log numbers are never used twice");
    assert_eq!(stub.report(&orders[0]["logId"], 200, "late")["code"], 200, "taken, and for nobody");
    assert_eq!(show(&server, &id)["ended"], false);
    assert_eq!(stub.report(&orders[1]["logId"], 200, "done")["code"], 200);
    let done = ended(&server, &id);
    assert_eq!(done["status"], "succeeded", "{done}");
    assert!(done["steps"][0]["attempt"].as_u64().is_some_and(|attempt| attempt >= 2), "{done}");
    // Every due of both lives has one row.
    server.run_with("tick", "succeeded");
    let rows = server.history("tick");
    let mut dues: Vec<i64> = rows.iter().filter_map(|row| row["due_ms"].as_i64()).collect();
    let count = dues.len();
    dues.sort_unstable();
    dues.dedup();
    assert_eq!(dues.len(), count, "{rows:?}");
    assert!(server.stop().success());
}

#[test]
fn a_second_server_on_one_sqlite_file_is_refused() {
    let (one, two) = (Home::new(), Home::new());
    let url = format!("sqlite:{}", one.path("record.db").display());
    let server = one.serve_with(&["--store", &url]);
    let said = refused(&two, &["--store", &url]);
    assert!(said.contains("another server works on it"), "{said}");
    server.kill();
    let server = two.serve_with(&["--store", &url]);
    assert!(server.stop().success());
}
