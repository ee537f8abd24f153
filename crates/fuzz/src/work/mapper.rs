//! Coverage maps: what the corpus reaches, made with the coverage binary now and then, used by every fuzz run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use cadran_exec::Ending;
use serde::Serialize;

use super::builder::log_key;
use super::corpus::{ASIDE, count, name_of, narrow};
use super::fuzzer::FuzzReport;
use super::pass_runner::{CommandLine, PassRunner, Scratch, local, pack, unpack};
use super::transcript::Transcript;
use crate::{BinaryKind, BuildQueue, CommitHash, Condition, FuzzError, Schedule};

/// What a coverage pass did.
#[derive(Clone, Debug)]
pub enum MapPass {
    /// `fuzz.yaml` has no coverage command.
    NotConfigured,
    /// No commit has binaries yet.
    Nothing,
    /// It was stopped.
    Stopped,
    /// There is a new map.
    Mapped(MapReport),
}

/// What was mapped.
#[derive(Clone, Debug, Serialize)]
pub struct MapReport {
    /// With the binary of this commit.
    pub commit: String,
    /// Inputs that were looked at.
    pub inputs: usize,
    /// Inputs that are worth keeping, when the command said so.
    pub kept: Option<usize>,
    /// Where the map lies.
    pub key: String,
}

/// In a map: the inputs that are worth keeping.
const KEPT_DIR: &str = "corpus";
/// In a map: the inputs that were looked at.
const KNOWN_FILE: &str = "cadran-inputs.txt";

/// Maps kept in the store: the newest is used, those before it are there to compare with.
const MAPS_MAX: usize = 3;

/// A coverage command that prints nothing of note leaves this much behind at most.
const MAP_BYTES_MAX: u64 = 1 << 30;

impl PassRunner {
    /// Makes a map with the newest commit that has binaries, or the one that is named.
    pub async fn map(&self, named: Option<&CommitHash>) -> Result<MapPass, FuzzError> {
        if self.pipeline.target().commands.map.is_none() {
            return Ok(MapPass::NotConfigured);
        }
        let commit = match named {
            Some(commit) => Some(commit.clone()),
            None => self.newest_built().await?,
        };
        let Some(commit) = commit else { return Ok(MapPass::Nothing) };
        let scratch = self.scratch()?;
        self.repository.provide(&commit).await?;
        let corpus = scratch.dir("inputs")?;
        self.corpus_down(&commit, &corpus, &scratch).await?;
        match self.make_map(&commit, &corpus, &scratch).await? {
            Some(report) => Ok(MapPass::Mapped(report)),
            None => Ok(MapPass::Stopped),
        }
    }

    /// The newest commit of the schedule, or of `built`, whose binaries are there.
    async fn newest_built(&self) -> Result<Option<CommitHash>, FuzzError> {
        let scheduled = self.pipeline.read::<Schedule>().await?.entries.into_iter().map(|entry| entry.hash);
        let built = self.pipeline.read::<BuildQueue>().await?.built;
        let all: Vec<String> = scheduled.chain(built).collect();
        for hash in all.iter().rev().filter_map(|hash| CommitHash::full(hash)) {
            if self.pipeline.is_built(&hash).await? {
                return Ok(Some(hash));
            }
        }
        Ok(None)
    }

    /// Runs the coverage command and brings up what it made. `None` when it was stopped.
    async fn make_map(
        &self,
        commit: &CommitHash,
        corpus: &Path,
        scratch: &Scratch,
    ) -> Result<Option<MapReport>, FuzzError> {
        let Some(text) = &self.pipeline.target().commands.map else { return Ok(None) };
        self.watcher.say(&format!(
            "mapping the coverage of {} inputs with {}",
            count(corpus)?,
            commit.short()
        ));
        let bin = scratch.path().join("coverage-bin");
        if self.fetch_binary(BinaryKind::Coverage, commit, &bin).await?.is_none() {
            return Err(FuzzError::Input(format!(
                "the coverage binary of {} is not in the store",
                commit.short()
            )));
        }
        let known = names(corpus)?;
        let out = scratch.dir("map")?;
        let tree = self.tree(commit, scratch).await?;
        let line = CommandLine {
            text,
            dir: &tree,
            budget: self.tools.coverage_timeout,
            variables: vec![
                ("CADRAN_COMMIT", commit.as_str().into()),
                ("CADRAN_BIN", bin.as_path().into()),
                ("CADRAN_CORPUS", corpus.into()),
                ("CADRAN_OUT", out.as_path().into()),
            ],
        };
        let mut transcript = Transcript::default();
        let ending = self.shell(line, &mut transcript, |_| {}).await?;
        let log = log_key(self, commit, &format!("coverage-{:013}", self.pipeline.now()));
        self.bucket().put(&log, &transcript.bytes(), &Condition::Always).await?;
        match ending {
            Ending::Exited(0) => {}
            Ending::Stopped => return Ok(None),
            other => {
                let how = match other {
                    Ending::OutOfTime => {
                        format!("did not end within {} s and was cut", self.tools.coverage_timeout.as_secs())
                    }
                    Ending::Exited(code) => format!("failed with exit code {code}"),
                    other => format!("failed ({other:?})"),
                };
                let said = transcript.reason();
                let said = if said.is_empty() { said } else { format!(": {said}") };
                return Err(FuzzError::Input(format!("the coverage command {how}{said}")));
            }
        }
        let kept = contents(&out.join(KEPT_DIR)).map(|kept| kept.len());
        let list: String = known.iter().map(|name| format!("{name}\n")).collect();
        fs::write(out.join(KNOWN_FILE), list).map_err(|error| local(&out, &error))?;
        let file = scratch.path().join("map.tar.gz");
        pack(&out, &file).await?;
        if fs::metadata(&file).is_ok_and(|meta| meta.len() > MAP_BYTES_MAX) {
            return Err(FuzzError::Input(format!("the coverage map is larger than {MAP_BYTES_MAX} bytes")));
        }
        let seeds = self.seeds_digest(commit).await?;
        let key = self.keys().other(&format!("coverage/{:013}-{commit}-{seeds}.tar.gz", self.pipeline.now()));
        self.bucket().upload(&file, &key).await?;
        let maps = self.bucket().list(&self.keys().other("coverage/"), None).await?;
        for old in maps.iter().rev().skip(MAPS_MAX) {
            self.bucket().delete(&old.key).await?;
        }
        Ok(Some(MapReport { commit: commit.to_string(), inputs: known.len(), kept, key }))
    }

    /// Which seeds the project has: a map made for others is made again.
    async fn seeds_digest(&self, commit: &CommitHash) -> Result<String, FuzzError> {
        match &self.tools.seeds {
            Some(path) => Ok(self.repository.digest_of(commit, path).await?),
            None => Ok("none".into()),
        }
    }

    /// Leaves in the corpus of a run what the newest map says is worth fuzzing. Without a map that is fresh the whole
    /// corpus is fuzzed: a missing map is never a reason not to fuzz. Returns where the map was unpacked.
    pub(crate) async fn choose_inputs(
        &self,
        commit: &CommitHash,
        corpus: &Path,
        scratch: &Scratch,
        report: &mut FuzzReport,
    ) -> Result<Option<PathBuf>, FuzzError> {
        if self.pipeline.target().commands.map.is_none() {
            return Ok(None);
        }
        match self.fresh_map(commit, corpus, scratch).await {
            Ok(Ok(map)) => {
                let known = fs::read_to_string(map.join(KNOWN_FILE)).unwrap_or_default();
                let known: BTreeSet<String> = known.lines().map(str::to_owned).collect();
                if let Some(kept) = contents(&map.join(KEPT_DIR))
                    && !kept.is_empty()
                {
                    let gone = narrow(corpus, &kept, &known, &scratch.dir(ASIDE)?)?;
                    self.watcher.say(&format!("the coverage map leaves out {gone} inputs that add nothing"));
                    report.mapped = true;
                }
                Ok(Some(map))
            }
            Ok(Err(why)) => {
                self.watcher.say(&format!("warning: {why}; the whole corpus is fuzzed"));
                Ok(None)
            }
            Err(error) => {
                self.watcher.say(&format!(
                    "warning: the coverage map cannot be used: {error}; the whole corpus is fuzzed"
                ));
                Ok(None)
            }
        }
    }

    /// The newest map, made anew when the seeds of the project have changed since; or why there is none.
    async fn fresh_map(
        &self,
        commit: &CommitHash,
        corpus: &Path,
        scratch: &Scratch,
    ) -> Result<Result<PathBuf, String>, FuzzError> {
        let maps = self.bucket().list(&self.keys().other("coverage/"), None).await?;
        let Some(newest) = maps.last() else { return Ok(Err("there is no coverage map yet".into())) };
        let name = newest.key.rsplit('/').next().unwrap_or_default().trim_end_matches(".tar.gz");
        let mut parts = name.splitn(3, '-');
        let made_at = parts.next().and_then(|text| text.parse::<i64>().ok()).unwrap_or_default();
        let seeds = parts.nth(1).unwrap_or_default();
        let age = u128::try_from(self.pipeline.now().saturating_sub(made_at)).unwrap_or_default();
        if age > self.tools.coverage_max_age.as_millis() {
            return Ok(Err(format!("the coverage map is {} days old", age / 86_400_000)));
        }
        let mut key = newest.key.clone();
        if seeds != self.seeds_digest(commit).await? {
            self.watcher.say("the seeds of the project have changed since the coverage map was made");
            match self.make_map(commit, corpus, scratch).await? {
                Some(made) => key = made.key,
                None => return Ok(Err("it was stopped".into())),
            }
        }
        let (file, dir) = (scratch.path().join("newest-map.tar.gz"), scratch.path().join("newest-map"));
        if self.bucket().download(&key, &file).await?.is_none() {
            return Ok(Err("the coverage map is gone".into()));
        }
        unpack(&file, &dir).await?;
        Ok(Ok(dir))
    }
}

/// The names that the files of a directory have as inputs: whoever wrote them may have called them otherwise.
fn contents(dir: &Path) -> Option<BTreeSet<String>> {
    let entries = fs::read_dir(dir).ok()?;
    Some(
        entries
            .flatten()
            .filter_map(|entry| fs::read(entry.path()).ok())
            .map(|bytes| name_of(&bytes))
            .collect(),
    )
}

fn names(dir: &Path) -> Result<BTreeSet<String>, FuzzError> {
    let entries = fs::read_dir(dir).map_err(|error| local(dir, &error))?;
    Ok(entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}
