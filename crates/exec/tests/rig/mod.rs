//! An executor in a temporary directory, and the words to talk to it.
#![allow(dead_code, unreachable_pub, reason = "every test file uses its own part of the rig")]

pub mod holder;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cadran_core::{
    Body, Found, JobId, Order, Outcome, Report, ReportKind, RunContext, RunId, Start, Step, StepNo, Trigger,
    Work,
};
use cadran_exec::{Local, LocalOptions, LogDir};
use tokio::sync::mpsc;

/// Far beyond what any moment of these tests takes, on a busy machine too.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Rig {
    pub local: Local,
    pub found: Vec<Found>,
    pub logs: LogDir,
    pub dir: PathBuf,
    reports: mpsc::UnboundedReceiver<Vec<Report>>,
    seen: Vec<Report>,
    _temp: Option<tempfile::TempDir>,
}

impl Rig {
    pub async fn new() -> Rig {
        Rig::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut LocalOptions)) -> Rig {
        let temp = tempfile::tempdir().expect("a directory");
        let mut rig = Rig::at(temp.path(), change).await;
        rig._temp = Some(temp);
        rig
    }

    pub async fn at(dir: &Path, change: impl FnOnce(&mut LocalOptions)) -> Rig {
        let mut options = LocalOptions::new(dir);
        options.base_dir = dir.to_path_buf();
        change(&mut options);
        let logs = LogDir::new(&options.logs);
        let (sender, reports) = mpsc::unbounded_channel();
        let sink = Arc::new(move |batch| drop(sender.send(batch)));
        let (local, found) = Local::open(options, || 1_000, sink).await.expect("opened");
        Rig { local, found, logs, dir: dir.to_path_buf(), reports, seen: Vec::new(), _temp: None }
    }

    pub fn start(&self, run: u64, body: Body) {
        self.local.submit(vec![Order::Start(start(run, 0, 1, body))]);
    }

    /// Starts the first step of a body and waits for its end.
    pub async fn run(&mut self, run: u64, body: Body) -> (Outcome, Option<Box<str>>) {
        self.start(run, body);
        self.ended(run, 0, 1).await
    }

    pub async fn shell(&mut self, run: u64, text: &str) -> Outcome {
        self.run(run, body(shell(text))).await.0
    }

    pub async fn started(&mut self, run: u64, step: u16, attempt: u32) {
        self.wait(run, step, attempt, |kind| (*kind == ReportKind::Started).then_some(())).await;
    }

    pub async fn ended(&mut self, run: u64, step: u16, attempt: u32) -> (Outcome, Option<Box<str>>) {
        self.wait(run, step, attempt, |kind| match kind {
            ReportKind::Ended { outcome, output } => Some((outcome.clone(), output.clone())),
            ReportKind::Started | ReportKind::Seat(_) => None,
        })
        .await
    }

    async fn wait<T>(
        &mut self,
        run: u64,
        step: u16,
        attempt: u32,
        pick: impl Fn(&ReportKind) -> Option<T>,
    ) -> T {
        let mut looked_at = 0;
        loop {
            for report in &self.seen[looked_at..] {
                let is_it = report.run.raw() == run && report.step.0 == step && report.attempt == attempt;
                if let Some(answer) = is_it.then(|| pick(&report.kind)).flatten() {
                    return answer;
                }
            }
            looked_at = self.seen.len();
            let next = tokio::time::timeout(PATIENCE, self.reports.recv()).await;
            let batch =
                next.unwrap_or_else(|_| panic!("no report of {run} {step} {attempt} in {:?}", self.seen));
            self.seen.extend(batch.expect("the executor is open"));
        }
    }

    /// All reports so far, also those nobody waited for.
    pub fn all_reports(&mut self) -> &[Report] {
        while let Ok(batch) = self.reports.try_recv() {
            self.seen.extend(batch);
        }
        &self.seen
    }

    /// Everything the first step of a run printed.
    pub fn log(&self, run: u64) -> String {
        let chunk = self.logs.follow(RunId::from_raw(run), StepNo(0), 1, 0).expect("read");
        String::from_utf8_lossy(&chunk.bytes).into_owned()
    }

    /// The lines of a file a step writes, once there are so many.
    pub async fn lines(&self, name: &str, count: usize) -> Vec<String> {
        let path = self.dir.join(name);
        let read = || std::fs::read_to_string(&path).unwrap_or_default();
        eventually(&format!("{count} lines in {name}"), || read().matches('\n').count() >= count).await;
        read().lines().map(str::to_owned).collect()
    }
}

/// Looks again and again until it is so.
pub async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let looking = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// Whether the process is there and not a zombie.
pub fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z') && !rest.starts_with('X'))
}

pub fn shell(text: &str) -> Step {
    Step { name: "step".into(), work: Work::Shell(text.into()), ..Step::default() }
}

pub fn script(text: &str) -> Step {
    Step { name: "step".into(), work: Work::Script(text.into()), ..Step::default() }
}

pub fn program(words: &[&str]) -> Step {
    let words = words.iter().map(|word| word.to_string()).collect();
    Step { name: "step".into(), work: Work::Program(words), ..Step::default() }
}

pub fn body(step: Step) -> Body {
    Body { steps: vec![step], ..Body::default() }
}

pub fn start(run: u64, step: u16, attempt: u32, body: Body) -> Start {
    start_with(run, step, attempt, body, &[], &[])
}

pub fn start_with(
    run: u64,
    step: u16,
    attempt: u32,
    body: Body,
    params: &[(&str, &str)],
    outputs: &[(&str, &str)],
) -> Start {
    let boxed = |(name, value): &(&str, &str)| ((*name).into(), (*value).into());
    let context = RunContext {
        job: JobId(1),
        job_name: "nightly".parse().expect("a name"),
        body: Arc::new(body),
        due: 1_700_000_000_123,
        trigger: Trigger::Manual,
        params: params.iter().map(boxed).collect(),
        addresses: Vec::new(),
        shard_index: 2,
        shard_total: 5,
    };
    let outputs = outputs.iter().map(boxed).collect();
    Start {
        run: RunId::from_raw(run),
        step: StepNo(step),
        attempt,
        context: Arc::new(context),
        outputs,
        placement: None,
    }
}

/// `NAME=value` lines as a map.
pub fn variables(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.split_once('=')).collect()
}
