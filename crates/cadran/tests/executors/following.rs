//! Logs that grow at executors, followed here.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use super::stub::Stub;
use super::support::{Home, cadran};
use super::{door, ended, job, serve, trigger};

#[test]
fn a_growing_log_is_followed_to_its_end() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let stub = Stub::new(&door(&server));
    stub.register("g");
    home.job("hold", &job("hold", ""));
    let id = trigger(&server, "hold");
    let order = stub.wait("run", 1).remove(0);
    let mut follower = cadran()
        .env("CADRAN_DATA", home.data())
        .args(["logs", "-f", &id])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(follower.stdout.take().expect("a pipe")).lines();
    let mut next = || lines.next().expect("a line").expect("text");
    let log = &order["logId"];
    for (upto, from) in [(3, 1), (4, 4), (200, 5)] {
        stub.print(upto);
        // Each line once, in order, while the run is on.
        for no in from..=upto {
            assert_eq!(next(), format!("line {no} of {log}"));
        }
    }
    stub.print(203);
    assert_eq!(stub.report(log, 200, "done")["code"], 200);
    // What was printed last is there although the run is over.
    for no in 201..=203 {
        assert_eq!(next(), format!("line {no} of {log}"));
    }
    assert!(lines.next().is_none(), "and then it ends");
    assert!(follower.wait().expect("it ends").success());
    assert_eq!(ended(&server, &id)["status"], "succeeded");
}
