//! What a step runs, where, with which environment and shell, and what becomes of its output.

use super::{run_job, run_job_with};

// covers: key job.{run,command,cmd}
// covers: key step.{name,run,command,cmd,description}
// covers: command run
// covers: option run FILE
#[test]
fn commands_are_lines_for_a_shell_or_programs_with_arguments() {
    for key in ["run", "command", "cmd"] {
        let ran = run_job(&format!("{key}: echo one | tr a-z A-Z > out\n"));
        assert_eq!((ran.code, ran.lines("out")), (Some(0), vec!["ONE".to_owned()]), "{key}: {}", ran.said);
        // A list is no shell line: the pipe is an argument. In Dagu's reading it is several commands.
        let text = format!(
            "dialect: cadran\nsteps:\n  - name: list\n    description: a program\n    {key}: [echo, a | b, \"${{X}}\"]\n    env: {{X: 'c $(id)'}}\n    stdout: out\n"
        );
        let ran = run_job(&text);
        assert_eq!(ran.lines("out"), ["a | b c $(id)"], "{key}: {}", ran.said);
        assert_eq!(ran.steps(), ["list succeeded"]);
    }
    let failed = run_job("run: exit 7\n");
    assert_eq!((failed.code, &failed.step("main")["exit_code"]), (Some(7), &7.into()), "{}", failed.said);
    let missing = run_job("run: [no-such-program-anywhere]\n");
    assert!(missing.code.is_some_and(|code| code > 0), "{}", missing.said);
    assert!(missing.step("main")["message"].as_str().is_some_and(|text| text.contains("no-such-program")));
}

// covers: option run --{json,timezone}
#[test]
fn a_run_in_the_foreground_answers_programs_and_checks_its_zone() {
    let home = super::Home::new();
    home.job("job", "schedule: '0 9 * * *'\nrun: echo hello\n");
    let file = home.path("jobs/job.yaml").display().to_string();
    let run = |more: &[&str]| super::cadran().args(["run", &file]).args(more).output().expect("it starts");
    assert_eq!(super::stdout(&run(&["--timezone", "Asia/Tokyo"])), "hello\n");
    let summary: serde_json::Value = serde_json::from_slice(&run(&["--json"]).stdout).expect("one object");
    assert_eq!((&summary["status"], &summary["job"]), (&"succeeded".into(), &"job".into()));
    let wrong = run(&["--timezone", "Mars/Olympus"]);
    assert!(
        !wrong.status.success() && super::said(&wrong).contains("Mars/Olympus"),
        "{}",
        super::said(&wrong)
    );
}

// covers: key job.{script,shell,dir,working_dir,env}
// covers: key step.{script,shell,dir,working_dir,env}
#[test]
fn scripts_shells_directories_and_environments_reach_the_process() {
    let text = "env: {A: job, B: job}\nshell: bash -e\ndir: inner\nsteps:\n  - name: inherits\n    script: |\n      \
                echo \"$A $B $(basename \"$PWD\") ${BASH_VERSION:+bash}\"\n      false\n      echo unreached\n    \
                stdout: ../out\n    continue_on: failure\n  - name: overrides\n    depends: inherits\n    env: [B=step]\n    \
                working_dir: other\n    shell: /bin/sh\n    script: |\n      #!/bin/sh\n      \
                echo \"$A $B $(basename \"$PWD\") ${BASH_VERSION:+bash}\"\n    stdout: ../../out2\n";
    let home = super::Home::new();
    for dir in ["inner", "other", "inner/other"] {
        std::fs::create_dir(home.path(dir)).expect("a directory");
    }
    std::fs::write(home.path("job.yaml"), text).expect("a file");
    let output =
        super::cadran().args(["run", "job.yaml"]).current_dir(home.path("")).output().expect("it starts");
    assert_eq!(
        (home.lines("out"), home.lines("out2")),
        (vec!["job job inner bash".to_owned()], vec!["job step other ".to_owned()]),
        "{}",
        super::said(&output)
    );
    for (key, inner) in [("working_dir", "inner"), ("dir", "other")] {
        std::fs::write(home.path("job.yaml"), format!("{key}: {inner}\nscript: basename \"$PWD\"\n"))
            .expect("a file");
        let output =
            super::cadran().args(["run", "job.yaml"]).current_dir(home.path("")).output().expect("it starts");
        assert_eq!(super::stdout(&output).trim(), inner, "{}", super::said(&output));
    }
    std::fs::write(home.path("job.yaml"), "steps: [{name: a, dir: other, run: pwd}]\n").expect("a file");
    let output =
        super::cadran().args(["run", "job.yaml"]).current_dir(home.path("")).output().expect("it starts");
    assert!(super::stdout(&output).trim().ends_with("/other"), "{}", super::said(&output));
    // A directory that is not there fails the step and says so.
    let wrong = run_job("dir: nowhere\nrun: echo x\n");
    assert!(wrong.code.is_some_and(|code| code > 0) && wrong.said.contains("nowhere"), "{}", wrong.said);
}

// covers: key step.{output,stdout,stderr}
#[test]
fn streams_go_to_files_and_outputs_to_later_steps() {
    let text = "steps:\n  - name: make\n    run: printf '  two  words \\n\\n'; echo oops >&2\n    output: VALUE\n    \
                stdout: made\n    stderr: errors\n  - name: use\n    depends: make\n    run: [echo, \"[${VALUE}]\"]\n    stdout: used\n";
    let ran = run_job(text);
    assert_eq!(ran.step("make")["output"], "two  words", "{}", ran.said);
    assert_eq!(ran.lines("used"), ["[two  words]"]);
    assert_eq!(
        (ran.lines("made"), ran.lines("errors")),
        (vec!["  two  words ".into(), String::new()], vec!["oops".to_owned()])
    );
}

// covers: key job.params
// covers: key param.{name,default,required,description}
// covers: option run --param
#[test]
fn parameters_have_defaults_names_and_positions_and_may_be_required() {
    let echo = "run: echo \"$who $1 $2\" > out\n";
    for (params, given, expected) in [
        ("params: {who: world}", vec![], "world  "),
        ("params: {who: world}", vec!["--param", "who=you = me"], "you = me  "),
        ("params: 'a \"b c\" who=x'", vec![], "x a b c"),
        ("params: [a, who=x]", vec!["-p", "first"], "x first "),
        ("params: [{name: who, default: d, description: whom to greet}]", vec![], "d  "),
        ("params: {who: {required: true, description: whom to greet}}", vec!["--param", "who=r"], "r  "),
    ] {
        let ran = run_job_with(&format!("{params}\n{echo}"), &given);
        assert_eq!(ran.lines("out"), [expected], "{params} {given:?}: {}", ran.said);
    }
    let missing = run_job("params: {who: {required: true}}\nrun: echo x > out\n");
    assert!(missing.code.is_some_and(|code| code > 0) && missing.lines("out").is_empty(), "{}", missing.said);
    assert!(missing.said.contains("who"), "{}", missing.said);
    let unknown = run_job_with("params: {who: x}\nrun: echo x > out\n", &["--param", "whom=y"]);
    assert!(unknown.code.is_some_and(|code| code > 0) && unknown.said.contains("whom"), "{}", unknown.said);
}

// covers: key job.{timeout,timeout_sec}
// covers: key step.{timeout,timeout_sec}
#[test]
fn a_time_limit_ends_what_takes_longer() {
    for limit in ["timeout: 300ms", "timeout_sec: 1"] {
        let ran = run_job(&format!("{limit}\nrun: sleep 300\n"));
        assert_eq!(ran.code.map(|code| code > 0), Some(true), "{limit}: {}", ran.said);
        assert_ne!(ran.summary["status"], "succeeded", "{limit}: {}", ran.said);
        let ran = run_job(&format!(
            "steps:\n  - {{name: slow, run: sleep 300, {limit}, continue_on: failure}}\n  - {{name: next, depends: slow, run: echo on > out}}\n"
        ));
        assert_eq!(ran.steps(), ["slow failed", "next succeeded"], "{limit}: {}", ran.said);
        assert!(
            ran.step("slow")["message"].as_str().is_some_and(|text| text.contains("time")),
            "{}",
            ran.said
        );
        assert_eq!(ran.lines("out"), ["on"]);
    }
}
