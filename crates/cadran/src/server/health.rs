//! How long ago each part of the server last showed that it works.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cadran_core::Millis;
use cadran_exec::Embedded;
use cadran_http::Health;
use cadran_store::Store;

use super::clock::Clock;
use crate::defaults::HEALTH;

/// What the loop, the recorder and the store's pings write down, and `/health`, the metrics and the watchdog read. Cheap
/// to clone. Instants are of the monotonic clock.
#[derive(Clone)]
pub struct HealthMonitor(Arc<Signs>);

struct Signs {
    clock: Clock,
    loop_iterated_at: AtomicI64,
    store_answered_at: AtomicI64,
    commit_failed: AtomicBool,
    stopping: AtomicBool,
    /// When each batch that is not durable yet left the loop, oldest first.
    pending: Mutex<VecDeque<Millis>>,
}

impl HealthMonitor {
    /// Everything has just shown that it works.
    pub fn new(clock: Clock) -> HealthMonitor {
        let now = clock.now().mono;
        HealthMonitor(Arc::new(Signs {
            clock,
            loop_iterated_at: AtomicI64::new(now),
            store_answered_at: AtomicI64::new(now),
            commit_failed: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            pending: Mutex::default(),
        }))
    }

    /// The loop begins an iteration.
    pub fn loop_iterated(&self, at: Millis) {
        self.0.loop_iterated_at.store(at, Ordering::Relaxed);
    }

    /// A batch goes to the recorder.
    pub fn batch_sent(&self, at: Millis) {
        self.pending().push_back(at);
    }

    /// The oldest batches are durable. True when the store could not be written before.
    pub fn committed(&self, batches: usize) -> bool {
        let mut pending = self.pending();
        let len = batches.min(pending.len());
        pending.drain(..len);
        drop(pending);
        self.store_answered();
        self.0.commit_failed.swap(false, Ordering::Relaxed)
    }

    /// A commit failed. True when the one before did not.
    pub fn commit_failed(&self) -> bool {
        !self.0.commit_failed.swap(true, Ordering::Relaxed)
    }

    /// The server is on its way out.
    pub fn stopping(&self) {
        self.0.stopping.store(true, Ordering::Relaxed);
    }

    /// Since the loop's last iteration.
    pub fn loop_age(&self) -> Duration {
        self.age(&self.0.loop_iterated_at)
    }

    /// Asks the store for a sign of life now and then, for ever.
    pub async fn ping(self, store: Store) {
        loop {
            tokio::time::sleep(HEALTH.ping_interval).await;
            if let Ok(Ok(())) = tokio::time::timeout(HEALTH.ping_timeout, store.ping()).await {
                self.store_answered();
            }
        }
    }

    /// How the server is, with the executor of its machine when there is one.
    pub fn health(&self, executor: Option<&Embedded>) -> Health {
        let millis = |age: Duration| age.as_millis() as Millis;
        let now = self.0.clock.now().mono;
        let (loop_age, store_age) = (self.loop_age(), self.age(&self.0.store_answered_at));
        let batch_age = self.pending().front().map(|sent| (now - sent).max(0));
        let executor_age = executor.map(Embedded::silence);
        let loop_ok = loop_age < HEALTH.loop_age_max;
        let store_ok = !self.0.commit_failed.load(Ordering::Relaxed)
            && store_age < HEALTH.store_age_max
            && batch_age.is_none_or(|age| age < millis(HEALTH.store_age_max));
        let executor_ok = executor_age.is_none_or(|age| age < HEALTH.executor_age_max);
        let stopping = self.0.stopping.load(Ordering::Relaxed);
        Health {
            ready: loop_ok && store_ok && executor_ok && !stopping,
            loop_ok,
            store_ok,
            executor_ok,
            stopping,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: millis(self.0.clock.uptime()),
            loop_age_ms: millis(loop_age),
            store_age_ms: millis(store_age),
            batch_age_ms: batch_age,
            executor_age_ms: executor_age.map(millis),
            ..Health::default()
        }
    }

    fn store_answered(&self) {
        self.0.store_answered_at.store(self.0.clock.now().mono, Ordering::Relaxed);
    }

    fn age(&self, at: &AtomicI64) -> Duration {
        let age = self.0.clock.now().mono - at.load(Ordering::Relaxed);
        Duration::from_millis(age.max(0) as u64)
    }

    fn pending(&self) -> MutexGuard<'_, VecDeque<Millis>> {
        self.0.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same figures for Prometheus, in seconds. Nothing on its way to the store is an age of zero.
pub fn metrics(health: &Health) -> String {
    let rows = [
        ("cadran_loop_age_seconds", "Since the last iteration of the loop.", Some(health.loop_age_ms)),
        ("cadran_store_age_seconds", "Since the store last answered.", Some(health.store_age_ms)),
        (
            "cadran_batch_age_seconds",
            "Since the oldest batch that is not durable yet was made.",
            Some(health.batch_age_ms.unwrap_or(0)),
        ),
        (
            "cadran_executor_age_seconds",
            "Since the executor of this machine last showed that it works.",
            health.executor_age_ms,
        ),
    ];
    let row = |(name, help, age): (&str, &str, Option<Millis>)| {
        let age = age? as f64 / 1_000.0;
        Some(format!("# HELP {name} {help}\n# TYPE {name} gauge\n{name} {age}\n\n"))
    };
    rows.into_iter().filter_map(row).collect()
}
