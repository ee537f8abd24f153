use std::fmt;
use std::future::Future;

use crate::{CommitHash, Walk};

/// What the manager asks of a repository. The one that asks git stands behind this trait; tests have one in memory.
///
/// Every answer is about the same fetch: [`History::head`] fetches, the others look at what it brought.
pub trait History: Send + Sync {
    /// Fetches the branch and says where it ends.
    fn head(&self) -> impl Future<Output = Result<CommitHash, HistoryError>> + Send;

    /// What is reachable from `head` and not from `base`, by the graph and not by dates: oldest first, a parent before
    /// its children, then by committer date; `limit` commits at most, the oldest ones.
    fn since(
        &self,
        base: &CommitHash,
        head: &CommitHash,
        walk: Walk,
        limit: usize,
    ) -> impl Future<Output = Result<Since, HistoryError>> + Send;

    /// The newest commits up to `head`, newest first, `limit` at most.
    fn newest(
        &self,
        head: &CommitHash,
        walk: Walk,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Commit>, HistoryError>> + Send;

    /// Which commit a person means by 7 to 40 hexadecimal digits.
    fn resolve(&self, digits: &str) -> impl Future<Output = Result<Resolved, HistoryError>> + Send;
}

/// One commit, as the manager judges it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its full name.
    pub hash: CommitHash,
    /// The committer's date, milliseconds since the epoch.
    pub committed_at: i64,
    /// What it changes.
    pub files: Files,
}

/// The files a commit adds, edits, renames (both names) or deletes, against its first parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Files {
    /// Their paths.
    Read(Vec<String>),
    /// They could not be read just now, and why. The commit stays pending.
    Unreadable(String),
}

/// What lies between two commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Since {
    /// The oldest of them, and how many more there are behind the limit.
    Commits {
        /// Oldest first.
        commits: Vec<Commit>,
        /// Left out because of the limit.
        more: u64,
    },
    /// The base is not in this repository: it was replaced, or the branch was rewritten and the old one is gone.
    UnknownBase,
}

/// What hexadecimal digits stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// One commit, and whether the branch's filter would take it is the manager's business.
    Commit(Commit),
    /// Nothing begins with these digits.
    Unknown,
    /// Several objects begin with them.
    Ambiguous,
    /// An object that is no commit, such as "blob" or "tree".
    NotACommit(String),
}

/// The repository could not be asked. It says nothing about any commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryError(pub String);

impl fmt::Display for HistoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for HistoryError {}
