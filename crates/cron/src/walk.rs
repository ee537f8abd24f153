//! Whole windows: bit sets walked hour by hour.

use crate::Millis;
use crate::calendar::{ALL_60, Calendar, bits32};
use crate::civil::{DAY_SECS, Month};
use crate::schedule::{Pass, Rule, Schedule, ceil_secs, has_lone_gap_due};
use crate::zone::{END_SECS, Segment};

/// Many dues at once: one for each minute of `minutes` and each second of `seconds`, counted from `base`.
///
/// A due is `base + minute * 60_000 + second * 1_000`. The base is a full hour of the schedule's zone for cron rules and
/// a due for the others, so it need not be a full hour, minute or second of UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The instant both sets count from.
    pub base: Millis,
    /// Minutes 0–59 as bits.
    pub minutes: u64,
    /// Seconds 0–59 as bits.
    pub seconds: u64,
}

impl Stretch {
    fn single(base: Millis) -> Stretch {
        Stretch { base, minutes: 1, seconds: 1 }
    }

    /// How many dues.
    pub fn count(&self) -> u64 {
        u64::from(self.minutes.count_ones() * self.seconds.count_ones())
    }

    /// Hands every due to `sink`, in order.
    #[inline]
    pub fn each(&self, sink: &mut impl FnMut(Millis)) {
        let mut minutes = self.minutes;
        while minutes != 0 {
            let minute = self.base + i64::from(minutes.trailing_zeros()) * 60_000;
            minutes &= minutes - 1;
            let mut seconds = self.seconds;
            while seconds != 0 {
                sink(minute + i64::from(seconds.trailing_zeros()) * 1_000);
                seconds &= seconds - 1;
            }
        }
    }
}

impl Schedule {
    /// Hands the dues in `[start, end)` to `sink` as [`Stretch`]es, in order and without overlap: for a cron rule at most
    /// one for each whole hour, and up to three for an hour that the window or a clock change cuts.
    ///
    /// ```
    /// use cadran_cron::{Dialect, Schedule, Stretch, Zone};
    ///
    /// let schedule = Schedule::parse("*/15 * * * *", &Zone::utc(), Dialect::Cadran).unwrap();
    /// let mut found = Vec::new();
    /// schedule.stretches(0, 3_600_000, &mut |stretch| found.push(stretch));
    /// let minutes = 1 | 1 << 15 | 1 << 30 | 1 << 45;
    /// assert_eq!(found, [Stretch { base: 0, minutes, seconds: 1 }]);
    /// ```
    #[inline]
    pub fn stretches(&self, start: Millis, end: Millis, sink: &mut impl FnMut(Stretch)) {
        let (start, end) = self.clamped(start, end);
        if start >= end {
            return;
        }
        match self.rule() {
            Rule::Cron(calendar) => self.cron_stretches(calendar, ceil_secs(start), ceil_secs(end), sink),
            &Rule::Every { period_ms, anchor_ms } => every_stretches(period_ms, anchor_ms, start, end, sink),
            &Rule::At(instant) => {
                if (start..end).contains(&instant) {
                    sink(Stretch::single(instant));
                }
            }
        }
    }

    #[inline]
    fn cron_stretches(&self, calendar: &Calendar, start: i64, end: i64, sink: &mut impl FnMut(Stretch)) {
        if start >= end {
            return;
        }
        let pass = self.pass(calendar);
        for segment in &self.zone().segments()[self.zone().segment_at(start)..] {
            let mut from = segment.start.max(start) + segment.offset;
            if pass != Pass::Literal {
                from = from.max(segment.fresh);
                if pass == Pass::Shifted && segment.start >= start && has_lone_gap_due(calendar, segment) {
                    sink(Stretch::single(segment.start * 1000));
                }
            }
            let until = segment.end.min(end) + segment.offset;
            LocalWindow { calendar, from, until, offset: segment.offset }.walk(sink);
            if segment.end >= end {
                break;
            }
        }
    }
}

/// Wall-clock readings `[from, until)` under one offset.
struct LocalWindow<'c> {
    calendar: &'c Calendar,
    from: i64,
    until: i64,
    offset: i64,
}

impl LocalWindow<'_> {
    #[inline]
    fn walk(&self, sink: &mut impl FnMut(Stretch)) {
        if self.from >= self.until {
            return;
        }
        let (first, last) = (self.from.div_euclid(DAY_SECS), (self.until - 1).div_euclid(DAY_SECS));
        if self.calendar.is_every_day() {
            for day in first..=last {
                self.day(day, sink);
            }
            return;
        }
        // Short windows are common, and their hours are cheaper to look at than the date.
        if first == last && self.hours(first) == 0 {
            return;
        }
        let (mut month, dom) = Month::of_day(first);
        let mut days = self.calendar.days_in(&month) & (!0 << dom);
        loop {
            for dom in bits32(days) {
                let day = month.first + i64::from(dom) - 1;
                if day > last {
                    return;
                }
                self.day(day, sink);
            }
            if month.first + i64::from(month.len()) > last {
                return;
            }
            month = month.following();
            days = self.calendar.days_in(&month);
        }
    }

    /// The matching hours of a day that touch the window.
    #[inline]
    fn hours(&self, day: i64) -> u32 {
        let midnight = day * DAY_SECS;
        let first = (self.from - midnight).max(0) / 3600;
        let last = (self.until - 1 - midnight).min(DAY_SECS - 1) / 3600;
        self.calendar.hours & (!0 << first) & !(!1 << last)
    }

    #[inline]
    fn day(&self, day: i64, sink: &mut impl FnMut(Stretch)) {
        let midnight = day * DAY_SECS;
        for hour in bits32(self.hours(day)) {
            let hour = midnight + i64::from(hour) * 3600;
            if self.from <= hour && hour + 3600 <= self.until {
                let base = (hour - self.offset) * 1000;
                sink(Stretch { base, minutes: self.calendar.minutes, seconds: self.calendar.seconds });
            } else {
                self.cut_hour(hour, sink);
            }
        }
    }

    /// An hour that begins or ends outside the window: a cut first minute, whole minutes, a cut last minute.
    fn cut_hour(&self, hour: i64, sink: &mut impl FnMut(Stretch)) {
        let base = (hour - self.offset) * 1000;
        let mut emit = |minutes: u64, seconds: u64| {
            let (minutes, seconds) = (self.calendar.minutes & minutes, self.calendar.seconds & seconds);
            if minutes != 0 && seconds != 0 {
                sink(Stretch { base, minutes, seconds });
            }
        };
        let (low, high) = ((self.from - hour).max(0), (self.until - hour).min(3600));
        if self.calendar.seconds == 1 {
            emit(below((high + 59) / 60) & !below((low + 59) / 60), 1);
            return;
        }
        let (mut minute, second) = (low / 60, low % 60);
        let (last_minute, last_second) = (high / 60, high % 60);
        if minute == last_minute {
            emit(1 << minute, below(last_second) & !below(second));
            return;
        }
        if second > 0 {
            emit(1 << minute, !below(second));
            minute += 1;
        }
        emit(below(last_minute) & !below(minute), ALL_60);
        if last_second > 0 {
            emit(1 << last_minute, below(last_second));
        }
    }
}

/// The bits below a position of 0–60.
#[inline]
fn below(position: i64) -> u64 {
    (1 << position) - 1
}

/// Elapsed time needs no calendar: masks repeat from due to due.
fn every_stretches(period: i64, anchor: i64, start: i64, end: i64, sink: &mut impl FnMut(Stretch)) {
    let mut due = start + (anchor - start).rem_euclid(period);
    // One stretch holds as many dues as its masks can express: a product of minutes and seconds.
    let multiples = |period: i64| (0..60).step_by(period as usize).fold(0u64, |set, bit| set | 1 << bit);
    let (minutes, seconds) = match period {
        _ if period % 60_000 == 0 && period < 3_600_000 => (multiples(period / 60_000), 1),
        _ if period % 1_000 == 0 && 60_000 % period == 0 => (ALL_60, multiples(period / 1_000)),
        _ if period % 1_000 == 0 && period < 60_000 => (1, multiples(period / 1_000)),
        _ => (1, 1),
    };
    let stretch = Stretch { base: 0, minutes, seconds };
    let advance = stretch.count() as i64 * period;
    while due + advance - period < end {
        sink(Stretch { base: due, ..stretch });
        due += advance;
    }
    while due < end {
        sink(Stretch::single(due));
        due += period;
    }
}

/// The dues of a window, in order; see [`Schedule::between`].
#[derive(Clone, Debug)]
pub struct Dues<'s> {
    schedule: &'s Schedule,
    /// The stretch being handed out; its lowest minute has only `seconds` left.
    stretch: Stretch,
    seconds: u64,
    /// Where the search for the next stretch begins.
    from: Millis,
    end: Millis,
}

impl<'s> Dues<'s> {
    pub(crate) fn new(schedule: &'s Schedule, start: Millis, end: Millis) -> Dues<'s> {
        let stretch = Stretch { base: 0, minutes: 0, seconds: 0 };
        let (from, end) = schedule.clamped(start, end);
        Dues { schedule, stretch, seconds: 0, from, end }
    }

    /// Finds the stretch that begins with the next due.
    fn refill(&mut self) -> Option<()> {
        if self.from >= self.end {
            return None;
        }
        let due = self.schedule.next(self.from - 1).filter(|&due| due < self.end)?;
        (self.stretch, self.from) = match self.schedule.rule() {
            Rule::Cron(calendar) => {
                let zone = self.schedule.zone();
                let segment = &zone.segments()[zone.segment_at(due / 1000)];
                hour_from(calendar, segment, due / 1000, ceil_secs(self.end))
            }
            _ => (Stretch::single(due), due + 1),
        };
        self.seconds = self.stretch.seconds;
        Some(())
    }
}

impl Iterator for Dues<'_> {
    type Item = Millis;

    #[inline]
    fn next(&mut self) -> Option<Millis> {
        if self.stretch.minutes == 0 {
            self.refill()?;
        }
        let minute = i64::from(self.stretch.minutes.trailing_zeros());
        let second = i64::from(self.seconds.trailing_zeros());
        self.seconds &= self.seconds - 1;
        if self.seconds == 0 {
            self.seconds = self.stretch.seconds;
            self.stretch.minutes &= self.stretch.minutes - 1;
        }
        Some(self.stretch.base + minute * 60_000 + second * 1_000)
    }
}

impl std::iter::FusedIterator for Dues<'_> {}

/// The dues from `due` to the end of its hour where nothing cuts that hour, of its minute where nothing cuts that, or
/// `due` alone; and the instant to go on from.
fn hour_from(calendar: &Calendar, segment: &Segment, due: i64, end: i64) -> (Stretch, Millis) {
    let local = due + segment.offset;
    let time = local.rem_euclid(3600);
    let (hour, minute, second) = (local - time, time / 60, time % 60);
    let until = segment.end.min(end).min(END_SECS) + segment.offset;
    let base = (hour - segment.offset) * 1000;
    // The end of a gap can be a due without being a match.
    let matches = calendar.next_local(local) == Some(local);
    let seconds = calendar.seconds & !below(second);
    if matches && seconds == calendar.seconds && hour + 3600 <= until {
        let minutes = calendar.minutes & !below(minute);
        (Stretch { base, minutes, seconds }, base + 3_600_000)
    } else if matches && hour + minute * 60 + 60 <= until {
        (Stretch { base, minutes: 1 << minute, seconds }, base + (minute + 1) * 60_000)
    } else {
        (Stretch::single(due * 1000), due * 1000 + 1)
    }
}
