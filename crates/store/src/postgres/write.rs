use cadran_core::{Batch, JobPut, JobState, Promise, RunId, Skip, TriggerKey};
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{Connection, PgConnection};

use super::{Postgres, horizon};
use crate::code::{history_code, reason_code, run_code, status_code, trigger_code};
use crate::fold::{Change, Folded};
use crate::query::Committed;
use crate::{StoreError, code, keys, text};

/// Rows of one statement: bounds the memory of a message, here and at the server.
const ROWS_MAX: usize = 10_000;

macro_rules! put_columns {
    () => {
        "(job, name, revision, history_kind, history_amount, source, source_mark, definition) \
         select * from unnest($1::bigint[], $2::text[], $3::integer[], $4::smallint[], $5::bigint[], $6::text[], \
         $7::text[], $8::text[])"
    };
}

macro_rules! state_columns {
    () => {
        "(job, watermark, paused_at, holes) select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[])"
    };
}

/// Jobs that are new, nearly all of those that come in large batches.
const PUT_FRESH: &str = concat!("insert into jobs ", put_columns!());

const PUT: &str = concat!(
    "insert into jobs ",
    put_columns!(),
    " on conflict (job) do update set name = excluded.name, revision = excluded.revision, \
     history_kind = excluded.history_kind, history_amount = excluded.history_amount, removed_at = null, \
     source = excluded.source, source_mark = excluded.source_mark, definition = excluded.definition"
);

const DEFINE: &str = "insert into definitions (job, revision, definition) \
     select * from unnest($1::bigint[], $2::integer[], $3::text[]) \
     on conflict (job, revision) do update set definition = excluded.definition";

/// Definitions that are about to be replaced by another revision, given as (job, revision).
const KEEP_DEFINITIONS: &str = "insert into definitions (job, revision, definition) \
     select j.job, j.revision, j.definition from unnest($1::bigint[], $2::integer[]) p (job, revision) \
     join jobs j on j.job = p.job and j.revision <> p.revision \
     on conflict (job, revision) do update set definition = excluded.definition";

const REMOVE: &str = "update jobs j set removed_at = p.at \
     from unnest($1::bigint[], $2::bigint[]) p (job, at) where j.job = p.job";

/// States of jobs that have one: cheaper than an upsert, which locks each row before it changes it.
const CHANGE_STATE: &str = "update job_states s set watermark = p.watermark, paused_at = p.paused_at, holes = p.holes \
     from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[]) p (job, watermark, paused_at, holes) \
     where s.job = p.job";

const PUT_STATE_FRESH: &str = concat!("insert into job_states ", state_columns!());

const PUT_STATE: &str = concat!(
    "insert into job_states ",
    state_columns!(),
    " on conflict (job) do update set watermark = excluded.watermark, paused_at = excluded.paused_at, \
     holes = excluded.holes"
);

const PROMISE: &str = "insert into runs (run, job, revision, due, trigger, promised_at, parent, parent_depth, params, \
     status, attempt, started_at, ended_at, skip, message, steps) \
     select * from unnest($1::bigint[], $2::bigint[], $3::integer[], $4::bigint[], $5::smallint[], $6::bigint[], \
     $7::bigint[], $8::integer[], $9::text[], $10::smallint[], $11::integer[], $12::bigint[], $13::bigint[], \
     $14::smallint[], $15::text[], $16::text[]) on conflict do nothing";

/// Runs of which nothing is known but their due: nearly all.
const PROMISE_FRESH: &str = "insert into runs (run, job, revision, due, trigger, promised_at, status, attempt) \
     select *, 0, 0 from unnest($1::bigint[], $2::bigint[], $3::integer[], $4::bigint[], $5::smallint[], \
     $6::bigint[])";

/// From so many rows on it pays to write them under a savepoint as if none were there yet. Looking for conflicts
/// first costs half as much again as the insert, and conflicts are rare.
const FRESH_MIN: usize = 64;

const MISSING: &str = "select w.run from unnest($1::bigint[]) with ordinality w (run, place) \
     where not exists (select from runs r where r.run = w.run) order by w.place";

const CHANGE: &str = "update runs r set status = p.status, attempt = p.attempt, \
     started_at = p.started_at, ended_at = p.ended_at, skip = p.skip, message = p.message, \
     steps = coalesce(p.steps, r.steps) \
     from unnest($1::bigint[], $2::smallint[], $3::integer[], $4::bigint[], $5::bigint[], $6::smallint[], \
     $7::text[], $8::text[]) p (run, status, attempt, started_at, ended_at, skip, message, steps) \
     where r.run = p.run";

const SKIP: &str = "insert into skips (id, job, first_due, last_due, count, reason, at) \
     select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::smallint[], \
     $7::bigint[]) \
     on conflict (id) do update set job = excluded.job, first_due = excluded.first_due, \
     last_due = excluded.last_due, count = excluded.count, reason = excluded.reason, at = excluded.at";

const KEY: &str = "insert into trigger_keys (key, request, run, at) \
     select * from unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) on conflict (key) do nothing";

impl Postgres {
    pub(crate) async fn commit(&self, batch: &Batch, folded: &Folded<'_>) -> Result<Committed, StoreError> {
        let committed = self
            .write(batch, folded)
            .await
            .map_err(|error| StoreError::from_sqlx("commit", format_args!("{} rows", batch.len()), error))
            .inspect(|_| self.horizon.count(folded))?;
        self.raise_horizon().await;
        Ok(committed)
    }

    async fn write(&self, batch: &Batch, folded: &Folded<'_>) -> Result<Committed, sqlx::Error> {
        let mut writer = Writer { connection: self.writers.acquire().await?, is_kept: false };
        let mut transaction = writer.connection.begin().await?;
        let connection = &mut *transaction;
        write_jobs(connection, batch, folded).await?;
        for states in folded.states.chunks(ROWS_MAX) {
            write_states(connection, states, !folded.jobs.is_empty()).await?;
        }
        let refused = write_runs(connection, folded).await?;
        horizon::keep_open(connection, folded).await?;
        for skips in folded.skips.chunks(ROWS_MAX) {
            write_skips(connection, skips).await?;
        }
        if let Some(horizon) = keys::horizon(batch) {
            sqlx::query(keys::FORGET).bind(horizon).execute(&mut *connection).await?;
        }
        for rows in batch.trigger_keys.chunks(ROWS_MAX) {
            write_keys(connection, rows).await?;
        }
        transaction.commit().await?;
        writer.is_kept = true;
        Ok(Committed { refused })
    }
}

/// A connection for one transaction. Unless that ended well, it is closed: after a commit that was given up, the pool
/// would wait for an answer on it, for as long as the database is silent, and soon have no other connection.
struct Writer {
    connection: PoolConnection<sqlx::Postgres>,
    is_kept: bool,
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.is_kept {
            self.connection.close_on_drop();
        }
    }
}

async fn write_keys(connection: &mut PgConnection, rows: &[TriggerKey]) -> Result<(), sqlx::Error> {
    sqlx::query(KEY)
        .bind(column(rows, keys::text))
        .bind(column(rows, keys::request))
        .bind(column(rows, |key| run_code(key.run)))
        .bind(column(rows, |key| key.at))
        .execute(&mut *connection)
        .await
        .map(drop)
}

/// One column of some rows, as an array.
fn column<'a, T, V>(rows: &'a [T], value: impl FnMut(&'a T) -> V) -> Vec<V> {
    rows.iter().map(value).collect()
}

async fn write_jobs(
    connection: &mut PgConnection,
    batch: &Batch,
    folded: &Folded<'_>,
) -> Result<(), sqlx::Error> {
    for puts in folded.superseded.chunks(ROWS_MAX) {
        sqlx::query(DEFINE)
            .bind(column(puts, |put| i64::from(put.job.0)))
            .bind(column(puts, |put| put.revision as i32))
            .bind(column(puts, |put| &*put.definition))
            .execute(&mut *connection)
            .await?;
    }
    for puts in folded.jobs.chunks(ROWS_MAX) {
        write_puts(connection, puts).await?;
    }
    for removed in batch.removed.chunks(ROWS_MAX) {
        sqlx::query(REMOVE)
            .bind(column(removed, |removed| i64::from(removed.job.0)))
            .bind(column(removed, |removed| removed.at))
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

/// Writes rows as if none were there yet. `None` when one was, and then nothing is written.
async fn write_fresh(
    connection: &mut PgConnection,
    query: Query<'static, sqlx::Postgres, PgArguments>,
) -> Result<Option<u64>, sqlx::Error> {
    let mut attempt = connection.begin().await?;
    match query.execute(&mut *attempt).await {
        Ok(done) => attempt.commit().await.map(|()| Some(done.rows_affected())),
        Err(sqlx::Error::Database(error)) if error.is_unique_violation() => {
            attempt.rollback().await?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

async fn write_puts(connection: &mut PgConnection, puts: &[&JobPut]) -> Result<(), sqlx::Error> {
    if puts.len() >= FRESH_MIN && write_fresh(connection, query_puts(PUT_FRESH, puts)).await?.is_some() {
        return Ok(());
    }
    sqlx::query(KEEP_DEFINITIONS)
        .bind(column(puts, |put| i64::from(put.job.0)))
        .bind(column(puts, |put| put.revision as i32))
        .execute(&mut *connection)
        .await?;
    query_puts(PUT, puts).execute(&mut *connection).await?;
    Ok(())
}

fn query_puts(sql: &'static str, puts: &[&JobPut]) -> Query<'static, sqlx::Postgres, PgArguments> {
    sqlx::query(sql)
        .bind(column(puts, |put| i64::from(put.job.0)))
        .bind(column(puts, |put| put.name.as_str()))
        .bind(column(puts, |put| put.revision as i32))
        .bind(column(puts, |put| history_code(put.history).0))
        .bind(column(puts, |put| history_code(put.history).1))
        .bind(column(puts, |put| &*put.source))
        .bind(column(puts, |put| &*put.source_mark))
        .bind(column(puts, |put| &*put.definition))
}

async fn write_states(
    connection: &mut PgConnection,
    states: &[&JobState],
    with_jobs: bool,
) -> Result<(), sqlx::Error> {
    // Jobs that come with their states are new, most of them; the others have a state already.
    let changed = if with_jobs {
        match states.len() >= FRESH_MIN {
            true => write_fresh(connection, query_states(PUT_STATE_FRESH, states)).await?,
            false => None,
        }
    } else {
        Some(query_states(CHANGE_STATE, states).execute(&mut *connection).await?.rows_affected())
    };
    if changed != Some(states.len() as u64) {
        query_states(PUT_STATE, states).execute(&mut *connection).await?;
    }
    Ok(())
}

fn query_states(sql: &'static str, states: &[&JobState]) -> Query<'static, sqlx::Postgres, PgArguments> {
    sqlx::query(sql)
        .bind(column(states, |state| i64::from(state.job.0)))
        .bind(column(states, |state| state.watermark))
        .bind(column(states, |state| state.paused_at))
        .bind(column(states, |state| text::holes_text(&state.holes)))
}

async fn write_runs(connection: &mut PgConnection, folded: &Folded<'_>) -> Result<Vec<RunId>, sqlx::Error> {
    let mut refused = Vec::new();
    for promised in folded.promised.chunks(ROWS_MAX) {
        let inserted = write_promises(connection, promised).await?;
        if inserted < promised.len() as u64 {
            // Some were recorded before, or their due is held by another run. For the first, what the batch says
            // of them may be newer than what is recorded.
            let joined: Vec<Change<'_>> = promised.iter().filter_map(|(_, change)| *change).collect();
            write_changes(connection, &joined).await?;
            let missing: Vec<i64> = sqlx::query_scalar(MISSING)
                .bind(column(promised, |(promise, _)| run_code(promise.run)))
                .fetch_all(&mut *connection)
                .await?;
            refused.extend(missing.into_iter().map(code::run));
        }
    }
    for changes in folded.changes.chunks(ROWS_MAX) {
        write_changes(connection, changes).await?;
    }
    Ok(refused)
}

/// Returns how many were new.
async fn write_promises(
    connection: &mut PgConnection,
    promised: &[(&Promise, Option<Change<'_>>)],
) -> Result<u64, sqlx::Error> {
    let plain = promised.iter().all(|(promise, change)| {
        change.is_none() && text::trigger_input_text(promise).is_none() && promise.parent.is_none()
    });
    if plain
        && promised.len() >= FRESH_MIN
        && let Some(inserted) = write_fresh(connection, query_promises(PROMISE_FRESH, promised)).await?
    {
        return Ok(inserted);
    }
    let done = query_promises(PROMISE, promised)
        .bind(column(promised, |(promise, _)| promise.parent.map(|(parent, _)| run_code(parent))))
        .bind(column(promised, |(promise, _)| promise.parent.map(|(_, depth)| depth as i32)))
        .bind(column(promised, |(promise, _)| text::trigger_input_text(promise)))
        .bind(column(promised, |(_, change)| change.map_or(0, |change| status_code(change.update.status))))
        .bind(column(promised, |(_, change)| change.map_or(0, |change| change.update.attempt as i32)))
        .bind(column(promised, |(_, change)| change.and_then(|change| change.update.started_at)))
        .bind(column(promised, |(_, change)| change.and_then(|change| change.update.ended_at)))
        .bind(column(promised, |(_, change)| change.and_then(|change| change.update.skip.map(reason_code))))
        .bind(column(promised, |(_, change)| change.and_then(message)))
        .bind(column(promised, |(_, change)| change.and_then(|change| change.steps.map(text::steps_text))))
        .execute(connection)
        .await?;
    Ok(done.rows_affected())
}

/// A query with what every promise has.
fn query_promises(
    sql: &'static str,
    promised: &[(&Promise, Option<Change<'_>>)],
) -> Query<'static, sqlx::Postgres, PgArguments> {
    sqlx::query(sql)
        .bind(column(promised, |(promise, _)| run_code(promise.run)))
        .bind(column(promised, |(promise, _)| i64::from(promise.job.0)))
        .bind(column(promised, |(promise, _)| promise.revision as i32))
        .bind(column(promised, |(promise, _)| promise.due))
        .bind(column(promised, |(promise, _)| trigger_code(promise.trigger)))
        .bind(column(promised, |(promise, _)| promise.promised_at))
}

async fn write_changes(connection: &mut PgConnection, changes: &[Change<'_>]) -> Result<(), sqlx::Error> {
    if changes.is_empty() {
        return Ok(());
    }
    sqlx::query(CHANGE)
        .bind(column(changes, |change| run_code(change.update.run)))
        .bind(column(changes, |change| status_code(change.update.status)))
        .bind(column(changes, |change| change.update.attempt as i32))
        .bind(column(changes, |change| change.update.started_at))
        .bind(column(changes, |change| change.update.ended_at))
        .bind(column(changes, |change| change.update.skip.map(reason_code)))
        .bind(column(changes, |change| message(*change)))
        .bind(column(changes, |change| change.steps.map(text::steps_text)))
        .execute(connection)
        .await?;
    Ok(())
}

fn message(change: Change<'_>) -> Option<String> {
    change.update.message.as_deref().map(|message| text::message(message).into_owned())
}

async fn write_skips(connection: &mut PgConnection, skips: &[&Skip]) -> Result<(), sqlx::Error> {
    sqlx::query(SKIP)
        .bind(column(skips, |skip| run_code(skip.id)))
        .bind(column(skips, |skip| i64::from(skip.job.0)))
        .bind(column(skips, |skip| skip.first_due))
        .bind(column(skips, |skip| skip.last_due))
        .bind(column(skips, |skip| i64::try_from(skip.count).unwrap_or(i64::MAX)))
        .bind(column(skips, |skip| reason_code(skip.reason)))
        .bind(column(skips, |skip| skip.at))
        .execute(connection)
        .await?;
    Ok(())
}
