//! What every store does alike. Each case runs on a directory and on S3.

use std::sync::Arc;

use cadran_fuzz::{Bucket, BucketOptions, Condition, FuzzError, Pipeline, Put, Target, TargetName, Version};

use crate::support::{Fixture, Kind, START, hash, server};

/// One case, as a test for each kind of store.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod directory {
            $(#[tokio::test] async fn $name() { super::$name(super::Fixture::directory().await).await; })*
        }
        mod s3 {
            $(#[tokio::test] async fn $name() {
                if let Some(fixture) = super::Fixture::new(super::Kind::S3).await { super::$name(fixture).await; }
            })*
        }
    };
}

on_both!(
    what_is_put_is_got,
    puts_keep_their_conditions,
    a_create_race_has_one_winner,
    deleting_is_deleting,
    listings_are_sorted_and_begin_where_asked,
    whole_files_arrive_whole,
    odd_contents_survive,
    h32_the_probe_accepts_a_store_that_keeps_conditions,
);

fn written(put: Put) -> Version {
    match put {
        Put::Written(version) => version,
        Put::Conflict => panic!("a conflict where none is"),
    }
}

async fn what_is_put_is_got(at: Fixture) {
    let bucket = &at.bucket;
    assert_eq!(bucket.get("a/b.json").await.unwrap(), None);
    let version = written(bucket.put("a/b.json", b"one", &Condition::Always).await.unwrap());
    let got = bucket.get("a/b.json").await.unwrap().unwrap();
    assert_eq!((got.bytes.as_slice(), &got.version), (&b"one"[..], &version));
    let second = written(bucket.put("a/b.json", b"two", &Condition::Always).await.unwrap());
    assert_ne!(version, second);
    assert_eq!(bucket.size("a/b.json").await.unwrap(), Some(3));
    assert_eq!(bucket.size("a/none").await.unwrap(), None);
    assert!(matches!(bucket.get("../a").await, Err(FuzzError::Refused(_))));
    assert!(matches!(bucket.put("a/.lock", b"", &Condition::Always).await, Err(FuzzError::Refused(_))));
}

async fn puts_keep_their_conditions(at: Fixture) {
    let bucket = &at.bucket;
    let first = written(bucket.put("k", b"one", &Condition::Absent).await.unwrap());
    assert_eq!(bucket.put("k", b"two", &Condition::Absent).await.unwrap(), Put::Conflict);
    let second = written(bucket.put("k", b"two", &Condition::Matches(first.clone())).await.unwrap());
    assert_eq!(bucket.put("k", b"three", &Condition::Matches(first.clone())).await.unwrap(), Put::Conflict);
    assert_eq!(bucket.get("k").await.unwrap().unwrap().bytes, b"two");
    // A version that was read does as well as one that was written.
    let read = bucket.get("k").await.unwrap().unwrap().version;
    assert_eq!(read, second);
    written(bucket.put("k", b"three", &Condition::Matches(read)).await.unwrap());
    bucket.delete("k").await.unwrap();
    assert_eq!(bucket.put("k", b"four", &Condition::Matches(second)).await.unwrap(), Put::Conflict);
    assert_eq!(bucket.get("k").await.unwrap(), None);
    written(bucket.put("k", b"five", &Condition::Absent).await.unwrap());
}

async fn a_create_race_has_one_winner(at: Fixture) {
    for round in 0..10 {
        let key = format!("race/{round}");
        let tries = (0..16).map(|who| {
            let (bucket, key) = (at.bucket.clone(), key.clone());
            tokio::spawn(
                async move { bucket.put(&key, format!("{who}").as_bytes(), &Condition::Absent).await },
            )
        });
        let mut winners = 0;
        for tried in futures::future::join_all(tries).await {
            winners += u32::from(matches!(tried.unwrap().unwrap(), Put::Written(_)));
        }
        assert_eq!(winners, 1, "round {round}");
    }
}

async fn deleting_is_deleting(at: Fixture) {
    let bucket = &at.bucket;
    bucket.delete("none").await.unwrap();
    bucket.put("a/b", b"x", &Condition::Always).await.unwrap();
    bucket.delete("a/b").await.unwrap();
    bucket.delete("a/b").await.unwrap();
    assert_eq!(bucket.get("a/b").await.unwrap(), None);
    assert!(bucket.list("a/", None).await.unwrap().is_empty());
}

async fn listings_are_sorted_and_begin_where_asked(at: Fixture) {
    let bucket = &at.bucket;
    for key in ["l/c", "l/a", "l/b/d", "m/a", "l-not/a", "l/b.json"] {
        bucket.put(key, b"12345", &Condition::Always).await.unwrap();
    }
    let keys = |listed: Vec<cadran_fuzz::Listed>| listed.into_iter().map(|one| one.key).collect::<Vec<_>>();
    assert_eq!(keys(bucket.list("l/", None).await.unwrap()), ["l/a", "l/b.json", "l/b/d", "l/c"]);
    assert_eq!(keys(bucket.list("l/", Some("l/a")).await.unwrap()), ["l/b.json", "l/b/d", "l/c"]);
    assert_eq!(keys(bucket.list("l/", Some("l/c")).await.unwrap()), [""; 0]);
    assert_eq!(keys(bucket.list("none/", None).await.unwrap()), [""; 0]);
    assert_eq!(bucket.list("", None).await.unwrap().len(), 6);
    let one = bucket.list("m/", None).await.unwrap().remove(0);
    assert_eq!(one.size, 5);
    assert!(one.modified_at > 1_700_000_000_000, "{}", one.modified_at);
}

async fn whole_files_arrive_whole(at: Fixture) {
    let dir = tempfile::tempdir().unwrap();
    // More than one part of a multipart upload, and nothing at all.
    for (name, size) in [("large", 6 << 20), ("small", 5), ("empty", 0)] {
        let bytes: Vec<u8> = (0..size).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let (from, to) = (dir.path().join(name), dir.path().join(format!("{name}.back")));
        std::fs::write(&from, &bytes).unwrap();
        let key = format!("builds/{name}.tar.gz");
        let sent = at.bucket.upload(&from, &key).await.unwrap();
        let came = at.bucket.download(&key, &to).await.unwrap().unwrap();
        assert_eq!(sent, came);
        assert_eq!(sent.size, u64::from(size));
        assert!(std::fs::read(&to).unwrap() == bytes);
        if size == 0 {
            assert_eq!(sent.sha256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        }
    }
    // Nothing waits under a temporary key, on either side.
    assert!(at.bucket.list("tmp/", None).await.unwrap().is_empty());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 6);
    assert_eq!(at.bucket.download("builds/none", &dir.path().join("none")).await.unwrap(), None);
    assert!(!dir.path().join("none").exists());
    let missing = at.bucket.upload(&dir.path().join("missing"), "builds/x").await;
    assert!(matches!(missing, Err(FuzzError::Input(_))), "{missing:?}");
}

async fn odd_contents_survive(at: Fixture) {
    for (key, bytes) in [("empty", &b""[..]), ("zeros", &[0; 9]), ("text", "é\r\n\u{feff}".as_bytes())] {
        at.bucket.put(key, bytes, &Condition::Always).await.unwrap();
        assert_eq!(at.bucket.get(key).await.unwrap().unwrap().bytes, bytes, "{key}");
    }
    let huge = vec![0; (16 << 20) + 1];
    assert!(matches!(at.bucket.put("huge", &huge, &Condition::Always).await, Err(FuzzError::Refused(_))));
}

async fn h32_the_probe_accepts_a_store_that_keeps_conditions(at: Fixture) {
    at.bucket.probe().await.unwrap();
    assert!(at.bucket.list("tmp/", None).await.unwrap().is_empty());
}

#[tokio::test]
async fn h32_the_probe_refuses_a_store_that_ignores_conditions() {
    let Some((place, options)) = server("CADRAN_TEST_S3_CARELESS") else { return };
    let bucket = Bucket::open(&format!("s3://{place}/probe"), &options).await.unwrap();
    let refused = bucket.probe().await;
    assert!(matches!(refused, Err(FuzzError::NoConditions(_))), "{refused:?}");
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("creates an object again that exists"), "{text}");
    assert!(text.contains("single_writer: true"), "{text}");
}

#[tokio::test]
async fn h32_such_a_store_serves_a_single_writer_and_nobody_else() {
    let Some((place, options)) = server("CADRAN_TEST_S3_CARELESS") else { return };
    let bucket = Bucket::open(&format!("s3://{place}/single"), &options).await.unwrap();
    let mut target = Target::new(TargetName::new("t").unwrap(), "nowhere", "main");
    let clock = || Arc::new(|| START);
    let refused = Pipeline::open(bucket.clone(), target.clone(), clock(), "a").await;
    assert!(matches!(refused, Err(FuzzError::NoConditions(_))), "{refused:?}");
    target.single_writer = true;
    let pipeline = Pipeline::open(bucket, target, clock(), "a").await.unwrap();
    pipeline.enqueue(&hash(1), false).await.unwrap();
    assert_eq!(pipeline.status().await.unwrap().queue, [hash(1).to_string()]);
}

#[tokio::test]
async fn a_bucket_that_is_not_there_is_not_an_empty_one() {
    let Some((_, options)) = server("CADRAN_TEST_S3") else { return };
    let bucket = Bucket::open("s3://no-such-bucket-here/x", &options).await.unwrap();
    for answer in [
        bucket.get("a").await.map(drop),
        bucket.size("a").await.map(drop),
        bucket.list("a/", None).await.map(drop),
        bucket.put("a", b"", &Condition::Matches(Version::of_text("\"0\""))).await.map(drop),
    ] {
        assert!(matches!(answer, Err(FuzzError::Unavailable(_))), "{answer:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_says_nothing_about_objects() {
    let options = BucketOptions {
        endpoint: Some("http://127.0.0.1:9".into()),
        region: None,
        credentials: Some(("key".into(), "secret".into())),
        ..BucketOptions::default()
    };
    let bucket = Bucket::open("s3://bucket/prefix", &options).await.unwrap();
    let answer = bucket.get("a").await;
    assert!(matches!(&answer, Err(error @ FuzzError::Unavailable(_)) if error.is_transient()), "{answer:?}");
}

#[tokio::test]
async fn a_directory_that_vanishes_is_not_an_empty_one() {
    let at = Fixture::directory().await;
    at.bucket.put("a", b"x", &Condition::Always).await.unwrap();
    drop(at.directory);
    for answer in [
        at.bucket.get("a").await.map(drop),
        at.bucket.size("a").await.map(drop),
        at.bucket.list("a/", None).await.map(drop),
        at.bucket.put("a", b"", &Condition::Absent).await.map(drop),
    ] {
        assert!(matches!(answer, Err(FuzzError::Unavailable(_))), "{answer:?}");
    }
}

#[tokio::test]
async fn a_directory_that_is_away_for_a_moment_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}", folder.path().display());
    let open = |retries| {
        let (url, options) = (url.clone(), BucketOptions { retries, ..BucketOptions::default() });
        async move { Bucket::open(&url, &options).await.unwrap() }
    };
    // A file where a folder belongs: nothing can be put there until it is gone.
    let blocker = folder.path().join("a");
    std::fs::write(&blocker, "").unwrap();
    let once = open(0).await.put("a/b", b"x", &Condition::Absent).await;
    assert!(matches!(once, Err(FuzzError::Unavailable(_))), "{once:?}");
    let patient = open(20).await;
    let put = tokio::spawn(async move { patient.put("a/b", b"x", &Condition::Absent).await });
    std::fs::remove_file(&blocker).unwrap();
    assert!(matches!(put.await.unwrap(), Ok(Put::Written(_))));
}

#[tokio::test]
async fn urls_that_name_no_store_are_refused() {
    for (url, why) in [
        ("http://x", "begins neither with s3:// nor with file:///"),
        ("s3://", "no bucket"),
        ("s3://b?port=5", "only endpoint= and region="),
        ("file://relative", "no absolute path"),
        ("file:///no/such/directory", "make it first"),
    ] {
        let text = Bucket::open(url, &BucketOptions::default()).await.unwrap_err().to_string();
        assert!(text.contains(why), "{url}: {text}");
    }
}
