//! Every zone of the database around every one of its clock changes, 2020–2037, judged by jiff.

use cadran_cron::{Dialect, Dst, Schedule, Zone};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

const FIRST: i64 = 1_577_836_800; // 2020-01-01
const LAST: i64 = 2_145_916_800; // 2038-01-01

/// Transitions that move the clock: the instant, and the offsets before and after.
fn transitions(zone: &TimeZone) -> Vec<(i64, i64, i64)> {
    let offset = |secs: i64| i64::from(zone.to_offset(Timestamp::from_second(secs).unwrap()).seconds());
    zone.following(Timestamp::from_second(FIRST).unwrap())
        .map(|transition| transition.timestamp().as_second())
        .take_while(|&at| at < LAST)
        .map(|at| (at, offset(at - 1), offset(at)))
        .filter(|(_, before, after)| before != after)
        .collect()
}

/// When a wall-clock reading runs as a fixed time: once, in the first pass of a fold, at the end of a gap.
fn fixed_instant(zone: &TimeZone, reading: DateTime, change: i64) -> i64 {
    let ambiguous = zone.to_ambiguous_timestamp(reading);
    match ambiguous.offset() {
        AmbiguousOffset::Gap { .. } => change,
        _ => ambiguous.earlier().unwrap().as_second(),
    }
}

#[test]
fn fixed_times_run_once_a_day() {
    let mut changes = 0;
    for name in Zone::names() {
        let (jiff_zone, zone) = (TimeZone::get(&name).unwrap(), Zone::get(&name).unwrap());
        for (at, before, after) in transitions(&jiff_zone) {
            changes += 1;
            let (low, high) = (before.min(after), before.max(after));
            // In the middle of what is missing or repeated, at its edges, and elsewhere.
            for local in [at + (low + high) / 2, at + low, at + high, at + high + 7_200] {
                let minute = local.rem_euclid(86_400) / 60;
                let text = format!("{} {} * * *", minute % 60, minute / 60);
                let schedule = Schedule::parse(&text, &zone, Dialect::Cadran).unwrap();
                let today = Timestamp::from_second(at).unwrap().to_zoned(jiff_zone.clone()).date();
                let yesterday = today.yesterday().unwrap();
                let expected: Vec<i64> = [yesterday, today, today.tomorrow().unwrap()]
                    .into_iter()
                    .map(|day| {
                        let reading = day.at((minute / 60) as i8, (minute % 60) as i8, 0, 0);
                        fixed_instant(&jiff_zone, reading, at) * 1000
                    })
                    .collect();
                // One run for each of the three days: none lost, none doubled.
                let found: Vec<i64> = schedule.between(expected[0], expected[2] + 1).collect();
                assert_eq!(found, expected, "`{text}` in {name} around {at}");
                assert_eq!(schedule.count(expected[0], expected[2] + 1), 3);
                assert_eq!(schedule.previous(expected[2]), Some(expected[1]));
            }
        }
    }
    assert!(changes > 4_000, "only {changes} changes were looked at");
}

#[test]
fn intervals_show_what_the_clock_shows() {
    for name in Zone::names() {
        let (jiff_zone, zone) = (TimeZone::get(&name).unwrap(), Zone::get(&name).unwrap());
        let schedule = Schedule::parse("*/10 * * * *", &zone, Dialect::Cadran).unwrap();
        let hourly = Schedule::parse("0 * * * *", &zone, Dialect::Cadran).unwrap();
        let once = schedule.clone().with_dst(Dst::Skip);
        for (at, before, after) in transitions(&jiff_zone) {
            let (start, end) = (at - 7_200, at + 7_200);
            let expected: Vec<i64> = (start..end)
                .step_by(60)
                .filter(|secs| (secs + if *secs < at { before } else { after }).rem_euclid(600) == 0)
                .map(|secs| secs * 1000)
                .collect();
            let mut found = Vec::new();
            schedule.walk(start * 1000, end * 1000, &mut |due| found.push(due));
            assert_eq!(found, expected, "{name} around {at}");
            assert_eq!(schedule.count(start * 1000, end * 1000), expected.len() as u64);
            // With the first pass only, the readings of a fold come once.
            let repeated = (before - after).max(0);
            let single = expected.iter().filter(|due| !(at..at + repeated).contains(&(**due / 1000))).count();
            assert_eq!(once.count(start * 1000, end * 1000), single as u64, "{name} around {at}");
            // Clock changes by whole hours leave an hourly schedule every 3,600 seconds.
            if (after - before) % 3_600 == 0 {
                let dues: Vec<i64> = hourly.between(start * 1000, end * 1000).collect();
                assert!(dues.windows(2).all(|pair| pair[1] - pair[0] == 3_600_000), "{name} around {at}");
            }
        }
    }
}

/// The flat tables say what jiff says, at and beside every change from 1970 to 2199.
#[test]
fn tables_equal_jiff() {
    for name in Zone::names() {
        let (jiff_zone, zone) = (TimeZone::get(&name).unwrap(), Zone::get(&name).unwrap());
        for transition in jiff_zone.following(Timestamp::UNIX_EPOCH) {
            let at = transition.timestamp().as_second();
            if at >= 7_258_118_400 {
                break;
            }
            for secs in [at - 1, at] {
                let expected = jiff_zone.to_offset(Timestamp::from_second(secs).unwrap()).seconds();
                assert_eq!(zone.offset_at(secs * 1000), expected, "{name} at {secs}");
            }
        }
        let mut at = Timestamp::UNIX_EPOCH;
        while at.as_second() < 7_258_000_000 {
            assert_eq!(
                zone.offset_at(at.as_millisecond()),
                jiff_zone.to_offset(at).seconds(),
                "{name} at {at}"
            );
            at += SignedDuration::from_hours(24 * 991);
        }
    }
}
