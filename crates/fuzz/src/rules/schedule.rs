//! What the schedule holds, and which of it is fuzzed next.

use std::collections::{BTreeMap, BTreeSet};

use crate::events::{CommitState, Event};
use crate::files::{Entry, Schedule};
use crate::{Limits, Overload};

/// What is known beside the schedule.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Commits of which a binary is gone.
    pub gone: BTreeSet<String>,
    /// Commits that are being fuzzed. Nothing takes them away.
    pub pinned: BTreeSet<String>,
}

/// The word of the event, and of the metric, for a commit that leaves without ever having been fuzzed.
pub const EXPIRED_UNFUZZED: &str = "expired_unfuzzed";

/// Appends commits that are not there yet, with count 0. Saying it again changes nothing.
pub fn append(schedule: &Schedule, hashes: &[String]) -> Option<(Schedule, Vec<Event>)> {
    if hashes.iter().all(|hash| schedule.find(hash).is_some()) {
        return None;
    }
    let mut next = schedule.clone();
    let mut events = Vec::new();
    for hash in hashes {
        if next.find(hash).is_none() {
            next.entries.push(Entry::new(hash, 0));
            let reason = "built, and both binaries are there";
            events.push(Event::moved(
                "handed_over",
                hash,
                CommitState::Built,
                CommitState::Scheduled(0),
                reason,
            ));
        }
    }
    (!events.is_empty()).then_some((next, events))
}

/// Brings the schedule into shape, at every pass: entries without binaries go; then, above the minimum, the oldest that
/// were fuzzed; then, above the maximum, the oldest that were not, which is said aloud.
pub fn tidy(schedule: &Schedule, facts: &Facts, limits: &Limits) -> Option<(Schedule, Vec<Event>)> {
    let entries = &schedule.entries;
    let free = |entry: &&Entry| !facts.pinned.contains(&entry.hash);
    let gone = entries.iter().filter(free).any(|entry| facts.gone.contains(&entry.hash));
    let trims =
        entries.len() > limits.schedule_min && entries.iter().filter(free).any(|entry| entry.fuzz_count > 0);
    if !gone && !trims && entries.len() <= limits.schedule_max {
        return None;
    }
    let mut next = schedule.clone();
    let mut events = Vec::new();
    let mut leave = |entry: Entry, what: &str, reason: String| {
        let what = if entry.fuzz_count == 0 { EXPIRED_UNFUZZED } else { what };
        let before = CommitState::Scheduled(entry.fuzz_count);
        events.push(Event::moved(what, &entry.hash, before, CommitState::Nowhere, reason));
    };
    let gone = |entry: &mut Entry| facts.gone.contains(&entry.hash) && !facts.pinned.contains(&entry.hash);
    for entry in next.entries.extract_if(.., gone) {
        leave(entry, "expired", "its binaries are gone".into());
    }
    while next.entries.len() > limits.schedule_min {
        let oldest =
            next.entries.iter().position(|entry| entry.fuzz_count > 0 && !facts.pinned.contains(&entry.hash));
        let Some(oldest) = oldest else { break };
        let reason = format!("the oldest fuzzed of more than {}", limits.schedule_min);
        leave(next.entries.remove(oldest), "trimmed", reason);
    }
    while next.entries.len() > limits.schedule_max.max(limits.schedule_min) {
        let oldest = next.entries.iter().position(|entry| !facts.pinned.contains(&entry.hash));
        let Some(oldest) = oldest else { break };
        let reason = format!("more than {} wait, and it is the oldest", limits.schedule_max);
        leave(next.entries.remove(oldest), "trimmed", reason);
    }
    (!events.is_empty()).then_some((next, events))
}

/// Whom to fuzz, best first: the smallest count, then the oldest, or under `newest-first` the newest. Whoever died too
/// often before fuzzing stands behind its equals. Those in `taken` are being fuzzed.
pub fn order<'a>(
    schedule: &'a Schedule,
    overload: Overload,
    taken: &BTreeSet<String>,
    deaths: &BTreeMap<String, u32>,
    limits: &Limits,
) -> Vec<&'a Entry> {
    let mut ranked: Vec<(u64, u32, usize, &Entry)> = Vec::new();
    for (at, entry) in schedule.entries.iter().enumerate().filter(|(_, entry)| !taken.contains(&entry.hash)) {
        let deaths = deaths.get(&entry.hash).copied().unwrap_or(0);
        let times_back = deaths / limits.fuzz_attempts.max(1);
        let age = match overload {
            Overload::NewestFirst => schedule.entries.len() - at,
            Overload::Fair | Overload::Coalesce => at,
        };
        ranked.push((entry.fuzz_count, times_back, age, entry));
    }
    ranked.sort_by_key(|(count, times_back, age, _)| (*count, *times_back, *age));
    ranked.into_iter().map(|(.., entry)| entry).collect()
}

/// A fuzz run has ended: the count becomes `raise_to`, once; then, above the minimum and while nobody was fuzzed more
/// than once, it leaves. `None` when this was done before, or the commit is not scheduled any more.
pub fn fuzzed(
    schedule: &Schedule,
    hash: &str,
    raise_to: u64,
    limits: &Limits,
) -> Option<(Schedule, Vec<Event>)> {
    let mut next = schedule.clone();
    let at = next.entries.iter().position(|entry| entry.hash == hash)?;
    let entry = next.entries.get_mut(at).filter(|entry| entry.fuzz_count < raise_to)?;
    let before = entry.fuzz_count;
    entry.fuzz_count = raise_to;
    let mut events = vec![Event::moved(
        "fuzzed",
        hash,
        CommitState::Scheduled(before),
        CommitState::Scheduled(raise_to),
        "its fuzz run has ended",
    )];
    if next.entries.len() > limits.schedule_min && next.entries.iter().all(|entry| entry.fuzz_count <= 1) {
        next.entries.remove(at);
        let reason = format!("just fuzzed, of more than {}", limits.schedule_min);
        events.push(Event::moved(
            "trimmed",
            hash,
            CommitState::Scheduled(raise_to),
            CommitState::Nowhere,
            reason,
        ));
    }
    Some((next, events))
}

/// To be fuzzed next, whatever was before: first, and as if never fuzzed.
pub fn retest(schedule: &Schedule, hash: &str) -> (Schedule, Event) {
    let mut next = schedule.clone();
    let before = match next.entries.iter().position(|entry| entry.hash == hash) {
        Some(at) => CommitState::Scheduled(next.entries.remove(at).fuzz_count),
        None => CommitState::Nowhere,
    };
    next.entries.insert(0, Entry::new(hash, 0));
    (next, Event::moved("retest", hash, before, CommitState::Scheduled(0), "asked for"))
}
