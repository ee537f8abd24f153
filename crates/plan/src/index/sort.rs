//! Bringing runs into the order (due, job) and cutting them into segments.
//!
//! Both ways into an index end here: a run list and generation from schedules fill the same buffers.

use std::sync::Arc;

use super::segment::{SPAN_MS, SPAN_SECS, Segment};

/// Bits a radix pass looks at: its 2,048 counters stay in the nearest cache.
const DIGIT_BITS: u32 = 11;
const DIGITS: usize = 1 << DIGIT_BITS;

/// Below this many runs comparing is faster than counting.
const RADIX_LEN_MIN: usize = 512;

/// Room that one build leaves to the next, so that a rebuild asks the allocator for little but the index itself.
#[derive(Debug, Default)]
pub struct Buffers {
    /// Runs at each second of the stretch being built.
    pub(super) counts: Vec<u32>,
    /// Where the next job of each second goes.
    pub(super) cursors: Vec<u32>,
    /// Job numbers by second. What lies beyond the stretch in hand is left over from an earlier one.
    pub(super) jobs: Vec<u32>,
    /// Runs between seconds: milliseconds since the start of the stretch above, job below.
    pub(super) fine: Vec<u64>,
    spare: Vec<u64>,
    pub(super) expand: super::expand::Expansions,
    /// The segment without runs, shared by all.
    pub(super) empty: Arc<Segment>,
}

impl Buffers {
    /// Starts a stretch of so many seconds.
    pub(super) fn begin(&mut self, secs: usize) {
        self.counts.clear();
        self.counts.resize(secs, 0);
        self.fine.clear();
    }

    /// With all seconds counted, finds each second's place.
    pub(super) fn place(&mut self) {
        self.cursors.clear();
        let mut at = 0;
        self.cursors.extend(self.counts.iter().map(|&count| {
            let start = at;
            at += count;
            start
        }));
        if self.jobs.len() < at as usize {
            self.jobs.resize(at as usize, 0);
        }
    }

    /// Puts every second's jobs in strict order, for runs that came in any order. Seconds that are in order already,
    /// as the stable pass leaves them when jobs came rising, cost one look.
    pub(super) fn settle(&mut self) {
        let (mut read, mut write) = (0, 0);
        for count in &mut self.counts {
            let end = read + *count as usize;
            if !is_strict(&self.jobs[read..end]) {
                self.jobs[read..end].sort_unstable();
                *count = dedup(&mut self.jobs[read..end]) as u32;
            }
            if write != read {
                self.jobs.copy_within(read..read + *count as usize, write);
            }
            write += *count as usize;
            read = end;
        }
    }

    /// Cuts what was filled in into segments.
    pub(super) fn cut(&mut self, segments: &mut Vec<Arc<Segment>>) {
        self.sort_fine();
        let (mut jobs, mut fine) = (self.jobs.as_slice(), self.fine.as_slice());
        for (n, counts) in self.counts.chunks_exact(SPAN_SECS).enumerate() {
            let jobs_len = counts.iter().sum::<u32>() as usize;
            let base = (n as u64 * SPAN_MS as u64) << 32;
            let fine_len = fine.partition_point(|&run| run - base < (SPAN_MS as u64) << 32);
            if jobs_len + fine_len == 0 {
                segments.push(self.empty.clone());
                continue;
            }
            let (mine, rest) = jobs.split_at(jobs_len);
            jobs = rest;
            let (mine_fine, rest) = fine.split_at(fine_len);
            fine = rest;
            let mine_fine = mine_fine.iter().map(|&run| run - base).collect();
            segments.push(Arc::new(Segment::new(counts, mine.to_vec(), mine_fine)));
        }
    }

    fn sort_fine(&mut self) {
        if self.fine.len() < RADIX_LEN_MIN {
            self.fine.sort_unstable();
        } else {
            let span_ms = self.counts.len() as u64 * 1000;
            radix_sort(&mut self.fine, &mut self.spare, u64::BITS - span_ms.leading_zeros());
            // Stable by due, so in order unless jobs came unsorted.
            if !self.fine.is_sorted() {
                self.fine.sort_unstable();
            }
        }
        self.fine.dedup();
    }
}

/// Sorts by the `bits` bits above the job, stably, lowest digit first.
fn radix_sort(runs: &mut Vec<u64>, spare: &mut Vec<u64>, bits: u32) {
    spare.resize(runs.len(), 0);
    for pass in 0..bits.div_ceil(DIGIT_BITS) {
        let digit = |run: u64| (run >> (32 + pass * DIGIT_BITS)) as usize % DIGITS;
        let mut cursors = [0u32; DIGITS];
        for &run in runs.iter() {
            cursors[digit(run)] += 1;
        }
        let mut at = 0;
        for cursor in &mut cursors {
            at += std::mem::replace(cursor, at);
        }
        for &run in runs.iter() {
            let cursor = &mut cursors[digit(run)];
            spare[*cursor as usize] = run;
            *cursor += 1;
        }
        std::mem::swap(runs, spare);
    }
}

/// Whether the jobs rise strictly. No early exit, so that several are compared at a time.
fn is_strict(jobs: &[u32]) -> bool {
    jobs.windows(2).fold(true, |strict, pair| strict & (pair[0] < pair[1]))
}

/// Moves the different ones of sorted jobs to the front; returns how many.
fn dedup(jobs: &mut [u32]) -> usize {
    let mut kept = 0;
    for n in 0..jobs.len() {
        if kept == 0 || jobs[kept - 1] != jobs[n] {
            jobs[kept] = jobs[n];
            kept += 1;
        }
    }
    kept
}
