//! The socket of the executor: a file in its directory, which is for its owner alone.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// The name of the socket in the executor's directory.
pub(super) const NAME: &str = "executor.sock";

/// A directory held open. A path through it is short, however long its own is: the name of a socket has 108 bytes at most.
struct Dir(File);

impl Dir {
    fn open(path: &Path) -> io::Result<Dir> {
        File::open(path).map(Dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        format!("/proc/self/fd/{}/{name}", self.0.as_raw_fd()).into()
    }
}

/// Where the executor listens.
pub(super) struct Bound {
    pub(super) listener: UnixListener,
    path: PathBuf,
    /// The file as it was made: device and number.
    is: (u64, u64),
}

impl Bound {
    /// Listens in this directory. Whatever stood there under the socket's name is replaced: whoever binds holds the lock
    /// of the journal, so that it is nobody's.
    pub(super) fn new(dir: &Path) -> io::Result<Bound> {
        let half = format!("{NAME}.new");
        let opened = Dir::open(dir)?;
        let _ = fs::remove_file(dir.join(&half));
        let listener = UnixListener::bind(opened.path(&half))?;
        fs::set_permissions(dir.join(&half), fs::Permissions::from_mode(0o600))?;
        let path = dir.join(NAME);
        fs::rename(dir.join(&half), &path)?;
        let metadata = fs::symlink_metadata(&path)?;
        Ok(Bound { listener, path, is: (metadata.dev(), metadata.ino()) })
    }

    /// Whether the file is still there: without it no other server finds the executor.
    pub(super) fn is_there(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.is)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if self.is_there() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// `None` when nobody listens there.
pub(super) async fn connect(dir: &Path) -> io::Result<Option<UnixStream>> {
    let path = dir.join(NAME);
    match fs::symlink_metadata(&path) {
        Ok(metadata) if metadata.file_type().is_socket() => {}
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    match UnixStream::connect(Dir::open(dir)?.path(NAME)).await {
        Ok(stream) => Ok(Some(stream)),
        // The file of an executor that is gone.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Refuses another user's process at the other end. Gives its number, 0 when the system does not tell.
pub(super) fn own_peer(stream: &UnixStream) -> Result<i32, String> {
    let peer = stream.peer_cred().map_err(|error| format!("the system does not say who it is: {error}"))?;
    let user = nix::unistd::geteuid().as_raw();
    if peer.uid() != user {
        return Err(format!(
            "it belongs to user {}, and this process to user {user}; nothing is told to it",
            peer.uid()
        ));
    }
    Ok(peer.pid().unwrap_or_default())
}
