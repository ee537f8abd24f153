//! A server with an executor inside the process, and what is needed to watch it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cadran::server::clock::{self, Clock};
use cadran::server::event_loop::Orders;
use cadran::server::{self, LoopHandle, Problems, Running, recovery};
use cadran_core::{
    Body, Job, JobName, Millis, Order, Policy, Schedule, ScheduleAction, ScheduleEntry, Step, Work, Zone,
};
use cadran_cron::Dialect;
use cadran_engine::{Engine, Event, JobChange, Options};
use cadran_exec::InProcess;
use cadran_place::Limits;
use cadran_spec::{ScheduleText, encode};
use cadran_store::Store;

/// The stores of this run: SQLite in a directory of its own, and PostgreSQL when there is one.
pub(crate) fn stores(dir: &std::path::Path) -> Vec<(&'static str, String)> {
    let mut stores = vec![("SQLite", format!("sqlite:{}", dir.join("bench.db").display()))];
    if let Ok(url) = std::env::var("CADRAN_TEST_POSTGRES") {
        stores.push(("PostgreSQL", url));
    }
    stores
}

/// A fresh store. PostgreSQL gets a schema of its own, so that benches do not read one another's rows.
pub(crate) async fn fresh(url: &str) -> (Store, String) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let no = NEXT.fetch_add(1, Ordering::Relaxed);
    let url = if let Some(path) = url.strip_prefix("sqlite:") {
        format!("sqlite:{path}.{no}")
    } else {
        let schema = format!("bench_{}_{no}", std::process::id());
        make_schema(url, &schema).await;
        let joint = if url.contains('?') { '&' } else { '?' };
        format!("{url}{joint}options=-csearch_path%3D{schema}")
    };
    (Store::open(&url).await.expect("the store opens"), url)
}

async fn make_schema(url: &str, schema: &str) {
    let made = tokio::process::Command::new("psql")
        .args([url, "-q", "-c", &format!("create schema \"{schema}\"")])
        .status()
        .await;
    assert!(made.is_ok_and(|status| status.success()), "psql makes a schema for the benchmark");
}

/// Nanoseconds since the epoch.
#[allow(clippy::disallowed_methods)]
pub(crate) fn wall_nanos() -> i128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i128)
}

/// Starts seen by the executor: how many, and when the latest came.
#[derive(Default)]
pub(crate) struct Seen {
    state: Mutex<SeenState>,
    more: Condvar,
}

#[derive(Default)]
struct SeenState {
    starts: u64,
    last_nanos: i128,
    late_nanos: Vec<i128>,
    keep_late: bool,
}

impl Seen {
    fn note(&self, orders: &[Order]) {
        let now = wall_nanos();
        let mut state = self.state.lock().expect("no holder panicked");
        for order in orders {
            if let Order::Start(start) = order {
                state.starts += 1;
                state.last_nanos = now;
                if state.keep_late {
                    state.late_nanos.push(now - i128::from(start.context.due) * 1_000_000);
                }
            }
        }
        drop(state);
        self.more.notify_all();
    }

    /// Keeps how late each start came.
    pub(crate) fn keep_late(&self) {
        self.state.lock().expect("no holder panicked").keep_late = true;
    }

    /// How late each start came, in milliseconds, sorted.
    pub(crate) fn late_ms(&self) -> Vec<f64> {
        let state = self.state.lock().expect("no holder panicked");
        let mut late: Vec<f64> = state.late_nanos.iter().map(|&nanos| nanos as f64 / 1e6).collect();
        late.sort_by(f64::total_cmp);
        late
    }

    pub(crate) fn starts(&self) -> u64 {
        self.state.lock().expect("no holder panicked").starts
    }

    /// Waits until so many were started, and tells when the last one was. `None` when it takes too long.
    pub(crate) fn wait_for(&self, starts: u64, patience: Duration) -> Option<i128> {
        let state = self.state.lock().expect("no holder panicked");
        let (state, waited) = self
            .more
            .wait_timeout_while(state, patience, |state| state.starts < starts)
            .expect("no holder panicked");
        (!waited.timed_out()).then_some(state.last_nanos)
    }
}

/// A running server over an in-process executor.
pub(crate) struct World {
    pub(crate) running: Running,
    pub(crate) seen: Arc<Seen>,
}

impl World {
    /// Opens the record and starts the loop. Runs end `delay` after they start.
    pub(crate) async fn start(store: Store, delay: Duration) -> World {
        let (clock, loop_handle, seen) = (Clock::start(), LoopHandle::default(), Arc::new(Seen::default()));
        let limits = Limits { slots: usize::MAX, ..Limits::default() };
        let mut engine = Engine::new(Options { limits, ..Options::default() });
        recovery::restore(&store, &mut engine, Vec::new(), 0, clock.now(), |_| None, &Problems::default())
            .await
            .expect("the record can be read");
        let executor = if delay.is_zero() {
            InProcess::new(clock::wall, loop_handle.sink())
        } else {
            InProcess::with_delay(clock::wall, loop_handle.sink(), delay).expect("a thread can be started")
        };
        let orders: Orders = {
            let seen = seen.clone();
            Arc::new(move |orders: Vec<Order>| {
                seen.note(&orders);
                executor.submit(orders);
            })
        };
        let running =
            server::start(loop_handle, clock, engine, store, orders).expect("threads can be started");
        World { running, seen }
    }

    /// Registers jobs and waits until they are durable.
    pub(crate) async fn put(&self, changes: Vec<JobChange>) {
        self.running.loop_handle.send(Event::Jobs(changes));
        self.durable().await;
    }

    /// Waits until nothing is on its way to the store.
    pub(crate) async fn durable(&self) {
        loop {
            let loop_handle = self.running.loop_handle.clone();
            let open = tokio::task::spawn_blocking(move || loop_handle.query(|engine| engine.uncommitted()));
            if matches!(open.await, Ok(Ok(0))) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until no run is open, and what happened is durable.
    pub(crate) async fn quiet(&self) {
        loop {
            let loop_handle = self.running.loop_handle.clone();
            let open =
                tokio::task::spawn_blocking(move || loop_handle.query(|engine| engine.active_and_waiting()));
            if matches!(open.await, Ok(Ok((0, 0)))) {
                return self.durable().await;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) async fn stop(self) {
        self.running.stop(async {}).await;
    }
}

/// A fleet: jobs `job-0…` with the schedule `text(no)`.
pub(crate) fn fleet(count: usize, policy: Policy, text: impl Fn(usize) -> String) -> Vec<JobChange> {
    let step = Step { name: "main".into(), work: Work::Shell("true".into()), ..Step::default() };
    let body = Arc::new(Body { steps: vec![step], max_active_steps: 1, ..Body::default() });
    fleet_of(count, policy, &body, text)
}

/// A fleet of jobs that do this.
pub(crate) fn fleet_of(
    count: usize,
    policy: Policy,
    body: &Arc<Body>,
    text: impl Fn(usize) -> String,
) -> Vec<JobChange> {
    let utc = Zone::utc();
    let none: Arc<str> = "".into();
    let mut shared: std::collections::HashMap<String, (Arc<[ScheduleEntry]>, Arc<str>)> = Default::default();
    (0..count)
        .map(|no| {
            let text = text(no);
            let (schedules, definition) = shared
                .entry(text)
                .or_insert_with_key(|text| {
                    let schedule = Schedule::parse(text, &utc, Dialect::default()).expect("a good schedule");
                    let entry = ScheduleEntry { schedule: Arc::new(schedule), action: ScheduleAction::Start };
                    ([entry].into(), encode(&[ScheduleText::new(text)], &policy, body))
                })
                .clone();
            let name: JobName = format!("job-{no}").parse().expect("a good name");
            let job = Job { name, schedules, policy, body: body.clone() };
            JobChange::Put { job, definition, source: none.clone(), source_mark: none.clone() }
        })
        .collect()
}

/// The whole second at least `ahead` from now.
pub(crate) fn second_ahead(ahead: Duration) -> Millis {
    (clock::wall() + ahead.as_millis() as Millis).div_euclid(1_000) * 1_000 + 1_000
}

/// A one-off schedule.
pub(crate) fn at(due: Millis) -> String {
    format!("at {}", cadran_http::instant::to_text(due))
}

/// The async runtime of a bench.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}
