//! The commands that read job files without a server.

use super::support::{Home, cadran, run};
use super::{said, stdout};

fn jobs(home: &Home) -> String {
    home.path("jobs").display().to_string()
}

// covers: command check
// covers: option check PATHS
// covers: option check --{timezone,conflicts,executors,json}
// covers: key executors_file.groups
// covers: key executors_group.addresses
#[test]
fn check_says_what_is_wrong_and_what_excludes_what() {
    let home = Home::new();
    home.job("good", "executor: g\nrun: [echo, x]\nfootprint: {writes: table:a}\n");
    home.job("other", "footprint: {reads: table:a}\nrun: x\nschedule: at 2030-01-01T00:00:00\n");
    let good = run(&["check", &jobs(&home)]);
    assert_eq!(
        (good.status.code(), stdout(&good).as_str()),
        (Some(0), "2 good, 0 with errors\n"),
        "{}",
        said(&good)
    );
    home.job("wrong", "schedule: '61 * * * *'\nrun: x\n");
    let file = home.path("jobs/wrong.yaml").display().to_string();
    for path in [jobs(&home), file.clone()] {
        let bad = run(&["check", &path]);
        assert_eq!(bad.status.code(), Some(1));
        assert!(said(&bad).contains("wrong.yaml:1:12") && said(&bad).contains("61"), "{}", said(&bad));
    }
    let lines: Vec<serde_json::Value> = stdout(&run(&["check", "--json", &jobs(&home)]))
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.iter().filter(|line| line["ok"] == true).count(), 2, "{lines:?}");
    let conflicts = run(&["check", "--conflicts", &jobs(&home)]);
    assert!(stdout(&conflicts).contains("good and other exclude one another"), "{}", said(&conflicts));
    std::fs::write(home.path("executors.yaml"), "token: t\ngroups: {g: {addresses: 'http://127.0.0.1:1'}}\n")
        .expect("a file");
    let typed =
        run(&["check", "--executors", &home.path("executors.yaml").display().to_string(), &jobs(&home)]);
    assert!(said(&typed).contains("good") && said(&typed).contains("main"), "{}", said(&typed));
    assert_ne!(said(&typed), said(&run(&["check", &jobs(&home)])));
    let zone = run(&["check", "--timezone", "Mars/Olympus", &jobs(&home)]);
    assert!(!zone.status.success() && said(&zone).contains("Mars/Olympus"), "{}", said(&zone));
    assert_eq!(run(&["check", "--timezone", "Europe/Paris", &file]).status.code(), Some(1));
    assert_eq!(run(&["check"]).status.code(), Some(2));
    assert!(said(&run(&["check", "/nonexistent"])).contains("/nonexistent"));
}

// covers: command next
// covers: option next WHAT
// covers: option next --{count,from,timezone,dialect,json,stdin}
#[test]
fn next_tells_dues_of_expressions_and_files() {
    let next = |args: &[&str]| {
        let output = run(&[&["next"], args].concat());
        assert!(output.status.success(), "{args:?}: {}", said(&output));
        stdout(&output)
    };
    let day = ["--from", "2026-01-01T00:00:00Z"];
    let plain = next(&["0 9 * * *", "--count", "2", day[0], day[1]]);
    assert!(plain.contains("every day at 09:00") && plain.contains("2026-01-02T09:00:00.000Z"), "{plain}");
    let json = next(&["0 9 * * *", "-n", "1", "--timezone", "Asia/Tokyo", "--json", day[0], day[1]]);
    assert_eq!(json.trim(), r#"{"times":["2026-01-02T00:00:00.000Z"]}"#);
    let quartz = next(&["0 0 9 ? * 2", "-n", "1", "--dialect", "quartz", "--json", day[0], day[1]]);
    assert_eq!(quartz.trim(), r#"{"times":["2026-01-05T09:00:00.000Z"]}"#);
    let home = Home::new();
    std::fs::write(home.path("questions"), "{\"expr\":\"@daily\",\"timezone\":\"Asia/Tokyo\",\"from\":\"2026-01-01T00:00:00Z\",\"count\":1}\n{\"expr\":\"bad\"}\n").expect("a file");
    let questions = std::fs::File::open(home.path("questions")).expect("a file");
    let answers = cadran().args(["next", "--stdin"]).stdin(questions).output().expect("it starts");
    let lines: Vec<String> = stdout(&answers).lines().map(str::to_owned).collect();
    assert_eq!(lines[0], r#"{"times":["2026-01-01T15:00:00.000Z"]}"#);
    assert!(lines[1].starts_with(r#"{"error":"#), "{lines:?}");
    for wrong in [
        &["61 * * * *"][..],
        &["* * * * *", "--dialect", "klingon"],
        &["* * * * *", "--from", "soon"],
        &["@daily", "--timezone", "Mars/Olympus"],
    ] {
        let output = run(&[&["next"], wrong].concat());
        assert!(!output.status.success() && said(&output).contains("error"), "{wrong:?}: {}", said(&output));
    }
}

// covers: command plan
// covers: option plan --{jobs,from,to,timezone,json}
#[test]
fn plan_lists_every_due_of_a_window() {
    let home = Home::new();
    home.job("a", "schedule: '0 9 * * *'\nrun: x\n");
    home.job("b", "schedule: every 12h\nrun: x\n");
    home.job("wrong", "schedule: x\nrun: x\n");
    let plan = |more: &[&str]| {
        run(&[
            &[
                "plan",
                "--jobs",
                &jobs(&home),
                "--from",
                "2026-01-01T00:00:01Z",
                "--to",
                "2026-01-01T12:00:01Z",
            ],
            more,
        ]
        .concat())
    };
    let text = plan(&[]);
    assert_eq!(
        (text.status.code(), stdout(&text).as_str()),
        (Some(1), "2026-01-01T09:00:00.000Z  a\n2026-01-01T12:00:00.000Z  b\n")
    );
    assert!(said(&text).contains("wrong.yaml"), "{}", said(&text));
    let tokyo = plan(&["--timezone", "Asia/Tokyo", "--json"]);
    assert!(
        stdout(&tokyo).starts_with("{\"due\":\"2026-01-01T12:00:00.000Z\",\"job\":\"b\"}"),
        "{}",
        said(&tokyo)
    );
    let soon = run(&["plan", "--jobs", &jobs(&home), "--to", "+24h"]);
    assert_eq!(stdout(&soon).lines().count(), 3, "{}", said(&soon));
}

// covers: option plan --{conflicts,assume}
#[test]
fn plan_says_which_dues_would_wait_for_which() {
    let home = Home::new();
    home.job("backup", "schedule: '0 9 * * *'\nrun: x\nfootprint: {writes: ['table:orders']}\n");
    home.job("report", "schedule: '1 9 * * *'\nrun: x\nfootprint: {reads: ['table:orders']}\n");
    home.job("often", "schedule: '*/2 9 * * *'\nrun: x\n");
    let plan = |more: &[&str]| {
        let jobs = jobs(&home);
        let window = ["--from", "2026-01-01T08:00:00Z", "--to", "2026-01-01T09:03:00Z"];
        run(&[&["plan", "--jobs", &jobs], &window[..], &["--conflicts"], more].concat())
    };
    let output = plan(&["--assume", "3m"]);
    assert_eq!(
        stdout(&output),
        "2026-01-01T09:01:00.000Z  report  waits 120 s, behind backup of 2026-01-01T09:00:00.000Z for table:orders\n\
         2026-01-01T09:02:00.000Z  often  skipped, the job was still active, and overlap is skip, behind often of \
         2026-01-01T09:00:00.000Z\n",
        "{}",
        said(&output)
    );
    assert!(said(&output).contains("of 4 dues 1 would wait and 1 be skipped, if every run takes 3m"));
    // A minute each, unless said otherwise: nobody is in anybody's way.
    assert_eq!(stdout(&plan(&[])), "");
    let rows = plan(&["--assume", "90s", "--json"]);
    let row: serde_json::Value = serde_json::from_str(stdout(&rows).trim()).expect("one line of JSON");
    assert_eq!((&row["job"], &row["behind"]["key"]), (&"report".into(), &"table:orders".into()), "{row}");
    assert_eq!(row["starts"], "2026-01-01T09:01:30.000Z");
    for wrong in [&["--assume", "soon"][..], &["--assume", "0s"]] {
        let output = plan(wrong);
        assert!(!output.status.success() && said(&output).contains("--assume"), "{}", said(&output));
    }
}

// covers: command import
// covers: command import xxl-job
// covers: option import xxl-job DUMP|URL
// covers: option import xxl-job --{to,timezone,json}
#[test]
fn import_writes_job_files_from_a_dump() {
    let home = Home::new();
    let dump = "INSERT INTO `xxl_job_group` (`id`,`app_name`,`title`,`address_type`,`address_list`,`update_time`) VALUES (1,'billing','Billing',1,'http://10.0.0.5:9999','2026-01-01 00:00:00');\n\
                INSERT INTO `xxl_job_info` (`id`,`job_group`,`job_desc`,`add_time`,`update_time`,`author`,`alarm_email`,`schedule_type`,`schedule_conf`,`misfire_strategy`,`executor_route_strategy`,`executor_handler`,`executor_param`,`executor_block_strategy`,`executor_timeout`,`executor_fail_retry_count`,`glue_type`,`glue_source`,`glue_remark`,`glue_updatetime`,`child_jobid`,`trigger_status`,`trigger_last_time`,`trigger_next_time`) VALUES (7,1,'settle accounts',NULL,NULL,'x','','CRON','0 0 9 * * ?','DO_NOTHING','ROUND','settle','a b','SERIAL_EXECUTION',0,0,'BEAN','','',NULL,'',1,0,0);\n";
    std::fs::write(home.path("dump.sql"), dump).expect("a file");
    let (dump, to) = (home.path("dump.sql").display().to_string(), home.path("made").display().to_string());
    let output = run(&["import", "xxl-job", &dump, "--to", &to, "--timezone", "Asia/Shanghai", "--json"]);
    assert!(output.status.success(), "{}", said(&output));
    serde_json::from_str::<serde_json::Value>(&stdout(&output)).expect("JSON");
    let planned =
        run(&["plan", "--jobs", &to, "--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T02:00:00Z"]);
    assert!(stdout(&planned).starts_with("2026-01-01T01:00:00.000Z"), "{} {}", said(&planned), said(&output));
    let missing = run(&["import", "xxl-job", "/nonexistent.sql", "--to", &to]);
    assert!(!missing.status.success() && said(&missing).contains("/nonexistent.sql"), "{}", said(&missing));
}
