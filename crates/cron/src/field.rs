//! One field: a list of values, ranges, steps and marks.

use crate::calendar::Years;
use crate::civil::{YEAR_MAX, YEAR_MIN};
use crate::dialect::{Question, Rules};
use crate::error::{Error, ErrorKind, Field};
use crate::marks::Marks;

const MONTHS: [&str; 12] = [
    "JANUARY",
    "FEBRUARY",
    "MARCH",
    "APRIL",
    "MAY",
    "JUNE",
    "JULY",
    "AUGUST",
    "SEPTEMBER",
    "OCTOBER",
    "NOVEMBER",
    "DECEMBER",
];
const WEEKDAYS: [&str; 7] = ["SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY"];

/// A stretch of the text, as bytes.
#[derive(Clone, Copy)]
pub(crate) struct Part<'t> {
    pub(crate) text: &'t str,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// What one field says.
pub(crate) struct Parsed {
    pub(crate) bits: u64,
    pub(crate) years: Years,
    pub(crate) marks: Marks,
    /// The field leaves everything open.
    pub(crate) any: bool,
    /// Only single values, no `*`, step or range.
    pub(crate) plain: bool,
    /// The field is `?`.
    pub(crate) question: bool,
    /// A step past the end of its range, which names one value as in every cron, and is seldom what was meant.
    pub(crate) lone_step: Option<Error>,
}

/// The numbers a field allows in a dialect.
#[derive(Clone, Copy)]
struct Bounds {
    min: u32,
    max: u32,
    /// Where `*` and `a/n` end.
    last: u32,
}

fn bounds(field: Field, rules: &Rules) -> Bounds {
    let (min, max) = match field {
        Field::Second | Field::Minute => (0, 59),
        Field::Hour => (0, 23),
        Field::DayOfMonth => (1, 31),
        Field::Month => (1, 12),
        Field::DayOfWeek => (rules.weekday_min, rules.weekday_max),
        Field::Year => (YEAR_MIN as u32, YEAR_MAX as u32),
    };
    // Where seven is Sunday again, a week that is counted through ends on Saturday.
    let last = if field == Field::DayOfWeek { min + 6 } else { max };
    Bounds { min, max, last }
}

/// The allowed values in words.
pub(crate) fn allowed(field: Field, rules: &Rules) -> String {
    let Bounds { min, max, .. } = bounds(field, rules);
    match field {
        Field::Month => format!("{min}–{max} or JAN–DEC"),
        Field::DayOfWeek => format!("{min}–{max} or SUN–SAT"),
        _ => format!("{min}–{max}"),
    }
}

impl<'t> Part<'t> {
    pub(crate) fn str(&self) -> &'t str {
        &self.text[self.start..self.end]
    }

    /// The text for messages, shortened.
    pub(crate) fn shown(&self) -> String {
        const SHOWN_CHARS_MAX: usize = 32;
        let mut shown: String = self.str().chars().take(SHOWN_CHARS_MAX).collect();
        if shown.len() < self.end - self.start {
            shown.push('…');
        }
        shown
    }

    pub(crate) fn sub(&self, start: usize, end: usize) -> Part<'t> {
        Part { text: self.text, start: self.start + start, end: self.start + end }
    }

    pub(crate) fn split_at(&self, at: usize, sign_len: usize) -> (Part<'t>, Part<'t>) {
        (self.sub(0, at), self.sub(at + sign_len, self.end - self.start))
    }

    pub(crate) fn error(&self, kind: ErrorKind, field: Field, message: String) -> Error {
        Error::new(kind, message).in_field(field).at(self.text, self.start, self.end)
    }

    pub(crate) fn parse(&self, field: Field, rules: &Rules) -> Result<Parsed, Error> {
        let mut parsed = Parsed {
            bits: 0,
            years: Years::NONE,
            marks: Marks::default(),
            any: false,
            plain: true,
            question: false,
            lone_step: None,
        };
        let mut at = 0;
        for word in self.str().split(',') {
            self.sub(at, at + word.len()).element(self, field, rules, &mut parsed)?;
            at += word.len() + 1;
        }
        Ok(parsed)
    }

    /// Reads one element of the list and adds it.
    fn element(
        &self,
        whole: &Part<'_>,
        field: Field,
        rules: &Rules,
        parsed: &mut Parsed,
    ) -> Result<(), Error> {
        let word = self.str();
        if word.is_empty() {
            let message =
                format!("empty element in `{}`, allowed are {}", whole.shown(), allowed(field, rules));
            return Err(self.error(ErrorKind::Syntax, field, message));
        }
        let (body, step_part) = match word.find('/') {
            Some(at) => {
                let (body, step) = self.split_at(at, 1);
                (body, Some(step))
            }
            None => (*self, None),
        };
        let step = step_part.map(|part| part.step(field, rules)).transpose()?;
        if body.str() == "?" {
            return self.question(whole, field, rules, step.is_some(), parsed);
        }
        if body.str() == "*" {
            parsed.plain = false;
            parsed.any |= match step {
                None => true,
                Some(1) => rules.star_one_is_star,
                Some(_) => rules.star_step_is_star,
            };
            let Bounds { min, last, .. } = bounds(field, rules);
            add(parsed, field, rules, min, last, step.unwrap_or(1));
            return Ok(());
        }
        if step.is_none() && body.mark(field, rules, parsed)? {
            return Ok(());
        }
        parsed.plain &= step.is_none();
        // No name holds a hyphen, so the first one after the first character parts a range.
        let dash = body.str().char_indices().skip(1).find(|&(_, c)| c == '-').map(|(at, _)| at);
        match (dash, step) {
            (Some(dash), _) => body.range(dash, step.zip(step_part), field, rules, parsed)?,
            (None, Some(step)) => self.open_step(body, step, field, rules, parsed)?,
            (None, None) => {
                let value = body.value(field, rules)?;
                add(parsed, field, rules, value, value, 1);
            }
        }
        Ok(())
    }

    /// Reads `a-b`, with the step that followed it.
    fn range(
        &self,
        dash: usize,
        step: Option<(u32, Part<'_>)>,
        field: Field,
        rules: &Rules,
        parsed: &mut Parsed,
    ) -> Result<(), Error> {
        parsed.plain = false;
        let (low_part, high_part) = self.split_at(dash, 1);
        let (low, high) = (low_part.value(field, rules)?, high_part.value(field, rules)?);
        let Bounds { min, max, .. } = bounds(field, rules);
        if low > high && (!rules.wraps || field == Field::Year) {
            let (range, allowed) = (self.shown(), allowed(field, rules));
            let message = format!("the range `{range}` runs backwards, allowed are {allowed} in order");
            let error = self.error(ErrorKind::OutOfRange, field, message);
            let help = match field {
                Field::Year => format!("write `{high}-{low}`"),
                _ => format!("write `{low}-{max},{min}-{high}`"),
            };
            return Err(error.with_help(help));
        }
        let count = add(parsed, field, rules, low, high, step.map_or(1, |(step, _)| step));
        if let (1, Some((2.., part))) = (count, step) {
            let (step, range, only) = (part.shown(), self.shown(), low_part.shown());
            let message = format!("step `{step}` exceeds the range `{range}`, which matches `{only}` alone");
            let found = part.error(ErrorKind::Step, field, message);
            parsed.lone_step = Some(found.with_help(format!("write `{only}` if that is meant")));
        }
        Ok(())
    }

    /// Reads `a/n`, which means from `a` to the end of the field.
    fn open_step(
        &self,
        body: Part<'_>,
        step: u32,
        field: Field,
        rules: &Rules,
        parsed: &mut Parsed,
    ) -> Result<(), Error> {
        let low = body.value(field, rules)?;
        let last = bounds(field, rules).last;
        if !rules.open_steps {
            let message =
                format!("`{}` has a step without a range, allowed are `*/n` and `a-b/n`", self.shown());
            let error = self.error(ErrorKind::Unsupported, field, message);
            return Err(error.with_help(format!("write `{low}-{last}/{step}`")));
        }
        add(parsed, field, rules, low, last.max(low), step);
        Ok(())
    }

    fn question(
        &self,
        whole: &Part<'_>,
        field: Field,
        rules: &Rules,
        stepped: bool,
        parsed: &mut Parsed,
    ) -> Result<(), Error> {
        let day_field = matches!(field, Field::DayOfMonth | Field::DayOfWeek);
        let message = match rules.question {
            Question::Nowhere => "`?` is not known in this dialect, allowed are `*` and ",
            Question::OneDayField if !day_field => "`?` may stand in a day field only, allowed are `*` and ",
            _ if stepped || whole.start != self.start || whole.end != self.end => {
                "`?` must stand alone, or use "
            }
            _ => {
                let Bounds { min, last, .. } = bounds(field, rules);
                add(parsed, field, rules, min, last, 1);
                (parsed.any, parsed.plain, parsed.question) = (true, false, true);
                return Ok(());
            }
        };
        Err(self
            .error(ErrorKind::Syntax, field, format!("{message}{}", allowed(field, rules)))
            .with_help("write `*`"))
    }

    /// A step that lies in the field's own range.
    fn step(&self, field: Field, rules: &Rules) -> Result<u32, Error> {
        let Bounds { min, max, .. } = bounds(field, rules);
        let most = if field == Field::Year { max - min } else { max };
        match self.number() {
            Some(step) if (1..=most).contains(&step) => Ok(step),
            Some(step) => {
                let error = self.bad_step(field, "is out of range", most);
                Err(if step == 0 { error } else { error.with_help(format!("write `{min}` to match once")) })
            }
            None => Err(self.bad_step(field, "is not a number", most)),
        }
    }

    fn bad_step(&self, field: Field, what: &str, most: u32) -> Error {
        self.error(ErrorKind::Step, field, format!("step `{}` {what}, allowed are 1–{most}", self.shown()))
    }

    /// A decimal number; one too large to hold is as good as the largest.
    pub(crate) fn number(&self) -> Option<u32> {
        let word = self.str();
        let digits = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| word.parse().unwrap_or(u32::MAX))
    }

    /// A number or name within the field's range.
    pub(crate) fn value(&self, field: Field, rules: &Rules) -> Result<u32, Error> {
        let Bounds { min, max, .. } = bounds(field, rules);
        match self.number().or_else(|| self.name(field, rules)) {
            Some(value) if (min..=max).contains(&value) => Ok(value),
            Some(_) => {
                let message =
                    format!("`{}` is out of range, allowed are {}", self.shown(), allowed(field, rules));
                let error = self.error(ErrorKind::OutOfRange, field, message);
                Err(match (field, self.number()) {
                    (Field::DayOfWeek, Some(7)) => error.with_help("Sunday is 0 in this dialect"),
                    (Field::DayOfWeek, Some(0)) => error.with_help("Sunday is 1 in this dialect"),
                    (Field::Hour, Some(24)) => error.with_help("midnight is 0"),
                    (Field::Minute | Field::Second, Some(60)) => error.with_help("the full turn is 0"),
                    _ => error,
                })
            }
            None => Err(self.not_a_value(field, rules)),
        }
    }

    fn not_a_value(&self, field: Field, rules: &Rules) -> Error {
        let message = format!("`{}` is not a value, allowed are {}", self.shown(), allowed(field, rules));
        let error = self.error(ErrorKind::Syntax, field, message);
        let word = self.str();
        if word.bytes().any(|b| matches!(b, b'L' | b'l' | b'W' | b'w' | b'#')) && !rules.marks {
            return error.with_help("`L`, `W` and `#` need the dialect `cadran`");
        }
        if word.starts_with(['H', 'h']) && !word[1..].starts_with(|c: char| c.is_ascii_alphabetic()) {
            return error.with_help("`H` is not known; choose a value");
        }
        match self.near_name(field) {
            Some(name) => error.with_help(format!("did you mean `{}`?", &name[..3])),
            None => error,
        }
    }

    fn name(&self, field: Field, rules: &Rules) -> Option<u32> {
        let word = self.str();
        let matches =
            |name: &&'static str| name.eq_ignore_ascii_case(word) || name[..3].eq_ignore_ascii_case(word);
        match field {
            Field::Month => MONTHS.iter().position(matches).map(|at| at as u32 + 1),
            Field::DayOfWeek => WEEKDAYS.iter().position(matches).map(|at| at as u32 + rules.sunday),
            _ => None,
        }
    }

    /// A name that begins like the word.
    fn near_name(&self, field: Field) -> Option<&'static str> {
        let names: &[&'static str] = match field {
            Field::Month => &MONTHS,
            Field::DayOfWeek => &WEEKDAYS,
            _ => return None,
        };
        let word = self.str().to_ascii_uppercase();
        names
            .iter()
            .copied()
            .find(|name| word.len() >= 2 && (name.starts_with(&word) || word.starts_with(&name[..2])))
    }
}

/// The calendar's bit of a weekday number.
pub(crate) fn weekday_bit(value: u32, rules: &Rules) -> u32 {
    (value - rules.sunday) % 7
}

/// Adds `low, low + step, …` up to `high`, around the end of the field where `low` exceeds `high`; says how many.
fn add(parsed: &mut Parsed, field: Field, rules: &Rules, low: u32, high: u32, step: u32) -> u32 {
    let Bounds { min, last, .. } = bounds(field, rules);
    let span = last - min + 1;
    let high = if low > high { high + span } else { high };
    let mut count = 0;
    for value in (low..=high).step_by(step as usize) {
        count += 1;
        match field {
            Field::Year => parsed.years.insert(value),
            Field::DayOfWeek => parsed.bits |= 1 << weekday_bit(value, rules),
            _ => parsed.bits |= 1 << (min + (value - min) % span),
        }
    }
    count
}
