//! Preconditions of a job, through the built binary: a run that must not start is a recorded skip, and nothing else
//! notices.

mod support;

use support::{Home, cadran};

const UNMET: &str = "preconditions: \"test -f /nonexistent\"\nrun: echo ran\n";

#[test]
fn an_unmet_precondition_of_a_job_skips_the_run_and_leaves_the_server_alone() {
    let home = Home::new();
    home.job("guarded", UNMET);
    home.job("other", "run: echo fine\n");
    let _server = home.serve();
    let skipped = home.client(&["trigger", "guarded", "--wait", "--json"]);
    let said =
        String::from_utf8_lossy(&skipped.stdout).into_owned() + &String::from_utf8_lossy(&skipped.stderr);
    for part in ["skipped", "precondition", "`test -f /nonexistent` exited with 1"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let other = home.client(&["trigger", "other", "--wait"]);
    assert!(other.status.success(), "{}", String::from_utf8_lossy(&other.stderr));
}

#[test]
fn an_unmet_precondition_of_a_job_ends_a_run_in_the_foreground() {
    let home = Home::new();
    let file = home.path("guarded.yaml");
    std::fs::write(&file, UNMET).expect("a file");
    let output = cadran().arg("run").arg(&file).output().expect("it starts");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && !said.contains("panicked"), "{said}");
    assert!(said.contains("skipped: a precondition of the job was not met"), "{said}");
    assert!(!said.contains("\nran"), "{said}");
}
