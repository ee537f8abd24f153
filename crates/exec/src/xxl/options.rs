use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use cadran_core::GroupName;

/// How [`crate::Remote`] works.
#[derive(Clone, Debug)]
pub struct RemoteOptions {
    /// The file that outlives the server: what was sent out and what came back.
    pub ledger: PathBuf,
    /// Directory of the log files.
    pub logs: PathBuf,
    /// How long one call to an executor may take, from connecting to the answer's last byte.
    pub call_time_max: Duration,
    /// Calls that take longer than this are slow.
    pub slow_after: Duration,
    /// Orders sent at once in the fast lane, and how many wait there.
    pub fast: (usize, usize),
    /// Orders sent at once in the slow lane, and how many wait there.
    pub slow: (usize, usize),
    /// How often executors are asked whether a job that should be on is on.
    pub look_every: Duration,
    /// How long an executor may say that a job is idle which should be on there, when it was seen to know better.
    pub idle_time_max: Duration,
    /// The same for one that never said that any job is busy: some always say idle.
    pub doubtful_time_max: Duration,
    /// How long an executor may not be reached while it should be running something.
    pub silent_time_max: Duration,
    /// How long after an executor's own time limit the run is ended from here.
    pub timeout_margin: Duration,
    /// Largest log file of one attempt.
    pub log_bytes_max: u64,
}

impl RemoteOptions {
    /// The defaults, with everything below one data directory.
    pub fn new(data: impl AsRef<Path>) -> RemoteOptions {
        let data = data.as_ref();
        RemoteOptions {
            ledger: data.join("exec").join("ledger"),
            logs: data.join("logs"),
            call_time_max: Duration::from_secs(3),
            slow_after: Duration::from_millis(500),
            // The 200 of XXL-JOB are threads. Here an order on its way is an open connection, and a second's burst leaves
            // without waiting for the first of its answers.
            fast: (1_000, 2_000),
            slow: (100, 5000),
            look_every: Duration::from_secs(10),
            // An executor that could not deliver a result tries again after half a minute.
            idle_time_max: Duration::from_secs(45),
            doubtful_time_max: Duration::from_secs(600),
            // As long as the roster believes in an executor that says nothing.
            silent_time_max: Duration::from_secs(90),
            timeout_margin: Duration::from_secs(10),
            log_bytes_max: 10 << 20,
        }
    }
}

/// The secrets shared with executors: one for all, and others for single groups. Everybody who asks shares them, so that
/// they can be replaced while the server runs.
#[derive(Default)]
pub struct Tokens(RwLock<TokenTable>);

#[derive(Default)]
struct TokenTable {
    all: Option<Arc<str>>,
    groups: BTreeMap<GroupName, Arc<str>>,
}

/// A token that everybody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownToken;

/// The token that XXL-JOB ships with.
const SHIPPED: &str = "default_token";

impl Tokens {
    /// Sets the token for groups that have none of their own.
    pub fn set_all(&self, token: &str) -> Result<(), KnownToken> {
        self.write().all = Some(checked(token)?);
        Ok(())
    }

    /// Sets the token of one group.
    pub fn set(&self, group: GroupName, token: &str) -> Result<(), KnownToken> {
        self.write().groups.insert(group, checked(token)?);
        Ok(())
    }

    /// Takes the tokens of `others` in place of these.
    pub fn replace(&self, others: Tokens) {
        *self.write() = others.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    }

    /// The token for a group.
    pub fn of(&self, group: &GroupName) -> Option<Arc<str>> {
        let table = self.read();
        table.groups.get(group).or(table.all.as_ref()).cloned()
    }

    /// Whether any of them is what is asked for. All are looked at, so that the time tells nothing.
    pub fn any(&self, is_it: impl Fn(&str) -> bool) -> bool {
        let table = self.read();
        table.groups.values().chain(&table.all).fold(false, |found, token| is_it(token) | found)
    }

    /// Whether there is none: then nobody may call, and nobody is called.
    pub fn is_empty(&self) -> bool {
        let table = self.read();
        table.all.is_none() && table.groups.is_empty()
    }

    fn read(&self) -> RwLockReadGuard<'_, TokenTable> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, TokenTable> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn checked(token: &str) -> Result<Arc<str>, KnownToken> {
    let token = token.trim();
    let plain = token.bytes().all(|byte| byte.is_ascii_graphic());
    if token.is_empty() || token == SHIPPED || !plain { Err(KnownToken) } else { Ok(token.into()) }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens(…, {} groups)", self.read().groups.len())
    }
}

impl fmt::Display for KnownToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the token for executors is empty, holds blanks, or is the one XXL-JOB ships with, which everybody knows; \
             choose a long random one"
        )
    }
}

impl std::error::Error for KnownToken {}
