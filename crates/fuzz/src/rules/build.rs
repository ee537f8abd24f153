//! Which commit is built next, and what becomes of the queue when it ends.

use std::collections::BTreeSet;

use crate::events::{CommitState, Event};
use crate::files::BuildQueue;
use crate::{CommitHash, Limits, Overload};

/// What a builder should do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildPick {
    /// Build this commit.
    Take {
        /// The commit.
        hash: CommitHash,
        /// Older ones of the queue that it stands for as well.
        covers: Vec<String>,
    },
    /// Nothing waits that is not being built.
    Nothing,
    /// Fuzzers have enough to do; what waits is built together later.
    Hold {
        /// Commits that wait.
        waiting: usize,
    },
}

/// The first commit of the queue that nobody has. Under `coalesce`, when more is waiting than a day of fuzzing takes,
/// neighbours share one build: its newest commit stands for all of them.
pub fn pick(
    queue: &BuildQueue,
    claimed: &BTreeSet<String>,
    overload: Overload,
    unfuzzed: usize,
    slots_per_day: u32,
) -> BuildPick {
    let free = |hash: &&String| !claimed.contains(*hash);
    // What is no full hash was typed by a person; the manager finds out what is meant.
    let waiting: Vec<CommitHash> =
        queue.queue.iter().filter(free).filter_map(|hash| CommitHash::full(hash)).collect();
    if waiting.is_empty() {
        return BuildPick::Nothing;
    }
    let group = match overload {
        Overload::Fair | Overload::NewestFirst => 1,
        Overload::Coalesce => {
            let places = (slots_per_day.max(1) as usize).saturating_sub(unfuzzed);
            if places == 0 {
                return BuildPick::Hold { waiting: waiting.len() };
            }
            waiting.len().div_ceil(places)
        }
    };
    let newest = match overload {
        Overload::NewestFirst => waiting.len() - 1,
        _ => group - 1,
    };
    match waiting.get(newest) {
        Some(hash) => {
            let first = newest + 1 - group;
            let covers = waiting.iter().take(newest).skip(first).map(ToString::to_string).collect();
            BuildPick::Take { hash: hash.clone(), covers }
        }
        None => BuildPick::Nothing,
    }
}

/// A build has ended well: to `built`, and what it stands for leaves the queue. `None` when the commit is not queued:
/// this was done before, or somebody has cancelled it.
pub fn built(queue: &BuildQueue, hash: &str, covers: &[String]) -> Option<BuildQueue> {
    let mut next = without(queue, hash)?;
    next.queue.retain(|waiting| !covers.contains(waiting));
    // Whoever put it back into the queue may have died before it left `failed`.
    next.failed.retain(|other| other != hash);
    if !next.built.iter().any(|other| other == hash) {
        next.built.push(hash.to_string());
    }
    Some(next)
}

/// A build has ended for good without binaries: to `failed`, which keeps the newest ones. What it would have stood for
/// stays in the queue.
pub fn failed(queue: &BuildQueue, hash: &str, limits: &Limits) -> Option<BuildQueue> {
    let mut next = without(queue, hash)?;
    append_failed(&mut next, hash, limits);
    Some(next)
}

fn without(queue: &BuildQueue, hash: &str) -> Option<BuildQueue> {
    let mut next = queue.clone();
    next.queue.retain(|waiting| waiting != hash);
    (next.queue.len() < queue.queue.len()).then_some(next)
}

fn append_failed(queue: &mut BuildQueue, hash: &str, limits: &Limits) {
    queue.failed.retain(|other| other != hash);
    queue.failed.push(hash.to_string());
    let beyond = queue.failed.len().saturating_sub(limits.failed);
    queue.failed.drain(..beyond);
}

/// `built` entries whose binaries have been missing for too long go to `failed`.
pub fn missing(queue: &BuildQueue, hashes: &[String], limits: &Limits) -> Option<(BuildQueue, Vec<Event>)> {
    let mut next = queue.clone();
    let mut events = Vec::new();
    for hash in hashes.iter().filter(|hash| queue.built.contains(hash)) {
        next.built.retain(|other| other != hash);
        append_failed(&mut next, hash, limits);
        let reason = "it counts as built, but its binaries have been missing for too long";
        events.push(Event::moved("binary_missing", hash, CommitState::Built, CommitState::Failed, reason));
    }
    (!events.is_empty()).then_some((next, events))
}

/// What became of a commit that somebody asked to build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// It waits at the end of the queue.
    Added,
    /// It waits first in the queue.
    AddedInFront,
    /// It was there already.
    AlreadyQueued,
    /// It is built, and about to be scheduled.
    AlreadyBuilt,
    /// It is scheduled.
    AlreadyScheduled,
}

/// Puts a commit into the queue by hand, out of `failed` if it was there.
pub fn enqueue(
    queue: &BuildQueue,
    scheduled: bool,
    hash: &str,
    front: bool,
) -> (Enqueued, Option<(BuildQueue, Event)>) {
    let place = state_of(queue, hash);
    let moved_on = match place {
        CommitState::Built => Some(Enqueued::AlreadyBuilt),
        _ if scheduled => Some(Enqueued::AlreadyScheduled),
        CommitState::QueueFront => Some(Enqueued::AlreadyQueued),
        CommitState::Queue if !front => Some(Enqueued::AlreadyQueued),
        _ => None,
    };
    if let Some(moved_on) = moved_on {
        return (moved_on, None);
    }
    let mut next = queue.clone();
    next.queue.retain(|other| other != hash);
    next.failed.retain(|other| other != hash);
    let (answer, after, reason) = if front {
        next.queue.insert(0, hash.to_string());
        (Enqueued::AddedInFront, CommitState::QueueFront, "asked for, in front of all others")
    } else {
        next.queue.push(hash.to_string());
        (Enqueued::Added, CommitState::Queue, "asked for")
    };
    (answer, Some((next, Event::moved("queued", hash, place, after, reason))))
}

/// What a person typed into the queue becomes the full hash of the commit that is meant; what means none leaves, with
/// the reason.
pub fn spell_out(
    queue: &BuildQueue,
    text: &str,
    meant: Result<&str, &str>,
    scheduled: bool,
) -> Option<(BuildQueue, Vec<Event>)> {
    let at = queue.queue.iter().position(|other| other == text)?;
    let mut next = queue.clone();
    next.queue.remove(at);
    let gone = |what, why: String| Event::moved(what, text, CommitState::Queue, CommitState::Nowhere, why);
    let hash = match meant {
        Ok(hash) => hash,
        Err(why) => return Some((next, vec![gone("manual_refused", why.to_string())])),
    };
    let mut events = vec![gone("spelled_out", format!("{hash} is meant"))];
    let place = state_of(&next, hash);
    if matches!(place, CommitState::Nowhere | CommitState::Failed) && !scheduled {
        next.failed.retain(|other| other != hash);
        next.queue.insert(at.min(next.queue.len()), hash.to_string());
        events.push(Event::moved("manual_add", hash, place, CommitState::Queue, format!("typed as {text}")));
    }
    Some((next, events))
}

/// Where the queue file has a commit.
pub fn state_of(queue: &BuildQueue, hash: &str) -> CommitState {
    match queue.queue.iter().position(|other| other == hash) {
        Some(0) => CommitState::QueueFront,
        Some(_) => CommitState::Queue,
        None if queue.built.iter().any(|other| other == hash) => CommitState::Built,
        None if queue.failed.iter().any(|other| other == hash) => CommitState::Failed,
        None => CommitState::Nowhere,
    }
}
