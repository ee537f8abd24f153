use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use serde_json::Value;

use super::output::colours;
use super::{Api, Exit, Failure, Run, escaped, out_json, paint, status_colour, talk, took};

/// How long one question waits at the server for a change.
const ASK_MS: u64 = 1_000;

/// A server that restarts is back within this; the run goes on meanwhile.
const AWAY_TIME_MAX: Duration = Duration::from_secs(60);

/// How often a server that is away is asked again.
const AWAY_PAUSE: Duration = Duration::from_millis(500);

/// Waits until a run has ended, showing progress on a terminal. The exit says how the run went.
pub async fn wait_for(api: &Api, run: &str, json: bool) -> Result<Exit, Failure> {
    let mut progress = Progress::new(json);
    let (last, value) = tokio::select! {
        ended = ended(api, run, &mut progress) => ended?,
        _ = tokio::signal::ctrl_c() => {
            progress.clear();
            talk(&format!("run {run} goes on; stop it with `cadran stop {run}`"));
            return Ok(Exit::Interrupted);
        }
    };
    progress.clear();
    if json {
        out_json(&value)?;
    } else {
        let colour = colours(io::stderr().is_terminal());
        let status = paint(&last.status, status_colour(&last.status), colour);
        let time = last.duration_ms.map(|ms| format!(" in {}", took(ms))).unwrap_or_default();
        let why = if last.status == "succeeded" {
            String::new()
        } else {
            format!(": {}", escaped(&last.explanation))
        };
        talk(&format!("run {run} of {} {status}{time}{why}", last.job));
        if last.status == "failed" {
            talk(&format!("  see what it printed with `cadran logs {run}`"));
        }
    }
    Ok(if last.status == "succeeded" { Exit::Ok } else { Exit::RunFailed })
}

async fn ended(api: &Api, run: &str, progress: &mut Progress) -> Result<(Run, Value), Failure> {
    let mut away = Duration::ZERO;
    loop {
        match api.get_as::<Run>(&["runs", run], &[("wait_ms", ASK_MS.to_string())]).await {
            Ok((now, value)) => {
                away = Duration::ZERO;
                if now.ended {
                    return Ok((now, value));
                }
                progress.show(&now);
            }
            Err(failure) if failure.exit == Exit::Unreachable && away < AWAY_TIME_MAX => {
                progress.away();
                away += AWAY_PAUSE;
                tokio::time::sleep(AWAY_PAUSE).await;
            }
            Err(failure) => return Err(failure),
        }
    }
}

/// One line on a terminal that is written over and over; nothing elsewhere.
struct Progress {
    on: bool,
}

impl Progress {
    fn new(json: bool) -> Progress {
        Progress { on: !json && io::stderr().is_terminal() }
    }

    fn show(&mut self, run: &Run) {
        let over = run
            .steps
            .iter()
            .filter(|step| !matches!(step.status.as_str(), "pending" | "running" | "retrying"));
        let active = run.steps.iter().filter(|step| matches!(step.status.as_str(), "running" | "retrying"));
        let active: Vec<String> = active
            .map(|step| match step.attempt {
                0 | 1 => step.name.clone(),
                attempt => format!("{} (attempt {attempt})", step.name),
            })
            .collect();
        let steps = format!("{} of {} steps", over.count(), run.steps.len());
        let what = if active.is_empty() { run.explanation.clone() } else { active.join(", ") };
        self.line(&format!("{} {} · {steps} · {what}", run.job, run.status));
    }

    fn away(&mut self) {
        self.line("the server does not answer; asking again");
    }

    fn clear(&mut self) {
        self.line("");
    }

    fn line(&mut self, text: &str) {
        if self.on {
            // Wider than a terminal would wrap, and then not be written over.
            let text: String = escaped(text).replace('\n', " ").chars().take(78).collect();
            let mut stderr = io::stderr().lock();
            let _ = write!(stderr, "\r\u{1b}[K{text}").and_then(|()| stderr.flush());
        }
    }
}
