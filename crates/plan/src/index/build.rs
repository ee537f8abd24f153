//! From a fleet to an index, hour by hour: the whole window, or the part that a rolling horizon adds.

use std::sync::Arc;

use super::expand::{Dues, Expansions, STRETCH_SEGMENTS};
use super::fleet::{FleetSnapshot, View};
use super::segment::{SPAN_MS, SPAN_SECS, Segment, number_of};
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
    for number in (first..=last).step_by(STRETCH_SEGMENTS) {
        let end = (number + STRETCH_SEGMENTS as i64).min(last + 1);
        expansions.expand(fleet, number * SPAN_MS, end * SPAN_MS);
        buffers.begin((end - number) as usize * SPAN_SECS);
        count(&expansions, &mut buffers.counts);
        buffers.place();
        fill(fleet, &expansions, buffers);
        buffers.cut(segments);
    }
    buffers.expand = expansions;
}

/// Counts the runs of each second: by rule, not by job.
fn count(expansions: &Expansions, counts: &mut [u32]) {
    for (dues, weight) in expansions.weighted() {
        match dues {
            Dues::Never => {}
            Dues::Minutes(minutes) => each_bit(minutes, |minute| counts[minute * 60] += weight),
            Dues::Grid(minutes, seconds) => {
                each_bit(minutes, |minute| {
                    each_bit(seconds, |second| counts[minute * 60 + second] += weight)
                });
            }
            Dues::List(from, to) => {
                for &milli in expansions.list(from, to).iter().filter(|&milli| milli % 1000 == 0) {
                    counts[milli as usize / 1000] += weight;
                }
            }
        }
    }
}

/// Writes every job to its seconds. Jobs come rising, so each second ends up in order.
fn fill(fleet: View<'_>, expansions: &Expansions, buffers: &mut Buffers) {
    let Buffers { cursors, jobs, fine, .. } = buffers;
    let mut rules = fleet.rules().peekable();
    while let Some((job, rule)) = rules.next() {
        let dues = expansions.dues(rule);
        // Neighbours that follow the same rule are written together.
        let mut end = job;
        while rules.next_if(|&(next, same)| same == rule && next == end + 1).is_some() {
            end += 1;
        }
        let mut write = |second: usize| {
            let cursor = &mut cursors[second];
            let start = *cursor as usize;
            if job == end {
                jobs[start] = job;
            } else {
                jobs[start..].iter_mut().zip(job..=end).for_each(|(place, job)| *place = job);
            }
            *cursor += end - job + 1;
        };
        match dues {
            Dues::Never => {}
            Dues::Minutes(minutes) => each_bit(minutes, |minute| write(minute * 60)),
            Dues::Grid(minutes, seconds) => {
                each_bit(minutes, |minute| each_bit(seconds, |second| write(minute * 60 + second)));
            }
            Dues::List(from, to) => {
                for &milli in expansions.list(from, to) {
                    if milli % 1000 == 0 {
                        write(milli as usize / 1000);
                    } else {
                        fine.extend((job..=end).map(|job| u64::from(milli) << 32 | u64::from(job)));
                    }
                }
            }
        }
    }
}

#[inline]
fn each_bit(mut mask: u64, mut visit: impl FnMut(usize)) {
    while mask != 0 {
        visit(mask.trailing_zeros() as usize);
        mask &= mask - 1;
    }
}
