use std::collections::BTreeSet;

use crate::bench::Bench;
use crate::wire::Wire;

/// Every endpoint with a request that it answers well, and what it answers without the right token. An endpoint that
/// is not in this table fails the test.
const ENDPOINTS: &[(&str, &str, &str, u16, u16)] = &[
    ("GET", "/api/v1/jobs", "/api/v1/jobs", 200, 401),
    ("GET", "/api/v1/jobs/{name}", "/api/v1/jobs/nightly", 200, 401),
    ("POST", "/api/v1/jobs/{name}/trigger", "/api/v1/jobs/nightly/trigger", 201, 401),
    ("POST", "/api/v1/jobs/{name}/pause", "/api/v1/jobs/nightly/pause", 200, 401),
    ("POST", "/api/v1/jobs/{name}/resume", "/api/v1/jobs/nightly/resume", 200, 401),
    ("GET", "/api/v1/runs", "/api/v1/runs", 200, 401),
    ("GET", "/api/v1/runs/{id}", "/api/v1/runs/000000000000a", 200, 401),
    ("POST", "/api/v1/runs/{id}/stop", "/api/v1/runs/000000000000a/stop", 200, 401),
    ("POST", "/api/v1/runs/{id}/retry", "/api/v1/runs/000000000000a/retry", 200, 401),
    ("GET", "/api/v1/runs/{id}/logs", "/api/v1/runs/000000000000a/logs", 200, 401),
    ("GET", "/api/v1/runs/{id}/logs/{step}", "/api/v1/runs/000000000000a/logs/build?follow=true", 200, 401),
    (
        "GET",
        "/api/v1/runs/{id}/logs/{step}/lines",
        "/api/v1/runs/000000000000a/logs/build/lines?count=1",
        200,
        401,
    ),
    (
        "GET",
        "/api/v1/runs/{id}/logs/{step}/search",
        "/api/v1/runs/000000000000a/logs/build/search?q=h",
        200,
        401,
    ),
    ("GET", "/api/v1/jobs/{name}/why", "/api/v1/jobs/nightly/why?at=0", 200, 401),
    ("POST", "/api/v1/spec/check", "/api/v1/spec/check", 400, 401),
    ("GET", "/api/v1/schedules/preview", "/api/v1/schedules/preview?text=@daily", 200, 401),
    ("GET", "/api/v1/jobs/{name}/definition", "/api/v1/jobs/nightly/definition", 200, 401),
    ("PUT", "/api/v1/jobs/{name}/definition", "/api/v1/jobs/nightly/definition", 400, 401),
    ("DELETE", "/api/v1/jobs/{name}/definition", "/api/v1/jobs/nightly/definition", 428, 401),
    ("GET", "/api/v1/jobs/{name}/revisions", "/api/v1/jobs/nightly/revisions", 200, 401),
    ("GET", "/api/v1/jobs/{name}/diff", "/api/v1/jobs/nightly/diff?from=3", 200, 401),
    ("POST", "/api/v1/spec/plan", "/api/v1/spec/plan", 400, 401),
    // Without a body they are not understood; the tests of the binary send one.
    ("POST", "/api/v1/jobs:pause", "/api/v1/jobs:pause", 422, 401),
    ("POST", "/api/v1/jobs:resume", "/api/v1/jobs:resume", 422, 401),
    ("POST", "/api/v1/jobs:trigger", "/api/v1/jobs:trigger", 422, 401),
    ("POST", "/api/v1/login-codes", "/api/v1/login-codes", 201, 401),
    ("GET", "/api/v1/session", "/api/v1/session", 200, 200),
    // Without a body it is not understood; see the tests of sessions.
    ("POST", "/api/v1/session", "/api/v1/session", 400, 403),
    ("DELETE", "/api/v1/session", "/api/v1/session", 204, 403),
    ("GET", "/api/v1/sessions", "/api/v1/sessions", 200, 401),
    ("DELETE", "/api/v1/sessions/{name}", "/api/v1/sessions/none", 404, 401),
    ("GET", "/api/v1/runs/{id}/why", "/api/v1/runs/000000000000a/why", 200, 401),
    ("GET", "/api/v1/conflicts", "/api/v1/conflicts", 200, 401),
    ("GET", "/api/v1/waits", "/api/v1/waits", 200, 401),
    ("GET", "/api/v1/dues", "/api/v1/dues?job=nightly", 200, 401),
    ("GET", "/api/v1/stats", "/api/v1/stats", 200, 401),
    ("GET", "/api/v1/jobs/{name}/graph", "/api/v1/jobs/nightly/graph", 200, 401),
    ("GET", "/api/v1/events", EVENTS, 400, 401),
    ("GET", "/api/v1/history", "/api/v1/history?job=nightly", 200, 401),
    ("GET", "/api/v1/skips", "/api/v1/skips", 200, 401),
    ("GET", "/api/v1/upcoming", "/api/v1/upcoming", 200, 401),
    ("GET", "/api/v1/forecast", "/api/v1/forecast", 200, 401),
    ("GET", "/api/v1/executors", "/api/v1/executors", 200, 401),
    ("GET", "/api/v1/problems", "/api/v1/problems", 200, 401),
    ("GET", "/api/v1/openapi.json", "/api/v1/openapi.json", 200, 401),
    ("GET", "/metrics", "/metrics", 200, 401),
    ("GET", "/health", "/health", 200, 200),
    ("GET", "/health/live", "/health/live", 200, 200),
    ("GET", "/health/ready", "/health/ready", 200, 200),
];

/// A stream that never ends is no request for this table; the tests of events make it.
const EVENTS: &str = "/api/v1/events?job=%20";

/// Not in the document: paths that do not exist, wrong methods, odd spellings of the open one. All closed.
const OTHERS: &[(&str, &str, u16)] = &[
    ("POST", "/", 404),
    ("GET", "/assets/", 404),
    ("GET", "/assets/app.js", 404),
    ("GET", "/api", 404),
    ("GET", "/api/v1", 404),
    ("GET", "/api/v1/", 404),
    ("GET", "/api/v1/secrets", 404),
    ("GET", "/api/v1/jobs/", 404),
    ("GET", "/api/v1/jobs/nightly/trigger/x", 404),
    ("GET", "/api/v2/jobs", 404),
    ("GET", "/health/", 404),
    ("GET", "/health/live/", 404),
    ("GET", "/health/other", 404),
    ("POST", "/health/ready", 405),
    ("GET", "//health", 404),
    ("GET", "/./health", 404),
    ("GET", "/x/../health", 404),
    ("GET", "/%68ealth", 404),
    ("GET", "/HEALTH", 404),
    ("GET", "/health%00", 404),
    ("GET", "/health;x", 404),
    ("POST", "/health", 405),
    ("DELETE", "/api/v1/jobs", 405),
    ("GET", "/api/v1/jobs/nightly/trigger", 405),
    ("PUT", "/api/v1/jobs/nightly", 405),
    ("OPTIONS", "/api/v1/jobs", 405),
    ("TRACE", "/metrics", 405),
    ("BREW", "/api/v1/jobs", 405),
];

#[tokio::test]
async fn nothing_but_health_and_signing_in_answers_without_the_token() {
    let bench = Bench::new().await;
    bench.answer_with(|_| Ok(cadran_core::Reply::Run(cadran_core::RunId::from_raw(9))));
    bench.write_log(crate::bench::run(10), 0, "build", 1, b"hello\n");
    let bad = "0".repeat(64);
    for token in [None, Some(bad.as_str()), Some(bench.token.as_str())] {
        let good = token == Some(bench.token.as_str());
        for (method, _, target, with, without) in ENDPOINTS {
            let answer = Wire::new(bench.address, token).send(method, target, &[], b"").await;
            if good {
                assert_eq!(answer.status, *with, "{method} {target}: {}", answer.text());
                assert_no_secret(&answer, &bench);
            } else {
                // After a few failures 429 takes the place of 401.
                let closed = answer.status == *without || (*without == 401 && answer.status == 429);
                assert!(closed, "{method} {target}: {} {}", answer.status, answer.text());
                if answer.status == 401 {
                    assert_eq!(answer.code(), "unauthorized");
                    assert!(answer.header("www-authenticate").unwrap().starts_with("Bearer"));
                }
            }
            assert_headers(&answer);
        }
        for (method, target, with) in OTHERS {
            let answer = Wire::new(bench.address, token).send(method, target, &[], b"").await;
            assert_headers(&answer);
            if good {
                assert_eq!(answer.status, *with, "{method} {target}: {}", answer.text());
                assert_eq!(answer.code(), if *with == 404 { "no_such_path" } else { "wrong_method" });
            } else {
                assert!(matches!(answer.status, 401 | 429), "{method} {target}: {}", answer.status);
                answer.code();
            }
        }
    }
    assert_eq!(bench.commands().len(), 5, "only the right token moves anything");
}

fn assert_headers(answer: &crate::wire::Answer) {
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert!(answer.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    assert!(answer.header("access-control-allow-origin").is_none());
}

fn assert_no_secret(answer: &crate::wire::Answer, bench: &Bench) {
    assert!(!answer.text().contains(bench.token.as_str()));
}

#[tokio::test]
async fn the_document_lists_every_endpoint() {
    let bench = Bench::new().await;
    let document = bench.wire().get("/api/v1/openapi.json").await.json();
    let mut documented = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            documented.insert((method.to_uppercase(), path.clone()));
        }
    }
    let walked: BTreeSet<_> =
        ENDPOINTS.iter().map(|(method, path, ..)| ((*method).to_owned(), (*path).to_owned())).collect();
    assert_eq!(documented, walked, "an endpoint and its row in the table come together");
    assert_eq!(document["paths"]["/health"]["get"]["security"][0], serde_json::json!({}));
    assert_eq!(document["security"][0], serde_json::json!({ "bearer": [] }));
    for schema in ["ErrorBody", "JobPage", "RunDetail", "HistoryPage", "Triggered"] {
        assert!(document["components"]["schemas"][schema].is_object(), "{schema}");
    }
    assert_eq!(cadran_http::openapi(), bench.wire().get("/api/v1/openapi.json").await.text());
}

#[tokio::test]
async fn every_response_is_described_and_every_reference_leads_somewhere() {
    let document: serde_json::Value = serde_json::from_str(&cadran_http::openapi()).unwrap();
    let (mut responses, mut bare) = (0, Vec::new());
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            for (status, response) in operation["responses"].as_object().unwrap() {
                responses += 1;
                if response["description"].as_str().is_none_or(str::is_empty) {
                    bare.push(format!("{method} {path} {status}"));
                }
            }
        }
    }
    assert!(responses > 40 && bare.is_empty(), "without a description: {bare:?}");
    // Two shapes under one name would silently become one: the steps of a job and of a run have different fields.
    let schemas = &document["components"]["schemas"];
    for (schema, field) in [("JobStepItem", "depends"), ("StepItem", "attempt")] {
        assert!(schemas[schema]["properties"][field].is_object(), "{schema}: {}", schemas[schema]);
    }
    let text = document.to_string();
    for part in text.split("#/components/schemas/").skip(1) {
        let name: String = part.chars().take_while(|char| char.is_alphanumeric()).collect();
        assert!(schemas[&name].is_object(), "{name} is referred to and not there");
    }
}

#[test]
fn no_two_shapes_of_the_document_share_a_name() {
    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut names = BTreeSet::new();
    for folder in ["endpoint", "view", "."] {
        for file in std::fs::read_dir(sources.join(folder)).unwrap().flatten() {
            let Ok(text) = std::fs::read_to_string(file.path()) else { continue };
            for derived in text.split("ToSchema)]").skip(1) {
                let at = ["struct ", "enum "]
                    .iter()
                    .filter_map(|word| Some(derived.find(word)? + word.len()))
                    .min();
                let name: String =
                    derived[at.unwrap()..].chars().take_while(|char| char.is_alphanumeric()).collect();
                assert!(names.insert(name.clone()), "two shapes are called {name}");
            }
        }
    }
    assert!(names.len() > 20, "{names:?}");
}

#[tokio::test]
async fn wrong_tokens_are_held_off_and_the_right_one_passes() {
    let bench = Bench::new().await;
    let mut guesser = Wire::new(bench.address, Some("guess"));
    let mut statuses = Vec::new();
    for _ in 0..14 {
        let answer = guesser.get("/api/v1/jobs").await;
        if answer.status == 429 {
            assert_eq!(answer.code(), "too_many_bad_tokens");
            assert!(answer.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
        }
        statuses.push(answer.status);
    }
    assert_eq!(statuses[..10], [401; 10]);
    assert_eq!(statuses[13], 429);
    assert_eq!(bench.wire().get("/api/v1/jobs").await.status, 200, "the owner is not locked out");
    assert_eq!(guesser.get("/health").await.status, 200);
}
