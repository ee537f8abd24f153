//! A second opinion: the rules of the notation written out naively, over jiff's calendar.
//!
//! Nothing here is shared with the crate. Expressions are built as trees, rendered to text for the crate, and judged
//! second by second from the tree.
#![allow(dead_code)]

use cadran_cron::Dst;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

/// One element of a field's list.
#[derive(Clone, Debug)]
pub(crate) enum Element {
    Star,
    Value(u32),
    Range(u32, u32),
    StarStep(u32),
    RangeStep(u32, u32, u32),
    OpenStep(u32, u32),
    /// `L` and `L-k`.
    Last(u32),
    /// `kW`.
    Nearest(u32),
    /// `LW`.
    LastWeekday,
    /// `n#k`.
    Nth(u32, u32),
    /// `nL`.
    LastOf(u32),
}

pub(crate) type Field = Vec<Element>;

/// Second, minute, hour, day of month, month, day of week.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    pub(crate) fields: [Field; 6],
    pub(crate) years: Option<(u32, u32)>,
}

pub(crate) const MINS: [u32; 6] = [0, 0, 0, 1, 1, 0];
pub(crate) const MAXS: [u32; 6] = [59, 59, 23, 31, 12, 6];

impl Element {
    fn render(&self) -> String {
        match self {
            Element::Star => "*".to_owned(),
            Element::Value(v) => v.to_string(),
            Element::Range(a, b) => format!("{a}-{b}"),
            Element::StarStep(n) => format!("*/{n}"),
            Element::RangeStep(a, b, n) => format!("{a}-{b}/{n}"),
            Element::OpenStep(a, n) => format!("{a}/{n}"),
            Element::Last(0) => "L".to_owned(),
            Element::Last(k) => format!("L-{k}"),
            Element::Nearest(k) => format!("{k}W"),
            Element::LastWeekday => "LW".to_owned(),
            Element::Nth(n, k) => format!("{n}#{k}"),
            Element::LastOf(n) => format!("{n}L"),
        }
    }

    /// Whether a plain element holds a value.
    fn holds(&self, value: u32, min: u32, max: u32) -> bool {
        let stepped = |mut from: u32, to: u32, step: u32| {
            let to = if to < from { to + (max - min + 1) } else { to };
            while from <= to {
                if min + (from - min) % (max - min + 1) == value {
                    return true;
                }
                from += step;
            }
            false
        };
        match *self {
            Element::Star => true,
            Element::Value(v) => v == value,
            Element::Range(a, b) => stepped(a, b, 1),
            Element::StarStep(n) => stepped(min, max, n),
            Element::RangeStep(a, b, n) => stepped(a, b, n),
            Element::OpenStep(a, n) => stepped(a, max, n),
            _ => false,
        }
    }

    /// Whether a day-of-month element names a date.
    fn holds_day(&self, date: Date) -> bool {
        let len = i32::from(date.days_in_month());
        match *self {
            Element::Last(k) => i32::from(date.day()) == len - k as i32,
            Element::Nearest(k) => k as i32 <= len && nearest(date, k as i8) == date,
            Element::LastWeekday => {
                let mut last = date.last_of_month();
                while is_weekend(last) {
                    last = last.yesterday().unwrap();
                }
                last == date
            }
            _ => self.holds(date.day() as u32, 1, 31),
        }
    }

    /// Whether a day-of-week element names a date.
    fn holds_weekday(&self, date: Date) -> bool {
        let weekday = date.weekday().to_sunday_zero_offset() as u32;
        match *self {
            Element::Nth(n, k) => n == weekday && (date.day() as u32 - 1) / 7 + 1 == k,
            Element::LastOf(n) => n == weekday && date.day() + 7 > date.days_in_month(),
            _ => self.holds(weekday, 0, 6),
        }
    }
}

fn is_weekend(date: Date) -> bool {
    matches!(date.weekday().to_sunday_zero_offset(), 0 | 6)
}

/// The closest weekday in the same month.
fn nearest(month: Date, day: i8) -> Date {
    let target = jiff::civil::date(month.year(), month.month(), day);
    (0..4i64)
        .flat_map(|distance| [-distance, distance])
        .map(|days| target.checked_add(SignedDuration::from_hours(24 * days)).unwrap())
        .find(|date| date.month() == target.month() && !is_weekend(*date))
        .unwrap()
}

impl Expression {
    pub(crate) fn render(&self) -> String {
        let mut words: Vec<String> = self
            .fields
            .iter()
            .map(|field| field.iter().map(Element::render).collect::<Vec<_>>().join(","))
            .collect();
        if let Some((from, to)) = self.years {
            words.push(format!("{from}-{to}"));
        }
        words.join(" ")
    }

    pub(crate) fn holds_date(&self, date: Date) -> bool {
        if self.years.is_some_and(|(from, to)| !(from as i16..=to as i16).contains(&date.year())) {
            return false;
        }
        if !self.fields[4].iter().any(|element| element.holds(date.month() as u32, 1, 12)) {
            return false;
        }
        let day = self.fields[3].iter().any(|element| element.holds_day(date));
        let weekday = self.fields[5].iter().any(|element| element.holds_weekday(date));
        let open = |field: &Field| field.iter().any(|element| matches!(element, Element::Star));
        if open(&self.fields[3]) || open(&self.fields[5]) { day && weekday } else { day || weekday }
    }

    pub(crate) fn holds(&self, reading: DateTime) -> bool {
        let value = [reading.second(), reading.minute(), reading.hour()];
        (0..3).all(|i| self.fields[i].iter().any(|e| e.holds(value[i] as u32, MINS[i], MAXS[i])))
            && self.holds_date(reading.date())
    }

    fn is_fixed(&self) -> bool {
        self.fields[..3].iter().flatten().all(|element| matches!(element, Element::Value(_)))
    }

    /// The dues in `[start, end)`, in seconds, found by looking at every second.
    pub(crate) fn walk_every_second(&self, zone: &TimeZone, dst: Dst, start: i64, end: i64) -> Vec<i64> {
        let dst = match dst {
            Dst::Auto if self.is_fixed() => Dst::Shift,
            Dst::Auto => Dst::Both,
            dst => dst,
        };
        let reading = |secs: i64| zone.to_datetime(Timestamp::from_second(secs).unwrap());
        // A reading is shown first at an instant when no earlier instant shows it: look one day back.
        let shown_before = |secs: i64, now: DateTime| {
            let offset = zone.to_offset(Timestamp::from_second(secs).unwrap()).seconds();
            let mut earlier: Vec<i32> = zone
                .preceding(Timestamp::from_second(secs + 1).unwrap())
                .take_while(|t| t.timestamp().as_second() > secs - 2 * 86_400)
                .map(|t| {
                    zone.to_offset(Timestamp::from_second(t.timestamp().as_second() - 1).unwrap()).seconds()
                })
                .collect();
            earlier.retain(|&before| before > offset);
            earlier.into_iter().any(|before| {
                let instant = secs - i64::from(before - offset);
                instant >= 0 && reading(instant) == now
            })
        };
        let mut dues = Vec::new();
        let mut last = (start > 0).then(|| reading(start - 1));
        for secs in start..end {
            let now = reading(secs);
            let mut due = self.holds(now);
            if due && dst != Dst::Both {
                due = !shown_before(secs, now);
            }
            if !due
                && dst == Dst::Shift
                && let Some(last) = last
            {
                // Readings between two ticks of the clock were never shown.
                let mut missing = last.checked_add(SignedDuration::from_secs(1)).unwrap();
                while missing < now && !due {
                    due = self.holds(missing) && !is_shown(zone, missing);
                    missing = missing.checked_add(SignedDuration::from_secs(1)).unwrap();
                }
            }
            if due {
                dues.push(secs);
            }
            last = Some(now);
        }
        dues
    }
}

fn is_shown(zone: &TimeZone, reading: DateTime) -> bool {
    !matches!(zone.to_ambiguous_timestamp(reading).offset(), jiff::tz::AmbiguousOffset::Gap { .. })
}

fn plain_element(field: usize) -> impl Strategy<Value = Element> {
    let (min, max) = (MINS[field], MAXS[field]);
    let value = min..=max;
    prop_oneof![
        4 => value.clone().prop_map(Element::Value),
        2 => (value.clone(), value.clone()).prop_map(|(a, b)| Element::Range(a, b)),
        2 => (1..=max).prop_map(Element::StarStep),
        1 => (value.clone(), value.clone(), 1..=max).prop_map(move |(a, b, n)| {
            let length = if a <= b { b - a } else { b + (max - min + 1) - a };
            Element::RangeStep(a, b, n.min(length).max(1))
        }),
        1 => (value, 1..=max).prop_map(|(a, n)| Element::OpenStep(a, n)),
    ]
}

fn day_element() -> impl Strategy<Value = Element> {
    prop_oneof![
        3 => plain_element(3),
        1 => (0u32..=30).prop_map(Element::Last),
        1 => (1u32..=31).prop_map(Element::Nearest),
        1 => Just(Element::LastWeekday),
    ]
}

fn weekday_element() -> impl Strategy<Value = Element> {
    prop_oneof![
        3 => plain_element(5),
        1 => (0u32..=6, 1u32..=5).prop_map(|(n, k)| Element::Nth(n, k)),
        1 => (0u32..=6).prop_map(Element::LastOf),
    ]
}

fn field(
    star_weight: u32,
    element: impl Strategy<Value = Element> + 'static,
) -> impl Strategy<Value = Field> {
    prop_oneof![
        star_weight => Just(vec![Element::Star]),
        4 => prop::collection::vec(element, 1..4),
    ]
}

/// Any expression; day fields open more often than not, so that short windows find something.
pub(crate) fn expressions() -> impl Strategy<Value = Expression> {
    let second = prop_oneof![3 => Just(vec![Element::Value(0)]), 1 => field(1, plain_element(0))];
    (
        second,
        field(2, plain_element(1)),
        field(6, plain_element(2)),
        field(12, day_element()),
        field(12, plain_element(4)),
        field(12, weekday_element()),
    )
        .prop_map(|(s, m, h, d, mo, w)| Expression { fields: [s, m, h, d, mo, w], years: None })
}

/// Plain values in second, minute and hour.
pub(crate) fn fixed_expressions() -> impl Strategy<Value = Expression> {
    let values =
        |field: usize| prop::collection::vec((MINS[field]..=MAXS[field]).prop_map(Element::Value), 1..4);
    let early = prop::collection::vec((0u32..=4).prop_map(Element::Value), 1..4);
    (values(1), prop_oneof![values(2), early.boxed()], field(20, weekday_element())).prop_map(|(m, h, w)| {
        Expression {
            fields: [vec![Element::Value(0)], m, h, vec![Element::Star], vec![Element::Star], w],
            years: None,
        }
    })
}

/// Expressions whose days are the difficulty, often impossible.
pub(crate) fn day_expressions() -> impl Strategy<Value = Expression> {
    let months = prop_oneof![
        Just(vec![Element::Value(2)]),
        Just(vec![Element::Value(4), Element::Value(11)]),
        field(1, plain_element(4)),
    ];
    let years =
        prop::option::weighted(0.6, (1970u32..=2199, 0u32..3).prop_map(|(y, n)| (y, (y + n).min(2199))));
    let day = prop_oneof![
        (28u32..=31).prop_map(Element::Value),
        (27u32..=30).prop_map(Element::Last),
        (29u32..=31).prop_map(Element::Nearest),
        day_element(),
    ];
    let weekday = prop_oneof![
        4 => Just(vec![Element::Star]),
        1 => prop::collection::vec((0u32..=6).prop_map(|n| Element::Nth(n, 5)), 1..2),
        1 => prop::collection::vec(weekday_element(), 1..2),
    ];
    let days = prop_oneof![4 => prop::collection::vec(day, 1..2), 1 => Just(vec![Element::Star])];
    (days, months, weekday, years).prop_map(|(d, mo, w, years)| {
        let zero = || vec![Element::Value(0)];
        Expression { fields: [zero(), zero(), zero(), d, mo, w], years }
    })
}
