//! `cadran resume`.

use std::process::ExitCode;

use cadran_core::JobName;
use serde_json::json;

use crate::client::exit::after_help;
use crate::client::{Api, ClientOptions, Exit, Failure, out_json, talk};

/// End the pause of a job.
///
/// Its next due starts again as scheduled.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help("  cadran resume backup"))]
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
    let done = Api::new(&args.client)?.post(&["jobs", job.as_str(), "resume"], &json!({})).await?;
    if args.client.json {
        out_json(&done)?;
    } else if done["result"] == "already" {
        talk(&format!("{job} was not paused"));
    } else {
        talk(&format!("{job} is resumed"));
    }
    Ok(Exit::Ok.into())
}
