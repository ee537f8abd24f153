//! Rows in short, and rows by their ids: what an index of the record is made from, and how its finds are read.

use cadran_core::{JobId, Millis, RunId, RunStatus, SkipReason, Trigger};

use crate::query::{JobView, LIMIT_MAX, RunView, SkipView};
use crate::read::{self, numbers_text};
use crate::source::{Dialect, Fields, Question, Source};
use crate::{StoreError, code, text};

/// Rows in short that one question answers.
pub const HEADS_MAX: u32 = 20_000;

/// A run without its texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunHead {
    /// The run.
    pub run: RunId,
    /// Its job.
    pub job: JobId,
    /// Its due.
    pub due: Millis,
    /// Why it exists.
    pub trigger: Trigger,
    /// Where it stands.
    pub status: RunStatus,
    /// First start.
    pub started_at: Option<Millis>,
    /// End.
    pub ended_at: Option<Millis>,
    /// Why it was skipped.
    pub skip: Option<SkipReason>,
    /// Values given with the trigger.
    pub params: Vec<(Box<str>, Box<str>)>,
}

pub(crate) async fn run_heads(
    source: &impl Source,
    before: Option<RunId>,
    limit: u32,
) -> Result<Vec<RunHead>, StoreError> {
    let before = before.map_or(i64::MAX, code::run_code);
    let sql = "select run, job, due, trigger, status, started_at, ended_at, skip, params from runs \
         where run < $1 order by run desc limit $2";
    let question = Question::new("run_heads", sql).int(before).int(limit.min(HEADS_MAX).into());
    let mut heads = Vec::new();
    source
        .each(question, &mut |row| {
            heads.push(run_head(row)?);
            Ok(())
        })
        .await?;
    Ok(heads)
}

fn run_head(row: &dyn Fields) -> Result<RunHead, String> {
    let (trigger, status, skip) = (row.int(3)?, row.int(4)?, row.maybe_int(7)?);
    Ok(RunHead {
        run: code::run(row.int(0)?),
        job: read::job(row, 1)?,
        due: row.int(2)?,
        trigger: code::trigger(trigger).ok_or_else(|| format!("no trigger has code {trigger}"))?,
        status: code::status(status).ok_or_else(|| format!("no run status has code {status}"))?,
        started_at: row.maybe_int(5)?,
        ended_at: row.maybe_int(6)?,
        skip: skip
            .map(|skip| code::reason(skip).ok_or_else(|| format!("no reason has code {skip}")))
            .transpose()?,
        params: text::trigger_input(row.maybe_text(8)?)?.0,
    })
}

/// Runs by their ids, newest first.
pub(crate) async fn runs_by_id(source: &impl Source, runs: &[RunId]) -> Result<Vec<RunView>, StoreError> {
    let list = list_of(runs.iter().map(|run| code::run_code(*run)));
    let sql = format!(
        "select {}, j.name from runs r join jobs j on j.job = r.job where r.run in {} order by r.run desc",
        read::RUN_COLUMNS,
        values(source)
    );
    read::run_views(source, Question::new("runs_by_id", sql).text(list)).await
}

/// Skips by their ids, newest first.
pub(crate) async fn skips_by_id(source: &impl Source, skips: &[RunId]) -> Result<Vec<SkipView>, StoreError> {
    let list = list_of(skips.iter().map(|skip| code::run_code(*skip)));
    let sql = format!("{} where s.id in {} order by s.id desc", read::SKIPS, values(source));
    read::skip_views(source, Question::new("skips_by_id", sql).text(list)).await
}

/// Jobs by their numbers, in no order.
pub(crate) async fn jobs_by_id(source: &impl Source, jobs: &[JobId]) -> Result<Vec<JobView>, StoreError> {
    let list = list_of(jobs.iter().map(|job| i64::from(job.0)));
    let sql = format!("{} where j.job in {}", read::job_view_sql(), values(source));
    read::job_views(source, Question::new("jobs_by_id", sql).text(list)).await
}

fn list_of(numbers: impl Iterator<Item = i64>) -> String {
    numbers_text(numbers.take(LIMIT_MAX as usize))
}

fn values<S: Source>(_: &S) -> &'static str {
    match S::DIALECT {
        Dialect::Sqlite => "(select value from json_each($1))",
        Dialect::Postgres => "(select value::bigint from json_array_elements_text($1::json))",
    }
}
