use std::time::Duration;

use crate::bench::Bench;
use crate::wire::read_head;
use cadran_http::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

fn short() -> Limits {
    Limits {
        connections_max: 4,
        head_time_max: Duration::from_millis(300),
        stall_time_max: Duration::from_millis(300),
        stop_time_max: Duration::from_millis(300),
        ..Limits::default()
    }
}

/// Reads until the other end closes.
async fn closed(stream: &mut TcpStream) {
    let mut sink = [0; 4096];
    while stream.read(&mut sink).await.is_ok_and(|len| len > 0) {}
}

#[tokio::test]
async fn silent_and_slow_heads_are_cut_off() {
    let bench = Bench::with(short()).await;
    for start in ["", "GET /health HTTP/1.1\r\nHos"] {
        let mut stream = TcpStream::connect(bench.address).await.unwrap();
        stream.write_all(start.as_bytes()).await.unwrap();
        closed(&mut stream).await;
    }
    // A kept connection that asks nothing more ends too.
    let mut stream = TcpStream::connect(bench.address).await.unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    closed(&mut stream).await;
}

#[tokio::test]
async fn connections_are_bounded_and_come_free() {
    let bench = Bench::with(short()).await;
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(TcpStream::connect(bench.address).await.unwrap());
    }
    // All places are taken by the silent; they are cut off, and whoever asks is answered.
    assert_eq!(bench.wire().get("/health").await.status, 200);
}

#[tokio::test]
async fn large_heads_are_refused() {
    let bench = Bench::new().await;
    let mut wire = bench.wire();
    // The bound is one of the buffer: a head that fits a single read may pass it by a little.
    let long = "x".repeat(400_000);
    let answer = wire.send("GET", "/health", &[("X-Long", long.as_str())], b"").await;
    assert_eq!(answer.status, 431);
    let many: Vec<(&str, &str)> = (0..500).map(|_| ("X", "y")).collect();
    let answer = bench.wire().send("GET", "/health", &many, b"").await;
    assert_eq!(answer.status, 431);
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_cut_off() {
    let mut bench = Bench::with(Limits { stop_time_max: Duration::from_secs(3600), ..short() }).await;
    bench.write_log(crate::bench::run(10), 0, "build", 1, &vec![b'x'; 64 << 20]);
    let mut stream = TcpStream::connect(bench.address).await.unwrap();
    let request = format!(
        "GET /api/v1/runs/000000000000a/logs/build HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n",
        bench.token.as_str()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut stream = BufReader::new(stream);
    assert_eq!(read_head(&mut stream).await.unwrap().0, 200);
    // Nothing more is read here. The stop waits for open requests, for an hour if need be: it returns because the
    // stalled one was cut off.
    bench.stop().await;
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert!(rest.len() < 64 << 20);
}

#[tokio::test]
async fn a_stop_ends_followers_at_once_and_takes_no_more() {
    let mut bench =
        Bench::with(Limits { stop_time_max: Duration::from_secs(3600), ..Limits::default() }).await;
    let mut stream = TcpStream::connect(bench.address).await.unwrap();
    let request = format!(
        "GET /api/v1/runs/0000000000018/logs/build?follow=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n",
        bench.token.as_str()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut stream = BufReader::new(stream);
    assert_eq!(read_head(&mut stream).await.unwrap().0, 200);
    bench.stop().await;
    closed(stream.get_mut()).await;
    assert!(TcpStream::connect(bench.address).await.is_err());
}

#[tokio::test]
async fn a_stop_does_not_wait_longer_than_it_may() {
    let mut bench = Bench::with(short()).await;
    // A body that never comes keeps its request open; the stop cuts it off.
    let mut stream = TcpStream::connect(bench.address).await.unwrap();
    let request = format!(
        "POST /api/v1/jobs/nightly/trigger HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: 10\r\n\r\n{{",
        bench.token.as_str()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    // The named moment: it is answered once before, so its connection is being served.
    assert_eq!(bench.wire().get("/health").await.status, 200);
    bench.stop().await;
    closed(&mut stream).await;
    assert_eq!(bench.commands(), []);
}
