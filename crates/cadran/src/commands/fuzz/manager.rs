//! `cadran fuzz manager`: one look at the repository and the state.

use std::process::ExitCode;

use cadran_fuzz::{Enqueued, Event};
use serde_json::json;

use super::setup::{Common, failure, resolve};
use crate::client::{Exit, Failure, out, out_json, talk};

/// Look for new commits, hand built ones over to the fuzzer, clean up.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "With --commit it only puts that commit into the build queue; one that the file filter would leave \
out is taken with a warning.\n\nExamples:\n  cadran fuzz manager\n  cadran fuzz manager --commit 1a2b3c4 --front"
)]
pub struct Args {
    /// Queue this commit: 7 to 40 digits of its hash.
    #[arg(long, value_name = "HASH")]
    commit: Option<String>,
    /// Before all others.
    #[arg(long, requires = "commit")]
    front: bool,
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help text of the command")]
    pub(super) common: Common,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let (workshop, _) = args.common.workshop("manager").await?;
    let pipeline = workshop.pipeline();
    if let Some(text) = &args.commit {
        let hash = resolve(&workshop, text).await?;
        let answer = pipeline.enqueue(&hash, args.front).await.map_err(failure)?;
        return said(args.common.json, hash.as_str(), answer);
    }
    let pass = pipeline.manage(workshop.repository()).await.map_err(failure)?;
    let cleaned = pipeline.clean_up().await.map_err(failure)?;
    workshop.clean_logs().await.map_err(failure)?;
    if args.common.json {
        let queued: Vec<&str> = pass.queued.iter().map(|hash| hash.as_str()).collect();
        let events: Vec<_> = pass.events.iter().map(Event::to_json).collect();
        out_json(&json!({
            "busy": pass.busy, "queued": queued, "handed_over": pass.handed_over, "backlog": pass.backlog,
            "history_error": pass.history_error, "events": events, "binaries_removed": cleaned.binaries,
        }))?;
    } else if let Some(owner) = &pass.busy {
        out(&format!("{owner} is at it already; nothing was done\n"))?;
    } else {
        for event in &pass.events {
            let commit = event.hash.get(..12).unwrap_or(&event.hash);
            out(&format!("{:<18} {commit:<12}  {}\n", event.what, event.reason))?;
        }
        out(&format!("{} queued, {} handed over to the fuzzer\n", pass.queued.len(), pass.handed_over))?;
        if pass.backlog > 0 {
            talk(&format!("warning: {} more commits wait for the next pass", pass.backlog));
        }
    }
    match pass.history_error {
        None => Ok(Exit::Ok.into()),
        Some(why) => {
            let message = format!("the repository cannot be read: {why}");
            Err(Failure::new(Exit::Unreachable, "repository", message)
                .help("the rest of the pass was done; check the address, the credentials and the branch"))
        }
    }
}

/// Says what became of a commit that somebody asked to build.
pub(super) fn said(json: bool, hash: &str, answer: Enqueued) -> Result<ExitCode, Failure> {
    let (word, text) = match answer {
        Enqueued::Added => ("added", "waits for its build"),
        Enqueued::AddedInFront => ("added_in_front", "is built next"),
        Enqueued::AlreadyQueued => ("already_queued", "waits for its build already"),
        Enqueued::AlreadyBuilt => ("already_built", "is built already"),
        Enqueued::AlreadyScheduled => ("already_scheduled", "is in the schedule already"),
    };
    if json {
        out_json(&json!({ "commit": hash, "answer": word, "text": text }))?;
    } else {
        out(&format!("{} {text}\n", hash.get(..12).unwrap_or(hash)))?;
    }
    Ok(Exit::Ok.into())
}
