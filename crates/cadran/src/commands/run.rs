//! `cadran run`: one job file in the foreground, through the same engine, flow and executor as on a server.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use cadran_core::{Command, Job, JobName, Reply, RunId, RunStatus, StepNo, StepRecord, StepStatus, Zone};
use cadran_engine::{Engine, Event, JobChange, Options};
use cadran_exec::{Local, LocalOptions, LogDir};
use cadran_spec::{Change, FileDialect, ReadOptions};
use cadran_store::{RunView, Store};
use serde_json::json;

use crate::public_address::AllowedNet;
use crate::server::clock::{self, Clock};
use crate::server::embedded::keeper_command;
use crate::server::event_loop::Orders;
use crate::server::{self, LoopHandle, Running};

/// How often the screen follows what happens. A person sees no difference to at once.
const FOLLOW_EVERY: Duration = Duration::from_millis(50);

/// Run one job file in the foreground, without a server.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "What steps print goes to standard output, talk to standard error. Ctrl-C stops the run and its \
handlers run.\n\nExit code: 0 when the run succeeded; the exit code of the first step that failed; 130 when it was \
stopped; 1 otherwise. A file by Dagu's rules gives 0 or 1, as Dagu does.\n\nExample:\n  cadran run jobs/report.yaml -p month=2026-10"
)]
pub struct Args {
    /// The job file.
    file: PathBuf,
    /// A parameter, NAME=VALUE; or a value for the next positional one.
    #[arg(short = 'p', long = "param", value_name = "NAME=VALUE")]
    params: Vec<String>,
    /// Zone of a job file that names none.
    #[arg(long, env = "CADRAN_TIMEZONE", default_value = "UTC")]
    timezone: String,
    /// A network that `http` steps may ask although it is not public, as 10.1.0.0/16 or 127.0.0.1; may be given several
    /// times.
    #[arg(long, env = "CADRAN_ALLOW_HTTP", value_name = "NET", value_delimiter = ',')]
    allow_http: Vec<AllowedNet>,
    /// By whose rules it is read when it does not say so itself: cadran, dagu or dagu-2.7.
    #[arg(long = "as", value_name = "DIALECT", value_parser = super::files::dialect)]
    dialect: Option<FileDialect>,
    /// One JSON object at the end instead of text; what steps print is not shown.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (job, definition, dialect) = read(&args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let scratch = Scratch::new()?;
    let done = runtime.block_on(foreground(&args, job, definition, dialect, &scratch.0));
    runtime.shutdown_timeout(Duration::from_secs(1));
    done
}

/// A directory of our own that goes away with us.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> anyhow::Result<Scratch> {
        let path = std::env::temp_dir().join(format!("cadran-run-{}-{}", std::process::id(), clock::wall()));
        std::fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Logs of a run in the foreground were shown already.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn read(args: &Args) -> anyhow::Result<(Job, Arc<str>, FileDialect)> {
    let zone = Zone::get(&args.timezone).map_err(|error| anyhow::anyhow!("--timezone: {error}"))?;
    let text = super::files::read(&args.file)?;
    let options = ReadOptions { dialect: args.dialect, ..super::files::options(zone) };
    let options = super::files::beside(&args.file, &options)?;
    let parsed = super::files::read_at(&text, &args.file, &options).map_err(|problems| {
        let text = String::from_utf8_lossy(&text);
        let file = args.file.display().to_string();
        let rendered: Vec<String> =
            problems.iter().map(|problem| problem.render(&file, &text, false)).collect();
        anyhow::anyhow!("the job file has errors\n{}", rendered.join("\n"))
    })?;
    // Dues are no concern of a run in the foreground.
    Ok((Job { schedules: Arc::new([]), ..parsed.job }, parsed.definition, parsed.dialect))
}

/// `NAME=VALUE`, or a value for the next position.
fn params(given: &[String]) -> Vec<(Box<str>, Box<str>)> {
    let mut position = 0;
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => (name.into(), value.into()),
        _ => {
            position += 1;
            (position.to_string().into(), text.as_str().into())
        }
    };
    given.iter().map(pair).collect()
}

async fn foreground(
    args: &Args,
    job: Job,
    definition: Arc<str>,
    dialect: FileDialect,
    scratch: &Path,
) -> anyhow::Result<ExitCode> {
    let clock = Clock::start();
    let loop_handle = LoopHandle::default();
    let store = Store::open("memory:").await?;
    let http_allow = args.allow_http.iter().map(ToString::to_string).collect();
    let exec = LocalOptions { keeper: keeper_command(), http_allow, ..LocalOptions::new(scratch) };
    let logs = LogDir::new(exec.logs.clone());
    let (local, _) = Local::open(exec, clock::wall, loop_handle.sink()).await?;
    let local = Arc::new(local);
    let orders: Orders = {
        let local = local.clone();
        Arc::new(move |orders| local.submit(orders))
    };
    let name = job.name.clone();
    let running = server::start(loop_handle.clone(), clock, Engine::new(Options::default()), store, orders)?;
    let source: Arc<str> = "".into();
    let mut jobs = if job.body.calls().next().is_some() { beside(args, &job)? } else { Vec::new() };
    jobs.push(JobChange::Put { job, definition, source: source.clone(), source_mark: source });
    loop_handle.send(Event::Jobs(jobs));
    let run = start(&loop_handle, &name, params(&args.params)).await?;
    let view = follow(&running, run, &logs, args.json).await?;
    running.stop(async { local.drain(Duration::from_secs(10)).await }).await;
    if args.json {
        println!("{}", summary(&view));
    }
    Ok(exit_code(&view, dialect))
}

/// The other jobs of the file's folder, for steps that call them. They have no dues here.
fn beside(args: &Args, own: &Job) -> anyhow::Result<Vec<JobChange>> {
    let zone = Zone::get(&args.timezone).map_err(|error| anyhow::anyhow!("--timezone: {error}"))?;
    let options = ReadOptions { default_zone: zone, ..ReadOptions::default() };
    let folder = args.file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (scan, _) = super::files::read_folder(folder, options)?;
    let put = |change| match change {
        Change::Put { job, definition, source, source_mark } if job.name != own.name => {
            let job = Job { schedules: Arc::new([]), ..job };
            Some(JobChange::Put { job, definition, source, source_mark })
        }
        _ => None,
    };
    Ok(scan.changes.into_iter().filter_map(put).collect())
}

async fn start(
    loop_handle: &LoopHandle,
    name: &JobName,
    params: Vec<(Box<str>, Box<str>)>,
) -> anyhow::Result<RunId> {
    let trigger =
        Command::Trigger { job: name.clone(), params, addresses: Vec::new(), parent: None, key: None };
    match loop_handle.command(trigger).await {
        Ok(Reply::Run(run)) => Ok(run),
        Ok(_) => bail!("the engine did not name the run"),
        Err(refusal) => bail!("{refusal}"),
    }
}

/// Shows what happens until the run is over.
async fn follow(running: &Running, run: RunId, logs: &LogDir, quiet: bool) -> anyhow::Result<RunView> {
    let mut screen = Screen::new(quiet);
    let mut interrupts = 0;
    loop {
        let view = running.store.run(run).await?.context("the run is not on record")?;
        let ended = view.record.state.status.is_ended();
        screen.show(&view, logs)?;
        if ended {
            return Ok(view);
        }
        tokio::select! {
            () = tokio::time::sleep(FOLLOW_EVERY) => {}
            _ = tokio::signal::ctrl_c() => {
                interrupts += 1;
                if interrupts > 1 {
                    bail!("given up while stopping");
                }
                eprintln!("stopping; press Ctrl-C again to give up");
                let _ = running.loop_handle.command(Command::Stop { run }).await;
            }
        }
    }
}

/// What was shown so far.
struct Screen {
    quiet: bool,
    colour: bool,
    steps: BTreeMap<Box<str>, (StepStatus, u32)>,
    read: BTreeMap<(StepNo, u32), u64>,
}

impl Screen {
    fn new(quiet: bool) -> Screen {
        let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Screen { quiet, colour, steps: BTreeMap::new(), read: BTreeMap::new() }
    }

    fn show(&mut self, view: &RunView, logs: &LogDir) -> anyhow::Result<()> {
        if self.quiet {
            return Ok(());
        }
        self.output(view.record.promise.run, logs)?;
        for step in view.record.state.steps.iter().flatten() {
            let now = (step.status, step.attempt);
            if step.status != StepStatus::Pending && self.steps.get(&step.name) != Some(&now) {
                self.steps.insert(step.name.clone(), now);
                eprintln!("{}", self.line(step));
            }
        }
        let state = &view.record.state;
        if state.status.is_ended() {
            let why = state.message.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
            eprintln!(
                "{} {}{why}",
                view.job_name,
                self.paint(state.status.word(), state.status == RunStatus::Succeeded)
            );
        }
        Ok(())
    }

    fn line(&self, step: &StepRecord) -> String {
        let attempt = if step.attempt > 1 { format!(" (attempt {})", step.attempt) } else { String::new() };
        let took = match (step.started_at, step.ended_at) {
            (Some(start), Some(end)) if step.status.is_ended() => {
                format!(" in {:.1} s", (end - start).max(0) as f64 / 1000.0)
            }
            _ => String::new(),
        };
        let why = step.message.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        let status = self.paint(step.status.word(), step.status == StepStatus::Succeeded);
        format!("  {} {status}{took}{attempt}{why}", step.name)
    }

    fn paint(&self, word: &str, good: bool) -> String {
        let bad = matches!(word, "failed" | "lost" | "stopped");
        match (self.colour, good, bad) {
            (true, true, _) => format!("\x1b[32m{word}\x1b[0m"),
            (true, _, true) => format!("\x1b[31m{word}\x1b[0m"),
            _ => word.to_owned(),
        }
    }

    /// Everything printed since the last look.
    fn output(&mut self, run: RunId, logs: &LogDir) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        for file in logs.list(run)? {
            let from = self.read.entry((file.step_no, file.attempt)).or_default();
            loop {
                let chunk = logs.follow(run, file.step_no, file.attempt, *from)?;
                if chunk.bytes.is_empty() {
                    break;
                }
                out.write_all(&chunk.bytes)?;
                *from = chunk.next();
            }
        }
        out.flush()?;
        Ok(())
    }
}

fn exit_code(view: &RunView, dialect: FileDialect) -> ExitCode {
    match view.record.state.status {
        RunStatus::Succeeded => ExitCode::SUCCESS,
        // Dagu has two codes, and an unmet precondition of the file is no failure.
        RunStatus::Skipped if dialect != FileDialect::Cadran => ExitCode::SUCCESS,
        _ if dialect != FileDialect::Cadran => ExitCode::FAILURE,
        RunStatus::PartiallySucceeded => ExitCode::FAILURE,
        RunStatus::Stopped => ExitCode::from(130),
        _ => {
            let steps = view.record.state.steps.iter().flatten();
            let code = steps.filter(|step| step.status == StepStatus::Failed).find_map(|step| step.exit_code);
            let code = code.and_then(|code| u8::try_from(code).ok()).filter(|&code| code != 0);
            ExitCode::from(code.unwrap_or(1))
        }
    }
}

fn summary(view: &RunView) -> serde_json::Value {
    let state = &view.record.state;
    let steps: Vec<_> = state
        .steps
        .iter()
        .flatten()
        .map(|step| {
            json!({
                "name": *step.name, "status": step.status.word(), "attempt": step.attempt,
                "exit_code": step.exit_code, "message": step.message.as_deref(), "output": step.output.as_deref(),
                "started_at_ms": step.started_at, "ended_at_ms": step.ended_at,
            })
        })
        .collect();
    json!({
        "job": view.job_name.as_str(), "run": view.record.promise.run.to_string(), "status": state.status.word(),
        "message": state.message.as_deref(), "started_at_ms": state.started_at, "ended_at_ms": state.ended_at,
        "steps": steps,
    })
}
