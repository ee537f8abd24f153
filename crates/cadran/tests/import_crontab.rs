//! Crontabs become job files, through the built binary.

mod support;

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use support::{Home, cadran};

const TABLE: &str = "# how much room is left
PATH=/usr/bin:/bin
GREETING=\"hello there\"
* * * * * echo \"$GREETING\" from \"$PWD\"; cat%one%two \\% three
*/5 1-3 * * MON-FRI /opt/backup.sh >/dev/null 2>&1
61 * * * * broken
@reboot /opt/start
";

fn import(home: &Home, args: &[&str]) -> (PathBuf, Output) {
    let table = home.path("crontab");
    fs::write(&table, TABLE).expect("a table");
    let to = home.path("imported");
    let output = cadran()
        .args(["import", "crontab"])
        .arg(&table)
        .arg("--to")
        .arg(&to)
        .args(args)
        .output()
        .expect("it starts");
    (to, output)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

// covers: option import crontab --{dry-run,json}
#[test]
fn each_line_is_written_or_named_with_its_reason() {
    let home = Home::new();
    let (to, dry) = import(&home, &["--dry-run"]);
    assert!(!to.exists() && said(&dry).contains("3 job files would be written"), "{}", said(&dry));
    let (to, output) = import(&home, &[]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "a line was left out: {text}");
    for part in [
        ":4: written",
        ":5: written backup.yaml",
        ":6: left out",
        "61",
        ":7: written start.yaml",
        "3 job files written",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let checked = cadran().arg("check").arg(&to).output().expect("it starts");
    assert!(checked.status.success(), "{}", said(&checked));
    // A second time nothing changes.
    let (_, again) = import(&home, &["--json"]);
    let report: serde_json::Value = serde_json::from_slice(&again.stdout).expect("a report");
    let outcomes: Vec<&str> = report["lines"]
        .as_array()
        .expect("lines")
        .iter()
        .filter_map(|line| line["outcome"].as_str())
        .collect();
    assert_eq!(outcomes, ["setting", "setting", "unchanged", "unchanged", "left out", "unchanged"]);
    // A file that somebody changed is left alone.
    fs::write(to.join("backup.yaml"), "run: mine\n").expect("a change");
    let (_, kept) = import(&home, &[]);
    assert!(said(&kept).contains(":5: kept backup.yaml"), "{}", said(&kept));
    assert_eq!(fs::read_to_string(to.join("backup.yaml")).expect("a file"), "run: mine\n");
}

#[test]
fn an_imported_job_does_what_cron_did() {
    let home = Home::new();
    let (to, _) = import(&home, &[]);
    let file = fs::read_dir(&to)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .find(|path| fs::read_to_string(path).expect("a file").contains("GREETING\\\""))
        .expect("the first line's file");
    let output = cadran().arg("run").arg(&file).output().expect("it starts");
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    for part in ["hello there from ", "one\n", "two % three\n"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

// covers: option import crontab --system
#[test]
fn what_is_no_crontab_is_refused() {
    let home = Home::new();
    let refused = |args: &[&str], input: &[u8], says: &str| {
        let to = home.path("none");
        let mut child = cadran()
            .args(["import", "crontab"])
            .args(args)
            .arg("--to")
            .arg(&to)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        // It may have ended without reading.
        let _ = child.stdin.take().expect("a pipe").write_all(input);
        let output = child.wait_with_output().expect("it ends");
        assert!(!output.status.success() && said(&output).contains(says), "{args:?}: {}", said(&output));
        assert!(!to.exists());
    };
    refused(&["-"], b"\x7fELF\0\0", "binary");
    refused(&["-"], b"* * * * * \xff", "UTF-8");
    refused(&["/nonexistent/table"], b"", "cannot read /nonexistent/table");
    refused(&["-", "--timezone", "Mars/Base"], b"@daily x", "Mars/Base");
    refused(&["-", "--system"], b"", "--system");
}

// covers: command import crontab
// covers: option import crontab FILE
// covers: option import crontab --{user-column,timezone,to}
#[test]
fn the_user_column_is_read_where_there_is_one() {
    let home = Home::new();
    let table = home.path("system-table");
    fs::write(&table, "17 * * * * nobody /opt/clean\n").expect("a table");
    let to = home.path("imported");
    let output = cadran()
        .args(["import", "crontab", "--user-column", "--timezone", "Europe/Paris"])
        .arg(&table)
        .arg("--to")
        .arg(&to)
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", said(&output));
    let text = fs::read_to_string(to.join("clean.yaml")).expect("a file");
    assert!(text.contains(r#"["runuser","-u","nobody","--","/bin/sh","-c","/opt/clean"]"#), "{text}");
    assert!(text.contains("Europe/Paris"), "{text}");
}

// covers: option import crontab --user
#[test]
fn the_table_of_another_user_is_asked_of_crontab_and_runs_as_that_user() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    // What `crontab -l -u NAME` prints, without one that is installed.
    let bin = home.path("bin");
    fs::create_dir(&bin).expect("a directory");
    let script = "#!/bin/sh\n[ \"$*\" = '-l -u daemon' ] || { echo \"no crontab for $3\" >&2; exit 1; }\necho '@daily /opt/clean'\n";
    fs::write(bin.join("crontab"), script).expect("a file");
    fs::set_permissions(bin.join("crontab"), fs::Permissions::from_mode(0o755)).expect("ours");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let import = |user: &str| {
        let to = home.path(user);
        let mut command = cadran();
        command.env("PATH", &path).args(["import", "crontab", "--user", user]).arg("--to").arg(&to);
        (to, command.output().expect("it starts"))
    };
    let (to, output) = import("daemon");
    assert!(output.status.success() && said(&output).contains("crontab of daemon:1"), "{}", said(&output));
    // Not as whoever runs the server.
    let text = fs::read_to_string(to.join("clean.yaml")).expect("a file");
    assert!(text.contains(r#"["runuser","-u","daemon","--","/bin/sh","-c","/opt/clean"]"#), "{text}");
    let (to, refused) = import("nobody");
    assert!(
        !refused.status.success() && said(&refused).contains("no crontab for nobody"),
        "{}",
        said(&refused)
    );
    assert!(!to.exists());
}
