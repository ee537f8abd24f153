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

    /// The processes of the database that serve this process, by the ports of its connections.
    pub fn backends_of(&self, pid: i32) -> Vec<i32> {
        let ports = local_ports(pid);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let rows: Vec<(i32, i32)> = runtime.block_on(async {
            let mut connection = PgConnection::connect(&self.server).await.expect("a server");
            let sql = "select pid, client_port from pg_stat_activity where client_port is not null";
            sqlx::query_as(sql).fetch_all(&mut connection).await.expect("rows")
        });
        rows.into_iter().filter(|(_, port)| ports.contains(port)).map(|(pid, _)| pid).collect()
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

/// The local ports of the TCP connections that a process has.
fn local_ports(pid: i32) -> Vec<i32> {
    let handles = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let sockets: Vec<String> = handles
        .filter_map(|handle| std::fs::read_link(handle.path()).ok()?.to_str().map(str::to_owned))
        .filter_map(|target| Some(target.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let port = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let inode = fields.get(9).filter(|inode| sockets.iter().any(|socket| socket == *inode));
        inode.and_then(|_| i32::from_str_radix(fields[1].split_once(':')?.1, 16).ok())
    };
    table.lines().filter_map(port).collect()
}
