//! `cadran check`: what is wrong with these files?

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use cadran_core::Zone;
use cadran_spec::{Diagnostic, ReadOptions};
use serde_json::json;

use super::files;

/// Read job files and say what is wrong with them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code 0 when every file is good, 1 when one is not.\n\nExample:\n  \
cadran check jobs/ other/backup.yaml")]
pub struct Args {
    /// Job files, or folders of them.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Zone of job files that name none.
    #[arg(long, env = "CADRAN_TIMEZONE", default_value = "UTC")]
    timezone: String,
    /// JSON lines instead of text, one object per file.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let zone = Zone::get(&args.timezone).map_err(|error| anyhow::anyhow!("--timezone: {error}"))?;
    let options = ReadOptions { default_zone: zone };
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let mut out = std::io::stdout().lock();
    let (mut good, mut bad) = (0, 0);
    for path in &args.paths {
        let (jobs, problems) = files::check(path, &options)?;
        good += jobs.len();
        bad += problems.iter().filter(|problem| problem.is_error()).count();
        for (file, job) in jobs.iter().filter(|_| args.json) {
            writeln!(out, "{}", json!({ "file": file, "job": job, "ok": true }))?;
        }
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
    if !args.json {
        writeln!(out, "{good} good, {bad} with errors")?;
    }
    Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
