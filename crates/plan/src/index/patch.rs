//! Some jobs changed: rewrite the segments they are or were due in, share the rest.

use std::sync::Arc;

use super::build::build;
use super::fleet::{FleetSnapshot, View};
use super::segment::{SPAN_MS, SPAN_SECS, Segment, fine_job, fine_run, number_of};
use super::{Buffers, Index, Run};

/// A patch looks every changed job up in every second. Beyond this many lookups for each run that a rebuild would
/// write, and beyond the constant below, rebuilding is the shorter way.
const LOOKUPS_PER_RUN_MAX: f64 = 0.1;

/// Patches this small are never worth a rebuild.
const LOOKUPS_MIN: usize = 1 << 14;

impl Index {
    /// The same index with these jobs as the fleet now has them: changed, added or removed. Other jobs are taken over
    /// as they stand, without looking at their schedules, and so is every segment where none of these is due.
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
        let mut patch = Patch { changed: &changed, added: &[], edits: Vec::new(), counts: [0; SPAN_SECS] };
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
}

/// At this place of the old list a job goes out, or comes in before what stands there.
enum Edit {
    Out(usize),
    In(usize, u32),
}

impl Patch<'_> {
    fn apply(&mut self, segment: &Arc<Segment>, number: i64, buffers: &mut Buffers) -> Arc<Segment> {
        let base = number * SPAN_MS;
        self.find_edits(segment, base);
        let fine = self.patched_fine(segment, base);
        if self.edits.is_empty() && fine.is_none() {
            return segment.clone();
        }
        let fine = fine.unwrap_or_else(|| segment.fine().to_vec());
        let jobs = self.patched_jobs(segment.jobs(), buffers);
        Arc::new(Segment::new(&self.counts, jobs, fine))
    }

    /// Compares, second by second, what the changed jobs did with what they do.
    fn find_edits(&mut self, segment: &Segment, base: i64) {
        self.edits.clear();
        let mut added = self.added.iter().filter(|run| run.due % 1000 == 0).peekable();
        segment.read_counts(&mut self.counts);
        let mut start = 0;
        for second in 0..SPAN_SECS {
            let end = start + self.counts[second] as usize;
            let due = base + second as i64 * 1000;
            if start == end && added.peek().is_none_or(|run| run.due > due) {
                continue;
            }
            let jobs = &segment.jobs()[start..end];
            let mut from = 0;
            for &job in self.changed {
                let comes = added.next_if(|run| run.due == due && run.job == job).is_some();
                let place = jobs[from..].binary_search(&job);
                from += place.unwrap_or_else(|place| place);
                match place {
                    Ok(_) if !comes => {
                        self.edits.push(Edit::Out(start + from));
                        self.counts[second] -= 1;
                    }
                    Err(_) if comes => {
                        self.edits.push(Edit::In(start + from, job));
                        self.counts[second] += 1;
                    }
                    _ => {}
                }
            }
            start = end;
        }
    }

    fn patched_jobs(&self, old: &[u32], buffers: &mut Buffers) -> Vec<u32> {
        let mut jobs = buffers.jobs_list(self.counts.iter().sum::<u32>() as usize);
        let mut taken = 0;
        for edit in &self.edits {
            match *edit {
                Edit::Out(place) => {
                    jobs.extend_from_slice(&old[taken..place]);
                    taken = place + 1;
                }
                Edit::In(place, job) => {
                    jobs.extend_from_slice(&old[taken..place]);
                    jobs.push(job);
                    taken = place;
                }
            }
        }
        jobs.extend_from_slice(&old[taken..]);
        jobs
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
