//! `cadran jobs`: what is known.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::client::exit::after_help;
use crate::client::{
    Api, Cell, ClientOptions, Exit, Failure, JobPage, ProblemPage, Table, instant, out_json, status_colour,
    talk,
};

/// List jobs with their state, schedule, next due and last run.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help("  cadran jobs\n  cadran jobs back\n  cadran jobs --json"))]
pub struct Args {
    /// Only jobs whose name contains this text.
    pub text: Option<String>,
    /// Removed jobs too.
    #[arg(long)]
    pub removed: bool,
    /// How many at most.
    #[arg(short = 'n', long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub limit: u32,
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help text of the command")]
    pub client: ClientOptions,
}

/// Jobs asked for at once: the most the server answers.
const PAGE: u32 = 1_000;

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let api = Api::new(&args.client)?;
    let jobs = all(&api, &args).await?;
    let value = json!({ "jobs": jobs });
    if args.client.json {
        out_json(&value)?;
        return Ok(Exit::Ok.into());
    }
    let page: JobPage = serde_json::from_value(value)
        .map_err(|error| Failure::here(format!("the server's answer is not understood: {error}")))?;
    // The number by which executors know a job is of interest where there are any.
    let has_numbers = page.jobs.iter().any(|job| job.executor_number.is_some());
    let mut columns = vec!["JOB", "STATE", "SCHEDULE", "NEXT", "LAST"];
    columns.extend(has_numbers.then_some("NUMBER"));
    let mut table = Table::new(&columns);
    for job in &page.jobs {
        let schedules: Vec<String> = job
            .schedules
            .iter()
            .map(|schedule| {
                let zone = if schedule.timezone == "UTC" {
                    String::new()
                } else {
                    format!(" {}", schedule.timezone)
                };
                let action =
                    if schedule.action == "start" { String::new() } else { format!("{}: ", schedule.action) };
                format!("{action}{}{zone}", schedule.text)
            })
            .collect();
        let schedule = if schedules.is_empty() { Cell::dim("by hand") } else { schedules.join("; ").into() };
        let last = job.last_run.as_ref().map(|last| format!("{} {}", last.status, instant(&last.due)));
        let colour = job.last_run.as_ref().and_then(|last| status_colour(&last.status));
        let mut row = vec![
            job.name.as_str().into(),
            Cell::status(&job.state),
            schedule,
            match job.schedule_over {
                true => Cell::dim("never: in the past"),
                false => job.next_due.as_deref().map(instant).unwrap_or_default().into(),
            },
            Cell::coloured(last.unwrap_or_default(), colour),
        ];
        let number = || job.executor_number.map(|number| number.to_string()).unwrap_or_default();
        row.extend(has_numbers.then(|| number().into()));
        table.row(row);
    }
    if page.jobs.is_empty() {
        talk(if args.text.is_some() { "no job has such a name" } else { "there are no jobs yet" });
    } else {
        table.show()?;
    }
    say_problems(&api).await?;
    Ok(Exit::Ok.into())
}

/// Page after page, up to the limit.
async fn all(api: &Api, args: &Args) -> Result<Vec<Value>, Failure> {
    let mut jobs: Vec<Value> = Vec::new();
    let mut after: Option<String> = None;
    while jobs.len() < args.limit as usize {
        let left = args.limit - jobs.len() as u32;
        let mut query = vec![("limit", left.min(PAGE).to_string())];
        query.extend(args.text.as_ref().map(|text| ("text", text.clone())));
        query.extend(args.removed.then(|| ("removed", "true".to_owned())));
        query.extend(after.take().map(|after| ("after", after)));
        let mut page = api.get(&["jobs"], &query).await?;
        jobs.extend(page["jobs"].as_array_mut().map(std::mem::take).unwrap_or_default());
        match page["next"].as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => break,
        }
    }
    Ok(jobs)
}

/// A job that is missing from the list is often one whose file has an error.
async fn say_problems(api: &Api) -> Result<(), Failure> {
    let (page, _): (ProblemPage, _) = api.get_as(&["problems"], &[]).await?;
    let mut files: Vec<&str> = page
        .problems
        .iter()
        .filter(|problem| problem.severity == "error")
        .map(|problem| problem.file.as_str())
        .collect();
    files.sort_unstable();
    files.dedup();
    match files.as_slice() {
        [] => {}
        [one] => talk(&format!("the job file {one} has errors and is not in force; see `cadran check`")),
        several => {
            talk(&format!("{} job files have errors and are not in force; see `cadran check`", several.len()))
        }
    }
    Ok(())
}
