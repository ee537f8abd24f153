//! Runs by bucket, and each bucket in the order (due, job).
//!
//! Everything here is stable. Runs that come with rising jobs, as generating makes them, only have to be moved to where
//! they belong; whether they did is seen at the end, and what did not is sorted by comparing.

use std::ops::Range;

use super::segment::SPAN_SECS;

/// Runs between seconds are gathered by so many seconds: few enough places to write to at once, and few enough runs in
/// each that sorting them stays in the nearest caches. A segment is a whole number of these.
pub(super) const FINE_SECS: usize = 8;

/// The milliseconds of a bucket, a counter for each.
const FINE_BITS: u32 = 13;
const FINE_MS: usize = 1 << FINE_BITS;
const _: () =
    assert!(FINE_SECS * 1000 <= FINE_MS && SPAN_SECS.is_multiple_of(FINE_SECS) && FINE_MS.is_multiple_of(4));

/// With fewer runs than this in a bucket, comparing is faster than walking all counters.
const COUNTING_LEN_MIN: usize = 512;

/// Where the runs of each bucket go, counted first.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// How many items each bucket has; later, where the next one goes.
    cursors: Vec<u32>,
    /// Where each bucket starts, and where the last one ends.
    starts: Vec<u32>,
}

impl Places {
    /// Starts anew with so many buckets: now count.
    pub(super) fn begin(&mut self, buckets: usize) {
        self.cursors.clear();
        self.cursors.resize(buckets, 0);
    }

    /// The counters of every bucket, and after [`place`](Places::place) the cursors.
    pub(super) fn cursors(&mut self) -> &mut [u32] {
        &mut self.cursors
    }

    /// All is counted: now fill. Says how many items there are.
    pub(super) fn place(&mut self) -> usize {
        let mut at = 0;
        for cursor in &mut self.cursors {
            at += std::mem::replace(cursor, at);
        }
        self.starts.clear();
        self.starts.extend_from_slice(&self.cursors);
        self.starts.push(at);
        at as usize
    }

    /// Where the items of these buckets lie.
    pub(super) fn range(&self, buckets: Range<usize>) -> Range<usize> {
        self.starts[buckets.start] as usize..self.starts[buckets.end] as usize
    }

    /// Writes how many items each bucket from this one on has.
    pub(super) fn read_counts(&self, first: usize, counts: &mut [u32]) {
        let pairs = self.starts[first..].windows(2);
        counts.iter_mut().zip(pairs).for_each(|(count, pair)| *count = pair[1] - pair[0]);
    }
}

/// A run between seconds while it is sorted: milliseconds within its bucket above, its job below.
pub(super) trait Packed: Copy + Default + Ord {
    /// Jobs from here on do not fit.
    const JOBS_END: u64;

    fn new(at: u32, job: u32) -> Self;

    fn at(self) -> usize;

    /// The same as a segment has it, `base` milliseconds on.
    fn into_run(self, base: u64) -> u64;
}

/// For half a million jobs: half the memory to move about.
impl Packed for u32 {
    const JOBS_END: u64 = 1 << (32 - FINE_BITS);

    #[inline]
    fn new(at: u32, job: u32) -> u32 {
        at << (32 - FINE_BITS) | job
    }

    #[inline]
    fn at(self) -> usize {
        (self >> (32 - FINE_BITS)) as usize
    }

    #[inline]
    fn into_run(self, base: u64) -> u64 {
        (base + u64::from(self >> (32 - FINE_BITS))) << 32 | u64::from(self) & (Self::JOBS_END - 1)
    }
}

/// For any jobs.
impl Packed for u64 {
    const JOBS_END: u64 = 1 << 32;

    #[inline]
    fn new(at: u32, job: u32) -> u64 {
        u64::from(at) << 32 | u64::from(job)
    }

    #[inline]
    fn at(self) -> usize {
        (self >> 32) as usize & (FINE_MS - 1)
    }

    #[inline]
    fn into_run(self, base: u64) -> u64 {
        self + (base << 32)
    }
}

/// What sorting a bucket needs beside it.
#[derive(Debug, Default)]
pub(super) struct Desk<T> {
    counts: Vec<u16>,
    sorted: Vec<T>,
}

impl<T: Packed> Desk<T> {
    /// Sorts a bucket that starts `base_ms` into its segment. Writes each run once, as a segment has it; says how many.
    pub(super) fn sort(&mut self, items: &mut [T], base_ms: u64, out: &mut [u64]) -> usize {
        let mut sorted = match items.len() {
            COUNTING_LEN_MIN..=0xffff => self.count(items),
            _ => {
                items.sort_unstable();
                items
            }
        };
        if !sorted.windows(2).fold(true, |strict, pair| strict & (pair[0] < pair[1])) {
            if !sorted.is_sorted() {
                sorted.sort_unstable();
            }
            let kept = dedup(sorted);
            sorted = &mut sorted[..kept];
        }
        out.iter_mut().zip(&*sorted).for_each(|(place, item)| *place = item.into_run(base_ms));
        sorted.len()
    }

    /// Sorts by millisecond, stably: one counter for each, then every item to its place.
    fn count(&mut self, items: &[T]) -> &mut [T] {
        self.counts.clear();
        self.counts.resize(FINE_MS, 0);
        if self.sorted.len() < items.len() {
            self.sorted.resize(items.len(), T::default());
        }
        let (counts, sorted) = (&mut self.counts[..FINE_MS], &mut self.sorted[..items.len()]);
        for item in items {
            counts[item.at()] += 1;
        }
        sum_before(counts);
        for &item in items {
            let cursor = &mut counts[item.at()];
            sorted[*cursor as usize] = item;
            *cursor += 1;
        }
        sorted
    }
}

/// Replaces each count by the sum of those before it, four at a time in one word: there are several counters for each
/// item. All together must fit in 16 bits; there is a multiple of four.
fn sum_before(counts: &mut [u16]) {
    const EACH: u64 = 0x0001_0001_0001_0001;
    let mut before = 0;
    for four in counts.as_chunks_mut::<4>().0 {
        let [a, b, c, d] = four.map(u64::from);
        let mut sums = a | b << 16 | c << 32 | d << 48;
        sums += sums << 16;
        sums += sums << 32;
        let starts = (sums << 16) + before * EACH;
        *four = [0, 16, 32, 48].map(|bits| (starts >> bits) as u16);
        before += sums >> 48;
    }
}

/// Copies jobs, second by second as `counts` says, with each second's sorted and equal ones merged. `out` is as long as
/// `jobs`, and cut to what is left.
pub(super) fn settle(counts: &mut [u32], jobs: &[u32], out: &mut Vec<u32>) {
    if rises(counts, jobs) {
        return out.copy_from_slice(jobs);
    }
    let (mut read, mut write) = (0, 0);
    for count in counts.iter_mut().filter(|count| **count > 0) {
        let (mine, start) = (&jobs[read..read + *count as usize], write);
        read += mine.len();
        // Without branches: every job is written, the next one over it if it is the same.
        let places = &mut out[start..start + mine.len()];
        let (mut last, mut at, mut sorted) = (mine[0], 0, true);
        for &job in mine {
            at += usize::from(job != last);
            sorted &= job >= last;
            places[at] = job;
            last = job;
        }
        write += at + 1;
        if !sorted {
            out[start..write].sort_unstable();
            write = start + dedup(&mut out[start..write]);
        }
        *count = (write - start) as u32;
    }
    out.truncate(write);
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

/// Whether every second's jobs rise strictly: wherever a job is not followed by a higher one, a second ends.
pub(super) fn rises(counts: &[u32], jobs: &[u32]) -> bool {
    let falls = |pair: &[u32]| u32::from(pair[0] >= pair[1]);
    let all: u32 = jobs.windows(2).map(falls).sum();
    if all == 0 {
        return true;
    }
    let mut at = 0;
    let mut between = 0;
    for &count in counts.iter().filter(|&&count| count > 0) {
        between += if at > 0 { falls(&jobs[at - 1..=at]) } else { 0 };
        at += count as usize;
    }
    all == between
}
