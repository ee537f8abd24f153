use std::sync::atomic::AtomicU32;

use cadran_core::RunId;

use super::Postgres;
use crate::StoreError;
use crate::prune::{Expired, Forget, run_ids};

const RUNS: &str = "delete from runs where run = any($1) and status >= 3 returning run";
const SKIPS: &str = "delete from skips where id = any($1)";
/// Revisions only rise, so a definition older than the one of the oldest run is of no use to any.
const DEFINITIONS: &str = "delete from definitions d where d.job between $1 and $2 and d.revision < coalesce(\
     (select r.revision from runs r where r.job = d.job order by r.run limit 1), d.revision + 1)";

impl Forget for Postgres {
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

impl Postgres {
    async fn delete(&self, expired: &Expired) -> Result<Vec<RunId>, sqlx::Error> {
        let mut transaction = self.writers.begin().await?;
        let gone: Vec<i64> = if expired.runs.is_empty() {
            Vec::new()
        } else {
            sqlx::query_scalar(RUNS).bind(&expired.runs).fetch_all(&mut *transaction).await?
        };
        if !expired.skips.is_empty() {
            sqlx::query(SKIPS).bind(&expired.skips).execute(&mut *transaction).await?;
        }
        sqlx::query(DEFINITIONS)
            .bind(*expired.jobs.start())
            .bind(*expired.jobs.end())
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(run_ids(gone))
    }
}
