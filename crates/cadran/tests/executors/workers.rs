//! Jobs on our own executors: real `cadran worker` processes and a real server, over loopback.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::stub::{TOKEN, call, raw_call};
use super::support::{Home, Server, cadran, wait_for};
use super::{ended, run, show, trigger};

/// Long enough for a busy machine, short enough to wait for.
const LEASE_MS: &str = "3000";

/// A server and its door, which stays the same over restarts.
pub struct Rig {
    pub home: Home,
    door: String,
}

impl Rig {
    pub fn new() -> Rig {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let door = listener.local_addr().expect("an address").to_string();
        let home = Home::new();
        fs::write(home.path("token"), TOKEN).expect("written");
        Rig { home, door }
    }

    pub fn serve(&self) -> Server {
        let args =
            ["--executor-token", TOKEN, "--executor-listen", &self.door, "--worker-lease-ms", LEASE_MS];
        self.home.serve_with(&args)
    }

    /// Starts a worker with a data directory of that name, and waits until it is known.
    pub fn worker(&self, name: &str, args: &[&str]) -> Work {
        let work = self.start(name, args);
        work.wait("connected");
        work
    }

    fn start(&self, name: &str, args: &[&str]) -> Work {
        let mut command = cadran();
        command.args(["worker", "--group", "g", "--json", "--server", &format!("http://{}", self.door)]);
        command.arg("--data").arg(self.home.path(name)).arg("--token-file").arg(self.home.path("token"));
        let log =
            fs::File::options().create(true).append(true).open(self.home.path("worker-log")).expect("a log");
        command
            .args(args)
            .current_dir(self.home.path(""))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        let mut child = command.spawn().expect("the worker starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let events: Arc<Mutex<Vec<Value>>> = Arc::default();
        let heard = events.clone();
        let listen = move || {
            for line in stdout.lines().map_while(Result::ok) {
                heard.lock().expect("whole").push(serde_json::from_str(&line).expect("an event"));
            }
        };
        std::thread::Builder::new().name("events".into()).spawn(listen).expect("a thread");
        Work { child, events }
    }

    /// A job on the group whose runs note their start and wait for a file to go on.
    fn hold(&self, name: &str, more: &str) {
        let path = |file: &str| self.home.path(file).display().to_string();
        self.home.job(
            name,
            &format!(
                "executor: g\n{more}\nrun: |\n  echo \"$CADRAN_RUN_ID $CADRAN_ATTEMPT $$\" >> {}\n  \
                 while [ ! -e {}-$CADRAN_RUN_ID ] && [ ! -e {} ]; do sleep 0.05; done\n  echo over\n",
                path(&format!("{name}-starts")),
                path("go"),
                path("go-all"),
            ),
        );
    }

    /// The starts a job noted: run, attempt, pid.
    fn starts(&self, name: &str) -> Vec<(String, u32, i32)> {
        let line = |line: String| {
            let mut words = line.split(' ').map(str::to_owned);
            let mut next = || words.next().expect("a word");
            (next(), next().parse().expect("a number"), next().parse().expect("a pid"))
        };
        self.home.lines(&format!("{name}-starts")).into_iter().map(line).collect()
    }

    fn wait_start(&self, name: &str, count: usize) -> Vec<(String, u32, i32)> {
        wait_for(&format!("start {count} of {name}"), || {
            Some(self.starts(name)).filter(|starts| starts.len() >= count)
        })
    }

    fn let_go(&self, run: &str) {
        fs::write(self.home.path(&format!("go-{run}")), "").expect("written");
    }
}

/// A worker that was started.
pub struct Work {
    child: Child,
    events: Arc<Mutex<Vec<Value>>>,
}

impl Work {
    pub fn events(&self, kind: &str) -> Vec<Value> {
        self.events.lock().expect("whole").iter().filter(|event| event["event"] == kind).cloned().collect()
    }

    pub fn wait(&self, kind: &str) -> Value {
        self.wait_count(kind, 1)
    }

    pub fn wait_count(&self, kind: &str, count: usize) -> Value {
        wait_for(&format!("{kind} {count}"), || self.events(kind).get(count - 1).cloned())
    }

    pub fn address(&self) -> String {
        format!("worker:{}", self.wait("connected")["worker"].as_str().expect("an id"))
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("the worker is ours");
    }

    pub fn kill(mut self) {
        self.child.kill().expect("the worker is ours");
        self.child.wait().expect("it ends");
    }

    fn end(&mut self) -> ExitStatus {
        wait_for("the worker to end", || self.child.try_wait().expect("it is ours"))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn is_alive(pid: i32) -> bool {
    // A zombie is as good as gone.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

pub fn wait_gone(pid: i32) {
    wait_for("a process to be gone", || (!is_alive(pid)).then_some(()));
}

#[test]
fn commands_and_whole_jobs() {
    let rig = Rig::new();
    let server = rig.serve();
    let worker = rig.worker("w", &["--labels", "zone=eu,gpu=none", "--slots", "3"]);
    rig.home.job(
        "two",
        "executor: g\nenv: {GREETING: 'hello ${team}'}\nparams: {team: sales}\nsteps:\n  \
         - {name: one, run: 'echo \"$GREETING\"', output: SAID}\n  \
         - name: two\n    depends: one\n    env: {MORE: 'x ${SAID}'}\n    dir: sub\n    \
           run: 'echo \"$MORE|$CADRAN_JOB|$CADRAN_STEP|$CADRAN_ATTEMPT|${PWD##*/}\"; echo problem >&2'\n  \
         - {name: three, depends: two, run: [printf, '%s', 'a  b $HOME'], executor: {group: g}}\n",
    );
    fs::create_dir(rig.home.path("sub")).expect("made");
    let done = run(&server, "two");
    assert_eq!(done["status"], "succeeded", "{done}");
    for step in done["steps"].as_array().expect("steps") {
        assert_eq!(step["executors"][0]["address"], worker.address().as_str(), "{done}");
    }
    let log = rig.home.client(&["logs", done["id"].as_str().expect("an id")]);
    let text = String::from_utf8_lossy(&log.stdout).into_owned();
    for line in ["hello sales", "x hello sales|two|two|1|sub", "problem", "a  b $HOME"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    rig.home.job("three", "executor: g\nrun: exit 3\n");
    let done = run(&server, "three");
    assert_eq!((&done["status"], &done["steps"][0]["exit_code"]), (&json!("failed"), &json!(3)), "{done}");
    rig.home.job("slow", "executor: g\nrun: sleep 1000\ntimeout: 1s\n");
    assert_eq!(run(&server, "slow")["status"], "failed");
    rig.home.job("handler", "executor: g\nhandler: h\n");
    let done = run(&server, "handler");
    let message = done["steps"][0]["message"].as_str().unwrap_or_default();
    assert!(message.contains("no XXL-JOB executor of the group g is there"), "{done}");

    let shown = rig.home.json(&["executors", "--json"]);
    let line = &shown["groups"][0]["executors"][0];
    assert_eq!((&line["dialect"], &line["labels"]["zone"]), (&json!("worker"), &json!("eu")), "{shown}");

    // What it prints is seen while it prints it, and a stop ends the whole tree.
    let pids = rig.home.path("pids").display().to_string();
    let tree = format!(
        "executor: g\nrun: |\n  echo early\n  (setsid sleep 1000 & echo $! > {pids})\n  sleep 1000\n"
    );
    rig.home.job("tree", &tree);
    let id = trigger(&server, "tree");
    wait_for("the first line", || {
        let log = rig.home.client(&["logs", &id]);
        String::from_utf8_lossy(&log.stdout).contains("early").then_some(())
    });
    assert_eq!(show(&server, &id)["status"], "running");
    let pid: i32 = wait_for("a pid", || rig.home.lines("pids").first().and_then(|line| line.parse().ok()));
    assert!(is_alive(pid));
    assert!(rig.home.client(&["stop", &id]).status.success());
    assert_eq!(ended(&server, &id)["status"], "stopped");
    wait_gone(pid);
    // What is over is forgotten here, logs included.
    let logs = rig.home.path("w/logs");
    wait_for("the worker to forget", || (fs::read_dir(&logs).ok()?.count() == 0).then_some(()));
}

#[test]
fn a_server_that_is_killed_finds_what_runs() {
    let rig = Rig::new();
    let server = rig.serve();
    let worker = rig.worker("w", &[]);
    rig.hold("hold", "overlap: allow\nblock: concurrent\nconcurrency: 9");
    let one = trigger(&server, "hold");
    let two = trigger(&server, "hold");
    rig.wait_start("hold", 2);
    server.run_is(&one, "running");
    server.kill();
    // One ends while the server is away; the other later, and then the worker goes too: its result is on its disk.
    rig.let_go(&one);
    worker.wait("ended");
    let server = rig.serve();
    assert_eq!(ended(&server, &one)["status"], "succeeded");
    worker.wait_count("connected", 2);
    server.run_is(&two, "running");
    server.kill();
    rig.let_go(&two);
    worker.wait_count("ended", 2);
    worker.kill();
    let server = rig.serve();
    let _worker = rig.worker("w", &[]);
    let done = ended(&server, &two);
    assert_eq!((&done["status"], &done["steps"][0]["attempt"]), (&json!("succeeded"), &json!(1)), "{done}");
    let log = rig.home.client(&["logs", &two]);
    assert!(String::from_utf8_lossy(&log.stdout).contains("over"), "its log came with it");
    assert_eq!(rig.starts("hold").len(), 2, "nothing was started twice");
}

#[test]
fn a_worker_that_is_killed_leaves_nothing_behind() {
    let rig = Rig::new();
    let server = rig.serve();
    let worker = rig.worker("w", &[]);
    rig.hold("again", "");
    rig.hold("once", "retry: never");
    let (again, once) = (trigger(&server, "again"), trigger(&server, "once"));
    let (first, only) = (rig.wait_start("again", 1)[0].2, rig.wait_start("once", 1)[0].2);
    worker.kill();
    // Its keeper ends what it ran.
    wait_gone(first);
    wait_gone(only);
    // Under the same id it says how things ended; nobody waits for a lease.
    let worker = rig.worker("w", &[]);
    let starts = rig.wait_start("again", 2);
    assert_eq!((starts[0].1, starts[1].1), (1, 2), "{starts:?}");
    rig.let_go(&again);
    assert_eq!(ended(&server, &again)["status"], "succeeded");
    assert_eq!(ended(&server, &once)["status"], "lost");
    assert_eq!(rig.starts("once").len(), 1);
    // Gone for good: lost after a lease, and started elsewhere.
    let id = trigger(&server, "again");
    let gone = rig.wait_start("again", 3)[2].2;
    worker.kill();
    let other = rig.worker("other", &[]);
    rig.wait_start("again", 4);
    assert!(!is_alive(gone));
    rig.let_go(&id);
    let done = ended(&server, &id);
    assert_eq!(done["status"], "succeeded", "{done}");
    assert_eq!(done["steps"][0]["executors"][0]["address"], other.address().as_str(), "{done}");
}

#[test]
fn nothing_runs_beyond_a_lease() {
    let rig = Rig::new();
    let server = rig.serve();
    let worker = rig.worker("w", &[]);
    rig.hold("hold", "");
    let id = trigger(&server, "hold");
    let first = rig.wait_start("hold", 1)[0].2;
    server.run_is(&id, "running");
    // The server answers nobody: the worker ends its tree by itself.
    server.signal(Signal::SIGSTOP);
    worker.wait("lease_lost");
    wait_gone(first);
    worker.wait("ended");
    server.signal(Signal::SIGCONT);
    let second = rig.wait_start("hold", 2)[1].clone();
    assert_eq!(second.1, 2, "a new attempt");
    // The worker itself is frozen: its keeper ends the tree, before another worker has the run.
    let other = rig.worker("other", &[]);
    worker.signal(Signal::SIGSTOP);
    let third = rig.wait_start("hold", 3)[2].clone();
    assert!(!is_alive(second.2), "two attempts of one run are alive");
    worker.signal(Signal::SIGCONT);
    worker.wait_count("connected", 2);
    assert!(is_alive(third.2));
    rig.let_go(&id);
    let done = ended(&server, &id);
    assert_eq!((&done["status"], &done["steps"][0]["attempt"]), (&json!("succeeded"), &json!(3)), "{done}");
    assert_eq!(done["steps"][0]["executors"][0]["address"], other.address().as_str(), "{done}");
    assert_eq!(rig.starts("hold").len(), 3);
}

#[test]
fn a_worker_that_is_told_to_go_ends_what_it_has() {
    let rig = Rig::new();
    let server = rig.serve();
    let mut worker = rig.worker("w", &[]);
    rig.hold("hold", "");
    rig.hold("long", "");
    let id = trigger(&server, "hold");
    rig.wait_start("hold", 1);
    worker.signal(Signal::SIGTERM);
    worker.wait("draining");
    wait_for("the worker to be off the list", || {
        (rig.home.json(&["executors", "--json"])["groups"] == json!([])).then_some(())
    });
    let done = run(&server, "long");
    let message = done["steps"][0]["message"].as_str().unwrap_or_default();
    assert!(message.contains("no worker of the group g is there"), "{done}");
    rig.let_go(&id);
    assert!(worker.end().success());
    assert_eq!(ended(&server, &id)["status"], "succeeded");
    // Patience has an end: what is on is stopped, and goes on elsewhere.
    let mut worker = rig.worker("w", &["--drain-timeout", "0"]);
    let id = trigger(&server, "long");
    let pid = rig.wait_start("long", 1)[0].2;
    let other = rig.worker("other", &[]);
    worker.signal(Signal::SIGTERM);
    assert!(worker.end().success());
    assert!(!is_alive(pid));
    rig.wait_start("long", 2);
    rig.let_go(&id);
    let done = ended(&server, &id);
    assert_eq!(done["steps"][0]["executors"][0]["address"], other.address().as_str(), "{done}");
}

#[test]
fn who_may_not_work_is_told_why() {
    let rig = Rig::new();
    let server = rig.serve();
    fs::write(rig.home.path("wrong"), "another-token\n").expect("written");
    let wrong: PathBuf = rig.home.path("wrong");
    let api = format!("http://{}", server.address);
    let door = format!("http://{}", rig.door);
    let rows: &[(&[&str], Option<i32>, &str)] = &[
        (&["--server", &door, "--token-file", wrong.to_str().expect("text")], Some(5), "token for executors"),
        (&["--server", &api], Some(5), "--server is the address for executors"),
        (&["--server", &door, "--token-file", "/nowhere"], Some(2), "cannot read the token"),
        (&["--server", "ftp://x"], Some(2), "is not the address of a server"),
        (&["--server", "http://example.com"], Some(2), "plain http to another machine"),
        (&["--server", &door, "--labels", "x"], Some(2), "gpu=a100"),
        (&["--server", &door, "--slots", "0"], Some(2), "--slots"),
    ];
    for (args, code, says) in rows {
        let mut command = cadran();
        command.args(["worker", "--group", "g", "--data"]).arg(rig.home.path("w"));
        if !args.contains(&"--token-file") {
            command.env("CADRAN_EXECUTOR_TOKEN", TOKEN);
        }
        let output = command.args(*args).output().expect("it ends");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), *code, "{args:?}: {text}");
        assert!(text.contains(says), "{args:?}: {text}");
        assert!(!text.contains(TOKEN), "{args:?}: {text}");
    }
    let none = cadran().args(["worker", "--group", "g", "--server", &door]).output().expect("it ends");
    assert_eq!(none.status.code(), Some(2));
    // One data directory is one worker.
    let worker = rig.worker("w", &[]);
    let mut second = rig.start("w", &[]);
    assert_eq!(second.end().code(), Some(1));
    // A server that is not there is waited for, and a worker with nothing to tell goes at once.
    server.kill();
    let mut alone = rig.start("alone", &[]);
    alone.wait("unreachable");
    alone.signal(Signal::SIGTERM);
    assert!(alone.end().success());
    let _server = rig.serve();
    worker.wait_count("connected", 2);
}

#[test]
fn the_door_for_workers_is_strict() {
    let rig = Rig::new();
    let server = rig.serve();
    let token = format!("Bearer {TOKEN}");
    let good: &[(&str, &str)] = &[("authorization", &token), ("cadran-group", "g")];
    let hello = json!({"worker": "w", "life": "l", "slots": 1, "held": []}).to_string();
    let from = json!({"worker": "w", "life": "l", "server": "s"});
    let poll = json!({"from": from, "have": 0}).to_string();
    let piece = "/worker/v1/log?worker=w&life=l&server=s&run=0000000000001&step=0&attempt=1&at=0";
    let large = "x".repeat((1 << 20) + 1);
    let rows: &[(&str, &str, &[(&str, &str)], &str)] = &[
        ("/worker/v1/hello", &hello, &[], "401"),
        ("/worker/v1/hello", &hello, &[("authorization", &token)], "401"),
        ("/worker/v1/hello", &hello, &[("authorization", "Bearer wrong"), ("cadran-group", "g")], "401"),
        ("/worker/v1/hello", &hello, &[("authorization", TOKEN), ("cadran-group", "g")], "401"),
        ("/worker/v1/hello", &hello, &[("authorization", &token), ("cadran-group", "../g")], "401"),
        ("/worker/v1/orders", &poll, &[], "401"),
        (piece, "text", &[], "401"),
        ("/worker/v1/hello", "{", good, "400"),
        ("/worker/v1/hello", "[]", good, "400"),
        ("/worker/v1/hello", &hello.replace("\"w\"", "\"../w\""), good, "400"),
        ("/worker/v1/hello", &hello.replace(":1", ":0"), good, "400"),
        ("/worker/v1/none", "{}", good, "404"),
        ("/worker/v1/orders", &poll, good, "409"),
        ("/worker/v1/reports", &json!({"from": from, "reports": []}).to_string(), good, "409"),
        ("/worker/v1/leave", &json!({"from": from}).to_string(), good, "409"),
        (piece, "text", good, "409"),
        ("/worker/v1/log", "text", good, "400"),
        (piece, &large, good, "400"),
    ];
    for (path, body, headers, status) in rows {
        let (head, answer) = raw_call(&rig.door, path, body, headers);
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{path} {headers:?}: {head}");
        assert!(answer["error"].is_string(), "{path}: {answer}");
    }
    // Nobody becomes a worker by the other door.
    let body = json!({"registryGroup": "EXECUTOR", "registryKey": "g", "registryValue": "worker:w"});
    assert_eq!(call(&rig.door, "registry", &body, &[("XXL-JOB-ACCESS-TOKEN", TOKEN)])["code"], 500);
    assert_eq!(rig.home.json(&["executors", "--json"])["groups"], json!([]), "nobody got in");
    // A stop in good order does not end what runs elsewhere.
    let worker = rig.worker("w", &[]);
    rig.hold("hold", "");
    let id = trigger(&server, "hold");
    rig.wait_start("hold", 1);
    server.run_is(&id, "running");
    assert!(server.stop().success());
    let server = rig.serve();
    worker.wait_count("connected", 2);
    rig.let_go(&id);
    let done = ended(&server, &id);
    assert_eq!((&done["status"], &done["steps"][0]["attempt"]), (&json!("succeeded"), &json!(1)), "{done}");
}

#[test]
fn four_ways_of_a_job_that_is_still_on() {
    let rig = Rig::new();
    let server = rig.serve();
    let worker = rig.worker("w", &["--slots", "8"]);
    for (name, more) in [
        ("serial", "block: serial"),
        ("discard", "block: discard"),
        ("cover", "block: cover"),
        ("concurrent", "block: concurrent\nconcurrency: 2"),
    ] {
        rig.hold(name, &format!("overlap: allow\n{more}"));
    }
    let order = |name: &str| {
        let id = trigger(&server, name);
        wait_for("the order to arrive", || {
            worker.events("ordered").iter().any(|event| event["run"] == id.as_str()).then_some(())
        });
        id
    };
    let names = |name: &str| rig.starts(name).into_iter().map(|(run, ..)| run).collect::<Vec<_>>();

    let (one, two) = (order("serial"), order("serial"));
    rig.wait_start("serial", 1);
    rig.let_go(&one);
    assert_eq!(ended(&server, &one)["status"], "succeeded");
    rig.wait_start("serial", 2);
    rig.let_go(&two);
    assert_eq!(ended(&server, &two)["status"], "succeeded");
    assert_eq!(names("serial"), [one, two]);

    let one = order("discard");
    rig.wait_start("discard", 1);
    let two = order("discard");
    let done = ended(&server, &two);
    assert_eq!(done["status"], "failed", "{done}");
    assert!(
        done["steps"][0]["message"].as_str().is_some_and(|text| text.contains("block: discard")),
        "{done}"
    );
    rig.let_go(&one);
    assert_eq!(ended(&server, &one)["status"], "succeeded");
    assert_eq!(names("discard"), [one]);

    let one = order("cover");
    let first = rig.wait_start("cover", 1)[0].2;
    let two = order("cover");
    rig.wait_start("cover", 2);
    assert!(!is_alive(first), "both are on");
    let done = ended(&server, &one);
    assert!(
        done["steps"][0]["message"].as_str().is_some_and(|text| text.contains(&format!("run {two} took"))),
        "{done}"
    );
    rig.let_go(&two);
    assert_eq!(ended(&server, &two)["status"], "succeeded");

    let runs = [order("concurrent"), order("concurrent"), order("concurrent")];
    rig.wait_start("concurrent", 2);
    assert_eq!(show(&server, &runs[2])["status"], "promised", "the third waits at the worker");
    rig.let_go(&runs[0]);
    rig.wait_start("concurrent", 3);
    rig.let_go(&runs[1]);
    rig.let_go(&runs[2]);
    for run in &runs {
        assert_eq!(ended(&server, run)["status"], "succeeded");
    }
}

// covers: key executor.{group,labels}
#[test]
fn labels_and_free_slots_choose() {
    let rig = Rig::new();
    let server = rig.serve();
    let east = rig.worker("east", &["--labels", "zone=east", "--slots", "1"]);
    let west = rig.worker("west", &["--labels", "zone=west,gpu=a100", "--slots", "1"]);
    for zone in ["east", "west"] {
        rig.home.job(zone, &format!("executor: {{group: g, labels: {{zone: {zone}}}}}\nrun: 'true'\n"));
    }
    for (name, worker) in [("east", &east), ("west", &west), ("east", &east)] {
        let done = run(&server, name);
        assert_eq!(done["steps"][0]["executors"][0]["address"], worker.address().as_str(), "{done}");
    }
    rig.home.job("north", "executor: {group: g, labels: {zone: north}}\nrun: 'true'\n");
    let done = run(&server, "north");
    assert_eq!(done["status"], "failed", "{done}");
    let message = done["steps"][0]["message"].as_str().unwrap_or_default();
    assert!(message.contains("no worker of the group g with zone=north is there"), "{message}");
    // Whoever has a free slot comes before one that has none, however often one asks.
    rig.hold("hold", "");
    let id = trigger(&server, "hold");
    rig.wait_start("hold", 1);
    let busy = show(&server, &id)["steps"][0]["executors"][0]["address"].clone();
    rig.home.job("quick", "executor: g\nrun: 'true'\n");
    for _ in 0..4 {
        let done = run(&server, "quick");
        assert_ne!(done["steps"][0]["executors"][0]["address"], busy, "{done}");
    }
    // All of them, each with its share.
    rig.let_go(&id);
    ended(&server, &id);
    rig.home.job(
        "all",
        "executor: g\nroute: broadcast\nrun: echo share $CADRAN_SHARD_INDEX of $CADRAN_SHARD_TOTAL\n",
    );
    let done = run(&server, "all");
    assert_eq!(done["status"], "succeeded", "{done}");
    let log = rig.home.client(&["logs", done["id"].as_str().expect("an id")]);
    let text = String::from_utf8_lossy(&log.stdout).into_owned();
    assert!(text.contains("share 0 of 2") && text.contains("share 1 of 2"), "{text}");
}
