//! A server in a directory of its own: the built binary, its files, its API over loopback.
#![allow(dead_code)] // each test file uses its own part of this
#![allow(unreachable_pub)] // every test file is a crate of its own

pub mod chance;
pub mod faketime;
pub mod law;
pub mod ledger;
pub mod postgres;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// How long a named moment may take on a busy machine before the test gives up.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The built binary.
pub fn cadran() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cadran"));
    for name in
        ["CADRAN_DATA", "CADRAN_JOBS", "CADRAN_SERVER", "CADRAN_STORE", "CADRAN_TOKEN", "CADRAN_LISTEN"]
    {
        command.env_remove(name);
    }
    command
}

/// Runs the binary to its end.
pub fn run(args: &[&str]) -> Output {
    cadran().args(args).output().expect("the binary starts")
}

/// Waits until `found` gives something.
#[allow(clippy::disallowed_methods)]
pub fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = found() {
            return value;
        }
        assert!(started.elapsed() < PATIENCE, "gave up waiting for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A directory with a `data` and a `jobs` folder, and the servers started in it.
pub struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    pub fn new() -> Home {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("jobs")).expect("a jobs folder");
        Home { dir }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// Writes a job file as editors do: a new file, renamed into place.
    pub fn job(&self, name: &str, text: &str) {
        let half = self.path(&format!("{name}.new"));
        fs::write(&half, text).expect("a file can be written");
        fs::rename(&half, self.path(&format!("jobs/{name}.yaml"))).expect("a file can be renamed");
    }

    pub fn remove_job(&self, name: &str) {
        fs::remove_file(self.path(&format!("jobs/{name}.yaml"))).expect("the file is there");
    }

    pub fn serve(&self) -> Server {
        self.serve_with(&[])
    }

    /// Starts a server and waits for its ready line.
    pub fn serve_with(&self, args: &[&str]) -> Server {
        self.start(self.serve_command(args))
    }

    /// The command that serves this home, not yet started.
    pub fn serve_command(&self, args: &[&str]) -> Command {
        let mut command = cadran();
        command.arg("serve").arg("--data").arg(self.data()).arg("--jobs").arg(self.path("jobs"));
        command.args(["--listen", "127.0.0.1:0", "--stop-patience", "1"]).args(args);
        // What jobs write below their working directory goes with the home.
        command.current_dir(self.dir.path());
        let log = fs::File::options().create(true).append(true).open(self.path("log")).expect("a log file");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        command
    }

    /// Starts a server and waits for its ready line.
    pub fn start(&self, mut command: Command) -> Server {
        let mut child = command.spawn().expect("the server starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        assert!(line.starts_with("cadran is ready"), "{line:?}; log: {}", self.log());
        let url = line.split("http://").nth(1).and_then(|rest| rest.split(',').next()).expect("an address");
        let token = fs::read_to_string(self.data().join("token")).expect("a token").trim().to_owned();
        Server { child, address: url.to_owned(), token, ready: line, _stdout: stdout }
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// The lines of a file that jobs write to, none when it is not there yet.
    pub fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Runs a client command against the server of this home.
    pub fn client(&self, args: &[&str]) -> Output {
        cadran().env("CADRAN_DATA", self.data()).args(args).output().expect("the binary starts")
    }

    /// The executor of this home, if there is one.
    pub fn executor(&self) -> Option<i32> {
        let status = self.json(&["executor", "status", "--json"]);
        status["executor"]["pid"].as_i64().and_then(|pid| pid.try_into().ok())
    }

    /// SIGKILL for the executor of this home. What it ran goes on until the next one ends it.
    pub fn kill_executor(&self) {
        if let Some(pid) = self.executor() {
            kill(Pid::from_raw(pid), Signal::SIGKILL).expect("the executor is ours");
            wait_for("the executor's end", || (!is_alive(pid)).then_some(()));
        }
    }

    /// The JSON a client command prints.
    pub fn json(&self, args: &[&str]) -> Value {
        let output = self.client(args);
        let text = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(&text).unwrap_or_else(|_| {
            panic!("{args:?} printed {text:?}, {}", String::from_utf8_lossy(&output.stderr))
        })
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // What a killed server has left behind goes with its directory.
        if self.data().join("exec/executor.sock").exists() {
            let _ = self.client(&["executor", "stop", "--now"]);
        }
    }
}

/// Whether the process is there and not a zombie.
pub fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// A running server.
pub struct Server {
    child: Child,
    pub address: String,
    pub token: String,
    pub ready: String,
    _stdout: BufReader<ChildStdout>,
}

impl Server {
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).expect("the server is ours");
    }

    /// SIGKILL, at once.
    pub fn kill(mut self) {
        self.child.kill().expect("the server is ours");
        let status = self.child.wait().expect("it ends");
        assert_eq!(status.signal(), Some(9));
    }

    /// SIGTERM, and the end.
    pub fn stop(mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        wait_for("the server to stop", || self.child.try_wait().expect("it is ours"))
    }

    /// Waits for an end that nobody asked for.
    pub fn ended(mut self) -> ExitStatus {
        wait_for("the server to end", || self.child.try_wait().expect("it is ours"))
    }

    pub fn get(&self, path: &str) -> (u16, Value) {
        self.request("GET", path, None)
    }

    pub fn post(&self, path: &str, body: &str) -> (u16, Value) {
        self.request("POST", path, Some(body))
    }

    /// One request on a connection of its own.
    pub fn request(&self, method: &str, path: &str, body: Option<&str>) -> (u16, Value) {
        self.request_with(method, path, body, "")
    }

    /// One request with further headers, each with its end of line.
    pub fn request_with(&self, method: &str, path: &str, body: Option<&str>, headers: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).expect("the server listens");
        let body = body.unwrap_or_default();
        let (address, token, len) = (&self.address, &self.token, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {len}\r\n{headers}\r\n{body}"
        );
        stream.write_all(request.as_bytes()).expect("a request can be sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        let body = if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
            unchunk(body)
        } else {
            body.into()
        };
        (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }

    /// Everything recorded of a job, newest first: runs and skips.
    pub fn history(&self, job: &str) -> Vec<Value> {
        let (mut items, mut before) = (Vec::new(), String::new());
        loop {
            let (code, body) = self.get(&format!("/api/v1/history?job={job}&limit=1000{before}"));
            assert_eq!(code, 200, "{body}");
            items.extend(body["history"].as_array().cloned().unwrap_or_default());
            let Some(next) = body["next"].as_str() else { return items };
            before = format!("&before={next}");
        }
    }

    /// Runs of a job with these statuses, newest first.
    pub fn runs(&self, job: &str, status: &str) -> Vec<Value> {
        let (code, body) = self.get(&format!("/api/v1/runs?job={job}&status={status}&limit=1000"));
        assert_eq!(code, 200, "{body}");
        body["runs"].as_array().cloned().unwrap_or_default()
    }

    /// Waits for the first run of a job with this status.
    pub fn run_with(&self, job: &str, status: &str) -> Value {
        wait_for(&format!("a run of {job} that is {status}"), || self.runs(job, status).into_iter().next())
    }

    /// Runs a job by hand, and gives the id of the run.
    pub fn trigger(&self, job: &str, body: &str) -> String {
        let (code, answer) = self.post(&format!("/api/v1/jobs/{job}/trigger"), body);
        assert!(code < 300, "{code} {answer}");
        id_of(&answer)
    }

    /// Waits until a run has this status.
    pub fn run_is(&self, run: &str, status: &str) -> Value {
        wait_for(&format!("run {run} to be {status}"), || {
            let (_, body) = self.get(&format!("/api/v1/runs/{run}"));
            (body["status"] == status).then_some(body)
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A test that failed half-way leaves nothing behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The run an answer names.
pub fn id_of(answer: &Value) -> String {
    let id = ["run", "id", "run_id"].iter().find_map(|name| answer[*name].as_str());
    id.unwrap_or_else(|| panic!("no run in {answer}")).to_owned()
}

fn unchunk(mut body: &str) -> String {
    let mut text = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 || rest.len() < size {
            break;
        }
        text.push_str(&rest[..size]);
        body = rest.get(size + 2..).unwrap_or_default();
    }
    text
}

/// Whether a process with this text in its command line is alive.
pub fn alive(marker: &str) -> bool {
    let ours = |path: &Path| {
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        let state = fs::read_to_string(path.join("stat")).unwrap_or_default();
        let zombie = state.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'));
        !zombie && line.windows(marker.len()).any(|window| window == marker.as_bytes())
    };
    fs::read_dir("/proc").into_iter().flatten().flatten().any(|entry| ours(&entry.path()))
}
