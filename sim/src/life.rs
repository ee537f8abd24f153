//! The life of a job as the rows tell it: which schedule counted from when to when, and what is recorded so far.

use std::sync::Arc;

use cadran_core::{JobState, Millis, ScheduleAction, ScheduleEntry, Skip, SkipReason};

use crate::law::{Violation, broken};
use crate::sweep::Stretch;

/// A removed job comes back as it was within this time.
const REVIVE_MS_MAX: Millis = 120_000;

/// How far ahead of their instant runs are promised.
pub(crate) const PRE_READ_MS: Millis = 5_000;

/// Schedules that count in `(after, to]`.
#[derive(Clone)]
pub(crate) struct Span {
    pub(crate) schedules: Arc<[ScheduleEntry]>,
    pub(crate) after: Millis,
    pub(crate) to: Millis,
}

/// What is recorded of one due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    pub(crate) due: Millis,
    /// Of a restart schedule.
    pub(crate) spare: bool,
}

#[derive(Default)]
pub(crate) struct Life {
    pub(crate) name: String,
    /// The definition that counts: its number.
    pub(crate) definition: usize,
    /// The definition under each revision, from 1.
    pub(crate) revisions: Vec<usize>,
    spans: Vec<Span>,
    open: Option<Span>,
    pub(crate) removed_at: Option<Millis>,
    /// Removed, and its time to come back is over.
    let_go: bool,
    pub(crate) watermark: Option<Millis>,
    /// Pauses before the watermark reached them: recorded by the schedules of that time.
    pub(crate) holes: Vec<Span>,
    /// It was paused at some time since it was put.
    pub(crate) paused_at: Vec<Millis>,
    /// The clock stepped back between two lives, so that dues of the first count in the second again.
    pub(crate) twice: bool,
    /// Where watermarks stood when the job was edited, and the schedules from there on.
    edits: Vec<(Millis, Arc<[ScheduleEntry]>)>,
    /// Dues that an edit promised although the watermark had passed them.
    fresh: Vec<Millis>,
    pub(crate) marks: Vec<Mark>,
    pub(crate) skips: Vec<Skip>,
    /// The latest due or trigger by hand that a run was ever promised for.
    pub(crate) newest_promised: Option<Millis>,
    /// Caught-up runs promised since the job was put.
    pub(crate) caught_up: u64,
    /// Due of the latest caught-up run that was started.
    pub(crate) caught_up_started: Option<Millis>,
    checked_to: Option<Millis>,
}

fn starts(schedules: &[ScheduleEntry]) -> impl Iterator<Item = &ScheduleEntry> {
    schedules.iter().filter(|entry| entry.action == ScheduleAction::Start)
}

/// Whether one of these schedules starts (or restarts) at an instant.
pub(crate) fn names(schedules: &[ScheduleEntry], due: Millis, restart: bool) -> bool {
    let wanted = if restart { ScheduleAction::Restart } else { ScheduleAction::Start };
    schedules.iter().any(|entry| entry.action == wanted && entry.schedule.next(due - 1) == Some(due))
}

impl Span {
    fn dues(&self, after: Millis, to: Millis, dues: &mut Vec<Millis>) {
        let (from, to) = (self.after.max(after).saturating_add(1), self.to.min(to).saturating_add(1));
        if from < to {
            for entry in starts(&self.schedules) {
                entry.schedule.walk(from, to, &mut |due| dues.push(due));
            }
        }
    }
}

impl Life {
    /// The planning state of the job is durable.
    pub(crate) fn state(&mut self, state: &JobState, with_put: bool) -> Result<(), Violation> {
        if let Some(span) = &self.open {
            for &(from, to) in &state.holes {
                let mut start = from;
                self.holes.sort_by_key(|hole| hole.after);
                for hole in &self.holes {
                    if hole.after <= start && hole.to > start {
                        start = hole.to;
                    }
                }
                if start < to {
                    self.holes.push(Span { schedules: span.schedules.clone(), after: start, to });
                }
            }
        }
        if let Some(at) = state.paused_at
            && self.paused_at.last() != Some(&at)
        {
            self.paused_at.push(at);
        }
        if with_put {
            return Ok(());
        }
        match (self.watermark, state.watermark) {
            (Some(before), Some(now)) if now < before => {
                return broken("watermarks only rise", format!("{}: from {before} to {now}", self.name));
            }
            (_, None) if self.removed_at.is_none() => {
                return broken("watermarks only rise", format!("{}: its watermark vanished", self.name));
            }
            (_, None) => self.let_go = true,
            _ => {}
        }
        if state.watermark.is_some() {
            self.watermark = state.watermark;
        }
        Ok(())
    }

    /// The job is put, with this watermark.
    pub(crate) fn put(
        &mut self,
        schedules: Arc<[ScheduleEntry]>,
        watermark: Millis,
    ) -> Result<(), Violation> {
        if let Some(mut span) = self.open.take() {
            let before = self.watermark.unwrap_or(Millis::MIN);
            span.to = match self.removed_at {
                Some(removed_at) if watermark != before => {
                    // Pauses of the former life may be on record beyond its watermark.
                    let recorded_to = self.holes.iter().map(|hole| hole.to).max().unwrap_or(before);
                    self.twice |= watermark < removed_at.max(before).max(recorded_to);
                    removed_at.max(before)
                }
                _ => watermark,
            };
            self.spans.push(span);
        }
        if self.removed_at.take().is_none()
            && let Some(before) = self.watermark
            && watermark < before
        {
            return broken(
                "watermarks only rise",
                format!("{}: from {before} to {watermark}, with an edit", self.name),
            );
        }
        self.let_go = false;
        self.caught_up = 0;
        self.caught_up_started = None;
        self.edits.push((watermark, schedules.clone()));
        self.open = Some(Span { schedules, after: watermark, to: Millis::MAX });
        self.watermark = Some(watermark);
        Ok(())
    }

    /// How far every due has to be recorded by now. `waits` says that the job is paused or still replays.
    pub(crate) fn due_to(&self, now: Millis, waits: bool) -> Millis {
        let watermark = self.watermark.unwrap_or(Millis::MIN);
        match self.removed_at {
            Some(at) if self.let_go || now > at + REVIVE_MS_MAX + 2_000 => at.max(watermark),
            None if !waits => now.max(watermark),
            _ => watermark,
        }
    }

    /// What is to be compared up to an instant: dues, marks, restarts, stretches; all sorted. What is given out is
    /// not kept.
    pub(crate) fn take(&mut self, mut to: Millis) -> (Vec<Millis>, Vec<Millis>, Vec<Millis>, Vec<Stretch>) {
        // A stretch is compared whole.
        self.skips.sort_by_key(|skip| std::cmp::Reverse(skip.first_due));
        for skip in &self.skips {
            if skip.first_due <= to && to < skip.last_due {
                to = skip.first_due - 1;
            }
        }
        let after = self.checked_to.unwrap_or(Millis::MIN);
        let mut dues = Vec::new();
        for span in self.spans.iter().chain(&self.open) {
            span.dues(after, to, &mut dues);
        }
        dues.retain(|due| !self.holes.iter().any(|hole| hole.after < *due && *due <= hole.to));
        for hole in &self.holes {
            hole.dues(after, to, &mut dues);
        }
        dues.sort_unstable();
        dues.dedup();
        let mut stretches: Vec<Stretch> = Vec::new();
        self.skips.retain(|skip| {
            let out = skip.last_due <= to;
            if out {
                stretches.push(Stretch { first: skip.first_due, last: skip.last_due, count: skip.count });
            }
            !out
        });
        stretches.sort_unstable();
        let (mut marks, mut spare) = (Vec::new(), Vec::new());
        self.marks.retain(|mark| {
            let out = mark.due <= to;
            if out {
                if mark.spare { &mut spare } else { &mut marks }.push(mark.due);
            }
            !out
        });
        marks.sort_unstable();
        spare.sort_unstable();
        self.spans.retain(|span| span.to > to);
        self.holes.retain(|hole| hole.to > to);
        self.checked_to = Some(to.max(after));
        (dues, marks, spare, stretches)
    }

    /// An edit promised a run at once: what only the new schedule names within the pre-read window, and the watermark
    /// has passed already.
    pub(crate) fn promised_by_edit(&mut self, due: Millis, at: Millis) {
        let ahead = at < due && due <= at + PRE_READ_MS;
        if let Some((watermark, schedules)) = self.edits.last()
            && ahead
            && due <= *watermark
            && names(schedules, due, false)
        {
            self.fresh.push(due);
        }
    }

    /// Whether a run for an instant that no span names was promised by an edit.
    pub(crate) fn is_fresh(&self, due: Millis) -> bool {
        self.fresh.contains(&due)
    }

    /// Whether a due lies in a stretch that is recorded as paused.
    pub(crate) fn is_paused_at(&self, due: Millis) -> bool {
        self.holes.iter().any(|hole| hole.after < due && due <= hole.to)
            || self.skips.iter().any(|skip| {
                skip.reason == SkipReason::Paused && (skip.first_due..=skip.last_due).contains(&due)
            })
    }

    /// Whether one of its definitions so far names an instant for a restart.
    pub(crate) fn restarts_at(&self, due: Millis) -> bool {
        self.edits.iter().any(|(_, schedules)| names(schedules, due, true))
    }

    /// Forgets edits that no open run can go back to.
    pub(crate) fn forget_edits(&mut self, keep: usize) {
        let len = self.edits.len();
        if len > keep {
            self.edits.drain(..len - keep);
            self.fresh.drain(..self.fresh.len().saturating_sub(64));
        }
    }
}
