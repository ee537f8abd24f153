//! Random graphs, outcomes, stops and crashes, against what must hold whatever happens.

use std::collections::{BTreeMap, BTreeSet};

use cadran_core::{
    Body, ContinueOn, Found, Handler, Now, Outcome, Precondition, Report, ReportKind, Retry, RunId,
    RunStatus, Step, StepNo, StepStatus,
};
use cadran_flow::{Accepted, LOST_MAX, Next, Progress, Resume, StopWhy};
use proptest::prelude::*;

/// A run must be over after this many events; each attempt takes three, and attempts are bounded by the bodies below.
const EVENTS_MAX: usize = 4000;

#[derive(Clone, Debug)]
struct Case {
    body: Body,
    at_most_once: bool,
    /// How each attempt of each step ends, by (step, attempt), taken around.
    outcomes: Vec<Outcome>,
    /// Which of the possible events comes next, and how.
    choices: Vec<u8>,
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        6 => Just(Outcome::Exited(0)),
        2 => (1..4).prop_map(Outcome::Exited),
        1 => Just(Outcome::Signaled(9)),
        1 => Just(Outcome::TimedOut),
        1 => Just(Outcome::NotStarted("no".into())),
        1 => Just(Outcome::PreconditionUnmet("no".into())),
        1 => Just(Outcome::JobPreconditionUnmet("no".into())),
        1 => Just(Outcome::Lost),
        1 => Just(Outcome::Stopped),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    let retry = (0..3u32, prop_oneof![Just(0i64), 1..500i64], prop::collection::vec(1..4, 0..2)).prop_map(
        |(limit, interval_ms, exit_codes)| Retry {
            limit,
            interval_ms,
            backoff: 2.0,
            interval_ms_max: 800,
            exit_codes,
        },
    );
    let continue_on = (any::<bool>(), any::<bool>(), prop::collection::vec(1..4, 0..2), any::<bool>())
        .prop_map(|(failure, skipped, exit_codes, mark_success)| ContinueOn {
            failure,
            skipped,
            exit_codes,
            mark_success,
        });
    (retry, continue_on, any::<bool>()).prop_map(|(retry, continue_on, output)| Step {
        retry,
        continue_on,
        output: output.then(|| "OUT".into()),
        ..Step::default()
    })
}

fn any_body() -> impl Strategy<Value = Body> {
    let steps = prop::collection::vec((any_step(), prop::collection::vec(any::<u8>(), 0..4)), 1..12);
    let handlers = prop::collection::vec(prop::option::of(any_step()), 4);
    (steps, handlers, 0..4u16, any::<bool>()).prop_map(|(steps, handlers, max_active_steps, gate)| {
        let number = |(at, (mut step, depends)): (usize, (Step, Vec<u8>))| {
            step.name = format!("s{at}");
            // Only steps before it, so that the graph has no circle.
            step.depends =
                depends.iter().filter(|_| at > 0).map(|on| StepNo(u16::from(*on) % at as u16)).collect();
            step
        };
        let mut body = Body {
            steps: steps.into_iter().enumerate().map(number).collect(),
            max_active_steps,
            ..Body::default()
        };
        for (slot, step) in body.handlers.steps.iter_mut().zip(handlers) {
            *slot = step.map(Box::new);
        }
        if gate {
            body.preconditions.push(Precondition { condition: "true".into(), expected: None, negate: false });
        }
        body
    })
}

fn any_case() -> impl Strategy<Value = Case> {
    let outcomes = prop::collection::vec(any_outcome(), 1..40);
    (any_body(), any::<bool>(), outcomes, prop::collection::vec(any::<u8>(), 64..256))
        .prop_map(|(body, at_most_once, outcomes, choices)| Case { body, at_most_once, outcomes, choices })
}

/// What may go wrong in a play besides the outcomes.
#[derive(Clone, Copy, Default)]
struct Faults {
    stop: bool,
    crash: bool,
    stale: bool,
}

/// A world around one progress: executors that do as they are told, and a checker of what they are told.
struct World<'a> {
    case: &'a Case,
    progress: Progress,
    now: i64,
    live: BTreeSet<(u16, u32)>,
    started: BTreeMap<u16, u32>,
    timers: BTreeMap<u16, i64>,
    end: Option<(RunStatus, Option<Box<str>>)>,
    history: Vec<Next>,
    stopped: bool,
    at: usize,
}

impl<'a> World<'a> {
    fn new(case: &'a Case) -> World<'a> {
        let mut out = Vec::new();
        let progress = Progress::begin(&case.body, case.at_most_once, &mut out);
        let mut world = World {
            case,
            progress,
            now: 0,
            live: BTreeSet::new(),
            started: BTreeMap::new(),
            timers: BTreeMap::new(),
            end: None,
            history: Vec::new(),
            stopped: false,
            at: 0,
        };
        world.obey(out);
        world
    }

    fn choice(&mut self, below: usize) -> usize {
        let choice = self.case.choices[self.at % self.case.choices.len()];
        self.at += 1;
        // The list is taken around; add the round so that a short list does not repeat one event forever.
        (usize::from(choice) + self.at / self.case.choices.len()) % below
    }

    fn outcome(&self, step: u16, attempt: u32) -> Outcome {
        let at = usize::from(step) * 7 + attempt as usize;
        self.case.outcomes[at % self.case.outcomes.len()].clone()
    }

    fn obey(&mut self, out: Vec<Next>) {
        let steps = self.case.body.steps.len() as u16;
        for next in out {
            assert!(self.end.is_none(), "{next:?} behind the end");
            match &next {
                Next::Start { step, attempt } => {
                    assert!(!self.live.iter().any(|(live, _)| *live == step.0), "two attempts of {step:?}");
                    let before = self.started.insert(step.0, *attempt).unwrap_or(0);
                    assert!(*attempt > before, "attempt {attempt} of {step:?} behind {before}");
                    self.live.insert((step.0, *attempt));
                    if step.0 < steps {
                        assert!(!self.stopped, "{step:?} started behind a stop");
                        self.check_dependencies(*step);
                    } else {
                        assert_eq!(self.live.len(), 1, "a handler runs alone");
                    }
                }
                Next::RetryAt { step, at_mono } => {
                    assert!(*at_mono > self.now);
                    assert!(self.timers.insert(step.0, *at_mono).is_none(), "two waits of {step:?}");
                }
                Next::Stop { step, attempt } => assert!(self.live.contains(&(step.0, *attempt))),
                Next::End { status, message } => {
                    assert!(self.live.is_empty(), "ended with attempts on");
                    assert!(status.is_ended());
                    self.end = Some((*status, message.clone()));
                }
            }
            self.history.push(next);
        }
        let places = match self.case.body.max_active_steps {
            0 => usize::MAX,
            places => usize::from(places),
        };
        assert!(self.live.len() <= places, "{:?} live", self.live);
        assert_eq!(self.progress.is_ended(), self.end.is_some());
        let live: BTreeSet<(u16, u32)> = self.progress.live().map(|(no, attempt)| (no.0, attempt)).collect();
        assert_eq!(live, self.live);
    }

    fn check_dependencies(&self, no: StepNo) {
        let records = self.progress.records(&self.case.body);
        for on in &self.case.body.steps[usize::from(no.0)].depends {
            let (record, step) = (&records[usize::from(on.0)], &self.case.body.steps[usize::from(on.0)]);
            let lets = match record.status {
                StepStatus::Succeeded => true,
                StepStatus::Skipped => step.continue_on.skipped,
                StepStatus::Failed => forgiven(step, record.exit_code),
                _ => false,
            };
            assert!(lets, "{no:?} started behind {record:?}");
        }
    }

    fn clock(&self) -> Now {
        Now { wall: 1_000_000 + self.now, mono: self.now }
    }

    fn report(&mut self, step: u16, attempt: u32, kind: ReportKind) -> Accepted {
        let report =
            Report { run: RunId::from_raw(1), step: StepNo(step), attempt, at: self.clock().wall, kind };
        let mut out = Vec::new();
        if let ReportKind::Ended { .. } = report.kind {
            self.live.remove(&(step, attempt));
        }
        let accepted = self.progress.report(&self.case.body, &report, self.clock(), &mut out);
        self.obey(out);
        accepted
    }

    fn end_attempt(&mut self, step: u16, attempt: u32) {
        let outcome = self.outcome(step, attempt);
        if self.choice(2) == 0 && !matches!(outcome, Outcome::JobPreconditionUnmet(_)) {
            assert_eq!(self.report(step, attempt, ReportKind::Started), Accepted::Yes);
        }
        let output = Some(format!("{step}.{attempt}").into());
        assert_eq!(self.report(step, attempt, ReportKind::Ended { outcome, output }), Accepted::Yes);
    }

    fn pass_timer(&mut self, step: u16) {
        let at = self.timers.remove(&step).unwrap_or(self.now);
        self.now = self.now.max(at);
        let mut out = Vec::new();
        self.progress.retry_due(&self.case.body, StepNo(step), &mut out);
        self.obey(out);
    }

    fn say_stale_things(&mut self) {
        let before = format!("{:?}", self.progress.records(&self.case.body));
        let highest = self.case.body.steps.len() as u16 + Handler::ALL.len() as u16;
        for step in 0..=highest {
            let attempt = self.started.get(&step).copied().unwrap_or(0);
            let live = self.live.contains(&(step, attempt));
            for old in (0..attempt + 2).filter(|old| !live || *old != attempt) {
                let kind = ReportKind::Ended { outcome: Outcome::Exited(0), output: Some("old".into()) };
                assert_ne!(self.report(step, old, kind), Accepted::Yes, "{step}.{old}");
                assert_ne!(self.report(step, old, ReportKind::Started), Accepted::Yes, "{step}.{old}");
            }
        }
        assert_eq!(before, format!("{:?}", self.progress.records(&self.case.body)));
    }

    fn stop(&mut self) {
        let why = [StopWhy::Asked, StopWhy::Schedule, StopWhy::Replaced, StopWhy::TimedOut][self.choice(4)];
        let mut out = Vec::new();
        self.stopped = true;
        self.progress.stop(&self.case.body, why, self.clock(), &mut out);
        self.timers.retain(|no, _| usize::from(*no) >= self.case.body.steps.len());
        self.obey(out);
    }

    /// The server dies and comes back. Some attempts ended meanwhile, some were cut off, some nobody remembers.
    fn crash(&mut self) {
        let mut found = Vec::new();
        for (step, attempt) in std::mem::take(&mut self.live) {
            let fate = self.choice(3);
            if fate == 0 {
                continue;
            }
            found.push(Found {
                run: RunId::from_raw(1),
                step: StepNo(step),
                attempt,
                started_at: self.clock().wall,
                ended: (fate == 1).then(|| (self.clock().wall, self.outcome(step, attempt))),
                output: None,
                lives: false,
                seats: Vec::new(),
            });
        }
        self.timers.clear();
        self.now += self.choice(400) as i64;
        let records = self.progress.records(&self.case.body);
        let mut out = Vec::new();
        let (body, once) = (&self.case.body, self.case.at_most_once);
        self.progress =
            Progress::resume(body, &records, &found, Resume::Recover, once, self.clock(), &mut out);
        self.obey(out);
    }

    /// Lets things happen until the run is over.
    fn play(&mut self, faults: Faults) {
        for _ in 0..EVENTS_MAX {
            if self.end.is_some() {
                return;
            }
            let fault = self.choice(16);
            match fault {
                0 if faults.stop => self.stop(),
                1 if faults.crash => self.crash(),
                2 if faults.stale => self.say_stale_things(),
                _ => {}
            }
            let possible = self.live.len() + self.timers.len();
            if possible == 0 {
                assert!(self.end.is_some(), "nothing can happen, and the run is not over");
                return;
            }
            let which = self.choice(possible);
            match self.live.iter().nth(which).copied() {
                Some((step, attempt)) => self.end_attempt(step, attempt),
                None => {
                    let step = *self.timers.keys().nth(which - self.live.len()).unwrap();
                    self.pass_timer(step);
                }
            }
        }
        panic!("the run is not over after {EVENTS_MAX} events");
    }

    fn check_over(&self) {
        let records = self.progress.records(&self.case.body);
        for record in &records {
            let is_handler = Handler::ALL.iter().any(|handler| handler.step_name() == &*record.name);
            assert!(record.status.is_ended() || is_handler, "{record:?}");
            assert!(record.lost <= LOST_MAX, "{record:?}");
        }
        let ends = self.history.iter().filter(|next| matches!(next, Next::End { .. })).count();
        assert_eq!(ends, 1);
    }
}

fn forgiven(step: &Step, exit_code: Option<i32>) -> bool {
    step.continue_on.failure || exit_code.is_some_and(|code| step.continue_on.exit_codes.contains(&code))
}

/// How a step must end, told without any of the crate's machinery: by looking at its dependencies and then playing
/// its attempts one by one.
fn expected(case: &Case, world: &World<'_>) -> Vec<StepStatus> {
    let mut statuses: Vec<StepStatus> = Vec::new();
    let mut codes: Vec<Option<i32>> = Vec::new();
    for (at, step) in case.body.steps.iter().enumerate() {
        let lets = |on: &StepNo| {
            let on = usize::from(on.0);
            match statuses[on] {
                StepStatus::Succeeded => true,
                StepStatus::Skipped => case.body.steps[on].continue_on.skipped,
                _ => forgiven(&case.body.steps[on], codes[on]),
            }
        };
        if !step.depends.iter().all(lets) {
            statuses.push(StepStatus::Skipped);
            codes.push(None);
            continue;
        }
        let (mut failures, mut lost, mut attempt) = (0, 0, 1);
        let (status, code) = loop {
            let outcome = world.outcome(at as u16, attempt);
            let retries = failures < step.retry.limit;
            match outcome {
                Outcome::Exited(0) => break (StepStatus::Succeeded, Some(0)),
                Outcome::PreconditionUnmet(_) | Outcome::JobPreconditionUnmet(_) => {
                    break (StepStatus::Skipped, None);
                }
                Outcome::Lost if !case.at_most_once && lost + 1 < LOST_MAX => lost += 1,
                Outcome::Lost => break (StepStatus::Failed, None),
                Outcome::Exited(code) => {
                    let fits = step.retry.exit_codes.is_empty() || step.retry.exit_codes.contains(&code);
                    if !(fits && retries) {
                        break (StepStatus::Failed, Some(code));
                    }
                    failures += 1;
                }
                _ if retries && step.retry.exit_codes.is_empty() => failures += 1,
                _ => break (StepStatus::Failed, None),
            }
            attempt += 1;
        };
        let marked = status == StepStatus::Failed && step.continue_on.mark_success && forgiven(step, code);
        statuses.push(if marked { StepStatus::Succeeded } else { status });
        codes.push(code);
    }
    statuses
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens, the run ends, once, and the rules hold on the way there (the world checks each answer).
    #[test]
    fn every_run_ends(case in any_case()) {
        let mut world = World::new(&case);
        world.play(Faults { stop: true, crash: true, stale: true });
        world.check_over();
    }

    /// Without stops and crashes a step's end follows from its dependencies and its outcomes alone, in whatever
    /// order they arrive and however few steps may run at once.
    #[test]
    fn steps_end_as_told_beforehand(case in any_case()) {
        let mut world = World::new(&case);
        world.play(Faults { stale: true, ..Faults::default() });
        world.check_over();
        let (status, _) = world.end.clone().unwrap();
        prop_assume!(status != RunStatus::Skipped);
        let records = world.progress.records(&case.body);
        let statuses: Vec<StepStatus> = records[..case.body.steps.len()].iter().map(|record| record.status).collect();
        prop_assert_eq!(&statuses, &expected(&case, &world));
        let unforgiven = case.body.steps.iter().zip(&records).any(|(step, record)| {
            record.status == StepStatus::Failed && !forgiven(step, record.exit_code)
        });
        let handler_failed = records[case.body.steps.len()..].iter().any(|record| record.status == StepStatus::Failed);
        if unforgiven {
            prop_assert!(matches!(status, RunStatus::Failed | RunStatus::Lost), "{status:?}");
        } else if !handler_failed {
            prop_assert_eq!(status, RunStatus::Succeeded);
        }
    }

    /// The same calls give the same answers.
    #[test]
    fn plays_repeat(case in any_case()) {
        let faults = Faults { stop: true, crash: true, stale: false };
        let mut worlds = [World::new(&case), World::new(&case)];
        worlds.iter_mut().for_each(|world| world.play(faults));
        prop_assert_eq!(&worlds[0].history, &worlds[1].history);
        let records = worlds.each_ref().map(|world| world.progress.records(&case.body));
        prop_assert_eq!(&records[0], &records[1]);
    }

    /// A retry of an ended run keeps what succeeded, runs the rest under higher attempts, and ends too.
    #[test]
    fn retried_runs_end(case in any_case()) {
        let mut world = World::new(&case);
        world.play(Faults { stop: true, ..Faults::default() });
        let before = world.progress.records(&case.body);
        let outputs = world.progress.outputs();
        let mut out = Vec::new();
        world.end = None;
        world.stopped = false;
        world.timers.clear();
        world.history.clear();
        world.progress = Progress::resume(
            &case.body, &before, &[], Resume::Retry, case.at_most_once, world.clock(), &mut out,
        );
        let kept = world.progress.outputs();
        prop_assert!(kept.iter().all(|output| outputs.contains(output)));
        for next in &out {
            if let Next::Start { step, .. } = next && usize::from(step.0) < case.body.steps.len() {
                prop_assert_ne!(before[usize::from(step.0)].status, StepStatus::Succeeded);
            }
        }
        world.obey(out);
        world.play(Faults::default());
        world.check_over();
        let after = world.progress.records(&case.body);
        for (before, after) in before.iter().zip(&after[..case.body.steps.len()]) {
            if before.status == StepStatus::Succeeded {
                prop_assert_eq!(before, after);
            }
        }
    }
}

#[test]
fn a_run_of_one_step_is_small() {
    assert!(size_of::<Progress>() <= 128, "{} bytes", size_of::<Progress>());
}

/// The longest chain and the widest fan a body may hold: neither deep recursion nor a wrong count.
#[test]
fn the_largest_bodies_run() {
    let ended = |outcome| ReportKind::Ended { outcome, output: None };
    let report = |step, outcome| Report {
        run: RunId::from_raw(1),
        step: StepNo(step),
        attempt: 1,
        at: 0,
        kind: ended(outcome),
    };
    let body = |depends: fn(u16) -> Vec<StepNo>| Body {
        steps: (0..Body::STEPS_MAX as u16)
            .map(|at| Step { name: format!("s{at}"), depends: depends(at), ..Step::default() })
            .collect(),
        ..Body::default()
    };
    let chain = body(|at| at.checked_sub(1).map(StepNo).into_iter().collect());
    let fan = body(|at| (at > 0).then_some(StepNo(0)).into_iter().collect());
    for body in [&chain, &fan] {
        let mut out = Vec::new();
        let mut progress = Progress::begin(body, false, &mut out);
        progress.report(body, &report(0, Outcome::Exited(1)), Now::at(0), &mut out);
        let failed = RunStatus::Failed;
        assert!(
            matches!(out.last(), Some(Next::End { status, .. }) if *status == failed),
            "{:?}",
            out.last()
        );

        out.clear();
        let mut progress = Progress::begin(body, false, &mut out);
        let mut done = 0;
        while let Some(Next::Start { step, .. }) = out.get(done).cloned() {
            progress.report(body, &report(step.0, Outcome::Exited(0)), Now::at(0), &mut out);
            done += 1;
        }
        assert_eq!(done, Body::STEPS_MAX);
        assert!(progress.is_ended());
    }

    let mut beyond = fan.clone();
    beyond.steps.push(Step::default());
    let mut out = Vec::new();
    let progress = Progress::begin(&beyond, false, &mut out);
    assert!(progress.is_ended());
    let message = Some("the job has 10001 steps; at most 10000 are allowed".into());
    assert_eq!(out, [Next::End { status: RunStatus::Failed, message }]);
}
