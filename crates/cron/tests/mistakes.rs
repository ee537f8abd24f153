//! Every mistake, as rows: kind, field, place, and what the message must say.

use cadran_cron::Dialect::{self, Cadran, Dagu, Quartz, Seconds, Vixie};
use cadran_cron::ErrorKind::{self, *};
use cadran_cron::Field::{self, *};
use cadran_cron::{Calendar, Dst, Schedule, Zone, parse_duration};

type Row<'r> = (Dialect, &'r str, ErrorKind, Option<Field>, (usize, usize), &'r [&'r str]);

fn check(rows: &[Row<'_>]) {
    for (dialect, text, kind, field, place, says) in rows {
        let error = match Schedule::parse(text, &Zone::utc(), *dialect) {
            Ok(schedule) => panic!("`{text}` was read as {}", schedule.describe()),
            Err(error) => error,
        };
        let message = format!("{error} | {}", error.help().unwrap_or_default());
        assert_eq!((error.kind(), error.field()), (*kind, *field), "`{text}`: {message}");
        assert_eq!((error.column(), error.len()), *place, "`{text}`: {message}");
        for part in *says {
            assert!(message.contains(part), "`{text}`: `{message}` does not say `{part}`");
        }
        if let Some(field) = field {
            assert!(message.starts_with(field.name()), "`{text}`: {message}");
        }
    }
}

#[test]
fn values_out_of_range() {
    check(&[
        (Cadran, "60 * * * *", OutOfRange, Some(Minute), (1, 2), &["`60`", "0–59"]),
        (Cadran, "0 24 * * *", OutOfRange, Some(Hour), (3, 2), &["`24`", "0–23", "midnight is 0"]),
        (Cadran, "0 0 0 * *", OutOfRange, Some(DayOfMonth), (5, 1), &["`0`", "1–31"]),
        (Cadran, "0 0 32 * *", OutOfRange, Some(DayOfMonth), (5, 2), &["`32`", "1–31"]),
        (Cadran, "0 0 1 13 *", OutOfRange, Some(Month), (7, 2), &["`13`", "1–12", "JAN"]),
        (Cadran, "0 0 * * 8", OutOfRange, Some(DayOfWeek), (9, 1), &["`8`", "0–7", "SUN"]),
        (Cadran, "60 0 0 * * *", OutOfRange, Some(Second), (1, 2), &["`60`", "0–59"]),
        (Cadran, "0 0 0 1 1 ? 1969", OutOfRange, Some(Year), (13, 4), &["`1969`", "1970–2199"]),
        (Cadran, "0 0 0 1 1 ? 2200", OutOfRange, Some(Year), (13, 4), &["`2200`", "1970–2199"]),
        (Cadran, "0 1,2,30 * * *", OutOfRange, Some(Hour), (7, 2), &["`30`"]),
        (Cadran, "0 1-30 * * *", OutOfRange, Some(Hour), (5, 2), &["`30`"]),
        (Cadran, "99999999999999999999 * * * *", OutOfRange, Some(Minute), (1, 20), &["0–59"]),
        (Quartz, "0 0 0 ? * 0", OutOfRange, Some(DayOfWeek), (11, 1), &["1–7", "Sunday is 1"]),
        (Quartz, "0 0 0 ? * 8", OutOfRange, Some(DayOfWeek), (11, 1), &["1–7"]),
        (Dagu, "0 0 * * 7", OutOfRange, Some(DayOfWeek), (9, 1), &["0–6", "Sunday is 0"]),
    ]);
}

#[test]
fn steps() {
    check(&[
        (Cadran, "*/0 * * * *", Step, Some(Minute), (3, 1), &["`0`", "1–59"]),
        (Cadran, "*/60 * * * *", Step, Some(Minute), (3, 2), &["`60`", "1–59", "write `0`"]),
        (Cadran, "0 */24 * * *", Step, Some(Hour), (5, 2), &["`24`", "1–23"]),
        (Cadran, "0 0 */32 * *", Step, Some(DayOfMonth), (7, 2), &["1–31"]),
        (Cadran, "0 0 1 */13 *", Step, Some(Month), (9, 2), &["1–12"]),
        (Cadran, "*/ * * * *", Step, Some(Minute), (3, 0), &["not a number", "1–59"]),
        (Cadran, "*/x * * * *", Step, Some(Minute), (3, 1), &["`x`", "1–59"]),
        (Cadran, "*/2/3 * * * *", Step, Some(Minute), (3, 3), &["`2/3`"]),
        (Cadran, "5/-1 * * * *", Step, Some(Minute), (3, 2), &["`-1`"]),
        (Vixie, "5/15 * * * *", Unsupported, Some(Minute), (1, 4), &["write `5-59/15`"]),
    ]);
}

#[test]
fn syntax() {
    check(&[
        (Cadran, "a * * * *", Syntax, Some(Minute), (1, 1), &["`a`", "0–59"]),
        (Cadran, "1,,2 * * * *", Syntax, Some(Minute), (3, 0), &["empty", "`1,,2`"]),
        (Cadran, ",1 * * * *", Syntax, Some(Minute), (1, 0), &["empty"]),
        (Cadran, "1- * * * *", Syntax, Some(Minute), (3, 0), &["0–59"]),
        (Cadran, "-1 * * * *", Syntax, Some(Minute), (1, 2), &["`-1`", "0–59"]),
        (Cadran, "1-2-3 * * * *", Syntax, Some(Minute), (3, 3), &["`2-3`"]),
        (Cadran, "+1 * * * *", Syntax, Some(Minute), (1, 2), &["`+1`"]),
        (Cadran, "** * * * *", Syntax, Some(Minute), (1, 2), &["`**`"]),
        (Cadran, "0 0 é * *", Syntax, Some(DayOfMonth), (5, 1), &["`é`"]),
        (Cadran, "é 0 99 * *", Syntax, Some(Minute), (1, 1), &["`é`"]),
        (Cadran, "0 0 * foo *", Syntax, Some(Month), (7, 3), &["`foo`", "JAN"]),
        (Cadran, "0 0 * * tusday", Syntax, Some(DayOfWeek), (9, 6), &["did you mean `TUE`?"]),
        (Cadran, "0 0 * * MON-FRX", Syntax, Some(DayOfWeek), (13, 3), &["did you mean `FRI`?"]),
        (Cadran, "0 0 * * L", Syntax, Some(DayOfWeek), (9, 1), &["`5L`"]),
        (Cadran, "0 0 W * *", Syntax, Some(DayOfMonth), (5, 1), &["1W–31W"]),
        (Cadran, "0 0 1-5W * *", Syntax, Some(DayOfMonth), (5, 4), &["1W–31W"]),
        (Cadran, "0 0 32W * *", OutOfRange, Some(DayOfMonth), (5, 2), &["1–31"]),
        (Cadran, "0 0 L-31 * *", OutOfRange, Some(DayOfMonth), (7, 2), &["L-30"]),
        (Cadran, "0 0 * * 5#6", OutOfRange, Some(DayOfWeek), (11, 1), &["#1–#5"]),
        (Cadran, "0 0 * * 5#", OutOfRange, Some(DayOfWeek), (11, 0), &["#1–#5"]),
        (Cadran, "0 0 * * 9#1", OutOfRange, Some(DayOfWeek), (9, 1), &["0–7"]),
        (Cadran, "L * * * *", Syntax, Some(Minute), (1, 1), &["0–59"]),
        (Cadran, "H * * * *", Syntax, Some(Minute), (1, 1), &["`H` is not known"]),
        (Cadran, "0 0 ?,5 * *", Syntax, Some(DayOfMonth), (5, 1), &["alone"]),
        (Cadran, "0 0 ?/2 * *", Syntax, Some(DayOfMonth), (5, 3), &["alone"]),
        (Cadran, "0 0 0 1 1 ? 2030-2020", OutOfRange, Some(Year), (13, 9), &["backwards", "1970–2199"]),
        (Vixie, "0 0 ? * *", Syntax, Some(DayOfMonth), (5, 1), &["write `*`"]),
        (Vixie, "0 0 L * *", Syntax, Some(DayOfMonth), (5, 1), &["dialect `cadran`"]),
        (Vixie, "0 22-2 * * *", OutOfRange, Some(Hour), (3, 4), &["backwards", "write `22-23,0-2`"]),
        (Dagu, "0 0 * * FRI#2", Syntax, Some(DayOfWeek), (9, 5), &["dialect `cadran`"]),
        (Dagu, "0 0 15W * *", Syntax, Some(DayOfMonth), (5, 3), &["dialect `cadran`"]),
        (Dagu, "0 0 * * FRI-MON", OutOfRange, Some(DayOfWeek), (9, 7), &["backwards"]),
        (Quartz, "0 0 0 1 * *", Syntax, Some(DayOfWeek), (11, 1), &["exactly one"]),
        (Quartz, "0 0 0 ? * ?", Syntax, Some(DayOfWeek), (11, 1), &["exactly one"]),
        (Quartz, "0 ? 0 1 * ?", Syntax, Some(Minute), (3, 1), &["day field"]),
    ]);
}

#[test]
fn numbers_of_fields() {
    check(&[
        (Cadran, "", Empty, None, (1, 0), &["5 fields"]),
        (Cadran, "   ", Empty, None, (4, 0), &["5 fields"]),
        (
            Cadran,
            "* * * *",
            FieldCount,
            None,
            (8, 0),
            &["4 fields", "minute hour day-of-month month day-of-week"],
        ),
        (Cadran, "*", FieldCount, None, (2, 0), &["1 field,"]),
        (Cadran, "* * * * * * * *", FieldCount, None, (15, 1), &["8 fields", "7 (with year last)"]),
        (Seconds, "* * * * *", FieldCount, None, (10, 0), &["6 fields", "second field first"]),
        (Quartz, "* * * * ?", FieldCount, None, (10, 0), &["6 fields"]),
        (Vixie, "0 * * * * *", FieldCount, None, (11, 1), &["5 fields", "`seconds`"]),
        (Dagu, "0 * * * * *", FieldCount, None, (11, 1), &["5 fields"]),
        (Dagu, "@daily", Unsupported, None, (1, 6), &["no `@daily`", "write `0 0 * * *`"]),
        (Quartz, "@daily", Unsupported, None, (1, 6), &["no `@daily`"]),
        (Cadran, "@fortnightly", Syntax, None, (1, 12), &["`@fortnightly`", "@weekly"]),
        (Vixie, "@reboot", Unsupported, None, (1, 7), &["names no instant"]),
        (Vixie, "@every 5m", Unsupported, None, (1, 9), &["dialect `cadran`"]),
        (Dagu, "every 5m", Unsupported, None, (1, 8), &["dialect `cadran`"]),
    ]);
    let long = "1,".repeat(300) + "1 * * * *";
    assert_eq!(Calendar::parse(&long, Cadran).unwrap_err().kind(), TooLong);
}

#[test]
fn dates_that_never_come() {
    check(&[
        (Cadran, "0 0 30 2 *", Never, Some(DayOfMonth), (5, 6), &["`0 0 30 2 *`", "1970–2199"]),
        (Cadran, "0 0 31 2,4,6,9,11 *", Never, Some(DayOfMonth), (5, 15), &[]),
        (Cadran, "0 0 31W 4 *", Never, Some(DayOfMonth), (5, 7), &[]),
        (Cadran, "0 0 L-29 2 *", Never, Some(DayOfMonth), (5, 8), &[]),
        (Cadran, "0 0 0 29 2 ? 2026", Never, Some(DayOfMonth), (7, 11), &[]),
        (Cadran, "0 0 0 29 2 ? 2100", Never, Some(DayOfMonth), (7, 11), &[]),
        // February has a fifth Monday only when the 29th is one; in 2032 it is a Sunday.
        (Cadran, "0 0 0 ? 2 MON#5 2032", Never, Some(DayOfMonth), (7, 14), &[]),
        (Vixie, "0 0 30 2 *", Never, Some(DayOfMonth), (5, 6), &[]),
        (Quartz, "0 0 0 31 4 ?", Never, Some(DayOfMonth), (7, 6), &[]),
    ]);
    // Possible, if only just.
    for text in ["0 0 29 2 *", "0 0 30 2 MON", "0 0 L-28 2 *", "0 0 0 29 2 ? 2000", "0 0 0 ? 2 SUN#5 2032"] {
        assert!(Schedule::parse(text, &Zone::utc(), Cadran).is_ok(), "`{text}`");
    }
    // An interval that lies in one gap of one year is impossible in that zone only.
    let text = "0 */5 2 29 3 ? 2026";
    assert!(Schedule::parse(text, &Zone::utc(), Cadran).is_ok());
    let error = Schedule::parse(text, &Zone::get("Europe/Paris").unwrap(), Cadran).unwrap_err();
    assert_eq!(error.kind(), Never);
    assert!(error.to_string().contains("Europe/Paris"), "{error}");
}

#[test]
fn names_of_dialects_and_overrides() {
    for dialect in Dialect::ALL {
        assert_eq!(Dialect::from_name(&dialect.name().to_uppercase()), Some(dialect));
    }
    assert_eq!(Dialect::from_name("xxl-job"), Some(Quartz));
    assert_eq!(Dialect::from_name("cron"), None);
    for dst in [Dst::Auto, Dst::Skip, Dst::Shift, Dst::Both] {
        assert_eq!(Dst::from_name(dst.name()), Some(dst));
    }
    assert_eq!(Dst::from_name("neither"), None);
}

#[test]
fn zones_durations_and_timestamps() {
    check(&[
        (
            Cadran,
            "TZ=Europe/Pariss 0 9 * * *",
            ErrorKind::Zone,
            None,
            (4, 13),
            &["did you mean `Europe/Paris`?"],
        ),
        (Cadran, "CRON_TZ=Paris 0 9 * * *", ErrorKind::Zone, None, (9, 5), &["`Europe/Paris`"]),
        (Cadran, "CRON_TZ= 0 9 * * *", ErrorKind::Zone, None, (9, 0), &["missing"]),
        (Cadran, "TZ=Mars/Olympus 0 9 * * *", ErrorKind::Zone, None, (4, 12), &["`Mars/Olympus`", "IANA"]),
        (Cadran, "TZ=Europe/Paris", Empty, None, (16, 0), &["5 fields"]),
        (Cadran, "TZ=Europe/Paris 0 25 * * *", OutOfRange, Some(Hour), (19, 2), &["`25`"]),
        (Cadran, "every", Duration, None, (6, 0), &["missing"]),
        (Cadran, "every 5", Duration, None, (7, 1), &["no unit", "write `5s`"]),
        (Cadran, "every five minutes", Duration, None, (7, 4), &["`five`"]),
        (Cadran, "every 5 minutes", Duration, None, (7, 1), &["no unit"]),
        (Cadran, "every 1y", Duration, None, (8, 1), &["`y` is no unit"]),
        (Cadran, "every 5s1h", Duration, None, (10, 1), &["`h` is out of order"]),
        (Cadran, "every 1.5h", Duration, None, (7, 1), &["no unit"]),
        (Cadran, "every 9ms", Duration, None, (7, 3), &["10ms"]),
        (Cadran, "every 0s", Duration, None, (7, 2), &["10ms"]),
        (Cadran, "every 99999999999999999999h", Duration, None, (7, 21), &["230 years"]),
        (Cadran, "every 9000000000000s", Duration, None, (7, 14), &["230 years"]),
        (Cadran, "every 5m from now", Timestamp, None, (15, 3), &["`now`", "RFC 3339"]),
        (Cadran, "at", Timestamp, None, (3, 0), &["missing"]),
        (Cadran, "at noon", Timestamp, None, (4, 4), &["`noon`", "2026-11-15T10:00:00Z"]),
        (Cadran, "at 2026-11-15T10:00[Asia/Tokyo]", Timestamp, None, (4, 28), &["names a zone"]),
        (Cadran, "at 2026-02-30T10:00:00Z", Timestamp, None, (4, 20), &["RFC 3339"]),
        (Cadran, "2026-13-01T10:00:00Z", Timestamp, None, (1, 20), &["RFC 3339"]),
        (Cadran, "at 2200-01-01T00:00:00Z", Timestamp, None, (4, 20), &["1970–2199"]),
        (Cadran, "at 1969-12-31T23:59:59Z", Timestamp, None, (4, 20), &["1970–2199"]),
        (Cadran, "at 1969-12-31T23:59:59", Timestamp, None, (4, 19), &["1970–2199"]),
        (Cadran, "at 9999-12-31T23:59:59", Timestamp, None, (4, 19), &["1970–2199"]),
    ]);
    for text in ["", " ", "5", "-5s", "1h-3m", "1H", "5 s", "é", "1h30", "ms", "1w1w"] {
        assert_eq!(parse_duration(text).unwrap_err().kind(), Duration, "`{text}`");
    }
    let rows = [
        ("europe/Berln", Some("Europe/Berlin")),
        ("New York", Some("America/New_York")),
        ("Europe/Tokyo", Some("Asia/Tokyo")),
        ("Middle_earth", None),
        ("", None),
    ];
    for (name, suggestion) in rows {
        assert_eq!(cadran_cron::Zone::get(name).unwrap_err().suggestion(), suggestion, "`{name}`");
    }
}
