//! `cadran fuzz fuzzer`: one fuzz run.

use std::process::ExitCode;

use cadran_fuzz::{BuildOutcome, BuildPass, FuzzPass, FuzzReport, Scheduled};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::setup::{Common, failure, named, resolve};
use crate::client::{Exit, Failure, out, out_json};

/// Fuzz the commit that was fuzzed least, and keep its crashes and corpus.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The whole pass takes as long as `fuzz.duration` says, downloads and uploads included. Ctrl-C stops \
the fuzzer and saves what it found; the run does not count then.\n\nExamples:\n  cadran fuzz fuzzer\n  \
cadran fuzz fuzzer --commit 1a2b3c4 --fail-on-crash"
)]
pub struct Args {
    /// Fuzz this commit, built first if need be: 7 to 40 digits of its hash.
    #[arg(long, value_name = "HASH")]
    commit: Option<String>,
    /// Exit with 1 when the run finds a crash, for CI.
    #[arg(long)]
    fail_on_crash: bool,
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help text of the command")]
    pub(super) common: Common,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let began = Instant::now();
    let (runner, screen) = args.common.runner("fuzzer").await?;
    let named = match named(args.commit.as_deref()) {
        None => None,
        Some(text) => {
            let hash = resolve(&runner, text).await?;
            if runner.pipeline().schedule(&hash).await.map_err(failure)? == Scheduled::AfterBuild {
                match runner.build(Some(&hash)).await.map_err(failure)? {
                    BuildPass::Ended { outcome: BuildOutcome::Built, .. } => {}
                    BuildPass::Ended {
                        outcome: BuildOutcome::Failed(why) | BuildOutcome::Trouble(why),
                        ..
                    } => {
                        let message = format!("{} cannot be fuzzed: {why}", hash.short());
                        return Err(Failure::new(Exit::RunFailed, "build", message));
                    }
                    _ => return Ok(Exit::Interrupted.into()),
                }
                runner.pipeline().schedule(&hash).await.map_err(failure)?;
            }
            Some(hash)
        }
    };
    let pass = runner.fuzz(named.as_ref(), began).await.map_err(failure)?;
    screen.clear();
    show(&pass, &args)
}

fn show(pass: &FuzzPass, args: &Args) -> Result<ExitCode, Failure> {
    let (outcome, report, exit) = match pass {
        FuzzPass::Nothing => ("nothing", None, Exit::Ok),
        FuzzPass::Died { .. } => ("died", None, Exit::RunFailed),
        FuzzPass::Fuzzed(report) => {
            let crashed = args.fail_on_crash && !report.crashes_seen.is_empty();
            ("fuzzed", Some(report), if crashed { Exit::RunFailed } else { Exit::Ok })
        }
        FuzzPass::Stopped(report) => ("stopped", Some(report), Exit::Interrupted),
        FuzzPass::Lost(report) => ("lost", Some(report), Exit::RunFailed),
    };
    if args.common.json {
        let mut value = json!({ "outcome": outcome, "report": report });
        if let (FuzzPass::Died { hash, reason }, Value::Object(map)) = (pass, &mut value) {
            map.insert("commit".into(), hash.as_str().into());
            map.insert("reason".into(), reason.as_str().into());
        }
        out_json(&value)?;
        return Ok(exit.into());
    }
    match pass {
        FuzzPass::Nothing => out("nothing is scheduled that could be fuzzed\n")?,
        FuzzPass::Died { hash, reason } => {
            out(&format!("{} died before it fuzzed, it does not count: {reason}\n", hash.short()))?;
        }
        FuzzPass::Fuzzed(report) => out(&summary(report, ""))?,
        FuzzPass::Stopped(report) => out(&summary(report, "; stopped, it does not count"))?,
        FuzzPass::Lost(report) => out(&summary(report, "; somebody else took over, it does not count"))?,
    }
    Ok(exit.into())
}

fn summary(report: &FuzzReport, end: &str) -> String {
    let FuzzReport { commit, seconds, executions, coverage, corpus, .. } = report;
    let mut text = format!(
        "{} fuzzed for {seconds} s: {executions} executions, coverage {coverage}, corpus {corpus}{end}\n",
        commit.get(..12).unwrap_or(commit),
    );
    let lists = [
        ("new crashes", &report.crashes_new),
        ("crashes", &report.crashes_seen),
        ("fixed", &report.crashes_fixed),
    ];
    for (name, ids) in lists.into_iter().filter(|(_, ids)| !ids.is_empty()) {
        text.push_str(&format!("{name}: {}\n", ids.join(", ")));
    }
    text
}
