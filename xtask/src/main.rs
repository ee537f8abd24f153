//! Repository chores: one command for each thing that is done around the code.
//!
//! `cargo xtask test` is the test command of the README; the others are its parts and what stands beside it. Built in
//! seconds, because it is built first: no dependency but a JSON reader for `cargo metadata` and `cadran-dev`.
#![forbid(unsafe_code)]

mod bad_input;
mod bench;
mod buckets;
mod check;
mod compare_dagu;
mod coverage;
mod database;
mod files;
mod fuzz;
mod fuzzing;
mod guard;
mod kills;
mod layers;
mod licences;
mod packages;
mod page;
mod planted;
mod program;
mod random_jobs;
mod readme;
mod sim;
mod test;
mod texts;
mod words;

use std::path::Path;
use std::process::ExitCode;

const HELP: &str = "\
Usage: cargo xtask COMMAND

  test [--quick] [-- FILTER…]   All tests: formatting, lints, tests of the workspace with PostgreSQL and S3, doc
                                tests, repository checks, README commands. --quick goes without the servers.
                                With filters only the tests whose names contain one of them run.
  check                         Repository checks: layers, licences, paths, files; what is documented has a test
  docs                          Write the pages of docs that are made from the code: commands, API, metrics, reasons
  readme                        Run the README's command blocks that are marked for it
  bench [NAME…] [--quick]       Benchmarks of the workspace, all or those named (by benchmark or package)
  kills [--kills N] [--store sqlite|postgres] [--seed N]
                                The server killed at random, a thousand times unless said otherwise
  fuzz [TARGET…] [--seconds N]  The fuzz targets under libFuzzer, a minute each unless said otherwise
  fuzzing overload | writers [--rounds N] | builders [--commits N]
                                Figures of the fuzzing pipeline: what gives under overload, many writers of one file,
                                builders that are killed
  page [--check | --test | --pictures | --bench]
                                Build the web page into crates/http/page/dist (needs npm); --check says whether that is
                                what the source gives, --test tries the page in Chromium against a server, --pictures
                                makes those of the README, --bench measures it beside Dagu's
  compare-dagu [DIR]            Files in Dagu's form run in Dagu's own program (from npm) and here: same status, exit code
                                and output?
  bad-input DIR                 Write the corpus of bad job files
  sim [--seeds A..B] […]        The simulation: years of schedules with faults, held to the law; sim --help says more
  random-jobs [--jobs N] [--server-jobs N] [--seed S]
                                Job files drawn at random: 100,000 in the simulation and 2,000 through the built server,
                                unless said otherwise

Exit codes: 0 all well, 1 something failed, 2 the command line was not understood.
";

/// What the command line asks for did not go well.
pub(crate) enum CommandError {
    /// A check, test or program failed; the reason was printed or is here.
    Failed(String),
    /// The command line was not understood.
    Usage(String),
}

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    if let Err(error) = std::env::set_current_dir(root) {
        eprintln!("xtask: cannot enter {}: {error}", root.display());
        return ExitCode::FAILURE;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rest = arguments.get(1..).unwrap_or_default();
    let done = match arguments.first().map(String::as_str) {
        Some("test") => test::run(rest),
        Some("check") => no_more(rest).and_then(|()| check::run()),
        Some("docs") => no_more(rest).and_then(|()| coverage::write_documents()),
        Some("readme") => no_more(rest).and_then(|()| readme::run()),
        Some("bench") => bench::run(rest),
        Some("kills") => kills::run(rest),
        Some("fuzz") => fuzz::run(rest),
        Some("fuzzing") => fuzzing::run(rest),
        Some("bad-input") => bad_input::run(rest),
        Some("compare-dagu") => compare_dagu::run(rest),
        Some("page") => page::run(rest),
        Some("sim") => sim::run(rest),
        Some("random-jobs") => random_jobs::run(rest),
        Some("help" | "--help" | "-h") | None => {
            print!("{HELP}");
            Ok(())
        }
        Some(other) => Err(CommandError::Usage(format!("there is no command {other}"))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(CommandError::Failed(why)) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
        Err(CommandError::Usage(why)) => {
            eprintln!("xtask: {why}\n\n{HELP}");
            ExitCode::from(2)
        }
    }
}

fn no_more(rest: &[String]) -> Result<(), CommandError> {
    match rest.first() {
        None => Ok(()),
        Some(word) => Err(CommandError::Usage(format!("what is {word} for?"))),
    }
}
