//! Many schedules due in the same second: when does the last one start?

use std::collections::HashSet;
use std::time::Duration;

use cadran_core::{Policy, RunStatus};
use cadran_store::RunQuery;

use crate::world::{World, at, fleet, fresh, runtime, second_ahead, stores};
use crate::{Asked, plain};

pub(crate) fn run(asked: &Asked) {
    let sizes: &[usize] = if asked.quick { &[1_000] } else { &[1_000, 10_000, 100_000] };
    let dir = tempfile::tempdir().expect("a directory");
    println!(
        "{:<11} {:>8} {:>14} {:>14} {:>7} {:>6} {:>6}",
        "store", "due", "last start", "plain", "ratio", "lost", "twice"
    );
    for (name, url) in stores(dir.path()) {
        for &size in sizes {
            runtime().block_on(one(name, &url, size));
        }
    }
}

async fn one(name: &str, url: &str, size: usize) {
    let (store, _) = fresh(url).await;
    let world = World::start(store.clone(), Duration::from_millis(20)).await;
    // Far enough ahead for the registration of all jobs and for the promises.
    let due = second_ahead(Duration::from_secs(8 + size as u64 / 10_000));
    world.put(fleet(size, Policy::DEFAULT, |_| at(due))).await;
    let last = world.seen.wait_for(size as u64, Duration::from_secs(120));
    let ours = last.map_or(f64::NAN, |last| (last - i128::from(due) * 1_000_000) as f64 / 1e6);
    world.quiet().await;
    let (mut ended, mut before, mut jobs) = (0usize, None, HashSet::new());
    loop {
        let query =
            RunQuery { statuses: vec![RunStatus::Succeeded], before, limit: 1_000, ..RunQuery::default() };
        let page = store.runs(&query).await.expect("runs can be read");
        let Some(oldest) = page.last() else { break };
        before = Some(oldest.record.promise.run);
        ended += page.len();
        jobs.extend(page.iter().map(|view| view.record.promise.job));
    }
    let (lost, twice) =
        (size - jobs.len().min(size), (ended - jobs.len()) + (world.seen.starts() as usize - ended));
    world.stop().await;

    let (store, _) = fresh(url).await;
    let due = second_ahead(Duration::from_secs(1));
    let last = plain::burst(&store, size, due).await;
    let plain = (last - i128::from(due) * 1_000_000) as f64 / 1e6;
    store.close().await;
    println!(
        "{name:<11} {size:>8} {ours:>11.1} ms {plain:>11.1} ms {:>7.2} {lost:>6} {twice:>6}",
        ours / plain
    );
}
