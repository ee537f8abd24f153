//! Footprints of runs, in the words of `cadran-footprint`: text becomes keys, runs become owners.

use std::collections::VecDeque;
use std::sync::Arc;

use cadran_core::{Access, Footprint, Millis, OnConflict, RunId, SkipReason};
use cadran_footprint::Mode;
use cadran_footprint::held::{
    Blocked, Error, Key, Limits, Need, Refusal, Request, Reservations, Standing, Why,
};
use rustc_hash::FxHashMap;

use crate::candidate::{Blocker, Urgency, Wanted};

/// A waiter that was passed for so long is passed no more.
const TICKET_AFTER_MS: Millis = 30_000;

/// Requests that are kept ready, so that the runs of a job do not look up their keys each time.
const REQUESTS_MAX: usize = 10_000;

/// Keys that are not looked through for those that nobody uses any more.
const KEYS_KEPT: usize = 4_096;

/// The root of the keys that stand for pools. Keys of job files cannot have this kind.
const POOL: &str = "pool";

/// What a footprint gets.
pub(crate) enum GateAnswer {
    /// All of it.
    Holds,
    /// It waits for this.
    Waits(Box<Blocker>),
    /// Nothing: this is in the way, or there is a reason without a holder.
    Refused(SkipReason, Option<Box<Blocker>>),
}

/// Who touches what.
pub(crate) struct FootprintGate {
    held: Reservations,
    /// By the address of the footprint, which is kept alive with it. Only looked up, never walked.
    requests: FxHashMap<usize, (Arc<Footprint>, Request)>,
    pools: FxHashMap<Box<str>, (Key, u32)>,
    /// Those that began to wait within the last [`TICKET_AFTER_MS`], which bounds the list by what is admitted in that
    /// time; some are gone by now.
    eager: VecDeque<(Millis, RunId)>,
    now: Millis,
    forget_at: usize,
}

impl FootprintGate {
    pub(crate) fn new() -> FootprintGate {
        FootprintGate {
            held: Reservations::new(Limits::default()),
            requests: FxHashMap::default(),
            pools: FxHashMap::default(),
            eager: VecDeque::new(),
            now: 0,
            forget_at: KEYS_KEPT,
        }
    }

    /// Time passes: who waited long enough gets a ticket.
    pub(crate) fn pass(&mut self, now: Millis) {
        self.now = now;
        while let Some(&(since, run)) = self.eager.front()
            && now.saturating_sub(since) >= TICKET_AFTER_MS
        {
            self.eager.pop_front();
            self.held.ticket(run.raw());
        }
    }

    /// Takes all that a run touches. `may_wait` says whether there is room to wait for it.
    pub(crate) fn enter(
        &mut self,
        run: RunId,
        urgency: &Urgency,
        footprint: &Arc<Footprint>,
        may_wait: bool,
    ) -> GateAnswer {
        if let Err(error) = self.prepare(footprint) {
            return GateAnswer::Refused(reason(&error), None);
        }
        let Some((_, request)) = self.requests.get(&address(footprint)) else {
            return GateAnswer::Refused(SkipReason::WaitRoomFull, None);
        };
        let blocked = match self.held.acquire(run.raw(), request) {
            Ok(()) => return GateAnswer::Holds,
            Err(Refusal::Error(error)) => return GateAnswer::Refused(reason(&error), None),
            Err(Refusal::Blocked(blocked)) => blocked,
        };
        let blocker = Box::new(self.blocker(footprint, &blocked));
        if footprint.on_conflict == OnConflict::Skip {
            return GateAnswer::Refused(SkipReason::Conflict, Some(blocker));
        }
        if !may_wait {
            return GateAnswer::Refused(SkipReason::WaitRoomFull, Some(blocker));
        }
        let Some((_, request)) = self.requests.get(&address(footprint)) else {
            return GateAnswer::Refused(SkipReason::WaitRoomFull, Some(blocker));
        };
        match self.held.wait(run.raw(), rank(urgency), request) {
            Ok(Standing::Holds) => GateAnswer::Holds,
            Ok(Standing::Waits) => {
                if footprint.ordered {
                    self.held.ticket(run.raw());
                } else {
                    self.eager.push_back((self.now, run));
                }
                GateAnswer::Waits(blocker)
            }
            Err(error) => GateAnswer::Refused(reason(&error), Some(blocker)),
        }
    }

    /// A run that was running before a restart holds what it touches, also of a pool that is smaller by now. Names
    /// one that was restored before and has some of it: it took the place of this one.
    pub(crate) fn restore(&mut self, run: RunId, footprint: &Arc<Footprint>) -> Option<RunId> {
        let mut capacities = Vec::new();
        for share in &footprint.pools {
            let known = self.capacity(&share.pool).unwrap_or(share.capacity);
            capacities.push((&share.pool, known));
            // A pool that became smaller keeps what was given out when it was larger, and no more than that: beyond it
            // a run that started later has what this one gave back.
            let _ = self.set_capacity(&share.pool, known.max(share.capacity), &mut Vec::new());
        }
        let mut in_the_way = None;
        if self.prepare(footprint).is_ok()
            && let Some((_, request)) = self.requests.get(&address(footprint))
            && let Err(Refusal::Blocked(blocked)) = self.held.acquire(run.raw(), request)
        {
            in_the_way = Some(RunId::from_raw(blocked.holder));
        }
        for (pool, capacity) in capacities {
            let _ = self.set_capacity(pool, capacity, &mut Vec::new());
        }
        in_the_way
    }

    /// The run is over, or waits no more. Those that hold now what they waited for are added.
    pub(crate) fn leave(&mut self, run: RunId, granted: &mut Vec<RunId>) {
        let mut owners = Vec::new();
        if !self.held.release(run.raw(), &mut owners) {
            self.held.withdraw(run.raw(), &mut owners);
        }
        granted.extend(owners.into_iter().map(RunId::from_raw));
        if self.held.keys_len() > self.forget_at {
            self.requests.clear();
            self.held.forget_unused();
            self.forget_at = (2 * self.held.keys_len()).max(KEYS_KEPT);
        }
    }

    /// A pool has so many units from now on.
    pub(crate) fn set_capacity(
        &mut self,
        pool: &str,
        capacity: u32,
        granted: &mut Vec<RunId>,
    ) -> Result<(), Error> {
        if self.pools.get(pool).is_some_and(|(_, known)| *known == capacity) {
            return Ok(());
        }
        let key = self.held.key([POOL, pool])?;
        let mut owners = Vec::new();
        self.held.set_capacity(key, capacity, &mut owners)?;
        self.pools.insert(pool.into(), (key, capacity));
        // Requests were checked against what there was.
        self.requests.clear();
        granted.extend(owners.into_iter().map(RunId::from_raw));
        Ok(())
    }

    /// How many units a pool has, as far as anybody said.
    pub(crate) fn capacity(&self, pool: &str) -> Option<u32> {
        self.pools.get(pool).map(|(_, capacity)| *capacity)
    }

    /// Why a run waits.
    pub(crate) fn why(&self, run: RunId, footprint: &Footprint) -> Option<(Blocker, Why)> {
        let why = self.held.why(run.raw())?;
        Some((self.blocker(footprint, &why.blocked), why))
    }

    /// Whether nobody holds or waits.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn keys(&self) -> usize {
        self.held.keys_len()
    }

    /// Has the request of a footprint ready.
    fn prepare(&mut self, footprint: &Arc<Footprint>) -> Result<(), Error> {
        if self.requests.contains_key(&address(footprint)) {
            return Ok(());
        }
        if self.requests.len() >= REQUESTS_MAX {
            self.requests.clear();
        }
        let mut needs = Vec::with_capacity(footprint.keys.len() + footprint.pools.len());
        for (key, access) in &footprint.keys {
            let key = self.held.key(key.parts())?;
            needs.push(match access {
                Access::Read => Need::Read(key),
                Access::Write => Need::Write(key),
                Access::Claim => Need::Claim(key),
            });
        }
        for share in &footprint.pools {
            if !self.pools.contains_key(share.pool.as_str()) {
                // Nobody declared it since the start: the run's own job knows.
                self.set_capacity(&share.pool, share.capacity, &mut Vec::new())?;
            }
            if let Some((key, _)) = self.pools.get(share.pool.as_str()) {
                needs.push(Need::Units(*key, share.units));
            }
        }
        let request = self.held.request(&needs)?;
        self.requests.insert(address(footprint), (footprint.clone(), request));
        Ok(())
    }

    /// What is in the way, in the words of the footprint.
    fn blocker(&self, footprint: &Footprint, blocked: &Blocked) -> Blocker {
        let path = self.held.path(blocked.key);
        let wanted = match blocked.wanted {
            Mode::Units => {
                let pool = path.last().copied().unwrap_or_default();
                let units = footprint.pools.iter().find(|share| share.pool == pool);
                Wanted::Units(units.map_or(0, |share| share.units), pool.into())
            }
            _ => {
                // The key itself, or the first that lies below what is taken.
                let below = |key: &cadran_core::Key| key.parts().zip(&path).all(|(one, two)| one == *two);
                let own = footprint.keys.iter().filter(|(key, _)| below(key));
                match own.min_by_key(|(key, access)| {
                    (key.parts().count() != path.len(), std::cmp::Reverse(*access))
                }) {
                    Some((key, access)) => Wanted::Key(*access, key.as_str().into()),
                    None => Wanted::Key(Access::Write, path.join("/").into()),
                }
            }
        };
        Blocker {
            wanted,
            holder: RunId::from_raw(blocked.holder),
            in_part: matches!(blocked.mode, Mode::ReadBelow | Mode::WriteBelow),
            in_line: blocked.in_line,
        }
    }
}

fn address(footprint: &Arc<Footprint>) -> usize {
    Arc::as_ptr(footprint) as usize
}

/// More urgent is lower. Equal ones go in the order of asking, which is that of run ids.
fn rank(urgency: &Urgency) -> u128 {
    let priority = i32::MAX.abs_diff(urgency.0.0);
    let due = urgency.1.abs_diff(Millis::MIN);
    u128::from(priority) << 64 | u128::from(due)
}

fn reason(error: &Error) -> SkipReason {
    match error {
        Error::BeyondCapacity { .. } => SkipReason::Capacity,
        _ => SkipReason::WaitRoomFull,
    }
}
