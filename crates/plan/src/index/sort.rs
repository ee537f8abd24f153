//! Bringing runs into the order (due, job) and cutting them into segments.
//!
//! Both ways into an index end here: a run list and generation from schedules count, find places, and fill the same
//! buffers. Runs on whole seconds and runs between them are kept apart from the start.

use std::sync::Arc;

use super::segment::{SPAN_SECS, Segment, fine_at};

/// Below this many runs within a second comparing is faster than counting.
const RADIX_LEN_MIN: usize = 24;

/// Milliseconds of a second are sorted in two passes of this many bits.
const DIGIT_BITS: u32 = 5;

/// Room that one build leaves to the next, so that a rebuild asks the allocator for little but the index itself.
#[derive(Debug, Default)]
pub struct Buffers {
    /// Job numbers by second.
    pub(super) jobs: Buckets<u32>,
    /// Runs between seconds, packed as segments have them, by second.
    pub(super) fine: Buckets<u64>,
    pub(super) expand: super::expand::Expansions,
    spare: Vec<u64>,
    /// The segment without runs, shared by all.
    pub(super) empty: Arc<Segment>,
}

/// Items by second: counted first, then written.
#[derive(Debug, Default)]
pub(super) struct Buckets<T> {
    /// How many items each second has.
    pub(super) counts: Vec<u32>,
    /// Where the next item of each second goes.
    pub(super) cursors: Vec<u32>,
    /// The items. What lies beyond the last second is left over from earlier use.
    pub(super) items: Vec<T>,
}

impl<T: Copy + Default> Buckets<T> {
    fn begin(&mut self, secs: usize) {
        self.counts.clear();
        self.counts.resize(secs, 0);
    }

    fn place(&mut self) {
        self.cursors.clear();
        let mut at = 0;
        self.cursors.extend(self.counts.iter().map(|&count| {
            let start = at;
            at += count;
            start
        }));
        if self.items.len() < at as usize {
            self.items.resize(at as usize, T::default());
        }
    }

    #[inline]
    pub(super) fn put(&mut self, second: usize, item: T) {
        let cursor = &mut self.cursors[second];
        self.items[*cursor as usize] = item;
        *cursor += 1;
    }

    /// Lets `settle` bring each second in order and say how many of its items stay, then closes the ranks.
    fn settle(&mut self, mut settle: impl FnMut(&mut [T]) -> usize) {
        let (mut read, mut write) = (0, 0);
        for count in &mut self.counts {
            let end = read + *count as usize;
            let kept = settle(&mut self.items[read..end]);
            if write != read {
                self.items.copy_within(read..read + kept, write);
            }
            *count = kept as u32;
            write += kept;
            read = end;
        }
    }
}

impl Buckets<u32> {
    /// Whether every second's jobs rise strictly: wherever a job is not followed by a higher one, a second ends.
    fn is_strict(&self) -> bool {
        let total = self.counts.iter().sum::<u32>() as usize;
        let items = &self.items[..total];
        let falls = |pair: &[u32]| u32::from(pair[0] >= pair[1]);
        let all: u32 = items.windows(2).map(falls).sum();
        let mut at = 0;
        let mut between = 0;
        for &count in self.counts.iter().filter(|&&count| count > 0) {
            between += if at > 0 { falls(&items[at - 1..=at]) } else { 0 };
            at += count as usize;
        }
        all == between
    }
}

impl Buffers {
    /// Starts a stretch of so many seconds: now count.
    pub(super) fn begin(&mut self, secs: usize) {
        self.jobs.begin(secs);
        self.fine.begin(secs);
    }

    /// All is counted: now fill.
    pub(super) fn place(&mut self) {
        self.jobs.place();
        self.fine.place();
    }

    /// Puts runs that came in any order in order, and merges equal ones. The passes are stable, so where jobs came
    /// rising there is nothing to do.
    pub(super) fn settle(&mut self) {
        if !self.jobs.is_strict() {
            self.jobs.settle(|jobs| {
                jobs.sort_unstable();
                dedup(jobs)
            });
        }
    }

    /// Cuts what was filled in into segments.
    pub(super) fn cut(&mut self, segments: &mut Vec<Arc<Segment>>) {
        self.fine.settle(|runs| {
            sort_within_second(runs, &mut self.spare);
            dedup(runs)
        });
        let (mut jobs, mut fine) = (self.jobs.items.as_slice(), self.fine.items.as_slice());
        let spans = self.jobs.counts.chunks_exact(SPAN_SECS).zip(self.fine.counts.chunks_exact(SPAN_SECS));
        for (jobs_counts, fine_counts) in spans {
            let (mine, rest) = jobs.split_at(jobs_counts.iter().sum::<u32>() as usize);
            jobs = rest;
            let (mine_fine, rest) = fine.split_at(fine_counts.iter().sum::<u32>() as usize);
            fine = rest;
            segments.push(if mine.is_empty() && mine_fine.is_empty() {
                self.empty.clone()
            } else {
                Arc::new(Segment::new(jobs_counts, mine.to_vec(), mine_fine.to_vec()))
            });
        }
    }
}

/// Sorts the runs of one second, which lie close together in memory: by millisecond, lowest digit first, stably.
fn sort_within_second(runs: &mut [u64], spare: &mut Vec<u64>) {
    if runs.len() < RADIX_LEN_MIN {
        runs.sort_unstable();
        return;
    }
    spare.clear();
    spare.resize(runs.len(), 0);
    // Milliseconds within the second, because those within the segment need more digits.
    let second = fine_at(runs[0]) / 1000 * 1000;
    radix_pass(runs, spare, |run| (fine_at(run) - second) as usize);
    radix_pass(spare, runs, |run| ((fine_at(run) - second) >> DIGIT_BITS) as usize);
    // In order by now, unless jobs came unsorted.
    if !runs.is_sorted() {
        runs.sort_unstable();
    }
}

fn radix_pass(from: &[u64], to: &mut [u64], key: impl Fn(u64) -> usize) {
    const DIGITS: usize = 1 << DIGIT_BITS;
    let mut cursors = [0; DIGITS];
    for &run in from {
        cursors[key(run) % DIGITS] += 1;
    }
    let mut at = 0;
    for cursor in &mut cursors {
        at += std::mem::replace(cursor, at);
    }
    for &run in from {
        let cursor = &mut cursors[key(run) % DIGITS];
        to[*cursor] = run;
        *cursor += 1;
    }
}

/// Moves the different ones of sorted items to the front; returns how many.
pub(super) fn dedup<T: Copy + PartialEq>(items: &mut [T]) -> usize {
    let Some(first) = items.windows(2).position(|pair| pair[0] == pair[1]) else { return items.len() };
    let mut kept = first + 1;
    for n in first + 2..items.len() {
        if items[n] != items[kept - 1] {
            items[kept] = items[n];
            kept += 1;
        }
    }
    kept
}
