//! Instants on the command line: RFC 3339, a civil time in a zone, `now`, or `+2h` from now.

use cadran_core::{Millis, Zone};
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};

/// Reads an instant. Civil times are taken in `zone`.
pub fn parse(text: &str, zone: &Zone, now: Millis) -> Result<Millis, String> {
    let text = text.trim();
    if text == "now" {
        return Ok(now);
    }
    if let Some(ahead) = text.strip_prefix('+') {
        let ahead = cadran_cron::parse_duration(ahead).map_err(|error| error.to_string())?;
        return Ok(now.saturating_add(ahead));
    }
    if let Some(back) = text.strip_prefix('-') {
        let back = cadran_cron::parse_duration(back).map_err(|error| error.to_string())?;
        return Ok(now.saturating_sub(back));
    }
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Ok(instant.as_millisecond());
    }
    let civil = text
        .parse::<DateTime>()
        .or_else(|_| text.parse::<Date>().map(|date| date.to_datetime(Default::default())));
    let civil = civil.map_err(|_| {
        format!("{text:?} is not an instant; write 2026-03-29T02:30:00Z, 2026-03-29 02:30, now, or +2h")
    })?;
    let zoned = jiff::tz::TimeZone::get(zone.name()).and_then(|zone| zone.to_timestamp(civil));
    zoned.map(|instant| instant.as_millisecond()).map_err(|error| error.to_string())
}

/// RFC 3339 in UTC with milliseconds.
pub fn utc(at: Millis) -> String {
    cadran_http::instant::to_text(at)
}

/// The civil time in a zone, with its offset.
pub fn local(at: Millis, zone: &Zone) -> String {
    let instant = Timestamp::from_millisecond(at).ok();
    let zone = jiff::tz::TimeZone::get(zone.name()).ok();
    match (instant, zone) {
        (Some(instant), Some(zone)) => {
            instant.to_zoned(zone).strftime("%a %Y-%m-%d %H:%M:%S%.f %:z").to_string()
        }
        _ => utc(at),
    }
}
