//! Steps that make one HTTP request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::support::{Home, wait_for};
use super::{Ran, cadran, run_job_with, said};

/// A server that answers by path, and remembers what it was asked.
struct Web {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Web {
    #[allow(clippy::disallowed_methods)] // a server of the test, which ends with it
    fn start() -> Web {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let seen = seen.clone();
                std::thread::spawn(move || answer(stream, port, &seen));
            }
        });
        Web { port, asked }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic").clone()
    }
}

fn answer(mut stream: TcpStream, port: u16, asked: &Mutex<Vec<String>>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let (mut head, mut length) = (String::new(), 0);
    while reader.read_line(&mut head).ok()? > 2 {
        let line = head.lines().last()?.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let path = head.split(' ').nth(1)?.to_owned();
    let earlier = {
        let mut asked = asked.lock().ok()?;
        asked.push(format!("{head}{}", String::from_utf8_lossy(&body)));
        asked.iter().filter(|request| request.split(' ').nth(1) == Some(&path)).count()
    };
    let (status, more, body) = match path.split('?').next()? {
        "/json" => ("200 OK", String::new(), r#"{"items":[{"id":7,"name":"a \"b\""}]}"#.to_owned()),
        "/flaky" if earlier < 3 => ("503 Service Unavailable", String::new(), "busy".to_owned()),
        "/away" => ("302 Found", format!("Location: http://127.0.0.2:{port}/json\r\n"), String::new()),
        "/moved" => ("303 See Other", "Location: /json\r\n".to_owned(), String::new()),
        "/circle" => ("302 Found", "Location: /circle\r\n".to_owned(), String::new()),
        "/missing" => ("404 Not Found", String::new(), "no such thing".to_owned()),
        "/large" => ("200 OK", String::new(), "x".repeat(2 << 20)),
        "/never" => {
            // Until the client is gone.
            let _ = reader.read(&mut [0]);
            return None;
        }
        _ => ("200 OK", String::new(), "plain".to_owned()),
    };
    let len = body.len();
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/x\r\nContent-Length: {len}\r\n{more}Connection: close\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).ok()
}

const ALLOW: [&str; 2] = ["--allow-http", "127.0.0.1"];

fn run_allowed(text: &str, more: &[&str]) -> Ran {
    run_job_with(text, &[&ALLOW[..], more].concat())
}

// covers: key step.http
// covers: key http.{url,method,headers,body,json_path,select}
// covers: option run --allow-http
#[test]
fn a_request_carries_values_as_data_and_its_answer_reaches_later_steps() {
    let web = Web::start();
    for key in ["json_path", "select"] {
        let text = format!(
            "params: {{id: '1', note: x}}\nenv: {{TOKEN: s3cret}}\nsteps:\n  - name: ask\n    http:\n      url: {}\n      \
             method: PUT\n      headers: {{Authorization: 'Bearer ${{TOKEN}}', X-Note: '${{note}}'}}\n      \
             body: {{note: '${{note}}', count: 3, deep: [true, null]}}\n      {key}: $.items[0].name\n    output: NAME\n  \
             - name: use\n    depends: ask\n    run: [echo, \"[${{NAME}}]\"]\n    stdout: used\n",
            web.url("/json?of=${id}")
        );
        let given = ["--allow-http", "127.0.0.1", "-p", "id=a/../b?c=d", "-p", "note=say \"hi\", $(id)"];
        let ran = run_job_with(&text, &given);
        assert_eq!(ran.steps(), ["ask succeeded", "use succeeded"], "{}", ran.said);
        assert_eq!(ran.lines("used"), ["[a \"b\"]"]);
    }
    let asked = web.asked();
    let request = asked.first().expect("a request");
    assert!(request.starts_with("PUT /json?of=a%2F..%2Fb%3Fc%3Dd HTTP/1.1\r\n"), "{request}");
    assert!(request.to_ascii_lowercase().contains("authorization: bearer s3cret\r\n"), "{request}");
    assert!(request.to_ascii_lowercase().contains("content-type: application/json\r\n"), "{request}");
    assert!(request.ends_with(r#"{"count":3,"deep":[true,null],"note":"say \"hi\", $(id)"}"#), "{request}");
}

// covers: key job.http
#[test]
fn a_job_of_one_request_logs_what_it_did_and_no_secret() {
    let (web, home) = (Web::start(), Home::new());
    let url = web.url("/json?page=2&access_token=${TOKEN}");
    let text = format!(
        "env: {{TOKEN: s3cret}}\nhttp: {{url: '{url}', headers: {{X-Api-Key: '${{TOKEN}}', Accept: text/x}}}}\n"
    );
    std::fs::write(home.path("job.yaml"), text).expect("a file");
    let run = || {
        cadran().args(["run", "job.yaml"]).args(ALLOW).current_dir(home.path("")).output().expect("it starts")
    };
    let shown = said(&run());
    assert!(shown.contains("access_token=***") && shown.contains("page=2"), "{shown}");
    for line in ["x-api-key: ***", "accept: text/x", "-> 200 OK, text/x", "\"items\""] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(web.asked()[0].contains("access_token=s3cret"), "{:?}", web.asked());
}

// covers: key http.{expect,status}
#[test]
fn a_status_that_is_not_expected_fails_and_may_be_tried_again() {
    let web = Web::start();
    let step = |http: &str, more: &str| format!("steps: [{{name: ask, http: {{{http}}}{more}}}]\n");
    let flaky = format!("url: '{}'", web.url("/flaky"));
    let ran = run_allowed(&step(&flaky, ", retry: {limit: 3, exit_codes: 22}"), &[]);
    assert_eq!(
        (ran.steps(), &ran.step("ask")["attempt"]),
        (vec!["ask succeeded".to_owned()], &3.into()),
        "{}",
        ran.said
    );
    let missing = web.url("/missing");
    let ran = run_allowed(&step(&format!("url: '{missing}'"), ""), &[]);
    assert_eq!((ran.code, ran.steps()), (Some(22), vec!["ask failed".to_owned()]), "{}", ran.said);
    for good in ["expect: 404", "status: 4xx", "expect: [200, 400-410]", "expect: any"] {
        let ran = run_allowed(&step(&format!("url: '{missing}', {good}"), ""), &[]);
        assert_eq!(ran.steps(), ["ask succeeded"], "{good}: {}", ran.said);
    }
}

#[test]
fn requests_that_go_wrong_have_the_exit_codes_of_curl() {
    let web = Web::start();
    let circle = web.url("/circle");
    for (http, code) in [
        (format!("url: '{circle}'"), 47),
        (format!("url: '{}', json_path: items", web.url("/plain")), 1),
        (format!("url: '{}', json_path: 'items[3]'", web.url("/json")), 1),
        (format!("url: '{}'", web.url("/large")), 63),
        ("url: 'http://127.0.0.1:1/'".to_owned(), 7),
        ("url: 'http://nowhere.invalid/'".to_owned(), 6),
        ("url: '${none}'".to_owned(), 3),
    ] {
        let ran = run_allowed(&format!("http: {{{http}}}\n"), &[]);
        assert_eq!(ran.code, Some(code), "{http}: {}", ran.said);
    }
    // A redirect to another page of the same host is followed, as a GET without the body.
    let ran = run_allowed(&format!("http: {{url: '{}', body: x}}\n", web.url("/moved")), &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.said);
    assert!(
        web.asked()
            .last()
            .is_some_and(|request| request.starts_with("GET /json ") && request.ends_with("\r\n\r\n"))
    );
}

// covers: option serve --allow-http
#[test]
fn only_public_addresses_are_asked_unless_the_server_allows_more() {
    let (web, home) = (Web::start(), Home::new());
    home.job("here", &format!("http: {{url: '{}'}}\n", web.url("/json")));
    home.job("named", &format!("http: {{url: 'http://localhost:{}/'}}\n", web.port));
    home.job("hidden", &format!("http: {{url: 'http://[::ffff:7f00:1]:{}/'}}\n", web.port));
    home.job("away", &format!("http: {{url: '{}'}}\n", web.url("/away")));
    home.job("cloud", "http: {url: 'http://169.254.169.254/latest/meta-data/'}\n");
    home.job("never", &format!("http: {{url: '{}'}}\n", web.url("/never")));
    let exit_code = |server: &super::Server, job: &str, status: &str| {
        let run = server.run_is(&server.trigger(job, "{}"), status);
        run["steps"][0]["exit_code"].clone()
    };
    let server = home.serve_with(&[]);
    for job in ["here", "named", "hidden", "away", "cloud"] {
        assert_eq!(exit_code(&server, job, "failed"), 9, "{job}");
    }
    assert_eq!(web.asked(), Vec::<String>::new());
    let run = server.runs("here", "failed").remove(0);
    let log = home.client(&["logs", run["id"].as_str().expect("an id")]);
    let log = said(&log);
    assert!(
        log.contains("127.0.0.1 is a loopback address") && log.contains("--allow-http 127.0.0.1"),
        "{log}"
    );
    assert!(server.stop().success());

    let server = home.serve_with(&["--allow-http", "127.0.0.1/32"]);
    assert_eq!(exit_code(&server, "here", "succeeded"), 0);
    // Allowed is the first host, not the one that it sends us to.
    assert_eq!(exit_code(&server, "away", "failed"), 9);
    assert_eq!(exit_code(&server, "cloud", "failed"), 9);
    // A request that gets no answer ends with its run.
    let run = server.trigger("never", "{}");
    wait_for("the request to arrive", || {
        web.asked().iter().any(|request| request.contains("/never")).then_some(())
    });
    assert!(home.client(&["stop", &run]).status.success());
    server.run_is(&run, "stopped");
    assert!(server.stop().success());
}

#[test]
fn mistakes_in_requests_are_found_when_the_file_is_read() {
    let home = Home::new();
    for (http, said_at, says) in [
        ("http: https://a.b/", "1:7", "`http` is a map"),
        ("http: {method: GET}", "1:7", "no `url`"),
        ("http: {url: example.com}", "1:13", "https://"),
        ("http: {url: 'https://me:pw@a.b/'}", "1:13", "a user and a password"),
        ("http: {url: 'https://a.b/', body: x, method: get}", "1:29", "has no body"),
        ("http: {url: 'https://a.b/', expect: 600}", "1:37", "from 100 to 599"),
        ("http: {url: 'https://a.b/', json_path: '$..id'}", "1:40", "not supported"),
        ("http: {url: 'https://a.b/', headers: {'a b': c}}", "1:39", "no name of a header"),
        ("http: {url: 'https://a.b/', timeout: 5s}", "1:29", "beside `http`"),
        ("http: {url: 'https://a.b/'}\nexecutor: build", "1:1", "executor: local"),
        ("http: {url: 'https://a.b/'}\nrun: echo", "2:1", "keep one of the two"),
    ] {
        home.job("job", &format!("{http}\n"));
        let output = cadran().arg("check").arg(home.path("jobs/job.yaml")).output().expect("it starts");
        let text = said(&output);
        assert_eq!(output.status.code(), Some(1), "{http}: {text}");
        assert!(text.contains(says) && text.contains(&format!("job.yaml:{said_at}")), "{http}: {text}");
    }
}
