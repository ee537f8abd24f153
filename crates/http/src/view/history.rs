use cadran_core::{Millis, RunId, RunRecord, Skip};
use serde::Serialize;
use utoipa::ToSchema;

use super::RunItem;
use crate::instant;

/// A stretch of dues that never became runs.
#[derive(Serialize, ToSchema)]
pub(crate) struct SkipItem {
    /// Names the stretch; from the same sequence as run ids.
    id: String,
    /// The job.
    job: String,
    first_due: String,
    first_due_ms: Millis,
    last_due: String,
    last_due_ms: Millis,
    /// How many dues.
    count: u64,
    /// Why, as a word.
    reason: &'static str,
    /// Why, in a sentence.
    explanation: &'static str,
    /// When it was decided.
    at: String,
    at_ms: Millis,
}

impl SkipItem {
    pub(crate) fn new(job: &str, skip: &Skip) -> SkipItem {
        SkipItem {
            id: skip.id.to_string(),
            job: job.to_owned(),
            first_due: instant::to_text(skip.first_due),
            first_due_ms: skip.first_due,
            last_due: instant::to_text(skip.last_due),
            last_due_ms: skip.last_due,
            count: skip.count,
            reason: skip.reason.word(),
            explanation: skip.reason.sentence(),
            at: instant::to_text(skip.at),
            at_ms: skip.at,
        }
    }
}

/// One line of a history: a run, or dues that never became one.
#[derive(Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum HistoryItem {
    /// A run.
    Run(RunItem),
    /// A stretch of skipped dues.
    Skip(SkipItem),
}

/// Merges runs and skips, both newest first, by their ids: both come from one sequence that rises with time. At most
/// `limit` lines; also the id below which the next page starts, when there may be one.
pub(crate) fn merge(
    runs: Vec<(String, RunRecord)>,
    skips: Vec<(String, Skip)>,
    limit: usize,
) -> (Vec<HistoryItem>, Option<RunId>) {
    let more = runs.len() >= limit || skips.len() >= limit;
    let mut runs = runs.into_iter().peekable();
    let mut skips = skips.into_iter().peekable();
    let mut items = Vec::with_capacity(limit);
    let mut last = None;
    while items.len() < limit {
        let run = runs.peek().map(|(_, record)| record.promise.run);
        let skip = skips.peek().map(|(_, skip)| skip.id);
        if run.is_none() && skip.is_none() {
            break;
        }
        if run >= skip {
            if let Some((job, record)) = runs.next() {
                items.push(HistoryItem::Run(RunItem::new(&job, &record)));
            }
            last = run;
        } else {
            if let Some((job, skip)) = skips.next() {
                items.push(HistoryItem::Skip(SkipItem::new(&job, &skip)));
            }
            last = skip;
        }
    }
    let left = runs.peek().is_some() || skips.peek().is_some();
    (items, last.filter(|_| more || left))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cadran_core::{JobId, Promise, RunStatus, RunUpdate, SkipReason, Trigger};

    fn run(id: u64) -> (String, RunRecord) {
        let run = RunId::from_raw(id);
        let promise = Promise {
            run,
            job: JobId(1),
            revision: 1,
            due: 0,
            trigger: Trigger::Schedule,
            promised_at: 0,
            params: Vec::new(),
            addresses: Vec::new(),
            parent: None,
        };
        let state = RunUpdate { status: RunStatus::Succeeded, attempt: 1, ..RunUpdate::promised(run) };
        ("job".into(), RunRecord { promise, state })
    }

    fn skip(id: u64) -> (String, Skip) {
        let skip = Skip {
            id: RunId::from_raw(id),
            job: JobId(1),
            first_due: 0,
            last_due: 0,
            count: 1,
            reason: SkipReason::Paused,
            at: 0,
        };
        ("job".into(), skip)
    }

    #[test]
    fn runs_and_skips_are_merged_newest_first() {
        let check = |runs: &[u64], skips: &[u64], limit: usize, expected: &[u64], next: Option<u64>| {
            let made = merge(
                runs.iter().copied().map(run).collect(),
                skips.iter().copied().map(skip).collect(),
                limit,
            );
            let ids: Vec<String> = made
                .0
                .iter()
                .map(|item| match item {
                    HistoryItem::Run(run) => {
                        serde_json::to_value(run).unwrap()["id"].as_str().unwrap().to_owned()
                    }
                    HistoryItem::Skip(skip) => skip.id.clone(),
                })
                .collect();
            let expected: Vec<String> = expected.iter().map(|id| RunId::from_raw(*id).to_string()).collect();
            assert_eq!(ids, expected, "{runs:?} {skips:?} {limit}");
            assert_eq!(made.1, next.map(RunId::from_raw), "{runs:?} {skips:?} {limit}");
        };
        check(&[], &[], 3, &[], None);
        check(&[5, 2], &[], 3, &[5, 2], None);
        check(&[], &[4], 3, &[4], None);
        check(&[5, 2], &[4], 4, &[5, 4, 2], None);
        check(&[9, 7, 5], &[8, 6, 4], 3, &[9, 8, 7], Some(7));
        check(&[9, 7, 5], &[], 3, &[9, 7, 5], Some(5));
        check(&[9], &[8, 7], 2, &[9, 8], Some(8));
    }
}
