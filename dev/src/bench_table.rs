//! The printed table: what was measured, beside what, and whether the goal was met.

use std::time::Duration;

/// How long something takes, in seconds: what is shorter than a nanosecond counts too.
#[derive(Clone, Copy)]
pub struct Time(pub f64);

impl From<Duration> for Time {
    fn from(time: Duration) -> Time {
        Time(time.as_secs_f64())
    }
}

/// Prints rows as they come and counts the goals.
#[derive(Default)]
pub struct Table {
    met: usize,
    missed: Vec<String>,
}

impl Table {
    /// Begins a group of rows.
    pub fn title(&self, name: &str) {
        println!("\n## {name}");
    }

    /// A time without a goal.
    pub fn time(&mut self, what: &str, time: impl Into<Time>) {
        println!("{what:<58} {:>11}", show(time.into()));
    }

    /// A figure without a goal.
    pub fn figure(&mut self, what: &str, figure: &str) {
        println!("{what:<58} {figure:>11}");
    }

    /// Times faster than the rival, with the least it should be.
    pub fn faster(&mut self, what: &str, ours: impl Into<Time>, rival: (&str, impl Into<Time>), goal: f64) {
        let (ours, rival) = (ours.into(), (rival.0, rival.1.into()));
        let ratio = rival.1.0 / ours.0;
        let text = format!("{:>11}  {} {:>11}  {ratio:>7.1} x", show(ours), rival.0, show(rival.1));
        self.row(what, &text, ratio >= goal, &format!("≥ {goal} x"));
    }

    /// Beside a rival, without a goal.
    pub fn beside(&mut self, what: &str, ours: impl Into<Time>, rival: (&str, impl Into<Time>)) {
        let (ours, rival) = (ours.into(), (rival.0, rival.1.into()));
        let ratio = rival.1.0 / ours.0;
        println!("{what:<58} {:>11}  {} {:>11}  {ratio:>7.1} x", show(ours), rival.0, show(rival.1));
    }

    /// A value that should not exceed the goal.
    pub fn at_most(&mut self, what: &str, value: f64, unit: &str, goal: f64) {
        self.row(what, &format!("{value:>11.3} {unit}"), value <= goal, &format!("≤ {goal} {unit}"));
    }

    /// Prints how many goals were met, and those that were missed.
    pub fn close(&self) {
        println!("\n{} goals met, {} missed", self.met, self.missed.len());
        for missed in &self.missed {
            println!("missed: {missed}");
        }
    }

    fn row(&mut self, what: &str, text: &str, met: bool, goal: &str) {
        println!("{what:<58} {text}  (goal {goal}) {}", if met { "met" } else { "MISSED" });
        if met {
            self.met += 1;
        } else {
            self.missed.push(format!("{what}: {} (goal {goal})", text.trim()));
        }
    }
}

/// A time with a unit that suits it.
pub fn show(time: Time) -> String {
    match time.0 * 1e9 {
        nanos if nanos < 10_000.0 => format!("{nanos:.1} ns"),
        nanos if nanos < 10_000_000.0 => format!("{:.1} µs", nanos / 1e3),
        nanos => format!("{:.2} ms", nanos / 1e6),
    }
}
