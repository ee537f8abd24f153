//! Jobs that come, change, pause and go.

mod world;

use cadran_core::{Command, Job, Millis, Misfire, Overlap, Reply};
use cadran_engine::JobChange;
use world::*;

fn window(millis: Millis) -> impl FnOnce(&mut Job) {
    move |job| {
        job.policy.misfire = Misfire::All;
        job.policy.catchup_window_ms = millis;
    }
}

#[test]
fn dues_of_a_pause_are_counted() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("tick", "*/10 * * * *", |_| {});
    world.run_to("2026-03-02T10:39:57Z");
    // The due of 10:40 is promised already: it is a row, and skipped.
    world.pause("tick");
    world.run_to("2026-03-02T11:25Z");
    world.resume("tick");
    world.run_to("2026-03-02T11:45Z");
    assert_eq!(
        world.story("tick"),
        ["10:40 skipped paused", "10:50..11:20 x4 paused", "11:30 succeeded", "11:40 succeeded"]
    );
    world.check();
}

#[test]
fn a_pause_outlives_the_server() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("tick", "*/10 * * * *", window(DAY));
    world.run_for(MIN);
    world.restart_after(24 * MIN);
    world.takes("tick", 3 * MIN);
    world.run_for(SEC);
    world.pause("tick");
    world.run_for(10 * MIN);
    world.restart_after(4 * HOUR);
    world.run_for(10 * MIN);
    assert_eq!(world.starts("tick"), ["10:40"], "nothing starts in a pause");
    assert_eq!(world.ask(Command::Pause { job: "tick".parse().unwrap() }), Ok(Reply::Already));
    world.resume("tick");
    world.run_to("2026-03-02T15:35Z");
    assert_eq!(
        world.story("tick"),
        [
            "10:40 catch_up succeeded",
            "10:50 catch_up succeeded",
            "11:00..15:10 x26 paused",
            "15:20 succeeded",
            "15:30 succeeded",
        ]
    );
    world.check();
}

#[test]
fn a_caught_up_run_that_came_due_in_a_pause_waits_for_its_end() {
    // Promised, and the pause came before the commit. Under `wait`: waiting for a turn when the pause came.
    for overlap in [Overlap::Skip, Overlap::Wait] {
        let mut world = World::new("2026-03-02T10:30Z");
        world.put("tick", "0 * * * *", |job| {
            window(DAY)(job);
            job.policy.overlap = overlap;
        });
        world.run_for(MIN);
        world.restart_after(2 * HOUR);
        world.takes("tick", 5 * MIN);
        if overlap == Overlap::Wait {
            world.trigger("tick");
            world.run_for(SEC);
        } else {
            world.store(false);
            world.run_for(SEC);
        }
        world.command(Command::Pause { job: "tick".parse().unwrap() });
        world.store(true);
        world.run_for(20 * MIN);
        let ran = world.starts("tick").len();
        assert_eq!(ran, usize::from(overlap == Overlap::Wait), "{overlap:?}: only what was asked for");
        world.restart_after(SEC);
        world.run_for(MIN);
        assert_eq!(world.starts("tick").len(), ran);
        world.resume("tick");
        world.run_for(15 * MIN);
        assert_eq!(world.starts("tick")[ran..ran + 2], ["11:00", "12:00"], "{overlap:?}");
        world.check();
    }
}

#[test]
fn several_pauses_during_one_backlog() {
    let mut world = World::new("2026-03-02T08:30Z");
    world.put("tick", "*/10 * * * *", window(DAY));
    world.run_for(MIN);
    world.restart_after(2 * HOUR);
    world.takes("tick", 4 * MIN);
    for round in 0..3 {
        world.run_for(5 * MIN);
        world.pause("tick");
        world.run_for(25 * MIN);
        if round == 1 {
            world.restart_after(SEC);
        }
        world.resume("tick");
    }
    world.run_for(4 * HOUR);
    world.check();
    let starts = world.starts("tick");
    let mut sorted = starts.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(starts, sorted, "in order, each once");
    let paused: Vec<String> =
        world.story("tick").into_iter().filter(|line| line.ends_with("paused")).collect();
    assert_eq!(paused, ["10:40..11:00 x3 paused", "11:10..11:30 x3 paused", "11:40..12:00 x3 paused"]);
}

#[test]
fn more_pauses_than_a_backlog_remembers_end_it() {
    let mut world = World::new("2026-03-02T08:30Z");
    world.put("tick", "* * * * *", window(DAY));
    world.run_for(MIN);
    world.restart_after(3 * HOUR);
    world.hangs("tick");
    for _ in 0..20 {
        world.run_for(90 * SEC);
        world.pause("tick");
        world.run_for(90 * SEC);
        world.resume("tick");
    }
    world.check();
    assert!(world.story("tick").iter().any(|line| line.ends_with("backlog_limit")));
}

#[test]
fn an_edit_in_a_pause_counts_each_part_by_its_own_schedule() {
    let mut world = World::new("2026-03-02T10:05Z");
    world.put("tick", "*/10 * * * *", |_| {});
    world.pause("tick");
    world.run_to("2026-03-02T11:05Z");
    world.put("tick", "*/30 * * * *", |_| {});
    world.run_to("2026-03-02T12:05Z");
    world.resume("tick");
    assert_eq!(world.story("tick"), ["10:10..11:00 x6 paused", "11:30..12:00 x2 paused"]);
    world.check();
}

#[test]
fn removed_and_written_again_within_two_minutes_is_an_edit() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("tick", "* * * * *", window(HOUR));
    world.run_to("2026-03-02T10:30:57Z");
    // An editor that deletes and re-creates: the run that is promised for 10:31 is not lost to it.
    world.remove("tick");
    world.run_for(SEC);
    world.put("tick", "* * * * *", window(HOUR));
    world.run_to("2026-03-02T10:31:30Z");
    assert_eq!(world.story("tick"), ["10:31 succeeded"]);
    world.remove("tick");
    world.run_for(2 * MIN);
    world.put("tick", "* * * * *", window(HOUR));
    world.run_for(10 * SEC);
    // What fell between is caught up, as after any edit.
    assert_eq!(world.starts("tick"), ["10:31", "10:32", "10:33"]);
    world.check();
}

#[test]
fn removed_and_written_again_after_two_minutes_is_new() {
    for restart in [false, true] {
        let mut world = World::new("2026-03-02T10:30Z");
        world.put("tick", "* * * * *", window(HOUR));
        world.run_to("2026-03-02T10:31:30Z");
        world.remove("tick");
        world.run_for(2 * MIN + 1);
        if restart {
            world.restart_after(SEC);
        }
        world.put("tick", "* * * * *", window(HOUR));
        world.run_for(MIN);
        assert_eq!(world.starts("tick"), ["10:31", "10:34"], "restart: {restart}");
        world.check();
    }
}

#[test]
fn a_promised_run_of_a_removed_job_is_skipped_when_it_comes_due() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("tick", "* * * * *", |_| {});
    world.run_to("2026-03-02T10:30:57Z");
    world.remove("tick");
    world.run_for(10 * SEC);
    assert_eq!(world.story("tick"), ["10:31 skipped removed"]);
    world.check();
}

#[test]
fn a_waiting_run_of_a_removed_job_is_skipped_and_the_active_one_goes_on() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("tick", "* * * * *", |job| job.policy.overlap = Overlap::Wait);
    world.hangs("tick");
    world.run_to("2026-03-02T10:32:10Z");
    world.remove("tick");
    world.run_for(3 * MIN);
    assert_eq!(world.story("tick"), ["10:31 running", "10:32 skipped removed"]);
    world.check();
}

#[test]
fn removed_and_put_in_one_list_is_neither() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("tick", "* * * * *", |_| {});
    world.run_to("2026-03-02T10:30:57Z");
    let put = world.change_of("tick", "* * * * *");
    world.jobs(vec![JobChange::Remove { name: "tick".parse().unwrap() }, put]);
    let id = world.id("tick");
    assert_eq!(world.record.jobs[&id].1, None, "the record does not say removed");
    // The same in two turns that become durable together.
    world.store(false);
    world.remove("tick");
    world.put("tick", "* * * * *", |_| {});
    world.store(true);
    assert_eq!(world.record.jobs[&id].1, None);
    world.run_to("2026-03-02T10:31:30Z");
    assert_eq!(world.story("tick"), ["10:31 succeeded"]);
    world.check();
}

#[test]
fn an_edit_is_no_reason_to_run_at_once() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("tick", "0 * * * *", |_| {});
    world.run_to("2026-03-02T11:50Z");
    world.put("tick", "*/10 * * * *", |_| {});
    world.run_to("2026-03-02T12:05Z");
    assert_eq!(world.starts("tick"), ["11:00", "12:00"]);
    world.check();
}

#[test]
fn an_edit_while_the_store_is_away_loses_no_due() {
    for misfire in [Misfire::Skip, Misfire::Once, Misfire::All] {
        let mut world = World::new("2026-03-02T10:30Z");
        world.put("tick", "*/10 * * * * *", |job| job.policy.misfire = misfire);
        world.run_for(30 * SEC);
        world.store(false);
        world.run_for(MIN);
        world.put("tick", "*/10 * * * * *", |job| {
            job.policy.misfire = misfire;
            job.policy.priority = 1;
        });
        world.store(true);
        world.run_for(MIN);
        world.check();
    }
}

#[test]
fn a_due_that_only_the_new_schedule_names_is_not_passed_over_by_the_pre_read() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("tick", "0 * * * *", |_| {});
    world.run_to("2026-03-02T10:59:56Z");
    // The watermark stands at 11:00 by now.
    world.put("tick", "58,59 59 10 * * *", |_| {});
    world.run_for(MIN);
    // 11:00 was promised under the old schedule and runs under it.
    assert_eq!(world.starts("tick"), ["10:59:58", "10:59:59", "11:00"]);
    world.check();
}

#[test]
fn edited_schedules_of_stops_and_restarts_do_not_pile_up() {
    let mut world = World::new("2026-03-02T10:30Z");
    for _ in 0..50 {
        world.put("tick", "* * * * * | restart: 30 * * * * *", |job| job.policy.overlap = Overlap::Allow);
        world.run_for(100);
    }
    world.run_to("2026-03-02T10:32:10Z");
    assert_eq!(world.starts("tick"), ["10:30:30", "10:31", "10:31:30", "10:32"]);
    world.check();
}

#[test]
fn a_run_keeps_the_definition_it_was_promised_under() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("tick", "0 * * * *", |job| job.policy.overlap = Overlap::Wait);
    world.run_to("2026-03-02T10:59:57Z");
    world.put("tick", "30 * * * *", |_| {});
    world.restart_after(SEC);
    world.run_to("2026-03-02T11:31Z");
    let revisions: Vec<u32> = world.record.runs.values().map(|row| row.promise.revision).collect();
    assert_eq!((world.starts("tick"), revisions), (vec!["11:00".into(), "11:30".into()], vec![1, 2]));
    world.check();
}
