//! `cadran import dagu`: files in Dagu's form as job files of Cadran's own.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use cadran_core::Zone;
use cadran_spec::{FileDialect, ReadOptions, Rewriting, rewrite_dagu};
use serde_json::{Value, json};

use super::output::{Written, write_files};
use crate::commands::files;

/// What to read and where to write.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The folder of Dagu's files, or one file.
    #[arg(value_name = "DIR|FILE")]
    source: PathBuf,
    /// Folder for the job files; files that are there are left alone.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// The rules of files that do not say: dagu, or dagu-2.7 for files written for Dagu 2.7 and later.
    #[arg(long = "as", value_name = "DIALECT", default_value = "dagu", value_parser = files::dialect)]
    dialect: FileDialect,
    /// Say what would be written, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Say what was done as JSON.
    #[arg(long)]
    json: bool,
}

/// Files of one import.
const FILES_MAX: usize = 100_000;
/// Folders inside of one another.
const DEPTH_MAX: usize = 32;

/// What became of one file of the input.
struct FileReport {
    source: String,
    /// The job file, or why there is none.
    outcome: Result<String, String>,
    /// What was rewritten, and what to know about it.
    remarks: Vec<String>,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = ReadOptions { dialect: Some(args.dialect), ..files::options(Zone::utc()) };
    let (mut sources, mut skipped) = (Vec::new(), Vec::new());
    if args.source.is_dir() {
        walk(&args.source, 0, &mut sources, &mut skipped)?;
        sources.sort();
    } else {
        sources.push(args.source.clone());
    }
    let mut taken = BTreeSet::new();
    let (mut texts, mut reports) = (Vec::new(), Vec::new());
    for path in &sources {
        let source = path.strip_prefix(&args.source).unwrap_or(path).display().to_string();
        let source = if source.is_empty() { path.display().to_string() } else { source };
        let (outcome, remarks) = match rewrite(path, &source, &options) {
            Err(why) => (Err(why), Vec::new()),
            Ok(found) => {
                let name = format!("{}.yaml", found.name);
                if taken.insert(name.clone()) {
                    texts.push((name.clone(), found.text));
                    let lines = found.rewritten.iter().map(|one| format!("line {}: {}", one.line, one.what));
                    let warnings =
                        found.warnings.iter().map(|one| format!("line {}: {}", one.line, one.message));
                    (Ok(name), lines.chain(warnings).collect())
                } else {
                    (
                        Err(format!(
                            "there is already a job named {}; give one of the two another `name`",
                            found.name
                        )),
                        Vec::new(),
                    )
                }
            }
        };
        reports.push(FileReport { source, outcome, remarks });
    }
    let states = write_files(&args.to, &texts, args.dry_run)?;
    tell(args, &reports, &texts, &states, &skipped);
    let left_out = reports.iter().any(|report| report.outcome.is_err());
    Ok(if left_out { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The YAML files below a folder; hidden folders and files are named and passed over.
fn walk(
    folder: &Path,
    depth: usize,
    files: &mut Vec<PathBuf>,
    skipped: &mut Vec<String>,
) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let is_yaml = path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            if kind.is_dir() || is_yaml {
                skipped.push(format!("{}: hidden", path.display()));
            }
        } else if kind.is_dir() && depth < DEPTH_MAX {
            walk(&path, depth + 1, files, skipped)?;
        } else if kind.is_dir() {
            skipped.push(format!("{}: more than {DEPTH_MAX} folders deep", path.display()));
        } else if is_yaml && kind.is_file() {
            files.push(path);
        } else if is_yaml {
            skipped.push(format!("{}: a link", path.display()));
        }
        if files.len() > FILES_MAX {
            bail!("there are more than {FILES_MAX} files below the folder");
        }
    }
    Ok(())
}

/// The error is the messages of all mistakes.
fn rewrite(path: &Path, shown: &str, options: &ReadOptions) -> Result<Rewriting, String> {
    let text = files::read(path).map_err(|error| format!("{error:#}"))?;
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("job");
    let folder = std::path::absolute(path).ok().and_then(|path| path.parent().map(Path::to_path_buf));
    rewrite_dagu(&text, stem, folder.as_deref(), options).map_err(|found| {
        let text = String::from_utf8_lossy(&text);
        found.iter().map(|one| one.render(shown, &text, false)).collect::<Vec<_>>().join("\n")
    })
}

fn tell(
    args: &Args,
    reports: &[FileReport],
    texts: &[(String, String)],
    states: &[Written],
    skipped: &[String],
) {
    let word = |report: &FileReport| match &report.outcome {
        Err(_) => "left out",
        Ok(name) => {
            let at = texts.iter().position(|(known, _)| known == name);
            at.and_then(|at| states.get(at)).map_or("written", |state| state.word())
        }
    };
    let words: Vec<&str> = reports.iter().map(word).collect();
    if args.json {
        let view = |(report, word): (&FileReport, &&str)| match &report.outcome {
            Ok(file) => {
                json!({"source": report.source, "outcome": word, "file": file, "remarks": report.remarks})
            }
            Err(why) => json!({"source": report.source, "outcome": word, "reason": why}),
        };
        let files: Vec<Value> = reports.iter().zip(&words).map(view).collect();
        println!("{}", json!({"dry_run": args.dry_run, "files": files, "skipped": skipped}));
        return;
    }
    for (report, word) in reports.iter().zip(&words) {
        match &report.outcome {
            Ok(file) => println!("{}: {word} {file}", report.source),
            Err(why) => println!("{}: {word}\n{why}", report.source),
        }
        report.remarks.iter().for_each(|remark| println!("    {remark}"));
    }
    skipped.iter().for_each(|one| println!("passed over: {one}"));
    let count = |wanted: &str| words.iter().filter(|word| **word == wanted).count();
    let verb = if args.dry_run { "would be written" } else { "written" };
    let to = args.to.display();
    println!("\n{} job files {verb} to {to}, {} left out", count("written"), count("left out"));
    if count("kept") > 0 {
        println!("{} files are there with another text and were left alone", count("kept"));
    }
}
