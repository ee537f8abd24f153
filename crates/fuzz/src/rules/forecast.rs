//! What will give, and when.

use crate::{Limits, Overload};

/// What to expect if things go on as they did.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// Fuzz runs that start in a day.
    pub slots_per_day: f64,
    /// Commits that came to the queue, per day, of late.
    pub arrivals_per_day: f64,
    /// Commits that wait for their first fuzz run, built or not.
    pub waiting: usize,
    /// Days until a commit that arrives now is fuzzed first, if it is.
    pub wait_days: f64,
    /// Days until the schedule is full, when it fills.
    pub full_in_days: Option<f64>,
    /// Commits a day that will leave without having been fuzzed, once it is full.
    pub expired_unfuzzed_per_day: f64,
    /// Commits that share one fuzz run, under `coalesce`.
    pub commits_per_run: f64,
}

/// `unfuzzed` wait in the schedule, `before` in the queue and in `built`.
pub fn forecast(
    overload: Overload,
    limits: &Limits,
    slots_per_day: u32,
    arrivals_per_day: f64,
    unfuzzed: usize,
    before: usize,
) -> Forecast {
    let slots = f64::from(slots_per_day.max(1));
    let surplus = (arrivals_per_day - slots).max(0.0);
    let waiting = unfuzzed + before;
    let places = limits.schedule_max.saturating_sub(waiting) as f64;
    let shares = overload == Overload::Coalesce;
    Forecast {
        slots_per_day: slots,
        arrivals_per_day,
        waiting,
        wait_days: match overload {
            Overload::Fair => waiting as f64 / slots,
            Overload::NewestFirst => 1.0 / slots,
            Overload::Coalesce => (waiting as f64 / slots).min(1.0 + 1.0 / slots),
        },
        full_in_days: (surplus > 0.0 && !shares).then(|| places / surplus),
        expired_unfuzzed_per_day: if shares { 0.0 } else { surplus },
        commits_per_run: if shares { (arrivals_per_day / slots).max(1.0) } else { 1.0 },
    }
}
