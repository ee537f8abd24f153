//! A compiled expression: sets of seconds, minutes, hours and days, without a zone.
//!
//! Everything here counts *local seconds*: seconds since 1970-01-01T00:00 on the wall clock of a zone this
//! module has never heard of.

use crate::Dst;
use crate::civil::{DAY_LAST, DAY_SECS, Month, YEAR_MAX, YEAR_MIN};

/// A compiled cron expression, without a zone: sets of seconds, minutes, hours and days as bits.
///
/// Expressions that mean the same compare equal, whatever their spelling, so jobs can share one calendar.
///
/// ```
/// use cadran_cron::{Calendar, Dialect};
///
/// let one = Calendar::parse("*/15 9-17 * * MON-FRI", Dialect::Cadran).unwrap();
/// let two = Calendar::parse("0,15,30,45 9,10-17 ? * 1-5", Dialect::Cadran).unwrap();
/// assert_eq!(one, two);
/// assert_eq!(one.describe(), "every 15 minutes from 09:00 to 17:45, Monday to Friday");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Calendar {
    pub(crate) seconds: u64,
    pub(crate) minutes: u64,
    /// Rows of seven weekdays: row `k - 1` holds the `k`-th of the month, row 5 the last.
    pub(crate) nth: u64,
    /// Absent means any year. Boxed because it is rare and large.
    pub(crate) years: Option<Box<Years>>,
    pub(crate) hours: u32,
    /// Days 1–31.
    pub(crate) days: u32,
    /// Bit `k`: the `k`-th day before the last.
    pub(crate) last: u32,
    /// Bit `k`: the weekday nearest to the `k`-th; bit 0: the last weekday of the month.
    pub(crate) nearest: u32,
    /// Months 1–12.
    pub(crate) months: u16,
    /// Sunday is bit 0.
    pub(crate) weekdays: u8,
    pub(crate) flags: u8,
    /// How readings in gaps and folds are treated, as asked for by the schedule it belongs to.
    pub(crate) dst: Dst,
}

/// Both day fields are restricted, and one of them is enough.
pub(crate) const EITHER: u8 = 1;
/// No `*`, step or range in second, minute and hour.
pub(crate) const FIXED_TIME: u8 = 2;
/// Gaps and folds are read literally (the Dagu dialect).
pub(crate) const LITERAL: u8 = 4;
/// Every day of every year matches: the day fields need not be looked at.
pub(crate) const EVERY_DAY: u8 = 8;

pub(crate) const ALL_60: u64 = (1 << 60) - 1;
pub(crate) const ALL_HOURS: u32 = (1 << 24) - 1;
pub(crate) const ALL_DAYS: u32 = !1;
pub(crate) const ALL_MONTHS: u16 = 0x1FFE;
pub(crate) const ALL_WEEKDAYS: u8 = 0x7F;

/// A set of the years 1970–2199.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Years([u64; 4]);

impl Years {
    pub(crate) const NONE: Years = Years([0; 4]);

    /// Adds a year of the range.
    pub(crate) fn insert(&mut self, year: u32) {
        let bit = year as usize - YEAR_MIN as usize;
        self.0[bit / 64] |= 1 << (bit % 64);
    }

    pub(crate) fn contains(&self, year: i32) -> bool {
        (YEAR_MIN..=YEAR_MAX).contains(&year) && {
            let bit = (year - YEAR_MIN) as usize;
            self.0[bit / 64] >> (bit % 64) & 1 == 1
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        (YEAR_MIN..=YEAR_MAX).all(|year| self.contains(year))
    }
}

impl Calendar {
    /// Whether second, minute and hour are plain values: such schedules name times of day, the others intervals.
    /// The difference decides what happens when the clocks change.
    pub fn is_fixed_time(&self) -> bool {
        self.flags & FIXED_TIME != 0
    }

    #[inline]
    pub(crate) fn is_every_day(&self) -> bool {
        self.flags & EVERY_DAY != 0
    }

    /// Completes a calendar whose sets are filled: derives the flags that depend on them.
    pub(crate) fn settled(mut self) -> Calendar {
        if self.years.as_ref().is_some_and(|years| years.is_full()) {
            self.years = None;
        }
        let any_day = if self.flags & EITHER != 0 {
            self.days == ALL_DAYS || self.weekdays == ALL_WEEKDAYS
        } else {
            self.days == ALL_DAYS && self.weekdays == ALL_WEEKDAYS
        };
        if any_day {
            // One spelling for "any day", so that equal calendars compare equal.
            (self.days, self.weekdays, self.last, self.nearest, self.nth) = (ALL_DAYS, ALL_WEEKDAYS, 0, 0, 0);
            self.flags &= !EITHER;
            if self.months == ALL_MONTHS && self.years.is_none() {
                self.flags |= EVERY_DAY;
            }
        }
        self
    }

    /// Whether any day at all matches, decided exactly.
    ///
    /// The calendar repeats after 400 years, in which there are only 14 kinds of year: leap or not, and the weekday
    /// of January 1st. The 28 years from 1970 hold all of them; a calendar with a year field is tried on its own years.
    pub(crate) fn is_possible(&self) -> bool {
        let last = if self.years.is_some() { YEAR_MAX } else { YEAR_MIN + 27 };
        (YEAR_MIN..=last).any(|year| {
            self.has_year(year)
                && (1..=12)
                    .any(|month| self.months >> month & 1 == 1 && self.days_of(&Month::new(year, month)) != 0)
        })
    }

    #[inline]
    fn has_year(&self, year: i32) -> bool {
        self.years.as_ref().is_none_or(|years| years.contains(year))
    }

    /// The matching days of a month that itself matches, as bits 1–31.
    #[inline]
    pub(crate) fn days_of(&self, month: &Month) -> u32 {
        let len = month.len();
        let weekday = month.weekday();
        let mut days = self.days;
        let mut weekdays = repeat_week(u64::from(self.weekdays), weekday);
        if self.last | self.nearest != 0 {
            days |= self.counted_days(len, weekday);
        }
        if self.nth != 0 {
            weekdays |= self.nth_days(len, weekday);
        }
        let either = if self.flags & EITHER != 0 { days | weekdays } else { days & weekdays };
        either & (ALL_DAYS >> (31 - len))
    }

    /// The matching days of any month: none where month or year do not match.
    #[inline]
    pub(crate) fn days_in(&self, month: &Month) -> u32 {
        if self.months >> month.month & 1 == 1 && self.has_year(month.year) { self.days_of(month) } else { 0 }
    }

    /// `L`, `L-k`, `kW` and `LW`.
    fn counted_days(&self, len: u32, first_weekday: u32) -> u32 {
        let mut days = 0;
        for back in bits32(self.last) {
            if back < len {
                days |= 1 << (len - back);
            }
        }
        for day in bits32(self.nearest) {
            let target = if day == 0 { len } else { day };
            if target > len {
                continue; // 31W only where there is a 31st.
            }
            let found = match (first_weekday + target - 1) % 7 {
                // A Saturday goes back to Friday, unless that leaves the month; LW never goes forward.
                6 if target > 1 => target - 1,
                6 => target + 2,
                0 if target < len => target + 1,
                0 => target - 2,
                _ => target,
            };
            days |= 1 << found;
        }
        days
    }

    /// `n#k` and `nL`.
    fn nth_days(&self, len: u32, first_weekday: u32) -> u32 {
        let mut days = 0;
        for row in 0..5 {
            let week = self.nth >> (7 * row) & 0x7F;
            days |= repeat_week(week, first_weekday) & (0xFE << (7 * row));
        }
        let last = self.nth >> 35 & 0x7F;
        days | repeat_week(last, first_weekday) & (0x7F << (len - 6))
    }

    /// The first matching month after the given one.
    fn month_after(&self, month: &Month) -> Option<Month> {
        let later = u32::from(self.months) & (!1u32 << month.month);
        if later != 0 && self.has_year(month.year) {
            return Some(Month::new(month.year, later.trailing_zeros()));
        }
        let year = (month.year + 1..=YEAR_MAX + 1).find(|&year| self.has_year(year))?;
        Some(Month::new(year, self.months.trailing_zeros()))
    }

    /// The last matching month before the given one.
    fn month_before(&self, month: &Month) -> Option<Month> {
        let earlier = u32::from(self.months) & ((1u32 << month.month) - 1);
        if earlier != 0 && self.has_year(month.year) {
            return Some(Month::new(month.year, earlier.ilog2()));
        }
        let year = (YEAR_MIN - 1..month.year).rev().find(|&year| self.has_year(year))?;
        Some(Month::new(year, self.months.ilog2()))
    }

    /// The first matching second of the day at or after `from`.
    #[inline]
    fn time_from(&self, from: u32) -> Option<u32> {
        let (hour, minute, second) = split(from);
        if self.hours >> hour & 1 == 1 {
            if self.minutes >> minute & 1 == 1 {
                let seconds = self.seconds & (!0 << second);
                if seconds != 0 {
                    return Some(hour * 3600 + minute * 60 + seconds.trailing_zeros());
                }
            }
            let minutes = self.minutes & (!1 << minute);
            if minutes != 0 {
                return Some(hour * 3600 + minutes.trailing_zeros() * 60 + self.seconds.trailing_zeros());
            }
        }
        let hours = self.hours & (!1 << hour);
        (hours != 0).then(|| {
            hours.trailing_zeros() * 3600 + self.minutes.trailing_zeros() * 60 + self.seconds.trailing_zeros()
        })
    }

    /// The last matching second of the day at or before `until`.
    #[inline]
    fn time_until(&self, until: u32) -> Option<u32> {
        let (hour, minute, second) = split(until);
        if self.hours >> hour & 1 == 1 {
            if self.minutes >> minute & 1 == 1 {
                let seconds = self.seconds & !(!1 << second);
                if seconds != 0 {
                    return Some(hour * 3600 + minute * 60 + seconds.ilog2());
                }
            }
            let minutes = self.minutes & !(!0 << minute);
            if minutes != 0 {
                return Some(hour * 3600 + minutes.ilog2() * 60 + self.seconds.ilog2());
            }
        }
        let hours = self.hours & !(!0 << hour);
        (hours != 0).then(|| hours.ilog2() * 3600 + self.minutes.ilog2() * 60 + self.seconds.ilog2())
    }

    fn time_first(&self) -> i64 {
        i64::from(
            self.hours.trailing_zeros() * 3600
                + self.minutes.trailing_zeros() * 60
                + self.seconds.trailing_zeros(),
        )
    }

    fn time_last(&self) -> i64 {
        i64::from(self.hours.ilog2() * 3600 + self.minutes.ilog2() * 60 + self.seconds.ilog2())
    }

    /// The first matching local second at or after `from`.
    #[inline]
    pub(crate) fn next_local(&self, from: i64) -> Option<i64> {
        let day = from.div_euclid(DAY_SECS);
        let time = (from - day * DAY_SECS) as u32;
        if self.is_every_day() {
            return Some(match self.time_from(time) {
                Some(time) => day * DAY_SECS + i64::from(time),
                None => (day + 1) * DAY_SECS + self.time_first(),
            });
        }
        if day > DAY_LAST {
            return None;
        }
        let (mut month, dom) = Month::of_day(day);
        let mut days = self.days_in(&month);
        if days >> dom & 1 == 1
            && let Some(time) = self.time_from(time)
        {
            return Some(day * DAY_SECS + i64::from(time));
        }
        days &= !1 << dom;
        while days == 0 {
            month = self.month_after(&month)?;
            days = self.days_of(&month);
        }
        Some((month.first + i64::from(days.trailing_zeros()) - 1) * DAY_SECS + self.time_first())
    }

    /// The last matching local second at or before `until`.
    #[inline]
    pub(crate) fn previous_local(&self, until: i64) -> Option<i64> {
        let day = until.div_euclid(DAY_SECS);
        let time = (until - day * DAY_SECS) as u32;
        if self.is_every_day() {
            return Some(match self.time_until(time) {
                Some(time) => day * DAY_SECS + i64::from(time),
                None => (day - 1) * DAY_SECS + self.time_last(),
            });
        }
        let (mut month, dom) = Month::of_day(day);
        let mut days = self.days_in(&month);
        if days >> dom & 1 == 1
            && let Some(time) = self.time_until(time)
        {
            return Some(day * DAY_SECS + i64::from(time));
        }
        days &= !(!0 << dom);
        while days == 0 {
            month = self.month_before(&month)?;
            days = self.days_of(&month);
        }
        Some((month.first + i64::from(days.ilog2()) - 1) * DAY_SECS + self.time_last())
    }

    /// How many local seconds in `[start, end)` match.
    pub(crate) fn count_local(&self, start: i64, end: i64) -> u64 {
        if start >= end {
            return 0;
        }
        let (first, last) = (start.div_euclid(DAY_SECS), end.div_euclid(DAY_SECS));
        let before_start = self.times_before((start - first * DAY_SECS) as u32);
        let before_end = self.times_before((end - last * DAY_SECS) as u32);
        let (has_first, has_last) = (self.has_day(first), self.has_day(last));
        // All whole days from the first on, plus the part of the last, less the part before the start.
        self.count_days(first, last) * self.times_per_day() + u64::from(has_last) * before_end
            - u64::from(has_first) * before_start
    }

    fn has_day(&self, day: i64) -> bool {
        self.is_every_day() || {
            let (month, dom) = Month::of_day(day);
            self.days_in(&month) >> dom & 1 == 1
        }
    }

    /// Matching days in `[first, last)`.
    fn count_days(&self, first: i64, last: i64) -> u64 {
        if self.is_every_day() {
            return (last - first) as u64;
        }
        let (mut month, dom) = Month::of_day(first);
        let mut days = self.days_in(&month) & (!0 << dom);
        let mut count = 0;
        while month.first + i64::from(month.len()) <= last {
            count += u64::from(days.count_ones());
            month = month.following();
            days = self.days_in(&month);
        }
        let left = days & !(!0u32).checked_shl((last - month.first + 1) as u32).unwrap_or(0);
        count + u64::from(left.count_ones())
    }

    fn times_per_day(&self) -> u64 {
        u64::from(self.hours.count_ones() * self.minutes.count_ones() * self.seconds.count_ones())
    }

    /// Matching seconds of a matching day that lie before `time`.
    fn times_before(&self, time: u32) -> u64 {
        let (hour, minute, second) = split(time);
        let in_minute = self.seconds.count_ones();
        let in_hour = self.minutes.count_ones() * in_minute;
        let mut count = (self.hours & !(!0 << hour)).count_ones() * in_hour;
        if self.hours >> hour & 1 == 1 {
            count += (self.minutes & !(!0 << minute)).count_ones() * in_minute;
            if self.minutes >> minute & 1 == 1 {
                count += (self.seconds & !(!0 << second)).count_ones();
            }
        }
        u64::from(count)
    }
}

#[inline]
fn split(time: u32) -> (u32, u32, u32) {
    let minutes = time / 60;
    (minutes / 60, minutes % 60, time % 60)
}

/// A week's weekdays repeated over a month that begins on the given weekday, as bits from 1.
#[inline]
fn repeat_week(week: u64, first_weekday: u32) -> u32 {
    // The pattern 1 + 2^7 + … + 2^35 copies the week six times.
    const COPIES: u64 = 0x8_1020_4081;
    (((week * COPIES) >> first_weekday) << 1) as u32
}

/// The positions of the set bits, lowest first.
#[inline]
pub(crate) fn bits32(set: u32) -> impl Iterator<Item = u32> {
    bits64(u64::from(set))
}

/// The positions of the set bits, lowest first.
#[inline]
pub(crate) fn bits64(mut set: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        (set != 0).then(|| {
            let bit = set.trailing_zeros();
            set &= set - 1;
            bit
        })
    })
}
