//! The 21 edge cases of a planner that watches job files, one test each, with our answer where it is not the obvious.

mod world;

use world::*;

#[test]
fn edge_01_new_job_with_catchup_window() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("backup", "0 * * * *", |job| {
        job.policy.misfire = cadran_core::Misfire::All;
        job.policy.catchup_window_ms = 6 * HOUR;
    });
    world.run_to("2026-03-02T12:30Z");
    assert_eq!(world.starts("backup"), ["11:00", "12:00"]);
    world.restart_after(2 * HOUR);
    world.run_for(MIN);
    assert_eq!(world.story("backup"), [
        "11:00 succeeded", "12:00 succeeded", "13:00 catch_up succeeded", "14:00 catch_up succeeded"
    ]);
    world.check();
}
