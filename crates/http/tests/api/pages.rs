//! What browsers get: the page, sessions, events.

use cadran_core::{RunStatus, SkipReason};
use cadran_http::LiveChange;
use serde_json::json;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::bench::{Bench, bounded, changed, run};
use crate::wire::{self, Answer, Wire};

/// A browser that came to the page by its address.
struct Browser {
    wire: Wire,
    host: String,
    cookie: Option<String>,
}

impl Browser {
    fn new(bench: &Bench) -> Browser {
        Browser { wire: Wire::new(bench.address, None), host: bench.address.to_string(), cookie: None }
    }

    async fn send(&mut self, method: &str, target: &str, headers: &str, body: &str) -> Answer {
        let cookie = self.cookie.as_ref().map(|cookie| format!("Cookie: {cookie}\r\n")).unwrap_or_default();
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\n{cookie}{headers}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.host,
            body.len()
        );
        let answer = self.wire.raw(request.as_bytes(), method == "HEAD").await;
        if let Some(set) = answer.header("set-cookie") {
            self.cookie = set.split(';').next().map(str::to_owned);
        }
        answer
    }

    async fn own(&mut self, method: &str, target: &str, body: &str) -> Answer {
        self.send(method, target, "Sec-Fetch-Site: same-origin\r\n", body).await
    }
}

async fn code(bench: &Bench, body: &str) -> String {
    let made = bench.wire().post("/api/v1/login-codes", body).await;
    assert_eq!(made.status, 201, "{}", made.text());
    made.json()["code"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_page_is_served_with_strict_rules() {
    let bench = Bench::new().await;
    let mut browser = Browser::new(&bench);
    let page = browser.send("GET", "/", "", "").await;
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy").unwrap().to_owned();
    for rule in [
        "default-src 'none'",
        "script-src 'self'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ] {
        assert!(policy.contains(rule), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(page.header("cache-control"), Some("no-cache"));
    let text = page.text();
    for target in text.split('"').filter(|part| part.starts_with("/assets/app-")) {
        let plain = browser.send("GET", target, "", "").await;
        let packed = browser.send("GET", target, "Accept-Encoding: gzip\r\n", "").await;
        assert_eq!((plain.status, packed.status), (200, 200), "{target}");
        assert_eq!(packed.header("content-encoding"), Some("gzip"));
        assert!(packed.body.len() < plain.body.len() && packed.body.starts_with(&[0x1f, 0x8b]));
        assert!(plain.header("cache-control").unwrap().contains("immutable"));
        let etag = format!("If-None-Match: {}\r\n", plain.header("etag").unwrap());
        assert_eq!(browser.send("GET", target, &etag, "").await.status, 304);
    }
    for target in ["/jobs", "/jobs/nightly", "/runs/x/log/y", "/session"] {
        assert_eq!(browser.send("GET", target, "", "").await.text(), text, "{target}");
    }
    assert_eq!(browser.send("GET", "/assets/other.js", "", "").await.status, 401);
    assert_eq!(browser.send("GET", "/jobsx", "", "").await.status, 401);
}

#[tokio::test]
async fn a_code_signs_one_browser_in() {
    let bench = Bench::new().await;
    let code = code(&bench, "{}").await;
    let mut browser = Browser::new(&bench);
    assert_eq!(browser.own("GET", "/api/v1/session", "").await.json()["signed_in"], false);
    assert_eq!(browser.own("GET", "/api/v1/jobs", "").await.status, 401);
    let body = json!({ "code": code }).to_string();
    let signed = browser.own("POST", "/api/v1/session", &body).await;
    assert_eq!(signed.status, 201, "{}", signed.text());
    let cookie = signed.header("set-cookie").unwrap();
    assert!(cookie.starts_with(&format!("cadran_{}=", bench.address.port())), "{cookie}");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains("Secure"), "plain http keeps no secure cookie");
    assert_eq!(browser.own("GET", "/api/v1/jobs", "").await.status, 200);
    assert_eq!(browser.own("POST", "/api/v1/jobs/nightly/pause", "{}").await.status, 200);
    let again = Browser::new(&bench).own("POST", "/api/v1/session", &body).await;
    assert_eq!((again.status, &*again.code()), (401, "bad_code"), "a code works once");
    assert_eq!(browser.own("DELETE", "/api/v1/session", "").await.status, 204);
    browser.cookie = cookie.split(';').next().map(str::to_owned);
    let ended = browser.own("GET", "/api/v1/jobs", "").await;
    assert_eq!((ended.status, &*ended.code()), (401, "session_ended"));
    assert_eq!(bench.commands().len(), 1);
}

#[tokio::test]
async fn the_token_signs_in_and_a_wrong_one_is_counted() {
    let bench = Bench::new().await;
    let mut browser = Browser::new(&bench);
    let good = json!({ "token": bench.token.as_str() }).to_string();
    assert_eq!(browser.own("POST", "/api/v1/session", &good).await.status, 201);
    let statuses = {
        let mut statuses = Vec::new();
        for _ in 0..12 {
            statuses
                .push(Browser::new(&bench).own("POST", "/api/v1/session", r#"{"token":"no"}"#).await.status);
        }
        statuses
    };
    assert_eq!((statuses[0], statuses[11]), (401, 429));
    for body in ["{}", r#"{"code":"a","token":"b"}"#, r#"{"secret":1}"#] {
        assert_eq!(browser.own("POST", "/api/v1/session", body).await.status, 400, "{body}");
    }
}

#[tokio::test]
async fn other_sites_change_nothing() {
    let bench = Bench::new().await;
    let code = code(&bench, "{}").await;
    let mut browser = Browser::new(&bench);
    browser.own("POST", "/api/v1/session", &json!({ "code": code }).to_string()).await;
    let pause = "/api/v1/jobs/nightly/pause";
    for headers in [
        "",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
        "Origin: http://127.0.0.1:1\r\n",
        "Origin: null\r\n",
        "Origin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\n",
    ] {
        let answer = browser.send("POST", pause, headers, "").await;
        assert_eq!((answer.status, &*answer.code()), (403, "foreign_origin"), "{headers:?}");
    }
    assert_eq!(browser.send("GET", "/api/v1/jobs", "Sec-Fetch-Site: cross-site\r\n", "").await.status, 403);
    let origin = format!("Origin: http://{}\r\n", bench.address);
    assert_eq!(browser.send("POST", pause, &origin, "").await.status, 200);
    browser.host = format!("evil.example:{}", bench.address.port());
    let rebound = browser.own("GET", "/api/v1/jobs", "").await;
    assert_eq!((rebound.status, &*rebound.code()), (403, "foreign_host"));
    assert_eq!(bench.commands().len(), 1);
}

#[tokio::test]
async fn a_session_that_may_only_look() {
    let bench = Bench::new().await;
    let code = code(&bench, r#"{"read_only":true}"#).await;
    let mut reader = Browser::new(&bench);
    reader.own("POST", "/api/v1/session", &json!({ "code": code }).to_string()).await;
    assert_eq!(reader.own("GET", "/api/v1/session", "").await.json()["read_only"], true);
    assert_eq!(reader.own("GET", "/api/v1/runs", "").await.status, 200);
    for target in ["/api/v1/jobs/nightly/pause", "/api/v1/jobs/nightly/trigger", "/api/v1/login-codes"] {
        let answer = reader.own("POST", target, "{}").await;
        assert_eq!((answer.status, &*answer.code()), (403, "read_only"), "{target}");
    }
    let listed = bench.wire().get("/api/v1/sessions").await.json();
    let name = listed["sessions"][0]["name"].as_str().unwrap().to_owned();
    assert_eq!(reader.own("DELETE", &format!("/api/v1/sessions/{name}"), "").await.status, 403);
    let ended = bench.wire().send("DELETE", &format!("/api/v1/sessions/{name}"), &[], b"").await;
    assert_eq!(ended.status, 204);
    assert_eq!(reader.own("GET", "/api/v1/runs", "").await.status, 401, "an ended session opens nothing");
    assert_eq!(bench.commands().len(), 0);
}

/// Reads events until one has this name; the lines of it.
async fn until(stream: &mut BufReader<TcpStream>, name: &str) -> String {
    let wanted = format!("event: {name}\n");
    bounded(async {
        let mut text = String::new();
        loop {
            let chunk = wire::read_chunk(stream).await.expect("the stream goes on");
            text.push_str(&String::from_utf8_lossy(&chunk));
            while let Some((event, rest)) = text.split_once("\n\n") {
                if format!("{event}\n").contains(&wanted) {
                    return event.to_owned();
                }
                text = rest.to_owned();
            }
        }
    })
    .await
}

async fn watch(bench: &Bench, query: &str) -> BufReader<TcpStream> {
    let mut stream = BufReader::new(TcpStream::connect(bench.address).await.unwrap());
    let token = bench.token.as_str();
    let request =
        format!("GET /api/v1/events{query} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let (status, headers) = wire::read_head(&mut stream).await.unwrap();
    assert_eq!(status, 200);
    assert!(headers.contains(&("content-type".into(), "text/event-stream".into())), "{headers:?}");
    stream
}

#[tokio::test]
async fn events_resume_where_they_broke_off() {
    let bench = Bench::new().await;
    let mut stream = watch(&bench, "").await;
    until(&mut stream, "hello").await;
    bench.server.events.push(vec![changed(run(7), RunStatus::Running)]);
    let first = until(&mut stream, "run").await;
    assert!(first.contains(r#""run":"0000000000007""#) && first.contains(r#""status":"running""#), "{first}");
    let id = first.lines().find_map(|line| line.strip_prefix("id: ")).unwrap().to_owned();
    drop(stream);
    bench.server.events.push(vec![changed(run(8), RunStatus::Failed)]);
    let mut again = watch(&bench, &format!("?after={id}")).await;
    let missed = until(&mut again, "run").await;
    assert!(missed.contains(r#""run":"0000000000008""#), "{missed}");
    let mut other = watch(&bench, "?after=1-1").await;
    until(&mut other, "reset").await;
    assert!(until(&mut other, "tick").await.contains(r#""active":3"#));
}

#[tokio::test]
async fn many_events_come_as_one() {
    let bench = Bench::new().await;
    let mut stream = watch(&bench, "").await;
    until(&mut stream, "hello").await;
    let mut changes: Vec<LiveChange> = (0..500).map(|no| changed(run(no), RunStatus::Succeeded)).collect();
    changes.push(LiveChange::Skip { job: "other".parse().unwrap(), count: 9, reason: SkipReason::Paused });
    bench.server.events.push(changes);
    let burst = until(&mut stream, "burst").await;
    assert!(burst.contains(r#""count":501"#) && burst.contains(r#""skips":9"#), "{burst}");
    let mut of_job = watch(&bench, "?job=other").await;
    until(&mut of_job, "hello").await;
    bench
        .server
        .events
        .push(vec![changed(run(3), RunStatus::Failed), LiveChange::Job { job: "other".parse().unwrap() }]);
    assert!(until(&mut of_job, "job").await.contains(r#""job":"other""#));
}

#[tokio::test]
async fn a_page_of_jobs_asks_the_loop_nothing() {
    let bench = Bench::new().await;
    let page = bench.wire().get("/api/v1/jobs").await.json();
    assert!(page["jobs"].as_array().unwrap().len() > 1);
    assert_eq!(bench.server.looks.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[tokio::test]
async fn lines_of_a_log_by_number() {
    let bench = Bench::new().await;
    let text: String = (0..3_000).map(|no| format!("line {no}\n")).collect();
    bench.write_log(run(10), 0, "build", 1, text.as_bytes());
    let mut wire = bench.wire();
    let target = "/api/v1/runs/000000000000a/logs/build";
    let page = wire.get(&format!("{target}/lines?from=2500&count=2")).await.json();
    assert_eq!((&page["lines"], &page["total"]), (&json!(["line 2500", "line 2501"]), &json!(3_000)));
    let found = wire.get(&format!("{target}/search?q=LINE%202999")).await.json();
    assert_eq!(found["lines"], json!([]), "upper case is meant");
    let found = wire.get(&format!("{target}/search?q=line%20299&limit=2")).await.json();
    assert_eq!((&found["lines"], &found["next"]), (&json!([299, 2990]), &json!(2991)));
    assert_eq!(wire.get(&format!("{target}/lines?count=0")).await.status, 400);
    assert_eq!(wire.get(&format!("{target}/search?q=")).await.status, 400);
    assert_eq!(wire.get("/api/v1/runs/000000000000a/logs/none/lines").await.code(), "no_such_log");
}

#[tokio::test]
async fn json_is_packed_for_those_who_take_it() {
    let bench = Bench::new().await;
    let packed = bench.wire().send("GET", "/api/v1/openapi.json", &[("Accept-Encoding", "gzip")], b"").await;
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert!(packed.body.starts_with(&[0x1f, 0x8b]));
    let small = bench.wire().send("GET", "/health", &[("Accept-Encoding", "gzip")], b"").await;
    assert_eq!(small.header("content-encoding"), None);
}

#[tokio::test]
async fn a_file_and_a_schedule_are_tried_without_keeping_anything() {
    let bench = Bench::new().await;
    let mut wire = bench.wire();
    let good =
        json!({ "text": "schedule: \"0 9 * * *\"\nsteps:\n  - run: echo\n", "name": "morning" }).to_string();
    let checked = wire.post("/api/v1/spec/check", &good).await.json();
    assert_eq!((&checked["ok"], &checked["job"]), (&json!(true), &json!("morning")));
    assert_eq!(checked["dues"][0]["due"], "2026-11-16T09:00:00.000Z");
    let bad = json!({ "text": "steps:\n  - rum: echo\n" }).to_string();
    let checked = wire.post("/api/v1/spec/check", &bad).await.json();
    assert_eq!(checked["ok"], false);
    assert!(checked["problems"].as_array().unwrap().iter().any(|one| one["line"] == 2), "{checked}");
    let target = "/api/v1/schedules/preview?text=30%202%20*%20*%20*&timezone=Europe/Paris&from=2026-03-28T12:00:00Z&limit=1";
    let preview = wire.get(target).await.json();
    assert_eq!(preview["dues"][0]["note"], "the clocks go forward by 1 h at this instant");
    assert_eq!(wire.get("/api/v1/schedules/preview?text=99%20*%20*%20*%20*").await.code(), "bad_schedule");
    assert_eq!(wire.get("/api/v1/schedules/preview?text=@daily&timezone=Mars").await.status, 400);
    assert_eq!(bench.commands().len(), 0);
}

#[tokio::test]
async fn why_a_job_did_or_did_not_run_at_an_instant() {
    let bench = Bench::new().await;
    let mut wire = bench.wire();
    let history = wire.get("/api/v1/history?job=nightly").await.json();
    let items = history["history"].as_array().unwrap();
    let run = items.iter().find(|item| item["kind"] == "run" && item["status"] == "succeeded").unwrap();
    let why = wire.get(&format!("/api/v1/jobs/nightly/why?at={}", run["due_ms"])).await.json();
    assert_eq!(why["outcome"], "run", "{why}");
    assert_eq!(why["run"]["due_ms"], run["due_ms"], "{why}");
    let skip = items.iter().find(|item| item["kind"] == "skip").unwrap();
    let why = wire.get(&format!("/api/v1/jobs/nightly/why?at={}", skip["last_due_ms"])).await.json();
    let is_run_first =
        why["run"]["due_ms"].as_i64().is_some_and(|due| due <= skip["last_due_ms"].as_i64().unwrap());
    assert!(why["outcome"] == "skip" || is_run_first, "{why}");
    let none = wire.get("/api/v1/jobs/nightly/why?at=1970-01-01T00:00:30Z").await.json();
    assert!(["no_due", "unknown"].contains(&none["outcome"].as_str().unwrap()), "{none}");
    assert_eq!(wire.get("/api/v1/jobs/nobody/why?at=0").await.code(), "no_such_job");
    assert_eq!(wire.get("/api/v1/jobs/nightly/why?at=soon").await.status, 400);
    assert_eq!(wire.get("/api/v1/jobs/nightly/why").await.status, 400);
}
