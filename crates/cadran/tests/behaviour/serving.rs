//! What `cadran serve` can be told, and how long it keeps what happened.

use std::fs;
use std::net::TcpStream;

use super::support::faketime::Clock;
use super::support::{Home, cadran, run, wait_for};
use super::{said, until};

// covers: command serve
// covers: option serve --{data,jobs,listen,store,timezone,log-json}
#[test]
fn a_server_works_where_and_as_it_is_told() {
    let home = Home::new();
    home.job("daily", "schedule: '0 9 * * *'\nrun: 'true'\n");
    let store = format!("sqlite:{}", home.path("elsewhere.db").display());
    // `serve_with` gives --data, --jobs and --listen.
    let server = home.serve_with(&["--store", &store, "--timezone", "Asia/Tokyo", "--log-json"]);
    assert!(server.address.starts_with("127.0.0.1:"), "{}", server.ready);
    let job =
        wait_for("the job", || Some(server.get("/api/v1/jobs/daily").1).filter(|job| job["name"] == "daily"));
    assert_eq!(job["schedules"][0]["timezone"], "Asia/Tokyo", "{job}");
    assert!(job["next_due"].as_str().is_some_and(|due| due.ends_with("T00:00:00.000Z")), "{job}");
    assert!(home.path("elsewhere.db").exists() && !home.data().join("cadran.db").exists());
    assert!(home.data().join("token").exists());
    home.job("wrong", "run: [\n");
    wait_for("a line about the file", || home.log().contains("wrong").then_some(()));
    for line in home.log().lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|_| panic!("{line}"));
    }
    assert!(server.stop().success());

    let run_id = {
        let server = home.serve_with(&["--store", "memory:"]);
        let run_id = server.trigger("daily", "{}");
        server.run_is(&run_id, "succeeded");
        assert!(server.stop().success());
        run_id
    };
    // What is kept in memory goes with the server.
    let server = home.serve_with(&["--store", "memory:"]);
    assert_eq!(server.get(&format!("/api/v1/runs/{run_id}")).0, 404);
    assert!(server.stop().success());

    for (args, says) in [
        (&["--timezone", "Mars/Olympus"][..], "Mars/Olympus"),
        (&["--store", "mysql://x"], "no known scheme"),
        (&["--listen", "somewhere"], "somewhere"),
        (&["--jobs", "/proc/version"], "/proc/version"),
    ] {
        let output = cadran()
            .arg("serve")
            .arg("--data")
            .arg(home.path("other"))
            .args(args)
            .output()
            .expect("it starts");
        assert!(!output.status.success() && said(&output).contains(says), "{args:?}: {}", said(&output));
    }
}

#[test]
fn a_stop_waits_for_what_runs_as_long_as_it_is_told() {
    let home = Home::new();
    let out = home.path("out").display().to_string();
    home.job("short", &format!("run: echo begun >> {out}; {}; echo ended >> {out}\n", until(&home, "go")));
    // `serve_with` says a second; the last one counts.
    let mut command = cadran();
    command.arg("serve").arg("--data").arg(home.data()).arg("--jobs").arg(home.path("jobs"));
    command.args(["--listen", "127.0.0.1:0", "--on-stop", "drain=50s"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let server = home.start(command);
    server.trigger("short", "{}");
    wait_for("the start", || (home.lines("out") == ["begun"]).then_some(()));
    server.signal(nix::sys::signal::Signal::SIGTERM);
    wait_for("its door to close", || TcpStream::connect(&server.address).is_err().then_some(()));
    fs::write(home.path("go"), "").expect("a file");
    wait_for("the end of the run", || (home.lines("out") == ["begun", "ended"]).then_some(()));
}

// covers: option serve --behind-proxy
#[test]
fn an_address_that_others_can_reach_has_to_be_meant() {
    let home = Home::new();
    let data = home.data().display().to_string();
    let refused = run(&["serve", "--data", &data, "--listen", "0.0.0.0:0"]);
    assert!(!refused.status.success() && said(&refused).contains("--behind-proxy"), "{}", said(&refused));
    let mut command = cadran();
    command.arg("serve").arg("--data").arg(home.data()).arg("--jobs").arg(home.path("jobs"));
    command.args(["--listen", "0.0.0.0:0", "--behind-proxy"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let server = home.start(command);
    assert!(server.ready.contains("http://0.0.0.0:"), "{}", server.ready);
    assert_eq!(server.get("/health").0, 200);
    assert_eq!(server.get("/api/v1/jobs").0, 200);
    assert!(server.stop().success());
}

// covers: key job.{history,hist_retention_days,hist_retention_runs}
// covers: key history.{days,count,runs}
#[test]
fn old_runs_are_forgotten_as_history_says() {
    let home = Home::new();
    for (name, history) in [
        ("count", "history: {count: 2}"),
        ("runs", "history: {runs: 2}"),
        ("dagu", "hist_retention_runs: 2"),
        ("days", "history: {days: 3}"),
        ("number", "history: 3"),
        ("old", "hist_retention_days: 3"),
    ] {
        home.job(name, &format!("{history}\nrun: 'true'\n"));
    }
    let server = home.serve();
    for name in ["count", "runs", "dagu", "days", "number", "old"] {
        for _ in 0..4 {
            let run_id = server.trigger(name, "{}");
            server.run_is(&run_id, "succeeded");
        }
    }
    assert!(server.stop().success());
    // What is too old or too much is cleaned away when a server starts.
    let server = home.serve();
    for name in ["count", "runs", "dagu"] {
        wait_for(&format!("old runs of {name} to go"), || {
            (server.runs(name, "succeeded").len() == 2).then_some(())
        });
    }
    for name in ["days", "number", "old"] {
        assert_eq!(server.runs(name, "succeeded").len(), 4, "{name}");
    }
    assert!(server.stop().success());
    // Five days later.
    let Some(clock) = Clock::new(&home) else { return };
    clock.set("+432000");
    let server = home.start(clock.rule(home.serve_command(&[])));
    for name in ["days", "number", "old"] {
        wait_for(&format!("old runs of {name} to go"), || {
            server.runs(name, "succeeded").is_empty().then_some(())
        });
    }
    assert!(server.stop().success());
}
