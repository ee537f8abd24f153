//! Overlap, stop and restart schedules, and what people ask for.

mod footprints;
mod world;

use cadran_core::{Job, Now, Order, Overlap, Refusal, Reply, RunStatus};
use cadran_engine::{Event, Options};
use cadran_place::Limits;
use world::*;

const ALL: [Overlap; 5] = [Overlap::Allow, Overlap::Skip, Overlap::Wait, Overlap::Latest, Overlap::Replace];

fn overlap(overlap: Overlap) -> impl FnOnce(&mut Job) {
    move |job| job.policy.overlap = overlap
}

/// A job every minute whose runs take two and a half.
fn story_under(policy: Overlap) -> Vec<String> {
    let mut world = World::new("2026-03-02T10:30:30Z");
    world.put("tick", "* * * * *", overlap(policy));
    world.takes("tick", 150 * SEC);
    world.run_to("2026-03-02T10:34:10Z");
    world.remove("tick");
    world.run_for(10 * MIN);
    let story = world.story("tick");
    world.check();
    story
}

#[test]
fn each_overlap_policy_has_its_answer() {
    let check = |policy, expected: [&str; 4]| assert_eq!(story_under(policy), expected, "{policy:?}");
    let (all, skip) = ("succeeded", "skipped overlap");
    let line = |words: [&str; 4]| {
        let at = ["10:31", "10:32", "10:33", "10:34"];
        std::array::from_fn::<String, 4, _>(|no| format!("{} {}", at[no], words[no]))
    };
    let check_words = |policy, words| {
        let line = line(words);
        check(policy, std::array::from_fn(|no| line[no].as_str()));
    };
    check_words(Overlap::Allow, [all; 4]);
    check_words(Overlap::Skip, [all, skip, skip, all]);
    // The job is removed at 10:34:10, and what waits by then does not start.
    check_words(Overlap::Wait, [all, all, "skipped removed", "skipped removed"]);
    check_words(Overlap::Latest, [all, "skipped superseded", all, "skipped removed"]);
    check_words(Overlap::Replace, ["stopped", "stopped", "stopped", all]);
}

#[test]
fn manual_triggers_ask_like_everyone_else() {
    let check = |policy, first: RunStatus, second: RunStatus| {
        let mut world = World::new("2026-03-02T10:30:30Z");
        world.put("tick", "", overlap(policy));
        world.hangs("tick");
        let (one, two) = (world.trigger("tick"), world.trigger("tick"));
        assert_eq!((world.status(one), world.status(two)), (first, second), "{policy:?}");
        world.check();
    };
    use RunStatus::*;
    check(Overlap::Allow, Running, Running);
    check(Overlap::Skip, Running, Skipped);
    check(Overlap::Wait, Running, Waiting);
    check(Overlap::Latest, Running, Waiting);
    check(Overlap::Replace, Stopped, Running);
}

#[test]
fn orders_of_one_instant_leave_in_parts_by_priority_and_before_anything_is_planned() {
    const JOBS: i32 = 300;
    let mut world = World::new("2026-03-02T10:30:30.250Z");
    for no in 0..JOBS {
        world.put(&format!("job-{no}"), "* * * * * *", |job| {
            job.policy.priority = no % 3;
            job.policy.overlap = Overlap::Allow;
        });
    }
    world.run_to("2026-03-02T10:30:39.900Z");
    let now = Now { wall: world.now.wall + 100, mono: world.now.mono + 100 };
    let (mut parts, mut priorities) = (Vec::new(), Vec::new());
    while world.engine.wake().wall.is_some_and(|at| at <= now.wall) {
        world.engine.handle(Event::Time, now);
        let effects = world.engine.take_effects();
        assert!(effects.batch.promised.is_empty(), "plans have time until the orders are out");
        let job = |order: &Order| match order {
            Order::Start(start) => start.context.job.0 as i32,
            other => panic!("{other:?}"),
        };
        priorities.extend(effects.orders.iter().map(|order| job(order) % 3));
        parts.push(effects.orders.len());
    }
    assert_eq!(parts, [128, 128, 44]);
    assert!(priorities.is_sorted_by(|one, next| one >= next), "{priorities:?}");
}

#[test]
fn a_manual_trigger_works_on_a_paused_job() {
    let mut world = World::new("2026-03-02T10:30:30Z");
    world.put("tick", "* * * * *", |_| {});
    world.pause("tick");
    let run = world.trigger("tick");
    world.run_for(MIN);
    assert_eq!((world.status(run), world.starts("tick").len()), (RunStatus::Succeeded, 1));
    world.check();
}

#[test]
fn a_stop_schedule_stops_what_started_before_it() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("shift", "0 * * * * | stop: 30 * * * * | stop: 0 12 * * *", |_| {});
    world.hangs("shift");
    world.run_to("2026-03-02T11:45Z");
    assert_eq!(world.story("shift"), ["11:00 stopped"]);
    world.run_to("2026-03-02T12:10Z");
    // At 12:00 both are due: the stop ends what was on, and the start stays.
    assert_eq!(world.story("shift"), ["11:00 stopped", "12:00 running"]);
    // A loop that comes late to both still keeps their order.
    world.run_to("2026-03-02T12:59:59Z");
    world.check();
    let mut late = World::new("2026-03-02T10:59:58Z");
    late.put("shift", "0 * * * * | stop: 2 0 * * * *", |_| {});
    late.hangs("shift");
    late.run_for(SEC);
    late.stall(4 * SEC);
    late.run_for(SEC);
    assert_eq!(late.story("shift"), ["11:00 stopped"]);
    late.check();
}

#[test]
fn stops_and_restarts_are_never_caught_up() {
    let mut world = World::new("2026-03-02T10:50Z");
    world.put("shift", "0 * * * * | stop: 30 * * * * | restart: 45 * * * *", |_| {});
    world.hangs("shift");
    world.run_to("2026-03-02T11:10Z");
    world.restart_after(HOUR);
    world.run_to("2026-03-02T12:20Z");
    assert_eq!(world.story("shift"), ["11:00 running", "12:00 catch_up waiting"]);
    world.run_to("2026-03-02T12:50Z");
    assert_eq!(world.story("shift")[2..], ["12:45 restart running"]);
    world.check();
    // A restart that was promised, and missed by a crash, is skipped.
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("shift", "restart: 45 * * * *", |_| {});
    world.run_to("2026-03-02T10:44:58Z");
    world.restart_after(MIN);
    world.run_for(0);
    assert_eq!(world.story("shift"), ["10:45 restart skipped missed"]);
    world.check();
}

#[test]
fn a_restart_stops_what_is_active_under_every_overlap() {
    for policy in ALL {
        let mut world = World::new("2026-03-02T10:59:30Z");
        world.put("shift", "0 * * * * | restart: 10 * * * *", overlap(policy));
        world.hangs("shift");
        world.run_to("2026-03-02T11:20Z");
        assert_eq!(world.story("shift"), ["11:00 stopped", "11:10 restart running"], "{policy:?}");
        world.check();
    }
}

#[test]
fn a_restart_and_a_start_at_one_instant_are_one_run() {
    for policy in ALL {
        let mut world = World::new("2026-03-02T10:59:30Z");
        world.put("shift", "*/10 * * * * | restart: 0 * * * *", overlap(policy));
        world.run_to("2026-03-02T11:15Z");
        assert_eq!(world.story("shift"), ["11:00 restart succeeded", "11:10 succeeded"], "{policy:?}");
        world.check();
    }
}

#[test]
fn a_chain_of_triggers_is_bounded() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("loop", "", overlap(Overlap::Allow));
    let mut run = world.trigger("loop");
    let mut links = 0;
    // The parent is over each time: what it is asked is answered all the same.
    while let Ok(next) = world.trigger_from("loop", Some(run)) {
        run = next;
        links += 1;
        assert!(links < 100, "a job that triggers itself never ends");
    }
    assert_eq!(links, 16);
    world.check();
}

#[test]
fn a_loop_of_triggers_is_bounded_also_while_the_store_is_away() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("loop", "", |_| {});
    world.store(false);
    let mut refused = 0;
    for _ in 0..1_100 {
        let token = world.command(cadran_core::Command::Trigger {
            job: "loop".parse().unwrap(),
            params: vec![],
            addresses: vec![],
            parent: None,
            key: None,
        });
        refused += usize::from(matches!(world.replies.get(&token), Some(Err(Refusal::Limit(_)))));
    }
    assert_eq!(refused, 100);
    world.store(true);
    world.run_for(SEC);
    assert!(world.trigger_from("loop", None).is_ok());
    world.check();
}

#[test]
fn a_run_is_stopped_wherever_it_stands() {
    let mut world = World::new("2026-03-02T10:59:58Z");
    world.put("queue", "0 * * * *", |job| {
        job.policy.overlap = Overlap::Wait;
        retrying(job, 5, MIN);
    });
    world.run_for(500);
    let promised = world.runs("queue")[0];
    assert_eq!(world.stop(promised), Ok(Reply::Run(promised)));
    world.run_for(5 * SEC);
    assert_eq!(world.story("queue"), ["11:00 stopped"]);
    world.hangs("queue");
    let running = world.trigger("queue");
    let waiting = world.trigger("queue");
    assert_eq!(world.status(waiting), RunStatus::Waiting);
    world.stop(waiting).unwrap();
    world.stop(running).unwrap();
    assert_eq!((world.status(waiting), world.status(running)), (RunStatus::Stopped, RunStatus::Stopped));
    world.takes("queue", 0);
    world.exits("queue", &[1, 1]);
    let retrying = world.trigger("queue");
    world.run_for(5 * SEC);
    assert_eq!(world.status(retrying), RunStatus::Running, "it waits for its next attempt");
    world.stop(retrying).unwrap();
    assert_eq!(world.status(retrying), RunStatus::Stopped);
    assert_eq!(world.stop(retrying), Err(Refusal::NoSuchRun(retrying)));
    let starts = world.starts("queue").len();
    world.run_for(2 * MIN);
    assert_eq!(world.starts("queue").len(), starts, "no further attempt");
    world.check();
}

#[test]
fn failed_stopped_and_lost_runs_are_retried_under_a_higher_attempt() {
    let mut world = World::new("2026-03-02T10:30Z");
    world.put("work", "", |_| {});
    world.put("once", "", |job| job.policy.at_most_once = true);
    world.exits("work", &[1]);
    let failed = world.trigger("work");
    world.hangs("work");
    let stopped = world.trigger("work");
    world.stop(stopped).unwrap();
    world.hangs("once");
    let lost = world.trigger("once");
    world.restart_after(SEC);
    world.takes("once", 0);
    world.takes("work", 0);
    let before = [(failed, RunStatus::Failed), (stopped, RunStatus::Stopped), (lost, RunStatus::Lost)];
    for (run, status) in before {
        assert_eq!(world.status(run), status);
        assert_eq!(world.retry(run), Ok(Reply::Run(run)), "{status:?}");
        world.run_for(SEC);
        assert_eq!(world.status(run), RunStatus::Succeeded, "{status:?}");
        // A run that was lost while the server was away was not started again by the restart.
        assert_eq!(world.record.runs[&run].state.attempt, 2, "{status:?}");
        assert!(matches!(world.retry(run), Err(Refusal::NotRetryable(..))));
    }
    world.check();
}

#[test]
fn a_retry_waits_its_turn_and_never_hides_the_failure() {
    for policy in ALL {
        let mut world = World::new("2026-03-02T10:30:30Z");
        world.put("tick", "* * * * *", overlap(policy));
        world.exits("tick", &[1]);
        world.run_for(MIN);
        let failed = world.runs("tick")[0];
        world.hangs("tick");
        world.run_for(MIN);
        world.retry(failed).unwrap();
        world.run_for(SEC);
        let status = world.status(failed);
        assert_ne!(status, RunStatus::Skipped, "{policy:?}");
        world.run_for(MIN);
        // Whoever displaces it leaves it failed, and says so.
        assert_ne!(world.status(failed), RunStatus::Skipped, "{policy:?}");
        world.check();
        let end = world.status(failed);
        let expected = match policy {
            Overlap::Latest => RunStatus::Failed,
            Overlap::Replace => RunStatus::Stopped,
            _ => RunStatus::Succeeded,
        };
        assert_eq!(end, expected, "{policy:?}");
    }
}

#[test]
fn an_answer_comes_after_what_it_says_is_durable() {
    let mut world = World::new("2026-03-02T10:30:30Z");
    world.put("tick", "* * * * *", |_| {});
    world.store(false);
    let pause = || cadran_core::Command::Pause { job: "tick".parse().unwrap() };
    let (first, second) = (world.command(pause()), world.command(pause()));
    assert!(world.replies.is_empty(), "neither the pause nor that it is so already");
    world.store(true);
    assert_eq!(world.replies[&first], Ok(Reply::Done));
    assert_eq!(world.replies[&second], Ok(Reply::Already));
    world.check();
}

#[test]
fn runs_wait_for_a_slot_by_urgency() {
    let limits = Limits { slots: 1, ..Limits::default() };
    let mut world = World::with("2026-03-02T10:59:30Z", Options { limits, ..Options::default() });
    for (name, priority) in [("low", -1), ("mid", 0), ("high", 1)] {
        world.put(name, "0 * * * *", |job| job.policy.priority = priority);
        world.takes(name, 10 * SEC);
    }
    world.run_to("2026-03-02T11:01Z");
    let order: Vec<&str> = world.hands.starts.iter().map(|(_, job, ..)| job.as_str()).collect();
    assert_eq!(order, ["high", "mid", "low"]);
    world.check();
}

#[test]
fn a_stopping_server_starts_nothing_and_goes_on_later() {
    let mut world = World::new("2026-03-02T10:59:30Z");
    world.put("tick", "0 * * * *", |_| {});
    world.hangs("tick");
    world.run_to("2026-03-02T11:00:10Z");
    world.handle(Event::Stopping);
    let refused = world.ask(cadran_core::Command::Pause { job: "tick".parse().unwrap() });
    assert!(matches!(refused, Err(Refusal::Busy(_))));
    world.engine.handle(Event::Time, Now::at(world.now.wall + HOUR));
    assert!(world.engine.take_effects().orders.is_empty());
    world.takes("tick", 0);
    world.restart_after(10 * SEC);
    world.run_for(SEC);
    assert_eq!(world.story("tick"), ["11:00 succeeded"]);
    world.check();
}

#[test]
fn children_run_when_their_parent_has_succeeded() {
    let mut world = World::new("2026-03-02T10:30:30Z");
    let children = |names: &[&str]| {
        let names: Vec<_> = names.iter().map(|name| name.parse().expect("a name")).collect();
        move |job: &mut Job| std::sync::Arc::make_mut(&mut job.body).children = names
    };
    world.put("parent", "* * * * *", children(&["one", "two", "nobody"]));
    world.put("one", "", children(&["two"]));
    world.put("two", "", |_| {});
    world.put("loop", "", children(&["loop"]));
    world.exits("parent", &[0, 1]);
    world.run_to("2026-03-02T10:32:30Z");
    assert_eq!(world.story("parent"), ["10:31 succeeded", "10:32 failed"]);
    assert_eq!((world.starts("one").len(), world.starts("two").len()), (1, 2), "of the first alone");
    world.trigger("loop");
    world.run_for(MIN);
    assert_eq!(world.starts("loop").len(), 17, "a job that is its own child comes to an end");
    world.check();
}
