//! `cadran serve`: the server.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use cadran_core::{Dialect, Executor, GroupName, Job, Order, Seats, Start, Work, Zone};
use cadran_engine::{Engine, Event, JobChange, Options};
use cadran_exec::worker::Presence;
use cadran_exec::{Hub, HubOptions, Local, LocalOptions, LogDir, Remote, RemoteOptions, Tokens};
use cadran_http::{ApiState, EventLog, FileProblem, LiveChange, Sessions, token};
use cadran_place::Limits;
use cadran_spec::{
    Caller, Change, Diagnostic, FileDiagnostics, Folder, ReadOptions, Scan, WatchHandle, WatchOptions,
};
use cadran_store::{Retention, Store};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::defaults;
use crate::server::clock::{self, Clock};
use crate::server::retention::{self, Pruner};
use crate::server::sd_notify::Supervisor;
use crate::server::turn::Orders;
use crate::server::{self, Desk, Executors, JobFiles, Line, Problems, fatal, revive};

/// Run the server: watch job files, fire every due, keep the record.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Prints one line when it is ready. Stops cleanly on SIGTERM and Ctrl-C; a second one stops at \
once. SIGHUP reads the job files again.\n\nExamples:\n  cadran serve --jobs examples/jobs\n  cadran serve --data /var/lib/cadran --store \
postgres://cadran@db/cadran"
)]
pub struct Args {
    /// Where the record, the logs and the token live.
    #[arg(long, env = "CADRAN_DATA", default_value_os_t = defaults::data_dir())]
    data: PathBuf,
    /// Folder of job files, watched with everything below it [default: DATA/jobs].
    #[arg(long, env = "CADRAN_JOBS")]
    jobs: Option<PathBuf>,
    /// Address and port of the API.
    #[arg(long, env = "CADRAN_LISTEN", default_value = defaults::LISTEN)]
    listen: SocketAddr,
    /// sqlite:PATH, postgres://…, or memory: for a try; one server at a time works on it [default: sqlite:DATA/cadran.db].
    #[arg(long, env = "CADRAN_STORE", hide_env_values = true)]
    store: Option<String>,
    /// Zone of job files that name none.
    #[arg(long, env = "CADRAN_TIMEZONE", default_value = "UTC")]
    timezone: String,
    /// Runs active at once; more wait for a slot.
    #[arg(long, default_value_t = defaults::SLOTS)]
    slots: usize,
    /// How long running steps may go on after a stop was asked for, before they are stopped too.
    #[arg(long, value_name = "SECONDS", default_value_t = defaults::STOP_PATIENCE.as_secs())]
    stop_patience: u64,
    /// Allow an address other machines can reach, because something in front of it speaks TLS.
    #[arg(long)]
    behind_proxy: bool,
    /// A name by which browsers may call this server, beside its address and localhost; may be given several times.
    #[arg(long, env = "CADRAN_HOST_NAME", value_name = "NAME", value_delimiter = ',')]
    host_name: Vec<String>,
    /// File of executor groups, their addresses and tokens [default: DATA/executors.yaml].
    #[arg(long, env = "CADRAN_EXECUTORS", value_name = "FILE")]
    executors: Option<PathBuf>,
    /// Address and port where executors register and report; open once a token for them is set.
    #[arg(long, env = "CADRAN_EXECUTOR_LISTEN", value_name = "ADDRESS", default_value = defaults::EXECUTOR_LISTEN)]
    executor_listen: SocketAddr,
    /// Token shared with executors, for groups that have none of their own in the file.
    #[arg(long, env = "CADRAN_EXECUTOR_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    executor_token: Option<String>,
    /// Let executors add, change and remove no jobs (`addJob`, `updateJob`, `removeJob` of XXL-JOB 3.5).
    #[arg(long)]
    no_executor_jobs: bool,
    /// Milliseconds between two looks at what executors have; waits for lost work shrink with it.
    #[arg(long, hide = true)]
    executor_look_ms: Option<u64>,
    /// Milliseconds for which an executor that does not register again is believed to be there.
    #[arg(long, hide = true)]
    executor_silent_ms: Option<u64>,
    /// Keep ended runs so many days at most, whatever their job asks for.
    #[arg(long, env = "CADRAN_KEEP_DAYS", value_name = "DAYS")]
    keep_days: Option<u32>,
    /// Keep so many of the newest runs of each job at most, whatever the job asks for.
    #[arg(long, env = "CADRAN_KEEP_RUNS", value_name = "N")]
    keep_runs: Option<u32>,
    /// What the SQLite database may have in use, as 512MiB or 2GiB; the longest histories give first.
    #[arg(long, env = "CADRAN_KEEP_DATABASE", value_name = "SIZE", value_parser = retention::bytes, default_value = "1GiB")]
    keep_database: u64,
    /// What all logs together may take of the disk; the oldest go first.
    #[arg(long, env = "CADRAN_KEEP_LOGS", value_name = "SIZE", value_parser = retention::bytes, default_value = "768MiB")]
    keep_logs: u64,
    /// Milliseconds between two passes over what is past its retention.
    #[arg(long, hide = true)]
    prune_rest_ms: Option<u64>,
    /// Milliseconds a worker that is silent is believed to be at work.
    #[arg(long, hide = true)]
    worker_lease_ms: Option<u64>,
    /// Log lines as JSON.
    #[arg(long)]
    log_json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    start_log(args.log_json);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("cadran-io").build()?;
    let done = runtime.block_on(serve(args));
    // A thread stuck in a file system call must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    done
}

fn start_log(json: bool) {
    use std::io::IsTerminal;
    let filter = tracing_subscriber::EnvFilter::try_from_env("CADRAN_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info,sqlx=warn"));
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    // A subscriber that is there already stays.
    let _ = if json { log.json().try_init() } else { log.with_ansi(colours).try_init() };
}

async fn serve(args: Args) -> anyhow::Result<ExitCode> {
    if !args.listen.ip().is_loopback() && !args.behind_proxy {
        bail!(
            "{} can be reached from other machines, and the API speaks plain HTTP; listen on 127.0.0.1, or put a TLS \
             proxy in front and say --behind-proxy",
            args.listen
        );
    }
    let zone = Zone::get(&args.timezone).map_err(|error| anyhow::anyhow!("--timezone: {error}"))?;
    let data = Data::open(&args.data)?;
    let jobs = args.jobs.clone().unwrap_or_else(|| args.data.join("jobs"));
    if args.jobs.is_none() {
        cadran_files::create_dir(&jobs).with_context(|| format!("cannot make {}", jobs.display()))?;
    } else if !jobs.is_dir() {
        bail!("the jobs folder {} does not exist; make it, or name another with --jobs", jobs.display());
    }
    let token = token::load_or_create(&args.data.join("token"))?;
    let url =
        args.store.clone().unwrap_or_else(|| format!("sqlite:{}", args.data.join("cadran.db").display()));
    let (tokens, typed) = read_executors(&args)?;
    let store = Store::open(&url).await?;
    let name = data.name()?;
    // Before anything is taken up: a second server would start again what the first has on.
    let mut claim = store.claim(&name).await?;
    let listener =
        TcpListener::bind(args.listen).await.with_context(|| format!("cannot listen on {}", args.listen))?;
    let address = listener.local_addr()?;

    let clock = Clock::start();
    let line = Line::default();
    let mut exec = LocalOptions::new(&args.data);
    exec.live_max = exec.live_max.max(args.slots);
    exec.keeper = keeper_command();
    let logs = LogDir::new(exec.logs.clone());
    let (local, mut found) = Local::open(exec, clock::wall, line.sink()).await?;
    let local = Arc::new(local);
    let mut remote = RemoteOptions::new(&args.data);
    if let Some(look) = args.executor_look_ms.map(Duration::from_millis) {
        remote.look_every = look;
        (remote.idle_time_max, remote.silent_time_max) = (look * 3, look * 6);
        (remote.doubtful_time_max, remote.timeout_margin) = (look * 60, look * 10);
    }
    let roster_file = remote.ledger.with_file_name("roster.json");
    let (remote, out, last_log) = Remote::open(remote, tokens.clone(), clock::wall, line.sink())?;
    let remote = Arc::new(remote);
    found.extend(out);
    let mut hub = HubOptions::new(&args.data);
    hub.lease = args.worker_lease_ms.map_or(hub.lease, Duration::from_millis);
    let presence = Arc::new(OnceLock::new());
    let (hub, out, hub_last_log) =
        Hub::open(hub, move || clock.now(), line.sink(), told_of(presence.clone()))?;
    let hub = Arc::new(hub);
    found.extend(out);
    let last_log = last_log.max(hub_last_log);

    let limits = Limits { slots: args.slots, ..Limits::default() };
    let server = store.enlist(&name, clock::wall()).await?;
    let mut options = Options { limits, server, lookahead_ms: defaults::LOOKAHEAD_MS, ..Options::default() };
    if let Some(silent) = args.executor_silent_ms {
        options.silent_ms_max = silent.min(i64::MAX as u64) as i64;
    }
    let mut engine = Engine::new(options);
    let executors =
        Executors::new(line.clone(), clock, remote.clone(), hub.clone(), roster_file, &mut engine, typed);
    let executors = Arc::new(executors);
    let _ = presence.set(executors.clone());
    let reading = ReadOptions { default_zone: zone, ..ReadOptions::default() };
    let problems = Problems::default();
    for damage in [local.damage(), remote.damage(), hub.damage()].into_iter().flatten() {
        let help = "check the disk; runs that were on when the server ended may be started again";
        problems.add(None, &damage.path.display().to_string(), "error", "damaged", damage.to_string(), help);
    }
    let from_file = |source: &str| job_of_file(&jobs, source, &reading);
    let files =
        revive::restore(&store, &mut engine, found, last_log, clock.now(), from_file, &problems).await?;
    let mut folder = Folder::new(&jobs, reading.clone());
    folder.known(files);
    folder
        .known_children(engine.catalog().parents().map(|(name, children)| (name.clone(), children.to_vec())));
    // The files are read before the first tick: what was edited or deleted while the server was away counts.
    let scan = folder.scan(clock::wall());
    engine.handle(Event::Jobs(take_scan(scan, &jobs, &problems)), clock.now());
    let job_count = engine.catalog().len();

    let orders: Orders = {
        let (local, remote, hub) = (local.clone(), remote.clone(), hub.clone());
        Arc::new(move |orders| send(orders, &local, &remote, &hub))
    };
    // From here on a signal is a request to stop in good order, also one that comes before we are ready.
    let mut stops = Stops::listen()?;
    let mut reloads = signal(SignalKind::hangup())?;
    let supervisor = Arc::new(Supervisor::from_env());
    let running = server::start(line.clone(), clock, engine, store.clone(), orders)?;
    let watch = watch(folder, line.clone(), problems.clone(), running.events.clone())?;
    if !args.no_executor_jobs {
        executors.let_write(JobFiles::new(&jobs, reading.clone(), watch.caller(), line, store.clone()));
    }
    let pruner = Pruner::new(retention_of(&args), store.clone(), logs.clone());
    let disk = pruner.report();
    let pruning = tokio::spawn(pruner.run());

    let desk = Desk::new(&running, problems).with_executors(executors.clone()).with_local(local.clone());
    let desk = Arc::new(desk.with_disk(disk).with_job_files(&jobs, reading));
    let sessions = Sessions::open(&args.data.join("sessions.json"));
    let api = ApiState::new(desk, store, logs, token.hash()).with_sessions(sessions, args.host_name.clone());
    let api = cadran_http::router(api);
    let (stop_http, http_stopped) = tokio::sync::oneshot::channel::<()>();
    let until = async {
        let _ = http_stopped.await;
    };
    let http = cadran_http::serve(listener, api, until, cadran_http::Limits::default());
    let http = tokio::spawn(fatal::task("listener of the API", http));
    let door = open_door(&args, &tokens, executors, hub.clone()).await?;
    data.announce(address)?;
    println!(
        "cadran is ready: {job_count} jobs from {}, API on http://{address}, data in {}{}",
        jobs.display(),
        args.data.display(),
        door.as_ref().map(|door| format!(", executors on http://{}", door.address)).unwrap_or_default()
    );

    supervisor.say("READY=1");
    let feeding = tokio::spawn({
        let (supervisor, health) = (supervisor.clone(), running.health.clone());
        async move { supervisor.feed_watchdog(&health).await }
    });

    let taken = loop {
        tokio::select! {
            () = stops.next() => break None,
            by = claim.lost() => break Some(by),
            _ = reloads.recv() => reload(watch.caller()),
        }
    };
    supervisor.say("STOPPING=1");
    if let Some(by) = &taken {
        tracing::error!("{by}: this one must not go on, and stops");
    }
    // What is on here, another one starts anew: no patience with it then.
    let patience = Duration::from_secs(if taken.is_some() { 0 } else { args.stop_patience });
    tracing::info!("stopping; running steps have {} s", patience.as_secs());
    drop(watch);
    pruning.abort();
    let _ = stop_http.send(());
    let stopping = running.stop(async {
        wait_idle(&local, patience).await;
        local.drain(Duration::from_secs(10)).await;
    });
    tokio::select! {
        () = stopping => {}
        () = stops.next() => bail!("stopped at once; runs that were cut off are taken up at the next start"),
    }
    let _ = http.await;
    feeding.abort();
    hub.stop();
    if let Some(door) = door {
        let _ = door.stop.send(());
        let _ = door.task.await;
    }
    data.withdraw();
    if let Some(by) = taken {
        bail!("{by}; one server works on a record at a time");
    }
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Starts that were placed go out to executors, ours or others, the rest to the one in here; stops and closes concern all.
fn send(orders: Vec<Order>, local: &Local, remote: &Remote, hub: &Hub) {
    let (mut here, mut away, mut ours) = (Vec::with_capacity(orders.len()), Vec::new(), Vec::new());
    for order in orders {
        match &order {
            Order::Start(start) if start.placement.is_none() => here.push(order),
            Order::Start(start) if is_ours(start) => ours.push(order),
            Order::Start(_) => away.push(order),
            Order::Gone { .. } => away.push(order),
            Order::Stop { .. } | Order::StopShare { .. } | Order::Close { .. } => {
                if remote.is_used() || !away.is_empty() {
                    away.push(order.clone());
                }
                if hub.is_used() || !ours.is_empty() {
                    ours.push(order.clone());
                }
                here.push(order);
            }
        }
    }
    if !ours.is_empty() {
        hub.submit(ours);
    }
    if !here.is_empty() {
        local.submit(here);
    }
    if !away.is_empty() {
        remote.submit(away);
    }
}

/// Whether an attempt was placed with workers. A command for which there is nobody is missed by them.
fn is_ours(start: &Start) -> bool {
    let own = |executor: &Executor| executor.dialect == Dialect::Worker;
    match start.placement.as_ref().map(|placement| &placement.seats) {
        Some(Seats::Chosen(seats)) => seats.iter().any(|seat| own(&seat.executor)),
        Some(Seats::Asked { executors, .. }) => executors.iter().any(own),
        Some(Seats::Nobody) => {
            let step = start.context.body.step(start.step);
            step.is_some_and(|step| !matches!(step.work, Work::Handler(_) | Work::Glue(..)))
        }
        None => false,
    }
}

/// Who hears of workers that come and go: known a moment after the hub is.
fn told_of(executors: Arc<OnceLock<Arc<Executors>>>) -> impl Fn(Vec<Presence>) + Send + Sync {
    move |changes| {
        if let Some(executors) = executors.get() {
            executors.workers(changes);
        }
    }
}

/// Groups with addresses that were typed in.
type Typed = Vec<(GroupName, Vec<Executor>)>;

fn read_executors(args: &Args) -> anyhow::Result<(Arc<Tokens>, Typed)> {
    let given = args.executors.clone();
    let path = given.clone().unwrap_or_else(|| args.data.join("executors.yaml"));
    let file = match fs::read(&path) {
        Ok(text) => cadran_spec::read_executors(&text).map_err(|found| {
            let name = path.display().to_string();
            let text = String::from_utf8_lossy(&text);
            let all: Vec<String> = found.iter().map(|found| found.render(&name, &text, false)).collect();
            anyhow::anyhow!("the file of executors cannot be used\n{}", all.join("\n"))
        })?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && given.is_none() => Default::default(),
        Err(error) => bail!("cannot read the file of executors {}: {error}", path.display()),
    };
    let mut tokens = Tokens::default();
    if let Some(token) = args.executor_token.as_ref().or(file.token.as_ref()) {
        tokens.set_all(token)?;
    }
    let mut typed = Typed::new();
    for group in file.groups {
        if let Some(token) = &group.token {
            tokens.set(group.name.clone(), token).with_context(|| format!("group {}", group.name))?;
        }
        if !group.executors.is_empty() {
            typed.push((group.name, group.executors));
        }
    }
    Ok((Arc::new(tokens), typed))
}

/// The listener for executors.
struct Door {
    address: SocketAddr,
    stop: tokio::sync::oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

/// Closed until a token is set: without one anybody could report results.
async fn open_door(
    args: &Args,
    tokens: &Arc<Tokens>,
    executors: Arc<Executors>,
    hub: Arc<Hub>,
) -> anyhow::Result<Option<Door>> {
    if tokens.is_empty() {
        return Ok(None);
    }
    let listener = TcpListener::bind(args.executor_listen)
        .await
        .with_context(|| format!("cannot listen for executors on {}", args.executor_listen))?;
    let address = listener.local_addr()?;
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "executors speak plain HTTP: let nobody but them reach this address");
    }
    let counts = executors.counts.clone();
    let workers = cadran_http::worker_router(hub, tokens.clone(), counts.clone());
    let router = cadran_http::executor_router(executors, tokens.clone(), counts).merge(workers);
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let until = async {
        let _ = stopped.await;
    };
    // Executors keep connections open between two calls that are half a minute apart.
    let limits = cadran_http::Limits {
        connections_max: 4096,
        head_time_max: Duration::from_secs(75),
        ..cadran_http::Limits::default()
    };
    let task = tokio::spawn(cadran_http::serve(listener, router, until, limits));
    Ok(Some(Door { address, stop, task }))
}

/// How often and how soon the lock on the data directory is tried again: two seconds in all, which is long for a
/// process that is about to start its program, and short for a person who started a second server.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// What the server itself keeps in its data directory. Other files there are left as they are: job files are the
/// user's.
const OURS: [&str; 7] =
    ["lock", "server-name", "server.json", "sessions.json", "executors.yaml", "exec", "logs"];

/// The data is for its owner alone: what an older version left open to others is closed, and a directory of somebody else
/// is refused. The database and the token are looked at where they are opened.
fn make_private(data: &Path) -> anyhow::Result<()> {
    cadran_files::secure_dir(data)?;
    for name in OURS {
        cadran_files::secure_tree(&data.join(name))?;
    }
    Ok(())
}

/// The data directory, ours alone while this lives.
struct Data {
    path: PathBuf,
    _lock: Flock<File>,
}

impl Data {
    fn open(path: &Path) -> anyhow::Result<Data> {
        make_private(path)?;
        let name = path.join("lock");
        let file = cadran_files::options().create(true).append(true).open(&name);
        let file = file.with_context(|| format!("cannot open {}", name.display()))?;
        let lock = Data::lock(file).map_err(|error| match error {
            Errno::EWOULDBLOCK => anyhow!(
                "another server uses {}; stop it, or give this one a directory of its own with --data",
                path.display()
            ),
            other => anyhow!("cannot lock {}: {}", name.display(), other.desc()),
        })?;
        Ok(Data { path: path.to_owned(), _lock: lock })
    }

    /// A server that was killed while it started a process leaves a copy of its lock in it, for the moment until that
    /// process has become the step's program: we wait that long.
    fn lock(mut file: File) -> Result<Flock<File>, Errno> {
        for _ in 0..LOCK_TRIES {
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(lock),
                Err((back, _)) => file = back,
            }
            #[allow(clippy::disallowed_methods)] // nobody tells when a lock is given back
            std::thread::sleep(LOCK_PAUSE);
        }
        Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| error)
    }

    /// The server's name, made once: the store knows its number by it. A copy of the directory is the same server, so
    /// that two copies must not run on one store.
    fn name(&self) -> anyhow::Result<String> {
        let path = self.path.join("server-name");
        match fs::read_to_string(&path) {
            Ok(name) if !name.trim().is_empty() => return Ok(name.trim().to_owned()),
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
            _ => {}
        }
        let mut chance = [0; 16];
        getrandom::fill(&mut chance).context("no random numbers to be had")?;
        let name = format!("{:032x}", u128::from_le_bytes(chance));
        cadran_files::write_atomic(&path, name.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(name)
    }

    /// Lets commands on this machine find the server.
    fn announce(&self, address: SocketAddr) -> anyhow::Result<()> {
        // Whoever is on this machine reaches a server that listens everywhere by the loopback address.
        let ip = match address.ip() {
            ip if !ip.is_unspecified() => ip,
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        let url = format!("http://{}", SocketAddr::new(ip, address.port()));
        let text = serde_json::json!({ "url": url, "pid": std::process::id() }).to_string();
        cadran_files::write_atomic(&self.path.join("server.json"), text.as_bytes())?;
        Ok(())
    }

    fn withdraw(&self) {
        // Left behind, it names a server that does not answer, which commands report just as well.
        let _ = fs::remove_file(self.path.join("server.json"));
    }
}

/// The same program, as the watcher over the server's processes.
pub(super) fn keeper_command() -> Option<Vec<std::ffi::OsString>> {
    let program = std::env::current_exe().ok()?;
    Some(vec![program.into_os_string(), "keeper".into()])
}

/// The changes of a scan for the engine; what is wrong goes to the log and the API.
fn take_scan(scan: Scan, root: &Path, problems: &Problems) -> Vec<JobChange> {
    if scan.diagnostics_changed {
        let views: Vec<FileProblem> =
            scan.diagnostics.iter().flat_map(|file| problem_views(file, root)).collect();
        for view in problems.set_files(views) {
            tracing::warn!(file = %view.file, line = view.line, column = view.column, "{}", view.message);
        }
    }
    let changes = scan.changes.into_iter();
    changes
        .map(|change| match change {
            Change::Put { job, definition, source, source_mark } => {
                problems.settle(&job.name);
                JobChange::Put { job, definition, source, source_mark }
            }
            Change::Remove { name } => JobChange::Remove { name },
        })
        .collect()
}

fn problem_views(file: &FileDiagnostics, root: &Path) -> Vec<FileProblem> {
    // Read again only to underline the place; a file that is gone by now is shown without it.
    let text = cadran_spec::read_file(&root.join(&*file.source)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let view = |diagnostic: &Diagnostic| FileProblem {
        file: file.source.to_string(),
        line: diagnostic.line,
        column: diagnostic.column,
        severity: diagnostic.severity.word().to_owned(),
        code: diagnostic.code.word().to_owned(),
        message: diagnostic.message.clone(),
        help: diagnostic.help.clone(),
        rendered: diagnostic.render(&file.source, &text, false),
    };
    file.diagnostics.iter().map(view).collect()
}

fn watch(
    folder: Folder,
    line: Line,
    problems: Problems,
    events: Arc<EventLog>,
) -> anyhow::Result<WatchHandle> {
    let root = folder.root().to_owned();
    let watch = cadran_spec::watch(folder, WatchOptions::default(), move |scan: Scan| {
        let problems_changed = scan.diagnostics_changed;
        let changes = take_scan(scan, &root, &problems);
        if problems_changed {
            events.push(vec![LiveChange::Problems]);
        }
        if !changes.is_empty() {
            tracing::info!(changes = changes.len(), "job files changed");
            line.tell(Event::Jobs(changes));
        }
    });
    watch.context("cannot watch the jobs folder")
}

/// What is kept at most, as it was typed.
fn retention_of(args: &Args) -> retention::Options {
    let mut options = retention::Options {
        retention: Retention { days_max: args.keep_days, runs_max: args.keep_runs },
        database_bytes_max: args.keep_database,
        log_bytes_max: args.keep_logs,
        ..retention::Options::default()
    };
    if let Some(rest) = args.prune_rest_ms.map(Duration::from_millis) {
        (options.rest_min, options.rest_max) = (rest, rest);
    }
    options
}

/// The job that a file of the jobs folder holds, if this version can read it.
fn job_of_file(jobs: &Path, source: &str, options: &ReadOptions) -> Option<Job> {
    let path = jobs.join(source);
    let bytes = cadran_spec::read_file(&path).ok()?;
    let stem = path.file_stem()?.to_str()?;
    cadran_spec::read_job(&bytes, stem, options).ok().map(|parsed| parsed.job)
}

/// How long a reading of all job files may take before the log says so: a million files take about this long.
const RELOAD_TIME_MAX: Duration = Duration::from_secs(60);

/// Reads the job files again, now. The server's log goes to standard error, so there is no file of it to be reopened.
fn reload(caller: Caller) {
    tracing::info!("SIGHUP: reading the job files again");
    tokio::task::spawn_blocking(move || match caller.look_now(RELOAD_TIME_MAX) {
        true => tracing::info!("the job files were read again"),
        false => tracing::warn!("reading the job files takes longer than {} s", RELOAD_TIME_MAX.as_secs()),
    });
}

/// Requests to stop: TERM, and the interrupt of a terminal.
pub(super) struct Stops {
    term: Signal,
    interrupt: Signal,
}

impl Stops {
    pub(super) fn listen() -> anyhow::Result<Stops> {
        Ok(Stops { term: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Waits until no attempt is alive, or patience ends.
async fn wait_idle(local: &Local, patience: Duration) {
    let idle = async {
        while local.live() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let _ = tokio::time::timeout(patience, idle).await;
}
