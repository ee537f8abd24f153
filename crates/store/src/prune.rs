//! Forgetting what a job's history no longer keeps, a slice of the jobs at a time.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};

use cadran_core::{Millis, RunId};

use crate::StoreError;
use crate::code::{self, DAY_MS};
use crate::source::{Dialect, Question, Source};

/// Jobs looked at by one call: some ten milliseconds of reading when none of them has anything to forget.
const JOBS_PER_CALL: i64 = 4096;
/// Of one job that counts days, so many of its oldest rows are looked at by one call, however long its history is.
const ROWS_PER_JOB: i64 = 512;

/// What the finding part hands to the forgetting part.
pub(crate) struct Expired {
    /// Candidates; a run that was opened again meanwhile stays.
    pub(crate) runs: Vec<i64>,
    pub(crate) skips: Vec<i64>,
    /// Jobs of the slice, whose old definitions may go when no run is as old as they are.
    pub(crate) jobs: std::ops::RangeInclusive<i64>,
}

pub(crate) trait Forget: Source {
    /// The job at which the next call goes on.
    fn prune_from(&self) -> &AtomicU32;

    /// Deletes in one transaction. Returns the runs that went.
    fn forget(&self, expired: &Expired) -> impl Future<Output = Result<Vec<RunId>, StoreError>> + Send;
}

pub(crate) async fn prune(store: &impl Forget, now: Millis, limit: u32) -> Result<Vec<RunId>, StoreError> {
    let from = i64::from(store.prune_from().load(Ordering::Relaxed));
    let sql = "select max(job) from (select job from jobs where job >= $1 order by job limit $2) slice";
    let mut last = None;
    let slice = Question::new("prune", sql).int(from).int(JOBS_PER_CALL);
    store
        .each(slice, &mut |row| {
            last = row.maybe_int(0)?;
            Ok(())
        })
        .await?;
    let Some(last) = last else {
        store.prune_from().store(0, Ordering::Relaxed);
        return Ok(Vec::new());
    };
    let mut expired = Expired { runs: Vec::new(), skips: Vec::new(), jobs: from..=last };
    let mut full = false;
    for (table, rows) in [(&RUNS, &mut expired.runs), (&SKIPS, &mut expired.skips)] {
        for sql in [table.by_days(dialect(store)), table.by_count()] {
            let left = i64::from(limit) - rows.len() as i64;
            let question =
                Question::new("prune", sql).about(table.name).int(from).int(last).int(now).int(left);
            store
                .each(question, &mut |row| {
                    rows.push(row.int(0)?);
                    Ok(())
                })
                .await?;
        }
        full |= rows.len() as i64 >= i64::from(limit);
    }
    let gone = store.forget(&expired).await?;
    // A slice with more to forget than the limit is looked at again.
    let next = if full { from } else { last + 1 };
    store.prune_from().store(u32::try_from(next).unwrap_or(0), Ordering::Relaxed);
    Ok(gone)
}

/// A table of rows that belong to jobs and expire: its key, the moment that counts for days, and the condition of
/// rows that may go.
struct Table {
    name: &'static str,
    key: &'static str,
    moment: &'static str,
    over: &'static str,
}

const RUNS: Table =
    Table { name: "runs", key: "run", moment: "coalesce(x.ended_at, x.promised_at)", over: "x.status >= 3" };
const SKIPS: Table = Table { name: "skips", key: "id", moment: "x.at", over: "x.at is not null" };

impl Table {
    /// Rows of jobs `$1` to `$2` that ended more days before `$3` than their job keeps, `$4` at most. The oldest row
    /// of a job is tried first, so that a job with nothing to forget costs one look.
    fn by_days(&self, dialect: Dialect) -> String {
        let Table { name, key, moment, over } = self;
        let cutoff = format!("$3 - j.history_amount * {DAY_MS}");
        let oldest = format!(
            "(select {moment} from {name} x where x.job = j.job and {over} order by x.{key} limit 1)"
        );
        let rows = match dialect {
            Dialect::Sqlite => format!(
                "cross join {name} x on x.{key} in \
                 (select y.{key} from {name} y where y.job = j.job order by y.{key} limit {ROWS_PER_JOB})"
            ),
            Dialect::Postgres => format!(
                "cross join lateral (select * from {name} y where y.job = j.job order by y.{key} limit {ROWS_PER_JOB}) x"
            ),
        };
        format!(
            "select x.{key} from jobs j {rows} where j.job between $1 and $2 and j.history_kind = 0 \
             and {oldest} < {cutoff} and {over} and {moment} < {cutoff} limit $4"
        )
    }

    /// Rows of jobs `$1` to `$2` beyond the newest that their job keeps, `$4` at most. Counting them by the index
    /// alone comes first.
    fn by_count(&self) -> String {
        let Table { name, key, over, .. } = self;
        format!(
            "select p.{key} from (select x.{key}, j.history_amount as keep, \
             row_number() over (partition by x.job order by x.{key} desc) as place \
             from jobs j join {name} x on x.job = j.job \
             where j.job between $1 and $2 and j.history_kind = 1 and {over} \
             and (select count(*) from {name} y where y.job = j.job) > j.history_amount) p \
             where p.place > p.keep and $3 = $3 order by p.{key} limit $4"
        )
    }
}

fn dialect<S: Source>(_: &S) -> Dialect {
    S::DIALECT
}

/// Numbers that came from the store, as runs.
pub(crate) fn run_ids(numbers: impl IntoIterator<Item = i64>) -> Vec<RunId> {
    numbers.into_iter().map(code::run).collect()
}
