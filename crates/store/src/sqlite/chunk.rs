//! Statements that write many rows at once, in a few fixed sizes.
//!
//! A statement costs a hop to SQLite's thread, and preparing one costs more than running it. So rows go in chunks of
//! [`ROWS_MAX`], the rest in falling powers of two, and each size is prepared once per connection.

use std::sync::{Arc, OnceLock};

use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{Arguments, AssertSqlSafe, Encode, Type};

/// Rows of the largest statement. Times the columns it must stay below SQLite's 32,766 variables.
pub(crate) const ROWS_MAX: usize = 512;
const SIZES: usize = ROWS_MAX.ilog2() as usize + 1;

/// One kind of statement: `head (?,?),(?,?) tail`.
pub(crate) struct Chunked {
    head: &'static str,
    tail: &'static str,
    columns: usize,
    texts: [OnceLock<Arc<str>>; SIZES],
}

/// The values of one chunk, row by row.
pub(crate) struct Values {
    arguments: SqliteArguments,
}

impl Values {
    pub(crate) fn push<'q>(&mut self, value: impl Encode<'q, sqlx::Sqlite> + Type<sqlx::Sqlite>) {
        // Integers and texts always encode.
        let _ = self.arguments.add(value);
    }
}

impl Chunked {
    pub(crate) const fn new(head: &'static str, columns: usize, tail: &'static str) -> Chunked {
        assert!(columns * ROWS_MAX <= 32_766);
        Chunked { head, tail, columns, texts: [const { OnceLock::new() }; SIZES] }
    }

    /// Writes all rows; `bind` pushes the values of one. Returns how many rows changed.
    pub(crate) async fn write<T>(
        &self,
        connection: &mut SqliteConnection,
        mut rows: &[T],
        mut bind: impl FnMut(&T, &mut Values),
    ) -> Result<u64, sqlx::Error> {
        let mut changed = 0;
        while !rows.is_empty() {
            let size = rows.len().min(ROWS_MAX).ilog2();
            let (chunk, rest) = rows.split_at(1 << size);
            rows = rest;
            let mut values = Values { arguments: SqliteArguments::default() };
            values.arguments.reserve(chunk.len() * self.columns, 0);
            for row in chunk {
                bind(row, &mut values);
            }
            debug_assert_eq!(values.arguments.len(), chunk.len() * self.columns);
            let done = sqlx::query_with(AssertSqlSafe(self.text(size)), values.arguments)
                .execute(&mut *connection)
                .await?;
            changed += done.rows_affected();
        }
        Ok(changed)
    }

    fn text(&self, size: u32) -> Arc<str> {
        self.texts[size as usize]
            .get_or_init(|| {
                let row = format!("({})", vec!["?"; self.columns].join(","));
                let rows = vec![row; 1 << size].join(",");
                format!("{} values {rows} {}", self.head, self.tail).into()
            })
            .clone()
    }
}
