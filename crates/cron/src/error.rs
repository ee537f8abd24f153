//! What was wrong with a text, and where.

use std::fmt;

/// A field of a cron expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// Second of the minute, 0–59.
    Second,
    /// Minute of the hour, 0–59.
    Minute,
    /// Hour of the day, 0–23.
    Hour,
    /// Day of the month, 1–31.
    DayOfMonth,
    /// Month of the year, 1–12.
    Month,
    /// Day of the week; the numbers depend on the dialect.
    DayOfWeek,
    /// Year, 1970–2199.
    Year,
}

impl Field {
    /// The field's name as users read it in messages.
    pub fn name(self) -> &'static str {
        match self {
            Field::Second => "second",
            Field::Minute => "minute",
            Field::Hour => "hour",
            Field::DayOfMonth => "day-of-month",
            Field::Month => "month",
            Field::DayOfWeek => "day-of-week",
            Field::Year => "year",
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The family an [`Error`] belongs to, for programs that react to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Nothing but white space was given.
    Empty,
    /// The text is longer than [`TEXT_BYTES_MAX`](crate::TEXT_BYTES_MAX).
    TooLong,
    /// The dialect wants another number of fields.
    FieldCount,
    /// A value, name or sign is not part of the notation.
    Syntax,
    /// A value lies outside the allowed range.
    OutOfRange,
    /// A step is zero or larger than the field.
    Step,
    /// The notation exists, but not in this dialect or field.
    Unsupported,
    /// The schedule is well formed but names no instant at all.
    Never,
    /// The time zone is not in the database.
    Zone,
    /// A duration such as `1h30m` is malformed or out of bounds.
    Duration,
    /// A timestamp is malformed or out of bounds.
    Timestamp,
}

/// Why a text is not a schedule: what stood where, and what would have been allowed.
///
/// [`Display`](fmt::Display) gives one line without the position; [`column`](Error::column) and
/// [`len`](Error::len) let a caller point at the text, and [`help`](Error::help) says what to write instead.
///
/// ```
/// use cadran_cron::{Calendar, Dialect, ErrorKind, Field};
///
/// let error = Calendar::parse("0 25 * * *", Dialect::Cadran).unwrap_err();
/// assert_eq!(error.to_string(), "hour: `25` is out of range, allowed are 0–23");
/// assert_eq!((error.kind(), error.field()), (ErrorKind::OutOfRange, Some(Field::Hour)));
/// assert_eq!((error.column(), error.len()), (3, 2));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    // Boxed, so that the results of parsing stay small.
    inner: Box<Inner>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    kind: ErrorKind,
    field: Option<Field>,
    column: usize,
    len: usize,
    message: String,
    help: Option<String>,
}

impl Error {
    /// The family of the error.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// The field concerned, where one can be named.
    pub fn field(&self) -> Option<Field> {
        self.inner.field
    }

    /// Where the offending part begins, counted in characters from 1.
    pub fn column(&self) -> usize {
        self.inner.column
    }

    /// How many characters the offending part has; zero when something is missing.
    // The length of a span, not of a collection: there is no `is_empty` to go with it.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.inner.len
    }

    /// What to write instead, where that is clear.
    pub fn help(&self) -> Option<String> {
        self.inner.help.clone()
    }

    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error {
            inner: Box::new(Inner {
                kind,
                field: None,
                column: 1,
                len: 0,
                message: message.into(),
                help: None,
            }),
        }
    }

    pub(crate) fn in_field(mut self, field: Field) -> Error {
        self.inner.field = Some(field);
        self
    }

    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Error {
        self.inner.help = Some(help.into());
        self
    }

    /// Places the error on the bytes `start..end` of the whole text.
    pub(crate) fn at(mut self, text: &str, start: usize, end: usize) -> Error {
        self.inner.column = text[..start].chars().count() + 1;
        self.inner.len = text[start..end].chars().count();
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(field) = self.inner.field {
            write!(f, "{field}: ")?;
        }
        f.write_str(&self.inner.message)
    }
}

impl std::error::Error for Error {}

/// A window that cannot be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WindowError {
    /// The window ends before it starts.
    Reversed {
        /// Start as given.
        start: crate::Millis,
        /// End as given.
        end: crate::Millis,
    },
    /// An edge lies outside 1970–2199.
    OutOfRange {
        /// The edge as given.
        instant: crate::Millis,
    },
}

impl fmt::Display for WindowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WindowError::Reversed { start, end } => {
                write!(f, "the window ends ({end} ms) before it starts ({start} ms)")
            }
            WindowError::OutOfRange { instant } => {
                write!(f, "{instant} ms is outside the years 1970–2199 (0–{} ms)", crate::INSTANT_END)
            }
        }
    }
}

impl std::error::Error for WindowError {}
