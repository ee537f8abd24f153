//! What people ask for: build this, try that again, fuzz it now.

use crate::claim::Work;
use crate::events::{CommitState, Event};
use crate::files::{BuildQueue, Schedule};
use crate::rules::build::{self, Enqueued};
use crate::rules::schedule;
use crate::{CommitHash, FuzzError, Overload, Pipeline};

/// What became of a commit that somebody asked to fuzz.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduled {
    /// It is in the schedule.
    Now,
    /// It has no binaries: first in the queue, to be built and handed over.
    AfterBuild,
}

impl Pipeline {
    /// Puts a commit into the build queue by hand, and out of `failed`; in front of all others if asked.
    pub async fn enqueue(&self, hash: &CommitHash, front: bool) -> Result<Enqueued, FuzzError> {
        self.settled(Work::Build).await?;
        // Under this policy the last is the next.
        let front = front && self.target.overload != Overload::NewestFirst;
        let scheduled = self.read::<Schedule>().await?.find(hash.as_str()).is_some();
        let mut answer = Enqueued::AlreadyQueued;
        let event = self
            .change::<BuildQueue, Event>(|queue| {
                let (said, next) = build::enqueue(queue, scheduled, hash.as_str(), front);
                answer = said;
                next
            })
            .await?;
        if let Some(event) = event {
            if event.before == CommitState::Failed {
                // It starts anew: attempts of its former life do not count.
                let found = self.claims().read(Work::Build, hash.as_str()).await?;
                if let Some(found) = found.filter(|found| !found.record.is_held(self.now())) {
                    self.claims().close(Work::Build, &found).await?;
                }
            }
            self.log(vec![event]).await?;
        }
        Ok(answer)
    }

    /// Puts a failed commit back into the queue.
    pub async fn retry(&self, hash: &CommitHash) -> Result<Enqueued, FuzzError> {
        let queue = self.read::<BuildQueue>().await?;
        if build::state_of(&queue, hash.as_str()) != CommitState::Failed {
            return Err(FuzzError::Input(format!("{} is not among the failed", hash.short())));
        }
        self.enqueue(hash, false).await
    }

    /// Puts a commit into the schedule by hand. Without binaries it is built first.
    pub async fn schedule(&self, hash: &CommitHash) -> Result<Scheduled, FuzzError> {
        if !self.is_built(hash).await? {
            self.enqueue(hash, true).await?;
            return Ok(Scheduled::AfterBuild);
        }
        self.hand_over(&[hash.to_string()]).await?;
        Ok(Scheduled::Now)
    }

    /// Has a commit fuzzed next, as if it never was. Without binaries it is built first.
    pub async fn retest(&self, hash: &CommitHash) -> Result<Scheduled, FuzzError> {
        if !self.is_built(hash).await? {
            // Scheduled without binaries it would only be in the way.
            self.change::<Schedule, ()>(|plan| {
                let mut next = plan.clone();
                next.entries.retain(|entry| entry.hash != hash.as_str());
                (next != *plan).then_some((next, ()))
            })
            .await?;
            self.enqueue(hash, true).await?;
            return Ok(Scheduled::AfterBuild);
        }
        let event =
            self.change::<Schedule, Event>(|plan| Some(schedule::retest(plan, hash.as_str()))).await?;
        self.log(event.into_iter().collect()).await?;
        Ok(Scheduled::Now)
    }
}
