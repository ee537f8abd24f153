//! What runs touch, and who waits for whom.

use super::support::{Home, Server, run, wait_for};
use super::{said, touch, until};

/// A job with a footprint, whose runs go on until the file `go` is there.
fn job(home: &Home, name: &str, footprint: &str) {
    let out = home.path("out").display().to_string();
    home.job(
        name,
        &format!("footprint: {{{footprint}}}\nrun: echo {name} >> {out}; {}\n", until(home, "go")),
    );
}

fn start(server: &Server, job: &str, status: &str) -> String {
    let run = server.trigger(job, "{}");
    server.run_is(&run, status);
    run
}

// covers: key job.footprint
// covers: key footprint.{reads,read,writes,write,claims,claim,capacity,pools,uses,on_conflict}
// covers: key resources_file.resources
// covers: key resource.capacity
// covers: reason conflict
#[test]
fn runs_that_touch_the_same_things_do_not_run_together() {
    let home = Home::new();
    home.job("resources", "resources: {gpu: 3, licence: {capacity: 1}}\n");
    for (name, footprint) in [
        ("reader", "reads: table:a"),
        ("reader2", "read: [table:a/b]"),
        ("writer", "writes: table:a"),
        ("writer2", "write: table:b, on_conflict: wait"),
        ("writer3", "writes: table:b, on_conflict: skip"),
        ("claimer", "claims: port:80"),
        ("claimer2", "claim: port:80"),
        ("two", "capacity: {gpu: 2}"),
        ("one", "pools: {gpu: 1}"),
        ("more", "uses: {gpu: 1 of 3}"),
        ("licensed", "capacity: {licence: 1}"),
    ] {
        job(&home, name, footprint);
    }
    let server = home.serve();
    let started = [
        start(&server, "reader", "running"),
        start(&server, "reader2", "running"),
        start(&server, "writer2", "running"),
        start(&server, "claimer", "running"),
        start(&server, "two", "running"),
        start(&server, "one", "running"),
        start(&server, "licensed", "running"),
    ];
    let waiting = [
        start(&server, "writer", "waiting"),
        start(&server, "claimer2", "waiting"),
        start(&server, "more", "waiting"),
    ];
    let skipped = server.run_is(&server.trigger("writer3", "{}"), "skipped");
    assert_eq!(skipped["skip_reason"], "conflict", "{skipped}");
    touch(&home, "go");
    for run in started.iter().chain(&waiting) {
        server.run_is(run, "succeeded");
    }
    assert!(server.stop().success());
}

// covers: key footprint.ordered
// covers: key resource.ordered
#[test]
fn who_waits_first_goes_first_where_that_is_said() {
    // A holds x; B wants x and y and waits; C wants y, which is free: it passes B, unless y keeps its order.
    for (resources, ordered, status) in [
        ("", "", "succeeded"),
        ("", ", ordered: true", "waiting"),
        ("resources: {table:y: {ordered: true}}\n", "", "waiting"),
    ] {
        let home = Home::new();
        if !resources.is_empty() {
            home.job("resources", resources);
        }
        job(&home, "a", "writes: table:x");
        home.job("b", &format!("footprint: {{writes: [table:x, table:y]{ordered}}}\nrun: 'true'\n"));
        home.job("c", &format!("footprint: {{writes: table:y{ordered}}}\nrun: 'true'\n"));
        let server = home.serve();
        let (a, b) = (start(&server, "a", "running"), start(&server, "b", "waiting"));
        let c = start(&server, "c", status);
        touch(&home, "go");
        for run in [a, b, c] {
            server.run_is(&run, "succeeded");
        }
    }
}

// covers: reason capacity
// covers: key resources_file.kinds
#[test]
fn a_run_that_needs_more_than_a_pool_has_by_now_is_skipped_and_kinds_are_checked() {
    let home = Home::new();
    home.job("resources", "resources: {gpu: 4}\nkinds: [table]\n");
    job(&home, "big", "capacity: {gpu: 3}");
    // A job that still fits brings the new size of the pool into force.
    job(&home, "small", "capacity: {gpu: 1}");
    let server = home.serve();
    home.job("resources", "resources: {gpu: 2}\nkinds: [table]\n");
    wait_for("the edit", || (server.get("/api/v1/jobs/small").1["revision"] == 2).then_some(()));
    wait_for("the problem", || {
        let (_, problems) = server.get("/api/v1/problems");
        problems.to_string().contains("3 of `gpu` are needed, and there are 2").then_some(())
    });
    let skipped = server.run_is(&server.trigger("big", "{}"), "skipped");
    assert_eq!(skipped["skip_reason"], "capacity", "{skipped}");
    home.job("file", "footprint: {reads: file:x}\nrun: x\n");
    let checked = run(&["check", &home.path("jobs").display().to_string()]);
    assert!(said(&checked).contains("unknown kind `file`"), "{}", said(&checked));
    assert!(server.stop().success());
}
