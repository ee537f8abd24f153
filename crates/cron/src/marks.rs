//! `L`, `W` and `#`: days counted from the end of a month, near a day, or within it.

use crate::dialect::Rules;
use crate::error::{Error, ErrorKind, Field};
use crate::field::{Parsed, Part, allowed, weekday_bit};

/// `L`, `W` and `#` as sets, laid out as in the calendar.
#[derive(Default)]
pub(crate) struct Marks {
    pub(crate) last: u32,
    pub(crate) nearest: u32,
    pub(crate) nth: u64,
}

impl Part<'_> {
    /// Reads `L`, `L-k`, `kW`, `LW`, `n#k` and `nL`; false when the word is none of them.
    pub(crate) fn mark(&self, field: Field, rules: &Rules, parsed: &mut Parsed) -> Result<bool, Error> {
        match field {
            Field::DayOfMonth if rules.marks => self.day_mark(rules, &mut parsed.marks),
            Field::DayOfWeek if rules.marks => self.weekday_mark(rules, parsed),
            _ => Ok(false),
        }
    }

    fn day_mark(&self, rules: &Rules, marks: &mut Marks) -> Result<bool, Error> {
        let field = Field::DayOfMonth;
        let word = self.str().to_ascii_uppercase();
        if word == "L" {
            marks.last |= 1;
        } else if word == "LW" || word == "WL" {
            marks.nearest |= 1;
        } else if word.starts_with("L-") {
            let back = self.sub(2, word.len());
            let Some(days @ 0..=30) = back.number() else {
                let message = format!("`{}` days before the last, allowed are L-1 to L-30", back.shown());
                return Err(back.error(ErrorKind::OutOfRange, field, message));
            };
            marks.last |= 1 << days;
        } else if word.ends_with('W') {
            let day = self.sub(0, word.len() - 1);
            if day.number().is_none() {
                let message = format!("`{}` is no nearest weekday, allowed are 1W–31W and LW", self.shown());
                return Err(self.error(ErrorKind::Syntax, field, message));
            }
            marks.nearest |= 1 << day.value(field, rules)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn weekday_mark(&self, rules: &Rules, parsed: &mut Parsed) -> Result<bool, Error> {
        let field = Field::DayOfWeek;
        let word = self.str();
        let bit = |day: Part<'_>| day.value(field, rules).map(|weekday| weekday_bit(weekday, rules));
        if let Some(at) = word.find('#') {
            let (day, nth) = self.split_at(at, 1);
            let weekday = bit(day)?;
            let Some(row @ 1..=5) = nth.number() else {
                let message = format!("`{}` is no week of the month, allowed are #1–#5", nth.shown());
                return Err(nth.error(ErrorKind::OutOfRange, field, message));
            };
            parsed.marks.nth |= 1 << (7 * (row - 1) + weekday);
        } else if word.eq_ignore_ascii_case("L") && rules.sunday == 1 {
            // Quartz: alone it is the last day of the week, Saturday.
            parsed.bits |= 1 << 6;
        } else if word.eq_ignore_ascii_case("L") {
            let allowed = allowed(field, rules);
            let message = format!("`{word}` needs a weekday before it, allowed are {allowed} and `5L`");
            let error = self.error(ErrorKind::Syntax, field, message);
            return Err(error.with_help("write `5L` for the last Friday, or `6` for Saturday"));
        } else if word.ends_with(['L', 'l']) {
            parsed.marks.nth |= 1 << (35 + bit(self.sub(0, word.len() - 1))?);
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}
