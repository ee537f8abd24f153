//! `cadran executor`: the process that runs the steps of this machine's server.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cadran_exec::{ExecError, ExecutorStatus, ServiceOptions};
use serde_json::json;

use crate::client::{Exit, Failure, block_on, out_json, talk};
use crate::defaults;
use crate::server::clock;

/// The process that runs the steps of this machine's server, and goes on when the server is gone.
///
/// `cadran serve` starts it and finds it again, so that nobody has to. These commands ask how it is, or end it with
/// everything it runs. They work with and without a server.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Say whether there is one, and how much it runs.
    Status(Which),
    /// End everything it runs, for good, and then itself.
    ///
    /// Processes get their signal, and KILL after the grace period. Their runs have failed and are not started again by
    /// themselves. A server that is running starts a new executor at once.
    Stop(StopArgs),
    /// Be the executor. Started by `serve`.
    #[command(hide = true)]
    Run(Which),
}

/// Which executor, and how to answer.
#[derive(Debug, clap::Args)]
struct Which {
    /// The data directory of its server.
    #[arg(long, env = "CADRAN_DATA", default_value_os_t = defaults::data_dir())]
    data: PathBuf,
    /// JSON for programs instead of text for people.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct StopArgs {
    #[command(flatten)]
    which: Which,
    /// Kill everything at once, without a signal before.
    #[arg(long)]
    now: bool,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Status(which) => Ok(block_on(which.json, async move {
            let found = cadran_exec::executor_status(&which.data).await.map_err(cannot)?;
            answer(&which, found, "it runs")
        })),
        Command::Stop(StopArgs { which, now }) => Ok(block_on(which.json, async move {
            let patience = if now { Duration::ZERO } else { defaults::EXECUTOR.stop_timeout };
            let stopped = cadran_exec::stop_executor(&which.data, patience, STOPPED);
            let found = stopped.await.map_err(cannot)?;
            answer(&which, found, "it was ended with")
        })),
        Command::Run(which) => be_executor(&which.data),
    }
}

/// Why a run has failed whose process was ended by `cadran executor stop`.
const STOPPED: &str = "was stopped by `cadran executor stop`";

fn cannot(error: ExecError) -> Failure {
    Failure::new(Exit::RunFailed, "executor", error.to_string())
}

fn answer(which: &Which, found: Option<ExecutorStatus>, what: &str) -> Result<ExitCode, Failure> {
    let Some(ExecutorStatus { pid, version, running, waiting }) = found else {
        if which.json {
            out_json(&json!({ "executor": null }))?;
        } else {
            talk(&format!("no executor of {} is running", which.data.display()));
        }
        return Ok(Exit::Ok.into());
    };
    if which.json {
        let executor = json!({ "pid": pid, "version": version, "running": running, "waiting": waiting });
        out_json(&json!({ "executor": executor }))?;
    } else {
        let attempts = if running == 1 { "1 attempt".to_owned() } else { format!("{running} attempts") };
        let more =
            if waiting > 0 { format!(", and {waiting} waiting for their start") } else { String::new() };
        talk(&format!("the executor is process {pid}, version {version}; {what} {attempts}{more}"));
    }
    Ok(Exit::Ok.into())
}

/// The executor itself: a session of its own, so that neither a terminal nor the end of the server reaches it.
fn be_executor(data: &Path) -> anyhow::Result<ExitCode> {
    // The line for whoever started it; nobody may be there to read it.
    let said = |line: &str| drop(writeln!(io::stdout(), "{line}"));
    let opened = open_surroundings(data);
    let data = match opened {
        Ok(data) => data,
        Err(error) => {
            said(&format!("{error:#}"));
            return Err(error);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(cadran_exec::serve(ServiceOptions::new(&data), clock::wall, said));
    runtime.shutdown_background();
    match done {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // It was said above, and the log has it.
        Err(error) => {
            tracing::error!("{error}");
            Ok(ExitCode::FAILURE)
        }
    }
}

fn open_surroundings(data: &Path) -> anyhow::Result<PathBuf> {
    // Fails for the leader of a process group, as when it is started by hand: it is alone then as well.
    let _ = nix::unistd::setsid();
    let exec = data.join("exec");
    cadran_files::secure_dir(data)?;
    cadran_files::secure_dir(&exec)?;
    let data = std::fs::canonicalize(data)?;
    // Where the server was started may be unmounted one day.
    std::env::set_current_dir(&data)?;
    start_log(&data.join("exec").join("executor.log"))?;
    Ok(data)
}

fn start_log(path: &Path) -> io::Result<()> {
    let log = Arc::new(Mutex::new(LogFile::open(path)?));
    let filter = tracing_subscriber::EnvFilter::try_from_env("CADRAN_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let writer = move || LogWriter(Arc::clone(&log));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    // A subscriber that is there already stays.
    let _ = subscriber.with_target(false).with_ansi(false).try_init();
    Ok(())
}

/// The executor's own log. It belongs to no terminal and to no server, so that it is a file; the one before is kept
/// beside it when it has grown.
struct LogFile {
    path: PathBuf,
    file: File,
    len: u64,
}

/// Two files of this size at most.
const LOG_BYTES_MAX: u64 = 1 << 20;

impl LogFile {
    fn open(path: &Path) -> io::Result<LogFile> {
        let file = cadran_files::options().create(true).append(true).open(path)?;
        let len = file.metadata()?.len();
        Ok(LogFile { path: path.to_owned(), file, len })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.len > LOG_BYTES_MAX {
            std::fs::rename(&self.path, cadran_files::beside(&self.path, ".old"))?;
            *self = LogFile::open(&self.path)?;
        }
        let written = self.file.write(bytes)?;
        self.len += written as u64;
        Ok(written)
    }
}

struct LogWriter(Arc<Mutex<LogFile>>);

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
