//! A corpus of bad job files, the same every time: what people mistype, what programs leave half-written, and what
//! somebody sends to bring a server down.
//!
//! `cargo xtask bad-input DIR` writes it; the tests of the binary read it from here.

mod jobs;
mod random;
mod schedules;
mod text;
mod yaml;

use std::fs;
use std::io;
use std::path::Path;

/// One bad file.
pub struct Bad {
    /// Its name, without folder: number and family.
    pub name: String,
    /// What is in it.
    pub content: Content,
    /// It must be refused. Otherwise it may be refused or accepted, as long as it is answered.
    pub refused: bool,
}

/// What a bad file holds.
pub enum Content {
    /// These bytes.
    Bytes(Vec<u8>),
    /// So many zeros, which take no place on the disk.
    Zeros(u64),
}

/// Every file of the corpus.
pub fn corpus() -> Vec<Bad> {
    let mut corpus = Corpus { files: Vec::new() };
    corpus.cut_and_torn();
    corpus.encodings();
    corpus.bombs();
    corpus.depth_and_size();
    corpus.keys();
    corpus.values();
    corpus.schedules();
    corpus.flows();
    corpus.footprints();
    corpus.yaml_features();
    corpus.names();
    corpus.random();
    corpus.files
}

/// Writes the corpus below a folder, with files that are bad as files. Gives the number of files.
pub fn write(folder: &Path) -> io::Result<usize> {
    fs::create_dir_all(folder)?;
    let files = corpus();
    for file in &files {
        let path = folder.join(&file.name);
        match &file.content {
            Content::Bytes(bytes) => fs::write(path, bytes)?,
            Content::Zeros(len) => fs::File::create(path)?.set_len(*len)?,
        }
    }
    Ok(files.len() + write_odd(folder)?)
}

/// Things in a folder that look like job files and are none. Reading some of them never ends.
#[cfg(unix)]
fn write_odd(folder: &Path) -> io::Result<usize> {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{PermissionsExt, symlink};
    let odd = folder.join("odd");
    fs::create_dir_all(odd.join("folder.yaml"))?;
    let links = [
        ("gone.yaml", "nowhere"),
        ("self.yaml", "self.yaml"),
        ("zero.yaml", "/dev/zero"),
        ("up", ".."),
        ("null.yaml", "/dev/null"),
    ];
    for (name, target) in links {
        symlink(target, odd.join(name))?;
    }
    for name in [
        &b"with space.yaml"[..],
        b"-flag.yaml",
        b".hidden.yaml",
        b"new\nline.yaml",
        b"esc\x1b[31m.yaml",
        b"\xff\xfe.yaml",
    ] {
        fs::write(odd.join(std::ffi::OsStr::from_bytes(name)), "run: x\n")?;
    }
    fs::write(odd.join(format!("{}.yaml", "n".repeat(200))), "run: x\n")?;
    // Nobody writes to it: whoever opens it waits.
    std::process::Command::new("mkfifo").arg(odd.join("pipe.yaml")).status()?;
    let closed = odd.join("closed.yaml");
    fs::write(&closed, "run: x\n")?;
    fs::set_permissions(closed, fs::Permissions::from_mode(0o000))?;
    Ok(links.len() + 10)
}

#[cfg(not(unix))]
fn write_odd(_: &Path) -> io::Result<usize> {
    Ok(0)
}

struct Corpus {
    files: Vec<Bad>,
}

/// A file with something of everything, which is good.
pub const WHOLE: &str = r#"name: whole
description: "one of everything"
labels: [a, b]
schedule:
  start: ["*/5 * * * *", {cron: "0 9 * * MON-FRI", timezone: Europe/Paris}]
  stop: "0 18 * * *"
timezone: Asia/Tokyo
misfire: all
catchup_window: 1h30m
overlap: wait
priority: 3
timeout: 10m
env: {COUNTRY: "no", PATH_TO: "${HOME}/x"}
params: {who: world, n: "1"}
footprint: {reads: ["db:a"], writes: ["db:b"]}
history: {days: 7}
max_active_steps: 4
steps:
  - name: first
    run: echo "hello $who"
    retry: {limit: 3, interval: 1s, backoff: 2, max_interval: 1m, exit_codes: [1, 2]}
    output: FIRST
  - name: second
    run: [echo, "${FIRST}"]
    depends: first
    timeout: 30s
    continue_on: {failure: true, exit_codes: [3]}
    preconditions: [{condition: "$who", expected: "re:w.*"}]
  - name: third
    script: |
      #!/bin/sh
      echo done
    depends: [first, second]
    signal_on_stop: SIGINT
handlers:
  success: echo well
  failure: {run: echo badly}
  exit: echo over
"#;

const SMALL: &str = "schedule: every 10s\nrun: echo hello\n";

const JOB_KEYS: &[&str] = &[
    "name",
    "description",
    "labels",
    "schedule",
    "timezone",
    "dialect",
    "dst",
    "misfire",
    "catchup_window",
    "overlap",
    "skip_if_successful",
    "priority",
    "timeout",
    "retry",
    "env",
    "params",
    "dir",
    "shell",
    "preconditions",
    "type",
    "steps",
    "handlers",
    "max_active_steps",
    "history",
    "footprint",
];

const STEP_KEYS: &[&str] = &[
    "name",
    "run",
    "script",
    "shell",
    "dir",
    "env",
    "depends",
    "retry",
    "timeout",
    "continue_on",
    "preconditions",
    "output",
    "stdout",
    "stderr",
    "signal_on_stop",
];

impl Corpus {
    fn add(&mut self, family: &str, refused: bool, bytes: impl Into<Vec<u8>>) {
        let name = format!("{:04}-{family}.yaml", self.files.len());
        self.files.push(Bad { name, content: Content::Bytes(bytes.into()), refused });
    }
}

fn line_of(text: &str, key: &str) -> Option<String> {
    let found = text.lines().find(|line| line.starts_with(&format!("{key}: ")));
    found.map(str::to_owned)
}

/// A letter too few, too many, two swapped, and another case.
fn misspelled(key: &str) -> Vec<String> {
    let mut swapped: Vec<char> = key.chars().collect();
    let last = swapped.len() - 1;
    swapped.swap(last - 1, last);
    vec![
        format!("{}zz", &key[..key.len() - 1]),
        format!("{key}_zz"),
        swapped.into_iter().collect::<String>() + "q",
        format!("X{}", key.to_uppercase()),
    ]
}
