//! Ten minutes of the index: jobs by second, and a short list for what falls between seconds.

use cadran_cron::Millis;

use super::directory::{Directory, Walk};

/// Seconds in one segment. Ten minutes: short enough that a rolling horizon adds little at a time and one job's
/// change leaves most segments alone, long enough that the directory of a busy segment costs nothing per run.
pub(super) const SPAN_SECS: usize = 600;

/// The same span in milliseconds.
pub(super) const SPAN_MS: Millis = SPAN_SECS as Millis * 1000;

/// The number of the segment an instant falls into.
pub(super) fn number_of(at: Millis) -> i64 {
    at.div_euclid(SPAN_MS)
}

/// Runs of one span. Instants are relative to its start, 0 to `SPAN_MS` inclusive.
///
/// Invariants: each second's jobs are strictly increasing; `fine` is strictly increasing and holds no whole second.
#[derive(Debug, Default)]
pub(super) struct Segment {
    directory: Directory,
    jobs: Vec<u32>,
    fine: Vec<u64>,
}

impl Segment {
    /// Takes sorted runs: `counts[s]` of `jobs` belong to second `s`.
    pub(super) fn new(counts: &[u32], jobs: Vec<u32>, fine: Vec<u64>) -> Segment {
        debug_assert_eq!(counts.len(), SPAN_SECS);
        debug_assert_eq!(counts.iter().map(|&n| n as usize).sum::<usize>(), jobs.len());
        debug_assert!(fine.is_sorted_by(|a, b| a < b) && fine.iter().all(|&run| fine_at(run) % 1000 != 0));
        Segment { directory: Directory::new(counts, jobs.len()), jobs, fine }
    }

    pub(super) fn len(&self) -> usize {
        self.jobs.len() + self.fine.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Runs due before `at`.
    pub(super) fn rank(&self, at: Millis) -> usize {
        self.jobs_before(at) + self.fine_before(at)
    }

    /// Jobs due on whole seconds in `[lo, hi)`.
    pub(super) fn jobs_in(&self, lo: Millis, hi: Millis) -> &[u32] {
        &self.jobs[self.jobs_before(lo)..self.jobs_before(hi)]
    }

    /// Packed runs due between seconds in `[lo, hi)`.
    pub(super) fn fine_in(&self, lo: Millis, hi: Millis) -> &[u64] {
        &self.fine[self.fine_before(lo)..self.fine_before(hi)]
    }

    /// A walk over the seconds in `[lo, hi)` that have jobs.
    pub(super) fn seconds_in(&self, lo: Millis, hi: Millis) -> Seconds<'_> {
        Seconds { jobs: &self.jobs, walk: self.directory.walk(second_from(lo)), end: second_from(hi) }
    }

    /// Bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        self.directory.bytes() + self.jobs.capacity() * 4 + self.fine.capacity() * 8
    }

    /// All jobs due on whole seconds.
    pub(super) fn jobs(&self) -> &[u32] {
        &self.jobs
    }

    /// All packed runs due between seconds.
    pub(super) fn fine(&self) -> &[u64] {
        &self.fine
    }

    /// Writes how many jobs each second has.
    pub(super) fn read_counts(&self, counts: &mut [u32; SPAN_SECS]) {
        counts.fill(0);
        for (second, start, end) in self.directory.walk(0) {
            counts[second] = (end - start) as u32;
        }
    }

    /// Gives the two lists back, for other segments to be written into.
    pub(super) fn into_lists(self) -> (Vec<u32>, Vec<u64>) {
        (self.jobs, self.fine)
    }

    fn jobs_before(&self, at: Millis) -> usize {
        self.directory.start_of(second_from(at))
    }

    fn fine_before(&self, at: Millis) -> usize {
        self.fine.partition_point(|&run| fine_at(run) < at)
    }
}

/// A run between seconds: its instant inside the segment above, its job below, so that numbers order as runs do.
pub(super) fn fine_run(at: Millis, job: u32) -> u64 {
    debug_assert!((0..SPAN_MS).contains(&at));
    ((at as u64) << 32) | u64::from(job)
}

/// The instant of a packed run.
pub(super) fn fine_at(run: u64) -> Millis {
    (run >> 32) as Millis
}

/// The job of a packed run.
pub(super) fn fine_job(run: u64) -> u32 {
    run as u32
}

/// Non-empty seconds of a segment, in order.
#[derive(Clone, Debug)]
pub(super) struct Seconds<'a> {
    jobs: &'a [u32],
    walk: Walk<'a>,
    end: usize,
}

impl<'a> Iterator for Seconds<'a> {
    type Item = (Millis, &'a [u32]);

    fn next(&mut self) -> Option<Self::Item> {
        let (second, start, end) = self.walk.next()?;
        (second < self.end).then(|| (second as Millis * 1000, &self.jobs[start..end]))
    }
}

/// The first whole second not before `at`.
fn second_from(at: Millis) -> usize {
    (at as usize).div_ceil(1000)
}
