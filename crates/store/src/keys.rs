//! Keys of triggers: kept for a day, and forgotten as new ones come.

use cadran_core::{Batch, IdempotencyKey, Millis, TRIGGER_KEY_MS, TriggerKey};

use crate::StoreError;
use crate::code;
use crate::source::{Fields, Question, Source};

/// Forgets keys from before an instant, a bounded number of them: every commit that brings keys forgets more than it
/// brings.
pub(crate) const FORGET: &str = "delete from trigger_keys where key in \
     (select key from trigger_keys where at < $1 order by at limit 1000)";

/// Keys from before this instant may go; `None` when the batch brings none.
pub(crate) fn horizon(batch: &Batch) -> Option<Millis> {
    batch.trigger_keys.iter().map(|key| key.at).max().map(|at| at.saturating_sub(TRIGGER_KEY_MS))
}

pub(crate) fn text(key: &TriggerKey) -> String {
    format!("{:032x}", key.key.key)
}

/// The same 64 bits as a number with a sign.
pub(crate) fn request(key: &TriggerKey) -> i64 {
    key.key.request.cast_signed()
}

/// Keys since an instant, oldest first.
pub(crate) async fn load<S: Source>(source: &S, since: Millis) -> Result<Vec<TriggerKey>, StoreError> {
    let sql = "select key, request, run, at from trigger_keys where at >= $1 order by at, run";
    let mut keys = Vec::new();
    let push = &mut |row: &dyn Fields| {
        let key = u128::from_str_radix(row.text(0)?, 16).map_err(|error| error.to_string())?;
        let key = IdempotencyKey { key, request: row.int(1)?.cast_unsigned() };
        keys.push(TriggerKey { key, run: code::run(row.int(2)?), at: row.int(3)? });
        Ok(())
    };
    source.each(Question::new("trigger_keys", sql).int(since), push).await?;
    Ok(keys)
}
