//! From a fleet to an index, hour by hour: the whole window, or the part that a rolling horizon adds.

use std::sync::Arc;

use super::expand::{Dues, Expansions, STRETCH_MINUTES};
use super::fleet::{FleetSnapshot, View};
use super::segment::{SPAN_MS, SPAN_SECS, Segment, number_of};
use super::sort::{FINE_SECS, Packed};
use super::{Buffers, Index, Window};

/// Builds the index of a window from the schedules of a fleet.
///
/// The runs are never listed: each rule is expanded to masks, the masks are counted by second, and a pass over the
/// jobs in rising order writes every number to its final place.
pub fn build(fleet: &FleetSnapshot, window: Window, buffers: &mut Buffers) -> Index {
    let Some((first, last)) = numbers(window) else { return Index::empty(window) };
    let mut segments = Vec::with_capacity((last - first + 1) as usize);
    generate(fleet.view(), first, last, buffers, &mut segments);
    Index::new(window, held(first, last), first, segments)
}

impl Index {
    /// The index of another window, usually one a little later. What both have in common is shared, not computed;
    /// segments are whole, so small steps often cost nothing. The fleet must be the one this index was made from: pass
    /// what has changed since through [`with_changed`](Index::with_changed).
    pub fn advance(&self, fleet: &FleetSnapshot, window: Window, buffers: &mut Buffers) -> Index {
        let Some((first, last)) = numbers(window) else { return Index::empty(window) };
        let mut segments = Vec::with_capacity((last - first + 1) as usize);
        let mut number = first;
        while number <= last {
            if let Some(segment) = self.whole(number) {
                segments.push(segment.clone());
                number += 1;
            } else {
                let missing =
                    (number..=last).take_while(|&number| self.whole(number).is_none()).count() as i64;
                generate(fleet.view(), number, number + missing - 1, buffers, &mut segments);
                number += missing;
            }
        }
        Index::new(window, held(first, last), first, segments)
    }

    /// The segment of this number, if it is complete.
    fn whole(&self, number: i64) -> Option<&Arc<Segment>> {
        let complete = self.held.from <= number * SPAN_MS && (number + 1) * SPAN_MS <= self.held.to;
        complete.then(|| &self.segments[(number - self.first) as usize])
    }
}

/// First and last segment a window touches.
pub(super) fn numbers(window: Window) -> Option<(i64, i64)> {
    (!window.is_empty()).then(|| (number_of(window.from), number_of(window.to - 1)))
}

fn held(first: i64, last: i64) -> Window {
    Window { from: first * SPAN_MS, to: (last + 1) * SPAN_MS }
}

/// Appends the segments `first..=last`, complete.
fn generate(fleet: View<'_>, first: i64, last: i64, buffers: &mut Buffers, segments: &mut Vec<Arc<Segment>>) {
    let mut expansions = std::mem::take(&mut buffers.expand);
    expansions.weigh(fleet);
    let step = expansions.step(fleet);
    for number in (first..=last).step_by(step) {
        let end = (number + step as i64).min(last + 1);
        expansions.expand(fleet, number * SPAN_MS, end * SPAN_MS);
        let count = (end - number) as usize;
        buffers.begin(count * SPAN_SECS);
        weigh(&expansions, buffers);
        fill(fleet, &expansions, buffers);
        buffers.cut(count, false, segments);
    }
    buffers.expand = expansions;
}

/// Counts the runs of each bucket: by rule, not by job.
fn weigh(expansions: &Expansions, buffers: &mut Buffers) {
    let (jobs, fine) = (buffers.jobs.cursors(), buffers.fine.cursors());
    for (dues, weight) in expansions.weighted() {
        match dues {
            Dues::Never => {}
            Dues::Minutes(minutes) => each_bit(minutes, |minute| jobs[minute * 60] += weight),
            Dues::Grid(minutes, seconds) => {
                each_bit(minutes, |minute| each_bit(seconds, |second| jobs[minute * 60 + second] += weight));
            }
            Dues::List(from, to) => {
                for &milli in expansions.list(from, to) {
                    let second = milli as usize / 1000;
                    if milli % 1000 == 0 {
                        jobs[second] += weight;
                    } else {
                        fine[second / FINE_SECS] += weight;
                    }
                }
            }
        }
    }
}

/// Writes every job to its seconds. Jobs come rising, so each second ends up in order.
///
/// Most dues are on whole minutes. Those are written by blocks of 64 jobs: a block is a square of bits, a row of
/// minutes for each job; turned on its side it is a row of jobs for each minute, and they are written in a go.
fn fill(fleet: View<'_>, expansions: &Expansions, buffers: &mut Buffers) {
    let ((jobs, fine), (jobs_list, fine_list)) = buffers.place();
    let mut jobs = Writer { cursors: jobs.cursors(), list: jobs_list };
    let mut fine = Writer { cursors: fine.cursors(), list: fine_list };
    let mut block = Block { first: 0, rows: [0; 64], used: false };
    for (job, rule) in fleet.rules() {
        if job / 64 != block.first / 64 {
            block.write(&mut jobs);
            block.first = job / 64 * 64;
        }
        let mut minutes = 0;
        match expansions.dues(rule) {
            Dues::Never => continue,
            Dues::Minutes(mask) => minutes = mask,
            Dues::Grid(mask, seconds) => {
                if seconds & 1 != 0 {
                    minutes = mask;
                }
                each_bit(mask, |minute| {
                    each_bit(seconds & !1, |second| jobs.put(minute * 60 + second, job));
                });
            }
            Dues::List(from, to) => {
                for &milli in expansions.list(from, to) {
                    let second = milli as usize / 1000;
                    if milli % 60_000 == 0 {
                        minutes |= 1 << (second / 60);
                    } else if milli % 1000 == 0 {
                        jobs.put(second, job);
                    } else {
                        fine.put(second / FINE_SECS, u64::new(milli % (FINE_SECS as u32 * 1000), job));
                    }
                }
            }
        }
        block.rows[job as usize % 64] = minutes;
        block.used = true;
    }
    block.write(&mut jobs);
}

/// Writes items to their buckets.
struct Writer<'a, T> {
    cursors: &'a mut [u32],
    list: &'a mut [T],
}

impl<T> Writer<'_, T> {
    /// The next item of a bucket.
    #[inline]
    fn put(&mut self, bucket: usize, item: T) {
        let cursor = &mut self.cursors[bucket];
        self.list[*cursor as usize] = item;
        *cursor += 1;
    }

    /// The places of the next items of a bucket.
    #[inline]
    fn places(&mut self, bucket: usize, count: u32) -> &mut [T] {
        let cursor = &mut self.cursors[bucket];
        let start = *cursor as usize;
        *cursor += count;
        &mut self.list[start..start + count as usize]
    }
}

/// The whole minutes of 64 neighbouring jobs.
struct Block {
    first: u32,
    rows: [u64; 64],
    used: bool,
}

impl Block {
    /// Writes the block's jobs and clears it.
    fn write(&mut self, writer: &mut Writer<'_, u32>) {
        if !std::mem::take(&mut self.used) {
            return;
        }
        transpose(&mut self.rows);
        for (minute, jobs) in self.rows.iter_mut().enumerate().take(STRETCH_MINUTES) {
            let jobs = std::mem::take(jobs);
            if jobs == 0 {
                continue;
            }
            let places = writer.places(minute * 60, jobs.count_ones());
            if jobs == u64::MAX {
                places.iter_mut().zip(self.first..).for_each(|(place, job)| *place = job);
            } else {
                let mut left = jobs;
                for place in places {
                    *place = self.first + left.trailing_zeros();
                    left &= left - 1;
                }
            }
        }
    }
}

/// Turns a square of bits on its side: quarters change places, then quarters of quarters.
fn transpose(rows: &mut [u64; 64]) {
    let mut width = 32;
    let mut mask = u64::MAX >> 32;
    while width > 0 {
        for pair in 0..32 {
            // The rows without the bit `width` in their number, each with the row `width` further on.
            let row = pair / width * 2 * width + pair % width;
            let swap = ((rows[row] >> width) ^ rows[row + width]) & mask;
            rows[row] ^= swap << width;
            rows[row + width] ^= swap;
        }
        width /= 2;
        mask ^= mask << width;
    }
}

#[inline]
fn each_bit(mut mask: u64, mut visit: impl FnMut(usize)) {
    while mask != 0 {
        visit(mask.trailing_zeros() as usize);
        mask &= mask - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposing_turns_rows_into_columns() {
        let row = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(n as u32) ^ n << 7;
        let before: [u64; 64] = std::array::from_fn(|n| row(n as u64));
        let mut after = before;
        transpose(&mut after);
        for (n, m) in (0..64).flat_map(|n| (0..64).map(move |m| (n, m))) {
            assert_eq!(before[n] >> m & 1, after[m] >> n & 1, "row {n}, column {m}");
        }
    }
}
