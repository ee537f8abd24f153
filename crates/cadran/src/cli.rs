//! What was typed.

use clap::{Parser, Subcommand};

use crate::commands;

/// A job and workflow scheduler in one binary.
///
/// Write jobs as YAML files, start `cadran serve`, and every due of every job ends as one run or as one skip with its
/// reason.
#[derive(Debug, Parser)]
#[command(name = "cadran", version, propagate_version = true, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 it went well; 1 a run or a check failed; 2 the command line was wrong; \
3 the server could not be reached; 4 there is no such thing; 5 the server refused.\n\n\
Start here:  cadran serve --jobs examples/jobs"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Subcommands,
}

/// What to do.
#[derive(Debug, Subcommand)]
#[allow(
    missing_docs,
    reason = "where a command's help stands at its arguments, a comment here would replace it"
)]
pub enum Subcommands {
    /// Run the server: watch job files, fire every due, keep the record.
    Serve(commands::serve::Args),
    /// Read job files and say what is wrong with them.
    Check(commands::check::Args),
    /// Show the next dues of an expression or a job file.
    Next(commands::next::Args),
    /// List every due of a folder of jobs in a window, as the server would see it.
    Plan(commands::plan::Args),
    /// Run one job file in the foreground, without a server.
    Run(commands::run::Args),
    Worker(commands::worker::Args),
    Executor(commands::executor::Args),
    Fuzz(commands::fuzz::Args),
    /// Write job files from what another scheduler has.
    Import(commands::import::Args),
    /// What talks to a server.
    #[command(flatten)]
    Client(crate::client::Commands),
    /// Watches over the processes of a `run`, a `worker` or a `fuzz` and ends them when it dies. Started by these.
    #[command(hide = true)]
    Keeper,
    /// Makes the request of a step. Started by the executor.
    #[command(hide = true)]
    HttpStep(commands::http_step::Args),
}
