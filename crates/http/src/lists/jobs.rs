//! Every job in short, in the order of names.

use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use cadran_core::{
    GroupName, Job, JobId, JobName, JobPut, Millis, RunId, RunStatus, ScheduleAction, ScheduleEntry,
};
use cadran_spec::Decoder;
use cadran_store::{JobRecord, LastRun};

use super::runs::Row;

/// Entries that are looked through under one lock.
const SLICE: usize = 4_096;

/// No due to come.
const NEVER: Millis = Millis::MAX;

/// All jobs there ever were, by number.
#[derive(Default)]
pub(crate) struct Jobs {
    entries: Vec<Option<Entry>>,
    /// Numbers in the order of names.
    by_name: Vec<u32>,
    decoder: Decoder,
    traits: HashSet<Arc<Traits>>,
    /// Rises when a job is put or removed.
    generation: u64,
}

struct Entry {
    name: JobName,
    source: Arc<str>,
    traits: Arc<Traits>,
    schedules: Arc<[ScheduleEntry]>,
    next_due: Millis,
    is_removed: bool,
    is_paused: bool,
    is_disabled: bool,
    last: Option<LastBegun>,
}

/// What filters ask for, shared by jobs that have it in common.
#[derive(Default, PartialEq, Eq, Hash)]
struct Traits {
    labels: Vec<(String, String)>,
    /// The groups its steps go to.
    groups: BTreeSet<String>,
    /// A step runs on the server itself.
    runs_here: bool,
}

/// The newest run of a job that began.
#[derive(Clone, Copy)]
struct LastBegun {
    run: LastRun,
    late_ms: Option<Millis>,
    ended_at: Option<Millis>,
}

/// How a job is, as a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobWord {
    /// Its schedules are in force.
    Active,
    /// Its schedules rest until it is resumed.
    Paused,
    /// Its file says `enabled: false`.
    Disabled,
    /// Its file is gone.
    Removed,
}

impl JobWord {
    pub(crate) const WORDS: &'static [(JobWord, &'static str)] = &[
        (JobWord::Active, "active"),
        (JobWord::Paused, "paused"),
        (JobWord::Disabled, "disabled"),
        (JobWord::Removed, "removed"),
    ];
}

/// The order of a list of jobs. Jobs without the value come last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum JobSort {
    #[default]
    Name,
    /// Soonest first.
    NextDue,
    /// Latest first.
    LastEnd,
    /// Most first.
    Lateness,
}

impl JobSort {
    pub(crate) const WORDS: &'static [(JobSort, &'static str)] = &[
        (JobSort::Name, "name"),
        (JobSort::NextDue, "next_due"),
        (JobSort::LastEnd, "last_end"),
        (JobSort::Lateness, "lateness"),
    ];
}

/// A label: its name, and its value unless any will do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LabelFilter {
    pub(crate) name: String,
    pub(crate) value: Option<String>,
}

/// Which jobs. What is empty or `None` filters nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobFilter {
    /// Part of the name, in lower case.
    pub(crate) text: String,
    /// Without any: all but removed ones.
    pub(crate) states: Vec<JobWord>,
    /// All of them.
    pub(crate) labels: Vec<LabelFilter>,
    /// What the newest run that began is.
    pub(crate) last: Vec<RunStatus>,
    /// A group of executors, or the word for the server itself.
    pub(crate) executor: Option<String>,
    /// Files with problems, and whether jobs of these or of all others are meant.
    pub(crate) problem: Option<(HashSet<String>, bool)>,
    pub(crate) after: Option<JobName>,
}

/// One job of a page.
pub(crate) struct JobRow {
    pub(crate) job: JobId,
    pub(crate) name: JobName,
    pub(crate) next_due: Option<Millis>,
    pub(crate) last: Option<LastRun>,
    pub(crate) last_end: Option<Millis>,
    pub(crate) late_ms: Option<Millis>,
}

impl Jobs {
    /// How often the jobs have changed.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn find(&self, name: &JobName) -> Option<JobId> {
        self.place(name).ok().map(|at| JobId(self.by_name[at]))
    }

    /// How a job is.
    pub(crate) fn word(&self, name: &JobName) -> Option<JobWord> {
        self.find(name).and_then(|job| self.entry(job)).map(Entry::word)
    }

    pub(crate) fn name(&self, job: JobId) -> Option<&JobName> {
        self.entry(job).map(|entry| &entry.name)
    }

    /// The dues of a job's schedules in `[from, to]`, as they are now, with at most `limit` of them.
    pub(crate) fn dues(&self, job: JobId, from: Millis, to: Millis, limit: usize) -> Vec<Millis> {
        let Some(entry) = self.entry(job) else { return Vec::new() };
        let next = |after: Millis| entry.next_start(after).filter(|due| *due <= to);
        std::iter::successors(next(from.saturating_sub(1)), |due| next(*due)).take(limit).collect()
    }

    /// One job, removed or not.
    pub(crate) fn row(&self, job: JobId, now: Millis) -> Option<JobRow> {
        let entry = self.entry(job)?;
        Some(JobRow {
            job,
            name: entry.name.clone(),
            next_due: entry.next_start(now).filter(|_| entry.is_live()),
            last: entry.last.map(|last| last.run),
            last_end: entry.last.and_then(|last| last.ended_at),
            late_ms: entry.last.and_then(|last| last.late_ms),
        })
    }

    /// A page of jobs, and how many there are in all.
    pub(crate) fn page(
        &self,
        filter: &JobFilter,
        sort: JobSort,
        offset: usize,
        limit: usize,
        now: Millis,
    ) -> (Vec<JobRow>, usize) {
        let from = match &filter.after {
            Some(after) => self.place(after).map_or_else(|at| at, |at| at + 1),
            None => 0,
        };
        let wanted = self.by_name[from..]
            .iter()
            .filter(|job| self.entry(JobId(**job)).is_some_and(|entry| entry.is_wanted(filter)));
        let row = |job: u32| self.row(JobId(job), now);
        if sort == JobSort::Name {
            let (mut rows, mut total) = (Vec::new(), 0);
            for job in wanted {
                if total >= offset && rows.len() < limit {
                    rows.extend(row(*job));
                }
                total += 1;
            }
            return (rows, total);
        }
        let key = |job: u32| self.entry(JobId(job)).map_or(NEVER, |entry| entry.key(sort));
        // Behind the key stands the place by name, so that equal ones have an order.
        let mut keys: Vec<(Millis, u32, u32)> =
            wanted.zip(0..).map(|(job, place)| (key(*job), place, *job)).collect();
        let total = keys.len();
        let (first, end) = (offset.min(total), offset.saturating_add(limit).min(total));
        // Only the page is sorted.
        if end < total {
            keys.select_nth_unstable(end);
            keys.truncate(end);
        }
        if first > 0 && first < end {
            keys.select_nth_unstable(first);
        }
        let page = &mut keys[first..];
        page.sort_unstable();
        (page.iter().filter_map(|(_, _, job)| row(*job)).collect(), total)
    }

    /// The names of all jobs that a filter names, at most `limit`, and how many there are.
    pub(crate) fn names(&self, filter: &JobFilter, limit: usize) -> (Vec<JobName>, usize) {
        let wanted = self.by_name.iter().filter_map(|job| self.entry(JobId(*job)));
        let (mut names, mut total) = (Vec::new(), 0);
        for entry in wanted.filter(|entry| entry.is_wanted(filter)) {
            if names.len() < limit {
                names.push(entry.name.clone());
            }
            total += 1;
        }
        (names, total)
    }

    /// For each job whether its runs are wanted by these labels and executor, by number. `None` when all are.
    pub(crate) fn mask(&self, labels: &[LabelFilter], executor: Option<&str>) -> Option<Vec<bool>> {
        if labels.is_empty() && executor.is_none() {
            return None;
        }
        let wanted =
            |entry: &Option<Entry>| entry.as_ref().is_some_and(|entry| entry.traits.fit(labels, executor));
        Some(self.entries.iter().map(wanted).collect())
    }

    fn entry(&self, job: JobId) -> Option<&Entry> {
        self.entries.get(job.index()).and_then(Option::as_ref)
    }

    fn entry_mut(&mut self, job: JobId) -> Option<&mut Entry> {
        self.entries.get_mut(job.index()).and_then(Option::as_mut)
    }

    fn place(&self, name: &JobName) -> Result<usize, usize> {
        self.by_name.binary_search_by(|job| {
            self.entries[*job as usize].as_ref().map(|entry| &entry.name).cmp(&Some(name))
        })
    }

    /// A job of the record, while the lists are made. Names are put in order by [`Jobs::refresh_all`].
    pub(super) fn load(&mut self, record: &JobRecord) {
        self.insert(&record.put);
        self.by_name.push(record.put.job.0);
        if let Some(entry) = self.entry_mut(record.put.job) {
            entry.is_removed = record.removed_at.is_some();
            entry.is_paused = record.state.paused_at.is_some();
        }
    }

    /// Puts names in order, and computes all next dues.
    pub(super) fn refresh_all(&mut self, now: Millis) {
        let entries = &self.entries;
        self.by_name.sort_by(|one, other| {
            let name = |job: &u32| entries[*job as usize].as_ref().map(|entry| &entry.name);
            name(one).cmp(&name(other))
        });
        for entry in self.entries.iter_mut().flatten() {
            entry.next_due = entry.next_start(now).unwrap_or(NEVER);
        }
    }

    pub(super) fn put(&mut self, put: &JobPut, now: Millis) {
        if self.entry(put.job).is_some_and(|entry| entry.name != put.name) {
            self.by_name.retain(|job| *job != put.job.0);
        }
        self.insert(put);
        if let Err(at) = self.place(&put.name) {
            self.by_name.insert(at, put.job.0);
        }
        if let Some(entry) = self.entry_mut(put.job) {
            entry.next_due = entry.next_start(now).unwrap_or(NEVER);
        }
        self.generation += 1;
    }

    fn insert(&mut self, put: &JobPut) {
        // One that this version cannot read is listed without its inside.
        let job = self.decoder.decode(put.name.clone(), &put.definition).ok();
        let traits = self.share(job.as_ref().map(Traits::of).unwrap_or_default());
        let at = put.job.index();
        if self.entries.len() <= at {
            self.entries.resize_with(at + 1, || None);
        }
        let before = self.entries[at].take();
        self.entries[at] = Some(Entry {
            name: put.name.clone(),
            source: put.source.clone(),
            traits,
            is_disabled: job.as_ref().is_some_and(|job| job.body.disabled),
            schedules: job.map(|job| job.schedules).unwrap_or_default(),
            next_due: NEVER,
            is_removed: false,
            is_paused: before.as_ref().is_some_and(|before| before.is_paused),
            last: before.and_then(|before| before.last),
        });
    }

    fn share(&mut self, traits: Traits) -> Arc<Traits> {
        if let Some(known) = self.traits.get(&traits) {
            return known.clone();
        }
        // What no job has any more goes when there is as much again.
        if self.traits.len() == self.traits.capacity() {
            self.traits.retain(|traits| Arc::strong_count(traits) > 1);
        }
        let traits = Arc::new(traits);
        self.traits.insert(traits.clone());
        traits
    }

    pub(super) fn remove(&mut self, job: JobId) {
        if let Some(entry) = self.entry_mut(job) {
            entry.is_removed = true;
            self.generation += 1;
        }
    }

    pub(super) fn set_paused(&mut self, job: JobId, is_paused: bool) {
        if let Some(entry) = self.entry_mut(job) {
            entry.is_paused = is_paused;
        }
    }

    /// A run has a new state: the newest that began says how its job is.
    pub(super) fn began(&mut self, row: &Row) {
        let run = RunId::from_raw(row.run);
        let Some(entry) = self.entry_mut(JobId(row.job)) else { return };
        if row.status == RunStatus::Promised || entry.last.is_some_and(|last| last.run.run > run) {
            return;
        }
        entry.last = Some(LastBegun {
            run: LastRun { run, status: row.status, due: row.due },
            late_ms: row.late_ms(),
            ended_at: row.ended_at(),
        });
    }

    /// The first job from a number on whose next due has passed.
    pub(super) fn passed(&self, from: usize, now: Millis) -> Option<usize> {
        let passed = |entry: &Option<Entry>| entry.as_ref().is_some_and(|entry| entry.next_due <= now);
        self.entries.get(from..)?.iter().position(passed).map(|at| from + at)
    }

    /// Computes next dues that have passed, of a slice of the jobs; where to go on.
    pub(super) fn refresh(&mut self, from: usize, now: Millis) -> Option<usize> {
        let end = (from + SLICE).min(self.entries.len());
        for entry in self.entries[from..end].iter_mut().flatten().filter(|entry| entry.next_due <= now) {
            entry.next_due = entry.next_start(now).unwrap_or(NEVER);
        }
        (end < self.entries.len()).then_some(end)
    }
}

impl Entry {
    fn is_live(&self) -> bool {
        !self.is_removed && !self.is_paused
    }

    fn word(&self) -> JobWord {
        match self {
            Entry { is_removed: true, .. } => JobWord::Removed,
            Entry { is_paused: true, .. } => JobWord::Paused,
            Entry { is_disabled: true, .. } => JobWord::Disabled,
            _ => JobWord::Active,
        }
    }

    fn next_start(&self, after: Millis) -> Option<Millis> {
        let starts = self.schedules.iter().filter(|entry| entry.action == ScheduleAction::Start);
        starts.filter_map(|entry| entry.schedule.next(after)).min()
    }

    fn key(&self, sort: JobSort) -> Millis {
        let last = |value: fn(&LastBegun) -> Option<Millis>| {
            self.last.as_ref().and_then(value).map_or(NEVER, |value| -value)
        };
        match sort {
            JobSort::Name => 0,
            JobSort::NextDue if self.is_live() => self.next_due,
            JobSort::NextDue => NEVER,
            JobSort::LastEnd => last(|last| last.ended_at),
            JobSort::Lateness => last(|last| last.late_ms),
        }
    }

    fn is_wanted(&self, filter: &JobFilter) -> bool {
        let word = self.word();
        let is_in_state = match &filter.states[..] {
            [] => word != JobWord::Removed,
            states => states.contains(&word),
        };
        is_in_state
            && (filter.last.is_empty()
                || self.last.is_some_and(|last| filter.last.contains(&last.run.status)))
            && self.traits.fit(&filter.labels, filter.executor.as_deref())
            && (filter.text.is_empty() || contains(self.name.as_str(), &filter.text))
            && filter.problem.as_ref().is_none_or(|(files, wanted)| files.contains(&*self.source) == *wanted)
    }
}

impl Traits {
    fn of(job: &Job) -> Traits {
        let target = |group: &GroupName| group.as_str().to_owned();
        let steps = &job.body.steps;
        Traits {
            labels: job.body.labels.clone(),
            groups: steps
                .iter()
                .filter_map(|step| step.target.as_ref())
                .map(|at| target(&at.group))
                .collect(),
            runs_here: steps.iter().any(|step| step.target.is_none()),
        }
    }

    fn fit(&self, labels: &[LabelFilter], executor: Option<&str>) -> bool {
        let has = |wanted: &LabelFilter| {
            let fits = |value: &str| wanted.value.as_deref().is_none_or(|wanted| wanted == value);
            self.labels.iter().any(|(name, value)| *name == wanted.name && fits(value))
        };
        labels.iter().all(has)
            && executor.is_none_or(|executor| match executor == cadran_spec::HERE {
                true => self.runs_here,
                false => self.groups.contains(executor),
            })
    }
}

/// Whether a name contains a text that is in lower case. Names are ASCII.
fn contains(name: &str, text: &str) -> bool {
    name.as_bytes().windows(text.len()).any(|part| part.eq_ignore_ascii_case(text.as_bytes()))
}
