//! Executors and callers that misbehave: a clear word, a count, and nobody else notices.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;

use super::stub::{Stub, TOKEN, call, raw_call};
use super::support::{Home, PATIENCE, Server};
use super::{door, job, run, serve, trigger};

fn metric(server: &Server, name: &str) -> u64 {
    let (_, text) = server.get("/metrics");
    let text = text.as_str().unwrap_or_default().to_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
}

#[test]
fn bad_answers_fail_their_own_run_alone() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let (bad, good) = (Stub::new(&door(&server)), Stub::new(&door(&server)));
    bad.register("bad");
    good.register("g");
    home.job("tick", &job("quick", "schedule: every 1s\n"));
    for (handler, status, says) in [
        ("garbage", "failed", "its answer has no code"),
        ("flood", "failed", "its answer is too long"),
        // The order may have arrived: the executor is asked, and knows nothing of it.
        ("drip", "lost", "was lost with its executor"),
        ("mute", "lost", "was lost with its executor"),
    ] {
        home.job(handler, &format!("executor: bad\nhandler: {handler}\nretry: never\n"));
        let done = run(&server, handler);
        assert_eq!(done["status"], status, "{handler}: {done}");
        let words = format!("{} {}", done["explanation"], done["steps"][0]["message"]);
        assert!(words.contains(says), "{handler}: {words}");
    }
    good.wait("run", 3);
    let rows = server.history("tick");
    assert!(rows.iter().all(|row| row["status"] != "failed" && row["kind"] != "skip"), "{rows:?}");
    assert_eq!(metric(&server, "cadran_executor_orders_refused_total"), 2);
    assert_eq!(metric(&server, "cadran_executor_orders_unanswered_total"), 2);
    assert_eq!(metric(&server, "cadran_executor_shares_lost_total"), 2);
    for (name, lane, value) in
        [("orders", "fast", 0), ("orders_max", "fast", 1000), ("orders_max", "slow", 100)]
    {
        assert_eq!(metric(&server, &format!("cadran_executor_lane_{name}{{lane=\"{lane}\"}}")), value);
    }
    assert_eq!(metric(&server, "cadran_executor_lane_queued{lane=\"slow\"}"), 0);
}

#[test]
fn callers_that_never_finish_keep_nobody_waiting() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let door = door(&server);
    let halves = [
        String::new(),
        "POST /api/registry HTT".to_owned(),
        format!(
            "POST /api/callback HTTP/1.1\r\nHost: x\r\nXXL-JOB-ACCESS-TOKEN: {TOKEN}\r\nContent-Length: 99\r\n\r\n["
        ),
    ];
    let open: Vec<TcpStream> = halves
        .iter()
        .cycle()
        .take(120)
        .map(|half| {
            let mut stream = TcpStream::connect(&door).expect("the door is open");
            stream.write_all(half.as_bytes()).expect("half a request");
            stream
        })
        .collect();
    let stub = Stub::new(&door);
    stub.register("g");
    home.job("quick", &job("quick", ""));
    assert_eq!(run(&server, "quick")["status"], "succeeded");
    // A head without an end is refused for its size, and the connection closed.
    let mut stream = TcpStream::connect(&door).expect("the door is open");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    let _ =
        stream.write_all(format!("POST /api/registry HTTP/1.1\r\nX: {}", "x".repeat(64 << 10)).as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&answer));
    drop(open);
    assert!(server.stop().success());
}

#[test]
fn results_of_nobody_are_taken_and_counted() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let door = door(&server);
    let stub = Stub::new(&door);
    stub.register("g");
    home.job("hold", &job("hold", ""));
    let id = trigger(&server, "hold");
    let log = stub.wait("run", 1)[0]["logId"].clone();
    let token = [("XXL-JOB-ACCESS-TOKEN", TOKEN)];
    for odd in [
        json!([{"logId": 1, "handleCode": 200}, {"logId": (1_u64 << 53) - 1, "handleCode": 200}]),
        json!([{"logId": -1}, {"logId": "x"}, {"logId": 1e300}, {}, null, 7, "x", []]),
        json!([{"logId": format!("{log}0"), "handleCode": 200, "handleMsg": "x".repeat(100_000)}]),
        json!([]),
    ] {
        assert_eq!(call(&door, "callback", &odd, &token)["code"], 200, "{odd}");
    }
    // Another's token says nothing here.
    let theft = json!([{"logId": log, "handleCode": 200}]).to_string();
    let (_, answer) = raw_call(&door, "/api/callback", &theft, &[("XXL-JOB-ACCESS-TOKEN", "wrong")]);
    assert_eq!(answer["code"], 500);
    assert_eq!(server.run_is(&id, "running")["ended"], false);
    assert_eq!(metric(&server, "cadran_executor_results_stray_total"), 3);
    assert_eq!(metric(&server, "cadran_executor_calls_total{what=\"bad_body\"}"), 8);
    assert_eq!(metric(&server, "cadran_executor_calls_total{what=\"bad_token\"}"), 1);
    // The first result counts, whatever comes after it.
    assert_eq!(stub.report(&log, 200, "done")["code"], 200);
    assert_eq!(stub.report(&log, 500, "or not")["code"], 200);
    assert_eq!(super::ended(&server, &id)["status"], "succeeded");
    // Who has left is sent nothing more, the token least of all.
    stub.leave("g");
    home.client(&["logs", &id]);
    assert_eq!(stub.calls("log").len(), 0);
}
