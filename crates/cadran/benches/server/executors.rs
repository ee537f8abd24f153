//! Jobs on executors over loopback: when do orders arrive, and what does a run cost?

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cadran::server::clock::{self, Clock};
use cadran::server::event_loop::Orders;
use cadran::server::{self, Executors, LoopHandle, Problems, Running, recovery};
use cadran_core::{
    Body, Dialect, Executor, GroupName, Overlap, Policy, Route, RunStatus, Step, Target, Work,
};
use cadran_engine::{Engine, Event, ExecutorChange, Options};
use cadran_exec::{Hub, HubOptions, Remote, RemoteOptions, Tokens};
use cadran_place::Limits;
use cadran_store::{LIMIT_MAX, RunQuery, Store};

use crate::Asked;
use crate::measure::{cpu_self, percentile, stolen};
use crate::ratchjob::{self, Ratchjob};
use crate::stub::{Arrival, Stubs};
use crate::world::{fleet_of, fresh, runtime, second_ahead, stores};

const TOKEN: &str = "a-token-of-the-benchmark";

pub(crate) fn run(asked: &Asked) {
    let secs = if asked.quick { 5 } else { 20 };
    let dir = tempfile::tempdir().expect("a directory");
    let columns = [
        "expected",
        "arrived",
        "recorded",
        "skipped",
        "p50",
        "p99",
        "worst",
        "read p99",
        "CPU a run",
        "of a core",
        "stub",
        "stolen",
    ];
    println!("{:<34} {}", "work", columns.map(|name| format!("{name:>9}")).join(" "));
    let one = |name: &str, case: Case| {
        if asked.only.as_ref().is_some_and(|words| !name.contains(words.as_str())) {
            return Vec::new();
        }
        // A record of its own, each time.
        let sub = tempfile::tempdir_in(dir.path()).expect("a directory");
        runtime().block_on(measure(name, case, sub.path(), secs, asked.seconds))
    };
    let plain = Case { jobs: 1_000, executors: 10, dead: 0, route: Route::ConsistentHash };
    one("5,000 runs a second", Case { jobs: 5_000, ..plain });
    one("broadcast to 100", Case { jobs: 1, executors: 100, dead: 0, route: Route::ShardingBroadcast });
    // In turns, and the middle one of all seconds counts: what others do on the machine, or on its host, moves the 99th
    // percentile of a run more than a dead executor could.
    let (mut base, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        base.extend(one("1,000 jobs each second", plain));
        beside.extend(one("one executor in ten is dead", Case { dead: 1, ..plain }));
    }
    rival(dir.path(), plain, secs);
    // When only one of them was asked for there is nothing to compare.
    if !base.is_empty() && !beside.is_empty() {
        let [base, beside] = [base, beside].map(|mut seconds: Vec<f64>| {
            seconds.sort_by(f64::total_cmp);
            percentile(&seconds, 0.5)
        });
        println!(
            "p99 of the middle second: {base:.1} ms, of the others beside a dead one {beside:.1} ms, {:+.1} %",
            (beside / base - 1.0) * 100.0
        );
    }
    println!(
        "goals: none missed and p99 within 30 ms at 1,000, at most 10 % of a core; p99 within 250 ms at 5,000; a dead one \
         moves the others by less than 10 %; a broadcast is out within 50 ms"
    );
}

/// How often runs beside a dead executor are compared with runs beside none.
const ROUNDS: usize = 4;

#[derive(Clone, Copy)]
struct Case {
    jobs: usize,
    executors: usize,
    dead: usize,
    route: Route,
}

/// Processor time, by who had it.
#[derive(Clone, Copy)]
struct Taken {
    scheduler: Duration,
    stub: Duration,
    /// What the host gave to other machines meanwhile: with much of it lateness says little about either.
    host: Duration,
}

impl Taken {
    fn by(scheduler: Duration, stubs: &Stubs) -> Taken {
        Taken { scheduler, stub: stubs.cpu(), host: stolen() }
    }

    fn since(self, before: Taken) -> Taken {
        Taken {
            scheduler: self.scheduler - before.scheduler,
            stub: self.stub - before.stub,
            host: self.host - before.host,
        }
    }
}

/// Says the 99th percentile of each second.
async fn measure(name: &str, case: Case, dir: &std::path::Path, secs: u64, each: bool) -> Vec<f64> {
    let (running, door) = start(dir).await;
    let stubs = tokio::task::block_in_place(|| Stubs::start(case.executors, case.dead, &door, TOKEN));
    let group: GroupName = "bench".parse().expect("a name");
    let list = stubs
        .addresses
        .iter()
        .map(|address| Executor { address: address.parse().expect("an address"), dialect: Dialect::Two });
    running.loop_handle.send(Event::Executors(vec![ExecutorChange::Typed(group.clone(), list.collect())]));
    let target = Target { route: case.route, ..Target::new(group) };
    let step = Step {
        name: "main".into(),
        work: Work::Handler("bench".into()),
        target: Some(Box::new(target)),
        ..Step::default()
    };
    let body = Arc::new(Body { steps: vec![step], max_active_steps: 1, ..Body::default() });
    let policy = Policy { overlap: Overlap::Skip, ..Policy::DEFAULT };
    running.loop_handle.send(Event::Jobs(fleet_of(case.jobs, policy, &body, |_| "* * * * * *".into())));
    // The jobs become durable and the first seconds pass; then whole seconds are measured.
    let first = second_ahead(Duration::from_secs(if case.jobs > 1_000 { 6 } else { 4 }));
    wait_until(first).await;
    let before = Taken::by(cpu_self(), &stubs);
    let last = first + secs as i64 * 1_000;
    wait_until(last).await;
    let taken = Taken::by(cpu_self(), &stubs).since(before);
    // What is still on its way arrives, or is missed.
    tokio::time::sleep(Duration::from_millis(900)).await;
    let store = running.store.clone();
    let recorded = counted(&store, RunStatus::Succeeded, first, last).await;
    // A due that finds its job still on is skipped, and recorded: so it is when the host takes the processors for a second.
    let skipped = counted(&store, RunStatus::Skipped, first, last).await;
    let arrivals = tokio::task::block_in_place(|| stubs.arrivals());
    let came = by_due(&arrivals, first, last, |arrival| (arrival.made, arrival.at));
    let late = together(&came);
    let read = together(&by_due(&arrivals, first, last, |arrival| (arrival.made, arrival.read)));
    let shares = if case.route == Route::ShardingBroadcast { case.executors } else { 1 };
    let expected = case.jobs * shares * secs as usize;
    let expected = if case.dead > 0 { format!("<{expected}") } else { expected.to_string() };
    let on_record = [recorded, skipped].map(|count| count.to_string());
    line(name, &expected, on_record, (&late, &read), taken, secs);
    if each {
        seconds(&came);
    }
    running.stop(async {}).await;
    came.values().map(|late| percentile(late, 0.99)).collect()
}

fn line(
    name: &str,
    expected: &str,
    [recorded, skipped]: [String; 2],
    (late, read): (&[f64], &[f64]),
    taken: Taken,
    secs: u64,
) {
    let of_a_core = |time: Duration| time.as_secs_f64() * 100.0 / secs as f64;
    println!(
        "{name:<34} {expected:>9} {:>9} {recorded:>9} {skipped:>9} {:>6.1} ms {:>6.1} ms {:>6.1} ms {:>6.1} ms {:>6.1} µs {:>7.1} % \
         {:>7.1} % {:>7.1} %",
        late.len(),
        percentile(late, 0.5),
        percentile(late, 0.99),
        late.last().copied().unwrap_or(f64::NAN),
        percentile(read, 0.99),
        taken.scheduler.as_secs_f64() * 1e6 / late.len().max(1) as f64,
        of_a_core(taken.scheduler),
        of_a_core(taken.stub),
        of_a_core(taken.host),
    );
}

/// `ratchjob` with the same work, when there is one.
fn rival(dir: &std::path::Path, case: Case, secs: u64) {
    let Some(program) = ratchjob::program() else {
        println!("ratchjob: left out; {} names its program", ratchjob::VARIABLE);
        return;
    };
    for jobs in [case.jobs, 5 * case.jobs] {
        let ratchjob = Ratchjob::start(&program, &dir.join(format!("ratchjob-{jobs}")), TOKEN);
        let stubs = Stubs::start(case.executors, 0, &format!("{}/xxl-job-admin", ratchjob.door), TOKEN);
        if !ratchjob.prepare(&stubs.addresses, jobs, TOKEN) {
            println!("ratchjob: did not take executors and jobs; left out");
            return;
        }
        let first = second_ahead(Duration::from_secs(8));
        let last = first + secs as i64 * 1_000;
        let taken = runtime().block_on(async {
            wait_until(first).await;
            let before = Taken::by(ratchjob.cpu(), &stubs);
            wait_until(last).await;
            let taken = Taken::by(ratchjob.cpu(), &stubs).since(before);
            tokio::time::sleep(Duration::from_millis(900)).await;
            taken
        });
        // Its orders do not say when they were made: each counts for the second it came in.
        let arrivals = stubs.arrivals();
        let second = |arrival: &Arrival| (arrival.at / 1_000_000) as i64;
        let late = together(&by_due(&arrivals, first, last, |arrival| (second(arrival), arrival.at)));
        let read = together(&by_due(&arrivals, first, last, |arrival| (second(arrival), arrival.read)));
        let (name, expected) =
            (format!("ratchjob, {jobs} jobs each second"), (jobs * secs as usize).to_string());
        line(&name, &expected, ["-", "-"].map(str::to_owned), (&late, &read), taken, secs);
    }
}

/// How late orders for the dues of some seconds came, in milliseconds, sorted, by due. One for each job, share and due: a
/// second one would be a mistake of its own and is not counted. `times` says when an order was made and when it came: the
/// second of the former is the due, since orders are made at their due or shortly after.
fn by_due(
    arrivals: &[Arrival],
    first: i64,
    last: i64,
    times: impl Fn(&Arrival) -> (i64, i128),
) -> BTreeMap<i64, Vec<f64>> {
    let (mut came, mut dues) = (BTreeSet::new(), BTreeMap::<i64, Vec<f64>>::new());
    for arrival in arrivals {
        let (made, at) = times(arrival);
        let due = made.div_euclid(1_000) * 1_000;
        if (first..last).contains(&due) && came.insert((arrival.job, arrival.share, due)) {
            let late = (at - i128::from(due) * 1_000_000) as f64 / 1e6;
            dues.entry(due).or_default().push(late);
        }
    }
    dues.values_mut().for_each(|late| late.sort_by(f64::total_cmp));
    dues
}

fn together(by_due: &BTreeMap<i64, Vec<f64>>) -> Vec<f64> {
    let mut late: Vec<f64> = by_due.values().flatten().copied().collect();
    late.sort_by(f64::total_cmp);
    late
}

/// When the first, the hundredth and so on of each second came.
fn seconds(by_due: &BTreeMap<i64, Vec<f64>>) {
    const SHARES: [f64; 8] = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0];
    for late in by_due.values() {
        let text: Vec<String> = SHARES
            .iter()
            .map(|&share| format!("{:>3.0} % {:>6.1}", share * 100.0, percentile(late, share)))
            .collect();
        println!("    {}", text.join("  "));
    }
}

/// How many runs that were due in these seconds are on record with this status.
async fn counted(store: &Store, status: RunStatus, first: i64, last: i64) -> usize {
    let (mut count, mut before) = (0, None);
    loop {
        let query = RunQuery {
            statuses: vec![status],
            before,
            due_from: Some(first),
            due_to: Some(last),
            limit: LIMIT_MAX,
            ..RunQuery::default()
        };
        let page = store.runs(&query).await.expect("the record can be read");
        let Some(oldest) = page.last() else { return count };
        before = Some(oldest.record.promise.run);
        count += page.len();
    }
}

/// The whole server but for job files and the API, on SQLite.
async fn start(dir: &std::path::Path) -> (Running, String) {
    let (_, url) = stores(dir).remove(0);
    let (store, _) = fresh(&url).await;
    let (clock, loop_handle) = (Clock::start(), LoopHandle::default());
    let tokens = Tokens::default();
    tokens.set_all(TOKEN).expect("a good token");
    let tokens = Arc::new(tokens);
    let options = RemoteOptions::new(dir);
    let roster = options.ledger.with_file_name("roster.json");
    let (remote, _, _) =
        Remote::open(options, tokens.clone(), clock::wall, loop_handle.sink()).expect("a ledger");
    let remote = Arc::new(remote);
    // No worker is there, and none comes.
    let (hub, _, _) =
        Hub::open(HubOptions::new(dir), move || clock.now(), loop_handle.sink(), |_| {}).expect("a ledger");
    let limits = Limits { slots: usize::MAX, ..Limits::default() };
    let mut engine = Engine::new(Options { limits, ..Options::default() });
    recovery::restore(&store, &mut engine, Vec::new(), 0, clock.now(), |_| None, &Problems::default())
        .await
        .expect("the record can be read");
    let executors = Executors::new(
        loop_handle.clone(),
        clock,
        remote.clone(),
        Arc::new(hub),
        roster,
        &mut engine,
        Vec::new(),
    );
    let executors = Arc::new(executors);
    let orders: Orders = Arc::new(move |orders| remote.submit(orders));
    let running = server::start(loop_handle, clock, engine, store, orders).expect("threads can be started");
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
