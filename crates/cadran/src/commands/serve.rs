//! `cadran serve`: reads the options and wires the parts of the server together.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, bail};
use cadran_core::Zone;
use cadran_engine::{Engine, Event};
use cadran_exec::worker::Presence;
use cadran_exec::{Hub, HubOptions, LogDir, Remote, RemoteOptions};
use cadran_http::{ApiState, Sessions, token};
use cadran_place::Limits;
use cadran_spec::Folder;
use cadran_store::{Retention, Store};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::defaults;
use crate::public_address::AllowedNet;
use crate::server::clock::{self, Clock};
use crate::server::data_dir::DataDir;
use crate::server::dispatch::dispatcher;
use crate::server::executor_listener::{ExecutorListener, GroupsFile};
use crate::server::on_stop::{self, OnStop};
use crate::server::retention::{self, Pruner};
use crate::server::sd_notify::Supervisor;
use crate::server::signals::StopSignals;
use crate::server::{
    self, ApiFacade, Executors, JobFiles, LoopHandle, Problems, embedded, fatal, job_folder, recovery,
};

/// Run the server: watch job files, fire every due, keep the record.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Prints one line when it is ready. Stops cleanly on SIGTERM, which leaves what runs to the next \
server, and on Ctrl-C, which stops what runs; a second one stops at once. SIGHUP reads the job files and the file of \
executors again.\n\nExamples:\n  cadran serve --jobs examples/jobs\n  cadran serve --data /var/lib/cadran --store \
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
    #[arg(long, env = "CADRAN_LISTEN", default_value = defaults::SERVE.listen)]
    listen: SocketAddr,
    /// sqlite:PATH, postgres://…, or memory: for a try; one server at a time works on it [default: sqlite:DATA/cadran.db].
    #[arg(long, env = "CADRAN_STORE", hide_env_values = true)]
    store: Option<String>,
    /// Zone of job files that name none.
    #[arg(long, env = "CADRAN_TIMEZONE", default_value = defaults::SERVE.timezone)]
    timezone: String,
    /// Runs active at once; more wait for a slot.
    #[arg(long, default_value_t = defaults::SERVE.slots)]
    slots: usize,
    /// What becomes of running steps when the server stops: `leave` lets them go on for the next server, `stop` stops them,
    /// `drain=DURATION` waits so long for their end and stops the rest [default: leave on SIGTERM, stop on Ctrl-C].
    #[arg(long, env = "CADRAN_ON_STOP", value_name = "WHAT", value_parser = on_stop::parse)]
    on_stop: Option<OnStop>,
    /// The same as `--on-stop drain=SECONDSs`.
    #[arg(long, value_name = "SECONDS", hide = true, conflicts_with = "on_stop")]
    stop_patience: Option<u64>,
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
    #[arg(long, env = "CADRAN_EXECUTOR_LISTEN", value_name = "ADDRESS", default_value = defaults::SERVE.executor_listen)]
    executor_listen: SocketAddr,
    /// Token shared with executors, for groups that have none of their own in the file.
    #[arg(long, env = "CADRAN_EXECUTOR_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    executor_token: Option<String>,
    /// Let executors add, change and remove no jobs (`addJob`, `updateJob`, `removeJob` of XXL-JOB 3.5).
    #[arg(long)]
    no_executor_jobs: bool,
    /// Change no job files, neither for the API nor for executors: they come from elsewhere, such as a repository.
    #[arg(long)]
    read_only_jobs: bool,
    /// Milliseconds between two looks at what executors have; waits for lost work shrink with it.
    #[arg(long, hide = true)]
    executor_look_ms: Option<u64>,
    /// Orders on their way at once in either lane to executors, and orders that wait in it: a test fills it with few.
    #[arg(long, hide = true)]
    executor_lane_len: Option<usize>,
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
    #[arg(long, env = "CADRAN_KEEP_DATABASE", value_name = "SIZE", value_parser = retention::bytes, default_value = defaults::RETENTION.database)]
    keep_database: u64,
    /// What all logs together may take of the disk; the oldest go first.
    #[arg(long, env = "CADRAN_KEEP_LOGS", value_name = "SIZE", value_parser = retention::bytes, default_value = defaults::RETENTION.logs)]
    keep_logs: u64,
    /// Milliseconds between two passes over what is past its retention.
    #[arg(long, hide = true)]
    prune_rest_ms: Option<u64>,
    /// Milliseconds a worker that is silent is believed to be at work.
    #[arg(long, hide = true)]
    worker_lease_ms: Option<u64>,
    /// A network that `http` steps may ask although it is not public, as 10.1.0.0/16 or 127.0.0.1; may be given several
    /// times.
    #[arg(long, env = "CADRAN_ALLOW_HTTP", value_name = "NET", value_delimiter = ',')]
    allow_http: Vec<AllowedNet>,
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

/// What the command line means, checked before anything is opened.
struct Options {
    zone: Zone,
    jobs: PathBuf,
    store_url: String,
    executors_file: PathBuf,
    engine: cadran_engine::Options,
    remote: RemoteOptions,
    hub: HubOptions,
    retention: retention::Options,
    on_stop: Option<OnStop>,
}

impl Options {
    fn read(args: &Args) -> anyhow::Result<Options> {
        if !args.listen.ip().is_loopback() && !args.behind_proxy {
            bail!(
                "{} can be reached from other machines, and the API speaks plain HTTP; listen on 127.0.0.1, or put a \
                 TLS proxy in front and say --behind-proxy",
                args.listen
            );
        }
        let data = &args.data;
        let zone = Zone::get(&args.timezone).map_err(|error| anyhow::anyhow!("--timezone: {error}"))?;
        let sqlite = || format!("sqlite:{}", data.join("cadran.db").display());
        Ok(Options {
            zone,
            jobs: args.jobs.clone().unwrap_or_else(|| data.join("jobs")),
            store_url: args.store.clone().unwrap_or_else(sqlite),
            executors_file: args.executors.clone().unwrap_or_else(|| data.join("executors.yaml")),
            engine: engine_options(args),
            remote: remote_options(args),
            hub: hub_options(args),
            retention: retention_options(args),
            on_stop: args.on_stop.clone().or(args.stop_patience.map(Duration::from_secs).map(OnStop::Drain)),
        })
    }
}

fn engine_options(args: &Args) -> cadran_engine::Options {
    let limits = Limits { slots: args.slots, ..Limits::default() };
    let mut options = defaults::engine(limits);
    if let Some(silent) = args.executor_silent_ms {
        options.silent_ms_max = silent.min(i64::MAX as u64) as i64;
    }
    options
}

fn remote_options(args: &Args) -> RemoteOptions {
    let mut options = RemoteOptions::new(&args.data);
    if let Some(look) = args.executor_look_ms.map(Duration::from_millis) {
        options.look_every = look;
        (options.idle_time_max, options.silent_time_max) = (look * 3, look * 6);
        (options.doubtful_time_max, options.timeout_margin) = (look * 60, look * 10);
    }
    if let Some(len) = args.executor_lane_len {
        (options.fast, options.slow) = ((len, len), (len, len));
    }
    options
}

fn hub_options(args: &Args) -> HubOptions {
    let mut options = HubOptions::new(&args.data);
    options.lease = args.worker_lease_ms.map_or(options.lease, Duration::from_millis);
    options
}

fn retention_options(args: &Args) -> retention::Options {
    let retention = Retention { days_max: args.keep_days, runs_max: args.keep_runs };
    let mut options = retention::Options::new(retention, args.keep_database, args.keep_logs);
    if let Some(rest) = args.prune_rest_ms.map(Duration::from_millis) {
        (options.rest_min, options.rest_max) = (rest, rest);
    }
    options
}

async fn serve(args: Args) -> anyhow::Result<ExitCode> {
    let mut options = Options::read(&args)?;
    let data = DataDir::open(&args.data)?;
    let jobs = options.jobs;
    make_jobs_folder(&jobs, args.jobs.is_some())?;
    let token = token::load_or_create(&args.data.join("token"))?;
    let (mut groups, fixed) =
        GroupsFile::open(options.executors_file, args.executors.is_some(), args.executor_token.clone())?;
    let store = Store::open(&options.store_url).await?;
    let name = data.server_name()?;
    // Before anything is taken up: a second server would start again what the first has on.
    let mut claim = store.claim(&name).await?;
    let listener =
        TcpListener::bind(args.listen).await.with_context(|| format!("cannot listen on {}", args.listen))?;
    let address = listener.local_addr()?;

    let clock = Clock::start();
    let loop_handle = LoopHandle::default();
    let logs = LogDir::new(args.data.join("logs"));
    let (local, mut found) =
        embedded::open(&args.data, args.slots, &args.allow_http, loop_handle.sink()).await?;
    let roster_file = options.remote.ledger.with_file_name("roster.json");
    let (remote, more, last_log) =
        Remote::open(options.remote, groups.tokens.clone(), clock::wall, loop_handle.sink())?;
    let remote = Arc::new(remote);
    found.extend(more);
    let listener_of_workers = Arc::new(OnceLock::new());
    let (hub, more, hub_last_log) = Hub::open(
        options.hub,
        move || clock.now(),
        loop_handle.sink(),
        presence_sink(listener_of_workers.clone()),
    )?;
    let hub = Arc::new(hub);
    found.extend(more);
    let last_log = last_log.max(hub_last_log);

    options.engine.server = store.enlist(&name, clock::wall()).await?;
    let mut engine = Engine::new(options.engine);
    let executors = Executors::new(
        loop_handle.clone(),
        clock,
        remote.clone(),
        hub.clone(),
        roster_file,
        &mut engine,
        fixed,
    );
    let executors = Arc::new(executors);
    let _ = listener_of_workers.set(executors.clone());
    let reading = super::files::options(options.zone);
    let problems = Problems::default();
    for damage in [local.damage(), remote.damage(), hub.damage()].into_iter().flatten() {
        let help = "check the disk; runs that were on when the server ended may be started again";
        problems.add(None, &damage.path.display().to_string(), "error", "damaged", damage.to_string(), help);
    }
    let from_file = |source: &str| job_folder::read_job_file(&jobs, source, &reading);
    let files =
        recovery::restore(&store, &mut engine, found, last_log, clock.now(), from_file, &problems).await?;
    let mut folder = Folder::new(&jobs, reading.clone());
    folder.known(files);
    folder
        .known_children(engine.catalog().parents().map(|(name, children)| (name.clone(), children.to_vec())));
    folder.known_calls(engine.catalog().callers().map(|(name, calls)| (name.clone(), calls)));
    // The files are read before the first tick: what was edited or deleted while the server was away counts.
    let scan = folder.scan(clock::wall());
    engine.handle(Event::Jobs(job_folder::job_changes(scan, &jobs, &problems)), clock.now());
    let job_count = engine.catalog().len();

    // From here on a signal is a request to stop in good order, also one that comes before we are ready.
    let mut stops = StopSignals::listen()?;
    let mut reloads = signal(SignalKind::hangup())?;
    let supervisor = Arc::new(Supervisor::from_env());
    let orders = dispatcher(local.clone(), remote, hub.clone());
    let running = server::start(loop_handle.clone(), clock, engine, store.clone(), orders)?;
    let watch = job_folder::watch(folder, loop_handle.clone(), problems.clone(), running.events.clone())?;
    let job_files = JobFiles::new(&jobs, reading.clone(), watch.caller(), loop_handle.clone(), store.clone());
    let job_files = (!args.read_only_jobs).then(|| Arc::new(job_files));
    if let Some(job_files) = job_files.clone().filter(|_| !args.no_executor_jobs) {
        executors.let_write(job_files);
    }
    let pruner = Pruner::new(options.retention, store.clone(), logs.clone());
    let pruner = pruner.with_lists(running.lists.clone());
    let disk = pruner.report();
    let pruning = tokio::spawn(pruner.run());

    let api_facade =
        ApiFacade::new(&running, problems).with_executors(executors.clone()).with_local(local.clone());
    let api_facade = Arc::new(api_facade.with_disk(disk).with_job_files(&jobs, reading, job_files));
    let sessions = Sessions::open(&args.data.join("sessions.json"));
    let api =
        ApiState::new(api_facade, store, logs, token.hash()).with_sessions(sessions, args.host_name.clone());
    let api = cadran_http::router(api);
    let (stop_http, http_stopped) = tokio::sync::oneshot::channel::<()>();
    let until = async {
        let _ = http_stopped.await;
    };
    let http = cadran_http::serve(listener, api, until, cadran_http::Limits::default());
    let http = tokio::spawn(fatal::task("listener of the API", http));
    let executor_listener =
        ExecutorListener::open(args.executor_listen, &groups.tokens, executors, hub.clone()).await?;
    data.announce(address)?;
    println!(
        "cadran is ready: {job_count} jobs from {}, API on http://{address}, data in {}{}",
        jobs.display(),
        args.data.display(),
        executor_listener
            .as_ref()
            .map(|listener| format!(", executors on http://{}", listener.address))
            .unwrap_or_default()
    );

    supervisor.say("READY=1");
    let feeding = tokio::spawn({
        let (supervisor, health) = (supervisor.clone(), running.health.clone());
        async move { supervisor.feed_watchdog(&health).await }
    });

    let why = loop {
        tokio::select! {
            signal = stops.next() => break Ok(signal),
            by = claim.lost() => break Err(by),
            _ = reloads.recv() => {
                job_folder::reload(watch.caller());
                groups.reload(&loop_handle);
            }
        }
    };
    supervisor.say("STOPPING=1");
    let on_stop = match &why {
        Ok(signal) => OnStop::of(options.on_stop, *signal, &options.store_url),
        Err(by) => {
            tracing::error!("{by}: this one must not go on, and stops");
            // What runs here is started again by the server that claimed the record: it must not run here too.
            OnStop::Stop
        }
    };
    tracing::info!("stopping; {}", on_stop.sentence());
    drop(watch);
    pruning.abort();
    let _ = stop_http.send(());
    let stopping = running.stop(async {
        on_stop.carry_out(&local, &args.data).await;
    });
    tokio::select! {
        () = stopping => {}
        _ = stops.next() => {
            if on_stop != OnStop::Leave {
                local.drain(Duration::ZERO).await;
            }
            bail!("stopped at once; runs that were cut off are taken up at the next start")
        }
    }
    let _ = http.await;
    feeding.abort();
    hub.stop();
    if let Some(listener) = executor_listener {
        listener.close().await;
    }
    data.withdraw();
    if let Err(by) = why {
        bail!("{by}; one server works on a record at a time");
    }
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// The default folder is made when it is missing. One that was named must be there: a wrong name would mean no jobs.
fn make_jobs_folder(jobs: &Path, was_named: bool) -> anyhow::Result<()> {
    if !was_named {
        cadran_files::create_dir(jobs).with_context(|| format!("cannot make {}", jobs.display()))?;
    } else if !jobs.is_dir() {
        bail!("the jobs folder {} does not exist; make it, or name another with --jobs", jobs.display());
    }
    Ok(())
}

/// Where the hub tells of workers that come and go. The executors are made after the hub, hence the cell.
fn presence_sink(executors: Arc<OnceLock<Arc<Executors>>>) -> impl Fn(Vec<Presence>) + Send + Sync {
    move |changes| {
        if let Some(executors) = executors.get() {
            executors.workers(changes);
        }
    }
}
