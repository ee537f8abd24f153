//! Instants as text, the same way in every answer and request.

use cadran_core::Millis;
use jiff::Timestamp;

/// 0001-01-01 and 9999-12-30: RFC 3339 has four digits for a year.
const SHOWN_MIN: Millis = -62_135_596_800_000;
const SHOWN_MAX: Millis = 253_402_128_000_000;

/// An instant as answers show it: RFC 3339, UTC, with milliseconds. An instant outside the years that RFC 3339 can
/// write is shown as the nearest one it can.
pub fn to_text(at: Millis) -> String {
    match Timestamp::from_millisecond(at.clamp(SHOWN_MIN, SHOWN_MAX)) {
        Ok(at) => format!("{at:.3}"),
        Err(_) => String::new(),
    }
}

/// An instant as requests give it: RFC 3339 with an offset, or milliseconds since the epoch.
pub fn from_text(text: &str) -> Option<Millis> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok();
    }
    // In a query string an unescaped `+` arrives as a space: `…T10:00:00+02:00` is meant all the same.
    let text = text.replace(' ', "+");
    text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_written_with_milliseconds() {
        let check = |at: Millis, text: &str| assert_eq!(to_text(at), text, "{at}");
        check(0, "1970-01-01T00:00:00.000Z");
        check(1, "1970-01-01T00:00:00.001Z");
        check(-1, "1969-12-31T23:59:59.999Z");
        check(1_794_780_490_120, "2026-11-15T22:08:10.120Z");
        check(Millis::MAX, "9999-12-30T00:00:00.000Z");
        check(Millis::MIN, "0001-01-01T00:00:00.000Z");
    }

    #[test]
    fn instants_are_read_in_both_forms() {
        let check = |text: &str, at: Option<Millis>| assert_eq!(from_text(text), at, "{text:?}");
        check("0", Some(0));
        check("-5", Some(-5));
        check("1794780490120", Some(1_794_780_490_120));
        check("2026-11-15T22:08:10.120Z", Some(1_794_780_490_120));
        check("2026-11-15T23:08:10.120+01:00", Some(1_794_780_490_120));
        check("2026-11-15T23:08:10.120 01:00", Some(1_794_780_490_120));
        check("", None);
        check("-", None);
        check("tomorrow", None);
        check("2026-11-15", None);
        check("2026-02-30T00:00:00Z", None);
        check("99999999999999999999", None);
    }
}
