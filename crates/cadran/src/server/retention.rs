//! Keeps record and logs within their limits: by age and count, and in bytes.
//!
//! The work is done in small slices with a rest after each, so that a commit waits for one slice at most. A pass goes on
//! until nothing is left to forget, and the rest until the next one is many times as long as it took.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use cadran_core::RunId;
use cadran_exec::LogDir;
use cadran_http::{DiskUse, Lists};
use cadran_store::{PrunePass, Retention, Store, StoreError};
use tokio::time::{Instant, sleep};

use super::clock;
use crate::defaults;

/// Of a limit in bytes so much is filled again after it was passed, so that the next bytes do not pass it at once.
const REFILL: f64 = 0.9;
/// Free pages of the database that are left in it: the next rows need them anyway.
const FREE_BYTES_KEPT: u64 = 16 << 20;
/// Pages given back to the file system in one slice: 2 MiB, some milliseconds.
const SHRINK_PAGES: u32 = 512;
/// Runs that are asked about at once, and whose logs are removed in one slice.
const RUNS_PER_SLICE: usize = 512;
/// Logs of a run that nobody knows are removed when the run is older than this.
const ORPHAN_AGE_MS: i64 = 24 * 3_600_000;
/// Between two looks for such logs.
const ORPHANS_EVERY: Duration = Duration::from_secs(3_600);
/// A pass rests so many times as long as it took, within the two bounds of [`Options`].
const REST_FACTOR: u32 = 20;

/// What is kept at most.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Of every job, by age and count.
    pub retention: Retention,
    /// Of the database, in bytes in use.
    pub database_bytes_max: u64,
    /// Of all logs together, in bytes on disk.
    pub log_bytes_max: u64,
    /// Shortest rest between two passes.
    pub rest_min: Duration,
    /// Longest rest between two passes.
    pub rest_max: Duration,
}

impl Options {
    /// With the default rests between passes.
    pub fn new(retention: Retention, database_bytes_max: u64, log_bytes_max: u64) -> Options {
        let (rest_min, rest_max) = (defaults::RETENTION.rest_min, defaults::RETENTION.rest_max);
        Options { retention, database_bytes_max, log_bytes_max, rest_min, rest_max }
    }
}

/// Forgets and removes.
pub struct Pruner {
    options: Options,
    store: Store,
    logs: LogDir,
    lists: Option<Arc<Lists>>,
    report: DiskReport,
    orphans_looked_at: Option<Instant>,
    is_over_told: bool,
}

/// What the last pass saw, for whoever asks.
#[derive(Clone, Debug, Default)]
pub struct DiskReport(Arc<RwLock<DiskUse>>);

impl DiskReport {
    /// What the last pass saw.
    pub fn get(&self) -> DiskUse {
        *self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut DiskUse)) {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Pruner {
    /// For this record and these logs.
    pub fn new(options: Options, store: Store, logs: LogDir) -> Pruner {
        let report = DiskReport::default();
        report.change(|disk| {
            (disk.database_bytes_max, disk.log_bytes_max) =
                (options.database_bytes_max, options.log_bytes_max);
            (disk.days_max, disk.runs_max) = (options.retention.days_max, options.retention.runs_max);
        });
        Pruner { options, store, logs, lists: None, report, orphans_looked_at: None, is_over_told: false }
    }

    /// With the lists that have to forget too.
    pub fn with_lists(mut self, lists: Arc<Lists>) -> Pruner {
        self.lists = Some(lists);
        self
    }

    /// Where it says what it saw.
    pub fn report(&self) -> DiskReport {
        self.report.clone()
    }

    /// One pass after the other, for good.
    pub async fn run(mut self) {
        loop {
            let started = Instant::now();
            if let Err(error) = self.pass(clock::wall()).await {
                tracing::warn!(%error, "could not clean the history; trying again later");
            }
            let rest = (started.elapsed() * REST_FACTOR).clamp(self.options.rest_min, self.options.rest_max);
            sleep(rest).await;
        }
    }

    /// Forgets and removes until record and logs are within their limits. `now` is the wall clock.
    pub async fn pass(&mut self, now: i64) -> Result<(), StoreError> {
        self.forget_runs(now).await?;
        self.give_pages_back().await?;
        self.measure_database().await?;
        self.remove_logs(now).await?;
        self.report.change(|disk| disk.measured_at_ms = Some(now));
        Ok(())
    }

    async fn forget_runs(&mut self, now: i64) -> Result<(), StoreError> {
        let mut retention = self.options.retention;
        let used = self.store.usage().await?.used;
        let is_over = used > self.options.database_bytes_max;
        if is_over {
            let part = self.options.database_bytes_max as f64 * REFILL / used as f64;
            if let Some(cap) = self.store.cap_for(part).await? {
                // The last run of a job says how the job is.
                retention.runs_max = Some(retention.runs_max.map_or(cap, |runs| runs.min(cap)).max(1));
            }
        }
        let mut pass = PrunePass::new(now, retention);
        let mut forgotten = 0;
        while !pass.is_over() {
            let started = Instant::now();
            let pruned = self.store.prune(&mut pass, defaults::RETENTION.rows_per_transaction).await?;
            if !pruned.runs.is_empty() || pruned.skips > 0 {
                forgotten += pruned.runs.len() as u64 + pruned.skips;
                self.report.change(|disk| disk.runs_forgotten += pruned.runs.len() as u64);
                if let Some(lists) = &self.lists {
                    lists.forgotten(pruned.runs.clone());
                }
                self.remove(pruned.runs).await;
                // Half of the time is for everybody else.
                sleep(started.elapsed()).await;
            }
        }
        if is_over && forgotten == 0 && !self.is_over_told {
            let max = self.options.database_bytes_max;
            tracing::warn!(used, max, "the database is over its limit with jobs and runs that must be kept");
        }
        self.is_over_told = is_over && forgotten == 0;
        Ok(())
    }

    async fn give_pages_back(&mut self) -> Result<(), StoreError> {
        let mut free = self.store.usage().await?.free;
        while free > FREE_BYTES_KEPT {
            let started = Instant::now();
            self.store.shrink(SHRINK_PAGES).await?;
            let left = self.store.usage().await?.free;
            if left >= free {
                // A database of an older version keeps its free pages, and fills them.
                return Ok(());
            }
            free = left;
            sleep(started.elapsed()).await;
        }
        Ok(())
    }

    async fn measure_database(&mut self) -> Result<(), StoreError> {
        let usage = self.store.usage().await?;
        self.report.change(|disk| {
            (disk.database_bytes, disk.database_bytes_used) = (usage.disk, usage.used);
        });
        Ok(())
    }

    async fn remove_logs(&mut self, now: i64) -> Result<(), StoreError> {
        let logs = self.logs.clone();
        let mut runs = match tokio::task::spawn_blocking(move || logs.usage()).await {
            Ok(Ok(runs)) => runs,
            Ok(Err(error)) => {
                tracing::warn!(%error, "could not measure the logs");
                return Ok(());
            }
            Err(_) => return Ok(()),
        };
        if self.orphans_looked_at.is_none_or(|at| at.elapsed() >= ORPHANS_EVERY) {
            self.orphans_looked_at = Some(Instant::now());
            let orphans = self.orphans(&runs, now).await?;
            runs.retain(|(run, _)| !orphans.contains(run));
            self.report.change(|disk| disk.logs_removed += orphans.len() as u64);
            self.remove(orphans.into_iter().collect()).await;
        }
        let mut bytes: u64 = runs.iter().map(|(_, bytes)| bytes).sum();
        if bytes > self.options.log_bytes_max {
            let wanted = (self.options.log_bytes_max as f64 * REFILL) as u64;
            // What is on keeps its logs, whatever they take.
            let (open, _) = self.store.load_runs().await?;
            let open: HashSet<RunId> = open.iter().map(|record| record.promise.run).collect();
            let mut gone = Vec::new();
            for (run, size) in runs.iter().filter(|(run, _)| !open.contains(run)) {
                if bytes <= wanted {
                    break;
                }
                bytes -= size;
                gone.push(*run);
            }
            self.report.change(|disk| disk.logs_removed += gone.len() as u64);
            self.remove(gone).await;
        }
        self.report.change(|disk| disk.log_bytes = bytes);
        Ok(())
    }

    /// Runs with logs that the record knows nothing of, and that are not just being made. A record that knows none of
    /// them is another one, and what it does not know says nothing.
    async fn orphans(&self, runs: &[(RunId, u64)], now: i64) -> Result<HashSet<RunId>, StoreError> {
        let mut unknown = HashSet::new();
        let mut known = 0;
        for slice in runs.chunks(RUNS_PER_SLICE) {
            let slice: Vec<RunId> = slice.iter().map(|(run, _)| *run).collect();
            let found = self.store.known_runs(&slice).await?;
            known += found.len();
            let found: HashSet<RunId> = found.into_iter().collect();
            let is_old = |run: &RunId| run.millis().saturating_add(ORPHAN_AGE_MS) < now;
            unknown.extend(slice.into_iter().filter(|run| !found.contains(run) && is_old(run)));
        }
        if known == 0 {
            unknown.clear();
        }
        Ok(unknown)
    }

    /// Removes the logs of these runs, in slices.
    async fn remove(&self, runs: Vec<RunId>) {
        for slice in runs.chunks(RUNS_PER_SLICE) {
            let (logs, slice) = (self.logs.clone(), slice.to_vec());
            let removed = tokio::task::spawn_blocking(move || {
                for run in slice {
                    if let Err(error) = logs.remove(run) {
                        tracing::warn!(%run, %error, "could not remove the logs of a run");
                    }
                }
            });
            let _ = removed.await;
        }
    }
}

/// A number of bytes, as in `800MB`, `512MiB`, `2GiB`.
pub fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim() {
        "" | "B" => 1,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err("a size looks like 512MiB, 2GiB or 800MB".to_owned()),
    };
    let number: u64 =
        number.parse().map_err(|_| "a size begins with a whole number, as in 512MiB".to_owned())?;
    number.checked_mul(factor).ok_or_else(|| "that is more than any disk has".to_owned())
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_are_read() {
        for (text, expected) in
            [("0", Some(0)), ("512MiB", Some(512 << 20)), ("2 GiB", Some(2 << 30)), ("7MB", Some(7_000_000))]
        {
            assert_eq!(bytes(text).ok(), expected, "{text}");
        }
        for text in ["", "GiB", "1.5GiB", "-1", "5 apples", "99999999999TiB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
