//! A fresh store of each kind.

use std::sync::atomic::{AtomicU32, Ordering};

use cadran_store::Store;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Memory,
    Sqlite,
    Postgres,
}

/// A store of its own for one case: a temporary directory, or a schema.
pub(crate) struct Fixture {
    pub(crate) kind: Kind,
    pub(crate) store: Store,
    pub(crate) url: String,
    _directory: Option<tempfile::TempDir>,
    schema: Option<(String, String)>,
}

impl Fixture {
    /// `None` when the backend is skipped on purpose.
    pub(crate) async fn new(kind: Kind) -> Option<Fixture> {
        let mut directory = None;
        let mut schema = None;
        let url = match kind {
            Kind::Memory => "memory:".to_string(),
            Kind::Sqlite => {
                let fresh = tempfile::tempdir().unwrap();
                let url = format!("sqlite:{}", fresh.path().join("cadran.db").display());
                directory = Some(fresh);
                url
            }
            Kind::Postgres => {
                let server = postgres_url()?;
                let name = fresh_schema(&server).await;
                let separator = if server.contains('?') { '&' } else { '?' };
                let url = format!("{server}{separator}options[search_path]={name}");
                schema = Some((server, name));
                url
            }
        };
        let store = Store::open(&url).await.unwrap();
        Some(Fixture { kind, store, url, _directory: directory, schema })
    }

    /// The same record through a new handle, as after a restart. Memory has no second life.
    pub(crate) async fn reopen(&self) -> Store {
        if self.kind == Kind::Memory {
            return self.store.clone();
        }
        self.store.close().await;
        Store::open(&self.url).await.unwrap()
    }

    pub(crate) async fn end(self) {
        self.store.close().await;
        if let Some((server, name)) = &self.schema {
            let mut connection = PgConnection::connect(server).await.unwrap();
            let sql = format!("drop schema {name} cascade");
            sqlx::query(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
        }
    }
}

/// The server for tests; `None` when PostgreSQL is left out on purpose.
pub(crate) fn postgres_url() -> Option<String> {
    match std::env::var("CADRAN_TEST_POSTGRES") {
        Ok(url) if !url.is_empty() => Some(url),
        _ if std::env::var("CADRAN_SKIP_POSTGRES").is_ok_and(|skip| skip == "1") => None,
        _ => panic!(
            "CADRAN_TEST_POSTGRES is not set, so there is no PostgreSQL to test on: run `cargo xtask test`, which \
             starts one, or set CADRAN_SKIP_POSTGRES=1 to leave PostgreSQL out"
        ),
    }
}

async fn fresh_schema(server: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("case_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let mut connection = PgConnection::connect(server).await.unwrap();
    for sql in [format!("drop schema if exists {name} cascade"), format!("create schema {name}")] {
        sqlx::query(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    }
    name
}
