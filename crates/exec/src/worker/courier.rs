//! What goes back to the server: logs as they grow, starts, and results once their logs are there.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::lease::poll_time;
use super::link::LinkError;
use super::wire::{Done, PIECE_BYTES_MAX, Piece, PieceTaken, Reports};
use super::work::{Session, Shared, json};
use crate::journal::Key;

/// Between two looks at the logs of what runs: whoever follows one hardly notices.
const LOG_PAUSE: Duration = Duration::from_millis(100);

/// Pieces of one log before another has its turn.
const PIECES_MAX: u32 = 8;

/// After a call that failed. Whoever asks for orders finds out what is wrong.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Nobody wants the log.
const NOT_FOUND: u16 = 404;

impl Shared {
    pub(super) async fn deliver(self: Arc<Shared>) {
        loop {
            let (session, is_on) = {
                let state = self.state();
                (state.session.clone(), !state.held.logs().is_empty())
            };
            let Some(session) = session else {
                self.to_deliver.notified().await;
                continue;
            };
            match self.deliver_once(&session).await {
                // There may be more.
                Ok(true) => {}
                Ok(false) => {
                    self.look_up_if_done();
                    let pause = if is_on { LOG_PAUSE } else { Duration::MAX };
                    let _ = timeout(pause, self.to_deliver.notified()).await;
                }
                Err(_) => sleep(RETRY_PAUSE).await,
            }
        }
    }

    /// One look at everything. True when there may be more at once.
    async fn deliver_once(&self, session: &Session) -> Result<bool, LinkError> {
        // A start is told before the first look at its log.
        let mut is_more = self.report(session).await?;
        let logs = self.state().held.logs();
        for key in logs {
            is_more |= self.send_log(session, key).await?;
        }
        is_more |= self.report(session).await?;
        Ok(is_more)
    }

    async fn report(&self, session: &Session) -> Result<bool, LinkError> {
        let (reports, draining) = {
            let state = self.state();
            (state.held.reports(), state.is_draining)
        };
        if reports.is_empty() {
            return Ok(false);
        }
        let message = Reports { from: session.from.clone(), draining, reports };
        let _: Done = self.call("reports".into(), json(&message), poll_time(session.lease)).await?;
        self.state().held.taken(&message.reports);
        Ok(true)
    }

    async fn send_log(&self, session: &Session, key: Key) -> Result<bool, LinkError> {
        for _ in 0..PIECES_MAX {
            let Some((at, is_ended)) = self.state().held.get(key).map(|item| (item.log_at, item.is_ended()))
            else {
                return Ok(false);
            };
            let to = at.saturating_add(PIECE_BYTES_MAX as u64);
            // A log that cannot be read does not hold up its result.
            let chunk = self.logs.read(key.run, key.step, key.attempt, at, to).unwrap_or_default();
            if chunk.bytes.is_empty() {
                if let Some(item) = self.state().held.get_mut(key).filter(|_| is_ended) {
                    item.is_log_whole = true;
                }
                return Ok(is_ended);
            }
            let sender = session.from.clone();
            let piece = Piece {
                worker: sender.worker,
                life: sender.life,
                server: sender.server,
                run: key.run.to_string(),
                step: key.step.0,
                attempt: key.attempt,
                at,
            };
            let verb = format!("log?{}", query(&piece));
            let taken = self.call(verb, chunk.bytes, poll_time(session.lease)).await;
            let mut state = self.state();
            let Some(item) = state.held.get_mut(key) else { return Ok(false) };
            match taken {
                Ok(PieceTaken { length }) => item.log_at = length,
                Err(LinkError::Refused(NOT_FOUND, _)) => {
                    item.is_log_whole = true;
                    return Ok(true);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// All values are of letters, digits and a few signs that stand for themselves.
fn query(piece: &Piece) -> String {
    let Piece { worker, life, server, run, step, attempt, at } = piece;
    format!("worker={worker}&life={life}&server={server}&run={run}&step={step}&attempt={attempt}&at={at}")
}
