//! The second layout: other names, a queue file with `queue` only, and the same life.

use cadran_fuzz::{
    Bucket, BuildOutcome, Claim, Condition, FileName, FuzzError, FuzzOutcome, Layout, NextBuild, Pipeline,
};

use crate::support::{Kind, MINUTE, Story, World, hash};

const BESIDE: &str = "solvers/cvc5/fuzzing-state/v2/builds.json";

async fn second(kind: Kind) -> Option<World> {
    let mut world = World::on(kind).await?;
    world.target.layout = Layout::V2;
    Some(world)
}

async fn build(pipeline: &Pipeline) -> Claim {
    let NextBuild::Build(claim) = pipeline.next_build().await.unwrap() else { panic!("nothing to build") };
    claim
}

async fn text(bucket: &Bucket, key: &str) -> String {
    let object = bucket.get(key).await.unwrap();
    object.map(|object| String::from_utf8(object.bytes).unwrap()).unwrap_or_default()
}

async fn a_life(kind: Kind) {
    let Some(world) = second(kind).await else { return };
    let story = Story::of(1..=4);
    let manager = world.pipeline("manager").await;
    manager.manage(&story).await.unwrap();
    world.binaries(1).await;
    for outcome in [BuildOutcome::Built, BuildOutcome::Failed("no".into())] {
        manager.finish_build(&build(&manager).await, outcome).await.unwrap();
    }
    assert_eq!(world.line().await, "last 4 | queue 3 4 | built 1 | failed 2 | schedule");
    let queue: serde_json::Value = serde_json::from_str(&world.text(FileName::BuildQueue).await).unwrap();
    assert_eq!(queue, serde_json::json!({"queue": [hash(3).as_str(), hash(4).as_str()]}));

    world.pass_time(15 * MINUTE);
    assert!(manager.manage(&story).await.unwrap().handed_over == 1);
    let claim = manager.next_fuzz().await.unwrap().unwrap();
    manager.finish_fuzz(&claim, FuzzOutcome::Fuzzed).await.unwrap();
    manager.retry(&hash(2)).await.unwrap();
    assert_eq!(world.line().await, "last 4 | queue 3 4 2 | built | failed | schedule 1:1");

    world.pass_time(15 * MINUTE);
    assert_eq!(manager.manage(&story).await.unwrap().events, [], "what we did ourselves is no edit");
    let keys = manager.bucket().list("solvers/cvc5/", None).await.unwrap();
    for name in ["fuzzing-state/statev2.json", "fuzzing-state/build-queue-v2.json"] {
        assert!(keys.iter().any(|one| one.key.ends_with(name)), "{name}: {keys:?}");
    }
    let first = ["/state.json", "/build-queue.json", "/fuzzing-schedule.json", "/fuzzing-state/ledger.json"];
    assert!(!keys.iter().any(|one| first.iter().any(|name| one.key.ends_with(name))), "{keys:?}");
}

#[tokio::test]
async fn a_life_in_a_directory() {
    a_life(Kind::Directory).await;
}

#[tokio::test]
async fn a_life_on_s3() {
    a_life(Kind::S3).await;
}

#[tokio::test]
async fn the_layouts_of_one_target_do_not_meet() {
    let mut world = second(Kind::Directory).await.unwrap();
    let story = Story::of(1..=2);
    world.pipeline("manager").await.manage(&story).await.unwrap();
    world.target.layout = Layout::V1;
    assert_eq!(world.line().await, "last - | queue | built | failed | schedule");
    let pass = world.pipeline("manager").await.manage(&story).await.unwrap();
    assert_eq!(pass.queued.len(), 2);
}

/// Whoever dies between the two puts leaves a commit in both objects.
#[tokio::test]
async fn a_death_between_two_puts_is_made_good() {
    let world = second(Kind::Directory).await.unwrap();
    let pipeline = world.pipeline("a").await;
    pipeline.enqueue(&hash(1), false).await.unwrap();
    pipeline.enqueue(&hash(2), false).await.unwrap();

    // Out of the queue: it came to `built`, and its builder died.
    world.binaries(1).await;
    let claim = build(&pipeline).await;
    let key = format!("{}{}.json", pipeline.keys().claims(), claim.hash);
    let mut record: serde_json::Value = serde_json::from_str(&text(pipeline.bucket(), &key).await).unwrap();
    record["ending"] = serde_json::json!({"end": "built"});
    pipeline.bucket().put(&key, record.to_string().as_bytes(), &Condition::Always).await.unwrap();
    let built = format!("{{\"built\": [\"{}\"]}}", hash(1));
    pipeline.bucket().put(BESIDE, built.as_bytes(), &Condition::Always).await.unwrap();
    let claim = build(&world.pipeline("b").await).await;
    assert_eq!(claim.hash, hash(2));
    assert_eq!(world.line().await, "last - | queue 2 | built 1 | failed | schedule");

    // Into the queue: it is there, and whoever put it there died before it left `failed`.
    pipeline.finish_build(&claim, BuildOutcome::Failed("no".into())).await.unwrap();
    let failed = text(pipeline.bucket(), BESIDE).await;
    pipeline.retry(&hash(2)).await.unwrap();
    pipeline.bucket().put(BESIDE, failed.as_bytes(), &Condition::Always).await.unwrap();
    world.binaries(2).await;
    pipeline.finish_build(&build(&pipeline).await, BuildOutcome::Built).await.unwrap();
    assert_eq!(world.line().await, "last - | queue | built 1 2 | failed | schedule");
}

#[tokio::test]
async fn what_stands_beside_is_restored_like_the_files() {
    let story = Story::of(1..=3);
    for breakage in [Some("{\"built\": 5}"), Some("{\"failed\": [\""), Some(""), None] {
        let world = second(Kind::Directory).await.unwrap();
        let manager = world.pipeline("manager").await;
        manager.manage(&story).await.unwrap();
        let claim = build(&manager).await;
        manager.finish_build(&claim, BuildOutcome::Failed("no".into())).await.unwrap();
        manager.manage(&story).await.unwrap();
        let lived = "last 3 | queue 2 3 | built | failed 1 | schedule";
        assert_eq!(world.line().await, lived);
        world.pass_time(15 * MINUTE);
        match breakage {
            Some(bytes) => {
                manager.bucket().put(BESIDE, bytes.as_bytes(), &Condition::Always).await.unwrap();
                let broken = manager.next_build().await;
                assert!(matches!(broken, Err(FuzzError::Broken(_))), "{breakage:?}: {broken:?}");
            }
            None => manager.bucket().delete(BESIDE).await.unwrap(),
        }
        let pass = manager.manage(&story).await.unwrap();
        let words: Vec<&str> = pass.events.iter().map(|event| event.what.as_str()).collect();
        assert_eq!(words, ["restored"], "{breakage:?}: {:?}", pass.events);
        assert_eq!(world.line().await, lived, "{breakage:?}");
    }
}
