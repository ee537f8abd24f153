//! Text to schedule: prefixes, nicknames, `every` and `at`.

use jiff::{Timestamp, civil::DateTime};

use crate::calendar::Calendar;
use crate::dialect::Dialect;
use crate::duration::parse_duration_part;
use crate::error::{Error, ErrorKind};
use crate::parse::{check_length, parse_part, trimmed, warnings_of_part};
use crate::schedule::{Dst, PERIOD_MS_MIN, Rule, Schedule};
use crate::zone::Zone;
use crate::{INSTANT_END, Millis};

impl Schedule {
    /// Reads a schedule:
    ///
    /// - a cron expression of the dialect, with an optional `CRON_TZ=Zone` or `TZ=Zone` before it;
    /// - `@hourly`, `@daily` or `@midnight`, `@weekly`, `@monthly`, `@yearly` or `@annually`;
    /// - `every 250ms`, `every 1h30m`, `@every 5m`, with an optional `from` and a timestamp that sets the phase (there are
    ///   dues before it, too);
    /// - `at 2026-11-15T10:00:00Z`, or the timestamp alone; without an offset it is read in the zone.
    ///
    /// A schedule that never has a due in its zone is refused.
    pub fn parse(text: &str, zone: &Zone, dialect: Dialect) -> Result<Schedule, Error> {
        check_length(text)?;
        let (start, end) = trimmed(text, 0);
        let (zone, start) = zone_prefix(text, start, end, zone)?;
        let body = &text[start..end];
        let rules = dialect.rules();
        let rule = if let Some(rest) = after_word(body, "every").or_else(|| after_word(body, "@every")) {
            check_extension(text, start, end, rules.extensions, dialect)?;
            parse_every(text, end - rest.len(), end, &zone)?
        } else if let Some(rest) = after_word(body, "at") {
            check_extension(text, start, end, rules.extensions, dialect)?;
            Rule::At(parse_instant(text, trimmed(&text[..end], end - rest.len()), &zone)?)
        } else if rules.extensions && looks_like_date(body) {
            Rule::At(parse_instant(text, (start, end), &zone)?)
        } else {
            Rule::Cron(parse_part(text, (start, end), dialect)?)
        };
        let schedule = Schedule::new(rule, zone, Dst::Auto);
        if schedule.next(-1).is_none() {
            let message = format!("`{body}` names no instant in the years 1970–2199 in {}", schedule.zone());
            return Err(Error::new(ErrorKind::Never, message).at(text, start, end));
        }
        Ok(schedule)
    }

    /// What is probably not meant in a text that [`Schedule::parse`] takes: a step that is larger than its range, as in
    /// `41-59/24`, which names one value.
    pub fn warnings(text: &str, dialect: Dialect) -> Vec<Error> {
        let (start, end) = trimmed(text, 0);
        let body = &text[start..end];
        // Behind the zone, if there is one.
        let has_zone = body.starts_with("CRON_TZ=") || body.starts_with("TZ=");
        let zone_len = body.find(|c: char| c.is_ascii_whitespace()).filter(|_| has_zone).unwrap_or(0);
        match Schedule::parse(text, &Zone::utc(), dialect).map(|schedule| schedule.rule) {
            Ok(Rule::Cron(_)) => warnings_of_part(text, (start + zone_len, end), dialect),
            _ => Vec::new(),
        }
    }
}

impl From<Calendar> for Rule {
    fn from(calendar: Calendar) -> Rule {
        Rule::Cron(calendar)
    }
}

/// Takes `CRON_TZ=` or `TZ=` off the beginning.
fn zone_prefix(text: &str, start: usize, end: usize, zone: &Zone) -> Result<(Zone, usize), Error> {
    let body = &text[start..end];
    let Some(name) = body.strip_prefix("CRON_TZ=").or_else(|| body.strip_prefix("TZ=")) else {
        return Ok((zone.clone(), start));
    };
    let name = name.split_ascii_whitespace().next().filter(|word| name.starts_with(word)).unwrap_or("");
    let name_start = start + body.find('=').map_or(0, |at| at + 1);
    let name_end = name_start + name.len();
    if name.is_empty() {
        let message =
            "the time zone is missing, allowed are names of the IANA database such as `Europe/Paris`";
        return Err(Error::new(ErrorKind::Zone, message).at(text, name_start, name_end));
    }
    let zone = Zone::get(name).map_err(|wrong| {
        let error = Error::new(ErrorKind::Zone, wrong.to_string()).at(text, name_start, name_end);
        match wrong.suggestion() {
            Some(suggestion) => error.with_help(format!("write `{suggestion}`")),
            None => error,
        }
    })?;
    Ok((zone, trimmed(&text[..end], name_end).0))
}

/// What follows a leading word, in any case, and the white space after it.
fn after_word<'t>(body: &'t str, word: &str) -> Option<&'t str> {
    let head = body.get(..word.len()).filter(|head| head.eq_ignore_ascii_case(word))?;
    let rest = &body[head.len()..];
    (rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_whitespace())).then_some(rest)
}

fn check_extension(
    text: &str,
    start: usize,
    end: usize,
    allowed: bool,
    dialect: Dialect,
) -> Result<(), Error> {
    if allowed {
        return Ok(());
    }
    let message = format!("the {} dialect has neither `every` nor `at`", dialect.name());
    Err(Error::new(ErrorKind::Unsupported, message)
        .with_help("use the dialect `cadran`")
        .at(text, start, end))
}

fn parse_every(text: &str, start: usize, end: usize, zone: &Zone) -> Result<Rule, Error> {
    let (start, end) = trimmed(&text[..end], start);
    let lower = text[start..end].to_ascii_lowercase();
    let (period_end, anchor_ms) = match lower.find(" from") {
        Some(at) if after_word(&lower[at + 1..], "from").is_some() => {
            (start + at, parse_instant(text, trimmed(&text[..end], start + at + 5), zone)?)
        }
        _ => (end, 0),
    };
    let span = trimmed(&text[..period_end], start);
    let period_ms = parse_duration_part(text, span)?;
    if period_ms < PERIOD_MS_MIN {
        let message = format!(
            "`{}` is too short a period, allowed are {PERIOD_MS_MIN}ms and longer",
            &text[span.0..span.1]
        );
        return Err(Error::new(ErrorKind::Duration, message).at(text, span.0, span.1));
    }
    Ok(Rule::Every { period_ms, anchor_ms })
}

fn looks_like_date(body: &str) -> bool {
    let bytes = body.as_bytes();
    bytes.len() >= 5 && bytes[..4].iter().all(u8::is_ascii_digit) && bytes[4] == b'-'
}

/// Reads a timestamp with an offset, or one on the zone's wall clock.
fn parse_instant(text: &str, (start, end): (usize, usize), zone: &Zone) -> Result<Millis, Error> {
    let body = &text[start..end];
    let error = |message: String| {
        Error::new(ErrorKind::Timestamp, message)
            .with_help("write for example `2026-11-15T10:00:00Z` or `2026-11-15T10:00`")
            .at(text, start, end)
    };
    if body.is_empty() {
        return Err(error("the timestamp is missing".to_owned()));
    }
    let shown: String = body.chars().take(40).collect();
    if body.contains('[') {
        // Understood by the reader of timestamps, but as a remark without effect.
        return Err(error(format!("`{shown}` names a zone, allowed are an offset or none")));
    }
    let outside = || error(format!("`{shown}` is out of range, allowed are the years 1970–2199"));
    let instant = if let Ok(instant) = body.parse::<Timestamp>() {
        instant.as_millisecond()
    } else if let Ok(reading) = body.parse::<DateTime>() {
        let local = reading.to_zoned(jiff::tz::TimeZone::UTC).map_err(|_| outside())?.timestamp();
        let secs = zone.instant_of(local.as_second()).ok_or_else(outside)?;
        // Inside a gap the parts of a second have no meaning: the answer is the gap's end.
        let exact = i64::from(zone.offset_at(secs * 1000)) + secs == local.as_second();
        secs * 1000 + if exact { i64::from(local.subsec_millisecond()) } else { 0 }
    } else {
        return Err(error(format!("`{shown}` is no timestamp, allowed are RFC 3339 dates and times")));
    };
    if (0..INSTANT_END).contains(&instant) { Ok(instant) } else { Err(outside()) }
}
