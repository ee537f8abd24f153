//! The executor of this machine: how it is found or started, and how long a stop waits for it.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cadran_core::Found;
use cadran_exec::{Embedded, EmbeddedOptions, ExecError, Sink};

use super::clock;
use crate::public_address::AllowedNet;

/// The program that is running, also when its file was replaced by a newer one meanwhile.
const PROGRAM: &str = "/proc/self/exe";

/// Finds or starts the executor of the data directory. Also returned: the attempts it knows of.
pub async fn open(
    data: &Path,
    slots: usize,
    allow_http: &[AllowedNet],
    sink: Sink,
) -> Result<(Arc<Embedded>, Vec<Found>), ExecError> {
    // The executor works in the data directory, and a relative path would mean another place there.
    let whole = std::fs::canonicalize(data).unwrap_or_else(|_| data.to_owned());
    let args = ["executor".into(), "run".into(), "--data".into(), whole.into_os_string()];
    let mut options = EmbeddedOptions::new(data, PROGRAM.into(), args.into());
    options.live_max = options.live_max.max(slots);
    options.http_allow = allow_http.iter().map(ToString::to_string).collect();
    let (embedded, found) = Embedded::open(options, clock::wall, sink).await?;
    // The executor's own log is a file beside its socket, which nobody reads every day.
    if let Some(damage) = embedded.damage() {
        tracing::warn!("{damage}");
    }
    Ok((Arc::new(embedded), found))
}

/// The same program, as the watcher over the processes of a run in the foreground or of a worker.
pub fn keeper_command() -> Option<Vec<OsString>> {
    let program = std::env::current_exe().ok()?;
    Some(vec![program.into_os_string(), "keeper".into()])
}

/// Waits until no attempt is on, `timeout` at most.
pub async fn wait_idle(executor: &Embedded, timeout: Duration) {
    let idle = async {
        while executor.live() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let _ = tokio::time::timeout(timeout, idle).await;
}
