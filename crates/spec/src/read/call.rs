//! The `job` key of a step: a run of another job that the step waits for.

use cadran_core::{JobCall, JobName, Work};

use super::fields::{Field, Fields};
use super::findings::Findings;
use super::lists::env;
use super::scalar::filled;
use crate::diagnostic::Code;

/// Keys that tell how a process is run. The called job has its own.
const OF_PROCESSES: [&str; 16] = [
    "run",
    "script",
    "handler",
    "glue",
    "http",
    "container",
    "shell",
    "dir",
    "env",
    "preconditions",
    "stdout",
    "stderr",
    "signal_on_stop",
    "executor",
    "route",
    "block",
];

/// What a step with `job` does.
pub(crate) fn work(field: Field<'_>, all: &Fields<'_>, findings: &mut Findings) -> Option<Work> {
    for name in OF_PROCESSES {
        if let Some(other) = all.get(name) {
            let message =
                format!("`{}` stands beside `job`, and the job that is called has its own", other.spelled);
            findings.error_help(
                other.key.span,
                Code::Conflict,
                message,
                "remove one of the two, or use `params`",
            );
        }
    }
    let name = filled(field.spelled, field.value, findings)?;
    let job = match name.trim().parse::<JobName>() {
        Ok(job) => job,
        Err(error) => {
            findings.error(field.value.span, Code::BadValue, error.to_string());
            return None;
        }
    };
    let params = all.get("params").map(|field| env(field, findings)).unwrap_or_default();
    Some(Work::Job(Box::new(JobCall { job, params })))
}
