use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cadran_core::{Found, Millis, Outcome, RunId, StepNo};

use crate::ExecError;
use crate::procfs::Born;

/// Names one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) run: RunId,
    pub(crate) step: StepNo,
    pub(crate) attempt: u32,
}

/// Attempts of one step of a run. A worker that has several shares of one attempt, one after another, knows the further
/// ones by numbers above this: see `worker::wire::Named`.
pub(crate) const ATTEMPTS_MAX: u32 = 1 << 20;

/// What this executor has started and not yet been allowed to forget, in memory and in an append-only file.
///
/// One line per fact: `S` an attempt is about to start, `P` its process, `O` its output, `E` its end, `C` its run is closed. A batch
/// of facts is one write. There is no fsync: the file serves after the death of the server, and after the death of
/// the machine there are no processes to look for.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    bytes: u64,
    bytes_compact: u64,
    /// The last write failed somewhere: the next one begins on a new line.
    is_torn: bool,
    entries: BTreeMap<Key, Entry>,
    buffer: String,
    /// Held as long as the journal is open: one executor per journal.
    lock: File,
}

#[derive(Clone, Debug)]
struct Entry {
    started_at: Millis,
    born: Option<Born>,
    ended: Option<(Millis, Outcome)>,
    output: Option<Box<str>>,
}

impl Entry {
    fn new(started_at: Millis) -> Entry {
        Entry { started_at, born: None, ended: None, output: None }
    }
}

/// The file is written anew when it is larger than this and four times as large as what it has to say.
const COMPACT_BYTES_MIN: u64 = 4 << 20;

/// How often and how soon a lock that is held is tried again: two seconds in all.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// An executor that was killed while it started a process leaves a copy of its lock in it, for the moment until that
/// process has become the step's program. We wait that long; from then on the sweep finds it.
fn take_lock(file: &File, path: &Path) -> Result<(), ExecError> {
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(ExecError::file("lock", path)(error)),
            Err(TryLockError::WouldBlock) => {}
        }
        #[allow(clippy::disallowed_methods)] // nobody tells when a lock is given back
        std::thread::sleep(LOCK_PAUSE);
    }
    Err(ExecError::InUse(path.to_path_buf()))
}

impl Journal {
    pub(crate) fn open(path: &Path, lock: &Path) -> Result<Journal, ExecError> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(ExecError::file("create the directory", dir))?;
        }
        let lock_file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(lock)
            .map_err(ExecError::file("open the lock file", lock))?;
        take_lock(&lock_file, lock)?;
        let text = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other.map_err(ExecError::file("read the journal", path))?,
        };
        let entries = replay(&String::from_utf8_lossy(&text));
        let (file, bytes) = write_anew(path, &entries).map_err(ExecError::file("write the journal", path))?;
        Ok(Journal {
            path: path.to_path_buf(),
            file,
            bytes,
            bytes_compact: bytes,
            is_torn: false,
            entries,
            buffer: String::new(),
            lock: lock_file,
        })
    }

    pub(crate) fn knows(&self, key: Key) -> bool {
        self.entries.contains_key(&key)
    }

    pub(crate) fn knows_run(&self, run: RunId) -> bool {
        self.entries.range(keys_of(run)).next().is_some()
    }

    /// What is known of every attempt whose run is not closed, by run, step and attempt.
    pub(crate) fn found(&self) -> Vec<Found> {
        let found = self.entries.iter().map(|(key, entry)| Found {
            run: key.run,
            step: key.step,
            attempt: key.attempt,
            started_at: entry.started_at,
            ended: entry.ended.clone(),
            output: entry.ended.as_ref().and_then(|_| entry.output.clone()),
            lives: false,
            seats: Vec::new(),
        });
        found.collect()
    }

    /// Processes of attempts that have not ended, as far as the journal knows.
    pub(crate) fn open_processes(&self) -> Vec<Born> {
        let open = self.entries.values().filter(|entry| entry.ended.is_none());
        open.filter_map(|entry| entry.born.clone()).collect()
    }

    /// Lets another executor have it.
    pub(crate) fn unlock(&self) {
        let _ = self.lock.unlock();
    }

    /// These are about to start.
    pub(crate) fn begin(&mut self, keys: &[Key], at: Millis) {
        for key in keys {
            line_begin(&mut self.buffer, *key, at);
            self.entries.insert(*key, Entry::new(at));
        }
        self.write();
    }

    /// Its process is up. Written with the next [`Journal::write`].
    pub(crate) fn spawned(&mut self, key: Key, born: &Born) {
        line_spawned(&mut self.buffer, key, born);
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.born = Some(born.clone());
        }
    }

    /// It is over. Written with the next [`Journal::write`].
    pub(crate) fn ended(&mut self, key: Key, at: Millis, outcome: &Outcome, output: Option<&str>) {
        if let Some(output) = output {
            line_output(&mut self.buffer, key, output);
        }
        line_ended(&mut self.buffer, key, at, outcome);
        if let Some(entry) = self.entries.get_mut(&key) {
            (entry.ended, entry.output) = (Some((at, outcome.clone())), output.map(Into::into));
        }
    }

    /// The run may be forgotten. Written with the next [`Journal::write`].
    pub(crate) fn close(&mut self, run: RunId) {
        if forget(&mut self.entries, run) {
            let _ = writeln!(self.buffer, "C {run}");
        }
    }

    /// One write for everything since the last one.
    pub(crate) fn write(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        if self.is_torn {
            self.buffer.insert(0, '\n');
        }
        match self.file.write_all(self.buffer.as_bytes()) {
            Ok(()) => self.is_torn = false,
            Err(error) => {
                // The attempts go on: without the journal only a crash would leave a question open.
                if !self.is_torn {
                    tracing::error!(path = %self.path.display(), %error, "the journal cannot be written");
                }
                self.is_torn = true;
            }
        }
        self.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        if self.bytes > COMPACT_BYTES_MIN.max(4 * self.bytes_compact) {
            match write_anew(&self.path, &self.entries) {
                Ok((file, bytes)) => {
                    (self.file, self.bytes, self.bytes_compact, self.is_torn) = (file, bytes, bytes, false);
                }
                Err(error) => {
                    tracing::warn!(path = %self.path.display(), %error, "the journal cannot be compacted");
                    // Tried again when it has grown by as much once more.
                    self.bytes_compact = self.bytes;
                }
            }
        }
    }
}

pub(crate) fn keys_of(run: RunId) -> RangeInclusive<Key> {
    Key { run, step: StepNo(0), attempt: 0 }..=Key { run, step: StepNo(u16::MAX), attempt: u32::MAX }
}

/// True when there was something to forget.
fn forget(entries: &mut BTreeMap<Key, Entry>, run: RunId) -> bool {
    let keys: Vec<Key> = entries.range(keys_of(run)).map(|(key, _)| *key).collect();
    keys.iter().for_each(|key| drop(entries.remove(key)));
    !keys.is_empty()
}

/// The new file is complete before it takes the old one's name, so that a crash leaves one or the other.
fn write_anew(path: &Path, entries: &BTreeMap<Key, Entry>) -> io::Result<(File, u64)> {
    let mut text = String::new();
    for (key, entry) in entries {
        line_begin(&mut text, *key, entry.started_at);
        if let Some(born) = &entry.born {
            line_spawned(&mut text, *key, born);
        }
        if let Some(output) = &entry.output {
            line_output(&mut text, *key, output);
        }
        if let Some((at, outcome)) = &entry.ended {
            line_ended(&mut text, *key, *at, outcome);
        }
    }
    let fresh = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&fresh)?;
    file.write_all(text.as_bytes())?;
    fs::rename(&fresh, path)?;
    Ok((file, text.len() as u64))
}

fn line_begin(out: &mut String, key: Key, at: Millis) {
    let _ = writeln!(out, "S {} {} {} {at}", key.run, key.step.0, key.attempt);
}

fn line_spawned(out: &mut String, key: Key, born: &Born) {
    let (first, last) = (born.at.start(), born.at.end());
    let _ = writeln!(out, "P {} {} {} {} {first} {last}", key.run, key.step.0, key.attempt, born.pid);
}

/// Before the line of the end, so that an end that can be read has its output.
fn line_output(out: &mut String, key: Key, output: &str) {
    let _ = writeln!(out, "O {} {} {} 0 {}", key.run, key.step.0, key.attempt, escaped(output));
}

fn line_ended(out: &mut String, key: Key, at: Millis, outcome: &Outcome) {
    let _ = write!(out, "E {} {} {} {at} ", key.run, key.step.0, key.attempt);
    write_outcome(out, outcome);
}

pub(crate) fn write_outcome(out: &mut String, outcome: &Outcome) {
    let _ = match outcome {
        Outcome::Exited(code) => writeln!(out, "exited {code}"),
        Outcome::Signaled(signal) => writeln!(out, "signaled {signal}"),
        Outcome::TimedOut => writeln!(out, "timed_out"),
        Outcome::Stopped => writeln!(out, "stopped"),
        Outcome::PreconditionUnmet(why) => writeln!(out, "precondition {}", escaped(why)),
        Outcome::JobPreconditionUnmet(why) => writeln!(out, "job_precondition {}", escaped(why)),
        Outcome::NotStarted(why) => writeln!(out, "not_started {}", escaped(why)),
        Outcome::Reported(code, why) => writeln!(out, "reported {code} {}", escaped(why)),
        Outcome::Halted(why) => writeln!(out, "halted {}", escaped(why)),
        Outcome::Lost => writeln!(out, "lost"),
    };
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r")
}

pub(crate) fn unescaped(text: &str) -> Box<str> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some(other) => other,
                None => '\\',
            },
            other => other,
        });
    }
    out.into_boxed_str()
}

/// Reads the lines it understands. A last line without its end was being written when the server died.
fn replay(text: &str) -> BTreeMap<Key, Entry> {
    let mut entries = BTreeMap::new();
    for line in text.split_inclusive('\n') {
        let Some(line) = line.strip_suffix('\n') else { break };
        let _ = replay_line(line, &mut entries);
    }
    entries
}

fn replay_line(line: &str, entries: &mut BTreeMap<Key, Entry>) -> Option<()> {
    let mut words = line.splitn(6, ' ');
    let kind = words.next()?;
    let run: RunId = words.next()?.parse().ok()?;
    if kind == "C" {
        forget(entries, run);
        return Some(());
    }
    let step = StepNo(words.next()?.parse().ok()?);
    let attempt = words.next()?.parse().ok()?;
    let number = words.next()?;
    let rest = words.next().unwrap_or_default();
    let key = Key { run, step, attempt };
    match kind {
        "S" => {
            entries.insert(key, Entry::new(number.parse().ok()?));
        }
        "P" => {
            let (first, last) = rest.split_once(' ')?;
            let at = first.parse().ok()?..=last.parse().ok()?;
            entries.get_mut(&key)?.born = Some(Born { pid: number.parse().ok()?, at });
        }
        "E" => entries.get_mut(&key)?.ended = Some((number.parse().ok()?, parse_outcome(rest)?)),
        "O" => entries.get_mut(&key)?.output = Some(unescaped(rest)),
        _ => {}
    }
    Some(())
}

pub(crate) fn parse_outcome(text: &str) -> Option<Outcome> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    Some(match word {
        "exited" => Outcome::Exited(rest.parse().ok()?),
        "signaled" => Outcome::Signaled(rest.parse().ok()?),
        "timed_out" => Outcome::TimedOut,
        "stopped" => Outcome::Stopped,
        "precondition" => Outcome::PreconditionUnmet(unescaped(rest)),
        "job_precondition" => Outcome::JobPreconditionUnmet(unescaped(rest)),
        "not_started" => Outcome::NotStarted(unescaped(rest)),
        "reported" => {
            let (code, why) = rest.split_once(' ')?;
            Outcome::Reported(code.parse().ok()?, unescaped(why))
        }
        "halted" => Outcome::Halted(unescaped(rest)),
        "lost" => Outcome::Lost,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(run: u64, step: u16, attempt: u32) -> Key {
        Key { run: RunId::from_raw(run), step: StepNo(step), attempt }
    }

    fn open(dir: &Path) -> Journal {
        Journal::open(&dir.join("journal"), &dir.join("journal.lock")).expect("opened")
    }

    #[test]
    fn every_outcome_survives_the_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let outcomes = [
            Outcome::Exited(-3),
            Outcome::Halted("share 1\nwas stopped".into()),
            Outcome::Signaled(11),
            Outcome::TimedOut,
            Outcome::Stopped,
            Outcome::PreconditionUnmet("a\nb \\n c\r".into()),
            Outcome::JobPreconditionUnmet("".into()),
            Outcome::NotStarted("no  such\\".into()),
            Outcome::Reported(500, "no\nway".into()),
            Outcome::Lost,
        ];
        let mut journal = open(dir.path());
        for (at, outcome) in outcomes.iter().enumerate() {
            let key = key(at as u64, 1, 2);
            journal.begin(&[key], 100);
            journal.spawned(key, &Born { pid: 7, at: 5..=6 });
            journal.ended(key, 200, outcome, Some("two\nlines \\n"));
        }
        journal.write();
        drop(journal);
        for _ in 0..2 {
            let found = open(dir.path()).found();
            assert!(found.iter().all(|found| found.output.as_deref() == Some("two\nlines \\n")));
            let ends: Vec<_> = found.into_iter().map(|found| found.ended).collect();
            assert_eq!(ends, outcomes.iter().map(|o| Some((200, o.clone()))).collect::<Vec<_>>());
        }
    }

    #[test]
    fn half_a_line_and_nonsense_are_left_out() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut journal = open(dir.path());
        journal.begin(&[key(1, 0, 1), key(1, 1, 1), key(2, 0, 1)], 10);
        journal.spawned(key(1, 0, 1), &Born { pid: 99, at: 3..=4 });
        journal.close(RunId::from_raw(2));
        journal.write();
        drop(journal);
        let path = dir.path().join("journal");
        let mut text = fs::read_to_string(&path).expect("read");
        text.push_str("\nnonsense\nS zz 1 1 1\nE 0000000000001 0 1 20 exited 0");
        fs::write(&path, text).expect("written");
        let journal = open(dir.path());
        assert!(journal.knows(key(1, 1, 1)) && !journal.knows(key(1, 1, 2)) && !journal.knows(key(2, 0, 1)));
        assert_eq!(journal.found().len(), 2);
        assert!(journal.found().iter().all(|found| found.ended.is_none()), "the torn end does not count");
        assert_eq!(journal.open_processes(), [Born { pid: 99, at: 3..=4 }]);
    }

    #[test]
    fn it_is_compacted_when_it_has_grown() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut journal = open(dir.path());
        let keep = key(1, 0, 1);
        journal.begin(&[keep], 1);
        let why = Outcome::NotStarted("x".repeat(4000).into());
        for run in 2..3000 {
            journal.begin(&[key(run, 0, 1)], 1);
            journal.ended(key(run, 0, 1), 2, &why, None);
            journal.close(RunId::from_raw(run));
            journal.write();
        }
        let size = fs::metadata(dir.path().join("journal")).expect("there").len();
        assert!(size < 2 * COMPACT_BYTES_MIN, "{size}");
        drop(journal);
        assert_eq!(open(dir.path()).found().len(), 1);
    }

    #[test]
    fn a_journal_has_one_owner() {
        let dir = tempfile::tempdir().expect("a directory");
        let _first = open(dir.path());
        let second = Journal::open(&dir.path().join("journal"), &dir.path().join("journal.lock"));
        assert!(matches!(second, Err(ExecError::InUse(_))));
    }
}
