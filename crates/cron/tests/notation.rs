//! Every form of the notation, as rows: the text, an instant, and the dues that follow it.

use cadran_cron::{Calendar, Dialect, Dst, INSTANT_END, Rule, Schedule, Zone, parse_duration};

fn at(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().unwrap_or_else(|e| panic!("{text}: {e}")).as_millisecond()
}

/// A day, a minute, a second or an instant of UTC, as short as it can be written.
fn instant(text: &str) -> i64 {
    match text.len() {
        10 => at(&format!("{text}T00:00:00Z")),
        16 => at(&format!("{text}:00Z")),
        19 => at(&format!("{text}Z")),
        _ => at(text),
    }
}

fn check_in(dialect: Dialect, zone: &str, rows: &[(&str, &str, &[&str])]) {
    for (text, after, expected) in rows {
        let schedule = Schedule::parse(text, &Zone::get(zone).unwrap(), dialect)
            .unwrap_or_else(|error| panic!("`{text}`: {error}"));
        let mut cursor = instant(after);
        for due in *expected {
            if *due == "never" {
                assert_eq!(schedule.next(cursor), None, "`{text}`");
                continue;
            }
            let found = schedule.next(cursor).unwrap_or_else(|| panic!("`{text}` has no due after {cursor}"));
            let shown = jiff::Timestamp::from_millisecond(found).unwrap();
            assert_eq!(found, instant(due), "`{text}`: found {shown}, expected {due}");
            assert_eq!(schedule.previous(found + 1), Some(found), "`{text}` backwards");
            cursor = found;
        }
    }
}

fn check(rows: &[(&str, &str, &[&str])]) {
    check_in(Dialect::Cadran, "UTC", rows);
}

// 2026-01-01 is a Thursday.

#[test]
fn values_lists_ranges_and_steps() {
    check(&[
        ("* * * * *", "2026-01-01", &["2026-01-01T00:01", "2026-01-01T00:02"]),
        (
            "*/15 * * * *",
            "2026-01-01",
            &["2026-01-01T00:15", "2026-01-01T00:30", "2026-01-01T00:45", "2026-01-01T01:00"],
        ),
        (
            "5/15 * * * *",
            "2026-01-01",
            &[
                "2026-01-01T00:05",
                "2026-01-01T00:20",
                "2026-01-01T00:35",
                "2026-01-01T00:50",
                "2026-01-01T01:05",
            ],
        ),
        (
            "1,2,40 * * * *",
            "2026-01-01",
            &["2026-01-01T00:01", "2026-01-01T00:02", "2026-01-01T00:40", "2026-01-01T01:01"],
        ),
        (
            "0 9-17/4 * * *",
            "2026-01-01",
            &["2026-01-01T09:00", "2026-01-01T13:00", "2026-01-01T17:00", "2026-01-02T09:00"],
        ),
        ("0 0 1 JAN,jul *", "2026-01-01", &["2026-07-01", "2027-01-01"]),
        ("0 0 1 january *", "2026-01-01", &["2027-01-01"]),
        ("  0\t0  1 1 *  ", "2026-01-01", &["2027-01-01"]),
        ("*/59 * * * *", "2026-01-01", &["2026-01-01T00:59", "2026-01-01T01:00"]),
        ("0 0 1 */12 *", "2026-01-01", &["2027-01-01"]),
        ("59 23 31 12 *", "2026-01-01", &["2026-12-31T23:59", "2027-12-31T23:59"]),
    ]);
}

#[test]
fn wrapping_ranges() {
    check(&[
        (
            "0 22-2 * * *",
            "2026-01-01",
            &["2026-01-01T01:00", "2026-01-01T02:00", "2026-01-01T22:00", "2026-01-01T23:00", "2026-01-02"],
        ),
        (
            "0 22-2/2 * * *",
            "2026-01-01",
            &["2026-01-01T02:00", "2026-01-01T22:00", "2026-01-02", "2026-01-02T02:00"],
        ),
        // A step does not start afresh at the wrap: 21, 0, 3.
        ("0 21-5/3 * * *", "2026-01-01", &["2026-01-01T03:00", "2026-01-01T21:00", "2026-01-02"]),
        ("0 0 30-2 * *", "2026-01-01", &["2026-01-02", "2026-01-30", "2026-01-31", "2026-02-01"]),
        ("0 0 1 NOV-FEB *", "2026-01-01", &["2026-02-01", "2026-11-01", "2026-12-01", "2027-01-01"]),
        (
            "0 0 * * FRI-MON",
            "2026-01-01",
            &["2026-01-02", "2026-01-03", "2026-01-04", "2026-01-05", "2026-01-09"],
        ),
        ("50-10/5 * * * *", "2026-01-01", &["2026-01-01T00:05", "2026-01-01T00:10", "2026-01-01T00:50"]),
    ]);
}

#[test]
fn weekdays() {
    check(&[
        ("0 0 * * 0", "2026-01-01", &["2026-01-04", "2026-01-11"]),
        ("0 0 * * 7", "2026-01-01", &["2026-01-04", "2026-01-11"]),
        ("0 0 * * sun", "2026-01-01", &["2026-01-04"]),
        ("0 0 * * Sunday", "2026-01-01", &["2026-01-04"]),
        ("0 0 * * 5-7", "2026-01-01", &["2026-01-02", "2026-01-03", "2026-01-04", "2026-01-09"]),
        ("0 0 * * 7-1", "2026-01-01", &["2026-01-04", "2026-01-05", "2026-01-11"]),
        ("0 0 * * 0-7", "2026-01-01", &["2026-01-02", "2026-01-03"]),
        ("0 0 * * */3", "2026-01-01", &["2026-01-03", "2026-01-04", "2026-01-07"]), // Sunday, Wednesday, Saturday
        ("0 0 * * 4/1", "2026-01-01", &["2026-01-02", "2026-01-03", "2026-01-08"]), // Thursday to Saturday
    ]);
}

#[test]
fn day_of_month_beside_day_of_week() {
    check(&[
        // Both restricted: either one.
        ("0 0 13 * FRI", "2026-01-01", &["2026-01-02", "2026-01-09", "2026-01-13", "2026-01-16"]),
        // A step counts as restricted, even a step of one.
        (
            "0 0 */10 * MON",
            "2026-01-01",
            &["2026-01-05", "2026-01-11", "2026-01-12", "2026-01-19", "2026-01-21"],
        ),
        ("0 0 */1 * MON", "2026-01-01", &["2026-01-02", "2026-01-03"]),
        ("0 0 * * MON", "2026-01-01", &["2026-01-05"]),
        ("0 0 ? * MON", "2026-01-01", &["2026-01-05"]),
        ("0 0 13 * ?", "2026-01-01", &["2026-01-13", "2026-02-13"]),
        ("0 0 *,5 * MON", "2026-01-01", &["2026-01-05", "2026-01-12"]),
    ]);
    // The classic crontab takes a field that begins with a star as open: the 1st, 11th, 21st or 31st that is a Monday.
    check_in(Dialect::Vixie, "UTC", &[("0 0 */10 * MON", "2026-01-01", &["2026-05-11"])]);
    check_in(
        Dialect::Vixie,
        "UTC",
        &[("0 0 13 * FRI", "2026-01-01", &["2026-01-02", "2026-01-09", "2026-01-13"])],
    );
}

#[test]
fn last_days_and_nearest_weekdays() {
    check(&[
        ("0 0 L * *", "2026-01-01", &["2026-01-31", "2026-02-28", "2026-03-31", "2026-04-30"]),
        ("0 0 l 2 *", "2026-01-01", &["2026-02-28", "2027-02-28", "2028-02-29"]),
        ("0 0 L-2 * *", "2026-01-01", &["2026-01-29", "2026-02-26"]),
        ("0 0 L-30 * *", "2026-01-01", &["2026-03-01", "2026-05-01", "2026-07-01"]), // only where there are 31 days
        ("0 0 1,L * *", "2026-01-01", &["2026-01-31", "2026-02-01", "2026-02-28"]),
        // Sunday the 15th of February goes to Monday; Saturday the 15th of August to Friday.
        ("0 0 15W * *", "2026-01-01", &["2026-01-15", "2026-02-16", "2026-03-16", "2026-04-15"]),
        ("0 0 15W 8 *", "2026-01-01", &["2026-08-14"]),
        // Saturday the 1st of August cannot leave the month and goes to Monday the 3rd.
        ("0 0 1W * *", "2026-01-01", &["2026-02-02", "2026-03-02", "2026-04-01"]),
        ("0 0 1W 8 *", "2026-01-01", &["2026-08-03"]),
        // Only months with a 31st; Sunday the 31st of May cannot leave the month.
        ("0 0 31W * *", "2026-01-01", &["2026-01-30", "2026-03-31", "2026-05-29", "2026-07-31"]),
        ("0 0 LW * *", "2026-01-01", &["2026-01-30", "2026-02-27", "2026-03-31", "2026-04-30", "2026-05-29"]),
        ("0 0 1W,LW * *", "2026-01-01", &["2026-01-30", "2026-02-02", "2026-02-27"]),
    ]);
}

#[test]
fn counted_weekdays() {
    check(&[
        ("0 0 * * FRI#2", "2026-01-01", &["2026-01-09", "2026-02-13", "2026-03-13"]),
        ("0 0 * * 5#2", "2026-01-01", &["2026-01-09"]),
        ("0 0 * * 7#1", "2026-01-01", &["2026-01-04", "2026-02-01"]),
        ("0 0 * * 1#5", "2026-01-01", &["2026-03-30", "2026-06-29"]),
        ("0 0 * * 5L", "2026-01-01", &["2026-01-30", "2026-02-27"]),
        ("0 0 * * fril", "2026-01-01", &["2026-01-30"]),
        ("0 0 * * MON#1,MON#3", "2026-01-01", &["2026-01-05", "2026-01-19", "2026-02-02"]),
        ("0 0 * * MON,FRI#1", "2026-01-01", &["2026-01-02", "2026-01-05", "2026-01-12"]),
        ("0 0 15 * FRI#1", "2026-01-01", &["2026-01-02", "2026-01-15", "2026-02-06"]),
    ]);
}

#[test]
fn seconds_and_years() {
    check(&[
        (
            "*/20 * * * * *",
            "2026-01-01",
            &["2026-01-01T00:00:20", "2026-01-01T00:00:40", "2026-01-01T00:01:00"],
        ),
        (
            "30 15 10 1 6 ? 2030-2032",
            "2026-01-01",
            &["2030-06-01T10:15:30", "2031-06-01T10:15:30", "2032-06-01T10:15:30", "never"],
        ),
        ("0 0 0 1 1 * 2196/2", "2026-01-01", &["2196-01-01", "2198-01-01", "never"]),
        // 2100 is no leap year.
        ("0 0 0 29 FEB ? 2096-2104", "2026-01-01", &["2096-02-29", "2104-02-29", "never"]),
        ("0 0 29 2 *", "2026-01-01", &["2028-02-29", "2032-02-29"]),
        // The 29th of February on a Sunday, by way of the fifth Sunday.
        ("0 0 ? 2 SUN#5", "2026-01-01", &["2032-02-29", "2060-02-29"]),
        ("59 59 23 31 12 ? 2199", "2026-01-01", &["2199-12-31T23:59:59", "never"]),
        ("0 0 0 1 1 ? *", "2199-01-01", &["never"]),
    ]);
    check_in(Dialect::Seconds, "UTC", &[("*/20 * * * * *", "2026-01-01", &["2026-01-01T00:00:20"])]);
}

#[test]
fn nicknames() {
    for dialect in [Dialect::Cadran, Dialect::Seconds, Dialect::Vixie] {
        check_in(
            dialect,
            "UTC",
            &[
                ("@hourly", "2026-01-01", &["2026-01-01T01:00", "2026-01-01T02:00"]),
                ("@daily", "2026-01-01", &["2026-01-02"]),
                ("@midnight", "2026-01-01", &["2026-01-02"]),
                ("@weekly", "2026-01-01", &["2026-01-04"]),
                ("@monthly", "2026-01-01", &["2026-02-01"]),
                ("@yearly", "2026-01-01", &["2027-01-01"]),
                ("@Annually", "2026-01-01", &["2027-01-01"]),
            ],
        );
    }
}

#[test]
fn zones_in_the_text() {
    check_in(
        Dialect::Cadran,
        "Asia/Tokyo",
        &[
            ("0 9 * * *", "2026-01-01T00:00", &["2026-01-02T00:00"]),
            ("CRON_TZ=Europe/Paris 0 9 * * *", "2026-01-01", &["2026-01-01T08:00"]),
            ("TZ=america/new_york @daily", "2026-01-01", &["2026-01-01T05:00"]),
            ("TZ=UTC   0 9 * * *", "2026-01-01", &["2026-01-01T09:00"]),
            ("TZ=Europe/Paris 2026-07-01T10:00", "2026-01-01", &["2026-07-01T08:00", "never"]),
        ],
    );
    check_in(Dialect::Dagu, "UTC", &[("CRON_TZ=Asia/Tokyo 0 9 * * *", "2026-01-01", &["2026-01-02"])]);
}

#[test]
fn quartz() {
    check_in(
        Dialect::Quartz,
        "UTC",
        &[
            ("0 0 12 ? * 1", "2026-01-01", &["2026-01-04T12:00"]),
            ("0 0 12 ? * SUN", "2026-01-01", &["2026-01-04T12:00"]),
            ("0 0 12 ? * 2-6", "2026-01-01", &["2026-01-01T12:00", "2026-01-02T12:00", "2026-01-05T12:00"]),
            ("0 0 12 ? * 6L", "2026-01-01", &["2026-01-30T12:00"]),
            ("0 0 12 ? * L", "2026-01-01", &["2026-01-03T12:00"]),
            ("0 0 12 ? * 2#1", "2026-01-01", &["2026-01-05T12:00"]),
            (
                "0 0 12 ? * FRI-SUN",
                "2026-01-01",
                &["2026-01-02T12:00", "2026-01-03T12:00", "2026-01-04T12:00"],
            ),
            (
                "0 0/30 8-9 LW * ? 2026",
                "2026-12-01",
                &["2026-12-31T08:00", "2026-12-31T08:30", "2026-12-31T09:00", "2026-12-31T09:30", "never"],
            ),
        ],
    );
}

#[test]
fn dagu() {
    check_in(
        Dialect::Dagu,
        "UTC",
        &[
            ("0 0 * * 0", "2026-01-01", &["2026-01-04"]),
            ("5/20 1 ? * MON", "2026-01-01", &["2026-01-05T01:05", "2026-01-05T01:25", "2026-01-05T01:45"]),
            ("0 0 */1 * MON", "2026-01-01", &["2026-01-05"]),
            ("0 0 */10 * MON", "2026-01-01", &["2026-01-05", "2026-01-11"]),
        ],
    );
}

#[test]
fn every_and_at() {
    check(&[
        ("every 90s", "1970-01-01", &["1970-01-01T00:01:30", "1970-01-01T00:03:00"]),
        ("every 250ms", "2026-01-01", &["2026-01-01T00:00:00.250Z", "2026-01-01T00:00:00.500Z"]),
        ("@every 5m", "2026-01-01", &["2026-01-01T00:05", "2026-01-01T00:10"]),
        ("EVERY 1h30m", "1970-01-01", &["1970-01-01T01:30", "1970-01-01T03:00"]),
        ("every 2h from 2026-01-01T00:30:00Z", "2026-01-01", &["2026-01-01T00:30", "2026-01-01T02:30"]),
        ("every 1d from 2030-01-01T06:00:00Z", "2026-01-01", &["2026-01-01T06:00", "2026-01-02T06:00"]),
        ("at 2026-11-15T10:00:00Z", "2026-01-01", &["2026-11-15T10:00", "never"]),
        ("at 2026-11-15T10:00:00.125+02:00", "2026-01-01", &["2026-11-15T08:00:00.125Z", "never"]),
        ("2026-11-15T10:00:00Z", "2026-01-01", &["2026-11-15T10:00", "never"]),
        ("at 2026-11-15", "2026-01-01", &["2026-11-15", "never"]),
    ]);
    check_in(
        Dialect::Cadran,
        "Europe/Paris",
        &[
            ("at 2026-11-15T10:00:00.500", "2026-01-01", &["2026-11-15T09:00:00.500Z"]),
            ("at 2026-03-29T02:30:00.500", "2026-01-01", &["2026-03-29T01:00"]), // inside the gap: its end
            ("at 2026-10-25T02:30:00", "2026-01-01", &["2026-10-25T00:30"]), // inside the fold: the first pass
        ],
    );
}

#[test]
fn texts_that_mean_the_same_are_equal() {
    let rows = [
        ("0 0 * * 7", "0 0 0 ? * SUN *"),
        ("*/15 * * * *", "0/15 * * * *"),
        ("0 0 1-31 * MON", "0 0 */1 * MON"),
        ("0,20,40 * * * *", "*/20 */1 * * ?"),
        ("0 0 1 1 *", "0 0 0 1 JAN ? 1970-2199"),
    ];
    for (one, two) in rows {
        let read = |text| Calendar::parse(text, Dialect::Cadran).unwrap();
        let (one, two) = (read(one), read(two));
        assert_eq!(one, two);
    }
    assert!(size_of::<Calendar>() <= 64, "{} bytes", size_of::<Calendar>());
}

#[test]
fn fixed_times() {
    let rows = [
        ("0 9 * * *", true),
        ("0,30 9,17 * * MON-FRI", true),
        ("30 0 9 * * *", true),
        ("0 * * * *", false),
        ("*/5 9 * * *", false),
        ("0 9-17 * * *", false),
        ("* 0 9 * * *", false),
        ("? 9 * * *", false),
        ("5/10 9 * * *", false),
        ("@daily", true),
        ("@hourly", false),
    ];
    for (text, fixed) in rows {
        assert_eq!(Calendar::parse(text, Dialect::Cadran).unwrap().is_fixed_time(), fixed, "`{text}`");
    }
}

#[test]
fn durations() {
    let rows = [
        ("250ms", 250),
        ("90s", 90_000),
        ("2h", 7_200_000),
        ("1h30m", 5_400_000),
        ("2d12h", 216_000_000),
        ("1w", 604_800_000),
        ("1w2d3h4m5s6ms", 788_645_006),
        (" 1h 30m ", 5_400_000),
        ("0s", 0),
    ];
    for (text, millis) in rows {
        assert_eq!(parse_duration(text).unwrap(), millis, "`{text}`");
    }
}

/// The edges of the range answer with `None` and empty windows; nothing overflows.
#[test]
fn edges_of_time() {
    let texts =
        ["* * * * *", "* * * * * *", "0 0 29 2 *", "every 10ms", "every 1w", "at 2026-01-01T00:00:00Z"];
    for text in texts {
        for zone in ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Europe/Paris"] {
            for dst in [Dst::Auto, Dst::Skip, Dst::Shift, Dst::Both] {
                let zone = Zone::get(zone).unwrap();
                let schedule = Schedule::parse(text, &zone, Dialect::Cadran).unwrap().with_dst(dst);
                for after in [i64::MIN, -1, 0, 1, INSTANT_END - 1001, INSTANT_END - 1, INSTANT_END, i64::MAX]
                {
                    if let Some(due) = schedule.next(after) {
                        assert!(
                            due > after && (0..INSTANT_END).contains(&due),
                            "`{text}`: {due} after {after}"
                        );
                    }
                    if let Some(due) = schedule.previous(after) {
                        assert!(
                            due < after && (0..INSTANT_END).contains(&due),
                            "`{text}`: {due} before {after}"
                        );
                    }
                    assert_eq!(schedule.count(after, after.saturating_sub(1)), 0);
                    assert_eq!(schedule.between(after, i64::MIN).next(), None);
                }
                assert_eq!(schedule.next(i64::MIN), schedule.next(-1));
                assert_eq!(schedule.previous(i64::MAX), schedule.previous(INSTANT_END));
                assert_eq!(schedule.next(INSTANT_END - 1), None);
                assert_eq!(schedule.previous(0), None);
                let all = schedule.count(i64::MIN, i64::MAX);
                assert_eq!(all, schedule.count(0, INSTANT_END), "`{text}`");
                assert!(all > 0);
            }
        }
    }
    let minutely = Schedule::parse("* * * * *", &Zone::utc(), Dialect::Cadran).unwrap();
    assert_eq!(minutely.count(0, INSTANT_END), INSTANT_END as u64 / 60_000);
    assert_eq!(minutely.next(-1), Some(0));
    assert!(minutely.try_between(10, 9).unwrap_err().to_string().contains("before it starts"));
    assert!(minutely.try_between(-1, 9).unwrap_err().to_string().contains("1970–2199"));
    assert!(minutely.try_between(0, INSTANT_END + 1).is_err());
    assert_eq!(minutely.try_between(0, 120_000).unwrap().collect::<Vec<_>>(), [0, 60_000]);
    let absurd =
        Schedule::new(Rule::Every { period_ms: i64::MIN, anchor_ms: i64::MIN }, Zone::utc(), Dst::Auto);
    assert!(absurd.next(0).is_some_and(|due| due <= 10));
    let absurd = Schedule::new(Rule::At(i64::MAX), Zone::utc(), Dst::Auto);
    assert_eq!((absurd.next(0), absurd.previous(i64::MAX), absurd.count(0, i64::MAX)), (None, None, 0));
}

/// Elapsed-time rules in every way of asking, with windows cut anywhere.
#[test]
fn every_agrees_with_itself() {
    for period in
        ["10ms", "250ms", "1s", "7s", "15s", "60s", "90s", "5m", "7m", "59m", "1h", "1h30m", "1d", "1w"]
    {
        for anchor in ["", " from 2026-01-01T00:00:07.003Z", " from 2026-01-01T00:00:30Z"] {
            let text = format!("every {period}{anchor}");
            let schedule = Schedule::parse(&text, &Zone::utc(), Dialect::Cadran).unwrap();
            let step = parse_duration(period).unwrap();
            for start in [0, 1, 1_767_225_600_000, 1_767_225_601_234] {
                for len in [1, step, 10 * step + 3, (200 * step).min(7_200_000)] {
                    let (mut expected, mut cursor) = (Vec::new(), start - 1);
                    while let Some(due) = schedule.next(cursor).filter(|due| *due < start + len) {
                        assert!(expected.last().is_none_or(|last| due - last == step), "`{text}`");
                        expected.push(due);
                        cursor = due;
                    }
                    let mut walked = Vec::new();
                    schedule.walk(start, start + len, &mut |due| walked.push(due));
                    assert_eq!(walked, expected, "walk `{text}`");
                    assert_eq!(
                        schedule.between(start, start + len).collect::<Vec<_>>(),
                        expected,
                        "`{text}`"
                    );
                    assert_eq!(schedule.count(start, start + len), expected.len() as u64, "`{text}`");
                    assert_eq!(
                        schedule.previous(start + len).filter(|due| *due >= start),
                        expected.last().copied()
                    );
                }
            }
            assert_eq!(schedule.is_subsecond(), step % 1000 != 0 || anchor.contains(".003"), "`{text}`");
        }
    }
}
