//! Laws about the steps of one run, judged by what executors are told and what they answered.

use std::sync::Arc;

use cadran_core::{Body, Handler, Outcome, RunId, RunStatus, Start, StepNo, StepRecord};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::law::{Violation, broken};

/// What is known of the runs that have attempts.
#[derive(Default)]
pub(crate) struct StepLaw {
    runs: FxHashMap<RunId, Known>,
}

struct Known {
    body: Arc<Body>,
    /// Failures of each step since the run was opened.
    failures: FxHashMap<StepNo, u32>,
    began: FxHashSet<StepNo>,
    /// Somebody opened it again by hand.
    reopened: bool,
    /// What steps printed, under which name.
    printed: Vec<(String, Box<str>)>,
    /// What the latest end of a step left behind, for those that end well and print.
    owed: FxHashMap<StepNo, String>,
}

impl Known {
    fn of(body: &Arc<Body>) -> Known {
        Known {
            body: body.clone(),
            failures: FxHashMap::default(),
            began: FxHashSet::default(),
            reopened: false,
            printed: Vec::new(),
            owed: FxHashMap::default(),
        }
    }
}

impl StepLaw {
    /// What is on record as started under `retry: never` has begun: its order may have been lost with the server, and is
    /// not given a second time.
    pub(crate) fn recorded(&mut self, run: RunId, body: &Arc<Body>, row: &[StepRecord]) {
        let known = self.runs.entry(run).or_insert_with(|| Known::of(body));
        let steps = body.steps.iter().zip(row).enumerate();
        let tried = steps.filter(|(_, (step, record))| *step.name == *record.name && record.attempt > 0);
        known.began.extend(tried.map(|(at, _)| StepNo(at as u16)));
    }

    /// An attempt is ordered. `body` is what the job's file says, `live` are the steps of its run that are on.
    pub(crate) fn start(
        &mut self,
        start: &Start,
        body: &Arc<Body>,
        live: &[StepNo],
    ) -> Result<(), Violation> {
        let known = self.runs.entry(start.run).or_insert_with(|| Known::of(body));
        let what =
            |no: StepNo| format!("{} {:?} attempt {}, about {no:?}", start.run, start.step, start.attempt);
        let Some(step) = body.step(start.step) else {
            return broken("an order is for a step of its job", what(start.step));
        };
        let failures = known.failures.get(&start.step).copied().unwrap_or_default();
        if failures > step.retry.limit {
            return broken(
                "no step is tried more often than its retry says",
                format!("{}: {failures} failures, limit {}", what(start.step), step.retry.limit),
            );
        }
        for dep in &step.depends {
            let begun = known.began.contains(dep);
            // A step that calls a job gets no order.
            let is_ordered = |dep: &cadran_core::Step| !matches!(dep.work, cadran_core::Work::Job(_));
            let root = body.step(*dep).is_some_and(|dep| dep.depends.is_empty() && is_ordered(dep));
            if live.contains(dep) || root && !begun {
                return broken("a step starts when what it depends on is over", what(*dep));
            }
            if let Some(name) = known.owed.get(dep)
                && !start.outputs.iter().any(|(given, value)| {
                    **given == **name && known.printed.iter().any(|(at, text)| at == name && text == value)
                })
            {
                return broken(
                    "a step sees what those before it printed",
                    format!("{}: no {name} of {:?}", what(*dep), start.outputs),
                );
            }
        }
        let is_step = |no: &&StepNo| usize::from(no.0) < body.steps.len();
        let beside = live.iter().filter(is_step).count();
        if is_step(&&start.step) && body.max_active_steps > 0 && beside >= usize::from(body.max_active_steps)
        {
            return broken(
                "no more steps are on than max_active_steps",
                format!("{}: {beside} are on, allowed are {}", what(start.step), body.max_active_steps),
            );
        }
        known.began.insert(start.step);
        Ok(())
    }

    /// An attempt is over.
    pub(crate) fn end(&mut self, run: RunId, no: StepNo, outcome: &Outcome, output: Option<&str>) {
        let Some(known) = self.runs.get_mut(&run) else { return };
        match outcome {
            Outcome::Exited(0) => {
                let name = known.body.step(no).and_then(|step| step.output.clone());
                if let (Some(name), Some(text)) = (name, output) {
                    known.printed.push((name.clone(), text.into()));
                    known.owed.insert(no, name);
                }
            }
            Outcome::Exited(_) | Outcome::Signaled(_) | Outcome::TimedOut | Outcome::NotStarted(_) => {
                *known.failures.entry(no).or_default() += 1;
            }
            _ => {}
        }
    }

    /// Somebody opens a run again: its steps may fail as often as before.
    pub(crate) fn reopened(&mut self, run: RunId) {
        if let Some(known) = self.runs.get_mut(&run) {
            known.failures.clear();
            known.reopened = true;
        }
    }

    /// The server died. An attempt that was asked for by hand, and whose start was not on record yet, may be made again.
    pub(crate) fn died(&mut self) {
        self.runs.values_mut().filter(|known| known.reopened).for_each(|known| known.failures.clear());
    }

    /// A run has come to its end. `forgets` says that nobody opens it again. `tried` says whether a step is on record as
    /// started under `retry: never`: its order may have been lost with the server, and is not given a second time.
    pub(crate) fn ended(
        &mut self,
        run: RunId,
        status: RunStatus,
        forgets: bool,
        tried: impl Fn(&str) -> bool,
    ) -> Result<(), Violation> {
        let Some(known) = self.runs.get_mut(&run) else { return Ok(()) };
        let exit = known.body.handler_no(Handler::Exit);
        let has_exit = known
            .body
            .handlers
            .get(Handler::Exit)
            .is_some_and(|step| !matches!(step.work, cadran_core::Work::Job(_)));
        if has_exit
            && matches!(status, RunStatus::Succeeded | RunStatus::Failed)
            && !known.began.contains(&exit)
            && !tried(Handler::Exit.step_name())
        {
            return broken(
                "a run that ends has run its exit handler",
                format!("{run} is {}, and its exit handler never began", status.word()),
            );
        }
        // What began stays known: a run whose end was not durable ends once more after a restart.
        known.failures.clear();
        if forgets {
            self.runs.remove(&run);
        }
        Ok(())
    }
}
