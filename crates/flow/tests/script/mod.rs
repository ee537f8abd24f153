//! A small language for scenarios: what the job is, what happens, and what must follow from it.
//!
//! ```text
//! step a ; retry 2 100
//! step b < a
//! begin        -> start a.1
//! a.1 exit 2   -> retry a at 100
//! due a        -> start a.2
//! a.2 ok       -> start b.1
//! b.1 exit 3   -> end failed: step b exited with 3
//! ```
//!
//! Every line with an arrow is played and its right side written anew; the whole text must come out as it went in.

use std::fmt::Write as _;

use cadran_core::{
    Body, ContinueOn, Found, Handler, Now, Outcome, Precondition, Report, ReportKind, Retry, RunId, Step,
    StepNo, StepRecord,
};
use cadran_flow::{Accepted, Next, Progress, Resume, StopWhy};

/// Plays a script and compares it with itself.
#[track_caller]
pub(crate) fn check(script: &str) {
    let mut play = Play::default();
    let mut expected = String::new();
    let mut actual = String::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.split_once("->") {
            None => play.define(line),
            Some((event, follows)) => {
                let event = event.trim();
                writeln!(expected, "{event} -> {}", follows.trim()).unwrap();
                writeln!(actual, "{event} -> {}", play.event(event)).unwrap();
            }
        }
    }
    assert_eq!(expected, actual, "\nexpected:\n{expected}\nactual:\n{actual}");
}

#[derive(Default)]
pub(crate) struct Play {
    body: Body,
    at_most_once: bool,
    now: i64,
    progress: Option<Progress>,
}

impl Play {
    fn define(&mut self, line: &str) {
        let (head, attributes) = line.split_once(';').unwrap_or((line, ""));
        let words: Vec<&str> = head.split_whitespace().collect();
        match words[..] {
            ["step", name, ref depends @ ..] => {
                let mut step = Step { name: name.into(), ..Step::default() };
                if let ["<", names] = depends {
                    step.depends = names.split(',').map(|name| self.number(name)).collect();
                }
                attributes.split(';').for_each(|text| attribute(&mut step, text.trim()));
                self.body.steps.push(step);
            }
            ["handler", name] => {
                let mut step = Step::default();
                attributes.split(';').for_each(|text| attribute(&mut step, text.trim()));
                let handler = Handler::ALL.into_iter().find(|handler| handler.step_name() == name).unwrap();
                self.body.handlers.steps[handler as usize] = Some(Box::new(step));
            }
            ["remove", name] => {
                let at = usize::from(self.number(name).0);
                self.body.steps.remove(at);
            }
            ["max", places] => self.body.max_active_steps = places.parse().unwrap(),
            ["timeout", ms] => self.body.timeout_ms = Some(ms.parse().unwrap()),
            ["precondition"] => {
                let precondition = Precondition { condition: "true".into(), expected: None, negate: false };
                self.body.preconditions.push(precondition);
            }
            ["at-most-once"] => self.at_most_once = true,
            ["at", ms] => self.now = ms.parse().unwrap(),
            _ => panic!("what is {line:?}?"),
        }
    }

    fn event(&mut self, event: &str) -> String {
        let mut out = Vec::new();
        let now = Now { wall: 1_000_000 + self.now, mono: self.now };
        let words: Vec<&str> = event.split_whitespace().collect();
        match words[..] {
            ["begin"] => self.progress = Some(Progress::begin(&self.body, self.at_most_once, &mut out)),
            ["recover" | "retry", ..] => {
                let mode = if words[0] == "recover" { Resume::Recover } else { Resume::Retry };
                let records = self.progress.as_ref().map_or(vec![], |progress| progress.records(&self.body));
                let found = self.found(&words[1..]);
                let (body, once) = (&self.body, self.at_most_once);
                self.progress = Some(Progress::resume(body, &records, &found, mode, once, now, &mut out));
            }
            // The job is edited while the server is away; what was found is numbered as it was before.
            ["recover-without", name, ..] => {
                let records = self.progress.as_ref().unwrap().records(&self.body);
                let found = self.found(&words[2..]);
                self.define(&format!("remove {name}"));
                let (body, once) = (&self.body, self.at_most_once);
                let mode = Resume::Recover;
                self.progress = Some(Progress::resume(body, &records, &found, mode, once, now, &mut out));
            }
            ["due", name] => {
                let no = self.number(name);
                self.progress.as_mut().unwrap().retry_due(&self.body, no, &mut out);
            }
            ["stop", why] => {
                let why = match why {
                    "asked" => StopWhy::Asked,
                    "schedule" => StopWhy::Schedule,
                    "replaced" => StopWhy::Replaced,
                    "timeout" => StopWhy::TimedOut,
                    _ => panic!("stop {why}?"),
                };
                self.progress.as_mut().unwrap().stop(&self.body, why, now, &mut out);
            }
            ["outputs"] => {
                let outputs = self.progress.as_ref().unwrap().outputs();
                return outputs
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect::<Vec<_>>()
                    .join(" ");
            }
            ["records"] => {
                let records = self.progress.as_ref().unwrap().records(&self.body);
                return records.iter().map(record_text).collect::<Vec<_>>().join(" | ");
            }
            ["live"] => {
                let live = self.progress.as_ref().unwrap().live();
                return live
                    .map(|(no, attempt)| format!("{}.{attempt}", self.name(no)))
                    .collect::<Vec<_>>()
                    .join(" ");
            }
            [attempt, what, ..] => {
                let (step, attempt) = self.attempt(attempt);
                let kind = match what {
                    "up" => ReportKind::Started,
                    _ => {
                        let (outcome, output) = outcome(&words[1..]);
                        ReportKind::Ended { outcome, output }
                    }
                };
                let report = Report { run: RunId::from_raw(7), step, attempt, at: now.wall, kind };
                match self.progress.as_mut().unwrap().report(&self.body, &report, now, &mut out) {
                    Accepted::Yes => {}
                    Accepted::Stale => return "stale".into(),
                    Accepted::Unknown => return "unknown".into(),
                }
            }
            _ => panic!("what is {event:?}?"),
        }
        out.iter().map(|next| self.next_text(next)).collect::<Vec<_>>().join(" | ")
    }

    /// `a.1:ok` ended well, `a.1:exit:2` ended so, `a.1:ok:text` with an output, `a.1:cut` was cut off.
    fn found(&self, words: &[&str]) -> Vec<Found> {
        let one = |word: &&str| {
            let (attempt, end) = word.split_once(':').unwrap();
            let (step, attempt) = self.attempt(attempt);
            let (ended, output) = match end {
                "cut" | "lives" => (None, None),
                _ => {
                    let (outcome, output) = outcome(&end.split(':').collect::<Vec<_>>());
                    (Some((1_000_000 + self.now, outcome)), output)
                }
            };
            Found {
                run: RunId::from_raw(7),
                step,
                attempt,
                started_at: 1_000_000,
                ended,
                output,
                lives: end == "lives",
                seats: vec![],
            }
        };
        words.iter().map(one).collect()
    }

    fn number(&self, name: &str) -> StepNo {
        if let Some(at) = self.body.steps.iter().position(|step| step.name == name) {
            return StepNo(at as u16);
        }
        match Handler::ALL.into_iter().find(|handler| handler.step_name() == name) {
            Some(handler) => self.body.handler_no(handler),
            // A number names what is not there.
            None => StepNo(name.parse().unwrap_or_else(|_| panic!("no step {name}"))),
        }
    }

    fn name(&self, no: StepNo) -> &str {
        match usize::from(no.0).checked_sub(self.body.steps.len()) {
            None => &self.body.steps[usize::from(no.0)].name,
            Some(handler) => Handler::ALL[handler].step_name(),
        }
    }

    fn attempt(&self, text: &str) -> (StepNo, u32) {
        let (name, attempt) = text.rsplit_once('.').unwrap_or_else(|| panic!("{text} is no attempt"));
        (self.number(name), attempt.parse().unwrap())
    }

    fn next_text(&self, next: &Next) -> String {
        match next {
            Next::Start { step, attempt } => format!("start {}.{attempt}", self.name(*step)),
            Next::RetryAt { step, at_mono } => format!("retry {} at {at_mono}", self.name(*step)),
            Next::Stop { step, attempt } => format!("stop {}.{attempt}", self.name(*step)),
            Next::End { status, message: None } => format!("end {}", status.word()),
            Next::End { status, message: Some(message) } => format!("end {}: {message}", status.word()),
        }
    }
}

fn attribute(step: &mut Step, text: &str) {
    let codes = |text: &str| text.split(',').map(|code| code.parse().unwrap()).collect();
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        [] => {}
        ["retry", limit, interval, ref rest @ ..] => {
            let (limit, interval_ms) = (limit.parse().unwrap(), interval.parse().unwrap());
            step.retry = Retry { limit, interval_ms, ..Retry::default() };
            for pair in rest.chunks(2) {
                match pair {
                    ["times", factor] => step.retry.backoff = factor.parse().unwrap(),
                    ["most", cap] => step.retry.interval_ms_max = cap.parse().unwrap(),
                    ["codes", list] => step.retry.exit_codes = codes(list),
                    _ => panic!("retry {pair:?}?"),
                }
            }
        }
        ["continue", ref rest @ ..] => {
            let on: &mut ContinueOn = &mut step.continue_on;
            for word in rest {
                match *word {
                    "failure" => on.failure = true,
                    "skipped" => on.skipped = true,
                    "mark" => on.mark_success = true,
                    list => on.exit_codes = codes(list),
                }
            }
        }
        ["output", name] => step.output = Some(name.into()),
        ["timeout", ms] => step.timeout_ms = Some(ms.parse().unwrap()),
        _ => panic!("what is {text:?}?"),
    }
}

fn outcome(words: &[&str]) -> (Outcome, Option<Box<str>>) {
    let rest = || -> Box<str> { words[1..].join(" ").into() };
    let outcome = match *words {
        ["ok"] => Outcome::Exited(0),
        ["ok", output] => return (Outcome::Exited(0), Some(output.into())),
        ["exit", code] => Outcome::Exited(code.parse().unwrap()),
        ["exit", code, output] => return (Outcome::Exited(code.parse().unwrap()), Some(output.into())),
        ["signal", signal] => Outcome::Signaled(signal.parse().unwrap()),
        ["timeout"] => Outcome::TimedOut,
        ["stopped"] => Outcome::Stopped,
        ["unmet", ..] => Outcome::PreconditionUnmet(rest()),
        ["job-unmet", ..] => Outcome::JobPreconditionUnmet(rest()),
        ["nostart", ..] => Outcome::NotStarted(rest()),
        ["lost"] => Outcome::Lost,
        _ => panic!("what is {words:?}?"),
    };
    (outcome, None)
}

fn record_text(record: &StepRecord) -> String {
    let mut text = format!("{} {}", record.name, record.status.word());
    if record.attempt > 0 {
        write!(text, " {}", record.attempt).unwrap();
    }
    if record.lost > 0 {
        write!(text, " lost {}", record.lost).unwrap();
    }
    if let Some(code) = record.exit_code {
        write!(text, " exit {code}").unwrap();
    }
    if let Some(message) = &record.message {
        write!(text, ": {message}").unwrap();
    }
    text
}
