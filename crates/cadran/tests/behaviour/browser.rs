//! What a browser needs of the server: a way in, sessions, live events, and logs by line.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;

use serde_json::Value;

use super::support::{Home, PATIENCE, Server, cadran, wait_for};
use super::{client, said, stdout, touch, until};

/// A request without the token, as browsers send it: the status, the head and the body of the answer.
fn browse(server: &Server, method: &str, path: &str, headers: &str, body: &str) -> (u16, String, Value) {
    let mut stream = TcpStream::connect(&server.address).expect("the server listens");
    let host =
        if headers.contains("Host:") { String::new() } else { format!("Host: {}\r\n", server.address) };
    let request = format!(
        "{method} {path} HTTP/1.1\r\n{host}Connection: close\r\nSec-Fetch-Site: same-origin\r\n{headers}\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("a request can be sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    (status, head.to_owned(), serde_json::from_str(body).unwrap_or(Value::Null))
}

/// Opens a session, and gives its cookie as a header.
fn sign_in(server: &Server, body: &str) -> String {
    let (code, head, state) = browse(server, "POST", "/api/v1/session", "", body);
    assert_eq!((code, &state["signed_in"]), (201, &true.into()), "{head}");
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    format!("Cookie: {}\r\n", cookie.split(';').next().expect("a pair"))
}

// covers: endpoint GET /api/v1/session
// covers: endpoint POST /api/v1/session
// covers: endpoint DELETE /api/v1/session
// covers: endpoint GET /api/v1/sessions
// covers: endpoint DELETE /api/v1/sessions/{name}
// covers: endpoint POST /api/v1/login-codes
#[test]
fn a_session_is_opened_once_listed_and_ended() {
    let home = Home::new();
    home.job("work", "run: 'true'\n");
    let server = home.serve();
    let (_, _, nobody) = browse(&server, "GET", "/api/v1/session", "", "");
    assert_eq!(nobody["signed_in"], false);
    assert_eq!(browse(&server, "GET", "/api/v1/jobs", "", "").0, 401);
    let (code, made) = server.post("/api/v1/login-codes", r#"{"read_only": true}"#);
    assert_eq!(code, 201, "{made}");
    let body = format!(r#"{{"code": {}}}"#, made["code"]);
    let reader = sign_in(&server, &body);
    // A code works once.
    assert_eq!(browse(&server, "POST", "/api/v1/session", "", &body).0, 401);
    assert_eq!(browse(&server, "GET", "/api/v1/jobs", &reader, "").0, 200);
    let (code, _, refused) = browse(&server, "POST", "/api/v1/jobs/work/trigger", &reader, "{}");
    assert_eq!((code, refused["error"]["code"].as_str()), (403, Some("read_only")), "{refused}");
    let owner = sign_in(&server, &format!(r#"{{"token": "{}"}}"#, server.token));
    assert_eq!(browse(&server, "POST", "/api/v1/jobs/work/trigger", &owner, "{}").0, 201);
    // A page of another site cannot use it.
    let port = server.address.rsplit(':').next().expect("a port");
    let foreign = format!("{owner}Host: evil.example:{port}\r\n");
    assert_eq!(browse(&server, "GET", "/api/v1/jobs", &foreign, "").0, 403);
    let (_, _, list) = browse(&server, "GET", "/api/v1/sessions", &owner, "");
    let sessions = list["sessions"].as_array().cloned().unwrap_or_default();
    assert_eq!(sessions.len(), 2, "{list}");
    let other = sessions.iter().find(|session| session["current"] == false).expect("the reader's");
    let path = format!("/api/v1/sessions/{}", other["name"].as_str().expect("a name"));
    assert_eq!(server.request("DELETE", &path, None).0, 204);
    assert_eq!(server.request("DELETE", &path, None).0, 404);
    assert_eq!(browse(&server, "GET", "/api/v1/jobs", &reader, "").0, 401);
    assert_eq!(browse(&server, "DELETE", "/api/v1/session", &owner, "").0, 204);
    assert_eq!(browse(&server, "GET", "/api/v1/jobs", &owner, "").0, 401);
    assert!(server.stop().success());
}

// covers: command open
// covers: option open --{data,insecure,json,print,read-only,server,token}
// covers: option serve --host-name
#[test]
fn a_link_signs_one_browser_in() {
    let home = Home::new();
    let server = home.serve_with(&["--host-name", "cadran.example.com"]);
    let url = format!("http://{}", server.address);
    let open = |args: &[&str]| {
        let mut command: Command = cadran();
        command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
        command.arg("open").args(args).output().expect("it starts")
    };
    let data = home.data().display().to_string();
    let printed = open(&["--data", &data, "--print"]);
    let link = stdout(&printed).trim().to_owned();
    let code = link.strip_prefix(&format!("{url}/#code=")).unwrap_or_else(|| panic!("{}", said(&printed)));
    let owner = sign_in(&server, &format!(r#"{{"code": "{code}"}}"#));
    let named = "Host: cadran.example.com\r\n".to_owned();
    // The port of a name that a proxy has is its own.
    let at_name = named.clone()
        + &owner
            .replace(&format!("cadran_{}", server.address.rsplit(':').next().expect("a port")), "cadran_80");
    assert_eq!(browse(&server, "GET", "/api/v1/jobs", &at_name, "").0, 200, "{at_name}");
    let given = open(&["--server", &url, "--token", &server.token, "--read-only", "--json"]);
    let made: Value = serde_json::from_slice(&given.stdout).unwrap_or_else(|_| panic!("{}", said(&given)));
    let link = made["url"].as_str().expect("a link");
    let code = link.split("#code=").nth(1).expect("a code");
    let reader = sign_in(&server, &format!(r#"{{"code": "{code}"}}"#));
    let (_, _, state) = browse(&server, "GET", "/api/v1/session", &reader, "");
    assert_eq!(state["read_only"], true, "{state}");
    let away = ["--server", "http://cadran.invalid:1", "--token", "x"];
    assert_eq!(open(&away).status.code(), Some(2), "plain http to another machine has to be meant");
    assert_eq!(open(&[&away[..], &["--insecure"]].concat()).status.code(), Some(3));
    assert!(server.stop().success());
}

/// A stream of events, read line by line.
fn watch(server: &Server, query: &str, last: &str) -> impl Iterator<Item = String> + use<> {
    let mut stream = TcpStream::connect(&server.address).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let request = format!(
        "GET /api/v1/events{query} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n{last}\r\n",
        server.address, server.token
    );
    stream.write_all(request.as_bytes()).expect("a request can be sent");
    BufReader::new(stream).lines().map(|line| line.expect("the stream goes on"))
}

// covers: endpoint GET /api/v1/events
#[test]
fn events_tell_every_change_and_go_on_where_they_were_left() {
    let home = Home::new();
    for name in ["first", "second"] {
        home.job(name, "run: 'true'\n");
    }
    let server = home.serve();
    let mut all = watch(&server, "", "");
    let hello = all.find(|line| line.starts_with("id: ")).expect("an id");
    let of_second = watch(&server, "?job=second", "");
    let run = |name: &str| {
        let id = server.trigger(name, "{}");
        server.run_is(&id, "succeeded");
        id
    };
    let (first, second) = (run("first"), run("second"));
    let tells = |line: &String, id: &str| line.contains(id) && line.contains("succeeded");
    assert!(all.by_ref().any(|line| tells(&line, &first)));
    assert!(all.by_ref().any(|line| tells(&line, &second)));
    let mut seen = of_second.take_while(|line| !tells(line, &second));
    assert!(!seen.any(|line| line.contains(&first)), "another job's events");
    // Whoever comes back with the last id is told everything since.
    let last = hello.replace("id: ", "Last-Event-ID: ") + "\r\n";
    assert!(watch(&server, "", &last).any(|line| tells(&line, &first)));
    let reset = watch(&server, "?after=nonsense", "").find(|line| line.starts_with("event: "));
    assert_eq!(reset.as_deref(), Some("event: reset"), "an id of another life");
    assert!(server.stop().success());
}

// covers: endpoint GET /api/v1/runs/{id}/logs/{step}/lines
// covers: endpoint GET /api/v1/runs/{id}/logs/{step}/search
#[test]
fn a_log_is_read_and_searched_by_line() {
    let home = Home::new();
    home.job("talk", &format!("run: seq 1 5000; {}; echo The End\n", until(&home, "go")));
    let server = home.serve();
    let id = server.trigger("talk", "{}");
    let get = |rest: &str| server.get(&format!("/api/v1/runs/{id}/logs/main/{rest}")).1;
    wait_for("the numbers", || (get("lines?from=4999&count=1")["total"] == 5000).then_some(()));
    let page = get("lines?from=2000&count=2");
    assert_eq!(
        (&page["lines"], &page["ended"]),
        (&serde_json::json!(["2001", "2002"]), &false.into()),
        "{page}"
    );
    assert_eq!(get("search?q=499&limit=3")["lines"], serde_json::json!([498, 1498, 2498]));
    touch(&home, "go");
    server.run_is(&id, "succeeded");
    assert_eq!(get("search?q=the%20end")["lines"], serde_json::json!([5000]));
    assert_eq!(get("search?q=THE%20end")["lines"], serde_json::json!([]), "a capital letter counts");
    for (rest, code) in [("lines?count=0", 400), ("search?q=", 400), ("lines?form=3", 400)] {
        assert_eq!(server.get(&format!("/api/v1/runs/{id}/logs/main/{rest}")).0, code, "{rest}");
    }
    assert_eq!(server.get(&format!("/api/v1/runs/{id}/logs/nobody/lines")).0, 404);
    assert!(client(&home, &["logs", &id, "--tail", "1"]).ends_with("The End\n"));
    assert!(server.stop().success());
}
