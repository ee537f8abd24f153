//! `cadran fuzz manager`: one look at the repository and the state.

use std::process::{ExitCode, Stdio};
use std::time::Duration;

use cadran_fuzz::{CommitState, Enqueued, Event};
use serde_json::json;
use tokio::process::Command;
use tokio::time::timeout;

use super::setup::{Common, failure, named, resolve};
use crate::client::{Exit, Failure, out, out_json, talk};

/// Look for new commits, hand built ones over to the fuzzer, clean up.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "With --commit it only puts that commit into the build queue; one that the file filter would leave \
out is taken with a warning.\n\nExamples:\n  cadran fuzz manager\n  cadran fuzz manager --commit 1a2b3c4 --front\n  \
cadran fuzz manager --on-queued 'cadran trigger parser-builder'   # builds need not wait for their schedule"
)]
pub struct Args {
    /// Queue this commit: 7 to 40 digits of its hash.
    #[arg(long, value_name = "HASH")]
    commit: Option<String>,
    /// Before all others.
    #[arg(long, requires = "commit")]
    front: bool,
    /// Run this command line when commits have come to the build queue, such as `cadran trigger parser-builder`.
    #[arg(long, value_name = "COMMAND")]
    on_queued: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help text of the command")]
    pub(super) common: Common,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let (runner, _) = args.common.runner("manager").await?;
    let pipeline = runner.pipeline();
    if let Some(text) = named(args.commit.as_deref()) {
        let hash = resolve(&runner, text).await?;
        let answer = pipeline.enqueue(&hash, args.front).await.map_err(failure)?;
        if matches!(answer, Enqueued::Added | Enqueued::AddedInFront) {
            on_queued(args.on_queued.as_deref()).await;
        }
        return said(args.common.json, hash.as_str(), answer);
    }
    let pass = pipeline.manage(runner.repository()).await.map_err(failure)?;
    let cleaned = pipeline.clean_up().await.map_err(failure)?;
    runner.clean_logs().await.map_err(failure)?;
    // A person or another tool may have put some there as well.
    let to_queue = |event: &Event| matches!(event.after, CommitState::Queue | CommitState::QueueFront);
    if !pass.queued.is_empty() || pass.events.iter().any(to_queue) {
        on_queued(args.on_queued.as_deref()).await;
    }
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

/// Time for the command that is run when commits were queued: it is to start something, not to do it.
const ON_QUEUED_TIME: Duration = Duration::from_secs(60);

/// Tells whoever wants to know that the queue has grown. The pass has done its work, whatever comes of this.
async fn on_queued(command: Option<&str>) {
    let Some(command) = command else { return };
    let mut shell = Command::new("/bin/sh");
    // What it prints is no part of our answer.
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    let trouble = match timeout(ON_QUEUED_TIME, shell.status()).await {
        Ok(Ok(status)) if status.success() => return,
        Ok(Ok(status)) => format!("it ended with {status}"),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("it was ended after {} s", ON_QUEUED_TIME.as_secs()),
    };
    talk(&format!(
        "warning: the command of --on-queued did not succeed: {trouble}; the queue is as it should be"
    ));
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
