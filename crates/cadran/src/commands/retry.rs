//! `cadran retry`.

use std::process::ExitCode;

use serde_json::json;

use crate::client::exit::after_help;
use crate::client::{Api, ClientOptions, Exit, Failure, out_json, run_name, talk, wait_for};

/// Open an ended run again: what did not succeed runs again.
///
/// Steps that succeeded keep their result, and so do shares of a broadcast. With a share's name nothing but that share of
/// its broadcast runs again. For a run from the start, trigger the job.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help("  cadran retry 01kx3v9a2m000\n  cadran retry 01kx3v9a2m000 --wait\n  cadran retry 01kx3v9a2m000.2"))]
pub struct Args {
    /// The run's id; with a dot and a number behind it, one share of a broadcast.
    pub run: String,
    /// Wait until the run has ended; the exit code says how it went.
    #[arg(short, long)]
    pub wait: bool,
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help text of the command")]
    pub client: ClientOptions,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let run = run_name(&args.run)?;
    let api = Api::new(&args.client)?;
    let run = run.to_string();
    let done = api.post(&["runs", &run, "retry"], &json!({})).await?;
    if args.wait {
        return Ok(wait_for(&api, &run, args.client.json).await?.into());
    }
    if args.client.json {
        out_json(&done)?;
    } else {
        talk(&format!("run {run} is open again; follow it with `cadran logs -f {run}`"));
    }
    Ok(Exit::Ok.into())
}
