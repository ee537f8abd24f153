//! The two designs the store is measured against, on the same database and as durable.

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection};

use crate::BATCH;

const TABLE: &str = "create table if not exists runs_plain (run bigint primary key, job bigint not null, \
     due bigint not null, status bigint not null, at bigint, unique (job, due))";

/// Rows of one SQLite statement.
const CHUNK: u64 = 500;

enum Database {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl Database {
    async fn open(url: &str) -> Database {
        match url.strip_prefix("sqlite:") {
            Some(path) => {
                let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
                let options =
                    options.journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full);
                Database::Sqlite(options.disable_statement_logging().connect().await.unwrap())
            }
            None => Database::Postgres(PgConnection::connect(url).await.unwrap()),
        }
    }

    async fn run(&mut self, sql: &str, values: &[i64]) {
        macro_rules! run {
            ($connection:expr) => {{
                let mut query = sqlx::query(AssertSqlSafe(sql));
                for value in values {
                    query = query.bind(*value);
                }
                query.execute($connection).await.unwrap();
            }};
        }
        match self {
            Database::Sqlite(connection) => run!(connection),
            Database::Postgres(connection) => run!(connection),
        }
    }
}

/// One statement per row, all in one transaction.
pub(crate) struct RowByRow(Database);

impl RowByRow {
    pub(crate) async fn open(url: &str) -> RowByRow {
        let mut database = Database::open(url).await;
        database.run(TABLE, &[]).await;
        RowByRow(database)
    }

    pub(crate) async fn insert(&mut self, rows: u64) {
        self.0.run("begin", &[]).await;
        for row in 0..rows as i64 {
            let sql = "insert into runs_plain (run, job, due, status, at) values ($1, $2, $3, 0, null)";
            self.0.run(sql, &[1 << 61 | row, row, -1]).await;
        }
        self.0.run("commit", &[]).await;
    }
}

/// One multi-row statement per batch; what becomes of runs is one update for all of them.
pub(crate) struct Plain(Database);

impl Plain {
    pub(crate) async fn open(url: &str) -> Plain {
        let mut database = Database::open(url).await;
        database.run(TABLE, &[]).await;
        Plain(database)
    }

    pub(crate) async fn write(&mut self, work: &str, first: u64) {
        let (first, last) = (first as i64, (first + BATCH) as i64 - 1);
        self.0.run("begin", &[]).await;
        match (work, &mut self.0) {
            ("promise", Database::Postgres(connection)) => {
                let runs: Vec<i64> = (first..=last).collect();
                let jobs: Vec<i64> = runs.iter().map(|run| run % BATCH as i64).collect();
                sqlx::query(
                    "insert into runs_plain (run, job, due, status) select *, 0 from unnest($1::bigint[], $2::bigint[], $3::bigint[])",
                )
                .bind(runs)
                .bind(jobs)
                .bind(vec![first; BATCH as usize])
                .execute(connection)
                .await
                .unwrap();
            }
            ("promise", database) => {
                let rows = vec!["(?, ?, ?, 0, null)"; CHUNK as usize].join(",");
                let sql = format!("insert into runs_plain (run, job, due, status, at) values {rows}");
                for chunk in (first..=last).step_by(CHUNK as usize) {
                    let values: Vec<i64> = (chunk..chunk + CHUNK as i64)
                        .flat_map(|run| [run, run % BATCH as i64, first])
                        .collect();
                    database.run(&sql, &values).await;
                }
            }
            (work, database) => {
                let status = if work == "start" { 2 } else { 3 };
                let sql = "update runs_plain set status = $1, at = $2 where run between $3 and $4";
                database.run(sql, &[status, first, first, last]).await;
            }
        }
        self.0.run("commit", &[]).await;
    }
}

const SCHEMAS: [&str; 2] = ["bench_store", "bench_plain"];

/// URLs of two empty schemas: for the store and for the plain design.
pub(crate) async fn fresh_schemas(server: &str) -> (String, String) {
    drop_schemas(server).await;
    let mut connection = PgConnection::connect(server).await.unwrap();
    for schema in SCHEMAS {
        sqlx::query(AssertSqlSafe(format!("create schema {schema}"))).execute(&mut connection).await.unwrap();
    }
    let separator = if server.contains('?') { '&' } else { '?' };
    let url = |schema: &str| format!("{server}{separator}options[search_path]={schema}");
    (url(SCHEMAS[0]), url(SCHEMAS[1]))
}

pub(crate) async fn drop_schemas(server: &str) {
    let mut connection = PgConnection::connect(server).await.unwrap();
    for schema in SCHEMAS {
        let sql = format!("drop schema if exists {schema} cascade");
        sqlx::query(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    }
}
