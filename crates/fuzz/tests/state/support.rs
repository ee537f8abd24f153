//! Stores, clocks and histories for tests.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use cadran_fuzz::{
    BinaryKind, Bucket, BucketOptions, Commit, CommitHash, Condition, FileName, Files, History, HistoryError,
    Keys, Pipeline, Resolved, Since, Target, TargetName, Walk,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    S3,
}

/// A store of its own: a temporary directory, or a prefix in the bucket of a server.
pub(crate) struct Fixture {
    pub(crate) bucket: Bucket,
    pub(crate) url: String,
    pub(crate) directory: Option<tempfile::TempDir>,
}

impl Fixture {
    /// `None` when the backend is skipped on purpose.
    pub(crate) async fn new(kind: Kind) -> Option<Fixture> {
        let mut options = BucketOptions::default();
        let mut directory = None;
        let url = match kind {
            Kind::Directory => {
                let fresh = tempfile::tempdir().unwrap();
                let url = format!("file://{}", fresh.path().display());
                directory = Some(fresh);
                url
            }
            Kind::S3 => {
                let (place, found) = server("CADRAN_TEST_S3")?;
                options = found;
                format!("s3://{place}/test-{}-{}", std::process::id(), fresh_number())
            }
        };
        let bucket = Bucket::open(&url, &options).await.unwrap();
        Some(Fixture { bucket, url, directory })
    }

    pub(crate) async fn directory() -> Fixture {
        Fixture::new(Kind::Directory).await.unwrap()
    }
}

/// Unique in this process and, with its start, among processes.
fn fresh_number() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let started = std::fs::metadata("/proc/self").and_then(|m| m.modified()).unwrap();
    let started = started.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    format!("{started}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// `http://KEY:SECRET@HOST:PORT/BUCKET` of the environment. Without it the test fails, so that nobody believes it
/// passed, unless S3 is left out on purpose.
pub(crate) fn server(variable: &str) -> Option<(String, BucketOptions)> {
    if std::env::var_os("CADRAN_SKIP_S3").is_some() {
        println!("CADRAN_SKIP_S3 is set: passed over");
        return None;
    }
    let Ok(address) = std::env::var(variable) else {
        panic!(
            "{variable} is not set: scripts/seaweedfs.sh start DIR starts a server; CADRAN_SKIP_S3=1 goes without"
        );
    };
    let rest = address.strip_prefix("http://").expect("http://KEY:SECRET@HOST:PORT/BUCKET");
    let (credentials, place) = rest.split_once('@').expect("KEY:SECRET@");
    let (key, secret) = credentials.split_once(':').expect("KEY:SECRET");
    let (host, bucket) = place.split_once('/').expect("HOST:PORT/BUCKET");
    let options = BucketOptions {
        endpoint: Some(format!("http://{host}")),
        region: Some("us-east-1".into()),
        credentials: Some((key.into(), secret.into())),
        ..BucketOptions::default()
    };
    Some((bucket.trim_end_matches('/').into(), options))
}

/// A target, its store and a clock that the test sets.
pub(crate) struct World {
    pub(crate) fixture: Fixture,
    pub(crate) target: Target,
    pub(crate) clock: Arc<AtomicI64>,
}

/// Where clocks start: 2026-11-16T00:00:00Z.
pub(crate) const START: i64 = 1_794_787_200_000;
pub(crate) const MINUTE: i64 = 60_000;
pub(crate) const HOUR: i64 = 60 * MINUTE;
pub(crate) const DAY: i64 = 24 * HOUR;

impl World {
    pub(crate) async fn new() -> World {
        World::on(Kind::Directory).await.unwrap()
    }

    pub(crate) async fn on(kind: Kind) -> Option<World> {
        let fixture = Fixture::new(kind).await?;
        let target = Target::new(TargetName::new("cvc5").unwrap(), "nowhere", "main");
        Some(World { fixture, target, clock: Arc::new(AtomicI64::new(START)) })
    }

    pub(crate) async fn pipeline(&self, actor: &str) -> Pipeline {
        let clock = Arc::clone(&self.clock);
        let clock: cadran_fuzz::Clock = Arc::new(move || clock.load(Ordering::SeqCst));
        Pipeline::open(self.fixture.bucket.clone(), self.target.clone(), clock, actor).await.unwrap()
    }

    pub(crate) fn pass_time(&self, millis: i64) {
        self.clock.fetch_add(millis, Ordering::SeqCst);
    }

    pub(crate) fn keys(&self) -> Keys {
        Keys::new(&self.target.name, self.target.layout)
    }

    /// Puts both binaries of a commit into the store.
    pub(crate) async fn binaries(&self, number: u32) {
        for kind in BinaryKind::ALL {
            self.binary(kind, number).await;
        }
    }

    pub(crate) async fn binary(&self, kind: BinaryKind, number: u32) {
        let key = self.keys().binary(kind, hash(number).as_str());
        self.fixture.bucket.put(&key, b"binary", &Condition::Always).await.unwrap();
    }

    pub(crate) async fn remove_binary(&self, kind: BinaryKind, number: u32) {
        let key = self.keys().binary(kind, hash(number).as_str());
        self.fixture.bucket.delete(&key).await.unwrap();
    }

    /// Writes a state file by hand.
    pub(crate) async fn write(&self, name: FileName, text: &str) {
        let key = self.keys().file(name);
        self.fixture.bucket.put(&key, text.as_bytes(), &Condition::Always).await.unwrap();
    }

    /// What a state file says, or nothing.
    pub(crate) async fn text(&self, name: FileName) -> String {
        let key = self.keys().file(name);
        let object = self.fixture.bucket.get(&key).await.unwrap();
        object.map(|object| String::from_utf8(object.bytes).unwrap()).unwrap_or_default()
    }

    /// The state in one line, commits by their numbers: `last 3 | queue 1 2 | built | failed 9 | schedule 4:0 5:2`.
    pub(crate) async fn line(&self) -> String {
        let status = self.pipeline("reader").await.status().await.unwrap();
        let list =
            |hashes: &[String]| hashes.iter().map(|hash| format!(" {}", number(hash))).collect::<String>();
        let failed: Vec<String> = status.failed.iter().map(|(hash, _)| hash.clone()).collect();
        let schedule: String =
            status.schedule.iter().map(|(hash, count)| format!(" {}:{count}", number(hash))).collect();
        let last = status.last_checked.map_or("-".into(), |hash| number(&hash));
        format!(
            "last {last} | queue{} | built{} | failed{} | schedule{schedule}",
            list(&status.queue),
            list(&status.built),
            list(&failed)
        )
    }

    /// The words of the log about a commit, or of all of it, in order.
    pub(crate) async fn words(&self, about: Option<u32>) -> Vec<String> {
        let status = self.pipeline("reader").await.status().await.unwrap();
        let wanted = about.map(hash);
        let chosen = status
            .events
            .into_iter()
            .filter(|event| wanted.as_ref().is_none_or(|wanted| event.hash == wanted.as_str()));
        chosen.map(|event| event.what).collect()
    }
}

/// The hash of the commit with this number: easy to read back.
pub(crate) fn hash(number: u32) -> CommitHash {
    CommitHash::full(&format!("{number:08x}{}", "0123456789abcdef".repeat(2))).unwrap()
}

pub(crate) fn number(hash: &str) -> String {
    let digits = hash.get(..8).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    digits.filter(|number| self::hash(*number).as_str() == hash).map_or(hash.into(), |n| n.to_string())
}

pub(crate) fn commit(number: u32, files: &[&str]) -> Commit {
    let files = files.iter().map(ToString::to_string).collect();
    Commit { hash: hash(number), committed_at: START, files: Files::Read(files) }
}

/// A history in memory: commits oldest first, some of them of side branches.
#[derive(Default)]
pub(crate) struct Story {
    pub(crate) commits: Mutex<Vec<Commit>>,
    pub(crate) side: Mutex<BTreeSet<CommitHash>>,
    pub(crate) down: Mutex<bool>,
}

impl Story {
    /// Commits that change a C++ file each.
    pub(crate) fn of(numbers: impl IntoIterator<Item = u32>) -> Story {
        let story = Story::default();
        story.grow(numbers);
        story
    }

    pub(crate) fn grow(&self, numbers: impl IntoIterator<Item = u32>) {
        self.commits.lock().unwrap().extend(numbers.into_iter().map(|number| commit(number, &["src/a.cpp"])));
    }

    pub(crate) fn push(&self, commit: Commit) {
        self.commits.lock().unwrap().push(commit);
    }

    fn seen(&self, walk: Walk) -> Vec<Commit> {
        let side = self.side.lock().unwrap();
        let commits = self.commits.lock().unwrap();
        commits.iter().filter(|one| walk == Walk::All || !side.contains(&one.hash)).cloned().collect()
    }

    fn ask(&self) -> Result<(), HistoryError> {
        if *self.down.lock().unwrap() { Err(HistoryError("no route to host".into())) } else { Ok(()) }
    }
}

impl History for Story {
    async fn head(&self) -> Result<CommitHash, HistoryError> {
        self.ask()?;
        let commits = self.commits.lock().unwrap();
        commits.last().map(|one| one.hash.clone()).ok_or(HistoryError("the branch is empty".into()))
    }

    async fn since(
        &self,
        base: &CommitHash,
        _head: &CommitHash,
        walk: Walk,
        limit: usize,
    ) -> Result<Since, HistoryError> {
        self.ask()?;
        let all = self.commits.lock().unwrap().clone();
        let Some(at) = all.iter().position(|one| one.hash == *base) else { return Ok(Since::UnknownBase) };
        let behind: BTreeSet<CommitHash> = all[at + 1..].iter().map(|one| one.hash.clone()).collect();
        let mut commits = self.seen(walk);
        commits.retain(|one| behind.contains(&one.hash));
        let more = commits.len().saturating_sub(limit) as u64;
        commits.truncate(limit);
        Ok(Since::Commits { commits, more })
    }

    async fn newest(
        &self,
        _head: &CommitHash,
        walk: Walk,
        limit: usize,
    ) -> Result<Vec<Commit>, HistoryError> {
        self.ask()?;
        let mut commits = self.seen(walk);
        commits.reverse();
        commits.truncate(limit);
        Ok(commits)
    }

    async fn resolve(&self, digits: &str) -> Result<Resolved, HistoryError> {
        self.ask()?;
        if digits == "b10bb10b" {
            return Ok(Resolved::NotACommit("blob".into()));
        }
        let commits = self.commits.lock().unwrap();
        let mut found = commits.iter().filter(|one| one.hash.as_str().starts_with(&digits.to_lowercase()));
        Ok(match (found.next(), found.next()) {
            (None, _) => Resolved::Unknown,
            (Some(one), None) => Resolved::Commit(one.clone()),
            _ => Resolved::Ambiguous,
        })
    }
}
