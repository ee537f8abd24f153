//! `cadran why`.

use std::process::ExitCode;

use crate::client::exit::after_help;
use crate::client::{Api, ClientOptions, Exit, Failure, Why, escaped, out, out_json, run_name};

/// Say why a run waits: what for, held by whom, since when.
///
/// Also what a running run holds, and what became of one that is over.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help("  cadran ps\n  cadran why 01kx3v9a2m000"))]
pub struct Args {
    /// The run's id; with a dot and a number behind it, one share of a broadcast.
    pub run: String,
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help text of the command")]
    pub client: ClientOptions,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let run = run_name(&args.run)?;
    let (why, value): (Why, _) =
        Api::new(&args.client)?.get_as(&["runs", &run.to_string(), "why"], &[]).await?;
    if args.client.json {
        out_json(&value)?;
        return Ok(Exit::Ok.into());
    }
    for line in lines(&why) {
        out(&format!("{}\n", escaped(&line)))?;
    }
    Ok(Exit::Ok.into())
}

fn lines(why: &Why) -> Vec<String> {
    let since = why.since.as_deref().map(|since| format!(" since {since}")).unwrap_or_default();
    let mut lines = vec![format!("run {} of job {} is {}{since}", why.run, why.job, why.status)];
    lines.push(format!("  {}", why.explanation));
    if let (Some(parent), "child") = (&why.parent, why.trigger.as_str()) {
        lines.push(format!("  it is a child of run {parent}"));
    }
    if let Some(waits) = &why.waits_for {
        if let (Some(run), Some(job)) = (&waits.run, &waits.job) {
            let verb = if waits.in_line { "goes first: " } else { "is in the way: " };
            lines.push(format!("  {verb}run {run} of job {job}"));
        }
        lines.push(match waits.before {
            0 => "  it is the next in line".to_owned(),
            1 => "  1 run is before it in line".to_owned(),
            before => format!("  {before} runs are before it in line"),
        });
        if waits.ticket {
            lines.push("  it has a ticket: nothing that conflicts passes it any more".to_owned());
        } else if waits.tries > 0 {
            lines.push(format!("  tried {} times; free runs may still pass it", waits.tries));
        }
    }
    lines.extend(why.holds.iter().map(|held| format!("  holds {held}")));
    lines
}
