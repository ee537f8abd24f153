//! Processes that want to get away: a new session, an empty environment, two forks. None is alive after the end of its
//! run, a stop, the death of the server or a restart.

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::{Home, Server, cadran, is_alive, wait_for};

/// A home with a script that leaves strays behind, and a job that runs it and ends, one that runs it and stays, and one
/// that only stays.
fn home() -> Home {
    let home = Home::new();
    let path = |name: &str| home.path(name).display().to_string();
    let stray = format!(
        "echo $$ >>{}\ntrap '' TERM HUP INT\nexec >/dev/null 2>&1 </dev/null\nwhile :; do sleep 0.2; done\n",
        path("strays")
    );
    fs::write(home.path("stray.sh"), stray).expect("a file");
    let escape = format!(
        "before=$(cat {0} 2>/dev/null | wc -l)\nenv -i setsid -f sh -c '(sh {1} &)'\n\
         until [ $(cat {0} 2>/dev/null | wc -l) -gt $before ]; do sleep 0.01; done\n",
        path("strays"),
        path("stray.sh")
    );
    fs::write(home.path("escape.sh"), escape).expect("a file");
    home.job("leaves", &leaves(&home, ""));
    home.job("stays", &format!("run: |\n  sh {}\n  sleep 1000\n", path("escape.sh")));
    home.job("calm", &format!("run: |\n  echo $$ >>{}\n  exec sleep 1000\n", path("calm")));
    home
}

fn leaves(home: &Home, more: &str) -> String {
    format!("{more}run: sh {}\n", home.path("escape.sh").display())
}

/// The pid of a stray, which carries no mark of ours any more.
fn stray(home: &Home, count: usize) -> i32 {
    let pid = line(home, "strays", count);
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    assert!(!String::from_utf8_lossy(&environ).contains("CADRAN"), "its environment was cleared");
    pid
}

fn line(home: &Home, file: &str, count: usize) -> i32 {
    wait_for(&format!("line {count} of {file}"), || home.lines(file).get(count - 1)?.parse().ok())
}

fn gone(what: &str, pid: i32) {
    wait_for(&format!("the end of {what} ({pid})"), || (!is_alive(pid)).then_some(()));
}

fn trigger(home: &Home, job: &str) -> String {
    let answer = home.json(&["trigger", job, "--json"]);
    answer["run"].as_str().or(answer["id"].as_str()).expect("a run").to_owned()
}

/// Whether the server of this home has control groups.
fn has_groups(home: &Home) -> bool {
    home.log().contains("kept together by control groups")
}

/// The control groups of a process that are there, in any hierarchy.
fn groups_of(pid: i32) -> Vec<String> {
    let prefix = format!("cadran-{pid}.");
    let mut found = Vec::new();
    let mut open = vec![Path::new("/sys/fs/cgroup").to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(&prefix) {
                found.push(entry.path().display().to_string());
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) && !name.starts_with("cadran-") {
                open.push(entry.path());
            }
        }
    }
    found
}

#[test]
fn a_stray_goes_with_the_end_of_its_run_while_others_run_on() {
    let home = home();
    let server = home.serve();
    trigger(&home, "calm");
    let calm = line(&home, "calm", 1);
    if !has_groups(&home) {
        eprintln!(
            "passed over: this machine has no control groups, and the subreaper alone cannot tell whose it is"
        );
        return;
    }
    for count in 1..=3 {
        let output = home.client(&["trigger", "leaves", "--wait"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        gone("a stray after the end of its run", stray(&home, count));
    }
    assert!(is_alive(calm), "the other run was left alone");
    let pid = home.executor().expect("an executor");
    assert!(!groups_of(pid).is_empty());
    assert!(server.stop().success());
    gone("the other run after the server's stop", calm);
    gone("the executor", pid);
    assert_eq!(groups_of(pid), [] as [&str; 0], "the groups are gone with the executor");
}

#[test]
fn a_stray_goes_with_a_stop_of_its_run_and_with_a_stop_of_the_server() {
    let home = home();
    let server = home.serve();
    let run = trigger(&home, "stays");
    let first = stray(&home, 1);
    assert!(home.client(&["stop", &run]).status.success());
    gone("a stray after a stop", first);
    trigger(&home, "stays");
    let second = stray(&home, 2);
    assert!(server.stop().success());
    gone("a stray after the server's stop", second);
}

#[test]
fn a_stray_outlives_a_killed_server_with_its_run_and_goes_with_a_killed_executor() {
    let home = home();
    let server = home.serve();
    let run = trigger(&home, "stays");
    let first = stray(&home, 1);
    let has_groups = has_groups(&home);
    server.kill();
    let server = home.serve();
    assert!(is_alive(first), "its run goes on, and so does it");
    assert_eq!(server.get(&format!("/api/v1/runs/{run}")).1["status"], "running");
    let executor = home.executor().expect("an executor");
    home.kill_executor();
    // The server starts another one, which ends what is left before anything starts.
    stray(&home, 2);
    if has_groups {
        gone("a stray after kill -9 of its executor", first);
        assert_eq!(groups_of(executor), [] as [&str; 0]);
    } else {
        let _ = kill(Pid::from_raw(first), Signal::SIGKILL);
    }
    let (_, body) = server.get(&format!("/api/v1/runs/{run}"));
    assert_eq!(body["steps"][0]["attempt"], 2, "{body}");
    assert!(server.stop().success());
}

#[test]
fn a_stray_goes_when_the_next_server_starts_after_a_kill_of_server_and_executor() {
    let home = home();
    let server = home.serve();
    trigger(&home, "stays");
    let stray = stray(&home, 1);
    if !has_groups(&home) {
        return;
    }
    let executor = home.executor().expect("an executor");
    server.kill();
    home.kill_executor();
    assert!(is_alive(stray), "nobody is there to end it");
    let server = home.serve();
    assert!(!is_alive(stray), "it is gone when the next server is ready");
    assert_eq!(groups_of(executor), [] as [&str; 0]);
    assert!(server.stop().success());
}

#[test]
fn a_stray_goes_with_a_run_in_the_foreground() {
    let home = home();
    let file = home.path("jobs/leaves.yaml");
    let output = cadran().arg("run").arg(&file).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    gone("a stray after the end of `cadran run`", stray(&home, 1));
    let mut child = background(cadran().arg("run").arg(home.path("jobs/stays.yaml")));
    let second = stray(&home, 2);
    let has_groups = !groups_of(child.id() as i32).is_empty();
    child.kill().expect("it is ours");
    let _ = child.wait();
    if has_groups {
        gone("a stray after kill -9 of `cadran run`", second);
    } else {
        let _ = kill(Pid::from_raw(second), Signal::SIGKILL);
    }
}

fn background(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
}

#[test]
fn a_stray_goes_with_its_run_on_a_worker_and_with_a_killed_worker() {
    let home = home();
    let door =
        TcpListener::bind("127.0.0.1:0").and_then(|door| door.local_addr()).expect("a port").to_string();
    fs::write(home.path("token"), "strays-token-0123456789").expect("written");
    home.job("leaves", &leaves(&home, "executor: g\n"));
    let stays = format!(
        "executor: g\nretry: never\nrun: |\n  sh {}\n  sleep 1000\n",
        home.path("escape.sh").display()
    );
    home.job("stays", &stays);
    let _server =
        home.serve_with(&["--executor-token", "strays-token-0123456789", "--executor-listen", &door]);
    let mut worker = cadran();
    worker.args(["worker", "--group", "g", "--json", "--server", &format!("http://{door}")]);
    worker.arg("--data").arg(home.path("worker")).arg("--token-file").arg(home.path("token"));
    let log = fs::File::create(home.path("worker-log")).expect("a log");
    let mut worker =
        worker.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().expect("the worker starts");
    let events = BufReader::new(worker.stdout.take().expect("a pipe"));
    assert!(
        events.lines().map_while(Result::ok).any(|event| event.contains("connected")),
        "the worker is connected"
    );
    let output = home.client(&["trigger", "leaves", "--wait"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    gone("a stray after its run on a worker", stray(&home, 1));
    trigger(&home, "stays");
    let second = stray(&home, 2);
    let has_groups = !groups_of(worker.id() as i32).is_empty();
    worker.kill().expect("it is ours");
    let _ = worker.wait();
    if has_groups {
        gone("a stray after kill -9 of its worker", second);
    } else {
        let _ = kill(Pid::from_raw(second), Signal::SIGKILL);
    }
}

/// Starts a server that does not see the hierarchies whose mounts are taken away. `None` where that is not allowed.
fn serve_without(home: &Home, unmount: &str) -> Option<Server> {
    let may = Command::new("unshare").args(["-m", "sh", "-c", unmount]).output();
    if !may.is_ok_and(|output| output.status.success()) {
        eprintln!("passed over: mounts cannot be changed here");
        return None;
    }
    let inner = home.serve_command(&[]);
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &format!("{unmount}; exec \"$@\""), "sh"]);
    command.arg(inner.get_program()).args(inner.get_args());
    let log = fs::File::options().create(true).append(true).open(home.path("log")).expect("a log file");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    Some(home.start(command))
}

#[test]
fn without_control_groups_the_log_says_so_and_a_lone_stray_still_goes() {
    let home = home();
    let Some(server) = serve_without(&home, "umount -R /sys/fs/cgroup") else { return };
    assert!(home.log().contains("no control groups"), "{}", home.log());
    let output = home.client(&["trigger", "leaves", "--wait"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    gone("a stray after the end of its run", stray(&home, 1));
    assert!(server.stop().success());
}

#[test]
fn control_groups_of_version_1_do_as_well() {
    if !Path::new("/sys/fs/cgroup/freezer/cgroup.procs").exists() {
        eprintln!("passed over: no hierarchy of version 1 is mounted");
        return;
    }
    let home = home();
    let Some(server) = serve_without(&home, "umount /sys/fs/cgroup/unified 2>/dev/null || true") else {
        return;
    };
    assert!(home.log().contains("/sys/fs/cgroup/freezer"), "{}", home.log());
    trigger(&home, "calm");
    let calm = line(&home, "calm", 1);
    let output = home.client(&["trigger", "leaves", "--wait"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    gone("a stray after the end of its run", stray(&home, 1));
    assert!(is_alive(calm));
    trigger(&home, "stays");
    let second = stray(&home, 2);
    home.kill_executor();
    gone("a stray after kill -9 of its executor", second);
    gone("the other run after kill -9 of its executor", calm);
    assert!(server.stop().success());
}
