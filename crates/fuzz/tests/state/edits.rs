//! Files that people, other tools and accidents changed.

use cadran_fuzz::{
    BuildOutcome, BuildQueue, Checked, FileName, FuzzError, NextBuild, Pipeline, Schedule, StateFile,
};

use crate::support::{MINUTE, Story, World, hash};

/// A target with some of everything: `last 6 | queue 5 6 | built | failed 4 | schedule 3:0`.
async fn lived() -> (World, Story, Pipeline) {
    let world = World::new().await;
    let story = Story::of(3..=6);
    let manager = world.pipeline("manager").await;
    manager.manage(&story).await.unwrap();
    world.binaries(3).await;
    for outcome in [BuildOutcome::Built, BuildOutcome::Failed("no".into())] {
        let NextBuild::Build(claim) = manager.next_build().await.unwrap() else { panic!() };
        manager.finish_build(&claim, outcome).await.unwrap();
    }
    manager.manage(&story).await.unwrap();
    assert_eq!(world.line().await, LIVED);
    (world, story, manager)
}

const LIVED: &str = "last 6 | queue 5 6 | built | failed 4 | schedule 3:0";

#[tokio::test]
async fn our_own_changes_are_not_taken_for_edits() {
    let (world, story, manager) = lived().await;
    world.pass_time(15 * MINUTE);
    let NextBuild::Build(claim) = manager.next_build().await.unwrap() else { panic!() };
    manager.finish_build(&claim, BuildOutcome::Failed("no".into())).await.unwrap();
    manager.retry(&hash(4)).await.unwrap();
    manager.enqueue(&hash(9), true).await.unwrap();
    assert!(manager.manage(&story).await.unwrap().events.is_empty());
}

#[tokio::test]
async fn a_hash_added_by_hand_is_a_manual_trigger_and_one_removed_a_cancel() {
    let (world, story, manager) = lived().await;
    world.pass_time(15 * MINUTE);
    let text = format!("{{\"queue\": [\"{}\", \"{}\"], \"failed\": [\"{}\"]}}", hash(6), hash(9), hash(4));
    world.write(FileName::BuildQueue, &text).await;
    let entry = |number| format!("{{\"hash\": \"{}\", \"fuzz_count\": 7, \"note\": \"mine\"}}", hash(number));
    world.write(FileName::Schedule, &format!("[{}]", entry(3))).await;
    let pass = manager.manage(&story).await.unwrap();
    let said: Vec<String> = pass
        .events
        .iter()
        .map(|event| {
            let number = crate::support::number(&event.hash);
            format!("{} {number}: {} > {}", event.what, event.before.text(), event.after.text())
        })
        .collect();
    assert_eq!(
        said,
        [
            "manual_change 3: scheduled 0 > scheduled 7",
            "manual_cancel 5: queue > none",
            "manual_add 9: none > queue"
        ]
    );
    assert_eq!(world.line().await, "last 6 | queue 6 9 | built | failed 4 | schedule 3:7");
    assert!(world.text(FileName::Schedule).await.contains("\"note\": \"mine\""));
    // Noticed once.
    assert!(manager.manage(&story).await.unwrap().events.is_empty());
}

#[tokio::test]
async fn what_a_person_types_short_becomes_a_full_hash() {
    let (world, story, manager) = lived().await;
    story.grow(0x77..=0x77);
    let long = hash(0x77);
    let typed = &long.as_str()[..10];
    let text = format!("{{\"queue\": [\"{typed}\", \"nonsense\", \"fffffff\", \"{}\"]}}", hash(5));
    world.write(FileName::BuildQueue, &text).await;
    manager.manage(&story).await.unwrap();
    assert_eq!(world.line().await, "last 119 | queue 119 5 | built | failed | schedule 3:0");
    assert_eq!(world.words(Some(0x77)).await, ["manual_add"]);
    let words = world.words(None).await;
    assert_eq!(words.iter().filter(|word| *word == "manual_refused").count(), 2);
    assert!(manager.manage(&story).await.unwrap().events.is_empty());
}

#[tokio::test]
async fn a_broken_file_is_restored_from_the_record_and_kept() {
    let breakages =
        ["", "{\"queue\": [\"", "not json", "5", "{\"queue\": 5}", "[{\"hash\": 3}]", "\u{0}\u{0}"];
    for name in [FileName::BuildQueue, FileName::Schedule, FileName::State] {
        let (world, story, manager) = lived().await;
        // Something changes after the last pass; the record has that too.
        manager.enqueue(&hash(9), false).await.unwrap();
        for text in breakages {
            // An object without the key is a target that was never looked at.
            if name == FileName::State && text.starts_with("{\"queue\": 5") {
                continue;
            }
            world.pass_time(15 * MINUTE);
            world.write(name, text).await;
            let broken = match name {
                FileName::BuildQueue => manager.next_build().await.map(drop),
                FileName::Schedule => manager.next_fuzz().await.map(drop),
                FileName::State => manager.status().await.map(drop),
            };
            assert!(matches!(broken, Err(FuzzError::Broken(_))), "{name:?} {text}: {broken:?}");
            assert_eq!(world.text(name).await, text, "whoever cannot read it leaves it alone");
            let pass = manager.manage(&story).await.unwrap();
            let words: Vec<&str> = pass.events.iter().map(|event| event.what.as_str()).collect();
            assert_eq!(words, ["restored"], "{name:?} {text}: {:?}", pass.events);
            assert_eq!(world.line().await, "last 6 | queue 5 6 9 | built | failed 4 | schedule 3:0");
            let folder = format!("{}/broken/", manager.keys().events().trim_end_matches("/events/"));
            let copies = manager.bucket().list(&folder, None).await.unwrap();
            let copy = manager.bucket().get(&copies.last().unwrap().key).await.unwrap().unwrap();
            assert_eq!(copy.bytes, text.as_bytes());
        }
    }
}

#[tokio::test]
async fn a_file_that_vanished_is_restored_from_the_record() {
    for name in [FileName::BuildQueue, FileName::Schedule, FileName::State] {
        let (world, story, manager) = lived().await;
        manager.bucket().delete(&manager.keys().file(name)).await.unwrap();
        manager.manage(&story).await.unwrap();
        assert_eq!(world.line().await, LIVED, "{name:?}");
    }
}

#[tokio::test]
async fn a_file_that_was_broken_from_the_start_is_left_alone() {
    let world = World::new().await;
    let story = Story::of(1..=3);
    world.write(FileName::BuildQueue, "{\"queue\": [").await;
    let manager = world.pipeline("manager").await;
    let text = manager.manage(&story).await.unwrap_err().to_string();
    assert!(text.contains("build-queue.json") && text.contains("no record yet"), "{text}");
    assert_eq!(world.text(FileName::BuildQueue).await, "{\"queue\": [");
    // Nothing is held back by the failure.
    world.write(FileName::BuildQueue, "{}").await;
    assert_eq!(manager.manage(&story).await.unwrap().queued.len(), 3);
}

#[tokio::test]
async fn a_record_that_cannot_be_read_costs_only_what_it_would_have_noticed() {
    let (world, story, manager) = lived().await;
    manager.bucket().put(&manager.keys().ledger(), b"{", &cadran_fuzz::Condition::Always).await.unwrap();
    assert!(manager.manage(&story).await.unwrap().events.is_empty());
    assert_eq!(world.line().await, LIVED);
}

#[tokio::test]
async fn unknown_keys_survive_a_life() {
    let world = World::new().await;
    let story = Story::of(1..=2);
    world.write(FileName::BuildQueue, "{\"queue\": [], \"owner\": {\"team\": \"é\"}}").await;
    let manager = world.pipeline("manager").await;
    manager.manage(&story).await.unwrap();
    let NextBuild::Build(claim) = manager.next_build().await.unwrap() else { panic!() };
    manager.finish_build(&claim, BuildOutcome::Failed("no".into())).await.unwrap();
    assert!(world.text(FileName::BuildQueue).await.contains("\"team\": \"é\""));
}

#[test]
fn any_bytes_are_read_or_refused_and_what_is_read_survives() {
    fn check<F: StateFile + std::fmt::Debug>(bytes: &[u8]) -> bool {
        let Ok(file) = F::read(bytes) else { return false };
        assert_eq!(F::read(&file.write()).as_ref(), Ok(&file), "{:?}", String::from_utf8_lossy(bytes));
        true
    }
    let full = hash(1).to_string();
    let seeds = [
        format!("{{\"last_checked_commit\": \"{full}\", \"x\": [1, 2.5e3, null, \"\\u00e9\"]}}"),
        format!("{{\"queue\": [\"{full}\", \"abc1234\"], \"built\": [], \"failed\": [\"{full}\"]}}"),
        format!("[{{\"hash\": \"{full}\", \"fuzz_count\": 2}}, {{\"hash\": \"b\", \"note\": {{}}}}]"),
    ];
    let mut state = 1_u64;
    let mut chance = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % limit.max(1)
    };
    let mut read = 0;
    for round in 0..6_000 {
        let mut bytes = seeds[round % seeds.len()].clone().into_bytes();
        for _ in 0..chance(4) {
            let at = chance(bytes.len());
            match chance(4) {
                0 => bytes[at] = chance(256) as u8,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, b"{}[]\",:0-9.eE \\"[chance(15)]),
                _ => bytes.truncate(at),
            }
            if bytes.is_empty() {
                break;
            }
        }
        let all = [check::<Checked>(&bytes), check::<BuildQueue>(&bytes), check::<Schedule>(&bytes)];
        read += all.iter().filter(|read| **read).count();
    }
    assert!(read > 1_000, "most of what was changed could not be read: {read}");
}
