//! Jobs on executors over loopback: when do orders arrive, and what does a run cost?

use std::sync::Arc;
use std::time::Duration;

use cadran::server::clock::{self, Clock};
use cadran::server::turn::Orders;
use cadran::server::{self, Executors, Line, Running, revive};
use cadran_core::{Body, Dialect, Executor, GroupName, Overlap, Policy, Route, Step, Target, Work};
use cadran_engine::{Engine, Event, ExecutorChange, Options};
use cadran_exec::{Remote, RemoteOptions, Tokens};
use cadran_place::Limits;

use crate::Asked;
use crate::measure::{cpu_self, cpu_threads, percentile};
use crate::stub::Stubs;
use crate::world::{fleet_of, fresh, runtime, second_ahead, stores};

const TOKEN: &str = "a-token-of-the-benchmark";

pub(crate) fn run(asked: &Asked) {
    let secs = if asked.quick { 5 } else { 20 };
    let dir = tempfile::tempdir().expect("a directory");
    println!(
        "{:<34} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>9}",
        "work", "expected", "arrived", "p50", "p99", "worst", "CPU a run", "of a core"
    );
    let one = |name: &str, case: Case| {
        let sub = dir.path().join(name.replace([' ', ','], "-"));
        std::fs::create_dir_all(&sub).expect("a directory");
        runtime().block_on(measure(name, case, &sub, secs))
    };
    let plain = Case { jobs: 1_000, executors: 10, dead: 0, route: Route::ConsistentHash };
    let base = one("1,000 jobs each second", plain);
    one("5,000 runs a second", Case { jobs: 5_000, ..plain });
    let beside = one("one executor in ten is dead", Case { dead: 1, ..plain });
    one("broadcast to 100", Case { jobs: 1, executors: 100, dead: 0, route: Route::ShardingBroadcast });
    println!("p99 of the others beside a dead one: {:+.1} %", (beside / base - 1.0) * 100.0);
    println!(
        "goals: none missed and p99 within 30 ms at 1,000, at most 10 % of a core; p99 within 250 ms at 5,000; a dead one \
         moves the others by less than 10 %; a broadcast is out within 50 ms"
    );
}

#[derive(Clone, Copy)]
struct Case {
    jobs: usize,
    executors: usize,
    dead: usize,
    route: Route,
}

async fn measure(name: &str, case: Case, dir: &std::path::Path, secs: u64) -> f64 {
    let (running, door) = start(dir).await;
    let stubs = tokio::task::block_in_place(|| Stubs::start(case.executors, case.dead, door, TOKEN));
    let group: GroupName = "bench".parse().expect("a name");
    let list = stubs
        .addresses
        .iter()
        .map(|address| Executor { address: address.parse().expect("an address"), dialect: Dialect::Two });
    running.line.tell(Event::Executors(vec![ExecutorChange::Typed(group.clone(), list.collect())]));
    let target = Target { route: case.route, ..Target::new(group) };
    let step = Step {
        name: "main".into(),
        work: Work::Handler("bench".into()),
        target: Some(Box::new(target)),
        ..Step::default()
    };
    let body = Arc::new(Body { steps: vec![step], max_active_steps: 1, ..Body::default() });
    let policy = Policy { overlap: Overlap::Skip, ..Policy::DEFAULT };
    running.line.tell(Event::Jobs(fleet_of(case.jobs, policy, &body, |_| "* * * * * *".into())));
    // The jobs become durable and the first seconds pass; then whole seconds are measured.
    let first = second_ahead(Duration::from_secs(if case.jobs > 1_000 { 6 } else { 4 }));
    wait_until(first).await;
    let ours = || cpu_self().saturating_sub(cpu_threads("stub"));
    let before = ours();
    let last = first + secs as i64 * 1_000;
    wait_until(last).await;
    let spent = ours() - before;
    // What is still on its way arrives, or is missed.
    tokio::time::sleep(Duration::from_millis(900)).await;
    let arrivals = stubs.arrivals.lock().expect("no holder panicked").clone();
    let window = i128::from(first) * 1_000_000..i128::from(last) * 1_000_000;
    let inside: Vec<i128> = arrivals.iter().map(|(at, _)| *at).filter(|at| window.contains(at)).collect();
    let mut late: Vec<f64> = inside.iter().map(|at| (at % 1_000_000_000) as f64 / 1e6).collect();
    late.sort_by(f64::total_cmp);
    let shares = if case.route == Route::ShardingBroadcast { case.executors } else { 1 };
    let expected = case.jobs * shares * secs as usize;
    let live = expected - expected / case.executors.max(1) * case.dead;
    let p99 = percentile(&late, 0.99);
    println!(
        "{name:<34} {:>9} {:>9} {:>6.1} ms {p99:>6.1} ms {:>6.1} ms {:>7.1} µs {:>7.1} %",
        if case.dead > 0 { format!("~{live}") } else { expected.to_string() },
        late.len(),
        percentile(&late, 0.5),
        late.last().copied().unwrap_or(f64::NAN),
        spent.as_secs_f64() * 1e6 / late.len().max(1) as f64,
        spent.as_secs_f64() * 100.0 / secs as f64,
    );
    running.stop(async {}).await;
    p99
}

/// The whole server but for job files and the API, on SQLite.
async fn start(dir: &std::path::Path) -> (Running, String) {
    let (_, url) = stores(dir).remove(0);
    let (store, _) = fresh(&url).await;
    let (clock, line) = (Clock::start(), Line::default());
    let mut tokens = Tokens::default();
    tokens.set_all(TOKEN).expect("a good token");
    let tokens = Arc::new(tokens);
    let options = RemoteOptions::new(dir);
    let roster = options.ledger.with_file_name("roster.json");
    let (remote, _, _) = Remote::open(options, tokens.clone(), clock::wall, line.sink()).expect("a ledger");
    let remote = Arc::new(remote);
    let limits = Limits { slots: usize::MAX, ..Limits::default() };
    let mut engine = Engine::new(Options { limits, ..Options::default() });
    revive::restore(&store, &mut engine, Vec::new(), None, clock.now())
        .await
        .expect("the record can be read");
    let executors =
        Arc::new(Executors::new(line.clone(), clock, remote.clone(), roster, &mut engine, Vec::new()));
    let orders: Orders = Arc::new(move |orders| remote.submit(orders));
    let running = server::start(line, clock, engine, store, orders).expect("threads can be started");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let door = listener.local_addr().expect("an address").to_string();
    let counts = executors.counts.clone();
    let router = cadran_http::executor_router(executors, tokens, counts);
    tokio::spawn(cadran_http::serve(
        listener,
        router,
        std::future::pending(),
        cadran_http::Limits::default(),
    ));
    (running, door)
}

async fn wait_until(wall: i64) {
    let left = wall - clock::wall();
    tokio::time::sleep(Duration::from_millis(left.max(0) as u64)).await;
}
