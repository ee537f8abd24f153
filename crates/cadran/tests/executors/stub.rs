//! An executor of the XXL-JOB protocol in a thread of the test, which does as it is told.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::PATIENCE;

pub const TOKEN: &str = "a-token-of-the-tests";

/// What an executor does with a handler's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handler {
    /// Reports a success at once, before it has answered the order.
    Quick,
    /// Reports a failure.
    Fail,
    /// Fails on the first call for each share, then succeeds.
    FailOnce,
    /// Stays on until it is killed or told.
    Hold,
    /// Refuses.
    Refuse,
    /// Takes the order and never answers it.
    Mute,
    /// The same, and does what it was told: it is on until it is killed or told.
    MuteHold,
    /// Answers with something else.
    Garbage,
    /// Answers with a byte now and then, and never gets to the end.
    Drip,
    /// Answers with more than anybody wants to read.
    Flood,
}

/// Which dialect a stub speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speech {
    /// XXL-JOB up to 3.4.
    Two,
    /// XXL-JOB 3.5: a header with the group, other verbs and bodies.
    Three,
    /// Orth: another header for the token.
    Orth,
}

#[derive(Default)]
struct Inside {
    /// Every call, in order: (verb, body, headers).
    calls: Vec<(String, Value, BTreeMap<String, String>)>,
    /// Runs that are on: log number by job number.
    on: Vec<(u64, u64)>,
    failed: Vec<(u64, u64)>,
    is_busy: Option<bool>,
    /// It does not know the verb that asks whether a job is on.
    is_odd: bool,
    /// How many lines its logs have so far.
    lines: u64,
}

struct Shared {
    inside: Mutex<Inside>,
    changed: Condvar,
    door: String,
    speech: Speech,
    /// The group of the last registration, for those that say it with every call.
    group: Mutex<String>,
    is_gone: Mutex<bool>,
}

impl Shared {
    /// A call to the server, in the stub's dialect.
    fn call(&self, verb: &str, body: &Value) -> Value {
        let group = self.group.lock().expect("not poisoned").clone();
        let headers: &[(&str, &str)] = match self.speech {
            Speech::Two => &[("XXL-JOB-ACCESS-TOKEN", TOKEN)],
            Speech::Three => &[("XXL-JOB-ACCESS-TOKEN", TOKEN), ("XXL-JOB-APPNAME", &group)],
            Speech::Orth => &[("ORTH-ACCESS-TOKEN", TOKEN)],
        };
        call(&self.door, verb, body, headers)
    }

    fn report(&self, log: &Value, code: i64, message: &str) -> Value {
        let body = match self.speech {
            Speech::Three => {
                let result =
                    json!({"logId": log, "logDateTime": 1, "handleCode": code, "handleMsg": message});
                json!({"callbackList": [result]})
            }
            _ => json!([{"logId": log, "logDateTim": 1, "handleCode": code, "handleMsg": message}]),
        };
        self.call("callback", &body)
    }
}

/// A stub executor.
pub struct Stub {
    shared: Arc<Shared>,
    pub address: String,
}

impl Stub {
    /// Listens on a port of its own; `door` is where the server hears executors.
    pub fn new(door: &str) -> Stub {
        Stub::speaking(door, Speech::Two)
    }

    /// The same with a dialect of its choice.
    pub fn speaking(door: &str, speech: Speech) -> Stub {
        Stub::on(TcpListener::bind("127.0.0.1:0").expect("a port"), door, speech)
    }

    fn on(listener: TcpListener, door: &str, speech: Speech) -> Stub {
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let shared = Arc::new(Shared {
            inside: Mutex::default(),
            changed: Condvar::new(),
            door: door.to_owned(),
            speech,
            group: Mutex::default(),
            is_gone: Mutex::new(false),
        });
        let serving = shared.clone();
        #[allow(clippy::disallowed_methods)] // a test's own thread
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if *serving.is_gone.lock().expect("not poisoned") {
                    return;
                }
                let shared = serving.clone();
                std::thread::spawn(move || serve(&shared, stream));
            }
        });
        Stub { shared, address }
    }

    pub fn register(&self, group: &str) {
        *self.shared.group.lock().expect("not poisoned") = group.to_owned();
        let body = json!({"registryGroup": "EXECUTOR", "registryKey": group, "registryValue": self.address});
        let answer = self.shared.call("registry", &body);
        assert_eq!(answer["code"], 200, "{answer}");
    }

    pub fn leave(&self, group: &str) {
        let body = json!({"registryGroup": "EXECUTOR", "registryKey": group, "registryValue": self.address});
        self.shared.call("registryRemove", &body);
    }

    /// The bodies of all calls of one verb so far.
    pub fn calls(&self, verb: &str) -> Vec<Value> {
        let inside = self.shared.inside.lock().expect("not poisoned");
        inside.calls.iter().filter(|call| call.0 == verb).map(|call| call.1.clone()).collect()
    }

    /// The headers of the first call of a verb.
    pub fn headers(&self, verb: &str) -> BTreeMap<String, String> {
        let inside = self.shared.inside.lock().expect("not poisoned");
        inside.calls.iter().find(|call| call.0 == verb).map(|call| call.2.clone()).unwrap_or_default()
    }

    /// Waits for so many calls of a verb.
    #[allow(clippy::disallowed_methods)] // a test's own patience
    pub fn wait(&self, verb: &str, count: usize) -> Vec<Value> {
        let until = Instant::now() + PATIENCE;
        let mut inside = self.shared.inside.lock().expect("not poisoned");
        while inside.calls.iter().filter(|call| call.0 == verb).count() < count {
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "gave up waiting for {count} calls of {verb}");
            inside = self.shared.changed.wait_timeout(inside, left).expect("not poisoned").0;
        }
        inside.calls.iter().filter(|call| call.0 == verb).map(|call| call.1.clone()).collect()
    }

    /// Says that it is busy or idle, whatever is true.
    pub fn say_busy(&self, busy: Option<bool>) {
        self.shared.inside.lock().expect("not poisoned").is_busy = busy;
    }

    /// Answers questions about jobs with nonsense from now on.
    pub fn knows_no_questions(&self) {
        self.shared.inside.lock().expect("not poisoned").is_odd = true;
    }

    /// Understands questions about jobs again.
    pub fn knows_questions_again(&self) {
        self.shared.inside.lock().expect("not poisoned").is_odd = false;
    }

    /// Reports a result.
    pub fn report(&self, log: &Value, code: i64, message: &str) -> Value {
        self.shared.report(log, code, message)
    }

    /// Its logs have so many lines from now on.
    pub fn print(&self, lines: u64) {
        self.shared.inside.lock().expect("not poisoned").lines = lines;
    }

    /// Forgets everything it has, as after a restart of its process under the same address.
    pub fn restart(&self) {
        self.shared.inside.lock().expect("not poisoned").on.clear();
    }

    /// Takes no more calls.
    pub fn vanish(&self) {
        *self.shared.is_gone.lock().expect("not poisoned") = true;
        // The listener notices with its next connection.
        let _ = TcpStream::connect(self.address.trim_start_matches("http://"));
    }
}

/// One call to the server's door for executors.
pub fn call(door: &str, verb: &str, body: &Value, headers: &[(&str, &str)]) -> Value {
    raw_call(door, &format!("/api/{verb}"), &body.to_string(), headers).1
}

/// One call as bytes: the whole head, and the body as JSON.
pub fn raw_call(door: &str, path: &str, body: &str, headers: &[(&str, &str)]) -> (String, Value) {
    let mut stream = TcpStream::connect(door).expect("the door is open");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    let extra: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let len = body.len();
    let text = format!(
        "POST {path} HTTP/1.1\r\nHost: {door}\r\nConnection: close\r\n{extra}Content-Length: {len}\r\n\r\n"
    );
    // A server that has heard enough may close before the last byte.
    let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    (head.to_owned(), serde_json::from_str(body).unwrap_or(Value::Null))
}

fn serve(shared: &Shared, stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
    let mut stream = stream;
    while let Some((verb, headers, body)) = read_request(&mut reader) {
        if *shared.is_gone.lock().expect("not poisoned") {
            return;
        }
        {
            let mut inside = shared.inside.lock().expect("not poisoned");
            inside.calls.push((verb.clone(), body.clone(), headers));
        }
        shared.changed.notify_all();
        let Some(answer) = act(shared, &verb, &body) else {
            // Never answered, and the connection stays.
            #[allow(clippy::disallowed_methods)]
            std::thread::sleep(Duration::from_secs(600));
            return;
        };
        let len = answer.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html;charset=UTF-8\r\nContent-Length: {len}\r\n\r\n"
        );
        if answer == DRIP {
            return drip(&mut stream, &head);
        }
        if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(answer.as_bytes())).is_err() {
            return;
        }
    }
}

/// Stands for an answer that never gets to its end.
const DRIP: &str = "drip";

/// A byte at a time, until the other end has had enough.
#[allow(clippy::disallowed_methods)] // slowness is what this is about
fn drip(stream: &mut TcpStream, head: &str) {
    for byte in head.bytes().chain(std::iter::repeat(b' ')) {
        if stream.write_all(&[byte]).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn act(shared: &Shared, verb: &str, body: &Value) -> Option<String> {
    let number = body["jobId"].as_u64().unwrap_or_default();
    let ok = json!({"code": 200}).to_string();
    match verb {
        "beat" => Some(ok),
        "idleBeat" => {
            let inside = shared.inside.lock().expect("not poisoned");
            if inside.is_odd {
                return Some("no such verb".to_owned());
            }
            let busy = inside.is_busy.unwrap_or(inside.on.iter().any(|(job, _)| *job == number));
            Some(json!({"code": if busy { 500 } else { 200 }}).to_string())
        }
        "kill" => {
            let killed: Vec<(u64, u64)> = {
                let mut inside = shared.inside.lock().expect("not poisoned");
                let (killed, kept) = inside.on.drain(..).partition(|(job, _)| *job == number);
                inside.on = kept;
                killed
            };
            // One of those that call a killed run a success, before they have answered the kill.
            for (_, log) in killed {
                shared.report(&json!(log), 200, "killed");
            }
            Some(ok)
        }
        "log" => {
            let from = body["fromLineNum"].as_u64().unwrap_or(1);
            let last = match shared.inside.lock().expect("not poisoned").lines {
                0 => 3,
                lines => lines,
            };
            let lines: Vec<String> =
                (from..=last).map(|no| format!("line {no} of {}\n", body["logId"])).collect();
            let (text, to) = (lines.concat(), if from > last { from - 1 } else { last });
            let log = json!({"fromLineNum": from, "toLineNum": to, "logContent": text, "isEnd": false});
            Some(json!({"code": 200, "content": log}).to_string())
        }
        "run" | "trigger" => start(shared, body, number),
        _ => Some(json!({"code": 500, "msg": "no such verb"}).to_string()),
    }
}

fn start(shared: &Shared, body: &Value, number: u64) -> Option<String> {
    let log = body["logId"].as_u64().expect("a log number");
    let handler = match body["executorHandler"].as_str().unwrap_or_default() {
        "fail" => Handler::Fail,
        "failOnce" => Handler::FailOnce,
        "hold" => Handler::Hold,
        "refuse" => Handler::Refuse,
        "mute" => Handler::Mute,
        "muteHold" => Handler::MuteHold,
        "garbage" => Handler::Garbage,
        "drip" => Handler::Drip,
        "flood" => Handler::Flood,
        _ => Handler::Quick,
    };
    let index = body["broadcastIndex"].as_u64().unwrap_or_default();
    let report = |code: i64, message: &str| {
        let answer = shared.report(&json!(log), code, message);
        assert_eq!(answer["code"], 200, "a result is never refused: {answer}");
    };
    match handler {
        Handler::Quick => report(200, "done"),
        Handler::Fail => report(500, "it went wrong"),
        Handler::FailOnce => {
            let first = {
                let mut inside = shared.inside.lock().expect("not poisoned");
                let first = !inside.failed.contains(&(number, index));
                inside.failed.push((number, index));
                first && index == 1
            };
            if first { report(500, "not yet") } else { report(200, "at last") }
        }
        Handler::Hold => {
            let mut inside = shared.inside.lock().expect("not poisoned");
            inside.on.push((number, log));
        }
        Handler::Refuse => return Some(json!({"code": 500, "msg": "no such handler"}).to_string()),
        Handler::Mute => return None,
        Handler::MuteHold => {
            shared.inside.lock().expect("not poisoned").on.push((number, log));
            return None;
        }
        Handler::Garbage => return Some("[{\"code\":200}]".to_owned()),
        Handler::Drip => return Some(DRIP.to_owned()),
        Handler::Flood => return Some(format!("{{\"code\":200,\"msg\":\"{}\"}}", "x".repeat(1 << 20))),
    }
    Some(json!({"code": 200}).to_string())
}

fn read_request(reader: &mut impl BufRead) -> Option<(String, BTreeMap<String, String>, Value)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|len| *len > 0)?;
    let verb = line.split(' ').nth(1)?.rsplit('/').next()?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let len: usize = headers.get("content-length").and_then(|len| len.parse().ok()).unwrap_or_default();
    let mut body = vec![0; len];
    reader.read_exact(&mut body).ok()?;
    Some((verb, headers, serde_json::from_slice(&body).unwrap_or(Value::Null)))
}
