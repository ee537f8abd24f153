use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use cadran_core::{Outcome, Start, Step};
use nix::errno::Errno;
use tokio::net::unix::pipe::Receiver;
use tokio::process::Child;
use tokio::sync::{OnceCell, Semaphore, watch};
use tokio::time::timeout;

use crate::LocalOptions;
use crate::command::{self, Prepared};
use crate::dotenv;
use crate::environment::Environment;
use crate::family::{self, Leader};
use crate::log::Log;
use crate::logs::LogDir;
use crate::precondition::{Place, Unmet};
use crate::process::Process;
use crate::procfs::Born;
use crate::sweep::{Lookout, MARK};
use crate::taps::{SideFile, Taps};

/// What is asked of a live attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Halt {
    No,
    /// The step's signal, then KILL after the grace.
    Stop,
    /// KILL now.
    Kill,
}

/// Whether the preconditions of the job hold, judged once per run.
pub(crate) type Gate = Arc<OnceCell<Result<(), Unmet>>>;

/// What an attempt needs.
pub(crate) struct Attempt<'a> {
    pub(crate) options: &'a LocalOptions,
    pub(crate) lookout: &'a Lookout,
    pub(crate) start: &'a Start,
    pub(crate) mark: &'a str,
    /// `None` when the run has passed it in an earlier life of the server.
    pub(crate) gate: Option<Gate>,
    pub(crate) halt: watch::Receiver<Halt>,
    /// Whoever starts a process holds one of these: in a burst ends are looked at between two starts, and not behind all
    /// of them.
    pub(crate) starting: &'a Semaphore,
}

/// How it went.
pub(crate) struct Verdict {
    pub(crate) outcome: Outcome,
    pub(crate) output: Option<Box<str>>,
    pub(crate) born: Option<Born>,
}

impl Verdict {
    fn unstarted(outcome: Outcome) -> Verdict {
        Verdict { outcome, output: None, born: None }
    }
}

/// Tries to start a process while the machine lacks what it needs for one more.
const SPAWN_TRIES_MAX: u32 = 50;

/// Between two of those tries.
const SPAWN_PAUSE: Duration = Duration::from_millis(100);

impl Attempt<'_> {
    /// Runs it from its preconditions to the end of its last process. `started` is called once the process is up.
    pub(crate) async fn run(mut self, started: impl FnOnce(&Born)) -> Verdict {
        let body = Arc::clone(&self.start.context.body);
        let Some(step) = body.step(self.start.step) else {
            let why = format!("the job has no step {}", self.start.step.0);
            return Verdict::unstarted(Outcome::NotStarted(why.into()));
        };
        let path = self.log_path(step);
        let mut log = Log::new(path, self.options.log_bytes_max);
        let outcome = match self.launch(step, &mut log).await {
            Ok(process) => {
                started(process.born());
                return process.watch(step, self).await;
            }
            Err(outcome) => outcome,
        };
        match &outcome {
            Outcome::NotStarted(why) => log.note(&format!("not started: {why}")),
            Outcome::PreconditionUnmet(why) | Outcome::JobPreconditionUnmet(why) => {
                log.note(&format!("skipped: {why}"));
            }
            _ => {}
        }
        log.finish();
        Verdict::unstarted(outcome)
    }

    fn log_path(&self, step: &Step) -> std::path::PathBuf {
        LogDir::new(&self.options.logs).path(self.start.run, self.start.step, &step.name, self.start.attempt)
    }

    async fn launch<'l>(&mut self, step: &Step, log: &'l mut Log) -> Result<Process<'l>, Outcome> {
        let (start, options) = (self.start, self.options);
        let body = &*start.context.body;
        let not_started = |why: String| Outcome::NotStarted(why.into());
        let is_judged = !body.preconditions.is_empty() || !step.preconditions.is_empty();
        // Never closed.
        let mut turn = if is_judged { None } else { self.starting.acquire().await.ok() };
        let env = self.environment(step).map_err(not_started)?;
        if let Some(gate) = self.gate.take()
            && !body.preconditions.is_empty()
        {
            self.pass_gate(&gate).await?;
        }
        let dir = command::dir_of_step(body, step, &env, &options.base_dir).map_err(not_started)?;
        if !step.preconditions.is_empty() {
            let place = self.place(step, &env, &dir);
            let judged = place.judge_all(&step.preconditions, &mut self.halt.clone()).await;
            judged.map_err(|unmet| match unmet {
                Unmet::No(why) => Outcome::PreconditionUnmet(why.into()),
                Unmet::Broken(why) => not_started(format!("a precondition cannot be judged: {why}")),
                Unmet::Stopped => Outcome::Stopped,
            })?;
        }
        let Prepared { command, script, container } =
            command::of_step(start, step, &env, &dir, options, self.mark).map_err(not_started)?;
        let side = |key: &str, path: &Option<String>| match path {
            None => Ok(None),
            Some(path) => {
                let path = env.path(key, path, &dir).map_err(not_started)?;
                // The run's own directory is made with its first log, which may be this file.
                if let Some(own) =
                    env.get("CADRAN_LOG_DIR").filter(|own| path.parent() == Some(Path::new(own)))
                {
                    cadran_files::create_dir(Path::new(own))
                        .map_err(|error| not_started(format!("{own}: {error}")))?;
                }
                SideFile::open(&path, options.log_bytes_max).map(Some).map_err(not_started)
            }
        };
        let (side_out, side_err) = (side("stdout", &step.stdout)?, side("stderr", &step.stderr)?);
        let is_split = step.output.is_some() || side_out.is_some() || side_err.is_some();
        if turn.is_none() {
            turn = self.starting.acquire().await.ok();
        }
        let (child, leader, out, err) = self.spawn(command, is_split).await?;
        drop(turn);
        let capture_bytes_max = step.output.as_ref().map(|_| options.output_bytes_max);
        let taps = Taps::new(log, capture_bytes_max, side_out, side_err);
        Ok(Process::new(child, leader, (out, err), taps, script, container))
    }

    fn environment(&self, step: &Step) -> Result<Environment, String> {
        let mut base = self.options.base_env.clone();
        if let Some(dotenv) = &self.start.context.body.dotenv {
            base.extend(dotenv::read(dotenv, &self.options.base_dir)?);
        }
        let mut env = Environment::of(self.start, step, &base)?;
        let log = self.log_path(step);
        let log_dir = log.parent().unwrap_or(&self.options.logs).to_string_lossy().into_owned();
        let log = log.to_string_lossy().into_owned();
        // Both streams are in one log.
        for name in ["DAG_RUN_LOG_FILE", "DAG_RUN_STEP_STDOUT_FILE", "DAG_RUN_STEP_STDERR_FILE"] {
            env.put(name, log.clone());
        }
        env.put("CADRAN_LOG", log);
        env.put("CADRAN_LOG_DIR", log_dir);
        env.put(MARK, self.mark.into());
        Ok(env)
    }

    fn place<'a>(&'a self, step: &'a Step, env: &'a Environment, dir: &'a Path) -> Place<'a> {
        let timeout = self.options.precondition_timeout;
        Place {
            body: &self.start.context.body,
            step,
            env,
            dir,
            mark: self.mark,
            timeout,
            lookout: self.lookout,
        }
    }

    /// The first attempt of a run judges, the others of that moment wait for its answer.
    async fn pass_gate(&self, gate: &Gate) -> Result<(), Outcome> {
        let body = &*self.start.context.body;
        let judge = async || -> Result<Result<(), Unmet>, Unmet> {
            let step = Step { name: "precondition".into(), ..Step::default() };
            let env = self.environment(&step).map_err(Unmet::Broken)?;
            let dir =
                command::dir_of_step(body, &step, &env, &self.options.base_dir).map_err(Unmet::Broken)?;
            let judged =
                self.place(&step, &env, &dir).judge_all(&body.preconditions, &mut self.halt.clone()).await;
            // A stop of this attempt says nothing about the others.
            if judged == Err(Unmet::Stopped) { Err(Unmet::Stopped) } else { Ok(judged) }
        };
        let judged = match gate.get_or_try_init(judge).await {
            Ok(judged) => judged.clone(),
            Err(unmet) => Err(unmet),
        };
        judged.map_err(|unmet| match unmet {
            Unmet::No(why) => Outcome::JobPreconditionUnmet(why.into()),
            Unmet::Broken(why) => {
                Outcome::NotStarted(format!("a precondition of the job cannot be judged: {why}").into())
            }
            Unmet::Stopped => Outcome::Stopped,
        })
    }

    /// Tries again for a while when the machine is short of something.
    async fn spawn(&mut self, command: std::process::Command, is_split: bool) -> Result<Spawned, Outcome> {
        // Dropped at the end of this function, and with it our copies of the pipes' writing ends.
        let mut command = tokio::process::Command::from(command);
        let mut tries = 0;
        while *self.halt.borrow() == Halt::No {
            let error = match spawn_once(&mut command, is_split) {
                Ok(spawned) => return Ok(spawned),
                Err(error) => error,
            };
            tries += 1;
            if !is_shortage(&error) || tries == SPAWN_TRIES_MAX {
                return Err(Outcome::NotStarted(command::spawn_failure(command.as_std(), &error).into()));
            }
            let _ = timeout(SPAWN_PAUSE, halted(&mut self.halt, Halt::No)).await;
        }
        Err(Outcome::Stopped)
    }
}

type Spawned = (Child, Leader, Receiver, Option<Receiver>);

/// One pipe for both streams keeps their order; two only where they have to be told apart.
fn spawn_once(command: &mut tokio::process::Command, is_split: bool) -> io::Result<Spawned> {
    let (out, out_end) = std::io::pipe()?;
    let out = Receiver::from_owned_fd(out.into())?;
    let (err, err_end) = if is_split {
        let (err, err_end) = std::io::pipe()?;
        (Some(Receiver::from_owned_fd(err.into())?), err_end)
    } else {
        (None, out_end.try_clone()?)
    };
    command.stdin(Stdio::null()).stdout(out_end).stderr(err_end);
    let (child, leader) = family::spawn(command)?;
    Ok((child, leader, out, err))
}

/// Out of processes, memory or handles: others end, and then there is room again.
fn is_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::EAGAIN, Errno::ENOMEM, Errno::EMFILE, Errno::ENFILE];
    error.raw_os_error().is_some_and(|code| shortages.contains(&Errno::from_raw(code)))
}

/// Resolves when more is asked than before. An executor that is gone asks for all.
pub(crate) async fn halted(halt: &mut watch::Receiver<Halt>, asked: Halt) -> Halt {
    let changed = halt.wait_for(|halt| *halt > asked).await;
    changed.map_or(Halt::Kill, |halt| *halt)
}
