use std::collections::BTreeMap;
use std::sync::Arc;

use cadran_core::{
    Body, Command, Dialect, Executor, Job, Now, Order, Outcome, Policy, Refusal, Reply, Report, ReportKind,
    Retry, Route, RunId, RunRecord, RunStatus, SeatRecord, SeatStatus, Seats, ShareError, Start, Step,
    StepRecord, Target, Work,
};

use crate::{
    Effects, Engine, Event, ExecutorChange, JobChange, Options, Restored, RestoredJob, RestoredRun, Token,
};

const ADDRESSES: [&str; 3] = ["http://h:1", "http://h:2", "http://h:3"];

/// An engine with a job that is shared out to three, what it has recorded, and the orders that left.
struct Shop {
    engine: Engine,
    now: Now,
    rows: BTreeMap<RunId, RunRecord>,
    orders: Vec<Order>,
    replies: BTreeMap<Token, Result<Reply, Refusal>>,
    tokens: u64,
}

fn job(retries: u32) -> Job {
    let group = "g".parse().expect("a name");
    let target = Target { route: Route::ShardingBroadcast, ..Target::new(group) };
    let step = Step {
        name: "all".into(),
        work: Work::Handler("work".into()),
        target: Some(Box::new(target)),
        retry: Retry { limit: retries, interval_ms: 0, ..Retry::default() },
        ..Step::default()
    };
    let body = Arc::new(Body { steps: vec![step], ..Body::default() });
    Job { name: "job".parse().expect("a name"), schedules: [].into(), policy: Policy::DEFAULT, body }
}

fn typed() -> Event {
    let executor =
        |text: &str| Executor { address: text.parse().expect("an address"), dialect: Dialect::Two };
    let list = ADDRESSES.iter().map(|text| executor(text)).collect();
    Event::Executors(vec![ExecutorChange::Typed("g".parse().expect("a name"), list)])
}

impl Shop {
    fn new(retries: u32) -> Shop {
        let now = Now { wall: 1_794_780_000_000, mono: 5_000 };
        let mut engine = Engine::new(Options::default());
        engine.restore(Restored::default(), now);
        let (rows, replies) = (BTreeMap::new(), BTreeMap::new());
        let mut shop = Shop { engine, now, rows, orders: Vec::new(), replies, tokens: 0 };
        let put = JobChange::Put {
            job: job(retries),
            definition: "".into(),
            source: "".into(),
            source_mark: "".into(),
        };
        shop.handle(Event::Jobs(vec![put]));
        shop.handle(typed());
        shop
    }

    /// A server that was killed and is back: what was out is as the executors know it.
    fn restart(&mut self, found: Vec<cadran_core::Found>, retries: u32) {
        let mut engine = Engine::new(Options::default());
        let state = cadran_core::JobState {
            job: cadran_core::JobId(0),
            watermark: None,
            paused_at: None,
            holes: Vec::new(),
        };
        let restored_job =
            RestoredJob { id: state.job, job: job(retries), revision: 1, removed_at: None, state };
        let open = self.rows.values().filter(|row| !row.state.status.is_ended()).cloned();
        let runs = open.map(|record| RestoredRun { record, job: None }).collect();
        let last_id = self.rows.keys().last().copied();
        self.orders.clear();
        engine.handle(typed(), self.now);
        engine.restore(
            Restored { jobs: vec![restored_job], runs, found, last_id, ..Restored::default() },
            self.now,
        );
        self.engine = engine;
        self.settle();
    }

    fn handle(&mut self, event: Event) {
        self.now.mono += 10;
        self.now.wall += 10;
        self.engine.handle(event, self.now);
        self.settle();
    }

    fn settle(&mut self) {
        loop {
            self.engine.handle(Event::Time, self.now);
            let Effects { seq, batch, orders, replies, recalls, .. } = self.engine.take_effects();
            let is_quiet = seq == 0 && orders.is_empty() && replies.is_empty() && recalls.is_empty();
            self.orders.extend(orders);
            self.replies.extend(replies);
            for promise in batch.promised {
                let update = cadran_core::RunUpdate::promised(promise.run);
                self.rows.insert(promise.run, RunRecord { promise, state: update });
            }
            for update in batch.runs {
                let row = self.rows.get_mut(&update.run).expect("promised");
                let steps = update.steps.clone().or(row.state.steps.take());
                row.state = cadran_core::RunUpdate { steps, ..update };
            }
            if seq > 0 {
                self.engine.handle(Event::Committed { seq, refused: Vec::new() }, self.now);
            }
            for (token, run, share) in recalls {
                let restored = RestoredRun { record: self.rows[&run].clone(), job: None };
                self.engine.handle(Event::Recalled(token, Box::new(restored), share), self.now);
            }
            if is_quiet {
                return;
            }
        }
    }

    fn ask(&mut self, command: Command) -> Result<Reply, Refusal> {
        self.tokens += 1;
        let token = Token(self.tokens);
        self.handle(Event::Command(token, command));
        self.replies.remove(&token).expect("answered")
    }

    fn trigger(&mut self) -> RunId {
        let job = "job".parse().expect("a name");
        match self.ask(Command::Trigger {
            job,
            params: Vec::new(),
            addresses: Vec::new(),
            parent: None,
            key: None,
        }) {
            Ok(Reply::Run(run)) => run,
            other => panic!("{other:?}"),
        }
    }

    /// The latest order, and the shares it gives out.
    fn start(&self) -> (&Start, Vec<u32>) {
        let mut starts = self.orders.iter().rev().filter_map(|order| match order {
            Order::Start(start) => Some(start),
            _ => None,
        });
        let start = starts.next().expect("an order");
        match &start.placement.as_ref().expect("placed").seats {
            Seats::Chosen(seats) => (start, seats.iter().map(|seat| seat.index).collect()),
            other => panic!("{other:?}"),
        }
    }

    /// What the executors say: how each share stands, and then how the attempt ended.
    fn report(&mut self, shares: &[(u32, SeatStatus)], ended: Option<Outcome>) {
        let (start, _) = self.start();
        let (run, step, attempt) = (start.run, start.step, start.attempt);
        let at = self.now.wall;
        let report = |kind| Report { run, step, attempt, at, kind };
        let mut reports = vec![report(ReportKind::Started)];
        for (index, status) in shares {
            let known = self.seat(run, *index);
            let ended_at = status.is_ended().then_some(at);
            let seat = SeatRecord { status: *status, ended_at, attempt, again: false, ..known };
            reports.push(report(ReportKind::Seat(Box::new(seat))));
        }
        reports.extend(ended.map(|outcome| report(ReportKind::Ended { outcome, output: None })));
        self.handle(Event::Reports(reports));
    }

    fn step(&self, run: RunId) -> StepRecord {
        self.rows[&run].state.steps.as_ref().expect("steps")[0].clone()
    }

    fn seat(&self, run: RunId, index: u32) -> SeatRecord {
        let live = self.engine.runs.get(run).and_then(|live| live.steps());
        let steps = live.unwrap_or_else(|| self.rows[&run].state.steps.clone().expect("steps"));
        steps[0].seats.iter().find(|seat| seat.index == index).expect("a share").clone()
    }

    fn status(&self, run: RunId) -> RunStatus {
        self.rows[&run].state.status
    }
}

use SeatStatus::{Failed, Lost, Running, Stopped, Stopping, Succeeded};

fn stop_of(order: &Order) -> Option<(RunId, u32, u32)> {
    match order {
        Order::StopShare { run, attempt, share, .. } => Some((*run, *attempt, *share)),
        _ => None,
    }
}

#[test]
fn one_share_is_stopped_and_the_step_fails_for_it() {
    let mut shop = Shop::new(5);
    let run = shop.trigger();
    assert_eq!(shop.start().1, [0, 1, 2]);
    shop.report(&[(0, Running), (1, Running), (2, Running)], None);
    assert_eq!(shop.ask(Command::StopShare { run, share: 1 }), Ok(Reply::Run(run)));
    assert_eq!(shop.orders.iter().filter_map(stop_of).collect::<Vec<_>>(), [(run, 1, 1)]);
    assert_eq!(shop.seat(run, 1).status, Stopping, "on record before it has ended");
    assert_eq!(shop.step(run).seats[1].status, Stopping);
    assert_eq!(shop.ask(Command::StopShare { run, share: 1 }), Ok(Reply::Already));
    // What still comes from its executor does not undo that.
    shop.report(&[(1, Running)], None);
    assert_eq!(shop.seat(run, 1).status, Stopping);
    for (share, why) in [(9, ShareError::Beyond(3)), (3, ShareError::Beyond(3))] {
        assert_eq!(shop.ask(Command::StopShare { run, share }), Err(Refusal::NoSuchShare(run, why)));
    }
    shop.report(&[(0, Succeeded), (1, Stopped)], None);
    shop.report(&[(0, Running), (1, Running)], None);
    assert_eq!(
        (shop.seat(run, 0).status, shop.seat(run, 1).status),
        (Succeeded, Stopped),
        "what is over stays over"
    );
    assert_eq!(shop.ask(Command::StopShare { run, share: 1 }), Err(Refusal::ShareEnded(run, 1)));
    assert_eq!(shop.status(run), RunStatus::Running, "the others go on");
    let why = "1 of 3 shares failed; share 1 at http://h:2: stopped on request";
    shop.report(&[(2, Succeeded)], Some(Outcome::Halted(why.into())));
    assert_eq!(shop.status(run), RunStatus::Failed, "and nobody tries it again by itself");
    let message = shop.rows[&run].state.message.clone().unwrap_or_default();
    assert!(message.contains(why), "{message}");
    assert_eq!(shop.orders.iter().filter(|order| matches!(order, Order::Start(_))).count(), 1);
    assert_eq!(shop.ask(Command::StopShare { run, share: 1 }), Err(Refusal::NoSuchRun(run)));
}

#[test]
fn a_stop_of_a_share_outlives_the_server() {
    let mut shop = Shop::new(0);
    let run = shop.trigger();
    shop.report(&[(0, Running), (1, Running), (2, Running)], None);
    shop.ask(Command::StopShare { run, share: 2 }).expect("stopped");
    let (start, _) = shop.start();
    let found = cadran_core::Found {
        run,
        step: start.step,
        attempt: 1,
        started_at: shop.now.wall,
        ended: None,
        output: None,
        lives: true,
        seats: (0..3).map(|index| SeatRecord { status: Running, ..shop.seat(run, index) }).collect(),
    };
    shop.restart(vec![found], 0);
    assert_eq!(shop.orders.iter().filter_map(stop_of).collect::<Vec<_>>(), [(run, 1, 2)], "said once more");
    assert!(!shop.orders.iter().any(|order| matches!(order, Order::Start(_))));
    assert_eq!(shop.seat(run, 2).status, Stopping);
}

#[test]
fn one_share_is_repeated_and_what_else_failed_is_told() {
    let mut shop = Shop::new(0);
    let run = shop.trigger();
    shop.report(&[(0, Failed), (1, Failed), (2, Succeeded)], Some(Outcome::Reported(500, "no".into())));
    assert_eq!(shop.status(run), RunStatus::Failed);
    let refused = [
        (2, Refusal::NotRetryable(run, "this share of it succeeded")),
        (7, Refusal::NoSuchShare(run, ShareError::Beyond(3))),
    ];
    for (share, refusal) in refused {
        assert_eq!(shop.ask(Command::RetryShare { run, share }), Err(refusal));
    }
    assert_eq!(shop.ask(Command::RetryShare { run, share: 1 }), Ok(Reply::Run(run)));
    let (start, shares) = shop.start();
    assert_eq!((start.attempt, &shares[..]), (2, &[1][..]), "and no other");
    assert!(matches!(shop.ask(Command::RetryShare { run, share: 0 }), Err(Refusal::NotRetryable(..))));
    shop.report(&[(1, Succeeded)], Some(Outcome::Exited(0)));
    assert_eq!(shop.status(run), RunStatus::Failed);
    let message = shop.step(run).message.unwrap_or_default();
    assert!(
        message.contains("1 of 3 shares did not succeed before") && message.contains("share 0"),
        "{message}"
    );
    // All of it: the one that is left.
    assert_eq!(shop.ask(Command::Retry { run }), Ok(Reply::Run(run)));
    assert_eq!(shop.start().1, [0]);
    shop.report(&[(0, Succeeded)], Some(Outcome::Exited(0)));
    assert_eq!(shop.status(run), RunStatus::Succeeded);
    let attempts: Vec<u32> = shop.step(run).seats.iter().map(|seat| seat.attempt).collect();
    assert_eq!(attempts, [3, 2, 1]);
}

#[test]
fn what_is_tried_again_by_itself_is_what_was_asked_for() {
    let mut shop = Shop::new(0);
    let run = shop.trigger();
    shop.report(&[(0, Failed), (1, Failed), (2, Failed)], Some(Outcome::Reported(500, "no".into())));
    shop.ask(Command::RetryShare { run, share: 2 }).expect("opened");
    // Lost with its executor: a new attempt of the same share.
    shop.report(&[(2, Lost)], Some(Outcome::Lost));
    let (start, shares) = shop.start();
    assert_eq!((start.attempt, &shares[..]), (3, &[2][..]));
    // A server that is killed in between asks for the same.
    let (step, attempt) = (start.step, start.attempt);
    let seats = vec![SeatRecord { attempt, status: Lost, ..shop.seat(run, 2) }];
    let found = |ended| cadran_core::Found {
        run,
        step,
        attempt,
        started_at: shop.now.wall,
        ended,
        output: None,
        lives: false,
        seats: seats.clone(),
    };
    let lost = found(Some((shop.now.wall, Outcome::Lost)));
    shop.restart(vec![lost], 0);
    let (start, shares) = shop.start();
    assert_eq!((start.attempt, &shares[..]), (4, &[2][..]));
}

#[test]
fn an_end_that_is_found_after_a_restart_counts_the_other_shares() {
    let mut shop = Shop::new(0);
    let run = shop.trigger();
    shop.report(&[(0, Failed), (1, Succeeded), (2, Failed)], Some(Outcome::Reported(500, "no".into())));
    shop.ask(Command::RetryShare { run, share: 2 }).expect("opened");
    shop.report(&[(2, Running)], None);
    let (start, _) = shop.start();
    let found = cadran_core::Found {
        run,
        step: start.step,
        attempt: start.attempt,
        started_at: shop.now.wall,
        ended: Some((shop.now.wall, Outcome::Exited(0))),
        output: None,
        lives: false,
        seats: vec![SeatRecord { status: Succeeded, attempt: start.attempt, ..shop.seat(run, 2) }],
    };
    shop.restart(vec![found], 0);
    assert_eq!(shop.status(run), RunStatus::Failed);
    let message = shop.step(run).message.unwrap_or_default();
    assert!(message.contains("share 0"), "{message}");
}
