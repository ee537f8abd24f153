//! The server as its users meet it: files, runs, restarts.

mod support;

use std::os::unix::fs::PermissionsExt;

use support::{Home, alive, run, wait_for};

#[test]
fn a_one_off_in_the_past_is_said_to_be_over() {
    let home = Home::new();
    home.job("past", "schedule: at 2020-01-01T00:00:00Z\nrun: 'true'\n");
    home.job("leap", "schedule: 0 0 29 2 *\nrun: 'true'\n");
    home.job("hand", "run: 'true'\n");
    let jobs = home.path("jobs");
    let checked = run(&["check", jobs.to_str().expect("a path")]);
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    let note = "note: job past: its schedule lies in the past: it will not run again by itself";
    assert!(checked.status.success() && said.contains(note), "{said}");
    assert_eq!(said.matches("note:").count(), 1, "{said}");
    let server = home.serve();
    let listed = wait_for("the jobs", || {
        let text = String::from_utf8_lossy(&home.client(&["jobs"]).stdout).into_owned();
        (text.lines().count() == 4).then_some(text)
    });
    let line = |name: &str| listed.lines().find(|line| line.starts_with(name)).expect("a line").to_owned();
    assert!(line("past").contains("never: in the past"), "{listed}");
    assert!(!line("leap").contains("never") && !line("hand").contains("never"), "{listed}");
    assert_eq!(server.get("/api/v1/jobs/past").1["schedule_over"], true);
    assert!(server.get("/api/v1/jobs/leap").1["schedule_over"].is_null());
}

#[test]
fn a_due_becomes_a_run_with_its_logical_time() {
    let home = Home::new();
    let out = home.path("out");
    home.job(
        "hello",
        &format!(
            "schedule: every 1s\nrun: echo \"$CADRAN_JOB $CADRAN_DUE $CADRAN_RUN_ID\" >> {}\n",
            out.display()
        ),
    );
    let server = home.serve();
    assert!(server.ready.contains("1 jobs"), "{}", server.ready);
    let done = server.run_with("hello", "succeeded");
    let line = wait_for("the job's line", || home.lines("out").into_iter().next());
    assert!(line.starts_with("hello 20"), "{line}");
    let due = done["due"].as_str().expect("a due");
    let id = done["id"].as_str().expect("an id");
    assert!(
        home.lines("out").contains(&format!("hello {due} {id}")),
        "{due} {id} in {:?}",
        home.lines("out")
    );
    assert!(done["late_ms"].as_i64().is_some_and(|late| late < 5_000), "{done}");
    assert!(server.stop().success());
}

#[test]
fn files_come_change_and_go_while_the_server_runs() {
    let home = Home::new();
    let server = home.serve();
    home.job("first", "schedule: every 1s\nrun: echo one\n");
    server.run_with("first", "succeeded");
    // Edited: the new definition is in force, under the same job.
    home.job("first", "schedule: every 1s\nrun: exit 3\n");
    let failed = server.run_with("first", "failed");
    assert_eq!(failed["revision"], 2, "{failed}");
    // Malformed: shown with its place, the last good job stays, and nobody else is disturbed.
    home.job("other", "schedule: every 1s\nrun: echo two\n");
    home.job("first", "schedule: every 1s\nrnu: exit 3\n");
    let problem = wait_for("the problem", || {
        let (_, body) = server.get("/api/v1/problems");
        body["problems"].as_array()?.iter().find(|problem| problem["code"] == "unknown_key").cloned()
    });
    assert_eq!((problem["line"].as_u64(), problem["column"].as_u64()), (Some(2), Some(1)), "{problem}");
    server.run_with("other", "succeeded");
    // Deleted: gone, with its history kept.
    home.remove_job("other");
    wait_for("the job to go", || {
        (server.get("/api/v1/jobs/other").1["removed_at"].is_string()
            || server.get("/api/v1/jobs/other").0 == 404)
            .then_some(())
    });
    assert!(!server.runs("other", "succeeded").is_empty());
    assert!(server.stop().success());
}

#[test]
fn a_burst_of_files_is_taken_whole() {
    let home = Home::new();
    let server = home.serve();
    for no in 0..2_000 {
        std::fs::write(home.path(&format!("jobs/job{no}.yaml")), "schedule: '@yearly'\nrun: 'true'\n")
            .expect("a file");
    }
    wait_for("all jobs", || {
        let (_, text) = server.get("/metrics");
        text.as_str().is_some_and(|text| text.lines().any(|line| line == "cadran_jobs 2000")).then_some(())
    });
    assert!(server.stop().success());
}

#[test]
fn a_run_by_hand_gets_its_parameters_as_data() {
    let home = Home::new();
    let out = home.path("out");
    home.job(
        "greet",
        &format!("params: {{who: world}}\nrun: printf '%s\\n' \"$who\" >> {}\n", out.display()),
    );
    let server = home.serve();
    let evil = "$(touch stolen); `id` \\\" ' ; echo";
    let run = server.trigger("greet", &serde_json::json!({ "params": { "who": evil } }).to_string());
    server.run_is(&run, "succeeded");
    let run = server.trigger("greet", "{}");
    server.run_is(&run, "succeeded");
    assert_eq!(home.lines("out"), [evil, "world"]);
    let (code, refused) = server.post("/api/v1/jobs/greet/trigger", r#"{"params":{"PATH":"/tmp"}}"#);
    assert_eq!(code, 422, "{refused}");
    let (code, _) = server.post("/api/v1/jobs/nobody/trigger", "{}");
    assert_eq!(code, 404);
}

#[test]
fn steps_retry_and_hand_over_outputs_and_handlers_run() {
    let home = Home::new();
    let dir = home.path("");
    home.job(
        "flow",
        &format!(
            "steps:\n  - name: flaky\n    run: test \"$CADRAN_ATTEMPT\" = 3\n    retry: {{limit: 4, interval: 10ms}}\n  \
             - name: make\n    depends: flaky\n    run: echo '  value 7  '\n    output: VALUE\n  \
             - name: use\n    depends: make\n    run: echo \"[$VALUE]\" >> out\n    dir: {0}\n\
             handlers:\n  success: echo success >> {0}/out\n  exit: echo exit >> {0}/out\n",
            dir.display()
        ),
    );
    let server = home.serve();
    let run = server.trigger("flow", "{}");
    let done = server.run_is(&run, "succeeded");
    assert_eq!(home.lines("out"), ["[value 7]", "success", "exit"]);
    let steps = done["steps"].as_array().expect("steps");
    assert_eq!(steps[0]["attempt"], 3, "{done}");
}

#[test]
fn a_stopped_run_leaves_no_process_and_can_be_retried() {
    let home = Home::new();
    let marker = format!("cadran-test-{}-stop", std::process::id());
    let hang = format!("sh -c 'sleep 300; echo {marker}'");
    home.job("long", &format!("run: |\n  (setsid {hang} &)\n  {hang}\n"));
    let server = home.serve();
    let run = server.trigger("long", "{}");
    server.run_is(&run, "running");
    wait_for("the processes", || alive(&marker).then_some(()));
    let (code, answer) = server.post(&format!("/api/v1/runs/{run}/stop"), "");
    assert!(code < 300, "{code} {answer}");
    let stopped = server.run_is(&run, "stopped");
    assert_eq!(stopped["attempt"], 1);
    wait_for("every process to go", || (!alive(&marker)).then_some(()));
    home.job("long", "run: echo short\n");
    wait_for("the edit", || (server.get("/api/v1/jobs/long").1["revision"] == 2).then_some(()));
    let (code, answer) = server.post(&format!("/api/v1/runs/{run}/retry"), "");
    assert!(code < 300, "{code} {answer}");
    server.run_is(&run, "running");
    server.post(&format!("/api/v1/runs/{run}/stop"), "");
    server.run_is(&run, "stopped");
    wait_for("every process to go", || (!alive(&marker)).then_some(()));
}

#[test]
fn the_future_is_told_near_and_far() {
    let home = Home::new();
    home.job("minutely", "schedule: '* * * * *'\nrun: 'true'\n");
    home.job("yearly", "schedule: '0 0 1 1 *'\nrun: 'true'\n");
    let server = home.serve();
    let jobs = |query: &str| {
        let (status, body) = server.get(&format!("/api/v1/upcoming?{query}"));
        assert_eq!(status, 200, "{body}");
        let dues = body["upcoming"].as_array().expect("a list").clone();
        dues.into_iter()
            .map(|due| format!("{} {}", due["due"].as_str().unwrap(), due["job"].as_str().unwrap()))
            .collect::<Vec<_>>()
    };
    // Far beyond what the index holds.
    let far = jobs("from=2199-01-01T00:00:00Z&to=2199-01-01T00:02:00Z");
    assert_eq!(far, ["2199-01-01T00:01:00.000Z minutely", "2199-01-01T00:02:00.000Z minutely"]);
    assert_eq!(
        jobs("from=2198-12-31T23:59:59Z&limit=2"),
        ["2199-01-01T00:00:00.000Z minutely", "2199-01-01T00:00:00.000Z yearly"]
    );
    assert_eq!(jobs("from=2198-12-30T00:00:00Z&to=2199-01-02T00:00:00Z&job=yearly").len(), 1);
    assert_eq!(jobs("limit=50").len(), 50);
    let day = || {
        let (_, body) = server.get("/api/v1/forecast?minutes=1440");
        body["runs"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|count| count.as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    let runs = day();
    assert_eq!((runs.len(), runs.iter().all(|&count| (1..=2).contains(&count))), (1440, true), "{runs:?}");
    // A pause and an edit are seen at once, not with the next index.
    assert!(server.post("/api/v1/jobs/minutely/pause", "").0 < 300);
    assert_eq!(jobs("from=2199-01-01T00:00:00Z&to=2199-01-01T00:02:00Z"), [""; 0]);
    assert!(day().iter().sum::<u64>() <= 1);
    assert!(server.post("/api/v1/jobs/minutely/resume", "").0 < 300);
    home.job("minutely", "schedule: '30 * * * *'\nrun: 'true'\n");
    wait_for("the edited schedule", || (day().iter().sum::<u64>() <= 25).then_some(()));
    assert!(server.stop().success());
}

#[test]
fn pause_counts_what_it_skips() {
    let home = Home::new();
    home.job("beat", "schedule: every 1s\nrun: 'true'\n");
    let server = home.serve();
    server.run_with("beat", "succeeded");
    assert!(server.post("/api/v1/jobs/beat/pause", "").0 < 300);
    // Promised runs are skipped with the reason; dues that fall into the pause are counted when it ends.
    wait_for("a skipped run", || {
        let skipped = server.runs("beat", "skipped");
        skipped
            .iter()
            .any(|run| run["skip"]["reason"] == "paused" || run.to_string().contains("paused"))
            .then_some(())
    });
    let before = server.runs("beat", "succeeded").len();
    assert!(server.post("/api/v1/jobs/beat/resume", "").0 < 300);
    wait_for("the next run", || (server.runs("beat", "succeeded").len() > before).then_some(()));
}

#[test]
fn a_killed_server_goes_on_where_it_stood() {
    let home = Home::new();
    let marker = format!("cadran-test-{}-kill", std::process::id());
    let out = home.path("out");
    home.job(
        "long",
        &format!("run: echo \"$CADRAN_ATTEMPT\" >> {}; sh -c 'sleep 300; echo {marker}'\n", out.display()),
    );
    let server = home.serve();
    let run = server.trigger("long", "{}");
    server.run_is(&run, "running");
    wait_for("the process", || alive(&marker).then_some(()));
    server.kill();
    assert!(alive(&marker), "work outlives the server");
    home.kill_executor();
    let server = home.serve();
    // The lost attempt is started again, visibly, and the run is the same.
    wait_for("the second attempt", || (home.lines("out") == ["1", "2"]).then_some(()));
    // The process is there a moment before the record of its start.
    wait_for("the record of it", || (server.run_is(&run, "running")["attempt"] == 2).then_some(()));
    let status = server.stop();
    assert!(status.success(), "{status}: {}", home.log());
    assert!(home.client(&["executor", "stop", "--now"]).status.success());
    wait_for("no stray", || (!alive(&marker)).then_some(()));
}

#[test]
fn at_most_once_means_not_again_after_a_kill() {
    let home = Home::new();
    let out = home.path("out");
    home.job("once", &format!("retry: never\nrun: echo x >> {}; sleep 300\n", out.display()));
    let server = home.serve();
    let run = server.trigger("once", "{}");
    wait_for("the start", || (!home.lines("out").is_empty()).then_some(()));
    server.kill();
    home.kill_executor();
    let server = home.serve();
    server.run_is(&run, "lost");
    assert_eq!(home.lines("out"), ["x"]);
}

#[test]
fn missed_dues_are_judged_after_downtime() {
    let home = Home::new();
    home.job("minutely", "schedule: every 1s\nmisfire: once\nrun: 'true'\n");
    let server = home.serve();
    server.run_with("minutely", "succeeded");
    server.kill();
    // Twelve seconds away: some dues are more than ten seconds late by then.
    wait_for_downtime();
    let server = home.serve();
    wait_for("a superseded stretch", || {
        let (_, body) = server.get("/api/v1/history?job=minutely&limit=1000");
        body.to_string().contains("superseded").then_some(())
    });
    assert!(server.stop().success());
}

/// Downtime is a stretch of time: there is no moment to wait for but its end.
#[allow(clippy::disallowed_methods)]
fn wait_for_downtime() {
    std::thread::sleep(std::time::Duration::from_secs(12));
}

#[test]
fn two_servers_do_not_share_a_directory() {
    let home = Home::new();
    let server = home.serve();
    let data = home.data();
    let second = run(&["serve", "--data", &data.display().to_string(), "--listen", "127.0.0.1:0"]);
    assert!(!second.status.success());
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.trim_end().ends_with("a directory of its own with --data"), "{said}");
    assert!(said.contains("another server uses"), "{said}");
    assert!(server.stop().success());
}

#[test]
fn closed_by_default() {
    let home = Home::new();
    let server = home.serve();
    let mode = std::fs::metadata(home.data().join("token")).expect("a token").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(server.get("/health").0, 200);
    let open = run(&["serve", "--data", "/nowhere", "--listen", "0.0.0.0:0"]);
    assert!(!open.status.success());
    assert!(String::from_utf8_lossy(&open.stderr).contains("--behind-proxy"));
    assert!(server.stop().success());
}

#[test]
fn a_job_that_triggers_itself_comes_to_an_end() {
    let home = Home::new();
    let binary = env!("CARGO_BIN_EXE_cadran");
    home.job(
        "echo",
        &format!("overlap: allow\nrun: CADRAN_DATA={} {binary} trigger echo\n", home.data().display()),
    );
    let server = home.serve();
    server.trigger("echo", "{}");
    let failed = server.run_with("echo", "failed");
    assert!(server.runs("echo", "failed,succeeded").len() <= 18, "{failed}");
    assert!(server.stop().success());
}

/// A run that goes on until a file is there.
fn until(file: &std::path::Path) -> String {
    format!("until [ -e {} ]; do sleep 0.05; done", file.display())
}

#[test]
fn runs_that_touch_the_same_things_take_turns_also_across_a_crash() {
    let home = Home::new();
    let go = home.path("go");
    home.job("resources", "resources: {gpu: 4}\n");
    home.job(
        "etl",
        &format!("footprint: {{writes: table:orders, capacity: {{gpu: 3}}}}\nrun: {}\n", until(&go)),
    );
    home.job("report", "footprint: {reads: table:orders/eu}\nrun: echo done\n");
    home.job("train", "footprint: {capacity: {gpu: 2}, on_conflict: skip}\nrun: echo done\n");
    home.job("greedy", "run: x\nfootprint: {capacity: {gpu: 5}}\n");
    let server = home.serve();
    assert!(server.ready.contains("3 jobs"), "{}", server.ready);
    let problem = wait_for("the problem", || {
        let (_, body) = server.get("/api/v1/problems");
        body["problems"].as_array()?.first().cloned()
    });
    assert_eq!((&problem["line"], &problem["column"]), (&2.into(), &29.into()), "{problem}");
    let etl = server.trigger("etl", "{}");
    server.run_is(&etl, "running");
    let report = server.trigger("report", "{}");
    let waiting = server.run_is(&report, "waiting");
    let wanted = format!("waiting for read of table:orders/eu held by run {etl} of job etl since 20");
    let said = waiting["explanation"].as_str().unwrap_or_default();
    assert!(said.starts_with(&wanted), "{waiting}");
    let skipped = server.run_is(&server.trigger("train", "{}"), "skipped");
    assert_eq!(skipped["skip_reason"], "conflict", "{skipped}");
    assert!(skipped["explanation"].as_str().is_some_and(|text| text.contains("2 of pool gpu held by run")));
    let text = |args: &[&str]| String::from_utf8_lossy(&home.client(args).stdout).into_owned();
    let why = text(&["why", &report]);
    assert!(why.contains(&wanted) && why.contains("it is the next in line"), "{why}");
    assert!(text(&["why", &etl]).contains("holds write of table:orders\n"), "{}", text(&["why", &etl]));
    assert!(text(&["ps"]).contains("waiting for read of table:orders/eu"), "{}", text(&["ps"]));
    assert_eq!(home.json(&["why", &report, "--json"])["waits_for"]["job"], "etl");
    let (_, conflicts) = server.get("/api/v1/conflicts");
    assert_eq!(conflicts["conflicts"].as_array().map(Vec::len), Some(2), "{conflicts}");
    wait_for("the gauge", || {
        let (_, metrics) = server.get("/metrics");
        metrics.to_string().contains("cadran_runs_waiting_for{what=\\\"footprint\\\"} 1").then_some(())
    });
    // What ran holds again, and who waited waits again.
    server.kill();
    let server = home.serve();
    server.run_is(&etl, "running");
    server.run_is(&report, "waiting");
    std::fs::write(go, "").expect("a file");
    server.run_is(&etl, "succeeded");
    server.run_is(&report, "succeeded");
    assert!(server.stop().success());
}

#[test]
fn check_says_which_jobs_exclude_which() {
    let home = Home::new();
    home.job("a", "footprint: {writes: 's3://bucket/day/'}\nrun: x\n");
    home.job("b", "footprint: {reads: 's3://bucket/day/x'}\nrun: x\n");
    home.job("c", "footprint: {reads: 's3://bucket/night/'}\nrun: x\n");
    let jobs = home.path("jobs");
    let checked = run(&["check", "--conflicts", &jobs.display().to_string()]);
    let text = String::from_utf8_lossy(&checked.stdout).into_owned();
    let expected = "a and b exclude one another: write of s3://bucket/day, and read of s3://bucket/day/x\n\
                    1 conflicts among 3 jobs with a footprint\n3 good, 0 with errors\n";
    assert_eq!((checked.status.code(), text.as_str()), (Some(0), expected));
}
