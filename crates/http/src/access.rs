//! What a request may do: the one place where that is decided.
//!
//! Programs send the token. Browsers send the cookie of a session, which every page of every site could make them send, so
//! a request by cookie must also come from our own page and name a host that is ours.

use std::net::{IpAddr, Ipv6Addr};

use axum::extract::Request;
use axum::http::header::{COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, Method};

use crate::error::ApiError;
use crate::guard::{bearer, count_failure};
use crate::session::{Rights, Session};
use crate::{ApiState, Peer};

/// Who asks. Endpoints find it among the request's extensions.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    /// Whoever has the token.
    Token,
    /// A browser with a session.
    Session(Session),
    /// Nobody that is known, at an open path.
    Unknown,
}

/// Paths that answer everybody: load balancers have no token, and who signs in has no session yet.
const OPEN: &[(Method, &str)] = &[
    (Method::GET, "/health"),
    (Method::HEAD, "/health"),
    (Method::GET, "/health/live"),
    (Method::HEAD, "/health/live"),
    (Method::GET, "/health/ready"),
    (Method::HEAD, "/health/ready"),
    (Method::GET, SESSION_PATH),
    (Method::HEAD, SESSION_PATH),
    (Method::POST, SESSION_PATH),
    (Method::DELETE, SESSION_PATH),
];

/// Signing in and out. Reading it says whether there is a session, and nothing else without one.
const SESSION_PATH: &str = "/api/v1/session";

/// Decides whether a request goes on, and as whom.
pub(crate) fn decide(state: &ApiState, request: &Request) -> Result<Caller, ApiError> {
    let headers = request.headers();
    let path = request.uri().path();
    let is_open = OPEN.iter().any(|(method, open)| method == request.method() && *open == path);
    // A token passes from everywhere: no page of another site can make a browser send it.
    let given = bearer(headers);
    if given.is_some_and(|given| state.token.matches(given)) {
        return Ok(Caller::Token);
    }
    let is_change = !matches!(*request.method(), Method::GET | Method::HEAD);
    if given.is_none()
        && let Some(id) = cookie(headers)
    {
        check_host(state, headers)?;
        check_origin(headers, is_change)?;
        match state.sessions.find(id, state.server.now()) {
            Some(session) if is_change && session.rights() == Rights::ReadOnly && path != SESSION_PATH => {
                return Err(ApiError::read_only());
            }
            Some(session) => return Ok(Caller::Session(session)),
            None if is_open => return Ok(Caller::Unknown),
            None => return Err(count_failure(state, peer_of(request)).unwrap_or_else(ApiError::no_session)),
        }
    }
    if !is_open {
        let wrong = if given.is_some() { ApiError::bad_token() } else { ApiError::no_token() };
        return Err(count_failure(state, peer_of(request)).unwrap_or(wrong));
    }
    if path == SESSION_PATH && is_change {
        check_host(state, headers)?;
        check_origin(headers, is_change)?;
    }
    Ok(Caller::Unknown)
}

pub(crate) fn peer_of(request: &Request) -> IpAddr {
    request.extensions().get::<Peer>().map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |peer| peer.0.ip())
}

/// The name of the cookie for the port that the browser sees: cookies are shared between the ports of a host, and two
/// servers on one machine must not sign each other's people out.
pub(crate) fn cookie_name(headers: &HeaderMap, is_secure: bool) -> String {
    let (_, port) = host_of(headers).unwrap_or_default();
    let port = port.unwrap_or(if is_secure { "443" } else { "80" });
    // The prefix makes browsers refuse a cookie of this name from elsewhere.
    format!("{}cadran_{port}", if is_secure { "__Host-" } else { "" })
}

/// The id of the session that a request names.
fn cookie(headers: &HeaderMap) -> Option<&str> {
    let names = [cookie_name(headers, false), cookie_name(headers, true)];
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| names.iter().any(|ours| ours == name)).map(|(_, id)| id)
}

/// A site whose name was pointed at this machine (DNS rebinding) sends its own name: that is refused. An address in
/// digits cannot be pointed anywhere.
fn check_host(state: &ApiState, headers: &HeaderMap) -> Result<(), ApiError> {
    let (host, _) = host_of(headers).ok_or_else(|| ApiError::foreign_host(""))?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_ours = bare.parse::<IpAddr>().is_ok()
        || bare.eq_ignore_ascii_case("localhost")
        || state.hosts.iter().any(|known| known.eq_ignore_ascii_case(bare));
    if is_ours { Ok(()) } else { Err(ApiError::foreign_host(host)) }
}

/// A change must say that our own page asked for it. A read must not say that another one did.
fn check_origin(headers: &HeaderMap, is_change: bool) -> Result<(), ApiError> {
    if let Some(site) = headers.get("sec-fetch-site") {
        let is_ours = site == "same-origin" || (site == "none" && !is_change);
        return if is_ours { Ok(()) } else { Err(ApiError::foreign_origin()) };
    }
    if !is_change {
        return Ok(());
    }
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let origin = text(ORIGIN).and_then(|origin| origin.split_once("://"));
    match (origin, text(HOST)) {
        (Some((_, origin)), Some(host)) if origin.eq_ignore_ascii_case(host) => Ok(()),
        _ => Err(ApiError::foreign_origin()),
    }
}

/// Whether the browser speaks TLS with whatever stands in front of us.
pub(crate) fn is_secure(headers: &HeaderMap) -> bool {
    headers.get(ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"))
}

/// The host and the port that a request names.
fn host_of(headers: &HeaderMap) -> Option<(&str, Option<&str>)> {
    let mut values = headers.get_all(HOST).iter();
    let (text, None) = (values.next()?.to_str().ok()?, values.next()) else { return None };
    match text.rsplit_once(':') {
        // The last colon of `[::1]` stands inside the brackets.
        Some((host, port)) if !port.ends_with(']') => Some((host, Some(port))),
        _ => Some((text, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(rows: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in rows {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn cookies_are_named_by_port() {
        let check = |host: &str, is_secure: bool, name: &str| {
            assert_eq!(cookie_name(&headers(&[("host", host)]), is_secure), name, "{host}");
        };
        check("127.0.0.1:7788", false, "cadran_7788");
        check("[::1]:7788", false, "cadran_7788");
        check("[::1]", false, "cadran_80");
        check("cadran.example.com", true, "__Host-cadran_443");
        let sent = headers(&[("host", "localhost:1"), ("cookie", "cadran_2=b; cadran_1=a; x=y")]);
        assert_eq!(cookie(&sent), Some("a"));
        assert_eq!(cookie(&headers(&[("host", "localhost:3"), ("cookie", "cadran_2=b")])), None);
    }

    #[test]
    fn changes_come_from_our_own_page() {
        let check = |rows: &[(&'static str, &str)], is_change: bool, passes: bool| {
            assert_eq!(check_origin(&headers(rows), is_change).is_ok(), passes, "{rows:?} {is_change}");
        };
        let host = ("host", "localhost:7788");
        check(&[host, ("sec-fetch-site", "same-origin")], true, true);
        check(&[host, ("sec-fetch-site", "same-site")], true, false);
        check(&[host, ("sec-fetch-site", "cross-site")], false, false);
        check(&[host, ("sec-fetch-site", "none")], true, false);
        check(&[host, ("sec-fetch-site", "none")], false, true);
        check(&[host, ("origin", "http://localhost:7788")], true, true);
        check(&[host, ("origin", "http://localhost:3000")], true, false);
        check(&[host, ("origin", "null")], true, false);
        check(&[host], true, false);
        check(&[host], false, true);
        // What the browser says of the site counts more than an origin that fits.
        check(&[host, ("sec-fetch-site", "cross-site"), ("origin", "http://localhost:7788")], true, false);
    }
}
