//! The `cadran` command.

use std::process::ExitCode;

use cadran::cli::{Cli, Subcommands};
use cadran::commands;
use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    // One crypto provider for whoever speaks TLS. A second call changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let done = match cli.command {
        Subcommands::Serve(args) => commands::serve::run(args),
        Subcommands::Check(args) => commands::check::run(&args),
        Subcommands::Next(args) => commands::next::run(&args),
        Subcommands::Plan(args) => commands::plan::run(&args),
        Subcommands::Run(args) => commands::run::run(args),
        Subcommands::Worker(args) => commands::worker::run(args),
        Subcommands::Fuzz(args) => Ok(commands::fuzz::run(args)),
        Subcommands::Import(args) => commands::import::run(args),
        Subcommands::Client(command) => Ok(command.run()),
        Subcommands::HttpStep(args) => commands::http_step::run(args),
        Subcommands::Executor(args) => commands::executor::run(args),
        Subcommands::Keeper => {
            cadran_exec::keeper_main(std::io::stdin());
            Ok(ExitCode::SUCCESS)
        }
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
