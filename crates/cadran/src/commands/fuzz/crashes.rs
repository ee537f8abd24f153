//! `cadran fuzz crashes`: what was found.

use std::path::PathBuf;
use std::process::ExitCode;

use cadran_fuzz::{Boundary, Crash, CrashStatus, PassRunner};
use serde_json::json;

use super::setup::{Common, failure};
use crate::client::{Cell, Colour, Exit, Failure, Table, instant, out, out_bytes, out_json};
use crate::commands::time;

/// List crashes, show one with its report, or edit the buckets they lie in.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Crashes with the same first function of the project on the stack share a bucket; `crashes.ignore_frames` \
in fuzz.yaml names functions that never count as it. Without a sanitiser there is one bucket per commit.\n\nExamples:\n  \
cadran fuzz crashes\n  cadran fuzz crashes 5f2e --save crash.bin\n  cadran fuzz crashes 5f2e --merge-into 81aa\n  \
cadran fuzz crashes 5f2e --title 'titles longer than their buffer'"
)]
pub struct Args {
    /// One crash, by the first digits of its id.
    #[arg(value_name = "CRASH")]
    crash: Option<String>,
    /// Write its input to a file.
    #[arg(long, value_name = "FILE", requires = "crash")]
    save: Option<PathBuf>,
    /// Both are one: its sightings count for this crash from now on.
    #[arg(long, value_name = "CRASH", requires = "crash")]
    merge_into: Option<String>,
    /// Call it so.
    #[arg(long, value_name = "TEXT", requires = "crash")]
    title: Option<String>,
    /// Only those that are open.
    #[arg(long, conflicts_with = "crash")]
    open: bool,
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help text of the command")]
    pub(super) common: Common,
}

/// The longest title a person may give.
const TITLE_CHARS_MAX: usize = 200;

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let (runner, _) = args.common.runner("crashes").await?;
    match &args.crash {
        None => list(&runner, &args).await,
        Some(digits) => one(&runner, digits, &args).await,
    }?;
    Ok(Exit::Ok.into())
}

async fn list(runner: &PassRunner, args: &Args) -> Result<(), Failure> {
    let mut crashes = runner.crashes().await.map_err(failure)?;
    crashes.retain(|crash| crash.merged_into.is_none() && (!args.open || crash.status == CrashStatus::Open));
    if args.common.json {
        return out_json(&json!({ "crashes": crashes }));
    }
    if crashes.is_empty() {
        return out("no crash is known\n");
    }
    let mut table =
        Table::new(&["CRASH", "STATUS", "SEEN", "REPRODUCED", "LAST COMMIT", "INTRODUCED", "FIXED", "TITLE"]);
    for crash in &crashes {
        let commit =
            |found: &Option<Boundary>| found.as_ref().map(|found| short(&found.commit)).unwrap_or_default();
        table.row(vec![
            crash.id.as_str().into(),
            Cell::coloured(crash.status.word(), Some(colour(crash.status))),
            crash.sightings.to_string().into(),
            format!("{} of {}", crash.reproduced, crash.tries).into(),
            short(&crash.last_commit).into(),
            commit(&crash.introduced).into(),
            commit(&crash.fixed).into(),
            crash.title.as_str().into(),
        ]);
    }
    table.show()
}

async fn one(runner: &PassRunner, digits: &str, args: &Args) -> Result<(), Failure> {
    let mut crash = runner.crash(digits).await.map_err(failure)?;
    if let Some(path) = &args.save {
        let input = runner.crash_input(&crash.id).await.map_err(failure)?;
        std::fs::write(path, &input)
            .map_err(|error| Failure::here(format!("cannot write {}: {error}", path.display())))?;
    }
    if let Some(title) = &args.title {
        let title: String = title.chars().filter(|c| !c.is_control()).take(TITLE_CHARS_MAX).collect();
        let edited =
            runner.edit_crash(&crash.id, |known| known.map(|crash| Crash { title: title.clone(), ..crash }));
        crash = edited.await.map_err(failure)?.unwrap_or(crash);
    }
    if let Some(into) = &args.merge_into {
        let into = runner.crash(into).await.map_err(failure)?;
        runner.merge_crashes(&crash, &into).await.map_err(failure)?;
        crash = runner.crash(&into.id).await.map_err(failure)?;
    }
    if args.common.json {
        return out_json(&crash);
    }
    out(&format!("{} {}: {}\n", crash.id, crash.status.word(), crash.title))?;
    let at = |millis: i64| instant(&time::utc(millis));
    out(&format!("first seen  {} at {}\n", at(crash.first_seen_at), short(&crash.first_commit)))?;
    out(&format!(
        "last seen   {} at {}, {} times\n",
        at(crash.last_seen_at),
        short(&crash.last_commit),
        crash.sightings
    ))?;
    let small = if crash.minimised { ", minimised" } else { "" };
    out(&format!(
        "input       {} bytes{small}, crashed {} of {} times\n",
        crash.input_bytes, crash.reproduced, crash.tries
    ))?;
    for (name, found) in [("introduced", &crash.introduced), ("fixed", &crash.fixed)] {
        if let Some(found) = found {
            out(&format!("{name:<11} {}\n", boundary(found)))?;
        }
    }
    let report = runner.crash_report(&crash.id).await.map_err(failure)?;
    out("\n")?;
    out_bytes(crate::client::escaped(&String::from_utf8_lossy(&report)).as_bytes())
}

/// Where something changed, in words.
pub(super) fn boundary(found: &Boundary) -> String {
    let commit = short(&found.commit);
    match (&found.after, found.untried.len()) {
        (None, _) => format!("at {commit} or before; nothing older could be tried"),
        (Some(_), 0) => format!("by {commit}"),
        (Some(after), count) => {
            format!("by {commit} or one of {count} before it that could not be tried, after {}", short(after))
        }
    }
}

pub(super) fn short(hash: &str) -> String {
    hash.get(..12).unwrap_or(hash).to_owned()
}

fn colour(status: CrashStatus) -> Colour {
    match status {
        CrashStatus::Open => Colour::Red,
        CrashStatus::Unconfirmed => Colour::Yellow,
        CrashStatus::Fixed => Colour::Green,
    }
}
