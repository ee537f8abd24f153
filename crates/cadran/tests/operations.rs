//! What an operator meets: signals, log lines, tokens, figures.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use nix::sys::signal::Signal;
use serde_json::Value;
use support::{Home, wait_for};

#[test]
fn a_hangup_reads_the_job_files_again_and_ends_nothing() {
    let home = Home::new();
    home.job("often", "schedule: every 1s\nrun: 'true'\n");
    let server = home.serve();
    server.run_with("often", "succeeded");
    for no in 1..=2 {
        server.signal(Signal::SIGHUP);
        wait_for("the line about it", || {
            (home.log().matches("the job files were read again").count() == no).then_some(())
        });
    }
    assert_eq!(home.log().matches("SIGHUP: reading the job files again").count(), 2);
    assert_eq!(server.get("/health").0, 200);
    assert!(server.stop().success());
}

#[test]
fn runs_that_failed_or_were_skipped_are_in_the_log_and_others_are_not() {
    let home = Home::new();
    home.job("bad", "run: exit 3\n");
    home.job("good", "run: exit 0\n");
    home.job("guarded", "preconditions: \"test -f /nonexistent\"\nrun: echo ran\n");
    let server = home.serve();
    let failed = server.trigger("bad", "{}");
    let good = server.trigger("good", "{}");
    let skipped = server.trigger("guarded", "{}");
    server.run_is(&good, "succeeded");
    let line = |run: &str| {
        let start = format!("run {run} of job ");
        wait_for("a line", || home.log().lines().find(|line| line.contains(&start)).map(str::to_owned))
    };
    let said = line(&failed);
    assert!(said.contains("WARN") && said.contains("job bad failed") && said.contains('3'), "{said}");
    let said = line(&skipped);
    assert!(said.contains("job guarded skipped") && said.contains("test -f /nonexistent"), "{said}");
    assert!(!home.log().contains(&good), "{}", home.log());
    assert!(server.stop().success());
}

#[test]
fn a_flood_of_failed_runs_is_counted() {
    let home = Home::new();
    home.job("bad", "overlap: allow\nrun: exit 3\n");
    let server = home.serve();
    let runs: Vec<String> = (0..80).map(|_| server.trigger("bad", "{}")).collect();
    for run in &runs {
        server.run_is(run, "failed");
    }
    // Every run is in a line of its own or in the count of a line, and none is in both.
    wait_for("all runs in the log", || {
        let log = home.log();
        let lines = log.matches("job bad failed").count();
        let counts = log.lines().filter(|line| line.contains("more runs failed"));
        let counted: usize =
            counts.filter_map(|line| line.split("count=").nth(1)?.trim().parse::<usize>().ok()).sum();
        assert!(lines + counted <= runs.len(), "{log}");
        (lines + counted == runs.len()).then_some(())
    });
    assert!(server.stop().success());
}

#[test]
fn bad_tokens_are_told_once_and_not_for_each_request() {
    let home = Home::new();
    let mut server = home.serve();
    server.token = "0".repeat(64);
    for _ in 0..40 {
        let (code, _) = server.get("/api/v1/jobs");
        assert!(matches!(code, 401 | 429), "{code}");
    }
    let log = home.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("without the right token")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(lines[0].contains("source=127.0.0.1"), "{}", lines[0]);
    assert!(server.stop().success());
}

#[test]
fn the_token_of_a_data_directory_is_not_sent_to_another_server() {
    let home = Home::new();
    let server = home.serve();
    let stranger = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = stranger.local_addr().expect("an address").to_string();
    let asked = home.client(&["ps", "--server", &format!("http://{address}")]);
    let said = String::from_utf8_lossy(&asked.stderr).into_owned();
    assert_eq!(asked.status.code(), Some(5), "{said}");
    assert!(said.contains("is not sent to") && said.contains(&server.address), "{said}");
    stranger.set_nonblocking(true).expect("a listener");
    assert!(stranger.accept().is_err(), "nobody called");
    // The server that the token was made for gets it, however it is written.
    let port = server.address.rsplit(':').next().expect("a port");
    for own in [format!("http://{}", server.address), format!("localhost:{port}")] {
        assert!(home.client(&["ps", "--server", &own]).status.success(), "{own}");
    }
    assert!(server.stop().success());
}

#[test]
fn lateness_is_counted_to_the_first_order_of_a_run() {
    let home = Home::new();
    // The step that is listed first waits long for the other one.
    home.job(
        "two",
        "schedule: every 30s\nsteps:\n  - name: last\n    depends: first\n    run: 'true'\n  \
         - name: first\n    run: sleep 6\n",
    );
    let server = home.serve();
    server.run_with("two", "succeeded");
    let (_, text) = server.get("/metrics");
    let Value::String(text) = text else { panic!("{text}") };
    let count = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
    };
    assert_eq!(count("cadran_lateness_seconds_count"), count("cadran_runs_started_total"));
    assert_eq!(
        count("cadran_lateness_seconds_bucket{le=\"5\"}"),
        count("cadran_lateness_seconds_count"),
        "the wait of one step for another is no lateness: {text}"
    );
    assert!(server.stop().success());
}

// covers: endpoint GET /health/{live,ready}
#[test]
fn health_needs_no_token_and_tells_its_ages() {
    let home = Home::new();
    let server = home.serve();
    for path in ["/health", "/health/live", "/health/ready"] {
        let mut stream = TcpStream::connect(&server.address).expect("the server listens");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        for age in ["loop_age_ms", "store_age_ms", "batch_age_ms", "executor_age_ms"] {
            assert!(answer.contains(age), "{age}: {answer}");
        }
    }
    let (_, text) = server.get("/metrics");
    for name in [
        "cadran_loop_age_seconds",
        "cadran_store_age_seconds",
        "cadran_batch_age_seconds",
        "cadran_executor_age_seconds",
    ] {
        assert!(text.as_str().is_some_and(|text| text.contains(&format!("\n{name} "))), "{name}: {text}");
    }
    assert!(server.stop().success());
}
