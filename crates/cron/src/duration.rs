//! Durations such as `1h30m`.

use crate::INSTANT_END;
use crate::error::{Error, ErrorKind};
use crate::parse::{check_length, trimmed};

const UNITS: [(&str, i64); 6] =
    [("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads a duration in milliseconds: whole numbers with the units `w`, `d`, `h`, `m`, `s`, `ms`, largest first.
///
/// A plain number is refused, because nobody can know its unit. Durations beyond 230 years are refused too.
///
/// ```
/// assert_eq!(cadran_cron::parse_duration("1h30m").unwrap(), 5_400_000);
/// assert_eq!(cadran_cron::parse_duration("2d 12h").unwrap(), 216_000_000);
/// assert!(cadran_cron::parse_duration("90").is_err());
/// ```
pub fn parse_duration(text: &str) -> Result<i64, Error> {
    check_length(text)?;
    parse_duration_part(text, trimmed(text, 0))
}

/// Reads the duration standing at the given bytes of a text.
pub(crate) fn parse_duration_part(text: &str, (start, end): (usize, usize)) -> Result<i64, Error> {
    let error =
        |from: usize, to: usize, message: String| Error::new(ErrorKind::Duration, message).at(text, from, to);
    let shown = |from: usize, to: usize| text[from..to].chars().take(32).collect::<String>();
    const ALLOWED: &str = "allowed are whole numbers with w, d, h, m, s or ms, largest unit first";
    if start == end {
        return Err(error(start, end, format!("the duration is missing, {ALLOWED}")));
    }
    let bytes = text.as_bytes();
    let (mut at, mut total, mut units_left) = (start, 0i64, &UNITS[..]);
    while at < end {
        let digits_end = run(bytes, at, end, |b| b.is_ascii_digit());
        let unit_end = run(bytes, digits_end, end, |b| b.is_ascii_alphabetic());
        if digits_end == at {
            let bad = text[at..end].chars().next().map_or(at, |c| at + c.len_utf8()).max(unit_end);
            return Err(error(at, bad, format!("`{}` is no duration, {ALLOWED}", shown(at, bad)))
                .with_help("write for example `90s` or `1h30m`"));
        }
        let unit = &text[digits_end..unit_end];
        if unit.is_empty() {
            let message = format!("`{}` has no unit, {ALLOWED}", shown(at, digits_end));
            let help = format!("write `{}s` for seconds", shown(at, digits_end));
            return Err(error(at, digits_end, message).with_help(help));
        }
        let Some(position) = units_left.iter().position(|(name, _)| *name == unit) else {
            let again = UNITS.iter().any(|(name, _)| *name == unit);
            let what = if again { "is out of order" } else { "is no unit" };
            return Err(error(
                digits_end,
                unit_end,
                format!("`{}` {what}, {ALLOWED}", shown(digits_end, unit_end)),
            ));
        };
        let (_, millis) = units_left[position];
        units_left = &units_left[position + 1..];
        let sum = text[at..digits_end].parse::<i64>().ok().and_then(|n| n.checked_mul(millis));
        total = match sum.and_then(|part| part.checked_add(total)) {
            Some(total) if total <= INSTANT_END => total,
            _ => {
                return Err(error(
                    at,
                    unit_end,
                    format!("`{}` is too long, allowed are 230 years", shown(at, unit_end)),
                ));
            }
        };
        at = run(bytes, unit_end, end, |b| b == b' ');
    }
    Ok(total)
}

fn run(bytes: &[u8], from: usize, end: usize, belongs: impl Fn(u8) -> bool) -> usize {
    from + bytes[from..end].iter().take_while(|&&b| belongs(b)).count()
}
