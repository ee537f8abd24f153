//! What is out at executors: attempts, their shares, and how they came to an end.

use cadran_core::{Dialect, Executor, Found, GroupName, Millis, Outcome, SeatRecord, SeatStatus};
use tokio::time::Instant;

use crate::journal::Key;

/// One attempt that was ordered and whose run is not closed.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The number the executors know the step by.
    pub(crate) number: u32,
    pub(crate) group: GroupName,
    /// For the name of its log file.
    pub(crate) step_name: Box<str>,
    /// When it was ordered.
    pub(crate) at: Millis,
    /// The executor's time limit in seconds; 0 means none.
    pub(crate) timeout_secs: u32,
    /// It was told to stop, and why.
    pub(crate) halt: Option<Halt>,
    pub(crate) shares: Vec<Share>,
    /// Its start was reported.
    pub(crate) is_up: bool,
    /// Its end was reported.
    pub(crate) is_over: bool,
}

/// Why an attempt is being ended from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// Somebody asked.
    Stop,
    /// It passed its time limit, and the executor said nothing.
    TimedOut,
}

impl Halt {
    /// How what it ends has ended.
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Halt::Stop => Outcome::Stopped,
            Halt::TimedOut => Outcome::TimedOut,
        }
    }
}

/// One share at one executor.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    pub(crate) seat: SeatRecord,
    pub(crate) dialect: Dialect,
    pub(crate) end: Option<(Millis, Outcome)>,
    /// Somebody stopped it alone: however it ends, it was stopped.
    pub(crate) halted: bool,
    pub(crate) sight: Sight,
}

/// What looking at a share showed so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    /// When its order left, or when it was taken up after a restart. `None` while it waits in a lane.
    pub(crate) since: Option<Instant>,
    /// The executor said that it has the order; of a worker, that it was put in line for it.
    pub(crate) accepted: bool,
    /// When the executor was last asked about it.
    pub(crate) looked_at: Option<Instant>,
    /// Since when the executor says that the job is idle.
    pub(crate) idle_since: Option<Instant>,
    /// Since when the executor cannot be reached.
    pub(crate) silent_since: Option<Instant>,
    /// The executor was seen to know when a job is on, or is known to have dropped what it had.
    pub(crate) trusted: bool,
    /// The executor is on nobody's list any more.
    pub(crate) gone: bool,
    /// When a later order took its place there, under [`Block::Cover`](cadran_core::Block).
    pub(crate) covered_at: Option<Instant>,
}

impl Share {
    pub(crate) fn new(seat: SeatRecord, dialect: Dialect) -> Share {
        let sight = Sight {
            since: None,
            accepted: false,
            looked_at: None,
            idle_since: None,
            silent_since: None,
            trusted: false,
            gone: false,
            covered_at: None,
        };
        Share { seat, dialect, end: None, halted: false, sight }
    }

    /// Its executor gave no sign of it yet.
    pub(crate) fn is_untaken(&self) -> bool {
        self.seat.status == SeatStatus::Sent && self.end.is_none()
    }

    pub(crate) fn executor(&self) -> Executor {
        Executor { address: self.seat.address.clone(), dialect: self.dialect }
    }

    /// The first end counts. `result` is what the executor said about a success.
    pub(crate) fn end(&mut self, at: Millis, outcome: Outcome, result: Option<&str>) -> bool {
        if self.end.is_some() {
            return false;
        }
        let outcome = if self.halted { Outcome::Stopped } else { outcome };
        self.seat.status = match outcome {
            Outcome::Exited(0) => SeatStatus::Succeeded,
            Outcome::Stopped => SeatStatus::Stopped,
            Outcome::Lost => SeatStatus::Lost,
            _ => SeatStatus::Failed,
        };
        let result = result.filter(|text| !text.is_empty() && outcome == Outcome::Exited(0));
        let shown = result.map(|text| &text[..text.floor_char_boundary(RESULT_BYTES_MAX)]);
        self.seat.message = match self.halted {
            true => Some("stopped on request".into()),
            false => shown.map(Into::into).or_else(|| said(&outcome)),
        };
        self.seat.ended_at = Some(at);
        self.end = Some((at, outcome));
        true
    }
}

/// Longest result of a share that is kept with the run: the row holds those of all shares.
const RESULT_BYTES_MAX: usize = 2_000;

/// What an outcome says about a share, in words.
fn said(outcome: &Outcome) -> Option<Box<str>> {
    match outcome {
        Outcome::Exited(0) => None,
        Outcome::Exited(code) => Some(format!("exited with {code}").into()),
        Outcome::Signaled(signal) => Some(format!("was ended by signal {signal}").into()),
        Outcome::Reported(code, text) if text.is_empty() => Some(format!("reported {code}").into()),
        Outcome::Reported(_, text) | Outcome::NotStarted(text) | Outcome::Halted(text) => Some(text.clone()),
        Outcome::PreconditionUnmet(why) | Outcome::JobPreconditionUnmet(why) => {
            Some(format!("a precondition was not met: {why}").into())
        }
        Outcome::TimedOut => Some("passed its time limit".into()),
        Outcome::Stopped => Some("stopped".into()),
        Outcome::Lost => Some("lost with its executor".into()),
    }
}

impl Entry {
    /// The shares that are still out.
    pub(crate) fn open(&self) -> impl Iterator<Item = &Share> {
        self.shares.iter().filter(|share| share.end.is_none())
    }

    /// How the attempt ended, when all of its shares have.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        if self.shares.is_empty() || self.open().next().is_some() {
            return None;
        }
        if let Some(halt) = self.halt {
            return Some(halt.outcome());
        }
        if let [share] = &self.shares[..]
            && !share.halted
        {
            return share.end.as_ref().map(|(_, outcome)| outcome.clone());
        }
        let ends = || self.shares.iter().filter_map(|share| Some((share, &share.end.as_ref()?.1)));
        let failed: Vec<(&Share, &Outcome)> =
            ends().filter(|(_, outcome)| **outcome != Outcome::Exited(0)).collect();
        let Some((first, outcome)) = failed.first() else { return Some(Outcome::Exited(0)) };
        let text = |share: &Share| {
            format!(
                "{} of {} shares failed; share {} at {}: {}",
                failed.len(),
                share.seat.total,
                share.seat.index,
                share.seat.address,
                share.seat.message.as_deref().unwrap_or("failed"),
            )
        };
        if let Some((halted, _)) = failed.iter().find(|(share, _)| share.halted) {
            return Some(Outcome::Halted(text(halted).into()));
        }
        if failed.iter().all(|(_, outcome)| **outcome == Outcome::Lost) {
            return Some(Outcome::Lost);
        }
        let code = match outcome {
            Outcome::Reported(code, _) | Outcome::Exited(code) => *code,
            _ => 500,
        };
        Some(Outcome::Reported(code, text(first).into()))
    }

    /// What is known of it after a restart.
    pub(crate) fn found(&self, key: Key) -> Found {
        let ends = self.shares.iter().filter_map(|share| Some(share.end.as_ref()?.0));
        let ended = self.outcome().map(|outcome| (ends.max().unwrap_or(self.at), outcome));
        Found {
            run: key.run,
            step: key.step,
            attempt: key.attempt,
            started_at: self.at,
            lives: ended.is_none() && !self.shares.is_empty(),
            ended,
            output: match &self.shares[..] {
                [only] => only.seat.message.clone().filter(|_| only.seat.status == SeatStatus::Succeeded),
                _ => None,
            },
            seats: self.shares.iter().map(|share| share.seat.clone()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn entry(total: u32) -> Entry {
        let share = |index| {
            let address = format!("http://h:{}", index + 1).parse().expect("an address");
            let seat = SeatRecord {
                index,
                total,
                address,
                log: u64::from(index),
                attempt: 1,
                at: 1,
                ended_at: None,
                status: SeatStatus::Sent,
                message: None,
                again: false,
            };
            Share::new(seat, Dialect::Two)
        };
        Entry {
            number: 1,
            group: "g".parse().expect("a name"),
            step_name: "s".into(),
            at: 1,
            timeout_secs: 0,
            halt: None,
            shares: (0..total).map(share).collect(),
            is_up: false,
            is_over: false,
        }
    }

    #[test]
    fn an_attempt_ends_with_its_last_share() {
        let ok = Outcome::Exited(0);
        let bad = Outcome::Reported(500, "no".into());
        let check = |ends: &[Option<&Outcome>], halt: Option<Halt>, expected: Option<Outcome>| {
            let mut entry = Entry { halt, ..entry(ends.len() as u32) };
            for (share, end) in entry.shares.iter_mut().zip(ends) {
                if let Some(outcome) = end {
                    assert!(share.end(5, (*outcome).clone(), None));
                    assert!(!share.end(6, Outcome::Lost, None), "the first end counts");
                }
            }
            assert_eq!(entry.outcome(), expected, "{ends:?}");
        };
        check(&[], None, None);
        check(&[None], None, None);
        check(&[Some(&ok)], None, Some(Outcome::Exited(0)));
        check(&[Some(&bad)], None, Some(bad.clone()));
        check(&[Some(&ok), None], None, None);
        check(&[Some(&ok), Some(&ok)], None, Some(Outcome::Exited(0)));
        let text = "1 of 2 shares failed; share 1 at http://h:2: no";
        check(&[Some(&ok), Some(&bad)], None, Some(Outcome::Reported(500, text.into())));
        check(&[Some(&ok), Some(&Outcome::Lost)], None, Some(Outcome::Lost));
        for shares in [1, 3] {
            let mut entry = entry(shares);
            let last = entry.shares.len() - 1;
            entry.shares[last].halted = true;
            entry.shares.iter_mut().for_each(|share| assert!(share.end(5, ok.clone(), Some("fine"))));
            let text =
                format!("1 of {shares} shares failed; share {last} at http://h:{shares}: stopped on request");
            assert_eq!(
                entry.outcome(),
                Some(Outcome::Halted(text.into())),
                "an executor may call it a success"
            );
            assert_eq!(entry.shares[last].seat.status, SeatStatus::Stopped);
        }
        check(&[Some(&ok)], Some(Halt::Stop), Some(Outcome::Stopped));
        check(&[Some(&bad)], Some(Halt::TimedOut), Some(Outcome::TimedOut));
    }
}
