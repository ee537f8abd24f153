use std::cmp::Reverse;
use std::collections::BinaryHeap;

use cadran_core::{Body, StepNo};

/// Who waits for whom in a run of several steps.
///
/// Built once per run rather than kept beside the shared body: a run with several steps must set up a counter per
/// step anyway, the lists cost two bytes per dependency, and no lock or lifetime ties runs of one job together. A
/// run with one step has none of this.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    /// Steps that depend on step `n`: `targets[ends[n - 1]..ends[n]]`.
    ends: Box<[u32]>,
    targets: Box<[u16]>,
    /// How many dependencies of a step are not over.
    waits: Box<[u32]>,
    /// The lowest dependency of a step that is over without letting it start; [`NONE`] without one.
    blocked_by: Box<[u16]>,
    /// Steps that want an attempt, lowest number first.
    ready: BinaryHeap<Reverse<u16>>,
}

/// No step: beyond every number that a body within its bound gives out.
pub(crate) const NONE: u16 = u16::MAX;

/// What became of a step because one that it waited for is over.
pub(crate) enum Released {
    /// It waits for others still.
    No,
    /// All are over, and it may start.
    Ready,
    /// All are over, and this one did not let it start.
    Blocked(StepNo),
}

impl Graph {
    /// The graph of `body` before anything is over. A dependency on a step that is not there counts for nothing:
    /// job files with one are refused when they are read.
    pub(crate) fn new(body: &Body) -> Graph {
        let count = body.steps.len();
        let depends = |no: usize| body.steps[no].depends.iter().filter(move |on| usize::from(on.0) < count);
        let mut ends = vec![0u32; count];
        let mut waits = vec![0u32; count];
        for (no, waits) in waits.iter_mut().enumerate() {
            for on in depends(no) {
                ends[usize::from(on.0)] += 1;
                *waits += 1;
            }
        }
        let mut total = 0;
        for end in &mut ends {
            // First the start of each list; filling it moves this to its end.
            let len = *end;
            *end = total;
            total += len;
        }
        let mut targets = vec![0u16; total as usize];
        for no in 0..count {
            for on in depends(no) {
                let at = &mut ends[usize::from(on.0)];
                targets[*at as usize] = no as u16;
                *at += 1;
            }
        }
        Graph {
            ends: ends.into(),
            targets: targets.into(),
            waits: waits.into(),
            blocked_by: vec![NONE; count].into(),
            ready: BinaryHeap::new(),
        }
    }

    /// The places of the steps that depend on `no`, for [`Graph::dependent`].
    pub(crate) fn dependents(&self, no: StepNo) -> std::ops::Range<usize> {
        let no = usize::from(no.0);
        let from = no.checked_sub(1).map_or(0, |before| self.ends[before]);
        from as usize..self.ends[no] as usize
    }

    /// The step at a place.
    pub(crate) fn dependent(&self, at: usize) -> StepNo {
        StepNo(self.targets[at])
    }

    /// `on` is over; `lets` says whether steps behind it may start.
    pub(crate) fn release(&mut self, no: StepNo, on: StepNo, lets: bool) -> Released {
        let at = usize::from(no.0);
        if !lets {
            self.blocked_by[at] = self.blocked_by[at].min(on.0);
        }
        self.waits[at] = self.waits[at].saturating_sub(1);
        self.standing(no)
    }

    /// Whether a step may start as things are.
    pub(crate) fn standing(&self, no: StepNo) -> Released {
        let at = usize::from(no.0);
        match (self.waits[at], self.blocked_by[at]) {
            (0, NONE) => Released::Ready,
            (0, by) => Released::Blocked(StepNo(by)),
            _ => Released::No,
        }
    }

    /// Puts a step in line for an attempt.
    pub(crate) fn push_ready(&mut self, no: StepNo) {
        self.ready.push(Reverse(no.0));
    }

    /// Takes the lowest step in line.
    pub(crate) fn pop_ready(&mut self) -> Option<StepNo> {
        self.ready.pop().map(|Reverse(no)| StepNo(no))
    }

    /// Takes every step out of line.
    pub(crate) fn clear_ready(&mut self) {
        self.ready.clear();
    }
}
