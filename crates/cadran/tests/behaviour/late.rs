//! Dues that fall while the server is away.

use super::support::{Home, wait_for};
use super::{DENSE, reasons};

/// Downtime is a stretch of time: there is no moment to wait for but its end. Five seconds of dues were promised before
/// it, and the last ten are not late yet.
#[allow(clippy::disallowed_methods)]
fn downtime() {
    std::thread::sleep(std::time::Duration::from_secs(18));
}

// covers: key job.{misfire,misfire_policy,misfire_strategy,catchup_window}
// covers: endpoint GET /api/v1/skips
// covers: reason {missed,superseded,outside_window,backlog_limit}
#[test]
fn dues_that_were_missed_are_judged_by_misfire() {
    let home = Home::new();
    home.job("once", "schedule: every 1s\nmisfire: once\nrun: 'true'\n");
    home.job("skip", "schedule: every 1s\nmisfire_policy: skip\nrun: 'true'\n");
    home.job("nothing", "schedule: every 1s\nmisfire_strategy: DO_NOTHING\nrun: 'true'\n");
    home.job("all", "schedule: every 1s\ncatchup_window: 1h\nrun: 'true'\n");
    home.job("window", "schedule: every 1s\nmisfire: all\ncatchup_window: 2s\nrun: 'true'\n");
    // Its one run never ends, so that dues cost nothing before the downtime.
    home.job("many", &format!("{DENSE}\ncatchup_window: 1h\nrun: sleep 300\n"));
    let server = home.serve();
    for job in ["once", "skip", "nothing", "all", "window"] {
        server.run_with(job, "succeeded");
    }
    server.run_with("many", "running");
    server.kill();
    downtime();
    let server = home.serve();
    for (job, reason) in
        [("once", "superseded"), ("skip", "missed"), ("nothing", "missed"), ("window", "outside_window")]
    {
        wait_for(&format!("{reason} of {job}"), || {
            reasons(&server, job).contains(&reason.to_owned()).then_some(())
        });
    }
    wait_for("a backlog that is cut", || {
        let (_, skips) = server.get("/api/v1/skips?job=many&limit=10");
        skips.to_string().contains("backlog_limit").then_some(())
    });
    // Each missed second ran, however late.
    let late = |run: &serde_json::Value| run["late_ms"].as_i64().is_some_and(|late| late > 10_000);
    wait_for("late runs", || server.runs("all", "succeeded").iter().any(late).then_some(()));
    assert!(!server.runs("skip", "succeeded").iter().any(late));
    let skipped = reasons(&server, "all");
    assert!(!skipped.iter().any(|reason| reason != "overlap"), "{skipped:?}");
    assert!(server.stop().success());
}
