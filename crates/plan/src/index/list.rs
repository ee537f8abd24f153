//! From a list of runs, in any order, to an index: every run to its second, or to some seconds and then sorted.
//!
//! All of this is stable, so a list grouped by rising job number, as generating makes it, comes out sorted by
//! (due, job). A second that is not sorted after all is sorted on its own, and runs that occur twice are merged.

use std::sync::Arc;

use super::buffers::Filling;
use super::build::numbers;
use super::gather::Gathered;
use super::segment::{SPAN_MS, SPAN_SECS, Segment, fine_run, number_of};
use super::sort::{FINE_SECS, Packed};
use super::{Buffers, Index, Run, Window};

/// Up to this many seconds for each run are counted; beyond, comparing costs less than the counters.
const SECS_PER_RUN_MAX: usize = 16;

/// So many runs of a list are looked at to see what it is like.
const LOOKED_AT: usize = 32;

/// From so many runs for each second on, gathering is faster than counting.
const GATHERED_PER_SEC_MIN: usize = 8;

/// Beyond this many seconds, 49 days, a millisecond no longer fits in 32 bits.
const COUNTED_SECS_MAX: usize = u32::MAX as usize / 1000 - SPAN_SECS;

pub(super) fn from_runs(runs: &[Run], window: Window, buffers: &mut Buffers) -> Index {
    let Some((first, last)) = numbers(window) else { return Index::empty(window) };
    let count = (last - first + 1) as usize;
    let secs = count * SPAN_SECS;
    let mut segments = Vec::with_capacity(count);
    if secs > COUNTED_SECS_MAX || secs / SECS_PER_RUN_MAX > runs.len() {
        sort(runs, window, first..=last, buffers, &mut segments);
    } else {
        let stretch = Stretch::new(window, first, secs);
        let some = runs.iter().step_by(runs.len() / LOOKED_AT + 1);
        let fine = some.clone().filter(|run| run.due % 1000 != 0).count();
        // All ways lead to the same index; which is the fastest depends on what most runs look like.
        let crowded = fine == 0 && runs.len() / GATHERED_PER_SEC_MIN >= secs;
        if crowded && runs.len() <= Gathered::LEN_MAX && gather(runs, stretch, buffers) {
            buffers.cut_gathered(count, &mut segments);
        } else {
            if fine * 2 > some.count() {
                fill::<2>(runs, stretch, buffers);
            } else {
                fill::<1>(runs, stretch, buffers);
            }
            buffers.cut(count, true, &mut segments);
        }
    }
    Index::new(window, window, first, segments)
}

/// The instants that are counted: from the start of a segment on, in 32 bits, because the second costs a division for
/// every run.
#[derive(Clone, Copy)]
struct Stretch {
    window: Window,
    /// The window starts this far into the stretch.
    lead: u32,
    secs: usize,
}

impl Stretch {
    fn new(window: Window, first: i64, secs: usize) -> Stretch {
        Stretch { window, lead: (window.from - first * SPAN_MS) as u32, secs }
    }

    /// A run's second and its milliseconds beyond, if it lies inside.
    #[inline]
    fn place(self, run: &Run) -> Option<(u32, u32)> {
        let at = run.due.wrapping_sub(self.window.from) as u64;
        (at < (self.window.to - self.window.from) as u64).then(|| {
            let at = at as u32 + self.lead;
            (at / 1000, at % 1000)
        })
    }
}

/// Gathers runs on whole seconds; not if there are others.
fn gather(runs: &[Run], stretch: Stretch, buffers: &mut Buffers) -> bool {
    // One second more for what lies outside the window.
    let outside = stretch.secs as u32;
    let jobs = runs.iter().map(|run| match stretch.place(run) {
        Some((second, 0)) => Some((second, run.job)),
        Some(_) => None,
        None => Some((outside, run.job)),
    });
    buffers.gathered.fill(stretch.secs + 1, jobs)
}

/// Fills the buffers for one stretch.
///
/// Dues of one job come in order, so neighbours often fall into the same of the wide buckets that runs between seconds
/// go to, and then one waits for the cursor that the other has just moved. Two lanes, for the two halves of the list
/// read side by side, do not wait for one another. On whole seconds neighbours rarely meet, and one lane is faster.
fn fill<const LANES: usize>(runs: &[Run], stretch: Stretch, buffers: &mut Buffers) {
    buffers.begin(stretch.secs, LANES);
    let mut every = 0;
    let (jobs, fine) = (buffers.jobs.cursors(), buffers.fine.cursors());
    in_lanes::<LANES>(runs, |lane, run| {
        if let Some((second, milli)) = stretch.place(run) {
            if milli == 0 {
                jobs[second as usize * LANES + lane] += 1;
            } else {
                fine[second as usize / FINE_SECS * LANES + lane] += 1;
                every |= run.job;
            }
        }
    });
    if u64::from(every) < <u32 as Packed>::JOBS_END {
        write::<LANES, _>(runs, stretch, buffers.place_small());
    } else {
        write::<LANES, _>(runs, stretch, buffers.place());
    }
}

/// Writes every run to its place.
fn write<const LANES: usize, T: Packed>(
    runs: &[Run],
    stretch: Stretch,
    ((jobs, fine), (jobs_list, fine_list)): Filling<'_, T>,
) {
    let (jobs, fine) = (jobs.cursors(), fine.cursors());
    in_lanes::<LANES>(runs, |lane, run| {
        if let Some((second, milli)) = stretch.place(run) {
            if milli == 0 {
                let cursor = &mut jobs[second as usize * LANES + lane];
                jobs_list[*cursor as usize] = run.job;
                *cursor += 1;
            } else {
                let cursor = &mut fine[second as usize / FINE_SECS * LANES + lane];
                fine_list[*cursor as usize] = T::new(second % FINE_SECS as u32 * 1000 + milli, run.job);
                *cursor += 1;
            }
        }
    });
}

/// Visits every run: in two lanes, the first half of the list and the second one side by side.
#[inline(always)]
fn in_lanes<const LANES: usize>(runs: &[Run], mut visit: impl FnMut(usize, &Run)) {
    let (left, right) = runs.split_at(if LANES == 2 { runs.len() / 2 } else { 0 });
    for (left, right) in left.iter().zip(right) {
        visit(0, left);
        visit(1, right);
    }
    right[left.len()..].iter().for_each(|run| visit(LANES - 1, run));
}

/// The way for a few runs over a long window.
fn sort(
    runs: &[Run],
    window: Window,
    numbers: std::ops::RangeInclusive<i64>,
    buffers: &mut Buffers,
    segments: &mut Vec<Arc<Segment>>,
) {
    let mut sorted: Vec<Run> = runs.iter().copied().filter(|run| window.contains(run.due)).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let mut rest = sorted.as_slice();
    let mut counts = [0; SPAN_SECS];
    for number in numbers {
        let (mine, later) = rest.split_at(rest.partition_point(|run| number_of(run.due) == number));
        rest = later;
        if mine.is_empty() {
            segments.push(buffers.empty.clone());
            continue;
        }
        let whole = mine.iter().filter(|run| run.due % 1000 == 0).count();
        let (mut jobs, mut fine) = (Vec::with_capacity(whole), Vec::with_capacity(mine.len() - whole));
        counts.fill(0);
        for run in mine {
            let at = run.due - number * SPAN_MS;
            if at % 1000 == 0 {
                counts[at as usize / 1000] += 1;
                jobs.push(run.job);
            } else {
                fine.push(fine_run(at, run.job));
            }
        }
        segments.push(Arc::new(Segment::new(&counts, jobs, fine)));
    }
}
