//! Reading logs through: what an executor has of a run is copied behind what is here already.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use cadran_core::{Executor, GroupName, RunId, SeatRecord, StepNo};
use tokio::time::Instant;

use super::remote::{Remote, Shared, json};
use super::wire::{LogPart, LogRequest};
use crate::logs::LogDir;

/// How far logs were copied, by log number. Each has a lock of its own: two that copy the same lines would write them
/// twice, and an executor that does not answer holds up nobody who reads another log.
#[derive(Default)]
pub(super) struct Pulled {
    logs: BTreeMap<u64, Arc<tokio::sync::Mutex<Position>>>,
}

#[derive(Default)]
struct Position {
    /// The line to ask for next; 0 when nothing was copied yet.
    next_line: u64,
    looked_at: Option<Instant>,
    is_whole: bool,
}

impl Pulled {
    fn of(&mut self, log: u64) -> Arc<tokio::sync::Mutex<Position>> {
        if self.logs.len() >= REMEMBERED_MAX && !self.logs.contains_key(&log) {
            self.logs.pop_first();
        }
        self.logs.entry(log).or_default().clone()
    }
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
        let number = log.seat.log;
        let position = self.pulled.lock().unwrap_or_else(PoisonError::into_inner).of(number);
        let mut position = position.lock().await;
        let now = Instant::now();
        let lately = position.looked_at.is_some_and(|at| now - at < PULL_PAUSE);
        if position.is_whole || (lately && !log.is_over) {
            return;
        }
        let dir = LogDir::new(self.options.logs.clone());
        let RemoteLog { run, step, step_name, attempt, seat, is_over } = log;
        let path = match seat.total {
            0 | 1 => dir.path(run, step, &step_name, attempt),
            _ => dir.share_path(run, step, &step_name, attempt, seat.index),
        };
        for _ in 0..PARTS_MAX {
            let next_line = position.next_line.max(1);
            let request = LogRequest {
                log_id: number,
                log_date_tim: seat.at,
                log_date_time: seat.at,
                from_line_num: next_line,
            };
            let Ok(answer) = self.client.call(&group, &who, "log", json(&request)).await else { break };
            if !answer.is_ok() {
                break;
            }
            let part = LogPart::read(&answer);
            if part.text.is_empty() || part.to_line < next_line {
                position.is_whole = is_over;
                break;
            }
            self.note_log(number);
            // What an earlier life of the server copied is copied anew.
            let anew = position.next_line == 0;
            if write(&path, anew, &part, self.options.log_bytes_max).is_err() {
                break;
            }
            position.next_line = part.to_line + 1;
            if part.is_end {
                position.is_whole = is_over;
                break;
            }
        }
        position.looked_at = Some(now);
    }
}

impl Shared {
    /// An executor has lines of a log: a sign that it took the order, answered or not.
    fn note_log(&self, log: u64) {
        let untaken = {
            let mut state = self.state();
            let errand = state.by_log.get(&log).copied();
            errand.filter(|errand| state.share(*errand).is_some_and(|share| share.is_untaken()))
        };
        if let Some(errand) = untaken {
            self.taken(errand, false);
        }
    }
}

fn write(path: &Path, anew: bool, part: &LogPart, bytes_max: u64) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        cadran_files::create_dir(dir)?;
    }
    let mut file =
        cadran_files::options().create(true).write(true).append(!anew).truncate(anew).open(path)?;
    let room = bytes_max.saturating_sub(file.metadata()?.len());
    if room == 0 {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let mut text = part.text.clone();
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
