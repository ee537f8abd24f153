//! Fleets to measure with: the same in every run.

use std::sync::Arc;

use cadran_cron::{Dialect, Schedule, Zone};
use cadran_plan::index::Fleet;

use crate::run_list::scatter;

pub(crate) const ZONES: [&str; 9] = [
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

/// What a fleet looks like: many round intervals, many daily times, some weekly and monthly ones. Ten thousand jobs have
/// some 1,900 different expressions.
pub(crate) fn mixed(jobs: u64) -> Vec<String> {
    let pick = |job: u64, question: u64, choices: u64| scatter(job * 4 + question) % choices;
    (0..jobs)
        .map(|job| {
            let (minute, hour) = (pick(job, 0, 60), pick(job, 1, 24));
            match pick(job, 2, 100) {
                0..18 => "* * * * *".to_owned(),
                18..34 => "*/5 * * * *".to_owned(),
                34..42 => "*/15 * * * *".to_owned(),
                42..48 => "*/10 * * * *".to_owned(),
                48..52 => "*/30 * * * *".to_owned(),
                52..62 => format!("{minute} * * * *"),
                62..65 => format!("*/15 {}-{} * * MON-FRI", 7 + hour % 3, 17 + hour % 4),
                65..67 => format!("{},{} * * * *", minute % 30, minute % 30 + 30),
                67..88 => format!("{minute} {hour} * * *"),
                88..93 => format!("{} {hour} * * MON-FRI", minute / 5 * 5),
                93..96 => format!("{minute} {hour} * * SUN"),
                96..99 => format!("{} {hour} 1 * *", minute / 5 * 5),
                _ => format!("0 {hour} 1 1,4,7,10 *"),
            }
        })
        .collect()
}

/// Every job each minute.
pub(crate) fn minutely(jobs: u64) -> Vec<String> {
    vec!["* * * * *".to_owned(); jobs as usize]
}

/// No two alike, each with about a hundred dues an hour: two seconds of its own, every minute but a few.
pub(crate) fn unique(jobs: u64) -> Vec<String> {
    (0..jobs)
        .map(|job| {
            let (first, second, from) = (job % 60, job / 60 % 60, job / 3_600 % 20);
            format!("{first},{} {from}-{} * * * *", (first + 1 + second % 59) % 60, from + 40)
        })
        .collect()
}

/// Jobs numbered in order, zones taken in turn.
pub(crate) fn fleet(expressions: &[String], zones: &[&str]) -> Fleet {
    let zones: Vec<Zone> = zones.iter().map(|name| Zone::get(name).unwrap()).collect();
    let mut fleet = Fleet::new();
    for (job, text) in expressions.iter().enumerate() {
        let schedule = Schedule::parse(text, &zones[job % zones.len()], Dialect::Cadran).unwrap();
        fleet.set(job as u32, &[Arc::new(schedule)]);
    }
    fleet
}
