//! When a job rests, from when and until when it runs, and words that people try, through the built binary.

mod support;

use std::fs;
use std::process::Output;

use support::{Home, cadran, wait_for};

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn check(home: &Home, text: &str) -> (bool, String) {
    let file = home.path("checked.yaml");
    fs::write(&file, text).expect("a file");
    let output = cadran().arg("check").arg(&file).output().expect("it starts");
    (output.status.success(), said(&output))
}

// covers: key job.enabled
#[test]
fn a_job_that_is_not_enabled_rests_until_it_is() {
    let home = Home::new();
    let text = |enabled: bool| {
        let seen = home.path("seen").display().to_string();
        format!(
            "enabled: {enabled}\nschedule: every 1s\ncatchup_window: 1h\nrun: echo $CADRAN_TRIGGER >>{seen}\n"
        )
    };
    home.job("resting", &text(false));
    home.job("ticking", &format!("schedule: every 1s\nrun: echo tick >>{}\n", home.path("ticks").display()));
    let server = home.serve();
    wait_for("the job to be shown as resting", || {
        (server.get("/api/v1/jobs/resting").1["state"] == "disabled").then_some(())
    });
    assert!(said(&home.client(&["jobs"])).contains("disabled"));
    // Others have run for some dues, and it has not.
    wait_for("three dues of another job", || (home.lines("ticks").len() >= 3).then_some(()));
    assert_eq!(home.lines("seen"), [] as [&str; 0]);
    assert!(home.client(&["trigger", "resting", "--wait"]).status.success(), "by hand it runs");
    assert_eq!(home.lines("seen"), ["manual"]);
    home.job("resting", &text(true));
    wait_for("a due after it was enabled", || (home.lines("seen").len() >= 2).then_some(()));
    wait_for("the job to be shown as active", || {
        (server.get("/api/v1/jobs/resting").1["state"] == "active").then_some(())
    });
    assert!(home.lines("seen")[1..].iter().all(|trigger| trigger == "schedule"), "nothing is caught up");
    // A mistake in a schedule that rests is said all the same.
    let (is_good, said) = check(&home, "enabled: false\nschedule: 99 * * * *\nrun: 'true'\n");
    assert!(!is_good && said.contains("99"), "{said}");
    assert!(server.stop().success());
}

// covers: key job.{not_before,not_after}
#[test]
fn not_before_and_not_after_limit_every_schedule_of_a_job() {
    let home = Home::new();
    let file = home.path("limited.yaml");
    let text = "schedule: [\"0 9 * * *\", \"0 12 * * *\"]\ntimezone: Europe/Paris\nnot_before: 2031-03-01T10:00:00\n\
                not_after: 2031-03-03T09:00:00\nrun: 'true'\n";
    fs::write(&file, text).expect("a file");
    let next = cadran().args(["next", "-n", "20", "--json"]).arg(&file).output().expect("it starts");
    let dues = said(&next);
    for due in ["2031-03-01T11:00:00", "2031-03-02T08:00:00", "2031-03-02T11:00:00", "2031-03-03T08:00:00"] {
        assert!(dues.contains(due), "{due}: {dues}");
    }
    assert!(!dues.contains("2031-03-01T08:00:00") && !dues.contains("2031-03-03T11:00:00"), "{dues}");
    // In the server: the past is over, the future has not begun, and it stays so after a restart.
    home.job("over", "schedule: every 1s\nnot_after: 2001-01-01T00:00:00Z\nrun: echo over >>seen\n");
    home.job("later", "schedule: every 1s\nnot_before: 2150-01-01T00:00:00Z\nrun: echo later >>seen\n");
    let now = format!(
        "schedule: every 1s\nnot_before: 2001-01-01T00:00:00Z\nrun: echo now >>{}\n",
        home.path("now").display()
    );
    home.job("now", &now);
    for count in [3, 6] {
        let server = home.serve();
        wait_for("dues of the job inside of its time", || (home.lines("now").len() >= count).then_some(()));
        for (job, next) in [("over", None), ("later", Some("2150-01-01T00:00:00"))] {
            let (_, answer) = server.get(&format!("/api/v1/jobs/{job}"));
            assert!(answer["name"] == job && answer["last_run"].is_null(), "{answer}");
            let due = answer["next_due"].as_str();
            assert_eq!(due.map(|due| &due[..19]), next, "{answer}");
        }
        assert!(server.stop().success());
    }
    for (text, part) in [
        ("not_before: tomorrow\nrun: 'true'\n", "`not_before`"),
        ("not_before: 2031-01-02T00:00:00Z\nnot_after: 2031-01-01T00:00:00Z\nrun: 'true'\n", "lies before"),
    ] {
        let (is_good, said) = check(&home, text);
        assert!(!is_good && said.contains(part), "{said}");
    }
}

#[test]
fn words_that_people_try_name_the_right_key() {
    let home = Home::new();
    for (text, word, key) in [
        ("cron: \"0 3 * * *\"\nrun: 'true'\n", "cron", "schedule"),
        ("interval: 10m\nrun: 'true'\n", "interval", "schedule"),
        ("retries: 3\nrun: 'true'\n", "retries", "retry"),
        ("steps:\n  - {name: a, run: 'true'}\n  - {name: b, run: 'true', needs: a}\n", "needs", "depends"),
        ("needs: other\nrun: 'true'\n", "needs", "children"),
        ("if: test -f x\nrun: 'true'\n", "if", "preconditions"),
        ("steps:\n  - {name: a, run: 'true', when: test -f x}\n", "when", "preconditions"),
        ("mailto: me@example.org\nrun: 'true'\n", "mailto", "handlers"),
        ("steps:\n  - {name: a, run: 'true', retries: 2}\n", "retries", "retry"),
        ("retry: {retries: 2}\nrun: 'true'\n", "retries", "limit"),
    ] {
        let (is_good, said) = check(&home, text);
        assert!(!is_good, "{said}");
        assert!(said.contains(&format!("unknown key `{word}`")), "{said}");
        assert!(said.contains(&format!("did you mean `{key}`?")), "{said}");
    }
}

#[test]
fn a_step_beyond_its_range_runs_once_as_in_cron_and_is_warned_of() {
    let home = Home::new();
    let (is_good, said) = check(&home, "schedule: \"41-59/24 * * * *\"\nrun: 'true'\n");
    assert!(is_good, "{said}");
    assert!(
        said.contains("warning") && said.contains("matches `41` alone") && said.contains(":1:"),
        "{said}"
    );
    let file = home.path("checked.yaml");
    let next = cadran().args(["next", "-n", "3", "--json"]).arg(&file).output().expect("it starts");
    let dues = self::said(&next);
    assert!(dues.matches(":41:00").count() >= 3, "{dues}");
    assert!(next.status.success());
}
