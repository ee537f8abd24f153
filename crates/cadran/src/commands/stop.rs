//! `cadran stop`.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use crate::client::exit::after_help;
use crate::client::{Api, ClientOptions, Exit, Failure, RunPage, out_json, run_name, talk};

/// Stop a run, wherever it stands.
///
/// Its processes get their signal, and KILL after the grace period; its stop and exit handlers run. A run that has not
/// started never does. Of a broadcast one share can be stopped alone: the others go on, and when all are over the step has
/// failed and says why.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help("  cadran stop 01kx3v9a2m000\n  cadran stop 01kx3v9a2m000.2\n  cadran stop --all"))]
pub struct Args {
    /// The run's id; with a dot and a number behind it, one share of a broadcast.
    #[arg(required_unless_present = "all")]
    pub run: Option<String>,
    /// Every run that is on or waits.
    #[arg(long, conflicts_with = "run")]
    pub all: bool,
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help text of the command")]
    pub client: ClientOptions,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let Some(run) = &args.run else { return stop_all(&args).await };
    let run = run_name(run)?;
    let done = Api::new(&args.client)?.post(&["runs", &run.to_string(), "stop"], &json!({})).await?;
    if args.client.json {
        out_json(&done)?;
    } else if done["result"] == "already" {
        talk(&format!("run {run} was being stopped already"));
    } else {
        let others = if run.share.is_some() { "; the other shares go on" } else { "" };
        talk(&format!("run {run} is being stopped{others}"));
    }
    Ok(Exit::Ok.into())
}

/// Runs stopped in one round; a round finds what was not seen in the one before.
const ROUND_RUNS: usize = 1_000;

/// Rounds at most: whoever starts runs faster than they can be stopped pauses the job first.
const ROUNDS_MAX: usize = 100;

const ROUND_PAUSE: Duration = Duration::from_millis(500);

async fn stop_all(args: &Args) -> Result<ExitCode, Failure> {
    let api = Api::new(&args.client)?;
    let query = [("status", "waiting,running".to_owned()), ("limit", ROUND_RUNS.to_string())];
    let mut asked = BTreeSet::new();
    for _ in 0..ROUNDS_MAX {
        let (page, _): (RunPage, _) = api.get_as(&["runs"], &query).await?;
        let is_whole = page.runs.len() < ROUND_RUNS;
        let new: Vec<String> =
            page.runs.into_iter().map(|run| run.id).filter(|run| asked.insert(run.clone())).collect();
        if new.is_empty() && is_whole {
            break;
        }
        if new.is_empty() {
            // Those that are being stopped hide others until they have ended.
            tokio::time::sleep(ROUND_PAUSE).await;
        }
        for run in new {
            match api.post(&["runs", &run, "stop"], &json!({})).await {
                Ok(_) => {}
                // It came to its end meanwhile.
                Err(failure) if matches!(failure.exit, Exit::NotFound | Exit::Refused) => {}
                Err(failure) => return Err(failure),
            }
        }
    }
    if args.client.json {
        out_json(&json!({ "stopped": asked }))?;
    } else {
        talk(&match asked.len() {
            0 => "no run is on".to_owned(),
            1 => "1 run is being stopped".to_owned(),
            count => format!("{count} runs are being stopped"),
        });
    }
    Ok(Exit::Ok.into())
}
