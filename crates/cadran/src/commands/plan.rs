//! `cadran plan`: every due of a folder of jobs in a window.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;
use cadran_core::{Job, Schedule, ScheduleAction, Zone};
use cadran_plan::index::{Buffers, Fleet, Window, build};
use cadran_spec::Change;
use serde_json::json;

use super::{files, plan_conflicts, time};
use crate::server::clock;

/// Dues one answer lists: a month of a busy fleet, and a bound on what a typo can cost.
const DUES_MAX: usize = 10_000_000;

/// List every due of a folder of jobs in a window, as the server would see it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Files with errors are named and left out; the exit code is then 1.\n\nExample:\n  \
cadran plan --jobs examples/jobs --from 2026-03-29T00:00:00Z --to +1h
  cadran plan --jobs examples/jobs --to +24h --conflicts --assume 10m")]
pub struct Args {
    /// Folder of job files.
    #[arg(long, env = "CADRAN_JOBS")]
    jobs: PathBuf,
    /// First instant of the window.
    #[arg(long, default_value = "now")]
    from: String,
    /// First instant after the window; `+1h` counts from now.
    #[arg(long, default_value = "+1h")]
    to: String,
    /// Zone of job files that name none, and of civil times.
    #[arg(long, env = "CADRAN_TIMEZONE", default_value = "UTC")]
    timezone: String,
    /// Say instead which dues would wait for which others, or be skipped, because they may not run together.
    #[arg(long)]
    conflicts: bool,
    /// With --conflicts: how long every run is assumed to take.
    #[arg(long, value_name = "DURATION", default_value = "1m", requires = "conflicts")]
    assume: String,
    /// JSON lines {"due","job"} instead of text; with --conflicts also what becomes of the due.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let zone = Zone::get(&args.timezone).map_err(|error| anyhow::anyhow!("--timezone: {error}"))?;
    let now = clock::wall();
    let from = time::parse(&args.from, &zone, now).map_err(anyhow::Error::msg)?;
    let to = time::parse(&args.to, &zone, now).map_err(anyhow::Error::msg)?;
    if to < from {
        bail!("the window ends ({}) before it starts ({})", time::utc(to), time::utc(from));
    }
    let window = Window::new(from, to);
    if window.to() < to {
        bail!("a window has at most {} days", Window::SPAN_MS_MAX / 86_400_000);
    }
    let (jobs, bad) = read(args, &zone)?;
    let fleet = fleet(&jobs);
    let expected: u64 = jobs.iter().flat_map(starts).map(|schedule| schedule.count(from, to)).sum();
    if expected > DUES_MAX as u64 {
        bail!(
            "{expected} dues fall into this window, more than the {DUES_MAX} this command lists; take a shorter one"
        );
    }
    let index = build(&fleet.snapshot(), window, &mut Buffers::default());
    let done = if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    if args.conflicts {
        plan_conflicts::write(&mut out, &jobs, &index, &args.assume, args.json)?;
        out.flush()?;
        return Ok(done);
    }
    for (due, job) in &index {
        let name = &jobs[job as usize].name;
        if args.json {
            writeln!(out, "{}", json!({ "due": time::utc(due), "job": name.as_str() }))?;
        } else {
            writeln!(out, "{}  {name}", time::utc(due))?;
        }
    }
    out.flush()?;
    if !args.json {
        eprintln!("{} dues of {} jobs", index.len(), jobs.len());
    }
    Ok(done)
}

/// The jobs in name order, so that the order (due, job) is that of names, and how many files were bad.
fn read(args: &Args, zone: &Zone) -> anyhow::Result<(Vec<Job>, usize)> {
    let options = super::files::options(zone.clone());
    let (scan, problems) = files::read_folder(&args.jobs, options)?;
    for problem in &problems {
        eprintln!("{}", problem.render(false));
    }
    let bad = problems.iter().filter(|problem| problem.is_error()).count();
    let put = |change| match change {
        Change::Put { job, .. } => Some(job),
        Change::Remove { .. } => None,
    };
    let mut jobs: Vec<Job> = scan.changes.into_iter().filter_map(put).collect();
    jobs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((jobs, bad))
}

fn starts(job: &Job) -> impl Iterator<Item = &Arc<Schedule>> {
    job.schedules.iter().filter(|entry| entry.action == ScheduleAction::Start).map(|entry| &entry.schedule)
}

fn fleet(jobs: &[Job]) -> Fleet {
    let mut fleet = Fleet::new();
    for (no, job) in jobs.iter().enumerate() {
        let schedules: Vec<Arc<Schedule>> = starts(job).cloned().collect();
        fleet.set(no as u32, &schedules);
    }
    fleet
}
