//! The server's side of the API: commands and queries for the event loop, health, metrics, problems.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use cadran_core::{
    Command, Footprint, Holding, JobId, JobName, Millis, Overlap, Refusal, Reply, RunId, StepRecord, Waiting,
};
use cadran_engine::Engine;
use cadran_exec::Embedded;
use cadran_http::{
    EventLog, ExecutorGroup, ExpectedFile, FileProblem, Health, JobConflict, JobFileRefusal, JobFileSaved,
    Lists, Server,
};
use cadran_spec::{RESOURCES_FILE, ReadOptions, Resources};
use futures::future::BoxFuture;
use metrics_exporter_prometheus::PrometheusHandle;

use super::clock;
use super::exclusions::exclusions;
use super::health::{self, HealthMonitor};
use super::retention::DiskReport;
use super::{Executors, JobFiles, LoopHandle, Problems, Running, fault};

/// A week: what an answer about the future may cover. More is a question for one job's calendar.
const UPCOMING_MS_MAX: Millis = 7 * 86_400_000;

/// The server's side of the API.
pub struct ApiFacade {
    loop_handle: LoopHandle,
    metrics: PrometheusHandle,
    health: HealthMonitor,
    events: Arc<EventLog>,
    lists: Arc<Lists>,
    conflicts: Mutex<Option<KnownConflicts>>,
    problems: Problems,
    executors: Option<Arc<Executors>>,
    local: Option<Arc<Embedded>>,
    disk: DiskReport,
    jobs: PathBuf,
    reading: ReadOptions,
    /// Without it nobody writes job files.
    job_files: Option<Arc<JobFiles>>,
}

/// Which jobs can exclude which, until a job changes.
struct KnownConflicts {
    generation: u64,
    list: Arc<Vec<JobConflict>>,
    cut: bool,
}

impl ApiFacade {
    /// For a running loop.
    pub fn new(running: &Running, problems: Problems) -> ApiFacade {
        ApiFacade {
            loop_handle: running.loop_handle.clone(),
            metrics: running.metrics.clone(),
            health: running.health.clone(),
            events: running.events.clone(),
            lists: running.lists.clone(),
            conflicts: Mutex::default(),
            problems,
            executors: None,
            local: None,
            disk: DiskReport::default(),
            jobs: PathBuf::new(),
            reading: ReadOptions::default(),
            job_files: None,
        }
    }

    /// With the executor of this machine.
    pub fn with_local(mut self, local: Arc<Embedded>) -> ApiFacade {
        self.local = Some(local);
        self
    }

    /// With what the data takes of the disk.
    pub fn with_disk(mut self, disk: DiskReport) -> ApiFacade {
        self.disk = disk;
        self
    }

    /// With executors elsewhere.
    pub fn with_executors(mut self, executors: Arc<Executors>) -> ApiFacade {
        self.executors = Some(executors);
        self
    }

    /// With the folder of job files and the way they are read.
    pub fn with_job_files(
        mut self,
        jobs: &Path,
        reading: ReadOptions,
        writer: Option<Arc<JobFiles>>,
    ) -> ApiFacade {
        (self.jobs, self.reading) = (jobs.to_owned(), reading);
        self.job_files = writer;
        self
    }

    /// Queries the engine from an async thread: the loop answers within an iteration.
    fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Engine) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        tokio::task::block_in_place(|| self.loop_handle.query(query))
    }

    /// The loop gives an outlook and, later, the names of the jobs; the dues are found here, since the loop has runs
    /// to start.
    fn upcoming_of_all(
        &self,
        from: Millis,
        to: Millis,
        limit: usize,
    ) -> Result<Vec<(Millis, JobName)>, Refusal> {
        let outlook = self.loop_handle.query(|engine| engine.planner().outlook())?;
        let dues = outlook.dues(from, to, limit);
        self.loop_handle.query(move |engine| {
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
    ) -> Result<Vec<(Millis, JobName)>, Refusal> {
        let wanted = name.clone();
        let query =
            move |engine: &Engine| Some((engine.catalog().find(&wanted)?, engine.planner().outlook()));
        let Some((job, outlook)) = self.loop_handle.query(query)? else { return Ok(Vec::new()) };
        let dues = outlook.dues_of(job, from, to, limit);
        Ok(dues.into_iter().map(|due| (due, name.clone())).collect())
    }
}

impl ApiFacade {
    /// What jobs declare to touch, by name.
    fn declared(&self) -> Result<Vec<(String, Footprint, Overlap)>, Refusal> {
        self.query(|engine| {
            let jobs = engine.catalog().touching();
            let jobs = jobs.filter_map(|(name, body, policy)| {
                Some((name.to_string(), body.footprint.as_written()?, policy.overlap))
            });
            jobs.collect()
        })
    }
}

impl Server for ApiFacade {
    fn command(&self, command: Command) -> BoxFuture<'static, Result<Reply, Refusal>> {
        let loop_handle = self.loop_handle.clone();
        Box::pin(async move { loop_handle.command(command).await })
    }

    fn upcoming(
        &self,
        from: Millis,
        to: Millis,
        job: Option<&JobName>,
        limit: usize,
    ) -> Result<Vec<(Millis, JobName)>, Refusal> {
        let from = from.saturating_add(1);
        let to = to.min(from.saturating_add(UPCOMING_MS_MAX)).saturating_add(1);
        tokio::task::block_in_place(|| match job {
            Some(name) => self.upcoming_of(name, from, to, limit),
            None => self.upcoming_of_all(from, to, limit),
        })
    }

    fn forecast(&self, from: Millis, minutes: usize) -> Result<Vec<u64>, Refusal> {
        let counts = tokio::task::block_in_place(|| {
            let outlook = self.loop_handle.query(|engine| engine.planner().outlook())?;
            Ok::<_, Refusal>(outlook.counts_per_minute(from, minutes))
        })?;
        Ok(counts.into_iter().map(u64::from).collect())
    }

    fn next_dues(&self, jobs: Vec<JobName>) -> Result<Vec<Option<Millis>>, Refusal> {
        let now = clock::wall();
        let next = move |engine: &Engine, job| next_due(engine, engine.catalog().find(&job)?, now);
        self.query(move |engine| jobs.into_iter().map(|job| next(engine, job)).collect())
    }

    fn why(&self, run: RunId) -> Result<(Option<Waiting>, Option<Holding>), Refusal> {
        self.query(move |engine| (engine.why(run), engine.holding(run)))
    }

    fn waitings(&self, runs: Vec<RunId>) -> Result<Vec<Option<Waiting>>, Refusal> {
        self.query(move |engine| runs.into_iter().map(|run| engine.why(run)).collect())
    }

    fn conflicts(&self) -> Result<(Arc<Vec<JobConflict>>, bool), Refusal> {
        fault::point("handler");
        let generation = self.lists.generation();
        let mut known = self.conflicts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_ref().filter(|known| known.generation == generation) {
            return Ok((known.list.clone(), known.cut));
        }
        let declared = self.declared()?;
        // Compared here, not in the loop, which has runs to start.
        let (list, cut) = exclusions(declared);
        let made = known.insert(KnownConflicts { generation, list: Arc::new(list), cut });
        Ok((made.list.clone(), made.cut))
    }

    fn conflicts_with(
        &self,
        job: JobName,
        declares: Option<(Footprint, Overlap)>,
    ) -> Result<Vec<JobConflict>, Refusal> {
        let mut declared = self.declared()?;
        let name = job.to_string();
        declared.retain(|(other, ..)| *other != name);
        declared.extend(declares.map(|(footprint, overlap)| (name.clone(), footprint, overlap)));
        let (mut list, _) = exclusions(declared);
        list.retain(|row| row.job == name || row.other == name);
        Ok(list)
    }

    fn may_write_jobs(&self) -> bool {
        self.job_files.is_some()
    }

    fn write_job_file(
        &self,
        job: JobName,
        text: Option<String>,
        expected: ExpectedFile,
    ) -> BoxFuture<'static, Result<JobFileSaved, JobFileRefusal>> {
        let (writer, reading) = (self.job_files.clone(), self.read_options());
        Box::pin(async move {
            let writer = writer.ok_or(JobFileRefusal::ReadOnly)?;
            writer.save(&job, text, expected, &reading).await
        })
    }

    fn file_problems(&self) -> Vec<FileProblem> {
        self.problems.all()
    }

    fn read_options(&self) -> ReadOptions {
        // The resources file may have been edited since the start; one with an error counts as none here.
        let text = cadran_spec::read_file(&self.jobs.join(RESOURCES_FILE)).unwrap_or_default();
        let resources = Resources::read(&text).unwrap_or_default();
        ReadOptions { resources: Arc::new(resources), ..self.reading.clone() }
    }

    fn job_file(&self, source: &str) -> Option<String> {
        let text = cadran_spec::read_file(&self.jobs.join(source)).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    }

    fn metrics(&self) -> String {
        let mut text = self.metrics.render();
        text.extend(self.executors.iter().map(|executors| executors.metrics()));
        text.push_str(&health::metrics(&self.health()));
        text
    }

    fn executors(&self) -> Result<Vec<ExecutorGroup>, Refusal> {
        self.executors.as_ref().map_or_else(|| Ok(Vec::new()), |executors| executors.groups())
    }

    fn refresh_logs(&self, run: RunId, steps: &[StepRecord], is_over: bool) -> BoxFuture<'static, ()> {
        match &self.executors {
            Some(executors) => executors.refresh_logs(run, steps, is_over),
            None => Box::pin(std::future::ready(())),
        }
    }

    fn health(&self) -> Health {
        Health { disk: self.disk.get(), ..self.health.health(self.local.as_deref()) }
    }

    fn now(&self) -> Millis {
        clock::wall()
    }

    fn load(&self) -> (usize, usize) {
        self.query(Engine::active_and_waiting).unwrap_or_default()
    }

    fn lists(&self) -> Arc<Lists> {
        self.lists.clone()
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
