//! Schedules in plain words.

use std::fmt::Write;

use crate::calendar::{
    ALL_60, ALL_DAYS, ALL_HOURS, ALL_MONTHS, ALL_WEEKDAYS, Calendar, EITHER, bits32, bits64,
};
use crate::civil::{DAY_SECS, YEAR_MAX, YEAR_MIN, civil_from_days};
use crate::schedule::{Rule, Schedule};
use crate::zone::Zone;
use crate::{INSTANT_END, Millis};

const MONTHS: [&str; 13] = [
    "",
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const ORDINALS: [&str; 6] = ["first", "second", "third", "fourth", "fifth", "last"];

/// So many times of day are still written out one by one.
const TIMES_LISTED_MAX: u32 = 6;

impl Calendar {
    /// The calendar in plain words: the times first, then the days.
    pub fn describe(&self) -> String {
        let time = self.describe_time();
        let days = self.describe_days();
        match days.as_str() {
            "" if self.times_count() <= TIMES_LISTED_MAX => format!("every day {time}"),
            "" => time,
            _ => format!("{time}, {days}"),
        }
    }

    fn describe_time(&self) -> String {
        if self.times_count() <= TIMES_LISTED_MAX {
            return format!("at {}", list(&self.times_of_day()));
        }
        if self.seconds.count_ones() > 1 {
            return self.describe_seconds();
        }
        // From here on one second of the minute; it is named only where it is not the full minute.
        let second = match self.seconds.trailing_zeros() {
            0 => String::new(),
            second => format!(", at second {second}"),
        };
        let hours = span(u64::from(self.hours));
        let (minute, last) = (self.minutes.trailing_zeros(), self.minutes.ilog2());
        if self.minutes.count_ones() == 1 {
            let past = if minute == 0 { String::new() } else { format!(" at minute {minute}") };
            if self.hours == ALL_HOURS {
                return format!("every hour{past}{second}");
            }
            if let Some(step) = step(u64::from(self.hours), 24) {
                return format!("every {step} hours{past}{second}");
            }
            if let Some((from, to)) = hours {
                return format!("every hour from {from:02}:{minute:02} to {to:02}:{minute:02}{second}");
            }
            return format!("{}{second}", self.minutes_past());
        }
        let every = match step(self.minutes, 60) {
            _ if self.minutes == ALL_60 => "every minute".to_owned(),
            Some(step) => format!("every {step} minutes"),
            None => return format!("{}{second}", self.minutes_past()),
        };
        if self.hours == ALL_HOURS {
            return every + &second;
        }
        match hours {
            Some((from, to)) => format!("{every} from {from:02}:{minute:02} to {to:02}:{last:02}{second}"),
            None => format!("{every} {}{second}", self.in_hours()),
        }
    }

    /// Several seconds of a minute.
    fn describe_seconds(&self) -> String {
        let every = match step(self.seconds, 60) {
            _ if self.seconds == ALL_60 => "every second".to_owned(),
            Some(step) => format!("every {step} seconds"),
            None => format!("at seconds {}", numbers(self.seconds)),
        };
        match (self.minutes == ALL_60, self.hours == ALL_HOURS) {
            (true, true) if every.starts_with("at ") => format!("every minute {every}"),
            (true, true) => every,
            (true, false) => format!("{every} {}", self.in_hours()),
            (false, _) => format!("{every}, {}", self.minutes_past()),
        }
    }

    fn minutes_past(&self) -> String {
        let noun = if self.minutes.count_ones() == 1 { "minute" } else { "minutes" };
        let hours = if self.hours == ALL_HOURS { "of every hour".to_owned() } else { self.in_hours() };
        format!("at {noun} {} {hours}", numbers(self.minutes))
    }

    fn in_hours(&self) -> String {
        match (step(u64::from(self.hours), 24), self.hours.count_ones()) {
            (Some(step), _) => format!("of every {} hour from midnight", ordinal(step)),
            (None, 1) => format!("of hour {}", self.hours.trailing_zeros()),
            (None, _) => format!("of hours {}", numbers(u64::from(self.hours))),
        }
    }

    fn times_count(&self) -> u32 {
        self.hours.count_ones() * self.minutes.count_ones() * self.seconds.count_ones()
    }

    fn times_of_day(&self) -> Vec<String> {
        let mut times = Vec::new();
        for hour in bits32(self.hours) {
            for minute in bits64(self.minutes) {
                for second in bits64(self.seconds) {
                    times.push(match second {
                        0 if self.seconds == 1 => format!("{hour:02}:{minute:02}"),
                        _ => format!("{hour:02}:{minute:02}:{second:02}"),
                    });
                }
            }
        }
        times
    }

    /// The days, months and years; empty where every day matches.
    fn describe_days(&self) -> String {
        let mut parts = Vec::new();
        let month_days = self.describe_month_days();
        let weekdays = self.describe_weekdays();
        let one_date =
            self.days.count_ones() == 1 && self.months.count_ones() == 1 && self.flags & EITHER == 0;
        if one_date && self.last | self.nearest == 0 && weekdays.is_empty() {
            parts.push(format!(
                "on {} {}",
                MONTHS[self.months.trailing_zeros() as usize],
                self.days.trailing_zeros()
            ));
        } else {
            match (month_days.is_empty(), weekdays.is_empty()) {
                (true, true) => {}
                (false, true) => parts.push(month_days),
                (true, false) => parts.push(weekdays),
                (false, false) if self.flags & EITHER != 0 => {
                    parts.push(format!("{month_days} or {}", with_on(&weekdays)));
                }
                (false, false) => parts.push(format!("{month_days} where that is {}", without_on(&weekdays))),
            }
            if self.months != ALL_MONTHS {
                parts.push(format!("in {}", names(u64::from(self.months), &MONTHS)));
            }
        }
        if let Some(years) = &self.years {
            let years: Vec<u32> =
                (YEAR_MIN..=YEAR_MAX).filter(|&year| years.contains(year)).map(|year| year as u32).collect();
            parts.push(format!("in {}", list(&runs(&years, |year| year.to_string()))));
        }
        parts.join(", ")
    }

    fn describe_month_days(&self) -> String {
        let mut parts = Vec::new();
        let plain = if self.days == ALL_DAYS { 0 } else { self.days };
        match plain.count_ones() {
            0 => {}
            1 => parts.push(format!("day {} of the month", plain.trailing_zeros())),
            _ => match step(u64::from(plain >> 1), 31) {
                Some(step) => parts.push(format!("every {} day of the month from the first", ordinal(step))),
                None => parts.push(format!("days {} of the month", numbers(u64::from(plain)))),
            },
        }
        for back in bits32(self.last) {
            parts.push(match back {
                0 => "the last day of the month".to_owned(),
                1 => "the day before the last of the month".to_owned(),
                _ => format!("the day {back} days before the last of the month"),
            });
        }
        for day in bits32(self.nearest & !1) {
            parts.push(format!("the weekday nearest day {day} of the month"));
        }
        if self.nearest & 1 == 1 {
            parts.push("the last weekday of the month".to_owned());
        }
        if parts.is_empty() { String::new() } else { format!("on {}", list(&parts)) }
    }

    fn describe_weekdays(&self) -> String {
        let plain = if self.weekdays == ALL_WEEKDAYS { 0 } else { self.weekdays };
        let mut parts = Vec::new();
        for (row, ordinal) in ORDINALS.iter().enumerate() {
            for weekday in bits64(self.nth >> (7 * row) & 0x7F) {
                parts.push(format!("the {ordinal} {} of the month", WEEKDAYS[weekday as usize]));
            }
        }
        if parts.is_empty() {
            return match plain {
                0 => String::new(),
                _ if self.weekdays.count_ones() == 1 => {
                    format!("on {}", WEEKDAYS[plain.trailing_zeros() as usize])
                }
                // The week begins on Monday here, so that the weekend is one run.
                0x41 => "Saturday and Sunday".to_owned(),
                _ => names(u64::from(plain), &WEEKDAYS),
            };
        }
        if plain != 0 {
            parts.insert(0, names(u64::from(plain), &WEEKDAYS));
        }
        format!("on {}", list(&parts))
    }
}

fn with_on(days: &str) -> String {
    if days.starts_with("on ") { days.to_owned() } else { format!("on {days}") }
}

fn without_on(days: &str) -> &str {
    days.strip_prefix("on ").unwrap_or(days)
}

impl Schedule {
    /// The schedule in plain words, with its zone where the zone matters.
    pub fn describe(&self) -> String {
        match self.rule() {
            Rule::Cron(calendar) if calendar.hours == ALL_HOURS && calendar.is_every_day() => {
                calendar.describe()
            }
            Rule::Cron(calendar) => format!("{} ({})", calendar.describe(), self.zone()),
            Rule::Every { period_ms, anchor_ms: 0 } => format!("every {}", duration(*period_ms)),
            Rule::Every { period_ms, anchor_ms } => {
                format!("every {}, {} after each multiple", duration(*period_ms), duration(*anchor_ms))
            }
            Rule::At(instant) => format!("once at {} ({})", reading(*instant, self.zone()), self.zone()),
        }
    }
}

/// What the wall clock shows, without the zone.
fn reading(instant: Millis, zone: &Zone) -> String {
    let instant = instant.clamp(0, INSTANT_END);
    let local = instant.div_euclid(1000) + i64::from(zone.offset_at(instant));
    let (year, month, day) = civil_from_days(local.div_euclid(DAY_SECS));
    let time = local.rem_euclid(DAY_SECS);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    let mut text = format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}");
    if instant % 1000 != 0 {
        // Writing to a string cannot fail.
        let _ = write!(text, ".{:03}", instant % 1000);
    }
    text
}

/// A duration as it would be written in a schedule.
fn duration(millis: i64) -> String {
    let mut text = String::new();
    let mut left = millis;
    for (unit, size) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)] {
        if left >= size {
            let _ = write!(text, "{}{unit}", left / size);
            left %= size;
        }
    }
    text
}

/// The step of a set `0, n, 2n, …` that fills a field of this size, from 2 on.
fn step(set: u64, size: u32) -> Option<u32> {
    if set & 1 == 0 || set & !1 == 0 {
        return None;
    }
    let step = (set & !1).trailing_zeros();
    let filled = (0..size).step_by(step as usize).fold(0, |filled, bit| filled | 1u64 << bit);
    (step > 1 && filled == set).then_some(step)
}

/// First and last of a set without holes.
fn span(set: u64) -> Option<(u32, u32)> {
    let (first, last) = (set.trailing_zeros(), set.ilog2());
    (set.count_ones() == last - first + 1 && first != last).then_some((first, last))
}

fn numbers(set: u64) -> String {
    list(&runs(&bits64(set).collect::<Vec<_>>(), |value| value.to_string()))
}

fn names(set: u64, names: &[&str]) -> String {
    list(&runs(&bits64(set).collect::<Vec<_>>(), |value| names[value as usize].to_owned()))
}

/// Joins runs of three and more: 1, 2, 3, 5 becomes "1 to 3" and "5".
fn runs(values: &[u32], show: impl Fn(u32) -> String) -> Vec<String> {
    let mut parts = Vec::new();
    for run in values.chunk_by(|a, b| a + 1 == *b) {
        match run {
            [first, .., last] if run.len() > 2 => parts.push(format!("{} to {}", show(*first), show(*last))),
            _ => parts.extend(run.iter().map(|&value| show(value))),
        }
    }
    parts
}

fn list(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [firsts @ .., last] => format!("{} and {last}", firsts.join(", ")),
    }
}

fn ordinal(number: u32) -> String {
    match number {
        2 => "second".to_owned(),
        3 => "third".to_owned(),
        _ => {
            let suffix = match (number % 10, number % 100) {
                (_, 11..=13) => "th",
                (1, _) => "st",
                (2, _) => "nd",
                (3, _) => "rd",
                _ => "th",
            };
            format!("{number}{suffix}")
        }
    }
}
