//! Objects by key, with versions and conditional puts: an S3 bucket, or a directory that behaves alike.

mod directory;
mod probe;
mod s3;

use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::error::{Failure, FuzzError};
use directory::Directory;
use s3::S3;

/// Where the state and the binaries live. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Bucket {
    backend: Backend,
    url: String,
}

#[derive(Clone, Debug)]
enum Backend {
    Directory(Directory),
    S3(S3),
}

/// What an S3 server needs besides its URL. What is not given here comes from the `AWS_…` variables of the
/// environment, and the endpoint also from the URL: `s3://bucket/prefix?endpoint=http://127.0.0.1:8333`.
#[derive(Clone)]
pub struct BucketOptions {
    /// The address of the server, when it is not Amazon's.
    pub endpoint: Option<String>,
    /// The region; `us-east-1` when nobody says otherwise.
    pub region: Option<String>,
    /// The access key and its secret.
    pub credentials: Option<(String, String)>,
    /// How often a request is repeated that failed by itself, not by what it asked: the server or the file system was
    /// away. Conflicts with other writers are not among them; see [`state_file`](crate::state_file).
    pub retries: u32,
}

/// Requests that fail are repeated so often unless `fuzz.yaml` says otherwise.
pub(crate) const RETRIES: u32 = 3;

impl Default for BucketOptions {
    fn default() -> BucketOptions {
        BucketOptions { endpoint: None, region: None, credentials: None, retries: RETRIES }
    }
}

/// Names one state of one object. It changes with every change of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(pub(crate) String);

impl Version {
    /// A version by its text, as a server gives it.
    pub fn of_text(text: &str) -> Version {
        Version(text.to_string())
    }
}

/// An object as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its content.
    pub bytes: Vec<u8>,
    /// What a conditional put names to say: if nobody changed it since.
    pub version: Version,
}

/// When a put may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Only if there is no such object.
    Absent,
    /// Only if the object is still this one.
    Matches(Version),
    /// In any case.
    Always,
}

/// What became of a put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is written, and this is its version.
    Written(Version),
    /// The condition does not hold. Nothing was written.
    Conflict,
}

/// One line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The whole key.
    pub key: String,
    /// Bytes.
    pub size: u64,
    /// Milliseconds since the epoch, by the store's clock.
    pub modified_at: i64,
}

/// A whole file that went up or came down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Bytes.
    pub size: u64,
    /// SHA-256, in hexadecimal.
    pub sha256: String,
}

/// State objects are lists of hashes. One that is larger than this is not ours.
const OBJECT_MAX: u64 = 16 << 20;

/// S3 copies up to 5 GiB in one request, and archives are moved into place by copying.
const ARCHIVE_MAX: u64 = 4 << 30;

/// Keys in one listing: a year of events at one a minute fits, a runaway program's leftovers do not.
pub const LISTED_MAX: usize = 1_000_000;

/// Where uploads wait until they are verified.
pub(crate) const UPLOADS: &str = "tmp/";

impl Bucket {
    /// `s3://bucket/prefix` or `file:///directory`. The directory must exist.
    pub async fn open(url: &str, options: &BucketOptions) -> Result<Bucket, FuzzError> {
        let backend = if let Some(path) = url.strip_prefix("file://") {
            Backend::Directory(Directory::open(Path::new(path), options.retries)?)
        } else if let Some(place) = url.strip_prefix("s3://") {
            Backend::S3(S3::open(place, options)?)
        } else {
            return Err(FuzzError::Url(format!("{url} begins neither with s3:// nor with file:///")));
        };
        Ok(Bucket { backend, url: url.to_string() })
    }

    /// As it was opened.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Asks the store to break its word: what is there must not be created again, what changed must not be replaced.
    /// Several servers accept such a put and write. They are refused here, before anything is lost.
    pub async fn probe(&self) -> Result<(), FuzzError> {
        probe::probe(self).await
    }

    /// The object, or `None` when there is none. A store that cannot be asked is an error, never `None`.
    pub async fn get(&self, key: &str) -> Result<Option<Object>, FuzzError> {
        check_key("get", key)?;
        match &self.backend {
            Backend::Directory(directory) => directory.get(key).await,
            Backend::S3(s3) => s3.get(key).await,
        }
    }

    /// Writes the object if the condition holds.
    pub async fn put(&self, key: &str, bytes: &[u8], condition: &Condition) -> Result<Put, FuzzError> {
        check_key("put", key)?;
        if bytes.len() as u64 > OBJECT_MAX {
            let detail = format!("{} bytes are more than a state object may have", bytes.len());
            return Err(FuzzError::Refused(Failure::new("put", key, detail)));
        }
        match &self.backend {
            Backend::Directory(directory) => directory.put(key, bytes, condition).await,
            Backend::S3(s3) => s3.put(key, bytes, condition).await,
        }
    }

    /// Removes the object. One that is not there is removed already.
    pub async fn delete(&self, key: &str) -> Result<(), FuzzError> {
        check_key("delete", key)?;
        match &self.backend {
            Backend::Directory(directory) => directory.delete(key).await,
            Backend::S3(s3) => s3.delete(key).await,
        }
    }

    /// Whether the object is there, and how large.
    pub async fn size(&self, key: &str) -> Result<Option<u64>, FuzzError> {
        check_key("size", key)?;
        match &self.backend {
            Backend::Directory(directory) => directory.size(key).await,
            Backend::S3(s3) => s3.size(key).await,
        }
    }

    /// Every object below `prefix` (which ends with `/`, or is empty for all), sorted by key; with `after` only what
    /// sorts behind it.
    pub async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<Listed>, FuzzError> {
        if !prefix.is_empty() {
            check_key("list", prefix.strip_suffix('/').unwrap_or(prefix))?;
        }
        let mut listed = match &self.backend {
            Backend::Directory(directory) => directory.list(prefix, after).await?,
            Backend::S3(s3) => s3.list(prefix, after).await?,
        };
        listed.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(listed)
    }

    /// Puts a whole file under `key`: first under a temporary key, where it is read back and compared, then in its
    /// place. Whoever sees the key sees all of it.
    pub async fn upload(&self, file: &Path, key: &str) -> Result<Transfer, FuzzError> {
        check_key("upload", key)?;
        let size = tokio::fs::metadata(file)
            .await
            .map_err(|error| FuzzError::Input(format!("cannot read {}: {error}", file.display())))?
            .len();
        if size > ARCHIVE_MAX {
            let detail = format!("{size} bytes are more than the {ARCHIVE_MAX} that can be moved into place");
            return Err(FuzzError::Refused(Failure::new("upload", key, detail)));
        }
        let waiting = format!("{UPLOADS}{}-{}", nonce(), key.rsplit('/').next().unwrap_or(key));
        let moved = self.upload_through(file, &waiting, key).await;
        // Left behind in the worst case; the clean-up pass removes it after a day.
        let _ = self.delete(&waiting).await;
        moved
    }

    async fn upload_through(&self, file: &Path, waiting: &str, key: &str) -> Result<Transfer, FuzzError> {
        let (sent, received) = match &self.backend {
            Backend::Directory(directory) => {
                (directory.send(file, waiting).await?, directory.digest(waiting).await?)
            }
            Backend::S3(s3) => (s3.send(file, waiting).await?, s3.receive(waiting, None).await?),
        };
        if received.as_ref() != Some(&sent) {
            let detail = "what was stored is not what was sent";
            return Err(FuzzError::Unavailable(Failure::new("upload", key, detail)));
        }
        match &self.backend {
            Backend::Directory(directory) => directory.rename(waiting, key).await?,
            Backend::S3(s3) => s3.copy(waiting, key).await?,
        }
        match self.size(key).await? {
            Some(size) if size == sent.size => Ok(sent),
            _ => Err(FuzzError::Unavailable(Failure::new("upload", key, "it did not arrive in its place"))),
        }
    }

    /// Writes the object to a file, which appears whole or not at all. `None` when there is no such object.
    pub async fn download(&self, key: &str, file: &Path) -> Result<Option<Transfer>, FuzzError> {
        check_key("download", key)?;
        let part = file.with_extension(format!("part-{}", nonce()));
        let received = match &self.backend {
            Backend::Directory(directory) => directory.receive(key, &part).await,
            Backend::S3(s3) => s3.receive(key, Some(&part)).await,
        };
        let local = |error| FuzzError::Input(format!("cannot write {}: {error}", file.display()));
        match received {
            Ok(Some(transfer)) => {
                tokio::fs::rename(&part, file).await.map_err(local)?;
                Ok(Some(transfer))
            }
            other => {
                let _ = tokio::fs::remove_file(&part).await;
                other
            }
        }
    }
}

impl std::fmt::Debug for BucketOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys = self.credentials.as_ref().map(|(key, _)| key);
        write!(f, "BucketOptions({:?}, {:?}, {keys:?})", self.endpoint, self.region)
    }
}

/// Sixteen hexadecimal digits that nobody else draws.
pub(crate) fn nonce() -> String {
    let mut bytes = [0; 8];
    if getrandom::fill(&mut bytes).is_err() {
        // No randomness on this machine: the process and a counter still tell writers apart on one machine.
        static DRAWN: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let drawn = DRAWN.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        bytes = ((u64::from(std::process::id()) << 32) | u64::from(drawn)).to_be_bytes();
    }
    hex(&bytes)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Counts and digests what passes by.
#[derive(Default)]
struct Meter {
    size: u64,
    sha256: Sha256,
}

impl Meter {
    fn take(&mut self, bytes: &[u8]) {
        self.size += bytes.len() as u64;
        self.sha256.update(bytes);
    }

    fn transfer(self) -> Transfer {
        Transfer { size: self.size, sha256: hex(&self.sha256.finalize()) }
    }
}

/// Keys become paths in the directory backend, and are shown to people: plain words between single slashes.
fn check_key(operation: &'static str, key: &str) -> Result<(), FuzzError> {
    let plain = |part: &str| {
        !part.is_empty() && !part.starts_with('.') && !part.chars().any(|c| c.is_control() || c == '\\')
    };
    if key.len() <= 512 && key.split('/').all(plain) {
        return Ok(());
    }
    let detail = "a key is 1 to 512 bytes of words between slashes, none of them beginning with a dot";
    Err(FuzzError::Refused(Failure::new(operation, format!("{key:?}"), detail)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_cannot_leave_the_store() {
        let check = |key: &str, good: bool| assert_eq!(check_key("get", key).is_ok(), good, "{key:?}");
        check("solvers/a/fuzzing-state/state.json", true);
        check("a", true);
        check("", false);
        check("/a", false);
        check("a//b", false);
        check("a/../b", false);
        check("..", false);
        check("a/.lock", false);
        check("a\0b", false);
        check("a\\..\\b", false);
        check(&"a".repeat(513), false);
    }

    #[test]
    fn secrets_are_not_shown() {
        let options =
            BucketOptions { credentials: Some(("key".into(), "hush".into())), ..Default::default() };
        assert!(!format!("{options:?}").contains("hush"));
    }
}
