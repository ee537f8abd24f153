//! From a list of runs, in any order, to an index: every run to its second, or to some seconds and then sorted.
//!
//! All of this is stable, so a list grouped by rising job number, as generating makes it, comes out sorted by
//! (due, job). A second that is not sorted after all is sorted on its own, and runs that occur twice are merged.

use std::sync::Arc;

use super::build::numbers;
use super::gather::Gathered;
use super::segment::{SPAN_MS, SPAN_SECS, Segment, fine_run, number_of};
use super::sort::{FINE_SECS, Packed};
use super::{Buffers, Index, Run, Window};

/// Up to this many seconds for each run are counted; beyond, comparing costs less than the counters.
const SECS_PER_RUN_MAX: usize = 16;

/// So many runs of a list are looked at to see what it is like.
const LOOKED_AT: usize = 32;

/// From so many runs for each bucket on, gathering is faster than counting.
const RUNS_MIN: usize = 8;

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
        let between = runs.iter().step_by(runs.len() / LOOKED_AT + 1).any(|run| run.due % 1000 != 0);
        // Both ways lead to the same index. Gathering is faster when the runs of most buckets fill some of a block.
        let buckets = secs / if between { FINE_SECS } else { 1 };
        let crowded = (buckets * RUNS_MIN..=Gathered::<u32>::LEN_MAX).contains(&runs.len());
        if crowded && gather(runs, between, stretch, buffers) {
            buffers.cut_gathered(count, &mut segments);
        } else {
            fill(runs, stretch, buffers);
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

/// Gathers runs, of which some may fall between seconds; not if there are jobs that do not fit beside the time.
fn gather(runs: &[Run], between: bool, stretch: Stretch, buffers: &mut Buffers) -> bool {
    if !between {
        buffers.between.begin(0, 0);
        return gather_on(runs, stretch, &mut buffers.seconds);
    }
    // Those on whole seconds wait: a loop that writes to one kind of bucket only is much faster than one for both.
    let mut on = std::mem::take(&mut buffers.on);
    on.clear();
    let fits = gather_between(runs, stretch, &mut buffers.between, &mut on);
    let gathered = fits && gather_on(&on, stretch, &mut buffers.seconds);
    buffers.on = on;
    gathered
}

/// Gathers runs between seconds, and lists the others; not if there are jobs that do not fit beside the time.
// Kept apart from its caller, the loop has registers for all it needs.
#[inline(never)]
fn gather_between(runs: &[Run], stretch: Stretch, between: &mut Gathered<u32>, on: &mut Vec<Run>) -> bool {
    let mut between = between.begin(stretch.secs / FINE_SECS, runs.len());
    let mut every = 0;
    distinct(runs).for_each(|run| match stretch.place(run) {
        None => {}
        Some((_, 0)) => on.push(*run),
        Some((second, milli)) => {
            every |= run.job;
            let at = second % FINE_SECS as u32 * 1000 + milli;
            between.push(second / FINE_SECS as u32, Packed::new(at, run.job));
        }
    });
    u64::from(every) < <u32 as Packed>::JOBS_END
}

/// Gathers runs on whole seconds; not if there are others.
// Kept apart for the same reason.
#[inline(never)]
fn gather_on(runs: &[Run], stretch: Stretch, seconds: &mut Gathered<u32>) -> bool {
    // One second more for what lies outside the window.
    let outside = (stretch.secs as u32, 0);
    let mut seconds = seconds.begin(stretch.secs + 1, runs.len());
    distinct(runs).all(|run| match stretch.place(run).unwrap_or(outside) {
        (second, 0) => {
            seconds.push(second, run.job);
            true
        }
        _ => false,
    })
}

/// Runs without those that only repeat the one before.
fn distinct(runs: &[Run]) -> impl Iterator<Item = &Run> {
    let mut before = None;
    runs.iter().filter(move |&&run| before.replace(run) != Some(run))
}

/// Fills the buffers for one stretch.
fn fill(runs: &[Run], stretch: Stretch, buffers: &mut Buffers) {
    buffers.begin(stretch.secs);
    let (jobs, fine) = (buffers.jobs.cursors(), buffers.fine.cursors());
    for (second, milli) in runs.iter().filter_map(|run| stretch.place(run)) {
        if milli == 0 {
            jobs[second as usize] += 1;
        } else {
            fine[second as usize / FINE_SECS] += 1;
        }
    }
    let ((jobs, fine), (jobs_list, fine_list)) = buffers.place();
    let (jobs, fine) = (jobs.cursors(), fine.cursors());
    for run in runs {
        let Some((second, milli)) = stretch.place(run) else { continue };
        if milli == 0 {
            let cursor = &mut jobs[second as usize];
            jobs_list[*cursor as usize] = run.job;
            *cursor += 1;
        } else {
            let cursor = &mut fine[second as usize / FINE_SECS];
            fine_list[*cursor as usize] = Packed::new(second % FINE_SECS as u32 * 1000 + milli, run.job);
            *cursor += 1;
        }
    }
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
