//! Executors elsewhere: who registers, what they report, and their logs.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cadran_core::{
    Address, Command, Dialect, Executor, GroupName, JobId, JobName, Refusal, Reply, RunId, StepNo, StepRecord,
};
use cadran_engine::{Engine, Event, ExecutorChange};
use cadran_exec::worker::{HubCounts, Presence};
use cadran_exec::xxl::wire::RunResult;
use cadran_exec::xxl::{RemoteCounts, RemoteLog};
use cadran_exec::{Hub, Remote};
use cadran_http::{ExecutorApi, ExecutorCallCounts, ExecutorGroup, ExecutorLine, JobCall};
use cadran_place::{GROUPS_MAX, MEMBERS_MAX};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::clock::Clock;
use super::{JobFiles, LoopHandle};

/// The server's side of everything about executors.
pub struct Executors {
    loop_handle: LoopHandle,
    clock: Clock,
    remote: Arc<Remote>,
    hub: Arc<Hub>,
    /// Who registered lately, kept in a file: a restart does not wait for everybody to register again.
    known: Mutex<Known>,
    /// How long an executor that says nothing is believed to be there.
    silent_ms_max: i64,
    /// Where jobs of executors are written, if that is allowed.
    files: OnceLock<Arc<JobFiles>>,
    /// What was counted at the door.
    pub counts: Arc<ExecutorCallCounts>,
}

struct Known {
    file: PathBuf,
    /// When each was last seen, by the monotonic clock.
    seen: BTreeMap<(GroupName, Executor), i64>,
    /// What those that say something of themselves say.
    labels: BTreeMap<Address, Labels>,
}

type Labels = Vec<(String, String)>;

/// A registration that changes nothing is passed on to the engine so many times while one is believed: often enough.
const PASSED_ON: i64 = 18;

impl Executors {
    /// Takes up who was there before, and whose addresses were typed in.
    pub fn new(
        loop_handle: LoopHandle,
        clock: Clock,
        remote: Arc<Remote>,
        hub: Arc<Hub>,
        file: PathBuf,
        engine: &mut Engine,
        typed: Vec<(GroupName, Vec<Executor>)>,
    ) -> Executors {
        let now = clock.now();
        let mut seen = BTreeMap::new();
        let mut changes: Vec<ExecutorChange> =
            typed.into_iter().map(|(group, list)| ExecutorChange::Typed(group, list)).collect();
        let mut labels = BTreeMap::new();
        for (group, executor, said) in read(&file) {
            changes.push(ExecutorChange::Seen(group.clone(), executor.clone()));
            if !said.is_empty() {
                changes.push(ExecutorChange::Labels(group.clone(), executor.address.clone(), said.clone()));
                labels.insert(executor.address.clone(), said);
            }
            seen.insert((group, executor), now.mono);
        }
        engine.handle(Event::Executors(changes), now);
        let known = Mutex::new(Known { file, seen, labels });
        let silent_ms_max = engine.silent_ms_max();
        Executors {
            loop_handle,
            clock,
            remote,
            hub,
            known,
            silent_ms_max,
            files: OnceLock::new(),
            counts: Arc::default(),
        }
    }

    /// Lets executors write jobs.
    pub fn let_write(&self, files: Arc<JobFiles>) {
        let _ = self.files.set(files);
    }

    /// The executors, by group.
    pub fn groups(&self) -> Result<Vec<ExecutorGroup>, Refusal> {
        let now = self.clock.now().mono;
        let views =
            tokio::task::block_in_place(|| self.loop_handle.query(move |engine| engine.roster().view(now)));
        let line = |view: cadran_place::ExecutorView| ExecutorLine {
            executor: view.executor,
            since: view.since,
            silent_ms: view.silent_ms,
            labels: view.labels,
        };
        let group = |view: cadran_place::GroupView| ExecutorGroup {
            name: view.name,
            typed: view.typed,
            executors: view.executors.into_iter().map(line).collect(),
        };
        Ok(views?.into_iter().map(group).collect())
    }

    /// Copies what is new in the logs of a run from where they are. Only executors that are known now are asked: nobody
    /// else gets to see the token.
    pub fn refresh_logs(
        self: &Arc<Self>,
        run: RunId,
        steps: &[StepRecord],
        is_over: bool,
    ) -> BoxFuture<'static, ()> {
        let mut logs = self.remote.logs_of(run);
        for (no, step) in steps.iter().enumerate() {
            for seat in &step.seats {
                // What our own print arrives without being asked for.
                if logs.iter().any(|log| log.seat.log == seat.log) || seat.address.worker().is_some() {
                    continue;
                }
                logs.push(RemoteLog {
                    run,
                    step: StepNo(no as u16),
                    step_name: step.name.clone(),
                    attempt: seat.attempt,
                    seat: seat.clone(),
                    is_over: is_over || step.status.is_ended() || seat.status.is_ended(),
                });
            }
        }
        if logs.is_empty() {
            return Box::pin(std::future::ready(()));
        }
        let this = Arc::clone(self);
        Box::pin(async move {
            // Without an answer of the loop the logs stay as they are.
            let groups = this.groups().unwrap_or_default();
            for log in logs {
                let who = groups.iter().find_map(|group| {
                    let line =
                        group.executors.iter().find(|line| line.executor.address == log.seat.address)?;
                    Some((group.name.clone(), line.executor.clone()))
                });
                if let Some((group, executor)) = who {
                    this.remote.pull(log, group, executor).await;
                }
            }
        })
    }

    /// Workers came or went.
    pub fn workers(&self, changes: Vec<Presence>) {
        for change in changes {
            match change {
                Presence::Here(group, address, labels) => {
                    let executor = Executor { address: address.clone(), dialect: Dialect::Worker };
                    let news = self.known().relabel(&address, &labels);
                    if self.seen(group.clone(), executor).is_err() {
                        tracing::warn!(%group, %address, "too many executors are there; a worker gets no orders");
                    } else if news {
                        self.loop_handle
                            .send(Event::Executors(vec![ExecutorChange::Labels(group, address, labels)]));
                    }
                }
                Presence::Gone(group, address) => {
                    self.known().labels.remove(&address);
                    self.gone(group, address);
                }
            }
        }
    }

    /// Counters in Prometheus' text format.
    pub fn metrics(&self) -> String {
        render_counts(&self.counts, &self.remote.counts(), &self.hub.counts())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ExecutorApi for Executors {
    fn seen(&self, group: GroupName, executor: Executor) -> Result<(), &'static str> {
        let now = self.clock.now().mono;
        let mut known = self.known();
        let key = (group, executor);
        let before = known.seen.get(&key).copied();
        if before.is_some_and(|at| now - at < self.silent_ms_max / PASSED_ON) {
            return Ok(());
        }
        if before.is_none() {
            known.seen.retain(|_, at| now - *at <= self.silent_ms_max);
            let of_group = known.seen.keys().filter(|(name, _)| *name == key.0).count();
            let groups =
                known.seen.keys().map(|(name, _)| name).collect::<std::collections::BTreeSet<_>>().len();
            if of_group >= MEMBERS_MAX || of_group == 0 && groups >= GROUPS_MAX {
                return Err("too many executors are registered already");
            }
            tracing::info!(group = %key.0, address = %key.1.address, "an executor registered");
        }
        if before.is_none_or(|at| now - at > self.silent_ms_max) {
            self.remote.returns(&key.1.address);
        }
        known.seen.insert(key.clone(), now);
        if before.is_none() {
            known.write();
        }
        drop(known);
        self.loop_handle.send(Event::Executors(vec![ExecutorChange::Seen(key.0, key.1)]));
        Ok(())
    }

    fn gone(&self, group: GroupName, address: Address) {
        tracing::info!(%group, %address, "an executor left");
        let mut known = self.known();
        known.seen.retain(|(name, executor), _| *name != group || executor.address != address);
        known.write();
        drop(known);
        self.remote.leaves(&address);
        self.loop_handle.send(Event::Executors(vec![ExecutorChange::Gone(group, address)]));
    }

    fn results(&self, results: Vec<RunResult>) -> BoxFuture<'static, Result<(), String>> {
        let remote = self.remote.clone();
        Box::pin(async move {
            remote.calm().await;
            let kept = tokio::task::block_in_place(|| remote.take_results(&results));
            kept.map_err(|error| format!("the server's disk does not take results ({error}); try again"))
        })
    }

    fn job(&self, group: GroupName, call: JobCall) -> BoxFuture<'static, Result<Option<String>, String>> {
        let (loop_handle, files) = (self.loop_handle.clone(), self.files.get().cloned());
        // A caller that hangs up meanwhile leaves nothing half done.
        let done = tokio::spawn(async move { job_call(&loop_handle, files.as_deref(), &group, call).await });
        Box::pin(
            async move { done.await.unwrap_or_else(|_| Err("an error inside of the server".to_owned())) },
        )
    }
}

async fn job_call(
    loop_handle: &LoopHandle,
    files: Option<&JobFiles>,
    group: &GroupName,
    call: JobCall,
) -> Result<Option<String>, String> {
    let files =
        || files.ok_or("this server lets executors write no jobs; jobs are files of its own".to_owned());
    let command = match call {
        JobCall::Add(form) => {
            let number = files()?.add(group, &form).await?;
            return Ok(Some(number.to_string()));
        }
        JobCall::Update(number, form) => {
            files()?.update(group, &known(loop_handle, group, number)?.name, &form).await?;
            return Ok(None);
        }
        JobCall::Remove(number) => {
            files()?.remove(group, &known(loop_handle, group, number)?.name).await?;
            return Ok(None);
        }
        JobCall::Start(number) => Command::Resume { job: known(loop_handle, group, number)?.name },
        JobCall::Stop(number) => Command::Pause { job: known(loop_handle, group, number)?.name },
        JobCall::Trigger(number, text, addresses) => {
            let KnownJob { name: job, text_param } = known(loop_handle, group, number)?;
            let params = match (text.filter(|text| !text.is_empty()), text_param) {
                (Some(text), Some(param)) => vec![(param, text.into())],
                (Some(_), None) => {
                    return Err(format!("job {job} takes no text; give it one parameter and no more"));
                }
                (None, _) => Vec::new(),
            };
            Command::Trigger { job, params, addresses, parent: None, key: None }
        }
    };
    match loop_handle.command(command).await {
        Ok(Reply::Run(run)) => Ok(Some(run.to_string())),
        Ok(Reply::Done | Reply::Already) => Ok(None),
        Err(refusal) => Err(refusal.to_string()),
    }
}

/// A job as executors know it.
struct KnownJob {
    name: JobName,
    /// The parameter that takes a text of theirs.
    text_param: Option<Box<str>>,
}

/// The job of a group with this number. Of jobs that are not wholly its own a group hears nothing.
fn known(loop_handle: &LoopHandle, group: &GroupName, number: u32) -> Result<KnownJob, String> {
    let of = group.clone();
    let found = tokio::task::block_in_place(|| {
        loop_handle.query(move |engine| {
            let catalog = engine.catalog();
            let name = catalog.name(JobId::from_executor_number(number)?)?.clone();
            let text_param = catalog.text_param(&name).map(Into::into);
            catalog.is_of(&name, &of).then_some(KnownJob { name, text_param })
        })
    });
    let found = found.map_err(|refusal| refusal.to_string())?;
    found.ok_or_else(|| format!("group {group} has no job {number}"))
}

impl Known {
    /// True when a worker says something else than before.
    fn relabel(&mut self, address: &Address, labels: &Labels) -> bool {
        let before = self.labels.get(address);
        let news = before.is_none_or(|before| before != labels);
        if news {
            self.labels.insert(address.clone(), labels.clone());
            self.write();
        }
        news
    }

    /// Whole or not at all; a file that cannot be written costs half a minute after the next start.
    fn write(&self) {
        let list: Vec<Value> = self
            .seen
            .keys()
            .map(|(group, executor)| {
                let Executor { address, dialect } = executor;
                json!([group.as_str(), address.as_str(), dialect.word(), self.labels.get(address)])
            })
            .collect();
        let written = cadran_files::write_atomic(&self.file, Value::Array(list).to_string().as_bytes());
        if let Err(error) = written {
            tracing::warn!(file = %self.file.display(), %error, "cannot keep who registered");
        }
    }
}

fn read(file: &std::path::Path) -> Vec<(GroupName, Executor, Labels)> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let list: Vec<Value> = serde_json::from_str(&text).unwrap_or_default();
    let line = |line: Value| {
        let text = |at: usize| line.get(at).and_then(Value::as_str);
        let executor = Executor { address: text(1)?.parse().ok()?, dialect: Dialect::from_word(text(2)?)? };
        let labels = line.get(3).cloned().and_then(|labels| serde_json::from_value(labels).ok());
        Some((text(0)?.parse().ok()?, executor, labels.unwrap_or_default()))
    };
    list.into_iter().filter_map(line).collect()
}

/// What is counted about executors, in Prometheus' text format. This is the only place that names these metrics.
pub fn render_counts(calls: &ExecutorCallCounts, counts: &RemoteCounts, ours: &HubCounts) -> String {
    let mut text = calls.render();
    for (name, kind, help, value) in [
        ("orders_accepted_total", "counter", "Orders that executors took.", counts.accepted),
        ("orders_refused_total", "counter", "Orders that were refused or did not arrive.", counts.refused),
        (
            "orders_unanswered_total",
            "counter",
            "Orders that were sent and never answered.",
            counts.unanswered,
        ),
        ("orders_delayed_total", "counter", "Orders that found their lane full.", counts.delayed),
        ("results_stray_total", "counter", "Results of runs that were over or unknown.", counts.strays),
        ("shares_lost_total", "counter", "Shares given up as lost.", counts.lost),
        ("results_total", "counter", "Results that belonged to a run.", counts.results),
        ("orders_waiting", "gauge", "Orders that wait to leave.", counts.waiting as u64),
        ("shares_open", "gauge", "Shares that are out at executors.", counts.open as u64),
        ("workers", "gauge", "Workers that are there.", ours.workers as u64),
        ("worker_shares_open", "gauge", "Shares that are out at workers.", ours.open as u64),
        ("worker_shares_lost_total", "counter", "Shares lost with their worker.", ours.lost),
    ] {
        text.push_str(&format!(
                "# HELP cadran_executor_{name} {help}\n# TYPE cadran_executor_{name} {kind}\ncadran_executor_{name} {value}\n"
            ));
    }
    let (fast, slow) = (counts.fast, counts.slow);
    for (name, help, fast, slow) in [
        ("lane_orders", "Orders on their way, by lane.", fast.on, slow.on),
        (
            "lane_orders_max",
            "Orders that may be on their way at once, by lane.",
            fast.at_once_max,
            slow.at_once_max,
        ),
        ("lane_queued", "Orders that wait in a lane.", fast.queued, slow.queued),
    ] {
        let name = format!("cadran_executor_{name}");
        text.push_str(&format!(
                "# HELP {name} {help}\n# TYPE {name} gauge\n{name}{{lane=\"fast\"}} {fast}\n{name}{{lane=\"slow\"}} {slow}\n"
            ));
    }
    text
}
