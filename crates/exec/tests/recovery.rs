//! What is left of a killed server: no processes, and an answer for every attempt.

mod rig;

use std::ffi::OsString;
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use cadran_core::{Order, Outcome, ReportKind, RunId, Step, StepNo};
use rig::{Rig, body, eventually, is_alive, shell, start};

const DIR: &str = "HOLDER_DIR";
const KEEPER: &str = "HOLDER_KEEPER";

/// Runs another test of this file as a program.
fn this_program(test: &str) -> Vec<OsString> {
    let me = std::env::current_exe().expect("a path");
    [me.into_os_string()]
        .into_iter()
        .chain([test, "--exact", "--ignored", "--nocapture", "-q"].map(OsString::from))
        .collect()
}

#[test]
#[ignore = "started by other tests"]
fn keeper_process() {
    if !std::io::stdin().is_terminal() {
        cadran_exec::keeper_main(std::io::stdin());
    }
}

/// A server: runs what the tests below ask about, until it is killed.
#[tokio::test]
#[ignore = "started by other tests"]
async fn holder_process() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let keeper = std::env::var_os(KEEPER).map(|_| this_program("keeper_process"));
    let mut rig = Rig::at(Path::new(&dir), |options| options.keeper = keeper).await;
    let tree = "echo $$ >>pids; sleep 1000 & echo $! >>pids; \
                (setsid sh -c 'echo $$ >>pids; exec sleep 1000' &); trap '' TERM HUP; while :; do sleep 0.1; done";
    let output = Step { output: Some("OUT".into()), ..shell("echo value") };
    rig.local.submit(vec![
        Order::Start(start(1, 0, 1, body(shell(tree)))),
        Order::Start(start(2, 0, 1, body(output))),
        Order::Start(start(3, 0, 1, body(shell("exit 3")))),
        Order::Start(start(4, 0, 2, body(shell("echo $$ >>pids; env -i /bin/sleep 1000")))),
    ]);
    for (run, attempt) in [(1, 1), (4, 2)] {
        rig.started(run, 0, attempt).await;
    }
    for run in [2, 3] {
        rig.ended(run, 0, 1).await;
    }
    rig.local.submit(vec![Order::Close { run: RunId::from_raw(3) }]);
    rig.lines("pids", 4).await;
    println!("\nready");
    std::future::pending::<()>().await;
}

/// Starts a holder, waits until it is ready, and kills it hard.
fn hold_and_kill(dir: &Path, with_keeper: bool) {
    let program = this_program("holder_process");
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]).env(DIR, dir).stdout(Stdio::piped());
    if with_keeper {
        command.env(KEEPER, "1");
    }
    let mut holder: Child = command.spawn().expect("started");
    let lines = BufReader::new(holder.stdout.take().expect("piped")).lines();
    let is_ready = lines.map_while(Result::ok).any(|line| line == "ready");
    assert!(is_ready, "the holder ended early: {:?}", holder.wait());
    holder.kill().expect("killed");
    holder.wait().expect("waited");
}

fn pids(dir: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(dir.join("pids")).expect("there");
    text.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn the_next_life_knows_every_attempt_and_kills_what_is_left() {
    let dir = tempfile::tempdir().expect("a directory");
    hold_and_kill(dir.path(), false);
    let pids = pids(dir.path());
    assert!(pids.iter().any(|pid| is_alive(pid)), "without a keeper they live on");
    // Half a line, as a crash in the middle of a write leaves it.
    let journal = dir.path().join("exec/journal");
    let mut text = std::fs::read(&journal).expect("there");
    text.extend(b"E 0000000000001 0 1 77 exit");
    std::fs::write(&journal, text).expect("written");

    let mut rig = Rig::at(dir.path(), |_| {}).await;
    for pid in &pids {
        assert!(!is_alive(pid), "{pid} is gone when the executor is open");
    }
    let found: Vec<_> = rig
        .found
        .iter()
        .map(|f| (f.run.raw(), f.step.0, f.attempt, f.started_at, f.ended.clone(), f.output.as_deref()))
        .collect();
    let exited = Some((1_000, Outcome::Exited(0)));
    assert_eq!(
        found,
        [(1, 0, 1, 1_000, None, None), (2, 0, 1, 1_000, exited, Some("value")), (4, 0, 2, 1_000, None, None)]
    );
    // What was started in the previous life is not started again, a higher attempt is.
    rig.local.submit(vec![
        Order::Start(start(1, 0, 1, body(shell("echo again >>times")))),
        Order::Start(start(1, 0, 2, body(shell("echo next >>times")))),
    ]);
    assert_eq!(rig.ended(1, 0, 2).await.0, Outcome::Exited(0));
    assert_eq!(rig.lines("times", 1).await, ["next"]);
    let runs = [1, 2, 4].map(|run| Order::Close { run: RunId::from_raw(run) });
    rig.local.submit(runs.to_vec());
    rig.shell(5, "true").await;
    rig.local.drain(rig::PATIENCE).await;
    drop(rig);
    let rig = Rig::at(dir.path(), |_| {}).await;
    assert_eq!(rig.found.iter().map(|f| f.run.raw()).collect::<Vec<_>>(), [5], "closed runs are forgotten");
}

#[tokio::test]
async fn the_keeper_kills_the_trees_of_a_killed_server() {
    let dir = tempfile::tempdir().expect("a directory");
    hold_and_kill(dir.path(), true);
    for pid in pids(dir.path()) {
        eventually(&format!("{pid} gone without another server"), || !is_alive(&pid)).await;
    }
}

#[tokio::test]
async fn a_dismissed_keeper_ends_and_a_killed_one_is_replaced() {
    let mut rig = Rig::with(|options| options.keeper = Some(this_program("keeper_process"))).await;
    let keepers = || {
        let me = std::process::id().to_string();
        let children = std::fs::read_dir("/proc").expect("there").flatten().filter_map(|entry| {
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.to_owned();
            let line = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
            (parent == me && line.contains("keeper_process")).then(|| entry.file_name().into_string().ok())?
        });
        children.collect::<Vec<_>>()
    };
    let first = keepers();
    assert_eq!(first.len(), 1);
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(first[0].parse().expect("a number")),
        nix::sys::signal::Signal::SIGKILL,
    )
    .expect("killed");
    eventually("the keeper is dead", || !is_alive(&first[0])).await;
    // The next start tells the keeper, and notices.
    rig.start(1, body(shell("sleep 1000")));
    rig.started(1, 0, 1).await;
    eventually("another keeper", || keepers().iter().any(|pid| *pid != first[0])).await;
    rig.local.drain(rig::PATIENCE).await;
    eventually("no keeper", || keepers().is_empty()).await;
    let is_stopped = |kind: &ReportKind| matches!(kind, ReportKind::Ended { outcome: Outcome::Stopped, .. });
    assert!(rig.all_reports().iter().any(|report| report.step == StepNo(0) && is_stopped(&report.kind)));
}

#[tokio::test]
async fn a_data_directory_has_one_server() {
    let dir = tempfile::tempdir().expect("a directory");
    let _first = Rig::at(dir.path(), |_| {}).await;
    let options = cadran_exec::LocalOptions::new(dir.path());
    let second = cadran_exec::Local::open(options, || 0, std::sync::Arc::new(|_| {})).await;
    assert!(matches!(second, Err(cadran_exec::ExecError::InUse(_))));
}
