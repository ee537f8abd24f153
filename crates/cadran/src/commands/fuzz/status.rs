//! `cadran fuzz status`: where things stand.

use std::process::ExitCode;

use cadran_fuzz::{Crash, CrashStatus, Status, Work};
use serde_json::Value;

use super::crashes::short;
use super::setup::{Common, failure};
use crate::client::{Cell, Colour, Exit, Failure, Table, out, out_json, took};
use crate::server::clock;

/// Show queue, builds, schedule, who works on what, crashes and the forecast.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  cadran fuzz status\n  cadran fuzz status --json | jq .queue\n  \
cadran fuzz status --prometheus > /var/lib/node_exporter/fuzz.prom")]
pub struct Args {
    /// Metrics in Prometheus' text format.
    #[arg(long, conflicts_with = "json")]
    prometheus: bool,
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help text of the command")]
    pub(super) common: Common,
}

/// Commits shown of one list; `--json` has all.
const SHOWN_MAX: usize = 20;

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let (runner, _) = args.common.runner("status").await?;
    let status = runner.pipeline().status().await.map_err(failure)?;
    if args.prometheus {
        out(&status.to_prometheus(runner.pipeline().target().name.as_str(), clock::wall()))?;
        return Ok(Exit::Ok.into());
    }
    let mut crashes = runner.crashes().await.map_err(failure)?;
    crashes.retain(|crash| crash.merged_into.is_none());
    if args.common.json {
        let mut value = status.to_json();
        if let Value::Object(map) = &mut value {
            map.insert("target".into(), runner.pipeline().target().name.as_str().into());
            map.insert("crashes".into(), serde_json::to_value(&crashes).unwrap_or_default());
        }
        out_json(&value)?;
        return Ok(Exit::Ok.into());
    }
    out(&format!(
        "{}, looked at up to {}\n\n",
        runner.pipeline().target().name,
        match &status.last_checked {
            Some(hash) => short(hash),
            None => "nothing yet".into(),
        }
    ))?;
    commits(&status)?;
    out(&format!("\n{}\n", forecast(&status)))?;
    out(&format!("{}\n", found(&crashes)))?;
    Ok(Exit::Ok.into())
}

fn commits(status: &Status) -> Result<(), Failure> {
    let mut table = Table::new(&["COMMIT", "STATE", "NOTE"]);
    let at_work = |hash: &str| {
        let claim = status.claims.iter().find(|claim| claim.hash == hash && !claim.expired)?;
        let doing = match claim.work {
            Work::Build => "being built",
            Work::Fuzz => "being fuzzed",
            Work::Manage => "being looked at",
        };
        let who = claim.owner.split('#').next().unwrap_or(&claim.owner);
        Some(format!(
            "{doing} by {who} for {}, attempt {}",
            took(clock::wall() - claim.taken_at),
            claim.attempt
        ))
    };
    let mut list = |name: &str, colour: Colour, rows: Vec<(String, String)>| {
        let more = rows.len().saturating_sub(SHOWN_MAX);
        for (hash, note) in rows.into_iter().take(SHOWN_MAX) {
            let note = at_work(&hash).unwrap_or(note);
            table.row(vec![short(&hash).into(), Cell::coloured(name, Some(colour)), note.into()]);
        }
        if more > 0 {
            table.row(vec!["…".into(), Cell::coloured(name, Some(colour)), format!("{more} more").into()]);
        }
    };
    let bare = |hashes: &'_ [String]| -> Vec<(String, String)> {
        hashes.iter().map(|hash| (hash.clone(), String::new())).collect()
    };
    list("queued", Colour::Yellow, bare(&status.queue));
    list("built", Colour::Green, bare(&status.built));
    let scheduled =
        status.schedule.iter().map(|(hash, count)| (hash.clone(), format!("fuzzed {count} times")));
    list("scheduled", Colour::Cyan, scheduled.collect());
    let failed = status.failed.iter().rev();
    let failed = failed.map(|(hash, reason)| (hash.clone(), reason.clone().unwrap_or_default()));
    list("failed", Colour::Red, failed.collect());
    table.show()
}

fn forecast(status: &Status) -> String {
    let forecast = &status.forecast;
    let mut text = format!(
        "{:.0} fuzz runs a day for {:.1} commits a day; {} wait, the last of them for {:.1} days",
        forecast.slots_per_day, forecast.arrivals_per_day, forecast.waiting, forecast.wait_days
    );
    if forecast.expired_unfuzzed_per_day > 0.0 {
        let full = forecast.full_in_days.unwrap_or_default();
        text.push_str(&format!(
            "\nwarning: too many commits: the schedule is full in {full:.0} days, then {:.1} a day go unfuzzed; \
             `overload: coalesce` in fuzz.yaml lets neighbours share a run",
            forecast.expired_unfuzzed_per_day
        ));
    }
    if status.expired_unfuzzed > 0 {
        text.push_str(&format!(
            "\nwarning: {} commits went without having been fuzzed",
            status.expired_unfuzzed
        ));
    }
    text
}

fn found(crashes: &[Crash]) -> String {
    let count = |status: CrashStatus| crashes.iter().filter(|crash| crash.status == status).count();
    format!(
        "crashes: {} open, {} unconfirmed, {} fixed",
        count(CrashStatus::Open),
        count(CrashStatus::Unconfirmed),
        count(CrashStatus::Fixed)
    )
}
