use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs::{File, TryLockError};
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use cadran_core::{Found, Millis, Outcome, RunId, StepNo};

use crate::ExecError;
use crate::append_log::{self, AppendLog, Damage, Records};
use crate::procfs::Born;

/// Names one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) run: RunId,
    pub(crate) step: StepNo,
    pub(crate) attempt: u32,
}

/// Attempts of one step of a run. A worker that has several shares of one attempt, one after another, knows the further
/// ones by numbers above this: see `order_wire::Named`.
pub(crate) const ATTEMPTS_MAX: u32 = 1 << 20;

/// What this executor has started and not yet been allowed to forget, in memory and in an append-only file.
///
/// One record per fact: `S` an attempt is about to start, `P` its process, `O` its output, `E` its end, `C` its run is closed. A batch
/// of facts is one write. Nobody waits for the disk: the file serves after the death of the server, and after the death
/// of the machine there are no processes to look for.
#[derive(Debug)]
pub(crate) struct Journal {
    log: AppendLog,
    entries: BTreeMap<Key, Entry>,
    damage: Option<Damage>,
    /// Held as long as the journal is open: one executor per journal.
    lock: File,
}

#[derive(Clone, Debug)]
struct Entry {
    started_at: Millis,
    /// Its executor ended before it did: it has no process any more, and no end will come.
    is_cut_off: bool,
    born: Option<Born>,
    ended: Option<(Millis, Outcome)>,
    output: Option<Box<str>>,
}

impl Entry {
    fn new(started_at: Millis) -> Entry {
        Entry { started_at, is_cut_off: false, born: None, ended: None, output: None }
    }
}

const NAME: &str = "journal";

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
            cadran_files::secure_tree(dir)?;
            cadran_files::create_dir(dir).map_err(ExecError::file("create the directory", dir))?;
        }
        let lock_file = cadran_files::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(lock)
            .map_err(ExecError::file("open the lock file", lock))?;
        take_lock(&lock_file, lock)?;
        let mut entries = BTreeMap::new();
        let damage = append_log::read(path, NAME, |record| replay(record, &mut entries).is_some())?;
        entries.values_mut().for_each(|entry| entry.is_cut_off = entry.ended.is_none());
        let log = AppendLog::create(path, NAME, |records| snapshot(&entries, records))?;
        Ok(Journal { log, entries, damage, lock: lock_file })
    }

    /// What was wrong with the file when it was opened.
    pub(crate) fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
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
            lives: entry.ended.is_none() && !entry.is_cut_off,
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
            self.log.push(|out| record_begin(out, *key, at));
            self.entries.insert(*key, Entry::new(at));
        }
        self.write();
    }

    /// Its process is up. Written with the next [`Journal::write`].
    pub(crate) fn spawned(&mut self, key: Key, born: &Born) {
        self.log.push(|out| record_spawned(out, key, born));
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.born = Some(born.clone());
        }
    }

    /// It is over. Written with the next [`Journal::write`].
    pub(crate) fn ended(&mut self, key: Key, at: Millis, outcome: &Outcome, output: Option<&str>) {
        if let Some(output) = output {
            self.log.push(|out| record_output(out, key, output));
        }
        self.log.push(|out| record_ended(out, key, at, outcome));
        if let Some(entry) = self.entries.get_mut(&key) {
            (entry.ended, entry.output) = (Some((at, outcome.clone())), output.map(Into::into));
        }
    }

    /// The run may be forgotten. Written with the next [`Journal::write`].
    pub(crate) fn close(&mut self, run: RunId) {
        if forget(&mut self.entries, run) {
            self.log.push(|out| write!(out, "C {run}"));
        }
    }

    /// One write for everything since the last one.
    pub(crate) fn write(&mut self) {
        // The attempts go on without it: only a crash would leave a question open then.
        let _ = self.log.write(|records| snapshot(&self.entries, records));
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

/// All that is known, as records.
fn snapshot(entries: &BTreeMap<Key, Entry>, records: &mut Records) {
    for (key, entry) in entries {
        records.push(|out| record_begin(out, *key, entry.started_at));
        if let Some(born) = &entry.born {
            records.push(|out| record_spawned(out, *key, born));
        }
        if let Some(output) = &entry.output {
            records.push(|out| record_output(out, *key, output));
        }
        if let Some((at, outcome)) = &entry.ended {
            records.push(|out| record_ended(out, *key, *at, outcome));
        }
    }
}

fn record_begin(out: &mut String, key: Key, at: Millis) -> fmt::Result {
    write!(out, "S {} {} {} {at}", key.run, key.step.0, key.attempt)
}

fn record_spawned(out: &mut String, key: Key, born: &Born) -> fmt::Result {
    let (first, last) = (born.at.start(), born.at.end());
    write!(out, "P {} {} {} {} {first} {last}", key.run, key.step.0, key.attempt, born.pid)
}

/// Before the record of the end, so that an end that can be read has its output.
fn record_output(out: &mut String, key: Key, output: &str) -> fmt::Result {
    write!(out, "O {} {} {} 0 {}", key.run, key.step.0, key.attempt, escaped(output))
}

fn record_ended(out: &mut String, key: Key, at: Millis, outcome: &Outcome) -> fmt::Result {
    write!(out, "E {} {} {} {at} ", key.run, key.step.0, key.attempt)?;
    write_outcome(out, outcome)
}

pub(crate) fn write_outcome(out: &mut String, outcome: &Outcome) -> fmt::Result {
    match outcome {
        Outcome::Exited(code) => write!(out, "exited {code}"),
        Outcome::Signaled(signal) => write!(out, "signaled {signal}"),
        Outcome::TimedOut => write!(out, "timed_out"),
        Outcome::Stopped => write!(out, "stopped"),
        Outcome::PreconditionUnmet(why) => write!(out, "precondition {}", escaped(why)),
        Outcome::JobPreconditionUnmet(why) => write!(out, "job_precondition {}", escaped(why)),
        Outcome::NotStarted(why) => write!(out, "not_started {}", escaped(why)),
        Outcome::Reported(code, why) => write!(out, "reported {code} {}", escaped(why)),
        Outcome::Halted(why) => write!(out, "halted {}", escaped(why)),
        Outcome::Lost => write!(out, "lost"),
    }
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

/// Takes a record in; `None` when it does not read. One about an attempt that is not known any more changes nothing.
fn replay(record: &str, entries: &mut BTreeMap<Key, Entry>) -> Option<()> {
    let mut words = record.splitn(6, ' ');
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
    let entry = entries.get_mut(&key);
    match kind {
        "S" => drop(entries.insert(key, Entry::new(number.parse().ok()?))),
        "P" => {
            let (first, last) = rest.split_once(' ')?;
            let at = first.parse().ok()?..=last.parse().ok()?;
            let born = Born { pid: number.parse().ok()?, at };
            entry.into_iter().for_each(|entry| entry.born = Some(born.clone()));
        }
        "E" => {
            let ended = (number.parse().ok()?, parse_outcome(rest)?);
            entry.into_iter().for_each(|entry| entry.ended = Some(ended.clone()));
        }
        "O" => entry.into_iter().for_each(|entry| entry.output = Some(unescaped(rest))),
        _ => return None,
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
    use std::fs;

    use super::*;
    use crate::append_log::COMPACT_BYTES_MIN;

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
    fn half_a_line_is_left_out_and_nonsense_reported() {
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
        let damage = journal.damage().expect("reported");
        assert_eq!((damage.line, damage.count), (7, 3), "an empty line, and two that do not read");
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

    #[test]
    fn a_journal_of_the_version_before_is_opened() {
        let dir = tempfile::tempdir().expect("a directory");
        let before = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/0.1.0/journal");
        fs::copy(before, dir.path().join("journal")).expect("copied");
        for _ in 0..2 {
            let journal = open(dir.path());
            assert_eq!(journal.damage(), None);
            let found: Vec<_> =
                journal.found().into_iter().map(|it| (it.run.raw(), it.ended, it.output)).collect();
            let reported = (1_700_000_001_000, Outcome::Reported(500, "no\nway".into()));
            let exited = (1_700_000_002_000, Outcome::Exited(3));
            let lines = Some("two\nlines".into());
            assert_eq!(found, [(1, None, None), (1, Some(reported), lines), (3, Some(exited), None)]);
            assert_eq!(journal.open_processes(), [Born { pid: 999_999_999, at: 3..=4 }]);
        }
    }
}
