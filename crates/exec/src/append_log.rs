//! An append-only file of text records: what the journal and the ledgers have in common.
//!
//! The first line is a header, `cadran NAME FORMAT VERSION`, so that a newer format is refused and not misread. Every line
//! begins with the CRC-32 of the rest, in eight hexadecimal digits. Records are facts, and the owner's memory is their sum:
//! when the file has grown, or a write failed halfway, it is written anew from that memory under another name and takes
//! its place when it is complete and on disk.
//!
//! A last line without its end was being written when the process died, and is left out. Any other line that does not fit
//! its checksum is damage: it is reported, and a copy of the file is kept. Files of format 1 have neither header nor
//! checksums, and are read as well as they can be.

use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::ExecError;

/// The format this program writes. It reads this one and those before it. A new kind of record is a new format.
const FORMAT: u32 = 2;
const MAGIC: &str = "cadran ";
/// Eight hexadecimal digits and a space.
const CHECKSUM_LEN: usize = 9;
/// The file is written anew when it is larger than this and four times as large as what it has to say.
pub(crate) const COMPACT_BYTES_MIN: u64 = 4 << 20;

/// What was wrong with a file that was read all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// What it is, as in "journal".
    pub name: &'static str,
    /// The first bad line, counted from one.
    pub line: usize,
    /// How many lines are bad.
    pub count: usize,
    /// Where a copy of the file is kept, if that was possible.
    pub copy: Option<PathBuf>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { path, name, line, count, copy } = self;
        write!(
            f,
            "the {name} {} is damaged: {count} of its lines, the first one line {line}, ",
            path.display()
        )?;
        write!(f, "do not fit their checksum or do not read; what they said is lost, the rest was taken")?;
        match copy {
            Some(copy) => write!(f, ". The file as it was is kept as {}; check the disk", copy.display()),
            None => write!(f, ", and no copy could be kept; check the disk"),
        }
    }
}

/// Lines for the file, each with its checksum.
#[derive(Debug, Default)]
pub(crate) struct Records {
    text: String,
}

impl Records {
    /// Adds a record, which `write` puts on one line without its end.
    pub(crate) fn push(&mut self, write: impl FnOnce(&mut String) -> fmt::Result) {
        let start = self.text.len();
        self.text.push_str("00000000 ");
        // A string takes everything.
        let _ = write(&mut self.text);
        debug_assert!(!self.text[start..].contains('\n'), "a record is one line");
        let checksum = format!("{:08x}", checksum(&self.text[start + CHECKSUM_LEN..]));
        self.text.replace_range(start..start + checksum.len(), &checksum);
        self.text.push('\n');
    }

    fn header(name: &str) -> Records {
        let mut records = Records::default();
        records.push(|out| write!(out, "{MAGIC}{name} {FORMAT} {}", env!("CARGO_PKG_VERSION")));
        records
    }
}

fn checksum(text: &str) -> u32 {
    crc32fast::hash(text.as_bytes())
}

/// Reads the records of a file, oldest first. `replay` says whether it understood one. No file has no records.
pub(crate) fn read(
    path: &Path,
    name: &'static str,
    mut replay: impl FnMut(&str) -> bool,
) -> Result<Option<Damage>, ExecError> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(ExecError::file("read", path))?,
    };
    let text = String::from_utf8_lossy(&bytes);
    refuse_newer(text.lines().next().unwrap_or_default(), path, name)?;
    // Not told by the header alone, which may be what is damaged.
    let has_checksums = text.lines().any(|line| checked(line).is_some());
    let mut bad_lines = Vec::new();
    for (at, line) in text.split_inclusive('\n').enumerate() {
        let Some(line) = line.strip_suffix('\n') else { break };
        let understood = match checked(line) {
            Some(header) if header.starts_with(MAGIC) => at == 0,
            Some(record) => replay(record),
            // Format 1 has no checksums, and an empty line where a write had failed.
            None => !has_checksums && (line.is_empty() || replay(line)),
        };
        if !understood {
            bad_lines.push(at + 1);
        }
    }
    let Some(&line) = bad_lines.first() else { return Ok(None) };
    let copy = cadran_files::beside(path, ".damaged");
    let kept = fs::copy(path, &copy).is_ok() && cadran_files::secure_file(&copy).is_ok();
    let copy = kept.then_some(copy);
    let damage = Damage { path: path.to_owned(), name, line, count: bad_lines.len(), copy };
    tracing::error!("{damage}");
    Ok(Some(damage))
}

/// Refuses a file whose first line is a header of a newer format, or of something else.
fn refuse_newer(line: &str, path: &Path, name: &'static str) -> Result<(), ExecError> {
    let Some(header) = checked(line).and_then(|record| record.strip_prefix(MAGIC)) else { return Ok(()) };
    let mut words = header.split(' ');
    let (found, format, version) = (words.next(), words.next(), words.next().unwrap_or("of unknown version"));
    let path = path.to_owned();
    match format.and_then(|format| format.parse::<u32>().ok()).filter(|_| found == Some(name)) {
        Some(format) if format <= FORMAT => Ok(()),
        Some(format) => Err(ExecError::Newer { path, name, format, known: FORMAT, version: version.into() }),
        None => Err(ExecError::Foreign { path, name, found: header.into() }),
    }
}

/// The record of a line that fits its checksum.
fn checked(line: &str) -> Option<&str> {
    let (sum, record) = (line.get(..CHECKSUM_LEN - 1)?, line.get(CHECKSUM_LEN..)?);
    let fits =
        line.as_bytes()[CHECKSUM_LEN - 1] == b' ' && u32::from_str_radix(sum, 16).ok()? == checksum(record);
    fits.then_some(record)
}

/// The open end of the file.
#[derive(Debug)]
pub(crate) struct AppendLog {
    path: PathBuf,
    name: &'static str,
    bytes: u64,
    bytes_compact: u64,
    /// A write failed, so the file may end in the middle of a line and lacks records: it is written anew next.
    is_torn: bool,
    records: Records,
    tail: Arc<Tail>,
}

/// What those who wait for the disk share with the one who writes.
#[derive(Debug)]
struct Tail {
    current: Mutex<(Arc<File>, u64)>,
    /// How much of what was ever written is on disk. Held while the disk works, so that those who come meanwhile are
    /// served together by the next one.
    synced: Mutex<u64>,
    failed: AtomicBool,
}

/// A moment in the life of the file, to wait for.
#[derive(Debug)]
pub(crate) struct SyncPoint {
    tail: Arc<Tail>,
    written: u64,
}

impl AppendLog {
    /// Writes the file anew with the records of `snapshot`, and keeps it open.
    pub(crate) fn create(
        path: &Path,
        name: &'static str,
        snapshot: impl FnOnce(&mut Records),
    ) -> Result<AppendLog, ExecError> {
        let (file, bytes) = write_anew(path, name, snapshot).map_err(ExecError::file("write", path))?;
        let tail = Tail {
            current: Mutex::new((Arc::new(file), bytes)),
            synced: Mutex::new(bytes),
            failed: AtomicBool::new(false),
        };
        Ok(AppendLog {
            path: path.to_owned(),
            name,
            bytes,
            bytes_compact: bytes,
            is_torn: false,
            records: Records::default(),
            tail: Arc::new(tail),
        })
    }

    /// Adds a record to the next write.
    pub(crate) fn push(&mut self, write: impl FnOnce(&mut String) -> fmt::Result) {
        self.records.push(write);
    }

    /// One write for everything since the last one. `snapshot` gives all records that still matter, those included.
    ///
    /// After an error nothing is lost as long as the process lives: the next write tries all of it again.
    pub(crate) fn write(&mut self, snapshot: impl FnOnce(&mut Records)) -> io::Result<SyncPoint> {
        self.is_torn |= self.tail.failed.swap(false, Ordering::Relaxed);
        if !self.is_torn {
            self.append()?;
        }
        let is_grown = self.bytes > COMPACT_BYTES_MIN.max(4 * self.bytes_compact);
        if self.is_torn || is_grown {
            match write_anew(&self.path, self.name, snapshot) {
                Ok((file, bytes)) => {
                    if self.is_torn {
                        tracing::info!(path = %self.path.display(), "the {} can be written again", self.name);
                    }
                    self.records.text.clear();
                    (self.bytes, self.bytes_compact, self.is_torn) = (bytes, bytes, false);
                    self.tail.advance(Some(file), bytes);
                }
                Err(error) if self.is_torn => return Err(error),
                Err(error) => {
                    tracing::warn!(path = %self.path.display(), %error, "the {} cannot be compacted", self.name);
                    // Tried again when it has grown by as much once more.
                    self.bytes_compact = self.bytes;
                }
            }
        }
        Ok(SyncPoint { written: lock(&self.tail.current).1, tail: self.tail.clone() })
    }

    fn append(&mut self) -> io::Result<()> {
        let text = std::mem::take(&mut self.records.text);
        if !text.is_empty() {
            let file = lock(&self.tail.current).0.clone();
            if let Err(error) = (&*file).write_all(text.as_bytes()) {
                let path = self.path.display();
                tracing::error!(%path, %error, "the {} cannot be written; trying again", self.name);
                self.is_torn = true;
                return Err(error);
            }
            self.bytes += text.len() as u64;
            self.tail.advance(None, text.len() as u64);
        }
        // The buffer is used again.
        self.records.text = text;
        self.records.text.clear();
        Ok(())
    }
}

impl Tail {
    fn advance(&self, file: Option<File>, bytes: u64) {
        let mut current = lock(&self.current);
        current.1 += bytes;
        if let Some(file) = file {
            current.0 = Arc::new(file);
        }
    }
}

impl SyncPoint {
    /// Returns when everything that was written up to this point is on disk. Blocks for as long as the disk takes.
    pub(crate) fn wait(&self) -> io::Result<()> {
        let mut synced = lock(&self.tail.synced);
        if *synced >= self.written {
            return Ok(());
        }
        let (file, written) = lock(&self.tail.current).clone();
        if let Err(error) = file.sync_data() {
            // The system may have dropped what it could not write, and says so only once: all of it is written again.
            self.tail.failed.store(true, Ordering::Relaxed);
            return Err(error);
        }
        *synced = written;
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The new file is complete and on disk before it takes the old one's name, so that a crash leaves one or the other.
fn write_anew(path: &Path, name: &str, snapshot: impl FnOnce(&mut Records)) -> io::Result<(File, u64)> {
    let mut records = Records::header(name);
    snapshot(&mut records);
    let fresh = path.with_extension("new");
    let _ = fs::remove_file(&fresh);
    let mut file = cadran_files::options().write(true).create_new(true).open(&fresh)?;
    file.write_all(records.text.as_bytes())?;
    file.sync_data()?;
    fs::rename(&fresh, path)?;
    if let Some(dir) = path.parent() {
        File::open(dir)?.sync_all()?;
    }
    Ok((file, records.text.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(path: &Path) -> (Vec<String>, Option<Damage>) {
        let mut records = Vec::new();
        let damage = read(path, "journal", |record| {
            records.push(record.to_owned());
            !record.starts_with('?')
        });
        (records, damage.expect("read"))
    }

    fn written(dir: &Path, records: &[&str]) -> (AppendLog, PathBuf) {
        let path = dir.join("journal");
        let mut log = AppendLog::create(&path, "journal", |_| {}).expect("created");
        for record in records {
            log.push(|out| out.write_str(record));
            log.write(|_| panic!("nothing to compact")).expect("written").wait().expect("on disk");
        }
        (log, path)
    }

    #[test]
    fn records_come_back_and_a_torn_tail_is_left_out() {
        let dir = tempfile::tempdir().expect("a directory");
        let (_, path) = written(dir.path(), &["S 1", "E 1 é", ""]);
        assert_eq!(read_all(&path), (vec!["S 1".into(), "E 1 é".into(), String::new()], None));
        let whole = fs::read(&path).expect("read");
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).expect("written");
            let (records, damage) = read_all(&path);
            let ends = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
            assert_eq!((records.len(), damage), (ends.saturating_sub(1), None), "cut at {cut}");
        }
    }

    #[test]
    fn a_changed_bit_is_found_reported_and_the_rest_taken() {
        let dir = tempfile::tempdir().expect("a directory");
        let (_, path) = written(dir.path(), &["S 1", "S 2", "S 3"]);
        let whole = fs::read(&path).expect("read");
        let ends: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] == b'\n').collect();
        for at in (0..whole.len()).filter(|at| !ends.contains(at)) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            // A newline in the middle makes two bad lines of one.
            let line = ends.iter().filter(|end| **end < at).count() + 1;
            fs::write(&path, &bytes).expect("written");
            let (records, damage) = read_all(&path);
            let damage = damage.unwrap_or_else(|| panic!("byte {at} was changed, and nobody noticed"));
            assert_eq!((damage.line, damage.name), (line, "journal"), "byte {at}");
            let kept = records.iter().filter(|record| record.starts_with("S ") && record.len() == 3).count();
            assert_eq!(kept, if line == 1 { 3 } else { 2 }, "byte {at}: {records:?}");
            assert_eq!(fs::read(damage.copy.expect("kept")).expect("read"), bytes);
        }
    }

    #[test]
    fn a_newer_format_is_refused_with_who_wrote_it_and_what_to_do() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("journal");
        let mut records = Records::default();
        records.push(|out| out.write_str("cadran journal 3 9.8.7"));
        fs::write(&path, &records.text).expect("written");
        let error = read(&path, "journal", |_| true).expect_err("refused").to_string();
        for part in [
            "journal",
            "format 3",
            "cadran 9.8.7",
            "up to 2",
            "start that version",
            &path.display().to_string(),
        ] {
            assert!(error.contains(part), "{part:?} in {error}");
        }
        assert_eq!(fs::read_to_string(&path).expect("read"), records.text, "left as it was");
        let error = read(&path, "ledger", |_| true).expect_err("refused").to_string();
        assert!(error.contains("is not a ledger"), "{error}");
    }

    #[test]
    fn what_a_full_disk_refused_is_written_when_it_has_room() {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut log, path) = written(dir.path(), &["S 1"]);
        // The device refuses every byte, and its directory every file.
        lock(&log.tail.current).0 = Arc::new(File::options().write(true).open("/dev/full").expect("opened"));
        let place = std::mem::replace(&mut log.path, dir.path().join("missing/journal"));
        log.push(|out| out.write_str("S 2"));
        let memory = |records: &mut Records| {
            ["S 1", "S 2"].iter().for_each(|it| records.push(|out| out.write_str(it)))
        };
        log.write(memory).expect_err("refused");
        log.write(memory).expect_err("refused again");
        log.path = place;
        log.write(memory).expect("written").wait().expect("on disk");
        assert_eq!(read_all(&path), (vec!["S 1".into(), "S 2".into()], None));
    }

    #[test]
    fn what_was_written_to_a_disk_that_failed_is_written_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut log, path) = written(dir.path(), &[]);
        log.push(|out| out.write_str("S 1"));
        let point = log.write(|_| {}).expect("written");
        // A pipe cannot be synced.
        let (_reader, writer) = io::pipe().expect("a pipe");
        lock(&log.tail.current).0 = Arc::new(File::from(std::os::fd::OwnedFd::from(writer)));
        point.wait().expect_err("not on disk");
        let point = log.write(|records| records.push(|out| out.write_str("S 1"))).expect("written anew");
        point.wait().expect("on disk");
        assert_eq!(read_all(&path), (vec!["S 1".into()], None));
    }

    #[test]
    fn a_file_is_for_its_owner_alone_also_after_compaction() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().expect("a directory");
        let (mut log, path) = written(dir.path(), &["S 1"]);
        log.push(|out| out.write_str(&"x".repeat(COMPACT_BYTES_MIN as usize)));
        log.write(|records| records.push(|out| out.write_str("S 1"))).expect("written");
        let metadata = fs::metadata(&path).expect("there");
        assert!(metadata.len() < 100 && metadata.mode() & 0o777 == 0o600, "{metadata:?}");
    }
}
