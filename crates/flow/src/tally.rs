use cadran_core::{Body, StepNo};

use crate::graph::NONE;
use crate::slot::Slot;

/// How many steps ended in one way, and the lowest of them: enough for one sentence about the run, in four bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    first: u16,
    pub(crate) count: u16,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally { first: NONE, count: 0 }
    }
}

impl Tally {
    pub(crate) fn add(&mut self, no: StepNo) {
        self.first = self.first.min(no.0);
        self.count = self.count.saturating_add(1);
    }

    /// "step build exited with 2 after 3 attempts; 1 more step failed".
    pub(crate) fn sentence(self, body: &Body, slots: &[Slot]) -> Option<String> {
        let no = StepNo(self.first);
        let (step, slot) = (body.step(no)?, slots.get(usize::from(no.0))?);
        let why = slot.message.as_deref().unwrap_or("failed");
        let others = match self.count {
            0 | 1 => String::new(),
            2 => "; 1 more step failed".into(),
            count => format!("; {} more steps failed", count - 1),
        };
        Some(format!("step {} {why}{others}", step.name))
    }
}
