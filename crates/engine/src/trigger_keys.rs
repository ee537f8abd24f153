//! Triggers under a key of the caller's own: asking again with the same key makes no second run.

use std::collections::VecDeque;

use cadran_core::{IdempotencyKey, Millis, Refusal, RunId, TRIGGER_KEY_MS, TriggerKey};
use rustc_hash::FxHashMap;

/// Keys remembered at once, some 40 bytes each. Whoever triggers more often within a day is refused: to forget a key
/// early could make a second run.
const KEYS_MAX: usize = 500_000;

/// The keys of the last day.
#[derive(Debug, Default)]
pub(crate) struct TriggerKeys {
    by_key: FxHashMap<u128, (u64, RunId)>,
    /// By age, oldest first.
    order: VecDeque<(Millis, u128)>,
}

impl TriggerKeys {
    /// Takes up keys that are on record, oldest first.
    pub(crate) fn restore(&mut self, keys: Vec<TriggerKey>, now: Millis) {
        for key in keys {
            self.insert(key);
        }
        self.forget_old(now);
    }

    /// The run that was made under this key, if one was.
    pub(crate) fn find(&mut self, key: IdempotencyKey, now: Millis) -> Result<Option<RunId>, Refusal> {
        self.forget_old(now);
        match self.by_key.get(&key.key) {
            Some((request, run)) if *request == key.request => Ok(Some(*run)),
            Some(_) => Err(Refusal::KeyReused),
            None if self.by_key.len() >= KEYS_MAX => Err(Refusal::Limit(format!(
                "{KEYS_MAX} triggers with an idempotency key came within a day; trigger without one, or later"
            ))),
            None => Ok(None),
        }
    }

    pub(crate) fn insert(&mut self, key: TriggerKey) {
        let TriggerKey { key, run, at } = key;
        if self.by_key.insert(key.key, (key.request, run)).is_none() {
            self.order.push_back((at, key.key));
        }
    }

    fn forget_old(&mut self, now: Millis) {
        while let Some((_, key)) =
            self.order.front().filter(|(at, _)| now.saturating_sub(*at) > TRIGGER_KEY_MS)
        {
            self.by_key.remove(key);
            self.order.pop_front();
        }
    }
}
