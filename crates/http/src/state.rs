use std::sync::Arc;

use cadran_exec::LogDir;
use cadran_store::Store;
use tokio::sync::Semaphore;

use crate::guard::Failures;
use crate::lines::LineIndexes;
use crate::{Server, Sessions, TokenHash};

/// What the endpoints share.
#[derive(Clone)]
pub struct ApiState {
    pub(crate) server: Arc<dyn Server>,
    pub(crate) store: Store,
    pub(crate) logs: LogDir,
    pub(crate) token: TokenHash,
    pub(crate) failures: Arc<Failures>,
    pub(crate) followers: Arc<Semaphore>,
    pub(crate) watchers: Arc<Semaphore>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) hosts: Arc<[String]>,
    pub(crate) line_indexes: Arc<LineIndexes>,
}

/// Logs followed at once: each holds a connection and an open file for as long as a run takes, so they get a part of
/// the connections and leave the rest for short requests.
pub(crate) const FOLLOWERS_MAX: usize = 128;

/// Streams of live events at once: one for each visible tab.
pub(crate) const WATCHERS_MAX: usize = 64;

impl ApiState {
    /// The running server, its records, its logs, and what it keeps of its token.
    pub fn new(server: Arc<dyn Server>, store: Store, logs: LogDir, token: TokenHash) -> ApiState {
        ApiState {
            server,
            store,
            logs,
            token,
            failures: Arc::new(Failures::default()),
            followers: Arc::new(Semaphore::new(FOLLOWERS_MAX)),
            watchers: Arc::new(Semaphore::new(WATCHERS_MAX)),
            sessions: Arc::default(),
            hosts: Arc::default(),
            line_indexes: Arc::default(),
        }
    }

    /// With sessions that survive a restart, and names by which browsers may call this server beside its address.
    pub fn with_sessions(mut self, sessions: Sessions, hosts: Vec<String>) -> ApiState {
        (self.sessions, self.hosts) = (Arc::new(sessions), hosts.into());
        self
    }
}
