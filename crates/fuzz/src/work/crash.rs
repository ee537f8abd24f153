//! Crashes in buckets: one object per bucket with what is known, its smallest input beside it.

use serde::{Deserialize, Serialize};

use super::pass_runner::PassRunner;
use super::{CrashSignature, Frame};
use crate::state_file::ConflictRetry;
use crate::{CommitHash, Condition, Failure, FuzzError, Put};

/// What is known of one bucket: crashes that have their first project frame in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crash {
    /// Twelve digits made from the frame.
    pub id: String,
    /// For people; may be edited.
    pub title: String,
    /// As in `heap-buffer-overflow`.
    pub kind: String,
    /// What names the bucket; without one it belongs to its commit alone.
    pub frame: Option<Frame>,
    /// How it stands.
    pub status: CrashStatus,
    /// Where it was seen first.
    pub first_commit: String,
    /// When, milliseconds since the epoch.
    pub first_seen_at: i64,
    /// Where it was seen last.
    pub last_commit: String,
    /// When.
    pub last_seen_at: i64,
    /// Crashing inputs that fell into it.
    pub sightings: u64,
    /// Tries of the kept input that crashed.
    pub reproduced: u32,
    /// Tries.
    pub tries: u32,
    /// Bytes of the kept input.
    pub input_bytes: u64,
    /// Whether it was made smaller.
    pub minimised: bool,
    /// The commit that brought it, once it was looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub introduced: Option<Boundary>,
    /// The commit that mended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed: Option<Boundary>,
    /// The bucket that takes its sightings, when a person said that both are one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged_into: Option<String>,
}

/// How a bucket stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrashStatus {
    /// It crashes.
    Open,
    /// It was seen, and did not crash again when it was tried.
    Unconfirmed,
    /// It crashed, and a later commit does not.
    Fixed,
}

impl CrashStatus {
    /// As shown.
    pub const fn word(self) -> &'static str {
        match self {
            CrashStatus::Open => "open",
            CrashStatus::Unconfirmed => "unconfirmed",
            CrashStatus::Fixed => "fixed",
        }
    }
}

/// Between which commits something changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boundary {
    /// The first commit that behaves the new way, of those that were tried.
    pub commit: String,
    /// The last that behaves the old way; `None` when all that were tried behave the new way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Commits between the two that could not be tried. Empty: it was `commit` and no other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untried: Vec<String>,
    /// When this was found out.
    pub found_at: i64,
}

/// A crash that was tried again.
#[derive(Clone, Debug)]
pub(crate) struct Tried {
    pub(crate) signature: CrashSignature,
    pub(crate) input: Vec<u8>,
    pub(crate) reproduced: u32,
    pub(crate) tries: u32,
    pub(crate) minimised: bool,
    pub(crate) report: Vec<u8>,
}

/// Buckets of one target. More are a fuzzer that invents them.
const CRASHES_MAX: usize = 10_000;

/// How often one bucket may lead to the next.
const MERGES_MAX: usize = 16;

/// The bucket of a signature: by its frame, or of this commit alone.
pub(crate) fn bucket_of(signature: &CrashSignature, commit: &CommitHash) -> String {
    let text = match &signature.frame {
        Some(frame) => format!("frame\n{}\n{}", frame.function, frame.file),
        None => format!("commit\n{commit}"),
    };
    blake3::hash(text.as_bytes()).to_hex().as_str()[..12].to_owned()
}

impl PassRunner {
    /// Every bucket, newest signature first.
    pub async fn crashes(&self) -> Result<Vec<Crash>, FuzzError> {
        let mut crashes = Vec::new();
        for object in self.bucket().list(&self.keys().other("crashes/"), None).await? {
            if crashes.len() >= CRASHES_MAX || !object.key.ends_with("/crash.json") {
                continue;
            }
            if let Some(object) = self.bucket().get(&object.key).await?
                && let Ok(crash) = serde_json::from_slice::<Crash>(&object.bytes)
            {
                crashes.push(crash);
            }
        }
        crashes.sort_by(|a, b| b.last_seen_at.cmp(&a.last_seen_at).then_with(|| a.id.cmp(&b.id)));
        Ok(crashes)
    }

    /// The bucket that begins with these digits.
    pub async fn crash(&self, digits: &str) -> Result<Crash, FuzzError> {
        let unknown =
            || FuzzError::Input(format!("there is no crash {digits:?}; `cadran fuzz crashes` lists them"));
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(unknown());
        }
        let crashes = self.crashes().await?;
        let mut meant = crashes.into_iter().filter(|crash| crash.id.starts_with(digits));
        match (meant.next(), meant.next()) {
            (Some(crash), None) => Ok(crash),
            (None, _) => Err(unknown()),
            (Some(_), Some(_)) => {
                Err(FuzzError::Input(format!("{digits} stands for several crashes; give more digits")))
            }
        }
    }

    /// The kept input of a bucket.
    pub async fn crash_input(&self, id: &str) -> Result<Vec<u8>, FuzzError> {
        let key = self.crash_key(id, "input");
        match self.bucket().get(&key).await? {
            Some(object) => Ok(object.bytes),
            None => Err(FuzzError::Input(format!("the input of crash {id} is not in the store"))),
        }
    }

    /// What the program printed when it crashed.
    pub async fn crash_report(&self, id: &str) -> Result<Vec<u8>, FuzzError> {
        let object = self.bucket().get(&self.crash_key(id, "report.txt")).await?;
        Ok(object.map(|object| object.bytes).unwrap_or_default())
    }

    /// Changes a bucket; `change` may be called several times.
    pub async fn edit_crash(
        &self,
        id: &str,
        mut change: impl FnMut(Option<Crash>) -> Option<Crash>,
    ) -> Result<Option<Crash>, FuzzError> {
        let key = self.crash_key(id, "crash.json");
        let mut retry = ConflictRetry::new(&key);
        loop {
            let object = self.bucket().get(&key).await?;
            let (known, condition) = match object {
                None => (None, Condition::Absent),
                Some(object) => {
                    let known = serde_json::from_slice::<Crash>(&object.bytes)
                        .map_err(|error| FuzzError::Broken(Failure::new("read", &key, error)))?;
                    (Some(known), Condition::Matches(object.version))
                }
            };
            let Some(next) = change(known.clone()) else { return Ok(known) };
            let bytes = serde_json::to_vec_pretty(&next).unwrap_or_default();
            match self.bucket().put(&key, &bytes, &condition).await? {
                Put::Written(_) => return Ok(Some(next)),
                Put::Conflict => retry.conflict().await?,
            }
        }
    }

    /// Says that two buckets are one: sightings of the first count for the second from now on.
    pub async fn merge_crashes(&self, from: &Crash, into: &Crash) -> Result<(), FuzzError> {
        if from.id == into.id || self.home_of(into.id.clone()).await? == from.id {
            return Err(FuzzError::Input(format!("{} and {} are one bucket already", from.id, into.id)));
        }
        let moved = from.sightings;
        self.edit_crash(&from.id, |known| {
            known.map(|crash| Crash { merged_into: Some(into.id.clone()), ..crash })
        })
        .await?;
        self.edit_crash(&into.id, |known| {
            known.map(|crash| Crash { sightings: crash.sightings.saturating_add(moved), ..crash })
        })
        .await?;
        Ok(())
    }

    /// Puts a crash into its bucket. Returns the bucket, and whether it is new.
    pub(crate) async fn file_crash(
        &self,
        commit: &CommitHash,
        tried: &Tried,
    ) -> Result<(Crash, bool), FuzzError> {
        let id = self.home_of(bucket_of(&tried.signature, commit)).await?;
        let now = self.pipeline.now();
        let confirmed = tried.reproduced > 0;
        let size = tried.input.len() as u64;
        let (mut is_new, mut is_better) = (false, false);
        // The input is there before the word of it.
        let known = self.bucket().get(&self.crash_key(&id, "crash.json")).await?;
        let known = known.and_then(|object| serde_json::from_slice::<Crash>(&object.bytes).ok());
        if known.as_ref().is_none_or(|known| is_improved(known, tried)) {
            self.put_input(&id, tried).await?;
        }
        let crash = self
            .edit_crash(&id, |known| {
                is_new = known.is_none();
                let fresh = || Crash {
                    id: id.clone(),
                    title: tried.signature.title(),
                    kind: tried.signature.kind.clone(),
                    frame: tried.signature.frame.clone(),
                    status: CrashStatus::Unconfirmed,
                    first_commit: commit.to_string(),
                    first_seen_at: now,
                    last_commit: commit.to_string(),
                    last_seen_at: now,
                    sightings: 0,
                    reproduced: 0,
                    tries: 0,
                    input_bytes: u64::MAX,
                    minimised: false,
                    introduced: None,
                    fixed: None,
                    merged_into: None,
                };
                let mut crash = known.unwrap_or_else(fresh);
                crash.sightings = crash.sightings.saturating_add(1);
                (crash.last_commit, crash.last_seen_at) = (commit.to_string(), now);
                if is_improved(&crash, tried) {
                    is_better = true;
                    (crash.reproduced, crash.tries) = (tried.reproduced, tried.tries);
                    (crash.input_bytes, crash.minimised) = (size, tried.minimised);
                }
                if confirmed {
                    // One that was mended and crashes again is open again.
                    crash.status = CrashStatus::Open;
                    crash.fixed = None;
                }
                Some(crash)
            })
            .await?;
        let crash = crash.ok_or_else(|| FuzzError::Input(format!("crash {id} could not be kept")))?;
        Ok((crash, is_new))
    }

    async fn put_input(&self, id: &str, tried: &Tried) -> Result<(), FuzzError> {
        self.bucket().put(&self.crash_key(id, "input"), &tried.input, &Condition::Always).await?;
        self.bucket()
            .put(&self.crash_key(id, "report.txt"), &tried.report, &Condition::Always)
            .await
            .map(drop)
    }

    /// Follows what people have merged.
    async fn home_of(&self, mut id: String) -> Result<String, FuzzError> {
        for _ in 0..MERGES_MAX {
            let object = self.bucket().get(&self.crash_key(&id, "crash.json")).await?;
            let crash = object.and_then(|object| serde_json::from_slice::<Crash>(&object.bytes).ok());
            match crash.and_then(|crash| crash.merged_into) {
                Some(next) => id = next,
                None => break,
            }
        }
        Ok(id)
    }

    fn crash_key(&self, id: &str, name: &str) -> String {
        self.keys().other(&format!("crashes/{id}/{name}"))
    }
}

/// Whether this input is a better witness: more certain, or as certain and smaller.
fn is_improved(known: &Crash, tried: &Tried) -> bool {
    // Compared as fractions without dividing: a of b against c of d.
    let ours = u64::from(tried.reproduced) * u64::from(known.tries.max(1));
    let theirs = u64::from(known.reproduced) * u64::from(tried.tries.max(1));
    ours > theirs || ours == theirs && (tried.input.len() as u64) < known.input_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(frame: Option<(&str, &str)>) -> CrashSignature {
        let frame = frame.map(|(function, file)| Frame { function: function.into(), file: file.into() });
        CrashSignature { kind: "crash".into(), frame }
    }

    #[test]
    fn the_frame_names_the_bucket_and_without_one_the_commit_does() {
        let (a, b) = (CommitHash::full(&"a".repeat(40)), CommitHash::full(&"b".repeat(40)));
        let (a, b) = (a.expect("a hash"), b.expect("a hash"));
        let framed = signature(Some(("f", "a.cpp")));
        assert_eq!(bucket_of(&framed, &a), bucket_of(&framed, &b));
        assert_ne!(bucket_of(&framed, &a), bucket_of(&signature(Some(("g", "a.cpp"))), &a));
        // No sanitiser, no claim of sameness across commits.
        assert_ne!(bucket_of(&signature(None), &a), bucket_of(&signature(None), &b));
        assert_eq!(bucket_of(&signature(None), &a), bucket_of(&signature(None), &a));
    }
}
