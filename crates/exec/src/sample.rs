//! Orders for tests.

use std::sync::Arc;

use cadran_core::{
    Body, ExecutorKind, JobId, Placement, RunContext, RunId, Seats, Start, Step, StepNo, Trigger,
};

/// The first attempt of a run with one step, at these executors of the group `g`.
pub(crate) fn start(job: JobId, run: u64, step: Step, seats: Seats) -> Start {
    let context = RunContext {
        job,
        job_name: "job".parse().expect("a name"),
        body: Arc::new(Body { steps: vec![step], ..Body::default() }),
        due: 0,
        trigger: Trigger::Manual,
        params: Vec::new(),
        addresses: Vec::new(),
        shard_index: 0,
        shard_total: 1,
    };
    let group = "g".parse().expect("a name");
    Start {
        run: RunId::from_raw(run),
        step: StepNo(0),
        attempt: 1,
        context: Arc::new(context),
        outputs: Arc::default(),
        placement: Some(Arc::new(Placement { group, kind: ExecutorKind::XxlJob, at: 5, seats })),
    }
}
