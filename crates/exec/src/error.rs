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
    /// A file was written by a newer program.
    #[error(
        "{} is a {name} of format {format}, written by cadran {version}, and this program reads up to {known}; start that \
         version or a later one, or move the file away to start without it: what was running is not known then", .path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// What it is, as in "journal".
        name: &'static str,
        /// The format it has.
        format: u32,
        /// The newest format known here.
        known: u32,
        /// The version of the program that wrote it.
        version: String,
    },
    /// A file in the place of another one.
    #[error("{} is not a {name} but says `{found}`; move it away, or name another data directory", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it should be.
        name: &'static str,
        /// What its first line says.
        found: String,
    },
    /// A file or directory that is not for its owner alone, and cannot be made so.
    #[error(transparent)]
    Insecure(#[from] cadran_files::Insecure),
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
    /// The executor of this machine could not be found or started, or is not one.
    #[error("there is no executor for the commands of jobs: {0}")]
    Executor(String),
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
