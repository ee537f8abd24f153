//! One input, tried on the binary of one commit.

use std::fs;
use std::path::{Path, PathBuf};

use cadran_exec::Ending;
use tokio::time::Duration;

use super::crash::{Tried, bucket_of};
use super::pass_runner::{CommandLine, Manifest, PassRunner, Scratch, local};
use super::transcript::Transcript;
use super::{CrashSignature, Project};
use crate::{BinaryKind, CommitHash, FuzzError};

/// The unpacked binary of a commit.
pub(crate) struct UnpackedBinary {
    pub(crate) commit: CommitHash,
    pub(crate) bin: PathBuf,
    pub(crate) project: Project,
}

/// How an input behaved.
#[derive(Debug)]
pub(crate) struct Reproduction {
    pub(crate) crashed: u32,
    pub(crate) tries: u32,
    /// What the last crash looked like.
    pub(crate) signature: Option<CrashSignature>,
    pub(crate) report: Vec<u8>,
}

impl PassRunner {
    /// The production binary of a commit, ready to be run; `None` when the store has none.
    pub(crate) async fn bench(
        &self,
        commit: &CommitHash,
        dir: &Path,
    ) -> Result<Option<UnpackedBinary>, FuzzError> {
        let manifest = self.fetch_binary(BinaryKind::Production, commit, dir).await?;
        Ok(manifest.map(|manifest| self.bench_of(commit, dir, manifest)))
    }

    pub(crate) fn bench_of(&self, commit: &CommitHash, dir: &Path, manifest: Manifest) -> UnpackedBinary {
        let project = Project { root: manifest.root, ignored: self.tools.ignored_frames.clone() };
        UnpackedBinary { commit: commit.clone(), bin: dir.to_path_buf(), project }
    }

    /// Tries an input as often as configured. A crash is any end but success; a program that cannot be started is an
    /// error, since it says nothing about the input.
    pub(crate) async fn try_input(
        &self,
        bench: &UnpackedBinary,
        input: &Path,
        scratch: &Scratch,
    ) -> Result<Reproduction, FuzzError> {
        let mut reproduction = Reproduction { crashed: 0, tries: 0, signature: None, report: Vec::new() };
        let Some(text) = &self.tools.reproduce else { return Ok(reproduction) };
        for _ in 0..self.tools.tries {
            let line = CommandLine {
                text,
                dir: scratch.path(),
                budget: self.tools.reproduce_timeout,
                variables: self.input_variables(bench, input),
            };
            let mut transcript = Transcript::default();
            let ending = self.shell_through(line, &mut transcript).await?;
            reproduction.tries += 1;
            match ending {
                Ending::Exited(0) => continue,
                Ending::Exited(code @ (126 | 127)) => {
                    let said = transcript.reason();
                    return Err(FuzzError::Input(format!(
                        "the command `reproduce` cannot be run (exit code {code}): {said}"
                    )));
                }
                Ending::OutOfTime => transcript.take(b"==0== ERROR: libFuzzer: timeout (cut by cadran)\n"),
                _ => {}
            }
            reproduction.crashed += 1;
            reproduction.signature = Some(CrashSignature::read(&transcript.text(), &bench.project));
            reproduction.report = transcript.bytes();
        }
        Ok(reproduction)
    }

    /// Tries a crashing input again, and makes it smaller while it stays in its bucket. `seen` is what the fuzzer printed
    /// when it found it, for one that does not crash again.
    pub(crate) async fn examine(
        &self,
        bench: &UnpackedBinary,
        input: &Path,
        seen: &[u8],
        scratch: &Scratch,
    ) -> Result<Tried, FuzzError> {
        let bytes = fs::read(input).map_err(|error| local(input, &error))?;
        let reproduction = self.try_input(bench, input, scratch).await?;
        let signature = reproduction
            .signature
            .unwrap_or_else(|| CrashSignature::read(&String::from_utf8_lossy(seen), &bench.project));
        let report = if reproduction.report.is_empty() { seen.to_vec() } else { reproduction.report };
        let mut tried = Tried {
            signature,
            input: bytes,
            reproduced: reproduction.crashed,
            tries: reproduction.tries,
            minimised: false,
            report,
        };
        if tried.reproduced > 0 && self.why_halted().is_none() {
            self.minimise(bench, input, &mut tried, scratch).await?;
        }
        Ok(tried)
    }

    async fn minimise(
        &self,
        bench: &UnpackedBinary,
        input: &Path,
        tried: &mut Tried,
        scratch: &Scratch,
    ) -> Result<(), FuzzError> {
        let Some(text) = &self.tools.minimise else { return Ok(()) };
        let output = scratch.path().join("minimised");
        let _ = fs::remove_file(&output);
        let budget = self.tools.minimise_timeout;
        let mut variables = self.input_variables(bench, input);
        variables.push(("CADRAN_OUTPUT", output.as_path().into()));
        variables.push(("CADRAN_SECONDS", seconds(budget).to_string().into()));
        // Its own limit first, ours a little later.
        let line =
            CommandLine { text, dir: scratch.path(), budget: budget + Duration::from_secs(10), variables };
        self.shell(line, &mut Transcript::default(), |_| {}).await?;
        let Ok(smaller) = fs::read(&output) else { return Ok(()) };
        if smaller.is_empty() || smaller.len() >= tried.input.len() {
            return Ok(());
        }
        let reproduction = self.try_input(bench, &output, scratch).await?;
        let same = reproduction.signature.as_ref().is_some_and(|signature| {
            bucket_of(signature, &bench.commit) == bucket_of(&tried.signature, &bench.commit)
        });
        // A smaller input that crashes elsewhere, or less often, is another crash.
        if same && reproduction.crashed >= tried.reproduced {
            (tried.input, tried.minimised, tried.report) = (smaller, true, reproduction.report);
            (tried.reproduced, tried.tries) = (reproduction.crashed, reproduction.tries);
        }
        Ok(())
    }

    fn input_variables(
        &self,
        bench: &UnpackedBinary,
        input: &Path,
    ) -> Vec<(&'static str, std::ffi::OsString)> {
        vec![
            ("CADRAN_COMMIT", bench.commit.as_str().into()),
            ("CADRAN_BIN", bench.bin.as_path().into()),
            ("CADRAN_INPUT", input.into()),
        ]
    }
}

/// Whole seconds, at least one.
pub(crate) fn seconds(time: Duration) -> u64 {
    time.as_secs().max(1)
}
