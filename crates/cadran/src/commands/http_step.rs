//! `cadran http-step`: one request of a step, in a process of its own, so that it is stopped, limited, captured and logged like
//! every other command.
//!
//! Addresses that are not public are refused unless the server allows them: a name is resolved once, every address it has is
//! looked at, and the connection goes to those addresses and no others. Each redirect is looked at in the same way.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use cadran_core::JsonPart;
use cadran_exec::HttpOrder;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, Method, Response, StatusCode, Url, redirect};
use serde_json::Value;

use crate::public_address::{AllowedNets, why_not_public};

/// Time for a whole request of a step without a `timeout` of its own.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);
/// Time for a connection.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// Largest answer that is read; larger ones are for a program that writes files.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Redirects that are followed.
const REDIRECTS_MAX: u32 = 5;

/// Makes the request that a file describes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The request.
    file: PathBuf,
}

/// Why a request failed. Exit codes are those of curl, which people know and write in `retry: {exit_codes: …}`.
#[derive(Debug)]
struct Failure {
    code: u8,
    message: String,
}

/// Exit codes.
mod exit {
    pub(super) const BAD_ANSWER: u8 = 1;
    pub(super) const BAD_URL: u8 = 3;
    pub(super) const NOT_RESOLVED: u8 = 6;
    pub(super) const NOT_CONNECTED: u8 = 7;
    pub(super) const NOT_ALLOWED: u8 = 9;
    pub(super) const STATUS: u8 = 22;
    pub(super) const TIMED_OUT: u8 = 28;
    pub(super) const TOO_MANY_REDIRECTS: u8 = 47;
    pub(super) const CUT_OFF: u8 = 56;
    pub(super) const TOO_LARGE: u8 = 63;
}

fn failure<T>(code: u8, message: impl Into<String>) -> Result<T, Failure> {
    Err(Failure { code, message: message.into() })
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let order = HttpOrder::read(&args.file).map_err(anyhow::Error::msg)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(request(&order));
    // A name that is still being looked up must not keep the process.
    runtime.shutdown_background();
    Ok(match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { code, message }) => {
            eprintln!("error: {message}");
            code.into()
        }
    })
}

async fn request(order: &HttpOrder) -> Result<(), Failure> {
    let nets = order.allow.iter().map(|net| net.parse()).collect::<Result<_, _>>();
    let nets = AllowedNets(nets.or_else(|error: String| failure(exit::NOT_ALLOWED, error))?);
    let path = order.json_path().or_else(|error| failure(exit::BAD_ANSWER, error))?;
    let answer = follow(order, &nets).await?;
    let status = answer.status();
    let body = read(answer).await?;
    let expected = match &order.expect[..] {
        [] => status.is_success(),
        ranges => ranges.iter().any(|(low, high)| (*low..=*high).contains(&status.as_u16())),
    };
    if !expected {
        // What the server says about it is worth more than its status.
        print(&body)?;
        return failure(exit::STATUS, format!("the status {status} is not one that `expect` names"));
    }
    let Some(path) = path else { return print(&body) };
    let document: Value = serde_json::from_slice(&body)
        .or_else(|error| failure(exit::BAD_ANSWER, format!("the answer is no JSON: {error}")))?;
    let found = select(&document, path.parts())
        .or_else(|why| failure(exit::BAD_ANSWER, format!("the answer has no {}: {why}", path.as_str())))?;
    match found {
        Value::String(text) => print(text.as_bytes()),
        other => print(other.to_string().as_bytes()),
    }
}

/// The value at the end of a path, or where the path ends.
fn select<'v>(document: &'v Value, parts: &[JsonPart]) -> Result<&'v Value, String> {
    /// Keys that a message names.
    const SHOWN: usize = 10;
    let mut at = document;
    for part in parts {
        let next = match part {
            JsonPart::Key(key) => at.get(key),
            JsonPart::Index(index) => at.get(index),
        };
        at = next.ok_or_else(|| match (part, at) {
            (JsonPart::Key(key), Value::Object(map)) => {
                let keys: Vec<&str> = map.keys().take(SHOWN).map(String::as_str).collect();
                format!("there is no `{key}` among {}", keys.join(", "))
            }
            (JsonPart::Key(key), _) => format!("`{key}` is asked of something that is no object"),
            (JsonPart::Index(index), Value::Array(items)) => {
                format!("there is no item {index} among {}", items.len())
            }
            (JsonPart::Index(index), _) => format!("item {index} is asked of something that is no list"),
        })?;
    }
    Ok(at)
}

fn print(body: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let printed = out.write_all(body).and_then(|()| out.flush());
    printed.or_else(|error| failure(exit::CUT_OFF, format!("cannot print the answer: {error}")))
}

/// Makes the request, and those that its redirects ask for.
async fn follow(order: &HttpOrder, nets: &AllowedNets) -> Result<Response, Failure> {
    let mut url = Url::parse(&order.url).or_else(|error| {
        failure(exit::BAD_URL, format!("the URL {:?} cannot be used: {error}", order.url))
    })?;
    let mut method = Method::from_bytes(order.method.as_bytes())
        .or_else(|_| failure(exit::BAD_URL, format!("there is no method {}", order.method)))?;
    let mut headers = headers(order)?;
    let mut body = order.body.clone();
    // With a limit of its own the executor ends this process in time.
    let time = if order.timeout_ms.is_some() { None } else { Some(REQUEST_TIME_MAX) };
    for _ in 0..=REDIRECTS_MAX {
        let addresses = addresses(&url, nets).await?;
        eprintln!("{method} {}", shown(&url));
        for name in headers.keys() {
            eprintln!("  {name}: {}", shown_header(name, &headers[name]));
        }
        let mut client = Client::builder()
            .redirect(redirect::Policy::none())
            // A proxy would resolve names by itself, behind our back.
            .no_proxy()
            .connect_timeout(CONNECT_TIME_MAX)
            .user_agent(concat!("cadran/", env!("CARGO_PKG_VERSION")));
        if let Some(time) = time {
            client = client.timeout(time);
        }
        if let Some(host) = url.host_str() {
            client = client.resolve_to_addrs(host, &addresses);
        }
        let client = client.build().or_else(|error| failure(exit::NOT_CONNECTED, told(error)))?;
        let mut request = client.request(method.clone(), url.clone()).headers(headers.clone());
        if let Some(body) = &body {
            request = request.body(body.clone());
        }
        let answer = request.send().await.or_else(|error| failure(code_of(&error), told(error)))?;
        let status = answer.status();
        let kind =
            answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("no type");
        eprintln!("-> {status}, {kind}");
        let Some(next) = next(&answer, &url)? else { return Ok(answer) };
        if next.origin() != url.origin() {
            // Whatever they say was meant for the first host.
            headers.clear();
        }
        let becomes_get = status == StatusCode::SEE_OTHER
            || method == Method::POST && matches!(status, StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND);
        if becomes_get && method != Method::HEAD {
            method = Method::GET;
            body = None;
            headers.remove(CONTENT_TYPE);
        }
        url = next;
    }
    failure(exit::TOO_MANY_REDIRECTS, format!("more than {REDIRECTS_MAX} redirects"))
}

/// Where an answer sends us.
fn next(answer: &Response, url: &Url) -> Result<Option<Url>, Failure> {
    let status = answer.status().as_u16();
    let Some(to) = answer.headers().get(LOCATION).filter(|_| matches!(status, 301 | 302 | 303 | 307 | 308))
    else {
        return Ok(None);
    };
    let to = to.to_str().ok().and_then(|to| url.join(to).ok());
    to.map_or_else(|| failure(exit::BAD_URL, "the redirect leads to no URL"), |to| Ok(Some(to)))
}

fn headers(order: &HttpOrder) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    if order.is_json {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    for (name, value) in &order.headers {
        let parsed = name.parse::<HeaderName>().ok().zip(HeaderValue::from_str(value).ok());
        let Some((name, value)) = parsed else {
            let why = "its value holds a line break or another control character";
            return failure(exit::BAD_URL, format!("the header {name} cannot be sent: {why}"));
        };
        headers.insert(name, value);
    }
    Ok(headers)
}

/// The addresses of a URL's host: resolved once, and each of them allowed.
async fn addresses(url: &Url, nets: &AllowedNets) -> Result<Vec<SocketAddr>, Failure> {
    if !matches!(url.scheme(), "http" | "https") {
        return failure(exit::BAD_URL, format!("`{}:` is no address of the web", url.scheme()));
    }
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return failure(exit::BAD_URL, "the URL names no host");
    };
    if !url.username().is_empty() || url.password().is_some() {
        return failure(exit::BAD_URL, "a user and a password cannot stand in the URL; send a header");
    }
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    let addresses: Vec<SocketAddr> = match plain.parse::<IpAddr>() {
        Ok(ip) => vec![SocketAddr::new(ip, port)],
        Err(_) => tokio::net::lookup_host((plain, port))
            .await
            .or_else(|error| failure(exit::NOT_RESOLVED, format!("the name {host} was not found: {error}")))?
            .collect(),
    };
    if addresses.is_empty() {
        return failure(exit::NOT_RESOLVED, format!("the name {host} has no address"));
    }
    for ip in addresses.iter().map(SocketAddr::ip) {
        if let Some(kind) = why_not_public(ip).filter(|_| !nets.allow(ip)) {
            let of = if plain == ip.to_string() { String::new() } else { format!(" ({host})") };
            let help = format!("start the server with `--allow-http {ip}` if steps may ask it");
            return failure(exit::NOT_ALLOWED, format!("{ip}{of} is {kind}; {help}"));
        }
    }
    Ok(addresses)
}

async fn read(mut answer: Response) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    loop {
        let chunk = answer.chunk().await.or_else(|error| {
            let code = if error.is_timeout() { exit::TIMED_OUT } else { exit::CUT_OFF };
            failure(code, told(error))
        })?;
        let Some(chunk) = chunk else { return Ok(body) };
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return failure(exit::TOO_LARGE, format!("the answer has more than {ANSWER_BYTES_MAX} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
}

fn code_of(error: &reqwest::Error) -> u8 {
    if error.is_timeout() {
        exit::TIMED_OUT
    } else if error.is_connect() {
        exit::NOT_CONNECTED
    } else {
        exit::CUT_OFF
    }
}

/// An error with its causes, and without the URL, which may hold a secret.
fn told(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

/// Parts of names whose values stay out of the log.
const SECRET_PARTS: [&str; 10] =
    ["token", "key", "secret", "pass", "pwd", "auth", "sig", "credential", "code", "session"];

/// A URL for the log: the values of parameters that sound like secrets are masked.
fn shown(url: &Url) -> String {
    let mut shown = url.clone();
    shown.set_query(None);
    shown.set_fragment(None);
    let mut text = shown.to_string();
    for (at, pair) in url.query().into_iter().flat_map(|query| query.split('&')).enumerate() {
        text.push(if at == 0 { '?' } else { '&' });
        let name = pair.split('=').next().unwrap_or_default();
        let lower = name.to_ascii_lowercase();
        if SECRET_PARTS.iter().any(|part| lower.contains(part)) {
            text.push_str(&format!("{name}=***"));
        } else {
            text.push_str(pair);
        }
    }
    text
}

/// Headers that never carry a secret are shown.
fn shown_header<'v>(name: &HeaderName, value: &'v HeaderValue) -> &'v str {
    let is_plain = ["accept", "content-type", "user-agent", "accept-language"].contains(&name.as_str());
    value.to_str().ok().filter(|_| is_plain).unwrap_or("***")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_urls_are_masked() {
        let check = |url: &str, expected: &str| assert_eq!(shown(&Url::parse(url).expect(url)), expected);
        check("https://a.b/c", "https://a.b/c");
        check(
            "https://a.b/c?x=1&access_token=abc&API_KEY=d#f",
            "https://a.b/c?x=1&access_token=***&API_KEY=***",
        );
        check("https://a.b/?sig=%26x", "https://a.b/?sig=***");
    }

    #[test]
    fn paths_lead_to_values_or_say_where_they_end() {
        let document = serde_json::json!({ "items": [{ "id": 7 }], "name": "x" });
        let check = |path: &str, expected: Result<Value, &str>| {
            let path = cadran_core::JsonPath::parse(path).expect(path);
            let found = select(&document, path.parts()).cloned();
            assert_eq!(
                found.as_ref().map_err(String::as_str),
                expected.as_ref().map_err(|why| *why),
                "{path:?}"
            );
        };
        check("$.items[0].id", Ok(7.into()));
        check("name", Ok("x".into()));
        check("$.items[1]", Err("there is no item 1 among 1"));
        check("$.items.id", Err("`id` is asked of something that is no object"));
        check("$.item", Err("there is no `item` among items, name"));
        check("$[0]", Err("item 0 is asked of something that is no list"));
    }
}
