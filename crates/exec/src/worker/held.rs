//! What a worker has: attempts that wait, run or ended, until their run is closed.

use std::collections::BTreeMap;

use cadran_core::{Found, Millis, Outcome, RunId};

use super::wire::{HeldAttempt, Named, REPORT_BYTES_MAX, REPORTS_MAX, Welcome, WireReport, outcome_text};
use crate::journal::{Key, keys_of};

#[derive(Debug, Default)]
pub(crate) struct Held {
    items: BTreeMap<Key, Item>,
}

#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) phase: Phase,
    /// Job and step, for lines about it; empty for what an earlier life left.
    pub(crate) title: (String, String),
    started_at: Option<Millis>,
    is_start_told: bool,
    /// Its result is known to the server.
    is_taken: bool,
    /// How much of its log the server has, and whether that is all.
    pub(crate) log_at: u64,
    pub(crate) is_log_whole: bool,
    /// Nobody will ask for its result.
    is_unwanted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Waiting,
    On,
    Ended { at: Millis, outcome: Outcome, output: Option<Box<str>> },
}

impl Item {
    fn new(phase: Phase, title: (String, String)) -> Item {
        Item {
            phase,
            title,
            started_at: None,
            is_start_told: false,
            is_taken: false,
            log_at: 0,
            is_log_whole: false,
            is_unwanted: false,
        }
    }

    pub(crate) fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended { .. })
    }
}

impl Held {
    /// What an earlier life left: what was cut off with it is lost.
    pub(crate) fn recall(found: Vec<Found>, now: Millis) -> Held {
        let item = |found: Found| {
            let (at, outcome) = found.ended.unwrap_or((now, Outcome::Lost));
            let phase = Phase::Ended { at, outcome, output: found.output };
            let key = Key { run: found.run, step: found.step, attempt: found.attempt };
            (key, Item { started_at: Some(found.started_at), ..Item::new(phase, Default::default()) })
        };
        Held { items: found.into_iter().map(item).collect() }
    }

    /// An order came. False when it is known: then nothing is to be done.
    pub(crate) fn take(&mut self, key: Key, title: (String, String)) -> bool {
        if self.items.contains_key(&key) {
            return false;
        }
        self.items.insert(key, Item::new(Phase::Waiting, title));
        true
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Item> {
        self.items.get(&key)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Item> {
        self.items.get_mut(&key)
    }

    pub(crate) fn started(&mut self, key: Key, at: Millis) {
        if let Some(item) = self.items.get_mut(&key).filter(|item| !item.is_ended()) {
            (item.phase, item.started_at) = (Phase::On, Some(at));
        }
    }

    /// An attempt is over. The run when it was the last of one that nobody wants: that may be closed.
    pub(crate) fn ended(
        &mut self,
        key: Key,
        at: Millis,
        outcome: Outcome,
        output: Option<Box<str>>,
    ) -> Option<RunId> {
        let item = self.items.get_mut(&key).filter(|item| !item.is_ended())?;
        item.phase = Phase::Ended { at, outcome, output };
        if !item.is_unwanted {
            return None;
        }
        self.items.remove(&key);
        self.items.range(keys_of(key.run)).next().is_none().then_some(key.run)
    }

    /// What is said in a hello.
    pub(crate) fn list(&self) -> Vec<HeldAttempt> {
        let item =
            |(key, item): (&Key, &Item)| HeldAttempt { attempt: (*key).into(), ended: item.is_ended() };
        self.items.iter().filter(|(_, item)| !item.is_unwanted).map(item).collect()
    }

    /// The answer to a hello. Gives back what is to be stopped, and runs that may be closed.
    pub(crate) fn welcome(&mut self, welcome: &Welcome) -> (Vec<Key>, Vec<RunId>) {
        for item in self.items.values_mut() {
            item.is_taken = true;
            item.log_at = 0;
            // The rest of the log of what the server knows the end of is not worth a resend.
            item.is_log_whole = item.is_ended();
        }
        for key in keys(&welcome.want) {
            if let Some(item) = self.items.get_mut(&key) {
                (item.is_taken, item.is_log_whole) = (false, false);
            }
        }
        let (mut stops, mut runs) = (Vec::new(), Vec::new());
        for key in keys(&welcome.forget) {
            let Some(item) = self.items.get_mut(&key) else { continue };
            if item.is_ended() {
                self.items.remove(&key);
                if self.items.range(keys_of(key.run)).next().is_none() {
                    runs.push(key.run);
                }
            } else {
                item.is_unwanted = true;
                stops.push(key);
            }
        }
        // What is on reports its start again: the server may have forgotten that it did.
        for item in self.items.values_mut().filter(|item| !item.is_ended()) {
            (item.is_taken, item.is_start_told, item.is_log_whole) = (false, false, false);
        }
        (stops, runs)
    }

    /// A run is over. Gives back what of it is still on, and is to be stopped.
    pub(crate) fn close(&mut self, run: RunId) -> Vec<Key> {
        let keys: Vec<Key> = self.items.range(keys_of(run)).map(|(key, _)| *key).collect();
        let mut stops = Vec::new();
        for key in keys {
            match self.items.get_mut(&key) {
                Some(item) if !item.is_ended() => {
                    item.is_unwanted = true;
                    stops.push(key);
                }
                _ => drop(self.items.remove(&key)),
            }
        }
        stops
    }

    /// Attempts whose log may have more for the server.
    pub(crate) fn logs(&self) -> Vec<Key> {
        let has = |item: &Item| {
            item.phase != Phase::Waiting && !item.is_log_whole && !item.is_taken && !item.is_unwanted
        };
        self.items.iter().filter(|(_, item)| has(item)).map(|(key, _)| *key).collect()
    }

    /// What the server is to hear, as much as fits into one call.
    pub(crate) fn reports(&self) -> Vec<WireReport> {
        let mut reports = Vec::new();
        let mut bytes = 0;
        for (key, item) in self.items.iter().filter(|(_, item)| !item.is_taken && !item.is_unwanted) {
            if reports.len() >= REPORTS_MAX || bytes >= REPORT_BYTES_MAX {
                break;
            }
            match &item.phase {
                Phase::On if !item.is_start_told => {
                    let at = item.started_at.unwrap_or_default();
                    reports.push(WireReport { attempt: (*key).into(), at, ended: None, output: None });
                }
                Phase::Ended { at, outcome, output } if item.is_log_whole => {
                    bytes += output.as_ref().map_or(0, |output| output.len());
                    reports.push(WireReport {
                        attempt: (*key).into(),
                        at: *at,
                        ended: Some(outcome_text(outcome)),
                        output: output.as_deref().map(str::to_owned),
                    });
                }
                _ => {}
            }
        }
        reports
    }

    /// The server has these.
    pub(crate) fn taken(&mut self, reports: &[WireReport]) {
        for report in reports {
            let Some(item) = report.attempt.key().and_then(|key| self.items.get_mut(&key)) else { continue };
            item.is_start_told = true;
            item.is_taken |= report.ended.is_some();
        }
    }

    /// Results the server has not heard of yet.
    pub(crate) fn undelivered(&self) -> usize {
        self.items.values().filter(|item| !item.is_taken && !item.is_unwanted).count()
    }
}

fn keys(named: &[Named]) -> impl Iterator<Item = Key> {
    named.iter().filter_map(Named::key)
}

#[cfg(test)]
mod tests {
    use cadran_core::StepNo;

    use super::*;

    fn key(run: u64, attempt: u32) -> Key {
        Key { run: RunId::from_raw(run), step: StepNo(1), attempt }
    }

    fn welcome(forget: &[Key], want: &[Key]) -> Welcome {
        let named = |keys: &[Key]| keys.iter().map(|key| (*key).into()).collect();
        Welcome { server: "s".into(), lease_ms: 1, forget: named(forget), want: named(want) }
    }

    fn told(held: &Held) -> Vec<(u32, Option<String>)> {
        held.reports().into_iter().map(|report| (report.attempt.attempt, report.ended)).collect()
    }

    #[test]
    fn a_result_is_told_after_its_log_and_kept_until_the_run_is_closed() {
        let mut held = Held::default();
        assert!(held.take(key(1, 1), Default::default()) && !held.take(key(1, 1), Default::default()));
        assert_eq!(told(&held), [], "it waits");
        held.started(key(1, 1), 5);
        assert_eq!(told(&held), [(1, None)]);
        held.taken(&held.reports());
        assert_eq!(told(&held), []);
        held.ended(key(1, 1), 9, Outcome::Exited(3), None);
        assert_eq!((told(&held), held.logs()), (vec![], vec![key(1, 1)]), "its log comes first");
        held.get_mut(key(1, 1)).expect("held").is_log_whole = true;
        assert_eq!(told(&held), [(1, Some("exited 3".into()))]);
        held.taken(&held.reports());
        assert_eq!((told(&held), held.undelivered()), (vec![], 0));
        // A server that lost it asks again.
        assert_eq!(held.welcome(&welcome(&[], &[key(1, 1)])), (vec![], vec![]));
        assert_eq!((held.logs(), held.undelivered()), (vec![key(1, 1)], 1));
        assert_eq!(held.close(RunId::from_raw(1)), []);
        assert!(held.list().is_empty());
    }

    #[test]
    fn what_nobody_wants_is_stopped_and_then_forgotten() {
        let mut held = Held::default();
        for attempt in [1, 2] {
            held.take(key(1, attempt), Default::default());
            held.started(key(1, attempt), 5);
        }
        held.take(key(2, 1), Default::default());
        held.ended(key(2, 1), 6, Outcome::Lost, None);
        let (stops, runs) = held.welcome(&welcome(&[key(1, 1), key(1, 2), key(2, 1)], &[]));
        assert_eq!((stops, runs), (vec![key(1, 1), key(1, 2)], vec![RunId::from_raw(2)]));
        assert!(held.list().is_empty() && told(&held).is_empty());
        assert_eq!(held.ended(key(1, 1), 7, Outcome::Stopped, None), None);
        assert_eq!(held.ended(key(1, 2), 7, Outcome::Stopped, None), Some(RunId::from_raw(1)));
        assert_eq!(held.undelivered(), 0);
    }

    #[test]
    fn what_an_earlier_life_left_is_told() {
        let found = |attempt, ended| Found {
            run: RunId::from_raw(1),
            step: StepNo(1),
            attempt,
            started_at: 3,
            ended,
            output: None,
            lives: false,
            seats: Vec::new(),
        };
        let mut held = Held::recall(vec![found(1, Some((5, Outcome::Exited(0)))), found(2, None)], 9);
        assert!(held.list().iter().all(|item| item.ended));
        held.welcome(&welcome(&[], &[key(1, 1), key(1, 2)]));
        held.logs().into_iter().for_each(|key| held.get_mut(key).expect("held").is_log_whole = true);
        assert_eq!(told(&held), [(1, Some("exited 0".into())), (2, Some("lost".into()))]);
    }
}
