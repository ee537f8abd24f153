//! What server and worker keep on disk is for their owner alone, through the built binary.

mod support;

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::{Home, cadran, wait_for};

/// The command, under a umask that takes no right from anybody.
fn with_open_umask(command: &Command) -> Command {
    let mut open = Command::new("sh");
    open.args(["-c", "umask 0; exec \"$@\"", "sh"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => open.env(name, value),
            None => open.env_remove(name),
        };
    }
    open.stdin(Stdio::null()).stdout(Stdio::piped());
    open
}

/// Everything below a directory that somebody but its owner may use.
fn exposed(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for path in fs::read_dir(&dir).expect("listed").map(|entry| entry.expect("an entry").path()) {
            // SQLite may remove its files beside the database meanwhile.
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            if metadata.mode() & 0o077 != 0 {
                found.push(path.clone());
            }
            if metadata.is_dir() {
                dirs.push(path);
            }
        }
    }
    found.extend((fs::metadata(dir).expect("there").mode() & 0o077 != 0).then(|| dir.to_owned()));
    found
}

/// A data directory as the version before left it, with the rights it gave.
fn open_to_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("listed").map(|entry| entry.expect("an entry")) {
        let path = to.join(entry.file_name());
        if entry.path().is_dir() {
            open_to_all(&entry.path(), &path);
        } else if entry.path().is_file() {
            fs::copy(entry.path(), &path).expect("copied");
            fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("set");
        }
    }
    fs::set_permissions(to, Permissions::from_mode(0o755)).expect("set");
}

#[test]
fn everybody_on_the_machine_could_read_the_data_of_server_and_worker() {
    let home = Home::new();
    open_to_all(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/data-0.1.0")), &home.data());
    // Job files are the user's.
    fs::remove_dir_all(home.data().join("jobs")).expect("removed");
    open_to_all(&home.data().join("exec"), &home.data().join("logs/0abc/0abc000000000"));
    fs::write(home.data().join("executors.yaml"), "token: some-secret-of-executors\n").expect("written");
    home.job("here", "run: echo something\n");
    home.job("away", "executor: g\nrun: echo something\n");
    let mut serve = home.serve_command(&["--executor-listen", "127.0.0.1:0"]);
    serve.env("CADRAN_EXECUTOR_TOKEN", "some-secret-of-executors");
    let server = home.start(with_open_umask(&serve));
    assert!(home.client(&["trigger", "here", "--wait"]).status.success());
    let door = server.ready.split("executors on ").nth(1).expect("a door").trim().to_owned();
    let mut worker = cadran();
    worker.args(["worker", "--group", "g", "--json", "--server", &door, "--data"]).arg(home.path("w"));
    worker.env("CADRAN_EXECUTOR_TOKEN", "some-secret-of-executors");
    open_to_all(&home.data().join("exec"), &home.path("w/logs"));
    let mut worker = with_open_umask(&worker).spawn().expect("it starts");
    let lines = BufReader::new(worker.stdout.take().expect("a pipe")).lines();
    lines.map_while(Result::ok).find(|line| line.contains("connected")).expect("it connects");
    let away = home.client(&["trigger", "away", "--wait"]);
    assert!(away.status.success(), "{}", String::from_utf8_lossy(&away.stderr));
    assert_eq!(exposed(&home.data()), Vec::<PathBuf>::new());
    assert_eq!(exposed(&home.path("w")), Vec::<PathBuf>::new());
    assert!(home.data().join("cadran.db-wal").exists(), "looked at while it is written");
    worker.kill().expect("it is ours");
    worker.wait().expect("it ends");
    assert!(server.stop().success());
}

#[test]
fn data_of_another_user_is_refused_with_the_reason() {
    let home = Home::new();
    // Only root can give a file away; others look at a directory of root's.
    let is_root = nix::unistd::geteuid().is_root();
    let foreign = if is_root { home.path("foreign") } else { PathBuf::from("/usr") };
    if is_root {
        fs::create_dir(&foreign).expect("made");
        chown(&foreign, Some(12_345), Some(12_345)).expect("given away");
    }
    let mut serve = cadran();
    serve
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(&foreign)
        .arg("--jobs")
        .arg(home.path("jobs"));
    let mut worker = cadran();
    worker
        .args(["worker", "--group", "g", "--data"])
        .arg(&foreign)
        .env("CADRAN_EXECUTOR_TOKEN", "some-secret");
    for command in [&mut serve, &mut worker] {
        let output = command.output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{said}");
        for part in [foreign.to_str().expect("a path"), "belongs to user", "so its data would not be private"]
        {
            assert!(said.contains(part), "{part:?} in {said}");
        }
    }
}

#[test]
fn a_data_directory_of_the_version_before_is_taken_over_whole() {
    let home = Home::new();
    let before = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/data-0.1.0"));
    open_to_all(before, &home.data());
    fs::remove_dir_all(home.path("jobs")).expect("removed");
    open_to_all(&before.join("jobs"), &home.path("jobs"));
    let server = home.serve();
    assert!(server.ready.contains("3 jobs"), "{}", server.ready);
    // Four runs that had ended, one that was on when the server was killed, and one that had not begun.
    for (id, status) in [
        ("0ajtq1m4w0000", "succeeded"),
        ("0ajtq1m4w0003", "succeeded"),
        ("0ajtq1my80000", "running"),
        ("0ajtq1m4w0004", "skipped"),
    ] {
        wait_for(id, || (server.get(&format!("/api/v1/runs/{id}")).1["status"] == status).then_some(()));
    }
    assert!(!home.log().contains("damaged"), "{}", home.log());
    assert!(server.stop().success());
}
