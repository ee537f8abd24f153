//! Text to calendar: fields, elements and their errors.

use crate::Dst;
use crate::calendar::{
    ALL_60, ALL_DAYS, ALL_HOURS, ALL_MONTHS, ALL_WEEKDAYS, Calendar, EITHER, FIXED_TIME, LITERAL,
};
use crate::civil::{YEAR_MAX, YEAR_MIN};
use crate::dialect::{Dialect, Question, Rules};
use crate::error::{Error, ErrorKind, Field};
use crate::field::{Parsed, Part};

/// Longest text that is looked at. The longest sensible expression lists a few dozen values.
pub const TEXT_BYTES_MAX: usize = 512;

const FIELDS: [Field; 7] = [
    Field::Second,
    Field::Minute,
    Field::Hour,
    Field::DayOfMonth,
    Field::Month,
    Field::DayOfWeek,
    Field::Year,
];

const NICKNAMES: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

impl Calendar {
    /// Reads an expression: 5 fields (minute first), 6 (second first) or 7 (year last), or `@daily` and its kind,
    /// as the dialect allows.
    pub fn parse(text: &str, dialect: Dialect) -> Result<Calendar, Error> {
        check_length(text)?;
        parse_part(text, trimmed(text, 0), dialect)
    }
}

pub(crate) fn check_length(text: &str) -> Result<(), Error> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("the text has {} bytes, allowed are {TEXT_BYTES_MAX}", text.len());
        return Err(Error::new(ErrorKind::TooLong, message));
    }
    Ok(())
}

/// The byte range from `from` to the end of the text without the white space around it.
pub(crate) fn trimmed(text: &str, from: usize) -> (usize, usize) {
    let rest = &text[from..];
    let start = from + rest.len() - rest.trim_ascii_start().len();
    (start, start.max(from + rest.trim_ascii_end().len()))
}

/// Reads the calendar standing at the given bytes of a text; errors are placed in the whole text.
pub(crate) fn parse_part(
    text: &str,
    (start, end): (usize, usize),
    dialect: Dialect,
) -> Result<Calendar, Error> {
    let rules = dialect.rules();
    let body = &text[start..end];
    if body.is_empty() {
        return Err(Error::new(ErrorKind::Empty, format!("empty, expected {}", expected(&rules)))
            .at(text, start, end));
    }
    if body.starts_with('@') {
        return nickname(text, (start, end), dialect);
    }
    let parts = words(text, start, end);
    if !rules.counts.contains(&parts.len()) {
        return Err(wrong_count(text, &parts, dialect, &rules));
    }
    let calendar = build(&parts, &rules)?;
    if !calendar.is_possible() {
        let message = format!("`{body}` names no date that exists in the years {YEAR_MIN}–{YEAR_MAX}");
        return Err(never(text, &parts, message));
    }
    Ok(calendar)
}

/// What is probably not meant in a calendar that reads well, placed in the whole text.
pub(crate) fn warnings_of_part(text: &str, (start, end): (usize, usize), dialect: Dialect) -> Vec<Error> {
    let rules = dialect.rules();
    let parts = words(text, start, end);
    let fields = if parts.len() == 5 { &FIELDS[1..6] } else { &FIELDS[..] };
    let parsed = parts.iter().zip(fields).filter_map(|(part, field)| part.parse(*field, &rules).ok());
    parsed.filter_map(|parsed| parsed.lone_step).collect()
}

/// The words between `start` and `end`, parted by white space.
fn words(text: &str, start: usize, end: usize) -> Vec<Part<'_>> {
    let mut parts = Vec::with_capacity(8);
    let mut at = start;
    for word in text[start..end].split(|c: char| c.is_ascii_whitespace()) {
        if !word.is_empty() {
            parts.push(Part { text, start: at, end: at + word.len() });
        }
        at += word.len() + 1;
    }
    parts
}

/// An impossible date is the fault of its day, month and year together; point at all of them.
fn never(text: &str, parts: &[Part<'_>], message: String) -> Error {
    let first = if parts.len() == 5 { 2 } else { 3 };
    let (from, to) = (parts[first].start, parts[parts.len() - 1].end);
    Error::new(ErrorKind::Never, message).in_field(Field::DayOfMonth).at(text, from, to)
}

fn nickname(text: &str, (start, end): (usize, usize), dialect: Dialect) -> Result<Calendar, Error> {
    let body = &text[start..end];
    let known = NICKNAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(body));
    let list = "@hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually";
    match known {
        Some(&(_, meaning)) if dialect.rules().nicknames => {
            Calendar::parse(meaning, dialect_of_nicknames(dialect))
        }
        Some(&(name, meaning)) => {
            Err(Error::new(ErrorKind::Unsupported, format!("the {} dialect has no `{name}`", dialect.name()))
                .with_help(match dialect.rules().counts {
                    [5] => format!("write `{meaning}`"),
                    _ => "write the fields out".to_owned(),
                })
                .at(text, start, end))
        }
        None if body.eq_ignore_ascii_case("@reboot") => Err(Error::new(
            ErrorKind::Unsupported,
            "`@reboot` names no instant, allowed are ".to_owned() + list,
        )
        .at(text, start, end)),
        None => {
            let shown: String = body.chars().take(32).collect();
            Err(Error::new(ErrorKind::Syntax, format!("unknown `{shown}`, allowed are {list}"))
                .at(text, start, end))
        }
    }
}

/// Nicknames are defined with five fields, whatever the dialect wants from others.
fn dialect_of_nicknames(dialect: Dialect) -> Dialect {
    if dialect == Dialect::Seconds { Dialect::Cadran } else { dialect }
}

fn expected(rules: &Rules) -> &'static str {
    match rules.counts {
        [5] => "5 fields (minute hour day-of-month month day-of-week)",
        [6, 7] => "6 fields (second minute hour day-of-month month day-of-week) or 7 (with year)",
        _ => {
            "5 fields (minute hour day-of-month month day-of-week), 6 (with second first) or 7 (with year last)"
        }
    }
}

fn wrong_count(text: &str, parts: &[Part<'_>], dialect: Dialect, rules: &Rules) -> Error {
    let most = rules.counts[rules.counts.len() - 1];
    let noun = if parts.len() == 1 { "field" } else { "fields" };
    let message =
        format!("{} {noun}, the {} dialect expects {}", parts.len(), dialect.name(), expected(rules));
    let (start, end) = match parts.get(most) {
        Some(extra) => (extra.start, parts[parts.len() - 1].end),
        None => (parts[parts.len() - 1].end, parts[parts.len() - 1].end),
    };
    let error = Error::new(ErrorKind::FieldCount, message).at(text, start, end);
    match (parts.len(), most) {
        (5, 7) => error.with_help("put a second field first, for example `0`"),
        (6 | 7, 5) => error.with_help("seconds and years need the dialect `cadran` or `seconds`"),
        _ => error,
    }
}

fn build(parts: &[Part<'_>], rules: &Rules) -> Result<Calendar, Error> {
    let fields = if parts.len() == 5 { &FIELDS[1..6] } else { &FIELDS[..parts.len()] };
    let mut calendar = Calendar {
        seconds: 1,
        minutes: ALL_60,
        nth: 0,
        years: None,
        hours: ALL_HOURS,
        days: ALL_DAYS,
        last: 0,
        nearest: 0,
        months: ALL_MONTHS,
        weekdays: ALL_WEEKDAYS,
        flags: FIXED_TIME,
        dst: Dst::Auto,
    };
    let (mut days_any, mut weekdays_any) = (true, true);
    let mut questions = [false; 2];
    for (part, &field) in parts.iter().zip(fields) {
        let Parsed { bits, years, marks, any, plain, question, .. } = part.parse(field, rules)?;
        if matches!(field, Field::Second | Field::Minute | Field::Hour) && !plain {
            calendar.flags &= !FIXED_TIME;
        }
        match field {
            Field::Second => calendar.seconds = bits,
            Field::Minute => calendar.minutes = bits,
            Field::Hour => calendar.hours = bits as u32,
            Field::Month => calendar.months = bits as u16,
            Field::Year => calendar.years = (!any).then(|| Box::new(years)),
            Field::DayOfMonth => {
                calendar.days = bits as u32;
                (calendar.last, calendar.nearest) = (marks.last, marks.nearest);
                (days_any, questions[0]) = (any, question);
            }
            Field::DayOfWeek => {
                calendar.weekdays = bits as u8;
                calendar.nth = marks.nth;
                (weekdays_any, questions[1]) = (any, question);
            }
        }
    }
    if rules.question == Question::OneDayField {
        one_question(parts, questions)?;
    }
    if !days_any && !weekdays_any {
        calendar.flags |= EITHER;
    }
    if rules.literal_clock {
        calendar.flags |= LITERAL;
    }
    Ok(calendar.settled())
}

/// Quartz asks for `?` in exactly one of the day fields.
fn one_question(parts: &[Part<'_>], questions: [bool; 2]) -> Result<(), Error> {
    let part = &parts[5];
    let error = |message: &str| {
        Error::new(ErrorKind::Syntax, message).in_field(Field::DayOfWeek).at(part.text, part.start, part.end)
    };
    match questions {
        [true, true] => Err(error("`?` in both day fields, allowed is exactly one")
            .with_help("write `*` for day-of-week's `?`")),
        [false, false] => Err(error(&format!(
            "`{}` beside a day-of-month, exactly one of the day fields must be `?`",
            part.shown()
        ))
        .with_help("write `?` in the day field that should not decide")),
        _ => Ok(()),
    }
}
