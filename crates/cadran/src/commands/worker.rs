//! `cadran worker`: an executor of our own, which dials out.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use cadran_core::{GroupName, Outcome};
use cadran_exec::worker::wire::{GROUP_HEADER, PATH, Refusal, SLOTS_MAX};
use cadran_exec::worker::{Call, Link, LinkError, Worker, WorkerError, WorkerEvent, WorkerOptions};
use cadran_exec::{ExecError, LocalOptions};
use cadran_http::Token;
use futures::future::BoxFuture;
use reqwest::Url;
use serde_json::{Value, json};

use crate::client::address::{is_loopback, parse};
use crate::client::{Exit, Failure, escaped, talk};
use crate::defaults;
use crate::server::clock;
use crate::server::embedded::keeper_command;
use crate::server::signals::StopSignals;

/// Run steps for a server on this machine: commands of jobs that name this worker's group.
///
/// A worker dials out to the server's address for executors and listens nowhere. In a job file `executor: GROUP` sends a
/// step, or with it at the top the whole job, to one of the group's workers.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The token is the one the server was given for executors (CADRAN_EXECUTOR_TOKEN of `cadran serve`, or its file of \
executors). It is read from --token-file or from CADRAN_EXECUTOR_TOKEN, and never from the command line, where everybody \
could see it.\n\n\
When the server is away the worker goes on, keeps results on disk, and tells them when it is back. When it is away for \
too long, what runs here is ended before the server may start it anew elsewhere.\n\n\
SIGTERM or Ctrl-C: no new work is taken, what is on is brought to its end, results are delivered. A second one ends \
everything at once.

Examples:
  cadran worker --group build --token-file executors.token
  cadran worker --server https://cadran.example.com --group gpu --slots 2 --labels gpu=a100,zone=eu

Exit codes:
  0    it was told to go, and everything was delivered
  1    it could not work on, or was told to go at once
  2    the command line was wrong
  3    it was told to go while the server was away; results are kept for the next start
  5    the server refused it")]
pub struct Args {
    /// The server's address for executors, as `cadran serve` prints it.
    #[arg(long, env = "CADRAN_WORKER_SERVER", value_name = "URL", default_value_t = format!("http://{}", defaults::SERVE.executor_listen))]
    server: String,
    /// The group it is of: what job files name as `executor`.
    #[arg(long, env = "CADRAN_WORKER_GROUP", value_name = "NAME")]
    group: GroupName,
    /// Steps that run at once; more wait here [default: one for each processor].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(SLOTS_MAX)))]
    slots: Option<u32>,
    /// What jobs may ask for by `executor: {group: NAME, labels: {KEY: VALUE}}`.
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = label)]
    labels: Vec<(String, String)>,
    /// File with the token for executors [default: the variable CADRAN_EXECUTOR_TOKEN].
    #[arg(long, env = "CADRAN_EXECUTOR_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Where its id, journal and logs live; each worker has its own [default: beside the server's, by group].
    #[arg(long, env = "CADRAN_WORKER_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
    /// How long what is on may go on after SIGTERM, before it is stopped too.
    #[arg(long, value_name = "SECONDS", default_value_t = defaults::WORKER.drain_timeout.as_secs())]
    drain_timeout: u64,
    /// Send the token over plain http to another machine.
    #[arg(long)]
    insecure: bool,
    /// One JSON object for each event, on standard output.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let filter = tracing_subscriber::EnvFilter::try_from_env("CADRAN_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    // A subscriber that is there already stays.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(false)
        .try_init();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(2)
        .thread_name("cadran-io")
        .build()?;
    let as_json = args.json;
    let done = runtime.block_on(work(args));
    // A thread stuck in a file system call must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(done.unwrap_or_else(|failure| failure.report(as_json)))
}

async fn work(args: Args) -> Result<ExitCode, Failure> {
    let link = Arc::new(HttpLink::new(&args)?);
    let data = args.data.clone().unwrap_or_else(|| defaults::worker_dir(&args.group));
    make_private(&data)?;
    let id = id_of(&data)?;
    let slots = args
        .slots
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |count| count.get() as u32));
    let mut local = LocalOptions::new(&data);
    local.live_max = local.live_max.max(slots as usize);
    local.keeper = keeper_command();
    let options = WorkerOptions {
        id: id.clone(),
        group: args.group.clone(),
        slots,
        labels: args.labels.clone(),
        local,
    };
    let teller = Teller { json: args.json, id, url: link.url.to_string(), group: args.group.clone(), slots };
    // From here on a signal is a request to go in good order.
    let mut stops = StopSignals::listen().map_err(|error| Failure::here(error.to_string()))?;
    let worker = Worker::open(options, link, clock::wall, move |event| teller.tell(&event)).await;
    let worker = worker.map_err(|error| cannot_work(error, &data))?;
    let mut working = std::pin::pin!(worker.run());
    tokio::select! {
        done = &mut working => return done.map(|()| Exit::Ok.into()).map_err(|error| cannot_work(error, &data)),
        _ = stops.next() => worker.drain(),
    }
    let drained = tokio::select! {
        done = &mut working => Some(done),
        () = tokio::time::sleep(Duration::from_secs(args.drain_timeout)) => None,
        _ = stops.next() => {
            worker.cut(Duration::ZERO).await;
            return Err(Failure::new(Exit::RunFailed, "cut", "stopped at once; what was cut off is told at the next start"));
        }
    };
    let drained = match drained {
        Some(done) => Some(done),
        None => {
            worker.cut(CUT_PATIENCE).await;
            tokio::time::timeout(LAST_WORDS, working).await.ok()
        }
    };
    match drained {
        Some(done) => done.map(|()| Exit::Ok.into()).map_err(|error| cannot_work(error, &data)),
        None => {
            let text = format!(
                "the server is away; {} results are kept in {}",
                worker.undelivered(),
                data.display()
            );
            Err(Failure::new(Exit::Unreachable, "undelivered", text)
                .help("start the worker again with the same --data, and they are told"))
        }
    }
}

/// How long steps have after their signal, when patience has ended.
const CUT_PATIENCE: Duration = Duration::from_secs(10);

/// How long results of steps that were cut off may take to be delivered.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Bytes of a token file; more is some other file.
const TOKEN_BYTES_MAX: usize = 4096;

fn cannot_work(error: WorkerError, data: &Path) -> Failure {
    match error {
        WorkerError::Exec(ExecError::InUse(_)) => {
            let text = format!("another worker uses {}", data.display());
            Failure::new(Exit::RunFailed, "in_use", text).help("give this one a directory of its own with --data DIR")
        }
        WorkerError::Exec(error) => Failure::new(Exit::RunFailed, "here", error.to_string()),
        WorkerError::Superseded => Failure::new(Exit::RunFailed, "superseded", error.to_string()),
        WorkerError::Refused(why) => Failure::new(Exit::Refused, "refused", why).help(
            "--server is the address for executors that `cadran serve` prints, the token the one it was given for them",
        ),
    }
}

/// `KEY=VALUE`.
fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a label looks like gpu=a100")?;
    let (name, value) = (name.trim(), value.trim());
    match () {
        () if name.is_empty() => Err("a label has a name before its '='".into()),
        () if name.len() > 128 || value.len() > 128 => {
            Err("a label has at most 128 bytes on either side".into())
        }
        () => Ok((name.to_owned(), value.to_owned())),
    }
}

/// What the worker keeps is for its owner alone: what an older version left open to others is closed.
fn make_private(data: &Path) -> Result<(), Failure> {
    let ours = ["exec", "logs", "worker-id"].map(|name| data.join(name));
    let done = cadran_files::secure_dir(data)
        .and_then(|()| ours.iter().try_for_each(|path| cadran_files::secure_tree(path)));
    done.map_err(|error| Failure::new(Exit::RunFailed, "data", error.to_string()))
}

/// The worker's id: this machine's name and some chance, made once for a data directory.
fn id_of(data: &Path) -> Result<String, Failure> {
    let path = data.join("worker-id");
    let cannot = |what: &str, error: std::io::Error| {
        let text = format!("cannot {what} {}: {error}", path.display());
        Failure::new(Exit::RunFailed, "data", text)
            .help("name a directory this user may write to with --data DIR")
    };
    match fs::read_to_string(&path) {
        Ok(id) => return Ok(id.trim().to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(cannot("read", error)),
    }
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let plain = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
    let host: String = host.trim().chars().filter(plain).take(40).collect();
    let host = host.trim_matches('-');
    let chance = Token::random().ok_or_else(|| Failure::here("the system gave no random bytes for an id"))?;
    let chance = &chance.as_str()[..12];
    let id = if host.is_empty() { chance.to_owned() } else { format!("{host}-{chance}") };
    cadran_files::write_atomic(&path, id.as_bytes()).map_err(|error| cannot("write", error))?;
    Ok(id)
}

/// Calls over HTTP.
struct HttpLink {
    client: reqwest::Client,
    url: Url,
    token: String,
    group: GroupName,
}

impl HttpLink {
    fn new(args: &Args) -> Result<HttpLink, Failure> {
        let url = parse(&args.server).map_err(|why| {
            Failure::usage(format!("{:?} is not the address of a server: {why}", args.server))
                .help("write it as http://127.0.0.1:7789 or https://cadran.example.com")
        })?;
        if !is_loopback(&url) && url.scheme() == "http" && !args.insecure {
            let text =
                format!("{url} is plain http to another machine: whoever is in between could read the token");
            return Err(Failure::usage(text).help(
                "use https:// with a proxy in front of the server, or a tunnel (ssh -L 7789:127.0.0.1:7789 HOST), or say \
                 --insecure",
            ));
        }
        let token = token(args)?;
        let client = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(5))
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .map_err(|error| Failure::here(error.to_string()))?;
        Ok(HttpLink { client, url, token, group: args.group.clone() })
    }
}

fn token(args: &Args) -> Result<String, Failure> {
    let text = match &args.token_file {
        Some(path) => fs::read_to_string(path).map_err(|error| {
            Failure::usage(format!("cannot read the token in {}: {error}", path.display()))
        })?,
        None => std::env::var("CADRAN_EXECUTOR_TOKEN").unwrap_or_default(),
    };
    let token = text.trim();
    let plain = token.bytes().all(|byte| byte.is_ascii_graphic()) && token.len() <= TOKEN_BYTES_MAX;
    match (token.is_empty(), plain) {
        (true, _) => Err(Failure::usage("there is no token for executors")
            .help("give the file that holds it with --token-file FILE, or set CADRAN_EXECUTOR_TOKEN")),
        (false, false) => Err(Failure::usage("the token for executors is not one line of plain characters")),
        (false, true) => Ok(token.to_owned()),
    }
}

impl Link for HttpLink {
    fn call(&self, call: Call) -> BoxFuture<'static, Result<Vec<u8>, LinkError>> {
        let path = format!("{}{}", PATH.trim_start_matches('/'), call.verb);
        let request = self.url.join(&path).map(|url| {
            self.client
                .post(url)
                .bearer_auth(&self.token)
                .header(GROUP_HEADER, self.group.as_str())
                .timeout(call.patience)
                .body(call.body)
        });
        let url = self.url.clone();
        Box::pin(async move {
            let unreachable = |error: reqwest::Error| {
                let why = match () {
                    () if error.is_timeout() => "it does not answer in time".to_owned(),
                    () if error.is_connect() => "nobody listens there".to_owned(),
                    () => format!("the connection broke ({error})"),
                };
                LinkError::Unreachable(format!("cannot reach {url}: {why}"))
            };
            let request = request.map_err(|error| LinkError::Unreachable(error.to_string()))?;
            let answer = request.send().await.map_err(unreachable)?;
            let status = answer.status().as_u16();
            let body = answer.bytes().await.map_err(unreachable)?;
            if status == 200 {
                return Ok(body.to_vec());
            }
            let why = serde_json::from_slice::<Refusal>(&body).map(|refusal| refusal.error);
            let why = why.unwrap_or_else(|_| {
                format!("{url} answers with status {status}, and not as the address for executors does")
            });
            Err(LinkError::Refused(status, why))
        })
    }
}

/// Says what happens: lines for people on standard error, or JSON on standard output.
struct Teller {
    json: bool,
    id: String,
    url: String,
    group: GroupName,
    slots: u32,
}

impl Teller {
    fn tell(&self, event: &WorkerEvent) {
        if self.json {
            // Whoever read it may be gone; the work goes on.
            let _ = writeln!(std::io::stdout().lock(), "{}", self.value(event));
        } else {
            let at = jiff::Timestamp::from_millisecond(clock::wall()).unwrap_or_default();
            talk(&format!("{} {}", at.strftime("%H:%M:%S"), escaped(&self.line(event))));
        }
    }

    fn line(&self, event: &WorkerEvent) -> String {
        match event {
            WorkerEvent::Connected { .. } => {
                let Teller { id, url, group, slots, .. } = self;
                format!("connected to {url} as worker:{id}, group {group}, {slots} slots")
            }
            WorkerEvent::Unreachable(why) => format!("{why}; trying again"),
            WorkerEvent::LeaseLost => "the server is away for too long: ending what runs here".to_owned(),
            WorkerEvent::Ordered { run, job, step, attempt } => {
                format!("ordered: run {run} {job}/{step} attempt {attempt}")
            }
            WorkerEvent::Started { run, job, step, attempt } => {
                format!("started: run {run} {job}/{step} attempt {attempt}")
            }
            WorkerEvent::Ended { run, job, step, attempt, outcome } => {
                format!("ended:   run {run} {job}/{step} attempt {attempt}: {}", said(outcome))
            }
            WorkerEvent::Draining(left) => format!("going: no new work is taken, {left} on or waiting"),
        }
    }

    fn value(&self, event: &WorkerEvent) -> Value {
        match event {
            WorkerEvent::Connected { server, lease_ms } => json!({
                "event": "connected", "worker": self.id, "url": self.url, "group": self.group.as_str(),
                "slots": self.slots, "server": server, "lease_ms": lease_ms,
            }),
            WorkerEvent::Unreachable(why) => json!({ "event": "unreachable", "why": why }),
            WorkerEvent::LeaseLost => json!({ "event": "lease_lost" }),
            WorkerEvent::Ordered { run, job, step, attempt } => json!({
                "event": "ordered", "run": run.to_string(), "job": job, "step": step, "attempt": attempt,
            }),
            WorkerEvent::Started { run, job, step, attempt } => json!({
                "event": "started", "run": run.to_string(), "job": job, "step": step, "attempt": attempt,
            }),
            WorkerEvent::Ended { run, job, step, attempt, outcome } => json!({
                "event": "ended", "run": run.to_string(), "job": job, "step": step, "attempt": attempt,
                "outcome": said(outcome),
            }),
            WorkerEvent::Draining(left) => json!({ "event": "draining", "left": left }),
        }
    }
}

fn said(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Exited(code) => format!("exit {code}"),
        Outcome::Signaled(signal) => format!("ended by signal {signal}"),
        Outcome::TimedOut => "passed its time limit".to_owned(),
        Outcome::Stopped => "stopped".to_owned(),
        Outcome::PreconditionUnmet(why) | Outcome::JobPreconditionUnmet(why) => format!("skipped: {why}"),
        Outcome::NotStarted(why) => format!("not started: {why}"),
        Outcome::Reported(_, why) | Outcome::Halted(why) => why.to_string(),
        Outcome::Lost => "lost".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_ids() {
        assert_eq!(label(" gpu = a100"), Ok(("gpu".into(), "a100".into())));
        assert_eq!(label("empty="), Ok(("empty".into(), String::new())));
        for bad in ["", "gpu", "=x", &format!("k={}", "x".repeat(129))] {
            assert!(label(bad).is_err(), "{bad}");
        }
    }
}
