//! Many rows in one answer, for SQLite.
//!
//! Every row that leaves the driver costs a hop between two threads and a copy of each value, some ten microseconds.
//! At a start with a million jobs that is the longest part, so SQLite packs rows into JSON and hands over thousands at
//! once.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Visitor};

use crate::source::Fields;

/// One value of a packed row.
#[derive(Debug, PartialEq)]
pub(crate) enum Cell<'a> {
    Null,
    Int(i64),
    Text(Cow<'a, str>),
}

/// A packed row.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Row<'a>(#[serde(borrow)] Vec<Cell<'a>>);

/// The rows of one packed answer.
pub(crate) fn rows(text: &str) -> Result<Vec<Row<'_>>, String> {
    serde_json::from_str(text).map_err(|error| format!("packed rows: {error}"))
}

impl Fields for Row<'_> {
    fn maybe_int(&self, at: usize) -> Result<Option<i64>, String> {
        match self.0.get(at) {
            Some(Cell::Int(value)) => Ok(Some(*value)),
            Some(Cell::Null) => Ok(None),
            other => Err(format!("column {at} is {other:?}, not a number")),
        }
    }

    fn maybe_text(&self, at: usize) -> Result<Option<&str>, String> {
        match self.0.get(at) {
            Some(Cell::Text(text)) => Ok(Some(text)),
            Some(Cell::Null) => Ok(None),
            other => Err(format!("column {at} is {other:?}, not a text")),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Cell<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Cell<'a>, D::Error> {
        struct CellVisitor;
        impl<'de> Visitor<'de> for CellVisitor {
            type Value = Cell<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, a text or null")
            }
            fn visit_unit<E>(self) -> Result<Cell<'de>, E> {
                Ok(Cell::Null)
            }
            fn visit_i64<E>(self, value: i64) -> Result<Cell<'de>, E> {
                Ok(Cell::Int(value))
            }
            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Cell<'de>, E> {
                i64::try_from(value).map(Cell::Int).map_err(E::custom)
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Cell<'de>, E> {
                Ok(Cell::Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Cell<'de>, E> {
                Ok(Cell::Text(Cow::Owned(text.to_owned())))
            }
        }
        from.deserialize_any(CellVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_rows_read_like_rows() {
        let packed = rows(r#"[[1,"plain",null],[-2,"with \"quotes\" and \n",7]]"#).unwrap();
        assert_eq!(packed[0].int(0), Ok(1));
        assert_eq!(packed[0].text(1), Ok("plain"));
        assert_eq!(packed[0].maybe_int(2), Ok(None));
        assert_eq!(packed[1].int(0), Ok(-2));
        assert_eq!(packed[1].text(1), Ok("with \"quotes\" and \n"));
        assert!(packed[1].text(2).is_err() && packed[1].int(1).is_err() && packed[1].int(9).is_err());
        assert!(rows("[[1.5]]").is_err() && rows("[[").is_err());
    }
}
