//! Real processes: 500 × `true` due in one second, output captured and recorded, beside a bare spawn loop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cadran::server::clock::{self, Clock};
use cadran::server::event_loop::Orders;
use cadran::server::{self, LoopHandle};
use cadran_core::Policy;
use cadran_engine::{Engine, Event, Options};
use cadran_exec::{Local, LocalOptions};

use crate::Asked;
use crate::world::{at, fleet, fresh, runtime, second_ahead, stores};

pub(crate) fn run(asked: &Asked) {
    let (count, rounds) = if asked.quick { (50, 1) } else { (500, 5) };
    println!("{:<7} {:>14} {:>14} {:>7}", "round", "cadran", "bare spawn", "ratio");
    let mut ratios = Vec::new();
    for round in 1..=rounds {
        let dir = tempfile::tempdir().expect("a directory");
        let (ours, bare) = runtime().block_on(async {
            let bare_before = bare(count).await;
            let ours = ours(dir.path(), count).await;
            (ours, (bare_before + bare(count).await) / 2)
        });
        let ratio = ours.as_secs_f64() / bare.as_secs_f64();
        println!(
            "{round:<7} {:>11.1} ms {:>11.1} ms {ratio:>7.2}",
            ours.as_secs_f64() * 1e3,
            bare.as_secs_f64() * 1e3
        );
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    println!("median ratio: {:.2}", ratios[ratios.len() / 2]);
}

/// From the due to the last end on record.
async fn ours(dir: &std::path::Path, count: usize) -> Duration {
    let (_, url) = stores(dir).remove(0);
    let (store, _) = fresh(&url).await;
    let (clock, loop_handle) = (Clock::start(), LoopHandle::default());
    let (local, _) =
        Local::open(LocalOptions::new(dir), clock::wall, loop_handle.sink()).await.expect("an executor");
    let local = Arc::new(local);
    let orders: Orders = {
        let local = local.clone();
        Arc::new(move |orders| local.submit(orders))
    };
    let engine = Engine::new(Options::default());
    let running =
        server::start(loop_handle.clone(), clock, engine, store, orders).expect("threads can be started");
    let mut events = running.events.runs().subscribe();
    let due = second_ahead(Duration::from_secs(7));
    loop_handle.send(Event::Jobs(fleet(count, Policy::DEFAULT, |_| at(due))));
    let mut ended = 0;
    while ended < count {
        match events.recv().await {
            Ok(event) => ended += usize::from(event.status.is_ended()),
            Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
            Err(_) => break,
        }
    }
    let took = Duration::from_millis((clock::wall() - due).max(0) as u64);
    running.stop(async { local.drain(Duration::from_secs(5)).await }).await;
    took
}

/// What tokio needs to spawn as many with their output captured, and nothing else.
#[allow(clippy::disallowed_methods)]
async fn bare(count: usize) -> Duration {
    let started = Instant::now();
    let children: Vec<_> = (0..count)
        .map(|_| {
            tokio::spawn(async { tokio::process::Command::new("sh").args(["-c", "true"]).output().await })
        })
        .collect();
    for child in children {
        let output = child.await.expect("the task ends").expect("the process starts");
        assert!(output.status.success());
    }
    started.elapsed()
}
