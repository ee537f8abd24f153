use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::ops::RangeInclusive;

use nix::sys::signal::{Signal, kill};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

/// A moment in the unit of `/proc/<pid>/stat`: clock ticks since the boot.
pub(crate) type Ticks = u64;

/// A process and when it began. A pid alone is not a name: it is given again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Born {
    pub(crate) pid: i32,
    /// The process began inside this range.
    pub(crate) at: RangeInclusive<Ticks>,
}

/// One look at all processes of the machine.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) processes: BTreeMap<i32, Process>,
    children: BTreeMap<i32, Vec<i32>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) began: Ticks,
    pub(crate) is_zombie: bool,
}

/// More processes than a machine of this kind holds; the kernel's own limit is 4 million.
const PROCESSES_MAX: usize = 4 << 20;

/// Longest environment looked at: the kernel's own limit for arguments and environment is 6 MiB.
const ENVIRON_BYTES_MAX: u64 = 6 << 20;

impl Snapshot {
    pub(crate) fn take() -> Snapshot {
        let mut snapshot = Snapshot::default();
        let Ok(entries) = std::fs::read_dir("/proc") else { return snapshot };
        let mut buffer = [0; 1024];
        for entry in entries.take(PROCESSES_MAX).flatten() {
            let name = entry.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            if let Some(process) = read_stat(pid, &mut buffer) {
                snapshot.processes.insert(pid, process);
                snapshot.children.entry(process.parent).or_default().push(pid);
            }
        }
        snapshot
    }

    /// The roots and everything below them, zombies left out.
    pub(crate) fn below(&self, roots: impl IntoIterator<Item = i32>) -> Vec<Process> {
        let mut found: BTreeMap<i32, Process> = BTreeMap::new();
        let mut open: Vec<i32> = roots.into_iter().collect();
        while let Some(pid) = open.pop() {
            let Some(process) = self.processes.get(&pid) else { continue };
            if found.insert(pid, *process).is_none() {
                open.extend(self.children.get(&pid).into_iter().flatten());
            }
        }
        found.into_values().filter(|process| !process.is_zombie).collect()
    }

    pub(crate) fn children_of(&self, pid: i32) -> impl Iterator<Item = &Process> {
        self.children.get(&pid).into_iter().flatten().filter_map(|child| self.processes.get(child))
    }

    /// The process, if it is still the same one and not a zombie.
    pub(crate) fn is_alive(&self, born: &Born) -> bool {
        self.processes
            .get(&born.pid)
            .is_some_and(|process| born.at.contains(&process.began) && !process.is_zombie)
    }
}

/// Now, in ticks since the boot.
pub(crate) fn ticks_now() -> Ticks {
    // The kernel shows start times in units of 1/100 s to every program, whatever its own timer does.
    const NANOS_PER_TICK: u64 = 10_000_000;
    match clock_gettime(ClockId::CLOCK_BOOTTIME) {
        Ok(time) => (time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64) / NANOS_PER_TICK,
        Err(_) => 0,
    }
}

/// A process as it is now.
pub(crate) fn process(pid: i32) -> Option<Process> {
    read_stat(pid, &mut [0; 1024])
}

/// When a process began.
pub(crate) fn began(pid: i32) -> Option<Ticks> {
    process(pid).map(|process| process.began)
}

/// The value of a variable in the environment a process was started with.
pub(crate) fn variable(pid: i32, name: &str) -> Option<String> {
    value_in(&bytes_of(pid, "environ")?, name)
}

/// As [`variable`]; an error while the process changes from one program to another. It has left the environment of the
/// old one, and that of the new one is not there yet: nobody can tell whose it is.
pub(crate) fn variable_for_sure(pid: i32, name: &str) -> Result<Option<String>, InExec> {
    for _ in 0..LOOKS {
        if let Some(environ) = bytes_of(pid, "environ").filter(|environ| !environ.is_empty()) {
            return Ok(value_in(&environ, name));
        }
        // Threads of the kernel have no program. What is gone, or of another user, cannot be asked.
        if std::fs::read_link(format!("/proc/{pid}/exe")).is_err() {
            return Ok(None);
        }
        match memory_of(pid) {
            // A program that was started with no environment.
            Some(memory) if memory.is_set_up() && memory.environ_start == memory.environ_end => {
                return Ok(None);
            }
            Some(memory) if memory.is_set_up() => {}
            _ => return Err(InExec),
        }
    }
    Err(InExec)
}

/// Looks at a process that goes through one `exec` after another.
const LOOKS: u32 = 4;

/// Where things lie in the memory of a process.
struct Memory {
    code_start: u64,
    environ_start: u64,
    environ_end: u64,
}

impl Memory {
    /// The kernel writes down where the code lies when it is done with the environment. Until then an environment may
    /// look empty that is not: its end is first set to its start.
    fn is_set_up(&self) -> bool {
        self.code_start != 0 && self.environ_end != 0
    }
}

fn memory_of(pid: i32) -> Option<Memory> {
    let stat = bytes_of(pid, "stat")?;
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    // The first behind the bracket is field 3.
    let mut fields = std::str::from_utf8(&stat[end + 1..]).ok()?.split_ascii_whitespace().skip(26 - 3);
    let code_start = fields.next()?.parse().ok()?;
    let mut fields = fields.skip(50 - 27);
    Some(Memory {
        code_start,
        environ_start: fields.next()?.parse().ok()?,
        environ_end: fields.next()?.parse().ok()?,
    })
}

/// A process was in the middle of an `exec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InExec;

fn value_in(environ: &[u8], name: &str) -> Option<String> {
    environ.split(|byte| *byte == 0).find_map(|entry| {
        let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        String::from_utf8(value.to_vec()).ok()
    })
}

/// A file of a process. What fits is read at once: between two reads the process may have a new program, and the second
/// would find nothing.
fn bytes_of(pid: i32, file: &str) -> Option<Vec<u8>> {
    let mut file = File::open(format!("/proc/{pid}/{file}")).ok()?;
    let mut bytes = vec![0; 16 << 10];
    let len = file.read(&mut bytes).ok()?;
    let is_full = len == bytes.len();
    bytes.truncate(len);
    if is_full {
        file.take(ENVIRON_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    }
    Some(bytes)
}

/// Signals a process of a snapshot, unless its pid has a new owner by now.
///
/// Between the look and the signal a pid could in theory be given again; the kernel goes through all other pids
/// first, so that the window would have to see tens of thousands of forks.
pub(crate) fn signal(process: &Process, signal: Signal) {
    if process.pid > 1 && began(process.pid) == Some(process.began) {
        let _ = kill(Pid::from_raw(process.pid), signal);
    }
}

fn read_stat(pid: i32, buffer: &mut [u8; 1024]) -> Option<Process> {
    let len = File::open(format!("/proc/{pid}/stat")).ok()?.read(buffer).ok()?;
    parse_stat(pid, &buffer[..len])
}

/// The name, second field, may hold anything, also spaces and brackets: what is behind the last bracket is fixed.
fn parse_stat(pid: i32, stat: &[u8]) -> Option<Process> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = std::str::from_utf8(stat.get(end + 1..)?).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    // Fields 6 to 21 lie between the group (5) and the start (22).
    let began = fields.nth(16)?.parse().ok()?;
    Some(Process { pid, parent, group, began, is_zombie: matches!(state, "Z" | "X" | "x") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_behind_its_name() {
        let line = b"42 (a) b) (c) S 7 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 12345 2 3 4";
        let expected = Process { pid: 42, parent: 7, group: 42, began: 12345, is_zombie: false };
        assert_eq!(parse_stat(42, line), Some(expected));
        assert_eq!(parse_stat(42, b"42 (a"), None);
        assert_eq!(parse_stat(42, b"42 (a) S 1 2"), None);
    }

    #[test]
    fn this_process_is_in_the_snapshot() {
        let me = std::process::id() as i32;
        let snapshot = Snapshot::take();
        let process = snapshot.processes[&me];
        assert!(snapshot.below([process.parent]).iter().any(|found| found.pid == me));
        assert!(process.began <= ticks_now());
        assert!(snapshot.is_alive(&Born { pid: me, at: process.began..=process.began }));
        assert!(!snapshot.is_alive(&Born { pid: me, at: 0..=process.began - 1 }));
    }
}
