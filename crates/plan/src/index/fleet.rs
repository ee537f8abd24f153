//! Which schedules does each job follow? The part of the catalog that the index is generated from.

use std::borrow::Borrow;
use std::sync::Arc;

use cadran_cron::{Millis, Schedule};

use super::chunked::Chunked;
use super::expand;
use super::intern::Interner;

/// All jobs and their schedules. Equal schedules are kept once, so jobs that share expression and zone share the
/// work. Job numbers should be dense: a job costs four bytes, a schedule some twenty
/// beside itself: it stands in the table, without a pointer to it.
#[derive(Clone, Debug)]
pub struct Fleet {
    rules: Chunked<Rule>,
    jobs_len: usize,
    schedules: Interner<Schedule>,
    /// Sets of two and more schedules, by their numbers, rising.
    sets: Interner<Arc<[u32]>>,
}

impl Fleet {
    /// Without jobs.
    pub fn new() -> Fleet {
        Fleet {
            rules: Chunked::new(Rule::NONE),
            jobs_len: 0,
            schedules: Interner::new(),
            sets: Interner::new(),
        }
    }

    /// Gives a job these schedules in place of those it had. Without any it is removed.
    pub fn set(&mut self, job: u32, schedules: &[impl Borrow<Schedule>]) {
        let rule = self.take(schedules);
        let old = std::mem::replace(self.rules.get_mut(job), rule);
        self.give_back(old);
        self.jobs_len = self.jobs_len + usize::from(rule != Rule::NONE) - usize::from(old != Rule::NONE);
    }

    /// Takes a job out. Nothing happens when it was not there.
    pub fn remove(&mut self, job: u32) {
        if self.contains(job) {
            self.set(job, &[] as &[Schedule]);
        }
    }

    /// Whether the job has schedules.
    pub fn contains(&self, job: u32) -> bool {
        *self.rules.get(job) != Rule::NONE
    }

    /// The job's schedules, each once; their order is not that in which they were given.
    pub fn schedules(&self, job: u32) -> impl Iterator<Item = &Schedule> {
        self.view().schedules(*self.rules.get(job))
    }

    /// The jobs that have schedules, rising.
    pub fn jobs(&self) -> impl Iterator<Item = u32> {
        self.view().rules().map(|(job, _)| job)
    }

    /// How many jobs have schedules.
    pub fn len(&self) -> usize {
        self.jobs_len
    }

    /// Whether no job has a schedule.
    pub fn is_empty(&self) -> bool {
        self.jobs_len == 0
    }

    /// How many different schedules there are.
    pub fn schedules_len(&self) -> usize {
        self.schedules.len()
    }

    /// The fleet as it is now, for a builder on another thread. Takes a step per thousand jobs, and the first change
    /// near a job afterwards copies some kilobytes.
    pub fn snapshot(&self) -> FleetSnapshot {
        FleetSnapshot {
            rules: self.rules.clone(),
            schedules: self.schedules.values().clone(),
            sets: self.sets.values().clone(),
        }
    }

    /// Appends all dues in `[start, end)`, computed from the schedules themselves, ordered by (due, job) and without
    /// duplicates. This is what makes a late index harmless: whatever it does not cover is asked for here.
    pub fn dues_between(&self, start: Millis, end: Millis, dues: &mut Vec<(Millis, u32)>) {
        expand::dues_between(self.view(), start, end, dues);
    }

    /// Bytes of the tables. The schedules themselves are not counted.
    pub fn bytes(&self) -> usize {
        size_of::<Fleet>() + self.rules.bytes() + self.schedules.bytes() + self.sets.bytes()
    }

    fn view(&self) -> View<'_> {
        View { rules: &self.rules, schedules: self.schedules.values(), sets: self.sets.values() }
    }

    fn take(&mut self, schedules: &[impl Borrow<Schedule>]) -> Rule {
        let mut numbers: Vec<u32> =
            schedules.iter().map(|schedule| self.schedules.take(schedule.borrow()).0).collect();
        numbers.sort_unstable();
        numbers.dedup_by(|later, kept| {
            let same = later == kept;
            if same {
                self.schedules.give_back(*later);
            }
            same
        });
        match numbers[..] {
            [] => Rule::NONE,
            [one] => Rule::schedule(one),
            _ => {
                let (set, new) = self.sets.take(&Arc::from(&numbers[..]));
                if !new {
                    // The set holds its schedules once, however many jobs follow it.
                    numbers.iter().for_each(|&number| drop(self.schedules.give_back(number)));
                }
                Rule::set(set)
            }
        }
    }

    fn give_back(&mut self, rule: Rule) {
        match rule.kind() {
            RuleKind::None => {}
            RuleKind::Schedule(number) => drop(self.schedules.give_back(number)),
            RuleKind::Set(set) => {
                for &number in self.sets.give_back(set).iter().flat_map(|numbers| numbers.iter()) {
                    self.schedules.give_back(number);
                }
            }
        }
    }
}

impl Default for Fleet {
    fn default() -> Fleet {
        Fleet::new()
    }
}

/// A fleet at one moment. It shares its tables with the [`Fleet`] it was taken from, which may change meanwhile.
#[derive(Clone, Debug)]
pub struct FleetSnapshot {
    rules: Chunked<Rule>,
    schedules: Chunked<Option<Schedule>>,
    sets: Chunked<Option<Arc<[u32]>>>,
}

impl FleetSnapshot {
    /// As [`Fleet::dues_between`].
    pub fn dues_between(&self, start: Millis, end: Millis, dues: &mut Vec<(Millis, u32)>) {
        expand::dues_between(self.view(), start, end, dues);
    }

    /// As [`Fleet::schedules`].
    pub fn schedules(&self, job: u32) -> impl Iterator<Item = &Schedule> {
        self.view().schedules(*self.rules.get(job))
    }

    pub(super) fn view(&self) -> View<'_> {
        View { rules: &self.rules, schedules: &self.schedules, sets: &self.sets }
    }
}

/// What a job follows, in four bytes: a schedule's number; with the high bit, the number of a set; or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule(u32);

/// A [`Rule`] unpacked.
pub(super) enum RuleKind {
    None,
    Schedule(u32),
    Set(u32),
}

impl Rule {
    pub(super) const NONE: Rule = Rule(u32::MAX);
    const SET: u32 = 1 << 31;

    pub(super) fn schedule(number: u32) -> Rule {
        assert!(number < Rule::SET, "{number} schedules are more than a rule can tell apart");
        Rule(number)
    }

    pub(super) fn set(number: u32) -> Rule {
        assert!(number < Rule::SET - 1, "{number} sets are more than a rule can tell apart");
        Rule(number | Rule::SET)
    }

    pub(super) fn kind(self) -> RuleKind {
        match self {
            Rule::NONE => RuleKind::None,
            Rule(number) if number & Rule::SET == 0 => RuleKind::Schedule(number),
            Rule(number) => RuleKind::Set(number & !Rule::SET),
        }
    }
}

/// The tables of a fleet, for reading.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    rules: &'a Chunked<Rule>,
    schedules: &'a Chunked<Option<Schedule>>,
    sets: &'a Chunked<Option<Arc<[u32]>>>,
}

impl<'a> View<'a> {
    /// The jobs that have a rule, rising.
    pub(super) fn rules(self) -> impl Iterator<Item = (u32, Rule)> + use<'a> {
        self.rules.iter().map(|(job, &rule)| (job, rule)).filter(|&(_, rule)| rule != Rule::NONE)
    }

    /// The job's rule.
    pub(super) fn rule(self, job: u32) -> Rule {
        *self.rules.get(job)
    }

    /// The schedules of a rule.
    pub(super) fn schedules(self, rule: Rule) -> impl Iterator<Item = &'a Schedule> + use<'a> {
        let (one, many) = match rule.kind() {
            RuleKind::None => (None, None),
            RuleKind::Schedule(number) => (Some(number), None),
            RuleKind::Set(set) => (None, self.sets.get(set).as_deref()),
        };
        let numbers = one.into_iter().chain(many.into_iter().flatten().copied());
        numbers.filter_map(move |number| self.schedules.get(number).as_ref())
    }

    /// One more than the highest number of a schedule, and of a set.
    pub(super) fn ends(self) -> (usize, usize) {
        (self.schedules.end(), self.sets.end())
    }
}
