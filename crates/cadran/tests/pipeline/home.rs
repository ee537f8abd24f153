//! A repository, a store and a target in one temporary directory.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;

pub(crate) struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    /// A target called `demo` on `repo`, in a store of its own.
    pub(crate) fn new() -> Home {
        let home = Home { dir: tempfile::tempdir().expect("a directory") };
        fs::create_dir(home.path("repo")).expect("made");
        home
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes the files of a new target.
    pub(crate) fn init(&self) {
        let store = format!("file://{}", self.path("store").display());
        let repo = self.path("repo").display().to_string();
        let output = self.cadran(&["init", "--target", "demo", "--repo", &repo, "--store", &store]);
        assert!(output.status.success(), "{}", said(&output));
    }

    /// Changes `fuzz.yaml`; each text must be there.
    pub(crate) fn edit(&self, changes: &[(&str, &str)]) {
        let path = self.path("fuzz.yaml");
        let mut text = fs::read_to_string(&path).expect("there");
        for (from, to) in changes {
            assert!(text.contains(from), "{from:?} is not in\n{text}");
            text = text.replace(from, to);
        }
        fs::write(path, text).expect("written");
    }

    /// A target whose commands are shell lines, for tests that need no compiler.
    pub(crate) fn plain(production: &str, fuzz: &str, more: &str) -> Home {
        let home = Home::new();
        home.git(&["init", "--quiet", "--initial-branch=main", "."]);
        home.commit("src/a.cpp", "int a;\n");
        fs::create_dir(home.path("store")).expect("made");
        home.settings(production, fuzz, more);
        home
    }

    /// Writes `fuzz.yaml` anew.
    pub(crate) fn settings(&self, production: &str, fuzz: &str, more: &str) {
        let quoted = |text: &str| serde_json::to_string(text).expect("text");
        let text = format!(
            "target: demo\nrepository: {}\nstore: {}\nbuild:\n  production: {}\n  coverage: 'echo > \"$CADRAN_OUT/cov\"'\n\
             \x20 timeout: 20s\nfuzz:\n  run: {}\n  duration: 12s\n  stop_buffer: 2s\n  grace: 300ms\n{more}",
            quoted(&self.path("repo").display().to_string()),
            quoted(&format!("file://{}", self.path("store").display())),
            quoted(production),
            quoted(fuzz),
        );
        fs::write(self.path("fuzz.yaml"), text).expect("written");
    }

    /// Moves the target to another store.
    pub(crate) fn move_to(&self, store: &str) {
        self.edit(&[(&format!("file://{}", self.path("store").display()), store)]);
    }

    /// Commits one file, and gives the hash.
    pub(crate) fn commit(&self, file: &str, text: &str) -> String {
        let path = self.path("repo").join(file);
        fs::create_dir_all(path.parent().expect("below")).expect("made");
        fs::write(&path, text).expect("written");
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", file]);
        self.git(&["rev-parse", "HEAD"]).trim().to_owned()
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        let output = git(&self.path("repo")).args(args).output().expect("git starts");
        assert!(output.status.success(), "git {args:?}: {}", said(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// `cadran fuzz …`, not yet started.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cadran"));
        command.arg("fuzz").args(args).current_dir(self.dir.path());
        command.env("CADRAN_FUZZ_CACHE", self.path("cache")).env_remove("CADRAN_FUZZ_CONFIG");
        // Signals of a test go to one process, not to the test's own group.
        command.process_group(0);
        command
    }

    pub(crate) fn cadran(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the binary starts")
    }

    /// What a command answers with `--json`, when it ends with this code.
    pub(crate) fn json(&self, code: i32, args: &[&str]) -> Value {
        let output = self.command(args).arg("--json").output().expect("the binary starts");
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", said(&output));
        let text = String::from_utf8_lossy(&output.stdout);
        // Passes over many commits answer one line each.
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        if lines.len() == 1 { lines[0].clone() } else { Value::Array(lines) }
    }

    /// What a command says that ends with this code instead of an answer.
    pub(crate) fn refused(&self, code: i32, args: &[&str]) -> String {
        let output = self.cadran(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", said(&output));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    pub(crate) fn status(&self) -> Value {
        self.json(0, &["status"])
    }

    /// The schedule as (hash, count).
    pub(crate) fn schedule(&self) -> Vec<(String, u64)> {
        let status = self.status();
        let entries = status["schedule"].as_array().cloned().unwrap_or_default();
        let entry = |entry: &Value| (text(&entry["hash"]), entry["fuzz_count"].as_u64().unwrap_or(u64::MAX));
        entries.iter().map(entry).collect()
    }

    /// Keys in the store that begin so, below the target.
    pub(crate) fn keys(&self, prefix: &str) -> Vec<String> {
        let root = self.path("store/solvers/demo");
        let mut found = Vec::new();
        let mut open = vec![root.clone()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    open.push(path);
                } else {
                    let key = path.strip_prefix(&root).expect("below").display().to_string();
                    found.extend(Some(key).filter(|key| key.starts_with(prefix)));
                }
            }
        }
        found.sort();
        found
    }

    pub(crate) fn object(&self, key: &str) -> String {
        fs::read_to_string(self.path("store/solvers/demo").join(key)).expect("there")
    }
}

fn git(repo: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(repo).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    git.env("GIT_AUTHOR_NAME", "A").env("GIT_AUTHOR_EMAIL", "a@example.org");
    git.env("GIT_COMMITTER_NAME", "C").env("GIT_COMMITTER_EMAIL", "c@example.org");
    git
}

pub(crate) fn said(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{}\n{out}\n{err}", output.status)
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

/// Texts of a list.
pub(crate) fn texts(value: &Value) -> Vec<String> {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}")).iter().map(text).collect()
}

/// Waits for a named moment.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    // 60 s: far longer than any of these moments takes, also on a machine that is busy with other tests.
    for _ in 0..1_200 {
        if let Some(found) = look() {
            return found;
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
    panic!("waited for {what} in vain");
}

/// Whether a process is there and not a zombie.
pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}
