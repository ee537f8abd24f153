use std::fmt;

/// Why a pass did not do what it was asked. Nothing is half done: every change of state is one conditional put, and
/// whatever was left between two of them is taken up by the next pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FuzzError {
    /// The store's URL is not one, or names what cannot be used.
    Url(String),
    /// What was asked for is not possible as asked.
    Input(String),
    /// The store accepts a conditional put and writes anyway.
    NoConditions(String),
    /// The store could not be asked, or did not answer. It says nothing about any object.
    Unavailable(Failure),
    /// The store does not let us in, or not do this.
    Refused(Failure),
    /// Others changed the object again and again for longer than we wait.
    Contended(Failure),
    /// A state file cannot be read as what it should be. It was left as it is.
    Broken(Failure),
    /// A result came with a token that is not the newest: the lease ran out and somebody else has the work.
    Stale(Failure),
    /// The repository could not be asked.
    History(String),
}

/// What was asked, of which key, and what came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The operation, as in "put".
    pub operation: &'static str,
    /// The key, or another name of what it was about.
    pub key: String,
    /// What was said.
    pub detail: String,
}

impl Failure {
    pub(crate) fn new(operation: &'static str, key: impl fmt::Display, detail: impl fmt::Display) -> Failure {
        Failure { operation, key: key.to_string(), detail: detail.to_string() }
    }
}

impl FuzzError {
    /// Whether the same call may succeed later without anyone changing it.
    pub fn is_transient(&self) -> bool {
        matches!(self, FuzzError::Unavailable(_) | FuzzError::Contended(_) | FuzzError::History(_))
    }

    /// What the operator can do.
    pub const fn advice(&self) -> &'static str {
        match self {
            FuzzError::Url(_) => "use s3://BUCKET/PREFIX or file:///DIRECTORY",
            FuzzError::Input(_) => "change what is named above and try again",
            FuzzError::NoConditions(_) => {
                "use a store with conditional writes, or set single_writer: true if nobody else ever writes to it"
            }
            FuzzError::Unavailable(_) => {
                "check that the store is there and reachable; nothing was changed, the next pass tries again"
            }
            FuzzError::Refused(_) => "check the credentials and what they allow",
            FuzzError::Contended(_) => "if it lasts, look for a program that writes this object in a loop",
            FuzzError::Broken(_) => {
                "the manager's next pass restores it from the record and keeps a copy; or repair it by hand"
            }
            FuzzError::Stale(_) => "drop this result; whoever took over brings one of its own",
            FuzzError::History(_) => "check the repository's address, its credentials and the branch",
        }
    }

    /// What was asked and what came back, when a store was asked.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            FuzzError::Url(_) | FuzzError::Input(_) | FuzzError::NoConditions(_) | FuzzError::History(_) => {
                None
            }
            FuzzError::Unavailable(failure)
            | FuzzError::Refused(failure)
            | FuzzError::Contended(failure)
            | FuzzError::Broken(failure)
            | FuzzError::Stale(failure) => Some(failure),
        }
    }
}

impl fmt::Display for FuzzError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            FuzzError::Url(why) => return write!(f, "the store URL is not usable: {why}; {}", self.advice()),
            FuzzError::Input(why) => return write!(f, "{why}; {}", self.advice()),
            FuzzError::NoConditions(why) => {
                return write!(f, "the store ignores conditional writes: {why}; {}", self.advice());
            }
            FuzzError::History(why) => {
                return write!(f, "the repository cannot be read: {why}; {}", self.advice());
            }
            FuzzError::Unavailable(_) => "the store is not available",
            FuzzError::Refused(_) => "the store refuses",
            FuzzError::Contended(_) => "others change it all the time",
            FuzzError::Broken(_) => "it is broken",
            FuzzError::Stale(_) => "this result is out of date",
        };
        let Some(failure) = self.failure() else { return f.write_str(what) };
        write!(f, "{} {}: {what}: {}; {}", failure.operation, failure.key, failure.detail, self.advice())
    }
}

impl std::error::Error for FuzzError {}

impl From<crate::HistoryError> for FuzzError {
    fn from(error: crate::HistoryError) -> FuzzError {
        FuzzError::History(error.0)
    }
}
