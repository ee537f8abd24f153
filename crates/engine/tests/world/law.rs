//! The law of conservation, checked against the plain calendar: every due of an enabled job has exactly one record,
//! one run or one place in one skip.
//!
//! The law watches batches become durable and notes from when to when each schedule of a job counted. At the end it
//! names every due by walking the calendar and looks for its record. It knows nothing of how the planner decides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cadran_core::{
    Batch, Job, JobId, JobState, Millis, Promise, ScheduleAction, ScheduleEntry, Skip, Trigger,
};

use super::record::Record;

/// A removed job comes back as it was within this time.
const REVIVE_MS_MAX: Millis = 120_000;

#[derive(Default)]
pub struct Law {
    /// What the text of a definition stands for.
    pub definitions: Vec<Job>,
    jobs: BTreeMap<JobId, Life>,
}

#[derive(Default)]
struct Life {
    /// Schedules that counted: (schedules, after, up to and with).
    spans: Vec<Span>,
    open: Option<Span>,
    removed_at: Option<Millis>,
    /// Removed, and its time to come back is over.
    let_go: bool,
    watermark: Option<Millis>,
    /// Pauses before the watermark reached them: recorded by the schedules of that time.
    holes: Vec<Span>,
    /// The clock stepped back between two lives, so that dues of the first count in the second again.
    twice: bool,
    versions: Vec<Arc<[ScheduleEntry]>>,
    /// The text of the definition under each revision.
    revisions: BTreeMap<u32, Arc<str>>,
}

#[derive(Clone)]
struct Span {
    schedules: Arc<[ScheduleEntry]>,
    after: Millis,
    to: Millis,
}

fn starts(schedules: &[ScheduleEntry]) -> impl Iterator<Item = &ScheduleEntry> {
    schedules.iter().filter(|entry| entry.action == ScheduleAction::Start)
}

impl Span {
    fn dues(&self, dues: &mut BTreeSet<Millis>) {
        for entry in starts(&self.schedules) {
            dues.extend(entry.schedule.between(self.after.saturating_add(1), self.to.saturating_add(1)));
        }
    }
}

impl Law {
    pub fn definition(&self, text: &str) -> &Job {
        &self.definitions[text.parse::<usize>().unwrap()]
    }

    /// The text of a definition as it was under a revision.
    pub fn versions(&self, job: JobId, revision: u32) -> &str {
        &self.jobs[&job].revisions[&revision]
    }

    /// Called for every batch of the engine, in order, as it becomes durable.
    pub fn observe(&mut self, batch: &Batch) {
        let put: BTreeSet<JobId> = batch.jobs.iter().map(|put| put.job).collect();
        let last: BTreeMap<JobId, &JobState> = batch.states.iter().map(|state| (state.job, state)).collect();
        for state in &batch.states {
            self.observe_state(state, put.contains(&state.job));
        }
        for removed in &batch.removed {
            let life = self.jobs.entry(removed.job).or_default();
            life.removed_at = Some(removed.at);
        }
        for put in &batch.jobs {
            let schedules = self.definition(&put.definition).schedules.clone();
            let watermark = last[&put.job].watermark.expect("a put has a watermark");
            let life = self.jobs.entry(put.job).or_default();
            if let Some(mut span) = life.open.take() {
                let before = life.watermark.unwrap_or(Millis::MIN);
                span.to = match life.removed_at {
                    Some(removed_at) if watermark != before => {
                        life.twice |= watermark < before;
                        removed_at.max(before)
                    }
                    _ => watermark,
                };
                life.spans.push(span);
            }
            if life.removed_at.take().is_none()
                && let Some(before) = life.watermark
            {
                assert!(
                    watermark >= before,
                    "job {}: the watermark fell from {before} to {watermark}",
                    put.job
                );
            }
            life.let_go = false;
            life.versions.push(schedules.clone());
            life.revisions.insert(put.revision, put.definition.clone());
            life.open = Some(Span { schedules, after: watermark, to: Millis::MAX });
            life.watermark = Some(watermark);
        }
    }

    fn observe_state(&mut self, state: &JobState, with_put: bool) {
        let life = self.jobs.entry(state.job).or_default();
        if let Some(span) = &life.open {
            for &(from, to) in &state.holes {
                let mut start = from;
                life.holes.sort_by_key(|hole| hole.after);
                for hole in &life.holes {
                    if hole.after <= start && hole.to > start {
                        start = hole.to;
                    }
                }
                if start < to {
                    life.holes.push(Span { schedules: span.schedules.clone(), after: start, to });
                }
            }
        }
        if with_put {
            return;
        }
        match (life.watermark, state.watermark) {
            (Some(before), Some(now)) => {
                assert!(now >= before, "job {}: the watermark fell from {before} to {now}", state.job);
            }
            (_, None) => {
                assert!(life.removed_at.is_some(), "job {}: the watermark vanished", state.job);
                life.let_go = true;
            }
            _ => {}
        }
        if state.watermark.is_some() {
            life.watermark = state.watermark;
        }
    }

    /// Nothing before `now` is to be recorded any more: the script lost the job's watermark.
    pub fn forgive(&mut self, job: JobId, now: Millis) {
        let life = self.jobs.get_mut(&job).expect("a known job");
        if let Some(mut span) = life.open.take() {
            let next = Span { after: now, ..span.clone() };
            span.to = life.watermark.unwrap_or(Millis::MIN);
            life.spans.push(span);
            life.open = Some(next);
            life.watermark = Some(now);
        }
    }

    /// Every due that had to be recorded by now. `waits` tells of jobs that are paused or still replay.
    pub fn required(&self, job: JobId, now: Millis, waits: bool) -> BTreeSet<Millis> {
        let life = &self.jobs[&job];
        let mut spans = life.spans.clone();
        let watermark = life.watermark.unwrap_or(Millis::MIN);
        spans.extend(life.open.clone().map(|span| {
            let to = match life.removed_at {
                Some(at) if life.let_go || now > at + REVIVE_MS_MAX + 2_000 => at.max(watermark),
                None if !waits => now.max(watermark),
                _ => watermark,
            };
            Span { to, ..span }
        }));
        let mut dues = BTreeSet::new();
        for span in &spans {
            let mut own = BTreeSet::new();
            span.dues(&mut own);
            own.retain(|due| !life.holes.iter().any(|hole| hole.after < *due && *due <= hole.to));
            dues.append(&mut own);
        }
        for hole in &life.holes {
            hole.dues(&mut dues);
        }
        dues
    }

    pub fn check(&self, record: &Record, now: Millis, waits: impl Fn(JobId) -> bool) {
        let mut runs_of: BTreeMap<JobId, Vec<&Promise>> = BTreeMap::new();
        for row in record.runs.values().filter(|row| row.promise.trigger.is_scheduled()) {
            runs_of.entry(row.promise.job).or_default().push(&row.promise);
        }
        let mut skips_of: BTreeMap<JobId, Vec<&Skip>> = BTreeMap::new();
        for skip in record.skips.values() {
            skips_of.entry(skip.job).or_default().push(skip);
        }
        for (&job, life) in &self.jobs {
            let name = &record.jobs[&job].0.name;
            let required = self.required(job, now, waits(job));
            let rows = runs_of.remove(&job).unwrap_or_default();
            let skips = skips_of.remove(&job).unwrap_or_default();
            // A restart answers for its own schedule. Where it takes the place of a start at the same instant it answers
            // for both; not where an edit made that instant a due of the past, which is skipped then.
            let skipped =
                |due: Millis| skips.iter().any(|skip| (skip.first_due..=skip.last_due).contains(&due));
            let ran: BTreeSet<Millis> = rows
                .iter()
                .filter(|promise| promise.trigger != Trigger::Restart || !skipped(promise.due))
                .map(|promise| promise.due)
                .collect();
            for promise in rows {
                let due = promise.due;
                let named = life.versions.iter().any(|version| {
                    version.iter().any(|entry| {
                        (entry.action == ScheduleAction::Restart) == (promise.trigger == Trigger::Restart)
                            && entry.schedule.next(due - 1) == Some(due)
                    })
                });
                assert!(named, "{name}: run {} for {due}, which no schedule names", promise.run);
            }
            for due in &required {
                assert!(
                    ran.contains(due) || skipped(*due),
                    "{name}: nothing is recorded of {due}\n{skips:#?}"
                );
            }
            if life.twice {
                continue;
            }
            for skip in &skips {
                let inside = required.range(skip.first_due..=skip.last_due).count() as u64;
                let ends = required.contains(&skip.first_due) && required.contains(&skip.last_due);
                assert!(
                    ends && skip.count <= inside && skip.count > 0,
                    "{name}: a skip of nothing: {skip:?} {inside}"
                );
            }
            let counted: u64 = skips.iter().map(|skip| skip.count).sum();
            let run = required.intersection(&ran).count() as u64;
            assert_eq!(
                required.len() as u64,
                run + counted,
                "{name}: dues, runs {run} and skips {counted}\n{skips:#?}"
            );
        }
    }
}
