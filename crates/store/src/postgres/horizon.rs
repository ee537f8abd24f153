//! Which runs are open, at next to no cost per run.
//!
//! Runs from the horizon on are looked through when someone asks; of those below it the open ones are listed. The
//! horizon rises now and then, one period behind the newest run, so that most runs have ended before it reaches them
//! and are never listed at all.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use sqlx::PgConnection;

use super::Postgres;
use crate::code::run_code;
use crate::fold::Folded;

/// Runs between two rises. Twice as many are looked through at most, some ten milliseconds; at ten thousand runs a
/// second a run has ten to twenty seconds to end before it is listed.
const PERIOD_RUNS: u64 = 100_000;

#[derive(Debug, Default)]
pub(crate) struct Horizon {
    /// Runs promised since the last rise.
    promised: AtomicU64,
    /// The newest run.
    newest: AtomicI64,
    /// The newest run at the last rise: where the next one goes.
    next: AtomicI64,
}

impl Horizon {
    /// Takes note of what was committed.
    pub(crate) fn count(&self, folded: &Folded<'_>) {
        let newest = folded.promised.iter().map(|(promise, _)| run_code(promise.run)).max();
        self.newest.fetch_max(newest.unwrap_or(0), Ordering::Relaxed);
        self.promised.fetch_add(folded.promised.len() as u64, Ordering::Relaxed);
    }
}

/// Waits for a rise that is under way and holds off the next one until the end of the transaction.
const HOLD: &str = "select run from open_horizon for share";

const LIST: &str = "insert into open_runs select r.run from runs r where r.run = any($1) and r.status < 3 \
     on conflict do nothing";
const UNLIST: &str = "delete from open_runs o where o.run = any($1) \
     and not exists (select from runs r where r.run = o.run and r.status < 3)";

/// Lists what a batch opened below the horizon, and what it ended there no longer.
pub(crate) async fn keep_open(connection: &mut PgConnection, folded: &Folded<'_>) -> Result<(), sqlx::Error> {
    if folded.promised.is_empty() && folded.changes.is_empty() {
        return Ok(());
    }
    let horizon: i64 = sqlx::query_scalar(HOLD).fetch_one(&mut *connection).await?;
    let promised = folded.promised.iter().map(|(promise, _)| run_code(promise.run));
    let changed = folded.changes.iter().map(|change| run_code(change.update.run));
    let below: Vec<i64> = promised.chain(changed).filter(|run| *run < horizon).collect();
    if !below.is_empty() {
        sqlx::query(LIST).bind(&below).execute(&mut *connection).await?;
        sqlx::query(UNLIST).bind(&below).execute(&mut *connection).await?;
    }
    Ok(())
}

impl Postgres {
    /// Raises the horizon when a period is over. A failure is left to the next period: it costs time, not truth.
    pub(crate) async fn raise_horizon(&self) {
        if self.horizon.promised.load(Ordering::Relaxed) < PERIOD_RUNS {
            return;
        }
        self.horizon.promised.store(0, Ordering::Relaxed);
        let to = self.horizon.next.swap(self.horizon.newest.load(Ordering::Relaxed), Ordering::Relaxed);
        let _ = self.raise_to(to).await;
    }

    /// Raises the horizon to the newest run there is.
    pub(crate) async fn raise_horizon_to_end(&self) -> Result<(), sqlx::Error> {
        let newest: Option<i64> =
            sqlx::query_scalar("select max(run) from runs").fetch_one(&self.writers).await?;
        let Some(newest) = newest else { return Ok(()) };
        self.horizon.newest.store(newest, Ordering::Relaxed);
        self.horizon.next.store(newest, Ordering::Relaxed);
        self.raise_to(newest).await
    }

    async fn raise_to(&self, to: i64) -> Result<(), sqlx::Error> {
        let mut transaction = self.writers.begin().await?;
        let from: i64 = sqlx::query_scalar("select run from open_horizon for update")
            .fetch_one(&mut *transaction)
            .await?;
        if to > from {
            sqlx::query(
                "insert into open_runs select run from runs where run >= $1 and run < $2 and status < 3 \
                 on conflict do nothing",
            )
            .bind(from)
            .bind(to)
            .execute(&mut *transaction)
            .await?;
            sqlx::query("update open_horizon set run = $1").bind(to).execute(&mut *transaction).await?;
        }
        transaction.commit().await
    }
}
