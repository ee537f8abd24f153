//! `cadran import`: jobs of another scheduler as job files.

mod dump;
mod xxl_job;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use serde_json::json;

/// Write job files from what another scheduler has.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    from: From,
}

#[derive(Debug, clap::Subcommand)]
enum From {
    /// From a dump of XXL-JOB's database, as `mysqldump` writes it.
    #[command(
        after_help = "Reads the tables xxl_job_info and xxl_job_group, writes one job file for each job and \
executors.yaml for groups with addresses, and says what was not carried over.\n\nExamples:\n  mysqldump xxl_job \
xxl_job_info xxl_job_group > dump.sql\n  cadran import xxl-job dump.sql --to jobs --timezone Asia/Shanghai"
    )]
    XxlJob(XxlJob),
}

/// What to read and where to write.
#[derive(Debug, clap::Args)]
struct XxlJob {
    /// The dump.
    dump: PathBuf,
    /// Folder for the job files; files that are there are left alone.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// The zone the scheduler ran in: its expressions have none of their own.
    #[arg(long, default_value = "UTC")]
    timezone: String,
    /// Say what was done as JSON.
    #[arg(long)]
    json: bool,
}

/// A dump larger than this is of something else: jobs are a few hundred bytes each.
const DUMP_BYTES_MAX: u64 = 1 << 30;

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let From::XxlJob(args) = args.from;
    cadran_core::Zone::get(&args.timezone).map_err(|error| anyhow::anyhow!("--timezone: {error}"))?;
    let name = args.dump.display();
    let len = fs::metadata(&args.dump).with_context(|| format!("cannot read {name}"))?.len();
    if len > DUMP_BYTES_MAX {
        bail!("{name} has {len} bytes; dump the tables xxl_job_info and xxl_job_group alone");
    }
    let text = fs::read(&args.dump).with_context(|| format!("cannot read {name}"))?;
    let tables =
        dump::read(&String::from_utf8_lossy(&text)).map_err(|why| anyhow::anyhow!("{name}: {why}"))?;
    let found = xxl_job::convert(&tables, &args.timezone).map_err(|why| anyhow::anyhow!("{name}: {why}"))?;
    fs::create_dir_all(&args.to).with_context(|| format!("cannot make {}", args.to.display()))?;
    let mut written = Vec::new();
    let mut remarks = found.remarks;
    for (file, text) in found.files {
        let path = args.to.join(&file);
        if path.exists() {
            remarks.push(format!("{file}: there is such a file already; it was left alone"));
            continue;
        }
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        written.push(file);
    }
    if args.json {
        println!("{}", json!({ "written": written, "remarks": remarks }));
        return Ok(ExitCode::SUCCESS);
    }
    println!("{} files written to {}", written.len(), args.to.display());
    if !remarks.is_empty() {
        println!("\nNot carried over, or worth a look:");
        remarks.iter().for_each(|remark| println!("  {remark}"));
    }
    println!(
        "\nNext: `cadran check {}`, then move executors.yaml beside the server's data and set a token.",
        args.to.display()
    );
    Ok(ExitCode::SUCCESS)
}
