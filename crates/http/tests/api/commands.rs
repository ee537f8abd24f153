use crate::bench::{Bench, run};
use cadran_core::{Command, Refusal, Reply, RunId};
use serde_json::json;

#[tokio::test]
async fn commands_reach_the_server_and_its_reply_comes_back() {
    let bench = Bench::new().await;
    let mut wire = bench.wire();
    let job = || "nightly".parse().unwrap();
    bench.answer_with(|command| match command {
        Command::Pause { .. } => Ok(Reply::Done),
        Command::Resume { .. } => Ok(Reply::Already),
        Command::Stop { run } | Command::Retry { run } => Ok(Reply::Run(*run)),
        Command::StopShare { run, .. } | Command::RetryShare { run, .. } => Ok(Reply::Run(*run)),
        Command::Trigger { .. } => Ok(Reply::Run(RunId::from_raw(77))),
    });
    let id = run(77).to_string();
    let rows = [
        (
            "jobs/nightly/trigger",
            r#"{"params": {"b": "1", "a": "$(reboot)"}, "parent": "000000000000a"}"#,
            Command::Trigger {
                job: job(),
                params: vec![("b".into(), "1".into()), ("a".into(), "$(reboot)".into())],
                addresses: Vec::new(),
                parent: Some(run(10)),
                key: None,
            },
            201,
            json!({ "run": id, "job": "nightly" }),
        ),
        (
            "jobs/nightly/trigger",
            r#"{"params": ["x", "y"], "addresses": ["http://h:1", "worker:w"]}"#,
            Command::Trigger {
                job: job(),
                params: vec![("1".into(), "x".into()), ("2".into(), "y".into())],
                addresses: vec!["http://h:1".parse().unwrap(), "worker:w".parse().unwrap()],
                parent: None,
                key: None,
            },
            201,
            json!({ "run": id, "job": "nightly" }),
        ),
        (
            "jobs/nightly/trigger",
            "",
            Command::Trigger { job: job(), params: vec![], addresses: Vec::new(), parent: None, key: None },
            201,
            json!({ "run": id, "job": "nightly" }),
        ),
        ("jobs/nightly/pause", "", Command::Pause { job: job() }, 200, json!({ "result": "done" })),
        ("jobs/nightly/resume", "{}", Command::Resume { job: job() }, 200, json!({ "result": "already" })),
        (
            "runs/000000000000a/stop",
            "",
            Command::Stop { run: run(10) },
            200,
            json!({ "result": "done", "run": "000000000000a" }),
        ),
        (
            "runs/000000000000a/retry",
            "",
            Command::Retry { run: run(10) },
            200,
            json!({ "result": "done", "run": "000000000000a" }),
        ),
    ];
    for (target, body, command, status, expected) in rows {
        let answer = wire.post(&format!("/api/v1/{target}"), body).await;
        assert_eq!((answer.status, answer.json()), (status, expected), "{target} {body}");
        assert_eq!(bench.commands(), [command], "{target} {body}");
    }
}

#[tokio::test]
async fn refusals_come_back_with_status_and_advice() {
    let bench = Bench::new().await;
    let mut wire = bench.wire();
    let rows = [
        (Refusal::NoSuchJob("nightly".parse().unwrap()), 404, "no_such_job"),
        (Refusal::NoSuchRun(run(1)), 404, "no_such_run"),
        (Refusal::RunEnded(run(1)), 409, "run_ended"),
        (Refusal::NotRetryable(run(1), "it succeeded"), 409, "not_retryable"),
        (Refusal::Params("no parameter named x".into()), 422, "bad_params"),
        (Refusal::Addresses("nobody is there".into()), 422, "bad_addresses"),
        (Refusal::Limit("runs may nest 8 deep".into()), 429, "limit"),
        (Refusal::Busy("the server is stopping"), 503, "busy"),
    ];
    for (refusal, status, code) in rows {
        let message = refusal.to_string();
        bench.answer_with(move |_| Err(refusal.clone()));
        let answer = wire.post("/api/v1/jobs/nightly/pause", "").await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code));
        assert_eq!(answer.json()["error"]["message"], message);
        assert_eq!(answer.header("retry-after").is_some(), status == 429 || status == 503);
    }
}

#[tokio::test]
async fn stopping_an_ended_run_says_that_it_is_over() {
    let bench = Bench::new().await;
    let mut wire = bench.wire();
    // The server knows open runs alone.
    bench.answer_with(|command| match command {
        Command::Stop { run } => Err(Refusal::NoSuchRun(*run)),
        _ => Ok(Reply::Done),
    });
    let rows =
        [(10, 409, "run_ended"), (30, 409, "run_ended"), (40, 404, "no_such_run"), (99, 404, "no_such_run")];
    for (no, status, code) in rows {
        let answer = wire.post(&format!("/api/v1/runs/{}/stop", run(no)), "").await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{no}");
    }
}
