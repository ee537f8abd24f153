//! Files in Dagu's form, and the keys they need, through the built binary.

mod support;

use std::fs;
use std::process::Output;

use support::{Home, cadran};

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn run(home: &Home, text: &str, args: &[&str]) -> Output {
    let file = home.path("jobs").join("job.yaml");
    fs::write(&file, text).expect("a file");
    cadran().env("SHELL", "/bin/sh").arg("run").arg(&file).args(args).output().expect("it starts")
}

#[track_caller]
fn check(text: &str, args: &[&str], code: i32, prints: &[&str]) {
    let home = Home::new();
    let output = run(&home, text, args);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for part in prints {
        assert!(said.contains(part), "{part}: {said}");
    }
}

// covers: option run --as
#[test]
fn the_same_file_means_what_its_dialect_says() {
    let text =
        "env:\n  - DAY: \"`echo monday`\"\nsteps:\n  - \"false; echo goes on\"\n  - echo behind $DAY\n";
    check(text, &[], 0, &["goes on", "behind `echo monday`"]);
    check(text, &["--as", "cadran"], 0, &["goes on"]);
    let dagu = Home::new();
    let output = run(&dagu, text, &["--as", "dagu"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!said(&output).contains("goes on") && !said(&output).contains("behind"), "{}", said(&output));
    // What the file says itself counts more.
    check(&format!("dialect: cadran\n{text}"), &["--as", "dagu"], 0, &["goes on"]);
    // Parallel since Dagu 2.7: the second step does not wait for the first.
    check(text, &["--as", "dagu-2.7"], 1, &["behind monday"]);
    check(text, &["--as", "airflow"], 2, &["allowed are cadran, dagu, dagu-2.7"]);
}

#[test]
fn key_names_of_dagu_make_the_whole_file_one() {
    let text = "handlerOn:\n  exit:\n    command: echo status $DAG_RUN_STATUS\nsteps:\n  - name: make\n    \
                command: \"echo '{\\\"a\\\": {\\\"b\\\": [1, \\\"x y\\\"]}}'\"\n    output: OUT\n  - id: use\n    \
                command: echo got ${OUT.a.b[1]} in $(pwd)\n  - command: |\n      grep -c got ${use.stdout}\n";
    check(text, &[], 0, &["got x y in", "/jobs", "\n1\n", "status succeeded"]);
    // A key of Cadran's own beside them keeps the file Cadran's.
    check("misfire: skip\nsteps:\n  - command: \"false; echo own\"\n", &[], 0, &["own"]);
    // A path that is not there fails the step instead of giving it half a command.
    let text = "steps:\n  - command: echo '{}'\n    output: OUT\n  - command: echo ${OUT.nothing}\n";
    check(text, &[], 1, &["there is no `nothing` in OUT"]);
}

// covers: key job.{create_dir,dotenv,partial_success}
#[test]
fn files_of_environment_missing_directories_and_forgiven_failures() {
    let home = Home::new();
    fs::write(home.path("jobs").join("own.env"), "# not recorded\nTOKEN='s e'\nURL=\"http://${TOKEN}\"\n")
        .expect("a file");
    let text = "dotenv: [own.env, absent.env]\ncreate_dir: true\npartial_success: true\ndir: made/below\nsteps:\n  - name: bad\n    \
                run: exit 3\n    continue_on: failure\n  - {name: good, depends: bad, run: 'echo $URL; pwd'}\n\
                handlers:\n  exit: echo ended $CADRAN_RUN_STATUS\n";
    let file = home.path("jobs").join("job.yaml");
    fs::write(&file, text).expect("a file");
    let output = cadran().current_dir(home.path("")).arg("run").arg(&file).output().expect("it starts");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    for part in ["http://s e", "made/below", "ended partially_succeeded", "job partially_succeeded"] {
        assert!(said(&output).contains(part), "{part}: {}", said(&output));
    }
    // Not outside of the folder: neither by its name nor by a link.
    check(
        "dotenv: ../secret.env\nrun: echo no\n",
        &[],
        1,
        &["`../secret.env` leads out of the folder", ":1:9"],
    );
    let home = Home::new();
    fs::write(home.path("secret.env"), "A=secret\n").expect("a file");
    std::os::unix::fs::symlink(home.path("secret.env"), home.path("jobs").join("in.env")).expect("a link");
    let output = run(&home, "dotenv: in.env\nrun: echo got $A\n", &[]);
    assert!(said(&output).contains("lies outside of") && !said(&output).contains("got"), "{}", said(&output));
    // A line that is no assignment is named by its number alone: values may be secrets.
    fs::write(home.path("jobs").join("bad.env"), "A=1\nhunter2\n").expect("a file");
    let output = run(&home, "dotenv: bad.env\nrun: echo got\n", &[]);
    assert!(said(&output).contains("line 2 is not NAME=value") && !said(&output).contains("hunter2"));
}

// covers: option check --as
// covers: key resources_file.dialect
#[test]
fn a_folder_may_be_one_of_dagu_files() {
    let home = Home::new();
    let jobs = home.path("jobs");
    fs::write(jobs.join("plain.yaml"), "steps:\n  - echo one\n  - echo two\n").expect("a file");
    let check = |args: &[&str]| cadran().arg("check").arg(&jobs).args(args).output().expect("it starts");
    let chain = "its steps run one after another";
    assert!(!said(&check(&[])).contains(chain), "Cadran's own reading");
    assert!(said(&check(&["--as", "dagu"])).contains(chain));
    fs::write(jobs.join("resources.yaml"), "dialect: dagu\n").expect("a file");
    assert!(said(&check(&[])).contains(chain), "{}", said(&check(&[])));
    // One mistake, one message, with its place and what to write.
    fs::write(
        jobs.join("plain.yaml"),
        "steps:\n  - name: a\n    command: x\n    call: other\n    aproval: {}\n",
    )
    .expect("a file");
    let text = said(&check(&[]));
    assert!(text.contains("plain.yaml:4:5") && text.contains("plain.yaml:5:5"), "{text}");
    assert!(text.contains("0 good, 1 with errors"), "{text}");
    // Commands that run by themselves are said.
    fs::write(jobs.join("plain.yaml"), "env: {DAY: '`date`'}\nlogDir: /tmp\nsteps: [echo $DAY]\n")
        .expect("a file");
    let text = said(&check(&[]));
    assert!(
        text.contains("`date` in backticks is run") && text.contains("`logDir` has no effect here"),
        "{text}"
    );
}

#[test]
fn in_a_file_of_our_own_what_dagu_would_evaluate_is_warned_of() {
    let home = Home::new();
    let file = home.path("jobs").join("own.yaml");
    fs::write(&file, "dir: $HOME\nenv: {A: '`date`', B: '$A', C: '${A}'}\nsteps:\n  - {name: a, cmd: [echo, x]}\npriority: 1\n")
        .expect("a file");
    let output = cadran().arg("check").arg(&file).output().expect("it starts");
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    for part in [
        "`$HOME` stays text here",
        "backticks stays text here",
        "`$A` stays text here",
        "one program and its arguments",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("`$C`"), "{text}");
}
