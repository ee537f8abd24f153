//! `cadran ps`: what is on.

use std::process::ExitCode;

use serde_json::Value;

use crate::client::exit::after_help;
use crate::client::{
    Api, Cell, ClientOptions, Exit, Failure, RunPage, Table, add_shares, instant, out_json, shares, talk,
    took,
};
use crate::server::clock;

/// List the runs that are on, and those that wait.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help("  cadran ps\n  cadran ps --job backup\n  cadran ps --shares\n  cadran ps --all --json"))]
pub struct Args {
    /// Only runs of this job.
    #[arg(long)]
    pub job: Option<String>,
    /// Only children of this run: the shares of its broadcast, and the runs that it asked for.
    #[arg(long, value_name = "RUN")]
    pub parent: Option<String>,
    /// Also runs that are promised and wait for their instant.
    #[arg(short, long)]
    pub all: bool,
    /// The shares of broadcasts too, each with its executor.
    #[arg(short, long)]
    pub shares: bool,
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
    query.extend(args.parent.map(|parent| ("parent", parent)));
    let (page, mut value): (RunPage, Value) = api.get_as(&["runs"], &query).await?;
    if args.client.json {
        if args.shares {
            add_shares(&api, &mut value["runs"]).await?;
        }
        out_json(&value)?;
        return Ok(Exit::Ok.into());
    }
    let now = clock::wall();
    let mut table = Table::new(&["RUN", "JOB", "STATUS", "TRIGGER", "DUE", "FOR", "WHY"]);
    for run in &page.runs {
        let since = run.started_at_ms.map(|at| took(now.saturating_sub(at))).unwrap_or_default();
        let why = match run.shares {
            _ if run.share.is_some() => run.explanation.clone(),
            Some(shares) if run.status == "running" => shares.to_string(),
            _ if run.status == "running" && run.executor.is_none() => String::new(),
            _ => run.explanation.clone(),
        };
        table.row(vec![
            run.id.as_str().into(),
            run.job.as_str().into(),
            Cell::status(&run.status),
            run.trigger.as_str().into(),
            instant(&run.due).into(),
            since.into(),
            Cell::dim(why),
        ]);
        if args.shares && run.shares.is_some() && run.share.is_none() {
            for share in shares(&api, &run.id).await? {
                let lasts = share.duration_ms.unwrap_or(now.saturating_sub(share.ordered_at_ms));
                table.row(vec![
                    share.name(&run.id).into(),
                    run.job.as_str().into(),
                    Cell::status(&share.status),
                    "share".into(),
                    instant(&share.ordered_at).into(),
                    took(lasts).into(),
                    Cell::dim(share.said()),
                ]);
            }
        }
    }
    if page.runs.is_empty() {
        talk("no run is on");
    } else {
        table.show()?;
    }
    Ok(Exit::Ok.into())
}
