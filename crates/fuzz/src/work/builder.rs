//! One build: an isolated work tree, both binaries, archives with digests in the store.

use std::fs;
use std::path::{Path, PathBuf};

use cadran_exec::Ending;
use tokio::time::{Duration, Instant};

use super::pass_runner::{CommandLine, MANIFEST, Manifest, PassRunner, Scratch, Why, local, pack};
use super::transcript::Transcript;
use crate::{BinaryKind, BuildOutcome, Claim, CommitHash, Condition, FuzzError, NextBuild};

/// What a builder pass did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildPass {
    /// Nothing waits that is not being built.
    Nothing,
    /// Fuzzers have enough to do; what waits is built together later.
    Hold {
        /// Commits that wait.
        waiting: usize,
    },
    /// It was stopped; the commit stays in the queue.
    Stopped(CommitHash),
    /// Somebody else took the commit over; this result was dropped.
    Lost(CommitHash),
    /// A commit was built, or not.
    Ended {
        /// The commit.
        hash: CommitHash,
        /// How it ended.
        outcome: BuildOutcome,
    },
}

/// How one build ended.
pub(crate) enum Built {
    Outcome(BuildOutcome),
    Stopped,
}

impl PassRunner {
    /// Builds the next commit of the queue, or the one that is named.
    pub async fn build(&self, named: Option<&CommitHash>) -> Result<BuildPass, FuzzError> {
        let claim = match named {
            Some(hash) => self.pipeline.claim_build(hash).await?,
            None => match self.pipeline.next_build().await? {
                NextBuild::Build(claim) => claim,
                NextBuild::Nothing => return Ok(BuildPass::Nothing),
                NextBuild::Hold { waiting } => return Ok(BuildPass::Hold { waiting }),
            },
        };
        let (hash, attempt) = (claim.hash.clone(), claim.attempt);
        let subject = self.subject(&hash).await;
        self.watcher.say(&format!("building {} {subject}(attempt {attempt})", hash.short()));
        let built = self.with_lease(&claim, self.build_claimed(&hash, attempt)).await;
        self.bring(&claim, built).await
    }

    async fn bring(&self, claim: &Claim, built: Result<Built, FuzzError>) -> Result<BuildPass, FuzzError> {
        let hash = claim.hash.clone();
        if self.why_halted() == Some(Why::LeaseLost) {
            return Ok(BuildPass::Lost(hash));
        }
        let outcome = match built {
            Ok(Built::Outcome(outcome)) => outcome,
            Ok(Built::Stopped) => {
                self.pipeline.release(claim).await?;
                return Ok(BuildPass::Stopped(hash));
            }
            // The store, the repository or the disk: nothing the project could help.
            Err(_) if self.why_halted().is_some() => {
                self.pipeline.release(claim).await?;
                return Ok(BuildPass::Stopped(hash));
            }
            Err(error) => BuildOutcome::Trouble(error.to_string()),
        };
        match self.pipeline.finish_build(claim, outcome.clone()).await {
            Ok(()) => Ok(BuildPass::Ended { hash, outcome }),
            Err(FuzzError::Stale(_)) => Ok(BuildPass::Lost(hash)),
            Err(error) => Err(error),
        }
    }

    /// Builds and uploads; both archives go up only when both were built.
    async fn build_claimed(&self, commit: &CommitHash, attempt: u32) -> Result<Built, FuzzError> {
        let scratch = self.scratch()?;
        let deadline = Instant::now() + self.pipeline.target().budgets.build;
        let tree = self.tree(commit, &scratch).await?;
        for kind in BinaryKind::ALL {
            let out = scratch.dir(kind.as_str())?;
            let mut transcript = Transcript::default();
            let built = self.build_kind(commit, kind, &tree, &out, deadline, &mut transcript).await;
            self.keep_log(commit, kind, attempt, &mut transcript, &built).await?;
            match built? {
                Built::Outcome(BuildOutcome::Built) => {}
                other => return Ok(other),
            }
        }
        for kind in BinaryKind::ALL {
            self.upload(commit, kind, &scratch).await?;
        }
        Ok(Built::Outcome(BuildOutcome::Built))
    }

    /// The work tree of a commit; fetched once more when the clone does not have it yet.
    pub(crate) async fn tree(&self, commit: &CommitHash, scratch: &Scratch) -> Result<PathBuf, FuzzError> {
        let tree = scratch.path().join("tree");
        self.repository.provide(commit).await?;
        self.repository.checkout(commit, &tree).await?;
        Ok(tree)
    }

    /// Runs the command of one binary kind.
    pub(crate) async fn build_kind(
        &self,
        commit: &CommitHash,
        kind: BinaryKind,
        tree: &Path,
        out: &Path,
        deadline: Instant,
        transcript: &mut Transcript,
    ) -> Result<Built, FuzzError> {
        let commands = &self.pipeline.target().commands;
        let text = match kind {
            BinaryKind::Production => &commands.production,
            BinaryKind::Coverage => &commands.coverage,
        };
        let began = Instant::now();
        let line = CommandLine {
            text,
            dir: tree,
            budget: deadline.saturating_duration_since(began),
            variables: vec![
                ("CADRAN_COMMIT", commit.as_str().into()),
                ("CADRAN_KIND", kind.as_str().into()),
                ("CADRAN_OUT", out.into()),
            ],
        };
        let ending =
            self.shell(line, transcript, |line| self.watcher.building(kind, began.elapsed(), line)).await?;
        let outcome = self.judge(kind, ending, transcript);
        if outcome != Some(BuildOutcome::Built) {
            return Ok(outcome.map_or(Built::Stopped, Built::Outcome));
        }
        let is_empty = fs::read_dir(out).map_err(|error| local(out, &error))?.next().is_none();
        if is_empty {
            let why = format!("the {} build succeeded but put nothing into $CADRAN_OUT", kind.as_str());
            return Ok(Built::Outcome(BuildOutcome::Failed(why)));
        }
        let manifest = Manifest {
            commit: commit.to_string(),
            kind: kind.as_str().into(),
            root: fs::canonicalize(tree).ok(),
        };
        let bytes = serde_json::to_vec(&manifest).unwrap_or_default();
        fs::write(out.join(MANIFEST), bytes).map_err(|error| local(out, &error))?;
        Ok(Built::Outcome(BuildOutcome::Built))
    }

    /// Tells what the compiler said from what happened to it. `None` when somebody stopped it.
    fn judge(&self, kind: BinaryKind, ending: Ending, transcript: &Transcript) -> Option<BuildOutcome> {
        let kind = kind.as_str();
        let said = transcript.reason();
        let no_space = ["No space left on device", "Disk quota exceeded"];
        Some(match ending {
            Ending::Stopped => return None,
            Ending::Exited(0) => BuildOutcome::Built,
            Ending::OutOfTime => {
                let limit = self.pipeline.target().budgets.build.as_secs();
                BuildOutcome::Trouble(format!("the {kind} build did not end within {limit} s and was cut"))
            }
            Ending::Signaled(signal) => {
                BuildOutcome::Trouble(format!("the {kind} build was ended by signal {signal}"))
            }
            Ending::Exited(_)
                if no_space.iter().any(|words| transcript.text().contains(words)) || self.is_disk_full() =>
            {
                BuildOutcome::Trouble(format!("the disk is full: {said}"))
            }
            // What a shell says of a program that is not there, or was killed.
            Ending::Exited(code @ (126 | 127)) => {
                BuildOutcome::Trouble(format!("the {kind} build could not be run (exit code {code}): {said}"))
            }
            Ending::Exited(code @ 129..) => {
                BuildOutcome::Trouble(format!("the {kind} build was ended by signal {}: {said}", code - 128))
            }
            Ending::Exited(code) => {
                BuildOutcome::Failed(format!("the {kind} build failed with exit code {code}: {said}"))
            }
        })
    }

    async fn keep_log(
        &self,
        commit: &CommitHash,
        kind: BinaryKind,
        attempt: u32,
        transcript: &mut Transcript,
        built: &Result<Built, FuzzError>,
    ) -> Result<(), FuzzError> {
        let end = match built {
            Ok(Built::Outcome(BuildOutcome::Built)) => "built".into(),
            Ok(Built::Outcome(BuildOutcome::Failed(why) | BuildOutcome::Trouble(why))) => why.clone(),
            Ok(Built::Stopped) => "stopped on request".into(),
            Err(error) => error.to_string(),
        };
        transcript.note(&end);
        let key = log_key(self, commit, &format!("build-{attempt}-{}", kind.as_str()));
        self.bucket().put(&key, &transcript.bytes(), &Condition::Always).await.map(drop)
    }

    async fn upload(
        &self,
        commit: &CommitHash,
        kind: BinaryKind,
        scratch: &Scratch,
    ) -> Result<(), FuzzError> {
        let file = scratch.path().join(format!("{}.tar.gz", kind.as_str()));
        pack(&scratch.path().join(kind.as_str()), &file).await?;
        let key = self.keys().binary(kind, commit.as_str());
        let transfer = self.bucket().upload(&file, &key).await?;
        let digest = format!("{}  {commit}.tar.gz\n", transfer.sha256);
        self.bucket().put(&self.digest_key(kind, commit), digest.as_bytes(), &Condition::Always).await?;
        let mib = transfer.size as f64 / f64::from(1 << 20);
        self.watcher.say(&format!("uploaded the {} binary, {mib:.1} MiB", kind.as_str()));
        Ok(())
    }

    /// The first line of a commit's message with a space behind it, or nothing.
    pub(crate) async fn subject(&self, commit: &CommitHash) -> String {
        match self.repository.subject(commit).await {
            Ok(subject) if !subject.is_empty() => format!("{subject} "),
            _ => String::new(),
        }
    }
}

/// Where the log of a piece of work on a commit lies.
pub(crate) fn log_key(runner: &PassRunner, commit: &CommitHash, name: &str) -> String {
    runner.keys().other(&format!("logs/{commit}/{name}.log"))
}

/// How long a moment may be that is no waste.
pub(crate) const MOMENT: Duration = Duration::from_secs(1);
