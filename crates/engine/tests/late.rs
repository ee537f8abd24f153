//! On time, direct, missed, caught up.

mod world;

use cadran_core::{Job, Millis, Misfire, Overlap};
use world::*;

fn policy(misfire: Misfire, window_ms: Millis, overlap: Overlap) -> impl FnOnce(&mut Job) {
    move |job| {
        job.policy.misfire = misfire;
        job.policy.catchup_window_ms = window_ms;
        job.policy.overlap = overlap;
    }
}

#[test]
fn lateness_has_two_borders() {
    // The server is down around the due of 11:00 and back so many milliseconds after it.
    let check = |late: Millis, expected: &str| {
        let mut world = World::new("2026-03-02T10:59:00Z");
        world.put("tick", "0 * * * *", |job| job.policy.misfire = Misfire::Skip);
        world.run_for(SEC);
        world.restart_after(59 * SEC + late);
        world.run_for(SEC);
        assert_eq!(world.story("tick"), [expected], "{late}");
        world.check();
    };
    check(0, "11:00 succeeded");
    check(5_000, "11:00 succeeded");
    check(5_001, "11:00 succeeded");
    check(10_000, "11:00 succeeded");
    check(10_001, "11:00 x1 missed");
}

#[test]
fn promised_runs_are_judged_again_by_lateness() {
    // Promised before the crash, never started.
    let check = |misfire, late: Millis, expected: &[&str]| {
        let mut world = World::new("2026-03-02T10:59:00Z");
        world.put("tick", "0 * * * * *", policy(misfire, 2 * MIN, Overlap::Skip));
        world.run_to("2026-03-02T10:59:58Z");
        world.restart_after(2 * SEC + late);
        world.run_for(SEC);
        assert_eq!(world.story("tick"), expected, "{misfire:?} {late}");
        world.check();
    };
    check(Misfire::Skip, 10_000, &["11:00 succeeded"]);
    check(Misfire::Skip, 10_001, &["11:00 skipped missed"]);
    check(Misfire::Once, 10_001, &["11:00 succeeded"]);
    check(Misfire::Once, 70_001, &["11:00 skipped superseded", "11:01 catch_up succeeded"]);
    check(Misfire::All, 70_001, &["11:00 succeeded", "11:01 catch_up succeeded"]);
    check(
        Misfire::All,
        120_000,
        &["11:00 skipped outside_window", "11:01 catch_up succeeded", "11:02 succeeded"],
    );
}

#[test]
fn a_promised_catch_up_run_is_superseded_by_a_newer_missed_due() {
    let mut world = World::new("2026-03-02T10:59:30Z");
    world.put("tick", "0 * * * *", |_| {});
    world.run_for(SEC);
    world.crash();
    // The catch-up run for 11:00 is promised, and the server is gone before it starts.
    world.crash_after = None;
    world.restart_after(HOUR);
    world.crash_after = Some((0, HOUR));
    world.run_for(MIN);
    world.run_for(SEC);
    assert_eq!(world.story("tick"), ["11:00 catch_up skipped superseded", "12:00 catch_up succeeded"]);
    world.check();
}

#[test]
fn each_misfire_policy_has_its_answer() {
    let check = |misfire, window, overlap, expected: &[&str]| {
        let mut world = World::new("2026-03-02T10:30Z");
        world.put("tick", "0 * * * *", policy(misfire, window, overlap));
        world.run_for(MIN);
        world.restart_after(5 * HOUR);
        world.run_for(5 * MIN);
        assert_eq!(world.story("tick"), expected, "{misfire:?} {window} {overlap:?}");
        world.check();
    };
    let once = ["11:00..14:00 x4 superseded", "15:00 catch_up succeeded"];
    check(Misfire::Skip, DAY, Overlap::Skip, &["11:00..15:00 x5 missed"]);
    check(Misfire::Once, 0, Overlap::Skip, &once);
    check(Misfire::All, 0, Overlap::Skip, &["11:00..15:00 x5 outside_window"]);
    let newest = ["11:00..13:00 x3 outside_window", "14:00 catch_up succeeded", "15:00 catch_up succeeded"];
    // 13:31 is the border; a window that reaches a due exactly leaves it outside.
    check(Misfire::All, 2 * HOUR, Overlap::Skip, &newest);
    check(Misfire::All, 2 * HOUR + 31 * MIN, Overlap::Skip, &newest);
    check(Misfire::All, 2 * HOUR, Overlap::Wait, &newest);
    check(Misfire::All, 2 * HOUR, Overlap::Allow, &newest);
    check(Misfire::All, 2 * HOUR, Overlap::Replace, &newest);
    check(
        Misfire::All,
        2 * HOUR,
        Overlap::Latest,
        &["11:00..13:00 x3 outside_window", "14:00 x1 superseded", "15:00 catch_up succeeded"],
    );
}

#[test]
fn a_backlog_keeps_its_newest_thousand() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("tick", "* * * * *", policy(Misfire::All, 7 * DAY, Overlap::Skip));
    world.run_for(MIN);
    world.restart_after(2 * DAY);
    world.run_for(SEC);
    let story = world.story("tick");
    assert_eq!(story[1], "10:32..+1 17:50 x1879 backlog_limit");
    assert_eq!(story[2], "+1 17:51 catch_up succeeded");
    assert_eq!(world.starts("tick").len(), 1_002, "with the two live ones");
    world.check();
}

#[test]
fn live_dues_join_the_end_of_a_backlog_under_every_overlap() {
    for overlap in [Overlap::Skip, Overlap::Wait, Overlap::Replace] {
        let mut world = World::new("2026-03-02T10:30Z");
        world.put("tick", "*/10 * * * *", policy(Misfire::All, DAY, overlap));
        world.run_for(MIN);
        world.restart_after(HOUR);
        world.takes("tick", 8 * MIN);
        world.run_for(5 * HOUR);
        let starts = world.starts("tick");
        let mut sorted = starts.clone();
        sorted.sort();
        assert_eq!(starts, sorted, "{overlap:?}: in order");
        world.check();
        assert!(world.story("tick").iter().all(|line| line.ends_with("succeeded")), "{overlap:?}");
    }
}

#[test]
fn a_backlog_goes_on_over_failed_and_stopped_runs() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("tick", "0 * * * *", policy(Misfire::All, DAY, Overlap::Skip));
    world.run_for(MIN);
    world.restart_after(4 * HOUR);
    world.takes("tick", 10 * SEC);
    world.exits("tick", &[1]);
    world.run_for(15 * SEC);
    let run = *world.runs("tick").last().unwrap();
    world.stop(run).unwrap();
    world.check();
    assert_eq!(
        world.story("tick"),
        [
            "11:00 catch_up failed",
            "12:00 catch_up stopped",
            "13:00 catch_up succeeded",
            "14:00 catch_up succeeded",
        ]
    );
}

#[test]
fn a_run_by_hand_beside_an_item_of_a_backlog_is_skipped_and_the_backlog_is_not() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("tick", "0 * * * *", policy(Misfire::All, DAY, Overlap::Skip));
    world.run_for(MIN);
    world.restart_after(3 * HOUR);
    world.takes("tick", MIN);
    world.run_for(SEC);
    world.trigger("tick");
    world.run_for(30 * SEC);
    assert_eq!(world.starts("tick"), ["11:00"]);
    world.run_for(5 * MIN);
    assert_eq!(
        world.story("tick"),
        [
            "11:00 catch_up succeeded",
            "12:00 catch_up succeeded",
            "13:00 catch_up succeeded",
            "13:31:01 manual skipped overlap",
        ]
    );
    world.check();
}

#[test]
fn a_restart_takes_the_turn_of_a_backlog_and_the_backlog_goes_on() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("tick", "0 * * * * | restart: 40 14 * * *", policy(Misfire::All, DAY, Overlap::Wait));
    world.run_for(MIN);
    world.restart_after(4 * HOUR);
    world.takes("tick", 20 * MIN);
    world.run_for(3 * HOUR);
    assert_eq!(
        world.story("tick"),
        [
            "11:00 catch_up stopped",
            "12:00 catch_up succeeded",
            "13:00 catch_up succeeded",
            "14:00 catch_up succeeded",
            "14:40 restart succeeded",
            "15:00 catch_up succeeded",
            "16:00 catch_up succeeded",
            "17:00 succeeded",
        ]
    );
    world.check();
}

#[test]
fn a_crash_in_a_backlog_loses_none_of_it() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("tick", "0 * * * *", policy(Misfire::All, DAY, Overlap::Replace));
    world.run_for(MIN);
    world.restart_after(5 * HOUR);
    world.takes("tick", 3 * MIN);
    for _ in 0..4 {
        world.run_for(4 * MIN);
        world.restart_after(20 * SEC);
    }
    world.run_for(20 * MIN);
    assert_eq!(world.story("tick").len(), 6);
    assert!(world.story("tick").iter().all(|line| line.ends_with("succeeded")), "{:?}", world.story("tick"));
    world.check();
}

#[test]
fn several_schedules_merge_without_duplicates_in_a_backlog() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("tick", "*/15 * * * * | */10 * * * * | 0 12 * * *", policy(Misfire::All, DAY, Overlap::Wait));
    world.run_for(MIN);
    world.restart_after(90 * MIN);
    world.run_for(MIN);
    assert_eq!(
        world.starts("tick"),
        [
            "10:40", "10:45", "10:50", "11:00", "11:10", "11:15", "11:20", "11:30", "11:40", "11:45",
            "11:50", "12:00"
        ]
    );
    world.check();
}

#[test]
fn skip_if_successful_asks_for_another_success_since_the_due_before() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("tick", "0 * * * *", |job| job.policy.skip_if_successful = true);
    // The run of the due before does not count, or every second due would be skipped.
    world.run_to("2026-03-02T12:30Z");
    world.exits("tick", &[1]);
    world.trigger("tick"); // fails
    world.run_to("2026-03-02T13:30Z");
    world.trigger("tick"); // succeeds
    world.run_for(SEC);
    world.restart_after(SEC); // the success is on record
    world.run_to("2026-03-02T15:30Z");
    assert_eq!(
        world.story("tick"),
        [
            "11:00 succeeded",
            "12:00 succeeded",
            "12:30 manual failed",
            "13:00 succeeded",
            "13:30 manual succeeded",
            "14:00 skipped already_successful",
            "15:00 succeeded",
        ]
    );
    world.check();
}

#[test]
fn a_backlog_waits_for_its_own_run_and_not_for_a_restart_beside_it() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("tick", "0 * * * * | restart: 40 14 * * *", policy(Misfire::All, DAY, Overlap::Wait));
    world.run_for(MIN);
    world.restart_after(4 * HOUR);
    world.hangs("tick");
    world.manner("tick").deaf = true;
    world.run_to("2026-03-02T14:41Z");
    // The run of 11:00 does not hear that it is to stop, and someone takes the restart back.
    let restart = *world.runs("tick").last().unwrap();
    world.stop(restart).unwrap();
    world.run_for(MIN);
    assert_eq!(world.story("tick"), ["11:00 catch_up running", "14:40 restart stopped"]);
    world.check();
}

#[test]
fn a_backlog_waits_for_whatever_is_active_and_live_dues_join_its_end() {
    let check = |overlap, expected: &[&str]| {
        let mut world = World::new("2026-03-02T10:30Z");
        world.put("tick", "0 * * * *", policy(Misfire::All, DAY, overlap));
        world.hangs("tick");
        world.trigger("tick");
        world.run_for(MIN);
        // The run by hand is cut off, and begins again.
        world.restart_after(3 * HOUR);
        world.run_to("2026-03-02T14:30Z");
        world.takes("tick", 0);
        world.finish("tick");
        world.run_for(MIN);
        assert_eq!(world.story("tick"), expected, "{overlap:?}");
        world.check();
    };
    let by_hand = "10:30 manual succeeded";
    let one_by_one = [
        by_hand,
        "11:00 catch_up succeeded",
        "12:00 catch_up succeeded",
        "13:00 catch_up succeeded",
        "14:00 catch_up succeeded",
    ];
    for overlap in [Overlap::Skip, Overlap::Wait, Overlap::Replace] {
        check(overlap, &one_by_one);
    }
    let latest =
        [by_hand, "11:00..12:00 x2 superseded", "13:00 catch_up skipped superseded", "14:00 succeeded"];
    check(Overlap::Latest, &latest);
}

#[test]
fn a_promised_run_is_judged_by_the_job_as_it_is_after_a_restart() {
    // Promised before the crash; the file is edited while the server is away and read before anything is judged.
    let away = |schedule: Option<&str>| {
        let mut world = World::new("2026-03-02T10:59:00Z");
        world.put("tick", "0 * * * * *", |_| {});
        world.run_to("2026-03-02T10:59:58Z");
        world.restart_after(90 * SEC);
        match schedule {
            Some(schedule) => world.put("tick", schedule, |_| {}),
            None => world.remove("tick"),
        }
        world.run_for(SEC);
        world.check();
        world.story("tick")[0].clone()
    };
    assert_eq!(away(Some("0 * * * * *")), "11:00 skipped superseded");
    assert_eq!(away(Some("0 0 1 1 *")), "11:00 succeeded");
    assert_eq!(away(None), "11:00 skipped removed");
}
