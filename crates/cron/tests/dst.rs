//! Clock changes, as rows: what runs on the day the clocks change, and why.

use cadran_cron::{Dialect, Dst, Schedule, Zone};

fn at(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().unwrap_or_else(|e| panic!("{text}: {e}")).as_millisecond()
}

/// Dues of a window of UTC, written as minutes of UTC.
fn check_in(dialect: Dialect, zone: &str, dst: Dst, text: &str, window: (&str, &str), expected: &[&str]) {
    let schedule = Schedule::parse(text, &Zone::get(zone).unwrap(), dialect).unwrap().with_dst(dst);
    let (start, end) = (at(&format!("{}:00Z", window.0)), at(&format!("{}:00Z", window.1)));
    let expected: Vec<i64> = expected.iter().map(|due| at(&format!("{due}:00Z"))).collect();
    let shown = |dues: &[i64]| {
        dues.iter()
            .map(|due| jiff::Timestamp::from_millisecond(*due).unwrap().to_string())
            .collect::<Vec<_>>()
    };
    let what = format!("`{text}` in {zone}, {dst:?}");
    let found: Vec<i64> = schedule.between(start, end).collect();
    assert_eq!(shown(&found), shown(&expected), "{what}");
    let mut walked = Vec::new();
    schedule.walk(start, end, &mut |due| walked.push(due));
    assert_eq!(walked, expected, "walk {what}");
    assert_eq!(schedule.count(start, end), expected.len() as u64, "count {what}");
    let mut cursor = end;
    for due in expected.iter().rev() {
        assert_eq!(schedule.previous(cursor), Some(*due), "previous {what}");
        cursor = *due;
    }
}

fn check(zone: &str, dst: Dst, text: &str, window: (&str, &str), expected: &[&str]) {
    check_in(Dialect::Cadran, zone, dst, text, window, expected);
}

const PARIS: &str = "Europe/Paris";
/// 2026-03-29 in Paris: at 01:00 UTC the clock goes from 02:00 to 03:00.
const GAP: (&str, &str) = ("2026-03-28T23:00", "2026-03-29T22:00");
/// 2026-10-25 in Paris: at 01:00 UTC the clock goes from 03:00 back to 02:00.
const FOLD: (&str, &str) = ("2026-10-24T22:00", "2026-10-25T23:00");

#[test]
fn fixed_times_in_a_gap_run_once_at_its_end() {
    for dst in [Dst::Auto, Dst::Shift] {
        check(PARIS, dst, "30 2 * * *", GAP, &["2026-03-29T01:00"]);
        // Several times in one gap are one due.
        check(PARIS, dst, "0,15,30,45 2 * * *", GAP, &["2026-03-29T01:00"]);
        // A time at the gap's end stands for those in the gap.
        check(PARIS, dst, "0 2,3 * * *", GAP, &["2026-03-29T01:00"]);
        check(
            PARIS,
            dst,
            "30 1,2,3 * * *",
            GAP,
            &["2026-03-29T00:30", "2026-03-29T01:00", "2026-03-29T01:30"],
        );
        check(PARIS, dst, "0 3 * * *", GAP, &["2026-03-29T01:00"]);
        // Only on days that match.
        check(PARIS, dst, "30 2 * * MON", GAP, &[]);
        check(PARIS, dst, "30 2 L-2 3 *", GAP, &["2026-03-29T01:00"]);
        check(PARIS, dst, "15 30 2 * * *", GAP, &["2026-03-29T01:00"]);
    }
}

#[test]
fn fixed_times_in_a_fold_run_in_the_first_pass() {
    for dst in [Dst::Auto, Dst::Shift, Dst::Skip] {
        check(PARIS, dst, "30 2 * * *", FOLD, &["2026-10-25T00:30"]);
        check(PARIS, dst, "0 2,3 * * *", FOLD, &["2026-10-25T00:00", "2026-10-25T02:00"]);
    }
    // Asking in the middle of the second pass does not bring it back.
    let schedule = Schedule::parse("30 2 * * *", &Zone::get(PARIS).unwrap(), Dialect::Cadran).unwrap();
    assert_eq!(schedule.next(at("2026-10-25T01:10:00Z")), Some(at("2026-10-26T01:30:00Z")));
    assert_eq!(schedule.previous(at("2026-10-25T01:45:00Z")), Some(at("2026-10-25T00:30:00Z")));
}

#[test]
fn intervals_follow_elapsed_time() {
    for dst in [Dst::Auto, Dst::Both] {
        check(PARIS, dst, "*/30 2 * * *", GAP, &[]);
        check(PARIS, dst, "30 */2 * * *", ("2026-03-29T00:00", "2026-03-29T03:00"), &["2026-03-29T02:30"]);
        check(
            PARIS,
            dst,
            "*/30 2 * * *",
            FOLD,
            &["2026-10-25T00:00", "2026-10-25T00:30", "2026-10-25T01:00", "2026-10-25T01:30"],
        );
        check(
            PARIS,
            dst,
            "0 1-3 * * *",
            FOLD,
            &["2026-10-24T23:00", "2026-10-25T00:00", "2026-10-25T01:00", "2026-10-25T02:00"],
        );
    }
}

#[test]
fn overrides() {
    // skip: nothing for the gap, the first pass of the fold.
    check(PARIS, Dst::Skip, "30 2 * * *", GAP, &[]);
    check(PARIS, Dst::Skip, "*/30 2 * * *", FOLD, &["2026-10-25T00:00", "2026-10-25T00:30"]);
    // shift: an interval is treated as a fixed time would be.
    check(PARIS, Dst::Shift, "*/10 2 * * *", GAP, &["2026-03-29T01:00"]);
    check(PARIS, Dst::Shift, "*/30 2 * * *", FOLD, &["2026-10-25T00:00", "2026-10-25T00:30"]);
    // both: the clock is read literally.
    check(PARIS, Dst::Both, "30 2 * * *", GAP, &[]);
    check(PARIS, Dst::Both, "30 2 * * *", FOLD, &["2026-10-25T00:30", "2026-10-25T01:30"]);
}

#[test]
fn dagu_reads_the_clock_literally() {
    check_in(Dialect::Dagu, PARIS, Dst::Auto, "30 2 * * *", GAP, &[]);
    check_in(Dialect::Dagu, PARIS, Dst::Auto, "30 2 * * *", FOLD, &["2026-10-25T00:30", "2026-10-25T01:30"]);
    check_in(Dialect::Dagu, PARIS, Dst::Shift, "30 2 * * *", GAP, &["2026-03-29T01:00"]);
}

#[test]
fn half_hour_shifts() {
    let zone = "Australia/Lord_Howe";
    // 2026-10-04: at 15:30 UTC of the 3rd the clock goes from 02:00 to 02:30.
    let gap = ("2026-10-03T14:00", "2026-10-04T13:00");
    check(zone, Dst::Auto, "15 2 * * *", gap, &["2026-10-03T15:30"]);
    check(zone, Dst::Auto, "45 2 * * *", gap, &["2026-10-03T15:45"]);
    check(zone, Dst::Auto, "*/15 2 * * *", gap, &["2026-10-03T15:30", "2026-10-03T15:45"]);
    // 2026-04-05: at 15:00 UTC of the 4th the clock goes from 02:00 back to 01:30.
    let fold = ("2026-04-04T13:00", "2026-04-05T12:00");
    check(zone, Dst::Auto, "45 1 * * *", fold, &["2026-04-04T14:45"]);
    check(zone, Dst::Auto, "15,45 1 * * *", fold, &["2026-04-04T14:15", "2026-04-04T14:45"]);
    check(
        zone,
        Dst::Auto,
        "*/15 1 * * *",
        fold,
        &[
            "2026-04-04T14:00",
            "2026-04-04T14:15",
            "2026-04-04T14:30",
            "2026-04-04T14:45",
            "2026-04-04T15:00",
            "2026-04-04T15:15",
        ],
    );
}

#[test]
fn offsets_that_are_no_whole_hours() {
    let window = ("2026-01-01T00:00", "2026-01-02T00:00");
    check("Asia/Kathmandu", Dst::Auto, "0 9 * * *", window, &["2026-01-01T03:15"]);
    check("Asia/Kathmandu", Dst::Auto, "30 */12 * * *", window, &["2026-01-01T06:45", "2026-01-01T18:45"]);
    // Until 1972 Liberia was 44 minutes and 30 seconds behind; then the clock leapt to 00:44:30.
    let schedule =
        Schedule::parse("0 12 * * *", &Zone::get("Africa/Monrovia").unwrap(), Dialect::Cadran).unwrap();
    assert_eq!(schedule.next(at("1971-06-01T00:00:00Z")), Some(at("1971-06-01T12:44:30Z")));
    let schedule =
        Schedule::parse("30 0 * * *", &Zone::get("Africa/Monrovia").unwrap(), Dialect::Cadran).unwrap();
    assert_eq!(schedule.next(at("1972-01-07T00:00:00Z")), Some(at("1972-01-07T00:44:30Z")));
}

#[test]
fn missing_midnights() {
    // Beirut, 2026-03-29: the clock goes from 00:00 to 01:00, at 22:00 UTC of the 28th.
    check(
        "Asia/Beirut",
        Dst::Auto,
        "@daily",
        ("2026-03-27T22:30", "2026-03-30T00:00"),
        &["2026-03-28T22:00", "2026-03-29T21:00"],
    );
    // São Paulo, 2018-11-04: the same, at 03:00 UTC. And 2018-02-17 had its last hour twice.
    let zone = "America/Sao_Paulo";
    check(
        zone,
        Dst::Auto,
        "@daily",
        ("2018-11-03T12:00", "2018-11-05T12:00"),
        &["2018-11-04T03:00", "2018-11-05T02:00"],
    );
    check(zone, Dst::Auto, "0 0 * * SUN", ("2018-11-03T12:00", "2018-11-05T12:00"), &["2018-11-04T03:00"]);
    check(
        zone,
        Dst::Auto,
        "30 23 * * *",
        ("2018-02-17T12:00", "2018-02-19T12:00"),
        &["2018-02-18T01:30", "2018-02-19T02:30"],
    );
    check(
        zone,
        Dst::Both,
        "30 23 * * SAT",
        ("2018-02-17T12:00", "2018-02-19T12:00"),
        &["2018-02-18T01:30", "2018-02-18T02:30"],
    );
}

#[test]
fn a_missing_day() {
    // Samoa had no 2011-12-30: at 10:00 UTC the clock went from the 30th, 00:00, to the 31st, 00:00.
    let window = ("2011-12-29T12:00", "2011-12-31T12:00");
    check(
        "Pacific/Apia",
        Dst::Auto,
        "0 9 * * *",
        window,
        &["2011-12-29T19:00", "2011-12-30T10:00", "2011-12-30T19:00"],
    );
    check("Pacific/Apia", Dst::Auto, "0 9 30 * *", window, &["2011-12-30T10:00"]);
    check("Pacific/Apia", Dst::Auto, "0 0 30,31 * *", window, &["2011-12-30T10:00"]);
    check("Pacific/Apia", Dst::Skip, "0 9 30 * *", window, &[]);
    check("Pacific/Apia", Dst::Auto, "0 */6 30 * *", window, &[]);
    // A date that fell into the hole is found, or refused when nothing is left of it.
    let apia = Zone::get("Pacific/Apia").unwrap();
    assert!(Schedule::parse("0 0 9 30 12 ? 2011", &apia, Dialect::Cadran).is_ok());
    assert!(Schedule::parse("0 0 * 30 12 ? 2011", &apia, Dialect::Cadran).is_err());
}

#[test]
fn several_changes_a_year() {
    // Morocco goes back for Ramadan: 2026-02-15, at 02:00 UTC, 03:00 becomes 02:00; forward again on 2026-03-22.
    let zone = "Africa/Casablanca";
    check(zone, Dst::Auto, "30 2 * * *", ("2026-02-15T00:00", "2026-02-16T00:00"), &["2026-02-15T01:30"]);
    check(zone, Dst::Auto, "30 2 * * *", ("2026-03-22T00:00", "2026-03-23T00:00"), &["2026-03-22T02:00"]);
    // Troll in Antarctica moves by two hours.
    check(
        "Antarctica/Troll",
        Dst::Auto,
        "30 1 * * *",
        ("2026-03-29T00:00", "2026-03-29T12:00"),
        &["2026-03-29T01:00"],
    );
}

/// Stretches are whole hours of the zone, and only hours that a change cuts are cut.
#[test]
fn stretches_are_hours_of_the_zone() {
    let schedule =
        Schedule::parse("* * * * *", &Zone::get("Asia/Kolkata").unwrap(), Dialect::Cadran).unwrap();
    let mut lens = Vec::new();
    schedule.stretches(at("2026-01-01T00:00:00Z"), at("2026-01-01T03:00:00Z"), &mut |stretch| {
        lens.push(stretch.count())
    });
    assert_eq!(lens, [30, 60, 60, 30]);
    let schedule = Schedule::parse("*/20 * * * * *", &Zone::get(PARIS).unwrap(), Dialect::Cadran).unwrap();
    let mut count = 0;
    schedule.stretches(at("2026-03-29T00:00:00Z"), at("2026-03-29T02:00:10Z"), &mut |stretch| {
        assert_eq!(stretch.base % 3_600_000, 0);
        count += stretch.count();
    });
    assert_eq!(count, 2 * 180 + 1);
}
