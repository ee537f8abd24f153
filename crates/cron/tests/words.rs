//! Schedules in plain words, as rows.

use cadran_cron::{Dialect, Schedule, Zone};

#[test]
fn calendars() {
    let rows = [
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("*/7 * * * *", "every 7 minutes"),
        ("0 * * * *", "every hour"),
        ("5 * * * *", "every hour at minute 5"),
        ("5,35 * * * *", "at minutes 5 and 35 of every hour"),
        ("5-10,40 * * * *", "at minutes 5 to 10 and 40 of every hour"),
        ("0 */2 * * *", "every 2 hours"),
        ("15 */6 * * *", "every day at 00:15, 06:15, 12:15 and 18:15"),
        ("15 */3 * * *", "every 3 hours at minute 15"),
        ("0 9 * * *", "every day at 09:00"),
        ("@daily", "every day at 00:00"),
        ("30 9,17 * * *", "every day at 09:30 and 17:30"),
        ("0 9-17 * * *", "every hour from 09:00 to 17:00"),
        ("*/15 9-17 * * MON-FRI", "every 15 minutes from 09:00 to 17:45, Monday to Friday"),
        ("* 9-17 * * *", "every minute from 09:00 to 17:59"),
        ("* 9 * * *", "every minute of hour 9"),
        ("*/15 8,12,18 * * *", "every 15 minutes of hours 8, 12 and 18"),
        ("*/10 */2 * * *", "every 10 minutes of every second hour from midnight"),
        ("1,2,3,9 1,2,3,9 * * *", "at minutes 1 to 3 and 9 of hours 1 to 3 and 9"),
        ("0 9 * * 1", "at 09:00, on Monday"),
        ("0 9 * * 0,6", "at 09:00, Saturday and Sunday"),
        ("0 9 * * 1,3", "at 09:00, Monday and Wednesday"),
        ("0 0 1 * *", "at 00:00, on day 1 of the month"),
        ("0 0 1,15 * *", "at 00:00, on days 1 and 15 of the month"),
        ("0 0 */2 * *", "at 00:00, on every second day of the month from the first"),
        ("0 0 L * *", "at 00:00, on the last day of the month"),
        ("0 0 L-1 * *", "at 00:00, on the day before the last of the month"),
        ("0 0 L-3 * *", "at 00:00, on the day 3 days before the last of the month"),
        ("0 0 15W * *", "at 00:00, on the weekday nearest day 15 of the month"),
        ("0 0 LW * *", "at 00:00, on the last weekday of the month"),
        ("0 0 1,LW * *", "at 00:00, on day 1 of the month and the last weekday of the month"),
        ("0 0 * * FRI#2", "at 00:00, on the second Friday of the month"),
        ("0 0 * * 5L", "at 00:00, on the last Friday of the month"),
        ("0 0 13 * FRI", "at 00:00, on day 13 of the month or on Friday"),
        ("0 0 13 * MON-FRI", "at 00:00, on day 13 of the month or on Monday to Friday"),
        ("0 0 1 1 *", "at 00:00, on January 1"),
        ("0 0 * 6-8 *", "at 00:00, in June to August"),
        ("0 0 1 1,7 *", "at 00:00, on day 1 of the month, in January and July"),
        ("0 0 9 1 1 ? 2030", "at 09:00, on January 1, in 2030"),
        ("0 0 9 ? * MON 2030-2032,2040", "at 09:00, on Monday, in 2030 to 2032 and 2040"),
        ("* * * * * *", "every second"),
        ("*/10 * * * * *", "every 10 seconds"),
        ("30 * * * * *", "every minute, at second 30"),
        ("5,40 * * * * *", "every minute at seconds 5 and 40"),
        ("*/10 0-5 * * * *", "every 10 seconds, at minutes 0 to 5 of every hour"),
        ("*/10 * 9 * * *", "every 10 seconds of hour 9"),
        ("30 15 10 * * *", "every day at 10:15:30"),
    ];
    for (text, words) in rows {
        let schedule = cadran_cron::Calendar::parse(text, Dialect::Cadran).unwrap();
        assert_eq!(schedule.describe(), words, "`{text}`");
    }
    let vixie = cadran_cron::Calendar::parse("0 0 */10 * MON", Dialect::Vixie).unwrap();
    assert_eq!(
        vixie.describe(),
        "at 00:00, on every 10th day of the month from the first where that is Monday"
    );
}

#[test]
fn schedules() {
    let rows = [
        ("0 9 * * *", "every day at 09:00 (Europe/Paris)"),
        ("*/5 * * * *", "every 5 minutes"),
        ("TZ=UTC 0 9 * * 1", "at 09:00, on Monday (UTC)"),
        ("every 1h30m", "every 1h30m"),
        ("every 250ms", "every 250ms"),
        ("every 2h from 2026-01-01T00:30:00Z", "every 2h, 30m after each multiple"),
        ("at 2026-11-15T10:00:00Z", "once at 2026-11-15 11:00:00 (Europe/Paris)"),
        ("at 2026-07-15T10:00:00.250", "once at 2026-07-15 10:00:00.250 (Europe/Paris)"),
    ];
    for (text, words) in rows {
        let schedule = Schedule::parse(text, &Zone::get("Europe/Paris").unwrap(), Dialect::Cadran).unwrap();
        assert_eq!(schedule.describe(), words, "`{text}`");
    }
}
