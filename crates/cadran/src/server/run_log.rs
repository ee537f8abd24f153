//! One line in the server's log for each run that failed, was lost or was skipped, and no more lines than anybody reads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cadran_core::{RunId, RunStatus, RunUpdate, SkipReason, StepStatus};
use cadran_engine::{Effects, Engine};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

/// Lines written in one interval; what comes beyond is counted and said at its end.
const LINES_MAX: u64 = 50;

/// The interval.
const INTERVAL: Duration = Duration::from_secs(10);

/// Lines on their way from the loop to the log. The loop must not wait for whoever reads the log, so what does not fit is
/// only counted.
const QUEUE_MAX: usize = 1_000;

/// The loop's end of it.
pub struct RunLog {
    lines: mpsc::Sender<Line>,
    dropped: Arc<AtomicU64>,
}

struct Line {
    job: String,
    run: Option<RunId>,
    status: RunStatus,
    text: String,
}

impl RunLog {
    /// Starts the task that writes. It ends with the loop. Must be called on the async runtime.
    pub fn start() -> RunLog {
        let (lines, queue) = mpsc::channel(QUEUE_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        tokio::spawn(write(queue, dropped.clone()));
        RunLog { lines, dropped }
    }

    /// Notes what ended badly in an iteration of the loop.
    pub(crate) fn observe(&self, engine: &Engine, effects: &Effects) {
        let is_told = |status| matches!(status, RunStatus::Failed | RunStatus::Lost | RunStatus::Skipped);
        let job = |id| {
            engine.catalog().name(id).map_or_else(|| format!("number {}", id.0), |name| name.to_string())
        };
        if effects.changes.iter().any(|change| is_told(change.status)) {
            let updates: BTreeMap<RunId, &RunUpdate> =
                effects.batch.runs.iter().map(|update| (update.run, update)).collect();
            for change in effects.changes.iter().filter(|change| is_told(change.status)) {
                let said = updates.get(&change.run).map(|update| why(update)).unwrap_or_default();
                let text = match change.skip {
                    Some(reason) if said.is_empty() => reason.sentence().to_owned(),
                    // It names the command, and says the reason itself.
                    Some(SkipReason::Precondition) => said,
                    Some(reason) => format!("{}; {said}", reason.sentence()),
                    None => said,
                };
                self.note(|| Line {
                    job: job(change.job),
                    run: Some(change.run),
                    status: change.status,
                    text,
                });
            }
        }
        for skip in &effects.batch.skips {
            let dues = if skip.count == 1 { "1 due".to_owned() } else { format!("{} dues", skip.count) };
            let text = format!("{dues}: {}", skip.reason.sentence());
            self.note(|| Line { job: job(skip.job), run: None, status: RunStatus::Skipped, text });
        }
    }

    fn note(&self, line: impl FnOnce() -> Line) {
        match self.lines.try_reserve() {
            Ok(room) => room.send(line()),
            Err(_) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// What the run says of its end, else its first step that failed.
fn why(update: &RunUpdate) -> String {
    if let Some(message) = update.message.as_deref().filter(|message| !message.is_empty()) {
        return message.to_owned();
    }
    let mut steps = update.steps.iter().flatten();
    let Some(step) = steps.find(|step| step.status == StepStatus::Failed) else {
        return String::new();
    };
    match (step.message.as_deref(), step.exit_code) {
        (Some(message), _) if !message.is_empty() => format!("step {}: {message}", step.name),
        (_, Some(code)) => format!("step {} exited with {code}", step.name),
        _ => format!("step {}", step.name),
    }
}

async fn write(mut lines: mpsc::Receiver<Line>, dropped: Arc<AtomicU64>) {
    let mut every = tokio::time::interval(INTERVAL);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut written, mut held_back) = (0, 0);
    loop {
        tokio::select! {
            line = lines.recv() => match line {
                Some(line) if written < LINES_MAX => {
                    written += 1;
                    say(&line);
                }
                Some(_) => held_back += 1,
                None => break,
            },
            _ = every.tick() => {
                say_held_back(held_back + dropped.swap(0, Ordering::Relaxed));
                (written, held_back) = (0, 0);
            }
        }
    }
    say_held_back(held_back + dropped.swap(0, Ordering::Relaxed));
}

fn say(line: &Line) {
    let Line { job, run, status, text } = line;
    let run = run.map(|run| format!("run {run} of ")).unwrap_or_default();
    // Texts of executors and steps may hold anything; a line of the log stays one line.
    let text = if text.is_empty() { String::new() } else { format!(": {}", text.escape_debug()) };
    match status {
        RunStatus::Skipped => tracing::info!("{run}job {job} skipped{text}"),
        status => tracing::warn!("{run}job {job} {}{text}", status.word()),
    }
}

fn say_held_back(count: u64) {
    if count > 0 {
        tracing::warn!(
            count,
            "{count} more runs failed, were lost or were skipped in the last {} s; `cadran history` has them all",
            INTERVAL.as_secs()
        );
    }
}
