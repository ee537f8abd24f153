//! Work outlives the server: what runs goes on, its end is taken as it was, and a stop does what was asked for.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use support::ledger::Ledger;
use support::{Home, Server, is_alive, wait_for};

/// Runs of one burst. `CADRAN_BURST` gives another number, for a longer look.
const BURST: usize = 200;

/// A job that notes its pid and goes on until a file is there.
fn job_until(home: &Home, name: &str, more: &str) {
    let (seen, go) = (home.path(&format!("{name}.seen")), home.path("go"));
    let text = format!(
        "{more}run: |\n  echo $$ $CADRAN_ATTEMPT >> {}\n  echo begun\n  until [ -e {} ]; do sleep 0.05; done\n  \
         echo ended\n",
        seen.display(),
        go.display()
    );
    home.job(name, &text);
}

/// The pid of the newest attempt of such a job.
fn pid_of(home: &Home, name: &str, count: usize) -> i32 {
    wait_for(&format!("start {count} of {name}"), || {
        let lines = home.lines(&format!("{name}.seen"));
        lines.get(count - 1)?.split(' ').next()?.parse().ok()
    })
}

fn go(home: &Home) {
    fs::write(home.path("go"), "").expect("a file");
}

fn gone(what: &str, pid: i32) {
    wait_for(&format!("the end of {what} ({pid})"), || (!is_alive(pid)).then_some(()));
}

fn run_of(server: &Server, run: &str) -> Value {
    server.get(&format!("/api/v1/runs/{run}")).1
}

/// A server as people start it: nothing is said about what a stop does.
fn serve_plainly(home: &Home, args: &[&str]) -> Server {
    let mut command = support::cadran();
    command.arg("serve").arg("--data").arg(home.data()).arg("--jobs").arg(home.path("jobs"));
    command.args(["--listen", "127.0.0.1:0"]).args(args);
    let log = fs::File::options().create(true).append(true).open(home.path("log")).expect("a log file");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    home.start(command)
}

#[test]
fn a_burst_in_which_the_server_is_killed_is_done_once() {
    let home = Home::new();
    let ledger = Ledger::new(&home, "burst");
    home.job("burst", &format!("overlap: allow\nretry: {{limit: 3}}\nrun: {}\n", ledger.act("0.2", 1)));
    let server = home.serve();
    wait_for("the job", || (server.get("/api/v1/jobs/burst").0 == 200).then_some(()));
    let burst = std::env::var("CADRAN_BURST").ok().and_then(|it| it.parse().ok()).unwrap_or(BURST);
    let runs: Vec<String> = (0..burst).map(|_| server.trigger("burst", "{}")).collect();
    let ended = || ledger.entries().iter().filter(|entry| !entry.start).count();
    wait_for("a part of the burst", || (ended() >= burst / 3).then_some(()));
    server.kill();
    let ended_before = ended();
    let server = home.serve();
    for run in &runs {
        let done = server.run_is(run, "succeeded");
        assert_eq!(done["attempt"], 1, "{done}");
    }
    let entries = ledger.entries();
    let count =
        |start: bool, run: &str| entries.iter().filter(|it| it.start == start && it.run == run).count();
    let repeated: Vec<&String> = runs.iter().filter(|run| count(true, run) > 1).collect();
    let lost: Vec<&String> = runs.iter().filter(|run| count(false, run) < 1).collect();
    println!(
        "{burst} runs, {ended_before} ended when the server was killed: {} repeated, {} lost",
        repeated.len(),
        lost.len()
    );
    assert!(repeated.is_empty() && lost.is_empty(), "repeated {repeated:?}, lost {lost:?}");
    assert!(server.stop().success());
}

#[test]
fn what_runs_goes_on_without_a_server_and_its_log_has_no_hole() {
    let home = Home::new();
    job_until(&home, "long", "retry: never\n");
    let server = home.serve();
    let run = server.trigger("long", "{}");
    let pid = pid_of(&home, "long", 1);
    server.kill();
    assert!(is_alive(pid));
    let server = home.serve();
    server.run_is(&run, "running");
    // Also while one server after another is killed, and when it ends while there is none.
    server.kill();
    go(&home);
    gone("the run", pid);
    let server = home.serve();
    let done = server.run_is(&run, "succeeded");
    assert_eq!((&done["attempt"], &done["steps"][0]["attempt"]), (&1.into(), &1.into()), "{done}");
    let (_, log) = server.get(&format!("/api/v1/runs/{run}/logs/main"));
    assert!(log.as_str().is_some_and(|log| log.contains("begun") && log.contains("ended")), "{log}");
    assert_eq!(home.lines("long.seen").len(), 1);
    assert!(server.stop().success());
}

#[test]
fn a_time_limit_holds_without_a_server_and_a_stop_reaches_what_another_server_started() {
    let home = Home::new();
    let seen = |name: &str| home.path(&format!("{name}.seen")).display().to_string();
    home.job("limited", &format!(
        "steps:\n  - name: main\n    timeout: 2s\n    run: |\n      echo $$ 1 >> {}\n      exec sleep 1000\n",
        seen("limited")
    ));
    job_until(&home, "stopped", "");
    let server = home.serve();
    let limited = server.trigger("limited", "{}");
    let stopped = server.trigger("stopped", "{}");
    let (limited_pid, stopped_pid) = (pid_of(&home, "limited", 1), pid_of(&home, "stopped", 1));
    server.kill();
    gone("what passed its limit", limited_pid);
    assert!(is_alive(stopped_pid));
    let server = home.serve();
    let done =
        wait_for("its end on record", || Some(run_of(&server, &limited)).filter(|run| run["ended"] == true));
    assert!(done["steps"][0]["message"].as_str().is_some_and(|it| it.contains("time limit")), "{done}");
    assert!(home.client(&["stop", &stopped]).status.success());
    server.run_is(&stopped, "stopped");
    gone("what was stopped", stopped_pid);
    assert!(server.stop().success());
}

#[test]
fn a_killed_executor_is_replaced_and_what_it_ran_starts_again() {
    let home = Home::new();
    job_until(&home, "again", "");
    job_until(&home, "once", "retry: never\n");
    let server = home.serve();
    let (again, once) = (server.trigger("again", "{}"), server.trigger("once", "{}"));
    let pids = [pid_of(&home, "again", 1), pid_of(&home, "once", 1)];
    let before = home.executor();
    home.kill_executor();
    let second = pid_of(&home, "again", 2);
    pids.into_iter().for_each(|pid| gone("what the killed executor ran", pid));
    assert!(home.executor().is_some_and(|pid| Some(pid) != before));
    let lost = wait_for("the end of what starts once", || {
        Some(run_of(&server, &once)).filter(|it| it["ended"] == true)
    });
    assert_ne!(lost["status"], "succeeded", "{lost}");
    assert_eq!(home.lines("once.seen").len(), 1);
    assert!(is_alive(second));
    go(&home);
    let done = server.run_is(&again, "succeeded");
    assert_eq!(done["steps"][0]["attempt"], 2, "{done}");
    assert!(home.log().contains("the executor is gone; starting it again"), "{}", home.log());
    assert_eq!(server.get("/health").0, 200);
    assert!(server.stop().success());
}

// covers: option serve --on-stop
#[test]
fn what_a_stop_does_is_the_users_choice() {
    let home = Home::new();
    job_until(&home, "long", "");
    // SIGTERM leaves, and says so.
    let server = serve_plainly(&home, &[]);
    let run = server.trigger("long", "{}");
    let pid = pid_of(&home, "long", 1);
    assert!(server.stop().success());
    assert!(home.log().contains("1 attempt goes on"), "{}", home.log());
    assert!(is_alive(pid));
    // Ctrl-C stops; the run goes on with the next server, under a higher number.
    let server = serve_plainly(&home, &[]);
    server.run_is(&run, "running");
    server.signal(Signal::SIGINT);
    assert!(server.ended().success());
    gone("what Ctrl-C stopped", pid);
    // The same by word, for any signal.
    let server = serve_plainly(&home, &["--on-stop", "stop"]);
    let second = pid_of(&home, "long", 2);
    assert!(server.stop().success());
    gone("what was stopped", second);
    let server = serve_plainly(&home, &["--on-stop", "leave"]);
    let third = pid_of(&home, "long", 3);
    server.signal(Signal::SIGINT);
    assert!(server.ended().success());
    assert!(is_alive(third));
    // What is waited for may end.
    let server = serve_plainly(&home, &["--on-stop", "drain=1h"]);
    server.signal(Signal::SIGTERM);
    wait_for("it to wait", || home.log().contains("running steps have 3600 s").then_some(()));
    assert!(is_alive(third));
    go(&home);
    assert!(server.ended().success());
    let server = serve_plainly(&home, &[]);
    let done = server.run_is(&run, "succeeded");
    assert_eq!(done["steps"][0]["attempt"], 3, "{done}");
    assert!(server.stop().success());
    let refused = home.serve_command(&["--on-stop", "soon"]).output().expect("it ends");
    assert_eq!(refused.status.code(), Some(2));
}

// covers: command executor
// covers: command executor status
// covers: command executor stop
// covers: option executor status --{data,json}
// covers: option executor stop --{data,json,now}
#[test]
fn the_executor_is_asked_and_ended_by_hand_with_and_without_a_server() {
    let home = Home::new();
    let data = home.data().display().to_string();
    assert_eq!(home.json(&["executor", "status", "--data", &data, "--json"])["executor"], Value::Null);
    assert!(home.client(&["executor", "stop", "--data", &data]).status.success(), "there is nothing to end");
    job_until(&home, "long", "");
    let server = home.serve();
    let first = server.trigger("long", "{}");
    let pid = pid_of(&home, "long", 1);
    let status = home.json(&["executor", "status", "--json"]);
    assert_eq!(
        (&status["executor"]["running"], &status["executor"]["waiting"]),
        (&1.into(), &0.into()),
        "{status}"
    );
    assert!(home.client(&["executor", "stop"]).status.success());
    gone("what it ran", pid);
    // For good: it failed, says why, and does not start again. The server has another executor.
    let done = server.run_is(&first, "failed");
    assert!(done.to_string().contains("cadran executor stop"), "{done}");
    let second = server.trigger("long", "{}");
    let pid = pid_of(&home, "long", 2);
    server.kill();
    assert!(is_alive(pid));
    assert!(home.client(&["executor", "stop", "--now"]).status.success());
    gone("what it ran", pid);
    let server = home.serve();
    server.run_is(&second, "failed");
    assert_eq!(home.lines("long.seen").len(), 2);
    assert!(server.stop().success());
}

// covers: option stop --all
#[test]
fn every_run_is_stopped_by_one_command() {
    let home = Home::new();
    job_until(&home, "one", "");
    job_until(&home, "two", "overlap: wait\n");
    let server = home.serve();
    assert!(String::from_utf8_lossy(&home.client(&["stop", "--all"]).stderr).contains("no run is on"));
    let runs = [server.trigger("one", "{}"), server.trigger("two", "{}"), server.trigger("two", "{}")];
    let pids = [pid_of(&home, "one", 1), pid_of(&home, "two", 1)];
    let said = home.client(&["stop", "--all"]);
    assert!(said.status.success(), "{said:?}");
    assert!(String::from_utf8_lossy(&said.stderr).contains("3 runs are being stopped"), "{said:?}");
    runs.iter().for_each(|run| drop(server.run_is(run, "stopped")));
    pids.into_iter().for_each(|pid| gone("what was stopped", pid));
    assert_eq!(home.client(&["stop"]).status.code(), Some(2), "a run or --all");
    assert!(server.stop().success());
}

#[test]
fn a_socket_that_vanished_is_made_again_and_a_stale_one_replaced() {
    let home = Home::new();
    job_until(&home, "long", "");
    let socket = home.data().join("exec/executor.sock");
    let server = home.serve();
    let run = server.trigger("long", "{}");
    let pid = pid_of(&home, "long", 1);
    fs::remove_file(&socket).expect("it is there");
    wait_for("another one", || socket.exists().then_some(()));
    server.kill();
    let server = home.serve();
    server.run_is(&run, "running");
    assert!(is_alive(pid));
    // Nobody listens at the socket of a killed one.
    server.kill();
    home.kill_executor();
    assert!(socket.exists());
    let server = home.serve();
    pid_of(&home, "long", 2);
    assert!(server.stop().success());
    // Something else in its place is no socket.
    fs::write(&socket, "not a socket").expect("written");
    let server = home.serve();
    pid_of(&home, "long", 3);
    assert!(server.stop().success());
}

#[test]
fn whoever_listens_there_and_is_no_executor_is_refused_with_the_reason() {
    let home = Home::new();
    assert!(home.serve().stop().success());
    let socket = home.data().join("exec/executor.sock");
    let check = |answer: &'static [u8], says: &str| {
        let listener = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
        let answering = std::thread::Builder::new().spawn(move || {
            use std::io::{Read, Write};
            let (mut stream, _) = listener.accept().expect("a call");
            let mut some = [0; 64];
            let _ = stream.read(&mut some);
            let _ = stream.write_all(answer);
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let before = home.log().len();
        let output = home.serve_command(&[]).output().expect("it ends");
        assert!(!output.status.success());
        assert!(home.log()[before..].contains(says), "{says:?} in {}", &home.log()[before..]);
        answering.expect("a thread").join().expect("no panic");
        fs::remove_file(&socket).expect("it is there");
    };
    check(b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not answer as an executor of this version does");
    check(b"\x07\x00\x00\x00\"ready\"", "does not answer as an executor of this version does");
    check(
        b"\x1e\x00\x00\x00{\"refused\":{\"error\":\"go home\"}",
        "does not answer as an executor of this version does",
    );
    check(b"\x1f\x00\x00\x00{\"refused\":{\"error\":\"go home\"}}", "go home");
    assert!(home.serve().stop().success());
}

#[test]
fn an_executor_that_is_held_up_is_named_and_a_second_server_refused() {
    let home = Home::new();
    let server = home.serve();
    let executor = home.executor().expect("an executor");
    // Another server at the same executor: by a directory that shares nothing but the socket.
    let other = Home::new();
    fs::create_dir_all(other.data()).expect("made");
    std::os::unix::fs::symlink(home.data().join("exec"), other.data().join("exec")).expect("linked");
    let output = other.serve_command(&[]).output().expect("it ends");
    assert!(!output.status.success());
    let says = format!("another server, the process {}, works with this executor", server.pid());
    assert!(other.log().contains(&says), "{}", other.log());
    fs::remove_file(other.data().join("exec")).expect("it is there");
    server.kill();
    kill(Pid::from_raw(executor), Signal::SIGSTOP).expect("it is ours");
    let output = home.serve_command(&[]).output().expect("it ends");
    kill(Pid::from_raw(executor), Signal::SIGCONT).expect("it is ours");
    assert!(!output.status.success());
    assert!(home.log().contains(&format!("kill -CONT {executor}")), "{}", home.log());
    assert!(home.serve().stop().success());
}

#[test]
fn the_executor_is_reached_however_long_the_path_is() {
    let home = Home::new();
    let deep = home.path(&"d".repeat(120)).join("e".repeat(120));
    fs::create_dir_all(&deep).expect("made");
    let mut command = Command::new(env!("CARGO_BIN_EXE_cadran"));
    command.args(["executor", "status", "--json", "--data"]).arg(&deep);
    home.job("quick", "run: 'true'\n");
    let mut serve = support::cadran();
    serve.arg("serve").arg("--data").arg(&deep).arg("--jobs").arg(home.path("jobs"));
    serve.args(["--listen", "127.0.0.1:0", "--on-stop", "stop"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut server = serve.spawn().expect("it starts");
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(server.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut stdout, &mut line).expect("a line");
    assert!(line.starts_with("cadran is ready"), "{line}");
    let status = command.output().expect("it ends");
    assert!(String::from_utf8_lossy(&status.stdout).contains("\"pid\""), "{status:?}");
    kill(Pid::from_raw(server.id() as i32), Signal::SIGTERM).expect("it is ours");
    assert!(server.wait().expect("it ends").success());
    assert!(!Path::new(&deep).join("exec/executor.sock").exists());
}
