use std::sync::Arc;

use cadran_exec::LogDir;
use cadran_store::Store;
use tokio::sync::Semaphore;

use crate::guard::Failures;
use crate::{Server, TokenHash};

/// What the endpoints share.
#[derive(Clone)]
pub struct ApiState {
    pub(crate) server: Arc<dyn Server>,
    pub(crate) store: Store,
    pub(crate) logs: LogDir,
    pub(crate) token: TokenHash,
    pub(crate) failures: Arc<Failures>,
    pub(crate) followers: Arc<Semaphore>,
}

/// Logs followed at once: each holds a connection and an open file for as long as a run takes, so they get a part of
/// the connections and leave the rest for short requests.
pub(crate) const FOLLOWERS_MAX: usize = 128;

impl ApiState {
    /// The running server, its records, its logs, and what it keeps of its token.
    pub fn new(server: Arc<dyn Server>, store: Store, logs: LogDir, token: TokenHash) -> ApiState {
        let followers = Arc::new(Semaphore::new(FOLLOWERS_MAX));
        ApiState { server, store, logs, token, failures: Arc::new(Failures::default()), followers }
    }
}
