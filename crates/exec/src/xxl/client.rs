//! Calls to executors: plain HTTP/1.1, bounded in time and size, over connections that are kept for the next call.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use cadran_core::{Address, Dialect, Executor, GroupName};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use rustc_hash::FxHashMap;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::options::{RemoteOptions, Tokens};
use super::wire::{Answer, GROUP_HEADER, ORTH_TOKEN_HEADER, TOKEN_HEADER};

/// Speaks with executors.
pub(crate) struct Client {
    tokens: Arc<Tokens>,
    time_max: Duration,
    idle: Mutex<FxHashMap<Address, VecDeque<Idle>>>,
}

struct Idle {
    sender: SendRequest<Full<Bytes>>,
    since: Instant,
}

/// Why a call came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallError {
    /// Nobody took the request: nothing can have come of it.
    NotSent(String),
    /// The request may have arrived, and no answer came back.
    NoAnswer(String),
    /// An answer came that is none.
    Nonsense(String),
}

impl CallError {
    pub(crate) fn text(&self) -> &str {
        match self {
            CallError::NotSent(text) | CallError::NoAnswer(text) | CallError::Nonsense(text) => text,
        }
    }
}

/// Connections kept for one executor. More calls than this at once are a burst.
const IDLE_PER_ADDRESS_MAX: usize = 64;

/// How long a connection is kept without a call. Shorter than any client closes it: Node's servers do after five
/// seconds, and a call into a closing connection is a call nobody knows the fate of.
const IDLE_TIME_MAX: Duration = Duration::from_secs(3);

/// Answers to all calls but one are a few words.
const ANSWER_BYTES_MAX: usize = 256 << 10;

/// A piece of a log. What is longer is not read at all: an executor that sends more has no bound of its own.
const LOG_BYTES_MAX: usize = 8 << 20;

impl Client {
    pub(crate) fn new(options: &RemoteOptions, tokens: Arc<Tokens>) -> Client {
        Client { tokens, time_max: options.call_time_max, idle: Mutex::default() }
    }

    /// Calls one verb of an executor.
    pub(crate) async fn call(
        &self,
        group: &GroupName,
        executor: &Executor,
        verb: &str,
        body: Vec<u8>,
    ) -> Result<Answer, CallError> {
        let bytes_max = if verb == "log" { LOG_BYTES_MAX } else { ANSWER_BYTES_MAX };
        let mut sent = false;
        let call = self.exchange(group, executor, verb, body.into(), bytes_max, &mut sent);
        match timeout(self.time_max, call).await {
            Ok(done) => done,
            Err(_) => {
                let text =
                    format!("{} gave no answer within {} ms", executor.address, self.time_max.as_millis());
                Err(if sent { CallError::NoAnswer(text) } else { CallError::NotSent(text) })
            }
        }
    }

    async fn exchange(
        &self,
        group: &GroupName,
        executor: &Executor,
        verb: &str,
        body: Bytes,
        bytes_max: usize,
        sent: &mut bool,
    ) -> Result<Answer, CallError> {
        let address = &executor.address;
        let mut sender = match self.take_idle(address) {
            Some(sender) => sender,
            None => connect(address).await?,
        };
        let request = self.request(group, executor, verb, body)?;
        *sent = true;
        let answered = match sender.try_send_request(request).await {
            Ok(response) => Ok(response),
            Err(mut refused) => match refused.take_message() {
                // The connection was closed under us before a byte left: once more on a fresh one.
                Some(request) => {
                    *sent = false;
                    sender = connect(address).await?;
                    *sent = true;
                    sender.send_request(request).await
                }
                None => Err(refused.into_error()),
            },
        };
        let response = answered
            .map_err(|error| CallError::NoAnswer(format!("{address} broke the call off: {error}")))?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), bytes_max).collect().await;
        let body =
            body.map_err(|error| CallError::Nonsense(format!("{address}: its answer broke off: {error}")))?;
        self.keep_idle(address, sender);
        Answer::read(status, &body.to_bytes()).map_err(|why| CallError::Nonsense(format!("{address}: {why}")))
    }

    fn request(
        &self,
        group: &GroupName,
        executor: &Executor,
        verb: &str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, CallError> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}/{verb}", executor.address.path()))
            .header(HOST, executor.address.authority())
            .header(CONTENT_TYPE, "application/json;charset=UTF-8");
        if let Some(token) = self.tokens.of(group)
            && let Ok(mut token) = HeaderValue::from_str(token)
        {
            token.set_sensitive(true);
            let name = if executor.dialect == Dialect::Orth { ORTH_TOKEN_HEADER } else { TOKEN_HEADER };
            request = request.header(name, token);
        }
        if executor.dialect == Dialect::Three {
            request = request.header(GROUP_HEADER, group.as_str());
        }
        request.body(Full::new(body)).map_err(|error| CallError::NotSent(error.to_string()))
    }

    fn take_idle(&self, address: &Address) -> Option<SendRequest<Full<Bytes>>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.get_mut(address)?;
        while let Some(Idle { sender, since }) = kept.pop_back() {
            if since.elapsed() < IDLE_TIME_MAX && sender.is_ready() {
                return Some(sender);
            }
        }
        None
    }

    fn keep_idle(&self, address: &Address, sender: SendRequest<Full<Bytes>>) {
        if sender.is_closed() {
            return;
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.entry(address.clone()).or_default();
        kept.push_back(Idle { sender, since: Instant::now() });
        if kept.len() > IDLE_PER_ADDRESS_MAX {
            kept.pop_front();
        }
    }

    /// Closes connections that nobody used for a while.
    pub(crate) fn sweep(&self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|_, kept| {
            kept.retain(|idle| idle.since.elapsed() < IDLE_TIME_MAX && !idle.sender.is_closed());
            !kept.is_empty()
        });
    }
}

async fn connect(address: &Address) -> Result<SendRequest<Full<Bytes>>, CallError> {
    let (host, port) = address.host_and_port();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let refused = |error: std::io::Error| CallError::NotSent(format!("{address} cannot be reached: {error}"));
    let stream = TcpStream::connect((host, port)).await.map_err(refused)?;
    let _ = stream.set_nodelay(true);
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(64 << 10)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| CallError::NotSent(format!("{address} cannot be spoken to: {error}")))?;
    tokio::spawn(async move {
        // Its end is seen by whoever uses the other half.
        let _ = connection.await;
    });
    Ok(sender)
}
