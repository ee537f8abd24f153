//! The `http` key of a step: one request.

use cadran_core::{HttpBody, HttpRequest, JsonPath, Work};

use super::fields::{Field, Fields, Shape, key, keys};
use super::findings::Findings;
use super::scalar::{filled, line, one_or_many, short, text, word};
use crate::diagnostic::Code;
use crate::tree::{Kind, Node};

/// Longest URL: servers refuse longer ones.
const URL_BYTES_MAX: usize = 8 << 10;
/// Longest body; larger ones belong in a file and a program.
const BODY_BYTES_MAX: usize = 256 << 10;
/// Headers of one request.
const HEADERS_MAX: usize = 100;
/// Longest name and longest value of a header.
const HEADER_BYTES_MAX: usize = 8 << 10;
/// Statuses and ranges in `expect`.
const EXPECT_MAX: usize = 50;
/// Longest JSON path.
const PATH_BYTES_MAX: usize = 1024;

pub(crate) const HTTP: Shape = Shape {
    what: "`http`",
    keys: &[
        key("url"),
        key("method"),
        key("headers"),
        key("body"),
        keys("expect", &["status"]),
        keys("json_path", &["select"]),
    ],
    unsupported: &[
        ("timeout", "write it beside `http`, as `timeout` of the step"),
        ("timeout_sec", "write it beside `http`, as `timeout` of the step"),
        ("retry", "write it beside `http`, as `retry` of the step"),
        ("output", "write `output: NAME` beside `http`; `json_path` chooses a part of the answer"),
        ("query", "write it in the `url`, as in `https://example.com/search?q=${term}`"),
        ("silent", "the log has one line for the request and one for the answer"),
        (
            "skip_tls_verify",
            "certificates are always checked; add yours to the machine's, or set `SSL_CERT_FILE` in `env`",
        ),
    ],
};

pub(crate) const METHODS: &[(&str, &str)] = &[
    ("GET", "GET"),
    ("POST", "POST"),
    ("PUT", "PUT"),
    ("PATCH", "PATCH"),
    ("DELETE", "DELETE"),
    ("HEAD", "HEAD"),
    ("OPTIONS", "OPTIONS"),
];

/// What a step with `http` does.
pub(crate) fn work(field: Field<'_>, findings: &mut Findings) -> Option<Work> {
    if !matches!(field.value.kind, Kind::Map(_)) {
        let message = format!("`http` is a map, not {}", field.value.what());
        findings.error_help(field.value.span, Code::WrongType, message, "write `http: {url: https://…}`");
        return None;
    }
    let fields = Fields::read(field.value, &HTTP, findings)?;
    let Some(address) = fields.get("url") else {
        let help = "add `url: https://…`";
        findings.error_help(field.value.span, Code::Missing, "this request has no `url`", help);
        return None;
    };
    let url = url(address, findings);
    let body = fields.get("body").and_then(|field| body(field, findings));
    let method = match fields.get("method") {
        Some(field) => word(field.spelled, METHODS, field.value, findings)?,
        None if body.is_some() => "POST",
        None => "GET",
    };
    if let (Some(field), "GET" | "HEAD") = (fields.get("body"), method) {
        let message = format!("a {method} request has no body");
        findings.error_help(field.key.span, Code::Conflict, message, "use `method: POST`, or remove `body`");
    }
    Some(Work::Http(Box::new(HttpRequest {
        method: method.to_owned(),
        url: url?,
        headers: fields.get("headers").map(|field| headers(field, findings)).unwrap_or_default(),
        body,
        expect: fields.get("expect").map(|field| expect(field, findings)).unwrap_or_default(),
        json_path: fields.get("json_path").and_then(|field| json_path(field, findings)),
    })))
}

fn url(field: Field<'_>, findings: &mut Findings) -> Option<String> {
    let url = line(field.spelled, URL_BYTES_MAX, field.value, findings)?.trim();
    let span = field.value.span;
    if url.starts_with("${") {
        return Some(url.to_owned());
    }
    let lower = url.to_ascii_lowercase();
    let Some(rest) = lower.strip_prefix("https://").or_else(|| lower.strip_prefix("http://")) else {
        let message = format!("`{}` is no address of the web", short(url));
        findings.error_help(span, Code::BadValue, message, "begin it with `https://` or `http://`");
        return None;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() || url.contains(char::is_whitespace) {
        let message = format!("`{}` names no host, or holds a space", short(url));
        findings.error_help(span, Code::BadValue, message, "write it as in `https://example.com/path`");
        return None;
    }
    if authority.contains('@') {
        let help = "use a header, as in `headers: {Authorization: \"Bearer ${TOKEN}\"}`";
        findings.error_help(span, Code::BadValue, "a user and a password cannot stand in the URL", help);
        return None;
    }
    Some(url.to_owned())
}

/// Headers that say how the request travels; the client sets them.
const HEADERS_OF_CLIENT: [&str; 4] = ["content-length", "transfer-encoding", "connection", "host"];

fn headers(field: Field<'_>, findings: &mut Findings) -> Vec<(String, String)> {
    let Kind::Map(entries) = &field.value.kind else {
        let message = format!("`headers` is a map of names and values, not {}", field.value.what());
        findings.error(field.value.span, Code::WrongType, message);
        return Vec::new();
    };
    if entries.len() > HEADERS_MAX {
        let message = format!("there are more than {HEADERS_MAX} headers");
        findings.error(field.key.span, Code::Limit, message);
        return Vec::new();
    }
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, value) in entries {
        let Some(name_text) = line("headers", HEADER_BYTES_MAX, name, findings) else { continue };
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if !name_text.chars().all(is_token) {
            let message = format!("`{}` is no name of a header", short(name_text));
            findings.error(name.span, Code::BadValue, message);
            continue;
        }
        if HEADERS_OF_CLIENT.contains(&name_text.to_ascii_lowercase().as_str()) {
            let message = format!("the header `{name_text}` is set by the client itself");
            findings.error_help(name.span, Code::BadValue, message, "remove it");
            continue;
        }
        if headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name_text)) {
            findings.error(name.span, Code::DuplicateKey, format!("the header `{name_text}` is there twice"));
            continue;
        }
        if let Some(value) = line(name_text, HEADER_BYTES_MAX, value, findings) {
            headers.push((name_text.to_owned(), value.to_owned()));
        }
    }
    headers
}

/// A text as it is; a map or a list as JSON.
fn body(field: Field<'_>, findings: &mut Findings) -> Option<HttpBody> {
    let body = match &field.value.kind {
        Kind::Scalar(_) => HttpBody::Text(text(field.spelled, field.value, findings)?.to_owned()),
        _ => HttpBody::Json(json(field.value).to_string()),
    };
    let (HttpBody::Text(text) | HttpBody::Json(text)) = &body;
    if text.len() > BODY_BYTES_MAX {
        let message = format!("`body` has {} bytes; allowed are {BODY_BYTES_MAX}", text.len());
        findings.error_help(field.key.span, Code::Limit, message, "send a file with a program such as curl");
        return None;
    }
    Some(body)
}

/// A tree of the file as JSON: without quotes `true`, `null` and numbers are no texts. The depth is the tree's, 64 at most.
pub(crate) fn json(node: &Node) -> serde_json::Value {
    match &node.kind {
        _ if node.is_null() => serde_json::Value::Null,
        Kind::Scalar(scalar) if scalar.plain => match scalar.text.as_str() {
            "true" => true.into(),
            "false" => false.into(),
            text => match text.parse::<serde_json::Number>() {
                Ok(number) => number.into(),
                Err(_) => text.into(),
            },
        },
        Kind::Scalar(scalar) => scalar.text.as_str().into(),
        Kind::List(items) => items.iter().map(json).collect(),
        Kind::Map(entries) => {
            let entry = |(key, value): &(Node, Node)| match &key.kind {
                Kind::Scalar(key) => Some((key.text.clone(), json(value))),
                _ => None,
            };
            serde_json::Value::Object(entries.iter().filter_map(entry).collect())
        }
    }
}

/// Statuses: `200`, `2xx`, `200-299`, `any`; one or a list of them.
fn expect(field: Field<'_>, findings: &mut Findings) -> Vec<(u16, u16)> {
    let items = one_or_many(field.value);
    if items.len() > EXPECT_MAX {
        let message = format!("`{}` has more than {EXPECT_MAX} items", field.spelled);
        findings.error(field.key.span, Code::Limit, message);
    }
    let mut ranges = Vec::new();
    for item in items.iter().take(EXPECT_MAX) {
        let Some(value) = filled(field.spelled, item, findings) else { continue };
        match range(value.trim()) {
            Some(range) => ranges.push(range),
            None => {
                let message = format!("`{}` cannot be `{}`", field.spelled, short(value));
                let help = "write a status from 100 to 599, a range as `200-299` or `2xx`, or `any`";
                findings.error_help(item.span, Code::BadValue, message, help);
            }
        }
    }
    ranges
}

fn range(text: &str) -> Option<(u16, u16)> {
    let lower = text.to_ascii_lowercase();
    let range = match lower.strip_suffix("xx") {
        _ if lower == "any" => (100, 599),
        Some(class) => {
            let class: u16 = class.parse().ok().filter(|class| (1..=5).contains(class))?;
            (class * 100, class * 100 + 99)
        }
        None => match lower.split_once('-') {
            Some((low, high)) => (low.trim().parse().ok()?, high.trim().parse().ok()?),
            None => lower.parse().ok().map(|status| (status, status))?,
        },
    };
    (100 <= range.0 && range.0 <= range.1 && range.1 <= 599).then_some(range)
}

fn json_path(field: Field<'_>, findings: &mut Findings) -> Option<JsonPath> {
    let text = line(field.spelled, PATH_BYTES_MAX, field.value, findings)?.trim();
    match JsonPath::parse(text) {
        Ok(path) => Some(path),
        Err(error) => {
            let message = format!("`{}` cannot be `{}`: {error}", field.spelled, short(text));
            findings.error(field.value.span, Code::BadValue, message);
            None
        }
    }
}
