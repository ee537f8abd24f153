//! What happened lately, for pages that watch: a bounded log of committed changes with a number each.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use cadran_core::{JobName, Millis, RunId, RunStatus, SkipReason};
use tokio::sync::{broadcast, watch};

use crate::LiveEvent;

/// Changes kept for those who come back: a minute at a thousand a second.
const CHANGES_MAX: usize = 65_536;

/// Run events a slow waiter may be behind before it misses some; the store has them all.
const WAITERS_BEHIND_MAX: usize = 4_096;

/// Something that changed, and is in the store by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveChange {
    /// A run has a new status.
    Run {
        /// The run.
        run: RunId,
        /// Its job.
        job: JobName,
        /// What it is now.
        status: RunStatus,
    },
    /// Dues that never become runs.
    Skip {
        /// Whose.
        job: JobName,
        /// How many.
        count: u64,
        /// Why.
        reason: SkipReason,
    },
    /// A job was added, changed, removed, paused or resumed.
    Job {
        /// Which.
        job: JobName,
    },
    /// What is wrong with job files is not what it was.
    Problems,
}

impl LiveChange {
    /// Whose change it is; file problems are nobody's.
    pub(crate) fn job(&self) -> Option<&JobName> {
        match self {
            LiveChange::Run { job, .. } | LiveChange::Skip { job, .. } | LiveChange::Job { job } => Some(job),
            LiveChange::Problems => None,
        }
    }
}

/// The log of changes. Numbers rise by one; together with the start they name a change across restarts.
#[derive(Debug)]
pub struct EventLog {
    start: Millis,
    ring: Mutex<Ring>,
    newest: watch::Sender<u64>,
    waiters: broadcast::Sender<LiveEvent>,
}

#[derive(Debug, Default)]
struct Ring {
    changes: VecDeque<LiveChange>,
    /// The number of the newest change; 0 before the first.
    newest: u64,
}

impl EventLog {
    /// An empty log of a server that starts now.
    pub fn new(start: Millis) -> EventLog {
        EventLog {
            start,
            ring: Mutex::default(),
            newest: watch::Sender::new(0),
            waiters: broadcast::Sender::new(WAITERS_BEHIND_MAX),
        }
    }

    /// Adds changes, in their order, after they were committed.
    pub fn push(&self, changes: Vec<LiveChange>) {
        if changes.is_empty() {
            return;
        }
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        for change in changes {
            if let LiveChange::Run { run, status, .. } = change {
                // Without receivers nobody waits.
                let _ = self.waiters.send(LiveEvent { run, status });
            }
            if ring.changes.len() >= CHANGES_MAX {
                ring.changes.pop_front();
            }
            ring.changes.push_back(change);
            ring.newest += 1;
        }
        let newest = ring.newest;
        drop(ring);
        self.newest.send_replace(newest);
    }

    /// Where whoever waits for a run subscribes.
    pub fn runs(&self) -> &broadcast::Sender<LiveEvent> {
        &self.waiters
    }

    /// Tells when there is something newer.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// The number of the newest change.
    pub(crate) fn newest(&self) -> u64 {
        *self.newest.borrow()
    }

    /// A change's name outside.
    pub(crate) fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.start)
    }

    /// The number behind a name, when it is one of this start.
    pub(crate) fn number(&self, id: &str) -> Option<u64> {
        let (start, number) = id.split_once('-')?;
        number.parse().ok().filter(|_| start.parse() == Ok(self.start))
    }

    /// The changes after a number, oldest first, with the number of the last. `None` when some of them are gone, or the
    /// number is of another log: whoever asks must look at the record anew.
    pub(crate) fn after(&self, number: u64) -> Option<(Vec<LiveChange>, u64)> {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let missed = usize::try_from(ring.newest.checked_sub(number)?).ok()?;
        let from = ring.changes.len().checked_sub(missed)?;
        Some((ring.changes.iter().skip(from).cloned().collect(), ring.newest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(no: u64) -> LiveChange {
        LiveChange::Skip { job: "a".parse().unwrap(), count: no, reason: SkipReason::Paused }
    }

    #[test]
    fn who_comes_back_hears_every_change_once() {
        let log = EventLog::new(7);
        log.push((1..=5).map(change).collect());
        assert_eq!(log.after(0).unwrap().0.len(), 5);
        let (changes, newest) = log.after(3).unwrap();
        assert_eq!((changes, newest), (vec![change(4), change(5)], 5));
        assert_eq!(log.after(5).unwrap().0, []);
        assert!(log.after(6).is_none(), "a number of the future is of another log");
        assert_eq!(log.number(&log.id(4)), Some(4));
        for id in ["8-4", "7-", "7", "", "7-x"] {
            assert_eq!(log.number(id), None, "{id}");
        }
    }

    #[test]
    fn the_log_is_bounded_and_says_when_something_is_gone() {
        let log = EventLog::new(0);
        log.push((0..CHANGES_MAX as u64 + 10).map(change).collect());
        assert!(log.after(9).is_none());
        assert_eq!(log.after(10).unwrap().0.len(), CHANGES_MAX);
    }
}
