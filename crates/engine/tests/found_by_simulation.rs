//! What the simulation found once, as short as it can be told.

mod world;

use cadran_core::{Command, Overlap, Refusal};
use world::*;

#[test]
fn a_retry_is_refused_while_the_end_of_its_run_is_on_its_way_to_the_store() {
    let mut world = World::new("2026-03-01T00:00:30Z");
    world.put("a", "* * * * *", |job| job.policy.overlap = Overlap::Wait);
    world.hangs("a");
    world.run_to("2026-03-01T00:02:10Z");
    let waits = world.runs("a")[1];
    world.store(false);
    world.command(Command::Pause { job: "a".parse().unwrap() });
    // The row still says that the run waits; the skip that ended it is not durable yet.
    let token = world.command(Command::Retry { run: waits });
    world.store(true);
    assert!(matches!(world.replies[&token], Err(Refusal::NotRetryable(..))), "{:?}", world.replies[&token]);
    world.check();
}

#[test]
fn a_run_that_was_replaced_does_not_come_back_beside_its_successor() {
    let mut world = World::new("2026-03-01T00:00:30Z");
    world.put("a", "* * * * *", |job| job.policy.overlap = Overlap::Replace);
    world.hangs("a");
    world.run_to("2026-03-01T00:01:58Z");
    // The second run is promised. The store goes away, the first run is stopped for it, it starts, and the server is
    // killed before any of that is durable.
    world.store(false);
    world.run_to("2026-03-01T00:02:05Z");
    assert_eq!(world.starts("a"), ["00:01", "00:02"]);
    world.restart_after(0);
    world.store(true);
    world.run_for(5 * SEC);
    assert_eq!(world.story("a")[0], "00:01 stopped");
    world.check();
}
