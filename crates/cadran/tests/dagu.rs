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

// covers: command import dagu
// covers: option import dagu DIR|FILE
// covers: option import dagu --{to,as,dry-run,json}
#[test]
fn files_become_ones_of_our_own_and_do_the_same() {
    let home = Home::new();
    let (from, to) = (home.path("dags"), home.path("imported"));
    fs::create_dir_all(from.join("sub")).expect("a folder");
    fs::create_dir_all(from.join(".git")).expect("a folder");
    let text = "# kept by nobody\nname: daily\nschedule:\n  - \"0 4 * * *\"\ngroup: etl\nqueue: one\nmaxActiveRuns: 1\nhistRetentionDays: 7\n\
                env:\n  - DAY: \"`echo monday`\"\nparams: TEAM=\"red one\"\nsteps:\n  - name: make\n    command: |\n      echo '{\"a\": \
                5}'\n    output: OUT\n  - command:\n      - echo \"$DAY ${OUT.a} $TEAM\"\n      - exit 0\n    retryPolicy: {limit: 1, \
                intervalSec: 1}\n  - command: exit 4\n    continueOn: failed\nhandlerOn:\n  exit:\n    command: echo \"ended \
                $DAG_RUN_STATUS\"\n";
    fs::write(from.join("sub/daily.yaml"), text).expect("a file");
    fs::write(from.join("bad.yaml"), "steps:\n  - call: other\n").expect("a file");
    fs::write(from.join("twice.yml"), "name: daily\nsteps: [echo x]\n").expect("a file");
    fs::write(from.join("binary.yaml"), b"\x00\x01\xff").expect("a file");
    fs::write(from.join(".git/hidden.yaml"), "steps: [echo x]\n").expect("a file");
    let import = |args: &[&str]| {
        let mut command = cadran();
        command.env("SHELL", "/bin/sh").args(["import", "dagu"]).arg(&from).arg("--to").arg(&to).args(args);
        command.output().expect("it starts")
    };
    let dry = import(&["--dry-run"]);
    assert!(!to.exists() && said(&dry).contains("1 job files would be written"), "{}", said(&dry));
    let output = import(&["--as", "dagu"]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "files were left out: {text}");
    for part in [
        "sub/daily.yaml: written daily.yaml",
        "line 6: `queue` became the footprint",
        "is found out by a step before the others",
        "bad.yaml: left out",
        "bad.yaml:2:5",
        "there is already a job named daily",
        "binary.yaml: left out",
        ".git: hidden",
        "1 job files written",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let again = import(&["--json"]);
    let view: serde_json::Value = serde_json::from_slice(&again.stdout).expect("JSON");
    let of = |name: &str| {
        view["files"].as_array().expect("files").iter().find(|file| file["source"] == name).cloned()
    };
    assert_eq!(of("sub/daily.yaml").expect("it is named")["outcome"], "unchanged");
    let checked = cadran().arg("check").arg(&to).output().expect("it starts");
    assert!(checked.status.success() && said(&checked).contains("1 good"), "{}", said(&checked));
    // The same in both forms.
    let prints = |file: std::path::PathBuf| {
        let output = cadran().env("SHELL", "/bin/sh").arg("run").arg(file).output().expect("it starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let own = prints(to.join("daily.yaml"));
    assert!(own.contains("monday 5 red one") && own.contains("ended partially_succeeded"), "{own}");
    assert_eq!(own, prints(from.join("sub/daily.yaml")));
}

#[test]
#[allow(clippy::disallowed_methods)] // a server of the test, which ends with it
fn a_step_of_the_kind_http_is_a_request() {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a caller");
        let mut bytes = [0; 4096];
        let len = stream.read(&mut bytes).expect("a request");
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 11\r\nconnection: close\r\n\r\n{\"a\": \"ok\"}";
        stream.write_all(answer.as_bytes()).expect("an answer");
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    });
    let text = format!(
        "env: {{WHAT: things}}\nsteps:\n  - name: ask\n    executor:\n      type: http\n      config:\n        query: {{q: $WHAT}}\n        \
         headers: {{X-Kind: $WHAT}}\n    command: GET http://127.0.0.1:{port}/api\n    output: ANSWER\n  - command: echo got \
         ${{ANSWER.a}}\n"
    );
    check(&text, &["--allow-http", "127.0.0.1"], 0, &["got ok"]);
    let request = asked.join().expect("it was asked");
    assert!(request.starts_with("GET /api?q=things ") && request.contains("x-kind: things"), "{request}");
}
