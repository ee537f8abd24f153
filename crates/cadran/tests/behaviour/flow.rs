//! In which order steps run, how often, and what follows from how they end.

use super::{Ran, run_job};

// covers: key job.{steps,type,max_active_steps}
// covers: key step.{depends,depends_on}
#[test]
fn steps_run_as_they_depend_on_one_another() {
    let text = "steps:\n  last: {depends: [left, right], run: echo last >> out}\n  first: echo first >> out\n  \
                left: {depends: first, run: echo left >> out}\n  right: {depends_on: left, run: echo right >> out}\n";
    assert_eq!(run_job(text).lines("out"), ["first", "left", "right", "last"]);
    let chain = "type: chain\nsteps: [echo 1 >> out, echo 2 >> out, echo 3 >> out]\n";
    assert_eq!(run_job(chain).lines("out"), ["1", "2", "3"]);
    // Both wait for one another's file: they end only when they run at the same time.
    let pair = "  a: touch a; until [ -e b ]; do sleep 0.02; done\n  b: touch b; until [ -e a ]; do sleep 0.02; done\n";
    let both = run_job(&format!("type: graph\ntimeout: 30s\nsteps:\n{pair}"));
    assert_eq!(both.code, Some(0), "{}", both.said);
    let one = run_job(&format!("max_active_steps: 1\ntimeout: 1s\nsteps:\n{pair}"));
    assert_ne!(one.code, Some(0), "{}", one.said);
    let circle = run_job("steps:\n  a: {depends: b, run: x}\n  b: {depends: a, run: x}\n");
    assert!(circle.said.contains("wait for one another"), "{}", circle.said);
}

/// When each attempt began, in milliseconds.
fn starts(ran: &Ran) -> Vec<i64> {
    ran.lines("out").iter().map(|line| line.parse().expect("a number")).collect()
}

const STAMP: &str = "date +%s%3N >> out";

// covers: key job.{retry,retry_policy}
// covers: key step.{retry,retry_policy}
// covers: key retry.{limit,interval,interval_sec,backoff,max_interval,max_interval_sec,exit_codes,exit_code}
#[test]
fn a_step_that_fails_is_tried_again_as_its_policy_says() {
    for (policy, attempts) in [
        ("retry: 2", 3),
        ("retry_policy: {limit: 1, interval: 10ms}", 2),
        ("retry: {limit: 3, interval: 10ms, exit_codes: [3, 4]}", 4),
        ("retry: {limit: 3, interval: 10ms, exit_code: 9}", 1),
        ("retry: never", 1),
        // Without the limit of the interval the last wait would be a thousand seconds long.
        ("retry: {limit: 3, interval: 100ms, backoff: 100, max_interval: 200ms}", 4),
        ("retry: {limit: 2, interval_sec: 0, backoff: true, max_interval_sec: 1}", 3),
    ] {
        let of_job = run_job(&format!("{policy}\nrun: {STAMP}; exit 3\n"));
        assert_eq!(
            (of_job.code, of_job.lines("out").len()),
            (Some(3), attempts),
            "{policy}: {}",
            of_job.said
        );
        let of_step = run_job(&format!("steps: [{{name: a, {policy}, run: '{STAMP}; exit 3'}}]\n"));
        assert_eq!(of_step.lines("out").len(), attempts, "step {policy}: {}", of_step.said);
        assert_eq!(of_step.step("a")["attempt"], attempts, "{policy}");
    }
    // Waits are never shorter than said.
    let waits = starts(&run_job(&format!(
        "retry: {{limit: 2, interval: 200ms, backoff: 3}}\nrun: {STAMP}; exit 1\n"
    )));
    assert!(waits[1] - waits[0] >= 200 && waits[2] - waits[1] >= 600, "{waits:?}");
    let late = run_job("retry: {limit: 5, interval: 10ms}\nrun: test \"$CADRAN_ATTEMPT\" = 3\n");
    assert_eq!((late.code, &late.step("main")["attempt"]), (Some(0), &3.into()), "{}", late.said);
    let wrong = run_job("retry: {interval: 1s}\nrun: x\n");
    assert!(wrong.said.contains("add `limit: 3`"), "{}", wrong.said);
}

// covers: key step.continue_on
// covers: key continue_on.{failure,failed,skipped,exit_codes,exit_code,mark_success}
#[test]
fn what_follows_a_failure_or_a_skip_is_said_by_continue_on() {
    let after = |on: &str, first: &str| {
        run_job(&format!(
            "steps:\n  - {{name: first, {first}, continue_on: {on}}}\n  - {{name: next, depends: first, run: echo on > out}}\n"
        ))
    };
    let (fails, skips) = ("run: exit 3", "run: x, preconditions: 'false'");
    for (on, first, goes_on, first_is) in [
        ("failure", fails, true, "failed"),
        ("[failed]", fails, true, "failed"),
        ("{failure: true}", fails, true, "failed"),
        ("{failed: true, mark_success: true}", fails, true, "succeeded"),
        ("{failure: false}", fails, false, "failed"),
        ("{exit_codes: [3]}", fails, true, "failed"),
        ("{exit_code: 4}", fails, false, "failed"),
        ("{exit_codes: 3, mark_success: true}", fails, true, "succeeded"),
        ("skipped", skips, true, "skipped"),
        ("{skipped: true}", skips, true, "skipped"),
        ("{skipped: false}", skips, false, "skipped"),
    ] {
        let ran = after(on, first);
        assert_eq!(!ran.lines("out").is_empty(), goes_on, "{on} after {first}: {}", ran.said);
        assert_eq!(ran.step("first")["status"], first_is, "{on} after {first}: {}", ran.said);
        // A failure that was let pass does not fail the run; one that was not does.
        assert_eq!(ran.code == Some(0), goes_on || first == skips, "{on} after {first}: {}", ran.said);
    }
}

// covers: key job.{preconditions,precondition}
// covers: key step.{preconditions,precondition}
// covers: key precondition.{condition,command,expected,negate}
// covers: reason precondition
#[test]
fn preconditions_decide_whether_a_job_or_a_step_starts() {
    for (condition, holds) in [
        ("preconditions: 'true'", true),
        ("precondition: 'false'", false),
        ("preconditions: ['true', 'false']", false),
        ("preconditions: {condition: 'exit 3', negate: true}", true),
        ("preconditions: {command: 'true', negate: true}", false),
        ("preconditions: {condition: '$(echo ready)', expected: ready}", true),
        ("preconditions: {condition: '$(echo read)', expected: ready}", false),
        ("preconditions: {condition: '$(date +%Y)', expected: 're:^20[0-9]{2}$'}", true),
        ("precondition: {condition: '${CADRAN_JOB}', expected: job}", true),
    ] {
        let job = run_job(&format!("{condition}\nrun: echo ran > out\n"));
        assert_eq!(job.lines("out").len(), usize::from(holds), "{condition}: {} {}", job.summary, job.said);
        assert_eq!(job.summary["status"], if holds { "succeeded" } else { "skipped" }, "{condition}");
        assert_eq!(holds, !job.summary.to_string().contains("precondition"), "{condition}: {}", job.summary);
        let step = run_job(&format!("steps:\n  - name: a\n    {condition}\n    run: echo ran > out\n"));
        assert_eq!(step.lines("out").len(), usize::from(holds), "step {condition}: {}", step.said);
        assert_eq!(step.step("a")["status"], if holds { "succeeded" } else { "skipped" }, "{condition}");
    }
}

// covers: key job.{handlers,handler_on}
// covers: key handlers.{success,failure,exit}
#[test]
fn handlers_follow_the_end_of_a_run() {
    let handlers = |key: &str| {
        format!(
            "{key}: {{success: echo success >> out, failure: echo failure >> out, stop: echo stop >> out, exit: 'echo exit >> out'}}\n"
        )
    };
    for (key, run, expected) in
        [("handlers", "true", ["success", "exit"]), ("handler_on", "false", ["failure", "exit"])]
    {
        let ran = run_job(&format!("run: '{run}'\n{}", handlers(key)));
        assert_eq!(ran.lines("out"), expected, "{key}: {}", ran.said);
    }
    let last = run_job("run: 'true'\nhandlers: {exit: exit 4}\n");
    assert!(last.steps().contains(&"on_exit failed".to_owned()), "{}", last.summary);
}
