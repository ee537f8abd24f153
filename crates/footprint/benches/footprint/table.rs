//! The printed table: what was measured, beside what, and whether the goal was met.

use std::time::Duration;

/// Prints rows as they come and counts the goals.
#[derive(Default)]
pub(crate) struct Table {
    met: usize,
    missed: Vec<String>,
}

impl Table {
    pub(crate) fn title(&self, name: &str) {
        println!("\n## {name}");
    }

    /// A time without a goal.
    pub(crate) fn time(&mut self, what: &str, time: Duration) {
        println!("{what:<58} {:>11}", show(time));
    }

    /// Times faster than the rival, with the least it should be.
    pub(crate) fn faster(&mut self, what: &str, ours: Duration, rival: (&str, Duration), goal: f64) {
        let ratio = rival.1.as_secs_f64() / ours.as_secs_f64();
        let text = format!("{:>11}  {} {:>11}  {ratio:>7.1} x", show(ours), rival.0, show(rival.1));
        self.row(what, &text, ratio >= goal, &format!("≥ {goal} x"));
    }

    /// Beside a rival, without a goal.
    pub(crate) fn beside(&mut self, what: &str, ours: Duration, rival: (&str, Duration)) {
        let ratio = rival.1.as_secs_f64() / ours.as_secs_f64();
        println!("{what:<58} {:>11}  {} {:>11}  {ratio:>7.1} x", show(ours), rival.0, show(rival.1));
    }

    /// A value that should not exceed the goal.
    pub(crate) fn at_most(&mut self, what: &str, value: f64, unit: &str, goal: f64) {
        self.row(what, &format!("{value:>11.3} {unit}"), value <= goal, &format!("≤ {goal} {unit}"));
    }

    pub(crate) fn close(&self) {
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

pub(crate) fn show(time: Duration) -> String {
    match time.as_nanos() {
        0..10_000 => format!("{:.1} ns", time.as_secs_f64() * 1e9),
        10_000..10_000_000 => format!("{:.1} µs", time.as_secs_f64() * 1e6),
        _ => format!("{:.2} ms", time.as_secs_f64() * 1e3),
    }
}
