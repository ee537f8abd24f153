//! The running server: the loop, what feeds it, and what it feeds.

pub mod clock;
mod desk;
mod exclusions;
pub mod executors;
pub mod fatal;
mod fault;
pub mod health;
pub mod inbox;
mod indexer;
mod job_files;
pub mod metrics;
mod problems;
pub mod recorder;
pub mod retention;
pub mod revive;
pub mod run_log;
pub mod sd_notify;
pub mod turn;

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Duration;

use cadran_core::{Command, Refusal, Reply, Report};
use cadran_engine::{Engine, Event};
use cadran_exec::Sink;
use cadran_http::EventLog;
use cadran_store::Store;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

pub use desk::Desk;
pub use exclusions::exclusions;
pub use executors::Executors;
pub use job_files::JobFiles;
pub use problems::Problems;

use clock::Clock;
use health::HealthMonitor;
use inbox::Inbox;
use metrics::Metrics;
use turn::{Mail, Orders, Turn};

/// Mail from outside that may wait for one turn of the loop: far more than arrives in one, far less than hurts.
const INBOX_MAX: usize = 10_000;

/// How long a command may wait until it is durable. Below what an endpoint has for its answer, so that whoever asks is
/// told that the outcome is not known.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(20);

/// How long a look at the engine may wait for the loop, which turns at least once a second.
const LOOK_TIME_MAX: Duration = Duration::from_secs(5);

/// The way to the loop, before and while it runs. Cheap to clone.
#[derive(Clone)]
pub struct Line {
    inbox: Arc<Inbox<Mail>>,
}

impl Default for Line {
    fn default() -> Line {
        Line { inbox: Arc::new(Inbox::new(INBOX_MAX)) }
    }
}

impl Line {
    /// Where an executor's reports go.
    pub fn sink(&self) -> Sink {
        let inbox = self.inbox.clone();
        Arc::new(move |reports: Vec<Report>| inbox.put(Mail::Event(Event::Reports(reports))))
    }

    /// Tells the engine what happened.
    pub fn tell(&self, event: Event) {
        self.inbox.put(Mail::Event(event));
    }

    /// Asks for something, and waits until the answer is durable.
    pub async fn command(&self, command: Command) -> Result<Reply, Refusal> {
        let (sender, answer) = oneshot::channel();
        if self.inbox.offer(Mail::Command(command, sender)).is_err() {
            return Err(Refusal::Busy("the server is too busy to take commands; try again in a moment"));
        }
        match tokio::time::timeout(COMMAND_TIME_MAX, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Refusal::Unknown("the server stopped before it was on record")),
            Err(_) => Err(Refusal::Unknown("it was not on record within 20 s")),
        }
    }

    /// Looks at the engine between two turns. Must not be called on an async thread unless that may block.
    pub fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Engine) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let (sender, answer) = std::sync::mpsc::sync_channel(1);
        let look = Box::new(move |engine: &Engine| {
            let _ = sender.send(look(engine));
        });
        if self.inbox.offer(Mail::Look(look)).is_err() {
            return Err(Refusal::Busy("the server is too busy to answer; try again in a moment"));
        }
        answer.recv_timeout(LOOK_TIME_MAX).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                Refusal::Busy("the loop of the server did not answer within 5 s; GET /health says more")
            }
            RecvTimeoutError::Disconnected => {
                Refusal::Busy("the server is stopping; try again when it is back")
            }
        })
    }
}

/// A loop that runs.
pub struct Running {
    /// The way to it.
    pub line: Line,
    /// Its clock.
    pub clock: Clock,
    /// Its record.
    pub store: Store,
    /// Its events.
    pub events: Arc<EventLog>,
    /// Its counters.
    pub metrics: PrometheusHandle,
    /// How long ago each part of it showed that it works.
    pub health: HealthMonitor,
    pings: JoinHandle<()>,
    turning: thread::JoinHandle<()>,
    recording: JoinHandle<()>,
}

/// Starts the loop over an engine that was restored from the store. Must be called on the async runtime.
pub fn start(
    line: Line,
    clock: Clock,
    engine: Engine,
    store: Store,
    orders: Orders,
) -> std::io::Result<Running> {
    let events = Arc::new(EventLog::new(clock::wall()));
    let (batches, to_record) = mpsc::unbounded_channel();
    let (metrics, handle) = Metrics::new();
    let health = HealthMonitor::new(clock);
    let recording =
        recorder::record(store.clone(), to_record, line.inbox.clone(), health.clone(), events.clone());
    let recording = tokio::spawn(fatal::task("recorder", recording));
    let pings = tokio::spawn(health.clone().ping(store.clone()));
    let turn = Turn {
        engine,
        clock,
        inbox: line.inbox.clone(),
        batches,
        orders,
        recall: revive::recaller(store.clone(), line.clone(), tokio::runtime::Handle::current()),
        builds: indexer::start(line.inbox.clone())?,
        events: events.clone(),
        metrics,
        health: health.clone(),
        run_log: run_log::RunLog::start(),
    };
    let turning =
        thread::Builder::new().name("cadran-loop".into()).spawn(fatal::thread("loop", || turn.run()))?;
    Ok(Running { line, clock, store, events, metrics: handle, health, pings, turning, recording })
}

impl Running {
    /// Ends the loop: nothing new starts from here on. `drain` is awaited while reports still come in; then what is
    /// left is made durable.
    pub async fn stop(self, drain: impl Future<Output = ()>) {
        self.health.stopping();
        self.line.tell(Event::Stopping);
        drain.await;
        self.line.inbox.put(Mail::End);
        // The loop drops its end of the recorder's channel, which ends the recorder after the last batch.
        let turning = self.turning;
        let _ = tokio::task::spawn_blocking(move || turning.join()).await;
        let _ = self.recording.await;
        self.line.inbox.close();
        self.pings.abort();
        self.store.close().await;
    }
}
