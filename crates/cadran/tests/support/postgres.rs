//! A schema of its own on the PostgreSQL server of the tests.

use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{AssertSqlSafe, Connection, PgConnection};

pub struct Schema {
    server: String,
    name: String,
}

impl Schema {
    /// `None` when PostgreSQL is left out on purpose.
    pub fn new() -> Option<Schema> {
        let server = match std::env::var("CADRAN_TEST_POSTGRES") {
            Ok(url) if !url.is_empty() => url,
            _ if std::env::var("CADRAN_SKIP_POSTGRES").is_ok_and(|skip| skip == "1") => {
                eprintln!("passed over: CADRAN_SKIP_POSTGRES=1");
                return None;
            }
            _ => panic!(
                "CADRAN_TEST_POSTGRES is not set, so there is no PostgreSQL to test on: run `cargo xtask test`, which \
                 starts one, or set CADRAN_SKIP_POSTGRES=1 to leave PostgreSQL out"
            ),
        };
        Some(Schema::on(&server))
    }

    /// A fresh schema on this server.
    pub fn on(server: &str) -> Schema {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("serve_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let schema = Schema { server: server.to_owned(), name };
        schema.execute(&format!("drop schema if exists {} cascade", schema.name)).expect("a server");
        schema.execute(&format!("create schema {}", schema.name)).expect("a schema");
        schema
    }

    pub fn url(&self) -> String {
        let separator = if self.server.contains('?') { '&' } else { '?' };
        format!("{}{separator}options=-csearch_path%3D{}", self.server, self.name)
    }

    fn execute(&self, sql: &str) -> Result<(), sqlx::Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut connection = PgConnection::connect(&self.server).await?;
            sqlx::query(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.map(drop)
        })
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        // The server may be gone by now, and the schema with it.
        let _ = self.execute(&format!("drop schema if exists {} cascade", self.name));
    }
}
