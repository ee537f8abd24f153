//! A rule in a zone: which instants it names.

use crate::calendar::{Calendar, LITERAL};
use crate::error::WindowError;
use crate::walk::{Dues, Stretch};
use crate::zone::{END_SECS, Zone};
use crate::{INSTANT_END, Millis};

/// Shortest period of an `every` schedule. Below it, promising and recording a run costs more than the wait.
pub const PERIOD_MS_MIN: i64 = 10;

/// What a schedule does when the clocks change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dst {
    /// Fixed times (no `*`, step or range in second, minute and hour) as [`Dst::Shift`], intervals as [`Dst::Both`].
    #[default]
    Auto,
    /// A reading inside a gap is not run; one inside a fold runs in the first pass only.
    Skip,
    /// Readings inside a gap run once, together, at the gap's end; one inside a fold runs in the first pass only.
    Shift,
    /// The clock is read literally: a reading inside a gap is not run, one inside a fold runs in both passes.
    Both,
}

impl Dst {
    /// The value of this name: `auto`, `skip`, `shift` or `both`.
    pub fn from_name(name: &str) -> Option<Dst> {
        [Dst::Auto, Dst::Skip, Dst::Shift, Dst::Both]
            .into_iter()
            .find(|dst| dst.name().eq_ignore_ascii_case(name))
    }

    /// The name users write.
    pub fn name(self) -> &'static str {
        match self {
            Dst::Auto => "auto",
            Dst::Skip => "skip",
            Dst::Shift => "shift",
            Dst::Both => "both",
        }
    }
}

/// The rule behind a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Readings of the wall clock.
    Cron(Calendar),
    /// Every so many milliseconds of elapsed time, in step with an anchor.
    Every {
        /// The period, at least [`PERIOD_MS_MIN`].
        period_ms: i64,
        /// Any one of the dues; only its phase matters.
        anchor_ms: i64,
    },
    /// One instant.
    At(Millis),
}

/// Which instants: a rule, the zone it is read in, and what happens when that zone's clocks change.
///
/// ```
/// use cadran_cron::{Dialect, Schedule, Zone};
///
/// let paris = Zone::get("Europe/Paris").unwrap();
/// let schedule = Schedule::parse("30 2 * * *", &paris, Dialect::Cadran).unwrap();
/// // On 2026-03-29 there is no 02:30: the clock goes from 02:00 to 03:00, at 01:00 UTC.
/// let due = schedule.next(1_774_742_400_000).unwrap();
/// assert_eq!(due, 1_774_746_000_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Schedule {
    /// A calendar carries its own treatment of clock changes, which keeps a schedule small: fleets hold millions.
    pub(crate) rule: Rule,
    zone: Zone,
    /// Boxed, since few schedules have one.
    window: Option<Box<Window>>,
}

/// Dues count from the first of these instants to the second, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Window {
    from: Millis,
    until: Millis,
}

/// How readings in gaps and folds are treated, decided from [`Dst`] and the calendar.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    Literal,
    Once,
    Shifted,
}

impl Schedule {
    /// A schedule from its parts. An `every` period below [`PERIOD_MS_MIN`] counts as that minimum; only the phase of
    /// its anchor is kept, so schedules with the same dues compare equal.
    pub fn new(rule: Rule, zone: Zone, dst: Dst) -> Schedule {
        let rule = match rule {
            Rule::Every { period_ms, anchor_ms } => {
                let period_ms = period_ms.clamp(PERIOD_MS_MIN, INSTANT_END);
                Rule::Every { period_ms, anchor_ms: anchor_ms.rem_euclid(period_ms) }
            }
            rule => rule,
        };
        Schedule { rule, zone, window: None }.with_dst(dst)
    }

    /// The same schedule without its dues before the one instant and after the other.
    pub fn within(mut self, from: Option<Millis>, until: Option<Millis>) -> Schedule {
        let window = Window { from: from.unwrap_or(0), until: until.unwrap_or(INSTANT_END - 1) };
        self.window = (from.is_some() || until.is_some()).then(|| Box::new(window));
        self
    }

    /// A stretch of time, `[start, end)`, without what lies outside of the window.
    pub(crate) fn clamped(&self, start: Millis, end: Millis) -> (Millis, Millis) {
        match &self.window {
            None => (start.max(0), end.min(INSTANT_END)),
            Some(window) => {
                (start.max(0).max(window.from), end.min(INSTANT_END).min(window.until.saturating_add(1)))
            }
        }
    }

    /// The same schedule with another treatment of clock changes. Only calendars look at it: `every` and `at` name
    /// instants, whatever clocks show then.
    pub fn with_dst(mut self, dst: Dst) -> Schedule {
        if let Rule::Cron(calendar) = &mut self.rule {
            calendar.dst = dst;
        }
        self
    }

    /// The zone the rule is read in.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// The rule.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// What happens when the clocks change, as asked for.
    pub fn dst(&self) -> Dst {
        match &self.rule {
            Rule::Cron(calendar) => calendar.dst,
            Rule::Every { .. } | Rule::At(_) => Dst::Auto,
        }
    }

    /// Whether dues can fall between whole seconds.
    pub fn is_subsecond(&self) -> bool {
        match self.rule {
            Rule::Cron(_) => false,
            Rule::Every { period_ms, anchor_ms } => period_ms % 1000 != 0 || anchor_ms % 1000 != 0,
            Rule::At(instant) => instant % 1000 != 0,
        }
    }

    /// The first due strictly after an instant. Bounded, and without allocation.
    #[inline]
    pub fn next(&self, after: Millis) -> Option<Millis> {
        match self.window.as_deref() {
            None => self.next_unbounded(after),
            Some(window) => self
                .next_unbounded(after.max(window.from.saturating_sub(1)))
                .filter(|due| *due <= window.until),
        }
    }

    #[inline]
    fn next_unbounded(&self, after: Millis) -> Option<Millis> {
        if after >= INSTANT_END - 1 {
            return None;
        }
        let from = after.max(-1) + 1;
        match &self.rule {
            Rule::Cron(calendar) => self.first_from(calendar, ceil_secs(from)).map(|due| due * 1000),
            Rule::Every { period_ms, anchor_ms } => {
                let due = from + (anchor_ms - from).rem_euclid(*period_ms);
                (due < INSTANT_END).then_some(due)
            }
            Rule::At(instant) => (*instant >= from && *instant < INSTANT_END).then_some(*instant),
        }
    }

    /// The last due strictly before an instant. Bounded, and without allocation.
    pub fn previous(&self, before: Millis) -> Option<Millis> {
        match self.window.as_deref() {
            None => self.previous_unbounded(before),
            Some(window) => self
                .previous_unbounded(before.min(window.until.saturating_add(1)))
                .filter(|due| *due >= window.from),
        }
    }

    fn previous_unbounded(&self, before: Millis) -> Option<Millis> {
        if before <= 0 {
            return None;
        }
        let until = before.min(INSTANT_END) - 1;
        match &self.rule {
            Rule::Cron(calendar) => self.last_until(calendar, until / 1000).map(|due| due * 1000),
            Rule::Every { period_ms, anchor_ms } => {
                let due = until - (until - anchor_ms).rem_euclid(*period_ms);
                (due >= 0).then_some(due)
            }
            Rule::At(instant) => (0..=until).contains(instant).then_some(*instant),
        }
    }

    /// The dues in `[start, end)`, in order. A window that ends before it starts has none.
    pub fn between(&self, start: Millis, end: Millis) -> Dues<'_> {
        Dues::new(self, start, end)
    }

    /// As [`between`](Schedule::between), but windows that make no sense are errors.
    pub fn try_between(&self, start: Millis, end: Millis) -> Result<Dues<'_>, WindowError> {
        check_window(start, end)?;
        Ok(self.between(start, end))
    }

    /// How many dues `[start, end)` holds, by counting bits: the time does not depend on the answer.
    pub fn count(&self, start: Millis, end: Millis) -> u64 {
        let (start, end) = self.clamped(start, end);
        if start >= end {
            return 0;
        }
        match &self.rule {
            Rule::Cron(calendar) => self.count_secs(calendar, ceil_secs(start), ceil_secs(end)),
            Rule::Every { period_ms, anchor_ms } => {
                // Dues before an instant, up to a constant that the difference removes.
                let before = |instant: Millis| (instant - 1 - anchor_ms).div_euclid(*period_ms);
                (before(end) - before(start)) as u64
            }
            Rule::At(instant) => u64::from((start..end).contains(instant)),
        }
    }

    /// Hands every due in `[start, end)` to `sink`, in order, by walking bit sets.
    pub fn walk(&self, start: Millis, end: Millis, sink: &mut impl FnMut(Millis)) {
        self.stretches(start, end, &mut |stretch: Stretch| stretch.each(sink));
    }

    #[inline]
    pub(crate) fn pass(&self, calendar: &Calendar) -> Pass {
        match calendar.dst {
            Dst::Skip => Pass::Once,
            Dst::Shift => Pass::Shifted,
            Dst::Both => Pass::Literal,
            Dst::Auto if calendar.flags & LITERAL == 0 && calendar.is_fixed_time() => Pass::Shifted,
            Dst::Auto => Pass::Literal,
        }
    }

    /// The first due at or after a second of the range.
    #[inline]
    pub(crate) fn first_from(&self, calendar: &Calendar, secs: i64) -> Option<i64> {
        /// Later than any reading, and far from overflow.
        const NEVER: i64 = 1 << 60;
        if secs >= END_SECS {
            return None;
        }
        let pass = self.pass(calendar);
        let segments = self.zone.segments();
        let mut at = self.zone.segment_at(secs);
        let mut segment = &segments[at];
        if secs == segment.start && pass == Pass::Shifted && has_gap_due(calendar, segment) {
            return Some(secs);
        }
        let mut from = secs + segment.offset;
        if pass != Pass::Literal {
            from = from.max(segment.fresh);
        }
        let mut reading = calendar.next_local(from).unwrap_or(NEVER);
        // `reading` is the first match at or after `from`. Carry it from segment to segment until one shows it.
        loop {
            if reading < segment.local_end() {
                return Some(reading - segment.offset);
            }
            at += 1;
            segment = segments.get(at)?;
            let first = segment.local_start();
            match pass {
                Pass::Shifted if reading < first => return Some(segment.start),
                // In a fold the clock shows readings again that lie before the search began; in a gap it leaps past some.
                Pass::Literal if first < from || reading < first => from = first,
                Pass::Once if reading < segment.fresh => from = segment.fresh,
                _ => continue,
            }
            reading = calendar.next_local(from).unwrap_or(NEVER);
        }
    }

    /// The last due at or before a second of the range.
    pub(crate) fn last_until(&self, calendar: &Calendar, secs: i64) -> Option<i64> {
        /// Earlier than any reading, and far from overflow.
        const NEVER: i64 = -(1 << 60);
        let pass = self.pass(calendar);
        let segments = self.zone.segments();
        let mut at = self.zone.segment_at(secs);
        let mut until = secs + segments[at].offset;
        let mut reading = calendar.previous_local(until).unwrap_or(NEVER);
        // `reading` is the last match at or before `until`; the mirror image of `first_from`.
        loop {
            let segment = &segments[at];
            let first = if pass == Pass::Literal { segment.local_start() } else { segment.fresh };
            if reading >= first {
                return Some(reading - segment.offset);
            }
            if pass == Pass::Shifted && segment.gap < segment.local_start() && reading >= segment.gap {
                return Some(segment.start);
            }
            at = at.checked_sub(1)?;
            let last = segments[at].local_end() - 1;
            if last > until || reading > last {
                reading = calendar.previous_local(last).unwrap_or(NEVER);
            }
            until = last;
        }
    }

    fn count_secs(&self, calendar: &Calendar, start: i64, end: i64) -> u64 {
        let pass = self.pass(calendar);
        let mut count = 0;
        if start >= end {
            return 0;
        }
        for segment in &self.zone.segments()[self.zone.segment_at(start)..] {
            if segment.start >= end {
                break;
            }
            let mut from = segment.start.max(start) + segment.offset;
            if pass != Pass::Literal {
                from = from.max(segment.fresh);
            }
            count += calendar.count_local(from, segment.end.min(end) + segment.offset);
            if pass == Pass::Shifted && segment.start >= start && has_lone_gap_due(calendar, segment) {
                count += 1;
            }
        }
        count
    }
}

/// Refuses windows that end before they start or leave the years 1970–2199.
pub fn check_window(start: Millis, end: Millis) -> Result<(), WindowError> {
    for instant in [start, end] {
        if !(0..=INSTANT_END).contains(&instant) {
            return Err(WindowError::OutOfRange { instant });
        }
    }
    if end < start { Err(WindowError::Reversed { start, end }) } else { Ok(()) }
}

/// Whether readings inside the gap before a segment, or its first reading itself, match.
pub(crate) fn has_gap_due(calendar: &Calendar, segment: &crate::zone::Segment) -> bool {
    segment.gap < segment.local_start()
        && calendar.next_local(segment.gap).is_some_and(|reading| reading <= segment.local_start())
}

/// Whether readings inside the gap match, and the segment's first reading does not already stand for them.
pub(crate) fn has_lone_gap_due(calendar: &Calendar, segment: &crate::zone::Segment) -> bool {
    has_gap_due(calendar, segment)
        && calendar.next_local(segment.local_start()) != Some(segment.local_start())
}

/// The first whole second at or after an instant that is not negative.
#[inline]
pub(crate) fn ceil_secs(instant: Millis) -> i64 {
    (instant + 999) / 1000
}
