//! `cadran executors`: who is there.

use std::process::ExitCode;

use serde::Deserialize;

use crate::client::exit::after_help;
use crate::client::{Api, Cell, ClientOptions, Exit, Failure, Table, instant, out_json, talk, took};

/// List the executors that are there, by group.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help("  cadran executors\n  cadran executors --json"))]
pub struct Args {
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help text of the command")]
    pub client: ClientOptions,
}

#[derive(Deserialize)]
struct Page {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    name: String,
    typed: bool,
    executors: Vec<Line>,
}

#[derive(Deserialize)]
struct Line {
    address: String,
    dialect: String,
    since: Option<String>,
    silent_ms: Option<i64>,
    #[serde(default)]
    labels: std::collections::BTreeMap<String, String>,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let api = Api::new(&args.client)?;
    let (page, value): (Page, _) = api.get_as(&["executors"], &[]).await?;
    if args.client.json {
        out_json(&value)?;
        return Ok(Exit::Ok.into());
    }
    let mut table = Table::new(&["GROUP", "ADDRESS", "SPEAKS", "SINCE", "HEARD", "LABELS"]);
    for group in &page.groups {
        for line in &group.executors {
            let heard = match (line.silent_ms, group.typed) {
                (Some(ms), _) => format!("{} ago", took(ms)),
                (None, true) => "typed in".to_owned(),
                (None, false) => String::new(),
            };
            table.row(vec![
                group.name.as_str().into(),
                line.address.as_str().into(),
                line.dialect.as_str().into(),
                line.since.as_deref().map(instant).unwrap_or_default().into(),
                Cell::dim(&heard),
                line.labels.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(",").into(),
            ]);
        }
    }
    if page.groups.iter().all(|group| group.executors.is_empty()) {
        talk("no executor is there; `cadran serve --executor-token TOKEN` lets them register");
    } else {
        table.show()?;
    }
    Ok(Exit::Ok.into())
}
