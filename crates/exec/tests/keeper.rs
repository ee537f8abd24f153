//! A killed server leaves nothing behind, without waiting for the next one.

mod rig;

use rig::holder::{self, hold_and_kill, pids};
use rig::{eventually, is_alive};

#[test]
#[ignore = "started by other tests"]
fn keeper_process() {
    holder::keep();
}

#[tokio::test]
#[ignore = "started by other tests"]
async fn holder_process() {
    holder::hold().await;
}

#[tokio::test]
async fn the_keeper_kills_the_trees_of_a_killed_server() {
    let dir = tempfile::tempdir().expect("a directory");
    hold_and_kill(dir.path(), true);
    for pid in pids(dir.path()) {
        eventually(&format!("{pid} gone without another server"), || !is_alive(&pid)).await;
    }
}
