//! Handlers, stops and the time limit: how a run comes to its end.

mod script;

use script::check;

#[test]
fn handlers_run_by_result_and_then_always() {
    check(
        "
        step a
        handler on_success
        handler on_failure
        handler on_stop
        handler on_exit
        begin -> start a.1
        a.1 ok -> start on_success.1
        records -> a succeeded 1 exit 0 | on_success running 1
        on_success.1 ok -> start on_exit.1
        on_exit.1 ok -> end succeeded
    ",
    );
    check("
        step a
        handler on_success
        handler on_failure
        handler on_exit
        begin -> start a.1
        a.1 exit 1 -> start on_failure.1
        on_failure.1 ok -> start on_exit.1
        on_exit.1 ok -> end failed: step a exited with 1
        records -> a failed 1 exit 1: exited with 1 | on_failure succeeded 1 exit 0 | on_exit succeeded 1 exit 0
    ");
    check(
        "
        step a
        handler on_success
        handler on_stop
        handler on_exit
        begin -> start a.1
        stop asked -> stop a.1
        a.1 stopped -> start on_stop.1
        on_stop.1 ok -> start on_exit.1
        on_exit.1 ok -> end stopped: stopped on request
        records -> a stopped 1: stopped on request | on_stop succeeded 1 exit 0 | on_exit succeeded 1 exit 0
    ",
    );
}

#[test]
fn a_failing_handler_fails_a_run_that_succeeded() {
    check(
        "
        step a
        handler on_success
        handler on_exit
        begin -> start a.1
        a.1 ok -> start on_success.1
        on_success.1 exit 1 -> start on_exit.1
        on_exit.1 ok -> end failed: handler on_success exited with 1
    ",
    );
    check(
        "
        step a
        handler on_exit
        begin -> start a.1
        a.1 exit 2 -> start on_exit.1
        on_exit.1 exit 1 -> end failed: step a exited with 2; handler on_exit exited with 1
    ",
    );
    check(
        "
        step a
        handler on_exit ; continue failure
        begin -> start a.1
        a.1 ok -> start on_exit.1
        on_exit.1 exit 1 -> end succeeded
    ",
    );
    // Handlers have retries and preconditions like any step.
    check(
        "
        step a
        handler on_success ; retry 1 100
        handler on_exit
        begin -> start a.1
        a.1 ok -> start on_success.1
        on_success.1 exit 1 -> retry on_success at 100
        due on_success -> start on_success.2
        on_success.2 ok -> start on_exit.1
        on_exit.1 unmet -> end succeeded
    ",
    );
    check(
        "
        step a
        handler on_exit
        begin -> start a.1
        a.1 ok -> start on_exit.1
        on_exit.1 lost -> start on_exit.2
        on_exit.2 ok -> end succeeded
    ",
    );
}

#[test]
fn a_stop_ends_everything_under_way() {
    check("
        step a
        step b ; retry 1 100
        step c < a
        step d
        max 3
        begin -> start a.1 | start b.1 | start d.1
        b.1 exit 1 -> retry b at 100
        stop replaced -> stop a.1 | stop d.1
        stop asked ->
        due b ->
        a.1 stopped ->
        d.1 ok -> end stopped: replaced by a newer run of the job
        records -> a stopped 1: replaced by a newer run of the job | b stopped 1 exit 1: exited with 1; no further attempt: replaced by a newer run of the job | c skipped: not started: replaced by a newer run of the job | d succeeded 1 exit 0
    ");
    // However the attempt ends, nothing follows it.
    check(
        "
        step a ; retry 5 100
        begin -> start a.1
        stop schedule -> stop a.1
        a.1 exit 143 -> end stopped: stopped by a schedule of the job
    ",
    );
    check(
        "
        step a
        begin -> start a.1
        stop asked -> stop a.1
        a.1 lost -> end stopped: stopped on request
    ",
    );
    check(
        "
        step a
        begin -> start a.1
        a.1 ok -> end succeeded
        stop asked ->
    ",
    );
    // Due, but without a place yet.
    check(
        "
        step a ; retry 1 100
        step b
        max 1
        begin -> start a.1
        a.1 exit 1 -> retry a at 100 | start b.1
        due a ->
        stop asked -> stop b.1
        b.1 stopped -> end stopped: stopped on request
        records -> a stopped 1 exit 1: exited with 1; no further attempt: stopped on request | b stopped 1: stopped on request
    ",
    );
}

#[test]
fn a_run_past_its_time_limit_has_failed() {
    check("
        step a ; continue failure mark
        step b < a
        handler on_failure
        handler on_stop
        timeout 60000
        begin -> start a.1
        stop timeout -> stop a.1
        a.1 stopped -> start on_failure.1
        stop timeout ->
        on_failure.1 ok -> end failed: the run passed its time limit of 1 min
        records -> a failed 1: was stopped: the run passed its time limit of 1 min | b skipped: not started: the run passed its time limit of 1 min | on_failure succeeded 1 exit 0
    ");
}

#[test]
fn a_handler_behind_the_time_limit_can_be_stopped_too() {
    check(
        "
        step a
        handler on_exit
        begin -> start a.1
        stop timeout -> stop a.1
        a.1 stopped -> start on_exit.1
        stop asked -> stop on_exit.1
        on_exit.1 stopped -> end failed: the run passed its time limit; handler on_exit: stopped on request
    ",
    );
}

#[test]
fn a_stop_during_handlers_stops_the_handler_that_is_on() {
    check("
        step a
        handler on_success
        handler on_stop
        handler on_exit
        begin -> start a.1
        a.1 ok -> start on_success.1
        stop asked -> stop on_success.1
        stop asked ->
        on_success.1 stopped -> start on_exit.1
        stop asked -> stop on_exit.1
        on_exit.1 signal 9 -> end stopped: handler on_success: stopped on request; handler on_exit: stopped on request
    ");
    check(
        "
        step a
        handler on_exit ; retry 3 100
        begin -> start a.1
        a.1 exit 1 -> start on_exit.1
        on_exit.1 exit 1 -> retry on_exit at 100
        stop asked -> end failed: step a exited with 1; handler on_exit: stopped on request
    ",
    );
}
