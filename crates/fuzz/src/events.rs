//! What happened to which commit, why, and by whom: the log beside the state.
//!
//! Each entry is an object of its own that is written once, so writers never meet. The keys sort by time.

use std::sync::atomic::{AtomicU32, Ordering};

use futures::{StreamExt, TryStreamExt};
use serde_json::{Map, Value, json};

use crate::bucket::{Bucket, Condition, nonce};
use crate::error::FuzzError;
use crate::files::pretty;
use crate::keys::Keys;

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Milliseconds since the epoch, by the clock of whoever noticed.
    pub at: i64,
    /// Who did it, as in `builder@host`.
    pub actor: String,
    /// One word for programs, as in `queued`, `built` or `expired_unfuzzed`.
    pub what: String,
    /// The commit it is about; empty when it is about the target.
    pub hash: String,
    /// Where the commit was.
    pub before: CommitState,
    /// Where it is now.
    pub after: CommitState,
    /// Why, in words.
    pub reason: String,
}

/// Where the state files have a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommitState {
    /// In none of them.
    Nowhere,
    /// In `queue`.
    Queue,
    /// First in `queue`.
    QueueFront,
    /// In `built`.
    Built,
    /// In `failed`.
    Failed,
    /// In the schedule, fuzzed this often.
    Scheduled(u64),
}

impl CommitState {
    /// As written in the log.
    pub fn text(self) -> String {
        match self {
            CommitState::Nowhere => "none".into(),
            CommitState::Queue => "queue".into(),
            CommitState::QueueFront => "queue front".into(),
            CommitState::Built => "built".into(),
            CommitState::Failed => "failed".into(),
            CommitState::Scheduled(count) => format!("scheduled {count}"),
        }
    }

    fn read(text: &str) -> Option<CommitState> {
        Some(match text {
            "none" => CommitState::Nowhere,
            "queue" => CommitState::Queue,
            "queue front" => CommitState::QueueFront,
            "built" => CommitState::Built,
            "failed" => CommitState::Failed,
            other => CommitState::Scheduled(other.strip_prefix("scheduled ")?.parse().ok()?),
        })
    }
}

impl Event {
    /// About a commit that stays where it is, or about the target when `hash` is empty.
    pub fn note(what: &str, hash: &str, reason: impl Into<String>) -> Event {
        Event::moved(what, hash, CommitState::Nowhere, CommitState::Nowhere, reason)
    }

    /// About a commit that went from one place to another.
    pub fn moved(
        what: &str,
        hash: &str,
        before: CommitState,
        after: CommitState,
        reason: impl Into<String>,
    ) -> Event {
        Event {
            at: 0,
            actor: String::new(),
            what: what.into(),
            hash: hash.into(),
            before,
            after,
            reason: reason.into(),
        }
    }

    /// Whether it tells of a change of the state files.
    pub fn is_move(&self) -> bool {
        self.before != self.after
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        json!({
            "at": self.at,
            "actor": self.actor,
            "what": self.what,
            "hash": self.hash,
            "before": self.before.text(),
            "after": self.after.text(),
            "reason": self.reason,
        })
    }

    fn read(value: &Value) -> Option<Event> {
        let map: &Map<String, Value> = value.as_object()?;
        let text = |name: &str| map.get(name).and_then(Value::as_str).map(str::to_string);
        Some(Event {
            at: map.get("at")?.as_i64()?,
            actor: text("actor")?,
            what: text("what")?,
            hash: text("hash")?,
            before: CommitState::read(&text("before")?)?,
            after: CommitState::read(&text("after")?)?,
            reason: text("reason")?,
        })
    }
}

/// The newest entries that one look reads; older ones are on the shelf.
const READ_MAX: usize = 5_000;

/// Requests under way at once while the log is read.
const READ_AT_ONCE: usize = 8;

/// When an entry was made. The number orders what one process did in one millisecond.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) at: i64,
    pub(crate) number: u32,
}

impl Moment {
    pub(crate) fn new(at: i64) -> Moment {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        Moment { at, number: NUMBER.fetch_add(1, Ordering::Relaxed) }
    }
}

/// Writes events in one entry. With `name` the entry is written once, however often it is tried.
pub(crate) async fn log(
    bucket: &Bucket,
    keys: &Keys,
    moment: Moment,
    name: Option<&str>,
    events: &[Event],
) -> Result<(), FuzzError> {
    if events.is_empty() {
        return Ok(());
    }
    let drawn = nonce();
    let (at, number) = (moment.at.max(0), moment.number);
    let key = format!("{}{at:013}-{number:010}-{}.json", keys.events(), name.unwrap_or(&drawn));
    let list = Value::Array(events.iter().map(Event::to_json).collect());
    bucket.put(&key, &pretty(list), &Condition::Absent).await.map(drop)
}

/// Events at or after `since`, oldest first. What is not readable as one is passed over: the log informs, it does not
/// decide.
pub(crate) async fn read(bucket: &Bucket, keys: &Keys, since: i64) -> Result<Vec<Event>, FuzzError> {
    let folder = keys.events();
    let after = format!("{folder}{:013}", since.max(0));
    let mut listed = bucket.list(&folder, Some(&after)).await?;
    listed.drain(..listed.len().saturating_sub(READ_MAX));
    let entries: Vec<Vec<Event>> = futures::stream::iter(listed)
        .map(|one| async move {
            let Some(object) = bucket.get(&one.key).await? else { return Ok(Vec::new()) };
            let list: Vec<Value> = serde_json::from_slice(&object.bytes).unwrap_or_default();
            Ok::<_, FuzzError>(list.iter().filter_map(Event::read).collect())
        })
        .buffered(READ_AT_ONCE)
        .try_collect()
        .await?;
    Ok(entries.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_back_as_they_went() {
        for (before, after) in [
            (CommitState::Nowhere, CommitState::Queue),
            (CommitState::Queue, CommitState::Built),
            (CommitState::Failed, CommitState::QueueFront),
            (CommitState::Built, CommitState::Scheduled(0)),
            (CommitState::Scheduled(1), CommitState::Scheduled(2)),
        ] {
            let event =
                Event { at: 5, actor: "a".into(), ..Event::moved("w", "h", before, after, "é \"q\"") };
            assert_eq!(Event::read(&event.to_json()), Some(event));
        }
        for bad in ["{}", "5", r#"{"at": 1, "actor": "", "what": "", "hash": "", "before": "x"}"#] {
            assert_eq!(Event::read(&serde_json::from_str(bad).unwrap()), None);
        }
    }
}
