//! What happens to a run of a job that is still active, waits, or was taken care of already.

use super::support::{Home, Server, id_of, wait_for};
use super::{DENSE, reasons, touch, until};

/// A job whose runs go on until the file `go` is there, under an overlap rule.
fn job(home: &Home, name: &str, overlap: &str) {
    let out = home.path(name).display().to_string();
    home.job(
        name,
        &format!("{overlap}\nparams: {{no: 0}}\nrun: echo \"$no\" >> {out}; {}\n", until(home, "go")),
    );
}

fn trigger(server: &Server, job: &str, no: usize) -> String {
    server.trigger(job, &format!(r#"{{"params":{{"no":"{no}"}}}}"#))
}

// covers: key job.{overlap,overlap_policy}
// covers: reason {overlap,superseded}
#[test]
fn a_job_that_is_still_active_does_as_overlap_says() {
    let home = Home::new();
    for (name, overlap) in [
        ("default", "priority: 0"),
        ("skip", "overlap: skip"),
        ("allow", "overlap_policy: allow"),
        ("wait", "overlap: wait"),
        ("all", "overlap: all"),
        ("latest", "overlap: latest"),
        ("replace", "overlap: replace"),
    ] {
        job(&home, name, overlap);
    }
    let server = home.serve();
    let runs: Vec<(&str, Vec<String>)> = ["default", "skip", "allow", "wait", "all", "latest", "replace"]
        .into_iter()
        .map(|job| {
            let first = trigger(&server, job, 1);
            wait_for("the first line", || (!home.lines(job).is_empty()).then_some(()));
            (job, vec![first, trigger(&server, job, 2), trigger(&server, job, 3)])
        })
        .collect();
    for (job, runs) in &runs {
        let expected = match *job {
            "default" | "skip" => ["running", "skipped", "skipped"],
            "allow" => ["running"; 3],
            "wait" | "all" => ["running", "waiting", "waiting"],
            "latest" => ["running", "skipped", "waiting"],
            _ => ["stopped", "skipped", "running"],
        };
        for (run, status) in runs.iter().zip(expected).take(if *job == "replace" { 1 } else { 3 }) {
            server.run_is(run, status);
        }
    }
    assert_eq!(reasons(&server, "skip"), ["overlap", "overlap"]);
    assert_eq!(reasons(&server, "latest"), ["superseded"]);
    server.run_is(&runs[6].1[2], "running");
    touch(&home, "go");
    for (job, runs) in &runs {
        let last = if matches!(*job, "default" | "skip") { &runs[0] } else { &runs[2] };
        server.run_is(last, "succeeded");
    }
    assert_eq!(
        (home.lines("wait"), home.lines("latest")),
        (vec!["1".into(), "2".into(), "3".into()], vec!["1".to_owned(), "3".into()])
    );
    assert!(server.stop().success());
}

// covers: reason {wait_room_full,removed}
#[test]
fn at_most_a_thousand_runs_of_a_job_wait_and_go_with_their_job() {
    let home = Home::new();
    home.job("crowd", &format!("{DENSE}\noverlap: wait\nrun: {}\n", until(&home, "go")));
    let server = home.serve();
    let first = id_of(&server.run_with("crowd", "running"));
    wait_for("a full room", || {
        reasons(&server, "crowd").contains(&"wait_room_full".to_owned()).then_some(())
    });
    assert!(server.runs("crowd", "waiting").len() <= 1000);
    let waiting = id_of(&server.run_with("crowd", "waiting"));
    // The job is gone before they start; what runs is left alone.
    home.remove_job("crowd");
    wait_for("the job to go", || server.get("/api/v1/jobs/crowd").1["removed_at"].is_string().then_some(()));
    server.run_is(&first, "running");
    touch(&home, "go");
    server.run_is(&first, "succeeded");
    let gone = server.run_is(&waiting, "skipped");
    assert_eq!(gone["skip_reason"], "removed", "{gone}");
    assert!(server.stop().success());
}

// covers: key job.skip_if_successful
// covers: reason already_successful
#[test]
fn a_due_is_skipped_when_somebody_ran_the_job_meanwhile() {
    let home = Home::new();
    home.job("lazy", "schedule: every 2s\nskip_if_successful: true\nrun: 'true'\n");
    home.job("eager", "schedule: every 2s\nrun: 'true'\n");
    let server = home.serve();
    server.run_with("lazy", "succeeded");
    for job in ["lazy", "eager"] {
        let run = server.trigger(job, "{}");
        server.run_is(&run, "succeeded");
    }
    wait_for("the skip", || {
        reasons(&server, "lazy").contains(&"already_successful".to_owned()).then_some(())
    });
    let before = server.runs("lazy", "succeeded").len();
    wait_for("the next run", || (server.runs("lazy", "succeeded").len() > before).then_some(()));
    assert!(reasons(&server, "eager").is_empty());
    assert!(server.stop().success());
}

// covers: key job.priority
// covers: option serve --slots
#[test]
fn of_runs_that_wait_for_a_slot_the_most_urgent_is_next() {
    let home = Home::new();
    let out = home.path("out").display().to_string();
    home.job("first", &format!("run: {}\n", until(&home, "go")));
    for (name, priority) in [("low", -5), ("middle", 0), ("high", 7)] {
        home.job(name, &format!("priority: {priority}\nrun: echo {name} >> {out}\n"));
    }
    let server = home.serve_with(&["--slots", "1"]);
    let first = server.trigger("first", "{}");
    server.run_is(&first, "running");
    for job in ["low", "middle", "high"] {
        let run = server.trigger(job, "{}");
        server.run_is(&run, "waiting");
    }
    touch(&home, "go");
    server.run_with("low", "succeeded");
    assert_eq!(home.lines("out"), ["high", "middle", "low"]);
    assert!(server.stop().success());
}

// covers: key job.{children,child_jobs}
#[test]
fn children_run_after_a_success_and_no_other_end() {
    let home = Home::new();
    home.job("parent", "children: child\nparams: {code: 0}\nrun: exit \"$code\"\n");
    home.job("elder", "child_jobs: [child, other]\nrun: 'true'\n");
    home.job("child", "overlap: allow\nrun: 'true'\n");
    home.job("other", "run: 'true'\n");
    let server = home.serve();
    let failed = server.trigger("parent", r#"{"params":{"code":"1"}}"#);
    server.run_is(&failed, "failed");
    let good = server.trigger("parent", "{}");
    server.run_is(&good, "succeeded");
    let child = server.run_with("child", "succeeded");
    assert_eq!(child["parent"], good.as_str(), "{child}");
    let elder = server.trigger("elder", "{}");
    server.run_is(&elder, "succeeded");
    assert_eq!(server.run_with("other", "succeeded")["parent"], elder.as_str());
    wait_for("two children", || (server.runs("child", "succeeded").len() == 2).then_some(()));
    assert!(server.stop().success());
}
