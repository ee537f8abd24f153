//! Makes batches durable, in order, many at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cadran_core::Batch;
use cadran_engine::Event;
use cadran_http::{EventLog, LiveChange};
use cadran_store::Store;
use tokio::sync::mpsc;

use super::inbox::Inbox;
use super::turn::Mail;

/// First wait after a failed commit; doubles up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// Rows that go into one transaction before the next one starts: a commit of this size takes a fraction of a second.
const ROWS_MAX: usize = 50_000;

/// A batch on its way to the store.
#[derive(Debug)]
pub struct Recording {
    /// The number of the batch.
    pub seq: u64,
    /// Its rows.
    pub batch: Batch,
    /// What whoever watches is told once the rows are in the store: who then looks there finds them.
    pub changes: Vec<LiveChange>,
}

/// Whether the last commit succeeded.
#[derive(Clone, Debug, Default)]
pub struct StoreHealth(Arc<AtomicBool>);

impl StoreHealth {
    /// A store that has not failed yet.
    pub fn good() -> StoreHealth {
        StoreHealth(Arc::new(AtomicBool::new(true)))
    }

    /// Whether the last commit succeeded.
    pub fn is_good(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, good: bool) {
        self.0.store(good, Ordering::Relaxed);
    }
}

/// Commits what arrives until the channel closes. While one transaction is on its way the next batches gather, and go
/// together: the slower the disk, the larger the groups.
///
/// The queue needs no bound of its own: while a plan is not durable no further one is made, so what can gather is
/// bounded by the runs that are live.
pub async fn record(
    store: Store,
    mut batches: mpsc::UnboundedReceiver<Recording>,
    inbox: Arc<Inbox<Mail>>,
    health: StoreHealth,
    events: Arc<EventLog>,
) {
    while let Some(Recording { seq, mut batch, mut changes }) = batches.recv().await {
        let mut seqs = vec![seq];
        while batch.len() < ROWS_MAX {
            let Ok(mut later) = batches.try_recv() else { break };
            seqs.push(later.seq);
            batch.append(later.batch);
            changes.append(&mut later.changes);
        }
        let refused = commit(&store, &batch, &health).await;
        for seq in seqs {
            inbox.put(Mail::Event(Event::Committed { seq, refused: refused.clone() }));
        }
        events.push(changes);
    }
}

/// Commits one batch, however long the store is away: giving it the same batch again is safe, and nothing that
/// depends on it has happened yet.
async fn commit(store: &Store, batch: &Batch, health: &StoreHealth) -> Vec<cadran_core::RunId> {
    let mut wait = RETRY_MIN;
    loop {
        match store.commit(batch).await {
            Ok(committed) => {
                if !health.is_good() {
                    tracing::info!("the store is back");
                }
                health.set(true);
                return committed.refused;
            }
            Err(error) => {
                if health.is_good() || !error.is_transient() {
                    tracing::error!(%error, rows = batch.len(), "could not write to the store; trying again");
                }
                health.set(false);
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(RETRY_MAX);
            }
        }
    }
}
