use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::{env, fs};

use crate::coverage::Reference;
use crate::files::{self, File};
use crate::packages::{self, Package};
use crate::program::{is_there, program, run as run_program};
use crate::{CommandError, layers, licences, planted, readme, texts, words};

/// What the checks look at.
struct Repository {
    files: Vec<File>,
    packages: Vec<Package>,
    /// What the code says of itself, or why it cannot.
    reference: Result<Reference, String>,
}

enum CheckOutcome {
    Nothing,
    Problems(Vec<String>),
    /// Worth a look, not worth a failure.
    Warnings(Vec<String>),
    Skipped(&'static str),
}

/// Every check with what it holds.
const CHECKS: &[(&str, fn(&Repository) -> Result<CheckOutcome, String>)] = &[
    ("dependencies point down; plan, place and flow are strangers", |at| {
        problems(layers::directions(&at.packages))
    }),
    ("pure crates are built with data structures only", |at| {
        problems(layers::pure_dependencies(&at.packages)?)
    }),
    ("pure crates build alone", |at| problems(layers::pure_builds(&at.packages))),
    ("one clippy.toml", |at| problems(texts::one_clippy_toml(&at.files))),
    ("no paths of one machine", |at| problems(texts::home_paths(&at.files, &own_places()))),
    ("no registry host names", |at| problems(texts::registry_hosts(&at.files))),
    ("licences are on the list", |at| problems(licences::check(&at.packages, text(at, "deny.toml"))?)),
    (".ci/run calls the README's test command", |at| {
        problems(texts::ci_runs_the_readme(&at.files, is_executable(".ci/run")))
    }),
    ("README blocks for CI are well formed", |at| problems(readme::check(text(at, "README.md")))),
    ("every key, command, option, endpoint, metric and skip reason has a test", |at| {
        at.reference.as_ref().map_err(Clone::clone).and_then(|known| problems(known.uncovered(&at.files)))
    }),
    ("pages made from the code are fresh; every key is explained", |at| {
        at.reference.as_ref().map_err(Clone::clone).and_then(|known| problems(known.undocumented(&at.files)))
    }),
    ("planted bugs fit the code", |_| problems(planted::check()?)),
    ("names that the glossary replaces are not used", |at| problems(words::rival_names(&at.files)?)),
    ("cargo deny", |_| cargo_deny()),
    ("comfortable files", |at| Ok(CheckOutcome::Warnings(texts::long_files(&at.files)))),
];

/// `cargo xtask check`.
pub(crate) fn run() -> Result<(), CommandError> {
    let read =
        || Ok(Repository { files: files::all()?, packages: packages::all()?, reference: Reference::read() });
    let repository = read().map_err(CommandError::Failed)?;
    let mut failed = 0;
    for (name, check) in CHECKS {
        match check(&repository) {
            Ok(CheckOutcome::Nothing) => println!("ok       {name}"),
            Ok(CheckOutcome::Skipped(why)) => println!("skipped  {name}: {why}"),
            Ok(CheckOutcome::Warnings(warnings)) => {
                println!("{}  {name}", if warnings.is_empty() { "ok     " } else { "look   " });
                warnings.iter().for_each(|warning| println!("           {warning}"));
            }
            Ok(CheckOutcome::Problems(problems)) => {
                failed += 1;
                println!("FAILED   {name}");
                problems.iter().for_each(|problem| println!("           {problem}"));
            }
            Err(why) => {
                failed += 1;
                println!("FAILED   {name}: {why}");
            }
        }
    }
    match failed {
        0 => Ok(()),
        1 => Err(CommandError::Failed("1 repository check failed".into())),
        count => Err(CommandError::Failed(format!("{count} repository checks failed"))),
    }
}

fn problems(problems: Vec<String>) -> Result<CheckOutcome, String> {
    Ok(if problems.is_empty() { CheckOutcome::Nothing } else { CheckOutcome::Problems(problems) })
}

fn text<'a>(repository: &'a Repository, path: &str) -> &'a str {
    let file = repository.files.iter().find(|file| file.path == path);
    file.and_then(|file| file.text.as_deref()).unwrap_or_default()
}

/// Places of this machine that no file should name. A place with a single name, like `/src`, could mean anything.
fn own_places() -> Vec<String> {
    let home = env::var("HOME").unwrap_or_default();
    let here = env::current_dir().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
    [home, here].into_iter().filter(|place| place.matches('/').count() >= 2).collect()
}

fn is_executable(path: &str) -> bool {
    fs::metadata(Path::new(path)).is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0)
}

fn cargo_deny() -> Result<CheckOutcome, String> {
    if !is_there("cargo deny --version") {
        return Ok(CheckOutcome::Skipped("cargo-deny is not installed"));
    }
    run_program(&mut program("cargo deny --offline check bans licenses sources"))
        .map(|()| CheckOutcome::Nothing)
}
