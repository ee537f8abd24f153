use std::fmt;
use std::str::FromStr;

use crate::Millis;

/// The number a job has in the catalog and in the store. Dense, given once per name, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u32);

impl JobId {
    /// The number as an index into tables that are dense over jobs.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The number by which executors know the job: theirs begin with 1.
    pub fn executor_number(self) -> u32 {
        self.0.saturating_add(1)
    }

    /// The job that executors know by a number.
    pub fn from_executor_number(number: u32) -> Option<JobId> {
        number.checked_sub(1).map(JobId)
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A job's name: 1 to 128 of `A–Z a–z 0–9 _ . -`, starting with a letter, a digit or `_`.
///
/// Because of the pattern a name is safe in a file name, a URL segment and a log line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobName(Box<str>);

/// Why a text is not a job name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    /// Nothing there.
    Empty,
    /// Longer than [`JobName::LEN_MAX`].
    TooLong(usize),
    /// A character that is not allowed, and how many characters stand before it.
    Character(char, usize),
}

impl JobName {
    /// The longest name, in bytes: fits a file name with room for suffixes.
    pub const LEN_MAX: usize = 128;

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for JobName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<JobName, NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.len() > JobName::LEN_MAX {
            return Err(NameError::TooLong(text.len()));
        }
        for (at, c) in text.chars().enumerate() {
            let allowed = c.is_ascii_alphanumeric() || c == '_' || (at > 0 && (c == '.' || c == '-'));
            if !allowed {
                return Err(NameError::Character(c, at));
            }
        }
        Ok(JobName(text.into()))
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::Empty => write!(f, "a job name cannot be empty"),
            NameError::TooLong(len) => {
                write!(f, "a job name has at most {} characters; this one has {len}", JobName::LEN_MAX)
            }
            NameError::Character(c, 0) if *c == '.' || *c == '-' => {
                write!(f, "a job name starts with a letter, a digit or '_', not with {c:?}")
            }
            NameError::Character(c, _) => {
                write!(f, "a job name is made of letters, digits, '_', '.' and '-'; {c:?} is not allowed")
            }
        }
    }
}

impl std::error::Error for NameError {}

/// The name of one run, unique in the store, rising with time.
///
/// 41 bits of milliseconds, 10 bits of server, 12 bits of sequence: an integer key that the store appends in
/// order. Written as 13 characters of Crockford's base 32, which sort as the numbers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(u64);

/// A text that is not a run id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunIdError;

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const TEXT_LEN: usize = 13;

impl RunId {
    /// From the number kept in a store row. The top bit is never set, so it fits a signed column.
    pub const fn from_raw(raw: u64) -> RunId {
        RunId(raw & (u64::MAX >> 1))
    }

    /// The number for a store row.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The instant it was given out at, or a little later when many were given out at once.
    pub const fn millis(self) -> Millis {
        (self.0 >> 22) as Millis + RUN_ID_EPOCH
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0u8; TEXT_LEN];
        for (at, slot) in text.iter_mut().enumerate() {
            *slot = ALPHABET[(self.0 >> (5 * (TEXT_LEN - 1 - at)) & 31) as usize];
        }
        f.pad(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl FromStr for RunId {
    type Err = RunIdError;

    fn from_str(text: &str) -> Result<RunId, RunIdError> {
        if text.len() != TEXT_LEN {
            return Err(RunIdError);
        }
        let mut raw: u64 = 0;
        for (at, byte) in text.bytes().enumerate() {
            let digit = ALPHABET.iter().position(|&known| known == byte).ok_or(RunIdError)? as u64;
            // 13 digits carry 65 bits and an id uses 63: the first digit is one of 0 to 7.
            if at == 0 && digit > 7 {
                return Err(RunIdError);
            }
            raw = raw << 5 | digit;
        }
        Ok(RunId(raw))
    }
}

impl fmt::Display for RunIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a run id is {TEXT_LEN} characters of 0-9 and a-z without i, l, o and u")
    }
}

impl std::error::Error for RunIdError {}

/// Hands out run ids, each higher than every one before it.
///
/// A burst of more ids than fit a millisecond simply runs ahead of the clock, and a clock that steps back
/// changes nothing: the sequence only rises.
#[derive(Clone, Debug)]
pub struct RunIds {
    server: u64,
    last: u64,
}

/// 2024-01-01T00:00:00Z: the start of the 69 years that 41 bits of milliseconds cover.
const RUN_ID_EPOCH: Millis = 1_704_067_200_000;

impl RunIds {
    /// Ids of server `server` (10 bits), all above `floor`, the highest id that this server or another gave before.
    pub fn new(server: u16, floor: Option<RunId>) -> RunIds {
        let server = u64::from(server) & 0x3ff;
        let floor = floor.map_or(0, RunId::raw);
        // Above an id of another server we go on with the next millisecond: its sequence is not ours.
        let last = if floor >> 12 & 0x3ff == server { floor } else { floor | 0xfff };
        RunIds { server, last }
    }

    /// The next id.
    pub fn next(&mut self, now: Millis) -> RunId {
        let millis = now.saturating_sub(RUN_ID_EPOCH).clamp(0, (1 << 41) - 1) as u64;
        let fresh = millis << 22 | self.server << 12;
        self.last = if fresh > self.last { fresh } else { self.after_last() };
        RunId(self.last)
    }

    fn after_last(&self) -> u64 {
        if self.last & 0xfff < 0xfff {
            self.last + 1
        } else {
            // The sequence is full: take the next millisecond, keeping the server bits.
            ((self.last >> 22) + 1) << 22 | self.server << 12
        }
    }
}

/// Hands out numbers for the logs of executors: whole in a double, each higher than every one before it, and never the
/// same from two servers.
///
/// 43 bits that rise with time, eight to a millisecond, then 10 bits of server. A burst of more runs ahead of the clock,
/// as run ids do. The bits last until 2058.
#[derive(Clone, Debug)]
pub struct LogNumbers {
    server: u64,
    last: u64,
}

/// Numbers in a millisecond: more than a server gives out for long.
const LOGS_PER_MS: u64 = 8;

impl LogNumbers {
    /// Executors and what lies between read numbers as doubles.
    pub const BELOW: u64 = 1 << 53;

    /// Numbers of server `server` (10 bits), all above `floor`, the highest that it may have given before.
    pub fn new(server: u16, floor: u64) -> LogNumbers {
        LogNumbers { server: u64::from(server) & 0x3ff, last: floor >> 10 }
    }

    /// The next number.
    pub fn next(&mut self, now: Millis) -> u64 {
        let millis = now.saturating_sub(RUN_ID_EPOCH).max(0) as u64;
        self.last = millis.saturating_mul(LOGS_PER_MS).max(self.last + 1).min((LogNumbers::BELOW >> 10) - 1);
        self.last << 10 | self.server
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_id_survives_its_text() {
        for raw in [0, 1, 31, 32, u64::MAX >> 1, 1 << 62, 123_456_789_012_345] {
            let id = RunId::from_raw(raw);
            assert_eq!(id.to_string().parse(), Ok(id), "{raw}");
        }
    }

    #[test]
    fn log_numbers_are_whole_in_a_double_and_never_the_same() {
        let mut one = LogNumbers::new(0, 0);
        let mut two = LogNumbers::new(1023, 0);
        let mut last = (0, 0);
        for at in 0..10_000 {
            // The clock stands, steps back, and is beyond all bits.
            let now = RUN_ID_EPOCH + [5, 3, 1 << 39][at % 3];
            let next = (one.next(now), two.next(now));
            assert!(last.0 < next.0 && last.1 < next.1, "{next:?} after {last:?}");
            assert!(next.0 < LogNumbers::BELOW && next.1 < LogNumbers::BELOW && next.0 != next.1, "{next:?}");
            assert_eq!((next.0 & 0x3ff, next.1 & 0x3ff), (0, 1023));
            last = next;
        }
        // A server that was away goes on above what it gave, also with a clock that is behind.
        assert!(LogNumbers::new(0, last.0).next(RUN_ID_EPOCH) > last.0);
        // Numbers of before, 41 bits of milliseconds and 12 of sequence, lie below.
        let now = RUN_ID_EPOCH + 90_000_000_000;
        assert!(LogNumbers::new(0, 0).next(now) > (90_000_000_000 + 60_000) << 12);
    }

    #[test]
    fn run_id_text_is_strict() {
        for text in
            ["", "0", "00000000000000", "z000000000000", "0000000000O00", "../../../../.", "00000000000é"]
        {
            assert_eq!(text.parse::<RunId>(), Err(RunIdError), "{text}");
        }
    }

    #[test]
    fn run_ids_rise_through_bursts_and_clock_steps() {
        let mut ids = RunIds::new(3, None);
        let mut last = ids.next(RUN_ID_EPOCH + 1000);
        for step in 0..20_000 {
            let now = RUN_ID_EPOCH + 1000 - if step % 3 == 0 { 500 } else { 0 };
            let id = ids.next(now);
            assert!(id > last, "{id} after {last}");
            assert_eq!(id.raw() >> 12 & 0x3ff, 3);
            last = id;
        }
    }

    #[test]
    fn ids_of_two_servers_never_meet() {
        let floor = RunIds::new(5, None).next(RUN_ID_EPOCH + 1000);
        for server in [0, 5, 9] {
            let mut ids = RunIds::new(server, Some(floor));
            for now in [RUN_ID_EPOCH, RUN_ID_EPOCH + 1000] {
                let id = ids.next(now);
                assert!(id > floor && id.raw() >> 12 & 0x3ff == u64::from(server), "server {server}: {id}");
            }
        }
    }

    #[test]
    fn job_names_are_checked() {
        let check = |text: &str, ok: bool| assert_eq!(text.parse::<JobName>().is_ok(), ok, "{text:?}");
        check("backup", true);
        check("_x.y-z9", true);
        check("", false);
        check(".hidden", false);
        check("-flag", false);
        check("a/b", false);
        check("a b", false);
        check("é", false);
        check(&"x".repeat(128), true);
        check(&"x".repeat(129), false);
    }
}
