//! What is asked, and what is answered.

use std::cmp::Reverse;
use std::sync::Arc;

use cadran_core::{Access, Footprint, JobId, Millis, Overlap, RunId, SkipReason, Trigger};

/// A run that left the ring.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The run.
    pub run: RunId,
    /// Its job.
    pub job: JobId,
    /// Its due.
    pub due: Millis,
    /// Why it exists.
    pub trigger: Trigger,
    /// It is an item of a backlog, or a missed due that is caught up.
    pub of_backlog: bool,
    /// Higher starts first.
    pub priority: i32,
    /// The job's rule.
    pub overlap: Overlap,
    /// What it touches, if it says so.
    pub footprint: Option<Arc<Footprint>>,
}

impl Candidate {
    /// Whether it may start beside others of its job.
    pub(crate) fn may_overlap(&self) -> bool {
        self.overlap == Overlap::Allow && self.trigger != Trigger::Restart
    }

    pub(crate) fn urgency(&self) -> Urgency {
        (Reverse(self.priority), self.due, self.run)
    }
}

/// Urgency: higher priority, then earlier due, then lower run id (the order of submission).
pub(crate) type Urgency = (Reverse<i32>, Millis, RunId);

/// What a candidate may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Start now.
    Start,
    /// Wait; a later [`Freed`] names it.
    Wait(WaitReason),
    /// Do not start.
    Skip(SkipReason),
}

/// What a waiting run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// The end of this run of the same job.
    Job(RunId),
    /// A free slot.
    Slot,
    /// Something that it touches; the [`Blocker`] says what.
    Footprint,
}

/// What is in the way of a footprint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// What is wanted.
    pub wanted: Wanted,
    /// One of those in the way.
    pub holder: RunId,
    /// The holder has only a part of it, below the key.
    pub in_part: bool,
    /// The holder waits itself, and goes first.
    pub in_line: bool,
}

/// What a footprint wants and cannot have yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A key.
    Key(Access, Box<str>),
    /// So many units of a pool.
    Units(u32, Box<str>),
}

/// Why a run waits, at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// What for.
    pub reason: WaitReason,
    /// What is in the way, for [`WaitReason::Footprint`].
    pub blocker: Option<Blocker>,
    /// How many of its kind are before it.
    pub before: usize,
    /// Whether it has a ticket: nothing that conflicts passes it any more.
    pub ticket: bool,
    /// How often it was tried in vain.
    pub tries: u32,
}

/// The answer to a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// What it may do.
    pub verdict: Verdict,
    /// Runs to stop so that it can start.
    pub stop: Vec<RunId>,
    /// Runs that waited and do not any more: the candidate supersedes them.
    pub displaced: Vec<RunId>,
    /// What is in the way of its footprint.
    pub blocker: Option<Box<Blocker>>,
}

impl From<Verdict> for Admission {
    fn from(verdict: Verdict) -> Admission {
        Admission { verdict, stop: Vec::new(), displaced: Vec::new(), blocker: None }
    }
}

/// What follows from the end of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Freed {
    /// Those that start now, in order.
    pub starts: Vec<RunId>,
    /// Those whose turn came and that wait for something else now.
    pub waits: Vec<(RunId, WaitReason, Option<Box<Blocker>>)>,
    /// Those whose turn came and that may not start at all.
    pub skips: Vec<(RunId, SkipReason, Option<Box<Blocker>>)>,
}
