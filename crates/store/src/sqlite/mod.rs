//! The record in one SQLite file.
//!
//! One connection writes, so that a commit never meets another writer of this process; several read beside it, each
//! seeing the file as it was when its question began.

mod chunk;
mod claim;
mod prune;
mod servers;
mod write;

use std::path::Path;
use std::time::Duration;

use futures::TryStreamExt;
use sqlx::pool::PoolConnection;
use sqlx::sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteRow,
    SqliteSynchronous,
};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Transaction};

use crate::error::Failure;
use crate::source::{Dialect, EachRow, Question, Source, Value, fields};
use crate::{StoreError, migrations, program};

/// Questions answered at once. More would only share the same disk and two or three cores.
const READERS: u32 = 4;
/// How long a statement waits for another process's lock before it says that the database is busy.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a question waits for a free reader.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// Page cache of the writer, in KiB: holds the hot ends of tables and indexes of a million jobs.
const WRITER_CACHE_KIB: i64 = 64 * 1024;
/// Pages in the write-ahead log that start a checkpoint. Larger than SQLite's own 1000, because pages of job states
/// are rewritten by every tick and a checkpoint writes each of them once.
const CHECKPOINT_PAGES: i64 = 8 * 1024;
/// The write-ahead log is cut back to this size when a checkpoint empties it, in bytes.
const LOG_BYTES_MAX: i64 = 128 * 1024 * 1024;
/// Prepared statements per connection: every kind in every chunk size, and the questions.
const STATEMENTS_MAX: usize = 200;
/// Rows that may wait between SQLite's thread and the task that reads them.
const ROWS_WAITING_MAX: usize = 1024;

#[derive(Debug)]
pub(crate) struct Sqlite {
    writer: SqlitePool,
    readers: SqlitePool,
    path: String,
}

fields!(SqliteRow);

impl Sqlite {
    pub(crate) async fn open(path: &str) -> Result<Sqlite, StoreError> {
        let failed = |error| StoreError::from_sqlx("open", path, error);
        if let Some(directory) =
            Path::new(path).parent().filter(|directory| !directory.as_os_str().is_empty())
        {
            cadran_files::create_dir(directory).map_err(|error| {
                let detail = format!("its directory cannot be made: {error}");
                StoreError::Refused(Failure { operation: "open", key: path.into(), detail })
            })?;
        }
        make_private(path)
            .map_err(|detail| StoreError::Refused(Failure { operation: "open", key: path.into(), detail }))?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT)
            .foreign_keys(false)
            .statement_cache_capacity(STATEMENTS_MAX)
            .row_buffer_size(ROWS_WAITING_MAX)
            .pragma("temp_store", "memory")
            .disable_statement_logging();
        let writer = options
            .clone()
            .thread_name(|_| "store-writer".into())
            // Free pages can be given back; in force for databases that are made from now on.
            .auto_vacuum(SqliteAutoVacuum::Incremental)
            .pragma("cache_size", (-WRITER_CACHE_KIB).to_string())
            .pragma("wal_autocheckpoint", CHECKPOINT_PAGES.to_string())
            .pragma("journal_size_limit", LOG_BYTES_MAX.to_string());
        // The one writer connection is never retired: its cache and its prepared statements are warm.
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false)
            .connect_with(writer)
            .await
            .map_err(failed)?;
        if let Err(error) = migrations::sqlite().run(&writer).await {
            let written_by = sqlx::query_scalar(program::VERSION).fetch_one(&writer).await;
            return Err(StoreError::from_migrate(path, error, written_by.ok()));
        }
        sqlx::query(program::PUT).bind(program::OWN_VERSION).execute(&writer).await.map_err(failed)?;
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .test_before_acquire(false)
            .connect_lazy_with(options.thread_name(|at| format!("store-reader-{at}")).read_only(true));
        Ok(Sqlite { writer, readers, path: path.to_owned() })
    }

    pub(crate) async fn ping(&self) -> Result<(), StoreError> {
        self.each(Question::new("ping", "select 1"), &mut |_| Ok(())).await
    }

    pub(crate) async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    async fn writer(&self) -> Result<Writer, sqlx::Error> {
        Ok(Writer { connection: self.writer.acquire().await?, kept: false })
    }
}

/// The file and those beside it are for their owner alone. SQLite gives the write-ahead log the mode of the database, so
/// that is made here first when it is missing.
fn make_private(path: &str) -> Result<(), String> {
    for suffix in ["", "-wal", "-shm", "-journal", "-server"] {
        let file = format!("{path}{suffix}");
        cadran_files::secure_file(Path::new(&file)).map_err(|error| error.to_string())?;
    }
    let made = cadran_files::options().append(true).create(true).open(path);
    made.map(drop).map_err(|error| format!("it cannot be made: {error}"))
}

/// The writer's connection for one transaction. Unless it is kept, it is closed: on a full disk or an I/O error SQLite
/// ends the transaction by itself, while the driver goes on to count it as open and refuses every later one.
struct Writer {
    connection: PoolConnection<sqlx::Sqlite>,
    kept: bool,
}

impl Writer {
    async fn begin_with(
        &mut self,
        statement: &'static str,
    ) -> Result<Transaction<'_, sqlx::Sqlite>, sqlx::Error> {
        self.connection.begin_with(statement).await
    }

    /// The transaction ended well.
    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.kept {
            self.connection.close_on_drop();
        }
    }
}

impl Source for Sqlite {
    const DIALECT: Dialect = Dialect::Sqlite;

    async fn each(&self, question: Question, row: EachRow<'_>) -> Result<(), StoreError> {
        let Question { operation, key, sql, values } = question;
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for value in values {
            query = match value {
                Value::Int(value) => query.bind(value),
                Value::Text(value) => query.bind(value),
            };
        }
        let mut rows = query.fetch(&self.readers);
        loop {
            match rows.try_next().await {
                Err(error) => return Err(StoreError::from_sqlx(operation, key, error)),
                Ok(None) => return Ok(()),
                Ok(Some(found)) => row(&found).map_err(|why| StoreError::damaged(operation, &key, why))?,
            }
        }
    }
}
