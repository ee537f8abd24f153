use cadran_core::{Body, Millis, Outcome, Step};

use crate::StopWhy;

/// How an attempt ended, as the end of a sentence that begins with the step.
pub(crate) fn outcome(outcome: &Outcome, step: &Step) -> String {
    match outcome {
        Outcome::Exited(code) => format!("exited with {code}"),
        Outcome::Signaled(signal) => match signal_name(*signal) {
            Some(name) => format!("was ended by signal {signal} ({name})"),
            None => format!("was ended by signal {signal}"),
        },
        Outcome::TimedOut => match step.timeout_ms {
            Some(limit) => format!("passed its time limit of {}", span(limit)),
            None => "passed its time limit".into(),
        },
        Outcome::Stopped => "was stopped from outside".into(),
        Outcome::PreconditionUnmet(why) => unmet("a precondition was not met", why),
        Outcome::JobPreconditionUnmet(why) => unmet("a precondition of the job was not met", why),
        Outcome::NotStarted(why) => unmet("could not be started", why),
        Outcome::Reported(code, why) if why.is_empty() => format!("was reported as failed with {code}"),
        Outcome::Reported(_, why) => format!("failed: {why}"),
        Outcome::Halted(why) => format!("failed: {why}"),
        Outcome::Lost => "was lost with its executor".into(),
    }
}

/// `text`, and how many attempts it took when it took several.
pub(crate) fn after_attempts(text: String, attempts: u32) -> Box<str> {
    match attempts {
        0 | 1 => text.into(),
        _ => format!("{text} after {attempts} attempts").into(),
    }
}

/// A lost attempt that nothing follows.
pub(crate) fn given_up(lost: u32, at_most_once: bool) -> Box<str> {
    match (lost, at_most_once) {
        (_, true) => "was lost with its executor and may not be started a second time (retry: never)".into(),
        (1, _) => "was lost with its executor".into(),
        _ => format!("was lost with its executor {lost} times").into(),
    }
}

/// Why a run was stopped, as a sentence about the run.
pub(crate) fn stop(why: StopWhy, body: &Body) -> Box<str> {
    match why {
        StopWhy::Asked => "stopped on request".into(),
        StopWhy::Schedule => "stopped by a schedule of the job".into(),
        StopWhy::Replaced => "replaced by a newer run of the job".into(),
        StopWhy::TimedOut => match body.timeout_ms {
            Some(limit) => format!("the run passed its time limit of {}", span(limit)).into(),
            None => "the run passed its time limit".into(),
        },
    }
}

/// What a stop did to an attempt that was on.
pub(crate) fn stopped_step(why: StopWhy, body: &Body) -> Box<str> {
    match why {
        StopWhy::TimedOut => format!("was stopped: {}", stop(why, body)).into(),
        StopWhy::Asked | StopWhy::Schedule | StopWhy::Replaced => stop(why, body),
    }
}

/// A duration in the largest unit that says it exactly.
pub(crate) fn span(ms: Millis) -> String {
    const UNITS: [(Millis, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")];
    for (size, unit) in UNITS {
        if ms != 0 && ms % size == 0 {
            return format!("{} {unit}", ms / size);
        }
    }
    format!("{ms} ms")
}

fn unmet(what: &str, why: &str) -> String {
    if why.is_empty() { what.into() } else { format!("{what}: {why}") }
}

/// The signals that end processes in practice; numbers as on Linux.
fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_take_the_largest_exact_unit() {
        let check = |ms, expected: &str| assert_eq!(span(ms), expected);
        check(0, "0 ms");
        check(1, "1 ms");
        check(1500, "1500 ms");
        check(30_000, "30 s");
        check(90_000, "90 s");
        check(120_000, "2 min");
        check(3_600_000, "1 h");
        check(172_800_000, "2 d");
    }
}
