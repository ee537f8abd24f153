use super::{Bucket, Condition, Put, UPLOADS, Version, nonce};
use crate::error::FuzzError;

/// Asks for four puts that must not happen. A server that ignores a condition answers with success and overwrites.
pub(super) async fn probe(bucket: &Bucket) -> Result<(), FuzzError> {
    let key = format!("{UPLOADS}probe-{}", nonce());
    let found = ask(bucket, &key).await;
    let _ = bucket.delete(&key).await;
    found
}

async fn ask(bucket: &Bucket, key: &str) -> Result<(), FuzzError> {
    let lies = |what: &str| Err(FuzzError::NoConditions(format!("{} {what}", bucket.url())));
    let Put::Written(first) = bucket.put(key, b"one", &Condition::Absent).await? else {
        return lies("says that an object exists which does not");
    };
    if bucket.put(key, b"two", &Condition::Absent).await? != Put::Conflict {
        return lies("creates an object again that exists (If-None-Match)");
    }
    let Put::Written(_) = bucket.put(key, b"three", &Condition::Matches(first.clone())).await? else {
        return lies("does not accept the version of an object that it has just given (If-Match)");
    };
    // The form of a true version without its truth, and one that was true before.
    for stale in [Version(format!("\"{}\"", "0".repeat(32))), first] {
        if bucket.put(key, b"four", &Condition::Matches(stale)).await? != Put::Conflict {
            return lies("replaces an object that has changed (If-Match)");
        }
    }
    match bucket.get(key).await? {
        Some(object) if object.bytes == b"three" => Ok(()),
        _ => lies("refuses conditional puts and writes them anyway"),
    }
}
