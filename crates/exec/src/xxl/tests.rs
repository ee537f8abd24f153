//! Orders over real connections, to executors that answer when they are told to.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cadran_core::{Dialect, Executor, JobId, Order, Report, RunId, Seat, Seats, Step, Target, Work};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::{Remote, RemoteOptions, Tokens};
use crate::sample;

/// An executor that tells the bodies of requests that came, and answers them as soon as `may_answer` says so.
async fn executor(came: mpsc::UnboundedSender<String>, may_answer: watch::Receiver<bool>) -> Executor {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, came.clone(), may_answer.clone()));
        }
    });
    Executor { address: address.parse().expect("an address"), dialect: Dialect::Two }
}

async fn serve(
    mut stream: TcpStream,
    came: mpsc::UnboundedSender<String>,
    mut may_answer: watch::Receiver<bool>,
) -> Option<()> {
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{\"code\":200}";
    let mut text = String::new();
    loop {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).await.ok().filter(|read| *read > 0)?;
        text.push_str(str::from_utf8(&piece[..read]).ok()?);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let len: usize = head.split_once("Content-Length: ")?.1.lines().next()?.parse().ok()?;
        if body.len() < len {
            continue;
        }
        came.send(body.to_owned()).ok()?;
        text.clear();
        may_answer.wait_for(|may| *may).await.ok()?;
        stream.write_all(ANSWER).await.ok()?;
    }
}

/// What gives orders, and what it reports. Nobody is slow and nobody is asked twice, however busy the machine is.
fn open(dir: &Path) -> (Remote, mpsc::UnboundedReceiver<Report>) {
    let tokens = Tokens::default();
    tokens.set_all("a-token-of-the-tests").expect("a good token");
    let (reports, reported) = mpsc::unbounded_channel();
    let options = RemoteOptions {
        slow_after: Duration::from_secs(60),
        call_time_max: Duration::from_secs(120),
        look_every: Duration::from_secs(600),
        ..RemoteOptions::new(dir)
    };
    let sink = Arc::new(move |some: Vec<Report>| some.into_iter().for_each(|one| drop(reports.send(one))));
    let (remote, _, _) = Remote::open(options, Arc::new(tokens), || 0, sink).expect("a ledger");
    (remote, reported)
}

fn order(number: u64, to: &Executor) -> Order {
    let target = Target::new("g".parse().expect("a name"));
    let work = Work::Handler("h".into());
    let step = Step { name: "main".into(), work, target: Some(Box::new(target)), ..Step::default() };
    let seat = Seat { index: 0, total: 1, executor: to.clone(), log: number };
    Order::Start(sample::start(JobId(number as u32), number, step, Seats::Chosen(vec![seat])))
}

/// What comes next. Something that never comes ends the test.
async fn next<T>(from: &mut mpsc::UnboundedReceiver<T>) -> T {
    timeout(Duration::from_secs(60), from.recv()).await.expect("it comes within a minute").expect("it comes")
}

fn on(remote: &Remote) -> (usize, usize) {
    let counts = remote.counts();
    (counts.fast.on, counts.slow.on)
}

#[tokio::test]
async fn a_burst_leaves_without_waiting_for_answers() {
    let dir = tempfile::tempdir().expect("a directory");
    let (remote, mut reported) = open(dir.path());
    let (answer, may_answer) = watch::channel(false);
    let (came, mut coming) = mpsc::unbounded_channel();
    let mut executors = Vec::new();
    for _ in 0..3 {
        executors.push(executor(came.clone(), may_answer.clone()).await);
    }
    let numbers: BTreeSet<u64> = (1..=300).collect();
    // The second burst finds connections that are open.
    for burst in 0..2u64 {
        let numbers: BTreeSet<u64> = numbers.iter().map(|number| burst * 1_000 + number).collect();
        answer.send_replace(false);
        remote
            .submit(numbers.iter().map(|&no| order(no, &executors[no as usize % executors.len()])).collect());
        let mut arrived = BTreeSet::new();
        while arrived.len() < numbers.len() {
            let body = next(&mut coming).await;
            let log = body.split_once("\"logId\":").expect("a log").1;
            let log: u64 = log.split(',').next().expect("a number").parse().expect("a number");
            assert!(arrived.insert(log), "{log} came twice");
        }
        assert_eq!(arrived, numbers);
        assert_eq!(remote.counts().accepted as usize, burst as usize * numbers.len());
        answer.send_replace(true);
        let mut up = BTreeSet::new();
        while up.len() < numbers.len() {
            up.insert(next(&mut reported).await.run.raw());
        }
        assert_eq!(up, numbers);
        assert_eq!(on(&remote), (0, 0));
    }
}

#[tokio::test]
async fn answers_wait_while_a_burst_leaves() {
    let dir = tempfile::tempdir().expect("a directory");
    let (remote, mut reported) = open(dir.path());
    let (_answer, may_answer) = watch::channel(true);
    let (came, mut coming) = mpsc::unbounded_channel();
    let executor = executor(came, may_answer).await;
    // Orders of a burst leave by connections that are open; who needs a new one waits as well.
    remote.submit(vec![order(1, &executor)]);
    next(&mut coming).await;
    assert_eq!(next(&mut reported).await.run, RunId::from_raw(1));
    let rush = remote.shared.rush.begin();
    remote.submit(vec![order(2, &executor)]);
    next(&mut coming).await;
    // Others are answered meanwhile, by the same threads and later than the order was.
    for _ in 0..3 {
        let (shared, executor) = (remote.shared.clone(), executor.clone());
        let group = "g".parse().expect("a name");
        let call = async move { shared.client.call(&group, &executor, "beat", b"{}".to_vec()).await };
        let answer = remote.runtime().expect("threads").spawn(call).await.expect("no panic");
        assert!(answer.expect("an answer").is_ok());
    }
    assert_eq!(on(&remote), (1, 0), "its answer was read");
    drop(rush);
    assert_eq!(next(&mut reported).await.run, RunId::from_raw(2));
    assert_eq!(on(&remote), (0, 0));
}
