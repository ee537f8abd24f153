//! The rival: a timer loop over a binary heap, and one multi-row insert per batch.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use cadran::server::clock::Clock;
use cadran_core::{Batch, JobId, Millis, Promise, RunIds, Trigger};
use cadran_store::Store;

use crate::world::wall_nanos;

/// Fires `count` timers due at `due`, recording each batch with one insert before it starts. Returns when the last
/// one was started, in nanoseconds since the epoch.
pub(crate) async fn burst(store: &Store, count: usize, due: Millis) -> i128 {
    let mut heap: BinaryHeap<Reverse<(Millis, u32)>> =
        (0..count as u32).map(|job| Reverse((due, job))).collect();
    let (clock, mut ids) = (Clock::start(), RunIds::new(1, None));
    let mut started = 0usize;
    let mut last = 0;
    while started < count {
        let Some(&Reverse((next, _))) = heap.peek() else { break };
        tokio::time::sleep(clock.until_wall(next)).await;
        let now = clock.now().wall;
        let mut batch = Batch::default();
        while heap.peek().is_some_and(|Reverse((due, _))| *due <= now) {
            let Some(Reverse((due, job))) = heap.pop() else { break };
            let run = ids.next(now);
            batch.promised.push(Promise {
                run,
                job: JobId(job),
                revision: 1,
                due,
                trigger: Trigger::Schedule,
                promised_at: now,
                params: Vec::new(),
                addresses: Vec::new(),
                parent: None,
            });
        }
        if batch.is_empty() {
            tokio::time::sleep(Duration::from_micros(100)).await;
            continue;
        }
        store.commit(&batch).await.expect("the store takes the batch");
        started += batch.promised.len();
        last = wall_nanos();
    }
    last
}
