use cadran_core::{Body, Millis, Now, Outcome, Step, StepNo};
use smallvec::SmallVec;

use crate::ending::{handlers_of, stopped_state};
use crate::graph::{Graph, Released};
use crate::progress::{AttemptEnd, Next, Phase, Progress};
use crate::slot::{LOST_MAX, Slot, State};
use crate::tally::Tally;
use crate::{retry, words};

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
                self.break_circle();
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
        let why = self.stop_of(no);
        let first = !self.begun && is_step && self.live == 0 && self.stop.is_none();
        let Some(slot) = self.slot_mut(no) else {
            return;
        };
        slot.ended_at = at.into();
        slot.exit_code = match outcome {
            Outcome::Exited(code) | Outcome::Reported(code, _) => Some(*code),
            _ => None,
        };
        // Made only where it is kept: a success needs no words.
        let text = || words::outcome(outcome, step);
        match outcome {
            Outcome::Exited(0) => {
                slot.message = None;
                self.settle(body, no, State::Succeeded, output);
            }
            Outcome::JobPreconditionUnmet(_) if first => self.skip_run(&text(), out),
            Outcome::PreconditionUnmet(_) | Outcome::JobPreconditionUnmet(_) => {
                slot.message = Some(text().into());
                self.settle(body, no, State::Skipped, None);
            }
            _ if slot.stopping => {
                slot.message = Some(words::stopped_step(why, body));
                self.settle(body, no, stopped_state(why), output);
            }
            Outcome::Lost => {
                slot.lost += 1;
                if at_most_once || slot.lost >= LOST_MAX {
                    slot.given_up = true;
                    slot.message = Some(words::given_up(slot.lost, at_most_once));
                    self.settle(body, no, State::Failed, output);
                } else {
                    slot.state = State::Due;
                    slot.message = Some(text().into());
                    self.line_up(no);
                }
            }
            _ => {
                slot.failures = slot.failures.saturating_add(1);
                if !retry::is_allowed(&step.retry, outcome, slot.failures) {
                    slot.message = Some(words::after_attempts(text(), slot.attempt));
                    self.settle(body, no, State::Failed, output);
                    return;
                }
                slot.message = Some(text().into());
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
        let cut_short = is_step && self.stop.is_some();
        let Some(slot) = self.slot_mut(no) else {
            return;
        };
        slot.state = state;
        if state == State::Failed && !cut_short && step.continue_on.mark_success && is_forgiven(step, slot) {
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
    fn break_circle(&mut self) {
        for at in 0..self.slots.len() {
            let slot = &mut self.slots[at];
            if !slot.state.is_over() {
                slot.state = State::Failed;
                slot.message = Some("was never started: it depends on steps that wait for it".into());
                self.open -= 1;
                self.failed.add(StepNo(at as u16));
            }
        }
    }

    pub(crate) fn line_up(&mut self, no: StepNo) {
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

/// Whether `continue_on` forgives a failed step.
pub(crate) fn is_forgiven(step: &Step, slot: &Slot) -> bool {
    step.continue_on.failure || slot.exit_code.is_some_and(|code| step.continue_on.exit_codes.contains(&code))
}

fn skip(slot: &mut Slot, by: StepNo, body: &Body) {
    slot.state = State::Skipped;
    let name = body.step(by).map_or("?", |step| &step.name);
    slot.message = Some(format!("step {name} did not succeed").into());
}
