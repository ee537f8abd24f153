//! Bringing runs into the order (due, job) and cutting them into segments.
//!
//! Both ways into an index end here: a run list and generation from schedules count, find places, and fill the same
//! buffers. Runs on whole seconds and runs between them are kept apart from the start.

use std::sync::Arc;

use super::Index;
use super::segment::{SPAN_SECS, Segment, fine_at};

/// Runs between seconds are gathered by so many milliseconds first: few enough places to write to at once, and few
/// enough runs at each that sorting them stays in the nearest cache.
pub(super) const FINE_MS: u32 = 10_000;

/// Those milliseconds are then sorted in two passes of this many bits.
const DIGIT_BITS: u32 = 7;

/// Below this many runs comparing is faster than counting.
const RADIX_LEN_MIN: usize = 64;

/// Lists kept from indexes that nobody reads any more: some hours of segments.
const POOL_LEN_MAX: usize = 64;

/// Room that one build leaves to the next, so that a rebuild asks the allocator for little but the index itself.
#[derive(Debug, Default)]
pub struct Buffers {
    /// Job numbers by second.
    pub(super) jobs: Buckets<u32>,
    /// Runs between seconds, packed as segments have them, by `FINE_MS`.
    pub(super) fine: Buckets<u64>,
    pub(super) expand: super::expand::Expansions,
    jobs_pool: Pool<u32>,
    fine_pool: Pool<u64>,
    spare: Vec<u64>,
    /// The segment without runs, shared by all.
    pub(super) empty: Arc<Segment>,
}

/// Items by stretches of time: counted first, then written.
#[derive(Debug, Default)]
pub(super) struct Buckets<T> {
    /// How many items each bucket has.
    pub(super) counts: Vec<u32>,
    /// Where the next item of each bucket goes.
    pub(super) cursors: Vec<u32>,
    /// The items: `total` of them, bucket by bucket. What lies beyond is left over from earlier use.
    pub(super) items: Vec<T>,
    total: usize,
}

impl<T: Copy + Default + PartialEq> Buckets<T> {
    fn begin(&mut self, buckets: usize) {
        self.counts.clear();
        self.counts.resize(buckets, 0);
    }

    fn place(&mut self) {
        self.cursors.clear();
        let mut at = 0;
        self.cursors.extend(self.counts.iter().map(|&count| {
            let start = at;
            at += count;
            start
        }));
        self.total = at as usize;
        if self.items.len() < self.total {
            self.items.resize(self.total, T::default());
        }
    }

    /// What was filled in.
    pub(super) fn filled(&self) -> &[T] {
        &self.items[..self.total]
    }

    /// For filling in: borrows once what every item needs.
    pub(super) fn writer(&mut self) -> Writer<'_, T> {
        Writer { cursors: &mut self.cursors, items: &mut self.items }
    }

    /// Lets `sort` bring each bucket in order and say whether all items differ, then merges equal ones and closes the
    /// ranks.
    fn settle(&mut self, mut sort: impl FnMut(&mut [T]) -> bool) {
        if self.total == 0 {
            return;
        }
        let (mut read, mut write) = (0, 0);
        for count in &mut self.counts {
            let (start, end) = (write, read + *count as usize);
            if read == end {
                continue;
            }
            if sort(&mut self.items[read..end]) && read == write {
                (read, write) = (end, end);
                continue;
            }
            // Without branches: every item is written, the next one over it if it is the same.
            let mut last = self.items[read];
            self.items[write] = last;
            for n in read + 1..end {
                let item = self.items[n];
                write += usize::from(item != last);
                self.items[write] = item;
                last = item;
            }
            write += 1;
            read = end;
            *count = (write - start) as u32;
        }
        self.total = write;
    }
}

/// Writes items to their buckets.
pub(super) struct Writer<'a, T> {
    cursors: &'a mut [u32],
    items: &'a mut [T],
}

impl<T: Copy> Writer<'_, T> {
    /// The next item of a bucket.
    #[inline]
    pub(super) fn put(&mut self, bucket: usize, item: T) {
        let cursor = &mut self.cursors[bucket];
        self.items[*cursor as usize] = item;
        *cursor += 1;
    }

    /// The places of the next items of a bucket.
    #[inline]
    pub(super) fn places(&mut self, bucket: usize, count: u32) -> &mut [T] {
        let cursor = &mut self.cursors[bucket];
        let start = *cursor as usize;
        *cursor += count;
        &mut self.items[start..start + count as usize]
    }
}

impl Buckets<u32> {
    /// Whether every second's jobs rise strictly: wherever a job is not followed by a higher one, a second ends.
    fn is_strict(&self) -> bool {
        let items = self.filled();
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
        self.fine.begin(secs * 1000 / FINE_MS as usize);
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
                if !jobs.windows(2).fold(true, |sorted, pair| sorted & (pair[0] <= pair[1])) {
                    jobs.sort_unstable();
                }
                false
            });
        }
    }

    /// Cuts what was filled in into segments.
    pub(super) fn cut(&mut self, segments: &mut Vec<Arc<Segment>>) {
        self.fine.settle(|runs| sort_fine(runs, &mut self.spare));
        let (mut jobs, mut fine) = (self.jobs.items.as_slice(), self.fine.items.as_slice());
        let spans = self
            .jobs
            .counts
            .chunks_exact(SPAN_SECS)
            .zip(self.fine.counts.chunks_exact(SPAN_SECS * 1000 / FINE_MS as usize));
        for (jobs_counts, fine_counts) in spans {
            let (mine, rest) = jobs.split_at(jobs_counts.iter().sum::<u32>() as usize);
            jobs = rest;
            let (mine_fine, rest) = fine.split_at(fine_counts.iter().sum::<u32>() as usize);
            fine = rest;
            segments.push(if mine.is_empty() && mine_fine.is_empty() {
                self.empty.clone()
            } else {
                let (jobs, fine) = (self.jobs_pool.copy(mine), self.fine_pool.copy(mine_fine));
                Arc::new(Segment::new(jobs_counts, jobs, fine))
            });
        }
    }

    /// Takes back the memory of an index that nobody else reads any more, for the next build. Segments that are still
    /// shared are left alone.
    pub fn recycle(&mut self, index: Arc<Index>) {
        for segment in Arc::into_inner(index).into_iter().flat_map(Index::into_segments) {
            if let Some((jobs, fine)) = Arc::into_inner(segment).map(Segment::into_lists) {
                self.jobs_pool.put(jobs);
                self.fine_pool.put(fine);
            }
        }
    }

    /// An empty list for so many jobs.
    pub(super) fn jobs_list(&mut self, len: usize) -> Vec<u32> {
        self.jobs_pool.take(len)
    }
}

/// Lists to be used again.
#[derive(Debug)]
struct Pool<T>(Vec<Vec<T>>);

impl<T> Default for Pool<T> {
    fn default() -> Pool<T> {
        Pool(Vec::new())
    }
}

impl<T: Copy> Pool<T> {
    fn put(&mut self, list: Vec<T>) {
        if list.capacity() > 0 && self.0.len() < POOL_LEN_MAX {
            self.0.push(list);
        }
    }

    /// An empty list with room for `len`, and little more: what an index keeps should not outgrow its runs.
    fn take(&mut self, len: usize) -> Vec<T> {
        let fits = |list: &Vec<T>| (len..=len + len / 16).contains(&list.capacity());
        match self.0.iter().position(fits) {
            Some(place) if len > 0 => {
                let mut list = self.0.swap_remove(place);
                list.clear();
                list
            }
            _ => Vec::with_capacity(len),
        }
    }

    fn copy(&mut self, items: &[T]) -> Vec<T> {
        let mut list = self.take(items.len());
        list.extend_from_slice(items);
        list
    }
}

/// Sorts the runs of `FINE_MS`: by millisecond, lowest digit first, stably. Says whether all differ.
fn sort_fine(runs: &mut [u64], spare: &mut Vec<u64>) -> bool {
    const DIGITS: usize = 1 << DIGIT_BITS;
    let is_strict = |runs: &[u64]| runs.windows(2).fold(true, |strict, pair| strict & (pair[0] < pair[1]));
    if runs.len() < RADIX_LEN_MIN {
        runs.sort_unstable();
        return is_strict(runs);
    }
    // Milliseconds within the stretch, because those within the segment need more digits.
    let base = fine_at(runs[0]) as u32 / FINE_MS * FINE_MS;
    let low = |run: u64| ((run >> 32) as u32 - base) as usize % DIGITS;
    let high = |run: u64| ((run >> 32) as u32 - base) as usize >> DIGIT_BITS & (DIGITS - 1);
    let (mut lows, mut highs) = ([0u32; DIGITS], [0u32; DIGITS]);
    for &run in &*runs {
        lows[low(run)] += 1;
        highs[high(run)] += 1;
    }
    if spare.len() < runs.len() {
        spare.resize(runs.len(), 0);
    }
    let spare = &mut spare[..runs.len()];
    scatter(runs, spare, &mut lows, low);
    scatter(spare, runs, &mut highs, high);
    let strict = is_strict(runs);
    // In order by now, unless jobs came unsorted.
    if !strict && !runs.is_sorted() {
        runs.sort_unstable();
    }
    strict
}

/// Moves runs to the places that the counts of their digit leave them.
fn scatter<const DIGITS: usize>(
    from: &[u64],
    to: &mut [u64],
    counts: &mut [u32; DIGITS],
    digit: impl Fn(u64) -> usize,
) {
    let mut at = 0;
    for count in counts.iter_mut() {
        at += std::mem::replace(count, at);
    }
    for &run in from {
        let cursor = &mut counts[digit(run)];
        to[*cursor as usize] = run;
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
