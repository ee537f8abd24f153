//! `cadran import crontab`: which tables, and what is told of them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use nix::unistd::{Uid, User};
use serde_json::{Value, json};

use super::crontab::{Converted, LineReport, Outcome, Source, convert};
use super::output::{Written, write_files};

/// What to read and where to write.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A crontab, or `-` for standard input. Without it, the one of the user that runs the command (`crontab -l`).
    #[arg(value_name = "FILE", conflicts_with_all = ["user", "system"])]
    file: Option<String>,
    /// The crontab of this user, as `crontab -l -u NAME` shows it.
    #[arg(long, value_name = "NAME", conflicts_with = "system")]
    user: Option<String>,
    /// The system's tables: /etc/crontab and those in /etc/cron.d.
    #[arg(long)]
    system: bool,
    /// Lines of FILE have a column for the user. Known for /etc/crontab and /etc/cron.d.
    #[arg(long, requires = "file")]
    user_column: bool,
    /// Folder for the job files; files that are there are left alone.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// The zone cron ran in. Without it, that of this machine.
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// Say what would be written, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Say what was done as JSON.
    #[arg(long)]
    json: bool,
}

/// A table larger than this is something else.
const TABLE_BYTES_MAX: u64 = 8 << 20;

/// Tables in /etc/cron.d that are read.
const TABLES_MAX: usize = 1_000;

/// Runs the command.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let zone = match &args.timezone {
        Some(zone) => {
            cadran_core::Zone::get(zone).map_err(|error| anyhow::anyhow!("--timezone: {error}"))?;
            zone.clone()
        }
        None => jiff::tz::TimeZone::system().iana_name().unwrap_or("UTC").to_owned(),
    };
    let own_user = User::from_uid(Uid::current()).ok().flatten().map_or("root".into(), |user| user.name);
    let tables: Vec<(Source, String)> = tables(args)?
        .into_iter()
        .map(|(name, has_user_column, text)| {
            let (own_user, user) = (own_user.clone(), args.user.clone());
            let whose = user.as_deref().unwrap_or(&own_user);
            let homes = homes(whose, has_user_column.then_some(text.as_str()));
            (Source { name, has_user_column, zone: zone.clone(), own_user, user, homes }, text)
        })
        .collect();
    let converted = convert(&tables);
    let states = write_files(&args.to, &converted.files, args.dry_run)?;
    tell(args, &converted, &states);
    let left_out = converted.report.iter().any(|line| matches!(line.outcome, Outcome::LeftOut(_)));
    Ok(if left_out { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Names of tables, whether they have a column for the user, and their texts.
fn tables(args: &Args) -> anyhow::Result<Vec<(String, bool, String)>> {
    if args.system {
        return system_tables();
    }
    if let Some(file) = &args.file {
        if file == "-" {
            let mut text = Vec::new();
            std::io::stdin()
                .take(TABLE_BYTES_MAX + 1)
                .read_to_end(&mut text)
                .context("cannot read standard input")?;
            return Ok(vec![(
                "standard input".into(),
                args.user_column,
                bounded_text("standard input", text)?,
            )]);
        }
        let path = Path::new(file);
        let is_system = path == Path::new("/etc/crontab") || path.parent() == Some(Path::new("/etc/cron.d"));
        return Ok(vec![(file.clone(), args.user_column || is_system, read_table(path)?)]);
    }
    let mut command = Command::new("crontab");
    command.arg("-l").args(args.user.iter().flat_map(|user| ["-u", user]));
    let listed = command.output().context("cannot run crontab; name the file of the table instead")?;
    if !listed.status.success() {
        bail!("crontab: {}", String::from_utf8_lossy(&listed.stderr).trim());
    }
    let name = args.user.as_ref().map_or("crontab".to_owned(), |user| format!("crontab of {user}"));
    Ok(vec![(name.clone(), false, bounded_text(&name, listed.stdout)?)])
}

fn system_tables() -> anyhow::Result<Vec<(String, bool, String)>> {
    let mut paths = vec![PathBuf::from("/etc/crontab")];
    if let Ok(entries) = fs::read_dir("/etc/cron.d") {
        let mut more: Vec<PathBuf> =
            entries.filter_map(|entry| Some(entry.ok()?.path())).take(TABLES_MAX).collect();
        more.sort();
        // Cron passes over names with a dot, such as what a package manager leaves behind.
        let is_read =
            |path: &PathBuf| path.file_name().is_some_and(|name| !name.as_encoded_bytes().contains(&b'.'));
        paths.extend(more.into_iter().filter(is_read));
    }
    let tables: anyhow::Result<Vec<_>> = paths
        .into_iter()
        .filter(|path| path.is_file())
        .map(|path| Ok((path.display().to_string(), true, read_table(&path)?)))
        .collect();
    match tables? {
        none if none.is_empty() => bail!("there is neither /etc/crontab nor a table in /etc/cron.d"),
        tables => Ok(tables),
    }
}

fn read_table(path: &Path) -> anyhow::Result<String> {
    let name = path.display().to_string();
    let file = fs::File::open(path).with_context(|| format!("cannot read {name}"))?;
    let mut text = Vec::new();
    file.take(TABLE_BYTES_MAX + 1).read_to_end(&mut text).with_context(|| format!("cannot read {name}"))?;
    bounded_text(&name, text)
}

fn bounded_text(name: &str, text: Vec<u8>) -> anyhow::Result<String> {
    if text.len() as u64 > TABLE_BYTES_MAX {
        bail!("{name} has more than {TABLE_BYTES_MAX} bytes: it is no crontab");
    }
    if text.contains(&0) {
        bail!("{name} is a binary file: it is no crontab");
    }
    String::from_utf8(text).map_err(|_| anyhow::anyhow!("{name} is not text in UTF-8"))
}

/// The home directories of those that the lines of a table may run as.
fn homes(own_user: &str, system_table: Option<&str>) -> BTreeMap<String, String> {
    let words = system_table.into_iter().flat_map(|text| {
        text.lines().flat_map(|line| line.split_whitespace().take(7).filter(|word| !word.contains('/')))
    });
    words
        .chain([own_user])
        .filter_map(|name| User::from_name(name).ok().flatten())
        .map(|user| (user.name, user.dir.display().to_string()))
        .collect()
}

fn tell(args: &Args, converted: &Converted, states: &[Written]) {
    let state_of: BTreeMap<&str, Written> =
        converted.files.iter().zip(states).map(|((name, _), state)| (name.as_str(), *state)).collect();
    let outcome = |line: &LineReport| match &line.outcome {
        Outcome::Setting => ("setting", String::new()),
        Outcome::LeftOut(why) => ("left out", why.clone()),
        Outcome::File(name) => {
            (state_of.get(name.as_str()).map_or("written", |state| state.word()), name.clone())
        }
    };
    if args.json {
        let lines: Vec<Value> = converted
            .report
            .iter()
            .map(|line| {
                let (word, detail) = outcome(line);
                let key = if word == "left out" { "reason" } else { "file" };
                let mut value = json!({"source": line.source, "line": line.line, "outcome": word, "remarks": line.remarks});
                if !detail.is_empty() {
                    value[key] = Value::from(detail);
                }
                value
            })
            .collect();
        println!("{}", json!({"dry_run": args.dry_run, "lines": lines}));
        return;
    }
    for line in &converted.report {
        let (word, detail) = outcome(line);
        println!("{}:{}: {word} {detail}", line.source, line.line);
        line.remarks.iter().for_each(|remark| println!("    {remark}"));
    }
    let count = |wanted: &str| converted.report.iter().filter(|line| outcome(line).0 == wanted).count();
    let (written, to) = (count("written"), args.to.display());
    let verb = if args.dry_run { "would be written" } else { "written" };
    println!("\n{written} job files {verb} to {to}, {} lines left out", count("left out"));
    if count("kept") > 0 {
        println!("{} files are there with another text and were left alone", count("kept"));
    }
    if written > 0 && !args.dry_run {
        println!(
            "Next: `cadran check {to}`, then remove the lines from the crontab so that nothing runs twice."
        );
    }
}
