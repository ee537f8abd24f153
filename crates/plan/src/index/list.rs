//! From a list of runs, in any order, to an index: one counting pass by second.
//!
//! The pass is stable, so a list grouped by rising job number, as generating makes it, comes out sorted by
//! (due, job). A second that is not sorted after all is sorted on its own, and runs that occur twice are merged.

use std::sync::Arc;

use cadran_cron::Millis;

use super::segment::{SPAN_MS, SPAN_SECS, Segment, fine_run, number_of};
use super::sort::FINE_MS;
use super::{Buffers, Index, Run, Window};

/// Up to this many seconds are counted whatever the list's length: four megabytes of counters.
const COUNTED_SECS_MIN: usize = 1 << 20;

/// Beyond this many seconds, 49 days, a millisecond no longer fits in 32 bits.
const COUNTED_SECS_MAX: usize = u32::MAX as usize / 1000 - SPAN_SECS;

pub(super) fn from_runs(runs: &[Run], window: Window, buffers: &mut Buffers) -> Index {
    if window.is_empty() {
        return Index::empty(window);
    }
    let (first, last) = (number_of(window.from), number_of(window.to - 1));
    let secs = (last - first + 1) as usize * SPAN_SECS;
    let mut segments = Vec::with_capacity((last - first + 1) as usize);
    if secs <= COUNTED_SECS_MAX && secs <= COUNTED_SECS_MIN.max(4 * runs.len()) {
        count(runs, window, first, secs, buffers);
        buffers.cut(&mut segments);
    } else {
        sort(runs, window, first, last, buffers, &mut segments);
    }
    Index::new(window, window, first, segments)
}

/// Fills the buffers for one stretch that spans the window.
fn count(runs: &[Run], window: Window, first: i64, secs: usize, buffers: &mut Buffers) {
    // In 32 bits, because the second costs a division for every run.
    let span = (window.to - window.from) as u64;
    let lead = (window.from - first * SPAN_MS) as u32;
    let inside = |run: &Run| {
        let at = run.due.wrapping_sub(window.from) as u64;
        (at < span).then(|| at as u32 + lead)
    };

    buffers.begin(secs);
    let (jobs, fine) = (buffers.jobs.counts.as_mut_slice(), buffers.fine.counts.as_mut_slice());
    for run in runs {
        if let Some(at) = inside(run) {
            if at % 1000 == 0 {
                jobs[(at / 1000) as usize] += 1;
            } else {
                fine[(at / FINE_MS) as usize] += 1;
            }
        }
    }
    buffers.place();
    let (mut jobs, mut fine) = (buffers.jobs.writer(), buffers.fine.writer());
    for run in runs {
        if let Some(at) = inside(run) {
            if at % 1000 == 0 {
                jobs.put((at / 1000) as usize, run.job);
            } else {
                fine.put((at / FINE_MS) as usize, fine_run(Millis::from(at % SPAN_MS as u32), run.job));
            }
        }
    }
    buffers.settle();
}

/// The way for a few runs over a long window, where a counter per second would cost more than comparing.
fn sort(
    runs: &[Run],
    window: Window,
    first: i64,
    last: i64,
    buffers: &mut Buffers,
    segments: &mut Vec<Arc<Segment>>,
) {
    let mut sorted: Vec<Run> = runs.iter().copied().filter(|run| window.contains(run.due)).collect();
    sorted.sort_unstable();
    let mut rest = sorted.as_slice();
    for number in first..=last {
        let (mine, later) = rest.split_at(rest.partition_point(|run| number_of(run.due) == number));
        rest = later;
        if mine.is_empty() {
            segments.push(buffers.empty.clone());
        } else {
            let span = Window { from: number * SPAN_MS, to: (number + 1) * SPAN_MS };
            count(mine, span, number, SPAN_SECS, buffers);
            buffers.cut(segments);
        }
    }
}
