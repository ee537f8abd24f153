//! An order in the executor's words.

use cadran_core::{Block, Body, Dialect, Millis, SeatRecord, Start, Step, StepNo, Target, Work};

use super::params;
use super::wire::{OrthTrigger, Trigger, block_word, glue_word};

/// A script's number for executors must change with its text and stay below what a date may be.
const GLUE_TIME_BASE: Millis = 1_600_000_000_000;

/// Whether the step is the first of its job that runs on executors. That one has the job's own number; executors
/// queue by number, and two steps under one would end each other.
pub(super) fn is_first_away(start: &Start) -> bool {
    let body = &start.context.body;
    let first = body.steps.iter().position(|step| step.target.is_some());
    first.is_none_or(|at| StepNo(at as u16) == start.step)
}

/// The executor's time limit: the step's, or the run's where the run is this step. 0 means none.
pub(super) fn timeout_secs(start: &Start) -> u32 {
    let body = &start.context.body;
    let limit = body.step(start.step).and_then(|step| step.timeout_ms);
    let limit = limit.or(body.timeout_ms.filter(|_| body.steps.len() == 1));
    limit.map_or(0, |ms| ((ms + 999) / 1000).clamp(1, 1 << 30) as u32)
}

pub(super) fn target_of(start: &Start) -> Option<&Target> {
    start.context.body.step(start.step)?.target.as_deref()
}

/// Whether executors of XXL-JOB can run a step, and why not. A command travels as a shell script, which knows nothing but
/// its three arguments: the text of its parameters, the number of its share, and how many there are.
pub fn sendable(body: &Body, step: &Step) -> Result<(), &'static str> {
    let env = body.env.is_empty() && step.env.is_empty();
    let place = [&body.dir, &step.dir].iter().all(|dir| dir.is_none());
    let shell = body.shell.is_none() && step.shell.is_none();
    match step.work {
        Work::Handler(_) | Work::Glue(..) => Ok(()),
        Work::Shell(_) | Work::Script(_) if env && place && shell => Ok(()),
        Work::Shell(_) | Work::Script(_) => {
            Err("an XXL-JOB executor runs a command without `env`, `dir` and `shell`; set them inside of it")
        }
        Work::Http(_) | Work::Container(_) | Work::Job(_) => Err("it runs on the server itself"),
        Work::Program(_) => Err(
            "an XXL-JOB executor runs handlers and scripts; write the command as a text, or name a `handler`",
        ),
    }
}

/// Writes the order in the executor's words.
pub(super) fn words(
    out: &mut Vec<u8>,
    start: &Start,
    seat: &SeatRecord,
    dialect: Dialect,
    number: u32,
    timeout_secs: u32,
) -> Result<(), String> {
    let context = &start.context;
    let Some(step) = context.body.step(start.step) else {
        return Err("the step is not known any more".into());
    };
    let Some(target) = step.target.as_deref() else { return Err("the step has no executor".into()) };
    let text = params::text(start, step, target)?;
    let (handler, glue, source) = match &step.work {
        Work::Handler(name) => (name.as_str(), "BEAN", ""),
        Work::Glue(kind, source) => ("", glue_word(*kind), source.as_str()),
        Work::Shell(source) | Work::Script(source) => ("", "GLUE_SHELL", source.as_str()),
        Work::Program(_) | Work::Http(_) | Work::Container(_) | Work::Job(_) => {
            return Err("it cannot be sent".into());
        }
    };
    let trigger = Trigger {
        job_id: number,
        executor_handler: handler,
        executor_params: &text,
        executor_block_strategy: block_word(target.block, dialect),
        executor_timeout: timeout_secs,
        log_id: seat.log,
        log_date_time: seat.at,
        glue_type: glue,
        glue_source: source,
        glue_updatetime: glue_time(source),
        broadcast_index: seat.index,
        broadcast_total: seat.total,
        orth: (dialect == Dialect::Orth).then(|| OrthTrigger {
            executor_concurrency: if target.block == Block::Concurrent { target.concurrency } else { 1 },
            schedule_time: context.trigger.is_scheduled().then_some(context.due),
        }),
    };
    trigger.write(out);
    Ok(())
}

/// FNV-1a of the text, folded into some days.
fn glue_time(source: &str) -> Millis {
    let hash = source.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    GLUE_TIME_BASE + (hash % 1_000_000_000) as Millis
}
