//! One due at a time on an idle machine, beside a bare wait of the kernel for the same instants.

use std::time::Duration;

use cadran::server::clock;
use cadran_core::Policy;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};

use crate::Asked;
use crate::measure::percentile;
use crate::world::{World, fleet, fresh, runtime, stores, wall_nanos};

pub(crate) fn run(asked: &Asked) {
    let count: u64 = if asked.quick { 20 } else { 300 };
    let dir = tempfile::tempdir().expect("a directory");
    let stores = stores(dir.path());
    let (name, url) = &stores[0];
    let (ours, bare) = runtime().block_on(one(url, count));
    println!("{:<22} {:>10} {:>10} {:>10}", "", "p50", "p99", "worst");
    for (name, late) in [(format!("cadran on {name}"), &ours), ("clock_nanosleep".to_owned(), &bare)] {
        println!(
            "{name:<22} {:>7.3} ms {:>7.3} ms {:>7.3} ms",
            percentile(late, 0.5),
            percentile(late, 0.99),
            late.last().copied().unwrap_or(f64::NAN)
        );
    }
    println!("p99 above the bare wait: {:.3} ms", percentile(&ours, 0.99) - percentile(&bare, 0.99));
}

async fn one(url: &str, count: u64) -> (Vec<f64>, Vec<f64>) {
    let (store, _) = fresh(url).await;
    let world = World::start(store, Duration::ZERO).await;
    world.put(fleet(1, Policy::DEFAULT, |_| "every 100ms".into())).await;
    let from = world.seen.starts();
    world.seen.wait_for(from + 70, Duration::from_secs(20));
    let from = world.seen.starts();
    world.seen.keep_late();
    let bare = std::thread::Builder::new().spawn(move || bare_waits(count)).expect("a thread");
    world.seen.wait_for(from + count, Duration::from_secs(count));
    let ours = world.seen.late_ms();
    world.stop().await;
    (ours, bare.join().expect("the bare waits end"))
}

/// Waits for every tenth of a second, plus half of that so that the two do not meet, and notes how late it woke.
fn bare_waits(count: u64) -> Vec<f64> {
    let first = clock::wall().div_euclid(100) * 100 + 250;
    let mut late: Vec<f64> = (0..count as i64)
        .map(|no| {
            let target = first + no * 100;
            let at = nix::sys::time::TimeSpec::new(target / 1_000, target % 1_000 * 1_000_000);
            let _ = clock_nanosleep(ClockId::CLOCK_REALTIME, ClockNanosleepFlags::TIMER_ABSTIME, &at);
            (wall_nanos() - i128::from(target) * 1_000_000) as f64 / 1e6
        })
        .collect();
    late.sort_by(f64::total_cmp);
    late
}
