//! A million schedules, one due per second: registration, memory, idle cost, restart.

use std::process::Command;
use std::time::{Duration, Instant};

use cadran::server::clock;
use cadran_core::{Millis, Policy};
use jiff::Timestamp;

use crate::Asked;
use crate::measure::{cpu_self, resident_bytes};
use crate::world::{World, fleet, fresh, runtime, stores};

/// How many definitions are handed over at once.
const SLICE: usize = 20_000;

pub(crate) fn run(asked: &Asked) {
    let sizes: &[usize] = if asked.quick { &[20_000] } else { &[100_000, 1_000_000] };
    let dir = tempfile::tempdir().expect("a directory");
    println!(
        "{:<11} {:>9} {:>14} {:>12} {:>14} {:>12}",
        "store", "schedules", "registered/s", "bytes each", "idle, of core", "restart"
    );
    for (name, url) in stores(dir.path()) {
        for &size in sizes {
            let (registered, url) = runtime().block_on(register(&url, size));
            // A process of its own, as after a restart: nothing of the registration is in its memory.
            let secs = if asked.quick { "5" } else { "30" };
            let child = Command::new(std::env::current_exe().expect("our own path"))
                .args(["--child", &url, &size.to_string(), secs])
                .output()
                .expect("the child starts");
            let told = String::from_utf8_lossy(&child.stdout);
            print!("{name:<11} {size:>9} {registered:>14.0} {told}");
            if !child.status.success() {
                println!("the child failed: {}", String::from_utf8_lossy(&child.stderr));
            }
        }
    }
}

/// A schedule for the `no`-th second from `start` on: of these, one is due each second.
fn schedule(start: Millis, no: usize) -> String {
    let due = Timestamp::from_millisecond(start + no as Millis * 1_000).expect("an instant of this century");
    due.strftime("%-S %-M %-H %-d * *").to_string()
}

#[allow(clippy::disallowed_methods)]
async fn register(url: &str, size: usize) -> (f64, String) {
    let (store, url) = fresh(url).await;
    let world = World::start(store, Duration::ZERO).await;
    let start = clock::wall();
    let mut jobs = fleet(size, Policy::DEFAULT, |no| schedule(start, no));
    let started = Instant::now();
    while !jobs.is_empty() {
        let rest = jobs.split_off(SLICE.min(jobs.len()));
        world.put(std::mem::replace(&mut jobs, rest)).await;
    }
    let rate = size as f64 / started.elapsed().as_secs_f64();
    world.stop().await;
    (rate, url)
}

/// The restarted server: prints memory, idle share and time to the first fire.
#[allow(clippy::disallowed_methods)]
pub(crate) fn child(args: &[String]) {
    let [url, size, secs] = args else { panic!("--child URL SIZE SECONDS") };
    let (size, secs) = (size.parse::<u64>().expect("a number"), secs.parse::<u64>().expect("a number"));
    let started = Instant::now();
    runtime().block_on(async {
        let before = resident_bytes();
        let store = cadran_store::Store::open(url).await.expect("the store opens");
        let world = World::start(store, Duration::ZERO).await;
        world.seen.wait_for(1, Duration::from_secs(60));
        let first_fire = started.elapsed();
        world.durable().await;
        // The first index is built by now or soon: let it settle before measuring idleness.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let (cpu, clock) = (cpu_self(), Instant::now());
        tokio::time::sleep(Duration::from_secs(secs)).await;
        let share = (cpu_self() - cpu).as_secs_f64() / clock.elapsed().as_secs_f64();
        let bytes = resident_bytes().saturating_sub(before) as f64 / size as f64;
        println!("{bytes:>12.0} {:>12.2} % {:>10.2} s", share * 100.0, first_fire.as_secs_f64());
        world.stop().await;
    });
}
