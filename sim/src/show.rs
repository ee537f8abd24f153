//! How far it is: a line that changes on a terminal, otherwise a line every few seconds.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use cadran_sim::{Tally, Violation};

/// Measures how long something took. The tool is no deciding crate: what it measures decides nothing.
pub(crate) struct Watch(Instant);

impl Watch {
    #[allow(clippy::disallowed_methods)] // Wall time of the tool itself, shown to whoever waits for it.
    pub(crate) fn start() -> Watch {
        Watch(Instant::now())
    }

    pub(crate) fn secs(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Tells how far it is.
pub(crate) struct Show {
    json: bool,
    terminal: bool,
    seeds: u64,
    began: Watch,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    done: u64,
    tally: Tally,
    /// Dues compared, and the seconds that took.
    checked: (u64, f64),
    told: Duration,
}

const DAY_MS: f64 = 86_400_000.0;

impl Show {
    pub(crate) fn new(json: bool, seeds: u64) -> Show {
        let terminal = std::io::stderr().is_terminal();
        Show { json, terminal, seeds, began: Watch::start(), state: Mutex::default() }
    }

    /// A seed is done.
    pub(crate) fn done(&self, tally: &Tally) {
        super::lock(&self.state).done += 1;
        self.add(tally);
    }

    /// Part of one is.
    pub(crate) fn add(&self, tally: &Tally) {
        let mut state = super::lock(&self.state);
        state.tally.add(tally);
        let every = Duration::from_millis(if self.terminal { 200 } else { 5_000 });
        let now = self.began.elapsed();
        if !self.json && now - state.told >= every {
            state.told = now;
            let line = self.line(&state);
            if self.terminal {
                eprint!("\r\x1b[K{line}");
                let _ = std::io::stderr().flush();
            } else {
                eprintln!("{line}");
            }
        }
    }

    /// So many dues were compared in so many seconds.
    pub(crate) fn checked(&self, dues: u64, secs: f64) {
        let mut state = super::lock(&self.state);
        state.checked.0 += dues;
        state.checked.1 += secs;
    }

    fn line(&self, state: &State) -> String {
        let minutes = self.began.secs() / 60.0;
        let days = state.tally.simulated_ms as f64 / DAY_MS;
        let of = if self.seeds > 0 { format!(" of {}", self.seeds) } else { String::new() };
        let mut line = format!(
            "{}{of} seeds, {days:.1} simulated days ({:.0} a minute), {} dues checked, {} starts",
            state.done,
            days / minutes.max(1e-9),
            state.tally.dues,
            state.tally.starts,
        );
        if state.checked.1 > 0.0 {
            line += &format!(", checker {:.1} M dues/s", state.checked.0 as f64 / state.checked.1 / 1e6);
        }
        line
    }

    /// The last word.
    pub(crate) fn end(&self, stopped: bool, failed: Option<(u64, &Violation)>) {
        let state = super::lock(&self.state);
        let secs = self.began.secs();
        let tally = &state.tally;
        if self.terminal && !self.json {
            eprint!("\r\x1b[K");
        }
        if !self.json {
            let stopped = if stopped && failed.is_none() { ", stopped" } else { "" };
            println!("{} in {secs:.1} s{stopped}", self.line(&state));
            return;
        }
        let failed = failed.map_or("null".to_owned(), |(seed, violation)| {
            format!("{{\"seed\":{seed},\"law\":{:?},\"detail\":{:?}}}", violation.law, violation.detail)
        });
        println!(
            "{{\"seeds\":{},\"simulated_days\":{:.3},\"dues\":{},\"runs\":{},\"skips\":{},\"starts\":{},\"turns\":{},\
             \"seconds\":{secs:.3},\"checker_dues_per_second\":{:.0},\"stopped\":{stopped},\"failed\":{failed}}}",
            state.done,
            tally.simulated_ms as f64 / DAY_MS,
            tally.dues,
            tally.runs,
            tally.skips,
            tally.starts,
            tally.turns,
            state.checked.0 as f64 / state.checked.1.max(1e-9),
        );
    }
}
