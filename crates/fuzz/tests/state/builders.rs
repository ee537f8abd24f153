//! Builders that are killed: real processes, SIGKILL at random moments of a build. Every commit is built to an end, once.
//!
//! What the builders did is read from what they printed, and held against the files and the event log.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cadran_fuzz::{
    BinaryKind, Bucket, BucketOptions, BuildOutcome, Condition, FileName, FuzzError, Layout, NextBuild,
    Pipeline, Target, TargetName,
};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::support::{Kind, World, hash, server};

const BUILDERS: usize = 8;

/// Commits of one run; `cargo xtask fuzzing builders` builds 100. Two kills for each of them.
fn commits() -> u32 {
    std::env::var("CADRAN_BUILDERS_COMMITS").ok().and_then(|text| text.parse().ok()).unwrap_or(12)
}

/// Set for the builder processes: the URL of the store, and the layout.
const STORE: &str = "CADRAN_TEST_BUILDER_STORE";
const LAYOUT: &str = "CADRAN_TEST_BUILDER_LAYOUT";

fn target(layout: Layout) -> Target {
    let mut target = Target::new(TargetName::new("cvc5").unwrap(), "nowhere", "main");
    target.layout = layout;
    target.lease = Duration::from_secs(2);
    // Here a builder's death says nothing about the commit.
    target.limits.build_attempts = 10_000;
    target
}

#[allow(clippy::disallowed_methods)] // processes that share a store need the clock they share
fn wall() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

async fn open(url: &str, layout: Layout, actor: String) -> Pipeline {
    let options =
        if url.starts_with("s3:") { server("CADRAN_TEST_S3").unwrap().1 } else { BucketOptions::default() };
    let bucket = Bucket::open(url, &options).await.unwrap();
    Pipeline::open(bucket, target(layout), Arc::new(wall), actor).await.unwrap()
}

/// A builder process, started by the tests below; by itself it does nothing.
#[tokio::test]
async fn a_builder() {
    let Ok(url) = std::env::var(STORE) else { return };
    let second = std::env::var(LAYOUT).is_ok_and(|layout| layout == Layout::V2.as_str());
    let layout = if second { Layout::V2 } else { Layout::V1 };
    let pipeline = open(&url, layout, format!("builder {}", std::process::id())).await;
    loop {
        let claim = match pipeline.next_build().await.unwrap() {
            NextBuild::Build(claim) => claim,
            NextBuild::Nothing | NextBuild::Hold { .. } => {
                if pipeline.status().await.unwrap().queue.is_empty() {
                    return;
                }
                // Others hold what is left; one of them may die.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        println!("\nstart {} {}", claim.hash, claim.attempt);
        let keeper = pipeline.keep(&claim);
        let built = Command::new("sh").args(["-c", "sleep 0.05"]).status().await.unwrap();
        assert!(built.success());
        for kind in BinaryKind::ALL {
            let key = pipeline.keys().binary(kind, claim.hash.as_str());
            pipeline.bucket().put(&key, claim.owner().as_bytes(), &Condition::Always).await.unwrap();
        }
        drop(keeper);
        match pipeline.finish_build(&claim, BuildOutcome::Built).await {
            Ok(()) => println!("\nfinish {} {}", claim.hash, claim.attempt),
            Err(FuzzError::Stale(_)) => println!("\nstale {} {}", claim.hash, claim.attempt),
            Err(other) => panic!("{other}"),
        }
    }
}

/// What the builders said.
#[derive(Default)]
struct Said {
    starts: BTreeMap<String, Vec<u32>>,
    finishes: BTreeMap<String, u32>,
    stale: u32,
}

async fn killed(kind: Kind, layout: Layout) {
    let Some(mut world) = World::on(kind).await else { return };
    world.target.layout = layout;
    let commits = commits();
    let queue: Vec<String> = (0..commits).map(|number| format!("\"{}\"", hash(number))).collect();
    world.write(FileName::BuildQueue, &format!("{{\"queue\": [{}]}}", queue.join(", "))).await;
    let url = world.fixture.url.clone();
    let kills_max = 2 * commits;
    let kills = Arc::new(AtomicU32::new(0));
    let said = Arc::new(Mutex::new(Said::default()));
    let builders = (0..BUILDERS).map(|number| {
        let (url, kills, said) = (url.clone(), Arc::clone(&kills), Arc::clone(&said));
        tokio::spawn(async move { keep_building(number, (&url, layout), kills_max, &kills, &said).await })
    });
    for builder in futures::future::join_all(builders).await {
        builder.unwrap();
    }
    let pipeline = open(&url, layout, "checker".into()).await;
    // Whatever died half way is brought home by whoever comes next.
    assert_eq!(pipeline.next_build().await.unwrap(), NextBuild::Nothing);
    let status = pipeline.status().await.unwrap();
    assert!(status.queue.is_empty() && status.failed.is_empty());
    let mut built = status.built;
    built.sort();
    assert_eq!(built, (0..commits).map(|number| hash(number).to_string()).collect::<Vec<_>>());
    let mut ends: BTreeMap<String, u32> = BTreeMap::new();
    for event in status.events.iter().filter(|event| event.what == "built") {
        *ends.entry(event.hash.clone()).or_default() += 1;
    }
    assert_eq!(ends.len() as u32, commits, "every commit was built to an end");
    assert!(ends.values().all(|count| *count == 1), "and none twice: {ends:?}");
    let said = said.lock().unwrap();
    assert!(said.finishes.values().all(|count| *count == 1), "{:?}", said.finishes);
    for (hash, attempts) in &said.starts {
        let mut rising = attempts.clone();
        rising.sort_unstable();
        rising.dedup();
        assert_eq!(rising.len(), attempts.len(), "no attempt of {hash} was given twice: {attempts:?}");
    }
    let starts: usize = said.starts.values().map(Vec::len).sum();
    println!(
        "{kind:?}, {layout:?}: {commits} commits, {} kills, {starts} starts: {} built, once each; {} results came too late and were refused",
        kills.load(Ordering::Relaxed),
        ends.len(),
        said.stale
    );
}

/// One builder after another, each killed at some moment after it began a build, until there were enough kills.
async fn keep_building(
    number: usize,
    (url, layout): (&str, Layout),
    kills_max: u32,
    kills: &AtomicU32,
    said: &Mutex<Said>,
) {
    let mut chance = Chance(0x5bd1_e995 + number as u64);
    loop {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "builders::a_builder", "--nocapture"])
            .env(STORE, url)
            .env(LAYOUT, layout.as_str())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // After so many starts of a build it dies, so long into it.
        let lives = u64::from(chance.below(4) == 0);
        let delay = Duration::from_millis(chance.below(150));
        let mut begun = 0;
        let mut dying = std::pin::pin!(futures::future::OptionFuture::default());
        let killed = loop {
            tokio::select! {
                line = lines.next_line() => {
                    let Some(line) = line.unwrap() else { break false };
                    if note(&line, said) {
                        begun += 1;
                        if begun == lives + 1 && kills.load(Ordering::Relaxed) < kills_max {
                            dying.set(Some(tokio::time::sleep(delay)).into());
                        }
                    }
                }
                Some(()) = &mut dying => break true,
            }
        };
        if killed {
            child.kill().await.unwrap();
            kills.fetch_add(1, Ordering::Relaxed);
            // What it said before it died counts.
            while let Ok(Some(line)) = lines.next_line().await {
                note(&line, said);
            }
        } else {
            assert!(child.wait().await.unwrap().success(), "a builder failed by itself");
            return;
        }
    }
}

/// Whether a build was begun.
fn note(line: &str, said: &Mutex<Said>) -> bool {
    let mut said = said.lock().unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["start", hash, attempt] => {
            said.starts.entry(hash.to_string()).or_default().push(attempt.parse().unwrap());
            true
        }
        ["finish", hash, _] => {
            *said.finishes.entry(hash.to_string()).or_default() += 1;
            false
        }
        ["stale", ..] => {
            said.stale += 1;
            false
        }
        _ => false,
    }
}

/// Moments that look random.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rule_12_eight_builders_and_many_kills_in_a_directory() {
    killed(Kind::Directory, Layout::V1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rule_12_eight_builders_and_many_kills_on_s3() {
    killed(Kind::S3, Layout::V1).await;
}

/// Here a commit moves between two objects, and builders die between two puts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rule_12_eight_builders_and_many_kills_in_the_second_layout() {
    killed(Kind::Directory, Layout::V2).await;
}
