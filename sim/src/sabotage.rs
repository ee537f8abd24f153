//! Mistakes that are made around the engine on purpose, so that the simulation can show that it finds them.
//!
//! Mistakes inside the deciding crates are patches (`sim/planted`). These stand here alone: what goes to the engine and
//! what comes out of it is changed on its way, as a reader, a recorder, a store or an executor with a bug would change
//! it. Nothing of the product knows of them, and they are always compiled in, so that looking for them costs no build.

use std::sync::Arc;

use cadran_core::{Batch, Dst, Found, Handler, Job, JobId, Order, RunId, ScheduleEntry};
use std::collections::BTreeSet;

/// Ten minutes.
const AHEAD_MS: i64 = 600_000;

/// A mistake that can be switched on for a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// A fixed time inside a gap of the clock is left out: a wrong rule for daylight saving time.
    GapDropped,
    /// Readings inside a fold run in both passes, whatever the job says.
    FoldDoubled,
    /// A step is tried once more than its file says.
    RetryOnceMore,
    /// Steps do not wait for those that they depend on.
    DependsForgotten,
    /// Any number of steps is on at once.
    StepsUnlimited,
    /// The handler for every exit is forgotten.
    ExitHandlerForgotten,
    /// A new job counts from ten minutes ahead.
    NewWatermarkAhead,
    /// The recorder answers before the commit.
    AnswerBeforeCommit,
    /// The recorder gives up a batch while the store is away, and says that it is durable.
    BatchDropped,
    /// The store loses the last promise of a batch.
    PromiseUnwritten,
    /// The recorder does not say which promises were refused.
    RefusalUnsaid,
    /// Children are not made durable with the success of their parent.
    ChildUnwritten,
    /// After a restart log numbers begin anew.
    LogNumberReused,
    /// The ledger of executors loses what is on, at a restart.
    LedgerLost,
    /// The ledger of executors says that ended attempts are on.
    EndUnsaid,
    /// Steps do not get what those before them printed.
    OutputDropped,
}

impl Sabotage {
    /// Every mistake with its name on a command line.
    pub const ALL: &'static [(Sabotage, &'static str)] = &[
        (Sabotage::GapDropped, "gap-dropped"),
        (Sabotage::FoldDoubled, "fold-doubled"),
        (Sabotage::RetryOnceMore, "retry-once-more"),
        (Sabotage::DependsForgotten, "depends-forgotten"),
        (Sabotage::StepsUnlimited, "steps-unlimited"),
        (Sabotage::ExitHandlerForgotten, "exit-handler-forgotten"),
        (Sabotage::NewWatermarkAhead, "new-watermark-ahead"),
        (Sabotage::AnswerBeforeCommit, "answer-before-commit"),
        (Sabotage::BatchDropped, "batch-dropped"),
        (Sabotage::PromiseUnwritten, "promise-unwritten"),
        (Sabotage::RefusalUnsaid, "refusal-unsaid"),
        (Sabotage::ChildUnwritten, "child-unwritten"),
        (Sabotage::LogNumberReused, "log-number-reused"),
        (Sabotage::LedgerLost, "ledger-lost"),
        (Sabotage::EndUnsaid, "end-unsaid"),
        (Sabotage::OutputDropped, "output-dropped"),
    ];

    /// The job that the engine is given in place of what its file says.
    pub(crate) fn job(self, job: &Job) -> Job {
        let mut job = job.clone();
        let body = Arc::make_mut(&mut job.body);
        match self {
            Sabotage::GapDropped | Sabotage::FoldDoubled => {
                let wrong = |entry: &ScheduleEntry| {
                    let dst = match (self, entry.schedule.dst()) {
                        (Sabotage::GapDropped, Dst::Auto | Dst::Shift) => Dst::Skip,
                        (Sabotage::FoldDoubled, _) => Dst::Both,
                        (_, other) => other,
                    };
                    let schedule = Arc::new((*entry.schedule).clone().with_dst(dst));
                    ScheduleEntry { schedule, action: entry.action }
                };
                job.schedules = job.schedules.iter().map(wrong).collect();
            }
            Sabotage::RetryOnceMore => body.steps.iter_mut().for_each(|step| step.retry.limit += 1),
            Sabotage::DependsForgotten => body.steps.iter_mut().for_each(|step| step.depends.clear()),
            Sabotage::StepsUnlimited => body.max_active_steps = 0,
            Sabotage::ExitHandlerForgotten => body.handlers.steps[Handler::Exit as usize] = None,
            _ => {}
        }
        job
    }

    /// The batch that the store is given. `known` are the jobs that it has heard of.
    pub(crate) fn batch(self, batch: &mut Batch, known: &mut BTreeSet<JobId>) {
        match self {
            Sabotage::NewWatermarkAhead => {
                for put in batch.jobs.iter().filter(|put| known.insert(put.job)) {
                    for state in batch.states.iter_mut().filter(|state| state.job == put.job) {
                        state.watermark = state.watermark.map(|at| at + AHEAD_MS);
                    }
                }
            }
            Sabotage::PromiseUnwritten if batch.promised.len() > 2 => drop(batch.promised.pop()),
            Sabotage::ChildUnwritten => batch.promised.retain(|promise| promise.parent.is_none()),
            _ => {}
        }
    }

    /// The order that an executor gets.
    pub(crate) fn order(self, order: Order) -> Order {
        match order {
            Order::Start(mut start) if self == Sabotage::OutputDropped => {
                start.outputs = Arc::default();
                Order::Start(start)
            }
            other => other,
        }
    }

    /// What a new server hears of attempts.
    pub(crate) fn found(self, mut found: Vec<Found>) -> Vec<Found> {
        match self {
            Sabotage::LedgerLost => found.retain(|attempt| !attempt.lives),
            Sabotage::EndUnsaid => {
                for attempt in found.iter_mut().filter(|attempt| !attempt.seats.is_empty()) {
                    (attempt.ended, attempt.lives) = (None, true);
                }
            }
            _ => {}
        }
        found
    }

    /// What the engine hears of refusals.
    pub(crate) fn refused(self, refused: Vec<RunId>) -> Vec<RunId> {
        if self == Sabotage::RefusalUnsaid { Vec::new() } else { refused }
    }
}
