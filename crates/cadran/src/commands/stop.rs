//! `cadran stop`.

use std::process::ExitCode;

use serde_json::json;

use crate::client::exit::after_help;
use crate::client::{Api, ClientOptions, Exit, Failure, out_json, run_name, talk};

/// Stop a run, wherever it stands.
///
/// Its processes get their signal, and KILL after the grace period; its stop and exit handlers run. A run that has not
/// started never does. Of a broadcast one share can be stopped alone: the others go on, and when all are over the step has
/// failed and says why.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help("  cadran stop 01kx3v9a2m000\n  cadran stop 01kx3v9a2m000.2"))]
pub struct Args {
    /// The run's id; with a dot and a number behind it, one share of a broadcast.
    pub run: String,
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help text of the command")]
    pub client: ClientOptions,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let run = run_name(&args.run)?;
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
