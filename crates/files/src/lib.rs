//! Who may read the files that Cadran keeps? Their owner, and nobody else.
//!
//! Records, logs, journals and tokens tell what runs on a machine, and with which values. So every directory is created
//! with mode 0700 and every file with 0600, whatever the umask says, and what an older version left open is closed when it
//! is taken into use.
//!
//! ```
//! let data = std::env::temp_dir().join(format!("cadran-files-example-{}", std::process::id()));
//! cadran_files::create_dir(&data)?;
//! cadran_files::write_atomic(&data.join("server-name"), b"one")?;
//! cadran_files::secure_tree(&data).expect("it is ours");
//! # std::fs::remove_dir_all(&data)?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! It knows nothing of what is in the files.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::fs::{self, DirBuilder, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// The bits of everybody but the owner.
const OTHERS: u32 = 0o077;
/// Set on directories that everybody writes to, such as `/tmp`.
const STICKY: u32 = 0o1000;
/// Directories inside of one another that are looked at; ours have four.
const DEPTH_MAX: u32 = 16;

/// Why a file or directory cannot be made private.
#[derive(Debug)]
pub enum Insecure {
    /// It belongs to another user.
    Owner {
        /// The file or directory.
        path: PathBuf,
        /// The number of the user it belongs to.
        owner: u32,
        /// The number of the user this program runs as.
        user: u32,
    },
    /// A directory that all users of the machine write to.
    Shared(PathBuf),
    /// The system refused.
    Io(PathBuf, io::Error),
}

impl std::fmt::Display for Insecure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Insecure::Owner { path, owner, user } => write!(
                f,
                "{} belongs to user {owner}, and this program runs as user {user}, so its data would not be private; \
                 run it as that user, give the path to this one (chown -R {user}), or name another directory",
                path.display()
            ),
            Insecure::Shared(path) => write!(
                f,
                "{} is a directory that all users write to, so data in it would not be private; name a directory below it",
                path.display()
            ),
            Insecure::Io(path, error) => write!(f, "cannot make {} private: {error}", path.display()),
        }
    }
}

impl std::error::Error for Insecure {}

/// Creates a directory and those above it that are missing, for their owner alone.
pub fn create_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIR_MODE).create(path)
}

/// Options that create a file for its owner alone. Say what it is opened for as usual.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE_MODE);
    options
}

/// Writes a private file whole: a crash leaves the old content or the new one, never a part.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let half = beside(path, ".new");
    // One that an older version left keeps its mode when it is opened again.
    let _ = fs::remove_file(&half);
    options().write(true).create_new(true).open(&half)?.write_all(bytes)?;
    fs::rename(&half, path)
}

/// The path with more at the end of its name.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Creates a directory if it is missing, takes the rights of others on it away, and refuses one that is not ours.
pub fn secure_dir(path: &Path) -> Result<(), Insecure> {
    create_dir(path).map_err(|error| Insecure::Io(path.to_owned(), error))?;
    let metadata = fs::metadata(path).map_err(|error| Insecure::Io(path.to_owned(), error))?;
    if metadata.mode() & STICKY != 0 {
        return Err(Insecure::Shared(path.to_owned()));
    }
    close(path, &metadata)
}

/// Takes the rights of others on a file away, and refuses one that is not ours. No file is fine.
pub fn secure_file(path: &Path) -> Result<(), Insecure> {
    match fs::metadata(path) {
        Ok(metadata) => close(path, &metadata),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Insecure::Io(path.to_owned(), error)),
    }
}

/// The same for a file, or a directory and everything below it; links are not followed. Nothing there is fine.
pub fn secure_tree(path: &Path) -> Result<(), Insecure> {
    secure_file(path)?;
    secure_below(path, DEPTH_MAX)
}

fn secure_below(dir: &Path, depth: u32) -> Result<(), Insecure> {
    let failed = |error| Insecure::Io(dir.to_owned(), error);
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(());
        }
        Err(error) => return Err(failed(error)),
    };
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let metadata = match entry.metadata() {
            Ok(metadata) if metadata.is_symlink() => continue,
            Ok(metadata) => metadata,
            // Somebody cleaned up meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error)),
        };
        close(&entry.path(), &metadata)?;
        if metadata.is_dir() && depth > 0 {
            secure_below(&entry.path(), depth - 1)?;
        }
    }
    Ok(())
}

fn close(path: &Path, metadata: &Metadata) -> Result<(), Insecure> {
    let (owner, user) = (metadata.uid(), nix::unistd::geteuid().as_raw());
    if owner != user {
        return Err(Insecure::Owner { path: path.to_owned(), owner, user });
    }
    let mode = metadata.mode() & 0o7777;
    if mode & OTHERS == 0 {
        return Ok(());
    }
    match fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Insecure::Io(path.to_owned(), error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("there").mode() & 0o7777
    }

    #[test]
    fn what_is_created_is_for_its_owner_alone() {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = temp.path().join("a/b");
        create_dir(&dir).expect("created");
        let file = dir.join("f");
        // As an older version left it.
        fs::write(beside(&file, ".new"), "half").expect("written");
        write_atomic(&file, b"text").expect("written");
        assert_eq!((mode(&temp.path().join("a")), mode(&dir), mode(&file)), (0o700, 0o700, 0o600));
        assert_eq!(fs::read_dir(&dir).expect("listed").count(), 1);
    }

    #[test]
    fn what_was_open_is_closed_and_what_may_be_run_stays_so() {
        let temp = tempfile::tempdir().expect("a directory");
        let root = temp.path().join("data");
        fs::create_dir_all(root.join("logs/0abc/run")).expect("created");
        let files = [("logs/0abc/run/x.log", 0o644, 0o600), ("script", 0o755, 0o700), ("kept", 0o600, 0o600)];
        for (name, before, _) in files {
            fs::write(root.join(name), "").expect("written");
            fs::set_permissions(root.join(name), Permissions::from_mode(before)).expect("set");
        }
        std::os::unix::fs::symlink("/", root.join("elsewhere")).expect("linked");
        secure_tree(&root).expect("ours");
        for (name, _, after) in files {
            assert_eq!(mode(&root.join(name)), after, "{name}");
        }
        assert_eq!((mode(&root), mode(&root.join("logs/0abc/run"))), (0o700, 0o700));
        secure_tree(&root.join("missing")).expect("nothing to do");
    }

    #[test]
    fn a_directory_of_everybody_is_refused() {
        let temp = tempfile::tempdir().expect("a directory");
        fs::set_permissions(temp.path(), Permissions::from_mode(0o1777)).expect("set");
        let error = secure_dir(temp.path()).expect_err("shared").to_string();
        assert!(error.contains("all users write to"), "{error}");
        assert_eq!(mode(temp.path()), 0o1777, "left as it was");
    }
}
