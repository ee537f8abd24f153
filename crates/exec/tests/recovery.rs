//! What a server finds after the one before it was killed: no processes, and an answer for every attempt.

mod rig;

use cadran_core::{Order, Outcome, RunId};
use rig::holder::{self, hold_and_kill, pids};
use rig::{Rig, body, is_alive, shell, start};

#[tokio::test]
#[ignore = "started by other tests"]
async fn holder_process() {
    holder::hold().await;
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
