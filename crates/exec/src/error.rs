use std::io;
use std::path::{Path, PathBuf};

/// What stops the executor from working at all. What stops one attempt is an outcome of that attempt instead.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The data directory belongs to a server that is still alive.
    #[error("{} is held by another server; stop that one, or give this one its own data directory", .0.display())]
    InUse(PathBuf),
    /// A file or directory could not be used.
    #[error("cannot {what} {}: {source}; check that the path exists and this user may write there", .path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The keeper could not be started.
    #[error(
        "cannot start the keeper `{command}`: {source}; without it, processes could outlive a killed server"
    )]
    Keeper {
        /// The program.
        command: String,
        /// What the system said.
        source: io::Error,
    },
    /// The threads of the executor could not be started.
    #[error(
        "cannot start the executor's threads: {0}; check the limit on processes of this user (ulimit -u)"
    )]
    Threads(io::Error),
}

impl ExecError {
    pub(crate) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ExecError {
        let path = path.to_path_buf();
        move |source| ExecError::File { what, path, source }
    }
}
