use std::fmt;

/// Why the store did not do what it was asked. Nothing of the call was recorded, or, for a lost connection, all of
/// it or nothing: giving the same batch again is right in both cases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The URL names no store.
    Url(String),
    /// The database cannot be reached, or its disk answers with errors.
    Unavailable(Failure),
    /// Another transaction stood in the way, or the database has too much to do.
    Busy(Failure),
    /// The disk of the database is full.
    Full(Failure),
    /// The database does not let us in, or not do this.
    Refused(Failure),
    /// Another server works on the same record.
    Taken(Failure),
    /// A value contradicts one that is recorded, such as a second job under one name.
    Conflict(Failure),
    /// A value that no store could keep.
    Value(Failure),
    /// What is recorded cannot be read: a damaged file, or rows of a newer version.
    Damaged(Failure),
    /// The record was written by a newer version of the program.
    Newer(Failure),
    /// [`crate::Store::close`] was called before.
    Closed(Failure),
}

/// What was asked, of which key, and what the database said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The operation, as in "commit".
    pub operation: &'static str,
    /// What it was about, in words; may be empty.
    pub key: String,
    /// What was said, in the words of the database.
    pub detail: String,
}

impl StoreError {
    /// Whether the same call may succeed later without anyone changing it.
    pub fn is_transient(&self) -> bool {
        matches!(self, StoreError::Unavailable(_) | StoreError::Busy(_) | StoreError::Full(_))
    }

    /// What was asked and what was said; a bad URL has none.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            StoreError::Url(_) => None,
            StoreError::Unavailable(failure)
            | StoreError::Busy(failure)
            | StoreError::Full(failure)
            | StoreError::Refused(failure)
            | StoreError::Taken(failure)
            | StoreError::Conflict(failure)
            | StoreError::Value(failure)
            | StoreError::Damaged(failure)
            | StoreError::Newer(failure)
            | StoreError::Closed(failure) => Some(failure),
        }
    }

    /// What the operator can do.
    pub const fn advice(&self) -> &'static str {
        match self {
            StoreError::Url(_) => "use sqlite:PATH, postgres://USER@HOST/DATABASE or memory:",
            StoreError::Unavailable(_) => {
                "check that the database runs, that the network reaches it and that its disk is sound"
            }
            StoreError::Busy(_) => {
                "if it lasts, look for another program that holds locks or connections of this database"
            }
            StoreError::Full(_) => "free space on the disk of the database; nothing is recorded until then",
            StoreError::Refused(_) => {
                "check the user, its password and its rights, and the path of the database"
            }
            StoreError::Taken(_) => {
                "one server works on a record at a time: stop the other one, or give this one a database of its own"
            }
            StoreError::Conflict(_) => {
                "the record and the server disagree; please report this with the line above"
            }
            StoreError::Value(_) => "change the value named above",
            StoreError::Damaged(_) => {
                "restore the database from a backup, or start the version that wrote it"
            }
            StoreError::Newer(_) => {
                "start that version or a later one, or restore a backup from before it was used; nothing was changed"
            }
            StoreError::Closed(_) => "the server is stopping",
        }
    }

    pub(crate) fn damaged(
        operation: &'static str,
        key: impl fmt::Display,
        detail: impl fmt::Display,
    ) -> StoreError {
        StoreError::Damaged(Failure { operation, key: key.to_string(), detail: detail.to_string() })
    }

    /// An error while bringing the tables up to date. `writer` is the version of the program that used them last.
    pub(crate) fn from_migrate(
        key: &str,
        error: sqlx::migrate::MigrateError,
        writer: Option<String>,
    ) -> StoreError {
        use sqlx::migrate::MigrateError;
        match error {
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
                StoreError::from_sqlx("open", key, error)
            }
            MigrateError::VersionMissing(version) => {
                let writer =
                    writer.map_or("a version that did not say which".into(), |it| format!("cadran {it}"));
                let here = env!("CARGO_PKG_VERSION");
                let detail =
                    format!("{writer} changed its tables in a way that {here} does not know ({version})");
                StoreError::Newer(Failure { operation: "open", key: key.to_owned(), detail })
            }
            other => StoreError::damaged("open", key, other),
        }
    }

    /// An error of the database, sorted by what can be done about it.
    pub(crate) fn from_sqlx(
        operation: &'static str,
        key: impl fmt::Display,
        error: sqlx::Error,
    ) -> StoreError {
        let failure = Failure { operation, key: key.to_string(), detail: detail(&error) };
        match &error {
            sqlx::Error::Database(database) => {
                let code = database.code().unwrap_or_default();
                if database.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().is_some() {
                    from_sqlstate(&code, failure)
                } else {
                    from_sqlite_code(code.parse().unwrap_or(0), failure)
                }
            }
            sqlx::Error::Io(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::BeginFailed => StoreError::Unavailable(failure),
            // The driver's word for a connection that ended in the middle of a message.
            sqlx::Error::Protocol(_) => StoreError::Unavailable(failure),
            sqlx::Error::PoolClosed => StoreError::Closed(failure),
            sqlx::Error::Configuration(_) | sqlx::Error::InvalidArgument(_) => {
                StoreError::Url(failure.detail)
            }
            sqlx::Error::Tls(_) => StoreError::Refused(failure),
            sqlx::Error::Encode(_) => StoreError::Value(failure),
            _ => StoreError::Damaged(failure),
        }
    }
}

fn detail(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::PoolTimedOut => {
            "no connection could be had in time; the server is gone or all are in use".into()
        }
        sqlx::Error::Database(database) => match database.code() {
            Some(code) => format!("{} (code {code})", database.message()),
            None => database.message().to_string(),
        },
        other => other.to_string(),
    }
}

/// SQLite result codes; the low byte is the kind. <https://www.sqlite.org/rescode.html>
fn from_sqlite_code(code: i32, failure: Failure) -> StoreError {
    match code & 0xff {
        5 | 6 | 9 | 15 => StoreError::Busy(failure),
        13 => StoreError::Full(failure),
        // Input/output errors, a read-only remount, memory. A failed fsync is among them: trying the batch again
        // writes every page of it again, so a later success is a true one.
        7 | 8 | 10 => StoreError::Unavailable(failure),
        // A file that cannot be opened is a wrong path at first, and a lack of file handles later.
        14 if failure.operation != "open" => StoreError::Unavailable(failure),
        3 | 14 | 23 => StoreError::Refused(failure),
        18 | 25 => StoreError::Value(failure),
        19 => StoreError::Conflict(failure),
        _ => StoreError::Damaged(failure),
    }
}

/// SQLSTATE classes. <https://www.postgresql.org/docs/current/errcodes-appendix.html>
fn from_sqlstate(state: &str, failure: Failure) -> StoreError {
    match state {
        "53100" => StoreError::Full(failure),
        // Serialization, deadlock, lock timeout, statement timeout, too many connections, out of memory.
        "40001" | "40P01" | "55P03" | "57014" | "53200" | "53300" | "53400" => StoreError::Busy(failure),
        // The server stops, starts, fails over to a standby, or its disk fails.
        "57P01" | "57P02" | "57P03" | "57P05" | "25006" | "25P03" | "58000" | "58030" => {
            StoreError::Unavailable(failure)
        }
        "42501" | "3D000" | "3F000" => StoreError::Refused(failure),
        _ => match state.get(..2) {
            Some("08") => StoreError::Unavailable(failure),
            Some("28") => StoreError::Refused(failure),
            Some("23") => StoreError::Conflict(failure),
            Some("22" | "54") => StoreError::Value(failure),
            _ => StoreError::Damaged(failure),
        },
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            StoreError::Url(why) => {
                return write!(f, "the store URL is not usable: {why}; {}", self.advice());
            }
            StoreError::Unavailable(_) => "the database cannot be reached",
            StoreError::Busy(_) => "the database is busy",
            StoreError::Full(_) => "the disk of the database is full",
            StoreError::Refused(_) => "the database refuses",
            StoreError::Taken(_) => "the record is taken",
            StoreError::Conflict(_) => "a value contradicts the record",
            StoreError::Value(_) => "a value cannot be kept",
            StoreError::Damaged(_) => "the record cannot be read",
            StoreError::Newer(_) => "the record is of a newer version",
            StoreError::Closed(_) => "the store is closed",
        };
        let Some(failure) = self.failure() else { return f.write_str(what) };
        write!(f, "store {}", failure.operation)?;
        if !failure.key.is_empty() {
            write!(f, " ({})", failure.key)?;
        }
        write!(f, ": {what}: {}; {}", failure.detail, self.advice())
    }
}

impl std::error::Error for StoreError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(operation: &'static str) -> Failure {
        Failure { operation, key: "3 rows".into(), detail: "words".into() }
    }

    #[test]
    fn sqlite_codes_are_sorted_by_what_can_be_done() {
        let check = |code: i32, transient: bool, word: &str| {
            let error = from_sqlite_code(code, failure("commit"));
            assert_eq!(error.is_transient(), transient, "{code}: {error}");
            assert!(error.to_string().contains(word), "{code}: {error}");
        };
        check(5, true, "busy");
        check(5 | 2 << 8, true, "busy");
        check(13, true, "disk of the database is full");
        check(10 | 4 << 8, true, "disk is sound");
        check(8, true, "cannot be reached");
        check(14, true, "cannot be reached");
        check(11, false, "backup");
        check(26, false, "backup");
        check(19 | 8 << 8, false, "contradicts");
        assert!(!from_sqlite_code(14, failure("open")).is_transient());
    }

    #[test]
    fn sqlstates_are_sorted_by_what_can_be_done() {
        let check = |state: &str, transient: bool, word: &str| {
            let error = from_sqlstate(state, failure("commit"));
            assert_eq!(error.is_transient(), transient, "{state}: {error}");
            assert!(error.to_string().contains(word), "{state}: {error}");
        };
        check("40001", true, "busy");
        check("40P01", true, "busy");
        check("53100", true, "disk of the database is full");
        check("53300", true, "busy");
        check("57P01", true, "cannot be reached");
        check("08006", true, "cannot be reached");
        check("28P01", false, "refuses");
        check("3D000", false, "refuses");
        check("23505", false, "contradicts");
        check("42P01", false, "cannot be read");
        check("", false, "cannot be read");
    }

    #[test]
    fn an_error_names_operation_key_and_advice() {
        let text = StoreError::Full(failure("commit")).to_string();
        assert_eq!(
            text,
            "store commit (3 rows): the disk of the database is full: words; \
             free space on the disk of the database; nothing is recorded until then"
        );
    }
}
