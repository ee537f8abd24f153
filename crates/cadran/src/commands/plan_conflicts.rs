//! `cadran plan --conflicts`: which dues of a window would wait for which others.

use std::io::Write;

use anyhow::bail;
use cadran_core::{Job, Millis};
use cadran_place::dry_run::{ExpectedJob, ExpectedRun, Forecast, dry_run};
use cadran_plan::index::Index;
use serde_json::json;

use super::time;

/// Dues that are played at most: more wait for one another than anybody reads.
const DUES_MAX: usize = 100_000;

/// Writes the dues that would wait or be skipped.
pub(super) fn write(
    out: &mut impl Write,
    jobs: &[Job],
    index: &Index,
    assume: &str,
    json: bool,
) -> anyhow::Result<()> {
    let duration_ms =
        cadran_cron::parse_duration(assume).map_err(|error| anyhow::anyhow!("--assume: {error}"))?;
    if duration_ms <= 0 {
        bail!("--assume: a run takes some time; write 1s or more");
    }
    if index.len() > DUES_MAX {
        bail!(
            "{} dues fall into this window, more than the {DUES_MAX} whose conflicts are played; take a shorter one",
            index.len()
        );
    }
    let expected_job = |job: &Job| ExpectedJob {
        footprint: job.body.footprint.as_written(),
        overlap: job.policy.overlap,
        priority: job.policy.priority,
    };
    let expected: Vec<ExpectedJob> = jobs.iter().map(expected_job).collect();
    let expected_run = |(due, job): (Millis, u32)| ExpectedRun { due, job: job as usize, duration_ms };
    let runs: Vec<ExpectedRun> = index.into_iter().map(expected_run).collect();
    let answer = dry_run(&expected, &runs);
    let (mut waiting, mut skipped) = (0, 0);
    for (run, forecast) in runs.iter().zip(&answer.runs) {
        let Forecast { starts_at, skip, blocker } = forecast;
        let waits_ms = starts_at.map(|at| at - run.due).filter(|waits| *waits > 0);
        if waits_ms.is_none() && skip.is_none() {
            continue;
        }
        waiting += u64::from(waits_ms.is_some());
        skipped += u64::from(skip.is_some());
        let due = time::utc(run.due);
        let name = jobs[run.job].name.as_str();
        let other = blocker.as_ref().map(|blocker| (&runs[blocker.run], blocker.key.as_deref()));
        let other = other.map(|(other, key)| (jobs[other.job].name.as_str(), time::utc(other.due), key));
        if json {
            let row = json!({
                "due": due,
                "job": name,
                "starts": starts_at.map(time::utc),
                "skip": skip.map(|reason| reason.word()),
                "behind": other.as_ref().map(|(job, due, key)| json!({"job": job, "due": due, "key": key})),
            });
            writeln!(out, "{row}")?;
            continue;
        }
        let becomes = match (waits_ms, skip) {
            (_, Some(reason)) => format!("skipped, {}", reason.sentence()),
            (waits, None) => format!("waits {} s", waits.unwrap_or_default() as f64 / 1000.0),
        };
        let behind = match other {
            Some((job, due, Some(key))) => format!(", behind {job} of {due} for {key}"),
            Some((job, due, None)) => format!(", behind {job} of {due}"),
            None => String::new(),
        };
        writeln!(out, "{due}  {name}  {becomes}{behind}")?;
    }
    if let Some(at) = answer.cut_at {
        eprintln!("too much would wait: what starts after {} was not looked at", time::utc(at));
    }
    if !json {
        eprintln!(
            "of {} dues {waiting} would wait and {skipped} be skipped, if every run takes {assume}",
            runs.len()
        );
    }
    Ok(())
}
