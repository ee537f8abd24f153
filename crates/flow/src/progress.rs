use std::sync::Arc;

use cadran_core::{Body, Handler, Millis, Now, Outcome, Report, ReportKind, RunStatus, StepNo, StepRecord};
use smallvec::SmallVec;

use crate::ending::stopped_state;
use crate::graph::Graph;
use crate::outputs::Outputs;
use crate::slot::{Slot, State};
use crate::tally::Tally;
use crate::words;

/// How far a run has come.
///
/// The body given to each call must be the one the progress was made with.
#[derive(Clone, Debug)]
pub struct Progress {
    pub(crate) slots: SmallVec<[Slot; 1]>,
    /// `None` for a single step that depends on nothing.
    pub(crate) graph: Option<Box<Graph>>,
    /// `None` until a handler is reached or an output captured.
    pub(crate) extra: Option<Box<Extra>>,
    /// Attempts that are on, of steps and handlers.
    pub(crate) live: u16,
    /// Steps that are not over.
    pub(crate) open: u16,
    /// Steps that wait for the interval of their retry.
    pub(crate) waiting: u16,
    pub(crate) failed: Tally,
    pub(crate) given_up: Tally,
    pub(crate) forgiven: Tally,
    pub(crate) phase: Phase,
    pub(crate) stop: Option<StopWhy>,
    pub(crate) at_most_once: bool,
    /// Whether any step got past the preconditions of the job.
    pub(crate) begun: bool,
}

/// What a run wants done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Start an attempt of a step.
    Start {
        /// Which step.
        step: StepNo,
        /// Which attempt of it.
        attempt: u32,
    },
    /// Call [`Progress::retry_due`] for the step at this reading of the monotonic clock.
    RetryAt {
        /// Which step.
        step: StepNo,
        /// When.
        at_mono: Millis,
    },
    /// Stop an attempt. Its end is reported like any other.
    Stop {
        /// Which step.
        step: StepNo,
        /// Which attempt of it.
        attempt: u32,
    },
    /// The run is over. Comes once, as the last thing.
    End {
        /// Succeeded, failed, stopped, lost or skipped.
        status: RunStatus,
        /// Why, in words, when there is something to say.
        message: Option<Box<str>>,
    },
}

/// What became of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It was news.
    Yes,
    /// It speaks of an attempt that is over; nothing changed.
    Stale,
    /// It speaks of a step or an attempt that was never ordered; nothing changed.
    Unknown,
}

/// Why a run is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopWhy {
    /// A person or a program asked for it.
    Asked,
    /// A stop or restart schedule of the job came due.
    Schedule,
    /// A newer run of the job takes its place (`overlap: replace`).
    Replaced,
    /// The steps took longer than the run's time limit. The run ends as failed.
    TimedOut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Steps,
    /// The steps are over, with this result so far.
    Handlers(RunStatus),
    Ended,
}

/// How and when an attempt ended.
pub(crate) struct AttemptEnd<'a> {
    pub(crate) at: Millis,
    pub(crate) outcome: &'a Outcome,
    pub(crate) output: Option<&'a str>,
}

/// What most runs do without.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extra {
    pub(crate) handlers: [Slot; 4],
    pub(crate) outputs: Outputs,
}

impl Progress {
    /// The first steps of a new run. `at_most_once` forbids to start a lost attempt again.
    pub fn begin(body: &Body, at_most_once: bool, out: &mut Vec<Next>) -> Progress {
        let mut progress = Progress::untouched(body, at_most_once);
        progress.set_out(body);
        progress.advance(body, out);
        progress
    }

    /// Takes in what an executor says. See [`Accepted`] for reports that come late or from nowhere.
    pub fn report(&mut self, body: &Body, report: &Report, now: Now, out: &mut Vec<Next>) -> Accepted {
        let no = report.step;
        let ended = self.is_ended();
        let Some(slot) = self.slot_mut(no) else {
            return Accepted::Unknown;
        };
        if report.attempt == 0 || report.attempt > slot.attempt {
            return Accepted::Unknown;
        }
        let old = report.attempt < slot.attempt;
        if ended || old || slot.state != State::Running {
            return Accepted::Stale;
        }
        match &report.kind {
            ReportKind::Started => {
                if slot.started_at.get().is_some() {
                    return Accepted::Stale;
                }
                slot.started_at = report.at.into();
                self.begun = true;
            }
            // Told to the record by whoever keeps it.
            ReportKind::Seat(_) => return Accepted::Yes,
            ReportKind::Ended { outcome, output } => {
                let end = AttemptEnd { at: report.at, outcome, output: output.as_deref() };
                self.attempt_over(body, no, end, now, out);
            }
        }
        self.advance(body, out);
        Accepted::Yes
    }

    /// The wait of a [`Next::RetryAt`] is over. Without one under way nothing changes.
    pub fn retry_due(&mut self, body: &Body, step: StepNo, out: &mut Vec<Next>) {
        let is_step = self.is_step(step);
        match self.slot_mut(step) {
            Some(slot) if slot.state == State::Waiting => slot.state = State::Due,
            _ => return,
        }
        if is_step {
            self.waiting -= 1;
            self.line_up(step);
        }
        self.advance(body, out);
    }

    /// Starts no further step and stops those that are on; handlers follow, then the end.
    ///
    /// Once the steps are over, the handler that is on is stopped instead; the time limit of the run no longer
    /// counts then. A stop of what is being stopped already changes nothing.
    pub fn stop(&mut self, body: &Body, why: StopWhy, now: Now, out: &mut Vec<Next>) {
        match self.phase {
            Phase::Steps if self.stop.is_none() => {
                self.stop = Some(why);
                self.stop_steps(body, now, out);
            }
            Phase::Handlers(_) if why != StopWhy::TimedOut => {
                self.stop.get_or_insert(why);
                self.stop_handlers(body, why, now, out);
            }
            _ => return,
        }
        self.advance(body, out);
    }

    /// Every step, and every handler that was reached, as it is to be recorded.
    ///
    /// An attempt that was told to stop is recorded as stopped before its end is known, so that the stop outlives
    /// the server; it has no end time until then.
    pub fn records(&self, body: &Body) -> Vec<StepRecord> {
        let mut records = Vec::with_capacity(self.slots.len() + Handler::ALL.len());
        let outputs = self.extra.as_deref().map(|extra| &extra.outputs);
        let output = |no| outputs.and_then(|outputs| outputs.get(no));
        for (at, slot) in self.slots.iter().enumerate() {
            let no = StepNo(at as u16);
            let name = body.step(no).map_or("", |step| &step.name);
            records.push(self.record(body, no, slot, name, output(no)));
        }
        if let Some(extra) = &self.extra {
            for (handler, slot) in Handler::ALL.into_iter().zip(&extra.handlers) {
                if slot.attempt > 0 || slot.state != State::Pending {
                    let no = self.handler_no(handler);
                    records.push(self.record(body, no, slot, handler.step_name(), output(no)));
                }
            }
        }
        records
    }

    /// What a step is told: the captured outputs, and for a handler the result of the steps as `CADRAN_RUN_STATUS`.
    pub fn outputs_for(&self, body: &Body, no: StepNo) -> Arc<[(Box<str>, Box<str>)]> {
        let outputs = self.outputs();
        match self.phase {
            Phase::Handlers(result) if !self.is_step(no) => {
                let partial = result == RunStatus::Succeeded && self.is_partial(body);
                let status = if partial { RunStatus::PartiallySucceeded } else { result };
                let told = ("CADRAN_RUN_STATUS".into(), status.word().into());
                outputs.iter().cloned().chain([told]).collect()
            }
            _ => outputs,
        }
    }

    /// Captured outputs, (name, value), in the order of their steps.
    pub fn outputs(&self) -> Arc<[(Box<str>, Box<str>)]> {
        self.extra.as_deref().map(|extra| extra.outputs.shared()).unwrap_or_default()
    }

    /// Whether [`Next::End`] was given out.
    pub fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Whether the steps are over, so that the time limit of the run no longer counts.
    pub fn steps_over(&self) -> bool {
        self.phase != Phase::Steps
    }

    /// Whether the latest attempt of a step was reported as started.
    pub fn is_started(&self, step: StepNo) -> bool {
        self.slots.get(usize::from(step.0)).is_some_and(|slot| slot.started_at.get().is_some())
    }

    /// The attempts that are on.
    pub fn live(&self) -> impl Iterator<Item = (StepNo, u32)> {
        let handlers = self.extra.as_deref().map_or(&[][..], |extra| &extra.handlers);
        let slots = self.slots.iter().chain(handlers).enumerate();
        slots
            .filter(|(_, slot)| slot.state == State::Running)
            .map(|(at, slot)| (StepNo(at as u16), slot.attempt))
    }
}

/// Looking up.
impl Progress {
    fn record(&self, body: &Body, no: StepNo, slot: &Slot, name: &str, output: Option<&str>) -> StepRecord {
        if slot.state != State::Running || !slot.stopping {
            return slot.record(name, output);
        }
        let why = self.stop_of(no);
        let mut stopped = slot.clone();
        stopped.state = stopped_state(why);
        stopped.message = Some(words::stopped_step(why, body));
        stopped.record(name, output)
    }

    /// Why an attempt of this step or handler is being stopped. The time limit stops steps alone: a handler that is
    /// stopped behind it was asked to.
    pub(crate) fn stop_of(&self, no: StepNo) -> StopWhy {
        match self.stop {
            Some(StopWhy::TimedOut) if !self.is_step(no) => StopWhy::Asked,
            Some(why) => why,
            None => StopWhy::Asked,
        }
    }

    pub(crate) fn is_step(&self, no: StepNo) -> bool {
        usize::from(no.0) < self.slots.len()
    }

    pub(crate) fn handler_no(&self, handler: Handler) -> StepNo {
        StepNo((self.slots.len() + handler as usize) as u16)
    }

    pub(crate) fn slot_mut(&mut self, no: StepNo) -> Option<&mut Slot> {
        let at = usize::from(no.0);
        match at.checked_sub(self.slots.len()) {
            None => self.slots.get_mut(at),
            Some(handler) => self.extra.as_deref_mut()?.handlers.get_mut(handler),
        }
    }
}
