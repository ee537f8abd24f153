//! Days and months of the Gregorian calendar as plain integers.

/// Seconds in a day.
pub(crate) const DAY_SECS: i64 = 86_400;
/// First year a schedule may name.
pub(crate) const YEAR_MIN: i32 = 1970;
/// Last year a schedule may name.
pub(crate) const YEAR_MAX: i32 = 2199;
/// Local calendars are searched up to here: 2200-01-02, the last local day of any zone in range.
pub(crate) const DAY_LAST: i64 = 84_007;

/// One month of one year: all that the day fields need to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Month {
    pub(crate) year: i32,
    /// 1–12.
    pub(crate) month: u32,
    /// Days from the epoch to the first of the month.
    pub(crate) first: i64,
}

impl Month {
    pub(crate) fn new(year: i32, month: u32) -> Month {
        Month { year, month, first: days_from_civil(year, month) }
    }

    /// The month a day lies in, and which of its days it is (from 1).
    #[inline]
    pub(crate) fn of_day(day: i64) -> (Month, u32) {
        let (year, month, dom) = civil_from_days(day);
        (Month { year, month, first: day - i64::from(dom) + 1 }, dom)
    }

    /// The month after this one.
    pub(crate) fn following(&self) -> Month {
        let first = self.first + i64::from(self.len());
        match self.month {
            12 => Month { year: self.year + 1, month: 1, first },
            month => Month { year: self.year, month: month + 1, first },
        }
    }

    /// Number of days.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        if self.month == 2 {
            28 + u32::from(is_leap(self.year))
        } else {
            30 | (self.month ^ (self.month >> 3))
        }
    }

    /// Weekday of the first, Sunday being 0.
    #[inline]
    pub(crate) fn weekday(&self) -> u32 {
        // 1970-01-01 was a Thursday; 4 + 7000 keeps the day before the epoch positive.
        ((self.first + 7_004) as u32) % 7
    }
}

#[inline]
pub(crate) fn is_leap(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days from the epoch to the first of a month.
#[inline]
pub(crate) fn days_from_civil(year: i32, month: u32) -> i64 {
    // Years begin in March, so that the leap day comes last.
    let (year, month) = if month <= 2 { (year - 1, month + 12) } else { (year, month) };
    let century = year / 100;
    let year_days = 1_461 * year / 4 - century + century / 4;
    let month_days = (979 * month as i32 - 2_919) >> 5;
    i64::from(year_days + month_days - 719_468)
}

/// Year, month and day of a day since the epoch, after Neri and Schneider.
#[inline]
pub(crate) fn civil_from_days(day: i64) -> (i32, u32, u32) {
    let n = (day + 719_468) as u32;
    let n1 = 4 * n + 3;
    let century = n1 / 146_097;
    let n2 = 4 * (n1 % 146_097 / 4) + 3;
    let product = 2_939_745 * u64::from(n2);
    let year_of_century = (product >> 32) as u32;
    let day_of_year = (product as u32) / 2_939_745 / 4;
    let n3 = 2_141 * day_of_year + 197_913;
    let (month, dom) = (n3 >> 16, (n3 & 0xFFFF) / 2_141 + 1);
    let year = (100 * century + year_of_century) as i32;
    if day_of_year >= 306 { (year + 1, month - 12, dom) } else { (year, month, dom) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks every day of the range with the schoolbook rules.
    #[test]
    fn every_day_of_the_range() {
        let (mut year, mut month, mut dom) = (1969, 12, 31);
        let lens = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        for day in -1..=DAY_LAST {
            assert_eq!(civil_from_days(day), (year, month, dom), "day {day}");
            let (found, _) = Month::of_day(day);
            assert_eq!(found, Month::new(year, month));
            assert_eq!(found.weekday(), ((day - i64::from(dom) + 1 + 4).rem_euclid(7)) as u32);
            let len = lens[month as usize - 1] + u32::from(month == 2 && is_leap(year));
            assert_eq!(found.len(), len);
            dom += 1;
            if dom > len {
                (month, dom) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
        assert_eq!((year, month, dom), (2200, 1, 3));
    }
}
