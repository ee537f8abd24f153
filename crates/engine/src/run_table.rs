//! The open runs: promised, waiting or running.

use std::collections::{BTreeMap, VecDeque};

use cadran_core::{Millis, RunId, RunIds};
use rustc_hash::FxHashMap;

use crate::running::LiveRun;

/// Starts between two looks at the effects. Of thousands at one instant the first are on their way while the others are
/// being started.
const STARTS_AT_ONCE_MAX: usize = 128;

/// Ended runs whose depth is remembered: a run that asks for another is seldom over for long.
const ENDED_DEPTHS_MAX: usize = 4_096;

/// Every open run, and the ids of new ones.
pub(crate) struct RunTable {
    /// In boxes: a table of them has room to grow, and a run has many hundred bytes.
    runs: FxHashMap<RunId, Box<LiveRun>>,
    pub(crate) ids: RunIds,
    pub(crate) starts: StartQueue,
    /// How many runs stand above runs that ended, the newest of them.
    ended_depths: BTreeMap<RunId, u32>,
}

/// Runs that were admitted and are to be started, in order.
#[derive(Debug, Default)]
pub(crate) struct StartQueue {
    pub(crate) runs: VecDeque<RunId>,
    /// How many were started since the effects were taken.
    started_count: usize,
}

impl StartQueue {
    /// The next run to start, up to [`STARTS_AT_ONCE_MAX`] between two looks at the effects.
    pub(crate) fn pop(&mut self) -> Option<RunId> {
        if self.started_count < STARTS_AT_ONCE_MAX { self.runs.pop_front() } else { None }
    }

    pub(crate) fn count_start(&mut self) {
        self.started_count += 1;
    }

    /// The effects were taken: as many may start again.
    pub(crate) fn reset_count(&mut self) {
        self.started_count = 0;
    }
}

impl RunTable {
    pub(crate) fn new(ids: RunIds) -> RunTable {
        RunTable {
            runs: FxHashMap::default(),
            ids,
            starts: StartQueue::default(),
            ended_depths: BTreeMap::new(),
        }
    }

    pub(crate) fn next_id(&mut self, now: Millis) -> RunId {
        self.ids.next(now)
    }

    pub(crate) fn insert(&mut self, run: RunId, live: LiveRun) {
        self.runs.insert(run, Box::new(live));
    }

    /// Takes a run out that ended. Its depth is remembered: its processes may still ask for another run.
    pub(crate) fn remove(&mut self, run: RunId) -> Option<Box<LiveRun>> {
        let live = self.runs.remove(&run)?;
        if live.depth > 0 {
            self.ended_depths.insert(run, live.depth);
            if self.ended_depths.len() > ENDED_DEPTHS_MAX {
                self.ended_depths.pop_first();
            }
        }
        Some(live)
    }

    pub(crate) fn get(&self, run: RunId) -> Option<&LiveRun> {
        self.runs.get(&run).map(Box::as_ref)
    }

    pub(crate) fn get_mut(&mut self, run: RunId) -> Option<&mut LiveRun> {
        self.runs.get_mut(&run).map(Box::as_mut)
    }

    pub(crate) fn contains(&self, run: RunId) -> bool {
        self.runs.contains_key(&run)
    }

    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    /// The runs for which this holds, in the order of their ids.
    pub(crate) fn filter(&self, is_wanted: impl Fn(&LiveRun) -> bool) -> Vec<RunId> {
        let wanted = self.runs.iter().filter(|(_, live)| is_wanted(live));
        let mut runs: Vec<RunId> = wanted.map(|(&run, _)| run).collect();
        runs.sort_unstable();
        runs
    }

    /// How many runs stand above a run that is open, or ended a while ago.
    pub(crate) fn depth(&self, run: RunId) -> u32 {
        let open = self.get(run).map(|live| live.depth);
        open.or_else(|| self.ended_depths.get(&run).copied()).unwrap_or_default()
    }
}
