//! The test bench: a scripted server, the memory store with known records, a listener.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cadran_core::{
    Batch, Body, Command, History, Holding, JobId, JobName, JobPut, JobRemoved, JobState, Millis, Param,
    Policy, Promise, Refusal, Reply, RunId, RunStatus, RunUpdate, Skip, SkipReason, Step, StepNo, StepRecord,
    StepStatus, Trigger, Waiting, Work, Zone,
};
use cadran_exec::LogDir;
use cadran_http::{
    ApiState, EventLog, FileProblem, Health, JobConflict, Limits, Lists, LiveChange, Server, Token, router,
    serve,
};
use cadran_spec::{ScheduleText, encode};
use cadran_store::Store;
use futures::future::BoxFuture;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::wire::Wire;

/// 2026-11-15T22:00:00Z.
pub(crate) const NOW: Millis = 1_794_780_000_000;

/// A run that waits, once a test has made it.
pub(crate) const WAITING: u64 = 50;

type Answering = dyn Fn(&Command) -> Result<Reply, Refusal> + Send + Sync;

/// A server that says what it is told to say.
pub(crate) struct Scripted {
    pub(crate) commands: Mutex<Vec<Command>>,
    pub(crate) answering: Mutex<Box<Answering>>,
    pub(crate) health: Mutex<Health>,
    pub(crate) events: Arc<EventLog>,
    pub(crate) lists: Arc<Lists>,
    pub(crate) looks: AtomicUsize,
}

impl Server for Scripted {
    fn command(&self, command: Command) -> BoxFuture<'static, Result<Reply, Refusal>> {
        let answer = (self.answering.lock().unwrap())(&command);
        self.commands.lock().unwrap().push(command);
        Box::pin(async { answer })
    }

    fn upcoming(
        &self,
        from: Millis,
        to: Millis,
        job: Option<&JobName>,
        limit: usize,
    ) -> Result<Vec<(Millis, JobName)>, Refusal> {
        // One due of `nightly` a minute.
        let name: JobName = "nightly".parse().unwrap();
        if job.is_some_and(|job| *job != name) {
            return Ok(Vec::new());
        }
        let first = from.div_euclid(60_000) + 1;
        let dues = (first..).map(|no| no * 60_000).take_while(|due| *due <= to).take(limit);
        Ok(dues.map(|due| (due, name.clone())).collect())
    }

    fn forecast(&self, _: Millis, minutes: usize) -> Result<Vec<u64>, Refusal> {
        Ok(vec![1; minutes])
    }

    fn next_dues(&self, jobs: Vec<JobName>) -> Result<Vec<Option<Millis>>, Refusal> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        let next = |job: JobName| {
            assert_ne!(job.as_str(), "panics", "asked for a panic");
            (job.as_str() == "nightly").then_some(NOW + 60_000)
        };
        Ok(jobs.into_iter().map(next).collect())
    }

    fn why(&self, run: RunId) -> Result<(Option<Waiting>, Option<Holding>), Refusal> {
        // The run that waits in the records.
        let waiting = (run == RunId::from_raw(WAITING)).then(|| Waiting {
            sentence: "waiting for write of table:orders held by run 0000000000009 of job etl".into(),
            kind: "key",
            key: Some("table:orders".into()),
            wanted: Some("write".into()),
            holder: Some(RunId::from_raw(9)),
            holder_job: Some("etl".into()),
            held_since: Some(NOW - 1_000),
            in_line: false,
            since: Some(NOW),
            before: 2,
            ticket: true,
            tries: 4,
        });
        Ok((waiting, None))
    }

    fn waitings(&self, runs: Vec<RunId>) -> Result<Vec<Option<Waiting>>, Refusal> {
        runs.into_iter().map(|run| Ok(self.why(run)?.0)).collect()
    }

    fn lists(&self) -> Arc<Lists> {
        self.lists.clone()
    }

    fn conflicts(&self) -> Result<(Arc<Vec<JobConflict>>, bool), Refusal> {
        let row = JobConflict {
            job: "etl".into(),
            other: "report".into(),
            touches: "write of table:orders".into(),
            other_touches: "read of table:orders".into(),
            by_params: false,
        };
        Ok((Arc::new(vec![row]), false))
    }

    fn file_problems(&self) -> Vec<FileProblem> {
        vec![FileProblem {
            file: "nightly.yaml".into(),
            line: 3,
            column: 5,
            severity: "error".into(),
            code: "unknown_key".into(),
            message: "unknown key `shedule`".into(),
            help: Some("did you mean `schedule`?".into()),
            rendered: "nightly.yaml:3:5 …".into(),
        }]
    }

    fn metrics(&self) -> String {
        "cadran_ticks_total 1\n".into()
    }

    fn health(&self) -> Health {
        self.health.lock().unwrap().clone()
    }

    fn now(&self) -> Millis {
        NOW
    }

    fn load(&self) -> (usize, usize) {
        (3, 1)
    }

    fn event_log(&self) -> Arc<EventLog> {
        self.events.clone()
    }
}

/// Everything of one test.
pub(crate) struct Bench {
    pub(crate) server: Arc<Scripted>,
    pub(crate) store: Store,
    pub(crate) logs: LogDir,
    pub(crate) address: SocketAddr,
    pub(crate) token: Token,
    pub(crate) dir: tempfile::TempDir,
    stop: Option<oneshot::Sender<()>>,
    served: Option<JoinHandle<()>>,
}

impl Bench {
    pub(crate) async fn new() -> Bench {
        Bench::with(Limits::default()).await
    }

    pub(crate) async fn with(limits: Limits) -> Bench {
        let health = Health {
            ready: true,
            loop_ok: true,
            store_ok: true,
            executor_ok: true,
            version: "1.2.3".into(),
            uptime_ms: 42,
            loop_age_ms: 7,
            store_age_ms: 8,
            batch_age_ms: Some(9),
            ..Health::default()
        };
        let store = Store::open("memory:").await.unwrap();
        store.commit(&records()).await.unwrap();
        let lists = Lists::start(store.clone(), Handle::current(), || NOW).unwrap();
        let server = Arc::new(Scripted {
            lists: Arc::new(lists),
            commands: Mutex::default(),
            answering: Mutex::new(Box::new(|_| Ok(Reply::Done))),
            health: Mutex::new(health),
            events: Arc::new(EventLog::new(NOW)),
            looks: AtomicUsize::new(0),
        });
        let dir = tempfile::tempdir().unwrap();
        let logs = LogDir::new(dir.path().join("logs"));
        let token = Token::random().unwrap();
        let state = ApiState::new(server.clone(), store.clone(), logs.clone(), token.hash());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let served = tokio::spawn(serve(listener, router(state), async move { drop(stopped.await) }, limits));
        Bench { server, store, logs, address, token, dir, stop: Some(stop), served: Some(served) }
    }

    /// A client with the right token.
    pub(crate) fn wire(&self) -> Wire {
        Wire::new(self.address, Some(self.token.as_str()))
    }

    /// Tells the listener to stop and waits until it has.
    pub(crate) async fn stop(&mut self) {
        drop(self.stop.take());
        bounded(self.served.take().unwrap()).await.unwrap();
    }

    pub(crate) fn answer_with(
        &self,
        answering: impl Fn(&Command) -> Result<Reply, Refusal> + Send + Sync + 'static,
    ) {
        *self.server.answering.lock().unwrap() = Box::new(answering);
    }

    pub(crate) fn commands(&self) -> Vec<Command> {
        std::mem::take(&mut self.server.commands.lock().unwrap())
    }

    pub(crate) fn write_log(&self, run: RunId, no: u16, step: &str, attempt: u32, bytes: &[u8]) {
        let path = self.logs.path(run, StepNo(no), step, attempt);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// Appends as an executor does.
    pub(crate) fn append_log(&self, run: RunId, no: u16, step: &str, attempt: u32, bytes: &[u8]) {
        use std::io::Write;
        let path = self.logs.path(run, StepNo(no), step, attempt);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(bytes).unwrap();
    }

    /// Records a batch, as the server's recorder does.
    pub(crate) async fn commit(&self, batch: Batch) {
        let committed = self.store.commit(&batch).await.unwrap();
        self.server.lists.committed(batch, &committed.refused);
    }

    /// Records a run of `nightly` that is still to come.
    pub(crate) async fn promise(&self, no: u64) {
        let promised = vec![promise(no, Trigger::Schedule)];
        self.commit(Batch { promised, ..Batch::default() }).await;
    }

    /// Returns when everybody who follows has heard everything and listens again.
    pub(crate) async fn settle(&self) {
        self.server.events.push(vec![changed(run(999), RunStatus::Running)]);
        while !self.server.events.runs().is_empty() {
            tokio::task::yield_now().await;
        }
    }

    /// Records a change of a run, then says so.
    pub(crate) async fn change(&self, update: RunUpdate) {
        let change = changed(update.run, update.status);
        self.commit(Batch { runs: vec![update], ..Batch::default() }).await;
        self.server.events.push(vec![change]);
    }
}

/// A change of a run of `nightly`.
pub(crate) fn changed(run: RunId, status: RunStatus) -> LiveChange {
    LiveChange::Run { run, job: "nightly".parse().unwrap(), status }
}

/// What waits for something that may never come: a red test beats one that hangs.
pub(crate) async fn bounded<T>(something: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), something).await.expect("it came within a minute")
}

pub(crate) fn run(no: u64) -> RunId {
    RunId::from_raw(no)
}

pub(crate) fn step(name: &str, status: StepStatus, attempt: u32) -> StepRecord {
    StepRecord {
        name: name.into(),
        status,
        attempt,
        lost: 0,
        started_at: Some(NOW),
        ended_at: status.is_ended().then_some(NOW + 1_500),
        exit_code: status.is_ended().then_some(0),
        message: None,
        output: None,
        seats: Vec::new(),
        calls: Vec::new(),
    }
}

pub(crate) fn update(no: u64, status: RunStatus, steps: Vec<StepRecord>) -> RunUpdate {
    RunUpdate {
        run: run(no),
        status,
        attempt: 1,
        started_at: (status != RunStatus::Promised && status != RunStatus::Skipped).then_some(NOW + 25),
        ended_at: status.is_ended().then_some(NOW + 2_025),
        skip: (status == RunStatus::Skipped).then_some(SkipReason::Overlap),
        message: (status == RunStatus::Failed).then(|| "step build exited with code 2".into()),
        steps: Some(steps),
    }
}

fn promise(no: u64, trigger: Trigger) -> Promise {
    Promise {
        run: run(no),
        job: JobId(0),
        revision: 3,
        due: NOW + no as i64,
        trigger,
        promised_at: NOW - 5_000,
        params: if trigger == Trigger::Manual { vec![("who".into(), "me".into())] } else { Vec::new() },
        addresses: Vec::new(),
        parent: (trigger == Trigger::Manual).then(|| (run(10), 0)),
    }
}

/// At 02:30 in Paris: build, then ship.
fn definition() -> Arc<str> {
    let build = Step { name: "build".into(), work: Work::Shell("make".into()), ..Step::default() };
    let ship = Step {
        name: "ship it".into(),
        work: Work::Program(vec!["ship".into()]),
        depends: vec![StepNo(0)],
        ..Step::default()
    };
    let param = Param { name: Some("who".into()), default: "you".into(), required: false };
    let body = Body {
        description: "Builds and ships.".into(),
        labels: vec![("team".into(), "core".into())],
        env: vec![("PASSWORD".into(), "hunter2".into())],
        params: vec![param],
        steps: vec![build, ship],
        max_active_steps: 64,
        ..Body::default()
    };
    let zone = Zone::get("Europe/Paris").unwrap();
    encode(&[ScheduleText { zone, ..ScheduleText::new("30 2 * * *") }], &Policy::DEFAULT, &body)
}

/// `nightly` (job 0) with runs 10 (succeeded), 20 (failed), 30 (skipped), 40 (running) and skip 25; `paused` (job 1)
/// without runs; `gone` (job 2), removed.
fn records() -> Batch {
    let put = |no: u32, name: &str| JobPut {
        job: JobId(no),
        name: name.parse().unwrap(),
        revision: 3,
        definition: definition(),
        source: format!("{name}.yaml").into(),
        source_mark: "".into(),
        history: History::Days(30),
    };
    let state = |no: u32, paused_at: Option<Millis>| JobState {
        job: JobId(no),
        watermark: Some(NOW - 1_000),
        paused_at,
        holes: Vec::new(),
    };
    Batch {
        jobs: vec![put(0, "nightly"), put(1, "paused"), put(2, "gone")],
        removed: vec![JobRemoved { job: JobId(2), at: NOW - 9_000 }],
        states: vec![state(0, None), state(1, Some(NOW - 60_000))],
        promised: vec![
            promise(10, Trigger::Schedule),
            promise(20, Trigger::CatchUp),
            promise(30, Trigger::Schedule),
            promise(40, Trigger::Manual),
        ],
        runs: vec![
            update(10, RunStatus::Succeeded, vec![step("build", StepStatus::Succeeded, 1)]),
            update(20, RunStatus::Failed, vec![step("build", StepStatus::Failed, 2)]),
            update(30, RunStatus::Skipped, Vec::new()),
            update(
                40,
                RunStatus::Running,
                vec![step("build", StepStatus::Running, 1), step("ship it", StepStatus::Pending, 0)],
            ),
        ],
        skips: vec![Skip {
            id: run(25),
            job: JobId(0),
            first_due: NOW - 300_000,
            last_due: NOW - 60_000,
            count: 5,
            reason: SkipReason::Superseded,
            at: NOW,
        }],
        ..Batch::default()
    }
}
