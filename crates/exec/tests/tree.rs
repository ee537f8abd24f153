//! Time limits and stops, and that nothing of an attempt outlives it.

mod rig;

use std::time::Duration;

use cadran_core::{Order, Outcome, ReportKind, RunId, Step, StepNo};
use rig::holder::{self, this_program};
use rig::{Rig, body, eventually, is_alive, shell, start};

fn stop(run: u64) -> Order {
    Order::Stop { run: RunId::from_raw(run), step: StepNo(0), attempt: 1 }
}

/// A grace that ends soon, for trees that do not use it.
async fn short() -> Rig {
    Rig::with(|options| {
        options.grace = Duration::from_millis(200);
        options.linger = Duration::from_millis(200);
    })
    .await
}

/// A grace longer than any test: what ends under it ended by itself.
async fn patient() -> Rig {
    Rig::with(|options| options.grace = 10 * rig::PATIENCE).await
}

async fn all_gone(pids: &[String]) {
    assert!(!pids.is_empty());
    for pid in pids {
        eventually(&format!("{pid} gone"), || !is_alive(pid)).await;
    }
}

#[tokio::test]
async fn a_time_limit_ends_an_attempt() {
    let mut rig = short().await;
    for (run, text) in
        [(1, "echo $$ >>pids; sleep 1000"), (2, "trap '' TERM; echo $$ >>pids; sleep 1000 & wait; wait")]
    {
        let step = Step { timeout_ms: Some(300), ..shell(text) };
        assert_eq!(rig.run(run, body(step)).await.0, Outcome::TimedOut);
        assert!(rig.log(run).contains("cadran: the time limit is over"), "{}", rig.log(run));
    }
    all_gone(&rig.lines("pids", 2).await).await;
    let quick = Step { timeout_ms: Some(600_000), ..shell("exit 5") };
    assert_eq!(rig.run(3, body(quick)).await.0, Outcome::Exited(5));
}

#[tokio::test]
async fn a_stop_is_a_signal_first() {
    let mut rig = patient().await;
    // (signal_on_stop, what the step traps)
    for (run, (signal, name)) in
        (1..).zip([(None, "TERM"), (Some(2), "INT"), (Some(10), "USR1"), (Some(99), "TERM")])
    {
        let text = format!(
            "trap 'echo got {name}; exit 0' {name}; echo ready >>ready; while :; do sleep 0.01; done"
        );
        rig.start(run, body(Step { signal_on_stop: signal, ..shell(&text) }));
        rig.lines("ready", run as usize).await;
        rig.local.submit(vec![stop(run)]);
        assert_eq!(rig.ended(run, 0, 1).await.0, Outcome::Stopped);
        assert!(rig.log(run).contains(&format!("got {name}\n")), "{}", rig.log(run));
    }
}

#[tokio::test]
async fn a_step_that_ignores_term_is_killed_with_its_children() {
    let mut rig = short().await;
    let text = "trap '' TERM; (trap '' TERM; echo $$ >>pids; exec sleep 1000) & echo $$ >>pids; sh -c 'echo $$ >>pids; \
                trap \"\" TERM; sleep 1000' & wait; wait; wait";
    rig.start(1, body(shell(text)));
    let pids = rig.lines("pids", 3).await;
    rig.local.submit(vec![stop(1)]);
    assert_eq!(rig.ended(1, 0, 1).await.0, Outcome::Stopped);
    all_gone(&pids).await;
}

#[tokio::test]
async fn a_detached_tree_goes_with_a_stop() {
    let mut rig = short().await;
    let detach =
        "setsid sh -c 'echo $$ >>pids; (setsid sh -c \"echo \\$\\$ >>pids; sleep 1000\" &) ; sleep 1000' &";
    rig.start(1, body(shell(&format!("{detach} echo $$ >>pids; wait"))));
    let pids = rig.lines("pids", 3).await;
    rig.local.submit(vec![stop(1)]);
    assert_eq!(rig.ended(1, 0, 1).await.0, Outcome::Stopped);
    all_gone(&pids).await;
}

#[tokio::test]
async fn what_detached_itself_goes_with_the_end() {
    let mut rig = short().await;
    // (how it leaves, how many processes it says it is)
    let rows = [
        "(setsid sh -c 'echo $$ >>pids; exec sleep 1000' >/dev/null 2>&1 &)",
        "(setsid sh -c 'echo $$ >>pids; exec sleep 1000' &)",
        "nohup sh -c 'echo $$ >>pids; exec sleep 1000' >/dev/null 2>&1 &",
        "sh -c 'echo $$ >>pids; exec sleep 1000' &",
        "(setsid env -i sh -c 'echo $$ >>pids; exec /bin/sleep 1000' >/dev/null 2>&1 &)",
        "(setsid env -i sh -c 'trap \"\" TERM HUP; echo $$ >>pids; while :; do sleep 1; done' &)",
    ];
    for (run, text) in (1..).zip(rows) {
        // The step lives until the other has said who it is.
        let text = format!(
            "{text}\nuntil [ $(cat pids 2>/dev/null | wc -l) -ge {run} ]; do sleep 0.01; done; exit 3"
        );
        assert_eq!(rig.shell(run, &text).await, Outcome::Exited(3), "{text}");
        let pids = rig.lines("pids", run as usize).await;
        all_gone(&pids).await;
    }
}

#[tokio::test]
async fn a_thousand_children_go() {
    let mut rig = short().await;
    let text = "n=0; while [ $n -lt 1000 ]; do sleep 1000 & n=$((n+1)); done; echo $! >>last; \
                setsid sleep 1001 & echo $! >>last; wait";
    rig.start(1, body(shell(text)));
    let last = rig.lines("last", 2).await;
    let log = format!("CADRAN_LOG={}", rig.dir.display());
    let marked = || {
        let processes = std::fs::read_dir("/proc").expect("there").flatten();
        let run = format!("CADRAN_RUN_ID={}\0", RunId::from_raw(1));
        let is_ours = |environ: Vec<u8>| {
            let environ = String::from_utf8_lossy(&environ).into_owned();
            environ.contains(&run) && environ.contains(&log)
        };
        processes.filter(|p| std::fs::read(p.path().join("environ")).is_ok_and(is_ours)).count()
    };
    assert!(marked() > 1000, "they are all there: {}", marked());
    rig.local.submit(vec![stop(1)]);
    assert_eq!(rig.ended(1, 0, 1).await.0, Outcome::Stopped);
    all_gone(&last).await;
    eventually("no process of the run", || marked() == 0).await;
}

#[tokio::test]
async fn zombies_that_come_to_us_are_reaped() {
    let mut rig = short().await;
    let text = "for n in 1 2 3 4 5; do (setsid sh -c 'echo $$ >>pids; sleep 0.1' >/dev/null 2>&1 &); done; \
                until [ $(cat pids 2>/dev/null | wc -l) -ge 5 ]; do sleep 0.01; done";
    assert_eq!(rig.shell(1, text).await, Outcome::Exited(0));
    for pid in rig.lines("pids", 5).await {
        eventually("not even a zombie", || !std::path::Path::new(&format!("/proc/{pid}")).exists()).await;
    }
}

#[tokio::test]
async fn another_attempt_keeps_its_detached_processes() {
    let mut rig = short().await;
    rig.start(
        1,
        body(shell("(setsid sh -c 'echo $$ >>pids; exec sleep 1000' >/dev/null 2>&1 &); sleep 1000")),
    );
    let pids = rig.lines("pids", 1).await;
    for run in 2..5 {
        let text = format!(
            "(setsid sh -c 'echo $$ >>others; exec sleep 1000' >/dev/null 2>&1 &); \
             until [ $(cat others 2>/dev/null | wc -l) -ge {} ]; do sleep 0.01; done",
            run - 1
        );
        assert_eq!(rig.shell(run, &text).await, Outcome::Exited(0));
    }
    all_gone(&rig.lines("others", 3).await).await;
    assert!(is_alive(&pids[0]), "the sweeps that took the others left it alone");
    rig.local.submit(vec![stop(1)]);
    rig.ended(1, 0, 1).await;
    all_gone(&pids).await;
}

#[tokio::test]
async fn a_stop_reaches_those_in_line_and_in_preconditions() {
    let mut rig = Rig::with(|options| options.live_max = 1).await;
    let slow = cadran_core::Precondition {
        condition: "echo $$ >>pids; sleep 1000".into(),
        expected: None,
        negate: false,
    };
    rig.start(1, body(Step { preconditions: vec![slow], ..shell("true") }));
    let pids = rig.lines("pids", 1).await;
    rig.start(2, body(shell("true")));
    rig.local.submit(vec![stop(2)]);
    assert_eq!(rig.ended(2, 0, 1).await.0, Outcome::Stopped);
    rig.local.submit(vec![stop(1), stop(77)]);
    assert_eq!(rig.ended(1, 0, 1).await.0, Outcome::Stopped);
    all_gone(&pids).await;
}

#[tokio::test]
async fn a_drain_ends_everything_and_says_so() {
    let mut rig = short().await;
    let deaf = "trap '' TERM; echo $$ >>pids; while :; do sleep 0.1; done";
    let starts = [
        deaf,
        "echo $$ >>pids; exec sleep 1000",
        "(setsid sh -c 'echo $$ >>pids; exec sleep 1000' &); sleep 1000",
    ];
    rig.local.submit(
        (1..).zip(starts).map(|(run, text)| Order::Start(start(run, 0, 1, body(shell(text))))).collect(),
    );
    let pids = rig.lines("pids", 3).await;
    rig.local.drain(rig::PATIENCE).await;
    assert_eq!(rig.local.live(), 0);
    let ends = rig.all_reports().iter().filter(
        |r| matches!(&r.kind, cadran_core::ReportKind::Ended { outcome, .. } if *outcome == Outcome::Stopped),
    );
    assert_eq!(ends.count(), 3, "all reports are there when the drain returns");
    all_gone(&pids).await;
    rig.start(9, body(shell("true")));
    rig.local.drain(Duration::ZERO).await;
    assert!(rig.all_reports().iter().all(|report| report.run.raw() != 9), "no start after a drain");
}

#[tokio::test]
async fn a_drain_of_hundreds_takes_few_looks() {
    let mut rig = patient().await;
    let text = "trap 'exit 0' TERM; echo $$ >>pids; while :; do sleep 0.2; done";
    rig.local.submit((1..=200).map(|run| Order::Start(start(run, 0, 1, body(shell(text))))).collect());
    let pids = rig.lines("pids", 200).await;
    rig.local.drain(rig::PATIENCE).await;
    let is_stopped = |kind: &ReportKind| matches!(kind, ReportKind::Ended { outcome: Outcome::Stopped, .. });
    assert_eq!(rig.all_reports().iter().filter(|report| is_stopped(&report.kind)).count(), 200);
    all_gone(&pids).await;
}

#[tokio::test]
async fn an_impatient_drain_kills() {
    let mut rig = patient().await;
    rig.start(1, body(shell("trap '' TERM; echo $$ >>pids; while :; do sleep 0.1; done")));
    let pids = rig.lines("pids", 1).await;
    rig.local.drain(Duration::from_millis(100)).await;
    assert_eq!(rig.ended(1, 0, 1).await.0, Outcome::Stopped);
    all_gone(&pids).await;
}

#[tokio::test]
async fn a_dropped_executor_leaves_nothing() {
    let rig = patient().await;
    rig.start(
        1,
        body(shell("echo $$ >>pids; (setsid sh -c 'echo $$ >>pids; exec sleep 1000' &); sleep 1000")),
    );
    let pids = rig.lines("pids", 2).await;
    let Rig { local, .. } = rig;
    drop(local);
    all_gone(&pids).await;
}

#[test]
#[ignore = "started by other tests"]
fn keeper_process() {
    holder::keep();
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
