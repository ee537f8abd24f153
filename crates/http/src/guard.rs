use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use hyper::body::Body as _;
use tokio::time::Instant;

use crate::error::ApiError;
use crate::{ApiState, access, page};

/// Stands around the whole router, unknown paths included: an endpoint added tomorrow is closed without anyone
/// remembering to close it. The page itself holds no data and is open.
pub(crate) async fn guard(State(state): State<ApiState>, mut request: Request, next: Next) -> Response {
    if let Some(response) = page::answer(&request) {
        return response;
    }
    let takes_gzip = page::accepts_gzip(request.headers());
    let response = match access::decide(&state, &request) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            answer(request, next).await
        }
        Err(error) => error.into_response(),
    };
    let response = if takes_gzip { packed(response).await } else { response };
    closed(response)
}

/// How long an endpoint may take to its first byte, reading the body included. Streams go on after that.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

async fn answer(request: Request, next: Next) -> Response {
    match tokio::time::timeout(ANSWER_TIME_MAX, next.run(request)).await {
        Ok(response) => response,
        Err(_) => ApiError::too_slow().into_response(),
    }
}

/// Below this packing saves no packet; above the other, the time to pack is felt.
const PACKED_BYTES_MIN: u64 = 1024;
const PACKED_BYTES_MAX: u64 = 16 << 20;

/// Packs an answer of JSON, which is whole in memory already. Logs and streams go as they are.
async fn packed(response: Response) -> Response {
    let is_json = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    let len = response.body().size_hint().exact().unwrap_or(0);
    if !is_json || !(PACKED_BYTES_MIN..=PACKED_BYTES_MAX).contains(&len) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, len as usize).await else {
        return ApiError::bug("an answer in memory could not be read").into_response();
    };
    head.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    head.headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    head.headers.remove(CONTENT_LENGTH);
    Response::from_parts(head, Body::from(page::gzip(&bytes, Compression::fast())))
}

/// Headers that keep a browser from making anything of an answer but data.
fn closed(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
        ),
    );
    response
}

/// Counts a request that came with nothing that opens, or with something wrong; with an error when its source had too
/// many. The right token always passes, also from an address that failed often: on one machine everybody is 127.0.0.1,
/// and a neighbour's wrong guesses must not lock the owner out. Guessing 256 bits is hopeless at any rate; the limit is
/// there to make the trying visible and cheap to refuse.
pub(crate) fn count_failure(state: &ApiState, peer: IpAddr) -> Option<ApiError> {
    state.failures.note(peer);
    let retry_after = state.failures.table().count(peer, Instant::now())?;
    Some(ApiError::too_many_bad_tokens(retry_after.as_secs() + 1))
}

/// The token of exactly one `Authorization: Bearer` header. The scheme's case does not matter (RFC 9110).
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next()?.as_bytes(), values.next()) else {
        return None;
    };
    let (scheme, token) = value.split_at_checked(b"bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// Failed tries by source address, shared by all requests.
#[derive(Default)]
pub(crate) struct Failures {
    table: Mutex<FailureTable>,
    log: Mutex<FailureLog>,
}

impl Failures {
    fn table(&self) -> MutexGuard<'_, FailureTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> MutexGuard<'_, FailureLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the first failure down at once, and counts those behind it for a line at the end of the interval.
    fn note(self: &Arc<Self>, peer: IpAddr) {
        if !self.log().count(peer) {
            return;
        }
        tracing::warn!(source = %source_of(peer), "a request without the right token; more of them are counted");
        let this = self.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(FAILURES_TOLD_EVERY).await;
                let Some((count, source, sources)) = this.log().take() else { return };
                tracing::warn!(
                    count, %source, sources,
                    "{count} requests without the right token in the last {} s, most of them from {source}",
                    FAILURES_TOLD_EVERY.as_secs()
                );
            }
        });
    }
}

/// At most one line about failures is written in so long a time.
const FAILURES_TOLD_EVERY: Duration = Duration::from_secs(60);

/// Failures since the last line of the log about them, by source.
#[derive(Default)]
struct FailureLog {
    is_open: bool,
    by_source: BTreeMap<IpAddr, u64>,
    /// From sources that the table has no room for.
    others: u64,
}

impl FailureLog {
    /// Counts a failure. True for the first one in a while, which is told by itself.
    fn count(&mut self, peer: IpAddr) -> bool {
        if !std::mem::replace(&mut self.is_open, true) {
            return true;
        }
        let key = source_of(peer);
        if self.by_source.len() < SOURCES_MAX || self.by_source.contains_key(&key) {
            *self.by_source.entry(key).or_default() += 1;
        } else {
            self.others += 1;
        }
        false
    }

    /// How many there were since the last call, the source of most of them, and how many sources there were at least.
    /// `None` when there were none: then the next one is told by itself again.
    fn take(&mut self) -> Option<(u64, IpAddr, usize)> {
        let FailureLog { by_source, others, .. } = std::mem::take(self);
        let (most, _) = by_source.iter().max_by_key(|(_, count)| **count)?;
        self.is_open = true;
        Some((by_source.values().sum::<u64>() + others, *most, by_source.len()))
    }
}

/// A failure counts for [`FAILURE_FORGOTTEN_AFTER`]; a source with [`FAILURES_MAX`] of them waits.
#[derive(Default)]
struct FailureTable {
    by_source: BTreeMap<IpAddr, Source>,
}

#[derive(Clone, Copy)]
struct Source {
    failures: u32,
    /// When the oldest failure that still counts is forgotten.
    forget_at: Instant,
    last: Instant,
}

/// More than a person mistypes, less than a guesser wants.
const FAILURES_MAX: u32 = 10;

/// One failure is forgotten each so long: a blocked source is heard again after this.
const FAILURE_FORGOTTEN_AFTER: Duration = Duration::from_secs(6);

/// Sources remembered at once: 64 KiB or so. When full, the source that failed longest ago is forgotten.
const SOURCES_MAX: usize = 1024;

impl FailureTable {
    /// Counts a failure; with a duration when the source is over its limit.
    fn count(&mut self, peer: IpAddr, now: Instant) -> Option<Duration> {
        let key = source_of(peer);
        if !self.by_source.contains_key(&key) && self.by_source.len() >= SOURCES_MAX {
            let oldest = self.by_source.iter().min_by_key(|(_, source)| source.last).map(|(key, _)| *key);
            if let Some(oldest) = oldest {
                self.by_source.remove(&oldest);
            }
        }
        let fresh = Source { failures: 0, forget_at: now + FAILURE_FORGOTTEN_AFTER, last: now };
        let source = self.by_source.entry(key).or_insert(fresh);
        let since = now.saturating_duration_since(source.forget_at);
        if now >= source.forget_at {
            let forgotten = 1 + (since.as_millis() / FAILURE_FORGOTTEN_AFTER.as_millis()) as u32;
            source.failures = source.failures.saturating_sub(forgotten);
            source.forget_at = now + FAILURE_FORGOTTEN_AFTER;
        }
        source.last = now;
        if source.failures >= FAILURES_MAX {
            return Some(source.forget_at.saturating_duration_since(now));
        }
        source.failures += 1;
        None
    }
}

/// One house has one IPv4 address or one /64 of IPv6.
fn source_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn bad_tokens_are_told_once_and_then_counted() {
        let mut log = FailureLog::default();
        assert!(log.count(address(1)), "the first is told at once");
        for no in [1, 2, 1, 3, 1] {
            assert!(!log.count(address(no)));
        }
        assert_eq!(log.take(), Some((5, address(1), 3)));
        assert!(!log.count(address(2)), "within the next interval it is counted");
        assert_eq!(log.take(), Some((1, address(2), 1)));
        assert_eq!(log.take(), None);
        assert!(log.count(address(2)), "after a quiet interval the next is told at once");
    }

    #[test]
    fn a_source_is_held_off_and_heard_again() {
        let mut table = FailureTable::default();
        let start = Instant::now();
        for _ in 0..FAILURES_MAX {
            assert_eq!(table.count(address(1), start), None);
        }
        assert_eq!(table.count(address(1), start), Some(FAILURE_FORGOTTEN_AFTER));
        assert_eq!(table.count(address(2), start), None, "another source is not touched");
        let later = start + FAILURE_FORGOTTEN_AFTER;
        assert_eq!(table.count(address(1), later), None, "one failure is forgotten");
        assert!(table.count(address(1), later).is_some());
        let much_later = later + FAILURE_FORGOTTEN_AFTER * 100;
        for _ in 0..FAILURES_MAX {
            assert_eq!(table.count(address(1), much_later), None);
        }
        assert!(table.count(address(1), much_later).is_some());
    }

    #[test]
    fn the_table_is_bounded_and_forgets_the_oldest() {
        let mut table = FailureTable::default();
        let start = Instant::now();
        for no in 0..SOURCES_MAX as u32 * 3 {
            table.count(IpAddr::from(no.to_be_bytes()), start + Duration::from_millis(u64::from(no)));
            assert!(table.by_source.len() <= SOURCES_MAX);
        }
        assert!(!table.by_source.contains_key(&IpAddr::from(0u32.to_be_bytes())));
        let newest = SOURCES_MAX as u32 * 3 - 1;
        assert!(table.by_source.contains_key(&IpAddr::from(newest.to_be_bytes())));
    }

    #[test]
    fn a_network_of_ipv6_is_one_source() {
        let check = |a: &str, b: &str, same: bool| {
            let (a, b): (IpAddr, IpAddr) = (a.parse().unwrap(), b.parse().unwrap());
            assert_eq!(source_of(a) == source_of(b), same, "{a} {b}");
        };
        check("2001:db8::1", "2001:db8::ffff:2", true);
        check("2001:db8::1", "2001:db8:0:1::1", false);
        check("::ffff:192.0.2.1", "192.0.2.1", true);
        check("192.0.2.1", "192.0.2.2", false);
    }

    #[test]
    fn bearer_headers() {
        let check = |values: &[&str], token: Option<&str>| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            }
            assert_eq!(bearer(&headers), token.map(str::as_bytes), "{values:?}");
        };
        check(&[], None);
        check(&["Bearer abc"], Some("abc"));
        check(&["bearer  abc "], Some("abc"));
        check(&["BEARER abc"], Some("abc"));
        check(&["Bearer"], None);
        check(&["Bearer "], Some(""));
        check(&["Basic abc"], None);
        check(&["Bearer abc", "Bearer def"], None);
        check(&["é"], None);
    }
}
