//! `cadran fuzz`: every commit of a git project built, fuzzed and remembered.

pub mod bisect;
pub mod builder;
pub mod coverage;
pub mod crashes;
pub mod fuzzer;
pub mod init;
pub mod manager;
pub mod progress;
pub mod retest;
pub mod retry;
pub mod setup;
pub mod status;

use std::process::ExitCode;

use crate::client::block_on;

/// Build and fuzz every commit of a git project, with the state in an object store.
///
/// Four passes share the work: the manager looks for commits, the builder builds the next one, the fuzzer fuzzes the one
/// that was fuzzed least, the coverage mapper says which inputs are worth it. Each command below does one pass and ends;
/// any scheduler or CI may call them, on any number of machines.
#[derive(Debug, clap::Args)]
#[command(after_help = "Start here:\n  \
cadran fuzz init --target parser --repo https://example.org/parser.git --store file:///srv/fuzz\n  \
cadran fuzz manager && cadran fuzz builder && cadran fuzz manager && cadran fuzz fuzzer\n  \
cadran fuzz status\n  cadran serve --jobs jobs        # runs the four passes by their schedules")]
pub struct Args {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, clap::Subcommand)]
#[allow(
    missing_docs,
    reason = "each command's help stands at its arguments; a comment here would replace it"
)]
enum Commands {
    Init(init::Args),
    Manager(manager::Args),
    Builder(builder::Args),
    Fuzzer(fuzzer::Args),
    Coverage(coverage::Args),
    Status(status::Args),
    Crashes(crashes::Args),
    Bisect(bisect::Args),
    Retry(retry::Args),
    Retest(retest::Args),
}

/// Runs the command.
pub fn run(args: Args) -> ExitCode {
    match args.command {
        Commands::Init(args) => block_on(args.json, init::run(args)),
        Commands::Manager(args) => block_on(args.common.json, manager::run(args)),
        Commands::Builder(args) => block_on(args.common.json, builder::run(args)),
        Commands::Fuzzer(args) => block_on(args.common.json, fuzzer::run(args)),
        Commands::Coverage(args) => block_on(args.common.json, coverage::run(args)),
        Commands::Status(args) => block_on(args.common.json, status::run(args)),
        Commands::Crashes(args) => block_on(args.common.json, crashes::run(args)),
        Commands::Bisect(args) => block_on(args.common.json, bisect::run(args)),
        Commands::Retry(args) => block_on(args.common.json, retry::run(args)),
        Commands::Retest(args) => block_on(args.common.json, retest::run(args)),
    }
}
