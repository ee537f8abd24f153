//! The record in a PostgreSQL database.

mod claim;
mod horizon;
mod prune;
mod servers;
mod write;

use std::str::FromStr;
use std::time::Duration;

use futures::TryStreamExt;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};

use horizon::Horizon;

use crate::error::Failure;
use crate::source::{Dialect, EachRow, Question, Source, Value, fields};
use crate::{StoreError, migrations, program};

/// Connections that write: the loop commits one batch after another, and a prune must not stand in its way.
const WRITERS: u32 = 2;
/// Connections that read, for all questions at once.
const READERS: u32 = 8;
/// How long a call waits for a connection before it says that the server is gone.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// Every write finds its rows by key, a batch at a time. The planner does not know how large a batch is, and on a
/// table that was empty when it last looked it would rather read all of it: so it is told. Besides, acknowledged
/// means on disk, whatever the server's default is.
const WRITER_SETTINGS: &str = "set plan_cache_mode = force_generic_plan; set enable_hashjoin = off; \
     set enable_mergejoin = off; set enable_seqscan = off; set jit = off; \
     select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'";

#[derive(Debug)]
pub(crate) struct Postgres {
    writers: PgPool,
    readers: PgPool,
    options: PgConnectOptions,
    horizon: Horizon,
}

fields!(PgRow);

impl Postgres {
    pub(crate) async fn open(url: &str) -> Result<Postgres, StoreError> {
        // The parser's own words may quote the URL, and the URL may hold a password.
        let options = PgConnectOptions::from_str(url)
            .map_err(|_| {
                StoreError::Url("it is not of the form postgres://USER:PASSWORD@HOST:PORT/DATABASE".into())
            })?
            .application_name("cadran")
            .disable_statement_logging();
        let key = place(&options);
        let mut first = connect(&options, &key).await?;
        if let Err(error) = migrations::postgres().run(&mut first).await {
            let written_by = sqlx::query_scalar(program::VERSION).fetch_one(&mut first).await;
            return Err(StoreError::from_migrate(&key, error, written_by.ok()));
        }
        let put = sqlx::query(program::PUT).bind(program::OWN_VERSION).execute(&mut first).await;
        put.map_err(|error| StoreError::from_sqlx("open", &key, error))?;
        // A failed goodbye changes nothing.
        let _ = first.close().await;
        let writers = PgPoolOptions::new()
            .max_connections(WRITERS)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .test_before_acquire(false)
            .after_connect(|connection, _| {
                Box::pin(async move { connection.execute(WRITER_SETTINGS).await.map(drop) })
            })
            .connect_lazy_with(options.clone());
        let readers = PgPoolOptions::new()
            .max_connections(READERS)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .connect_lazy_with(options.clone());
        let postgres = Postgres { writers, readers, options, horizon: Horizon::default() };
        // What an earlier process left between the horizon and the end may be more than one period.
        postgres.raise_horizon_to_end().await.map_err(|error| StoreError::from_sqlx("open", key, error))?;
        Ok(postgres)
    }

    pub(crate) async fn ping(&self) -> Result<(), StoreError> {
        self.each(Question::new("ping", "select 1"), &mut |_| Ok(())).await
    }

    pub(crate) async fn close(&self) {
        self.readers.close().await;
        self.writers.close().await;
    }
}

/// The first connection is made without the pool, which would keep the reason of a failure to itself.
async fn connect(options: &PgConnectOptions, key: &str) -> Result<PgConnection, StoreError> {
    match tokio::time::timeout(ACQUIRE_TIMEOUT, options.connect()).await {
        Ok(connected) => connected.map_err(|error| StoreError::from_sqlx("open", key, error)),
        Err(_) => Err(StoreError::Unavailable(Failure {
            operation: "open",
            key: key.into(),
            detail: format!("no answer within {} s", ACQUIRE_TIMEOUT.as_secs()),
        })),
    }
}

/// Where the database is, for a message: never who asks or with which password.
fn place(options: &PgConnectOptions) -> String {
    let database = options.get_database().unwrap_or("postgres");
    match options.get_socket() {
        Some(socket) => format!("postgres at {}, database {database}", socket.display()),
        None => format!("postgres at {}:{}, database {database}", options.get_host(), options.get_port()),
    }
}

impl Source for Postgres {
    const DIALECT: Dialect = Dialect::Postgres;

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
