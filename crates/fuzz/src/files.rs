//! The three state files of a target, read with care and written in one form.
//!
//! They are an interface: the original tools and people's editors write them too. So unknown keys survive, missing ones
//! read as empty, and a file that cannot be read is never taken as empty.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::keys::{FileName, Layout, Part};

/// `state.json`: the commit up to which everything is decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// `last_checked_commit`; `None` before the first pass. As written: a person may have shortened it.
    pub last: Option<String>,
    rest: Map<String, Value>,
}

/// `build-queue.json`: what waits for a build, is built and not handed over yet, and did not build. Hashes are kept as
/// they were written; what is not a full hash was typed by a person, and the manager finds out what is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuildQueue {
    /// Oldest first.
    pub queue: Vec<String>,
    /// Built, both binaries uploaded.
    pub built: Vec<String>,
    /// Not retried by themselves.
    pub failed: Vec<String>,
    rest: Map<String, Value>,
}

/// `fuzzing-schedule.json`: what is fuzzed, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Oldest first.
    pub entries: Vec<Entry>,
}

/// One commit of the schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The commit.
    pub hash: String,
    /// Fuzz runs that ended.
    pub fuzz_count: u64,
    rest: Map<String, Value>,
}

/// A state file that has a form of its own.
pub trait StateFile: Default + Clone + PartialEq {
    /// Which one it is.
    const NAME: FileName;
    /// What is wrong with it, in words, when it cannot be read.
    fn read(bytes: &[u8]) -> Result<Self, String>;
    /// Two spaces of indent, sorted keys, UTF-8, as the original tools write it.
    fn write(&self) -> Vec<u8>;

    /// As [`read`](StateFile::read), of one part as a layout has it; what stands in the others is left empty.
    fn read_part(bytes: &[u8], _layout: Layout, _part: Part) -> Result<Self, String> {
        Self::read(bytes)
    }
    /// As [`write`](StateFile::write), one part as a layout has it.
    fn write_part(&self, _layout: Layout, _part: Part) -> Vec<u8> {
        self.write()
    }
    /// Adds what stands in the part beside.
    fn join(self, _beside: Self) -> Self {
        self
    }
    /// Whether the part beside is written before the file itself. What a commit comes to is written before what it
    /// leaves, so whoever dies in between leaves it in both rather than in neither.
    fn is_beside_first(&self, _before: &Self) -> bool {
        false
    }
}

impl StateFile for Checked {
    const NAME: FileName = FileName::State;

    fn read(bytes: &[u8]) -> Result<Checked, String> {
        let mut rest = object(json(bytes)?)?;
        let last = match rest.remove("last_checked_commit") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(normal(text)),
            Some(other) => {
                return Err(format!("last_checked_commit is {}, not a text or null", kind(&other)));
            }
        };
        Ok(Checked { last, rest })
    }

    fn write(&self) -> Vec<u8> {
        let mut map = self.rest.clone();
        map.insert("last_checked_commit".into(), self.last.clone().map_or(Value::Null, Value::String));
        pretty(Value::Object(map))
    }
}

impl StateFile for BuildQueue {
    const NAME: FileName = FileName::BuildQueue;

    fn read(bytes: &[u8]) -> Result<BuildQueue, String> {
        let mut rest = object(json(bytes)?)?;
        let mut take = |name: &str| match rest.remove(name) {
            None => Ok(Vec::new()),
            Some(value) => hashes(name, value),
        };
        let (queue, built, failed) = (take("queue")?, take("built")?, take("failed")?);
        Ok(BuildQueue { queue, built, failed, rest })
    }

    fn write(&self) -> Vec<u8> {
        let mut map = self.rest.clone();
        for (name, list) in [("queue", &self.queue), ("built", &self.built), ("failed", &self.failed)] {
            map.insert(name.into(), list_of(list));
        }
        pretty(Value::Object(map))
    }

    fn read_part(bytes: &[u8], layout: Layout, part: Part) -> Result<BuildQueue, String> {
        let all = BuildQueue::read(bytes)?;
        Ok(match (layout, part) {
            (Layout::V1, _) => all,
            (Layout::V2, Part::File) => {
                // Keys that this layout does not know survive, whatever they are called.
                let mut rest = object(json(bytes)?)?;
                rest.remove("queue");
                BuildQueue { queue: all.queue, rest, ..BuildQueue::default() }
            }
            (Layout::V2, Part::Beside) => {
                BuildQueue { built: all.built, failed: all.failed, ..BuildQueue::default() }
            }
        })
    }

    fn write_part(&self, layout: Layout, part: Part) -> Vec<u8> {
        match (layout, part) {
            (Layout::V1, _) => self.write(),
            (Layout::V2, Part::File) => {
                let mut map = self.rest.clone();
                map.insert("queue".into(), list_of(&self.queue));
                pretty(Value::Object(map))
            }
            (Layout::V2, Part::Beside) => {
                let lists = [("built", &self.built), ("failed", &self.failed)];
                let lists = lists.into_iter().map(|(name, list)| (name.to_string(), list_of(list)));
                pretty(Value::Object(lists.collect()))
            }
        }
    }

    /// A commit may stand in both while somebody moves it. Neither is left out here: whoever moves another commit writes
    /// all of what it has read.
    fn join(mut self, beside: BuildQueue) -> BuildQueue {
        (self.built, self.failed) = (beside.built, beside.failed);
        self
    }

    fn is_beside_first(&self, before: &BuildQueue) -> bool {
        let waited: BTreeSet<&String> = before.queue.iter().collect();
        self.queue.iter().all(|hash| waited.contains(hash))
    }
}

fn list_of(hashes: &[String]) -> Value {
    Value::Array(hashes.iter().cloned().map(Value::String).collect())
}

impl StateFile for Schedule {
    const NAME: FileName = FileName::Schedule;

    fn read(bytes: &[u8]) -> Result<Schedule, String> {
        let list = match json(bytes)? {
            Value::Array(list) => list,
            other => return Err(format!("it is {}, not a list", kind(&other))),
        };
        let mut entries: Vec<Entry> = Vec::with_capacity(list.len());
        let mut places = BTreeMap::new();
        for (at, value) in list.into_iter().enumerate() {
            let wrong = |why: String| format!("entry {at}: {why}");
            let mut rest = object(value).map_err(wrong)?;
            let hash = match rest.remove("hash") {
                Some(Value::String(text)) => normal(text),
                _ => return Err(wrong("it has no text under hash".into())),
            };
            let fuzz_count = match rest.remove("fuzz_count") {
                None => 0,
                Some(value) => {
                    value.as_u64().ok_or_else(|| wrong(format!("fuzz_count is {value}, not a count")))?
                }
            };
            // A commit that is listed twice is one commit; the larger count is the truer one.
            let place = *places.entry(hash.clone()).or_insert(entries.len());
            match entries.get_mut(place) {
                Some(entry) => entry.fuzz_count = entry.fuzz_count.max(fuzz_count),
                None => entries.push(Entry { hash, fuzz_count, rest }),
            }
        }
        Ok(Schedule { entries })
    }

    fn write(&self) -> Vec<u8> {
        let entry = |entry: &Entry| {
            let mut map = entry.rest.clone();
            map.insert("hash".into(), Value::String(entry.hash.clone()));
            map.insert("fuzz_count".into(), Value::from(entry.fuzz_count));
            Value::Object(map)
        };
        pretty(Value::Array(self.entries.iter().map(entry).collect()))
    }
}

impl Entry {
    /// A commit that was fuzzed this often.
    pub fn new(hash: impl Into<String>, fuzz_count: u64) -> Entry {
        Entry { hash: hash.into(), fuzz_count, rest: Map::new() }
    }
}

impl Schedule {
    /// The entry of a commit.
    pub fn find(&self, hash: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.hash == hash)
    }

    /// Entries that were never fuzzed.
    pub fn unfuzzed(&self) -> usize {
        self.entries.iter().filter(|entry| entry.fuzz_count == 0).count()
    }
}

fn json(bytes: &[u8]) -> Result<Value, String> {
    // Some editors put a mark in front of UTF-8.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err("it is empty".into());
    }
    serde_json::from_slice(bytes).map_err(|error| format!("it is not JSON: {error}"))
}

fn object(value: Value) -> Result<Map<String, Value>, String> {
    match value {
        Value::Object(map) => Ok(map),
        other => Err(format!("it is {}, not an object", kind(&other))),
    }
}

fn hashes(name: &str, value: Value) -> Result<Vec<String>, String> {
    let Value::Array(list) = value else {
        return Err(format!("{name} is {}, not a list", kind(&value)));
    };
    let mut hashes: Vec<String> = Vec::with_capacity(list.len());
    let mut seen = BTreeSet::new();
    for (at, value) in list.into_iter().enumerate() {
        match value {
            Value::String(text) => {
                let hash = normal(text);
                if seen.insert(hash.clone()) {
                    hashes.push(hash);
                }
            }
            other => return Err(format!("{name}[{at}] is {}, not a hash", kind(&other))),
        }
    }
    Ok(hashes)
}

/// One commit, one spelling.
fn normal(text: String) -> String {
    crate::CommitHash::full(text.trim()).map_or(text, |hash| hash.to_string())
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Keys are sorted here, whatever order the map of this build keeps.
pub(crate) fn pretty(value: Value) -> Vec<u8> {
    // A value of ours always has a text: its keys are texts, and its numbers are finite.
    serde_json::to_vec_pretty(&sorted(value)).unwrap_or_default()
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let ordered: BTreeMap<String, Value> = map.into_iter().collect();
            Value::Object(ordered.into_iter().map(|(key, value)| (key, sorted(value))).collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(sorted).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_layout_has_the_queue_only_and_the_rest_beside() {
        let text = r#"{"queue": ["a"], "built": ["x"], "note": 1}"#;
        let file = BuildQueue::read_part(text.as_bytes(), Layout::V2, Part::File).unwrap();
        assert_eq!((file.queue.len(), file.built.len()), (1, 0), "`built` is no list of this layout");
        let written: Value = serde_json::from_slice(&file.write_part(Layout::V2, Part::File)).unwrap();
        assert_eq!(written, serde_json::from_str::<Value>(text).unwrap(), "it survives as any unknown key");

        let both = BuildQueue { built: vec!["b".into()], failed: vec!["f".into()], ..file.clone() };
        let beside = String::from_utf8(both.write_part(Layout::V2, Part::Beside)).unwrap();
        assert_eq!(beside, "{\n  \"built\": [\n    \"b\"\n  ],\n  \"failed\": [\n    \"f\"\n  ]\n}");
        let beside = BuildQueue::read_part(beside.as_bytes(), Layout::V2, Part::Beside).unwrap();
        assert_eq!(file.clone().join(beside), both);

        // Out of the queue: beside first. Into the queue: the queue first.
        let built = BuildQueue { queue: Vec::new(), built: vec!["a".into()], ..file.clone() };
        assert!(built.is_beside_first(&file) && !file.is_beside_first(&built));
    }

    #[test]
    fn files_are_written_as_the_original_tools_write_them() {
        let queue = BuildQueue { queue: vec!["b".into(), "a".into()], ..BuildQueue::default() };
        let text = String::from_utf8(queue.write()).unwrap();
        assert_eq!(
            text,
            "{\n  \"built\": [],\n  \"failed\": [],\n  \"queue\": [\n    \"b\",\n    \"a\"\n  ]\n}"
        );
        let schedule = Schedule { entries: vec![Entry::new("a", 2)] };
        let text = String::from_utf8(schedule.write()).unwrap();
        assert_eq!(text, "[\n  {\n    \"fuzz_count\": 2,\n    \"hash\": \"a\"\n  }\n]");
        let state = String::from_utf8(Checked::default().write()).unwrap();
        assert_eq!(state, "{\n  \"last_checked_commit\": null\n}");
    }

    #[test]
    fn unknown_keys_survive() {
        fn check<F: StateFile>(text: &str) {
            let file = F::read(text.as_bytes()).unwrap();
            let before: Value = serde_json::from_str(text).unwrap();
            let after: Value = serde_json::from_slice(&file.write()).unwrap();
            assert_eq!(before, after);
        }
        check::<Checked>(r#"{"last_checked_commit": "abc", "note": {"b": [1, 2.5], "a": null}}"#);
        check::<BuildQueue>(r#"{"queue": ["x"], "built": [], "failed": [], "paused": true, "é": "ü"}"#);
        check::<Schedule>(
            r#"[{"hash": "a", "fuzz_count": 1, "note": "keep"}, {"hash": "b", "fuzz_count": 0}]"#,
        );
    }

    #[test]
    fn missing_keys_read_as_empty() {
        assert_eq!(BuildQueue::read(b"{}").unwrap(), BuildQueue::default());
        assert_eq!(BuildQueue::read(b"{\"queue\": [\"a\"]}").unwrap().queue, ["a"]);
        assert_eq!(Checked::read(b"{}").unwrap(), Checked::default());
        assert_eq!(Schedule::read(b"[{\"hash\": \"a\"}]").unwrap().entries, [Entry::new("a", 0)]);
        assert_eq!(Schedule::read(b"\xef\xbb\xbf[]").unwrap(), Schedule::default());
    }

    #[test]
    fn what_cannot_be_read_is_said_and_never_taken_as_empty() {
        fn check<F: StateFile>(text: &str, expected: &str) {
            let why = F::read(text.as_bytes()).err().unwrap_or_default();
            assert!(why.contains(expected), "{text}: {why}");
        }
        check::<Schedule>("{}", "it is an object, not a list");
        check::<Schedule>("", "it is empty");
        check::<Schedule>(" \n", "it is empty");
        check::<Schedule>("[{\"hash\": \"a\", \"fuzz_co", "not JSON");
        check::<Schedule>("[\"a\"]", "entry 0: it is a text");
        check::<Schedule>("[{\"hash\": \"a\", \"fuzz_count\": -1}]", "fuzz_count is -1");
        check::<Schedule>("[{\"hash\": \"a\", \"fuzz_count\": \"2\"}]", "fuzz_count is \"2\"");
        check::<Schedule>("[{\"fuzz_count\": 2}]", "no text under hash");
        check::<BuildQueue>("[]", "it is a list, not an object");
        check::<BuildQueue>("{\"queue\": null}", "queue is null");
        check::<BuildQueue>("{\"queue\": [1]}", "queue[0] is a number");
        check::<BuildQueue>("<html>", "not JSON: expected value at line 1 column 1");
        check::<Checked>("{\"last_checked_commit\": 5}", "a number");
        check::<Checked>(&"[".repeat(100_000), "not JSON");
    }

    #[test]
    fn one_commit_has_one_spelling_and_one_entry() {
        let upper = "A".repeat(40);
        let lower = "a".repeat(40);
        let text = format!("{{\"queue\": [\"{upper}\", \"{lower}\", \"short\", \"short\"]}}");
        assert_eq!(BuildQueue::read(text.as_bytes()).unwrap().queue, [lower.as_str(), "short"]);
        let text = format!(
            "[{{\"hash\": \"{lower}\", \"fuzz_count\": 1}}, {{\"hash\": \"{upper}\", \"fuzz_count\": 3}}]"
        );
        assert_eq!(Schedule::read(text.as_bytes()).unwrap().entries, [Entry::new(lower, 3)]);
    }
}
