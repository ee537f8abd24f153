//! What came of an order: taken or refused, a result, an end. The first end of a share counts.

use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use cadran_core::{Address, Outcome, ReportKind, SeatStatus};

use super::client::{CallError, Client};
use super::exchange::Response;
use super::remote::{Errand, Shared, State};
use super::wire::{self, Answer, RunResult};
use crate::journal::Key;

/// An order that was answered, or never will be, before anybody looked at it.
pub(super) struct Answered {
    pub(super) what: Errand,
    pub(super) address: Address,
    pub(super) answer: Result<Response, CallError>,
    pub(super) covers: bool,
}

impl Shared {
    /// Looks at the answers that came.
    pub(super) fn settle(&self) {
        let answers = std::mem::take(&mut *self.answers.lock().unwrap_or_else(PoisonError::into_inner));
        for Answered { what, address, answer, covers } in answers {
            let answer = answer.and_then(|response| Client::read(&address, &response));
            self.answered(what, answer, covers);
        }
    }

    fn answered(&self, errand: Errand, answer: Result<Answer, CallError>, covers: bool) {
        match answer {
            Ok(answer) if answer.is_ok() => {
                self.counts.accepted.fetch_add(1, Ordering::Relaxed);
                self.taken(errand, covers);
            }
            Ok(answer) => {
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
                let address = self.state().share(errand).map(|share| share.seat.address.clone());
                let address = address.as_ref().map_or("the executor", Address::as_str);
                let text = match answer.message.as_str() {
                    "" => format!("{address} refused with code {}", answer.code),
                    message => format!("{address} refused: {message}"),
                };
                self.end_share(errand, Outcome::NotStarted(text.into()), None);
            }
            Err(CallError::NoAnswer(text)) => {
                self.counts.unanswered.fetch_add(1, Ordering::Relaxed);
                // It may have arrived. Whoever watches finds out, or gives it up.
                tracing::warn!(run = %errand.0.run, "{text}; waiting for a sign of the run");
                let mut state = self.state();
                if let Some(share) = state.share(errand) {
                    share.sight.trusted = true;
                    // It has been silent since the order left.
                    share.sight.silent_since = share.sight.since;
                }
                state.ledger.unanswered(errand.0, errand.1);
                state.ledger.write();
            }
            Err(error) => {
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
                self.end_share(errand, Outcome::NotStarted(error.text().into()), None);
            }
        }
    }

    /// An executor has a share: it answered the order, or gave another sign of it.
    pub(super) fn taken(&self, errand: Errand, covers: bool) {
        let mut state = self.state();
        let key = errand.0;
        let Some(share) = state.share(errand) else { return };
        share.sight.accepted = true;
        let is_new = share.end.is_none() && share.seat.status == SeatStatus::Sent;
        if share.end.is_none() {
            share.seat.status = SeatStatus::Running;
        }
        // Whoever looks at a broadcast wants to see which shares were taken.
        let taken = (is_new && share.seat.total > 1).then(|| share.seat.clone());
        let address = share.seat.address.clone();
        if covers {
            state.cover(key, &address);
        }
        let mut kinds = Vec::with_capacity(2);
        if let Some(entry) = state.entry(key).filter(|entry| !entry.is_up) {
            entry.is_up = true;
            kinds.push((key, ReportKind::Started));
        }
        drop(state);
        kinds.extend(taken.map(|seat| (key, ReportKind::Seat(Box::new(seat)))));
        if !kinds.is_empty() {
            self.tell(kinds);
        }
    }

    pub(super) fn take_results(&self, results: &[RunResult]) -> io::Result<()> {
        // That an order was taken comes before what came of it.
        self.settle();
        let mut kinds = Vec::with_capacity(3 * results.len());
        let mut state = self.state();
        for result in results {
            let Some(errand) = state.by_log.get(&result.log).copied() else {
                self.counts.strays.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            let code = i32::try_from(result.code).unwrap_or(500);
            let outcome = match result.code {
                wire::OK => Outcome::Exited(0),
                wire::TIMED_OUT if result.message.is_empty() => Outcome::TimedOut,
                _ => Outcome::Reported(code, result.message.as_str().into()),
            };
            if let Some(share) = state.share(errand) {
                // A result is a sign that the order was taken, whether or not it was ever answered.
                share.sight.accepted = true;
            }
            let output = (outcome == Outcome::Exited(0)).then(|| result.message.as_str().into());
            let counted = match self.end_in(&mut state, errand, outcome, output, &mut kinds) {
                true => &self.counts.results,
                false => &self.counts.strays,
            };
            counted.fetch_add(1, Ordering::Relaxed);
        }
        // In the ledger before anybody hears of it, and on disk before the executor does, which then forgets it.
        let written = state.ledger.write_through();
        drop(state);
        self.tell(kinds);
        written?.wait()
    }

    /// A share is over; the first end counts.
    pub(super) fn end_share(&self, errand: Errand, outcome: Outcome, output: Option<Box<str>>) -> bool {
        let mut kinds = Vec::with_capacity(3);
        let mut state = self.state();
        let is_first = self.end_in(&mut state, errand, outcome, output, &mut kinds);
        state.ledger.write();
        drop(state);
        self.tell(kinds);
        is_first
    }

    fn end_in(
        &self,
        state: &mut State,
        errand: Errand,
        outcome: Outcome,
        output: Option<Box<str>>,
        kinds: &mut Vec<(Key, ReportKind)>,
    ) -> bool {
        let (key, index) = errand;
        // An executor may call what was killed a success.
        let halted = state.share(errand).is_some_and(|share| share.halted);
        let outcome = match state.entry(key).and_then(|entry| entry.halt) {
            Some(halt) => halt.outcome(),
            None if halted => Outcome::Stopped,
            None => outcome,
        };
        let lost = outcome == Outcome::Lost;
        if !state.ledger.end(key, index, (self.now)(), outcome, output.as_deref()) {
            return false;
        }
        if lost {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
        let Some(entry) = state.entry(key) else { return false };
        if !entry.is_up && entry.shares.iter().any(|share| share.sight.accepted) {
            // The result overtook the answer to the order.
            entry.is_up = true;
            kinds.push((key, ReportKind::Started));
        }
        if let Some(share) = entry.shares.iter().find(|share| share.seat.index == index) {
            kinds.push((key, ReportKind::Seat(Box::new(share.seat.clone()))));
        }
        if let Some(outcome) = entry.outcome().filter(|_| !entry.is_over) {
            entry.is_over = true;
            let output = output.filter(|_| entry.shares.len() == 1);
            kinds.push((key, ReportKind::Ended { outcome, output }));
            state.starts.remove(&key);
        }
        true
    }
}
