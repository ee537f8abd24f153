use crate::bench::{Bench, bounded, run, step, update};
use crate::wire::{Wire, read_chunk, read_head};
use cadran_core::{RunStatus, StepStatus};
use serde_json::json;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

const BUILD: &str = "/api/v1/runs/000000000000a/logs/build";

#[tokio::test]
async fn logs_are_listed_and_read_byte_for_byte() {
    let bench = Bench::new().await;
    let mut wire = bench.wire();
    let bytes: Vec<u8> = (0..=255).cycle().take(700_001).collect();
    bench.write_log(run(10), 0, "build", 1, b"first\n");
    bench.write_log(run(10), 0, "build", 2, &bytes);
    bench.write_log(run(40), 1, "ship it", 1, b"one\ntwo\nthree\n");
    let listed = wire.get("/api/v1/runs/000000000000a/logs").await.json();
    assert_eq!(
        listed,
        json!({ "run": "000000000000a", "status": "succeeded", "ended": true, "logs": [
            { "step": "build", "step_no": 0, "attempt": 1, "bytes": 6 },
            { "step": "build", "step_no": 0, "attempt": 2, "bytes": 700_001 },
        ] })
    );
    let answer = wire.get(BUILD).await;
    assert!(answer.body == bytes, "the latest attempt, unchanged");
    assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(wire.get(&format!("{BUILD}?attempt=1")).await.text(), "first\n");
    let ship = "/api/v1/runs/0000000000018/logs/";
    let rows = [
        ("ship%20it", 200, "one\ntwo\nthree\n"),
        ("1", 200, "one\ntwo\nthree\n"),
        ("ship_it", 200, "one\ntwo\nthree\n"),
        ("ship%20it?tail=2", 200, "two\nthree\n"),
        ("ship%20it?tail=0", 200, ""),
        ("ship%20it?from=4", 200, "two\nthree\n"),
        ("ship%20it?from=99", 200, ""),
    ];
    for (target, status, text) in rows {
        let answer = wire.get(&format!("{ship}{target}")).await;
        assert_eq!((answer.status, answer.text().as_str()), (status, text), "{target}");
    }
    assert_eq!(wire.get("/api/v1/runs/0000000000018/logs").await.json()["logs"][0]["step"], "ship it");
    for target in ["build", "unknown", "ship%20it?attempt=2", "9"] {
        let answer = wire.get(&format!("{ship}{target}")).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "no_such_log"), "{target}");
    }
    let head = wire.send("HEAD", BUILD, &[], b"").await;
    assert_eq!((head.status, head.header("content-length")), (200, Some("700001")));
}

#[tokio::test]
async fn ranges_of_logs() {
    let bench = Bench::new().await;
    bench.write_log(run(10), 0, "build", 1, b"0123456789");
    bench.write_log(run(20), 0, "build", 1, b"");
    let mut wire = bench.wire();
    let rows = [
        ("bytes=0-3", 206, "0123", Some("bytes 0-3/10")),
        ("bytes=4-", 206, "456789", Some("bytes 4-9/10")),
        ("bytes=-2", 206, "89", Some("bytes 8-9/10")),
        ("bytes=9-9", 206, "9", Some("bytes 9-9/10")),
        ("bytes=0-0", 206, "0", Some("bytes 0-0/10")),
        ("bytes=5-18446744073709551615", 206, "56789", Some("bytes 5-9/10")),
        ("bytes=0-1,4-5", 200, "0123456789", None),
        ("bytes=7-3", 200, "0123456789", None),
        ("items=0-1", 200, "0123456789", None),
    ];
    for (range, status, text, content_range) in rows {
        let answer = wire.send("GET", BUILD, &[("Range", range)], b"").await;
        assert_eq!((answer.status, answer.text().as_str()), (status, text), "{range}");
        assert_eq!(answer.header("content-range"), content_range, "{range}");
    }
    for range in ["bytes=10-", "bytes=10-20", "bytes=-0", "bytes=99999999999999999999-"] {
        let answer = wire.send("GET", BUILD, &[("Range", range)], b"").await;
        assert_eq!((answer.status, answer.code().as_str()), (416, "range_outside"), "{range}");
        assert_eq!(answer.header("content-range"), Some("bytes */10"), "{range}");
    }
    let empty = "/api/v1/runs/000000000000m/logs/build";
    assert_eq!(wire.get(empty).await.status, 200);
    assert_eq!(wire.send("GET", empty, &[("Range", "bytes=0-")], b"").await.status, 416);
    let with_from = wire.send("GET", &format!("{BUILD}?from=3"), &[("Range", "bytes=0-1")], b"").await;
    assert_eq!((with_from.status, with_from.text().as_str()), (200, "3456789"));
}

/// A stream that is being followed.
struct Following {
    stream: BufReader<TcpStream>,
    heard: Vec<u8>,
}

impl Following {
    async fn new(bench: &Bench, target: &str, accept: &str) -> Following {
        let mut stream = BufReader::new(TcpStream::connect(bench.address).await.unwrap());
        let token = bench.token.as_str();
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {token}\r\nAccept: {accept}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let (status, _) = read_head(&mut stream).await.unwrap();
        assert_eq!(status, 200);
        Following { stream, heard: Vec::new() }
    }

    /// Reads until `text` was heard.
    async fn until(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.heard).contains(text) {
            let chunk = bounded(read_chunk(&mut self.stream)).await;
            self.heard.extend(chunk.unwrap_or_else(|| panic!("ended before {text:?}")));
        }
    }

    /// Reads to the end, and returns all that was heard.
    async fn heard_all(mut self) -> String {
        while let Some(chunk) = bounded(read_chunk(&mut self.stream)).await {
            self.heard.extend(chunk);
        }
        String::from_utf8_lossy(&self.heard).into_owned()
    }
}

fn running(steps: Vec<cadran_core::StepRecord>) -> cadran_core::RunUpdate {
    update(40, RunStatus::Running, steps)
}

#[tokio::test]
async fn a_log_is_followed_over_attempts_until_the_step_has_ended() {
    let bench = Bench::new().await;
    let target = "/api/v1/runs/0000000000018/logs/build?follow=true";
    // Nothing is printed yet.
    let mut following = Following::new(&bench, target, "*/*").await;
    bench.append_log(run(40), 0, "build", 1, b"one\n");
    following.until("one\n").await;
    bench.append_log(run(40), 0, "build", 1, b"two\n");
    following.until("two\n").await;
    bench.settle().await;
    bench.append_log(run(40), 0, "build", 1, b"last words\n");
    bench.change(running(vec![step("build", StepStatus::Retrying, 1)])).await;
    following.until("last words\n").await;
    bench.change(running(vec![step("build", StepStatus::Running, 2)])).await;
    bench.append_log(run(40), 0, "build", 2, b"again\n");
    following.until("again\n").await;
    bench.settle().await;
    bench.append_log(run(40), 0, "build", 2, b"done\n");
    bench.change(running(vec![step("build", StepStatus::Succeeded, 2)])).await;
    assert_eq!(following.heard_all().await, "one\ntwo\nlast words\nagain\ndone\n");
}

#[tokio::test]
async fn one_attempt_is_followed_alone() {
    let bench = Bench::new().await;
    bench.append_log(run(40), 0, "build", 1, b"one\n");
    bench.append_log(run(40), 0, "build", 2, b"two\n");
    bench.change(running(vec![step("build", StepStatus::Running, 2)])).await;
    let target = "/api/v1/runs/0000000000018/logs/build?follow=true&attempt=1";
    assert_eq!(Following::new(&bench, target, "*/*").await.heard_all().await, "one\n");
}

#[tokio::test]
async fn a_log_is_followed_as_events() {
    let bench = Bench::new().await;
    bench.append_log(run(40), 0, "build", 1, b"skipped\nesc \x1b[31m\r\n");
    let target = "/api/v1/runs/0000000000018/logs/build?follow=true&from=8";
    let mut following = Following::new(&bench, target, "text/event-stream").await;
    following.until("\n\n").await;
    bench.change(update(40, RunStatus::Failed, vec![step("build", StepStatus::Failed, 1)])).await;
    assert_eq!(
        following.heard_all().await,
        "id: 1:19\nevent: log\ndata: {\"attempt\":1,\"next\":19,\"text\":\"esc \\u001b[31m\\r\\n\"}\n\n\
         event: end\ndata: {\"status\":\"failed\"}\n\n"
    );
}

#[tokio::test]
async fn a_stream_goes_on_where_it_broke_off() {
    let bench = Bench::new().await;
    bench.write_log(run(10), 0, "build", 1, b"first\nsecond\n");
    let from = async |id: &str| {
        let headers = [("Accept", "text/event-stream"), ("Last-Event-ID", id)];
        bench.wire().send("GET", &format!("{BUILD}?follow=true"), &headers, b"").await
    };
    let rest = from("1:6").await.text();
    assert!(rest.contains("\"text\":\"second\\n\"") && !rest.contains("first"), "{rest}");
    assert!(rest.contains("id: 1:13\n"), "{rest}");
    let nothing = from("1:13").await.text();
    assert!(!nothing.contains("event: log") && nothing.contains("event: end"), "{nothing}");
    assert_eq!(from("soon").await.status, 400);
}

#[tokio::test]
async fn an_ended_run_is_followed_to_its_end_at_once() {
    let bench = Bench::new().await;
    bench.write_log(run(10), 0, "build", 1, b"old\n");
    assert_eq!(bench.wire().get(&format!("{BUILD}?follow=true")).await.text(), "old\n");
    assert_eq!(bench.wire().get(&format!("{BUILD}?follow=true&tail=1")).await.text(), "old\n");
    let answer = bench.wire().get("/api/v1/runs/000000000000a/logs/unknown?follow=true").await;
    assert_eq!(answer.code(), "no_such_log");
    let answer = bench.wire().get("/api/v1/runs/0000000000018/logs/unknown?follow=true").await;
    assert_eq!(answer.code(), "no_such_log", "a running run that has no such step");
}

#[tokio::test]
async fn followers_are_bounded() {
    let bench = Bench::new().await;
    let target = "/api/v1/runs/0000000000018/logs/build?follow=true";
    let mut followings = Vec::new();
    for _ in 0..128 {
        followings.push(Following::new(&bench, target, "*/*").await);
    }
    let mut wire: Wire = bench.wire();
    let answer = wire.get(target).await;
    assert_eq!((answer.status, answer.code().as_str()), (429, "too_many_followers"));
    assert_eq!(wire.get("/api/v1/jobs").await.status, 200, "short requests go on");
    bench.change(update(40, RunStatus::Succeeded, vec![])).await;
    for following in followings {
        assert_eq!(following.heard_all().await, "");
    }
    assert_eq!(
        wire.get("/api/v1/runs/000000000000a/logs/build?follow=true").await.status,
        404,
        "places are free again"
    );
}
