//! The executor inside the server: how it is opened, and how long a stop waits for it.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cadran_core::Found;
use cadran_exec::{ExecError, Local, LocalOptions, Sink};

use super::clock;
use crate::public_address::AllowedNet;

/// Opens the executor over the data directory. Also returned: the attempts its journal knows of.
pub async fn open(
    data: &Path,
    slots: usize,
    allow_http: &[AllowedNet],
    sink: Sink,
) -> Result<(Arc<Local>, Vec<Found>), ExecError> {
    let mut options = LocalOptions::new(data);
    options.live_max = options.live_max.max(slots);
    options.keeper = keeper_command();
    options.http_allow = allow_http.iter().map(ToString::to_string).collect();
    let (local, found) = Local::open(options, clock::wall, sink).await?;
    Ok((Arc::new(local), found))
}

/// The same program, as the watcher over the server's processes.
pub fn keeper_command() -> Option<Vec<OsString>> {
    let program = std::env::current_exe().ok()?;
    Some(vec![program.into_os_string(), "keeper".into()])
}

/// Waits until no attempt is alive, `timeout` at most.
pub async fn wait_idle(local: &Local, timeout: Duration) {
    let idle = async {
        while local.live() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let _ = tokio::time::timeout(timeout, idle).await;
}
