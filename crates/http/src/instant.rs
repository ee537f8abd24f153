//! Instants as text, the same way in every answer and request.

use cadran_core::Millis;
use jiff::Timestamp;

pub use cadran_core::instant_text as to_text;

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
