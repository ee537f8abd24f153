//! Interns what stored jobs have in common, so that jobs that are alike share memory. Bounded: the older generation is dropped.

use std::borrow::Borrow;
use std::hash::Hash;
use std::sync::Arc;

use cadran_core::{Body, Policy, Schedule, ScheduleEntry};
use rustc_hash::FxHashMap;

/// Entries of one generation. A fleet rarely has more kinds of jobs than this; if it has, they share less.
const ENTRIES_MAX: usize = 1 << 16;
/// Text of one generation.
const BYTES_MAX: usize = 4 << 20;
/// A longer text is not likely to be seen twice.
const ENTRY_BYTES_MAX: usize = 64 << 10;

/// A job without its name.
#[derive(Clone, Debug)]
pub(crate) struct NamelessJob {
    pub(crate) schedules: Arc<[ScheduleEntry]>,
    pub(crate) policy: Policy,
    pub(crate) body: Arc<Body>,
}

#[derive(Debug, Default)]
pub(crate) struct JobInterner {
    whole: Generations<Box<str>, NamelessJob>,
    bodies: Generations<Box<str>, Arc<Body>>,
    lists_by_text: Generations<Box<str>, Arc<[ScheduleEntry]>>,
    lists: Generations<Arc<[ScheduleEntry]>, ()>,
    schedules: Generations<Arc<Schedule>, ()>,
}

impl JobInterner {
    pub(crate) fn whole(&mut self, text: &str) -> Option<NamelessJob> {
        self.whole.get(text).map(|(_, shared)| shared.clone())
    }

    pub(crate) fn remember(&mut self, text: &str, shared: NamelessJob) {
        self.whole.put(text.into(), text.len(), shared);
    }

    pub(crate) fn known_body(&mut self, text: &str) -> Option<Arc<Body>> {
        self.bodies.get(text).map(|(_, body)| body.clone())
    }

    /// The body with this text: the one seen before, or a new one.
    pub(crate) fn body(&mut self, text: &str, make: impl FnOnce() -> Body) -> Arc<Body> {
        if let Some(known) = self.known_body(text) {
            return known;
        }
        let body = Arc::new(make());
        self.bodies.put(text.into(), text.len(), body.clone());
        body
    }

    pub(crate) fn known_schedules(&mut self, text: &str) -> Option<Arc<[ScheduleEntry]>> {
        self.lists_by_text.get(text).map(|(_, list)| list.clone())
    }

    pub(crate) fn remember_schedules(&mut self, text: &str, list: &Arc<[ScheduleEntry]>) {
        self.lists_by_text.put(text.into(), text.len(), list.clone());
    }

    /// The list of these schedules: the one seen before, or a new one of schedules seen before.
    pub(crate) fn schedules(&mut self, mut entries: Vec<ScheduleEntry>) -> Arc<[ScheduleEntry]> {
        if let Some((known, ())) = self.lists.get(entries.as_slice()) {
            return known.clone();
        }
        for entry in &mut entries {
            match self.schedules.get(entry.schedule.as_ref()) {
                Some((known, ())) => entry.schedule = known.clone(),
                None => self.schedules.put(entry.schedule.clone(), size_of::<Schedule>(), ()),
            }
        }
        let list: Arc<[ScheduleEntry]> = entries.into();
        self.lists.put(list.clone(), size_of_val(&*list), ());
        list
    }
}

/// A map of two halves: when the young half is full it becomes the old one, and what was old is forgotten.
/// What is asked for becomes young again.
#[derive(Debug)]
struct Generations<K, V> {
    young: FxHashMap<K, (V, usize)>,
    young_bytes: usize,
    old: FxHashMap<K, (V, usize)>,
}

impl<K, V> Default for Generations<K, V> {
    fn default() -> Self {
        Generations { young: FxHashMap::default(), young_bytes: 0, old: FxHashMap::default() }
    }
}

impl<K: Hash + Eq, V> Generations<K, V> {
    fn get<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        if !self.young.contains_key(key) {
            let (key, (value, bytes)) = self.old.remove_entry(key)?;
            self.put(key, bytes, value);
        }
        self.young.get_key_value(key).map(|(key, (value, _))| (key, value))
    }

    fn put(&mut self, key: K, bytes: usize, value: V) {
        if bytes > ENTRY_BYTES_MAX {
            return;
        }
        if self.young.len() >= ENTRIES_MAX || self.young_bytes + bytes > BYTES_MAX {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes;
        self.young.insert(key, (value, bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_forgets_but_not_what_is_asked_for() {
        let mut map: Generations<Box<str>, usize> = Generations::default();
        map.put("kept".into(), 4, 1);
        for at in 0..3 * ENTRIES_MAX {
            map.put(at.to_string().into(), 4, at);
            assert!(map.get("kept").is_some(), "{at}");
            assert!(map.young.len() <= ENTRIES_MAX && map.old.len() <= ENTRIES_MAX);
        }
        assert!(map.get("0").is_none());
        map.put("long".into(), ENTRY_BYTES_MAX + 1, 1);
        assert!(map.get("long").is_none());
    }
}
