use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cadran_exec::{Allowance, Ending, Guard};
use tokio::sync::watch;

use super::transcript::Transcript;
use super::{FuzzerStats, Repository, archive, environment};
use crate::bucket::nonce;
use crate::{BinaryKind, Bucket, Claim, CommitHash, FuzzError, Keys, Pipeline, Tools};

/// Where the passes do their work: a state, a repository, a cache directory and a way to run commands.
pub struct PassRunner {
    pub(crate) pipeline: Pipeline,
    pub(crate) tools: Tools,
    pub(crate) repository: Repository,
    pub(crate) watcher: Arc<dyn Watcher>,
    guard: Arc<Guard>,
    cache: PathBuf,
    halt: Halt,
}

/// Who is told how the work goes on.
pub trait Watcher: Send + Sync {
    /// Something worth a line.
    fn say(&self, line: &str);
    /// A build is going on: which binary, for how long, and what it printed last.
    fn building(&self, kind: BinaryKind, elapsed: Duration, line: &str);
    /// A fuzz run is going on.
    fn fuzzing(&self, now: &Fuzzing);
}

/// How a fuzz run stands.
#[derive(Clone, Copy, Debug)]
pub struct Fuzzing {
    /// What the fuzzer says.
    pub stats: FuzzerStats,
    /// Places reached since the run began.
    pub coverage_new: u64,
    /// Crashing inputs found.
    pub crashes: u64,
    /// Until it is stopped.
    pub left: Duration,
}

/// Asks the work to stop: from outside, as by Ctrl-C, or because a lease is lost.
#[derive(Clone, Debug)]
pub struct Halt {
    sender: Arc<watch::Sender<bool>>,
    why: Arc<Mutex<Option<Why>>>,
}

/// Why the work was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Somebody asked for it.
    Asked,
    /// Somebody else has the work by now.
    LeaseLost,
}

impl Default for Halt {
    fn default() -> Halt {
        Halt { sender: Arc::new(watch::Sender::new(false)), why: Arc::default() }
    }
}

impl Halt {
    /// Asks for the stop; the first reason stands.
    pub fn halt(&self, why: Why) {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        self.sender.send_replace(true);
    }

    /// Why it was asked for, if it was.
    pub fn why(&self) -> Option<Why> {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For those who wait for it.
    pub fn receiver(&self) -> watch::Receiver<bool> {
        self.sender.subscribe()
    }
}

/// One command line, and what it is given.
pub(crate) struct CommandLine<'a> {
    pub(crate) text: &'a str,
    pub(crate) dir: &'a Path,
    pub(crate) budget: Duration,
    pub(crate) variables: Vec<(&'static str, OsString)>,
}

/// Below this much free space a failure is the disk's, not the project's.
const DISK_BYTES_MIN: u64 = 32 << 20;

/// Logs that one pass removes; the next one goes on.
const LOGS_REMOVED_MAX: u64 = 2_000;

impl PassRunner {
    /// `cache` keeps the clone between passes, and holds the work while it goes on.
    pub fn open(
        pipeline: Pipeline,
        tools: Tools,
        cache: PathBuf,
        guard: Arc<Guard>,
        halt: Halt,
        watcher: Arc<dyn Watcher>,
    ) -> Result<PassRunner, FuzzError> {
        let local = |error: std::io::Error| local(&cache, &error);
        fs::create_dir_all(cache.join("work")).map_err(local)?;
        // Borrowed objects are named by their full path.
        let cache = fs::canonicalize(&cache).map_err(local)?;
        sweep(&cache.join("work"));
        let repository = Repository::new(
            pipeline.target(),
            &cache,
            tools.submodules,
            tools.git,
            Arc::clone(&guard),
            halt.receiver(),
        )?;
        Ok(PassRunner { pipeline, tools, repository, watcher, guard, cache, halt })
    }

    /// The repository.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// The state.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    pub(crate) fn bucket(&self) -> &Bucket {
        self.pipeline.bucket()
    }

    pub(crate) fn keys(&self) -> &Keys {
        self.pipeline.keys()
    }

    pub(crate) fn why_halted(&self) -> Option<Why> {
        self.halt.why()
    }

    /// A directory of its own that goes away with the value.
    pub(crate) fn scratch(&self) -> Result<Scratch, FuzzError> {
        Scratch::new(&self.cache.join("work"))
    }

    /// Runs a command line; every line it prints goes to `each`. `budget` holds for its whole tree.
    pub(crate) async fn shell(
        &self,
        line: CommandLine<'_>,
        transcript: &mut Transcript,
        each: impl FnMut(&str),
    ) -> Result<Ending, FuzzError> {
        self.shell_until(line, self.halt.receiver(), transcript, each).await
    }

    /// The same for what must be brought to its end even when a stop was asked for, as saving results.
    pub(crate) async fn shell_through(
        &self,
        line: CommandLine<'_>,
        transcript: &mut Transcript,
    ) -> Result<Ending, FuzzError> {
        let (_open, never) = watch::channel(false);
        self.shell_until(line, never, transcript, |_| {}).await
    }

    async fn shell_until(
        &self,
        line: CommandLine<'_>,
        mut stop: watch::Receiver<bool>,
        transcript: &mut Transcript,
        mut each: impl FnMut(&str),
    ) -> Result<Ending, FuzzError> {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(line.text).current_dir(line.dir).env_clear();
        command.envs(environment::plain()).envs(environment::named(&self.tools.pass_env));
        command.env("CADRAN_TARGET", self.pipeline.target().name.as_str());
        command.envs(line.variables);
        let allowance = Allowance { budget: line.budget, grace: self.pipeline.target().budgets.grace };
        let take = |bytes: &[u8]| transcript.take_lines(bytes, &mut each);
        let ending = self.guard.run(command, allowance, &mut stop, take).await;
        ending.map_err(|error| {
            FuzzError::Input(format!("cannot start /bin/sh in {}: {error}", line.dir.display()))
        })
    }

    /// Downloads and unpacks one binary of a commit; `None` when the store has none.
    pub(crate) async fn fetch_binary(
        &self,
        kind: BinaryKind,
        commit: &CommitHash,
        dir: &Path,
    ) -> Result<Option<Manifest>, FuzzError> {
        let key = self.keys().binary(kind, commit.as_str());
        let file = dir.with_extension("tar.gz");
        let Some(transfer) = self.bucket().download(&key, &file).await? else { return Ok(None) };
        let wanted = self.bucket().get(&self.digest_key(kind, commit)).await?;
        let wanted = wanted.map(|object| String::from_utf8_lossy(&object.bytes).into_owned());
        // Archives of other tools have no digest beside them.
        if let Some(wanted) = wanted.as_deref().and_then(|text| text.split_whitespace().next())
            && wanted != transfer.sha256
        {
            let why = format!("{key} has the digest {}, not {wanted}", transfer.sha256);
            return Err(FuzzError::Input(format!("{why}: it was damaged; build it again")));
        }
        unpack(&file, dir).await?;
        let _ = fs::remove_file(&file);
        let manifest = fs::read(dir.join(MANIFEST)).ok();
        Ok(Some(manifest.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()))
    }

    /// Does the work under a claim, which is renewed meanwhile. When it is lost, the work is stopped.
    pub(crate) async fn with_lease<T>(&self, claim: &Claim, work: impl Future<Output = T>) -> T {
        let mut keeper = self.pipeline.keep(claim);
        tokio::pin!(work);
        tokio::select! {
            done = &mut work => return done,
            why = keeper.lost() => self.watcher.say(&format!("the claim is lost, the work stops: {why}")),
        }
        self.halt.halt(Why::LeaseLost);
        work.await
    }

    /// Where the digest of an archive lies, in the form of `sha256sum`: among the logs of its commit.
    pub(crate) fn digest_key(&self, kind: BinaryKind, commit: &CommitHash) -> String {
        self.keys().other(&format!("logs/{commit}/{}.sha256", kind.as_str()))
    }

    /// Removes logs that are kept long enough: as long as the event log.
    pub async fn clean_logs(&self) -> Result<u64, FuzzError> {
        let keep = i64::try_from(self.pipeline.target().retention.events.as_millis()).unwrap_or(i64::MAX);
        let horizon = self.pipeline.now().saturating_sub(keep);
        let mut removed = 0;
        for object in self.bucket().list(&self.keys().other("logs/"), None).await? {
            if object.modified_at < horizon && removed < LOGS_REMOVED_MAX {
                self.bucket().delete(&object.key).await?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Whether the disk of the cache is full: then what failed says nothing about the project.
    pub(crate) fn is_disk_full(&self) -> bool {
        nix::sys::statvfs::statvfs(&self.cache)
            .is_ok_and(|stat| stat.blocks_available().saturating_mul(stat.fragment_size()) < DISK_BYTES_MIN)
    }
}

/// Beside the files of a build: what it was made from.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Manifest {
    pub(crate) commit: String,
    pub(crate) kind: String,
    /// The root of the work tree, as the debug information has it.
    pub(crate) root: Option<PathBuf>,
}

pub(crate) const MANIFEST: &str = "cadran-build.json";

/// A directory that goes away with the value. While it is in use its lock is held; what a killed pass left is removed by
/// the next one.
pub(crate) struct Scratch {
    path: PathBuf,
    lock: PathBuf,
    _held: File,
}

impl Scratch {
    fn new(below: &Path) -> Result<Scratch, FuzzError> {
        let path = below.join(nonce());
        let lock = path.with_extension("lock");
        let made = File::create(&lock).and_then(|held| {
            held.lock()?;
            fs::create_dir(&path)?;
            Ok(held)
        });
        let held = made.map_err(|error| local(&path, &error))?;
        Ok(Scratch { path, lock, _held: held })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A directory inside, empty.
    pub(crate) fn dir(&self, name: &str) -> Result<PathBuf, FuzzError> {
        let path = self.path.join(name);
        fs::create_dir(&path).map_err(|error| local(&path, &error))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        let _ = fs::remove_file(&self.lock);
    }
}

/// Removes what passes that were killed have left.
fn sweep(work: &Path) {
    for entry in fs::read_dir(work).into_iter().flatten().flatten() {
        let lock = entry.path();
        if lock.extension().is_none_or(|extension| extension != "lock") {
            continue;
        }
        if File::open(&lock).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(lock.with_extension(""));
            let _ = fs::remove_file(lock);
        }
    }
}

pub(crate) fn local(path: &Path, error: &std::io::Error) -> FuzzError {
    FuzzError::Input(format!("cannot use {}: {error}", path.display()))
}

pub(crate) async fn unpack(file: &Path, dir: &Path) -> Result<u64, FuzzError> {
    fs::create_dir_all(dir).map_err(|error| local(dir, &error))?;
    let (from, to) = (file.to_path_buf(), dir.to_path_buf());
    let unpacked = tokio::task::spawn_blocking(move || archive::unpack(&from, &to)).await;
    unpacked.map_err(std::io::Error::other).flatten().map_err(|error| local(file, &error))
}

pub(crate) async fn pack(dir: &Path, file: &Path) -> Result<u64, FuzzError> {
    let (from, to) = (dir.to_path_buf(), file.to_path_buf());
    let packed = tokio::task::spawn_blocking(move || archive::pack(&from, &to)).await;
    packed.map_err(std::io::Error::other).flatten().map_err(|error| local(dir, &error))
}
