//! What the API sees of the running server.

use std::sync::{Arc, PoisonError, RwLock};

use cadran_core::{Command, Holding, JobId, JobName, Millis, Refusal, Reply, RunId, StepRecord, Waiting};
use cadran_engine::Engine;
use cadran_http::{EventLog, ExecutorGroup, FileProblem, Health, JobConflict, Server};
use futures::future::BoxFuture;
use metrics_exporter_prometheus::PrometheusHandle;

use super::clock::{self, Clock};
use super::exclusions::exclusions;
use super::recorder::StoreHealth;
use super::{Executors, Line, Running};

/// What is wrong with job files at this moment, as the watcher last saw it.
pub type Problems = Arc<RwLock<Vec<FileProblem>>>;

/// A week: what an answer about the future may cover. More is a question for one job's calendar.
const UPCOMING_MS_MAX: Millis = 7 * 86_400_000;

/// The server's side of the API.
pub struct Desk {
    line: Line,
    clock: Clock,
    metrics: PrometheusHandle,
    health: StoreHealth,
    events: Arc<EventLog>,
    problems: Problems,
    executors: Option<Arc<Executors>>,
}

impl Desk {
    /// For a running loop.
    pub fn new(running: &Running, problems: Problems) -> Desk {
        Desk {
            line: running.line.clone(),
            clock: running.clock,
            metrics: running.metrics.clone(),
            health: running.health.clone(),
            events: running.events.clone(),
            problems,
            executors: None,
        }
    }

    /// With executors elsewhere.
    pub fn with_executors(mut self, executors: Arc<Executors>) -> Desk {
        self.executors = Some(executors);
        self
    }

    /// A look at the engine from an async thread: the loop answers within a turn.
    fn look<T: Send + 'static>(&self, look: impl FnOnce(&Engine) -> T + Send + 'static) -> Option<T> {
        tokio::task::block_in_place(|| self.line.look(look))
    }

    /// The loop gives an outlook and, later, the names of the jobs; the dues are found here, since the loop has runs
    /// to start. `None` when the loop has ended.
    fn upcoming_of_all(&self, from: Millis, to: Millis, limit: usize) -> Option<Vec<(Millis, JobName)>> {
        let outlook = self.line.look(|engine| engine.planner().outlook())?;
        let dues = outlook.dues(from, to, limit);
        self.line.look(move |engine| {
            let name = |(due, job)| Some((due, engine.catalog().name(job)?.clone()));
            dues.into_iter().filter_map(name).collect()
        })
    }

    fn upcoming_of(
        &self,
        name: &JobName,
        from: Millis,
        to: Millis,
        limit: usize,
    ) -> Option<Vec<(Millis, JobName)>> {
        let wanted = name.clone();
        let look = move |engine: &Engine| Some((engine.catalog().find(&wanted)?, engine.planner().outlook()));
        let (job, outlook) = self.line.look(look)??;
        let dues = outlook.dues_of(job, from, to, limit);
        Some(dues.into_iter().map(|due| (due, name.clone())).collect())
    }
}

impl Server for Desk {
    fn command(&self, command: Command) -> BoxFuture<'static, Result<Reply, Refusal>> {
        let line = self.line.clone();
        Box::pin(async move { line.command(command).await })
    }

    fn upcoming(
        &self,
        from: Millis,
        to: Millis,
        job: Option<&JobName>,
        limit: usize,
    ) -> Vec<(Millis, JobName)> {
        let from = from.saturating_add(1);
        let to = to.min(from.saturating_add(UPCOMING_MS_MAX)).saturating_add(1);
        tokio::task::block_in_place(|| match job {
            Some(name) => self.upcoming_of(name, from, to, limit),
            None => self.upcoming_of_all(from, to, limit),
        })
        .unwrap_or_default()
    }

    fn forecast(&self, from: Millis, minutes: usize) -> Vec<u64> {
        let counts = tokio::task::block_in_place(|| {
            let outlook = self.line.look(|engine| engine.planner().outlook())?;
            Some(outlook.counts_per_minute(from, minutes))
        });
        counts.unwrap_or_default().into_iter().map(u64::from).collect()
    }

    fn next_due(&self, job: &JobName) -> Option<Millis> {
        let (job, now) = (job.clone(), clock::wall());
        self.look(move |engine| next_due(engine, engine.catalog().find(&job)?, now)).flatten()
    }

    fn why(&self, run: RunId) -> (Option<Waiting>, Option<Holding>) {
        self.look(move |engine| (engine.why(run), engine.holding(run))).unwrap_or_default()
    }

    fn reasons(&self, runs: Vec<RunId>) -> Vec<Option<String>> {
        let reason = |engine: &Engine, run| engine.why(run).map(|why| why.sentence);
        self.look(move |engine| runs.into_iter().map(|run| reason(engine, run)).collect()).unwrap_or_default()
    }

    fn conflicts(&self) -> (Vec<JobConflict>, bool) {
        let declared = self.look(|engine| {
            let jobs = engine.catalog().touching();
            let jobs = jobs.filter_map(|(name, body, policy)| {
                Some((name.to_string(), body.footprint.as_written()?, policy.overlap))
            });
            jobs.collect::<Vec<_>>()
        });
        // Compared here, not in the loop, which has runs to start.
        exclusions(declared.unwrap_or_default())
    }

    fn file_problems(&self) -> Vec<FileProblem> {
        self.problems.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn metrics(&self) -> String {
        let mut text = self.metrics.render();
        text.extend(self.executors.iter().map(|executors| executors.metrics()));
        text
    }

    fn executors(&self) -> Vec<ExecutorGroup> {
        self.executors.as_ref().map(|executors| executors.groups()).unwrap_or_default()
    }

    fn refresh_logs(&self, run: RunId, steps: &[StepRecord], is_over: bool) -> BoxFuture<'static, ()> {
        match &self.executors {
            Some(executors) => executors.refresh_logs(run, steps, is_over),
            None => Box::pin(std::future::ready(())),
        }
    }

    fn health(&self) -> Health {
        Health {
            ready: true,
            store_ok: self.health.is_good(),
            stopping: false,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: self.clock.uptime().as_millis() as Millis,
        }
    }

    fn now(&self) -> Millis {
        clock::wall()
    }

    fn load(&self) -> (usize, usize) {
        self.look(Engine::active_and_waiting).unwrap_or_default()
    }

    fn next_dues(&self, jobs: &[JobName]) -> Vec<Option<Millis>> {
        let (jobs, now) = (jobs.to_vec(), clock::wall());
        let due = move |engine: &Engine, job: &JobName| next_due(engine, engine.catalog().find(job)?, now);
        self.look(move |engine| jobs.iter().map(|job| due(engine, job)).collect()).unwrap_or_default()
    }

    fn event_log(&self) -> Arc<EventLog> {
        self.events.clone()
    }
}

fn next_due(engine: &Engine, job: JobId, after: Millis) -> Option<Millis> {
    if engine.planner().is_paused(job) {
        return None;
    }
    engine.planner().fleet().schedules(job.0).filter_map(|schedule| schedule.next(after)).min()
}
