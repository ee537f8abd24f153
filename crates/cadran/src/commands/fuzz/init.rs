//! `cadran fuzz init`: the files of a new target.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cadran_fuzz::{Config, InitOptions, TargetName, job_files, template};
use serde_json::json;

use crate::client::{Exit, Failure, out, out_json};

/// Write fuzz.yaml and the four job files of a new target.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Nothing that exists is overwritten. The file explains every setting; its commands fit a C++ \
project with sources in src, a libFuzzer target in fuzz, and clang.\n\nExamples:\n  \
cadran fuzz init --target parser --repo https://example.org/parser.git --store s3://fuzzing/cadran\n  \
cadran fuzz init --target parser --repo ../parser --store file:///srv/fuzz --dir fuzz-parser"
)]
pub struct Args {
    /// The target's name: letters, digits, `.`, `_`, `-`.
    #[arg(long, value_name = "NAME")]
    target: String,
    /// The repository: https, ssh, or a local path.
    #[arg(long, value_name = "URL")]
    repo: String,
    /// Where the state lives: s3://BUCKET/PREFIX or file:///DIRECTORY.
    #[arg(long, value_name = "URL")]
    store: String,
    /// The branch whose commits are fuzzed.
    #[arg(long, default_value = "main")]
    branch: String,
    /// Where the files go: fuzz.yaml, and the jobs in jobs/.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// JSON for programs instead of text for people.
    #[arg(long)]
    pub(super) json: bool,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let target = TargetName::new(&args.target).ok_or_else(|| {
        Failure::usage(format!("{:?} is no name for a target", args.target))
            .help("use letters, digits, `.`, `_` and `-`, 64 at most, and do not begin with a dot")
    })?;
    let options = InitOptions {
        target: target.clone(),
        repository: absolute_repository(&args.repo),
        branch: args.branch.clone(),
        store: args.store.clone(),
    };
    let text = template(&options);
    // What is written must be readable: mistakes in the arguments show here, with the line they would be on.
    Config::read(text.as_bytes()).map_err(|problems| {
        let shown: Vec<String> =
            problems.iter().map(|problem| problem.render("fuzz.yaml", &text, false)).collect();
        Failure::usage(shown.join("\n"))
    })?;
    let job = |pass: &str| args.dir.join("jobs").join(format!("{target}-{pass}.yaml"));
    let planned =
        ["manager", "builder", "fuzzer", "coverage"].map(job).into_iter().chain([args.dir.join("fuzz.yaml")]);
    if let Some(path) = planned.into_iter().find(|path| path.exists()) {
        let message = format!("{} exists already; nothing was written", path.display());
        return Err(Failure::new(Exit::Refused, "exists", message).help("remove it, or choose another --dir"));
    }
    fs::create_dir_all(args.dir.join("jobs")).map_err(|error| local(&args.dir, &error))?;
    let dir = fs::canonicalize(&args.dir).map_err(|error| local(&args.dir, &error))?;
    let config = dir.join("fuzz.yaml");
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("cadran"));
    let mut written = vec![(config.clone(), text)];
    let jobs = job_files(&target, &program, &config).into_iter();
    written.extend(jobs.map(|job| (dir.join("jobs").join(job.name), job.text)));
    if let Some(store) = args.store.strip_prefix("file://") {
        fs::create_dir_all(store).map_err(|error| local(Path::new(store), &error))?;
    }
    for (path, text) in &written {
        let file = fs::File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
        file.map_err(|error| local(path, &error))?;
    }
    if args.json {
        let files: Vec<String> = written.iter().map(|(path, _)| path.display().to_string()).collect();
        out_json(&json!({ "target": target.as_str(), "files": files }))?;
        return Ok(Exit::Ok.into());
    }
    for (path, _) in &written {
        out(&format!("wrote {}\n", path.display()))?;
    }
    out(&format!(
        "\nLook through {}, then try one pass after another:\n  cd {}\n  cadran fuzz manager\n  cadran fuzz builder\n\
         or let the server run them (times in UTC):\n  cadran serve --jobs {}\n",
        config.display(),
        dir.display(),
        dir.join("jobs").display(),
    ))?;
    Ok(Exit::Ok.into())
}

/// The path of a local repository holds wherever the passes run.
fn absolute_repository(url: &str) -> String {
    let is_local = !url.contains(':') && Path::new(url).exists();
    let full = fs::canonicalize(url).ok().filter(|_| is_local);
    full.and_then(|path| path.into_os_string().into_string().ok()).unwrap_or_else(|| url.to_owned())
}

fn local(path: &Path, error: &std::io::Error) -> Failure {
    Failure::here(format!("cannot write {}: {error}", path.display()))
}
