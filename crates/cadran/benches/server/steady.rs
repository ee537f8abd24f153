//! Every schedule due each second: is the rate kept, and what does a run cost?

use std::time::Duration;

use cadran_core::{Overlap, Policy};

use crate::Asked;
use crate::measure::{cpu_database, cpu_self, percentile};
use crate::world::{World, fleet, fresh, runtime, stores};

pub(crate) fn run(asked: &Asked) {
    let (rates, secs): (&[usize], u64) = if asked.quick { (&[1_000], 5) } else { (&[1_000, 10_000], 30) };
    let dir = tempfile::tempdir().expect("a directory");
    println!(
        "{:<11} {:>8} {:>9} {:>9} {:>10} {:>10} {:>10} {:>12}",
        "store", "a second", "expected", "started", "p50", "p99", "worst", "CPU a run"
    );
    for (name, url) in stores(dir.path()) {
        for &rate in rates {
            runtime().block_on(one(name, &url, rate, secs));
        }
    }
}

async fn one(name: &str, url: &str, rate: usize, secs: u64) {
    let (store, _) = fresh(url).await;
    let world = World::start(store, Duration::from_millis(20)).await;
    let policy = Policy { overlap: Overlap::Allow, ..Policy::DEFAULT };
    world.put(fleet(rate, policy, |_| "* * * * * *".into())).await;
    // One second to settle, then measure whole seconds.
    let warm = world.seen.starts() + rate as u64;
    let patience = Duration::from_secs(60);
    world.seen.wait_for(warm, patience);
    world.seen.keep_late();
    let (cpu, database, from) = (cpu_self(), cpu_database(url), world.seen.starts());
    let expected = rate as u64 * secs;
    let kept = world.seen.wait_for(from + expected, Duration::from_secs(secs + 5)).is_some();
    let started = world.seen.starts() - from;
    let spent = (cpu_self() - cpu) + (cpu_database(url).saturating_sub(database));
    let late = world.seen.late_ms();
    println!(
        "{name:<11} {rate:>8} {expected:>9} {started:>9} {:>7.1} ms {:>7.1} ms {:>7.1} ms {:>9.1} µs{}",
        percentile(&late, 0.5),
        percentile(&late, 0.99),
        late.last().copied().unwrap_or(f64::NAN),
        spent.as_secs_f64() * 1e6 / started as f64,
        if kept { "" } else { "   rate not kept" }
    );
    world.stop().await;
}
