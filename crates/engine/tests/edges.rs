//! The 21 edge cases of a planner that watches job files, one test each. Where our answer is not the obvious one, a
//! comment gives it.

mod world;

use cadran_core::{Job, Millis, Misfire, Overlap, RunStatus};
use cadran_engine::JobChange;
use world::*;

/// `catchup_window` alone means `misfire: all`.
fn window(millis: Millis) -> impl FnOnce(&mut Job) {
    move |job| {
        job.policy.misfire = if millis > 0 { Misfire::All } else { Misfire::Once };
        job.policy.catchup_window_ms = millis;
    }
}

#[test]
fn edge_01_new_job_with_catchup_window() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("backup", "0 * * * *", window(6 * HOUR));
    world.run_to("2026-03-02T12:30Z");
    // Nothing before its first sight is its concern.
    assert_eq!(world.starts("backup"), ["11:00", "12:00"]);
    world.restart_after(2 * HOUR);
    world.run_for(MIN);
    assert_eq!(
        world.story("backup"),
        ["11:00 succeeded", "12:00 succeeded", "13:00 catch_up succeeded", "14:00 catch_up succeeded"]
    );
    world.check();
}

#[test]
fn edge_02_new_job_without_catchup_window() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("backup", "0 * * * *", |_| {});
    world.run_to("2026-03-02T12:30Z");
    world.crash();
    // A window that is written while the server is down finds the watermark where it was.
    world.put("backup", "0 * * * *", window(6 * HOUR));
    world.restart_after(2 * HOUR);
    world.run_for(MIN);
    assert_eq!(
        world.story("backup"),
        ["11:00 succeeded", "12:00 succeeded", "13:00 catch_up succeeded", "14:00 catch_up succeeded"]
    );
    world.check();
}

#[test]
fn edge_03_job_removed_while_its_backlog_drains() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("backup", "0 * * * *", window(6 * HOUR));
    world.run_for(MIN);
    world.restart_after(4 * HOUR);
    world.takes("backup", 10 * MIN);
    world.run_for(15 * MIN);
    assert_eq!(world.starts("backup"), ["11:00", "12:00"]);
    world.remove("backup");
    world.run_for(20 * MIN);
    // The run that was on completes. What was left is not thrown away silently: it is one counted skip, written when
    // the two minutes are over in which the file may come back.
    assert_eq!(
        world.story("backup"),
        ["11:00 catch_up succeeded", "12:00 catch_up succeeded", "13:00..14:00 x2 removed"]
    );
    world.check();
}

#[test]
fn edge_04_catchup_window_switched_on() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("backup", "0 * * * *", |job| job.policy.misfire = Misfire::Skip);
    world.run_to("2026-03-02T11:30Z");
    world.restart_after(2 * HOUR);
    world.run_for(MIN);
    world.put("backup", "0 * * * *", window(6 * HOUR));
    world.run_for(MIN);
    // Our watermark is the latest due that is *recorded*, so dues that were judged before the window was switched on
    // stay as they were judged: no due has two records.
    assert_eq!(world.story("backup"), ["11:00 succeeded", "12:00..13:00 x2 missed"]);
    world.restart_after(2 * HOUR);
    world.run_for(MIN);
    assert_eq!(world.story("backup")[2..], ["14:00 catch_up succeeded", "15:00 catch_up succeeded"]);
    world.check();
}

#[test]
fn edge_05_catchup_window_switched_off() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("backup", "0 * * * *", window(6 * HOUR));
    world.run_for(MIN);
    world.restart_after(4 * HOUR);
    world.takes("backup", 10 * MIN);
    world.run_for(MIN);
    assert_eq!(world.starts("backup"), ["11:00"]);
    world.put("backup", "0 * * * *", window(0));
    world.takes("backup", MIN);
    world.run_for(2 * HOUR);
    // The rest of the backlog is judged by the new policy, and nothing of it is thrown away silently: the newest
    // missed due runs, the others are superseded.
    assert_eq!(
        world.story("backup"),
        [
            "11:00 catch_up succeeded",
            "12:00..13:00 x2 superseded",
            "14:00 catch_up succeeded",
            "15:00 succeeded",
            "16:00 succeeded",
        ]
    );
    world.check();
}

#[test]
fn edge_06_schedule_changed() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("backup", "0 * * * *", window(6 * HOUR));
    world.run_to("2026-03-02T11:30Z");
    world.crash();
    world.put("backup", "15,45 * * * *", window(6 * HOUR));
    world.restart_after(2 * HOUR);
    world.run_for(MIN);
    // Only instants that the new schedule names are replayed.
    assert_eq!(
        world.story("backup"),
        [
            "11:00 succeeded",
            "11:15 catch_up succeeded",
            "11:45 catch_up succeeded",
            "12:15 catch_up succeeded",
            "12:45 catch_up succeeded",
            "13:15 catch_up succeeded",
        ]
    );
    world.run_to("2026-03-02T14:00Z");
    assert_eq!(world.starts("backup").last().unwrap(), "13:45");
    world.check();
}

#[test]
fn edge_07_overlap_changed() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("backup", "0 * * * *", window(6 * HOUR));
    world.run_for(MIN);
    world.restart_after(4 * HOUR);
    world.takes("backup", 10 * MIN);
    world.run_for(MIN);
    assert_eq!(world.starts("backup"), ["11:00"]);
    world.put("backup", "0 * * * *", |job| {
        window(6 * HOUR)(job);
        job.policy.overlap = Overlap::Allow;
    });
    // In force at once: what is left of the backlog starts in parallel, beside the run that is on.
    world.run_for(SEC);
    assert_eq!(world.starts("backup"), ["11:00", "12:00", "13:00", "14:00"]);
    world.check();
}

#[test]
fn edge_08_job_renamed_by_its_file() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("old", "0 * * * *", window(6 * HOUR));
    world.run_to("2026-03-02T11:30Z");
    world.crash();
    world.remove("old");
    world.put("new", "0 * * * *", window(6 * HOUR));
    world.restart_after(2 * HOUR);
    world.run_to("2026-03-02T14:30Z");
    // Removed and added: the new name starts at its first sight. What the old one missed before it went is said.
    assert_eq!(world.story("old"), ["11:00 succeeded", "12:00..13:00 x2 removed"]);
    assert_eq!(world.story("new"), ["14:00 succeeded"]);
    world.check();
}

#[test]
fn edge_09_job_renamed_inside_its_file() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("old", "0 * * * *", |_| {});
    world.run_to("2026-03-02T10:59:58Z");
    // The watcher knows which job a file held, and tells both in one list.
    world.remove_later("old");
    let put = world.change_of("new", "0 * * * *");
    world.jobs(vec![JobChange::Remove { name: "old".parse().unwrap() }, put]);
    world.run_to("2026-03-02T12:30Z");
    // The due of 11:00 was promised already when the name changed.
    assert_eq!(world.story("old"), ["11:00 skipped removed"]);
    assert_eq!(world.story("new"), ["11:00 succeeded", "12:00 succeeded"]);
    world.check();
}

#[test]
fn edge_10_bulk_copy_of_files() {
    // For the engine a bulk copy is one list of changes, however long.
    let mut world = World::new("2026-03-02T10:30Z");
    let changes = (0..10_000).map(|no| world.change_of(&format!("job-{no}"), "* * * * *")).collect();
    world.jobs(changes);
    world.run_to("2026-03-02T10:31:30Z");
    assert_eq!(world.hands.starts.len(), 10_000);
    let all =
        (0..10_000).map(|no| JobChange::Remove { name: format!("job-{no}").parse().unwrap() }).collect();
    (0..10_000).for_each(|no| world.remove_later(&format!("job-{no}")));
    world.jobs(all);
    world.check();
    assert_eq!(world.hands.starts.len(), 10_000);
}

#[test]
fn edge_11_more_changes_than_a_channel_holds() {
    // There is no channel to overflow: changes are values of an event, and none is dropped. 300 edits of one job
    // between two ticks end in the last one, and every one of them has its revision.
    let mut world = World::new("2026-03-02T10:30Z");
    for minute in 0..300 {
        world.put("backup", &format!("{} * * * *", minute % 60), |_| {});
    }
    assert_eq!(world.record.jobs[&world.id("backup")].0.revision, 300);
    world.run_to("2026-03-02T12:00Z");
    assert_eq!(world.starts("backup"), ["10:59", "11:59"]);
    world.check();
}

#[test]
fn edge_12_catch_up_and_live_due_for_the_same_job() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("backup", "0 * * * *", window(6 * HOUR));
    world.run_for(MIN);
    world.restart_after(4 * HOUR);
    world.takes("backup", 20 * MIN);
    world.run_to("2026-03-02T18:30Z");
    // Live dues join the end of the backlog, in order; none is lost to it.
    assert_eq!(
        world.starts("backup"),
        ["11:00", "12:00", "13:00", "14:00", "15:00", "16:00", "17:00", "18:00"]
    );
    assert_eq!(
        world.started_at("backup")[..6],
        ["14:31", "14:51", "15:11", "15:31", "15:51", "16:11"],
        "one after another"
    );
    world.check();
}

#[test]
fn edge_13_several_schedules_of_one_job() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("report", "*/20 * * * * | 0 * * * * | 30 11 * * *", |_| {});
    world.run_to("2026-03-02T12:30Z");
    // Merged, and an instant that two of them name is one due.
    assert_eq!(world.starts("report"), ["10:40", "11:00", "11:20", "11:30", "11:40", "12:00", "12:20"]);
    world.restart_after(2 * HOUR);
    world.run_for(MIN);
    assert_eq!(world.story("report")[7..], ["12:40..14:00 x5 superseded", "14:20 catch_up succeeded"]);
    world.check();
}

#[test]
fn edge_14_paused_job_with_a_backlog() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("backup", "0 * * * *", window(6 * HOUR));
    world.run_for(MIN);
    world.restart_after(4 * HOUR);
    world.takes("backup", 10 * MIN);
    world.run_for(MIN);
    world.pause("backup");
    world.run_to("2026-03-02T20:30Z");
    assert_eq!(world.starts("backup"), ["11:00"]);
    world.resume("backup");
    world.run_to("2026-03-02T21:30Z");
    // The backlog goes on where it stood, although its window would be over by now. What fell into the pause is
    // counted as paused.
    assert_eq!(
        world.story("backup"),
        [
            "11:00 catch_up succeeded",
            "12:00 catch_up succeeded",
            "13:00 catch_up succeeded",
            "14:00 catch_up succeeded",
            "15:00..20:00 x6 paused",
            "21:00 succeeded",
        ]
    );
    world.check();
}

#[test]
fn edge_15_skip_if_successful_and_catch_up() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("backup", "0 * * * *", |job| {
        window(6 * HOUR)(job);
        job.policy.skip_if_successful = true;
    });
    world.run_to("2026-03-02T11:10Z");
    world.trigger("backup");
    world.run_to("2026-03-02T12:10Z");
    world.restart_after(2 * HOUR);
    world.run_for(SEC);
    world.trigger("backup");
    world.run_for(HOUR);
    // A live due is skipped when the job succeeded since the due before it; caught-up runs never are.
    assert_eq!(
        world.story("backup"),
        [
            "11:00 succeeded",
            "11:10 manual succeeded",
            "12:00 skipped already_successful",
            "13:00 catch_up succeeded",
            "14:00 catch_up succeeded",
            "14:10:01 manual succeeded",
            "15:00 skipped already_successful",
        ]
    );
    world.check();
}

#[test]
fn edge_16_guard_race() {
    // There is no moment between the check and the start: admission is one step. Everything that is due at one
    // instant, and a trigger in the same turn, asks one after another; the world panics when two run at once.
    let mut world = World::new("2026-03-02T10:59:59Z");
    world.put("backup", "0 * * * * | */30 * * * *", |_| {});
    world.hangs("backup");
    world.run_to("2026-03-02T10:59:59.990Z");
    world.stall(10);
    let run = world.trigger("backup");
    world.run_for(SEC);
    assert_eq!(world.hands.starts.len(), 1);
    assert_eq!(world.story("backup").len(), 2);
    assert_eq!(world.status(run), RunStatus::Skipped);
    world.check();
}

#[test]
fn edge_17_ticks_without_due_runs() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("backup", "0 12 * * *", |_| {});
    let effects = world.effects_seen;
    world.run_to("2026-03-02T11:30Z");
    // A tick that decides nothing writes nothing: there is no global "last tick" to keep.
    assert_eq!(world.effects_seen, effects);
    world.check();
}

#[test]
fn edge_18_start_fails_after_the_plan() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("backup", "0 * * * *", window(6 * HOUR));
    world.exits("backup", &[127]);
    world.run_to("2026-03-02T11:30Z");
    world.restart_after(MIN);
    world.run_to("2026-03-02T12:30Z");
    // The due has its run, and the run has failed: nothing is replayed for it. Retries belong to the step.
    assert_eq!(world.story("backup"), ["11:00 failed", "12:00 succeeded"]);
    world.check();
}

#[test]
fn edge_19_crash_between_plan_and_watermark() {
    // The two are one transaction: a crash finds both or neither, and no due is promised twice.
    for committed in [false, true] {
        let mut world = World::new("2026-03-02T10:30Z");
        world.put("backup", "0 * * * *", window(6 * HOUR));
        world.run_to("2026-03-02T10:59:54.999Z");
        world.store(committed);
        world.run_to("2026-03-02T10:59:57Z");
        assert_eq!(world.record.runs.len(), usize::from(committed));
        world.restart_after(30 * SEC);
        world.store(true);
        world.run_for(MIN);
        assert_eq!(world.starts("backup"), ["11:00"], "committed: {committed}");
        world.check();
    }
}

#[test]
fn edge_20_crash_right_after_a_job_was_added() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.store(false);
    world.put("backup", "*/10 * * * *", window(6 * HOUR));
    world.restart_after(HOUR);
    world.store(true);
    world.run_for(11 * MIN);
    // Nothing was recorded of it, so it is new at the restart.
    assert_eq!(world.story("backup"), ["11:40 succeeded"]);
    world.check();
}

#[test]
fn edge_21_watermark_missing_or_corrupt() {
    for corrupt in [None, Some(-5), Some(Millis::MAX), Some(Millis::MIN), Some(at("2199-01-01T00:00Z"))] {
        let mut world = World::new("2026-03-02T10:30Z");
        world.put("backup", "0 * * * *", window(6 * HOUR));
        world.run_to("2026-03-02T11:30Z");
        world.crash();
        world.stall(2 * HOUR);
        world.lose_watermark("backup", corrupt);
        world.restart_after(0);
        world.run_for(HOUR);
        // No catch-up; the job goes on from here.
        assert_eq!(world.story("backup"), ["11:00 succeeded", "14:00 succeeded"], "{corrupt:?}");
        world.check();
    }
}
