use crate::Millis;

/// One reading of both clocks, taken together at the edge.
///
/// Dues and records use `wall`. Waits (retry intervals, time limits) use `mono`, so that a stepped wall clock
/// neither kills a healthy run nor keeps a sick one alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since the epoch, UTC. May jump either way.
    pub wall: Millis,
    /// Milliseconds since some fixed moment of this process. Never goes back.
    pub mono: Millis,
}

impl Now {
    /// A reading where both clocks agree: handy in tests and simulations.
    pub const fn at(millis: Millis) -> Now {
        Now { wall: millis, mono: millis }
    }
}

/// An instant for people: RFC 3339, UTC, with milliseconds.
///
/// ```
/// use cadran_core::instant_text;
///
/// assert_eq!(instant_text(0), "1970-01-01T00:00:00.000Z");
/// assert_eq!(instant_text(1_709_210_096_007), "2024-02-29T12:34:56.007Z");
/// assert_eq!(instant_text(-1), "1969-12-31T23:59:59.999Z");
/// ```
pub fn instant_text(at: Millis) -> String {
    let (days, millis) = (at.div_euclid(86_400_000), at.rem_euclid(86_400_000));
    // Years begin in March here, so that a leap day is the last of its year.
    let since = days + 719_468;
    let (era, day) = (since.div_euclid(146_097), since.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) =
        (year + 400 * era + i64::from(month >= 10), if month < 10 { month + 3 } else { month - 9 });
    let (secs, part) = (millis / 1_000, millis % 1_000);
    let (hour, minute, second) = (secs / 3_600, secs / 60 % 60, secs % 60);
    format!("{year:04}-{month:02}-{of_month:02}T{hour:02}:{minute:02}:{second:02}.{part:03}Z")
}
