//! What the simulation found once, as short as it can be told.

mod world;

use cadran_core::{Command, Handler, Job, Misfire, Overlap, Refusal, RunStatus, Step};
use world::*;

fn add_exit_handler(job: &mut Job) {
    let mut body = (*job.body).clone();
    body.handlers.steps[Handler::Exit as usize] =
        Some(Box::new(Step { name: "on_exit".into(), ..Step::default() }));
    job.body = body.into();
}

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

#[test]
fn a_retry_of_a_run_that_never_started_is_still_a_retry_after_a_restart() {
    let mut world = World::new("2026-03-01T00:00:30Z");
    world.put("a", "* * * * *", |job| job.policy.overlap = Overlap::Wait);
    world.hangs("a");
    world.run_to("2026-03-01T00:02:10Z");
    let waits = world.runs("a")[1];
    world.stop(waits).unwrap();
    world.retry(waits).unwrap();
    assert_eq!(world.status(waits), RunStatus::Waiting);
    // A due that did not start is skipped with its job. A retry was asked for by somebody and goes on.
    world.remove("a");
    world.restart_after(SEC);
    world.run_for(SEC);
    assert_eq!(world.status(waits), RunStatus::Waiting);
    world.finish("a");
    world.run_for(SEC);
    assert_eq!(world.starts("a").last().unwrap(), "00:02");
    world.check();
}

#[test]
fn a_pause_starts_none_of_the_caught_up_runs_that_wait() {
    let mut world = World::new("2026-03-01T00:00:30Z");
    let touches = |job: &mut Job| {
        let mut body = (*job.body).clone();
        body.footprint.writes.push("table:orders".into());
        job.body = body.into();
    };
    world.put("other", "0 0 * * *", touches);
    world.hangs("other");
    world.trigger("other");
    world.put("a", "* * * * *", touches);
    world.run_to("2026-03-01T00:00:50Z");
    world.stall(30 * SEC);
    world.run_for(SEC);
    // The second one touches nothing any more, and waits only for the first.
    world.put("a", "* * * * *", |_| {});
    world.run_to("2026-03-01T00:01:50Z");
    world.stall(30 * SEC);
    world.run_for(SEC);
    assert_eq!(world.story("a"), ["00:01 catch_up waiting", "00:02 catch_up waiting"]);
    world.pause("a");
    world.run_for(SEC);
    assert_eq!(world.starts("a"), [""; 0]);
    world.resume("a");
    world.finish("other");
    world.run_for(5 * SEC);
    assert_eq!(world.starts("a"), ["00:01", "00:02"]);
    world.check();
}

#[test]
fn an_edit_after_the_clock_stepped_back_promises_no_due_that_is_on_record() {
    let mut world = World::new("2026-03-01T00:10:30Z");
    world.put("a", "* * * * *", |job| job.policy.misfire = Misfire::Skip);
    world.run_for(SEC);
    world.stall(5 * MIN);
    world.run_for(SEC);
    assert_eq!(world.story("a"), ["00:11..00:15 x5 missed"]);
    world.put("a", "0 * * * *", |_| {});
    world.step_clock(-4 * MIN);
    world.run_to("2026-03-01T00:11:57Z");
    // The schedule names 00:12 again, which was missed, and is on record as that.
    world.put("a", "* * * * *", |_| {});
    world.run_to("2026-03-01T00:12:30Z");
    assert_eq!(world.story("a"), ["00:11..00:15 x5 missed"]);
}

#[test]
fn a_pause_on_record_is_not_planned_again_after_the_clock_stepped_back() {
    let mut world = World::new("2026-03-01T02:00:05Z");
    world.put("a", "*/10 * * * * *", |job| {
        job.policy.misfire = Misfire::All;
        job.policy.catchup_window_ms = HOUR;
    });
    world.run_for(SEC);
    world.hangs("a");
    world.restart_after(MIN);
    world.run_for(SEC);
    // A backlog waits for its first run, so that the pause is recorded ahead of the watermark.
    world.pause("a");
    world.run_for(MIN);
    world.resume("a");
    world.takes("a", 0);
    world.step_clock(-10 * MIN);
    world.restart_after(0);
    world.run_for(15 * MIN);
    let story = world.story("a");
    assert!(story.contains(&"02:01:10..02:02 x6 paused".to_owned()), "{story:?}");
    assert!(!story.iter().any(|line| line.starts_with("02:01:30")), "{story:?}");
    world.check();
}

#[test]
fn a_new_priority_does_not_turn_the_order_of_caught_up_runs_around() {
    let mut world = World::new("2026-03-01T00:00:30Z");
    world.put("a", "* * * * *", |job| job.policy.overlap = Overlap::Wait);
    world.hangs("a");
    world.run_to("2026-03-01T00:01:50Z");
    world.stall(30 * SEC);
    world.run_for(SEC);
    world.put("a", "* * * * *", |job| {
        job.policy.overlap = Overlap::Wait;
        job.policy.priority = 5;
    });
    world.run_to("2026-03-01T00:02:50Z");
    world.stall(30 * SEC);
    world.run_for(SEC);
    assert_eq!(world.story("a"), ["00:01 running", "00:02 catch_up waiting", "00:03 catch_up waiting"]);
    world.restart_after(SEC);
    world.takes("a", 0);
    world.finish("a");
    world.run_for(5 * SEC);
    assert_eq!(world.starts("a"), ["00:01", "00:01", "00:02", "00:03"]);
    world.check();
}

#[test]
fn a_run_that_is_stopped_and_retried_before_its_instant_starts_once() {
    let mut world = World::new("2026-03-01T00:00:30Z");
    world.put("a", "* * * * *", |job| job.policy.overlap = Overlap::Allow);
    world.run_to("2026-03-01T00:00:58Z");
    let promised = world.runs("a")[0];
    world.stop(promised).unwrap();
    world.retry(promised).unwrap();
    world.run_to("2026-03-01T00:01:30Z");
    assert_eq!(world.starts("a"), ["00:01"]);
    world.check();
}

#[test]
fn a_paused_backlog_of_a_file_that_was_written_again_is_judged_by_the_new_policy() {
    let replays = |overlap| {
        move |job: &mut Job| {
            job.policy.misfire = Misfire::All;
            job.policy.catchup_window_ms = HOUR;
            job.policy.overlap = overlap;
        }
    };
    let mut world = World::new("2026-03-01T01:00:30Z");
    world.put("a", "* * * * *", replays(Overlap::Wait));
    world.run_for(SEC);
    world.hangs("a");
    world.restart_after(10 * MIN);
    world.run_for(SEC);
    world.pause("a");
    world.run_for(30 * SEC);
    world.remove("a");
    world.put("a", "* * * * *", replays(Overlap::Latest));
    world.takes("a", 0);
    world.finish("a");
    world.resume("a");
    world.run_for(5 * SEC);
    assert_eq!(
        world.story("a"),
        [
            "01:01 catch_up succeeded",
            "01:02..01:09 x8 superseded",
            "01:10 catch_up succeeded",
            "01:11 x1 paused"
        ]
    );
    world.check();
}

#[test]
fn an_exit_handler_that_may_have_begun_is_not_begun_again_under_at_most_once() {
    let mut cut_off = 0;
    // The server dies after each effect of the end of a run, also between the record of the handler's start and its order.
    for after in 0..12 {
        let mut world = World::new("2026-03-02T10:59:40Z");
        world.put("pay", "0 * * * *", |job| {
            add_exit_handler(job);
            job.policy.at_most_once = true;
        });
        world.takes("pay", SEC);
        world.run_to("2026-03-02T11:00:00.500Z");
        world.crash_after = Some((after, SEC));
        world.run_for(MIN);
        let run = world.runs("pay")[0];
        let begun = world.hands.starts.iter().filter(|(.., (of, step, _))| *of == run && step.0 > 0).count();
        assert!(begun <= 1, "begun {begun} times when the server dies after {after} effects");
        let steps = world.record.runs[&run].state.steps.clone().unwrap_or_default();
        let recorded = steps.iter().any(|step| *step.name == *"on_exit" && step.attempt == 1);
        if begun == 0 && recorded {
            cut_off += 1;
            assert_eq!(
                world.status(run),
                RunStatus::Failed,
                "the run says that its handler was lost: {steps:?}"
            );
        }
        world.check();
    }
    assert!(cut_off > 0, "no crash came between the record and the order");
}

#[test]
fn a_pause_outlasts_a_resume_that_was_refused_while_the_file_was_away() {
    let mut world = World::new("2026-03-01T00:00:30Z");
    world.put("a", "* * * * *", |_| {});
    world.run_for(SEC);
    world.pause("a");
    world.remove("a");
    assert!(world.ask(Command::Resume { job: "a".parse().unwrap() }).is_err());
    world.put("a", "* * * * *", |_| {});
    world.run_to("2026-03-01T00:03:30Z");
    world.resume("a");
    world.run_to("2026-03-01T00:04:30Z");
    assert_eq!(world.story("a"), ["00:01..00:03 x3 paused", "00:04 succeeded"]);
    world.check();
}

#[test]
fn a_retry_of_a_replaced_run_counts_on_from_attempts_that_were_not_recorded() {
    let mut world = World::new("2026-03-01T00:00:30Z");
    world.put("a", "* * * * *", |job| {
        add_exit_handler(job);
        job.policy.overlap = Overlap::Replace;
    });
    world.hangs("a");
    world.run_to("2026-03-01T00:01:58Z");
    let replaced = world.runs("a")[0];
    // The second run is promised. The store goes away, the first run is stopped for it and runs its handler, the second one
    // starts, and the server is killed before any of that is durable.
    world.store(false);
    world.takes("a", 0);
    world.run_to("2026-03-01T00:02:05Z");
    world.restart_after(0);
    world.store(true);
    world.run_for(SEC);
    assert_eq!(world.status(replaced), RunStatus::Stopped);
    // The executor saw attempt 1 of the handler; the world fails on a second one of that number.
    world.retry(replaced).unwrap();
    world.run_for(SEC);
    assert_eq!(world.status(replaced), RunStatus::Succeeded);
    world.check();
}

#[test]
fn an_edit_after_a_step_back_and_a_restart_promises_no_due_that_is_on_record() {
    let catches_up = |job: &mut Job| {
        job.policy.misfire = Misfire::All;
        job.policy.catchup_window_ms = 5 * MIN;
    };
    let mut world = World::new("2026-03-01T00:50:00Z");
    world.put("a", "0 * * * *", catches_up);
    world.run_to("2026-03-01T00:55:00Z");
    world.restart_after(11 * MIN);
    world.run_for(SEC);
    assert_eq!(world.story("a"), ["01:00 x1 outside_window"]);
    world.put("a", "30 * * * *", catches_up);
    world.step_clock(-(6 * MIN + 4 * SEC));
    world.restart_after(0);
    // Three seconds before an instant that only the first schedule named.
    world.put("a", "*/10 * * * *", catches_up);
    world.run_for(10 * SEC);
    assert_eq!(world.starts("a"), Vec::<String>::new());
    world.check();
}

#[test]
fn a_retry_goes_on_from_the_attempt_that_it_ordered_before_the_server_was_killed() {
    let mut world = World::new("2026-03-01T00:00:30Z");
    world.put("a", "* * * * *", |job| job.policy.overlap = Overlap::Wait);
    world.exits("a", &[1, 0, 1]);
    world.run_to("2026-03-01T00:01:30Z");
    let failed = world.runs("a")[0];
    assert_eq!(world.status(failed), RunStatus::Failed);
    world.hangs("a");
    world.run_to("2026-03-01T00:02:10Z");
    world.retry(failed).unwrap();
    // Its turn comes while the store is away: the row still says that it waits when it has failed once more.
    world.store(false);
    world.finish("a");
    world.run_for(SEC);
    world.finish("a");
    world.run_for(SEC);
    assert_eq!(world.starts("a"), ["00:01", "00:02", "00:01"]);
    world.restart_after(0);
    world.store(true);
    world.run_for(SEC);
    assert_eq!(world.starts("a"), ["00:01", "00:02", "00:01"]);
    assert_eq!(world.status(failed), RunStatus::Failed);
    world.check();
}
