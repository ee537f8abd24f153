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

/// The years that RFC 3339 can write: 0001-01-01 to 9999-12-30.
const TEXT_MIN: Millis = -62_135_596_800_000;
const TEXT_MAX: Millis = 253_402_128_000_000;

/// An instant as text: RFC 3339, UTC, with milliseconds. An instant outside the years that RFC 3339 can write is shown as
/// the nearest one it can.
///
/// ```
/// use cadran_core::instant_text;
///
/// assert_eq!(instant_text(0), "1970-01-01T00:00:00.000Z");
/// assert_eq!(instant_text(1_709_210_096_007), "2024-02-29T12:34:56.007Z");
/// assert_eq!(instant_text(-1), "1969-12-31T23:59:59.999Z");
/// assert_eq!(instant_text(i64::MAX), "9999-12-30T00:00:00.000Z");
/// assert_eq!(instant_text(i64::MIN), "0001-01-01T00:00:00.000Z");
/// ```
pub fn instant_text(at: Millis) -> String {
    match jiff::Timestamp::from_millisecond(at.clamp(TEXT_MIN, TEXT_MAX)) {
        Ok(at) => format!("{at:.3}"),
        Err(_) => String::new(),
    }
}
