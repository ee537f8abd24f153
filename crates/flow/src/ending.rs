use cadran_core::{Body, Handler, Now, RunStatus, StepNo};

use crate::advance::is_forgiven;
use crate::progress::{Next, Phase, Progress, StopWhy};
use crate::slot::State;
use crate::words;

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
                    slot.state = stopped_state(why);
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

    pub(crate) fn stop_handlers(&mut self, body: &Body, why: StopWhy, now: Now, out: &mut Vec<Next>) {
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
    pub(crate) fn skip_run(&mut self, why: &str, out: &mut Vec<Next>) {
        for slot in &mut self.slots {
            if !slot.state.is_over() {
                slot.state = State::Skipped;
                slot.message = Some(why.into());
            }
        }
        self.open = 0;
        self.end(RunStatus::Skipped, Some(why.into()), out);
    }

    pub(crate) fn end(&mut self, status: RunStatus, message: Option<Box<str>>, out: &mut Vec<Next>) {
        self.phase = Phase::Ended;
        self.graph = None;
        out.push(Next::End { status, message });
    }

    /// The result of the steps, before the handlers.
    pub(crate) fn result(&self, body: &Body) -> RunStatus {
        match self.stop {
            Some(StopWhy::TimedOut) => RunStatus::Failed,
            Some(StopWhy::Asked | StopWhy::Schedule | StopWhy::Replaced) => RunStatus::Stopped,
            None if self.given_up.count > 0 => RunStatus::Lost,
            None if self.failed.count > 0 || self.slots.len() != body.steps.len() => RunStatus::Failed,
            // Where nothing succeeded, nothing succeeded in part.
            None if self.is_partial(body)
                && !self.slots.iter().any(|slot| slot.state == State::Succeeded) =>
            {
                RunStatus::Failed
            }
            None => RunStatus::Succeeded,
        }
    }

    /// Whether the job wants forgiven failures to be seen in its status, and there are some.
    pub(crate) fn is_partial(&self, body: &Body) -> bool {
        body.partial_success && self.forgiven.count > 0
    }

    /// The status and the words that the run ends with.
    pub(crate) fn ending(&self, body: &Body, result: RunStatus) -> (RunStatus, Option<Box<str>>) {
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
            RunStatus::Succeeded | RunStatus::Failed if self.is_partial(body) && self.stop.is_none() => {
                let forgiven = self.forgiven.sentence(body, &self.slots);
                forgiven.map(|text| format!("{text}; continue_on let the run go on"))
            }
            RunStatus::Succeeded => {
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
        if status == RunStatus::Succeeded && self.is_partial(body) {
            status = RunStatus::PartiallySucceeded;
        }
        (status, message.map(Into::into))
    }
}

/// The handlers that run behind a result, in order.
pub(crate) fn handlers_of(result: RunStatus) -> [Handler; 2] {
    let first = match result {
        RunStatus::Succeeded => Handler::Success,
        RunStatus::Stopped => Handler::Stop,
        _ => Handler::Failure,
    };
    [first, Handler::Exit]
}

/// Where a stop leaves a step: a run that passed its time limit has failed, and so has the step that was cut off.
pub(crate) fn stopped_state(why: StopWhy) -> State {
    match why {
        StopWhy::TimedOut => State::Failed,
        StopWhy::Asked | StopWhy::Schedule | StopWhy::Replaced => State::Stopped,
    }
}
