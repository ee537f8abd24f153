//! The inputs that fuzz runs share. Each run brings one pack that holds everything worth keeping of what it was given
//! and of what it found; then the packs that it was given go. Runs at the same time each bring one, and the next reads
//! both: nobody's inputs are lost, and nobody waits for anybody.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use cadran_exec::Ending;
use tokio::time::Duration;

use super::pass_runner::{CommandLine, PassRunner, Scratch, local, pack, unpack};
use super::transcript::Transcript;
use crate::bucket::nonce;
use crate::{CommitHash, FuzzError};

/// Packs read at once. There are as many as fuzz runs at the same time; more is a store that refuses to delete.
const PACKS_MAX: usize = 64;

/// A run gets this many inputs at most.
const INPUTS_MAX: usize = 100_000;

/// A larger input is not worth the time of everybody.
const INPUT_BYTES_MAX: u64 = 8 << 20;

/// The packs a corpus was made from.
pub(crate) struct Packs {
    keys: Vec<String>,
}

impl PassRunner {
    /// Fills `dir` with the shared corpus and the seeds of the commit. Returns what it was made from.
    pub(crate) async fn corpus_down(
        &self,
        commit: &CommitHash,
        dir: &Path,
        scratch: &Scratch,
    ) -> Result<Packs, FuzzError> {
        let listed = self.bucket().list(&self.keys().other("corpus/"), None).await?;
        // The newest ones, when there are too many.
        let mut keys: Vec<String> =
            listed.into_iter().rev().map(|object| object.key).take(PACKS_MAX).collect();
        let file = scratch.path().join("pack.tar.gz");
        let mut read = Vec::new();
        for key in keys.drain(..) {
            if self.bucket().download(&key, &file).await?.is_none() {
                // Somebody has just replaced it by a pack of his own.
                continue;
            }
            let unpacked = scratch.path().join(format!("pack-{}", read.len()));
            match unpack(&file, &unpacked).await {
                Ok(_) => {
                    adopt(&unpacked, dir)?;
                    read.push(key);
                }
                // A pack that cannot be read is left for a person to look at.
                Err(error) => self.watcher.say(&format!("{key} is not used: {error}")),
            }
            let _ = fs::remove_dir_all(&unpacked);
        }
        if let Some(seeds) = &self.tools.seeds
            && self.repository.export(commit, seeds, &file).await?
        {
            let unpacked = scratch.path().join("seeds");
            unpack(&file, &unpacked).await?;
            adopt(&unpacked, dir)?;
        }
        let _ = fs::remove_file(&file);
        Ok(Packs { keys: read })
    }

    /// Reduces the corpus, when there is a command for it, and brings it up in the place of the packs it was made from.
    pub(crate) async fn corpus_up(
        &self,
        commit: &CommitHash,
        bin: &Path,
        corpus: &Path,
        packs: Packs,
        budget: Duration,
        scratch: &Scratch,
    ) -> Result<(usize, usize), FuzzError> {
        let aside = scratch.path().join(ASIDE);
        if aside.is_dir() {
            adopt(&aside, corpus)?;
        }
        let before = count(corpus)?;
        let merged = scratch.dir("merged")?;
        let from = match &self.tools.merge {
            Some(text) if before > 0 && self.why_halted().is_none() => {
                let line = CommandLine {
                    text,
                    dir: scratch.path(),
                    budget,
                    variables: vec![
                        ("CADRAN_COMMIT", commit.as_str().into()),
                        ("CADRAN_BIN", bin.into()),
                        ("CADRAN_CORPUS", corpus.into()),
                        ("CADRAN_OUT", merged.as_path().into()),
                    ],
                };
                let mut transcript = Transcript::default();
                let ending = self.shell(line, &mut transcript, |_| {}).await?;
                if ending == Ending::Exited(0) && count(&merged)? > 0 {
                    merged.as_path()
                } else {
                    let said = transcript.reason();
                    self.watcher.say(&format!(
                        "the corpus could not be merged, all of it is kept: {ending:?}, {said}"
                    ));
                    corpus
                }
            }
            _ => corpus,
        };
        let after = count(from)?;
        if after == 0 {
            return Ok((before, after));
        }
        let file = scratch.path().join("corpus.tar.gz");
        pack(from, &file).await?;
        let key = self.keys().other(&format!(
            "corpus/{:013}-{}-{}.tar.gz",
            self.pipeline.now(),
            commit.short(),
            nonce()
        ));
        self.bucket().upload(&file, &key).await?;
        for old in packs.keys {
            self.bucket().delete(&old).await?;
        }
        Ok((before, after))
    }
}

/// Moves the plain files below `from` into `to`, each under a name made from its content, so that nothing is there
/// twice.
fn adopt(from: &Path, to: &Path) -> Result<(), FuzzError> {
    let mut open = vec![from.to_path_buf()];
    let mut known = count(to)?;
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).map_err(|error| local(&dir, &error))? {
            let path = entry.map_err(|error| local(&dir, &error))?.path();
            let meta = fs::symlink_metadata(&path).map_err(|error| local(&path, &error))?;
            if meta.is_dir() {
                open.push(path);
            } else if meta.is_file() && meta.len() <= INPUT_BYTES_MAX && known < INPUTS_MAX {
                let bytes = fs::read(&path).map_err(|error| local(&path, &error))?;
                let place = to.join(name_of(&bytes));
                fs::rename(&path, &place).map_err(|error| local(&place, &error))?;
                known += 1;
            }
        }
    }
    Ok(())
}

/// The name of an input.
pub(crate) fn name_of(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().as_str()[..40].to_owned()
}

pub(crate) fn count(dir: &Path) -> Result<usize, FuzzError> {
    Ok(fs::read_dir(dir).map_err(|error| local(dir, &error))?.count())
}

/// Leaves in `dir` what is worth keeping and what is not known yet; the rest goes `aside`. Returns how many went.
pub(crate) fn narrow(
    dir: &Path,
    kept: &BTreeSet<String>,
    known: &BTreeSet<String>,
    aside: &Path,
) -> Result<usize, FuzzError> {
    let mut gone = 0;
    for entry in fs::read_dir(dir).map_err(|error| local(dir, &error))? {
        let entry = entry.map_err(|error| local(dir, &error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // What the map has never seen may be the best of all.
        if known.contains(&name) && !kept.contains(&name) {
            fs::rename(entry.path(), aside.join(&name)).map_err(|error| local(aside, &error))?;
            gone += 1;
        }
    }
    Ok(gone)
}

/// Where inputs wait that a map left out. They come back before the corpus goes up: the map is of another commit.
pub(crate) const ASIDE: &str = "left-out";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_named_by_their_content_and_narrowed_by_a_map() {
        let home = tempfile::tempdir().expect("a directory");
        let (from, to) = (home.path().join("from"), home.path().join("to"));
        fs::create_dir_all(from.join("deep")).expect("made");
        fs::create_dir(&to).expect("made");
        fs::write(from.join("a"), "one").expect("written");
        fs::write(from.join("deep/b"), "one").expect("written");
        fs::write(from.join("deep/c"), "two").expect("written");
        std::os::unix::fs::symlink("/etc/hostname", from.join("link")).expect("linked");
        adopt(&from, &to).expect("adopted");
        assert_eq!(count(&to).expect("counted"), 2);
        let (one, two, three) = (name_of(b"one"), name_of(b"two"), name_of(b"three"));
        fs::write(to.join(&three), "three").expect("written");
        let known = BTreeSet::from([one.clone(), two.clone()]);
        assert_eq!(narrow(&to, &BTreeSet::from([one.clone()]), &known, &from).expect("narrowed"), 1);
        assert!(to.join(one).exists() && to.join(three).exists() && !to.join(&two).exists());
        assert!(from.join(two).exists());
    }
}
