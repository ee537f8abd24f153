//! What a person wants to know about a target.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::claim::Work;
use crate::events::{self, Event};
use crate::files::{BuildQueue, Checked, Schedule};
use crate::ledger::Ledger;
use crate::rules::forecast::{Forecast, forecast};
use crate::{FuzzError, Pipeline};

/// A target at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The commit up to which everything is decided.
    pub last_checked: Option<String>,
    /// Waiting for a build, oldest first.
    pub queue: Vec<String>,
    /// Built, not scheduled yet.
    pub built: Vec<String>,
    /// Did not build, with the reason where it is recorded.
    pub failed: Vec<(String, Option<String>)>,
    /// Scheduled, oldest first, with how often it was fuzzed.
    pub schedule: Vec<(String, u64)>,
    /// Who works on what.
    pub claims: Vec<ClaimView>,
    /// What to expect.
    pub forecast: Forecast,
    /// Commits that left without having been fuzzed, ever.
    pub expired_unfuzzed: u64,
    /// What happened in the last week, oldest first.
    pub events: Vec<Event>,
}

/// Somebody at work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimView {
    /// At what.
    pub work: Work,
    /// On which commit.
    pub hash: String,
    /// Who.
    pub owner: String,
    /// Which attempt.
    pub attempt: u32,
    /// Since when, milliseconds since the epoch.
    pub taken_at: i64,
    /// Until when, unless renewed.
    pub until: i64,
    /// Whether that has passed: somebody else may take it over.
    pub expired: bool,
}

/// How far back a status looks.
const WEEK: i64 = 7 * 24 * 60 * 60 * 1000;

impl Pipeline {
    /// Reads everything and changes nothing.
    pub async fn status(&self) -> Result<Status, FuzzError> {
        let now = self.now();
        let state: Checked = self.read().await?;
        let queue: BuildQueue = self.read().await?;
        let plan: Schedule = self.read().await?;
        let (ledger, _) = Ledger::read(&self.bucket, &self.keys).await?;
        let events = events::read(&self.bucket, &self.keys, now.saturating_sub(WEEK)).await?;
        let mut reasons: BTreeMap<&str, &str> = BTreeMap::new();
        for event in events.iter().filter(|event| event.after == crate::CommitState::Failed) {
            reasons.insert(&event.hash, &event.reason);
        }
        let failed = |hash: &String| (hash.clone(), reasons.get(hash.as_str()).map(ToString::to_string));
        let failed = queue.failed.iter().map(failed).collect();
        let mut claims = Vec::new();
        for work in [Work::Build, Work::Fuzz] {
            for (hash, found) in self.claims().all(work).await? {
                let record = found.record;
                if record.until != 0 || record.ending.is_some() {
                    claims.push(ClaimView {
                        work,
                        hash,
                        expired: record.is_expired(now),
                        owner: record.owner,
                        attempt: record.attempt,
                        taken_at: record.taken_at,
                        until: record.until,
                    });
                }
            }
        }
        let target = &self.target;
        Ok(Status {
            forecast: forecast(
                target.overload,
                &target.limits,
                target.budgets.slots_per_day,
                ledger.arrivals_per_day(),
                plan.unfuzzed(),
                queue.queue.len() + queue.built.len(),
            ),
            last_checked: state.last,
            queue: queue.queue,
            built: queue.built,
            failed,
            schedule: plan.entries.into_iter().map(|entry| (entry.hash, entry.fuzz_count)).collect(),
            claims,
            expired_unfuzzed: ledger.expired_unfuzzed,
            events,
        })
    }
}

impl Status {
    /// What is worth watching, in Prometheus' text format, for a collector of text files.
    pub fn to_prometheus(&self, target: &str, now: i64) -> String {
        let at_work = self.claims.iter().filter(|claim| !claim.expired && claim.until > now).count();
        let unfuzzed = self.schedule.iter().filter(|(_, count)| *count == 0).count();
        let mut text = String::new();
        for (name, kind, help, value) in [
            (
                "expired_unfuzzed_total",
                "counter",
                "Commits whose binaries expired before they were fuzzed.",
                self.expired_unfuzzed as f64,
            ),
            ("queue", "gauge", "Commits that wait to be built.", self.queue.len() as f64),
            ("built", "gauge", "Commits that are built and not handed over yet.", self.built.len() as f64),
            ("failed", "gauge", "Commits that did not build.", self.failed.len() as f64),
            ("scheduled", "gauge", "Commits that are fuzzed in turn.", self.schedule.len() as f64),
            ("scheduled_unfuzzed", "gauge", "Those of them that were never fuzzed.", unfuzzed as f64),
            ("at_work", "gauge", "Builds and fuzz runs that are on.", at_work as f64),
            (
                "expired_unfuzzed_per_day",
                "gauge",
                "Commits expected to expire unfuzzed each day.",
                self.forecast.expired_unfuzzed_per_day,
            ),
        ] {
            let name = format!("cadran_fuzz_{name}");
            text.push_str(&format!(
                "# HELP {name} {help}\n# TYPE {name} {kind}\n{name}{{target=\"{target}\"}} {value}\n"
            ));
        }
        text
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        let claim = |claim: &ClaimView| {
            json!({
                "work": match claim.work { Work::Build => "build", Work::Fuzz => "fuzz", Work::Manage => "manage" },
                "hash": claim.hash,
                "owner": claim.owner,
                "attempt": claim.attempt,
                "taken_at": claim.taken_at,
                "until": claim.until,
                "expired": claim.expired,
            })
        };
        let failed = |(hash, reason): &(String, Option<String>)| json!({"hash": hash, "reason": reason});
        let entry = |(hash, count): &(String, u64)| json!({"hash": hash, "fuzz_count": count});
        let forecast = &self.forecast;
        json!({
            "last_checked_commit": self.last_checked,
            "queue": self.queue,
            "built": self.built,
            "failed": self.failed.iter().map(failed).collect::<Vec<_>>(),
            "schedule": self.schedule.iter().map(entry).collect::<Vec<_>>(),
            "claims": self.claims.iter().map(claim).collect::<Vec<_>>(),
            "expired_unfuzzed": self.expired_unfuzzed,
            "forecast": {
                "slots_per_day": forecast.slots_per_day,
                "arrivals_per_day": forecast.arrivals_per_day,
                "waiting": forecast.waiting,
                "wait_days": forecast.wait_days,
                "full_in_days": forecast.full_in_days,
                "expired_unfuzzed_per_day": forecast.expired_unfuzzed_per_day,
                "commits_per_run": forecast.commits_per_run,
            },
            "events": self.events.iter().map(Event::to_json).collect::<Vec<_>>(),
        })
    }
}
