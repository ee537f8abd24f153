//! The jobs the engine knows, by number and by name.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::{Arc, Weak};

use cadran_core::{Body, Footprint, GroupName, JobId, JobName, Policy};
use cadran_plan::Policies;
use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// Every job that has a number, removed ones included: a name keeps its number for good.
///
/// One entry is 32 bytes and the name; the table by name holds numbers only. Schedules live in the planner, bodies
/// are shared.
#[derive(Debug, Default)]
pub struct Catalog {
    entries: Vec<Option<Entry>>,
    by_name: HashTable<u32>,
    /// Seeded, so that the order of names in memory repeats; the table is never walked.
    hasher: FixedState,
    /// Shapes seen lately, to share them.
    recent: VecDeque<Weak<Shape>>,
}

/// Shapes worth looking through for a like one: jobs that share a shape mostly come together.
const RECENT_MAX: usize = 32;

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: JobName,
    pub(crate) shape: Arc<Shape>,
    pub(crate) revision: u32,
    pub(crate) removed: bool,
}

/// What jobs have in common that differ in name and schedule only.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) body: Arc<Body>,
    pub(crate) policy: Policy,
    /// What a run without values of its own touches.
    pub(crate) footprint: Option<Arc<Footprint>>,
}

impl Shape {
    /// What a run with these values touches.
    pub(crate) fn footprint(&self, params: &[(Box<str>, Box<str>)]) -> Option<Arc<Footprint>> {
        if params.is_empty() || !self.body.footprint.has_params() {
            return self.footprint.clone();
        }
        footprint(&self.body, params)
    }
}

/// What a run touches.
pub(crate) fn footprint(body: &Body, params: &[(Box<str>, Box<str>)]) -> Option<Arc<Footprint>> {
    body.footprint.resolve(&body.params, params).map(Arc::new)
}

impl Catalog {
    /// The number of a job that is not removed.
    pub fn find(&self, name: &JobName) -> Option<JobId> {
        self.number(name).filter(|job| self.get(*job).is_some_and(|entry| !entry.removed))
    }

    /// Whether a job is removed, or was never there.
    pub(crate) fn is_removed(&self, job: JobId) -> bool {
        self.get(job).is_none_or(|entry| entry.removed)
    }

    /// The name of a job.
    pub fn name(&self, job: JobId) -> Option<&JobName> {
        self.get(job).map(|entry| &entry.name)
    }

    /// The jobs that are not removed and say what they touch.
    pub fn touching(&self) -> impl Iterator<Item = (&JobName, &Body, Policy)> {
        let live = self.entries.iter().flatten().filter(|entry| !entry.removed);
        live.filter(|entry| entry.shape.footprint.is_some())
            .map(|entry| (&entry.name, &*entry.shape.body, entry.shape.policy))
    }

    /// The jobs that are not removed and have children.
    pub fn parents(&self) -> impl Iterator<Item = (&JobName, &[JobName])> {
        let live = self.entries.iter().flatten().filter(|entry| !entry.removed);
        live.filter(|entry| !entry.shape.body.children.is_empty())
            .map(|entry| (&entry.name, entry.shape.body.children.as_slice()))
    }

    /// The jobs that are not removed and call others, with those.
    pub fn callers(&self) -> impl Iterator<Item = (&JobName, Vec<JobName>)> {
        let live = self.entries.iter().flatten().filter(|entry| !entry.removed);
        live.map(|entry| (&entry.name, entry.shape.body.calls().cloned().collect::<Vec<_>>()))
            .filter(|(_, calls)| !calls.is_empty())
    }

    /// The parameter of a job that takes a text of somebody else's, by name or position: the only one it has.
    pub fn text_param(&self, name: &JobName) -> Option<&str> {
        let entry = self.find(name).and_then(|job| self.get(job))?;
        let [param] = &entry.shape.body.params[..] else { return None };
        Some(param.name.as_deref().unwrap_or("1"))
    }

    /// Whether all steps of a job run on a group of executors.
    pub fn is_of(&self, name: &JobName, group: &GroupName) -> bool {
        let entry = self.find(name).and_then(|job| self.get(job));
        entry.is_some_and(|entry| entry.shape.body.is_of(group))
    }

    /// How many jobs are not removed.
    pub fn len(&self) -> usize {
        self.entries.iter().flatten().filter(|entry| !entry.removed).count()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number a name has, removed or not.
    pub(crate) fn number(&self, name: &JobName) -> Option<JobId> {
        let same = |&no: &u32| self.get(JobId(no)).is_some_and(|entry| entry.name == *name);
        self.by_name.find(self.hasher.hash_one(name), same).map(|&no| JobId(no))
    }

    pub(crate) fn get(&self, job: JobId) -> Option<&Entry> {
        self.entries.get(job.index()).and_then(Option::as_ref)
    }

    pub(crate) fn get_mut(&mut self, job: JobId) -> Option<&mut Entry> {
        self.entries.get_mut(job.index()).and_then(Option::as_mut)
    }

    /// Makes room for so many jobs at once, exactly: a million entries should not cost two million.
    pub(crate) fn reserve(&mut self, count: usize) {
        self.entries.reserve_exact(count);
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.by_name.reserve(count, |&no| hash_of(entries, hasher, no));
    }

    /// The shape with this body and policy, shared with jobs that have the same.
    pub(crate) fn shape(&mut self, body: Arc<Body>, policy: Policy) -> Arc<Shape> {
        let same = |shape: &Arc<Shape>| Arc::ptr_eq(&shape.body, &body) && shape.policy == policy;
        if let Some(known) = self.recent.iter().rev().filter_map(Weak::upgrade).find(same) {
            return known;
        }
        let footprint = footprint(&body, &[]);
        let shape = Arc::new(Shape { body, policy, footprint });
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(Arc::downgrade(&shape));
        shape
    }

    /// The number that the next new name gets.
    pub(crate) fn next_id(&self) -> JobId {
        JobId(self.entries.len() as u32)
    }

    /// Puts an entry at its number.
    pub(crate) fn put(&mut self, job: JobId, entry: Entry) {
        if self.entries.len() <= job.index() {
            self.entries.resize_with(job.index() + 1, || None);
        }
        if self.number(&entry.name).is_none() {
            let hash = self.hasher.hash_one(&entry.name);
            self.entries[job.index()] = Some(entry);
            let (entries, hasher) = (&self.entries, &self.hasher);
            self.by_name.insert_unique(hash, job.0, |&no| hash_of(entries, hasher, no));
        } else {
            self.entries[job.index()] = Some(entry);
        }
    }
}

fn hash_of(entries: &[Option<Entry>], hasher: &FixedState, no: u32) -> u64 {
    entries[no as usize].as_ref().map_or(0, |entry| hasher.hash_one(&entry.name))
}

impl Policies for Catalog {
    fn policy(&self, job: JobId) -> Policy {
        self.get(job).map_or(Policy::DEFAULT, |entry| entry.shape.policy)
    }
}
