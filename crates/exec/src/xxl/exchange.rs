//! One request and its answer over a connection: HTTP/1.1 as far as executors speak it.
//!
//! Nothing lies between an order and its connection: with thousands of orders in one second that would be most of their
//! cost. Heads and chunks are parsed by `httparse`.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::ready;

use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

/// A connection that is open.
pub(crate) struct Wire {
    stream: TcpStream,
    /// What was read and not yet used.
    buffer: Vec<u8>,
}

/// What came back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// The connection may be used again.
    pub(crate) keeps: bool,
}

/// Why nothing came back.
#[derive(Debug)]
pub(crate) enum Broken {
    /// Before a byte of an answer.
    Silent(io::Error),
    /// In the middle of one, or it is none.
    Odd(&'static str),
}

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(u64),
    Chunks,
    /// The other end closes.
    Close,
}

/// Lines in a head: more is no executor.
const HEADERS_MAX: usize = 64;

/// Bytes of a head.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Room for what is read at once: most answers are shorter.
const READ_BYTES: usize = 2048;

impl Wire {
    pub(crate) async fn connect(host: &str, port: u16) -> io::Result<Wire> {
        let stream = TcpStream::connect((host, port)).await?;
        let _ = stream.set_nodelay(true);
        Ok(Wire { stream, buffer: Vec::new() })
    }

    /// Whether nothing came since the last answer, an end of the connection least of all.
    pub(crate) fn is_quiet(&self) -> bool {
        let mut byte = [0];
        let read = self.stream.try_read(&mut byte);
        self.buffer.is_empty() && read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Sends as much of a request as the connection takes at once. An error is the end of the connection.
    pub(crate) fn send_now(&self, request: &[u8]) -> io::Result<usize> {
        match self.stream.try_write(request) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            other => other,
        }
    }

    /// Sends a whole request.
    pub(crate) async fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.stream.write_all(request).await
    }

    /// Reads its answer, with a body of at most so many bytes.
    pub(crate) async fn receive(&mut self, bytes_max: usize) -> Result<Response, Broken> {
        let (status, keeps, framing) = loop {
            match head(&self.buffer)? {
                // An interim answer: the real one follows.
                Some((len, 100..=199, ..)) => drop(self.buffer.drain(..len)),
                Some((len, status, keeps, framing)) => {
                    self.buffer.drain(..len);
                    break (status, keeps, framing);
                }
                None if self.buffer.len() > HEAD_BYTES_MAX => {
                    return Err(Broken::Odd("its head is too long"));
                }
                None => match self.read().await {
                    Ok(0) => return Err(self.ended()),
                    Ok(_) => {}
                    Err(error) => return Err(self.failed(error)),
                },
            }
        };
        let body = match framing {
            Framing::Length(len) if len > bytes_max as u64 => return Err(TOO_LONG),
            Framing::Length(len) => self.take(len as usize).await?,
            Framing::Chunks => self.chunks(bytes_max).await?,
            Framing::Close => {
                while self.read().await.map_err(|_| BROKE_OFF)? > 0 {
                    if self.buffer.len() > bytes_max {
                        return Err(TOO_LONG);
                    }
                }
                std::mem::take(&mut self.buffer)
            }
        };
        // What follows an answer belongs to no request of ours.
        let keeps = keeps && framing != Framing::Close && self.buffer.is_empty();
        Ok(Response { status, body, keeps })
    }

    /// By way of the stack: an answer is a few words, and thousands of them wait for somebody who has time.
    async fn read(&mut self) -> io::Result<usize> {
        poll_fn(|cx| {
            let mut room = [MaybeUninit::uninit(); READ_BYTES];
            let mut piece = ReadBuf::uninit(&mut room);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut piece))?;
            self.buffer.extend_from_slice(piece.filled());
            Ok(piece.filled().len()).into()
        })
        .await
    }

    fn ended(&self) -> Broken {
        match self.buffer.is_empty() {
            true => Broken::Silent(io::ErrorKind::UnexpectedEof.into()),
            false => BROKE_OFF,
        }
    }

    fn failed(&self, error: io::Error) -> Broken {
        if self.buffer.is_empty() { Broken::Silent(error) } else { BROKE_OFF }
    }

    async fn take(&mut self, len: usize) -> Result<Vec<u8>, Broken> {
        while self.buffer.len() < len {
            if self.read().await.map_err(|_| BROKE_OFF)? == 0 {
                return Err(BROKE_OFF);
            }
        }
        if len > READ_BYTES {
            // The connection keeps no more room than its next answer is likely to need.
            let rest = self.buffer.split_off(len);
            return Ok(std::mem::replace(&mut self.buffer, rest));
        }
        let body = self.buffer[..len].to_vec();
        self.buffer.drain(..len);
        Ok(body)
    }

    async fn chunks(&mut self, bytes_max: usize) -> Result<Vec<u8>, Broken> {
        let mut body = Vec::new();
        loop {
            let (at, size) = loop {
                match httparse::parse_chunk_size(&self.buffer) {
                    Ok(httparse::Status::Complete(found)) => break found,
                    Ok(httparse::Status::Partial) if self.buffer.len() < READ_BYTES => {
                        if self.read().await.map_err(|_| BROKE_OFF)? == 0 {
                            return Err(BROKE_OFF);
                        }
                    }
                    _ => return Err(Broken::Odd("its answer has no chunks where it should")),
                }
            };
            self.buffer.drain(..at);
            if size == 0 {
                return self.trailers().await.map(|()| body);
            }
            if size > (bytes_max - body.len()) as u64 {
                return Err(TOO_LONG);
            }
            let chunk = self.take(size as usize).await?;
            body.extend_from_slice(&chunk);
            if self.take(2).await? != b"\r\n" {
                return Err(Broken::Odd("a chunk of its answer has no end"));
            }
        }
    }

    /// Up to the empty line behind the last chunk.
    async fn trailers(&mut self) -> Result<(), Broken> {
        loop {
            let end = match self.buffer.starts_with(b"\r\n") {
                true => Some(2),
                false => self.buffer.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4),
            };
            if let Some(end) = end {
                self.buffer.drain(..end);
                return Ok(());
            }
            if self.buffer.len() > HEAD_BYTES_MAX || self.read().await.map_err(|_| BROKE_OFF)? == 0 {
                return Err(BROKE_OFF);
            }
        }
    }
}

const TOO_LONG: Broken = Broken::Odd("its answer is too long");
const BROKE_OFF: Broken = Broken::Odd("its answer broke off");

/// The head at the beginning of a buffer: its length, the status, whether the connection is kept, and how the body ends.
fn head(buffer: &[u8]) -> Result<Option<(usize, u16, bool, Framing)>, Broken> {
    if buffer.is_empty() {
        return Ok(None);
    }
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let len = match response.parse(buffer) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(Broken::Odd("its answer is not HTTP")),
    };
    let status = response.code.unwrap_or_default();
    let mut keeps = response.version == Some(1);
    let mut framing =
        if matches!(status, 100..=199 | 204 | 304) { Framing::Length(0) } else { Framing::Close };
    let mut length: Option<u64> = None;
    for header in response.headers {
        let value = str::from_utf8(header.value).unwrap_or_default().trim();
        if header.name.eq_ignore_ascii_case("content-length") {
            let found = value.parse().map_err(|_| Broken::Odd("the length of its answer is no number"))?;
            if length.is_some_and(|known| known != found) {
                return Err(Broken::Odd("its answer has two lengths"));
            }
            length = Some(found);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.eq_ignore_ascii_case("chunked") {
                return Err(Broken::Odd("its answer is encoded in a way nobody asked for"));
            }
            framing = Framing::Chunks;
        } else if header.name.eq_ignore_ascii_case("connection") {
            let words = || value.split(',').map(str::trim);
            if words().any(|word| word.eq_ignore_ascii_case("close")) {
                keeps = false;
            } else if words().any(|word| word.eq_ignore_ascii_case("keep-alive")) {
                keeps = true;
            }
        }
    }
    if let (Some(length), Framing::Close) = (length, framing) {
        framing = Framing::Length(length);
    }
    Ok(Some((len, status, keeps, framing)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// Sends `answer` in pieces of `step` bytes and closes when it is told to; reads it with a body of at most 100 bytes.
    async fn answered(answer: &'static str, step: usize, close: bool) -> Result<Response, Broken> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let _ = stream.set_nodelay(true);
            for piece in answer.as_bytes().chunks(step) {
                stream.write_all(piece).await.expect("sent");
                tokio::task::yield_now().await;
            }
            (!close).then_some(stream)
        });
        let mut wire = Wire::connect("127.0.0.1", port).await.expect("connected");
        let response = wire.receive(100).await;
        drop(server.await);
        response
    }

    #[tokio::test]
    async fn answers_are_read_however_they_are_cut() {
        for (answer, close, status, body, keeps) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, 200, "hello", true),
            (
                "HTTP/1.1 200\r\ncontent-LENGTH:  5 \r\nContent-Length: 5\r\n\r\nhello",
                false,
                200,
                "hello",
                true,
            ),
            ("HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: Close\r\n\r\n", false, 500, "", false),
            ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", false, 200, "ok", false),
            (
                "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
                false,
                200,
                "ok",
                true,
            ),
            ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end", true, 200, "to the end", false),
            ("HTTP/1.1 204 None\r\n\r\n", false, 204, "", true),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
                false,
                200,
                "x",
                true,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\n\r\n",
                false,
                200,
                "abc0123456789",
                true,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nSum: 1\r\n\r\n",
                false,
                200,
                "a",
                true,
            ),
            ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 OK", false, 200, "x", false),
        ] {
            for step in [1, 3, 1000] {
                // A byte more than the answer is seen only when it came with it.
                if answer.ends_with("xHTTP/1.1 200 OK") && step < 1000 {
                    continue;
                }
                let response =
                    answered(answer, step, close).await.unwrap_or_else(|e| panic!("{answer}: {e:?}"));
                let expected = Response { status, body: body.into(), keeps };
                assert_eq!(response, expected, "{answer} in pieces of {step}");
            }
        }
    }

    #[tokio::test]
    async fn what_is_no_answer_is_said_to_be_none() {
        for (answer, says) in [
            ("nonsense\r\n\r\n", "not HTTP"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n", "too long"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n", "too long"),
            ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "no number"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "two lengths"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe", "broke off"),
            ("HTTP/1.1 200 OK\r\nContent-Le", "broke off"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "encoded"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "no chunks"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n", "too long"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n", "too long"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc", "no end"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n", "broke off"),
        ] {
            for step in [1, 1000] {
                match answered(answer, step, true).await {
                    Err(Broken::Odd(why)) => assert!(why.contains(says), "{answer}: {why}"),
                    other => panic!("{answer}: {other:?}"),
                }
            }
        }
        assert!(matches!(answered("", 1, true).await, Err(Broken::Silent(_))));
    }

    #[tokio::test]
    async fn a_connection_serves_short_answers_and_long_ones_and_keeps_little_room() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let bodies =
            ["ok".to_owned(), "x".repeat(10 * READ_BYTES), "y".repeat(READ_BYTES), "fine".to_owned()];
        let answers: Vec<String> = bodies
            .iter()
            .map(|body| format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
            .collect();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            for answer in answers {
                tokio::io::AsyncReadExt::read_u8(&mut stream).await.expect("a request");
                stream.write_all(answer.as_bytes()).await.expect("sent");
            }
            stream
        });
        let mut wire = Wire::connect("127.0.0.1", port).await.expect("connected");
        for body in bodies {
            wire.send(b"?").await.expect("sent");
            let response = wire.receive(1 << 20).await.expect("an answer");
            let expected = Response { status: 200, body: body.into_bytes(), keeps: true };
            assert!(response == expected, "{} bytes", expected.body.len());
            assert!(wire.buffer.capacity() <= 4 * READ_BYTES, "{} bytes are kept", wire.buffer.capacity());
            assert!(wire.is_quiet());
        }
        drop(server.await);
    }

    #[tokio::test]
    async fn a_connection_that_was_closed_is_not_quiet() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let wire = Wire::connect("127.0.0.1", port).await.expect("connected");
        let (stream, _) = listener.accept().await.expect("accepted");
        assert!(wire.is_quiet());
        drop(stream);
        wire.stream.readable().await.expect("an end");
        assert!(!wire.is_quiet());
    }
}
