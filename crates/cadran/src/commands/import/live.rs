//! Rows of a running MySQL or MariaDB. Nothing is written there.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, bail};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{AssertSqlSafe, Connection, Row as _};

use super::dump::{ROWS_MAX, Table};

/// The tables that are read.
const TABLES: [&str; 2] = ["xxl_job_info", "xxl_job_group"];

/// How long the database may take, all in all: two small tables.
const TIME_MAX: Duration = Duration::from_secs(60);

/// The address without its password, for messages.
pub(super) fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "the database".into() };
    let end = rest.find('/').unwrap_or(rest.len());
    match rest[..end].rsplit_once('@') {
        Some((user, host)) => {
            let user = user.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}@{host}{}", &rest[end..])
        }
        None => url.to_owned(),
    }
}

/// The tables of the database that `url` names. A password may stand in it, or in `MYSQL_PWD`.
pub(super) fn read(url: &str) -> anyhow::Result<BTreeMap<String, Table>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let read = async { tokio::time::timeout(TIME_MAX, read_tables(url)).await };
    match runtime.block_on(read) {
        Ok(tables) => tables,
        Err(_) => bail!("no answer within {} s; is it reachable from here?", TIME_MAX.as_secs()),
    }
}

async fn read_tables(url: &str) -> anyhow::Result<BTreeMap<String, Table>> {
    let mut options: MySqlConnectOptions =
        url.parse().context("not an address; write mysql://USER@HOST:PORT/DATABASE")?;
    if options.get_database().is_none() {
        bail!("the address names no database; write mysql://USER@HOST:PORT/DATABASE");
    }
    let has_password = url.split_once("://").is_some_and(|(_, rest)| {
        rest.split('/')
            .next()
            .is_some_and(|host| host.rsplit_once('@').is_some_and(|(user, _)| user.contains(':')))
    });
    if let Some(password) = std::env::var("MYSQL_PWD").ok().filter(|_| !has_password) {
        options = options.password(&password);
    }
    let mut database = MySqlConnection::connect_with(&options).await.context("cannot connect")?;
    let mut tables = BTreeMap::new();
    for name in TABLES {
        let table = read_table(&mut database, name).await.with_context(|| format!("cannot read {name}"))?;
        tables.extend(table.map(|table| (name.to_owned(), table)));
    }
    let _ = database.close().await;
    Ok(tables)
}

/// Every value as text, as a dump would have it. `None` when there is no such table.
async fn read_table(database: &mut MySqlConnection, name: &'static str) -> anyhow::Result<Option<Table>> {
    let columns = sqlx::query(
        "select cast(column_name as char(64)) from information_schema.columns \
         where table_schema = database() and table_name = ? order by ordinal_position",
    )
    .bind(name)
    .fetch_all(&mut *database)
    .await?;
    let columns: Vec<String> = columns.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    if columns.is_empty() {
        return Ok(None);
    }
    let list: Vec<String> =
        columns.iter().map(|column| format!("cast(`{}` as char)", column.replace('`', "``"))).collect();
    // Names of columns come from the database itself, quoted as it asks for.
    let text = format!("select {} from {name} order by id limit {}", list.join(", "), ROWS_MAX + 1);
    let found = sqlx::query(AssertSqlSafe(text)).fetch_all(database).await?;
    if found.len() > ROWS_MAX {
        bail!("it has more than {ROWS_MAX} rows");
    }
    let row = |row: &sqlx::mysql::MySqlRow| {
        (0..columns.len()).map(|at| row.try_get::<Option<String>, _>(at)).collect::<Result<Vec<_>, _>>()
    };
    let rows = found.iter().map(row).collect::<Result<Vec<_>, _>>()?;
    Ok(Some(Table::new(columns, rows)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_never_shown() {
        let check = |url: &str, expected: &str| assert_eq!(shown(url), expected);
        check("mysql://u:secret@h:3306/db", "mysql://u@h:3306/db");
        check("mysql://u:p@ss:w@h/db?x=1", "mysql://u@h/db?x=1");
        check("mysql://u@h/db", "mysql://u@h/db");
        check("mysql://h/db", "mysql://h/db");
        check("mysql:u:secret", "the database");
    }
}
