//! `cadran import`: jobs of another scheduler as job files.

mod crontab;
mod crontab_command;
mod dagu;
mod dump;
mod live;
mod output;
mod xxl_job;
mod xxl_job_report;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};

use dump::Table;
use xxl_job_report::Report;

/// Write job files from what another scheduler has.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    from: From,
}

#[derive(Debug, clap::Subcommand)]
enum From {
    /// From XXL-JOB's database: the tables of a running MySQL or MariaDB, or a dump of them.
    #[command(
        after_help = "Reads the tables xxl_job_info and xxl_job_group, writes one job file for each job and \
executors.yaml.new for groups with addresses or tokens, and says what was not carried over.\n\nExit code 0 when every job \
has its file, 1 when one was left out.\n\nExamples:\n  mysqldump xxl_job \
xxl_job_info xxl_job_group > dump.sql\n  cadran import xxl-job dump.sql --to jobs --timezone Asia/Shanghai\n  \
MYSQL_PWD=… cadran import xxl-job mysql://reader@db:3306/xxl_job --to jobs --timezone Asia/Shanghai"
    )]
    XxlJob(XxlJob),
    /// From a crontab: a user's, the system's, or a file.
    #[command(
        after_help = "Writes one job file for each line with a command and tells what became of every line. What cron does is \
written into the files: no catching up, no regard for runs that are still on, cron's search path, the user's home as working \
directory. A line that cannot be carried over is named with the reason, and the exit code is 1.\n\nExamples:\n  cadran import \
crontab --to jobs --dry-run\n  cadran import crontab /etc/crontab --to jobs\n  crontab -l | cadran import crontab - --to jobs \
--timezone Europe/Paris"
    )]
    Crontab(crontab_command::Args),
    /// From Dagu: its files as job files of Cadran's own form.
    #[command(
        after_help = "Dagu's files run as they are; this is for those who want them in Cadran's own form. Says what was \
rewritten, line by line. A file that cannot be carried over is named with every mistake in it, and the exit code is \
1.\n\nExamples:\n  cadran import dagu ~/.config/dagu/dags --to jobs --dry-run\n  cadran import dagu dags --to jobs --as dagu-2.7"
    )]
    Dagu(dagu::Args),
}

/// What to read and where to write.
#[derive(Debug, clap::Args)]
struct XxlJob {
    /// The dump, or `mysql://USER@HOST:PORT/DATABASE`; a password is taken from MYSQL_PWD when the address has none.
    #[arg(value_name = "DUMP|URL")]
    source: String,
    /// Folder for the job files; files that are there are left alone, and a second import of the same changes nothing.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// The zone the scheduler ran in: its expressions have none of their own.
    #[arg(long, default_value = "UTC")]
    timezone: String,
    /// Write nothing, and say what would be written.
    #[arg(long)]
    dry_run: bool,
    /// Say what was done as JSON.
    #[arg(long)]
    json: bool,
}

/// A dump larger than this is of something else: jobs are a few hundred bytes each.
const DUMP_BYTES_MAX: u64 = 1 << 30;

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let args = match args.from {
        From::XxlJob(args) => args,
        From::Crontab(args) => return crontab_command::run(&args),
        From::Dagu(args) => return dagu::run(&args),
    };
    cadran_core::Zone::get(&args.timezone).map_err(|error| anyhow::anyhow!("--timezone: {error}"))?;
    let (name, tables) = read(&args.source)?;
    let found = xxl_job::convert(&tables, &args.timezone).map_err(|why| anyhow::anyhow!("{name}: {why}"))?;
    let report = Report::write(found, &args.to, args.dry_run)?;
    if args.json {
        println!("{}", report.to_json());
    } else {
        report.show(&args.to, args.dry_run);
    }
    // Whoever imports in a script shall notice that a job is missing.
    Ok(if report.is_whole() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The tables, and what to call where they are from.
fn read(source: &str) -> anyhow::Result<(String, BTreeMap<String, Table>)> {
    if source.starts_with("mysql:") || source.starts_with("mariadb:") {
        let name = live::shown(source);
        let tables = live::read(source).with_context(|| name.clone())?;
        return Ok((name, tables));
    }
    let len = fs::metadata(source).with_context(|| format!("cannot read {source}"))?.len();
    if len > DUMP_BYTES_MAX {
        bail!("{source} has {len} bytes; dump the tables xxl_job_info and xxl_job_group alone");
    }
    let text = fs::read(source).with_context(|| format!("cannot read {source}"))?;
    let tables =
        dump::read(&String::from_utf8_lossy(&text)).map_err(|why| anyhow::anyhow!("{source}: {why}"))?;
    Ok((source.to_owned(), tables))
}
