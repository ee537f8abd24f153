//! The rules for steps, as scripts that must come out as they went in. How runs end stands in `endings.rs`.

mod script;

use script::check;

#[test]
fn one_step() {
    check(
        "
        step a
        begin -> start a.1
        a.1 up ->
        records -> a running 1
        a.1 ok -> end succeeded
        records -> a succeeded 1 exit 0
    ",
    );
    check(
        "
        step a
        begin -> start a.1
        a.1 exit 2 -> end failed: step a exited with 2
        records -> a failed 1 exit 2: exited with 2
    ",
    );
    // Nothing to do is done.
    check("begin -> end succeeded");
}

#[test]
fn steps_follow_their_dependencies_in_the_order_of_their_numbers() {
    check(
        "
        step a
        step b < a
        step c < a
        step d < b,c
        begin -> start a.1
        a.1 ok -> start b.1 | start c.1
        c.1 ok ->
        b.1 ok -> start d.1
        d.1 ok -> end succeeded
    ",
    );
    // A dependency written twice is one dependency; a later step may stand first in the file.
    check(
        "
        step a
        step b < a,a
        begin -> start a.1
        a.1 ok -> start b.1
        b.1 ok -> end succeeded
    ",
    );
}

#[test]
fn at_most_so_many_steps_at_once() {
    check(
        "
        step a
        step b
        step c
        step d
        max 2
        begin -> start a.1 | start b.1
        live -> a.1 b.1
        b.1 ok -> start c.1
        c.1 ok -> start d.1
        a.1 ok ->
        d.1 ok -> end succeeded
    ",
    );
    // A step that waits for its retry leaves its place; when it is due it comes before later ones.
    check(
        "
        step a ; retry 1 100
        step b
        step c
        max 1
        begin -> start a.1
        a.1 exit 1 -> retry a at 100 | start b.1
        due a ->
        records -> a retrying 1 exit 1: exited with 1 | b running 1 | c pending
        b.1 ok -> start a.2
        a.2 ok -> start c.1
        c.1 ok -> end succeeded
    ",
    );
}

#[test]
fn a_failed_step_skips_what_depends_on_it_and_nothing_else() {
    check("
        step a
        step b
        step c < a
        step d < c
        step e < b
        begin -> start a.1 | start b.1
        a.1 exit 1 ->
        records -> a failed 1 exit 1: exited with 1 | b running 1 | c skipped: step a did not succeed | d skipped: step c did not succeed | e pending
        b.1 ok -> start e.1
        e.1 ok -> end failed: step a exited with 1
    ");
    // Judged when all dependencies are over; the lowest that did not succeed is named, whichever came first.
    check("
        step a
        step b
        step c
        step d < a,b,c
        begin -> start a.1 | start b.1 | start c.1
        c.1 exit 1 ->
        b.1 exit 1 ->
        records -> a running 1 | b failed 1 exit 1: exited with 1 | c failed 1 exit 1: exited with 1 | d pending
        a.1 ok -> end failed: step b exited with 1; 1 more step failed
        records -> a succeeded 1 exit 0 | b failed 1 exit 1: exited with 1 | c failed 1 exit 1: exited with 1 | d skipped: step b did not succeed
    ");
    check(
        "
        step a
        step b
        step c < a,b
        begin -> start a.1 | start b.1
        a.1 exit 1 ->
        b.1 exit 1 -> end failed: step a exited with 1; 1 more step failed
        records -> a failed 1 exit 1: exited with 1 | b failed 1 exit 1: exited with 1 | c skipped: step a did not succeed
    ",
    );
}

#[test]
fn continue_on_forgives() {
    check(
        "
        step a ; continue failure
        step b < a
        begin -> start a.1
        a.1 signal 9 -> start b.1
        b.1 ok -> end succeeded: step a was ended by signal 9 (SIGKILL); continue_on let the run go on
        records -> a failed 1: was ended by signal 9 (SIGKILL) | b succeeded 1 exit 0
    ",
    );
    check(
        "
        step a ; continue 3,4
        step b < a
        begin -> start a.1
        a.1 exit 4 -> start b.1
        b.1 ok -> end succeeded: step a exited with 4; continue_on let the run go on
    ",
    );
    check(
        "
        step a ; continue 3,4
        step b < a
        begin -> start a.1
        a.1 exit 5 -> end failed: step a exited with 5
    ",
    );
    // Skipped is another matter than failed.
    check(
        "
        step a ; continue skipped
        step b < a
        begin -> start a.1
        a.1 exit 1 -> end failed: step a exited with 1
    ",
    );
    check(
        "
        step a
        step b < a ; continue skipped
        step c < b
        begin -> start a.1
        a.1 exit 1 -> start c.1
        c.1 ok -> end failed: step a exited with 1
    ",
    );
    // With mark_success the step itself counts as succeeded; without being forgiven it changes nothing.
    check("
        step a ; continue failure mark
        step b < a
        begin -> start a.1
        a.1 exit 1 -> start b.1
        b.1 ok -> end succeeded
        records -> a succeeded 1 exit 1: exited with 1; counted as a success (mark_success) | b succeeded 1 exit 0
    ");
    check(
        "
        step a ; continue mark
        begin -> start a.1
        a.1 exit 1 -> end failed: step a exited with 1
    ",
    );
}

#[test]
fn an_unmet_precondition_skips_the_step_and_the_run_still_succeeds() {
    check("
        step a
        step b < a
        begin -> start a.1
        a.1 unmet it is not Monday -> end succeeded
        records -> a skipped 1: a precondition was not met: it is not Monday | b skipped: step a did not succeed
    ");
    check(
        "
        step a ; continue skipped
        step b < a
        begin -> start a.1
        a.1 unmet -> start b.1
        b.1 ok -> end succeeded
    ",
    );
    // It is no failure, so nothing is tried again.
    check(
        "
        step a ; retry 3 100
        begin -> start a.1
        a.1 unmet -> end succeeded
    ",
    );
}

#[test]
fn an_unmet_precondition_of_the_job_skips_the_run() {
    // One step goes first, so that nothing has run when the answer is no; handlers stay silent.
    check("
        step a
        step b
        step c < a
        handler on_exit
        precondition
        begin -> start a.1
        a.1 job-unmet the disk is full -> end skipped: a precondition of the job was not met: the disk is full
        records -> a skipped 1: a precondition of the job was not met: the disk is full | b skipped: a precondition of the job was not met: the disk is full | c skipped: a precondition of the job was not met: the disk is full
    ");
    check(
        "
        step a
        step b
        precondition
        begin -> start a.1
        a.1 up -> start b.1
        a.1 ok ->
        b.1 ok -> end succeeded
    ",
    );
    check(
        "
        step a
        step b
        precondition
        begin -> start a.1
        a.1 exit 1 -> start b.1
        b.1 ok -> end failed: step a exited with 1
    ",
    );
    // A lost attempt says nothing about them.
    check(
        "
        step a
        step b
        precondition
        begin -> start a.1
        a.1 lost -> start a.2
        a.2 job-unmet -> end skipped: a precondition of the job was not met
    ",
    );
    // Once a step is up, the run is on: such an answer skips only its step.
    check(
        "
        step a
        step b
        begin -> start a.1 | start b.1
        a.1 up ->
        b.1 job-unmet ->
        a.1 ok -> end succeeded
    ",
    );
}

#[test]
fn failures_are_tried_again() {
    check(
        "
        step build ; retry 2 100
        begin -> start build.1
        at 50
        build.1 exit 2 -> retry build at 150
        records -> build retrying 1 exit 2: exited with 2
        due build -> start build.2
        at 300
        build.2 signal 11 -> retry build at 400
        due build -> start build.3
        build.3 exit 2 -> end failed: step build exited with 2 after 3 attempts
    ",
    );
    check(
        "
        step a ; retry 3 100 times 2 most 300
        begin -> start a.1
        a.1 exit 1 -> retry a at 100
        due a -> start a.2
        a.2 timeout -> retry a at 200
        due a -> start a.3
        a.3 nostart no such program -> retry a at 300
        due a -> start a.4
        a.4 ok -> end succeeded
    ",
    );
    // No interval, no wait.
    check(
        "
        step a ; retry 1 0
        begin -> start a.1
        a.1 exit 1 -> start a.2
        a.2 exit 1 -> end failed: step a exited with 1 after 2 attempts
    ",
    );
    check(
        "
        step a ; retry 5 100 codes 75
        begin -> start a.1
        a.1 exit 75 -> retry a at 100
        due a -> start a.2
        a.2 exit 1 -> end failed: step a exited with 1 after 2 attempts
    ",
    );
    check(
        "
        step a ; retry 5 100 codes 75
        begin -> start a.1
        a.1 signal 15 -> end failed: step a was ended by signal 15 (SIGTERM)
    ",
    );
    // A retry that nobody waits for does not start anything.
    check(
        "
        step a ; retry 1 100
        begin -> start a.1
        due a ->
        a.1 exit 1 -> retry a at 100
        due a -> start a.2
        due a ->
        due 9 ->
        a.2 ok -> end succeeded
        due a ->
    ",
    );
}

#[test]
fn failures_have_words() {
    check(
        "
        step a ; timeout 90000
        begin -> start a.1
        a.1 timeout -> end failed: step a passed its time limit of 90 s
    ",
    );
    check("
        step a
        begin -> start a.1
        a.1 nostart /nowhere is not a directory -> end failed: step a could not be started: /nowhere is not a directory
    ");
    check(
        "
        step a
        begin -> start a.1
        a.1 stopped -> end failed: step a was stopped from outside
    ",
    );
}

#[test]
fn lost_attempts_are_started_again_a_few_times() {
    check(
        "
        step a
        begin -> start a.1
        a.1 lost -> start a.2
        a.2 lost -> start a.3
        a.3 lost -> end lost: step a was lost with its executor 3 times
        records -> a failed 3 lost 3: was lost with its executor 3 times
    ",
    );
    // They use up no retry, and retries do not use up them.
    check(
        "
        step a ; retry 1 0
        begin -> start a.1
        a.1 lost -> start a.2
        a.2 exit 1 -> start a.3
        a.3 lost -> start a.4
        a.4 exit 1 -> end failed: step a exited with 1 after 4 attempts
    ",
    );
    check("
        step a ; retry 9 0
        at-most-once
        begin -> start a.1
        a.1 lost -> end lost: step a was lost with its executor and may not be started a second time (retry: never)
    ");
    // A lost step is like a failed one for the others; on_failure hears of it.
    check("
        step a
        step b
        step c < a
        handler on_failure
        at-most-once
        begin -> start a.1 | start b.1
        a.1 lost ->
        b.1 ok -> start on_failure.1
        on_failure.1 ok -> end lost: step a was lost with its executor and may not be started a second time (retry: never)
    ");
}

#[test]
fn outputs_stand_in_the_order_of_steps() {
    check(
        "
        step a ; output A
        step b ; output B
        step c < a,b
        begin -> start a.1 | start b.1
        outputs ->
        b.1 ok two -> 
        outputs -> B=two
        a.1 ok one -> start c.1
        outputs -> A=one B=two
        c.1 ok ignored -> end succeeded
        outputs -> A=one B=two
    ",
    );
    // A failed attempt that is tried again leaves none.
    check(
        "
        step a ; output A ; retry 1 100
        handler on_exit
        begin -> start a.1
        a.1 exit 1 first -> retry a at 100
        outputs ->
        due a -> start a.2
        a.2 exit 1 second -> start on_exit.1
        outputs -> A=second
    ",
    );
}

#[test]
fn old_and_strange_reports_are_refused() {
    check(
        "
        step a ; retry 1 100
        step b < a
        handler on_exit
        begin -> start a.1
        a.0 ok -> unknown
        a.2 ok -> unknown
        b.1 ok -> unknown
        on_exit.1 ok -> unknown
        9.1 ok -> unknown
        65535.1 ok -> unknown
        a.1 up ->
        a.1 up -> stale
        a.1 exit 1 -> retry a at 100
        a.1 exit 1 -> stale
        a.1 ok -> stale
        due a -> start a.2
        a.1 ok -> stale
        a.2 ok -> start b.1
        b.1 ok -> start on_exit.1
        on_exit.1 ok -> end succeeded
        a.1 ok -> stale
        a.2 ok -> stale
        on_exit.1 ok -> stale
        stop asked ->
    ",
    );
}

#[test]
fn what_no_file_can_say_still_ends() {
    check("
        step a < 1
        step b < 0 ; continue failure
        step c
        begin -> start c.1
        c.1 ok -> end failed: step a was never started: it depends on steps that wait for it; 1 more step failed
    ");
    check(
        "
        step a < 0
        begin -> end failed: step a was never started: it depends on steps that wait for it
    ",
    );
    // A dependency on nothing holds nothing up.
    check(
        "
        step a < 77
        begin -> start a.1
        a.1 ok -> end succeeded
    ",
    );
}
