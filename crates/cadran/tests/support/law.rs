//! The law: every due has exactly one record, and what jobs did agrees with it.
//!
//! The truth is what jobs wrote (`ledger`) and the arithmetic of their schedules; the record is what is judged. All jobs
//! here have dues at the multiples of a period, so that no code of the server is asked what should have happened.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::ledger::{Entry, Ledger};
use super::{PATIENCE, Server};

/// A job as the checker knows it.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub job: &'static str,
    /// Dues are the multiples of this.
    pub period_ms: i64,
    /// `retry: never`.
    pub at_most_once: bool,
    /// Its steps fail on purpose and are tried again.
    pub fails: bool,
    /// Steps that write to the ledger.
    pub steps: usize,
}

/// What the checker found.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Dues that had to be recorded.
    pub dues: u64,
    pub runs: u64,
    /// Dues that were skipped, by reason.
    pub skips: BTreeMap<String, u64>,
    /// Starts in the ledger.
    pub starts: u64,
    /// Starts of a step that had been started before.
    pub second_starts: u64,
    /// Dues without a record, and successes that nobody saw.
    pub lost: u64,
    /// Dues with two records, starts of one attempt twice, attempts alive together.
    pub doubled: u64,
    /// Runs of the window that have not ended.
    pub open: u64,
    /// The same in words.
    pub open_runs: Vec<String>,
    /// The first few findings in words.
    pub findings: Vec<String>,
}

/// More findings than a person reads.
const FINDINGS_MAX: usize = 40;

impl Verdict {
    fn find(&mut self, finding: String) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }

    pub fn is_clean(&self) -> bool {
        self.lost == 0 && self.doubled == 0 && self.open == 0 && self.findings.is_empty()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "dues {}, runs {}, skips {:?}, starts {}, started again {}, lost = {}, doubled = {}",
            self.dues, self.runs, self.skips, self.starts, self.second_starts, self.lost, self.doubled
        )?;
        self.findings
            .iter()
            .chain(self.open_runs.iter().take(FINDINGS_MAX))
            .try_for_each(|finding| write!(f, "\n  {finding}"))
    }
}

/// The stretch of time that is judged, and what was done to the server in it.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// No due before this can be recorded: the jobs were not there.
    pub earliest_ms: i64,
    /// Dues after this …
    pub from_ms: i64,
    /// … and up to this must be recorded.
    pub to_ms: i64,
    /// From each kill to the next server: what the killed one left may still write in between.
    pub kills_ms: Vec<(i64, i64)>,
    /// The server's clock was set meanwhile, so its instants cannot be compared with those of the ledger.
    pub jumps: bool,
}

/// Judges the whole record against the ledger. Starts are read before the record and ends after it: what was started is
/// on record by then, and what is on record as done was done.
pub fn judge(server: &Server, ledger: &Ledger, rules: &[Rule], window: &Window) -> Verdict {
    let mut entries = ledger.entries();
    let histories: Vec<Vec<Value>> = rules.iter().map(|rule| server.history(rule.job)).collect();
    let later = ledger.entries().split_off(entries.len());
    entries.extend(later.into_iter().filter(|entry| !entry.start));
    let mut verdict = Verdict::default();
    for (rule, history) in rules.iter().zip(&histories) {
        judge_dues(rule, history, window, &mut verdict);
        let of_job: Vec<&Entry> = entries.iter().filter(|entry| entry.job == rule.job).collect();
        judge_starts(rule, history, &of_job, window, &mut verdict);
    }
    verdict
}

/// The verdict once everything of the window has ended and is on record. A backlog may take its time; patience ends when
/// nothing moves any more, or when something happened twice, which no waiting heals.
#[allow(clippy::disallowed_methods)]
pub fn settle(server: &Server, ledger: &Ledger, rules: &[Rule], window: &Window) -> Verdict {
    let (mut least, mut moved) = (u64::MAX, Instant::now());
    loop {
        let verdict = judge(server, ledger, rules, window);
        let left = verdict.lost + verdict.open;
        if left < least {
            (least, moved) = (left, Instant::now());
        }
        if verdict.is_clean() || verdict.doubled > 0 || moved.elapsed() > PATIENCE {
            return verdict;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Every due has one record, every record has one due.
pub fn judge_dues(rule: &Rule, history: &[Value], window: &Window, verdict: &mut Verdict) {
    let Rule { job, period_ms, .. } = *rule;
    let mut records: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    for item in history {
        let number = |name: &str| item[name].as_i64().unwrap_or_else(|| panic!("no {name} in {item}"));
        let id = item["id"].as_str().unwrap_or_default();
        if item["kind"] == "run" {
            if item["trigger"] != "manual" {
                records.entry(number("due_ms")).or_default().push(format!("run {id} {}", item["status"]));
            }
            let in_window = number("due_ms") <= window.to_ms;
            if in_window {
                verdict.runs += 1;
                if item["ended"] == false {
                    verdict.open += 1;
                    verdict.open_runs.push(format!("{job}: run {id} is not over: {item}"));
                }
            }
            if let Some(reason) = item["skip_reason"].as_str() {
                *verdict.skips.entry(reason.into()).or_default() += 1;
            }
        } else {
            let (first, last) = (number("first_due_ms"), number("last_due_ms"));
            let reason = item["reason"].as_str().unwrap_or_default();
            let stretch = multiples(first - 1, last, period_ms);
            let (count, held) = (number("count"), stretch.clone().count() as i64);
            if count != held {
                verdict.find(format!("{job}: skip {id} counts {count} dues and spans {held}: {item}"));
            }
            *verdict.skips.entry(reason.into()).or_default() += count.max(0) as u64;
            for due in stretch {
                records.entry(due).or_default().push(format!("skip {id} {reason}"));
            }
        }
    }
    for due in multiples(window.from_ms, window.to_ms, period_ms) {
        verdict.dues += 1;
        if !records.contains_key(&due) {
            verdict.lost += 1;
            verdict.find(format!("{job}: due {due} has no record"));
        }
    }
    for (due, of_due) in &records {
        if of_due.len() > 1 {
            verdict.doubled += 1;
            verdict.find(format!("{job}: due {due} has {} records: {}", of_due.len(), of_due.join(", ")));
        }
        if due % period_ms != 0 || *due <= window.earliest_ms {
            verdict.find(format!("{job}: {due} is no due of this job: {}", of_due.join(", ")));
        }
    }
}

/// What jobs did agrees with the record.
pub fn judge_starts(
    rule: &Rule,
    history: &[Value],
    entries: &[&Entry],
    window: &Window,
    verdict: &mut Verdict,
) {
    let job = rule.job;
    let runs: BTreeMap<&str, &Value> = history
        .iter()
        .filter(|item| item["kind"] == "run")
        .filter_map(|item| Some((item["id"].as_str()?, item)))
        .collect();
    let mut run_of_due: BTreeMap<&str, &str> = BTreeMap::new();
    let mut last_of: BTreeMap<(&str, &str), &Entry> = BTreeMap::new();
    let mut ended: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for entry in entries {
        let Entry { run, step, attempt, at_ms, .. } = *entry;
        if !entry.start {
            ended.entry(run).or_default().insert(step);
            continue;
        }
        verdict.starts += 1;
        let Some(record) = runs.get(run.as_str()) else {
            verdict.find(format!("{job}: run {run} was started and is not on record: {entry:?}"));
            continue;
        };
        if record["due"] != entry.due.as_str() || record["status"] == "skipped" {
            verdict.find(format!("{job}: {entry:?} was started and the record says {record}"));
        }
        if !window.jumps && record["ended_at_ms"].as_i64().is_some_and(|ended| *at_ms > ended) {
            verdict.find(format!("{job}: {entry:?} was started after the end: {record}"));
        }
        if record["trigger"] != "manual" && *run_of_due.entry(&entry.due).or_insert(run) != run {
            verdict.doubled += 1;
            verdict.find(format!("{job}: due {} ran as {} and {run}", entry.due, run_of_due[&*entry.due]));
        }
        if entry.both {
            verdict.doubled += 1;
            verdict.find(format!("{job}: an earlier attempt was still alive: {entry:?}"));
        }
        if let Some(before) = last_of.insert((run, step), entry) {
            verdict.second_starts += 1;
            if *attempt <= before.attempt {
                verdict.doubled += 1;
                verdict.find(format!("{job}: started again without a higher attempt: {before:?}, {entry:?}"));
            }
            if rule.at_most_once {
                verdict.doubled += 1;
                verdict
                    .find(format!("{job}: retry is never, and it was started twice: {before:?}, {entry:?}"));
            }
            let killed = window.kills_ms.iter().any(|(from, to)| *from <= entry.at_ms && before.at_ms <= *to);
            if !killed && !rule.fails {
                verdict.doubled += 1;
                verdict
                    .find(format!("{job}: started again without a kill in between: {before:?}, {entry:?}"));
            }
        }
    }
    for (id, record) in runs {
        let steps = ended.get(id).map_or(0, BTreeSet::len);
        let in_window = record["due_ms"].as_i64().is_some_and(|due| due <= window.to_ms);
        if in_window && record["status"] == "succeeded" && steps < rule.steps {
            verdict.lost += 1;
            verdict.find(format!("{job}: run {id} succeeded, and {steps} of {} steps ended", rule.steps));
        }
    }
}

/// The multiples of `period` in `(after, to]`.
pub fn multiples(after: i64, to: i64, period: i64) -> impl Iterator<Item = i64> + Clone {
    (after.div_euclid(period) + 1..=to.div_euclid(period)).map(move |no| no * period)
}
