//! Jobs that name other jobs as their children, through the built binary.

mod support;

use std::fs;

use support::{Home, Server, cadran, wait_for};

fn said(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn is_missed(server: &Server, child: &str) -> bool {
    let (_, answer) = server.get("/api/v1/problems");
    let rows = answer["problems"].as_array().expect("a list");
    rows.iter().any(|row| {
        let message = row["message"].as_str().unwrap_or_default();
        row["severity"] == "warning"
            && row["file"] == "parent.yaml"
            && message.contains(&format!("the job {child},"))
    })
}

#[test]
fn a_child_that_does_not_exist_is_a_warning_until_it_appears() {
    let home = Home::new();
    home.job("parent", "children: [late-child, other]\nrun: echo parent\n");
    home.job("other", "run: echo other\n");
    let folder = cadran().arg("check").arg(home.path("jobs")).output().expect("it starts");
    let text = said(&folder);
    assert!(folder.status.success(), "a warning is no error: {text}");
    assert!(text.contains("late-child") && text.contains("does not exist"), "{text}");
    assert!(!text.contains("the job other"), "{text}");
    let alone = cadran().arg("check").arg(home.path("jobs/parent.yaml")).output().expect("it starts");
    assert!(
        alone.status.success() && said(&alone).contains("none of the checked files defines"),
        "{}",
        said(&alone)
    );
    let both = [home.path("jobs/parent.yaml"), home.path("jobs/other.yaml")];
    assert!(!said(&cadran().arg("check").args(both).output().expect("it starts")).contains("the job other"));

    let server = home.serve();
    assert!(is_missed(&server, "late-child") && !is_missed(&server, "other"));
    let status = said(&home.client(&["status"]));
    assert!(status.contains("warning   parent.yaml: ") && status.contains("late-child"), "{status}");
    home.job("late-child", "run: echo child\n");
    wait_for("the warning to go", || (!is_missed(&server, "late-child")).then_some(()));
    home.remove_job("late-child");
    wait_for("the warning to come back", || is_missed(&server, "late-child").then_some(()));
    assert!(server.stop().success());
    // A server that finds the file unchanged does not read it again, and knows its children all the same.
    let server = home.serve();
    assert!(is_missed(&server, "late-child") && !is_missed(&server, "other"));
    assert!(server.stop().success());
}

#[test]
fn a_run_that_another_run_asked_for_says_so() {
    let home = Home::new();
    home.job("parent", "children: [child]\nrun: echo parent\n");
    home.job("child", &format!("run: echo $CADRAN_TRIGGER >>{}\n", home.path("seen").display()));
    let server = home.serve();
    let parent = home.json(&["trigger", "parent", "--wait", "--json"]);
    let parent = parent["id"].as_str().expect("an id").to_owned();
    let child = wait_for("the child to end", || {
        let (_, answer) = server.get(&format!("/api/v1/runs?parent={parent}"));
        let run = answer["runs"].as_array()?.first()?.clone();
        (run["status"] == "succeeded").then_some(run)
    });
    assert_eq!((child["trigger"].as_str(), child["parent"].as_str()), (Some("child"), Some(parent.as_str())));
    assert_eq!(home.lines("seen"), ["child"]);
    let id = child["id"].as_str().expect("an id");
    for command in ["show", "why"] {
        let text = said(&home.client(&[command, id]));
        assert!(text.contains(&format!("it is a child of run {parent}")), "{command}: {text}");
        let json = home.json(&[command, id, "--json"]);
        assert_eq!(
            (json["trigger"].as_str(), json["parent"].as_str()),
            (Some("child"), Some(parent.as_str()))
        );
    }
    let history = said(&home.client(&["history", "child"]));
    assert!(history.contains(&format!("child of {parent}")), "{history}");
    let by_hand = said(&home.client(&["history", "parent"]));
    assert!(by_hand.contains("manual"), "{by_hand}");
    let _ = fs::remove_file(home.path("seen"));
}
