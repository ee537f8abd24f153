//! The shares of broadcasts, one by one.

use std::fmt;

use cadran_core::{RunName, RunNameError};
use serde_json::Value;

use super::answer::{Run, Share, ShareCounts};
use super::{Api, Failure};

impl Share {
    /// What it is called: the run, a dot, its number.
    pub fn name(&self, run: &str) -> String {
        format!("{run}.{}", self.index)
    }

    /// Its executor, and what that said.
    pub fn said(&self) -> String {
        let said = self.message.as_deref().map(|said| format!(": {said}")).unwrap_or_default();
        let attempt = if self.attempt > 1 { format!(", attempt {}", self.attempt) } else { String::new() };
        format!("{}{attempt}{said}", self.address)
    }
}

impl fmt::Display for ShareCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} shares done", self.succeeded, self.total)?;
        if self.failed > 0 { write!(f, ", {} failed", self.failed) } else { Ok(()) }
    }
}

/// The run, or the share of one, that was typed.
pub fn run_name(text: &str) -> Result<RunName, Failure> {
    text.parse().map_err(|error: RunNameError| {
        let (what, help) = match error {
            RunNameError::Run(_) => ("is not a run", "`cadran ps` and `cadran history` list runs"),
            RunNameError::Share => ("names no share", "`cadran history --shares` lists them"),
        };
        Failure::usage(format!("{text:?} {what}: {error}")).help(help)
    })
}

/// The shares of a run, in order.
pub async fn shares(api: &Api, run: &str) -> Result<Vec<Share>, Failure> {
    let (run, _): (Run, _) = api.get_as(&["runs", run], &[]).await?;
    let mut shares: Vec<Share> = run.steps.into_iter().flat_map(|step| step.executors).collect();
    shares.retain(|share| share.total > 1);
    Ok(shares)
}

/// Puts the steps, and with them the shares, into the lines of an answer that have some.
pub async fn add_shares(api: &Api, lines: &mut Value) -> Result<(), Failure> {
    for line in lines.as_array_mut().into_iter().flatten() {
        if line.get("shares").is_some()
            && let Some(run) = line["id"].as_str().map(str::to_owned)
        {
            let (_, whole): (Run, Value) = api.get_as(&["runs", &run], &[]).await?;
            line["steps"] = whole["steps"].clone();
        }
    }
    Ok(())
}
