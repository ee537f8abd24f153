//! `cadran fuzz retry`: a failed build once more.

use std::process::ExitCode;

use super::manager::said;
use super::setup::{Common, failure, resolve};
use crate::client::Failure;

/// Put a commit that failed to build back into the queue.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  cadran fuzz retry 1a2b3c4")]
pub struct Args {
    /// The commit: 7 to 40 digits of its hash.
    #[arg(value_name = "HASH")]
    commit: String,
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help text of the command")]
    pub(super) common: Common,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let (runner, _) = args.common.runner("retry").await?;
    let hash = resolve(&runner, &args.commit).await?;
    let answer = runner.pipeline().retry(&hash).await.map_err(failure)?;
    said(args.common.json, hash.as_str(), answer)
}
