//! Which commit brought a crash, and which one mended it: a search over the commits that build.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tokio::time::Instant;

use super::builder::Built;
use super::pass_runner::{PassRunner, Scratch, Why, local};
use super::reproduction::UnpackedBinary;
use super::transcript::Transcript;
use super::{Boundary, Crash, CrashStatus, Project};
use crate::{BinaryKind, BuildOutcome, CommitHash, Files, FuzzError, History, Resolved};

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// The commit that brought the crash.
    Introduced,
    /// The commit that mended it.
    Fixed,
}

/// What a search found.
#[derive(Clone, Debug, Serialize)]
pub struct BisectReport {
    /// The bucket.
    pub crash: String,
    /// `introduced` or `fixed`.
    pub question: &'static str,
    /// The answer; `None` when there is none yet, as for a crash that the newest commit still has.
    pub found: Option<Boundary>,
    /// The first line of that commit's message.
    pub subject: Option<String>,
    /// Every commit that was tried, oldest first.
    pub tried: Vec<TriedCommit>,
    /// Why there is no answer.
    pub why_not: Option<String>,
}

/// One commit of a search.
#[derive(Clone, Debug, Serialize)]
pub struct TriedCommit {
    /// The commit.
    pub commit: String,
    /// `crashes`, `works` or `does not build`.
    pub behaviour: &'static str,
}

/// Commits of the branch that a search looks back over.
const COMMITS_MAX: usize = 1_000;

/// Commits between the two sides of an answer that are named.
const UNTRIED_MAX: usize = 50;

impl PassRunner {
    /// Searches over the commits that have binaries. With `build`, those that have none are built here, for this search
    /// alone; one that does not build is passed over.
    pub async fn bisect(
        &self,
        crash: &Crash,
        question: Question,
        build: bool,
    ) -> Result<BisectReport, FuzzError> {
        if self.tools.reproduce.is_none() {
            return Err(FuzzError::Input(
                "fuzz.yaml has no command `crashes.reproduce`, which a bisection needs".into(),
            ));
        }
        let scratch = self.scratch()?;
        let input = scratch.path().join("input");
        fs::write(&input, self.crash_input(&crash.id).await?).map_err(|error| local(&input, &error))?;
        let head = self.repository.head().await?;
        let mut line = self.repository.line(&head, self.pipeline.target().walk, COMMITS_MAX).await?;
        line.reverse();
        let built = self.production_binaries().await?;
        let mut search =
            Search { runner: self, line, built, build, input, scratch, known: BTreeMap::new(), benches: 0 };
        let (found, why_not) = match search.run(crash, question).await? {
            Ok(boundary) => (Some(boundary), None),
            Err(why) => (None, Some(why)),
        };
        if let Some(boundary) = &found {
            self.keep_boundary(crash, question, boundary).await?;
        }
        let subject = match found.as_ref().and_then(|boundary| CommitHash::full(&boundary.commit)) {
            Some(commit) => self.repository.subject(&commit).await.ok(),
            None => None,
        };
        let question = match question {
            Question::Introduced => "introduced",
            Question::Fixed => "fixed",
        };
        Ok(BisectReport { crash: crash.id.clone(), question, found, subject, tried: search.tried(), why_not })
    }

    async fn keep_boundary(
        &self,
        crash: &Crash,
        question: Question,
        found: &Boundary,
    ) -> Result<(), FuzzError> {
        self.edit_crash(&crash.id, |known| {
            let mut next = known?;
            match question {
                Question::Introduced => next.introduced = Some(found.clone()),
                Question::Fixed => (next.status, next.fixed) = (CrashStatus::Fixed, Some(found.clone())),
            }
            Some(next)
        })
        .await
        .map(drop)
    }

    /// Tries known crashes on the newest commit that has binaries, or on the one that is named. Returns each bucket with
    /// how it stands there.
    pub async fn verify(
        &self,
        crashes: &[Crash],
        named: Option<&CommitHash>,
    ) -> Result<(CommitHash, Vec<(String, CrashStatus)>), FuzzError> {
        let commit = match named {
            Some(commit) => commit.clone(),
            None => {
                let head = self.repository.head().await?;
                let built = self.production_binaries().await?;
                let line = self.repository.line(&head, self.pipeline.target().walk, COMMITS_MAX).await?;
                let newest = line.into_iter().find(|commit| built.contains(commit.as_str()));
                newest.ok_or_else(|| FuzzError::Input("no commit of the branch has binaries".into()))?
            }
        };
        self.repository.provide(&commit).await?;
        let scratch = self.scratch()?;
        let Some(bench) = self.bench(&commit, &scratch.path().join("bin")).await? else {
            return Err(FuzzError::Input(format!("{} has no binaries; build it first", commit.short())));
        };
        let mut stand = Vec::new();
        for crash in crashes {
            let status = self.retest_one(&bench, crash, &scratch).await?;
            stand.push((crash.id.clone(), status.unwrap_or(crash.status)));
        }
        Ok((commit, stand))
    }

    /// Which commits have a production binary in the store.
    async fn production_binaries(&self) -> Result<BTreeSet<String>, FuzzError> {
        let prefix = self.keys().binaries(BinaryKind::Production);
        let listed = self.bucket().list(&prefix, None).await?;
        let name = |key: &str| Some(key.strip_prefix(&prefix)?.strip_suffix(".tar.gz")?.to_owned());
        Ok(listed.iter().filter_map(|object| name(&object.key)).collect())
    }
}

/// How a commit behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behaviour {
    Crashes,
    Works,
    DoesNotBuild,
}

struct Search<'w> {
    runner: &'w PassRunner,
    /// The branch, oldest first.
    line: Vec<CommitHash>,
    built: BTreeSet<String>,
    build: bool,
    input: PathBuf,
    scratch: Scratch,
    known: BTreeMap<usize, Behaviour>,
    benches: usize,
}

impl Search<'_> {
    async fn run(
        &mut self,
        crash: &Crash,
        question: Question,
    ) -> Result<Result<Boundary, String>, FuzzError> {
        let Some(bad) = self.line.iter().position(|commit| commit.as_str() == crash.last_commit) else {
            return Ok(Err(format!("{} is not on the branch any more", crash.last_commit)));
        };
        if self.behaviour(bad).await? != Behaviour::Crashes {
            return Ok(Err(format!(
                "{} does not crash here: the input is not reliable",
                self.line[bad].short()
            )));
        }
        // From the old behaviour, at `low`, to the new one, at `high`.
        let (mut low, mut high, new) = match question {
            Question::Introduced => {
                let Some(low) = self.first_of(0..bad).await? else {
                    return Ok(Ok(self.boundary(None, bad).await?));
                };
                if self.known.get(&low) == Some(&Behaviour::Crashes) {
                    return Ok(Ok(self.boundary(None, low).await?));
                }
                (low, bad, Behaviour::Crashes)
            }
            Question::Fixed => {
                let last = self.line.len();
                match self.first_of((bad + 1..last).rev()).await? {
                    None => return Ok(Err("no later commit has binaries".into())),
                    Some(high) if self.known.get(&high) == Some(&Behaviour::Crashes) => {
                        return Ok(Err(format!("{} still crashes", self.line[high].short())));
                    }
                    Some(high) => (bad, high, Behaviour::Works),
                }
            }
        };
        loop {
            if self.runner.why_halted() == Some(Why::Asked) {
                return Ok(Err("stopped".into()));
            }
            let open: BTreeSet<usize> = (low + 1..high).filter(|at| self.can_try(*at)).collect();
            let Some(middle) = nearest_middle(low, high, &open) else { break };
            match self.behaviour(middle).await? {
                Behaviour::DoesNotBuild => {}
                same if same == new => high = middle,
                _ => low = middle,
            }
        }
        Ok(Ok(self.boundary(Some(low), high).await?))
    }

    /// The first commit of these that can be tried at all.
    async fn first_of(&mut self, places: impl Iterator<Item = usize>) -> Result<Option<usize>, FuzzError> {
        for at in places {
            if self.can_try(at) && self.behaviour(at).await? != Behaviour::DoesNotBuild {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    fn can_try(&self, at: usize) -> bool {
        let is_there =
            self.line.get(at).is_some_and(|commit| self.build || self.built.contains(commit.as_str()));
        is_there && self.known.get(&at) != Some(&Behaviour::DoesNotBuild)
    }

    async fn behaviour(&mut self, at: usize) -> Result<Behaviour, FuzzError> {
        if let Some(known) = self.known.get(&at) {
            return Ok(*known);
        }
        let commit = self.line[at].clone();
        self.benches += 1;
        let dir = self.scratch.path().join(format!("bin-{}", self.benches));
        let behaviour = match self.bench(&commit, &dir).await? {
            None => Behaviour::DoesNotBuild,
            Some(bench) => match self.runner.try_input(&bench, &self.input, &self.scratch).await?.crashed {
                0 => Behaviour::Works,
                _ => Behaviour::Crashes,
            },
        };
        let _ = fs::remove_dir_all(&dir);
        self.runner.watcher.say(&format!("{} {}", commit.short(), behaviour.word()));
        self.known.insert(at, behaviour);
        Ok(behaviour)
    }

    async fn bench(&self, commit: &CommitHash, dir: &Path) -> Result<Option<UnpackedBinary>, FuzzError> {
        if let Some(bench) = self.runner.bench(commit, dir).await? {
            return Ok(Some(bench));
        }
        if !self.build {
            return Ok(None);
        }
        let scratch = self.runner.scratch()?;
        let tree = self.runner.tree(commit, &scratch).await?;
        fs::create_dir_all(dir).map_err(|error| local(dir, &error))?;
        let deadline = Instant::now() + self.runner.pipeline.target().budgets.build;
        let mut transcript = Transcript::default();
        let kind = BinaryKind::Production;
        match self.runner.build_kind(commit, kind, &tree, dir, deadline, &mut transcript).await? {
            Built::Outcome(BuildOutcome::Built) => {
                let project = Project { root: Some(tree), ignored: self.runner.tools.ignored_frames.clone() };
                Ok(Some(UnpackedBinary { commit: commit.clone(), bin: dir.to_path_buf(), project }))
            }
            Built::Outcome(BuildOutcome::Failed(_)) | Built::Stopped => Ok(None),
            Built::Outcome(BuildOutcome::Trouble(why)) => Err(FuzzError::Input(why)),
        }
    }

    /// The answer, with the commits between its two sides that could have been it.
    async fn boundary(&self, low: Option<usize>, high: usize) -> Result<Boundary, FuzzError> {
        let mut untried = Vec::new();
        let filter = &self.runner.pipeline.target().filter;
        for at in low.map_or(0..0, |low| low + 1..high).take(UNTRIED_MAX) {
            // One that changes no source cannot have been it.
            let matters = match self.runner.repository.resolve(self.line[at].as_str()).await? {
                Resolved::Commit(commit) => match commit.files {
                    Files::Read(files) => filter.takes_any(&files),
                    Files::Unreadable(_) => true,
                },
                _ => true,
            };
            if matters {
                untried.push(self.line[at].to_string());
            }
        }
        Ok(Boundary {
            commit: self.line[high].to_string(),
            after: low.map(|low| self.line[low].to_string()),
            untried,
            found_at: self.runner.pipeline.now(),
        })
    }

    fn tried(&self) -> Vec<TriedCommit> {
        let tried = |(at, behaviour): (&usize, &Behaviour)| TriedCommit {
            commit: self.line[*at].to_string(),
            behaviour: behaviour.word(),
        };
        self.known.iter().map(tried).collect()
    }
}

impl Behaviour {
    const fn word(self) -> &'static str {
        match self {
            Behaviour::Crashes => "crashes",
            Behaviour::Works => "works",
            Behaviour::DoesNotBuild => "does not build",
        }
    }
}

/// The place among `open` that halves the rest best.
fn nearest_middle(low: usize, high: usize, open: &BTreeSet<usize>) -> Option<usize> {
    let middle = low.midpoint(high);
    let before = open.range(..=middle).next_back().copied().filter(|at| *at > low);
    let after = open.range(middle..).next().copied().filter(|at| *at < high);
    match (before, after) {
        (Some(before), Some(after)) if middle - before <= after - middle => Some(before),
        (Some(before), None) => Some(before),
        (_, after) => after,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_halves_and_passes_over_what_does_not_build() {
        // (commits, the first bad one, those that do not build) -> (last good, first bad) and at most so many tries
        let check =
            |count: usize, bad: usize, broken: &[usize], expected: (usize, usize), tries_max: usize| {
                let (mut low, mut high, mut tries) = (0, count - 1, 0);
                let mut broken_known: BTreeSet<usize> = BTreeSet::new();
                loop {
                    let open: BTreeSet<usize> =
                        (low + 1..high).filter(|at| !broken_known.contains(at)).collect();
                    let Some(middle) = nearest_middle(low, high, &open) else { break };
                    tries += 1;
                    if broken.contains(&middle) {
                        broken_known.insert(middle);
                    } else if middle >= bad {
                        high = middle;
                    } else {
                        low = middle;
                    }
                }
                assert_eq!((low, high), expected, "{count} {bad} {broken:?}");
                assert!(tries <= tries_max, "{tries} tries");
            };
        check(2, 1, &[], (0, 1), 0);
        check(100, 1, &[], (0, 1), 7);
        check(100, 99, &[], (98, 99), 7);
        check(1000, 617, &[], (616, 617), 10);
        check(100, 50, &[49], (48, 50), 8);
        check(100, 50, &[48, 49, 50, 51], (47, 52), 11);
        check(5, 3, &[1, 2, 3], (0, 4), 3);
    }
}
