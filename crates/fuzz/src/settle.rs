//! Applies ended claims to the state files: whoever sees one first does it.

use std::collections::BTreeMap;

use crate::claim::{Ending, VersionedClaim, Work};
use crate::events::{self, CommitState, Event, Moment};
use crate::files::{BuildQueue, Schedule};
use crate::rules::replay::StateSnapshot;
use crate::rules::{build, schedule};
use crate::state_file::{self, ConflictRetry};
use crate::{FuzzError, Pipeline};

impl Pipeline {
    /// Every claim of one kind, after what had ended was brought into the files.
    pub(crate) async fn settled(&self, work: Work) -> Result<BTreeMap<String, VersionedClaim>, FuzzError> {
        let claims = self.claims();
        let found = claims.all(work).await?;
        let mut changed = false;
        for (hash, found) in &found {
            if found.record.ending.is_some() {
                self.settle(work, hash).await?;
                changed = true;
            }
        }
        if changed { claims.all(work).await } else { Ok(found) }
    }

    /// Brings the ending of a claim into the files, then into the log, then frees the claim. Whoever dies on the way is
    /// followed by somebody who does the same again, to the same result.
    pub(crate) async fn settle(&self, work: Work, hash: &str) -> Result<(), FuzzError> {
        let claims = self.claims();
        let mut retry = ConflictRetry::new(hash);
        let (found, mut events) = loop {
            // The file first, then the claim: if it is still ended, nobody can have moved the commit on in between
            // without the put below failing.
            let queue = state_file::read::<BuildQueue>(&self.bucket, &self.keys).await?;
            let plan = state_file::read::<Schedule>(&self.bucket, &self.keys).await?;
            let Some(found) = claims.read(work, hash).await? else { return Ok(()) };
            let Some(ending) = found.record.ending.clone() else { return Ok(()) };
            let limits = &self.target.limits;
            let covers = &found.record.covers;
            let next = match &ending {
                Ending::Built => {
                    build::built(&queue.file, hash, covers).map(|next| (Next::Queue(next), Vec::new()))
                }
                Ending::Failed { .. } => {
                    build::failed(&queue.file, hash, limits).map(|next| (Next::Queue(next), Vec::new()))
                }
                Ending::Fuzzed { raise_to } => schedule::fuzzed(&plan.file, hash, *raise_to, limits)
                    .map(|(next, events)| (Next::Plan(next), events)),
            };
            let place = StateSnapshot::of(&queue.file, &plan.file).states(hash).last().copied();
            let (next, events) = match next {
                Some((next, events)) if events.is_empty() => (next, moves(hash, &ending, covers)),
                Some((next, events)) => (next, events),
                // Somebody has cancelled it meanwhile.
                None if place.is_none() => {
                    let reason =
                        format!("its result ({}) comes too late: it is in no list any more", ending.word());
                    break (found, vec![Event::note("result_dropped", hash, reason)]);
                }
                // Somebody else was here before us and died before the log.
                None => {
                    let events = moves(hash, &ending, covers);
                    break (found, events);
                }
            };
            let written = match next {
                Next::Queue(next) => queue.replace(&self.bucket, &self.keys, &next).await?,
                Next::Plan(next) => plan.replace(&self.bucket, &self.keys, &next).await?,
            };
            if written {
                break (found, events);
            }
            retry.conflict().await?;
        };
        let record = &found.record;
        for event in &mut events {
            event.at = record.ended_at;
            event.actor = if record.owner.is_empty() { self.actor.clone() } else { record.owner.clone() };
        }
        // Named after the claim: however many bring it to its end, the log has it once.
        let name = format!("{hash}-{work:?}-{}", record.attempt);
        let moment = Moment { at: record.ended_at, number: record.ended_number };
        events::log(&self.bucket, &self.keys, moment, Some(&name), &events).await?;
        claims.close(work, &found).await
    }

    /// Ends what was tried too often. Says whether there was such a commit.
    pub(crate) async fn fail_exhausted(
        &self,
        claims: &BTreeMap<String, VersionedClaim>,
        queue: &BuildQueue,
        now: i64,
    ) -> Result<bool, FuzzError> {
        let limit = self.target.limits.build_attempts.max(1);
        let mut any = false;
        for (hash, found) in claims.iter().filter(|(hash, _)| queue.queue.contains(hash)) {
            let record = &found.record;
            if record.is_held(now) || record.deaths_by(now) < limit {
                continue;
            }
            let last = match record.is_expired(now) {
                true => format!("the lease of {} ran out", record.owner),
                false => record.trouble.clone(),
            };
            let reason =
                format!("{} attempts ended without a result; the last one: {last}", record.deaths_by(now));
            any = true;
            if self.claims().end_free(Work::Build, found, Ending::Failed { reason }, now).await? {
                self.settle(Work::Build, hash).await?;
            }
        }
        Ok(any)
    }
}

/// The file that an ending changes, as it is to be.
enum Next {
    Queue(BuildQueue),
    Plan(Schedule),
}

/// What an ending did to the lists.
fn moves(hash: &str, ending: &Ending, covers: &[String]) -> Vec<Event> {
    let stood_for = |covered: &String| {
        Event::moved(
            "coalesced",
            covered,
            CommitState::Queue,
            CommitState::Nowhere,
            format!("{hash} stands for it"),
        )
    };
    match ending {
        Ending::Built => {
            let built = Event::moved("built", hash, CommitState::Queue, CommitState::Built, "it builds");
            std::iter::once(built).chain(covers.iter().map(stood_for)).collect()
        }
        Ending::Failed { reason } => {
            vec![Event::moved("build_failed", hash, CommitState::Queue, CommitState::Failed, reason.as_str())]
        }
        Ending::Fuzzed { raise_to } => {
            let before = CommitState::Scheduled(raise_to.saturating_sub(1));
            let reason = "its fuzz run has ended";
            vec![Event::moved("fuzzed", hash, before, CommitState::Scheduled(*raise_to), reason)]
        }
    }
}
