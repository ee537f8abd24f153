//! Calls to executors: plain HTTP/1.1, bounded in time and size, over connections that are kept for the next call.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cadran_core::{Address, Dialect, Executor, GroupName};
use futures::future::BoxFuture;
use rustc_hash::FxHashMap;
use tokio::time::{Instant, timeout};

use super::exchange::{Broken, Response, Wire};
use super::lane::PER_ADDRESS_MAX;
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

/// A request, and how far it has left.
pub(crate) struct Call {
    address: Address,
    /// Nothing when all of it has left: it never leaves twice.
    request: Vec<u8>,
    bytes_max: usize,
    /// The connection it leaves by, and how many of its bytes have left.
    begun: Option<(Wire, usize)>,
}

/// Room for the request that is being written, for one after the other.
#[derive(Default)]
pub(crate) struct Draft {
    /// What the request says.
    pub(crate) body: Vec<u8>,
    request: Vec<u8>,
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
        let mut request = Vec::new();
        self.request(&mut request, group, executor, verb, &body);
        let bytes_max = if verb == "log" { LOG_BYTES_MAX } else { ANSWER_BYTES_MAX };
        let call = Call { address: executor.address.clone(), request, bytes_max, begun: None };
        let response = self.finish(call, || {}).await?;
        Client::read(&executor.address, &response)
    }

    /// What a response says.
    pub(crate) fn read(address: &Address, response: &Response) -> Result<Answer, CallError> {
        Answer::read(response.status, &response.body)
            .map_err(|why| CallError::Nonsense(format!("{address}: {why}")))
    }

    /// Lets the request with the draft's body go over a connection that is open, if there is one: without a task that has
    /// to be woken first, a burst leaves as fast as the kernel takes it.
    pub(crate) fn begin(
        &self,
        group: &GroupName,
        executor: &Executor,
        verb: &str,
        draft: &mut Draft,
    ) -> Call {
        let Draft { body, request } = draft;
        request.clear();
        self.request(request, group, executor, verb, body);
        // One that was closed under us is no loss: nobody acts on a part of a request, and another one is tried.
        let begun = self.take_idle(&executor.address).and_then(|wire| {
            let sent = wire.send_now(request).ok()?;
            Some((wire, sent))
        });
        let has_left = begun.as_ref().is_some_and(|(_, sent)| *sent == request.len());
        let request = if has_left { Vec::new() } else { request.clone() };
        Call { address: executor.address.clone(), request, bytes_max: ANSWER_BYTES_MAX, begun }
    }

    /// Sees a call through; `is_slow` is called as soon as it takes longer than is usual.
    pub(crate) async fn finish(&self, call: Call, is_slow: impl FnOnce()) -> Result<Response, CallError> {
        let Call { address, request, bytes_max, begun } = call;
        let mut is_sent = false;
        {
            let mut exchange =
                std::pin::pin!(self.exchange(&address, &request, begun, bytes_max, &mut is_sent));
            // One timer for most calls: the second one starts when the first has passed.
            if let Ok(done) = timeout(self.slow_after.min(self.time_max), exchange.as_mut()).await {
                return done;
            }
            is_slow();
            if let Ok(done) = timeout(self.time_max.saturating_sub(self.slow_after), exchange).await {
                return done;
            }
        }
        let text = format!("{address} gave no answer within {} ms", self.time_max.as_millis());
        Err(if is_sent { CallError::NoAnswer(text) } else { CallError::NotSent(text) })
    }

    async fn exchange(
        &self,
        address: &Address,
        request: &[u8],
        begun: Option<(Wire, usize)>,
        bytes_max: usize,
        is_sent: &mut bool,
    ) -> Result<Response, CallError> {
        let (mut wire, sent) = match begun.or_else(|| Some((self.take_idle(address)?, 0))) {
            Some(begun) => begun,
            None => (fresh(address).await?, 0),
        };
        if sent < request.len() && wire.send(&request[sent..]).await.is_err() {
            // The connection was closed under us. Nobody acts on a part of a request: once more on a fresh one.
            wire = fresh(address).await?;
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
        Ok(response)
    }

    /// Head and body in one piece. Everything in the head was checked when it was read: addresses, names of groups and
    /// tokens hold neither blanks nor line ends.
    fn request(
        &self,
        request: &mut Vec<u8>,
        group: &GroupName,
        executor: &Executor,
        verb: &str,
        body: &[u8],
    ) {
        let Executor { address, dialect } = executor;
        request.reserve(512 + body.len());
        // Plain pieces: what formats them takes longer than all of the rest.
        let mut add =
            |pieces: &[&str]| pieces.iter().for_each(|piece| request.extend_from_slice(piece.as_bytes()));
        add(&["POST ", address.path(), "/", verb, " HTTP/1.1\r\nHost: ", address.authority()]);
        add(&[
            "\r\nContent-Type: application/json;charset=UTF-8\r\nContent-Length: ",
            &body.len().to_string(),
            "\r\n",
        ]);
        if let Some(token) = self.tokens.of(group) {
            let name = if *dialect == Dialect::Orth { ORTH_TOKEN_HEADER } else { TOKEN_HEADER };
            add(&[name, ": ", &token, "\r\n"]);
        }
        if *dialect == Dialect::Three {
            add(&[GROUP_HEADER, ": ", group.as_str(), "\r\n"]);
        }
        request.extend_from_slice(b"\r\n");
        request.extend_from_slice(body);
    }

    fn take_idle(&self, address: &Address) -> Option<Wire> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.get_mut(address)?;
        // In turns: one that is never used grows old and has to be opened anew for the next burst.
        while let Some(Idle { wire, since }) = kept.pop_front() {
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
                // As many as are used at once.
                if kept.len() > PER_ADDRESS_MAX {
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

/// A new connection. It is rare, so that what connecting needs has no room in every call.
fn fresh(address: &Address) -> BoxFuture<'_, Result<Wire, CallError>> {
    Box::pin(async move {
        let (host, port) = address.host_and_port();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let wire = Wire::connect(host, port).await;
        wire.map_err(|error| CallError::NotSent(format!("{address} cannot be reached: {error}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn connections_are_used_in_turns() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let address: Address = format!("http://127.0.0.1:{port}").parse().expect("an address");
        let client = Client::new(&RemoteOptions::new("."), Arc::default());
        let mut ends = Vec::new();
        for _ in 0..2 {
            client.keep_idle(&address, Wire::connect("127.0.0.1", port).await.expect("connected"));
            ends.push(listener.accept().await.expect("accepted").0);
        }
        let [first, second] = &mut ends[..] else { unreachable!("two were made") };
        let mut used = Vec::new();
        for _ in 0..4 {
            let wire = client.take_idle(&address).expect("an open connection");
            assert_eq!(wire.send_now(b"?").expect("sent"), 1);
            used.push(tokio::select! {
                one = first.read_u8() => one.map(|_| 1),
                two = second.read_u8() => two.map(|_| 2),
            });
            client.keep_idle(&address, wire);
        }
        let used: Vec<u8> = used.into_iter().map(|which| which.expect("a byte")).collect();
        assert_eq!(used, [1, 2, 1, 2], "one that is never used would grow old");
    }
}
