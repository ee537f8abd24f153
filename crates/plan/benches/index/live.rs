//! The index in use: one job changed, a horizon that rolls, readers while it is swapped, a scheduler's day.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cadran_cron::{Dialect, Schedule, Zone};
use cadran_plan::index::{Buffers, Fleet, Index, IndexCell, Window, build};

use crate::fleets::{self, ZONES};
use crate::measure::{Effort, Latencies, processor_time};
use crate::run_list::{HOUR, START};
use cadran_dev::bench_table::Table;

fn schedule(text: &str) -> Arc<Schedule> {
    Arc::new(Schedule::parse(text, &Zone::utc(), Dialect::Cadran).unwrap())
}

/// One job of a million-run index changes; the window rolls on.
pub(crate) fn change(effort: Effort, _quick: bool, table: &mut Table) {
    let mut buffers = Buffers::default();
    let hundred = Window::new(START, START + 100 * 60_000);
    let hour = Window::new(START, START + HOUR);
    let million: [(&str, Fleet, Window); 4] = [
        ("minutely", fleets::fleet(&fleets::minutely(10_000), &["UTC"]), hundred),
        ("minutely, nine zones", fleets::fleet(&fleets::minutely(10_000), &ZONES), hundred),
        ("mixed", fleets::fleet(&fleets::mixed(62_500), &["UTC"]), hour),
        ("unique seconds", fleets::fleet(&fleets::unique(12_000), &["UTC"]), hour),
    ];
    for (name, mut fleet, window) in million {
        let index = build(&fleet.snapshot(), window, &mut buffers);
        let snapshot = fleet.snapshot();
        let rebuild = effort.renewed(&mut buffers, |buffers| build(&snapshot, window, buffers));
        for (kind, before, after) in [
            ("every minute to every second minute", "* * * * *", "*/2 * * * *"),
            ("every minute to never", "* * * * *", "0 0 1 1 *"),
            ("hourly to daily", "17 * * * *", "23 9 * * *"),
            ("hourly to every 700 ms", "17 * * * *", "every 700ms"),
        ] {
            fleet.set(5_000, &[schedule(before)]);
            let index = index.with_changed(&fleet.snapshot(), &[5_000], &mut buffers);
            fleet.set(5_000, &[schedule(after)]);
            let snapshot = fleet.snapshot();
            let patch =
                effort.renewed(&mut buffers, |buffers| index.with_changed(&snapshot, &[5_000], buffers));
            let label = format!("{name}, {} runs: {kind}, share of a rebuild", index.len());
            table.at_most(&label, patch.0 / rebuild.0, "", 0.333);
        }
        let (mean, most) = pile_up(&mut fleet, index.clone(), &mut buffers);
        let label = format!("{name}: 1,000 jobs one after another, share of a rebuild");
        table.at_most(&format!("{label}, on average"), mean / rebuild.0, "", 0.333);
        table.figure(&format!("{label}, at most"), &format!("{:.3}", most / rebuild.0));
        table.time(&format!("{name}: rebuild"), rebuild);
        let step = Window::new(window.from() + 600_000, window.to() + 600_000);
        let rolled = effort.renewed(&mut buffers, |buffers| index.advance(&snapshot, step, buffers));
        table.time(&format!("{name}: rolling on by ten minutes"), rolled);
    }
}

/// Changes a thousand jobs one after another, each on top of the one before. Seconds for one: on average, and at most.
fn pile_up(fleet: &mut Fleet, mut index: Index, buffers: &mut Buffers) -> (f64, f64) {
    let schedules = ["*/2 * * * *", "13 * * * *", "* * * * *"].map(schedule);
    let times = (0..1_000u32).map(|n| {
        let job = n * 7 % 10_000;
        fleet.set(job, &schedules[n as usize % 3..=n as usize % 3]);
        let snapshot = fleet.snapshot();
        let start = processor_time();
        let next = index.with_changed(&snapshot, &[job], buffers);
        buffers.recycle(Arc::new(std::mem::replace(&mut index, next)));
        (processor_time() - start).as_secs_f64()
    });
    let (sum, most) = times.fold((0.0, 0.0), |(sum, most): (f64, f64), time| (sum + time, most.max(time)));
    (sum / 1e3, most)
}

/// How often the reads under swaps are measured: a virtual core moves between near and distant ones meanwhile.
const SWAP_ROUNDS: usize = 10;

/// Reads while another thread swaps as fast as it can.
///
/// Two indexes that are ready take turns, so that the loop is as tight as it gets. What is measured then is how far
/// the two threads' cores are from one another, and that is measured too: a cache line there and back. As everywhere,
/// the best of several rounds counts, since all that disturbs only adds; the others are shown.
pub(crate) fn swap(_effort: Effort, quick: bool, table: &mut Table) {
    let reads = if quick { 50_000 } else { 500_000 };
    let fleet = fleets::fleet(&fleets::mixed(10_000), &["UTC"]).snapshot();
    let window = Window::new(START, START + HOUR);
    let ready = [(); 2].map(|()| Arc::new(build(&fleet, window, &mut Buffers::default())));
    let cell = IndexCell::new(build(&fleet, window, &mut Buffers::default()));
    let query = |index: &Index, n: usize| {
        let start = START + (n % 3_600) as i64 * 1000;
        index.query(start, start + 5_000).slices().map(<[u32]>::len).sum::<usize>()
    };
    // One round of one way to read. The ways are measured one after the other, so that none burdens the other.
    let round = |read: &mut dyn FnMut(usize) -> usize| {
        let quiet = Latencies::of(reads, &mut *read);
        let done = AtomicBool::new(false);
        let busy = std::thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 0.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    drop(black_box(cell.swap(ready[turn % 2].clone())));
                }
            });
            let busy = Latencies::of(reads, &mut *read);
            done.store(true, Ordering::Relaxed);
            busy
        });
        SwapRound { quiet, busy, trip: round_trip() }
    };
    let looked: Vec<SwapRound> = (0..SWAP_ROUNDS).map(|_| round(&mut |n| query(&cell.read(), n))).collect();
    let mut reader = cell.reader();
    let mailed: Vec<SwapRound> = (0..SWAP_ROUNDS).map(|_| round(&mut |n| query(reader.read(), n))).collect();
    for (who, rounds) in [("read()", &looked), ("reader()", &mailed)] {
        let best = rounds.iter().min_by(|a, b| a.ratio().total_cmp(&b.ratio())).expect("there are rounds");
        for (name, latencies) in [("quiet", &best.quiet), ("swapped in a tight loop", &best.busy)] {
            for (label, share) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
                table.time(&format!("{who}: 5 s read, {name}: {label}"), latencies.at(share));
            }
        }
        table.time(&format!("{who}: a cache line to the other core and back: p50"), best.trip.at(0.5));
        let all: Vec<String> = rounds.iter().map(SwapRound::in_words).collect();
        table.figure(&format!("{who}: all rounds"), &all.join(", "));
        let label = format!("{who}: p99.9 while swapped, as a multiple of the quiet median");
        if who == "reader()" {
            table.at_most(&label, best.ratio(), "x", 10.0);
        } else {
            table.figure(&label, &format!("{:.1} x", best.ratio()));
        }
    }
}

/// Reads without and with swaps, and how far the other core was.
struct SwapRound {
    quiet: Latencies,
    busy: Latencies,
    trip: Latencies,
}

impl SwapRound {
    fn ratio(&self) -> f64 {
        self.busy.at(0.999).0 / self.quiet.at(0.5).0
    }

    fn in_words(&self) -> String {
        format!("{:.0} x at {:.0} ns", self.ratio(), self.trip.at(0.5).0 * 1e9)
    }
}

/// How long a cache line takes to another thread's core and back.
fn round_trip() -> Latencies {
    const TRIPS: usize = 20_000;
    let ball = AtomicUsize::new(0);
    let await_ball = |at: usize| {
        while ball.load(Ordering::Acquire) != at {
            std::hint::spin_loop();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for trip in 0..TRIPS {
                await_ball(trip * 2 + 1);
                ball.store(trip * 2 + 2, Ordering::Release);
            }
        });
        Latencies::of(TRIPS, |trip| {
            ball.store(trip * 2 + 1, Ordering::Release);
            await_ball(trip * 2 + 2);
        })
    })
}

/// Ten thousand jobs for some hours: rebuilt (or rolled on) every 30 s, asked every second.
pub(crate) fn day(_effort: Effort, quick: bool, table: &mut Table) {
    let hours = if quick { 1 } else { 6 };
    for (name, expressions, window_ms) in [
        ("mixed", fleets::mixed(10_000), HOUR),
        ("minutely", fleets::minutely(10_000), HOUR),
        ("minutely, 1 M runs", fleets::minutely(10_000), 100 * 60_000),
    ] {
        let fleet = fleets::fleet(&expressions, &["UTC"]).snapshot();
        for rolling in [false, true] {
            let how = if rolling { "rolled on" } else { "rebuilt" };
            let mut buffers = Buffers::default();
            let window = |now: i64| Window::new(now, now + window_ms);
            let cell = IndexCell::new(build(&fleet, window(START), &mut buffers));
            let renewals = Latencies::of(hours * 120, |n| {
                let now = START + n as i64 * 30_000;
                let old = cell.snapshot();
                let next = if rolling {
                    old.advance(&fleet, window(now), &mut buffers)
                } else {
                    build(&fleet, window(now), &mut buffers)
                };
                drop(old);
                buffers.recycle(cell.swap(next));
            });
            let last = START + (hours as i64 * 120 - 1) * 30_000;
            let queries = Latencies::of(hours * 3_600, |n| {
                let now = last + (n as i64 % 3_000) * 1000;
                let index = cell.read();
                index.query(now, now + 30_000).iter().fold(0u32, |sum, (_, job)| sum.wrapping_add(job))
            });
            for (what, latencies) in
                [(format!("{how} every 30 s"), &renewals), ("30 s asked every second".to_owned(), &queries)]
            {
                for (label, share) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
                    table.time(&format!("{name}, {what}: {label}"), latencies.at(share));
                }
            }
        }
    }
}
