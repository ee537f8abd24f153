//! `cadran fuzz coverage`: one coverage map.

use std::process::ExitCode;

use cadran_fuzz::MapPass;
use serde_json::json;

use super::setup::{Common, failure, named, resolve};
use crate::client::{Exit, Failure, out, out_json};

/// Map which code the corpus reaches, for the fuzz runs to come.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without a map, or with one that is too old, fuzz runs take the whole corpus.\n\nExample:\n  \
cadran fuzz coverage"
)]
pub struct Args {
    /// With the binary of this commit [default: the newest that is built].
    #[arg(long, value_name = "HASH")]
    commit: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help text of the command")]
    pub(super) common: Common,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let (runner, screen) = args.common.runner("coverage").await?;
    let named = match named(args.commit.as_deref()) {
        Some(text) => Some(resolve(&runner, text).await?),
        None => None,
    };
    let pass = runner.map(named.as_ref()).await.map_err(failure)?;
    screen.clear();
    let (outcome, report) = match &pass {
        MapPass::NotConfigured => ("not_configured", None),
        MapPass::Nothing => ("nothing", None),
        MapPass::Stopped => ("stopped", None),
        MapPass::Mapped(report) => ("mapped", Some(report)),
    };
    if args.common.json {
        out_json(&json!({ "outcome": outcome, "report": report }))?;
    } else {
        match &pass {
            MapPass::NotConfigured => {
                out("fuzz.yaml has no command `coverage.run`; there is nothing to do\n")?
            }
            MapPass::Nothing => out("no commit is built yet\n")?,
            MapPass::Stopped => out("stopped\n")?,
            MapPass::Mapped(report) => {
                let kept = report.kept.map(|kept| format!(", {kept} worth keeping")).unwrap_or_default();
                let commit = report.commit.get(..12).unwrap_or(&report.commit);
                out(&format!("mapped {} inputs with {commit}{kept}\n", report.inputs))?;
            }
        }
    }
    Ok(if outcome == "stopped" { Exit::Interrupted } else { Exit::Ok }.into())
}
