use std::sync::Arc;

use cadran_core::{Batch, JobPut, Promise, RunId};
use sqlx::Row;
use sqlx::sqlite::SqliteConnection;

use super::Sqlite;
use super::chunk::{Chunked, Values};
use crate::code::{history_code, reason_code, run_code, status_code, trigger_code};
use crate::fold::{Change, Folded};
use crate::query::Committed;
use crate::read::numbers_text;
use crate::{StoreError, code, keys, text};

static PUT: Chunked = Chunked::new(
    "insert into jobs (job, name, revision, history_kind, history_amount, source, source_mark, definition)",
    8,
    "on conflict (job) do update set name = excluded.name, revision = excluded.revision, \
     history_kind = excluded.history_kind, history_amount = excluded.history_amount, removed_at = null, \
     source = excluded.source, source_mark = excluded.source_mark, definition = excluded.definition",
);

static DEFINE: Chunked = Chunked::new(
    "insert into definitions (job, revision, definition)",
    3,
    "on conflict (job, revision) do update set definition = excluded.definition",
);

/// Definitions that are about to be replaced by another revision, given as (job, revision).
const KEEP_DEFINITIONS: &str = "insert into definitions (job, revision, definition) \
     select j.job, j.revision, j.definition from json_each(?1) p \
     join jobs j on j.job = p.value ->> 0 and j.revision <> p.value ->> 1 \
     where true on conflict (job, revision) do update set definition = excluded.definition";

const REMOVE: &str =
    "update jobs set removed_at = p.value ->> 1 from json_each(?1) p where job = p.value ->> 0";

static STATE: Chunked = Chunked::new(
    "insert into job_states (job, watermark, paused_at, holes)",
    4,
    "on conflict (job) do update set watermark = excluded.watermark, paused_at = excluded.paused_at, \
     holes = excluded.holes",
);

static PROMISE: Chunked = Chunked::new(
    "insert into runs (run, job, revision, due, trigger, promised_at, parent, parent_depth, params, \
     status, attempt, started_at, ended_at, skip, message, steps)",
    16,
    "on conflict do nothing",
);

static CHANGE: Chunked = Chunked::new(
    "with u (run, status, attempt, started_at, ended_at, skip, message, steps) as (",
    8,
    ") update runs set status = u.status, attempt = u.attempt, started_at = u.started_at, \
     ended_at = u.ended_at, skip = u.skip, message = u.message, steps = coalesce(u.steps, runs.steps) \
     from u where runs.run = u.run",
);

static SKIP: Chunked = Chunked::new(
    "insert into skips (id, job, first_due, last_due, count, reason, at)",
    7,
    "on conflict (id) do update set job = excluded.job, first_due = excluded.first_due, \
     last_due = excluded.last_due, count = excluded.count, reason = excluded.reason, at = excluded.at",
);

static KEY: Chunked =
    Chunked::new("insert into trigger_keys (key, request, run, at)", 4, "on conflict (key) do nothing");

/// Which of these runs are not recorded.
const MISSING: &str = "select value from json_each(?1) where value not in (select run from runs)";

impl Sqlite {
    pub(crate) async fn commit(&self, batch: &Batch, folded: &Folded<'_>) -> Result<Committed, StoreError> {
        self.write(batch, folded)
            .await
            .map_err(|error| StoreError::from_sqlx("commit", format_args!("{} rows", batch.len()), error))
    }

    async fn write(&self, batch: &Batch, folded: &Folded<'_>) -> Result<Committed, sqlx::Error> {
        let mut writer = self.writer().await?;
        // Immediate: the write lock is taken here or not at all, never halfway.
        let mut transaction = writer.begin_with("begin immediate").await?;
        let connection = &mut *transaction;
        write_jobs(connection, batch, folded).await?;
        STATE
            .write(connection, &folded.states, |state, row| {
                row.push(i64::from(state.job.0));
                row.push(state.watermark);
                row.push(state.paused_at);
                row.push(text::holes_text(&state.holes));
            })
            .await?;
        let refused = write_runs(connection, folded).await?;
        SKIP.write(connection, &folded.skips, |skip, row| {
            row.push(run_code(skip.id));
            row.push(i64::from(skip.job.0));
            row.push(skip.first_due);
            row.push(skip.last_due);
            row.push(i64::try_from(skip.count).unwrap_or(i64::MAX));
            row.push(reason_code(skip.reason));
            row.push(skip.at);
        })
        .await?;
        if let Some(horizon) = keys::horizon(batch) {
            sqlx::query(keys::FORGET).bind(horizon).execute(&mut *connection).await?;
            KEY.write(connection, &batch.trigger_keys, |key, row| {
                row.push(keys::text(key));
                row.push(keys::request(key));
                row.push(run_code(key.run));
                row.push(key.at);
            })
            .await?;
        }
        transaction.commit().await?;
        writer.keep();
        Ok(Committed { refused })
    }
}

async fn write_jobs(
    connection: &mut SqliteConnection,
    batch: &Batch,
    folded: &Folded<'_>,
) -> Result<(), sqlx::Error> {
    if !folded.jobs.is_empty() {
        let pairs: Vec<String> =
            folded.jobs.iter().map(|put| format!("[{},{}]", put.job, put.revision)).collect();
        sqlx::query(KEEP_DEFINITIONS)
            .bind(format!("[{}]", pairs.join(",")))
            .execute(&mut *connection)
            .await?;
    }
    DEFINE
        .write(connection, &folded.superseded, |put, row| {
            row.push(i64::from(put.job.0));
            row.push(i64::from(put.revision));
            row.push(Arc::clone(&put.definition));
        })
        .await?;
    PUT.write(connection, &folded.jobs, |put, row| bind_put(put, row)).await?;
    if !batch.removed.is_empty() {
        let pairs: Vec<String> =
            batch.removed.iter().map(|gone| format!("[{},{}]", gone.job, gone.at)).collect();
        sqlx::query(REMOVE).bind(format!("[{}]", pairs.join(","))).execute(&mut *connection).await?;
    }
    Ok(())
}

async fn write_runs(
    connection: &mut SqliteConnection,
    folded: &Folded<'_>,
) -> Result<Vec<RunId>, sqlx::Error> {
    let inserted = PROMISE
        .write(connection, &folded.promised, |(promise, change), row| bind_promise(promise, *change, row))
        .await?;
    let mut refused = Vec::new();
    if inserted < folded.promised.len() as u64 {
        // Some were recorded before, or their due is held by another run. For the first, what the batch says of
        // them may be newer than what is recorded.
        let joined: Vec<Change<'_>> = folded.promised.iter().filter_map(|(_, change)| *change).collect();
        CHANGE.write(connection, &joined, bind_change).await?;
        let list = numbers_text(folded.promised.iter().map(|(promise, _)| run_code(promise.run)));
        for row in sqlx::query(MISSING).bind(list).fetch_all(&mut *connection).await? {
            refused.push(code::run(row.try_get(0)?));
        }
    }
    CHANGE.write(connection, &folded.changes, bind_change).await?;
    Ok(refused)
}

fn bind_put(put: &JobPut, row: &mut Values) {
    let (kind, amount) = history_code(put.history);
    row.push(i64::from(put.job.0));
    row.push(put.name.as_str());
    row.push(i64::from(put.revision));
    row.push(kind);
    row.push(amount);
    row.push(Arc::clone(&put.source));
    row.push(Arc::clone(&put.source_mark));
    row.push(Arc::clone(&put.definition));
}

fn bind_promise(promise: &Promise, change: Option<Change<'_>>, row: &mut Values) {
    row.push(run_code(promise.run));
    row.push(i64::from(promise.job.0));
    row.push(i64::from(promise.revision));
    row.push(promise.due);
    row.push(trigger_code(promise.trigger));
    row.push(promise.promised_at);
    row.push(promise.parent.map(|(parent, _)| run_code(parent)));
    row.push(promise.parent.map(|(_, depth)| i64::from(depth)));
    row.push(text::trigger_input_text(promise));
    match change {
        Some(change) => bind_state(&change, row),
        None => {
            row.push(0i64);
            row.push(0i64);
            for _ in 0..5 {
                row.push(None::<i64>);
            }
        }
    }
}

fn bind_change(change: &Change<'_>, row: &mut Values) {
    row.push(run_code(change.update.run));
    bind_state(change, row);
}

/// Status to steps, in the order of the table.
fn bind_state(change: &Change<'_>, row: &mut Values) {
    let update = change.update;
    row.push(status_code(update.status));
    row.push(i64::from(update.attempt));
    row.push(update.started_at);
    row.push(update.ended_at);
    row.push(update.skip.map(reason_code));
    row.push(update.message.as_deref().map(|message| text::message(message).into_owned()));
    row.push(change.steps.map(text::steps_text));
}
