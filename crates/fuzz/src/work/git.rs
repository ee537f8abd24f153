//! Git through its own program, with the repository taken for hostile: no hooks, no odd transports, one fixed refspec,
//! bounded in size and time, an environment of our own.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use cadran_exec::{Allowance, Ending, Guard};
use tokio::sync::watch;

use super::environment;
use crate::{Commit, CommitHash, Files, History, HistoryError, Resolved, Since, Target, Walk};

/// A clone of the target's repository in a cache directory, and the way to a work tree of one commit.
#[derive(Clone)]
pub struct Repository {
    url: String,
    branch: String,
    mirror: PathBuf,
    submodules: bool,
    limits: GitLimits,
    guard: Arc<Guard>,
    stop: watch::Receiver<bool>,
}

/// What the repository may cost.
#[derive(Clone, Copy, Debug)]
pub struct GitLimits {
    /// One fetch or checkout.
    pub time: Duration,
    /// The clone, and one work tree.
    pub bytes: u64,
}

impl Default for GitLimits {
    fn default() -> GitLimits {
        GitLimits { time: Duration::from_secs(30 * 60), bytes: 8 << 30 }
    }
}

/// What git may print where we keep it: a list of a million commits.
const OUTPUT_BYTES_MAX: usize = 64 << 20;

/// What a list of changed files may take. A commit that changes more has certainly changed something of interest.
const FILES_BYTES_MAX: usize = 4 << 20;

/// Objects that one abbreviation may stand for, before it is ambiguous without looking further.
const MEANT_MAX: usize = 16;

/// Between two looks at the size of a fetch.
const SIZE_EVERY: Duration = Duration::from_millis(300);

/// What git says on failure, shown in an error.
const REASON_BYTES_MAX: usize = 2_000;

/// Where the fetched branch ends. Outside of `refs/heads`, so that nothing of the repository can be mistaken for it.
const HEAD: &str = "refs/cadran/head";

/// Whether an address is one that we fetch from; the error says what to write.
pub fn check_address(url: &str) -> Result<(), String> {
    scheme(url).map(|_| ())
}

/// The transport an address asks for.
fn scheme(url: &str) -> Result<&'static str, String> {
    if url.is_empty() || url.starts_with('-') || url.chars().any(|c| c.is_control()) {
        return Err(format!("{url:?} is no address of a repository"));
    }
    // `ext::sh -c …` and its kind run programs.
    if let Some((helper, _)) = url.split_once("::") {
        return Err(format!("{helper}:: is not an address that is fetched from; use https, ssh or a path"));
    }
    match url.split_once("://") {
        Some((name, _)) => ["https", "ssh", "http", "git", "file"]
            .into_iter()
            .find(|known| known.eq_ignore_ascii_case(name))
            .ok_or_else(|| {
                format!("{name}:// is not an address that is fetched from; use https, ssh or a path")
            }),
        // `host:path` is ssh, unless a slash comes first.
        None => match (url.find(':'), url.find('/')) {
            (Some(colon), slash) if slash.is_none_or(|slash| colon < slash) => Ok("ssh"),
            _ => Ok("file"),
        },
    }
}

impl Repository {
    /// The clone lies below `cache`, in a directory that belongs to this address and branch.
    pub fn new(
        target: &Target,
        cache: &Path,
        submodules: bool,
        limits: GitLimits,
        guard: Arc<Guard>,
        stop: watch::Receiver<bool>,
    ) -> Result<Repository, HistoryError> {
        scheme(&target.repository).map_err(HistoryError)?;
        let branch = &target.branch;
        let bad = branch.is_empty()
            || branch.starts_with(['-', '/', '.'])
            || branch.contains("..")
            || branch.contains(|c: char| c.is_control() || " ~^:?*[\\".contains(c));
        if bad {
            return Err(HistoryError(format!("{branch:?} is no name of a branch")));
        }
        let place = blake3::hash(format!("{}\n{branch}", target.repository).as_bytes()).to_hex();
        let mirror = cache.join(format!("{}-{}.git", target.name, &place.as_str()[..16]));
        Ok(Repository {
            url: target.repository.clone(),
            branch: branch.clone(),
            mirror,
            submodules,
            limits,
            guard,
            stop,
        })
    }

    /// Makes sure that the clone has a commit: by the branch, else by its name.
    pub async fn provide(&self, commit: &CommitHash) -> Result<(), HistoryError> {
        let is_here = async || {
            let is_made = self.mirror.join("objects").is_dir();
            Ok::<bool, HistoryError>(
                is_made && self.kind(commit.as_str()).await?.as_deref() == Some("commit"),
            )
        };
        if is_here().await? {
            return Ok(());
        }
        self.head().await?;
        if !is_here().await? {
            self.fetch(commit.as_str()).await?;
        }
        match is_here().await? {
            true => Ok(()),
            false => Err(HistoryError(format!("{} is not in the repository", commit.short()))),
        }
    }

    /// Writes the files below a path of a commit into an archive; false when there are none.
    pub async fn export(
        &self,
        commit: &CommitHash,
        path: &str,
        archive: &Path,
    ) -> Result<bool, HistoryError> {
        if self.git(&["ls-tree", "-r", "-z", commit.as_str(), "--", path]).await?.is_empty() {
            return Ok(false);
        }
        let out = format!("--output={}", path_text(archive)?);
        self.git(&["archive", "--format=tar.gz", &out, commit.as_str(), "--", path]).await?;
        Ok(true)
    }

    /// Writes the files of one commit to `dir`, which must not exist, as a repository of its own that borrows its
    /// objects: whatever is done there, the clone is as it was.
    pub async fn checkout(&self, commit: &CommitHash, dir: &Path) -> Result<(), HistoryError> {
        let hash = commit.as_str();
        let listed = self.git(&["ls-tree", "-r", "-l", "-z", hash]).await?;
        let sizes = listed.split(|byte| *byte == 0).filter_map(|line| {
            let text = String::from_utf8_lossy(line);
            text.split('\t').next()?.split_ascii_whitespace().nth(3)?.parse::<u64>().ok()
        });
        let bytes: u64 = sizes.fold(0, u64::saturating_add);
        if bytes > self.limits.bytes || listed.len() >= OUTPUT_BYTES_MAX {
            let max = self.limits.bytes;
            return Err(HistoryError(format!(
                "the files of {} are larger than the limit of {max} bytes",
                commit.short()
            )));
        }
        self.run(&["init", "--quiet", "--template=", "--", &path_text(dir)?], None).await?;
        let borrowed = format!("{}\n", path_text(&self.mirror.join("objects"))?);
        let alternates = dir.join(".git/objects/info");
        let written = fs::create_dir_all(&alternates)
            .and_then(|()| fs::write(alternates.join("alternates"), borrowed))
            .map_err(|error| format!("cannot write to {}: {error}", dir.display()));
        written.map_err(HistoryError)?;
        self.run(&["checkout", "--quiet", "--force", "--detach", hash, "--"], Some(dir)).await?;
        if self.submodules {
            self.run(&["submodule", "--quiet", "update", "--init", "--recursive"], Some(dir)).await?;
        }
        Ok(())
    }

    /// The names and contents of the files below a path of a commit, as one digest: the same list gives the same one.
    pub async fn digest_of(&self, commit: &CommitHash, path: &str) -> Result<String, HistoryError> {
        let listed = self.git(&["ls-tree", "-r", "-z", commit.as_str(), "--", path]).await?;
        Ok(blake3::hash(&listed).to_hex().as_str()[..12].to_owned())
    }

    /// Commits up to `head` that a walk passes through, newest first, `limit` at most.
    pub async fn line(
        &self,
        head: &CommitHash,
        walk: Walk,
        limit: usize,
    ) -> Result<Vec<CommitHash>, HistoryError> {
        let rows = self.rows(head, None, walk, Some(limit)).await?;
        Ok(rows.into_iter().map(|row| row.hash).collect())
    }

    /// Whether `old` is `new` or one of its ancestors. One that is not there is no ancestor.
    pub async fn is_ancestor(&self, old: &CommitHash, new: &CommitHash) -> Result<bool, HistoryError> {
        if self.kind(old.as_str()).await?.as_deref() != Some("commit") {
            return Ok(false);
        }
        let mut command = self.command(None);
        command.args(["merge-base", "--is-ancestor", old.as_str(), new.as_str()]);
        let (ending, _, said) = self.run_command(command, None).await?;
        match ending {
            Ending::Exited(0) => Ok(true),
            Ending::Exited(1) => Ok(false),
            other => Err(failed("merge-base", other, &said)),
        }
    }

    /// The first line of a commit's message.
    pub async fn subject(&self, commit: &CommitHash) -> Result<String, HistoryError> {
        let text = self.git(&["log", "-1", "--no-walk", "--format=%s", commit.as_str(), "--"]).await?;
        Ok(String::from_utf8_lossy(&text).trim().chars().take(120).collect())
    }

    async fn fetch(&self, what: &str) -> Result<(), HistoryError> {
        let parent = self.mirror.parent().unwrap_or(Path::new("."));
        let local =
            |error: std::io::Error| HistoryError(format!("cannot use {}: {error}", self.mirror.display()));
        fs::create_dir_all(parent).map_err(local)?;
        let lock = File::create(self.mirror.with_extension("lock")).map_err(local)?;
        // Two passes on one machine share the clone; the second waits for the first one's fetch, which is bounded.
        let lock = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await;
        let _lock = lock.map_err(std::io::Error::other).flatten().map_err(local)?;
        if !self.mirror.join("objects").is_dir() {
            // A pass that was ended while it made the clone leaves a part of it, with git's own lock file.
            if self.mirror.exists() {
                fs::remove_dir_all(&self.mirror).map_err(local)?;
            }
            self.run(&["init", "--quiet", "--bare", "--template=", "--", &path_text(&self.mirror)?], None)
                .await?;
        }
        let mut command = self.command(None);
        command.args(["fetch", "--quiet", "--force", "--no-tags", "--no-write-fetch-head", "--refmap="]);
        command.args(["--no-recurse-submodules", "--no-show-forced-updates", "--", &self.url, what]);
        let (ending, _, said) = self.run_command(command, Some(self.limits.bytes)).await?;
        match ending {
            Ending::Exited(0) => Ok(()),
            other => Err(failed("fetch", other, &said)),
        }
    }

    /// What git prints on success, cut at a bound.
    async fn git(&self, args: &[&str]) -> Result<Vec<u8>, HistoryError> {
        self.run(args, None).await
    }

    async fn run(&self, args: &[&str], dir: Option<&Path>) -> Result<Vec<u8>, HistoryError> {
        let mut command = self.command(dir);
        // Two commands begin without a repository.
        if args.first() == Some(&"init") {
            command = self.bare_command();
        }
        command.args(args);
        let (ending, out, said) = self.run_command(command, None).await?;
        match ending {
            Ending::Exited(0) => Ok(out),
            other => Err(failed(args.first().unwrap_or(&"git"), other, &said)),
        }
    }

    fn command(&self, dir: Option<&Path>) -> Command {
        let mut command = self.bare_command();
        match dir {
            Some(dir) => drop(command.current_dir(dir).arg("-C").arg(dir)),
            None => drop(command.arg("--git-dir").arg(&self.mirror)),
        }
        command
    }

    /// Git with nothing in it that the repository or the caller's environment could have put there.
    fn bare_command(&self) -> Command {
        let mut command = Command::new("git");
        command.env_clear().envs(environment::plain()).envs(environment::network());
        command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_LFS_SKIP_SMUDGE", "1").env("LC_ALL", "C");
        command
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_LITERAL_PATHSPECS", "1");
        // Also for submodules: what the address asks for, and what is safe anyway.
        let own = scheme(&self.url).unwrap_or("https");
        command.env("GIT_ALLOW_PROTOCOL", format!("https:ssh:{own}"));
        for setting in SETTINGS {
            command.arg("-c").arg(setting);
        }
        command
    }

    /// Runs one git command, with a bound on the size of the clone while it works.
    async fn run_command(
        &self,
        command: Command,
        bytes_max: Option<u64>,
    ) -> Result<(Ending, Vec<u8>, Vec<u8>), HistoryError> {
        let (mut out, mut said) = (Vec::new(), Vec::new());
        let (stopper, mut stop) = watch::channel(false);
        let allowance = Allowance { budget: self.limits.time, grace: Duration::from_secs(5) };
        let take = |bytes: &[u8]| keep(&mut out, bytes, OUTPUT_BYTES_MAX);
        let hear = |bytes: &[u8]| keep(&mut said, bytes, REASON_BYTES_MAX);
        let mut outer = self.stop.clone();
        let (mut too_large, mut is_stopping) = (false, false);
        let ending = {
            let running = self.guard.run_apart(command, allowance, &mut stop, take, Some(hear));
            tokio::pin!(running);
            loop {
                tokio::select! {
                    ended = &mut running => break ended,
                    () = stop_requested(&mut outer), if !is_stopping => {
                        is_stopping = true;
                        stopper.send_replace(true);
                    }
                    () = tokio::time::sleep(SIZE_EVERY), if bytes_max.is_some() => {
                        let size = size_of(self.mirror.clone()).await;
                        if bytes_max.is_some_and(|max| size > max) {
                            (too_large, is_stopping) = (true, true);
                            stopper.send_replace(true);
                        }
                    }
                }
            }
        };
        let ending =
            ending.map_err(|error| HistoryError(format!("cannot start git: {error}; is it installed?")))?;
        // What arrived between two looks counts too.
        if let Some(max) = bytes_max
            && (too_large || size_of(self.mirror.clone()).await > max)
        {
            // A clone that is too large would be too large for ever.
            let _ = fs::remove_dir_all(&self.mirror);
            let why = format!(
                "the repository is larger than the limit of {max} bytes (`repository_mib_max` in fuzz.yaml)"
            );
            return Err(HistoryError(why));
        }
        Ok((ending, out, said))
    }

    /// The type of an object, `None` when there is none.
    async fn kind(&self, name: &str) -> Result<Option<String>, HistoryError> {
        let mut command = self.command(None);
        command.args(["cat-file", "-t", name]);
        let (ending, out, said) = self.run_command(command, None).await?;
        match ending {
            Ending::Exited(0) => Ok(Some(String::from_utf8_lossy(&out).trim().to_owned())),
            Ending::Exited(_) => Ok(None),
            other => Err(failed("cat-file", other, &said)),
        }
    }

    async fn rows(
        &self,
        head: &CommitHash,
        base: Option<&CommitHash>,
        walk: Walk,
        limit: Option<usize>,
    ) -> Result<Vec<Row>, HistoryError> {
        let not_base = base.map(|base| format!("^{base}"));
        let count = limit.map(|limit| format!("--max-count={limit}"));
        let mut args = vec!["rev-list", "--date-order", "--timestamp", "--parents"];
        args.extend((walk == Walk::FirstParent).then_some("--first-parent"));
        args.extend(count.as_deref());
        args.push(head.as_str());
        args.extend(not_base.as_deref());
        args.push("--");
        let out = self.git(&args).await?;
        if out.len() >= OUTPUT_BYTES_MAX {
            return Err(HistoryError("the history has more commits than can be listed".into()));
        }
        Ok(String::from_utf8_lossy(&out).lines().filter_map(Row::read).collect())
    }

    async fn commit(&self, row: Row) -> Result<Commit, HistoryError> {
        let mut args = vec!["diff-tree", "-r", "-z", "--no-renames", "--name-only", "--no-commit-id"];
        match &row.parent {
            Some(parent) => args.push(parent.as_str()),
            None => args.push("--root"),
        }
        args.extend([row.hash.as_str(), "--"]);
        let files = match self.git(&args).await {
            Ok(mut out) => {
                out.truncate(FILES_BYTES_MAX);
                let paths = out.split(|byte| *byte == 0).filter(|path| !path.is_empty());
                Files::Read(paths.map(|path| String::from_utf8_lossy(path).into_owned()).collect())
            }
            Err(_) if self.is_stopped() => return Err(HistoryError("stopped".into())),
            Err(error) => Files::Unreadable(error.0),
        };
        Ok(Commit { hash: row.hash, committed_at: row.committed_at, files })
    }

    fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    async fn commits(&self, rows: Vec<Row>) -> Result<Vec<Commit>, HistoryError> {
        let mut commits = Vec::with_capacity(rows.len());
        for row in rows {
            commits.push(self.commit(row).await?);
        }
        Ok(commits)
    }
}

impl History for Repository {
    async fn head(&self) -> Result<CommitHash, HistoryError> {
        self.fetch(&format!("+refs/heads/{}:{HEAD}", self.branch)).await?;
        let out = self.git(&["rev-parse", "--verify", "--quiet", &format!("{HEAD}^{{commit}}")]).await?;
        CommitHash::full(String::from_utf8_lossy(&out).trim())
            .ok_or_else(|| HistoryError(format!("the branch {} does not end in a commit", self.branch)))
    }

    async fn since(
        &self,
        base: &CommitHash,
        head: &CommitHash,
        walk: Walk,
        limit: usize,
    ) -> Result<Since, HistoryError> {
        // What is in our clone from before a force push is not in the repository any more.
        if !self.is_ancestor(base, head).await? {
            return Ok(Since::UnknownBase);
        }
        let mut rows = self.rows(head, Some(base), walk, None).await?;
        rows.reverse();
        let more = rows.len().saturating_sub(limit) as u64;
        rows.truncate(limit);
        Ok(Since::Commits { commits: self.commits(rows).await?, more })
    }

    async fn newest(&self, head: &CommitHash, walk: Walk, limit: usize) -> Result<Vec<Commit>, HistoryError> {
        let rows = self.rows(head, None, walk, Some(limit)).await?;
        self.commits(rows).await
    }

    async fn resolve(&self, digits: &str) -> Result<Resolved, HistoryError> {
        if !CommitHash::is_abbreviation(digits) {
            return Ok(Resolved::Unknown);
        }
        let meant = format!("--disambiguate={}", digits.to_ascii_lowercase());
        let mut found = self.git(&["rev-parse", &meant]).await?;
        if found.is_empty() && CommitHash::full(digits).is_some() {
            // Beside the branch: most servers hand out a commit that is asked for by its full name.
            let _ = self.fetch(digits).await;
            found = self.git(&["rev-parse", &meant]).await?;
        }
        let found = String::from_utf8_lossy(&found).into_owned();
        let names: Vec<&str> = found.lines().take(MEANT_MAX + 1).collect();
        if names.len() > MEANT_MAX {
            return Ok(Resolved::Ambiguous);
        }
        let (mut commits, mut other) = (Vec::new(), None);
        for name in names {
            match (self.kind(name).await?.as_deref(), CommitHash::full(name)) {
                (Some("commit"), Some(hash)) => commits.push(hash),
                (Some(kind), _) => other = Some(kind.to_owned()),
                (None, _) => {}
            }
        }
        match (commits.as_slice(), other) {
            ([hash], _) => {
                let rows = self.rows(hash, None, Walk::FirstParent, Some(1)).await?;
                let row =
                    rows.into_iter().next().ok_or_else(|| HistoryError(format!("{hash} cannot be read")))?;
                Ok(Resolved::Commit(self.commit(row).await?))
            }
            ([], Some(kind)) => Ok(Resolved::NotACommit(kind)),
            ([], None) => Ok(Resolved::Unknown),
            _ => Ok(Resolved::Ambiguous),
        }
    }
}

/// Settings for every call. Hooks have no directory, nothing is watched or run on our behalf, objects are checked on
/// arrival except for flaws that old repositories are full of.
const SETTINGS: [&str; 17] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.askPass=",
    "core.pager=cat",
    "core.longpaths=true",
    "core.protectNTFS=true",
    "core.protectHFS=true",
    "advice.detachedHead=false",
    "fetch.fsckObjects=true",
    "fetch.fsck.zeroPaddedFilemode=ignore",
    "fetch.fsck.missingSpaceBeforeDate=ignore",
    "fetch.fsck.badTimezone=ignore",
    "fetch.fsck.badTimezoneOverflow=ignore",
    "gc.autoDetach=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "safe.bareRepository=explicit",
];

struct Row {
    committed_at: i64,
    hash: CommitHash,
    parent: Option<CommitHash>,
}

impl Row {
    /// `timestamp hash parent…`
    fn read(line: &str) -> Option<Row> {
        let mut words = line.split(' ');
        let committed_at = words.next()?.parse::<i64>().ok()?.saturating_mul(1000);
        let hash = CommitHash::full(words.next()?)?;
        Some(Row { committed_at, hash, parent: words.next().and_then(CommitHash::full) })
    }
}

/// Until a stop is asked for; also when nobody is left who could.
async fn stop_requested(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

fn keep(kept: &mut Vec<u8>, bytes: &[u8], max: usize) {
    let room = max.saturating_sub(kept.len()).min(bytes.len());
    kept.extend_from_slice(&bytes[..room]);
}

fn failed(what: &str, ending: Ending, said: &[u8]) -> HistoryError {
    let how = match ending {
        Ending::Exited(code) => format!("exit code {code}"),
        Ending::Signaled(signal) => format!("signal {signal}"),
        Ending::OutOfTime => "it took too long and was cut (`repository_timeout` in fuzz.yaml)".into(),
        Ending::Stopped => "stopped".into(),
    };
    let said = String::from_utf8_lossy(said);
    let said: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    HistoryError(format!("git {what}: {how}: {}", said.join("; ")))
}

fn path_text(path: &Path) -> Result<String, HistoryError> {
    let text = OsString::from(path).into_string();
    text.map_err(|path| HistoryError(format!("{} is not UTF-8", Path::new(&path).display())))
}

/// Bytes below a directory. It changes while we look; a file that vanishes counts nothing.
async fn size_of(dir: PathBuf) -> u64 {
    let walk = move || {
        let mut open = vec![dir];
        let mut bytes = 0_u64;
        // The loose objects of a clone lie in 256 directories; packs and refs in a few more.
        const DIRECTORIES_MAX: usize = 10_000;
        for _ in 0..DIRECTORIES_MAX {
            let Some(dir) = open.pop() else { break };
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                match entry.metadata() {
                    Ok(meta) if meta.is_dir() => open.push(entry.path()),
                    Ok(meta) => bytes = bytes.saturating_add(meta.len()),
                    Err(_) => {}
                }
            }
        }
        bytes
    };
    tokio::task::spawn_blocking(walk).await.unwrap_or_default()
}

#[cfg(test)]
mod tests;
