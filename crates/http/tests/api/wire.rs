//! A client that sends exactly what it is told: no library tidies its paths.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {}", self.text()))
    }

    /// The error's code; panics when the answer does not have the one shape of errors.
    pub(crate) fn code(&self) -> String {
        let json = self.json();
        let error = json["error"].as_object().unwrap_or_else(|| panic!("not the shape of an error: {json}"));
        assert!(!error["message"].as_str().unwrap().is_empty(), "{json}");
        assert!(error.keys().all(|key| ["code", "message", "help"].contains(&key.as_str())), "{json}");
        error["code"].as_str().unwrap().to_owned()
    }
}

/// One kept connection.
pub(crate) struct Wire {
    address: SocketAddr,
    stream: Option<BufReader<TcpStream>>,
    pub(crate) token: Option<String>,
}

impl Wire {
    pub(crate) fn new(address: SocketAddr, token: Option<&str>) -> Wire {
        Wire { address, stream: None, token: token.map(str::to_owned) }
    }

    pub(crate) async fn get(&mut self, target: &str) -> Answer {
        self.send("GET", target, &[], b"").await
    }

    pub(crate) async fn post(&mut self, target: &str, body: &str) -> Answer {
        self.send("POST", target, &[("Content-Type", "application/json")], body.as_bytes()).await
    }

    pub(crate) async fn send(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut request = format!("{method} {target} HTTP/1.1\r\nHost: test\r\n").into_bytes();
        if let Some(token) = &self.token {
            request.extend(format!("Authorization: Bearer {token}\r\n").bytes());
        }
        for (name, value) in headers {
            request.extend(format!("{name}: {value}\r\n").bytes());
        }
        if method != "GET" && method != "HEAD" {
            request.extend(format!("Content-Length: {}\r\n", body.len()).bytes());
        }
        request.extend(b"\r\n");
        request.extend(body);
        self.raw(&request, method == "HEAD").await
    }

    pub(crate) async fn raw(&mut self, request: &[u8], head_only: bool) -> Answer {
        // A server may close a kept connection between two requests: then, once, a new one.
        for _ in 0..2 {
            if self.stream.is_none() {
                let stream = TcpStream::connect(self.address).await.unwrap();
                self.stream = Some(BufReader::new(stream));
            }
            let stream = self.stream.as_mut().unwrap();
            // A server that refuses a large body closes early; what it said before is still to be read.
            let _ = stream.write_all(request).await;
            if let Some(answer) = read_answer(stream, head_only).await {
                if answer.header("connection") == Some("close") {
                    self.stream = None;
                }
                return answer;
            }
            self.stream = None;
        }
        panic!("no answer to {}", String::from_utf8_lossy(&request[..request.len().min(300)]));
    }
}

async fn read_answer(stream: &mut BufReader<TcpStream>, head_only: bool) -> Option<Answer> {
    let (status, headers) = read_head(stream).await?;
    let mut answer = Answer { status, headers, body: Vec::new() };
    if head_only {
        return Some(answer);
    }
    if answer.header("transfer-encoding") == Some("chunked") {
        while let Some(chunk) = read_chunk(stream).await {
            answer.body.extend(chunk);
        }
    } else if let Some(len) = answer.header("content-length").map(|len| len.parse::<usize>().unwrap()) {
        answer.body = vec![0; len];
        stream.read_exact(&mut answer.body).await.ok()?;
    }
    Some(answer)
}

pub(crate) async fn read_head(stream: &mut BufReader<TcpStream>) -> Option<(u16, Vec<(String, String)>)> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|len| *len > 0)?;
    let status = line.split(' ').nth(1)?.parse().ok()?;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Some((status, headers))
}

/// The next chunk of a chunked body; `None` at its end, whether in order or cut off.
pub(crate) async fn read_chunk(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let len = usize::from_str_radix(line.trim(), 16).ok()?;
    let mut chunk = vec![0; len + 2];
    stream.read_exact(&mut chunk).await.ok()?;
    chunk.truncate(len);
    (len > 0).then_some(chunk)
}
