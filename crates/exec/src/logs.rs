use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cadran_core::{RunId, StepNo};

/// The log files of all runs: what attempts printed.
///
/// `<first 4 characters of the run>/<run>/<step number>-<step name>.<attempt>.log`, and `….<attempt>.s<share>.log` for
/// the shares of a broadcast. A run id is typed and a step
/// name is cleaned, so that no path can leave the directory.
#[derive(Clone, Debug)]
pub struct LogDir {
    path: PathBuf,
}

/// One log file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFile {
    /// The step's number.
    pub step_no: StepNo,
    /// The step's name, as far as it is fit for a file name.
    pub step: String,
    /// Which attempt.
    pub attempt: u32,
    /// Which share of a broadcast.
    pub share: Option<u32>,
    /// Its size now.
    pub bytes: u64,
}

/// A piece of a log file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogChunk {
    /// The bytes; not cut at character borders.
    pub bytes: Vec<u8>,
    /// Where they begin.
    pub from: u64,
    /// Size of the file when they were read.
    pub total: u64,
}

impl LogChunk {
    /// Where the next read goes on.
    pub fn next(&self) -> u64 {
        self.from + self.bytes.len() as u64
    }
}

impl LogDir {
    /// One read returns at most so much, so that a caller's memory is bounded whatever it asks for.
    pub const READ_BYTES_MAX: u64 = 4 << 20;

    /// The directory given to the executor as `logs`.
    pub fn new(path: impl Into<PathBuf>) -> LogDir {
        LogDir { path: path.into() }
    }

    /// The files of a run, by step and attempt. An attempt that printed nothing has none.
    pub fn list(&self, run: RunId) -> io::Result<Vec<LogFile>> {
        let mut files = Vec::new();
        let entries = match fs::read_dir(self.run_dir(run)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
            other => other?,
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let Some((step_no, step, attempt, share)) = name.to_str().and_then(parse_name) else { continue };
            match entry.metadata() {
                Ok(meta) => {
                    files.push(LogFile { step_no, step: step.into(), attempt, share, bytes: meta.len() });
                }
                // Removed by retention between the listing and the look.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        files.sort_by_key(|file| (file.step_no, file.share, file.attempt));
        Ok(files)
    }

    /// Bytes `from..to` of a log, at most [`LogDir::READ_BYTES_MAX`] of them; empty when there is no such file.
    pub fn read(&self, run: RunId, step: StepNo, attempt: u32, from: u64, to: u64) -> io::Result<LogChunk> {
        self.read_share(run, step, attempt, None, from, to)
    }

    /// The same of one share of a broadcast.
    pub fn read_share(
        &self,
        run: RunId,
        step: StepNo,
        attempt: u32,
        share: Option<u32>,
        from: u64,
        to: u64,
    ) -> io::Result<LogChunk> {
        let Some(path) = self.find(run, step, attempt, share)? else {
            return Ok(LogChunk { from, ..LogChunk::default() });
        };
        let mut file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(LogChunk { from, ..LogChunk::default() });
            }
            other => other?,
        };
        let total = file.metadata()?.len();
        let len = to.min(total).saturating_sub(from).min(LogDir::READ_BYTES_MAX);
        let mut bytes = Vec::with_capacity(len as usize);
        if len > 0 {
            file.seek(SeekFrom::Start(from))?;
            file.take(len).read_to_end(&mut bytes)?;
        }
        Ok(LogChunk { bytes, from, total })
    }

    /// What came since `from`. Whoever follows asks again from [`LogChunk::next`], and once more after the attempt has
    /// ended: its log is complete before its end is reported.
    pub fn follow(&self, run: RunId, step: StepNo, attempt: u32, from: u64) -> io::Result<LogChunk> {
        self.read(run, step, attempt, from, u64::MAX)
    }

    /// How much of the disk the logs of each run take, directories included, oldest run first.
    pub fn usage(&self) -> io::Result<Vec<(RunId, u64)>> {
        let mut runs = Vec::new();
        for group in present(fs::read_dir(&self.path))?.into_iter().flatten() {
            for entry in present(fs::read_dir(group?.path()))?.into_iter().flatten() {
                let entry = entry?;
                let Some(run) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                    continue;
                };
                let mut bytes =
                    present(entry.metadata())?.map_or(0, |metadata| metadata.blocks() * BLOCK_BYTES);
                for file in present(fs::read_dir(entry.path()))?.into_iter().flatten() {
                    bytes += present(file?.metadata())?.map_or(0, |metadata| metadata.blocks() * BLOCK_BYTES);
                }
                runs.push((run, bytes));
            }
        }
        runs.sort_unstable();
        Ok(runs)
    }

    /// Removes the logs of a run; nothing there is fine.
    pub fn remove(&self, run: RunId) -> io::Result<()> {
        let dir = self.run_dir(run);
        match fs::remove_dir_all(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        }
        if let Some(parent) = dir.parent() {
            // Fails while other runs are in it, which is right.
            let _ = fs::remove_dir(parent);
        }
        Ok(())
    }

    /// The path of an attempt's log, whether it exists or not.
    pub fn path(&self, run: RunId, step: StepNo, step_name: &str, attempt: u32) -> PathBuf {
        self.run_dir(run).join(format!("{}-{}.{attempt}.log", step.0, clean(step_name)))
    }

    /// The path of the log of one share of a broadcast.
    pub fn share_path(&self, run: RunId, step: StepNo, step_name: &str, attempt: u32, share: u32) -> PathBuf {
        self.run_dir(run).join(format!("{}-{}.{attempt}.s{share}.log", step.0, clean(step_name)))
    }

    fn run_dir(&self, run: RunId) -> PathBuf {
        let text = run.to_string();
        self.path.join(text.get(..4).unwrap_or(&text)).join(&text)
    }

    fn find(
        &self,
        run: RunId,
        step: StepNo,
        attempt: u32,
        share: Option<u32>,
    ) -> io::Result<Option<PathBuf>> {
        let wanted = |file: &LogFile| (file.step_no, file.attempt, file.share) == (step, attempt, share);
        let found = self.list(run)?.into_iter().find(wanted);
        Ok(found.map(|file| match share {
            Some(share) => self.share_path(run, step, &file.step, attempt, share),
            None => self.path(run, step, &file.step, attempt),
        }))
    }
}

impl AsRef<Path> for LogDir {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

/// Unit of `st_blocks`, whatever the file system.
const BLOCK_BYTES: u64 = 512;

/// What is not there, or is no directory, is no error: it was removed meanwhile, or is not ours.
fn present<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Longest part of a step name in a file name: leaves room for number, attempt and suffix in 255 bytes.
const NAME_BYTES_MAX: usize = 100;

/// The name with everything that is not plainly harmless in a file name replaced.
fn clean(name: &str) -> String {
    let harmless = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.') { c } else { '_' };
    name.chars().take(NAME_BYTES_MAX).map(harmless).collect()
}

fn parse_name(name: &str) -> Option<(StepNo, &str, u32, Option<u32>)> {
    let (no, rest) = name.strip_suffix(".log")?.split_once('-')?;
    let (rest, share) = match rest.rsplit_once(".s") {
        Some((rest, share)) if share.bytes().all(|byte| byte.is_ascii_digit()) => (rest, Some(share)),
        _ => (rest, None),
    };
    let (step, attempt) = rest.rsplit_once('.')?;
    Some((StepNo(no.parse().ok()?), step, attempt.parse().ok()?, share.map(str::parse).transpose().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_name_never_leaves_the_directory() {
        let dir = LogDir::new("/logs");
        let run = RunId::from_raw(7);
        for name in [
            "../../etc/passwd",
            "..",
            "a/b",
            "a.s1",
            ".s",
            "a\0b",
            "é\n",
            "",
            "%2e%2e%2f",
            &"x".repeat(300),
            "-",
            ".1.log",
        ] {
            let path = dir.path(run, StepNo(3), name, 2);
            assert_eq!(path.parent(), Some(dir.run_dir(run).as_path()), "{name:?}");
            let file = path.file_name().and_then(|name| name.to_str()).expect("a plain name");
            assert!(file.len() < 255, "{name:?}");
            assert_eq!(parse_name(file), Some((StepNo(3), clean(name).as_str(), 2, None)), "{name:?}");
            let path = dir.share_path(run, StepNo(3), name, 2, 7);
            let file = path.file_name().and_then(|name| name.to_str()).expect("a plain name");
            assert_eq!(parse_name(file), Some((StepNo(3), clean(name).as_str(), 2, Some(7))), "{name:?}");
        }
    }

    #[test]
    fn reads_lists_and_removes() {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = LogDir::new(temp.path());
        let run = RunId::from_raw(1 << 50);
        assert_eq!(dir.list(run).expect("no run is no error"), []);
        for (no, attempt, text) in [(10, 1, "ten"), (2, 2, "second"), (2, 1, "0123456789")] {
            let path = dir.path(run, StepNo(no), "a.b", attempt);
            fs::create_dir_all(path.parent().expect("a parent")).expect("created");
            fs::write(path, text).expect("written");
        }
        let listed: Vec<_> =
            dir.list(run).expect("listed").into_iter().map(|f| (f.step_no.0, f.attempt, f.bytes)).collect();
        assert_eq!(listed, [(2, 1, 10), (2, 2, 6), (10, 1, 3)]);
        let rows: [(u64, u64, &str); 6] = [
            (0, 3, "012"),
            (8, 100, "89"),
            (10, 20, ""),
            (50, 60, ""),
            (5, 2, ""),
            (0, u64::MAX, "0123456789"),
        ];
        for (from, to, text) in rows {
            let chunk = dir.read(run, StepNo(2), 1, from, to).expect("read");
            assert_eq!((chunk.bytes.as_slice(), chunk.total), (text.as_bytes(), 10), "{from}..{to}");
        }
        let usage = dir.usage().expect("measured");
        assert_eq!(usage.iter().map(|(run, _)| *run).collect::<Vec<_>>(), [run]);
        assert!(usage[0].1 < 1 << 20, "{usage:?}");
        assert_eq!(dir.follow(run, StepNo(2), 1, 4).expect("read").next(), 10);
        assert_eq!(dir.read(run, StepNo(9), 1, 0, 9).expect("no file is no error"), LogChunk::default());
        dir.remove(run).expect("removed");
        dir.remove(run).expect("removed again");
        assert_eq!(fs::read_dir(temp.path()).expect("listed").count(), 0);
    }
}
