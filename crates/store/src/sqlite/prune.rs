use std::os::unix::fs::MetadataExt;

use sqlx::{AssertSqlSafe, Row};

use super::Sqlite;
use crate::prune::{Expired, Forget, Pruned, run_ids};
use crate::read::numbers_text;
use crate::source::{Fields, Question, Source};
use crate::{StoreError, Usage};

/// Unit of `st_blocks`, whatever the file system.
const BLOCK_BYTES: u64 = 512;

const RUNS: &str =
    "delete from runs where run in (select value from json_each(?1)) and status >= 3 returning run";
const SKIPS: &str = "delete from skips where id in (select value from json_each(?1))";
/// Revisions only rise, so a definition older than the one of the oldest run is of no use to any.
const DEFINITIONS: &str = "delete from definitions where job between ?1 and ?2 and revision < coalesce(\
     (select r.revision from runs r where r.job = definitions.job order by r.run limit 1), revision + 1)";

impl Forget for Sqlite {
    async fn forget(&self, expired: &Expired) -> Result<Pruned, StoreError> {
        self.delete(expired).await.map_err(|error| {
            let key = format!("{} rows", expired.runs.len() + expired.skips.len());
            StoreError::from_sqlx("prune", key, error)
        })
    }
}

impl Sqlite {
    async fn delete(&self, expired: &Expired) -> Result<Pruned, sqlx::Error> {
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("begin immediate").await?;
        let (mut gone, mut skips) = (Vec::new(), 0);
        if !expired.runs.is_empty() {
            let list = numbers_text(expired.runs.iter().copied());
            for row in sqlx::query(RUNS).bind(list).fetch_all(&mut *transaction).await? {
                gone.push(row.try_get(0)?);
            }
        }
        if !expired.skips.is_empty() {
            let list = numbers_text(expired.skips.iter().copied());
            skips = sqlx::query(SKIPS).bind(list).execute(&mut *transaction).await?.rows_affected();
        }
        if let Some(jobs) = &expired.definitions_of {
            let query = sqlx::query(DEFINITIONS).bind(*jobs.start()).bind(*jobs.end());
            query.execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
        writer.keep();
        Ok(Pruned { runs: run_ids(gone), skips })
    }

    /// How much of the disk the database takes.
    pub(crate) async fn usage(&self) -> Result<Usage, StoreError> {
        let sql = "select p.page_count, f.freelist_count, s.page_size \
             from pragma_page_count() p, pragma_freelist_count() f, pragma_page_size() s";
        let mut usage = Usage::default();
        let answer = &mut |row: &dyn Fields| {
            let (pages, free, size) =
                (row.int(0)?.unsigned_abs(), row.int(1)?.unsigned_abs(), row.int(2)?.unsigned_abs());
            (usage.used, usage.free) = (pages.saturating_sub(free) * size, free * size);
            Ok(())
        };
        self.each(Question::new("usage", sql), answer).await?;
        let sizes = ["", "-wal", "-shm"].map(|suffix| std::fs::metadata(format!("{}{suffix}", self.path)));
        usage.disk = sizes.into_iter().flatten().map(|metadata| metadata.blocks() * BLOCK_BYTES).sum();
        Ok(usage)
    }

    /// Gives some free pages back to the file system. A database that was made before this was possible keeps them, and
    /// fills them with what comes next.
    pub(crate) async fn shrink(&self, pages_max: u32) -> Result<(), StoreError> {
        let done = async {
            let mut writer = self.writer().await?;
            let sql = format!("pragma incremental_vacuum({pages_max})");
            sqlx::query(AssertSqlSafe(sql)).execute(&mut *writer.connection).await?;
            writer.keep();
            Ok(())
        };
        done.await.map_err(|error| StoreError::from_sqlx("shrink", "", error))
    }
}
