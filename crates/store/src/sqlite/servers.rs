use cadran_core::Millis;
use sqlx::Row;

use super::Sqlite;
use crate::StoreError;
use crate::servers::{self, ALL, PUT, ServerRow};

impl Sqlite {
    pub(crate) async fn enlist(&self, name: &str, now: Millis) -> Result<u16, StoreError> {
        self.put_server(name, now).await.map_err(|error| StoreError::from_sqlx("enlist", name, error))
    }

    async fn put_server(&self, name: &str, now: Millis) -> Result<u16, sqlx::Error> {
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("begin immediate").await?;
        let rows = sqlx::query(ALL).fetch_all(&mut *transaction).await?;
        let known = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)));
        let known: Vec<ServerRow> = known.collect::<Result<_, sqlx::Error>>()?;
        let number = servers::number(&known, name);
        sqlx::query(PUT).bind(number).bind(name).bind(now).execute(&mut *transaction).await?;
        transaction.commit().await?;
        writer.keep();
        Ok(number)
    }
}
