//! What is asked of the one writer of job files, and what it answers.

use crate::FileProblem;

/// What a caller takes to be in a job's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedFile {
    /// There is no file yet.
    None,
    /// The text with this entity tag.
    Text(String),
}

/// A job's file that was written or removed, and the job is so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFileSaved {
    /// The file, relative to the jobs directory.
    pub source: String,
    /// The entity tag of the text that is there now; empty of a removed file.
    pub etag: String,
    /// The revision that is in force.
    pub revision: u32,
    /// Warnings.
    pub problems: Vec<FileProblem>,
}

/// Why a job's file was not written. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobFileRefusal {
    /// The server does not write job files.
    ReadOnly,
    /// There is a file already.
    Exists {
        /// Relative to the jobs directory.
        source: String,
    },
    /// The file is not there, or holds another text.
    Changed {
        /// The entity tag of what is there.
        etag: Option<String>,
    },
    /// No job of this name.
    NoSuchJob,
    /// The file is no file that may be written: it is outside of the folder, or means something else.
    Elsewhere(String),
    /// The text is no job.
    Invalid(Vec<FileProblem>),
    /// The text names another job.
    OtherName(String),
    /// The disk, or the server, could not.
    Failed(String),
}
