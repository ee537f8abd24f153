//! The crate against a walk over every second, on random expressions around clock changes.

mod common;

use cadran_cron::{Calendar, Dialect, Dst, ErrorKind, INSTANT_END, Rule, Schedule, Zone};
use common::{Expression, day_expressions, expressions, fixed_expressions};
use jiff::Timestamp;
use jiff::civil::date;
use jiff::tz::TimeZone;
use proptest::prelude::*;

/// Half-hour shifts, missing midnights, a missing day, odd offsets, many changes a year, none at all.
const ZONES: [&str; 14] = [
    "Europe/Paris",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "America/Sao_Paulo",
    "Asia/Beirut",
    "Pacific/Apia",
    "Africa/Casablanca",
    "America/Scoresbysund",
    "Africa/Monrovia",
    "Antarctica/Troll",
    "Asia/Pyongyang",
    "America/Havana",
    "UTC",
];

fn zones() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&ZONES[..])
}

/// The transitions of a zone 1970–2040, in seconds; a lone instant where there are none.
fn transitions(zone: &TimeZone) -> Vec<i64> {
    let found: Vec<i64> = zone
        .following(Timestamp::UNIX_EPOCH)
        .map(|transition| transition.timestamp().as_second())
        .take_while(|&at| at < 2_208_988_800)
        .collect();
    if found.is_empty() { vec![1_000_000_000] } else { found }
}

/// Asks in every way the crate offers and compares.
fn agree(schedule: &Schedule, expected: &[i64], start: i64, end: i64, text: &str) {
    let expected: Vec<i64> = expected.iter().map(|secs| secs * 1000).collect();
    let (start, end) = (start * 1000, end * 1000);
    let mut walked = Vec::new();
    schedule.walk(start, end, &mut |due| walked.push(due));
    assert_eq!(walked, expected, "walk `{text}`");
    assert_eq!(schedule.between(start, end).collect::<Vec<_>>(), expected, "between `{text}`");
    assert_eq!(schedule.count(start, end), expected.len() as u64, "count `{text}`");
    let mut at = start - 1;
    for &due in &expected {
        assert_eq!(schedule.next(at), Some(due), "next after {at} of `{text}`");
        at = due;
    }
    assert!(schedule.next(at).is_none_or(|due| due >= end), "next after {at} of `{text}`");
    let mut at = end;
    for &due in expected.iter().rev() {
        assert_eq!(schedule.previous(at), Some(due), "previous before {at} of `{text}`");
        at = due;
    }
    assert!(schedule.previous(at).is_none_or(|due| due < start), "previous before {at} of `{text}`");
}

fn compare(expression: &Expression, zone_name: &str, dst: Dst, start: i64, end: i64) {
    let text = expression.render();
    let calendar = match Calendar::parse(&text, Dialect::Cadran) {
        Ok(calendar) => calendar,
        Err(error) if error.kind() == ErrorKind::Never => return,
        Err(error) => panic!("`{text}`: {error}"),
    };
    let zone = Zone::get(zone_name).unwrap();
    let jiff_zone = TimeZone::get(zone_name).unwrap();
    let schedule = Schedule::new(Rule::Cron(calendar), zone, dst);
    let expected = expression.walk_every_second(&jiff_zone, dst, start, end);
    agree(&schedule, &expected, start, end, &format!("{text} in {zone_name}, {dst:?}, [{start}, {end})"));
}

fn dsts() -> impl Strategy<Value = Dst> {
    prop::sample::select(&[Dst::Auto, Dst::Auto, Dst::Skip, Dst::Shift, Dst::Both][..])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn around_transitions(
        expression in expressions(),
        zone in zones(),
        dst in dsts(),
        pick in any::<prop::sample::Index>(),
        before in 0i64..7_000,
        after in 1i64..9_000,
    ) {
        let at = *pick.get(&transitions(&TimeZone::get(zone).unwrap()));
        compare(&expression, zone, dst, (at - before).max(0), at + after);
    }

    #[test]
    fn fixed_times_around_transitions(
        expression in fixed_expressions(),
        zone in zones(),
        dst in dsts(),
        pick in any::<prop::sample::Index>(),
        before in 0i64..9_000,
        after in 1i64..9_000,
    ) {
        let at = *pick.get(&transitions(&TimeZone::get(zone).unwrap()));
        compare(&expression, zone, dst, (at - before).max(0), at + after);
    }

    #[test]
    fn anywhere(expression in expressions(), zone in zones(), start in 0i64..7_258_000_000, len in 1i64..6_000) {
        compare(&expression, zone, Dst::Auto, start, start + len);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    /// Refused as impossible exactly when no day of 230 years matches; otherwise the first and last days agree.
    #[test]
    fn impossible_dates_exactly(expression in day_expressions()) {
        let text = expression.render();
        let (from, to) = expression.years.map_or((1970, 2199), |(from, to)| (from as i16, to as i16));
        let days = date(from, 1, 1).series(jiff::Span::new().days(1)).take_while(|day| day.year() <= to);
        let mut found = days.filter(|day| expression.holds_date(*day));
        let first = found.next();
        match Schedule::parse(&text, &Zone::utc(), Dialect::Cadran) {
            Ok(schedule) => {
                let first = first.unwrap_or_else(|| panic!("`{text}` should have been refused"));
                let instant = |day: jiff::civil::Date| {
                    day.to_zoned(TimeZone::UTC).unwrap().timestamp().as_millisecond()
                };
                prop_assert_eq!(schedule.next(-1), Some(instant(first)), "`{}`", text);
                let second = found.next().map(instant);
                prop_assert_eq!(schedule.next(instant(first)), second, "`{}`", text);
                let mut back = date(to, 12, 31);
                while !expression.holds_date(back) {
                    back = back.yesterday().unwrap();
                }
                prop_assert_eq!(schedule.previous(INSTANT_END), Some(instant(back)), "`{}`", text);
            }
            Err(error) => {
                prop_assert_eq!(error.kind(), ErrorKind::Never, "`{}`: {}", text, error);
                prop_assert_eq!(first, None, "`{}` was refused", text);
            }
        }
    }

    /// Long windows: counting and walking agree where looking at every second would take too long.
    #[test]
    fn count_is_the_length_of_the_walk(
        expression in expressions(),
        zone in zones(),
        dst in dsts(),
        start in 0i64..4_000_000_000_000,
        days in 1i64..200,
        odd in 0i64..86_400_000,
    ) {
        let text = expression.render();
        if let Ok(schedule) = Schedule::parse(&text, &Zone::get(zone).unwrap(), Dialect::Cadran) {
            let schedule = schedule.with_dst(dst);
            let sparse = !text.starts_with("0 ");
            let end = start + if sparse { odd } else { days * 86_400_000 + odd };
            let mut walked = Vec::new();
            schedule.walk(start, end, &mut |due| walked.push(due));
            prop_assert!(walked.is_sorted_by(|a, b| a < b), "`{}` is out of order", text);
            prop_assert_eq!(schedule.count(start, end), walked.len() as u64, "`{}`", text);
            prop_assert!(schedule.between(start, end).eq(walked.iter().copied()), "`{}`", text);
        }
    }
}
