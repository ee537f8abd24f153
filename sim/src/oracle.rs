//! A second, plain reading of schedules, so that dues are not judged by the code that made them.
//!
//! It takes the text of a schedule, walks over civil days with `jiff`, looks at every reading of the clock that the text
//! names on such a day, and asks the zone which instants that is. It knows nothing of `cadran-cron`: no tables, no
//! jumps, no search. The laws compute dues with the product's calendars; [`agree`] holds these to what is read here, for
//! every schedule of a script over the whole time that the script touches.

use std::collections::BTreeSet;

use cadran_core::{Dst, Millis, ScheduleEntry};
use cadran_spec::ScheduleText;
use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Span, Timestamp};

use crate::law::{Violation, broken};

/// Every due of a schedule in `[from, to)`, in order; `None` for a text that this reading does not know.
pub(crate) fn dues(written: &ScheduleText, from: Millis, to: Millis) -> Option<Vec<Millis>> {
    let text = written.text.trim();
    if let Some(rest) = text.strip_prefix("every ") {
        let (period, anchor) = match rest.split_once(" from ") {
            Some((period, anchor)) => (period, anchor.trim().parse::<Timestamp>().ok()?.as_millisecond()),
            None => (rest, 0),
        };
        let period = duration_ms(period.trim())?;
        let first = from + (anchor - from).rem_euclid(period);
        return Some((first..to).step_by(period as usize).collect());
    }
    if let Some(at) = text.strip_prefix("at ") {
        let at = at.trim().parse::<Timestamp>().ok()?.as_millisecond();
        return Some(if (from..to).contains(&at) { vec![at] } else { Vec::new() });
    }
    let (zone, text) = match text.strip_prefix("CRON_TZ=").or_else(|| text.strip_prefix("TZ=")) {
        Some(rest) => rest.split_once(' ')?,
        None => (written.zone.name(), text),
    };
    let zone = TimeZone::get(zone).ok()?;
    let clock = Clock::read(text)?;
    let shift = match written.dst {
        Dst::Auto if clock.is_fixed => Dst::Shift,
        Dst::Auto => Dst::Both,
        other => other,
    };
    let mut found = BTreeSet::new();
    let first = Timestamp::from_millisecond(from).ok()?.to_zoned(zone.clone()).date();
    let last = Timestamp::from_millisecond(to).ok()?.to_zoned(zone.clone()).date();
    let mut day = first.checked_sub(Span::new().days(1)).ok()?;
    // A gap may move a reading to the next day, and once in a while over a whole one.
    while day <= last.checked_add(Span::new().days(1)).ok()? {
        if clock.holds_date(day) {
            for time in &clock.times {
                instants(&zone, day.to_datetime(*time), shift, &mut found);
            }
        }
        day = day.tomorrow().ok()?;
    }
    Some(found.range(from..to).copied().collect())
}

/// The instants at which a clock of this zone shows a reading.
fn instants(zone: &TimeZone, reading: DateTime, dst: Dst, found: &mut BTreeSet<Millis>) {
    let ambiguous = zone.to_ambiguous_timestamp(reading);
    let at = |offset: jiff::tz::Offset| offset.to_timestamp(reading).map(|at| at.as_millisecond()).ok();
    match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { offset } => found.extend(at(offset)),
        AmbiguousOffset::Gap { before, .. } if dst == Dst::Shift => {
            // The clock never shows it. It runs at the gap's end, which is the moment of the change.
            let Ok(late) = before.to_timestamp(reading) else { return };
            let change = zone.preceding(late.checked_add(Span::new().seconds(1)).unwrap_or(late)).next();
            found.extend(change.map(|change| change.timestamp().as_millisecond()));
        }
        AmbiguousOffset::Gap { .. } => {}
        AmbiguousOffset::Fold { before, after } => {
            found.extend(at(before));
            if dst == Dst::Both {
                found.extend(at(after));
            }
        }
    }
}

/// `1h30m` in milliseconds.
fn duration_ms(text: &str) -> Option<Millis> {
    let mut total = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: Millis = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        total += number
            * match &rest[..letters] {
                "ms" => 1,
                "s" => 1_000,
                "m" => 60_000,
                "h" => 3_600_000,
                "d" => 86_400_000,
                _ => return None,
            };
        rest = &rest[letters..];
    }
    (total > 0).then_some(total)
}

/// A cron expression, field by field.
struct Clock {
    /// Every time of day that seconds, minutes and hours name.
    times: Vec<Time>,
    /// No `*`, step or range in second, minute and hour.
    is_fixed: bool,
    days: String,
    months: BTreeSet<i64>,
    weekdays: String,
    years: Option<BTreeSet<i64>>,
}

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl Clock {
    fn read(text: &str) -> Option<Clock> {
        let text = match text {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" | "@annually" => "0 0 1 1 *",
            text => text,
        };
        let mut fields: Vec<&str> = text.split_whitespace().collect();
        if fields.len() == 5 {
            fields.insert(0, "0");
        }
        let (seconds, minutes, hours) = (fields.first()?, fields.get(1)?, fields.get(2)?);
        let is_fixed = [seconds, minutes, hours].iter().all(|field| !field.contains(['*', '/', '-', '?']));
        let mut times = Vec::new();
        for hour in numbers(hours, 0, 23, &[])? {
            for minute in numbers(minutes, 0, 59, &[])? {
                for second in numbers(seconds, 0, 59, &[])? {
                    times.push(Time::new(hour as i8, minute as i8, second as i8, 0).ok()?);
                }
            }
        }
        let years = fields.get(6).map(|field| numbers(field, 1970, 2199, &[]));
        Some(Clock {
            times,
            is_fixed,
            days: fields.get(3)?.to_ascii_uppercase(),
            months: numbers(fields.get(4)?, 1, 12, &MONTHS)?,
            weekdays: fields.get(5)?.to_ascii_uppercase(),
            years: match years {
                Some(years) => Some(years?),
                None => None,
            },
        })
    }

    fn holds_date(&self, day: Date) -> bool {
        if !self.months.contains(&i64::from(day.month()))
            || self.years.as_ref().is_some_and(|years| !years.contains(&i64::from(day.year())))
        {
            return false;
        }
        let of_month = self.days.split(',').any(|part| holds_day(part, day));
        let of_week = self.weekdays.split(',').any(|part| holds_weekday(part, day));
        match (is_any(&self.days), is_any(&self.weekdays)) {
            (true, _) => of_week,
            (_, true) => of_month,
            // Both restricted: either one.
            _ => of_month || of_week,
        }
    }
}

fn is_any(field: &str) -> bool {
    matches!(field, "*" | "?")
}

/// A part of the field for days of the month.
fn holds_day(part: &str, day: Date) -> bool {
    let last = i64::from(day.days_in_month());
    let number = i64::from(day.day());
    if part == "L" {
        return number == last;
    }
    if part == "LW" {
        return Some(number) == nearest_weekday(day, last);
    }
    if let Some(before) = part.strip_prefix("L-") {
        return before.parse::<i64>().is_ok_and(|before| number == last - before);
    }
    if let Some(wanted) = part.strip_suffix('W') {
        return wanted
            .parse()
            .is_ok_and(|wanted| wanted <= last && Some(number) == nearest_weekday(day, wanted));
    }
    numbers(part, 1, 31, &[]).is_some_and(|days| days.contains(&number))
}

/// The weekday (Monday to Friday) nearest to a day of the same month, without leaving it.
fn nearest_weekday(month: Date, wanted: i64) -> Option<i64> {
    let last = i64::from(month.days_in_month());
    let is_weekday = |number: &i64| {
        Date::new(month.year(), month.month(), *number as i8)
            .is_ok_and(|day| !matches!(day.weekday(), Weekday::Saturday | Weekday::Sunday))
    };
    [0, -1, 1, -2, 2]
        .into_iter()
        .map(|by| wanted + by)
        .filter(|number| (1..=last).contains(number))
        .find(is_weekday)
}

/// A part of the field for days of the week.
fn holds_weekday(part: &str, day: Date) -> bool {
    let number = i64::from(day.weekday().to_sunday_zero_offset());
    let of_name = |text: &str| numbers(text, 0, 7, &WEEKDAYS).is_some_and(|days| holds_sunday(&days, number));
    if let Some((name, nth)) = part.split_once('#') {
        return of_name(name) && nth.parse::<i8>().is_ok_and(|nth| (day.day() - 1) / 7 + 1 == nth);
    }
    if let Some(name) = part.strip_suffix('L').filter(|name| !name.is_empty()) {
        return of_name(name) && day.day() + 7 > day.days_in_month();
    }
    of_name(part)
}

/// Sunday is 0 and 7.
fn holds_sunday(days: &BTreeSet<i64>, number: i64) -> bool {
    days.contains(&number) || number == 0 && days.contains(&7)
}

/// The numbers that a field names: lists of `*`, numbers, names, ranges that may wrap around, and steps.
fn numbers(field: &str, min: i64, max: i64, names: &[&str]) -> Option<BTreeSet<i64>> {
    let number = |text: &str| {
        let named = names.iter().position(|name| name.eq_ignore_ascii_case(text)).map(|at| at as i64);
        named.map(|at| if min == 1 { at + 1 } else { at }).or_else(|| text.parse().ok())
    };
    let mut found = BTreeSet::new();
    for part in field.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse().ok()?),
            None => (part, 1),
        };
        let (first, last) = match range.split_once('-') {
            _ if is_any(range) => (min, if names.len() == 7 { 6 } else { max }),
            Some((first, last)) => (number(first)?, number(last)?),
            None if part.contains('/') => (number(range)?, max),
            None => (number(range)?, number(range)?),
        };
        // A range that ends before it begins goes around.
        let around = max - min + 1 - i64::from(names.len() == 7);
        let end = if last < first { last + around } else { last };
        found.extend((first..=end).step_by(step).map(|at| if at > max { at - around } else { at }));
    }
    Some(found)
}

/// The product names the same instants as this reading, in every way it can be asked.
pub(crate) fn agree(
    entries: &[ScheduleEntry],
    written: &[ScheduleText],
    from: Millis,
    to: Millis,
) -> Result<(), Violation> {
    for (entry, written) in entries.iter().zip(written) {
        let Some(expected) = dues(written, from, to) else {
            return broken(LAW, format!("the plain reading does not know `{}`", written.text));
        };
        let mut walked = Vec::new();
        entry.schedule.walk(from, to, &mut |due| walked.push(due));
        let said = |what: &str| {
            let differs = walked.iter().zip(&expected).find(|(ours, theirs)| ours != theirs);
            format!(
                "`{}` in {}, dst {}: {what} in [{from}, {to}): {} against {}, first different {differs:?}",
                written.text,
                written.zone.name(),
                written.dst.name(),
                walked.len(),
                expected.len()
            )
        };
        if walked != expected {
            return broken(LAW, said("walked"));
        }
        if entry.schedule.count(from, to) != expected.len() as u64 {
            return broken(LAW, said("counted otherwise"));
        }
        for pair in expected.windows(2).step_by(1 + expected.len() / 50) {
            if entry.schedule.next(pair[0]) != Some(pair[1]) {
                return broken(LAW, said(&format!("the next after {}", pair[0])));
            }
        }
    }
    Ok(())
}

const LAW: &str = "a schedule names what a plain reading of its text names";
