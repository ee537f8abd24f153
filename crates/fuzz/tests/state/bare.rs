//! A server that compares ETags without their quotes, as Ceph's gateway did: just enough of S3 to see it.

use std::sync::{Arc, Mutex};

use cadran_fuzz::{Bucket, BucketOptions, Condition, Put};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// One object, and how often each kind of condition was asked for.
#[derive(Default)]
struct Shelf {
    object: Option<(Vec<u8>, u64)>,
    quoted: u32,
    bare: u32,
}

async fn serve() -> (String, Arc<Mutex<Shelf>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let shelf = Arc::new(Mutex::new(Shelf::default()));
    let shared = Arc::clone(&shelf);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, Arc::clone(&shared)));
        }
    });
    (address, shelf)
}

async fn answer(mut stream: TcpStream, shelf: Arc<Mutex<Shelf>>) {
    let mut bytes = Vec::new();
    let (head, body) = loop {
        let mut chunk = [0; 4096];
        let read = stream.read(&mut chunk).await.unwrap_or(0);
        if read == 0 {
            return;
        }
        bytes.extend_from_slice(&chunk[..read]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_string();
        let size: usize = header(&head, "content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        if bytes.len() >= end + 4 + size {
            break (head, bytes[end + 4..end + 4 + size].to_vec());
        }
    };
    let (status, e_tag, content) = decide(&head, body, &mut shelf.lock().unwrap());
    let e_tag = e_tag.map(|number| format!("ETag: \"{number}\"\r\n")).unwrap_or_default();
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nLast-Modified: Mon, 16 Nov 2026 00:00:00 GMT\r\n{e_tag}Connection: close\r\n\r\n",
        content.len()
    );
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.write_all(&content).await;
    let _ = stream.shutdown().await;
}

fn decide(head: &str, body: Vec<u8>, shelf: &mut Shelf) -> (&'static str, Option<u64>, Vec<u8>) {
    let current = shelf.object.as_ref().map(|(_, number)| *number);
    match head.split(' ').next() {
        Some("PUT") => {
            let holds = match (header(head, "if-match"), header(head, "if-none-match")) {
                (Some(wanted), _) => {
                    if wanted.starts_with('"') {
                        shelf.quoted += 1;
                    } else {
                        shelf.bare += 1;
                    }
                    current.is_some_and(|number| wanted == number.to_string())
                }
                (None, Some(_)) => current.is_none(),
                (None, None) => true,
            };
            if !holds {
                return ("412 Precondition Failed", None, Vec::new());
            }
            let number = current.unwrap_or(100) + 1;
            shelf.object = Some((body, number));
            ("200 OK", Some(number), Vec::new())
        }
        Some("GET") => match &shelf.object {
            Some((bytes, number)) => ("200 OK", Some(*number), bytes.clone()),
            None => ("404 Not Found", None, b"<Error><Code>NoSuchKey</Code></Error>".to_vec()),
        },
        _ => {
            shelf.object = None;
            ("204 No Content", None, Vec::new())
        }
    }
}

fn header(head: &str, name: &str) -> Option<String> {
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    lines
        .into_iter()
        .find(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim().to_string())
}

#[tokio::test]
async fn h32_a_server_that_wants_bare_etags_is_understood() {
    let (endpoint, shelf) = serve().await;
    let options = BucketOptions {
        endpoint: Some(endpoint),
        region: None,
        credentials: Some(("key".into(), "secret".into())),
        ..BucketOptions::default()
    };
    let bucket = Bucket::open("s3://bucket", &options).await.unwrap();
    bucket.probe().await.unwrap();
    let Put::Written(first) = bucket.put("k", b"one", &Condition::Absent).await.unwrap() else { panic!() };
    let quoted = shelf.lock().unwrap().quoted;
    let Put::Written(second) = bucket.put("k", b"two", &Condition::Matches(first.clone())).await.unwrap()
    else {
        panic!()
    };
    assert_eq!(bucket.put("k", b"three", &Condition::Matches(first)).await.unwrap(), Put::Conflict);
    assert!(matches!(bucket.put("k", b"three", &Condition::Matches(second)).await.unwrap(), Put::Written(_)));
    assert_eq!(bucket.get("k").await.unwrap().unwrap().bytes, b"three");
    let shelf = shelf.lock().unwrap();
    assert_eq!(shelf.quoted, quoted, "once it is known, nobody asks with quotes");
    assert!(shelf.bare > 2);
}
