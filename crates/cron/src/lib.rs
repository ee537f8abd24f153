//! Cron expressions and calendars: which instants does an expression name?
