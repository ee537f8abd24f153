//! A database that can be asked. Reading is written once, for both dialects, over this.

use std::future::Future;

use crate::StoreError;

/// What differs between the dialects when reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

/// One question: SQL with `$1`, `$2`… and their values. The text is made of constants of this crate only; what came
/// from outside is always a value.
pub(crate) struct Question {
    pub(crate) operation: &'static str,
    /// What is asked about, for an error.
    pub(crate) key: String,
    pub(crate) sql: String,
    pub(crate) values: Vec<Value>,
}

pub(crate) enum Value {
    Int(i64),
    Text(String),
}

impl Question {
    pub(crate) fn new(operation: &'static str, sql: impl Into<String>) -> Question {
        Question { operation, key: String::new(), sql: sql.into(), values: Vec::new() }
    }

    pub(crate) fn about(mut self, key: impl std::fmt::Display) -> Question {
        self.key = key.to_string();
        self
    }

    pub(crate) fn int(mut self, value: i64) -> Question {
        self.values.push(Value::Int(value));
        self
    }

    pub(crate) fn text(mut self, value: impl Into<String>) -> Question {
        self.values.push(Value::Text(value.into()));
        self
    }

    /// Adds SQL whose `?` stands for the value that is added with it.
    pub(crate) fn and_int(mut self, sql: &str, value: i64) -> Question {
        self.values.push(Value::Int(value));
        self.push_numbered(sql);
        self
    }

    /// Adds SQL whose `?` stands for the value that is added with it.
    pub(crate) fn and_text(mut self, sql: &str, value: impl Into<String>) -> Question {
        self.values.push(Value::Text(value.into()));
        self.push_numbered(sql);
        self
    }

    pub(crate) fn and(mut self, sql: &str) -> Question {
        self.sql.push_str(sql);
        self
    }

    fn push_numbered(&mut self, sql: &str) {
        self.sql.push_str(&sql.replace('?', &format!("${}", self.values.len())));
    }
}

/// A row by the places of its columns. Both dialects answer integers as 64 bits: questions to PostgreSQL ask for
/// nothing narrower.
pub(crate) trait Fields {
    fn int(&self, at: usize) -> Result<i64, String> {
        self.maybe_int(at)?.ok_or_else(|| format!("column {at} is missing"))
    }
    fn text(&self, at: usize) -> Result<&str, String> {
        self.maybe_text(at)?.ok_or_else(|| format!("column {at} is missing"))
    }
    fn maybe_int(&self, at: usize) -> Result<Option<i64>, String>;
    fn maybe_text(&self, at: usize) -> Result<Option<&str>, String>;
}

/// Called for each row of an answer.
pub(crate) type EachRow<'a> = &'a mut (dyn FnMut(&dyn Fields) -> Result<(), String> + Send);

pub(crate) trait Source: Sync {
    const DIALECT: Dialect;

    /// Asks, and hands over each row as it arrives.
    fn each(
        &self,
        question: Question,
        row: EachRow<'_>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// Implements [`Fields`] for a driver's row.
macro_rules! fields {
    ($row:ty) => {
        impl $crate::source::Fields for $row {
            fn maybe_int(&self, at: usize) -> Result<Option<i64>, String> {
                sqlx::Row::try_get_unchecked(self, at).map_err(|e| e.to_string())
            }
            fn maybe_text(&self, at: usize) -> Result<Option<&str>, String> {
                sqlx::Row::try_get_unchecked(self, at).map_err(|e| e.to_string())
            }
        }
    };
}
pub(crate) use fields;
