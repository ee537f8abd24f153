//! `cadran status`: how the server is, on one screen.

use std::process::ExitCode;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::exit::after_help;
use crate::client::{
    Api, Cell, ClientOptions, Exit, Failure, ProblemPage, RunPage, Table, escaped, out, out_json, took,
};
use crate::server::clock;

/// Show how the server is: its health, what runs, and what its data takes of the disk.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help("  cadran status\n  cadran status --json"))]
pub struct Args {
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help text of the command")]
    pub client: ClientOptions,
}

/// Runs that are listed; the others are counted.
const RUNS_SHOWN: usize = 10;
/// Problems that are listed; the others are counted.
const PROBLEMS_SHOWN: usize = 5;
/// Runs that are asked for: what one answer holds.
const RUNS_MAX: usize = 1000;

#[derive(Debug, Deserialize)]
struct Health {
    status: String,
    version: String,
    uptime_ms: i64,
    disk: Disk,
}

#[derive(Debug, Deserialize)]
struct Disk {
    database_bytes: u64,
    database_bytes_used: u64,
    database_bytes_max: u64,
    log_bytes: u64,
    log_bytes_max: u64,
    days_max: Option<u32>,
    runs_max: Option<u32>,
    runs_forgotten: u64,
    measured_at_ms: Option<i64>,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let api = Api::new(&args.client)?;
    let (health, health_value): (Health, Value) = api.health().await?;
    let query = [("status", "promised,waiting,running".to_owned()), ("limit", RUNS_MAX.to_string())];
    let (page, runs): (RunPage, Value) = api.get_as(&["runs"], &query).await?;
    let (problems, problems_value): (ProblemPage, Value) = api.get_as(&["problems"], &[]).await?;
    let exit = if health.status == "ok" { Exit::Ok } else { Exit::RunFailed };
    if args.client.json {
        let all = json!({
            "health": health_value, "runs": runs["runs"], "problems": problems_value["problems"],
        });
        out_json(&all)?;
        return Ok(exit.into());
    }
    let count = |status: &str| page.runs.iter().filter(|run| run.status == status).count();
    let more = if page.runs.len() >= RUNS_MAX { ", and more" } else { "" };
    let up = took(health.uptime_ms);
    let mut lines = vec![
        format!("server    {}, up {up}, version {}, {}", health.status, health.version, api.url()),
        disk_line(&health.disk),
        format!(
            "runs      {} running, {} waiting, {} promised{more}",
            count("running"),
            count("waiting"),
            count("promised")
        ),
    ];
    let mut shown: Vec<_> = problems.problems.iter().collect();
    shown.sort_by_key(|problem| problem.severity != "error");
    for problem in shown.iter().take(PROBLEMS_SHOWN) {
        let word = if problem.severity == "error" { "problem" } else { "warning" };
        lines.push(format!("{word}   {}: {}", escaped(&problem.file), escaped(&problem.message)));
    }
    if shown.len() > PROBLEMS_SHOWN {
        lines.push(format!("          and {} more", shown.len() - PROBLEMS_SHOWN));
    }
    lines.push(String::new());
    out(&lines.join("\n"))?;
    let mut table = Table::new(&["RUN", "JOB", "STATUS", "FOR"]);
    let live: Vec<_> = page.runs.iter().filter(|run| run.status != "promised").collect();
    for run in live.iter().take(RUNS_SHOWN) {
        let since = run.started_at_ms.map(|at| took(clock::wall().saturating_sub(at))).unwrap_or_default();
        table.row(vec![
            run.id.as_str().into(),
            run.job.as_str().into(),
            Cell::status(&run.status),
            since.into(),
        ]);
    }
    if !live.is_empty() {
        table.show()?;
    }
    Ok(exit.into())
}

fn disk_line(disk: &Disk) -> String {
    if disk.measured_at_ms.is_none() {
        return "disk      not measured yet".to_owned();
    }
    let (used, files, most) =
        (size(disk.database_bytes_used), size(disk.database_bytes), size(disk.database_bytes_max));
    let mut line = format!("disk      database {used} of {most} ({files} on disk), ");
    line += &format!("logs {} of {}", size(disk.log_bytes), size(disk.log_bytes_max));
    line += &disk.days_max.map(|days| format!(", {days} days at most")).unwrap_or_default();
    line += &disk.runs_max.map(|runs| format!(", {runs} runs of a job at most")).unwrap_or_default();
    if disk.runs_forgotten > 0 {
        line += &format!("; {} runs forgotten since the start", disk.runs_forgotten);
    }
    line
}

/// Bytes for people.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = (bytes.max(1).ilog2() as usize / 10).min(UNITS.len() - 1);
    let value = bytes as f64 / (1u64 << (10 * unit)) as f64;
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_for_people() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (805_306_368, "768.0 MiB"),
            (3 << 30, "3.0 GiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
