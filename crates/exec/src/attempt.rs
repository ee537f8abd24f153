use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use cadran_core::{Outcome, Start, Step};
use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use tokio::net::unix::pipe::Receiver;
use tokio::process::Child;
use tokio::sync::{OnceCell, watch};
use tokio::time::{Instant, sleep, sleep_until};

use crate::LocalOptions;
use crate::command;
use crate::environment::Environment;
use crate::family::{self, Leader};
use crate::log::Log;
use crate::logs::LogDir;
use crate::precondition::{Place, Unmet};
use crate::procfs::{self, Born};
use crate::sweep::{MARK, family_of, kill_family};

/// Exit code of an attempt that ended with 0 but printed more than the bound for captured output: later steps would
/// work with half a value. The log says so in words. Any other code of the process itself is kept.
pub const EXIT_OUTPUT_TOO_LARGE: i32 = 122;

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
    pub(crate) start: &'a Start,
    pub(crate) mark: &'a str,
    /// `None` when the run has passed it in an earlier life of the server.
    pub(crate) gate: Option<Gate>,
    pub(crate) halt: watch::Receiver<Halt>,
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

/// Between two looks whether a stopped tree has ended by itself.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

impl Attempt<'_> {
    /// Runs it from its preconditions to the end of its last process. `started` is called once the process is up.
    pub(crate) async fn run(mut self, started: impl FnOnce(&Born)) -> Verdict {
        let body = Arc::clone(&self.start.context.body);
        let Some(step) = body.step(self.start.step) else {
            let why = format!("the job has no step {}", self.start.step.0);
            return Verdict::unstarted(Outcome::NotStarted(why.into()));
        };
        let logs = LogDir::new(&self.options.logs);
        let path = logs.path(self.start.run, self.start.step, &step.name, self.start.attempt);
        let log = Log::new(path, self.options.log_bytes_max);
        match self.prepare(step, log).await {
            Ok((process, step_timeout)) => {
                started(&process.leader.born);
                let signal =
                    step.signal_on_stop.and_then(|no| Signal::try_from(no).ok()).unwrap_or(Signal::SIGTERM);
                process.watch(step_timeout, signal, self).await
            }
            Err((outcome, mut log)) => {
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
        }
    }

    async fn prepare(
        &mut self,
        step: &Step,
        log: Log,
    ) -> Result<(Process, Option<Duration>), (Outcome, Log)> {
        let mut log = Some(log);
        match self.launch(step, &mut log).await {
            Ok(process) => {
                let timeout = step.timeout_ms.map(|ms| Duration::from_millis(ms.max(0).unsigned_abs()));
                Ok((process, timeout))
            }
            Err(outcome) => {
                let spare = || Log::new(Path::new("/dev/null").into(), 0);
                Err((outcome, log.unwrap_or_else(spare)))
            }
        }
    }

    async fn launch(&mut self, step: &Step, log: &mut Option<Log>) -> Result<Process, Outcome> {
        let (start, options) = (self.start, self.options);
        let body = &*start.context.body;
        let not_started = |why: String| Outcome::NotStarted(why.into());
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
        let script_path = || options.scripts().join(self.mark.replace('/', "-"));
        let (command, script) = command::of_step(body, step, &env, &dir, script_path).map_err(not_started)?;
        let side = |path: &Option<String>| match path {
            None => Ok(None),
            Some(path) => SideFile::open(&env.path(path, &dir)).map(Some).map_err(not_started),
        };
        let (side_out, side_err) = (side(&step.stdout)?, side(&step.stderr)?);
        let is_split = step.output.is_some() || side_out.is_some() || side_err.is_some();
        let (child, leader, out, err) = self.spawn(command, is_split).await?;
        Ok(Process {
            child,
            leader,
            out: Some(out),
            err,
            taps: Taps {
                log: log.take().unwrap_or_else(|| Log::new(Path::new("/dev/null").into(), 0)),
                capture: step.output.as_ref().map(|_| Capture::default()),
                capture_bytes_max: options.output_bytes_max,
                side_out,
                side_err,
            },
            _script: script,
        })
    }

    fn environment(&self, step: &Step) -> Result<Environment, String> {
        let (start, options) = (self.start, self.options);
        let mut env = Environment::of(start, step, &options.base_env)?;
        let log = LogDir::new(&options.logs).path(start.run, start.step, &step.name, start.attempt);
        env.put("CADRAN_LOG", log.to_string_lossy().into_owned());
        env.put(MARK, self.mark.into());
        Ok(env)
    }

    fn place<'a>(&'a self, step: &'a Step, env: &'a Environment, dir: &'a Path) -> Place<'a> {
        let timeout = self.options.precondition_timeout;
        Place { body: &self.start.context.body, step, env, dir, mark: self.mark, timeout }
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

    /// One pipe for both streams keeps their order; two only where they have to be told apart.
    async fn spawn(
        &mut self,
        mut command: std::process::Command,
        is_split: bool,
    ) -> Result<(Child, Leader, Receiver, Option<Receiver>), Outcome> {
        let mut tries = 0;
        loop {
            let error = match spawn_once(command, is_split) {
                Ok(spawned) => return Ok(spawned),
                Err((error, same)) => {
                    command = same;
                    error
                }
            };
            // Out of processes, memory or handles: others end, and then there is room again.
            let is_shortage = error.kind() == io::ErrorKind::WouldBlock
                || matches!(error.raw_os_error(), Some(code) if code == nix::errno::Errno::EMFILE as i32
                    || code == nix::errno::Errno::ENFILE as i32 || code == nix::errno::Errno::ENOMEM as i32);
            tries += 1;
            if !is_shortage || tries == SPAWN_TRIES_MAX {
                return Err(Outcome::NotStarted(command::spawn_failure(&command, &error).into()));
            }
            tokio::select! {
                () = sleep(SPAWN_PAUSE) => {}
                _ = self.halt.wait_for(|halt| *halt != Halt::No) => return Err(Outcome::Stopped),
            }
        }
    }
}

type Spawned = (Child, Leader, Receiver, Option<Receiver>);

fn spawn_once(
    mut command: std::process::Command,
    is_split: bool,
) -> Result<Spawned, (io::Error, std::process::Command)> {
    let pipes = || -> io::Result<(Receiver, OwnedFd, Option<Receiver>, OwnedFd)> {
        let (out, out_end) = std::io::pipe()?;
        let out = Receiver::from_owned_fd(out.into())?;
        if is_split {
            let (err, err_end) = std::io::pipe()?;
            Ok((out, out_end.into(), Some(Receiver::from_owned_fd(err.into())?), err_end.into()))
        } else {
            let err_end = out_end.try_clone()?;
            Ok((out, out_end.into(), None, err_end.into()))
        }
    };
    let (out, out_end, err, err_end) = match pipes() {
        Ok(pipes) => pipes,
        Err(error) => return Err((error, command)),
    };
    command.stdin(Stdio::null()).stdout(out_end).stderr(err_end);
    let mut command = tokio::process::Command::from(command);
    match family::spawn(&mut command) {
        // The command goes here, and with it our copies of the writing ends.
        Ok((child, leader)) => Ok((child, leader, out, err)),
        Err(error) => Err((error, command.into_std())),
    }
}

/// Why we ask a process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Stop,
    TimeLimit,
}

/// A process that is up.
struct Process {
    child: Child,
    leader: Leader,
    out: Option<Receiver>,
    err: Option<Receiver>,
    taps: Taps,
    _script: Option<command::Script>,
}

impl Process {
    /// Until its process has ended, its output is drained and nothing of it is alive that is easily seen.
    ///
    /// `deadline` is the next moment at which something must happen by itself: the time limit while it runs, the end
    /// of the grace while it is asked to end, the end of the linger once its own process has ended.
    async fn watch(mut self, timeout: Option<Duration>, signal: Signal, attempt: Attempt<'_>) -> Verdict {
        let Attempt { options, mark, mut halt, .. } = attempt;
        let mut reason: Option<Reason> = None;
        let mut status: Option<ExitStatus> = None;
        let mut deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut asked = Halt::No;
        let mut killed = false;
        loop {
            if status.is_some() && self.out.is_none() && self.err.is_none() {
                break;
            }
            tokio::select! {
                is_open = readable(&self.out), if self.out.is_some() => {
                    if !is_open || !self.taps.take(Stream::Out, &self.out) {
                        self.out = None;
                    }
                }
                is_open = readable(&self.err), if self.err.is_some() => {
                    if !is_open || !self.taps.take(Stream::Err, &self.err) {
                        self.err = None;
                    }
                }
                ended = self.child.wait(), if status.is_none() => {
                    // Only fails when somebody else took the child's status; it is gone all the same.
                    status = Some(ended.unwrap_or_else(|_| ExitStatus::from_raw(killed_status())));
                    if reason.is_none() {
                        deadline = Some(Instant::now() + options.linger);
                    }
                }
                () = wait_until(deadline), if deadline.is_some() => {
                    match (reason, status) {
                        (None, None) => {
                            reason = Some(Reason::TimeLimit);
                            self.taps.log.note("the time limit is over; stopping");
                            self.ask(Signal::SIGTERM, mark).await;
                            deadline = Some(Instant::now() + options.grace);
                        }
                        // Something in the background keeps the output open, and had its moment.
                        (None, Some(_)) => break,
                        (Some(_), _) if !killed => {
                            killed = true;
                            self.kill(mark).await;
                            deadline = Some(Instant::now() + options.linger);
                        }
                        // A process that survives KILL hangs in the kernel; it must not hold us too.
                        (Some(_), _) => break,
                    }
                }
                more = halted(&mut halt, asked) => {
                    asked = more;
                    if reason.is_none() && status.is_none() {
                        reason = Some(Reason::Stop);
                        self.taps.log.note("stopped on request");
                    }
                    if asked == Halt::Stop && reason == Some(Reason::Stop) {
                        self.ask(signal, mark).await;
                        deadline = Some(Instant::now() + options.grace);
                    } else {
                        deadline = Some(Instant::now());
                    }
                }
            }
        }
        if reason.is_some() {
            self.outlive(deadline.unwrap_or_else(Instant::now), mark).await;
        } else if !self.is_drained() {
            self.kill(mark).await;
        } else {
            // What is left of the group in the background, silent, goes with its leader.
            self.leader.signal_group(Signal::SIGKILL);
        }
        self.finish(reason, status)
    }

    fn is_drained(&self) -> bool {
        self.out.is_none() && self.err.is_none()
    }

    /// Signals the group, and what left the group.
    async fn ask(&self, signal: Signal, mark: &str) {
        self.leader.signal_group(signal);
        let (born, mark) = (self.leader.born.clone(), mark.to_owned());
        let group = born.pid;
        let _ = tokio::task::spawn_blocking(move || {
            let family = family_of(&born, &mark);
            family.iter().filter(|process| process.group != group).for_each(|p| procfs::signal(p, signal));
        })
        .await;
    }

    async fn kill(&self, mark: &str) {
        self.leader.signal_group(Signal::SIGKILL);
        let (born, mark) = (self.leader.born.clone(), mark.to_owned());
        let _ = tokio::task::spawn_blocking(move || kill_family(&born, &mark)).await;
    }

    /// The leader has ended as it was asked to; others of the tree may still use their grace.
    async fn outlive(&self, deadline: Instant, mark: &str) {
        while Instant::now() < deadline {
            let (born, mark) = (self.leader.born.clone(), mark.to_owned());
            let family = tokio::task::spawn_blocking(move || family_of(&born, &mark)).await;
            if family.is_ok_and(|family| family.is_empty()) {
                return;
            }
            sleep(LOOK_PAUSE).await;
        }
        self.kill(mark).await;
    }

    fn finish(mut self, reason: Option<Reason>, status: Option<ExitStatus>) -> Verdict {
        // What the pipe still holds; whoever may still write to it is not waited for.
        for (stream, pipe) in [(Stream::Out, self.out.take()), (Stream::Err, self.err.take())] {
            let chunks_max = 2 * PIPE_BYTES / CHUNK_BYTES;
            let _ = pipe.is_some() && (0..chunks_max).all(|_| self.taps.take_now(stream, &pipe));
        }
        let mut outcome = match (reason, status) {
            (Some(Reason::Stop), _) => Outcome::Stopped,
            (Some(Reason::TimeLimit), _) => Outcome::TimedOut,
            (None, None) => Outcome::Lost,
            (None, Some(status)) => match (status.code(), status.signal()) {
                (Some(code), _) => Outcome::Exited(code),
                (None, signal) => Outcome::Signaled(signal.unwrap_or_default()),
            },
        };
        let output = match self.taps.capture.take() {
            Some(capture) if capture.is_over => {
                let limit = self.taps.capture_bytes_max;
                self.taps
                    .log
                    .note(&format!("the output is larger than {limit} bytes and cannot be passed on"));
                if outcome == Outcome::Exited(0) {
                    outcome = Outcome::Exited(EXIT_OUTPUT_TOO_LARGE);
                }
                None
            }
            Some(capture) => {
                // A NUL byte could not be passed on in an environment.
                let text = String::from_utf8_lossy(&capture.bytes).replace('\0', "\u{fffd}");
                Some(text.trim().into())
            }
            None => None,
        };
        self.taps.log.finish();
        Verdict { outcome, output, born: Some(self.leader.born.clone()) }
    }
}

/// The status of a process ended by KILL, for one whose own status was lost.
const fn killed_status() -> i32 {
    Signal::SIGKILL as i32
}

/// Resolves when more is asked than before. An executor that is gone asks for all.
async fn halted(halt: &mut watch::Receiver<Halt>, asked: Halt) -> Halt {
    let changed = halt.wait_for(|halt| *halt > asked).await;
    changed.map_or(Halt::Kill, |halt| *halt)
}

async fn wait_until(deadline: Option<Instant>) {
    if let Some(deadline) = deadline {
        sleep_until(deadline).await;
    }
}

/// False when the pipe can no longer be watched.
async fn readable(pipe: &Option<Receiver>) -> bool {
    match pipe {
        Some(pipe) => pipe.readable().await.is_ok(),
        None => false,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Out,
    Err,
}

/// What the kernel keeps in a pipe.
const PIPE_BYTES: usize = 64 << 10;

/// Read at once. One buffer per thread serves all attempts: an attempt without output has no buffer at all.
const CHUNK_BYTES: usize = 64 << 10;

thread_local! {
    static CHUNK: std::cell::RefCell<Box<[u8]>> = std::cell::RefCell::new(vec![0; CHUNK_BYTES].into());
}

/// Where output goes.
struct Taps {
    log: Log,
    capture: Option<Capture>,
    capture_bytes_max: usize,
    side_out: Option<SideFile>,
    side_err: Option<SideFile>,
}

#[derive(Default)]
struct Capture {
    bytes: Vec<u8>,
    is_over: bool,
}

impl Taps {
    /// Takes one chunk; false at the end of the stream.
    fn take(&mut self, stream: Stream, pipe: &Option<Receiver>) -> bool {
        self.read(stream, pipe).is_none_or(|len| len > 0)
    }

    /// Takes one chunk; false when there is none right now.
    fn take_now(&mut self, stream: Stream, pipe: &Option<Receiver>) -> bool {
        self.read(stream, pipe).is_some_and(|len| len > 0)
    }

    /// How many bytes there were: 0 at the end of the stream, `None` when nothing is there yet.
    fn read(&mut self, stream: Stream, pipe: &Option<Receiver>) -> Option<usize> {
        let pipe = pipe.as_ref()?;
        CHUNK.with_borrow_mut(|chunk| match pipe.try_read(chunk) {
            Ok(len) => {
                self.put(stream, &chunk[..len]);
                Some(len)
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                None
            }
            Err(_) => Some(0),
        })
    }

    fn put(&mut self, stream: Stream, bytes: &[u8]) {
        self.log.append(bytes);
        if stream == Stream::Out
            && let Some(capture) = &mut self.capture
        {
            if capture.bytes.len() + bytes.len() > self.capture_bytes_max {
                (capture.is_over, capture.bytes) = (true, Vec::new());
            }
            if !capture.is_over {
                capture.bytes.extend_from_slice(bytes);
            }
        }
        let side = if stream == Stream::Out { &mut self.side_out } else { &mut self.side_err };
        if let Some(side) = side
            && let Some(why) = side.append(bytes)
        {
            self.log.note(&why);
        }
    }
}

/// A file of the user's that receives a stream besides the log.
struct SideFile {
    file: Option<File>,
    name: String,
}

impl SideFile {
    /// Appends to the file. Never waits: a named pipe that nobody reads is refused instead of holding us.
    fn open(path: &Path) -> Result<SideFile, String> {
        let flags = OFlag::O_NONBLOCK.bits();
        let file = OpenOptions::new().append(true).create(true).custom_flags(flags).open(path);
        let name = path.display().to_string();
        match file {
            Ok(file) => Ok(SideFile { file: Some(file), name }),
            Err(error) => Err(format!("the output file {name} cannot be opened: {error}")),
        }
    }

    /// After the first failure the file is left alone; the log has everything.
    fn append(&mut self, bytes: &[u8]) -> Option<String> {
        let error = self.file.as_mut()?.write_all(bytes).err()?;
        self.file = None;
        Some(format!("the output file {} takes no more: {error}", self.name))
    }
}
