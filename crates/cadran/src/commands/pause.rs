//! `cadran pause`.

use std::process::ExitCode;

use cadran_core::JobName;
use serde_json::json;

use crate::client::exit::after_help;
use crate::client::{Api, ClientOptions, Exit, Failure, out_json, talk};

/// Let no due of a job start until it is resumed.
///
/// Runs that are on go on. Dues that fall in the pause are counted as skipped; a backlog waits.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help("  cadran pause backup"))]
pub struct Args {
    /// The job's name.
    pub job: String,
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help text of the command")]
    pub client: ClientOptions,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let job: JobName = args.job.parse().map_err(|error| Failure::usage(format!("{error}")))?;
    let done = Api::new(&args.client)?.post(&["jobs", job.as_str(), "pause"], &json!({})).await?;
    if args.client.json {
        out_json(&done)?;
    } else if done["result"] == "already" {
        talk(&format!("{job} was paused already"));
    } else {
        talk(&format!("{job} is paused; resume it with `cadran resume {job}`"));
    }
    Ok(Exit::Ok.into())
}
