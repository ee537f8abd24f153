//! What is kept long enough goes: binaries, uploads that were left behind, free claims, old events.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::bucket::UPLOADS;
use crate::claim::Work;
use crate::files::{BuildQueue, Schedule};
use crate::keys::{BinaryKind, Keys};
use crate::pipeline::claimed_hashes;
use crate::{Event, FuzzError, Pipeline};

/// What a clean-up removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanUp {
    /// Commits whose binaries went.
    pub binaries: Vec<String>,
    /// Commits whose binaries are old enough to go, but are scheduled and not fuzzed yet.
    pub spared: Vec<String>,
    /// Uploads that were left behind.
    pub uploads: u64,
    /// Claims that nobody has held for a day.
    pub claims: u64,
    /// Entries of the event log, and copies of broken files.
    pub records: u64,
}

/// Leftovers of whoever died on the way. A day is longer than any upload, and than any look at a claim.
const LEFTOVERS: Duration = Duration::from_secs(24 * 60 * 60);

/// Objects that one pass removes; the next one goes on.
const REMOVED_MAX: usize = 2_000;

impl Pipeline {
    /// Removes what is kept long enough. Never the binaries of a commit that is scheduled and not fuzzed yet, that is
    /// being worked on, or that is about to be scheduled: first the manager drops it, and says so.
    pub async fn clean_up(&self) -> Result<CleanUp, FuzzError> {
        let mut done = CleanUp::default();
        let mut left = REMOVED_MAX;
        self.clean_binaries(&mut done, &mut left).await?;
        let day = self.now().saturating_sub(LEFTOVERS.as_millis() as i64);
        done.uploads = self.remove_older(UPLOADS, day, &mut left).await?;
        done.claims = self.clean_claims(day, &mut left).await?;
        let horizon = self.now().saturating_sub(self.target.retention.events.as_millis() as i64);
        for folder in [self.keys.events(), self.keys.broken_folder()] {
            done.records += self.remove_older(&folder, horizon, &mut left).await?;
        }
        Ok(done)
    }

    async fn clean_binaries(&self, done: &mut CleanUp, left: &mut usize) -> Result<(), FuzzError> {
        let horizon = self.now().saturating_sub(self.target.retention.binaries.as_millis() as i64);
        let mut old: Vec<(String, String)> = Vec::new();
        for kind in BinaryKind::ALL {
            let folder = self.keys.binaries(kind);
            for one in self.bucket.list(&folder, None).await? {
                if let Some(hash) = Keys::hash_of(&folder, &one.key).filter(|_| one.modified_at < horizon) {
                    old.push((hash.to_string(), one.key.clone()));
                }
            }
        }
        if old.is_empty() {
            return Ok(());
        }
        // What needs binaries is asked after they were listed: whatever was scheduled meanwhile is seen.
        let mut kept = BTreeSet::new();
        for work in [Work::Build, Work::Fuzz] {
            kept.extend(claimed_hashes(&self.claims().all(work).await?, self.now()));
        }
        let queue: BuildQueue = self.read().await?;
        kept.extend(queue.queue.into_iter().chain(queue.built));
        let plan: Schedule = self.read().await?;
        let unfuzzed: BTreeSet<&String> =
            plan.entries.iter().filter(|entry| entry.fuzz_count == 0).map(|entry| &entry.hash).collect();
        let mut removed = BTreeSet::new();
        let mut spared = BTreeSet::new();
        for (hash, key) in old {
            if unfuzzed.contains(&hash) {
                spared.insert(hash);
            } else if !kept.contains(&hash) && *left > 0 {
                *left -= 1;
                self.bucket.delete(&key).await?;
                removed.insert(hash);
            }
        }
        let days = self.target.retention.binaries.as_secs() / (24 * 60 * 60);
        let removal = |hash: &String| Event::note("binary_removed", hash, format!("older than {days} days"));
        self.log(removed.iter().map(removal).collect()).await?;
        done.binaries = removed.into_iter().collect();
        done.spared = spared.into_iter().collect();
        Ok(())
    }

    async fn clean_claims(&self, day: i64, left: &mut usize) -> Result<u64, FuzzError> {
        let mut count = 0;
        let queue: BuildQueue = self.read().await?;
        let plan: Schedule = self.read().await?;
        for one in self.bucket.list(&self.keys.claims(), None).await? {
            let Some((work, hash)) = self.claims().parse(&one.key) else { continue };
            let hash = hash.as_str();
            if one.modified_at >= day || *left == 0 {
                continue;
            }
            // The attempts of what still waits are remembered.
            let waits = match work {
                Work::Build => queue.queue.iter().any(|other| other == hash),
                Work::Fuzz => plan.find(hash).is_some(),
                Work::Manage => true,
            };
            let found = self.claims().read(work, hash).await?;
            if !waits && found.is_some_and(|found| !found.record.is_held(self.now())) {
                *left -= 1;
                self.bucket.delete(&one.key).await?;
                count += 1;
            }
        }
        Ok(count)
    }

    async fn remove_older(&self, folder: &str, horizon: i64, left: &mut usize) -> Result<u64, FuzzError> {
        let mut count = 0;
        for one in self.bucket.list(folder, None).await? {
            if one.modified_at < horizon && *left > 0 {
                *left -= 1;
                self.bucket.delete(&one.key).await?;
                count += 1;
            }
        }
        Ok(count)
    }
}
