//! Ten minutes of the index: jobs by second, and a short list for what falls between seconds.

use std::sync::Arc;

use cadran_cron::Millis;

use super::directory::{Directory, Walk};
use super::jobs::{Jobs, Strip};

/// Seconds in one segment. Ten minutes: short enough that a rolling horizon adds little at a time and one job's
/// change leaves most segments alone, long enough that the directory of a busy segment costs nothing per run.
pub(super) const SPAN_SECS: usize = 600;

/// The same span in milliseconds.
pub(super) const SPAN_MS: Millis = SPAN_SECS as Millis * 1000;

/// The number of the segment an instant falls into.
#[inline]
pub(super) fn number_of(at: Millis) -> i64 {
    at.div_euclid(SPAN_MS)
}

/// Runs of one span. Instants are relative to its start, 0 to `SPAN_MS` inclusive.
///
/// Invariants: each second's jobs are strictly increasing; `fine` is strictly increasing and holds no whole second.
#[derive(Debug, Default)]
pub(super) struct Segment {
    directory: Directory,
    /// All jobs, second by second; of a patched segment, most of them and some that are gone. Shared with the segment
    /// that was patched.
    jobs: Arc<Vec<u32>>,
    patch: Option<Box<Strips>>,
    fine: Option<Arc<Vec<u64>>>,
}

/// Where the jobs of a patched segment stand.
#[derive(Debug, Default)]
pub(super) struct Strips {
    pub(super) strips: Vec<Strip>,
    /// Jobs that came in.
    pub(super) own: Vec<u32>,
    /// How many jobs there are.
    pub(super) len: usize,
}

impl Segment {
    /// Takes sorted runs: `counts[s]` of `jobs` belong to second `s`.
    pub(super) fn new(counts: &[u32], jobs: Vec<u32>, fine: Vec<u64>) -> Segment {
        debug_assert_eq!(counts.len(), SPAN_SECS);
        debug_assert_eq!(counts.iter().map(|&n| n as usize).sum::<usize>(), jobs.len());
        let directory = Directory::new(counts, jobs.len());
        Segment { directory, jobs: Arc::new(jobs), patch: None, fine: shared(fine) }
    }

    /// A patched version: its jobs stand in strips of `self`'s list and of one of its own. Without `fine` the runs
    /// between seconds are as they were.
    pub(super) fn patched(&self, counts: &[u32], strips: Strips, fine: Option<Vec<u64>>) -> Segment {
        debug_assert_eq!(counts.iter().map(|&n| n as usize).sum::<usize>(), strips.len);
        Segment {
            directory: Directory::new(counts, strips.len),
            jobs: self.jobs.clone(),
            patch: Some(Box::new(strips)),
            fine: fine.map_or_else(|| self.fine.clone(), shared),
        }
    }

    /// The same with other jobs.
    pub(super) fn rewritten(&self, counts: &[u32], jobs: Vec<u32>, fine: Option<Vec<u64>>) -> Segment {
        let fine = fine.map_or_else(|| self.fine.clone(), shared);
        Segment { directory: Directory::new(counts, jobs.len()), jobs: Arc::new(jobs), patch: None, fine }
    }

    pub(super) fn len(&self) -> usize {
        self.jobs().len() + self.fine().len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Runs due before `at`.
    pub(super) fn rank(&self, at: Millis) -> usize {
        self.jobs_before(at) + self.fine_before(at)
    }

    /// Jobs due on whole seconds in `[lo, hi)`.
    #[inline]
    pub(super) fn jobs_in(&self, lo: Millis, hi: Millis) -> Jobs<'_> {
        self.jobs().between(self.jobs_before(lo), self.jobs_before(hi))
    }

    /// Packed runs due between seconds in `[lo, hi)`.
    pub(super) fn fine_in(&self, lo: Millis, hi: Millis) -> &[u64] {
        &self.fine()[self.fine_before(lo)..self.fine_before(hi)]
    }

    /// A walk over the seconds in `[lo, hi)` that have jobs.
    pub(super) fn seconds_in(&self, lo: Millis, hi: Millis) -> Seconds<'_> {
        let walk = self.directory.walk(second_from(lo));
        Seconds { jobs: self.jobs(), walk, end: second_from(hi) }
    }

    /// Bytes on the heap, what it shares with others included.
    pub(super) fn bytes(&self) -> usize {
        let list = size_of::<Vec<u32>>() + 16;
        let fine = self.fine.as_ref().map_or(0, |fine| list + fine.capacity() * 8);
        let patch = self.patch.as_ref().map_or(0, |patch| {
            size_of::<Strips>() + patch.strips.capacity() * size_of::<Strip>() + patch.own.capacity() * 4
        });
        self.directory.bytes() + list + self.jobs.capacity() * 4 + patch + fine
    }

    /// All jobs due on whole seconds.
    #[inline]
    pub(super) fn jobs(&self) -> Jobs<'_> {
        match &self.patch {
            None => Jobs::whole(&self.jobs),
            Some(patch) => Jobs::patched(&patch.strips, &self.jobs, &patch.own, patch.len),
        }
    }

    /// How many strips the jobs stand in, and how many jobs came in.
    pub(super) fn strips_len(&self) -> (usize, usize) {
        self.patch.as_ref().map_or((1, 0), |patch| (patch.strips.len(), patch.own.len()))
    }

    /// All packed runs due between seconds.
    #[inline]
    pub(super) fn fine(&self) -> &[u64] {
        self.fine.as_ref().map_or(&[], |fine| fine)
    }

    /// Writes how many jobs each second has.
    pub(super) fn read_counts(&self, counts: &mut [u32; SPAN_SECS]) {
        counts.fill(0);
        for (second, start, end) in self.directory.walk(0) {
            counts[second] = (end - start) as u32;
        }
    }

    /// Gives back the lists that nobody else reads, for other segments to be written into.
    pub(super) fn into_lists(self) -> (Vec<u32>, Vec<u64>) {
        let fine = self.fine.and_then(Arc::into_inner).unwrap_or_default();
        (Arc::into_inner(self.jobs).unwrap_or_default(), fine)
    }

    #[inline]
    fn jobs_before(&self, at: Millis) -> usize {
        self.directory.start_of(second_from(at))
    }

    fn fine_before(&self, at: Millis) -> usize {
        self.fine().partition_point(|&run| fine_at(run) < at)
    }
}

fn shared(fine: Vec<u64>) -> Option<Arc<Vec<u64>>> {
    debug_assert!(fine.is_sorted_by(|a, b| a < b) && fine.iter().all(|&run| fine_at(run) % 1000 != 0));
    (!fine.is_empty()).then(|| Arc::new(fine))
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
    jobs: Jobs<'a>,
    walk: Walk<'a>,
    end: usize,
}

impl<'a> Iterator for Seconds<'a> {
    type Item = (Millis, Jobs<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (second, start, end) = self.walk.next()?;
        (second < self.end).then(|| (second as Millis * 1000, self.jobs.take_between(start, end)))
    }
}

/// The first whole second not before `at`.
#[inline]
fn second_from(at: Millis) -> usize {
    (at as usize).div_ceil(1000)
}
