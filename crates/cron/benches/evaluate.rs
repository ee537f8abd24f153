//! Evaluation beside the peers, in one run: `cargo bench -p cadran-cron`, or `-- --quick` for a first impression.
//!
//! Every engine is given the same expressions and the same instants, and must find the same dues. Times are the thread's
//! own processor time, the best of several rounds: on a busy machine the wall clock would punish the engines that take
//! longest. The table at the end holds the ratios. Then `next` is measured once more by Criterion, with confidence
//! intervals.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::str::FromStr;
use std::time::Duration;

use cadran_cron::{Dialect, Schedule, Zone};
use chrono::{DateTime, TimeZone as _, Utc};
use criterion::Criterion;
use jiff::Timestamp;
use nix::time::{ClockId, clock_gettime};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// Monday 2026-11-16, 09:00 UTC.
const START: i64 = 1_794_819_600_000;

const ZONES: [&str; 9] = [
    "UTC",
    "Europe/Paris",
    "Europe/London",
    "America/New_York",
    "America/Los_Angeles",
    "America/Sao_Paulo",
    "Asia/Tokyo",
    "Asia/Kolkata",
    "Australia/Sydney",
];

/// A small generator with a fixed seed (splitmix64).
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }
}

/// What a fleet looks like: many round intervals, many daily times, some weekly and monthly ones. Weekdays are named,
/// because the engines number them differently.
fn mixed() -> Vec<String> {
    let mut seeded = Seeded(4);
    (0..10_000)
        .map(|_| {
            let (minute, hour) = (seeded.below(60), seeded.below(24));
            match seeded.below(100) {
                0..18 => "* * * * *".to_owned(),
                18..34 => "*/5 * * * *".to_owned(),
                34..42 => "*/15 * * * *".to_owned(),
                42..48 => "*/10 * * * *".to_owned(),
                48..52 => "*/30 * * * *".to_owned(),
                52..62 => format!("{minute} * * * *"),
                62..65 => format!("*/15 {}-{} * * MON-FRI", 7 + hour % 3, 17 + hour % 4),
                65..67 => format!("{},{} * * * *", minute % 30, minute % 30 + 30),
                67..88 => format!("{minute} {hour} * * *"),
                88..93 => format!("{} {hour} * * MON-FRI", minute / 2 * 2),
                93..96 => format!("{} {hour} * * SUN", minute / 15 * 15),
                96..99 => format!("{} {hour} 1 * *", minute / 5 * 5),
                _ => format!("0 {hour} 1 1,4,7,10 *"),
            }
        })
        .collect()
}

fn minutely() -> Vec<String> {
    vec!["* * * * *".to_owned(); 10_000]
}

/// Every expression different.
fn unique() -> Vec<String> {
    (0..10_000)
        .map(|i| {
            let (minute, hour, rest) = (i % 60, i / 60 % 24, i / 1440);
            match rest {
                0 => format!("{minute} {hour} * * *"),
                1 => format!("{minute} {hour} * * MON-FRI"),
                2 => format!("{minute} {hour}-23 * * *"),
                3 => format!("{minute}-59 {hour} * * *"),
                _ => format!("{minute} {hour} {} * *", rest - 3),
            }
        })
        .collect()
}

/// The best time of some rounds, and the answer.
fn best<T>(rounds: u32, mut work: impl FnMut() -> T) -> (Duration, T) {
    let mut answer = None;
    let mut least = Duration::MAX;
    for _ in 0..rounds {
        let start = processor_time();
        let found = black_box(work());
        least = least.min(processor_time() - start);
        answer = Some(found);
    }
    (least, answer.expect("at least one round"))
}

/// Time this thread has spent on a processor.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("the thread's clock").into()
}

struct Row {
    what: String,
    times: [Option<Duration>; 4],
    goals: &'static str,
}

/// One fleet, read by every engine.
struct Fleet {
    name: String,
    ours: Vec<Schedule>,
    cron: Vec<(cron::Schedule, chrono_tz::Tz)>,
    croner: Vec<(croner::Cron, jiff::tz::TimeZone)>,
    /// UTC only.
    saffron: Option<Vec<saffron::Cron>>,
}

impl Fleet {
    fn new(name: &str, expressions: &[String], zones: &[&str]) -> Fleet {
        let zone = |i: usize| zones[i % zones.len()];
        let each = || expressions.iter().enumerate();
        Fleet {
            name: name.to_owned(),
            ours: each()
                .map(|(i, e)| Schedule::parse(e, &Zone::get(zone(i)).unwrap(), Dialect::Cadran).unwrap())
                .collect(),
            cron: each()
                .map(|(i, e)| {
                    (cron::Schedule::from_str(&format!("0 {e}")).unwrap(), zone(i).parse().unwrap())
                })
                .collect(),
            croner: each()
                .map(|(i, e)| (croner::Cron::from_str(e).unwrap(), jiff::tz::TimeZone::get(zone(i)).unwrap()))
                .collect(),
            saffron: (zones == ["UTC"]).then(|| expressions.iter().map(|e| e.parse().unwrap()).collect()),
        }
    }

    /// `next` for every schedule, from instants spread over a year.
    fn next(&self, rounds: u32, goals: &'static str) -> Row {
        let after = |i: usize| START + (i as i64 * 7_919 % 365) * DAY_MS + i as i64 * 7_654_321 % DAY_MS;
        let utc = |i: usize| Utc.timestamp_millis_opt(after(i)).unwrap();
        let (ours, sum) = best(rounds, || {
            self.ours.iter().enumerate().fold(0i64, |sum, (i, s)| sum.wrapping_add(s.next(after(i)).unwrap()))
        });
        let starts: Vec<_> =
            self.cron.iter().enumerate().map(|(i, (_, zone))| utc(i).with_timezone(zone)).collect();
        let (cron, cron_sum) = best(rounds, || {
            self.cron.iter().zip(&starts).fold(0i64, |sum, ((schedule, _), start)| {
                sum.wrapping_add(schedule.after(start).next().unwrap().timestamp_millis())
            })
        });
        let starts: Vec<_> = self
            .croner
            .iter()
            .enumerate()
            .map(|(i, (_, zone))| Timestamp::from_millisecond(after(i)).unwrap().to_zoned(zone.clone()))
            .collect();
        let (croner, croner_sum) = best(rounds, || {
            self.croner.iter().zip(&starts).fold(0i64, |sum, ((schedule, _), start)| {
                sum.wrapping_add(
                    schedule.find_next_occurrence(start, false).unwrap().timestamp().as_millisecond(),
                )
            })
        });
        let saffron = self.saffron.as_ref().map(|fleet| {
            let starts: Vec<_> = (0..fleet.len()).map(utc).collect();
            let (time, saffron_sum) = best(rounds, || {
                fleet.iter().zip(&starts).fold(0i64, |sum, (schedule, start)| {
                    sum.wrapping_add(schedule.next_after(*start).unwrap().timestamp_millis())
                })
            });
            assert_eq!(saffron_sum, sum, "saffron disagrees on {}", self.name);
            time
        });
        assert_eq!(croner_sum, sum, "croner disagrees on {}", self.name);
        // The cron crate skips fixed times in gaps and doubles them in folds, so over zones it may differ.
        if self.saffron.is_some() {
            assert_eq!(cron_sum, sum, "cron disagrees on {}", self.name);
        }
        Row {
            what: format!("next, {} ({})", self.name, self.ours.len()),
            times: [Some(ours), Some(cron), Some(croner), saffron],
            goals,
        }
    }

    /// All dues of one hour into one list.
    fn hour(&self, rounds: u32, goals: &'static str) -> Row {
        let end = START + HOUR_MS;
        let mut dues: Vec<i64> = Vec::with_capacity(1_000_000);
        let (ours, count) = best(rounds * 5, || {
            dues.clear();
            for schedule in &self.ours {
                schedule.walk(START, end, &mut |due| dues.push(due));
            }
            dues.len()
        });
        let start = Utc.timestamp_millis_opt(START - 1).unwrap();
        let (cron, cron_count) = best(rounds.div_ceil(2), || {
            dues.clear();
            for (schedule, zone) in &self.cron {
                let found = schedule.after(&start.with_timezone(zone)).map(|due| due.timestamp_millis());
                dues.extend(found.take_while(|&due| due < end));
            }
            dues.len()
        });
        let (croner, croner_count) = best(rounds.div_ceil(2), || {
            dues.clear();
            for (schedule, zone) in &self.croner {
                let start = Timestamp::from_millisecond(START).unwrap().to_zoned(zone.clone());
                let found = schedule.iter_from(start, croner::Direction::Forward);
                dues.extend(found.map(|due| due.timestamp().as_millisecond()).take_while(|&due| due < end));
            }
            dues.len()
        });
        let saffron = self.saffron.as_ref().map(|fleet| {
            let (time, saffron_count) = best(rounds.div_ceil(2), || {
                dues.clear();
                let start: DateTime<Utc> = Utc.timestamp_millis_opt(START).unwrap();
                for schedule in fleet {
                    let found = schedule.clone().iter_from(start).map(|due| due.timestamp_millis());
                    dues.extend(found.take_while(|&due| due < end));
                }
                dues.len()
            });
            assert_eq!(saffron_count, count, "saffron disagrees on {}", self.name);
            time
        });
        assert_eq!((cron_count, croner_count), (count, count), "peers disagree on {}", self.name);
        Row {
            what: format!("one hour, {} ({count})", self.name),
            times: [Some(ours), Some(cron), Some(croner), saffron],
            goals,
        }
    }
}

fn main() {
    // `cargo test --all-targets` starts benchmarks too; one quick round shows that they still work.
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let quick = !measuring || std::env::args().any(|argument| argument == "--quick");
    let rounds = match (measuring, quick) {
        (false, _) => 1,
        (true, true) => 5,
        (true, false) => 40,
    };

    let expressions = mixed();
    let distinct = expressions.iter().collect::<BTreeSet<_>>().len();
    println!("mixed: {} expressions, {distinct} distinct", expressions.len());

    let mut rows = Vec::new();
    let goals_next = "cron ≥ 3, croner ≥ 10, saffron ≥ 1";
    let goals_hour = "cron ≥ 50, croner ≥ 100, saffron ≥ 8";
    let mixed_utc = Fleet::new("mixed", &expressions, &["UTC"]);
    rows.push(mixed_utc.next(rounds, goals_next));
    rows.push(mixed_utc.hour(rounds, goals_hour));
    let mixed_zones = Fleet::new("mixed, nine zones", &expressions, &ZONES);
    rows.push(mixed_zones.next(rounds, "UTC within 3"));
    rows.push(mixed_zones.hour(rounds, ""));
    for (name, expressions) in [("minutely", minutely()), ("unique", unique())] {
        let fleet = Fleet::new(name, &expressions, &["UTC"]);
        rows.push(fleet.next(rounds, goals_next));
        rows.push(fleet.hour(rounds.min(8), ""));
        let fleet = Fleet::new(&format!("{name}, nine zones"), &expressions, &ZONES);
        rows.push(fleet.next(rounds, "UTC within 3"));
        rows.push(fleet.hour(rounds.min(8), ""));
    }

    let engines = ["cadran", "cron", "croner", "saffron"];
    println!(
        "{:<38} {:>10} {:>17} {:>17} {:>17}  reach",
        "work", engines[0], engines[1], engines[2], engines[3]
    );
    for row in &rows {
        print!("{:<38} {:>7.0} µs", row.what, micros(row.times[0]));
        for time in &row.times[1..] {
            match time {
                Some(_) => print!(" {:>8.0} {:>6.1} ×", micros(*time), micros(*time) / micros(row.times[0])),
                None => print!(" {:>17}", "–"),
            }
        }
        println!("  {}", row.goals);
    }
    let (utc, zones) = (micros(rows[0].times[0]), micros(rows[2].times[0]));
    println!("next over nine zones takes {:.2} × the time of UTC (reach: within 3)", zones / utc);

    let (parsing, _) = best(rounds.min(10), || {
        let utc = Zone::utc();
        expressions.iter().filter(|e| Schedule::parse(e, &utc, Dialect::Cadran).is_ok()).count()
    });
    println!("parse mixed: {:.2} ms", micros(Some(parsing)) / 1000.0);
    let fleet: Vec<Schedule> = minutely()[..1_000]
        .iter()
        .enumerate()
        .map(|(i, e)| Schedule::parse(e, &Zone::get(ZONES[i % 9]).unwrap(), Dialect::Cadran).unwrap())
        .collect();
    let (counting, total) =
        best(rounds, || fleet.iter().map(|schedule| schedule.count(START, START + 30 * DAY_MS)).sum::<u64>());
    println!("count {total} dues of 1,000 jobs × 30 days: {:.3} ms", micros(Some(counting)) / 1000.0);
    if measuring {
        intervals(&mixed_utc, if quick { 1 } else { 3 });
    }
}

/// `next` of a fleet in UTC by every engine, from one instant: medians with their confidence intervals.
fn intervals(fleet: &Fleet, seconds: u64) {
    let mut criterion = Criterion::default()
        .without_plots()
        .sample_size(20)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(seconds));
    let utc = Utc.timestamp_millis_opt(START).unwrap();
    criterion.bench_function("next, mixed, cadran", |bench| {
        bench.iter(|| fleet.ours.iter().filter_map(|schedule| schedule.next(START)).count());
    });
    criterion.bench_function("next, mixed, cron", |bench| {
        let start = utc.with_timezone(&chrono_tz::UTC);
        bench.iter(|| fleet.cron.iter().filter_map(|(schedule, _)| schedule.after(&start).next()).count());
    });
    criterion.bench_function("next, mixed, croner", |bench| {
        let start = Timestamp::from_millisecond(START).unwrap().to_zoned(jiff::tz::TimeZone::UTC);
        let next = |schedule: &croner::Cron| schedule.find_next_occurrence(&start, false).ok();
        bench.iter(|| fleet.croner.iter().filter_map(|(schedule, _)| next(schedule)).count());
    });
    criterion.bench_function("next, mixed, saffron", |bench| {
        let schedules = fleet.saffron.iter().flatten();
        bench.iter(|| schedules.clone().filter_map(|schedule| schedule.next_after(utc)).count());
    });
    criterion.final_summary();
}

fn micros(time: Option<Duration>) -> f64 {
    time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
}
