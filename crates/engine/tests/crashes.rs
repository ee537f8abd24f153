//! kill -9 at every point of a run's life.

mod world;

use cadran_core::{Misfire, Overlap, RunStatus};
use world::*;

/// A small fleet with something of everything.
fn fleet() -> World {
    let mut world = World::new("2026-03-02T10:59:40Z");
    world.put("plain", "* * * * *", |_| {});
    world.put("once", "*/30 * * * * *", |job| job.policy.at_most_once = true);
    world.put("queue", "*/20 * * * * *", |job| {
        job.policy.overlap = Overlap::Wait;
        job.policy.misfire = Misfire::All;
        job.policy.catchup_window_ms = HOUR;
    });
    world.put("tries", "* * * * * | restart: 15 1/2 * * * *", |job| {
        retrying(job, 2, 3 * SEC);
        job.policy.overlap = Overlap::Replace;
    });
    world.takes("plain", 2 * SEC);
    world.takes("queue", 15 * SEC);
    world.takes("tries", SEC);
    world.exits("tries", &[1, 1, 0, 1, 1, 1]);
    world
}

fn live_through(world: &mut World) {
    world.run_to("2026-03-02T11:01:30Z");
    world.run_for(MIN);
}

#[test]
fn a_crash_at_every_effect_breaks_nothing() {
    let mut calm = fleet();
    live_through(&mut calm);
    let effects = calm.effects_seen;
    calm.check();
    assert!(effects > 50, "{effects}");
    for downtime in [0, 4 * SEC, 75 * SEC] {
        for after in 0..effects {
            let mut world = fleet();
            world.crash_after = Some((after, downtime));
            live_through(&mut world);
            world.check();
        }
    }
}

#[test]
fn crashes_in_a_row_give_a_run_up_in_the_end() {
    let mut world = World::new("2026-03-02T10:59:40Z");
    world.put("fatal", "0 * * * *", |_| {});
    world.hangs("fatal");
    world.run_to("2026-03-02T11:00:10Z");
    for _ in 0..3 {
        assert_eq!(world.story("fatal"), ["11:00 running"]);
        world.restart_after(SEC);
        world.run_for(SEC);
    }
    // Each time its attempt was lost; a step that takes its server down is not started for ever.
    assert_eq!(world.starts("fatal").len(), 3);
    assert_eq!(world.story("fatal"), ["11:00 lost"]);
    world.check();
}

#[test]
fn a_start_is_on_record_before_the_order_under_at_most_once() {
    let mut world = World::new("2026-03-02T10:59:40Z");
    world.put("pay", "0 * * * *", |job| job.policy.at_most_once = true);
    world.hangs("pay");
    world.run_to("2026-03-02T10:59:59.500Z");
    world.store(false);
    world.run_to("2026-03-02T11:00:04Z");
    assert_eq!(world.starts("pay").len(), 0, "the start is not durable yet");
    world.store(true);
    assert_eq!(world.starts("pay"), ["11:00"]);
    world.restart_after(SEC);
    world.run_for(MIN);
    // Lost is lost: it is not started again.
    assert_eq!((world.starts("pay").len(), &world.story("pay")[..]), (1, &["11:00 lost".to_owned()][..]));
    world.check();
}

#[test]
fn a_run_that_ended_unrecorded_is_taken_as_it_was_found() {
    let mut world = World::new("2026-03-02T10:59:40Z");
    world.put("backup", "0 * * * *", |_| {});
    world.takes("backup", SEC);
    world.run_to("2026-03-02T10:59:59.500Z");
    world.store(false);
    world.run_to("2026-03-02T11:00:05Z");
    world.restart_after(SEC);
    world.store(true);
    world.run_for(SEC);
    assert_eq!(world.starts("backup").len(), 1);
    assert_eq!(world.story("backup"), ["11:00 succeeded"]);
    world.check();
}

#[test]
fn a_recovered_run_is_on_record_as_running() {
    let mut world = World::new("2026-03-02T10:59:40Z");
    world.put("backup", "0 * * * *", |_| {});
    world.hangs("backup");
    world.run_to("2026-03-02T10:59:59.500Z");
    world.store(false);
    world.run_to("2026-03-02T11:00:05Z");
    world.restart_after(SEC);
    world.store(true);
    world.run_for(SEC);
    // The journal knew of the first attempt, the record did not.
    assert_eq!(world.starts("backup").len(), 2);
    assert_eq!(world.story("backup"), ["11:00 running"]);
    world.check();
}

#[test]
fn a_stop_outlives_the_server() {
    let mut world = World::new("2026-03-02T10:59:40Z");
    world.put("backup", "0 * * * *", |_| {});
    world.hangs("backup");
    world.manner("backup").deaf = true;
    world.run_to("2026-03-02T11:00:05Z");
    let run = world.runs("backup")[0];
    world.stop(run).unwrap();
    assert_eq!(world.status(run), RunStatus::Running);
    world.restart_after(SEC);
    world.run_for(SEC);
    assert_eq!((world.starts("backup").len(), world.status(run)), (1, RunStatus::Stopped));
    world.check();
}

#[test]
fn a_retry_outlives_the_server() {
    for committed in [false, true] {
        let mut world = World::new("2026-03-02T10:59:40Z");
        world.put("backup", "0 * * * *", |_| {});
        world.exits("backup", &[1]);
        world.run_to("2026-03-02T11:00:05Z");
        let run = world.runs("backup")[0];
        assert_eq!(world.status(run), RunStatus::Failed);
        world.hangs("backup");
        world.store(false);
        let token = world.command(cadran_core::Command::Retry { run });
        world.run_for(SEC);
        assert_eq!((world.starts("backup").len(), world.replies.get(&token)), (1, None));
        if committed {
            world.store(true);
            assert!(world.replies[&token].is_ok());
            assert_eq!(world.status(run), RunStatus::Running);
        }
        world.takes("backup", 0);
        world.restart_after(SEC);
        world.store(true);
        world.run_for(SEC);
        let expected = if committed { RunStatus::Succeeded } else { RunStatus::Failed };
        assert_eq!(world.status(run), expected, "committed: {committed}");
        world.check();
    }
}

#[test]
fn the_same_script_has_the_same_effects() {
    let run = || {
        let mut world = fleet();
        world.transcribes = true;
        for no in 0..40 {
            world.put(&format!("extra-{no}"), "*/10 * * * * *", |job| job.policy.overlap = Overlap::Latest);
            world.takes(&format!("extra-{no}"), 7 * SEC + no);
        }
        live_through(&mut world);
        world.remove("extra-3");
        world.restart_after(90 * SEC);
        live_through_more(&mut world);
        world.transcript
    };
    let (one, two) = (run(), run());
    assert!(one.len() > 500);
    for (a, b) in one.iter().zip(&two) {
        assert_eq!(a, b);
    }
    assert_eq!(one.len(), two.len());
}

fn live_through_more(world: &mut World) {
    world.pause("plain");
    world.run_for(MIN);
    world.resume("plain");
    world.run_for(2 * MIN);
}

#[test]
fn a_definition_that_cannot_be_read_keeps_its_name_and_number() {
    let mut world = World::new("2026-03-02T10:59:40Z");
    world.put("lost", "0 * * * *", |_| {});
    world.hangs("lost");
    world.run_to("2026-03-02T11:00:10Z");
    let run = world.runs("lost")[0];
    let id = world.id("lost");
    world.unreadable.insert("lost".into());
    world.restart_after(SEC);
    // Nothing is open for ever, and a new job gets a number of its own.
    assert_eq!(world.status(run), RunStatus::Lost);
    world.put("other", "0 * * * *", |_| {});
    assert_ne!(world.id("other"), id);
    world.unreadable.clear();
    world.put("lost", "0 * * * *", |_| {});
    assert_eq!((world.id("lost"), world.record.jobs[&id].0.revision), (id, 2));
    world.finish("lost");
    world.settle();
    assert_eq!(world.engine.active_and_waiting(), (0, 0));
}
