use std::collections::BTreeMap;

use cadran_core::{Body, Found, Handler, Millis, Now, Outcome, SeatRecord, SeatStatus, StepNo, StepRecord};

use crate::progress::{AttemptEnd, Next, Progress, StopWhy};
use crate::retry;
use crate::slot::{LOST_MAX, Slot, State};

/// Why a run is taken up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// The server was gone. The run goes on where it stood: what was over stays over, waits go on, and attempts
    /// that were on are taken as they were found.
    Recover,
    /// Someone asked to retry an ended run. What succeeded stays; everything else runs again, with fresh retries.
    /// Attempts beyond the recorded ones are those of this retry, ordered before the server went away: it goes on
    /// from them.
    Retry,
}

impl Progress {
    /// Takes a run up again from its records and from what executors still know of its attempts (`found`, only
    /// those of this run, in any order).
    ///
    /// Attempts go on from the highest number known. Under [`Resume::Recover`] an attempt that was on and is found
    /// ended is taken as it ended; one that is cut off, or that nobody knows, is lost: started again unless
    /// `at_most_once`, at most [`LOST_MAX`] times, counted across recoveries. One that was stopped with the server,
    /// while nobody stopped the run, starts again and does not count. A run found in the middle of a stop goes on
    /// stopping.
    pub fn resume(
        body: &Body,
        records: &[StepRecord],
        found: &[Found],
        mode: Resume,
        at_most_once: bool,
        now: Now,
        out: &mut Vec<Next>,
    ) -> Progress {
        let mut progress = Progress::untouched(body, at_most_once);
        let in_place = progress.restore(body, records, mode);
        let place = |no: StepNo| {
            let no = if in_place { Some(no) } else { moved(body, records, no) };
            no.filter(|no| body.step(*no).is_some())
        };
        let found = progress.place_found(found, place, mode);
        progress.recount(body);
        if mode == Resume::Recover {
            progress.recall_stop();
        }
        progress.set_out(body);
        if progress.stop.is_some() {
            // Nothing runs any more, so nobody is told to stop: the orders go nowhere.
            progress.stop_steps(body, now, &mut Vec::new());
        }
        progress.take_up_waits(body, now, out);
        progress.take_ends(body, &found, now, out);
        progress.advance(body, out);
        progress
    }

    /// Fills the slots from the records: by place, or by name when the job was edited since. The answer tells which.
    fn restore(&mut self, body: &Body, records: &[StepRecord], mode: Resume) -> bool {
        let in_place = self.slots.len() <= records.len()
            && body.steps.iter().zip(records).all(|(step, record)| *step.name == *record.name);
        let (steps, rest) = records.split_at(if in_place { self.slots.len() } else { 0 });
        let mut by_name: BTreeMap<&str, &StepRecord> =
            rest.iter().map(|record| (&*record.name, record)).collect();
        for at in 0..self.slots.len() {
            let record = if in_place { steps.get(at) } else { by_name.remove(&*body.steps[at].name) };
            if let Some(record) = record {
                self.restore_one(body, StepNo(at as u16), record, mode);
            }
        }
        for handler in Handler::ALL {
            if body.handlers.get(handler).is_none() {
                continue;
            }
            if let Some(record) = by_name.get(handler.step_name()) {
                self.extra.get_or_insert_default();
                self.restore_one(body, self.handler_no(handler), record, mode);
            }
        }
        in_place || records.is_empty()
    }

    fn restore_one(&mut self, body: &Body, no: StepNo, record: &StepRecord, mode: Resume) {
        let (is_step, at_most_once) = (self.is_step(no), self.at_most_once);
        let mut state = State::from(record.status);
        let kept = match mode {
            Resume::Recover => state != State::Pending,
            Resume::Retry => is_step && state == State::Succeeded,
        };
        if !kept {
            state = State::Pending;
        }
        let Some(slot) = self.slot_mut(no) else {
            return;
        };
        *slot = Slot { attempt: record.attempt, state, ..Slot::default() };
        if !kept {
            return;
        }
        slot.message = record.message.clone();
        slot.started_at = record.started_at.into();
        slot.ended_at = record.ended_at.into();
        slot.exit_code = record.exit_code;
        slot.lost = record.lost;
        slot.failures = failures(slot, 0);
        slot.given_up = state == State::Failed
            && slot.exit_code.is_none()
            && (slot.lost >= LOST_MAX || at_most_once && slot.lost > 0);
        // Without an end time it was told to stop and had not ended yet: see `Progress::records`.
        let stopping = record.attempt > 0
            && record.ended_at.is_none()
            && matches!(state, State::Stopped | State::Failed);
        if stopping {
            slot.state = State::Running;
            slot.stopping = true;
            slot.message = None;
        }
        if is_step && state == State::Stopped {
            self.stop = Some(StopWhy::Asked);
        } else if is_step && stopping {
            self.stop = Some(StopWhy::TimedOut);
        }
        if let (Some(value), Some(name)) =
            (&record.output, body.step(no).and_then(|step| step.output.as_ref()))
        {
            self.extra.get_or_insert_default().outputs.set(no, name, value);
        }
    }

    /// Moves slots on to what executors know beyond the records. The answer holds, by step, the newest attempt found
    /// of each that is on.
    fn place_found<'a>(
        &mut self,
        found: &'a [Found],
        place: impl Fn(StepNo) -> Option<StepNo>,
        mode: Resume,
    ) -> BTreeMap<StepNo, &'a Found> {
        let mut newest = BTreeMap::new();
        let mut sorted: Vec<(StepNo, &Found)> =
            found.iter().filter_map(|found| Some((place(found.step)?, found))).collect();
        sorted.sort_by_key(|(no, found)| (*no, found.attempt));
        for group in sorted.chunk_by(|(a, _), (b, _)| a == b) {
            let Some(((no, last), before)) = group.split_last() else {
                continue;
            };
            if !self.is_step(*no) {
                self.extra.get_or_insert_default();
            }
            let Some(slot) = self.slot_mut(*no) else {
                continue;
            };
            let recorded = slot.attempt;
            let newer = last.attempt > recorded;
            slot.attempt = recorded.max(last.attempt);
            // What a retry finds up to the recorded attempt is from before it. What lies beyond, the retry itself ordered.
            if mode == Resume::Retry && !newer || slot.state == State::Succeeded {
                continue;
            }
            let before = match mode {
                Resume::Recover => before,
                Resume::Retry => &before[before.partition_point(|(_, found)| found.attempt <= recorded)..],
            };
            if newer {
                // The order went out, and the server was gone before it could record that.
                let lost = before.iter().filter(|(_, found)| is_cut_off(found)).count() as u32;
                slot.lost = slot.lost.max(lost);
                slot.state = State::Running;
                slot.started_at = taken_at(last).into();
            } else if last.lives && slot.attempt == last.attempt && slot.started_at.get().is_none() {
                // It was on record before its executor took it, and has been taken since.
                slot.started_at = taken_at(last).into();
            }
            let stopped = before.iter().filter(|(_, found)| is_stopped(found)).count() as u32;
            slot.failures = match mode {
                Resume::Recover => failures(slot, stopped),
                Resume::Retry => (before.len() as u32).saturating_sub(slot.lost).saturating_sub(stopped),
            };
            if slot.state == State::Running && slot.attempt == last.attempt {
                newest.insert(*no, *last);
            }
        }
        newest
    }

    /// Counts what the slots say.
    fn recount(&mut self, body: &Body) {
        for at in 0..self.slots.len() {
            let slot = &self.slots[at];
            self.begun |= slot.state.is_over() || slot.started_at.get().is_some();
            self.live += u16::from(slot.state == State::Running);
            self.count(body, StepNo(at as u16));
        }
        if let Some(extra) = &self.extra {
            self.live += extra.handlers.iter().filter(|slot| slot.state == State::Running).count() as u16;
        }
    }

    /// The handlers tell how the steps came out when the steps themselves no longer do.
    fn recall_stop(&mut self) {
        let Some(extra) = &self.extra else {
            return;
        };
        let reached = |handler: Handler| extra.handlers[handler as usize].state != State::Pending;
        let all_well = self.failed.count == 0 && self.given_up.count == 0;
        if reached(Handler::Stop) {
            self.stop.get_or_insert(StopWhy::Asked);
        } else if reached(Handler::Failure) && all_well {
            // Every failure was forgiven, and yet the run had failed: it had passed its time limit.
            self.stop.get_or_insert(StopWhy::TimedOut);
        }
    }

    /// Ends every attempt that was on: as it was found, or lost.
    fn take_ends(&mut self, body: &Body, newest: &BTreeMap<StepNo, &Found>, now: Now, out: &mut Vec<Next>) {
        let on: Vec<StepNo> = self.live().map(|(no, _)| no).collect();
        for no in on {
            let found = newest.get(&no);
            if found.is_some_and(|found| found.lives && found.ended.is_none()) {
                // It goes on where it is, and reports. A stop that it may not have heard is said once more.
                if let Some(slot) = self.slot_mut(no).filter(|slot| slot.stopping) {
                    out.push(Next::Stop { step: no, attempt: slot.attempt });
                }
                continue;
            }
            if found.is_some_and(|found| is_stopped(found)) && self.start_over(no, now) {
                continue;
            }
            let end = match found.and_then(|found| Some((found.ended.as_ref()?, &found.output))) {
                Some(((_, Outcome::Stopped), _)) | None => {
                    AttemptEnd { at: now.wall, outcome: &Outcome::Lost, output: None }
                }
                Some(((at, outcome), output)) => AttemptEnd { at: *at, outcome, output: output.as_deref() },
            };
            self.attempt_over(body, no, end, now, out);
        }
    }

    /// An attempt that was stopped although nobody stopped the run went down with a server that ended in good order.
    /// That says nothing against the step: it starts again, and the attempt counts neither as failed nor as lost.
    fn start_over(&mut self, no: StepNo, now: Now) -> bool {
        let at_most_once = self.at_most_once;
        match self.slot_mut(no) {
            Some(slot) if !slot.stopping && !at_most_once => {
                slot.state = State::Due;
                slot.ended_at = now.wall.into();
                slot.message = Some("was stopped with the server".into());
            }
            _ => return false,
        }
        self.live -= 1;
        self.line_up(no);
        true
    }

    /// Goes on with waits for a retry. What is left of one is told by the wall clock, for the monotonic one began
    /// anew; a stepped clock can shorten a wait, but not stretch it.
    fn take_up_waits(&mut self, body: &Body, now: Now, out: &mut Vec<Next>) {
        for at in 0..self.slots.len() + Handler::ALL.len() {
            let no = StepNo(at as u16);
            let Some(step) = body.step(no) else {
                continue;
            };
            let Some(slot) = self.slot_mut(no) else {
                continue;
            };
            if slot.state != State::Waiting {
                continue;
            }
            let wait = if slot.failures == 0 { 0 } else { retry::wait_ms(&step.retry, slot.failures) };
            let waited = slot.ended_at.get().map_or(0, |ended| now.wall.saturating_sub(ended));
            self.wait(no, wait.saturating_sub(waited).clamp(0, wait), now, out);
        }
    }
}

/// The number that a step of the recorded body has in this one, by its name. Handlers are not looked for: theirs
/// counted from the number of steps there were, and one that was on is started again like any lost attempt.
fn moved(body: &Body, records: &[StepRecord], no: StepNo) -> Option<StepNo> {
    let name = &*records.get(usize::from(no.0))?.name;
    let at = body.steps.iter().position(|step| step.name == name)?;
    Some(StepNo(at as u16))
}

/// How many attempts failed, as far as the records tell: those that are neither on, nor lost, nor stopped with the
/// server. After a retry by hand this counts earlier openings too, and so allows fewer retries rather than more.
fn failures(slot: &Slot, stopped: u32) -> u32 {
    let on = u32::from(slot.state == State::Running);
    slot.attempt.saturating_sub(on).saturating_sub(slot.lost).saturating_sub(stopped)
}

/// When an attempt began, unless no executor has said yet that it took it.
fn taken_at(found: &Found) -> Option<Millis> {
    let untaken = |seat: &SeatRecord| seat.status == SeatStatus::Sent;
    let is_untaken = !found.seats.is_empty() && found.seats.iter().all(untaken);
    (!is_untaken).then_some(found.started_at)
}

fn is_stopped(found: &Found) -> bool {
    matches!(found.ended, Some((_, Outcome::Stopped)))
}

fn is_cut_off(found: &Found) -> bool {
    !found.lives && found.ended.is_none() || matches!(found.ended, Some((_, Outcome::Lost)))
}
