//! Passes of the manager and of the clean-up.

use std::collections::BTreeMap;

use cadran_fuzz::{
    BinaryKind, BuildOutcome, Commit, FileName, Files, FuzzError, FuzzOutcome, NextBuild, Walk,
};

use crate::support::{DAY, HOUR, Kind, MINUTE, START, Story, World, commit, hash};

#[tokio::test]
async fn rule_05_h10_the_first_pass_starts_with_the_newest_four() {
    for kind in [Kind::Directory, Kind::S3] {
        let Some(world) = World::on(kind).await else { continue };
        let story = Story::of(1..=10);
        let manager = world.pipeline("manager").await;
        let pass = manager.manage(&story).await.unwrap();
        assert_eq!(pass.queued.len(), 4);
        assert_eq!(world.line().await, "last 10 | queue 7 8 9 10 | built | failed | schedule");
        assert_eq!(world.words(None).await, ["fresh_start", "queued", "queued", "queued", "queued"]);
        // Nothing new: nothing said, nothing changed.
        assert!(manager.manage(&story).await.unwrap().events.is_empty());
        story.grow(11..=12);
        manager.manage(&story).await.unwrap();
        assert_eq!(world.line().await, "last 12 | queue 7 8 9 10 11 12 | built | failed | schedule");
    }
}

#[tokio::test]
async fn rule_06_h05_an_outage_over_midnight_loses_no_commit() {
    let world = World::new().await;
    let story = Story::of(1..=1);
    let manager = world.pipeline("manager").await;
    manager.manage(&story).await.unwrap();
    for (number, committed_at) in [(2, START - 1), (3, START + DAY), (4, START - 30 * DAY)] {
        story.push(Commit { committed_at, ..commit(number, &["a.cc"]) });
    }
    world.pass_time(3 * DAY);
    manager.manage(&story).await.unwrap();
    assert_eq!(world.line().await, "last 4 | queue 1 2 3 4 | built | failed | schedule");
}

#[tokio::test]
async fn rule_06_only_today_records_what_it_leaves_out() {
    let mut world = World::new().await;
    world.target.only_today = true;
    let story = Story::of(1..=1);
    let manager = world.pipeline("manager").await;
    manager.manage(&story).await.unwrap();
    story.push(Commit { committed_at: START - DAY, ..commit(2, &["a.cc"]) });
    story.grow(3..=3);
    manager.manage(&story).await.unwrap();
    assert_eq!(world.line().await, "last 3 | queue 1 3 | built | failed | schedule");
    assert_eq!(world.words(Some(2)).await, ["skipped_not_today"]);
}

#[tokio::test]
async fn rule_06_more_than_a_pass_takes_comes_with_the_next_and_is_said() {
    let mut world = World::new().await;
    world.target.limits.commits_per_pass = 3;
    let story = Story::of(1..=1);
    let manager = world.pipeline("manager").await;
    manager.manage(&story).await.unwrap();
    story.grow(2..=6);
    let pass = manager.manage(&story).await.unwrap();
    assert_eq!(pass.backlog, 2);
    assert_eq!(pass.events[0].what, "backlog");
    assert_eq!(world.line().await, "last 4 | queue 1 2 3 4 | built | failed | schedule");
    manager.manage(&story).await.unwrap();
    assert_eq!(world.line().await, "last 6 | queue 1 2 3 4 5 6 | built | failed | schedule");
}

#[tokio::test]
async fn rule_07_h07_side_branches_count_when_asked_for() {
    for (walk, expected) in [
        (Walk::FirstParent, "last 3 | queue 1 3 | built | failed | schedule"),
        (Walk::All, "last 3 | queue 1 2 3 | built | failed | schedule"),
    ] {
        let mut world = World::new().await;
        world.target.walk = walk;
        let story = Story::of(1..=1);
        let manager = world.pipeline("manager").await;
        manager.manage(&story).await.unwrap();
        story.grow(2..=3);
        story.side.lock().unwrap().insert(hash(2));
        manager.manage(&story).await.unwrap();
        assert_eq!(world.line().await, expected);
    }
}

#[tokio::test]
async fn rule_09_h08_an_unreadable_commit_holds_back_the_rest_and_is_said_once() {
    let world = World::new().await;
    let story = Story::of(1..=1);
    let manager = world.pipeline("manager").await;
    manager.manage(&story).await.unwrap();
    story.grow(2..=2);
    story.push(Commit { files: Files::Unreadable("missing blob".into()), ..commit(3, &[]) });
    story.grow(4..=4);
    for _ in 0..2 {
        manager.manage(&story).await.unwrap();
        assert_eq!(world.line().await, "last 2 | queue 1 2 | built | failed | schedule");
    }
    assert_eq!(world.words(Some(3)).await, ["pending"]);
    story.commits.lock().unwrap()[2].files = Files::Read(vec!["a.h".into()]);
    manager.manage(&story).await.unwrap();
    assert_eq!(world.line().await, "last 4 | queue 1 2 3 4 | built | failed | schedule");
}

#[tokio::test]
async fn rule_10_h09_a_rewritten_history_starts_fresh_and_is_said() {
    let world = World::new().await;
    let story = Story::of(1..=6);
    let manager = world.pipeline("manager").await;
    manager.manage(&story).await.unwrap();
    *story.commits.lock().unwrap() = (101..=109).map(|number| commit(number, &["a.c"])).collect();
    let pass = manager.manage(&story).await.unwrap();
    assert_eq!(pass.events[0].what, "fresh_start");
    assert!(pass.events[0].reason.contains("rewritten"), "{}", pass.events[0].reason);
    assert_eq!(world.line().await, "last 109 | queue 3 4 5 6 106 107 108 109 | built | failed | schedule");
}

#[tokio::test]
async fn rule_10_a_crash_before_the_last_write_repeats_without_harm() {
    let world = World::new().await;
    let story = Story::of(1..=1);
    let manager = world.pipeline("manager").await;
    manager.manage(&story).await.unwrap();
    story.grow(2..=3);
    manager.manage(&story).await.unwrap();
    world.write(FileName::State, &format!("{{\"last_checked_commit\": \"{}\"}}", hash(1))).await;
    manager.manage(&story).await.unwrap();
    assert_eq!(world.line().await, "last 3 | queue 1 2 3 | built | failed | schedule");
}

#[tokio::test]
async fn a_repository_that_cannot_be_asked_stops_nothing_else() {
    let world = World::new().await;
    let story = Story::of(1..=1);
    let manager = world.pipeline("manager").await;
    manager.manage(&story).await.unwrap();
    let NextBuild::Build(claim) = manager.next_build().await.unwrap() else { panic!() };
    world.binaries(1).await;
    manager.finish_build(&claim, BuildOutcome::Built).await.unwrap();
    *story.down.lock().unwrap() = true;
    let pass = manager.manage(&story).await.unwrap();
    assert_eq!(pass.history_error.as_deref(), Some("no route to host"));
    assert_eq!(world.line().await, "last 1 | queue | built | failed | schedule 1:0");
}

#[tokio::test]
async fn rule_16_h16_a_crash_between_the_two_writes_leaves_a_commit_in_both_and_no_more() {
    let world = World::new().await;
    let story = Story::of(1..=1);
    let manager = world.pipeline("manager").await;
    world.binaries(1).await;
    let one = hash(1);
    world.write(FileName::State, &format!("{{\"last_checked_commit\": \"{one}\"}}")).await;
    world.write(FileName::BuildQueue, &format!("{{\"built\": [\"{one}\"]}}")).await;
    world.write(FileName::Schedule, &format!("[{{\"hash\": \"{one}\", \"fuzz_count\": 2}}]")).await;
    manager.manage(&story).await.unwrap();
    assert_eq!(world.line().await, "last 1 | queue | built | failed | schedule 1:2");
}

#[tokio::test]
async fn h17_h18_a_built_commit_without_its_binaries_fails_after_an_hour() {
    let world = World::new().await;
    let story = Story::of(1..=1);
    let manager = world.pipeline("manager").await;
    let one = hash(1);
    world.write(FileName::State, &format!("{{\"last_checked_commit\": \"{one}\"}}")).await;
    world.write(FileName::BuildQueue, &format!("{{\"built\": [\"{one}\"]}}")).await;
    world.binary(BinaryKind::Production, 1).await;
    for _ in 0..4 {
        manager.manage(&story).await.unwrap();
        assert_eq!(world.line().await, "last 1 | queue | built 1 | failed | schedule");
        world.pass_time(15 * MINUTE);
    }
    manager.manage(&story).await.unwrap();
    assert_eq!(world.line().await, "last 1 | queue | built | failed 1 | schedule");
    assert_eq!(world.words(Some(1)).await, ["binary_missing"]);
}

#[tokio::test]
async fn rule_17_h19_what_lost_its_binaries_leaves_the_schedule_and_unfuzzed_ones_are_counted() {
    let world = World::new().await;
    let story = Story::of(1..=1);
    let manager = world.pipeline("manager").await;
    let entry = |number, count| format!("{{\"hash\": \"{}\", \"fuzz_count\": {count}}}", hash(number));
    world.write(FileName::State, &format!("{{\"last_checked_commit\": \"{}\"}}", hash(1))).await;
    world.write(FileName::Schedule, &format!("[{}, {}, {}]", entry(1, 1), entry(2, 0), entry(3, 0))).await;
    for number in 1..=3 {
        world.binaries(number).await;
    }
    let fuzzer = world.pipeline("fuzzer").await;
    let claim = fuzzer.claim_fuzz(&hash(3)).await.unwrap();
    for number in 1..=3 {
        world.remove_binary(BinaryKind::Coverage, number).await;
    }
    manager.manage(&story).await.unwrap();
    // What is being fuzzed is pinned.
    assert_eq!(world.line().await, "last 1 | queue | built | failed | schedule 3:0");
    assert_eq!(world.words(Some(1)).await, ["expired"]);
    assert_eq!(world.words(Some(2)).await, ["expired_unfuzzed"]);
    let status = manager.status().await.unwrap();
    assert_eq!(status.expired_unfuzzed, 1);
    let metrics = status.to_prometheus("demo", 0);
    assert!(metrics.contains("\ncadran_fuzz_expired_unfuzzed_total{target=\"demo\"} 1\n"), "{metrics}");
    assert!(metrics.contains("\ncadran_fuzz_scheduled_unfuzzed{target=\"demo\"} 1\n"), "{metrics}");
    fuzzer.finish_fuzz(&claim, FuzzOutcome::Fuzzed).await.unwrap();
    assert_eq!(world.line().await, "last 1 | queue | built | failed | schedule 3:1");
}

#[tokio::test]
async fn rule_17_a_store_that_fails_is_not_a_missing_binary() {
    let world = World::new().await;
    let story = Story::of(1..=1);
    let manager = world.pipeline("manager").await;
    let one = hash(1);
    world.write(FileName::Schedule, &format!("[{{\"hash\": \"{one}\", \"fuzz_count\": 0}}]")).await;
    world.binaries(1).await;
    let root = world.fixture.directory.as_ref().unwrap().path();
    let away = root.with_extension("away");
    std::fs::rename(root, &away).unwrap();
    let pass = manager.manage(&story).await;
    std::fs::rename(&away, root).unwrap();
    assert!(matches!(pass, Err(FuzzError::Unavailable(_))), "{pass:?}");
    assert_eq!(world.line().await, "last - | queue | built | failed | schedule 1:0");
}

#[tokio::test]
async fn h20_the_clean_up_spares_what_is_scheduled_and_not_fuzzed() {
    for kind in [Kind::Directory, Kind::S3] {
        let Some(world) = World::on(kind).await else { continue };
        let manager = world.pipeline("manager").await;
        for number in 1..=6 {
            world.binaries(number).await;
        }
        let entry = |number, count| format!("{{\"hash\": \"{}\", \"fuzz_count\": {count}}}", hash(number));
        world
            .write(FileName::Schedule, &format!("[{}, {}, {}]", entry(1, 0), entry(2, 1), entry(3, 1)))
            .await;
        world.write(FileName::BuildQueue, &format!("{{\"built\": [\"{}\"]}}", hash(4))).await;
        let left = manager.clean_up().await.unwrap();
        assert_eq!(left.binaries.len(), 0);
        // Objects have the age of the store's clock, so ours is set by it.
        let key = manager.keys().binary(BinaryKind::Production, hash(1).as_str());
        let made =
            manager.bucket().list(&manager.keys().binaries(BinaryKind::Production), None).await.unwrap();
        let made = made.iter().find(|one| one.key == key).unwrap().modified_at;
        world.clock.store(made + 7 * DAY - HOUR, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(manager.clean_up().await.unwrap().binaries.len(), 0);
        world.pass_time(2 * HOUR);
        let claim = manager.claim_fuzz(&hash(3)).await.unwrap();
        let done = manager.clean_up().await.unwrap();
        let gone =
            |numbers: &[u32]| numbers.iter().map(|number| hash(*number).to_string()).collect::<Vec<_>>();
        assert_eq!(done.binaries, gone(&[2, 5, 6]));
        assert_eq!(done.spared, gone(&[1]));
        for (number, there) in [(1, true), (2, false), (3, true), (4, true), (5, false), (6, false)] {
            assert_eq!(manager.is_built(&hash(number)).await.unwrap(), there, "{number}");
        }
        manager.release(&claim).await.unwrap();
    }
}

#[tokio::test]
async fn the_clean_up_takes_leftovers_after_a_day() {
    let world = World::new().await;
    let manager = world.pipeline("manager").await;
    let always = cadran_fuzz::Condition::Always;
    manager.bucket().put("tmp/left-behind", b"x", &always).await.unwrap();
    manager.enqueue(&hash(1), false).await.unwrap();
    let NextBuild::Build(claim) = manager.next_build().await.unwrap() else { panic!() };
    manager.finish_build(&claim, BuildOutcome::Failed("no".into())).await.unwrap();
    let made = manager.bucket().list("tmp/", None).await.unwrap().remove(0).modified_at;
    world.clock.store(made + DAY + HOUR, std::sync::atomic::Ordering::SeqCst);
    let done = manager.clean_up().await.unwrap();
    assert_eq!((done.uploads, done.claims, done.records), (1, 1, 0));
    world.pass_time(90 * DAY);
    assert_eq!(manager.clean_up().await.unwrap().records, 2);
}

#[tokio::test]
async fn rule_25_h29_h30_hashes_that_people_type() {
    let world = World::new().await;
    let story = Story::of(1..=3);
    story.push(commit(4, &["README.md"]));
    let manager = world.pipeline("manager").await;
    let (full, warning) = manager.resolve(&story, hash(2).as_str()).await.unwrap();
    assert_eq!((full, warning), (hash(2), None));
    assert_eq!(manager.resolve(&story, &hash(2).as_str()[..9].to_uppercase()).await.unwrap().0, hash(2));
    // H30: what the filter would leave out is obeyed, with a warning.
    let (full, warning) = manager.resolve(&story, hash(4).as_str()).await.unwrap();
    assert_eq!(full, hash(4));
    assert!(warning.unwrap().contains("no file that the filter takes"));
    for (text, why) in [
        ("", "7 to 40 hexadecimal digits"),
        ("HEAD~3", "7 to 40 hexadecimal digits"),
        ("000000", "7 to 40 hexadecimal digits"),
        ("--upload-pack=x", "7 to 40 hexadecimal digits"),
        ("fffffff", "in no history"),
        ("0000000", "beginning of several"),
        ("b10bb10b", "is a blob, not a commit"),
    ] {
        let error = manager.resolve(&story, text).await.unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[tokio::test]
async fn rule_28_every_change_is_logged_with_before_after_reason_and_actor() {
    let world = World::new().await;
    let story = Story::of(1..=1);
    let manager = world.pipeline("manager@one").await;
    manager.manage(&story).await.unwrap();
    let builder = world.pipeline("builder@two").await;
    let NextBuild::Build(claim) = builder.next_build().await.unwrap() else { panic!() };
    world.binaries(1).await;
    builder.finish_build(&claim, BuildOutcome::Built).await.unwrap();
    manager.manage(&story).await.unwrap();
    let fuzzer = world.pipeline("fuzzer@three").await;
    let claim = fuzzer.next_fuzz().await.unwrap().unwrap();
    fuzzer.finish_fuzz(&claim, FuzzOutcome::Fuzzed).await.unwrap();
    let events = manager.status().await.unwrap().events;
    let mut lines = BTreeMap::new();
    for event in events.iter().filter(|event| !event.hash.is_empty()) {
        let actor = event.actor.split('#').next().unwrap();
        lines.insert(
            event.what.as_str(),
            format!("{} > {} by {actor}", event.before.text(), event.after.text()),
        );
        assert!(!event.reason.is_empty());
    }
    assert_eq!(lines["queued"], "none > queue by manager@one");
    assert_eq!(lines["built"], "queue > built by builder@two");
    assert_eq!(lines["handed_over"], "built > scheduled 0 by manager@one");
    assert_eq!(lines["fuzzed"], "scheduled 0 > scheduled 1 by fuzzer@three");
}

#[tokio::test]
async fn one_manager_at_a_time_does_the_work() {
    let world = World::new().await;
    let story = Story::of(1..=1);
    let manager = world.pipeline("one").await;
    let text =
        format!("{{\"hash\": \"\", \"owner\": \"other#1\", \"attempt\": 1, \"until\": {}}}", START + MINUTE);
    let key = format!("{}manager.json", manager.keys().claims());
    manager.bucket().put(&key, text.as_bytes(), &cadran_fuzz::Condition::Always).await.unwrap();
    assert_eq!(manager.manage(&story).await.unwrap().busy.as_deref(), Some("other#1"));
    world.pass_time(2 * MINUTE);
    assert_eq!(manager.manage(&story).await.unwrap().busy, None);
    assert_eq!(manager.manage(&story).await.unwrap().busy, None);
}
