//! Some jobs changed: new segments for those they are or were due in, on top of the old ones; the rest is shared.

use std::sync::Arc;

use super::build::build;
use super::fleet::{FleetSnapshot, View};
use super::jobs::{Jobs, Strip};
use super::segment::{SPAN_MS, SPAN_SECS, Segment, Strips, fine_job, fine_run, number_of};
use super::{Buffers, Index, Run};

/// A patch looks every changed job up in every second. Beyond this many lookups for each run that a rebuild would
/// write, and beyond the constant below, rebuilding is the shorter way.
const LOOKUPS_PER_RUN_MAX: f64 = 0.1;

/// Patches this small are never worth a rebuild.
const LOOKUPS_MIN: usize = 1 << 14;

/// So many jobs of a segment for each strip it stands in, at least; then it is written anew. Every change copies the
/// strips: with more of them that costs more than writing all jobs anew once in a while, and with fewer that comes too
/// often.
const JOBS_PER_STRIP_MIN: usize = 256;

/// Of all runs, the share that one change may write anew because of strips, so that changes that pile up do not all
/// fall due for it at the same time. A segment that has to wait may have twice as many strips.
const REWRITTEN_SHARE_MAX: usize = 8;

impl Index {
    /// The same index with these jobs as the fleet now has them: changed, added or removed. Other jobs are taken over
    /// as they stand, without looking at their schedules, and so is every segment where none of these is due.
    ///
    /// The cost is that of the changed runs, not of all: job numbers stay where they are and are shared with this
    /// index. Where changes pile up, segments are written anew from time to time.
    pub fn with_changed(&self, fleet: &FleetSnapshot, jobs: &[u32], buffers: &mut Buffers) -> Index {
        let mut changed = jobs.to_vec();
        changed.sort_unstable();
        changed.dedup();
        let lookups = changed.len() * self.segments.len() * SPAN_SECS;
        if lookups > LOOKUPS_MIN && lookups as f64 > self.len as f64 * LOOKUPS_PER_RUN_MAX {
            return build(fleet, self.window, buffers);
        }
        let added = self.runs_of(fleet.view(), &changed);
        let mut rest = added.as_slice();
        let mut patch = Patch {
            changed: &changed,
            added: &[],
            edits: Vec::new(),
            counts: [0; SPAN_SECS],
            rewritable: self.len / REWRITTEN_SHARE_MAX,
        };
        let segments = self.segments.iter().zip(self.first..).map(|(segment, number)| {
            let (mine, later) = rest.split_at(rest.partition_point(|run| number_of(run.due) == number));
            rest = later;
            patch.added = mine;
            patch.apply(segment, number, buffers)
        });
        let segments = segments.collect();
        Index::new(self.window, self.held, self.first, segments)
    }

    /// What the fleet has these jobs do in all that the segments hold, in order and each once.
    fn runs_of(&self, fleet: View<'_>, jobs: &[u32]) -> Vec<Run> {
        let mut runs = Vec::new();
        for &job in jobs {
            for schedule in fleet.schedules(fleet.rule(job)) {
                schedule.walk(self.held.from, self.held.to, &mut |due| runs.push(Run { due, job }));
            }
        }
        runs.sort_unstable();
        runs.dedup();
        runs
    }
}

/// The change to one segment.
struct Patch<'a> {
    changed: &'a [u32],
    /// Runs the changed jobs have here now, in order.
    added: &'a [Run],
    edits: Vec<Edit>,
    counts: [u32; SPAN_SECS],
    /// How many jobs may still be written anew because of strips.
    rewritable: usize,
}

/// At this place of the old jobs one goes out, or comes in before what stands there.
enum Edit {
    Out(usize),
    In(usize, u32),
}

/// A part of the new jobs.
enum Part {
    /// Old ones, from one place up to another.
    Kept(usize, usize),
    New(u32),
}

impl Patch<'_> {
    fn apply(&mut self, segment: &Arc<Segment>, number: i64, buffers: &mut Buffers) -> Arc<Segment> {
        let base = number * SPAN_MS;
        self.find_edits(segment, base);
        let fine = self.patched_fine(segment, base);
        if self.edits.is_empty() && fine.is_none() {
            return segment.clone();
        }
        Arc::new(if self.stays(segment) {
            segment.patched(&self.counts, self.stripped_jobs(segment.jobs()), fine)
        } else {
            segment.rewritten(&self.counts, self.copied_jobs(segment.jobs(), buffers), fine)
        })
    }

    /// Whether the jobs stay where they are, or are written anew.
    fn stays(&mut self, segment: &Segment) -> bool {
        let jobs = segment.jobs().len();
        let (strips, own) = segment.strips_len();
        let strips_max = jobs / JOBS_PER_STRIP_MIN;
        let more = |per_edit: usize| self.edits.len() * per_edit;
        if jobs > Strip::PLACES_MAX || own + more(1) > strips_max * 2 || strips + more(2) > strips_max * 2 {
            return false;
        }
        let stays = strips + more(2) <= strips_max || jobs > self.rewritable;
        if !stays {
            self.rewritable -= jobs;
        }
        stays
    }

    /// Compares, second by second, what the changed jobs did with what they do.
    fn find_edits(&mut self, segment: &Segment, base: i64) {
        self.edits.clear();
        let mut added = self.added.iter().filter(|run| run.due % 1000 == 0).peekable();
        segment.read_counts(&mut self.counts);
        let mut jobs = segment.jobs();
        let mut start = 0;
        for second in 0..SPAN_SECS {
            let end = start + self.counts[second] as usize;
            let due = base + second as i64 * 1000;
            if start == end && added.peek().is_none_or(|run| run.due > due) {
                continue;
            }
            let jobs = jobs.take_between(start, end);
            for &job in self.changed {
                let comes = added.next_if(|run| run.due == due && run.job == job).is_some();
                match jobs.search(job) {
                    Ok(place) if !comes => {
                        self.edits.push(Edit::Out(place));
                        self.counts[second] -= 1;
                    }
                    Err(place) if comes => {
                        self.edits.push(Edit::In(place, job));
                        self.counts[second] += 1;
                    }
                    _ => {}
                }
            }
            start = end;
        }
    }

    /// The new jobs in their order, `len` old ones edited.
    fn each_part(&self, len: usize, mut visit: impl FnMut(Part)) {
        let mut taken = 0;
        for edit in &self.edits {
            match *edit {
                Edit::Out(place) => {
                    visit(Part::Kept(taken, place));
                    taken = place + 1;
                }
                Edit::In(place, job) => {
                    visit(Part::Kept(taken, place));
                    visit(Part::New(job));
                    taken = place;
                }
            }
        }
        visit(Part::Kept(taken, len));
    }

    /// The new jobs in a list.
    fn copied_jobs(&self, mut old: Jobs<'_>, buffers: &mut Buffers) -> Vec<u32> {
        let mut jobs = buffers.jobs_list(self.counts.iter().sum::<u32>() as usize);
        self.each_part(old.len(), |part| match part {
            Part::Kept(from, to) => {
                old.take_between(from, to).slices().for_each(|slice| jobs.extend_from_slice(slice));
            }
            Part::New(job) => jobs.push(job),
        });
        jobs
    }

    /// The new jobs in strips of the old list, and a list of those that stand in no other.
    fn stripped_jobs(&self, mut old: Jobs<'_>) -> Strips {
        let mut new = Stripped::default();
        self.each_part(old.len(), |part| match part {
            Part::Kept(from, to) => {
                for (own, place, slice) in old.take_between(from, to).strips() {
                    if own { new.push_own(slice) } else { new.push(false, place, slice.len()) }
                }
            }
            Part::New(job) => new.push_own(&[job]),
        });
        new.made.strips.shrink_to_fit();
        new.made.own.shrink_to_fit();
        new.made
    }

    /// The runs between seconds, if they change.
    fn patched_fine(&self, segment: &Segment, base: i64) -> Option<Vec<u64>> {
        let is_changed = |run: u64| self.changed.binary_search(&fine_job(run)).is_ok();
        let added = self.added.iter().filter(|run| run.due % 1000 != 0);
        let added: Vec<u64> = added.map(|run| fine_run(run.due - base, run.job)).collect();
        let gone = segment.fine().iter().filter(|&&run| is_changed(run)).count();
        if added.is_empty() && gone == 0 {
            return None;
        }
        let mut fine = Vec::with_capacity(segment.fine().len() - gone + added.len());
        let mut added = added.into_iter().peekable();
        for &run in segment.fine().iter().filter(|&&run| !is_changed(run)) {
            while let Some(before) = added.next_if(|&before| before < run) {
                fine.push(before);
            }
            fine.push(run);
        }
        fine.extend(added);
        Some(fine)
    }
}

/// Jobs as strips, while they are put together.
#[derive(Default)]
struct Stripped {
    made: Strips,
    /// Where the last strip ends.
    end: Option<(bool, usize)>,
}

impl Stripped {
    fn push(&mut self, own: bool, place: usize, len: usize) {
        if self.end != Some((own, place)) {
            self.made.strips.push(Strip::new(self.made.len, own, place));
        }
        self.made.len += len;
        self.end = Some((own, place + len));
    }

    fn push_own(&mut self, jobs: &[u32]) {
        self.push(true, self.made.own.len(), jobs.len());
        self.made.own.extend_from_slice(jobs);
    }
}
