//! Ending what is out: executors end jobs, not runs, and the run is closed from here whatever they say.

use std::sync::Arc;
use std::time::Duration;

use cadran_core::{Address, Executor, GroupName, Outcome};
use tokio::time::sleep;

use super::remote::{Errand, Shared, ended, json};
use super::table::{Halt, Share, Sight};
use super::wire::OfJob;
use crate::journal::Key;

/// How often a kill is tried before the run is closed all the same.
const KILL_TRIES: u32 = 3;

/// Between two tries.
const KILL_PAUSE: Duration = Duration::from_secs(1);

impl Shared {
    /// Notes that an attempt is to end, then sees to it. Noted first: an executor may report a killed run as a success
    /// before it answers the kill.
    pub(super) fn halt(self: &Arc<Shared>, key: Key, halt: Halt) {
        let mut state = self.state();
        let Some(entry) = state.entry(key).filter(|entry| !entry.is_over) else { return };
        if entry.shares.is_empty() {
            drop(state);
            if self.forget(key) {
                self.tell(vec![(key, ended(Outcome::Stopped))]);
            }
            return;
        }
        state.ledger.halt(key, halt);
        state.ledger.write();
        let is_new = state.halting.insert((key, None));
        drop(state);
        if is_new {
            tokio::spawn(Arc::clone(self).end_attempt(key));
        }
    }

    async fn end_attempt(self: Arc<Shared>, key: Key) {
        let (group, number, kills, open, outcome) = {
            let mut state = self.state();
            let Some(entry) = state.entry(key) else { return };
            let open: Vec<Errand> = entry.open().map(|share| (key, share.seat.index)).collect();
            // What waits in a lane was never sent.
            let sent = entry.open().filter(|share| share.sight.since.is_some());
            let mut kills: Vec<Executor> = sent.map(|share| share.executor()).collect();
            kills.sort();
            kills.dedup();
            let outcome = entry.halt.map_or(Outcome::Stopped, Halt::outcome);
            (entry.group.clone(), entry.number, kills, open, outcome)
        };
        for executor in &kills {
            self.disturb(&executor.address, number, (key, None));
        }
        let calls = kills.iter().map(|executor| self.kill(&group, executor, number));
        futures::future::join_all(calls).await;
        for errand in open {
            self.end_share(errand, outcome.clone(), None);
        }
        self.state().halting.remove(&(key, None));
    }

    /// The same for one share; the others go on. Noted first, as above.
    pub(super) fn halt_share(self: &Arc<Shared>, errand: Errand) {
        let (key, index) = errand;
        let mut state = self.state();
        state.ledger.halt_share(key, index);
        state.ledger.write();
        let is_open = state.share(errand).is_some_and(|share| share.halted && share.end.is_none());
        let is_new = is_open && state.halting.insert((key, Some(index)));
        drop(state);
        if is_new {
            tokio::spawn(Arc::clone(self).end_one(errand));
        }
    }

    async fn end_one(self: Arc<Shared>, errand: Errand) {
        let (key, index) = errand;
        let found = {
            let mut state = self.state();
            let entry = state.entry(key).map(|entry| (entry.group.clone(), entry.number));
            let share = state.share(errand).map(|share| (share.executor(), share.sight.since.is_some()));
            entry.zip(share)
        };
        // What waits in a lane was never sent.
        if let Some(((group, number), (executor, true))) = found {
            self.disturb(&executor.address, number, (key, Some(index)));
            self.kill(&group, &executor, number).await;
        }
        self.end_share(errand, Outcome::Stopped, None);
        self.state().halting.remove(&(key, Some(index)));
    }

    async fn kill(&self, group: &GroupName, executor: &Executor, number: u32) {
        for turn in 1..=KILL_TRIES {
            let done = self.client.call(group, executor, "kill", json(&OfJob { job_id: number })).await;
            match done {
                Ok(answer) if answer.is_ok() => return,
                Ok(answer) => {
                    // It was heard, and trying again changes no mind.
                    let said = answer.message;
                    tracing::warn!(address = %executor.address, "a kill was refused: {said}; the run is closed here");
                    return;
                }
                Err(error) if turn == KILL_TRIES => {
                    tracing::warn!("a kill did not arrive: {}; the run is closed here", error.text());
                }
                Err(_) => sleep(KILL_PAUSE).await,
            }
        }
    }

    /// A kill ends everything of the job on an executor. What else is out there may never be reported: it is given up
    /// soon when the executor says that the job is idle.
    fn disturb(&self, address: &Address, number: u32, but: (Key, Option<u32>)) {
        let mut state = self.state();
        let entries = state.ledger.kept.entries.iter_mut();
        for (key, entry) in entries.filter(|(_, entry)| entry.number == number) {
            let is_meant =
                |share: &Share| *key == but.0 && but.1.is_none_or(|index| index == share.seat.index);
            let others = entry.shares.iter_mut().filter(|share| share.seat.address == *address);
            others.filter(|share| !is_meant(share)).for_each(|share| share.sight.trusted = true);
        }
    }

    /// An executor leaves: what it says about being idle is believed from here on.
    pub(super) fn distrust(&self, address: &Address) {
        self.sights(address, |sight| sight.trusted = true);
    }

    /// An executor fell silent: nothing but its word that a job is on keeps what it has.
    pub(super) fn gone(&self, address: &Address) {
        self.sights(address, |sight| (sight.trusted, sight.gone) = (true, true));
    }

    /// An executor is back.
    pub(super) fn trust(&self, address: &Address) {
        self.sights(address, |sight| sight.gone = false);
    }

    fn sights(&self, address: &Address, change: impl Fn(&mut Sight)) {
        let mut state = self.state();
        for entry in state.ledger.kept.entries.values_mut() {
            for share in entry.shares.iter_mut().filter(|share| share.seat.address == *address) {
                change(&mut share.sight);
            }
        }
    }
}
