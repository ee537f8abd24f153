//! Builders and fuzzers that share work: claims, leases, tokens, results.

use cadran_fuzz::{
    BinaryKind, BuildOutcome, Claim, Enqueued, FileName, FuzzError, FuzzOutcome, NextBuild, Pipeline,
    Scheduled,
};

use crate::support::{Kind, MINUTE, World, hash};

async fn build(pipeline: &Pipeline) -> Claim {
    match pipeline.next_build().await.unwrap() {
        NextBuild::Build(claim) => claim,
        other => panic!("{other:?}"),
    }
}

async fn queued(world: &World, numbers: &[u32]) {
    let pipeline = world.pipeline("person").await;
    for number in numbers {
        assert_eq!(pipeline.enqueue(&hash(*number), false).await.unwrap(), Enqueued::Added);
    }
}

fn schedule_text(entries: &[(u32, u64)]) -> String {
    let entry = |(number, count): &(u32, u64)| {
        format!("{{\"hash\": \"{}\", \"fuzz_count\": {count}}}", hash(*number))
    };
    format!("[{}]", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
}

#[tokio::test]
async fn rule_12_h11_two_builders_never_have_the_same_commit() {
    for kind in [Kind::Directory, Kind::S3] {
        let Some(world) = World::on(kind).await else { continue };
        queued(&world, &[1, 2]).await;
        let (one, two) = (world.pipeline("one").await, world.pipeline("two").await);
        let (first, second) = (build(&one).await, build(&two).await);
        assert_eq!((first.hash, second.hash), (hash(1), hash(2)));
        assert_eq!(one.next_build().await.unwrap(), NextBuild::Nothing);
        // Rule 11: they stay in the queue until their builds end.
        assert_eq!(world.line().await, "last - | queue 1 2 | built | failed | schedule");
    }
}

#[tokio::test]
async fn h11_many_builders_at_once_share_the_queue() {
    for kind in [Kind::Directory, Kind::S3] {
        let Some(world) = World::on(kind).await else { continue };
        let numbers: Vec<u32> = (1..=8).collect();
        queued(&world, &numbers).await;
        let mut builders = Vec::new();
        for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            let pipeline = world.pipeline(name).await;
            builders.push(tokio::spawn(async move { build(&pipeline).await.hash }));
        }
        let mut taken = Vec::new();
        for builder in builders {
            taken.push(builder.await.unwrap());
        }
        taken.sort();
        assert_eq!(taken, numbers.iter().map(|number| hash(*number)).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn h11_a_lease_that_ran_out_is_taken_over_and_the_old_token_refused() {
    for kind in [Kind::Directory, Kind::S3] {
        let Some(world) = World::on(kind).await else { continue };
        queued(&world, &[1]).await;
        world.binaries(1).await;
        let (slow, quick) = (world.pipeline("slow").await, world.pipeline("quick").await);
        let mut old = build(&slow).await;
        world.pass_time(4 * MINUTE);
        slow.renew(&mut old).await.unwrap();
        world.pass_time(4 * MINUTE);
        assert_eq!(quick.next_build().await.unwrap(), NextBuild::Nothing);
        world.pass_time(2 * MINUTE);
        let new = build(&quick).await;
        assert_eq!((new.attempt, old.attempt), (2, 1));
        for answer in [
            slow.finish_build(&old, BuildOutcome::Built).await,
            slow.finish_build(&old, BuildOutcome::Failed("no".into())).await,
            slow.finish_build(&old, BuildOutcome::Trouble("no".into())).await,
            slow.renew(&mut old).await,
        ] {
            assert!(matches!(answer, Err(FuzzError::Stale(_))), "{answer:?}");
        }
        quick.finish_build(&new, BuildOutcome::Built).await.unwrap();
        assert_eq!(world.line().await, "last - | queue | built 1 | failed | schedule");
        // A result is brought once, by whomever.
        for claim in [&new, &old] {
            let again = quick.finish_build(claim, BuildOutcome::Built).await;
            assert!(matches!(again, Err(FuzzError::Stale(_))), "{again:?}");
        }
        assert_eq!(world.words(Some(1)).await, ["queued", "taken_over", "built"]);
    }
}

#[tokio::test]
async fn an_old_token_stays_refused_when_the_commit_comes_back() {
    let world = World::new().await;
    queued(&world, &[1]).await;
    let pipeline = world.pipeline("a").await;
    let first = build(&pipeline).await;
    pipeline.finish_build(&first, BuildOutcome::Failed("error: no such header".into())).await.unwrap();
    pipeline.retry(&hash(1)).await.unwrap();
    world.binaries(1).await;
    let stale = pipeline.finish_build(&first, BuildOutcome::Built).await;
    assert!(matches!(stale, Err(FuzzError::Stale(_))), "{stale:?}");
    assert_eq!(world.line().await, "last - | queue 1 | built | failed | schedule");
    assert_eq!(build(&pipeline).await.attempt, 2);
}

#[tokio::test]
async fn rule_13_h12_h18_built_means_that_both_binaries_are_there() {
    let world = World::new().await;
    queued(&world, &[1]).await;
    let pipeline = world.pipeline("a").await;
    let claim = build(&pipeline).await;
    for there in [None, Some(BinaryKind::Production)] {
        if let Some(kind) = there {
            world.binary(kind, 1).await;
        }
        let early = pipeline.finish_build(&claim, BuildOutcome::Built).await;
        assert!(
            matches!(&early, Err(FuzzError::Input(why)) if why.contains("not in the store")),
            "{early:?}"
        );
        assert_eq!(world.line().await, "last - | queue 1 | built | failed | schedule");
    }
    world.binary(BinaryKind::Coverage, 1).await;
    pipeline.finish_build(&claim, BuildOutcome::Built).await.unwrap();
    assert_eq!(world.line().await, "last - | queue | built 1 | failed | schedule");
}

#[tokio::test]
async fn rule_15_a_failed_build_is_not_tried_again_by_itself() {
    let world = World::new().await;
    queued(&world, &[1]).await;
    let pipeline = world.pipeline("a").await;
    let claim = build(&pipeline).await;
    pipeline.finish_build(&claim, BuildOutcome::Failed("a.cpp:3: error".into())).await.unwrap();
    assert_eq!(world.line().await, "last - | queue | built | failed 1 | schedule");
    assert_eq!(pipeline.next_build().await.unwrap(), NextBuild::Nothing);
    let status = pipeline.status().await.unwrap();
    assert_eq!(status.failed[0].1.as_deref(), Some("a.cpp:3: error"));
    assert_eq!(pipeline.retry(&hash(1)).await.unwrap(), Enqueued::Added);
    assert_eq!(world.line().await, "last - | queue 1 | built | failed | schedule");
    assert!(matches!(pipeline.retry(&hash(2)).await, Err(FuzzError::Input(_))));
}

#[tokio::test]
async fn h14_trouble_is_tried_three_times_and_then_failed_with_its_reason() {
    let world = World::new().await;
    queued(&world, &[1, 2]).await;
    let pipeline = world.pipeline("a").await;
    for attempt in 1..=3 {
        let claim = build(&pipeline).await;
        // A poison head does not block the queue: it fails for good.
        assert_eq!((claim.hash.clone(), claim.attempt), (hash(1), attempt));
        pipeline.finish_build(&claim, BuildOutcome::Trouble("disk full".into())).await.unwrap();
    }
    assert_eq!(world.line().await, "last - | queue 2 | built | failed 1 | schedule");
    let status = pipeline.status().await.unwrap();
    let reason = status.failed[0].1.clone().unwrap();
    assert!(reason.contains("3 attempts") && reason.contains("disk full"), "{reason}");
    // Asked for again it has three new attempts.
    pipeline.retry(&hash(1)).await.unwrap();
    world.write(FileName::BuildQueue, &format!("{{\"queue\": [\"{}\"]}}", hash(1))).await;
    let claim = build(&pipeline).await;
    pipeline.finish_build(&claim, BuildOutcome::Trouble("disk full".into())).await.unwrap();
    assert_eq!(world.line().await, "last - | queue 1 | built | failed | schedule");
}

#[tokio::test]
async fn h14_builders_that_die_count_as_trouble() {
    let world = World::new().await;
    queued(&world, &[1]).await;
    let pipeline = world.pipeline("a").await;
    for _ in 0..3 {
        build(&pipeline).await;
        world.pass_time(6 * MINUTE);
    }
    assert_eq!(pipeline.next_build().await.unwrap(), NextBuild::Nothing);
    assert_eq!(world.line().await, "last - | queue | built | failed 1 | schedule");
}

#[tokio::test]
async fn a_result_whose_bringer_died_half_way_is_brought_home_by_the_next() {
    let world = World::new().await;
    queued(&world, &[1, 2]).await;
    world.binaries(1).await;
    let pipeline = world.pipeline("a").await;
    build(&pipeline).await;
    // As if it had died between ending its claim and changing the files.
    let key = format!("{}{}.json", pipeline.keys().claims(), hash(1));
    let object = pipeline.bucket().get(&key).await.unwrap().unwrap();
    let mut record: serde_json::Value = serde_json::from_slice(&object.bytes).unwrap();
    record["ending"] = serde_json::json!({"end": "built"});
    record["ended_at"] = serde_json::json!(5_000);
    let always = cadran_fuzz::Condition::Always;
    pipeline.bucket().put(&key, record.to_string().as_bytes(), &always).await.unwrap();
    assert_eq!(build(&world.pipeline("b").await).await.hash, hash(2));
    assert_eq!(world.line().await, "last - | queue 2 | built 1 | failed | schedule");
}

#[tokio::test]
async fn a_cancelled_commit_is_not_brought_back_by_its_result() {
    let world = World::new().await;
    queued(&world, &[1]).await;
    world.binaries(1).await;
    let pipeline = world.pipeline("a").await;
    let claim = build(&pipeline).await;
    world.write(FileName::BuildQueue, "{\"queue\": []}").await;
    pipeline.finish_build(&claim, BuildOutcome::Built).await.unwrap();
    assert_eq!(world.line().await, "last - | queue | built | failed | schedule");
    assert_eq!(world.words(Some(1)).await, ["queued", "result_dropped"]);
}

#[tokio::test]
async fn rule_20_h24_a_commit_without_binaries_is_passed_over() {
    let world = World::new().await;
    world.write(FileName::Schedule, &schedule_text(&[(1, 0), (2, 0), (3, 1)])).await;
    let pipeline = world.pipeline("f").await;
    assert_eq!(pipeline.next_fuzz().await.unwrap(), None);
    world.binary(BinaryKind::Production, 1).await;
    world.binaries(3).await;
    // H18: one binary is none.
    assert_eq!(pipeline.next_fuzz().await.unwrap().unwrap().hash, hash(3));
    world.binaries(2).await;
    assert_eq!(pipeline.next_fuzz().await.unwrap().unwrap().hash, hash(2));
    assert_eq!(pipeline.next_fuzz().await.unwrap(), None);
}

#[tokio::test]
async fn rule_22_h26_two_fuzzers_never_have_the_same_commit_and_the_count_rises_once() {
    for kind in [Kind::Directory, Kind::S3] {
        let Some(world) = World::on(kind).await else { continue };
        world.write(FileName::Schedule, &schedule_text(&[(1, 0), (2, 0)])).await;
        world.binaries(1).await;
        world.binaries(2).await;
        let (one, two) = (world.pipeline("one").await, world.pipeline("two").await);
        let first = one.next_fuzz().await.unwrap().unwrap();
        let second = two.next_fuzz().await.unwrap().unwrap();
        assert_eq!((&first.hash, &second.hash), (&hash(1), &hash(2)));
        one.finish_fuzz(&first, FuzzOutcome::Fuzzed).await.unwrap();
        assert_eq!(world.line().await, "last - | queue | built | failed | schedule 1:1 2:0");
        let again = one.finish_fuzz(&first, FuzzOutcome::Fuzzed).await;
        assert!(matches!(again, Err(FuzzError::Stale(_))), "{again:?}");
        assert_eq!(world.line().await, "last - | queue | built | failed | schedule 1:1 2:0");
    }
}

#[tokio::test]
async fn h26_a_count_that_was_raised_before_a_crash_is_not_raised_again() {
    let world = World::new().await;
    world.write(FileName::Schedule, &schedule_text(&[(1, 3)])).await;
    world.binaries(1).await;
    let pipeline = world.pipeline("f").await;
    let claim = pipeline.next_fuzz().await.unwrap().unwrap();
    // The claim says where the count goes; the schedule is there already; the claim was not closed.
    let key = format!("{}{}.fuzz.json", pipeline.keys().claims(), claim.hash);
    let object = pipeline.bucket().get(&key).await.unwrap().unwrap();
    let mut record: serde_json::Value = serde_json::from_slice(&object.bytes).unwrap();
    record["ending"] = serde_json::json!({"end": "fuzzed", "raise_to": 4});
    let always = cadran_fuzz::Condition::Always;
    pipeline.bucket().put(&key, record.to_string().as_bytes(), &always).await.unwrap();
    world.write(FileName::Schedule, &schedule_text(&[(1, 4)])).await;
    pipeline.next_fuzz().await.unwrap();
    assert_eq!(world.line().await, "last - | queue | built | failed | schedule 1:4");
}

#[tokio::test]
async fn rule_23_h27_a_run_that_dies_does_not_count_and_goes_back_after_three() {
    let world = World::new().await;
    world.write(FileName::Schedule, &schedule_text(&[(1, 0), (2, 0)])).await;
    world.binaries(1).await;
    world.binaries(2).await;
    let pipeline = world.pipeline("f").await;
    for _ in 0..3 {
        let claim = pipeline.next_fuzz().await.unwrap().unwrap();
        assert_eq!(claim.hash, hash(1));
        pipeline.finish_fuzz(&claim, FuzzOutcome::Died("no coverage map".into())).await.unwrap();
    }
    assert_eq!(world.line().await, "last - | queue | built | failed | schedule 1:0 2:0");
    assert_eq!(world.words(Some(1)).await, ["fuzz_died", "fuzz_died", "fuzz_moved_back"]);
    let claim = pipeline.next_fuzz().await.unwrap().unwrap();
    assert_eq!(claim.hash, hash(2));
    pipeline.finish_fuzz(&claim, FuzzOutcome::Fuzzed).await.unwrap();
    // Within its class it has its turn.
    assert_eq!(pipeline.next_fuzz().await.unwrap().unwrap().hash, hash(1));
}

#[tokio::test]
async fn rule_24_h28_a_manual_fuzz_without_binaries_is_built_first() {
    let world = World::new().await;
    let pipeline = world.pipeline("person").await;
    queued(&world, &[5]).await;
    assert_eq!(pipeline.schedule(&hash(1)).await.unwrap(), Scheduled::AfterBuild);
    assert_eq!(world.line().await, "last - | queue 1 5 | built | failed | schedule");
    world.binaries(2).await;
    assert_eq!(pipeline.schedule(&hash(2)).await.unwrap(), Scheduled::Now);
    assert_eq!(pipeline.schedule(&hash(2)).await.unwrap(), Scheduled::Now);
    assert_eq!(world.line().await, "last - | queue 1 5 | built | failed | schedule 2:0");
    let claim = pipeline.claim_fuzz(&hash(2)).await.unwrap();
    let twice = pipeline.claim_fuzz(&hash(2)).await;
    assert!(matches!(twice, Err(FuzzError::Input(_))), "{twice:?}");
    pipeline.release(&claim).await.unwrap();
    assert_eq!(pipeline.claim_fuzz(&hash(2)).await.unwrap().attempt, 2);
}

#[tokio::test]
async fn a_commit_can_be_retested_and_built_by_name() {
    let world = World::new().await;
    let pipeline = world.pipeline("person").await;
    world.write(FileName::Schedule, &schedule_text(&[(1, 0), (2, 5)])).await;
    world.binaries(2).await;
    assert_eq!(pipeline.retest(&hash(2)).await.unwrap(), Scheduled::Now);
    assert_eq!(world.line().await, "last - | queue | built | failed | schedule 2:0 1:0");
    assert_eq!(pipeline.retest(&hash(1)).await.unwrap(), Scheduled::AfterBuild);
    assert_eq!(world.line().await, "last - | queue 1 | built | failed | schedule 2:0");
    let claim = pipeline.claim_build(&hash(7)).await.unwrap();
    assert_eq!(world.line().await, "last - | queue 7 1 | built | failed | schedule 2:0");
    assert!(matches!(pipeline.claim_build(&hash(7)).await, Err(FuzzError::Input(_))));
    world.binaries(7).await;
    pipeline.finish_build(&claim, BuildOutcome::Built).await.unwrap();
    assert_eq!(world.line().await, "last - | queue 1 | built 7 | failed | schedule 2:0");
}

#[tokio::test]
async fn rule_29_coalesced_commits_leave_with_the_build_that_stands_for_them() {
    let mut world = World::new().await;
    world.target.overload = cadran_fuzz::Overload::Coalesce;
    world.target.budgets.slots_per_day = 1;
    queued(&world, &[1, 2, 3]).await;
    let pipeline = world.pipeline("a").await;
    let claim = build(&pipeline).await;
    assert_eq!((claim.hash.clone(), claim.covers.len()), (hash(3), 2));
    // While it is built nobody else builds what it stands for.
    assert_eq!(pipeline.next_build().await.unwrap(), NextBuild::Nothing);
    world.binaries(3).await;
    pipeline.finish_build(&claim, BuildOutcome::Built).await.unwrap();
    assert_eq!(world.line().await, "last - | queue | built 3 | failed | schedule");
    assert_eq!(world.words(Some(1)).await, ["queued", "coalesced"]);
    queued(&world, &[4]).await;
    assert_eq!(pipeline.next_build().await.unwrap(), NextBuild::Hold { waiting: 1 });
}

#[tokio::test]
async fn a_claim_that_cannot_be_read_is_nobodys() {
    let world = World::new().await;
    queued(&world, &[1]).await;
    let pipeline = world.pipeline("a").await;
    let claim = build(&pipeline).await;
    let key = format!("{}{}.json", pipeline.keys().claims(), hash(1));
    pipeline.bucket().put(&key, b"{\"hash\": ", &cadran_fuzz::Condition::Always).await.unwrap();
    assert_eq!(build(&pipeline).await.hash, hash(1));
    let stale = pipeline.finish_build(&claim, BuildOutcome::Failed("x".into())).await;
    assert!(matches!(stale, Err(FuzzError::Stale(_))), "{stale:?}");
}

#[tokio::test]
async fn a_kept_claim_is_renewed_and_its_loss_is_told() {
    let mut world = World::new().await;
    world.target.lease = std::time::Duration::from_millis(300);
    queued(&world, &[1]).await;
    let pipeline = world.pipeline("a").await;
    let claim = build(&pipeline).await;
    let mut keeper = pipeline.keep(&claim);
    assert!(!keeper.is_lost());
    // The clock of the test stands still while the renewals go on; another owner is what they meet.
    let key = format!("{}{}.json", pipeline.keys().claims(), hash(1));
    pipeline.bucket().put(&key, b"{}", &cadran_fuzz::Condition::Always).await.unwrap();
    let why = keeper.lost().await;
    assert!(why.contains("attempt 1"), "{why}");
    assert!(keeper.is_lost());
}
