//! Clocks that jump and freeze, loops that stall, stores that go away.

mod world;

use cadran_core::{Job, Misfire, RunStatus};
use world::*;

fn limit(millis: cadran_core::Millis) -> impl FnOnce(&mut Job) {
    move |job| {
        let mut body = (*job.body).clone();
        body.timeout_ms = Some(millis);
        job.body = body.into();
    }
}

#[test]
fn a_clock_that_steps_forward_misses_what_it_jumped_over() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("once", "*/10 * * * *", |_| {});
    world.put("skip", "*/10 * * * *", |job| job.policy.misfire = Misfire::Skip);
    world.run_to("2026-03-02T10:35Z");
    world.step_clock(HOUR);
    world.run_to("2026-03-02T11:45Z");
    assert_eq!(
        world.story("once"),
        ["10:40..11:20 x5 superseded", "11:30 catch_up succeeded", "11:40 succeeded"]
    );
    assert_eq!(world.story("skip"), ["10:40..11:30 x6 missed", "11:40 succeeded"]);
    world.step_clock(DAY);
    world.run_for(MIN);
    assert_eq!(world.story("skip")[2..], ["11:50..+1 11:40 x144 missed"]);
    world.check();
}

#[test]
fn a_clock_that_steps_back_runs_nothing_twice() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("tick", "*/10 * * * * | stop: 5 * * * *", |_| {});
    world.run_to("2026-03-02T11:55Z");
    world.step_clock(-HOUR);
    world.run_to("2026-03-02T12:15Z");
    let starts = world.starts("tick");
    let mut once = starts.clone();
    once.dedup();
    assert_eq!(starts, once);
    assert_eq!(starts.last().unwrap(), "12:10");
    // A restart in the repeated hour changes nothing of that.
    world.step_clock(-HOUR);
    world.run_for(MIN);
    world.restart_after(SEC);
    world.run_to("2026-03-02T12:45Z");
    assert_eq!(world.starts("tick")[starts.len()..], ["12:20", "12:30", "12:40"]);
    world.check();
}

#[test]
fn a_job_added_after_a_step_back_runs_at_once() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("old", "*/10 * * * *", |_| {});
    world.run_to("2026-03-02T11:55Z");
    world.step_clock(-HOUR);
    world.run_for(SEC);
    world.put("new", "*/10 * * * *", |_| {});
    world.run_to("2026-03-02T11:15Z");
    assert_eq!(world.starts("new"), ["11:00", "11:10"]);
    world.check();
}

#[test]
fn a_frozen_clock_delays_and_loses_nothing() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("tick", "* * * * *", |_| {});
    world.run_to("2026-03-02T10:30:58.500Z");
    for _ in 0..600 {
        world.now.mono += SEC;
        world.handle(cadran_engine::Event::Time);
    }
    assert_eq!(world.starts("tick").len(), 0);
    world.run_to("2026-03-02T10:32:30Z");
    assert_eq!(world.starts("tick"), ["10:31", "10:32"]);
    world.check();
}

#[test]
fn a_time_limit_is_counted_on_the_monotonic_clock() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("work", "", limit(MIN));
    world.hangs("work");
    let run = world.trigger("work");
    world.step_clock(HOUR);
    world.run_for(59 * SEC);
    assert_eq!(world.status(run), RunStatus::Running, "a stepped clock kills no healthy run");
    world.step_clock(-2 * HOUR);
    world.run_for(SEC);
    assert_eq!(world.status(run), RunStatus::Failed, "nor does it keep a sick one alive");
    world.check();
}

#[test]
fn the_limit_of_a_run_goes_on_while_the_server_is_away() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("work", "", limit(10 * MIN));
    world.hangs("work");
    let run = world.trigger("work");
    world.run_for(6 * MIN);
    world.restart_after(3 * MIN);
    world.run_for(58 * SEC);
    assert_eq!(world.status(run), RunStatus::Running);
    world.run_for(3 * SEC);
    assert_eq!(world.status(run), RunStatus::Failed, "nine minutes were spent before");
    // Who retries it gives it all of its time again.
    world.retry(run).unwrap();
    world.run_for(9 * MIN);
    assert_eq!(world.status(run), RunStatus::Running);
    world.restart_after(SEC);
    world.run_for(58 * SEC);
    assert_eq!(world.status(run), RunStatus::Running);
    world.run_for(2 * SEC);
    assert_eq!(world.status(run), RunStatus::Failed);
    world.check();
}

#[test]
fn limits_of_runs_that_ended_are_forgotten() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("work", "", limit(DAY));
    for _ in 0..100 {
        world.trigger("work");
        world.run_for(10);
    }
    assert_eq!(world.engine.wake().mono, None);
    world.check();
}

#[test]
fn a_wait_for_a_retry_of_an_earlier_opening_is_not_taken_for_the_present_one() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("work", "", |job| retrying(job, 3, MIN));
    world.exits("work", &[1, 1]);
    let run = world.trigger("work");
    world.run_for(30 * SEC);
    world.stop(run).unwrap();
    world.retry(run).unwrap();
    world.run_for(59 * SEC);
    assert_eq!(world.starts("work").len(), 2, "the new wait is a whole one");
    world.run_for(2 * SEC);
    assert_eq!(world.status(run), RunStatus::Succeeded);
    world.check();
}

#[test]
fn dues_between_seconds_fire_at_their_millisecond() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("beat", "every 250ms", |_| {});
    world.run_to("2026-03-02T10:30:10Z");
    let started = world.started_at("beat");
    assert_eq!(started.len(), 40);
    assert_eq!(started, world.starts("beat"));
    assert_eq!(started[..3], ["10:30:00.250", "10:30:00.500", "10:30:00.750"]);
    world.check();
}

#[test]
fn a_loop_that_stalls_judges_by_lateness_when_it_is_back() {
    for (misfire, expected) in [
        (
            Misfire::Skip,
            ["10:30:10..10:30:20 x2 missed", "10:30:30 succeeded", "10:30:40 succeeded"].as_slice(),
        ),
        (
            Misfire::Once,
            [
                "10:30:10 x1 superseded",
                "10:30:20 catch_up succeeded",
                "10:30:30 skipped overlap",
                "10:30:40 succeeded",
            ]
            .as_slice(),
        ),
    ] {
        let mut world = World::new("2026-03-02T10:30:01Z");
        world.put("tick", "*/10 * * * * *", |job| job.policy.misfire = misfire);
        world.run_for(SEC);
        world.takes("tick", 1);
        world.stall(31 * SEC);
        world.run_for(10 * SEC);
        assert_eq!(world.story("tick"), expected, "{misfire:?}");
        world.check();
    }
}

#[test]
fn a_store_that_is_away_for_a_minute() {
    let mut world = World::new("2026-03-02T10:30:01Z");
    world.put("tick", "*/10 * * * * *", |job| job.policy.misfire = Misfire::Skip);
    world.put("all", "*/10 * * * * *", |job| {
        job.policy.misfire = Misfire::All;
        job.policy.catchup_window_ms = HOUR;
    });
    world.run_to("2026-03-02T10:30:16Z");
    world.store(false);
    world.run_to("2026-03-02T10:31:18Z");
    // What was promised before fires in time. What became due meanwhile waits: nothing starts that a crash could
    // forget.
    assert_eq!(world.starts("tick"), ["10:30:10", "10:30:20"]);
    world.store(true);
    world.run_to("2026-03-02T10:31:35Z");
    // Everything is judged by lateness, also the one plan that was on its way.
    assert_eq!(
        world.story("tick")[2..6],
        ["10:30:30 skipped missed", "10:30:40..10:31 x3 missed", "10:31:10 succeeded", "10:31:20 succeeded"]
    );
    assert_eq!(world.starts("all").len(), 9);
    world.check();
}

#[test]
fn what_leaves_the_ring_too_late_is_judged_too() {
    // 10:30:10 is promised and durable when the loop stalls.
    let check = |misfire, expected: &[&str]| {
        let mut world = World::new("2026-03-02T10:30:01Z");
        world.put("tick", "*/10 * * * * * | restart: 11 30 * * * * | stop: 12 30 * * * *", |job| {
            job.policy.misfire = misfire;
            job.policy.catchup_window_ms = HOUR;
        });
        world.run_to("2026-03-02T10:30:08Z");
        assert_eq!(world.record.runs.len(), 2);
        world.takes("tick", 1);
        world.stall(17 * SEC);
        world.run_for(3 * SEC);
        assert_eq!(world.story("tick"), expected, "{misfire:?}");
        world.check();
    };
    let restart = "10:30:11 restart skipped missed";
    check(Misfire::Skip, &["10:30:10 skipped missed", restart, "10:30:20 succeeded", "10:30:30 promised"]);
    check(Misfire::Once, &["10:30:10 succeeded", restart, "10:30:20 skipped overlap", "10:30:30 promised"]);
    // What is due while missed dues are replayed joins their end.
    check(Misfire::All, &["10:30:10 succeeded", restart, "10:30:20 succeeded", "10:30:30 promised"]);
}
