//! The executor's process: a [`Local`] behind a Unix socket.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use cadran_core::{Millis, Order, Outcome, Report};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::launch::{IN_USE, READY};
use super::socket::{self, Bound};
use super::wire::{
    Answer, Caller, FRAME_BYTES_SOFT, FRAME_ITEMS_MAX, Hello, NoMessage, PROGRAM, PROTOCOL, Request,
    Settings, Stop, Welcome, WireDamage, WireFound, frame, order_in, receive, report_out,
};
use crate::local::life;
use crate::order_wire::{WireOrder, WireReport, outcome_text};
use crate::{ExecError, Local, LocalOptions};

/// How [`serve`] works.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// How processes are run. A server that connects says what of it holds from then on.
    pub local: LocalOptions,
    /// How long it waits for a server while it has nothing to do. What has ended is in its journal.
    pub idle_time_max: Duration,
}

impl ServiceOptions {
    /// The defaults, with everything below one data directory.
    pub fn new(data: impl AsRef<Path>) -> ServiceOptions {
        ServiceOptions { local: LocalOptions::new(data), idle_time_max: Duration::from_secs(5) }
    }
}

/// How often it is looked whether there is anything to do, and whether the socket is still there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a caller may take for its first message.
const HELLO_TIME_MAX: Duration = Duration::from_secs(10);

/// How long the connection of a server that is gone may take to close: the kernel closes it at once.
const HANDOVER_TIME_MAX: Duration = Duration::from_secs(2);

/// Callers at once: a server and a few commands.
const CALLERS_MAX: usize = 16;

/// A server that hears nothing else is told so often that the executor is well.
const BEAT_EVERY: Duration = Duration::from_millis(500);

/// Written at once at most, as far as single messages are not larger.
const WRITE_BYTES: usize = 1 << 20;

/// How long what runs has after its signal when the executor itself is asked to end by one.
const TERM_PATIENCE: Duration = Duration::from_secs(10);

/// How long the last answers may take to be read.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Runs the executor until it has nothing to do and no server, or is asked to end. `said` gets one line: that it
/// listens, or why it cannot.
pub async fn serve(
    options: ServiceOptions,
    now: fn() -> Millis,
    said: impl FnOnce(&str),
) -> Result<(), ExecError> {
    let opened = Service::open(&options, now).await;
    let (service, bound, stops) = match opened {
        Ok(opened) => {
            said(READY);
            opened
        }
        Err(error) => {
            said(&if let ExecError::InUse(_) = error { IN_USE.to_owned() } else { error.to_string() });
            return Err(error);
        }
    };
    service.run(bound, stops, &options).await
}

/// Answers for one caller, in order.
type Out = mpsc::UnboundedSender<Answer>;

struct Service {
    local: OnceLock<Local>,
    server: Mutex<ServerSlot>,
    /// The server's connection has closed.
    server_gone: Notify,
    /// There may be nothing to do any more.
    changed: Notify,
    /// The server said that it goes: nobody has to be waited for.
    is_left: AtomicBool,
    stop: mpsc::UnboundedSender<(Stop, Option<Out>)>,
    callers: AtomicUsize,
    /// Writers that have something left to say hold a clone of this.
    talking: Mutex<Option<mpsc::Sender<()>>>,
    /// Told to the first server only.
    cleared: AtomicUsize,
    life: String,
}

/// One server at a time.
enum ServerSlot {
    Free,
    /// A server with this pid is being answered.
    Taken(i32),
    On(i32, Out),
}

type Stops = mpsc::UnboundedReceiver<(Stop, Option<Out>)>;

impl Service {
    async fn open(
        options: &ServiceOptions,
        now: fn() -> Millis,
    ) -> Result<(Arc<Service>, Bound, Stops), ExecError> {
        let (stop, stops) = mpsc::unbounded_channel();
        let service = Arc::new(Service {
            local: OnceLock::new(),
            server: Mutex::new(ServerSlot::Free),
            server_gone: Notify::new(),
            changed: Notify::new(),
            is_left: AtomicBool::new(false),
            stop,
            callers: AtomicUsize::new(0),
            talking: Mutex::default(),
            cleared: AtomicUsize::new(0),
            life: life(),
        });
        let sink = Arc::downgrade(&service);
        let sink = move |reports| {
            if let Some(service) = sink.upgrade() {
                service.report(reports);
            }
        };
        let (local, _) = Local::open(options.local.clone(), now, Arc::new(sink)).await?;
        service.cleared.store(local.cleared(), Ordering::Relaxed);
        let _ = service.local.set(local);
        // Only now: whoever connects finds the journal read and the processes of the former executor ended.
        let dir = options.local.journal.parent().unwrap_or(Path::new("."));
        let bound = Bound::new(dir).map_err(ExecError::file("listen at", &dir.join(socket::NAME)))?;
        Ok((service, bound, stops))
    }

    async fn run(
        self: Arc<Service>,
        mut bound: Bound,
        mut stops: Stops,
        options: &ServiceOptions,
    ) -> Result<(), ExecError> {
        let mut term = signal(SignalKind::terminate()).map_err(ExecError::Threads)?;
        let (talking, mut talked) = mpsc::channel::<()>(1);
        *lock(&self.talking) = Some(talking);
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut idle_since: Option<Instant> = None;
        let (stop, asked_by) = loop {
            tokio::select! {
                accepted = bound.listener.accept() => match accepted {
                    Ok((stream, _)) if self.callers.load(Ordering::Relaxed) < CALLERS_MAX => {
                        self.callers.fetch_add(1, Ordering::Relaxed);
                        tokio::spawn(Arc::clone(&self).answer(stream));
                    }
                    Ok(_) => tracing::warn!("too many callers at once; one was turned away"),
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be taken");
                        looks.tick().await;
                    }
                },
                () = self.changed.notified() => {}
                _ = looks.tick() => if !bound.is_there() {
                    tracing::warn!("the socket is gone; making it again");
                    let dir = options.local.journal.parent().unwrap_or(Path::new("."));
                    match Bound::new(dir) {
                        Ok(again) => bound = again,
                        Err(error) => tracing::error!(%error, "the socket cannot be made"),
                    }
                },
                Some(asked) = stops.recv() => break asked,
                _ = term.recv() => {
                    tracing::info!("asked to end by a signal");
                    break (Stop { patience_ms: TERM_PATIENCE.as_millis() as u64, for_good: None }, None);
                }
            }
            if !self.is_idle() {
                idle_since = None;
                continue;
            }
            let since = *idle_since.get_or_insert_with(Instant::now);
            if self.is_left.load(Ordering::Relaxed) || since.elapsed() >= options.idle_time_max {
                tracing::info!("nothing to do and no server: ending");
                break (Stop { patience_ms: 0, for_good: None }, None);
            }
        };
        // Whoever comes from here on starts another one, which waits for the lock.
        drop(bound);
        let local = self.local();
        let patience = Duration::from_millis(stop.patience_ms);
        let ending = async {
            match &stop.for_good {
                Some(why) => local.stop_for_good(patience, why).await,
                None => local.drain(patience).await,
            }
        };
        tokio::pin!(ending);
        let mut asked_by: Vec<Out> = asked_by.into_iter().collect();
        loop {
            tokio::select! {
                () = &mut ending => break,
                // Whoever asks twice wants no more patience.
                Some((_, out)) = stops.recv() => {
                    local.kill_all();
                    asked_by.extend(out);
                }
                _ = term.recv() => local.kill_all(),
            }
        }
        local.close_groups();
        for out in asked_by.into_iter().chain(self.leave_server()) {
            let _ = out.send(Answer::Stopped);
        }
        lock(&self.talking).take();
        let _ = timeout(LAST_WORDS, talked.recv()).await;
        Ok(())
    }

    fn local(&self) -> &Local {
        // Set before anybody can connect.
        self.local.get().unwrap_or_else(|| unreachable!("the executor is opened before its socket"))
    }

    fn slot(&self) -> MutexGuard<'_, ServerSlot> {
        lock(&self.server)
    }

    fn is_idle(&self) -> bool {
        matches!(*self.slot(), ServerSlot::Free) && self.local().live() == 0
    }

    /// The server that is on, which hears nothing more.
    fn leave_server(&self) -> Option<Out> {
        match std::mem::replace(&mut *self.slot(), ServerSlot::Free) {
            ServerSlot::On(_, out) => Some(out),
            ServerSlot::Free | ServerSlot::Taken(_) => None,
        }
    }

    /// What happened goes to the server, if there is one. It is in the journal in any case.
    fn report(&self, reports: Vec<Report>) {
        if let ServerSlot::On(_, out) = &*self.slot() {
            let reports = reports.into_iter().filter_map(report_out);
            let bytes = |report: &WireReport| report.output.as_ref().map_or(0, String::len);
            in_parts(reports, bytes, |part| drop(out.send(Answer::Reports(part))));
        }
        self.changed.notify_one();
    }

    async fn answer(self: Arc<Service>, stream: UnixStream) {
        if let Err(why) = self.talk(stream).await {
            tracing::warn!("a caller was turned away: {why}");
        }
        self.callers.fetch_sub(1, Ordering::Relaxed);
        self.changed.notify_one();
    }

    async fn talk(&self, stream: UnixStream) -> Result<(), String> {
        let pid = socket::own_peer(&stream)?;
        let (reader, writer) = stream.into_split();
        let mut reader = BufReader::new(reader);
        let hello = match timeout(HELLO_TIME_MAX, receive(&mut reader)).await {
            Ok(Ok(Request::Hello(hello))) if hello.program == PROGRAM => hello,
            Ok(Err(NoMessage::Closed)) => return Ok(()),
            _ => return Err(format!("the process {pid} does not greet as a server does")),
        };
        let (out, answers) = mpsc::unbounded_channel();
        let talking = lock(&self.talking).clone();
        let local_silence = self.local().silence_handle();
        let writing = tokio::spawn(write(writer, answers, local_silence, talking));
        let talked = match self.welcome(&hello, pid, &out).await {
            Err(error) => {
                let _ = out.send(Answer::Refused { error: error.clone() });
                Err(error)
            }
            Ok(()) => {
                let is_server = hello.caller == Caller::Server;
                let talked = self.take_requests(&mut reader, &out, is_server).await;
                if is_server {
                    self.free_slot(&out);
                }
                talked.map_err(|why| format!("the process {pid}: {why}"))
            }
        };
        drop(out);
        if talked.is_err() {
            // What was refused is said before the connection closes.
            let _ = timeout(LAST_WORDS, writing).await;
        }
        talked
    }

    /// The server's connection has ended, unless it left before and another has come.
    fn free_slot(&self, out: &Out) {
        let mut slot = self.slot();
        if matches!(&*slot, ServerSlot::On(_, its) if its.same_channel(out)) {
            *slot = ServerSlot::Free;
            tracing::info!("the server is gone");
        }
        drop(slot);
        self.server_gone.notify_waiters();
    }

    async fn welcome(&self, hello: &Hello, pid: i32, out: &Out) -> Result<(), String> {
        if hello.protocol != PROTOCOL {
            return Err(format!(
                "this executor is of version {} and speaks version {PROTOCOL} of its protocol, the caller {} and {}; stop it \
                 with the `cadran executor stop` of its own version",
                env!("CARGO_PKG_VERSION"),
                hello.version,
                hello.protocol
            ));
        }
        let local = self.local();
        if hello.caller == Caller::Control {
            let _ = out.send(Answer::Welcome(self.introduce(0)));
            return Ok(());
        }
        self.take_slot(pid).await?;
        // What the server before had sent is taken first, so that this one is told of it.
        let (taken, all_taken) = oneshot::channel();
        local.submit_then(Vec::new(), move || {
            let _ = taken.send(());
        });
        let _ = all_taken.await;
        if let Some(Settings { live_max, base_env, base_dir, http_allow }) = hello.settings.clone() {
            local.configure(|options| {
                (options.live_max, options.base_env, options.http_allow) = (live_max, base_env, http_allow);
                options.base_dir = base_dir.into();
            });
        }
        // Held until all is queued: reports of what happens meanwhile come behind it.
        let mut slot = self.slot();
        let _ = out.send(Answer::Welcome(self.introduce(self.cleared.swap(0, Ordering::Relaxed))));
        let found = local.known().into_iter().map(WireFound::of);
        in_parts(found, WireFound::bytes, |part| drop(out.send(Answer::Found(part))));
        let _ = out.send(Answer::Ready);
        *slot = ServerSlot::On(pid, out.clone());
        self.is_left.store(false, Ordering::Relaxed);
        tracing::info!(pid, version = hello.version, "a server is here");
        Ok(())
    }

    /// Waits for the connection of a server that is gone to close.
    async fn take_slot(&self, pid: i32) -> Result<(), String> {
        let until = Instant::now() + HANDOVER_TIME_MAX;
        loop {
            let gone = self.server_gone.notified();
            tokio::pin!(gone);
            // Registered before the look, so that an end in between is not missed.
            gone.as_mut().enable();
            let other = {
                let mut slot = self.slot();
                match *slot {
                    ServerSlot::Free => {
                        *slot = ServerSlot::Taken(pid);
                        return Ok(());
                    }
                    ServerSlot::Taken(other) | ServerSlot::On(other, _) => other,
                }
            };
            let left = until.saturating_duration_since(Instant::now());
            if timeout(left, gone).await.is_err() {
                return Err(format!(
                    "another server, the process {other}, works with this executor; stop that one first"
                ));
            }
        }
    }

    fn introduce(&self, cleared: usize) -> Welcome {
        let local = self.local();
        let (running, waiting) = local.load();
        let damage = local.damage().map(|damage| WireDamage {
            path: damage.path.display().to_string(),
            line: damage.line,
            count: damage.count,
            copy: damage.copy.map(|copy| copy.display().to_string()),
        });
        Welcome {
            program: PROGRAM.into(),
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            life: self.life.clone(),
            running,
            waiting,
            cleared,
            groups: match local.groups_at() {
                Ok(root) => Ok(root.display().to_string()),
                Err(why) => Err(why.to_owned()),
            },
            damage,
        }
    }

    async fn take_requests(
        &self,
        reader: &mut BufReader<tokio::net::unix::OwnedReadHalf>,
        out: &Out,
        is_server: bool,
    ) -> Result<(), String> {
        loop {
            match receive(reader).await {
                Ok(Request::Orders { seq, orders }) if is_server => self.take_orders(seq, orders, out),
                Ok(Request::Leave) if is_server => {
                    drop(self.leave_server());
                    let (running, waiting) = self.local().load();
                    tracing::info!(running, waiting, "the server leaves");
                    self.is_left.store(true, Ordering::Relaxed);
                    let _ = out.send(Answer::Left { running, waiting });
                    self.server_gone.notify_waiters();
                    return Ok(());
                }
                Ok(Request::Stop(stop)) => {
                    let asked_by = (!is_server).then(|| out.clone());
                    let _ = self.stop.send((stop, asked_by));
                }
                Ok(_) => return Err("a request that it may not make".into()),
                Err(NoMessage::Closed) => return Ok(()),
                Err(NoMessage::Nonsense(why)) => return Err(format!("a request that does not read: {why}")),
            }
        }
    }

    fn take_orders(&self, seq: u64, orders: Vec<WireOrder>, out: &Out) {
        let mut good: Vec<Order> = Vec::with_capacity(orders.len());
        let mut refused = Vec::new();
        for order in orders {
            let attempt = match &order {
                WireOrder::Start(start) => Some(start.attempt.clone()),
                WireOrder::Stop(_) | WireOrder::Close(_) => None,
            };
            match (order_in(order), attempt) {
                (Ok(order), _) => good.push(order),
                (Err(why), Some(attempt)) => {
                    let why = format!("the executor does not understand the order: {why}");
                    let ended = Some(outcome_text(&Outcome::NotStarted(why.into())));
                    refused.push(WireReport { attempt, at: self.local().wall(), ended, output: None });
                }
                (Err(why), None) => tracing::warn!("an order that does not read was left out: {why}"),
            }
        }
        if !refused.is_empty() {
            let _ = out.send(Answer::Reports(refused));
        }
        let out = out.clone();
        self.local().submit_then(good, move || {
            // No number for the first parts of a large batch.
            if seq > 0 {
                let _ = out.send(Answer::Taken { seq });
            }
        });
    }
}

/// In parts that fit well into a frame.
fn in_parts<T>(items: impl Iterator<Item = T>, bytes: impl Fn(&T) -> usize, mut put: impl FnMut(Vec<T>)) {
    let (mut part, mut sum) = (Vec::new(), 0);
    for item in items {
        sum += bytes(&item);
        part.push(item);
        if part.len() >= FRAME_ITEMS_MAX || sum >= FRAME_BYTES_SOFT {
            put(std::mem::take(&mut part));
            sum = 0;
        }
    }
    if !part.is_empty() {
        put(part);
    }
}

/// Writes answers, many at once in a burst, and a beat when there are none.
async fn write(
    mut to: OwnedWriteHalf,
    mut answers: mpsc::UnboundedReceiver<Answer>,
    silence: impl Fn() -> Duration,
    _talking: Option<mpsc::Sender<()>>,
) {
    loop {
        let mut bytes = match timeout(BEAT_EVERY, answers.recv()).await {
            Ok(Some(answer)) => frame(&answer),
            Ok(None) => return,
            Err(_) => frame(&Answer::Beat { silence_ms: silence().as_millis() as u64 }),
        };
        while bytes.len() < WRITE_BYTES
            && let Ok(answer) = answers.try_recv()
        {
            bytes.extend_from_slice(&frame(&answer));
        }
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
