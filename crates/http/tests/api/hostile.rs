use crate::bench::Bench;
use serde_json::json;

/// Ways to write `.` and `/` in a path, plain, escaped once, twice, badly, overlong, and as look-alikes.
const DOTS: &[&str] =
    &[".", "%2e", "%2E", "%252e", "%c0%ae", "%e0%80%ae", "%uff0e", "%EF%BC%8E", "%00.", ".%00"];
const SLASHES: &[&str] = &[
    "%2f",
    "%2F",
    "%5c",
    "\\",
    "%252f",
    "%255c",
    "%c0%af",
    "%e0%80%af",
    "%u2215",
    "%E2%88%95",
    "%0a",
    "%09",
];
const TARGETS: &[&str] = &["token", "etc%2fpasswd", "secret", ""];

#[tokio::test]
async fn no_encoding_of_dots_leaves_the_logs() {
    let bench = Bench::new().await;
    // What must not come out, in every place that a path could climb to.
    let secret = "TOP-SECRET-7f3a";
    for place in ["secret", "token", "logs/secret", "logs/token", "logs/0000/secret"] {
        let path = bench.dir.path().join(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, secret).unwrap();
    }
    bench.write_log(crate::bench::run(10), 0, "build", 1, b"hello\n");
    let mut climbs = Vec::new();
    for a in DOTS {
        for b in DOTS {
            for slash in SLASHES {
                for target in TARGETS {
                    climbs.push(format!("{a}{b}{slash}{target}"));
                    climbs.push(format!("{a}{b}{slash}{a}{b}{slash}{target}"));
                    climbs.push(format!("build{slash}{a}{b}{slash}{target}"));
                }
            }
        }
    }
    assert!(climbs.len() >= 10_000, "{}", climbs.len());
    let mut wire = bench.wire();
    for (no, climb) in climbs.iter().enumerate() {
        // Each climb at one of the places a text from outside stands, in turn; so all places see all kinds.
        let target = match no % 5 {
            0 => format!("/api/v1/runs/000000000000a/logs/{climb}"),
            1 => format!("/api/v1/runs/{climb}/logs/build"),
            2 => format!("/api/v1/runs/{climb}"),
            3 => format!("/api/v1/jobs/{climb}"),
            _ => format!("/api/v1/runs/000000000000a/logs/{climb}?follow=true"),
        };
        let answer = wire.get(&target).await;
        assert!((400..500).contains(&answer.status), "{target}: {}", answer.status);
        assert!(!answer.text().contains(secret), "{target}");
        if !answer.body.is_empty() {
            answer.code();
        }
    }
}

#[tokio::test]
async fn ids_and_names_are_strict() {
    let bench = Bench::new().await;
    let mut wire = bench.wire();
    let rows = [
        ("/api/v1/runs/1", 400, "bad_run_id"),
        ("/api/v1/runs/000000000000A", 400, "bad_run_id"),
        ("/api/v1/runs/z00000000000a", 400, "bad_run_id"),
        ("/api/v1/runs/0000000000001", 404, "no_such_run"),
        ("/api/v1/runs/0000000000001/logs", 404, "no_such_run"),
        ("/api/v1/runs/%ff", 400, "bad_path"),
        ("/api/v1/jobs/unknown", 404, "no_such_job"),
        ("/api/v1/jobs/-x", 400, "bad_job_name"),
        ("/api/v1/jobs/a%20b", 400, "bad_job_name"),
        ("/api/v1/jobs/%1b%5b31m", 400, "bad_job_name"),
        ("/api/v1/runs?before=1", 400, "bad_run_id"),
        ("/api/v1/runs?job=a/b", 400, "bad_job_name"),
    ];
    for (target, status, code) in rows {
        let answer = wire.get(target).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{target}");
        assert!(!answer.body.contains(&0x1b), "{target}: a control character came back raw");
    }
    let long = format!("/api/v1/jobs/{}", "x".repeat(20_000));
    let answer = wire.get(&long).await;
    assert_eq!(answer.code(), "bad_job_name");
    assert!(answer.body.len() < 1_000);
}

#[tokio::test]
async fn queries_are_strict() {
    let bench = Bench::new().await;
    let mut wire = bench.wire();
    let rows = [
        "/api/v1/jobs?limit=0",
        "/api/v1/jobs?limit=1001",
        "/api/v1/jobs?limit=-1",
        "/api/v1/jobs?limit=x",
        "/api/v1/jobs?limit=99999999999999999999",
        "/api/v1/jobs?removed=yes",
        "/api/v1/jobs?sort=age",
        "/api/v1/jobs?state=asleep",
        "/api/v1/jobs?label=:x",
        "/api/v1/runs?late_over=-1",
        "/api/v1/runs?param=x",
        "/api/v1/dues?offset=10001",
        "/api/v1/stats?step=0",
        "/api/v1/conflicts?limit=0",
        "/api/v1/jobs?limit=1&limit=2",
        "/api/v1/jobs/nightly?x=1",
        "/api/v1/runs?status=done",
        "/api/v1/runs?status=failed,",
        "/api/v1/runs?from=yesterday",
        "/api/v1/runs?to=2026-13-01T00:00:00Z",
        "/api/v1/runs?uid=0",
        "/api/v1/runs/000000000000a?wait_ms=20001",
        "/api/v1/runs/000000000000a?wait_ms=-1",
        "/api/v1/runs/000000000000a/logs?step=build",
        "/api/v1/runs/000000000000a/logs/build?attempt=x",
        "/api/v1/runs/000000000000a/logs/build?from=1&tail=2",
        "/api/v1/runs/000000000000a/logs/build?tail=10001",
        "/api/v1/history?status=failed",
        "/api/v1/skips?x",
        "/api/v1/upcoming?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z",
        "/api/v1/forecast?minutes=0",
        "/api/v1/forecast?minutes=10081",
        "/api/v1/forecast?step=90s",
        "/api/v1/forecast?minutes=1441",
        "/api/v1/forecast?step=0",
        "/api/v1/problems?file=x",
    ];
    for target in rows {
        let answer = wire.get(target).await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "bad_query"),
            "{target}: {}",
            answer.text()
        );
    }
    let answer = wire.get("/api/v1/runs?status=done").await.json();
    assert_eq!(
        answer["error"],
        json!({
            "code": "bad_query",
            "message": "status cannot be \"done\"",
            "help": "status is one or more of promised, waiting, running, succeeded, failed, stopped, skipped, lost, \
                     partially_succeeded, separated by commas",
        })
    );
}

#[tokio::test]
async fn bodies_are_strict() {
    let bench = Bench::new().await;
    let mut wire = bench.wire();
    let trigger = "/api/v1/jobs/nightly/trigger";
    let json = "application/json";
    let rows = [
        ("{", json, 400, "bad_json"),
        ("[]", json, 400, "bad_json"),
        ("null", json, 400, "bad_json"),
        ("{} {}", json, 400, "bad_json"),
        ("\u{feff}{}", json, 400, "bad_json"),
        (r#"{"uid": 0}"#, json, 400, "bad_json"),
        (r#"{"env": {"PATH": "/tmp"}}"#, json, 400, "bad_json"),
        (r#"{"params": {"a": []}}"#, json, 400, "bad_json"),
        (r#"{"parent": 7}"#, json, 400, "bad_json"),
        (r#"{"parent": "7"}"#, json, 400, "bad_run_id"),
        (r#"{"params": {}}"#, "text/plain", 415, "not_json"),
        (r#"{"params": {}}"#, "application/x-www-form-urlencoded", 415, "not_json"),
    ];
    for (body, kind, status, code) in rows {
        let answer = wire.send("POST", trigger, &[("Content-Type", kind)], body.as_bytes()).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{body}");
    }
    let deep = format!(r#"{{"params": {}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(wire.post(trigger, &deep).await.code(), "bad_json");
    let answer = wire.post(trigger, "{\"params\": {},\n \"uid\": 0}").await.json();
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("unknown field `uid`") && message.contains("line 2 column 6"), "{message}");
    for target in ["/api/v1/jobs/nightly/pause", "/api/v1/runs/000000000000a/stop"] {
        assert_eq!(wire.post(target, r#"{"force": true}"#).await.code(), "bad_json", "{target}");
    }
    assert_eq!(bench.commands(), [], "nothing of this reached the server");
}

#[tokio::test]
async fn large_bodies_are_refused() {
    let bench = Bench::new().await;
    let trigger = "/api/v1/jobs/nightly/trigger";
    // Announced: refused by the announcement alone.
    let mut wire = bench.wire();
    let head = format!(
        "POST {trigger} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: 99999999999\r\n\r\n",
        bench.token.as_str()
    );
    let answer = wire.raw(head.as_bytes(), false).await;
    assert_eq!((answer.status, answer.code().as_str()), (413, "body_too_large"));
    // Not announced: refused when it has come too far.
    let mut wire = bench.wire();
    let mut request = format!(
        "POST {trigger} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\r\n",
        bench.token.as_str()
    )
    .into_bytes();
    let chunk = "x".repeat(0x10000);
    for _ in 0..17 {
        request.extend(format!("10000\r\n{chunk}\r\n").bytes());
    }
    let answer = wire.raw(&request, false).await;
    assert_eq!((answer.status, answer.code().as_str()), (413, "body_too_large"));
    // As large as allowed.
    let value = "v".repeat((1 << 20) - 30);
    let body = format!(r#"{{"params": {{"a": "{value}"}}}}"#);
    bench.answer_with(|_| Ok(cadran_core::Reply::Run(crate::bench::run(50))));
    assert_eq!(bench.wire().post(trigger, &body).await.status, 201);
}

#[tokio::test]
async fn a_panic_is_an_answer_like_any_other() {
    let bench = Bench::new().await;
    let mut wire = bench.wire();
    bench.answer_with(|_| panic!("on purpose, with a secret"));
    let answer = wire.post("/api/v1/jobs/nightly/pause", "").await;
    assert_eq!((answer.status, answer.code().as_str()), (500, "internal"));
    assert!(!answer.text().contains("secret"), "the caller does not see the inside");
    assert_eq!(wire.get("/health").await.status, 200);
}
