use cadran_core::Millis;
use sqlx::Row;

use super::Postgres;
use crate::StoreError;
use crate::servers::{self, ALL, PUT, ServerRow};

/// Two that start at once wait for each other.
const LOCK: &str = "lock table servers in exclusive mode";

impl Postgres {
    pub(crate) async fn enlist(&self, name: &str, now: Millis) -> Result<u16, StoreError> {
        self.put_server(name, now).await.map_err(|error| StoreError::from_sqlx("enlist", name, error))
    }

    async fn put_server(&self, name: &str, now: Millis) -> Result<u16, sqlx::Error> {
        let mut transaction = self.writers.begin().await?;
        sqlx::query(LOCK).execute(&mut *transaction).await?;
        let rows = sqlx::query(ALL).fetch_all(&mut *transaction).await?;
        let known = rows.iter().map(|row| {
            let number: i64 = row.try_get(0)?;
            Ok((u16::try_from(number).unwrap_or(u16::MAX), row.try_get(1)?, row.try_get(2)?))
        });
        let known: Vec<ServerRow> = known.collect::<Result<_, sqlx::Error>>()?;
        let number = servers::number(&known, name);
        sqlx::query(PUT).bind(i64::from(number)).bind(name).bind(now).execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(number)
    }
}
