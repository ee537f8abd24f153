//! `cadran fuzz retest`: known crashes, tried now; or a commit, fuzzed next.

use std::process::ExitCode;

use cadran_fuzz::{CrashStatus, Scheduled};
use serde_json::json;

use super::setup::{Common, failure, resolve};
use crate::client::{Cell, Colour, Exit, Failure, Table, out, out_json};

/// Try known crashes on the newest build now, or have a commit fuzzed next.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A crash that a later commit does not have any more becomes fixed; one that comes back is open \
again.\n\nExamples:\n  cadran fuzz retest                     # every crash, on the newest build\n  \
cadran fuzz retest 5f2e                # one crash\n  cadran fuzz retest --fuzz 1a2b3c4      # fuzz this commit next"
)]
pub struct Args {
    /// Crashes, by the first digits of their id [default: all].
    #[arg(value_name = "CRASH")]
    crashes: Vec<String>,
    /// Try them on this commit [default: the newest that is built].
    #[arg(long, value_name = "HASH", conflicts_with = "fuzz")]
    commit: Option<String>,
    /// Have this commit fuzzed next, as if it never was.
    #[arg(long, value_name = "HASH", conflicts_with = "crashes")]
    fuzz: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help text of the command")]
    pub(super) common: Common,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let (runner, _) = args.common.runner("retest").await?;
    if let Some(text) = &args.fuzz {
        let hash = resolve(&runner, text).await?;
        let scheduled = runner.pipeline().retest(&hash).await.map_err(failure)?;
        let (word, text) = match scheduled {
            Scheduled::Now => ("scheduled", "is fuzzed next"),
            Scheduled::AfterBuild => ("after_build", "has no binaries; it is built next, then fuzzed"),
        };
        if args.common.json {
            out_json(&json!({ "commit": hash.as_str(), "answer": word }))?;
        } else {
            out(&format!("{} {text}\n", hash.short()))?;
        }
        return Ok(Exit::Ok.into());
    }
    let named = match &args.commit {
        Some(text) => Some(resolve(&runner, text).await?),
        None => None,
    };
    let mut crashes = Vec::new();
    for digits in &args.crashes {
        crashes.push(runner.crash(digits).await.map_err(failure)?);
    }
    if args.crashes.is_empty() {
        crashes = runner.crashes().await.map_err(failure)?;
        crashes.retain(|crash| crash.merged_into.is_none());
    }
    if crashes.is_empty() {
        if args.common.json {
            out_json(&json!({ "commit": null, "crashes": [] }))?;
        } else {
            out("no crash is known\n")?;
        }
        return Ok(Exit::Ok.into());
    }
    let (commit, stand) = runner.verify(&crashes, named.as_ref()).await.map_err(failure)?;
    if args.common.json {
        let rows: Vec<_> = stand.iter().map(|(id, status)| json!({ "id": id, "status": status })).collect();
        out_json(&json!({ "commit": commit.as_str(), "crashes": rows }))?;
    } else {
        let mut table = Table::new(&["CRASH", "NOW", "TITLE"]);
        for ((id, status), crash) in stand.iter().zip(&crashes) {
            let colour = match status {
                CrashStatus::Open => Colour::Red,
                CrashStatus::Unconfirmed => Colour::Yellow,
                CrashStatus::Fixed => Colour::Green,
            };
            table.row(vec![
                id.as_str().into(),
                Cell::coloured(status.word(), Some(colour)),
                crash.title.as_str().into(),
            ]);
        }
        out(&format!("tried on {}\n", commit.short()))?;
        table.show()?;
    }
    Ok(Exit::Ok.into())
}
