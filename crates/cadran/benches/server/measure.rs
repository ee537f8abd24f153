//! What a process costs.

use std::time::Duration;

/// CPU time of this process so far, all threads.
pub(crate) fn cpu_self() -> Duration {
    cpu_of("/proc/self/stat").unwrap_or_default()
}

/// CPU time so far of all PostgreSQL processes on this machine, when the store is one.
pub(crate) fn cpu_database(url: &str) -> Duration {
    if !url.starts_with("postgres") {
        return Duration::ZERO;
    }
    let mut total = Duration::ZERO;
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let path = entry.path();
        let name = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
        if name.trim() == "postgres" {
            total += cpu_of(&path.join("stat").display().to_string()).unwrap_or_default();
        }
    }
    total
}

fn cpu_of(path: &str) -> Option<Duration> {
    let text = std::fs::read_to_string(path).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    // utime and stime, then those of waited-for children, in ticks of a hundredth of a second.
    let ticks: u64 = fields.get(11..15)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(Duration::from_millis(ticks * 10))
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
