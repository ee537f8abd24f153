//! What is documented is exercised: each key of a job file, each command and option, each endpoint, metric and skip
//! reason, through the built binary. A comment above each test names what it covers; `cargo xtask check` holds the list
//! against the code.
#![allow(unreachable_pub)] // every test file is a crate of its own

#[path = "../support/mod.rs"]
mod support;

mod browser;
mod clients;
mod container_steps;
mod definitions;
mod endpoints;
mod flow;
mod footprints;
mod http_steps;
mod late;
mod lists;
mod overlap;
mod reading;
mod schedules;
mod serving;
mod steps;

use std::process::Output;

use serde_json::Value;
use support::{Home, Server, cadran};

/// A job that ran in the foreground, in a directory of its own.
struct Ran {
    home: Home,
    code: Option<i32>,
    summary: Value,
    said: String,
}

impl Ran {
    /// `NAME STATUS` of each step that is on record, handlers included.
    fn steps(&self) -> Vec<String> {
        let steps = self.summary["steps"].as_array().cloned().unwrap_or_default();
        let word = |step: &Value, key: &str| step[key].as_str().unwrap_or_default().to_owned();
        steps.iter().map(|step| format!("{} {}", word(step, "name"), word(step, "status"))).collect()
    }

    fn step(&self, name: &str) -> Value {
        let steps = self.summary["steps"].as_array().cloned().unwrap_or_default();
        steps
            .into_iter()
            .find(|step| step["name"] == name)
            .unwrap_or_else(|| panic!("no step {name}: {}", self.said))
    }

    fn lines(&self, file: &str) -> Vec<String> {
        self.home.lines(file)
    }
}

/// Runs a job file by `cadran run`; relative paths in it are in `Ran::home`.
fn run_job(text: &str) -> Ran {
    run_job_with(text, &[])
}

fn run_job_with(text: &str, args: &[&str]) -> Ran {
    let home = Home::new();
    std::fs::write(home.path("job.yaml"), text).expect("a file");
    let output = cadran()
        .args(["run", "job.yaml", "--json"])
        .args(args)
        .current_dir(home.path(""))
        .output()
        .expect("it starts");
    let said = said(&output);
    let summary = serde_json::from_slice(&output.stdout).unwrap_or_default();
    Ran { home, code: output.status.code(), summary, said }
}

/// Everything that a command printed.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a client command that has to succeed, and gives what it printed.
fn client(home: &Home, args: &[&str]) -> String {
    let output = home.client(args);
    assert!(output.status.success(), "{args:?}: {}", said(&output));
    stdout(&output)
}

/// Six hundred dues a second: the shortest period is 10 ms, so six of them take turns.
const DENSE: &str = "schedule: [every 10ms, {every: 10ms, from: '2026-01-01T00:00:00.002Z'}, \
                     {every: 10ms, from: '2026-01-01T00:00:00.003Z'}, {every: 10ms, from: '2026-01-01T00:00:00.004Z'}, \
                     {every: 10ms, from: '2026-01-01T00:00:00.006Z'}, {every: 10ms, from: '2026-01-01T00:00:00.008Z'}]";

/// A command that goes on until a file is there.
fn until(home: &Home, file: &str) -> String {
    format!("until [ -e {} ]; do sleep 0.05; done", home.path(file).display())
}

fn touch(home: &Home, file: &str) {
    std::fs::write(home.path(file), "").expect("a file");
}

/// Reasons on record for dues of a job that did not become started runs.
fn reasons(server: &Server, job: &str) -> Vec<String> {
    let history = server.history(job);
    let reason = |item: &Value| item["skip_reason"].as_str().or(item["reason"].as_str()).map(str::to_owned);
    history.iter().filter_map(reason).collect()
}
