//! Children: they are run by a success of their parent, in the batch that records it, or by a step that calls their job.

use cadran_core::{Batch, RunId, RunStatus};
use rustc_hash::FxHashMap;

use crate::law::{Checker, OpenRun, Violation, broken};

/// The runs of a batch that stand below another run. `open` are the runs that were open before it.
pub(crate) fn check(law: &Checker, open: &FxHashMap<RunId, OpenRun>, batch: &Batch) -> Result<(), Violation> {
    for promise in &batch.promised {
        let Some((parent, depth)) = promise.parent else { continue };
        let succeeded =
            batch.runs.iter().any(|update| update.run == parent && update.status == RunStatus::Succeeded);
        let named = open.get(&parent).is_some_and(|run| {
            let name = law.jobs.get(&promise.job).map(|life| life.name.as_str());
            law.job_of(run).body.children.iter().any(|child| Some(child.as_str()) == name)
        });
        let called = open.get(&parent).is_some_and(|run| {
            let name = law.jobs.get(&promise.job).map(|life| life.name.as_str());
            let calls = |step: &cadran_core::Step| {
                matches!(&step.work, cadran_core::Work::Job(call) if Some(call.job.as_str()) == name)
            };
            let body = &law.job_of(run).body;
            body.steps.iter().any(calls) || body.handlers.steps.iter().flatten().any(|step| calls(step))
        });
        if called && !succeeded && !promise.trigger.is_scheduled() && depth <= 16 {
            continue;
        }
        if !succeeded || !named || promise.trigger.is_scheduled() || depth > 16 {
            return broken(
                "a child runs because its parent succeeded",
                format!("{promise:?}: parent succeeded {succeeded}, names it {named}"),
            );
        }
    }
    for update in batch.runs.iter().filter(|update| update.status == RunStatus::Succeeded) {
        let Some(run) = open.get(&update.run) else { continue };
        let below =
            batch.promised.iter().filter(|promise| promise.parent.map(|(run, _)| run) == Some(update.run));
        let (runs, children) = (below.count(), law.job_of(run).body.children.len());
        let refused = update.message.as_deref().unwrap_or_default().matches("was not run").count();
        if runs + refused != children {
            return broken(
                "every child of a success runs, or the run says why not",
                format!("{} has {children} children, {runs} of them run: {:?}", update.run, update.message),
            );
        }
    }
    Ok(())
}
