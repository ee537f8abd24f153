//! From a list of runs, in any order, to segments: one counting pass by second.
//!
//! The pass is stable, so a list grouped by rising job number, as generating makes it, comes out sorted by
//! (due, job). A second that is not sorted after all is sorted on its own, and runs that occur twice are merged.

use std::sync::Arc;

use cadran_cron::Millis;

use super::segment::{SPAN_MS, SPAN_SECS, Segment, fine_run, number_of};
use super::{Buffers, Index, Run, Window};

/// Up to this many seconds are counted whatever the list's length: four megabytes of counters.
const COUNTED_SECS_MIN: usize = 1 << 20;

/// Beyond this many seconds a millisecond no longer fits beside a job number in 64 bits.
const COUNTED_SECS_MAX: usize = u32::MAX as usize / 1000 - SPAN_SECS;

pub(super) fn from_runs(runs: &[Run], window: Window, buffers: &mut Buffers) -> Index {
    if window.is_empty() {
        return Index::empty(window);
    }
    let (first, last) = (number_of(window.from), number_of(window.to - 1));
    let secs = (last - first + 1) as usize * SPAN_SECS;
    let segments = if secs <= COUNTED_SECS_MAX && secs <= COUNTED_SECS_MIN.max(4 * runs.len()) {
        count(runs, window, first * SPAN_MS, secs, buffers)
    } else {
        sort(runs, window, first, last, buffers)
    };
    Index::new(window, window, first, segments)
}

fn count(
    runs: &[Run],
    window: Window,
    base: Millis,
    secs: usize,
    buffers: &mut Buffers,
) -> Vec<Arc<Segment>> {
    let Buffers { counts, cursors, jobs, fine, fine_out, empty, .. } = buffers;
    let place = |due: Millis| {
        let at = (due - base) as u64;
        ((at / 1000) as usize, (at % 1000) as u32)
    };

    // The counters of whole seconds, then those of the runs between them.
    counts.clear();
    counts.resize(2 * secs, 0);
    for run in runs {
        if window.contains(run.due) {
            let (sec, milli) = place(run.due);
            counts[sec + if milli == 0 { 0 } else { secs }] += 1;
        }
    }
    cursors.clear();
    let jobs_total = push_starts(&counts[..secs], cursors);
    let fine_total = push_starts(&counts[secs..], cursors);

    // Every place below the totals is written below; what an earlier use left there does not matter.
    jobs.resize(jobs_total.max(jobs.len()), 0);
    fine.resize(fine_total.max(fine.len()), 0);
    for run in runs {
        if window.contains(run.due) {
            let (sec, milli) = place(run.due);
            if milli == 0 {
                let cursor = &mut cursors[sec];
                jobs[*cursor as usize] = run.job;
                *cursor += 1;
            } else {
                let cursor = &mut cursors[secs + sec];
                let at = (sec % SPAN_SECS) as Millis * 1000 + Millis::from(milli);
                fine[*cursor as usize] = fine_run(at, run.job);
                *cursor += 1;
            }
        }
    }

    let (mut jobs, mut fine) = (&mut jobs[..jobs_total], &mut fine[..fine_total]);
    let (coarse_counts, fine_counts) = counts.split_at_mut(secs);
    let spans = coarse_counts.chunks_exact_mut(SPAN_SECS).zip(fine_counts.chunks_exact(SPAN_SECS));
    spans
        .map(|(coarse, between)| {
            let coarse_len = coarse.iter().sum::<u32>() as usize;
            let fine_len = between.iter().sum::<u32>() as usize;
            if coarse_len + fine_len == 0 {
                return empty.clone();
            }
            let (mine, rest) = std::mem::take(&mut jobs).split_at_mut(coarse_len);
            jobs = rest;
            let (mine_fine, rest) = std::mem::take(&mut fine).split_at_mut(fine_len);
            fine = rest;
            fine_out.clear();
            settle_fine(between, mine_fine, fine_out);
            let settled = settle_jobs(coarse, mine);
            Arc::new(Segment::new(coarse, settled, fine_out.as_slice().to_vec()))
        })
        .collect()
}

/// Appends where each bucket starts; returns where the last one ends.
fn push_starts(counts: &[u32], starts: &mut Vec<u32>) -> usize {
    let mut at = 0;
    for &count in counts {
        starts.push(at);
        at += count;
    }
    at as usize
}

/// Brings each second's jobs into strict order and lowers its count by what was merged.
fn settle_jobs(counts: &mut [u32], jobs: &mut [u32]) -> Vec<u32> {
    if strict_by_second(counts, jobs) {
        return jobs.to_vec();
    }
    let mut out = Vec::with_capacity(jobs.len());
    let mut rest = jobs;
    for count in counts {
        let (second, later) = rest.split_at_mut(*count as usize);
        rest = later;
        if !strict(second) {
            second.sort_unstable();
        }
        let start = out.len();
        for &job in second.iter() {
            if out.len() == start || out.last() != Some(&job) {
                out.push(job);
            }
        }
        *count = (out.len() - start) as u32;
    }
    out.shrink_to_fit();
    out
}

fn strict_by_second(counts: &[u32], jobs: &[u32]) -> bool {
    let mut rest = jobs;
    counts.iter().all(|&count| {
        let (second, later) = rest.split_at(count as usize);
        rest = later;
        strict(second)
    })
}

/// Whether the jobs rise strictly. No early exit, so that it runs several at a time.
fn strict(jobs: &[u32]) -> bool {
    jobs.windows(2).fold(true, |ok, pair| ok & (pair[0] < pair[1]))
}

fn settle_fine(counts: &[u32], runs: &mut [u64], out: &mut Vec<u64>) {
    let mut rest = runs;
    for &count in counts {
        let (second, later) = rest.split_at_mut(count as usize);
        rest = later;
        second.sort_unstable();
        out.extend_from_slice(second);
    }
    out.dedup();
}

/// The way for a few runs over a long window, where a counter per second would cost more than sorting.
fn sort(runs: &[Run], window: Window, first: i64, last: i64, buffers: &mut Buffers) -> Vec<Arc<Segment>> {
    let mut sorted: Vec<Run> = runs.iter().copied().filter(|run| window.contains(run.due)).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let mut rest = sorted.as_slice();
    (first..=last)
        .map(|number| {
            let (mine, later) = rest.split_at(rest.partition_point(|run| number_of(run.due) == number));
            rest = later;
            segment_of_sorted(mine, number * SPAN_MS, buffers)
        })
        .collect()
}

/// A segment from its runs, sorted and without duplicates.
pub(super) fn segment_of_sorted(runs: &[Run], base: Millis, buffers: &mut Buffers) -> Arc<Segment> {
    if runs.is_empty() {
        return buffers.empty.clone();
    }
    let mut counts = [0; SPAN_SECS];
    let (mut jobs, mut fine) = (Vec::new(), Vec::new());
    for run in runs {
        let at = run.due - base;
        if at % 1000 == 0 {
            counts[(at / 1000) as usize] += 1;
            jobs.push(run.job);
        } else {
            fine.push(fine_run(at, run.job));
        }
    }
    jobs.shrink_to_fit();
    fine.shrink_to_fit();
    Arc::new(Segment::new(&counts, jobs, fine))
}
