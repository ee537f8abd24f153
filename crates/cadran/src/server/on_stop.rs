//! What becomes of running steps when the server stops.

use std::path::Path;
use std::time::Duration;

use cadran_exec::{Embedded, LeftRunning};

use super::embedded::wait_idle;
use super::signals::StopSignal;
use crate::defaults;

/// `leave`, `stop` or `drain=DURATION`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnStop {
    /// They go on, and the next server goes on with their runs.
    Leave,
    /// They are stopped; their runs start again with the next server.
    Stop,
    /// Their end is waited for, and what is on then is stopped.
    Drain(Duration),
}

/// Reads what was typed.
pub fn parse(text: &str) -> Result<OnStop, String> {
    let duration =
        |text: &str| Some(Duration::from_millis(cadran_cron::parse_duration(text).ok()?.try_into().ok()?));
    match (text, text.strip_prefix("drain=")) {
        ("leave", _) => Ok(OnStop::Leave),
        ("stop", _) => Ok(OnStop::Stop),
        (_, Some(time)) => duration(time)
            .map(OnStop::Drain)
            .ok_or_else(|| format!("`{time}` is no time; write 90s, 10m or 2h")),
        _ => Err("it is `leave`, `stop` or `drain=DURATION`, as in drain=10m".into()),
    }
}

impl OnStop {
    /// What was asked for, or what people expect: Ctrl-C stops what runs, SIGTERM is an upgrade more often than not.
    pub fn of(asked: Option<OnStop>, signal: StopSignal, store_url: &str) -> OnStop {
        // The first process of a container takes all others with it, and a record in memory is gone with the server:
        // nobody could go on with what is left.
        let is_last = std::process::id() == 1 || store_url.starts_with("memory:");
        match (asked, signal) {
            (Some(asked), _) => asked,
            (None, StopSignal::Interrupt) => OnStop::Stop,
            (None, StopSignal::Terminate) if is_last => OnStop::Stop,
            (None, StopSignal::Terminate) => OnStop::Leave,
        }
    }

    /// For the log, while it is carried out.
    pub fn sentence(&self) -> String {
        match self {
            OnStop::Leave => "running steps go on".into(),
            OnStop::Stop => "running steps are stopped".into(),
            OnStop::Drain(time) => format!("running steps have {} s", time.as_secs()),
        }
    }

    /// Returns when nothing more comes from the executor.
    pub async fn carry_out(&self, executor: &Embedded, data: &Path) {
        match self {
            OnStop::Leave => say_left(executor.leave().await, data),
            OnStop::Stop => executor.drain(defaults::EXECUTOR.stop_timeout).await,
            OnStop::Drain(time) => {
                wait_idle(executor, *time).await;
                executor.drain(defaults::EXECUTOR.stop_timeout).await;
            }
        }
    }
}

fn say_left(left: Option<LeftRunning>, data: &Path) {
    match left {
        Some(LeftRunning { running: 0, waiting: 0 }) => tracing::info!("nothing was running"),
        Some(LeftRunning { running, waiting }) => {
            let go_on =
                if running == 1 { "1 attempt goes on".into() } else { format!("{running} attempts go on") };
            let wait =
                if waiting > 0 { format!(", {waiting} more wait for their start") } else { String::new() };
            tracing::info!(
                "{go_on}{wait}: the next server with {} takes over, `cadran executor stop` ends them",
                data.display()
            );
        }
        None => {
            tracing::warn!("the executor did not answer: what it runs goes on, and the next server finds it")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_is_understood() {
        let check = |text: &str, expected: Option<OnStop>| assert_eq!(parse(text).ok(), expected, "{text}");
        check("leave", Some(OnStop::Leave));
        check("stop", Some(OnStop::Stop));
        check("drain=90s", Some(OnStop::Drain(Duration::from_secs(90))));
        check("drain=1h30m", Some(OnStop::Drain(Duration::from_secs(5_400))));
        check("drain=0s", Some(OnStop::Drain(Duration::ZERO)));
        for bad in ["", "drain", "drain=", "drain=10", "drain=-5s", "drain=soon", "kill"] {
            check(bad, None);
        }
    }
}
