//! Calls to executors: plain HTTP/1.1, bounded in time and size, over connections that are kept for the next call.

use std::collections::VecDeque;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cadran_core::{Address, Dialect, Executor, GroupName};
use rustc_hash::FxHashMap;
use tokio::time::{Instant, timeout};

use super::exchange::{Broken, Wire};
use super::options::{RemoteOptions, Tokens};
use super::wire::{Answer, GROUP_HEADER, ORTH_TOKEN_HEADER, TOKEN_HEADER};

/// Speaks with executors.
pub(crate) struct Client {
    tokens: Arc<Tokens>,
    time_max: Duration,
    slow_after: Duration,
    idle: Mutex<FxHashMap<Address, VecDeque<Idle>>>,
}

struct Idle {
    wire: Wire,
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
        let (time_max, slow_after) = (options.call_time_max, options.slow_after);
        Client { tokens, time_max, slow_after, idle: Mutex::default() }
    }

    /// Calls one verb of an executor.
    pub(crate) async fn call(
        &self,
        group: &GroupName,
        executor: &Executor,
        verb: &str,
        body: Vec<u8>,
    ) -> Result<Answer, CallError> {
        self.call_noting(group, executor, verb, body, || {}).await
    }

    /// The same; `is_slow` is called as soon as it takes longer than is usual.
    pub(crate) async fn call_noting(
        &self,
        group: &GroupName,
        executor: &Executor,
        verb: &str,
        body: Vec<u8>,
        is_slow: impl FnOnce(),
    ) -> Result<Answer, CallError> {
        let bytes_max = if verb == "log" { LOG_BYTES_MAX } else { ANSWER_BYTES_MAX };
        let request = self.request(group, executor, verb, &body);
        let mut is_sent = false;
        {
            let mut call =
                std::pin::pin!(self.exchange(&executor.address, &request, bytes_max, &mut is_sent));
            // One timer for most calls: the second one starts when the first has passed.
            if let Ok(done) = timeout(self.slow_after.min(self.time_max), call.as_mut()).await {
                return done;
            }
            is_slow();
            if let Ok(done) = timeout(self.time_max.saturating_sub(self.slow_after), call).await {
                return done;
            }
        }
        let text = format!("{} gave no answer within {} ms", executor.address, self.time_max.as_millis());
        Err(if is_sent { CallError::NoAnswer(text) } else { CallError::NotSent(text) })
    }

    async fn exchange(
        &self,
        address: &Address,
        request: &[u8],
        bytes_max: usize,
        is_sent: &mut bool,
    ) -> Result<Answer, CallError> {
        let mut wire = match self.take_idle(address) {
            Some(wire) => wire,
            None => connect(address).await?,
        };
        if wire.send(request).await.is_err() {
            // The connection was closed under us. Nobody acts on a part of a request: once more on a fresh one.
            wire = connect(address).await?;
            let lost = |error| CallError::NotSent(format!("{address} takes no request: {error}"));
            wire.send(request).await.map_err(lost)?;
        }
        *is_sent = true;
        let answered = wire.receive(bytes_max).await;
        let response = answered.map_err(|broken| match broken {
            Broken::Silent(error) => CallError::NoAnswer(format!("{address} broke the call off: {error}")),
            Broken::Odd(why) => CallError::Nonsense(format!("{address}: {why}")),
        })?;
        if response.keeps {
            self.keep_idle(address, wire);
        }
        Answer::read(response.status, &response.body)
            .map_err(|why| CallError::Nonsense(format!("{address}: {why}")))
    }

    /// Head and body in one piece. Everything in the head was checked when it was read: addresses, names of groups and
    /// tokens hold neither blanks nor line ends.
    fn request(&self, group: &GroupName, executor: &Executor, verb: &str, body: &[u8]) -> Vec<u8> {
        let Executor { address, dialect } = executor;
        let mut request = Vec::with_capacity(512 + body.len());
        let (path, host, len) = (address.path(), address.authority(), body.len());
        // Writing to a vector never fails.
        let _ = write!(
            request,
            "POST {path}/{verb} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json;charset=UTF-8\r\n\
             Content-Length: {len}\r\n"
        );
        if let Some(token) = self.tokens.of(group) {
            let name = if *dialect == Dialect::Orth { ORTH_TOKEN_HEADER } else { TOKEN_HEADER };
            let _ = write!(request, "{name}: {token}\r\n");
        }
        if *dialect == Dialect::Three {
            let _ = write!(request, "{GROUP_HEADER}: {group}\r\n");
        }
        request.extend_from_slice(b"\r\n");
        request.extend_from_slice(body);
        request
    }

    fn take_idle(&self, address: &Address) -> Option<Wire> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.get_mut(address)?;
        while let Some(Idle { wire, since }) = kept.pop_back() {
            if since.elapsed() < IDLE_TIME_MAX && wire.is_quiet() {
                return Some(wire);
            }
        }
        None
    }

    fn keep_idle(&self, address: &Address, wire: Wire) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = Idle { wire, since: Instant::now() };
        match idle.get_mut(address) {
            Some(kept) => {
                kept.push_back(fresh);
                if kept.len() > IDLE_PER_ADDRESS_MAX {
                    kept.pop_front();
                }
            }
            None => drop(idle.insert(address.clone(), VecDeque::from([fresh]))),
        }
    }

    /// Closes connections that nobody used for a while.
    pub(crate) fn sweep(&self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|_, kept| {
            kept.retain(|idle| idle.since.elapsed() < IDLE_TIME_MAX && idle.wire.is_quiet());
            !kept.is_empty()
        });
    }
}

async fn connect(address: &Address) -> Result<Wire, CallError> {
    let (host, port) = address.host_and_port();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let wire = Wire::connect(host, port).await;
    wire.map_err(|error| CallError::NotSent(format!("{address} cannot be reached: {error}")))
}
