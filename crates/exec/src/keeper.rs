use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use tokio::time::Instant;

use crate::ExecError;
use crate::cgroup;
use crate::family::{self, Leader};
use crate::procfs::Born;
use crate::sweep::kill_left;

/// The body of the keeper: a process beside the server that outlives it by a moment. It hears over `stdin` which
/// process groups begin and end. When the pipe closes without a goodbye, the server was killed: the keeper kills what
/// it has left, and ends. A server that works on a lease says how long it may; when it says no more in time, what it has
/// is killed as well, and the keeper goes on.
///
/// The binary calls this for its hidden `keeper` command, with standard input.
pub fn keeper_main(stdin: impl Read + Send + 'static) {
    let mut life = String::new();
    let mut groups: BTreeMap<i32, Born> = BTreeMap::new();
    let mut cgroup: Option<PathBuf> = None;
    let (heard, lines) = mpsc::sync_channel(LINES_MAX);
    // Its own thread, so that a lease ends whether or not somebody speaks. It ends with its pipe, or with the process.
    let reading = thread::Builder::new().name("cadran-keeper".into()).spawn(move || {
        // Lines are short and made by `Keeper` below; a longer one is not ours and ends the reading.
        for line in BufReader::new(stdin).lines() {
            let Ok(line) = line else { break };
            if heard.send(line).is_err() {
                break;
            }
        }
    });
    if reading.is_err() {
        // Whoever started this one tries again.
        return;
    }
    let mut lease: Option<Instant> = None;
    loop {
        let left = lease.map(|end| end.saturating_duration_since(Instant::now()));
        let line = match left {
            None => lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(left) => lines.recv_timeout(left),
        };
        let line = match line {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                kill(&groups, &life);
                cgroup.as_deref().into_iter().for_each(cgroup::end_attempts);
                lease = None;
                continue;
            }
        };
        let mut words = line.split(' ');
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        if let Some(name) = line.strip_prefix("life ") {
            life = format!("{name}/");
        } else if let Some(root) = line.strip_prefix("cgroup ") {
            cgroup = Some(root.into());
        } else if let Some(time) = line.strip_prefix("lease ") {
            lease = time.parse().ok().map(|ms| Instant::now() + Duration::from_millis(ms));
        } else if line == "bye" {
            return;
        } else if let Some(rest) = line.strip_prefix("- ") {
            if let Ok(pid) = rest.parse() {
                groups.remove(&pid);
            }
        } else if let (Some(pid), Some(first), Some(last)) = (number(), number(), number())
            && let Ok(pid) = i32::try_from(pid)
        {
            groups.insert(pid, Born { pid, at: first..=last });
        }
    }
    kill(&groups, &life);
    cgroup.as_deref().into_iter().for_each(cgroup::clear_as_keeper);
}

fn kill(groups: &BTreeMap<i32, Born>, life: &str) {
    let groups: Vec<Born> = groups.values().cloned().collect();
    kill_left(&groups, |mark| !life.is_empty() && mark.starts_with(life));
}

/// Lines that may wait while the keeper is busy killing; the pipe holds the rest.
const LINES_MAX: usize = 1_000;

/// The server's end of the pipe to its keeper.
pub(crate) struct Keeper {
    command: Vec<OsString>,
    life: String,
    child: Child,
    leader_on_list: Leader,
    stdin: Option<ChildStdin>,
    groups: BTreeMap<i32, Born>,
    buffer: String,
    restarts: u32,
}

/// A keeper that was killed is started again, but one that cannot live is not started for ever.
const RESTARTS_MAX: u32 = 10;

/// What a keeper may leave unread before it counts as stuck and is replaced.
const BUFFER_BYTES_MAX: usize = 1 << 20;

impl Keeper {
    pub(crate) fn start(command: Vec<OsString>, life: &str) -> Result<Keeper, ExecError> {
        let (child, leader, stdin) = launch(&command).map_err(|source| ExecError::Keeper {
            command: command.first().map(|c| c.to_string_lossy().into_owned()).unwrap_or_default(),
            source,
        })?;
        let mut keeper = Keeper {
            command,
            life: life.into(),
            child,
            leader_on_list: leader,
            stdin: Some(stdin),
            groups: BTreeMap::new(),
            buffer: String::new(),
            restarts: 0,
        };
        keeper.greet();
        keeper.write();
        Ok(keeper)
    }

    pub(crate) fn began(&mut self, born: Born) {
        line_began(&mut self.buffer, &born);
        self.groups.insert(born.pid, born);
    }

    pub(crate) fn ended(&mut self, pid: i32) {
        let _ = writeln!(self.buffer, "- {pid}");
        self.groups.remove(&pid);
    }

    /// Everything is to be killed after this time unless it is told again.
    pub(crate) fn hold(&mut self, time: Duration) {
        let _ = writeln!(self.buffer, "lease {}", time.as_millis());
    }

    /// One write for everything since the last one; never waits.
    pub(crate) fn write(&mut self) {
        // A pipe alone does not tell: a process being started at this moment may hold a copy of its other end.
        if self.stdin.is_some() && !matches!(self.child.try_wait(), Ok(None)) {
            return self.restart(&io::ErrorKind::BrokenPipe.into());
        }
        let Some(stdin) = &mut self.stdin else {
            self.buffer.clear();
            return;
        };
        while !self.buffer.is_empty() {
            match stdin.write(self.buffer.as_bytes()) {
                Ok(written) => drop(self.buffer.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock && self.buffer.len() <= BUFFER_BYTES_MAX =>
                {
                    return;
                }
                Err(error) => return self.restart(&error),
            }
        }
    }

    /// Says goodbye and waits for its end, which follows at once.
    pub(crate) fn dismiss(mut self) {
        self.buffer.push_str("bye\n");
        self.write();
        if !self.buffer.is_empty() {
            let _ = self.child.kill();
        }
        drop(self.stdin.take());
        let _ = self.child.wait();
    }

    fn greet(&mut self) {
        let _ = writeln!(self.buffer, "life {}", self.life);
        // A path with a line break would be read as another order.
        if let Some(root) = cgroup::enclose_keeper(self.leader_on_list.born.pid)
            && let Some(root) = root.to_str().filter(|root| !root.contains('\n'))
        {
            let _ = writeln!(self.buffer, "cgroup {root}");
        }
        self.groups.values().for_each(|born| line_began(&mut self.buffer, born));
    }

    fn restart(&mut self, why: &io::Error) {
        tracing::warn!(%why, "the keeper is gone or stuck; starting it again");
        self.buffer.clear();
        // Killed before its pipe closes: an old keeper must not take the closing for our death.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.stdin = None;
        self.restarts += 1;
        if self.restarts > RESTARTS_MAX {
            tracing::error!(
                "the keeper ended too often; processes could outlive a killed server until its next start"
            );
            return;
        }
        match launch(&self.command) {
            Ok((child, leader, stdin)) => {
                (self.child, self.leader_on_list, self.stdin) = (child, leader, Some(stdin));
                self.greet();
                self.write();
            }
            Err(error) => tracing::error!(%error, "the keeper cannot be started"),
        }
    }
}

fn line_began(out: &mut String, born: &Born) {
    let _ = writeln!(out, "{} {} {}", born.pid, born.at.start(), born.at.end());
}

/// In a group of its own, so that Ctrl-C on a terminal reaches the server only.
fn launch(command: &[OsString]) -> io::Result<(Child, Leader, ChildStdin)> {
    let (program, args) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.env_clear().process_group(0);
    let (mut child, leader) = family::spawn_apart(&mut command)?;
    let stdin = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let flags = OFlag::from_bits_retain(fcntl(&stdin, FcntlArg::F_GETFL)?);
    fcntl(&stdin, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok((child, leader, stdin))
}
