use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use nix::fcntl::{Flock, FlockArg};

use super::{Condition, LISTED_MAX, Listed, Meter, OBJECT_MAX, Object, Put, Transfer, Version, nonce};
use crate::error::{Failure, FuzzError};

/// Objects as files. The version of an object is the digest of its content; a put compares and renames under one lock
/// (`flock`), so that processes of one machine, and of several on a file system whose locks work, see one order.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    root: PathBuf,
    /// How often work that failed is repeated.
    retries: u32,
}

/// Before the first repetition; each later wait is twice as long, up to the longest.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Names that begin with a dot are no objects.
const LOCK: &str = ".lock";

/// Directories below one another: keys are four parts deep.
const DEPTH_MAX: usize = 16;

const CHUNK: usize = 256 << 10;

impl Directory {
    pub(super) fn open(root: &Path, retries: u32) -> Result<Directory, FuzzError> {
        if !root.is_absolute() {
            return Err(FuzzError::Url(format!("{} is no absolute path (file:///dir)", root.display())));
        }
        if !root.is_dir() {
            return Err(FuzzError::Url(format!("{} is no directory; make it first", root.display())));
        }
        Ok(Directory { root: root.to_path_buf(), retries })
    }

    pub(super) async fn get(&self, key: &str) -> Result<Option<Object>, FuzzError> {
        self.work("get", key, |at| {
            let Some(file) = at.file()? else { return Ok(None) };
            let mut bytes = Vec::new();
            file.take(OBJECT_MAX + 1).read_to_end(&mut bytes)?;
            if bytes.len() as u64 > OBJECT_MAX {
                return Err(io::Error::other("larger than any state object"));
            }
            let version = version(&bytes);
            Ok(Some(Object { bytes, version }))
        })
        .await
    }

    pub(super) async fn put(&self, key: &str, bytes: &[u8], condition: &Condition) -> Result<Put, FuzzError> {
        let (bytes, condition) = (bytes.to_vec(), condition.clone());
        self.work("put", key, move |at| {
            let _lock = at.lock()?;
            let holds = match &condition {
                Condition::Always => true,
                Condition::Absent => at.file()?.is_none(),
                Condition::Matches(wanted) => match at.file()? {
                    None => false,
                    Some(mut file) => {
                        let mut current = Vec::new();
                        file.read_to_end(&mut current)?;
                        version(&current) == *wanted
                    }
                },
            };
            if !holds {
                return Ok(Put::Conflict);
            }
            at.write(|file| file.write_all(&bytes))?;
            Ok(Put::Written(version(&bytes)))
        })
        .await
    }

    pub(super) async fn delete(&self, key: &str) -> Result<(), FuzzError> {
        self.work("delete", key, |at| {
            let _lock = at.lock()?;
            match fs::remove_file(&at.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                other => other,
            }
        })
        .await
    }

    pub(super) async fn size(&self, key: &str) -> Result<Option<u64>, FuzzError> {
        self.work("size", key, |at| Ok(at.file()?.map(|file| file.metadata()).transpose()?.map(|m| m.len())))
            .await
    }

    pub(super) async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<Listed>, FuzzError> {
        let (within, after) = (prefix.to_string(), after.map(str::to_string));
        let shown = if prefix.is_empty() { "everything" } else { prefix };
        self.work("list", shown, move |at| {
            at.check_root()?;
            let mut listed = Vec::new();
            // Only the folder part of the prefix is a folder; the rest is the beginning of names.
            let folder = within.rsplit_once('/').map_or("", |(folder, _)| folder);
            walk(&at.root.join(folder), folder, 0, &mut listed)?;
            listed.retain(|one| one.key.starts_with(&within));
            listed.retain(|one| after.as_ref().is_none_or(|after| one.key > *after));
            Ok(listed)
        })
        .await
    }

    pub(super) async fn send(&self, file: &Path, key: &str) -> Result<Transfer, FuzzError> {
        let source = file.to_path_buf();
        self.work("upload", key, move |at| {
            let mut meter = Meter::default();
            at.write(|target| pour(&mut File::open(&source)?, target, &mut meter))?;
            Ok(meter.transfer())
        })
        .await
    }

    pub(super) async fn digest(&self, key: &str) -> Result<Option<Transfer>, FuzzError> {
        self.work("read back", key, |at| {
            let Some(mut file) = at.file()? else { return Ok(None) };
            let mut meter = Meter::default();
            pour(&mut file, &mut io::sink(), &mut meter)?;
            Ok(Some(meter.transfer()))
        })
        .await
    }

    pub(super) async fn receive(&self, key: &str, target: &Path) -> Result<Option<Transfer>, FuzzError> {
        let target = target.to_path_buf();
        self.work("download", key, move |at| {
            let Some(mut file) = at.file()? else { return Ok(None) };
            let mut meter = Meter::default();
            pour(&mut file, &mut File::create(&target)?, &mut meter)?;
            Ok(Some(meter.transfer()))
        })
        .await
    }

    pub(super) async fn rename(&self, from: &str, to: &str) -> Result<(), FuzzError> {
        let source = self.root.join(from);
        self.work("move", to, move |at| {
            let folder = at.make_folder()?;
            fs::rename(&source, &at.path)?;
            File::open(folder)?.sync_all()
        })
        .await
    }

    /// File system calls block, so they are made beside the runtime. What fails because the file system is away, as over a
    /// network, is tried again.
    async fn work<T: Send + 'static>(
        &self,
        operation: &'static str,
        key: &str,
        work: impl Fn(&ObjectPath) -> io::Result<T> + Send + Sync + 'static,
    ) -> Result<T, FuzzError> {
        let object = ObjectPath { root: self.root.clone(), path: self.root.join(key) };
        let shown = object.path.display().to_string();
        let (work, mut pause, mut left) = (Arc::new(move || work(&object)), RETRY_PAUSE, self.retries);
        let done = loop {
            let once = work.clone();
            let done = tokio::task::spawn_blocking(move || once()).await;
            let done = done.unwrap_or_else(|error| Err(io::Error::other(error)));
            if left == 0
                || done.as_ref().is_ok()
                || done.as_ref().is_err_and(|error| !is_worth_a_retry(error))
            {
                break done;
            }
            tokio::time::sleep(pause).await;
            (left, pause) = (left - 1, (2 * pause).min(RETRY_PAUSE_MAX));
        };
        done.map_err(|error| {
            let failure = Failure::new(operation, shown, &error);
            match error.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    FuzzError::Refused(failure)
                }
                _ => FuzzError::Unavailable(failure),
            }
        })
    }
}

/// What is not allowed stays so, and what is said of an object itself (`Other`) is no failure of the file system.
fn is_worth_a_retry(error: &io::Error) -> bool {
    use io::ErrorKind::{Other, PermissionDenied, ReadOnlyFilesystem};
    !matches!(error.kind(), Other | PermissionDenied | ReadOnlyFilesystem)
}

/// One object of the directory.
struct ObjectPath {
    root: PathBuf,
    path: PathBuf,
}

impl ObjectPath {
    /// A file that is missing because the whole directory is gone is not a missing object.
    fn check_root(&self) -> io::Result<()> {
        if self.root.is_dir() { Ok(()) } else { Err(io::Error::other("the directory of the store is gone")) }
    }

    fn file(&self) -> io::Result<Option<File>> {
        match File::open(&self.path) {
            Ok(file) if file.metadata()?.is_file() => Ok(Some(file)),
            Ok(_) => Ok(None),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                self.check_root().map(|()| None)
            }
            Err(error) => Err(error),
        }
    }

    fn lock(&self) -> io::Result<Flock<File>> {
        self.check_root()?;
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(self.root.join(LOCK))?;
        Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| io::Error::from(errno))
    }

    fn make_folder(&self) -> io::Result<PathBuf> {
        self.check_root()?;
        let folder = self.path.parent().unwrap_or(&self.root).to_path_buf();
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Beside its place first, then renamed: a reader sees the old content or the new, and so does a power cut.
    fn write(&self, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        let folder = self.make_folder()?;
        let beside = folder.join(format!(".new-{}", nonce()));
        let written = || -> io::Result<()> {
            let mut file = File::create(&beside)?;
            fill(&mut file)?;
            file.sync_all()?;
            fs::rename(&beside, &self.path)?;
            File::open(&folder)?.sync_all()
        };
        written().inspect_err(|_| drop(fs::remove_file(&beside)))
    }
}

fn version(bytes: &[u8]) -> Version {
    Version(blake3::hash(bytes).to_hex().to_string())
}

fn pour(from: &mut File, to: &mut impl Write, meter: &mut Meter) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = from.read(&mut chunk)?;
        let Some(bytes) = chunk.get(..read).filter(|bytes| !bytes.is_empty()) else { return Ok(()) };
        meter.take(bytes);
        to.write_all(bytes)?;
    }
}

fn walk(folder: &Path, key: &str, depth: usize, listed: &mut Vec<Listed>) -> io::Result<()> {
    if depth > DEPTH_MAX {
        return Err(io::Error::other("folders lie too deep below one another"));
    }
    let entries = match fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(());
        }
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with('.') {
            continue;
        }
        let key = if key.is_empty() { name } else { format!("{key}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(&entry.path(), &key, depth + 1, listed)?;
        } else if kind.is_file() {
            // Removed since it was listed: then it is not there.
            let Ok(metadata) = entry.metadata() else { continue };
            let modified = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            listed.push(Listed { key, size: metadata.len(), modified_at: modified.as_millis() as i64 });
        }
        if listed.len() > LISTED_MAX {
            return Err(io::Error::other(format!("more than {LISTED_MAX} objects")));
        }
    }
    Ok(())
}
