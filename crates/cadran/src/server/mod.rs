//! The running server: the loop, what feeds it, and what it feeds.

mod api_facade;
pub mod clock;
pub mod data_dir;
pub mod dispatch;
pub mod embedded;
pub mod event_loop;
mod exclusions;
pub mod executor_listener;
pub mod executors;
pub mod fatal;
mod fault;
pub mod health;
pub mod inbox;
mod indexer;
mod job_definitions;
mod job_files;
pub mod job_folder;
pub mod metrics;
pub mod on_stop;
mod problems;
pub mod recorder;
pub mod recovery;
pub mod retention;
pub mod run_log;
pub mod sd_notify;
pub mod signals;

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;

use cadran_core::{Command, Refusal, Reply, Report};
use cadran_engine::{Engine, Event};
use cadran_exec::Sink;
use cadran_http::{EventLog, Lists};
use cadran_store::Store;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

pub use api_facade::ApiFacade;
pub use exclusions::exclusions;
pub use executors::Executors;
pub use job_files::JobFiles;
pub use problems::Problems;

use crate::defaults::LOOP;
use clock::Clock;
use event_loop::{EventLoop, Message, Orders};
use health::HealthMonitor;
use inbox::Inbox;
use metrics::Metrics;

/// Sends events, commands and queries to the event loop, before and while it runs. Cheap to clone.
#[derive(Clone)]
pub struct LoopHandle {
    inbox: Arc<Inbox<Message>>,
}

impl Default for LoopHandle {
    fn default() -> LoopHandle {
        LoopHandle { inbox: Arc::new(Inbox::new(LOOP.inbox_len_max)) }
    }
}

impl LoopHandle {
    /// Where an executor's reports go.
    pub fn sink(&self) -> Sink {
        let inbox = self.inbox.clone();
        Arc::new(move |reports: Vec<Report>| inbox.put(Message::Event(Event::Reports(reports))))
    }

    /// Tells the engine what happened.
    pub fn send(&self, event: Event) {
        self.inbox.put(Message::Event(event));
    }

    /// Asks for something, and waits until the answer is durable.
    pub async fn command(&self, command: Command) -> Result<Reply, Refusal> {
        let (sender, answer) = oneshot::channel();
        if self.inbox.offer(Message::Command(command, sender)).is_err() {
            return Err(Refusal::Busy("the server is too busy to take commands; try again in a moment"));
        }
        match tokio::time::timeout(LOOP.command_timeout, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Refusal::Unknown("the server stopped before it was on record")),
            Err(_) => Err(Refusal::Unknown("it was not on record within 20 s")),
        }
    }

    /// Asks the engine between two iterations. Must not be called on an async thread unless that may block.
    pub fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Engine) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let (sender, answer) = std::sync::mpsc::sync_channel(1);
        let query = Box::new(move |engine: &Engine| {
            let _ = sender.send(query(engine));
        });
        if self.inbox.offer(Message::Query(query)).is_err() {
            return Err(Refusal::Busy("the server is too busy to answer; try again in a moment"));
        }
        answer.recv_timeout(LOOP.query_timeout).map_err(|error| match error {
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
    /// Sends to it.
    pub loop_handle: LoopHandle,
    /// Its clock.
    pub clock: Clock,
    /// Its record.
    pub store: Store,
    /// Its events.
    pub events: Arc<EventLog>,
    /// Its jobs, runs and skips in short.
    pub lists: Arc<Lists>,
    /// Its counters.
    pub metrics: PrometheusHandle,
    /// How long ago each part of it showed that it works.
    pub health: HealthMonitor,
    pings: JoinHandle<()>,
    loop_thread: thread::JoinHandle<()>,
    recording: JoinHandle<()>,
}

/// Starts the loop over an engine that was restored from the store. Must be called on the async runtime.
pub fn start(
    loop_handle: LoopHandle,
    clock: Clock,
    engine: Engine,
    store: Store,
    orders: Orders,
) -> std::io::Result<Running> {
    let events = Arc::new(EventLog::new(clock::wall()));
    let (batches, to_record) = mpsc::unbounded_channel();
    let (metrics, handle) = Metrics::new();
    let health = HealthMonitor::new(clock);
    let lists = Arc::new(Lists::start(store.clone(), tokio::runtime::Handle::current(), clock::wall)?);
    let watchers = recorder::Watchers { events: events.clone(), lists: lists.clone() };
    let recording =
        recorder::record(store.clone(), to_record, loop_handle.inbox.clone(), health.clone(), watchers);
    let recording = tokio::spawn(fatal::task("recorder", recording));
    let pings = tokio::spawn(health.clone().ping(store.clone()));
    let event_loop = EventLoop {
        engine,
        clock,
        inbox: loop_handle.inbox.clone(),
        batches,
        orders,
        recall: recovery::recaller(store.clone(), loop_handle.clone(), tokio::runtime::Handle::current()),
        builds: indexer::start(loop_handle.inbox.clone())?,
        events: events.clone(),
        metrics,
        health: health.clone(),
        run_log: run_log::RunLog::start(),
    };
    let loop_thread = thread::Builder::new()
        .name("cadran-loop".into())
        .spawn(fatal::thread("loop", || event_loop.run()))?;
    Ok(Running {
        loop_handle,
        clock,
        store,
        events,
        lists,
        metrics: handle,
        health,
        pings,
        loop_thread,
        recording,
    })
}

impl Running {
    /// Ends the loop: nothing new starts from here on. `drain` is awaited while reports still come in; then what is
    /// left is made durable.
    pub async fn stop(self, drain: impl Future<Output = ()>) {
        self.health.stopping();
        self.loop_handle.send(Event::Stopping);
        drain.await;
        self.loop_handle.inbox.put(Message::End);
        // The loop drops its end of the recorder's channel, which ends the recorder after the last batch.
        let loop_thread = self.loop_thread;
        let _ = tokio::task::spawn_blocking(move || loop_thread.join()).await;
        let _ = self.recording.await;
        self.loop_handle.inbox.close();
        self.pings.abort();
        self.store.close().await;
    }
}
