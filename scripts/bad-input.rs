//! A corpus of bad job files, the same every time: what people mistype, what programs leave half-written, and what
//! somebody sends to bring a server down.
//!
//! `cargo xtask bad-input DIR` writes it; tests read it from here. Nothing but the standard library is used.

use std::fs;
use std::io;
use std::path::Path;

/// One file.
pub struct Bad {
    /// Its name, without folder: number and family.
    pub name: String,
    pub content: Content,
    /// It must be refused. Otherwise it may be refused or accepted, as long as it is answered.
    pub refused: bool,
}

pub enum Content {
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
    corpus.chance();
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

    /// A writer that died, at every place.
    fn cut_and_torn(&mut self) {
        for at in (0..WHOLE.len()).step_by(5) {
            self.add("cut", false, &WHOLE.as_bytes()[..at]);
        }
        for at in 0..SMALL.len() {
            self.add("cut-small", false, &SMALL.as_bytes()[..at]);
        }
        // Blocks of zeros, as after a power cut.
        for at in (0..WHOLE.len()).step_by(40) {
            let mut bytes = WHOLE.as_bytes().to_vec();
            let end = (at + 64).min(bytes.len());
            bytes[at..end].fill(0);
            self.add("torn", true, bytes);
        }
        // One line is missing, twice there, or moved by one blank.
        let lines: Vec<&str> = WHOLE.lines().collect();
        for no in 0..lines.len() {
            let mut some = lines.clone();
            some.remove(no);
            self.add("line-missing", false, some.join("\n"));
            let mut some = lines.clone();
            some.insert(no, lines[no]);
            self.add("line-twice", false, some.join("\n"));
            let mut some = lines.clone();
            let moved = format!(" {}", lines[no]);
            some[no] = &moved;
            self.add("line-moved", false, some.join("\n"));
            let mut some = lines.clone();
            let tabbed = format!("\t{}", lines[no].trim_start());
            some[no] = &tabbed;
            self.add("tab", false, some.join("\n"));
        }
    }

    fn encodings(&mut self) {
        let pieces: &[(&str, bool, &[u8])] = &[
            ("nul", true, b"\0"),
            ("not-utf8", true, b"\xff"),
            ("overlong", true, b"\xc0\xaf"),
            ("surrogate", true, b"\xed\xa0\x80"),
            ("half-character", true, b"\xe2\x82"),
            ("bom-inside", false, b"\xef\xbb\xbf"),
            ("escape", false, b"\x1b[31m"),
            ("bell", false, b"\x07"),
            ("backspace", false, b"\x08\x08\x08"),
            ("line-separator", false, "\u{2028}".as_bytes()),
            ("right-to-left", false, "\u{202e}".as_bytes()),
            ("next-line", false, "\u{85}".as_bytes()),
            ("no-break-space", false, "\u{a0}".as_bytes()),
            ("far-character", false, "\u{10ffff}".as_bytes()),
        ];
        for (family, refused, piece) in pieces {
            for at in (0..WHOLE.len()).filter(|at| WHOLE.is_char_boundary(*at)).step_by(97) {
                let (head, tail) = WHOLE.as_bytes().split_at(at);
                self.add(family, *refused, [head, *piece, tail].concat());
            }
        }
        let wide: Vec<u16> = SMALL.encode_utf16().collect();
        let little: Vec<u8> = wide.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let big: Vec<u8> = wide.iter().flat_map(|unit| unit.to_be_bytes()).collect();
        self.add("utf16-le", true, [&b"\xff\xfe"[..], &little].concat());
        self.add("utf16-be", true, [&b"\xfe\xff"[..], &big].concat());
        self.add("utf16-no-bom", true, little);
        self.add("bom", false, format!("\u{feff}{SMALL}"));
        for text in [WHOLE, SMALL] {
            self.add("crlf", false, text.replace('\n', "\r\n"));
            self.add("cr", false, text.replace('\n', "\r"));
            self.add("mixed", false, text.replacen('\n', "\r\n", 5).replacen("\r\n", "\r", 1));
            self.add("no-newline", false, text.trim_end());
        }
    }

    /// Little text that stands for much.
    fn bombs(&mut self) {
        for levels in [2usize, 5, 9, 12, 30] {
            for width in [2usize, 5, 9, 50] {
                let huge = (width as f64).powi(levels as i32) > 300_000.0;
                let (mut list, mut map) = (String::from("a0: &a0 [x]\n"), String::from("a0: &a0 {k: x}\n"));
                let mut merge = String::from("a0: &a0 {k: x}\n");
                for level in 1..=levels {
                    let alias = format!("*a{}", level - 1);
                    let many = vec![alias.clone(); width].join(", ");
                    list.push_str(&format!("a{level}: &a{level} [{many}]\n"));
                    let pairs: Vec<String> = (0..width).map(|no| format!("k{no}: {alias}")).collect();
                    map.push_str(&format!("a{level}: &a{level} {{{}}}\n", pairs.join(", ")));
                    merge.push_str(&format!("a{level}: &a{level}\n  <<: [{many}]\n  k{level}: y\n"));
                }
                self.add("bomb-list", true, list.clone());
                self.add("bomb-map", true, map);
                self.add("bomb-merge", true, merge);
                // Behind a key that is read.
                self.add("bomb-env", huge, format!("run: x\n{list}env: {{A: *a{levels}}}\n"));
            }
        }
        for copies in [10usize, 100, 1_000] {
            let long = "x".repeat(100_000);
            self.add("bomb-text", true, format!("a: &a {long}\nb: [{}]\n", vec!["*a"; copies].join(", ")));
        }
    }

    fn depth_and_size(&mut self) {
        for depth in [10usize, 60, 65, 100, 1_000, 10_000, 100_000] {
            self.add("deep-list", true, format!("run: {}", "[".repeat(depth)));
            self.add("deep-closed", true, format!("run: {}x{}", "[".repeat(depth), "]".repeat(depth)));
            self.add("deep-map", true, format!("env: {}", "{a: ".repeat(depth)));
            self.add("deep-dash", true, format!("steps: {}x", "- ".repeat(depth)));
            self.add("deep-key", true, format!("{}x", "? ".repeat(depth)));
            if depth <= 1_000 {
                let lines: String = (0..depth).map(|at| format!("{}a:\n", " ".repeat(at))).collect();
                self.add("deep-block", true, lines);
            }
        }
        let mega = 1usize << 20;
        for size in [mega - 1, mega, mega + 1] {
            for (family, piece) in [
                ("big-comment", "# comment\n"),
                ("big-keys", "zz: 1\n"),
                ("big-list", "- a\n"),
                ("big-open", "["),
                ("big-quote", "'"),
            ] {
                self.add(family, size > mega, piece.repeat(size / piece.len() + 1)[..size].to_owned());
            }
            self.add("big-word", size > mega, format!("run: {}", "x".repeat(size)));
        }
        let keys: String = (0..30_000).map(|no| format!("k{no}: 1\n")).collect();
        self.add("many-keys", true, format!("run: x\n{keys}"));
        let steps: String = (0..20_000).map(|no| format!("- {{name: s{no}, run: x}}\n")).collect();
        self.add("many-steps", false, format!("steps:\n{steps}"));
        for len in [1u64 << 21, 100_000_000, 10_000_000_000] {
            let name = format!("{:04}-zeros.yaml", self.files.len());
            self.files.push(Bad { name, content: Content::Zeros(len), refused: true });
        }
    }

    fn keys(&mut self) {
        for key in JOB_KEYS {
            let once = line_of(WHOLE, key).unwrap_or(format!("{key}: x"));
            self.add("twice", true, format!("run: x\n{once}\n{once}\n"));
            self.add("twice-quoted", true, format!("run: x\n{once}\n'{key}': x\n"));
            for wrong in misspelled(key) {
                self.add("unknown", true, format!("run: x\n{wrong}: x\n"));
            }
        }
        for key in STEP_KEYS {
            self.add("step-twice", true, format!("steps:\n  - {{run: x, {key}: x, {key}: x}}\n"));
            for wrong in misspelled(key) {
                self.add("step-unknown", true, format!("steps:\n  - {{name: a, run: x, {wrong}: x}}\n"));
            }
        }
        for key in [
            "__proto__",
            "constructor",
            "uid",
            "user",
            "exec",
            "\"\"",
            "'\\0'",
            "~",
            "1",
            "1.5",
            "true",
            "[a]",
            "{a: b}",
            "*a",
            "!x a",
        ] {
            self.add("odd-key", true, format!("run: x\n{key}: x\n"));
        }
    }

    fn values(&mut self) {
        let values = [
            "",
            "~",
            "[]",
            "{}",
            "[[]]",
            "{a: {b: c}}",
            "-1",
            "0",
            "99999999999999999999999",
            "1e400",
            ".inf",
            ".nan",
            "0x10",
            "0o17",
            "1_000",
            "no",
            "NO",
            "yes",
            "on",
            "Off",
            "true",
            "2026-11-15",
            "12:30:45",
            "'a\\0b'",
            "\"\\0\"",
            "\"\\u202e\"",
            "!!binary aGk=",
            "!!python/object:os.system x",
            "!include /etc/passwd",
            "../../etc/passwd",
            "$(reboot)",
            "`id`",
            "\"\\ud800\"",
            "|\n  x",
            ">-\n  y",
        ];
        for key in JOB_KEYS {
            for value in values {
                self.add("value", false, format!("run: x\n{key}: {value}\n"));
            }
        }
        for key in STEP_KEYS {
            for value in values.iter().step_by(2) {
                self.add("step-value", false, format!("steps:\n  - name: a\n    {key}: {value}\n"));
            }
        }
        let numbers = [
            "-1",
            "99999999999999999999",
            "1e9",
            "1e400",
            "-0",
            "0x7fffffffffffffff",
            "9223372036854775808",
            ".nan",
        ];
        for number in numbers {
            for place in ["priority", "max_active_steps", "hist_retention_days", "timeout_sec"] {
                self.add("number", false, format!("run: x\n{place}: {number}\n"));
            }
            self.add("number", false, format!("run: x\nretry: {{limit: {number}, backoff: {number}}}\n"));
            self.add("number", false, format!("run: x\nhistory: {{days: {number}}}\n"));
        }
        for name in ["", "1A", "A B", "A=B", "'A\\0'", "é", "LD_PRELOAD", "\"A\\nB\"", "CADRAN_RUN_ID"] {
            self.add("variable", false, format!("run: x\nenv: {{{name:?}: x}}\n"));
            self.add("parameter", false, format!("run: x\nparams: {{{name:?}: x}}\n"));
            self.add("output", false, format!("steps:\n  - {{run: x, output: {name:?}}}\n"));
        }
    }

    fn schedules(&mut self) {
        let wrong = [
            "",
            " ",
            "*",
            "* *",
            "* * *",
            "* * * *",
            "* * * * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * 32 * *",
            "* * * 13 *",
            "* * * * 8",
            "*/0 * * * *",
            "*/60 * * * *",
            "5-1-9 * * * *",
            "1, * * * *",
            ", * * * *",
            "a * * * *",
            "* * 30 2 *",
            "* * 31 4,6 *",
            "0 0 31W 2 *",
            "* * L-31 * *",
            "* * * * FRI#6",
            "* * * * FRI#0",
            "-1 * * * *",
            "1-/2 * * * *",
            "* * * JANU *",
            "0 0 0 1 1 ? 1969",
            "0 0 0 29 2 ? 2027",
            "@never",
            "@every",
            "every",
            "every 0s",
            "every -1s",
            "every 1ms",
            "every 1 fortnight",
            "every 99999999999h",
            "every 1e3s",
            "at",
            "at yesterday",
            "at 2026-02-30T00:00:00Z",
            "at 9999-12-31T23:59:59Z",
            "TZ=Mars/Base * * * * *",
            "CRON_TZ= * * * * *",
            "TZ=../../etc/passwd * * * * *",
            "* * * * *; reboot",
            "$(id) * * * *",
            "99999999999999999999 * * * *",
            "\u{661} * * * *",
            "＊ * * * *",
            "* * * * *\\n* * * * *",
            "0-59/1-3 * * * *",
            "*/*/* * * * *",
            "?#? * * * *",
            "LW-3 * * * *",
            "W * * * *",
        ];
        for text in wrong {
            self.add("schedule", text.trim() != "", format!("run: x\nschedule: {text:?}\n"));
            self.add(
                "schedule-list",
                text.trim() != "",
                format!("run: x\nschedule: ['* * * * *', {text:?}]\n"),
            );
            self.add(
                "schedule-map",
                text.trim() != "",
                format!("run: x\nschedule: {{start: {{cron: {text:?}}}}}\n"),
            );
        }
        let zones = [
            "no",
            "",
            "UTC+25",
            "europe/paris/",
            "/etc/localtime",
            "../UTC",
            "Europe/Pariss",
            "GMT+99",
            "\\u0000",
            "America/New York",
            "posix/UTC",
            "Local",
            "system",
            "right/UTC",
            "Etc/GMT+15",
            "+01:00",
            "12",
            "A/B/C/D/E/F",
            "Европа/Москва",
        ];
        for zone in zones {
            self.add("zone", false, format!("run: x\nschedule: '0 0 * * *'\ntimezone: \"{zone}\"\n"));
            self.add("zone-plain", false, format!("run: x\ntimezone: {}\n", zone.replace('\\', "")));
        }
        self.add("zone-long", true, format!("run: x\ntimezone: {}\n", "A/".repeat(10_000)));
        self.add("schedule-long", true, format!("run: x\nschedule: '{}'\n", "1,".repeat(100_000)));
        let durations = [
            "",
            "1",
            "-1s",
            "1.5.5s",
            "s",
            "1x",
            "1s1s",
            "1m 1h",
            "999999999999999999999s",
            "9223372036854775807ms",
            "1e9s",
            "１s",
            "1 s",
            "P1D",
            "∞",
            "0",
            "1h-1m",
        ];
        for text in durations {
            for key in ["timeout", "catchup_window"] {
                self.add("duration", false, format!("run: x\n{key}: {text:?}\n"));
            }
            self.add("duration", false, format!("run: x\nschedule: {{start: {{every: {text:?}}}}}\n"));
            self.add("duration", false, format!("run: x\nretry: {{limit: 1, interval: {text:?}}}\n"));
        }
    }

    fn flows(&mut self) {
        for size in [1usize, 2, 3, 10, 100, 1_000] {
            let ring: String = (0..size)
                .map(|no| format!("  - {{name: s{no}, run: x, depends: s{}}}\n", (no + 1) % size))
                .collect();
            self.add("ring", true, format!("steps:\n{ring}"));
            let tail: String =
                (0..size).map(|no| format!("  - {{name: t{no}, run: x, depends: s0}}\n")).collect();
            self.add("ring-with-tails", true, format!("steps:\n{ring}{tail}"));
        }
        for text in [
            "steps: []",
            "steps: {}",
            "steps:",
            "steps: x",
            "steps: [x]",
            "steps: [[x]]",
            "steps: [~]",
            "steps: [{}]",
            "steps: [{name: a}]",
            "steps: [{run: x, script: y}]",
            "steps: [{name: a, run: x}, {name: a, run: y}]",
            "steps: [{name: a, run: x, depends: b}]",
            "steps: [{name: '', run: x}]",
            "steps: [{name: '../x', run: x}]",
            "steps: [{name: on_exit, run: x}]",
            "steps: [{run: []}]",
            "steps: [{run: ['']}]",
            "steps: [{run: \"a\\0b\"}]",
            "steps: [{run: {a: b}}]",
            "run: x\nsteps: [{run: y}]",
            "run: ''",
            "run: []",
            "steps: [{run: x, signal_on_stop: SIGNOPE}]",
            "steps: [{run: x, signal_on_stop: 99}]",
            "steps: [{run: x, retry: sometimes}]",
            "steps: [{run: x, retry: {limit: 1, when: now}}]",
            "steps: [{run: x, continue_on: never}]",
            "steps: [{run: x, stdout: ''}]",
            "steps: [{run: x, preconditions: [{condition: a, expected: 're:('}]}]",
            "handlers: {success: x}",
            "run: x\nhandlers: x",
            "run: x\nhandlers: {never: y}",
            "run: x\ntype: circle",
            "run: x\noverlap: maybe",
            "run: x\nmisfire: perhaps",
            "run: x\ndst: summer",
            "run: x\nhistory: {years: 1}",
            "run: x\nhistory: {days: 1, count: 1}",
        ] {
            self.add("flow", false, format!("{text}\n"));
        }
    }

    /// What a run touches, and cannot.
    fn footprints(&mut self) {
        for count in [257usize, 1_000, 20_000] {
            let keys: String = (0..count).map(|no| format!("'t:{no}', ")).collect();
            for list in ["reads", "writes", "claims"] {
                self.add("footprint-many", true, format!("run: x\nfootprint: {{{list}: [{keys}]}}\n"));
            }
            let pools: String = (0..count).map(|no| format!("p{no}: 1, ")).collect();
            self.add("footprint-pools", true, format!("run: x\nfootprint: {{capacity: {{{pools}}}}}\n"));
        }
        for depth in [32usize, 100, 120] {
            self.add(
                "footprint-deep",
                true,
                format!("run: x\nfootprint: {{reads: 't:{}'}}\n", "a/".repeat(depth)),
            );
        }
        for len in [257usize, 10_000, 900_000] {
            self.add(
                "footprint-long",
                true,
                format!("run: x\nfootprint: {{reads: 't:{}'}}\n", "a".repeat(len)),
            );
        }
        for key in [
            "",
            " ",
            ":",
            ":x",
            "x",
            "t:",
            "t: ",
            "T:x",
            "1:x",
            "t t:x",
            "/srv/x",
            "job:x",
            "pool:gpu",
            "slot:1",
            "t:.",
            "t:..",
            "t:a/../b",
            "t:./a",
            "${a}:x",
            "t:${",
            "t:${}",
            "t:${a b}",
            "t:${nobody}",
            "t:${1}",
            "t:${a",
            "é:x",
            "t:\\0",
            "t:\\e[31m",
            "t:a\\nb",
            "%74:x",
        ] {
            for list in ["reads", "writes", "claims"] {
                self.add("footprint-key", true, format!("run: x\nfootprint: {{{list}: [\"{key}\"]}}\n"));
            }
        }
        for text in [
            "{eats: ['a:b']}",
            "{reads: {a: b}}",
            "{reads: [['a:b']]}",
            "{reads: [{a: b}]}",
            "{reads: [~]}",
            "{reads: [1]}",
            "{capacity: 2}",
            "{capacity: [gpu]}",
            "{capacity: gpu}",
            "{capacity: {gpu: 2}}",
            "{capacity: {gpu: 0}}",
            "{capacity: {gpu: -1}}",
            "{capacity: {gpu: 99999999999999999999}}",
            "{capacity: {gpu: 2 of 4}}",
            "{capacity: {gpu: 5 of 4}}",
            "{capacity: {gpu: all}}",
            "{capacity: {gpu: [1]}}",
            "{capacity: {'': 1}}",
            "{on_conflict: fight}",
            "{on_conflict: [wait]}",
            "{ordered: maybe}",
            "{reads: 'a:b', read: 'a:c'}",
            "[reads]",
            "x",
        ] {
            self.add("footprint", true, format!("run: x\nfootprint: {text}\n"));
        }
    }

    fn yaml_features(&mut self) {
        for text in [
            "a: *nobody",
            "a: &a [*a]",
            "a: &a\n  b: *a",
            "&a",
            "*a",
            "!",
            "!x",
            "!!",
            "!!str",
            "!<>",
            "!<tag:x> y",
            "%YAML 9.9\n---\nrun: x",
            "%TAG ! x\n---\nrun: x",
            "%\n",
            "---",
            "...",
            "--- ---",
            "--- a\n--- b",
            "run: x\n---\nrun: y",
            "run: x\n...\nrun: y",
            "---\n---\n---",
            "run: x\n--- \n",
            "? run\n: x\n? run\n: y",
            "<<: x",
            "<<: [x]",
            "<<: {run: x}\n<<: {run: y}",
            "<<: *a",
            "run: &a x\nname: *a",
            "run: |9\n x",
            "run: |-+\n x",
            "run: >0\n x",
            "run: |\n\tx",
            "run: 'x",
            "run: \"x",
            "run: \"\\q\"",
            "run: \"\\x\"",
            "run: \"\\U00110000\"",
            "run: [x",
            "run: {x",
            "run: x]",
            "run: x}",
            "{run: x",
            "[run: x",
            "run:x",
            ": x",
            "- x",
            "x",
            "-",
            "?",
            ":",
            "@x",
            "`x`",
            "run: @x",
            "run: %x",
            "run: x: y",
            "run: - x",
            "run: x\n  name: y",
            "  run: x\nname: y",
            "run: x\n\tname: y",
            "\trun: x",
            "run: x #",
            "#",
            "null",
            "~",
            "true",
            "1",
            "\"run: x\"",
            "[]",
            "{}",
            "[{run: x}]",
            "{\"run\": \"x\", \"run\": \"y\"}",
            "{\"run\": \"x\",}",
            "run: x,\nname: y",
            "\u{feff}\u{feff}run: x",
            "run: x\n\u{feff}name: y",
        ] {
            self.add("yaml", false, text);
            self.add("yaml-behind", false, format!("{SMALL}{text}\n"));
        }
        for count in [2usize, 100, 50_000] {
            self.add("documents", true, "run: x\n---\n".repeat(count));
            self.add("anchors", true, (0..count).map(|no| format!("a{no}: &a{no} x\n")).collect::<String>());
            self.add("aliases", true, format!("a: &a x\nb: [{}]\n", "*a, ".repeat(count)));
            self.add("tags", false, format!("run: {}x\n", "!a ".repeat(count)));
        }
    }

    fn names(&mut self) {
        for name in [
            "",
            ".",
            "..",
            "../x",
            "/etc/passwd",
            "a/b",
            "a\\\\b",
            "a b",
            "-rf",
            "--help",
            ".x",
            "é",
            "x\\u0000",
            "x\\n",
            "x\\u001b[31m",
            "%2e%2e",
            "%00",
            "a;b",
            "a|b",
            "$(id)",
            "`id`",
            "a'b",
            "CON",
            "~",
            "x:y",
            "\\u202ex",
            "a\\tb",
            "*",
            "?",
            "\\ud83d\\ude00",
        ] {
            self.add("name", false, format!("name: \"{name}\"\nrun: x\n"));
            self.add("step-name", false, format!("steps:\n  - {{name: \"{name}\", run: x}}\n"));
        }
        for len in [128usize, 129, 10_000, 900_000] {
            self.add("name-long", len > 128, format!("name: {}\nrun: x\n", "n".repeat(len)));
        }
    }

    /// A generator of our own, so that the corpus never changes: xorshift.
    fn chance(&mut self) {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut below = |limit: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as usize % limit.max(1)
        };
        let pieces: &[&[u8]] = &[
            b"\n",
            b"  ",
            b"- ",
            b": ",
            b"{",
            b"}",
            b"[",
            b"]",
            b"'",
            b"\"",
            b"|\n",
            b"&a ",
            b"*a",
            b"!x ",
            b"? ",
            b"#",
            b"---\n",
            b"\t",
            b"\0",
            b"\xff",
            b"<<: *a\n",
        ];
        for _ in 0..400 {
            let mut bytes = if below(3) == 0 { SMALL.as_bytes() } else { WHOLE.as_bytes() }.to_vec();
            for _ in 0..1 + below(8) {
                let at = below(bytes.len());
                match below(4) {
                    0 => drop(bytes.splice(at..at, pieces[below(pieces.len())].iter().copied())),
                    1 => drop(bytes.drain(at..(at + below(30)).min(bytes.len()))),
                    2 if !bytes.is_empty() => bytes[at] = below(256) as u8,
                    _ => {
                        let piece = bytes[at..(at + below(60)).min(bytes.len())].to_vec();
                        bytes.splice(at..at, piece);
                    }
                }
            }
            self.add("changed", false, bytes);
        }
        for _ in 0..100 {
            let bytes: Vec<u8> = (0..below(3_000)).map(|_| below(256) as u8).collect();
            self.add("noise", false, bytes);
        }
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
