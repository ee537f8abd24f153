use std::net::IpAddr;
use std::path::Path;

use cadran_http::token;
use reqwest::Url;
use serde::Deserialize;

use super::{ClientOptions, Exit, Failure};
use crate::defaults;

/// Where a server is, and the token for it.
#[derive(Debug)]
pub(super) struct Address {
    pub(super) url: Url,
    pub(super) token: String,
}

/// What `serve` writes beside its token.
#[derive(Deserialize)]
struct ServerFile {
    url: String,
}

/// The server that was named, else the one of the data directory. The token of the data directory goes to the server
/// that runs with it alone, and no token goes over plain http to another machine unless that was asked for.
pub(super) fn find(options: &ClientOptions) -> Result<Address, Failure> {
    let data = options.data.clone().unwrap_or_else(defaults::data_dir);
    let url = match options.server.as_deref().map(str::trim).filter(|server| !server.is_empty()) {
        Some(server) => parse(server).map_err(|why| {
            Failure::usage(format!("{server:?} is not the address of a server: {why}"))
                .help("write it as http://127.0.0.1:7788 or https://cadran.example.com")
        })?,
        None => of_data(&data)?,
    };
    let url = match of_data(&data) {
        Ok(own) if is_same(&own, &url) => own,
        _ => url,
    };
    let here = is_loopback(&url);
    let given = options.token.as_deref().map(str::trim).filter(|token| !token.is_empty());
    let token = match given {
        Some(token) => token.to_owned(),
        None if here => own_token(&data, &url)?,
        None => {
            return Err(Failure::new(
                Exit::Refused,
                "no_token",
                format!("{url} is another machine and needs its own token"),
            )
            .help("set CADRAN_TOKEN to the content of the file `token` in that server's data directory"));
        }
    };
    if !here && url.scheme() == "http" && !options.insecure {
        return Err(Failure::new(
            Exit::Usage,
            "insecure",
            format!("{url} is plain http to another machine: whoever is in between could read the token"),
        )
        .help("use https://, or a tunnel (ssh -L 7788:127.0.0.1:7788 HOST), or say --insecure"));
    }
    Ok(Address { url, token })
}

pub(crate) fn parse(server: &str) -> Result<Url, String> {
    let with_scheme = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
    let mut url: Url = with_scheme.parse().map_err(|error| format!("{error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("{} is not http or https", url.scheme()));
    }
    if url.host().is_none() {
        return Err("it names no host".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a user or password has no place in it; the token goes into CADRAN_TOKEN".into());
    }
    url.set_query(None);
    url.set_fragment(None);
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    Ok(url)
}

fn of_data(data: &Path) -> Result<Url, Failure> {
    let path = data.join("server.json");
    let none = |why: &str| {
        Failure::new(Exit::Unreachable, "no_server", format!("no server {why} {}", data.display()))
            .help("start one with `cadran serve`, or name one with --server URL or --data DIR")
    };
    let text = std::fs::read_to_string(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => none("runs with the data directory"),
        _ => none(&format!("can be looked up ({error}) in")),
    })?;
    let file: ServerFile = serde_json::from_str(&text).map_err(|_| none("is named in server.json of"))?;
    parse(&file.url).map_err(|_| none("with a usable address is named in server.json of"))
}

/// The token of the data directory, for the server that runs with it and for no other: whoever else listens on this
/// machine may be anybody.
fn own_token(data: &Path, url: &Url) -> Result<String, Failure> {
    let path = data.join("token");
    let token = kept(&path, url)?;
    let other = match of_data(data) {
        Ok(own) if own == *url => return Ok(token),
        Ok(own) => format!("belongs to the server at {own}"),
        Err(_) => "belongs to a server that does not run now".to_owned(),
    };
    Err(Failure::new(
        Exit::Refused,
        "no_token",
        format!("the token in {} {other}, and is not sent to {url}", path.display()),
    )
    .help("name that server's data directory with --data DIR, or set CADRAN_TOKEN"))
}

/// Whether a server that was named is the one of the data directory, which is known by its number: `localhost` may be
/// any loopback address.
fn is_same(own: &Url, named: &Url) -> bool {
    let is_localhost = named.host_str().is_some_and(|host| host.eq_ignore_ascii_case("localhost"));
    let mut named = named.clone();
    if is_localhost && is_loopback(own) && named.set_host(own.host_str()).is_err() {
        return false;
    }
    *own == named
}

fn kept(path: &Path, url: &Url) -> Result<String, Failure> {
    match token::load(path) {
        Ok(token) => Ok(token.as_str().to_owned()),
        Err(error) if error.is_missing() => Err(Failure::new(
            Exit::Refused,
            "no_token",
            format!("there is no token for {url} in {}", path.display()),
        )
        .help("name the server's data directory with --data DIR, or set CADRAN_TOKEN")),
        Err(error) if error.is_denied() => Err(Failure::new(
            Exit::Refused,
            "no_token",
            format!("the server {url} belongs to another user: {error}"),
        )
        .help("run this as that user, or set CADRAN_TOKEN")),
        Err(error) => Err(Failure::new(Exit::Refused, "no_token", error.to_string())),
    }
}

/// Whether the URL can only be this machine. A name counts when it is `localhost` itself: other names are answered by
/// whoever runs the name server.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn options(server: &str, token: Option<&str>, data: &Path, insecure: bool) -> ClientOptions {
        ClientOptions {
            server: (!server.is_empty()).then(|| server.to_owned()),
            token: token.map(str::to_owned),
            data: Some(data.to_owned()),
            insecure,
            json: false,
        }
    }

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("cadran-address-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn the_token_goes_only_where_it_may() {
        let data = scratch("token");
        let own = token::load_or_create(&data.join("token")).unwrap();
        let own = own.as_str();
        let check =
            |server: &str, given: Option<&str>, insecure: bool, expected: Result<(&str, &str), &str>| {
                let found = find(&options(server, given, &data, insecure));
                match (&found, expected) {
                    (Ok(address), Ok((url, token))) => {
                        assert_eq!((address.url.as_str(), address.token.as_str()), (url, token), "{server}");
                    }
                    (Err(failure), Err(code)) => assert_eq!(failure.code, code, "{server}"),
                    _ => panic!("{server} {insecure}: {found:?}"),
                }
            };
        check("127.0.0.1:7788", None, false, Err("no_token"));
        std::fs::write(data.join("server.json"), r#"{"url": "http://127.0.0.1:7788"}"#).unwrap();
        check("127.0.0.1:7788", None, false, Ok(("http://127.0.0.1:7788/", own)));
        check("http://localhost:7788", None, false, Ok(("http://127.0.0.1:7788/", own)));
        // Another port, another loopback address, another path: somebody else.
        check("http://127.0.0.1:7789", None, false, Err("no_token"));
        check("http://localhost:1", None, false, Err("no_token"));
        check("http://[::1]:7788", None, false, Err("no_token"));
        check("http://127.0.0.2:7788", None, false, Err("no_token"));
        check("https://127.0.0.1:7788", None, false, Err("no_token"));
        check("http://127.0.0.1:7788/base", None, false, Err("no_token"));
        check("http://[::1]:1/base", Some("t"), false, Ok(("http://[::1]:1/base/", "t")));
        check("http://127.9.9.9:1", Some("t"), false, Ok(("http://127.9.9.9:1/", "t")));
        check("https://far.example", None, false, Err("no_token"));
        check("https://far.example", None, true, Err("no_token"));
        check("https://far.example", Some("t"), false, Ok(("https://far.example/", "t")));
        check("http://far.example", Some("t"), false, Err("insecure"));
        check("http://far.example", Some("t"), true, Ok(("http://far.example/", "t")));
        check("http://10.0.0.1:7788", Some("t"), false, Err("insecure"));
        // Names and numbers that only look like this machine.
        check("http://localhost.far.example", Some("t"), false, Err("insecure"));
        check("http://127.0.0.1.far.example", Some("t"), false, Err("insecure"));
        check("http://127.0.0.1@far.example", Some("t"), false, Err("usage"));
        check("http://0.0.0.0:7788", Some("t"), false, Err("insecure"));
        check("ftp://127.0.0.1", None, false, Err("usage"));
        check("http://", None, false, Err("usage"));
        check("", None, false, Ok(("http://127.0.0.1:7788/", own)));
        std::fs::remove_file(data.join("server.json")).unwrap();
        check("", None, false, Err("no_server"));
        std::fs::remove_dir_all(&data).unwrap();
    }

    #[test]
    fn the_server_of_the_data_directory_is_found() {
        let data = scratch("file");
        let own = token::load_or_create(&data.join("token")).unwrap();
        let check = |content: &str, expected: Result<&str, &str>| {
            std::fs::write(data.join("server.json"), content).unwrap();
            let found = find(&options("", None, &data, false));
            match (&found, expected) {
                (Ok(address), Ok(url)) => {
                    assert_eq!((address.url.as_str(), &*address.token), (url, own.as_str()))
                }
                (Err(failure), Err(code)) => assert_eq!(failure.code, code, "{content}"),
                _ => panic!("{content}: {found:?}"),
            }
        };
        check(r#"{"url": "http://127.0.0.1:7788"}"#, Ok("http://127.0.0.1:7788/"));
        check(r#"{"url": "http://127.0.0.1:7788", "pid": 12}"#, Ok("http://127.0.0.1:7788/"));
        check("", Err("no_server"));
        check(r#"{"url": "nonsense://"}"#, Err("no_server"));
        check(r#"{"url": "http://far.example"}"#, Err("no_token"));
        std::fs::remove_dir_all(&data).unwrap();
    }
}
