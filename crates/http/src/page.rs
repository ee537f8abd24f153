//! The page: a few files that are built into the binary, sent with strict rules for the browser.
//!
//! They hold no data, so they need no token. Everything the page shows comes from the API.

use std::io::Write as _;
use std::sync::LazyLock;

use axum::body::Body;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use flate2::Compression;
use flate2::write::GzEncoder;

/// Scripts, styles and requests from this origin alone; no inline script or style, and no text becomes markup.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                           connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                           require-trusted-types-for 'script'; trusted-types 'none'";

/// The first segments of the page's own addresses. Each is answered with the same document, which reads the address.
const SCREENS: &[&str] =
    &["jobs", "runs", "forecast", "why", "waits", "try", "executors", "servers", "problems", "session"];

/// One file in both of its forms.
struct File {
    path: String,
    kind: &'static str,
    plain: Vec<u8>,
    gzip: Vec<u8>,
    etag: String,
    /// Its name changes with its content, so it may be kept for ever.
    is_named_by_content: bool,
}

impl File {
    fn new(path: String, kind: &'static str, plain: Vec<u8>, is_named_by_content: bool) -> File {
        let etag = format!("\"{}\"", content_name(&plain));
        File { path, kind, gzip: gzip(&plain, Compression::best()), plain, etag, is_named_by_content }
    }
}

/// The document first.
static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
    let script = include_bytes!("../page/dist/app.js").to_vec();
    let style = include_bytes!("../page/dist/app.css").to_vec();
    let script_path = format!("/assets/app-{}.js", content_name(&script));
    let style_path = format!("/assets/app-{}.css", content_name(&style));
    let document = include_str!("../page/dist/index.html")
        .replace("/assets/app.js", &script_path)
        .replace("/assets/app.css", &style_path);
    let icon = include_bytes!("../page/dist/icon.svg").to_vec();
    let licences = include_bytes!("../page/dist/LICENSES.txt").to_vec();
    vec![
        File::new("/".into(), "text/html; charset=utf-8", document.into_bytes(), false),
        File::new(script_path, "text/javascript; charset=utf-8", script, true),
        File::new(style_path, "text/css; charset=utf-8", style, true),
        File::new("/assets/icon.svg".into(), "image/svg+xml", icon, false),
        File::new("/assets/LICENSES.txt".into(), "text/plain; charset=utf-8", licences, false),
    ]
});

/// The answer when the request is for the page, and `None` for everything else.
pub(crate) fn answer<B>(request: &Request<B>) -> Option<Response<Body>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    let path = request.uri().path();
    let file = FILES.iter().find(|file| file.path == path).or_else(|| {
        let screen = path.strip_prefix('/')?.split('/').next()?;
        SCREENS.contains(&screen).then(|| &FILES[0])
    })?;
    Some(send(file, request.headers()))
}

fn send(file: &'static File, headers: &HeaderMap) -> Response<Body> {
    let is_known = headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == file.etag.as_bytes());
    let (status, body) = match (is_known, accepts_gzip(headers)) {
        (true, _) => (StatusCode::NOT_MODIFIED, Body::empty()),
        (false, true) => (StatusCode::OK, Body::from(file.gzip.as_slice())),
        (false, false) => (StatusCode::OK, Body::from(file.plain.as_slice())),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let head = response.headers_mut();
    if !is_known && accepts_gzip(headers) {
        head.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    head.insert(CONTENT_TYPE, HeaderValue::from_static(file.kind));
    head.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if let Ok(etag) = HeaderValue::from_str(&file.etag) {
        head.insert(ETAG, etag);
    }
    let cache = if file.is_named_by_content { "public, max-age=31536000, immutable" } else { "no-cache" };
    head.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
    head.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    head.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    head.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    head.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
    response
}

/// Whether the client names gzip without forbidding it.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let named = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    named.flat_map(|value| value.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        parts.next() == Some("gzip") && !parts.any(|weight| matches!(weight, "q=0" | "q=0.0" | "q=0.00"))
    })
}

pub(crate) fn gzip(plain: &[u8], level: Compression) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 3), level);
    // Writing into memory does not fail.
    let _ = encoder.write_all(plain);
    encoder.finish().unwrap_or_default()
}

/// Sixteen digits of the content's hash: enough to tell two builds apart.
fn content_name(content: &[u8]) -> String {
    blake3::hash(content).to_hex()[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_those_who_take_it() {
        let check = |value: &str, expected: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_str(value).unwrap());
            assert_eq!(accepts_gzip(&headers), expected, "{value}");
        };
        check("gzip, deflate, br", true);
        check("br;q=1.0, gzip;q=0.8", true);
        check("gzip;q=0", false);
        check("identity", false);
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    /// The budget of the page: what a browser takes before it shows anything.
    #[test]
    fn the_first_page_stays_within_its_budget() {
        let script = FILES.iter().find(|file| file.path.ends_with(".js")).unwrap();
        let style = FILES.iter().find(|file| file.path.ends_with(".css")).unwrap();
        assert!(script.gzip.len() <= 45_000, "the script has {} bytes", script.gzip.len());
        assert!(style.gzip.len() <= 12_000, "the style sheet has {} bytes", style.gzip.len());
        let all: usize = FILES.iter().take(4).map(|file| file.gzip.len()).sum();
        assert!(all <= 70_000, "the first page has {all} bytes");
        let document = String::from_utf8(FILES[0].plain.clone()).unwrap();
        assert!(document.contains(&script.path) && document.contains(&style.path));
    }
}
