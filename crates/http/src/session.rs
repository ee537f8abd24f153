//! Sessions of browsers: who may open one, how long it lasts, what it may do.
//!
//! A browser can keep no token safely, so it holds a random id in a cookie that scripts cannot read. The server keeps the
//! hash of that id. A session starts with a code that works once and for a minute, or with the token itself.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use cadran_core::Millis;
use serde::{Deserialize, Serialize};

use crate::{Token, TokenHash};

/// What a request may do. Decided in one place, [`crate::access`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Look and change.
    Full,
    /// Look.
    ReadOnly,
}

/// A code is typed or clicked at once.
pub(crate) const CODE_TIME_MAX: Millis = 60_000;

/// A session nobody uses for half a day ends; every session ends after a week.
pub(crate) const IDLE_TIME_MAX: Millis = 12 * 3_600_000;
/// See [`IDLE_TIME_MAX`].
pub(crate) const SESSION_TIME_MAX: Millis = 7 * 24 * 3_600_000;

/// Sessions and open codes kept at once. The one used longest ago makes room.
const SESSIONS_MAX: usize = 256;
const CODES_MAX: usize = 64;

/// A session file holds [`SESSIONS_MAX`] short lines; a larger file is some other file.
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// Every open session and code.
#[derive(Default)]
pub struct Sessions {
    table: Mutex<Table>,
    /// Where sessions survive a restart of the server. Codes do not.
    path: Option<PathBuf>,
}

#[derive(Default)]
struct Table {
    sessions: Vec<Session>,
    codes: Vec<Code>,
}

/// One session, without its secret.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Session {
    /// For people and for the API: names the session and opens nothing.
    pub(crate) name: String,
    /// The hash of the id in the cookie, in hexadecimal.
    hash: String,
    pub(crate) read_only: bool,
    pub(crate) since: Millis,
    pub(crate) used: Millis,
    /// What the browser calls itself.
    pub(crate) agent: String,
}

struct Code {
    hash: TokenHash,
    read_only: bool,
    until: Millis,
}

impl Session {
    pub(crate) fn rights(&self) -> Rights {
        if self.read_only { Rights::ReadOnly } else { Rights::Full }
    }

    fn is_over(&self, now: Millis) -> bool {
        now.saturating_sub(self.used) > IDLE_TIME_MAX || now.saturating_sub(self.since) > SESSION_TIME_MAX
    }
}

impl Sessions {
    /// The sessions kept in `path`, and none when there is no such file or it is damaged: then people sign in again.
    pub fn open(path: &Path) -> Sessions {
        let sessions = match read_file(path) {
            Ok(sessions) => sessions,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "the kept sessions cannot be read; browsers sign in again");
                Vec::new()
            }
        };
        Sessions { table: Mutex::new(Table { sessions, codes: Vec::new() }), path: Some(path.to_owned()) }
    }

    /// A code that opens one session within [`CODE_TIME_MAX`]. `None` when the system gives no random bytes.
    pub(crate) fn make_code(&self, read_only: bool, now: Millis) -> Option<Token> {
        let code = Token::random()?;
        let mut table = self.lock();
        table.codes.retain(|code| code.until >= now);
        if table.codes.len() >= CODES_MAX {
            table.codes.remove(0);
        }
        table.codes.push(Code { hash: code.hash(), read_only, until: now.saturating_add(CODE_TIME_MAX) });
        Some(code)
    }

    /// Takes a code: what a session made by it may do, or `None` when it is unknown, used or too old.
    pub(crate) fn take_code(&self, given: &str, now: Millis) -> Option<Rights> {
        let mut table = self.lock();
        let at = table.codes.iter().position(|code| code.hash.matches(given.as_bytes()))?;
        let code = table.codes.remove(at);
        let rights = if code.read_only { Rights::ReadOnly } else { Rights::Full };
        (code.until >= now).then_some(rights)
    }

    /// Opens a session; the token is what the cookie holds. `None` when the system gives no random bytes.
    pub(crate) fn start(&self, rights: Rights, agent: &str, now: Millis) -> Option<Token> {
        let (id, name) = (Token::random()?, Token::random()?);
        let session = Session {
            name: name.as_str()[..12].to_owned(),
            hash: hash_text(id.as_str()),
            read_only: rights == Rights::ReadOnly,
            since: now,
            used: now,
            agent: agent.chars().filter(|letter| !letter.is_control()).take(200).collect(),
        };
        let mut table = self.lock();
        table.sessions.retain(|session| !session.is_over(now));
        if table.sessions.len() >= SESSIONS_MAX {
            let oldest = table.sessions.iter().enumerate().min_by_key(|(_, session)| session.used);
            if let Some((at, _)) = oldest {
                table.sessions.remove(at);
            }
        }
        table.sessions.push(session);
        self.keep(&table);
        Some(id)
    }

    /// The session of a cookie, now in use.
    pub(crate) fn find(&self, id: &str, now: Millis) -> Option<Session> {
        let hash = hash_text(id);
        let mut table = self.lock();
        let session = table.sessions.iter_mut().find(|session| session.hash == hash)?;
        if session.is_over(now) {
            return None;
        }
        session.used = now.max(session.used);
        Some(session.clone())
    }

    /// Open sessions, the newest first.
    pub(crate) fn list(&self, now: Millis) -> Vec<Session> {
        let table = self.lock();
        table.sessions.iter().rev().filter(|session| !session.is_over(now)).cloned().collect()
    }

    /// Ends a session by its name. Whether there was one.
    pub(crate) fn end(&self, name: &str) -> bool {
        let mut table = self.lock();
        let before = table.sessions.len();
        table.sessions.retain(|session| session.name != name);
        let is_ended = table.sessions.len() < before;
        if is_ended {
            self.keep(&table);
        }
        is_ended
    }

    /// Writes the sessions beside their place and moves them in. A failure costs a sign-in after a restart, no more.
    fn keep(&self, table: &Table) {
        let Some(path) = &self.path else { return };
        if let Err(error) = write_file(path, &table.sessions) {
            tracing::warn!(%error, path = %path.display(), "sessions cannot be kept; they end with the server");
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looking for a hash by comparing text tells an attacker nothing about the id behind it.
fn hash_text(id: &str) -> String {
    blake3::hash(id.as_bytes()).to_hex().to_string()
}

fn read_file(path: &Path) -> io::Result<Vec<Session>> {
    let mut text = String::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    serde_json::from_str(&text).map_err(io::Error::other)
}

fn write_file(path: &Path, sessions: &[Session]) -> io::Result<()> {
    let half = path.with_extension("new");
    let _ = std::fs::remove_file(&half);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&half)?;
    file.write_all(serde_json::to_string(sessions)?.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&half, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_works_once_and_for_a_minute() {
        let sessions = Sessions::default();
        let code = sessions.make_code(false, 1_000).unwrap();
        assert_eq!(sessions.take_code("0000", 1_000), None);
        assert_eq!(sessions.take_code(code.as_str(), 1_000 + CODE_TIME_MAX), Some(Rights::Full));
        assert_eq!(sessions.take_code(code.as_str(), 1_001), None, "a second use is refused");
        let late = sessions.make_code(true, 1_000).unwrap();
        assert_eq!(sessions.take_code(late.as_str(), 1_001 + CODE_TIME_MAX), None);
        let reader = sessions.make_code(true, 1_000).unwrap();
        assert_eq!(sessions.take_code(reader.as_str(), 1_000), Some(Rights::ReadOnly));
    }

    #[test]
    fn a_session_ends_when_idle_and_after_a_week() {
        let sessions = Sessions::default();
        let id = sessions.start(Rights::Full, "browser", 0).unwrap();
        let mut now = 0;
        while now + IDLE_TIME_MAX <= SESSION_TIME_MAX {
            now += IDLE_TIME_MAX;
            assert!(sessions.find(id.as_str(), now).is_some(), "{now}");
        }
        assert!(sessions.find(id.as_str(), SESSION_TIME_MAX + 1).is_none());
        let idle = sessions.start(Rights::Full, "browser", 0).unwrap();
        assert!(sessions.find(idle.as_str(), IDLE_TIME_MAX + 1).is_none());
    }

    #[test]
    fn sessions_survive_a_restart_and_their_end_does_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sessions.json");
        let sessions = Sessions::open(&path);
        let first = sessions.start(Rights::ReadOnly, "a\nb", 5).unwrap();
        let second = sessions.start(Rights::Full, "c", 6).unwrap();
        let name = sessions.find(second.as_str(), 6).unwrap().name;
        assert!(sessions.end(&name) && !sessions.end(&name));
        let again = Sessions::open(&path);
        let found = again.find(first.as_str(), 7).unwrap();
        assert_eq!((found.rights(), &*found.agent), (Rights::ReadOnly, "ab"));
        assert!(again.find(second.as_str(), 7).is_none());
        assert!(!std::fs::read_to_string(&path).unwrap().contains(first.as_str()), "no secret is written");
        std::fs::write(&path, "rubbish").unwrap();
        assert!(Sessions::open(&path).find(first.as_str(), 7).is_none());
    }

    #[test]
    fn the_table_is_bounded() {
        let sessions = Sessions::default();
        for now in 0..SESSIONS_MAX as Millis * 2 {
            sessions.start(Rights::Full, "", now).unwrap();
            sessions.make_code(false, now).unwrap();
        }
        let table = sessions.lock();
        assert_eq!((table.sessions.len(), table.codes.len()), (SESSIONS_MAX, CODES_MAX));
    }
}
