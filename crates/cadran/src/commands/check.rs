//! `cadran check`: what is wrong with these files?

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cadran_core::{Footprint, GroupName, Job, Millis, Overlap, ScheduleAction, Step, Zone};
use cadran_spec::{Diagnostic, FileDialect, ReadOptions};
use serde_json::json;

use super::files;
use crate::server::{clock, exclusions};

/// Read job files and say what is wrong with them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code 0 when every file is good, 1 when one is not.\n\nExample:\n  \
cadran check jobs/ other/backup.yaml\n  cadran check --conflicts jobs/\n  cadran check --executors data/executors.yaml jobs/")]
pub struct Args {
    /// Job files, or folders of them.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Zone of job files that name none.
    #[arg(long, env = "CADRAN_TIMEZONE", default_value = "UTC")]
    timezone: String,
    /// Say also which jobs can exclude which, by what they declare in `footprint`.
    #[arg(long)]
    conflicts: bool,
    /// The server's file of executor groups: say also which commands would go to XXL-JOB executors that are typed in there,
    /// as a shell script, when no worker of the group is there.
    #[arg(long, env = "CADRAN_EXECUTORS", value_name = "FILE")]
    executors: Option<PathBuf>,
    /// By whose rules it is read when it does not say so itself: cadran, dagu or dagu-2.7.
    #[arg(long = "as", value_name = "DIALECT", value_parser = super::files::dialect)]
    dialect: Option<FileDialect>,
    /// JSON lines instead of text, one object per file, per conflict and per note.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let zone = Zone::get(&args.timezone).map_err(|error| anyhow::anyhow!("--timezone: {error}"))?;
    let has = |program: &&str| {
        std::env::var_os("PATH")
            .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
    };
    let options = ReadOptions {
        no_container_engine: !["docker", "podman"].iter().any(has),
        dialect: args.dialect,
        ..files::options(zone)
    };
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let mut out = std::io::stdout().lock();
    let typed = args.executors.as_deref().map(typed_in).transpose()?.unwrap_or_default();
    let (mut good, mut bad) = (0, 0);
    let mut touching = Vec::new();
    let mut checked =
        args.paths.iter().map(|path| files::check(path, &options)).collect::<Result<Vec<_>, _>>()?;
    files::check_children(&args.paths, &mut checked);
    files::check_calls(&args.paths, &mut checked);
    for (jobs, problems) in checked {
        good += jobs.len();
        bad += problems.iter().filter(|problem| problem.is_error()).count();
        for (file, job) in jobs.iter().filter(|_| args.json) {
            writeln!(out, "{}", json!({ "file": file, "job": job.name.as_str(), "ok": true }))?;
        }
        let now = clock::wall();
        for (file, job) in jobs.iter().filter(|(_, job)| is_over(job, now)) {
            let note = "its schedule lies in the past: it will not run again by itself";
            if args.json {
                writeln!(out, "{}", json!({ "file": file, "job": job.name.as_str(), "note": note }))?;
            } else {
                writeln!(out, "note: job {}: {note}", job.name)?;
            }
        }
        for (file, job) in &jobs {
            for (step, group, note) in travelling(job, &typed) {
                if args.json {
                    let view = json!({ "file": file, "job": job.name.as_str(), "step": step, "group": group, "note": note });
                    writeln!(out, "{view}")?;
                } else {
                    writeln!(out, "note: step {step} of job {} on group {group}: {note}", job.name)?;
                }
            }
        }
        touching.extend(jobs.into_iter().filter(|_| args.conflicts).filter_map(|(_, job)| {
            Some((job.name.to_string(), job.body.footprint.as_written()?, job.policy.overlap))
        }));
        for problem in &problems {
            if args.json {
                let views: Vec<_> = problem.diagnostics.iter().map(view).collect();
                let ok = !problem.is_error();
                writeln!(out, "{}", json!({ "file": problem.file, "ok": ok, "problems": views }))?;
            } else {
                writeln!(out, "{}", problem.render(colour))?;
            }
        }
    }
    if args.conflicts {
        show_conflicts(&mut out, touching, args.json)?;
    }
    if !args.json {
        writeln!(out, "{good} good, {bad} with errors")?;
    }
    Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether a job has schedules that start it, and none of them comes due any more.
fn is_over(job: &Job, now: Millis) -> bool {
    let mut starts = job.schedules.iter().filter(|entry| entry.action != ScheduleAction::Stop).peekable();
    starts.peek().is_some() && starts.all(|entry| entry.schedule.next(now).is_none())
}

/// The groups with addresses of XXL-JOB executors in the server's file.
fn typed_in(path: &Path) -> anyhow::Result<Vec<GroupName>> {
    let text = files::read(path)?;
    let file = cadran_spec::read_executors(&text).map_err(|found| {
        let (name, text) = (path.display().to_string(), String::from_utf8_lossy(&text));
        let all: Vec<String> = found.iter().map(|found| found.render(&name, &text, false)).collect();
        anyhow::anyhow!("the file of executors cannot be used\n{}", all.join("\n"))
    })?;
    let groups = file.groups.into_iter().filter(|group| !group.executors.is_empty());
    Ok(groups.map(|group| group.name).collect())
}

/// Steps of a job that are commands for a group of XXL-JOB executors: the step, the group, and what becomes of it.
fn travelling<'a>(job: &'a Job, typed: &[GroupName]) -> Vec<(&'a str, &'a str, String)> {
    let note = |step: &'a Step| {
        let target = step.target.as_deref().filter(|target| typed.contains(&target.group))?;
        let is_command = !step.work.is_foreign();
        if !is_command || !target.labels.is_empty() {
            return None;
        }
        let note = match cadran_exec::sendable(&job.body, step) {
            Ok(()) => "without a worker of the group it goes to XXL-JOB executors as a shell script, whose $1 is the text of \
                       its parameters, $2 its share and $3 the number of shares; it sees no other variables"
                .to_owned(),
            Err(why) => format!("it needs a worker of the group: {why}"),
        };
        Some((step.name.as_str(), target.group.as_str(), note))
    };
    job.body.steps.iter().filter_map(note).collect()
}

/// One line for each two jobs whose runs can exclude one another.
fn show_conflicts(
    out: &mut impl Write,
    touching: Vec<(String, Footprint, Overlap)>,
    json: bool,
) -> anyhow::Result<()> {
    let jobs = touching.len();
    let (conflicts, cut) = exclusions(touching);
    for row in &conflicts {
        if json {
            let view = json!({
                "job": row.job, "other": row.other, "touches": row.touches,
                "other_touches": row.other_touches, "by_params": row.by_params,
            });
            writeln!(out, "{}", json!({ "conflict": view }))?;
            continue;
        }
        let some = if row.by_params { ", for some values of their parameters" } else { "" };
        let two = match row.job == row.other {
            true => format!("runs of {} exclude one another", row.job),
            false => format!("{} and {} exclude one another", row.job, row.other),
        };
        writeln!(out, "{two}: {}, and {}{some}", row.touches, row.other_touches)?;
    }
    if !json {
        let more = if cut { ", and there may be more" } else { "" };
        writeln!(out, "{} conflicts among {jobs} jobs with a footprint{more}", conflicts.len())?;
    }
    Ok(())
}

fn view(problem: &Diagnostic) -> serde_json::Value {
    json!({
        "severity": problem.severity.word(),
        "code": problem.code.word(),
        "line": problem.line,
        "column": problem.column,
        "len": problem.len,
        "field": problem.path,
        "message": problem.message,
        "help": problem.help,
    })
}
