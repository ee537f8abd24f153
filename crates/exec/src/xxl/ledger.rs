//! What is out at executors, in an append-only file: what was sent, what came back, what may be forgotten.
//!
//! One record per fact. `S` an attempt is ordered, `P` one of its shares, `K` it is told to stop, `H` one share is, `R` what a share came to
//! in words, `E` it has ended, `U` its order was not answered, `C` its run is closed, `N` the number of a step for executors, `F` a log number that was used. A batch of facts is
//! one write. Whoever tells an executor that its result was taken waits for the disk first: the executor forgets it then.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io;
use std::path::Path;

use cadran_core::{Dialect, JobId, Millis, Outcome, RunId, SeatRecord, SeatStatus, StepNo};

use super::table::{Entry, Halt, Share};
use crate::ExecError;
use crate::append_log::{self, AppendLog, Damage, Records, SyncPoint};
use crate::journal::{self, Key, escaped, unescaped};

pub(crate) struct Ledger {
    log: AppendLog,
    pub(crate) kept: Kept,
    /// What was wrong with the file when it was opened.
    pub(crate) damage: Option<Damage>,
}

/// What the file says.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) entries: BTreeMap<Key, Entry>,
    /// Numbers of steps that do not have their job's own.
    numbers: BTreeMap<(JobId, StepNo), u32>,
    /// The highest log number used.
    pub(crate) log_floor: u64,
    /// What the share that ends with the next record came to.
    result: Option<(Key, u32, Box<str>)>,
}

const NAME: &str = "ledger";

/// Numbers of further steps count down from here, so that they never meet the numbers of jobs.
const NUMBER_MAX: u32 = i32::MAX as u32;

impl Ledger {
    pub(crate) fn open(path: &Path) -> Result<Ledger, ExecError> {
        if let Some(dir) = path.parent() {
            cadran_files::create_dir(dir).map_err(ExecError::file("create the directory", dir))?;
        }
        cadran_files::secure_file(path)?;
        let mut kept = Kept::default();
        let damage = append_log::read(path, NAME, |record| kept.replay(record).is_some())?;
        let log = AppendLog::create(path, NAME, |records| kept.snapshot(records))?;
        Ok(Ledger { log, kept, damage })
    }

    /// An attempt is about to be ordered.
    pub(crate) fn begin(&mut self, key: Key, entry: Entry) {
        self.log.push(|out| record_begin(out, key, &entry));
        for share in &entry.shares {
            self.log.push(|out| record_share(out, key, share));
            self.kept.log_floor = self.kept.log_floor.max(share.seat.log);
        }
        self.kept.entries.insert(key, entry);
    }

    /// A share was given to somebody after all.
    pub(crate) fn place(&mut self, key: Key, share: Share) {
        self.log.push(|out| record_share(out, key, &share));
        self.kept.log_floor = self.kept.log_floor.max(share.seat.log);
        if let Some(entry) = self.kept.entries.get_mut(&key) {
            entry.shares.push(share);
        }
    }

    /// An attempt is to end. False when that was known.
    pub(crate) fn halt(&mut self, key: Key, halt: Halt) -> bool {
        let Some(entry) = self.kept.entries.get_mut(&key).filter(|entry| entry.halt.is_none()) else {
            return false;
        };
        entry.halt = Some(halt);
        self.log.push(|out| record_halt(out, key, halt));
        true
    }

    /// A share is to end, and no other. False when it is over, or that was known.
    pub(crate) fn halt_share(&mut self, key: Key, index: u32) -> bool {
        let Some(entry) = self.kept.entries.get_mut(&key).filter(|entry| entry.halt.is_none()) else {
            return false;
        };
        let open = |share: &&mut Share| share.seat.index == index && share.end.is_none() && !share.halted;
        let Some(share) = entry.shares.iter_mut().find(open) else { return false };
        share.halted = true;
        self.log.push(|out| record_halt_share(out, key, index));
        true
    }

    /// A share has ended. False when it had already.
    pub(crate) fn end(
        &mut self,
        key: Key,
        index: u32,
        at: Millis,
        outcome: Outcome,
        result: Option<&str>,
    ) -> bool {
        let Some(entry) = self.kept.entries.get_mut(&key) else { return false };
        let Some(share) = entry.shares.iter_mut().find(|share| share.seat.index == index) else {
            return false;
        };
        if !share.end(at, outcome, result) {
            return false;
        }
        record_end(key, share, |write| self.log.push(write));
        true
    }

    /// The order of a share was not answered: whether its executor has it is not known.
    pub(crate) fn unanswered(&mut self, key: Key, index: u32) {
        let Some(entry) = self.kept.entries.get(&key) else { return };
        if entry.shares.iter().any(|share| share.seat.index == index && share.is_untaken()) {
            self.log.push(|out| record_unanswered(out, key, index));
        }
    }

    /// The run may be forgotten.
    pub(crate) fn close(&mut self, run: RunId) -> Vec<Entry> {
        let gone = self.kept.forget(run);
        if !gone.is_empty() {
            self.log.push(|out| write!(out, "C {run}"));
        }
        gone
    }

    /// The number executors know a further step by; the same for good.
    pub(crate) fn number(&mut self, job: JobId, step: StepNo) -> u32 {
        let next = NUMBER_MAX - self.kept.numbers.len() as u32;
        let fresh = !self.kept.numbers.contains_key(&(job, step));
        let number = *self.kept.numbers.entry((job, step)).or_insert(next);
        if fresh {
            self.log.push(|out| write!(out, "N {} {} {number}", job.0, step.0));
        }
        number
    }

    /// One write for everything since the last one. A disk that refuses does not stop what is on: the error is logged,
    /// and the next write tries all of it again.
    pub(crate) fn write(&mut self) {
        let _ = self.write_through();
    }

    /// The same, for those who wait until it is on disk.
    pub(crate) fn write_through(&mut self) -> io::Result<SyncPoint> {
        self.log.write(|records| self.kept.snapshot(records))
    }
}

impl Kept {
    fn forget(&mut self, run: RunId) -> Vec<Entry> {
        let keys: Vec<Key> = self.entries.range(journal::keys_of(run)).map(|(key, _)| *key).collect();
        keys.iter().filter_map(|key| self.entries.remove(key)).collect()
    }

    /// All that is known, as records.
    fn snapshot(&self, records: &mut Records) {
        records.push(|out| write!(out, "F {}", self.log_floor));
        for ((job, step), number) in &self.numbers {
            records.push(|out| write!(out, "N {} {} {number}", job.0, step.0));
        }
        for (key, entry) in &self.entries {
            records.push(|out| record_begin(out, *key, entry));
            entry.shares.iter().for_each(|share| records.push(|out| record_share(out, *key, share)));
            if let Some(halt) = entry.halt {
                records.push(|out| record_halt(out, *key, halt));
            }
            for share in entry.shares.iter().filter(|share| share.halted) {
                records.push(|out| record_halt_share(out, *key, share.seat.index));
            }
            for share in entry.shares.iter().filter(|share| share.is_untaken()) {
                records.push(|out| record_unanswered(out, *key, share.seat.index));
            }
            entry.shares.iter().for_each(|share| record_end(*key, share, |write| records.push(write)));
        }
    }

    fn share(&mut self, key: Key, index: u32) -> Option<&mut Share> {
        self.entries.get_mut(&key)?.shares.iter_mut().find(|share| share.seat.index == index)
    }

    /// Takes a record in; `None` when it does not read. One about what is not known any more changes nothing.
    fn replay(&mut self, record: &str) -> Option<()> {
        let (kind, rest) = record.split_once(' ')?;
        match kind {
            "F" => {
                self.log_floor = self.log_floor.max(rest.parse().ok()?);
                return Some(());
            }
            "N" => {
                let mut words = rest.split(' ');
                let (job, step) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
                self.numbers.insert((JobId(job), StepNo(step)), words.next()?.parse().ok()?);
                return Some(());
            }
            "C" => {
                self.forget(rest.parse().ok()?);
                return Some(());
            }
            _ => {}
        }
        let mut words = rest.splitn(4, ' ');
        let run = words.next()?.parse().ok()?;
        let step = StepNo(words.next()?.parse().ok()?);
        let key = Key { run, step, attempt: words.next()?.parse().ok()? };
        let rest = words.next()?;
        match kind {
            "S" => {
                let mut words = rest.splitn(5, ' ');
                let entry = Entry {
                    at: words.next()?.parse().ok()?,
                    number: words.next()?.parse().ok()?,
                    timeout_secs: words.next()?.parse().ok()?,
                    group: words.next()?.parse().ok()?,
                    step_name: unescaped(words.next()?),
                    halt: None,
                    shares: Vec::new(),
                    is_up: true,
                    is_over: false,
                };
                self.entries.insert(key, entry);
            }
            "P" => {
                let mut words = rest.split(' ');
                let (index, total) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
                let log: u64 = words.next()?.parse().ok()?;
                let dialect = Dialect::from_word(words.next()?)?;
                let address = words.next()?.parse().ok()?;
                self.log_floor = self.log_floor.max(log);
                let Some(entry) = self.entries.get_mut(&key) else { return Some(()) };
                let status = SeatStatus::Running;
                let (attempt, at) = (key.attempt, entry.at);
                let seat = SeatRecord {
                    index,
                    total,
                    address,
                    log,
                    attempt,
                    at,
                    ended_at: None,
                    status,
                    message: None,
                    again: false,
                };
                entry.shares.push(Share::new(seat, dialect));
            }
            "H" => {
                let index: u32 = rest.parse().ok()?;
                self.share(key, index).into_iter().for_each(|share| share.halted = true);
            }
            "K" => {
                let halt = halt_of(rest)?;
                self.entries.get_mut(&key).into_iter().for_each(|entry| entry.halt = Some(halt));
            }
            "U" => {
                let index: u32 = rest.parse().ok()?;
                if let Some(share) = self.share(key, index) {
                    share.seat.status = SeatStatus::Sent;
                }
                // The first sign of it is still to come.
                if let Some(entry) = self.entries.get_mut(&key) {
                    entry.is_up = entry.shares.iter().any(|share| share.seat.status != SeatStatus::Sent);
                }
            }
            "R" => {
                let (index, text) = rest.split_once(' ')?;
                self.result = Some((key, index.parse().ok()?, unescaped(text)));
            }
            "E" => {
                let mut words = rest.splitn(3, ' ');
                let index: u32 = words.next()?.parse().ok()?;
                let at = words.next()?.parse().ok()?;
                let outcome = journal::parse_outcome(words.next()?)?;
                let result = self.result.take().filter(|(of, share, _)| (*of, *share) == (key, index));
                if let Some(share) = self.share(key, index) {
                    share.end(at, outcome, result.as_ref().map(|(.., text)| &**text));
                }
            }
            _ => return None,
        }
        Some(())
    }
}

fn record_begin(out: &mut String, key: Key, entry: &Entry) -> fmt::Result {
    let Entry { at, number, timeout_secs, group, step_name, .. } = entry;
    write!(out, "S {} {} {} {at} {number} {timeout_secs} ", key.run, key.step.0, key.attempt)?;
    // Plain pieces: what formats them takes longer than all of the rest.
    out.push_str(group.as_str());
    out.push(' ');
    if step_name.contains(['\\', '\n', '\r']) {
        out.push_str(&escaped(step_name));
    } else {
        out.push_str(step_name);
    }
    Ok(())
}

fn record_share(out: &mut String, key: Key, share: &Share) -> fmt::Result {
    let SeatRecord { index, total, address, log, .. } = &share.seat;
    let dialect = share.dialect.word();
    write!(out, "P {} {} {} {index} {total} {log} ", key.run, key.step.0, key.attempt)?;
    [dialect, " ", address.as_str()].iter().for_each(|piece| out.push_str(piece));
    Ok(())
}

fn record_unanswered(out: &mut String, key: Key, index: u32) -> fmt::Result {
    write!(out, "U {} {} {} {index}", key.run, key.step.0, key.attempt)
}

fn record_halt(out: &mut String, key: Key, halt: Halt) -> fmt::Result {
    let word = match halt {
        Halt::Stop => "stop",
        Halt::TimedOut => "timed_out",
    };
    write!(out, "K {} {} {} {word}", key.run, key.step.0, key.attempt)
}

fn record_halt_share(out: &mut String, key: Key, index: u32) -> fmt::Result {
    write!(out, "H {} {} {} {index}", key.run, key.step.0, key.attempt)
}

fn halt_of(word: &str) -> Option<Halt> {
    match word {
        "stop" => Some(Halt::Stop),
        "timed_out" => Some(Halt::TimedOut),
        _ => None,
    }
}

/// The end of a share, and before it what it came to.
fn record_end(key: Key, share: &Share, mut push: impl FnMut(&mut dyn FnMut(&mut String) -> fmt::Result)) {
    let Some((at, outcome)) = &share.end else { return };
    let index = share.seat.index;
    if let Some(result) = share.seat.message.as_ref().filter(|_| *outcome == Outcome::Exited(0)) {
        let result = escaped(result);
        push(&mut |out| write!(out, "R {} {} {} {index} {result}", key.run, key.step.0, key.attempt));
    }
    push(&mut |out| {
        write!(out, "E {} {} {} {index} {at} ", key.run, key.step.0, key.attempt)?;
        journal::write_outcome(out, outcome)
    });
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn key(run: u64) -> Key {
        Key { run: RunId::from_raw(run), step: StepNo(2), attempt: 3 }
    }

    fn entry(shares: u32) -> Entry {
        let share = |index| {
            let seat = SeatRecord {
                index,
                total: shares,
                address: format!("http://h:{}/x", index + 1).parse().expect("an address"),
                log: 70 + u64::from(index),
                attempt: 3,
                at: 5,
                ended_at: None,
                status: SeatStatus::Running,
                message: None,
                again: false,
            };
            Share::new(seat, Dialect::Three)
        };
        Entry {
            number: 9,
            group: "g".parse().expect("a name"),
            step_name: "a b\nc".into(),
            at: 5,
            timeout_secs: 7,
            halt: None,
            shares: (0..shares).map(share).collect(),
            is_up: true,
            is_over: false,
        }
    }

    #[test]
    fn what_is_out_survives_the_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("exec/ledger");
        let mut ledger = Ledger::open(&path).expect("opened");
        for run in 1..=3 {
            ledger.begin(key(run), entry(2));
        }
        assert!(ledger.end(key(1), 0, 8, Outcome::Reported(500, "no\nway".into()), None));
        assert!(!ledger.end(key(1), 0, 9, Outcome::Exited(0), None));
        assert!(ledger.halt(key(1), Halt::Stop));
        assert!(!ledger.halt(key(1), Halt::TimedOut), "the first reason counts");
        assert!(ledger.end(key(2), 0, 8, Outcome::Exited(0), Some("all\nwell")));
        assert!(ledger.end(key(2), 1, 9, Outcome::Exited(0), None));
        assert_eq!(ledger.close(RunId::from_raw(3)).len(), 1);
        ledger.begin(key(4), entry(2));
        assert!(ledger.halt_share(key(4), 1) && !ledger.halt_share(key(4), 1), "the second changes nothing");
        assert!(
            !ledger.halt_share(key(4), 7) && !ledger.halt_share(key(2), 1) && !ledger.halt_share(key(1), 1)
        );
        assert!(ledger.end(key(4), 1, 8, Outcome::Exited(0), Some("killed")));
        let mut sent = entry(1);
        (sent.shares[0].seat.status, sent.is_up) = (SeatStatus::Sent, false);
        ledger.begin(key(5), sent);
        ledger.unanswered(key(5), 0);
        let number = ledger.number(JobId(4), StepNo(1));
        assert_eq!([number, ledger.number(JobId(4), StepNo(2))], [NUMBER_MAX, NUMBER_MAX - 1]);
        ledger.write_through().expect("written").wait().expect("on disk");
        drop(ledger);
        let mut torn = fs::read_to_string(&path).expect("read");
        torn.push_str("nonsense\nE zz\nE 0000000000001 2 3 1 20 exited 0");
        fs::write(&path, torn).expect("written");
        for bad_lines in [Some(2), None] {
            let mut ledger = Ledger::open(&path).expect("opened");
            assert_eq!(ledger.damage.as_ref().map(|damage| damage.count), bad_lines);
            assert_eq!(ledger.number(JobId(4), StepNo(1)), number);
            assert_eq!(ledger.kept.log_floor, 71, "also of what was closed");
            let entries = &ledger.kept.entries;
            assert_eq!(entries.keys().copied().collect::<Vec<_>>(), [key(1), key(2), key(4), key(5)]);
            let five = &entries[&key(5)];
            assert!(five.shares[0].is_untaken() && !five.is_up, "nobody answered it");
            let (one, two, four) = (&entries[&key(1)], &entries[&key(2)], &entries[&key(4)]);
            let halted: Vec<_> = four.shares.iter().map(|share| (share.halted, share.seat.status)).collect();
            assert_eq!(halted, [(false, SeatStatus::Running), (true, SeatStatus::Stopped)]);
            assert_eq!((one.halt, one.open().count(), one.outcome()), (Some(Halt::Stop), 1, None));
            assert_eq!((&*one.step_name, one.number, one.timeout_secs), ("a b\nc", 9, 7));
            let found = two.found(key(2));
            assert_eq!((found.lives, found.ended), (false, Some((9, Outcome::Exited(0)))));
            let shares =
                found.seats.iter().map(|seat| (seat.attempt, seat.ended_at, seat.message.as_deref()));
            assert_eq!(shares.collect::<Vec<_>>(), [(3, Some(8), Some("all\nwell")), (3, Some(9), None)]);
            assert!(one.found(key(1)).lives);
            assert_eq!(one.shares[1].executor().dialect, Dialect::Three);
        }
    }

    #[test]
    fn a_ledger_of_the_version_before_is_opened() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("ledger");
        fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/0.1.0/ledger"), &path).expect("copied");
        for _ in 0..2 {
            let mut ledger = Ledger::open(&path).expect("opened");
            assert_eq!((ledger.damage.as_ref(), ledger.kept.log_floor), (None, 71));
            assert_eq!(ledger.number(JobId(4), StepNo(1)), NUMBER_MAX);
            let entries = &ledger.kept.entries;
            let open: Vec<_> =
                entries.iter().map(|(key, it)| (key.run.raw(), it.halt, it.open().count())).collect();
            assert_eq!(open, [(1, Some(Halt::Stop), 1), (2, None, 0), (4, None, 2)]);
            let messages = entries[&key(2)].shares.iter().map(|share| share.seat.message.as_deref());
            assert_eq!(messages.collect::<Vec<_>>(), [Some("all\nwell"), None]);
            assert!(entries[&key(4)].shares[1].halted && !entries[&key(4)].shares[0].halted);
        }
    }
}
