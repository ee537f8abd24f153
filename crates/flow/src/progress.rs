use std::sync::Arc;

use cadran_core::{
    Body, Handler, Millis, Now, Outcome, Report, ReportKind, RunStatus, Step, StepNo, StepRecord,
};
use smallvec::SmallVec;

use crate::graph::{Graph, Released};
use crate::outputs::Outputs;
use crate::slot::{LOST_MAX, Slot, State};
use crate::tally::Tally;
use crate::{retry, words};

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
        if ended || report.attempt < slot.attempt || slot.state != State::Running {
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
    pub fn records(&self, body: &Body) -> Vec<StepRecord> {
        let mut records = Vec::with_capacity(self.slots.len() + Handler::ALL.len());
        let outputs = self.extra.as_deref().map(|extra| &extra.outputs);
        let output = |no| outputs.and_then(|outputs| outputs.get(no));
        for (at, slot) in self.slots.iter().enumerate() {
            let no = StepNo(at as u16);
            let name = body.step(no).map_or("", |step| &step.name);
            records.push(slot.record(name, output(no)));
        }
        if let Some(extra) = &self.extra {
            for (handler, slot) in Handler::ALL.into_iter().zip(&extra.handlers) {
                if slot.attempt > 0 || slot.state != State::Pending {
                    records.push(slot.record(handler.step_name(), output(self.handler_no(handler))));
                }
            }
        }
        records
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

    /// The attempts that are on.
    pub fn live(&self) -> impl Iterator<Item = (StepNo, u32)> {
        let handlers = self.extra.as_deref().map_or(&[][..], |extra| &extra.handlers);
        let slots = self.slots.iter().chain(handlers).enumerate();
        slots
            .filter(|(_, slot)| slot.state == State::Running)
            .map(|(at, slot)| (StepNo(at as u16), slot.attempt))
    }
}

/// Moving on.
impl Progress {
    /// A run of which nothing was started.
    pub(crate) fn untouched(body: &Body, at_most_once: bool) -> Progress {
        // A body beyond its bound has numbers that do not fit: such a run ends at once, in `set_out`.
        let count = if body.steps.len() > Body::STEPS_MAX { 0 } else { body.steps.len() };
        Progress {
            slots: SmallVec::from_elem(Slot::default(), count),
            graph: None,
            extra: None,
            live: 0,
            open: 0,
            waiting: 0,
            failed: Tally::default(),
            given_up: Tally::default(),
            forgiven: Tally::default(),
            phase: Phase::Steps,
            stop: None,
            at_most_once,
            begun: false,
        }
    }

    /// Counts the steps as they stand and lines up those that may start.
    pub(crate) fn set_out(&mut self, body: &Body) {
        self.open = self.slots.iter().filter(|slot| !slot.state.is_over()).count() as u16;
        let alone = self.slots.len() <= 1 && self.slots.len() == body.steps.len();
        if alone && body.steps.iter().all(|step| step.depends.is_empty()) {
            return;
        }
        if self.slots.len() != body.steps.len() {
            return;
        }
        let mut graph = Box::new(Graph::new(body));
        for at in 0..self.slots.len() {
            let on = StepNo(at as u16);
            if self.slots[at].state.is_over() {
                let lets = self.lets_others_start(body, on);
                for place in graph.dependents(on) {
                    let no = graph.dependent(place);
                    graph.release(no, on, lets);
                }
            }
        }
        self.graph = Some(graph);
        for at in 0..self.slots.len() {
            self.judge(body, StepNo(at as u16));
        }
    }

    /// Starts what may start; when nothing is left, moves on to the handlers and to the end.
    pub(crate) fn advance(&mut self, body: &Body, out: &mut Vec<Next>) {
        if self.phase == Phase::Steps {
            while self.live < self.places(body)
                && let Some(no) = self.pop_ready()
            {
                self.start(no, out);
            }
            if self.open > 0 && self.live == 0 && self.waiting == 0 {
                self.break_circle(body);
            }
            if self.open > 0 {
                return;
            }
            self.phase = Phase::Handlers(self.result(body));
        }
        let Phase::Handlers(result) = self.phase else {
            return;
        };
        for handler in handlers_of(result) {
            if body.handlers.get(handler).is_none() {
                continue;
            }
            let no = self.handler_no(handler);
            match self.extra.get_or_insert_default().handlers[handler as usize].state {
                State::Pending | State::Due => return self.start(no, out),
                State::Running | State::Waiting => return,
                State::Succeeded | State::Failed | State::Skipped | State::Stopped => {}
            }
        }
        let (status, message) = self.ending(body, result);
        self.end(status, message, out);
    }

    /// How many attempts may be on at once.
    fn places(&self, body: &Body) -> u16 {
        match (self.stop, body.max_active_steps) {
            (Some(_), _) => 0,
            _ if !self.begun && !body.preconditions.is_empty() => 1,
            (None, 0) => u16::MAX,
            (None, places) => places,
        }
    }

    fn start(&mut self, no: StepNo, out: &mut Vec<Next>) {
        if let Some(slot) = self.slot_mut(no) {
            let attempt = slot.start();
            self.live += 1;
            out.push(Next::Start { step: no, attempt });
        }
    }

    /// An attempt that was on is over.
    pub(crate) fn attempt_over(
        &mut self,
        body: &Body,
        no: StepNo,
        end: AttemptEnd<'_>,
        now: Now,
        out: &mut Vec<Next>,
    ) {
        let AttemptEnd { at, outcome, output } = end;
        let (Some(step), is_step, at_most_once) = (body.step(no), self.is_step(no), self.at_most_once) else {
            return;
        };
        self.live -= 1;
        if !matches!(outcome, Outcome::JobPreconditionUnmet(_) | Outcome::Lost) {
            self.begun = true;
        }
        let stop = self.stop;
        let first = !self.begun && is_step && self.live == 0 && stop.is_none();
        let Some(slot) = self.slot_mut(no) else {
            return;
        };
        slot.ended_at = at.into();
        slot.exit_code = match outcome {
            Outcome::Exited(code) => Some(*code),
            _ => None,
        };
        let text = words::outcome(outcome, step);
        match outcome {
            Outcome::Exited(0) => {
                slot.message = None;
                self.settle(body, no, State::Succeeded, output);
            }
            Outcome::JobPreconditionUnmet(_) if first => self.skip_run(&text, out),
            Outcome::PreconditionUnmet(_) | Outcome::JobPreconditionUnmet(_) => {
                slot.message = Some(text.into());
                self.settle(body, no, State::Skipped, None);
            }
            _ if slot.stopping => {
                let why = stop.unwrap_or(StopWhy::Asked);
                slot.message = Some(words::stop(why, body));
                self.settle(body, no, stopped_state(why, is_step), output);
            }
            Outcome::Lost => {
                slot.lost += 1;
                if at_most_once || slot.lost >= LOST_MAX {
                    slot.given_up = true;
                    slot.message = Some(words::given_up(slot.lost, at_most_once));
                    self.settle(body, no, State::Failed, output);
                } else {
                    slot.state = State::Due;
                    slot.message = Some(text.into());
                    self.line_up(no);
                }
            }
            _ => {
                slot.failures = slot.failures.saturating_add(1);
                if !retry::is_allowed(&step.retry, outcome, slot.failures) {
                    slot.message = Some(words::after_attempts(text, slot.attempt));
                    self.settle(body, no, State::Failed, output);
                    return;
                }
                slot.message = Some(text.into());
                let wait = retry::wait_ms(&step.retry, slot.failures);
                self.wait(no, wait, now, out);
            }
        }
    }

    /// Puts another attempt off.
    pub(crate) fn wait(&mut self, no: StepNo, wait_ms: Millis, now: Now, out: &mut Vec<Next>) {
        let is_step = self.is_step(no);
        let Some(slot) = self.slot_mut(no) else {
            return;
        };
        if wait_ms > 0 {
            slot.state = State::Waiting;
            self.waiting += u16::from(is_step);
            out.push(Next::RetryAt { step: no, at_mono: now.mono.saturating_add(wait_ms) });
        } else {
            slot.state = State::Due;
            self.line_up(no);
        }
    }

    /// A step or handler is over for good.
    fn settle(&mut self, body: &Body, no: StepNo, state: State, output: Option<&str>) {
        let (Some(step), is_step) = (body.step(no), self.is_step(no)) else {
            return;
        };
        if let (Some(name), Some(value)) = (&step.output, output) {
            self.extra.get_or_insert_default().outputs.set(no, name, value);
        }
        let Some(slot) = self.slot_mut(no) else {
            return;
        };
        slot.state = state;
        if state == State::Failed && step.continue_on.mark_success && is_forgiven(step, slot) {
            slot.state = State::Succeeded;
            let text = slot.message.take().unwrap_or_default();
            slot.message = Some(format!("{text}; counted as a success (mark_success)").into());
        }
        if is_step {
            self.open -= 1;
            self.count(body, no);
            self.release_dependents(body, no);
        }
    }

    /// Adds a step that is over to the tallies that decide the result.
    pub(crate) fn count(&mut self, body: &Body, no: StepNo) {
        let (Some(step), Some(slot)) = (body.step(no), self.slots.get(usize::from(no.0))) else {
            return;
        };
        if slot.state != State::Failed {
            return;
        }
        let tally = match (is_forgiven(step, slot), slot.given_up) {
            (true, _) => &mut self.forgiven,
            (false, true) => &mut self.given_up,
            (false, false) => &mut self.failed,
        };
        tally.add(no);
    }

    /// Lets the steps behind one that is over start, or skips them, and those behind them.
    fn release_dependents(&mut self, body: &Body, on: StepNo) {
        let mut over = SmallVec::<[StepNo; 4]>::from_elem(on, 1);
        while let Some(on) = over.pop() {
            let lets = self.lets_others_start(body, on);
            let Some(graph) = &mut self.graph else {
                return;
            };
            for place in graph.dependents(on) {
                let no = graph.dependent(place);
                let slot = &mut self.slots[usize::from(no.0)];
                match graph.release(no, on, lets) {
                    Released::Ready if slot.state == State::Pending => graph.push_ready(no),
                    Released::Blocked(by) if slot.state == State::Pending => {
                        skip(slot, by, body);
                        self.open -= 1;
                        over.push(no);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Lines up or skips a pending step as the graph stands.
    fn judge(&mut self, body: &Body, no: StepNo) {
        let slot = &mut self.slots[usize::from(no.0)];
        if slot.state != State::Pending {
            return;
        }
        let Some(graph) = &mut self.graph else {
            return;
        };
        match graph.standing(no) {
            Released::Ready => graph.push_ready(no),
            Released::Blocked(by) => {
                skip(slot, by, body);
                self.open -= 1;
                self.release_dependents(body, no);
            }
            Released::No => {}
        }
    }

    /// Whether steps that depend on one that is over may start.
    fn lets_others_start(&self, body: &Body, no: StepNo) -> bool {
        let (Some(step), Some(slot)) = (body.step(no), self.slots.get(usize::from(no.0))) else {
            return true;
        };
        match slot.state {
            State::Succeeded => true,
            State::Skipped => step.continue_on.skipped,
            State::Failed => is_forgiven(step, slot),
            _ => false,
        }
    }

    /// Steps are left but none can ever start: they depend on one another. Job files with a circle are refused when
    /// they are read, so this only keeps a run made some other way from hanging.
    fn break_circle(&mut self, body: &Body) {
        for at in 0..self.slots.len() {
            let slot = &mut self.slots[at];
            if !slot.state.is_over() {
                slot.state = State::Failed;
                slot.message = Some("was never started: it depends on steps that wait for it".into());
                self.open -= 1;
                self.count(body, StepNo(at as u16));
            }
        }
    }

    fn line_up(&mut self, no: StepNo) {
        if self.is_step(no)
            && let Some(graph) = &mut self.graph
        {
            graph.push_ready(no);
        }
    }

    fn pop_ready(&mut self) -> Option<StepNo> {
        match &mut self.graph {
            Some(graph) => graph.pop_ready(),
            None => {
                let first = self.slots.first()?;
                matches!(first.state, State::Pending | State::Due).then_some(StepNo(0))
            }
        }
    }
}

/// Stopping and ending.
impl Progress {
    pub(crate) fn stop_steps(&mut self, body: &Body, now: Now, out: &mut Vec<Next>) {
        let why = self.stop.unwrap_or(StopWhy::Asked);
        if let Some(graph) = &mut self.graph {
            graph.clear_ready();
        }
        for (at, slot) in self.slots.iter_mut().enumerate() {
            match slot.state {
                State::Running if !slot.stopping => {
                    slot.stopping = true;
                    out.push(Next::Stop { step: StepNo(at as u16), attempt: slot.attempt });
                }
                State::Waiting | State::Due => {
                    slot.state = stopped_state(why, true);
                    slot.ended_at = now.wall.into();
                    let text = slot.message.take().unwrap_or_default();
                    slot.message =
                        Some(format!("{text}; no further attempt: {}", words::stop(why, body)).into());
                    self.open -= 1;
                }
                State::Pending => {
                    slot.state = State::Skipped;
                    slot.message = Some(format!("not started: {}", words::stop(why, body)).into());
                    self.open -= 1;
                }
                _ => {}
            }
        }
        self.waiting = 0;
    }

    fn stop_handlers(&mut self, body: &Body, why: StopWhy, now: Now, out: &mut Vec<Next>) {
        let first = self.slots.len();
        let Some(extra) = &mut self.extra else {
            return;
        };
        for (at, slot) in extra.handlers.iter_mut().enumerate() {
            match slot.state {
                State::Running if !slot.stopping => {
                    slot.stopping = true;
                    out.push(Next::Stop { step: StepNo((first + at) as u16), attempt: slot.attempt });
                }
                State::Waiting | State::Due => {
                    slot.state = State::Stopped;
                    slot.ended_at = now.wall.into();
                    slot.message = Some(words::stop(why, body));
                }
                _ => {}
            }
        }
    }

    /// The job's preconditions do not hold, and nothing was started.
    fn skip_run(&mut self, why: &str, out: &mut Vec<Next>) {
        for slot in &mut self.slots {
            if !slot.state.is_over() {
                slot.state = State::Skipped;
                slot.message = Some(why.into());
            }
        }
        self.open = 0;
        self.end(RunStatus::Skipped, Some(why.into()), out);
    }

    fn end(&mut self, status: RunStatus, message: Option<Box<str>>, out: &mut Vec<Next>) {
        self.phase = Phase::Ended;
        self.graph = None;
        out.push(Next::End { status, message });
    }

    /// The result of the steps, before the handlers.
    fn result(&self, body: &Body) -> RunStatus {
        match self.stop {
            Some(StopWhy::TimedOut) => RunStatus::Failed,
            Some(StopWhy::Asked | StopWhy::Schedule | StopWhy::Replaced) => RunStatus::Stopped,
            None if self.given_up.count > 0 => RunStatus::Lost,
            None if self.failed.count > 0 || self.slots.len() != body.steps.len() => RunStatus::Failed,
            None => RunStatus::Succeeded,
        }
    }

    /// The status and the words that the run ends with.
    fn ending(&self, body: &Body, result: RunStatus) -> (RunStatus, Option<Box<str>>) {
        let mut status = result;
        let mut message = match result {
            RunStatus::Lost => self.given_up.sentence(body, &self.slots),
            RunStatus::Failed if self.slots.len() != body.steps.len() => Some(format!(
                "the job has {} steps; at most {} are allowed",
                body.steps.len(),
                Body::STEPS_MAX
            )),
            RunStatus::Failed if self.failed.count > 0 && self.stop != Some(StopWhy::TimedOut) => {
                self.failed.sentence(body, &self.slots)
            }
            RunStatus::Succeeded if self.stop.is_none() => {
                let forgiven = self.forgiven.sentence(body, &self.slots);
                forgiven.map(|text| format!("{text}; continue_on let the run go on"))
            }
            _ => self.stop.map(|why| words::stop(why, body).into()),
        };
        for handler in handlers_of(result) {
            let (Some(step), Some(extra)) = (body.handlers.get(handler), &self.extra) else {
                continue;
            };
            let slot = &extra.handlers[handler as usize];
            let failed = slot.state == State::Failed && !is_forgiven(step, slot);
            if !failed && slot.state != State::Stopped {
                continue;
            }
            if status == RunStatus::Succeeded {
                status = if failed { RunStatus::Failed } else { RunStatus::Stopped };
            }
            let why = slot.message.as_deref().unwrap_or("failed");
            let colon = if failed { "" } else { ":" };
            let text = format!("handler {}{colon} {why}", handler.step_name());
            message = Some(match message {
                Some(before) => format!("{before}; {text}"),
                None => text,
            });
        }
        (status, message.map(Into::into))
    }
}

/// Looking up.
impl Progress {
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

/// The handlers that run behind a result, in order.
fn handlers_of(result: RunStatus) -> [Handler; 2] {
    let first = match result {
        RunStatus::Succeeded => Handler::Success,
        RunStatus::Stopped => Handler::Stop,
        _ => Handler::Failure,
    };
    [first, Handler::Exit]
}

/// Where a stop leaves a step: a run that passed its time limit has failed, and so has the step that was cut off.
fn stopped_state(why: StopWhy, is_step: bool) -> State {
    if is_step && why == StopWhy::TimedOut { State::Failed } else { State::Stopped }
}

/// Whether `continue_on` forgives a failed step.
pub(crate) fn is_forgiven(step: &Step, slot: &Slot) -> bool {
    step.continue_on.failure || slot.exit_code.is_some_and(|code| step.continue_on.exit_codes.contains(&code))
}

fn skip(slot: &mut Slot, by: StepNo, body: &Body) {
    slot.state = State::Skipped;
    let name = body.step(by).map_or("?", |step| &step.name);
    slot.message = Some(format!("step {name} did not succeed").into());
}
