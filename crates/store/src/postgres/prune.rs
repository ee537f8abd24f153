use super::Postgres;
use crate::prune::{Expired, Forget, Pruned, run_ids};
use crate::source::{Fields, Question, Source};
use crate::{StoreError, Usage};

const RUNS: &str = "delete from runs where run = any($1) and status >= 3 returning run";
const SKIPS: &str = "delete from skips where id = any($1)";
/// Revisions only rise, so a definition older than the one of the oldest run is of no use to any.
const DEFINITIONS: &str = "delete from definitions d where d.job between $1 and $2 and d.revision < coalesce(\
     (select r.revision from runs r where r.job = d.job order by r.run limit 1), d.revision + 1)";

impl Forget for Postgres {
    async fn forget(&self, expired: &Expired) -> Result<Pruned, StoreError> {
        self.delete(expired).await.map_err(|error| {
            let key = format!("{} rows", expired.runs.len() + expired.skips.len());
            StoreError::from_sqlx("prune", key, error)
        })
    }
}

impl Postgres {
    async fn delete(&self, expired: &Expired) -> Result<Pruned, sqlx::Error> {
        let mut transaction = self.writers.begin().await?;
        let gone: Vec<i64> = if expired.runs.is_empty() {
            Vec::new()
        } else {
            sqlx::query_scalar(RUNS).bind(&expired.runs).fetch_all(&mut *transaction).await?
        };
        let mut skips = 0;
        if !expired.skips.is_empty() {
            skips = sqlx::query(SKIPS).bind(&expired.skips).execute(&mut *transaction).await?.rows_affected();
        }
        if let Some(jobs) = &expired.definitions_of {
            let query = sqlx::query(DEFINITIONS).bind(*jobs.start()).bind(*jobs.end());
            query.execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
        Ok(Pruned { runs: run_ids(gone), skips })
    }

    /// How much of the database server's disk the tables take. What is free of it is known to the server alone.
    pub(crate) async fn usage(&self) -> Result<Usage, StoreError> {
        let sql = "select cast(coalesce(sum(pg_total_relation_size(c.oid)), 0) as bigint) from pg_class c \
             where c.relkind = 'r' and c.relnamespace = current_schema()::regnamespace";
        let mut bytes = 0;
        let answer = &mut |row: &dyn Fields| {
            bytes = row.int(0)?.unsigned_abs();
            Ok(())
        };
        self.each(Question::new("usage", sql), answer).await?;
        Ok(Usage { disk: bytes, used: bytes, free: 0 })
    }
}
