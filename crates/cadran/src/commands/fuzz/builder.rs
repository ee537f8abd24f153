//! `cadran fuzz builder`: one build.

use std::process::ExitCode;

use cadran_fuzz::{BuildOutcome, BuildPass};
use serde_json::json;

use super::setup::{Common, failure, named, resolve};
use crate::client::{Exit, Failure, out, out_json};

/// Build the next commit of the queue, both binaries, and upload them.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A build that the compiler refuses goes to `failed` and the pass ends well: `cadran fuzz retry` puts \
it back. A build that was cut, killed or met a full disk is tried again by the next passes, three times in all, and this \
pass exits with 1. Ctrl-C gives the commit back.\n\nExamples:\n  cadran fuzz builder\n  cadran fuzz builder --all\n  \
cadran fuzz builder --commit 1a2b3c4"
)]
pub struct Args {
    /// Build this commit now: 7 to 40 digits of its hash.
    #[arg(long, value_name = "HASH")]
    commit: Option<String>,
    /// Go on until nothing waits.
    #[arg(long, conflicts_with = "commit")]
    all: bool,
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help text of the command")]
    pub(super) common: Common,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let (runner, screen) = args.common.runner("builder").await?;
    let named = match named(args.commit.as_deref()) {
        Some(text) => Some(resolve(&runner, text).await?),
        None => None,
    };
    let mut exit = Exit::Ok;
    loop {
        let pass = runner.build(named.as_ref()).await.map_err(failure)?;
        screen.clear();
        let goes_on = matches!(pass, BuildPass::Ended { .. });
        let this = show(&pass, args.common.json, args.all)?;
        exit = if this == Exit::Ok { exit } else { this };
        if !args.all || !goes_on {
            return Ok(exit.into());
        }
    }
}

fn show(pass: &BuildPass, json: bool, is_one_of_many: bool) -> Result<Exit, Failure> {
    let (outcome, hash, reason) = match pass {
        BuildPass::Nothing => ("nothing", None, None),
        BuildPass::Hold { waiting } => {
            ("hold", None, Some(format!("{waiting} commits wait to be built together")))
        }
        BuildPass::Stopped(hash) => ("stopped", Some(hash), None),
        BuildPass::Lost(hash) => ("lost", Some(hash), None),
        BuildPass::Ended { hash, outcome: BuildOutcome::Built } => ("built", Some(hash), None),
        BuildPass::Ended { hash, outcome: BuildOutcome::Failed(why) } => {
            ("failed", Some(hash), Some(why.clone()))
        }
        BuildPass::Ended { hash, outcome: BuildOutcome::Trouble(why) } => {
            ("trouble", Some(hash), Some(why.clone()))
        }
    };
    if json {
        out_json(&json!({ "outcome": outcome, "commit": hash.map(|hash| hash.as_str()), "reason": reason }))?;
    } else {
        let commit = hash.map(|hash| hash.short()).unwrap_or_default();
        let reason = reason.unwrap_or_default();
        match outcome {
            "nothing" if is_one_of_many => {}
            "nothing" => out("nothing waits for a build\n")?,
            "hold" => out(&format!("{reason}; the fuzzers have enough to do\n"))?,
            "stopped" => out(&format!("{commit} stopped; it stays in the queue\n"))?,
            "lost" => out(&format!("{commit} was taken over by somebody else\n"))?,
            "built" => out(&format!("{commit} built\n"))?,
            "failed" => out(&format!("{commit} does not build: {reason}\n"))?,
            _ => out(&format!("{commit} could not be built, it is tried again: {reason}\n"))?,
        }
    }
    Ok(match pass {
        BuildPass::Stopped(_) => Exit::Interrupted,
        BuildPass::Ended { outcome: BuildOutcome::Trouble(_), .. } => Exit::RunFailed,
        _ => Exit::Ok,
    })
}
