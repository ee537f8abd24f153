//! What the manager remembers between two passes, beside the files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bucket::{Bucket, Condition, Put};
use crate::error::{Failure, FuzzError};
use crate::keys::Keys;
use crate::rules::replay::StateSnapshot;

/// Kept in one object that only a manager writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Ledger {
    /// When the last pass looked at the files; zero when there was none.
    pub(crate) looked_at: i64,
    pub(crate) queue: Vec<String>,
    pub(crate) built: Vec<String>,
    pub(crate) failed: Vec<String>,
    pub(crate) schedule: Vec<(String, u64)>,
    pub(crate) checked: Option<String>,
    /// Since when the binaries of a commit in `built` have been missing.
    pub(crate) missing_since: BTreeMap<String, i64>,
    /// The commit that could not be judged, so that it is reported once.
    pub(crate) pending: Option<String>,
    /// Commits that came to the queue, by day in UTC.
    pub(crate) arrivals: BTreeMap<String, u64>,
    /// Commits that left without having been fuzzed, ever.
    pub(crate) expired_unfuzzed: u64,
}

/// Days of arrivals that are remembered, for the forecast.
const ARRIVAL_DAYS: usize = 15;

impl Ledger {
    /// One that cannot be read is as good as none: it says what was, not what is.
    pub(crate) async fn read(bucket: &Bucket, keys: &Keys) -> Result<(Ledger, Condition), FuzzError> {
        Ok(match bucket.get(&keys.ledger()).await? {
            None => (Ledger::default(), Condition::Absent),
            Some(object) => {
                let ledger = serde_json::from_slice(&object.bytes).unwrap_or_default();
                (ledger, Condition::Matches(object.version))
            }
        })
    }

    pub(crate) async fn write(
        &self,
        bucket: &Bucket,
        keys: &Keys,
        condition: &Condition,
    ) -> Result<(), FuzzError> {
        let key = keys.ledger();
        let bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        match bucket.put(&key, &bytes, condition).await? {
            Put::Written(_) => Ok(()),
            // A put whose answer was lost was repeated by the client and met itself.
            Put::Conflict if bucket.get(&key).await?.is_some_and(|object| object.bytes == bytes) => Ok(()),
            Put::Conflict => {
                let detail = "another manager has written it during this pass";
                Err(FuzzError::Contended(Failure::new("put", key, detail)))
            }
        }
    }

    pub(crate) fn picture(&self) -> StateSnapshot {
        StateSnapshot {
            queue: self.queue.clone(),
            built: self.built.clone(),
            failed: self.failed.clone(),
            schedule: self.schedule.clone(),
        }
    }

    pub(crate) fn remember(&mut self, picture: StateSnapshot) {
        self.queue = picture.queue;
        self.built = picture.built;
        self.failed = picture.failed;
        self.schedule = picture.schedule;
    }

    /// Counts arrivals on a day; days sort by their names.
    pub(crate) fn arrived(&mut self, day: String, count: u64) {
        *self.arrivals.entry(day).or_default() += count;
        while self.arrivals.len() > ARRIVAL_DAYS {
            self.arrivals.pop_first();
        }
    }

    /// Arrivals per day over the last two weeks, as far as there is a record.
    pub(crate) fn arrivals_per_day(&self) -> f64 {
        let days = self.arrivals.len().max(1) as f64;
        self.arrivals.values().sum::<u64>() as f64 / days
    }
}
