use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cadran_core::{Millis, Outcome, Report, ReportKind};
use tokio::sync::Notify;

use crate::Sink;
use crate::journal::{Journal, Key};
use crate::keeper::Keeper;
use crate::procfs::Born;

/// What happened to attempts and is not told yet.
///
/// Attempts only push here; one wake-up takes all there is, stamps it once, writes the journal once, tells the keeper
/// once and calls the sink once. It holds at most two facts per live attempt, which are bounded.
pub(crate) struct Outbox {
    pending: Mutex<Vec<Fact>>,
    ready: Notify,
    /// Held during a delivery, so that batches leave in order.
    delivery: Mutex<Delivery>,
    sink: Sink,
    now: Box<dyn Fn() -> Millis + Send + Sync>,
}

struct Delivery {
    keeper: Option<Keeper>,
    /// What a stop of everything says of each attempt, when it is for good: that it failed, and is not tried again.
    stopped_for_good: Option<Box<str>>,
}

pub(crate) enum Fact {
    Spawned(Key, Born),
    Ended { key: Key, outcome: Outcome, output: Option<Box<str>>, born: Option<Born> },
}

impl Outbox {
    pub(crate) fn new(
        sink: Sink,
        now: Box<dyn Fn() -> Millis + Send + Sync>,
        keeper: Option<Keeper>,
    ) -> Outbox {
        Outbox {
            pending: Mutex::default(),
            ready: Notify::new(),
            delivery: Mutex::new(Delivery { keeper, stopped_for_good: None }),
            sink,
            now,
        }
    }

    pub(crate) fn now(&self) -> Millis {
        (self.now)()
    }

    pub(crate) fn push(&self, fact: Fact) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).push(fact);
        self.ready.notify_one();
    }

    /// Resolves when there may be something to deliver.
    pub(crate) async fn ready(&self) {
        self.ready.notified().await;
    }

    /// Delivers all there is.
    pub(crate) fn deliver(&self, journal: &Mutex<Journal>) {
        let mut delivery = self.delivery.lock().unwrap_or_else(PoisonError::into_inner);
        let facts = std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));
        if facts.is_empty() {
            return;
        }
        let at = self.now();
        let mut reports = Vec::with_capacity(facts.len());
        let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
        for fact in facts {
            let (key, kind) = match fact {
                Fact::Spawned(key, born) => {
                    journal.spawned(key, &born);
                    if let Some(keeper) = &mut delivery.keeper {
                        keeper.began(born);
                    }
                    (key, ReportKind::Started)
                }
                Fact::Ended { key, outcome, output, born } => {
                    let outcome = match (outcome, &delivery.stopped_for_good) {
                        (Outcome::Stopped, Some(why)) => Outcome::Halted(why.clone()),
                        (outcome, _) => outcome,
                    };
                    journal.ended(key, at, &outcome, output.as_deref());
                    if let (Some(keeper), Some(born)) = (&mut delivery.keeper, born) {
                        keeper.ended(born.pid);
                    }
                    (key, ReportKind::Ended { outcome, output })
                }
            };
            reports.push(Report { run: key.run, step: key.step, attempt: key.attempt, at, kind });
        }
        journal.write();
        drop(journal);
        if let Some(keeper) = &mut delivery.keeper {
            keeper.write();
        }
        (self.sink)(reports);
    }

    /// From now on what is stopped has failed for this reason, instead of waiting for another start.
    pub(crate) fn stop_for_good(&self, why: &str) {
        self.delivery.lock().unwrap_or_else(PoisonError::into_inner).stopped_for_good = Some(why.into());
    }

    /// Tells the keeper how long it may go on without hearing from us.
    pub(crate) fn hold(&self, time: Duration) {
        if let Some(keeper) = &mut self.delivery.lock().unwrap_or_else(PoisonError::into_inner).keeper {
            keeper.hold(time);
            keeper.write();
        }
    }

    /// Sees that the keeper lives, also while there is nothing to tell it.
    pub(crate) fn tend_keeper(&self) {
        if let Some(keeper) = &mut self.delivery.lock().unwrap_or_else(PoisonError::into_inner).keeper {
            keeper.write();
        }
    }

    /// Lets the keeper go: nothing is left to watch.
    pub(crate) fn dismiss_keeper(&self) {
        let keeper = self.delivery.lock().unwrap_or_else(PoisonError::into_inner).keeper.take();
        if let Some(keeper) = keeper {
            keeper.dismiss();
        }
    }
}
