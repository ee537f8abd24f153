//! Broadcasts to workers: one share at each, stopped alone, followed alone, and taking turns where workers are missing.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use serde_json::{Value, json};

use super::shares::shares_are;
use super::support::{Server, cadran, wait_for};
use super::workers::{Rig, Work, is_alive, wait_gone};
use super::{ended, show, trigger};

/// Workers in the order in which a broadcast gives shares to them.
fn crew(rig: &Rig, names: &[&str]) -> Vec<Work> {
    let mut crew: Vec<Work> = names.iter().map(|name| rig.worker(name, &[])).collect();
    crew.sort_by_key(Work::address);
    crew
}

/// A broadcast whose shares note their start, print, and wait for a file of their own, or for `go-all`, to go on.
fn broadcast(rig: &Rig, more: &str) {
    let path = |file: &str| rig.home.path(file).display().to_string();
    rig.home.job(
        "all",
        &format!(
            "executor: g\nroute: broadcast\n{more}\nrun: |\n  me=$CADRAN_SHARD_INDEX\n  \
             echo \"begin $me/$CADRAN_SHARD_TOTAL $CADRAN_ATTEMPT $$\" >> {notes}\n  \
             echo \"share $me begins\"\n  \
             while [ ! -e {go}-$me ] && [ ! -e {go}-all ]; do sleep 0.05; done\n  \
             echo \"share $me ends\"\n  echo \"end $me/$CADRAN_SHARD_TOTAL $CADRAN_ATTEMPT $$\" >> {notes}\n",
            notes = path("notes"),
            go = path("go"),
        ),
    );
}

/// What the shares noted, without their processes: `begin 0/3 1`.
fn notes(rig: &Rig) -> Vec<String> {
    let cut = |line: String| line.rsplit_once(' ').map(|(text, _)| text.to_owned()).unwrap_or(line);
    rig.home.lines("notes").into_iter().map(cut).collect()
}

fn wait_notes(rig: &Rig, count: usize) -> Vec<String> {
    wait_for(&format!("{count} notes"), || Some(notes(rig)).filter(|notes| notes.len() >= count))
}

/// The process of a share, as it noted it.
fn pid(rig: &Rig, share: u32) -> i32 {
    let lines = rig.home.lines("notes");
    let line = lines.iter().rfind(|line| line.starts_with(&format!("begin {share}/")));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect("a pid")
}

fn go(rig: &Rig, who: &str) {
    fs::write(rig.home.path(&format!("go-{who}")), "").expect("written");
}

fn share_is(server: &Server, name: &str, status: &str) -> Value {
    wait_for(&format!("{name} to be {status}"), || {
        Some(show(server, name)).filter(|share| share["status"] == status)
    })
}

/// `cadran logs -f`, and its lines as they come.
struct Follower {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Follower {
    fn new(rig: &Rig, name: &str) -> Follower {
        let mut child = cadran()
            .env("CADRAN_DATA", rig.home.data())
            .args(["logs", "-f", name])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Follower { child, lines }
    }

    fn line(&mut self) -> Option<String> {
        self.lines.next().map(|line| line.expect("text"))
    }

    fn ends(mut self) {
        assert_eq!(self.line(), None, "and then it ends");
        assert!(self.child.wait().expect("it ends").success());
    }
}

#[test]
fn the_log_of_a_step_at_a_worker_is_followed_to_its_end() {
    let rig = Rig::new();
    let server = rig.serve();
    let _worker = rig.worker("w", &[]);
    let steps = rig.home.path("line").display().to_string();
    rig.home.job(
        "lines",
        &format!(
            "executor: g\nrun: |\n  for no in 1 2 3; do\n    while [ ! -e {steps}-$no ]; do sleep 0.02; done\n    \
             echo \"line $no\"\n  done\n  echo last; echo to stderr >&2\n"
        ),
    );
    let id = trigger(&server, "lines");
    server.run_is(&id, "running");
    let mut follower = Follower::new(&rig, &id);
    for no in 1..=3 {
        // Nothing of the next line is there before it is printed, and what is printed comes while the step is on.
        fs::write(rig.home.path(&format!("line-{no}")), "").expect("written");
        assert_eq!(follower.line(), Some(format!("line {no}")));
        assert!(no == 3 || show(&server, &id)["status"] == "running");
    }
    let mut rest = [follower.line(), follower.line()];
    rest.sort();
    assert_eq!(rest, [Some("last".to_owned()), Some("to stderr".to_owned())]);
    follower.ends();
    assert_eq!(ended(&server, &id)["status"], "succeeded");
}

#[test]
fn a_share_at_a_worker_is_followed_and_stopped_alone() {
    let rig = Rig::new();
    let server = rig.serve();
    let crew = crew(&rig, &["a", "b", "c"]);
    broadcast(&rig, "retry: {limit: 2, interval: 0s}");
    let id = trigger(&server, "all");
    wait_notes(&rig, 3);
    shares_are(&server, &id, &["running"; 3]);
    let child = show(&server, &format!("{id}.1"));
    assert_eq!(child["executor"], crew[1].address().as_str(), "{child}");

    // Who follows one share hears that one, and its end, while the others are on.
    let mut follower = Follower::new(&rig, &format!("{id}.0"));
    assert_eq!(follower.line().as_deref(), Some("share 0 begins"));
    go(&rig, "0");
    assert_eq!(follower.line().as_deref(), Some("share 0 ends"));
    follower.ends();
    share_is(&server, &format!("{id}.0"), "succeeded");

    // A stop ends the processes of one share and of no other.
    let (stopped, other) = (pid(&rig, 1), pid(&rig, 2));
    assert!(rig.home.client(&["stop", &format!("{id}.1")]).status.success());
    wait_gone(stopped);
    share_is(&server, &format!("{id}.1"), "stopped");
    assert!(is_alive(other), "the others go on");
    assert_eq!(show(&server, &id)["status"], "running");
    server.kill();
    let server = rig.serve();
    crew[2].wait_count("connected", 2);
    go(&rig, "2");
    let done = ended(&server, &id);
    assert_eq!((&done["status"], &done["steps"][0]["attempt"]), (&json!("failed"), &json!(1)), "{done}");
    let says = format!("1 of 3 shares failed; share 1 at {}: stopped on request", crew[1].address());
    assert!(done["explanation"].as_str().is_some_and(|text| text.contains(&says)), "{done}");
    shares_are(&server, &id, &["succeeded", "stopped", "succeeded"]);

    // Asked for again, it is the only one that runs.
    go(&rig, "all");
    assert!(rig.home.client(&["retry", "--wait", &format!("{id}.1")]).status.success());
    assert_eq!(ended(&server, &id)["status"], "succeeded");
    let begun: Vec<String> = notes(&rig).into_iter().filter(|note| note.starts_with("begin")).collect();
    assert_eq!(begun.len(), 4, "{begun:?}");
    assert_eq!(begun[3], "begin 1/3 2");
}

#[test]
fn shares_of_workers_that_vanished_take_turns_at_the_one_that_is_left() {
    let rig = Rig::new();
    let server = rig.serve();
    let mut crew = crew(&rig, &["a", "b", "c"]);
    // Under `discard` a worker would refuse a second one beside the first.
    broadcast(&rig, "block: discard");
    let id = trigger(&server, "all");
    wait_notes(&rig, 3);
    shares_are(&server, &id, &["running"; 3]);
    let left = crew.remove(0);
    crew.into_iter().for_each(Work::kill);
    go(&rig, "0");
    // Both are lost with their workers, and go to the one that is left: the first, and then the other.
    let begun = |notes: &[String]| notes.iter().filter(|note| note.starts_with("begin")).count();
    let seen = wait_for("the next share to begin", || Some(notes(&rig)).filter(|notes| begun(notes) >= 4));
    assert_eq!(seen.last().map(String::as_str), Some("begin 1/3 2"), "{seen:?}");
    // The two workers need not be missed at the same moment.
    let status = share_is(&server, &format!("{id}.2"), "waiting");
    assert_eq!(status["executor"], json!(left.address()), "{status}");
    go(&rig, "all");
    let done = ended(&server, &id);
    assert_eq!((&done["status"], &done["steps"][0]["attempt"]), (&json!("succeeded"), &json!(2)), "{done}");
    let second: Vec<String> = notes(&rig).into_iter().filter(|note| note.ends_with(" 2")).collect();
    assert_eq!(
        second,
        ["begin 1/3 2", "end 1/3 2", "begin 2/3 2", "end 2/3 2"],
        "one after another, in order"
    );
    for share in 1..3 {
        let log = rig.home.client(&["logs", &format!("{id}.{share}")]);
        let text = String::from_utf8_lossy(&log.stdout).into_owned();
        assert_eq!(text.matches(&format!("share {share} ends")).count(), 1, "{text}");
        let other = format!("share {}", 3 - share);
        assert!(!text.contains(&other), "its log is its own: {text}");
    }
}
