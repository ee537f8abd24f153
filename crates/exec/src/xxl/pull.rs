//! Reading logs through: what an executor has of a run is copied behind what is here already.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cadran_core::{Executor, GroupName, RunId, SeatRecord, StepNo};
use tokio::time::Instant;

use super::remote::{Remote, Shared, json};
use super::wire::{LogPart, LogRequest};
use crate::logs::LogDir;

/// How far logs were copied, by log number.
#[derive(Default)]
pub(super) struct Pulled {
    logs: BTreeMap<u64, Position>,
}

#[derive(Clone, Copy)]
struct Position {
    next_line: u64,
    looked_at: Instant,
    is_whole: bool,
}

/// One log of one share, and who has it.
#[derive(Clone, Debug)]
pub struct RemoteLog {
    /// The run.
    pub run: RunId,
    /// Which step.
    pub step: StepNo,
    /// Its name.
    pub step_name: Box<str>,
    /// Which attempt.
    pub attempt: u32,
    /// The share.
    pub seat: SeatRecord,
    /// Whether nothing more will be written.
    pub is_over: bool,
}

/// Logs whose place is remembered. One that was forgotten is copied anew from its beginning.
const REMEMBERED_MAX: usize = 10_000;

/// The same log is not asked for more often than this: many may follow one run.
const PULL_PAUSE: Duration = Duration::from_millis(500);

/// Calls for one look, so that a long log arrives without one look taking for ever.
const PARTS_MAX: u32 = 50;

impl Remote {
    /// The logs that executors have of a run that is not closed yet.
    pub fn logs_of(&self, run: RunId) -> Vec<RemoteLog> {
        let state = self.shared.state();
        let entries = state.ledger.kept.entries.range(crate::journal::keys_of(run));
        let logs = entries.flat_map(|(key, entry)| {
            entry.shares.iter().map(|share| RemoteLog {
                run,
                step: key.step,
                step_name: entry.step_name.clone(),
                attempt: key.attempt,
                seat: share.seat.clone(),
                is_over: share.end.is_some(),
            })
        });
        logs.collect()
    }

    /// Copies what is new of a log into the log directory. `who` has it; what cannot be read is left as it is.
    pub async fn pull(&self, log: RemoteLog, group: GroupName, who: Executor) {
        let shared = Arc::clone(&self.shared);
        if let Some(runtime) = self.runtime() {
            let _ = runtime.spawn(async move { shared.pull(log, group, who).await }).await;
        }
    }
}

impl Shared {
    async fn pull(&self, log: RemoteLog, group: GroupName, who: Executor) {
        // One at a time: two that copy the same lines would write them twice.
        let mut pulled = self.pulled.lock().await;
        let number = log.seat.log;
        let now = Instant::now();
        let known = pulled.logs.get(&number).copied();
        if known.is_some_and(|at| at.is_whole || (now - at.looked_at < PULL_PAUSE && !log.is_over)) {
            return;
        }
        let mut next_line = known.map_or(1, |at| at.next_line);
        let dir = LogDir::new(self.options.logs.clone());
        let path = dir.path(log.run, log.step, &log.step_name, log.attempt);
        let mut is_fresh = known.is_none();
        let mut is_whole = false;
        for _ in 0..PARTS_MAX {
            let request = LogRequest {
                log_id: number,
                log_date_tim: log.seat.at,
                log_date_time: log.seat.at,
                from_line_num: next_line,
            };
            let Ok(answer) = self.client.call(&group, &who, "log", json(&request)).await else { break };
            if !answer.is_ok() {
                break;
            }
            let part = LogPart::read(&answer);
            if part.text.is_empty() || part.to_line < next_line {
                is_whole = log.is_over;
                break;
            }
            let head = is_fresh.then(|| heading(&log.seat)).flatten();
            let anew = is_fresh && log.seat.total == 1;
            if write(&path, anew, head.as_deref(), &part, self.options.log_bytes_max).is_err() {
                break;
            }
            is_fresh = false;
            next_line = part.to_line + 1;
            if part.is_end {
                is_whole = log.is_over;
                break;
            }
        }
        if pulled.logs.len() >= REMEMBERED_MAX {
            pulled.logs.pop_first();
        }
        pulled.logs.insert(number, Position { next_line, looked_at: now, is_whole });
    }
}

/// Shares of a broadcast stand in one log, each under a line of its own.
fn heading(seat: &SeatRecord) -> Option<String> {
    (seat.total > 1).then(|| format!("cadran: share {} of {} at {}\n", seat.index, seat.total, seat.address))
}

fn write(path: &Path, anew: bool, head: Option<&str>, part: &LogPart, bytes_max: u64) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let mut file = OpenOptions::new().create(true).write(true).append(!anew).truncate(anew).open(path)?;
    let room = bytes_max.saturating_sub(file.metadata()?.len());
    if room == 0 {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let mut text = head.unwrap_or_default().to_owned();
    text.push_str(&part.text);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    if text.len() as u64 > room {
        let at = text.floor_char_boundary(room as usize);
        text.truncate(at);
        text.push_str("\n… cut: the log is full; the executor has the rest …\n");
    }
    file.write_all(text.as_bytes())
}
