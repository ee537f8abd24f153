//! The running server: the loop, what feeds it, and what it feeds.

pub mod clock;
mod desk;
mod exclusions;
pub mod executors;
pub mod inbox;
mod indexer;
mod job_files;
pub mod metrics;
pub mod recorder;
pub mod revive;
pub mod turn;

use std::sync::Arc;
use std::thread;

use cadran_core::{Command, Refusal, Reply, Report};
use cadran_engine::{Engine, Event};
use cadran_exec::Sink;
use cadran_http::EventLog;
use cadran_store::Store;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

pub use desk::{Desk, Problems};
pub use exclusions::exclusions;
pub use executors::Executors;
pub use job_files::JobFiles;

use clock::Clock;
use inbox::Inbox;
use metrics::Metrics;
use recorder::StoreHealth;
use turn::{Mail, Orders, Turn};

/// Mail from outside that may wait for one turn of the loop: far more than arrives in one, far less than hurts.
const INBOX_MAX: usize = 10_000;

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
        answer.await.unwrap_or(Err(Refusal::Busy("the server is stopping; try again when it is back")))
    }

    /// Looks at the engine between two turns. `None` when the loop has ended.
    pub fn look<T: Send + 'static>(&self, look: impl FnOnce(&Engine) -> T + Send + 'static) -> Option<T> {
        let (sender, answer) = std::sync::mpsc::sync_channel(1);
        let look = Box::new(move |engine: &Engine| {
            let _ = sender.send(look(engine));
        });
        self.inbox.offer(Mail::Look(look)).ok()?;
        answer.recv().ok()
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
    /// Whether its record can be written.
    pub health: StoreHealth,
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
    let health = StoreHealth::good();
    let recording = tokio::spawn(recorder::record(
        store.clone(),
        to_record,
        line.inbox.clone(),
        health.clone(),
        events.clone(),
    ));
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
    };
    let turning = thread::Builder::new().name("cadran-loop".into()).spawn(move || turn.run())?;
    Ok(Running { line, clock, store, events, metrics: handle, health, turning, recording })
}

impl Running {
    /// Ends the loop: nothing new starts from here on. `drain` is awaited while reports still come in; then what is
    /// left is made durable.
    pub async fn stop(self, drain: impl Future<Output = ()>) {
        self.line.tell(Event::Stopping);
        drain.await;
        self.line.inbox.put(Mail::End);
        // The loop drops its end of the recorder's channel, which ends the recorder after the last batch.
        let turning = self.turning;
        let _ = tokio::task::spawn_blocking(move || turning.join()).await;
        let _ = self.recording.await;
        self.line.inbox.close();
        self.store.close().await;
    }
}
