use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use cadran_core::{RunId, RunStatus, SeatRecord, SeatStatus, StepRecord, StepStatus};
use futures::stream;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, broadcast};
use tokio::time::Instant;

use super::{log, run};
use crate::listen::Stopping;
use crate::view::share;
use crate::{ApiState, LiveEvent};

/// What someone wants to follow.
pub(super) struct Wish {
    pub(super) run: RunId,
    pub(super) step: String,
    /// The attempt to begin with.
    pub(super) attempt: u32,
    /// Which share of a broadcast.
    pub(super) share: Option<u32>,
    /// The share was named as a run of its own: its end is the end, whatever the others do.
    pub(super) is_child: bool,
    /// Nothing of later attempts.
    pub(super) only: bool,
    /// The byte to begin with.
    pub(super) from: u64,
}

/// How often a log is looked at for more: below what a person notices, far above what it costs.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How often the record is looked at, beside live events.
const RECORD_EVERY: Duration = Duration::from_secs(2);

/// After so long without output a stream of events says that it is still there.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(15);

/// The longest anyone follows: a client that vanished without a word does not hold its place for ever.
const FOLLOW_TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// Streams what a step prints until it has ended.
pub(super) fn answer(
    state: ApiState,
    wish: Wish,
    permit: OwnedSemaphorePermit,
    stopping: Option<Stopping>,
    as_events: bool,
) -> Response {
    let now = Instant::now();
    let follower = Follower {
        events: state.server.events(),
        at: wish.from,
        attempt: wish.attempt,
        state,
        wish,
        stopping,
        record: None,
        record_at: now,
        quiet_since: now,
        give_up_at: now + FOLLOW_TIME_MAX,
        over: false,
        _permit: permit,
    };
    let kind = if as_events { "text/event-stream" } else { log::PLAIN };
    let body = Body::from_stream(stream::try_unfold(follower, move |mut follower| async move {
        let said = follower.next().await?;
        let text = said.and_then(|said| if as_events { Some(said.into_event()) } else { said.into_text() });
        Ok::<_, io::Error>(text.map(|text| (text, follower)))
    }));
    ([(CONTENT_TYPE, kind)], body).into_response()
}

struct Follower {
    state: ApiState,
    wish: Wish,
    events: broadcast::Receiver<LiveEvent>,
    stopping: Option<Stopping>,
    attempt: u32,
    at: u64,
    /// What the record said last, and when that was.
    record: Option<(RunStatus, Vec<StepRecord>)>,
    record_at: Instant,
    quiet_since: Instant,
    give_up_at: Instant,
    over: bool,
    _permit: OwnedSemaphorePermit,
}

/// One thing that a follower hears.
enum Said {
    Bytes {
        attempt: u32,
        next: u64,
        bytes: Vec<u8>,
    },
    Ended(RunStatus),
    /// Nothing, but still there. Empty for a reader of text.
    Quiet,
}

impl Said {
    /// `None` ends the stream of text: it has no words for an end.
    fn into_text(self) -> Option<Bytes> {
        match self {
            Said::Bytes { bytes, .. } => Some(bytes.into()),
            Said::Quiet => Some(Bytes::new()),
            Said::Ended(_) => None,
        }
    }

    fn into_event(self) -> Bytes {
        match self {
            Said::Bytes { attempt, next, bytes } => {
                let data =
                    json!({ "attempt": attempt, "next": next, "text": String::from_utf8_lossy(&bytes) });
                format!("id: {attempt}:{next}\nevent: log\ndata: {data}\n\n").into()
            }
            Said::Ended(status) => {
                format!("event: end\ndata: {}\n\n", json!({ "status": status.word() })).into()
            }
            Said::Quiet => Bytes::from_static(b": still here\n\n"),
        }
    }
}

impl Follower {
    /// The approach: read what is there; when there is nothing more, ask the record whether the attempt is over, and
    /// if it is, read once more, since a log is complete before its end is recorded. Only then move on or end.
    async fn next(&mut self) -> io::Result<Option<Said>> {
        if self.over {
            return Ok(None);
        }
        loop {
            let was_over = self.attempt_over();
            if let Some(said) = self.read().await? {
                return Ok(Some(said));
            }
            if let Some(status) = was_over {
                if let Some(next) = self.next_attempt() {
                    (self.attempt, self.at) = (next, 0);
                    continue;
                }
                self.over = true;
                return Ok(Some(Said::Ended(status)));
            }
            if self.stopped() || Instant::now() >= self.give_up_at {
                return Ok(None);
            }
            if self.quiet_since.elapsed() >= KEEP_ALIVE_AFTER {
                self.quiet_since = Instant::now();
                return Ok(Some(Said::Quiet));
            }
            self.pause().await;
        }
    }

    async fn read(&mut self) -> io::Result<Option<Said>> {
        let (is_over, steps) = match &self.record {
            Some((status, steps)) => (status.is_ended(), &**steps),
            None => (false, &[][..]),
        };
        self.state.server.refresh_logs(self.wish.run, steps, is_over).await;
        let files = log::files(&self.state.logs, self.wish.run)
            .await
            .map_err(|_| io::Error::other("unreadable log"))?;
        let steps = self.record.as_ref().map(|(_, steps)| &**steps).unwrap_or_default();
        let Some(no) = log::step_no(&self.wish.step, steps, &files) else { return Ok(None) };
        let to = self.at.saturating_add(log::PIECE_BYTES_MAX);
        let at = (no, self.attempt, self.wish.share);
        let chunk = log::read_chunk(self.state.logs.clone(), self.wish.run, at, self.at, to).await?;
        if chunk.bytes.is_empty() {
            return Ok(None);
        }
        self.at = chunk.next();
        self.quiet_since = Instant::now();
        Ok(Some(Said::Bytes { attempt: self.attempt, next: self.at, bytes: chunk.bytes }))
    }

    /// The run's status when the record says that nothing more is printed by this attempt.
    fn attempt_over(&self) -> Option<RunStatus> {
        let (status, steps) = self.record.as_ref()?;
        if let Some(seat) = self.seat(steps)
            && !status.is_ended()
        {
            let over = seat.attempt > self.attempt
                || seat.attempt == self.attempt && (seat.status.is_ended() || seat.again);
            return over.then_some(share::status(*status, seat));
        }
        let over = status.is_ended()
            || self.step(steps).is_some_and(|step| {
                step.attempt > self.attempt
                    || step.attempt == self.attempt
                        && (step.status.is_ended() || step.status == StepStatus::Retrying)
            });
        over.then_some(*status)
    }

    /// The attempt to go on with after this one. While a step waits for its next try that is one it has not made yet.
    fn next_attempt(&self) -> Option<u32> {
        let (status, steps) = self.record.as_ref()?;
        let step = self.step(steps)?;
        if let Some(seat) = self.seat(steps) {
            let for_good = matches!(seat.status, SeatStatus::Succeeded | SeatStatus::Stopped);
            let may_come = !status.is_ended() && (seat.again || !for_good && !step.status.is_ended());
            let more = seat.attempt > self.attempt || seat.status.is_ended() && may_come;
            return (more && !self.wish.only).then_some(self.attempt + 1);
        }
        let more = step.attempt > self.attempt || (step.status == StepStatus::Retrying && !status.is_ended());
        (more && !self.wish.only).then_some(self.attempt + 1)
    }

    fn step<'a>(&self, steps: &'a [StepRecord]) -> Option<&'a StepRecord> {
        let by_name = steps.iter().find(|step| *step.name == *self.wish.step);
        by_name.or_else(|| steps.get(self.wish.step.parse::<usize>().ok()?))
    }

    /// The share, when it is followed as a run of its own.
    fn seat<'a>(&self, steps: &'a [StepRecord]) -> Option<&'a SeatRecord> {
        let share = self.wish.share.filter(|_| self.wish.is_child)?;
        self.step(steps)?.seats.iter().find(|seat| seat.index == share)
    }

    fn stopped(&self) -> bool {
        self.stopping.as_ref().is_some_and(Stopping::is_stopping)
    }

    /// Waits a little, or for an event of the run; then reads the record anew when it may have changed.
    async fn pause(&mut self) {
        let stopping = async {
            match &mut self.stopping {
                Some(stopping) => stopping.stopped().await,
                None => std::future::pending().await,
            }
        };
        let heard = tokio::select! {
            () = run::changed(&mut self.events, self.wish.run) => true,
            () = stopping => return,
            () = tokio::time::sleep(LOOK_EVERY) => false,
        };
        if heard || self.record.is_none() || self.record_at.elapsed() >= RECORD_EVERY {
            self.record_at = Instant::now();
            match run::find(&self.state, self.wish.run).await {
                Ok(found) => {
                    let state = found.record.state;
                    self.record = Some((state.status, state.steps.unwrap_or_default()));
                }
                // Not readable now: the next look may be luckier, and the longest time bounds the looking.
                Err(_) => {
                    tracing::debug!(run = %self.wish.run, "the record of a followed run could not be read")
                }
            }
        }
    }
}
