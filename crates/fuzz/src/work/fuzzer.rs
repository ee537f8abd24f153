//! One fuzz run: corpus down, fuzz within the budget, crashes examined, corpus up.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use cadran_exec::Ending;
use serde::Serialize;
use tokio::time::{Duration, Instant};

use super::builder::{MOMENT, log_key};
use super::corpus::{ASIDE, count, name_of};
use super::pass_runner::{CommandLine, Fuzzing, PassRunner, Scratch, Why, local};
use super::reproduction::{UnpackedBinary, seconds};
use super::transcript::Transcript;
use super::{Boundary, Crash, CrashStatus, FuzzerStats};
use crate::{AfterCrash, Claim, CommitHash, Condition, FuzzError, FuzzOutcome};

/// What a fuzzer pass did.
#[derive(Clone, Debug)]
pub enum FuzzPass {
    /// Nothing to fuzz.
    Nothing,
    /// It ran to its end.
    Fuzzed(FuzzReport),
    /// It died before it fuzzed; the count stays.
    Died {
        /// The commit.
        hash: CommitHash,
        /// Why.
        reason: String,
    },
    /// It was stopped; what it found is saved, the count stays.
    Stopped(FuzzReport),
    /// Somebody else took the commit over; what it found is saved, the count is theirs.
    Lost(FuzzReport),
}

/// What one run did.
#[derive(Clone, Debug, Serialize)]
pub struct FuzzReport {
    /// The commit.
    pub commit: String,
    /// How long the fuzzer itself ran.
    pub seconds: u64,
    /// Inputs tried.
    pub executions: u64,
    /// Places of the code that were reached.
    pub coverage: u64,
    /// How often the fuzzer was started.
    pub rounds: u32,
    /// Crashes that were not known before, by bucket.
    pub crashes_new: Vec<String>,
    /// Crashes seen, by bucket.
    pub crashes_seen: Vec<String>,
    /// Known crashes that this commit does not have any more.
    pub crashes_fixed: Vec<String>,
    /// Inputs of the corpus when it was brought up.
    pub corpus: usize,
    /// Whether a coverage map chose the inputs.
    pub mapped: bool,
}

/// How often the fuzzer is started in one run. Each start ends with a crash; a bug that every input meets must not fill
/// the disk.
const ROUNDS_MAX: u32 = 1_000;

/// Rounds in a row that found a crash before they tried anything: the fuzzer does not get past its corpus.
const BARREN_MAX: u32 = 50;

/// Crashing inputs examined in one run. The others are counted: they are nearly always the same few bugs.
const EXAMINED_MAX: usize = 200;

/// Known crashes tried at the beginning of a run.
const RETESTED_MAX: usize = 50;

/// Known crashes may take this part of the run.
const RETEST_PART: u32 = 10;

/// Looks at the progress.
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl PassRunner {
    /// Fuzzes the commit that was fuzzed least, or the one that is named. `began` is when the pass began: the budget
    /// counts from there.
    pub async fn fuzz(&self, named: Option<&CommitHash>, began: Instant) -> Result<FuzzPass, FuzzError> {
        let claim = match named {
            Some(hash) => Some(self.pipeline.claim_fuzz(hash).await?),
            None => self.pipeline.next_fuzz().await?,
        };
        let Some(claim) = claim else { return Ok(FuzzPass::Nothing) };
        let hash = claim.hash.clone();
        let mut report = FuzzReport {
            commit: hash.to_string(),
            seconds: 0,
            executions: 0,
            coverage: 0,
            rounds: 0,
            crashes_new: Vec::new(),
            crashes_seen: Vec::new(),
            crashes_fixed: Vec::new(),
            corpus: 0,
            mapped: false,
        };
        let attempt = claim.attempt;
        let done = self.with_lease(&claim, self.fuzz_claimed(&hash, attempt, began, &mut report)).await;
        self.bring_fuzz(&claim, done, report).await
    }

    async fn bring_fuzz(
        &self,
        claim: &Claim,
        done: Result<(), FuzzError>,
        report: FuzzReport,
    ) -> Result<FuzzPass, FuzzError> {
        match self.why_halted() {
            Some(Why::LeaseLost) => return Ok(FuzzPass::Lost(report)),
            Some(Why::Asked) => {
                self.pipeline.release(claim).await?;
                done?;
                return Ok(FuzzPass::Stopped(report));
            }
            None => {}
        }
        let outcome = match &done {
            Ok(()) => FuzzOutcome::Fuzzed,
            // What was fuzzed was fuzzed, even if saving the corpus failed afterwards.
            Err(error) if report.seconds > 0 && report.executions > 0 => {
                self.watcher.say(&format!("after fuzzing: {error}"));
                FuzzOutcome::Fuzzed
            }
            Err(error) => FuzzOutcome::Died(error.to_string()),
        };
        match self.pipeline.finish_fuzz(claim, outcome.clone()).await {
            Ok(()) => {}
            Err(FuzzError::Stale(_)) => return Ok(FuzzPass::Lost(report)),
            Err(error) => return Err(error),
        }
        Ok(match outcome {
            FuzzOutcome::Fuzzed => FuzzPass::Fuzzed(report),
            FuzzOutcome::Died(reason) => FuzzPass::Died { hash: claim.hash.clone(), reason },
        })
    }

    async fn fuzz_claimed(
        &self,
        commit: &CommitHash,
        attempt: u32,
        began: Instant,
        report: &mut FuzzReport,
    ) -> Result<(), FuzzError> {
        let budgets = &self.pipeline.target().budgets;
        let end = began + budgets.fuzz;
        let stop_at = end - budgets.stop_buffer.min(budgets.fuzz);
        let scratch = self.scratch()?;
        self.repository.provide(commit).await?;
        let subject = self.subject(commit).await;
        self.watcher.say(&format!(
            "fuzzing {} {subject}for {} s",
            commit.short(),
            stop_at.saturating_duration_since(Instant::now()).as_secs()
        ));
        let bin = scratch.path().join("bin");
        let Some(bench) = self.bench(commit, &bin).await? else {
            return Err(FuzzError::Input(format!("the binary of {} is not in the store", commit.short())));
        };
        let corpus = scratch.dir("corpus")?;
        let packs = self.corpus_down(commit, &corpus, &scratch).await?;
        let map = self.choose_inputs(commit, &corpus, &scratch, report).await?;
        self.retest_known(&bench, stop_at, &scratch, report).await?;
        let mut transcript = Transcript::default();
        let run = Run { bench: &bench, corpus: &corpus, map: map.as_deref(), stop_at, scratch: &scratch };
        let fuzzed = self.rounds(&run, &mut transcript, report).await;
        let log = log_key(self, commit, &format!("fuzz-{attempt}"));
        self.bucket().put(&log, &transcript.bytes(), &Condition::Always).await?;
        let left = end.saturating_duration_since(Instant::now()).max(MOMENT);
        // Also after a failure: what was found until then is worth keeping.
        let kept = self.corpus_up(commit, &bench.bin, &corpus, packs, left, &scratch).await;
        fuzzed?;
        report.corpus = kept?.1;
        Ok(())
    }

    /// Starts the fuzzer until its time is over.
    async fn rounds(
        &self,
        run: &Run<'_>,
        transcript: &mut Transcript,
        report: &mut FuzzReport,
    ) -> Result<(), FuzzError> {
        let mut examined: BTreeSet<String> = BTreeSet::new();
        let mut barren = 0;
        for round in 1..=ROUNDS_MAX {
            let left = run.stop_at.saturating_duration_since(Instant::now());
            if left.is_zero() && round == 1 {
                let why = "the preparations took the whole budget; nothing was fuzzed. Raise `fuzz.duration`";
                return Err(FuzzError::Input(why.into()));
            }
            if left.is_zero() || self.why_halted().is_some() {
                break;
            }
            report.rounds = round;
            let crashes = run.scratch.dir(&format!("crashes-{round}"))?;
            let (ending, said, stats, took) = self.round(run, &crashes, left, report).await?;
            transcript.take(&said.bytes());
            report.seconds = report.seconds.saturating_add(seconds(took));
            report.executions = report.executions.saturating_add(stats.executions);
            report.coverage = report.coverage.max(stats.coverage);
            let found = self.take_crashes(run, &crashes, &said, &mut examined, report).await?;
            barren = if stats.executions == 0 { barren + 1 } else { 0 };
            match ending {
                Ending::Stopped | Ending::OutOfTime => break,
                // By itself, and not because of a crash: it has had enough.
                Ending::Exited(0) => break,
                _ if found == 0 && stats.executions == 0 => {
                    let how = describe(ending);
                    let said = said.reason();
                    return Err(FuzzError::Input(format!(
                        "the fuzzer ended before it fuzzed ({how}): {said}"
                    )));
                }
                _ if found > 0 && barren < BARREN_MAX && self.tools.after_crash == AfterCrash::Continue => {}
                _ => break,
            }
        }
        Ok(())
    }

    /// One start of the fuzzer, with a word on its progress now and then.
    async fn round(
        &self,
        run: &Run<'_>,
        crashes: &Path,
        left: Duration,
        report: &FuzzReport,
    ) -> Result<(Ending, Transcript, FuzzerStats, Duration), FuzzError> {
        let began = Instant::now();
        let mut variables = vec![
            ("CADRAN_COMMIT", run.bench.commit.as_str().into()),
            ("CADRAN_BIN", run.bench.bin.as_path().into()),
            ("CADRAN_CORPUS", run.corpus.into()),
            ("CADRAN_CRASHES", crashes.into()),
            ("CADRAN_SECONDS", seconds(left).to_string().into()),
        ];
        variables.extend(run.map.map(|map| ("CADRAN_COVERAGE", map.into())));
        let line = CommandLine {
            text: &self.pipeline.target().commands.fuzz,
            dir: run.scratch.path(),
            budget: left,
            variables,
        };
        let heard = Mutex::new((FuzzerStats::default(), None::<u64>));
        let mut transcript = Transcript::default();
        let ending = {
            let hear = |line: &str| {
                let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                if heard.0.take(line) && heard.1.is_none() && heard.0.coverage > 0 {
                    heard.1 = Some(heard.0.coverage);
                }
            };
            let running = self.shell(line, &mut transcript, hear);
            tokio::pin!(running);
            loop {
                tokio::select! {
                    ended = &mut running => break ended?,
                    () = tokio::time::sleep(LOOK_EVERY) => {
                        let (stats, first) = *heard.lock().unwrap_or_else(PoisonError::into_inner);
                        self.watcher.fuzzing(&Fuzzing {
                            stats,
                            coverage_new: first.map_or(0, |first| stats.coverage.saturating_sub(first)),
                            crashes: report.crashes_seen.len() as u64 + count(crashes)? as u64,
                            left: run.stop_at.saturating_duration_since(Instant::now()),
                        });
                    }
                }
            }
        };
        let (stats, _) = heard.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((ending, transcript, stats, began.elapsed()))
    }

    /// Examines what a round has found. Returns how many inputs there were.
    async fn take_crashes(
        &self,
        run: &Run<'_>,
        crashes: &Path,
        said: &Transcript,
        examined: &mut BTreeSet<String>,
        report: &mut FuzzReport,
    ) -> Result<usize, FuzzError> {
        let mut paths: Vec<PathBuf> = fs::read_dir(crashes)
            .map_err(|error| local(crashes, &error))?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.is_file())
            .collect();
        paths.sort();
        for path in &paths {
            let bytes = fs::read(path).map_err(|error| local(path, &error))?;
            let name = name_of(&bytes);
            set_aside(run, &name)?;
            if examined.len() >= EXAMINED_MAX || !examined.insert(name) {
                continue;
            }
            let tried = self.examine(run.bench, path, &said.bytes(), run.scratch).await?;
            let (crash, is_new) = self.file_crash(&run.bench.commit, &tried).await?;
            if is_new {
                report.crashes_new.push(crash.id.clone());
            }
            if !report.crashes_seen.contains(&crash.id) {
                let new = if is_new { "new " } else { "" };
                let Crash { id, title, reproduced, tries, input_bytes, .. } = &crash;
                self.watcher.say(&format!(
                    "{new}crash {id}: {title}; reproduced {reproduced} of {tries}, {input_bytes} bytes"
                ));
                report.crashes_seen.push(crash.id);
            }
        }
        Ok(paths.len())
    }

    /// Tries what is known on this commit: what a later commit does not have any more is fixed, what a fixed one has
    /// again is open.
    async fn retest_known(
        &self,
        bench: &UnpackedBinary,
        stop_at: Instant,
        scratch: &Scratch,
        report: &mut FuzzReport,
    ) -> Result<(), FuzzError> {
        if self.tools.reproduce.is_none() {
            return Ok(());
        }
        let until = Instant::now() + stop_at.saturating_duration_since(Instant::now()) / RETEST_PART;
        let crashes = self.crashes().await?;
        let known = crashes.into_iter().filter(|crash| crash.merged_into.is_none() && crash.frame.is_some());
        for crash in known.take(RETESTED_MAX) {
            if Instant::now() >= until || self.why_halted().is_some() {
                break;
            }
            if self.retest_one(bench, &crash, scratch).await? == Some(CrashStatus::Fixed)
                && crash.status == CrashStatus::Open
            {
                self.watcher.say(&format!("crash {} is fixed here: {}", crash.id, crash.title));
                report.crashes_fixed.push(crash.id);
            }
        }
        Ok(())
    }

    /// Tries one known crash on a commit, and keeps what that says. `None` when it says nothing: the commit is no
    /// descendant of the one that crashed.
    pub(crate) async fn retest_one(
        &self,
        bench: &UnpackedBinary,
        crash: &Crash,
        scratch: &Scratch,
    ) -> Result<Option<CrashStatus>, FuzzError> {
        let input = scratch.path().join(format!("known-{}", crash.id));
        let bytes = self.crash_input(&crash.id).await?;
        fs::write(&input, bytes).map_err(|error| local(&input, &error))?;
        let reproduction = self.try_input(bench, &input, scratch).await?;
        let (commit, now) = (bench.commit.to_string(), self.pipeline.now());
        if reproduction.crashed > 0 {
            let is_later = self.is_behind(&crash.last_commit, &bench.commit).await?;
            self.edit_crash(&crash.id, |known| {
                let mut next = known?;
                if is_later {
                    (next.last_commit, next.last_seen_at) = (commit.clone(), now);
                    (next.status, next.fixed) = (CrashStatus::Open, None);
                }
                Some(next)
            })
            .await?;
            return Ok(Some(CrashStatus::Open));
        }
        if crash.status != CrashStatus::Open || !self.is_behind(&crash.last_commit, &bench.commit).await? {
            return Ok((crash.status == CrashStatus::Fixed).then_some(CrashStatus::Fixed));
        }
        let fixed = Boundary {
            commit: commit.clone(),
            after: Some(crash.last_commit.clone()),
            untried: Vec::new(),
            found_at: now,
        };
        self.edit_crash(&crash.id, |known| {
            let mut next = known?;
            (next.status, next.fixed) = (CrashStatus::Fixed, Some(fixed.clone()));
            Some(next)
        })
        .await?;
        Ok(Some(CrashStatus::Fixed))
    }

    /// Whether `old` is a proper ancestor of `new`.
    async fn is_behind(&self, old: &str, new: &CommitHash) -> Result<bool, FuzzError> {
        let Some(old) = CommitHash::full(old) else { return Ok(false) };
        Ok(old != *new && self.repository.is_ancestor(&old, new).await?)
    }
}

/// What every round of a run has in common.
struct Run<'a> {
    bench: &'a UnpackedBinary,
    corpus: &'a Path,
    map: Option<&'a Path>,
    stop_at: Instant,
    scratch: &'a Scratch,
}

/// An input of the corpus that crashes would end every further round at once: it waits until the run is over.
fn set_aside(run: &Run<'_>, name: &str) -> Result<(), FuzzError> {
    let (from, aside) = (run.corpus.join(name), run.scratch.path().join(ASIDE));
    if !from.exists() {
        return Ok(());
    }
    let moved = fs::create_dir_all(&aside).and_then(|()| fs::rename(&from, aside.join(name)));
    moved.map_err(|error| local(&aside, &error))
}

fn describe(ending: Ending) -> String {
    match ending {
        Ending::Exited(code) => format!("exit code {code}"),
        Ending::Signaled(signal) => format!("signal {signal}"),
        Ending::OutOfTime => "out of time".into(),
        Ending::Stopped => "stopped".into(),
    }
}
