use crate::bench::{Bench, NOW, bounded, run, step, update};
use crate::wire::Wire;
use cadran_core::{
    Command, Refusal, Reply, RunStatus, RunUpdate, SeatRecord, SeatStatus, StepRecord, StepStatus,
};
use serde_json::{Value, json};

/// Run 40, which is on, as a broadcast to three: one succeeded, one is on, one failed.
const RUN: &str = "0000000000018";

fn seat(index: u32, status: SeatStatus, message: Option<&str>) -> SeatRecord {
    SeatRecord {
        index,
        total: 3,
        address: format!("http://10.0.0.{index}:9999").parse().unwrap(),
        log: 70 + u64::from(index),
        attempt: 1,
        at: NOW,
        ended_at: status.is_ended().then_some(NOW + 500),
        status,
        message: message.map(Into::into),
        again: false,
    }
}

fn shared(status: RunStatus, step_status: StepStatus, seats: [SeatStatus; 3]) -> RunUpdate {
    let said = |status| match status {
        SeatStatus::Succeeded => Some("all well"),
        SeatStatus::Failed => Some("no disk"),
        _ => None,
    };
    let seats = (0..).zip(seats).map(|(index, status)| seat(index, status, said(status))).collect();
    update(40, status, vec![StepRecord { seats, ..step("build", step_status, 1) }])
}

async fn bench() -> (Bench, Wire) {
    let bench = Bench::new().await;
    let seats = [SeatStatus::Succeeded, SeatStatus::Running, SeatStatus::Failed];
    bench.change(shared(RunStatus::Running, StepStatus::Running, seats)).await;
    let wire = bench.wire();
    (bench, wire)
}

#[tokio::test]
async fn a_share_is_a_child_of_its_run() {
    let (_bench, mut wire) = bench().await;
    let parent = wire.get(&format!("/api/v1/runs/{RUN}")).await.json();
    let children: Vec<(&Value, &Value, &Value)> = parent["children"]
        .as_array()
        .unwrap()
        .iter()
        .map(|child| (&child["id"], &child["status"], &child["link"]))
        .collect();
    let row = |no: usize| (format!("{RUN}.{no}"), format!("/api/v1/runs/{RUN}.{no}"));
    for (no, status) in ["succeeded", "running", "failed"].into_iter().enumerate() {
        let (id, link) = row(no);
        assert_eq!(children[no], (&json!(id), &json!(status), &json!(link)));
    }
    assert_eq!(parent["children"][1]["executor"], "http://10.0.0.1:9999");
    assert_eq!(parent["shares"], json!({ "total": 3, "succeeded": 1, "failed": 1 }));

    let shown = wire.get(&format!("/api/v1/runs/{RUN}.2")).await.json();
    let expected = json!({
        "id": format!("{RUN}.2"), "job": "nightly", "parent": RUN, "share": 2,
        "shares": { "total": 3, "succeeded": 1, "failed": 1 },
        "status": "failed", "ended": false, "attempt": 1, "duration_ms": 500,
        "explanation": "it failed at http://10.0.0.2:9999: no disk", "executor": "http://10.0.0.2:9999",
        "started_at": "2026-11-15T22:00:00.000Z", "ended_at": "2026-11-15T22:00:00.500Z",
    });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&shown[field], value, "{field}: {shown}");
    }
    assert_eq!(shown["steps"].as_array().map(Vec::len), Some(1));
    assert_eq!(shown["steps"][0]["executors"].as_array().map(Vec::len), Some(1), "{shown}");
    assert!(shown.get("children").is_none());

    let why = wire.get(&format!("/api/v1/runs/{RUN}.1/why")).await.json();
    assert_eq!(
        why,
        json!({
            "run": format!("{RUN}.1"), "job": "nightly", "trigger": "manual", "parent": RUN, "status": "running",
            "explanation": "share 1 of 3: it is running at http://10.0.0.1:9999",
            "executor": "http://10.0.0.1:9999",
            "since": "2026-11-15T22:00:00.000Z", "since_ms": NOW,
        })
    );
}

#[tokio::test]
async fn children_are_listed_by_their_run() {
    let (_bench, mut wire) = bench().await;
    let rows: [(&str, &str, &[&str]); 5] = [
        (RUN, "", &["0000000000018.0", "0000000000018.1", "0000000000018.2"]),
        (RUN, "&status=running,failed", &["0000000000018.1", "0000000000018.2"]),
        (RUN, "&job=paused", &[]),
        // Run 10 asked for run 40, and is no broadcast itself.
        ("000000000000a", "", &[RUN]),
        ("000000000000m", "", &[]),
    ];
    for (parent, more, expected) in rows {
        let listed = wire.get(&format!("/api/v1/runs?parent={parent}{more}")).await.json();
        let ids: Vec<&str> =
            listed["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap()).collect();
        assert_eq!(ids, expected, "{parent} {more}");
        assert!(listed["runs"].as_array().unwrap().iter().all(|run| run["parent"] == parent), "{listed}");
    }
    let asked = wire.get("/api/v1/runs/000000000000a").await.json();
    let link = format!("/api/v1/runs/{RUN}");
    assert_eq!(
        asked["children"],
        json!([{ "id": RUN, "job": "nightly", "status": "running", "link": link }])
    );
    assert_eq!(wire.get("/api/v1/runs?parent=000000000zzzz").await.status, 404);
}

#[tokio::test]
async fn what_is_no_share_is_told() {
    let (bench, mut wire) = bench().await;
    bench.answer_with(|command| match command {
        Command::StopShare { run, .. } | Command::RetryShare { run, .. } => Err(Refusal::NoSuchRun(*run)),
        _ => Ok(Reply::Done),
    });
    let rows = [
        ("0000000000018.9", 404, "no_such_share", "run 0000000000018 has 3 shares, 0 to 2"),
        ("000000000000a.2", 404, "no_such_share", "run 000000000000a has no shares"),
        ("0000000000zzz.0", 404, "no_such_run", "there is no run"),
        ("0000000000018.x", 400, "bad_share", "its run, a dot and its number"),
        ("0000000000018.", 400, "bad_share", "its run, a dot and its number"),
        ("0000000000018.01", 400, "bad_share", "its run, a dot and its number"),
        ("0000000000018.1.1", 400, "bad_share", "its run, a dot and its number"),
        ("18.1", 400, "bad_run_id", "a run id"),
    ];
    for (name, status, code, says) in rows {
        for (method, rest) in
            [("GET", ""), ("GET", "/why"), ("GET", "/logs"), ("GET", "/logs/build"), ("POST", "/stop")]
        {
            let target = format!("/api/v1/runs/{name}{rest}");
            let answer = wire.send(method, &target, &[], b"").await;
            assert_eq!((answer.status, answer.code().as_str()), (status, code), "{method} {target}");
            let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
            assert!(message.contains(says), "{target}: {message}");
        }
    }
}

#[tokio::test]
async fn a_share_is_stopped_and_repeated_alone() {
    let (bench, mut wire) = bench().await;
    bench.answer_with(|command| match command {
        Command::StopShare { share: 0, run } => Err(Refusal::ShareEnded(*run, 0)),
        Command::StopShare { run, .. } | Command::RetryShare { run, .. } => Ok(Reply::Run(*run)),
        _ => Ok(Reply::Done),
    });
    let done = json!({ "result": "done", "run": format!("{RUN}.1") });
    let answer = wire.post(&format!("/api/v1/runs/{RUN}.1/stop"), "").await;
    assert_eq!((answer.status, answer.json()), (200, done.clone()));
    let answer = wire.post(&format!("/api/v1/runs/{RUN}.1/retry"), "").await;
    assert_eq!((answer.status, answer.json()), (200, done));
    let (stop, retry) =
        (Command::StopShare { run: run(40), share: 1 }, Command::RetryShare { run: run(40), share: 1 });
    assert_eq!(bench.commands(), [stop, retry]);
    let answer = wire.post(&format!("/api/v1/runs/{RUN}.0/stop"), "").await;
    assert_eq!((answer.status, answer.code().as_str()), (409, "share_ended"));
    // The server forgets ended runs; the record knows better what to say.
    bench.answer_with(|_| Err(Refusal::NoSuchRun(run(40))));
    bench.change(shared(RunStatus::Failed, StepStatus::Failed, [SeatStatus::Failed; 3])).await;
    let answer = wire.post(&format!("/api/v1/runs/{RUN}.1/stop"), "").await;
    assert_eq!((answer.status, answer.code().as_str()), (409, "share_ended"));
}

#[tokio::test]
async fn the_log_of_a_share_is_its_own() {
    let (bench, mut wire) = bench().await;
    for share in 0..3 {
        let path = bench.logs.share_path(run(40), cadran_core::StepNo(0), "build", 1, share);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("share {share}\n")).unwrap();
    }
    let listed = wire.get(&format!("/api/v1/runs/{RUN}.2/logs")).await.json();
    assert_eq!(
        listed,
        json!({ "run": format!("{RUN}.2"), "status": "failed", "ended": false, "logs": [
            { "step": "build", "step_no": 0, "attempt": 1, "share": 2, "bytes": 8 },
        ] })
    );
    assert_eq!(wire.get(&format!("/api/v1/runs/{RUN}.2/logs/build")).await.text(), "share 2\n");
    assert_eq!(wire.get(&format!("/api/v1/runs/{RUN}.2/logs/0?share=1")).await.status, 400);
    assert_eq!(
        wire.get(&format!("/api/v1/runs/{RUN}/logs")).await.json()["logs"].as_array().unwrap().len(),
        3
    );
    // Who follows a share that is over hears its end, while the others are on.
    let text = bounded(wire.get(&format!("/api/v1/runs/{RUN}.0/logs/build?follow=true"))).await.text();
    assert_eq!(text, "share 0\n");
}

#[tokio::test]
async fn who_waits_for_a_share_hears_of_its_end() {
    let (bench, mut wire) = bench().await;
    let shown = wire.get(&format!("/api/v1/runs/{RUN}.0?wait_ms=20000")).await.json();
    assert_eq!((&shown["status"], &shown["ended"]), (&json!("succeeded"), &json!(true)), "answered at once");
    let waiting =
        tokio::spawn(async move { wire.get(&format!("/api/v1/runs/{RUN}.1?wait_ms=20000")).await.json() });
    let seats = [SeatStatus::Succeeded, SeatStatus::Stopped, SeatStatus::Failed];
    bench.change(shared(RunStatus::Running, StepStatus::Running, seats)).await;
    let shown = bounded(waiting).await.unwrap();
    assert_eq!((&shown["status"], &shown["ended"]), (&json!("stopped"), &json!(true)), "{shown}");
}
