//! `cadran show`: one run.

use std::process::ExitCode;

use crate::client::exit::after_help;
use crate::client::{
    Api, Cell, ClientOptions, Exit, Failure, Run, Table, escaped, instant, out, out_json, run_name, took,
};

/// Show one run: what became of it, its steps, its shares and the runs it asked for.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help("  cadran show 01kx3v9a2m000\n  cadran show 01kx3v9a2m000.2\n  cadran show 01kx3v9a2m000 --json"))]
pub struct Args {
    /// The run's id; with a dot and a number behind it, one share of a broadcast.
    pub run: String,
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help text of the command")]
    pub client: ClientOptions,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let name = run_name(&args.run)?;
    let (run, value): (Run, _) = Api::new(&args.client)?.get_as(&["runs", &name.to_string()], &[]).await?;
    if args.client.json {
        out_json(&value)?;
        return Ok(Exit::Ok.into());
    }
    for line in lines(&run) {
        out(&format!("{}\n", escaped(&line)))?;
    }
    let is_away = run.steps.iter().any(|step| !step.executors.is_empty());
    let mut columns = vec!["STEP", "STATUS", "ATTEMPT", "TOOK", "WHY"];
    columns.extend(is_away.then_some("EXECUTOR"));
    let mut steps = Table::new(&columns);
    for step in &run.steps {
        let mut row = vec![
            step.name.as_str().into(),
            Cell::status(&step.status),
            step.attempt.to_string().into(),
            step.duration_ms.map(took).unwrap_or_default().into(),
            Cell::dim(step.message.clone().unwrap_or_default()),
        ];
        let executor = || match &step.executors[..] {
            [] => String::new(),
            [only] => only.address.clone(),
            several => format!("{} executors", several.len()),
        };
        row.extend(is_away.then(|| Cell::dim(executor())));
        steps.row(row);
    }
    if !run.steps.is_empty() {
        out("\n")?;
        steps.show()?;
    }
    let mut children = Table::new(&["CHILD", "JOB", "STATUS", "EXECUTOR"]);
    for child in &run.children {
        children.row(vec![
            child.id.as_str().into(),
            child.job.as_str().into(),
            Cell::status(&child.status),
            Cell::dim(child.executor.clone().unwrap_or_default()),
        ]);
    }
    if !run.children.is_empty() {
        out("\n")?;
        children.show()?;
    }
    Ok(Exit::Ok.into())
}

fn lines(run: &Run) -> Vec<String> {
    let what = match (run.share, &run.parent, run.shares) {
        (Some(share), Some(parent), Some(shares)) => {
            format!("share {share} of {} of run {parent} of job {}", shares.total, run.job)
        }
        _ => format!("run {} of job {}", run.id, run.job),
    };
    let mut lines = vec![format!("{what} is {}", run.status)];
    lines.push(format!("  {}", run.explanation));
    lines.push(format!("  due {}, trigger {}", instant(&run.due), run.trigger));
    let started = run.started_at.as_deref().map(|at| format!("started {}", instant(at)));
    let time = run.duration_ms.map(|ms| format!(", took {}", took(ms))).unwrap_or_default();
    lines.extend(started.map(|started| format!("  {started}{time}")));
    let number = run.executor_number.map(|number| format!(", job number {number} there")).unwrap_or_default();
    let at = |executor: &String| format!("  at {executor}, attempt {}{number}", run.attempt);
    lines.extend(run.executor.as_ref().map(at));
    if let (None, Some(parent)) = (run.share, &run.parent) {
        lines.push(format!("  it is a child of run {parent}"));
    }
    if let (None, Some(shares)) = (run.share, run.shares) {
        lines.push(format!("  {shares}"));
    }
    lines
}
