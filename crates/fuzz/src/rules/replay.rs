//! What the files should say, by the record; and what somebody else made of them.

use crate::events::{Event, Place};
use crate::files::{BuildQueue, Entry, Schedule};

/// Where every commit is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    /// `queue`, oldest first.
    pub queue: Vec<String>,
    /// `built`.
    pub built: Vec<String>,
    /// `failed`.
    pub failed: Vec<String>,
    /// The schedule, oldest first.
    pub schedule: Vec<(String, u64)>,
}

impl Picture {
    /// What the files say.
    pub fn of(queue: &BuildQueue, schedule: &Schedule) -> Picture {
        Picture {
            queue: queue.queue.clone(),
            built: queue.built.clone(),
            failed: queue.failed.clone(),
            schedule: schedule.entries.iter().map(|entry| (entry.hash.clone(), entry.fuzz_count)).collect(),
        }
    }

    /// The places of a commit. More than one is a mistake, and what a crash between two puts leaves.
    pub fn places(&self, hash: &str) -> Vec<Place> {
        let mut places = Vec::new();
        for (list, place) in
            [(&self.queue, Place::Queue), (&self.built, Place::Built), (&self.failed, Place::Failed)]
        {
            if list.iter().any(|other| other == hash) {
                places.push(place);
            }
        }
        let entry = self.schedule.iter().find(|(other, _)| other == hash);
        places.extend(entry.map(|(_, count)| Place::Scheduled(*count)));
        places
    }

    /// Everything that was recorded since, in order. `failed` keeps the newest ones, as the rules do.
    pub fn replay(mut self, events: &[Event], failed_max: usize) -> Picture {
        for event in events.iter().filter(|event| event.is_move() && !event.hash.is_empty()) {
            self.play(event);
            let beyond = self.failed.len().saturating_sub(failed_max);
            self.failed.drain(..beyond);
        }
        self
    }

    fn play(&mut self, event: &Event) {
        let hash = event.hash.as_str();
        let stays = matches!(event.after, Place::Scheduled(_)) && matches!(event.before, Place::Scheduled(_));
        for list in [&mut self.queue, &mut self.built, &mut self.failed] {
            list.retain(|other| other != hash);
        }
        match event.after {
            Place::Scheduled(count) if stays => {
                match self.schedule.iter_mut().find(|(other, _)| other == hash) {
                    Some((_, known)) => *known = count,
                    None => self.schedule.push((hash.into(), count)),
                }
            }
            after => {
                self.schedule.retain(|(other, _)| other != hash);
                match after {
                    Place::Nowhere => {}
                    Place::Queue => self.queue.push(hash.into()),
                    Place::QueueFront => self.queue.insert(0, hash.into()),
                    Place::Built => self.built.push(hash.into()),
                    Place::Failed => self.failed.push(hash.into()),
                    Place::Scheduled(count) => self.schedule.push((hash.into(), count)),
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
pub fn edits(expected: &Picture, actual: &Picture) -> Vec<Event> {
    let mut hashes: Vec<&String> = Vec::new();
    for picture in [expected, actual] {
        hashes.extend(picture.queue.iter().chain(&picture.built).chain(&picture.failed));
        hashes.extend(picture.schedule.iter().map(|(hash, _)| hash));
    }
    hashes.sort();
    hashes.dedup();
    let last = |places: Vec<Place>| places.last().copied().unwrap_or(Place::Nowhere);
    let mut events = Vec::new();
    for hash in hashes {
        let (before, after) = (last(expected.places(hash)), last(actual.places(hash)));
        let (what, reason) = match (before, after) {
            (before, after) if before == after => continue,
            (Place::Nowhere, _) => ("manual_add", "added by hand or by another tool"),
            (_, Place::Nowhere) => ("manual_cancel", "removed by hand or by another tool"),
            _ => ("manual_change", "changed by hand or by another tool"),
        };
        events.push(Event::moved(what, hash, before, after, reason));
    }
    events
}
