//! `cadran history`: what became of every due.

use std::process::ExitCode;

use serde_json::Value;

use crate::client::exit::after_help;
use crate::client::{
    Api, Cell, ClientOptions, Exit, Failure, History, HistoryItem, Table, add_shares, instant, out_json,
    shares, talk, took,
};

/// List what became of every due: runs and skips, newest first, each with its reason.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help("  cadran history\n  cadran history backup -n 100\n  cadran history backup --shares\n  cadran history backup --json"))]
pub struct Args {
    /// Only of this job.
    pub job: Option<String>,
    /// How many lines, 1 to 1000.
    #[arg(short = 'n', long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub limit: u32,
    /// Only what came before this run: the next page.
    #[arg(long, value_name = "RUN")]
    pub before: Option<String>,
    /// The shares of broadcasts too, each with its executor.
    #[arg(short, long)]
    pub shares: bool,
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help text of the command")]
    pub client: ClientOptions,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let api = Api::new(&args.client)?;
    if let Some(job) = &args.job {
        // A history of nothing and a misspelt name look alike; only the second is a mistake.
        let _: cadran_core::JobName = job.parse().map_err(|error| Failure::usage(format!("{error}")))?;
        api.get(&["jobs", job], &[]).await?;
    }
    let mut query = vec![("limit", args.limit.to_string())];
    query.extend(args.job.as_ref().map(|job| ("job", job.clone())));
    query.extend(args.before.map(|before| ("before", before)));
    let (page, mut value): (History, Value) = api.get_as(&["history"], &query).await?;
    if args.client.json {
        if args.shares {
            add_shares(&api, &mut value["history"]).await?;
        }
        out_json(&value)?;
        return Ok(Exit::Ok.into());
    }
    let mut table = Table::new(&["DUE", "JOB", "RUN", "STATUS", "TRIGGER", "TOOK", "WHY"]);
    for item in &page.history {
        table.row(match item {
            HistoryItem::Run(run) => vec![
                instant(&run.due).into(),
                run.job.as_str().into(),
                run.id.as_str().into(),
                Cell::status(&run.status),
                match (run.trigger.as_str(), &run.parent) {
                    ("child", Some(parent)) => format!("child of {parent}").into(),
                    (trigger, _) => trigger.into(),
                },
                run.duration_ms.map(took).unwrap_or_default().into(),
                // That a run went well needs no words.
                Cell::dim(if run.status == "succeeded" { "" } else { run.explanation.as_str() }),
            ],
            HistoryItem::Skip { job, first_due, last_due, count, explanation } => vec![
                instant(last_due).into(),
                job.as_str().into(),
                "–".into(),
                Cell::status("skipped"),
                "".into(),
                "".into(),
                Cell::dim(match count {
                    1 => explanation.clone(),
                    _ => format!("{count} dues since {}: {explanation}", instant(first_due)),
                }),
            ],
        });
        if let HistoryItem::Run(run) = item
            && args.shares
            && run.shares.is_some()
        {
            for share in shares(&api, &run.id).await? {
                table.row(vec![
                    instant(&share.ordered_at).into(),
                    run.job.as_str().into(),
                    share.name(&run.id).into(),
                    Cell::status(&share.status),
                    "share".into(),
                    share.duration_ms.map(took).unwrap_or_default().into(),
                    Cell::dim(share.said()),
                ]);
            }
        }
    }
    if page.history.is_empty() {
        talk("nothing has happened yet");
    } else {
        table.show()?;
    }
    if let Some(next) = page.next {
        talk(&format!("more: --before {next}"));
    }
    Ok(Exit::Ok.into())
}
