//! The room in which indexes are built, kept from one build to the next.
//!
//! Both ways into an index end here: a run list and generation from schedules fill the same buffers, which are then
//! cut into segments. Runs on whole seconds and runs between them are kept apart from the start.

use std::ops::Range;
use std::sync::Arc;

use super::gather::Gathered;
use super::segment::{SPAN_SECS, Segment};
use super::sort::{Desk, FINE_SECS, Places, rises, settle};
use super::{Index, Run};

/// Lists kept from indexes that nobody reads any more: some hours of segments.
const POOL_LEN_MAX: usize = 64;

/// Room that one build leaves to the next, so that a rebuild asks the allocator for little but the index itself.
#[derive(Debug, Default)]
pub struct Buffers {
    /// What was gathered from a list: jobs by second, runs between seconds by `FINE_SECS`.
    pub(super) seconds: Gathered<u32>,
    pub(super) between: Gathered<u32>,
    /// Runs on whole seconds, of a list that has others too.
    pub(super) on: Vec<Run>,
    between_desk: Desk<u32>,
    /// One bucket of those, in one piece.
    bucket: Vec<u32>,
    /// Job numbers by second.
    pub(super) jobs: Places,
    jobs_list: Vec<u32>,
    /// Runs between seconds by `FINE_SECS`, bucket by bucket. What lies beyond the last is left over from earlier use.
    pub(super) fine: Places,
    fine_list: Vec<u64>,
    fine_desk: Desk<u64>,
    pub(super) expand: super::expand::Expansions,
    jobs_pool: Pool<u32>,
    fine_pool: Pool<u64>,
    /// The segment without runs, shared by all.
    pub(super) empty: Arc<Segment>,
}

/// Where everything is written to: the places of both kinds of runs, and their lists.
pub(super) type Filling<'a> = ((&'a mut Places, &'a mut Places), (&'a mut [u32], &'a mut [u64]));

impl Buffers {
    /// Starts a stretch of so many seconds: now count.
    pub(super) fn begin(&mut self, secs: usize) {
        self.jobs.begin(secs);
        self.fine.begin(secs / FINE_SECS);
    }

    /// All is counted: now fill.
    pub(super) fn place(&mut self) -> Filling<'_> {
        lengthen(&mut self.jobs_list, self.jobs.place());
        lengthen(&mut self.fine_list, self.fine.place());
        ((&mut self.jobs, &mut self.fine), (&mut self.jobs_list, &mut self.fine_list))
    }

    /// Cuts what was filled in into so many segments. Jobs on whole seconds need not have come sorted and each once if
    /// they are said to be `loose`.
    pub(super) fn cut(&mut self, count: usize, loose: bool, segments: &mut Vec<Arc<Segment>>) {
        let mut counts = [0; SPAN_SECS];
        for number in 0..count {
            let seconds = number * SPAN_SECS..(number + 1) * SPAN_SECS;
            let list = &self.jobs_list[self.jobs.range(seconds.clone())];
            let mut jobs = self.jobs_pool.take(list.len());
            let buckets = fine_buckets(number);
            let mut fine = self.fine_pool.take(self.fine.range(buckets.clone()).len());
            if !fine.is_empty() {
                let mut len = 0;
                for (bucket, base_ms) in buckets.zip(fine_bases()) {
                    let items = &mut self.fine_list[self.fine.range(bucket..bucket + 1)];
                    len += self.fine_desk.sort(items, base_ms, &mut fine[len..]);
                }
                fine.truncate(len);
                trim(&mut fine);
            }
            if jobs.is_empty() && fine.is_empty() {
                segments.push(self.empty.clone());
                continue;
            }
            self.jobs.read_counts(seconds.start, &mut counts);
            if loose {
                settle(&mut counts, list, &mut jobs);
                trim(&mut jobs);
            } else {
                jobs.copy_from_slice(list);
            }
            segments.push(Arc::new(Segment::new(&counts, jobs, fine)));
        }
    }

    /// Cuts what was gathered into so many segments.
    pub(super) fn cut_gathered(&mut self, count: usize, segments: &mut Vec<Arc<Segment>>) {
        let mut counts = [0; SPAN_SECS];
        for number in 0..count {
            let jobs = self.gathered_jobs(number, &mut counts);
            let fine = self.gathered_fine(number);
            segments.push(match jobs.is_empty() && fine.is_empty() {
                true => self.empty.clone(),
                false => Arc::new(Segment::new(&counts, jobs, fine)),
            });
        }
    }

    /// The jobs of a segment second by second, and how many each second has.
    fn gathered_jobs(&mut self, number: usize, counts: &mut [u32; SPAN_SECS]) -> Vec<u32> {
        let seconds = number * SPAN_SECS..(number + 1) * SPAN_SECS;
        for (count, second) in counts.iter_mut().zip(seconds.clone()) {
            *count = self.seconds.len(second) as u32;
        }
        let mut jobs = self.jobs_pool.take(counts.iter().sum::<u32>() as usize);
        let mut rest = jobs.as_mut_slice();
        for block in seconds.flat_map(|second| self.seconds.blocks(second)) {
            let (mine, later) = rest.split_at_mut(block.len());
            mine.copy_from_slice(block);
            rest = later;
        }
        if !rises(counts, &jobs) {
            settle(counts, &jobs.clone(), &mut jobs);
        }
        trim(&mut jobs);
        jobs
    }

    /// The runs between the seconds of a segment: sorted, each once, packed as a segment has them.
    fn gathered_fine(&mut self, number: usize) -> Vec<u64> {
        if self.between.is_empty() {
            return Vec::new();
        }
        let buckets = fine_buckets(number);
        let mut fine = self.fine_pool.take(buckets.clone().map(|bucket| self.between.len(bucket)).sum());
        if fine.is_empty() {
            return fine;
        }
        let mut len = 0;
        for (bucket, base_ms) in buckets.zip(fine_bases()) {
            self.between.collect(bucket, &mut self.bucket);
            len += self.between_desk.sort(&mut self.bucket, base_ms, &mut fine[len..]);
        }
        fine.truncate(len);
        trim(&mut fine);
        fine
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
        let mut list = self.jobs_pool.take(len);
        list.clear();
        list
    }
}

fn lengthen<T: Clone + Default>(list: &mut Vec<T>, len: usize) {
    if list.len() < len {
        // Exactly, because growing by doubling could take twice the memory.
        list.reserve_exact(len - list.len());
        list.resize(len, T::default());
    }
}

/// The buckets of a segment's runs between seconds.
fn fine_buckets(number: usize) -> Range<usize> {
    let per_segment = SPAN_SECS / FINE_SECS;
    number * per_segment..(number + 1) * per_segment
}

/// Where they start, in milliseconds.
fn fine_bases() -> impl Iterator<Item = u64> {
    (0..).step_by(FINE_SECS * 1000)
}

/// Lists to be used again.
#[derive(Debug)]
struct Pool<T>(Vec<Vec<T>>);

impl<T> Default for Pool<T> {
    fn default() -> Pool<T> {
        Pool(Vec::new())
    }
}

impl<T: Copy + Default> Pool<T> {
    fn put(&mut self, list: Vec<T>) {
        if list.capacity() > 0 && self.0.len() < POOL_LEN_MAX {
            self.0.push(list);
        }
    }

    /// A list of this length, with anything in it, and room for little more: what an index keeps should not outgrow
    /// its runs.
    fn take(&mut self, len: usize) -> Vec<T> {
        let fits = |list: &Vec<T>| (len..=len + len / 16).contains(&list.capacity());
        match self.0.iter().position(fits) {
            Some(place) if len > 0 => {
                let mut list = self.0.swap_remove(place);
                list.resize(len, T::default());
                list
            }
            _ => vec![T::default(); len],
        }
    }
}

/// Gives back room beyond a sixteenth of the list: what an index keeps should not outgrow its runs.
fn trim<T>(list: &mut Vec<T>) {
    if list.capacity() > list.len() + list.len() / 16 {
        list.shrink_to_fit();
    }
}
