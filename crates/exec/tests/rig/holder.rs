//! A server in a process of its own, to be killed. A test program that uses it has the two ignored tests
//! `holder_process` and `keeper_process`, which call [`hold`] and [`keep`].
//!
//! Such a program opens no executor before the kill: as a subreaper it would adopt, and sweep away, what the killed
//! server leaves.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use cadran_core::{Order, RunId, Step};

use super::{Rig, body, eventually, shell, start};

const DIR: &str = "HOLDER_DIR";
const KEEPER: &str = "HOLDER_KEEPER";

/// Runs another test of this file's program as a program.
pub fn this_program(test: &str) -> Vec<OsString> {
    let me = std::env::current_exe().expect("a path");
    [me.into_os_string()]
        .into_iter()
        .chain([test, "--exact", "--ignored", "--nocapture", "-q"].map(OsString::from))
        .collect()
}

pub fn keep() {
    if !std::io::stdin().is_terminal() {
        cadran_exec::keeper_main(std::io::stdin());
    }
}

/// A server: runs what the tests below ask about, until it is killed.
pub async fn hold() {
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
    let journal = rig.dir.join("exec/journal");
    let is_closed = || std::fs::read_to_string(&journal).is_ok_and(|text| text.contains(" C "));
    eventually("the run is closed", is_closed).await;
    rig.lines("pids", 4).await;
    println!("\nready");
    std::future::pending::<()>().await;
}

/// Starts a holder, waits until it is ready, and kills it hard.
pub fn hold_and_kill(dir: &Path, with_keeper: bool) {
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

pub fn pids(dir: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(dir.join("pids")).expect("there");
    text.lines().map(str::to_owned).collect()
}
