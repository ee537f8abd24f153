//! What the commands share that talk to a server: where it is, the token for it, its answers, tables, exit codes.
//!
//! [`Commands`] holds all of them; [`Commands::run`] carries one out and says how it went as an exit code. Nothing here
//! knows what a server decides: every word shown comes from its API.

pub(crate) mod address;
mod answer;
mod api;
pub mod exit;
mod failure;
mod output;
mod share;
mod table;
mod wait;

use std::future::Future;
use std::path::PathBuf;
use std::process::ExitCode;

pub use answer::{
    Child, History, HistoryItem, Job, JobPage, Log, LogPage, ProblemPage, Run, RunPage, Share, ShareCounts,
    Step, WaitsFor, Why,
};
pub use api::Api;
pub use exit::Exit;
pub use failure::Failure;
pub use output::{escaped, is_terminal, out, out_bytes, out_json, paint, talk};
pub use share::{add_shares, run_name, shares};
pub use table::{Cell, Colour, Table, instant, status_colour, took};
pub use wait::wait_for;

use crate::commands::{
    executors, history, jobs, logs, open, pause, ps, resume, retry, show, status, stop, trigger, why,
};

/// Which server, and how to answer.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Server")]
pub struct ClientOptions {
    /// The server's address [default: the one that runs on this machine with the same data directory].
    #[arg(long, env = "CADRAN_SERVER", value_name = "URL")]
    pub server: Option<String>,
    /// The server's token; on the same machine it is found by itself. Better given by the environment, where other
    /// users do not see it.
    #[arg(long, env = "CADRAN_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// The server's data directory, to find its address and token [default: ~/.local/share/cadran].
    #[arg(long, env = "CADRAN_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Send the token over plain http to another machine, where whoever is in between can read it.
    #[arg(long)]
    pub insecure: bool,
    /// JSON for programs instead of text for people.
    #[arg(long)]
    pub json: bool,
}

/// The commands that talk to a server.
#[derive(Debug, clap::Subcommand)]
#[allow(
    missing_docs,
    reason = "each command's help stands at its arguments; a comment here would replace it"
)]
pub enum Commands {
    Trigger(trigger::Args),
    Status(status::Args),
    Ps(ps::Args),
    Show(show::Args),
    Why(why::Args),
    History(history::Args),
    Logs(logs::Args),
    Pause(pause::Args),
    Resume(resume::Args),
    Stop(stop::Args),
    Retry(retry::Args),
    Jobs(jobs::Args),
    Executors(executors::Args),
    Open(open::Args),
}

impl Commands {
    /// Carries the command out, and says on standard error what went wrong.
    pub fn run(self) -> ExitCode {
        match self {
            Commands::Trigger(args) => block_on(args.client.json, trigger::run(args)),
            Commands::Status(args) => block_on(args.client.json, status::run(args)),
            Commands::Ps(args) => block_on(args.client.json, ps::run(args)),
            Commands::Show(args) => block_on(args.client.json, show::run(args)),
            Commands::Why(args) => block_on(args.client.json, why::run(args)),
            Commands::History(args) => block_on(args.client.json, history::run(args)),
            Commands::Logs(args) => block_on(args.client.json, logs::run(args)),
            Commands::Pause(args) => block_on(args.client.json, pause::run(args)),
            Commands::Resume(args) => block_on(args.client.json, resume::run(args)),
            Commands::Stop(args) => block_on(args.client.json, stop::run(args)),
            Commands::Retry(args) => block_on(args.client.json, retry::run(args)),
            Commands::Jobs(args) => block_on(args.client.json, jobs::run(args)),
            Commands::Executors(args) => block_on(args.client.json, executors::run(args)),
            Commands::Open(args) => block_on(args.client.json, open::run(args)),
        }
    }
}

/// Carries a command out on this thread, and says on standard error what went wrong.
pub(crate) fn block_on(json: bool, command: impl Future<Output = Result<ExitCode, Failure>>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::here(format!("cannot start: {error}")).report(json),
    };
    match runtime.block_on(command) {
        Ok(code) => code,
        Err(failure) => failure.report(json),
    }
}
