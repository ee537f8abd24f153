//! Finding the executor by its socket, or starting one.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use cadran_core::Found;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, sleep, timeout};

use super::socket;
use super::wire::{
    Answer, Caller, Hello, NoMessage, PROGRAM, PROTOCOL, Request, Settings, Stop, Welcome, receive, send,
};
use crate::ExecError;

/// How long an executor may take to answer a greeting. It does within a millisecond, unless it is held up.
const GREET_TIME_MAX: Duration = Duration::from_secs(10);

/// How long an executor may take to tell what it knows, or to end what the one before it left.
const START_TIME_MAX: Duration = Duration::from_secs(60);

/// Between two looks for an executor that is just starting or ending.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Read at once.
const READ_BYTES: usize = 256 << 10;

/// Variables for the server alone: what watches over it is not to be answered by the executor.
const OF_THE_SERVER: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// Where an executor is and how one is started.
#[derive(Clone, Debug)]
pub(super) struct Launcher {
    /// The directory of its journal and socket.
    pub(super) dir: PathBuf,
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
}

/// A connection on which the executor has answered.
pub(super) struct Connection {
    pub(super) reader: BufReader<OwnedReadHalf>,
    pub(super) writer: OwnedWriteHalf,
    pub(super) welcome: Welcome,
    pub(super) found: Vec<Found>,
}

/// Why a greeting came to nothing.
enum NotGreeted {
    /// The executor was just ending.
    Gone,
    Refused(ExecError),
}

fn refused(why: String) -> ExecError {
    ExecError::Executor(why)
}

impl Launcher {
    /// Connects to the executor, and starts one when there is none.
    pub(super) async fn attach(&self, settings: &Settings) -> Result<Connection, ExecError> {
        let until = Instant::now() + START_TIME_MAX;
        loop {
            let connected = socket::connect(&self.dir).await;
            let stream = connected.map_err(ExecError::file("connect to", &self.dir.join(socket::NAME)))?;
            match stream {
                Some(stream) => match greet(stream, Caller::Server, Some(settings.clone())).await {
                    Ok(connection) => return Ok(connection),
                    Err(NotGreeted::Refused(error)) => return Err(error),
                    Err(NotGreeted::Gone) => {}
                },
                None if self.start().await? => continue,
                // Another one is just starting or ending.
                None => {}
            }
            if Instant::now() > until {
                return Err(refused(format!(
                    "the lock beside {} is held by a process that does not answer; end it (`fuser {}` names it), then \
                     start the server again",
                    self.dir.join("journal").display(),
                    self.dir.join("journal.lock").display()
                )));
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Starts an executor and waits until it listens; false when another one has the journal. The runtime reaps it when
    /// it ends before the server.
    async fn start(&self) -> Result<bool, ExecError> {
        let mut command = std::process::Command::new(&self.program);
        // Without secrets of the server: what a step may see is told to the executor.
        let ours = |name: &OsString| {
            name.to_str().is_some_and(|name| name.starts_with("CADRAN_") && name != "CADRAN_LOG")
        };
        std::env::vars_os().map(|(name, _)| name).filter(ours).for_each(|name| {
            command.env_remove(name);
        });
        OF_THE_SERVER.iter().for_each(|name| {
            command.env_remove(name);
        });
        command.arg0("cadran").args(&self.args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let cannot = |why: String| refused(format!("it cannot be started: {why}"));
        let mut child =
            tokio::process::Command::from(command).spawn().map_err(|error| cannot(error.to_string()))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            let read = timeout(START_TIME_MAX, BufReader::new(stdout).read_line(&mut line)).await;
            if read.is_err() {
                let _ = child.start_kill();
                return Err(cannot(format!("it was not ready within {} s", START_TIME_MAX.as_secs())));
            }
        }
        match line.trim_end() {
            READY => Ok(true),
            IN_USE => Ok(false),
            "" => {
                let status = timeout(GREET_TIME_MAX, child.wait()).await;
                let status = status.ok().and_then(Result::ok).map(|status| status.to_string());
                Err(cannot(format!("it ended at once, {}", status.as_deref().unwrap_or("nobody knows how"))))
            }
            error => Err(cannot(error.to_owned())),
        }
    }
}

/// What an executor that was started says on its standard output: that it listens, or that another one does. Anything
/// else is why it cannot.
pub(super) const READY: &str = "ready";
pub(super) const IN_USE: &str = "in use";

async fn greet(
    stream: UnixStream,
    caller: Caller,
    settings: Option<Settings>,
) -> Result<Connection, NotGreeted> {
    let pid = socket::own_peer(&stream).map_err(|why| {
        NotGreeted::Refused(refused(format!("whoever listens at its socket is not ours: {why}")))
    })?;
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::with_capacity(READ_BYTES, reader);
    let hello = Hello {
        program: PROGRAM.into(),
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").into(),
        caller,
        settings,
    };
    send(&mut writer, &Request::Hello(hello)).await.map_err(|_| NotGreeted::Gone)?;
    let answered = timeout(GREET_TIME_MAX, first_answer(&mut reader)).await;
    let welcome = match answered {
        Err(_) => {
            return Err(NotGreeted::Refused(refused(format!(
                "the process {pid} listens at its socket and does not answer within {} s; it may be stopped (`kill -CONT \
                 {pid}`) or hang",
                GREET_TIME_MAX.as_secs()
            ))));
        }
        Ok(Err(NoMessage::Closed)) => return Err(NotGreeted::Gone),
        Ok(Ok(Answer::Refused { error })) => {
            return Err(NotGreeted::Refused(refused(format!("the process {pid} says: {error}"))));
        }
        Ok(Ok(Answer::Welcome(welcome))) if welcome.program == PROGRAM && welcome.protocol == PROTOCOL => {
            welcome
        }
        Ok(Ok(_)) | Ok(Err(NoMessage::Nonsense(_))) => {
            return Err(NotGreeted::Refused(refused(format!(
                "the process {pid} listens at its socket and does not answer as an executor of this version does; end that \
                 process, and start the server again"
            ))));
        }
    };
    let mut found = Vec::new();
    if caller == Caller::Server {
        let telling = tell(&mut reader, &mut found);
        let told = timeout(START_TIME_MAX, telling).await;
        match told {
            Ok(Ok(())) => {}
            Ok(Err(NoMessage::Closed)) => return Err(NotGreeted::Gone),
            Ok(Err(NoMessage::Nonsense(why))) => {
                return Err(NotGreeted::Refused(refused(format!(
                    "the process {pid} does not tell what it knows in a form that reads: {why}"
                ))));
            }
            Err(_) => {
                return Err(NotGreeted::Refused(refused(format!(
                    "the process {pid} does not tell what it knows within {} s",
                    START_TIME_MAX.as_secs()
                ))));
            }
        }
    }
    Ok(Connection { reader, writer, welcome, found })
}

/// An executor that waits for the connection of another server to close says that it is well meanwhile.
async fn first_answer(reader: &mut BufReader<OwnedReadHalf>) -> Result<Answer, NoMessage> {
    loop {
        match receive(reader).await? {
            Answer::Beat { .. } => {}
            answer => return Ok(answer),
        }
    }
}

async fn tell(reader: &mut BufReader<OwnedReadHalf>, found: &mut Vec<Found>) -> Result<(), NoMessage> {
    loop {
        match receive(reader).await? {
            Answer::Found(more) => {
                for one in more {
                    let one = one.found();
                    found.push(one.ok_or_else(|| NoMessage::Nonsense("an attempt without a name".into()))?);
                }
            }
            Answer::Ready => return Ok(()),
            _ => return Err(NoMessage::Nonsense("another message than attempts".into())),
        }
    }
}

/// How an executor is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorStatus {
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// Attempts that are on.
    pub running: usize,
    /// Attempts that wait for their start.
    pub waiting: usize,
}

impl ExecutorStatus {
    fn of(welcome: &Welcome) -> ExecutorStatus {
        let Welcome { pid, version, running, waiting, .. } = welcome.clone();
        ExecutorStatus { pid, version, running, waiting }
    }
}

async fn call(data: &Path) -> Result<Option<Connection>, ExecError> {
    let dir = data.join("exec");
    let connected =
        socket::connect(&dir).await.map_err(ExecError::file("connect to", &dir.join(socket::NAME)))?;
    let Some(stream) = connected else { return Ok(None) };
    match greet(stream, Caller::Control, None).await {
        Ok(connection) => Ok(Some(connection)),
        Err(NotGreeted::Gone) => Ok(None),
        Err(NotGreeted::Refused(error)) => Err(error),
    }
}

/// How the executor of a data directory is; `None` when there is none.
pub async fn status(data: &Path) -> Result<Option<ExecutorStatus>, ExecError> {
    Ok(call(data).await?.map(|connection| ExecutorStatus::of(&connection.welcome)))
}

/// Ends the executor of a data directory with everything it runs, which has failed then for this reason. Processes get
/// their signal, and KILL after `patience`. Gives how it was before; `None` when there is none.
pub async fn stop(data: &Path, patience: Duration, why: &str) -> Result<Option<ExecutorStatus>, ExecError> {
    let Some(mut connection) = call(data).await? else { return Ok(None) };
    let stop = Stop { patience_ms: patience.as_millis() as u64, for_good: Some(why.into()) };
    let status = ExecutorStatus::of(&connection.welcome);
    // One that is gone by now has ended what it ran.
    if send(&mut connection.writer, &Request::Stop(stop)).await.is_ok() {
        let ended = async { while let Ok(Answer::Beat { .. }) = receive(&mut connection.reader).await {} };
        if timeout(patience + GREET_TIME_MAX, ended).await.is_err() {
            return Err(refused(format!("the process {} does not end", status.pid)));
        }
    }
    Ok(Some(status))
}
