//! The data directory: private, locked by one server, and where commands find that server.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

/// How often and how soon the lock on the data directory is tried again: two seconds in all, which is long for a
/// process that is about to start its program, and short for a person who started a second server.
const LOCK_TRIES_MAX: u32 = 100;
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(20);

/// What the server itself keeps in its data directory. Other files there are left as they are: job files are the
/// user's.
const OWN_FILES: [&str; 7] =
    ["lock", "server-name", "server.json", "sessions.json", "executors.yaml", "exec", "logs"];

/// The data is for its owner alone: what an older version left open to others is closed, and a directory of somebody else
/// is refused. The database and the token are looked at where they are opened.
fn make_private(data: &Path) -> anyhow::Result<()> {
    cadran_files::secure_dir(data)?;
    for name in OWN_FILES {
        cadran_files::secure_tree(&data.join(name))?;
    }
    Ok(())
}

/// The data directory, locked for this server until it is dropped.
pub struct DataDir {
    path: PathBuf,
    _lock: Flock<File>,
}

impl DataDir {
    /// Makes the directory, closes it to everybody else and locks it.
    pub fn open(path: &Path) -> anyhow::Result<DataDir> {
        make_private(path)?;
        let name = path.join("lock");
        let file = cadran_files::options().create(true).append(true).open(&name);
        let file = file.with_context(|| format!("cannot open {}", name.display()))?;
        let lock = DataDir::lock(file).map_err(|error| match error {
            Errno::EWOULDBLOCK => anyhow!(
                "another server uses {}; stop it, or give this one a directory of its own with --data",
                path.display()
            ),
            other => anyhow!("cannot lock {}: {}", name.display(), other.desc()),
        })?;
        Ok(DataDir { path: path.to_owned(), _lock: lock })
    }

    /// A server that was killed while it started a process leaves a copy of its lock in it, for the moment until that
    /// process has become the step's program: we wait that long.
    fn lock(mut file: File) -> Result<Flock<File>, Errno> {
        for _ in 0..LOCK_TRIES_MAX {
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(lock),
                Err((back, _)) => file = back,
            }
            #[allow(clippy::disallowed_methods)] // nobody tells when a lock is given back
            std::thread::sleep(LOCK_RETRY_DELAY);
        }
        Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| error)
    }

    /// The server's name, made once: the store knows its number by it. A copy of the directory is the same server, so
    /// that two copies must not run on one store.
    pub fn server_name(&self) -> anyhow::Result<String> {
        let path = self.path.join("server-name");
        match fs::read_to_string(&path) {
            Ok(name) if !name.trim().is_empty() => return Ok(name.trim().to_owned()),
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
            _ => {}
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random).context("the system gives no random numbers")?;
        let name = format!("{:032x}", u128::from_le_bytes(random));
        cadran_files::write_atomic(&path, name.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(name)
    }

    /// Lets commands on this machine find the server.
    pub fn announce(&self, address: SocketAddr) -> anyhow::Result<()> {
        // Whoever is on this machine reaches a server that listens everywhere by the loopback address.
        let ip = match address.ip() {
            ip if !ip.is_unspecified() => ip,
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        let url = format!("http://{}", SocketAddr::new(ip, address.port()));
        let text = serde_json::json!({ "url": url, "pid": std::process::id() }).to_string();
        cadran_files::write_atomic(&self.path.join("server.json"), text.as_bytes())?;
        Ok(())
    }

    /// Removes what [`announce`](DataDir::announce) wrote.
    pub fn withdraw(&self) {
        // Left behind, it names a server that does not answer, which commands report just as well.
        let _ = fs::remove_file(self.path.join("server.json"));
    }
}
