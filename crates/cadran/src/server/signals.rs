//! Signals that ask the process to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// How a stop was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGTERM, as supervisors send it.
    Terminate,
    /// SIGINT, as Ctrl-C on a terminal sends it.
    Interrupt,
}

/// Requests to stop: SIGTERM, and the interrupt of a terminal.
pub struct StopSignals {
    term: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// From here on these signals no longer end the process: they are requests to stop in good order.
    pub fn listen() -> std::io::Result<StopSignals> {
        Ok(StopSignals {
            term: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) -> StopSignal {
        tokio::select! {
            _ = self.term.recv() => StopSignal::Terminate,
            _ = self.interrupt.recv() => StopSignal::Interrupt,
        }
    }
}
