//! Makes batches durable, in order, many at a time.

use std::sync::Arc;
use std::time::Duration;

use cadran_core::Batch;
use cadran_engine::Event;
use cadran_http::{EventLog, Lists, LiveChange};
use cadran_store::Store;
use tokio::sync::mpsc;

use super::event_loop::Message;
use super::fault;
use super::health::HealthMonitor;
use super::inbox::Inbox;

/// First wait after a failed commit; doubles up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// Rows that go into one transaction before the next one starts: a commit of this size takes a fraction of a second.
const ROWS_MAX: usize = 50_000;

/// How long a commit may take before it is given up and tried again on another connection, and how much longer for each
/// of its rows: the first start with a million jobs is one batch.
const COMMIT_TIME_MAX: Duration = Duration::from_secs(30);
const COMMIT_TIME_PER_ROW: Duration = Duration::from_millis(1);

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

/// Who is told of what was committed.
pub struct Watchers {
    /// Tells pages.
    pub events: Arc<EventLog>,
    /// Answers lists.
    pub lists: Arc<Lists>,
}

/// Commits what arrives until the channel closes. While one transaction is on its way the next batches gather, and go
/// together: the slower the disk, the larger the groups.
///
/// The queue needs no bound of its own: while a plan is not durable no further one is made, so what can gather is
/// bounded by the runs that are live.
pub async fn record(
    store: Store,
    mut batches: mpsc::UnboundedReceiver<Recording>,
    inbox: Arc<Inbox<Message>>,
    health: HealthMonitor,
    watchers: Watchers,
) {
    while let Some(Recording { seq, mut batch, mut changes }) = batches.recv().await {
        fault::point("recorder");
        let mut seqs = vec![seq];
        while batch.len() < ROWS_MAX {
            let Ok(mut later) = batches.try_recv() else { break };
            seqs.push(later.seq);
            batch.append(later.batch);
            changes.append(&mut later.changes);
        }
        let refused = commit(&store, &batch, &health).await;
        if health.committed(seqs.len()) {
            tracing::info!("the store is back");
        }
        // First: whoever has an answer that waited for this commit finds it in the lists.
        watchers.lists.committed(batch, &refused);
        for seq in seqs {
            inbox.put(Message::Event(Event::Committed { seq, refused: refused.clone() }));
        }
        watchers.events.push(changes);
    }
}

/// Commits one batch, however long the store is away: giving it the same batch again is safe, and nothing that
/// depends on it has happened yet.
///
/// A commit that is given up may still be carried out by the database later. It holds the locks on its rows until then,
/// so its repetition waits for it, and so does everything behind that.
async fn commit(store: &Store, batch: &Batch, health: &HealthMonitor) -> Vec<cadran_core::RunId> {
    let mut wait = RETRY_MIN;
    let limit = COMMIT_TIME_MAX + COMMIT_TIME_PER_ROW * u32::try_from(batch.len()).unwrap_or(u32::MAX);
    loop {
        match tokio::time::timeout(limit, store.commit(batch)).await {
            Ok(Ok(committed)) => return committed.refused,
            Ok(Err(error)) => {
                if health.commit_failed() || !error.is_transient() {
                    tracing::error!(%error, rows = batch.len(), "could not write to the store; trying again");
                }
            }
            Err(_) => {
                health.commit_failed();
                let (rows, secs) = (batch.len(), limit.as_secs());
                tracing::error!(rows, "the store did not answer a commit within {secs} s; trying again");
            }
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(RETRY_MAX);
    }
}
