//! `cadran ps`: what is on.

use std::process::ExitCode;

use crate::client::exit::after_help;
use crate::client::{Api, Cell, ClientOptions, Exit, Failure, RunPage, Table, instant, out_json, talk, took};
use crate::server::clock;

/// List the runs that are on, and those that wait.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help("  cadran ps\n  cadran ps --job backup\n  cadran ps --all --json"))]
pub struct Args {
    /// Only runs of this job.
    #[arg(long)]
    pub job: Option<String>,
    /// Also runs that are promised and wait for their instant.
    #[arg(short, long)]
    pub all: bool,
    /// How many at most, 1 to 1000.
    #[arg(short = 'n', long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub limit: u32,
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help text of the command")]
    pub client: ClientOptions,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let api = Api::new(&args.client)?;
    let status = if args.all { "promised,waiting,running" } else { "waiting,running" };
    let mut query = vec![("status", status.to_owned()), ("limit", args.limit.to_string())];
    query.extend(args.job.map(|job| ("job", job)));
    let (page, value): (RunPage, _) = api.get_as(&["runs"], &query).await?;
    if args.client.json {
        out_json(&value)?;
        return Ok(Exit::Ok.into());
    }
    let now = clock::wall();
    let mut table = Table::new(&["RUN", "JOB", "STATUS", "TRIGGER", "DUE", "FOR", "WHY"]);
    for run in &page.runs {
        let since = run.started_at_ms.map(|at| took(now.saturating_sub(at))).unwrap_or_default();
        let why = if run.status == "running" { "" } else { run.explanation.as_str() };
        table.row(vec![
            run.id.as_str().into(),
            run.job.as_str().into(),
            Cell::status(&run.status),
            run.trigger.as_str().into(),
            instant(&run.due).into(),
            since.into(),
            Cell::dim(why),
        ]);
    }
    if page.runs.is_empty() {
        talk("no run is on");
    } else {
        table.show()?;
    }
    Ok(Exit::Ok.into())
}
