//! What jobs did, in their own words: a file they append to, and nothing the server says.

use std::fs;
use std::path::PathBuf;

use super::Home;

/// Appends a line at start and one at the end. `sh act.sh MARKER SECONDS [ATTEMPT]`: sleeps so long, and fails before
/// that attempt. A start says whether the attempt before it was still alive.
const ACT: &str = r#"
here=${0%/*}
seat="$here/seats/$CADRAN_RUN_ID.$CADRAN_STEP"
both=0
if read -r before 2>/dev/null < "$seat"; then
    grep -qs "CADRAN_RUN_ID=$CADRAN_RUN_ID" "/proc/$before/environ" && both=1
fi
echo $$ > "$seat"
line="$CADRAN_JOB $CADRAN_STEP $CADRAN_DUE $CADRAN_RUN_ID $CADRAN_ATTEMPT $$"
echo "start $line $(date +%s%3N) $both" >> "$here/ledger"
sleep "$2"
[ "$CADRAN_ATTEMPT" -ge "${3:-1}" ] || exit 1
echo "end $line $(date +%s%3N) 0" >> "$here/ledger"
"#;

/// One line.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Started; else ended well.
    pub start: bool,
    pub job: String,
    pub step: String,
    /// RFC 3339, as the job saw it.
    pub due: String,
    pub run: String,
    pub attempt: u32,
    pub at_ms: i64,
    /// An earlier attempt of the same step of the same run was alive at the start.
    pub both: bool,
}

/// The files in a home that its jobs write to.
pub struct Ledger {
    dir: PathBuf,
    /// In the command line of everything jobs start.
    pub marker: String,
}

impl Ledger {
    pub fn new(home: &Home, marker: &str) -> Ledger {
        fs::create_dir(home.path("seats")).expect("a folder");
        fs::write(home.path("act.sh"), ACT).expect("a file");
        Ledger { dir: home.path(""), marker: format!("cadran-test-{}-{marker}", std::process::id()) }
    }

    /// Shell text that acts for so many seconds, and fails before the given attempt.
    pub fn act(&self, seconds: &str, attempt: u32) -> String {
        format!("sh {} {} {seconds} {attempt}", self.dir.join("act.sh").display(), self.marker)
    }

    /// All lines so far, in the order they were written.
    pub fn entries(&self) -> Vec<Entry> {
        let text = fs::read_to_string(self.dir.join("ledger")).unwrap_or_default();
        let entry = |line: &str| {
            let [what, job, step, due, run, attempt, _pid, at, both] =
                line.split(' ').collect::<Vec<_>>().try_into().ok()?;
            Some(Entry {
                start: what == "start",
                job: job.into(),
                step: step.into(),
                due: due.into(),
                run: run.into(),
                attempt: attempt.parse().ok()?,
                at_ms: at.parse().ok()?,
                both: both == "1",
            })
        };
        // A line that its writer was killed in is none; short appends are written whole or not at all.
        text.lines().filter_map(entry).collect()
    }
}

/// A process, told from a later one with the same number by when it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    began: String,
}

/// Every living process with this text in its command line.
pub fn marked(marker: &str) -> Vec<Process> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has_mark = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.windows(marker.len()).any(|window| window == marker.as_bytes())
    };
    pids.filter(has_mark).filter_map(|pid| Some(Process { pid, began: began(pid)? })).collect()
}

impl Process {
    pub fn is_alive(&self) -> bool {
        began(self.pid).as_ref() == Some(&self.began)
    }
}

/// When a process began, in ticks; `None` when it is gone or a zombie.
fn began(pid: i32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut words = text.rsplit_once(')')?.1.split_whitespace();
    (!matches!(words.next(), Some("Z" | "X"))).then(|| words.nth(18).map(str::to_owned))?
}
