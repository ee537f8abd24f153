//! What the files should say, by the record; and what somebody else made of them.

use crate::events::{CommitState, Event};
use crate::files::{BuildQueue, Entry, Schedule};

/// Where every commit is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateSnapshot {
    /// `queue`, oldest first.
    pub queue: Vec<String>,
    /// `built`.
    pub built: Vec<String>,
    /// `failed`.
    pub failed: Vec<String>,
    /// The schedule, oldest first.
    pub schedule: Vec<(String, u64)>,
}

impl StateSnapshot {
    /// What the files say.
    pub fn of(queue: &BuildQueue, schedule: &Schedule) -> StateSnapshot {
        StateSnapshot {
            queue: queue.queue.clone(),
            built: queue.built.clone(),
            failed: queue.failed.clone(),
            schedule: schedule.entries.iter().map(|entry| (entry.hash.clone(), entry.fuzz_count)).collect(),
        }
    }

    /// The places of a commit. More than one is a mistake, and what a crash between two puts leaves.
    pub fn states(&self, hash: &str) -> Vec<CommitState> {
        let mut places = Vec::new();
        for (list, place) in [
            (&self.queue, CommitState::Queue),
            (&self.built, CommitState::Built),
            (&self.failed, CommitState::Failed),
        ] {
            if list.iter().any(|other| other == hash) {
                places.push(place);
            }
        }
        let entry = self.schedule.iter().find(|(other, _)| other == hash);
        places.extend(entry.map(|(_, count)| CommitState::Scheduled(*count)));
        places
    }

    /// Everything that was recorded since, in order. `failed` keeps the newest ones, as the rules do.
    pub fn replay(mut self, events: &[Event], failed_max: usize) -> StateSnapshot {
        for event in events.iter().filter(|event| event.is_move() && !event.hash.is_empty()) {
            self.apply(event);
            let beyond = self.failed.len().saturating_sub(failed_max);
            self.failed.drain(..beyond);
        }
        self
    }

    fn apply(&mut self, event: &Event) {
        let hash = event.hash.as_str();
        let stays = matches!(event.after, CommitState::Scheduled(_))
            && matches!(event.before, CommitState::Scheduled(_));
        for list in [&mut self.queue, &mut self.built, &mut self.failed] {
            list.retain(|other| other != hash);
        }
        match event.after {
            CommitState::Scheduled(count) if stays => {
                match self.schedule.iter_mut().find(|(other, _)| other == hash) {
                    Some((_, known)) => *known = count,
                    None => self.schedule.push((hash.into(), count)),
                }
            }
            after => {
                self.schedule.retain(|(other, _)| other != hash);
                match after {
                    CommitState::Nowhere => {}
                    CommitState::Queue => self.queue.push(hash.into()),
                    CommitState::QueueFront => self.queue.insert(0, hash.into()),
                    CommitState::Built => self.built.push(hash.into()),
                    CommitState::Failed => self.failed.push(hash.into()),
                    CommitState::Scheduled(count) => self.schedule.push((hash.into(), count)),
                }
            }
        }
    }

    /// The queue file again, from the record.
    pub fn to_queue(&self) -> BuildQueue {
        let mut queue = BuildQueue::default();
        queue.queue.clone_from(&self.queue);
        queue.built.clone_from(&self.built);
        queue.failed.clone_from(&self.failed);
        queue
    }

    /// The schedule again, from the record.
    pub fn to_schedule(&self) -> Schedule {
        Schedule { entries: self.schedule.iter().map(|(hash, count)| Entry::new(hash, *count)).collect() }
    }
}

/// What is not as the record says: somebody edited a file, or another tool wrote it. A commit that appeared is a manual
/// trigger, one that vanished is cancelled.
pub fn edits(expected: &StateSnapshot, actual: &StateSnapshot) -> Vec<Event> {
    let mut hashes: Vec<&String> = Vec::new();
    for picture in [expected, actual] {
        hashes.extend(picture.queue.iter().chain(&picture.built).chain(&picture.failed));
        hashes.extend(picture.schedule.iter().map(|(hash, _)| hash));
    }
    hashes.sort();
    hashes.dedup();
    let last = |places: Vec<CommitState>| places.last().copied().unwrap_or(CommitState::Nowhere);
    let mut events = Vec::new();
    for hash in hashes {
        let (before, after) = (last(expected.states(hash)), last(actual.states(hash)));
        let (what, reason) = match (before, after) {
            (before, after) if before == after => continue,
            (CommitState::Nowhere, _) => ("manual_add", "added by hand or by another tool"),
            (_, CommitState::Nowhere) => ("manual_cancel", "removed by hand or by another tool"),
            _ => ("manual_change", "changed by hand or by another tool"),
        };
        events.push(Event::moved(what, hash, before, after, reason));
    }
    events
}
