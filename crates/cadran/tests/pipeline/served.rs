//! The four job files under a real server.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::home::{Home, said, wait_for};

#[test]
fn a_server_on_the_jobs_folder_runs_the_pipeline() {
    let home = Home::new();
    home.git(&["init", "--quiet", "--initial-branch=main", "."]);
    let hash = home.commit("src/a.cpp", "int a;\n");
    home.init();
    let good = "echo '#!/bin/sh' > \"$CADRAN_OUT/fuzz\"";
    home.settings(good, "echo '#7 NEW cov: 5 exec/s: 1 rss: 3Mb'", "");
    let cadran = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cadran"));
        command.current_dir(home.path(".")).env("CADRAN_DATA", home.path("data"));
        command
    };
    let output = cadran().args(["check", "jobs"]).output().expect("it starts");
    assert!(String::from_utf8_lossy(&output.stdout).contains("4 good, 0 with errors"), "{}", said(&output));

    // The documented times are hours away: here the passes follow one another every second.
    for pass in ["manager", "builder", "fuzzer"] {
        let path = home.path(&format!("jobs/demo-{pass}.yaml"));
        let text = fs::read_to_string(&path).expect("there");
        let lines =
            text.lines().map(|line| if line.starts_with("schedule:") { "schedule: every 1s" } else { line });
        // Steps do not see our environment: what the test sets goes into the file.
        let text = lines.collect::<Vec<_>>().join("\n").replace(
            "\"--config\"",
            &format!("\"--cache\", \"{}\", \"--config\"", home.path("cache").display()),
        );
        fs::write(&path, text).expect("written");
    }
    let mut server = cadran()
        .args(["serve", "--jobs", "jobs", "--listen", "127.0.0.1:0", "--stop-patience", "1", "--data"])
        .arg(home.path("data"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(server.stdout.take().expect("piped")).lines();
    assert!(lines.next().is_some_and(|line| line.is_ok_and(|line| line.starts_with("cadran is ready"))));
    let fuzzed = wait_for("a fuzz run", || home.schedule().into_iter().find(|(_, count)| *count > 0));
    assert_eq!(fuzzed.0, hash);
    // Every job takes a commit by hand; the schedules go on without one.
    let wrong = cadran().args(["trigger", "demo-fuzzer", "-p", "commit=zzz", "--wait"]).output();
    assert_eq!(wrong.expect("it starts").status.code(), Some(1), "it is no commit");
    let passes = ["manager", "builder", "fuzzer", "coverage"];
    for pass in passes {
        let paused = cadran().args(["pause", &format!("demo-{pass}")]).output().expect("it starts");
        assert!(paused.status.success(), "{pass}: {}", said(&paused));
    }
    let second = home.commit("src/b.cpp", "int b;\n");
    let commit = format!("commit={}", &second[..12]);
    for pass in passes {
        let job = format!("demo-{pass}");
        // A run of the schedule may still be on: then this one is skipped.
        wait_for(&format!("{job} with a commit"), || {
            let trigger = cadran().args(["trigger", &job, "-p", &commit, "--wait"]).output();
            let output = trigger.expect("it starts");
            let is_skipped = String::from_utf8_lossy(&output.stdout).contains("skipped");
            assert!(output.status.success() || is_skipped, "{job}: {}", said(&output));
            output.status.success().then_some(())
        });
    }
    let counts = home.schedule().into_iter().find(|(hash, _)| *hash == second);
    assert_eq!(counts.map(|(_, count)| count), Some(1), "the commit that was named was fuzzed");
    kill(Pid::from_raw(server.id() as i32), Signal::SIGTERM).expect("it is ours");
    server.wait().expect("it ends");
}
