//! What a supervisor of systemd's kind is told: ready, reloading, stopping, and that the loop turns.
//!
//! The protocol is a datagram of `NAME=VALUE` lines to the socket that `NOTIFY_SOCKET` names (sd_notify(3)).

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use super::health::HealthMonitor;

/// The supervisor, when there is one.
#[derive(Debug)]
pub struct Supervisor {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl Supervisor {
    /// The one that the environment names. Without one, nothing is said to anybody.
    pub fn from_env() -> Supervisor {
        let socket = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()).and_then(|name| {
            let connected = address(&name).and_then(|address| Ok((UnixDatagram::unbound()?, address)));
            connected.inspect_err(|error| tracing::warn!(%error, "NOTIFY_SOCKET cannot be used")).ok()
        });
        let for_us = std::env::var("WATCHDOG_PID").map_or(true, |pid| pid == std::process::id().to_string());
        let limit = std::env::var("WATCHDOG_USEC").ok().and_then(|text| text.parse().ok());
        let watchdog = limit.filter(|&limit| limit > 0 && for_us).map(Duration::from_micros);
        Supervisor { socket, watchdog }
    }

    /// Says something. A supervisor that does not listen changes nothing.
    pub fn say(&self, state: &str) {
        if let Some((socket, address)) = &self.socket {
            let _ = socket.send_to_addr(state.as_bytes(), address);
        }
    }

    /// Feeds the watchdog, twice in its time, as long as the loop turns. Never returns when there is one to be fed.
    pub async fn feed_watchdog(&self, health: &HealthMonitor) {
        let Some(limit) = self.watchdog.filter(|_| self.socket.is_some()) else { return };
        loop {
            if health.loop_age() < limit {
                self.say("WATCHDOG=1");
            }
            tokio::time::sleep(limit / 2).await;
        }
    }
}

/// A path, or with `@` in front a name in the abstract namespace.
fn address(name: &OsStr) -> std::io::Result<SocketAddr> {
    match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(name),
    }
}
