//! One server at a time on one record.
//!
//! Two would each take up what the other has on, and start it again. So a server claims its record first, and holds the
//! claim as long as it lives: a lock on a file beside SQLite's, a lock of a session of its own in PostgreSQL. Neither
//! outlives the process, whatever ends it.

use std::fs::File;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The record is this server's while this lives.
#[derive(Debug)]
pub struct Claim {
    hold: Hold,
}

#[derive(Debug)]
pub(crate) enum Hold {
    /// Nobody else can have it.
    Memory,
    /// A lock that goes with the file.
    File(#[allow(dead_code, reason = "held, not read")] File),
    /// A task that keeps a session, and who took the record when that was lost.
    Session { lost: watch::Receiver<Option<String>>, keeping: JoinHandle<()> },
}

/// Between two tries to get a claim.
pub(crate) const TRY_PAUSE: Duration = Duration::from_millis(50);

/// Tries while somebody else has it, two seconds in all: a server that was killed leaves its claim for a moment.
pub(crate) const TRIES_MAX: u32 = 40;

impl Claim {
    pub(crate) fn new(hold: Hold) -> Claim {
        Claim { hold }
    }

    /// Waits until another server has the record, and says which. Then this one must not go on.
    pub async fn lost(&mut self) -> String {
        if let Hold::Session { lost, .. } = &mut self.hold
            && let Ok(holder) = lost.wait_for(Option::is_some).await
        {
            return holder.clone().unwrap_or_default();
        }
        std::future::pending().await
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // The session ends with its task, and the lock with the session.
        if let Hold::Session { keeping, .. } = &self.hold {
            keeping.abort();
        }
    }
}
