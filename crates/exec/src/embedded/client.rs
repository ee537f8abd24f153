//! The server's end of the line to the executor of its machine.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cadran_core::{Found, Millis, Order, Outcome, Report, ReportKind, Start, Work};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, timeout};

use super::launch::{Connection, Launcher};
use super::wire::{
    Answer, FRAME_BYTES_MAX, FRAME_ITEMS_MAX, NoMessage, Request, Settings, Stop, Welcome, frame, order_out,
    receive, report_in,
};
use crate::journal::Key;
use crate::order_wire::WireOrder;
use crate::{Damage, ExecError, LocalOptions, Sink};

/// The executor of this machine, as the server sees it: a process of its own that outlives the server.
///
/// It is found by its socket or started, and started again when it is gone.
pub struct Embedded {
    shared: Arc<Shared>,
    damage: Option<Damage>,
}

/// How [`Embedded`] works.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// Directory of the executor's journal and socket.
    pub dir: PathBuf,
    /// The program that runs [`serve`](super::serve), and its arguments.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// How many attempts may be alive at once; the others wait in line.
    pub live_max: usize,
    /// Environment every process gets first.
    pub base_env: Vec<(String, String)>,
    /// Directory of steps that name none, and base of relative ones.
    pub base_dir: PathBuf,
    /// Networks that requests of steps may go to although they are not public.
    pub http_allow: Vec<String>,
}

impl EmbeddedOptions {
    /// The defaults, with everything below one data directory.
    pub fn new(data: impl AsRef<Path>, program: OsString, args: Vec<OsString>) -> EmbeddedOptions {
        let LocalOptions { live_max, base_env, base_dir, http_allow, .. } = LocalOptions::new(&data);
        let dir = data.as_ref().join("exec");
        EmbeddedOptions { dir, program, args, live_max, base_env, base_dir, http_allow }
    }
}

/// What was left behind by a server that went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftRunning {
    /// Attempts that are on.
    pub running: usize,
    /// Attempts that wait for their start.
    pub waiting: usize,
}

struct Shared {
    launcher: Launcher,
    settings: Settings,
    sink: Sink,
    now: Box<dyn Fn() -> Millis + Send + Sync>,
    state: Mutex<State>,
    /// The phase has changed.
    changed: Notify,
}

struct State {
    /// To the writer of the connection that is up.
    out: Option<mpsc::UnboundedSender<Out>>,
    next_seq: u64,
    /// Orders the executor has not taken yet, as far as is known here. They are repeated on the next connection.
    untaken: VecDeque<(u64, Arc<Vec<Order>>)>,
    /// Attempts that were ordered and have not ended.
    outstanding: BTreeMap<Key, Ordered>,
    phase: Phase,
    /// When the executor last said anything, and how long its threads had been silent then.
    heard: Instant,
    silence: Duration,
    left: Option<LeftRunning>,
}

/// An attempt that was ordered.
#[derive(Default)]
struct Ordered {
    /// Until its start is reported.
    start: Option<Start>,
    /// Somebody asked for its stop.
    is_stopping: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Working,
    /// It was told that the server goes, or that everything ends.
    Ending,
    /// The connection is closed for good.
    Over,
}

enum Out {
    Orders(u64, Arc<Vec<Order>>),
    Request(Request),
}

/// Between two tries to start the executor again: the first, and the longest.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// How long the executor may take to say what it goes on with.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(5);

/// How long the executor may take beyond the patience with processes that are being ended.
const STOP_MARGIN: Duration = Duration::from_secs(10);

impl Embedded {
    /// Finds the executor or starts it, and returns what it knows of each attempt whose run was not closed, those that
    /// are on included: their reports come.
    ///
    /// `now` gives the wall clock; `sink` gets the reports. Must be called on an async runtime, which works for it.
    pub async fn open(
        options: EmbeddedOptions,
        now: impl Fn() -> Millis + Send + Sync + 'static,
        sink: Sink,
    ) -> Result<(Embedded, Vec<Found>), ExecError> {
        let EmbeddedOptions { dir, program, args, live_max, base_env, base_dir, http_allow } = options;
        cadran_files::create_dir(&dir).map_err(ExecError::file("create the directory", &dir))?;
        let launcher = Launcher { dir, program, args };
        let base_dir = base_dir.to_string_lossy().into_owned();
        let settings = Settings { live_max, base_env, base_dir, http_allow };
        let connection = launcher.attach(&settings).await?;
        tell(&connection.welcome);
        let damage = damage_of(&connection.welcome);
        let found = connection.found.clone();
        let state = State {
            out: None,
            next_seq: 1,
            untaken: VecDeque::new(),
            outstanding: BTreeMap::new(),
            phase: Phase::Working,
            heard: Instant::now(),
            silence: Duration::ZERO,
            left: None,
        };
        let shared = Arc::new(Shared {
            launcher,
            settings,
            sink,
            now: Box::new(now),
            state: Mutex::new(state),
            changed: Notify::new(),
        });
        shared
            .state()
            .outstanding
            .extend(found.iter().filter(|found| found.lives).map(|it| (key_of(it), Ordered::default())));
        tokio::spawn(Arc::clone(&shared).work(connection));
        Ok((Embedded { shared, damage }, found))
    }

    /// Takes a batch of orders; never waits. A start that was seen before is ignored.
    ///
    /// The queue behind it has no bound of its own: whoever sends orders admits runs, and bounds them there.
    pub fn submit(&self, orders: Vec<Order>) {
        let refused = self.shared.submit(orders);
        if !refused.is_empty() {
            (self.shared.sink)(refused);
        }
    }

    /// What was wrong with the journal when it was opened.
    pub fn damage(&self) -> Option<Damage> {
        self.damage.clone()
    }

    /// Attempts that were ordered and have not ended.
    pub fn live(&self) -> usize {
        self.shared.state().outstanding.len()
    }

    /// How long ago the executor last showed that it works. It does every half second, unless it is gone, hangs in the
    /// kernel or on a disk.
    pub fn silence(&self) -> Duration {
        let state = self.shared.state();
        state.heard.elapsed() + state.silence
    }

    /// Says goodbye: what is on goes on, and is told to the next server. `None` when the executor does not answer.
    pub async fn leave(&self) -> Option<LeftRunning> {
        self.shared.end(Request::Leave, LEAVE_TIME_MAX).await;
        self.shared.state().left
    }

    /// Ends everything, and the executor: signal, grace, KILL; what is alive after `patience` is killed at once. Starts
    /// still in line are let go without a report: they never began, and the next server will judge them again.
    pub async fn drain(&self, patience: Duration) {
        let stop = Stop { patience_ms: patience.as_millis() as u64, for_good: None };
        if !self.shared.end(Request::Stop(stop), patience + STOP_MARGIN).await {
            tracing::error!(
                "the executor does not end; what it runs may go on, and the next server finds it"
            );
        }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // Ends the writer, which closes the connection. What is on goes on.
        let mut state = self.shared.state();
        (state.phase, state.out) = (Phase::Over, None);
        drop(state);
        self.shared.changed.notify_waiters();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back reports of what cannot be ordered.
    fn submit(&self, orders: Vec<Order>) -> Vec<Report> {
        let mut refused = Vec::new();
        let mut state = self.state();
        let mut batch = Vec::with_capacity(orders.len());
        for order in orders {
            match &order {
                Order::Start(start) => {
                    let key = key_of_start(start);
                    if let Some(why) = why_not_here(start) {
                        refused.push(self.ended(key, Outcome::NotStarted(why.into())));
                        continue;
                    }
                    let ordered = || Ordered { start: Some(start.clone()), is_stopping: false };
                    state.outstanding.entry(key).or_insert_with(ordered);
                }
                Order::Stop { run, step, attempt } => {
                    let key = Key { run: *run, step: *step, attempt: *attempt };
                    state
                        .outstanding
                        .get_mut(&key)
                        .into_iter()
                        .for_each(|ordered| ordered.is_stopping = true);
                }
                Order::Close { .. } => {}
                // Executors elsewhere are none of its business.
                Order::StopShare { .. } | Order::Gone { .. } => continue,
            }
            batch.push(order);
        }
        if !batch.is_empty() {
            state.send(Arc::new(batch));
        }
        refused
    }

    fn ended(&self, key: Key, outcome: Outcome) -> Report {
        let kind = ReportKind::Ended { outcome, output: None };
        Report { run: key.run, step: key.step, attempt: key.attempt, at: (self.now)(), kind }
    }

    /// Sends the last request and waits until the connection is closed; false when it is not in time.
    async fn end(&self, last: Request, patience: Duration) -> bool {
        {
            let mut state = self.state();
            if state.phase == Phase::Over {
                return true;
            }
            state.phase = Phase::Ending;
            match &state.out {
                Some(out) => drop(out.send(Out::Request(last))),
                // Nobody is there to be told.
                None => state.phase = Phase::Over,
            }
        }
        let over = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                // Registered before the look, so that a change in between is not missed.
                changed.as_mut().enable();
                if self.state().phase == Phase::Over {
                    return;
                }
                changed.await;
            }
        };
        timeout(patience, over).await.is_ok()
    }

    /// Hears the executor, and finds or starts the next one when it is gone, until the server goes.
    async fn work(self: Arc<Shared>, mut connection: Connection) {
        loop {
            let (out, requests) = mpsc::unbounded_channel();
            let reports = self.take_up(out, &mut connection);
            if !reports.is_empty() {
                (self.sink)(reports);
            }
            let Connection { reader, writer, welcome, .. } = connection;
            let writing = tokio::spawn(Arc::clone(&self).write(writer, requests));
            let why = self.hear(reader).await;
            writing.abort();
            if self.is_over() {
                return;
            }
            match why {
                NoMessage::Closed => {
                    tracing::warn!(pid = welcome.pid, "the executor is gone; starting it again")
                }
                NoMessage::Nonsense(why) => {
                    tracing::error!(pid = welcome.pid, %why, "the executor says what does not read; connecting again");
                }
            }
            connection = match self.connect_again().await {
                Some(connection) => connection,
                None => return,
            };
        }
    }

    /// The connection is closed. True when that is how it should be.
    fn is_over(&self) -> bool {
        let mut state = self.state();
        state.out = None;
        let is_over = state.phase != Phase::Working;
        if is_over {
            state.phase = Phase::Over;
        }
        drop(state);
        self.changed.notify_waiters();
        is_over
    }

    /// `None` when the server goes meanwhile.
    async fn connect_again(&self) -> Option<Connection> {
        let mut retry = RETRY_FIRST;
        loop {
            let attached = self.launcher.attach(&self.settings).await;
            if self.state().phase != Phase::Working {
                return None;
            }
            match attached {
                Ok(connection) => {
                    tell(&connection.welcome);
                    return Some(connection);
                }
                Err(error) => tracing::error!(%error, "there is no executor; trying again"),
            }
            sleep(retry).await;
            retry = (retry * 2).min(RETRY_MAX);
        }
    }

    /// A connection is up: what was not taken is sent once more, and what came to an end meanwhile is told.
    fn take_up(&self, out: mpsc::UnboundedSender<Out>, connection: &mut Connection) -> Vec<Report> {
        let mut state = self.state();
        state.out = Some(out);
        (state.heard, state.silence) = (Instant::now(), Duration::ZERO);
        let found: BTreeMap<Key, Found> =
            std::mem::take(&mut connection.found).into_iter().map(|found| (key_of(&found), found)).collect();
        let mut reports = Vec::new();
        let mut again = Vec::new();
        let outstanding = std::mem::take(&mut state.outstanding);
        for (key, Ordered { start, is_stopping }) in outstanding {
            let report = |at, kind| Report { run: key.run, step: key.step, attempt: key.attempt, at, kind };
            match (found.get(&key), start) {
                (Some(Found { ended: Some((at, outcome)), output, started_at, .. }), start) => {
                    if start.is_some() {
                        reports.push(report(*started_at, ReportKind::Started));
                    }
                    let (outcome, output) = (outcome.clone(), output.clone());
                    reports.push(report(*at, ReportKind::Ended { outcome, output }));
                }
                (Some(Found { lives: true, .. }), start) => {
                    state.outstanding.insert(key, Ordered { start, is_stopping });
                }
                // It never got so far as to be in the journal: it has no process.
                (None, Some(_)) if is_stopping => reports.push(self.ended(key, Outcome::Stopped)),
                (None, Some(start)) => {
                    again.push(Order::Start(start.clone()));
                    state.outstanding.insert(key, Ordered { start: Some(start), is_stopping });
                }
                (Some(_) | None, _) => reports.push(self.ended(key, Outcome::Lost)),
            }
        }
        let untaken = std::mem::take(&mut state.untaken);
        if !again.is_empty() {
            state.send(Arc::new(again));
        }
        for (_, orders) in untaken {
            // Not what has come to an end here, and not a start that stands above.
            let is_due = |order: &&Order| match order {
                Order::Start(start) => {
                    state.outstanding.get(&key_of_start(start)).is_some_and(|ordered| ordered.start.is_none())
                }
                _ => true,
            };
            let orders = orders.iter().filter(is_due).cloned().collect();
            state.send(Arc::new(orders));
        }
        reports
    }

    /// Until the connection is closed.
    async fn hear(&self, mut reader: BufReader<OwnedReadHalf>) -> NoMessage {
        loop {
            let answer = match receive(&mut reader).await {
                Ok(answer) => answer,
                Err(no_message) => return no_message,
            };
            let mut state = self.state();
            (state.heard, state.silence) = (Instant::now(), Duration::ZERO);
            match answer {
                Answer::Reports(reports) => {
                    let count = reports.len();
                    let reports: Vec<Report> = reports.into_iter().filter_map(report_in).collect();
                    if reports.len() != count {
                        return NoMessage::Nonsense("a report of no attempt".into());
                    }
                    for report in &reports {
                        let key = Key { run: report.run, step: report.step, attempt: report.attempt };
                        match report.kind {
                            ReportKind::Ended { .. } => drop(state.outstanding.remove(&key)),
                            // From here on a start is not repeated.
                            _ => {
                                state
                                    .outstanding
                                    .get_mut(&key)
                                    .into_iter()
                                    .for_each(|ordered| ordered.start = None);
                            }
                        }
                    }
                    drop(state);
                    (self.sink)(reports);
                }
                Answer::Taken { seq } => {
                    while state.untaken.front().is_some_and(|(number, _)| *number <= seq) {
                        state.untaken.pop_front();
                    }
                }
                Answer::Beat { silence_ms } => state.silence = Duration::from_millis(silence_ms),
                Answer::Left { running, waiting } => state.left = Some(LeftRunning { running, waiting }),
                Answer::Stopped => {}
                Answer::Refused { error } => return NoMessage::Nonsense(error),
                Answer::Welcome(_) | Answer::Found(_) | Answer::Ready => {
                    return NoMessage::Nonsense("a greeting in the middle".into());
                }
            }
        }
    }

    async fn write(self: Arc<Shared>, mut to: OwnedWriteHalf, mut requests: mpsc::UnboundedReceiver<Out>) {
        while let Some(request) = requests.recv().await {
            let mut frames = Vec::new();
            match request {
                Out::Request(request) => frames.push(frame(&request)),
                Out::Orders(seq, orders) => {
                    let orders: Vec<WireOrder> = orders.iter().filter_map(order_out).collect();
                    let too_large = order_frames(seq, orders, &mut frames);
                    if !too_large.is_empty() {
                        self.refuse(too_large);
                    }
                }
            }
            for frame in frames {
                // The reader notices too, and connects again.
                if to.write_all(&frame).await.is_err() {
                    return;
                }
            }
        }
    }

    fn refuse(&self, keys: Vec<Key>) {
        let mut state = self.state();
        keys.iter().for_each(|key| drop(state.outstanding.remove(key)));
        drop(state);
        let why = "its command, parameters and outputs are too large together; pass large data in a file";
        (self.sink)(keys.into_iter().map(|key| self.ended(key, Outcome::NotStarted(why.into()))).collect());
    }
}

impl State {
    /// Numbers a batch and sends it, at once if a connection is up.
    fn send(&mut self, orders: Arc<Vec<Order>>) {
        let seq = self.next_seq;
        self.next_seq += 1;
        self.untaken.push_back((seq, Arc::clone(&orders)));
        if let Some(out) = &self.out {
            let _ = out.send(Out::Orders(seq, orders));
        }
    }
}

/// Frames of a batch; only the last one has the number. Gives back starts that are too large for any frame.
fn order_frames(seq: u64, orders: Vec<WireOrder>, frames: &mut Vec<Vec<u8>>) -> Vec<Key> {
    let mut too_large = Vec::new();
    let mut parts = vec![orders];
    while let Some(mut orders) = parts.pop() {
        let is_last = parts.is_empty();
        let rest = orders.split_off(orders.len().min(FRAME_ITEMS_MAX));
        if !rest.is_empty() {
            parts.push(rest);
            parts.push(orders);
            continue;
        }
        let number = if is_last { seq } else { 0 };
        let bytes = frame(&Request::Orders { seq: number, orders: orders.clone() });
        if bytes.len() <= FRAME_BYTES_MAX {
            frames.push(bytes);
        } else if orders.len() > 1 {
            let rest = orders.split_off(orders.len() / 2);
            parts.push(rest);
            parts.push(orders);
        } else {
            for order in orders {
                if let WireOrder::Start(start) = order {
                    too_large.extend(start.attempt.key());
                }
            }
            frames.push(frame(&Request::Orders { seq: number, orders: Vec::new() }));
        }
    }
    too_large
}

/// Says what a new connection brings that an operator wants to know.
fn tell(welcome: &Welcome) {
    let Welcome { pid, version, running, waiting, cleared, .. } = welcome;
    if *cleared > 0 {
        tracing::warn!(
            killed = cleared,
            "processes of the executor before this one were still alive and were killed"
        );
    }
    match &welcome.groups {
        Ok(root) => tracing::info!(%root, "processes of steps are kept together by control groups"),
        Err(why) => tracing::info!(
            %why,
            "no control groups: a step's process that clears its environment and leaves its session may live until no \
             other step runs, or outlive a killed executor"
        ),
    }
    tracing::info!(pid, version, running, waiting, "the executor is here");
}

fn damage_of(welcome: &Welcome) -> Option<Damage> {
    welcome.damage.clone().map(|damage| Damage {
        path: damage.path.into(),
        name: "journal",
        line: damage.line,
        count: damage.count,
        copy: damage.copy.map(PathBuf::from),
    })
}

fn key_of(found: &Found) -> Key {
    Key { run: found.run, step: found.step, attempt: found.attempt }
}

fn key_of_start(start: &Start) -> Key {
    Key { run: start.run, step: start.step, attempt: start.attempt }
}

/// A step that is no command of this machine.
fn why_not_here(start: &Start) -> Option<String> {
    match start.context.body.step(start.step).map(|step| &step.work) {
        None => Some(format!("the job has no step {}", start.step.0)),
        Some(Work::Job(_)) => Some("a step that calls a job is carried out by the server".into()),
        Some(work) if work.is_foreign() => {
            Some("only an executor of a group can run this; name one with `executor`".into())
        }
        Some(_) => None,
    }
}
