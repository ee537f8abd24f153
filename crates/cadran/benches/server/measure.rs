//! What a process costs.

use std::time::Duration;

/// CPU time of this process so far, all threads.
pub(crate) fn cpu_self() -> Duration {
    cpu_of("/proc/self/stat").unwrap_or_default()
}

/// CPU time so far of another process, all its threads.
pub(crate) fn cpu_process(pid: u32) -> Duration {
    cpu_of(&format!("/proc/{pid}/stat")).unwrap_or_default()
}

/// CPU time so far of the PostgreSQL server behind this URL, all its processes; other servers of the machine are not
/// counted. Zero when the store is not PostgreSQL.
pub(crate) fn cpu_database(url: &str) -> Duration {
    let port = url.strip_prefix("postgres://").and_then(|rest| rest.split('/').next()?.rsplit_once(':'));
    let Some((_, port)) = port else { return Duration::ZERO };
    let parent = processes().find(|pid| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split('\0');
        line.contains("postgres") && words.any(|word| word == "-p") && words.next() == Some(port)
    });
    let Some(parent) = parent else { return Duration::ZERO };
    let children = processes().filter(|pid| parent_of(*pid) == Some(parent));
    children.chain([parent]).filter_map(|pid| cpu_of(&format!("/proc/{pid}/stat"))).sum()
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn parent_of(pid: u32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn cpu_of(path: &str) -> Option<Duration> {
    let text = std::fs::read_to_string(path).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    // utime and stime, then those of waited-for children, in ticks of a hundredth of a second.
    let ticks: u64 = fields.get(11..15)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(Duration::from_millis(ticks * 10))
}

/// Processor time so far that this machine wanted and its host gave to others. None of it on a machine of one's own.
pub(crate) fn stolen() -> Duration {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = text.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse().ok());
    Duration::from_millis(ticks.unwrap_or(0u64) * 10)
}

/// Resident memory of this process.
pub(crate) fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0)
        * 1024
}

/// The value at a share of a sorted list.
pub(crate) fn percentile(sorted: &[f64], share: f64) -> f64 {
    let at = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}
