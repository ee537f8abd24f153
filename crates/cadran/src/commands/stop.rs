//! `cadran stop`.

use std::process::ExitCode;

use cadran_core::RunId;
use serde_json::json;

use crate::client::exit::after_help;
use crate::client::{Api, ClientOptions, Exit, Failure, out_json, talk};

/// Stop a run, wherever it stands.
///
/// Its processes get their signal, and KILL after the grace period; its stop and exit handlers run. A run that has not
/// started never does.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help("  cadran stop 01kx3v9a2m000"))]
pub struct Args {
    /// The run's id.
    pub run: String,
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help text of the command")]
    pub client: ClientOptions,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let run: RunId = args.run.parse().map_err(|error| {
        Failure::usage(format!("{:?} is not a run: {error}", args.run))
            .help("`cadran ps` lists the runs that are on")
    })?;
    let done = Api::new(&args.client)?.post(&["runs", &run.to_string(), "stop"], &json!({})).await?;
    if args.client.json {
        out_json(&done)?;
    } else if done["result"] == "already" {
        talk(&format!("run {run} was being stopped already"));
    } else {
        talk(&format!("run {run} is being stopped"));
    }
    Ok(Exit::Ok.into())
}
