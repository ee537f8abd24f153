//! What `fuzz.yaml` says about its store and its repository, against a small S3 server that this test plays itself.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Output;
use std::sync::{Arc, Mutex};

use super::home::{Home, said, text};

const STATUS_LINE: &str = "echo '#7 NEW cov: 5 ft: 5 corp: 2/3b exec/s: 11 rss: 3Mb'";

/// How many writes were asked for, and objects by path. It ignores every condition, and with `away` it answers 503 alone.
#[derive(Default)]
struct Careless {
    away: bool,
    writes: usize,
    objects: BTreeMap<String, Vec<u8>>,
}

fn serve(away: bool) -> (String, Arc<Mutex<Careless>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("an address").to_string();
    let shared = Arc::new(Mutex::new(Careless { away, ..Careless::default() }));
    let server = shared.clone();
    #[allow(clippy::disallowed_methods)] // a test's own threads
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let server = server.clone();
            std::thread::spawn(move || answer(stream, &server));
        }
    });
    (address, shared)
}

/// One request and its answer; the connection is closed then.
fn answer(mut stream: TcpStream, server: &Mutex<Careless>) -> Option<()> {
    let mut bytes = Vec::new();
    let (head, body) = loop {
        let mut chunk = [0; 4096];
        let read = stream.read(&mut chunk).ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&chunk[..read]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let len =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
        if bytes.len() >= end + 4 + len {
            break (
                String::from_utf8_lossy(&bytes[..end]).into_owned(),
                bytes[end + 4..end + 4 + len].to_vec(),
            );
        }
    };
    let mut words = head.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let path = target.split('?').next()?.to_owned();
    let mut server = server.lock().ok()?;
    server.writes += usize::from(method == "PUT");
    let (status, content) = match method {
        _ if server.away => ("503 Service Unavailable", Vec::new()),
        "PUT" => {
            server.objects.insert(path, body);
            ("200 OK", Vec::new())
        }
        "GET" if target.contains("list-type") => {
            ("200 OK", b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>".to_vec())
        }
        "DELETE" => ("204 No Content", Vec::new()),
        _ => match server.objects.get(&path) {
            Some(object) => ("200 OK", object.clone()),
            None => ("404 Not Found", b"<Error><Code>NoSuchKey</Code></Error>".to_vec()),
        },
    };
    drop(server);
    let content = if method == "HEAD" { Vec::new() } else { content };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nLast-Modified: Mon, 16 Nov 2026 00:00:00 GMT\r\nETag: \"1\"\r\n\
         Connection: close\r\n\r\n",
        content.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(&content).ok()
}

/// Asks for the status of a target whose state is on this server.
fn status(address: &str, more: &str) -> Output {
    let home = Home::plain("true", STATUS_LINE, more);
    home.move_to(&format!("s3://bucket/state?endpoint=http://{address}"));
    let mut command = home.command(&["status"]);
    command
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .env("AWS_REGION", "us-east-1");
    command.output().expect("it starts")
}

// covers: key fuzz_file.store_retries
#[test]
fn a_request_that_fails_is_repeated_as_often_as_it_is_told() {
    for (retries, writes) in [(0, 1), (2, 3)] {
        let (address, server) = serve(true);
        let output = status(&address, &format!("store_retries: {retries}\n"));
        assert_eq!(output.status.code(), Some(3), "{}", said(&output));
        assert_eq!(server.lock().expect("no panic").writes, writes, "store_retries: {retries}");
    }
}

// covers: key fuzz_file.single_writer
#[test]
fn a_store_that_ignores_conditions_is_refused_unless_nobody_else_writes() {
    let (address, _server) = serve(false);
    let refused = status(&address, "");
    assert!(
        !refused.status.success() && said(&refused).contains("single_writer: true"),
        "{}",
        said(&refused)
    );
    let single = status(&address, "single_writer: true\n");
    assert!(single.status.success(), "{}", said(&single));
}

// covers: key fuzz_file.submodules
#[test]
fn submodules_are_checked_out_where_that_is_asked_for() {
    let library = Home::new();
    library.git(&["init", "--quiet", "--initial-branch=main", "."]);
    library.commit("lib.txt", "from the library\n");
    let build = "test -e lib/lib.txt && echo > \"$CADRAN_OUT/fuzz\"";
    for (more, outcome) in [("", "failed"), ("submodules: true\n", "built")] {
        let home = Home::plain(build, STATUS_LINE, more);
        let url = library.path("repo").display().to_string();
        home.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, "lib"]);
        let hash = home.commit("src/a.cpp", "int b;\n");
        home.json(0, &["manager"]);
        assert_eq!(text(&home.json(0, &["builder", "--commit", &hash])["outcome"]), outcome, "{more}");
    }
}

// covers: option fuzz status --prometheus
#[test]
fn status_is_there_as_metrics_too() {
    let home = Home::plain("true", STATUS_LINE, "");
    home.json(0, &["manager"]);
    let output = home.cadran(&["status", "--prometheus"]);
    assert!(output.status.success(), "{}", said(&output));
    let metrics = String::from_utf8_lossy(&output.stdout).into_owned();
    for line in
        ["cadran_fuzz_queue{target=\"demo\"} 1", "cadran_fuzz_expired_unfuzzed_total{target=\"demo\"} 0"]
    {
        assert!(metrics.lines().any(|found| found == line), "{line} in {metrics}");
    }
    assert_eq!(home.cadran(&["status", "--prometheus", "--json"]).status.code(), Some(2));
}
