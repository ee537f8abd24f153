//! The same questions in jiff's types, for callers that have those.

use jiff::{Timestamp, Zoned, tz::TimeZone};

use crate::{Millis, Schedule, Zone};

impl Schedule {
    /// The first due strictly after a moment, in the schedule's zone.
    ///
    /// ```
    /// use cadran_cron::{Dialect, Schedule, Zone};
    /// use jiff::Zoned;
    ///
    /// let schedule = Schedule::parse("0 9 * * MON-FRI", &Zone::get("Europe/Paris")?, Dialect::Cadran)?;
    /// let sunday: Zoned = "2026-11-15T12:00[Europe/Paris]".parse()?;
    /// let due = schedule.next_after(&sunday).expect("Monday");
    /// assert_eq!(due.to_string(), "2026-11-16T09:00:00+01:00[Europe/Paris]");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_after(&self, moment: &Zoned) -> Option<Zoned> {
        let due = self.next(moment.timestamp().as_nanosecond().div_euclid(1_000_000) as Millis)?;
        self.zoned(due)
    }

    /// The last due strictly before a moment, in the schedule's zone.
    pub fn previous_before(&self, moment: &Zoned) -> Option<Zoned> {
        // A fraction of a millisecond after a due is after it.
        let before = -(-moment.timestamp().as_nanosecond()).div_euclid(1_000_000);
        self.zoned(self.previous(before as Millis)?)
    }

    /// Every due from one moment (included) to another (not included), in the schedule's zone.
    ///
    /// ```
    /// use cadran_cron::{Dialect, Schedule, Zone};
    /// use jiff::Zoned;
    ///
    /// // On 2026-03-29 there is no 02:30 in Paris: it is due once, when the gap ends.
    /// let schedule = Schedule::parse("30 2 * * *", &Zone::get("Europe/Paris")?, Dialect::Cadran)?;
    /// let (from, to): (Zoned, Zoned) =
    ///     ("2026-03-28T00:00[Europe/Paris]".parse()?, "2026-03-30T00:00[Europe/Paris]".parse()?);
    /// let dues: Vec<String> = schedule.between_moments(&from, &to).map(|due| due.time().to_string()).collect();
    /// assert_eq!(dues, ["02:30:00", "03:00:00"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn between_moments(&self, from: &Zoned, to: &Zoned) -> impl Iterator<Item = Zoned> {
        let ceil = |moment: &Zoned| -(-moment.timestamp().as_nanosecond()).div_euclid(1_000_000);
        let zone = TimeZone::from(self.zone());
        self.between(ceil(from) as Millis, ceil(to) as Millis)
            .filter_map(move |due| Some(Timestamp::from_millisecond(due).ok()?.to_zoned(zone.clone())))
    }

    fn zoned(&self, due: Millis) -> Option<Zoned> {
        Some(Timestamp::from_millisecond(due).ok()?.to_zoned(TimeZone::from(self.zone())))
    }
}

/// The table of a jiff zone, under its name in the IANA database, or else its offset.
impl From<&TimeZone> for Zone {
    fn from(zone: &TimeZone) -> Zone {
        match zone.iana_name() {
            Some(name) => Zone::from_jiff(name, zone),
            None => Zone::from_jiff(&zone.to_offset(Timestamp::UNIX_EPOCH).to_string(), zone),
        }
    }
}

/// The zone of the same name in jiff's database; UTC for a zone that was made from something else.
impl From<&Zone> for TimeZone {
    fn from(zone: &Zone) -> TimeZone {
        TimeZone::get(zone.name()).unwrap_or(TimeZone::UTC)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dialect;

    #[test]
    fn moments_are_rounded_away_from_the_due_they_lie_beside() {
        let schedule = Schedule::parse("every 1s", &Zone::utc(), Dialect::Cadran).expect("a schedule");
        let check = |nanos: i128, next_ms: i64, previous_ms: i64| {
            let moment = Timestamp::from_nanosecond(nanos).expect("a moment").to_zoned(TimeZone::UTC);
            let ms = |due: Option<Zoned>| due.expect("a due").timestamp().as_millisecond();
            assert_eq!(
                (ms(schedule.next_after(&moment)), ms(schedule.previous_before(&moment))),
                (next_ms, previous_ms),
                "{nanos}"
            );
        };
        check(5_000_000_000, 6_000, 4_000);
        check(5_000_000_001, 6_000, 5_000);
        check(4_999_999_999, 5_000, 4_000);
    }

    #[test]
    fn zones_go_there_and_back() {
        for name in ["UTC", "Europe/Paris", "Asia/Kathmandu"] {
            let zone = Zone::get(name).expect("a zone");
            assert_eq!(Zone::from(&TimeZone::from(&zone)), zone, "{name}");
        }
    }
}
