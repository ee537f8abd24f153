//! `cadran fuzz bisect`: which commit brought a crash, and which one mended it.

use std::process::ExitCode;

use cadran_fuzz::Question;

use super::crashes::{boundary, short};
use super::setup::{Common, failure};
use crate::client::{Exit, Failure, out, out_json};

/// Find the commit that brought a crash, or the one that mended it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The search goes over commits whose binaries are in the store; those that do not build are passed over. \
With --build it builds the others here, for this search alone. The answer is kept with the crash.\n\nExamples:\n  \
cadran fuzz bisect 5f2e\n  cadran fuzz bisect 5f2e --build\n  cadran fuzz bisect 5f2e --fix"
)]
pub struct Args {
    /// The crash, by the first digits of its id.
    #[arg(value_name = "CRASH")]
    crash: String,
    /// Look for the commit that mended it.
    #[arg(long)]
    fix: bool,
    /// Build commits that have no binaries.
    #[arg(long)]
    build: bool,
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help text of the command")]
    pub(super) common: Common,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let (runner, screen) = args.common.runner("bisect").await?;
    let crash = runner.crash(&args.crash).await.map_err(failure)?;
    let question = if args.fix { Question::Fixed } else { Question::Introduced };
    let report = runner.bisect(&crash, question, args.build).await.map_err(failure)?;
    screen.clear();
    if args.common.json {
        out_json(&report)?;
    } else {
        for tried in &report.tried {
            out(&format!("  {} {}\n", short(&tried.commit), tried.behaviour))?;
        }
        match (&report.found, &report.why_not) {
            (Some(found), _) => {
                let subject =
                    report.subject.as_deref().map(|subject| format!(" ({subject})")).unwrap_or_default();
                out(&format!("{} was {} {}{subject}\n", crash.id, report.question, boundary(found)))?;
            }
            (None, why) => out(&format!("no answer: {}\n", why.as_deref().unwrap_or("unknown")))?,
        }
    }
    Ok(if report.found.is_some() { Exit::Ok } else { Exit::RunFailed }.into())
}
