use std::sync::atomic::AtomicU32;

use cadran_core::RunId;
use sqlx::Row;

use super::Sqlite;
use crate::StoreError;
use crate::prune::{Expired, Forget, run_ids};
use crate::read::numbers_text;

const RUNS: &str =
    "delete from runs where run in (select value from json_each(?1)) and status >= 3 returning run";
const SKIPS: &str = "delete from skips where id in (select value from json_each(?1))";
/// Revisions only rise, so a definition older than the one of the oldest run is of no use to any.
const DEFINITIONS: &str = "delete from definitions where job between ?1 and ?2 and revision < coalesce(\
     (select r.revision from runs r where r.job = definitions.job order by r.run limit 1), revision + 1)";

impl Forget for Sqlite {
    fn prune_from(&self) -> &AtomicU32 {
        &self.prune_from
    }

    async fn forget(&self, expired: &Expired) -> Result<Vec<RunId>, StoreError> {
        self.delete(expired).await.map_err(|error| {
            let key = format!("jobs {} to {}", expired.jobs.start(), expired.jobs.end());
            StoreError::from_sqlx("prune", key, error)
        })
    }
}

impl Sqlite {
    async fn delete(&self, expired: &Expired) -> Result<Vec<RunId>, sqlx::Error> {
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("begin immediate").await?;
        let mut gone = Vec::new();
        if !expired.runs.is_empty() {
            let list = numbers_text(expired.runs.iter().copied());
            for row in sqlx::query(RUNS).bind(list).fetch_all(&mut *transaction).await? {
                gone.push(row.try_get(0)?);
            }
        }
        if !expired.skips.is_empty() {
            let list = numbers_text(expired.skips.iter().copied());
            sqlx::query(SKIPS).bind(list).execute(&mut *transaction).await?;
        }
        sqlx::query(DEFINITIONS)
            .bind(*expired.jobs.start())
            .bind(*expired.jobs.end())
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        writer.keep();
        Ok(run_ids(gone))
    }
}
