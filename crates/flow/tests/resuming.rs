//! A run taken up again: after the server was gone, and by `retry`.

mod script;

use script::check;

#[test]
fn what_is_over_stays_over() {
    check(
        "
        step a ; output A
        step b
        step c < a
        step d < b
        begin -> start a.1 | start b.1
        a.1 ok one -> start c.1
        b.1 exit 2 ->
        recover c.1:ok -> end failed: step b exited with 2
        outputs -> A=one
    ",
    );
    // Even when only the last word was missing.
    check(
        "
        step a
        begin -> start a.1
        recover a.1:ok -> end succeeded
    ",
    );
}

#[test]
fn attempts_found_ended_are_taken_as_they_ended() {
    check(
        "
        step a ; retry 2 100
        step b < a ; output B
        step c < b
        begin -> start a.1
        at 7000
        recover a.1:exit:3 -> retry a at 7100
        due a -> start a.2
        a.2 ok -> start b.1
        recover b.1:ok:value -> start c.1
        outputs -> B=value
        recover c.1:timeout -> end failed: step c passed its time limit
    ",
    );
    check(
        "
        step a
        precondition
        begin -> start a.1
        recover a.1:job-unmet -> end skipped: a precondition of the job was not met
    ",
    );
}

#[test]
fn attempts_cut_off_or_unknown_are_lost() {
    check(
        "
        step a
        begin -> start a.1
        recover a.1:cut -> start a.2
        records -> a running 2 lost 1
        recover a.1:cut a.2:cut -> start a.3
        recover -> end lost: step a was lost with its executor 3 times
    ",
    );
    check("
        step a
        step b
        at-most-once
        begin -> start a.1 | start b.1
        recover a.1:cut b.1:ok -> end lost: step a was lost with its executor and may not be started a second time (retry: never)
    ");
    // What was given up stays so through another recovery.
    check("
        step a
        step b
        at-most-once
        begin -> start a.1 | start b.1
        a.1 lost ->
        recover b.1:ok -> end lost: step a was lost with its executor and may not be started a second time (retry: never)
    ");
    // Never recorded as started, never found: not started, so it may start even at most once.
    check(
        "
        step a
        step b < a
        at-most-once
        begin -> start a.1
        recover a.1:ok -> start b.1
    ",
    );
}

#[test]
fn a_server_that_ends_in_good_order_costs_no_attempt() {
    check(
        "
        step a ; retry 1 0
        begin -> start a.1
        recover a.1:stopped -> start a.2
        recover a.1:stopped a.2:stopped -> start a.3
        recover a.1:stopped a.2:stopped a.3:stopped -> start a.4
        records -> a running 4
        recover a.1:stopped a.2:stopped a.3:stopped a.4:exit:1 -> start a.5
        a.5 exit 1 -> end failed: step a exited with 1 after 5 attempts
    ",
    );
    check(
        "
        step a
        at-most-once
        begin -> start a.1
        recover a.1:stopped -> end lost: step a was lost with its executor and may not be started a second time (retry: never)
    ",
    );
    // Stopped because the run was: it stays so.
    check(
        "
        step a
        begin -> start a.1
        stop asked -> stop a.1
        recover a.1:stopped -> end stopped: stopped on request
    ",
    );
}

#[test]
fn an_order_that_went_out_unrecorded_is_found() {
    // Nothing was recorded at all.
    check(
        "
        step a
        step b < a
        recover a.1:ok -> start b.1
        b.1 ok -> end succeeded
    ",
    );
    check(
        "
        step a
        recover a.1:cut a.2:cut -> start a.3
        records -> a running 3 lost 2
    ",
    );
    check(
        "
        step a ; retry 1 100
        begin -> start a.1
        a.1 exit 1 -> retry a at 100
        recover a.1:exit:1 a.2:exit:1 -> end failed: step a exited with 1 after 2 attempts
    ",
    );
}

#[test]
fn waits_go_on() {
    check(
        "
        step a ; retry 1 1000
        begin -> start a.1
        at 500
        a.1 exit 1 -> retry a at 1500
        at 800
        recover -> retry a at 1500
        due a -> start a.2
        a.2 exit 1 -> end failed: step a exited with 1 after 2 attempts
    ",
    );
    // Over by now; or the clock was set back, which makes it no longer than it was.
    check(
        "
        step a ; retry 1 1000
        begin -> start a.1
        a.1 exit 1 -> retry a at 1000
        at 9000
        recover -> start a.2
    ",
    );
    check(
        "
        step a ; retry 1 1000
        begin -> start a.1
        at 5000
        a.1 exit 1 -> retry a at 6000
        at 0
        recover -> retry a at 1000
    ",
    );
    // One that was due but found no place.
    check(
        "
        step a
        step b
        max 1
        begin -> start a.1
        a.1 lost -> start a.2
        recover a.2:cut -> start a.3
    ",
    );
}

#[test]
fn a_stop_goes_on() {
    check(
        "
        step a
        step b
        step c < a
        handler on_stop
        handler on_success
        begin -> start a.1 | start b.1
        stop asked -> stop a.1 | stop b.1
        a.1 stopped ->
        recover b.1:cut -> start on_stop.1
        recover on_stop.1:cut -> start on_stop.2
        recover on_stop.2:ok -> end stopped: stopped on request
    ",
    );
    // Also when no attempt had ended yet.
    check(
        "
        step a ; retry 3 0
        begin -> start a.1
        a.1 up ->
        stop asked -> stop a.1
        records -> a stopped 1: stopped on request
        recover a.1:cut -> end stopped: stopped on request
    ",
    );
    check(
        "
        step a ; continue failure
        handler on_failure
        timeout 1000
        begin -> start a.1
        stop timeout -> stop a.1
        records -> a failed 1: was stopped: the run passed its time limit of 1 s
        recover -> start on_failure.1
        recover on_failure.1:cut -> start on_failure.2
        stop asked -> stop on_failure.2
        recover -> end failed: the run passed its time limit of 1 s; handler on_failure: stopped on request
    ",
    );
    check(
        "
        step a
        step b
        timeout 1000
        handler on_failure
        begin -> start a.1 | start b.1
        stop timeout -> stop a.1 | stop b.1
        a.1 stopped ->
        recover b.1:ok -> start on_failure.1
        on_failure.1 ok -> end failed: the run passed its time limit of 1 s
    ",
    );
}

#[test]
fn handlers_go_on() {
    check(
        "
        step a
        handler on_success
        handler on_exit
        begin -> start a.1
        a.1 ok -> start on_success.1
        recover on_success.1:ok -> start on_exit.1
        recover on_exit.1:cut -> start on_exit.2
        on_exit.2 exit 1 -> end failed: handler on_exit exited with 1 after 2 attempts
    ",
    );
    check("
        step a
        handler on_exit
        at-most-once
        begin -> start a.1
        a.1 ok -> start on_exit.1
        recover -> end failed: handler on_exit was lost with its executor and may not be started a second time (retry: never)
    ");
}

#[test]
fn preconditions_of_the_job_are_asked_first_again() {
    check(
        "
        step a
        step b
        precondition
        begin -> start a.1
        recover -> start a.2
        a.2 up -> start b.1
    ",
    );
    check(
        "
        step a
        step b
        precondition
        begin -> start a.1
        a.1 up -> start b.1
        recover a.1:ok b.1:cut -> start b.2
    ",
    );
}

#[test]
fn a_retry_runs_what_did_not_succeed() {
    check("
        step a ; output A
        step b ; output B
        step c < a
        step d < b
        handler on_failure
        begin -> start a.1 | start b.1
        a.1 ok one -> start c.1
        c.1 ok ->
        b.1 exit 1 two -> start on_failure.1
        on_failure.1 ok -> end failed: step b exited with 1
        outputs -> A=one B=two
        retry -> start b.2
        outputs -> A=one
        records -> a succeeded 1 exit 0 | b running 2 | c succeeded 1 exit 0 | d pending | on_failure pending 1
        b.2 ok -> start d.1
        d.1 ok -> end succeeded
    ");
    // With fresh retries, and a number above every attempt that anyone knows.
    check(
        "
        step a ; retry 1 100
        begin -> start a.1
        a.1 exit 1 -> retry a at 100
        due a -> start a.2
        a.2 exit 1 -> end failed: step a exited with 1 after 2 attempts
        retry a.1:exit:1 a.5:cut -> start a.6
        a.2 ok -> stale
        a.6 exit 1 -> retry a at 100
        due a -> start a.7
        a.7 exit 1 -> end failed: step a exited with 1 after 7 attempts
    ",
    );
    // What lies beyond the records was ordered by the retry itself, and is taken as it is found.
    check(
        "
        step a ; retry 1 100
        begin -> start a.1
        a.1 exit 1 -> retry a at 100
        due a -> start a.2
        a.2 exit 1 -> end failed: step a exited with 1 after 2 attempts
        retry a.1:exit:1 a.2:exit:1 a.3:exit:1 a.4:exit:1 -> end failed: step a exited with 1 after 4 attempts
        retry a.5:lives ->
        a.5 ok -> end succeeded
    ",
    );
    check(
        "
        step a
        begin -> start a.1
        a.1 lost -> start a.2
        a.2 lost -> start a.3
        a.3 lost -> end lost: step a was lost with its executor 3 times
        retry -> start a.4
        a.4 lost -> start a.5
        a.5 ok -> end succeeded
    ",
    );
    check(
        "
        step a
        step b < a
        begin -> start a.1
        stop asked -> stop a.1
        a.1 stopped -> end stopped: stopped on request
        retry -> start a.2
        a.2 ok -> start b.1
        b.1 ok -> end succeeded
    ",
    );
    // Only a handler had failed: the handlers run again.
    check(
        "
        step a
        handler on_exit
        begin -> start a.1
        a.1 ok -> start on_exit.1
        on_exit.1 exit 1 -> end failed: handler on_exit exited with 1
        retry -> start on_exit.2
        on_exit.2 ok -> end succeeded
    ",
    );
}

#[test]
fn a_job_edited_meanwhile_is_matched_by_names() {
    check(
        "
        step a
        step b
        step c
        begin -> start a.1 | start b.1 | start c.1
        b.1 exit 1 ->
        recover-without a a.1:cut c.1:ok -> end failed: step b exited with 1
        records -> b failed 1 exit 1: exited with 1 | c succeeded 1 exit 0
    ",
    );
}
