use std::fmt;
use std::str::FromStr;

use crate::{RunId, RunIdError, SeatRecord, StepRecord, StepStatus};

/// What a run or one share of a broadcast is called: `01kx3v9a2m000`, or `01kx3v9a2m000.2`.
///
/// A share is a child of its run: whoever may name a run may name a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunName {
    /// The run.
    pub run: RunId,
    /// Which of its shares, from 0; `None` for the run itself.
    pub share: Option<u32>,
}

/// Why a text is not the name of a run or a share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunNameError {
    /// What stands before the dot is no id.
    Run(RunIdError),
    /// What stands behind it is no number.
    Share,
}

impl From<RunId> for RunName {
    fn from(run: RunId) -> RunName {
        RunName { run, share: None }
    }
}

impl FromStr for RunName {
    type Err = RunNameError;

    fn from_str(text: &str) -> Result<RunName, RunNameError> {
        let (run, share) = match text.split_once('.') {
            Some((run, share)) => (run, Some(share)),
            None => (text, None),
        };
        let run = run.parse().map_err(RunNameError::Run)?;
        let number = |share: &str| -> Option<u32> {
            let plain = share.bytes().all(|byte| byte.is_ascii_digit());
            // One share has one name: `.02` is none.
            share.parse().ok().filter(|_| plain && (share == "0" || !share.starts_with('0')))
        };
        match share {
            None => Ok(RunName { run, share: None }),
            Some(share) => Ok(RunName { run, share: Some(number(share).ok_or(RunNameError::Share)?) }),
        }
    }
}

impl fmt::Display for RunName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.share {
            None => write!(f, "{}", self.run),
            Some(share) => write!(f, "{}.{share}", self.run),
        }
    }
}

impl fmt::Display for RunNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunNameError::Run(error) => write!(f, "{error}"),
            RunNameError::Share => write!(f, "a share is called by its run, a dot and its number, from 0"),
        }
    }
}

impl std::error::Error for RunNameError {}

/// Why a run has no such share, as the end of a sentence that begins with the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareError {
    /// None of its steps was shared out.
    NotShared,
    /// It has so many shares.
    Beyond(u32),
}

impl fmt::Display for ShareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShareError::NotShared => {
                write!(f, "has no shares: no step of it was given out as a broadcast to several executors")
            }
            ShareError::Beyond(total) => {
                write!(f, "has {total} shares, 0 to {}", total.saturating_sub(1))
            }
        }
    }
}

impl std::error::Error for ShareError {}

/// The share of this number, and the step it is of: of the broadcast that is on, or else of the last one.
pub fn share_of(steps: &[StepRecord], share: u32) -> Result<(&StepRecord, &SeatRecord), ShareError> {
    let shared = || steps.iter().rev().filter(|step| step.seats.first().is_some_and(|seat| seat.total > 1));
    let is_on = |step: &&StepRecord| matches!(step.status, StepStatus::Running | StepStatus::Retrying);
    let step = shared().find(is_on).or_else(|| shared().next()).ok_or(ShareError::NotShared)?;
    let seat = step.seats.iter().find(|seat| seat.index == share);
    let total = step.seats.first().map_or(0, |seat| seat.total);
    seat.map(|seat| (step, seat)).ok_or(ShareError::Beyond(total))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeatStatus;

    #[test]
    fn names_of_runs_and_shares() {
        let run = RunId::from_raw(7);
        let good = |text: &str, share: Option<u32>| {
            assert_eq!(text.parse(), Ok(RunName { run, share }), "{text}");
            assert_eq!(RunName { run, share }.to_string(), text);
        };
        good("0000000000007", None);
        good("0000000000007.0", Some(0));
        good("0000000000007.12", Some(12));
        for bad in ["", ".", ".2", "7", "0000000000007.", "0000000000007.x", "0000000000007.02"] {
            assert!(bad.parse::<RunName>().is_err(), "{bad}");
        }
        for bad in ["0000000000007.-1", "0000000000007.+1", "0000000000007.1.2", "0000000000007.4294967296"] {
            assert_eq!(bad.parse::<RunName>(), Err(RunNameError::Share), "{bad}");
        }
    }

    #[test]
    fn a_share_is_of_the_broadcast_that_is_on_or_was_last() {
        let seat = |index, total| SeatRecord {
            index,
            total,
            address: "http://h:1".parse().expect("an address"),
            log: 1,
            attempt: 1,
            at: 1,
            ended_at: None,
            status: SeatStatus::Running,
            message: None,
            again: false,
        };
        let step = |name: &str, status, total: u32| StepRecord {
            name: name.into(),
            status,
            attempt: 1,
            lost: 0,
            started_at: None,
            ended_at: None,
            exit_code: None,
            message: None,
            output: None,
            seats: (0..total).map(|index| seat(index, total)).collect(),
            calls: Vec::new(),
        };
        let on = step("on", StepStatus::Running, 2);
        let over = step("over", StepStatus::Failed, 3);
        let alone = step("alone", StepStatus::Succeeded, 1);
        let check = |steps: &[StepRecord], share, expected: Result<&str, ShareError>| {
            let found = share_of(steps, share).map(|(step, seat)| (&*step.name, seat.index));
            assert_eq!(found, expected.map(|name| (name, share)), "{share}");
        };
        check(&[], 0, Err(ShareError::NotShared));
        check(std::slice::from_ref(&alone), 0, Err(ShareError::NotShared));
        check(&[over.clone(), alone.clone()], 2, Ok("over"));
        check(&[over.clone(), alone.clone()], 9, Err(ShareError::Beyond(3)));
        check(&[on.clone(), over.clone()], 1, Ok("on"));
        check(&[on, over, alone], 2, Err(ShareError::Beyond(2)));
    }
}
