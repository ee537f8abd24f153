//! Who works on which commit, and until when.
//!
//! A claim is an object beside the queue, made and changed by conditional puts alone. It carries a lease and a fencing
//! token. It is never removed while somebody might still look at it: it ends by becoming free, and the clean-up takes it
//! away a day later.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use crate::bucket::{Bucket, Condition, Put, Version, nonce};
use crate::error::{Failure, FuzzError};
use crate::events::Moment;
use crate::keys::Keys;
use crate::{CommitHash, state_file::ConflictRetry};

/// What is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// A build of a commit.
    Build,
    /// A fuzz run of a commit.
    Fuzz,
    /// A pass of the manager.
    Manage,
}

/// The right to work on one commit, for a while. Results are brought back with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What it is for.
    pub work: Work,
    /// The commit.
    pub hash: CommitHash,
    /// Which attempt this is, from 1; also the number of the fencing token.
    pub attempt: u32,
    /// When it ends unless it is renewed, milliseconds since the epoch.
    pub until: i64,
    /// Older commits of the queue that this build stands for as well.
    pub covers: Vec<String>,
    pub(crate) owner: String,
}

impl Claim {
    /// The owner and a number that nobody else has: two claims never look alike.
    pub fn owner(&self) -> &str {
        &self.owner
    }
}

/// How a claim ended, kept in it until the state files say so too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub(crate) enum Ending {
    Built,
    Failed {
        reason: String,
    },
    /// The count that the schedule must have afterwards, so that saying it twice raises it once.
    Fuzzed {
        raise_to: u64,
    },
}

impl Ending {
    /// For people.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Ending::Built => "built",
            Ending::Failed { .. } => "failed",
            Ending::Fuzzed { .. } => "fuzzed",
        }
    }
}

/// A claim as it lies in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) hash: String,
    pub(crate) owner: String,
    pub(crate) attempt: u32,
    #[serde(default)]
    pub(crate) taken_at: i64,
    /// Zero when it is free.
    pub(crate) until: i64,
    /// Attempts since the last end that brought no result.
    #[serde(default)]
    pub(crate) deaths: u32,
    /// Why, of the last of them.
    #[serde(default)]
    pub(crate) trouble: String,
    #[serde(default)]
    pub(crate) covers: Vec<String>,
    #[serde(default)]
    pub(crate) ending: Option<Ending>,
    #[serde(default)]
    pub(crate) ended_at: i64,
    #[serde(default)]
    pub(crate) ended_number: u32,
}

impl Record {
    /// Somebody has it, or its result is on the way into the files.
    pub(crate) fn is_held(&self, now: i64) -> bool {
        self.ending.is_some() || self.until > now
    }

    /// It was held, and its owner did not come back.
    pub(crate) fn is_expired(&self, now: i64) -> bool {
        self.ending.is_none() && self.until != 0 && self.until <= now
    }

    /// Attempts without a result, with the one that has just run out.
    pub(crate) fn deaths_by(&self, now: i64) -> u32 {
        self.deaths.saturating_add(u32::from(self.is_expired(now)))
    }

    fn is_of(&self, claim: &Claim) -> bool {
        self.owner == claim.owner && self.attempt == claim.attempt
    }
}

/// A claim with the version it was read at.
#[derive(Clone, Debug)]
pub(crate) struct VersionedClaim {
    pub(crate) record: Record,
    pub(crate) version: Version,
}

/// Requests under way at once while claims are read.
const READ_AT_ONCE: usize = 8;

pub(crate) struct Claims<'a> {
    pub(crate) bucket: &'a Bucket,
    pub(crate) keys: &'a Keys,
    pub(crate) lease: Duration,
}

impl Claims<'_> {
    fn key(&self, work: Work, hash: &str) -> String {
        let folder = self.keys.claims();
        match work {
            Work::Build => format!("{folder}{hash}.json"),
            Work::Fuzz => format!("{folder}{hash}.fuzz.json"),
            Work::Manage => format!("{folder}manager.json"),
        }
    }

    /// What a key is about; `None` for a file that is no claim.
    pub(crate) fn parse(&self, key: &str) -> Option<(Work, CommitHash)> {
        let name = key.strip_prefix(&self.keys.claims())?.strip_suffix(".json")?;
        match name.strip_suffix(".fuzz") {
            Some(hash) => Some((Work::Fuzz, CommitHash::full(hash)?)),
            None => Some((Work::Build, CommitHash::full(name)?)),
        }
    }

    pub(crate) async fn read(&self, work: Work, hash: &str) -> Result<Option<VersionedClaim>, FuzzError> {
        let Some(object) = self.bucket.get(&self.key(work, hash)).await? else { return Ok(None) };
        // One that cannot be read is nobody's: its owner's renewal will fail, and the next taker replaces it.
        let record = serde_json::from_slice(&object.bytes).unwrap_or_else(|_| Record {
            hash: hash.into(),
            owner: String::new(),
            attempt: 0,
            taken_at: 0,
            until: 0,
            deaths: 0,
            trouble: String::new(),
            covers: Vec::new(),
            ending: None,
            ended_at: 0,
            ended_number: 0,
        });
        Ok(Some(VersionedClaim { record, version: object.version }))
    }

    /// Every claim of one kind of work, by commit. Read before the file it guards: whoever takes a claim that did not
    /// change since then knows that the file did not change behind it either.
    pub(crate) async fn all(&self, work: Work) -> Result<BTreeMap<String, VersionedClaim>, FuzzError> {
        let listed = self.bucket.list(&self.keys.claims(), None).await?;
        let wanted =
            listed.into_iter().filter_map(|one| self.parse(&one.key)).filter(|(kind, _)| *kind == work);
        futures::stream::iter(wanted)
            .map(|(_, hash)| async move {
                let found = self.read(work, hash.as_str()).await?;
                Ok::<_, FuzzError>(found.map(|found| (hash.to_string(), found)))
            })
            .buffered(READ_AT_ONCE)
            .try_filter_map(|found| async { Ok(found) })
            .try_collect()
            .await
    }

    /// Takes a claim that is absent, free or expired. `None` when somebody else was faster.
    pub(crate) async fn take(
        &self,
        work: Work,
        hash: &CommitHash,
        prior: Option<&VersionedClaim>,
        covers: &[String],
        actor: &str,
        now: i64,
    ) -> Result<Option<Claim>, FuzzError> {
        let before = prior.map(|found| &found.record);
        let record = Record {
            hash: hash.to_string(),
            owner: format!("{actor}#{}", nonce()),
            attempt: before.map_or(0, |record| record.attempt).saturating_add(1),
            taken_at: now,
            until: self.until(now),
            deaths: before.map_or(0, |record| record.deaths_by(now)),
            trouble: before.map_or(String::new(), |record| match record.is_expired(now) {
                true => format!("the lease of {} ran out", record.owner),
                false => record.trouble.clone(),
            }),
            covers: covers.to_vec(),
            ending: None,
            ended_at: 0,
            ended_number: 0,
        };
        let key = self.key(work, hash.as_str());
        let condition = prior.map_or(Condition::Absent, |found| Condition::Matches(found.version.clone()));
        let ours = match self.bucket.put(&key, &render(&record), &condition).await? {
            Put::Written(_) => true,
            // A put whose answer was lost was repeated by the client and met itself.
            Put::Conflict => {
                self.read(work, hash.as_str()).await?.is_some_and(|found| found.record.owner == record.owner)
            }
        };
        Ok(ours.then(|| Claim {
            work,
            hash: hash.clone(),
            attempt: record.attempt,
            until: record.until,
            covers: record.covers,
            owner: record.owner,
        }))
    }

    /// Lengthens the lease. Refused when somebody else has the work.
    pub(crate) async fn renew(&self, claim: &mut Claim, now: i64) -> Result<(), FuzzError> {
        let until = self.until(now);
        self.change("renew", claim, |record| record.until = until).await?;
        claim.until = until;
        Ok(())
    }

    /// The work has ended, one way or another. Refused when somebody else has it.
    pub(crate) async fn end(&self, claim: &Claim, ending: Ending, now: i64) -> Result<(), FuzzError> {
        let moment = Moment::new(now);
        self.change("finish", claim, |record| {
            record.ending = Some(ending.clone());
            (record.ended_at, record.ended_number) = (moment.at, moment.number);
        })
        .await
    }

    /// The work has ended without a result; somebody else may try. Says how often that has happened.
    pub(crate) async fn give_back(&self, claim: &Claim, reason: &str) -> Result<u32, FuzzError> {
        let mut deaths = 0;
        self.change("finish", claim, |record| {
            free(record);
            record.deaths = record.deaths.saturating_add(1);
            record.trouble = reason.into();
            deaths = record.deaths;
        })
        .await?;
        Ok(deaths)
    }

    /// The owner goes away without a word about the work.
    pub(crate) async fn release(&self, claim: &Claim) -> Result<(), FuzzError> {
        self.change("release", claim, free).await
    }

    /// The files say what this ended claim said: it is free now. Somebody else may have been faster.
    pub(crate) async fn close(&self, work: Work, found: &VersionedClaim) -> Result<(), FuzzError> {
        let mut record = Record { deaths: 0, trouble: String::new(), ending: None, ..found.record.clone() };
        free(&mut record);
        let condition = Condition::Matches(found.version.clone());
        self.bucket.put(&self.key(work, &record.hash), &render(&record), &condition).await.map(drop)
    }

    /// Ends a claim that nobody holds, in the name of whoever held it last.
    pub(crate) async fn end_free(
        &self,
        work: Work,
        found: &VersionedClaim,
        ending: Ending,
        now: i64,
    ) -> Result<bool, FuzzError> {
        let Moment { at: ended_at, number: ended_number } = Moment::new(now);
        let record =
            Record { ending: Some(ending), ended_at, ended_number, until: 0, ..found.record.clone() };
        let condition = Condition::Matches(found.version.clone());
        let put = self.bucket.put(&self.key(work, &record.hash), &render(&record), &condition).await?;
        Ok(matches!(put, Put::Written(_)))
    }

    async fn change(
        &self,
        operation: &'static str,
        claim: &Claim,
        mut change: impl FnMut(&mut Record),
    ) -> Result<(), FuzzError> {
        let key = self.key(claim.work, claim.hash.as_str());
        let mut retry = ConflictRetry::new(&key);
        let mut tried: Option<Record> = None;
        loop {
            let found = self.read(claim.work, claim.hash.as_str()).await?;
            if let (Some(found), Some(tried)) = (&found, &tried)
                && found.record == *tried
            {
                return Ok(());
            }
            let Some(found) =
                found.filter(|found| found.record.is_of(claim) && found.record.ending.is_none())
            else {
                let detail = format!("attempt {} of {} is over", claim.attempt, claim.hash.short());
                return Err(FuzzError::Stale(Failure::new(operation, &key, detail)));
            };
            let mut record = found.record;
            change(&mut record);
            let condition = Condition::Matches(found.version);
            if let Put::Written(_) = self.bucket.put(&key, &render(&record), &condition).await? {
                return Ok(());
            }
            tried = Some(record);
            retry.conflict().await?;
        }
    }

    fn until(&self, now: i64) -> i64 {
        now.saturating_add(self.lease.as_millis() as i64)
    }
}

/// Nobody's: the token of its last owner is worth nothing any more, while the number of attempts goes on rising.
fn free(record: &mut Record) {
    record.until = 0;
    record.owner = String::new();
    record.covers = Vec::new();
}

fn render(record: &Record) -> Vec<u8> {
    // Texts and numbers always have a text.
    serde_json::to_vec_pretty(record).unwrap_or_default()
}
